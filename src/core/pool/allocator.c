/* See allocator.h. */
#include "core/device/setup.h"
#include "core/pool/allocator.h"

#include <stdlib.h>

#include "acl/error_codes/rt_error_codes.h"
#include "base/error.h"
#include "base/handle.h"
#include "base/sys.h"
#include "base/util.h"

struct am_allocator {
    struct am_named named;
    void *handle; /* also of one that was destroyed and is registered with a stream */
    struct am_allocator_functions functions; /* allocators_lock, as all below */
    bool is_dead;
    LIST_ENTRY(am_allocator) all;
};

static struct am_lock allocators_lock = AM_LOCK_INIT(AM_RANK_LEAF, "allocators");
static LIST_HEAD(, am_allocator)
    allocators = LIST_HEAD_INITIALIZER(allocators); /* allocators_lock */

/* Which allocator a stream uses; removed when the stream has ended. */
struct registration {
    void *stream;                   /* its handle */
    struct am_allocator *allocator; /* holds a reference */
    LIST_ENTRY(registration) all;
};

static LIST_HEAD(, registration)
    registrations = LIST_HEAD_INITIALIZER(registrations); /* allocators_lock */

void am_allocator_put(struct am_allocator *allocator)
{
    if (allocator != NULL && am_ref_drop(&allocator->named.refs))
        am_named_free(&allocator->named);
}

aclError am_allocator_create(void **ret_handle)
{
    struct am_allocator *allocator = am_named_alloc(AM_KIND_ALLOCATOR, sizeof *allocator);
    void *handle;

    if (allocator == NULL)
        return am_fail(ACL_ERROR_BAD_ALLOC, "no memory for an allocator");
    allocator->named.refs = 1;
    handle = allocator->handle = am_named_publish(&allocator->named);
    am_lock(&allocators_lock);
    LIST_INSERT_HEAD(&allocators, allocator, all);
    am_unlock(&allocators_lock); /* from here on the library's stop may end it */
    *ret_handle = handle;
    return ACL_SUCCESS;
}

static aclError allocator_get(void *handle, struct am_allocator **ret_allocator)
{
    *ret_allocator = am_named_get(AM_KIND_ALLOCATOR, handle);
    AM_REQUIRE(*ret_allocator != NULL, ACL_ERROR_RT_INVALID_HANDLE, "allocatorDesc %p %s",
               handle, am_handle_why(AM_KIND_ALLOCATOR, handle));
    return ACL_SUCCESS;
}

/* False when somebody was faster. */
static bool allocator_end(struct am_allocator *allocator)
{
    bool was_alive;

    am_lock(&allocators_lock);
    was_alive = !allocator->is_dead;
    allocator->is_dead = true;
    if (was_alive)
        LIST_REMOVE(allocator, all);
    am_unlock(&allocators_lock);
    if (was_alive) {
        am_named_unpublish(&allocator->named);
        am_allocator_put(allocator);
    }
    return was_alive;
}

aclError am_allocator_destroy(void *handle)
{
    struct am_allocator *allocator;
    aclError rc = ACL_SUCCESS;

    AM_TRY(allocator_get(handle, &allocator));
    if (!allocator_end(allocator))
        rc =
            am_fail(ACL_ERROR_RT_INVALID_HANDLE, "allocatorDesc %p is not alive", handle);
    am_allocator_put(allocator);
    return rc;
}

static struct registration *registration_find_locked(const struct am_stream *stream)
    AM_REQUIRES(allocators_lock)
{
    struct registration *r;

    LIST_FOREACH (r, &registrations, all) {
        if (r->stream == stream->named.handle)
            return r;
    }
    return NULL;
}

/* Removes the registrations of ended streams, and of this one (or NULL). */
static void registrations_remove(const struct am_stream *stream)
{
    struct registration *r;

    do {
        am_lock(&allocators_lock);
        LIST_FOREACH (r, &registrations, all) {
            if ((stream != NULL && r->stream == stream->named.handle) ||
                am_named_find(AM_KIND_STREAM, r->stream) == NULL)
                break;
        }
        if (r != NULL)
            LIST_REMOVE(r, all);
        am_unlock(&allocators_lock);
        if (r != NULL)
            am_allocator_put(r->allocator);
        free(r);
    } while (r != NULL);
}

