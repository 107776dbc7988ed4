/* See plan.h. */
#include "core/device/plan.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"
#include "base/machine.h"
#include "base/options.h"
#include "base/util.h"
#include "core/device/device.h"
#include "core/device/setup.h"

#define CAPACITY_MAX \
    (64 * AM_TIB) /* each device's memory is mapped whole, and there are 128 TB */

int32_t am_plan_visible(const char *text, int32_t n_all, int32_t *ret_ids)
{
    int32_t n = 0;
    long last = -1;

    while (isdigit((unsigned char)*text)) {
        char *end;
        long id = strtol(text, &end, 10);

        if (id <= last || id >= n_all || (*end != ',' && *end != '\0'))
            break;
        ret_ids[n++] = (int32_t)id;
        last = id;
        if (*end == '\0')
            return n;
        text = end + 1;
    }
    if (*text == '\0' && n == 0)
        am_log(AM_LOG_WARN,
               "ASCEND_RT_VISIBLE_DEVICES is empty, so no device is visible");
    else
        am_log(AM_LOG_WARN,
               "ASCEND_RT_VISIBLE_DEVICES is read up to \"%.32s\", so %d of %d devices "
               "are visible; it takes ids from 0 to %d, ascending, separated by commas "
               "without blanks",
               text, n, n_all, n_all - 1);
    return n;
}

/* ACLMEM_MEMORY, or `otherwise` where it is not given; whole chunks. */
static size_t capacity_asked(size_t otherwise)
{
    size_t size = (size_t)am_option_number(AM_OPTION_memory);

    if (size == 0)
        size = otherwise;
    size &= ~(AM_CHUNK - 1);
    return size > 0 ? size : AM_CHUNK;
}

aclError am_plan_make(struct am_plan *plan)
{
    bool is_real = (am_setup.backend->caps & AM_CAP_DEVICES) != 0;

    plan->memory = am_machine_memory((size_t)sysconf(_SC_PHYS_PAGES) *
                                     (size_t)sysconf(_SC_PAGESIZE));
    plan->n_real = is_real ? am_setup.backend->device_count() : 0;
    plan->n_all = is_real && !am_option_is_set(AM_OPTION_devices)
                      ? plan->n_real
                      : (int32_t)am_option_number(AM_OPTION_devices);
    if (plan->n_all > AM_DEVICES_MAX)
        plan->n_all = AM_DEVICES_MAX;
    plan->capacity =
        capacity_asked(is_real ? SIZE_MAX : plan->memory / 2 / (size_t)plan->n_all);
    AM_REQUIRE(
        capacity_asked(AM_CHUNK) <= CAPACITY_MAX &&
            (is_real || plan->capacity <= CAPACITY_MAX / (size_t)plan->n_all),
        ACL_ERROR_INVALID_PARAM,
        "ACLMEM_MEMORY is %s and there are %d devices; together they have at most 64T",
        am_option_text(AM_OPTION_memory), plan->n_all);
    return ACL_SUCCESS;
}

size_t am_plan_capacity(const struct am_plan *plan, const struct am_device_info *info)
{
    size_t n_sharing = (size_t)((plan->n_all + plan->n_real - 1) / plan->n_real);
    size_t real = info->capacity / n_sharing & ~(AM_CHUNK - 1);

    return plan->capacity < real ? plan->capacity : real;
}

/* Processes that see the same real devices, in the same order, count them together. */
static uint64_t identity_add(uint64_t identity, const struct am_device_info *info)
{
    for (size_t i = 0; i < sizeof info->uuid; i++)
        identity = (identity ^ info->uuid[i]) * UINT64_C(0x100000001b3); /* FNV-1a */
    return identity;
}

aclError am_plan_config(const struct am_plan *plan, struct am_ledger_config *ret_config)
{
    struct am_ledger_config config = {.n_devices = plan->n_all};
    struct am_device_info info;

    snprintf(config.backend, sizeof config.backend, "%s", am_setup.backend->name);
    snprintf(config.product, sizeof config.product, "%s", am_setup.product->name);
    for (int32_t i = 0; i < plan->n_all; i++) {
        config.capacity[i] = plan->capacity;
        if (plan->n_real > 0) {
            AM_TRY(am_setup.backend->device_info(i, &info));
            config.capacity[i] = am_plan_capacity(plan, &info);
            config.identity = identity_add(config.identity, &info);
        }
    }
    *ret_config = config;
    return ACL_SUCCESS;
}
