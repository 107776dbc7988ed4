/*
 * See call.h.
 *
 * A call is one function to be run, with the task that queued it.  The queue and the thread
 * that runs the function each hold a reference, since either may end first: a stream can be
 * aborted while its callback runs.
 *
 * Host functions may wait for each other, so each that is due must get a thread in the end;
 * but two thousand short functions must not get two thousand threads.  The first few threads
 * are started as they are needed.  If all other threads are busy, the only free thread is the
 * spare thread.  It takes a call only if no call ended for a millisecond and all other threads
 * are inside functions (a thread that only waits for a processor will take the call), and
 * starts the next spare thread first.
 */
#include "core/stream/call.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "acl/error_codes/rt_error_codes.h"
#include "base/epoch.h"
#include "base/error.h"
#include "base/log.h"
#include "base/sys.h"
#include "base/lock.h"
#include "base/util.h"
#include "core/stream/cond.h"

#define THREADS_EAGER 8 /* threads for host functions that are started without waiting */
#define SPARE_WAIT AM_MILLISECOND
#define STOP_INTERVAL (AM_SECOND / 10)
#define SUBSCRIBERS_MAX 1024 /* threads: the documented limit */

TAILQ_HEAD(call_list, call);

struct call {
    struct am_task task;
    atomic_uint refs;
    void (*function)(void *);
    void *data;
    uint64_t thread; /* that is to run it; callbacks only */
    bool is_blocking;
    bool is_started; /* calls.lock, as the next ones */
    bool is_running;
    bool is_done;
    unsigned n_again; /* runs of a callback that was due again before it ran */
    bool is_stale; /* captured: an execution that was dropped still runs the function */
    struct call_list *listed;   /* where the call waits to be run; NULL: it does not */
    struct am_waitlist waiting; /* the queue that it blocks */
    struct call *outer;         /* of its thread: the call from which it was called */
    TAILQ_ENTRY(call) next;
};

/* A thread of the program that runs callbacks; stays while it has streams. */
struct subscriber {
    uint64_t thread;
    uint32_t n_streams;
    LIST_ENTRY(subscriber) all;
};

/* A thread that runs host functions, until the library stops. */
struct host_thread {
    pthread_t thread;
    bool is_inside;    /* a function */
    bool is_abandoned; /* the library stopped without it */
    TAILQ_ENTRY(host_thread) next;
};

static struct {
    struct am_lock lock; /* protects all */
    LIST_HEAD(, subscriber) subscribers;
    struct call_list callbacks; /* to be run by their threads */
    pthread_cond_t callbacks_changed;
    struct call_list functions; /* host functions to be run */
    unsigned n_functions;
    TAILQ_HEAD(, host_thread) threads;
    unsigned n_threads;
    unsigned n_idle;
    unsigned n_inside; /* threads that are in a function */
    uint64_t n_done;
    bool has_spare;
    bool is_stopping;
    pthread_cond_t work;
    pthread_cond_t done; /* a call is, also a callback */
} calls = {
    .lock = AM_LOCK_INIT(AM_RANK_CALLS, "functions of the program"),
    .callbacks = TAILQ_HEAD_INITIALIZER(calls.callbacks),
    .functions = TAILQ_HEAD_INITIALIZER(calls.functions),
    .threads = TAILQ_HEAD_INITIALIZER(calls.threads),
};
static pthread_once_t calls_once = PTHREAD_ONCE_INIT;

/* The call that this thread runs, and the thread's own record. */
static _Thread_local struct call *inside;
static _Thread_local struct host_thread *self;

static void calls_init(void)
{
    am_cond_init(&calls.callbacks_changed);
    am_cond_init(&calls.work);
    am_cond_init(&calls.done);
}

static void call_put(struct call *call)
{
    if (am_ref_drop(&call->refs))
        free(call);
}

static void call_list_locked(struct call *call, struct call_list *list)
    AM_REQUIRES(calls.lock);
