/* See queue.h. */
#include "core/stream/queue.h"

#include <errno.h>
#include <stdio.h>

#include "acl/error_codes/rt_error_codes.h"
#include "base/epoch.h"
#include "base/handle.h"
#include "base/sys.h"
#include "base/util.h"
#include "core/ledger/ledger.h"
#include "core/stream/cond.h"

#define POLL_LAUNCHES 64 /* launches after which the device is polled */

_Atomic(am_task_hook) am_task_ran;
atomic_uint am_n_captures;

void *am_task_make(const struct am_task_ops *ops, size_t size)
{
    struct am_task *task = am_sys_malloc(size);

    if (task != NULL)
        am_task_init(task, ops);
    else
        am_error_report(ACL_ERROR_BAD_ALLOC, "no memory for a task");
    return task;
}

void am_task_describe(const struct am_task *task, char *text, size_t size)
{
    const struct am_task_ops *ops = task->ops;

    if (task->number != 0)
        snprintf(text, size, "the device has done its work");
    else if (ops->describe != NULL)
        ops->describe(task, text, size);
    else
        snprintf(text, size, "%s",
                 ops->awaits != NULL ? ops->awaits
                                     : "the function that it calls returns");
}

/* ---- waitlists ---- */

void am_waitlist_init(struct am_waitlist *list)
{
    list->latch = (struct am_latch)AM_LATCH_INIT(AM_RANK_LEAF, "waitlist");
    LIST_INIT(&list->queues);
}

/* The owner's task does not wait any more. */
static void waitlist_leave(struct am_queue *queue)
{
    struct am_waitlist *list = queue->waiting_on;

    if (list == NULL)
        return;
    am_latch_take(&list->latch);
    if (queue->is_listed)
        LIST_REMOVE(queue, waiter);
    queue->is_listed = false;
    am_latch_give(&list->latch);
    queue->waiting_on = NULL;
}

void am_waitlist_join(struct am_waitlist *list, struct am_task *task)
{
    struct am_queue *queue = task->queue;

    /* A lane that did not park may still be in the list of its previous node. */
    if (queue->waiting_on != list)
        waitlist_leave(queue);
    am_latch_take(&list->latch);
    queue->waiting_on = list;
    if (!queue->is_listed)
        LIST_INSERT_HEAD(&list->queues, queue, waiter);
    queue->is_listed = true;
    am_latch_give(&list->latch);
}

void am_waitlist_wake(struct am_waitlist *list)
{
    struct am_waiters woken = LIST_HEAD_INITIALIZER(woken);
    AM_READ_SECTION; /* a queue may end as soon as it has left the list */
    struct am_queue *queue;

    am_latch_take(&list->latch);
    while ((queue = LIST_FIRST(&list->queues)) != NULL) { /* oldest first */
        LIST_REMOVE(queue, waiter);
        LIST_INSERT_HEAD(&woken, queue, waiter);
    }
    while ((queue = LIST_FIRST(&woken)) != NULL) {
        LIST_REMOVE(queue, waiter);
        queue->is_listed = false;
        am_latch_give(&list->latch);
        am_queue_wake(queue);
        am_latch_take(&list->latch);
    }
    am_latch_give(&list->latch);
}

/* ---- states ---- */

/* Shows other processes what the queue waits for. */
static void figure_write(struct am_queue *queue)
{
    const struct am_task *task = am_task_current(TAILQ_FIRST(&queue->tasks));
    struct am_ledger_stream *figure = queue->figure;

    figure->n_queued = (uint32_t)(queue->n_queued - queue->n_done);
    snprintf(figure->function, sizeof figure->function, "%s", task->function);
    am_task_describe(task, figure->until, sizeof figure->until);
    atomic_store_explicit(&figure->is_waiting, 1, memory_order_release);
}

static void state_set_locked(struct am_queue *queue, enum am_queue_state state)
    AM_REQUIRES(queue->lock)
{
    if (queue->figure != NULL && queue->state == AM_QUEUE_PARKED)
        atomic_store_explicit(&queue->figure->is_waiting, 0, memory_order_relaxed);
    queue->state = state;
}

