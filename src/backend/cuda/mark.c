/*
 * Marks: positions in the work of lanes, and when they were reached.
 *
 * A mark is an event of the driver.  Each lane caches its unused marks, so that lanes share
 * no lock when they record.  A mark may outlive its lane, and the cache lives as long as the
 * lane or a mark of it does.
 *
 * The driver gives the time between two events as a float of milliseconds.  So the time of a
 * mark is counted from an event whose time is known, the clock of the GPU, which is renewed
 * each second.
 */
#include <stdlib.h>

#include "backend/cuda/cuda.h"
#include "base/clock.h"
#include "base/sys.h"

#define CLOCK_AGE AM_SECOND
#define CLOCK_TIMEOUT (AM_SECOND / 10000)
/* Marks that a cache has, of each kind: a queue is collected after 64 launches, and creating
 * an event takes a lock of the driver that all threads share. */
#define UNUSED_MAX 128

struct cuda_mark_cache {
    struct cuda_gpu *gpu; /* in use as long as the cache exists */
    atomic_uint refs;     /* the lane's, and one for each mark in use */
    struct am_lock lock;
    /* lock; marks without and with a time */
    TAILQ_HEAD(, am_mark) unused[2];
    unsigned n_unused[2];
};

/* ---- events of the driver ---- */

static CUresult event_create(struct cuda_gpu *gpu, bool is_timed, CUevent *ret_event)
{
    bool is_pushed;
    CUresult rc = cuda_enter(gpu, &is_pushed);

    if (rc != CUDA_SUCCESS)
        return rc;
    rc = cu.cuEventCreate(ret_event,
                          is_timed ? CU_EVENT_DEFAULT : CU_EVENT_DISABLE_TIMING);
    cuda_leave(is_pushed);
    return rc;
}

static CUresult event_wait(CUevent event, bool is_short)
{
    uint64_t start = am_clock();
    CUresult rc;

    if (!is_short)
        return cu.cuEventSynchronize(event);
    do {
        rc = cu.cuEventQuery(event);
    } while (rc == CUDA_ERROR_NOT_READY && am_clock() - start < CLOCK_TIMEOUT);
    return rc;
}

/*
 * Records the event on a stream that is idle otherwise, so that its time is now.  With
 * is_short, NOT_READY if the device does not reach the event soon because it is busy.
 */
static CUresult event_now(struct cuda_gpu *gpu, CUevent event, bool is_short)
{
    CUstream stream;
    CUresult rc = cuda_stream_take(gpu, &stream);

    if (rc != CUDA_SUCCESS)
        return rc;
    rc = cu.cuEventRecord(event, stream);
    if (rc == CUDA_SUCCESS)
        rc = event_wait(event, is_short);
    if (rc == CUDA_ERROR_NOT_READY)
        cu.cuStreamDestroy_v2(stream); /* the driver does so when the event is reached */
    else
        cuda_stream_give(gpu, stream);
    return rc;
}

/* ---- the clock of a GPU ---- */

void cuda_clock_destroy_locked(struct cuda_gpu *gpu)
{
    if (gpu->clock != NULL)
        cu.cuEventDestroy_v2(gpu->clock);
    gpu->clock = NULL;
    gpu->clock_due = 0;
}

/* An older clock serves while the device is busy. */
static CUresult clock_renew_locked(struct cuda_gpu *gpu) AM_REQUIRES(gpu->clock_lock)
{
    CUevent old = gpu->clock; /* only this function sets it while there are lanes */
    uint64_t now = am_clock();
    CUevent event;
    float ms = 0;
    CUresult rc;

    if (now < gpu->clock_due)
        return CUDA_SUCCESS;
    rc = event_create(gpu, true, &event);
    if (rc != CUDA_SUCCESS)
        return rc;
    rc = event_now(gpu, event, old != NULL);
    if (rc == CUDA_SUCCESS && old != NULL)
        rc = cu.cuEventElapsedTime(&ms, old, event);
    if (rc == CUDA_SUCCESS) {
        am_lock(&gpu->lock);
        gpu->clock = event;
        /* From one to the next by the GPU's clock: an hour is an hour in steps of a second. */
        gpu->clock_ns =
            old != NULL ? gpu->clock_ns + (uint64_t)((double)ms * 1e6) : am_clock();
        am_unlock(&gpu->lock);
        event = old;
    }
    if (event != NULL)
        cu.cuEventDestroy_v2(event);
    if (rc == CUDA_SUCCESS || (rc == CUDA_ERROR_NOT_READY && old != NULL))
        gpu->clock_due = now + CLOCK_AGE;
    return rc == CUDA_ERROR_NOT_READY ? CUDA_SUCCESS : rc;
}

