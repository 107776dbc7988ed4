/* User allocators: descriptions, and which stream has which. */
#include "support/streams.h"

static void *my_alloc(aclrtAllocator allocator, size_t size)
{
    return allocator;
}

static void my_free(aclrtAllocator allocator, aclrtAllocatorBlock block)
{
}

static void *my_advise(aclrtAllocator allocator, size_t size, aclrtAllocatorAddr addr)
{
    return allocator;
}

static void *my_addr(aclrtAllocatorBlock block)
{
    return block;
}

static char my_object;

static aclrtAllocatorDesc desc_create(void)
{
    aclrtAllocatorDesc desc = aclrtAllocatorCreateDesc();

    assert_non_null(desc);
    assert_acl_ok(aclrtAllocatorSetObjToDesc(desc, &my_object));
    assert_acl_ok(aclrtAllocatorSetAllocFuncToDesc(desc, my_alloc));
    assert_acl_ok(aclrtAllocatorSetFreeFuncToDesc(desc, my_free));
    assert_acl_ok(aclrtAllocatorSetAllocAdviseFuncToDesc(desc, my_advise));
    assert_acl_ok(aclrtAllocatorSetGetAddrFromBlockFuncToDesc(desc, my_addr));
    return desc;
}

struct found {
    aclrtAllocatorDesc desc;
    aclrtAllocator object;
    aclrtAllocatorAllocFunc alloc;
    aclrtAllocatorFreeFunc free;
    aclrtAllocatorAllocAdviseFunc advise;
    aclrtAllocatorGetAddrFromBlockFunc addr;
};

static aclError find(aclrtStream stream, struct found *f)
{
    return aclrtAllocatorGetByStream(stream, &f->desc, &f->object, &f->alloc, &f->free,
                                     &f->advise, &f->addr);
}

static void assert_finds(aclrtStream stream, aclrtAllocatorDesc desc)
{
    struct found f = {.desc = NULL};

    assert_acl_ok(find(stream, &f));
    assert_ptr_equal(f.desc, desc);
    assert_ptr_equal(f.object, &my_object);
    assert_true(f.alloc == my_alloc && f.free == my_free);
    assert_true(f.advise == my_advise && f.addr == my_addr);
}

static void a_stream_gives_back_what_was_registered(void **state)
{
    aclrtStream stream = make_stream(), other = make_stream();
    aclrtAllocatorDesc desc = desc_create();
    struct found f = {.desc = &f};

    assert_acl_ok(aclrtAllocatorRegister(stream, desc));
    assert_finds(stream, desc);
    assert_refused(find(other, &f), ACL_ERROR_RT_PARAM_INVALID, "no allocator");
    assert_ptr_equal(f.desc, &f);
    assert_acl_ok(aclrtAllocatorUnregister(stream));
    assert_refused(find(stream, &f), ACL_ERROR_RT_PARAM_INVALID, "no allocator");
    assert_acl_ok(aclrtAllocatorDestroyDesc(desc));
    assert_acl_ok(aclrtDestroyStream(stream));
    assert_acl_ok(aclrtDestroyStream(other));
}

static void the_last_registration_wins(void **state)
{
    aclrtStream stream = make_stream();
    aclrtAllocatorDesc first = desc_create(), second = desc_create();

    assert_ptr_not_equal(first, second);
    assert_acl_ok(aclrtAllocatorRegister(stream, first));
    assert_acl_ok(aclrtAllocatorRegister(stream, second));
    assert_finds(stream, second);
    assert_acl_ok(aclrtAllocatorRegister(stream, second));
    assert_finds(stream, second);
    assert_acl_ok(aclrtAllocatorDestroyDesc(first));
    assert_acl_ok(aclrtAllocatorDestroyDesc(second));
    assert_finds(stream, second); /* the stream keeps it */
    assert_acl_ok(aclrtDestroyStream(stream));
}

static void unregistering_a_missing_callback_succeeds(void **state)
{
    aclrtStream stream = make_stream();
    aclrtAllocatorDesc desc = desc_create();

    assert_acl_ok(aclrtAllocatorUnregister(stream));
    assert_acl_ok(aclrtAllocatorRegister(stream, desc));
    assert_acl_ok(aclrtAllocatorUnregister(stream));
    assert_acl_ok(aclrtAllocatorUnregister(stream));
    assert_acl_ok(aclrtDestroyStream(stream));
    assert_acl_ok(aclrtAllocatorUnregister(stream));
    assert_acl_ok(aclrtAllocatorUnregister(&stream));
    assert_acl_ok(aclrtAllocatorDestroyDesc(desc));
}

