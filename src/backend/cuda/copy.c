/*
 * Copies and fills that are done when the call returns.
 *
 * Both sides are lists of spans.  A side is walked in pieces: stretches of addresses of
 * one GPU, across handles where those are neighbours, or of the host.  Each step hands
 * the shorter of two pieces to the driver; at the end the stream is waited for.  While
 * that lasts, all memory of GPUs is held (mem.c).
 *
 * Memory that is no longer mapped where the copy was asked for gets addresses for the
 * moment.
 */
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#include "acl/error_codes/rt_error_codes.h"
#include "backend/cuda/cuda.h"
#include "base/error.h"
#include "base/sys.h"

/* Where a walk stands: `at` bytes into span. */
struct walk {
    const struct am_span *span;
    size_t at;
};

struct piece {
    CUdeviceptr at;
    size_t size;
    struct cuda_gpu *gpu;  /* NULL: the host's */
    struct am_mem *hidden; /* not mapped there any more: at counts from its start */
};

/* The stream that a copy goes to. */
struct lane {
    struct cuda_gpu *gpu; /* NULL: none yet */
    CUstream stream;
};

static struct walk walk_from(const struct am_span *span, size_t at)
{
    for (; at >= span->size; span++)
        at -= span->size;
    return (struct walk){span, at};
}

static void walk_advance(struct walk *w, size_t size)
{
    w->at += size;
    if (w->at == w->span->size) {
        w->span++;
        w->at = 0;
    }
}

/* Calls f for the device memory of each span that the range touches. */
static void walk_each(struct walk w, size_t size, void (*f)(struct am_mem *))
{
    while (size > 0) {
        size_t left = w.span->size - w.at;
        size_t n = left < size ? left : size;

        if (cuda_mem_is_device(w.span->mem))
            f(w.span->mem);
        walk_advance(&w, n);
        size -= n;
    }
}

/* Whether all GPUs of the range work. */
static aclError walk_check(struct walk w, size_t size)
{
    aclError rc = ACL_SUCCESS;

    while (size > 0 && rc == ACL_SUCCESS) {
        size_t left = w.span->size - w.at;
        size_t n = left < size ? left : size;

        if (cuda_mem_is_device(w.span->mem))
            rc = cuda_check(cuda_mem_gpu(w.span->mem));
        walk_advance(&w, n);
        size -= n;
    }
    return rc;
}

/*
 * Where the host reaches a span.  Memory of the host backend has an address of its own
 * for that: the one that the program mapped it at is the driver's to look up, and means
 * nothing to it.
 */
static aclError host_address(const struct walk *w, CUdeviceptr *ret_at)
{
    struct am_span rest = *w->span;
    bool is_private;
    void *addr;
    aclError rc;

    *ret_at = (CUdeviceptr)w->span->addr + w->at;
    if (rest.mem == NULL || rest.mem->bank->ops == &am_backend_cuda)
        return ACL_SUCCESS;
    rest.offset += w->at;
    rest.size -= w->at;
    rc = rest.mem->bank->ops->view_open(&rest, 1, false, &addr, &is_private);
    if (rc != ACL_SUCCESS)
        return rc;
    *ret_at = (CUdeviceptr)addr;
    /* It stays: such memory never moves, and the span keeps it. */
    rest.mem->bank->ops->view_close(&rest, 1, addr, is_private);
    return ACL_SUCCESS;
}

/* What the walk stands in, to the end of its span; no neighbours. */
static aclError piece_find(const struct walk *w, struct piece *ret_piece)
{
    const struct am_span *span = w->span;
    CUdeviceptr base = (CUdeviceptr)span->addr - span->offset;
    struct piece piece = {.size = span->size - w->at};
    aclError rc = ACL_SUCCESS;

    if (!cuda_mem_is_device(span->mem)) {
        rc = host_address(w, &piece.at);
    } else {
        piece.gpu = cuda_mem_gpu(span->mem);
        piece.at = (CUdeviceptr)span->addr + w->at;
        if (!cuda_mem_is_at(span->mem, base)) {
            piece.hidden = span->mem;
            piece.at -= base;
        }
    }
    *ret_piece = piece;
    return rc;
}

