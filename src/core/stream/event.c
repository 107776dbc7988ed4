/* Events: making, ending, times.  See event.h; what streams do with them: event_task.c. */
#include "core/stream/event.h"

#include <stdlib.h>
#include <unistd.h>

#include "acl/error_codes/rt_error_codes.h"
#include "base/error.h"
#include "base/slab.h"
#include "base/util.h"
#include "core/device/context.h"
#include "core/device/setup.h"
#include "core/exchange/exchange.h"
#include "core/stream/sched.h"

/* sched.lock */
static struct {
    LIST_HEAD(, am_event) list;
    uint32_t n;
} events[AM_DEVICES_MAX];
static uint32_t next_id;          /* sched.lock */
static _Atomic uint64_t n_events; /* of all devices */

static struct am_slab event_slab = AM_SLAB_INIT(struct am_event, "event slab");

uint64_t am_event_count(void)
{
    return n_events;
}

uint32_t am_event_available(int32_t device)
{
    uint32_t n;

    am_lock(&am_sched.lock);
    n = events[device].n;
    am_unlock(&am_sched.lock);
    return n < am_setup.product->n_events ? am_setup.product->n_events - n : 0;
}

void am_event_put(struct am_event *event)
{
    if (!am_ref_drop(&event->object.refs))
        return;
    am_event_forget_losses(event);
    if (event->page != NULL)
        am_event_page_leave(event->page);
    pthread_cond_destroy(&event->changed);
    am_slab_give(&event_slab, event);
}

/*
 * An event of the device, not yet listed, with one reference for being alive.  Takes over
 * the page, unless it fails.
 */
static aclError event_make(int32_t device, unsigned can, struct am_event_page *page,
                           struct am_event **ret_event)
{
    struct am_event *event = am_slab_take_zeroed(&event_slab);

    if (event == NULL)
        return am_fail(ACL_ERROR_BAD_ALLOC, "no memory for an event");
    event->lock = (struct am_latch)AM_LATCH_INIT(AM_RANK_EVENT, "event");
    event->device = device;
    event->can = can;
    TAILQ_INIT(&event->pending);
    TAILQ_INIT(&event->launched);
    TAILQ_INIT(&event->lost);
    am_waitlist_init(&event->waiting);
    am_cond_init(&event->changed);
    event->object.refs = 1;
    if (am_idmap_add(&am_ids, AM_KIND_EVENT, &event->object, &event->handle) != 0) {
        am_event_put(event);
        return am_fail(ACL_ERROR_BAD_ALLOC, "no memory for the handle of an event");
    }
    event->page = page;
    *ret_event = event;
    return ACL_SUCCESS;
}

static aclError event_create(unsigned can, struct am_event_page *page, void **ret_handle)
{
    struct am_context *context;
    struct am_event *event;
    void *handle;
    aclError rc;

    AM_TRY(am_context_get_current(&context));
    rc = event_make(context->device, can, page, &event);
    if (rc != ACL_SUCCESS)
        goto out;
    handle = event->handle; /* once it is listed, a reset by another thread may end it */
    am_lock(&am_sched.lock);
    if (context->handle == NULL) { /* since it was looked up; its device is being reset */
        rc = am_fail(ACL_ERROR_RT_CONTEXT_NULL, "the context has just been destroyed");
    } else if (events[event->device].n >= am_setup.product->n_events) {
        rc = am_fail(ACL_ERROR_RT_NO_EVENT_RESOURCE,
                     "device %d has %u events, as many as %s allow; destroy some first",
                     event->device, am_setup.product->n_events, am_setup.product->title);
    } else {
        event->id = next_id++;
        LIST_INSERT_HEAD(&events[event->device].list, event, all);
        events[event->device].n++;
        n_events++;
    }
    am_unlock(&am_sched.lock);
    if (rc == ACL_SUCCESS) {
        *ret_handle = handle;
    } else {
        am_idmap_remove(&am_ids, handle);
        event->page = NULL; /* the caller's again */
        am_event_put(event);
    }
out:
    am_context_put(context);
    return rc;
}

/* Takes over the page. */
static aclError event_create_with(struct am_event_page *page, void **ret_handle)
{
    aclError rc =
        event_create(AM_EVENT_EX | AM_EVENT_SYNC | AM_EVENT_IPC, page, ret_handle);

    if (rc != ACL_SUCCESS)
        am_event_page_leave(page);
    return rc;
}

aclError am_event_create(unsigned can, void **ret_handle)
{
    struct am_event_page *page;

    if (!(can & AM_EVENT_IPC))
        return event_create(can, NULL, ret_handle);
    AM_TRY(am_event_page_make(&page));
    return event_create_with(page, ret_handle);
}

aclError am_event_import(const struct am_ticket *ticket, void **ret_handle)
{
    struct am_import_reply reply;
    struct am_event_page *page;
    aclError rc;

    AM_TRY(am_import_fetch(AM_SHARE_EVENT, ticket, &reply));
    rc = am_event_page_join(reply.fd, &page);
    close(reply.fd);
    return rc == ACL_SUCCESS ? event_create_with(page, ret_handle) : rc;
}

