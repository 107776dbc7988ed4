/* Events. */
#include "fake/fake.h"

#include <stdlib.h>

void fake_record_put_locked(struct fake_record *record)
{
    if (record && --record->refs == 0)
        free(record);
}

static void destroy_locked(struct fake_event *event)
{
    fake_table_remove_locked(&fake.events, event->handle);
    LIST_REMOVE(event, entry);
    fake_record_put_locked(event->latest);
    free(event);
}

void fake_event_drop_context_locked(struct fake_context *context)
{
    while (!LIST_EMPTY(&context->events))
        destroy_locked(LIST_FIRST(&context->events));
}

/* The event, unless its context is broken. */
static CUresult find_locked(CUevent handle, struct fake_event **ret_event)
{
    if (!handle)
        return CUDA_ERROR_INVALID_HANDLE;
    *ret_event = fake_table_find_locked(&fake.events, (uint64_t)handle);
    if (!*ret_event)
        fake_die("event", handle);
    return (*ret_event)->context->error;
}

CUresult fake_cuEventCreate(CUevent *ret_event, unsigned flags)
{
    struct fake_context *context;
    struct fake_event *event;
    CUresult rc;

    fake_lock();
    rc = fake_context_current_locked(&context);
    if (rc != CUDA_SUCCESS)
        return fake_unlock(rc);
    if (!ret_event || flags & ~(CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING))
        return fake_unlock(CUDA_ERROR_INVALID_VALUE);
    event = calloc(1, sizeof(*event));
    if (!event)
        return fake_unlock(CUDA_ERROR_OUT_OF_MEMORY);
    event->handle = fake_table_add_locked(&fake.events, event);
    if (!event->handle) {
        free(event);
        return fake_unlock(CUDA_ERROR_OUT_OF_MEMORY);
    }
    event->flags = flags;
    event->context = context;
    LIST_INSERT_HEAD(&context->events, event, entry);
    *ret_event = (CUevent)event->handle;
    return fake_unlock(CUDA_SUCCESS);
}

CUresult fake_cuEventDestroy_v2(CUevent handle)
{
    struct fake_event *event;
    CUresult rc;

    fake_lock();
    rc = find_locked(handle, &event);
    if (rc == CUDA_SUCCESS)
        destroy_locked(event);
    return fake_unlock(rc);
}

CUresult fake_cuEventRecord(CUevent handle, CUstream stream_handle)
{
    struct fake_record *record;
    struct fake_stream *stream;
    struct fake_event *event;
    CUresult rc;

    fake_lock();
    rc = fake_stream_find_locked(stream_handle, &stream);
    if (rc == CUDA_SUCCESS)
        rc = find_locked(handle, &event);
    if (rc != CUDA_SUCCESS)
        return fake_unlock(rc);
    if (event->context != stream->context)
        return fake_unlock(CUDA_ERROR_INVALID_HANDLE);
    record = calloc(1, sizeof(*record));
    if (!record)
        return fake_unlock(CUDA_ERROR_OUT_OF_MEMORY);
    record->refs = 2;
    rc = fake_stream_queue_locked(
        stream, &(struct fake_op){.kind = FAKE_RECORD, .record = record});
    if (rc != CUDA_SUCCESS) {
        free(record);
        return fake_unlock(rc);
    }
    fake_record_put_locked(event->latest);
    event->latest = record;
    return fake_unlock(CUDA_SUCCESS);
}

CUresult fake_cuStreamWaitEvent(CUstream stream_handle, CUevent handle, unsigned flags)
{
    struct fake_stream *stream;
    struct fake_event *event;
    CUresult rc;

    fake_lock();
    rc = fake_stream_find_locked(stream_handle, &stream);
    if (rc == CUDA_SUCCESS)
        rc = find_locked(handle, &event);
    if (rc == CUDA_SUCCESS && flags)
        rc = CUDA_ERROR_INVALID_VALUE;
    if (rc != CUDA_SUCCESS || !event->latest)
        return fake_unlock(rc);
    event->latest->refs++;
    rc = fake_stream_queue_locked(
        stream, &(struct fake_op){.kind = FAKE_WAIT_EVENT, .record = event->latest});
    if (rc != CUDA_SUCCESS)
        event->latest->refs--;
    return fake_unlock(rc);
}

CUresult fake_cuEventQuery(CUevent handle)
{
    struct fake_event *event;
    CUresult rc;

    fake_lock();
    rc = find_locked(handle, &event);
    if (rc == CUDA_SUCCESS && event->latest && !event->latest->is_done)
        rc = CUDA_ERROR_NOT_READY;
    return fake_unlock(rc);
}

CUresult fake_cuEventSynchronize(CUevent handle)
{
    struct fake_context *context;
    struct fake_record *record;
    struct fake_event *event;
    CUresult rc;

    fake_lock();
    rc = find_locked(handle, &event);
    if (rc != CUDA_SUCCESS || !event->latest)
        return fake_unlock(rc);
    context = event->context;
    record = event->latest;
    record->refs++;
    while (!record->is_done && context->is_active && context->error == CUDA_SUCCESS)
        pthread_cond_wait(&fake.changed, &fake.lock);
    rc = context->error;
    fake_record_put_locked(record);
    return fake_unlock(rc);
}

/* A recorded and timed event, which may not be done yet. */
static CUresult check_timed(const struct fake_event *event)
{
    if (event->flags & CU_EVENT_DISABLE_TIMING || !event->latest)
        return CUDA_ERROR_INVALID_HANDLE;
    return CUDA_SUCCESS;
}

CUresult fake_cuEventElapsedTime(float *ret_ms, CUevent start_handle, CUevent end_handle)
{
    struct fake_event *start;
    struct fake_event *end;
    CUresult rc;

    if (!ret_ms)
        return CUDA_ERROR_INVALID_HANDLE;
    fake_lock();
    rc = find_locked(start_handle, &start);
    if (rc == CUDA_SUCCESS)
        rc = find_locked(end_handle, &end);
    if (rc == CUDA_SUCCESS)
        rc = check_timed(start);
    if (rc == CUDA_SUCCESS)
        rc = check_timed(end);
    if (rc == CUDA_SUCCESS && !(start->latest->is_done && end->latest->is_done))
        rc = CUDA_ERROR_NOT_READY;
    if (rc == CUDA_SUCCESS)
        *ret_ms = (float)(end->latest->at.tv_sec - start->latest->at.tv_sec) * 1e3f +
                  (float)(end->latest->at.tv_nsec - start->latest->at.tv_nsec) / 1e6f;
    return fake_unlock(rc);
}
