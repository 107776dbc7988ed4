/* Hooks: what ends with a stream, a context, a device, or the library. */
#include "layer/bytes.h"
#include "layer/hooks.h"
#include "layer/order.h"
#include "layer/pinned.h"
#include "layer/quarantine.h"
#include "layer/waits.h"

static void agent_end(struct am_call *call, struct am_agent *agent)
{
    am_capture_leave(call, agent);
    am_functions_drop(agent, UINT64_MAX);
    am_agent_end(agent);
}

void am_stream_end(struct am_call *call, struct am_object *object)
{
    if (object->kind != AM_OBJECT_STREAM)
        return;
    if (object->agent != NULL)
        agent_end(call, object->agent);
    object->agent = NULL;
}

static void object_end(struct am_call *call, struct am_object *object)
{
    am_stream_end(call, object);
    if (object->bytes != NULL &&
        (object->kind == AM_OBJECT_PHYS || object->kind == AM_OBJECT_IMPORT))
        object->bytes->n_handles = 0;
    if (object->kind == AM_OBJECT_HOST)
        am_touch_end(object->bytes);
    if (object->kind == AM_OBJECT_MODEL) {
        am_model_end(object->model);
        object->model = NULL;
    }
    am_object_free(call, object);
}

/*
 * Of a device (-1: of all) what is live; `serial` is of the last object that was there when the
 * end began.
 */
static void objects_end(struct am_call *call, int device, uint64_t serial)
{
    struct am_walk walk = {0};
    struct am_object *object;

    while ((object = am_object_next(&walk)) != NULL) {
        if (object->serial <= serial && (device < 0 || object->device == device))
            object_end(call, object);
    }
}

/* Default streams of a context, of a device, or (0, -1) all of them. */
static void default_agents_end(struct am_call *call, uint64_t context, int device)
{
    struct am_agent *agent;
    struct am_agent *next;

    for (agent = TAILQ_FIRST(&am_agents); agent != NULL; agent = next) {
        next = TAILQ_NEXT(agent, link);
        if (agent->is_default && agent->handle != 0 &&
            (context == 0 || agent->context == context) &&
            (device < 0 || agent->device == device))
            agent_end(call, agent);
    }
}

AM_AFTER(context, aclrtCreateContext)
{
    struct am_object *object = am_call_made(call, AM_OBJECT_CONTEXT, a->context, 0);

    if (object != NULL)
        object->device = (int16_t)a->deviceId;
}

AM_BEFORE(destroy_context, aclrtDestroyContext)
{
    am_handle_end(call, AM_OBJECT_CONTEXT, a->context, "context");
    if (a->context != NULL)
        am_waits_begin(call, (struct am_awaited){.context = (uintptr_t)a->context});
}

AM_AFTER(destroy_context, aclrtDestroyContext)
{
    struct am_object *context = am_handle_find(AM_OBJECT_CONTEXT, a->context);
    struct am_agent *agent;
    struct am_agent *next;

    if (call->rc != ACL_SUCCESS)
        return;
    if (context != NULL && !context->is_freed)
        am_object_free(call, context);
    for (agent = TAILQ_FIRST(&am_agents); agent != NULL; agent = next) {
        struct am_object *object;

        next = TAILQ_NEXT(agent, link);
        if (agent->context != (uintptr_t)a->context)
            continue;
        am_host_joins_agent(agent); /* the call does what is queued first */
        object = am_handle_find(AM_OBJECT_STREAM, (void *)(uintptr_t)agent->handle);
        if (object != NULL && !object->is_freed)
            object_end(call, object);
    }
    default_agents_end(call, (uintptr_t)a->context, -1);
}

/* What another thread makes while the device ends is not ended. */
AM_BEFORE(reset_device, aclrtResetDevice)
{
    call->value = am_serial_last();
    am_check.n_resetting++;
    am_check.n_resets++;
    am_quarantine_release_all(); /* passed on before the call */
    am_waits_begin(call, (struct am_awaited){.device = (int16_t)a->deviceId});
}

/* The last reset ends what is on the device; whether it was, the library knows. */
AM_AFTER(reset_device, aclrtResetDevice)
{
    int32_t is_active = 1;

    am_check.n_resetting--;
    if (call->rc != ACL_SUCCESS ||
        am_check.below->aclrtGetPrimaryCtxState(a->deviceId, NULL, &is_active) !=
            ACL_SUCCESS ||
        is_active)
        return;
    am_quarantine_remove_device(a->deviceId);
    am_leaks_report(a->deviceId, 0, "the last aclrtResetDevice");
    objects_end(call, a->deviceId, call->value);
    default_agents_end(call, 0, a->deviceId);
}

/* From now on the memory may be freed at any time. */
void am_before_finalize(struct am_call *call)
{
    am_guards_check(call);
    call->value = am_serial_last();
    am_check.n_stopping++;
    am_check.n_resets++;
    am_quarantine_release_all();
    am_waits_begin(call, (struct am_awaited){.device = -1});
}

/*
 * The library may have been started more than once; then it goes on.  Another thread may
 * have started it again since the stop; then what that thread has made is not ended.
 */
void am_after_finalize(struct am_call *call)
{
    bool is_down = am_api_top == &am_api_down;
    uint64_t serial = is_down ? UINT64_MAX : call->value;

    am_check.n_stopping--;
    if (call->rc != ACL_SUCCESS || (!is_down && call->era == am_check.era))
        return;
    am_quarantine_remove_device(-1);
    am_touch_forget_all();
    am_leaks_report(-1, 0, "aclFinalize");
    objects_end(call, -1, serial);
    default_agents_end(call, 0, -1);
    am_functions_drop(NULL, serial);
    if (is_down)
        am_check.era++;
}