static int threads_grow_locked(void) AM_REQUIRES(calls.lock);

/* The function has returned, or has ended its thread. */
static void call_end(struct call *call)
{
    call->task.runner = 0;
    inside = call->outer;
    am_lock(&calls.lock);
    call->is_done = true;
    call->is_running = false;
    if (call->thread == 0 && !self->is_abandoned) {
        self->is_inside = false;
        calls.n_inside--;
        calls.n_done++;
    }
    if (call->n_again > 0) {
        call->n_again--;
        call_list_locked(call, &calls.callbacks);
    }
    pthread_cond_broadcast(&calls.done);
    am_unlock(&calls.lock);
    am_waitlist_wake(&call->waiting);
    am_sched.n_functions--;
    am_sched_function_end(&am_sched); /* chaos mode: its queue is ready again */
}

/* The function ended its thread, as functions of an ended interpreter do. */
static void call_break_off(void *arg)
{
    struct call *call = arg;

    am_epoch_enter();
    call_end(call);
    am_lock(&calls.lock);
    if (call->thread == 0 && !self->is_abandoned) { /* the thread is still to be joined */
        calls.n_threads--;
        if (calls.n_functions > 0)
            threads_grow_locked();
    }
    am_unlock(&calls.lock);
    if (call->thread == 0 && self->is_abandoned)
        free(self);
    call_put(call);
    am_epoch_leave();
}

/* Runs the function, then its queue goes on.  The caller is in a read section. */
static void call_run(struct call *call)
{
    unsigned depth;

    call->outer = inside;
    inside = call;
    am_sched.n_functions++;
    depth = am_epoch_suspend();
    pthread_cleanup_push(call_break_off, call);
    call->function(call->data);
    pthread_cleanup_pop(0);
    am_epoch_resume(depth);
    call_end(call);
    call_put(call);
}

bool am_call_is_inside(void)
{
    return inside != NULL;
}

bool am_call_blocks_locked(const struct am_queue *queue)
{
    struct am_task *first = TAILQ_FIRST(&queue->tasks);

    if (first != NULL)
        first = am_task_current(first);
    for (const struct call *call = inside; call != NULL; call = call->outer) {
        if (call->is_blocking && &call->task == first)
            return true;
    }
    return false;
}

/* Puts the call where its runner finds it, with a reference. */
static void call_list_locked(struct call *call, struct call_list *list)
{
    call->is_started = true;
    am_ref_more(&call->refs);
    TAILQ_INSERT_TAIL(list, call, next);
    call->listed = list;
    calls.n_functions += list == &calls.functions;
}

/* The reference is the caller's now. */
static void call_unlist_locked(struct call *call) AM_REQUIRES(calls.lock)
{
    am_assert(call->listed != NULL);
    calls.n_functions -= call->listed == &calls.functions;
    TAILQ_REMOVE(call->listed, call, next);
    call->listed = NULL;
}

/* This thread is about to run the call. */
static void call_take_locked(struct call *call) AM_REQUIRES(calls.lock)
{
    call_unlist_locked(call);
    call->is_running = true;
    if (call->is_blocking)
        call->task.runner = (uint64_t)pthread_self();
}

/* Takes a function that has not begun back from its runner; false: it runs. */
static bool call_withdraw(struct am_task *task)
{
    struct call *call = (struct call *)task;
    bool is_listed;
    bool runs;

    am_lock(&calls.lock);
    is_listed = call->is_blocking && call->listed != NULL;
    runs = call->is_blocking && call->is_running && !call->is_stale;
    if (is_listed)
        call_unlist_locked(call);
    am_unlock(&calls.lock);
    if (is_listed)
        call_put(call);
    return !runs;
}

static void call_free(struct am_task *task)
{
    (void)call_withdraw(task);
    call_put((struct call *)task);
}

