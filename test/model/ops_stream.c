/*
 * Operations on streams and events.
 *
 * Nothing here waits for what nobody does: a stream waits only for events that are
 * recorded, or that count as done before.
 */
#include "run.h"

#define CANARY ((void *)0x5aa5c33c)

struct model_stream *arg_model_stream(struct run *r)
{
    uint32_t first = pick(r, MODEL_STREAMS);

    for (uint32_t i = 0; i < MODEL_STREAMS; i++)
        if (r->m.stream[(first + i) % MODEL_STREAMS].is_used)
            return &r->m.stream[(first + i) % MODEL_STREAMS];
    return NULL;
}

/* A handle of another kind is tried too. */
static void *wrong_object(struct run *r)
{
    struct model_event *event = &r->m.event[pick(r, MODEL_EVENTS)];

    switch (pick(r, 4)) {
    case 0:
        return event->is_used ? event->value : (void *)1;
    case 1:
        return arg_handle(r);
    default:
        return r->n_stale > 0 ? r->stale[pick(r, RUN_STALE)] : (void *)8;
    }
}

void *arg_stream(struct run *r)
{
    struct model_stream *stream = arg_model_stream(r);

    if (chance(r, 3))
        return wrong_object(r);
    if (stream != NULL && chance(r, 80))
        return stream->value;
    return chance(r, 50) && r->m.has_current ? *model_current_default(&r->m) : NULL;
}

static void *arg_event(struct run *r)
{
    uint32_t first = pick(r, MODEL_EVENTS);

    if (chance(r, 3))
        return chance(r, 20) ? NULL : wrong_object(r);
    for (uint32_t i = 0; i < MODEL_EVENTS; i++)
        if (r->m.event[(first + i) % MODEL_EVENTS].is_used)
            return r->m.event[(first + i) % MODEL_EVENTS].value;
    return NULL;
}

static unsigned count_streams(const struct run *r, int device)
{
    unsigned n = 0;

    for (int i = 0; i < MODEL_STREAMS; i++)
        n += r->m.stream[i].is_used && (device < 0 || r->m.stream[i].device == device);
    return n;
}

void op_create_stream(struct run *r)
{
    const uint32_t flags_all = 0x3f;
    bool has_config = chance(r, 40);
    uint32_t priority = has_config ? pick(r, chance(r, 10) ? 20 : 8) : 0;
    uint32_t flags = has_config ? pick(r, chance(r, 10) ? 256 : 4) : 0;
    void *got = CANARY, **out = chance(r, 2) ? NULL : &got;
    struct verdict v = model_may_query(&r->m, out != NULL);
    struct model_stream *slot = r->m.stream;

    if (count_streams(r, -1) == MODEL_STREAMS)
        return;
    deny(&v, priority > 7 || (flags & ~flags_all) != 0, ACL_ERROR_INVALID_PARAM);
    run_log(r, "aclrtCreateStream%s(%s, %u, %#x)", has_config ? "WithConfig" : "",
            out ? "&s" : "NULL", priority, flags);
    if (!settle(r,
                has_config ? aclrtCreateStreamWithConfig(out, priority, flags)
                           : aclrtCreateStream(out),
                &v)) {
        expect(r, got == CANARY, "the output was written: %p", got);
        return;
    }
    run_log(r, "    s = %p", got);
    expect(r, got != NULL && model_find_stream(&r->m, got) == NULL && !is_stale(r, got),
           "the new stream is %p", got);
    while (slot->is_used)
        slot++;
    *slot = (struct model_stream){.is_used = true,
                                  .value = got,
                                  .device = r->m.current,
                                  .ctx = r->m.own_ctx,
                                  .priority = priority,
                                  .flags = flags};
}

static bool has_records(struct run *r, void *value)
{
    struct verdict v = model_may_use_stream(&r->m, value);

    return !verdict_is_refusal(&v) &&
           model_has_records(&r->m, model_stream_device(&r->m, value),
                             model_stream_key(&r->m, value));
}

void op_destroy_stream(struct run *r)
{
    void *value = arg_stream(r);
    bool is_forced = chance(r, 20) && !has_records(r, value);
    struct verdict v = model_may_destroy_stream(&r->m, value);

    run_log(r, "aclrtDestroyStream%s(%p)", is_forced ? "Force" : "", value);
    if (!settle(r, is_forced ? aclrtDestroyStreamForce(value) : aclrtDestroyStream(value),
                &v))
        return;
    model_end_stream(&r->m, model_find_stream(&r->m, value));
    remember_stale(r, value);
}

