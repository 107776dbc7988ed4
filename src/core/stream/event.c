/* Events: objects, times, and threads of the program that wait.  See event.h. */
#include "core/stream/event.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "acl/error_codes/rt_error_codes.h"
#include "base/error.h"
#include "base/log.h"
#include "base/util.h"
#include "core/device/context.h"
#include "core/device/setup.h"
#include "core/exchange/exchange.h"
#include "core/stream/call.h"
#include "core/stream/cond.h"
#include "core/stream/wait.h"

/* Sent to an importer of a notify. */
struct notify_desc {
    int32_t driver_id;
};

static struct am_lock lists_lock = AM_LOCK_INIT(AM_RANK_STREAMS, "events");
/* lists_lock */
struct am_event_list am_events = {.kind = AM_KIND_EVENT, .name = "event"};
struct am_event_list am_notifies = {.kind = AM_KIND_NOTIFY, .name = "notify"};

/* ---- objects ---- */

void am_event_put(struct am_event *event)
{
    struct am_event_task *lost;

    if (!am_ref_drop(&event->named.refs))
        return;
    while ((lost = TAILQ_FIRST(&event->lost)) != NULL) {
        TAILQ_REMOVE(&event->lost, lost, listed);
        free(lost);
    }
    am_event_page_leave(event->page);
    pthread_cond_destroy(&event->changed);
    am_lock_destroy(&event->lock);
    am_named_free(&event->named);
}

uint32_t am_event_available(int32_t device)
{
    uint32_t n = AM_LOCKED(&lists_lock, am_events.of[device].n);

    return n < am_setup.product->n_events ? am_setup.product->n_events - n : 0;
}

static aclError event_get(struct am_event_list *list, void *handle,
                          struct am_event **ret_event)
{
    AM_REQUIRE(handle != NULL, ACL_ERROR_INVALID_PARAM, "%s is NULL", list->name);
    *ret_event = am_named_get(list->kind, handle);
    AM_REQUIRE(*ret_event != NULL, ACL_ERROR_RT_INVALID_HANDLE, "%s %p %s", list->name,
               handle, am_handle_why(list->kind, handle));
    return ACL_SUCCESS;
}

aclError am_event_get(void *handle, struct am_event **ret_event)
{
    return event_get(&am_events, handle, ret_event);
}

aclError am_notify_get(void *handle, struct am_event **ret_notify)
{
    return event_get(&am_notifies, handle, ret_notify);
}

/* The device of the context has one event more.  A reset by another thread may end it at once. */
static aclError event_list_locked(struct am_event *event,
                                  const struct am_context *context, void **ret_handle)
    AM_REQUIRES(lists_lock)
{
    struct am_event_list *list = event->list;
    uint32_t limit = list == &am_events ? am_setup.product->n_events : UINT32_MAX;

    AM_REQUIRE(context->named.handle != NULL, /* since the lookup */
               ACL_ERROR_RT_CONTEXT_NULL, "the context has just been destroyed");
    AM_REQUIRE(list->of[event->device].n < limit, ACL_ERROR_RT_NO_EVENT_RESOURCE,
               "device %d has %u %ss, as many as %s allow; destroy some first",
               event->device, limit, list->name, am_setup.product->title);
    event->id = list->next_id++;
    LIST_INSERT_HEAD(&list->of[event->device].list, event, all);
    list->of[event->device].n++;
    *ret_handle = event->handle = am_named_publish(&event->named);
    return ACL_SUCCESS;
}

