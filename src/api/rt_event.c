/* Events and notifies. */
#include <inttypes.h>
#include <string.h>

#include "api/api.h"
#include "api/check.h"
#include "base/error.h"
#include "core/device/setup.h"
#include "core/ipc/key.h"
#include "core/stream/event.h"

/*
 * The flags that both functions take, in any combination.  Bit 0x4 is in no document, and
 * frameworks set it: their default is 0xe.
 */
#define FLAGS_DOCUMENTED \
    (ACL_EVENT_SYNC | ACL_EVENT_CAPTURE_STREAM_PROGRESS | ACL_EVENT_TIME_LINE)
#define FLAG_UNDOCUMENTED 0x4U

/* The abilities of an event with these flags. */
static unsigned event_can(uint32_t flag)
{
    return (flag & ACL_EVENT_TIME_LINE ? AM_EVENT_TIME : 0) |
           (flag & (ACL_EVENT_SYNC | ACL_EVENT_DEVICE_USE_ONLY | ACL_EVENT_EXTERNAL |
                    ACL_EVENT_IPC)
                ? AM_EVENT_SYNC
                : 0) |
           (flag & ACL_EVENT_EXTERNAL ? AM_EVENT_EXTERNAL : 0) |
           (flag & ACL_EVENT_IPC ? AM_EVENT_IPC : 0);
}

/* more: the flags that this function takes and the other one does not. */
static aclError flags_check(uint32_t flag, uint32_t more)
{
    uint32_t known =
        FLAGS_DOCUMENTED | more | (am_setup.is_strict ? 0 : FLAG_UNDOCUMENTED);

    AM_REQUIRE(!am_setup.is_strict || !(flag & FLAG_UNDOCUMENTED),
               ACL_ERROR_INVALID_PARAM,
               "flag is 0x%x; no edition documents 0x4 (ACLMEM_RULES=strict)", flag);
    AM_REQUIRE(
        flag != 0 && (flag & ~known) == 0, ACL_ERROR_INVALID_PARAM,
        "flag is 0x%x; this function takes a combination of 0x1, 0x2%s and 0x8%s", flag,
        am_setup.is_strict ? "" : ", 0x4",
        more & ACL_EVENT_IPC
            ? ", or 0x40; 0x10 and 0x20 are for aclrtCreateEventWithFlag"
            : ", with or without 0x10, or 0x20; 0x40 is for aclrtCreateEventExWithFlag");
    return ACL_SUCCESS;
}

aclError am_aclrtCreateEvent(aclrtEvent *event)
{
    return am_event_create(AM_EVENT_SYNC | AM_EVENT_TIME, event);
}

/*
 * Differs: the documents let streams wait for an event, and reset it, only if it was made
 * with ACL_EVENT_SYNC.  Frameworks do both without it, so under default rules it may be
 * missing.
 */
aclError am_aclrtCreateEventWithFlag(aclrtEvent *event, uint32_t flag)
{
    AM_TRY(flags_check(flag, ACL_EVENT_DEVICE_USE_ONLY | ACL_EVENT_EXTERNAL));
    AM_REQUIRE(!(flag & ACL_EVENT_EXTERNAL) || flag == ACL_EVENT_EXTERNAL,
               ACL_ERROR_INVALID_PARAM, "flag is 0x%x; ACL_EVENT_EXTERNAL stands alone",
               flag);
    return am_event_create(event_can(flag) | (am_setup.is_strict ? 0 : AM_EVENT_SYNC),
                           event);
}

aclError am_aclrtCreateEventExWithFlag(aclrtEvent *event, uint32_t flag)
{
    AM_TRY(flags_check(flag, ACL_EVENT_IPC));
    AM_REQUIRE(!(flag & ACL_EVENT_IPC) || flag == ACL_EVENT_IPC, ACL_ERROR_INVALID_PARAM,
               "flag is 0x%x; ACL_EVENT_IPC stands alone", flag);
    return am_event_create(event_can(flag) | AM_EVENT_EX, event);
}

aclError am_aclrtDestroyEvent(aclrtEvent event)
{
    return am_event_destroy(&am_events, event);
}

