/* See address_index.h. */
#include "base/address_index.h"

#include <stdlib.h>

#include "base/error.h"
#include "base/sys.h"

/* The entry that covers addr with 2^shift bytes at the next finer level than `entry` does. */
static am_address_entry *finer(am_address_entry *entry, uintptr_t addr, unsigned shift)
{
    return am_address_part(atomic_load_explicit(entry, memory_order_acquire), addr,
                           shift);
}

/* Makes the entry a node, if it is not one yet; ranges do not overlap, so it is empty. */
static int entry_divide(am_address_entry *entry)
{
    struct am_address_node *node;
    uintptr_t was = atomic_load_explicit(entry, memory_order_relaxed);

    if (was & 1)
        return 0;
    am_assert(was == 0);
    node = am_sys_calloc(1, sizeof *node);
    if (node == NULL)
        return -ENOMEM;
    atomic_store_explicit(entry, (uintptr_t)node + 1, memory_order_release);
    return 0;
}

static void node_free(struct am_deferred *deferred)
{
    free(AM_CONTAINER_OF(deferred, struct am_address_node, deferred));
}

/* Frees the node of an entry if it is empty. */
static void entry_prune(am_address_entry *entry)
{
    uintptr_t value = atomic_load_explicit(entry, memory_order_relaxed);
    struct am_address_node *node = (struct am_address_node *)(value - 1);

    for (unsigned i = 0; i < AM_ADDRESS_PARTS; i++) {
        if (atomic_load_explicit(&node->entry[i], memory_order_relaxed) != 0)
            return;
    }
    atomic_store_explicit(entry, 0, memory_order_release);
    am_epoch_defer(&node->deferred, node_free);
}

/* There is an entry that begins where the range begins or ends. */
static int edge_prepare(struct am_address_index *index, uintptr_t edge)
{
    am_address_entry *entry = &index->top[edge >> AM_ADDRESS_TOP_SHIFT];
    int rc;

    if (am_is_aligned(edge, (size_t)1 << AM_ADDRESS_TOP_SHIFT))
        return 0;
    rc = entry_divide(entry);
    if (rc != 0 || am_is_aligned(edge, (size_t)1 << AM_ADDRESS_MID_SHIFT))
        return rc;
    return entry_divide(finer(entry, edge, AM_ADDRESS_MID_SHIFT));
}

int am_address_prepare(struct am_address_index *index, uintptr_t start, size_t size)
{
    int rc = edge_prepare(index, start);

    return rc == 0 ? edge_prepare(index, start + size) : rc;
}

/* The entry of an address in a node, or in the top table if the node is 0. */
static am_address_entry *part_of(struct am_address_index *index, uintptr_t node,
                                 uintptr_t addr, unsigned shift)
{
    return node == 0 ? &index->top[addr >> AM_ADDRESS_TOP_SHIFT]
                     : am_address_part(node, addr, shift);
}

/* Sets the range, which lies in the node; each part of the node has 2^shift bytes. */
static void parts_set(struct am_address_index *index, uintptr_t node, unsigned shift,
                      uintptr_t start, uintptr_t end, uintptr_t object)
{
    uintptr_t next;

    for (uintptr_t at = start; at < end; at = next) {
        am_address_entry *entry = part_of(index, node, at, shift);
        uintptr_t was = atomic_load_explicit(entry, memory_order_relaxed);

        next = am_align_up(at + 1, (size_t)1 << shift);
        if (next > end)
            next = end;
        if ((was & 1) == 0) {
            atomic_store_explicit(entry, object, memory_order_release);
            continue;
        }
        parts_set(index, was, shift - 7, at, next, object);
        if (object == 0)
            entry_prune(entry);
    }
}

void am_address_set(struct am_address_index *index, uintptr_t start, size_t size,
                    void *object)
{
    am_assert(am_is_aligned(start | size, AM_CHUNK) && ((uintptr_t)object & 1) == 0);
    parts_set(index, 0, AM_ADDRESS_TOP_SHIFT, start, start + size, (uintptr_t)object);
}

static void *parts_first(struct am_address_index *index, uintptr_t node, unsigned shift,
                         uintptr_t start, uintptr_t last)
{
    uintptr_t part = (uintptr_t)1 << shift;
    void *found = NULL;

    for (uintptr_t at = start; found == NULL && at <= last;
         at = am_align_up(at + 1, part)) {
        uintptr_t end = at | (part - 1);
        uintptr_t value =
            atomic_load_explicit(part_of(index, node, at, shift), memory_order_acquire);

        found = (value & 1) == 0
                    ? (void *)value
                    : parts_first(index, value, shift - 7, at, end < last ? end : last);
    }
    return found;
}

void *am_address_first(struct am_address_index *index, uintptr_t start, size_t size)
{
    uintptr_t last = start + size - 1;

    if (last >> AM_ADDRESS_BITS != 0)
        last = ((uintptr_t)1 << AM_ADDRESS_BITS) - 1;
    return parts_first(index, 0, AM_ADDRESS_TOP_SHIFT, start, last);
}
