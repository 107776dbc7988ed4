/*
 * What may be called while a stream is captured.
 *
 * Each row of the table is a call.  Each row is run in a capture of each of the three
 * modes, by the thread that began the capture and by another thread, and the code, the
 * message and the state of the capture afterwards are compared.  A refused call
 * invalidates the capture: aclmdlRICaptureEnd then fails, and the stream can be used and
 * captured again.
 */
#include "support/blocks.h"
#include "support/capture.h"
#include "support/process.h"
#include "support/vmm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SIZE 4096

static struct scene {
    aclrtContext context;
    aclrtStream stream; /* it is captured */
    aclrtStream other;  /* it is not */
    aclrtStream side;   /* it joins where a row says so */
    aclrtEvent inside;  /* recorded in the capture */
    aclrtEvent outside; /* recorded on the other stream, before the capture */
    aclrtEvent ex, ipc;
    char *a, *b; /* device memory */
    char *pinned;
    char *pageable;
    uint64_t *value;
} on;

/* ---- the calls ---- */

static aclError copy_device(aclrtStream stream)
{
    return aclrtMemcpyAsync(on.b, SIZE, on.a, SIZE, ACL_MEMCPY_DEVICE_TO_DEVICE, stream);
}

static aclError copy_from(void *host, aclrtStream stream)
{
    return aclrtMemcpyAsync(on.a, SIZE, host, SIZE, ACL_MEMCPY_HOST_TO_DEVICE, stream);
}

static aclError copy_to(void *host, aclrtStream stream)
{
    return aclrtMemcpyAsync(host, SIZE, on.a, SIZE, ACL_MEMCPY_DEVICE_TO_HOST, stream);
}

static aclError copy_2d_from(void *host, aclrtStream stream)
{
    return aclrtMemcpy2dAsync(on.a, 64, host, 64, 32, 4, ACL_MEMCPY_HOST_TO_DEVICE,
                              stream);
}

static aclError copy_batch_from(void *host, aclrtStream stream)
{
    aclrtMemcpyBatchAttr attr = {.dstLoc = {0, ACL_MEM_LOCATION_TYPE_DEVICE},
                                 .srcLoc = {0, ACL_MEM_LOCATION_TYPE_HOST}};
    size_t size = SIZE, at = 0, failed = 0;
    void *dst = on.a;

    return aclrtMemcpyBatchAsync(&dst, &size, &host, &size, 1, &attr, &at, 1, &failed,
                                 stream);
}

static void do_nothing(void *arg)
{
}

/* On a stream of the capture. */
static aclError captured_copy(void)
{
    return copy_device(on.stream);
}

static aclError captured_copy_in(void)
{
    return copy_from(on.pinned, on.stream);
}

static aclError captured_copy_out(void)
{
    return copy_to(on.pinned, on.stream);
}

static aclError captured_copy_2d(void)
{
    return copy_2d_from(on.pinned, on.stream);
}

static aclError captured_copy_batch(void)
{
    return copy_batch_from(on.pinned, on.stream);
}

static aclError captured_memset(void)
{
    return aclrtMemsetAsync(on.a, SIZE, 1, SIZE, on.stream);
}

static aclError captured_pageable_in(void)
{
    return copy_from(on.pageable, on.stream);
}

static aclError captured_pageable_out(void)
{
    return copy_to(on.pageable, on.stream);
}

static aclError captured_pageable_2d(void)
{
    return copy_2d_from(on.pageable, on.stream);
}

static aclError captured_pageable_batch(void)
{
    return copy_batch_from(on.pageable, on.stream);
}

static aclError captured_record(void)
{
    return aclrtRecordEvent(on.inside, on.stream);
}

static aclError captured_wait(void)
{
    return aclrtStreamWaitEvent(on.stream, on.inside);
}

static aclError captured_reset(void)
{
    return aclrtResetEvent(on.inside, on.stream);
}

static aclError captured_value_write(void)
{
    return aclrtValueWrite(on.value, 1, 0, on.stream);
}

static aclError captured_value_wait(void)
{
    return aclrtValueWait(on.value, 1, ACL_STREAM_WAIT_VALUE_EQ, on.stream);
}

