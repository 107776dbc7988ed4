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

aclError am_aclrtAllocatorGetByStream(
    struct am_stream *stream, aclrtAllocatorDesc *allocatorDesc,
    aclrtAllocator *allocator, aclrtAllocatorAllocFunc *allocFunc,
    aclrtAllocatorFreeFunc *freeFunc, aclrtAllocatorAllocAdviseFunc *allocAdviseFunc,
    aclrtAllocatorGetAddrFromBlockFunc *getAddrFromBlockFunc)
{
    struct am_allocator_functions found;

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

    stream = am_named_get(AM_KIND_STREAM, handle);
    if (stream != NULL) /* documented: a stream that is not known has no allocator */
        am_allocator_unregister(stream);
    return ACL_SUCCESS;
}
