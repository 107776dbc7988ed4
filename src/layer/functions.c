/*
 * Hooks: functions of the program on streams.
 *
 * The layer stands between the library and the function, so that it knows when the function
 * begins and ends: earlier work is done by then, and threads that the function notifies
 * may rely on that.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "aclmem/aclmem.h"
#include "base/clock.h"
#include "base/options.h"
#include "base/sys.h"
#include "base/tree.h"
#include "core/watch.h"
#include "layer/hooks.h"
#include "layer/layers.h"
#include "layer/memory.h"
#include "layer/order.h"
#include "layer/pinned.h"
#include "layer/thread.h"
#include "layer/waits.h"

struct function {
    TAILQ_ENTRY(function) link;
    void (*run)(void *arg);
    void *arg;
    struct am_agent *agent;     /* the stream; NULL: not known */
    struct am_record *before;   /* the stream's position */
    struct am_record *end;      /* that the stream waits for; NULL: it does not wait */
    struct am_thread *launcher; /* the thread that queued it, with a reference */
    uint32_t place;             /* the stack of the launch */
    uint64_t n_calls;           /* of that thread, at the launch */
    uint64_t n_polls;           /* the same */
    uint64_t serial;            /* counts what was made; what function_run() gets */
    uint64_t reporter; /* of a callback: the thread that runs it; 0: any thread */
    uint64_t captured; /* of a replay: the captured function's serial; 0: it is of none */
    bool is_declared;  /* a declaration names its memory (aclmem/access.h) */
};

/*
 * The library has the serial, not the address: after a forced reset, the thread of a function
 * may begin it when the model has ended.
 */
struct am_captured_function {
    RB_ENTRY(am_captured_function) node; /* by serial */
    uint64_t serial;
    void (*run)(void *arg);
    void *arg;
    uint64_t reporter;
    bool is_waited_for;
    bool is_declared;
};

/* Functions that have not begun. */
static TAILQ_HEAD(, function) functions = TAILQ_HEAD_INITIALIZER(functions);

/* Those of live models. */
static RB_HEAD(captured_tree, am_captured_function) captured_functions;

AM_TREE(captured_tree, am_captured_function, node, serial)

static void function_delete_locked(struct function *function)
{
    if (function->end != NULL)
        am_record_complete(function->end, false);
    am_record_put(function->before);
    am_record_put(function->end);
    am_agent_put(function->agent);
    am_thread_put(function->launcher);
    free(function);
}

/* ---- when a function starts ---- */

#define NO_CALL 100     /* ms: the thread waits without a call */
#define NO_CALL_AGAIN 2 /* where one did at the same place before */
#define IN_CALL 2000 /* the call that the thread is in waits in a way that is not known */
#define TICK_MS 10
#define CALLS_MAX 10000 /* of the thread, while a function is held */
#define POLLS_MAX 1000000
#define PLACES 256

/* Launches after which the thread waited without a call, by their stacks. */
static uint32_t places[PLACES];

/* What a thread did since its last call: milliseconds that it slept, or ran, for sure. */
struct idle {
    uint64_t n_calls; /* of the thread, so far */
    uint64_t sampled; /* the time */
    uint64_t ticks;   /* of a processor that the thread had */
    uint64_t outside; /* ms between calls */
    uint64_t inside;  /* ms in a call */
};

/* 'R': it runs, or waits for a processor; 'D': it waits for a disk; 'S': it sleeps. */
static char thread_state(const struct am_thread *thread, uint64_t *ret_ticks)
{
    char path[64];
    char text[1024] = "";
    unsigned long user = 0;
    unsigned long kernel = 0;
    const char *at;
    char state = 'S';
    int fd;

    snprintf(path, sizeof path, "/proc/self/task/%u/stat", thread->id);
    fd = am_sys_open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return state;
    if (am_sys_read(fd, text, sizeof text - 1) < 0)
        text[0] = '\0';
    close(fd);
    at = strrchr(text, ')'); /* the name may have any character */
    if (at != NULL)
        sscanf(at + 1, " %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &state,
               &user, &kernel);
    *ret_ticks = user + kernel;
    return state;
}

