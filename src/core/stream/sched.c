/* See sched.h. */
#include "core/stream/sched.h"

#include <errno.h>
#include <stdio.h>

#include "acl/error_codes/rt_error_codes.h"
#include "base/error.h"
#include "base/sys.h"
#include "base/util.h"
#include "core/ledger/ledger.h"
#include "core/stream/sched_bypass.h"

/* Queues with the same deadline are ordered by address. */
static int deadline_compare(struct am_queue *a, struct am_queue *b)
{
    uint64_t at_a = TAILQ_FIRST(&a->tasks)->deadline;
    uint64_t at_b = TAILQ_FIRST(&b->tasks)->deadline;

    if (at_a != at_b)
        return at_a < at_b ? -1 : 1;
    return a == b ? 0 : a < b ? -1 : 1;
}

RB_GENERATE_INTERNAL(am_deadlines, am_queue, timed, deadline_compare,
                     __attribute__((unused)) static)

struct am_sched am_sched;
_Atomic(am_task_hook) am_task_ran;

/* A number below n; xorshift, so that a seed gives the same order everywhere. */
static unsigned random_below(struct am_sched *sched, unsigned n)
{
    sched->random ^= sched->random << 13;
    sched->random ^= sched->random >> 7;
    sched->random ^= sched->random << 17;
    return (unsigned)((sched->random >> 33) % n);
}

void *am_task_make(const struct am_task_ops *ops, size_t size)
{
    struct am_task *task = am_sys_malloc(size);

    if (task != NULL)
        am_task_init(task, ops);
    else
        am_error_report(ACL_ERROR_BAD_ALLOC, "no memory for a task");
    return task;
}

void am_queue_init(struct am_queue *queue, unsigned priority)
{
    *queue = (struct am_queue){
        .priority = priority, .state = AM_QUEUE_IDLE, .bypass = AM_BYPASS_CLOSED};
    TAILQ_INIT(&queue->tasks);
    am_cond_init(&queue->changed);
}

void am_queue_destroy(struct am_queue *queue)
{
    am_assert(TAILQ_EMPTY(&queue->tasks) && queue->state == AM_QUEUE_IDLE);
    pthread_cond_destroy(&queue->changed);
}

void am_bypass_close_locked(struct am_sched *sched, struct am_queue *queue)
{
    /* The acquire pairs with the leave of the last task inside. */
    uint64_t bypass =
        atomic_fetch_or_explicit(&queue->bypass, AM_BYPASS_CLOSED, memory_order_acq_rel);
    uint64_t n = bypass / AM_BYPASS_ONE;

    if (bypass & AM_BYPASS_CLOSED)
        return;
    queue->n_queued += n;
    queue->n_done += n;
    if (bypass & AM_BYPASS_INSIDE) {
        queue->n_queued++;
        queue->state = AM_QUEUE_RUNNING;
        queue->running = atomic_load_explicit(&queue->inside, memory_order_relaxed);
        sched->n_running++;
    }
}

void am_bypass_open_locked(struct am_sched *sched, struct am_queue *queue)
{
    bool is_clean = queue->error == ACL_SUCCESS || queue->is_reported;

    /* A thread that waited finds it opened by another one, perhaps with a task inside. */
    if (!(atomic_load_explicit(&queue->bypass, memory_order_relaxed) & AM_BYPASS_CLOSED))
        return;
    if (queue->state != AM_QUEUE_IDLE || !is_clean || queue->is_stopped ||
        queue->is_closed || sched->setup.is_chaotic)
        return;
    /* The partners are the acquires in am_bypass_is_quiet() and am_bypass_enter(). */
    atomic_store_explicit(&queue->bypass, 0, memory_order_release);
}

void am_sched_call_worker_locked(struct am_sched *sched)
{
    if (sched->n_sleeping > 0)
        pthread_cond_signal(&sched->work);
    else if (sched->has_watcher)
        pthread_cond_signal(&sched->clock);
}

/* A worker must become the watcher, or the watcher must look at the clock again. */
static void watcher_call_locked(struct am_sched *sched) AM_REQUIRES(sched->lock)
{
    if (sched->has_watcher)
        pthread_cond_signal(&sched->clock);
    else if (sched->n_sleeping > 0)
        pthread_cond_signal(&sched->work);
}

static void queue_make_ready_locked(struct am_sched *sched, struct am_queue *queue)
    AM_REQUIRES(sched->lock)
{
    queue->state = AM_QUEUE_READY;
    TAILQ_INSERT_TAIL(&sched->ready[queue->priority], queue, link);
    sched->n_ready++;
    am_sched_call_worker_locked(sched);
}

