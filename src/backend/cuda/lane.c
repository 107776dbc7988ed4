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

/*
 * Raises the number to at least this one.  The release is for `done`: a thread that reads it
 * (lane_may_use()) knows what the lane's poll knew.  For `launched` the order comes from `uses`.
 */
static inline void number_raise(_Atomic uint64_t *number, uint64_t to)
{
    uint64_t seen = atomic_load_explicit(number, memory_order_relaxed);

    while (seen < to &&
           !atomic_compare_exchange_weak_explicit(number, &seen, to, memory_order_release,
                                                  memory_order_relaxed))
        ;
}

static void mark_reach(struct am_lane *lane, struct am_mark *mark)
{
    number_raise(&lane->done, mark->number);
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
        number_raise(&lane->done, lane->last);
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
    number_raise(&lane->done, last); /* a poll has nothing to ask then */
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

/* Whether the driver itself has locked the program's memory there. */
AM_COLD static bool is_known(const void *addr)
{
    CUmemorytype type = 0;

    return cu.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                    (CUdeviceptr)addr) == CUDA_SUCCESS &&
           type == CU_MEMORYTYPE_HOST;
}

/* Whether the lane can work with it; *ret_mem: the GPU's memory, or NULL. */
static inline bool span_can_launch(const struct am_lane *lane, const struct am_span *span,
                                   struct am_mem **ret_mem)
{
    struct am_mem *mem = span->mem;

    *ret_mem = NULL;
    if (mem == NULL)
        return is_known(span->addr);
    if (mem->bank->ops != &am_backend_cuda)
        return false;
    if (mem->bank->spec.is_pinned)
        return true;
    *ret_mem = mem;
    return cuda_mem_gpu(mem) == lane->gpu;
}

static bool spans_can_launch(const struct am_lane *lane, struct am_cursor w, size_t size)
{
    const struct am_span *span;
    struct am_mem *mem;

    while ((span = cuda_walk_next(&w, &size)) != NULL) {
        if (!span_can_launch(lane, span, &mem))
            return false;
    }
    return true;
}

/* The memory keeps the number of the launch, and is released. */
static inline void mem_release(struct am_mem *mem, uint64_t number)
{
    number_raise(&cuda_mem(mem)->launched, number);
    cuda_mem_release(mem);
}

static void spans_release(struct am_cursor w, size_t size, uint64_t number)
{
    const struct am_span *span;

    while ((span = cuda_walk_next(&w, &size)) != NULL) {
        if (cuda_mem_is_device(span->mem))
            mem_release(span->mem, number);
    }
}

/* Some of it may be under way: waits until that is done. */
AM_COLD static aclError launch_fail(struct am_lane *lane, CUresult rc, const char *what,
                                    size_t size)
{
    aclError code = cuda_error(rc, lane->gpu, what, size);

    cuda_stream_wait(lane->stream);
    return code;
}

/* A failure does no harm: the next mark serves. */
AM_COLD static void lane_mark_again(struct am_lane *lane)
{
    struct am_mark *mark;

    if (mark_add(lane, false, &mark) != CUDA_SUCCESS)
        lane->n_unmarked = 0;
}

/* The driver has returned rc. */
static inline aclError launch_end(struct am_lane *lane, uint64_t number, CUresult rc,
                                  const char *what, size_t size, uint64_t *ret_number)
{
    if (rc != CUDA_SUCCESS)
        return launch_fail(lane, rc, what, size);
    /*
     * Before mem_release(): cuda_block() waits until the memory has no user, so it then reads
     * this number or a later one (lane_may_use()).
     */
    atomic_store_explicit(&lane->last, number, memory_order_release);
    if (++lane->n_unmarked >= MARK_EVERY)
        lane_mark_again(lane);
    *ret_number = number;
    return ACL_SUCCESS;
}

/*
 * Memory that is all there, piece by piece.  Handles in a row are joined, which the driver
 * does where a context is current.
 */
static CUresult spans_launch(struct am_lane *lane, struct am_cursor to,
                             struct am_cursor from, size_t size)
{
    struct cuda_piece out = {.size = 0};
    struct cuda_piece in = {.size = 0};
    size_t n_joined = CUDA_JOINED_FIRST;
    bool is_pushed;
    CUresult rc = cuda_enter(lane->gpu, &is_pushed);

    while (size > 0 && rc == CUDA_SUCCESS) {
        size_t n;

        /* Neither fails: the host's addresses are the program's own. */
        if (out.size == 0)
            cuda_piece_take(&to, size, n_joined, &out);
        if (in.size == 0)
            cuda_piece_take(&from, size, n_joined, &in);
        n = out.size < in.size ? out.size : in.size;
        rc = cu.cuMemcpyAsync(out.at, in.at, n, lane->stream);
        cuda_piece_advance(&out, n);
        cuda_piece_advance(&in, n);
        size -= n;
        n_joined = cuda_joined_next(n_joined);
    }
    cuda_leave(is_pushed);
    return rc;
}

