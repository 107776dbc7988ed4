/* See heap_run.h. */
#include "core/heap/heap_run.h"

#include <string.h>

#include "base/error.h"
#include "base/sys.h"
#include "core/heap/heap.h"
#include "core/heap/heap_cache.h"

#define LINE 64      /* bytes of a line of the cache, */
#define LINE_SHIFT 3 /* which has 8 words */
#define GENERATION_ONE (UINT64_C(1) << AM_WORD_GENERATION_SHIFT)

#define LINES_LOOK 16 /* words of bits that are searched for a line */

static inline uint64_t bits_of(const struct am_run *run, size_t w)
{
    return atomic_load_explicit(&run->bits[w], memory_order_relaxed);
}

static inline void bit_set(struct am_run *run, uint32_t i)
{
    atomic_store_explicit(&run->bits[i / 64],
                          bits_of(run, i / 64) | UINT64_C(1) << (i % 64),
                          memory_order_relaxed);
}

static inline void bit_clear(struct am_run *run, uint32_t i)
{
    atomic_store_explicit(&run->bits[i / 64],
                          bits_of(run, i / 64) & ~(UINT64_C(1) << (i % 64)),
                          memory_order_relaxed);
}

static inline uint32_t touched(const struct am_run *run)
{
    return atomic_load_explicit(&run->n_touched, memory_order_relaxed);
}

struct am_run *am_run_create(struct am_heap *heap, unsigned class, uint32_t stride)
{
    uint32_t n_slots = stride != 0 ? (uint32_t)(AM_CHUNK / stride) : 1;
    size_t bits_at = am_align_up(sizeof(struct am_run), LINE);
    size_t words_at = bits_at + am_align_up((n_slots + 63) / 64 * sizeof(uint64_t), LINE);
    uint32_t shift = class < heap->classes->n_cached ? 0 : LINE_SHIFT;
    size_t size = words_at + am_align_up((n_slots << shift) * sizeof(am_word), LINE);
    struct am_run *run = am_sys_aligned_alloc(LINE, size);

    if (run == NULL)
        return NULL;
    memset(run, 0, size);
    run->heap = heap;
    run->kind = heap->kind;
    run->class = class;
    run->bin = (uint32_t)offsetof(struct am_bins, bin) +
               (uint32_t)sizeof(struct am_bin) *
                   (class < heap->classes->n_cached ? class : AM_BINS_MAX);
    run->n_slots = n_slots;
    run->stride = stride;
    run->word_shift = shift;
    run->inverse = stride != 0 ? (UINT64_C(1) << 44) / stride + 1 : 0;
    run->bits = (_Atomic uint64_t *)((char *)run + bits_at);
    run->words = (am_word *)((char *)run + words_at);
    run->n_in = n_slots;
    for (uint32_t i = 0; i < n_slots; i++)
        bit_set(run, i);
    return run;
}

bool am_run_take_at(struct am_run *run, uint32_t i, struct am_slot *ret_slot)
{
    uint64_t seen;

    bit_clear(run, i);
    run->n_in--;
    if (touched(run) <= i)
        atomic_store_explicit(&run->n_touched, i + 1, memory_order_relaxed);
    seen = atomic_load_explicit(am_run_word(run, i), memory_order_relaxed);
    /* A list so old that its generation fits again (after 2^14) may have taken it. */
    if (seen & (AM_WORD_LIVE | AM_WORD_PINS))
        return false;
    *ret_slot = (struct am_slot){run, am_run_word(run, i), seen};
    return true;
}

bool am_run_take(struct am_run *run, struct am_slot *ret_slot)
{
    while (run->n_in > 0) {
        uint32_t w = run->hint;

        while (bits_of(run, w) == 0)
            w++;
        run->hint = w;
        if (am_run_take_at(run, w * 64 + (uint32_t)__builtin_ctzl(bits_of(run, w)),
                           ret_slot))
            return true;
    }
    return false;
}

/* Not far: it is done under the lock, and blocks at low addresses are to be used first. */
uint32_t am_run_line(const struct am_run *run)
{
    uint32_t n = (run->n_slots + 63) / 64;
    uint32_t end = run->hint + LINES_LOOK < n ? run->hint + LINES_LOOK : n;

    for (uint32_t w = run->hint; w < end; w++) {
        uint64_t bits = bits_of(run, w);

        for (uint32_t i = 0; bits != 0 && i < 64; i += AM_RUN_LINE) {
            if ((bits >> i & 0xff) == 0xff)
                return w * 64 + i;
        }
    }
    return run->n_slots;
}

