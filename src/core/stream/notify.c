/* Notifies: one bit that a stream sets and another waits for and clears.  See event.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "acl/error_codes/rt_error_codes.h"
#include "base/error.h"
#include "base/slab.h"
#include "base/sys.h"
#include "base/util.h"
#include "core/device/context.h"
#include "core/device/device.h"
#include "core/device/setup.h"
#include "core/exchange/exchange.h"
#include "core/stream/event.h"
#include "core/stream/sched.h"

struct am_notify {
    struct am_object object;
    void *handle;
    uint32_t id;
    int32_t device;
    int32_t driver_id; /* of the device that it was made on, maybe in another process */
    _Atomic uint64_t export; /* the number that other processes open it by; 0: none */
    bool is_dead;            /* sched.lock, as all below */
    bool is_set;
    struct am_event_page
        *page; /* has the bit instead, once other processes may have it too */
    TAILQ_HEAD(, notify_task) pending; /* records that have not run */
    struct am_waitlist waiting;
    LIST_ENTRY(am_notify) all;
};

struct notify_task {
    struct am_task task;
    struct am_notify *notify; /* holds a reference */
    struct am_queue *queue;   /* that it is in */
    bool has_taken;           /* a wait: the bit was there, and was cleared */
    TAILQ_ENTRY(notify_task) listed;
};

/* Sent to an importer. */
struct notify_desc {
    int32_t driver_id;
};

static LIST_HEAD(, am_notify) notifies[AM_DEVICES_MAX]; /* sched.lock */
static uint32_t next_id;                                /* sched.lock */
static _Atomic uint64_t n_notifies;

static struct am_slab notify_slab = AM_SLAB_INIT(struct am_notify, "notify slab");

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
    if (!am_ref_drop(&notify->object.refs))
        return;
    if (notify->page != NULL)
        am_event_page_leave(notify->page);
    am_slab_give(&notify_slab, notify);
}

/* A notify of the device, not yet listed, with one reference for being alive. */
static aclError notify_make(int32_t device, struct am_notify **ret_notify)
{
    struct am_notify *notify = am_slab_take_zeroed(&notify_slab);

    if (notify == NULL)
        return am_fail(ACL_ERROR_BAD_ALLOC, "no memory for a notify");
    notify->device = device;
    notify->driver_id = am_devices.device[device].driver_id;
    TAILQ_INIT(&notify->pending);
    am_waitlist_init(&notify->waiting);
    notify->object.refs = 1;
    if (am_idmap_add(&am_ids, AM_KIND_NOTIFY, &notify->object, &notify->handle) != 0) {
        am_notify_put(notify);
        return am_fail(ACL_ERROR_BAD_ALLOC, "no memory for the handle of a notify");
    }
    *ret_notify = notify;
    return ACL_SUCCESS;
}

/* Takes over the page, unless it fails; driver_id is that of the page's maker then. */
static aclError notify_create(struct am_event_page *page, int32_t driver_id,
                              void **ret_handle)
{
    struct am_context *context;
    struct am_notify *notify;
    void *handle;
    aclError rc;

    AM_TRY(am_context_get_current(&context));
    rc = notify_make(context->device, &notify);
    if (rc != ACL_SUCCESS)
        goto out;
    notify->page = page;
    if (page != NULL)
        notify->driver_id = driver_id;
    handle = notify->handle; /* once it is listed, a reset by another thread may end it */
    am_lock(&am_sched.lock);
    if (context->handle == NULL) { /* since it was looked up; its device is being reset */
        rc = am_fail(ACL_ERROR_RT_CONTEXT_NULL, "the context has just been destroyed");
    } else {
        notify->id = next_id++;
        LIST_INSERT_HEAD(&notifies[notify->device], notify, all);
        n_notifies++;
    }
    am_unlock(&am_sched.lock);
    if (rc == ACL_SUCCESS) {
        *ret_handle = handle;
    } else {
        am_idmap_remove(&am_ids, handle);
        notify->page = NULL; /* the caller's again */
        am_notify_put(notify);
    }
out:
    am_context_put(context);
    return rc;
}

aclError am_notify_create(void **ret_handle)
{
    return notify_create(NULL, 0, ret_handle);
}

aclError am_notify_import(const struct am_ticket *ticket, void **ret_handle)
{
    struct am_import_reply reply;
    struct am_event_page *page;
    struct notify_desc desc = {0};
    aclError rc;

    AM_TRY(am_import_fetch(AM_SHARE_NOTIFY, ticket, &reply));
    if (reply.size == sizeof desc)
        memcpy(&desc, reply.bytes, sizeof desc);
    rc = am_event_page_join(reply.fd, &page);
    close(reply.fd);
    AM_TRY(rc);
    rc = notify_create(page, desc.driver_id, ret_handle);
    if (rc != ACL_SUCCESS)
        am_event_page_leave(page);
    return rc;
}