/* On a stream that is not captured, EXTERNAL has no effect. */
static aclError external_check(uint32_t flag, struct am_stream *stream)
{
    AM_REQUIRE(flag == 0 || !am_setup.is_strict || am_stream_is_captured(stream),
               ACL_ERROR_RT_PARAM_INVALID,
               "flag is 1 (EXTERNAL), which is for streams that are being captured "
               "(ACLMEM_RULES=strict)");
    return ACL_SUCCESS;
}

aclError am_aclrtRecordEventWithFlag(struct am_event *event, struct am_stream *stream,
                                     uint32_t flag)
{
    AM_TRY(external_check(flag, stream));
    return am_event_record(event, stream, flag != 0);
}

aclError am_aclrtRecordEvent(struct am_event *event, struct am_stream *stream)
{
    return am_aclrtRecordEventWithFlag(event, stream, ACL_EVENT_RECORD_DEFAULT);
}

aclError am_aclrtStreamWaitEventWithFlag(struct am_stream *stream, struct am_event *event,
                                         uint32_t seconds, uint32_t flag)
{
    AM_TRY(external_check(flag, stream));
    return am_event_wait(event, stream, seconds, flag != 0);
}

aclError am_aclrtStreamWaitEvent(struct am_stream *stream, struct am_event *event)
{
    return am_aclrtStreamWaitEventWithFlag(stream, event, 0, ACL_EVENT_WAIT_DEFAULT);
}

aclError am_aclrtStreamWaitEventWithTimeout(struct am_stream *stream,
                                            struct am_event *event, int32_t seconds)
{
    AM_REQUIRE(seconds >= 0, ACL_ERROR_INVALID_PARAM,
               "the timeout is %d s; it takes 0 (for ever) or more", seconds);
    return am_aclrtStreamWaitEventWithFlag(stream, event, (uint32_t)seconds,
                                           ACL_EVENT_WAIT_DEFAULT);
}

aclError am_aclrtSetOpWaitTimeout(uint32_t seconds)
{
    am_event_set_default_wait(seconds);
    return ACL_SUCCESS;
}

/* The old questions are not for extended events. */
static aclError plain_check(const struct am_event *event)
{
    AM_REQUIRE(!(event->can & AM_EVENT_EX), ACL_ERROR_RT_PARAM_INVALID,
               "event %p was made by aclrtCreateEventExWithFlag; use "
               "aclrtQueryEventStatus",
               event->named.handle);
    return ACL_SUCCESS;
}

aclError am_aclrtQueryEvent(struct am_event *event, aclrtEventStatus *status)
{
    bool is_complete;

    AM_TRY(plain_check(event));
    AM_TRY(am_event_query(event, &is_complete));
    *status = is_complete ? ACL_EVENT_STATUS_COMPLETE : ACL_EVENT_STATUS_NOT_READY;
    return ACL_SUCCESS;
}

aclError am_aclrtQueryEventStatus(struct am_event *event,
                                  aclrtEventRecordedStatus *status)
{
    bool is_complete;

    AM_TRY(am_event_query(event, &is_complete));
    *status = is_complete ? ACL_EVENT_RECORDED_STATUS_COMPLETE
                          : ACL_EVENT_RECORDED_STATUS_NOT_READY;
    return ACL_SUCCESS;
}

/*
 * Differs: the documents ask for the waits of streams alone.  Programs ask whether the
 * event's work is done, so under default rules its record must have run, too.
 */
aclError am_aclrtQueryEventWaitStatus(struct am_event *event,
                                      aclrtEventWaitStatus *status)
{
    bool is_over;

    AM_TRY(plain_check(event));
    AM_TRY(am_event_query_waits(event, &is_over));
    *status = is_over ? ACL_EVENT_WAIT_STATUS_COMPLETE : ACL_EVENT_WAIT_STATUS_NOT_READY;
    return ACL_SUCCESS;
}

aclError am_aclrtSynchronizeEvent(struct am_event *event)
{
    return am_aclrtSynchronizeEventWithTimeout(event, -1);
}

aclError am_aclrtEventElapsedTime(float *ms, aclrtEvent start_handle,
                                  aclrtEvent end_handle)
{
    AM_HELD(event, start);
    AM_HELD(event, end);

    AM_TRY(am_event_get(start_handle, &start));
    AM_TRY(am_event_get(end_handle, &end));
    return am_event_elapsed(start, end, ms);
}

