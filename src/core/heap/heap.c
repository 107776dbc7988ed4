/*
 * Heaps: blocks to and from the program, runs to and from the domain.  See heap.h; the
 * life of whole heaps is in heap_life.c.
 */
#include "core/heap/heap.h"

#include "acl/error_codes/rt_error_codes.h"
#include "base/error.h"
#include "base/util.h"
#include "core/device/setup.h"
#include "core/heap/heap_cache.h"
#include "core/heap/heap_runs.h"
#include "core/vmm/phys.h"
#include "core/vmm/vspace.h"

static size_t word_room(const struct am_run *run, uint64_t word, size_t asked)
{
    return am_heap_room((enum am_heap_kind)run->kind, asked,
                        word & AM_WORD_PADDED ? AM_HEAP_PAD : 0);
}

/* Of a live block. */
static struct am_bounds block_bounds(const struct am_block *block)
{
    return am_bounds_of(block->start, block->asked,
                        word_room(block->slot.run, block->slot.seen, block->asked),
                        am_setup.is_strict);
}

/*
 * The run and the block in it that addr lies in or behind; NULL when addr is no memory of
 * a heap, or behind the last block of a chunk.  Takes no lock.
 *
 * Mapping and run may be gone and serve elsewhere between any two steps.  But a run that
 * says it starts here is the one that addr belongs to, however it was found; and what
 * was read of it holds if it still says so afterwards.  Its generations change before it
 * loses its memory, so a compare-and-swap of the word that was seen then changes the
 * right one.
 */
static inline struct am_run *run_find(uintptr_t addr, size_t *ret_i, uint64_t *ret_seen)
{
    for (;;) {
        struct am_mapping *mapping = am_mapping_find(addr);
        struct am_run *run;
        uintptr_t start;
        size_t i;

        if (mapping == NULL)
            return NULL;
        run = atomic_load_explicit(&mapping->run, memory_order_acquire);
        if (run == NULL)
            return NULL;
        start = atomic_load_explicit(&run->start, memory_order_acquire);
        i = am_run_index(run, addr - start);
        if (i >= run->n_slots)
            return NULL;
        *ret_i = i;
        *ret_seen = atomic_load_explicit(am_run_word(run, i), memory_order_acquire);
        if (__builtin_expect(
                atomic_load_explicit(&run->start, memory_order_relaxed) == start, 1))
            return run;
    }
}

/* The same for any address in a block; asked is 0 when none is alive there. */
AM_HOT static bool block_find(uintptr_t addr, struct am_block *ret_block)
{
    size_t i;
    uint64_t seen;
    struct am_run *run = run_find(addr, &i, &seen);

    if (run == NULL)
        return false;
    ret_block->slot = (struct am_slot){run, am_run_word(run, i), seen};
    ret_block->start = run->start + i * run->stride;
    ret_block->asked = am_word_asked(run, seen);
    return addr - run->start < run->size;
}

/* How many a list holds when it is filled, and keeps when it is full. */
static size_t bin_half(const struct am_bin *bin)
{
    return (size_t)(bin->limit - bin->entry) / 2;
}

/* How much of its run must be locked for the block. */
static size_t slot_end(const struct am_slot *slot)
{
    return (size_t)(am_slot_index(slot) + 1) * slot->run->stride;
}

/* More blocks into the thread's list, as long as that takes no system call. */
static void bin_fill_locked(struct am_bin *bin, struct am_run *run)
{
    struct am_slot more;

    while (bin->top < bin->entry + bin_half(bin) && am_run_take(run, &more)) {
        if (slot_end(&more) > run->locked) {
            am_run_give(&more);
            return;
        }
        am_bin_push(bin, run, more.word, more.seen, am_slot_addr(&more), run->start);
    }
}

/* The other blocks of the line of the one before i. */
static void line_fill_locked(struct am_bin *bin, struct am_run *run, uint32_t i)
{
    struct am_slot more;

    for (; i % AM_RUN_LINE != 0 && bin->top < bin->limit; i++) {
        if ((i + 1) * run->stride > run->locked)
            return;
        if (am_run_take_at(run, i, &more))
            am_bin_push(bin, run, more.word, more.seen, am_slot_addr(&more), run->start);
    }
}

/*
 * A block out of a run, and more into the thread's list: of a line that has no block of
 * another thread, where there are other threads.
 */
