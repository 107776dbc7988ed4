/* See allocator.h. */
#include "core/pool/allocator.h"

#include <stdlib.h>

#include "acl/error_codes/rt_error_codes.h"
#include "base/error.h"
#include "base/handle.h"
#include "base/sys.h"
#include "base/util.h"

static struct am_lock allocators_lock = AM_LOCK_INIT(AM_RANK_POOL, "allocators");

struct allocator {
    struct am_named
        named;    /* a reference until it is destroyed, and one for each stream */
    void *handle; /* also of one that was destroyed and is registered with a stream */
    struct am_allocator_functions functions; /* allocators_lock, as the next one */
    LIST_ENTRY(allocator) all;
};

/* Which allocator a stream uses; removed when the stream has ended. */
struct registration {
    void *stream; /* its handle */
    struct allocator *allocator;
    LIST_ENTRY(registration) all;
};

/* allocators_lock */
static LIST_HEAD(, allocator) allocators = LIST_HEAD_INITIALIZER(allocators);
static LIST_HEAD(, registration) registrations = LIST_HEAD_INITIALIZER(registrations);

aclError am_allocator_create(void **ret_handle)
{
    struct allocator *allocator = am_named_alloc(AM_KIND_ALLOCATOR, sizeof *allocator);

    if (allocator == NULL)
        return am_fail(ACL_ERROR_BAD_ALLOC, "no memory for an allocator");
    am_lock(&allocators_lock);
    *ret_handle = allocator->handle = am_named_publish(&allocator->named);
    LIST_INSERT_HEAD(&allocators, allocator, all);
    am_unlock(&allocators_lock);
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

static void allocator_put(struct allocator *allocator)
{
    if (am_ref_drop(&allocator->named.refs))
        am_named_free(&allocator->named);
}

static void destroy_locked(struct allocator *allocator) AM_REQUIRES(allocators_lock)
{
    LIST_REMOVE(allocator, all);
    am_named_unpublish(&allocator->named);
    allocator_put(allocator);
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

/* Removes the registrations of ended streams, and of this one (or NULL). */
static void registrations_remove_locked(const struct am_stream *stream)
    AM_REQUIRES(allocators_lock)
{
    struct registration *r, *next;

    for (r = LIST_FIRST(&registrations); r != NULL; r = next) {
        next = LIST_NEXT(r, all);
        if ((stream == NULL || r->stream != stream->named.handle) &&
            am_named_find(AM_KIND_STREAM, r->stream) != NULL)
            continue;
        LIST_REMOVE(r, all);
        allocator_put(r->allocator);
        free(r);
    }
}

void am_allocator_destroy_all(void)
{
    struct allocator *allocator;

    am_lock(&allocators_lock);
    registrations_remove_locked(NULL); /* all streams have ended */
    while ((allocator = LIST_FIRST(&allocators)) != NULL)
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

static aclError register_locked(struct registration *r, void *handle,
                                const struct am_stream *stream)
    AM_REQUIRES(allocators_lock)
{
    const struct am_allocator_functions *functions;

    AM_TRY(find_locked(handle, &r->allocator));
    functions = &r->allocator->functions; /* advice may be missing */
    AM_REQUIRE(functions->alloc != NULL && functions->free != NULL &&
                   functions->get_addr != NULL,
               ACL_ERROR_RT_PARAM_INVALID,
               "allocatorDesc %p has no %s function; set it before it is registered",
               handle,
               functions->alloc == NULL  ? "alloc"
               : functions->free == NULL ? "free"
                                         : "get-address-from-block");
    r->stream = stream->named.handle;
    am_ref_more(
        &r->allocator->named.refs); /* which may be the one that the stream has already */
    registrations_remove_locked(stream);
    LIST_INSERT_HEAD(&registrations, r, all);
    return ACL_SUCCESS;
}

aclError am_allocator_register(struct am_stream *stream, void *handle)
{
    struct registration *r = am_sys_malloc(sizeof *r);
    aclError rc;

    AM_REQUIRE(r != NULL, ACL_ERROR_BAD_ALLOC, "no memory for a registration");
    rc = AM_LOCKED(&allocators_lock, register_locked(r, handle, stream));
    if (rc != ACL_SUCCESS)
        free(r);
    return rc;
}

void am_allocator_unregister(struct am_stream *stream)
{
    am_lock(&allocators_lock);
    registrations_remove_locked(stream);
    am_unlock(&allocators_lock);
}

aclError am_allocator_find(struct am_stream *stream, void **ret_handle,
                           struct am_allocator_functions *ret_functions)
{
    const struct registration *r;

    am_lock(&allocators_lock);
    LIST_FOREACH (r, &registrations, all) {
        if (r->stream == stream->named.handle)
            break;
    }
    if (r != NULL) {
        *ret_handle = r->allocator->handle;
        *ret_functions = r->allocator->functions;
    }
    am_unlock(&allocators_lock);
    AM_REQUIRE(r != NULL, ACL_ERROR_RT_PARAM_INVALID,
               "no allocator is registered with stream %d", stream->id);
    return ACL_SUCCESS;
}