/* The bit moves into a page that other processes see; waits look there from now on. */
static aclError notify_widen(struct am_notify *notify)
{
    struct am_event_page *page;

    AM_TRY(am_event_page_make(&page));
    am_lock(&am_sched.lock);
    if (notify->page == NULL) {
        am_event_page_set(page, notify->is_set);
        notify->page = page;
        page = NULL;
        am_sched_wake_locked(&am_sched, &notify->waiting);
    }
    am_unlock(&am_sched.lock);
    if (page != NULL) /* another thread was faster */
        am_event_page_leave(page);
    return ACL_SUCCESS;
}

/* The export becomes the notify's, unless it has one. */
static aclError export_settle(struct am_notify *notify, uint64_t number)
{
    uint64_t none = 0;
    bool is_used;

    am_lock(&am_sched.lock);
    is_used = !notify->is_dead &&
              atomic_compare_exchange_strong(&notify->export, &none, number);
    am_unlock(&am_sched.lock);
    if (!is_used)
        am_export_withdraw(number);
    AM_REQUIRE(is_used, ACL_ERROR_RT_PARAM_INVALID,
               "notify %u was exported or destroyed by another thread", notify->id);
    return ACL_SUCCESS;
}

aclError am_notify_export(struct am_notify *notify, bool is_open,
                          struct am_ticket *ret_ticket)
{
    struct notify_desc desc = {notify->driver_id};
    struct am_ticket ticket;

    AM_REQUIRE(notify->export == 0, ACL_ERROR_RT_PARAM_INVALID,
               "notify %u is exported already; keep its key", notify->id);
    AM_TRY(notify->page == NULL ? notify_widen(notify) : ACL_SUCCESS);
    AM_TRY(am_export_add(AM_SHARE_NOTIFY, is_open, am_event_page_descriptor(notify->page),
                         &desc, sizeof desc, &ticket));
    AM_TRY(export_settle(notify, ticket.number));
    *ret_ticket = ticket;
    return ACL_SUCCESS;
}

aclError am_notify_trust(struct am_notify *notify, const int32_t *ids, size_t n)
{
    struct am_ticket ticket;

    AM_REQUIRE(am_export_find(AM_SHARE_NOTIFY, notify->export, &ticket),
               ACL_ERROR_RT_PARAM_INVALID,
               "notify %u is not exported; aclrtNotifyGetExportKey comes first",
               notify->id);
    return am_export_trust(AM_SHARE_NOTIFY, &ticket, ids, n, false);
}

static void object_put(struct am_object *object)
{
    am_notify_put((struct am_notify *)object);
}

aclError am_notify_get(void *handle, struct am_notify **ret_notify)
{
    struct am_notify *notify =
        (struct am_notify *)am_idmap_get(&am_ids, AM_KIND_NOTIFY, handle, object_put);

    AM_REQUIRE(notify != NULL, ACL_ERROR_RT_INVALID_HANDLE, "notify %p %s", handle,
               am_idmap_why(AM_KIND_NOTIFY, handle));
    *ret_notify = notify;
    return ACL_SUCCESS;
}

/* False: another thread has destroyed it. */
static bool notify_unlist(struct am_notify *notify)
{
    bool was_alive;

    am_lock(&am_sched.lock);
    was_alive = !notify->is_dead;
    notify->is_dead = true;
    if (was_alive) {
        LIST_REMOVE(notify, all);
        n_notifies--;
        am_idmap_remove(&am_ids, notify->handle);
        /* Waits for a record that can no longer be queued fail now. */
        am_sched_wake_locked(&am_sched, &notify->waiting);
    }
    am_unlock(&am_sched.lock);
    if (was_alive) {
        am_export_withdraw(notify->export);
        am_notify_put(notify);
    }
    return was_alive;
}

aclError am_notify_destroy(void *handle)
{
    struct am_notify *notify;
    aclError rc = ACL_SUCCESS;

    AM_TRY(am_notify_get(handle, &notify));
    if (!notify_unlist(notify))
        rc = am_fail(ACL_ERROR_RT_INVALID_HANDLE, "notify %p is not alive", handle);
    am_notify_put(notify);
    return rc;
}