static void queue_unready_locked(struct am_sched *sched, struct am_queue *queue)
    AM_REQUIRES(sched->lock)
{
    TAILQ_REMOVE(&sched->ready[queue->priority], queue, link);
    sched->n_ready--;
}

/* Shows other processes what the queue waits for. */
static void figure_write(const struct am_queue *queue)
{
    const struct am_task *task = TAILQ_FIRST(&queue->tasks);
    struct am_ledger_stream *figure = queue->figure;

    figure->n_queued = (uint32_t)(queue->n_queued - queue->n_done);
    snprintf(figure->function, sizeof figure->function, "%s", task->function);
    if (task->ops->describe != NULL)
        task->ops->describe(task, figure->until, sizeof figure->until);
    else
        snprintf(figure->until, sizeof figure->until,
                 "the function that it calls returns");
    atomic_store_explicit(&figure->is_waiting, 1, memory_order_release);
}

static uint64_t deadline_of(const struct am_queue *queue)
{
    return TAILQ_FIRST(&queue->tasks)->deadline;
}

uint64_t am_sched_next_look_locked(struct am_sched *sched)
{
    const struct am_queue *first = RB_MIN(am_deadlines, &sched->timed);
    uint64_t deadline = first != NULL ? deadline_of(first) : AM_FOREVER;
    uint64_t look = sched->setup.now() + AM_POLL_INTERVAL;

    return sched->n_polled > 0 && look < deadline ? look : deadline;
}

bool am_sched_is_watched_locked(const struct am_sched *sched)
{
    return sched->n_polled > 0 || !RB_EMPTY(&sched->timed);
}

/*
 * Park the queue on list (NULL: memory decides), with its first task's deadline.  The
 * watcher is called where it would look too late otherwise.
 */
static void queue_park_locked(struct am_sched *sched, struct am_queue *queue,
                              struct am_waitlist *list) AM_REQUIRES(sched->lock)
{
    /* Of a queue that was checked, this thread is the watcher. */
    bool must_watch =
        list == NULL && sched->n_polled == 0 && queue->state != AM_QUEUE_CHECKED;

    queue->state = AM_QUEUE_PARKED;
    queue->waiting_on = list;
    TAILQ_INSERT_TAIL(list != NULL ? &list->queues : &sched->polled, queue, link);
    sched->n_polled += list == NULL;
    queue->looked = sched->n_looks;
    queue->is_timed = deadline_of(queue) != AM_FOREVER;
    if (queue->is_timed) {
        RB_INSERT(am_deadlines, &sched->timed, queue);
        must_watch = must_watch || RB_MIN(am_deadlines, &sched->timed) == queue;
    }
    if (must_watch)
        watcher_call_locked(sched);
    if (queue->figure != NULL)
        figure_write(queue);
}

static void queue_unpark_locked(struct am_sched *sched, struct am_queue *queue)
    AM_REQUIRES(sched->lock)
{
    struct am_waitlist *list = queue->waiting_on;

    if (queue->figure != NULL)
        atomic_store_explicit(&queue->figure->is_waiting, 0, memory_order_relaxed);
    TAILQ_REMOVE(list != NULL ? &list->queues : &sched->polled, queue, link);
    sched->n_polled -= list == NULL;
    queue->waiting_on = NULL;
    if (queue->is_timed)
        RB_REMOVE(am_deadlines, &sched->timed, queue);
    queue->is_timed = false;
}

void am_sched_wake_locked(struct am_sched *sched, struct am_waitlist *list)
{
    struct am_queue *queue;

    while ((queue = TAILQ_FIRST(&list->queues)) != NULL) {
        queue_unpark_locked(sched, queue);
        queue_make_ready_locked(sched, queue);
        pthread_cond_broadcast(&queue->changed); /* for a thread that drains the queue */
    }
}

void am_queue_fail_locked(struct am_queue *queue, const struct am_task *task, aclError rc,
                          const char *why)
{
    if (queue->error == ACL_SUCCESS || queue->is_reported) {
        queue->error = rc;
        queue->failed = task->function;
        queue->is_reported = false;
        snprintf(queue->why, sizeof queue->why, "work queued by %s failed: %.*s",
                 task->function, (int)sizeof queue->why - 100, why);
    }
    if (queue->stop_on_failure)
        queue->is_stopped = true;
}

