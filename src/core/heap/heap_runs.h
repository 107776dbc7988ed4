/* Functions for a heap's runs that heap.c and heap_life.c share. */
#ifndef AM_CORE_HEAP_RUNS_H
#define AM_CORE_HEAP_RUNS_H

#include "core/heap/heap.h"

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
