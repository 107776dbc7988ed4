/* See allocator.h. */
#include "core/pool/allocator.h"

#include "acl/error_codes/rt_error_codes.h"
#include "base/error.h"
#include "base/handle.h"
#include "base/util.h"

static struct am_lock allocators_lock = AM_LOCK_INIT(AM_RANK_POOL, "allocators");

struct allocator {
    struct am_named
        named;    /* a reference until it is destroyed, and one for each stream */
    void *handle; /* also of one that was destroyed and is registered with a stream */
    struct am_allocator_functions functions; /* allocators_lock */
};

aclError am_allocator_create(void **ret_handle)
{
    struct allocator *allocator = am_named_alloc(AM_KIND_ALLOCATOR, sizeof *allocator);

    if (allocator == NULL)
        return am_fail(ACL_ERROR_BAD_ALLOC, "no memory for an allocator");
    *ret_handle = allocator->handle = am_named_publish(&allocator->named);
    return ACL_SUCCESS;
}

static aclError find_locked(void *handle, struct allocator **ret_allocator)
    AM_REQUIRES(allocators_lock)
{
    *ret_allocator = am_named_find(AM_KIND_ALLOCATOR, handle);
    AM_REQUIRE(*ret_allocator != NULL, ACL_ERROR_RT_INVALID_HANDLE, "allocatorDesc %p %s",
               handle, am_handle_why(AM_KIND_ALLOCATOR, handle));
    return ACL_SUCCESS;
}

static void destroy_locked(struct allocator *allocator) AM_REQUIRES(allocators_lock)
{
    am_named_unpublish(&allocator->named);
    am_named_put(&allocator->named);
}

aclError am_allocator_destroy(void *handle)
{
    struct allocator *allocator;
    aclError rc;

    am_lock(&allocators_lock);
    rc = find_locked(handle, &allocator);
    if (rc == ACL_SUCCESS)
        destroy_locked(allocator);
    am_unlock(&allocators_lock);
    return rc;
}

void am_allocator_destroy_all(void)
{
    struct allocator *allocator;
    uint32_t at = 0;

    am_lock(&allocators_lock);
    while ((allocator = am_named_next(AM_KIND_ALLOCATOR, &at)) != NULL)
        destroy_locked(allocator);
    am_unlock(&allocators_lock);
}

aclError am_allocator_set(void *handle, const struct am_allocator_functions *functions)
{
    struct allocator *allocator;
    aclError rc;

    am_lock(&allocators_lock);
    rc = find_locked(handle, &allocator);
    if (rc == ACL_SUCCESS) {
        struct am_allocator_functions *to = &allocator->functions;

        to->object = functions->object != NULL ? functions->object : to->object;
        to->alloc = functions->alloc != NULL ? functions->alloc : to->alloc;
        to->free = functions->free != NULL ? functions->free : to->free;
        to->advise = functions->advise != NULL ? functions->advise : to->advise;
        to->get_addr = functions->get_addr != NULL ? functions->get_addr : to->get_addr;
    }
    am_unlock(&allocators_lock);
    return rc;
}

/* The allocator of the stream, or NULL, becomes this one, with a reference. */
static void stream_set_locked(struct am_stream *stream, struct am_named *allocator)
    AM_REQUIRES(allocators_lock)
{
    if (allocator != NULL)
        am_ref_more(&allocator->refs); /* it may be the one that the stream has already */
    am_named_put(stream->allocator);
    stream->allocator = allocator;
}

static aclError register_locked(struct am_stream *stream, void *handle)
    AM_REQUIRES(allocators_lock)
{
    const struct am_allocator_functions *functions;
    struct allocator *allocator;

    AM_TRY(find_locked(handle, &allocator));
    functions = &allocator->functions; /* advice may be missing */
    AM_REQUIRE(functions->alloc != NULL && functions->free != NULL &&
                   functions->get_addr != NULL,
               ACL_ERROR_RT_PARAM_INVALID,
               "allocatorDesc %p has no %s function; set it before it is registered",
               handle,
               functions->alloc == NULL  ? "alloc"
               : functions->free == NULL ? "free"
                                         : "get-address-from-block");
    stream_set_locked(stream, &allocator->named);
    return ACL_SUCCESS;
}

aclError am_allocator_register(struct am_stream *stream, void *handle)
{
    return AM_LOCKED(&allocators_lock, register_locked(stream, handle));
}

void am_allocator_unregister(struct am_stream *stream)
{
    am_lock(&allocators_lock);
    stream_set_locked(stream, NULL);
    am_unlock(&allocators_lock);
}

aclError am_allocator_find(struct am_stream *stream, void **ret_handle,
                           struct am_allocator_functions *ret_functions)
{
    const struct allocator *allocator;

    am_lock(&allocators_lock);
    allocator = (const struct allocator *)stream->allocator;
    if (allocator != NULL) {
        *ret_handle = allocator->handle;
        *ret_functions = allocator->functions;
    }
    am_unlock(&allocators_lock);
    AM_REQUIRE(allocator != NULL, ACL_ERROR_RT_PARAM_INVALID,
               "no allocator is registered with stream %d", stream->id);
    return ACL_SUCCESS;
}
