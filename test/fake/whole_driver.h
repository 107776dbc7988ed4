/* The driver's types and functions that only facts, tests and benchmarks use. */
#ifndef FAKE_WHOLE_DRIVER_H
#define FAKE_WHOLE_DRIVER_H

#include "backend/cuda/driver.h"

/* Each side uses Host, Device or Array, as its memory type says. */
typedef struct {
    size_t srcXInBytes;
    size_t srcY;
    CUmemorytype srcMemoryType;
    const void *srcHost;
    CUdeviceptr srcDevice;
    void *srcArray;
    size_t srcPitch;
    size_t dstXInBytes;
    size_t dstY;
    CUmemorytype dstMemoryType;
    void *dstHost;
    CUdeviceptr dstDevice;
    void *dstArray;
    size_t dstPitch;
    size_t WidthInBytes;
    size_t Height;
} CUDA_MEMCPY2D;

_Static_assert(sizeof(CUDA_MEMCPY2D) == 128, "CUDA_MEMCPY2D");
_Static_assert(offsetof(CUDA_MEMCPY2D, srcHost) == 24, "srcHost");
_Static_assert(offsetof(CUDA_MEMCPY2D, srcPitch) == 48, "srcPitch");
_Static_assert(offsetof(CUDA_MEMCPY2D, dstMemoryType) == 72, "dstMemoryType");
_Static_assert(offsetof(CUDA_MEMCPY2D, dstDevice) == 88, "dstDevice");
_Static_assert(offsetof(CUDA_MEMCPY2D, Height) == 120, "Height");

/* A loaded driver: a pointer for each row of whole_driver.def. */
struct whole_driver {
#define AM_CU(need_, since_, name_, params_, args_) CUresult(*name_) params_;
#include "fake/whole_driver.def"
#undef AM_CU
};

#endif
