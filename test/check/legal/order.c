/* Correct programs with an unusual order of streams, events and functions. */
#include "legal.h"

#include <sched.h>
#include <stdatomic.h>

#include "aclmem/access.h"
#include "aclmem/aclmem.h"

#define SIZE 4096

static aclrtEvent event_open(void)
{
    aclrtEvent event;

    MUST(aclrtCreateEvent(&event));
    return event;
}

static void copy_on(aclrtStream stream, void *to, const void *from)
{
    MUST(aclrtMemcpyAsync(to, SIZE, from, SIZE, ACL_MEMCPY_DEVICE_TO_DEVICE, stream));
}

static void set_on(aclrtStream stream, void *to)
{
    MUST(aclrtMemsetAsync(to, SIZE, 1, SIZE, stream));
}

static void read_back(const void *from)
{
    char host[64];

    MUST(aclrtMemcpy(host, sizeof host, from, sizeof host, ACL_MEMCPY_DEVICE_TO_HOST));
}

/* A wait keeps the record that it is for, also when the event is recorded again. */
static void event_recorded_again(bool is_fixed)
{
    aclrtStream s[4] = {stream_open(), stream_open(), stream_open(), stream_open()};
    aclrtEvent e = event_open();
    aclrtEvent g = event_open();
    void *a = block_open(SIZE);
    void *b = block_open(SIZE);

    MUST(aclrtStreamWaitEvent(s[1], g));
    set_on(s[0], a);
    MUST(aclrtRecordEvent(e, s[0]));
    MUST(aclrtStreamWaitEvent(s[1], e));
    copy_on(s[1], b, a);
    MUST(aclrtRecordEvent(e, s[2]));
    MUST(aclrtRecordEvent(g, s[3]));
    MUST(aclrtSynchronizeDevice());
    MUST(aclrtDestroyEvent(e));
    MUST(aclrtDestroyEvent(g));
    for (int i = 0; i < 4; i++)
        MUST(aclrtDestroyStream(s[i]));
    MUST(aclrtFree(a));
    MUST(aclrtFree(b));
}

/* The same event behind a function, again and again. */
static void event_recorded_again_behind_a_function(bool is_fixed)
{
    aclrtStream first = stream_open();
    aclrtStream second = stream_open();
    aclrtEvent e = event_open();
    void *a[3];
    void *b = block_open(SIZE);
    struct gate gate;

    gate_hold(&gate, first);
    for (int i = 0; i < 3; i++) {
        a[i] = block_open(SIZE);
        set_on(first, a[i]);
        MUST(aclrtRecordEvent(e, first));
        MUST(aclrtStreamWaitEvent(second, e));
        copy_on(second, b, a[i]);
    }
    gate_let(&gate);
    MUST(aclrtSynchronizeStream(second));
    for (int i = 0; i < 3; i++)
        MUST(aclrtFree(a[i]));
    MUST(aclrtFree(b));
    MUST(aclrtDestroyEvent(e));
    MUST(aclrtDestroyStream(first));
    MUST(aclrtDestroyStream(second));
}

/* A stream is destroyed while it waits for a record that is queued: the call waits. */
static void stream_destroyed_behind_a_function(bool is_fixed)
{
    aclrtStream first = stream_open();
    aclrtStream second = stream_open();
    aclrtEvent e = event_open();
    struct gate gate;
    pthread_t opener;

    gate_hold(&gate, first);
    MUST(aclrtRecordEvent(e, first));
    MUST(aclrtStreamWaitEvent(second, e));
    opener = gate_let_soon(&gate);
    MUST(aclrtDestroyStream(second));
    pthread_join(opener, NULL);
    MUST(aclrtDestroyEvent(e));
    MUST(aclrtDestroyStream(first));
}

