/* Models that records and waits order with work outside: the host waits for one side only. */
#include "legal.h"

#define SIZE ((size_t)4096)
#define ROUNDS 3

static struct {
    aclrtStream inside, outside;
    void *block, *target;
    aclrtNotify notify;
} t;

static void begin(void)
{
    t.inside = stream_open();
    t.outside = stream_open();
    t.block = block_open(SIZE);
    t.target = host_open(SIZE);
    MUST(aclrtCreateNotify(&t.notify, 0));
}

static void block_set(aclrtStream stream)
{
    MUST(aclrtMemsetAsync(t.block, SIZE, 1, SIZE, stream));
}

static void block_read(aclrtStream stream)
{
    MUST(aclrtMemcpyAsync(t.target, SIZE, t.block, SIZE, ACL_MEMCPY_DEVICE_TO_HOST,
                          stream));
}

/* The block is freed before the other stream is waited for. */
static void end(aclmdlRI model)
{
    MUST(aclrtFree(t.block));
    MUST(aclrtSynchronizeDevice());
    MUST(aclrtFreeHost(t.target));
    MUST(aclmdlRIDestroy(model));
    MUST(aclrtDestroyNotify(t.notify));
    MUST(aclrtDestroyStream(t.inside));
    MUST(aclrtDestroyStream(t.outside));
}

static void capture_begin(void)
{
    MUST(aclmdlRICaptureBegin(t.inside, ACL_MODEL_RI_CAPTURE_MODE_RELAXED));
}

static aclmdlRI capture_end(void)
{
    aclmdlRI model;

    MUST(aclmdlRICaptureEnd(t.inside, &model));
    return model;
}

/* The model records the notify behind its writes, so the read is behind them. */
static void read_behind_replay(aclmdlRI model)
{
    MUST(aclmdlRIExecuteAsync(model, t.inside));
    MUST(aclrtWaitAndResetNotify(t.notify, t.outside, 0));
    block_read(t.outside);
    MUST(aclrtSynchronizeStream(t.outside));
}

static void notify_that_a_model_records(bool is_fixed)
{
    aclmdlRI model;

    begin();
    capture_begin();
    block_set(t.inside);
    MUST(aclrtRecordNotify(t.notify, t.inside));
    model = capture_end();
    for (int i = 0; i < ROUNDS; i++)
        read_behind_replay(model);
    end(model);
}

/* The record is queued before a replay, or after it. */
static void notify_that_a_model_waits_for(bool is_fixed)
{
    aclmdlRI model;

    begin();
    capture_begin();
    MUST(aclrtWaitAndResetNotify(t.notify, t.inside, 0));
    block_read(t.inside);
    model = capture_end();
    for (int i = 0; i < ROUNDS; i++) {
        if (i > 0)
            MUST(aclmdlRIExecuteAsync(model, t.inside));
        block_set(t.outside);
        MUST(aclrtRecordNotify(t.notify, t.outside));
        if (i == 0)
            MUST(aclmdlRIExecuteAsync(model, t.inside));
        MUST(aclrtSynchronizeStream(t.inside));
    }
    end(model);
}

static void notify_between_models(bool is_fixed)
{
    aclmdlRI model, other;

    begin();
    capture_begin();
    block_set(t.inside);
    MUST(aclrtRecordNotify(t.notify, t.inside));
    model = capture_end();
    capture_begin();
    MUST(aclrtWaitAndResetNotify(t.notify, t.inside, 0));
    block_read(t.inside);
    other = capture_end();
    MUST(aclmdlRIExecuteAsync(other, t.outside));
    MUST(aclmdlRIExecuteAsync(model, t.inside));
    MUST(aclrtSynchronizeStream(t.outside));
    end(model);
    MUST(aclmdlRIDestroy(other));
}

static void model_waits_for_event(aclrtEvent event, uint32_t flag)
{
    aclmdlRI model;

    begin();
    capture_begin();
    MUST(aclrtStreamWaitEventWithFlag(t.inside, event, 0, flag));
    block_read(t.inside);
    model = capture_end();
    for (int i = 0; i < ROUNDS; i++) {
        block_set(t.outside);
        MUST(aclrtRecordEvent(event, t.outside));
        MUST(aclmdlRIExecute(model, -1));
    }
    end(model);
    MUST(aclrtDestroyEvent(event));
}

static void event_that_a_model_waits_for(bool is_fixed)
{
    aclrtEvent event;

    MUST(aclrtCreateEventWithFlag(&event, ACL_EVENT_EXTERNAL));
    model_waits_for_event(event, ACL_EVENT_WAIT_DEFAULT);
    MUST(aclrtCreateEventExWithFlag(&event, ACL_EVENT_SYNC));
    model_waits_for_event(event, ACL_EVENT_WAIT_EXTERNAL);
}

static void event_that_a_model_records(bool is_fixed)
{
    aclrtEvent event;
    aclmdlRI model;

    MUST(aclrtCreateEventWithFlag(&event, ACL_EVENT_EXTERNAL));
    begin();
    capture_begin();
    block_set(t.inside);
    MUST(aclrtRecordEvent(event, t.inside));
    model = capture_end();
    MUST(aclmdlRIExecuteAsync(model, t.inside));
    MUST(aclrtStreamWaitEvent(t.outside, event));
    block_read(t.outside);
    MUST(aclrtSynchronizeStream(t.outside));
    end(model);
    MUST(aclrtDestroyEvent(event));
}

