/* Large blocks, each a run.  See heap.h. */
#include "acl/error_codes/rt_error_codes.h"
#include "base/error.h"
#include "base/util.h"
#include "core/heap/heap_runs.h"

/* A large run of just this size that was kept, with its one block. */
static bool large_take(struct am_heap *heap, size_t size, struct am_slot *ret_slot)
{
    struct am_run *run;
    bool is_taken = false;

    if (am_cache_find(heap) == NULL)
        am_cache_make(heap); /* for the block when it is freed */
    else if (am_kept_take(heap, size, ret_slot))
        return true;
    am_lock(&heap->lock);
    TAILQ_FOREACH (run, &heap->empty, empty) {
        if (run->class == AM_CLASSES_MAX && run->size == size) {
            is_taken = am_run_take(run, ret_slot);
            am_heap_relist_locked(heap, run);
            break;
        }
    }
    am_unlock(&heap->lock);
    return is_taken;
}

/*
 * Takes the block of `size` bytes for the caller, unless another thread took it.  Until it
 * is taken, the run may be removed and serve another size elsewhere; a pin keeps it while
 * the size is looked at and written.
 */
static bool large_claim(const struct am_slot *slot, const struct am_want *want,
                        size_t size)
{
    struct am_run *run = slot->run;
    uint64_t pinned = slot->seen + 1;

    if (!am_word_swap(slot->word, slot->seen, pinned))
        return false;
    if (run->size == size) { /* not a list's so old that its generation fits again */
        atomic_store_explicit(&run->large, want->asked, memory_order_relaxed);
        atomic_store_explicit(&run->page, want->page, memory_order_relaxed);
        if (am_word_swap(slot->word, pinned, slot->seen | am_word_mark(want, 0)))
            return true;
    }
    am_word_unpin(run, slot->word); /* its device was reset meanwhile */
    return false;
}

aclError am_large_malloc(struct am_heap *heap, const struct am_want *want, size_t room,
                         void **ret_addr)
{
    size_t granularity = want->page > AM_CHUNK ? want->page : AM_CHUNK;
    struct am_slot slot;
    uintptr_t addr;
    size_t size;

    AM_REQUIRE(room <= SIZE_MAX - granularity, ACL_ERROR_RT_MEMORY_ALLOCATION,
               "Failed to allocate %zu bytes: no device has that much memory",
               want->asked);
    size = am_align_up(room, granularity);
    do {
        if (!large_take(heap, size, &slot))
            AM_TRY(am_heap_grow(heap, AM_CLASSES_MAX, size, want->asked, &slot));
        addr = am_slot_addr(&slot);
    } while (!large_claim(&slot, want, size));
    *ret_addr = (void *)addr;
    return ACL_SUCCESS;
}
