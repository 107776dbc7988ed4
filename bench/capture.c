/* Captured models: what a replay, a captured call and the query of allocators cost. */
#include <semaphore.h>
#include <stdlib.h>

#include "cuda.h"
#include "live.h"
#include "report.h"
#include "sections.h"

#define SMALL 4096
#define N_COPIES 64
#define N_QUEUED 256 /* calls between two synchronisations */
#define ROUNDS 31

struct scene {
    aclrtStream stream;
    char *device;
    char *host;
    aclmdlRI model;
    sem_t released; /* a host function waits for it */
    bool is_held;
    bool is_captured;
};

static void copy(struct scene *s, size_t i)
{
    char *dst = s->device + i % N_COPIES * SMALL;
    char *src = s->host + i % N_COPIES * SMALL;

    MUST(aclrtMemcpyAsync(dst, SMALL, src, SMALL, ACL_MEMCPY_HOST_TO_DEVICE, s->stream));
}

static void capture_open(struct scene *s)
{
    MUST(aclmdlRICaptureBegin(s->stream, ACL_MODEL_RI_CAPTURE_MODE_RELAXED));
    s->is_captured = true;
}

static void capture_close(struct scene *s)
{
    if (s->is_captured)
        MUST(aclmdlRICaptureEnd(s->stream, &s->model));
    s->is_captured = false;
}

static void scene_open(struct scene *s)
{
    const size_t size = (size_t)N_COPIES * SMALL;

    MUST(aclrtMalloc((void **)&s->device, size, ACL_MEM_MALLOC_HUGE_FIRST));
    MUST(aclrtMallocHost((void **)&s->host, size));
    MUST(aclrtMemset(s->host, size, 1, size));
    MUST(aclrtCreateStream(&s->stream));
    MUST_HOLD(sem_init(&s->released, 0, 0) == 0);
}

static void scene_close(struct scene *s)
{
    MUST(aclrtDestroyStream(s->stream));
    MUST(aclrtFree(s->device));
    MUST(aclrtFreeHost(s->host));
}

/* ---- a replay beside the calls ---- */

/* A scene with a model of all copies. */
static void model_open(struct scene *s)
{
    scene_open(s);
    capture_open(s);
    for (size_t i = 0; i < N_COPIES; i++)
        copy(s, i);
    capture_close(s);
}

static void model_close(struct scene *s)
{
    MUST(aclmdlRIDestroy(s->model));
    scene_close(s);
}

static void replay_run(void *arg, size_t n)
{
    struct scene *s = arg;

    while (n-- > 0) {
        MUST(aclmdlRIExecuteAsync(s->model, s->stream));
        MUST(aclrtSynchronizeStream(s->stream));
    }
}

static void issue_run(void *arg, size_t n)
{
    struct scene *s = arg;

    while (n-- > 0) {
        for (size_t i = 0; i < N_COPIES; i++)
            copy(s, i);
        MUST(aclrtSynchronizeStream(s->stream));
    }
}

static void replay_measure(const char *what, double budget)
{
    static struct scene ours, theirs;
    struct subject s[2] = {{.run = replay_run, .arg = &ours, .has_threads = true},
                           {.run = issue_run, .arg = &theirs, .has_threads = true}};

    model_open(&ours);
    scene_open(&theirs);
    measure(s, 2, ROUNDS);
    report_row(&(struct row){what, "ns", s[0].ns, s[1].ns, BUDGET_AT_MOST, budget});
    model_close(&ours);
    scene_close(&theirs);
}

/* ---- a replay beside a graph of the NVIDIA driver ---- */

struct graph {
    struct scene scene; /* whose memory the graph copies */
    CUstream stream;
    CUgraphExec exec;
};

