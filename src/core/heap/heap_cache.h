/*
 * Lists of free blocks that a thread keeps for itself, for each heap and small class.
 *
 * Other threads never read them: the words of the blocks decide (core/heap/heap_run.h),
 * and another thread takes a block without touching the list.  A thread's lists are
 * emptied when it ends.  Without them every block is taken under the heap's lock, and
 * threads that allocate at the same time do less together than one of them alone.
 */
#ifndef AM_CORE_HEAP_CACHE_H
#define AM_CORE_HEAP_CACHE_H

#include <sys/types.h>

#include "core/device/context.h"
#include "core/heap/heap.h"

#define AM_BIN_MAX 12
#define AM_BINS_MAX 56 /* classes up to AM_CACHED_MAX */

/*
 * Written and read field by field: a store in parts followed by a read of the whole
 * stalls the processor.
 */
struct am_entry {
    struct am_run *run;
    am_word *word;
    uint64_t seen;
    uintptr_t addr;  /* of the block, */
    uintptr_t start; /* while the run starts here */
};

struct am_bin {
    struct am_entry *top;   /* behind the newest */
    struct am_entry *limit; /* where the list is full */
    struct am_entry entry[AM_BIN_MAX];
    uint64_t pad[2]; /* 512 bytes, so that a shift finds the class */
};

/* A block above AM_CACHED_MAX. */
struct am_kept {
    struct am_slot slot;
    size_t size; /* of its class, or of its run */
};

#define AM_KEPT_MAX 4

struct am_bins {
    const struct am_heap *heap;
    const uint8_t *class_of; /* its classes' by_64 */
    /* The last one is always full: for classes that are not kept. */
    struct am_bin bin[AM_BINS_MAX + 1];
    /* Larger blocks, the oldest first: at most heap->kept_max bytes. */
    struct am_kept kept[AM_KEPT_MAX];
    unsigned n_kept;
    size_t kept_size; /* bytes of all */
};

struct am_cache {
    pid_t pid; /* a child made by fork has our lists, but not the locks */
    struct am_bins *of[AM_HEAPS];
};

extern _Thread_local struct am_cache *am_cache __attribute__((tls_model("initial-exec")));

/* The thread's lists for a heap, made if need be; NULL when there is no memory for it. */
struct am_bins *am_cache_make(struct am_heap *heap);

/* The same if they exist already. */
static inline struct am_bins *am_cache_find(const struct am_heap *heap)
{
    struct am_cache *cache = am_cache;

    return __builtin_expect(cache != NULL, 1) ? cache->of[heap->index] : NULL;
}

/* Remember the lists for the heap of the current context's device. */
static inline void am_cache_note(const struct am_heap *heap)
{
    am_current.lists = am_cache_find(heap);
}

/*
 * The thread's lists, while the context lives; NULL when there are none, or the context
 * is not known.
 */
static inline struct am_bins *am_cache_noted(void)
{
    struct am_bins *bins = am_current.lists;

    if (__builtin_expect(bins == NULL, 0))
        return NULL;
    return am_current_find() != NULL ? bins : NULL;
}

static inline void am_bin_push(struct am_bin *bin, struct am_run *run, am_word *word,
                               uint64_t seen, uintptr_t addr, uintptr_t start)
{
    struct am_entry *entry = bin->top;

    entry->run = run;
    entry->word = word;
    entry->seen = seen;
    entry->addr = addr;
    entry->start = start;
    bin->top = entry + 1;
}

/* am_entry_addr() for a run that has moved. */
void *am_entry_moved(const struct am_entry *entry);

/* Unless the word is another one by now; pairs with the acquire of readers. */
static inline bool am_word_swap(am_word *word, uint64_t seen, uint64_t after)
{
    return atomic_compare_exchange_strong_explicit(
        word, &seen, after, memory_order_acq_rel, memory_order_relaxed);
}

/* Takes the free block for the caller, unless another thread took it. */
static inline bool am_word_claim(am_word *word, uint64_t seen, uint64_t mark)
{
    return am_word_swap(word, seen, seen | mark);
}

/*
 * Where the block is that the entry has, if the caller gets it: asked for before, since a
 * reset may take block and run away at once.  In the short way
 * the address is what was stored, not what is computed: freeing it and allocating again
 * then waits for nothing that has to be looked up.  A run that was used again meanwhile
 * (see am_run_take) has moved.
 */
static inline void *am_entry_addr(const struct am_entry *entry)
{
    uintptr_t start = atomic_load_explicit(&entry->run->start, memory_order_relaxed);

    if (__builtin_expect(start != entry->start, 0))
        return am_entry_moved(entry);
    return (void *)entry->addr;
}

/* The flag for pad bytes, 0 or AM_HEAP_PAD. */
static inline uint64_t am_word_padded(size_t pad)
{
    return pad * (AM_WORD_PADDED / AM_HEAP_PAD);
}

/*
 * The short way: a block from the thread's list that takes at most AM_CACHED_MAX bytes.
 * `flags` are AM_WORD_HUGE and AM_WORD_PADDED.  False when the list is of no use, and
 * am_heap_malloc() has to find one.
 */
static inline bool am_bins_take(struct am_bins *bins, size_t asked, size_t room,
                                uint64_t flags, void **ret_addr)
{
    struct am_bin *bin = &bins->bin[bins->class_of[(room - 1) / AM_BLOCK_ALIGN]];
    struct am_entry *entry = bin->top;
    void *addr;

    if (__builtin_expect(entry == bin->entry, 0))
        return false;
    entry--;
    addr = am_entry_addr(entry);
    if (!am_word_claim(entry->word, entry->seen,
                       AM_WORD_LIVE | flags |
                           (uint64_t)(asked - 1) << AM_WORD_SIZE_SHIFT))
        return false;
    bin->top = entry;
    *ret_addr = addr;
    return true;
}

/* How much each thread may keep has changed. */
void am_kept_limit(struct am_heap *heap);

bool am_kept_find(struct am_bins *bins, size_t size, struct am_slot *ret_slot);
bool am_kept_push(struct am_heap *heap, const struct am_slot *slot, size_t size);

/*
 * A free block of this size that the thread kept, not yet claimed; false: it has none.  One
 * that was taken from it meanwhile cannot be claimed.
 */
static inline bool am_kept_take(const struct am_heap *heap, size_t size,
                                struct am_slot *ret_slot)
{
    struct am_bins *bins = am_cache_find(heap);

    return bins != NULL && bins->n_kept > 0 && am_kept_find(bins, size, ret_slot);
}

/* Keeps a block that is free and the caller's; false: it goes back to its run. */
static inline bool am_kept_add(struct am_heap *heap, const struct am_slot *slot)
{
    const struct am_run *run = slot->run;
    size_t size = run->stride != 0 ? run->stride : (size_t)run->size;

    return size <= atomic_load_explicit(&heap->kept_max, memory_order_relaxed) &&
           am_kept_push(heap, slot, size);
}

/* Puts back into the runs what a list holds, all but the newest `keep`; heap.c. */
void am_heap_flush(struct am_heap *heap, struct am_bin *bin, size_t keep);

#endif
