/*
 * See call.h.
 *
 * A call is one function to be run, with the task that queued it.  The stream and the thread
 * that runs the function each hold a reference, since either may end first: a stream can be
 * aborted while its callback runs.
 *
 * Host functions may wait for each other, so each that is due must get a thread in the
 * end; but two thousand short ones must not get two thousand threads.  The first few threads
 * are started as they are needed.  When all threads are busy but one, that one is the lookout.
 * It takes a call only if no call ended for a millisecond and all other threads are inside
 * functions (a thread that only waits for a processor will take the call), and starts the
 * next lookout first.
 */
#include "core/stream/call.h"
#include "core/stream/sched.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "acl/error_codes/rt_error_codes.h"
#include "base/epoch.h"
#include "base/error.h"
#include "base/sys.h"
#include "base/thread.h"
#include "base/util.h"

#define HOSTS_EAGER 8 /* threads for host functions that are made without waiting */
#define STALL AM_MILLISECOND
#define THREADS_MAX 1024 /* subscribed ones: the documented limit */

TAILQ_HEAD(calls, call);

struct call {
    struct am_task task;
    atomic_uint refs;
    void (*function)(void *);
    void *data;
    uint64_t thread; /* that is to run it; callbacks only */
    bool is_blocking;
    bool is_started; /* sched.lock, as all below */
    bool is_done;
    struct calls *listed;       /* where it waits to be run; NULL: it does not */
    struct am_waitlist waiting; /* the one queue that it blocks */
    struct call *outer;         /* of its thread: the one that it was called from */
    TAILQ_ENTRY(call) next;
};

/*
 * A thread of the program that some streams named; stays while it has streams or
 * callbacks.
 */
struct subscriber {
    uint64_t thread;
    uint32_t n_streams;
    LIST_ENTRY(subscriber) all;
};

static LIST_HEAD(, subscriber)
    subscribers = LIST_HEAD_INITIALIZER(subscribers); /* sched.lock */
static struct calls callbacks =
    TAILQ_HEAD_INITIALIZER(callbacks); /* sched.lock; callbacks to run */
static pthread_cond_t callbacks_changed;
static pthread_once_t calls_once = PTHREAD_ONCE_INIT;

/* A thread that runs host functions, until the library stops. */
struct host {
    pthread_t thread;
    SLIST_ENTRY(host) next;
};

static struct {
    struct calls calls; /* sched.lock, as all here */
    unsigned n_calls;
    uint64_t n_done;
    unsigned n_idle;
    unsigned n_inside; /* threads that are in a function */
    unsigned n_threads;
    SLIST_HEAD(, host) threads;
    bool has_lookout;
    bool is_stopping;
    pthread_cond_t work;
    pthread_cond_t done; /* a call is, also one that is no host function */
} hosts = {.calls = TAILQ_HEAD_INITIALIZER(hosts.calls)};

/* The call that this thread runs now. */
static _Thread_local struct call *inside;

static void calls_init(void)
{
    am_cond_init(&callbacks_changed);
    am_cond_init(&hosts.work);
    am_cond_init(&hosts.done);
}

static void call_put(struct call *call)
{
    if (am_ref_drop(&call->refs))
        free(call);
}

/* The function is over, and its queue goes on. */
static void call_end_locked(struct call *call) AM_REQUIRES(am_sched.lock)
{
    am_sched.n_outside--;
    call->task.is_outside = false;
    inside = call->outer;
    call->is_done = true;
    am_sched_wake_locked(&am_sched, &call->waiting);
    pthread_cond_broadcast(&hosts.done);
}

static int hosts_grow_locked(void) AM_REQUIRES(am_sched.lock);

/*
 * The function ended its thread, as functions of an ended interpreter do.  Does what would
 * have come after the function.
 */
static void call_break_off(void *arg)
{
    struct call *call = arg;

    am_lock(&am_sched.lock);
    call_end_locked(call);
    if (call->thread == 0) { /* a host function: a thread of ours, still to be joined */
        hosts.n_inside--;
        hosts.n_done++;
        hosts.n_threads--;
        if (hosts.n_calls > 0)
            hosts_grow_locked();
    }
    am_unlock(&am_sched.lock);
    call_put(call);
}

/* The function, without any lock of ours, then its queue goes on. */
static void call_run_locked(struct call *call) AM_REQUIRES(am_sched.lock)
{
    unsigned depth;

    call->outer = inside;
    inside = call;
    call->task.is_outside = true;
    call->task.runner = pthread_self();
    am_sched.n_outside++;
    am_unlock(&am_sched.lock);
    depth = am_epoch_suspend();
    pthread_cleanup_push(call_break_off, call);
    call->function(call->data);
    pthread_cleanup_pop(0);
    am_epoch_resume(depth);
    am_lock(&am_sched.lock);
    call_end_locked(call);
}

