/*
 * What the layer trace leaves in its file: everything that was called, whatever ends the
 * process.  Calls are made by children; this process only reads.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "acl/acl.h"
#include "support/fault.h"
#include "support/process.h"
#include "trace/reader.h"

static char path[] = "/tmp/aclmem-test-trace-XXXXXX";
static int ready[2]; /* a child writes a byte when it has done what is waited for */

#define CHILD_CHECK(condition_) \
    do { \
        if (!(condition_)) { \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition_); \
            _exit(1); \
        } \
    } while (0)

static pid_t child_start(void (*run)(void *arg), void *arg)
{
    pid_t child;

    fflush(NULL);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        setenv("ACLMEM_LAYERS", "trace", 1);
        setenv("ACLMEM_TRACE", path, 1);
        setenv("ACLMEM_MEMORY", "1G", 1);
        close(ready[0]);
        run(arg);
        exit(0);
    }
    return child;
}

static int child_wait(pid_t child)
{
    int status;

    while (waitpid(child, &status, 0) < 0)
        assert_int_equal(errno, EINTR);
    return status;
}

static void child_run(void (*run)(void *arg), void *arg)
{
    assert_int_equal(child_wait(child_start(run, arg)), 0);
}

static struct trace *opened(void)
{
    char why[TRACE_WHY_SIZE];
    struct trace *trace = trace_open(path, why);

    if (trace == NULL)
        fail_msg("%s", why);
    return trace;
}

static bool is_call_of(const struct trace_event *event, const char *name)
{
    return event->function != NULL && strcmp(event->function->name, name) == 0;
}

/* The next call of a function; fails if there is no further call. */
static void find(struct trace *trace, const char *name, struct trace_event *ret_event)
{
    while (trace_next(trace, ret_event)) {
        if (is_call_of(ret_event, name))
            return;
    }
    fail_msg("no call of %s", name);
}

/* ---- calls that can be distinguished ---- */

/* Calls n times, each with its own number: sizes count up from `first`. */
static void count_up(uint32_t first, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        aclrtMemFlush(NULL, first + i);
}

/* The sizes of a thread's calls count up without a gap; how many there are. */
static uint64_t count_read(uint32_t wanted_thread)
{
    struct trace *trace = opened();
    struct trace_event event;
    uint32_t thread = 0;
    uint64_t n = 0;

    while (trace_next(trace, &event)) {
        if (!is_call_of(&event, "aclrtMemFlush"))
            continue;
        if (thread == 0 && (wanted_thread == 0 || event.thread == wanted_thread))
            thread = event.thread;
        if (event.thread != thread)
            continue;
        assert_int_equal(trace_number(&event, "size"), n);
        n++;
    }
    assert_int_equal(trace_about(trace)->n_damaged, 0);
    trace_close(trace);
    return n;
}

static void child_counts(void *arg)
{
    CHILD_CHECK(aclInit(NULL) == ACL_SUCCESS);
    count_up(0, *(uint32_t *)arg);
    CHILD_CHECK(aclFinalize() == ACL_SUCCESS);
}

static void every_call_is_in_the_trace_in_order(void **state)
{
    uint32_t n = 50000; /* many chunks: most are compressed */
    struct trace *trace;

    child_run(child_counts, &n);
    assert_int_equal(count_read(0), n);
    trace = opened();
    /* Chunks are compressed as far as the packer comes beside the calls, on a busy machine none. */
    assert_true(trace_about(trace)->size < n * 48);
    assert_int_equal(trace_about(trace)->n_lost, 0);
    trace_close(trace);
}

/* ---- values ---- */

