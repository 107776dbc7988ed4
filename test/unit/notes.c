/* See notes.h. */
#include "notes.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "acl/error_codes/rt_error_codes.h"

/* ---- the clock ---- */

_Atomic uint64_t clock_ns;
_Atomic uint64_t clock_tick;

uint64_t clock_now(void)
{
    return atomic_fetch_add(&clock_ns, clock_tick);
}

/* ---- tasks ---- */

struct scene t;

void say(char *text, char letter)
{
    size_t n = strlen(text);

    assert_true(n < sizeof t.ran - 1);
    text[n] = letter;
    text[n + 1] = '\0';
}

static bool note_poll(struct am_task *task, struct am_sched *sched,
                      struct am_waitlist **ret_list)
{
    struct note *note = (struct note *)task;

    *ret_list = note->list;
    return *note->gate;
}

static aclError note_run(struct am_task *task)
{
    struct note *note = (struct note *)task;

    if (note->barrier != NULL) {
        pthread_barrier_wait(note->barrier);
        pthread_barrier_wait(note->barrier);
    }
    am_lock(&t.sched.lock);
    say(t.ran, note->letter);
    am_unlock(&t.sched.lock);
    return note->rc == ACL_SUCCESS ? ACL_SUCCESS
                                   : am_fail(note->rc, "note %c", note->letter);
}

AM_NO_LOCK_ANALYSIS /* the scheduler calls it with the lock */
    static aclError
    note_finish(struct am_task *task, struct am_sched *sched)
{
    struct note *note = (struct note *)task;

    say(t.finished, note->letter);
    if (note->opened != NULL)
        *note->opened = true;
    if (note->opens != NULL)
        am_sched_wake_locked(sched, note->opens);
    return note->late_rc == ACL_SUCCESS ? ACL_SUCCESS
                                        : am_fail(note->late_rc, "late %c", note->letter);
}

static void note_cancel(struct am_task *task, const struct am_queue *queue)
{
    t.cause = am_queue_cause(queue);
    say(t.lost, ((struct note *)task)->letter);
}

AM_NO_LOCK_ANALYSIS
static bool note_can_come(struct am_task *task, struct am_sched *sched)
{
    struct note *note = (struct note *)task;

    return note->source != NULL && am_queue_can_move_locked(sched, note->source);
}

void note_drop(struct am_task *task)
{
    am_lock(&t.sched.lock);
    say(t.dropped, ((struct note *)task)->letter);
    am_unlock(&t.sched.lock);
    free(task);
    t.n_live--;
}

const struct am_task_ops note_ops = {.run = note_run,
                                     .finish = note_finish,
                                     .cancel = note_cancel,
                                     .drop = note_drop,
                                     .timeout = ACL_ERROR_RT_WAIT_TIMEOUT};
static const struct am_task_ops gated_ops = {.poll = note_poll,
                                             .run = note_run,
                                             .finish = note_finish,
                                             .cancel = note_cancel,
                                             .can_come = note_can_come,
                                             .drop = note_drop,
                                             .timeout = ACL_ERROR_RT_WAIT_TIMEOUT};

aclError submit(unsigned queue, struct am_task *task)
{
    aclError rc;

    am_lock(&t.sched.lock);
    rc = am_sched_submit_locked(&t.sched, &t.queue[queue], task);
    am_unlock(&t.sched.lock);
    if (rc != ACL_SUCCESS)
        task->ops->drop(task);
    return rc;
}

/* A task like this one, in the queue. */
aclError put(unsigned queue, struct note like)
{
    struct note *note = malloc(sizeof *note);

    assert_non_null(note);
    *note = like;
    note->task.ops = like.gate != NULL ? &gated_ops : &note_ops;
    note->task.function = "aclrtNote";
    if (note->task.deadline == 0)
        note->task.deadline = AM_FOREVER;
    t.n_live++;
    return submit(queue, &note->task);
}

/* A plain task for each letter. */
void put_letters(unsigned queue, const char *letters)
{
    for (; *letters != '\0'; letters++)
        assert_int_equal(put(queue, (struct note){.letter = *letters}), ACL_SUCCESS);
}

bool step(void)
{
    bool has_moved;

    am_lock(&t.sched.lock);
    has_moved = am_sched_step_locked(&t.sched);
    am_unlock(&t.sched.lock);
    return has_moved;
}

unsigned step_all(void)
{
    unsigned n = 0;

    while (step())
        n++;
    return n;
}

void wake(struct am_waitlist *list)
{
    am_lock(&t.sched.lock);
    am_sched_wake_locked(&t.sched, list);
    am_unlock(&t.sched.lock);
}

void drop_tasks(unsigned queue)
{
    am_lock(&t.sched.lock);
    am_sched_drop_tasks_locked(&t.sched, &t.queue[queue]);
    am_unlock(&t.sched.lock);
}

int wait_queue(unsigned queue, uint64_t timeout)
{
    int rc;

    am_lock(&t.sched.lock);
    rc = am_sched_wait_queue_locked(&t.sched, &t.queue[queue], timeout);
    am_unlock(&t.sched.lock);
    return rc;
}

pthread_t thread_start(void *(*run)(void *))
{
    pthread_t thread;

    assert_int_equal(pthread_create(&thread, NULL, run, NULL), 0);
    return thread;
}

/* ---- before and after ---- */

void begin(const struct am_sched_setup *setup)
{
    memset(&t, 0, sizeof t);
    is_time_ours = setup->now == clock_now;
    am_sched_init(&t.sched);
    am_sched_start(&t.sched, setup);
    for (unsigned i = 0; i < 4; i++)
        am_queue_init(&t.queue[i], 0);
}

int setup_steps(void **state)
{
    clock_ns = 1000 * SECOND;
    clock_tick = 0;
    begin(&(struct am_sched_setup){.now = clock_now});
    return 0;
}

int setup_workers(void **state)
{
    begin(&(struct am_sched_setup){.now = am_clock, .n_workers = 3});
    return 0;
}

int teardown(void **state)
{
    for (unsigned i = 0; i < 4; i++)
        am_queue_destroy(&t.queue[i]);
    am_sched_stop(&t.sched);
    am_sched_destroy(&t.sched);
    if (t.n_live == 0)
        return 0;
    print_error("%u tasks were never dropped\n", t.n_live);
    return -1;
}
