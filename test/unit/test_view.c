/* Host views beside an export, which waits until no copy of the memory runs. */
#include "unit.h"

#include <semaphore.h>
#include <time.h>

#include "backend/host/host.h"
#include "core/vmm/phys.h"
#include "support/process.h"
#include "support/support.h"
#include "support/vmm.h"

struct deed {
    struct block *block;
    sem_t waits;
    sem_t may_wait; /* the export's patience does not begin before all is ready */
};

static void await(sem_t *sem)
{
    while (sem_wait(sem) != 0)
        ;
}

/* Who waits at a gate naps; the first nap of a thread tells that it does. */
static _Thread_local struct deed *on_nap;

int __real_nanosleep(const struct timespec *time, struct timespec *left);
int __wrap_nanosleep(const struct timespec *time, struct timespec *left);

int __wrap_nanosleep(const struct timespec *time, struct timespec *left)
{
    struct deed *deed = on_nap;

    on_nap = NULL;
    if (deed != NULL) {
        sem_post(&deed->waits);
        await(&deed->may_wait);
    }
    return __real_nanosleep(time, left);
}

static const char *export_block(struct worker *self)
{
    struct deed *deed = self->shared;
    uint64_t number;

    on_nap = deed;
    worker_check(
        aclrtMemExportToShareableHandle(deed->block->handle, ACL_MEM_HANDLE_TYPE_NONE,
                                        ACL_RT_VMM_EXPORT_FLAG_DISABLE_PID_VALIDATION,
                                        &number) == ACL_SUCCESS);
    return NULL;
}

static const char *view_block(struct worker *self)
{
    struct deed *deed = self->shared;
    void *seen;

    on_nap = deed;
    worker_check(aclmem_host_view(deed->block->va, CHUNK, &seen) == ACL_SUCCESS);
    worker_check(aclmem_host_view_end(seen) == ACL_SUCCESS);
    return NULL;
}

/*
 * The export waits for a copy, the view for the export; neither keeps the copy from
 * ending, or other views from being opened.
 */
static void a_view_that_waits_holds_up_no_other(void **state)
{
    struct block b = block_create(CHUNK), apart = block_create(CHUNK);
    struct deed export = {.block = &b}, view = {.block = &b};
    struct worker exporter = {.run = export_block, .shared = &export};
    struct worker viewer = {.run = view_block, .shared = &view};
    struct am_phys *phys;
    struct am_span copied = {.size = CHUNK};
    void *other;

    sem_init(&export.waits, 0, 0);
    sem_init(&export.may_wait, 0, 0);
    sem_init(&view.waits, 0, 0);
    sem_init(&view.may_wait, 0, 1);
    assert_acl_ok(am_phys_get(b.handle, &phys));
    copied.mem = &phys->mem;
    host_gate_enter(&copied, 0, NULL, 0, CHUNK);
    assert_int_equal(worker_start(&exporter), 0);
    await(&export.waits);
    assert_int_equal(worker_start(&viewer), 0);
    await(&view.waits);
    sem_post(&export.may_wait);

    assert_acl_ok(aclmem_host_view(apart.va, CHUNK, &other));
    assert_acl_ok(aclmem_host_view_end(other));
    host_gate_leave(&copied, 0, NULL, 0, CHUNK);
    am_phys_put(phys);
    assert_null(worker_join(&exporter));
    assert_null(worker_join(&viewer));
    block_destroy(&apart);
    block_destroy(&b);
}

#define N_COPIERS 4
#define N_EXPORTS 16

/* Writes a quarter of the block. */
static const char *copy_quarter(struct worker *self)
{
    struct deed *deed = self->shared;
    size_t quarter = CHUNK / N_COPIERS;
    unsigned i = self->index;

    worker_check(aclrtSetDevice(0) == ACL_SUCCESS);
    worker_check(aclrtMemset(deed->block->va + i * quarter, quarter, (int)i + 1,
                             quarter) == ACL_SUCCESS);
    return NULL;
}

/* The first use of exported memory makes its view; several threads may be the first. */
static void threads_that_use_exported_memory_first_find_one_memory(void **state)
{
    for (int round = 0; round < N_EXPORTS; round++) {
        struct block b = block_create(CHUNK);
        struct deed deed = {.block = &b};
        struct worker copiers[N_COPIERS] = {0};
        uint64_t number;

        assert_acl_ok(aclrtMemExportToShareableHandle(
            b.handle, ACL_MEM_HANDLE_TYPE_NONE,
            ACL_RT_VMM_EXPORT_FLAG_DISABLE_PID_VALIDATION, &number));
        for (int i = 0; i < N_COPIERS; i++)
            copiers[i] = (struct worker){.run = copy_quarter, .shared = &deed};
        assert_null(run_workers(copiers, N_COPIERS));
        for (int i = 0; i < N_COPIERS; i++)
            assert_all_bytes(b.va + i * (CHUNK / N_COPIERS), CHUNK / N_COPIERS,
                             (uint8_t)(i + 1));
        block_destroy(&b);
    }
}

int main(void)
{
    const struct CMUnitTest claims[] = {
        claim(threads_that_use_exported_memory_first_find_one_memory),
        claim(a_view_that_waits_holds_up_no_other),
    };

    return run_claims(claims);
}
