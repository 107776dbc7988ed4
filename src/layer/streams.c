/* Hooks: streams, events and notifies. */
#include <inttypes.h>

#include "base/sys.h"
#include "layer/bytes.h"
#include "layer/hooks.h"
#include "layer/order.h"
#include "layer/waits.h"

/* ---- streams ---- */

/* The agent of a default stream, which has no object. */
static struct am_agent *default_agent_make(struct am_call *call, const void *stream)
{
    struct am_agent *agent = am_agent_make((uintptr_t)stream);
    aclrtContext context = NULL;

    if (agent == NULL)
        return NULL;
    am_check.below->aclrtGetCurrentContext(&context);
    agent->is_default = true;
    agent->context = (uintptr_t)context;
    agent->device = call->device;
    agent->made = call->site;
    return agent;
}

static struct am_agent *default_agent_find(const void *stream)
{
    struct am_agent *agent;

    TAILQ_FOREACH (agent, &am_agents, link) {
        if (agent->is_default && agent->handle == (uintptr_t)stream)
            return agent;
    }
    return NULL;
}

struct am_agent *am_agent_peek(const struct am_call *call)
{
    const struct am_object *object = am_handle_find(AM_OBJECT_STREAM, call->stream);

    if (object != NULL)
        return object->is_freed ? NULL : object->agent;
    return call->stream != NULL ? default_agent_find(call->stream) : NULL;
}

struct am_agent *am_agent_find(struct am_call *call)
{
    struct am_agent *agent = am_agent_peek(call);

    if (agent == NULL && call->stream != NULL && call->is_default_stream &&
        am_handle_find(AM_OBJECT_STREAM, call->stream) == NULL)
        agent = default_agent_make(call, call->stream);
    return agent;
}

/* From now on the program may name the default stream by its handle. */
AM_AFTER(default_stream, aclrtCtxGetCurrentDefaultStream)
{
    if (call->rc == ACL_SUCCESS && default_agent_find(*a->stream) == NULL)
        default_agent_make(call, *a->stream);
}

void am_call_use_stream(struct am_call *call)
{
    am_call_ref_agent(call, am_agent_find(call));
    if (call->agent == NULL && call->stream != NULL && !call->is_default_stream)
        am_handle_use(call, AM_OBJECT_STREAM, call->stream, "stream");
}

AM_AFTER(stream, aclrtCreateStream)
{
    struct am_object *object = am_call_made(call, AM_OBJECT_STREAM, a->stream, 0);
    struct am_agent *agent = object != NULL ? am_agent_make(object->key) : NULL;

    if (agent == NULL)
        return;
    object->agent = agent;
    agent->device = call->device;
    agent->context = call->context;
    agent->made = call->site;
    if (call->id == AM_API_aclrtCreateStreamWithConfig)
        agent->is_never_waited =
            (((const struct am_args_aclrtCreateStreamWithConfig *)call->args)->flag &
             (ACL_STREAM_PERSISTENT | ACL_STREAM_DEVICE_USE_ONLY |
              ACL_STREAM_CPU_SCHEDULE)) != 0;
}

static void report_waiting(struct am_call *call, struct am_object *object,
                           const struct am_site *work, const char *why)
{
    struct am_finding *f = am_call_finding(call);
    char text[160];

    am_finding_begin(f, AM_KIND_free_in_use, "%s is destroyed while %s",
                     am_object_text(object, 0, text, sizeof text), why);
    f->advice = "wait for the work first: aclrtSynchronizeStream";
    am_finding_at(f, "destroyed here", call->site);
    am_finding_at(f, "still used by this work", *work);
    am_finding_at(f, "made here", object->made);
    am_call_report(call, f);
}

AM_BEFORE(destroy_stream, aclrtDestroyStream)
{
    struct am_object *object = am_handle_end(call, AM_OBJECT_STREAM, a->stream, "stream");
    struct am_site wait;

    if (object == NULL)
        return;
    am_call_ref_agent(call, object->agent);
    if (object->agent != NULL && call->id != AM_API_aclrtDestroyStreamForce &&
        am_agent_is_stalled(object->agent, &wait))
        report_waiting(call, object, &wait,
                       "work in it waits for nothing that is queued");
    if (object->agent != NULL)
        am_waits_begin(call, (struct am_awaited){.agent = object->agent});
}

