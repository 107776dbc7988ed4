/*
 * Resetting a device, and stopping the library, beside threads that use its memory: a
 * handle and its mappings die together, and what is in use lives until it is not.
 */
#include "unit.h"

#include "core/device/setup.h"
#include "core/hostmem/hostmem.h"
#include "core/pool/mempool_pool.h"
#include "core/vmm/phys.h"
#include "core/vmm/vspace.h"
#include "core/vmm/reservation.h"
#include "support/pools.h"
#include "support/process.h"
#include "support/support.h"

#define N_RESETS 50000
#define MOST_MAPPINGS 500000

static atomic_bool is_over;

/*
 * Maps and unmaps one handle until a reset takes it, then another, while there are resets.
 * Once the handle is dead nothing may be mapped where it was: nobody would ever undo that.
 */
static const char *map_until_it_dies(struct worker *self)
{
    aclrtPhysicalMemProp prop = {.memAttr = ACL_HBM_MEM_HUGE,
                                 .location.type = ACL_MEM_LOCATION_TYPE_DEVICE};
    aclrtPhysicalMemProp found;
    aclrtDrvMemHandle handle;
    void *va;

    worker_check(aclrtReserveMemAddress(&va, CHUNK, 0, NULL, 1) == ACL_SUCCESS);
    for (unsigned n = 0; n < MOST_MAPPINGS && !is_over; n++) {
        if (aclrtMallocPhysical(&handle, CHUNK, &prop, 0) != ACL_SUCCESS)
            continue;
        for (; n < MOST_MAPPINGS && !is_over &&
               aclrtMapMem(va, CHUNK, 0, handle, 0) == ACL_SUCCESS;
             n++) {
            bool is_dead =
                aclrtMemGetAllocationPropertiesFromHandle(handle, &found) != ACL_SUCCESS;
            bool was_mapped = aclrtUnmapMem(va) == ACL_SUCCESS;

            worker_check(!is_dead || !was_mapped);
        }
        aclrtFreePhysical(handle);
    }
    return NULL;
}

static const char *reset(struct worker *self)
{
    for (int i = 0; i < N_RESETS; i++) {
        aclrtSetDevice(0);
        aclrtResetDevice(0);
    }
    is_over = true;
    return NULL;
}

static void a_mapping_does_not_outlive_the_reset_of_its_device(void **state)
{
    struct worker workers[3] = {
        {.run = map_until_it_dies}, {.run = map_until_it_dies}, {.run = reset}};
    const char *failure = run_workers(workers, 3);

    is_over = true;
    if (failure != NULL)
        fail_msg("%s", failure);
    assert_acl_ok(aclrtSetDevice(0));
    assert_acl_ok(aclrtResetDevice(0)); /* memory that came after the last reset */
    assert_int_equal(am_phys_sum().n_mappings, 0);
    assert_int_equal(am_phys_sum().n_physes, 0);
}

/*
 * Maps of handles that another thread frees at the same time fail, while a third thread uses
 * the mappings that succeeded.
 */
#define N_FREES 20000

static struct {
    char *va;                         /* two chunks */
    _Atomic(aclrtDrvMemHandle) freed; /* that is mapped and freed by two threads */
    atomic_uint n_mapped;             /* of the second chunk, with success */
    atomic_uint n_refused;
} race;

static const char *map_and_free(struct worker *self)
{
    aclrtPhysicalMemProp prop = {.memAttr = ACL_HBM_MEM_HUGE,
                                 .location.type = ACL_MEM_LOCATION_TYPE_DEVICE};

    for (int i = 0; i < N_FREES; i++) {
        aclrtDrvMemHandle handle;

        worker_check(aclrtMallocPhysical(&handle, CHUNK, &prop, 0) == ACL_SUCCESS);
        worker_check(aclrtMapMem(race.va, CHUNK, 0, handle, 0) == ACL_SUCCESS);
        race.freed = handle;
        worker_check(aclrtFreePhysical(handle) == ACL_SUCCESS);
        worker_check(aclrtUnmapMem(race.va) == ACL_SUCCESS);
    }
    is_over = true;
    return NULL;
}

static const char *map_what_is_freed(struct worker *self)
{
    while (!is_over) {
        aclrtDrvMemHandle handle = race.freed;
        aclError rc = aclrtMapMem(race.va + CHUNK, CHUNK, 0, handle, 0);

        worker_check(rc == ACL_SUCCESS || rc == ACL_ERROR_RT_INVALID_HANDLE ||
                     handle == NULL);
        race.n_mapped += rc == ACL_SUCCESS;
        race.n_refused += rc != ACL_SUCCESS;
        if (rc == ACL_SUCCESS)
            worker_check(aclrtUnmapMem(race.va + CHUNK) == ACL_SUCCESS);
    }
    return NULL;
}

