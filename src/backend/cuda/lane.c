/*
 * Lanes: streams of the driver, for streams of the program.
 *
 * A copy or fill can be launched if it is on one GPU, its device memory is mapped where the
 * span says and is not just being unmapped, and the driver knows its host memory.  Otherwise
 * the number is 0, and the core does the work when it is at the head of the queue.  A launch is the driver's own call
 * and little more.  The memory is acquired during the launch, and stores the number of
 * the launch, so that unmapping waits for just the lanes that may still use it.
 *
 * A poll asks the driver whether the stream is idle, and otherwise which marks are reached.
 * There is a mark (mark.c) for each record of the program, and one every MARK_EVERY launches.
 *
 * Threads launch on lanes of their own at the same time.  Atomic variables and the GPU's lock,
 * which is held for a few lines, cover what the lanes share.
 */
#include <stdlib.h>

#include "acl/error_codes/rt_error_codes.h"
#include "backend/cuda/cuda.h"
#include "base/error.h"
#include "base/sys.h"
#include "base/util.h"

#define MARK_EVERY 128 /* launches: as many keep their memory a little longer */
#define BATCH_MAX 128  /* copies of one call of the driver */
#define NUMBERS 1024   /* that a lane takes at a time: threads seldom contend for them */

struct am_lane {
    struct cuda_gpu *gpu;
    unsigned refs; /* gpu->lock; the queue's, and those of threads that wait for it */
    CUstream stream;
    bool is_own; /* not from the cache of streams for copies */
    unsigned n_unmarked;
    uint64_t number;      /* the last one that was given to a launch */
    uint64_t numbers_end; /* numbers up to this one are the lane's */
    struct cuda_mark_cache *cache;
    _Atomic uint64_t last; /* number of the last launch */
    _Atomic uint64_t done; /* all up to this one is known to be */
    TAILQ_HEAD(, am_mark) marks;
    TAILQ_ENTRY(am_lane) link; /* gpu->lock */
};

/* ---- lanes ---- */

aclError cuda_lane_open(int32_t driver, unsigned priority, struct am_lane **ret_lane)
{
    struct cuda_gpu *gpu = cuda_gpu_of(driver);
    struct am_lane *lane = am_sys_calloc(1, sizeof *lane);
    CUresult rc;
    aclError code;

    AM_REQUIRE(lane != NULL, ACL_ERROR_BAD_ALLOC, "no memory for a stream");
    code = cuda_gpu_get(gpu);
    if (code != ACL_SUCCESS)
        goto err_free;
    lane->cache = cuda_mark_cache_create(gpu);
    if (lane->cache == NULL) {
        code = am_fail(ACL_ERROR_BAD_ALLOC, "no memory for a stream");
        cuda_gpu_put(gpu);
        goto err_free;
    }
    lane->gpu = gpu;
    lane->refs = 1;
    lane->is_own = priority != 0;
    lane->done = gpu->n_numbers; /* those are of other lanes */
    TAILQ_INIT(&lane->marks);
    rc = lane->is_own ? cuda_stream_open(gpu, priority, &lane->stream)
                      : cuda_stream_take(gpu, &lane->stream);
    if (rc != CUDA_SUCCESS) {
        code = cuda_error(rc, gpu, "a stream", 0);
        goto err_cache;
    }
    am_lock(&gpu->lock);
    TAILQ_INSERT_TAIL(&gpu->lanes, lane, link);
    am_unlock(&gpu->lock);
    *ret_lane = lane;
    return ACL_SUCCESS;

err_cache:
    cuda_mark_cache_put(lane->cache);
err_free:
    free(lane);
    return code;
}

/* It is listed until the last reference: cuda_lanes_wait() goes on from its place. */
static void lane_put(struct am_lane *lane)
{
    struct cuda_gpu *gpu = lane->gpu;
    bool is_last;

    am_lock(&gpu->lock);
    is_last = --lane->refs == 0;
    if (is_last)
        TAILQ_REMOVE(&gpu->lanes, lane, link);
    am_unlock(&gpu->lock);
    if (!is_last)
        return;
    if (lane->is_own)
        cu.cuStreamDestroy_v2(lane->stream);
    else
        cuda_stream_give(gpu, lane->stream);
    cuda_mark_cache_put(lane->cache);
    free(lane);
}

