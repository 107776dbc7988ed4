/* The driver's types and functions that only facts, tests and benchmarks use. */
#ifndef FAKE_WHOLE_DRIVER_H
#define FAKE_WHOLE_DRIVER_H

#include "backend/cuda/driver.h"

typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphExec_st *CUgraphExec;
typedef void (*CUhostFn)(void *arg);

/* The streams that always exist.  NULL is the legacy one too. */
#define CU_STREAM_LEGACY ((CUstream)0x1)

#define CUDA_ERROR_DEINITIALIZED ((CUresult)4)
#define CUDA_ERROR_INVALID_CONTEXT ((CUresult)201)
#define CUDA_ERROR_MAP_FAILED ((CUresult)205)
#define CUDA_ERROR_ILLEGAL_STATE ((CUresult)401)
#define CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES ((CUresult)701)
#define CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED ((CUresult)900)
#define CUDA_ERROR_STREAM_CAPTURE_INVALIDATED ((CUresult)901)

#define CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM \
    ((CUdevice_attribute)91)
#define CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID ((CUdevice_attribute)134)

#define CU_MEM_LOCATION_TYPE_INVALID ((CUmemLocationType)0)
#define CU_MEM_LOCATION_TYPE_HOST ((CUmemLocationType)2)
#define CU_MEM_ALLOCATION_TYPE_INVALID ((CUmemAllocationType)0)
#define CU_MEM_HANDLE_TYPE_NONE ((CUmemAllocationHandleType)0)
#define CU_MEM_ALLOC_GRANULARITY_RECOMMENDED ((CUmemAllocationGranularity_flags)1)

#define CU_POINTER_ATTRIBUTE_DEVICE_POINTER ((CUpointer_attribute)3)
#define CU_POINTER_ATTRIBUTE_HOST_POINTER ((CUpointer_attribute)4)
#define CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL ((CUpointer_attribute)9)
#define CU_POINTER_ATTRIBUTE_RANGE_START_ADDR ((CUpointer_attribute)11)
#define CU_POINTER_ATTRIBUTE_RANGE_SIZE ((CUpointer_attribute)12)

#define CU_MEMORYTYPE_DEVICE ((CUmemorytype)2)
#define CU_MEMORYTYPE_UNIFIED ((CUmemorytype)4) /* the driver decides by the address */

#define CU_STREAM_CAPTURE_MODE_GLOBAL ((CUstreamCaptureMode)0) /* those of all threads */
#define CU_STREAM_CAPTURE_MODE_THREAD_LOCAL ((CUstreamCaptureMode)1)

enum {
    CU_STREAM_DEFAULT = 0, /* ordered with the legacy stream */

    CU_EVENT_BLOCKING_SYNC = 1, /* a synchronising thread sleeps instead of spinning */

    CU_MEMHOSTALLOC_PORTABLE = 1, /* pinned for all contexts */

    CU_STREAM_WAIT_VALUE_GEQ = 0, /* as the sign of a 32-bit difference */
    CU_STREAM_WAIT_VALUE_EQ = 1,
    CU_STREAM_WAIT_VALUE_AND = 2,
    CU_STREAM_WAIT_VALUE_NOR = 3,
};

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