static aclError captured_function(void)
{
    return aclrtLaunchHostFunc(on.stream, do_nothing, NULL);
}

static aclError sync_captured(void)
{
    return aclrtSynchronizeStream(on.stream);
}

static aclError sync_captured_for_a_time(void)
{
    return aclrtSynchronizeStreamWithTimeout(on.stream, 10);
}

static aclError query_captured(void)
{
    aclrtStreamStatus status;

    return aclrtStreamQuery(on.stream, &status);
}

static aclError sync_captured_event(void)
{
    return aclrtSynchronizeEvent(on.inside);
}

static aclError sync_captured_event_for_a_time(void)
{
    return aclrtSynchronizeEventWithTimeout(on.inside, 10);
}

static aclError query_captured_event(void)
{
    aclrtEventRecordedStatus status;

    return aclrtQueryEventStatus(on.inside, &status);
}

static aclError query_captured_waits(void)
{
    aclrtEventWaitStatus status;

    return aclrtQueryEventWaitStatus(on.inside, &status);
}

static aclError set_attribute(void)
{
    aclrtStreamAttrValue value;

    memset(&value, 0, sizeof value);
    value.cacheOpInfoSwitch = 1;
    return aclrtSetStreamAttribute(on.stream, ACL_STREAM_ATTR_CACHE_OP_INFO, &value);
}

static aclError record_external(void)
{
    return aclrtRecordEventWithFlag(on.ex, on.stream, ACL_EVENT_RECORD_EXTERNAL);
}

static aclError record_ipc(void)
{
    return aclrtRecordEvent(on.ipc, on.stream);
}

/* Whatever follows, the stream has joined. */
static aclError join_side(void)
{
    aclError rc = aclrtRecordEvent(on.ex, on.stream);

    return rc != ACL_SUCCESS ? rc : aclrtStreamWaitEvent(on.side, on.ex);
}

static aclError joined_copy(void)
{
    aclError rc = join_side();

    if (rc == ACL_SUCCESS)
        rc = copy_device(on.side);
    if (rc == ACL_SUCCESS)
        rc = aclrtRecordEvent(on.ex, on.side);
    return rc != ACL_SUCCESS ? rc : aclrtStreamWaitEvent(on.stream, on.ex);
}

static aclError sync_joined(void)
{
    aclError rc = join_side();

    return rc != ACL_SUCCESS ? rc : aclrtSynchronizeStream(on.side);
}

static aclError query_joined(void)
{
    aclrtStreamStatus status;
    aclError rc = join_side();

    return rc != ACL_SUCCESS ? rc : aclrtStreamQuery(on.side, &status);
}

static aclError joined_pageable(void)
{
    aclError rc = join_side();

    return rc != ACL_SUCCESS ? rc : copy_from(on.pageable, on.side);
}

/* Elsewhere. */
static aclError other_copy(void)
{
    return copy_device(on.other);
}

static aclError other_copy_in(void)
{
    return copy_from(on.pinned, on.other);
}

static aclError other_pageable(void)
{
    return copy_from(on.pageable, on.other);
}

static aclError other_pageable_2d(void)
{
    return copy_2d_from(on.pageable, on.other);
}

static aclError other_record(void)
{
    return aclrtRecordEvent(on.outside, on.other);
}

static aclError other_wait(void)
{
    return aclrtStreamWaitEvent(on.other, on.outside);
}

static aclError other_value_write(void)
{
    return aclrtValueWrite(on.value, 1, 0, on.other);
}

static aclError other_function(void)
{
    return aclrtLaunchHostFunc(on.other, do_nothing, NULL);
}

static aclError sync_other(void)
{
    return aclrtSynchronizeStream(on.other);
}

static aclError query_other(void)
{
    aclrtStreamStatus status;

    return aclrtStreamQuery(on.other, &status);
}

static aclError sync_other_event(void)
{
    return aclrtSynchronizeEvent(on.outside);
}

static aclError query_other_event(void)
{
    aclrtEventRecordedStatus status;

    return aclrtQueryEventStatus(on.outside, &status);
}

static aclError sync_device(void)
{
    return aclrtSynchronizeDevice();
}