/* Records and waits that are queued still happen after an event is destroyed. */
static void event_destroyed_after_its_record_is_queued(bool is_fixed)
{
    aclrtStream first = stream_open();
    aclrtStream second = stream_open();
    aclrtEvent e = event_open();
    void *a = block_open(SIZE);
    struct gate gate;

    gate_hold(&gate, first);
    set_on(first, a);
    MUST(aclrtRecordEvent(e, first));
    MUST(aclrtStreamWaitEvent(second, e));
    MUST(aclrtDestroyEvent(e));
    set_on(second, a);
    gate_let(&gate);
    MUST(aclrtSynchronizeStream(second));
    MUST(aclrtFree(a));
    MUST(aclrtDestroyStream(first));
    MUST(aclrtDestroyStream(second));
}

/* A wait with a time limit fails its stream; then the stream's work is over. */
static void timed_wait_that_failed(bool is_fixed)
{
    aclrtStream stream = stream_open();
    aclrtEvent e = event_open();
    void *a = block_open(SIZE);

    set_on(stream, a);
    MUST(aclrtStreamWaitEventWithTimeout(stream, e, 1));
    if (aclrtSynchronizeStream(stream) == ACL_SUCCESS)
        abort();
    read_back(a);
    MUST(aclrtFree(a));
    MUST(aclrtDestroyStream(stream));
    MUST(aclrtDestroyEvent(e));
}

static void timed_wait_that_failed_on_the_device(bool is_fixed)
{
    aclrtStream stream = stream_open();
    aclrtEvent e = event_open();
    void *a = block_open(SIZE);

    MUST(aclrtSetOpWaitTimeout(1));
    set_on(stream, a);
    MUST(aclrtStreamWaitEvent(stream, e));
    if (aclrtSynchronizeDevice() == ACL_SUCCESS)
        abort();
    MUST(aclrtSetOpWaitTimeout(0));
    MUST(aclrtFree(a));
    MUST(aclrtDestroyStream(stream));
    MUST(aclrtDestroyEvent(e));
}

/* A bounded wait whose timeout the program handles. */
static void bounded_wait(bool is_fixed)
{
    aclrtStream stream = stream_open();
    aclrtEvent e = event_open();

    MUST(aclrtStreamWaitEvent(stream, e));
    if (aclrtSynchronizeStreamWithTimeout(stream, 700) !=
        ACL_ERROR_RT_STREAM_SYNC_TIMEOUT)
        abort();
    MUST(aclrtRecordEvent(e, NULL));
    MUST(aclrtSynchronizeStream(stream));
    MUST(aclrtDestroyStream(stream));
    MUST(aclrtDestroyEvent(e));
}

/* The default stream by its handle, before any call with NULL. */
static void default_stream_by_its_handle(bool is_fixed)
{
    aclrtStream own;
    void *a = block_open(SIZE);
    void *b = block_open(SIZE);

    MUST(aclrtCtxGetCurrentDefaultStream(&own));
    set_on(own, a);
    copy_on(NULL, b, a);
    MUST(aclrtSynchronizeStream(own));
    read_back(b);
    MUST(aclrtFree(a));
    MUST(aclrtFree(b));
}

static void default_stream_of_a_context(bool is_fixed)
{
    aclrtContext before;
    aclrtContext context;
    void *a;

    MUST(aclrtGetCurrentContext(&before));
    a = block_open(SIZE);
    MUST(aclrtCreateContext(&context, 0));
    MUST(aclrtMemsetAsync(a, SIZE, 1, SIZE, NULL));
    MUST(aclrtDestroyContext(context)); /* finishes its default stream */
    MUST(aclrtSetCurrentContext(before));
    MUST(aclrtFree(a));
}