void am_queue_wake(struct am_queue *queue)
{
    am_lock(&queue->lock);
    if (queue->state == AM_QUEUE_PARKED &&
        am_sched_wake(queue->sched, &queue->runnable)) {
        state_set_locked(queue, AM_QUEUE_READY);
        pthread_cond_broadcast(&queue->changed);
    }
    queue->is_woken = true;
    am_unlock(&queue->lock);
}

/* The owner gives the queue up. */
static void queue_leave_locked(struct am_queue *queue) AM_REQUIRES(queue->lock)
{
    const struct am_task *last = TAILQ_LAST(&queue->tasks, am_tasks);

    queue->running = NULL;
    if (last == NULL || last->number != 0) {
        state_set_locked(queue, AM_QUEUE_IDLE);
    } else {
        state_set_locked(queue, AM_QUEUE_READY);
        am_sched_make_ready(queue->sched, &queue->runnable);
    }
}

static bool queue_park_locked(struct am_queue *queue, enum am_poll poll)
    AM_REQUIRES(queue->lock)
{
    bool is_polled = poll == AM_POLL_AGAIN;

    queue->running = NULL;
    queue->runnable.is_polled = is_polled;
    queue->runnable.deadline = TAILQ_FIRST(&queue->tasks)->deadline;
    if (TAILQ_FIRST(&queue->tasks)->number != 0 || queue->is_collecting)
        queue->runnable.deadline = AM_FOREVER; /* a duration still */
    state_set_locked(queue, AM_QUEUE_PARKED);
    if (queue->figure != NULL)
        figure_write(queue);
    pthread_cond_broadcast(&queue->changed); /* for a thread that drops its tasks */
    am_sched_park(queue->sched, &queue->runnable);
    return !is_polled;
}

/* ---- failures ---- */

static void queue_fail_locked(struct am_queue *queue, const char *function, aclError rc,
                              const char *why) AM_REQUIRES(queue->lock)
{
    if (queue->error == ACL_SUCCESS || queue->is_reported) {
        queue->error = rc;
        queue->failed = function;
        queue->is_reported = false;
        snprintf(queue->why, sizeof queue->why, "work queued by %s failed: %.*s",
                 function, (int)sizeof queue->why - 100, why);
    }
    if (queue->stop_on_failure)
        queue->is_stopped = true;
}

static struct am_cause queue_cause_locked(const struct am_queue *queue)
    AM_REQUIRES(queue->lock)
{
    if (queue->is_stopped && queue->error != ACL_SUCCESS && !queue->is_reported)
        return (struct am_cause){queue->error, queue->failed};
    return (struct am_cause){.rc = ACL_ERROR_RT_STREAM_ABORT};
}

aclError am_queue_report_locked(struct am_queue *queue, uint64_t seen)
{
    queue->is_stopped = false;
    if (queue->error == ACL_SUCCESS || (queue->is_reported && queue->n_reported == seen))
        return ACL_SUCCESS;
    queue->n_reported += !queue->is_reported;
    queue->is_reported = true;
    return queue->error;
}

const char *am_queue_first_locked(const struct am_queue *queue)
{
    am_assert(queue->n_done < queue->n_queued);
    if (queue->running != NULL)
        return queue->running;
    return TAILQ_EMPTY(&queue->tasks) ? am_error_function
                                      : TAILQ_FIRST(&queue->tasks)->function;
}

/* ---- launched tasks ---- */

/* The device has done the task, or could not (rc). */
static void launched_complete(struct am_queue *queue, struct am_task *task, aclError rc,
                              char *why, size_t size)
{
    struct am_capture before = am_error_capture(why, size);
    struct am_cause cause;

    am_error_function = task->function;
    if (rc == ACL_SUCCESS && task->ops->completed != NULL)
        rc = task->ops->completed(task, queue->device);
    am_error_capture_end(before);
    if (rc != ACL_SUCCESS) {
        am_lock(&queue->lock);
        queue_fail_locked(queue, task->function,
                          task->ops->failure != ACL_SUCCESS ? task->ops->failure : rc,
                          why);
        cause = queue_cause_locked(queue);
        am_unlock(&queue->lock);
        if (task->ops->cancel != NULL)
            task->ops->cancel(task, &cause);
    }
    task->ops->free(task);
}

