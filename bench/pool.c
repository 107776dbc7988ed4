/*
 * The pool: how much of the memory that it holds is in use, and what a block costs.
 *
 * Shares of memory are of recorded traces (bench/traces), played by `aclmem replay`, for
 * all our allocators.  A hit is a block of a size that was freed last on the same stream; its
 * limit is chosen: a third of what the caching allocator of PyTorch takes for one.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "acl/acl.h"
#include "aclmem/pool.h"
#include "live.h"
#include "report.h"
#include "sections.h"

#define HIT_NS 150
#define ROUNDS 21
#define N_THREADS 8
#define N_HITS 100000
#define GB ((size_t)1 << 30)

static const char *const traces[] = {"train", "train_ckpt", "lora", "generate"};
#define N_TRACES (sizeof traces / sizeof traces[0])

/* ---- shares of memory ---- */

/* Peak live in percent of peak held; 0: not to be had. */
static double replay_share(const char *trace, const char *allocator)
{
    char command[512];
    char line[512] = "";
    const char *found;
    FILE *output;

    snprintf(command, sizeof command,
             "env -u ACLMEM_MEMORY '%s' replay '%s/%s.trace.gz' --allocator %s --json",
             BENCH_ACLMEM, BENCH_TRACES, trace, allocator);
    output = popen(command, "r");
    if (output == NULL)
        return 0;
    found = fgets(line, sizeof line, output) != NULL ? strstr(line, "\"ratio\": ") : NULL;
    pclose(output);
    return found != NULL ? 100 * atof(found + strlen("\"ratio\": ")) : 0;
}

static void shares_report(void)
{
    static const struct {
        const char *allocator, *name;
        double budget;
    } kinds[] = {
        {"pool", "libaclmem_pool", 0.99},
        {"aliases", "libaclmem_pool with aliases", 0.99},
        {"mempool", "aclrtMemPool*", 0.98},
        {"malloc", "aclrtMalloc", 0},
    };
    char what[80];

    report_section(
        "memory in use at the peak of a recorded trace; limit: all that is held");
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        for (size_t i = 0; i < N_TRACES; i++) {
            struct row row = {
                .what = what, .unit = "%", .limit = 100, .budget = kinds[k].budget};

            snprintf(what, sizeof what, "%s, %s", kinds[k].name, traces[i]);
            row.ours = replay_share(traces[i], kinds[k].allocator);
            row.kind = row.budget > 0 ? BUDGET_AT_LEAST : BUDGET_NONE;
            report_row(&row);
        }
    }
}

/* ---- time ---- */

struct hit {
    aclmem_pool *pool;
    aclrtStream stream;
    size_t size;
};

static void hit_run(void *arg, size_t n)
{
    struct hit *hit = arg;
    void *ptr;

    while (n-- > 0) {
        MUST(aclmem_pool_malloc(hit->pool, hit->size, hit->stream, &ptr));
        MUST(aclmem_pool_free(hit->pool, ptr));
    }
}

static void *hit_thread(void *arg)
{
    hit_run(arg, N_HITS);
    return NULL;
}

/* Wall time of an operation of n threads, as if each had a processor to itself. */
static double threads_ns(struct hit *hits, unsigned n)
{
    long n_cores = sysconf(_SC_NPROCESSORS_ONLN);
    double width = (double)(n < (unsigned long)n_cores ? n : (unsigned long)n_cores);
    pthread_t threads[N_THREADS];
    uint64_t start = now_ns();

    for (unsigned i = 0; i < n; i++)
        MUST(pthread_create(&threads[i], NULL, hit_thread, &hits[i]));
    for (unsigned i = 0; i < n; i++)
        MUST(pthread_join(threads[i], NULL));
    return (double)(now_ns() - start) * width / n / N_HITS;
}

static void threads_report(aclmem_pool *pool)
{
    double one[ROUNDS], all[ROUNDS];
    struct hit hits[N_THREADS];

    for (unsigned i = 0; i < N_THREADS; i++) {
        hits[i] = (struct hit){.pool = pool, .size = 64 << 10};
        MUST(aclrtCreateStream(&hits[i].stream));
    }
    for (unsigned i = 0; i < ROUNDS; i++) {
        one[i] = threads_ns(hits, 1);
        all[i] = threads_ns(hits, N_THREADS);
    }
    report_row(&(struct row){"malloc + free, 8 threads on 8 streams", "ns",
                             quartile(all, ROUNDS), quartile(one, ROUNDS), BUDGET_AT_MOST,
                             2});
    for (unsigned i = 0; i < N_THREADS; i++) {
        MUST(aclmem_pool_forget_stream(pool, hits[i].stream));
        MUST(aclrtDestroyStream(hits[i].stream));
    }
}

