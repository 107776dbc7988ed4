/* Functions for blocks and runs that heap.c, heap_large.c, heap_cache.c and heap_life.c share. */
#ifndef AM_CORE_HEAP_RUNS_H
#define AM_CORE_HEAP_RUNS_H

#include "core/heap/heap.h"
#include "core/heap/heap_cache.h"

/* A block that is wanted. */
struct am_want {
    size_t asked; /* bytes */
    size_t pad;
    uint32_t page;
    unsigned module;
};

/* The word of a block that is allocated; the generation stays.  `small` is its size - 1. */
static inline uint64_t am_word_mark(const struct am_want *want, size_t small)
{
    uint64_t mark =
        AM_WORD_LIVE | am_word_padded(want->pad) | (uint64_t)small << AM_WORD_SIZE_SHIFT;

    /* 0 most of the time: nothing to count. */
    mark |= (uint64_t)(want->module ^ AM_MODULE_APP) << AM_WORD_MODULE_SHIFT;
    return want->page > 4096 ? mark | AM_WORD_HUGE : mark;
}

/* Puts a block that is free and the caller's back into its run. */
void am_heap_give(struct am_heap *heap, const struct am_slot *slot);
/* One pin less; the last one of a block that is free puts it in. */
void am_word_unpin(struct am_run *run, am_word *word);

/* heap_large.c: a block of more than AM_SMALL_MAX bytes, which has a run to itself. */
aclError am_large_malloc(struct am_heap *heap, const struct am_want *want, size_t room,
                         void **ret_addr);

/* The run with the lowest address: blocks gather there, and higher runs become empty. */
struct am_run *am_run_tree_first(struct am_run_tree *tree);

/*
 * One more run with memory of `size` bytes, for a block of which `asked` were asked for;
 * ret_slot, if not NULL, is its first block, taken out.
 */
aclError am_heap_grow(struct am_heap *heap, unsigned class, size_t size, size_t asked,
                      struct am_slot *ret_slot);

/* Where blocks are pinned: has them locked up to `end`, in the bytes of the run. */
aclError am_run_lock(struct am_run *run, size_t end);

/* Blocks went in or out: the run belongs in other lists now. */
void am_heap_relist_locked(struct am_heap *heap, struct am_run *run)
    AM_REQUIRES(heap->lock);

/*
 * The same after blocks went in; runs that the heap does not keep leave it, and are the
 * caller's to close without the lock.
 */
void am_heap_settle_locked(struct am_heap *heap, struct am_run *run,
                           struct am_run_stack *doomed) AM_REQUIRES(heap->lock);
void am_heap_close_runs(struct am_heap *heap, struct am_run_stack *doomed);

#endif
