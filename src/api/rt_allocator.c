/* User allocators. */
#include "api/api.h"
#include "api/check.h"
#include "base/error.h"
#include "core/pool/allocator.h"

aclrtAllocatorDesc am_aclrtAllocatorCreateDesc(void)
{
    void *handle;

    return am_allocator_create(&handle) == ACL_SUCCESS ? handle : NULL;
}

#define SETTER(name_, type_, arg_, field_) \
    aclError name_(aclrtAllocatorDesc allocatorDesc, type_ arg_) \
    { \
        return am_allocator_set(allocatorDesc, \
                                &(struct am_allocator_functions){.field_ = arg_}); \
    }

SETTER(am_aclrtAllocatorSetObjToDesc, aclrtAllocator, allocator, object)
SETTER(am_aclrtAllocatorSetAllocFuncToDesc, aclrtAllocatorAllocFunc, func, alloc)
SETTER(am_aclrtAllocatorSetFreeFuncToDesc, aclrtAllocatorFreeFunc, func, free)
SETTER(am_aclrtAllocatorSetAllocAdviseFuncToDesc, aclrtAllocatorAllocAdviseFunc, func,
       advise)
SETTER(am_aclrtAllocatorSetGetAddrFromBlockFuncToDesc, aclrtAllocatorGetAddrFromBlockFunc,
       func, get_addr)

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
