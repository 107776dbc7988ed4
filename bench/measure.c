/* See measure.h. */
#include "measure.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "acl/acl.h"

#define RUN_NS 1000000 /* long against the clock, short against a scheduler's slice */

uint64_t now_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

static int double_compare(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;

    return (x > y) - (x < y);
}

double quartile(double *values, size_t n)
{
    qsort(values, n, sizeof *values, double_compare);
    return values[n / 4];
}

/*
 * Nanoseconds in which this thread could have run and others did; 0 where nobody counts.
 */
static uint64_t waited_ns(void)
{
    static int fd = -1;
    static pid_t owner;
    char text[96] = "";
    unsigned long long waited = 0;

    if (owner != getpid()) { /* a child's is another file */
        owner = getpid();
        fd = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
    }
    if (fd >= 0 && pread(fd, text, sizeof text - 1, 0) > 0)
        sscanf(text, "%*u %llu", &waited);
    return waited;
}

static double run_once(struct subject *s, size_t n)
{
    uint64_t waited;
    uint64_t start;
    uint64_t ns;

    if (s->prepare != NULL)
        s->prepare(s->arg, n);
    waited = waited_ns();
    start = now_ns();
    s->run(s->arg, n);
    ns = now_ns() - start;
    waited = waited_ns() - waited;
    return (double)(ns > waited && !s->has_threads ? ns - waited : ns);
}

/* How often, so that a run takes about RUN_NS; warms things up on the way. */
static size_t calibrate(struct subject *s)
{
    size_t n = 1;

    while (run_once(s, n) < RUN_NS && n < (size_t)1 << 30)
        n *= 2;
    return n;
}

void measure(struct subject *subjects, size_t n_subjects, size_t rounds)
{
    static double ns[8][ROUNDS_MAX];
    size_t times[8];

    MUST_HOLD(n_subjects <= 8 && rounds <= ROUNDS_MAX);
    for (size_t i = 0; i < n_subjects; i++)
        times[i] = subjects[i].n != 0 ? subjects[i].n : calibrate(&subjects[i]);
    for (size_t round = 0; round < rounds; round++) {
        for (size_t turn = 0; turn < n_subjects; turn++) {
            size_t i = round % 2 == 0 ? turn : n_subjects - 1 - turn;

            ns[i][round] = run_once(&subjects[i], times[i]) / (double)times[i];
        }
    }
    for (size_t i = 0; i < n_subjects; i++)
        subjects[i].ns = quartile(ns[i], rounds);
}

void must_fail(int rc, const char *what, const char *file, int line)
{
    const char *why = rc != 0 ? aclGetRecentErrMsg() : strerror(errno);

    fprintf(stderr, "%s:%d: %s failed (%d): %s\n", file, line, what, rc, why ? why : "");
    exit(1);
}