/* A device's default stream: with other threads about, their work is on it too. */
static bool is_everybodys(struct run *r, const void *value)
{
    const void *key = model_stream_key(&r->m, value);

    for (int i = 0; i < r->m.n_devices; i++)
        if (key == &r->m.dev[i].default_stream)
            return !r->opt.is_alone;
    return false;
}

void op_sync_stream(struct run *r)
{
    void *value = arg_stream(r);
    uint32_t how = pick(r, 8);
    struct verdict v = model_may_use_stream(&r->m, value);
    aclError rc;

    deny(&v, how == 1, ACL_ERROR_INVALID_PARAM);
    if (how == 2 && (has_records(r, value) || is_everybodys(r, value)))
        return;
    run_log(r, "synchronise[%u](%p)", how, value);
    switch (how) {
    case 0:
        rc = aclrtSynchronizeStreamWithTimeout(value, -1);
        break;
    case 1:
        rc = aclrtSynchronizeStreamWithTimeout(value, 0);
        break;
    case 2:
        rc = aclrtStreamAbort(value);
        break;
    default:
        rc = aclrtSynchronizeStream(value);
    }
    if (!settle(r, rc, &v) || how == 2)
        return;
    model_synced(&r->m, value);
    check_released(r, model_stream_device(&r->m, value));
}

void op_sync_device(struct run *r)
{
    struct verdict v = model_may_query(&r->m, true);

    run_log(r, "aclrtSynchronizeDevice()");
    if (!settle(r, aclrtSynchronizeDevice(), &v))
        return;
    model_synced_device(&r->m, r->m.current);
    check_released(r, r->m.current);
}

static void ask_id(struct run *r, void *value, struct model_stream *stream)
{
    struct verdict v = model_may_use_stream(&r->m, value);
    int32_t id = 77;

    run_log(r, "aclrtStreamGetId(%p, &id)", value);
    if (!settle(r, aclrtStreamGetId(value, &id), &v) || stream == NULL)
        return;
    if (stream->id == 0)
        stream->id = id;
    expect(r, id == stream->id, "id %d, not %d", id, stream->id);
    for (int i = 0; i < MODEL_STREAMS; i++)
        expect(r,
               &r->m.stream[i] == stream || !r->m.stream[i].is_used ||
                   r->m.stream[i].id != id,
               "two streams have the id %d", id);
}

void op_ask_stream(struct run *r)
{
    void *value = arg_stream(r);
    struct model_stream *stream = model_find_stream(&r->m, value);
    struct verdict v = model_may_use_stream(&r->m, value);
    uint32_t got = 77, how = pick(r, 5);
    aclrtStreamStatus status = (aclrtStreamStatus)77;
    aclrtStreamAttrValue attr = {.failureMode = 77};

    switch (how) {
    case 0:
        run_log(r, "aclrtStreamGetPriority(%p)", value);
        if (settle(r, aclrtStreamGetPriority(value, &got), &v) && stream != NULL)
            expect(r, got == stream->priority, "priority %u", got);
        break;
    case 1:
        run_log(r, "aclrtStreamGetFlags(%p)", value);
        if (settle(r, aclrtStreamGetFlags(value, &got), &v) && stream != NULL)
            expect(r, got == stream->flags, "flags %#x", got);
        break;
    case 2:
        run_log(r, "aclrtStreamQuery(%p)", value);
        if (settle(r, aclrtStreamQuery(value, &status), &v))
            expect(r, (int)status == 0 || (int)status == 1, "status %d", (int)status);
        break;
    case 3:
        run_log(r, "aclrtGetStreamAttribute(%p, FAILURE_MODE)", value);
        if (settle(r, aclrtGetStreamAttribute(value, ACL_STREAM_ATTR_FAILURE_MODE, &attr),
                   &v))
            expect(r, attr.failureMode == (stream != NULL ? stream->failure_mode : 0),
                   "failure mode %d", (int)attr.failureMode);
        break;
    default:
        ask_id(r, value, stream);
    }
}