/* Its work is done, or dropped: the host knows either chain. */
void am_after_destroy_stream(struct am_call *call)
{
    struct am_object *object = call->object;

    if (call->rc != ACL_SUCCESS || object == NULL || object->is_freed)
        return;
    if (object->agent != NULL)
        am_host_joins_agent(object->agent);
    am_stream_end(call, object);
    am_object_free(call, object);
}

/* A host function waits for its own stream: the library refuses the call. */
static void report_own_stream(struct am_call *call, const struct am_agent *agent)
{
    struct am_finding *f = am_call_finding(call);

    am_finding_begin(f, AM_KIND_deadlock,
                     "a function of stream 0x%" PRIx64
                     " waits for work that is queued behind it",
                     agent->handle);
    f->advice = "wait in a thread of the program, not in the function";
    f->needs_refusal = true;
    am_finding_at(f, "the function waits here", call->site);
    am_finding_at(f, "the stream was made here", agent->made);
    am_call_report(call, f);
}

void am_before_sync_stream(struct am_call *call)
{
    struct am_agent *agent = call->agent;

    if (agent != NULL && am_agent_is_behind_function(agent))
        report_own_stream(call, agent);
    else if (agent != NULL && !agent->is_never_waited)
        call->record = am_agent_record(call, agent, NULL);
    if (agent != NULL)
        am_waits_begin(call, (struct am_awaited){.agent = agent});
}

/* Whether the wait ended: a failure of the work, also by a timeout in it, ends it too. */
static bool is_over(aclError rc)
{
    switch (rc) {
    case ACL_ERROR_INVALID_PARAM:
    case ACL_ERROR_RT_CONTEXT_NULL:
    case ACL_ERROR_RT_INVALID_HANDLE:
    case ACL_ERROR_RT_STREAM_SYNC_TIMEOUT:
        return false;
    default:
        return true;
    }
}

/* The agent again: the stream may have been destroyed while the call waited. */
void am_after_sync_stream(struct am_call *call)
{
    if (!is_over(call->rc) || call->record == NULL)
        return;
    am_host_joins_position(call->agent, call->record);
    am_models_waited(call->agent);
    if (TAILQ_EMPTY(&call->agent->works))
        call->agent->is_order_unknown = false;
}

AM_AFTER(query_stream, aclrtStreamQuery)
{
    if (call->rc == ACL_SUCCESS && *a->status == ACL_STREAM_STATUS_COMPLETE)
        am_after_sync_stream(call);
}

void am_before_sync_device(struct am_call *call)
{
    struct am_agent *agent;

    TAILQ_FOREACH (agent, &am_agents, link) {
        if (agent->device == call->device && agent->handle != 0)
            call->record = am_agent_record(call, agent, call->record);
    }
    am_waits_begin(call, (struct am_awaited){.device = call->device});
}

void am_after_sync_device(struct am_call *call)
{
    struct am_agent *agent;

    if (!is_over(call->rc))
        return;
    am_host_joins_record(call->record);
    TAILQ_FOREACH (agent, &am_agents, link) {
        if (agent->device == call->device && TAILQ_EMPTY(&agent->works))
            agent->is_order_unknown = false;
    }
}

/* A function that another thread queues during the call is not dropped. */
void am_before_abort(struct am_call *call)
{
    call->value = am_serial_last();
    if (call->id == AM_API_aclrtDeviceTaskAbort) {
        AM_ARGS(aclrtDeviceTaskAbort);
        am_waits_begin(call, (struct am_awaited){.device = (int16_t)a->deviceId});
    } else if (call->agent != NULL) {
        am_waits_begin(call, (struct am_awaited){.agent = call->agent});
    }
}

/* The library has dropped what was queued. */
static void agent_abort(const struct am_call *call, struct am_agent *agent)
{
    agent->refs++;
    am_functions_drop(agent, call->value);
    am_agent_abort(agent);
    am_host_joins_agent(agent);
    am_agent_put(agent);
}

void am_after_abort_stream(struct am_call *call)
{
    struct am_agent *agent = am_agent_find(call);

    if (call->rc == ACL_SUCCESS && agent != NULL)
        agent_abort(call, agent);
}