static void child_values(void *arg)
{
    aclrtPhysicalMemProp prop = {.memAttr = ACL_HBM_MEM_NORMAL,
                                 .location = {1, ACL_MEM_LOCATION_TYPE_DEVICE}};
    aclrtDrvMemHandle handle;
    float ms;
    void *va;

    CHILD_CHECK(aclInit(NULL) == ACL_SUCCESS);
    CHILD_CHECK(aclrtSetDevice(1) == ACL_SUCCESS);
    CHILD_CHECK(aclrtMallocPhysical(&handle, 2 << 20, &prop, 0) == ACL_SUCCESS);
    CHILD_CHECK(aclrtReserveMemAddress(&va, 4 << 20, 0, NULL, 1) == ACL_SUCCESS);
    CHILD_CHECK(aclrtMapMem(va, 2 << 20, 0, handle, 0) == ACL_SUCCESS);
    CHILD_CHECK(aclrtMapMem(va, 2 << 20, 1, handle, 0) != ACL_SUCCESS);
    aclrtMallocPhysical(NULL, 5, NULL, 0);
    aclrtEventElapsedTime(&ms, NULL, NULL);
    CHILD_CHECK(write(ready[1], &va, sizeof va) == sizeof va);
    CHILD_CHECK(write(ready[1], &handle, sizeof handle) == sizeof handle);
    aclFinalize();
}

static void arguments_results_and_structs_are_what_they_were(void **state)
{
    struct trace *trace;
    struct trace_event event;
    uint64_t va;
    uint64_t handle;
    uint32_t id;

    child_run(child_values, NULL);
    assert_int_equal(read(ready[0], &va, sizeof va), sizeof va);
    assert_int_equal(read(ready[0], &handle, sizeof handle), sizeof handle);
    trace = opened();
    find(trace, "aclrtMallocPhysical", &event);
    assert_int_equal(event.result, 0);
    assert_true(event.begin <= event.end && event.stack != 0);
    assert_int_equal(trace_number(&event, "handle"), handle);
    assert_int_equal(trace_number(&event, "size"), 2 << 20);
    assert_int_equal(trace_arg(&event, "prop")->size, sizeof(aclrtPhysicalMemProp));
    memcpy(&id,
           trace_arg(&event, "prop")->bytes + offsetof(aclrtPhysicalMemProp, location.id),
           sizeof id);
    assert_int_equal(id, 1);
    find(trace, "aclrtReserveMemAddress", &event);
    assert_int_equal(trace_number(&event, "virPtr"), va);
    find(trace, "aclrtMapMem", &event);
    assert_int_equal(trace_number(&event, "virPtr"), va);
    assert_int_equal(trace_number(&event, "handle"), handle);
    find(trace, "aclrtMapMem", &event);
    assert_int_not_equal(event.result, 0);
    assert_non_null(trace_code(trace, event.result));
    find(trace, "aclrtMallocPhysical", &event);
    assert_true(trace_arg(&event, "handle")->is_null &&
                trace_arg(&event, "prop")->is_null);
    find(trace, "aclrtEventElapsedTime", &event);
    assert_false(trace_arg(&event, "ms")->item != NULL); /* it failed: no result */
    find(trace, "aclFinalize", &event);
    trace_close(trace);
}

static void child_batch(void *arg)
{
    size_t sizes[3] = {16, 32, 48};
    char from[3][48];
    void *src[3] = {from[0], from[1], from[2]};
    aclrtMemcpyBatchAttr attr = {.dstLoc = {0, ACL_MEM_LOCATION_TYPE_DEVICE},
                                 .srcLoc = {0, ACL_MEM_LOCATION_TYPE_HOST}};
    size_t index = 0;
    size_t failed;
    void *dst[3];
    char *block;

    CHILD_CHECK(aclInit(NULL) == ACL_SUCCESS && aclrtSetDevice(0) == ACL_SUCCESS);
    CHILD_CHECK(aclrtMalloc((void **)&block, 4096, 0) == ACL_SUCCESS);
    for (int i = 0; i < 3; i++)
        dst[i] = block + 64 * i;
    CHILD_CHECK(aclrtMemcpyBatch(dst, sizes, src, sizes, 3, &attr, &index, 1, &failed) ==
                ACL_SUCCESS);
    aclFinalize();
}

