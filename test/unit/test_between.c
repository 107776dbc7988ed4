/*
 * Calls that another thread comes between: at every moment at which the first has no lock,
 * the second does all it has to do.
 */
#include "unit.h"

#include <stdatomic.h>

#include "core/hostmem/hostmem.h"
#include "core/stream/sched.h"
#include "core/vmm/phys.h"
#include "core/vmm/vspace.h"
#include "moments.h"
#include "support/support.h"
#include "support/vmm.h"

/* ---- a handle comes back while it is freed ---- */

static aclError export_open(aclrtDrvMemHandle handle, uint64_t *ret_number)
{
    return aclrtMemExportToShareableHandle(handle, ACL_MEM_HANDLE_TYPE_NONE,
                                           ACL_RT_VMM_EXPORT_FLAG_DISABLE_PID_VALIDATION,
                                           ret_number);
}

static bool can_be_imported(uint64_t number)
{
    aclrtDrvMemHandle handle;

    if (aclrtMemImportFromShareableHandle(number, 0, &handle) != ACL_SUCCESS)
        return false;
    assert_acl_ok(aclrtFreePhysical(handle));
    return true;
}

struct comeback {
    void *va; /* where the memory is mapped */
    aclrtDrvMemHandle handle;
    bool is_refused; /* a second export is */
    uint64_t number; /* of the last export */
};

static void retain_and_export(void *arg)
{
    struct comeback *c = arg;

    assert_acl_ok(aclrtMemRetainAllocationHandle(c->va, &c->handle));
    c->is_refused = export_open(c->handle, &c->number) != ACL_SUCCESS;
}

/* Whoever was told a number has it for as long as the handle lives, and no longer. */
static void free_while_it_comes_back(bool was_exported)
{
    struct comeback c = {.va = reserve(CHUNK)};

    for (unsigned n = 1, was_between = true; was_between; n++) {
        aclrtDrvMemHandle handle = alloc(CHUNK);

        map(c.va, CHUNK, handle);
        if (was_exported)
            assert_acl_ok(export_open(handle, &c.number));
        moment_arm(n, retain_and_export, &c);
        assert_acl_ok(aclrtFreePhysical(handle));
        was_between = moment_disarm();
        if (!was_between)
            retain_and_export(&c);
        assert_true(!c.is_refused || was_exported);
        assert_true(can_be_imported(c.number));
        assert_acl_ok(aclrtFreePhysical(c.handle));
        assert_false(can_be_imported(c.number));
        assert_acl_ok(aclrtUnmapMem(c.va));
    }
    assert_acl_ok(aclrtReleaseMemAddress(c.va));
}

static void a_handle_that_comes_back_is_exported(void **state)
{
    free_while_it_comes_back(false);
}

static void a_handle_that_comes_back_is_exported_once(void **state)
{
    free_while_it_comes_back(true);
}

/* ---- memory is freed, or the library stops, while some of it is unregistered ---- */

#define PAGE ((size_t)4096)
#define N_PAGES 7

static void free_host(void *arg)
{
    assert_acl_ok(aclrtFreeHost(arg));
}

static void finalize(void *arg)
{
    assert_acl_ok(aclFinalize());
}

static void start_again(void)
{
    assert_acl_ok(aclInit(NULL));
    assert_acl_ok(aclrtSetDevice(0));
}

static char *registered_pages(void)
{
    void *pages = NULL;

    assert_acl_ok(aclrtMallocHost(&pages, N_PAGES * PAGE));
    for (size_t i = 0; i < N_PAGES; i++)
        assert_acl_ok(
            aclrtHostRegisterV2((char *)pages + i * PAGE, PAGE, ACL_HOST_REG_MAPPED));
    return pages;
}

static void assert_not_registered(const char *pages)
{
    for (size_t i = 0; i < N_PAGES; i++)
        assert_false(am_host_is_registered(pages + i * PAGE));
}

