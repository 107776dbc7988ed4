/*
 * Many threads at once.  Each checks its own bytes; where one takes memory away under
 * another's copy, the copy may be refused but nothing else may happen.
 */
#include "support/process.h"
#include "support/vmm.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { N_THREADS = 6, ROUNDS = 60, N_HANDLES = 4 };
#define SPAN (256 * KIB)

/* ---- every step at once, each thread with its own memory ---- */

static const char *put_and_get(char *va, uint8_t *bytes, size_t size, uint64_t seed)
{
    fill(bytes, size, seed);
    worker_check(copy(va, bytes, size, ACL_MEMCPY_HOST_TO_DEVICE) == ACL_SUCCESS);
    memset(bytes, 0, size);
    worker_check(copy(bytes, va, size, ACL_MEMCPY_DEVICE_TO_HOST) == ACL_SUCCESS);
    worker_check(is_filled(bytes, size, seed));
    return NULL;
}

static const char *one_round(struct worker *self, uint64_t seed, uint8_t *bytes)
{
    uint32_t device = self->index % 2;
    aclrtPhysicalMemProp prop = device_prop(device, ACL_HBM_MEM_HUGE);
    aclrtDrvMemHandle handles[N_HANDLES];
    const char *failure;
    void *base = NULL;
    char *va;

    worker_check(aclrtReserveMemAddress(&base, N_HANDLES * CHUNK, 0, NULL, 1) ==
                 ACL_SUCCESS);
    va = base;
    for (size_t i = 0; i < N_HANDLES; i++) {
        worker_check(aclrtMallocPhysical(&handles[i], CHUNK, &prop, 0) == ACL_SUCCESS);
        worker_check(aclrtMapMem(va + i * CHUNK, CHUNK, 0, handles[i], 0) == ACL_SUCCESS);
    }
    failure = put_and_get(va + (1 + seed % 3) * CHUNK - SPAN / 2, bytes, SPAN, seed);
    if (failure != NULL)
        return failure;
    for (size_t i = 0; i < N_HANDLES; i++) {
        worker_check(aclrtUnmapMem(va + i * CHUNK) == ACL_SUCCESS);
        worker_check(aclrtFreePhysical(handles[i]) == ACL_SUCCESS);
    }
    worker_check(aclrtReleaseMemAddress(base) == ACL_SUCCESS);
    return NULL;
}

static const char *all_steps(struct worker *self)
{
    uint8_t *bytes = malloc(SPAN);
    const char *failure = NULL;

    worker_check(bytes != NULL);
    if (aclrtSetDevice((int32_t)(self->index % 2)) != ACL_SUCCESS)
        failure = "aclrtSetDevice";
    for (uint64_t i = 0; i < ROUNDS && failure == NULL; i++)
        failure = one_round(self, self->index * 1000 + i, bytes);
    free(bytes);
    return failure;
}

static void run_all_steps(void)
{
    struct worker workers[N_THREADS];

    for (unsigned i = 0; i < N_THREADS; i++)
        workers[i] = (struct worker){.run = all_steps};
    assert_ptr_equal(run_workers(workers, N_THREADS), NULL);
}

static void threads_do_all_steps_at_once(void **state)
{
    run_all_steps();
    assert_int_equal(free_memory(), GIB);
}

static void threads_do_all_steps_without_isolation(void **state)
{
    start("default", "ACLMEM_ISOLATE=0");
    assert_acl_ok(aclrtSetDevice(0));
    run_all_steps();
    assert_int_equal(free_memory(), GIB);
}

/* ---- one reservation, its chunks shared out by index ---- */

static const char *own_chunks(struct worker *self)
{
    aclrtPhysicalMemProp prop = device_prop(0, ACL_HBM_MEM_HUGE);
    static uint8_t bytes[N_THREADS][4096];
    char *base = self->shared;

    worker_check(aclrtSetDevice(0) == ACL_SUCCESS);
    for (unsigned i = 0; i < 4 * ROUNDS; i++) {
        char *va = base + (self->index + i % 8 * N_THREADS) * CHUNK;
        aclrtDrvMemHandle handle = NULL, again = NULL;
        const char *failure;

        worker_check(aclrtMallocPhysical(&handle, CHUNK, &prop, 0) == ACL_SUCCESS);
        worker_check(aclrtMapMem(va, CHUNK, 0, handle, 0) == ACL_SUCCESS);
        worker_check(aclrtMemRetainAllocationHandle(va, &again) == ACL_SUCCESS);
        worker_check(again == handle);
        failure = put_and_get(va + CHUNK - 4096, bytes[self->index], 4096, i);
        if (failure != NULL)
            return failure;
        worker_check(aclrtFreePhysical(again) == ACL_SUCCESS);
        worker_check(aclrtUnmapMem(va) == ACL_SUCCESS);
        worker_check(aclrtFreePhysical(handle) == ACL_SUCCESS);
    }
    return NULL;
}