/* Any number of spans on each side. */
AM_COLD static aclError spans_copy(struct am_lane *lane, struct am_cursor to,
                                   struct am_cursor from, size_t size,
                                   uint64_t *ret_number)
{
    aclError code = ACL_SUCCESS;
    uint64_t number;

    if (!spans_can_launch(lane, to, size) || !spans_can_launch(lane, from, size) ||
        !cuda_walks_try_acquire(to, from, size))
        return ACL_SUCCESS;
    number = lane_number(lane);
    if (cuda_walk_is_there(to, size) && cuda_walk_is_there(from, size))
        code = launch_end(lane, number, spans_launch(lane, to, from, size), "a copy",
                          size, ret_number);
    spans_release(from, size, number);
    spans_release(to, size, number);
    return code;
}

/*
 * A side of a copy that is one span, which most are.  For them all is done in one go: a
 * launch is as short as the driver's own, and each function more is seen in it.
 */
struct side {
    CUdeviceptr at;
    struct am_mem *mem; /* the GPU's, or NULL */
    CUdeviceptr base;   /* where that was mapped */
};

static inline bool side_find(const struct am_lane *lane, struct am_cursor w, size_t size,
                             struct side *ret_side)
{
    const struct am_span *span = w.span;

    ret_side->at = (CUdeviceptr)span->addr + w.at;
    ret_side->base = (CUdeviceptr)span->addr - span->offset;
    return size <= span->size - w.at && span_can_launch(lane, span, &ret_side->mem);
}

static inline bool side_try_acquire(const struct side *side)
{
    return side->mem == NULL || cuda_mem_try_acquire(side->mem);
}

static inline void side_release(const struct side *side, uint64_t number)
{
    if (side->mem != NULL)
        mem_release(side->mem, number);
}

static inline bool side_is_there(const struct side *side)
{
    return side->mem == NULL || cuda_mem(side->mem)->bound == side->base ||
           cuda_mem_is_at(side->mem, side->base);
}

/* Both sides are acquired, and released here. */
static inline aclError sides_copy(struct am_lane *lane, const struct side *to,
                                  const struct side *from, size_t size,
                                  uint64_t *ret_number)
{
    uint64_t number = lane_number(lane);
    aclError code = ACL_SUCCESS;

    if (side_is_there(to) && side_is_there(from))
        code = launch_end(lane, number,
                          cu.cuMemcpyAsync(to->at, from->at, size, lane->stream),
                          "a copy", size, ret_number);
    side_release(from, number);
    side_release(to, number);
    return code;
}

AM_HOT aclError cuda_lane_copy(struct am_lane *lane, const struct am_span *dst,
                               size_t dst_at, const struct am_span *src, size_t src_at,
                               size_t size, uint64_t *ret_number)
{
    struct am_cursor to = am_cursor_at(dst, dst_at);
    struct am_cursor from = am_cursor_at(src, src_at);
    struct side out;
    struct side in;

    AM_TRY(cuda_check(lane->gpu));
    *ret_number = 0;
    if (!side_find(lane, to, size, &out) || !side_find(lane, from, size, &in))
        return spans_copy(lane, to, from, size, ret_number);
    if (!side_try_acquire(&out))
        return ACL_SUCCESS;
    if (side_try_acquire(&in))
        return sides_copy(lane, &out, &in, size, ret_number);
    if (out.mem != NULL)
        cuda_mem_release(out.mem);
    return ACL_SUCCESS;
}

static CUresult fill_launch(struct am_lane *lane, struct am_cursor to, size_t size,
                            uint32_t value, unsigned width)
{
    size_t n_joined = CUDA_JOINED_FIRST;
    CUresult rc = CUDA_SUCCESS;

    while (size > 0 && rc == CUDA_SUCCESS) {
        struct cuda_piece piece = {.size = size};

        cuda_piece_take(&to, size, n_joined, &piece); /* which is there */
        rc = cuda_piece_fill(&piece, value, width, lane->stream);
        size -= piece.size;
        n_joined = cuda_joined_next(n_joined);
    }
    return rc;
}

aclError cuda_lane_fill(struct am_lane *lane, const struct am_span *dst, size_t size,
                        uint32_t value, unsigned width, uint64_t *ret_number)
{
    struct am_cursor to = am_cursor_at(dst, 0);
    uint64_t number;
    aclError code = ACL_SUCCESS;

    AM_TRY(cuda_check(lane->gpu));
    *ret_number = 0;
    if (!cuda_mem_is_device(dst->mem) || !spans_can_launch(lane, to, size) ||
        !cuda_walk_try_acquire(to, size))
        return ACL_SUCCESS;
    number = lane_number(lane);
    if (cuda_walk_is_there(to, size))
        code = launch_end(lane, number, fill_launch(lane, to, size, value, width),
                          "a fill", size, ret_number);
    spans_release(to, size, number);
    return code;
}