/* Polling that says that all waits are over. */
static void wait_status_polled(bool is_fixed)
{
    aclrtStream first = stream_open();
    aclrtStream second = stream_open();
    aclrtEvent e = event_open();
    aclrtEventWaitStatus status = ACL_EVENT_WAIT_STATUS_NOT_READY;
    void *a = block_open(SIZE);

    set_on(second, a);
    MUST(aclrtRecordEvent(e, first));
    MUST(aclrtStreamWaitEvent(second, e));
    while (status != ACL_EVENT_WAIT_STATUS_COMPLETE)
        MUST(aclrtQueryEventWaitStatus(e, &status));
    MUST(aclrtFree(a));
    MUST(aclrtDestroyEvent(e));
    MUST(aclrtDestroyStream(first));
    MUST(aclrtDestroyStream(second));
}

static void event_polled(bool is_fixed)
{
    aclrtStream stream = stream_open();
    aclrtEvent e = event_open();
    aclrtEventRecordedStatus status = ACL_EVENT_RECORDED_STATUS_NOT_READY;
    void *a = block_open(SIZE);

    set_on(stream, a);
    MUST(aclrtRecordEvent(e, stream));
    while (status != ACL_EVENT_RECORDED_STATUS_COMPLETE)
        MUST(aclrtQueryEventStatus(e, &status));
    MUST(aclrtFree(a));
    MUST(aclrtDestroyEvent(e));
    MUST(aclrtDestroyStream(stream));
}

static void stream_polled(bool is_fixed)
{
    aclrtStream stream = stream_open();
    aclrtStreamStatus status = ACL_STREAM_STATUS_NOT_READY;
    void *a = block_open(SIZE);

    set_on(stream, a);
    while (status != ACL_STREAM_STATUS_COMPLETE)
        MUST(aclrtStreamQuery(stream, &status));
    MUST(aclrtFree(a));
    MUST(aclrtDestroyStream(stream));
}

/* A function tells the host that the work before it is done. */
struct notice {
    _Atomic int is_given;
    void *block;
    aclrtContext context;
};

static void notice_give(void *arg)
{
    atomic_store(&((struct notice *)arg)->is_given, 1);
}

static void function_notifies_the_host(bool is_fixed)
{
    aclrtStream stream = stream_open();
    struct notice notice = {0};
    void *a = block_open(SIZE);

    set_on(stream, a);
    MUST(aclrtLaunchHostFunc(stream, notice_give, &notice));
    while (!atomic_load(&notice.is_given))
        sched_yield();
    read_back(a);
    MUST(aclrtFree(a));
    MUST(aclrtDestroyStream(stream));
}

/* A function uses memory itself; the stream's later work is after it. */
static void block_read(void *arg)
{
    struct notice *notice = arg;

    MUST(aclrtSetCurrentContext(notice->context));
    read_back(notice->block);
    atomic_store(&notice->is_given, 1);
}

static void function_copies(bool is_fixed)
{
    aclrtStream stream = stream_open();
    struct notice notice = {.block = block_open(SIZE)};

    MUST(aclrtGetCurrentContext(&notice.context));
    set_on(stream, notice.block);
    MUST(aclrtLaunchHostFunc(stream, block_read, &notice));
    set_on(stream, notice.block);
    MUST(aclrtSynchronizeStream(stream));
    MUST(aclrtFree(notice.block));
    MUST(aclrtDestroyStream(stream));
}

/* A function waits for another stream; its own stream's later work is after that. */
struct join {
    aclrtStream stream;
};

static void stream_sync(void *arg)
{
    MUST(aclrtSynchronizeStream(((struct join *)arg)->stream));
}

static void function_waits_for_another_stream(bool is_fixed)
{
    aclrtStream stream = stream_open();
    struct join join = {stream_open()};
    void *a = block_open(SIZE);

    set_on(join.stream, a);
    MUST(aclrtLaunchHostFunc(stream, stream_sync, &join));
    set_on(stream, a);
    MUST(aclrtSynchronizeStream(stream));
    MUST(aclrtFree(a));
    MUST(aclrtDestroyStream(stream));
    MUST(aclrtDestroyStream(join.stream));
}

/* The function writes pinned memory that work behind it on its stream reads. */
static void bytes_write(void *arg)
{
    memset(arg, 7, 4 * SIZE);
}

