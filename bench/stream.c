/*
 * Streams: what asynchrony costs, and whether copies on many streams keep the machine's
 * speed.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "aclmem/aclmem.h"
#include "live.h"
#include "report.h"
#include "sections.h"

#define SMALL 4096
#define LARGE (64 * MB)
#define STREAMS_MAX 64
#define ROUNDS 31

/* ---- a hand-off between two threads, there and back ---- */

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool is_asked;
    bool is_over;
} hand = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static void *hand_answer(void *unused)
{
    pthread_mutex_lock(&hand.lock);
    while (!hand.is_over) {
        if (hand.is_asked) {
            hand.is_asked = false;
            pthread_cond_broadcast(&hand.changed);
        }
        pthread_cond_wait(&hand.changed, &hand.lock);
    }
    pthread_mutex_unlock(&hand.lock);
    return NULL;
}

static void hand_run(void *unused, size_t n)
{
    pthread_mutex_lock(&hand.lock);
    while (n-- > 0) {
        hand.is_asked = true;
        pthread_cond_broadcast(&hand.changed);
        while (hand.is_asked)
            pthread_cond_wait(&hand.changed, &hand.lock);
    }
    pthread_mutex_unlock(&hand.lock);
}

/* ---- ours ---- */

struct work {
    aclrtStream stream[STREAMS_MAX];
    size_t n_streams;
    aclrtEvent event;
    char *device;
    char *host;
};

static void work_open(struct work *work, size_t size)
{
    MUST(aclrtMalloc((void **)&work->device, size, ACL_MEM_MALLOC_HUGE_FIRST));
    MUST(aclrtMallocHost((void **)&work->host, size));
    MUST(aclrtMemset(work->host, size, 1, size));
    MUST(aclrtMemset(work->device, size, 2, size));
    for (size_t i = 0; i < STREAMS_MAX; i++)
        MUST(aclrtCreateStream(&work->stream[i]));
    MUST(aclrtCreateEventExWithFlag(&work->event, ACL_EVENT_SYNC));
}

static void small_run(void *arg, size_t n)
{
    struct work *work = arg;

    while (n-- > 0) {
        MUST(aclrtMemcpyAsync(work->device, SMALL, work->host, SMALL,
                              ACL_MEMCPY_HOST_TO_DEVICE, work->stream[0]));
        MUST(aclrtSynchronizeStream(work->stream[0]));
    }
}

/* The same from memory of the program's own, which the system is asked for first. */
static void pageable_run(void *arg, size_t n)
{
    static char bytes[SMALL];
    struct work *work = arg;

    while (n-- > 0)
        MUST(aclrtMemcpyAsync(work->device, SMALL, bytes, SMALL,
                              ACL_MEMCPY_HOST_TO_DEVICE, work->stream[0]));
}

/* One stream records, another waits, the host waits for that. */
static void event_run(void *arg, size_t n)
{
    struct work *work = arg;

    while (n-- > 0) {
        MUST(aclrtRecordEvent(work->event, work->stream[0]));
        MUST(aclrtStreamWaitEvent(work->stream[1], work->event));
        MUST(aclrtSynchronizeStream(work->stream[1]));
    }
}

static void create_run(void *unused, size_t n)
{
    aclrtStream stream;

    while (n-- > 0) {
        MUST(aclrtCreateStream(&stream));
        MUST(aclrtDestroyStream(stream));
    }
}

static void thread_run(void *unused, size_t n)
{
    pthread_t thread;

    while (n-- > 0) {
        MUST_HOLD(pthread_create(&thread, NULL, hand_answer, NULL) == 0);
        MUST_HOLD(pthread_join(thread, NULL) == 0);
    }
}

/* The bytes spread over the streams, then all are waited for. */
static void spread_run(void *arg, size_t n)
{
    struct work *work = arg;
    size_t piece = LARGE / work->n_streams;

    while (n-- > 0) {
        for (size_t i = 0; i < work->n_streams; i++)
            MUST(aclrtMemcpyAsync(work->device + i * piece, piece, work->host + i * piece,
                                  piece, ACL_MEMCPY_HOST_TO_DEVICE, work->stream[i]));
        MUST(aclrtSynchronizeDevice());
    }
}

static void memcpy_run(void *arg, size_t n)
{
    struct work *work = arg;
    void *view;

    MUST(aclmem_host_view(work->device, LARGE, &view));
    while (n-- > 0)
        memcpy(view, work->host, LARGE);
    MUST(aclmem_host_view_end(view));
}

/* In pieces by plain threads, as many as there are workers. */
struct crew {
    const struct work *work;
    char *view;
    size_t n_pieces;
    atomic_size_t next;
};