void am_allocator_destroy_all(void)
{
    struct am_allocator *allocator;

    registrations_remove(NULL); /* all streams have ended */
    do {
        am_lock(&allocators_lock);
        allocator = LIST_FIRST(&allocators);
        if (allocator != NULL)
            am_ref_more(&allocator->named.refs);
        am_unlock(&allocators_lock);
        if (allocator != NULL)
            allocator_end(allocator);
        am_allocator_put(allocator);
    } while (allocator != NULL);
}

aclError am_allocator_set(void *handle, const struct am_allocator_functions *functions)
{
    struct am_allocator *allocator;

    AM_TRY(allocator_get(handle, &allocator));
    am_lock(&allocators_lock);
    if (functions->object != NULL)
        allocator->functions.object = functions->object;
    if (functions->alloc != NULL)
        allocator->functions.alloc = functions->alloc;
    if (functions->free != NULL)
        allocator->functions.free = functions->free;
    if (functions->advise != NULL)
        allocator->functions.advise = functions->advise;
    if (functions->get_addr != NULL)
        allocator->functions.get_addr = functions->get_addr;
    am_unlock(&allocators_lock);
    am_allocator_put(allocator);
    return ACL_SUCCESS;
}

/* What an allocator cannot do without; advice may be missing. */
static aclError functions_check(struct am_allocator *allocator)
{
    struct am_allocator_functions functions;

    am_lock(&allocators_lock);
    functions = allocator->functions;
    am_unlock(&allocators_lock);
    AM_REQUIRE(functions.alloc != NULL && functions.free != NULL &&
                   functions.get_addr != NULL,
               ACL_ERROR_RT_PARAM_INVALID,
               "allocatorDesc %p has no %s function; set it before it is registered",
               allocator->handle,
               functions.alloc == NULL  ? "alloc"
               : functions.free == NULL ? "free"
                                        : "get-address-from-block");
    return ACL_SUCCESS;
}

aclError am_allocator_register(struct am_stream *stream, void *handle)
{
    struct am_allocator *allocator;
    struct registration *r;
    aclError rc;

    AM_TRY(allocator_get(handle, &allocator));
    rc = functions_check(allocator);
    r = rc == ACL_SUCCESS ? am_sys_malloc(sizeof *r) : NULL;
    if (rc == ACL_SUCCESS && r == NULL)
        rc = am_fail(ACL_ERROR_BAD_ALLOC, "no memory for a registration");
    if (rc != ACL_SUCCESS) {
        am_allocator_put(allocator);
        return rc;
    }
    registrations_remove(stream);
    *r = (struct registration){.stream = stream->named.handle, .allocator = allocator};
    am_lock(&allocators_lock);
    LIST_INSERT_HEAD(&registrations, r, all);
    am_unlock(&allocators_lock);
    return ACL_SUCCESS;
}

void am_allocator_unregister(struct am_stream *stream)
{
    registrations_remove(stream);
}

aclError am_allocator_find(struct am_stream *stream, void **ret_handle,
                           struct am_allocator_functions *ret_functions)
{
    struct am_allocator *allocator = NULL;
    const struct registration *r;

    am_lock(&allocators_lock);
    r = registration_find_locked(stream);
    if (r != NULL) {
        allocator = r->allocator;
        am_ref_more(&allocator->named.refs);
    }
    am_unlock(&allocators_lock);
    AM_REQUIRE(allocator != NULL, ACL_ERROR_RT_PARAM_INVALID,
               "no allocator is registered with stream %d", stream->id);
    am_lock(&allocators_lock);
    *ret_functions = allocator->functions;
    am_unlock(&allocators_lock);
    *ret_handle = allocator->handle;
    am_allocator_put(allocator);
    return ACL_SUCCESS;
}
