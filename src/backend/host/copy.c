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

#include <string.h>
#include <wchar.h>

#include "base/error.h"

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

/* They now hold more than their content from before the allocation. */
static void frames_touch(struct host_store *store, size_t first, size_t n)
{
    for (size_t i = first; i < first + n; i++) {
        if (store->state[i] & HOST_FRAME_OLD)
            atomic_fetch_and(&store->state[i], (uint8_t)~HOST_FRAME_OLD);
    }
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
            if (!only_held)
                frames_touch(store, first, count);
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

static aclError copy_spans(const struct am_span *dst, size_t dst_at,
                           const struct am_span *src, size_t src_at, size_t size)
{
    struct am_cursor to = {dst, dst_at};
    struct am_cursor from = {src, src_at};
    struct run out = {0};
    struct run in = {0};

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