static aclError sync_device_for_a_time(void)
{
    return aclrtSynchronizeDeviceWithTimeout(10);
}

static aclError default_memset(void)
{
    return aclrtMemsetAsync(on.b, SIZE, 1, SIZE, NULL);
}

static aclError default_record(void)
{
    return aclrtRecordEvent(on.outside, NULL);
}

static aclError default_function(void)
{
    return aclrtLaunchHostFunc(NULL, do_nothing, NULL);
}

static aclError sync_copy(void)
{
    return aclrtMemcpy(on.b, SIZE, on.a, SIZE, ACL_MEMCPY_DEVICE_TO_DEVICE);
}

static aclError sync_copy_in(void)
{
    return aclrtMemcpy(on.b, SIZE, on.pageable, SIZE, ACL_MEMCPY_HOST_TO_DEVICE);
}

static aclError sync_copy_2d(void)
{
    return aclrtMemcpy2d(on.b, 64, on.pinned, 64, 32, 4, ACL_MEMCPY_HOST_TO_DEVICE);
}

static aclError sync_memset(void)
{
    return aclrtMemset(on.b, SIZE, 1, SIZE);
}

static aclError sync_memset_words(void)
{
    return aclrtMemsetD32(on.b, SIZE, 1, SIZE / 4);
}

static aclError sync_batch(void)
{
    aclrtMemcpyBatchAttr attr = {.dstLoc = {0, ACL_MEM_LOCATION_TYPE_DEVICE},
                                 .srcLoc = {0, ACL_MEM_LOCATION_TYPE_HOST}};
    size_t size = SIZE, at = 0, failed = 0;
    void *dst = on.b, *src = on.pinned;

    return aclrtMemcpyBatch(&dst, &size, &src, &size, 1, &attr, &at, 1, &failed);
}

/* A device without a captured stream. */
static aclError sync_other_device(void)
{
    aclError rc = aclrtSetDevice(1);

    if (rc == ACL_SUCCESS)
        rc = aclrtSynchronizeDevice();
    if (rc == ACL_SUCCESS)
        rc = aclrtResetDevice(1);
    return rc != ACL_SUCCESS ? rc : aclrtSetCurrentContext(on.context);
}

static aclError allocate(void)
{
    void *p = NULL;
    aclError rc = aclrtMalloc(&p, CHUNK, ACL_MEM_MALLOC_HUGE_FIRST);

    return rc != ACL_SUCCESS ? rc : aclrtFree(p);
}

static aclError allocate_32(void)
{
    void *p = NULL;
    aclError rc = aclrtMallocAlign32(&p, 32, ACL_MEM_MALLOC_NORMAL_ONLY);

    return rc != ACL_SUCCESS ? rc : aclrtFree(p);
}

static aclError allocate_host(void)
{
    void *p = NULL;
    aclError rc = aclrtMallocHost(&p, SIZE);

    return rc != ACL_SUCCESS ? rc : aclrtFreeHost(p);
}

static aclError register_host(void)
{
    aclError rc = aclrtHostRegisterV2(on.pageable, SIZE, ACL_HOST_REG_PINNED);

    return rc != ACL_SUCCESS ? rc : aclrtHostUnregister(on.pageable);
}

static aclError use_vmm(void)
{
    aclrtPhysicalMemProp prop = device_prop(0, ACL_HBM_MEM_HUGE);
    aclrtDrvMemHandle handle = NULL;
    void *va = NULL;
    aclError rc = aclrtReserveMemAddress(&va, CHUNK, 0, NULL, 1);

    if (rc == ACL_SUCCESS)
        rc = aclrtMallocPhysical(&handle, CHUNK, &prop, 0);
    if (rc == ACL_SUCCESS)
        rc = aclrtMapMem(va, CHUNK, 0, handle, 0);
    if (rc == ACL_SUCCESS)
        rc = aclrtUnmapMem(va);
    if (rc == ACL_SUCCESS)
        rc = aclrtFreePhysical(handle);
    return rc != ACL_SUCCESS ? rc : aclrtReleaseMemAddress(va);
}