/* Completes the launched tasks that the device has done; releases the lock. */
static void collect_locked(struct am_queue *queue) AM_REQUIRES(queue->lock)
{
    struct am_tasks done = TAILQ_HEAD_INITIALIZER(done);
    const char *function = am_error_function;
    char why[sizeof queue->why] = "";
    struct am_task *task;
    uint64_t number = 0;
    unsigned n = 0;
    aclError rc;

    if (queue->n_launched == 0 || queue->is_collecting)
        return;
    rc = AM_CAPTURED(why, sizeof why, queue->device->lane_poll(queue->lane, &number));
    queue->n_unpolled = 0;
    while ((task = TAILQ_FIRST(&queue->tasks)) != NULL && task->number != 0 &&
           task->number <= number) {
        TAILQ_REMOVE(&queue->tasks, task, next);
        TAILQ_INSERT_TAIL(&done, task, next);
        n++;
    }
    if (n == 0)
        return;
    queue->is_collecting = true;
    am_unlock(&queue->lock);
    while ((task = TAILQ_FIRST(&done)) != NULL) {
        TAILQ_REMOVE(&done, task, next);
        launched_complete(queue, task, rc, why, sizeof why);
    }
    am_error_function = function;
    am_lock(&queue->lock);
    queue->is_collecting = false;
    queue->n_launched -= n;
    queue->n_done += n;
    am_counter_add(&queue->sched->n_completed, n);
    if (queue->state == AM_QUEUE_PARKED && am_sched_wake(queue->sched, &queue->runnable))
        state_set_locked(queue, AM_QUEUE_READY);
    pthread_cond_broadcast(&queue->changed);
}

bool am_queue_poll(struct am_queue *queue, bool may_block)
{
    struct am_lane *lane = NULL;
    struct am_capture before;
    bool has_more;

    if (queue->device == NULL)
        return false;
    am_lock(&queue->lock);
    if (may_block && queue->n_launched > 0 && !queue->is_collecting)
        lane = queue->lane;
    am_unlock(&queue->lock);
    if (lane != NULL) { /* the caller has a reference to the stream */
        unsigned depth = am_epoch_suspend();

        before = am_error_hush(); /* lane_poll() reports failures */
        queue->device->lane_sync(lane);
        am_error_capture_end(before);
        am_epoch_resume(depth);
    }
    am_lock(&queue->lock);
    collect_locked(queue);
    has_more = queue->n_launched > 0;
    am_unlock(&queue->lock);
    return has_more;
}

/* False: there is no lane; then workers do all tasks. */
AM_COLD static bool lane_open_locked(struct am_queue *queue) AM_REQUIRES(queue->lock)
{
    if (queue->is_refused)
        return false;
    queue->is_refused =
        AM_HUSHED(queue->device->lane_open(queue->driver, queue->runnable.priority,
                                           &queue->lane) != ACL_SUCCESS);
    return !queue->is_refused;
}

bool am_queue_has_lane(struct am_queue *queue)
{
    if (queue->device == NULL ||
        queue->lane != NULL) /* only the owner opens the lane now */
        return queue->device != NULL;
    return AM_LOCKED(&queue->lock, lane_open_locked(queue));
}

static bool can_launch_locked(const struct am_queue *queue) AM_REQUIRES(queue->lock)
{
    return queue->device != NULL && queue->state == AM_QUEUE_IDLE && !queue->is_stopped &&
           !queue->is_refused;
}

bool am_queue_can_launch(struct am_queue *queue)
{
    if (queue->device == NULL)
        return false;
    return AM_LOCKED(&queue->lock, can_launch_locked(queue));
}

