/*
 * See slab.h.  An object is preceded by its list link, so freeing touches nothing that
 * readers see.
 */
#include "base/slab.h"

#include <stdint.h>
#include <string.h>

#include "base/error.h"
#include "base/sys.h"
#include "base/util.h"

#define BLOCK_SIZE (64 * AM_KIB)

struct am_slab_node {
    struct am_slab_node *next;
    uint64_t pad; /* objects are 16-byte aligned */
};

AM_COLD static int slab_grow_locked(struct am_slab *slab) AM_REQUIRES(slab->lock)
{
    size_t stride = am_align_up(sizeof(struct am_slab_node) + slab->size, 16);
    size_t n = (BLOCK_SIZE - sizeof(struct am_slab_node)) / stride;
    struct am_slab_node *block = am_sys_calloc(1, BLOCK_SIZE);
    char *first;

    am_assert(n > 0);
    if (block == NULL)
        return -ENOMEM;
    block->next = slab->bulk;
    slab->bulk = block;

    first = (char *)(block + 1);
    for (size_t i = n; i-- > 0;) {
        struct am_slab_node *node = (struct am_slab_node *)(first + i * stride);

        node->next = slab->spare;
        slab->spare = node;
    }
    return 0;
}

AM_HOT void *am_slab_take(struct am_slab *slab)
{
    struct am_slab_node *node = NULL;

    am_latch_take(&slab->lock);
    if (slab->spare != NULL || slab_grow_locked(slab) == 0) {
        node = slab->spare;
        slab->spare = node->next;
    }
    am_latch_give(&slab->lock);
    return node != NULL ? node + 1 : NULL;
}

void *am_slab_take_zeroed(struct am_slab *slab)
{
    char *object = am_slab_take(slab);

    if (object != NULL)
        memset(object + sizeof(atomic_uint), 0, slab->size - sizeof(atomic_uint));
    return object;
}

void am_slab_give(struct am_slab *slab, void *object)
{
    struct am_slab_node *node = (struct am_slab_node *)object - 1;

    am_latch_take(&slab->lock);
    node->next = slab->spare;
    slab->spare = node;
    am_latch_give(&slab->lock);
}
