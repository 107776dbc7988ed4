/* Streams of CUDA, by the NVIDIA driver's own functions. */
#ifndef AM_TORCH_CUDA_H
#define AM_TORCH_CUDA_H

#include "aclmem/pool.h"

/* NULL where there is no driver. */
const aclmem_pool_stream_ops *torch_cuda_streams(void);

#endif
