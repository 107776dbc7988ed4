/*
 * The pool as a pluggable allocator of PyTorch and torch_npu: libaclmem_torch.so.
 *
 * For Python there is `import aclmem.torch; aclmem.torch.install()`.  These are the functions that
 * it gives to torch.cuda.memory.CUDAPluggableAllocator, or to NPUPluggableAllocator; each may be
 * used by hand too:
 *
 *     NPUPluggableAllocator("libaclmem_torch.so", "aclmem_torch_malloc", "aclmem_torch_free")
 *
 * A device has one pool, made with its first block.  Graphs that are being captured have pools
 * of their own, from begin to release.  All functions may be called from any thread, and late:
 * when the driver is shutting down they do nothing.
 */
#ifndef ACLMEM_TORCH_H
#define ACLMEM_TORCH_H

#include <sys/types.h>

#include "aclmem/pool.h"

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(default)

/*
 * Whose streams PyTorch passes: 1 CUDA's, ordered by the NVIDIA driver's events; 0, the
 * default, AscendCL's.  Before the first block; otherwise 0 is returned, and nothing changes.
 */
int aclmem_torch_use_cuda_streams(int is_cuda);

/*
 * A block; NULL for size 0.  When memory runs out it throws a C++ exception: c10::OutOfMemoryError,
 * which PyTorch turns into torch.OutOfMemoryError, where the process has PyTorch's libc10.so, and
 * std::runtime_error elsewhere.  The text begins with "CUDA out of memory" or "NPU out of memory".
 * Where no pool can be made on the device it throws std::runtime_error, and says why.
 */
void *aclmem_torch_malloc(ssize_t size, int device, void *stream);
/* The same, but NULL instead of an exception. */
void *aclmem_torch_try_malloc(ssize_t size, int device, void *stream);
void aclmem_torch_free(void *ptr, ssize_t size, int device, void *stream);

/* ---- hooks, by the names that PyTorch has for them ---- */

void aclmem_torch_init(int n_devices);
void aclmem_torch_reset(void); /* torch.cuda.empty_cache() */
void aclmem_torch_memory_fraction(double fraction, int device);
void *aclmem_torch_base_alloc(void *ptr, size_t *size);
void aclmem_torch_record_stream(void *ptr, void *stream);
void aclmem_torch_begin_allocate_to_pool(int device, uint64_t id_0, uint64_t id_1,
                                         void *filter);
void aclmem_torch_end_allocate_to_pool(int device, uint64_t id_0, uint64_t id_1);
void aclmem_torch_release_pool(int device, uint64_t id_0, uint64_t id_1);

/* ---- figures; 0, or an error where the device has no pool yet ---- */

int aclmem_torch_get_stats(int device, aclmem_pool_stats *stats);
int aclmem_torch_reset_peaks(int device);
int aclmem_torch_snapshot(int device, char **json);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif
