/* See chunkmap.h. */
#include "base/chunkmap.h"

#include "base/error.h"
#include "base/sys.h"

int am_chunkmap_prepare(struct am_chunkmap *map, uintptr_t addr, size_t size)
{
    size_t first = addr >> (AM_CHUNK_SHIFT + AM_LEAF_BITS);
    size_t last = (addr + size - 1) >> (AM_CHUNK_SHIFT + AM_LEAF_BITS);

    for (size_t i = first; i <= last; i++) {
        struct am_chunkleaf *none = NULL;
        void *leaf;

        if (atomic_load_explicit(&map->top[i], memory_order_acquire) != NULL)
            continue;
        leaf = am_sys_mmap(NULL, sizeof(struct am_chunkleaf), PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (leaf == MAP_FAILED)
            return -ENOMEM;
        /*
         * Another thread, which binds other chunks of the leaf, may have been faster.  The
         * release pairs with the acquire of am_chunkmap_find().
         */
        if (!atomic_compare_exchange_strong_explicit(
                &map->top[i], &none, leaf, memory_order_release, memory_order_relaxed))
            munmap(leaf, sizeof(struct am_chunkleaf));
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