const char *am_queue_first_locked(const struct am_queue *queue)
{
    am_assert(queue->n_done < queue->n_queued);
    return queue->running != NULL ? queue->running : TAILQ_FIRST(&queue->tasks)->function;
}

struct am_cause am_queue_cause(const struct am_queue *queue)
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

/* A task of a running queue is done.  A thread that waited for it may free the queue. */
static void queue_done_locked(struct am_sched *sched, struct am_queue *queue)
    AM_REQUIRES(sched->lock)
{
    queue->n_done++;
    queue->running = NULL;
    if (TAILQ_EMPTY(&queue->tasks))
        queue->state = AM_QUEUE_IDLE;
    else
        queue_make_ready_locked(sched, queue);
    am_bypass_open_locked(sched, queue);
    pthread_cond_broadcast(&queue->changed);
}

/*
 * Take the first task out and go on to the next one.  The lock is released while it is
 * dropped.
 */
static void task_leave_locked(struct am_sched *sched, struct am_queue *queue)
    AM_REQUIRES(sched->lock)
{
    struct am_task *task = TAILQ_FIRST(&queue->tasks);

    TAILQ_REMOVE(&queue->tasks, task, next);
    queue->running = task->function;
    queue->state =
        AM_QUEUE_RUNNING; /* no other thread takes it while the lock is released */
    am_unlock(&sched->lock);
    task->ops->drop(task);
    am_lock(&sched->lock);

    queue_done_locked(sched, queue);
}

/* The same for a task that is not to run any more. */
static void task_lose_locked(struct am_sched *sched, struct am_queue *queue)
    AM_REQUIRES(sched->lock)
{
    struct am_task *task = TAILQ_FIRST(&queue->tasks);

    if (task->ops->cancel != NULL)
        task->ops->cancel(task, queue);
    task_leave_locked(sched, queue);
}

/* This thread is going to run a task: another one takes its next task and its watch. */
static void others_call_locked(struct am_sched *sched) AM_REQUIRES(sched->lock)
{
    if (sched->n_ready > 0)
        am_sched_call_worker_locked(sched);
    if (am_sched_is_watched_locked(sched) && !sched->has_watcher)
        watcher_call_locked(sched);
}

/* Without the lock, on behalf of the call that queued it. */
static aclError task_work_locked(struct am_sched *sched, const struct am_queue *queue,
                                 struct am_task *task) AM_REQUIRES(sched->lock)
{
    am_task_hook hook = atomic_load_explicit(&am_task_ran, memory_order_relaxed);
    uint64_t began = hook != NULL ? am_clock() : 0;
    aclError rc;

    sched->n_running++;
    others_call_locked(sched);
    am_unlock(&sched->lock);
    rc = task->ops->run(task);
    if (hook != NULL && task->queued != 0)
        hook(queue, task, began, am_clock());
    am_lock(&sched->lock);
    sched->n_running--;
    return rc;
}

/* Run the queue's first task, which is ready. */
static void task_run_locked(struct am_sched *sched, struct am_queue *queue)
    AM_REQUIRES(sched->lock)
{
    struct am_task *task = TAILQ_FIRST(&queue->tasks);
    const char *function = am_error_function;
    char why[sizeof queue->why] = "";
    struct am_capture before;
    aclError rc = ACL_SUCCESS;

    queue->state = AM_QUEUE_RUNNING;
    am_error_function = task->function;
    before = am_error_capture(why, sizeof why);
    if (task->ops->run != NULL)
        rc = task_work_locked(sched, queue, task);
    if (rc == ACL_SUCCESS && task->ops->finish != NULL)
        rc = task->ops->finish(task, sched);
    am_error_capture_end(before);
    am_error_function = function;
    if (rc != ACL_SUCCESS)
        am_queue_fail_locked(queue, task, rc, why);
    am_tally_add(&sched->moves, 1);
    task_leave_locked(sched, queue);
}

static bool first_is_dropped(const struct am_queue *queue)
{
    return queue->is_stopped || queue->n_done < queue->drop_until;
}

/* Whether the task can run; *ret_list is where its queue waits otherwise. */
static bool task_is_ready_locked(struct am_sched *sched, struct am_task *task,
                                 struct am_waitlist **ret_list) AM_REQUIRES(sched->lock)
{
    const struct am_task_ops *ops = task->ops;
    bool has_come;