/*
 * Polls the state of the thread, at most once a millisecond, and adds one if the thread
 * sleeps.  Time in which either thread had no processor does not count.
 */
static void idle_sample(struct idle *idle, const struct am_thread *thread)
{
    uint64_t now = am_clock();
    uint64_t n_calls = thread->n_calls;
    uint64_t ticks = idle->ticks;
    uint64_t ms = 0;
    char state;

    if (now - idle->sampled < AM_MILLISECOND)
        return;
    state = thread_state(thread, &ticks);
    if (n_calls != idle->n_calls) {
        *idle = (struct idle){.n_calls = n_calls, .sampled = now, .ticks = ticks};
        return;
    }
    if (ticks > idle->ticks)
        ms = TICK_MS * (ticks - idle->ticks);
    else if (state == 'S')
        ms = 1;
    idle->sampled = now;
    idle->ticks = ticks;
    if (thread->is_inside)
        idle->inside += ms;
    else
        idle->outside += ms;
}

/*
 * Whether the metadata has the stream at this function.  It does not if two threads submitted
 * work at once and the library has another order, or if a call found the work done or dropped.
 * A wait for a value may be pending though the stream goes on: am_agent_next_wait().
 */
static bool function_is_next(const struct function *function)
{
    const struct am_work *wait = am_agent_next_wait(function->agent);

    return function->end == NULL || (wait != NULL && wait->record == function->end);
}

/* Whether a call waits for a callback that this thread can only run after the function. */
static bool is_in_the_way(void)
{
    uint64_t self = (uint64_t)pthread_self();
    const struct function *function;

    TAILQ_FOREACH (function, &functions, link) {
        if (function->reporter == self && function->end != NULL &&
            function->end->is_needed && function_is_next(function))
            return true;
    }
    return false;
}

/*
 * A function may notify the host, which knows from then on that the work before the function
 * is done.  So that no access of the host depends on how fast the function was, the function
 * is held until the thread that queued it needs it: a call waits for it, or for a later
 * callback of the same thread, or polls; the thread has ended, or has made CALLS_MAX calls;
 * or the thread waits without a call.  The last is assumed when the thread sleeps, or runs,
 * for a while without a call.  No call is known to need a function that is not next.
 */
static void function_hold_locked(const struct function *function)
{
    const struct am_thread *launcher = function->launcher;
    uint32_t *place = &places[function->place % PLACES];
    uint64_t no_call = *place == function->place ? NO_CALL_AGAIN : NO_CALL;
    struct idle idle = {.n_calls = 0};

    if (!am_kind_is_on(AM_KIND_race) || function->before == NULL || launcher == NULL ||
        launcher == am_thread_get())
        return;
    am_watch_function_held();
    while (function_is_next(function) && !launcher->is_ended &&
           am_check.n_stopping == 0 &&
           launcher->n_polls - function->n_polls < POLLS_MAX &&
           launcher->n_calls - launcher->n_polls <
               function->n_calls - function->n_polls + CALLS_MAX) {
        am_waits_mark();
        if ((function->end != NULL && function->end->is_needed) ||
            (function->reporter != 0 && is_in_the_way()))
            return;
        idle_sample(&idle, launcher);
        if (idle.outside >= no_call || idle.inside >= IN_CALL) {
            *place = function->place;
            return;
        }
        am_waits_sleep_locked();
    }
}

/* Removes a function from the list; NULL: the stream was aborted, or the library stopped. */
static struct function *function_take_locked(uint64_t serial)
{
    struct function *function;

    TAILQ_FOREACH (function, &functions, link) {
        if (function->serial == serial)
            break;
    }
    if (function != NULL)
        TAILQ_REMOVE(&functions, function, link);
    return function;
}

static struct function *function_begin(uint64_t serial)
{
    struct function *function;