static void graph_open(struct graph *g)
{
    CUgraph graph;

    scene_open(&g->scene);
    MUST((int)cu.cuStreamCreateWithPriority(&g->stream, CU_STREAM_NON_BLOCKING, 0));
    MUST((int)cu.cuStreamBeginCapture_v2(g->stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    for (size_t i = 0; i < N_COPIES; i++)
        MUST((int)cu.cuMemcpyAsync((CUdeviceptr)g->scene.device + i * SMALL,
                                   (CUdeviceptr)g->scene.host + i * SMALL, SMALL,
                                   g->stream));
    MUST((int)cu.cuStreamEndCapture(g->stream, &graph));
    MUST((int)cu.cuGraphInstantiateWithFlags(&g->exec, graph, 0));
    MUST((int)cu.cuGraphDestroy(graph));
}

static void graph_run(void *arg, size_t n)
{
    struct graph *g = arg;

    while (n-- > 0) {
        MUST((int)cu.cuGraphLaunch(g->exec, g->stream));
        MUST((int)cu.cuStreamSynchronize(g->stream));
    }
}

static void graph_close(struct graph *g)
{
    MUST((int)cu.cuGraphExecDestroy(g->exec));
    MUST((int)cu.cuStreamDestroy_v2(g->stream));
    scene_close(&g->scene);
}

static void graph_measure(void)
{
    static struct scene ours;
    static struct graph theirs;
    struct subject s[2] = {{.run = replay_run, .arg = &ours, .has_threads = true},
                           {.run = graph_run, .arg = &theirs, .has_threads = true}};

    model_open(&ours);
    graph_open(&theirs);
    measure(s, 2, ROUNDS);
    report_row(&(struct row){"replay 64 copies of 4 KB; limit: cuGraphLaunch of the same",
                             "ns", s[0].ns, s[1].ns, BUDGET_AT_MOST, 1.05});
    model_close(&ours);
    graph_close(&theirs);
}

/* ---- a captured call beside a queued one ---- */

static void captured_prepare(void *arg, size_t n)
{
    struct scene *s = arg;

    capture_close(s);
    if (s->model != NULL)
        MUST(aclmdlRIDestroy(s->model));
    s->model = NULL;
    capture_open(s);
}

static void stand(void *arg)
{
    while (sem_wait(arg) != 0)
        ;
}

static void release(struct scene *s)
{
    if (s->is_held)
        MUST_HOLD(sem_post(&s->released) == 0);
    s->is_held = false;
    MUST(aclrtSynchronizeStream(s->stream));
}

/* The stream has something to do, so that no call does its copy at once. */
static void queued_prepare(void *arg, size_t n)
{
    struct scene *s = arg;

    release(s);
    MUST(aclrtLaunchHostFunc(s->stream, stand, &s->released));
    s->is_held = true;
}

static void calls_run(void *arg, size_t n)
{
    while (n-- > 0)
        copy(arg, n);
}

static void call_measure(void)
{
    static struct scene ours, theirs;
    struct subject s[2] = {
        {.run = calls_run, .prepare = captured_prepare, .arg = &ours, .n = N_QUEUED},
        {.run = calls_run, .prepare = queued_prepare, .arg = &theirs, .n = N_QUEUED}};

    scene_open(&ours);
    scene_open(&theirs);
    measure(s, 2, ROUNDS);
    report_row(&(struct row){"capture a copy; limit: queue it", "ns", s[0].ns, s[1].ns,
                             BUDGET_AT_MOST, 1.5});
    capture_close(&ours);
    MUST(aclmdlRIDestroy(ours.model));
    release(&theirs);
    scene_close(&ours);
    scene_close(&theirs);
}

/* ---- the query of allocators ---- */

static void query_run(void *arg, size_t n)
{
    struct scene *s = arg;
    aclmdlRICaptureStatus status;
    aclmdlRI model;

    while (n-- > 0)
        MUST(aclmdlRICaptureGetInfo(s->stream, &status, &model));
}

static void query_measure(void)
{
    static struct scene plain, captured;
    struct subject s[2] = {{.run = query_run, .arg = &plain},
                           {.run = query_run, .arg = &captured}};

    scene_open(&plain);
    scene_open(&captured);
    capture_open(&captured);
    measure(s, 2, ROUNDS);
    report_row(&(struct row){"aclmdlRICaptureGetInfo, no capture; limit: 30 ns", "ns",
                             s[0].ns, 30, BUDGET_AT_MOST, 1});
    report_row(&(struct row){"aclmdlRICaptureGetInfo, in a capture; limit: 30 ns", "ns",
                             s[1].ns, 30, BUDGET_AT_MOST, 1});
    capture_close(&captured);
    MUST(aclmdlRIDestroy(captured.model));
    scene_close(&plain);
    scene_close(&captured);
}

void bench_capture(void *unused)
{
    library_start(true);
    report_section("captured models");
    replay_measure("replay 64 copies of 4 KB, waited for; limit: issue them", 0.6);
    call_measure();
    query_measure();
    library_stop();
}

void bench_cuda_capture(void *unused)
{
    const char *why = driver_start();

    report_section("cuda: captured models");
    if (why != NULL) {
        report_note("left out: no GPU");
        return;
    }
    cuda_library_start();
    replay_measure("replay 64 copies of 4 KB, waited for; limit: issue them", 0.8);
    if (cu.cuGraphInstantiateWithFlags != NULL)
        graph_measure();
    else
        report_note("left out: the driver is older than CUDA 11.4");
    MUST(aclrtResetDevice(0));
    MUST(aclFinalize());
}
