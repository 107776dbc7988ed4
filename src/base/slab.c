/*
 * See slab.h.  An object is followed by its list link, so freeing touches nothing that
 * readers see.
 */
#include "base/slab.h"

#include <stdint.h>

#include "base/error.h"
#include "base/keep.h"
#include "base/sys.h"
#include "base/util.h"

#define BLOCK_SIZE (64 * AM_KIB) /* of the first blocks; later ones are AM_KEEP_LARGE */
#define FEW_BLOCKS 16
#define LINE 64
#define BATCH 32 /* objects that go between a shard's list and the one for all */
#define PART_MAX (3 * BATCH) /* objects that a shard's list keeps */

struct am_slab_node {
    struct am_slab_node *next;
};

/* The start of a block; objects follow. */
struct am_slab_block {
    struct am_slab_block *next;
};

static struct am_slab_node *node_of(const struct am_slab *slab, void *object)
{
    return (struct am_slab_node *)((char *)object +
                                   am_align_up(slab->size, sizeof(struct am_slab_node)));
}

static void *object_of(const struct am_slab *slab, struct am_slab_node *node)
{
    return (char *)node - am_align_up(slab->size, sizeof(struct am_slab_node));
}

static size_t slab_stride(const struct am_slab *slab)
{
    size_t size = am_align_up(slab->size, sizeof(struct am_slab_node));

    return am_align_up(size + sizeof(struct am_slab_node), LINE);
}

static char *block_first(struct am_slab_block *block)
{
    return (char *)am_align_up((uintptr_t)(block + 1), LINE);
}

AM_COLD static int slab_grow_locked(struct am_slab *slab) AM_REQUIRES(slab->lock)
{
    size_t stride = slab_stride(slab);
    size_t size = slab->n_bulk < FEW_BLOCKS ? BLOCK_SIZE : AM_KEEP_LARGE;
    struct am_slab_block *block = am_keep(size);
    size_t n;

    if (block == NULL)
        return -ENOMEM;
    block->next = slab->bulk;
    slab->bulk = block;
    slab->n_bulk++;

    n = (size_t)((char *)block + size - block_first(block)) / stride;
    am_assert(n > 0);
    while (n-- > 0) {
        struct am_slab_node *node = node_of(slab, block_first(block) + n * stride);

        node->next = slab->spare;
        slab->spare = node;
    }
    return 0;
}

/* Cuts a list behind its first n nodes, or fewer if it is shorter; returns the rest. */
static struct am_slab_node *list_cut(struct am_slab_node *list, unsigned n,
                                     unsigned *ret_n)
{
    struct am_slab_node *last = list;
    struct am_slab_node *rest;

    *ret_n = 1;
    while (*ret_n < n && last->next != NULL) {
        last = last->next;
        ++*ret_n;
    }
    rest = last->next;
    last->next = NULL;
    return rest;
}

/* Puts the first list before the second. */
static struct am_slab_node *list_join(struct am_slab_node *first,
                                      struct am_slab_node *second)
{
    struct am_slab_node *last = first;

    while (last->next != NULL)
        last = last->next;
    last->next = second;
    return first;
}

/* An object from the list for all, and more into the shard's list. */
static __attribute__((noinline)) struct am_slab_node *
slab_refill(struct am_slab *slab, union am_slab_part *part)
{
    struct am_slab_node *list = NULL;
    struct am_slab_node *more;
    unsigned n = 0;

    am_latch_take(&slab->lock);
    if (slab->spare != NULL || slab_grow_locked(slab) == 0) {
        list = slab->spare;
        slab->spare = list_cut(list, BATCH, &n);
    }
    am_latch_give(&slab->lock);
    if (list == NULL)
        return NULL;
    more = list->next;
    if (more != NULL) {
        am_latch_take(&part->lock);
        part->spare = list_join(more, part->spare);
        part->n_spare += n - 1;
        am_latch_give(&part->lock);
    }
    return list;
}

AM_HOT void *am_slab_take(struct am_slab *slab)
{
    union am_slab_part *part = &slab->part[am_shard()];
    struct am_slab_node *node;

    am_latch_take(&part->lock);
    node = part->spare;
    if (node != NULL) {
        part->spare = node->next;
        part->n_spare--;
    }
    am_latch_give(&part->lock);
    if (__builtin_expect(node == NULL, 0))
        node = slab_refill(slab, part);
    return node != NULL ? object_of(slab, node) : NULL;
}

void am_slab_give(struct am_slab *slab, void *object)
{
    union am_slab_part *part = &slab->part[am_shard()];
    struct am_slab_node *node = node_of(slab, object);
    struct am_slab_node *surplus = NULL;
    unsigned n;

    am_latch_take(&part->lock);
    node->next = part->spare;
    part->spare = node;
    if (__builtin_expect(++part->n_spare > PART_MAX, 0)) {
        /* The objects that were freed last stay: they are in the caches. */
        surplus = list_cut(part->spare, PART_MAX - BATCH, &n);
        part->n_spare = n;
    }
    am_latch_give(&part->lock);
    if (__builtin_expect(surplus != NULL, 0)) {
        am_latch_take(&slab->lock);
        slab->spare = list_join(surplus, slab->spare);
        am_latch_give(&slab->lock);
    }
}
