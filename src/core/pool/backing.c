/* See backing.h. */
#include "core/pool/backing.h"

#include <stdlib.h>

#include "base/error.h"
#include "base/sys.h"
#include "base/util.h"
#include "core/vmm/phys.h"
#include "core/vmm/vspace.h"

enum {
    CHUNK_BACKED = 1u << 0, /* has memory */
    CHUNK_CLOSED = 1u << 1, /* and nobody may use that yet */
};

aclError am_backing_open(struct am_backing *backing, const struct am_owner *owner,
                         size_t size, struct am_device *device)
{
    struct am_chunk_use *head;
    void *base;
    aclError rc;

    *backing = (struct am_backing){.n_chunks = size >> AM_CHUNK_SHIFT};
    AM_REQUIRE(backing->n_chunks < UINT32_MAX, ACL_ERROR_RT_MEMORY_ALLOCATION,
               "Failed to allocate %zu bytes of addresses for a pool", size);
    backing->domain = am_domain_get(&device->domain);
    AM_REQUIRE(backing->domain != NULL, ACL_ERROR_UNINITIALIZE,
               "aclFinalize has been called");
    backing->chunks = am_sys_calloc(backing->n_chunks + 1, sizeof *backing->chunks);
    if (backing->chunks == NULL) {
        rc = am_fail(ACL_ERROR_BAD_ALLOC, "no memory for the books of %zu bytes", size);
        goto err_place;
    }
    rc = am_vspace_reserve_owned(owner, size, NULL, &base);
    if (rc != ACL_SUCCESS)
        goto err_chunks;
    backing->base = (uintptr_t)base;
    head = &backing->chunks[backing->n_chunks];
    head->before = head->next = (uint32_t)backing->n_chunks;
    return ACL_SUCCESS;

err_chunks:
    free(backing->chunks);
err_place:
    am_domain_put(backing->domain);
    return rc;
}

static void *chunk_address(const struct am_backing *backing, size_t chunk)
{
    return (void *)(backing->base + (chunk << AM_CHUNK_SHIFT));
}

bool am_backing_has(const struct am_backing *backing, size_t chunk)
{
    return backing->chunks[chunk].state & CHUNK_BACKED;
}

size_t am_backing_missing(const struct am_backing *backing, size_t first, size_t end)
{
    size_t n = 0;

    for (size_t i = first; i < end; i++)
        n += !am_backing_has(backing, i);
    return n;
}

bool am_backing_is_usable(const struct am_backing *backing, size_t first, size_t end)
{
    for (size_t i = first; i < end; i++) {
        if (backing->chunks[i].state != CHUNK_BACKED)
            return false;
    }
    return true;
}

static void idle_enter(struct am_backing *backing, size_t chunk)
{
    struct am_chunk_use *head = &backing->chunks[backing->n_chunks];
    struct am_chunk_use *use = &backing->chunks[chunk];

    use->before = head->before;
    use->next = (uint32_t)backing->n_chunks;
    backing->chunks[head->before].next = (uint32_t)chunk;
    head->before = (uint32_t)chunk;
}

static void idle_leave(struct am_backing *backing, size_t chunk)
{
    struct am_chunk_use *use = &backing->chunks[chunk];

    backing->chunks[use->before].next = use->next;
    backing->chunks[use->next].before = use->before;
}

/* Memory for one chunk; nobody may use it yet. */
static aclError chunk_fill(struct am_backing *backing, size_t chunk)
{
    const aclrtPhysicalMemProp prop = {
        .memAttr = ACL_HBM_MEM_HUGE,
        .location = {.type = ACL_MEM_LOCATION_TYPE_DEVICE,
                     .id = (uint32_t)backing->domain->device},
    };
    struct am_phys *phys;
    aclError rc;

    AM_TRY(am_phys_create_owned(AM_CHUNK, &prop, backing->domain, &phys));
    rc = am_vspace_map_owned(chunk_address(backing, chunk), phys, false);
    am_phys_put(phys); /* the mapping has a reference of its own */
    if (rc != ACL_SUCCESS)
        return rc;
    backing->chunks[chunk].state = CHUNK_BACKED | CHUNK_CLOSED;
    backing->n_backed++;
    if (backing->chunks[chunk].n_holders == 0)
        idle_enter(backing, chunk);
    return ACL_SUCCESS;
}

static bool chunk_drop(struct am_backing *backing, size_t chunk, bool is_last)
{
    /*
     * Where the system does not take the mapping back, the memory stays, and is used
     * again.
     */
    if (am_vspace_unmap_owned(chunk_address(backing, chunk), is_last) != ACL_SUCCESS)
        return false;
    if (backing->chunks[chunk].n_holders == 0)
        idle_leave(backing, chunk);
    backing->chunks[chunk].state = 0;
    backing->n_backed--;
    return true;
}

bool am_backing_drop(struct am_backing *backing, size_t chunk)
{
    return chunk_drop(backing, chunk, false);
}

void am_backing_hold(struct am_backing *backing, size_t first, size_t end)
{
    for (size_t i = first; i < end; i++) {
        if (backing->chunks[i].n_holders++ == 0 && am_backing_has(backing, i))
            idle_leave(backing, i);
    }
}

void am_backing_unhold(struct am_backing *backing, size_t first, size_t end)
{
    for (size_t i = first; i < end; i++) {
        if (--backing->chunks[i].n_holders == 0 && am_backing_has(backing, i))
            idle_enter(backing, i);
    }
}

size_t am_backing_idle_first(const struct am_backing *backing)
{
    return backing->chunks[backing->n_chunks].next;
}

size_t am_backing_idle_next(const struct am_backing *backing, size_t chunk)
{
    return backing->chunks[chunk].next;
}

/* Each row of them at once. */
static aclError closed_chunks_open(struct am_backing *backing, size_t first, size_t end)
{
    aclError rc = ACL_SUCCESS;

    for (size_t i = first; i < end && rc == ACL_SUCCESS;) {
        size_t n = 0;

        while (i + n < end && (backing->chunks[i + n].state & CHUNK_CLOSED))
            n++;
        if (n > 0)
            rc = am_vspace_open(chunk_address(backing, i), n * AM_CHUNK);
        i += n + 1;
    }
    return rc;
}

aclError am_backing_fill(struct am_backing *backing, size_t first, size_t end)
{
    aclError rc = ACL_SUCCESS;

    for (size_t i = first; i < end && rc == ACL_SUCCESS; i++) {
        if (!am_backing_has(backing, i))
            rc = chunk_fill(backing, i);
    }
    if (rc == ACL_SUCCESS)
        rc = closed_chunks_open(backing, first, end);
    for (size_t i = first; i < end; i++) {
        if (rc == ACL_SUCCESS)
            backing->chunks[i].state = CHUNK_BACKED;
        else if (backing->chunks[i].state & CHUNK_CLOSED)
            am_backing_drop(backing, i); /* what cannot be dropped is opened next time */
    }
    return rc;
}

void am_backing_close(struct am_backing *backing)
{
    for (size_t i = 0; i < backing->n_chunks && backing->n_backed > 0; i++) {
        if (am_backing_has(backing, i))
            chunk_drop(backing, i, true);
    }
    am_vspace_release_owned((void *)backing->base);
    free(backing->chunks);
    am_domain_put(backing->domain);
}