static void arrays_are_recorded_element_by_element(void **state)
{
    struct trace_event event;
    struct trace *trace;

    child_run(child_batch, NULL);
    trace = opened();
    find(trace, "aclrtMemcpyBatch", &event);
    assert_int_equal(trace_arg(&event, "sizes")->n_items, 3);
    assert_int_equal(trace_arg(&event, "sizes")->item[2], 48);
    assert_int_equal(trace_arg(&event, "dsts")->item[1],
                     trace_arg(&event, "dsts")->item[0] + 64);
    assert_int_equal(trace_arg(&event, "attrs")->size, sizeof(aclrtMemcpyBatchAttr));
    trace_close(trace);
}

static void child_branches(void *arg)
{
    aclmdlRI branches[3], model;
    aclmdlRICondTaskParams params = {
        .type = ACL_MODEL_RI_COND_TYPE_SWITCH, .size = 3, .modelRIArray = branches};
    aclrtStream stream, other;
    aclmdlRICaptureStatus status;

    CHILD_CHECK(aclInit(NULL) == ACL_SUCCESS && aclrtSetDevice(0) == ACL_SUCCESS);
    CHILD_CHECK(aclrtCreateStream(&stream) == ACL_SUCCESS);
    CHILD_CHECK(aclrtCreateStream(&other) == ACL_SUCCESS);
    CHILD_CHECK(aclmdlRIAddCondTask(params, stream, 0) != ACL_SUCCESS);
    CHILD_CHECK(aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_RELAXED) ==
                ACL_SUCCESS);
    CHILD_CHECK(aclmdlRICaptureGetInfo(stream, &status, &model) == ACL_SUCCESS);
    CHILD_CHECK(aclmdlRICondHandleCreate(model, 0, 0, &params.handle) == ACL_SUCCESS);
    CHILD_CHECK(aclmdlRIAddCondTask(params, stream, 0) == ACL_SUCCESS);
    CHILD_CHECK(aclmdlRICaptureToModelRIBegin(other, branches[2],
                                              ACL_MODEL_RI_CAPTURE_MODE_RELAXED) ==
                ACL_SUCCESS);
    CHILD_CHECK(aclmdlRICaptureEnd(other, &model) == ACL_SUCCESS);
    CHILD_CHECK(aclmdlRICaptureEnd(stream, &model) == ACL_SUCCESS);
    aclFinalize();
}

static void the_models_of_a_conditional_task_are_recorded(void **state)
{
    struct trace_event event;
    const struct trace_value *params;
    struct trace *trace;
    uint64_t last;

    child_run(child_branches, NULL);
    trace = opened();
    find(trace, "aclmdlRIAddCondTask", &event);
    assert_int_equal(trace_arg(&event, "params")->n_items, 0); /* it was refused */
    find(trace, "aclmdlRIAddCondTask", &event);
    params = trace_arg(&event, "params");
    assert_int_equal(params->size, sizeof(aclmdlRICondTaskParams));
    assert_int_equal(params->n_items, 3);
    assert_int_not_equal(params->item[0], params->item[1]);
    last = params->item[2];
    find(trace, "aclmdlRICaptureToModelRIBegin", &event);
    assert_int_equal(trace_number(&event, "modelRI"), last);
    assert_int_equal(trace_about(trace)->n_damaged, 0);
    trace_close(trace);
}

/* ---- a reader beside the writer ---- */

#define BESIDE 100000 /* calls: many chunks, some compressed while the reader reads */

static void child_counts_beside(void *arg)
{
    CHILD_CHECK(aclInit(NULL) == ACL_SUCCESS);
    CHILD_CHECK(write(ready[1], "", 1) == 1);
    count_up(0, BESIDE);
    CHILD_CHECK(aclFinalize() == ACL_SUCCESS);
}