static void *crew_main(void *arg)
{
    struct crew *crew = arg;
    size_t piece = LARGE / crew->n_pieces;
    size_t i;

    while ((i = atomic_fetch_add(&crew->next, 1)) < crew->n_pieces)
        memcpy(crew->view + i * piece, crew->work->host + i * piece, piece);
    return NULL;
}

static void crew_run(void *arg, size_t n)
{
    long n_cpus = sysconf(_SC_NPROCESSORS_ONLN);
    size_t n_threads = n_cpus < 2 ? 2 : n_cpus > 8 ? 8 : (size_t)n_cpus;
    struct work *work = arg;
    pthread_t thread[8];
    void *view;

    MUST(aclmem_host_view(work->device, LARGE, &view));
    while (n-- > 0) {
        struct crew crew = {.work = work,
                            .view = view,
                            .n_pieces = work->n_streams < 8 ? 8 : work->n_streams};

        for (size_t i = 0; i < n_threads; i++)
            MUST_HOLD(pthread_create(&thread[i], NULL, crew_main, &crew) == 0);
        for (size_t i = 0; i < n_threads; i++)
            MUST_HOLD(pthread_join(thread[i], NULL) == 0);
    }
    MUST(aclmem_host_view_end(view));
}

static void spread_at(struct work *work, const char *what, size_t n_streams)
{
    struct subject s[3] = {{.run = spread_run, .arg = work, .n = 1, .has_threads = true},
                           {.run = memcpy_run, .arg = work, .n = 1, .has_threads = true},
                           {.run = crew_run, .arg = work, .n = 1, .has_threads = true}};

    work->n_streams = n_streams;
    measure(s, 3, ROUNDS);
    report_row(
        &(struct row){what, "GB/s", LARGE / s[0].ns, LARGE / s[1].ns, BUDGET_NONE, 0});
    report_row(&(struct row){"  limit: memcpy by plain threads, in pieces", "GB/s",
                             LARGE / s[0].ns, LARGE / s[2].ns, BUDGET_NONE, 0});
}

/* ---- short work ---- */

static void fill_run(void *arg, size_t n)
{
    struct work *work = arg;

    while (n-- > 0) {
        MUST(aclrtMemsetAsync(work->device, SMALL, 3, SMALL, work->stream[0]));
        MUST(aclrtSynchronizeStream(work->stream[0]));
    }
}

void bench_stream(void *unused)
{
    static struct work work;
    struct subject s[6] = {{.run = small_run, .arg = &work},
                           {.run = event_run, .arg = &work},
                           {.run = hand_run},
                           {.run = create_run, .n = 10000},
                           {.run = fill_run, .arg = &work},
                           {.run = pageable_run, .arg = &work}};
    struct subject t[1] = {{.run = thread_run, .n = 200}};
    pthread_t answerer;

    library_start(true);
    work_open(&work, LARGE);
    MUST_HOLD(pthread_create(&answerer, NULL, hand_answer, NULL) == 0);
    report_section("streams; limit: a hand-off between two threads, there and back");
    measure(s, 6, ROUNDS);
    report_row(&(struct row){"asynchronous copy of 4 KB on an idle stream, waited for",
                             "ns", s[0].ns, s[2].ns, BUDGET_AT_MOST, 2});
    report_row(&(struct row){"the same from memory that is not pinned", "ns", s[5].ns,
                             s[2].ns, BUDGET_AT_MOST, 2});
    report_row(&(struct row){"fill of 4 KB on an idle stream, waited for", "ns", s[4].ns,
                             s[2].ns, BUDGET_AT_MOST, 2});
    report_row(&(struct row){"record on one stream, wait on another, synchronise", "ns",
                             s[1].ns, s[2].ns, BUDGET_AT_MOST, 2});
    pthread_mutex_lock(&hand.lock);
    hand.is_over = true;
    pthread_cond_broadcast(&hand.changed);
    pthread_mutex_unlock(&hand.lock);
    MUST_HOLD(pthread_join(answerer, NULL) == 0);
    measure(t, 1, ROUNDS);
    report_row(&(struct row){"create and destroy a stream; limit: a thread", "ns",
                             s[3].ns, t[0].ns, BUDGET_NONE, 0});

    report_section("64 MB from pinned memory on streams together; limit: one memcpy");
    spread_at(&work, "1 stream", 1);
    spread_at(&work, "8 streams", 8);
    spread_at(&work, "64 streams", 64);
    report_note(
        "where others have the processors, a worker that has to wait for one holds "
        "up the whole copy, and so does a plain thread: compare the second limit");
    library_stop();
}
