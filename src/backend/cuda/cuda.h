/*
 * The CUDA backend: device memory is an NVIDIA GPU's.
 *
 * gpu     a GPU of the driver, its primary context while it is in use, and whether the
 *         GPU was lost
 * bank    a device's bank is a GPU; pinned memory is the program's, registered with the
 *         driver (pin.c); the host's memory is left to the host backend
 * mem     a handle of the driver, where it is mapped, and how many copies use that now
 *
 * Reservations are the driver's, so that addresses are good on the GPU; the host's
 * memory is mapped over them.  The driver's handles are used one to one: a handle is
 * mapped whole, and a mapping needs a second call that gives the device access.
 *
 * A copy accesses memory at its mapped address.  So unmapping waits for running copies,
 * and a copy that runs after the unmapping maps the memory once more, for itself.
 */
#ifndef AM_BACKEND_CUDA_CUDA_H
#define AM_BACKEND_CUDA_CUDA_H

#include <stdatomic.h>
#include <stdbool.h>
#include <sys/queue.h>

#include "backend/backend.h"
#include "backend/cuda/driver.h"
#include "base/lock.h"
#include "base/util.h"

#define CUDA_GPUS_MAX 63
#define CUDA_STREAMS_MAX 16 /* streams that are kept for copies */

struct cuda_gpu {
    int32_t index;
    CUdevice device;
    bool can_export;
    struct am_device_info info;
    _Atomic CUresult lost; /* why nothing works on it any more; 0: it works */
    struct am_lock lock;
    uint64_t n_pins;  /* pin.c's lock; ranges that are registered in its context */
    unsigned n_users; /* lock, as all below */
    _Atomic(CUcontext) context; /* NULL while it is not in use */
    CUstream idle[CUDA_STREAMS_MAX];
    unsigned n_idle;
    TAILQ_HEAD(, am_lane) lanes;
    CUevent clock;              /* an event with a time that is known, or NULL */
    uint64_t clock_ns;          /* that time */
    struct am_lock clock_lock;  /* of the thread that renews the clock */
    _Atomic uint64_t clock_due; /* when to renew the clock; 0: it does not exist */
    _Atomic uint64_t n_numbers; /* for launches; lanes take many at a time */
};

struct cuda_bank {
    struct am_bank base;
    struct cuda_gpu *gpu;
};

/* The content of struct am_mem's impl, for device memory; may alias as host_mem does. */
struct __attribute__((may_alias)) cuda_mem {
    CUmemGenericAllocationHandle handle;
    _Atomic CUdeviceptr bound; /* one of the addresses where it is mapped, or 0 */
    _Atomic uint64_t uses;     /* CUDA_USERS and CUDA_BLOCKERS, below */
    /* the number of the last launch that uses it; 0: it is known to be done */
    _Atomic uint64_t launched;
    int32_t fd; /* the exported descriptor, or -1 */
};

static inline struct cuda_mem *cuda_mem(struct am_mem *mem)
{
    _Static_assert(sizeof(struct cuda_mem) <= sizeof mem->impl, "impl is too small");
    return (struct cuda_mem *)mem->impl;
}

/* The functions of backend.h that this backend has, in the files below. */
/* clang-format off */
#define CUDA_OPS(op_) \
    op_(start) op_(device_count) op_(device_info) op_(device_can_reach) \
    op_(device_choose) op_(bank_free) op_(bank_open) op_(bank_close) op_(mem_create) \
    op_(mem_destroy) op_(reserve) op_(reserve_own) op_(release) op_(map) op_(protect) \
    op_(unmap) op_(pin) op_(unpin) op_(copy) op_(fill) op_(lane_open) op_(lane_close) \
    op_(lane_steps) op_(lane_mark) op_(lane_wait) \
    op_(lane_poll) op_(lane_sync) op_(mark_time) op_(mark_sync) op_(mark_ref) op_(mark_put) \
    op_(block) op_(unblock) op_(mem_export) op_(mem_import)
/* clang-format on */
#define CUDA_OP_DECLARE(name_) AM_BACKEND_OP(cuda_, name_)
CUDA_OPS(CUDA_OP_DECLARE)

extern const struct am_backend_ops am_backend_cuda; /* cuda.c */
extern struct am_cuda_driver cu;                    /* load.c */

/* Whether mem is memory of a GPU; otherwise it is the host's, or pinned. */
static inline bool cuda_mem_is_device(const struct am_mem *mem)
{
    return mem != NULL && mem->bank->ops == &am_backend_cuda &&
           !mem->bank->spec.is_pinned;
}

