/*
 * Allocation: aclrtMalloc + aclrtFree and aclrtMallocHost + aclrtFreeHost compared with
 * malloc + free, and with the system calls that they save.
 *
 * Both sides of a row run in turn, round after round, so that other load of the machine
 * affects both; the first quartile of the rounds counts.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

#include "acl/acl.h"

#define ROUNDS 41

#define MUST(call_) \
    do { \
        if (__builtin_expect((call_) != 0, 0)) { \
            fprintf(stderr, "bench_malloc: %s: %s\n", #call_, aclGetRecentErrMsg()); \
            exit(1); \
        } \
    } while (0)

static void malloc_pair(size_t size)
{
    void *p = malloc(size);

    __asm__ volatile("" : : "r"(p) : "memory");
    free(p);
}

static void system_pair(size_t size)
{
    void *p =
        mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    mlock(p, size);
    munmap(p, size);
}

static void device_pair(size_t size)
{
    void *p = NULL;

    MUST(aclrtMalloc(&p, size, ACL_MEM_MALLOC_HUGE_FIRST));
    MUST(aclrtFree(p));
}

static void host_pair(size_t size)
{
    void *p = NULL;

    MUST(aclrtMallocHost(&p, size));
    MUST(aclrtFreeHost(p));
}

static const struct row {
    const char *title;
    void (*ours)(size_t size);
    void (*limit)(size_t size);
    size_t size;
    size_t n;       /* of ours in a round */
    size_t n_limit; /* of the limit */
    double budget;  /* ours <= budget * limit; 0: for information */
} rows[] = {
    {"malloc + free, 512 B | malloc", device_pair, malloc_pair, 512, 20000, 20000, 0},
    {"malloc + free, 64 KB | malloc", device_pair, malloc_pair, 64 << 10, 5000, 5000, 0},
    {"malloc + free, 16 MB | mmap+mlock+munmap", device_pair, system_pair, 16 << 20, 1000,
     2, 0.3},
    {"host malloc + free, 4 KB | malloc", host_pair, malloc_pair, 4096, 10000, 10000, 3},
    {"host malloc + free, 4 KB | mmap+mlock+munmap", host_pair, system_pair, 4096, 10000,
     200, 1.0 / 50},
};

static double now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* Nanoseconds of one pair. */
static double pairs_run(void (*pair)(size_t size), size_t size, size_t n)
{
    double start = now_ns();

    for (size_t i = 0; i < n; i++)
        pair(size);
    return (now_ns() - start) / (double)n;
}

static int compare(const void *a, const void *b)
{
    return (*(const double *)a > *(const double *)b) -
           (*(const double *)a < *(const double *)b);
}

static double quartile(double *values)
{
    qsort(values, ROUNDS, sizeof *values, compare);
    return values[ROUNDS / 4];
}

static bool row_measure(const struct row *row)
{
    double ours[ROUNDS], limit[ROUNDS], a, b;
    bool is_met;

    for (int i = 0; i < ROUNDS; i++) {
        ours[i] = pairs_run(row->ours, row->size, row->n);
        limit[i] = pairs_run(row->limit, row->size, row->n_limit);
    }
    a = quartile(ours);
    b = quartile(limit);
    is_met = row->budget == 0 || a <= row->budget * b;
    printf("%-46s %9.1f ns %11.1f ns %7.2f", row->title, a, b, a / b);
    if (row->budget > 0)
        printf("  <= %-5.2f %s", row->budget, is_met ? "" : "MISSED");
    printf("\n");
    return is_met;
}

int main(void)
{
    unsigned n_missed = 0;

    setenv("ACLMEM_DEVICES", "1", 0);
    MUST(aclInit(NULL));
    MUST(aclrtSetDevice(0));
    printf("%-46s %12s %14s %7s\n", "pair | limit", "ours", "limit", "ratio");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        n_missed += !row_measure(&rows[i]);
    MUST(aclFinalize());
    return n_missed > 0;
}
