/*
 * Tasks that write down their letter when they run and again when they are freed, and a
 * scheduler for them: most tests have no workers and a clock of their own, so the test does
 * each step.
 */
#ifndef TEST_UNIT_NOTES_H
#define TEST_UNIT_NOTES_H

#include "unit.h"

#include <pthread.h>
#include <stdatomic.h>

#include "core/stream/queue.h"

#define SECOND UINT64_C(1000000000)

extern _Atomic uint64_t clock_ns;
extern _Atomic uint64_t clock_tick; /* how much each reading advances the clock */
uint64_t clock_now(void);

struct note {
    struct am_task task;
    char letter;
    aclError rc;               /* the result of the run */
    struct am_queue *source;   /* its first task can end the wait; NULL: none can */
    const bool *gate;          /* ready when it is true; NULL: always */
    struct am_waitlist *list;  /* where it waits; NULL: it is polled */
    struct am_waitlist *opens; /* woken when it has run */
    bool *opened;              /* set then */
    /* passed twice by a task that runs for as long as the test wants */
    pthread_barrier_t *barrier;
};

struct scene {
    struct am_sched sched;
    struct am_queue queue[4];
    struct am_lock lock; /* protects the texts and gates of tests with threads */
    char ran[256];
    char dropped[256];     /* freed */
    char lost[256];        /* cancelled */
    struct am_cause cause; /* of the last one */
    atomic_uint n_live;    /* tasks that were made and not freed */
};
extern struct scene t;

extern const struct am_task_ops note_ops; /* of a plain task */

/* For tasks of a test, too. */
void note_free(struct am_task *task);
void say(char *text, char letter);

/* Appends the task, or frees it. */
aclError submit(unsigned queue, struct am_task *task);
/* A task like this one, in the queue. */
aclError put(unsigned queue, struct note like);
/* A plain task for each letter. */
void put_letters(unsigned queue, const char *letters);

/* All steps; how many there were. */
unsigned step_all(void);
bool step(void);

void drop_tasks(unsigned queue);
int wait_queue(unsigned queue, uint64_t timeout);

/* The thread has to start. */
pthread_t thread_start(void *(*run)(void *));

void begin(const struct am_sched_setup *setup);
/* The same for queues of a device. */
void begin_device(const struct am_sched_setup *setup,
                  const struct am_backend_ops *device);
int setup_steps(void **state);
int setup_workers(void **state);
int teardown(void **state);
#define stepped(f_) cmocka_unit_test_setup_teardown(f_, setup_steps, teardown)
#define worked(f_) cmocka_unit_test_setup_teardown(f_, setup_workers, teardown)

#endif
