/* Read sections: an object stays valid until each section that could find it has ended. */
#include "unit.h"

#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/epoch.h"
#include "support/process.h"

struct object {
    struct am_deferred deferred;
    unsigned value;
};

static atomic_uint n_freed;

static void object_free(struct am_deferred *deferred)
{
    struct object *object = AM_CONTAINER_OF(deferred, struct object, deferred);

    object->value = 0;
    free(object);
    n_freed++;
}

static struct object *object_make(unsigned value)
{
    struct object *object = calloc(1, sizeof *object);

    assert_non_null(object);
    object->value = value;
    return object;
}

static void object_destroy(struct object *object)
{
    am_epoch_defer(&object->deferred, object_free);
}

/* A batch of objects, and the calls after which they would be reclaimed. */
static void batch_destroy(void)
{
    for (int i = 0; i < AM_EPOCH_BATCH; i++)
        object_destroy(object_make(1));
    for (int i = 0; i < 4; i++) {
        am_epoch_enter();
        am_epoch_leave();
    }
}

static int drain(void **state)
{
    am_epoch_synchronize();
    n_freed = 0;
    return 0;
}

static void a_leave_frees_a_batch(void **state)
{
    am_epoch_enter();
    batch_destroy();
    assert_int_equal(n_freed, 0);
    am_epoch_leave();
    assert_int_equal(n_freed, AM_EPOCH_BATCH);
}

static void synchronize_frees_a_single_object(void **state)
{
    object_destroy(object_make(1));
    am_epoch_enter();
    am_epoch_synchronize();
    am_epoch_leave();
    assert_int_equal(n_freed, 1);
}

/* Steps of a second thread. */
static atomic_int step;

static void step_wait(int n)
{
    while (step < n)
        sched_yield();
}

static const char *stay_in_a_nested_section(struct worker *self)
{
    am_epoch_enter();
    am_epoch_enter();
    am_epoch_leave(); /* still in the outer one */
    step = 1;
    step_wait(2);
    am_epoch_leave();
    step = 3;
    return NULL;
}

static const char *destroy_meanwhile(struct worker *self)
{
    step_wait(1);
    batch_destroy();
    worker_check(n_freed == 0);
    step = 2;
    step_wait(3);
    am_epoch_synchronize();
    worker_check(n_freed == AM_EPOCH_BATCH);
    return NULL;
}

static void a_section_of_another_thread_holds_objects_back(void **state)
{
    struct worker workers[] = {{.run = stay_in_a_nested_section},
                               {.run = destroy_meanwhile}};

    step = 0;
    assert_null(run_workers(workers, 2));
}

static const char *suspend(struct worker *self)
{
    unsigned depth;

    am_epoch_enter();
    am_epoch_enter();
    depth = am_epoch_suspend();
    step = 1;
    step_wait(2);
    am_epoch_resume(depth);
    worker_check(depth == 2 && am_epoch_thread.depth == 2);
    am_epoch_leave();
    am_epoch_leave();
    return NULL;
}

static const char *destroy_during_the_suspension(struct worker *self)
{
    step_wait(1);
    batch_destroy();
    worker_check(n_freed == AM_EPOCH_BATCH);
    step = 2;
    return NULL;
}

static void a_suspended_section_holds_nothing_back(void **state)
{
    struct worker workers[] = {{.run = suspend}, {.run = destroy_during_the_suspension}};

    step = 0;
    assert_null(run_workers(workers, 2));
}

static const char *synchronize(struct worker *self)
{
    step_wait(1);
    am_epoch_synchronize();
    worker_check(step == 2);
    return NULL;
}

static const char *stay_for_a_while(struct worker *self)
{
    am_epoch_enter();
    step = 1;
    for (int i = 0; i < 1000; i++)
        sched_yield();
    step = 2;
    am_epoch_leave();
    return NULL;
}

static void synchronize_waits_for_sections(void **state)
{
    struct worker workers[] = {{.run = stay_for_a_while}, {.run = synchronize}};

    step = 0;
    assert_null(run_workers(workers, 2));
}

/* A free may defer further objects, as a child of an object that goes with it. */
static void chain_free(struct am_deferred *deferred)
{
    struct object *object = AM_CONTAINER_OF(deferred, struct object, deferred);

    if (--object->value > 0)
        am_epoch_defer(&object->deferred, chain_free);
    else
        object_free(&object->deferred);
}

static void synchronize_runs_frees_that_frees_defer(void **state)
{
    struct object *object = object_make(5);

    am_epoch_defer(&object->deferred, chain_free);
    am_epoch_synchronize();
    assert_int_equal(n_freed, 1);
}

static const char *stay_until_the_fork(struct worker *self)
{
    am_epoch_enter();
    step = 1;
    step_wait(2);
    am_epoch_leave();
    return NULL;
}

static const char *fork_meanwhile(struct worker *self)
{
    int status;
    pid_t pid;

    step_wait(1);
    am_epoch_enter();
    pid = fork();
    if (pid == 0) {
        am_epoch_forget_threads();
        am_epoch_synchronize();
        am_epoch_leave();
        am_epoch_synchronize();
        _exit(0);
    }
    am_epoch_leave();
    worker_check(waitpid(pid, &status, 0) == pid && status == 0);
    step = 2;
    return NULL;
}

static void a_forked_child_waits_for_no_other_thread(void **state)
{
    struct worker workers[] = {{.run = stay_until_the_fork}, {.run = fork_meanwhile}};

    step = 0;
    assert_null(run_workers(workers, 2));
}

#define SLOTS 8
static _Atomic(struct object *) slots[SLOTS];
static atomic_uint n_made;

static const char *replace_and_read(struct worker *self)
{
    for (unsigned i = 0; i < 20000; i++) {
        unsigned slot = (i * 7) % SLOTS;
        struct object *object;

        am_epoch_enter();
        object = atomic_load_explicit(&slots[slot], memory_order_acquire);
        worker_check(object == NULL || object->value == slot + 1);
        if (i % 3 == 0) {
            object = calloc(1, sizeof *object);
            object->value = slot + 1;
            n_made++;
            object = atomic_exchange(&slots[slot], object);
            if (object != NULL)
                object_destroy(object);
        }
        am_epoch_leave();
    }
    return NULL;
}

/* The sanitizers report a use after free. */
static void threads_replace_objects_that_others_read(void **state)
{
    struct worker workers[6];

    for (int i = 0; i < 6; i++)
        workers[i] = (struct worker){.run = replace_and_read};
    n_made = 0;
    assert_null(run_workers(workers, 6));
    for (int i = 0; i < SLOTS; i++)
        object_destroy(atomic_exchange(&slots[i], NULL));
    assert_true(n_freed > 0); /* reclaimed meanwhile, by the threads */
    am_epoch_synchronize();
    assert_int_equal(n_freed, n_made);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_leave_frees_a_batch, drain),
        cmocka_unit_test_setup(synchronize_frees_a_single_object, drain),
        cmocka_unit_test_setup(a_section_of_another_thread_holds_objects_back, drain),
        cmocka_unit_test_setup(a_suspended_section_holds_nothing_back, drain),
        cmocka_unit_test_setup(synchronize_waits_for_sections, drain),
        cmocka_unit_test_setup(synchronize_runs_frees_that_frees_defer, drain),
        cmocka_unit_test_setup(a_forked_child_waits_for_no_other_thread, drain),
        cmocka_unit_test_setup(threads_replace_objects_that_others_read, drain),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
