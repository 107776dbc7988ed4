/* Access rights of mappings. See vspace.h. */
#include "acl/error_codes/rt_error_codes.h"
#include "base/error.h"
#include "core/device/device.h"
#include "core/vmm/phys.h"
#include "core/vmm/reservation.h"

/*
 * A location's bit in access masks.  Devices are named by the driver's id here, as on the
 * real thing.
 */
static aclError location_bit(const aclrtMemLocation *location, uint64_t *ret_bit)
{
    struct am_device *device;

    if (location->type == ACL_MEM_LOCATION_TYPE_HOST) {
        *ret_bit = AM_HOST_BIT;
        return ACL_SUCCESS;
    }

    device = am_device_find_driver(location->id);
    AM_REQUIRE(location->id < (uint32_t)am_devices.n_all, ACL_ERROR_RT_INVALID_DEVICEID,
               "location.id is %u; the machine has devices 0 to %d", location->id,
               am_devices.n_all - 1);
    AM_REQUIRE(device != NULL, ACL_ERROR_RT_DRV_INTERNAL_ERROR,
               "location.id is %u, which ASCEND_RT_VISIBLE_DEVICES hides; this call "
               "takes the ids "
               "of that list, not the logical ones (device 0 is %d here)",
               location->id, (int)am_devices.device[0].driver_id);
    *ret_bit = UINT64_C(1) << device->id;
    return ACL_SUCCESS;
}

/* One description applied to the masks. */
static aclError desc_apply(const aclrtMemAccessDesc *desc, uint64_t *can_read,
                           uint64_t *can_write)
{
    uint64_t bit = 0;

    AM_TRY(location_bit(&desc->location, &bit));
    *can_read &= ~bit;
    *can_write &= ~bit;
    if (desc->flags != ACL_RT_MEM_ACCESS_FLAGS_NONE)
        *can_read |= bit;
    if (desc->flags == ACL_RT_MEM_ACCESS_FLAGS_READWRITE)
        *can_write |= bit;
    return ACL_SUCCESS;
}

/*
 * Where the row of mappings ends that belong together with the first, or with end; their
 * reservation is locked.
 */
static uintptr_t row_end_locked(const struct am_mapping *first, uintptr_t end)
{
    uintptr_t at = first->start + first->size;

    while (at < end) {
        const struct am_mapping *next = am_mapping_find(at);

        if (next == NULL || next->reservation != first->reservation ||
            next->phys->domain != first->phys->domain ||
            next->phys->mem.bank != first->phys->mem.bank)
            break;
        at += next->size;
    }
    return at;
}

static aclError row_open_locked(struct am_mapping *first, uintptr_t end)
{
    struct am_mem *mem = &first->phys->mem;
    uint64_t bits = am_owner_bit(first->phys);
    struct am_rights rights = am_rights_of(bits, bits);

    AM_TRY(
        mem->bank->ops->protect((void *)first->start, end - first->start, mem, &rights));
    for (struct am_mapping *mapping = first; mapping != NULL && mapping->start < end;
         mapping = am_mapping_find(mapping->start + mapping->size)) {
        mapping->can_read = bits;
        mapping->can_write = bits;
    }
    return ACL_SUCCESS;
}

aclError am_vspace_open(void *addr, size_t size)
{
    uintptr_t end = (uintptr_t)addr + size;
    aclError rc = ACL_SUCCESS;

    for (uintptr_t at = (uintptr_t)addr; at < end && rc == ACL_SUCCESS;) {
        struct am_mapping *first;

        if (!am_mapping_lock(at, &first))
            return am_fail(ACL_ERROR_RT_PARAM_INVALID,
                           "%p was unmapped by another thread", (void *)at);
        at = row_end_locked(first, end);
        rc = row_open_locked(first, at);
        am_unlock(&first->reservation->lock);
    }
    return rc;
}

/* The mapping is locked. */
static aclError set_access_locked(struct am_mapping *mapping, size_t size,
                                  const aclrtMemAccessDesc *desc, size_t n)
{
    void *addr = (void *)mapping->start;
    struct am_rights rights;
    uint64_t can_read = mapping->can_read;
    uint64_t can_write = mapping->can_write;

    AM_REQUIRE(
        size == mapping->size || size == mapping->asked, ACL_ERROR_RT_PARAM_INVALID,
        "size is %zu but %zu bytes are mapped at %p; pass what aclrtMapMem was given",
        size, mapping->size, addr);
    for (size_t i = 0; i < n; i++)
        AM_TRY(desc_apply(&desc[i], &can_read, &can_write));
    rights = am_rights_of(can_read, can_write);
    AM_TRY(mapping->phys->mem.bank->ops->protect(addr, mapping->size, &mapping->phys->mem,
                                                 &rights));
    mapping->can_read = can_read;
    mapping->can_write = can_write;
    return ACL_SUCCESS;
}

aclError am_vspace_set_access(void *addr, size_t size, const aclrtMemAccessDesc *desc,
                              size_t n)
{
    struct am_mapping *mapping;
    aclError rc;

    rc = am_mapping_lock_own(addr, true, &mapping);
    if (rc != 0)
        return rc;
    rc = set_access_locked(mapping, size, desc, n);
    am_unlock(&mapping->reservation->lock);
    return rc;
}

aclError am_vspace_get_access(void *addr, const aclrtMemLocation *location,
                              uint64_t *ret_flags)
{
    struct am_mapping *mapping;
    uint64_t bit = 0;
    aclError rc;

    AM_TRY(location_bit(location, &bit));
    rc = am_mapping_lock_own(addr, true, &mapping);
    if (rc != 0)
        return rc;
    *ret_flags = (mapping->can_write & bit)  ? ACL_RT_MEM_ACCESS_FLAGS_READWRITE
                 : (mapping->can_read & bit) ? ACL_RT_MEM_ACCESS_FLAGS_READ
                                             : ACL_RT_MEM_ACCESS_FLAGS_NONE;
    am_unlock(&mapping->reservation->lock);
    return ACL_SUCCESS;
}
