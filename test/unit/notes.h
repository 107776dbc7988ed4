/*
 * Tasks that say their letter when they run and again when they are dropped, and a
 * scheduler for them: most tests have no workers and a clock of their own, so each step is
 * the test's.
 */
#ifndef TEST_UNIT_NOTES_H
#define TEST_UNIT_NOTES_H

#include "unit.h"

#include <pthread.h>
#include <stdatomic.h>

#include "core/stream/sched.h"

#define SECOND UINT64_C(1000000000)

extern _Atomic uint64_t clock_ns;
extern _Atomic uint64_t clock_tick; /* how much it goes on by being looked at */
uint64_t clock_now(void);

struct note {
    struct am_task task;
    char letter;
    aclError rc;               /* what running gives */
    aclError late_rc;          /* what finishing gives */
    struct am_queue *source;   /* where what it waits for comes from; NULL: nowhere */
    const bool *gate;          /* polled: ready when it holds; NULL: always */
    struct am_waitlist *list;  /* where it waits; NULL: memory decides */
    struct am_waitlist *opens; /* woken when it has run */
    bool *opened;              /* set then */
    /* passed twice by a task that runs for as long as the test wants */
    pthread_barrier_t *barrier;
};

struct scene {
    struct am_sched sched;
    struct am_queue queue[4];
    char ran[256];
    char finished[256];
    char dropped[256];
    char lost[256];        /* dropped without having run */
    struct am_cause cause; /* of the last one */
    atomic_uint n_live;    /* tasks that were made and not dropped */
};
extern struct scene t;

extern const struct am_task_ops note_ops; /* of a plain task */

/* What tasks of the test's own may do, too. */
void note_drop(struct am_task *task);
void say(char *text, char letter);

/* Appends the task, or drops it. */
aclError submit(unsigned queue, struct am_task *task);
/* A task like this one, in the queue. */
aclError put(unsigned queue, struct note like);
/* A plain task for each letter. */
void put_letters(unsigned queue, const char *letters);

/* One step, or all; how many there were. */
bool step(void);
unsigned step_all(void);

/* As the functions of the scheduler, with its lock. */
void wake(struct am_waitlist *list);
void drop_tasks(unsigned queue);
int wait_queue(unsigned queue, uint64_t timeout);

/* The thread has to start. */
pthread_t thread_start(void *(*run)(void *));

void begin(const struct am_sched_setup *setup);
int setup_steps(void **state);
int setup_workers(void **state);
int teardown(void **state);
#define stepped(f_) cmocka_unit_test_setup_teardown(f_, setup_steps, teardown)
#define worked(f_) cmocka_unit_test_setup_teardown(f_, setup_workers, teardown)

#endif