    am_check_lock();
    function = function_take_locked(serial);
    if (function != NULL) {
        function_hold_locked(function);
        am_host_joins_record(function->before); /* the function may notify a thread */
        am_touch_update();
    }
    am_check_unlock();
    return function;
}

/* The function's calls are the program's, also inside a call. */
static void program_run(void (*run)(void *), void *arg, struct am_agent *agent,
                        bool is_declared)
{
    struct am_thread *thread = am_thread_get();
    struct am_thread outer = {.is_inside = false};

    if (thread != NULL) {
        outer.is_inside = thread->is_inside;
        outer.function_agent = thread->function_agent;
        outer.is_declared = thread->is_declared;
        thread->is_inside = false;
        thread->function_agent = agent;
        thread->is_declared = is_declared;
    }
    run(arg);
    if (thread != NULL) {
        thread->is_inside = outer.is_inside;
        thread->function_agent = outer.function_agent;
        thread->is_declared = outer.is_declared;
    }
}

static void function_run(void *serial)
{
    struct function *function = function_begin((uintptr_t)serial);

    if (function == NULL)
        return;
    program_run(function->run, function->arg,
                function->end != NULL ? function->agent : NULL, function->is_declared);
    am_check_lock();
    if (function->end != NULL && am_option_number(AM_OPTION_functions_wait) != 0)
        am_agent_joins_host(function->agent);
    function_delete_locked(function);
    am_check_unlock();
}

AM_LAYER_EXPORT void aclmem_check_function_waited(void)
{
    struct am_thread *thread = am_check_is_on() ? am_thread_get() : NULL;

    if (thread == NULL || thread->function_agent == NULL)
        return;
    am_check_lock();
    am_agent_joins_host(thread->function_agent);
    am_check_unlock();
}

void am_functions_drop(const struct am_agent *agent, uint64_t serial)
{
    struct function *function;
    struct function *next;

    for (function = TAILQ_FIRST(&functions); function != NULL; function = next) {
        next = TAILQ_NEXT(function, link);
        if (function->serial > serial ||
            (agent != NULL && (function->agent != agent ||
                               (function->end == NULL && !function->is_declared))))
            continue;
        TAILQ_REMOVE(&functions, function, link);
        function_delete_locked(function);
    }
}

/* ---- the calls ---- */

static struct function *function_add(struct am_call *call, struct am_agent *agent,
                                     void (*run)(void *), void *arg)
{
    struct function *function = am_meta_alloc(sizeof *function);

    if (function == NULL)
        return NULL;
    function->run = run;
    function->arg = arg;
    function->launcher = am_thread_ref();
    function->n_calls = function->launcher != NULL ? function->launcher->n_calls : 0;
    function->n_polls = function->launcher != NULL ? function->launcher->n_polls : 0;
    function->place = call->site.stack;
    function->serial = am_serial_next();
    function->agent = agent;
    if (agent != NULL)
        agent->refs++;
    TAILQ_INSERT_TAIL(&functions, function, link);
    return function;
}

/* Adds a function that the host may wait for. */
static struct function *function_queue(struct am_call *call, struct am_agent *agent,
                                       void (*run)(void *), void *arg, bool is_waited_for)
{
    struct function *function = function_add(call, agent, run, arg);

    if (function == NULL || agent == NULL)
        return function;
    function->before = am_agent_record(call, agent, NULL);
    function->end = is_waited_for ? am_record_make() : NULL;
    if (function->end != NULL)
        am_agent_wait(call, agent, function->end);
    return function;
}

/*
 * Before the call, since the function may run before the call returns: the library gets
 * function_run() and the function's number instead.
 */
static struct function *function_make(struct am_call *call, void (**run)(void *),
                                      void **arg, bool is_waited_for, bool is_declared)
{
    struct function *function;

    if (*run == NULL)
        return NULL;
    function = is_declared ? function_add(call, call->agent, *run, *arg)
                           : function_queue(call, call->agent, *run, *arg, is_waited_for);
    if (function == NULL)
        return NULL;
    function->is_declared = is_declared;
    call->value = function->serial;
    *run = function_run;
    *arg = (void *)(uintptr_t)function->serial;
    return function;
}

