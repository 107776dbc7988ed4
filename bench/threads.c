/*
 * Throughput with threads: how much more all of them do together than one does alone.
 *
 * Every thread has objects of its own, so nothing but the library can make them wait for
 * each other.  A row's limit is the rate of one thread, its ratio the gain; budgets are for
 * 16 cores, and smaller in proportion where there are fewer, but never below 1: more
 * threads must not do less.
 *
 * The cores of a virtual machine are threads of cores that it shares with other machines, and
 * are fast or slow by what runs beside them.  A plain memcpy, which is a row of its own, shows
 * what as many threads gain there without the library: no row has to gain more.  It is measured
 * in turn with all other rows.
 *
 * Threads that sleep until all are there wake up one after the other, which takes a good part
 * of a round in a virtual machine.  So they stay awake while they wait.
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "live.h"
#include "report.h"
#include "sections.h"

#define SMALL 4096
#define LAUNCHES 64
#define THREADS_MAX 16
#define THREADS_LOG 4 /* of THREADS_MAX */
#define ROUNDS 9      /* of a few milliseconds: short against a scheduler's slice */

/* What one thread works with. */
struct own {
    aclrtStream stream[2];
    aclrtEvent event;
    char *device;
    char *host;
    char *addr;
    aclrtDrvMemHandle handle;
    char plain[2][SMALL] __attribute__((aligned(SMALL)));
};

static const aclrtPhysicalMemProp prop = {
    .handleType = ACL_MEM_HANDLE_TYPE_NONE,
    .allocationType = ACL_MEM_ALLOCATION_TYPE_PINNED,
    .memAttr = ACL_HBM_MEM_HUGE,
    .location = {.type = ACL_MEM_LOCATION_TYPE_DEVICE},
};

static void malloc_at(size_t size)
{
    void *p;

    MUST(aclrtMalloc(&p, size, ACL_MEM_MALLOC_HUGE_FIRST));
    MUST(aclrtFree(p));
}

static void malloc_small(struct own *own)
{
    malloc_at(SMALL);
}

static void malloc_large(struct own *own)
{
    malloc_at(4 * MB);
}

static void malloc_host(struct own *own)
{
    void *p;

    MUST(aclrtMallocHost(&p, SMALL));
    MUST(aclrtFreeHost(p));
}

static void phys_pair(struct own *own)
{
    aclrtDrvMemHandle handle;

    MUST(aclrtMallocPhysical(&handle, CHUNK, &prop, 0));
    MUST(aclrtFreePhysical(handle));
}

static void map_pair(struct own *own)
{
    MUST(aclrtMapMem(own->addr, CHUNK, 0, own->handle, 0));
    MUST(aclrtUnmapMem(own->addr));
}

/* The gain of the cores themselves: no library is in it. */
static void copy_plain(struct own *own)
{
    memcpy(own->plain[0], own->plain[1], SMALL);
    __asm__ volatile("" : : "r"(own->plain[0]) : "memory");
}

static void copy_small(struct own *own)
{
    MUST(aclrtMemcpy(own->device, SMALL, own->host, SMALL, ACL_MEMCPY_HOST_TO_DEVICE));
}

static void launch(struct own *own)
{
    MUST(aclrtMemcpyAsync(own->device, SMALL, own->host, SMALL, ACL_MEMCPY_HOST_TO_DEVICE,
                          own->stream[0]));
}

static void launch_and_wait(struct own *own)
{
    launch(own);
    MUST(aclrtSynchronizeStream(own->stream[0]));
}

static void launch_many(struct own *own)
{
    for (int i = 0; i < LAUNCHES; i++)
        launch(own);
    MUST(aclrtSynchronizeStream(own->stream[0]));
}

static void record_and_wait(struct own *own)
{
    MUST(aclrtRecordEvent(own->event, own->stream[0]));
    MUST(aclrtStreamWaitEvent(own->stream[1], own->event));
    MUST(aclrtSynchronizeStream(own->stream[1]));
}

static void mem_info(struct own *own)
{
    size_t free_size;
    size_t total;

    MUST(aclrtGetMemInfo(ACL_HBM_MEM, &free_size, &total));
}

struct work {
    const char *what;
    void (*run)(struct own *own);
    size_t n;      /* runs of each thread in a round */
    double budget; /* for 16 threads on 16 cores */
};

static const struct work plain = {"memcpy 4 KB, plain", copy_plain, 200000, 0};

static const struct work works[] = {
    {"malloc + free 4 KB", malloc_small, 200000, 4},
    {"malloc + free 4 MB", malloc_large, 100000, 4},
    {"MallocPhysical + FreePhysical 2 MB", phys_pair, 20000, 4},
    {"MapMem + UnmapMem 2 MB", map_pair, 30000, 4},
    {"memcpy 4 KB to the device", copy_small, 30000, 4},
    {"memcpyAsync 4 KB + synchronise", launch_and_wait, 20000, 4},
    {"64 x memcpyAsync 4 KB + synchronise", launch_many, 500, 4},
    {"record + wait + synchronise", record_and_wait, 20000, 4},
    {"GetMemInfo", mem_info, 20000, 4},
    {"MallocHost + FreeHost 4 KB", malloc_host, 200000, 4},
};
#define N_WORKS (sizeof works / sizeof works[0])

struct crew {
    atomic_size_t n_ready; /* threads that wait for the others */
    const struct work *work;
    size_t n_threads;
    struct own own[THREADS_MAX];
};

struct member {
    struct crew *crew;
    struct own *own;
    uint64_t begun;
    uint64_t ended;
};

