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
    void *base;
    aclError rc;

    *backing = (struct am_backing){.n_chunks = size >> AM_CHUNK_SHIFT};
    backing->domain = am_domain_get(&device->domain);
    AM_REQUIRE(backing->domain != NULL, ACL_ERROR_UNINITIALIZE,
               "aclFinalize has been called");
    backing->chunks = am_sys_calloc(backing->n_chunks, sizeof *backing->chunks);
    if (backing->chunks == NULL) {
        rc = am_fail(ACL_ERROR_BAD_ALLOC, "no memory for the books of %zu bytes", size);
        goto err_place;
    }
    rc = am_vspace_reserve_for(&am_vspace, owner, size, NULL, &base);
    if (rc != ACL_SUCCESS)
        goto err_chunks;
    backing->base = (uintptr_t)base;
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
    return backing->chunks[chunk] & CHUNK_BACKED;
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
        if (backing->chunks[i] != CHUNK_BACKED)
            return false;
    }
    return true;
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
    aclError rc = am_phys_create_for(AM_CHUNK, &prop, backing->domain, &phys);

    if (rc != ACL_SUCCESS)
        return rc;
    rc = am_vspace_map_for(&am_vspace, chunk_address(backing, chunk), phys, false);
    am_phys_put(phys); /* the mapping has a reference of its own */
    if (rc != ACL_SUCCESS)
        return rc;
    backing->chunks[chunk] = CHUNK_BACKED | CHUNK_CLOSED;
    backing->n_backed++;
    return ACL_SUCCESS;
}

static void chunk_drop(struct am_backing *backing, size_t chunk, bool is_last)
{
    /*
     * Where the system does not take the mapping back, the memory stays, and is used
     * again.
     */
    if (am_vspace_unmap_for(&am_vspace, chunk_address(backing, chunk), is_last) !=
        ACL_SUCCESS)
        return;
    backing->chunks[chunk] = 0;
    backing->n_backed--;
}

void am_backing_drop(struct am_backing *backing, size_t chunk)
{
    chunk_drop(backing, chunk, false);
}

/* Each row of them at once. */
static aclError closed_chunks_open(struct am_backing *backing, size_t first, size_t end)
{
    aclError rc = ACL_SUCCESS;

    for (size_t i = first; i < end && rc == ACL_SUCCESS;) {
        size_t n = 0;

        while (i + n < end && (backing->chunks[i + n] & CHUNK_CLOSED))
            n++;
        if (n > 0)
            rc = am_vspace_open(&am_vspace, chunk_address(backing, i), n * AM_CHUNK);
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
            backing->chunks[i] = CHUNK_BACKED;
        else if (backing->chunks[i] & CHUNK_CLOSED)
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
    am_vspace_release_for(&am_vspace, (void *)backing->base);
    free(backing->chunks);
    am_domain_put(backing->domain);
}
