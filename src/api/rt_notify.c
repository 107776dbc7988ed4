/* Notifies. */
#include <inttypes.h>

#include "api/api.h"
#include "api/check.h"
#include "api/held.h"
#include "base/error.h"
#include "core/ipc/key.h"
#include "core/stream/event.h"

#define NOTIFY_GET(handle_) \
    AM_HELD(event, notify); \
    AM_TRY(am_notify_get(handle_, &notify))

aclError am_aclrtCreateNotify(aclrtNotify *notify, uint64_t flag)
{
    AM_REQUIRE_NONNULL(notify);
    AM_REQUIRE_ZERO(flag);
    return am_notify_create(notify);
}

aclError am_aclrtDestroyNotify(aclrtNotify notify)
{
    return am_event_destroy(&am_notifies, notify);
}

aclError am_aclrtRecordNotify(aclrtNotify notify_handle, aclrtStream stream_handle)
{
    NOTIFY_GET(notify_handle);
    AM_GET(stream, stream_handle);
    return am_event_record(notify, stream);
}

aclError am_aclrtWaitAndResetNotify(aclrtNotify notify_handle, aclrtStream stream_handle,
                                    uint32_t timeout)
{
    NOTIFY_GET(notify_handle);
    AM_GET(stream, stream_handle);
    return am_notify_wait(notify, stream, timeout);
}

aclError am_aclrtGetNotifyId(aclrtNotify handle, uint32_t *notifyId)
{
    AM_REQUIRE_NONNULL(notifyId);
    NOTIFY_GET(handle);
    *notifyId = notify->id;
    return ACL_SUCCESS;
}

/* All handles are checked before the first notify is cleared. */
aclError am_aclrtNotifyBatchReset(aclrtNotify *notifies, size_t num)
{
    struct am_event *notify;

    AM_REQUIRE_RANGE(notifies, num);
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

aclError am_aclrtNotifyGetExportKey(aclrtNotify handle, char *key, size_t len,
                                    uint64_t flags)
{
    struct am_share_handle share;

    AM_REQUIRE_NONNULL(key);
    AM_REQUIRE(len >= AM_KEY_SIZE, ACL_ERROR_INVALID_PARAM,
               "len is %zu; it takes %d or more", len, AM_KEY_SIZE);
    AM_REQUIRE((flags & ~ACL_RT_NOTIFY_EXPORT_FLAG_DISABLE_PID_VALIDATION) == 0,
               ACL_ERROR_INVALID_PARAM,
               "flags is 0x%" PRIx64
               "; it takes 0, or 2 to let any process of this user import",
               flags);
    NOTIFY_GET(handle);
    AM_TRY(am_notify_export(notify, flags != 0, &share));
    am_key_print(AM_SHARE_NOTIFY, &share, key);
    return ACL_SUCCESS;
}

aclError am_aclrtNotifySetImportPid(aclrtNotify handle, int32_t *pid, size_t num)
{
    AM_REQUIRE_RANGE(pid, num);
    NOTIFY_GET(handle);
    return am_notify_trust(notify, pid, num);
}

aclError am_aclrtNotifyImportByKey(aclrtNotify *notify, const char *key, uint64_t flags)
{
    struct am_share_handle share;

    AM_REQUIRE_NONNULL(notify, key);
    AM_REQUIRE((flags & ~ACL_RT_NOTIFY_IMPORT_FLAG_ENABLE_PEER_ACCESS) == 0,
               ACL_ERROR_INVALID_PARAM, "flags is 0x%" PRIx64 "; it takes 0 or 2", flags);
    AM_TRY(am_key_parse(AM_SHARE_NOTIFY, key, &share));
    return am_notify_import(&share, notify);
}
