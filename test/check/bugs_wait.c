/*
 * Waits that nothing ends.  A second thread ends the wait when the layer has reported it;
 * calls in a cycle of waits have a time limit.
 */
#include "bugs.h"

#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "aclmem/aclmem.h"

#define LIMIT 3000 /* milliseconds */

/* Records the event or notify on the stream after the first finding. */
struct rescue {
    pthread_t thread;
    aclrtStream stream;
    aclrtEvent event;
    aclrtNotify notify;
};

static void *rescue_main(void *arg)
{
    const struct rescue *rescue = arg;
    bool is_found = false;
    char *found;

    /* The layer sends no message: polled, a minute at most. */
    for (int i = 0; i < 6000 && !is_found; i++) {
        MUST(aclmem_check_findings(&found));
        is_found = strcmp(found, "[]") != 0;
        free(found);
        usleep(10000);
    }
    if (rescue->event != NULL)
        MUST(aclrtRecordEvent(rescue->event, rescue->stream));
    else
        MUST(aclrtRecordNotify(rescue->notify, rescue->stream));
    return NULL;
}

static void rescue_begin(struct rescue *rescue)
{
    MUST(aclmem_check_begin(0));
    rescue->stream = stream_open();
    if (pthread_create(&rescue->thread, NULL, rescue_main, rescue) != 0)
        abort();
}

static void rescue_end(struct rescue *rescue)
{
    char *found;

    pthread_join(rescue->thread, NULL);
    MUST(aclrtDestroyStream(rescue->stream));
    MUST(aclmem_check_end(0, &found));
    free(found);
}

MISTAKE void wait_for(aclrtStream stream)
{
    MUST(aclrtSynchronizeStream(stream));
}

MISTAKE void wait_for_a_while(aclrtStream stream)
{
    aclrtSynchronizeStreamWithTimeout(stream, LIMIT);
}

/* A wait for an event that no stream records. */
static void event_that_nobody_records(bool is_fixed)
{
    aclrtStream stream = stream_open();
    struct rescue rescue = {0};
    aclrtEvent event;

    MUST(aclrtCreateEvent(&event));
    if (is_fixed)
        MUST(aclrtRecordEvent(event, stream));
    MUST(aclrtStreamWaitEvent(stream, event));
    rescue.event = event;
    if (!is_fixed)
        rescue_begin(&rescue);
    wait_for(stream);
    if (!is_fixed)
        rescue_end(&rescue);
    MUST(aclrtDestroyEvent(event));
    MUST(aclrtDestroyStream(stream));
}

/* Two waits for a notify, and one record. */
static void one_record_for_two(bool is_fixed)
{
    aclrtStream stream = stream_open();
    aclrtStream other = stream_open();
    struct rescue rescue = {0};
    aclrtNotify notify;

    MUST(aclrtCreateNotify(&notify, 0));
    MUST(aclrtRecordNotify(notify, other));
    MUST(aclrtWaitAndResetNotify(notify, stream, 0));
    if (is_fixed)
        MUST(aclrtRecordNotify(notify, stream));
    MUST(aclrtWaitAndResetNotify(notify, stream, 0));
    rescue.notify = notify;
    if (!is_fixed)
        rescue_begin(&rescue);
    wait_for(stream);
    if (!is_fixed)
        rescue_end(&rescue);
    MUST(aclrtDestroyNotify(notify));
    MUST(aclrtDestroyStream(stream));
    MUST(aclrtDestroyStream(other));
}

MISTAKE void wait_for_event(aclrtEvent event)
{
    MUST(aclrtSynchronizeEvent(event));
}

/* The host waits for an event that was never recorded. */
static void event_of_the_host(bool is_fixed)
{
    aclrtStream stream = stream_open();
    struct rescue rescue = {0};
    aclrtEvent event;

    MUST(aclrtCreateEvent(&event));
    if (is_fixed)
        MUST(aclrtRecordEvent(event, stream));
    rescue.event = event;
    if (!is_fixed)
        rescue_begin(&rescue);
    wait_for_event(event);
    if (!is_fixed)
        rescue_end(&rescue);
    MUST(aclrtDestroyEvent(event));
    MUST(aclrtDestroyStream(stream));
}

/* ---- every call that waits ---- */

/* A stream with work behind a wait for the event, and what it uses. */
struct stalled {
    aclrtContext context; /* of the stream, if the call destroys the context */
    aclrtStream stream;
    aclrtEvent event;
    void *block;
    void *pinned;
    void *own; /* registered */
};

#define DESTROY_CONTEXT 2

