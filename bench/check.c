/* The cost of the layer check: time added to a call, with its stack, and memory of its metadata. */
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "live.h"
#include "report.h"
#include "sections.h"

static void blocks_run(void *arg, size_t n)
{
    for (; n > 0; n--) {
        void *block;

        MUST(aclrtMalloc(&block, 4096, ACL_MEM_MALLOC_HUGE_FIRST));
        MUST(aclrtFree(block));
    }
}

struct fill {
    aclrtStream stream;
    void *block;
};

static void fills_run(void *arg, size_t n)
{
    struct fill *fill = arg;

    for (; n > 0; n--)
        MUST(aclrtMemsetAsync(fill->block, 4096, 0, 4096, fill->stream));
}

/* A fill, and a wait for the stream: two calls. */
static void waits_run(void *arg, size_t n)
{
    struct fill *fill = arg;

    for (; n > 0; n--) {
        MUST(aclrtMemsetAsync(fill->block, 4096, 0, 4096, fill->stream));
        MUST(aclrtSynchronizeStream(fill->stream));
    }
}

/* ---- several threads: each makes n calls, with a stream and blocks that no other uses ---- */

#define THREADS_MAX 16

struct crowd {
    unsigned n; /* threads */
    size_t each;
    void (*run)(void *arg, size_t n);
};

static unsigned crowd_size(void)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);

    return cores < THREADS_MAX ? (unsigned)cores : THREADS_MAX;
}

static void *member_main(void *arg)
{
    struct crowd *crowd = arg;
    struct fill fill = {NULL, NULL};

    MUST(aclrtSetDevice(0));
    if (crowd->run != blocks_run) {
        MUST(aclrtCreateStream(&fill.stream));
        MUST(aclrtMalloc(&fill.block, 4096, ACL_MEM_MALLOC_HUGE_FIRST));
    }
    crowd->run(&fill, crowd->each);
    if (crowd->run != blocks_run) {
        MUST(aclrtDestroyStream(fill.stream));
        MUST(aclrtFree(fill.block));
    }
    return NULL;
}

static void crowd_run(void *arg, size_t n)
{
    struct crowd *crowd = arg;
    pthread_t thread[THREADS_MAX];

    crowd->each = n;
    for (unsigned i = 0; i < crowd->n; i++)
        MUST_HOLD(pthread_create(&thread[i], NULL, member_main, crowd) == 0);
    for (unsigned i = 0; i < crowd->n; i++)
        pthread_join(thread[i], NULL);
}

struct result {
    double block; /* ns of a call */
    double fill;
    double wait;
    double crowd_block; /* the same with crowd_size() threads */
    double crowd_fill;
    double crowd_wait;
    double bytes; /* of the metadata of a live block */
};

static struct result calls_measure(const char *layers)
{
    enum { N_LIVE = 100000 };
    static void *live[N_LIVE];
    struct fill fill;
    struct crowd crowd[3] = {{crowd_size(), 0, blocks_run},
                             {crowd_size(), 0, fills_run},
                             {crowd_size(), 0, waits_run}};
    struct subject s[6] = {
        {.run = blocks_run},
        {.run = fills_run, .arg = &fill},
        {.run = waits_run, .arg = &fill},
        {.run = crowd_run, .arg = &crowd[0], .n = 5000, .has_threads = true},
        {.run = crowd_run, .arg = &crowd[1], .n = 5000, .has_threads = true},
        {.run = crowd_run, .arg = &crowd[2], .n = 5000, .has_threads = true}};
    size_t before;
    struct result result;

    setenv("ACLMEM_LAYERS", layers, 1);
    library_start(true);
    MUST(aclrtCreateStream(&fill.stream));
    MUST(aclrtMalloc(&fill.block, 4096, ACL_MEM_MALLOC_HUGE_FIRST));
    measure(s, 3, 21);
    measure(s + 3, 3, 9);
    before = mallinfo2().uordblks;
    for (size_t i = 0; i < N_LIVE; i++)
        MUST(aclrtMalloc(&live[i], 4096, ACL_MEM_MALLOC_HUGE_FIRST));
    result = (struct result){
        .block = s[0].ns / 2,
        .fill = s[1].ns,
        .wait = s[2].ns / 2,
        .crowd_block = s[3].ns / 2,
        .crowd_fill = s[4].ns,
        .crowd_wait = s[5].ns / 2,
        .bytes = (double)(mallinfo2().uordblks - before) / (double)N_LIVE,
    };
    for (size_t i = 0; i < N_LIVE; i++)
        MUST(aclrtFree(live[i]));
    MUST(aclrtDestroyStream(fill.stream));
    MUST(aclrtFree(fill.block));
    library_stop();
    setenv("ACLMEM_LAYERS", "", 1);
    return result;
}