static inline aclError run_take_locked(struct am_heap *heap, struct am_run *run,
                                       struct am_bin *bin, struct am_slot *ret_slot)
    AM_REQUIRES(heap->lock)
{
    uint32_t line = bin != NULL && heap->n_lists > 1 ? am_run_line(run) : run->n_slots;
    bool has_line = line < run->n_slots && am_run_take_at(run, line, ret_slot);
    aclError rc = ACL_SUCCESS;

    if (has_line || am_run_take(run, ret_slot))
        rc = am_run_lock(run, slot_end(ret_slot));
    if (rc != ACL_SUCCESS)
        am_run_give(ret_slot);
    else if (has_line)
        line_fill_locked(bin, run, line + 1);
    else if (bin != NULL)
        bin_fill_locked(bin, run);
    am_heap_relist_locked(heap, run);
    return rc;
}

/* The same from the run that is to be used first; the slot's run is NULL without one. */
static aclError heap_take(struct am_heap *heap, unsigned class, struct am_bin *bin,
                          struct am_slot *ret_slot)
{
    struct am_run *run;
    aclError rc = ACL_SUCCESS;

    ret_slot->run = NULL;
    am_lock(&heap->lock);
    run = am_run_tree_first(&heap->partial[class]);
    if (run != NULL)
        rc = run_take_locked(heap, run, bin, ret_slot);
    am_unlock(&heap->lock);
    return rc;
}

/* The block becomes the caller's, unless another thread took it. */
static bool slot_claim(const struct am_slot *slot, uint64_t mark, void **ret_addr)
{
    void *addr = (void *)am_slot_addr(slot); /* of the block that is claimed, if it is */

    if (!am_word_claim(slot->word, slot->seen, mark))
        return false;
    *ret_addr = addr;
    return true;
}

static aclError malloc_small(struct am_heap *heap, const struct am_want *want,
                             size_t room, void **ret_addr)
{
    unsigned class = am_class_of(heap->classes, room);
    bool is_cached = class < heap->classes->n_cached;
    struct am_bins *bins = am_cache_make(heap);
    struct am_bin *bin = bins != NULL && is_cached ? &bins->bin[class] : NULL;
    uint64_t mark = am_word_mark(want, want->asked - 1);
    struct am_slot slot;

    while (bin != NULL && bin->top > bin->entry) {
        struct am_entry *entry = --bin->top;
        void *addr = am_entry_addr(entry);

        if (am_word_claim(entry->word, entry->seen, mark)) {
            *ret_addr = addr;
            return ACL_SUCCESS;
        }
    }
    while (!is_cached && am_kept_take(heap, heap->classes->size[class], &slot)) {
        if (slot_claim(&slot, mark, ret_addr))
            return ACL_SUCCESS;
    }
    for (;;) {
        AM_TRY(heap_take(heap, class, bin, &slot));
        if (slot.run == NULL)
            AM_TRY(am_heap_grow(heap, class, AM_CHUNK, want->asked, NULL));
        else if (slot_claim(&slot, mark, ret_addr))
            return ACL_SUCCESS;
    }
}

void am_heap_give(struct am_heap *heap, const struct am_slot *slot)
{
    struct am_run_stack doomed = SLIST_HEAD_INITIALIZER(doomed);

    am_lock(&heap->lock);
    if (am_run_give(slot))
        am_heap_settle_locked(heap, slot->run, &doomed);
    am_unlock(&heap->lock);
    am_heap_close_runs(heap, &doomed);
}

void am_word_unpin(struct am_run *run, am_word *word)
{
    uint64_t after = atomic_fetch_sub_explicit(word, 1, memory_order_acq_rel) - 1;

    if ((after & (AM_WORD_LIVE | AM_WORD_PINS)) == 0)
        am_heap_give(run->heap, &(struct am_slot){run, word, after});
}

void am_heap_count_module(struct am_heap *heap, unsigned module, size_t size)
{
    int64_t more = (int64_t)size;
    int64_t now = atomic_fetch_add(&heap->modules[module].now, more) + more;
    int64_t peak = heap->modules[module].peak;

    while (peak < now &&
           !atomic_compare_exchange_weak(&heap->modules[module].peak, &peak, now))
        ;
}

void am_heap_uncount(struct am_run *run, uint64_t word, size_t large)
{
    unsigned module = (unsigned)((word & AM_WORD_MODULE) >> AM_WORD_MODULE_SHIFT);
    size_t asked = run->stride != 0 ? am_word_asked(run, word | AM_WORD_LIVE) : large;

    if (module != 0)
        atomic_fetch_sub(&run->heap->modules[module ^ AM_MODULE_APP].now,
                         (int64_t)word_room(run, word, asked));
}