bool am_call_is_inside(void)
{
    return inside != NULL;
}

bool am_call_blocks_locked(const struct am_queue *queue)
{
    for (const struct call *call = inside; call != NULL; call = call->outer) {
        if (&call->task == TAILQ_FIRST(&queue->tasks))
            return true;
    }
    return false;
}

/* Each queue is looked at once in a walk. */
static bool queue_awaits_locked(struct am_queue *queue, const struct am_task *until)
    AM_REQUIRES(am_sched.lock)
{
    const struct am_task *task;

    if (queue->visit == am_sched.visit)
        return false;
    queue->visit = am_sched.visit;
    if (am_call_blocks_locked(queue))
        return true;
    if (queue->drop_until > queue->n_done) /* it waits for nothing any more */
        return false;
    TAILQ_FOREACH (task, &queue->tasks, next) {
        const struct am_task *awaited = NULL;
        struct am_queue *other;

        if (task == until)
            break;
        if (task->ops->awaits != NULL && task->deadline == AM_FOREVER)
            awaited = task->ops->awaits(task, &other);
        if (awaited != NULL && queue_awaits_locked(other, awaited))
            return true;
    }
    return false;
}

bool am_call_is_awaited_locked(struct am_queue *queue, const struct am_task *until)
{
    if (inside == NULL)
        return false;
    am_sched.visit++;
    return queue_awaits_locked(queue, until);
}

/* Put the call where its runner finds it; the runner's reference goes with it. */
static void call_start_locked(struct call *call, struct calls *list)
    AM_REQUIRES(am_sched.lock)
{
    call->is_started = true;
    am_ref_more(&call->refs);
    TAILQ_INSERT_TAIL(list, call, next);
    call->listed = list;
}

/* Out of its list; the reference is the caller's now. */
static void call_unlist_locked(struct call *call) AM_REQUIRES(am_sched.lock)
{
    TAILQ_REMOVE(call->listed, call, next);
    call->listed = NULL;
}

/* A stream that is aborted takes back a function that has not begun. */
static void call_drop(struct am_task *task)
{
    struct call *call = (struct call *)task;
    bool is_taken_back;

    am_lock(&am_sched.lock);
    is_taken_back = call->is_blocking && call->listed != NULL;
    if (is_taken_back) {
        hosts.n_calls -= call->listed == &hosts.calls;
        call_unlist_locked(call);
    }
    am_unlock(&am_sched.lock);
    if (is_taken_back)
        call_put(call);
    call_put(call);
}

/*
 * In chaos mode no other task runs until the function is done, so that a seed gives one
 * order.  The wait is bounded, since the function may wait for another one.
 */
static void call_linger_locked(struct call *call) AM_REQUIRES(am_sched.lock)
{
    for (unsigned n_looks = 0; !call->is_done && n_looks < AM_CHAOS_LOOKS; n_looks++) {
        uint64_t until = am_clock() + AM_CHAOS_LOOK;

        while (!call->is_done &&
               am_cond_wait_locked(&am_sched.lock, &hosts.done, until) == 0)
            ;
    }
}

AM_NO_LOCK_ANALYSIS /* the scheduler calls it with its lock, which is ours */
    static bool
    callback_poll(struct am_task *task, struct am_sched *sched,
                  struct am_waitlist **ret_list)
{
    struct call *call = (struct call *)task;

    *ret_list = &call->waiting;
    if (!call->is_started) {
        call_start_locked(call, &callbacks);
        pthread_cond_broadcast(&callbacks_changed);
        if (sched->setup.is_chaotic && call->is_blocking &&
            call->thread != (uint64_t)pthread_self())
            call_linger_locked(call);
    }
    return call->is_done || !call->is_blocking;
}

static void callback_describe(const struct am_task *task, char *text, size_t size)
{
    snprintf(text, size,
             "the thread that subscribed runs the callback in "
             "aclrtProcessReport");
}

static const struct am_task_ops callback_ops = {
    .poll = callback_poll, .describe = callback_describe, .drop = call_drop};

static struct subscriber *subscriber_find_locked(uint64_t thread)
    AM_REQUIRES(am_sched.lock)
{
    struct subscriber *s;

    LIST_FOREACH (s, &subscribers, all) {
        if (s->thread == thread)
            return s;
    }
    return NULL;
}

