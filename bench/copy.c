/* Copies: held against memcpy between memory of the same kinds. */
#include <pthread.h>
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

/* ---- long copies ---- */

#define LONG_MAX (1024 * MB)
#define LONG_ROUNDS 7
#define CREW_MAX 16

/* A copy by plain threads, each a part of it. */
struct crew {
    char *dst;
    const char *src;
    size_t size;
    size_t n;
};

struct member {
    const struct crew *crew;
    size_t number;
    pthread_t thread;
};

static void *member_main(void *arg)
{
    const struct member *member = arg;
    const struct crew *crew = member->crew;
    size_t part = crew->size / crew->n;

    memcpy(crew->dst + member->number * part, crew->src + member->number * part, part);
    return NULL;
}

static void crew_run(void *arg, size_t n)
{
    struct member member[CREW_MAX];
    const struct crew *crew = arg;

    while (n-- > 0) {
        for (size_t i = 0; i < crew->n; i++) {
            member[i] = (struct member){.crew = crew, .number = i};
            MUST_HOLD(pthread_create(&member[i].thread, NULL, member_main, &member[i]) ==
                      0);
        }
        for (size_t i = 0; i < crew->n; i++)
            MUST_HOLD(pthread_join(member[i].thread, NULL) == 0);
    }
}

static void long_run(void *arg, size_t n)
{
    const struct crew *crew = arg;

    while (n-- > 0)
        MUST(aclrtMemcpy(crew->dst, crew->size, crew->src, crew->size,
                         ACL_MEMCPY_HOST_TO_DEVICE));
}

/* Beside the number of threads that is the fastest: 1, 2, 4, ... as many as cores. */
static void copy_long(void)
{
    size_t n_cores = (size_t)sysconf(_SC_NPROCESSORS_ONLN);
    size_t memory = (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE);
    size_t size = memory / 16 < LONG_MAX ? 256 * MB : LONG_MAX;
    struct crew ours = {.size = size};
    struct crew plain[6];
    struct subject s[6] = {{.run = long_run, .arg = &ours, .n = 1, .has_threads = true}};
    char what[80];
    double best = 0;
    void *view;
    void *dst;
    size_t n = 1;

    library_start(true);
    MUST(aclrtMalloc(&dst, size, ACL_MEM_MALLOC_HUGE_FIRST));
    MUST(aclrtMemset(dst, size, 1, size));
    MUST(aclmem_host_view(dst, size, &view));
    ours.dst = dst;
    ours.src = mmap(NULL, size, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    MUST_HOLD(ours.src != MAP_FAILED);
    for (size_t k = 1; k <= n_cores && k <= CREW_MAX; k *= 2) {
        plain[n] = (struct crew){view, ours.src, size, k};
        s[n] = (struct subject){
            .run = crew_run, .arg = &plain[n], .n = 1, .has_threads = true};
        n++;
    }
    measure(s, n, LONG_ROUNDS);
    for (size_t i = 1; i < n; i++)
        best = (double)size / s[i].ns > best ? (double)size / s[i].ns : best;
    snprintf(what, sizeof what, "host to device, %zu MB", size / MB);
    report_row(
        &(struct row){what, "GB/s", (double)size / s[0].ns, best, BUDGET_AT_LEAST, 0.9});
    MUST(aclmem_host_view_end(view));
    munmap((void *)ours.src, size);
    library_stop();
}

void bench_copy(void *unused)
{
    report_section("copy 64 MB; limit: memcpy of the same memory");
    copies_warm();
    report_section("long copies; limit: the fastest of 1, 2, 4, ... threads with memcpy");
    copy_long();
}