static __attribute__((noinline)) aclError malloc_slow(struct am_heap *heap,
                                                      const struct am_want *want,
                                                      size_t room, void **ret_addr)
{
    bool is_small = room <= AM_SMALL_MAX && want->page <= AM_CHUNK;
    aclError rc = (is_small ? malloc_small : am_large_malloc)(heap, want, room, ret_addr);

    if (rc == ACL_SUCCESS && want->module != AM_MODULE_APP)
        am_heap_count_module(heap, want->module, room);
    return rc;
}

aclError am_heap_malloc(struct am_heap *heap, size_t asked, size_t pad, uint32_t page,
                        unsigned module, void **ret_addr)
{
    struct am_bins *bins = am_cache_find(heap);
    size_t room = am_heap_room(heap->kind, asked, pad);
    uint64_t flags = (page > 4096 ? AM_WORD_HUGE : 0) | am_word_padded(pad);

    if (bins != NULL && room <= AM_CACHED_MAX && page <= AM_CHUNK &&
        module == AM_MODULE_APP && am_bins_take(bins, asked, room, flags, ret_addr))
        return ACL_SUCCESS;
    return malloc_slow(heap, &(struct am_want){asked, pad, page, module}, room, ret_addr);
}

void am_heap_flush(struct am_heap *heap, struct am_bin *bin, size_t keep)
{
    struct am_run_stack doomed = SLIST_HEAD_INITIALIZER(doomed);
    struct am_entry *first = bin->entry;
    struct am_entry *end = bin->top;

    if (end <= first + keep)
        return;
    am_lock(&heap->lock);
    for (; first < end - keep; first++) {
        struct am_slot slot = {first->run, first->word, first->seen};

        if (am_run_give(&slot))
            am_heap_settle_locked(heap, slot.run, &doomed);
    }
    am_unlock(&heap->lock);
    bin->top = bin->entry;
    for (; first < end; first++)
        am_bin_push(bin, first->run, first->word, first->seen, first->addr, first->start);
    am_heap_close_runs(heap, &doomed);
}

static const char *const kind_names[AM_HEAP_KINDS] = {"device", "host"};
static const char *const malloc_names[AM_HEAP_KINDS] = {"aclrtMalloc", "aclrtMallocHost"};
static const char *const free_names[AM_HEAP_KINDS] = {"aclrtFree", "aclrtFreeHost"};

/* An address behind which something is mapped that is no heap's. */
static aclError free_mapped(enum am_heap_kind kind, void *addr,
                            const struct am_owner *owner)
{
    bool is_owners = false;
    aclError rc;

    if (kind == AM_HEAP_DEVICE && owner != NULL && owner->free != NULL) {
        rc = owner->free(addr, &is_owners);
        if (is_owners)
            return rc;
    }
    return am_fail(ACL_ERROR_RT_PARAM_INVALID, "%p is memory of %s, not of %s", addr,
                   owner != NULL ? owner->name : "aclrtMapMem", malloc_names[kind]);
}

/* An address that no block has. */
static aclError free_foreign(enum am_heap_kind kind, void *addr)
{
    struct am_mapping *mapping = am_mapping_get((uintptr_t)addr);
    const struct am_owner *owner = mapping != NULL ? mapping->owner : NULL;
    bool is_heaps = mapping != NULL && mapping->run != NULL;

    if (mapping != NULL)
        am_mapping_put(mapping);
    else if (am_vspace_is_reserved((uintptr_t)addr, 1, &owner))
        is_heaps = owner != NULL;
    AM_REQUIRE(
        !is_heaps, ACL_ERROR_RT_PARAM_INVALID,
        "no live block starts at %p: the block was already freed, or never allocated",
        addr);
    if (mapping != NULL)
        return free_mapped(kind, addr, owner);
    return am_fail(ACL_ERROR_RT_PARAM_INVALID, "%p is not memory of %s", addr,
                   malloc_names[kind]);
}

static __attribute__((noinline)) aclError refuse_free(enum am_heap_kind kind, void *addr)
{
    enum am_heap_kind real;
    struct am_block block;

    if (!block_find((uintptr_t)addr, &block) || block.asked == 0)
        return free_foreign(kind, addr);
    real = block.slot.run->heap->kind;
    AM_REQUIRE(real == kind, ACL_ERROR_RT_PARAM_INVALID, "%p is %s memory; %s frees it",
               addr, kind_names[real], free_names[real]);
    return am_fail(ACL_ERROR_RT_PARAM_INVALID,
                   "%p lies inside the block of %zu bytes at %p; pass its start", addr,
                   block.asked, (void *)block.start);
}

