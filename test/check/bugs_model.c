/* Captured models: memory that a replay finds gone, and replays that nothing orders. */
#include "bugs.h"

enum { SIZE = 4096 };

static aclmdlRI capture_copy(aclrtStream stream, void *dst, const void *src,
                             aclrtMemcpyKind kind)
{
    aclmdlRI model;

    MUST(aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
    MUST(aclrtMemcpyAsync(dst, SIZE, src, SIZE, kind, stream));
    MUST(aclmdlRICaptureEnd(stream, &model));
    return model;
}

/* A replay that may fail: the library finds no memory either. */
MISTAKE void replay(aclmdlRI model, aclrtStream stream)
{
    MUST(aclmdlRIExecuteAsync(model, stream));
    (void)aclrtSynchronizeStream(stream);
}

static void order(aclrtStream to, aclrtStream from)
{
    aclrtEvent event;

    MUST(aclrtCreateEventExWithFlag(&event, ACL_EVENT_SYNC));
    MUST(aclrtRecordEvent(event, from));
    MUST(aclrtStreamWaitEvent(to, event));
    MUST(aclrtDestroyEvent(event));
}

/* ---- memory that is gone ---- */

MISTAKE void free_block(void *block)
{
    MUST(aclrtFree(block));
}

static void block_freed(bool is_fixed)
{
    aclrtStream stream = stream_open();
    void *from = block_open(SIZE), *to = block_open(SIZE);
    aclmdlRI model = capture_copy(stream, to, from, ACL_MEMCPY_DEVICE_TO_DEVICE);

    replay(model, stream);
    if (!is_fixed) {
        free_block(from);
        replay(model, stream);
    }
    MUST(aclmdlRIDestroy(model));
    if (is_fixed)
        free_block(from);
    MUST(aclrtFree(to));
    MUST(aclrtDestroyStream(stream));
}

/* The source was never written, but nothing shows that its bytes leave the device. */
static void target_freed(bool is_fixed)
{
    aclrtStream stream = stream_open();
    void *from, *to;
    aclmdlRI model;

    MUST(aclrtMalloc(&from, SIZE, ACL_MEM_MALLOC_HUGE_FIRST));
    MUST(aclrtMalloc(&to, SIZE, ACL_MEM_MALLOC_HUGE_FIRST));
    model = capture_copy(stream, to, from, ACL_MEMCPY_DEVICE_TO_DEVICE);
    if (!is_fixed)
        free_block(to);
    replay(model, stream);
    MUST(aclmdlRIDestroy(model));
    if (is_fixed)
        free_block(to);
    MUST(aclrtFree(from));
    MUST(aclrtDestroyStream(stream));
}

/* The addresses show memory again, but not the memory of the capture. */
static void block_reused(bool is_fixed)
{
    aclrtStream stream = stream_open();
    void *from = block_open(8 * MIB), *to = block_open(SIZE), *more[512];
    aclmdlRI model = capture_copy(stream, to, from, ACL_MEMCPY_DEVICE_TO_DEVICE);
    unsigned n = 0;

    if (!is_fixed)
        free_block(from);
    while (!is_fixed && n < 512) { /* until an allocation has the addresses */
        more[n] = block_open(8 * MIB);
        if (more[n++] == from)
            break;
    }
    replay(model, stream);
    MUST(aclmdlRIDestroy(model));
    while (n > 0)
        MUST(aclrtFree(more[--n]));
    if (is_fixed)
        free_block(from);
    MUST(aclrtFree(to));
    MUST(aclrtDestroyStream(stream));
}

MISTAKE void unmap_chunk(void *va)
{
    MUST(aclrtUnmapMem(va));
}

/* Sleep without wake; mapped again it is right. */
static void mapping_gone(bool is_fixed)
{
    aclrtStream stream = stream_open();
    struct chunk chunk = chunk_open();
    void *to = block_open(SIZE);
    aclmdlRI model = capture_copy(stream, to, chunk.va, ACL_MEMCPY_DEVICE_TO_DEVICE);

    unmap_chunk(chunk.va);
    if (is_fixed)
        MUST(aclrtMapMem(chunk.va, CHUNK, 0, chunk.handle, 0));
    replay(model, stream);
    if (!is_fixed)
        MUST(aclrtMapMem(chunk.va, CHUNK, 0, chunk.handle, 0));
    MUST(aclmdlRIDestroy(model));
    chunk_close(chunk);
    MUST(aclrtFree(to));
    MUST(aclrtDestroyStream(stream));
}

MISTAKE void free_pinned(void *host)
{
    MUST(aclrtFreeHost(host));
}

static void pinned_freed(bool is_fixed)
{
    aclrtStream stream = stream_open();
    void *host = host_open(SIZE), *to = block_open(SIZE);
    aclmdlRI model = capture_copy(stream, to, host, ACL_MEMCPY_HOST_TO_DEVICE);

    if (!is_fixed)
        free_pinned(host);
    replay(model, stream);
    MUST(aclmdlRIDestroy(model));
    if (is_fixed)
        free_pinned(host);
    MUST(aclrtFree(to));
    MUST(aclrtDestroyStream(stream));
}

/* Freed while the replay may still run; the model reads the end of the block. */
static void freed_while_running(bool is_fixed)
{
    aclrtStream stream = stream_open();
    char *from = block_open(2 * SIZE);
    void *to = block_open(SIZE);
    aclmdlRI model = capture_copy(stream, to, from + SIZE, ACL_MEMCPY_DEVICE_TO_DEVICE);

    MUST(aclmdlRIExecuteAsync(model, stream));
    if (is_fixed)
        MUST(aclrtSynchronizeStream(stream));
    free_block(from);
    (void)aclrtSynchronizeStream(stream);
    MUST(aclmdlRIDestroy(model));
    MUST(aclrtFree(to));
    MUST(aclrtDestroyStream(stream));
}

/* ---- order ---- */

MISTAKE void execute_on(aclmdlRI model, aclrtStream stream)
{
    MUST(aclmdlRIExecuteAsync(model, stream));
}

static void two_models(bool is_fixed)
{
    aclrtStream first = stream_open(), second = stream_open();
    void *from = block_open(SIZE), *shared = block_open(SIZE), *to = block_open(SIZE);
    aclmdlRI writes = capture_copy(first, shared, from, ACL_MEMCPY_DEVICE_TO_DEVICE);
    aclmdlRI reads = capture_copy(second, to, shared, ACL_MEMCPY_DEVICE_TO_DEVICE);

    execute_on(writes, first);
    if (is_fixed)
        order(second, first);
    execute_on(reads, second);
    MUST(aclrtSynchronizeDevice());
    MUST(aclmdlRIDestroy(writes));
    MUST(aclmdlRIDestroy(reads));
    MUST(aclrtFree(from));
    MUST(aclrtFree(shared));
    MUST(aclrtFree(to));
    MUST(aclrtDestroyStream(first));
    MUST(aclrtDestroyStream(second));
}

/* Both models were captured on one stream, and are replayed on two. */
static void two_models_of_a_stream(bool is_fixed)
{
    aclrtStream first = stream_open(), second = stream_open();
    void *from = block_open(SIZE), *to = block_open(SIZE);
    aclmdlRI one = capture_copy(first, to, from, ACL_MEMCPY_DEVICE_TO_DEVICE);
    aclmdlRI two = capture_copy(first, to, from, ACL_MEMCPY_DEVICE_TO_DEVICE);

    execute_on(one, first);
    execute_on(two, is_fixed ? first : second);
    MUST(aclrtSynchronizeDevice());
    MUST(aclmdlRIDestroy(one));
    MUST(aclmdlRIDestroy(two));
    MUST(aclrtFree(from));
    MUST(aclrtFree(to));
    MUST(aclrtDestroyStream(first));
    MUST(aclrtDestroyStream(second));
}

MISTAKE void set_on(aclrtStream stream, void *block)
{
    MUST(aclrtMemsetAsync(block, SIZE, 1, SIZE, stream));
}

/* Inside of one model: the second stream joined, but not behind the first write. */
static void inside_a_model(bool is_fixed)
{
    aclrtStream stream = stream_open(), side = stream_open();
    void *block = block_open(SIZE);
    aclmdlRI model;

    MUST(aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
    if (!is_fixed)
        order(side, stream);
    set_on(stream, block);
    if (is_fixed)
        order(side, stream);
    set_on(side, block);
    order(stream, side);
    MUST(aclmdlRICaptureEnd(stream, &model));
    MUST(aclmdlRIExecuteAsync(model, stream));
    MUST(aclrtSynchronizeStream(stream));
    MUST(aclmdlRIDestroy(model));
    MUST(aclrtFree(block));
    MUST(aclrtDestroyStream(stream));
    MUST(aclrtDestroyStream(side));
}

static void model_and_stream(bool is_fixed)
{
    aclrtStream stream = stream_open(), other = stream_open();
    void *from = block_open(SIZE), *to = block_open(SIZE);
    aclmdlRI model = capture_copy(stream, to, from, ACL_MEMCPY_DEVICE_TO_DEVICE);

    execute_on(model, stream);
    set_on(is_fixed ? stream : other, to);
    MUST(aclrtSynchronizeDevice());
    MUST(aclmdlRIDestroy(model));
    MUST(aclrtFree(from));
    MUST(aclrtFree(to));
    MUST(aclrtDestroyStream(stream));
    MUST(aclrtDestroyStream(other));
}

MISTAKE void write_pinned(char *host)
{
    memset(host, 1, 16);
}

static void nothing(void *arg)
{
}

/* The program writes pinned memory that a running model reads. */
static void pinned_touched(bool is_fixed)
{
    aclrtStream stream = stream_open();
    char *host = host_open(64 * 1024);
    void *to = block_open(64 * 1024);
    aclmdlRI model = capture_copy(stream, to, host, ACL_MEMCPY_HOST_TO_DEVICE);

    MUST(aclrtLaunchHostFunc(stream, nothing, NULL));
    execute_on(model, stream);
    if (is_fixed)
        MUST(aclrtSynchronizeStream(stream));
    write_pinned(host);
    MUST(aclrtSynchronizeStream(stream));
    MUST(aclmdlRIDestroy(model));
    MUST(aclrtFree(to));
    MUST(aclrtFreeHost(host));
    MUST(aclrtDestroyStream(stream));
}

/* ---- work that did not run, models that stay ---- */

MISTAKE void read_result(void *host, const void *block, size_t size)
{
    MUST(aclrtMemcpy(host, size, block, size, ACL_MEMCPY_DEVICE_TO_HOST));
}

/* The side stream joined the capture; its work, on the end of the block, waits for a replay. */
static void joined_stream(bool is_fixed)
{
    aclrtStream stream = stream_open(), side = stream_open();
    char *block = block_open(2 * SIZE), *host = host_open(2 * SIZE);
    aclmdlRI model;

    MUST(aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
    order(side, stream);
    set_on(side, block + SIZE);
    order(stream, side);
    MUST(aclmdlRICaptureEnd(stream, &model));
    if (is_fixed) {
        MUST(aclmdlRIExecuteAsync(model, stream));
        MUST(aclrtSynchronizeStream(stream));
    }
    MUST(aclrtSynchronizeStream(side));
    read_result(host, block, 2 * SIZE);
    MUST(aclmdlRIDestroy(model));
    MUST(aclrtFree(block));
    MUST(aclrtFreeHost(host));
    MUST(aclrtDestroyStream(stream));
    MUST(aclrtDestroyStream(side));
}

MISTAKE void begin_capture(aclrtStream stream)
{
    MUST(aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
}

MISTAKE void wait_inside(aclrtStream stream)
{
    (void)aclrtSynchronizeStream(stream);
}

/* The capture is over; a program that looks only at the end does not know why. */
static void waited_inside(bool is_fixed)
{
    aclrtStream stream = stream_open();
    aclmdlRI model;

    begin_capture(stream);
    if (!is_fixed)
        wait_inside(stream);
    if (aclmdlRICaptureEnd(stream, &model) == ACL_SUCCESS)
        MUST(aclmdlRIDestroy(model));
    if (is_fixed)
        wait_inside(stream);
    MUST(aclrtDestroyStream(stream));
}

/* The first stream ends before its capture; the refused call behind it is of another stream. */
static void origin_destroyed(bool is_fixed)
{
    aclrtStream stream = stream_open(), other = stream_open();
    aclmdlRI model;

    begin_capture(stream);
    if (is_fixed) {
        MUST(aclmdlRICaptureEnd(stream, &model));
        MUST(aclmdlRIDestroy(model));
    }
    MUST(aclrtDestroyStream(stream));
    (void)aclmdlRICaptureEnd(other, &model);
    MUST(aclrtDestroyStream(other));
}

static void end_other(void *other)
{
    aclmdlRI model;

    (void)aclmdlRICaptureEnd(other, &model);
}

/* The end of another stream is refused while the first stream is destroyed. */
static void destroyed_meanwhile(bool is_fixed)
{
    aclrtStream stream = stream_open(), other = stream_open();
    aclmdlRICaptureStatus status;
    aclmdlRI model;

    begin_capture(stream);
    MUST(aclmdlRICaptureGetInfo(stream, &status, &model));
    MUST(aclmdlRIDestroyRegisterCallback(model, end_other, other));
    if (is_fixed) {
        MUST(aclmdlRICaptureEnd(stream, &model));
        MUST(aclmdlRIDestroy(model));
    }
    MUST(aclrtDestroyStream(stream));
    MUST(aclrtDestroyStream(other));
}

/* The side stream does not come back. */
static void not_joined(bool is_fixed)
{
    aclrtStream stream = stream_open(), side = stream_open();
    aclmdlRI model;
    void *block = block_open(SIZE);

    begin_capture(stream);
    order(side, stream);
    set_on(side, block);
    if (is_fixed)
        order(stream, side);
    if (aclmdlRICaptureEnd(stream, &model) == ACL_SUCCESS)
        MUST(aclmdlRIDestroy(model));
    MUST(aclrtFree(block));
    MUST(aclrtDestroyStream(stream));
    MUST(aclrtDestroyStream(side));
}

MISTAKE aclmdlRI capture_and_keep(aclrtStream stream)
{
    aclmdlRI model;

    MUST(aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
    MUST(aclmdlRICaptureEnd(stream, &model));
    return model;
}

static void never_destroyed(bool is_fixed)
{
    aclrtStream stream = stream_open();
    aclmdlRI model = capture_and_keep(stream);

    if (is_fixed)
        MUST(aclmdlRIDestroy(model));
    MUST(aclrtDestroyStream(stream));
}

MISTAKE void execute_dead(aclmdlRI model, aclrtStream stream)
{
    (void)aclmdlRIExecuteAsync(model, stream);
}

static void replayed_after_destroy(bool is_fixed)
{
    aclrtStream stream = stream_open();
    aclmdlRI model = capture_and_keep(stream);

    if (is_fixed)
        execute_dead(model, stream);
    MUST(aclmdlRIDestroy(model));
    if (!is_fixed)
        execute_dead(model, stream);
    MUST(aclrtDestroyStream(stream));
}

MISTAKE void update_dead(aclmdlRI model)
{
    (void)aclmdlRIUpdate(model);
}

static void updated_after_destroy(bool is_fixed)
{
    aclrtStream stream = stream_open();
    aclmdlRI model = capture_and_keep(stream);

    if (is_fixed)
        update_dead(model);
    MUST(aclmdlRIDestroy(model));
    if (!is_fixed)
        update_dead(model);
    MUST(aclrtDestroyStream(stream));
}

/* ---- branches of conditional tasks ---- */

struct branch {
    void *dst;
    const void *src;
};

/* A model that copies in a branch: with 1 in the first one, with 0 in the second one. */
static aclmdlRI capture_branches(aclrtStream stream, uint32_t value,
                                 const struct branch *branches, uint32_t n)
{
    const aclmdlRICaptureMode mode = ACL_MODEL_RI_CAPTURE_MODE_RELAXED;
    aclrtStream inside = stream_open();
    aclmdlRI model, children[2] = {NULL, NULL};
    aclmdlRICondTaskParams params = {
        .type = ACL_MODEL_RI_COND_TYPE_IF, .size = n, .modelRIArray = children};
    aclmdlRICaptureStatus status;

    MUST(aclmdlRICaptureBegin(stream, mode));
    MUST(aclmdlRICaptureGetInfo(stream, &status, &model));
    MUST(aclmdlRICondHandleCreate(model, value, ACL_MODEL_RI_COND_HANDLE_ASSIGN_DEFAULT,
                                  &params.handle));
    MUST(aclmdlRIAddCondTask(params, stream, 0));
    for (uint32_t i = 0; i < n; i++) {
        MUST(aclmdlRICaptureToModelRIBegin(inside, children[i], mode));
        MUST(aclrtMemcpyAsync(branches[i].dst, SIZE, branches[i].src, SIZE,
                              ACL_MEMCPY_DEVICE_TO_DEVICE, inside));
        MUST(aclmdlRICaptureEnd(inside, &children[i]));
    }
    MUST(aclmdlRICaptureEnd(stream, &model));
    MUST(aclrtDestroyStream(inside));
    return model;
}

static void freed_in_a_branch(bool is_fixed)
{
    aclrtStream stream = stream_open();
    void *from = block_open(SIZE), *to = block_open(SIZE);
    aclmdlRI model = capture_branches(stream, 1, &(struct branch){to, from}, 1);

    replay(model, stream);
    if (!is_fixed) {
        free_block(from);
        replay(model, stream);
    }
    MUST(aclmdlRIDestroy(model));
    if (is_fixed)
        free_block(from);
    MUST(aclrtFree(to));
    MUST(aclrtDestroyStream(stream));
}

static void race_with_a_branch(bool is_fixed)
{
    aclrtStream stream = stream_open(), other = stream_open();
    void *from = block_open(SIZE), *to = block_open(SIZE);
    aclmdlRI model = capture_branches(stream, 1, &(struct branch){to, from}, 1);

    MUST(aclmdlRIExecuteAsync(model, stream));
    if (is_fixed)
        order(other, stream);
    set_on(other, to);
    MUST(aclrtSynchronizeDevice());
    MUST(aclmdlRIDestroy(model));
    MUST(aclrtFree(from));
    MUST(aclrtFree(to));
    MUST(aclrtDestroyStream(stream));
    MUST(aclrtDestroyStream(other));
}

/* Two branches for one block, and work before and behind the conditional task. */
static void branches_right(bool is_fixed)
{
    aclrtStream stream = stream_open();
    void *from = block_open(SIZE), *other = block_open(SIZE), *to = block_open(SIZE);
    const struct branch branches[] = {{to, from}, {to, other}};

    for (uint32_t value = 0; value < 2; value++) {
        aclmdlRI model = capture_branches(stream, value, branches, 2);

        for (int i = 0; i < 3; i++) {
            set_on(stream, to);
            MUST(aclmdlRIExecuteAsync(model, stream));
            set_on(stream, to);
            set_on(stream, from);
        }
        MUST(aclrtSynchronizeStream(stream));
        MUST(aclmdlRIDestroy(model));
    }
    MUST(aclrtFree(from));
    MUST(aclrtFree(other));
    MUST(aclrtFree(to));
    MUST(aclrtDestroyStream(stream));
}

/* ---- right ---- */

static void count(void *arg)
{
    ++*(unsigned *)arg;
}

/* Sleep and wake between replays, host functions, two streams, events dropped inside. */
static void all_right(bool is_fixed)
{
    aclrtStream stream = stream_open(), side = stream_open();
    struct chunk chunk = chunk_open();
    void *to = block_open(SIZE);
    char *host = host_open(SIZE);
    unsigned n = 0;
    aclmdlRI model;

    MUST(aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
    MUST(aclrtMemcpyAsync(chunk.va, SIZE, host, SIZE, ACL_MEMCPY_HOST_TO_DEVICE, stream));
    order(side, stream);
    MUST(aclrtMemcpyAsync(to, SIZE, chunk.va, SIZE, ACL_MEMCPY_DEVICE_TO_DEVICE, side));
    MUST(aclrtLaunchHostFunc(side, count, &n));
    order(stream, side);
    MUST(aclrtMemcpyAsync(host, SIZE, to, SIZE, ACL_MEMCPY_DEVICE_TO_HOST, stream));
    MUST(aclmdlRICaptureEnd(stream, &model));
    for (int i = 0; i < 3; i++) {
        host[0] = (char)i;
        MUST(aclmdlRIExecuteAsync(model, stream));
        MUST(aclmdlRIExecuteAsync(model, stream));
        MUST(aclrtSynchronizeStream(stream));
        MUST(aclrtUnmapMem(chunk.va));
        MUST(aclrtMapMem(chunk.va, CHUNK, 0, chunk.handle, 0));
        MUST(aclmdlRIExecuteAsync(model, stream));
        MUST(aclrtSynchronizeStream(stream));
    }
    if (n != 9)
        exit(1);
    MUST(aclmdlRIDestroy(model));
    chunk_close(chunk);
    MUST(aclrtFree(to));
    MUST(aclrtFreeHost(host));
    MUST(aclrtDestroyStream(stream));
    MUST(aclrtDestroyStream(side));
}

/* A model writes a value; the memory is freed before the capture or behind it. */
static void value_freed(bool is_fixed, bool is_before)
{
    aclrtStream stream = stream_open();
    void *value = block_open(64);
    aclmdlRI model = NULL;

    if (is_before && !is_fixed)
        free_block(value);
    MUST(aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_RELAXED));
    (void)aclrtValueWrite(value, 1, 0, stream);
    (void)aclmdlRICaptureEnd(stream, &model);
    if (!is_before && !is_fixed)
        free_block(value);
    if (model != NULL) {
        replay(model, stream);
        MUST(aclmdlRIDestroy(model));
    }
    if (is_fixed)
        free_block(value);
    MUST(aclrtDestroyStream(stream));
}

static void value_freed_before(bool is_fixed)
{
    value_freed(is_fixed, true);
}

static void value_freed_behind(bool is_fixed)
{
    value_freed(is_fixed, false);
}

MISTAKE void destroy_notify(aclrtNotify notify)
{
    MUST(aclrtDestroyNotify(notify));
}

static void notify_destroyed_before(bool is_fixed)
{
    aclrtStream stream = stream_open();
    aclrtNotify notify;
    aclmdlRI model = NULL;

    MUST(aclrtCreateNotify(&notify, 0));
    if (!is_fixed)
        destroy_notify(notify);
    MUST(aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_RELAXED));
    (void)aclrtRecordNotify(notify, stream);
    (void)aclmdlRICaptureEnd(stream, &model);
    if (model != NULL)
        MUST(aclmdlRIDestroy(model));
    if (is_fixed)
        destroy_notify(notify);
    MUST(aclrtDestroyStream(stream));
}

/* The record orders what is in front of it in the model. */
static void notified_before_the_write(bool is_fixed)
{
    aclrtStream stream = stream_open(), side = stream_open();
    void *a = block_open(SIZE), *b = block_open(SIZE);
    aclrtNotify notify;
    aclmdlRI model;

    MUST(aclrtMemset(a, SIZE, 0, SIZE));
    MUST(aclrtCreateNotify(&notify, 0));
    MUST(aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_RELAXED));
    if (!is_fixed)
        MUST(aclrtRecordNotify(notify, stream));
    set_on(stream, a);
    if (is_fixed)
        MUST(aclrtRecordNotify(notify, stream));
    MUST(aclmdlRICaptureEnd(stream, &model));
    MUST(aclmdlRIExecuteAsync(model, stream));
    MUST(aclrtWaitAndResetNotify(notify, side, 0));
    MUST(aclrtMemcpyAsync(b, SIZE, a, SIZE, ACL_MEMCPY_DEVICE_TO_DEVICE, side));
    MUST(aclrtSynchronizeDevice());
    MUST(aclmdlRIDestroy(model));
    MUST(aclrtDestroyNotify(notify));
    MUST(aclrtFree(a));
    MUST(aclrtFree(b));
    MUST(aclrtDestroyStream(stream));
    MUST(aclrtDestroyStream(side));
}

const struct bug model_bugs[] = {
    BUG("model/block-freed", block_freed, "use-after-free", "what the model reads",
        "free_block"),
    BUG("model/target-freed", target_freed, "use-after-free", "what the model writes",
        "free_block", .options = "--check all"),
    BUG("model/block-reused", block_reused, "use-after-free",
        "was freed after the capture", "free_block"),
    BUG("model/mapping-gone", mapping_gone, "use-after-free", "was unmapped before",
        "unmap_chunk"),
    BUG("model/pinned-freed", pinned_freed, "use-after-free", "what the model reads",
        "free_pinned"),
    BUG("model/freed-while-running", freed_while_running, "free-in-use", "still reads it",
        "capture_copy"),
    BUG("model/two-models", two_models, "race", "nothing orders the two", "capture_copy"),
    BUG("model/two-of-a-stream", two_models_of_a_stream, "race",
        "which a model captured on stream", "capture_copy"),
    BUG("model-streams/inside", inside_a_model, "race", "nothing orders the two",
        "set_on"),
    BUG("model/and-stream", model_and_stream, "race", "nothing orders the two", "set_on"),
    BUG("model/value-freed-before", value_freed_before, "use-after-free",
        "devAddr is the block", "free_block"),
    BUG("model/value-freed", value_freed_behind, "use-after-free",
        "what the model writes", "free_block"),
    BUG("model/notify-destroyed", notify_destroyed_before, "stale-handle",
        "notify is notify", "destroy_notify"),
    BUG("model/notified-early", notified_before_the_write, "race",
        "nothing orders the two", "set_on"),
    BUG("model/pinned-touched", pinned_touched, "race.host", "", "write_pinned",
        .options = "--check all,no-uninit-read"),
    BUG("model/pinned-captured", pinned_touched, "race.host", "", "capture_copy",
        .options = "--check all,no-uninit-read"),
    BUG("model-streams/joined", joined_stream, "work-captured", "never ran",
        "read_result"),
    BUG("model/waited-inside", waited_inside, "capture-lost", "failed with 107027",
        "begin_capture"),
    BUG("model/origin-destroyed", origin_destroyed, "capture-lost",
        "ended, and the capture", "begin_capture"),
    BUG("model/destroyed-meanwhile", destroyed_meanwhile, "capture-lost",
        "ended, and the capture", "begin_capture"),
    BUG("model-streams/not-joined", not_joined, "capture-lost", "failed with 107025",
        "begin_capture"),
    BUG("model/never-destroyed", never_destroyed, "leak.model", "1 captured model",
        "capture_and_keep"),
    BUG("model/replayed-after-destroy", replayed_after_destroy, "stale-handle",
        "captured model", "execute_dead"),
    BUG("model/updated-after-destroy", updated_after_destroy, "stale-handle",
        "captured model", "update_dead"),
    BUG("model-branch/freed", freed_in_a_branch, "use-after-free", "what the model reads",
        "free_block"),
    BUG("model-branch/race", race_with_a_branch, "race", "nothing orders the two",
        "set_on"),
    BUG("model-branch/right", branches_right, "", "", ""),
    BUG("model-streams/right", all_right, "", "", ""),
    {.name = NULL},
};
