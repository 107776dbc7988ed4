/*
 * Measuring things beside each other.
 *
 * A subject is something done many times in a row.  measure() runs all its subjects in
 * turn, round after round, so that whatever else the machine does falls on all of them;
 * every other round goes backwards, so that what one leaves in the caches helps all of
 * them.  Time in which others had the processor does not count, unless those others may
 * be threads of the subject's own.  Of each one's rounds it takes the first quartile:
 * others only ever add, and on a busy machine the median is theirs.
 */
#ifndef BENCH_MEASURE_H
#define BENCH_MEASURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MB ((size_t)1 << 20)
#define CHUNK (2 * MB)

#define ROUNDS_MAX 64

struct subject {
    void (*run)(void *arg, size_t n);     /* does it n times; this is timed */
    void (*prepare)(void *arg, size_t n); /* NULL, or what comes before each timed run */
    void *arg;
    size_t n;         /* times a run; 0: as many as take about a millisecond */
    bool has_threads; /* that work for it: all time counts */
    double ns;        /* out: of one time */
};

/* rounds <= ROUNDS_MAX */
void measure(struct subject *subjects, size_t n_subjects, size_t rounds);

/* The value that a quarter of them are below; sorts them. */
double quartile(double *values, size_t n);
uint64_t now_ns(void);

/* Stop the program when something that must work does not. */
#define MUST(call_) \
    do { \
        int rc_ = (call_); \
        if (__builtin_expect(rc_ != 0, 0)) \
            must_fail(rc_, #call_, __FILE__, __LINE__); \
    } while (0)
#define MUST_HOLD(condition_) \
    do { \
        if (__builtin_expect(!(condition_), 0)) \
            must_fail(0, #condition_, __FILE__, __LINE__); \
    } while (0)

/* rc: of a call of the library; 0: errno says why. */
void must_fail(int rc, const char *what, const char *file, int line)
    __attribute__((noreturn, cold));

#endif