/* Takes over the page, also on failure; made_on is -1 for the current device. */
static aclError event_make(unsigned can, struct am_event_page *page, int32_t made_on,
                           void **ret_handle)
{
    struct am_event_list *list = can & AM_EVENT_NOTIFY ? &am_notifies : &am_events;
    struct am_context *context = NULL;
    struct am_event *event = am_named_alloc(list->kind, sizeof *event);
    aclError rc;

    if (event == NULL) {
        am_event_page_leave(page);
        return am_fail(ACL_ERROR_BAD_ALLOC, "no memory for %s %s",
                       list == &am_events ? "an" : "a", list->name);
    }
    event->list = list;
    event->can = can;
    event->page = page;
    am_lock_init(&event->lock, AM_RANK_EVENT, "event");
    TAILQ_INIT(&event->records);
    TAILQ_INIT(&event->lost);
    am_waitlist_init(&event->waiting);
    am_cond_init(&event->changed);
    rc = am_context_get_current(&context);
    if (rc == ACL_SUCCESS) {
        event->device = context->device;
        event->made_on =
            made_on >= 0 ? made_on : am_devices.device[event->device].driver_id;
        rc = AM_LOCKED(&lists_lock, event_list_locked(event, context, ret_handle));
        am_context_put(context);
    }
    if (rc != ACL_SUCCESS)
        am_event_put(event);
    return rc;
}

aclError am_event_create(unsigned can, void **ret_handle)
{
    struct am_event_page *page = NULL;

    if (can & AM_EVENT_IPC)
        AM_TRY(am_event_page_make(&page));
    return event_make(can, page, -1, ret_handle);
}

/* False: another thread has destroyed it. */
static bool event_end(struct am_event *event)
{
    bool was_alive;

    am_lock(&lists_lock);
    am_lock(&event->lock);
    was_alive = !event->is_dead;
    event->is_dead = true;
    pthread_cond_broadcast(&event->changed);
    am_unlock(&event->lock);
    if (was_alive) {
        LIST_REMOVE(event, all);
        event->list->of[event->device].n--;
        am_named_unpublish(&event->named);
    }
    am_unlock(&lists_lock);
    if (was_alive) {
        am_waitlist_wake(&event->waiting);
        am_export_withdraw(event->export);
        am_event_put(event);
    }
    return was_alive;
}

aclError am_event_destroy(struct am_event_list *list, void *handle)
{
    struct am_event *event;
    aclError rc = ACL_SUCCESS;

    AM_TRY(event_get(list, handle, &event));
    if (!event_end(event))
        rc = am_fail(ACL_ERROR_RT_INVALID_HANDLE, "%s %p is not alive", list->name,
                     handle);
    am_event_put(event);
    return rc;
}

void am_event_destroy_all(struct am_event_list *list, int32_t device)
{
    struct am_event *event;

    do {
        am_lock(&lists_lock);
        event = LIST_FIRST(&list->of[device].list);
        if (event != NULL)
            am_ref_more(&event->named.refs);
        am_unlock(&lists_lock);
        if (event != NULL) {
            event_end(event);
            am_event_put(event);
        }
    } while (event != NULL);
}

/* ---- sharing ---- */

/* The export becomes the event's; false: the event has one or is dead, and it ends. */
static bool export_set(struct am_event *event, uint64_t number)
{
    bool is_used;

    am_lock(&event->lock);
    is_used = event->export == 0 && !event->is_dead;
    if (is_used)
        event->export = number;
    am_unlock(&event->lock);
    if (!is_used)
        am_export_withdraw(number);
    return is_used;
}

/* It has one handle, however often that is asked for. */
aclError am_event_export(struct am_event *event, struct am_share_handle *ret_share)
{
    struct am_share_handle share;

    AM_REQUIRE(event->page != NULL, ACL_ERROR_RT_PARAM_INVALID,
               "event %u was not made by aclrtCreateEventExWithFlag with ACL_EVENT_IPC",
               event->id);
    if (event->export == 0) {
        struct am_export what = {
            .kind = AM_SHARE_EVENT,
            .is_open = true,
            .fd = am_event_page_descriptor(event->page),
        };

        AM_TRY(am_export_add(&what, &share));
        (void)export_set(event, share.number); /* or another thread's is used */
    }
    AM_REQUIRE(am_export_find(AM_SHARE_EVENT, event->export, ret_share),
               ACL_ERROR_RT_INVALID_HANDLE, "event %u is not alive", event->id);
    return ACL_SUCCESS;
}

