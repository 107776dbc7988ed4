/* See lane.h. */
#include "core/stream/lane.h"

#include <errno.h>
#include <stdlib.h>

#include "acl/error_codes/rt_error_codes.h"
#include "base/error.h"
#include "base/sys.h"
#include "base/util.h"
#include "core/stream/sched_bypass.h"

#define COLLECT_EVERY 64 /* launches */

/* How long a thread with a timeout sleeps before it asks the device again. */
#define NAP_FIRST (20 * AM_MILLISECOND / 1000)
#define NAP_LAST AM_MILLISECOND

/* ---- collecting ---- */

/* The failure of the task is kept by the stream. */
static void task_fail(struct am_lane_queue *lq, struct am_task *task, aclError rc,
                      const char *why)
{
    am_lock(&lq->sched->lock);
    am_bypass_close_locked(lq->sched, lq->queue);
    am_queue_fail_locked(lq->queue, task, rc, why);
    if (task->ops->cancel != NULL)
        task->ops->cancel(task, lq->queue);
    am_unlock(&lq->sched->lock);
}

/* Takes out what is done and makes it visible. */
static void done_take_locked(struct am_lane_queue *lq) AM_REQUIRES(lq->lock)
{
    const char *function = am_error_function;
    char why[sizeof lq->queue->why] = "";
    struct am_capture before;
    struct am_task *task;
    uint64_t done = 0;
    aclError rc;

    lq->n_unasked = 0;
    if (TAILQ_EMPTY(&lq->tasks))
        return;
    before = am_error_capture(why, sizeof why);
    rc = lq->ops->lane_poll(lq->lane, &done);
    while ((task = TAILQ_FIRST(&lq->tasks)) != NULL && task->number <= done) {
        aclError code = rc;

        TAILQ_REMOVE(&lq->tasks, task, next);
        TAILQ_INSERT_TAIL(&lq->over, task, next);
        lq->taken = task->number;
        am_error_function = task->function;
        if (code == ACL_SUCCESS && task->ops->collected != NULL)
            code = task->ops->collected(task, lq->ops);
        if (code != ACL_SUCCESS)
            task_fail(lq, task, code, why);
        am_tally_add(&lq->sched->moves, 1);
    }
    am_error_capture_end(before);
    am_error_function = function;
}

/* Drops what was taken out, in order; the lock is released meanwhile. */
static void over_drop_locked(struct am_lane_queue *lq) AM_REQUIRES(lq->lock)
{
    struct am_tasks over = TAILQ_HEAD_INITIALIZER(over);
    struct am_task *task;

    if (lq->is_dropping)
        return;
    while (!TAILQ_EMPTY(&lq->over)) {
        uint64_t taken = lq->taken;
        unsigned n = 0;

        lq->is_dropping = true;
        TAILQ_CONCAT(&over, &lq->over, next);
        am_unlock(&lq->lock);
        for (; (task = TAILQ_FIRST(&over)) != NULL; n++) {
            TAILQ_REMOVE(&over, task, next);
            task->ops->drop(task);
        }
        am_lock(&lq->lock);
        lq->is_dropping = false;
        lq->n_tasks -= n;
        lq->dropped = taken;
    }
}

static void collect_locked(struct am_lane_queue *lq) AM_REQUIRES(lq->lock)
{
    uint64_t dropped = lq->dropped;

    done_take_locked(lq);
    over_drop_locked(lq);
    if (lq->dropped != dropped)
        pthread_cond_broadcast(&lq->changed);
}

bool am_lane_collect(struct am_lane_queue *lq)
{
    bool is_empty;

    if (lq->ops == NULL)
        return true;
    am_lock(&lq->lock);
    collect_locked(lq);
    is_empty = am_lane_is_empty_locked(lq);
    am_unlock(&lq->lock);
    return is_empty;
}

/* ---- the barrier ---- */

struct am_barrier {
    struct am_task task;
    struct am_lane_queue *lq;
    uint64_t number; /* the launch that it waits for, with all before it */
    uint64_t at;     /* its number among the tasks of the scheduler's queue */
};

