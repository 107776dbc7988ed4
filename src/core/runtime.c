/* See runtime.h. */
#include "core/runtime.h"

#include <errno.h>

#include "acl/error_codes/rt_error_codes.h"
#include "base/config.h"
#include "base/error.h"
#include "base/log.h"
#include "base/options.h"

struct am_runtime am_rt = {
    .lock = AM_LOCK_INIT(AM_RANK_RUNTIME, "runtime"),
    .default_device = -1,
    .devices.lock = AM_LOCK_INIT(AM_RANK_DEVICE, "devices"),
    .vspace = AM_VSPACE_INIT,
    .views = AM_VIEWS_INIT,
    .ids = AM_IDMAP_INIT("handles"),
};

/* What am_config_read() returned, as a code. */
static aclError config_error(int error, const char *why)
{
    switch (error) {
    case ENOENT:
        return am_fail(ACL_ERROR_INVALID_FILE, "%s", why);
    case EFBIG:
        return am_fail(ACL_ERROR_INVALID_FILE_SIZE, "%s", why);
    case EILSEQ:
        return am_fail(ACL_ERROR_PARSE_FILE, "%s", why);
    case ENOMEM:
        return am_fail(ACL_ERROR_BAD_ALLOC, "%s", why);
    default:
        return am_fail(ACL_ERROR_FILE_ATTR_INVALID, "%s", why);
    }
}

static void unknown_options_warn(void)
{
    const char *nearest;
    const char *name;
    size_t pos = 0;

    while ((name = am_options_next_unknown(&pos, &nearest)) != NULL)
        am_log(AM_LOG_WARN, "%s is set but is no option; did you mean %s?", name,
               nearest);
}

/* Options, file and environment into am_rt. */
static aclError runtime_configure(const char *config_path, struct am_config *config)
{
    const struct am_product *product;
    char why[AM_WHY_SIZE];
    int rc;

    am_options_reset();
    rc = am_config_read(config_path, config, why);
    if (rc != 0)
        return config_error(-rc, why);
    AM_REQUIRE(am_options_read_environment(why) == 0, ACL_ERROR_INVALID_PARAM, "%s", why);

    am_log_set_level((enum am_log_level)am_option_number(AM_OPTION_log));
    product = am_product_find(am_option_text(AM_OPTION_product));
    AM_REQUIRE(product != NULL, ACL_ERROR_INVALID_PARAM,
               "ACLMEM_PRODUCT is \"%s\"; it takes %s", am_option_text(AM_OPTION_product),
               am_product_names());
    am_rt.product = product;
    am_rt.backend = am_backend_find(am_option_text(AM_OPTION_backend));
    am_assert(am_rt.backend != NULL); /* the option's choices are the backends */
    am_rt.is_strict = am_option_number(AM_OPTION_rules) != 0;
    unknown_options_warn();
    return ACL_SUCCESS;
}

aclError am_runtime_start_locked(const char *config_path)
{
    struct am_config config;
    aclError rc = runtime_configure(config_path, &config);

    if (rc != ACL_SUCCESS)
        return rc;
    rc = am_devices_open(&am_rt.devices);
    if (rc != ACL_SUCCESS)
        return rc;
    if (config.default_device >= am_rt.devices.n) {
        rc = am_fail(ACL_ERROR_FILE_ATTR_INVALID,
                     "defaultDevice.default_device is %d but there are %d devices",
                     config.default_device, am_rt.devices.n);
        am_devices_close(&am_rt.devices);
        return rc;
    }
    am_rt.default_device = config.default_device;
    am_error_share_messages(config.share_messages);
    am_rt.is_up = true;
    am_log(AM_LOG_INFO, "%s, %d devices, %s rules", am_rt.product->title,
           (int)am_rt.devices.n, am_rt.is_strict ? "strict" : "default");
    return ACL_SUCCESS;
}

void am_runtime_stop_locked(void)
{
    am_rt.is_up = false;
    am_rt.default_device = -1;
    am_devices_close(&am_rt.devices);
    am_vspace_release_all(&am_rt.vspace);
}