static aclError task_launch_locked(struct am_queue *queue, struct am_task *task)
    AM_REQUIRES(queue->lock)
{
    if (task->ops->launch == NULL || task->deadline != AM_FOREVER ||
        !can_launch_locked(queue) || (queue->lane == NULL && !lane_open_locked(queue)))
        return ACL_SUCCESS;
    AM_TRY(task->ops->launch(task, queue->device, queue->lane));
    if (task->number == 0)
        return ACL_SUCCESS;
    TAILQ_INSERT_TAIL(&queue->tasks, task, next);
    queue->n_queued++;
    queue->n_launched++;
    queue->n_unpolled++;
    return ACL_SUCCESS;
}

/* ---- the first task ---- */

/* The task that this thread took out of the queue is over.  The lock is not held before. */
static void task_end(struct am_queue *queue, struct am_task *task, aclError rc,
                     const char *why) AM_ACQUIRE(queue->lock)
{
    const char *function = task->function;

    waitlist_leave(queue); /* run() may have joined; the task keeps the list alive */
    task->ops->free(task);
    am_counter_add(&queue->sched->n_completed, 1);
    am_lock(&queue->lock);
    if (rc != ACL_SUCCESS)
        queue_fail_locked(queue, function, rc, why);
    queue->n_done++;
    queue_leave_locked(queue);
    pthread_cond_broadcast(&queue->changed);
}

/* Takes the first task out of the queue, which this thread owns, and releases the lock. */
static struct am_task *task_take_locked(struct am_queue *queue) AM_RELEASE(queue->lock)
{
    struct am_task *task = TAILQ_FIRST(&queue->tasks);

    TAILQ_REMOVE(&queue->tasks, task, next);
    queue->running = task->function;
    waitlist_leave(queue);
    am_unlock(&queue->lock);
    return task;
}

static void task_run_locked(struct am_queue *queue) AM_REQUIRES(queue->lock)
{
    am_task_hook hook = atomic_load_explicit(&am_task_ran, memory_order_relaxed);
    const char *function = am_error_function;
    struct am_task *task = task_take_locked(queue);
    char why[sizeof queue->why];
    aclError rc = ACL_SUCCESS;

    if (task->ops->run != NULL) {
        uint64_t began = hook != NULL ? am_clock() : 0;
        struct am_capture before;

        why[0] = '\0';
        am_error_function = task->function;
        before = am_error_capture(why, sizeof why);
        am_counter_add(&queue->sched->n_running, 1);
        rc = task->ops->run(task);
        am_counter_add(&queue->sched->n_running, UINT64_MAX);
        am_error_capture_end(before);
        am_error_function = function;
        if (hook != NULL && task->queued != 0 && !task->is_inline)
            hook(queue, task, began, am_clock());
    }
    if (!task->is_unfinished) {
        task_end(queue, task, rc, why);
        return;
    }
    am_lock(&queue->lock);
    TAILQ_INSERT_HEAD(&queue->tasks, task, next);
    queue_leave_locked(queue);
}

static void task_cancel_locked(struct am_queue *queue) AM_REQUIRES(queue->lock)
{
    struct am_cause cause = queue_cause_locked(queue);
    struct am_task *task = task_take_locked(queue);

    if (task->ops->cancel != NULL)
        task->ops->cancel(task, &cause);
    task_end(queue, task, ACL_SUCCESS, NULL);
}

/* Whether the task is dropped, and no function of the program runs for it. */
static bool can_cancel_locked(const struct am_queue *queue, struct am_task *task)
    AM_REQUIRES(queue->lock)
{
    return (queue->is_stopped || queue->n_done < queue->drop_until) &&
           (task->ops->withdraw == NULL || task->ops->withdraw(task));
}

