/*
 * Copies and fills that are done when the call returns.
 *
 * Both sides are lists of spans, walked in pieces (walk.c).  Each round hands the shorter
 * of two pieces to the driver; at the end the call waits for the stream.  Until then
 * the copy has all memory of GPUs acquired (mem.c).
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

/* ---- courses ---- */

static void course_leave(struct cuda_course *course)
{
    if (course->is_entered)
        cuda_leave(course->is_pushed);
    course->is_entered = false;
}

/* The driver copies from one handle into the next only where a context is current. */
static CUresult course_enter(struct cuda_course *course)
{
    CUresult rc = CUDA_SUCCESS;

    if (!course->is_entered)
        rc = cuda_enter(course->gpu, &course->is_pushed);
    course->is_entered = rc == CUDA_SUCCESS;
    return rc;
}

/* All that was put on the course is done. */
static aclError course_sync(struct cuda_course *course)
{
    CUresult rc;

    if (course->gpu == NULL)
        return ACL_SUCCESS;
    rc = cuda_stream_wait(course->stream);
    return cuda_result(rc, course->gpu, "a copy", 0);
}

static aclError course_close(struct cuda_course *course)
{
    aclError rc = course_sync(course);

    course_leave(course);
    if (course->gpu != NULL)
        cuda_stream_give(course->gpu, course->stream);
    course->gpu = NULL;
    return rc;
}

/* From now on the course is one of this GPU. */
static aclError course_use(struct cuda_course *course, struct cuda_gpu *gpu)
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
static CUresult mixed_copy(struct cuda_course *course, const struct cuda_piece *to,
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

static CUresult driver_copy(struct cuda_course *course, const struct cuda_piece *to,
                            const struct cuda_piece *from, size_t size)
{
    CUresult rc;

    if (to->gpu != NULL && from->gpu != NULL && to->gpu != from->gpu)
        return cu.cuMemcpyPeerAsync(to->at, to->gpu->context, from->at,
                                    from->gpu->context, size, course->stream);
    rc = cu.cuMemcpyAsync(to->at, from->at, size, course->stream);
    if (rc == CUDA_ERROR_INVALID_VALUE && !course->is_lane &&
        (to->gpu == NULL || from->gpu == NULL))
        rc = mixed_copy(course, to, from, size);
    return rc;
}

static aclError plain_copy(struct cuda_course *course, const struct cuda_piece *to,
                           const struct cuda_piece *from, size_t size)
{
    struct cuda_gpu *gpu = to->gpu != NULL ? to->gpu : from->gpu;
    CUresult rc = CUDA_SUCCESS;

    if (gpu == NULL && course->is_lane)
        gpu = course->gpu; /* behind the work before it */
    if (gpu == NULL) {
        memcpy((void *)to->at, (const void *)from->at, size);
        return ACL_SUCCESS;
    }
    AM_TRY(course_use(course, gpu));
    if (to->is_joined || from->is_joined)
        rc = course_enter(course);
    if (rc == CUDA_SUCCESS)
        rc = driver_copy(course, to, from, size);
    return cuda_result(rc, gpu, "a copy", size);
}

static aclError plain_fill(struct cuda_course *course, const struct cuda_piece *to,
                           size_t size, const struct am_step *step)
{
    size_t n = size / step->width;
    CUresult rc;

    if (to->gpu == NULL) {
        if (step->width == 4)
            wmemset((wchar_t *)to->at, (wchar_t)step->value, n);
        else
            memset((void *)to->at, (int)step->value, n);
        return ACL_SUCCESS;
    }
    AM_TRY(course_use(course, to->gpu));
    if (step->width == 4)
        rc = cu.cuMemsetD32Async(to->at, step->value, n, course->stream);
    else
        rc = cu.cuMemsetD8Async(to->at, (unsigned char)step->value, n, course->stream);
    return cuda_result(rc, to->gpu, "a fill", size);
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

/* One piece, which is mapped; from: NULL for a fill. */
static aclError piece_run(struct cuda_course *course, const struct cuda_piece *to,
                          const struct cuda_piece *from, size_t size,
                          const struct am_step *step)
{
    return from != NULL ? plain_copy(course, to, from, size)
                        : plain_fill(course, to, size, step);
}

/* The same for pieces that are hidden. */
static aclError hidden_run(struct cuda_course *course, struct cuda_piece to,
                           const struct cuda_piece *from, size_t size,
                           const struct am_step *step)
{
    struct cuda_piece source = from != NULL ? *from : (struct cuda_piece){.size = 0};
    CUdeviceptr from_alias = 0;
    CUdeviceptr to_alias = 0;
    aclError rc = piece_show(&to, &to_alias);
    aclError end;

    if (rc == ACL_SUCCESS)
        rc = piece_show(&source, &from_alias);
    if (rc == ACL_SUCCESS)
        rc = piece_run(course, &to, from != NULL ? &source : NULL, size, step);
    end = course_sync(course);
    if (from_alias != 0)
        cuda_alias_close(source.mem, from_alias);
    if (to_alias != 0)
        cuda_alias_close(to.mem, to_alias);
    return rc == ACL_SUCCESS ? end : rc;
}

aclError cuda_step_run(struct cuda_course *course, const struct am_step *step,
                       size_t n_joined)
{
    struct am_cursor dst = step->dst;
    struct am_cursor src = step->src;
    struct cuda_piece out = {.size = 0};
    struct cuda_piece in = {.size = 0};
    const struct cuda_piece *from = src.span != NULL ? &in : NULL;
    size_t left = step->size;
    aclError rc = ACL_SUCCESS;

    while (left > 0 && rc == ACL_SUCCESS) {
        size_t n;

        if (out.size == 0)
            rc = cuda_piece_take(&dst, left, n_joined, &out);
        if (rc == ACL_SUCCESS && in.size == 0 && from != NULL)
            rc = cuda_piece_take(&src, left, n_joined, &in);
        if (rc != ACL_SUCCESS)
            break;
        n = from != NULL && in.size < out.size ? in.size : out.size;
        rc = out.is_hidden || in.is_hidden ? hidden_run(course, out, from, n, step)
                                           : piece_run(course, &out, from, n, step);
        cuda_piece_advance(&out, n);
        if (from != NULL)
            cuda_piece_advance(&in, n);
        left -= n;
        n_joined = cuda_joined_next(n_joined);
    }
    course_leave(course);
    return rc;
}

/* Until it is done. */
static aclError step_do(const struct am_step *step)
{
    struct cuda_course course = {.gpu = NULL};
    aclError rc;
    aclError end;

    AM_TRY(cuda_step_acquire(step));
    rc = cuda_step_run(&course, step, cuda_step_can_join(step) ? CUDA_JOINED_FIRST : 1);
    end = course_close(&course);
    cuda_step_release(step, 0);
    return rc == ACL_SUCCESS ? end : rc;
}

aclError cuda_copy(const struct am_span *dst, size_t dst_at, const struct am_span *src,
                   size_t src_at, size_t size)
{
    return step_do(&(struct am_step){.dst = am_cursor_at(dst, dst_at),
                                     .src = am_cursor_at(src, src_at),
                                     .size = size});
}

aclError cuda_fill(const struct am_span *dst, size_t size, uint32_t value, unsigned width)
{
    return step_do(
        &(struct am_step){.dst = {dst, 0}, .size = size, .value = value, .width = width});
}
