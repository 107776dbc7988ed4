/* Correct programs with threads, functions, contexts, devices, and starts and stops. */
#include "legal.h"

#include <sched.h>
#include <spawn.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#define SIZE 4096
#define N_THREADS 4

extern char **environ;

/* What a thread works with. */
struct job {
    aclrtContext context;
    aclrtStream stream;
    aclrtEvent event;
    void *block;
    pthread_mutex_t lock;
    pthread_cond_t cond;
    atomic_int is_done;
};

static void job_open(struct job *job)
{
    memset(job, 0, sizeof *job);
    MUST(aclrtGetCurrentContext(&job->context));
    job->stream = stream_open();
    MUST(aclrtCreateEvent(&job->event));
    job->block = block_open(SIZE);
    pthread_mutex_init(&job->lock, NULL);
    pthread_cond_init(&job->cond, NULL);
}

static void job_close(struct job *job)
{
    if (job->block != NULL)
        MUST(aclrtFree(job->block));
    if (job->event != NULL)
        MUST(aclrtDestroyEvent(job->event));
    MUST(aclrtDestroyStream(job->stream));
}

static void fill(struct job *job)
{
    MUST(aclrtMemsetAsync(job->block, SIZE, 1, SIZE, job->stream));
}

static void read_now(const void *from)
{
    char host[64];

    MUST(aclrtMemcpy(host, sizeof host, from, sizeof host, ACL_MEMCPY_DEVICE_TO_HOST));
}

static void threads_start(pthread_t *thread, void *(*run)(void *), void *arg)
{
    for (int i = 0; i < N_THREADS; i++) {
        if (pthread_create(&thread[i], NULL, run, arg) != 0)
            abort();
    }
}

static void threads_join(const pthread_t *thread)
{
    for (int i = 0; i < N_THREADS; i++)
        pthread_join(thread[i], NULL);
}

/* ---- threads ---- */

static void *make_block(void *arg)
{
    struct job *job = arg;

    MUST(aclrtSetCurrentContext(job->context));
    MUST(aclrtFree(job->block));
    job->block = block_open(SIZE);
    fill(job);
    return NULL;
}

static void thread_makes_and_main_frees(bool is_fixed)
{
    struct job job;

    job_open(&job);
    thread_run(make_block, &job);
    MUST(aclrtSynchronizeStream(job.stream));
    job_close(&job);
}

static void *own_everything(void *arg)
{
    struct job job;

    MUST(aclrtSetDevice(0));
    job_open(&job);
    for (int i = 0; i < 10; i++) {
        fill(&job);
        MUST(aclrtRecordEvent(job.event, job.stream));
        MUST(aclrtSynchronizeEvent(job.event));
        read_now(job.block);
    }
    job_close(&job);
    return NULL;
}

static void threads_with_their_own(bool is_fixed)
{
    pthread_t thread[N_THREADS];

    threads_start(thread, own_everything, NULL);
    threads_join(thread);
}

static void *queue_on_the_stream(void *arg)
{
    struct job *job = arg;

    MUST(aclrtSetCurrentContext(job->context));
    for (int i = 0; i < 10; i++)
        fill(job);
    return NULL;
}

static void threads_with_one_stream(bool is_fixed)
{
    pthread_t thread[N_THREADS];
    struct job job;

    job_open(&job);
    threads_start(thread, queue_on_the_stream, &job);
    threads_join(thread);
    MUST(aclrtSynchronizeStream(job.stream));
    read_now(job.block);
    job_close(&job);
}

static void *wait_for_event(void *arg)
{
    struct job *job = arg;

    MUST(aclrtSetCurrentContext(job->context));
    MUST(aclrtSynchronizeEvent(job->event));
    read_now(job->block);
    return NULL;
}

static void threads_wait_for_one_event(bool is_fixed)
{
    pthread_t thread[N_THREADS];
    struct job job;

    job_open(&job);
    fill(&job);
    MUST(aclrtRecordEvent(job.event, job.stream));
    threads_start(thread, wait_for_event, &job);
    threads_join(thread);
    job_close(&job);
}

