/* The lane engine over a device that does its work when the test says so. */
#include "notes.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "acl/error_codes/rt_error_codes.h"
#include "base/error.h"
#include "core/stream/lane.h"
#include "core/stream/sched_bypass.h"

/* ---- a device ---- */

/* The numbers of what was launched and done; a lane is used by one thread at a time. */
struct am_lane {
    uint64_t last;
    _Atomic uint64_t done;
    atomic_bool is_used;
};

static struct {
    bool is_eager;   /* what is launched is done at once */
    bool is_refused; /* no lane is opened */
    aclError rc;     /* what became of the work */
    atomic_uint n_open;
    atomic_uint n_polls;
    atomic_uint n_syncs;
} device;

static _Atomic uint64_t n_launches;

/* The scheduler's lock is free for this thread, whatever others do. */
static void assert_no_lock_of_all(void)
{
    am_lock(&t.sched.lock);
    am_unlock(&t.sched.lock);
}

static aclError lane_open(int32_t driver, unsigned priority, struct am_lane **ret_lane)
{
    struct am_lane *lane;

    assert_no_lock_of_all();
    if (device.is_refused)
        return am_fail(ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, "no lane");
    lane = calloc(1, sizeof *lane);
    assert_non_null(lane);
    device.n_open++;
    *ret_lane = lane;
    return ACL_SUCCESS;
}

static void lane_close(struct am_lane *lane)
{
    assert_no_lock_of_all();
    device.n_open--;
    free(lane);
}

static uint64_t lane_launch(struct am_lane *lane)
{
    assert_no_lock_of_all();
    assert_false(atomic_exchange(&lane->is_used, true));
    lane->last = ++n_launches;
    if (device.is_eager)
        lane->done = lane->last;
    atomic_store(&lane->is_used, false);
    return lane->last;
}

static aclError lane_poll(struct am_lane *lane, uint64_t *ret_done)
{
    assert_no_lock_of_all();
    assert_false(atomic_exchange(&lane->is_used, true));
    device.n_polls++;
    *ret_done = device.rc == ACL_SUCCESS ? lane->done : lane->last;
    atomic_store(&lane->is_used, false);
    return device.rc == ACL_SUCCESS ? ACL_SUCCESS
                                    : am_fail(device.rc, "the device says so");
}

/* Beside launches: what was launched before the call is done when it returns. */
static aclError lane_sync(struct am_lane *lane)
{
    assert_no_lock_of_all();
    device.n_syncs++;
    lane->done = n_launches;
    return ACL_SUCCESS;
}

static const struct am_backend_ops ops = {
    .lane_open = lane_open,
    .lane_close = lane_close,
    .lane_poll = lane_poll,
    .lane_sync = lane_sync,
};

/* ---- tasks for it ---- */

struct job {
    struct am_task task;
    char letter;
    aclError rc;     /* of its landing */
    uint64_t *order; /* NULL, or where drops of its stream are counted */
    uint64_t place;  /* its number there */
    void (*at_drop)(void);
};

static aclError job_launch(struct am_task *task, const struct am_backend_ops *lanes,
                           struct am_lane *lane)
{
    task->number = lane_launch(lane);
    return ACL_SUCCESS;
}

static aclError job_collected(struct am_task *task, const struct am_backend_ops *lanes)
{
    struct job *job = (struct job *)task;

    if (job->letter != '\0')
        say(t.finished, job->letter);
    return job->rc == ACL_SUCCESS ? ACL_SUCCESS : am_fail(job->rc, "job %c", job->letter);
}

static aclError job_run(struct am_task *task)
{
    struct job *job = (struct job *)task;

    if (job->letter != '\0')
        say(t.ran, job->letter);
    return ACL_SUCCESS;
}

static void job_cancel(struct am_task *task, const struct am_queue *queue)
{
    say(t.lost, ((struct job *)task)->letter);
}

static void job_drop(struct am_task *task)
{
    struct job *job = (struct job *)task;

    if (job->letter != '\0')
        say(t.dropped, job->letter);
    if (job->order != NULL)
        assert_int_equal((*job->order)++, job->place);
    if (job->at_drop != NULL)
        job->at_drop();
    free(job);
    t.n_live--;
}

static const struct am_task_ops launched_ops = {.launch = job_launch,
                                                .collected = job_collected,
                                                .run = job_run,
                                                .cancel = job_cancel,
                                                .drop = job_drop};
static const struct am_task_ops queued_ops = {
    .run = job_run, .cancel = job_cancel, .drop = job_drop};

static struct am_lane_queue lanes[4];