static aclError ask_memory(void)
{
    aclrtPtrAttributes attributes;
    size_t free_size, total;
    aclError rc = aclrtGetMemInfo(ACL_HBM_MEM, &free_size, &total);

    return rc != ACL_SUCCESS ? rc : aclrtPointerGetAttributes(on.a, &attributes);
}

static aclError use_events(void)
{
    aclrtEvent event = NULL;
    aclError rc = aclrtCreateEventExWithFlag(&event, ACL_EVENT_SYNC);

    if (rc == ACL_SUCCESS)
        rc = aclrtDestroyEvent(event);
    if (rc == ACL_SUCCESS)
        rc = aclrtCreateEvent(&event);
    return rc != ACL_SUCCESS ? rc : aclrtDestroyEvent(event);
}

static aclError use_stream(void)
{
    aclrtStream stream = NULL;
    aclError rc = aclrtCreateStream(&stream);

    return rc != ACL_SUCCESS ? rc : aclrtDestroyStream(stream);
}

static aclError use_context(void)
{
    aclrtContext context = NULL;
    int32_t device = -1;
    aclError rc = aclrtGetDevice(&device);

    if (rc == ACL_SUCCESS)
        rc = aclrtSetDevice(0);
    if (rc == ACL_SUCCESS)
        rc = aclrtCreateContext(&context, 0);
    if (rc == ACL_SUCCESS)
        rc = aclrtDestroyContext(context);
    return rc != ACL_SUCCESS ? rc : aclrtSetCurrentContext(on.context);
}

/* A capture on another stream in the same time. */
static aclError capture_other(void)
{
    aclmdlRI model = NULL;
    aclError rc = aclmdlRICaptureBegin(on.other, RELAXED);

    if (rc == ACL_SUCCESS)
        rc = copy_device(on.other);
    if (rc == ACL_SUCCESS)
        rc = aclmdlRICaptureEnd(on.other, &model);
    return rc != ACL_SUCCESS ? rc : aclmdlRIDestroy(model);
}

/* ---- the table ---- */

/* Who is refused: nobody, everybody, or by the mode of the capture. */
enum rule { ALLOWED, ILLEGAL, UNSAFE };