/*
 * The part of watched memory that uninit-read takes where it is worst: every page has bytes
 * that were not written.
 */
static double shadow_measure(void)
{
    enum { SIZE = 64 << 20, PAGE = 4096 };
    size_t before;
    double percent;
    void *block;

    setenv("ACLMEM_LAYERS", "check", 1);
    setenv("ACLMEM_CHECK", "all", 1);
    library_start(true);
    MUST(aclrtMalloc(&block, SIZE, ACL_MEM_MALLOC_HUGE_FIRST));
    before = mallinfo2().uordblks + mallinfo2().hblkhd;
    for (size_t at = 0; at < SIZE; at += PAGE)
        MUST(aclrtMemset((char *)block + at, PAGE - 1, 0, PAGE - 1));
    percent = 100 * (double)(mallinfo2().uordblks + mallinfo2().hblkhd - before) / SIZE;
    MUST(aclrtFree(block));
    library_stop();
    setenv("ACLMEM_LAYERS", "", 1);
    setenv("ACLMEM_CHECK", "default", 1);
    return percent;
}

/* A block with a million live ones beside it: ns of a call. */
static double million_measure(void)
{
    enum { N_LIVE = 1000000 };
    struct subject s = {.run = blocks_run};
    void **live = calloc(N_LIVE, sizeof *live);

    if (live == NULL)
        return 0;
    setenv("ACLMEM_LAYERS", "check", 1);
    library_start(true);
    for (size_t i = 0; i < N_LIVE; i++)
        MUST(aclrtMalloc(&live[i], 64, ACL_MEM_MALLOC_HUGE_FIRST));
    measure(&s, 1, 21);
    for (size_t i = 0; i < N_LIVE; i++)
        MUST(aclrtFree(live[i]));
    library_stop();
    setenv("ACLMEM_LAYERS", "", 1);
    free(live);
    return s.ns / 2;
}

void bench_check(void *unused)
{
    struct result plain = calls_measure("");
    struct result checked = calls_measure("check");
    char block_name[48];
    char fill_name[48];
    char wait_name[64];

    snprintf(block_name, sizeof block_name, "a block, in %u threads at once",
             crowd_size());
    snprintf(fill_name, sizeof fill_name, "a fill, in %u threads at once", crowd_size());
    snprintf(wait_name, sizeof wait_name, "a fill that is waited for, in %u threads",
             crowd_size());
    report_section(
        "a call that is checked, with its stack; limit: the same call unchecked");
    report_row(
        &(struct row){"a block", "ns", checked.block, plain.block, BUDGET_MORE, 2000});
    report_row(&(struct row){"a fill on a stream", "ns", checked.fill, plain.fill,
                             BUDGET_MORE, 2000});
    report_row(&(struct row){"a fill that is waited for", "ns", checked.wait, plain.wait,
                             BUDGET_MORE, 2000});
    report_row(&(struct row){block_name, "ns", checked.crowd_block, plain.crowd_block,
                             BUDGET_MORE, 2000});
    report_row(&(struct row){fill_name, "ns", checked.crowd_fill, plain.crowd_fill,
                             BUDGET_MORE, 2000});
    report_row(&(struct row){wait_name, "ns", checked.crowd_wait, plain.crowd_wait,
                             BUDGET_MORE, 2000});
    report_row(&(struct row){"a block, with a million live ones", "ns", million_measure(),
                             plain.block, BUDGET_MORE, 2000});
    report_row(&(struct row){"uninit-read, of watched memory", "%", shadow_measure(), 0,
                             BUDGET_MORE, 15});
    report_row(&(struct row){"metadata of a live block", "bytes", checked.bytes,
                             plain.bytes, BUDGET_MORE, 200});
}
