/* Memory of devices and of the host: aclrtMalloc, aclrtMallocHost and their relatives. */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "api/check.h"
#include "base/error.h"
#include "base/util.h"
#include "core/copy/span.h"
#include "core/device/context.h"
#include "core/device/setup.h"
#include "core/devices.h"
#include "core/heap/heap.h"
#include "core/hostmem/hostmem.h"
#include "core/stream/stream.h"

/* ---- the attributes of aclrtMallocWithCfg and aclrtMallocHostWithCfg ---- */

struct malloc_cfg {
    unsigned module;
    int32_t device; /* -1: not given */
    bool has_va_flag;
    uint32_t va_flag;
};

#define ATTRIBUTES_MAX 3 /* one of each type */

static aclError attribute_parse(const aclrtMallocAttribute *attribute,
                                struct malloc_cfg *ret)
{
    switch (attribute->attr) {
    case ACL_RT_MEM_ATTR_MODULE_ID:
        AM_REQUIRE(attribute->value.moduleId < AM_MODULES, ACL_ERROR_INVALID_PARAM,
                   "the attribute MODULE_ID is %u; modules are numbered from 0 to %d",
                   attribute->value.moduleId, AM_MODULES - 1);
        ret->module = attribute->value.moduleId;
        return ACL_SUCCESS;
    case ACL_RT_MEM_ATTR_DEVICE_ID:
        AM_REQUIRE(attribute->value.deviceId <= INT32_MAX, ACL_ERROR_INVALID_PARAM,
                   "the attribute DEVICE_ID is %u", attribute->value.deviceId);
        ret->device = (int32_t)attribute->value.deviceId;
        return ACL_SUCCESS;
    case ACL_RT_MEM_ATTR_VA_FLAG:
        AM_REQUIRE(attribute->value.vaFlag <= 1, ACL_ERROR_INVALID_PARAM,
                   "the attribute VA_FLAG is %u; it takes 0 and 1",
                   attribute->value.vaFlag);
        ret->has_va_flag = true;
        ret->va_flag = attribute->value.vaFlag;
        return ACL_SUCCESS;
    default:
        return am_fail(
            ACL_ERROR_INVALID_PARAM,
            "an attribute of cfg is of type %d; it takes MODULE_ID (1), DEVICE_ID (2) "
            "and VA_FLAG (3)",
            (int)attribute->attr);
    }
}

/* The attributes of a call; cfg may be NULL. */
static aclError malloc_cfg_parse(const aclrtMallocConfig *cfg, struct malloc_cfg *ret)
{
    struct malloc_cfg parsed = {.module = AM_MODULE_APP, .device = -1};
    aclError rc = ACL_SUCCESS;

    AM_REQUIRE(cfg == NULL || cfg->numAttrs == 0 || cfg->attrs != NULL,
               ACL_ERROR_INVALID_PARAM, "cfg.numAttrs is %zu but cfg.attrs is NULL",
               cfg->numAttrs);
    AM_REQUIRE(cfg == NULL || cfg->numAttrs <= ATTRIBUTES_MAX, ACL_ERROR_INVALID_PARAM,
               "cfg.numAttrs is %zu; there are %d types of attributes, and each is given "
               "at most once",
               cfg->numAttrs, ATTRIBUTES_MAX);
    for (size_t i = 0; cfg != NULL && i < cfg->numAttrs && rc == ACL_SUCCESS; i++)
        rc = attribute_parse(&cfg->attrs[i], &parsed);
    if (rc == ACL_SUCCESS)
        *ret = parsed;
    return rc;
}

/* ---- device memory ---- */

#define BAND_WIDTHS (ACL_MEM_TYPE_LOW_BAND_WIDTH | ACL_MEM_TYPE_HIGH_BAND_WIDTH)

/*
 * The meaning of a base policy: page sizes for more than 1 MB and for less, and the
 * product features that it needs.
 */
static const struct {
    uint32_t page;
    uint32_t small_page;
    unsigned features;
} policies[] = {
    [ACL_MEM_MALLOC_HUGE_FIRST] = {2 * AM_MIB, 4096, 0},
    [ACL_MEM_MALLOC_HUGE_ONLY] = {2 * AM_MIB, 2 * AM_MIB, 0},
    [ACL_MEM_MALLOC_NORMAL_ONLY] = {4096, 4096, 0},
    [ACL_MEM_MALLOC_HUGE_FIRST_P2P] = {2 * AM_MIB, 4096, AM_PRODUCT_P2P},
    [ACL_MEM_MALLOC_HUGE_ONLY_P2P] = {2 * AM_MIB, 2 * AM_MIB, AM_PRODUCT_P2P},
    [ACL_MEM_MALLOC_NORMAL_ONLY_P2P] = {4096, 4096, AM_PRODUCT_P2P},
    [ACL_MEM_MALLOC_HUGE1G_ONLY] = {AM_GIB, AM_GIB, AM_PRODUCT_HBM_1G},
    [ACL_MEM_MALLOC_HUGE1G_ONLY_P2P] = {AM_GIB, AM_GIB,
                                        AM_PRODUCT_HBM_1G | AM_PRODUCT_P2P},
};