static aclError job_put(unsigned lane, const struct am_task_ops *how, struct job like)
{
    struct job *job = malloc(sizeof *job);
    aclError rc;

    assert_non_null(job);
    *job = like;
    am_task_init(&job->task, how);
    job->task.function = "aclrtJob";
    t.n_live++;
    rc = am_lane_submit(&lanes[lane], &job->task);
    if (rc != ACL_SUCCESS)
        job_drop(&job->task);
    return rc;
}

/* Capital letters are for the device, small ones for the scheduler. */
static void jobs_put(unsigned lane, const char *letters)
{
    for (; *letters != '\0'; letters++)
        assert_int_equal(job_put(lane, *letters < 'a' ? &launched_ops : &queued_ops,
                                 (struct job){.letter = *letters}),
                         ACL_SUCCESS);
}

/* The device does so much of what it has. */
static void device_do(unsigned lane, uint64_t n)
{
    lanes[lane].lane->done += n;
}

static void lanes_begin(void)
{
    memset(&device, 0, sizeof device);
    n_launches = 0;
    for (unsigned i = 0; i < 4; i++) {
        am_lane_init(&lanes[i], &t.sched, &t.queue[i], &ops, 0);
        am_lock(&t.sched.lock);
        am_bypass_open_locked(&t.sched, &t.queue[i]);
        am_unlock(&t.sched.lock);
    }
}

static int begin_steps(void **state)
{
    setup_steps(state);
    lanes_begin();
    return 0;
}

static int begin_workers(void **state)
{
    setup_workers(state);
    lanes_begin();
    return 0;
}

static int end(void **state)
{
    for (unsigned i = 0; i < 4; i++)
        am_lane_destroy(&lanes[i]);
    assert_int_equal(device.n_open, 0);
    return teardown(state);
}

/* ---- what is claimed ---- */

static void tasks_are_launched_and_dropped_when_they_are_done(void **state)
{
    jobs_put(0, "ABC");
    assert_int_equal(lanes[0].n_tasks, 3);
    assert_false(am_lane_collect(&lanes[0]));
    assert_string_equal(t.dropped, "");
    device_do(0, 2);
    assert_false(am_lane_collect(&lanes[0]));
    assert_string_equal(t.finished, "AB");
    assert_string_equal(t.dropped, "AB");
    device_do(0, 1);
    assert_true(am_lane_collect(&lanes[0]));
    assert_string_equal(t.dropped, "ABC");
    assert_string_equal(t.ran, "");
    assert_false(step()); /* the scheduler had nothing of it */
}

static void a_task_for_the_scheduler_comes_after_what_was_launched(void **state)
{
    jobs_put(0, "ABcD");
    step_all();
    assert_string_equal(t.ran, "");
    device_do(0, 1);
    step_all();
    assert_string_equal(t.dropped, "A");
    device_do(0, 1);
    step_all();
    /* D came while the scheduler had c, so the device did not get it. */
    assert_string_equal(t.ran, "cD");
    assert_string_equal(t.dropped, "ABcD");
    assert_int_equal(n_launches, 2);
}

static void launching_goes_on_when_the_scheduler_is_empty(void **state)
{
    jobs_put(0, "AbC");
    device_do(0, 1);
    step_all();
    jobs_put(0, "DeF");
    assert_int_equal(n_launches, 2);
    device_do(0, 1);
    step_all();
    assert_string_equal(t.dropped, "AbCDeF");
    assert_string_equal(t.ran, "bCeF");
}

static void launched_tasks_are_collected_while_more_are_launched(void **state)
{
    device.is_eager = true;
    for (unsigned i = 0; i < 1000; i++) {
        assert_int_equal(job_put(0, &launched_ops, (struct job){0}), ACL_SUCCESS);
        assert_true(lanes[0].n_tasks <= 64);
    }
    /* and the device is not asked for each of them */
    assert_true(device.n_polls <= 1000 / 64 + 1);
    assert_int_equal(am_lane_wait(&lanes[0], AM_FOREVER), 0);
    assert_int_equal(t.n_live, 0);
}

static void a_failure_of_the_device_is_kept_for_the_stream(void **state)
{
    jobs_put(0, "AB");
    device.rc = ACL_ERROR_RT_LOST_HEARTBEAT;
    assert_int_equal(am_lane_wait(&lanes[0], AM_FOREVER), 0);
    assert_string_equal(t.finished, "");
    assert_string_equal(t.lost, "AB");
    assert_string_equal(t.dropped, "AB");
    assert_int_equal(t.queue[0].error, ACL_ERROR_RT_LOST_HEARTBEAT);
    assert_contains(t.queue[0].why, "aclrtJob");
    assert_contains(t.queue[0].why, "the device says so");
    assert_null(am_error_take_messages()); /* it is not this thread's failure */
    device.rc = ACL_SUCCESS;
}