/* Goes on from the call with number n; the number of the next one. */
static uint64_t count_on(struct trace *trace, uint64_t n)
{
    struct trace_event event;

    while (trace_next(trace, &event)) {
        if (event.kind != TRACE_CALL || !is_call_of(&event, "aclrtMemFlush"))
            continue;
        assert_int_equal(trace_number(&event, "size"), n);
        n++;
    }
    return n;
}

/*
 * A chunk's bytes are written before the word with their number: a reader
 * that goes by the word sees whole calls, in order and each once, also of chunks that are
 * packed between two reads.  Afterwards all are there.
 */
static void a_reader_beside_the_writer_sees_whole_calls(void **state)
{
    pid_t child = child_start(child_counts_beside, NULL);
    char why[TRACE_WHY_SIZE];
    struct trace *trace;
    uint64_t n = 0;
    char byte;

    assert_int_equal(read(ready[0], &byte, 1), 1);
    trace = opened();
    for (int i = 0; i < 200 && n < BESIDE; i++) {
        n = count_on(trace, n);
        assert_true(trace_refresh(trace, why));
    }
    assert_int_equal(child_wait(child), 0);
    trace_close(trace);
    assert_int_equal(count_read(0), BESIDE);
}

/* ---- threads, calls within calls ---- */

static const char *thread_counts(struct worker *self)
{
    count_up(0, 20000);
    return NULL;
}

static void child_threads(void *arg)
{
    struct worker workers[4] = {{.run = thread_counts},
                                {.run = thread_counts},
                                {.run = thread_counts},
                                {.run = thread_counts}};

    CHILD_CHECK(aclInit(NULL) == ACL_SUCCESS);
    CHILD_CHECK(run_workers(workers, 4) == NULL);
    CHILD_CHECK(aclFinalize() == ACL_SUCCESS);
}

static void each_thread_has_its_calls_in_order(void **state)
{
    uint32_t thread[8] = {0};
    uint32_t n = 0;
    struct trace_event event;
    struct trace *trace;
    uint64_t last = 0;

    child_run(child_threads, NULL);
    trace = opened();
    while (trace_next(trace, &event)) {
        uint32_t i = 0;

        assert_true(event.time >= last); /* over all threads */
        last = event.time;
        if (!is_call_of(&event, "aclrtMemFlush"))
            continue;
        while (i < n && thread[i] != event.thread)
            i++;
        assert_true(i < 4);
        thread[i] = event.thread;
        n = i == n ? n + 1 : n;
    }
    trace_close(trace);
    assert_int_equal(n, 4);
    for (uint32_t i = 0; i < n; i++)
        assert_int_equal(count_read(thread[i]), 20000);
}

static void calls_again(void *arg)
{
    count_up(0, 3000); /* more than a chunk */
}

static void child_nests(void *arg)
{
    aclrtStream stream;

    CHILD_CHECK(aclInit(NULL) == ACL_SUCCESS && aclrtSetDevice(0) == ACL_SUCCESS);
    CHILD_CHECK(aclrtCreateStream(&stream) == ACL_SUCCESS);
    CHILD_CHECK(aclrtSubscribeReport((uint64_t)pthread_self(), stream) == ACL_SUCCESS);
    CHILD_CHECK(aclrtLaunchCallback(calls_again, NULL, ACL_CALLBACK_BLOCK, stream) ==
                ACL_SUCCESS);
    CHILD_CHECK(aclrtProcessReport(60000) == ACL_SUCCESS);
    aclFinalize();
}

static void a_call_that_makes_calls_has_a_begin_and_an_end(void **state)
{
    struct trace_event event;
    struct trace *trace;

    child_run(child_nests, NULL);
    trace = opened();
    find(trace, "aclrtProcessReport", &event);
    assert_int_equal(event.kind, TRACE_BEGIN);
    for (int i = 0; i < 3000; i++)
        find(trace, "aclrtMemFlush", &event);
    find(trace, "aclrtProcessReport", &event);
    assert_int_equal(event.kind, TRACE_END);
    assert_int_equal(trace_number(&event, "ms"), 60000);
    assert_int_equal(event.result, 0);
    trace_close(trace);
    assert_int_equal(count_read(0), 3000);
}