void op_failure_mode(struct run *r)
{
    void *value = arg_stream(r);
    struct model_stream *stream = model_find_stream(&r->m, value);
    uint64_t mode = pick(r, chance(r, 10) ? 5 : 2);
    struct verdict v = model_may_use_stream(&r->m, value);
    bool is_default = !verdict_is_refusal(&v) && stream == NULL;

    deny(&v, mode > 1, ACL_ERROR_INVALID_PARAM);
    deny(&v, is_default, ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
    run_log(r, "aclrtSetStreamFailureMode(%p, %d)", value, (int)mode);
    if (settle(r, aclrtSetStreamFailureMode(value, mode), &v))
        stream->failure_mode = mode;
}

/* The default stream has a name, too; and how many streams and events there can be. */
void op_default_stream(struct run *r)
{
    void *got = CANARY, **out = chance(r, 3) ? NULL : &got, **known;
    struct verdict v = model_may_query(&r->m, out != NULL);
    uint32_t n = 77, n_events = 0;

    run_log(r, "aclrtCtxGetCurrentDefaultStream(%s)", out ? "&s" : "NULL");
    if (!settle(r, aclrtCtxGetCurrentDefaultStream(out), &v)) {
        expect(r, got == CANARY, "the output was written: %p", got);
        return;
    }
    known = model_current_default(&r->m);
    expect(r, got != NULL && (*known == NULL || *known == got),
           "the default stream is %p, not %p", got, *known);
    expect(r, *known == got || !is_stale(r, got), "default stream %p died before", got);
    *known = got;
    run_log(r, "aclrtGetStreamAvailableNum(&n), aclrtGetEventAvailNum(&n)");
    settle_ok(r, aclrtGetStreamAvailableNum(&n));
    settle_ok(r, aclrtGetEventAvailNum(&n_events));
    if (!r->opt.is_alone)
        return;
    expect(r, n == 1984 - count_streams(r, r->m.current), "%u streams left", n);
    for (int i = 0; i < MODEL_EVENTS; i++)
        n_events += r->m.event[i].is_used && r->m.event[i].device == r->m.current;
    expect(r, n_events == 65536, "events left and events alive are %u", n_events);
}

static aclError create_event(bool is_ex, bool has_flag, void **out, uint32_t flags)
{
    if (is_ex)
        return aclrtCreateEventExWithFlag(out, flags);
    return has_flag ? aclrtCreateEventWithFlag(out, flags) : aclrtCreateEvent(out);
}

void op_create_event(struct run *r)
{
    bool is_ex = chance(r, 40), has_flag = is_ex || chance(r, 70);
    const uint32_t known = (is_ex ? 0x4b : 0x3b) | (r->m.is_strict ? 0 : 0x4);
    const uint32_t alone = is_ex ? ACL_EVENT_IPC : ACL_EVENT_EXTERNAL;
    uint32_t flags = chance(r, 80) ? ACL_EVENT_SYNC : pick(r, 128);
    void *got = CANARY, **out = chance(r, 2) ? NULL : &got;
    struct verdict v = model_may_query(&r->m, out != NULL);
    struct model_event *slot = r->m.event;

    for (int i = 0; slot->is_used; i++, slot++)
        if (i == MODEL_EVENTS - 1)
            return;
    if (has_flag && chance(r, 20))
        flags |= ACL_EVENT_TIME_LINE;
    deny(&v, has_flag && (flags == 0 || (flags & ~known) != 0), ACL_ERROR_INVALID_PARAM);
    deny(&v, has_flag && (flags & alone) && flags != alone, ACL_ERROR_INVALID_PARAM);
    doubt(&v, has_flag && (flags & 0x70), ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
    run_log(r, "aclrtCreateEvent%s(%s, %#x)", is_ex ? "ExWithFlag" : "",
            out ? "&e" : "NULL", flags);
    if (!settle(r, create_event(is_ex, has_flag, out, flags), &v)) {
        expect(r, got == CANARY, "the output was written: %p", got);
        return;
    }
    run_log(r, "    e = %p", got);
    expect(r, got != NULL && model_find_event(&r->m, got) == NULL && !is_stale(r, got),
           "the new event is %p", got);
    *slot = (struct model_event){
        .is_used = true,
        .value = got,
        .device = r->m.current,
        .is_ex = is_ex,
        .flags = has_flag ? flags : ACL_EVENT_SYNC | ACL_EVENT_TIME_LINE};
}

void op_destroy_event(struct run *r)
{
    void *value = arg_event(r);
    struct verdict v = model_may_use_event(&r->m, value);

    run_log(r, "aclrtDestroyEvent(%p)", value);
    if (!settle(r, aclrtDestroyEvent(value), &v))
        return;
    model_find_event(&r->m, value)->is_used = false;
    remember_stale(r, value);
}

void op_record_event(struct run *r)
{
    void *value = arg_event(r), *stream = arg_stream(r);
    struct model_event *event = model_find_event(&r->m, value);
    struct verdict v = model_may_use_event(&r->m, value);
    struct verdict use = model_may_use_stream(&r->m, stream);

    for (unsigned i = 0; i < use.n_hard; i++)
        deny(&v, true, use.hard[i]);
    run_log(r, "aclrtRecordEvent(%p, %p)", value, stream);
    if (!settle(r, aclrtRecordEvent(value, stream), &v))
        return;
    event->is_recorded = true;
    event->is_done = false;
    event->stream_device = model_stream_device(&r->m, stream);
    event->stream = model_stream_key(&r->m, stream);
}

/* Only for what will be: recorded before, or an extended event. */
void op_wait_event(struct run *r)
{
    void *value = arg_event(r), *stream = arg_stream(r);
    struct model_event *event = model_find_event(&r->m, value);
    struct verdict v = model_may_use_event(&r->m, value);
    struct verdict use = model_may_use_stream(&r->m, stream);
    bool is_host = chance(r, 30);
    aclError rc;

    if (event != NULL && !event->is_ex && !event->is_recorded)
        return;
    for (unsigned i = 0; !is_host && i < use.n_hard; i++)
        deny(&v, true, use.hard[i]);
    deny(&v,
         !is_host && event != NULL && (event->is_ex || r->m.is_strict) &&
             (event->flags & 0x71) == 0,
         ACL_ERROR_RT_PARAM_INVALID);
    run_log(r, "%s(%p, %p)", is_host ? "aclrtSynchronizeEvent" : "aclrtStreamWaitEvent",
            value, is_host ? NULL : stream);
    rc = is_host ? aclrtSynchronizeEvent(value) : aclrtStreamWaitEvent(stream, value);
    if (!settle(r, rc, &v))
        return;
    if (is_host)
        event->is_done = true;
    else
        model_await(&r->m, event, stream);
}

void op_query_event(struct run *r)
{
    void *value = arg_event(r);
    struct model_event *event = model_find_event(&r->m, value);
    struct verdict v = model_may_use_event(&r->m, value);
    aclrtEventRecordedStatus status = (aclrtEventRecordedStatus)77;
    aclrtEventStatus old = (aclrtEventStatus)77;
    bool is_old = chance(r, 30), is_done;

    deny(&v, is_old && event != NULL && event->is_ex, ACL_ERROR_RT_PARAM_INVALID);
    run_log(r, "aclrtQueryEvent%s(%p)", is_old ? "" : "Status", value);
    if (!settle(r,
                is_old ? aclrtQueryEvent(value, &old)
                       : aclrtQueryEventStatus(value, &status),
                &v)) {
        expect(r, (int)old == 77 && (int)status == 77, "the output was written");
        return;
    }
    is_done = is_old ? old == ACL_EVENT_STATUS_COMPLETE
                     : status == ACL_EVENT_RECORDED_STATUS_COMPLETE;
    expect(r, !event->is_done || is_done, "a record whose stream is done is not");
    expect(r, event->is_recorded || is_done == event->is_ex,
           "an event that nobody recorded says %d", is_done);
    if (is_done && event->is_recorded)
        event->is_done = true;
}

/* Times are there for what is done and made for it. */
void op_event_time(struct run *r)
{
    void *value = arg_event(r);
    struct model_event *event = model_find_event(&r->m, value);
    struct verdict v = model_may_use_event(&r->m, value);
    uint64_t us = 77;

    if (event != NULL) {
        bool can_tell = (event->flags & ACL_EVENT_TIME_LINE) && event->is_recorded;

        deny(&v, !can_tell, ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID);
        doubt(&v, !event->is_done, ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID);
    }
    run_log(r, "aclrtEventGetTimestamp(%p)", value);
    settle(r, aclrtEventGetTimestamp(value, &us), &v);
}
