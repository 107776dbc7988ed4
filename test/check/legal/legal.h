/* Correct programs, which must have no finding with any check. */
#ifndef TEST_CHECK_LEGAL_H
#define TEST_CHECK_LEGAL_H

#include <pthread.h>

#include "../bugs.h"

/* LEGAL(name, function[, options]) */
#define LEGAL(name_, run_, ...) \
    { \
        .name = "legal/" name_, .run = run_, .kind = "", .words = "", .function = "", \
        .options = LEGAL_OPTIONS_(__VA_ARGS__ __VA_OPT__(, ) "--check all", 0) \
    }
#define LEGAL_OPTIONS_(options_, ...) options_

/* Runs a thread to its end. */
static inline void thread_run(void *(*run)(void *), void *arg)
{
    pthread_t thread;

    if (pthread_create(&thread, NULL, run, arg) != 0)
        abort();
    pthread_join(thread, NULL);
}

static inline void *gate_let_main(void *arg)
{
    gate_let(arg);
    return NULL;
}

/* A thread opens the gate, before or after the caller's next call. */
static inline pthread_t gate_let_soon(struct gate *gate)
{
    pthread_t thread;

    if (pthread_create(&thread, NULL, gate_let_main, gate) != 0)
        abort();
    return thread;
}

#endif