static void a_failure_when_it_is_done_is_one_tasks(void **state)
{
    jobs_put(0, "A");
    job_put(0, &launched_ops,
            (struct job){.letter = 'B', .rc = ACL_ERROR_RT_PARAM_INVALID});
    jobs_put(0, "C");
    assert_int_equal(am_lane_wait(&lanes[0], AM_FOREVER), 0);
    assert_string_equal(t.lost, "B");
    assert_int_equal(t.queue[0].error, ACL_ERROR_RT_PARAM_INVALID);
}

/* A stream that stops on failures drops what comes until it is synchronised. */
static void a_stopped_stream_launches_nothing(void **state)
{
    t.queue[0].stop_on_failure = true;
    job_put(0, &launched_ops,
            (struct job){.letter = 'A', .rc = ACL_ERROR_RT_PARAM_INVALID});
    assert_int_equal(am_lane_wait(&lanes[0], AM_FOREVER), 0);
    jobs_put(0, "BC");
    step_all();
    assert_int_equal(n_launches, 1);
    assert_string_equal(t.lost, "ABC");
    am_lock(&t.sched.lock);
    assert_int_equal(am_queue_report_locked(&t.queue[0], 0), ACL_ERROR_RT_PARAM_INVALID);
    am_bypass_open_locked(&t.sched, &t.queue[0]);
    am_unlock(&t.sched.lock);
    jobs_put(0, "D");
    assert_int_equal(n_launches, 2);
    assert_int_equal(am_lane_wait(&lanes[0], AM_FOREVER), 0);
}

static void a_closed_stream_takes_nothing(void **state)
{
    am_lock(&t.sched.lock);
    am_bypass_close_locked(&t.sched, &t.queue[0]);
    t.queue[0].is_closed = true;
    am_unlock(&t.sched.lock);
    assert_int_equal(job_put(0, &launched_ops, (struct job){.letter = 'A'}),
                     ACL_ERROR_RT_INVALID_HANDLE);
    assert_string_equal(t.dropped, "A");
    assert_int_equal(n_launches, 0);
    assert_non_null(am_error_take_messages());
}

static void without_a_lane_the_scheduler_does_it(void **state)
{
    device.is_refused = true;
    jobs_put(0, "AB");
    step_all();
    assert_string_equal(t.ran, "AB");
    assert_null(am_error_take_messages());
}

static void a_task_with_a_deadline_is_not_launched(void **state)
{
    struct job *job = calloc(1, sizeof *job);

    assert_non_null(job);
    am_task_init(&job->task, &launched_ops);
    job->letter = 'A';
    job->task.deadline = SECOND;
    t.n_live++;
    assert_int_equal(am_lane_submit(&lanes[0], &job->task), ACL_SUCCESS);
    step_all();
    assert_string_equal(t.ran, "A");
}

/* An abort drops the barrier with the rest; what was launched stays and is waited for. */
static void dropping_leaves_what_was_launched(void **state)
{
    jobs_put(0, "Abc");
    step_all();
    drop_tasks(0);
    assert_string_equal(t.lost, "bc");
    jobs_put(0, "Bd");
    assert_int_equal(n_launches, 2);
    step_all();
    assert_string_equal(t.ran, "");
    device_do(0, 2);
    step_all();
    assert_string_equal(t.ran, "d");
    assert_string_equal(t.dropped, "bcABd");
}

/* An abort while the watcher is at the barrier; then another task comes. */
static void abort_and_go_on(void)
{
    am_lock(&t.sched.lock);
    assert_int_equal(am_sched_drain_locked(&t.sched, &t.queue[0], 0), ETIMEDOUT);
    am_unlock(&t.sched.lock);
    jobs_put(0, "d");
}

static void a_task_after_an_abort_comes_after_what_was_launched(void **state)
{
    job_put(0, &launched_ops, (struct job){.letter = 'A', .at_drop = abort_and_go_on});
    jobs_put(0, "Bc");
    device_do(0, 1);
    step_all();
    assert_string_equal(t.lost, "c");
    assert_string_equal(t.ran, "");
    device_do(0, 1);
    step_all();
    assert_string_equal(t.ran, "d");
    assert_string_equal(t.dropped, "AcBd");
}

static void a_wait_has_the_driver_wait_once(void **state)
{
    jobs_put(0, "AB");
    assert_int_equal(am_lane_wait(&lanes[0], AM_FOREVER), 0);
    assert_int_equal(device.n_syncs, 1);
    assert_string_equal(t.dropped, "AB");
    assert_int_equal(am_lane_wait(&lanes[0], AM_FOREVER), 0);
    assert_int_equal(device.n_syncs, 1);
}

static void a_wait_with_a_timeout_ends(void **state)
{
    jobs_put(0, "A");
    assert_int_equal(am_lane_wait(&lanes[0], am_clock() + AM_MILLISECOND), ETIMEDOUT);
    assert_int_equal(device.n_syncs, 0); /* the driver's own wait has no end */
    device_do(0, 1);
    assert_int_equal(am_lane_wait(&lanes[0], am_clock() + 60 * SECOND), 0);
    assert_string_equal(t.dropped, "A");
}