/* The block is free and the caller's, and the thread's list is full or there is none. */
static __attribute__((noinline)) aclError slot_put_slow(struct am_run *run, am_word *word,
                                                        uint64_t seen, uintptr_t addr)
{
    struct am_heap *heap = run->heap;
    struct am_bins *bins =
        run->class < heap->classes->n_cached ? am_cache_make(heap) : NULL;
    struct am_bin *bin;

    if (bins == NULL) {
        struct am_slot slot = {run, word, seen};

        if (!am_kept_add(heap, &slot))
            am_heap_give(heap, &slot);
        return ACL_SUCCESS;
    }
    bin = &bins->bin[run->class];
    if (bin->top == bin->limit)
        am_heap_flush(heap, bin, bin_half(bin));
    am_bin_push(bin, run, word, seen, addr, run->start);
    return ACL_SUCCESS;
}

static inline aclError slot_put(struct am_run *run, am_word *word, uint64_t seen,
                                uintptr_t addr)
{
    struct am_bins *bins = am_current.lists;
    struct am_bin *bin;

    /* Most often these are the right ones, and they are nearer by. */
    if (bins == NULL || bins->heap != run->heap)
        bins = am_cache_find(run->heap);
    if (__builtin_expect(bins == NULL, 0))
        return slot_put_slow(run, word, seen, addr);
    bin = (struct am_bin *)((char *)bins + run->bin);
    if (__builtin_expect(bin->top == bin->limit, 0))
        return slot_put_slow(run, word, seen, addr);
    am_bin_push(bin, run, word, seen, addr, run->start);
    return ACL_SUCCESS;
}

/* A block of another module is counted; one that is pinned is put in by its last pin. */
static __attribute__((noinline)) aclError
free_rest(struct am_run *run, am_word *word, uint64_t was, size_t large, uintptr_t addr)
{
    uint64_t after = was & (AM_WORD_GENERATION | AM_WORD_PINS);

    am_heap_uncount(run, was, large);
    return (after & AM_WORD_PINS) == 0 ? slot_put_slow(run, word, after, addr)
                                       : ACL_SUCCESS;
}

aclError am_heap_free(enum am_heap_kind kind, void *addr)
{
    struct am_run *run;
    uint64_t seen;
    uint64_t after;
    size_t large = 0;
    size_t i;

    do {
        run = run_find((uintptr_t)addr, &i, &seen);
        if (__builtin_expect(run == NULL || (seen & AM_WORD_LIVE) == 0 ||
                                 run->kind != kind ||
                                 run->start + i * run->stride != (uintptr_t)addr,
                             0))
            return refuse_free(kind, addr);
        if (__builtin_expect((seen & AM_WORD_MODULE) != 0, 0))
            large = run->large; /* while it is this block's */
        after = seen & (AM_WORD_GENERATION | AM_WORD_PINS);
    } while (!atomic_compare_exchange_weak_explicit(
        am_run_word(run, i), &seen, after, memory_order_acq_rel, memory_order_relaxed));
    if (__builtin_expect((seen & (AM_WORD_MODULE | AM_WORD_PINS)) != 0, 0))
        return free_rest(run, am_run_word(run, i), seen, large, (uintptr_t)addr);
    return slot_put(run, am_run_word(run, i), after, (uintptr_t)addr);
}

/* The requested size is checked first: most ranges lie in it. */
static aclError pin_check(const struct am_block *block, uintptr_t addr, size_t size,
                          const char *what)
{
    size_t at = addr - block->start;

    AM_REQUIRE(block->asked > 0, ACL_ERROR_RT_PARAM_INVALID,
               "%s: there is no live block at %p; the block has been freed", what,
               (void *)addr);
    if (!am_is_within(block->asked, at, size)) {
        struct am_bounds bounds = block_bounds(block);

        if (!am_is_within(bounds.size, at, size))
            return am_bounds_refuse(&bounds, addr, size, what);
    }
    AM_REQUIRE((block->slot.seen & AM_WORD_PINS) < AM_WORD_PINS,
               ACL_ERROR_RT_RESOURCE_ALLOC_FAIL,
               "%s: %u queued operations use the block at %p, which is the limit; wait "
               "for some with aclrtSynchronizeStream",
               what, (unsigned)AM_WORD_PINS, (void *)block->start);
    return ACL_SUCCESS;
}

AM_HOT static aclError heap_pin(uintptr_t addr, size_t size, const char *what)
{
    struct am_block block;

    do {
        /* Freed since the caller looked, or behind the last block of a chunk. */
        if (!block_find(addr, &block))
            block = (struct am_block){.start = addr};
        AM_TRY(pin_check(&block, addr, size, what));
    } while (!atomic_compare_exchange_weak_explicit(
        block.slot.word, &block.slot.seen, block.slot.seen + 1, memory_order_acq_rel,
        memory_order_relaxed));
    return ACL_SUCCESS;
}

