/*
 * The copy engine.
 *
 * Both sides are lists of spans.  A walk of a cursor turns a list into runs: stretches that
 * are contiguous in this process's memory, neighbouring frames joined across handles.  A
 * copy moves the shorter of the two runs, again and again.  Before the first byte moves, the
 * pages of every frame that will be written are brought in, so a copy that the machine
 * has no memory for fails whole.
 *
 * Source frames that never held bytes are not read, which would make the kernel fill them
 * in: their part of the destination is zeroed.  Zeroing such frames is nothing at all.
 */
#include "backend/host/host.h"

#if defined(__x86_64__)
#include <emmintrin.h>
#endif
#include <inttypes.h>
#include <string.h>
#include <time.h>
#include <wchar.h>

#include "acl/error_codes/rt_error_codes.h"
#include "base/clock.h"
#include "base/error.h"

/* ---- bytes ---- */

/*
 * The C library's memcpy reads each line of the destination into the cache before it
 * overwrites it, except for very large copies (its limit is a share of the last cache,
 * hundreds of megabytes on servers). Stores that bypass the cache spare that third of
 * the traffic: 64 MB moved at 14 to 16 GB/s instead of 10 to 11 on the machine that this
 * was measured on.  Below a few megabytes they lose, since the next reader then has to
 * fetch the data from memory.
 */

/* A value that one stream writes and another one waits for: both see all of it. */
static bool move_word(void *dst, const void *src, size_t size)
{
    uint64_t word;

    if (size != sizeof word || ((uintptr_t)dst | (uintptr_t)src) % sizeof word != 0)
        return false;
    word = __atomic_load_n((const uint64_t *)src, __ATOMIC_ACQUIRE);
    __atomic_store_n((uint64_t *)dst, word, __ATOMIC_RELEASE);
    return true;
}

#if defined(__x86_64__)

#define STREAM_SIZE (16 * AM_MIB) /* from here on streaming won in every direction */
#define LINE 64

static void move_stream(uint8_t *dst, const uint8_t *src, size_t size)
{
    size_t head = -(uintptr_t)dst & (LINE - 1);
    size_t tail;

    memcpy(dst, src, head);
    dst += head;
    src += head;
    tail = (size - head) & (LINE - 1);
    for (const uint8_t *end = src + (size - head - tail); src < end;
         src += LINE, dst += LINE) {
        __m128i a = _mm_loadu_si128((const __m128i *)src);
        __m128i b = _mm_loadu_si128((const __m128i *)(src + 16));
        __m128i c = _mm_loadu_si128((const __m128i *)(src + 32));
        __m128i d = _mm_loadu_si128((const __m128i *)(src + 48));

        _mm_stream_si128((__m128i *)dst, a);
        _mm_stream_si128((__m128i *)(dst + 16), b);
        _mm_stream_si128((__m128i *)(dst + 32), c);
        _mm_stream_si128((__m128i *)(dst + 48), d);
    }
    _mm_sfence(); /* before the copy is reported as done */
    memcpy(dst, src, tail);
}

static bool overlaps(const uint8_t *a, const uint8_t *b, size_t size)
{
    return (size_t)(a > b ? a - b : b - a) < size;
}

void host_move(void *dst, const void *src, size_t size)
{
    if (size >= STREAM_SIZE && !overlaps(dst, src, size))
        move_stream(dst, src, size);
    else if (!move_word(dst, src, size))
        memmove(dst, src, size);
}

#else

void host_move(void *dst, const void *src, size_t size)
{
    if (!move_word(dst, src, size))
        memmove(dst, src, size);
}

#endif

/* ---- gates ---- */

/*
 * Gates: memory does not move while it is in use.
 *
 * Only isolated memory ever moves, once, when it is exported.  Each such mem counts its
 * running copies and its open views.  Only the program ends a view, so the export of
 * memory with a view fails at once.  Otherwise the gate is shut, and the export waits
 * until the copies are done.  Queued copies are not counted: they find the memory
 * when they run.  A copy that finds one of its gates shut leaves the gates it has passed
 * before it tries again, so threads never wait in a cycle.
 *
 *     shut (1 bit) | pins (31) | copies (32)
 */