static void times_report(aclmem_pool *pool, aclrtStream stream)
{
    static const size_t sizes[] = {512, 64 << 10, 4 << 20, 256 << 20};
    static const char *const what[] = {
        "malloc + free, a hit, 512 B", "malloc + free, a hit, 64 KB",
        "malloc + free, a hit, 4 MB", "malloc + free, a hit, 256 MB"};

    report_section("a block of the pool; limit: a third of a hit in PyTorch's allocator");
    for (size_t i = 0; i < 4; i++) {
        struct hit hit = {pool, stream, sizes[i]};
        struct subject s = {.run = hit_run, .arg = &hit};

        measure(&s, 1, ROUNDS);
        report_row(&(struct row){what[i], "ns", s.ns, HIT_NS, BUDGET_AT_MOST, 1});
    }
    report_section("threads; limit: one thread");
    threads_report(pool);
}

/* ---- fragmentation ---- */

#define MAX_SIZES 400000
#define MAX_LIVE 20000
#define OPERATIONS 10000000

static size_t sizes_read(uint32_t *sizes)
{
    char path[512], line[128];
    unsigned long id, size;
    size_t n = 0;

    for (size_t i = 0; i < N_TRACES; i++) {
        gzFile file;

        snprintf(path, sizeof path, "%s/%s.trace.gz", BENCH_TRACES, traces[i]);
        file = gzopen(path, "rb");
        MUST_HOLD(file != NULL);
        while (n < MAX_SIZES && gzgets(file, line, sizeof line) != NULL) {
            if (sscanf(line, "a %lu %lu", &id, &size) == 2 && size < UINT32_MAX)
                sizes[n++] = (uint32_t)size;
        }
        gzclose(file);
    }
    return n;
}

static uint64_t seed = 88172645463325252;

static size_t below(size_t n)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (size_t)(seed >> 8) % n;
}

static struct {
    void *ptr;
    uint32_t size;
} live[MAX_LIVE];

/* The lowest share in use, in percent, of each half of the operations. */
static void churn(aclmem_pool *pool, aclrtStream stream, double *ret_first,
                  double *ret_second)
{
    static uint32_t sizes[MAX_SIZES];
    size_t n_sizes = sizes_read(sizes), n = 0, bytes = 0;
    double worst[2] = {100, 100};
    aclmem_pool_stats stats;

    for (size_t i = 0; i < OPERATIONS; i++) {
        /* The load goes from a half to all of 8 GB and back. */
        size_t phase = i / 1000 % 200;
        size_t load = 4 * GB + 4 * GB * (phase < 100 ? phase : 200 - phase) / 100;

        if (bytes < load && n < MAX_LIVE) {
            live[n].size = sizes[below(n_sizes)];
            MUST(aclmem_pool_malloc(pool, live[n].size, stream, &live[n].ptr));
            bytes += live[n++].size;
        } else {
            /* Three in four die young. */
            size_t k = below(4) > 0 ? n - 1 - below(n < 64 ? n : 64) : below(n);

            MUST(aclmem_pool_free(pool, live[k].ptr));
            bytes -= live[k].size;
            live[k] = live[--n];
        }
        /* A large block that is freed may take the load below the half for a moment. */
        if (i % 64 == 0 && i > OPERATIONS / 50 && bytes >= 4 * GB) {
            double share;

            MUST(aclmem_pool_get_stats(pool, &stats));
            share = 100 * (double)stats.live /
                    (double)(stats.held - stats.idle - stats.cached);
            if (share < worst[i >= OPERATIONS / 2])
                worst[i >= OPERATIONS / 2] = share;
        }
    }
    while (n > 0)
        MUST(aclmem_pool_free(pool, live[--n].ptr));
    *ret_first = worst[0];
    *ret_second = worst[1];
}

static void churn_report(aclmem_pool *pool, aclrtStream stream)
{
    double first, second;

    churn(pool, stream, &first, &second);
    report_section(
        "10^7 random blocks of the traces' sizes; limit: all that is held and not idle");
    report_row(&(struct row){"lowest share in use, first half of them", "%", first, 100,
                             BUDGET_AT_LEAST, 0.97});
    report_row(&(struct row){"lowest share in use, second half", "%", second, 100,
                             BUDGET_AT_LEAST, 0.97});
}

void bench_pool(void *unused)
{
    aclmem_pool_options options = {.limit = 64 * GB};
    aclrtStream stream;
    aclmem_pool *pool;

    shares_report();
    library_start(true);
    MUST(aclmem_pool_create(0, &options, &pool));
    MUST(aclrtCreateStream(&stream));
    times_report(pool, stream);
    churn_report(pool, stream);
    MUST(aclmem_pool_destroy(pool));
    MUST(aclrtDestroyStream(stream));
    library_stop();
}
