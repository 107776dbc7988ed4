/*
 * Threads that launch on a GPU, each on a stream of its own, beside the NVIDIA driver called
 * directly by as many threads.  Ours and the driver's take turns in the same process.
 */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "acl/acl.h"
#include "cuda.h"
#include "measure.h"
#include "report.h"
#include "sections.h"

#define SMALL 4096
#define LAUNCHES 64
#define THREADS_MAX 16
#define ROUNDS 7

/* The objects of one thread, on one side. */
struct own {
    void *stream[2];
    void *event;
    char *device;
    char *host;
};

/* The driver's memory, as ours is mapped. */
static char *their_memory(void)
{
    const CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                      .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    const CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, 0},
                                    CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemGenericAllocationHandle handle;
    CUdeviceptr addr;

    MUST((int)cu.cuMemAddressReserve(&addr, CHUNK, CHUNK, 0, 0));
    MUST((int)cu.cuMemCreate(&handle, CHUNK, &prop, 0));
    MUST((int)cu.cuMemMap(addr, CHUNK, 0, handle, 0));
    MUST((int)cu.cuMemSetAccess(addr, CHUNK, &access, 1));
    return (char *)addr;
}

static void own_open(struct own *own, bool is_ours)
{
    for (int i = 0; i < 2; i++) {
        if (is_ours)
            MUST(aclrtCreateStream(&own->stream[i]));
        else
            MUST((int)cu.cuStreamCreateWithPriority((CUstream *)&own->stream[i],
                                                    CU_STREAM_NON_BLOCKING, 0));
    }
    if (is_ours) {
        MUST(aclrtCreateEventExWithFlag(&own->event, ACL_EVENT_SYNC));
        MUST(aclrtMalloc((void **)&own->device, CHUNK, ACL_MEM_MALLOC_HUGE_FIRST));
        MUST(aclrtMallocHost((void **)&own->host, CHUNK));
    } else {
        MUST((int)cu.cuEventCreate((CUevent *)&own->event, CU_EVENT_DISABLE_TIMING));
        own->device = their_memory();
        MUST(
            (int)cu.cuMemHostAlloc((void **)&own->host, CHUNK, CU_MEMHOSTALLOC_PORTABLE));
    }
    memset(own->host, 1, SMALL);
}

static void our_launches(struct own *own)
{
    for (int i = 0; i < LAUNCHES; i++)
        MUST(aclrtMemcpyAsync(own->device, SMALL, own->host, SMALL,
                              ACL_MEMCPY_HOST_TO_DEVICE, own->stream[0]));
    MUST(aclrtSynchronizeStream(own->stream[0]));
}

static void their_launches(struct own *own)
{
    for (int i = 0; i < LAUNCHES; i++)
        MUST((int)cu.cuMemcpyAsync((CUdeviceptr)own->device, (CUdeviceptr)own->host,
                                   SMALL, own->stream[0]));
    MUST((int)cu.cuStreamSynchronize(own->stream[0]));
}

/* A copy before the record, without which there is nothing to wait for. */
static void our_waits(struct own *own)
{
    MUST(aclrtMemcpyAsync(own->device, SMALL, own->host, SMALL, ACL_MEMCPY_HOST_TO_DEVICE,
                          own->stream[0]));
    MUST(aclrtRecordEvent(own->event, own->stream[0]));
    MUST(aclrtStreamWaitEvent(own->stream[1], own->event));
    MUST(aclrtSynchronizeStream(own->stream[1]));
}

static void their_waits(struct own *own)
{
    MUST((int)cu.cuMemcpyAsync((CUdeviceptr)own->device, (CUdeviceptr)own->host, SMALL,
                               own->stream[0]));
    MUST((int)cu.cuEventRecord(own->event, own->stream[0]));
    MUST((int)cu.cuStreamWaitEvent(own->stream[1], own->event, CU_EVENT_WAIT_DEFAULT));
    MUST((int)cu.cuStreamSynchronize(own->stream[1]));
}

