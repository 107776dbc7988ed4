/* Mapping and allocating: held against the system calls that would do the same. */
#include <dirent.h>
#include <stdio.h>
#include <sys/resource.h>

#include "live.h"
#include "raw.h"
#include "report.h"
#include "sections.h"

#define MANY 50000
#define MANY_REAL 256 /* addressable memory is real mappings and descriptors */
#define ROUNDS 41

/* ours beside the raw pair, with n live. */
static void map_isolated(const char *what, size_t n)
{
    static struct live live;
    struct subject s[2];

    library_start(true);
    live_open(&live, n, ACL_MEM_LOCATION_TYPE_DEVICE);
    live_map(&live);
    s[0] = live_map_pair(&live);
    s[1] = raw_map();
    measure(s, 2, ROUNDS);
    report_row(&(struct row){what, "ns", s[0].ns, s[1].ns, BUDGET_AT_MOST, 0.3});
    live_close(&live);
    library_stop();
}

/*
 * The limit is the pair that keeps the addresses reserved: memory mapped over them, then
 * nothing mapped back.  munmap would be cheaper, but would hand the addresses to whoever
 * maps next; that pair is shown too.
 */
static void map_real(const char *what, size_t n, aclrtMemLocationType where)
{
    static struct live live;
    struct subject s[3];

    library_start(false);
    live_open(&live, n, where);
    live_map(&live);
    s[0] = live_map_pair(&live);
    s[0].n = 256; /* system calls: about a millisecond */
    s[1] = raw_map();
    s[2] = raw_map_fixed();
    measure(s, 3, ROUNDS);
    report_row(&(struct row){what, "ns", s[0].ns, s[2].ns, BUDGET_AT_MOST, 1.1});
    report_row(&(struct row){"  limit: mmap + munmap, which gives the addresses away",
                             "ns", s[0].ns, s[1].ns, BUDGET_NONE, 0});
    live_close(&live);
    library_stop();
}

void bench_map(void *unused)
{
    report_section("map + unmap 2 MB; limit: mmap + munmap of a memfd");
    map_isolated("device memory, 1 live", 1);
    map_isolated("device memory, 50,000 live", MANY);
    report_section(
        "the same, addressable; limit: mmap over a reservation, and that mapped back");
    map_real("device memory, ACLMEM_ISOLATE=0, 1 live", 1, ACL_MEM_LOCATION_TYPE_DEVICE);
    map_real("device memory, ACLMEM_ISOLATE=0, 256 live", MANY_REAL,
             ACL_MEM_LOCATION_TYPE_DEVICE);
    map_real("host memory, 1 live", 1, ACL_MEM_LOCATION_TYPE_HOST);
    map_real("host memory, 256 live", MANY_REAL, ACL_MEM_LOCATION_TYPE_HOST);
}

static void phys_at(const char *what, size_t n)
{
    static struct live live;
    struct subject s[2];

    library_start(true);
    live_open(&live, n, ACL_MEM_LOCATION_TYPE_DEVICE);
    s[0] = live_phys_pair(&live);
    s[1] = raw_memfd();
    measure(s, 2, ROUNDS);
    report_row(&(struct row){what, "ns", s[0].ns, s[1].ns, BUDGET_AT_MOST, 0.3});
    live_close(&live);
    library_stop();
}

void bench_phys(void *unused)
{
    report_section(
        "allocate + free 2 MB, untouched; limit: memfd_create + ftruncate + close");
    phys_at("device memory, 1 live", 1);
    phys_at("device memory, 50,000 live", MANY);
}

static size_t descriptors_open(void)
{
    DIR *dir = opendir("/proc/self/fd");
    size_t n = 0;

    MUST_HOLD(dir != NULL);
    while (readdir(dir) != NULL)
        n++;
    closedir(dir);
    return n - 3; /* ., .. and the directory itself */
}

void bench_many(void *unused)
{
    static struct live live;
    struct rlimit before;
    struct rlimit usual;
    char what[80];
    uint64_t start;
    double ns;

    report_section("50,000 live handles and mappings under ulimit -n 1024");
    MUST_HOLD(getrlimit(RLIMIT_NOFILE, &before) == 0);
    usual = before;
    usual.rlim_cur = 1024;
    MUST_HOLD(setrlimit(RLIMIT_NOFILE, &usual) == 0);

    library_start(true);
    start = now_ns();
    live_open(&live, MANY, ACL_MEM_LOCATION_TYPE_DEVICE);
    live_map(&live);
    ns = (double)(now_ns() - start) / MANY;
    snprintf(what, sizeof what, "allocate and map each; %zu descriptors are open",
             descriptors_open());
    report_row(&(struct row){what, "ns", ns, 0, BUDGET_NONE, 0});
    MUST_HOLD(getrlimit(RLIMIT_NOFILE, &usual) == 0 && usual.rlim_cur == 1024);
    live_close(&live);

    start = now_ns();
    library_stop();
    ns = (double)(now_ns() - start) / MANY;
    report_row(&(struct row){"unmap and free each, by aclFinalize", "ns", ns, 0,
                             BUDGET_NONE, 0});
    MUST_HOLD(setrlimit(RLIMIT_NOFILE, &before) == 0);
}
