/* See rangemap.h. */
#include "base/rangemap.h"

#include "base/error.h"
#include "base/sys.h"

static struct am_rangenode *node_take(struct am_rangemap *map)
{
    struct am_rangenode *node = map->spare;

    if (node == NULL)
        return am_sys_calloc(1, sizeof *node);
    map->spare = node->spare;
    return node;
}

/* Divides what the entry, of `parent` or of the top, stands for, if it is not divided yet. */
static int entry_divide(struct am_rangemap *map, struct am_rangenode *parent,
                        am_range_entry *entry)
{
    struct am_rangenode *node;

    if (atomic_load_explicit(entry, memory_order_relaxed) & 1)
        return 0;
    am_assert(*entry == 0); /* ranges do not overlap */
    node = node_take(map);
    if (node == NULL)
        return -ENOMEM;
    atomic_store_explicit(entry, (uintptr_t)node + 1, memory_order_release);
    if (parent != NULL)
        parent->n_used++;
    return 0;
}

/* Has an entry that begins or ends where the range does. */
static int edge_prepare(struct am_rangemap *map, uintptr_t edge)
{
    am_range_entry *entry = &map->top[edge >> AM_RANGE_TOP_SHIFT];
    struct am_rangenode *node;
    int rc;

    if (am_is_aligned(edge, (size_t)1 << AM_RANGE_TOP_SHIFT))
        return 0;
    rc = entry_divide(map, NULL, entry);
    if (rc != 0 || am_is_aligned(edge, (size_t)1 << AM_RANGE_MID_SHIFT))
        return rc;
    node = am_range_node(*entry);
    return entry_divide(map, node,
                        &node->entry[edge >> AM_RANGE_MID_SHIFT & (AM_RANGE_PARTS - 1)]);
}

int am_rangemap_prepare(struct am_rangemap *map, uintptr_t start, size_t size)
{
    int rc = edge_prepare(map, start);

    return rc == 0 ? edge_prepare(map, start + size) : rc;
}

/* A table: the top, or a node's. */
struct table {
    am_range_entry *entry;
    size_t n;
    unsigned shift;            /* an entry stands for 2^shift bytes */
    struct am_rangenode *node; /* NULL: the top */
};

static void entry_set(const struct table *table, am_range_entry *entry, uintptr_t value)
{
    bool was_used = atomic_load_explicit(entry, memory_order_relaxed) != 0;

    atomic_store_explicit(entry, value, memory_order_release);
    if (table->node != NULL)
        table->node->n_used += (value != 0) - was_used;
}

/* The part of the range that lies in this table. */
static void table_set(struct am_rangemap *map, const struct table *table, uintptr_t start,
                      uintptr_t end, uintptr_t object)
{
    size_t part = (size_t)1 << table->shift;

    for (uintptr_t at = start; at < end; at = am_align_up(at + 1, part)) {
        am_range_entry *entry = &table->entry[at >> table->shift & (table->n - 1)];
        uintptr_t old = atomic_load_explicit(entry, memory_order_relaxed);
        uintptr_t next = am_align_up(at + 1, part);
        struct am_rangenode *node = old & 1 ? am_range_node(old) : NULL;

        if (node == NULL) {
            entry_set(table, entry, object);
            continue;
        }
        table_set(map,
                  &(struct table){node->entry, AM_RANGE_PARTS, table->shift - 7, node},
                  at, next < end ? next : end, object);
        if (node->n_used == 0) {
            entry_set(table, entry, 0);
            node->spare = map->spare;
            map->spare = node;
        }
    }
}

void am_rangemap_set(struct am_rangemap *map, uintptr_t start, size_t size, void *object)
{
    am_assert(am_is_aligned(start | size, AM_CHUNK) && ((uintptr_t)object & 1) == 0);
    table_set(
        map, &(struct table){map->top, AM_ARRAY_SIZE(map->top), AM_RANGE_TOP_SHIFT, NULL},
        start, start + size, (uintptr_t)object);
}