/* A branch that runs records the notify. */
static void notify_of_a_branch(bool is_fixed)
{
    aclmdlRI model, child = NULL;
    aclmdlRICondTaskParams params = {
        .type = ACL_MODEL_RI_COND_TYPE_IF, .size = 1, .modelRIArray = &child};
    aclmdlRICaptureStatus status;

    begin();
    capture_begin();
    MUST(aclmdlRICaptureGetInfo(t.inside, &status, &model));
    MUST(aclmdlRICondHandleCreate(model, 1, ACL_MODEL_RI_COND_HANDLE_ASSIGN_DEFAULT,
                                  &params.handle));
    MUST(aclmdlRIAddCondTask(params, t.inside, 0));
    MUST(aclmdlRICaptureToModelRIBegin(t.outside, child,
                                       ACL_MODEL_RI_CAPTURE_MODE_RELAXED));
    block_set(t.outside);
    MUST(aclrtRecordNotify(t.notify, t.outside));
    MUST(aclmdlRICaptureEnd(t.outside, &child));
    model = capture_end();
    read_behind_replay(model);
    end(model);
}

/* A model of aclmdlRIBuildBegin records a notify that other work waits for. */
static void notify_of_a_built_model(bool is_fixed)
{
    aclrtStream bound;
    aclmdlRI model;

    begin();
    MUST(aclrtCreateStreamWithConfig(&bound, 0, ACL_STREAM_PERSISTENT));
    MUST(aclmdlRIBuildBegin(&model, 0));
    MUST(aclmdlRIBindStream(model, bound, ACL_MODEL_STREAM_FLAG_HEAD));
    block_set(bound);
    MUST(aclrtRecordNotify(t.notify, bound));
    MUST(aclmdlRIEndTask(model, bound));
    MUST(aclmdlRIBuildEnd(model, NULL));
    MUST(aclrtMemcpyAsync(t.block, SIZE / 2, t.target, SIZE / 2,
                          ACL_MEMCPY_HOST_TO_DEVICE, t.inside));
    read_behind_replay(model);
    block_read(t.outside); /* all of it was written */
    MUST(aclrtSynchronizeStream(t.outside));
    MUST(aclmdlRIUnbindStream(model, bound));
    end(model);
    MUST(aclrtDestroyStream(bound));
}

/* The host reads the value after an execution; other bytes of the block were written before. */
static void value_of_a_built_model(bool is_fixed)
{
    aclrtStream bound;
    aclmdlRI model;

    begin();
    MUST(aclrtCreateStreamWithConfig(&bound, 0, ACL_STREAM_PERSISTENT));
    MUST(aclmdlRIBuildBegin(&model, 0));
    MUST(aclmdlRIBindStream(model, bound, ACL_MODEL_STREAM_FLAG_HEAD));
    MUST(aclrtValueWrite(t.block, 1, 0, bound));
    MUST(aclmdlRIEndTask(model, bound));
    MUST(aclmdlRIBuildEnd(model, NULL));
    MUST(aclrtMemset((char *)t.block + 8, SIZE - 8, 1, SIZE - 8));
    MUST(aclmdlRIExecuteAsync(model, t.inside));
    MUST(aclrtSynchronizeStream(t.inside));
    block_read(t.inside);
    MUST(aclrtSynchronizeStream(t.inside));
    MUST(aclmdlRIUnbindStream(model, bound));
    end(model);
    MUST(aclrtDestroyStream(bound));
}

/* The library refuses the free on a bound stream, so the block lives, and is freed behind. */
static void refused_free_of_a_built_model(bool is_fixed)
{
    aclrtMemPoolProps props = {.location = {.type = ACL_MEM_LOCATION_TYPE_DEVICE},
                               .maxSize = 64 * SIZE};
    aclrtMemPool pool;
    aclrtStream bound;
    aclmdlRI model;
    void *block;

    begin();
    MUST(aclrtMemPoolCreate(&pool, &props));
    MUST(aclrtMemPoolMallocAsync(&block, SIZE, pool, t.outside));
    MUST(aclrtSynchronizeStream(t.outside));
    MUST(aclrtCreateStreamWithConfig(&bound, 0, ACL_STREAM_PERSISTENT));
    MUST(aclmdlRIBuildBegin(&model, 0));
    MUST(aclmdlRIBindStream(model, bound, ACL_MODEL_STREAM_FLAG_HEAD));
    (void)aclrtMemPoolFreeAsync(block, bound);
    MUST(aclmdlRIEndTask(model, bound));
    MUST(aclmdlRIBuildEnd(model, NULL));
    MUST(aclrtMemPoolFreeAsync(block, t.outside));
    MUST(aclrtSynchronizeStream(t.outside));
    MUST(aclrtMemPoolDestroy(pool));
    MUST(aclmdlRIUnbindStream(model, bound));
    end(model);
    MUST(aclrtDestroyStream(bound));
}

const struct bug legal_models[] = {
    LEGAL("notify_that_a_model_records", notify_that_a_model_records),
    LEGAL("notify_that_a_model_waits_for", notify_that_a_model_waits_for),
    LEGAL("notify_between_models", notify_between_models),
    LEGAL("event_that_a_model_waits_for", event_that_a_model_waits_for),
    LEGAL("event_that_a_model_records", event_that_a_model_records),
    LEGAL("notify_of_a_branch", notify_of_a_branch),
    LEGAL("notify_of_a_built_model", notify_of_a_built_model),
    LEGAL("value_of_a_built_model", value_of_a_built_model),
    LEGAL("refused_free_of_a_built_model", refused_free_of_a_built_model),
    {.name = NULL},
};
