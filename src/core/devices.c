/* See devices.h. */
#include "core/devices.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/epoch.h"
#include "base/error.h"
#include "base/log.h"
#include "base/machine.h"
#include "base/options.h"
#include "base/util.h"
#include "core/device/context.h"
#include "core/device/device.h"
#include "core/device/setup.h"
#include "core/heap/heap.h"
#include "core/ipc/key.h"
#include "core/pool/mempool.h"
#include "core/stream/capture.h"
#include "core/stream/event.h"
#include "core/stream/stream.h"
#include "core/vmm/phys.h"

/* ---- the plan of the devices ---- */

#define CAPACITY_MAX \
    (64 * AM_TIB) /* each device's memory is mapped whole, and there are 128 TB */

/*
 * How many devices there are and how much memory each has, by the options, the machine and, if the
 * devices of the backend are real, by those.
 */
struct plan {
    int32_t n_all;
    size_t memory;   /* of the machine */
    size_t capacity; /* of each device; real ones may have less */
    int32_t n_real;  /* 0: devices are emulated */
};

/*
 * The driver ids in ASCEND_RT_VISIBLE_DEVICES: a comma list, ascending, without blanks.
 * Reading stops at the first item that is not one.  Returns how many there are.
 */
static int32_t visible_parse(const char *text, int32_t n_all, int32_t *ret_ids)
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

static aclError plan_make(struct plan *plan)
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

/*
 * The memory of a real device, ACLMEM_MEMORY being the most that is used of it.  A real
 * device that is several of ours is divided among them.
 */
static size_t plan_capacity(const struct plan *plan, const struct am_device_info *info)
{
    size_t n_sharing = (size_t)((plan->n_all + plan->n_real - 1) / plan->n_real);
    size_t real = info->capacity / n_sharing & ~(AM_CHUNK - 1);

    return plan->capacity < real ? plan->capacity : real;
}

/* The configuration by which processes find the same ledger. */
static aclError plan_config(const struct plan *plan, struct am_ledger_config *ret_config)
{
    struct am_ledger_config config = {.n_devices = plan->n_all};
    struct am_device_info info;

    snprintf(config.backend, sizeof config.backend, "%s", am_setup.backend->name);
    snprintf(config.product, sizeof config.product, "%s", am_setup.product->name);
    for (int32_t i = 0; i < plan->n_all; i++) {
        config.capacity[i] = plan->capacity;
        if (plan->n_real > 0) {
            AM_TRY(am_setup.backend->device_info(i, &info));
            config.capacity[i] = plan_capacity(plan, &info);
            /* Processes with the same real devices, in one order, count them together. */
            config.identity = am_hash_add(config.identity, info.uuid, sizeof info.uuid);
        }
    }
    *ret_config = config;
    return ACL_SUCCESS;
}

/* ---- opening ---- */

static aclError device_inspect(struct am_device *device, const struct plan *plan,
                               size_t *ret_capacity)
{
    struct am_device_info info = {0};

    AM_TRY(am_setup.backend->device_info(device->driver_id, &info));
    am_lock(&am_devices.lock);
    device->info = info;
    am_unlock(&am_devices.lock);
    *ret_capacity = plan_capacity(plan, &info);
    am_log(AM_LOG_INFO, "device %d: %s at %s, %zu MB of %zu", device->id, info.name,
           info.bus_id, *ret_capacity / AM_MIB, info.capacity / AM_MIB);
    return ACL_SUCCESS;
}

static aclError device_open(struct am_device *device, int32_t id, int32_t driver_id,
                            const struct plan *plan)
{
    size_t capacity = plan->capacity;
    struct am_domain *domain;

    device->id = id;
    device->driver_id = driver_id;
    if (plan->n_real > 0)
        AM_TRY(device_inspect(device, plan, &capacity));
    AM_TRY(am_domain_create(id, driver_id, capacity, am_devices.ledger, &domain));
    am_lock(&am_devices.lock); /* a call may have found it before the library stopped */
    device->n_set = 0;
    device->primary = NULL;
    am_unlock(&am_devices.lock);
    device->domain = domain;
    am_heap_open(domain);
    device->peers = 0;
    am_settings_reset(&device->limits);
    am_settings_reset(&device->sat_mode);
    return ACL_SUCCESS;
}

aclError am_devices_config(struct am_ledger_config *ret_config)
{
    struct plan plan;

    AM_TRY(plan_make(&plan));
    return plan_config(&plan, ret_config);
}

aclError am_devices_open(struct am_devices *devices)
{
    const char *visible = secure_getenv("ASCEND_RT_VISIBLE_DEVICES");
    int32_t ids[AM_DEVICES_MAX];
    struct am_ledger_config config;
    struct am_domain *domain;
    struct plan plan;
    int32_t n;
    aclError rc;

    AM_TRY(plan_make(&plan));
    n = plan.n_all;
    for (int32_t i = 0; i < n; i++)
        ids[i] = i;
    if (visible != NULL)
        n = visible_parse(visible, n, ids);

    devices->n_all = plan.n_all;
    AM_TRY(plan_config(&plan, &config));
    AM_TRY(am_ledger_open(&config, &devices->ledger));
    rc = am_domain_create(-1, -1, (plan.memory / 4) & ~(AM_CHUNK - 1), NULL, &domain);
    if (rc == ACL_SUCCESS) {
        devices->host = domain;
        am_heap_open(domain);
    }
    for (int32_t i = 0; i < n && rc == ACL_SUCCESS; i++) {
        rc = device_open(&devices->device[i], i, ids[i], &plan);
        if (rc == ACL_SUCCESS)
            devices->n = i + 1;
    }
    if (rc != ACL_SUCCESS)
        am_devices_close(devices);
    return rc;
}