void am_before_host_func(struct am_call *call)
{
    struct am_args_aclrtLaunchHostFunc *a =
        (struct am_args_aclrtLaunchHostFunc *)call->args;

    function_make(call, &a->fn, &a->args, true, am_access_add(call));
}

void am_before_callback(struct am_call *call)
{
    struct am_args_aclrtLaunchCallback *a =
        (struct am_args_aclrtLaunchCallback *)call->args;
    struct function *function;

    function = function_make(call, &a->fn, &a->userData,
                             a->blockType == ACL_CALLBACK_BLOCK, false);
    if (function != NULL && call->agent != NULL)
        function->reporter = call->agent->reporter;
}

AM_AFTER(subscribe, aclrtSubscribeReport)
{
    struct am_agent *agent = am_agent_find(call);

    if (call->rc == ACL_SUCCESS && agent != NULL)
        agent->reporter = a->threadId;
}

void am_after_function(struct am_call *call)
{
    struct function *function =
        call->rc != ACL_SUCCESS ? function_take_locked(call->value) : NULL;

    am_after_work(call); /* of a function with declared accesses */
    if (function != NULL)
        function_delete_locked(function);
}

/* ---- functions of captured models ---- */

/* Replays of a model run one after the other, so the oldest function of the list is meant. */
static struct function *replay_find(uint64_t captured)
{
    struct function *function;

    TAILQ_FOREACH (function, &functions, link) {
        if (function->captured == captured)
            break;
    }
    return function;
}

/* A callback that does not block may run after the end of its model. */
static void captured_run(void *arg)
{
    struct am_captured_function captured = {.serial = (uintptr_t)arg};
    const struct am_captured_function *found;
    const struct function *function;
    uint64_t serial = 0;

    am_check_lock();
    function = replay_find(captured.serial);
    found = RB_FIND(captured_tree, &captured_functions, &captured);
    if (function != NULL)
        serial = function->serial;
    else if (found != NULL)
        captured = *found;
    am_check_unlock();
    if (serial != 0)
        function_run((void *)(uintptr_t)serial);
    else if (captured.run != NULL)
        program_run(captured.run, captured.arg, NULL, captured.is_declared);
}

struct am_captured_function *am_captured_function_make(void (**run)(void *), void **arg,
                                                       uint64_t reporter,
                                                       bool is_waited_for,
                                                       bool is_declared)
{
    struct am_captured_function *captured =
        *run != NULL ? am_meta_alloc(sizeof *captured) : NULL;

    if (captured == NULL)
        return NULL;
    *captured = (struct am_captured_function){.serial = am_serial_next(),
                                              .run = *run,
                                              .arg = *arg,
                                              .reporter = reporter,
                                              .is_waited_for = is_waited_for,
                                              .is_declared = is_declared};
    RB_INSERT(captured_tree, &captured_functions, captured);
    *run = captured_run;
    *arg = (void *)(uintptr_t)captured->serial;
    return captured;
}

void am_captured_function_free(struct am_captured_function *captured)
{
    if (captured == NULL)
        return;
    RB_REMOVE(captured_tree, &captured_functions, captured);
    free(captured);
}

void am_captured_function_queue(struct am_call *call, struct am_agent *agent,
                                const struct am_captured_function *captured)
{
    struct function *function = function_queue(call, agent, captured->run, captured->arg,
                                               captured->is_waited_for);

    if (function == NULL)
        return;
    function->captured = captured->serial;
    function->reporter = captured->reporter;
}

void am_captured_function_cancel(const struct am_captured_function *captured)
{
    struct function *function = replay_find(captured->serial);

    if (function == NULL)
        return;
    TAILQ_REMOVE(&functions, function, link);
    function_delete_locked(function);
}
