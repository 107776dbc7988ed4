/*
 * Work on streams that a test holds back and lets go.
 *
 * A gate is a host function that waits until the test opens it, so what is queued behind
 * it has not run until then, with no sleep anywhere.  A mark is one that writes a letter
 * down.
 */
#ifndef TEST_SUPPORT_WORK_H
#define TEST_SUPPORT_WORK_H

#include <pthread.h>
#include <stdbool.h>

#include "acl/acl.h"

struct gate {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool is_open;
    unsigned n_in; /* functions that stand in it, or have passed */
    unsigned n_out;
    aclrtStream stream; /* of gate_close() */
};
#define GATE_INIT \
    { \
        .mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER \
    }

/* The function; also called as one. */
void gate_pass(void *gate);
/* Returns when all who stood in it have left. */
void gate_open(struct gate *gate);
/* Until so many have come to it. */
void gate_await(struct gate *gate, unsigned n);

/* How many have left it. */
unsigned gate_passed(struct gate *gate);

/* The stream stands at the gate when this returns. */
void hold(aclrtStream stream, struct gate *gate);

/*
 * The same where nothing needs to have come to the gate yet, and in chaos mode, where
 * nothing does:
 *
 *     struct gate *gate = gate_close(stream);
 *     ... queue work, look at what has not happened ...
 *     gate_end(gate);
 *
 * The work behind it is done when gate_end() returns, or has failed with that code.
 */
struct gate *gate_close(aclrtStream stream);
void gate_end(struct gate *gate);
void gate_end_to(struct gate *gate, aclError code);

/*
 * Letters in the order in which they were written; the text is the test's to read when
 * all is done.
 */
struct marks {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    unsigned n;
    char text[1024];
};
#define MARKS_INIT \
    { \
        .mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER \
    }

void mark_down(struct marks *marks, char letter);
/* Queues a host function that writes the letter down. */
aclError mark_on(aclrtStream stream, struct marks *marks, char letter);
/* What is written so far; valid until the next call. */
const char *marks_now(struct marks *marks);
/* Until so many are written. */
void marks_await(struct marks *marks, unsigned n);

/*
 * Until another thread has begun to end the stream: it takes nothing more from then on.
 * Functions that do nothing are queued meanwhile.
 */
void await_closing(aclrtStream stream);

/* Threads of this process that have not begun to exit. */
unsigned n_threads(void);

#endif