static void mark_reach(struct am_lane *lane, struct am_mark *mark)
{
    cuda_number_raise(&lane->done, mark->number);
    TAILQ_REMOVE(&lane->marks, mark, link);
    cuda_mark_put(mark);
}

void cuda_lane_close(struct am_lane *lane)
{
    struct am_mark *mark;

    while ((mark = TAILQ_FIRST(&lane->marks)) != NULL)
        mark_reach(lane, mark);
    lane_put(lane);
}

/* Numbers grow on a lane.  On two lanes their order says nothing about time. */
static inline uint64_t lane_number(struct am_lane *lane)
{
    if (lane->number == lane->numbers_end) {
        lane->number = atomic_fetch_add(&lane->gpu->n_numbers, NUMBERS);
        lane->numbers_end = lane->number + NUMBERS;
    }
    return ++lane->number;
}

/* All launches so far are done when this is reached; the reference is the lane's. */
static CUresult mark_add(struct am_lane *lane, bool is_timed, struct am_mark **ret_mark)
{
    CUresult rc = cuda_mark_make(lane->cache, lane->stream, is_timed, ret_mark);

    if (rc != CUDA_SUCCESS)
        return rc;
    lane->last = (*ret_mark)->number = lane_number(lane);
    TAILQ_INSERT_TAIL(&lane->marks, *ret_mark, link);
    lane->n_unmarked = 0;
    return CUDA_SUCCESS;
}

aclError cuda_lane_mark(struct am_lane *lane, bool is_timed, struct am_mark **ret_mark,
                        uint64_t *ret_number)
{
    struct am_mark *mark;
    CUresult rc;

    AM_TRY(cuda_check(lane->gpu));
    rc = mark_add(lane, is_timed, &mark);
    if (rc != CUDA_SUCCESS)
        return cuda_error(rc, lane->gpu, "an event", 0);
    cuda_mark_ref(mark);
    *ret_mark = mark;
    *ret_number = mark->number;
    return ACL_SUCCESS;
}

aclError cuda_lane_wait(struct am_lane *lane, struct am_mark *mark, uint64_t *ret_number)
{
    CUresult rc = CUDA_SUCCESS;

    AM_TRY(cuda_check(lane->gpu));
    if (mark != NULL)
        rc = cu.cuStreamWaitEvent(lane->stream, mark->event, CU_EVENT_WAIT_DEFAULT);
    if (rc != CUDA_SUCCESS) /* more often the event's GPU is lost than the lane's */
        return cuda_error(rc, mark->gpu, "waiting for an event", 0);
    *ret_number = lane_number(lane);
    lane->last = *ret_number;
    return ACL_SUCCESS;
}

aclError cuda_lane_poll(struct am_lane *lane, uint64_t *ret_done)
{
    struct am_mark *mark;
    CUresult rc = CUDA_SUCCESS;

    if (lane->done < lane->last)
        rc = cu.cuStreamQuery(lane->stream);
    /* The question failed, not the work. */
    if (rc != CUDA_SUCCESS && rc != CUDA_ERROR_NOT_READY && !cuda_is_loss(rc))
        rc = cuda_stream_wait(lane->stream);
    if (rc == CUDA_SUCCESS) {
        while ((mark = TAILQ_FIRST(&lane->marks)) != NULL)
            mark_reach(lane, mark);
        cuda_number_raise(&lane->done, lane->last);
    }
    while (rc == CUDA_ERROR_NOT_READY && (mark = TAILQ_FIRST(&lane->marks)) != NULL &&
           cu.cuEventQuery(mark->event) == CUDA_SUCCESS)
        mark_reach(lane, mark);
    *ret_done = lane->done;
    if (rc == CUDA_SUCCESS || rc == CUDA_ERROR_NOT_READY)
        return ACL_SUCCESS;
    *ret_done = lane->last; /* nothing more comes of it */
    return cuda_error(rc, lane->gpu, "work on a stream", 0);
}

