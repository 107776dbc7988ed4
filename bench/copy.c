/* Copies: held against memcpy between memory of the same kinds. */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "aclmem/aclmem.h"
#include "live.h"
#include "raw.h"
#include "report.h"
#include "sections.h"

#define SIZE (64 * MB)
#define ROUNDS 31

struct copy {
    void *dst;
    void *src;
    aclrtMemcpyKind kind;
};

/* The program's own memory, with its pages there. */
static void *host_memory(void)
{
    void *p = mmap(NULL, SIZE, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

    MUST_HOLD(p != MAP_FAILED);
    memset(p, 0x5a, SIZE);
    return p;
}

/* 64 MB of device memory in pieces. */
static void *device_memory(size_t piece)
{
    aclrtPhysicalMemProp prop = {.memAttr = ACL_HBM_MEM_HUGE,
                                 .location.type = ACL_MEM_LOCATION_TYPE_DEVICE};
    aclrtDrvMemHandle handle;
    void *addr;

    MUST(aclrtReserveMemAddress(&addr, SIZE, 0, NULL, 1));
    for (size_t at = 0; at < SIZE; at += piece) {
        MUST(aclrtMallocPhysical(&handle, piece, &prop, 0));
        MUST(aclrtMapMem((char *)addr + at, piece, 0, handle, 0));
        MUST(aclrtFreePhysical(handle)); /* the mapping keeps it */
    }
    return addr;
}

static void copy_run(void *arg, size_t n)
{
    struct copy *copy = arg;

    while (n-- > 0)
        MUST(aclrtMemcpy(copy->dst, SIZE, copy->src, SIZE, copy->kind));
}

static void memcpy_run(void *arg, size_t n)
{
    struct copy *copy = arg;

    while (n-- > 0)
        memcpy(copy->dst, copy->src, SIZE);
}

static double gb_per_s(double ns)
{
    return (double)SIZE / ns;
}

/*
 * For memcpy to have the very same pages as the copy: which ones memory happens to get
 * makes a difference of a tenth.
 */
static void *view_of(const void *device)
{
    void *view;

    MUST(aclmem_host_view(device, SIZE, &view));
    return view;
}

static void copy_row(const char *what, struct copy ours, struct copy limit)
{
    struct subject s[2] = {
        {.run = copy_run, .arg = &ours, .n = 1, .has_threads = true},
        {.run = memcpy_run, .arg = &limit, .n = 1, .has_threads = true},
    };

    measure(s, 2, ROUNDS);
    report_row(&(struct row){what, "GB/s", gb_per_s(s[0].ns), gb_per_s(s[1].ns),
                             BUDGET_AT_LEAST, 0.95});
}

static void stream_run(void *arg, size_t n)
{
    struct copy *copy = arg;

    while (n-- > 0)
        raw_stream(copy->dst, copy->src, SIZE);
}

/* What else the first row could be held against; to be read, not a budget. */
static void other_limits(struct copy ours, void *view)
{
    void *raw = raw_memory(SIZE);
    struct copy to_view = {view, ours.src, 0};
    struct copy to_raw = {raw, ours.src, 0};
    struct subject s[3] = {
        {.run = copy_run, .arg = &ours, .n = 1, .has_threads = true},
        {.run = stream_run, .arg = &to_view, .n = 1, .has_threads = true},
        {.run = memcpy_run, .arg = &to_raw, .n = 1, .has_threads = true},
    };

    raw_populate(raw, SIZE);
    measure(s, 3, ROUNDS);
    report_row(&(struct row){"  limit: the same memory, with streaming stores", "GB/s",
                             gb_per_s(s[0].ns), gb_per_s(s[1].ns), BUDGET_NONE, 0});
    report_row(&(struct row){"  limit: memcpy to a memfd of its own", "GB/s",
                             gb_per_s(s[0].ns), gb_per_s(s[2].ns), BUDGET_NONE, 0});
    munmap(raw, SIZE);
}

static void copies_warm(void)
{
    void *host = host_memory();
    void *dev[2];
    void *pieces;
    void *view[2];

    library_start(true);
    dev[0] = device_memory(SIZE);
    dev[1] = device_memory(SIZE);
    pieces = device_memory(CHUNK);
    for (size_t i = 0; i < 2; i++) {
        MUST(aclrtMemset(dev[i], SIZE, 1, SIZE));
        view[i] = view_of(dev[i]);
    }
    MUST(aclrtMemset(pieces, SIZE, 1, SIZE));

    copy_row("host to device", (struct copy){dev[0], host, ACL_MEMCPY_HOST_TO_DEVICE},
             (struct copy){view[0], host, 0});
    other_limits((struct copy){dev[0], host, ACL_MEMCPY_HOST_TO_DEVICE}, view[0]);
    copy_row("host to device, in 32 handles",
             (struct copy){pieces, host, ACL_MEMCPY_HOST_TO_DEVICE},
             (struct copy){view_of(pieces), host, 0});
    copy_row("device to host", (struct copy){host, dev[0], ACL_MEMCPY_DEVICE_TO_HOST},
             (struct copy){host, view[0], 0});
    copy_row("device to device",
             (struct copy){dev[1], dev[0], ACL_MEMCPY_DEVICE_TO_DEVICE},
             (struct copy){view[1], view[0], 0});
    library_stop();
    munmap(host, SIZE);
}

void bench_copy(void *unused)
{
    report_section("copy 64 MB; limit: memcpy of the same memory");
    copies_warm();
}