aclError am_aclrtGetEventId(struct am_event *event, uint32_t *eventId)
{
    AM_REQUIRE(!(event->can & AM_EVENT_IPC), ACL_ERROR_RT_PARAM_INVALID,
               "event %p was made with ACL_EVENT_IPC; such events have no id",
               event->named.handle);
    *eventId = event->id;
    return ACL_SUCCESS;
}

aclError am_aclrtGetEventAvailNum(uint32_t *eventCount)
{
    AM_GET_CURRENT_DEVICE(device);
    *eventCount = am_event_available(device);
    return ACL_SUCCESS;
}

_Static_assert(sizeof(aclrtIpcEventHandle) < AM_KEY_SIZE, "a key ends with a zero");

aclError am_aclrtIpcGetEventHandle(struct am_event *event, aclrtIpcEventHandle *handle)
{
    char key[AM_KEY_SIZE] = "";
    struct am_share_handle share;

    AM_TRY(am_event_export(event, &share));
    am_key_print(AM_SHARE_EVENT, &share, key);
    memcpy(handle->reserved, key, sizeof handle->reserved);
    return ACL_SUCCESS;
}

aclError am_aclrtIpcOpenEventHandle(aclrtIpcEventHandle handle, aclrtEvent *event)
{
    char key[AM_KEY_SIZE] = "";
    struct am_share_handle share;

    memcpy(key, handle.reserved, sizeof handle.reserved);
    AM_TRY(am_key_parse(AM_SHARE_EVENT, key, &share));
    return am_event_import(AM_SHARE_EVENT, &share, event);
}

/* ---- notifies ---- */

aclError am_aclrtCreateNotify(aclrtNotify *notify, uint64_t flag)
{
    return am_event_create(AM_EVENT_SYNC | AM_EVENT_NOTIFY, notify);
}

aclError am_aclrtDestroyNotify(aclrtNotify notify)
{
    return am_event_destroy(&am_notifies, notify);
}

aclError am_aclrtRecordNotify(struct am_event *notify, struct am_stream *stream)
{
    return am_event_record(notify, stream, false);
}

aclError am_aclrtGetNotifyId(struct am_event *notify, uint32_t *notifyId)
{
    *notifyId = notify->id;
    return ACL_SUCCESS;
}

/* All handles are checked before the first notify is cleared. */
aclError am_aclrtNotifyBatchReset(aclrtNotify *notifies, size_t num)
{
    struct am_event *notify;

    for (int pass = 0; pass < 2; pass++) {
        for (size_t i = 0; i < num; i++) {
            AM_TRY(am_notify_get(notifies[i], &notify));
            if (pass == 1)
                am_notify_clear(notify);
            am_event_put(notify);
        }
    }
    return ACL_SUCCESS;
}

aclError am_aclrtNotifyGetExportKey(struct am_event *notify, char *key, size_t len,
                                    uint64_t flags)
{
    struct am_share_handle share;

    AM_REQUIRE(len >= AM_KEY_SIZE, ACL_ERROR_INVALID_PARAM,
               "len is %zu; it takes %d or more", len, AM_KEY_SIZE);
    AM_REQUIRE((flags & ~ACL_RT_NOTIFY_EXPORT_FLAG_DISABLE_PID_VALIDATION) == 0,
               ACL_ERROR_INVALID_PARAM,
               "flags is 0x%" PRIx64
               "; it takes 0, or 2 to let any process of this user import",
               flags);
    AM_TRY(am_notify_export(notify, flags != 0, &share));
    am_key_print(AM_SHARE_NOTIFY, &share, key);
    return ACL_SUCCESS;
}

aclError am_aclrtNotifySetImportPid(struct am_event *notify, int32_t *pid, size_t num)
{
    return am_notify_trust(notify, pid, num);
}

aclError am_aclrtNotifyImportByKey(aclrtNotify *notify, const char *key, uint64_t flags)
{
    struct am_share_handle share;

    AM_REQUIRE((flags & ~ACL_RT_NOTIFY_IMPORT_FLAG_ENABLE_PEER_ACCESS) == 0,
               ACL_ERROR_INVALID_PARAM, "flags is 0x%" PRIx64 "; it takes 0 or 2", flags);
    AM_TRY(am_key_parse(AM_SHARE_NOTIFY, key, &share));
    return am_event_import(AM_SHARE_NOTIFY, &share, notify);
}