    *ret_list = NULL;
    if (ops->poll != NULL && ops->poll(task, sched, ret_list))
        return true;
    if (*ret_list != NULL || ops->check == NULL)
        return ops->poll == NULL;
    am_unlock(&sched->lock);
    has_come = ops->check(task);
    am_lock(&sched->lock);
    return has_come && (ops->poll == NULL || ops->poll(task, sched, ret_list));
}

/* The first task, which is not ready at this time, is given up or waits. */
static void task_wait_locked(struct am_sched *sched, struct am_queue *queue,
                             struct am_waitlist *list, uint64_t now)
    AM_REQUIRES(sched->lock)
{
    struct am_task *task = TAILQ_FIRST(&queue->tasks);

    if (first_is_dropped(queue) && !task->is_outside) {
        task_lose_locked(sched, queue); /* since the poll */
    } else if (now >= task->deadline) {
        am_queue_fail_locked(queue, task, task->ops->timeout,
                             "what it waits for did not come in time");
        am_tally_add(&sched->moves, 1);
        task_leave_locked(sched, queue);
    } else {
        queue_park_locked(sched, queue, list);
        pthread_cond_broadcast(&queue->changed); /* for a thread that drops its tasks */
    }
}

/* The queue is in no list: look at its first task. */
static void queue_advance_locked(struct am_sched *sched, struct am_queue *queue)
    AM_REQUIRES(sched->lock)
{
    struct am_task *task = TAILQ_FIRST(&queue->tasks);
    struct am_waitlist *list;
    uint64_t now = sched->setup.now();

    queue->state = AM_QUEUE_RUNNING; /* a poll may release the lock */
    if (first_is_dropped(queue)) {
        task_lose_locked(sched, queue);
        return;
    }
    if (!task->is_first) {
        task->is_first = true;
        if (task->deadline != AM_FOREVER)
            task->deadline += now;
    }
    if (task_is_ready_locked(sched, task, &list))
        task_run_locked(sched, queue);
    else
        task_wait_locked(sched, queue, list, now);
}

static struct am_queue *ready_find_locked(struct am_sched *sched) AM_REQUIRES(sched->lock)
{
    unsigned skip = sched->setup.is_chaotic ? random_below(sched, sched->n_ready) : 0;
    struct am_queue *queue;

    for (int i = 0; i < AM_PRIORITIES; i++) {
        TAILQ_FOREACH (queue, &sched->ready[i], link) {
            if (skip-- == 0)
                return queue;
        }
    }
    return NULL;
}

/* A parked queue has its turn; true when it is parked no longer. */
static bool queue_check_locked(struct am_sched *sched, struct am_queue *queue)
    AM_REQUIRES(sched->lock)
{
    struct am_waitlist *list;
    uint64_t now = sched->setup.now();
    bool is_ready;

    queue_unpark_locked(sched, queue);
    queue->state = AM_QUEUE_CHECKED;
    sched->n_polled++; /* meanwhile, or a watcher would not look again in time */
    is_ready = task_is_ready_locked(sched, TAILQ_FIRST(&queue->tasks), &list);
    sched->n_polled--;
    if (is_ready)
        task_run_locked(sched, queue);
    else
        task_wait_locked(sched, queue, list, now);
    return is_ready || queue->state != AM_QUEUE_PARKED || list != NULL;
}

/* Each queue that memory decides about, until one of them moves on. */
static bool polled_step_locked(struct am_sched *sched) AM_REQUIRES(sched->lock)
{
    uint64_t look = ++sched->n_looks;
    struct am_queue *queue;

    while ((queue = TAILQ_FIRST(&sched->polled)) != NULL && queue->looked < look) {
        if (queue_check_locked(sched, queue))
            return true;
    }
    return false;
}

/* Memory is looked at when nothing else is to be done, and every so often all the same. */
static bool poll_is_due_locked(struct am_sched *sched) AM_REQUIRES(sched->lock)
{
    uint64_t now;

    if (sched->n_polled == 0)
        return false;
    now = sched->setup.now();
    if (sched->n_ready > 0 && now - sched->last_poll < AM_POLL_INTERVAL)
        return false;
    sched->last_poll = now;
    return true;
}