static void *wait_for_device(void *arg)
{
    struct job *job = arg;

    MUST(aclrtSetCurrentContext(job->context));
    MUST(aclrtSynchronizeDevice());
    return NULL;
}

static void thread_waits_for_the_device(bool is_fixed)
{
    struct job job;

    job_open(&job);
    fill(&job);
    thread_run(wait_for_device, &job);
    job_close(&job);
}

static void *stream_made_here(void *arg)
{
    struct job *job = arg;

    MUST(aclrtSetCurrentContext(job->context));
    MUST(aclrtDestroyStream(job->stream));
    job->stream = stream_open();
    fill(job);
    return NULL;
}

static void stream_of_a_thread_that_ended(bool is_fixed)
{
    struct job job;

    job_open(&job);
    thread_run(stream_made_here, &job);
    MUST(aclrtSynchronizeStream(job.stream));
    job_close(&job);
}

static void *pin_and_unpin(void *arg)
{
    for (int i = 0; i < 50; i++) {
        char *block = host_open(1 + (size_t)i * 97);

        memset(block, i, 1 + (size_t)i * 97);
        MUST(aclrtFreeHost(block));
    }
    return NULL;
}

static void threads_with_pinned_memory(bool is_fixed)
{
    pthread_t thread[N_THREADS];

    threads_start(thread, pin_and_unpin, NULL);
    threads_join(thread);
}

/* ---- functions ---- */

static void notify(void *arg)
{
    struct job *job = arg;

    pthread_mutex_lock(&job->lock);
    job->is_done = 1;
    pthread_cond_broadcast(&job->cond);
    pthread_mutex_unlock(&job->lock);
}

static void function_and_condition(bool is_fixed)
{
    struct job job;

    job_open(&job);
    fill(&job);
    MUST(aclrtLaunchHostFunc(job.stream, notify, &job));
    pthread_mutex_lock(&job.lock);
    while (!job.is_done)
        pthread_cond_wait(&job.cond, &job.lock);
    pthread_mutex_unlock(&job.lock);
    read_now(job.block);
    job_close(&job);
}

static void function_and_a_poll(bool is_fixed)
{
    struct job job;

    job_open(&job);
    for (int i = 0; i < 5; i++) {
        job.is_done = 0;
        fill(&job);
        MUST(aclrtLaunchHostFunc(job.stream, notify, &job));
        while (!atomic_load(&job.is_done))
            usleep(100);
        MUST(aclrtFree(job.block));
        job.block = block_open(SIZE);
    }
    job_close(&job);
}

static void *wait_for_notify(void *arg)
{
    struct job *job = arg;

    MUST(aclrtSetCurrentContext(job->context));
    while (!atomic_load(&job->is_done))
        sched_yield();
    read_now(job->block);
    return NULL;
}

static void function_notifies_another_thread(bool is_fixed)
{
    struct job job;

    job_open(&job);
    fill(&job);
    MUST(aclrtLaunchHostFunc(job.stream, notify, &job));
    thread_run(wait_for_notify, &job);
    job_close(&job);
}

static void count_up(void *arg)
{
    atomic_fetch_add((atomic_int *)arg, 1);
}

static void functions_on_many_streams(bool is_fixed)
{
    aclrtStream s[8];
    atomic_int n = 0;

    for (int i = 0; i < 8; i++)
        s[i] = stream_open();
    for (int i = 0; i < 80; i++)
        MUST(aclrtLaunchHostFunc(s[i % 8], count_up, &n));
    MUST(aclrtSynchronizeDevice());
    for (int i = 0; i < 8; i++)
        MUST(aclrtDestroyStream(s[i]));
    if (n != 80)
        abort();
}

static void free_block(void *arg)
{
    struct job *job = arg;

    MUST(aclrtSetCurrentContext(job->context));
    MUST(aclrtFree(job->block));
    job->block = NULL;
}

static void function_frees_what_was_used_before_it(bool is_fixed)
{
    struct job job;

    job_open(&job);
    fill(&job);
    MUST(aclrtLaunchHostFunc(job.stream, free_block, &job));
    MUST(aclrtSynchronizeStream(job.stream));
    job_close(&job);
}

