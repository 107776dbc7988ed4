/*
 * Waits that nothing ends.  The calls here have a time limit, so that the program ends by
 * itself; the layer is told to be impatient.
 */
#include "bugs.h"

#include <pthread.h>

#define LIMIT 3000 /* milliseconds */

MISTAKE void wait_for(aclrtStream stream)
{
    aclrtSynchronizeStreamWithTimeout(stream, LIMIT);
}

/* A wait for an event that no stream records. */
static void event_that_nobody_records(bool is_fixed)
{
    aclrtStream stream = stream_open();
    aclrtEvent event;

    MUST(aclrtCreateEvent(&event));
    if (is_fixed)
        MUST(aclrtRecordEvent(event, stream));
    MUST(aclrtStreamWaitEvent(stream, event));
    wait_for(stream);
    if (!is_fixed)
        MUST(aclrtStreamAbort(stream));
    MUST(aclrtDestroyEvent(event));
    MUST(aclrtDestroyStream(stream));
}

/* Two waits for a notify, and one record. */
static void one_record_for_two(bool is_fixed)
{
    aclrtStream stream = stream_open();
    aclrtStream other = stream_open();
    aclrtNotify notify;

    MUST(aclrtCreateNotify(&notify, 0));
    MUST(aclrtRecordNotify(notify, other));
    MUST(aclrtWaitAndResetNotify(notify, stream, 0));
    if (is_fixed)
        MUST(aclrtRecordNotify(notify, stream));
    MUST(aclrtWaitAndResetNotify(notify, stream, 0));
    wait_for(stream);
    if (!is_fixed)
        MUST(aclrtStreamAbort(stream));
    MUST(aclrtDestroyNotify(notify));
    MUST(aclrtDestroyStream(stream));
    MUST(aclrtDestroyStream(other));
}

MISTAKE void wait_for_event(aclrtEvent event)
{
    aclrtSynchronizeEventWithTimeout(event, LIMIT);
}

/* The host waits for an event that was never recorded. */
static void event_of_the_host(bool is_fixed)
{
    aclrtStream stream = stream_open();
    aclrtEvent event;

    MUST(aclrtCreateEvent(&event));
    if (is_fixed)
        MUST(aclrtRecordEvent(event, stream));
    wait_for_event(event);
    MUST(aclrtDestroyEvent(event));
    MUST(aclrtDestroyStream(stream));
}

/* ---- deadlock ---- */

/* n streams, each of which waits for the next before it records its own. */
static void circle(int n, bool is_fixed)
{
    aclrtStream stream[4];
    aclrtEvent event[4];

    for (int i = 0; i < n; i++) {
        stream[i] = stream_open();
        MUST(aclrtCreateEvent(&event[i]));
    }
    for (int i = 0; i < n; i++) {
        if (is_fixed)
            MUST(aclrtRecordEvent(event[i], stream[i]));
        MUST(aclrtStreamWaitEvent(stream[i], event[(i + 1) % n]));
        if (!is_fixed)
            MUST(aclrtRecordEvent(event[i], stream[i]));
    }
    wait_for(stream[0]);
    for (int i = 0; i < n && !is_fixed; i++)
        MUST(aclrtStreamAbort(stream[i]));
    aclrtSynchronizeDevice(); /* fails where records were dropped */
    for (int i = 0; i < n; i++) {
        MUST(aclrtDestroyEvent(event[i]));
        MUST(aclrtDestroyStream(stream[i]));
    }
}

static void two_streams(bool is_fixed)
{
    circle(2, is_fixed);
}

static void three_streams(bool is_fixed)
{
    circle(3, is_fixed);
}

/* A circle of notifies, waited for as a whole device. */
MISTAKE void wait_for_device(void)
{
    aclrtSynchronizeDeviceWithTimeout(LIMIT);
}

static void notifies(bool is_fixed)
{
    aclrtStream first = stream_open();
    aclrtStream second = stream_open();
    aclrtNotify here;
    aclrtNotify there;

    MUST(aclrtCreateNotify(&here, 0));
    MUST(aclrtCreateNotify(&there, 0));
    if (is_fixed)
        MUST(aclrtRecordNotify(there, first));
    MUST(aclrtWaitAndResetNotify(here, first, 0));
    if (!is_fixed)
        MUST(aclrtRecordNotify(there, first));
    MUST(aclrtWaitAndResetNotify(there, second, 0));
    MUST(aclrtRecordNotify(here, second));
    wait_for_device();
    if (!is_fixed) {
        MUST(aclrtStreamAbort(first));
        MUST(aclrtStreamAbort(second));
    }
    MUST(aclrtDestroyNotify(here));
    MUST(aclrtDestroyNotify(there));
    MUST(aclrtDestroyStream(first));
    MUST(aclrtDestroyStream(second));
}

const struct bug wait_bugs[] = {
    BUG("wait-never/event", event_that_nobody_records, "wait-never",
        "and nothing that is queued records event", "wait_for",
        .options = "--patience 0"),
    BUG("wait-never/notify", one_record_for_two, "wait-never",
        "and nothing that is queued records notify", "wait_for",
        .options = "--patience 0"),
    BUG("wait-never/host", event_of_the_host, "wait-never", "the host waits for event",
        "wait_for_event", .options = "--patience 0"),
    BUG("deadlock/two", two_streams, "deadlock", "and so back to the first", "wait_for",
        .options = "--patience 0"),
    BUG("deadlock/three", three_streams, "deadlock", "and so back to the first",
        "wait_for", .options = "--patience 0"),
    BUG("deadlock/notify", notifies, "deadlock", "waits for notify", "wait_for_device",
        .options = "--patience 0"),
    {.name = NULL},
};