static void own_open(struct own *own)
{
    MUST(aclrtCreateStream(&own->stream[0]));
    MUST(aclrtCreateStream(&own->stream[1]));
    MUST(aclrtCreateEventExWithFlag(&own->event, ACL_EVENT_SYNC));
    MUST(aclrtMalloc((void **)&own->device, CHUNK, ACL_MEM_MALLOC_HUGE_FIRST));
    MUST(aclrtMallocHost((void **)&own->host, CHUNK));
    MUST(aclrtMemset(own->host, SMALL, 1, SMALL));
    MUST(aclrtMallocPhysical(&own->handle, CHUNK, &prop, 0));
    MUST(aclrtReserveMemAddress((void **)&own->addr, CHUNK, 0, NULL, 1));
}

/* Returns when all threads are here. */
static void crew_wait(struct crew *crew)
{
    atomic_fetch_add(&crew->n_ready, 1);
    while (atomic_load(&crew->n_ready) < crew->n_threads)
        sched_yield();
}

static void *member_main(void *arg)
{
    struct member *member = arg;
    const struct work *work = member->crew->work;

    MUST(aclrtSetDevice(0));
    work->run(member->own);
    crew_wait(member->crew);
    member->begun = now_ns();
    for (size_t i = 0; i < work->n; i++)
        work->run(member->own);
    member->ended = now_ns();
    return NULL;
}

/* Runs a second of all threads together, from the first start to the last end. */
static double rate_once(struct crew *crew)
{
    struct member members[THREADS_MAX];
    pthread_t thread[THREADS_MAX];
    uint64_t begun = UINT64_MAX;
    uint64_t ended = 0;

    crew->n_ready = 0;
    for (size_t i = 0; i < crew->n_threads; i++) {
        members[i] = (struct member){.crew = crew, .own = &crew->own[i]};
        MUST_HOLD(pthread_create(&thread[i], NULL, member_main, &members[i]) == 0);
    }
    for (size_t i = 0; i < crew->n_threads; i++) {
        MUST_HOLD(pthread_join(thread[i], NULL) == 0);
        begun = members[i].begun < begun ? members[i].begun : begun;
        ended = members[i].ended > ended ? members[i].ended : ended;
    }
    return (double)(crew->work->n * crew->n_threads) * 1e9 / (double)(ended - begun);
}

/* Runs a second with 1, 2, 4, 8 and 16 threads: the best of some rounds. */
struct rates {
    double of[THREADS_LOG + 1];
};

static void rates_add(struct crew *crew, const struct work *work, size_t n_cores,
                      struct rates *rates)
{
    crew->work = work;
    for (size_t i = 0; i <= THREADS_LOG && (size_t)1 << i <= n_cores; i++) {
        double now;

        crew->n_threads = (size_t)1 << i;
        now = rate_once(crew);
        if (now > rates->of[i])
            rates->of[i] = now; /* other programs only ever take time away */
    }
}

static double gain(const struct rates *rates, size_t i)
{
    return rates->of[i] / rates->of[0];
}

/* The budget for 2^i threads, were the cores to gain that much. */
static double budget_at(const struct work *work, size_t i)
{
    double budget = work->budget * (double)((size_t)1 << i) / THREADS_MAX;

    return budget > 1 ? budget : 1;
}

static void gain_report(const struct work *work, size_t i, const struct rates *ours,
                        const struct rates *cores)
{
    double budget = budget_at(work, i);
    char what[80];
    int end = snprintf(what, sizeof what, "%s, %d threads", work->what, 1 << i);

    if (budget > 1 && gain(cores, i) < budget) {
        budget = gain(cores, i) > 1 ? gain(cores, i) : 1;
        snprintf(what + end, sizeof what - (size_t)end, " (cores gain %.1f)",
                 gain(cores, i));
    }
    report_row(&(struct row){what, "k/s", ours->of[i] / 1e3, ours->of[0] / 1e3,
                             BUDGET_AT_LEAST, budget});
}

static void plain_report(const struct rates *cores, size_t n_cores)
{
    char what[80];

    for (size_t i = 1; i <= THREADS_LOG && (size_t)1 << i <= n_cores; i++) {
        snprintf(what, sizeof what, "%s, %d threads", plain.what, 1 << i);
        report_row(&(struct row){what, "k/s", cores->of[i] / 1e3, cores->of[0] / 1e3,
                                 BUDGET_NONE, 0});
    }
}

static void works_report(struct crew *crew, size_t n_cores)
{
    static struct rates ours[N_WORKS];
    static struct rates cores;

    for (int round = 0; round < ROUNDS; round++) {
        for (size_t w = 0; w < N_WORKS; w++) {
            rates_add(crew, &works[w], n_cores, &ours[w]);
            rates_add(crew, &plain, n_cores, &cores);
        }
    }
    plain_report(&cores, n_cores);
    for (size_t w = 0; w < N_WORKS; w++) {
        for (size_t i = 1; i <= THREADS_LOG && (size_t)1 << i <= n_cores; i++)
            gain_report(&works[w], i, &ours[w], &cores);
    }
}

void bench_threads(void *unused)
{
    static struct crew crew;
    size_t n_cores = (size_t)sysconf(_SC_NPROCESSORS_ONLN);
    char title[100];

    library_start(true);
    for (size_t i = 0; i < THREADS_MAX; i++)
        own_open(&crew.own[i]);
    snprintf(title, sizeof title,
             "threads with objects of their own, %zu cores; limit: one thread", n_cores);
    report_section(title);
    works_report(&crew, n_cores);
    report_note(
        "A budget is for 16 cores, and less in proportion for fewer threads.  Where "
        "a plain memcpy");
    report_note("gains less on as many threads, that is the budget: (cores gain ...).  "
                "Processors that");
    report_note("are two threads of one core share it.");
    library_stop();
}