static void stalled_open(struct stalled *x, int which, bool is_fixed)
{
    void *device;

    if (which == DESTROY_CONTEXT)
        MUST(aclrtCreateContext(&x->context, 0));
    x->stream = stream_open();
    MUST(aclrtCreateEvent(&x->event));
    x->block = block_open(4096);
    x->pinned = host_open(4096);
    x->own = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    MUST(aclrtHostRegister(x->own, 4096, ACL_HOST_REGISTER_MAPPED, &device));
    if (is_fixed)
        MUST(aclrtRecordEvent(x->event, x->stream));
    MUST(aclrtStreamWaitEvent(x->stream, x->event));
    MUST(aclrtMemcpyAsync(x->block, 4096, x->own, 4096, ACL_MEMCPY_HOST_TO_DEVICE,
                          x->stream));
}

MISTAKE void wait_in_a_call(struct stalled *x, int which)
{
    char own[64];

    switch (which) {
    case 0:
        MUST(aclrtFreeWithDevSync(x->block));
        x->block = NULL;
        break;
    case 1:
        MUST(aclrtFreeHostWithDevSync(x->pinned));
        x->pinned = NULL;
        break;
    case DESTROY_CONTEXT:
        MUST(aclrtDestroyContext(x->context));
        x->stream = NULL;
        break;
    case 3:
        MUST(aclrtHostUnregister(x->own));
        munmap(x->own, 4096);
        x->own = NULL;
        break;
    case 4:
        MUST(aclrtMemcpyAsync(own, sizeof own, x->block, sizeof own,
                              ACL_MEMCPY_DEVICE_TO_HOST, x->stream));
        break;
    case 5:
        MUST(aclrtSynchronizeDevice());
        break;
    }
}

static void stalled_close(struct stalled *x)
{
    if (x->stream != NULL) {
        MUST(aclrtSynchronizeStream(x->stream));
        MUST(aclrtDestroyStream(x->stream));
    }
    MUST(aclrtDestroyEvent(x->event));
    if (x->block != NULL)
        MUST(aclrtFree(x->block));
    if (x->pinned != NULL)
        MUST(aclrtFreeHost(x->pinned));
    if (x->own != NULL) {
        MUST(aclrtHostUnregister(x->own));
        munmap(x->own, 4096);
    }
}

static void stalled(bool is_fixed, int which)
{
    struct rescue rescue = {0};
    struct stalled x;
    aclrtContext first;

    MUST(aclrtGetCurrentContext(&first));
    stalled_open(&x, which, is_fixed);
    MUST(aclrtSetCurrentContext(first)); /* not the one that is destroyed */
    rescue.event = x.event;
    if (!is_fixed)
        rescue_begin(&rescue);
    wait_in_a_call(&x, which);
    if (!is_fixed)
        rescue_end(&rescue);
    stalled_close(&x);
}

#define STALLED(name_, which_) \
    static void name_(bool is_fixed) \
    { \
        stalled(is_fixed, which_); \
    }
STALLED(free_with_sync, 0)
STALLED(free_host_with_sync, 1)
STALLED(destroy_context, DESTROY_CONTEXT)
STALLED(unregister, 3)
STALLED(copy_of_own_memory, 4)
STALLED(whole_device, 5)

/* ---- deadlock ---- */

MISTAKE void wait_inside(void *arg)
{
    aclrtSynchronizeStream(arg); /* refused */
}

static void wait_nothing(void *arg)
{
}

/* A function waits for its own stream. */
static void function_of_its_stream(bool is_fixed)
{
    aclrtStream stream = stream_open();

    MUST(aclrtLaunchHostFunc(stream, is_fixed ? wait_nothing : wait_inside, stream));
    MUST(aclrtSynchronizeStream(stream));
    MUST(aclrtDestroyStream(stream));
}

/* n streams, each of which waits for the next before it records its own. */
static void circle(int n, bool is_fixed)
{
    aclrtStream stream[4];
    aclrtEvent event[4];

    for (int i = 0; i < n; i++) {
        stream[i] = stream_open();
        MUST(aclrtCreateEvent(&event[i]));
    }
    for (int i = 0; i < n; i++) {
        if (is_fixed)
            MUST(aclrtRecordEvent(event[i], stream[i]));
        MUST(aclrtStreamWaitEvent(stream[i], event[(i + 1) % n]));
        if (!is_fixed)
            MUST(aclrtRecordEvent(event[i], stream[i]));
    }
    wait_for_a_while(stream[0]);
    for (int i = 0; i < n && !is_fixed; i++)
        MUST(aclrtStreamAbort(stream[i]));
    aclrtSynchronizeDevice(); /* fails where records were dropped */
    for (int i = 0; i < n; i++) {
        MUST(aclrtDestroyEvent(event[i]));
        MUST(aclrtDestroyStream(stream[i]));
    }
}

static void two_streams(bool is_fixed)
{
    circle(2, is_fixed);
}

static void three_streams(bool is_fixed)
{
    circle(3, is_fixed);
}

/* A circle of notifies, waited for as a whole device. */
MISTAKE void wait_for_device(void)
{
    aclrtSynchronizeDeviceWithTimeout(LIMIT);
}

