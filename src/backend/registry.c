/* The list of backends. */
#include <strings.h>

#include "backend/backend.h"
#include "base/error.h"
#include "base/util.h"

extern const struct am_backend_ops am_backend_host;
extern const struct am_backend_ops am_backend_cuda;

static const struct am_backend_ops *const backends[] = {
    &am_backend_host,
    &am_backend_cuda,
};

static bool ops_are_whole(const struct am_backend_ops *ops)
{
    bool has_view = ops->view_open != NULL && ops->view_close != NULL;
    bool has_devices = ops->device_count != NULL && ops->device_info != NULL &&
                       ops->device_can_reach != NULL && ops->device_choose != NULL &&
                       ops->bank_free != NULL;
    bool has_share = ops->mem_export != NULL && ops->mem_import != NULL;
    bool has_lanes = ops->lane_open && ops->lane_close && ops->lane_copy &&
                     ops->lane_fill && ops->lane_mark && ops->lane_wait &&
                     ops->lane_poll && ops->lane_sync && ops->mark_time &&
                     ops->mark_sync && ops->mark_ref && ops->mark_put && ops->block &&
                     ops->unblock;
    bool has_core = ops->bank_open && ops->bank_close && ops->mem_create &&
                    ops->mem_destroy && ops->reserve && ops->reserve_own &&
                    ops->release && ops->map && ops->protect && ops->unmap && ops->pin &&
                    ops->unpin && ops->copy && ops->fill;

    return has_core && has_view == ((ops->caps & AM_CAP_HOST_VIEW) != 0) &&
           has_lanes == ((ops->caps & AM_CAP_LANES) != 0) &&
           has_devices == ((ops->caps & AM_CAP_DEVICES) != 0) &&
           has_share == ((ops->caps & AM_CAP_SHARE) != 0);
}

const struct am_backend_ops *am_backend_find(const char *name)
{
    for (size_t i = 0; i < AM_ARRAY_SIZE(backends); i++) {
        if (strcasecmp(backends[i]->name, name) == 0) {
            am_assert(ops_are_whole(backends[i]));
            return backends[i];
        }
    }
    return NULL;
}
