/*
 * The CUDA backend: device memory is an NVIDIA GPU's.
 *
 * gpu     a GPU of the driver, its primary context while somebody uses it, and whether it
 *         was lost
 * bank    a device's bank is a GPU; pinned memory is the program's, registered with the
 *         driver (pin.c); the host's memory is left to the host backend
 * mem     a handle of the driver, where it is mapped, and how many copies use that now
 *
 * Reservations are the driver's, so that addresses are good on the GPU; the host's memory
 * is mapped over them.  What the driver gives and takes is one to one: a handle is mapped
 * whole, and a mapping needs a second call that gives the device access.
 *
 * A copy reaches memory where it is mapped.  So unmapping waits for copies that run, and
 * a copy that comes later for memory that it holds maps it once more, for itself.
 */
#ifndef AM_BACKEND_CUDA_CUDA_H
#define AM_BACKEND_CUDA_CUDA_H

#include <stdatomic.h>
#include <stdbool.h>

#include "backend/backend.h"
#include "backend/cuda/driver.h"
#include "base/lock.h"
#include "base/util.h"

#define CUDA_GPUS_MAX 63
#define CUDA_LANES_MAX 16 /* streams that are kept for copies */

struct cuda_gpu {
    int32_t index;
    CUdevice device;
    bool can_export;
    struct am_device_info info;
    _Atomic CUresult lost; /* why nothing works on it any more; 0: it works */
    struct am_lock lock;
    unsigned n_users;           /* lock, as all below */
    _Atomic(CUcontext) context; /* NULL while nobody uses it */
    CUstream idle[CUDA_LANES_MAX];
    unsigned n_idle;
};

struct cuda_bank {
    struct am_bank base;
    struct cuda_gpu *gpu;
};

/* What struct am_mem's impl is here, for device memory. */
struct cuda_mem {
    CUmemGenericAllocationHandle handle;
    _Atomic CUdeviceptr bound; /* one of the addresses where it is mapped, or 0 */
    _Atomic uint32_t uses;     /* mem.c */
    int32_t fd;                /* what it was exported as, or -1 */
};

static inline struct cuda_mem *cuda_mem(struct am_mem *mem)
{
    _Static_assert(sizeof(struct cuda_mem) <= sizeof mem->impl, "impl is too small");
    return (struct cuda_mem *)mem->impl;
}

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
 * that is what the failure means.
 */
aclError cuda_error(CUresult rc, struct cuda_gpu *gpu, const char *what, size_t size);
const char *cuda_name(CUresult rc);
/* Fails when the GPU was lost before. */
aclError cuda_check(const struct cuda_gpu *gpu);

/* gpu.c */
aclError cuda_start(void);
int32_t cuda_device_count(void);
aclError cuda_device_info(int32_t driver, struct am_device_info *ret_info);
bool cuda_device_can_reach(int32_t driver, int32_t other);
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
CUresult cuda_lane_take(struct cuda_gpu *gpu, CUstream *ret_lane);
void cuda_lane_give(struct cuda_gpu *gpu, CUstream lane);

/* mem.c */
aclError cuda_bank_open(const struct am_bank_spec *spec, struct am_bank **ret_bank);
void cuda_bank_close(struct am_bank *bank);
aclError cuda_bank_free(struct am_bank *bank, size_t *ret_size);
aclError cuda_mem_create(struct am_bank *bank, size_t size, int node, struct am_mem *mem);
void cuda_mem_destroy(struct am_mem *mem);
aclError cuda_reserve(size_t size, size_t align, void *want, void **ret_addr);
aclError cuda_reserve_own(size_t size, size_t align, void **ret_addr);
aclError cuda_release(void *addr, size_t size);
aclError cuda_map(void *addr, size_t size, struct am_mem *mem,
                  const struct am_rights *rights);
aclError cuda_protect(void *addr, size_t size, struct am_mem *mem,
                      const struct am_rights *rights);
aclError cuda_unmap(void *addr, size_t size, struct am_mem *mem);
/*
 * While a mem is held it stays mapped where it is.  cuda_mem_is_at: whether that is, or
 * includes, this address; only for a mem that is held.
 */
void cuda_mem_hold(struct am_mem *mem);
void cuda_mem_let_go(struct am_mem *mem);
bool cuda_mem_is_at(struct am_mem *mem, CUdeviceptr base);
/* Maps all of it once more, for who may not rely on its other addresses. */
aclError cuda_alias_open(struct am_mem *mem, CUdeviceptr *ret_base);
void cuda_alias_close(struct am_mem *mem, CUdeviceptr base);

aclError cuda_mem_export(struct am_mem *mem, int *ret_fd);
aclError cuda_mem_import(struct am_bank *bank, int fd, size_t size, struct am_mem *mem);

/* pin.c */
aclError cuda_pin(void *addr, size_t size, bool must_lock);
void cuda_unpin(void *addr, size_t size);
aclError cuda_reserve_pinned(size_t size, size_t align, void **ret_addr);
aclError cuda_release_pinned(void *addr, size_t size);
aclError cuda_pinned_map(void *addr, size_t size, struct am_mem *mem);
aclError cuda_pinned_unmap(void *addr, size_t size, struct am_mem *mem);

/* copy.c */
aclError cuda_copy(const struct am_span *dst, size_t dst_at, const struct am_span *src,
                   size_t src_at, size_t size);
aclError cuda_fill(const struct am_span *dst, size_t size, uint32_t value,
                   unsigned width);

#endif
