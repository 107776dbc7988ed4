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
#include "backend/host/host.h"

#include <inttypes.h>
#include <time.h>

#include "acl/error_codes/rt_error_codes.h"
#include "base/clock.h"
#include "base/error.h"

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

static void mem_leave(struct am_mem *mem, uint64_t what)
{
    atomic_fetch_sub_explicit(&host_mem(mem)->gate, what, memory_order_release);
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
            mem_leave(spans[i].mem, what);
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