#define GATE_COPY UINT64_C(1)
#define GATE_PIN (UINT64_C(1) << 32)
#define GATE_SHUT (UINT64_C(1) << 63)

#define NAP_NS 50000
#define WAIT_NS (2 * AM_SECOND)        /* for copies that run, in all */
#define SLICE_NS (10 * AM_MILLISECOND) /* the most that one poll counts */

static void nap(void)
{
    nanosleep(&(struct timespec){.tv_nsec = NAP_NS}, NULL);
}

static bool mem_can_move(const struct am_mem *mem)
{
    return mem != NULL && mem->bank->spec.is_isolated;
}

static bool mem_enter(struct am_mem *mem, uint64_t what)
{
    _Atomic uint64_t *gate = &host_mem(mem)->gate;

    if ((atomic_fetch_add_explicit(gate, what, memory_order_acquire) & GATE_SHUT) == 0)
        return true;
    atomic_fetch_sub_explicit(gate, what, memory_order_relaxed);
    return false;
}

/* How many spans a range of `size` bytes from `at` on touches; *first is where it begins. */
static size_t spans_touched(const struct am_span **first, size_t at, size_t size)
{
    struct am_cursor cursor = {*first, at};
    const struct am_span *last;

    if (*first == NULL || size == 0)
        return 0;
    am_cursor_settle(&cursor);
    *first = last = cursor.span;
    for (size += cursor.at; size > last->size; last++)
        size -= last->size;
    return (size_t)(last - *first) + 1;
}

static void spans_leave(const struct am_span *spans, size_t n, uint64_t what)
{
    for (size_t i = 0; i < n; i++) {
        if (mem_can_move(spans[i].mem))
            atomic_fetch_sub_explicit(&host_mem(spans[i].mem)->gate, what,
                                      memory_order_release);
    }
}

/* All or none. */
static bool spans_enter(const struct am_span *spans, size_t n, uint64_t what)
{
    for (size_t i = 0; i < n; i++) {
        if (mem_can_move(spans[i].mem) && !mem_enter(spans[i].mem, what)) {
            spans_leave(spans, i, what);
            return false;
        }
    }
    return true;
}

void host_gate_enter(const struct am_span *dst, size_t dst_at, const struct am_span *src,
                     size_t src_at, size_t size)
{
    size_t n_dst = spans_touched(&dst, dst_at, size);
    size_t n_src = spans_touched(&src, src_at, size);

    for (;;) {
        if (spans_enter(dst, n_dst, GATE_COPY)) {
            if (spans_enter(src, n_src, GATE_COPY))
                return;
            spans_leave(dst, n_dst, GATE_COPY);
        }
        nap();
    }
}

void host_gate_leave(const struct am_span *dst, size_t dst_at, const struct am_span *src,
                     size_t src_at, size_t size)
{
    size_t n_dst = spans_touched(&dst, dst_at, size);
    size_t n_src = spans_touched(&src, src_at, size);

    spans_leave(dst, n_dst, GATE_COPY);
    spans_leave(src, n_src, GATE_COPY);
}

void host_gate_pin(const struct am_span *spans, size_t n)
{
    while (!spans_enter(spans, n, GATE_PIN))
        nap();
}

void host_gate_unpin(const struct am_span *spans, size_t n)
{
    spans_leave(spans, n, GATE_PIN);
}

aclError host_gate_shut(struct am_mem *mem)
{
    _Atomic uint64_t *gate = &host_mem(mem)->gate;
    struct am_timeout timeout = {.left = WAIT_NS, .checked = am_clock()};
    uint64_t seen = atomic_load_explicit(gate, memory_order_relaxed);

    do { /* from when it is shut on, a pin is one that will be taken back */
        am_assert((seen & GATE_SHUT) == 0); /* the core exports a phys once at a time */
        AM_REQUIRE(seen < GATE_PIN, ACL_ERROR_RT_PARAM_INVALID,
                   "the memory cannot be shared now: %" PRIu64
                   " host views of it are open; end them first (it may be viewed again "
                   "afterwards)",
                   seen / GATE_PIN);
    } while (!atomic_compare_exchange_weak_explicit(
        gate, &seen, seen | GATE_SHUT, memory_order_acquire, memory_order_relaxed));
    while ((seen = atomic_load_explicit(gate, memory_order_acquire)) != GATE_SHUT) {
        if (!am_timeout_check(&timeout, am_clock(), SLICE_NS)) {
            host_gate_open(mem);
            return am_fail(ACL_ERROR_RT_PARAM_INVALID,
                           "the memory cannot be shared now: copies have used it for %d "
                           "seconds (%" PRIu64 " now); wait for them first",
                           (int)(WAIT_NS / AM_SECOND), seen & (GATE_PIN - 1));
        }
        nap();
    }
    return ACL_SUCCESS;
}

