/* Launched tasks: a queue of a device that does its work when the test says so. */
#include "notes.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "acl/error_codes/rt_error_codes.h"
#include "base/error.h"
#include "core/stream/wait.h"

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

/* No lock of all queues is held while the device is called. */
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

static char completed[256]; /* letters */

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

static aclError job_completed(struct am_task *task, const struct am_backend_ops *lanes)
{
    struct job *job = (struct job *)task;

    if (job->letter != '\0')
        say(completed, job->letter);
    return job->rc == ACL_SUCCESS ? ACL_SUCCESS : am_fail(job->rc, "job %c", job->letter);
}

static aclError job_run(struct am_task *task)
{
    struct job *job = (struct job *)task;

    if (job->letter != '\0')
        say(t.ran, job->letter);
    return ACL_SUCCESS;
}

static void job_cancel(struct am_task *task, const struct am_cause *cause)
{
    say(t.lost, ((struct job *)task)->letter);
}

static void job_free(struct am_task *task)
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
                                                .completed = job_completed,
                                                .run = job_run,
                                                .cancel = job_cancel,
                                                .free = job_free};
static const struct am_task_ops queued_ops = {
    .run = job_run, .cancel = job_cancel, .free = job_free};

static aclError job_put(unsigned lane, const struct am_task_ops *how, struct job like)
{
    struct job *job = malloc(sizeof *job);
    aclError rc;

    assert_non_null(job);
    *job = like;
    am_task_init(&job->task, how);
    job->task.function = "aclrtJob";
    t.n_live++;
    rc = am_queue_submit(&t.queue[lane], &job->task, NULL);
    if (rc != ACL_SUCCESS)
        job_free(&job->task);
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
    t.queue[lane].lane->done += n;
}

static int begin_steps(void **state)
{
    memset(&device, 0, sizeof device);
    memset(completed, 0, sizeof completed);
    n_launches = 0;
    clock_ns = 1000 * SECOND;
    clock_tick = 0;
    begin_device(&(struct am_sched_setup){.now = clock_now}, &ops);
    return 0;
}

static int begin_workers(void **state)
{
    begin_steps(state);
    begin_device(&(struct am_sched_setup){.now = am_clock, .n_workers = 3}, &ops);
    return 0;
}

static int end(void **state)
{
    int rc = teardown(state);

    assert_int_equal(device.n_open, 0);
    return rc;
}

static bool collect(unsigned queue)
{
    return !am_queue_poll(&t.queue[queue], false);
}

static int wait_launched(unsigned queue)
{
    return am_stall_wait_launched(&t.queue[queue], AM_FOREVER);
}

/* ---- what is claimed ---- */

static void tasks_are_launched_and_dropped_when_they_are_done(void **state)
{
    jobs_put(0, "ABC");
    assert_int_equal(t.queue[0].n_launched, 3);
    assert_false(collect(0));
    assert_string_equal(t.dropped, "");
    device_do(0, 2);
    assert_false(collect(0));
    assert_string_equal(completed, "AB");
    assert_string_equal(t.dropped, "AB");
    device_do(0, 1);
    assert_true(collect(0));
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
        assert_true(t.queue[0].n_launched <= 64);
    }
    /* and the device is not asked for each of them */
    assert_true(device.n_polls <= 1000 / 64 + 1);
    assert_int_equal(wait_launched(0), 0);
    assert_int_equal(t.n_live, 0);
}

static void a_failure_of_the_device_is_kept_for_the_stream(void **state)
{
    jobs_put(0, "AB");
    device.rc = ACL_ERROR_RT_LOST_HEARTBEAT;
    assert_int_equal(wait_launched(0), 0);
    assert_string_equal(completed, "");
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
    assert_int_equal(wait_launched(0), 0);
    assert_string_equal(t.lost, "B");
    assert_int_equal(t.queue[0].error, ACL_ERROR_RT_PARAM_INVALID);
}

