/* The CUDA backend's table. */
#include "backend/cuda/cuda.h"

const struct am_backend_ops am_backend_cuda = {.name = "cuda",
                                               .caps = AM_CAP_DEVICES | AM_CAP_SHARE |
                                                       AM_CAP_LANES | AM_CAP_STOCK,
#define CUDA_OP_SET(name_) .name_ = cuda_##name_,
                                               CUDA_OPS(CUDA_OP_SET)};
