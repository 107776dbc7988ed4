/*
 * Streams, and the two threads of a context that has ever had work: the engine runs what is
 * queued, the other one the program's host functions, one at a time.
 */
#include "fake/fake.h"

#include <stdlib.h>

/* ---- order ---- */

static bool is_legacy(const struct fake_stream *stream)
{
    return stream == &stream->context->legacy;
}

static bool is_blocking(const struct fake_stream *stream)
{
    return !(stream->flags & CU_STREAM_NON_BLOCKING);
}

static bool is_before(const struct fake_stream *stream, uint64_t number)
{
    const struct fake_op *first = TAILQ_FIRST(&stream->ops);

    return first && first->number < number;
}

/* Work on the legacy stream and on blocking ones keeps the order of the calls. */
static bool is_in_order_locked(const struct fake_stream *stream, const struct fake_op *op)
{
    const struct fake_stream *other;

    if (!is_blocking(stream))
        return true;
    if (!is_legacy(stream))
        return !is_before(&stream->context->legacy, op->number);
    TAILQ_FOREACH (other, &stream->context->streams, entry)
        if (other != stream && is_blocking(other) && is_before(other, op->number))
            return false;
    return true;
}

/* Whether the engine can do or end the op now. */
static bool is_ready_locked(struct fake_stream *stream, struct fake_op *op)
{
    bool is_ready = is_in_order_locked(stream, op);

    if (is_ready && op->kind == FAKE_WAIT_EVENT)
        is_ready = op->record->is_done;
    if (is_ready && op->kind == FAKE_FUNCTION)
        is_ready = op->is_returned;
    if (is_ready && op->kind == FAKE_WAIT_VALUE)
        is_ready = fake_value_holds_locked(op);
    return is_ready;
}

/* ---- queues ---- */

static void free_stream_locked(struct fake_stream *stream)
{
    TAILQ_REMOVE(&stream->context->streams, stream, entry);
    free(stream);
}

/* Streams of other devices may wait for the record. */
static void wake_engines_locked(void)
{
    for (int i = 0; i < fake.n_devices; i++) {
        if (fake.contexts[i].has_threads)
            pthread_cond_broadcast(&fake.contexts[i].work);
    }
}

/* Takes the first op out; it was done, or never will be. */
static void end_op_locked(struct fake_stream *stream, bool was_done)
{
    struct fake_op *op = TAILQ_FIRST(&stream->ops);

    TAILQ_REMOVE(&stream->ops, op, entry);
    if (op->kind == FAKE_RECORD && was_done) {
        op->record->is_done = true;
        clock_gettime(CLOCK_MONOTONIC, &op->record->at);
        wake_engines_locked();
    }
    fake_record_put_locked(op->record);
    if (op->ret_done)
        *op->ret_done = true;
    free(op->staged);
    free(op);
    pthread_cond_broadcast(&fake.changed);
}

/* Drops what is queued; what is being run stays until it is done. */
static void drop_queued_locked(struct fake_stream *stream)
{
    struct fake_op *op = TAILQ_FIRST(&stream->ops);
    struct fake_op *kept = NULL;

    if (op && (stream->is_running || op->is_handed_over)) {
        kept = op;
        TAILQ_REMOVE(&stream->ops, op, entry);
    }
    while (!TAILQ_EMPTY(&stream->ops))
        end_op_locked(stream, false);
    if (kept)
        TAILQ_INSERT_HEAD(&stream->ops, kept, entry);
}

void fake_stream_break_locked(struct fake_context *context)
{
    struct fake_stream *stream;

    if (!context->is_active)
        return;
    TAILQ_FOREACH (stream, &context->streams, entry)
        drop_queued_locked(stream);
}

void fake_stream_drop_context_locked(struct fake_context *context)
{
    struct fake_stream *stream;

    for (;;) {
        bool is_busy = false;

        TAILQ_FOREACH (stream, &context->streams, entry) {
            drop_queued_locked(stream);
            is_busy |= !TAILQ_EMPTY(&stream->ops);
        }
        if (!is_busy)
            break;
        pthread_cond_wait(&fake.changed, &fake.lock);
    }
    while ((stream = TAILQ_FIRST(&context->streams)) != NULL) {
        TAILQ_REMOVE(&context->streams, stream, entry);
        if (stream->handle)
            fake_table_remove_locked(&fake.streams, stream->handle);
        if (!is_legacy(stream))
            free(stream);
    }
}

