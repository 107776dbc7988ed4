/*
 * The driver's library, found at run time.
 *
 * It is loaded once and stays: the program, or another library in it, may use it too, and
 * then it is the same one.
 *
 * Another library in the process may be capturing a graph (PyTorch does). Calls that
 * query or wait for work are then refused, in any thread, and break the capture.  Our
 * calls concern streams outside of the capture, so they are made with the thread's
 * capture mode relaxed.
 */
#include <dlfcn.h>
#include <string.h>

#include "acl/error_codes/rt_error_codes.h"
#include "backend/cuda/cuda.h"
#include "base/error.h"

#define LIBRARY "libcuda.so.1"

enum need { REQUIRED, OPTIONAL, ASIDE };

struct am_cuda_driver cu;

static const struct {
    const char *name;
    enum need need;
    int since; /* 1000 * major + 10 * minor */
    size_t at; /* of the pointer in struct am_cuda_driver */
} symbols[] = {
#define AM_CU(need_, since_, name_, params_, args_) \
    {#name_, need_, since_, offsetof(struct am_cuda_driver, name_)},
#include "backend/cuda/driver.def"
#undef AM_CU
};

static struct am_cuda_driver plain; /* as it was found */

#define AM_CU(need_, since_, name_, params_, args_) \
    static CUresult aside_##name_ params_ \
    { \
        CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED; \
        bool is_aside_ = \
            plain.cuThreadExchangeStreamCaptureMode(&mode_) == CUDA_SUCCESS; \
        CUresult rc_ = plain.name_ args_; \
\
        if (is_aside_) \
            plain.cuThreadExchangeStreamCaptureMode(&mode_); \
        return rc_; \
    }
#include "backend/cuda/driver.def"
#undef AM_CU

static void asides_put_before(void)
{
    plain = cu;
#define AM_CU(need_, since_, name_, params_, args_) \
    if (need_ == ASIDE) \
        cu.name_ = aside_##name_;
#include "backend/cuda/driver.def"
#undef AM_CU
}

static int driver_version(const struct am_cuda_driver *driver)
{
    int version = 0;

    if (driver->cuDriverGetVersion != NULL)
        driver->cuDriverGetVersion(&version);
    return version;
}

static aclError symbols_find(void *library, struct am_cuda_driver *driver)
{
    const char *missing = NULL;
    int since = 0;
    int version;

    for (size_t i = 0; i < AM_ARRAY_SIZE(symbols); i++) {
        void *symbol = dlsym(library, symbols[i].name);

        /* C has no cast from the pointer of dlsym() to one of a function. */
        memcpy((char *)driver + symbols[i].at, &symbol, sizeof symbol);
        if (symbol == NULL && symbols[i].need != OPTIONAL && symbols[i].since >= since) {
            missing = symbols[i].name;
            since = symbols[i].since;
        }
    }
    version = driver_version(driver);
    AM_REQUIRE(missing == NULL, ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
               "ACLMEM_BACKEND=cuda: the NVIDIA driver is for CUDA %d.%d and has no %s, "
               "which came with %d.%d; install a newer driver",
               version / 1000, version % 1000 / 10, missing, since / 1000,
               since % 1000 / 10);
    return ACL_SUCCESS;
}

aclError cuda_load(void)
{
    static struct am_cuda_driver found; /* large, and only one thread starts us */
    void *library;
    aclError rc;

    if (cu.cuInit != NULL)
        return ACL_SUCCESS;
    library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    AM_REQUIRE(library != NULL, ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
               "ACLMEM_BACKEND=cuda: there is no NVIDIA driver here: %s; install one, or "
               "use ACLMEM_BACKEND=host",
               dlerror());
    rc = symbols_find(library, &found);
    if (rc != ACL_SUCCESS) {
        dlclose(library);
        return rc;
    }
    cu = found;
    asides_put_before();
#if AM_TEST
    am_fault_driver(&cu);
#endif
    return ACL_SUCCESS;
}
