/*
 * Allocation: aclrtMalloc + aclrtFree beside jemalloc, aclrtMallocHost + aclrtFreeHost
 * beside malloc and beside the system calls that they save.
 *
 * Two allocators cannot serve one process, so the limits are measured by this program
 * again, as a child that waits for its turn: once as it is, once with jemalloc
 * preloaded.  All take turns, round after round, so that whatever else the machine does
 * falls on all of them, and of each one's rounds the first quartile counts.
 */
#include <fcntl.h>
#include <pthread.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "acl/acl.h"

#define ROUNDS 41
#define THREADS_MAX 4

extern char **environ;

/* What is done n times: one pair, or a row of blocks that live together. */
enum what {
    PAIR,
    HOST_PAIR,
    SYSTEM_PAIR,
    ROW, /* 1,000 blocks, freed in the order they came */
};

struct job {
    enum what what;
    size_t size;
    size_t n;
    unsigned n_threads;
};

struct allocator {
    const char *name;
    int to;   /* a child's standard input; -1: this process */
    int from; /* its standard output */
    pid_t pid;
};

static void fail(const char *what)
{
    const char *why = aclGetRecentErrMsg();

    fprintf(stderr, "bench_malloc: %s: %s\n", what, why != NULL ? why : "failed");
    exit(1);
}

