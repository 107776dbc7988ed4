/* See device.h. */
#include "core/device.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "base/machine.h"
#include "base/options.h"
#include "base/util.h"
#include "core/context.h"
#include "core/event.h"
#include "core/heap.h"
#include "core/mempool.h"
#include "core/phys.h"
#include "core/runtime.h"
#include "core/stream.h"

#define CAPACITY_MAX \
    (64 * AM_TIB) /* each device's memory is mapped whole, and there are 128 TB */

/*
 * The visible devices' driver ids: a comma list, ascending, no blanks; reading stops at
 * the first item that is not one.  Returns how many there are.
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
        am_log(
            AM_LOG_WARN,
            "ASCEND_RT_VISIBLE_DEVICES is read up to \"%.32s\", so %d of %d devices are "
            "visible; it takes ids from 0 to %d, ascending, with commas and no blanks",
            text, n, n_all, n_all - 1);
    return n;
}

static size_t capacity_of_each(size_t memory, int32_t n_all)
{
    size_t size = (size_t)am_option_number(AM_OPTION_memory);

    if (size == 0)
        size = memory / 2 / (size_t)n_all;
    size &= ~(AM_CHUNK - 1);
    return size > 0 ? size : AM_CHUNK;
}

aclError am_devices_open(struct am_devices *devices)
{
    int32_t n_all = (int32_t)am_option_number(AM_OPTION_devices);
    const char *visible = secure_getenv("ASCEND_RT_VISIBLE_DEVICES");
    size_t memory = am_machine_memory();
    size_t capacity = capacity_of_each(memory, n_all);
    int32_t ids[AM_DEVICES_MAX];
    int32_t n = n_all;
    struct am_place *place;
    aclError rc;

    AM_REQUIRE(
        capacity <= CAPACITY_MAX / (size_t)n_all, ACL_ERROR_INVALID_PARAM,
        "ACLMEM_MEMORY is %s and there are %d devices; all together have at most 64T",
        am_option_text(AM_OPTION_memory), n_all);
    for (int32_t i = 0; i < n_all; i++)
        ids[i] = i;
    if (visible != NULL)
        n = visible_parse(visible, n_all, ids);

    devices->n_all = n_all;
    rc = am_place_create(-1, (memory / 4) & ~(AM_CHUNK - 1), false, &place);
    if (rc != ACL_SUCCESS)
        return rc;
    devices->host = place;
    am_heap_open(place);
    for (int32_t i = 0; i < n; i++) {
        struct am_device *device = &devices->device[i];

        rc = am_place_create(i, capacity, capacity > memory / 2 / (size_t)n_all, &place);
        if (rc != ACL_SUCCESS) {
            am_devices_close(devices);
            return rc;
        }
        device->id = i;
        device->driver_id = ids[i];
        device->n_set = 0;
        device->primary = NULL;
        device->place = place;
        am_heap_open(place);
        device->peers = 0;
        devices->n = i + 1;
    }
    return ACL_SUCCESS;
}

static void place_close(_Atomic(struct am_place *) *slot)
{
    struct am_place *place = atomic_exchange(slot, NULL);

    if (place == NULL)
        return;
    am_place_close(place);
    am_heap_close(place);
    am_phys_kill_all(place);
    am_place_put(place);
}

/* Streams first, with what they have to do, then events and notifies. */
static void device_end_work(struct am_device *device, bool wait)
{
    am_stream_kill_all(device->id, NULL, wait);
    am_pool_kill_all(device->id);
    am_event_kill_all(device->id);
    am_notify_kill_all(device->id);
}

static void device_close(struct am_device *device)
{
    device_end_work(device, true);
    am_lock(&am_rt.devices.lock);
    device->n_set = 0;
    device->primary = NULL;
    am_context_kill_all_locked(device->id);
    am_unlock(&am_rt.devices.lock);
    device_end_work(device, false); /* what other threads made until the contexts died */
    place_close(&device->place);
}

void am_devices_close(struct am_devices *devices)
{
    for (int32_t i = 0; i < devices->n; i++)
        device_close(&devices->device[i]);
    place_close(&devices->host);
    devices->n = 0;
}