/* The page size by the policy; one that is out of range is not an error. */
static aclError policy_page(unsigned policy, size_t size, uint32_t *ret_page)
{
    if (policy >= AM_ARRAY_SIZE(policies)) {
        *ret_page = size >= 2 * AM_MIB ? 2 * AM_MIB : 4096;
        return ACL_SUCCESS;
    }
    AM_REQUIRE((policies[policy].features & ~am_setup.product->features) == 0,
               ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "%s do not support policy %u (%s)",
               am_setup.product->title, policy,
               policies[policy].page == AM_GIB ? "pages of 1 GB" : "P2P");
    AM_REQUIRE(!am_setup.is_strict || policies[policy].page < AM_GIB,
               ACL_ERROR_INVALID_PARAM,
               "policy is %u; the 8.0 edition has 0 to 5 (ACLMEM_RULES=strict)", policy);
    *ret_page = size > AM_MIB ? policies[policy].page : policies[policy].small_page;
    return ACL_SUCCESS;
}

/* With `pad` more bytes unless they are pages of 1 GB. */
static aclError device_malloc(void **ret_addr, size_t size, unsigned policy, size_t pad,
                              unsigned module)
{
    uint32_t page;

    AM_TRY(policy_page(policy, size, &page));
    AM_GET_CURRENT_DEVICE(device);
    return am_heap_malloc(am_heap_of(device, AM_HEAP_DEVICE), size,
                          page < AM_GIB ? pad : 0, page, module, ret_addr);
}

aclError am_aclrtMalloc(void **devPtr, size_t size, aclrtMemMallocPolicy policy)
{
    return device_malloc(devPtr, size, (unsigned)policy, am_setup.malloc_pad,
                         AM_MODULE_APP);
}

aclError am_aclrtMallocAlign32(void **devPtr, size_t size, aclrtMemMallocPolicy policy)
{
    return device_malloc(devPtr, size, (unsigned)policy, 0, AM_MODULE_APP);
}

aclError am_aclrtMallocCached(void **devPtr, size_t size, aclrtMemMallocPolicy policy)
{
    AM_REQUIRE(
        policy == ACL_MEM_MALLOC_HUGE_FIRST || policy == ACL_MEM_MALLOC_HUGE_ONLY ||
            policy == ACL_MEM_MALLOC_NORMAL_ONLY || policy == ACL_MEM_MALLOC_HUGE1G_ONLY,
        ACL_ERROR_INVALID_PARAM, "policy is %d; this call takes 0, 1, 2 and 6",
        (int)policy);
    return am_aclrtMalloc(devPtr, size, policy);
}

/* The policy has a value of each of three groups: base policy, band width, access. */
aclError am_aclrtMallocWithCfg(void **devPtr, size_t size, aclrtMemMallocPolicy policy,
                               aclrtMallocConfig *cfg)
{
    unsigned base =
        policy & ~(unsigned)(BAND_WIDTHS | ACL_MEM_ACCESS_USER_SPACE_READONLY);
    struct malloc_cfg parsed;

    AM_REQUIRE((policy & BAND_WIDTHS) != BAND_WIDTHS, ACL_ERROR_INVALID_PARAM,
               "policy 0x%x has both band widths; it takes one", (unsigned)policy);
    AM_REQUIRE(base < AM_ARRAY_SIZE(policies), ACL_ERROR_INVALID_PARAM,
               "policy is 0x%x; it takes 0 to 7, with 0x100 or 0x1000, and with 0x100000",
               (unsigned)policy);
    AM_TRY(malloc_cfg_parse(cfg, &parsed));
    AM_REQUIRE(!parsed.has_va_flag, ACL_ERROR_INVALID_PARAM,
               "the attribute VA_FLAG is for aclrtMallocHostWithCfg only");
    AM_GET_CURRENT_DEVICE(device);
    AM_REQUIRE(parsed.device < 0 || parsed.device == device, ACL_ERROR_RT_PARAM_INVALID,
               "the attribute DEVICE_ID is %d but the current device is %d",
               parsed.device, device);
    return device_malloc(devPtr, size, base, am_setup.malloc_pad, parsed.module);
}

/*
 * Differs: the task scheduler is ours and needs no special memory, so this is plain
 * memory.
 */
AM_SAME_AS(aclrtMallocForTaskScheduler, aclrtMallocWithCfg);

aclError am_aclrtFree(void *devPtr)
{
    AM_REQUIRE(devPtr != NULL, ACL_ERROR_RT_PARAM_INVALID, "devPtr is NULL");
    return am_heap_free(AM_HEAP_DEVICE, devPtr); /* or managed memory */
}

