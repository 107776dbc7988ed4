/* Virtual memory management: reserve, allocate, map, and the way back. */
#include <inttypes.h>

#include "api/api.h"
#include "api/check.h"
#include "base/error.h"
#include "base/util.h"
#include "core/device/attr.h"
#include "core/device/setup.h"
#include "core/vmm/phys.h"
#include "core/vmm/vspace.h"

aclError am_vmm_check(void)
{
    const struct am_product *product = am_setup.product;

    AM_REQUIRE(product->features & AM_PRODUCT_VMM, ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
               "virtual memory management is not supported on %s (ACLMEM_PRODUCT=%s)",
               product->title, product->name);
    AM_REQUIRE(
        !am_setup.is_strict || (product->features & AM_PRODUCT_VMM_ALL),
        ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
        "virtual memory management is not in all editions on %s (ACLMEM_PRODUCT=%s); the "
        "8.5 pages list Atlas A2 and A3 (ACLMEM_RULES=strict)",
        product->title, product->name);
    return ACL_SUCCESS;
}

aclError am_aclrtReserveMemAddress(void **virPtr, size_t size, size_t alignment,
                                   void *expectPtr, uint64_t flags)
{
    AM_REQUIRE(expectPtr == NULL || (am_setup.product->features & AM_PRODUCT_HINT),
               ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
               "expectPtr is %p; %s (ACLMEM_PRODUCT=%s) choose the address themselves",
               expectPtr, am_setup.product->title, am_setup.product->name);
    AM_REQUIRE(
        expectPtr == NULL || !am_setup.is_strict, ACL_ERROR_INVALID_PARAM,
        "expectPtr is %p; editions before 8.5 take NULL only (ACLMEM_RULES=strict)",
        expectPtr);
    return am_vspace_reserve(size, expectPtr, flags, virPtr);
}

/*
 * Differs: the documents take multiples of 1 GB and flags 0.  Clients pass flags 1 and
 * multiples of 2 MB, and these calls succeed on an NPU.
 */
aclError am_aclrtReserveMemAddressNoUCMemory(void **virPtr, size_t size, size_t alignment,
                                             void *expectPtr, uint64_t flags)
{
    AM_REQUIRE_A3(AM_PRODUCT_NO_UC);
    AM_REQUIRE(size > 0 && am_is_aligned(size, AM_CHUNK), ACL_ERROR_INVALID_PARAM,
               "size is %zu; it takes multiples of 2 MB", size);
    AM_REQUIRE(
        am_is_aligned(size, AM_GIB) || !am_setup.is_strict, ACL_ERROR_INVALID_PARAM,
        "size is %zu; the documents take multiples of 1 GB (ACLMEM_RULES=strict)", size);
    AM_REQUIRE_ZERO(alignment);
    AM_REQUIRE(
        expectPtr != NULL, ACL_ERROR_INVALID_PARAM,
        "expectPtr is NULL; this call needs an address, preferably 40 TB or above");
    AM_REQUIRE(flags <= (am_setup.is_strict ? 0 : 1), ACL_ERROR_INVALID_PARAM,
               "flags is 0x%" PRIx64 "; it takes 0%s", flags,
               am_setup.is_strict ? " (ACLMEM_RULES=strict)" : " or 1");
    return am_vspace_reserve(size, expectPtr, 1, virPtr);
}

/* Checks the description of physical memory by itself. */
static aclError prop_check(const aclrtPhysicalMemProp *prop)
{
    AM_REQUIRE(prop->handleType != ACL_MEM_HANDLE_TYPE_POSIX,
               ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
               "prop.handleType is POSIX (2), which no edition supports");
    AM_REQUIRE(prop->handleType == ACL_MEM_HANDLE_TYPE_NONE, ACL_ERROR_INVALID_PARAM,
               "prop.handleType is %d; it takes NONE (0)", (int)prop->handleType);
    AM_REQUIRE(prop->allocationType == ACL_MEM_ALLOCATION_TYPE_PINNED,
               ACL_ERROR_INVALID_PARAM, "prop.allocationType is %d; it takes PINNED (0)",
               (int)prop->allocationType);
    AM_REQUIRE(prop->reserve == 0, ACL_ERROR_INVALID_PARAM,
               "prop.reserve is 0x%" PRIx64 "; it takes 0", prop->reserve);
    return ACL_SUCCESS;
}