/* In chaos mode no other task runs until the function has returned: one order for a seed. */
static enum am_poll call_poll_locked(struct call *call, bool was_started)
    AM_REQUIRES(calls.lock)
{
    if (call->is_done || !call->is_blocking)
        return AM_POLL_READY;
    am_waitlist_join(&call->waiting, &call->task);
    if (!was_started && call->thread != (uint64_t)pthread_self())
        am_sched_pause(&am_sched);
    return AM_POLL_WAIT;
}

/* Before each execution of a captured function. */
static void call_rearm(struct am_task *task)
{
    struct call *call = (struct call *)task;

    am_lock(&calls.lock);
    call->is_stale = call->is_blocking && (call->is_running || call->listed != NULL);
    call->is_started = call->is_done = false;
    am_unlock(&calls.lock);
}

/* Whether the function still runs for an earlier execution; then it is waited for. */
static bool is_stale_locked(struct call *call) AM_REQUIRES(calls.lock)
{
    if (call->is_stale && (call->is_running || call->listed != NULL)) {
        am_waitlist_join(&call->waiting, &call->task);
        return true;
    }
    if (call->is_stale)
        call->is_done = false;
    call->is_stale = false;
    return false;
}

static enum am_poll call_poll(struct am_task *task)
{
    struct call *call = (struct call *)task;
    struct call_list *list = call->thread != 0 ? &calls.callbacks : &calls.functions;
    enum am_poll poll = AM_POLL_WAIT;
    bool was_started;

    am_lock(&calls.lock);
    if (!is_stale_locked(call)) {
        was_started = call->is_started;
        if (!was_started && (call->is_running || call->listed != NULL)) {
            call->is_started = true; /* a callback that blocks no stream */
            call->n_again++;
        } else if (!was_started) {
            call_list_locked(call, list);
            if (list == &calls.callbacks)
                pthread_cond_broadcast(&calls.callbacks_changed);
            else {
                pthread_cond_signal(&calls.work);
                threads_grow_locked();
            }
        }
        poll = call_poll_locked(call, was_started);
    }
    am_unlock(&calls.lock);
    return poll;
}

static const struct am_task_ops callback_ops = {
    .poll = call_poll,
    .withdraw = call_withdraw,
    .free = call_free,
    .awaits = "the thread that subscribed runs the callback in aclrtProcessReport",
    .rearm = call_rearm,
};

/* ---- subscribers ---- */

static struct subscriber *subscriber_find_locked(uint64_t thread) AM_REQUIRES(calls.lock)
{
    struct subscriber *s;

    LIST_FOREACH (s, &calls.subscribers, all) {
        if (s->thread == thread)
            return s;
    }
    return NULL;
}

static aclError subscriber_add_locked(uint64_t thread) AM_REQUIRES(calls.lock)
{
    struct subscriber *s = subscriber_find_locked(thread);
    unsigned n = 0;

    if (s == NULL) {
        LIST_FOREACH (s, &calls.subscribers, all)
            n++;
        AM_REQUIRE(n < SUBSCRIBERS_MAX, ACL_ERROR_RT_THREAD_SUBSCRIBE,
                   "%d threads are subscribed already", SUBSCRIBERS_MAX);
        s = am_sys_calloc(1, sizeof *s);
        AM_REQUIRE(s != NULL, ACL_ERROR_BAD_ALLOC, "no memory for a subscription");
        s->thread = thread;
        LIST_INSERT_HEAD(&calls.subscribers, s, all);
    }
    s->n_streams++;
    return ACL_SUCCESS;
}

aclError am_subscriber_add(uint64_t thread)
{
    return AM_LOCKED(&calls.lock, subscriber_add_locked(thread));
}

void am_subscriber_remove(uint64_t thread)
{
    struct subscriber *s;

    am_lock(&calls.lock);
    s = subscriber_find_locked(thread);
    if (s != NULL && --s->n_streams == 0) {
        LIST_REMOVE(s, all);
        free(s);
        /* aclrtProcessReport ends with its thread's last stream. */
        pthread_cond_broadcast(&calls.callbacks_changed);
    }
    am_unlock(&calls.lock);
}

