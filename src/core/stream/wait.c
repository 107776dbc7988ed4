/* See wait.h. */
#include "core/stream/wait.h"

#include <errno.h>
#include <stdio.h>

#include "base/log.h"
#include "core/stream/call.h"
#include "core/stream/cond.h"

#define STALL_INTERVAL (AM_SECOND / 5)  /* between two checks for a stall */
#define RECHECK_INTERVAL AM_MILLISECOND /* the same while tasks end */
#define STEP_INTERVAL \
    AM_MILLISECOND /* between two attempts of a thread that does steps */
/* Between two polls, the first and the longest. */
#define POLL_FIRST (20 * AM_MILLISECOND / 1000)
#define POLL_LAST AM_MILLISECOND

void am_stall_start(struct am_stall *stall, struct am_sched *sched)
{
    stall->timeout = (struct am_timeout){AM_STALL_TIMEOUT, sched->setup.now()};
    stall->n_completed = am_counter_sum(&sched->n_completed);
}

/* The progress of one wait. */
struct state {
    uint64_t until;
    uint64_t poll_interval;
    uint64_t next_check; /* for a stall; AM_FOREVER: no more */
    struct am_stall *stall;
    /* If another wait has used up the stall's time: */
    uint64_t sure_at;     /* from then on one check is enough */
    uint64_t n_completed; /* tasks, at the last check */
};

/* Whether the wait is given up.  Releases the lock. */
static bool stall_check_locked(struct am_lock *lock, const struct am_wait *wait,
                               struct state *state) AM_REQUIRES(*lock)
{
    struct am_stall *stall = state->stall;
    uint64_t now = wait->sched->setup.now();
    bool is_over = false;

    state->next_check = now + STALL_INTERVAL;
    am_unlock(lock);
    if (wait->can_end(wait->what, stall)) {
        am_stall_start(stall, wait->sched);
    } else if (am_timeout_check(&stall->timeout, now, 2 * STALL_INTERVAL)) {
        /* The time is not over. */
    } else if (now < state->sure_at &&
               am_sched_is_active(wait->sched, state->n_completed)) {
        /* A task that is just ending has no effect yet, and is not queued any more. */
        state->n_completed = am_counter_sum(&wait->sched->n_completed);
        state->next_check = now + RECHECK_INTERVAL;
    } else {
        is_over = wait->stalled(wait->what);
        state->next_check = AM_FOREVER;
    }
    am_lock(lock);
    return is_over;
}

/* Does a step where no worker does; true: something moved.  Releases the lock. */
static bool step_locked(struct am_lock *lock, const struct am_wait *wait,
                        uint64_t *ret_next) AM_REQUIRES(*lock)
{
    struct am_sched *sched = wait->sched;
    bool has_moved;
    uint64_t next;

    if (sched->setup.n_workers > 0 && !sched->setup.is_chaotic)
        return false;
    am_unlock(lock);
    has_moved = am_sched_step(sched);
    next = am_sched_next_step(sched);
    am_lock(lock);
    *ret_next = next < *ret_next ? next : *ret_next;
    next = sched->setup.now() + STEP_INTERVAL;
    *ret_next = next < *ret_next ? next : *ret_next;
    return has_moved;
}

/* Polls a device or another process.  Releases the lock. */
static void poll_locked(struct am_lock *lock, const struct am_wait *wait,
                        struct state *state, uint64_t *ret_next) AM_REQUIRES(*lock)
{
    bool is_polled;
    uint64_t now;

    if (wait->poll == NULL)
        return;
    am_unlock(lock);
    is_polled = wait->poll(wait->what, state->until == AM_FOREVER);
    am_lock(lock);
    if (!is_polled)
        return;
    now = wait->sched->setup.now();
    if (*ret_next > now + state->poll_interval)
        *ret_next = now + state->poll_interval;
    if (state->poll_interval < POLL_LAST)
        state->poll_interval *= 2;
}

static int wait_locked(struct am_lock *lock, const struct am_wait *wait,
                       struct state *state) AM_REQUIRES(*lock)
{
    struct am_sched *sched = wait->sched;

    while (!wait->is_done(wait->what)) {
        uint64_t next =
            state->until < state->next_check ? state->until : state->next_check;

        if (sched->setup.now() >= state->until)
            return ETIMEDOUT;
        if (step_locked(lock, wait, &next))
            continue;
        poll_locked(lock, wait, state, &next);
        if (wait->is_done(wait->what)) /* the lock was released */
            break;
        am_cond_wait_locked(lock, wait->changed, next);
        sched->activity++;
        if (sched->setup.now() >= state->next_check && !wait->is_done(wait->what) &&
            stall_check_locked(lock, wait, state))
            return ETIMEDOUT;
    }
    return 0;
}

