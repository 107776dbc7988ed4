/*
 * First touch and giving back: held against private memory with huge pages, which is the
 * fastest that the system has.  Views and exports, which private memory cannot have, are held
 * against the same with ordinary pages.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "aclmem/aclmem.h"
#include "live.h"
#include "machine.h"
#include "raw.h"
#include "report.h"
#include "sections.h"

#define SIZE (64 * MB)
#define ROUNDS 11

static const aclrtPhysicalMemProp prop = {.memAttr = ACL_HBM_MEM_HUGE,
                                          .location.type = ACL_MEM_LOCATION_TYPE_DEVICE};

/* Mapped device memory, which the mapping alone keeps, of one handle. */
static void *device_memory(size_t size, aclrtDrvMemHandle *ret_handle)
{
    void *addr;

    MUST(aclrtReserveMemAddress(&addr, size, 0, NULL, 1));
    MUST(aclrtMallocPhysical(ret_handle, size, &prop, 0));
    MUST(aclrtMapMem(addr, size, 0, *ret_handle, 0));
    return addr;
}

/* ---- the first touch ---- */

struct copy {
    void *dst;
    void *src;
};

/* Each round with a new library and new memory: both take pages that were just given back. */
static void fresh_prepare_ours(void *arg, size_t n)
{
    struct copy *copy = arg;
    aclrtDrvMemHandle handle;

    (void)n;
    if (copy->dst != NULL)
        library_stop();
    library_start(true);
    copy->dst = device_memory(SIZE, &handle);
}

static void fresh_run_ours(void *arg, size_t n)
{
    struct copy *copy = arg;

    (void)n;
    MUST(aclrtMemcpy(copy->dst, SIZE, copy->src, SIZE, ACL_MEMCPY_HOST_TO_DEVICE));
}

static void fresh_prepare_limit(void *arg, size_t n)
{
    struct copy *copy = arg;

    (void)n;
    if (copy->dst != NULL)
        munmap(copy->dst, SIZE);
    copy->dst = machine_has_huge_pages() ? raw_private_memory(SIZE) : raw_memory(SIZE);
}

static void fresh_run_limit(void *arg, size_t n)
{
    struct copy *copy = arg;

    (void)n;
    raw_populate(copy->dst, SIZE);
    memcpy(copy->dst, copy->src, SIZE);
}

static void first_touch(void)
{
    void *host = raw_private_memory(SIZE);
    struct copy ours = {NULL, host};
    struct copy limit = {NULL, host};
    struct subject s[2] = {
        {.run = fresh_run_ours, .prepare = fresh_prepare_ours, .arg = &ours, .n = 1},
        {.run = fresh_run_limit, .prepare = fresh_prepare_limit, .arg = &limit, .n = 1},
    };

    memset(host, 0x5a, SIZE);
    s[0].has_threads = s[1].has_threads = true; /* those that help with a long copy */
    measure(s, 2, ROUNDS);
    report_row(&(struct row){"first copy of 64 MB into fresh device memory", "GB/s",
                             (double)SIZE / s[0].ns, (double)SIZE / s[1].ns,
                             BUDGET_AT_LEAST, 0.9});
    library_stop();
    munmap(limit.dst, SIZE);
    munmap(host, SIZE);
}

/* ---- giving back ---- */

#define GONE_MAX (1024 * MB)

struct gone {
    size_t size;
    void *addr;
    bool is_ours;
};

static void gone_prepare(void *arg, size_t n)
{
    struct gone *gone = arg;
    aclrtDrvMemHandle handle;

    (void)n;
    if (gone->is_ours) {
        gone->addr = device_memory(gone->size, &handle);
        MUST(aclrtFreePhysical(handle)); /* the mapping keeps it */
        MUST(aclrtMemset(gone->addr, gone->size, 1, gone->size));
    } else {
        raw_populate(gone->addr, gone->size);
        memset(gone->addr, 1, gone->size);
    }
}

static void gone_run_ours(void *arg, size_t n)
{
    struct gone *gone = arg;

    (void)n;
    MUST(aclrtUnmapMem(gone->addr));
    MUST(aclrtReleaseMemAddress(gone->addr));
}

static void gone_run_limit(void *arg, size_t n)
{
    struct gone *gone = arg;

    (void)n;
    MUST_HOLD(madvise(gone->addr, gone->size, MADV_DONTNEED) == 0);
}