static void domain_close(_Atomic(struct am_domain *) *slot)
{
    struct am_domain *domain = atomic_exchange(slot, NULL);

    if (domain == NULL)
        return;
    am_domain_close(domain);
    am_heap_kill(domain, true);
    am_epoch_synchronize(); /* no section enters memory or has found it without a reference */
    am_phys_kill_all(domain);
    am_ledger_unuse(domain->ledger, domain->column);
    am_domain_put(domain);
}

/* Streams first, with what they have to do, then events and notifies. */
static void device_end_work(struct am_device *device, bool wait)
{
    am_stream_kill_all(device->id, NULL, wait);
    am_model_destroy_all(device->id);
    am_pool_kill_all(device->id);
    am_event_destroy_all(&am_events, device->id);
    am_event_destroy_all(&am_notifies, device->id);
}

/*
 * Ends everything on the device except its memory.  False: it was set again while its work
 * ended, and is_stop is false.
 */
static bool device_end(struct am_device *device, bool wait, bool is_stop)
{
    bool has_ended;

    device_end_work(device, wait);
    am_lock(&am_devices.lock);
    has_ended = is_stop || device->n_set == 0;
    if (has_ended) {
        device->n_set = 0;
        device->primary = NULL;
        device->peers = 0;
        am_context_kill_all_locked(device->id);
    }
    am_unlock(&am_devices.lock);
    if (!has_ended)
        return false;
    /* Objects that other threads made before the contexts ended. */
    device_end_work(device, false);
    am_key_close_imports(device->id);
    return true;
}

void am_devices_end(struct am_devices *devices)
{
    for (int32_t i = 0; i < devices->n; i++)
        (void)device_end(&devices->device[i], true, true);
}

void am_devices_close(struct am_devices *devices)
{
    for (int32_t i = 0; i < devices->n; i++)
        domain_close(&devices->device[i].domain);
    domain_close(&devices->host);
    devices->n = 0;
    am_ledger_put(devices->ledger);
    devices->ledger = NULL;
}

static bool domain_is_idle(struct am_domain *domain)
{
    return domain == NULL || am_domain_in_use(domain) == 0;
}

bool am_devices_are_idle(struct am_devices *devices)
{
    bool is_idle = domain_is_idle(devices->host);

    for (int32_t i = 0; i < devices->n && is_idle; i++)
        is_idle = domain_is_idle(devices->device[i].domain) &&
                  !am_device_is_active(&devices->device[i]);
    return is_idle && am_context_count() == 0;
}

/* Drops one user, or all; returns whether none is left, and fails when there was none. */
static aclError device_leave(struct am_device *device, bool is_forced, bool *ret_is_last)
{
    bool was_set;
    aclError rc = ACL_SUCCESS;

    am_lock(&am_devices.lock);
    was_set = device->n_set > 0;
    *ret_is_last = is_forced || device->n_set <= 1;
    if (was_set && *ret_is_last)
        rc = am_stream_check_all(device->id, NULL);
    if (was_set && rc == ACL_SUCCESS)
        device->n_set = is_forced ? 0 : device->n_set - 1;
    am_unlock(&am_devices.lock);
    if (rc != ACL_SUCCESS)
        return rc;
    AM_REQUIRE(was_set, ACL_ERROR_RT_PARAM_INVALID,
               "device %d is not set; aclrtResetDevice may be called once for each "
               "aclrtSetDevice",
               device->id);
    return ACL_SUCCESS;
}

aclError am_device_reset(struct am_device *device, bool is_forced)
{
    struct am_domain *domain;
    bool is_last;
    aclError rc = device_leave(device, is_forced, &is_last);

    if (rc != ACL_SUCCESS || !is_last || !device_end(device, !is_forced, false))
        return rc;
    domain = device->domain;
    if (domain != NULL)
        am_heap_kill(domain, false);
    am_phys_kill_all(domain);
    am_lock(&am_devices.lock);
    if (domain != NULL && device->n_set == 0 && device->primary == NULL)
        am_ledger_unuse(domain->ledger, domain->column);
    am_unlock(&am_devices.lock);
    return ACL_SUCCESS;
}

aclError am_context_destroy(struct am_context *context)
{
    if (!context->is_primary) {
        AM_TRY(am_stream_check_all(context->device, context));
        am_stream_kill_all(context->device, context, true);
    }
    AM_TRY(am_context_kill(context));
    /* Other threads may have made some streams since. */
    am_stream_kill_all(context->device, context, false);
    am_pool_synced(context->device, -1);
    return ACL_SUCCESS;
}

aclError am_sync_stream(struct am_stream *stream, int32_t timeout_ms)
{
    bool is_synced;
    aclError rc = am_stream_sync(stream, timeout_ms, &is_synced);

    if (is_synced)
        am_pool_synced(stream->device, stream->id);
    return rc;
}

aclError am_sync_device(int32_t device, int32_t timeout_ms)
{
    bool are_synced;
    aclError rc = am_stream_sync_device(device, timeout_ms, &are_synced);

    if (are_synced)
        am_pool_synced(device, -1);
    return rc;
}

aclError am_end_stream(struct am_stream *stream, bool is_forced)
{
    AM_TRY(am_stream_destroy(stream, is_forced));
    am_pool_synced(stream->device, stream->id);
    return ACL_SUCCESS;
}
