/*
 * Copies and fills that are done when the call returns.
 *
 * Both sides are lists of spans, walked in pieces (walk.c).  Each step hands the shorter
 * of two pieces to the driver; at the end the call waits for the stream.  Until then
 * the copy has all memory of GPUs acquired (mem.c).
 *
 * The driver copies from one handle into the next only where a context is current.
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
#include "base/util.h"

#define BOUNCE (256 * AM_KIB)

/* The stream that a copy goes to. */
struct course {
    struct cuda_gpu *gpu; /* NULL: none yet */
    CUstream stream;
};

/* ---- courses ---- */

/* All that was put on the course is done. */
static aclError course_sync(struct course *course)
{
    CUresult rc;

    if (course->gpu == NULL)
        return ACL_SUCCESS;
    rc = cuda_stream_wait(course->stream);
    return cuda_result(rc, course->gpu, "a copy", 0);
}

static aclError course_close(struct course *course)
{
    aclError rc = course_sync(course);

    if (course->gpu != NULL)
        cuda_stream_give(course->gpu, course->stream);
    course->gpu = NULL;
    return rc;
}

/* From now on the course is one of this GPU. */
static aclError course_use(struct course *course, struct cuda_gpu *gpu)
{
    CUresult rc;

    if (course->gpu == gpu)
        return ACL_SUCCESS;
    AM_TRY(course_close(course));
    rc = cuda_stream_take(gpu, &course->stream);
    if (rc != CUDA_SUCCESS)
        return cuda_error(rc, gpu, "a stream for a copy", 0);
    course->gpu = gpu;
    return ACL_SUCCESS;
}

/* ---- copies ---- */

/*
 * The driver refuses host memory that begins as registered memory and ends as other memory.
 * So the copy goes by way of a buffer that is not registered.
 */
