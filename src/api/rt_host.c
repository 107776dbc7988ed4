/* Host memory: pinned blocks, and registering the program's own. */
#include "api/api.h"
#include "api/check.h"
#include "api/malloc_cfg.h"
#include "base/error.h"
#include "core/device/context.h"
#include "core/device/setup.h"
#include "core/heap/heap.h"
#include "core/hostmem/hostmem.h"
#include "core/stream/stream.h"

aclError am_aclrtMallocHost(void **hostPtr, size_t size)
{
    AM_REQUIRE_RANGE(hostPtr, size);
    return am_host_malloc(size, AM_MODULE_APP, -1, hostPtr);
}

aclError am_aclrtMallocHostWithCfg(void **ptr, uint64_t size, aclrtMallocConfig *cfg)
{
    struct malloc_cfg parsed;

    AM_REQUIRE_RANGE(ptr, size);
    AM_TRY(malloc_cfg_parse(cfg, &parsed));
    /*
     * The device always reaches host memory at the host's address, so there is nothing to
     * do.
     */
    AM_REQUIRE(!parsed.has_va_flag || (am_setup.product->features & AM_PRODUCT_VA_FLAG),
               ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
               "%s do not support the attribute VA_FLAG", am_setup.product->title);
    return am_host_malloc(size, parsed.module, parsed.device, ptr);
}

aclError am_aclrtFreeHost(void *hostPtr)
{
    if (hostPtr == NULL && !am_setup.is_strict)
        return ACL_SUCCESS; /* client programs rely on it */
    AM_REQUIRE(hostPtr != NULL, ACL_ERROR_RT_PARAM_INVALID,
               "hostPtr is NULL, which no edition documents (ACLMEM_RULES=strict)");
    return am_host_free(hostPtr);
}

aclError am_aclrtFreeHostWithDevSync(void *hostPtr)
{
    int32_t device;
    aclError failure;
    aclError rc;

    AM_REQUIRE(hostPtr != NULL, ACL_ERROR_RT_PARAM_INVALID, "hostPtr is NULL");
    AM_TRY(am_context_device(&device));
    AM_TRY(am_stream_check_all(device, NULL));
    /* A failure of a stream is returned here. The block is freed in any case. */
    failure = am_stream_sync_device(device, -1);
    rc = am_host_free(hostPtr);
    return rc != ACL_SUCCESS ? rc : failure;
}

/* Whether host memory can be registered here at all; the device is the current one. */
static aclError register_check(void)
{
    int32_t device;

    AM_REQUIRE_FEATURE(
        AM_PRODUCT_HOST_REG,
        "%s cannot register host memory; Ascend 950, Atlas A3 and Atlas A2 can");
    return am_context_device(&device);
}

aclError am_aclrtHostRegister(void *ptr, uint64_t size, aclrtHostRegisterType type,
                              void **devPtr)
{
    AM_REQUIRE_RANGE(ptr, size);
    AM_REQUIRE_NONNULL(devPtr);
    AM_REQUIRE(type != ACL_HOST_REGISTER_IOMEMORY && type != ACL_HOST_REGISTER_READONLY,
               ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "type is 0x%x, which is reserved",
               (int)type);
    AM_REQUIRE(type == ACL_HOST_REGISTER_MAPPED, ACL_ERROR_INVALID_PARAM,
               "type is 0x%x; it takes ACL_HOST_REGISTER_MAPPED (0)", (int)type);
    AM_TRY(register_check());
    AM_TRY(am_host_register(ptr, size, AM_HOST_MAPPED));
    *devPtr = ptr;
    return ACL_SUCCESS;
}

aclError am_aclrtHostRegisterV2(void *ptr, uint64_t size, uint32_t flag)
{
    const uint32_t known = ACL_HOST_REG_MAPPED | ACL_HOST_REG_PINNED;
    const uint32_t reserved = ACL_HOST_REG_IOMEMORY | ACL_HOST_REG_READONLY;

    AM_REQUIRE_RANGE(ptr, size);
    AM_REQUIRE((flag & reserved) == 0, ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
               "flag is 0x%x: IOMEMORY (0x4) and READONLY (0x8) are reserved", flag);
    AM_REQUIRE(flag != 0 && (flag & ~known) == 0, ACL_ERROR_INVALID_PARAM,
               "flag is 0x%x; it takes MAPPED (0x2), PINNED (0x10000000), or both", flag);
    AM_TRY(register_check());
    return am_host_register(ptr, size,
                            (flag & ACL_HOST_REG_MAPPED ? AM_HOST_MAPPED : 0) |
                                (flag & ACL_HOST_REG_PINNED ? AM_HOST_PINNED : 0));
}

aclError am_aclrtHostGetDevicePointer(void *pHost, void **pDevice, uint32_t flag)
{
    AM_REQUIRE_NONNULL(pHost, pDevice);
    AM_REQUIRE_ZERO(flag);
    AM_TRY(register_check());
    return am_host_device_pointer(pHost, pDevice);
}

aclError am_aclrtHostUnregister(void *ptr)
{
    AM_REQUIRE_NONNULL(ptr);
    AM_REQUIRE_FEATURE(AM_PRODUCT_HOST_REG, "%s cannot register host memory");
    return am_host_unregister(ptr);
}

aclError am_aclrtHostMemMapCapabilities(uint32_t deviceId, aclrtHacType hacType,
                                        aclrtHostMemMapCapability *capabilities)
{
    AM_REQUIRE_NONNULL(capabilities);
    AM_REQUIRE((unsigned)hacType <= ACL_RT_HAC_TYPE_CCU, ACL_ERROR_INVALID_PARAM,
               "hacType is %d; it takes 0 to 9", (int)hacType);
    AM_REQUIRE_FEATURE(AM_PRODUCT_HOST_REG, "%s cannot register host memory");
    AM_TRY(am_device_find(deviceId <= INT32_MAX ? (int32_t)deviceId : -1, NULL));
    *capabilities = ACL_RT_HOST_MEM_MAP_SUPPORTED; /* one copy engine plays every unit */
    return ACL_SUCCESS;
}