/* The state of a notify moves into a page that other processes see. */
static aclError notify_share(struct am_event *notify)
{
    struct am_event_page *page;

    AM_TRY(am_event_page_make(&page));
    am_lock(&notify->lock);
    if (notify->page == NULL) {
        am_event_page_set(page, notify->n_completed > notify->n_reset);
        notify->page = page;
        page = NULL;
    }
    am_unlock(&notify->lock);
    am_event_page_leave(page); /* another thread was faster */
    am_waitlist_wake(&notify->waiting);
    return ACL_SUCCESS;
}

aclError am_notify_export(struct am_event *notify, bool is_open,
                          struct am_share_handle *ret_share)
{
    struct notify_desc desc = {notify->made_on};
    struct am_export what = {
        .kind = AM_SHARE_NOTIFY, .is_open = is_open, .size = sizeof desc};
    struct am_share_handle share;

    AM_REQUIRE(notify->export == 0, ACL_ERROR_RT_PARAM_INVALID,
               "notify %u is exported already; keep its key", notify->id);
    if (notify->page == NULL)
        AM_TRY(notify_share(notify));
    what.fd = am_event_page_descriptor(notify->page);
    memcpy(what.bytes, &desc, sizeof desc);
    AM_TRY(am_export_add(&what, &share));
    AM_REQUIRE(export_set(notify, share.number), ACL_ERROR_RT_PARAM_INVALID,
               "notify %u was exported or destroyed by another thread", notify->id);
    *ret_share = share;
    return ACL_SUCCESS;
}

aclError am_notify_trust(struct am_event *notify, const int32_t *ids, size_t n)
{
    struct am_share_handle share;

    AM_REQUIRE(am_export_find(AM_SHARE_NOTIFY, notify->export, &share),
               ACL_ERROR_RT_PARAM_INVALID,
               "notify %u is not exported; aclrtNotifyGetExportKey comes first",
               notify->id);
    return am_export_trust(AM_SHARE_NOTIFY, &share, ids, n, false);
}

aclError am_event_import(enum am_share_kind kind, const struct am_share_handle *share,
                         void **ret_handle)
{
    bool is_notify = kind == AM_SHARE_NOTIFY;
    struct notify_desc desc = {is_notify ? 0 : -1};
    struct am_import_reply reply;
    struct am_event_page *page;
    aclError rc;

    AM_TRY(am_import_fetch(kind, share, &reply));
    if (is_notify && reply.size == sizeof desc)
        memcpy(&desc, reply.bytes, sizeof desc);
    rc = am_event_page_join(reply.fd, &page);
    close(reply.fd);
    if (rc != ACL_SUCCESS)
        return rc;
    return event_make(is_notify ? AM_EVENT_SYNC | AM_EVENT_NOTIFY
                                : AM_EVENT_EX | AM_EVENT_SYNC | AM_EVENT_IPC,
                      page, desc.driver_id, ret_handle);
}

/* ---- threads of the program ---- */

struct event_wait {
    struct am_event *event;
    uint64_t target;
};

AM_NO_LOCK_ANALYSIS /* called with the lock of the event */
    static bool
    event_is_done(void *what)
{
    const struct event_wait *wait = what;

    return am_event_is_over_locked(wait->event, wait->target) ||
           am_event_is_abandoned_locked(wait->event);
}

static bool event_poll(void *what, bool may_block)
{
    const struct event_wait *wait = what;

    return am_event_poll_device(wait->event, wait->target, may_block) ||
           wait->event->page != NULL;
}

static unsigned sources_get(const struct event_wait *wait, struct am_source *list)
{
    bool is_only;

    return AM_LOCKED(&wait->event->lock,
                     am_event_sources_locked(wait->event, wait->target, list, &is_only));
}

