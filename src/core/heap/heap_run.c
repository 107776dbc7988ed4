/* See heap_run.h. */
#include "core/heap/heap_run.h"

#include "base/error.h"
#include "base/sys.h"
#include "core/heap/heap.h"
#include "core/heap/heap_cache.h"

#define GENERATION_ONE (UINT64_C(1) << AM_WORD_GENERATION_SHIFT)

struct am_run *am_run_create(struct am_heap *heap, unsigned class, uint32_t stride)
{
    uint32_t n_slots = stride != 0 ? (uint32_t)(AM_CHUNK / stride) : 1;
    size_t n_bits = (n_slots + 63) / 64;
    struct am_run *run =
        am_sys_calloc(1, sizeof *run + (n_bits + n_slots) * sizeof(uint64_t));

    if (run == NULL)
        return NULL;
    run->heap = heap;
    run->kind = heap->kind;
    run->class = class;
    run->bin = (uint32_t)offsetof(struct am_bins, bin) +
               (uint32_t)sizeof(struct am_bin) *
                   (class < heap->classes->n_cached ? class : AM_BINS_MAX);
    run->n_slots = n_slots;
    run->stride = stride;
    run->inverse = stride != 0 ? (UINT64_C(1) << 44) / stride + 1 : 0;
    run->bits = (uint64_t *)(run + 1);
    run->words = (am_word *)(run->bits + n_bits);
    run->n_in = n_slots;
    for (size_t i = 0; i < n_slots; i++)
        run->bits[i / 64] |= UINT64_C(1) << (i % 64);
    return run;
}

bool am_run_take(struct am_run *run, struct am_slot *ret_slot)
{
    while (run->n_in > 0) {
        uint32_t w = run->hint;
        uint32_t i;
        uint64_t seen;

        while (run->bits[w] == 0)
            w++;
        run->hint = w;
        i = w * 64 + (uint32_t)__builtin_ctzl(run->bits[w]);
        run->bits[w] &= run->bits[w] - 1;
        run->n_in--;
        if (run->n_touched <= i)
            run->n_touched = i + 1;
        seen = atomic_load_explicit(&run->words[i], memory_order_relaxed);
        /* A list so old that its generation fits again (after 2^14) may have taken it. */
        if (seen & (AM_WORD_LIVE | AM_WORD_PINS))
            continue;
        *ret_slot = (struct am_slot){run, &run->words[i], seen};
        return true;
    }
    return false;
}

bool am_run_give(const struct am_slot *slot)
{
    struct am_run *run = slot->run;
    uint32_t i = (uint32_t)(slot->word - run->words);
    uint64_t bit = UINT64_C(1) << (i % 64);

    if (atomic_load_explicit(slot->word, memory_order_relaxed) != slot->seen ||
        (run->bits[i / 64] & bit) != 0)
        return false;
    run->bits[i / 64] |= bit;
    run->n_in++;
    if (i / 64 < run->hint)
        run->hint = i / 64;
    return true;
}

/* The first block from i on that is out; n_touched when there is none. */
static uint32_t next_out(const struct am_run *run, uint32_t i)
{
    while (i < run->n_touched) {
        uint64_t out = ~run->bits[i / 64] >> (i % 64);

        if (out != 0) {
            i += (uint32_t)__builtin_ctzl(out);
            break;
        }
        i = (i / 64 + 1) * 64;
    }
    return i < run->n_touched ? i : run->n_touched;
}

bool am_run_is_idle(struct am_run *run)
{
    for (uint32_t i = next_out(run, 0); i < run->n_touched; i = next_out(run, i + 1)) {
        uint64_t word = atomic_load_explicit(&run->words[i], memory_order_relaxed);

        if (word & (AM_WORD_LIVE | AM_WORD_PINS))
            return false;
    }
    return true;
}

size_t am_run_count_live(struct am_run *run)
{
    size_t n = 0;

    for (uint32_t i = next_out(run, 0); i < run->n_touched; i = next_out(run, i + 1)) {
        uint64_t word = atomic_load_explicit(&run->words[i], memory_order_relaxed);

        n += (word & AM_WORD_LIVE) != 0;
    }
    return n;
}

/*
 * Takes from the program, or from the lists of threads, the block that is out, and puts
 * it in unless it is pinned.  With must_be_free a live one is left alone.
 */
static void block_seize(struct am_run *run, uint32_t i, bool must_be_free)
{
    uint64_t seen = atomic_load_explicit(&run->words[i], memory_order_relaxed);
    uint64_t after;

    do {
        if (must_be_free && (seen & AM_WORD_LIVE) != 0)
            return;
        after = (seen & (AM_WORD_GENERATION | AM_WORD_PINS)) + GENERATION_ONE;
    } while (!atomic_compare_exchange_weak_explicit(
        &run->words[i], &seen, after, memory_order_acq_rel, memory_order_relaxed));
    if (seen & AM_WORD_LIVE)
        am_heap_uncount(run, seen,
                        run->large); /* it stays free: the caller has the lock */
    if ((after & AM_WORD_PINS) == 0) /* otherwise the last pin puts it in */
        am_run_give(&(struct am_slot){run, &run->words[i], after});
}

bool am_run_steal(struct am_run *run)
{
    for (uint32_t i = next_out(run, 0); i < run->n_touched; i = next_out(run, i + 1))
        block_seize(run, i, true);
    return run->n_in == run->n_slots;
}

void am_run_kill(struct am_run *run)
{
    for (uint32_t i = next_out(run, 0); i < run->n_touched; i = next_out(run, i + 1))
        block_seize(run, i, false);
}

bool am_run_retire(struct am_run *run)
{
    for (uint32_t i = 0; i < run->n_touched; i++) {
        uint64_t seen = atomic_load_explicit(&run->words[i], memory_order_relaxed);

        if ((seen & (AM_WORD_LIVE | AM_WORD_PINS)) == 0 &&
            atomic_compare_exchange_strong_explicit(
                &run->words[i], &seen, seen + GENERATION_ONE, memory_order_acq_rel,
                memory_order_relaxed))
            continue;
        /* The case of am_run_take(): it is out. */
        run->bits[i / 64] &= ~(UINT64_C(1) << (i % 64));
        run->n_in--;
        return false;
    }
    run->n_touched = 0;
    run->hint = 0;
    return true;
}
