/* User allocators. */
#include "api/api.h"
#include "api/check.h"
#include "api/held.h"
#include "base/error.h"
#include "core/pool/allocator.h"

aclrtAllocatorDesc am_aclrtAllocatorCreateDesc(void)
{
    void *handle;

    return am_allocator_create(&handle) == ACL_SUCCESS ? handle : NULL;
}

static aclError desc_check(const void *allocatorDesc)
{
    AM_REQUIRE_NONNULL(allocatorDesc);
    return ACL_SUCCESS;
}

aclError am_aclrtAllocatorDestroyDesc(aclrtAllocatorDesc allocatorDesc)
{
    AM_TRY(desc_check(allocatorDesc));
    return am_allocator_destroy(allocatorDesc);
}

/* One field of a description; given is whether the argument was. */
static aclError field_set(aclrtAllocatorDesc allocatorDesc, bool given, const char *name,
                          const struct am_allocator_functions *functions)
{
    AM_TRY(desc_check(allocatorDesc));
    AM_REQUIRE(given, ACL_ERROR_INVALID_PARAM, "%s is NULL", name);
    return am_allocator_set(allocatorDesc, functions);
}

aclError am_aclrtAllocatorSetObjToDesc(aclrtAllocatorDesc allocatorDesc,
                                       aclrtAllocator allocator)
{
    return field_set(allocatorDesc, allocator != NULL, "allocator",
                     &(struct am_allocator_functions){.object = allocator});
}

aclError am_aclrtAllocatorSetAllocFuncToDesc(aclrtAllocatorDesc allocatorDesc,
                                             aclrtAllocatorAllocFunc func)
{
    return field_set(allocatorDesc, func != NULL, "func",
                     &(struct am_allocator_functions){.alloc = func});
}

aclError am_aclrtAllocatorSetFreeFuncToDesc(aclrtAllocatorDesc allocatorDesc,
                                            aclrtAllocatorFreeFunc func)
{
    return field_set(allocatorDesc, func != NULL, "func",
                     &(struct am_allocator_functions){.free = func});
}

aclError am_aclrtAllocatorSetAllocAdviseFuncToDesc(aclrtAllocatorDesc allocatorDesc,
                                                   aclrtAllocatorAllocAdviseFunc func)
{
    return field_set(allocatorDesc, func != NULL, "func",
                     &(struct am_allocator_functions){.advise = func});
}

aclError
am_aclrtAllocatorSetGetAddrFromBlockFuncToDesc(aclrtAllocatorDesc allocatorDesc,
                                               aclrtAllocatorGetAddrFromBlockFunc func)
{
    return field_set(allocatorDesc, func != NULL, "func",
                     &(struct am_allocator_functions){.get_addr = func});
}

/* A stream that the program made: default streams have no allocator. */
static aclError stream_get(aclrtStream handle, struct am_stream **ret_stream)
{
    AM_REQUIRE(handle != NULL, ACL_ERROR_INVALID_PARAM,
               "stream is NULL; the default stream takes no allocator");
    return am_stream_get(handle, ret_stream);
}

aclError am_aclrtAllocatorRegister(aclrtStream handle, aclrtAllocatorDesc allocatorDesc)
{
    AM_HELD(stream, stream);

    AM_TRY(desc_check(allocatorDesc));
    AM_TRY(stream_get(handle, &stream));
    return am_allocator_register(stream, allocatorDesc);
}

aclError am_aclrtAllocatorGetByStream(
    aclrtStream handle, aclrtAllocatorDesc *allocatorDesc, aclrtAllocator *allocator,
    aclrtAllocatorAllocFunc *allocFunc, aclrtAllocatorFreeFunc *freeFunc,
    aclrtAllocatorAllocAdviseFunc *allocAdviseFunc,
    aclrtAllocatorGetAddrFromBlockFunc *getAddrFromBlockFunc)
{
    struct am_allocator_functions found;
    AM_HELD(stream, stream);

    AM_REQUIRE(allocatorDesc != NULL && allocator != NULL && allocFunc != NULL &&
                   freeFunc != NULL && allocAdviseFunc != NULL &&
                   getAddrFromBlockFunc != NULL,
               ACL_ERROR_INVALID_PARAM, "a result pointer is NULL");
    AM_TRY(stream_get(handle, &stream));
    AM_TRY(am_allocator_find(stream, allocatorDesc, &found));
    *allocator = found.object;
    *allocFunc = found.alloc;
    *freeFunc = found.free;
    *allocAdviseFunc = found.advise;
    *getAddrFromBlockFunc = found.get_addr;
    return ACL_SUCCESS;
}

aclError am_aclrtAllocatorUnregister(aclrtStream handle)
{
    AM_HELD(stream, stream);

    AM_REQUIRE(handle != NULL, ACL_ERROR_INVALID_PARAM,
               "stream is NULL; the default stream takes no allocator");
    stream = am_stream_find(handle);
    if (stream == NULL)
        return ACL_SUCCESS; /* documented: a stream that is not known has none */
    am_allocator_unregister(stream);
    return ACL_SUCCESS;
}
