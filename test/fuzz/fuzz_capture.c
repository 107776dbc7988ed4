/*
 * Sequences of calls with captures in them, in an order chosen by a fuzzer.
 *
 * The calls take streams, events, models and other handles from small tables, alive, destroyed
 * or NULL, so most sequences contain mistakes.  A call that fails returns a code of the table
 * below and leaves a message.  Captures are ended where the fuzzer says so, streams are
 * destroyed and devices are reset under captures and executions.  Nothing waits for ever: no
 * task waits for a value or for an external event, and no condition is a loop.  At the end
 * each stream is an ordinary one, and nothing is left.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz/work.h"

enum { N_STREAMS = 4, N_EVENTS = 3, N_MODELS = 6, N_MEMORY = 3, SIZE = 256 };

static struct {
    aclrtStream streams[N_STREAMS + 1]; /* the last one stays NULL: the default stream */
    aclrtEvent events[N_EVENTS];
    aclmdlRI models[N_MODELS];
    char *memory[N_MEMORY]; /* the last one is pinned */
    aclrtTaskGrp group;
    aclmdlRICondHandle condition;
    unsigned n_calls;
} on;

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes);

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    setenv("ACLMEM_MEMORY", "64M", 1);
    setenv("ACLMEM_LOG", "error", 1);
    return 0;
}

/* Whether the call succeeded; otherwise it has a code that a document names, and a message. */
static bool tried(aclError rc, const char *what)
{
    static const aclError codes[] = {
        ACL_ERROR_INVALID_PARAM,
        ACL_ERROR_RT_PARAM_INVALID,
        ACL_ERROR_RT_INVALID_HANDLE,
        ACL_ERROR_RT_STREAM_ABORT,
        ACL_ERROR_RT_CAPTURE_DEPENDENCY,
        ACL_ERROR_RT_STREAM_UNJOINED,
        ACL_ERROR_RT_MODEL_CAPTURED,
        ACL_ERROR_RT_STREAM_CAPTURED,
        ACL_ERROR_RT_EVENT_CAPTURED,
        ACL_ERROR_RT_STREAM_NOT_CAPTURED,
        ACL_ERROR_RT_CAPTURE_MODE_NOT_SUPPORT,
        ACL_ERROR_RT_STREAM_CAPTURE_IMPLICIT,
        ACL_ERROR_STREAM_CAPTURE_CONFLICT,
        ACL_ERROR_STREAM_TASK_GROUP_STATUS,
        ACL_ERROR_STREAM_TASK_GROUP_INTR,
        ACL_ERROR_RT_STREAM_CAPTURE_UNMATCHED,
        ACL_ERROR_RT_MODEL_RUNNING,
        ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
        ACL_ERROR_RT_TASK_TYPE_NOT_SUPPORT,
        ACL_ERROR_RT_MODEL_EXECUTE,
        ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED,
    };

    if (rc == ACL_SUCCESS)
        return true;
    if (aclGetRecentErrMsg() == NULL)
        wrong("%s: %d without a message", what, rc);
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++)
        if (rc == codes[i])
            return false;
    wrong("%s: %d", what, rc);
}

#define TRY(call_) tried((call_), #call_)

static void *next_of(void *const *list, unsigned n)
{
    return list[next_to(n)];
}
#define STREAM next_of(on.streams, N_STREAMS + 1)
#define EVENT next_of(on.events, N_EVENTS)
#define MODEL next_of(on.models, N_MODELS)
#define MEMORY ((char *)next_of((void *const *)on.memory, N_MEMORY))

/* ---- the calls ---- */

static void count(void *arg)
{
    __atomic_fetch_add(&on.n_calls, 1, __ATOMIC_RELAXED);
}

static void capture(void)
{
    aclrtStream stream = STREAM;
    aclmdlRICaptureStatus status;
    aclmdlRI model = NULL, found = NULL;

    switch (next_to(5)) {
    case 0:
    case 1:
        TRY(aclmdlRICaptureBegin(stream, (aclmdlRICaptureMode)next_to(4)));
        break;
    case 2:
        TRY(aclmdlRICaptureToModelRIBegin(stream, MODEL,
                                          ACL_MODEL_RI_CAPTURE_MODE_RELAXED));
        break;
    default:
        TRY(aclmdlRICaptureGetInfo(stream, &status, &found));
        if (!TRY(aclmdlRICaptureEnd(stream, &model)))
            break;
        if (model != found)
            wrong("the end of a capture returns another model than the capture had");
        on.models[next_to(N_MODELS)] = model; /* another one may be lost */
    }
}