/* The longest piece of at most `size` bytes from here on; the walk moves behind it. */
static aclError piece_take(struct walk *w, size_t size, struct piece *ret_piece)
{
    struct piece piece;
    aclError rc = piece_find(w, &piece);

    if (rc != ACL_SUCCESS)
        return rc;
    if (piece.size > size)
        piece.size = size;
    walk_advance(w, piece.size);
    while (piece.size < size && piece.hidden == NULL) {
        struct piece next;

        rc = piece_find(w, &next);
        if (rc != ACL_SUCCESS)
            return rc;
        if (next.at != piece.at + piece.size || next.gpu != piece.gpu ||
            next.hidden != NULL)
            break;
        if (next.size > size - piece.size)
            next.size = size - piece.size;
        piece.size += next.size;
        walk_advance(w, next.size);
    }
    *ret_piece = piece;
    return ACL_SUCCESS;
}

static void piece_advance(struct piece *piece, size_t size)
{
    piece->at += size;
    piece->size -= size;
}

/* ---- lanes ---- */

/* All that was put on the lane is done. */
static aclError lane_sync(struct lane *lane)
{
    CUresult rc;

    if (lane->gpu == NULL)
        return ACL_SUCCESS;
    rc = cu.cuStreamSynchronize(lane->stream);
    return rc == CUDA_SUCCESS ? ACL_SUCCESS : cuda_error(rc, lane->gpu, "a copy", 0);
}

static aclError lane_close(struct lane *lane)
{
    aclError rc = lane_sync(lane);

    if (lane->gpu != NULL)
        cuda_lane_give(lane->gpu, lane->stream);
    lane->gpu = NULL;
    return rc;
}

/* From now on the lane is one of this GPU. */
static aclError lane_use(struct lane *lane, struct cuda_gpu *gpu)
{
    CUresult rc;
    aclError code;

    if (lane->gpu == gpu)
        return ACL_SUCCESS;
    code = lane_close(lane);
    if (code != ACL_SUCCESS)
        return code;
    rc = cuda_lane_take(gpu, &lane->stream);
    if (rc != CUDA_SUCCESS)
        return cuda_error(rc, gpu, "a stream for a copy", 0);
    lane->gpu = gpu;
    return ACL_SUCCESS;
}

/* ---- copies ---- */

static bool pieces_overlap(const struct piece *a, const struct piece *b, size_t size)
{
    return a->at < b->at ? b->at - a->at < size : a->at - b->at < size;
}

