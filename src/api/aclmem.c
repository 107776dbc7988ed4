/* What aclmem adds to AscendCL: include/aclmem/aclmem.h.  Not in the table: layers do not see it. */
#include "aclmem/aclmem.h"

#include "api/api.h"
#include "base/error.h"
#include "base/log.h"
#include "base/options.h"
#include "core/context.h"
#include "core/phys.h"
#include "core/runtime.h"

#define EXPORT __attribute__((visibility("default")))

/* These calls have no slot in the tables, so the state that a table stands for is looked at. */
static aclError state_check(const char *function)
{
    const struct am_api *top = am_api_top;

    am_error_function = function;
    if (top == &am_api_forked)
        return am_refuse_forked(function);
    return top == &am_api_down ? am_refuse_down(function) : am_boot(function);
}

EXPORT aclError aclmem_host_view(const void *devPtr, size_t size, void **hostPtr)
{
    aclError rc = state_check(__func__);

    if (rc != ACL_SUCCESS)
        return rc;
    AM_REQUIRE(devPtr != NULL, ACL_ERROR_INVALID_PARAM, "devPtr is NULL");
    AM_REQUIRE(size > 0, ACL_ERROR_INVALID_PARAM, "size is 0");
    AM_REQUIRE(hostPtr != NULL, ACL_ERROR_INVALID_PARAM, "hostPtr is NULL");
    return am_view_open(&am_rt.views, devPtr, size, hostPtr);
}

/* Works after aclFinalize too: a view outlives what it shows. */
EXPORT aclError aclmem_host_view_end(void *hostPtr)
{
    am_error_function = __func__;
    if (am_api_top == &am_api_forked)
        return am_refuse_forked(__func__);
    AM_REQUIRE(hostPtr != NULL, ACL_ERROR_INVALID_PARAM, "hostPtr is NULL");
    return am_view_close(&am_rt.views, hostPtr);
}

EXPORT aclError aclmem_get_stats(aclmem_stats *stats)
{
    am_error_function = __func__;
    AM_REQUIRE(stats != NULL, ACL_ERROR_INVALID_PARAM, "stats is NULL");
    *stats = (aclmem_stats){
        .reservations = am_rt.vspace.n_reservations,
        .handles = am_phys_count(),
        .mappings = am_rt.vspace.n_mappings,
        .contexts = am_context_count(),
        .views = am_rt.views.n,
        .warnings = am_log_warnings(),
    };
    return ACL_SUCCESS;
}

EXPORT const char *aclmem_option(const char *name)
{
    return name != NULL ? am_option_text_by_name(name) : NULL;
}

EXPORT const char *aclmem_version(void)
{
    return AM_VERSION;
}
