/*
 * Starting and stopping: aclInit, aclFinalize, and the first call of programs that skip
 * aclInit.
 */
#include <pthread.h>

#include "api/api.h"
#include "base/epoch.h"
#include "base/error.h"
#include "base/options.h"
#include "base/refusal.h"
#include "core/device/device.h"
#include "core/device/setup.h"
#include "core/exchange/exchange.h"
#include "backend/remote/remote.h"
#include "core/ledger/ledger.h"
#include "core/devices.h"
#include "core/managed/managed.h"
#include "core/runtime.h"
#include "core/stream/call.h"
#include "core/stream/event_page.h"
#include "core/stream/stream.h"
#include "core/vmm/vspace.h"
#include "layer/layers.h"

static const char why_finalized[] =
    "aclFinalize has been called; call aclInit to start again";
const char am_why_stopping[] =
    "a host function or callback makes this call while another thread is in aclFinalize, "
    "which waits for that function; make it when the function has returned";
static const char why_failed[] =
    "aclInit failed, and its message has the reason; call it again";

static pthread_once_t fork_once = PTHREAD_ONCE_INIT;
static _Thread_local bool fork_has_lock; /* of the runtime, while this thread forks */

static void table_install(const struct am_api *table)
{
    atomic_store_explicit(&am_api_top, table, memory_order_release);
}

/*
 * A child made by fork has our state but none of its meaning: every call is refused
 * there.  The data for a refusal must be consistent in the child, so fork waits for
 * threads that start, stop or write a message.  It does not wait for a thread that stops
 * the library and itself waits for the function that forks.
 */
AM_NO_LOCK_ANALYSIS static void fork_begin(void)
{
    fork_has_lock = am_runtime_lock();
    am_lock(&am_ledgers_lock);
    am_lock(&am_error_lock);
}

AM_NO_LOCK_ANALYSIS static void fork_end(void)
{
    am_unlock(&am_error_lock);
    am_unlock(&am_ledgers_lock);
    if (fork_has_lock)
        am_unlock(&am_rt.lock);
}

AM_NO_LOCK_ANALYSIS static void fork_end_in_child(void)
{
    if (am_rt.is_up || !fork_has_lock) {
        table_install(&am_api_forked);
        am_exchange_forget();
        am_remote_forget();
        am_event_page_forget_all();
    }
    am_epoch_forget_threads();
    am_ledger_forget_locked();
    fork_end();
    if (!fork_has_lock) /* a thread of the parent has it */
        am_lock_init(&am_rt.lock, AM_RANK_RUNTIME, "runtime");
}

static void fork_watch(void)
{
    pthread_atfork(fork_begin, fork_end, fork_end_in_child);
}

static aclError parts_start_locked(const char *config_path) AM_REQUIRES(am_rt.lock)
{
    const struct am_api *top;
    aclError rc;

    pthread_once(&fork_once, fork_watch);
    AM_TRY(am_runtime_start_locked(config_path));
    /* Below libaclmem_layers.so, which has the layers already, there are none here. */
    rc = am_stack_build(
        am_option_text(AM_OPTION_over)[0] != '\0' ? "" : am_option_text(AM_OPTION_layers),
        &am_api_core, &top);
    if (rc != ACL_SUCCESS) {
        am_runtime_stop_locked();
        return rc;
    }
    am_explain_open();
    table_install(top);
    return ACL_SUCCESS;
}

/* The library up, with its layers, and the table in force. */
static aclError start_locked(const char *config_path) AM_REQUIRES(am_rt.lock)
{
    aclError rc;

    am_error_aloud(true);
    rc = parts_start_locked(config_path);
    am_error_aloud(false);
    return rc;
}

static void stop_locked(void) AM_REQUIRES(am_rt.lock)
{
    am_rt.why_down = why_finalized; /* before a call can meet the table */
    table_install(&am_api_down);
    (void)am_stream_collect_all(); /* launched work that is done keeps no memory */
    am_explain_left("aclFinalize");
    am_explain_close();
    am_runtime_stop_locked();
    am_rt.init_refs = 0;
    am_refusal_end();
}

aclError am_boot(const char *function)
{
    aclError rc = ACL_SUCCESS;

    am_error_function = function;
    if (!am_runtime_lock())
        return am_fail(ACL_ERROR_RT_PARAM_INVALID, "%s", am_why_stopping);
    if (!am_rt.is_up && am_rt.why_down != NULL) {
        rc = am_refuse_down(function); /* it stopped after the caller read the state */
    } else if (!am_rt.is_up) {
        rc = start_locked(NULL);
        if (rc == ACL_SUCCESS && am_setup.is_strict) {
            stop_locked();
            am_rt.why_down = NULL;
            rc = am_refuse_down(function);
        }
    }
    am_unlock(&am_rt.lock);
    return rc;
}