/*
 * Makes sure that the time of an event is known, and recent.  The first timed record of a GPU
 * waits for the clock.  A later record uses the old clock while another thread renews it.
 */
static CUresult clock_renew(struct cuda_gpu *gpu)
{
    uint64_t due = gpu->clock_due;
    CUresult rc;

    if (am_clock() < due)
        return CUDA_SUCCESS;
    if (!am_lock_try(&gpu->clock_lock)) {
        if (due != 0)
            return CUDA_SUCCESS;
        am_lock(&gpu->clock_lock);
    }
    rc = clock_renew_locked(gpu);
    am_unlock(&gpu->clock_lock);
    return rc;
}

/* ---- the cache of a lane ---- */

struct cuda_mark_cache *cuda_mark_cache_create(struct cuda_gpu *gpu)
{
    struct cuda_mark_cache *cache = am_sys_calloc(1, sizeof *cache);

    if (cache == NULL)
        return NULL;
    cache->gpu = gpu;
    cache->refs = 1;
    am_lock_init(&cache->lock, AM_RANK_LEAF, "marks of a lane");
    TAILQ_INIT(&cache->unused[false]);
    TAILQ_INIT(&cache->unused[true]);
    return cache;
}

static void mark_destroy(struct am_mark *mark)
{
    cu.cuEventDestroy_v2(mark->event);
    free(mark);
}

void cuda_mark_cache_put(struct cuda_mark_cache *cache)
{
    struct am_mark *mark;

    if (atomic_fetch_sub(&cache->refs, 1) > 1)
        return;
    for (int i = 0; i < 2; i++) {
        while ((mark = TAILQ_FIRST(&cache->unused[i])) != NULL) {
            TAILQ_REMOVE(&cache->unused[i], mark, link);
            mark_destroy(mark);
        }
    }
    cuda_gpu_put(cache->gpu);
    am_lock_destroy(&cache->lock);
    free(cache);
}

static CUresult mark_get(struct cuda_mark_cache *cache, bool is_timed,
                         struct am_mark **ret_mark)
{
    struct am_mark *mark;
    CUresult rc;

    am_lock(&cache->lock);
    mark = TAILQ_FIRST(&cache->unused[is_timed]);
    if (mark != NULL) {
        TAILQ_REMOVE(&cache->unused[is_timed], mark, link);
        cache->n_unused[is_timed]--;
    }
    am_unlock(&cache->lock);
    if (mark == NULL) {
        mark = am_sys_malloc(sizeof *mark);
        if (mark == NULL)
            return CUDA_ERROR_OUT_OF_MEMORY;
        rc = event_create(cache->gpu, is_timed, &mark->event);
        if (rc != CUDA_SUCCESS) {
            free(mark);
            return rc;
        }
    }
    mark->cache = cache;
    mark->gpu = cache->gpu;
    mark->is_timed = is_timed;
    mark->refs = 1;
    cache->refs++;
    *ret_mark = mark;
    return CUDA_SUCCESS;
}

/* ---- marks ---- */

CUresult cuda_mark_make(struct cuda_mark_cache *cache, CUstream stream, bool is_timed,
                        struct am_mark **ret_mark)
{
    struct am_mark *mark;
    CUresult rc = is_timed ? clock_renew(cache->gpu) : CUDA_SUCCESS;

    if (rc == CUDA_SUCCESS)
        rc = mark_get(cache, is_timed, &mark);
    if (rc != CUDA_SUCCESS)
        return rc;
    rc = cu.cuEventRecord(mark->event, stream);
    if (rc != CUDA_SUCCESS) {
        cuda_mark_put(mark);
        return rc;
    }
    *ret_mark = mark;
    return CUDA_SUCCESS;
}

void cuda_mark_put(struct am_mark *mark)
{
    struct cuda_mark_cache *cache = mark->cache;
    bool is_timed = mark->is_timed;

    if (atomic_fetch_sub(&mark->refs, 1) > 1)
        return;
    am_lock(&cache->lock);
    if (cache->n_unused[is_timed] < UNUSED_MAX) {
        TAILQ_INSERT_HEAD(&cache->unused[is_timed], mark, link);
        cache->n_unused[is_timed]++;
        mark = NULL;
    }
    am_unlock(&cache->lock);
    if (mark != NULL)
        mark_destroy(mark);
    cuda_mark_cache_put(cache);
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

    am_lock(&gpu->lock); /* the clock's event must not be destroyed during the call */
    if (mark->is_timed && gpu->clock != NULL &&
        cu.cuEventElapsedTime(&ms, gpu->clock, mark->event) == CUDA_SUCCESS)
        time = (uint64_t)((int64_t)gpu->clock_ns + (int64_t)((double)ms * 1e6));
    am_unlock(&gpu->lock);
    return time != 0 ? time : am_clock();
}