aclError cuda_lane_sync(struct am_lane *lane)
{
    uint64_t last = lane->last;
    CUresult rc = cuda_stream_wait(lane->stream);

    if (rc != CUDA_SUCCESS)
        return cuda_error(rc, lane->gpu, "work on a stream", 0);
    cuda_number_raise(&lane->done, last); /* a poll has nothing to ask then */
    return ACL_SUCCESS;
}

/*
 * Whether a launch on it may be under way that uses memory with this number.  The number is
 * the highest of the launches that use the memory, so a lane that has done all its launches
 * up to there has done those.
 */
static bool lane_may_use(const struct am_lane *lane, uint64_t number)
{
    return lane->done < lane->last && lane->done < number;
}

/*
 * The first such lane behind this one (NULL: of all lanes), with a reference.  The reference
 * to this one is dropped.
 */
static struct am_lane *lane_next(struct cuda_gpu *gpu, struct am_lane *lane,
                                 uint64_t number)
{
    struct am_lane *next;

    am_lock(&gpu->lock);
    next = lane == NULL ? TAILQ_FIRST(&gpu->lanes) : TAILQ_NEXT(lane, link);
    while (next != NULL && !lane_may_use(next, number))
        next = TAILQ_NEXT(next, link);
    if (next != NULL)
        next->refs++;
    am_unlock(&gpu->lock);
    if (lane != NULL)
        lane_put(lane);
    return next;
}

/* Without the lock: other threads use the GPU during the wait. */
bool cuda_lanes_wait(struct cuda_gpu *gpu, uint64_t number)
{
    struct am_lane *lane = NULL;
    bool is_done = true;

    if (number == 0)
        return true;
    while ((lane = lane_next(gpu, lane, number)) != NULL) {
        /* Failures are reported when the work is collected. */
        CUresult rc = cuda_stream_wait(lane->stream);

        is_done = is_done && (rc == CUDA_SUCCESS || cuda_is_loss(rc));
    }
    return is_done;
}

/* ---- launching ---- */

/*
 * The end of a launch, before its memory is released: cuda_block() waits until the memory has no
 * user, so it then reads this number or a later one (lane_may_use()).  Returns the number of
 * the launch.  On a failure some of the work may be under way, so that is waited for, and the
 * number is 0.
 */
static inline uint64_t lane_launched(struct am_lane *lane, aclError rc)
{
    struct am_mark *mark;
    uint64_t number;

    if (rc != ACL_SUCCESS) {
        cuda_stream_wait(lane->stream);
        return 0;
    }
    number = lane_number(lane);
    atomic_store_explicit(&lane->last, number, memory_order_release);
    /* A failure of the mark does no harm: the next mark serves. */
    if (++lane->n_unmarked >= MARK_EVERY && mark_add(lane, false, &mark) != CUDA_SUCCESS)
        lane->n_unmarked = 0;
    return number;
}

/* Copies of one span on each side that share no bytes; they are steps in a row. */
struct batch {
    size_t first; /* its step */
    size_t n;
    CUdeviceptr dsts[BATCH_MAX];
    CUdeviceptr srcs[BATCH_MAX];
    size_t sizes[BATCH_MAX];
};

static inline bool is_one_piece(const struct am_cursor *cursor, size_t size)
{
    return size <= cursor->span->size - cursor->at;
}

static inline CUdeviceptr address_of(const struct am_cursor *cursor)
{
    return (CUdeviceptr)cursor->span->addr + cursor->at;
}

static CUresult batch_launch_together(struct am_lane *lane, struct batch *batch)
{
    CUmemcpyAttributes attributes = {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM};
    size_t index = 0;
    size_t failed;
    bool is_pushed;
    CUresult rc = cuda_enter(lane->gpu, &is_pushed);

    if (rc != CUDA_SUCCESS)
        return rc;
    rc = cu.cuMemcpyBatchAsync(batch->dsts, batch->srcs, batch->sizes, batch->n,
                               &attributes, &index, 1, &failed, lane->stream);
    cuda_leave(is_pushed);
    return rc;
}