static void notifies(bool is_fixed)
{
    aclrtStream first = stream_open();
    aclrtStream second = stream_open();
    aclrtNotify here;
    aclrtNotify there;

    MUST(aclrtCreateNotify(&here, 0));
    MUST(aclrtCreateNotify(&there, 0));
    if (is_fixed)
        MUST(aclrtRecordNotify(there, first));
    MUST(aclrtWaitAndResetNotify(here, first, 0));
    if (!is_fixed)
        MUST(aclrtRecordNotify(there, first));
    MUST(aclrtWaitAndResetNotify(there, second, 0));
    MUST(aclrtRecordNotify(here, second));
    wait_for_device();
    if (!is_fixed) {
        MUST(aclrtStreamAbort(first));
        MUST(aclrtStreamAbort(second));
    }
    MUST(aclrtDestroyNotify(here));
    MUST(aclrtDestroyNotify(there));
    MUST(aclrtDestroyStream(first));
    MUST(aclrtDestroyStream(second));
}

/* The parent waited, and stopped the library; the child starts it again. */
static void in_a_child(bool is_fixed)
{
    int status;
    pid_t pid;

    MUST(aclrtSynchronizeDevice());
    MUST(aclrtResetDevice(0));
    MUST(aclFinalize());
    pid = fork();
    if (pid == 0) {
        MUST(aclInit(NULL));
        MUST(aclrtSetDevice(0));
        event_that_nobody_records(is_fixed);
        MUST(aclrtResetDevice(0));
        MUST(aclFinalize());
        exit(0);
    }
    if (waitpid(pid, &status, 0) != pid || status != 0)
        abort();
    MUST(aclInit(NULL));
    MUST(aclrtSetDevice(0));
}

/* A copy that waits was refused in a capture: later waits are still watched. */
static void behind_a_capture(bool is_fixed)
{
    aclrtStream stream = stream_open();
    void *block = block_open(64);
    aclmdlRI model = NULL;
    char own[64] = "";

    MUST(aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_RELAXED));
    (void)aclrtMemcpyAsync(block, sizeof own, own, sizeof own, ACL_MEMCPY_HOST_TO_DEVICE,
                           stream);
    (void)aclmdlRICaptureEnd(stream, &model);
    event_that_nobody_records(is_fixed);
    MUST(aclrtFree(block));
    MUST(aclrtDestroyStream(stream));
}

const struct bug wait_bugs[] = {
    BUG("wait-never/event", event_that_nobody_records, "wait-never",
        "and nothing that is queued records event", "wait_for",
        .options = "--patience 0"),
    BUG("wait-never/notify", one_record_for_two, "wait-never",
        "and nothing that is queued records notify", "wait_for",
        .options = "--stall-timeout 0"),
    BUG("wait-never/host", event_of_the_host, "wait-never", "the host waits for event",
        "wait_for_event", .options = "--stall-timeout 0"),
    BUG("wait-never/free", free_with_sync, "wait-never",
        "and nothing that is queued records event", "wait_in_a_call",
        .options = "--stall-timeout 0"),
    BUG("wait-never/free-host", free_host_with_sync, "wait-never",
        "and nothing that is queued records event", "wait_in_a_call",
        .options = "--stall-timeout 0"),
    BUG("wait-never/context", destroy_context, "wait-never",
        "and nothing that is queued records event", "wait_in_a_call",
        .options = "--stall-timeout 0"),
    BUG("wait-never/unregister", unregister, "wait-never",
        "and nothing that is queued records event", "wait_in_a_call",
        .options = "--stall-timeout 0"),
    BUG("wait-never/copy", copy_of_own_memory, "wait-never",
        "and nothing that is queued records event", "wait_in_a_call",
        .options = "--stall-timeout 0"),
    BUG("wait-never/device", whole_device, "wait-never",
        "and nothing that is queued records event", "wait_in_a_call",
        .options = "--stall-timeout 0"),
    BUG("wait-never/behind-capture", behind_a_capture, "wait-never",
        "and nothing that is queued records event", "wait_for",
        .options = "--check all,no-capture-lost --stall-timeout 0"),
    BUG("wait-never/child", in_a_child, "wait-never",
        "and nothing that is queued records event", "wait_for",
        .options = "--stall-timeout 0"),
    BUG("deadlock/function", function_of_its_stream, "deadlock",
        "waits for work that is queued behind it", "wait_inside"),
    BUG("deadlock/two", two_streams, "deadlock", "and so back to the first",
        "wait_for_a_while", .options = "--stall-timeout 0"),
    BUG("deadlock/three", three_streams, "deadlock", "and so back to the first",
        "wait_for_a_while", .options = "--stall-timeout 0"),
    BUG("deadlock/notify", notifies, "deadlock", "waits for notify", "wait_for_device",
        .options = "--stall-timeout 0"),
    {.name = NULL},
};