static void function_writes_for_the_work_behind_it(bool is_fixed)
{
    aclrtStream stream = stream_open();
    void *host = host_open(4 * SIZE);
    void *a = block_open(4 * SIZE);

    MUST(aclrtLaunchHostFunc(stream, bytes_write, host));
    MUST(
        aclrtMemcpyAsync(a, 4 * SIZE, host, 4 * SIZE, ACL_MEMCPY_HOST_TO_DEVICE, stream));
    MUST(aclrtSynchronizeStream(stream));
    MUST(aclrtFree(a));
    MUST(aclrtFreeHost(host));
    MUST(aclrtDestroyStream(stream));
}

/* A function that waits for a thread of the program, as the option declares. */
static void function_that_waits(bool is_fixed)
{
    aclrtStream stream = stream_open();
    void *a = block_open(SIZE);
    struct gate gate;

    gate_hold(&gate, stream);
    set_on(stream, a);
    MUST(aclrtMemset(a, SIZE, 2, SIZE)); /* before the gate opens */
    gate_let(&gate);
    MUST(aclrtSynchronizeStream(stream));
    MUST(aclrtFree(a));
    MUST(aclrtDestroyStream(stream));
}

/* The same, as the function declares. */
static void wait_and_declare(void *arg)
{
    struct gate *gate = arg;

    while (!atomic_load(&gate->is_open))
        sched_yield();
    aclmem_check_function_waited();
}

static void function_that_declares_its_wait(bool is_fixed)
{
    aclrtStream stream = stream_open();
    void *a = block_open(SIZE);
    struct gate gate = {0};

    MUST(aclrtLaunchHostFunc(stream, wait_and_declare, &gate));
    set_on(stream, a);
    MUST(aclrtMemset(a, SIZE, 2, SIZE)); /* before the gate opens */
    gate_let(&gate);
    MUST(aclrtSynchronizeStream(stream));
    MUST(aclrtFree(a));
    MUST(aclrtDestroyStream(stream));
}

/* Memory orders two streams, and a third is ordered by an event behind. */
static void values(bool is_fixed)
{
    aclrtStream s[3] = {stream_open(), stream_open(), stream_open()};
    aclrtEvent e = event_open();
    void *a = block_open(SIZE);
    void *b = block_open(SIZE);
    void *flag = block_open(64);

    MUST(aclrtMemset(flag, 64, 0, 64));
    set_on(s[0], a);
    MUST(aclrtValueWrite(flag, 1, 0, s[0]));
    MUST(aclrtValueWait(flag, 1, ACL_VALUE_WAIT_EQ, s[1]));
    copy_on(s[1], b, a);
    MUST(aclrtRecordEvent(e, s[1]));
    MUST(aclrtStreamWaitEvent(s[2], e));
    set_on(s[2], a);
    MUST(aclrtSynchronizeStream(s[2]));
    read_back(a);
    MUST(aclrtFree(a));
    MUST(aclrtFree(b));
    MUST(aclrtFree(flag));
    MUST(aclrtDestroyEvent(e));
    for (int i = 0; i < 3; i++)
        MUST(aclrtDestroyStream(s[i]));
}

/* The wait is queued first, for the second of two values. */
static void value_waited_for_first(bool is_fixed)
{
    aclrtStream first = stream_open();
    aclrtStream second = stream_open();
    void *a = block_open(SIZE);
    void *flag = block_open(64);

    MUST(aclrtMemset(flag, 64, 0, 64));
    MUST(aclrtValueWait(flag, 2, ACL_VALUE_WAIT_GEQ, second));
    set_on(second, a);
    MUST(aclrtValueWrite(flag, 1, 0, first));
    set_on(first, a);
    MUST(aclrtValueWrite(flag, 2, 0, first));
    MUST(aclrtSynchronizeStream(second));
    read_back(a);
    MUST(aclrtFree(a));
    MUST(aclrtFree(flag));
    MUST(aclrtDestroyStream(first));
    MUST(aclrtDestroyStream(second));
}