void host_gate_open(struct am_mem *mem)
{
    atomic_fetch_and_explicit(&host_mem(mem)->gate, ~GATE_SHUT, memory_order_release);
}

/* ---- walks ---- */

struct run {
    uint8_t *ptr;
    size_t size;
    bool is_zero; /* frames that hold nothing; ptr must not be read */
};

/*
 * Some bytes from where the walk stands, at most to the end of the frame or of the
 * program's memory.
 */
static struct run walk_piece(struct am_cursor *w)
{
    const struct am_span *span;
    struct host_store *store;
    size_t left;
    size_t offset;
    size_t frame;
    size_t in_frame;

    am_cursor_settle(w);
    span = w->span;
    left = span->size - w->at;
    if (span->mem == NULL)
        return (struct run){(uint8_t *)span->addr + w->at, left, false};

    offset = span->offset + w->at;
    in_frame = offset & (AM_CHUNK - 1);
    frame = host_mem_frame(span->mem, offset);
    store = host_mem(span->mem)->store;
    if (left > AM_CHUNK - in_frame)
        left = AM_CHUNK - in_frame;
    return (struct run){
        .ptr = store->view + (frame << AM_CHUNK_SHIFT) + in_frame,
        .size = left,
        .is_zero = (store->state[frame] & HOST_FRAME_HOLDS) == 0,
    };
}

/* The longest run of at most `size` bytes from here on; the walk moves behind it. */
static struct run walk_run(struct am_cursor *w, size_t size)
{
    struct run run = walk_piece(w);

    if (run.size > size)
        run.size = size;
    w->at += run.size;
    while (run.size < size) {
        struct run next = walk_piece(w);

        if (next.ptr != run.ptr + run.size || next.is_zero != run.is_zero)
            break;
        if (next.size > size - run.size)
            next.size = size - run.size;
        run.size += next.size;
        w->at += next.size;
    }
    return run;
}

/* Whether a frame may hold anything but zeros. */
static bool frame_holds(const struct host_store *store, size_t frame)
{
    return store->state[frame] & HOST_FRAME_HOLDS;
}

/*
 * Bring in the pages of every frame that `size` bytes from here on touch; only_held: of
 * the written ones.
 */
static aclError walk_ready(struct am_cursor w, size_t size, bool only_held)
{
    while (size > 0) {
        size_t n;
        size_t at;
        size_t end;

        am_cursor_settle(&w);
        n = w.span->size - w.at < size ? w.span->size - w.at : size;
        at = w.span->offset + w.at;
        end = at + n;
        while (w.span->mem != NULL && at < end) {
            struct host_store *store = host_mem(w.span->mem)->store;
            size_t first = host_mem_frame(w.span->mem, at);
            size_t count = 1;

            at = (at & ~(AM_CHUNK - 1)) + AM_CHUNK;
            while (at < end && host_mem_frame(w.span->mem, at) == first + count &&
                   frame_holds(store, first + count) == frame_holds(store, first)) {
                at += AM_CHUNK;
                count++;
            }
            if (only_held && !frame_holds(store, first))
                continue;
            AM_TRY(host_store_ready(store, first, count));
            /* They now hold more than their content from before the allocation. */
            for (size_t i = first; !only_held && i < first + count; i++) {
                if (store->state[i] & HOST_FRAME_OLD)
                    atomic_fetch_and(&store->state[i], (uint8_t)~HOST_FRAME_OLD);
            }
        }
        w.at += n;
        size -= n;
    }
    return ACL_SUCCESS;
}