/* ---- several processes ---- */

static void two_processes_at_once_share_the_file(void **state)
{
    uint32_t n = 5000;
    pid_t first = child_start(child_counts, &n);
    pid_t second = child_start(child_counts, &n);
    struct trace_event event;
    struct trace *trace;
    uint64_t calls = 0;

    assert_int_equal(child_wait(first), 0);
    assert_int_equal(child_wait(second), 0);
    trace = opened();
    while (trace_next(trace, &event))
        calls += is_call_of(&event, "aclrtMemFlush");
    trace_close(trace);
    /* The second one begins the file anew where the first has ended already. */
    assert_true(calls == 2 * n || calls == n);
}

static void processes_of_one_run_follow_each_other_in_one_file(void **state)
{
    char why[TRACE_WHY_SIZE];
    int fd = trace_create(path, true, why);
    uint32_t n = 3000;
    struct trace_event event;
    struct trace *trace;
    uint64_t calls = 0;
    size_t n_processes = 0;

    assert_true(fd >= 0);
    child_run(child_counts, &n);
    child_run(child_counts, &n);
    close(fd);
    trace = opened();
    while (trace_next(trace, &event))
        calls += is_call_of(&event, "aclrtMemFlush");
    assert_int_equal(calls, 2 * n);
    for (size_t i = 0; i < trace_n_processes(trace); i++) {
        n_processes += trace_process_at(trace, i) != NULL;
        if (trace_process_at(trace, i) != NULL)
            assert_true(trace_process_at(trace, i)->ended != 0);
    }
    assert_int_equal(n_processes, 2);
    trace_close(trace);
}

static void a_file_that_no_process_has_is_begun_anew(void **state)
{
    uint32_t n = 100;

    child_run(child_counts, &n);
    child_run(child_counts, &n);
    assert_int_equal(count_read(0), n);
}

static void child_forks(void *arg)
{
    int status;
    pid_t child;

    child_counts(arg);
    child = fork();
    if (child == 0) {
        child_counts(arg);
        exit(0);
    }
    CHILD_CHECK(waitpid(child, &status, 0) == child && status == 0);
    child_counts(arg);
}

static void a_child_by_fork_records_as_a_process_of_its_own(void **state)
{
    uint32_t n = 2000;
    struct trace_event event;
    struct trace *trace;
    uint64_t calls = 0;

    child_run(child_forks, &n);
    trace = opened();
    while (trace_next(trace, &event))
        calls += is_call_of(&event, "aclrtMemFlush");
    assert_int_equal(calls, 3 * n);
    assert_int_equal(trace_about(trace)->n_damaged, 0);
    trace_close(trace);
}

/* ---- ends ---- */

static void child_counts_for_ever(void *arg)
{
    uint32_t n = *(uint32_t *)arg;

    CHILD_CHECK(aclInit(NULL) == ACL_SUCCESS);
    count_up(0, n);
    CHILD_CHECK(write(ready[1], "", 1) == 1);
    count_up(n, 100000000);
}

static void a_killed_process_leaves_all_that_it_did(void **state)
{
    for (uint32_t i = 0; i < KILLS; i++) {
        uint32_t n = i * 61;
        pid_t child = child_start(child_counts_for_ever, &n);
        char byte;

        assert_int_equal(read(ready[0], &byte, 1), 1);
        kill(child, SIGKILL);
        assert_int_equal(WTERMSIG(child_wait(child)), SIGKILL);
        assert_true(count_read(0) >= n);
    }
}