static bool place_is_idle(_Atomic(struct am_place *) *slot)
{
    struct am_place *place = am_place_get(slot);
    bool is_idle = place == NULL || am_place_in_use(place) == 0;

    am_place_put(place);
    return is_idle;
}

bool am_devices_are_idle(struct am_devices *devices)
{
    bool is_idle = place_is_idle(&devices->host);

    for (int32_t i = 0; i < devices->n && is_idle; i++)
        is_idle = place_is_idle(&devices->device[i].place) &&
                  !am_device_is_active(&devices->device[i]);
    return is_idle && am_context_count() == 0;
}

aclError am_device_find(int32_t id, struct am_device **ret_device)
{
    int32_t n = am_rt.devices.n;

    AM_REQUIRE(id >= 0 && id < n, ACL_ERROR_RT_INVALID_DEVICEID,
               "device %d does not exist; this process sees %d, numbered from 0 "
               "(ACLMEM_DEVICES, ASCEND_RT_VISIBLE_DEVICES)",
               id, n);
    *ret_device = &am_rt.devices.device[id];
    return ACL_SUCCESS;
}

struct am_device *am_device_find_driver(uint32_t driver_id)
{
    for (int32_t i = 0; i < am_rt.devices.n; i++) {
        if ((uint32_t)am_rt.devices.device[i].driver_id == driver_id)
            return &am_rt.devices.device[i];
    }
    return NULL;
}

static aclError device_use_locked(struct am_device *device)
    AM_REQUIRES(am_rt.devices.lock)
{
    aclError rc = ACL_SUCCESS;

    if (device->primary == NULL)
        rc = am_context_create_locked(device->id, true, &device->primary);
    if (rc == ACL_SUCCESS)
        am_context_make_current(device->primary);
    return rc;
}

aclError am_device_set(struct am_device *device)
{
    aclError rc;

    am_lock(&am_rt.devices.lock);
    rc = device_use_locked(device);
    if (rc == ACL_SUCCESS)
        device->n_set++;
    am_unlock(&am_rt.devices.lock);
    return rc;
}

aclError am_device_use(struct am_device *device)
{
    aclError rc;

    am_lock(&am_rt.devices.lock);
    rc = device_use_locked(device);
    am_unlock(&am_rt.devices.lock);
    return rc;
}

/* One user less, or all: whether nobody is left; fails when there was none. */
static aclError device_leave(struct am_device *device, bool is_forced, bool *ret_is_last)
{
    bool was_set;

    am_lock(&am_rt.devices.lock);
    was_set = device->n_set > 0;
    if (was_set)
        device->n_set = is_forced ? 0 : device->n_set - 1;
    *ret_is_last = device->n_set == 0;
    am_unlock(&am_rt.devices.lock);
    AM_REQUIRE(was_set, ACL_ERROR_RT_PARAM_INVALID,
               "device %d is not set; each aclrtSetDevice takes one aclrtResetDevice",
               device->id);
    return ACL_SUCCESS;
}

aclError am_device_reset(struct am_device *device, bool is_forced)
{
    struct am_place *place;
    bool is_last;
    aclError rc = device_leave(device, is_forced, &is_last);

    if (rc != ACL_SUCCESS || !is_last)
        return rc;
    device_end_work(device, !is_forced);
    am_lock(&am_rt.devices.lock);
    is_last =
        device->n_set == 0; /* another thread may have set it while its work ended */
    if (is_last) {
        device->primary = NULL;
        device->peers = 0;
        am_context_kill_all_locked(device->id);
    }
    am_unlock(&am_rt.devices.lock);
    if (!is_last)
        return ACL_SUCCESS;
    device_end_work(device, false); /* what other threads made until the contexts died */

    place = am_place_get(&device->place);
    if (place != NULL)
        am_heap_kill(place);
    am_phys_kill_all(place);
    am_place_put(place);
    return ACL_SUCCESS;
}

bool am_device_is_active(struct am_device *device)
{
    bool is_active;

    am_lock(&am_rt.devices.lock);
    is_active = device->primary != NULL;
    am_unlock(&am_rt.devices.lock);
    return is_active;
}
