/* What facts share: how they speak, and the things they need before they begin. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "fake/facts.h"

enum {
    PATIENCE_S = 2, /* a call that takes longer waits for something */
    TURNS = 20,     /* and this many threads come and go */
};

void say_code(const char *key, CUresult rc)
{
    const char *name = NULL;

    if (cu.cuGetErrorName(rc, &name) != CUDA_SUCCESS || !name)
        printf(" %s=%d", key, rc);
    else if (!strncmp(name, "CUDA_ERROR_", strlen("CUDA_ERROR_")))
        printf(" %s=%s", key, name + strlen("CUDA_ERROR_"));
    else
        printf(" %s=%s", key, name + strlen("CUDA_"));
}

void say_number(const char *key, long long value)
{
    printf(" %s=%lld", key, value);
}

void say_yes(const char *key, bool value)
{
    printf(" %s=%s", key, value ? "yes" : "no");
}

void must(CUresult rc, const char *what)
{
    if (rc == CUDA_SUCCESS)
        return;
    say_code(what, rc);
    printf(" (cannot go on)\n");
    _exit(0);
}

void use_device(void)
{
    CUcontext context;
    CUdevice device;

    must(cu.cuInit(0), "cuInit");
    must(cu.cuDeviceGet(&device, 0), "cuDeviceGet");
    must(cu.cuDevicePrimaryCtxRetain(&context, device), "cuDevicePrimaryCtxRetain");
    must(cu.cuCtxSetCurrent(context), "cuCtxSetCurrent");
}

CUmemAllocationProp device_prop(void)
{
    return (CUmemAllocationProp){
        .type = CU_MEM_ALLOCATION_TYPE_PINNED,
        .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
    };
}

CUmemGenericAllocationHandle make_memory(size_t size)
{
    CUmemAllocationProp prop = device_prop();
    CUmemGenericAllocationHandle handle;

    must(cu.cuMemCreate(&handle, size, &prop, 0), "cuMemCreate");
    return handle;
}

CUdeviceptr reserve(size_t size)
{
    CUdeviceptr addr;

    must(cu.cuMemAddressReserve(&addr, size, 0, 0, 0), "cuMemAddressReserve");
    return addr;
}

void map(CUdeviceptr addr, size_t size, CUmemGenericAllocationHandle handle)
{
    must(cu.cuMemMap(addr, size, 0, handle, 0), "cuMemMap");
}

CUresult set_access(CUdeviceptr addr, size_t size, CUmemAccess_flags flags)
{
    CUmemAccessDesc desc = {
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
        .flags = flags,
    };

    return cu.cuMemSetAccess(addr, size, &desc, 1);
}

CUdeviceptr make_mapped(size_t size)
{
    CUmemGenericAllocationHandle handle = make_memory(size);
    CUdeviceptr addr = reserve(size);

    map(addr, size, handle);
    must(set_access(addr, size, CU_MEM_ACCESS_FLAGS_PROT_READWRITE), "cuMemSetAccess");
    must(cu.cuMemRelease(handle), "cuMemRelease");
    return addr;
}

CUstream make_stream(unsigned flags)
{
    CUstream stream;

    must(cu.cuStreamCreateWithPriority(&stream, flags, 0), "cuStreamCreateWithPriority");
    return stream;
}

CUevent make_event(unsigned flags)
{
    CUevent event;

    must(cu.cuEventCreate(&event, flags), "cuEventCreate");
    return event;
}

void *make_pinned(size_t size)
{
    void *addr;

    must(cu.cuMemHostAlloc(&addr, size, CU_MEMHOSTALLOC_PORTABLE), "cuMemHostAlloc");
    return addr;
}

size_t free_memory(void)
{
    size_t left;
    size_t total;

    must(cu.cuMemGetInfo_v2(&left, &total), "cuMemGetInfo");
    return left;
}

static void wait_at_gate(void *arg)
{
    struct gate *gate = arg;

    sem_post(&gate->entered);
    while (sem_wait(&gate->opened) && errno == EINTR)
        continue;
}

void hold(struct gate *gate, CUstream stream)
{
    sem_init(&gate->entered, 0, 0);
    sem_init(&gate->opened, 0, 0);
    must(cu.cuLaunchHostFunc(stream, wait_at_gate, gate), "cuLaunchHostFunc");
    while (sem_wait(&gate->entered) && errno == EINTR)
        continue;
}

void let_go(struct gate *gate)
{
    sem_post(&gate->opened);
}

struct attempt {
    void (*fn)(void *arg);
    void *arg;
    CUcontext context;
    sem_t done;
};

static void *attempt(void *arg)
{
    struct attempt *self = arg;

    cu.cuCtxSetCurrent(self->context);
    self->fn(self->arg);
    sem_post(&self->done);
    return NULL;
}

static void *do_nothing(void *arg)
{
    return arg;
}

bool returns_at_once(void (*fn)(void *arg), void *arg, struct gate *gate)
{
    struct attempt self = {.fn = fn, .arg = arg};
    struct timespec until;
    pthread_t thread;
    pthread_t later;
    bool at_once;

    must(cu.cuCtxGetCurrent(&self.context), "cuCtxGetCurrent");
    sem_init(&self.done, 0, 0);
    pthread_create(&thread, NULL, attempt, &self);
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += PATIENCE_S;
    at_once = !sem_timedwait(&self.done, &until);
    /*
     * On a busy machine it, or a thread of the driver that it needs, may just not have had
     * its turn: threads that came later have.
     */
    for (int i = 0; i < TURNS && !at_once; i++) {
        if (!pthread_create(&later, NULL, do_nothing, NULL))
            pthread_join(later, NULL);
        at_once = !sem_trywait(&self.done);
    }
    let_go(gate);
    pthread_join(thread, NULL);
    return at_once;
}

bool can_read(const void *addr)
{
    int pipes[2];
    bool can;

    if (pipe(pipes))
        _exit(1);
    can = write(pipes[1], addr, 1) == 1;
    close(pipes[0]);
    close(pipes[1]);
    return can;
}

int run_other_side(int fd)
{
    char number[16];
    int status;
    pid_t child;

    snprintf(number, sizeof(number), "%d", fd);
    child = fork();
    if (child == 0) {
        execl("/proc/self/exe", "cuda_facts", "--other-side", number, (char *)NULL);
        _exit(127);
    }
    if (child < 0 || waitpid(child, &status, 0) != child)
        return -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}