static void child_dies_at_a_step(void *arg)
{
    CHILD_CHECK(aclInit(NULL) == ACL_SUCCESS);
    count_up(0, 100);
    am_fault_arm_signal(*(uint64_t *)arg, SIGKILL);
    count_up(100, 20000);
    am_fault_disarm();
    exit(0);
}

static void a_process_may_die_between_any_two_writes(void **state)
{
    uint64_t n = 0;
    int status;

    do {
        n++;
        status = child_wait(child_start(child_dies_at_a_step, &n));
        assert_true(count_read(0) >= 100);
    } while (WIFSIGNALED(status) && n < 200);
    assert_true(n > 10);
}

/* With a seed, the thread that waits runs the tasks. */
static void child_works(void *arg)
{
    aclrtPhysicalMemProp prop = {
        .memAttr = ACL_HBM_MEM_HUGE,
        .location = {.type = ACL_MEM_LOCATION_TYPE_DEVICE},
    };
    aclrtDrvMemHandle handle;
    aclrtStream stream;
    void *host, *device;

    CHILD_CHECK(setenv("ACLMEM_CHAOS", "1", 1) == 0);
    CHILD_CHECK(aclInit(NULL) == ACL_SUCCESS && aclrtSetDevice(0) == ACL_SUCCESS);
    CHILD_CHECK(aclrtMallocPhysical(&handle, 6 << 20, &prop, 0) == ACL_SUCCESS);
    CHILD_CHECK(aclrtFreePhysical(handle) == ACL_SUCCESS);
    CHILD_CHECK(aclrtCreateStream(&stream) == ACL_SUCCESS);
    CHILD_CHECK(aclrtMallocHost(&host, 4096) == ACL_SUCCESS);
    CHILD_CHECK(aclrtMalloc(&device, 4096, ACL_MEM_MALLOC_HUGE_FIRST) == ACL_SUCCESS);
    CHILD_CHECK(aclrtMemcpyAsync(device, 4096, host, 4096, ACL_MEMCPY_HOST_TO_DEVICE,
                                 stream) == ACL_SUCCESS);
    CHILD_CHECK(aclrtSynchronizeStream(stream) == ACL_SUCCESS);
    CHILD_CHECK(aclrtFree(device) == ACL_SUCCESS);
    CHILD_CHECK(aclrtDestroyStream(stream) == ACL_SUCCESS);
}

static void the_trace_says_when_tasks_ran_and_what_is_held(void **state)
{
    uint64_t stream = 0, queued = 0, called = 0;
    uint64_t held[4];
    struct trace_event event;
    struct trace *trace;
    unsigned n_tasks = 0;
    unsigned n_held = 0;

    child_run(child_works, NULL);
    trace = opened();
    while (trace_next(trace, &event)) {
        if (is_call_of(&event, "aclrtMemcpyAsync")) {
            stream = trace_number(&event, "stream");
            queued = event.begin;
            called = event.end;
        } else if (event.kind == TRACE_HELD) {
            assert_int_equal(event.stream, 0);
            if (n_held < 4)
                held[n_held++] = event.size;
        } else if (event.kind == TRACE_TASK) {
            n_tasks++;
            assert_int_equal(event.stream, stream);
            assert_string_equal(event.process->function[event.task]->name,
                                "aclrtMemcpyAsync");
            assert_in_range(event.queued, queued, called);
            assert_true(called <= event.begin && event.begin <= event.end);
        }
    }
    trace_close(trace);
    assert_int_equal(n_tasks, 1);
    assert_true(n_held >= 3);
    assert_int_equal(held[0], 6 << 20);
    assert_int_equal(held[1], 0);
    assert_int_equal(held[2], 2 << 20); /* the heap takes 2 MB for a small block */
}

/* A call with `depth` frames above it; not a loop, whatever the compiler thinks. */
__attribute__((noinline)) static int deep_call(volatile int depth)
{
    int32_t device;

    if (depth == 0)
        return aclrtGetDevice(&device);
    return deep_call(depth - 1) + (depth == 1000);
}