static void heap_unpin(struct am_mapping *mapping, uintptr_t addr)
{
    struct am_run *run = mapping->run;

    am_word_unpin(run, am_run_word(run, am_run_index(run, addr - run->start)));
}

static bool heap_find_block(uintptr_t addr, struct am_bounds *ret_bounds)
{
    struct am_block_info info;

    if (!am_heap_find((const void *)addr, &info))
        return false;
    *ret_bounds = info.bounds;
    return true;
}

const struct am_owner am_heap_owners[AM_HEAP_KINDS] = {
    [AM_HEAP_DEVICE] = {.name = "aclrtMalloc",
                        .find_block = heap_find_block,
                        .pin = heap_pin,
                        .unpin = heap_unpin},
    [AM_HEAP_HOST] = {.name = "aclrtMallocHost",
                      .find_block = heap_find_block,
                      .pin = heap_pin,
                      .unpin = heap_unpin},
};

bool am_heap_find(const void *addr, struct am_block_info *ret_info)
{
    struct am_block block;
    struct am_run *run;
    struct am_bounds bounds;

    if (!block_find((uintptr_t)addr, &block) || block.asked == 0)
        return false;
    bounds = block_bounds(&block);
    if ((uintptr_t)addr - bounds.start >= bounds.size)
        return false;
    run = block.slot.run;
    *ret_info = (struct am_block_info){
        .bounds = bounds,
        .kind = run->heap->kind,
        .device = run->heap->device,
        .page = run->stride == 0                   ? run->page
                : (block.slot.seen & AM_WORD_HUGE) ? (uint32_t)AM_CHUNK
                                                   : 4096,
    };
    return true;
}

static aclError share_check(const struct am_block *block, uintptr_t addr, size_t size)
{
    struct am_run *run = block->slot.run;

    AM_REQUIRE(block->asked > 0 && run->kind == AM_HEAP_DEVICE,
               ACL_ERROR_RT_PARAM_INVALID, "%p is not memory of aclrtMalloc",
               (void *)addr);
    AM_REQUIRE(block->start == addr, ACL_ERROR_RT_PARAM_INVALID,
               "%p lies inside the block of %zu bytes at %p; pass its start",
               (void *)addr, block->asked, (void *)block->start);
    AM_REQUIRE(run->stride == 0, ACL_ERROR_RT_PARAM_INVALID,
               "the block of %zu bytes at %p shares its pages with other blocks; only "
               "blocks of more than %zu bytes can be shared",
               block->asked, (void *)addr, (size_t)AM_SMALL_MAX);
    AM_REQUIRE(size <= block_bounds(block).size, ACL_ERROR_RT_PARAM_INVALID,
               "size is %zu but the block at %p has %zu bytes", size, (void *)addr,
               block->asked);
    return ACL_SUCCESS;
}

/*
 * The run goes when its block is freed; false: the block was freed.  A thread that frees it
 * writes to the word as well: either this one comes later and sees that, or that thread
 * sees that the run is dead, and does not keep the block.
 */
static bool run_share_locked(struct am_run *run)
{
    bool was_dead = atomic_exchange(&run->is_dead, true);
    uint64_t word = atomic_fetch_add_explicit(&run->words[0], 0, memory_order_acq_rel);

    if ((word & AM_WORD_LIVE) == 0)
        run->is_dead = was_dead;
    return (word & AM_WORD_LIVE) != 0;
}

aclError am_heap_share(void *addr, size_t size, struct am_phys **ret_phys)
{
    struct am_phys *phys = NULL;
    struct am_block block;
    struct am_run *run;

    AM_REQUIRE(block_find((uintptr_t)addr, &block), ACL_ERROR_RT_PARAM_INVALID,
               "%p is not memory of aclrtMalloc", addr);
    AM_TRY(share_check(&block, (uintptr_t)addr, size));
    run = block.slot.run;
    am_lock(&run->heap->lock);
    if (run->start == (uintptr_t)addr && run_share_locked(run)) {
        am_heap_relist_locked(run->heap, run);
        phys = am_phys_ref(run->mapping->phys);
    }
    am_unlock(&run->heap->lock);
    AM_REQUIRE(phys != NULL, ACL_ERROR_RT_PARAM_INVALID,
               "the block at %p was freed meanwhile", addr);
    *ret_phys = phys;
    return ACL_SUCCESS;
}
