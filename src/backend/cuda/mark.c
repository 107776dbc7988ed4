/*
 * Marks: positions in the work of lanes, and when they were reached.
 *
 * A mark is an event of the driver.  The driver gives the time between two events as a float
 * of milliseconds.  So the time of a mark is counted from an event whose time is known, the
 * clock of the GPU, which is renewed each second.
 */
#include <stdlib.h>

#include "backend/cuda/cuda.h"
#include "base/clock.h"
#include "base/sys.h"

#define CLOCK_AGE AM_SECOND
#define CLOCK_PATIENCE (AM_SECOND / 10000)

/* ---- events of the driver ---- */

static CUresult event_take(struct cuda_gpu *gpu, bool is_timed, CUevent *ret_event)
{
    bool is_pushed;
    CUresult rc;

    *ret_event = NULL;
    am_lock(&gpu->lock);
    if (gpu->n_spare[is_timed] > 0)
        *ret_event = gpu->spare[is_timed][--gpu->n_spare[is_timed]];
    am_unlock(&gpu->lock);
    if (*ret_event != NULL)
        return CUDA_SUCCESS;
    rc = cuda_enter(gpu, &is_pushed);
    if (rc != CUDA_SUCCESS)
        return rc;
    rc = cu.cuEventCreate(ret_event,
                          is_timed ? CU_EVENT_DEFAULT : CU_EVENT_DISABLE_TIMING);
    cuda_leave(is_pushed);
    return rc;
}

static void event_give(struct cuda_gpu *gpu, bool is_timed, CUevent event)
{
    am_lock(&gpu->lock);
    if (gpu->n_spare[is_timed] < CUDA_STREAMS_MAX && gpu->context != NULL) {
        gpu->spare[is_timed][gpu->n_spare[is_timed]++] = event;
        event = NULL;
    }
    am_unlock(&gpu->lock);
    if (event != NULL)
        cu.cuEventDestroy_v2(event);
}

void cuda_marks_forget_locked(struct cuda_gpu *gpu)
{
    for (int i = 0; i < 2; i++) {
        while (gpu->n_spare[i] > 0)
            cu.cuEventDestroy_v2(gpu->spare[i][--gpu->n_spare[i]]);
    }
    if (gpu->clock != NULL)
        cu.cuEventDestroy_v2(gpu->clock);
    gpu->clock = NULL;
}

static CUresult event_await(CUevent event, bool is_short)
{
    uint64_t start = am_clock();
    CUresult rc;

    if (!is_short)
        return cu.cuEventSynchronize(event);
    do {
        rc = cu.cuEventQuery(event);
    } while (rc == CUDA_ERROR_NOT_READY && am_clock() - start < CLOCK_PATIENCE);
    return rc;
}

/*
 * An event on a stream that is idle otherwise, so that its time is now.  With is_short,
 * NOT_READY when the device does not come to it, since others have given it much to do.
 */
static CUresult event_now(struct cuda_gpu *gpu, CUevent event, bool is_short)
{
    CUstream stream;
    CUresult rc = cuda_stream_take(gpu, &stream);

    if (rc != CUDA_SUCCESS)
        return rc;
    rc = cu.cuEventRecord(event, stream);
    if (rc == CUDA_SUCCESS)
        rc = event_await(event, is_short);
    if (rc == CUDA_ERROR_NOT_READY)
        cu.cuStreamDestroy_v2(stream); /* when that is done */
    else
        cuda_stream_give(gpu, stream);
    return rc;
}

/* The event becomes the clock; returns the one that was, which the caller gives back. */
static CUevent clock_set(struct cuda_gpu *gpu, CUevent event, uint64_t ns)
{
    CUevent old;

    am_lock(&gpu->lock);
    old = gpu->clock;
    gpu->clock = event;
    gpu->clock_ns = ns;
    am_unlock(&gpu->lock);
    return old;
}