static inline struct cuda_gpu *cuda_mem_gpu(const struct am_mem *mem)
{
    return ((struct cuda_bank *)mem->bank)->gpu;
}

/* load.c: finds the driver, once; says what is missing. */
aclError cuda_load(void);

/*
 * error.c: a failure of the driver as a code and a message; `what` was to be done with
 * `size` bytes (0: no matter how many).  gpu, which may be NULL, is lost from then on if
 * that is what the failure means and its context is indeed broken: the failure may be
 * another GPU's.  gpu->lock is not held.
 */
aclError cuda_error(CUresult rc, struct cuda_gpu *gpu, const char *what, size_t size);
/* The same where the driver may have succeeded. */
static inline aclError cuda_result(CUresult rc, struct cuda_gpu *gpu, const char *what,
                                   size_t size)
{
    return rc == CUDA_SUCCESS ? ACL_SUCCESS : cuda_error(rc, gpu, what, size);
}
const char *cuda_name(CUresult rc);
/* Whether all that was under way on the GPU is over with this error. */
bool cuda_is_loss(CUresult rc);
/* Fails when the GPU was lost before. */
AM_COLD aclError cuda_lost_error(const struct cuda_gpu *gpu);

static inline aclError cuda_check(const struct cuda_gpu *gpu)
{
    return gpu->lost == CUDA_SUCCESS ? ACL_SUCCESS : cuda_lost_error(gpu);
}

/* gpu.c */
/* The GPU that a driver's id stands for. */
struct cuda_gpu *cuda_gpu_of(int32_t driver);
/* One more user of its primary context, and one less. */
aclError cuda_gpu_get(struct cuda_gpu *gpu);
void cuda_gpu_put(struct cuda_gpu *gpu);
/*
 * Makes its context current for what follows; *ret_is_pushed is for cuda_leave(), after
 * which the thread has the context that it had.
 */
CUresult cuda_enter(struct cuda_gpu *gpu, bool *ret_is_pushed);
void cuda_leave(bool is_pushed);
/*
 * A stream to copy on, and back, with all work on it done.  Work on a stream needs no
 * current context.
 */
CUresult cuda_stream_take(struct cuda_gpu *gpu, CUstream *ret_stream);
void cuda_stream_give(struct cuda_gpu *gpu, CUstream stream);
/*
 * Waits until all work on it is done.  A failed call is repeated: continuing too early
 * would unmap memory under a running copy, and a lost GPU fails again at once.
 */
CUresult cuda_stream_wait(CUstream stream);
/* A new one; priorities are those of the program: 0, which the above have, to 7. */
CUresult cuda_stream_open(struct cuda_gpu *gpu, unsigned priority, CUstream *ret_stream);

/*
 * mem.c: a mem that is acquired stays mapped where it is.  block() refuses new users and waits
 * for the current ones; never call it while this thread has memory acquired: it would
 * deadlock.  cuda_mem_is_at: whether the mem is mapped at this address, too; only for a
 * mem that is acquired.
 */
#define CUDA_BLOCKER (UINT64_C(1) << 32) /* one that blocks it */
#define CUDA_BLOCKERS (-CUDA_BLOCKER)
#define CUDA_USERS (CUDA_BLOCKER - 1)

AM_COLD void cuda_mem_wake(void);
void cuda_mem_await(struct am_mem *mem);

/*
 * Raises the number to at least this one.  The release is for `done` of a lane: a thread that
 * reads it knows what the lane's poll knew.  For `launched` the order comes from `uses`.
 */
static inline void cuda_number_raise(_Atomic uint64_t *number, uint64_t to)
{
    uint64_t seen = atomic_load_explicit(number, memory_order_relaxed);

    while (seen < to &&
           !atomic_compare_exchange_weak_explicit(number, &seen, to, memory_order_release,
                                                  memory_order_relaxed))
        ;
}

static inline void cuda_mem_release(struct am_mem *mem)
{
    uint64_t old = atomic_fetch_sub(&cuda_mem(mem)->uses, 1);

    if ((old & CUDA_BLOCKERS) && (old & CUDA_USERS) == 1)
        cuda_mem_wake();
}

static inline bool cuda_mem_try_acquire(struct am_mem *mem)
{
    if (!(atomic_fetch_add(&cuda_mem(mem)->uses, 1) & CUDA_BLOCKERS))
        return true;
    cuda_mem_release(mem);
    return false;
}