static struct call *callback_next_locked(uint64_t thread) AM_REQUIRES(calls.lock)
{
    struct call *call;

    TAILQ_FOREACH (call, &calls.callbacks, next) {
        if (call->thread == thread)
            return call;
    }
    return NULL;
}

/* A thread in aclrtProcessReport waits for a callback, or for the end of its last stream. */
static bool callback_is_due_locked(uint64_t thread) AM_REQUIRES(calls.lock)
{
    return callback_next_locked(thread) != NULL || subscriber_find_locked(thread) == NULL;
}

static aclError process_locked(uint64_t thread, int32_t timeout_ms)
    AM_REQUIRES(calls.lock)
{
    uint64_t until = am_clock_after_ms(timeout_ms);
    struct call *call;

    AM_REQUIRE(callback_next_locked(thread) != NULL ||
                   subscriber_find_locked(thread) != NULL,
               ACL_ERROR_RT_THREAD_SUBSCRIBE,
               "no stream is subscribed by this thread; call aclrtSubscribeReport first");
    /* Not am_wait_locked(): in chaos mode a thread that always waits would do all steps. */
    while (!callback_is_due_locked(thread)) {
        int rc = am_cond_wait_locked(&calls.lock, &calls.callbacks_changed, until);

        AM_REQUIRE(rc == 0 || callback_is_due_locked(thread), ACL_ERROR_RT_REPORT_TIMEOUT,
                   "no callback was due in %d ms", timeout_ms);
    }
    while ((call = callback_next_locked(thread)) != NULL) {
        call_take_locked(call);
        am_unlock(&calls.lock);
        call_run(call);
        am_lock(&calls.lock);
    }
    return ACL_SUCCESS;
}