aclError am_refuse_down(const char *function)
{
    am_error_function = function;
    return am_fail(ACL_ERROR_UNINITIALIZE, "%s",
                   am_rt.why_down != NULL
                       ? am_rt.why_down
                       : "aclInit has not been called (ACLMEM_RULES=strict)");
}

aclError am_refuse_forked(const char *function)
{
    am_error_function = function;
    return am_fail(
        ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
        "this process was forked after AscendCL had started in its parent, which is not "
        "supported; start the child with exec (in Python: the spawn method)");
}

aclError am_state_check(const char *function)
{
    const struct am_api *top = am_api_top;

    am_error_function = function;
    if (top == &am_api_forked)
        return am_refuse_forked(function);
    if (top == &am_api_down)
        return am_refuse_down(function);
    return top == &am_api_boot ? am_boot(function) : ACL_SUCCESS;
}

/*
 * The first aclInit after the library started by itself: a file can still count while
 * nothing is used.
 */
static aclError restart_locked(const char *config_path) AM_REQUIRES(am_rt.lock)
{
    if (config_path == NULL)
        return ACL_SUCCESS;
    AM_REQUIRE(am_devices_are_idle(&am_devices) && am_vspace.n_reservations == 0 &&
                   am_managed_used == 0,
               ACL_ERROR_INVALID_PARAM,
               "the library is already in use, so the file \"%.256s\" cannot take "
               "effect; call aclInit before any other function",
               config_path);
    table_install(&am_api_down);
    am_runtime_stop_locked();
    return start_locked(config_path);
}

aclError am_aclInit(const char *configPath)
{
    aclError rc;

    if (!am_runtime_lock())
        return am_fail(ACL_ERROR_RT_PARAM_INVALID, "%s", am_why_stopping);
    if (am_rt.init_refs > 0)
        rc = am_fail(
            ACL_ERROR_REPEAT_INITIALIZE,
            "aclInit was already called; the library counts the call and goes on%s",
            configPath != NULL ? " with the first call's file and does not read this one"
                               : "");
    else if (am_rt.is_up)
        rc = restart_locked(configPath);
    else
        rc = start_locked(configPath);
    if (rc == ACL_SUCCESS || rc == ACL_ERROR_REPEAT_INITIALIZE) {
        am_rt.init_refs++;
    } else if (!am_rt.is_up) {
        /*
         * Calls that follow must not start it with other options than the program asked
         * for.
         */
        am_rt.why_down = why_failed;
        table_install(&am_api_down);
    }
    am_unlock(&am_rt.lock);
    return rc;
}

static aclError up_check_locked(void) AM_REQUIRES(am_rt.lock)
{
    AM_REQUIRE(am_rt.is_up || am_rt.why_down != why_finalized, ACL_ERROR_REPEAT_FINALIZE,
               "aclFinalize was already called");
    AM_REQUIRE(am_rt.is_up, ACL_ERROR_UNINITIALIZE, "%s",
               am_rt.why_down != NULL ? am_rt.why_down : "aclInit has not been called");
    return ACL_SUCCESS;
}

/* is_counted: only the last of as many calls as there were of aclInit stops the library. */
static aclError finalize(bool is_counted, uint64_t *ret_left)
{
    uint64_t left = 0;
    aclError rc;

    /* The thread that holds the lock may wait for the function that makes this call. */
    AM_REQUIRE(!am_call_is_inside(), ACL_ERROR_RT_PARAM_INVALID,
               "this call waits for all host functions and callbacks to return, and one "
               "of them made it, so it would wait for itself; call it from another "
               "thread, or after the function has returned");
    if (!am_runtime_lock())
        return am_fail(ACL_ERROR_RT_PARAM_INVALID, "%s", am_why_stopping);
    rc = up_check_locked();
    if (rc == ACL_SUCCESS && is_counted && am_rt.init_refs > 1)
        left = --am_rt.init_refs;
    else if (rc == ACL_SUCCESS)
        stop_locked();
    am_unlock(&am_rt.lock);
    if (rc == ACL_SUCCESS && ret_left != NULL)
        *ret_left = left;
    return rc;
}

aclError am_aclFinalize(void)
{
    return finalize(false, NULL);
}

aclError am_aclFinalizeReference(uint64_t *refCount)
{
    return finalize(true, refCount);
}