static const struct row {
    const char *name;
    aclError (*call)(void);
    enum rule rule;
    aclError code;
    const char *words; /* of the message, beside the capture */
} rows[] = {
    {"a captured copy", captured_copy, ALLOWED, 0, NULL},
    {"a captured copy from pinned memory", captured_copy_in, ALLOWED, 0, NULL},
    {"a captured copy to pinned memory", captured_copy_out, ALLOWED, 0, NULL},
    {"a captured copy of rows", captured_copy_2d, ALLOWED, 0, NULL},
    {"a captured batch", captured_copy_batch, ALLOWED, 0, NULL},
    {"a captured memset", captured_memset, ALLOWED, 0, NULL},
    {"a captured copy from pageable memory", captured_pageable_in, ILLEGAL,
     ACL_ERROR_RT_CAPTURE_MODE_NOT_SUPPORT, "aclrtMallocHost"},
    {"a captured copy to pageable memory", captured_pageable_out, ILLEGAL,
     ACL_ERROR_RT_CAPTURE_MODE_NOT_SUPPORT, "aclrtMallocHost"},
    {"a captured copy of rows from pageable memory", captured_pageable_2d, ILLEGAL,
     ACL_ERROR_RT_CAPTURE_MODE_NOT_SUPPORT, "aclrtMallocHost"},
    {"a captured batch from pageable memory", captured_pageable_batch, ILLEGAL,
     ACL_ERROR_RT_CAPTURE_MODE_NOT_SUPPORT, "aclrtMallocHost"},
    {"a captured record", captured_record, ALLOWED, 0, NULL},
    {"a captured wait", captured_wait, ALLOWED, 0, NULL},
    {"a captured reset", captured_reset, ALLOWED, 0, NULL},
    {"a captured write of a value", captured_value_write, ALLOWED, 0, NULL},
    {"a captured wait for a value", captured_value_wait, ALLOWED, 0, NULL},
    {"a captured function", captured_function, ALLOWED, 0, NULL},
    {"synchronising the captured stream", sync_captured, ILLEGAL,
     ACL_ERROR_RT_STREAM_CAPTURED, "aclrtSynchronizeStream"},
    {"synchronising the captured stream for a time", sync_captured_for_a_time, ILLEGAL,
     ACL_ERROR_RT_STREAM_CAPTURED, "aclrtSynchronizeStreamWithTimeout"},
    {"querying the captured stream", query_captured, ILLEGAL,
     ACL_ERROR_RT_STREAM_CAPTURED, "aclrtStreamQuery"},
    {"synchronising a captured event", sync_captured_event, ILLEGAL,
     ACL_ERROR_RT_EVENT_CAPTURED, "aclrtSynchronizeEvent"},
    {"synchronising a captured event for a time", sync_captured_event_for_a_time, ILLEGAL,
     ACL_ERROR_RT_EVENT_CAPTURED, "aclrtSynchronizeEventWithTimeout"},
    {"querying a captured event", query_captured_event, ILLEGAL,
     ACL_ERROR_RT_EVENT_CAPTURED, "aclrtQueryEventStatus"},
    {"querying waits for a captured event", query_captured_waits, ILLEGAL,
     ACL_ERROR_RT_EVENT_CAPTURED, "aclrtQueryEventWaitStatus"},
    {"an attribute of the captured stream", set_attribute, ALLOWED, 0, NULL},
    {"an external record", record_external, ALLOWED, 0, NULL},
    {"a record of an event of several processes", record_ipc, ILLEGAL,
     ACL_ERROR_RT_CAPTURE_MODE_NOT_SUPPORT, "other processes"},
    {"a copy on a joined stream", joined_copy, ALLOWED, 0, NULL},
    {"synchronising a joined stream", sync_joined, ILLEGAL, ACL_ERROR_RT_STREAM_CAPTURED,
     "aclrtSynchronizeStream"},
    {"querying a joined stream", query_joined, ILLEGAL, ACL_ERROR_RT_STREAM_CAPTURED,
     "aclrtStreamQuery"},
    {"a copy from pageable memory on a joined stream", joined_pageable, ILLEGAL,
     ACL_ERROR_RT_CAPTURE_MODE_NOT_SUPPORT, "aclrtMallocHost"},
    {"a copy on another stream", other_copy, ALLOWED, 0, NULL},
    {"a copy from pinned memory on another stream", other_copy_in, ALLOWED, 0, NULL},
    {"a copy from pageable memory on another stream", other_pageable, UNSAFE,
     ACL_ERROR_RT_CAPTURE_MODE_NOT_SUPPORT, "aclmdlRICaptureThreadExchangeMode"},
    {"rows from pageable memory on another stream", other_pageable_2d, UNSAFE,
     ACL_ERROR_RT_CAPTURE_MODE_NOT_SUPPORT, "aclmdlRICaptureThreadExchangeMode"},
    {"a record on another stream", other_record, ALLOWED, 0, NULL},
    {"a wait on another stream", other_wait, ALLOWED, 0, NULL},
    {"a write of a value on another stream", other_value_write, ALLOWED, 0, NULL},
    {"a function on another stream", other_function, ALLOWED, 0, NULL},
    {"synchronising another stream", sync_other, ALLOWED, 0, NULL},
    {"querying another stream", query_other, ALLOWED, 0, NULL},
    {"synchronising an event of another stream", sync_other_event, ALLOWED, 0, NULL},
    {"querying an event of another stream", query_other_event, ALLOWED, 0, NULL},
    {"synchronising the device", sync_device, ILLEGAL, ACL_ERROR_RT_STREAM_CAPTURED,
     "aclrtSynchronizeDevice"},
    {"synchronising the device for a time", sync_device_for_a_time, ILLEGAL,
     ACL_ERROR_RT_STREAM_CAPTURED, "aclrtSynchronizeDeviceWithTimeout"},
    {"synchronising another device", sync_other_device, ALLOWED, 0, NULL},
    {"a memset on the default stream", default_memset, ILLEGAL,
     ACL_ERROR_RT_STREAM_CAPTURE_IMPLICIT, "instead of the default one"},
    {"a record on the default stream", default_record, ILLEGAL,
     ACL_ERROR_RT_STREAM_CAPTURE_IMPLICIT, "instead of the default one"},
    {"a function on the default stream", default_function, ILLEGAL,
     ACL_ERROR_RT_STREAM_CAPTURE_IMPLICIT, "instead of the default one"},
    {"a synchronous copy", sync_copy, UNSAFE, ACL_ERROR_RT_CAPTURE_MODE_NOT_SUPPORT,
     "aclmdlRICaptureThreadExchangeMode"},
    {"a synchronous copy in", sync_copy_in, UNSAFE, ACL_ERROR_RT_CAPTURE_MODE_NOT_SUPPORT,
     "aclmdlRICaptureThreadExchangeMode"},
    {"a synchronous copy of rows", sync_copy_2d, UNSAFE,
     ACL_ERROR_RT_CAPTURE_MODE_NOT_SUPPORT, "aclmdlRICaptureThreadExchangeMode"},
    {"a synchronous memset", sync_memset, UNSAFE, ACL_ERROR_RT_CAPTURE_MODE_NOT_SUPPORT,
     "aclmdlRICaptureThreadExchangeMode"},
    {"a synchronous memset of words", sync_memset_words, UNSAFE,
     ACL_ERROR_RT_CAPTURE_MODE_NOT_SUPPORT, "aclmdlRICaptureThreadExchangeMode"},
    {"a synchronous batch", sync_batch, UNSAFE, ACL_ERROR_RT_CAPTURE_MODE_NOT_SUPPORT,
     "aclmdlRICaptureThreadExchangeMode"},
    {"allocating", allocate, ALLOWED, 0, NULL},
    {"allocating 32 bytes", allocate_32, ALLOWED, 0, NULL},
    {"allocating pinned memory", allocate_host, ALLOWED, 0, NULL},
    {"registering memory", register_host, ALLOWED, 0, NULL},
    {"mapping", use_vmm, ALLOWED, 0, NULL},
    {"questions about memory", ask_memory, ALLOWED, 0, NULL},
    {"events", use_events, ALLOWED, 0, NULL},
    {"a stream", use_stream, ALLOWED, 0, NULL},
    {"device and context", use_context, ALLOWED, 0, NULL},
    {"a second capture", capture_other, ALLOWED, 0, NULL},
};

