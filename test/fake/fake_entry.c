/*
 * The exported functions: a fault if one is due, what is asked before every call, and
 * fake_NAME(), which does the work.
 */
#include "fake/fake.h"

#define EXPORTED __attribute__((visibility("default")))

enum {
#define AM_CU(need_, since_, name_, params_, args_) ID_##name_,
#include "fake/whole_driver.def"
#undef AM_CU
    N_IDS
};

enum {
    BEFORE_INIT = 1u << 0, /* works without cuInit() */
    IN_FUNCTION = 1u << 1, /* works in a host function */
    BREAKS_CAPTURE = 1u << 2,
};

static const unsigned char traits[N_IDS] = {
    [ID_cuInit] = BEFORE_INIT,
    [ID_cuDriverGetVersion] = BEFORE_INIT | IN_FUNCTION,
    [ID_cuGetErrorName] = BEFORE_INIT | IN_FUNCTION,
    [ID_cuGetErrorString] = BEFORE_INIT | IN_FUNCTION,
    [ID_cuStreamQuery] = IN_FUNCTION | BREAKS_CAPTURE,
    [ID_cuEventQuery] = IN_FUNCTION | BREAKS_CAPTURE,
    [ID_cuEventRecord] = IN_FUNCTION,
    [ID_cuStreamWaitEvent] = IN_FUNCTION,
    [ID_cuStreamWriteValue32_v2] = IN_FUNCTION,
    [ID_cuLaunchHostFunc] = IN_FUNCTION,
    [ID_cuMemsetD8Async] = IN_FUNCTION,
    [ID_cuThreadExchangeStreamCaptureMode] = IN_FUNCTION,
    [ID_cuStreamSynchronize] = BREAKS_CAPTURE,
    [ID_cuEventSynchronize] = BREAKS_CAPTURE,
    [ID_cuMemHostAlloc] = BREAKS_CAPTURE,
    [ID_cuMemHostRegister_v2] = BREAKS_CAPTURE,
    [ID_cuMemHostUnregister] = BREAKS_CAPTURE,
};

static CUresult check(int id, const char *name)
{
    CUresult rc = fake_control_fault(name);

    if (rc == CUDA_SUCCESS && fake_in_function && !(traits[id] & IN_FUNCTION))
        rc = CUDA_ERROR_NOT_PERMITTED;
    if (rc == CUDA_SUCCESS && !(traits[id] & BEFORE_INIT)) {
        fake_lock();
        rc = fake_unlock(fake.is_initialised ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED);
    }
    if (rc == CUDA_SUCCESS && (traits[id] & BREAKS_CAPTURE))
        rc = fake_capture_break();
    return rc;
}

#define AM_CU(need_, since_, name_, params_, args_) EXPORTED CUresult name_ params_;
#include "fake/whole_driver.def"
#undef AM_CU

#define AM_CU(need_, since_, name_, params_, args_) \
    CUresult name_ params_ \
    { \
        CUresult rc_ = check(ID_##name_, #name_); \
\
        return rc_ == CUDA_SUCCESS ? fake_##name_ args_ : rc_; \
    }
#include "fake/whole_driver.def"
#undef AM_CU