/* The export becomes the event's, unless it has one. */
static aclError export_settle(struct am_event *event, uint64_t number)
{
    bool is_used;
    bool is_dead;

    am_lock(&am_sched.lock);
    is_dead = event->is_dead;
    is_used = event->export == 0 && !is_dead;
    if (is_used)
        event->export = number;
    am_unlock(&am_sched.lock);
    if (!is_used)
        am_export_withdraw(number);
    AM_REQUIRE(!is_dead, ACL_ERROR_RT_INVALID_HANDLE, "event %u is not alive", event->id);
    return ACL_SUCCESS;
}

/* It has one ticket, however often that is asked for. */
aclError am_event_export(struct am_event *event, struct am_ticket *ret_ticket)
{
    struct am_ticket ticket;

    AM_REQUIRE(event->page != NULL, ACL_ERROR_RT_PARAM_INVALID,
               "event %u was not made by aclrtCreateEventExWithFlag with ACL_EVENT_IPC",
               event->id);
    if (event->export == 0) {
        AM_TRY(am_export_add(AM_SHARE_EVENT, true, am_event_page_descriptor(event->page),
                             NULL, 0, &ticket));
        AM_TRY(export_settle(event, ticket.number));
    }
    AM_REQUIRE(am_export_find(AM_SHARE_EVENT, event->export, ret_ticket),
               ACL_ERROR_RT_INVALID_HANDLE, "event %u is not alive", event->id);
    return ACL_SUCCESS;
}

bool am_event_shared_is_over(const struct am_event *event, uint64_t number)
{
    aclError code;

    return am_event_page_look(event->page, number, &code) != AM_EVENT_PAGE_TO_COME;
}

aclError am_event_shared_check(const struct am_event *event, uint64_t number)
{
    aclError code;
    enum am_event_page_state state = am_event_page_look(event->page, number, &code);

    AM_REQUIRE(state != AM_EVENT_PAGE_LOST, ACL_ERROR_RT_IPC_ERROR,
               "event %u was not recorded: the process that had queued the record ended "
               "before it ran",
               event->id);
    AM_REQUIRE(state != AM_EVENT_PAGE_FAILED, code,
               "event %u was not recorded, because work before it failed with %d in the "
               "process that had queued the record",
               event->id, (int)code);
    return ACL_SUCCESS;
}

static void object_put(struct am_object *object)
{
    am_event_put((struct am_event *)object);
}

aclError am_event_get(void *handle, struct am_event **ret_event)
{
    struct am_event *event =
        (struct am_event *)am_idmap_get(&am_ids, AM_KIND_EVENT, handle, object_put);

    AM_REQUIRE(handle != NULL, ACL_ERROR_INVALID_PARAM, "event is NULL");
    AM_REQUIRE(event != NULL, ACL_ERROR_RT_INVALID_HANDLE, "event %p %s", handle,
               am_idmap_why(AM_KIND_EVENT, handle));
    *ret_event = event;
    return ACL_SUCCESS;
}

/* False: another thread has destroyed it. */
static bool event_unlist(struct am_event *event)
{
    bool was_alive;

    am_lock(&am_sched.lock);
    was_alive = !event->is_dead;
    event->is_dead = true;
    if (was_alive) {
        LIST_REMOVE(event, all);
        events[event->device].n--;
        n_events--;
        am_idmap_remove(&am_ids, event->handle);
        /* Waits for a record that can no longer be queued fail now. */
        am_sched_wake_locked(&am_sched, &event->waiting);
        pthread_cond_broadcast(&event->changed);
    }
    am_unlock(&am_sched.lock);
    if (was_alive) {
        am_export_withdraw(event->export);
        am_event_put(event);
    }
    return was_alive;
}

aclError am_event_destroy(void *handle)
{
    struct am_event *event;
    aclError rc = ACL_SUCCESS;

    AM_TRY(am_event_get(handle, &event));
    if (!event_unlist(event))
        rc = am_fail(ACL_ERROR_RT_INVALID_HANDLE, "event %p is not alive", handle);
    am_event_put(event);
    return rc;
}

void am_event_kill_all(int32_t device)
{
    struct am_event *event;

    do {
        am_lock(&am_sched.lock);
        event = LIST_FIRST(&events[device].list);
        if (event != NULL)
            am_ref_more(&event->object.refs);
        am_unlock(&am_sched.lock);
        if (event != NULL) {
            event_unlist(event);
            am_event_put(event);
        }
    } while (event != NULL);
}

/* The time of the event's last record and the stream that it ran in. */
static aclError time_get(struct am_event *event, uint64_t *ret_ns, int32_t *ret_stream)
{
    bool is_to_come;

    AM_REQUIRE(event->can & AM_EVENT_TIME, ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID,
               "event %u has no timestamp: it was made without ACL_EVENT_TIME_LINE",
               event->id);
    is_to_come = am_event_is_to_come(event);
    am_latch_take(&event->lock);
    *ret_ns = event->time_ns;
    *ret_stream = event->time_stream;
    am_latch_give(&event->lock);
    AM_REQUIRE(!is_to_come && *ret_ns != 0, ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID,
               "event %u has no timestamp: %s", event->id,
               is_to_come ? "its record has not run yet; synchronise the stream first"
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