aclError am_subscriber_add_locked(uint64_t thread)
{
    struct subscriber *s = subscriber_find_locked(thread);
    unsigned n = 0;

    if (s == NULL) {
        LIST_FOREACH (s, &subscribers, all)
            n++;
        AM_REQUIRE(n < THREADS_MAX, ACL_ERROR_RT_THREAD_SUBSCRIBE,
                   "%d threads are subscribed already", THREADS_MAX);
        s = am_sys_calloc(1, sizeof *s);
        AM_REQUIRE(s != NULL, ACL_ERROR_BAD_ALLOC, "no memory for a subscription");
        s->thread = thread;
        LIST_INSERT_HEAD(&subscribers, s, all);
    }
    s->n_streams++;
    return ACL_SUCCESS;
}

void am_subscriber_remove_locked(uint64_t thread)
{
    struct subscriber *s = subscriber_find_locked(thread);

    if (s == NULL || --s->n_streams > 0)
        return;
    LIST_REMOVE(s, all);
    free(s);
    /* aclrtProcessReport ends with its thread's last stream. */
    pthread_cond_broadcast(&callbacks_changed);
}

static struct call *callback_next_locked(uint64_t thread) AM_REQUIRES(am_sched.lock)
{
    struct call *call;

    TAILQ_FOREACH (call, &callbacks, next) {
        if (call->thread == thread)
            return call;
    }
    return NULL;
}

/* A thread in aclrtProcessReport waits for a callback, or for the end of its last stream. */
static bool callback_is_there_locked(uint64_t thread) AM_REQUIRES(am_sched.lock)
{
    return callback_next_locked(thread) != NULL || subscriber_find_locked(thread) == NULL;
}

static aclError process_locked(uint64_t thread, int32_t timeout_ms)
    AM_REQUIRES(am_sched.lock)
{
    uint64_t until = am_clock_after_ms(timeout_ms);
    struct call *call;

    AM_REQUIRE(callback_next_locked(thread) != NULL ||
                   subscriber_find_locked(thread) != NULL,
               ACL_ERROR_RT_THREAD_SUBSCRIBE,
               "no stream is subscribed by this thread; call aclrtSubscribeReport first");
    /*
     * Not with am_sched_wait_locked(): chaos mode would step for it all the time, since
     * such a thread always waits.
     */
    while (!callback_is_there_locked(thread)) {
        int rc = am_cond_wait_locked(&am_sched.lock, &callbacks_changed, until);

        /* It may have come while this thread, whose time is over, did not run. */
        AM_REQUIRE(rc == 0 || callback_is_there_locked(thread),
                   ACL_ERROR_RT_REPORT_TIMEOUT, "no callback came in %d ms", timeout_ms);
    }
    while ((call = callback_next_locked(thread)) != NULL) {
        call_unlist_locked(call);
        call_run_locked(call);
        call_put(call);
    }
    return ACL_SUCCESS;
}

aclError am_call_process(int32_t timeout_ms)
{
    aclError rc;

    am_lock(&am_sched.lock);
    rc = process_locked((uint64_t)pthread_self(), timeout_ms);
    am_unlock(&am_sched.lock);
    return rc;
}

static aclError call_make(const struct am_task_ops *ops, const struct call *like,
                          struct am_task **ret_task)
{
    struct call *call = am_sys_malloc(sizeof *call);

    AM_REQUIRE(call != NULL, ACL_ERROR_BAD_ALLOC, "no memory for a task");
    *call = *like;
    am_task_init(&call->task, ops);
    call->refs = 1;
    am_waitlist_init(&call->waiting);
    *ret_task = &call->task;
    return ACL_SUCCESS;
}

aclError am_call_make_callback(uint64_t thread, aclrtCallback function, void *data,
                               bool is_blocking, struct am_task **ret_task)
{
    struct call like = {
        .function = function, .data = data, .thread = thread, .is_blocking = is_blocking};

    return call_make(&callback_ops, &like, ret_task);
}

static void *host_main(void *arg);

/* 0 or an errno. */
static int host_make_locked(void) AM_REQUIRES(am_sched.lock)
{
    struct host *host = am_sys_malloc(sizeof *host);
    int rc = host == NULL ? ENOMEM : am_thread_start(&host->thread, host_main, NULL);

    if (rc != 0) {
        free(host);
        return rc;
    }
    SLIST_INSERT_HEAD(&hosts.threads, host, next);
    hosts.n_threads++;
    return 0;
}