static void freed_memory_is_not_registered(void **state)
{
    for (size_t i = 0; i < N_PAGES; i++) {
        for (unsigned n = 1, was_between = true; was_between; n++) {
            char *pages = registered_pages();

            moment_arm(n, free_host, pages);
            aclrtHostUnregister(pages + i * PAGE); /* refused where it was freed before */
            was_between = moment_disarm();
            if (!was_between)
                free_host(pages);
            assert_not_registered(pages);
        }
    }
}

static void memory_left_by_a_stop_is_not_registered(void **state)
{
    for (size_t i = 0; i < N_PAGES; i++) {
        for (unsigned n = 1, was_between = true; was_between; n++) {
            char *pages = registered_pages();

            moment_arm_outside(n, finalize, NULL);
            aclrtHostUnregister(pages + i * PAGE);
            was_between = moment_disarm();
            if (!was_between)
                finalize(NULL);
            assert_not_registered(pages);
            start_again();
        }
    }
}

/* Each look is a second later. */
static uint64_t hasty_clock(void)
{
    static _Atomic uint64_t now;

    return atomic_fetch_add(&now, UINT64_C(1000000000));
}

static void clock_set(uint64_t (*now)(void))
{
    am_lock(&am_sched.lock);
    am_sched.setup.now = now;
    is_time_ours = now == hasty_clock;
    am_unlock(&am_sched.lock);
}

/* Who unregisters gives up waiting for work, and the memory is freed all the same. */
static void memory_that_is_freed_in_use_is_not_registered(void **state)
{
    uint64_t (*clock)(void) = am_sched.setup.now;

    clock_set(hasty_clock);
    for (unsigned n = 1, was_between = true; was_between; n++) {
        char *pages = registered_pages();
        struct am_registered *used = am_registered_get(pages, PAGE);

        moment_arm(n, free_host, pages);
        aclrtHostUnregister(pages);
        was_between = moment_disarm();
        if (!was_between)
            free_host(pages);
        assert_not_registered(pages);
        am_registered_put(used);
    }
    clock_set(clock);
}

/* It ends with the next stop. */
static void a_registration_beside_a_stop_ends(void **state)
{
    static char page[4096] __attribute__((aligned(4096)));

    for (unsigned n = 1, was_between = true; was_between; n++) {
        bool is_refused;

        moment_arm_outside(n, finalize, NULL);
        is_refused = aclrtHostRegisterV2(page, PAGE, ACL_HOST_REG_PINNED) != ACL_SUCCESS;
        was_between = moment_disarm();
        assert_true(am_host_is_registered(page) == !is_refused);
        if (was_between)
            start_again();
        finalize(NULL);
        assert_false(am_host_is_registered(page));
        start_again();
    }
}

/* ---- the library stops while memory is imported ---- */

static void export_key(char key[ACL_IPC_HANDLE_SIZE])
{
    void *block = NULL;

    assert_acl_ok(aclrtMalloc(&block, CHUNK, ACL_MEM_MALLOC_HUGE_FIRST));
    assert_acl_ok(
        aclrtIpcMemGetExportKey(block, CHUNK, key, ACL_IPC_HANDLE_SIZE,
                                ACL_RT_IPC_MEM_EXPORT_FLAG_DISABLE_PID_VALIDATION));
}

/* Refused, or there until the next stop; what is left then is found by the teardown. */
static void an_import_beside_a_stop_ends(void **state)
{
    for (unsigned n = 1, was_between = true; was_between; n++) {
        char key[ACL_IPC_HANDLE_SIZE];
        void *addr = NULL;
        aclError rc;

        export_key(key);
        moment_arm_outside(n, finalize, NULL);
        rc = aclrtIpcMemImportByKey(&addr, key, 0);
        was_between = moment_disarm();
        assert_true(rc == ACL_SUCCESS || was_between);
        if (!was_between)
            finalize(NULL);
        start_again();
    }
}

/* ---- a map fails while other threads look up its addresses ---- */

struct failed_map {
    void *va;
    aclrtDrvMemHandle handle;
    struct am_mapping *found[16];
    unsigned n_found;
};