enum { N_ROWS = sizeof(rows) / sizeof(rows[0]) };

/* ---- running a row ---- */

static void open_scene(void)
{
    memset(&on, 0, sizeof on);
    assert_acl_ok(aclrtGetCurrentContext(&on.context));
    on.stream = make_stream();
    on.other = make_stream();
    on.side = make_stream();
    on.inside = make_flagged(ACL_EVENT_SYNC);
    on.ex = make_ex(ACL_EVENT_SYNC);
    on.ipc = make_ex(ACL_EVENT_IPC);
    on.outside = make_event();
    on.a = device_malloc(SIZE);
    on.b = device_malloc(SIZE);
    on.pinned = host_malloc(SIZE);
    on.pageable = aligned_alloc(SIZE, SIZE);
    assert_non_null(on.pageable);
    memset(on.pageable, 0, SIZE);
    on.value = (uint64_t *)device_malloc(64);
    assert_acl_ok(aclrtRecordEvent(on.outside, on.other));
    assert_acl_ok(aclrtSynchronizeStream(on.other));
}

static void close_scene(void)
{
    end_event(on.inside);
    end_event(on.outside);
    end_event(on.ex);
    end_event(on.ipc);
    end_stream(on.side);
    end_stream(on.stream);
    end_stream(on.other);
    device_free(on.a);
    device_free(on.b);
    device_free(on.value);
    host_free(on.pinned);
    free(on.pageable);
}

/* A call of one thread, which may have chosen a mode first. */
struct attempt {
    aclError (*call)(void);
    int mode; /* of the thread; -1: as it is */
    bool by_another;
    aclError code;
    char message[1024];
};

