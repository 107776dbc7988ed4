/*
 * Streams: a queue of the scheduler and one of the lane engine, with an owner, attributes and
 * a number.
 *
 * A stream belongs to a context.  The scheduler's lock covers the list of streams and
 * everything in them that changes.  A stream dies by its own destroy call, with its
 * context, or with its device; its handle is dead from then on, and its memory goes with
 * the last reference.
 */
#ifndef AM_CORE_STREAM_H
#define AM_CORE_STREAM_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "acl/acl_rt.h"
#include "base/handle.h"
#include "core/device/settings.h"
#include "core/stream/lane.h"
#include "core/stream/sched.h"

struct am_allocator;
struct am_context;

struct am_stream {
    struct am_named named;
    int32_t id;
    int32_t device;
    struct am_context *context; /* holds a reference, alive or not */
    bool is_default;            /* its context's default stream */
    bool is_dead;               /* no longer to be found */
    uint32_t flags;             /* ACL_STREAM_* */
    struct am_queue queue;
    struct am_lane_queue lane; /* all that queues tasks goes through it */
    uint64_t callback_thread;  /* of the program, for its callbacks; 0: none subscribed */
    uint32_t overflow_check;
    uint32_t custom_tag;
    uint32_t cache_op_info;
    struct am_settings limits;      /* on the cores that its operators use */
    struct am_allocator *allocator; /* the registered one, with a reference, or NULL */
    void (*allocator_put)(struct am_allocator *allocator); /* comes with it */
    LIST_ENTRY(am_stream) all; /* of its device, newest first */
    uint64_t serial; /* grows with each stream; a walk remembers by it where it was */
};

aclError am_stream_create(uint32_t priority, uint32_t flags, void **ret_handle);
/* Destroys it after its tasks, or without those that have not begun. */
aclError am_stream_destroy(void *handle, bool is_forced);

/*
 * The stream of a handle, NULL being the current context's default one, with one more
 * reference.
 */
aclError am_stream_get(void *handle, struct am_stream **ret_stream);
/* The same for a handle that need not be alive; NULL: it is not, and nothing is said. */
struct am_stream *am_stream_find(void *handle);
void am_stream_put(struct am_stream *stream);

/* The default stream of the current context. */
aclError am_stream_default(void **ret_handle);

/*
 * Until the tasks queued so far are done, or 507046; then the stream's failure, if there was
 * one that had not been reported before the call.
 */
aclError am_stream_sync(struct am_stream *stream, int32_t timeout_ms);
/* The same for all streams of a device. */
aclError am_stream_sync_device(int32_t device, int32_t timeout_ms);

/* Drops what has not begun; a stopped stream takes nothing until it is synchronised. */
void am_stream_abort(struct am_stream *stream);
void am_stream_stop(struct am_stream *stream);
/*
 * All streams of a device, and functions of the program are waited for as well: true when
 * all were empty in time.
 */
bool am_stream_abort_device(int32_t device, uint64_t timeout_ns);

bool am_stream_is_idle(struct am_stream *stream);

/*
 * Asks all devices, and drops the launched tasks that are done, on any stream; false: some
 * are not done.  Tasks keep memory alive, also memory that the program has freed meanwhile.
 */
bool am_stream_collect_all(void);

/* How many more can be created on this device. */
uint32_t am_stream_available(int32_t device);

/*
 * The streams of a context (NULL: of the whole device) die.  With `wait` their tasks are
 * done first.  A stream whose wait no queued task can end is given up, with a warning.
 * Without `wait`, a running function of the program has some seconds to return.
 */
void am_stream_kill_all(int32_t device, const struct am_context *context, bool wait);

/* Queues a task, or drops it; the stream's flags and state have been looked at. */
aclError am_stream_submit(struct am_stream *stream, struct am_task *task);

/* The same, and waits for it and for nothing that comes later. */
aclError am_stream_submit_and_wait(struct am_stream *stream, struct am_task *task);

/*
 * Before waiting for all streams of a context (NULL: of the device): fails when one of
 * them waits for the function of the program that this thread is in.
 */
aclError am_stream_check_all(int32_t device, const struct am_context *context);

uint64_t am_stream_count(void);

/*
 * Called without a lock when a stream was synchronised or has ended: pools, which lie
 * above streams, give memory back then.
 */
void am_stream_set_synced(void (*synced)(int32_t device, int32_t stream));

#endif