static enum am_poll task_poll_locked(struct am_queue *queue, struct am_task *task)
    AM_REQUIRES(queue->lock)
{
    enum am_poll poll;

    if (task->ops->poll == NULL)
        return AM_POLL_READY;
    queue->is_polling = true;
    queue->is_woken = false;
    am_unlock(&queue->lock);
    poll = task->ops->poll(task);
    am_lock(&queue->lock);
    queue->is_polling = false;
    return poll;
}

/* The first task is not ready: it is dropped, fails, or waits. */
static bool task_wait_locked(struct am_queue *queue, struct am_task *task,
                             enum am_poll poll) AM_REQUIRES(queue->lock)
{
    if (can_cancel_locked(queue, task)) {
        task_cancel_locked(queue);
        return true;
    }
    if (task->ops->timeout != ACL_SUCCESS && task->deadline != AM_FOREVER &&
        queue->sched->setup.now() >= task->deadline) {
        task = task_take_locked(queue);
        task_end(queue, task, task->ops->timeout,
                 "what it waits for did not come in time");
        return true;
    }
    if (poll == AM_POLL_WAIT && queue->is_woken) {
        queue_leave_locked(queue);
        return true;
    }
    return queue_park_locked(queue, poll);
}

/* This thread owns the queue.  Does one step; false: the queue is polled again later. */
static bool advance_locked(struct am_queue *queue) AM_REQUIRES(queue->lock)
{
    struct am_task *task;
    enum am_poll poll;

    collect_locked(queue);
    task = TAILQ_FIRST(&queue->tasks);
    if (task == NULL) {
        queue_leave_locked(queue);
        return true;
    }
    if (task->number != 0 || queue->is_collecting)
        return queue_park_locked(queue, AM_POLL_AGAIN);
    if (can_cancel_locked(queue, task)) {
        task_cancel_locked(queue);
        return true;
    }
    if (!task->is_first) {
        task->is_first = true;
        if (task->deadline != AM_FOREVER)
            task->deadline += queue->sched->setup.now();
    }
    poll = task_poll_locked(queue, task);
    if (poll != AM_POLL_READY)
        return task_wait_locked(queue, task, poll);
    task_run_locked(queue);
    return true;
}

static bool queue_advance(struct am_runnable *runnable)
{
    struct am_queue *queue = (struct am_queue *)runnable;
    bool has_moved;

    am_lock(&queue->lock);
    state_set_locked(queue, AM_QUEUE_RUNNING);
    has_moved = advance_locked(queue);
    am_unlock(&queue->lock);
    return has_moved;
}

/* ---- submitting ---- */

void am_queue_init(struct am_queue *queue, struct am_sched *sched, unsigned priority,
                   const struct am_backend_ops *device, int32_t driver)
{
    *queue = (struct am_queue){
        .runnable = {.advance = queue_advance, .priority = priority},
        .sched = sched,
        .device = device,
        .driver = driver,
    };
    am_lock_init(&queue->lock, AM_RANK_QUEUE, "queue");
    TAILQ_INIT(&queue->tasks);
    am_cond_init(&queue->changed);
}

/* Not the lock: a thread may still wake the queue. */
void am_queue_destroy(struct am_queue *queue)
{
    am_assert(TAILQ_EMPTY(&queue->tasks) && queue->state == AM_QUEUE_IDLE);
    if (queue->lane != NULL)
        queue->device->lane_close(queue->lane);
    pthread_cond_destroy(&queue->changed);
}

bool am_queue_is_updating_locked(const struct am_queue *queue)
{
    return queue->updates != NULL &&
           am_named_find(AM_KIND_TASK_GROUP, queue->updates) != NULL;
}