static void child_deep(void *arg)
{
    CHILD_CHECK(setenv("ACLMEM_STACKS", arg, 1) == 0);
    CHILD_CHECK(aclInit(NULL) == ACL_SUCCESS && aclrtSetDevice(0) == ACL_SUCCESS);
    CHILD_CHECK(deep_call(100) == ACL_SUCCESS);
}

static void stacks_are_as_deep_as_asked_for(void **state)
{
    static const struct {
        char *stacks;
        uint32_t low, high;
    } rows[] = {{"none", 0, 0}, {"fast", 10, 48}, {"full", 100, 512}};

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct trace_event event;
        struct trace *trace;
        uint32_t n;

        child_run(child_deep, rows[i].stacks);
        trace = opened();
        find(trace, "aclrtGetDevice", &event);
        n = event.stack != 0 ? trace_stack_find(event.process, event.stack)->n : 0;
        trace_close(trace);
        assert_in_range(n, rows[i].low, rows[i].high);
    }
}

/* Runs inside aclrtProcessReport, which is in the file by then, and never returns. */
static void stays(void *arg)
{
    CHILD_CHECK(write(ready[1], "", 1) == 1);
    for (;;)
        pause();
}

static void child_blocks(void *arg)
{
    aclrtStream stream;

    CHILD_CHECK(aclInit(NULL) == ACL_SUCCESS && aclrtSetDevice(0) == ACL_SUCCESS);
    CHILD_CHECK(aclrtCreateStream(&stream) == ACL_SUCCESS);
    CHILD_CHECK(aclrtSubscribeReport((uint64_t)pthread_self(), stream) == ACL_SUCCESS);
    CHILD_CHECK(aclrtLaunchCallback(stays, NULL, ACL_CALLBACK_BLOCK, stream) ==
                ACL_SUCCESS);
    aclrtProcessReport(-1);
}

static void a_call_that_never_returned_is_shown(void **state)
{
    pid_t child = child_start(child_blocks, NULL);
    struct trace_event event;
    struct trace *trace;
    unsigned n = 0;
    char byte;

    assert_int_equal(read(ready[0], &byte, 1), 1);
    trace = opened();
    while (trace_next(trace, &event))
        n += is_call_of(&event, "aclrtProcessReport") && event.is_unfinished &&
             (int32_t)trace_number(&event, "ms") == -1;
    trace_close(trace);
    kill(child, SIGKILL);
    child_wait(child);
    assert_int_equal(n, 1);
}

static void child_lacks(void *arg)
{
    struct worker worker = {.run = thread_counts};

    CHILD_CHECK(aclInit(NULL) == ACL_SUCCESS);
    am_fault_arm(*(uint64_t *)arg, true);
    count_up(0, 30000);
    am_fault_disarm();
    CHILD_CHECK(worker_start(&worker) == 0 && worker_join(&worker) == NULL);
    CHILD_CHECK(aclFinalize() == ACL_SUCCESS);
    exit(am_fault_fired() ? 0 : 3);
}

static void a_full_disk_ends_the_trace_and_not_the_program(void **state)
{
    uint64_t n = 0;
    uint64_t n_full = 0;
    int status;

    do {
        struct trace *trace;
        struct trace_event event;

        n++;
        status = child_wait(child_start(child_lacks, &n));
        assert_true(WIFEXITED(status) &&
                    (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 3));
        trace = opened();
        while (trace_next(trace, &event))
            ;
        assert_int_equal(trace_about(trace)->n_damaged, 0);
        if (trace_about(trace)->full_at != 0)
            assert_true(trace_about(trace)->n_lost > 0);
        n_full += trace_about(trace)->full_at != 0;
        trace_close(trace);
    } while (WEXITSTATUS(status) == 0);
    assert_true(n > 3 && n_full > 0);
}