/* A stream that stops on failures drops what comes until it is synchronised. */
static void a_stopped_stream_launches_nothing(void **state)
{
    t.queue[0].stop_on_failure = true;
    job_put(0, &launched_ops,
            (struct job){.letter = 'A', .rc = ACL_ERROR_RT_PARAM_INVALID});
    assert_int_equal(wait_launched(0), 0);
    jobs_put(0, "BC");
    step_all();
    assert_int_equal(n_launches, 1);
    assert_string_equal(t.lost, "ABC");
    am_lock(&t.queue[0].lock);
    assert_int_equal(am_queue_report_locked(&t.queue[0], 0), ACL_ERROR_RT_PARAM_INVALID);
    am_unlock(&t.queue[0].lock);
    jobs_put(0, "D");
    assert_int_equal(n_launches, 2);
    assert_int_equal(wait_launched(0), 0);
}

static void a_closed_stream_takes_nothing(void **state)
{
    t.queue[0].is_closed = true;
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
    assert_int_equal(am_queue_submit(&t.queue[0], &job->task, NULL), ACL_SUCCESS);
    step_all();
    assert_string_equal(t.ran, "A");
}

/* Launched tasks have begun; those behind them are dropped when their turn comes. */
static void dropping_leaves_what_was_launched(void **state)
{
    jobs_put(0, "Abc");
    step_all();
    assert_int_equal(am_queue_drop(&t.queue[0], false, 0), ETIMEDOUT);
    jobs_put(0, "d");
    step_all();
    assert_string_equal(t.ran, "");
    device_do(0, 1);
    step_all();
    assert_string_equal(t.lost, "bc");
    assert_string_equal(t.ran, "d");
    assert_string_equal(t.dropped, "Abcd");
    assert_string_equal(completed, "A");
}

/* While a thread completes launched tasks, no task behind them begins. */
static void step_and_submit(void)
{
    jobs_put(0, "d");
    step();
    assert_string_equal(t.ran, "");
}

static void a_task_begins_after_the_launched_tasks_are_completed(void **state)
{
    job_put(0, &launched_ops, (struct job){.letter = 'A', .at_drop = step_and_submit});
    device_do(0, 1);
    assert_false(collect(1) && !collect(0));
    step_all();
    assert_string_equal(t.ran, "d");
    assert_string_equal(t.dropped, "Ad");
}

static void a_wait_has_the_driver_wait_once(void **state)
{
    jobs_put(0, "AB");
    assert_int_equal(wait_launched(0), 0);
    assert_int_equal(device.n_syncs, 1);
    assert_string_equal(t.dropped, "AB");
    assert_int_equal(wait_launched(0), 0);
    assert_int_equal(device.n_syncs, 1);
}

static void a_wait_with_a_timeout_ends(void **state)
{
    jobs_put(0, "A");
    clock_tick = AM_MILLISECOND;
    assert_int_equal(am_stall_wait_launched(&t.queue[0], AM_MILLISECOND), ETIMEDOUT);
    assert_int_equal(device.n_syncs, 0); /* the driver's own wait has no limit */
    device_do(0, 1);
    assert_int_equal(am_stall_wait_launched(&t.queue[0], 60 * SECOND), 0);
    clock_tick = 0;
    assert_string_equal(t.dropped, "A");
}

static void a_queue_with_launched_tasks_is_not_idle(void **state)
{
    assert_true(am_queue_is_idle(&t.queue[0]));
    jobs_put(0, "A");
    assert_false(am_queue_is_idle(&t.queue[0]));
    assert_int_equal(wait_launched(0), 0);
    assert_true(am_queue_is_idle(&t.queue[0]));
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
            wait_launched(lane);
            wait_queue(lane, AM_FOREVER);
        }
    }
    wait_launched(lane);
    wait_queue(lane, AM_FOREVER);
    wait_launched(lane);
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
            collect(0);
        else if ((uintptr_t)arg == 1 && i % 8 == 0)
            wait_launched(0);
        else
            assert_int_equal(
                job_put(0, i % 50 == 0 ? &queued_ops : &launched_ops, (struct job){0}),
                ACL_SUCCESS);
    }
    wait_launched(0);
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
        lane_step(a_task_begins_after_the_launched_tasks_are_completed),
        lane_step(a_wait_has_the_driver_wait_once),
        lane_step(a_wait_with_a_timeout_ends),
        lane_step(a_queue_with_launched_tasks_is_not_idle),
        lane_work(streams_of_several_threads_keep_their_order),
        lane_work(several_threads_may_use_one_stream),
    };

    return cmocka_run_group_tests(claims, NULL, NULL);
}