/* An older clock serves while the device is busy. */
static CUresult clock_renew_locked(struct cuda_gpu *gpu) AM_REQUIRES(gpu->clock_lock)
{
    uint64_t now = am_clock();
    CUevent old = gpu->clock; /* only this function sets it while there are lanes */
    CUevent event;
    float ms = 0;
    CUresult rc;

    if (old != NULL &&
        (now - gpu->clock_ns < CLOCK_AGE || now - gpu->clock_tried < CLOCK_AGE))
        return CUDA_SUCCESS;
    rc = event_take(gpu, true, &event);
    if (rc != CUDA_SUCCESS)
        return rc;
    gpu->clock_tried = now;
    rc = event_now(gpu, event, old != NULL);
    if (rc == CUDA_SUCCESS && old != NULL)
        rc = cu.cuEventElapsedTime(&ms, old, event);
    if (rc != CUDA_SUCCESS) {
        event_give(gpu, true, event);
        return rc == CUDA_ERROR_NOT_READY ? CUDA_SUCCESS : rc;
    }
    /* From one to the next by the GPU's clock: an hour is an hour in steps of a second. */
    old = clock_set(gpu, event,
                    old != NULL ? gpu->clock_ns + (uint64_t)((double)ms * 1e6)
                                : am_clock());
    if (old != NULL)
        event_give(gpu, true, old);
    return CUDA_SUCCESS;
}

/*
 * Makes sure that an event's time is known, and not for long.  The first timed record of a
 * GPU waits for that; a later one goes on with the old clock while another thread is at it.
 */
AM_NO_LOCK_ANALYSIS static CUresult clock_renew(struct cuda_gpu *gpu)
{
    CUresult rc;

    if (!am_lock_try(&gpu->clock_lock)) {
        bool has_clock;

        am_lock(&gpu->lock);
        has_clock = gpu->clock != NULL;
        am_unlock(&gpu->lock);
        if (has_clock)
            return CUDA_SUCCESS;
        am_lock(&gpu->clock_lock);
    }
    rc = clock_renew_locked(gpu);
    am_unlock(&gpu->clock_lock);
    return rc;
}

/* ---- marks ---- */

CUresult cuda_mark_make(struct cuda_gpu *gpu, CUstream stream, bool is_timed,
                        struct am_mark **ret_mark)
{
    struct am_mark *mark = am_sys_malloc(sizeof *mark);
    CUresult rc = CUDA_SUCCESS;

    if (mark == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (is_timed)
        rc = clock_renew(gpu);
    if (rc == CUDA_SUCCESS)
        rc = event_take(gpu, is_timed, &mark->event);
    if (rc != CUDA_SUCCESS) {
        free(mark);
        return rc;
    }
    rc = cu.cuEventRecord(mark->event, stream);
    if (rc != CUDA_SUCCESS) {
        event_give(gpu, is_timed, mark->event);
        free(mark);
        return rc;
    }
    mark->refs = 1;
    mark->gpu = cuda_gpu_ref(gpu);
    mark->is_timed = is_timed;
    *ret_mark = mark;
    return CUDA_SUCCESS;
}

void cuda_mark_put(struct am_mark *mark)
{
    if (atomic_fetch_sub(&mark->refs, 1) > 1)
        return;
    event_give(mark->gpu, mark->is_timed, mark->event);
    cuda_gpu_put(mark->gpu);
    free(mark);
}

void cuda_mark_ref(struct am_mark *mark)
{
    mark->refs++;
}

aclError cuda_mark_sync(struct am_mark *mark)
{
    CUresult rc = cu.cuEventSynchronize(mark->event);

    return cuda_result(rc, mark->gpu, "waiting for an event", 0);
}

uint64_t cuda_mark_time(struct am_mark *mark)
{
    struct cuda_gpu *gpu = mark->gpu;
    uint64_t time = 0;
    float ms = 0;

    am_lock(&gpu->lock); /* the clock's event must not serve another purpose meanwhile */
    if (mark->is_timed && gpu->clock != NULL &&
        cu.cuEventElapsedTime(&ms, gpu->clock, mark->event) == CUDA_SUCCESS)
        time = (uint64_t)((int64_t)gpu->clock_ns + (int64_t)((double)ms * 1e6));
    am_unlock(&gpu->lock);
    return time != 0 ? time : am_clock();
}
