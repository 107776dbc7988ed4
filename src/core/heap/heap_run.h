/*
 * Runs: memory of a heap, cut into blocks of one size, or one large block.
 *
 * All that is known about a block is in its word, an atomic outside the memory it
 * describes:
 *
 *     generation (14 bits) | padded (1) | size - 1 (20) | module (7) | huge (1) | live (1)
 *     | pins (20)
 *
 * The size is the one that the program asked for; am_heap_room() tells how much the block
 * takes.
 *
 * The word decides the owner of the block.  live: the program has it.  A pin is work in
 * flight or a view; a block can be pinned only while it is live, and a block that is
 * freed while it is pinned becomes free with its last pin.  Neither: the block is free,
 * and the thread that turns the word it saw into a live one by compare-and-swap gets it.
 * So a thread may keep a list of free blocks without a lock.  Another thread takes a
 * block out of such a list by changing the generation: the entry in the list then no
 * longer matches.  The live bit detects double frees and pointers to freed blocks.
 *
 * The bits mark the blocks that are free and in no thread's list: "in" the run.  All
 * other blocks are "out".
 *
 * Objects are never freed and serve the same heap and class again, so a stale pointer of
 * a reader without a lock still points to a run with as many words.
 */
#ifndef AM_CORE_HEAP_RUN_H
#define AM_CORE_HEAP_RUN_H

#include <bsd/sys/tree.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "base/util.h"

struct am_heap;
struct am_mapping;

#define AM_WORD_PINS UINT64_C(0xfffff)
#define AM_WORD_LIVE (UINT64_C(1) << 20)
#define AM_WORD_HUGE (UINT64_C(1) << 21) /* the program asked for huge pages */
#define AM_WORD_MODULE_SHIFT 22
#define AM_WORD_MODULE (UINT64_C(0x7f) << AM_WORD_MODULE_SHIFT)
#define AM_WORD_SIZE_SHIFT 29 /* 0 in the word of a large block: run->large has it */
#define AM_WORD_SIZE (UINT64_C(0xfffff) << AM_WORD_SIZE_SHIFT)
#define AM_WORD_PADDED_SHIFT 49 /* aclrtMalloc added AM_HEAP_PAD bytes */
#define AM_WORD_PADDED (UINT64_C(1) << AM_WORD_PADDED_SHIFT)
#define AM_WORD_GENERATION_SHIFT 50
#define AM_WORD_GENERATION (~UINT64_C(0) << AM_WORD_GENERATION_SHIFT)

typedef _Atomic uint64_t am_word;

struct am_run {
    /* Set when the object is made. */
    struct am_heap *heap;
    uint32_t kind;  /* the heap's, nearer by */
    uint32_t class; /* AM_CLASSES_MAX: one large block */
    uint32_t bin; /* where a thread's lists have the one for it: core/heap/heap_cache.h */
    uint32_t n_slots;
    uint32_t stride; /* bytes from a block to the next; 0 for a large one */
    /* Words are 1 << word_shift apart: threads take large blocks one by one, not by line. */
    uint32_t word_shift;
    uint64_t inverse; /* 2^44 / stride, rounded up: a multiplication for a division */
    am_word *words;   /* of n_slots blocks: am_run_word() */
    /* n_slots, in words of 64; written under heap->lock, read without */
    _Atomic uint64_t *bits;
    struct am_run *older; /* the run of the heap that was made before this one */

    _Atomic uintptr_t start; /* 0: has no memory now */
    atomic_size_t size;      /* of the memory */
    atomic_size_t large;     /* bytes that were asked for of the large block */
    atomic_uint page;        /* bytes of a page of the large block */
    /* Written under heap->lock, read without. */
    atomic_size_t counted; /* size while it may count as idle: in `all`, and not dead */
    atomic_uint
        n_touched;       /* blocks from here on were never out, their words not written */
    atomic_bool is_dead; /* its device was reset, or it is shared: goes when all are in */

