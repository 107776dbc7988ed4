/* Primary contexts, and each thread's stack of current ones. */
#include "fake/fake.h"

enum { MAX_DEPTH = 64 };

/* The program's name for a context is its address in here. */
static _Thread_local struct {
    struct fake_context *contexts[MAX_DEPTH];
    int depth;
} stack;

static struct fake_context *top(void)
{
    return stack.depth ? stack.contexts[stack.depth - 1] : NULL;
}

static CUcontext name_of(struct fake_context *context)
{
    return (CUcontext)context;
}

struct fake_context *fake_context_find(CUcontext name)
{
    for (int i = 0; i < fake.n_devices; i++)
        if (name_of(&fake.contexts[i]) == name)
            return &fake.contexts[i];
    return NULL;
}

CUresult fake_context_current_locked(struct fake_context **ret_context)
{
    struct fake_context *context = top();

    if (!context)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (!context->is_active)
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    *ret_context = context;
    return context->error;
}

/* ---- primary contexts ---- */

static bool is_device(CUdevice device)
{
    return device >= 0 && device < fake.n_devices;
}

static void start_locked(struct fake_context *context, int device)
{
    context->device = device;
    context->is_active = true;
    context->legacy.context = context;
    context->legacy.flags = CU_STREAM_DEFAULT;
    TAILQ_INIT(&context->legacy.ops);
    TAILQ_INIT(&context->streams);
    TAILQ_INSERT_TAIL(&context->streams, &context->legacy, entry);
    LIST_INIT(&context->events);
}

/* What is queued is dropped: a program that ends has to wait first. */
static void end_locked(struct fake_context *context)
{
    fake_stream_drop_context_locked(context);
    fake_event_drop_context_locked(context);
    fake_host_drop_context_locked(context);
    context->is_active = false;
}

CUresult fake_cuDevicePrimaryCtxRetain(CUcontext *ret_context, CUdevice device)
{
    struct fake_context *context;

    if (!ret_context)
        return CUDA_ERROR_INVALID_VALUE;
    if (!is_device(device))
        return CUDA_ERROR_INVALID_DEVICE;
    fake_lock();
    context = &fake.contexts[device];
    if (context->error != CUDA_SUCCESS)
        return fake_unlock(context->error);
    if (!context->is_active)
        start_locked(context, device);
    context->retained++;
    *ret_context = name_of(context);
    return fake_unlock(CUDA_SUCCESS);
}

CUresult fake_cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
    struct fake_context *context;

    if (!is_device(device))
        return CUDA_ERROR_INVALID_DEVICE;
    fake_lock();
    context = &fake.contexts[device];
    if (!context->retained)
        return fake_unlock(CUDA_ERROR_INVALID_CONTEXT);
    if (--context->retained == 0)
        end_locked(context);
    return fake_unlock(CUDA_SUCCESS);
}

CUresult fake_cuDevicePrimaryCtxGetState(CUdevice device, unsigned *ret_flags,
                                         int *ret_active)
{
    if (!ret_flags || !ret_active)
        return CUDA_ERROR_INVALID_VALUE;
    if (!is_device(device))
        return CUDA_ERROR_INVALID_DEVICE;
    fake_lock();
    *ret_flags = 0;
    *ret_active = fake.contexts[device].is_active;
    return fake_unlock(CUDA_SUCCESS);
}

void fake_context_break_locked(struct fake_context *context, CUresult error)
{
    context->error = error;
    fake_stream_break_locked(context);
    pthread_cond_broadcast(&fake.changed);
}

/* ---- current contexts ---- */

CUresult fake_cuCtxGetCurrent(CUcontext *ret_context)
{
    if (!ret_context)
        return CUDA_ERROR_INVALID_VALUE;
    *ret_context = name_of(top());
    return CUDA_SUCCESS;
}

CUresult fake_cuCtxPushCurrent_v2(CUcontext context)
{
    if (!context)
        return CUDA_ERROR_INVALID_VALUE;
    if (!fake_context_find(context) || stack.depth == MAX_DEPTH)
        return CUDA_ERROR_INVALID_CONTEXT;
    stack.contexts[stack.depth++] = fake_context_find(context);
    return CUDA_SUCCESS;
}

CUresult fake_cuCtxPopCurrent_v2(CUcontext *ret_context)
{
    if (!stack.depth)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (ret_context)
        *ret_context = name_of(top());
    stack.depth--;
    return CUDA_SUCCESS;
}

CUresult fake_cuCtxSetCurrent(CUcontext context)
{
    if (context && !fake_context_find(context))
        return CUDA_ERROR_INVALID_CONTEXT;
    if (stack.depth)
        stack.depth--;
    return context ? fake_cuCtxPushCurrent_v2(context) : CUDA_SUCCESS;
}

CUresult fake_cuCtxGetDevice(CUdevice *ret_device)
{
    struct fake_context *context;
    CUresult rc;

    if (!ret_device)
        return CUDA_ERROR_INVALID_VALUE;
    fake_lock();
    rc = fake_context_current_locked(&context);
    if (rc == CUDA_SUCCESS)
        *ret_device = context->device;
    return fake_unlock(rc);
}

CUresult fake_cuCtxGetStreamPriorityRange(int *ret_least, int *ret_greatest)
{
    struct fake_context *context;
    CUresult rc;

    fake_lock();
    rc = fake_unlock(fake_context_current_locked(&context));
    if (rc == CUDA_SUCCESS && ret_least)
        *ret_least = 0;
    if (rc == CUDA_SUCCESS && ret_greatest)
        *ret_greatest = -5;
    return rc;
}

CUresult fake_cuMemGetInfo_v2(size_t *ret_free, size_t *ret_total)
{
    struct fake_context *context;
    CUresult rc;

    fake_lock();
    rc = fake_context_current_locked(&context);
    if (rc == CUDA_SUCCESS && ret_total)
        *ret_total = fake.capacity;
    if (rc == CUDA_SUCCESS && ret_free)
        *ret_free = fake.capacity - FAKE_OWN_MEMORY - fake.used[context->device];
    return fake_unlock(rc);
}