/* ---- threads ---- */

/* A stream whose first op can be run; the next ones come first the next time. */
static struct fake_stream *pick_locked(struct fake_context *context, bool *ret_must_poll)
{
    struct fake_stream *stream;

    *ret_must_poll = false;
    if (fake.is_held || !context->is_active)
        return NULL;
    TAILQ_FOREACH (stream, &context->streams, entry) {
        struct fake_op *op = TAILQ_FIRST(&stream->ops);

        if (!op || stream->is_held)
            continue;
        if (is_ready_locked(stream, op)) {
            TAILQ_REMOVE(&context->streams, stream, entry);
            TAILQ_INSERT_TAIL(&context->streams, stream, entry);
            return stream;
        }
        *ret_must_poll |= op->kind == FAKE_WAIT_VALUE;
    }
    return NULL;
}

static void run_op_locked(struct fake_stream *stream)
{
    struct fake_context *context = stream->context;
    struct fake_op *op = TAILQ_FIRST(&stream->ops);
    CUresult rc = CUDA_SUCCESS;

    stream->is_running = true;
    if (op->kind == FAKE_COPY || op->kind == FAKE_FILL || op->kind == FAKE_WRITE) {
        fake_unlock(CUDA_SUCCESS);
        rc = fake_move(op);
        fake_lock();
    }
    stream->is_running = false;
    end_op_locked(stream, rc == CUDA_SUCCESS);
    if (!stream->handle && !is_legacy(stream) && TAILQ_EMPTY(&stream->ops))
        free_stream_locked(stream);
    if (rc != CUDA_SUCCESS)
        fake_context_break_locked(context, rc);
}

static void *run_engine(void *arg)
{
    struct fake_context *context = arg;

    fake_lock();
    for (;;) {
        struct fake_stream *stream;
        bool must_poll;

        stream = pick_locked(context, &must_poll);
        if (stream) {
            run_op_locked(stream);
            pthread_cond_broadcast(&context->work);
        } else if (must_poll) {
            struct timespec until;

            clock_gettime(CLOCK_REALTIME, &until);
            until.tv_nsec += 200 * 1000;
            until.tv_sec += until.tv_nsec / 1000000000;
            until.tv_nsec %= 1000000000;
            pthread_cond_timedwait(&context->work, &fake.lock, &until);
        } else {
            pthread_cond_wait(&context->work, &fake.lock);
        }
    }
    return NULL;
}

static struct fake_op *pick_function_locked(struct fake_context *context)
{
    struct fake_stream *stream;

    if (fake.is_held || !context->is_active)
        return NULL;
    TAILQ_FOREACH (stream, &context->streams, entry) {
        struct fake_op *op = TAILQ_FIRST(&stream->ops);

        if (op && !stream->is_held && op->kind == FAKE_FUNCTION && !op->is_handed_over &&
            is_in_order_locked(stream, op))
            return op;
    }
    return NULL;
}

static void *run_functions(void *arg)
{
    struct fake_context *context = arg;

    fake_in_function = true;
    fake_lock();
    for (;;) {
        struct fake_op *op = pick_function_locked(context);

        if (!op) {
            pthread_cond_wait(&context->work, &fake.lock);
            continue;
        }
        op->is_handed_over = true;
        fake_unlock(CUDA_SUCCESS);
        op->fn(op->arg);
        fake_lock();
        op->is_returned = true;
        pthread_cond_broadcast(&context->work);
    }
    return NULL;
}

/* They end with the process. */
static bool start_threads_locked(struct fake_context *context)
{
    pthread_t thread;

    if (context->has_threads)
        return true;
    pthread_cond_init(&context->work, NULL);
    if (pthread_create(&thread, NULL, run_engine, context))
        return false;
    pthread_detach(thread);
    if (pthread_create(&thread, NULL, run_functions, context))
        return false;
    pthread_detach(thread);
    context->has_threads = true;
    return true;
}