bool am_run_give(const struct am_slot *slot)
{
    struct am_run *run = slot->run;
    uint32_t i = am_slot_index(slot);

    if (atomic_load_explicit(slot->word, memory_order_relaxed) != slot->seen ||
        (bits_of(run, i / 64) >> (i % 64) & 1) != 0)
        return false;
    bit_set(run, i);
    run->n_in++;
    if (i / 64 < run->hint)
        run->hint = i / 64;
    return true;
}

/* The first block from i on that is out; n_touched when there is none. */
static uint32_t next_out(const struct am_run *run, uint32_t i)
{
    uint32_t n = touched(run);

    while (i < n) {
        uint64_t out = ~bits_of(run, i / 64) >> (i % 64);

        if (out != 0) {
            i += (uint32_t)__builtin_ctzl(out);
            break;
        }
        i = (i / 64 + 1) * 64;
    }
    return i < n ? i : n;
}

bool am_run_is_idle(struct am_run *run)
{
    for (uint32_t i = next_out(run, 0); i < touched(run); i = next_out(run, i + 1)) {
        uint64_t word = atomic_load_explicit(am_run_word(run, i), memory_order_relaxed);

        if (word & (AM_WORD_LIVE | AM_WORD_PINS))
            return false;
    }
    return true;
}

size_t am_run_count_live(struct am_run *run, uint64_t *size)
{
    size_t n = 0;

    for (uint32_t i = next_out(run, 0); i < touched(run); i = next_out(run, i + 1)) {
        uint64_t word = atomic_load_explicit(am_run_word(run, i), memory_order_relaxed);

        n += (word & AM_WORD_LIVE) != 0;
        *size += am_word_asked(run, word);
    }
    return n;
}

/*
 * Takes from the program, or from the lists of threads, the block that is out, and puts
 * it in unless it is pinned.  With must_be_free a live one is left alone.
 */
static void block_seize(struct am_run *run, uint32_t i, bool must_be_free)
{
    uint64_t seen = atomic_load_explicit(am_run_word(run, i), memory_order_relaxed);
    uint64_t after;

    do {
        if (must_be_free && (seen & AM_WORD_LIVE) != 0)
            return;
        after = (seen & (AM_WORD_GENERATION | AM_WORD_PINS)) + GENERATION_ONE;
    } while (!atomic_compare_exchange_weak_explicit(
        am_run_word(run, i), &seen, after, memory_order_acq_rel, memory_order_relaxed));
    if (seen & AM_WORD_LIVE)
        am_heap_uncount(run, seen,
                        run->large); /* it stays free: the caller has the lock */
    if ((after & AM_WORD_PINS) == 0) /* otherwise the last pin puts it in */
        am_run_give(&(struct am_slot){run, am_run_word(run, i), after});
}

bool am_run_steal(struct am_run *run)
{
    for (uint32_t i = next_out(run, 0); i < touched(run); i = next_out(run, i + 1))
        block_seize(run, i, true);
    return run->n_in == run->n_slots;
}

void am_run_kill(struct am_run *run)
{
    for (uint32_t i = next_out(run, 0); i < touched(run); i = next_out(run, i + 1))
        block_seize(run, i, false);
}

bool am_run_retire(struct am_run *run)
{
    for (uint32_t i = 0; i < touched(run); i++) {
        uint64_t seen = atomic_load_explicit(am_run_word(run, i), memory_order_relaxed);

        if ((seen & (AM_WORD_LIVE | AM_WORD_PINS)) == 0 &&
            atomic_compare_exchange_strong_explicit(
                am_run_word(run, i), &seen, seen + GENERATION_ONE, memory_order_acq_rel,
                memory_order_relaxed))
            continue;
        /* The case of am_run_take(): it is out. */
        bit_clear(run, i);
        run->n_in--;
        return false;
    }
    atomic_store_explicit(&run->n_touched, 0, memory_order_relaxed);
    run->hint = 0;
    return true;
}
