/* Questions about memory: how much there is, what an address is. */
#include <string.h>

#include "api/api.h"
#include "base/error.h"
#include "core/device/attr.h"
#include "core/device/context.h"
#include "core/device/device.h"
#include "core/device/setup.h"
#include "core/heap/heap.h"
#include "core/hostmem/hostmem.h"
#include "core/stream/stream.h"
#include "core/vmm/phys.h"
#include "core/vmm/vspace.h"

aclError am_aclrtGetMemInfo(aclrtMemAttr attr, size_t *free, size_t *total)
{
    const struct am_attr *found = am_attr_find(attr);
    unsigned features = am_setup.product->features;
    struct am_domain *domain = NULL;
    size_t left = 0;
    int32_t device;

    AM_REQUIRE(found != NULL, ACL_ERROR_INVALID_PARAM,
               "attr is %d, which is not a memory attribute", (int)attr);
    AM_TRY(am_context_device(&device));
    (void)am_stream_collect_all(); /* launched work that is done keeps no memory */
    /* A product has HBM, or DDR alone. */
    if ((found->feature & ~features) == 0 &&
        !(strncmp(found->name, "ACL_DDR", 7) == 0 && (features & AM_PRODUCT_HBM)))
        domain = am_devices.device[device].domain;
    if (domain != NULL)
        AM_TRY(am_domain_free(domain, &left));
    *total = domain != NULL ? domain->capacity : 0;
    *free = left & ~(am_attr_granularity(found) - 1);
    return ACL_SUCCESS;
}

/*
 * The attributes of memory of a device, or of the host.  Field by field: a store in parts
 * followed by a read of the whole stalls the processor, for longer than all else here.
 */
static void attributes_fill(aclrtPtrAttributes *attributes, int32_t device,
                            uint32_t page_size)
{
    attributes->location.id = device < 0 ? 0 : (uint32_t)device;
    attributes->location.type =
        device < 0 ? ACL_MEM_LOCATION_TYPE_HOST : ACL_MEM_LOCATION_TYPE_DEVICE;
    attributes->pageSize = page_size;
}

/* Those of an address in a mapping, if it lies in a block of the mapping's owner. */
static void attributes_find(const struct am_mapping *mapping, uintptr_t addr,
                            aclrtPtrAttributes *attributes)
{
    struct am_block_info block;
    struct am_bounds bounds;

    if (am_heap_owns(mapping)) {
        if (am_heap_find((const void *)addr, &block))
            attributes_fill(attributes, block.device, block.page);
    } else if (am_mapping_block(mapping, addr, &bounds)) {
        attributes_fill(attributes, mapping->device, 1u << mapping->page_shift);
        if (mapping->owner != NULL && mapping->owner->is_managed)
            attributes->location.type = ACL_MEM_LOCATION_TYPE_MANAGED;
    }
}

aclError am_aclrtPointerGetAttributes(const void *ptr, aclrtPtrAttributes *attributes)
{
    aclrtPtrAttributes found = {.location.type = ACL_MEM_LOCATION_TYPE_UNREGISTERED};
    const struct am_mapping *mapping = am_mapping_find((uintptr_t)ptr);

    if (mapping != NULL) {
        attributes_find(mapping, (uintptr_t)ptr, &found);
    } else if (am_host_is_registered(ptr)) {
        found.location.type = ACL_MEM_LOCATION_TYPE_HOST;
        found.pageSize = 4096;
    }
    *attributes = found;
    return ACL_SUCCESS;
}

aclError am_aclrtMemGetAddressRange(void *ptr, void **pbase, size_t *psize)
{
    const struct am_mapping *mapping = am_mapping_find((uintptr_t)ptr);
    struct am_bounds bounds;

    AM_REQUIRE(pbase != NULL || psize != NULL, ACL_ERROR_INVALID_PARAM,
               "pbase and psize are both NULL");
    AM_REQUIRE(mapping != NULL, ACL_ERROR_RT_PARAM_INVALID, "nothing is mapped at %p",
               ptr);
    AM_REQUIRE(am_mapping_block(mapping, (uintptr_t)ptr, &bounds),
               ACL_ERROR_RT_PARAM_INVALID, "no block is allocated at %p", ptr);
    if (pbase != NULL)
        *pbase = (void *)bounds.start;
    if (psize != NULL)
        *psize = bounds.size;
    return ACL_SUCCESS;
}

/* Whether addr is memory of one of the kinds in types. */
static bool address_fits(const void *addr, uint32_t types)
{
    const struct am_mapping *mapping = am_mapping_find((uintptr_t)addr);
    const struct am_owner *owner;
    struct am_bounds bounds;
    bool is_device = mapping != NULL && mapping->device >= 0 &&
                     am_mapping_block(mapping, (uintptr_t)addr, &bounds);

    return ((types & ACL_RT_MEM_TYPE_DEV) && is_device) ||
           ((types & ACL_RT_MEM_TYPE_RSVD) &&
            am_vspace_is_reserved((uintptr_t)addr, 1, &owner) && owner == NULL);
}

aclError am_aclrtCheckMemType(void **addrList, uint32_t size, uint32_t memType,
                              uint32_t *checkResult, uint32_t reserve)
{
    const uint32_t all =
        ACL_RT_MEM_TYPE_DEV | ACL_RT_MEM_TYPE_DVPP | ACL_RT_MEM_TYPE_RSVD;
    uint32_t fits = 1;

    AM_REQUIRE(memType != 0 && (memType & ~all) == 0, ACL_ERROR_INVALID_PARAM,
               "memType is 0x%x; it takes a combination of 0x2, 0x8 and 0x10", memType);
    for (uint32_t i = 0; i < size && fits; i++)
        fits = address_fits(addrList[i], memType);
    *checkResult = fits;
    return ACL_SUCCESS;
}

/*
 * ---- errors of the memory itself ----
 *
 * The system ends a process whose memory fails, so there is never an error to report or to
 * repair.
 */

aclError am_aclrtGetMemUceInfo(int32_t deviceId, aclrtMemUceInfo *arr, size_t arraySize,
                               size_t *retSize)
{
    *retSize = 0;
    return ACL_SUCCESS;
}

aclError am_aclrtMemUceRepair(int32_t deviceId, aclrtMemUceInfo *arr, size_t arraySize)
{
    return am_fail(
        ACL_ERROR_RT_PARAM_INVALID,
        "device %d has no error in the %zu bytes at %p: aclrtGetMemUceInfo reported none",
        deviceId, arr[0].len, arr[0].addr);
}

/*
 * Differs: the values of errorType are not public; 0, with no detail and nothing to
 * repair, stands for no error here.
 */
aclError am_aclrtGetErrorVerbose(int32_t deviceId, aclrtErrorInfo *errorInfo)
{
    memset(errorInfo, 0, sizeof *errorInfo);
    return ACL_SUCCESS;
}

aclError am_aclrtRepairError(int32_t deviceId, const aclrtErrorInfo *errorInfo)
{
    AM_REQUIRE(errorInfo->errorType == 0 && errorInfo->hasDetail == 0,
               ACL_ERROR_RT_PARAM_INVALID,
               "device %d has no error of type %d: aclrtGetErrorVerbose reported none",
               deviceId, (int)errorInfo->errorType);
    return ACL_SUCCESS;
}