aclError am_call_process(int32_t timeout_ms)
{
    return AM_LOCKED(&calls.lock, process_locked((uint64_t)pthread_self(), timeout_ms));
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

/* ---- host functions ---- */

static void *host_main(void *arg);

/* 0 or an errno. */
static int thread_make_locked(void) AM_REQUIRES(calls.lock)
{
    struct host_thread *thread = am_sys_calloc(1, sizeof *thread);
    int rc =
        thread == NULL ? ENOMEM : am_thread_start(&thread->thread, host_main, thread);

    if (rc != 0) {
        free(thread);
        return rc;
    }
    TAILQ_INSERT_HEAD(&calls.threads, thread, next);
    calls.n_threads++;
    return 0;
}

/* One thread at least, and a few for calls that wait. */
static int threads_grow_locked(void)
{
    int rc;

    if (calls.is_stopping || (calls.n_threads > 0 && calls.n_idle >= calls.n_functions) ||
        calls.n_threads > THREADS_EAGER)
        return 0;
    rc = thread_make_locked();
    return calls.n_threads > 0 ? 0 : rc; /* the existing threads run all calls */
}

/* For the only free thread: whether it has to take the next call, since no other will. */
static bool spare_wait_locked(void) AM_REQUIRES(calls.lock)
{
    uint64_t until = am_clock() + SPARE_WAIT;
    uint64_t n_done = calls.n_done;
    bool is_stalled;

    calls.has_spare = true;
    while (n_done == calls.n_done && !calls.is_stopping &&
           am_cond_wait_locked(&calls.lock, &calls.done, until) == 0)
        ;
    calls.has_spare = false;
    is_stalled = n_done == calls.n_done && calls.n_functions > 0 && !calls.is_stopping &&
                 calls.n_inside == calls.n_threads - 1;
    if (is_stalled)
        thread_make_locked(); /* if that fails, calls wait for a thread */
    return is_stalled;
}

static void host_run_locked(struct host_thread *thread) AM_REQUIRES(calls.lock)
{
    struct call *call = TAILQ_FIRST(&calls.functions);

    call_take_locked(call);
    thread->is_inside = true;
    calls.n_inside++;
    am_unlock(&calls.lock);
    am_epoch_enter();
    call_run(call);
    am_epoch_leave();
    am_lock(&calls.lock);
}

static void *host_main(void *arg)
{
    struct host_thread *thread = arg;
    bool is_abandoned;

    self = thread;
    am_lock(&calls.lock);
    while (!calls.is_stopping && !thread->is_abandoned) {
        if (calls.n_functions == 0) {
            calls.n_idle++;
            am_cond_wait_locked(&calls.lock, &calls.work, AM_FOREVER);
            calls.n_idle--;
        } else if (calls.n_threads <= THREADS_EAGER || calls.n_idle > 0 ||
                   calls.has_spare || spare_wait_locked()) {
            host_run_locked(thread);
        }
    }
    is_abandoned = thread->is_abandoned;
    am_unlock(&calls.lock);
    if (is_abandoned)
        free(thread);
    return NULL;
}

/* A function that is due gets a thread in the end. */
static const struct am_task_ops hostfunc_ops = {
    .poll = call_poll,
    .withdraw = call_withdraw,
    .free = call_free,
    .completes_by_itself = true,
    .rearm = call_rearm,
};

aclError am_call_make_hostfunc(aclrtHostFunc function, void *data,
                               struct am_task **ret_task)
{
    struct call like = {.function = function, .data = data, .is_blocking = true};
    int rc = AM_LOCKED(&calls.lock, threads_grow_locked());

    AM_REQUIRE(rc == 0, ACL_ERROR_RT_RESOURCE_ALLOC_FAIL,
               "no thread for a host function: %s (see ulimit -u)", strerror(rc));
    return call_make(&hostfunc_ops, &like, ret_task);
}

/* ---- start and stop ---- */

void am_calls_start(void)
{
    pthread_once(&calls_once, calls_init);
    am_lock(&calls.lock);
    calls.is_stopping = false;
    am_unlock(&calls.lock);
}

/* Functions that streams abandoned have some time to return. */
static void functions_wait_locked(void) AM_REQUIRES(calls.lock)
{
    struct am_timeout timeout = {AM_STALL_TIMEOUT, am_clock()};

    while (calls.n_inside > 0 &&
           am_timeout_check(&timeout, am_clock(), 2 * STOP_INTERVAL))
        am_cond_wait_locked(&calls.lock, &calls.done, am_clock() + STOP_INTERVAL);
    if (calls.n_inside > 0)
        am_log(AM_LOG_WARN,
               "%u host function%s not returned %d seconds after the streams ended; the "
               "library stops without waiting for it",
               calls.n_inside, calls.n_inside == 1 ? " has" : "s have",
               (int)(AM_STALL_TIMEOUT / AM_SECOND));
}

static void threads_stop_locked(void) AM_REQUIRES(calls.lock)
{
    struct host_thread *thread;

    while ((thread = TAILQ_FIRST(&calls.threads)) != NULL) {
        TAILQ_REMOVE(&calls.threads, thread, next);
        if (thread->is_inside) {
            thread->is_abandoned = true;
            calls.n_inside--;
            pthread_detach(thread->thread);
            continue;
        }
        am_unlock(&calls.lock);
        pthread_join(thread->thread, NULL);
        free(thread);
        am_lock(&calls.lock);
    }
    calls.n_threads = 0;
}

void am_calls_stop(void)
{
    struct call *call;

    am_lock(&calls.lock);
    calls.is_stopping = true;
    pthread_cond_broadcast(&calls.work);
    pthread_cond_broadcast(&calls.done);
    functions_wait_locked();
    threads_stop_locked();
    /* Callbacks that did not block their stream, and that no thread has run. */
    while ((call = TAILQ_FIRST(&calls.callbacks)) != NULL) {
        call_unlist_locked(call);
        call_put(call);
    }
    am_unlock(&calls.lock);
}
