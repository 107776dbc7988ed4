/*
 * Faults in streams, events, notifies, callbacks and in copies on streams.
 *
 * Work that is queued meets the system later, in another thread, so a step waits for what
 * it queued and fails with the first of the two.
 */
#include "faulted.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Beside the scene; each turn is a process of its own. */
static aclrtStream stream;
static aclrtEvent event;
static aclrtNotify notify;
static void *host;
static unsigned n_called;

static uint32_t streams_left(void)
{
    uint32_t n = 0;

    assert_acl_ok(aclrtGetStreamAvailableNum(&n));
    return n;
}

static uint32_t events_left(void)
{
    uint32_t n = 0;

    assert_acl_ok(aclrtGetEventAvailNum(&n));
    return n;
}

/* A stream that stands at a function has something to do, so nothing is done at once. */
static sem_t released;
static bool is_held;

static void stand(void *arg)
{
    while (sem_wait(&released) != 0)
        ;
}

static void hold_stream(void)
{
    sem_init(&released, 0, 0);
    assert_acl_ok(aclrtLaunchHostFunc(stream, stand, NULL));
    is_held = true;
}

static void release_stream(void)
{
    if (is_held)
        sem_post(&released);
    is_held = false;
}

static aclError then_wait(aclError rc)
{
    aclError waited;

    release_stream();
    waited = aclrtSynchronizeStream(stream);

    return rc != ACL_SUCCESS ? rc : waited;
}

/* ---- making ---- */

static aclError do_create(struct scene *s)
{
    return aclrtCreateStream(&stream);
}

static aclError do_create_with_config(struct scene *s)
{
    return aclrtCreateStreamWithConfig(&stream, 3, ACL_STREAM_FAST_LAUNCH);
}

static void no_stream_is_made(struct scene *s)
{
    assert_null(stream);
    assert_int_equal(streams_left(), 1984);
}

static void end_stream(struct scene *s)
{
    assert_int_equal(streams_left(), 1983);
    assert_acl_ok(aclrtDestroyStream(stream));
    assert_int_equal(streams_left(), 1984);
}

static aclError do_get_default(struct scene *s)
{
    return aclrtCtxGetCurrentDefaultStream(&stream);
}

static aclError do_sync_default(struct scene *s)
{
    return aclrtSynchronizeStream(NULL);
}

static aclError do_create_event(struct scene *s)
{
    return aclrtCreateEvent(&event);
}

static aclError do_create_flagged_event(struct scene *s)
{
    return aclrtCreateEventWithFlag(&event, ACL_EVENT_SYNC);
}

static aclError do_create_ex_event(struct scene *s)
{
    return aclrtCreateEventExWithFlag(&event, ACL_EVENT_SYNC);
}

static void no_event_is_made(struct scene *s)
{
    assert_null(event);
    assert_int_equal(events_left(), 65536);
}

static void end_event(struct scene *s)
{
    assert_acl_ok(aclrtDestroyEvent(event));
    assert_int_equal(events_left(), 65536);
}

static aclError do_create_notify(struct scene *s)
{
    return aclrtCreateNotify(&notify, 0);
}

static void end_notify(struct scene *s)
{
    assert_acl_ok(aclrtDestroyNotify(notify));
}

/* ---- records and waits; the first task of a process also makes the workers ---- */

static void have_all(struct scene *s)
{
    assert_acl_ok(do_create(s));
    assert_acl_ok(do_create_event(s));
    assert_acl_ok(do_create_notify(s));
}

static void end_all(struct scene *s)
{
    end_notify(s);
    end_event(s);
    end_stream(s);
}

static aclError do_record(struct scene *s)
{
    return then_wait(aclrtRecordEvent(event, stream));
}

static bool event_is_complete(void)
{
    aclrtEventRecordedStatus status;

    assert_acl_ok(aclrtQueryEventStatus(event, &status));
    return status == ACL_EVENT_RECORDED_STATUS_COMPLETE;
}

static void it_is_not_recorded(struct scene *s)
{
    assert_false(event_is_complete());
}

static void it_is_recorded(struct scene *s)
{
    assert_true(event_is_complete());
}

static void have_busy(struct scene *s)
{
    have_all(s);
    hold_stream();
}

static void have_shared(struct scene *s)
{
    assert_acl_ok(do_create(s));
    assert_acl_ok(aclrtCreateEventExWithFlag(&event, ACL_EVENT_IPC));
}

