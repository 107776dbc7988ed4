/*
 * What a host function reads and writes.
 *
 * A function that aclrtLaunchHostFunc queues is opaque to the layer check.  A program that declares the memory of the
 * function lets the layer treat it as a kernel: races with other streams, uses after a free and accesses out of
 * bounds are found, exactly for strided memory.
 *
 *     int64_t sizes[] = {rows, columns / 2};
 *     int64_t strides[] = {columns * 4, 4};
 *     aclmem_access left = {matrix, 4, ACLMEM_ACCESS_WRITE, 2, sizes, strides};
 *
 *     if (aclmem_wants_access())
 *         aclmem_declare_access(&left, 1);
 *     aclrtLaunchHostFunc(stream, fill_left_half, arguments);
 *
 * A function with a declaration must use nothing else, also in calls of the library that it makes, which are not checked
 * for their own sake.  It must not notify or wait for other threads: the layer does not assume that the host knows when
 * it ran.
 */
#ifndef ACLMEM_ACCESS_H
#define ACLMEM_ACCESS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ACLMEM_ACCESS_READ 0x1U
#define ACLMEM_ACCESS_WRITE 0x2U

/* Elements of `item` bytes at address + the sum of i[d] * strides[d] bytes, for all 0 <= i[d] < sizes[d]. */
typedef struct aclmem_access {
    const void *address;
    uint32_t item;
    uint32_t flags;  /* ACLMEM_ACCESS_ bits */
    uint32_t n_dims; /* 0: one element; 16 at most */
    const int64_t *sizes;
    const int64_t *strides;
} aclmem_access;

/* 0 if no layer uses declarations. */
int aclmem_wants_access(void);

/*
 * Declares the accesses of the function that the next aclrtLaunchHostFunc of this thread queues; n 0: it uses no
 * memory that the layer knows.  The list stays the caller's and has to exist until that call returns.
 */
void aclmem_declare_access(const aclmem_access *accesses, size_t n);

#ifdef __cplusplus
}
#endif

#endif