int am_wait_locked(struct am_lock *lock, const struct am_wait *wait, uint64_t timeout_ns)
{
    struct am_stall own;
    struct state state = {.poll_interval = POLL_FIRST,
                          .next_check = AM_FOREVER,
                          .stall = wait->stall,
                          .n_completed = UINT64_MAX};
    uint64_t now;
    int rc;

    if (wait->is_done(wait->what))
        return 0;
    now = wait->sched->setup.now();
    state.until = timeout_ns > AM_FOREVER - now ? AM_FOREVER : now + timeout_ns;
    if (wait->can_end != NULL) {
        state.next_check = now; /* of several waits, the first one may have stalled */
        if (state.stall == NULL) {
            state.stall = &own;
            am_stall_start(&own, wait->sched);
            state.next_check += STALL_INTERVAL;
        }
        state.sure_at = now + STALL_INTERVAL;
    }
    wait->sched->activity++;
    wait->sched->n_waiting++;
    rc = wait_locked(lock, wait, &state);
    wait->sched->n_waiting--;
    return rc;
}

/* ---- whether queued work can end a wait ---- */

/* A walk over queues: its number is in `walk` of the queues that it has reached. */
static struct {
    struct am_lock lock;
    uint64_t number;
    bool has_polled; /* one of them waits for memory */
} walk = {.lock = AM_LOCK_INIT(AM_RANK_WALK, "walk")};

static void walk_begin_locked(void) AM_REQUIRES(walk.lock)
{
    walk.number++;
    walk.has_polled = false;
}

static unsigned sources_get(struct am_task *task, struct am_source *list,
                            bool *ret_is_only)
{
    *ret_is_only = false;
    return task->ops->sources != NULL ? task->ops->sources(task, list, ret_is_only) : 0;
}

/* Whether the queue can move; *ret_n: otherwise, the tasks that its first task waits for. */
static bool first_can_move(struct am_queue *queue, struct am_source *list,
                           unsigned *ret_n)
{
    struct am_task *task;
    bool is_waiting;
    bool can_move;
    bool is_only;

    *ret_n = 0;
    am_lock(&queue->lock);
    task = TAILQ_FIRST(&queue->tasks);
    if (task != NULL)
        task = am_task_current(task);
    is_waiting = queue->state == AM_QUEUE_PARKED ||
                 (queue->state == AM_QUEUE_RUNNING && queue->is_polling);
    if (!is_waiting || task == NULL || task->number != 0)
        can_move = true;
    else if (task->runner != 0) /* a function that waits here itself does not return */
        can_move = task->runner != (uint64_t)pthread_self();
    else
        can_move = task->is_working || task->deadline != AM_FOREVER ||
                   task->ops->completes_by_itself;
    if (!can_move && task->runner == 0) {
        walk.has_polled |= queue->runnable.is_polled;
        *ret_n = sources_get(task, list, &is_only);
    }
    am_unlock(&queue->lock);
    return can_move;
}

static bool can_move_locked(struct am_queue *queue) AM_REQUIRES(walk.lock)
{
    struct am_source list[AM_SOURCES_MAX];
    unsigned n;

    if (queue->walk == walk.number)
        return false;
    queue->walk = walk.number;
    if (first_can_move(queue, list, &n))
        return true;
    for (unsigned i = 0; i < n; i++) {
        if (can_move_locked(list[i].queue))
            return true;
    }
    return false;
}

bool am_stall_can_end(const struct am_source *sources, unsigned n,
                      const struct am_stall *stall)
{
    struct am_sched *sched;
    bool can_end = false;
    bool has_polled;

    am_lock(&walk.lock);
    walk_begin_locked();
    for (unsigned i = 0; i < n && !can_end; i++)
        can_end = can_move_locked(sources[i].queue);
    has_polled = walk.has_polled;
    am_unlock(&walk.lock);
    if (can_end || !has_polled)
        return can_end;
    /* Memory may change while any task runs, or will run. */
    sched = sources[0].queue->sched;
    return am_sched_has_deadline(sched) || sched->n_functions > 0 ||
           am_sched_is_active(sched, stall->n_completed);
}

bool am_stall_can_move(struct am_queue *queue, const struct am_stall *stall)
{
    struct am_source self = {.queue = queue};

    return am_stall_can_end(&self, 1, stall);
}

/*
 * The next task after position *at (from 0) and before `until` that waits for exactly one
 * task of a queue that the walk has not reached.
 */
static bool awaited_find(struct am_queue *queue, uint64_t *at, uint64_t until,
                         struct am_source *ret_source) AM_REQUIRES(walk.lock, queue->lock)
{
    struct am_source list[AM_SOURCES_MAX];
    struct am_task *task;
    bool is_only;

    TAILQ_FOREACH (task, &queue->tasks, next) {
        if (task->position < *at || task->deadline != AM_FOREVER)
            continue;
        if (task->position >= until)
            return false;
        *at = task->position + 1;
        if (sources_get(task, list, &is_only) == 1 && is_only &&
            list[0].queue->walk != walk.number) {
            *ret_source = list[0];
            return true;
        }
    }
    return false;
}