bool am_sched_step_locked(struct am_sched *sched)
{
    struct am_queue *queue = RB_MIN(am_deadlines, &sched->timed);
    bool has_moved = true;

    sched->n_stepping++;
    if (queue != NULL && deadline_of(queue) <= sched->setup.now()) {
        queue_unpark_locked(sched, queue);
        queue_advance_locked(sched, queue);
    } else if (poll_is_due_locked(sched) && polled_step_locked(sched)) {
        ; /* that was the step */
    } else if (sched->n_ready > 0) {
        queue = ready_find_locked(sched);
        queue_unready_locked(sched, queue);
        queue_advance_locked(sched, queue);
    } else {
        has_moved = false;
    }
    sched->n_stepping--;
    return has_moved;
}

aclError am_sched_submit_locked(struct am_sched *sched, struct am_queue *queue,
                                struct am_task *task)
{
    aclError rc;

    AM_REQUIRE(!queue->is_closed, ACL_ERROR_RT_INVALID_HANDLE,
               "the stream was destroyed by another thread");
    am_bypass_close_locked(sched, queue);
    rc = am_sched_start_workers_locked(sched);
    if (rc != ACL_SUCCESS) {
        am_bypass_open_locked(sched, queue);
        return rc;
    }
    task->is_first = false;
    task->is_warned = false;
    task->queued =
        atomic_load_explicit(&am_task_ran, memory_order_relaxed) != NULL ? am_clock() : 0;
    TAILQ_INSERT_TAIL(&queue->tasks, task, next);
    queue->n_queued++;
    sched->activity++;
    if (queue->state == AM_QUEUE_IDLE)
        queue_make_ready_locked(sched, queue);
    return ACL_SUCCESS;
}

bool am_sched_try_begin(struct am_sched *sched, struct am_queue *queue, bool is_short)
{
    bool is_free;

    if (is_short && am_bypass_enter(queue)) {
        am_moment();
        return true;
    }
    am_lock(&sched->lock);
    am_bypass_close_locked(sched, queue);
    is_free = queue->state == AM_QUEUE_IDLE && !queue->is_stopped && !queue->is_closed &&
              !sched->setup.is_chaotic;
    if (is_free) {
        queue->state = AM_QUEUE_RUNNING;
        queue->running = am_error_function;
        queue->n_queued++;
        sched->n_running++;
    }
    am_bypass_open_locked(sched, queue);
    am_unlock(&sched->lock);
    return is_free;
}

void am_sched_end(struct am_sched *sched, struct am_queue *queue)
{
    if (am_bypass_leave(sched, queue))
        return;
    am_lock(&sched->lock);
    /* No order is needed: nothing is read without the lock until the bypass is opened. */
    atomic_store_explicit(&queue->bypass, AM_BYPASS_CLOSED, memory_order_relaxed);
    sched->n_running--;
    am_tally_add(&sched->moves, 1);
    queue_done_locked(sched, queue);
    am_unlock(&sched->lock);
}

/*
 * Drops marked tasks that no thread is at; with `spares`, not a task that a function of the
 * program runs for.
 */
static void queue_drop_locked(struct am_sched *sched, struct am_queue *queue, bool spares)
    AM_REQUIRES(sched->lock)
{
    while (queue->n_done < queue->drop_until) {
        if (queue->state == AM_QUEUE_READY)
            queue_unready_locked(sched, queue);
        else if (queue->state == AM_QUEUE_PARKED &&
                 !(spares && TAILQ_FIRST(&queue->tasks)->is_outside))
            queue_unpark_locked(sched, queue);
        else
            return;
        queue->state = AM_QUEUE_RUNNING;
        task_lose_locked(sched, queue);
    }
}

/* Drops the tasks queued so far; waits for one that runs until that time. */
static int queue_empty_locked(struct am_sched *sched, struct am_queue *queue, bool spares,
                              uint64_t until) AM_REQUIRES(sched->lock)
{
    uint64_t target;

    am_bypass_close_locked(sched, queue);
    target = queue->n_queued;
    if (queue->drop_until < target)
        queue->drop_until = target;
    queue_drop_locked(sched, queue, spares);
    while (queue->n_done < target) {
        if (sched->setup.now() >= until)
            return ETIMEDOUT;
        /* The thread that runs its first task signals. */
        am_cond_wait_locked(&sched->lock, &queue->changed, until);
        queue_drop_locked(sched, queue, spares);
    }
    am_bypass_open_locked(sched, queue);
    return 0;
}

void am_sched_drop_tasks_locked(struct am_sched *sched, struct am_queue *queue)
{
    (void)queue_empty_locked(sched, queue, false, AM_FOREVER);
}

int am_sched_drain_locked(struct am_sched *sched, struct am_queue *queue, uint64_t until)
{
    return queue_empty_locked(sched, queue, true, until);
}