static void child_cannot(void *arg)
{
    setenv("ACLMEM_TRACE", "/nowhere/at/all", 1);
    CHILD_CHECK(aclInit(NULL) == ACL_ERROR_INVALID_PARAM);
    CHILD_CHECK(strstr(aclGetRecentErrMsg(), "/nowhere/at/all") != NULL);
}

static void a_file_that_cannot_be_written_is_refused(void **state)
{
    child_run(child_cannot, NULL);
}

/* ---- files that are damaged ---- */

static void damaged_files_are_read_as_far_as_they_go(void **state)
{
    uint32_t n = 20000;
    FILE *file;
    long size;

    child_run(child_counts, &n);
    file = fopen(path, "r+");
    assert_non_null(file);
    fseek(file, 0, SEEK_END);
    size = ftell(file);
    for (uint32_t i = 1; i < 400; i++) {
        char why[TRACE_WHY_SIZE];
        struct trace_event event;
        struct trace *trace;

        fseek(file, (long)((i * UINT64_C(2654435761)) % (uint64_t)size), SEEK_SET);
        fputc((int)(i * 37), file);
        fflush(file);
        trace = trace_open(path, why);
        while (trace != NULL && trace_next(trace, &event))
            ;
        trace_close(trace);
    }
    for (; size > 0; size -= 9973) {
        char why[TRACE_WHY_SIZE];
        struct trace_event event;
        struct trace *trace;

        assert_int_equal(ftruncate(fileno(file), size), 0);
        trace = trace_open(path, why);
        while (trace != NULL && trace_next(trace, &event))
            ;
        trace_close(trace);
    }
    fclose(file);
}

static void what_is_no_trace_is_refused(void **state)
{
    char why[TRACE_WHY_SIZE];

    assert_null(trace_open("/nowhere/at/all", why));
    assert_non_null(strstr(why, "No such file"));
    assert_null(trace_open("/proc/self/exe", why));
    assert_non_null(strstr(why, "no trace"));
    assert_null(trace_open("/dev/null", why));
    assert_null(trace_open("/tmp", why));
}

static int begin_group(void **state)
{
    int fd = mkstemp(path);

    close(fd);
    return fd < 0 || pipe(ready) != 0 ? -1 : 0;
}

static int end_group(void **state)
{
    return unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_call_is_in_the_trace_in_order),
        cmocka_unit_test(arguments_results_and_structs_are_what_they_were),
        cmocka_unit_test(arrays_are_recorded_element_by_element),
        cmocka_unit_test(the_models_of_a_conditional_task_are_recorded),
        cmocka_unit_test(a_reader_beside_the_writer_sees_whole_calls),
        cmocka_unit_test(each_thread_has_its_calls_in_order),
        cmocka_unit_test(a_call_that_makes_calls_has_a_begin_and_an_end),
        cmocka_unit_test(two_processes_at_once_share_the_file),
        cmocka_unit_test(processes_of_one_run_follow_each_other_in_one_file),
        cmocka_unit_test(a_file_that_no_process_has_is_begun_anew),
        cmocka_unit_test(a_child_by_fork_records_as_a_process_of_its_own),
        cmocka_unit_test(a_killed_process_leaves_all_that_it_did),
        cmocka_unit_test(a_process_may_die_between_any_two_writes),
        cmocka_unit_test(the_trace_says_when_tasks_ran_and_what_is_held),
        cmocka_unit_test(stacks_are_as_deep_as_asked_for),
        cmocka_unit_test(a_call_that_never_returned_is_shown),
        cmocka_unit_test(a_full_disk_ends_the_trace_and_not_the_program),
        cmocka_unit_test(a_file_that_cannot_be_written_is_refused),
        cmocka_unit_test(damaged_files_are_read_as_far_as_they_go),
        cmocka_unit_test(what_is_no_trace_is_refused),
    };

    return cmocka_run_group_tests(tests, begin_group, end_group);
}