static void end_shared(struct scene *s)
{
    end_event(s);
    end_stream(s);
}

/* What was refused is no record that anybody waits for. */
static void waits_are_as_before(struct scene *s)
{
    it_is_recorded(s); /* an event of this kind that was never recorded is complete */
    assert_acl_ok(aclrtSynchronizeEvent(event));
}

static void have_recorded(struct scene *s)
{
    have_all(s);
    assert_acl_ok(do_record(s));
}

static void have_recorded_and_busy(struct scene *s)
{
    have_recorded(s);
    hold_stream();
}

static aclError do_wait(struct scene *s)
{
    return then_wait(aclrtStreamWaitEvent(stream, event));
}

static aclError do_reset(struct scene *s)
{
    return then_wait(aclrtResetEvent(event, stream));
}

static void nobody_waits(struct scene *s)
{
    aclrtEventWaitStatus status;

    assert_acl_ok(aclrtQueryEventWaitStatus(event, &status));
    assert_int_equal(status, ACL_EVENT_WAIT_STATUS_COMPLETE);
    it_is_recorded(s);
}

static aclError do_record_notify(struct scene *s)
{
    return then_wait(aclrtRecordNotify(notify, stream));
}

static void have_set_notify(struct scene *s)
{
    have_all(s);
    assert_acl_ok(do_record_notify(s));
}

static aclError do_wait_notify(struct scene *s)
{
    return then_wait(aclrtWaitAndResetNotify(notify, stream, 0));
}

static void notify_is_set(struct scene *s)
{
    assert_acl_ok(do_wait_notify(s));
    assert_acl_ok(do_record_notify(s));
}

/* ---- functions of the program ---- */

static void be_called(void *arg)
{
    __atomic_fetch_add(&n_called, 1, __ATOMIC_SEQ_CST);
}

static aclError do_launch(struct scene *s)
{
    return then_wait(aclrtLaunchHostFunc(stream, be_called, NULL));
}

static void it_was_not_called(struct scene *s)
{
    assert_int_equal(n_called, 0);
}

static void it_was_called_once(struct scene *s)
{
    assert_int_equal(n_called, 1);
}

static aclError do_subscribe(struct scene *s)
{
    return aclrtSubscribeReport((uint64_t)pthread_self(), stream);
}

static void nobody_is_subscribed(struct scene *s)
{
    assert_acl(aclrtProcessReport(1), ACL_ERROR_RT_THREAD_SUBSCRIBE);
}

static void have_subscribed(struct scene *s)
{
    have_all(s);
    assert_acl_ok(do_subscribe(s));
}

static aclError do_launch_callback(struct scene *s)
{
    aclError rc = aclrtLaunchCallback(be_called, NULL, ACL_CALLBACK_BLOCK, stream);

    return rc != ACL_SUCCESS ? rc : then_wait(aclrtProcessReport(-1));
}

/* ---- copies ---- */

static void have_memory(struct scene *s)
{
    have_all(s);
    s->size = 2 * CHUNK;
    s->va = reserve(s->size);
    s->handle = alloc(s->size);
    map(s->va, s->size, s->handle);
    assert_acl_ok(aclrtMallocHost(&host, s->size));
    fill(host, s->size, 3);
    s->bytes = malloc(s->size);
    assert_non_null(s->bytes);
    fill(s->bytes, s->size, 3);
}

/* The same with work in front of it, so that nothing is done by the caller. */
static void have_busy_memory(struct scene *s)
{
    have_memory(s);
    hold_stream();
}

static void end_memory(struct scene *s)
{
    free(s->bytes);
    assert_acl_ok(aclrtFreeHost(host));
    assert_acl_ok(aclrtUnmapMem(s->va));
    assert_acl_ok(aclrtFreePhysical(s->handle));
    assert_acl_ok(aclrtReleaseMemAddress(s->va));
    end_all(s);
}

static aclError do_copy_in(struct scene *s)
{
    return then_wait(aclrtMemcpyAsync(s->va, s->size, host, s->size,
                                      ACL_MEMCPY_HOST_TO_DEVICE, stream));
}

static aclError do_copy_in_short(struct scene *s)
{
    return then_wait(
        aclrtMemcpyAsync(s->va, s->size, host, 4096, ACL_MEMCPY_HOST_TO_DEVICE, stream));
}

