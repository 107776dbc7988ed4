/*
 * Events of the NVIDIA driver for PyTorch's streams.
 *
 * The thread that runs the backward pass, and any thread that drops a tensor, may have no
 * context.  Each function works in the device's primary context, which is PyTorch's, and leaves the
 * thread's own as it was.  The device is the thread's in AscendCL: the pool calls these functions
 * where it has entered its own.
 */
#include "torch/cuda.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "acl/acl.h"
#include "backend/cuda/driver.h"

#define MAX_DEVICES 64

/* The functions of the driver that load() names. */
static struct am_cuda_driver cu;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool is_there;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static CUcontext contexts[MAX_DEVICES]; /* lock; held for good, as PyTorch does */

static bool symbol_get(void *library, const char *name, void *into)
{
    void *symbol = dlsym(library, name);

    memcpy(into, &symbol, sizeof symbol);
    return symbol != NULL;
}

static void load(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW);

#define GET(name_) symbol_get(library, #name_, &cu.name_)
    is_there = library != NULL && GET(cuInit) && GET(cuDeviceGet) &&
               GET(cuDevicePrimaryCtxRetain) && GET(cuCtxGetCurrent) &&
               GET(cuCtxPushCurrent_v2) && GET(cuCtxPopCurrent_v2) &&
               GET(cuCtxSynchronize) && GET(cuEventCreate) && GET(cuEventDestroy_v2) &&
               GET(cuEventRecord) && GET(cuEventQuery) && GET(cuEventSynchronize) &&
               GET(cuStreamWaitEvent) && GET(cuStreamSynchronize) && cu.cuInit(0) == 0;
#undef GET
}

/* Whether the thread's context was changed, and has to be changed back. */
static int context_enter(bool *ret_is_pushed)
{
    CUcontext wanted, now = NULL;
    int32_t current;
    CUdevice device;
    int rc = aclrtGetDevice(&current);

    *ret_is_pushed = false;
    if (rc != ACL_SUCCESS)
        return rc;
    pthread_mutex_lock(&lock);
    if (contexts[current] == NULL) {
        rc = cu.cuDeviceGet(&device, current);
        if (rc == 0)
            rc = cu.cuDevicePrimaryCtxRetain(&contexts[current], device);
    }
    wanted = contexts[current];
    pthread_mutex_unlock(&lock);
    if (rc == 0)
        rc = cu.cuCtxGetCurrent(&now);
    if (rc == 0 && now != wanted) {
        rc = cu.cuCtxPushCurrent_v2(wanted);
        *ret_is_pushed = rc == 0;
    }
    return rc;
}

static void context_leave(bool is_pushed)
{
    CUcontext popped;

    if (is_pushed)
        cu.cuCtxPopCurrent_v2(&popped);
}

/* A call of the driver in the device's context. */
#define IN_CONTEXT(call_) \
    do { \
        bool is_pushed_; \
        int rc_ = context_enter(&is_pushed_); \
        if (rc_ == 0) { \
            rc_ = (call_); \
            context_leave(is_pushed_); \
        } \
        return rc_; \
    } while (0)

static int event_create(void **event)
{
    IN_CONTEXT(cu.cuEventCreate((CUevent *)event, CU_EVENT_DISABLE_TIMING));
}

static int event_destroy(void *event)
{
    IN_CONTEXT(cu.cuEventDestroy_v2(event));
}

static int event_record(void *event, void *stream)
{
    IN_CONTEXT(cu.cuEventRecord(event, stream));
}

static int event_query(void *event, int *is_done)
{
    bool is_pushed;
    int rc = context_enter(&is_pushed);

    if (rc != 0)
        return rc;
    rc = cu.cuEventQuery(event);
    context_leave(is_pushed);
    *is_done = rc == 0;
    return rc == CUDA_ERROR_NOT_READY ? 0 : rc;
}

static int event_synchronize(void *event)
{
    IN_CONTEXT(cu.cuEventSynchronize(event));
}

static int stream_wait(void *stream, void *event)
{
    IN_CONTEXT(cu.cuStreamWaitEvent(stream, event, 0));
}

static int stream_synchronize(void *stream)
{
    IN_CONTEXT(cu.cuStreamSynchronize(stream));
}

static int device_synchronize(void)
{
    IN_CONTEXT(cu.cuCtxSynchronize());
}

const aclmem_pool_stream_ops *torch_cuda_streams(void)
{
    static const aclmem_pool_stream_ops ops = {
        .event_create = event_create,
        .event_destroy = event_destroy,
        .event_record = event_record,
        .event_query = event_query,
        .event_synchronize = event_synchronize,
        .stream_wait = stream_wait,
        .stream_synchronize = stream_synchronize,
        .device_synchronize = device_synchronize,
    };

    pthread_once(&once, load);
    return is_there ? &ops : NULL;
}