AM_AFTER(abort_device, aclrtDeviceTaskAbort)
{
    struct am_agent *agent = call->rc == ACL_SUCCESS ? TAILQ_FIRST(&am_agents) : NULL;
    struct am_agent *next;

    for (; agent != NULL; agent = next) {
        next = TAILQ_NEXT(agent, link);
        if (agent->device == a->deviceId)
            agent_abort(call, agent);
    }
}

/* ---- events and notifies ---- */

static struct am_signal *signal_made(struct am_call *call, enum am_object_kind kind,
                                     void *const *out)
{
    struct am_object *object = am_call_made(call, kind, out, 0);

    if (object == NULL)
        return NULL;
    object->signal = am_signal_make(kind == AM_OBJECT_NOTIFY);
    if (object->signal != NULL)
        object->signal->handle = object->key;
    return object->signal;
}

AM_AFTER(event, aclrtCreateEventWithFlag)
{
    struct am_signal *signal = signal_made(call, AM_OBJECT_EVENT, a->event);

    if (signal == NULL || call->id != AM_API_aclrtCreateEventWithFlag)
        return;
    signal->lacks_sync =
        !(a->flag & (ACL_EVENT_SYNC | ACL_EVENT_DEVICE_USE_ONLY | ACL_EVENT_EXTERNAL));
    signal->is_external = a->flag & ACL_EVENT_EXTERNAL;
}

AM_AFTER(event_ex, aclrtCreateEventExWithFlag)
{
    struct am_signal *signal = signal_made(call, AM_OBJECT_EVENT, a->event);

    if (signal != NULL)
        signal->is_repeated = true;
}

AM_AFTER(open_event, aclrtIpcOpenEventHandle)
{
    struct am_signal *signal = signal_made(call, AM_OBJECT_EVENT, a->event);

    if (signal != NULL)
        signal->is_shared = signal->is_repeated = true;
}

AM_AFTER(notify, aclrtCreateNotify)
{
    signal_made(call, AM_OBJECT_NOTIFY, a->notify);
}

AM_AFTER(import_notify, aclrtNotifyImportByKey)
{
    struct am_signal *signal = signal_made(call, AM_OBJECT_NOTIFY, a->notify);

    if (signal != NULL)
        signal->is_shared = true;
}

void am_after_share_signal(struct am_call *call)
{
    if (call->rc == ACL_SUCCESS && call->object != NULL && call->object->signal != NULL)
        call->object->signal->is_shared = true;
}

static void signal_free(struct am_call *call, enum am_object_kind kind,
                        const void *handle)
{
    struct am_object *object =
        am_handle_end(call, kind, handle, am_object_rows[kind].name);
    struct am_site work;

    if (object == NULL)
        return;
    if (object->signal != NULL && am_signal_is_in_use(object->signal, &work))
        report_waiting(call, object, &work, "a stream still waits for it");
    am_object_free(call, object);
}

void am_after_destroy_signal(struct am_call *call)
{
    if (call->rc == ACL_SUCCESS && call->object != NULL && call->object->signal != NULL)
        am_signal_end(call->object->signal);
    am_after_freed(call);
}

AM_BEFORE(destroy_event, aclrtDestroyEvent)
{
    signal_free(call, AM_OBJECT_EVENT, a->event);
}

AM_BEFORE(destroy_notify, aclrtDestroyNotify)
{
    signal_free(call, AM_OBJECT_NOTIFY, a->notify);
}

/*
 * Queues work of the call's stream and signal.  The lock was released while
 * the call was passed on, so both are checked again.
 */
static struct am_signal *signal_work(struct am_call *call, struct am_work *work,
                                     enum am_work_type type)
{
    struct am_signal *signal;

    if (call->rc != ACL_SUCCESS || call->object == NULL || call->agent == NULL)
        return NULL;
    signal = call->object->signal;
    if (signal == NULL || call->object->is_freed)
        return NULL;
    am_work_begin(work, type, call, call->agent);
    work->signal = signal;
    return signal;
}

/*
 * A record is queued in the model before the call: another thread may see its effect, in a
 * function behind a wait for it, before the call returns.
 */