static const struct work {
    const char *what;
    void (*run[2])(struct own *own); /* the driver's, ours */
    size_t n;                        /* runs of each thread in a round */
    size_t n_each;                   /* copies in a run */
    double budget;
    size_t budget_from; /* threads */
} works[] = {
    {"64 x MemcpyAsync of 4 KB, then synchronise",
     {their_launches, our_launches},
     300,
     LAUNCHES,
     0.9,
     1},
    {"MemcpyAsync, record, wait, synchronise", {their_waits, our_waits}, 3000, 1, 0.8, 2},
};

struct crew {
    pthread_barrier_t start;
    void (*run)(struct own *own);
    size_t n;
    struct own own[THREADS_MAX];
    CUcontext context;
};

struct member {
    struct crew *crew;
    struct own *own;
    uint64_t begun;
    uint64_t ended;
};

static void *member_main(void *arg)
{
    struct member *member = arg;
    struct crew *crew = member->crew;

    MUST((int)cu.cuCtxSetCurrent(crew->context));
    MUST(aclrtSetDevice(0));
    crew->run(member->own);
    pthread_barrier_wait(&crew->start);
    member->begun = now_ns();
    for (size_t i = 0; i < crew->n; i++)
        crew->run(member->own);
    member->ended = now_ns();
    return NULL;
}

/* Runs a second of all threads together, from the first start to the last end. */
static double rate_once(struct crew *crew, size_t n_threads)
{
    struct member members[THREADS_MAX];
    pthread_t thread[THREADS_MAX];
    uint64_t begun = UINT64_MAX;
    uint64_t ended = 0;

    pthread_barrier_init(&crew->start, NULL, (unsigned)n_threads);
    for (size_t i = 0; i < n_threads; i++) {
        members[i] = (struct member){.crew = crew, .own = &crew->own[i]};
        MUST_HOLD(pthread_create(&thread[i], NULL, member_main, &members[i]) == 0);
    }
    for (size_t i = 0; i < n_threads; i++) {
        MUST_HOLD(pthread_join(thread[i], NULL) == 0);
        begun = members[i].begun < begun ? members[i].begun : begun;
        ended = members[i].ended > ended ? members[i].ended : ended;
    }
    pthread_barrier_destroy(&crew->start);
    return (double)(crew->n * n_threads) * 1e9 / (double)(ended - begun);
}

/* The best of some rounds, in which the two sides take turns. */
static void work_report(struct crew crews[2], const struct work *work, size_t n_threads)
{
    double best[2] = {0, 0};
    char what[80];

    for (int r = 0; r < ROUNDS; r++) {
        for (int k = 0; k < 2; k++) {
            double now;

            crews[k].run = work->run[k];
            crews[k].n = work->n;
            now = rate_once(&crews[k], n_threads) * (double)work->n_each;
            best[k] = now > best[k] ? now : best[k];
        }
    }
    snprintf(what, sizeof what, "%s, %zu threads", work->what, n_threads);
    report_row(&(struct row){
        what, "k/s", best[1] / 1e3, best[0] / 1e3,
        n_threads >= work->budget_from ? BUDGET_AT_LEAST : BUDGET_NONE, work->budget});
}

void bench_cuda_threads(void *unused)
{
    static struct crew crews[2]; /* the driver's, ours */
    long n_cores = sysconf(_SC_NPROCESSORS_ONLN);
    const char *why = driver_start();
    char text[120];

    snprintf(text, sizeof text,
             "cuda: threads with streams of their own, %ld cores; limit: as many threads "
             "that call the driver",
             n_cores);
    report_section(text);
    if (why != NULL) {
        snprintf(text, sizeof text, "left out: %s", why);
        report_note(text);
        return;
    }
    cuda_library_start();
    for (int k = 0; k < 2; k++) {
        MUST((int)cu.cuCtxGetCurrent(&crews[k].context));
        for (size_t i = 0; i < THREADS_MAX; i++)
            own_open(&crews[k].own[i], k == 1);
    }
    for (size_t w = 0; w < sizeof works / sizeof works[0]; w++) {
        for (size_t n = 1; n <= THREADS_MAX; n *= 2)
            work_report(crews, &works[w], n);
    }
    for (size_t i = 0; i < THREADS_MAX; i++) {
        MUST(aclrtFree(crews[1].own[i].device));
        MUST(aclrtFreeHost(crews[1].own[i].host));
    }
    MUST(aclrtResetDevice(0));
    MUST(aclFinalize());
}
