/*
 * Streams: a queue with an owner, attributes and a number.
 *
 * A stream belongs to a context.  One lock protects the lists of streams; the lock of its queue
 * protects the attributes of a stream.  A stream ends by its own destroy call, with its
 * context, or with its device.  Then its handle is invalid; its memory is freed with the last
 * reference.
 */
#ifndef AM_CORE_STREAM_H
#define AM_CORE_STREAM_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "acl/acl_rt.h"
#include "base/handle.h"
#include "core/device/setup.h"
#include "core/stream/queue.h"

struct am_context;

struct am_stream {
    struct am_named named; /* has a handle as long as the stream is listed */
    int32_t id;
    int32_t device;
    struct am_context *context; /* holds a reference, alive or not */
    bool is_default;            /* its context's default stream */
    uint32_t flags;             /* ACL_STREAM_* */
    struct am_queue queue;
    uint64_t callback_thread; /* queue.lock, as the next ones; 0: none subscribed */
    uint32_t overflow_check;
    uint32_t custom_tag;
    uint32_t cache_op_info;
    struct am_settings limits; /* on the cores that its operators use */
    struct am_named
        *allocator; /* the program's, with a reference; core/pool/allocator.c */
    LIST_ENTRY(am_stream) all; /* of its device, newest first */
    uint64_t serial; /* grows with each stream; a walk remembers by it where it was */
};

static inline bool am_stream_is_captured(struct am_stream *stream)
{
    return atomic_load_explicit(&stream->queue.capture, memory_order_relaxed) != NULL;
}

aclError am_stream_create(uint32_t priority, uint32_t flags, void **ret_handle);
/* Destroys it after its tasks, or without tasks that have not begun. */
aclError am_stream_destroy(struct am_stream *stream, bool is_forced);

/*
 * The stream of a handle, NULL being the current context's default one, with one more
 * reference.
 */
aclError am_stream_get(void *handle, struct am_stream **ret_stream);
void am_stream_put(struct am_stream *stream);

/* The default stream of the current context. */
aclError am_stream_default(void **ret_handle);

/*
 * Until the tasks queued so far are done, or 507046; then the stream's failure, if there was
 * one that had not been reported before the call.
 */
aclError am_stream_sync(struct am_stream *stream, int32_t timeout_ms,
                        bool *ret_is_synced);
/* The same for all streams of a device. */
aclError am_stream_sync_device(int32_t device, int32_t timeout_ms, bool *ret_are_synced);

/*
 * Drops what has not begun; a stopped stream takes nothing until it is synchronised.  A captured
 * stream refuses both.
 */
aclError am_stream_abort(struct am_stream *stream);
aclError am_stream_stop(struct am_stream *stream);
/*
 * The same for all streams of a device, and waits for functions of the program: true if all
 * streams were empty in time.  Captured work is not queued, so it stays.
 */
bool am_stream_abort_device(int32_t device, uint64_t timeout_ns);

/* Whether its tasks are done. */
aclError am_stream_query(struct am_stream *stream, bool *ret_is_idle);

/*
 * Polls all devices and frees the launched tasks that are done, on all streams; false: some
 * are not done.  A task keeps memory alive that the program may have freed since.
 */
bool am_stream_collect_all(void);

/* How many more can be created on this device. */
uint32_t am_stream_available(int32_t device);

/* The device streams that a model holds, in addition to the streams of the program. */
struct am_stream_hold {
    uint32_t model;
    int32_t device;
    uint32_t n;
    LIST_ENTRY(am_stream_hold) all; /* if n > 0 */
};
/* One more; fails with this code if the device has no stream left. */
aclError am_stream_hold(struct am_stream_hold *hold, aclError code);
/* As many fewer, or all that there are. */
void am_stream_release(struct am_stream_hold *hold, uint32_t n);

/*
 * Ends the streams of a context (NULL: of the whole device).  With `wait` their tasks are
 * done first, and a stream that stalls is given up, with a warning.  Without `wait`, a
 * function of the program that runs has five seconds to return.
 */
void am_stream_kill_all(int32_t device, const struct am_context *context, bool wait);

/*
 * A call that is not allowed on a captured stream: invalidates the capture and fails with this
 * code; succeeds if the stream is not captured.
 */
aclError am_stream_refuse(struct am_stream *stream, aclError code, const char *remedy);

/* Submits a task; if that fails, frees it. */
aclError am_stream_submit(struct am_stream *stream, struct am_task *task);

/* The same, and waits for this task and the tasks before it. */
aclError am_stream_submit_and_wait(struct am_stream *stream, struct am_task *task);

/*
 * Before waiting for all streams of a context (NULL: of the device): fails when one of
 * them waits for the function of the program that this thread is in.
 */
aclError am_stream_check_all(int32_t device, const struct am_context *context);

#endif