/* Both sides overlap, which the driver leaves undefined: by way of the host. */
static CUresult overlapping_copy(struct lane *lane, CUdeviceptr to, CUdeviceptr from,
                                 size_t size)
{
    void *between = am_sys_malloc(size);
    CUresult rc;

    if (between == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    rc = cu.cuMemcpyDtoHAsync_v2(between, from, size, lane->stream);
    if (rc == CUDA_SUCCESS)
        rc = cu.cuStreamSynchronize(lane->stream);
    if (rc == CUDA_SUCCESS)
        rc = cu.cuMemcpyHtoDAsync_v2(to, between, size, lane->stream);
    if (rc == CUDA_SUCCESS)
        rc = cu.cuStreamSynchronize(lane->stream);
    free(between);
    return rc;
}

static aclError plain_copy(struct lane *lane, const struct piece *to,
                           const struct piece *from, size_t size)
{
    struct cuda_gpu *gpu = to->gpu != NULL ? to->gpu : from->gpu;
    CUresult rc;
    aclError code;

    if (gpu == NULL) {
        memmove((void *)to->at, (const void *)from->at, size);
        return ACL_SUCCESS;
    }
    code = lane_use(lane, gpu);
    if (code != ACL_SUCCESS)
        return code;
    if (to->gpu != NULL && from->gpu != NULL && to->gpu != from->gpu)
        rc = cu.cuMemcpyPeerAsync(to->at, to->gpu->context, from->at, from->gpu->context,
                                  size, lane->stream);
    else if (to->gpu == from->gpu && pieces_overlap(to, from, size))
        rc = overlapping_copy(lane, to->at, from->at, size);
    else
        rc = cu.cuMemcpyAsync(to->at, from->at, size, lane->stream);
    return rc == CUDA_SUCCESS ? ACL_SUCCESS : cuda_error(rc, gpu, "a copy", size);
}

/* Gives a piece addresses for the moment, if it has none; *ret_alias is to be closed. */
static aclError piece_show(struct piece *piece, CUdeviceptr *ret_alias)
{
    aclError rc = ACL_SUCCESS;

    *ret_alias = 0;
    if (piece->hidden != NULL)
        rc = cuda_alias_open(piece->hidden, ret_alias);
    piece->at += *ret_alias;
    return rc;
}

static void alias_end(const struct piece *piece, CUdeviceptr alias)
{
    if (alias != 0)
        cuda_alias_close(piece->hidden, alias);
}

static aclError piece_copy(struct lane *lane, struct piece to, struct piece from,
                           size_t size)
{
    CUdeviceptr from_alias = 0;
    CUdeviceptr to_alias = 0;
    aclError rc = piece_show(&to, &to_alias);

    if (rc == ACL_SUCCESS)
        rc = piece_show(&from, &from_alias);
    if (rc == ACL_SUCCESS)
        rc = plain_copy(lane, &to, &from, size);
    if (to_alias != 0 || from_alias != 0) {
        aclError end = lane_sync(lane);

        rc = rc == ACL_SUCCESS ? end : rc;
    }
    alias_end(&from, from_alias);
    alias_end(&to, to_alias);
    return rc;
}

static aclError copy_held(struct walk to, struct walk from, size_t size)
{
    struct lane lane = {.gpu = NULL};
    struct piece out = {.size = 0};
    struct piece in = {.size = 0};
    aclError rc = ACL_SUCCESS;
    aclError end;

    while (size > 0 && rc == ACL_SUCCESS) {
        size_t n;

        if (out.size == 0)
            rc = piece_take(&to, size, &out);
        if (rc == ACL_SUCCESS && in.size == 0)
            rc = piece_take(&from, size, &in);
        if (rc != ACL_SUCCESS)
            break;
        n = out.size < in.size ? out.size : in.size;
        rc = piece_copy(&lane, out, in, n);
        piece_advance(&out, n);
        piece_advance(&in, n);
        size -= n;
    }
    end = lane_close(&lane);
    return rc == ACL_SUCCESS ? end : rc;
}

aclError cuda_copy(const struct am_span *dst, size_t dst_at, const struct am_span *src,
                   size_t src_at, size_t size)
{
    struct walk to = walk_from(dst, dst_at);
    struct walk from = walk_from(src, src_at);
    aclError rc = walk_check(to, size);

    if (rc == ACL_SUCCESS)
        rc = walk_check(from, size);
    if (rc != ACL_SUCCESS)
        return rc;
    walk_each(to, size, cuda_mem_hold);
    walk_each(from, size, cuda_mem_hold);
    rc = copy_held(to, from, size);
    walk_each(from, size, cuda_mem_let_go);
    walk_each(to, size, cuda_mem_let_go);
    return rc;
}

/* ---- fills ---- */

static aclError plain_fill(struct lane *lane, const struct piece *to, uint32_t value,
                           unsigned width)
{
    CUresult rc;
    aclError code;

    if (to->gpu == NULL) {
        if (width == 4)
            wmemset((wchar_t *)to->at, (wchar_t)value, to->size / sizeof(wchar_t));
        else
            memset((void *)to->at, (int)value, to->size);
        return ACL_SUCCESS;
    }
    code = lane_use(lane, to->gpu);
    if (code != ACL_SUCCESS)
        return code;
    if (width == 4)
        rc = cu.cuMemsetD32Async(to->at, value, to->size / 4, lane->stream);
    else
        rc = cu.cuMemsetD8Async(to->at, (unsigned char)value, to->size, lane->stream);
    return rc == CUDA_SUCCESS ? ACL_SUCCESS : cuda_error(rc, to->gpu, "a fill", to->size);
}

static aclError piece_fill(struct lane *lane, struct piece to, uint32_t value,
                           unsigned width)
{
    CUdeviceptr alias;
    aclError rc = piece_show(&to, &alias);

    if (rc == ACL_SUCCESS)
        rc = plain_fill(lane, &to, value, width);
    if (alias != 0) {
        aclError end = lane_sync(lane);

        rc = rc == ACL_SUCCESS ? end : rc;
    }
    alias_end(&to, alias);
    return rc;
}

static aclError fill_held(struct walk to, size_t size, uint32_t value, unsigned width)
{
    struct lane lane = {.gpu = NULL};
    aclError rc = ACL_SUCCESS;
    aclError end;

    while (size > 0 && rc == ACL_SUCCESS) {
        struct piece piece = {.size = 0};

        rc = piece_take(&to, size, &piece);
        if (rc == ACL_SUCCESS)
            rc = piece_fill(&lane, piece, value, width);
        size -= piece.size;
    }
    end = lane_close(&lane);
    return rc == ACL_SUCCESS ? end : rc;
}

aclError cuda_fill(const struct am_span *dst, size_t size, uint32_t value, unsigned width)
{
    struct walk to = {dst, 0};
    aclError rc = walk_check(to, size);

    if (rc != ACL_SUCCESS)
        return rc;
    walk_each(to, size, cuda_mem_hold);
    rc = fill_held(to, size, value, width);
    walk_each(to, size, cuda_mem_let_go);
    return rc;
}