/* A flag that the host clears, by a fill or a copy, and that a stream sets again. */
static void value_that_the_host_clears(bool is_fixed)
{
    aclrtStream first = stream_open();
    aclrtStream second = stream_open();
    void *a = block_open(SIZE);
    void *flag = block_open(64);
    uint64_t zero = 0;

    for (int i = 0; i < 4; i++) {
        if (i % 2 == 0)
            MUST(aclrtMemset(flag, 64, 0, 64));
        else
            MUST(aclrtMemcpy(flag, 64, &zero, sizeof zero, ACL_MEMCPY_HOST_TO_DEVICE));
        MUST(aclrtValueWait(flag, 1, ACL_VALUE_WAIT_EQ, second));
        set_on(second, a);
        set_on(first, a);
        MUST(aclrtValueWrite(flag, 1, 0, first));
        MUST(aclrtSynchronizeStream(second));
    }
    read_back(a);
    MUST(aclrtDestroyStream(first));
    MUST(aclrtDestroyStream(second));
    MUST(aclrtFree(a));
    MUST(aclrtFree(flag));
}

/* A captured fill clears a flag, in each replay. */
static void value_that_a_model_clears(bool is_fixed)
{
    aclrtStream first = stream_open();
    aclrtStream second = stream_open();
    void *a = block_open(SIZE);
    void *flag = block_open(64);
    aclmdlRI model;

    MUST(aclrtMemset(flag, 64, 0, 64));
    MUST(aclmdlRICaptureBegin(second, ACL_MODEL_RI_CAPTURE_MODE_RELAXED));
    MUST(aclrtMemsetAsync(flag, 64, 0, 64, second));
    MUST(aclmdlRICaptureEnd(second, &model));
    for (int i = 0; i < 3; i++) {
        set_on(first, a);
        MUST(aclrtValueWrite(flag, 1, 0, first));
        MUST(aclrtValueWait(flag, 1, ACL_VALUE_WAIT_EQ, second));
        set_on(second, a);
        MUST(aclmdlRIExecuteAsync(model, second));
        MUST(aclrtSynchronizeStream(second));
    }
    read_back(a);
    MUST(aclmdlRIDestroy(model));
    MUST(aclrtDestroyStream(first));
    MUST(aclrtDestroyStream(second));
    MUST(aclrtFree(a));
    MUST(aclrtFree(flag));
}

/* The stream that waited for a flag clears it, and hands the work back by an event. */
static void value_that_the_waiter_clears(bool is_fixed)
{
    aclrtStream first = stream_open();
    aclrtStream second = stream_open();
    aclrtEvent back = event_open();
    void *a = block_open(SIZE);
    void *flag = block_open(64);

    MUST(aclrtMemset(flag, 64, 0, 64));
    for (int i = 0; i < 10; i++) {
        set_on(first, a);
        MUST(aclrtValueWrite(flag, 1, 0, first));
        MUST(aclrtValueWait(flag, 1, ACL_VALUE_WAIT_EQ, second));
        set_on(second, a);
        MUST(aclrtValueWrite(flag, 0, 0, second));
        MUST(aclrtRecordEvent(back, second));
        MUST(aclrtStreamWaitEvent(first, back));
    }
    MUST(aclrtSynchronizeStream(first));
    read_back(a);
    MUST(aclrtDestroyEvent(back));
    MUST(aclrtDestroyStream(first));
    MUST(aclrtDestroyStream(second));
    MUST(aclrtFree(a));
    MUST(aclrtFree(flag));
}

