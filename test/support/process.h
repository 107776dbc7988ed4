/*
 * Things a test does to its own process: touch memory that may fault, run threads that
 * report instead of asserting (cmocka's assertions jump, and may do so in the main
 * thread only), start itself again, and read what the library logs.
 */
#ifndef TEST_SUPPORT_PROCESS_H
#define TEST_SUPPORT_PROCESS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Whether the program itself may; a write leaves the byte as it was. */
bool can_read(const void *p);
bool can_write(void *p);

/* A thread of a test.  `run` returns NULL, or what went wrong. */
struct worker {
    const char *(*run)(struct worker *self);
    unsigned index;
    void *shared; /* the test's own */
    pthread_t thread;
    const char *failure;
};
int worker_start(struct worker *w);
const char *worker_join(struct worker *w);
/* Runs all of them at once and waits; the first failure, or NULL. */
const char *run_workers(struct worker *workers, unsigned n);
/* One thread that runs `run` to its end. */
const char *run_thread(const char *(*run)(struct worker *self), void *shared);

#define TEXT_(x_) #x_
#define TEXT(x_) TEXT_(x_)
#define worker_check(cond_) \
    do { \
        if (!(cond_)) \
            return __FILE__ ":" TEXT(__LINE__) ": " #cond_; \
    } while (0)

/* Bytes of the heap in use, and of the address space. */
size_t heap_bytes(void);
size_t space_bytes(void);

/* This program again, with one argument, in the environment as it is; its exit status. */
int run_self(const char *role);
/* The same, without what it prints to stdout. */
int run_self_silently(const char *role);

/*
 * Between the two everything written to stderr is kept; the text lives until the next
 * end.
 */
void capture_stderr(void);
const char *captured_stderr(void);

#endif