static CUresult mixed_copy(struct course *course, const struct cuda_piece *to,
                           const struct cuda_piece *from, size_t size)
{
    size_t step = size < BOUNCE ? size : BOUNCE;
    void *between = am_sys_malloc(step);
    CUresult rc = CUDA_SUCCESS;

    if (between == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    for (size_t at = 0; at < size && rc == CUDA_SUCCESS; at += step) {
        size_t n = size - at < step ? size - at : step;

        if (from->gpu == NULL) {
            memcpy(between, (const void *)(from->at + at), n);
            rc = cu.cuMemcpyHtoDAsync_v2(to->at + at, between, n, course->stream);
        } else {
            rc = cu.cuMemcpyDtoHAsync_v2(between, from->at + at, n, course->stream);
        }
        if (rc == CUDA_SUCCESS)
            rc = cuda_stream_wait(course->stream);
        if (rc == CUDA_SUCCESS && to->gpu == NULL)
            memcpy((void *)(to->at + at), between, n);
    }
    free(between);
    return rc;
}

/* The driver leaves copies undefined whose sides overlap, so the host is in between. */
static CUresult overlapping_copy(struct course *course, CUdeviceptr to, CUdeviceptr from,
                                 size_t size)
{
    void *between = am_sys_malloc(size);
    CUresult rc;

    if (between == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    rc = cu.cuMemcpyDtoHAsync_v2(between, from, size, course->stream);
    if (rc == CUDA_SUCCESS)
        rc = cuda_stream_wait(course->stream);
    if (rc == CUDA_SUCCESS)
        rc = cu.cuMemcpyHtoDAsync_v2(to, between, size, course->stream);
    if (rc == CUDA_SUCCESS)
        rc = cuda_stream_wait(course->stream);
    free(between);
    return rc;
}

static CUresult driver_copy(struct course *course, const struct cuda_piece *to,
                            const struct cuda_piece *from, size_t size)
{
    CUresult rc;

    if (to->gpu != NULL && from->gpu != NULL && to->gpu != from->gpu)
        return cu.cuMemcpyPeerAsync(to->at, to->gpu->context, from->at,
                                    from->gpu->context, size, course->stream);
    if (!to->is_joined && !from->is_joined && cuda_pieces_overlap(to, from, size))
        return overlapping_copy(course, to->at, from->at, size);
    rc = cu.cuMemcpyAsync(to->at, from->at, size, course->stream);
    if (rc == CUDA_ERROR_INVALID_VALUE && (to->gpu == NULL || from->gpu == NULL))
        rc = mixed_copy(course, to, from, size);
    return rc;
}

static aclError plain_copy(struct course *course, const struct cuda_piece *to,
                           const struct cuda_piece *from, size_t size)
{
    struct cuda_gpu *gpu = to->gpu != NULL ? to->gpu : from->gpu;
    CUresult rc = CUDA_SUCCESS;
    bool is_pushed = false;

    if (gpu == NULL) {
        memmove((void *)to->at, (const void *)from->at, size);
        return ACL_SUCCESS;
    }
    AM_TRY(course_use(course, gpu));
    if (to->is_joined || from->is_joined)
        rc = cuda_enter(gpu, &is_pushed);
    if (rc == CUDA_SUCCESS)
        rc = driver_copy(course, to, from, size);
    cuda_leave(is_pushed);
    return cuda_result(rc, gpu, "a copy", size);
}

/* Gives a piece addresses for the moment, if it has none; *ret_alias is to be closed. */
static aclError piece_show(struct cuda_piece *piece, CUdeviceptr *ret_alias)
{
    aclError rc = ACL_SUCCESS;

    *ret_alias = 0;
    if (piece->is_hidden)
        rc = cuda_alias_open(piece->mem, ret_alias);
    if (*ret_alias != 0)
        piece->at = *ret_alias + piece->offset;
    return rc;
}

static void alias_end(const struct cuda_piece *piece, CUdeviceptr alias)
{
    if (alias != 0)
        cuda_alias_close(piece->mem, alias);
}

static aclError piece_copy(struct course *course, struct cuda_piece to,
                           struct cuda_piece from, size_t size)
{
    CUdeviceptr from_alias = 0;
    CUdeviceptr to_alias = 0;
    aclError rc = piece_show(&to, &to_alias);

    if (rc == ACL_SUCCESS)
        rc = piece_show(&from, &from_alias);
    if (rc == ACL_SUCCESS)
        rc = plain_copy(course, &to, &from, size);
    if (to_alias != 0 || from_alias != 0) {
        aclError end = course_sync(course);

        rc = rc == ACL_SUCCESS ? end : rc;
    }
    alias_end(&from, from_alias);
    alias_end(&to, to_alias);
    return rc;
}

static aclError copy_acquired(struct am_cursor to, struct am_cursor from, size_t size)
{
    size_t n_joined = cuda_walks_can_join(to, from, size) ? CUDA_JOINED_FIRST : 1;
    struct course course = {.gpu = NULL};
    struct cuda_piece out = {.size = 0};
    struct cuda_piece in = {.size = 0};
    aclError rc = ACL_SUCCESS;
    aclError end;

    while (size > 0 && rc == ACL_SUCCESS) {
        size_t n;

        if (out.size == 0)
            rc = cuda_piece_take(&to, size, n_joined, &out);
        if (rc == ACL_SUCCESS && in.size == 0)
            rc = cuda_piece_take(&from, size, n_joined, &in);
        if (rc != ACL_SUCCESS)
            break;
        n = out.size < in.size ? out.size : in.size;
        rc = piece_copy(&course, out, in, n);
        cuda_piece_advance(&out, n);
        cuda_piece_advance(&in, n);
        size -= n;
        n_joined = cuda_joined_next(n_joined);
    }
    end = course_close(&course);
    return rc == ACL_SUCCESS ? end : rc;
}

aclError cuda_copy(const struct am_span *dst, size_t dst_at, const struct am_span *src,
                   size_t src_at, size_t size)
{
    struct am_cursor to = am_cursor_at(dst, dst_at);
    struct am_cursor from = am_cursor_at(src, src_at);
    aclError rc;

    AM_TRY(cuda_walk_check(to, size));
    AM_TRY(cuda_walk_check(from, size));
    cuda_walks_acquire(to, from, size);
    rc = copy_acquired(to, from, size);
    cuda_walk_release(from, size);
    cuda_walk_release(to, size);
    return rc;
}

/* ---- fills ---- */

CUresult cuda_piece_fill(const struct cuda_piece *to, uint32_t value, unsigned width,
                         CUstream stream)
{
    if (width == 4)
        return cu.cuMemsetD32Async(to->at, value, to->size / 4, stream);
    return cu.cuMemsetD8Async(to->at, (unsigned char)value, to->size, stream);
}

static aclError plain_fill(struct course *course, const struct cuda_piece *to,
                           uint32_t value, unsigned width)
{
    CUresult rc;

    if (to->gpu == NULL) {
        if (width == 4)
            wmemset((wchar_t *)to->at, (wchar_t)value, to->size / sizeof(wchar_t));
        else
            memset((void *)to->at, (int)value, to->size);
        return ACL_SUCCESS;
    }
    AM_TRY(course_use(course, to->gpu));
    rc = cuda_piece_fill(to, value, width, course->stream);
    return cuda_result(rc, to->gpu, "a fill", to->size);
}

static aclError piece_fill(struct course *course, struct cuda_piece to, uint32_t value,
                           unsigned width)
{
    CUdeviceptr alias;
    aclError rc = piece_show(&to, &alias);

    if (rc == ACL_SUCCESS)
        rc = plain_fill(course, &to, value, width);
    if (alias != 0) {
        aclError end = course_sync(course);

        rc = rc == ACL_SUCCESS ? end : rc;
    }
    alias_end(&to, alias);
    return rc;
}

static aclError fill_acquired(struct am_cursor to, size_t size, uint32_t value,
                              unsigned width)
{
    size_t n_joined = cuda_walk_is_there(to, size) ? CUDA_JOINED_FIRST : 1;
    struct course course = {.gpu = NULL};
    aclError rc = ACL_SUCCESS;
    aclError end;

    while (size > 0 && rc == ACL_SUCCESS) {
        struct cuda_piece piece = {.size = 0};

        rc = cuda_piece_take(&to, size, n_joined, &piece);
        if (rc == ACL_SUCCESS)
            rc = piece_fill(&course, piece, value, width);
        size -= piece.size;
        n_joined = cuda_joined_next(n_joined);
    }
    end = course_close(&course);
    return rc == ACL_SUCCESS ? end : rc;
}

aclError cuda_fill(const struct am_span *dst, size_t size, uint32_t value, unsigned width)
{
    struct am_cursor to = {dst, 0};
    aclError rc;

    AM_TRY(cuda_walk_check(to, size));
    cuda_walk_acquire(to, size);
    rc = fill_acquired(to, size, value, width);
    cuda_walk_release(to, size);
    return rc;
}
