/* Notifies: one bit that a stream sets and another waits for and clears.  See event.h. */
#include <stdlib.h>

#include "acl/error_codes/rt_error_codes.h"
#include "base/error.h"
#include "base/sys.h"
#include "base/util.h"
#include "core/context.h"
#include "core/event.h"

#define SECOND UINT64_C(1000000000)

struct am_notify {
    struct am_object object;
    void *handle;
    uint32_t id;
    int32_t device;
    bool is_dead; /* sched.lock, as all below */
    bool is_set;
    TAILQ_HEAD(, notify_task) pending; /* records that have not run */
    struct am_waitlist waiting;
    LIST_ENTRY(am_notify) all;
};

struct notify_task {
    struct am_task task;
    struct am_notify *notify; /* holds a reference */
    struct am_queue *queue;   /* that it is in */
    TAILQ_ENTRY(notify_task) listed;
};

static LIST_HEAD(, am_notify) notifies[AM_DEVICES_MAX]; /* sched.lock */
static uint32_t next_id;                                /* sched.lock */
static _Atomic uint64_t n_notifies;

uint64_t am_notify_count(void)
{
    return n_notifies;
}

uint32_t am_notify_id(const struct am_notify *notify)
{
    return notify->id;
}

void am_notify_put(struct am_notify *notify)
{
    if (am_ref_drop(&notify->object.refs))
        free(notify);
}

/* A notify of the device, not yet listed, with one reference for being alive. */
static aclError notify_make(int32_t device, struct am_notify **ret_notify)
{
    struct am_notify *notify = am_sys_calloc(1, sizeof *notify);

    if (notify == NULL)
        return am_fail(ACL_ERROR_BAD_ALLOC, "no memory for a notify");
    notify->device = device;
    TAILQ_INIT(&notify->pending);
    am_waitlist_init(&notify->waiting);
    notify->object.refs = 1;
    if (am_idmap_add(&am_rt.ids, AM_KIND_NOTIFY, &notify->object, &notify->handle) != 0) {
        am_notify_put(notify);
        return am_fail(ACL_ERROR_BAD_ALLOC, "no memory for the handle of a notify");
    }
    *ret_notify = notify;
    return ACL_SUCCESS;
}

aclError am_notify_create(void **ret_handle)
{
    struct am_context *context;
    struct am_notify *notify;
    void *handle;
    aclError rc = am_context_get_current(&context);

    if (rc != ACL_SUCCESS)
        return rc;
    rc = notify_make(context->device, &notify);
    if (rc != ACL_SUCCESS)
        goto out;
    handle = notify->handle; /* once it is listed, a reset by another thread may end it */
    am_lock(&am_rt.sched.lock);
    if (context->handle == NULL) { /* since it was looked up; its device is being reset */
        rc = am_fail(ACL_ERROR_RT_CONTEXT_NULL, "the context has just been destroyed");
    } else {
        notify->id = next_id++;
        LIST_INSERT_HEAD(&notifies[notify->device], notify, all);
        n_notifies++;
    }
    am_unlock(&am_rt.sched.lock);
    if (rc == ACL_SUCCESS) {
        *ret_handle = handle;
    } else {
        am_idmap_remove(&am_rt.ids, handle);
        am_notify_put(notify);
    }
out:
    am_context_put(context);
    return rc;
}

aclError am_notify_get(void *handle, struct am_notify **ret_notify)
{
    struct am_notify *notify =
        (struct am_notify *)am_idmap_get(&am_rt.ids, AM_KIND_NOTIFY, handle);

    AM_REQUIRE(notify != NULL, ACL_ERROR_RT_INVALID_HANDLE, "notify %p %s", handle,
               am_idmap_why(AM_KIND_NOTIFY, handle));
    *ret_notify = notify;
    return ACL_SUCCESS;
}

/* False when somebody was faster. */
static bool notify_unlist(struct am_notify *notify)
{
    bool was_alive;

    am_lock(&am_rt.sched.lock);
    was_alive = !notify->is_dead;
    notify->is_dead = true;
    if (was_alive) {
        LIST_REMOVE(notify, all);
        n_notifies--;
        am_idmap_remove(&am_rt.ids, notify->handle);
        /* Who waits for a record that nobody can queue any more is told. */
        am_sched_wake_locked(&am_rt.sched, &notify->waiting);
    }
    am_unlock(&am_rt.sched.lock);
    if (was_alive)
        am_notify_put(notify);
    return was_alive;
}

aclError am_notify_destroy(void *handle)
{
    struct am_notify *notify;
    aclError rc = am_notify_get(handle, &notify);

    if (rc != ACL_SUCCESS)
        return rc;
    if (!notify_unlist(notify))
        rc = am_fail(ACL_ERROR_RT_INVALID_HANDLE, "notify %p is not alive", handle);
    am_notify_put(notify);
    return rc;
}