bool cuda_mem_is_at(struct am_mem *mem, CUdeviceptr base);
/* Maps all of it once more, for a caller that cannot rely on its other addresses. */
aclError cuda_alias_open(struct am_mem *mem, CUdeviceptr *ret_base);
void cuda_alias_close(struct am_mem *mem, CUdeviceptr base);

/* pin.c */
aclError cuda_pinned_map(void *addr, size_t size, struct am_mem *mem);
aclError cuda_pinned_unmap(void *addr, size_t size, struct am_mem *mem);

/* walk.c */
/* Acquires all device memory of both sides.  Fails if a GPU was lost. */
aclError cuda_step_acquire(const struct am_step *step);
/*
 * The same for a launch; false, and nothing is acquired, unless all of it is memory of this GPU
 * that is not blocked and is mapped where its span says, or host memory that the driver has
 * locked.
 */
bool cuda_step_acquire_for(const struct am_step *step, const struct cuda_gpu *gpu);
/* The memory keeps the number of the launch that uses it; 0: none. */
void cuda_step_release(const struct am_step *step, uint64_t number);
/* Whether pieces of both sides may be joined: there are several, and their memory is there. */
bool cuda_step_can_join(const struct am_step *step);

/* A part of one side: a range of addresses of one GPU, or of the host. */
struct cuda_piece {
    CUdeviceptr at; /* of one that is hidden: 0 */
    size_t size;
    struct cuda_gpu *gpu; /* NULL: the host's, as the next one */
    struct am_mem *mem;
    size_t offset;  /* into mem */
    bool is_hidden; /* mem is not mapped there any more */
    bool is_joined; /* goes on in other handles: the driver wants a current context */
};

/*
 * A piece of at most `size` bytes from here on; the walk moves behind it.  It goes on over
 * handles that lie side by side, n_joined at most: 1 joins none.
 */
aclError cuda_piece_take(struct am_cursor *walk, size_t size, size_t n_joined,
                         struct cuda_piece *ret_piece);
/*
 * How many handles a piece joins: at first, and in each piece behind that.  The driver takes
 * 0.2 us for each handle of a piece before the GPU begins with it, and the GPU five times as
 * long for its bytes (H200, handles of 2 MB).  So the first piece is short, and while the GPU
 * copies a piece, the driver prepares one of four times as many handles.
 */
#define CUDA_JOINED_FIRST 16

static inline size_t cuda_joined_next(size_t n_joined)
{
    return n_joined == 1 ? 1 : 4 * n_joined;
}
/* The rest of a piece, behind its first bytes. */
void cuda_piece_advance(struct cuda_piece *piece, size_t size);
/*
 * lane.c: until nothing that was launched up to this number is under way any more; false: the
 * driver would not say.
 */
bool cuda_lanes_wait(struct cuda_gpu *gpu, uint64_t number);

/* mark.c: positions in the work of lanes; see backend.h */
struct am_mark {
    atomic_uint refs; /* those of the core, and the lane's until it is reached */
    struct cuda_mark_cache *cache;
    struct cuda_gpu *gpu; /* the cache's */
    CUevent event;
    bool is_timed;
    uint64_t number; /* the lane's, as the next one */
    TAILQ_ENTRY(am_mark) link;
};

/*
 * The unused marks of one lane; NULL: no memory.  The cache takes over the caller's use of
 * the GPU, and ends it with the last reference.
 */
struct cuda_mark_cache *cuda_mark_cache_create(struct cuda_gpu *gpu);
void cuda_mark_cache_put(struct cuda_mark_cache *cache);
/* A mark behind all work on the stream so far, with one reference. */
CUresult cuda_mark_make(struct cuda_mark_cache *cache, CUstream stream, bool is_timed,
                        struct am_mark **ret_mark);
/* Before the GPU's context is released. */
void cuda_clock_destroy_locked(struct cuda_gpu *gpu) AM_REQUIRES(gpu->lock);

/*
 * copy.c: the stream that a copy or fill goes to, and whether the context of its GPU was made
 * current.  A lane's course stays on the lane's stream; any other one uses streams of the
 * cache.
 */
struct cuda_course {
    struct cuda_gpu *gpu; /* NULL: none yet */
    CUstream stream;
    bool is_lane;
    bool is_entered;
    bool is_pushed; /* for cuda_leave() */
};

/*
 * Hands the copy or fill to the driver in pieces.  The memory is acquired; n_joined:
 * CUDA_JOINED_FIRST, or 1.
 */
aclError cuda_step_run(struct cuda_course *course, const struct am_step *step,
                       size_t n_joined);

#endif
