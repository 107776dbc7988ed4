/* See rangemap.h. */
#include "base/rangemap.h"

#include "base/error.h"
#include "base/sys.h"

/* Divides what the entry stands for, if it is not divided yet. */
static int entry_divide(am_range_entry *entry)
{
    struct am_rangenode *node;

    if (atomic_load_explicit(entry, memory_order_relaxed) & 1)
        return 0;
    am_assert(*entry == 0); /* ranges do not overlap */
    node = am_sys_calloc(1, sizeof *node);
    if (node == NULL)
        return -ENOMEM;
    atomic_store_explicit(entry, (uintptr_t)node + 1, memory_order_release);
    return 0;
}

/* Has an entry that begins or ends where the range does. */
static int edge_prepare(struct am_rangemap *map, uintptr_t edge)
{
    am_range_entry *entry = &map->top[edge >> AM_RANGE_TOP_SHIFT];
    int rc;

    if (am_is_aligned(edge, (size_t)1 << AM_RANGE_TOP_SHIFT))
        return 0;
    rc = entry_divide(entry);
    if (rc != 0 || am_is_aligned(edge, (size_t)1 << AM_RANGE_MID_SHIFT))
        return rc;
    return entry_divide(
        &am_range_node(*entry)->entry[edge >> AM_RANGE_MID_SHIFT & (AM_RANGE_PARTS - 1)]);
}

int am_rangemap_prepare(struct am_rangemap *map, uintptr_t start, size_t size)
{
    int rc = edge_prepare(map, start);

    return rc == 0 ? edge_prepare(map, start + size) : rc;
}

/* The part of the range that lies in this table, whose entries stand for 2^shift bytes. */
static void table_set(am_range_entry *table, size_t n, unsigned shift, uintptr_t start,
                      uintptr_t end, uintptr_t object)
{
    size_t part = (size_t)1 << shift;

    for (uintptr_t at = start; at < end; at = am_align_up(at + 1, part)) {
        am_range_entry *entry = &table[at >> shift & (n - 1)];
        uintptr_t old = atomic_load_explicit(entry, memory_order_relaxed);
        uintptr_t next = am_align_up(at + 1, part);

        if (old & 1)
            table_set(am_range_node(old)->entry, AM_RANGE_PARTS, shift - 7, at,
                      next < end ? next : end, object);
        else
            atomic_store_explicit(entry, object, memory_order_release);
    }
}

void am_rangemap_set(struct am_rangemap *map, uintptr_t start, size_t size, void *object)
{
    am_assert(am_is_aligned(start | size, AM_CHUNK) && ((uintptr_t)object & 1) == 0);
    table_set(map->top, AM_ARRAY_SIZE(map->top), AM_RANGE_TOP_SHIFT, start, start + size,
              (uintptr_t)object);
}