void am_notify_kill_all(int32_t device)
{
    struct am_notify *notify;

    do {
        am_lock(&am_rt.sched.lock);
        notify = LIST_FIRST(&notifies[device]);
        if (notify != NULL)
            am_ref_more(&notify->object.refs);
        am_unlock(&am_rt.sched.lock);
        if (notify != NULL) {
            notify_unlist(notify);
            am_notify_put(notify);
        }
    } while (notify != NULL);
}

static void notify_drop(struct am_task *task)
{
    struct notify_task *nt = (struct notify_task *)task;

    am_notify_put(nt->notify);
    free(nt);
}

static void record_unlist(struct notify_task *nt)
{
    TAILQ_REMOVE(&nt->notify->pending, nt, listed);
}

static aclError record_finish(struct am_task *task, struct am_sched *sched)
    AM_REQUIRES(sched->lock)
{
    struct notify_task *nt = (struct notify_task *)task;

    record_unlist(nt);
    nt->notify->is_set = true;
    am_sched_wake_locked(sched, &nt->notify->waiting);
    return ACL_SUCCESS;
}

/* A wait for it is not for this record: another may come, unless the notify is gone. */
AM_NO_LOCK_ANALYSIS /* the scheduler calls it with its lock, which is ours */
    static void
    record_cancel(struct am_task *task, const struct am_queue *queue)
{
    struct notify_task *nt = (struct notify_task *)task;

    record_unlist(nt);
    if (nt->notify->is_dead)
        am_sched_wake_locked(&am_rt.sched, &nt->notify->waiting);
}

static bool wait_poll(struct am_task *task, struct am_sched *sched,
                      struct am_waitlist **ret_list)
{
    struct am_notify *notify = ((struct notify_task *)task)->notify;

    *ret_list = &notify->waiting;
    return notify->is_set || (notify->is_dead && TAILQ_EMPTY(&notify->pending));
}

static aclError wait_finish(struct am_task *task, struct am_sched *sched)
{
    struct am_notify *notify = ((struct notify_task *)task)->notify;

    AM_REQUIRE(notify->is_set, ACL_ERROR_RT_INVALID_HANDLE,
               "notify %u was destroyed while the stream waited for it, and no record of "
               "it is to come",
               notify->id);
    notify->is_set = false;
    return ACL_SUCCESS;
}

static bool wait_can_come(struct am_task *task, struct am_sched *sched)
    AM_REQUIRES(sched->lock)
{
    const struct notify_task *nt;

    TAILQ_FOREACH (nt, &((struct notify_task *)task)->notify->pending, listed) {
        if (am_queue_can_move_locked(sched, nt->queue))
            return true;
    }
    return false;
}

static const struct am_task_ops record_ops = {
    .finish = record_finish, .cancel = record_cancel, .drop = notify_drop};
static const struct am_task_ops wait_ops = {
    .poll = wait_poll,
    .finish = wait_finish,
    .can_come = wait_can_come,
    .drop = notify_drop,
    .timeout = ACL_ERROR_RT_WAIT_TIMEOUT,
};

static aclError notify_submit(const struct am_task_ops *ops, struct am_notify *notify,
                              struct am_stream *stream, uint64_t deadline)
{
    struct notify_task *nt = am_sys_malloc(sizeof *nt);
    aclError rc;

    if (nt == NULL)
        return am_fail(ACL_ERROR_BAD_ALLOC, "no memory for a task");
    am_ref_more(&notify->object.refs);
    *nt = (struct notify_task){
        .task = {.ops = ops, .function = am_error_function, .deadline = deadline},
        .notify = notify,
        .queue = &stream->queue,
    };
    am_lock(&am_rt.sched.lock);
    rc = am_sched_submit_locked(&am_rt.sched, &stream->queue, &nt->task);
    if (rc == ACL_SUCCESS && ops == &record_ops)
        TAILQ_INSERT_TAIL(&notify->pending, nt, listed);
    am_unlock(&am_rt.sched.lock);
    if (rc != ACL_SUCCESS)
        notify_drop(&nt->task);
    return rc;
}

aclError am_notify_record(struct am_notify *notify, struct am_stream *stream)
{
    return notify_submit(&record_ops, notify, stream, AM_FOREVER);
}

aclError am_notify_wait(struct am_notify *notify, struct am_stream *stream,
                        uint32_t seconds)
{
    AM_REQUIRE(
        stream->device == notify->device, ACL_ERROR_RT_PARAM_INVALID,
        "notify %u was made on device %d; only streams of that device may wait for it",
        notify->id, notify->device);
    return notify_submit(&wait_ops, notify, stream,
                         seconds == 0 ? AM_FOREVER : seconds * SECOND);
}

void am_notify_clear(struct am_notify *notify)
{
    am_lock(&am_rt.sched.lock);
    notify->is_set = false;
    am_unlock(&am_rt.sched.lock);
}
