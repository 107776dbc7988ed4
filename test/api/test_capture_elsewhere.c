/*
 * What may be called while a stream is captured, on other streams and on no stream.  See
 * test_capture_rules.c.
 */
#include "support/blocks.h"
#include "support/capture_rows.h"
#include "support/vmm.h"

#include <pthread.h>

#define SIZE ROW_SIZE

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

static aclError other_pageable_batch(void)
{
    return copy_batch_from(on.pageable, on.other);
}

static aclError other_pageable_out(void)
{
    return copy_to(on.pageable, on.other);
}

static aclError other_copy_2d(void)
{
    return copy_2d_from(on.pinned, on.other);
}

static aclError other_copy_batch(void)
{
    return copy_batch_from(on.pinned, on.other);
}

static aclError other_copy_desc(void)
{
    return copy_by_desc(on.other);
}

static aclError other_copy_addresses(void)
{
    return copy_by_addresses(on.other);
}

static aclError other_memset(void)
{
    return aclrtMemsetAsync(on.b, SIZE, 1, SIZE, on.other);
}

static aclError other_record(void)
{
    return aclrtRecordEvent(on.outside, on.other);
}

static aclError other_wait(void)
{
    return aclrtStreamWaitEvent(on.other, on.outside);
}

/* Rows that wait for the event need a record. */
static aclError other_reset(void)
{
    aclError rc = aclrtResetEvent(on.outside, on.other);

    return rc != ACL_SUCCESS ? rc : other_record();
}

/* Captured streams alone take the flag, by strict rules. */
static aclError other_external_record(void)
{
    aclError wanted = rules_are_strict() ? ACL_ERROR_RT_PARAM_INVALID : ACL_SUCCESS;

    return aclrtRecordEventWithFlag(on.ex, on.other, ACL_EVENT_RECORD_EXTERNAL) == wanted
               ? ACL_SUCCESS
               : ACL_ERROR_FAILURE;
}

static aclError other_external_wait(void)
{
    aclError wanted = rules_are_strict() ? ACL_ERROR_RT_PARAM_INVALID : ACL_SUCCESS;
    aclError rc = aclrtRecordEvent(on.ex, on.other);

    if (rc != ACL_SUCCESS)
        return rc;
    return aclrtStreamWaitEventWithFlag(on.other, on.ex, 0, ACL_EVENT_WAIT_EXTERNAL) ==
                   wanted
               ? ACL_SUCCESS
               : ACL_ERROR_FAILURE;
}

static aclError other_notify(void)
{
    aclError rc = aclrtRecordNotify(on.notify, on.other);

    return rc != ACL_SUCCESS ? rc : aclrtWaitAndResetNotify(on.notify, on.other, 0);
}

static aclError other_value_write(void)
{
    return aclrtValueWrite(on.value, 1, 0, on.other);
}

static aclError other_value_wait(void)
{
    aclError rc = other_value_write();

    return rc != ACL_SUCCESS
               ? rc
               : aclrtValueWait(on.value, 1, ACL_STREAM_WAIT_VALUE_EQ, on.other);
}

