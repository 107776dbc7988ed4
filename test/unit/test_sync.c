/*
 * Threads that wait for one stream at the same time: what each of them is told.  The test
 * looks into the scheduler to know when they wait.
 */
#include "unit.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

#include "acl/acl.h"
#include "acl/error_codes/rt_error_codes.h"
#include "core/stream/sched.h"
#include "core/stream/stream.h"

static aclrtStream stream;

static struct am_queue *queue_of(aclrtStream handle)
{
    struct am_stream *found = NULL;

    assert_int_equal(am_stream_get(handle, &found), ACL_SUCCESS);
    am_stream_put(found);
    return &found->queue;
}

/* Until the stream is parked: from then on nothing moves by itself. */
static void await_parked(void)
{
    struct am_queue *queue = queue_of(stream);
    bool is_parked = false;

    while (!is_parked) {
        am_lock(&queue->lock);
        is_parked = queue->state == AM_QUEUE_PARKED;
        am_unlock(&queue->lock);
        sched_yield();
    }
}

static unsigned count_waiting(void)
{
    return am_sched.n_waiting;
}

static void *sync_main(void *ret)
{
    *(aclError *)ret = aclrtSynchronizeStream(stream);
    return NULL;
}

static void every_waiter_gets_the_failure(void **state)
{
    aclrtEvent event = NULL;
    aclError rc[3] = {0};
    pthread_t threads[3];

    assert_int_equal(aclrtCreateStream(&stream), ACL_SUCCESS);
    assert_int_equal(aclrtCreateEvent(&event), ACL_SUCCESS);
    assert_int_equal(aclrtStreamWaitEvent(stream, event), ACL_SUCCESS);
    await_parked();
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, sync_main, &rc[i]), 0);
    while (count_waiting() < 3)
        sched_yield();
    assert_int_equal(aclrtDestroyEvent(event), ACL_SUCCESS); /* so the wait fails */
    for (int i = 0; i < 3; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_int_equal(rc[i], ACL_ERROR_RT_INVALID_HANDLE);
    }
    assert_int_equal(aclrtSynchronizeStream(stream), ACL_SUCCESS);
    assert_int_equal(aclrtDestroyStream(stream), ACL_SUCCESS);
}

static int setup(void **state)
{
    setenv("ACLMEM_MEMORY", "64M", 1);
    unsetenv("ACLMEM_CHAOS");
    return aclInit(NULL) == ACL_SUCCESS && aclrtSetDevice(0) == ACL_SUCCESS ? 0 : -1;
}

static int teardown(void **state)
{
    return aclFinalize() == ACL_SUCCESS ? 0 : -1;
}

int main(void)
{
    const struct CMUnitTest claims[] = {
        cmocka_unit_test(every_waiter_gets_the_failure),
    };

    return cmocka_run_group_tests(claims, setup, teardown);
}