static void threads_share_a_reservation(void **state)
{
    void *base = reserve(8 * N_THREADS * CHUNK);
    struct worker workers[N_THREADS];

    for (unsigned i = 0; i < N_THREADS; i++)
        workers[i] = (struct worker){.run = own_chunks, .shared = base};
    assert_ptr_equal(run_workers(workers, N_THREADS), NULL);
    assert_acl_ok(aclrtReleaseMemAddress(base));
}

/* ---- exactly one wins ---- */

struct race {
    void *va;
    aclrtDrvMemHandle handle;
    aclrtNotify notify;
    pthread_barrier_t barrier;
    atomic_uint wins;
};

/*
 * A thread that stopped early would leave the others at the barrier, so all run to the
 * end.
 */
static bool is_race_answer(aclError rc, aclError refusal, struct race *r)
{
    atomic_fetch_add(&r->wins, rc == ACL_SUCCESS);
    return rc == ACL_SUCCESS || rc == refusal;
}

/* All threads; r->wins says how many calls succeeded. */
static void race_run(struct race *r, const char *(*run)(struct worker *self))
{
    struct worker workers[N_THREADS];

    pthread_barrier_init(&r->barrier, NULL, N_THREADS);
    for (unsigned i = 0; i < N_THREADS; i++)
        workers[i] = (struct worker){.run = run, .shared = r};
    assert_ptr_equal(run_workers(workers, N_THREADS), NULL);
    pthread_barrier_destroy(&r->barrier);
}

static const char *race_for_one(struct worker *self)
{
    struct race *r = self->shared;
    bool ok = true;

    for (int i = 0; i < ROUNDS; i++) {
        pthread_barrier_wait(&r->barrier);
        ok &= is_race_answer(aclrtMapMem(r->va, CHUNK, 0, r->handle, 0),
                             ACL_ERROR_RT_PARAM_INVALID, r);
        pthread_barrier_wait(&r->barrier);
        ok &= is_race_answer(aclrtUnmapMem(r->va), ACL_ERROR_RT_PARAM_INVALID, r);
    }
    worker_check(ok);
    return NULL;
}

static void one_of_many_maps_and_one_unmaps(void **state)
{
    struct race r = {.va = reserve(CHUNK), .handle = alloc(CHUNK)};

    race_run(&r, race_for_one);
    assert_int_equal(atomic_load(&r.wins), 2 * ROUNDS);
    assert_acl_ok(aclrtFreePhysical(r.handle));
    assert_acl_ok(aclrtReleaseMemAddress(r.va));
}

static const char *race_to_free(struct worker *self)
{
    aclrtPhysicalMemProp prop = device_prop(0, ACL_HBM_MEM_HUGE);
    struct race *r = self->shared;
    bool ok = true;

    for (int i = 0; i < ROUNDS; i++) {
        if (self->index == 0)
            ok &= aclrtMallocPhysical(&r->handle, CHUNK, &prop, 0) == ACL_SUCCESS;
        pthread_barrier_wait(&r->barrier);
        ok &=
            is_race_answer(aclrtFreePhysical(r->handle), ACL_ERROR_RT_INVALID_HANDLE, r);
        pthread_barrier_wait(&r->barrier);
    }
    worker_check(ok);
    return NULL;
}

static void one_of_many_frees(void **state)
{
    struct race r = {.va = NULL};

    race_run(&r, race_to_free);
    assert_int_equal(atomic_load(&r.wins), ROUNDS);
}

