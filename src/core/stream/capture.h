/*
 * Captures: the work of streams is recorded in a model (model.h) and does not run.
 *
 * A capture begins on one stream, its origin.  A stream that waits for an event recorded in the
 * capture joins it.  A joined stream must come back before the end: the origin waits for an event
 * recorded after the stream's last task, itself or by way of other joined streams.
 *
 * A call that a capture forbids invalidates the capture: each later call on its streams fails,
 * and so does the end.
 */
#ifndef AM_CORE_CAPTURE_H
#define AM_CORE_CAPTURE_H

#include "core/stream/model.h"

/* Into a new model, or into this one, which belongs to a conditional task and is empty. */
aclError am_capture_begin(struct am_stream *stream, aclmdlRICaptureMode mode,
                          struct am_model *into);
/* Also on failure the capture is over, unless the stream or the thread is the wrong one. */
aclError am_capture_end(struct am_stream *stream, void **ret_model);

/* This thread's mode; returns the previous one. */
aclmdlRICaptureMode am_capture_exchange_mode(aclmdlRICaptureMode mode);

/* Fails, and invalidates the capture, if a capture forbids unsafe calls to this thread. */
aclError am_capture_check_unsafe(const char *remedy);

/* The same for this memory, on a stream that is not captured. */
#define AM_CAPTURE_PAGEABLE \
    "use host memory of aclrtMallocHost, or let this thread call " \
    "aclmdlRICaptureThreadExchangeMode with RELAXED"
static inline bool am_capture_is_under_way(void)
{
    return atomic_load_explicit(&am_n_captures, memory_order_relaxed) != 0;
}

/*
 * Records a wait for the record at `from`, which was read from an event; the stream joins the
 * capture if it is not captured.  *ret_is_over: that capture has ended, and nothing was done.
 */
aclError am_capture_wait(struct am_stream *stream, struct am_task *wait,
                         const struct am_place *from, bool *ret_is_over);
/* Fails if the capture is invalid, or has ended. */
aclError am_capture_check_status(struct am_model *model);
/* Whether the capture is still under way; fails with this code if it is. */
aclError am_capture_check(uint64_t capture, aclError code, const char *remedy);

/* ---- for core/model/build.c ---- */

/* The model takes tasks from now on. */
void am_capture_start_locked(struct am_model *model, aclmdlRICaptureMode mode)
    AM_REQUIRES(am_models.lock);
/*
 * The work of the stream of the lane that was added last goes to the lane.  Fails if the stream
 * is captured; then the lane is taken out of the model.
 */
aclError am_lane_attach(struct am_model_lane *lane) AM_REQUIRES(am_models.lock);
/* The lane that is attached to the stream, or NULL. */
struct am_model_lane *am_lane_of(const struct am_model *model,
                                 const struct am_stream *stream)
    AM_REQUIRES(am_models.lock);
void am_lane_release(struct am_model_lane *lane);

/* Destroys the models of a device; its streams have ended. */
void am_model_destroy_all(int32_t device);
aclError am_model_destroy(struct am_model *model);

/* The number of the capture of the stream, or 0. */
static inline uint64_t am_capture_number(struct am_stream *stream)
{
    const struct am_model *model = am_queue_model(&stream->queue);

    return model != NULL ? model->capture : 0;
}

#endif