/* The host reads a value until a stream has written it. */
static void value_that_the_host_polls(bool is_fixed)
{
    aclrtStream stream = stream_open();
    void *a = block_open(SIZE);
    void *flag = block_open(64);
    uint64_t value = 0;

    MUST(aclrtMemset(flag, 64, 0, 64));
    set_on(stream, a);
    MUST(aclrtValueWrite(flag, 7, 0, stream));
    while (value != 7)
        MUST(aclrtMemcpy(&value, sizeof value, flag, sizeof value,
                         ACL_MEMCPY_DEVICE_TO_HOST));
    read_back(a);
    MUST(aclrtFree(flag));
    MUST(aclrtFree(a));
    MUST(aclrtDestroyStream(stream));
}

/* The stream that waited is waited for, so the word is not in use any more. */
static void value_freed_behind_the_waiter(bool is_fixed)
{
    aclrtStream first = stream_open();
    aclrtStream second = stream_open();
    struct gate gate;

    for (int i = 0; i < 2; i++) {
        void *flag = block_open(64);

        gate_hold(&gate, first);
        MUST(aclrtValueWrite(flag, 1, 0, first));
        MUST(aclrtValueWait(flag, 1, ACL_VALUE_WAIT_EQ, second));
        gate_let(&gate);
        if (i == 0)
            MUST(aclrtSynchronizeStream(second));
        MUST(i == 0 ? aclrtFree(flag) : aclrtFreeWithDevSync(flag));
    }
    MUST(aclrtDestroyStream(first));
    MUST(aclrtDestroyStream(second));
}

/* A copy is queued before the bytes are written that it is to read. */
static void copy_queued_before_its_source(bool is_fixed)
{
    aclrtStream first = stream_open();
    aclrtStream second = stream_open();
    aclrtNotify notify;
    void *a = block_open(SIZE);
    void *b = block_open(SIZE);
    void *host = host_open(SIZE);
    uint64_t value;

    MUST(aclrtCreateNotify(&notify, 0));
    MUST(aclrtWaitAndResetNotify(notify, second, 0));
    MUST(aclrtMemcpyAsync(b, SIZE, a, SIZE, ACL_MEMCPY_DEVICE_TO_DEVICE, second));
    MUST(aclrtMemcpyAsync(host, SIZE, a, SIZE, ACL_MEMCPY_DEVICE_TO_HOST, second));
    set_on(first, a);
    MUST(aclrtRecordNotify(notify, first));
    MUST(aclrtSynchronizeStream(second));
    read_back(b);
    MUST(aclrtDestroyNotify(notify));
    MUST(aclrtFree(a));
    a = block_open(64);
    MUST(aclrtValueWrite(a, 1, 0, first));
    MUST(aclrtSynchronizeStream(first));
    MUST(aclrtMemcpy(&value, sizeof value, a, sizeof value, ACL_MEMCPY_DEVICE_TO_HOST));
    MUST(aclrtFree(a));
    MUST(aclrtFree(b));
    MUST(aclrtFreeHost(host));
    MUST(aclrtDestroyStream(first));
    MUST(aclrtDestroyStream(second));
}

/* An event is reset on the stream that waited for it, and used again. */
static void event_reset(bool is_fixed)
{
    aclrtStream first = stream_open();
    aclrtStream second = stream_open();
    aclrtEvent there = event_open();
    aclrtEvent back = event_open();
    void *a = block_open(SIZE);

    for (int i = 0; i < 3; i++) {
        set_on(first, a);
        MUST(aclrtRecordEvent(there, first));
        MUST(aclrtStreamWaitEvent(second, there));
        MUST(aclrtResetEvent(there, second));
        set_on(second, a);
        MUST(aclrtRecordEvent(back, second));
        MUST(aclrtStreamWaitEvent(first, back));
        MUST(aclrtResetEvent(back, first));
    }
    MUST(aclrtSynchronizeStream(first));
    MUST(aclrtFree(a));
    MUST(aclrtDestroyEvent(there));
    MUST(aclrtDestroyEvent(back));
    MUST(aclrtDestroyStream(first));
    MUST(aclrtDestroyStream(second));
}

