/*
 * The additions of aclmem to AscendCL: include/aclmem/aclmem.h.  Not in the table:
 * layers do not see it.
 */
#include "aclmem/aclmem.h"

#include "api/api.h"
#include "api/check.h"
#include "base/epoch.h"
#include "base/error.h"
#include "base/log.h"
#include "base/options.h"
#include "core/copy/view.h"
#include "core/device/context.h"
#include "core/heap/heap.h"
#include "core/runtime.h"
#include "core/vmm/phys.h"
#include "core/vmm/vspace.h"
#include "layer/layers.h"

#define EXPORT __attribute__((visibility("default")))

EXPORT aclError aclmem_host_view(const void *devPtr, size_t size, void **hostPtr)
{
    AM_READ_SECTION;

    AM_TRY(am_state_check(__func__)); /* not in the tables, so it asks */
    AM_REQUIRE_NONNULL(devPtr);
    AM_REQUIRE_NONZERO(size);
    AM_REQUIRE_NONNULL(hostPtr);
    AM_TRY(am_view_open(devPtr, size, hostPtr));
    am_check_view(devPtr, size);
    return ACL_SUCCESS;
}

/* Works after aclFinalize too: a view outlives what it shows. */
EXPORT aclError aclmem_host_view_end(void *hostPtr)
{
    AM_READ_SECTION;

    am_error_function = __func__;
    if (am_api_top == &am_api_forked)
        return am_refuse_forked(__func__);
    AM_REQUIRE_NONNULL(hostPtr);
    return am_view_close(hostPtr);
}

EXPORT aclError aclmem_get_stats(aclmem_stats *stats)
{
    AM_READ_SECTION;
    struct am_phys_sums sums;

    am_error_function = __func__;
    AM_REQUIRE_NONNULL(stats);
    am_check_settle();
    sums = am_phys_sum();
    *stats = (aclmem_stats){
        .reservations = am_vspace.n_reservations,
        .handles = sums.n_physes,
        .mappings = sums.n_mappings,
        .contexts = am_context_count(),
        .views = am_view_count(),
        .warnings = am_log_warnings(),
        .blocks = am_heap_count(AM_HEAP_DEVICE, NULL),
        .host_blocks = am_heap_count(AM_HEAP_HOST, NULL),
    };
    return ACL_SUCCESS;
}

EXPORT const char *aclmem_option(const char *name)
{
    const char *text;

    if (!am_runtime_lock())
        return NULL;
    text = name != NULL ? am_option_give(name) : NULL;
    am_unlock(&am_rt.lock);
    return text;
}

EXPORT const char *aclmem_version(void)
{
    return AM_VERSION;
}

EXPORT int aclmem_wants_callers(void)
{
    return am_callers_are_wanted;
}

EXPORT void aclmem_set_callers(const char *frames)
{
    am_callers_set(frames);
}

/* Before the library is up the layer may yet be turned on. */
aclError am_check_state(const char *function)
{
    const struct am_api *top = am_api_top;

    am_error_function = function;
    if (top == &am_api_forked)
        return am_refuse_forked(function);
    AM_REQUIRE(am_check_is_on() || top == &am_api_boot || top == &am_api_down,
               ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
               "the layer check is not on; set ACLMEM_LAYERS=check before the library "
               "starts");
    return ACL_SUCCESS;
}