/* The device has 2 GB, of which the library keeps 128 MB for the next allocation. */
static void giving_back(void)
{
    size_t memory = (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE);
    size_t size = memory / 8 < GONE_MAX ? 256 * MB : GONE_MAX;
    struct gone ours = {.size = size, .is_ours = true};
    struct gone limit = {.size = size, .addr = raw_private_memory(size)};
    struct subject s[2] = {
        {.run = gone_run_ours, .prepare = gone_prepare, .arg = &ours, .n = 1},
        {.run = gone_run_limit, .prepare = gone_prepare, .arg = &limit, .n = 1},
    };

    library_start_with("2G", true);
    measure(s, 2, ROUNDS);
    report_row(&(struct row){size == GONE_MAX ? "freeing 1 GB that was written"
                                              : "freeing 256 MB that were written",
                             "ns", s[0].ns, s[1].ns,
                             machine_has_huge_pages() ? BUDGET_AT_MOST : BUDGET_NONE,
                             1.5});
    library_stop();
    munmap(limit.addr, size);
}

/* ---- views and exports ---- */

struct use {
    const char *huge_pages; /* ACLMEM_HUGE_PAGES */
    void *addr;
    void *view; /* NULL: none yet */
    aclrtDrvMemHandle handle;
    bool is_scattered; /* the view is made of pieces */
};

static struct use *in_use; /* the one that the library was started for, or NULL */

static void use_end(void)
{
    if (in_use == NULL)
        return;
    if (in_use->view != NULL)
        MUST(aclmem_host_view_end(in_use->view));
    in_use->view = NULL;
    in_use = NULL;
    library_stop();
}

/* A new library with 64 MB that were written. */
static void use_prepare(void *arg, size_t n)
{
    struct use *use = arg;
    aclrtDrvMemHandle handle[2];

    (void)n;
    use_end();
    in_use = use;
    setenv("ACLMEM_HUGE_PAGES", use->huge_pages, 1);
    library_start(true);
    if (use->is_scattered) { /* the halves the other way round */
        MUST(aclrtReserveMemAddress(&use->addr, SIZE, 0, NULL, 1));
        for (size_t i = 0; i < 2; i++) {
            MUST(aclrtMallocPhysical(&handle[i], SIZE / 2, &prop, 0));
            MUST(aclrtMapMem((char *)use->addr + (1 - i) * SIZE / 2, SIZE / 2, 0,
                             handle[i], 0));
        }
    } else {
        use->addr = device_memory(SIZE, &use->handle);
    }
    MUST(aclrtMemset(use->addr, SIZE, 1, SIZE));
}

/* Opens it and touches each page of it. */
static void view_run(void *arg, size_t n)
{
    struct use *use = arg;

    (void)n;
    MUST(aclmem_host_view(use->addr, SIZE, &use->view));
    for (size_t at = 0; at < SIZE; at += 4096)
        ((volatile char *)use->view)[at] = 2;
}

static void export_run(void *arg, size_t n)
{
    struct use *use = arg;
    uint64_t number;

    (void)n;
    MUST(aclrtMemExportToShareableHandle(use->handle, ACL_MEM_HANDLE_TYPE_NONE, 1,
                                         &number));
}

static void use_row(const char *what, void (*run)(void *, size_t), bool is_scattered)
{
    struct use ours = {.huge_pages = "auto", .is_scattered = is_scattered};
    struct use limit = {.huge_pages = "never", .is_scattered = is_scattered};
    struct subject s[2] = {
        {.run = run, .prepare = use_prepare, .arg = &ours, .n = 1},
        {.run = run, .prepare = use_prepare, .arg = &limit, .n = 1},
    };

    measure(s, 2, ROUNDS);
    use_end();
    report_row(&(struct row){what, "ns", s[0].ns, s[1].ns, BUDGET_AT_MOST, 1.2});
    unsetenv("ACLMEM_HUGE_PAGES");
}

void bench_pages(void *unused)
{
    (void)unused;
    report_section(
        "pages; limit: private memory with huge pages, populated and copied to, "
        "or given back by MADV_DONTNEED");
    first_touch();
    giving_back();
    report_section("pages, 64 MB that were written; limit: the same with "
                   "ACLMEM_HUGE_PAGES=never");
    use_row("host view of neighbours, all pages touched", view_run, false);
    use_row("host view of pieces, all pages touched", view_run, true);
    use_row("export", export_run, false);
}
