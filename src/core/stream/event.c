/* Events: making, ending, times.  See event.h; what streams do with them: event_task.c. */
#include "core/stream/event.h"

#include <stdlib.h>
#include <unistd.h>

#include "acl/error_codes/rt_error_codes.h"
#include "base/error.h"
#include "base/util.h"
#include "core/device/setup.h"
#include "core/exchange/exchange.h"
#include "core/stream/sched.h"

void am_event_put(struct am_event *event)
{
    if (!am_ref_drop(&event->signal.named.refs))
        return;
    am_event_forget_losses(event);
    am_event_page_leave(event->page);
    pthread_cond_destroy(&event->changed);
    am_named_free(&event->signal.named);
}

static void signal_put(struct am_named *named)
{
    am_event_put((struct am_event *)named);
}

static void event_ended(struct am_signal *signal)
{
    pthread_cond_broadcast(&((struct am_event *)signal)->changed);
}

struct am_signals am_events = {
    .kind = AM_KIND_EVENT, .name = "event", .put = signal_put, .ended = event_ended};

uint32_t am_event_available(int32_t device)
{
    uint32_t n;

    am_lock(&am_sched.lock);
    n = am_events.of[device].n;
    am_unlock(&am_sched.lock);
    return n < am_setup.product->n_events ? am_setup.product->n_events - n : 0;
}

/* Takes over the page, also on failure. */
static aclError event_create(unsigned can, struct am_event_page *page, void **ret_handle)
{
    struct am_event *event = am_named_alloc(AM_KIND_EVENT, sizeof *event);

    if (event == NULL) {
        am_event_page_leave(page);
        return am_fail(ACL_ERROR_BAD_ALLOC, "no memory for an event");
    }
    event->can = can;
    event->page = page;
    event->lock = (struct am_latch)AM_LATCH_INIT(AM_RANK_EVENT, "event");
    TAILQ_INIT(&event->pending);
    TAILQ_INIT(&event->launched);
    TAILQ_INIT(&event->lost);
    am_cond_init(&event->changed);
    return am_signal_enter(&am_events, &event->signal, am_setup.product->n_events,
                           ret_handle);
}

aclError am_event_create(unsigned can, void **ret_handle)
{
    struct am_event_page *page = NULL;

    if (can & AM_EVENT_IPC)
        AM_TRY(am_event_page_make(&page));
    return event_create(can, page, ret_handle);
}

aclError am_event_import(const struct am_ticket *ticket, void **ret_handle)
{
    struct am_import_reply reply;
    struct am_event_page *page;
    aclError rc;

    AM_TRY(am_import_fetch(AM_SHARE_EVENT, ticket, &reply));
    rc = am_event_page_join(reply.fd, &page);
    close(reply.fd);
    AM_TRY(rc);
    return event_create(AM_EVENT_EX | AM_EVENT_SYNC | AM_EVENT_IPC, page, ret_handle);
}

/* It has one ticket, however often that is asked for. */
aclError am_event_export(struct am_event *event, struct am_ticket *ret_ticket)
{
    struct am_signal *signal = &event->signal;
    struct am_ticket ticket;

    AM_REQUIRE(event->page != NULL, ACL_ERROR_RT_PARAM_INVALID,
               "event %u was not made by aclrtCreateEventExWithFlag with ACL_EVENT_IPC",
               signal->id);
    if (signal->export == 0) {
        struct am_export what = {
            .kind = AM_SHARE_EVENT,
            .is_open = true,
            .fd = am_event_page_descriptor(event->page),
        };

        AM_TRY(am_export_add(&what, &ticket));
        (void)am_signal_exported(signal, ticket.number); /* or another thread's is */
    }
    AM_REQUIRE(am_export_find(AM_SHARE_EVENT, signal->export, ret_ticket),
               ACL_ERROR_RT_INVALID_HANDLE, "event %u is not alive", signal->id);
    return ACL_SUCCESS;
}

aclError am_event_get(void *handle, struct am_event **ret_event)
{
    struct am_signal *signal;

    AM_TRY(am_signal_get(&am_events, handle, &signal));
    *ret_event = (struct am_event *)signal;
    return ACL_SUCCESS;
}

/* The time of the event's last record and the stream that it ran in. */
static aclError time_get(struct am_event *event, uint64_t *ret_ns, int32_t *ret_stream)
{
    bool is_to_come;

    AM_REQUIRE(event->can & AM_EVENT_TIME, ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID,
               "event %u has no timestamp: it was made without ACL_EVENT_TIME_LINE",
               event->signal.id);
    is_to_come = am_event_is_to_come(event);
    am_latch_take(&event->lock);
    *ret_ns = event->time_ns;
    *ret_stream = event->time_stream;
    am_latch_give(&event->lock);
    AM_REQUIRE(!is_to_come && *ret_ns != 0, ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID,
               "event %u has no timestamp: %s", event->signal.id,
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
               "event %u was recorded before event %u", end->signal.id, start->signal.id);
    AM_REQUIRE(
        !am_setup.is_strict || from_stream == to_stream, ACL_ERROR_RT_PARAM_INVALID,
        "event %u was recorded in stream %d and event %u in stream %d; all editions ask "
        "for one stream (ACLMEM_RULES=strict)",
        start->signal.id, from_stream, end->signal.id, to_stream);
    *ret_ms = (float)((double)(to - from) / 1e6);
    return ACL_SUCCESS;
}