static bool barrier_check(struct am_task *task)
{
    const struct am_barrier *barrier = (const struct am_barrier *)task;
    struct am_lane_queue *lq = barrier->lq;
    bool is_over;

    am_lock(&lq->lock);
    collect_locked(lq);
    is_over = lq->dropped >= barrier->number;
    am_unlock(&lq->lock);
    return is_over;
}

static void barrier_drop(struct am_task *task)
{
    struct am_barrier *barrier = (struct am_barrier *)task;
    struct am_lane_queue *lq = barrier->lq;

    am_lock(&lq->lock);
    if (lq->barrier == barrier)
        lq->barrier = NULL;
    am_unlock(&lq->lock);
    free(barrier);
}

/* A device does what was launched. */
static const struct am_task_ops barrier_ops = {
    .check = barrier_check, .comes_alone = true, .drop = barrier_drop};

/* An abort drops barriers too: behind a dropped one the next task needs its own. */
static bool needs_barrier_locked(const struct am_lane_queue *lq) AM_REQUIRES(lq->lock)
{
    return lq->n_tasks > 0 && (lq->barrier == NULL || lq->queue->is_stopped ||
                               lq->barrier->at < lq->queue->drop_until);
}

static aclError barrier_queue_locked(struct am_sched *sched, struct am_lane_queue *lq)
    AM_REQUIRES(lq->lock, sched->lock)
{
    const struct am_task *first = TAILQ_FIRST(&lq->tasks);
    struct am_barrier *barrier = am_task_make(&barrier_ops, sizeof *barrier);
    aclError rc;

    if (barrier == NULL)
        return ACL_ERROR_BAD_ALLOC;
    barrier->lq = lq;
    barrier->number = lq->last;
    if (first != NULL) /* messages name the call whose work is waited for */
        barrier->task.function = first->function;
    rc = am_sched_submit_locked(sched, lq->queue, &barrier->task);
    if (rc != ACL_SUCCESS) {
        free(barrier);
        return rc;
    }
    barrier->at = lq->queue->n_queued - 1;
    lq->barrier = barrier;
    return ACL_SUCCESS;
}

/* ---- submitting ---- */

void am_lane_init(struct am_lane_queue *lq, struct am_sched *sched,
                  struct am_queue *queue, const struct am_backend_ops *ops,
                  int32_t driver)
{
    *lq = (struct am_lane_queue){
        .ops = ops, .sched = sched, .queue = queue, .driver = driver};
    if (ops == NULL)
        return;
    am_lock_init(&lq->lock, AM_RANK_LANE, "lane");
    TAILQ_INIT(&lq->tasks);
    TAILQ_INIT(&lq->over);
    am_cond_init(&lq->changed);
}

void am_lane_destroy(struct am_lane_queue *lq)
{
    if (lq->ops == NULL)
        return;
    am_assert(lq->n_tasks == 0 && lq->barrier == NULL);
    if (lq->lane != NULL)
        lq->ops->lane_close(lq->lane);
    pthread_cond_destroy(&lq->changed);
    am_lock_destroy(&lq->lock);
}

AM_HOT AM_NO_LOCK_ANALYSIS void am_lane_enter(struct am_lane_queue *lq)
{
    if (lq->ops != NULL)
        am_lock(&lq->lock);
}

AM_HOT AM_NO_LOCK_ANALYSIS void am_lane_leave(struct am_lane_queue *lq)
{
    if (lq->ops != NULL)
        am_unlock(&lq->lock);
}

/* False: there is no lane; then the scheduler does it all. */
AM_COLD static bool lane_open_locked(struct am_lane_queue *lq) AM_REQUIRES(lq->lock)
{
    struct am_capture before;

    if (lq->is_refused)
        return false;
    before = am_error_hush();
    lq->is_refused =
        lq->ops->lane_open(lq->driver, lq->queue->priority, &lq->lane) != ACL_SUCCESS;
    am_error_capture_end(before);
    return !lq->is_refused;
}