    /* heap->lock */
    struct am_mapping *mapping;
    size_t locked;   /* bytes from the start on that may be handed out; pinned: locked */
    uint32_t n_in;   /* bits that are set */
    uint32_t hint;   /* no bit is set in words of bits below this one */
    bool is_partial; /* in the heap's tree for its class: alive, some in */
    bool is_empty;   /* in the heap's list of empty ones: alive, all in */
    RB_ENTRY(am_run) node;
    LIST_ENTRY(am_run) all;
    TAILQ_ENTRY(am_run) empty;
    SLIST_ENTRY(am_run) next; /* among the spare, or the doomed */
};

RB_HEAD(am_run_tree, am_run);
LIST_HEAD(am_run_list, am_run);
TAILQ_HEAD(am_run_queue, am_run);
SLIST_HEAD(am_run_stack, am_run);

/* A block that is free and out: the word is what its owner saw. */
struct am_slot {
    struct am_run *run;
    am_word *word;
    uint64_t seen;
};

/* The block at an address. */
struct am_block {
    struct am_slot slot;
    uintptr_t start;
    size_t asked; /* 0: no live block */
};

/*
 * A run without memory, all blocks in; NULL when there is no memory for it.  stride 0:
 * one large block.
 */
struct am_run *am_run_create(struct am_heap *heap, unsigned class, uint32_t stride);

/* Which block the byte at offset belongs to; n_slots or more behind the last one. */
static inline size_t am_run_index(const struct am_run *run, uintptr_t offset)
{
    return offset * run->inverse >> 44; /* inverse is 0 for the one large block */
}

/* The word of the block with this number, and back. */
static inline am_word *am_run_word(const struct am_run *run, size_t i)
{
    return run->words + (i << run->word_shift);
}

static inline uint32_t am_slot_index(const struct am_slot *slot)
{
    return (uint32_t)((slot->word - slot->run->words) >> slot->run->word_shift);
}

/* Bytes that the program asked for of the block with this word; 0: no live block. */
static inline size_t am_word_asked(const struct am_run *run, uint64_t word)
{
    if ((word & AM_WORD_LIVE) == 0)
        return 0;
    if (run->stride == 0)
        return atomic_load_explicit(&run->large, memory_order_relaxed);
    return (size_t)((word & AM_WORD_SIZE) >> AM_WORD_SIZE_SHIFT) + 1;
}

/* Where a block is that is out and the caller's. */
static inline uintptr_t am_slot_addr(const struct am_slot *slot)
{
    return atomic_load_explicit(&slot->run->start, memory_order_relaxed) +
           (uintptr_t)am_slot_index(slot) * slot->run->stride;
}

/* The functions below need the heap's lock. */

/* Takes one out, the lowest; false when none is in. */
bool am_run_take(struct am_run *run, struct am_slot *ret_slot);
/*
 * The first of AM_RUN_LINE blocks that are all in, and whose words are all that is in their
 * line of the cache; n_slots: there are none.  One thread takes them all, so that threads
 * with blocks of their own do not write to the same line.
 */
#define AM_RUN_LINE 8u
uint32_t am_run_line(const struct am_run *run);
/* Takes out the one with this number, which is in; false when it is in use after all. */
bool am_run_take_at(struct am_run *run, uint32_t i, struct am_slot *ret_slot);
/* Puts it in; false when it is not the caller's any more. */
bool am_run_give(const struct am_slot *slot);

/*
 * Whether no block is live or pinned: its blocks are in the run or in lists of threads.
 * Without the lock the answer is as old as the call.
 */
bool am_run_is_idle(struct am_run *run);
/* Takes the free ones out of the lists of threads; true when all are in then. */
bool am_run_steal(struct am_run *run);
/* Frees all; those that are pinned stay out. */
void am_run_kill(struct am_run *run);
/*
 * Takes all blocks in and changes their generations, so that no word seen before
 * matches.  False when a block turns out to be live.
 */
bool am_run_retire(struct am_run *run);

/* How many are live; *size grows by the bytes that were asked for in them. */
size_t am_run_count_live(struct am_run *run, uint64_t *size);

#endif