static const char *run_attempt(struct worker *self)
{
    struct attempt *t = self->shared;
    aclmdlRICaptureMode mode = (aclmdlRICaptureMode)t->mode;
    const char *message;

    worker_check(aclrtSetCurrentContext(on.context) == ACL_SUCCESS);
    if (t->mode >= 0)
        worker_check(aclmdlRICaptureThreadExchangeMode(&mode) == ACL_SUCCESS);
    (void)aclGetRecentErrMsg();
    t->code = t->call();
    message = aclGetRecentErrMsg();
    snprintf(t->message, sizeof t->message, "%s", message != NULL ? message : "");
    if (t->mode >= 0)
        worker_check(aclmdlRICaptureThreadExchangeMode(&mode) == ACL_SUCCESS);
    return NULL;
}

/* In a capture of this mode; the state of the capture after the call. */
static aclmdlRICaptureStatus try_in_capture(aclmdlRICaptureMode mode, struct attempt *t)
{
    struct worker here = {.shared = t};
    aclmdlRICaptureStatus status;

    begin_capture(on.stream, mode);
    assert_acl_ok(aclrtRecordEvent(on.inside, on.stream));
    if (t->by_another)
        assert_ptr_equal(run_thread(run_attempt, t), NULL);
    else
        assert_ptr_equal(run_attempt(&here), NULL);
    status = capture_status(on.stream);
    return status;
}

/* The capture ends as its state says; afterwards the stream is an ordinary one. */
static void end_attempt(bool is_valid)
{
    aclmdlRI model = NULL;

    if (is_valid) {
        model = end_capture(on.stream);
        end_model(model);
    } else {
        assert_acl(aclmdlRICaptureEnd(on.stream, &model),
                   ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED);
        assert_null(model);
    }
    assert_int_equal(capture_status(on.stream), NOT_CAPTURING);
    assert_acl_ok(aclrtSynchronizeStream(on.other));
    assert_acl_ok(aclrtSynchronizeStream(on.stream));
    assert_acl_ok(aclrtSynchronizeDevice());
}

static void check_attempt(const char *name, const struct attempt *t, aclError code,
                          const char *words, aclmdlRICaptureStatus status)
{
    aclmdlRICaptureStatus wanted = code == ACL_SUCCESS ? CAPTURING : INVALIDATED;
    char id[32];
    int32_t number = -1;

    if (t->code != code)
        fail_msg("%s: %d, not %d: %s", name, t->code, code, t->message);
    if (status != wanted)
        fail_msg("%s: the capture is %d, not %d", name, (int)status, (int)wanted);
    if (code == ACL_SUCCESS)
        return;
    assert_acl_ok(aclrtStreamGetId(on.stream, &number));
    snprintf(id, sizeof id, "stream %d", number);
    if (strstr(t->message, words) == NULL || strstr(t->message, id) == NULL)
        fail_msg("%s: neither \"%s\" nor \"%s\" may be missing: %s", name, words, id,
                 t->message);
}

static bool is_refused(enum rule rule, aclmdlRICaptureMode mode, bool by_another)
{
    if (rule != UNSAFE)
        return rule == ILLEGAL;
    return mode == GLOBAL || (mode == THREAD_LOCAL && !by_another);
}

static void run_row(const struct row *row, aclmdlRICaptureMode mode, bool by_another)
{
    struct attempt t = {.call = row->call, .mode = -1, .by_another = by_another};
    bool refused = is_refused(row->rule, mode, by_another);
    aclmdlRICaptureStatus status;
    char name[160];

    snprintf(name, sizeof name, "%s, mode %d, by %s", row->name, (int)mode,
             by_another ? "another thread" : "the capturing thread");
    status = try_in_capture(mode, &t);
    check_attempt(name, &t, refused ? row->code : ACL_SUCCESS, row->words, status);
    end_attempt(!refused);
}

/* Strict rules refuse pageable memory on each stream, with another code. */
static bool is_pageable(const struct row *row)
{
    return strstr(row->name, "pageable") != NULL;
}

static void each_call_follows_the_table(void **state)
{
    open_scene();
    for (size_t i = 0; i < N_ROWS; i++) {
        if (rules_are_strict() && is_pageable(&rows[i]))
            continue;
        for (int mode = GLOBAL; mode <= RELAXED; mode++)
            for (int by_another = 0; by_another < 2; by_another++)
                run_row(&rows[i], (aclmdlRICaptureMode)mode, by_another);
    }
    close_scene();
}

/* ---- a thread's own mode ---- */