void am_notify_kill_all(int32_t device)
{
    struct am_notify *notify;

    do {
        am_lock(&am_sched.lock);
        notify = LIST_FIRST(&notifies[device]);
        if (notify != NULL)
            am_ref_more(&notify->object.refs);
        am_unlock(&am_sched.lock);
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

static void bit_put_locked(struct am_notify *notify, bool is_set)
    AM_REQUIRES(am_sched.lock)
{
    if (notify->page != NULL)
        am_event_page_set(notify->page, is_set);
    else
        notify->is_set = is_set;
}

/* Clears the bit; false when it was not set. */
static bool bit_take_locked(struct am_notify *notify) AM_REQUIRES(am_sched.lock)
{
    bool was_set = notify->is_set;

    if (notify->page != NULL)
        return am_event_page_take(notify->page);
    notify->is_set = false;
    return was_set;
}

static void record_unlist(struct notify_task *nt)
{
    TAILQ_REMOVE(&nt->notify->pending, nt, listed);
}

/* Called with the scheduler's lock. */
AM_NO_LOCK_ANALYSIS static aclError record_finish(struct am_task *task,
                                                  struct am_sched *sched)
{
    struct notify_task *nt = (struct notify_task *)task;

    record_unlist(nt);
    bit_put_locked(nt->notify, true);
    am_sched_wake_locked(sched, &nt->notify->waiting);
    return ACL_SUCCESS;
}

/* A wait is not for this record alone: another may come, unless the notify is gone. */
AM_NO_LOCK_ANALYSIS /* called with the scheduler's lock */
    static void
    record_cancel(struct am_task *task, const struct am_queue *queue)
{
    struct notify_task *nt = (struct notify_task *)task;

    record_unlist(nt);
    if (nt->notify->is_dead)
        am_sched_wake_locked(&am_sched, &nt->notify->waiting);
}

/* A shared bit is cleared here, in one step: another process may wait for it too. */
AM_NO_LOCK_ANALYSIS static bool wait_poll(struct am_task *task, struct am_sched *sched,
                                          struct am_waitlist **ret_list)
{
    struct notify_task *nt = (struct notify_task *)task;
    struct am_notify *notify = nt->notify;

    *ret_list = notify->page != NULL ? NULL : &notify->waiting;
    nt->has_taken = bit_take_locked(notify);
    return nt->has_taken || (notify->is_dead && TAILQ_EMPTY(&notify->pending));
}

static aclError wait_finish(struct am_task *task, struct am_sched *sched)
{
    struct notify_task *nt = (struct notify_task *)task;

    AM_REQUIRE(nt->has_taken, ACL_ERROR_RT_INVALID_HANDLE,
               "notify %u was destroyed while the stream waited for it, and no record of "
               "it is to come",
               nt->notify->id);
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

static void wait_describe(const struct am_task *task, char *text, size_t size)
{
    const struct am_notify *notify = ((const struct notify_task *)task)->notify;

    snprintf(text, size, "notify %u is recorded%s", notify->id,
             notify->page != NULL ? ", by this process or another one" : "");
}

static const struct am_task_ops record_ops = {
    .finish = record_finish, .cancel = record_cancel, .drop = notify_drop};
static const struct am_task_ops wait_ops = {
    .poll = wait_poll,
    .finish = wait_finish,
    .can_come = wait_can_come,
    .describe = wait_describe,
    .drop = notify_drop,
    .timeout = ACL_ERROR_RT_WAIT_TIMEOUT,
};

static aclError notify_submit(const struct am_task_ops *ops, struct am_notify *notify,
                              struct am_stream *stream, uint64_t deadline)
{
    struct notify_task *nt = am_task_make(ops, sizeof *nt);
    aclError rc;

    if (nt == NULL)
        return ACL_ERROR_BAD_ALLOC;
    am_ref_more(&notify->object.refs);
    nt->task.deadline = deadline;
    nt->notify = notify;
    nt->queue = &stream->queue;
    am_lane_enter(&stream->lane);
    am_lock(&am_sched.lock);
    rc = am_lane_queue_locked(&am_sched, &stream->lane, &nt->task);
    if (rc == ACL_SUCCESS && ops == &record_ops)
        TAILQ_INSERT_TAIL(&notify->pending, nt, listed);
    am_unlock(&am_sched.lock);
    am_lane_leave(&stream->lane);
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
        am_devices.device[stream->device].driver_id == notify->driver_id,
        ACL_ERROR_RT_PARAM_INVALID,
        "notify %u was made on device %d; only streams of that device may wait for it",
        notify->id, notify->driver_id);
    return notify_submit(&wait_ops, notify, stream,
                         seconds == 0 ? AM_FOREVER : seconds * AM_SECOND);
}

void am_notify_clear(struct am_notify *notify)
{
    am_lock(&am_sched.lock);
    bit_put_locked(notify, false);
    am_unlock(&am_sched.lock);
}