/* Memory and a notify, made by the first thread in each round. */
static const char *race_to_export(struct worker *self)
{
    aclrtPhysicalMemProp prop = device_prop(0, ACL_HBM_MEM_HUGE);
    struct race *r = self->shared;
    char key[65];
    uint64_t number;
    bool ok = aclrtSetDevice(0) == ACL_SUCCESS;

    for (int i = 0; i < ROUNDS; i++) {
        if (self->index == 0)
            ok &= aclrtMallocPhysical(&r->handle, CHUNK, &prop, 0) == ACL_SUCCESS &&
                  aclrtCreateNotify(&r->notify, 0) == ACL_SUCCESS;
        pthread_barrier_wait(&r->barrier);
        ok &= is_race_answer(aclrtNotifyGetExportKey(r->notify, key, sizeof(key), 0),
                             ACL_ERROR_RT_PARAM_INVALID, r);
        ok &= is_race_answer(aclrtMemExportToShareableHandle(
                                 r->handle, ACL_MEM_HANDLE_TYPE_NONE, 0, &number),
                             ACL_ERROR_RT_PARAM_INVALID, r);
        pthread_barrier_wait(&r->barrier);
        if (self->index == 0)
            ok &= aclrtFreePhysical(r->handle) == ACL_SUCCESS &&
                  aclrtDestroyNotify(r->notify) == ACL_SUCCESS;
    }
    ok &= aclrtResetDevice(0) == ACL_SUCCESS;
    worker_check(ok);
    return NULL;
}

static void one_of_many_exports(void **state)
{
    struct race r = {.va = NULL};

    race_run(&r, race_to_export);
    assert_int_equal(atomic_load(&r.wins), 2 * ROUNDS);
}

/* ---- memory goes away under a copy ---- */

enum { N_COPIERS = 3 };
struct pull {
    char *va;
    size_t size;
    atomic_uint n_ready; /* who sets a device during its reset keeps its memory, too */
    atomic_bool is_over;
};

static bool is_copy_answer(aclError rc)
{
    return rc == ACL_SUCCESS || rc == ACL_ERROR_RT_PARAM_INVALID ||
           rc == ACL_ERROR_RT_CONTEXT_NULL;
}

/* Some of everything that touches memory. */
static const char *copy_once(char *va, uint8_t *bytes, size_t size)
{
    void *view = NULL;

    worker_check(is_copy_answer(copy(va, bytes, size, ACL_MEMCPY_HOST_TO_DEVICE)));
    worker_check(is_copy_answer(copy(bytes, va, size, ACL_MEMCPY_DEVICE_TO_HOST)));
    worker_check(is_copy_answer(aclrtMemset(va, size, 0, size)));
    if (aclmem_host_view(va, size, &view) == ACL_SUCCESS) {
        memset(view, 1, size);
        worker_check(aclmem_host_view_end(view) == ACL_SUCCESS);
    }
    return NULL;
}

/*
 * Until the other side is done, or often enough; each thread in its own part of the range,
 * across a boundary.
 */
static const char *copy_on(struct worker *self)
{
    struct pull *p = self->shared;
    size_t part = p->size / N_COPIERS;
    char *va = p->va + self->index * part + part / 2 - SPAN / 2;
    uint8_t *bytes = calloc(1, SPAN);
    const char *failure = NULL;

    worker_check(bytes != NULL);
    (void)aclrtSetDevice(0);
    atomic_fetch_add(&p->n_ready, 1);
    for (int i = 0; i < 100 * ROUNDS && !atomic_load(&p->is_over) && failure == NULL; i++)
        failure = copy_once(va, bytes, SPAN);
    free(bytes);
    return failure;
}

static const char *pull_by_unmapping(struct pull *p)
{
    aclrtPhysicalMemProp prop = device_prop(0, ACL_HBM_MEM_HUGE);

    for (int i = 0; i < ROUNDS; i++) {
        aclrtDrvMemHandle handle = NULL;

        worker_check(aclrtMallocPhysical(&handle, p->size, &prop, 0) == ACL_SUCCESS);
        worker_check(aclrtMapMem(p->va, p->size, 0, handle, 0) == ACL_SUCCESS);
        if (i % 2 == 0)
            worker_check(aclrtFreePhysical(handle) == ACL_SUCCESS);
        worker_check(aclrtUnmapMem(p->va) == ACL_SUCCESS);
        if (i % 2 == 1)
            worker_check(aclrtFreePhysical(handle) == ACL_SUCCESS);
    }
    return NULL;
}

static const char *pull_by_reset(struct pull *p)
{
    aclrtPhysicalMemProp prop = device_prop(0, ACL_HBM_MEM_HUGE);

    for (int i = 0; i < ROUNDS; i++) {
        aclrtDrvMemHandle handle = NULL;

        (void)aclrtSetDevice(0);
        worker_check(aclrtMallocPhysical(&handle, p->size, &prop, 0) == ACL_SUCCESS);
        worker_check(aclrtMapMem(p->va, p->size, 0, handle, 0) == ACL_SUCCESS);
        worker_check(aclrtResetDeviceForce(0) == ACL_SUCCESS);
    }
    return NULL;
}

