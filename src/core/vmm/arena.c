/* See arena.h. */
#include "core/vmm/arena.h"

#include <stdlib.h>

#include "acl/error_codes/rt_error_codes.h"
#include "backend/backend.h"
#include "base/error.h"
#include "base/sys.h"
#include "base/util.h"
#include "core/vmm/reservation.h"

#define ARENA_SIZE AM_GIB

static const struct am_owner arena_owner = {.name = "aclrtMalloc or aclrtMallocHost"};

/* Sizes in chunks: each to 8, then four to a doubling. */
static size_t extent_chunks(size_t size)
{
    size_t n = size >> AM_CHUNK_SHIFT;
    size_t step;

    if (n <= 8)
        return n;
    step = (size_t)1 << (61 - __builtin_clzl(n - 1));
    return am_align_up(n, step);
}

/* The list for extents of n chunks, n being one of the sizes above. */
static unsigned extent_list(size_t n)
{
    unsigned order;

    if (n <= 8)
        return (unsigned)n - 1;
    order =
        61u - (unsigned)__builtin_clzl(n - 1); /* n - 1 has its top bit at order + 2 */
    return 8 + (order - 1) * 4 + (unsigned)((n - 1) >> order) - 4;
}

static struct am_extent *extent_cut_locked(bool is_pinned, size_t size)
    AM_REQUIRES(am_vspace.lock)
{
    struct am_reservation *arena = am_vspace.arenas[is_pinned].arena;
    size_t *used = &am_vspace.arenas[is_pinned].used;
    struct am_extent *extent;

    if (arena == NULL || size > arena->size - *used)
        return NULL;
    extent = am_sys_malloc(sizeof *extent);
    if (extent == NULL)
        return NULL;
    extent->start = arena->start + *used;
    extent->size = size;
    extent->arena = arena;
    arena->n_mappings++;
    *used += size;
    return extent;
}

/* The first extent of a new arena, which has a mapping counted for it already. */
static aclError first_open(bool is_pinned, size_t arena_size, size_t size,
                           struct am_extent **ret_extent)
{
    struct am_extent *extent = am_sys_malloc(sizeof *extent);
    aclError rc;

    AM_REQUIRE(extent != NULL, ACL_ERROR_BAD_ALLOC,
               "no host memory for the records of addresses");
    rc = am_reservation_create(&arena_owner, is_pinned, arena_size, &extent->arena);
    if (rc != ACL_SUCCESS) {
        free(extent);
        return rc;
    }
    extent->start = extent->arena->start;
    extent->size = size;
    *ret_extent = extent;
    return ACL_SUCCESS;
}

/*
 * The same, and later extents are cut from it; the rest of the previous arena stays
 * unused.
 */
static aclError arena_open(bool is_pinned, size_t size, struct am_extent **ret_extent)
{
    AM_TRY(first_open(is_pinned, ARENA_SIZE, size, ret_extent));
    am_lock(&am_vspace.lock);
    am_vspace.arenas[is_pinned].arena = (*ret_extent)->arena;
    am_vspace.arenas[is_pinned].used = size;
    am_unlock(&am_vspace.lock);
    return ACL_SUCCESS;
}

/* Where free extents of this size are. */
static struct am_extents *extents_of(bool is_pinned, size_t size)
{
    return &am_vspace.arenas[is_pinned].extents[extent_list(size >> AM_CHUNK_SHIFT)];
}

static struct am_extent *extent_find(bool is_pinned, size_t size)
{
    struct am_extents *list = extents_of(is_pinned, size);
    struct am_extent *extent;

    am_lock(&am_vspace.lock);
    extent = LIST_FIRST(list);
    if (extent != NULL) {
        LIST_REMOVE(extent, link);
        extent->arena->n_mappings++;
    } else if (size < AM_GIB) { /* larger ones, for their alignment, are whole arenas */
        extent = extent_cut_locked(is_pinned, size);
    }
    am_unlock(&am_vspace.lock);
    return extent;
}

aclError am_arena_take(bool is_pinned, size_t size, struct am_extent **ret_extent)
{
    struct am_extent *extent;

    AM_REQUIRE(size <= (size_t)1 << (AM_ADDRESS_BITS - 1), ACL_ERROR_RT_MEMORY_ALLOCATION,
               "Failed to allocate addresses for %zu bytes: there are only 2^%d", size,
               AM_ADDRESS_BITS - 1);
    size = extent_chunks(size) << AM_CHUNK_SHIFT;
    extent = extent_find(is_pinned, size);
    if (extent == NULL)
        return size >= AM_GIB ? first_open(is_pinned, size, size, ret_extent)
                              : arena_open(is_pinned, size, ret_extent);
    *ret_extent = extent;
    return ACL_SUCCESS;
}

void am_arena_give(struct am_extent *extent)
{
    struct am_reservation *arena = extent->arena;

    am_lock(&am_vspace.lock);
    arena->n_mappings--;
    if (!arena->is_orphan) {
        LIST_INSERT_HEAD(extents_of(arena->is_pinned, extent->size), extent, link);
        extent = NULL;
    } else if (arena->n_mappings == 0) {
        am_reservation_destroy_locked(arena);
    }
    am_unlock(&am_vspace.lock);
    free(extent);
}

static void extents_free_locked(struct am_extents *list)
{
    struct am_extent *extent;

    while ((extent = LIST_FIRST(list)) != NULL) {
        LIST_REMOVE(extent, link);
        free(extent);
    }
}

void am_arena_forget_all(void)
{
    am_lock(&am_vspace.lock);
    for (size_t kind = 0; kind < AM_ARRAY_SIZE(am_vspace.arenas); kind++) {
        for (size_t i = 0; i < AM_ARRAY_SIZE(am_vspace.arenas[kind].extents); i++)
            extents_free_locked(&am_vspace.arenas[kind].extents[i]);
        am_vspace.arenas[kind].arena = NULL;
    }
    am_unlock(&am_vspace.lock);
}