static aclError submit_locked(struct am_queue *queue, struct am_task *task)
    AM_REQUIRES(queue->lock)
{
    struct am_model_lane *capture = queue->capture;

    AM_REQUIRE(!queue->is_closed, ACL_ERROR_RT_INVALID_HANDLE,
               "the stream was destroyed by another thread");
    if (capture != NULL)
        return am_lane_record(capture, task);
    AM_REQUIRE(!am_queue_is_updating_locked(queue), ACL_ERROR_RT_TASK_TYPE_NOT_SUPPORT,
               "the stream updates a task group, which takes operators alone; call "
               "aclmdlRICaptureTaskUpdateEnd first");
    AM_REQUIRE(!task->is_captured, ACL_ERROR_RT_STREAM_NOT_CAPTURED,
               "another thread has just ended the capture of stream %d", queue->id);
    task->queue = queue;
    task->position = queue->n_queued;
    task->is_inline = task->is_short && queue->n_done == queue->n_queued &&
                      !queue->is_stopped && !queue->sched->setup.is_chaotic;
    if (!task->is_inline)
        AM_TRY(task_launch_locked(queue, task));
    if (task->number != 0)
        return ACL_SUCCESS;
    if (!task->is_inline || task->ops->poll != NULL)
        AM_TRY(am_sched_start_workers(queue->sched));
    if (task->ops->enter != NULL)
        AM_TRY(task->ops->enter(task));
    if (atomic_load_explicit(&am_task_ran, memory_order_relaxed) != NULL)
        task->queued = am_clock();
    TAILQ_INSERT_TAIL(&queue->tasks, task, next);
    queue->n_queued++;
    if (queue->sched->setup.is_chaotic)
        queue->sched->activity++;
    if (queue->state != AM_QUEUE_IDLE)
        return ACL_SUCCESS;
    state_set_locked(queue, AM_QUEUE_RUNNING);
    if (task->is_inline)
        (void)advance_locked(queue);
    else
        queue_leave_locked(queue);
    return ACL_SUCCESS;
}

aclError am_queue_submit(struct am_queue *queue, struct am_task *task,
                         uint64_t *ret_target)
{
    aclError rc;

    am_lock(&queue->lock);
    if (queue->n_unpolled >= POLL_LAUNCHES)
        collect_locked(queue); /* before the launch: after it the device is busy */
    if (ret_target != NULL)
        *ret_target = queue->n_queued + 1;
    rc = submit_locked(queue, task);
    am_unlock(&queue->lock);
    return rc;
}

bool am_queue_is_idle(struct am_queue *queue)
{
    return AM_LOCKED(&queue->lock, queue->n_done == queue->n_queued &&
                                       !queue->is_stopped && !queue->is_closed &&
                                       !queue->sched->setup.is_chaotic);
}

/* ---- dropping ---- */

/* Drops the marked tasks, as far as no other thread owns the queue. */
static void drop_marked_locked(struct am_queue *queue, bool waits_for_functions)
    AM_REQUIRES(queue->lock)
{
    struct am_task *first;

    while (queue->n_done < queue->drop_until &&
           (queue->state == AM_QUEUE_READY || queue->state == AM_QUEUE_PARKED)) {
        first = TAILQ_FIRST(&queue->tasks);
        if (first == NULL || first->number != 0 || queue->is_collecting ||
            (waits_for_functions && !can_cancel_locked(queue, first)) ||
            !am_sched_claim(queue->sched, &queue->runnable))
            return;
        state_set_locked(queue, AM_QUEUE_RUNNING);
        task_cancel_locked(queue);
    }
}

int am_queue_drop(struct am_queue *queue, bool waits_for_functions, uint64_t until)
{
    struct am_sched *sched = queue->sched;
    uint64_t target;
    int rc = 0;

    am_lock(&queue->lock);
    target = queue->n_queued;
    if (queue->drop_until < target)
        queue->drop_until = target;
    for (;;) {
        uint64_t next = until;

        collect_locked(queue);
        drop_marked_locked(queue, waits_for_functions);
        if (queue->n_done >= target)
            break;
        if (sched->setup.now() >= until) {
            rc = ETIMEDOUT;
            break;
        }
        if (queue->n_launched > 0 && sched->setup.now() + AM_MILLISECOND < next)
            next = sched->setup.now() + AM_MILLISECOND;
        am_cond_wait_locked(&queue->lock, &queue->changed, next);
    }
    am_unlock(&queue->lock);
    return rc;
}
