/* See signal.h. */
#include "core/stream/signal.h"

#include "acl/error_codes/rt_error_codes.h"
#include "base/error.h"
#include "base/util.h"
#include "core/device/context.h"
#include "core/device/setup.h"
#include "core/exchange/exchange.h"

/* The device of the context has one signal more. */
static aclError signal_list_locked(struct am_signals *signals, struct am_signal *signal,
                                   const struct am_context *context, uint32_t limit)
    AM_REQUIRES(am_sched.lock)
{
    int32_t device = signal->device;

    AM_REQUIRE(context->named.handle !=
                   NULL, /* since it was looked up; a reset is under way */
               ACL_ERROR_RT_CONTEXT_NULL, "the context has just been destroyed");
    AM_REQUIRE(signals->of[device].n < limit, ACL_ERROR_RT_NO_EVENT_RESOURCE,
               "device %d has %u %ss, as many as %s allow; destroy some first", device,
               limit, signals->name, am_setup.product->title);
    signal->id = signals->next_id++;
    LIST_INSERT_HEAD(&signals->of[device].list, signal, all);
    signals->of[device].n++;
    signals->n++;
    return ACL_SUCCESS;
}

static aclError signal_enter(struct am_signals *signals, struct am_signal *signal,
                             const struct am_context *context, uint32_t limit,
                             void **ret_handle)
{
    /* Once it is listed, a reset by another thread may end it. */
    void *handle = am_named_publish(&signal->named);
    aclError rc;

    signal->device = context->device;
    am_lock(&am_sched.lock);
    rc = signal_list_locked(signals, signal, context, limit);
    am_unlock(&am_sched.lock);
    if (rc == ACL_SUCCESS)
        *ret_handle = handle;
    else
        am_named_unpublish(&signal->named);
    return rc;
}

aclError am_signal_enter(struct am_signals *signals, struct am_signal *signal,
                         uint32_t limit, void **ret_handle)
{
    struct am_context *context;
    aclError rc = am_context_get_current(&context);

    am_waitlist_init(&signal->waiting);
    signal->named.refs = 1;
    if (rc == ACL_SUCCESS) {
        rc = signal_enter(signals, signal, context, limit, ret_handle);
        am_context_put(context);
    }
    if (rc != ACL_SUCCESS)
        signals->put(&signal->named);
    return rc;
}

/* False: another thread has destroyed it. */
static bool signal_end(struct am_signals *signals, struct am_signal *signal)
{
    bool was_alive;

    am_lock(&am_sched.lock);
    was_alive = !signal->is_dead;
    signal->is_dead = true;
    if (was_alive) {
        LIST_REMOVE(signal, all);
        signals->of[signal->device].n--;
        signals->n--;
        am_named_unpublish(&signal->named);
        am_sched_wake_locked(&am_sched, &signal->waiting);
        if (signals->ended != NULL)
            signals->ended(signal);
    }
    am_unlock(&am_sched.lock);
    if (was_alive) {
        am_export_withdraw(signal->export);
        signals->put(&signal->named);
    }
    return was_alive;
}

aclError am_signal_destroy(struct am_signals *signals, void *handle)
{
    struct am_signal *signal;
    aclError rc = ACL_SUCCESS;

    AM_TRY(am_signal_get(signals, handle, &signal));
    if (!signal_end(signals, signal))
        rc = am_fail(ACL_ERROR_RT_INVALID_HANDLE, "%s %p is not alive", signals->name,
                     handle);
    signals->put(&signal->named);
    return rc;
}

void am_signal_kill_all(struct am_signals *signals, int32_t device)
{
    struct am_signal *signal;

    do {
        am_lock(&am_sched.lock);
        signal = LIST_FIRST(&signals->of[device].list);
        if (signal != NULL)
            am_ref_more(&signal->named.refs);
        am_unlock(&am_sched.lock);
        if (signal != NULL) {
            signal_end(signals, signal);
            signals->put(&signal->named);
        }
    } while (signal != NULL);
}

bool am_signal_exported(struct am_signal *signal, uint64_t number)
{
    bool is_used;

    am_lock(&am_sched.lock);
    is_used = signal->export == 0 && !signal->is_dead;
    if (is_used)
        signal->export = number;
    am_unlock(&am_sched.lock);
    if (!is_used)
        am_export_withdraw(number);
    return is_used;
}