static void work_of_the_caller_comes_after_what_was_launched(void **state)
{
    jobs_put(0, "A");
    assert_true(am_lane_try_begin(&lanes[0], true));
    assert_string_equal(t.dropped, "A");
    jobs_put(0, "B"); /* while the caller is at it, the device gets nothing */
    assert_int_equal(n_launches, 1);
    am_sched_end(&t.sched, &t.queue[0]);
    step_all();
    assert_string_equal(t.ran, "B");
}

static void a_task_that_takes_no_time_waits_for_what_was_launched(void **state)
{
    assert_true(am_lane_pass(&lanes[0]));
    jobs_put(0, "A");
    assert_false(am_lane_pass(&lanes[0]));
    assert_int_equal(am_lane_wait(&lanes[0], AM_FOREVER), 0);
    assert_true(am_lane_pass(&lanes[0]));
}

/* ---- threads ---- */

enum { N_THREADS = 4, N_JOBS = 3000 };

/* Streams of their own; every seventh task is the scheduler's. */
static void *stream_main(void *arg)
{
    unsigned lane = (unsigned)(uintptr_t)arg;
    uint64_t order = 0;

    for (uint64_t i = 0; i < N_JOBS; i++) {
        assert_int_equal(job_put(lane, i % 7 == 6 ? &queued_ops : &launched_ops,
                                 (struct job){.order = &order, .place = i}),
                         ACL_SUCCESS);
        if (i % 97 == 0) {
            am_lane_wait(&lanes[lane], AM_FOREVER);
            wait_queue(lane, AM_FOREVER);
        }
    }
    am_lane_wait(&lanes[lane], AM_FOREVER);
    wait_queue(lane, AM_FOREVER);
    am_lane_wait(&lanes[lane], AM_FOREVER);
    assert_int_equal(order, N_JOBS);
    return NULL;
}

static void threads_run(void *(*run)(void *))
{
    pthread_t threads[N_THREADS];

    for (uintptr_t i = 0; i < N_THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, run, (void *)i), 0);
    for (unsigned i = 0; i < N_THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(t.n_live, 0);
}

static void streams_of_several_threads_keep_their_order(void **state)
{
    device.is_eager = true;
    threads_run(stream_main);
}

/* All on one stream: some launch, one asks, one waits. */
static void *shared_main(void *arg)
{
    for (unsigned i = 0; i < N_JOBS; i++) {
        if ((uintptr_t)arg == 0)
            am_lane_collect(&lanes[0]);
        else if ((uintptr_t)arg == 1 && i % 8 == 0)
            am_lane_wait(&lanes[0], AM_FOREVER);
        else
            assert_int_equal(
                job_put(0, i % 50 == 0 ? &queued_ops : &launched_ops, (struct job){0}),
                ACL_SUCCESS);
    }
    am_lane_wait(&lanes[0], AM_FOREVER);
    wait_queue(0, AM_FOREVER);
    return NULL;
}

static void several_threads_may_use_one_stream(void **state)
{
    threads_run(shared_main);
}

#define lane_step(f_) cmocka_unit_test_setup_teardown(f_, begin_steps, end)
#define lane_work(f_) cmocka_unit_test_setup_teardown(f_, begin_workers, end)

int main(void)
{
    const struct CMUnitTest claims[] = {
        lane_step(tasks_are_launched_and_dropped_when_they_are_done),
        lane_step(a_task_for_the_scheduler_comes_after_what_was_launched),
        lane_step(launching_goes_on_when_the_scheduler_is_empty),
        lane_step(launched_tasks_are_collected_while_more_are_launched),
        lane_step(a_failure_of_the_device_is_kept_for_the_stream),
        lane_step(a_failure_when_it_is_done_is_one_tasks),
        lane_step(a_stopped_stream_launches_nothing),
        lane_step(a_closed_stream_takes_nothing),
        lane_step(without_a_lane_the_scheduler_does_it),
        lane_step(a_task_with_a_deadline_is_not_launched),
        lane_step(dropping_leaves_what_was_launched),
        lane_step(a_task_after_an_abort_comes_after_what_was_launched),
        lane_step(a_wait_has_the_driver_wait_once),
        lane_step(a_wait_with_a_timeout_ends),
        lane_step(work_of_the_caller_comes_after_what_was_launched),
        lane_step(a_task_that_takes_no_time_waits_for_what_was_launched),
        lane_work(streams_of_several_threads_keep_their_order),
        lane_work(several_threads_may_use_one_stream),
    };

    return cmocka_run_group_tests(claims, NULL, NULL);
}
