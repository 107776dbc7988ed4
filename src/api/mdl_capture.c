/*
 * Captured models.  No stream is captured here: the calls that begin or run a capture
 * refuse (api_unsupported.def).  These two are asked by programs that capture nothing,
 * and answer as a device does on which nothing is captured.
 */
#include "api/api.h"
#include "api/check.h"
#include "api/held.h"
#include "base/error.h"
#include "core/stream/stream.h"

static _Thread_local aclmdlRICaptureMode capture_mode; /* GLOBAL at first */

aclError am_aclmdlRICaptureGetInfo(aclrtStream handle, aclmdlRICaptureStatus *status,
                                   aclmdlRI *modelRI)
{
    AM_REQUIRE_NONNULL(status, modelRI);
    AM_GET(stream, handle);
    *status = ACL_MODEL_RI_CAPTURE_STATUS_NONE;
    *modelRI = NULL;
    return ACL_SUCCESS;
}

aclError am_aclmdlRICaptureThreadExchangeMode(aclmdlRICaptureMode *mode)
{
    aclmdlRICaptureMode before = capture_mode;

    AM_REQUIRE_NONNULL(mode);
    AM_REQUIRE((unsigned)*mode <= ACL_MODEL_RI_CAPTURE_MODE_RELAXED,
               ACL_ERROR_INVALID_PARAM, "*mode is %d; it takes 0 to 2", (int)*mode);
    capture_mode = *mode;
    *mode = before;
    return ACL_SUCCESS;
}