static const char *use_both(struct worker *self)
{
    char bytes[64];

    worker_check(aclrtSetDevice(0) == ACL_SUCCESS);
    for (int i = 0; !is_over; i++) /* fails where nothing is mapped */
        (void)aclrtMemcpy(bytes, sizeof bytes, race.va + i % 2 * CHUNK, sizeof bytes,
                          ACL_MEMCPY_DEVICE_TO_HOST);
    return NULL;
}

static void a_map_of_a_freed_handle_leaves_other_mappings_alone(void **state)
{
    struct worker workers[3] = {
        {.run = map_and_free}, {.run = map_what_is_freed}, {.run = use_both}};
    void *va = NULL;

    is_over = false;
    race.freed = NULL;
    assert_acl_ok(aclrtReserveMemAddress(&va, 2 * CHUNK, 0, NULL, 1));
    race.va = va;
    assert_null(run_workers(workers, 3));
    assert_int_equal(am_phys_sum().n_mappings, 0);
    assert_int_equal(am_phys_sum().n_physes, 0); /* each reference was dropped */
    assert_acl_ok(aclrtReleaseMemAddress(va));
    is_over = false;
}

/* What a thread does that is in a call about the pool when another stops the library. */
static void a_pool_that_is_in_use_outlives_the_stop(void **state)
{
    aclrtStream stream = NULL;
    struct am_pool *pool;
    uintptr_t base;
    void *handle;
    void *p = NULL;

    assert_acl_ok(aclrtSetDevice(0));
    assert_acl_ok(aclrtCreateStream(&stream));
    handle = pool_create(8 * MIB);
    assert_acl_ok(aclrtMemPoolMallocAsync(&p, MIB, handle, stream));
    assert_int_equal(am_pool_get(handle, &pool), ACL_SUCCESS);
    base = (uintptr_t)p;

    assert_acl_ok(aclFinalize());
    assert_true(am_vspace_is_reserved(base, CHUNK, NULL));
    am_pool_put(pool);
    assert_false(am_vspace_is_reserved(base, CHUNK, NULL));
    assert_acl_ok(aclInit(NULL));
}

static aclError release_nothing(void *addr, size_t size)
{
    return ACL_ERROR_RT_FAILURE;
}

static void unpin_nothing(void *addr, size_t size)
{
    fail();
}

/* The same, and meanwhile the library was started anew, for devices of another kind. */
static void memory_in_use_ends_where_it_came_from(void **state)
{
    static char page[4096] __attribute__((aligned(4096)));
    struct am_backend_ops other = *am_setup.backend;
    const struct am_backend_ops *own = am_setup.backend;
    struct am_registered *used;
    struct am_pool *pool;
    void *handle = NULL;
    void *base = NULL;

    other.release = release_nothing;
    other.unpin = unpin_nothing;
    assert_acl_ok(aclrtSetDevice(0));
    handle = pool_create(8 * MIB);
    assert_acl_ok(aclrtMemPoolMallocAsync(&base, MIB, handle, NULL));
    assert_int_equal(am_pool_get(handle, &pool), ACL_SUCCESS);
    assert_acl_ok(aclrtHostRegisterV2(page, sizeof page, ACL_HOST_REG_PINNED));
    used = am_registered_get(page, sizeof page);
    assert_acl_ok(aclFinalize());

    am_setup.backend = &other;
    am_pool_put(pool);
    am_registered_put(used);
    am_setup.backend = own;
    assert_false(am_vspace_is_reserved((uintptr_t)base, CHUNK, NULL));
    assert_acl_ok(aclInit(NULL));
}

/* A thread that was about to allocate when another stopped the library. */
static void managed_memory_that_comes_late_stays(void **state)
{
    void *p = NULL;

    assert_acl_ok(aclrtSetDevice(0));
    assert_acl_ok(aclrtMemAllocManaged(&p, CHUNK, ACL_RT_MEM_ATTACH_GLOBAL));
    am_vspace_release_all(); /* as the stop of the library does */
    assert_true(am_vspace_is_reserved((uintptr_t)p, CHUNK, NULL));
    assert_acl_ok(aclrtMemset(p, CHUNK, 1, CHUNK));
    assert_acl_ok(aclrtFree(p));
    assert_false(am_vspace_is_reserved((uintptr_t)p, CHUNK, NULL));
    assert_acl_ok(aclrtResetDevice(0));
}

static int begin(void **state)
{
    start("default");
    return 0;
}

/* Reservations are left, which aclFinalize takes. */
static int end(void **state)
{
    assert_acl_ok(aclFinalize());
    return finish(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            a_mapping_does_not_outlive_the_reset_of_its_device, begin, end),
        cmocka_unit_test_setup_teardown(
            a_map_of_a_freed_handle_leaves_other_mappings_alone, begin, end),
        cmocka_unit_test_setup_teardown(a_pool_that_is_in_use_outlives_the_stop, begin,
                                        end),
        cmocka_unit_test_setup_teardown(memory_in_use_ends_where_it_came_from, begin,
                                        end),
        cmocka_unit_test_setup_teardown(managed_memory_that_comes_late_stays, begin, end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