static bool event_can_end(void *what, const struct am_stall *stall)
{
    struct am_source list[AM_SOURCES_MAX];
    unsigned n = sources_get(what, list);

    return am_stall_can_end(list, n, stall);
}

/* Warns once for a record, however many calls wait for it. */
static bool event_stalled(void *what)
{
    const struct event_wait *wait = what;
    struct am_event *event = wait->event;
    struct am_source list[AM_SOURCES_MAX];
    unsigned n = sources_get(wait, list);
    char why[AM_STALL_TEXT] = "nothing that is queued records it";
    bool was_warned;

    am_lock(&event->lock);
    was_warned = event->warned == wait->target;
    event->warned = wait->target;
    am_unlock(&event->lock);
    if (was_warned)
        return false;
    if (n > 0)
        am_stall_describe(list[0].queue, why, sizeof why);
    am_log(AM_LOG_WARN, "%s has waited %d seconds until event %u is recorded%s: %s",
           am_error_function, (int)(AM_STALL_TIMEOUT / AM_SECOND), event->id,
           n > 0 ? ", as is queued" : "", why);
    return false;
}

/* A call must not wait for a record that waits for the function that makes the call. */
static aclError self_check(const struct event_wait *wait)
{
    struct am_source list[AM_SOURCES_MAX];
    unsigned n = sources_get(wait, list);

    AM_REQUIRE(
        n != 1 || !am_stall_awaits_caller(list[0].queue, list[0].position),
        ACL_ERROR_RT_PARAM_INVALID,
        "event %u is recorded on stream %d, which waits, itself or by way of other "
        "streams, for the host function or callback that makes this call, so the "
        "call would wait for itself",
        wait->event->id, list[0].queue->id);
    return ACL_SUCCESS;
}

static aclError sync_locked(struct am_event *event, struct event_wait *target,
                            uint64_t until, int32_t timeout_ms) AM_REQUIRES(event->lock)
{
    struct am_wait wait = {
        .sched = &am_sched,
        .changed = &event->changed,
        .what = target,
        .is_done = event_is_done,
        .poll = event_poll,
        .can_end = event->page == NULL ? event_can_end : NULL,
        .stalled = event_stalled,
    };

    if (am_wait_locked(&event->lock, &wait, am_clock_left(until)) != 0)
        return am_fail(ACL_ERROR_RT_EVENT_SYNC_TIMEOUT,
                       "event %u is not complete after %d ms%s", event->id, timeout_ms,
                       event->page != NULL || event->n_recorded >= target->target
                           ? ""
                           : "; no call has recorded it");
    AM_REQUIRE(am_event_is_over_locked(event, target->target),
               ACL_ERROR_RT_INVALID_HANDLE,
               "event %u was destroyed, and no call has recorded it", event->id);
    return am_event_check_locked(event, target->target);
}

aclError am_event_sync(struct am_event *event, int32_t timeout_ms)
{
    uint64_t until = am_clock_after_ms(timeout_ms);
    struct event_wait wait = {.event = event};
    aclError rc = ACL_SUCCESS;

    AM_TRY(am_event_check_captured(event));
    am_lock(&event->lock);
    wait.target = am_event_target_locked(event);
    event->n_host_waits++;
    am_unlock(&event->lock);
    if (am_call_is_inside())
        rc = self_check(&wait);
    am_lock(&event->lock);
    if (rc == ACL_SUCCESS)
        rc = sync_locked(event, &wait, until, timeout_ms);
    event->n_host_waits--;
    am_event_prune_locked(event);
    am_unlock(&event->lock);
    return rc;
}

/* Whether the record is over and, if it is, the result for a call that waits. */
static aclError record_query(struct am_event *event, uint64_t number, bool *ret_is_over)
{
    aclError rc = ACL_SUCCESS;

    am_lock(&event->lock);
    *ret_is_over = am_event_is_over_locked(event, number);
    if (*ret_is_over)
        rc = am_event_check_locked(event, number);
    am_unlock(&event->lock);
    return rc;
}

