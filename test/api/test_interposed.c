/*
 * A layer of the program's own over the library, as torch_memory_saver and profilers are:
 * symbols of the same names that come first, and reach the library's with RTLD_NEXT.
 * Here they are the test program's, which come before a library's as those of LD_PRELOAD
 * do.
 *
 * It turns every block into a mapping, so that its memory can be given back and come back
 * at the same address; and the library must never call itself through it.
 */
#include "support/streams.h"
#include "support/vmm.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#define INTERPOSED __attribute__((visibility("default")))

enum { MAX_SAVED = 16 };

static struct block saved[MAX_SAVED];
static uint8_t *kept[MAX_SAVED]; /* what was in it, while it is paused */
static unsigned n_calls;         /* through the names below */

/* The library's own function of that name. */
#define NEXT(name_) \
    ({ \
        __typeof__(&(name_)) next_ = \
            (__typeof__(&(name_)))(uintptr_t)dlsym(RTLD_NEXT, #name_); \
        assert_non_null(next_); \
        next_; \
    })

static struct block *saved_find(const void *va)
{
    for (size_t i = 0; i < MAX_SAVED; i++) {
        if (saved[i].va == va)
            return &saved[i];
    }
    return NULL;
}

/* Sizes are what the program asks for, rounded by nobody. */
INTERPOSED aclError aclrtMalloc(void **devPtr, size_t size, aclrtMemMallocPolicy policy)
{
    aclrtPhysicalMemProp prop = device_prop(0, ACL_HBM_MEM_HUGE);
    struct block *b = saved_find(NULL);
    aclError rc;

    n_calls++;
    assert_non_null(b);
    rc = NEXT(aclrtMallocPhysical)(&b->handle, size, &prop, 0);
    if (rc == ACL_SUCCESS)
        rc = NEXT(aclrtReserveMemAddress)(devPtr, size, 0, NULL, 1);
    if (rc == ACL_SUCCESS)
        rc = NEXT(aclrtMapMem)(*devPtr, size, 0, b->handle, 0);
    b->va = *devPtr;
    b->size = size;
    return rc;
}

INTERPOSED aclError aclrtFree(void *devPtr)
{
    struct block *b = saved_find(devPtr);
    aclError rc;

    n_calls++;
    if (devPtr == NULL || b == NULL)
        return NEXT(aclrtFree)(devPtr);
    rc = NEXT(aclrtSynchronizeDeviceWithTimeout)(600000);
    if (rc == ACL_SUCCESS)
        rc = NEXT(aclrtUnmapMem)(devPtr);
    if (rc == ACL_SUCCESS)
        rc = NEXT(aclrtFreePhysical)(b->handle);
    if (rc == ACL_SUCCESS)
        rc = NEXT(aclrtReleaseMemAddress)(devPtr);
    b->va = NULL;
    return rc;
}

/* The rest only count: a call that passes here and is not the test's is the library's. */
INTERPOSED aclError aclrtMallocPhysical(aclrtDrvMemHandle *handle, size_t size,
                                        const aclrtPhysicalMemProp *prop, uint64_t flags)
{
    n_calls++;
    return NEXT(aclrtMallocPhysical)(handle, size, prop, flags);
}

INTERPOSED aclError aclrtFreePhysical(aclrtDrvMemHandle handle)
{
    n_calls++;
    return NEXT(aclrtFreePhysical)(handle);
}

INTERPOSED aclError aclrtUnmapMem(void *virPtr)
{
    n_calls++;
    return NEXT(aclrtUnmapMem)(virPtr);
}

INTERPOSED aclError aclrtSynchronizeStream(aclrtStream stream)
{
    n_calls++;
    return NEXT(aclrtSynchronizeStream)(stream);
}

INTERPOSED aclError aclrtFreeHost(void *hostPtr)
{
    n_calls++;
    return NEXT(aclrtFreeHost)(hostPtr);
}

INTERPOSED aclError aclrtDestroyStream(aclrtStream stream)
{
    n_calls++;
    return NEXT(aclrtDestroyStream)(stream);
}

static void saver_pause(void)
{
    for (size_t i = 0; i < MAX_SAVED; i++) {
        struct block *b = &saved[i];

        if (b->va == NULL)
            continue;
        kept[i] = malloc(b->size);
        assert_non_null(kept[i]);
        assert_acl_ok(copy(kept[i], b->va, b->size, ACL_MEMCPY_DEVICE_TO_HOST));
        assert_acl_ok(aclrtUnmapMem(b->va));
        assert_acl_ok(aclrtFreePhysical(b->handle));
    }
}

static void saver_resume(void)
{
    for (size_t i = 0; i < MAX_SAVED; i++) {
        struct block *b = &saved[i];

        if (b->va == NULL)
            continue;
        b->handle = alloc(b->size);
        map(b->va, b->size, b->handle);
        assert_acl_ok(copy(b->va, kept[i], b->size, ACL_MEMCPY_HOST_TO_DEVICE));
        free(kept[i]);
        kept[i] = NULL;
    }
}

static void a_saver_gives_memory_back_and_brings_it_to_the_same_address(void **state)
{
    static const size_t sizes[] = {3 * MIB + 777, 512, 2 * MIB, 40 * MIB};
    void *blocks[4];

    for (size_t i = 0; i < 4; i++) {
        assert_acl_ok(aclrtMalloc(&blocks[i], sizes[i], ACL_MEM_MALLOC_HUGE_FIRST));
        put_pattern(blocks[i], sizes[i], i);
    }
    for (int round = 0; round < 3; round++) {
        saver_pause();
        assert_int_equal(free_memory(), total_memory());
        saver_resume();
        for (size_t i = 0; i < 4; i++)
            assert_pattern(blocks[i], sizes[i], i);
    }
    for (size_t i = 0; i < 4; i++)
        assert_acl_ok(aclrtFree(blocks[i]));
}

/* Calls that do the work of others: none of it is done by the others' public names. */
static void the_library_never_calls_itself_by_public_names(void **state)
{
    aclrtStream stream = make_stream();
    void *blocks[4] = {NULL}, *host = NULL, *left = NULL;
    aclrtDrvMemHandle handle = alloc(CHUNK);
    char *va = reserve(CHUNK);

    map(va, CHUNK, handle);
    n_calls = 0;
    assert_acl_ok(aclrtMallocAlign32(&blocks[0], 5 * MIB, ACL_MEM_MALLOC_HUGE_FIRST));
    assert_acl_ok(aclrtMallocCached(&blocks[1], 100, ACL_MEM_MALLOC_HUGE_FIRST));
    assert_acl_ok(
        aclrtMallocWithCfg(&blocks[2], 3 * MIB, ACL_MEM_MALLOC_HUGE_FIRST, NULL));
    assert_acl_ok(aclrtMemAllocManaged(&blocks[3], CHUNK, ACL_RT_MEM_ATTACH_GLOBAL));
    assert_acl_ok(aclrtMallocHost(&host, 4096));
    assert_acl_ok(
        aclrtMemcpyAsync(va, 4096, host, 4096, ACL_MEMCPY_HOST_TO_DEVICE, stream));
    assert_acl_ok(aclrtSynchronizeDevice());
    assert_acl_ok(aclrtFreeHostWithDevSync(host));
    for (size_t i = 0; i < 4; i++)
        assert_acl_ok(aclrtFreeWithDevSync(blocks[i]));
    assert_acl_ok(aclrtMallocAlign32(&left, 5 * MIB, ACL_MEM_MALLOC_HUGE_FIRST));
    assert_acl_ok(
        aclrtResetDeviceForce(0)); /* ends the stream, the mapping, the blocks */
    assert_acl_ok(aclFinalize());
    assert_int_equal(n_calls, 0);
}

int main(void)
{
    const struct CMUnitTest claims[] = {
        claim(a_saver_gives_memory_back_and_brings_it_to_the_same_address),
        claim(the_library_never_calls_itself_by_public_names),
    };

    return run_claims(claims);
}