/* One thread at least, and a few for calls that wait. */
static int hosts_grow_locked(void) AM_REQUIRES(am_sched.lock)
{
    int rc;

    if (hosts.is_stopping || (hosts.n_threads > 0 && hosts.n_idle >= hosts.n_calls) ||
        hosts.n_threads > HOSTS_EAGER)
        return 0;
    rc = host_make_locked();
    return hosts.n_threads > 0 ? 0 : rc; /* the existing threads take turns */
}

/* For the only free thread: whether it has to take the next call, since no other will. */
static bool host_look_out_locked(void) AM_REQUIRES(am_sched.lock)
{
    uint64_t until = am_clock() + STALL;
    uint64_t n_done = hosts.n_done;
    bool is_stalled;

    hosts.has_lookout = true;
    while (n_done == hosts.n_done && !hosts.is_stopping &&
           am_cond_wait_locked(&am_sched.lock, &hosts.done, until) == 0)
        ;
    hosts.has_lookout = false;
    is_stalled = n_done == hosts.n_done && hosts.n_calls > 0 && !hosts.is_stopping &&
                 hosts.n_inside == hosts.n_threads - 1;
    if (is_stalled)
        host_make_locked(); /* where that fails, calls wait for their turn */
    return is_stalled;
}

static void host_run_locked(void) AM_REQUIRES(am_sched.lock)
{
    struct call *call = TAILQ_FIRST(&hosts.calls);

    call_unlist_locked(call);
    hosts.n_calls--;
    hosts.n_inside++;
    call_run_locked(call);
    hosts.n_inside--;
    hosts.n_done++;
    call_put(call);
}

static void *host_main(void *arg)
{
    am_lock(&am_sched.lock);
    while (!hosts.is_stopping) {
        if (hosts.n_calls == 0) {
            hosts.n_idle++;
            am_cond_wait_locked(&am_sched.lock, &hosts.work, AM_FOREVER);
            hosts.n_idle--;
        } else if (hosts.n_threads <= HOSTS_EAGER || hosts.n_idle > 0 ||
                   hosts.has_lookout || host_look_out_locked()) {
            host_run_locked();
        }
    }
    am_unlock(&am_sched.lock);
    return NULL;
}

AM_NO_LOCK_ANALYSIS
static bool hostfunc_poll(struct am_task *task, struct am_sched *sched,
                          struct am_waitlist **ret_list)
{
    struct call *call = (struct call *)task;

    *ret_list = &call->waiting;
    if (!call->is_started) {
        call_start_locked(call, &hosts.calls);
        hosts.n_calls++;
        pthread_cond_signal(&hosts.work);
        hosts_grow_locked();
        if (sched->setup.is_chaotic)
            call_linger_locked(call);
    }
    return call->is_done;
}

/* One that is due gets a thread in the end. */
static const struct am_task_ops hostfunc_ops = {
    .poll = hostfunc_poll, .comes_alone = true, .drop = call_drop};

aclError am_call_make_hostfunc(aclrtHostFunc function, void *data,
                               struct am_task **ret_task)
{
    struct call like = {.function = function, .data = data, .is_blocking = true};
    int rc;

    am_lock(&am_sched.lock);
    rc = hosts_grow_locked();
    am_unlock(&am_sched.lock);
    AM_REQUIRE(rc == 0, ACL_ERROR_RT_RESOURCE_ALLOC_FAIL,
               "no thread for a host function: %s (see ulimit -u)", strerror(rc));
    return call_make(&hostfunc_ops, &like, ret_task);
}

void am_calls_start(void)
{
    pthread_once(&calls_once, calls_init);
    am_lock(&am_sched.lock);
    hosts.is_stopping = false;
    am_unlock(&am_sched.lock);
}

void am_calls_stop(void)
{
    struct host *host;
    struct call *call;

    am_lock(&am_sched.lock);
    hosts.is_stopping = true;
    pthread_cond_broadcast(&hosts.work);
    pthread_cond_broadcast(&hosts.done);
    while ((host = SLIST_FIRST(&hosts.threads)) != NULL) {
        SLIST_REMOVE_HEAD(&hosts.threads, next);
        am_unlock(&am_sched.lock);
        pthread_join(host->thread, NULL);
        free(host);
        am_lock(&am_sched.lock);
    }
    hosts.n_threads = 0;
    /* Callbacks that did not block their stream, and that no thread fetched. */
    while ((call = TAILQ_FIRST(&callbacks)) != NULL) {
        call_unlist_locked(call);
        call_put(call);
    }
    am_unlock(&am_sched.lock);
}
