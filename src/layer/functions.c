/*
 * Hooks: functions of the program on streams.
 *
 * The layer stands between the library and the function, so that it knows when the function
 * begins and ends: earlier work is done by then, and threads that the function notifies
 * may rely on that.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/options.h"
#include "base/sys.h"
#include "layer/hooks.h"
#include "layer/order.h"
#include "layer/pinned.h"
#include "layer/thread.h"

struct function {
    TAILQ_ENTRY(function) link;
    void (*run)(void *arg);
    void *arg;
    struct am_agent *agent;   /* the stream; NULL: not known */
    struct am_record *before; /* the stream's position */
    struct am_record *end;    /* that the stream waits for; NULL: it does not wait */
    uint32_t launcher;        /* the thread that queued it */
};

/* Functions that have not run; one that never will stays here. */
static TAILQ_HEAD(, function) functions = TAILQ_HEAD_INITIALIZER(functions);

static void function_delete_locked(struct function *function)
{
    if (function->end != NULL)
        am_record_complete(function->end, false);
    am_record_put(function->before);
    am_record_put(function->end);
    am_agent_put(function->agent);
    free(function);
}

#define DELAYS_MAX 40 /* functions that start late */
#define DELAY_POLLS 50
#define DELAY_POLL_NS 1000000

/* Whether the thread is running, or would if it had a processor. */
static bool is_running(uint32_t thread)
{
    char path[64];
    char text[256] = "";
    const char *end;
    int fd;

    snprintf(path, sizeof path, "/proc/self/task/%u/stat", thread);
    fd = am_sys_open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    if (am_sys_read(fd, text, sizeof text - 1) < 0)
        text[0] = '\0';
    close(fd);
    end = strrchr(text, ')');
    return end != NULL && strncmp(end, ") R", 3) == 0;
}

/*
 * The host may learn from the function that the work before it is done, so an access of the
 * host that follows is no race.  A function starts late, when the thread that queued it
 * waits or makes no more calls, so that a race with its next calls is found in every run.
 */
static void function_delay(const struct function *function)
{
    static atomic_uint n_delays;
    uint64_t n_calls = 0;
    unsigned n = 0;

    if (!am_kind_is_on(AM_KIND_race) || function->agent == NULL ||
        atomic_fetch_add(&n_delays, 1) >= DELAYS_MAX)
        return;
    while (n < DELAY_POLLS && is_running(function->launcher)) {
        uint64_t now = am_check.n_calls;

        n = now == n_calls ? n + 1 : 0;
        n_calls = now;
        nanosleep(&(struct timespec){.tv_nsec = DELAY_POLL_NS}, NULL);
    }
}

static void function_run(void *arg)
{
    struct function *function = arg;
    struct am_thread *thread = am_thread_get();
    struct am_thread outer = {.is_inside = false};

    function_delay(function);
    am_lock(&am_check.lock);
    TAILQ_REMOVE(&functions, function, link);
    am_host_joins_record(function->before); /* the function may notify a thread */
    am_touch_update();
    am_unlock(&am_check.lock);
    if (thread != NULL) { /* the function's calls are the program's, also inside a call */
        outer.is_inside = thread->is_inside;
        outer.function_agent = thread->function_agent;
        thread->is_inside = false;
        thread->function_agent = function->end != NULL ? function->agent : NULL;
    }
    function->run(function->arg);
    if (thread != NULL) {
        thread->is_inside = outer.is_inside;
        thread->function_agent = outer.function_agent;
    }
    am_lock(&am_check.lock);
    if (function->end != NULL && am_option_number(AM_OPTION_functions_wait) != 0)
        am_agent_joins_host(function->agent);
    function_delete_locked(function);
    am_unlock(&am_check.lock);
}

/* Before the call: the function may run before it returns. */
static struct function *function_make(struct am_call *call, void (*run)(void *),
                                      void *arg, bool is_waited_for)
{
    struct function *function = am_sys_calloc(1, sizeof *function);

    if (function == NULL)
        return NULL;
    function->run = run;
    function->arg = arg;
    function->launcher = call->site.thread;
    TAILQ_INSERT_TAIL(&functions, function, link);
    am_before_use_stream(call);
    am_call_ref_agent(call,
                      call->stream != NULL ? am_agent_find(call, call->stream) : NULL);
    if (call->agent == NULL)
        return function;
    function->agent = call->agent;
    function->agent->refs++;
    function->before = am_agent_record(call, call->agent, NULL);
    function->end = is_waited_for ? am_record_make() : NULL;
    if (function->end != NULL)
        am_agent_wait(call, call->agent, function->end);
    return function;
}

void am_before_host_func(struct am_call *call)
{
    struct am_args_aclrtLaunchHostFunc *a =
        (struct am_args_aclrtLaunchHostFunc *)call->args;
    struct function *function;

    if (a->fn == NULL)
        return;
    function = function_make(call, a->fn, a->args, true);
    if (function == NULL)
        return;
    call->value = (uintptr_t)function;
    a->fn = function_run;
    a->args = function;
}

void am_before_callback(struct am_call *call)
{
    struct am_args_aclrtLaunchCallback *a =
        (struct am_args_aclrtLaunchCallback *)call->args;
    struct function *function;

    if (a->fn == NULL)
        return;
    function =
        function_make(call, a->fn, a->userData, a->blockType == ACL_CALLBACK_BLOCK);
    if (function == NULL)
        return;
    call->value = (uintptr_t)function;
    a->fn = function_run;
    a->userData = function;
}

void am_after_function(struct am_call *call)
{
    struct function *function = (struct function *)(uintptr_t)call->value;

    if (call->rc == ACL_SUCCESS || function == NULL)
        return;
    TAILQ_REMOVE(&functions, function, link);
    function_delete_locked(function);
}