static void record_queue(struct am_call *call)
{
    struct am_work work;
    struct am_signal *signal = signal_work(call, &work, AM_WORK_RECORD);

    if (signal == NULL)
        return;
    signal->stream = call->agent->handle;
    if (!signal->is_notify) {
        call->record = am_record_get(am_signal_record(signal));
        work.record = call->record;
        if (work.record == NULL)
            return;
    }
    am_work_queue(&work);
}

void am_before_record(struct am_call *call)
{
    am_before_use_event(call);
    record_queue(call);
}

void am_before_record_notify(struct am_call *call)
{
    am_before_use_notify(call);
    record_queue(call);
}

void am_after_record(struct am_call *call)
{
    if (call->rc != ACL_SUCCESS && call->record != NULL)
        am_record_complete(call->record, true);
}

void am_after_reset_event(struct am_call *call)
{
    if (call->rc == ACL_SUCCESS && call->object != NULL && call->object->signal != NULL)
        am_signal_reset(call->object->signal);
}

void am_after_wait(struct am_call *call)
{
    struct am_work work;
    struct am_signal *signal = signal_work(call, &work, AM_WORK_WAIT);

    if (signal == NULL)
        return;
    if (!signal->is_notify) {
        work.record = am_signal_target(signal);
        if (work.record == NULL && !signal->is_shared)
            return;
    }
    am_work_queue(&work);
}

AM_BEFORE(use_notifies, aclrtNotifyBatchReset)
{
    size_t i = 0;

    while (a->notifies != NULL && i < a->num &&
           am_handle_use(call, AM_OBJECT_NOTIFY, a->notifies[i], "notifies") != NULL)
        i++; /* the library stops at an invalid handle, too */
}

AM_AFTER(reset_notifies, aclrtNotifyBatchReset)
{
    for (size_t i = 0; call->rc == ACL_SUCCESS && i < a->num; i++) {
        struct am_object *object = am_handle_find(AM_OBJECT_NOTIFY, a->notifies[i]);

        if (object != NULL && object->signal != NULL) {
            object->signal->is_set = false;
            am_clock_free(&object->signal->clock);
        }
    }
}

/* The record that the call is about: another thread may record the event during the call. */
void am_before_query_event(struct am_call *call)
{
    struct am_signal *signal;

    am_before_use_event(call);
    signal = call->object != NULL ? call->object->signal : NULL;
    if (signal == NULL)
        return;
    call->record = am_record_get(am_signal_target(signal));
    am_waits_begin(call, (struct am_awaited){.signal = signal});
}

/* The record was made.  A record that is not queued is one that a reset has yet to undo. */
static void signal_joined(struct am_signal *signal, struct am_record *record)
{
    am_host_joins_record(record != NULL && record->n_queued > 0 ? record : signal->last);
}

void am_after_sync_event(struct am_call *call)
{
    if (call->rc == ACL_SUCCESS && call->object != NULL && call->object->signal != NULL)
        signal_joined(call->object->signal, call->record);
}

AM_AFTER(query_event, aclrtQueryEvent)
{
    if (call->rc == ACL_SUCCESS && *a->status == ACL_EVENT_STATUS_COMPLETE)
        am_after_sync_event(call);
}

AM_AFTER(query_event_status, aclrtQueryEventStatus)
{
    if (call->rc == ACL_SUCCESS && *a->status == ACL_EVENT_RECORDED_STATUS_COMPLETE)
        am_after_sync_event(call);
}

AM_AFTER(query_wait_status, aclrtQueryEventWaitStatus)
{
    if (call->rc == ACL_SUCCESS && *a->status == ACL_EVENT_WAIT_STATUS_COMPLETE &&
        call->object != NULL && call->object->signal != NULL)
        am_host_joins_waits(call->object->signal);
}

AM_BEFORE(elapsed, aclrtEventElapsedTime)
{
    am_handle_use(call, AM_OBJECT_EVENT, a->start, "start");
    am_handle_use(call, AM_OBJECT_EVENT, a->end, "end");
}

/* Both records have a time, so both ran. */
AM_AFTER(elapsed, aclrtEventElapsedTime)
{
    const void *events[] = {a->start, a->end};

    for (size_t i = 0; call->rc == ACL_SUCCESS && i < 2; i++) {
        struct am_object *object = am_handle_find(AM_OBJECT_EVENT, events[i]);

        if (object != NULL && object->signal != NULL)
            am_host_joins_record(object->signal->last);
    }
}