static void queue_elsewhere(void *arg)
{
    struct job *job = arg;

    MUST(aclrtSetCurrentContext(job->context));
    fill(job);
    MUST(aclrtSynchronizeStream(job->stream));
}

static void function_queues_on_another_stream(bool is_fixed)
{
    aclrtStream stream = stream_open();
    struct job job;

    job_open(&job);
    MUST(aclrtLaunchHostFunc(stream, queue_elsewhere, &job));
    MUST(aclrtMemsetAsync(job.block, SIZE, 2, SIZE, stream));
    MUST(aclrtSynchronizeStream(stream));
    job_close(&job);
    MUST(aclrtDestroyStream(stream));
}

static void functions_that_were_aborted(bool is_fixed)
{
    struct gate gate;
    struct job job;

    job_open(&job);
    gate_hold(&gate, job.stream);
    fill(&job);
    for (int i = 0; i < 20; i++)
        MUST(aclrtLaunchHostFunc(job.stream, notify, &job));
    gate_let(&gate);
    MUST(aclrtStreamAbort(job.stream));
    job_close(&job);
}

static void *process_reports(void *arg)
{
    struct job *job = arg;

    MUST(aclrtSetCurrentContext(job->context));
    while (!atomic_load(&job->is_done))
        (void)aclrtProcessReport(100);
    return NULL;
}

static void callbacks(aclrtCallbackBlockType type)
{
    struct job job;
    pthread_t thread;
    atomic_int n = 0;

    job_open(&job);
    if (pthread_create(&thread, NULL, process_reports, &job) != 0)
        abort();
    MUST(aclrtSubscribeReport((uint64_t)thread, job.stream));
    for (int i = 0; i < 10; i++) {
        fill(&job);
        MUST(aclrtLaunchCallback(count_up, &n, type, job.stream));
    }
    while (atomic_load(&n) < 10)
        sched_yield();
    MUST(aclrtSynchronizeStream(job.stream));
    job.is_done = 1;
    MUST(aclrtUnSubscribeReport((uint64_t)thread, job.stream));
    pthread_join(thread, NULL);
    job_close(&job);
}

static atomic_bool is_working;

/* Longer than the layer takes to look at a wait twice. */
static void work_long(void *arg)
{
    atomic_store(&is_working, true);
    usleep(600000);
}

/* An abort ends what the stream waits for, and itself waits for a function that runs. */
static void stalled_streams_that_end(bool is_fixed)
{
    aclrtStream slow = stream_open();
    aclrtStream stream = stream_open();
    aclrtStreamStatus status;
    aclrtEvent event;

    MUST(aclrtCreateEvent(&event));
    MUST(aclrtStreamWaitEvent(stream, event));
    MUST(aclrtLaunchHostFunc(slow, work_long, NULL));
    do
        MUST(aclrtStreamQuery(slow, &status));
    while (status != ACL_STREAM_STATUS_COMPLETE && !atomic_load(&is_working));
    MUST(aclrtDeviceTaskAbort(0, 0));
    MUST(aclrtStreamWaitEvent(stream, event));
    MUST(aclrtDestroyStreamForce(stream));
    MUST(aclrtDestroyStream(slow));
    MUST(aclrtDestroyEvent(event));
}

static void callbacks_that_block(bool is_fixed)
{
    callbacks(ACL_CALLBACK_BLOCK);
}

static void callbacks_that_do_not_block(bool is_fixed)
{
    callbacks(ACL_CALLBACK_NO_BLOCK);
}

/*
 * A callback that blocks runs in the thread of callbacks that do not block: a call that waits
 * for the first waits for the second, too.  The limit ends a call that waits seconds for each.
 */