static const char *pull_by_access(struct pull *p)
{
    aclrtPhysicalMemProp prop = device_prop(0, ACL_HBM_MEM_HUGE);
    aclrtDrvMemHandle handle = NULL;

    worker_check(aclrtMallocPhysical(&handle, p->size, &prop, 0) == ACL_SUCCESS);
    worker_check(aclrtMapMem(p->va, p->size, 0, handle, 0) == ACL_SUCCESS);
    for (int i = 0; i < ROUNDS; i++)
        worker_check(set_access(p->va, p->size, ACL_MEM_LOCATION_TYPE_DEVICE, 0,
                                i % 2 == 0
                                    ? ACL_RT_MEM_ACCESS_FLAGS_NONE
                                    : ACL_RT_MEM_ACCESS_FLAGS_READWRITE) == ACL_SUCCESS);
    worker_check(aclrtUnmapMem(p->va) == ACL_SUCCESS);
    worker_check(aclrtFreePhysical(handle) == ACL_SUCCESS);
    return NULL;
}

static void pull_under_copies(const char *(*pull)(struct pull *))
{
    struct pull p = {.size = 2 * N_COPIERS * CHUNK};
    struct worker workers[N_COPIERS];
    const char *failure;

    p.va = reserve(p.size);
    for (unsigned i = 0; i < N_COPIERS; i++) {
        workers[i] = (struct worker){.run = copy_on, .shared = &p, .index = i};
        assert_int_equal(worker_start(&workers[i]), 0);
    }
    while (atomic_load(&p.n_ready) < N_COPIERS)
        sched_yield();
    failure = pull(&p);
    if (failure != NULL)
        print_error("%s\n", failure);
    atomic_store(&p.is_over, true);
    for (unsigned i = 0; i < N_COPIERS; i++)
        assert_ptr_equal(worker_join(&workers[i]), NULL);
    assert_ptr_equal(failure, NULL);
    assert_int_equal(stats().handles, 0);
    assert_acl_ok(aclrtReleaseMemAddress(p.va));
}

static void unmapping_under_copies_is_safe(void **state)
{
    pull_under_copies(pull_by_unmapping);
    assert_int_equal(free_memory(), GIB);
}

static void unmapping_under_copies_is_safe_without_isolation(void **state)
{
    start("default", "ACLMEM_ISOLATE=0");
    assert_acl_ok(aclrtSetDevice(0));
    pull_under_copies(pull_by_unmapping);
    assert_int_equal(free_memory(), GIB);
}

static void resetting_under_copies_is_safe(void **state)
{
    allow_warnings();
    pull_under_copies(pull_by_reset);
}

static void changing_access_under_copies_is_safe(void **state)
{
    pull_under_copies(pull_by_access);
}

/* ---- init and finalize ---- */

static const char *init_and_end(struct worker *self)
{
    for (int i = 0; i < ROUNDS; i++) {
        aclError rc = aclInit(NULL);

        worker_check(rc == ACL_SUCCESS || rc == ACL_ERROR_REPEAT_INITIALIZE);
        worker_check(aclFinalizeReference(NULL) == ACL_SUCCESS);
    }
    return NULL;
}

static void references_of_threads_add_up(void **state)
{
    struct worker workers[N_THREADS];
    uint64_t count = 99;

    start("default");
    for (unsigned i = 0; i < N_THREADS; i++)
        workers[i] = (struct worker){.run = init_and_end};
    assert_ptr_equal(run_workers(workers, N_THREADS), NULL);
    assert_acl_ok(aclrtSetDevice(0));
    assert_acl_ok(aclFinalizeReference(&count));
    assert_int_equal(count, 0);
}

int main(void)
{
    const struct CMUnitTest claims[] = {
        claim_both(threads_do_all_steps_at_once),
        claim_alone(threads_do_all_steps_without_isolation),
        claim(threads_share_a_reservation),
        claim(one_of_many_maps_and_one_unmaps),
        claim(one_of_many_frees),
        claim(one_of_many_exports),
        claim(unmapping_under_copies_is_safe),
        claim_alone(unmapping_under_copies_is_safe_without_isolation),
        claim(resetting_under_copies_is_safe),
        claim(changing_access_under_copies_is_safe),
        claim_alone(references_of_threads_add_up),
    };

    return run_claims(claims);
}