/*
 * Launches the copies and empties the batch.  Copies that share no bytes may be repeated: if the
 * driver refuses the batch, each copy is a call.
 */
static aclError batch_launch(struct am_lane *lane, struct batch *batch,
                             size_t *ret_failed)
{
    size_t n = batch->n;

    if (n > 1 && cu.cuMemcpyBatchAsync != NULL &&
        batch_launch_together(lane, batch) == CUDA_SUCCESS)
        n = 0;
    batch->n = 0;
    for (size_t i = 0; i < n; i++) {
        CUresult rc = cu.cuMemcpyAsync(batch->dsts[i], batch->srcs[i], batch->sizes[i],
                                       lane->stream);

        *ret_failed = batch->first + i;
        if (rc != CUDA_SUCCESS)
            return cuda_error(rc, lane->gpu, "a copy", batch->sizes[i]);
    }
    return ACL_SUCCESS;
}

static inline bool is_one_copy(const struct am_step *step)
{
    return step->src.span != NULL && is_one_piece(&step->dst, step->size) &&
           is_one_piece(&step->src, step->size);
}

/* Most copies are one span on each side: the driver's own call and little more. */
static inline aclError step_launch(struct am_lane *lane, const struct am_step *step)
{
    struct cuda_course course = {
        .gpu = lane->gpu, .stream = lane->stream, .is_lane = true};
    CUresult rc;

    if (!is_one_copy(step))
        return cuda_step_run(&course, step, CUDA_JOINED_FIRST);
    rc = cu.cuMemcpyAsync(address_of(&step->dst), address_of(&step->src), step->size,
                          lane->stream);
    return cuda_result(rc, lane->gpu, "a copy", step->size);
}

/* The memory is acquired. */
AM_COLD static aclError steps_launch(struct am_lane *lane, const struct am_step *steps,
                                     size_t n, size_t *ret_failed)
{
    struct batch batch;

    batch.n = 0;
    for (size_t i = 0; i < n; i++) {
        const struct am_step *step = &steps[i];
        bool is_batched = is_one_copy(step) && !step->may_alias;

        if (step->is_ordered || !is_batched || batch.n == BATCH_MAX)
            AM_TRY(batch_launch(lane, &batch, ret_failed));
        if (!is_batched) {
            *ret_failed = i;
            AM_TRY(step_launch(lane, step));
            continue;
        }
        if (batch.n == 0)
            batch.first = i;
        batch.dsts[batch.n] = address_of(&step->dst);
        batch.srcs[batch.n] = address_of(&step->src);
        batch.sizes[batch.n++] = step->size;
    }
    return batch_launch(lane, &batch, ret_failed);
}

static inline bool step_acquire(struct am_lane *lane, const struct am_step *step)
{
    return (step->src.span != NULL || cuda_mem_is_device(step->dst.span->mem)) &&
           cuda_step_acquire_for(step, lane->gpu);
}

AM_HOT aclError cuda_lane_steps(struct am_lane *lane, const struct am_step *steps,
                                size_t n, size_t *ret_failed, uint64_t *ret_number)
{
    uint64_t number = 0;
    size_t n_acquired = 0;
    aclError rc = ACL_SUCCESS;

    *ret_number = 0;
    *ret_failed = 0;
    AM_TRY(cuda_check(lane->gpu));
    while (n_acquired < n && step_acquire(lane, &steps[n_acquired]))
        n_acquired++;
    if (n_acquired == n) {
        rc = n == 1 ? step_launch(lane, steps) : steps_launch(lane, steps, n, ret_failed);
        number = lane_launched(lane, rc);
    }
    for (size_t i = 0; i < n_acquired; i++)
        cuda_step_release(&steps[i], number);
    *ret_number = number;
    return rc;
}