static void callbacks_of_both_kinds(bool is_fixed)
{
    struct job job;
    atomic_int n = 0;
    pthread_t thread;

    job_open(&job);
    if (pthread_create(&thread, NULL, process_reports, &job) != 0)
        abort();
    MUST(aclrtSubscribeReport((uint64_t)thread, job.stream));
    for (int i = 0; i < 20; i++) {
        fill(&job);
        MUST(aclrtLaunchCallback(count_up, &n,
                                 i % 2 != 0 ? ACL_CALLBACK_BLOCK : ACL_CALLBACK_NO_BLOCK,
                                 job.stream));
    }
    MUST(aclrtSynchronizeStreamWithTimeout(job.stream, 10000));
    job.is_done = 1;
    MUST(aclrtUnSubscribeReport((uint64_t)thread, job.stream));
    pthread_join(thread, NULL);
    job_close(&job);
}

/* ---- contexts and devices ---- */

static void *own_context(void *arg)
{
    aclrtContext context;
    void *block;

    MUST(aclrtCreateContext(&context, 0));
    block = block_open(SIZE);
    MUST(aclrtMemsetAsync(block, SIZE, 1, SIZE, NULL));
    MUST(aclrtSynchronizeStream(NULL));
    MUST(aclrtFree(block));
    MUST(aclrtDestroyContext(context));
    return NULL;
}

static void threads_with_contexts(bool is_fixed)
{
    pthread_t thread[N_THREADS];

    threads_start(thread, own_context, NULL);
    threads_join(thread);
}

static void contexts_in_turn(bool is_fixed)
{
    aclrtContext context[2];
    aclrtContext first;
    void *block[2];

    MUST(aclrtGetCurrentContext(&first));
    for (int i = 0; i < 2; i++) {
        MUST(aclrtCreateContext(&context[i], 0));
        block[i] = block_open(SIZE);
    }
    for (int i = 0; i < 6; i++) {
        MUST(aclrtSetCurrentContext(context[i % 2]));
        MUST(aclrtMemsetAsync(block[i % 2], SIZE, 1, SIZE, NULL));
    }
    for (int i = 0; i < 2; i++) {
        MUST(aclrtSetCurrentContext(context[i]));
        MUST(aclrtSynchronizeStream(NULL));
        MUST(aclrtFree(block[i]));
        MUST(aclrtDestroyContext(context[i]));
    }
    MUST(aclrtSetCurrentContext(first));
}

static void streams_end_with_their_context(bool is_fixed)
{
    aclrtContext context;
    aclrtContext first;
    void *block;

    MUST(aclrtGetCurrentContext(&first));
    MUST(aclrtCreateContext(&context, 0));
    block = block_open(SIZE);
    MUST(aclrtMemsetAsync(block, SIZE, 1, SIZE, NULL));
    MUST(aclrtDestroyContext(context)); /* waits for its default stream */
    MUST(aclrtSetCurrentContext(first));
    MUST(aclrtFree(block));
}

static void device_use(int device)
{
    aclrtStream stream;
    void *block;

    MUST(aclrtSetDevice(device));
    stream = stream_open();
    block = block_open(SIZE);
    MUST(aclrtMemsetAsync(block, SIZE, 1, SIZE, stream));
    MUST(aclrtSynchronizeStream(stream));
    MUST(aclrtFree(block));
    MUST(aclrtDestroyStream(stream));
}

static void two_devices(bool is_fixed)
{
    for (int i = 0; i < 4; i++)
        device_use(i % 2);
    MUST(aclrtResetDevice(1));
    MUST(aclrtSetDevice(0));
}

static void device_reset_and_set_again(bool is_fixed)
{
    for (int i = 0; i < 3; i++) {
        device_use(1);
        MUST(aclrtResetDevice(1));
    }
    MUST(aclrtSetDevice(0));
}

static void device_reset_by_force(bool is_fixed)
{
    device_use(1);
    MUST(aclrtSetDevice(1));
    MUST(aclrtResetDeviceForce(1));
    MUST(aclrtSetDevice(0));
}

static void *use_device_one(void *arg)
{
    device_use(1);
    return NULL;
}

static void threads_set_a_device(bool is_fixed)
{
    pthread_t thread[N_THREADS];

    threads_start(thread, use_device_one, NULL);
    threads_join(thread);
    MUST(aclrtSetDevice(1));
    MUST(aclrtResetDevice(1));
    MUST(aclrtSetDevice(0));
}