/* The thread processes the callback itself. */
static aclError other_callback(void)
{
    uint64_t self = (uint64_t)pthread_self();
    aclError rc = aclrtSubscribeReport(self, on.other);

    if (rc == ACL_SUCCESS)
        rc = aclrtLaunchCallback(do_nothing, NULL, ACL_CALLBACK_BLOCK, on.other);
    if (rc == ACL_SUCCESS)
        rc = aclrtProcessReport(10000);
    return rc != ACL_SUCCESS ? rc : aclrtUnSubscribeReport(self, on.other);
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

static aclError abort_other(void)
{
    return aclrtStreamAbort(on.other);
}

/* It is not refused: it is the call after a fault. */
static aclError abort_device(void)
{
    return aclrtDeviceTaskAbort(0, 0);
}

static aclError default_memset(void)
{
    return aclrtMemsetAsync(on.b, SIZE, 1, SIZE, NULL);
}

static aclError default_copy(void)
{
    return copy_device(NULL);
}

static aclError default_wait(void)
{
    return aclrtStreamWaitEvent(NULL, on.outside);
}

static aclError default_record(void)
{
    return aclrtRecordEvent(on.outside, NULL);
}

static aclError default_notify(void)
{
    return aclrtRecordNotify(on.notify, NULL);
}

static aclError default_value(void)
{
    return aclrtValueWrite(on.value, 1, 0, NULL);
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

/* The captured stream waits for an event of another capture. */
static aclError wait_for_another_capture(void)
{
    aclmdlRI model = NULL;
    aclError rc = aclmdlRICaptureBegin(on.other, RELAXED), wait_rc;

    if (rc == ACL_SUCCESS)
        rc = aclrtRecordEvent(on.ex, on.other);
    if (rc != ACL_SUCCESS)
        return rc;
    wait_rc = aclrtStreamWaitEvent(on.stream, on.ex);
    rc = aclmdlRICaptureEnd(on.other, &model);
    if (rc == ACL_SUCCESS)
        rc = aclmdlRIDestroy(model);
    return rc != ACL_SUCCESS ? rc : wait_rc;
}

/* ---- the table ---- */

static const struct row rows[] = {
    {"a copy on another stream", other_copy, ALLOWED, 0, NULL},
    {"a copy from pinned memory on another stream", other_copy_in, ALLOWED, 0, NULL},
    {"rows from pinned memory on another stream", other_copy_2d, ALLOWED, 0, NULL},
    {"a batch from pinned memory on another stream", other_copy_batch, ALLOWED, 0, NULL},
    {"a copy by a descriptor on another stream", other_copy_desc, ALLOWED, 0, NULL},
    {"a copy by addresses on another stream", other_copy_addresses, ALLOWED, 0, NULL},
    {"a memset on another stream", other_memset, ALLOWED, 0, NULL},
    {"a copy from pageable memory on another stream", other_pageable, UNSAFE,
     ACL_ERROR_RT_CAPTURE_MODE_NOT_SUPPORT, "aclmdlRICaptureThreadExchangeMode"},
    {"rows from pageable memory on another stream", other_pageable_2d, UNSAFE,
     ACL_ERROR_RT_CAPTURE_MODE_NOT_SUPPORT, "aclmdlRICaptureThreadExchangeMode"},
    {"a batch from pageable memory on another stream", other_pageable_batch, UNSAFE,
     ACL_ERROR_RT_CAPTURE_MODE_NOT_SUPPORT, "aclmdlRICaptureThreadExchangeMode"},
    {"a copy to pageable memory on another stream", other_pageable_out, UNSAFE,
     ACL_ERROR_RT_CAPTURE_MODE_NOT_SUPPORT, "aclmdlRICaptureThreadExchangeMode"},
    {"a record on another stream", other_record, ALLOWED, 0, NULL},
    {"a wait on another stream", other_wait, ALLOWED, 0, NULL},
    {"a reset on another stream", other_reset, ALLOWED, 0, NULL},
    {"an external record on another stream", other_external_record, ALLOWED, 0, NULL},
    {"an external wait on another stream", other_external_wait, ALLOWED, 0, NULL},
    {"a notify on another stream", other_notify, ALLOWED, 0, NULL},
    {"a write of a value on another stream", other_value_write, ALLOWED, 0, NULL},
    {"a wait for a value on another stream", other_value_wait, ALLOWED, 0, NULL},
    {"a callback on another stream", other_callback, ALLOWED, 0, NULL},
    {"a function on another stream", other_function, ALLOWED, 0, NULL},
    {"synchronising another stream", sync_other, ALLOWED, 0, NULL},
    {"querying another stream", query_other, ALLOWED, 0, NULL},
    {"synchronising an event of another stream", sync_other_event, ALLOWED, 0, NULL},
    {"querying an event of another stream", query_other_event, ALLOWED, 0, NULL},
    {"synchronising the device", sync_device, ILLEGAL, ACL_ERROR_RT_STREAM_CAPTURED,
     "aclrtSynchronizeDevice"},
    {"synchronising the device for a time", sync_device_for_a_time, ILLEGAL,
     ACL_ERROR_RT_STREAM_CAPTURED, "aclrtSynchronizeDeviceWithTimeout"},
    {"aborting another stream", abort_other, ALLOWED, 0, NULL},
    {"aborting the work of the device", abort_device, ALLOWED, 0, NULL},
    {"synchronising another device", sync_other_device, ALLOWED, 0, NULL},
    {"a memset on the default stream", default_memset, ILLEGAL,
     ACL_ERROR_RT_STREAM_CAPTURE_IMPLICIT, "instead of the default one"},
    {"a copy on the default stream", default_copy, ILLEGAL,
     ACL_ERROR_RT_STREAM_CAPTURE_IMPLICIT, "instead of the default one"},
    {"a wait on the default stream", default_wait, ILLEGAL,
     ACL_ERROR_RT_STREAM_CAPTURE_IMPLICIT, "instead of the default one"},
    {"a notify on the default stream", default_notify, ILLEGAL,
     ACL_ERROR_RT_STREAM_CAPTURE_IMPLICIT, "instead of the default one"},
    {"a value on the default stream", default_value, ILLEGAL,
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
    {"a wait for an event of another capture", wait_for_another_capture, ILLEGAL,
     ACL_ERROR_STREAM_CAPTURE_CONFLICT, "two captures"},
};

static void each_call_elsewhere_follows_the_table(void **state)
{
    run_rows(rows, sizeof rows / sizeof rows[0]);
}

int main(void)
{
    const struct CMUnitTest claims[] = {
        claim_both(each_call_elsewhere_follows_the_table),
    };

    return run_claims(claims);
}