#define MUST(call_) \
    do { \
        if (__builtin_expect((call_) != 0, 0)) \
            fail(#call_); \
    } while (0)

static double now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* ---- what is measured ---- */

static void keep(void *p)
{
    __asm__ volatile("" : : "r"(p) : "memory");
}

static void *ours_take(size_t size)
{
    void *p = NULL;

    MUST(aclrtMalloc(&p, size, ACL_MEM_MALLOC_HUGE_FIRST));
    return p;
}

static void ours_give(void *p)
{
    MUST(aclrtFree(p));
}

static void row_run(void *(*take)(size_t), void (*give)(void *), const struct job *job)
{
    enum { LENGTH = 1000 };
    static _Thread_local void *row[LENGTH];

    for (size_t i = 0; i < job->n; i += LENGTH) {
        for (size_t k = 0; k < LENGTH; k++)
            row[k] = take(job->size);
        for (size_t k = 0; k < LENGTH; k++)
            give(row[k]);
    }
}

static void ours_run(const struct job *job)
{
    switch (job->what) {
    case PAIR:
        for (size_t i = 0; i < job->n; i++)
            ours_give(ours_take(job->size));
        break;
    case HOST_PAIR:
        for (size_t i = 0; i < job->n; i++) {
            void *p = NULL;

            MUST(aclrtMallocHost(&p, job->size));
            MUST(aclrtFreeHost(p));
        }
        break;
    default:
        row_run(ours_take, ours_give, job);
    }
}

static void limit_run(const struct job *job)
{
    switch (job->what) {
    case SYSTEM_PAIR:
        for (size_t i = 0; i < job->n; i++) {
            void *p = mmap(NULL, job->size, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

            mlock(p, job->size);
            munmap(p, job->size);
        }
        break;
    case ROW:
        row_run(malloc, free, job);
        break;
    default:
        for (size_t i = 0; i < job->n; i++) {
            void *p = malloc(job->size);

            keep(p);
            free(p);
        }
    }
}

struct thread {
    pthread_t thread;
    const struct job *job;
    bool is_ours;
};

static void *thread_main(void *arg)
{
    struct thread *t = arg;

    if (t->is_ours)
        MUST(aclrtSetDevice(0));
    (t->is_ours ? ours_run : limit_run)(t->job);
    return NULL;
}

/* Nanoseconds of one time. */
static double job_run(const struct job *job, bool is_ours)
{
    struct thread threads[THREADS_MAX];
    double start = now_ns();

    for (unsigned i = 1; i < job->n_threads; i++) {
        threads[i] = (struct thread){.job = job, .is_ours = is_ours};
        MUST(pthread_create(&threads[i].thread, NULL, thread_main, &threads[i]));
    }
    (is_ours ? ours_run : limit_run)(job);
    for (unsigned i = 1; i < job->n_threads; i++)
        pthread_join(threads[i].thread, NULL);
    return (now_ns() - start) / (double)job->n;
}

/* ---- children ---- */

static int child_main(void)
{
    struct job job;
    double ns;

    while (read(STDIN_FILENO, &job, sizeof job) == (ssize_t)sizeof job) {
        ns = job_run(&job, false);
        if (write(STDOUT_FILENO, &ns, sizeof ns) != (ssize_t)sizeof ns)
            return 1;
    }
    return 0;
}

static struct allocator child_start(const char *name, const char *preload)
{
    struct allocator a = {.name = name};
    char *argv[] = {(char *)"bench_malloc", (char *)"--child", NULL};
    posix_spawn_file_actions_t actions;
    int in[2];
    int out[2];

    if (pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0)
        fail("pipe");
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, in[0], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
    if (preload != NULL)
        setenv("LD_PRELOAD", preload, 1);
    if (posix_spawn(&a.pid, "/proc/self/exe", &actions, NULL, argv, environ) != 0)
        fail("posix_spawn");
    unsetenv("LD_PRELOAD");
    posix_spawn_file_actions_destroy(&actions);
    close(in[0]);
    close(out[1]);
    a.to = in[1];
    a.from = out[0];
    return a;
}

static double allocator_run(const struct allocator *a, const struct job *job)
{
    double ns = 0;

    if (a->to < 0)
        return job_run(job, true);
    if (write(a->to, job, sizeof *job) != (ssize_t)sizeof *job ||
        read(a->from, &ns, sizeof ns) != (ssize_t)sizeof ns)
        fail(a->name);
    return ns;
}

static void allocator_stop(struct allocator *a)
{
    close(a->to);
    close(a->from);
    waitpid(a->pid, NULL, 0);
}

/* ---- the table ---- */

static int compare(const void *a, const void *b)
{
    return (*(const double *)a > *(const double *)b) -
           (*(const double *)a < *(const double *)b);
}

static double quartile(double *values, size_t n)
{
    qsort(values, n, sizeof *values, compare);
    return values[n / 4];
}

struct row {
    const char *title;
    struct job ours;
    struct job limit;
    const struct allocator *beside;
    double budget; /* ours <= budget * limit; 0: only to be read */
};

static bool row_measure(const struct row *row)
{
    static const struct allocator here = {.name = "aclmem", .to = -1};
    double ours[ROUNDS];
    double limit[ROUNDS];
    double a;
    double b;
    bool is_met;

    for (int i = 0; i < ROUNDS; i++) {
        bool is_first = i % 2 == 0;

        if (is_first)
            ours[i] = allocator_run(&here, &row->ours);
        limit[i] = allocator_run(row->beside, &row->limit);
        if (!is_first)
            ours[i] = allocator_run(&here, &row->ours);
    }
    a = quartile(ours, ROUNDS);
    b = quartile(limit, ROUNDS);
    is_met = row->budget == 0 || a <= row->budget * b;
    printf("%-46s %9.1f ns %11.1f ns %7.2f", row->title, a, b, a / b);
    if (row->budget > 0)
        printf("  <= %-5.2f %s", row->budget, is_met ? "" : "MISSED");
    printf("\n");
    return is_met;
}

int main(int argc, char **argv)
{
    struct allocator plain;
    struct allocator je;
    unsigned missed = 0;

    if (argc > 1 && strcmp(argv[1], "--child") == 0)
        return child_main();
    plain = child_start("malloc", NULL);
    je = child_start("jemalloc", "libjemalloc.so.2");
    setenv("ACLMEM_DEVICES", "1", 0);
    MUST(aclInit(NULL));
    MUST(aclrtSetDevice(0));

    const struct row rows[] = {
        {"malloc + free, 512 B | jemalloc",
         {PAIR, 512, 20000, 1},
         {PAIR, 512, 20000, 1},
         &je,
         2},
        {"malloc + free, 64 KB | jemalloc",
         {PAIR, 65536, 5000, 1},
         {PAIR, 65536, 5000, 1},
         &je,
         2},
        {"malloc + free, 16 MB | jemalloc",
         {PAIR, 16 << 20, 1000, 1},
         {PAIR, 16 << 20, 1000, 1},
         &je,
         1},
        {"1,000 x 512 B, then all freed | jemalloc",
         {ROW, 512, 20000, 1},
         {ROW, 512, 20000, 1},
         &je,
         0},
        {"1,000 x 8 KB, then all freed | jemalloc",
         {ROW, 8192, 20000, 1},
         {ROW, 8192, 20000, 1},
         &je,
         0},
        {"1,000 x 64 KB, then all freed | jemalloc",
         {ROW, 65536, 10000, 1},
         {ROW, 65536, 10000, 1},
         &je,
         0},
        {"malloc + free, 512 B, 2 threads | jemalloc",
         {PAIR, 512, 100000, 2},
         {PAIR, 512, 100000, 2},
         &je,
         0},
        {"malloc + free, 64 KB, 2 threads | jemalloc",
         {PAIR, 65536, 20000, 2},
         {PAIR, 65536, 20000, 2},
         &je,
         0},
        {"host malloc + free, 4 KB | malloc",
         {HOST_PAIR, 4096, 10000, 1},
         {PAIR, 4096, 10000, 1},
         &plain,
         3},
        {"host malloc + free, 4 KB | mmap+mlock+munmap",
         {HOST_PAIR, 4096, 10000, 1},
         {SYSTEM_PAIR, 4096, 200, 1},
         &plain,
         1.0 / 50},
    };

    printf("%-46s %12s %14s %7s\n", "what | limit", "ours", "limit", "ratio");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        missed += !row_measure(&rows[i]);
    MUST(aclFinalize());
    allocator_stop(&plain);
    allocator_stop(&je);
    return missed > 0;
}