static void wrong_calls_are_refused(void **state)
{
    aclrtStream stream = make_stream();
    aclrtAllocatorDesc desc = desc_create();
    struct found f;

    assert_bad_arg(aclrtAllocatorRegister(NULL, desc), "stream");
    assert_bad_arg(aclrtAllocatorRegister(stream, NULL), "allocatorDesc");
    assert_refused(aclrtAllocatorRegister(desc, desc), ACL_ERROR_RT_INVALID_HANDLE,
                   "an allocator");
    assert_refused(aclrtAllocatorRegister(stream, stream), ACL_ERROR_RT_INVALID_HANDLE,
                   "a stream");
    assert_bad_arg(find(NULL, &f), "stream");
    assert_bad_arg(aclrtAllocatorUnregister(NULL), "stream");
    assert_bad_arg(aclrtAllocatorGetByStream(stream, NULL, &f.object, &f.alloc, &f.free,
                                             &f.advise, &f.addr),
                   "NULL");
    assert_bad_arg(aclrtAllocatorGetByStream(stream, &f.desc, &f.object, &f.alloc,
                                             &f.free, &f.advise, NULL),
                   "NULL");
    assert_bad_arg(aclrtAllocatorSetObjToDesc(NULL, &my_object), "allocatorDesc");
    assert_bad_arg(aclrtAllocatorSetObjToDesc(desc, NULL), "allocator");
    assert_bad_arg(aclrtAllocatorSetAllocFuncToDesc(desc, NULL), "func");
    assert_bad_arg(aclrtAllocatorSetFreeFuncToDesc(desc, NULL), "func");
    assert_bad_arg(aclrtAllocatorSetAllocAdviseFuncToDesc(desc, NULL), "func");
    assert_bad_arg(aclrtAllocatorSetGetAddrFromBlockFuncToDesc(desc, NULL), "func");
    assert_bad_arg(aclrtAllocatorDestroyDesc(NULL), "allocatorDesc");
    assert_acl_ok(aclrtAllocatorDestroyDesc(desc));
    assert_refused(aclrtAllocatorDestroyDesc(desc), ACL_ERROR_RT_INVALID_HANDLE,
                   "allocatorDesc");
    assert_refused(aclrtAllocatorSetObjToDesc(desc, &my_object),
                   ACL_ERROR_RT_INVALID_HANDLE, "allocatorDesc");
    assert_acl_ok(aclrtDestroyStream(stream));
}

static void half_an_allocator_is_not_registered(void **state)
{
    aclrtStream stream = make_stream();
    aclrtAllocatorDesc desc = aclrtAllocatorCreateDesc();
    struct found f;

    assert_refused(aclrtAllocatorRegister(stream, desc), ACL_ERROR_RT_PARAM_INVALID,
                   "alloc");
    assert_acl_ok(aclrtAllocatorSetAllocFuncToDesc(desc, my_alloc));
    assert_refused(aclrtAllocatorRegister(stream, desc), ACL_ERROR_RT_PARAM_INVALID,
                   "free");
    assert_acl_ok(aclrtAllocatorSetFreeFuncToDesc(desc, my_free));
    assert_refused(aclrtAllocatorRegister(stream, desc), ACL_ERROR_RT_PARAM_INVALID,
                   "address");
    assert_acl_ok(aclrtAllocatorSetGetAddrFromBlockFuncToDesc(desc, my_addr));
    assert_acl_ok(aclrtAllocatorRegister(stream, desc)); /* advice may be missing */
    assert_acl_ok(find(stream, &f));
    assert_null(f.object);
    assert_true(f.advise == NULL && f.alloc == my_alloc);
    assert_acl_ok(aclrtDestroyStream(stream));
    assert_acl_ok(aclrtAllocatorDestroyDesc(desc));
}

static void finalize_ends_leftover_streams(void **state)
{
    aclrtStream stream = make_stream();
    aclrtAllocatorDesc desc = desc_create();

    assert_acl_ok(aclrtAllocatorRegister(stream, desc));
    assert_acl_ok(aclFinalize());
    assert_null(aclrtAllocatorCreateDesc());
    start("default");
    assert_refused(aclrtAllocatorDestroyDesc(desc), ACL_ERROR_RT_INVALID_HANDLE,
                   "allocatorDesc");
}

int main(void)
{
    const struct CMUnitTest claims[] = {
        claim_both(a_stream_gives_back_what_was_registered),
        claim_both(the_last_registration_wins),
        claim_both(unregistering_a_missing_callback_succeeds),
        claim_both(wrong_calls_are_refused),
        claim_both(half_an_allocator_is_not_registered),
        claim(finalize_ends_leftover_streams),
    };

    return run_claims(claims);
}
