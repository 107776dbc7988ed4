/* See chunkmap.h. */
#include "base/chunkmap.h"

#include "base/error.h"
#include "base/keep.h"
#include "base/sys.h"

#define FEW_LEAVES 8 /* that are made alone */
#define GROUP (AM_KEEP_LARGE / sizeof(struct am_chunkleaf))

/*
 * Another thread, which binds other chunks of the leaf, may have been faster.  The release
 * pairs with the acquire of am_chunkmap_find().
 */
static bool leaf_enter(struct am_chunkmap *map, size_t i, void *leaf)
{
    struct am_chunkleaf *none = NULL;

    return atomic_compare_exchange_strong_explicit(
        &map->top[i], &none, leaf, memory_order_release, memory_order_relaxed);
}

static int leaf_add(struct am_chunkmap *map, size_t i)
{
    void *leaf = am_sys_mmap(NULL, sizeof(struct am_chunkleaf), PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (leaf == MAP_FAILED)
        return -ENOMEM;
    if (!leaf_enter(map, i, leaf))
        munmap(leaf, sizeof(struct am_chunkleaf));
    return 0;
}

/*
 * A program with mappings in many leaves uses them at random: leaf i and its neighbours lie on
 * a huge page.  The room of a leaf that is there already stays unused.
 */
static int group_add(struct am_chunkmap *map, size_t i)
{
    struct am_chunkleaf *leaves = am_keep(AM_KEEP_LARGE);

    if (leaves == NULL)
        return -ENOMEM;
    i -= i % GROUP;
    for (size_t k = 0; k < GROUP; k++)
        leaf_enter(map, i + k, &leaves[k]);
    return 0;
}

int am_chunkmap_prepare(struct am_chunkmap *map, uintptr_t addr, size_t size)
{
    size_t first = addr >> (AM_CHUNK_SHIFT + AM_LEAF_BITS);
    size_t last = (addr + size - 1) >> (AM_CHUNK_SHIFT + AM_LEAF_BITS);

    for (size_t i = first; i <= last; i++) {
        unsigned n;
        int rc;

        if (atomic_load_explicit(&map->top[i], memory_order_acquire) != NULL)
            continue;
        n = atomic_fetch_add_explicit(&map->n_made, 1, memory_order_relaxed);
        rc = n < FEW_LEAVES ? leaf_add(map, i) : group_add(map, i);
        if (rc != 0)
            return rc;
    }
    return 0;
}

void am_chunkmap_set(struct am_chunkmap *map, uintptr_t addr, size_t size, void *object)
{
    uintptr_t chunk = addr >> AM_CHUNK_SHIFT;
    size_t left = size >> AM_CHUNK_SHIFT;

    am_assert(am_is_aligned(addr | size, AM_CHUNK));
    while (left > 0) {
        struct am_chunkleaf *leaf =
            atomic_load_explicit(&map->top[chunk >> AM_LEAF_BITS], memory_order_acquire);
        _Atomic(void *) *entry = &leaf->entry[am_chunk_entry(chunk)];
        size_t n = AM_CHUNK_APART - chunk % AM_CHUNK_APART;

        n = n < left ? n : left;
        chunk += n;
        left -= n;
        for (; n > 0; n--, entry += AM_CHUNK_STEP)
            atomic_store_explicit(entry, object, memory_order_release);
    }
}
