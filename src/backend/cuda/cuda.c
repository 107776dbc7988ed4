/* The CUDA backend's table. */
#include "backend/cuda/cuda.h"

const struct am_backend_ops am_backend_cuda = {
    .name = "cuda",
    .caps = AM_CAP_DEVICES,
    .start = cuda_start,
    .device_count = cuda_device_count,
    .device_info = cuda_device_info,
    .device_can_reach = cuda_device_can_reach,
    .bank_free = cuda_bank_free,
    .bank_open = cuda_bank_open,
    .bank_close = cuda_bank_close,
    .mem_create = cuda_mem_create,
    .mem_destroy = cuda_mem_destroy,
    .reserve = cuda_reserve,
    .reserve_own = cuda_reserve_own,
    .release = cuda_release,
    .reserve_pinned = cuda_reserve_pinned,
    .release_pinned = cuda_release_pinned,
    .map = cuda_map,
    .protect = cuda_protect,
    .unmap = cuda_unmap,
    .pin = cuda_pin,
    .unpin = cuda_unpin,
    .copy = cuda_copy,
    .fill = cuda_fill,
};