/* Two streams hand a block to and fro with notifies. */
static void notifies(bool is_fixed)
{
    aclrtStream first = stream_open();
    aclrtStream second = stream_open();
    aclrtNotify there;
    aclrtNotify back;
    void *a = block_open(SIZE);

    MUST(aclrtCreateNotify(&there, 0));
    MUST(aclrtCreateNotify(&back, 0));
    for (int i = 0; i < 3; i++) {
        set_on(first, a);
        MUST(aclrtRecordNotify(there, first));
        MUST(aclrtWaitAndResetNotify(there, second, 0));
        set_on(second, a);
        MUST(aclrtRecordNotify(back, second));
        MUST(aclrtWaitAndResetNotify(back, first, 0));
    }
    MUST(aclrtSynchronizeStream(first));
    MUST(aclrtFree(a));
    MUST(aclrtDestroyNotify(there));
    MUST(aclrtDestroyNotify(back));
    MUST(aclrtDestroyStream(first));
    MUST(aclrtDestroyStream(second));
}

/* Eight streams read what one writes; then it writes again, after all of them. */
static void many_readers(bool is_fixed)
{
    aclrtStream writer = stream_open();
    aclrtStream reader[8];
    aclrtEvent ready = event_open();
    aclrtEvent done[8];
    void *a = block_open(SIZE);
    void *b[8];

    set_on(writer, a);
    MUST(aclrtRecordEvent(ready, writer));
    for (int i = 0; i < 8; i++) {
        reader[i] = stream_open();
        done[i] = event_open();
        b[i] = block_open(SIZE);
        MUST(aclrtStreamWaitEvent(reader[i], ready));
        copy_on(reader[i], b[i], a);
        MUST(aclrtRecordEvent(done[i], reader[i]));
        MUST(aclrtStreamWaitEvent(writer, done[i]));
    }
    set_on(writer, a);
    MUST(aclrtSynchronizeStream(writer));
    for (int i = 0; i < 8; i++) {
        MUST(aclrtFree(b[i]));
        MUST(aclrtDestroyEvent(done[i]));
        MUST(aclrtDestroyStream(reader[i]));
    }
    MUST(aclrtFree(a));
    MUST(aclrtDestroyEvent(ready));
    MUST(aclrtDestroyStream(writer));
}

/* A thread queues, another one waits, a third one frees. */
struct hand {
    aclrtContext context;
    aclrtStream stream;
    void *block;
};

static void *hand_sync(void *arg)
{
    struct hand *hand = arg;

    MUST(aclrtSetCurrentContext(hand->context));
    MUST(aclrtSynchronizeStream(hand->stream));
    return NULL;
}

static void *hand_free(void *arg)
{
    struct hand *hand = arg;

    MUST(aclrtSetCurrentContext(hand->context));
    MUST(aclrtFree(hand->block));
    return NULL;
}

static void threads_share_the_work(bool is_fixed)
{
    struct hand hand = {.stream = stream_open(), .block = block_open(SIZE)};

    MUST(aclrtGetCurrentContext(&hand.context));
    set_on(hand.stream, hand.block);
    thread_run(hand_sync, &hand);
    thread_run(hand_free, &hand);
    MUST(aclrtDestroyStream(hand.stream));
}

/* Nothing waits for the stream but its end. */
static void stream_destroyed_at_once(bool is_fixed)
{
    aclrtStream stream = stream_open();
    void *a = block_open(SIZE);

    set_on(stream, a);
    MUST(aclrtDestroyStream(stream));
    MUST(aclrtFree(a));
}

/* The events of a pair of times: both have run. */
static void elapsed_time(bool is_fixed)
{
    aclrtStream stream = stream_open();
    aclrtEvent start = event_open();
    aclrtEvent end = event_open();
    void *a = block_open(SIZE);
    float ms;

    MUST(aclrtRecordEvent(start, stream));
    set_on(stream, a);
    MUST(aclrtRecordEvent(end, stream));
    MUST(aclrtSynchronizeEvent(end));
    MUST(aclrtEventElapsedTime(&ms, start, end));
    MUST(aclrtFree(a));
    MUST(aclrtDestroyEvent(start));
    MUST(aclrtDestroyEvent(end));
    MUST(aclrtDestroyStream(stream));
}

