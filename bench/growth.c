/*
 * Growth: what each call costs with 1 to 1,000,000 live objects.
 *
 * The numbers for large sets are those of a program that uses all of them at random.
 * They contain what the caches cost: a million mappings are some hundred megabytes of
 * metadata, and a random lookup has a cache miss in it.  Whether the table itself
 * grows is a separate question, which lookups of a thousand addresses answer,
 * among a thousand mappings and among a million.
 */
#include <sys/mman.h>

#include "apart.h"
#include "live.h"
#include "report.h"
#include "sections.h"

#define ROUNDS 41
#define SWEEPS 3 /* over all sizes: slow times of the machine fall on all of them */
#define THOUSAND 1000

enum { GROW_RESERVE, GROW_PHYS, GROW_MAP, GROW_LOOKUP, GROW_FEW, GROW_COUNT };

static const size_t live_counts[GROWTH_POINTS] = {1, THOUSAND, 50000, 1000000};

static void reserve_run(void *arg, size_t n)
{
    void *addr;

    (void)arg;
    while (n-- > 0) {
        MUST(aclrtReserveMemAddress(&addr, CHUNK, 0, NULL, 1));
        MUST(aclrtReleaseMemAddress(addr));
    }
}

/* One more with n there. */
static double reserve_at(size_t n)
{
    struct subject s = {.run = reserve_run, .n = PICKS};
    void *addr;

    library_start(true);
    for (size_t i = 0; i < n; i++)
        MUST(aclrtReserveMemAddress(&addr, CHUNK, 0, NULL, 1));
    measure(&s, 1, ROUNDS);
    library_stop();
    return s.ns;
}

static double subject_ns(struct subject s)
{
    measure(&s, 1, ROUNDS);
    return s.ns;
}

struct grown {
    size_t n;
    double ns[GROW_COUNT];
};

static void grow_to(void *arg)
{
    static struct live live;
    struct grown *grown = arg;
    size_t n = grown->n;

    grown->ns[GROW_RESERVE] = reserve_at(n);
    library_start(true);
    live_open(&live, n, ACL_MEM_LOCATION_TYPE_DEVICE);
    grown->ns[GROW_PHYS] = subject_ns(live_phys_pair(&live));
    live_map(&live);
    grown->ns[GROW_MAP] = subject_ns(live_map_pair(&live));
    grown->ns[GROW_LOOKUP] = subject_ns(live_lookup(&live));
    grown->ns[GROW_FEW] =
        subject_ns(live_lookup_among(&live, n < THOUSAND ? n : THOUSAND));
    live_close(&live);
    library_stop();
}

/* ---- a line of the cache that is fetched from memory ---- */

#define LINES_SIZE (256 * MB) /* as the metadata of a million objects */
#define LINE 64

/* Each line of memory on huge pages holds the address of another one. */
static void *lines_make(void)
{
    char *wide = mmap(NULL, LINES_SIZE + CHUNK, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    size_t n = LINES_SIZE / LINE;
    char *lines;

    MUST_HOLD(wide != MAP_FAILED);
    lines = wide + (CHUNK - (uintptr_t)wide % CHUNK);
    madvise(lines, LINES_SIZE, MADV_HUGEPAGE);
    for (size_t i = 0; i < n; i++) /* a full period: n is a power of two */
        *(void **)(lines + i * LINE) = lines + (i * 0x9e3779b5 + 0x3c6ef373) % n * LINE;
    return lines;
}

static void lines_walk(void *arg, size_t n)
{
    void *volatile *at = arg;

    while (n-- > 0)
        at = *at;
    MUST_HOLD(at != NULL);
}

static void million_report(const struct growth_row *rows)
{
    struct subject line = {.run = lines_walk, .arg = lines_make(), .n = 100000};
    const double *phys = rows[GROW_PHYS].ns;
    const double *map = rows[GROW_MAP].ns;

    measure(&line, 1, 9);
    report_section("1,000,000 live objects; limit: one live object");
    report_row(
        &(struct row){"allocate + free", "ns", phys[3], phys[0], BUDGET_AT_MOST, 4});
    report_row(&(struct row){"map + unmap", "ns", map[3], map[0], BUDGET_AT_MOST, 4});
    report_row(
        &(struct row){"a line fetched from memory", "ns", line.ns, 0, BUDGET_NONE, 0});
    report_note("Fetched one after the other: 1 to allocate and free (the memory's "
                "record, 4 lines");
    report_note("beside each other), 1 to map and unmap (the entry of the address, and "
                "beside it 4");
    report_note("lines of the record that is guessed from the address: 2 where the guess "
                "is wrong,");
    report_note(
        "as it is where memory is not mapped in the order in which it was made).");
}

static void lookup_report(const struct growth_row *rows)
{
    const double *few = rows[GROW_FEW].ns;
    const double *all = rows[GROW_LOOKUP].ns;

    report_section("address lookup, 1,000,000 live mappings; limit: 1,000 live mappings");
    report_row(&(struct row){"the same number of addresses, 1,000", "ns", few[3], few[1],
                             BUDGET_AT_MOST, 1.5});
    report_row(
        &(struct row){"all of them at random", "ns", all[3], all[1], BUDGET_NONE, 0});
    report_note(
        "The first asks whether the table grows: as many addresses in use in both.  The");
    report_note("second adds the caches: the metadata of a million mappings does not fit "
                "in them.");
}

void bench_growth(void *unused)
{
    static double ns[GROW_COUNT][GROWTH_POINTS][SWEEPS];
    struct growth_row rows[GROW_COUNT] = {
        [GROW_RESERVE].what = "reserve + release",
        [GROW_PHYS].what = "allocate + free",
        [GROW_MAP].what = "map + unmap",
        [GROW_LOOKUP].what = "lookup, any of them",
        [GROW_FEW].what = "lookup, 1,000 of them",
    };
    struct grown *grown = apart_memory(sizeof *grown);

    for (size_t sweep = 0; sweep < SWEEPS; sweep++) {
        for (size_t at = 0; at < GROWTH_POINTS; at++) {
            grown->n = live_counts[at];
            apart(grow_to, grown);
            for (size_t i = 0; i < GROW_COUNT; i++)
                ns[i][at][sweep] = grown->ns[i];
        }
    }
    for (size_t i = 0; i < GROW_COUNT; i++) {
        for (size_t at = 0; at < GROWTH_POINTS; at++)
            rows[i].ns[at] = quartile(ns[i][at], SWEEPS);
    }
    lookup_report(rows);
    million_report(rows);
    report_section("growth: time, and how many times that for one live object");
    report_growth(live_counts, rows, GROW_COUNT);
}
