/*
 * The exported functions: a fault if one is due, what is asked before every call, and
 * fake_NAME(), which does the work.
 */
#include "fake/fake.h"

#define EXPORTED __attribute__((visibility("default")))

enum {
#define AM_CU(need_, since_, name_, params_, args_) ID_##name_,
#include "backend/cuda/driver.def"
#undef AM_CU
    N_IDS
};

enum {
    BEFORE_INIT = 1u << 0, /* works without cuInit() */
    IN_FUNCTION = 1u << 1, /* works in a host function */
};

static const unsigned char traits[N_IDS] = {
    [ID_cuInit] = BEFORE_INIT,
    [ID_cuDriverGetVersion] = BEFORE_INIT | IN_FUNCTION,
    [ID_cuGetErrorName] = BEFORE_INIT | IN_FUNCTION,
    [ID_cuGetErrorString] = BEFORE_INIT | IN_FUNCTION,
    [ID_cuStreamQuery] = IN_FUNCTION,
    [ID_cuEventQuery] = IN_FUNCTION,
    [ID_cuEventRecord] = IN_FUNCTION,
    [ID_cuStreamWaitEvent] = IN_FUNCTION,
    [ID_cuStreamWriteValue32_v2] = IN_FUNCTION,
    [ID_cuLaunchHostFunc] = IN_FUNCTION,
    [ID_cuMemsetD8Async] = IN_FUNCTION,
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
    return rc;
}

#define AM_CU(need_, since_, name_, params_, args_) EXPORTED CUresult name_ params_;
#include "backend/cuda/driver.def"
#undef AM_CU

#define AM_CU(need_, since_, name_, params_, args_) \
    CUresult name_ params_ \
    { \
        CUresult rc_ = check(ID_##name_, #name_); \
\
        return rc_ == CUDA_SUCCESS ? fake_##name_ args_ : rc_; \
    }
#include "backend/cuda/driver.def"
#undef AM_CU