struct value {
    aclrtContext context;
    aclrtStream stream;
    void *block;
};

static void value_pass(void *arg)
{
    const struct value *value = arg;

    MUST(aclrtSetCurrentContext(value->context));
    MUST(aclrtValueWrite(value->block, 1, 0, value->stream));
    MUST(aclrtValueWait(value->block, 1, ACL_VALUE_WAIT_EQ, value->stream));
}

/* The calls of a function add nothing to the memory that its declaration names. */
static void value_in_a_declared_function(bool is_fixed)
{
    aclrtStream stream = stream_open();
    struct value value = {.stream = stream_open(), .block = block_open(SIZE)};
    aclmem_access access = {value.block, 8, ACLMEM_ACCESS_WRITE, 0, NULL, NULL};

    MUST(aclrtGetCurrentContext(&value.context));
    aclmem_declare_access(&access, 1);
    MUST(aclrtLaunchHostFunc(stream, value_pass, &value));
    MUST(aclrtSynchronizeStream(stream));
    MUST(aclrtSynchronizeStream(value.stream));
    MUST(aclrtFree(value.block));
    MUST(aclrtDestroyStream(stream));
    MUST(aclrtDestroyStream(value.stream));
}

const struct bug legal_order[] = {
    LEGAL("event_recorded_again", event_recorded_again),
    LEGAL("event_recorded_again_behind_a_function",
          event_recorded_again_behind_a_function),
    LEGAL("stream_destroyed_behind_a_function", stream_destroyed_behind_a_function),
    LEGAL("event_destroyed_after_its_record_is_queued",
          event_destroyed_after_its_record_is_queued),
    LEGAL("timed_wait_that_failed", timed_wait_that_failed),
    LEGAL("timed_wait_that_failed_on_the_device", timed_wait_that_failed_on_the_device),
    LEGAL("bounded_wait", bounded_wait, "--check all --stall-timeout 0"),
    LEGAL("default_stream_by_its_handle", default_stream_by_its_handle),
    LEGAL("default_stream_of_a_context", default_stream_of_a_context),
    LEGAL("wait_status_polled", wait_status_polled),
    LEGAL("event_polled", event_polled),
    LEGAL("stream_polled", stream_polled),
    LEGAL("function_notifies_the_host", function_notifies_the_host),
    LEGAL("function_copies", function_copies),
    LEGAL("function_waits_for_another_stream", function_waits_for_another_stream),
    LEGAL("function_writes_for_the_work_behind_it",
          function_writes_for_the_work_behind_it),
    LEGAL("function_that_waits", function_that_waits, "--check all --functions-wait"),
    LEGAL("function_that_declares_its_wait", function_that_declares_its_wait),
    LEGAL("values", values),
    LEGAL("value_waited_for_first", value_waited_for_first),
    LEGAL("value_that_the_host_clears", value_that_the_host_clears),
    LEGAL("value_that_a_model_clears", value_that_a_model_clears),
    LEGAL("value_that_the_waiter_clears", value_that_the_waiter_clears),
    LEGAL("value_that_the_host_polls", value_that_the_host_polls),
    LEGAL("value_freed_behind_the_waiter", value_freed_behind_the_waiter),
    LEGAL("copy_queued_before_its_source", copy_queued_before_its_source),
    LEGAL("event_reset", event_reset),
    LEGAL("notifies", notifies),
    LEGAL("many_readers", many_readers),
    LEGAL("threads_share_the_work", threads_share_the_work),
    LEGAL("stream_destroyed_at_once", stream_destroyed_at_once),
    LEGAL("elapsed_time", elapsed_time),
    LEGAL("value_in_a_declared_function", value_in_a_declared_function),
    {.name = NULL},
};
