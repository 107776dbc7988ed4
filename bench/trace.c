/* What the layer trace adds to a call, and what it writes. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "live.h"
#include "report.h"
#include "sections.h"

/* A block is allocated and freed: two calls, of which one has a result. */
static void blocks_run(void *arg, size_t n)
{
    for (; n > 0; n--) {
        void *block;

        MUST(aclrtMalloc(&block, 4096, ACL_MEM_MALLOC_HUGE_FIRST));
        MUST(aclrtFree(block));
    }
}

/* Nanoseconds of one call, with the layer or without it. */
static double call_ns(const char *layers, const char *stacks)
{
    struct subject s = {.run = blocks_run};

    setenv("ACLMEM_LAYERS", layers, 1);
    setenv("ACLMEM_STACKS", stacks, 1);
    library_start(true);
    blocks_run(NULL, 100000); /* the slots of the file are there then */
    measure(&s, 1, 21);
    library_stop();
    return s.ns / 2;
}

void bench_trace(void *unused)
{
    char path[] = "/tmp/aclmem-bench-XXXXXX";
    int fd = mkstemp(path);
    double plain;

    MUST_HOLD(fd >= 0);
    setenv("ACLMEM_TRACE", path, 1);
    report_section("a call that is traced; limit: the same call untraced");
    plain = call_ns("", "none");
    report_row(&(struct row){"a block, no stacks", "ns", call_ns("trace", "none"), plain,
                             BUDGET_MORE, 150});
    report_row(&(struct row){"a block, with stacks", "ns", call_ns("trace", "fast"),
                             plain, BUDGET_MORE, 1000});
    unlink(path);
    close(fd);
}
