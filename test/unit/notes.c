/* See notes.h. */
#include "notes.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "acl/error_codes/rt_error_codes.h"
#include "core/stream/wait.h"

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
    size_t n;

    am_lock(&t.lock);
    n = strlen(text);
    assert_true(n < sizeof t.ran - 1);
    text[n] = letter;
    text[n + 1] = '\0';
    am_unlock(&t.lock);
}

static enum am_poll note_poll(struct am_task *task)
{
    struct note *note = (struct note *)task;
    bool is_open;

    if (note->list != NULL)
        am_waitlist_join(note->list, task);
    am_lock(&t.lock);
    is_open = *note->gate;
    am_unlock(&t.lock);
    if (is_open)
        return AM_POLL_READY;
    return note->list != NULL ? AM_POLL_WAIT : AM_POLL_AGAIN;
}

static aclError note_run(struct am_task *task)
{
    struct note *note = (struct note *)task;

    if (note->barrier != NULL) {
        pthread_barrier_wait(note->barrier);
        pthread_barrier_wait(note->barrier);
    }
    say(t.ran, note->letter);
    if (note->opened != NULL) {
        am_lock(&t.lock);
        *note->opened = true;
        am_unlock(&t.lock);
    }
    if (note->opens != NULL)
        am_waitlist_wake(note->opens);
    return note->rc == ACL_SUCCESS ? ACL_SUCCESS
                                   : am_fail(note->rc, "note %c", note->letter);
}

static void note_cancel(struct am_task *task, const struct am_cause *cause)
{
    t.cause = *cause;
    say(t.lost, ((struct note *)task)->letter);
}

static bool note_withdraw(struct am_task *task)
{
    return task->runner == 0;
}

static unsigned note_sources(struct am_task *task, struct am_source *list,
                             bool *ret_is_only)
{
    struct note *note = (struct note *)task;

    list[0] = (struct am_source){.queue = note->source};
    *ret_is_only = true;
    return note->source != NULL;
}

void note_free(struct am_task *task)
{
    say(t.dropped, ((struct note *)task)->letter);
    free(task);
    t.n_live--;
}

const struct am_task_ops note_ops = {.run = note_run,
                                     .cancel = note_cancel,
                                     .withdraw = note_withdraw,
                                     .free = note_free,
                                     .timeout = ACL_ERROR_RT_WAIT_TIMEOUT};
static const struct am_task_ops gated_ops = {.poll = note_poll,
                                             .run = note_run,
                                             .cancel = note_cancel,
                                             .withdraw = note_withdraw,
                                             .free = note_free,
                                             .sources = note_sources,
                                             .timeout = ACL_ERROR_RT_WAIT_TIMEOUT};

aclError submit(unsigned queue, struct am_task *task)
{
    aclError rc = am_queue_submit(&t.queue[queue], task, NULL);

    if (rc != ACL_SUCCESS)
        task->ops->free(task);
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
    return am_sched_step(&t.sched);
}

unsigned step_all(void)
{
    unsigned n = 0;

    while (step())
        n++;
    return n;
}

void drop_tasks(unsigned queue)
{
    assert_int_equal(am_queue_drop(&t.queue[queue], false, AM_FOREVER), 0);
}

int wait_queue(unsigned queue, uint64_t timeout)
{
    struct am_queue *q = &t.queue[queue];
    int rc;

    am_lock(&q->lock);
    rc = am_stall_wait_locked(q, q->n_queued, timeout, NULL);
    am_unlock(&q->lock);
    return rc;
}

pthread_t thread_start(void *(*run)(void *))
{
    pthread_t thread;

    assert_int_equal(pthread_create(&thread, NULL, run, NULL), 0);
    return thread;
}

/* ---- before and after ---- */

void begin_device(const struct am_sched_setup *setup, const struct am_backend_ops *device)
{
    memset(&t, 0, sizeof t);
    is_time_ours = setup->now == clock_now;
    am_lock_init(&t.lock, AM_RANK_LEAF, "notes");
    am_sched_init(&t.sched);
    am_sched_start(&t.sched, setup);
    for (unsigned i = 0; i < 4; i++) {
        am_queue_init(&t.queue[i], &t.sched, 0, device, 0);
        t.queue[i].id = (int32_t)i;
    }
}

void begin(const struct am_sched_setup *setup)
{
    begin_device(setup, NULL);
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
    if (t.n_live == 0)
        return 0;
    print_error("%u tasks were never dropped\n", t.n_live);
    return -1;
}