static void work_add(void)
{
    aclrtStream stream = STREAM;
    char *to = MEMORY, *from = MEMORY;

    switch (next_to(6)) {
    case 0:
        TRY(aclrtMemcpyAsync(to, SIZE, from, SIZE, ACL_MEMCPY_DEFAULT, stream));
        break;
    case 1:
        TRY(aclrtMemsetAsync(to, SIZE, 1, SIZE, stream));
        break;
    case 2:
        TRY(aclrtMemcpy2dAsync(to, 64, from, 64, 16, 4, ACL_MEMCPY_DEVICE_TO_DEVICE,
                               stream));
        break;
    case 3:
        TRY(aclrtLaunchHostFunc(stream, count, NULL));
        break;
    case 4:
        TRY(aclrtValueWrite(to, next_to(256), 0, stream));
        break;
    default:
        TRY(aclrtMemcpy(to, SIZE, from, SIZE, ACL_MEMCPY_DEVICE_TO_DEVICE));
    }
}

static void order(void)
{
    aclrtStream stream = STREAM;
    aclrtEvent event = EVENT;

    switch (next_to(6)) {
    case 0:
        TRY(aclrtResetEvent(event, stream));
        break;
    case 1:
        TRY(aclrtRecordEventWithFlag(event, stream, ACL_EVENT_RECORD_EXTERNAL));
        break;
    case 2:
    case 3:
        TRY(aclrtRecordEvent(event, stream));
        break;
    default:
        TRY(aclrtStreamWaitEvent(stream, event));
    }
}

static void wait_for(void)
{
    aclrtEventRecordedStatus recorded;
    aclrtStreamStatus status;

    switch (next_to(5)) {
    case 0:
        TRY(aclrtSynchronizeStream(STREAM));
        break;
    case 1:
        TRY(aclrtSynchronizeDevice());
        break;
    case 2:
        TRY(aclrtQueryEventStatus(EVENT, &recorded));
        break;
    case 3:
        TRY(aclrtStreamQuery(STREAM, &status));
        break;
    default:
        TRY(aclrtSynchronizeEvent(EVENT));
    }
}

static void model_use(void)
{
    aclmdlRI model = MODEL;
    aclmdlRITask tasks[64];
    aclrtStream streams[8];
    aclmdlRITaskParams params;
    uint32_t n = 8, n_tasks = 64;

    switch (next_to(6)) {
    case 0:
        TRY(aclmdlRIExecute(model, -1));
        break;
    case 1:
        TRY(aclmdlRIDestroy(model));
        break;
    case 2:
        if (TRY(aclmdlRIGetStreams(model, streams, &n)) && n > 0 &&
            aclmdlRIGetTasksByStream(streams[next_to(n)], tasks, &n_tasks) == 0 &&
            n_tasks > 0) {
            aclmdlRITask task = tasks[next_to(n_tasks)];

            TRY(aclmdlRITaskGetParams(task, &params));
            TRY(aclmdlRITaskDisable(task));
            TRY(aclmdlRIUpdate(model));
        }
        break;
    default:
        TRY(aclmdlRIExecuteAsync(model, STREAM));
    }
}

static void group_use(void)
{
    aclrtStream stream = STREAM;

    switch (next_to(4)) {
    case 0:
        TRY(aclmdlRICaptureTaskGrpBegin(stream));
        break;
    case 1:
        TRY(aclmdlRICaptureTaskGrpEnd(stream, &on.group));
        break;
    case 2:
        TRY(aclmdlRICaptureTaskUpdateBegin(stream, on.group));
        break;
    default:
        TRY(aclmdlRICaptureTaskUpdateEnd(stream));
    }
}

/* The children of an IF or a SWITCH replace models of the table. */
static void condition_use(void)
{
    aclrtStream stream = STREAM;
    unsigned n = 1 + next_to(2);
    aclmdlRICondTaskParams params = {.type = next_to(2) ? ACL_MODEL_RI_COND_TYPE_IF
                                                        : ACL_MODEL_RI_COND_TYPE_SWITCH,
                                     .size = n,
                                     .modelRIArray = &on.models[next_to(N_MODELS - 1)]};
    aclmdlRICaptureStatus status;
    aclmdlRI model = NULL;
    uint64_t *value = NULL;

    if (TRY(aclmdlRICaptureGetInfo(stream, &status, &model)) && model != NULL &&
        TRY(aclmdlRICondHandleCreate(model, next_to(3), next_to(2), &on.condition)))
        TRY(aclmdlRICondHandleGetCondPtr(on.condition, &value));
    params.handle = on.condition;
    TRY(aclmdlRIAddCondTask(params, stream, 0));
}