/* ---- starts, stops and processes ---- */

static void started_with_streams(bool is_fixed)
{
    for (int i = 0; i < 3; i++) {
        struct job job;
        void *pinned = host_open(SIZE);

        job_open(&job);
        MUST(aclrtMemcpyAsync(job.block, SIZE, pinned, SIZE, ACL_MEMCPY_HOST_TO_DEVICE,
                              job.stream));
        MUST(aclrtSynchronizeStream(job.stream));
        job_close(&job);
        MUST(aclrtFreeHost(pinned));
        MUST(aclrtResetDevice(0));
        MUST(aclFinalize());
        MUST(aclInit(NULL));
        MUST(aclrtSetDevice(0));
    }
}

static void started_twice(bool is_fixed)
{
    if (aclInit(NULL) == ACL_SUCCESS) /* some editions count */
        MUST(aclFinalize());
    MUST(aclrtSetDevice(0));
    MUST(aclrtResetDevice(0));
    MUST(aclrtSetDevice(0));
}

static void child_without_the_library(bool is_fixed)
{
    void *block = block_open(SIZE);
    int status;
    pid_t pid = fork();

    if (pid == 0)
        _exit(7);
    if (waitpid(pid, &status, 0) != pid || WEXITSTATUS(status) != 7)
        abort();
    MUST(aclrtFree(block));
}

static void child_by_exec(bool is_fixed)
{
    char *argv[] = {"bugs", "legal/two_devices", NULL};
    void *block = block_open(SIZE);
    int status;
    pid_t pid;

    if (posix_spawn(&pid, "/proc/self/exe", NULL, NULL, argv, environ) != 0 ||
        waitpid(pid, &status, 0) != pid || status != 0)
        abort();
    MUST(aclrtFree(block));
}

const struct bug legal_threads[] = {
    LEGAL("thread_makes_and_main_frees", thread_makes_and_main_frees),
    LEGAL("threads_with_their_own", threads_with_their_own),
    LEGAL("threads_with_one_stream", threads_with_one_stream),
    LEGAL("threads_wait_for_one_event", threads_wait_for_one_event),
    LEGAL("thread_waits_for_the_device", thread_waits_for_the_device),
    LEGAL("stream_of_a_thread_that_ended", stream_of_a_thread_that_ended),
    LEGAL("threads_with_pinned_memory", threads_with_pinned_memory),
    LEGAL("function_and_condition", function_and_condition),
    LEGAL("function_and_a_poll", function_and_a_poll),
    LEGAL("function_notifies_another_thread", function_notifies_another_thread),
    LEGAL("functions_on_many_streams", functions_on_many_streams),
    LEGAL("function_frees_what_was_used_before_it",
          function_frees_what_was_used_before_it),
    LEGAL("function_queues_on_another_stream", function_queues_on_another_stream),
    LEGAL("functions_that_were_aborted", functions_that_were_aborted),
    LEGAL("stalled_streams_that_end", stalled_streams_that_end,
          "--check all --stall-timeout 0"),
    LEGAL("callbacks_that_block", callbacks_that_block),
    LEGAL("callbacks_that_do_not_block", callbacks_that_do_not_block),
    LEGAL("callbacks_of_both_kinds", callbacks_of_both_kinds),
    LEGAL("threads_with_contexts", threads_with_contexts),
    LEGAL("contexts_in_turn", contexts_in_turn),
    LEGAL("streams_end_with_their_context", streams_end_with_their_context),
    LEGAL("two_devices", two_devices),
    LEGAL("device_reset_and_set_again", device_reset_and_set_again),
    LEGAL("device_reset_by_force", device_reset_by_force),
    LEGAL("threads_set_a_device", threads_set_a_device),
    LEGAL("started_with_streams", started_with_streams),
    LEGAL("started_twice", started_twice),
    LEGAL("child_without_the_library", child_without_the_library),
    LEGAL("child_by_exec", child_by_exec),
    {.name = NULL},
};