/* Whether a synchronous copy is refused: capture's mode, thread's mode, by another. */
static bool mode_refuses(int capture, int thread, bool by_another)
{
    if (capture == RELAXED || thread == RELAXED)
        return false;
    if (capture == GLOBAL)
        return !by_another || thread == GLOBAL;
    return !by_another;
}

static void a_thread_lifts_the_rule_for_itself(void **state)
{
    open_scene();
    for (int capture = GLOBAL; capture <= RELAXED; capture++)
        for (int thread = GLOBAL; thread <= RELAXED; thread++)
            for (int by_another = 0; by_another < 2; by_another++) {
                struct attempt t = {
                    .call = sync_memset, .mode = thread, .by_another = by_another};
                bool refused = mode_refuses(capture, thread, by_another);
                aclmdlRICaptureStatus status;
                char name[100];

                snprintf(name, sizeof name, "capture %d, thread %d, by another %d",
                         capture, thread, by_another);
                status = try_in_capture((aclmdlRICaptureMode)capture, &t);
                check_attempt(name, &t,
                              refused ? ACL_ERROR_RT_CAPTURE_MODE_NOT_SUPPORT : 0,
                              "aclrtMemset", status);
                end_attempt(!refused);
            }
    close_scene();
}

/* ---- after a refusal ---- */

static void an_invalidated_capture_ends_and_the_next_one_works(void **state)
{
    aclmdlRI model = NULL;

    open_scene();
    assert_acl_ok(aclrtMemset(on.a, SIZE, 5, SIZE));
    assert_acl_ok(aclrtMemset(on.b, SIZE, 0, SIZE));
    begin_capture(on.stream, GLOBAL);
    assert_acl_ok(captured_copy());
    assert_acl(sync_captured(), ACL_ERROR_RT_STREAM_CAPTURED);
    assert_int_equal(capture_status(on.stream), INVALIDATED);
    assert_acl(captured_copy(), ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED);
    assert_acl(aclmdlRICaptureEnd(on.stream, &model),
               ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED);
    assert_message_has("aclrtSynchronizeStream");
    assert_acl_ok(aclrtSynchronizeStream(on.stream));
    assert_all_bytes(on.b, SIZE, 0);
    begin_capture(on.stream, GLOBAL);
    assert_acl_ok(captured_copy());
    model = end_capture(on.stream);
    replay(model, on.stream);
    assert_all_bytes(on.b, SIZE, 5);
    end_model(model);
    close_scene();
}

static void a_refusal_invalidates_no_capture_that_allows_the_call(void **state)
{
    aclmdlRI model = NULL;

    open_scene();
    begin_capture(on.stream, GLOBAL);
    begin_capture(on.other, RELAXED);
    assert_acl(sync_memset(), ACL_ERROR_RT_CAPTURE_MODE_NOT_SUPPORT);
    assert_int_equal(capture_status(on.stream), INVALIDATED);
    assert_int_equal(capture_status(on.other), CAPTURING);
    assert_acl(aclmdlRICaptureEnd(on.stream, &model),
               ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED);
    assert_acl_ok(sync_memset());
    end_model(end_capture(on.other));
    close_scene();
}

/* Frameworks that synchronise after each call skip that when a stream is captured. */
static void synchronising_is_legal_right_after_the_end(void **state)
{
    open_scene();
    begin_capture(on.stream, GLOBAL);
    assert_acl_ok(captured_copy());
    assert_int_equal(capture_status(on.stream), CAPTURING);
    end_model(end_capture(on.stream));
    assert_int_equal(capture_status(on.stream), NOT_CAPTURING);
    assert_acl_ok(sync_captured());
    assert_acl_ok(sync_device());
    assert_acl_ok(sync_memset());
    close_scene();
}

int main(void)
{
    const struct CMUnitTest claims[] = {
        claim_both(each_call_follows_the_table),
        claim_both(a_thread_lifts_the_rule_for_itself),
        claim_both(an_invalidated_capture_ends_and_the_next_one_works),
        claim(a_refusal_invalidates_no_capture_that_allows_the_call),
        claim_both(synchronising_is_legal_right_after_the_end),
    };

    return run_claims(claims);
}