AM_HOT aclError am_lane_launch_locked(struct am_lane_queue *lq, struct am_task *task)
{
    aclError rc;

    task->number = 0;
    if (lq->ops == NULL || task->ops->launch == NULL || task->deadline != AM_FOREVER)
        return ACL_SUCCESS;
    if (lq->n_unasked >= COLLECT_EVERY)
        collect_locked(lq); /* before the launch: after it the device is busy */
    if (!am_bypass_is_quiet(lq->queue) || (lq->lane == NULL && !lane_open_locked(lq)))
        return ACL_SUCCESS;
    rc = task->ops->launch(task, lq->ops, lq->lane);
    if (rc != ACL_SUCCESS || task->number == 0)
        return rc;
    TAILQ_INSERT_TAIL(&lq->tasks, task, next);
    lq->last = task->number;
    lq->n_tasks++;
    lq->n_unasked++;
    return ACL_SUCCESS;
}

aclError am_lane_queue_locked(struct am_sched *sched, struct am_lane_queue *lq,
                              struct am_task *task)
{
    aclError rc = ACL_SUCCESS;

    if (needs_barrier_locked(lq))
        rc = barrier_queue_locked(sched, lq);
    return rc == ACL_SUCCESS ? am_sched_submit_locked(sched, lq->queue, task) : rc;
}

AM_HOT aclError am_lane_submit(struct am_lane_queue *lq, struct am_task *task)
{
    aclError rc;

    am_lane_enter(lq);
    rc = am_lane_launch_locked(lq, task);
    if (rc == ACL_SUCCESS && task->number == 0) {
        am_lock(&lq->sched->lock);
        rc = am_lane_queue_locked(lq->sched, lq, task);
        am_unlock(&lq->sched->lock);
    }
    am_lane_leave(lq);
    return rc;
}

bool am_lane_try_begin(struct am_lane_queue *lq, bool is_short)
{
    bool is_free;

    am_lane_wait(lq, AM_FOREVER); /* a caller that begins would wait anyway */
    am_lane_enter(lq);
    is_free =
        am_lane_is_empty_locked(lq) && am_sched_try_begin(lq->sched, lq->queue, is_short);
    am_lane_leave(lq);
    return is_free;
}

bool am_lane_pass(struct am_lane_queue *lq)
{
    bool is_done;

    am_lane_enter(lq);
    is_done = am_lane_is_empty_locked(lq) && am_bypass_pass(lq->sched, lq->queue);
    am_lane_leave(lq);
    return is_done;
}

/* ---- waiting ---- */

/* Has the driver wait, for the mark or for all, without a lock. */
static void device_wait_locked(struct am_lane_queue *lq, struct am_mark *mark)
    AM_REQUIRES(lq->lock)
{
    struct am_capture before;

    am_unlock(&lq->lock);
    before = am_error_hush(); /* collecting reports failures */
    if (mark != NULL)
        lq->ops->mark_sync(mark);
    else
        lq->ops->lane_sync(lq->lane);
    am_error_capture_end(before);
    am_lock(&lq->lock);
}

static int wait_locked(struct am_lane_queue *lq, uint64_t number, struct am_mark *mark,
                       uint64_t until) AM_REQUIRES(lq->lock)
{
    uint64_t nap = NAP_FIRST;

    if (until == AM_FOREVER && lq->taken < number)
        device_wait_locked(lq, mark);
    for (;;) {
        uint64_t now;

        collect_locked(lq);
        if (lq->dropped >= number)
            return 0;
        now = am_clock();
        if (now >= until)
            return ETIMEDOUT;
        am_cond_wait_locked(&lq->lock, &lq->changed,
                            until - now < nap ? until : now + nap);
        nap = nap < NAP_LAST ? 2 * nap : nap;
    }
}

int am_lane_wait_mark(struct am_lane_queue *lq, uint64_t number, struct am_mark *mark,
                      uint64_t until)
{
    int rc = 0;

    if (lq->ops == NULL)
        return 0;
    am_lock(&lq->lock);
    if (mark == NULL)
        number = lq->last;
    if (lq->dropped < number)
        rc = wait_locked(lq, number, mark, until);
    am_unlock(&lq->lock);
    return rc;
}

int am_lane_wait(struct am_lane_queue *lq, uint64_t until)
{
    return am_lane_wait_mark(lq, 0, NULL, until);
}
