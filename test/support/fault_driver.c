/*
 * The wrappers of test builds around the functions of the NVIDIA driver, which count and can fail
 * the Nth call, as fault.c does for system calls.  Part of am_backend_test.
 */
#include <string.h>

#include "backend/cuda/driver.h"
#include "base/sys.h"

static struct am_cuda_driver real;

static bool has_word(const char *name, const char *const *words)
{
    while (*words != NULL && strstr(name, *words) == NULL)
        words++;
    return *words != NULL;
}

static enum am_fault_kind kind_of(const char *name)
{
    static const char *const works[] = {"Memcpy", "Memset", NULL};
    static const char *const gives[] = {
        "Free",        "Release",    "Unmap", "Destroy",     "Unregister", "GetCurrent",
        "PushCurrent", "PopCurrent", "Query", "Synchronize", NULL};

    if (has_word(name, works))
        return AM_FAULT_WORK;
    return has_word(name, gives) ? AM_FAULT_GIVE : AM_FAULT_TAKE;
}

/*
 * All calls except cuGetErrorName() and cuGetErrorString(): a message without the driver's
 * text is not a failure.
 */
static CUresult fault_of(const char *name)
{
    static const char *const words[] = {"cuGetError", NULL};

    if (has_word(name, words) || !am_fault_hit(kind_of(name)))
        return CUDA_SUCCESS;
    return am_fault_is_refusal() ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_OUT_OF_MEMORY;
}

#define AM_CU(need_, since_, name_, params_, args_) \
    static CUresult faulted_##name_ params_ \
    { \
        CUresult rc_ = fault_of(#name_); \
\
        return rc_ == CUDA_SUCCESS ? real.name_ args_ : rc_; \
    }
#include "backend/cuda/driver.def"
#undef AM_CU

void am_fault_driver(struct am_cuda_driver *driver)
{
    real = *driver;
#define AM_CU(need_, since_, name_, params_, args_) \
    if (real.name_ != NULL) \
        driver->name_ = faulted_##name_;
#include "backend/cuda/driver.def"
#undef AM_CU
}