static void free_the_handle(void *arg)
{
    struct failed_map *map = arg;

    assert_acl_ok(aclrtFreePhysical(map->handle));
}

static void look_up(void *arg)
{
    struct failed_map *map = arg;
    struct am_mapping *mapping = am_mapping_get((uintptr_t)map->va);

    if (mapping != NULL && map->n_found < AM_ARRAY_SIZE(map->found))
        map->found[map->n_found++] = mapping;
    else if (mapping != NULL)
        am_mapping_put(mapping);
}

/* Whenever the handle is freed, and whatever lookups have found, the memory is freed. */
static void a_failed_map_loses_no_reference(void **state)
{
    struct failed_map map = {0};
    unsigned n_refused = 0;

    map.va = reserve(CHUNK);
    for (unsigned n = 1, was_between = true; was_between; n++) {
        bool is_mapped;

        map.handle = alloc(CHUNK);
        map.n_found = 0;
        moment_arm(n, free_the_handle, &map);
        moment_each(look_up, &map);
        is_mapped = aclrtMapMem(map.va, CHUNK, 0, map.handle, 0) == ACL_SUCCESS;
        moment_each(NULL, NULL);
        was_between = moment_disarm();
        n_refused += !is_mapped;
        if (is_mapped)
            assert_acl_ok(aclrtUnmapMem(map.va));
        else
            assert_int_equal(map.n_found, 0); /* lookups never find a failed mapping */
        if (!was_between)
            assert_acl_ok(aclrtFreePhysical(map.handle));
        while (map.n_found > 0)
            am_mapping_put(map.found[--map.n_found]);
        assert_int_equal(am_phys_sum().n_mappings, 0);
        assert_int_equal(am_phys_sum().n_physes, 0);
    }
    assert_true(n_refused > 0);
    assert_acl_ok(aclrtReleaseMemAddress(map.va));
}

/* ---- a thread synchronises a stream whose only task another thread does itself ---- */

struct onlooker {
    aclrtStream stream;
    unsigned n_timeouts;
};

static void synchronize_briefly(void *arg)
{
    struct onlooker *o = arg;

    assert_acl_either(aclrtSynchronizeStreamWithTimeout(o->stream, 1), ACL_SUCCESS,
                      ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
    if (kept_message()[0] == '\0')
        return;
    o->n_timeouts++;
    assert_message_has("has 1 tasks after 1 ms, the first queued by aclrtMemcpyAsync");
}

static void a_task_that_runs_in_its_call_is_named_by_a_timeout(void **state)
{
    struct onlooker o = {0};
    char from[64] = {0};
    void *to = NULL;

    assert_acl_ok(aclrtMalloc(&to, sizeof from, ACL_MEM_MALLOC_HUGE_FIRST));
    assert_acl_ok(aclrtCreateStream(&o.stream));
    for (unsigned n = 1, was_between = true; was_between; n++) {
        moment_arm(n, synchronize_briefly, &o);
        assert_acl_ok(aclrtMemcpyAsync(to, sizeof from, from, sizeof from,
                                       ACL_MEMCPY_HOST_TO_DEVICE, o.stream));
        was_between = moment_disarm();
    }
    assert_true(o.n_timeouts > 0);
    assert_acl_ok(aclrtDestroyStream(o.stream));
    assert_acl_ok(aclrtFree(to));
}

int main(void)
{
    const struct CMUnitTest claims[] = {
        claim(a_handle_that_comes_back_is_exported),
        claim(a_handle_that_comes_back_is_exported_once),
        claim(freed_memory_is_not_registered),
        claim(memory_left_by_a_stop_is_not_registered),
        claim(memory_that_is_freed_in_use_is_not_registered),
        claim(a_registration_beside_a_stop_ends),
        claim(an_import_beside_a_stop_ends),
        claim(a_failed_map_loses_no_reference),
        claim(a_task_that_runs_in_its_call_is_named_by_a_timeout),
    };

    return run_claims(claims);
}