static aclError do_copy_in_pageable(struct scene *s)
{
    release_stream(); /* the call waits */
    return then_wait(aclrtMemcpyAsync(s->va, s->size, s->bytes, s->size,
                                      ACL_MEMCPY_HOST_TO_DEVICE, stream));
}

static aclError do_fill(struct scene *s)
{
    return then_wait(aclrtMemsetAsync(s->va, s->size, 7, s->size, stream));
}

static aclError do_fill32(struct scene *s)
{
    return then_wait(
        aclrtMemsetD32Async(s->va, s->size, 0x07070707, s->size / 4, stream));
}

static void all_is_there(struct scene *s)
{
    assert_pattern(s->va, s->size, 3);
}

static void the_start_is_there(struct scene *s)
{
    assert_pattern(s->va, 4096, 3);
}

static void it_is_filled(struct scene *s)
{
    assert_all_bytes(s->va, s->size, 7);
}

static const struct step steps[] = {
    {"making a stream", NULL, NULL, do_create, no_stream_is_made, NULL, end_stream},
    {"making a stream with a configuration", NULL, NULL, do_create_with_config,
     no_stream_is_made, NULL, end_stream},
    {"making the default stream", NULL, NULL, do_get_default},
    {"making the default stream by waiting for it", NULL, NULL, do_sync_default},
    {"making an event", NULL, NULL, do_create_event, no_event_is_made, NULL, end_event},
    {"making an event with a flag", NULL, NULL, do_create_flagged_event, no_event_is_made,
     NULL, end_event},
    {"making an extended event", NULL, NULL, do_create_ex_event, no_event_is_made, NULL,
     end_event},
    {"making a notify", NULL, NULL, do_create_notify, NULL, NULL, end_notify},
    {"recording on a busy stream", NULL, have_busy, do_record, it_is_not_recorded,
     it_is_recorded, end_all},
    {"recording on an idle stream", NULL, have_all, do_record, it_is_not_recorded,
     it_is_recorded, end_all},
    {"recording a shared event", NULL, have_shared, do_record, waits_are_as_before,
     it_is_recorded, end_shared},
    {"a wait on a busy stream", NULL, have_recorded_and_busy, do_wait, nobody_waits,
     nobody_waits, end_all},
    {"a wait on an idle stream", NULL, have_recorded, do_wait, nobody_waits, nobody_waits,
     end_all},
    {"a reset", NULL, have_recorded, do_reset, it_is_recorded, it_is_not_recorded,
     end_all},
    {"recording a notify", NULL, have_all, do_record_notify, NULL, notify_is_set,
     end_all},
    {"waiting for a notify", NULL, have_set_notify, do_wait_notify, notify_is_set, NULL,
     end_all},
    {"a host function", NULL, have_all, do_launch, it_was_not_called, it_was_called_once,
     end_all},
    {"subscribing", NULL, have_all, do_subscribe, nobody_is_subscribed, NULL, end_all},
    {"a callback", NULL, have_subscribed, do_launch_callback, it_was_not_called,
     it_was_called_once, end_all},
    {"a copy on an idle stream", NULL, have_memory, do_copy_in, NULL, all_is_there,
     end_memory},
    {"a short copy on an idle stream", NULL, have_memory, do_copy_in_short, NULL,
     the_start_is_there, end_memory},
    {"a copy of pageable memory on an idle stream", NULL, have_memory,
     do_copy_in_pageable, NULL, all_is_there, end_memory},
    {"a fill on an idle stream", NULL, have_memory, do_fill, NULL, it_is_filled,
     end_memory},
    {"a fill of words on an idle stream", NULL, have_memory, do_fill32, NULL,
     it_is_filled, end_memory},
    {"a copy on a busy stream", NULL, have_busy_memory, do_copy_in, NULL, all_is_there,
     end_memory},
    {"a short copy on a busy stream", NULL, have_busy_memory, do_copy_in_short, NULL,
     the_start_is_there, end_memory},
    {"a copy of pageable memory on a busy stream", NULL, have_busy_memory,
     do_copy_in_pageable, NULL, all_is_there, end_memory},
    {"a fill on a busy stream", NULL, have_busy_memory, do_fill, NULL, it_is_filled,
     end_memory},
    {"a fill of words on a busy stream", NULL, have_busy_memory, do_fill32, NULL,
     it_is_filled, end_memory},
};

int main(int argc, char **argv)
{
    return run_faulted(steps, argc, argv);
}