static aclError make_ready(const struct am_span *dst, size_t dst_at,
                           const struct am_span *src, size_t src_at, size_t size)
{
    AM_TRY(walk_ready((struct am_cursor){dst, dst_at}, size, false));
    /* Reading what the program may touch, or what has a view, brings pages in as well. */
    return walk_ready((struct am_cursor){src, src_at}, size, true);
}

aclError host_prepare(const struct am_span *dst, size_t dst_at, const struct am_span *src,
                      size_t src_at, size_t size)
{
    aclError rc;

    host_gate_enter(dst, dst_at, src, src_at, size);
    rc = make_ready(dst, dst_at, src, src_at, size);
    host_gate_leave(dst, dst_at, src, src_at, size);
    return rc;
}

/*
 * The bytes of a range in one span and one frame, whose pages are there and which holds bytes
 * already; NULL: any other range.
 */
static uint8_t *piece_find(const struct am_span *span, size_t at, size_t size)
{
    const unsigned usual = HOST_FRAME_HOLDS | HOST_FRAME_READY;
    size_t offset = span->offset + at;
    struct host_store *store;
    size_t frame;

    if (size == 0 || !am_is_within(span->size, at, size))
        return NULL;
    if (span->mem == NULL)
        return (uint8_t *)span->addr + at;
    if (!am_is_within(AM_CHUNK, offset & (AM_CHUNK - 1), size))
        return NULL;
    frame = host_mem_frame(span->mem, offset);
    store = host_mem(span->mem)->store;
    if (store->state[frame] != usual)
        return NULL;
    return store->view + (frame << AM_CHUNK_SHIFT) + (offset & (AM_CHUNK - 1));
}

static aclError copy_spans(const struct am_span *dst, size_t dst_at,
                           const struct am_span *src, size_t src_at, size_t size)
{
    uint8_t *dst_piece = piece_find(dst, dst_at, size);
    uint8_t *src_piece = piece_find(src, src_at, size);
    struct am_cursor to = {dst, dst_at};
    struct am_cursor from = {src, src_at};
    struct run out = {0};
    struct run in = {0};

    if (dst_piece != NULL && src_piece != NULL) {
        host_move(dst_piece, src_piece, size);
        return ACL_SUCCESS;
    }
    AM_TRY(make_ready(dst, dst_at, src, src_at, size));
    for (size_t left = size; left > 0;) {
        size_t n;

        if (out.size == 0)
            out = walk_run(&to, left);
        if (in.size == 0)
            in = walk_run(&from, left);
        n = out.size < in.size ? out.size : in.size;
        if (in.is_zero)
            memset(out.ptr, 0, n);
        else
            host_move(out.ptr, in.ptr, n);
        out.ptr += n;
        out.size -= n;
        in.ptr += n;
        in.size -= n;
        left -= n;
    }
    return ACL_SUCCESS;
}

aclError host_copy(const struct am_span *dst, size_t dst_at, const struct am_span *src,
                   size_t src_at, size_t size)
{
    aclError rc;

    host_gate_enter(dst, dst_at, src, src_at, size);
    rc = copy_spans(dst, dst_at, src, src_at, size);
    host_gate_leave(dst, dst_at, src, src_at, size);
    return rc;
}

static aclError fill_spans(const struct am_span *dst, size_t size, uint32_t value,
                           unsigned width)
{
    struct am_cursor to = {dst, 0};

    AM_TRY(walk_ready(to, size, value == 0));
    while (size > 0) {
        struct run run = walk_run(&to, size);

        if (!run.is_zero && width == 4)
            wmemset((wchar_t *)run.ptr, (wchar_t)value, run.size / sizeof(wchar_t));
        else if (!run.is_zero)
            memset(run.ptr, (int)value, run.size);
        size -= run.size;
    }
    return ACL_SUCCESS;
}

aclError host_fill(const struct am_span *dst, size_t size, uint32_t value, unsigned width)
{
    aclError rc;

    host_gate_enter(dst, 0, NULL, 0, size);
    rc = fill_spans(dst, size, value, width);
    host_gate_leave(dst, 0, NULL, 0, size);
    return rc;
}
