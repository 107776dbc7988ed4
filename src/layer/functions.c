/*
 * Hooks: functions of the program on streams.
 *
 * The layer stands between the library and the function, so that it knows when the function
 * begins and ends: earlier work is done by then, and threads that the function notifies
 * may rely on that.
 */
#include "base/sys.h"
#include "layer/hooks.h"
#include "layer/order.h"
#include "layer/pinned.h"
#include "layer/thread.h"

struct function {
    TAILQ_ENTRY(function) link;
    void (*run)(void *arg);
    void *arg;
    struct am_work *work;     /* the stream waits for it */
    struct am_signal *signal; /* or not: what was queued before */
};

/* Those that have not run; one that never will stays here. */
static TAILQ_HEAD(, function) functions = TAILQ_HEAD_INITIALIZER(functions);

static void function_delete_locked(struct function *function)
{
    TAILQ_REMOVE(&functions, function, link);
    am_signal_put(function->signal);
    free(function);
}

/* The function is the program's, also where a call of this thread runs it. */
static void program_run(void (*run)(void *), void *arg)
{
    struct am_thread *thread = am_thread_get();
    bool was_inside = thread != NULL && thread->is_inside;

    if (thread != NULL)
        thread->is_inside = false;
    run(arg);
    if (thread != NULL)
        thread->is_inside = was_inside;
}

static void function_run(void *arg)
{
    struct function *function = arg;
    struct am_work *work = function->work;
    void (*run)(void *) = function->run;
    void *its = function->arg;

    am_lock(&am_check.lock);
    if (work != NULL)
        am_function_begin(work);
    else if (function->signal != NULL)
        am_host_joins_signal(function->signal);
    function_delete_locked(function);
    am_touch_update();
    am_unlock(&am_check.lock);
    program_run(run, its);
    if (work == NULL)
        return;
    am_lock(&am_check.lock);
    am_function_end(work);
    am_unlock(&am_check.lock);
}

/* Before the call: the function may run before it returns. */
static struct function *function_make(struct am_call *call, void (*run)(void *),
                                      void *arg, bool is_waited_for)
{
    struct function *function = am_sys_calloc(1, sizeof *function);
    struct am_work work;

    if (function == NULL)
        return NULL;
    function->run = run;
    function->arg = arg;
    TAILQ_INSERT_TAIL(&functions, function, link);
    am_before_use_stream(call);
    am_call_ref_agent(call,
                      call->stream != NULL ? am_agent_find(call, call->stream) : NULL);
    if (call->agent == NULL)
        return function;
    if (is_waited_for) {
        function->work = am_function_queue(call, call->agent);
    } else if ((function->signal = am_signal_make(false)) != NULL) {
        am_work_begin(&work, AM_WORK_RECORD, call, call->agent);
        work.signal = function->signal;
        am_work_queue(&work);
    }
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
    if (function->work != NULL)
        am_function_end(function->work);
    function_delete_locked(function);
}