aclError am_aclrtMallocPhysical(aclrtDrvMemHandle *handle, size_t size,
                                const aclrtPhysicalMemProp *prop, uint64_t flags)
{
    AM_TRY(prop_check(prop));
    return am_phys_create(size, prop, handle);
}

static aclError map(void *virPtr, size_t size, size_t offset, aclrtDrvMemHandle handle,
                    uint64_t flags, bool has_access)
{
    struct am_phys *phys;

    AM_REQUIRE(offset == 0, ACL_ERROR_INVALID_PARAM,
               "offset is %zu; all editions take only 0", offset);
    AM_REQUIRE_ZERO(flags);
    AM_TRY(am_phys_find(handle, &phys)); /* the mapping acquires a reference */
    return am_vspace_map(virPtr, size, phys, has_access);
}

aclError am_aclrtMapMem(void *virPtr, size_t size, size_t offset,
                        aclrtDrvMemHandle handle, uint64_t flags)
{
    return map(virPtr, size, offset, handle, flags, true);
}

aclError am_aclrtMemMapNoAccess(void *virPtr, size_t size, size_t offset,
                                aclrtDrvMemHandle handle, uint64_t flags)
{
    return map(virPtr, size, offset, handle, flags, false);
}

/* Both links lead to the same memory here, so which one is asked for makes no difference. */
aclError am_aclrtMemMapSelectedLink(void *virPtrDst, size_t size, void *virPtrSrc,
                                    uint32_t linkIdx)
{
    AM_REQUIRE_A3(AM_PRODUCT_DIES);
    AM_REQUIRE(linkIdx <= 1, ACL_ERROR_INVALID_PARAM,
               "linkIdx is %" PRIu32 "; it takes 0 (SIO) or 1 (HCCS)", linkIdx);
    return am_vspace_mirror(virPtrDst, size, virPtrSrc);
}

static aclError desc_check(const aclrtMemAccessDesc *desc)
{
    AM_REQUIRE(desc->flags == ACL_RT_MEM_ACCESS_FLAGS_NONE ||
                   desc->flags == ACL_RT_MEM_ACCESS_FLAGS_READ ||
                   desc->flags == ACL_RT_MEM_ACCESS_FLAGS_READWRITE,
               ACL_ERROR_INVALID_PARAM, "desc.flags is %d; it takes 0, 1 or 3",
               (int)desc->flags);
    AM_REQUIRE(!am_setup.is_strict || desc->flags == ACL_RT_MEM_ACCESS_FLAGS_READWRITE,
               ACL_ERROR_INVALID_PARAM,
               "desc.flags is %d; all editions take only READWRITE (ACLMEM_RULES=strict)",
               (int)desc->flags);
    for (size_t i = 0; i < AM_ARRAY_SIZE(desc->rsv); i++)
        AM_REQUIRE(desc->rsv[i] == 0, ACL_ERROR_INVALID_PARAM, "desc.rsv is not zero");
    AM_REQUIRE_LOCATION(&desc->location, "location");
    return ACL_SUCCESS;
}

aclError am_aclrtMemSetAccess(void *virPtr, size_t size, aclrtMemAccessDesc *desc,
                              size_t count)
{
    for (size_t i = 0; i < count; i++)
        AM_TRY(desc_check(&desc[i]));
    return am_vspace_set_access(virPtr, size, desc, count);
}

aclError am_aclrtMemGetAccess(void *virPtr, aclrtMemLocation *location, uint64_t *flag)
{
    AM_REQUIRE_LOCATION(location, "location");
    return am_vspace_get_access(virPtr, location, flag);
}

aclError am_aclrtMemGetAllocationPropertiesFromHandle(aclrtDrvMemHandle handle,
                                                      aclrtPhysicalMemProp *prop)
{
    struct am_phys *phys;

    AM_TRY(am_phys_find(handle, &phys));
    *prop = am_phys_prop(phys);
    return ACL_SUCCESS;
}

aclError am_aclrtMemGetAllocationGranularity(aclrtPhysicalMemProp *prop,
                                             aclrtMemGranularityOptions option,
                                             size_t *granularity)
{
    AM_TRY(prop_check(prop));
    AM_TRY(am_phys_check(prop));
    *granularity = am_attr_granularity(am_attr_find(prop->memAttr));
    return ACL_SUCCESS;
}