CUresult fake_stream_queue_locked(struct fake_stream *stream,
                                  const struct fake_op *wanted)
{
    struct fake_context *context = stream->context;
    struct fake_op *op = malloc(sizeof(*op));

    if (!op || !start_threads_locked(context)) {
        free(op);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *op = *wanted;
    op->number = ++context->n_queued;
    TAILQ_INSERT_TAIL(&stream->ops, op, entry);
    pthread_cond_broadcast(&context->work);
    return CUDA_SUCCESS;
}

/* ---- the driver's functions ---- */

CUresult fake_stream_find_locked(CUstream handle, struct fake_stream **ret_stream)
{
    struct fake_context *context;
    CUresult rc;

    if (handle == NULL || handle == CU_STREAM_LEGACY) {
        rc = fake_context_current_locked(&context);
        if (rc == CUDA_SUCCESS)
            *ret_stream = &context->legacy;
        return rc;
    }
    *ret_stream = fake_table_find_locked(&fake.streams, (uint64_t)handle);
    if (!*ret_stream)
        fake_die("stream", handle);
    return (*ret_stream)->context->error;
}

CUresult fake_cuStreamCreateWithPriority(CUstream *ret_stream, unsigned flags,
                                         int priority)
{
    struct fake_context *context;
    struct fake_stream *stream;
    CUresult rc;

    fake_lock();
    rc = fake_context_current_locked(&context);
    if (rc != CUDA_SUCCESS)
        return fake_unlock(rc);
    if (!ret_stream || flags > CU_STREAM_NON_BLOCKING)
        return fake_unlock(CUDA_ERROR_INVALID_VALUE);
    stream = calloc(1, sizeof(*stream));
    if (!stream)
        return fake_unlock(CUDA_ERROR_OUT_OF_MEMORY);
    stream->handle = fake_table_add_locked(&fake.streams, stream);
    if (!stream->handle) {
        free(stream);
        return fake_unlock(CUDA_ERROR_OUT_OF_MEMORY);
    }
    stream->flags = flags;
    stream->context = context;
    TAILQ_INIT(&stream->ops);
    TAILQ_INSERT_TAIL(&context->streams, stream, entry);
    fake.last_priority = priority;
    *ret_stream = (CUstream)stream->handle;
    return fake_unlock(CUDA_SUCCESS);
}

/* What is queued on it is done all the same. */
CUresult fake_cuStreamDestroy_v2(CUstream handle)
{
    struct fake_stream *stream;
    CUresult rc;

    if (handle == NULL || handle == CU_STREAM_LEGACY)
        return CUDA_ERROR_INVALID_HANDLE;
    fake_lock();
    rc = fake_stream_find_locked(handle, &stream);
    if (rc != CUDA_SUCCESS)
        return fake_unlock(rc);
    fake_table_remove_locked(&fake.streams, stream->handle);
    stream->handle = 0;
    if (TAILQ_EMPTY(&stream->ops))
        free_stream_locked(stream);
    return fake_unlock(CUDA_SUCCESS);
}

/* Up to the op with that number; the legacy stream includes the blocking ones. */
static bool is_done_up_to_locked(const struct fake_stream *stream, uint64_t number)
{
    const struct fake_stream *other;

    if (is_before(stream, number + 1))
        return false;
    if (!is_legacy(stream))
        return true;
    TAILQ_FOREACH (other, &stream->context->streams, entry)
        if (is_blocking(other) && is_before(other, number + 1))
            return false;
    return true;
}

CUresult fake_cuStreamQuery(CUstream handle)
{
    struct fake_stream *stream;
    CUresult rc;

    fake_lock();
    rc = fake_stream_find_locked(handle, &stream);
    if (rc == CUDA_SUCCESS && !is_done_up_to_locked(stream, UINT64_MAX - 1))
        rc = CUDA_ERROR_NOT_READY;
    return fake_unlock(rc);
}

CUresult fake_cuStreamSynchronize(CUstream handle)
{
    struct fake_stream *stream;
    uint64_t number;
    CUresult rc;

    fake_lock();
    rc = fake_stream_find_locked(handle, &stream);
    if (rc != CUDA_SUCCESS)
        return fake_unlock(rc);
    number = stream->context->n_queued;
    fake.n_waiting++;
    while (!is_done_up_to_locked(stream, number)) {
        pthread_cond_wait(&fake.changed, &fake.lock);
        rc = fake_stream_find_locked(handle, &stream);
        if (rc != CUDA_SUCCESS)
            break;
    }
    fake.n_waiting--;
    return fake_unlock(rc);
}

/* Until all that is queued now is done, or the context breaks. */
void fake_stream_wait_all_locked(struct fake_context *context)
{
    uint64_t number = context->n_queued;
    bool is_busy = true;

    while (is_busy && context->is_active && context->error == CUDA_SUCCESS) {
        struct fake_stream *stream;

        is_busy = false;
        TAILQ_FOREACH (stream, &context->streams, entry)
            is_busy |= is_before(stream, number + 1);
        if (is_busy)
            pthread_cond_wait(&fake.changed, &fake.lock);
    }
}

CUresult fake_cuCtxSynchronize(void)
{
    struct fake_context *context;
    CUresult rc;

    fake_lock();
    rc = fake_context_current_locked(&context);
    if (rc == CUDA_SUCCESS) {
        fake_stream_wait_all_locked(context);
        rc = context->error;
    }
    return fake_unlock(rc);
}

CUresult fake_cuLaunchHostFunc(CUstream handle, CUhostFn fn, void *arg)
{
    struct fake_stream *stream;
    CUresult rc;

    fake_lock();
    rc = fake_stream_find_locked(handle, &stream);
    if (rc == CUDA_SUCCESS && !fn)
        rc = CUDA_ERROR_INVALID_VALUE;
    if (rc == CUDA_SUCCESS)
        rc = fake_stream_queue_locked(
            stream, &(struct fake_op){.kind = FAKE_FUNCTION, .fn = fn, .arg = arg});
    return fake_unlock(rc);
}

/* ---- captures of graphs ---- */

static _Thread_local CUstreamCaptureMode capture_mode;

CUresult fake_cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
    CUstreamCaptureMode old = capture_mode;

    if (!mode || (unsigned)*mode > CU_STREAM_CAPTURE_MODE_RELAXED)
        return CUDA_ERROR_INVALID_VALUE;
    capture_mode = *mode;
    *mode = old;
    return CUDA_SUCCESS;
}