aclError am_aclrtFreeWithDevSync(void *devPtr)
{
    const struct am_context *context = am_current_find();
    struct am_block_info block;
    aclError failure = ACL_SUCCESS;
    int32_t device = -1;
    aclError rc;

    AM_REQUIRE(devPtr != NULL, ACL_ERROR_RT_PARAM_INVALID, "devPtr is NULL");
    if (am_heap_find(devPtr, &block) && block.kind == AM_HEAP_DEVICE)
        device = block.device;
    else if (context != NULL) /* managed memory is every device's */
        device = context->device;
    if (device >= 0) {
        AM_TRY(am_stream_check_all(device, NULL));
        failure = am_sync_device(device, -1);
    }
    /* A failure of a stream is returned here. The block is freed in any case. */
    rc = am_heap_free(AM_HEAP_DEVICE, devPtr);
    return rc != ACL_SUCCESS ? rc : failure;
}

/* Caches are coherent here, as in current editions, so the call only checks the range. */
aclError am_aclrtMemFlush(void *devPtr, size_t size)
{
    struct am_spans spans;
    aclError rc = ACL_SUCCESS;

    AM_GET_CURRENT_DEVICE(device);
    AM_TRY(am_spans_open(&spans, devPtr, size, AM_ACCESS_NONE, device, "devPtr"));
    if (spans.devices == 0)
        rc = am_fail(ACL_ERROR_RT_PARAM_INVALID, "%p is not device memory", devPtr);
    am_spans_close(&spans);
    return rc;
}

AM_SAME_AS(aclrtMemInvalidate, aclrtMemFlush);

static int usage_compare(const void *a, const void *b)
{
    uint64_t left = ((const aclrtMemUsageInfo *)a)->curMemSize;
    uint64_t right = ((const aclrtMemUsageInfo *)b)->curMemSize;

    return (left < right) - (left > right);
}

/*
 * An entry for each module that has or had memory; the program's entry has all memory
 * without a module.
 */
static size_t usage_collect(struct am_domain *domain, aclrtMemUsageInfo *usage)
{
    struct am_heap *heap = am_heap_of(domain->device, AM_HEAP_DEVICE);
    size_t in_use = am_domain_in_use(domain);
    size_t peak = am_ledger_peak(domain->ledger, domain->column);
    size_t others = 0;
    size_t n = 1;

    for (unsigned i = 0; i < AM_MODULES; i++) {
        uint64_t now = heap->modules[i].now;
        uint64_t highest = heap->modules[i].peak;

        if (highest == 0)
            continue;
        others += now;
        usage[n] = (aclrtMemUsageInfo){
            .curMemSize = now,
            .memPeakSize = highest > now ? highest : now, /* about to rise */
        };
        snprintf(usage[n].name, sizeof usage[n].name, "MODULE_%u", i);
        n++;
    }
    in_use = in_use > others ? in_use - others : 0;
    usage[0] = (aclrtMemUsageInfo){
        .name = "APP",
        .curMemSize = in_use,
        .memPeakSize = peak > in_use ? peak : in_use,
    };
    qsort(usage, n, sizeof *usage, usage_compare);
    return n;
}

aclError am_aclrtGetMemUsageInfo(struct am_device *device,
                                 aclrtMemUsageInfo *memUsageInfo, size_t inputNum,
                                 size_t *outputNum)
{
    aclrtMemUsageInfo usage[AM_MODULES + 1];
    struct am_domain *domain = device->domain;
    size_t n;

    AM_REQUIRE(domain != NULL, ACL_ERROR_UNINITIALIZE, "aclFinalize has been called");
    n = usage_collect(domain, usage);
    if (n > inputNum)
        n = inputNum;
    memcpy(memUsageInfo, usage, n * sizeof *usage);
    *outputNum = n;
    return ACL_SUCCESS;
}

/* ---- host memory: pinned blocks, and registering the program's own ---- */

aclError am_aclrtMallocHost(void **hostPtr, size_t size)
{
    return am_host_malloc(size, AM_MODULE_APP, -1, hostPtr);
}

aclError am_aclrtMallocHostWithCfg(void **ptr, uint64_t size, aclrtMallocConfig *cfg)
{
    struct malloc_cfg parsed;

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
    aclError failure;
    aclError rc;

    AM_REQUIRE(hostPtr != NULL, ACL_ERROR_RT_PARAM_INVALID, "hostPtr is NULL");
    AM_GET_CURRENT_DEVICE(device);
    AM_TRY(am_stream_check_all(device, NULL));
    /* A failure of a stream is returned here. The block is freed in any case. */
    failure = am_sync_device(device, -1);
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
    AM_TRY(register_check());
    return am_host_device_pointer(pHost, pDevice);
}

aclError am_aclrtHostUnregister(void *ptr)
{
    AM_REQUIRE_FEATURE(AM_PRODUCT_HOST_REG, "%s cannot register host memory");
    return am_host_unregister(ptr);
}

aclError am_aclrtHostMemMapCapabilities(uint32_t deviceId, aclrtHacType hacType,
                                        aclrtHostMemMapCapability *capabilities)
{
    AM_REQUIRE_FEATURE(AM_PRODUCT_HOST_REG, "%s cannot register host memory");
    AM_TRY(am_device_find(deviceId <= INT32_MAX ? (int32_t)deviceId : -1, NULL));
    *capabilities = ACL_RT_HOST_MEM_MAP_SUPPORTED; /* one copy engine plays every unit */
    return ACL_SUCCESS;
}