static uint64_t target_get(struct am_event *event)
{
    return AM_LOCKED(&event->lock, am_event_target_locked(event));
}

aclError am_event_query(struct am_event *event, bool *ret_is_complete)
{
    bool is_complete;

    AM_TRY(am_event_check_captured(event));
    if (!am_event_poll_device(event, target_get(event), false))
        am_sched_nudge(&am_sched);
    AM_TRY(record_query(event, target_get(event), &is_complete));
    *ret_is_complete = is_complete;
    return ACL_SUCCESS;
}

aclError am_event_query_waits(struct am_event *event, bool *ret_is_over)
{
    uint64_t latest;
    bool is_over = true;

    AM_REQUIRE(event->can & AM_EVENT_SYNC, ACL_ERROR_RT_PARAM_INVALID,
               "event %u was made without ACL_EVENT_SYNC: no stream can wait for it "
               "(ACLMEM_RULES=strict)",
               event->id);
    AM_TRY(am_event_check_captured(event));
    am_stream_collect_all(); /* the waits may be on any stream */
    am_sched_nudge(&am_sched);
    latest = AM_LOCKED(&event->lock, event->n_recorded);
    if (!am_setup.is_strict) /* has it run?  A reset does not change that. */
        AM_TRY(record_query(event, latest, &is_over));
    if (!am_setup.is_strict && latest == 0)
        is_over = false;
    *ret_is_over = AM_LOCKED(&event->lock, event->n_waits == 0) && is_over;
    return ACL_SUCCESS;
}

/* ---- times ---- */

/* The time of the event's last record and the stream that it ran in. */
static aclError time_get(struct am_event *event, uint64_t *ret_ns, int32_t *ret_stream)
{
    uint64_t latest;
    bool is_queued;

    AM_REQUIRE(event->can & AM_EVENT_TIME, ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID,
               "event %u has no timestamp: it was made without ACL_EVENT_TIME_LINE",
               event->id);
    latest = AM_LOCKED(&event->lock, event->n_recorded);
    (void)am_event_poll_device(event, latest, false);
    am_lock(&event->lock);
    is_queued = am_event_record_find_locked(event, event->n_recorded) != NULL;
    *ret_ns = event->time_ns;
    *ret_stream = event->time_stream;
    am_unlock(&event->lock);
    AM_REQUIRE(!is_queued && *ret_ns != 0, ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID,
               "event %u has no timestamp: %s", event->id,
               is_queued ? "its record has not run yet; synchronise the stream first"
                         : "no record of it has run");
    return ACL_SUCCESS;
}

aclError am_event_time(struct am_event *event, uint64_t *ret_us)
{
    uint64_t time_ns;
    int32_t stream;

    AM_TRY(time_get(event, &time_ns, &stream));
    *ret_us = time_ns / 1000;
    return ACL_SUCCESS;
}

aclError am_event_elapsed(struct am_event *start, struct am_event *end, float *ret_ms)
{
    uint64_t from;
    uint64_t to;
    int32_t from_stream;
    int32_t to_stream;

    AM_TRY(time_get(start, &from, &from_stream));
    AM_TRY(time_get(end, &to, &to_stream));
    AM_REQUIRE(to >= from, ACL_ERROR_RT_EVENT_TIMESTAMP_REVERSAL,
               "event %u was recorded before event %u", end->id, start->id);
    AM_REQUIRE(
        !am_setup.is_strict || from_stream == to_stream, ACL_ERROR_RT_PARAM_INVALID,
        "event %u was recorded in stream %d and event %u in stream %d; all editions ask "
        "for one stream (ACLMEM_RULES=strict)",
        start->id, from_stream, end->id, to_stream);
    *ret_ms = (float)((double)(to - from) / 1e6);
    return ACL_SUCCESS;
}