CUresult fake_cuStreamBeginCapture_v2(CUstream handle, CUstreamCaptureMode mode)
{
    struct fake_stream *stream;
    CUresult rc;

    fake_lock();
    rc = fake_stream_find_locked(handle, &stream);
    if (rc == CUDA_SUCCESS && stream->capture.is_on)
        rc = CUDA_ERROR_ILLEGAL_STATE;
    if (rc == CUDA_SUCCESS)
        stream->capture =
            (struct fake_capture){.is_on = true, .mode = mode, .thread = pthread_self()};
    return fake_unlock(rc);
}

/* A capture without copies has no graph here. */
CUresult fake_cuStreamEndCapture(CUstream handle, CUgraph *ret_graph)
{
    struct fake_stream *stream;
    CUresult rc;

    fake_lock();
    rc = fake_stream_find_locked(handle, &stream);
    if (rc == CUDA_SUCCESS && !stream->capture.is_on)
        rc = CUDA_ERROR_ILLEGAL_STATE;
    if (rc == CUDA_SUCCESS && stream->capture.is_broken)
        rc = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (rc == CUDA_SUCCESS || rc == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED)
        stream->capture.is_on = false;
    *ret_graph = rc == CUDA_SUCCESS ? stream->capture.graph : NULL;
    return fake_unlock(rc);
}

/* A capture of this thread's own, or one that is everybody's business, as this thread's. */
static bool is_forbidden_by(const struct fake_capture *capture)
{
    if (!capture->is_on || capture->mode == CU_STREAM_CAPTURE_MODE_RELAXED)
        return false;
    return pthread_equal(capture->thread, pthread_self()) ||
           (capture->mode == CU_STREAM_CAPTURE_MODE_GLOBAL &&
            capture_mode == CU_STREAM_CAPTURE_MODE_GLOBAL);
}

CUresult fake_capture_break(void)
{
    CUresult rc = CUDA_SUCCESS;
    struct fake_stream *stream;

    if (capture_mode == CU_STREAM_CAPTURE_MODE_RELAXED)
        return CUDA_SUCCESS;
    fake_lock();
    for (int i = 0; i < fake.n_devices; i++) {
        TAILQ_FOREACH (stream, &fake.contexts[i].streams, entry) {
            if (!is_forbidden_by(&stream->capture))
                continue;
            stream->capture.is_broken = true;
            rc = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
        }
    }
    return fake_unlock(rc);
}
