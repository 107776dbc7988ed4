/* am_host_unregister() and work that takes its time, with a clock of the test's own. */
#include <semaphore.h>
#include <stdatomic.h>
#include <sys/mman.h>

#include "support/support.h"
#include "unit.h"

#include "core/hostmem/hostmem.h"
#include "core/stream/wait.h"

#define SECOND UINT64_C(1000000000)

/*
 * Each look at the clock takes a second, until enough have passed: then the work may end,
 * and the clock stands.
 */
static atomic_uint n_looks;
static unsigned enough;
static sem_t may_end;

static uint64_t hasty_clock(void)
{
    unsigned n = atomic_fetch_add(&n_looks, 1) + 1;

    if (n == enough)
        sem_post(&may_end);
    return (n < enough ? n : enough) * SECOND;
}

struct long_task {
    struct am_task task;
    struct am_registered *uses;
    sem_t began;
};

static aclError long_run(struct am_task *task)
{
    struct long_task *lt = (struct long_task *)task;

    sem_post(&lt->began);
    while (sem_wait(&may_end) != 0)
        ;
    return ACL_SUCCESS;
}

static void long_free(struct am_task *task)
{
    am_registered_put(((struct long_task *)task)->uses);
}

/* A copy of twenty seconds is no reason to give up. */
static void unregistering_waits_for_a_task_that_runs(void **state)
{
    static const struct am_task_ops ops = {.run = long_run, .free = long_free};
    struct long_task lt = {.task = {.ops = &ops, .function = "aclrtMemcpyAsync"}};
    struct am_sched *sched = &am_sched;
    uint64_t (*clock)(void) = sched->setup.now;
    struct am_queue queue;
    char *p =
        mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    assert_ptr_not_equal(p, MAP_FAILED);
    lt.task.deadline = AM_FOREVER;
    sem_init(&lt.began, 0, 0);
    sem_init(&may_end, 0, 0);
    enough = 20;
    am_queue_init(&queue, sched, 0, NULL, 0);
    assert_acl_ok(aclrtHostRegisterV2(p, 4096, ACL_HOST_REG_MAPPED));
    lt.uses = am_registered_get(p, 4096);
    assert_non_null(lt.uses);
    assert_acl_ok(am_queue_submit(&queue, &lt.task, NULL));
    while (sem_wait(&lt.began) != 0)
        ;
    am_lock(&sched->lock);
    sched->setup.now = hasty_clock;
    is_time_ours = true;
    am_unlock(&sched->lock);
    assert_acl_ok(aclrtHostUnregister(p));
    assert_true(atomic_load(&n_looks) >= enough);
    am_lock(&sched->lock);
    sched->setup.now = clock;
    is_time_ours = false;
    am_unlock(&sched->lock);
    am_lock(&queue.lock);
    am_stall_wait_locked(&queue, 1, AM_FOREVER, NULL);
    am_unlock(&queue.lock);
    am_queue_destroy(&queue);
    munmap(p, 4096);
}

int main(void)
{
    const struct CMUnitTest claims[] = {
        claim(unregistering_waits_for_a_task_that_runs),
    };

    return run_claims(claims);
}
