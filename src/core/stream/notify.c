/* Notifies: one bit that a stream sets and another waits for and clears.  See event.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "acl/error_codes/rt_error_codes.h"
#include "base/error.h"
#include "base/sys.h"
#include "base/util.h"
#include "core/device/device.h"
#include "core/device/setup.h"
#include "core/exchange/exchange.h"
#include "core/stream/event.h"
#include "core/stream/sched.h"

struct am_notify {
    struct am_signal signal;
    /* by the driver's id; -1: this process made it, on the signal's device */
    int32_t made_on;
    bool is_set; /* sched.lock, as the list below */
    /* Has the bit instead, once other processes may have it too; written under sched.lock. */
    _Atomic(struct am_event_page *) page;
    TAILQ_HEAD(, notify_task) pending; /* records that have not run */
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

void am_notify_put(struct am_notify *notify)
{
    if (!am_ref_drop(&notify->signal.named.refs))
        return;
    am_event_page_leave(notify->page);
    am_named_free(&notify->signal.named);
}

static void signal_put(struct am_named *named)
{
    am_notify_put((struct am_notify *)named);
}

struct am_signals am_notifies = {
    .kind = AM_KIND_NOTIFY, .name = "notify", .put = signal_put};

uint32_t am_notify_id(const struct am_notify *notify)
{
    return notify->signal.id;
}

/* Of the device that it was made on, maybe in another process. */
static int32_t driver_id(const struct am_notify *notify)
{
    return notify->made_on >= 0 ? notify->made_on
                                : am_devices.device[notify->signal.device].driver_id;
}

/* Takes over the page, also on failure. */
static aclError notify_create(struct am_event_page *page, int32_t made_on,
                              void **ret_handle)
{
    struct am_notify *notify = am_named_alloc(AM_KIND_NOTIFY, sizeof *notify);

    if (notify == NULL) {
        am_event_page_leave(page);
        return am_fail(ACL_ERROR_BAD_ALLOC, "no memory for a notify");
    }
    notify->made_on = made_on;
    notify->page = page;
    TAILQ_INIT(&notify->pending);
    return am_signal_enter(&am_notifies, &notify->signal, UINT32_MAX, ret_handle);
}

aclError am_notify_create(void **ret_handle)
{
    return notify_create(NULL, -1, ret_handle);
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
    return notify_create(page, desc.driver_id, ret_handle);
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
        am_sched_wake_locked(&am_sched, &notify->signal.waiting);
    }
    am_unlock(&am_sched.lock);
    if (page != NULL) /* another thread was faster */
        am_event_page_leave(page);
    return ACL_SUCCESS;
}

aclError am_notify_export(struct am_notify *notify, bool is_open,
                          struct am_ticket *ret_ticket)
{
    struct notify_desc desc = {driver_id(notify)};
    struct am_export what = {
        .kind = AM_SHARE_NOTIFY, .is_open = is_open, .size = sizeof desc};
    struct am_ticket ticket;

    AM_REQUIRE(notify->signal.export == 0, ACL_ERROR_RT_PARAM_INVALID,
               "notify %u is exported already; keep its key", notify->signal.id);
    if (notify->page == NULL)
        AM_TRY(notify_widen(notify));
    what.fd = am_event_page_descriptor(notify->page);
    memcpy(what.bytes, &desc, sizeof desc);
    AM_TRY(am_export_add(&what, &ticket));
    AM_REQUIRE(
        am_signal_exported(&notify->signal, ticket.number), ACL_ERROR_RT_PARAM_INVALID,
        "notify %u was exported or destroyed by another thread", notify->signal.id);
    *ret_ticket = ticket;
    return ACL_SUCCESS;
}

aclError am_notify_trust(struct am_notify *notify, const int32_t *ids, size_t n)
{
    struct am_ticket ticket;

    AM_REQUIRE(am_export_find(AM_SHARE_NOTIFY, notify->signal.export, &ticket),
               ACL_ERROR_RT_PARAM_INVALID,
               "notify %u is not exported; aclrtNotifyGetExportKey comes first",
               notify->signal.id);
    return am_export_trust(AM_SHARE_NOTIFY, &ticket, ids, n, false);
}

aclError am_notify_get(void *handle, struct am_notify **ret_notify)
{
    struct am_signal *signal;

    AM_TRY(am_signal_get(&am_notifies, handle, &signal));
    *ret_notify = (struct am_notify *)signal;
    return ACL_SUCCESS;
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
    am_sched_wake_locked(sched, &nt->notify->signal.waiting);
    return ACL_SUCCESS;
}

/* A wait is not for this record alone: another may come, unless the notify is gone. */
AM_NO_LOCK_ANALYSIS /* called with the scheduler's lock */
    static void
    record_cancel(struct am_task *task, const struct am_queue *queue)
{
    struct notify_task *nt = (struct notify_task *)task;

    record_unlist(nt);
    if (nt->notify->signal.is_dead)
        am_sched_wake_locked(&am_sched, &nt->notify->signal.waiting);
}

/* A shared bit is cleared here, in one step: another process may wait for it too. */
AM_NO_LOCK_ANALYSIS static bool wait_poll(struct am_task *task, struct am_sched *sched,
                                          struct am_waitlist **ret_list)
{
    struct notify_task *nt = (struct notify_task *)task;
    struct am_notify *notify = nt->notify;

    *ret_list = notify->page != NULL ? NULL : &notify->signal.waiting;
    nt->has_taken = bit_take_locked(notify);
    return nt->has_taken || (notify->signal.is_dead && TAILQ_EMPTY(&notify->pending));
}

static aclError wait_finish(struct am_task *task, struct am_sched *sched)
{
    struct notify_task *nt = (struct notify_task *)task;

    AM_REQUIRE(nt->has_taken, ACL_ERROR_RT_INVALID_HANDLE,
               "notify %u was destroyed while the stream waited for it, and no record of "
               "it is to come",
               nt->notify->signal.id);
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

    snprintf(text, size, "notify %u is recorded%s", notify->signal.id,
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
    am_ref_more(&notify->signal.named.refs);
    *nt =
        (struct notify_task){.task = nt->task, .notify = notify, .queue = &stream->queue};
    nt->task.deadline = deadline;
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
        am_devices.device[stream->device].driver_id == driver_id(notify),
        ACL_ERROR_RT_PARAM_INVALID,
        "notify %u was made on device %d; only streams of that device may wait for it",
        notify->signal.id, driver_id(notify));
    return notify_submit(&wait_ops, notify, stream,
                         seconds == 0 ? AM_FOREVER : seconds * AM_SECOND);
}

void am_notify_clear(struct am_notify *notify)
{
    am_lock(&am_sched.lock);
    bit_put_locked(notify, false);
    am_unlock(&am_sched.lock);
}
