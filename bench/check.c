/* The cost of the layer check: time added to a call, with its stack, and memory of its books. */
#include <malloc.h>
#include <stdlib.h>

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

struct result {
    double block; /* ns of a call */
    double fill;
    double bytes; /* of the books for a live block */
};

static struct result calls_measure(const char *layers)
{
    enum { N_LIVE = 100000 };
    static void *live[N_LIVE];
    struct fill fill;
    struct subject s[2] = {{.run = blocks_run}, {.run = fills_run, .arg = &fill}};
    size_t before;
    struct result result;

    setenv("ACLMEM_LAYERS", layers, 1);
    library_start(true);
    MUST(aclrtCreateStream(&fill.stream));
    MUST(aclrtMalloc(&fill.block, 4096, ACL_MEM_MALLOC_HUGE_FIRST));
    measure(s, 2, 21);
    before = mallinfo2().uordblks;
    for (size_t i = 0; i < N_LIVE; i++)
        MUST(aclrtMalloc(&live[i], 4096, ACL_MEM_MALLOC_HUGE_FIRST));
    result = (struct result){
        .block = s[0].ns / 2,
        .fill = s[1].ns,
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

    report_section(
        "a call that is checked, with its stack; limit: the same call unchecked");
    report_row(
        &(struct row){"a block", "ns", checked.block, plain.block, BUDGET_MORE, 2000});
    report_row(&(struct row){"a fill on a stream", "ns", checked.fill, plain.fill,
                             BUDGET_MORE, 2000});
    report_row(&(struct row){"a block, with a million live ones", "ns", million_measure(),
                             plain.block, BUDGET_MORE, 2000});
    report_row(&(struct row){"uninit-read, of watched memory", "%", shadow_measure(), 0,
                             BUDGET_MORE, 15});
    report_row(&(struct row){"books of a live block", "bytes", checked.bytes, plain.bytes,
                             BUDGET_MORE, 200});
}
