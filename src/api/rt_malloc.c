/* Device memory: aclrtMalloc, its relatives, and the way back. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "api/check.h"
#include "api/malloc_cfg.h"
#include "base/error.h"
#include "base/util.h"
#include "core/copy/span.h"
#include "core/device/context.h"
#include "core/device/setup.h"
#include "core/heap/heap.h"
#include "core/stream/stream.h"

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
    int32_t device;
    uint32_t page;

    AM_TRY(policy_page(policy, size, &page));
    AM_TRY(am_context_device(&device));
    AM_REQUIRE(size <= SIZE_MAX - 64, ACL_ERROR_RT_MEMORY_ALLOCATION,
               "Failed to allocate %zu bytes: no device has that much memory", size);
    return am_heap_malloc(am_heap_of(device, AM_HEAP_DEVICE), size,
                          page < AM_GIB ? pad : 0, page, module, ret_addr);
}

static aclError plain_malloc(void **devPtr, size_t size, unsigned policy, size_t pad)
{
    AM_REQUIRE_RANGE(devPtr, size);
    return device_malloc(devPtr, size, policy, pad, AM_MODULE_APP);
}

aclError am_aclrtMalloc(void **devPtr, size_t size, aclrtMemMallocPolicy policy)
{
    return plain_malloc(devPtr, size, (unsigned)policy, am_setup.malloc_pad);
}

aclError am_aclrtMallocAlign32(void **devPtr, size_t size, aclrtMemMallocPolicy policy)
{
    return plain_malloc(devPtr, size, (unsigned)policy, 0);
}

aclError am_aclrtMallocCached(void **devPtr, size_t size, aclrtMemMallocPolicy policy)
{
    AM_REQUIRE_RANGE(devPtr, size);
    AM_REQUIRE(
        policy == ACL_MEM_MALLOC_HUGE_FIRST || policy == ACL_MEM_MALLOC_HUGE_ONLY ||
            policy == ACL_MEM_MALLOC_NORMAL_ONLY || policy == ACL_MEM_MALLOC_HUGE1G_ONLY,
        ACL_ERROR_INVALID_PARAM, "policy is %d; this call takes 0, 1, 2 and 6",
        (int)policy);
    return am_aclrtMalloc(devPtr, size, policy);
}

/* One value of each of three groups: base policy, band width, access. */
static aclError policy_split(unsigned policy, unsigned *ret_base)
{
    unsigned base =
        policy & ~(unsigned)(BAND_WIDTHS | ACL_MEM_ACCESS_USER_SPACE_READONLY);

    AM_REQUIRE((policy & BAND_WIDTHS) != BAND_WIDTHS, ACL_ERROR_INVALID_PARAM,
               "policy 0x%x has both band widths; it takes one", policy);
    AM_REQUIRE(base < AM_ARRAY_SIZE(policies), ACL_ERROR_INVALID_PARAM,
               "policy is 0x%x; it takes 0 to 7, with 0x100 or 0x1000, and with 0x100000",
               policy);
    *ret_base = base;
    return ACL_SUCCESS;
}

aclError am_aclrtMallocWithCfg(void **devPtr, size_t size, aclrtMemMallocPolicy policy,
                               aclrtMallocConfig *cfg)
{
    struct malloc_cfg parsed;
    int32_t device;
    unsigned base;

    AM_REQUIRE_RANGE(devPtr, size);
    AM_TRY(policy_split((unsigned)policy, &base));
    AM_TRY(malloc_cfg_parse(cfg, &parsed));
    AM_REQUIRE(!parsed.has_va_flag, ACL_ERROR_INVALID_PARAM,
               "the attribute VA_FLAG is for aclrtMallocHostWithCfg only");
    AM_TRY(am_context_device(&device));
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
        failure = am_stream_sync_device(device, -1);
    }
    /* A failure of a stream is returned here. The block is freed in any case. */
    rc = am_heap_free(AM_HEAP_DEVICE, devPtr);
    return rc != ACL_SUCCESS ? rc : failure;
}

/*
 * Caches are coherent here, as in current editions, so the call only checks the range.
 */
aclError am_aclrtMemFlush(void *devPtr, size_t size)
{
    struct am_spans spans;
    int32_t device;
    aclError rc = ACL_SUCCESS;

    AM_REQUIRE_RANGE(devPtr, size);
    AM_TRY(am_context_device(&device));
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
    size_t peak = domain->peak;
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

aclError am_aclrtGetMemUsageInfo(int32_t deviceId, aclrtMemUsageInfo *memUsageInfo,
                                 size_t inputNum, size_t *outputNum)
{
    aclrtMemUsageInfo usage[AM_MODULES + 1];
    struct am_device *device;
    struct am_domain *domain;
    size_t n;

    AM_REQUIRE_FEATURE(AM_PRODUCT_USAGE, "%s do not report memory usage");
    AM_REQUIRE_NONNULL(memUsageInfo, outputNum);
    AM_REQUIRE_NONZERO(inputNum);
    AM_TRY(am_device_find(deviceId, &device));
    domain = am_domain_get(&device->domain);
    AM_REQUIRE(domain != NULL, ACL_ERROR_UNINITIALIZE, "aclFinalize has been called");
    n = usage_collect(domain, usage);
    am_domain_put(domain);
    if (n > inputNum)
        n = inputNum;
    memcpy(memUsageInfo, usage, n * sizeof *usage);
    *outputNum = n;
    return ACL_SUCCESS;
}