static bool awaits_caller_locked(struct am_queue *queue, uint64_t until)
    AM_REQUIRES(walk.lock)
{
    struct am_source next;
    bool is_awaited = false;
    bool has_next = true;
    uint64_t at = 0;

    queue->walk = walk.number;
    while (has_next && !is_awaited) {
        am_lock(&queue->lock);
        is_awaited = am_call_blocks_locked(queue);
        /* A queue whose tasks are dropped waits for nothing. */
        has_next = !is_awaited && queue->drop_until <= queue->n_done &&
                   awaited_find(queue, &at, until, &next);
        am_unlock(&queue->lock);
        if (has_next)
            is_awaited = awaits_caller_locked(next.queue, next.position);
    }
    return is_awaited;
}

bool am_stall_awaits_caller(struct am_queue *queue, uint64_t until)
{
    bool is_awaited;

    if (!am_call_is_inside())
        return false;
    am_lock(&walk.lock);
    walk_begin_locked();
    is_awaited = awaits_caller_locked(queue, until);
    am_unlock(&walk.lock);
    return is_awaited;
}

/* The message about the queue, or the queue that its first task waits for. */
static struct am_queue *describe_locked(struct am_queue *queue, char *text, size_t size)
    AM_REQUIRES(walk.lock)
{
    struct am_source list[AM_SOURCES_MAX];
    char what[AM_STALL_TEXT / 2];
    struct am_queue *next = NULL;
    struct am_task *task;
    bool is_only;

    queue->walk = walk.number;
    am_lock(&queue->lock);
    task = TAILQ_FIRST(&queue->tasks);
    if (task != NULL && sources_get(task, list, &is_only) == 1 && is_only)
        next = list[0].queue;
    if (task != NULL && (next == NULL || next->walk == walk.number)) {
        am_task_describe(task, what, sizeof what);
        snprintf(text, size, "%s made stream %d wait until %s, and %s", task->function,
                 queue->id, what,
                 next != NULL ? "that comes only after this wait"
                              : "nothing that is queued brings that about");
        next = NULL;
    }
    am_unlock(&queue->lock);
    return next;
}

void am_stall_describe(struct am_queue *queue, char *text, size_t size)
{
    am_lock(&walk.lock);
    walk_begin_locked();
    while ((queue = describe_locked(queue, text, size)) != NULL)
        ;
    am_unlock(&walk.lock);
}

/* ---- waiting for a queue ---- */

struct queue_wait {
    struct am_queue *queue;
    uint64_t target;
    bool gives_up;
};

static bool queue_is_done(void *what)
{
    const struct queue_wait *wait = what;

    return wait->queue->n_done >= wait->target;
}

static bool queue_poll(void *what, bool may_block)
{
    return am_queue_poll(((const struct queue_wait *)what)->queue, may_block);
}

static bool queue_can_end(void *what, const struct am_stall *stall)
{
    return am_stall_can_move(((const struct queue_wait *)what)->queue, stall);
}

static bool queue_stalled(void *what)
{
    const struct queue_wait *wait = what;
    struct am_queue *queue = wait->queue;
    struct am_task *task;
    char why[AM_STALL_TEXT] = "";
    bool was_warned = true;

    if (wait->gives_up)
        return true;
    am_lock(&queue->lock);
    task = TAILQ_FIRST(&queue->tasks);
    if (task != NULL) {
        was_warned = task->is_warned;
        task->is_warned = true;
    }
    am_unlock(&queue->lock);
    if (was_warned)
        return false;
    am_stall_describe(queue, why, sizeof why);
    am_log(AM_LOG_WARN, "%s has waited %d seconds for stream %d: %s", am_error_function,
           (int)(AM_STALL_TIMEOUT / AM_SECOND), queue->id, why);
    return false;
}

int am_stall_wait_locked(struct am_queue *queue, uint64_t target, uint64_t timeout_ns,
                         struct am_stall *stall)
{
    struct queue_wait what = {queue, target, stall != NULL};
    struct am_wait wait = {
        .sched = queue->sched,
        .changed = &queue->changed,
        .what = &what,
        .is_done = queue_is_done,
        .poll = queue->device != NULL ? queue_poll : NULL,
        .can_end = queue_can_end,
        .stalled = queue_stalled,
        .stall = stall,
    };

    return am_wait_locked(&queue->lock, &wait, timeout_ns);
}

int am_stall_wait_launched(struct am_queue *queue, uint64_t timeout_ns)
{
    uint64_t target;
    int rc;

    if (queue->device == NULL)
        return 0;
    am_lock(&queue->lock);
    /* n_done does not include tasks that are being completed. */
    target = queue->n_launched > 0 ? queue->n_done + queue->n_launched : 0;
    rc = am_stall_wait_locked(queue, target, timeout_ns, NULL);
    am_unlock(&queue->lock);
    return rc;
}
