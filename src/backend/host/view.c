/*
 * Host views: one contiguous address for any spans.
 *
 * Most often the frames are neighbours, and the address in the store's own view serves.
 * Otherwise, or when another view already has that address, the pieces are mapped once
 * more, side by side.  The program may write through a view at any time, so its frames
 * count as written from then on.
 */
#include "backend/host/host.h"

#include "acl/error_codes/rt_error_codes.h"
#include "base/error.h"
#include "base/sys.h"

static uint8_t *span_ptr(const struct am_span *span, size_t at)
{
    size_t offset = span->offset + at;
    size_t frame = host_mem_frame(span->mem, offset);

    return host_mem(span->mem)->store->view + (frame << AM_CHUNK_SHIFT) +
           (offset & (AM_CHUNK - 1));
}

/* Bytes from `at` to the end of its frame or of the span. */
static size_t span_piece(const struct am_span *span, size_t at)
{
    size_t in_frame = (span->offset + at) & (AM_CHUNK - 1);
    size_t left = span->size - at;

    return left < AM_CHUNK - in_frame ? left : AM_CHUNK - in_frame;
}

static void spans_mark(const struct am_span *spans, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct host_store *store = host_mem(spans[i].mem)->store;

        for (size_t at = 0; at < spans[i].size; at += span_piece(&spans[i], at)) {
            size_t frame = host_mem_frame(spans[i].mem, spans[i].offset + at);

            atomic_fetch_or(&store->state[frame], HOST_FRAME_HOLDS);
            atomic_fetch_and(&store->state[frame], (uint8_t)~HOST_FRAME_OLD);
        }
    }
}

static bool spans_are_one_run(const struct am_span *spans, size_t n)
{
    uint8_t *want = span_ptr(&spans[0], 0);

    for (size_t i = 0; i < n; i++) {
        for (size_t at = 0; at < spans[i].size;) {
            size_t piece = span_piece(&spans[i], at);

            if (span_ptr(&spans[i], at) != want)
                return false;
            want += piece;
            at += piece;
        }
    }
    return true;
}

static aclError frame_map_again(const struct host_store *store, size_t frame, void *at)
{
    size_t offset = frame << AM_CHUNK_SHIFT;
    void *p;

    if (store->fd >= 0)
        p = am_sys_mmap(at, AM_CHUNK, PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_FIXED | MAP_NORESERVE, store->fd, (off_t)offset);
    else
        p = host_remap(store->view + offset, AM_CHUNK, at);
    if (p == MAP_FAILED)
        return host_error(errno, "mapping a host view", AM_CHUNK);
    return ACL_SUCCESS;
}

/*
 * Map each frame at its place from base on; base stands for the start of the first frame.
 */
static aclError view_stitch(const struct am_span *spans, size_t n, uint8_t *base)
{
    for (size_t i = 0; i < n; i++) {
        for (size_t at = 0; at < spans[i].size; at += span_piece(&spans[i], at)) {
            AM_TRY(frame_map_again(host_mem(spans[i].mem)->store,
                                   host_mem_frame(spans[i].mem, spans[i].offset + at),
                                   base));
            base += AM_CHUNK;
        }
    }
    return ACL_SUCCESS;
}

static aclError view_open(const struct am_span *spans, size_t n, bool must_be_private,
                          void **ret_addr, bool *ret_is_private)
{
    size_t in_frame = spans[0].offset & (AM_CHUNK - 1);
    size_t size = 0;
    void *base;
    aclError rc;

    if (!must_be_private && spans_are_one_run(spans, n)) {
        spans_mark(spans, n);
        *ret_addr = span_ptr(&spans[0], 0);
        *ret_is_private = false;
        return ACL_SUCCESS;
    }

    if (spans[0].mem->bank->spec.is_pinned)
        return am_fail(
            ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
            "%p is pinned host memory and has a host view; use the address itself",
            spans[0].addr);
    for (size_t i = 0; i < n; i++)
        size += spans[i].size;
    size = am_align_up(in_frame + size, AM_CHUNK);
    AM_TRY(host_reserve_own(size, AM_CHUNK, &base));
    rc = view_stitch(spans, n, base);
    if (rc != ACL_SUCCESS) {
        munmap(base, size);
        return rc;
    }
    spans_mark(spans, n);
    *ret_addr = (uint8_t *)base + in_frame;
    *ret_is_private = true;
    return ACL_SUCCESS;
}

aclError host_view_open(const struct am_span *spans, size_t n, bool must_be_private,
                        void **ret_addr, bool *ret_is_private)
{
    aclError rc = ACL_SUCCESS;

    host_gate_pin(spans, n);
    for (size_t i = 0; i < n && rc == ACL_SUCCESS; i++)
        rc = host_store_see(host_mem(spans[i].mem)->store);
    if (rc == ACL_SUCCESS)
        rc = view_open(spans, n, must_be_private, ret_addr, ret_is_private);
    if (rc != ACL_SUCCESS)
        host_gate_unpin(spans, n);
    return rc;
}

void host_view_close(const struct am_span *spans, size_t n, void *addr, bool is_private)
{
    uintptr_t in_frame = (uintptr_t)addr & (AM_CHUNK - 1);
    size_t size = in_frame;

    for (size_t i = 0; i < n; i++)
        size += spans[i].size;
    if (is_private)
        munmap((uint8_t *)addr - in_frame, am_align_up(size, AM_CHUNK));
    host_gate_unpin(spans, n);
}