static void build(void)
{
    aclmdlRI *model = &on.models[next_to(N_MODELS)];
    aclrtStream stream = STREAM;

    switch (next_to(5)) {
    case 0:
        TRY(aclmdlRIBuildBegin(model, 0));
        break;
    case 1:
        TRY(aclmdlRIBindStream(*model, stream, ACL_MODEL_STREAM_FLAG_HEAD));
        break;
    case 2:
        TRY(aclmdlRIEndTask(*model, stream));
        break;
    case 3:
        TRY(aclmdlRIBuildEnd(*model, NULL));
        break;
    default:
        TRY(aclmdlRIUnbindStream(*model, stream));
    }
}

/* ---- what comes and goes ---- */

static void stream_make(unsigned i)
{
    TRY(aclrtCreateStreamWithConfig(&on.streams[i], 0,
                                    i % 2 == 0 ? 0 : ACL_STREAM_PERSISTENT));
}

static void memory_make(unsigned i)
{
    TRY(i == N_MEMORY - 1
            ? aclrtMallocHost((void **)&on.memory[i], SIZE)
            : aclrtMalloc((void **)&on.memory[i], SIZE, ACL_MEM_MALLOC_HUGE_FIRST));
}

static void objects_make(void)
{
    OK(aclrtSetDevice(0));
    for (unsigned i = 0; i < N_STREAMS; i++)
        stream_make(i);
    for (unsigned i = 0; i < N_EVENTS; i++)
        TRY(aclrtCreateEventExWithFlag(&on.events[i], ACL_EVENT_SYNC));
    for (unsigned i = 0; i < N_MEMORY; i++)
        memory_make(i);
}

static void replace(void)
{
    unsigned i = next_to(N_STREAMS), k = next_to(N_MEMORY);

    switch (next_to(8)) {
    case 0:
    case 1:
        TRY(next_to(2) ? aclrtDestroyStreamForce(on.streams[i])
                       : aclrtDestroyStream(on.streams[i]));
        stream_make(i);
        break;
    case 2:
        TRY(aclrtStreamAbort(on.streams[i]));
        break;
    case 3:
        TRY(aclrtDestroyEvent(on.events[i % N_EVENTS]));
        TRY(aclrtCreateEventExWithFlag(&on.events[i % N_EVENTS], ACL_EVENT_SYNC));
        break;
    case 4:
        OK(aclrtResetDeviceForce(0));
        OK(aclrtSetDevice(0));
        OK(aclrtFreeHost(on.memory[N_MEMORY - 1]));
        objects_make();
        break;
    default:
        TRY(k == N_MEMORY - 1 ? aclrtFreeHost(on.memory[k]) : aclrtFree(on.memory[k]));
        memory_make(k);
    }
}

static void end(void)
{
    aclmem_stats stats;

    OK(aclrtResetDeviceForce(0));
    OK(aclrtSetDevice(0));
    OK(aclrtFreeHost(on.memory[N_MEMORY - 1]));
    OK(aclrtSynchronizeDevice()); /* nothing is captured */
    OK(aclrtResetDevice(0));
    OK(aclmem_get_stats(&stats));
    if (stats.blocks + stats.host_blocks + stats.reservations + stats.views != 0)
        wrong("something is alive after everything was freed");
    OK(aclFinalize());
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes)
{
    static void (*const steps[])(void) = {
        capture,  capture,   capture,   work_add,  order,         order, order, work_add,
        wait_for, model_use, model_use, group_use, condition_use, build, build, replace};

    input_set(bytes, n_bytes);
    if (next_to(2))
        setenv("ACLMEM_CHAOS", "7", 1);
    else
        unsetenv("ACLMEM_CHAOS");
    memset(&on, 0, sizeof on);
    OK(aclInit(NULL));
    objects_make();
    while (!input_is_dry())
        steps[next_to(sizeof steps / sizeof steps[0])]();
    end();
    return 0;
}
