/*
 * aclmem replay: repeats the allocations of a recorded program with an allocator of ours.
 *
 * The trace is of any kind that history_load() reads.  It is replayed twice: once for the
 * statistics, which are queried after each block, and once for the time, without queries.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "acl/acl.h"
#include "aclmem/aclmem.h"
#include "aclmem/pool.h"
#include "history.h"
#include "command.h"
#include "output.h"
#include "play.h"
#include "text.h"

#define MAX_STREAMS 64
#define PAGE ((size_t)2 << 20)

static struct {
    const char *json;
    const char *allocator;
    const char *backend;
    const char *speed;
    const char *host_memory;
} choice;

struct event {
    uint64_t time;
    uint64_t size;  /* 0: a free */
    uint32_t block; /* its number */
    uint32_t stream;
};

struct recording {
    struct event *events; /* in the order of time */
    size_t n_events;
    uint64_t *sizes; /* of each block */
    uint32_t n_blocks;
    uint32_t n_streams;
    uint64_t peak_live;
    uint64_t n_skipped; /* frees of blocks that the trace does not allocate */
};

struct result {
    uint64_t peak_held, creates, remaps;
    double ns_per_op;
};

/* What an allocator is to a replay. */
struct allocator {
    const char *name;
    aclError (*open)(uint64_t limit);
    aclError (*take)(size_t size, aclrtStream stream, void **ret_ptr);
    aclError (*give)(void *ptr, aclrtStream stream);
    void (*stats)(struct result *result); /* NULL: what the device has less counts */
    void (*close)(void);
};

static int failed(const char *what, aclError rc)
{
    fprintf(stderr, "aclmem: %s: %d %s\n", what, rc,
            *aclmem_pool_message() != '\0' ? aclmem_pool_message()
                                           : aclGetRecentErrMsg());
    return 1;
}

/* ---- the trace ---- */

static void *alloc_or_exit(size_t size)
{
    void *memory = calloc(1, size);

    if (memory == NULL) {
        fprintf(stderr, "aclmem: no memory for the trace\n");
        exit(1);
    }
    return memory;
}

static int event_compare(const void *left, const void *right)
{
    const struct event *a = left;
    const struct event *b = right;

    if (a->time != b->time)
        return a->time < b->time ? -1 : 1;
    return (a->size > b->size) - (a->size < b->size); /* frees, of size 0, first */
}

/* A small number for a stream; streams beyond the last share its number. */
static uint32_t stream_number(uint32_t *streams, uint32_t *n, uint32_t stream)
{
    for (uint32_t i = 0; i < *n; i++) {
        if (streams[i] == stream)
            return i;
    }
    if (*n == MAX_STREAMS)
        return MAX_STREAMS - 1;
    streams[*n] = stream;
    return (*n)++;
}

/* Numbers below MAX_STREAMS stay; others, such as handles, are numbered. */
static void streams_fill(struct recording *t)
{
    uint32_t streams[MAX_STREAMS];
    uint32_t most = 0;

    for (size_t i = 0; i < t->n_events; i++)
        most = most > t->events[i].stream ? most : t->events[i].stream;
    if (most < MAX_STREAMS) {
        t->n_streams = most + 1;
        return;
    }
    for (size_t i = 0; i < t->n_events; i++)
        t->events[i].stream = stream_number(streams, &t->n_streams, t->events[i].stream);
}

/* The device memory blocks of a trace as events in the order of time. */
static void recording_fill(struct recording *t, const struct history *history)
{
    uint64_t live = 0;

    t->events = alloc_or_exit((2 * history->n_blocks + 1) * sizeof *t->events);
    for (size_t i = 0; i < history->n_blocks; i++) {
        const struct block *block = &history->block[i];

        if ((block->kind != KIND_BLOCK && block->kind != KIND_POOL) || block->size == 0)
            continue;
        t->events[t->n_events++] =
            (struct event){block->made, block->size, t->n_blocks, block->stream};
        if (block->freed != 0)
            t->events[t->n_events++] =
                (struct event){block->freed, 0, t->n_blocks, block->stream};
        t->n_blocks++;
    }
    t->n_skipped = history->n_unknown_frees;
    qsort(t->events, t->n_events, sizeof *t->events, event_compare);
    streams_fill(t);
    t->sizes = alloc_or_exit((t->n_blocks + 1) * sizeof *t->sizes);
    for (size_t i = 0; i < t->n_events; i++) {
        const struct event *e = &t->events[i];

        if (e->size != 0)
            t->sizes[e->block] = e->size;
        live = e->size != 0 ? live + e->size : live - t->sizes[e->block];
        t->peak_live = t->peak_live > live ? t->peak_live : live;
    }
}

/* 0, or the exit code. */
static int recording_read(struct recording *t, const char *path)
{
    struct trace *trace;
    struct history history;

    if (!history_load("replay", path, &history, &trace))
        return 1;
    recording_fill(t, &history);
    history_free(&history);
    trace_close(trace);
    if (t->n_events > 0)
        return 0;
    fprintf(stderr, "aclmem replay: %s: it has no blocks\n", input_name(path));
    return 1;
}

static void recording_free(struct recording *t)
{
    free(t->events);
    free(t->sizes);
}

/* ---- the allocators ---- */

static aclmem_pool *pool;

static aclError pool_open(uint64_t limit)
{
    return aclmem_pool_create(0, NULL, &pool);
}

static aclError aliases_open(uint64_t limit)
{
    aclmem_pool_options options = {.flags = ACLMEM_POOL_ALIASES};

    return aclmem_pool_create(0, &options, &pool);
}

static aclError pool_take(size_t size, aclrtStream stream, void **ret_ptr)
{
    return aclmem_pool_malloc(pool, size, stream, ret_ptr);
}

static aclError pool_give(void *ptr, aclrtStream stream)
{
    return aclmem_pool_free(pool, ptr);
}

static void pool_figures(struct result *result)
{
    aclmem_pool_stats stats;

    if (aclmem_pool_get_stats(pool, &stats) != ACL_SUCCESS)
        return;
    result->peak_held = stats.peak_held;
    result->creates = stats.creates;
    result->remaps = stats.remaps;
}

static void pool_close(void)
{
    aclmem_pool_destroy(pool);
}

static aclrtMemPool mempool;

static aclError mempool_open(uint64_t limit)
{
    aclrtMemPoolProps props = {
        .allocType = ACL_MEM_ALLOCATION_TYPE_PINNED,
        .handleType = ACL_MEM_HANDLE_TYPE_NONE,
        .location = {.id = 0, .type = ACL_MEM_LOCATION_TYPE_DEVICE},
        .maxSize = limit,
    };
    uint64_t keep = UINT64_MAX;
    aclError rc = aclrtMemPoolCreate(&mempool, &props);

    if (rc == ACL_SUCCESS)
        rc = aclrtMemPoolSetAttr(mempool, ACL_RT_MEM_POOL_ATTR_RELEASE_THRESHOLD, &keep);
    return rc;
}

static aclError mempool_take(size_t size, aclrtStream stream, void **ret_ptr)
{
    return aclrtMemPoolMallocAsync(ret_ptr, size, mempool, stream);
}

static aclError mempool_give(void *ptr, aclrtStream stream)
{
    return aclrtMemPoolFreeAsync(ptr, stream);
}

static void mempool_close(void)
{
    aclrtSynchronizeDevice();
    aclrtMemPoolDestroy(mempool);
}

static aclError malloc_open(uint64_t limit)
{
    return ACL_SUCCESS;
}

static aclError malloc_take(size_t size, aclrtStream stream, void **ret_ptr)
{
    return aclrtMalloc(ret_ptr, size, ACL_MEM_MALLOC_HUGE_FIRST);
}

static aclError malloc_give(void *ptr, aclrtStream stream)
{
    return aclrtFree(ptr);
}

static void malloc_close(void)
{
}

static const struct allocator allocators[] = {
    {"pool", pool_open, pool_take, pool_give, pool_figures, pool_close},
    {"aliases", aliases_open, pool_take, pool_give, pool_figures, pool_close},
    {"mempool", mempool_open, mempool_take, mempool_give, NULL, mempool_close},
    {"malloc", malloc_open, malloc_take, malloc_give, NULL, malloc_close},
};

static const struct allocator *allocator_find(const char *name)
{
    for (size_t i = 0; i < sizeof allocators / sizeof allocators[0]; i++) {
        if (strcmp(allocators[i].name, name) == 0)
            return &allocators[i];
    }
    return NULL;
}

/* ---- the replay ---- */

/* What the device has given, as it changes. */
struct watch {
    size_t free_before;
    size_t last;
};

static void watch_look(struct watch *watch, struct result *result)
{
    size_t free_now, total, used;

    if (aclrtGetMemInfo(ACL_HBM_MEM, &free_now, &total) != ACL_SUCCESS)
        return;
    used = watch->free_before > free_now ? watch->free_before - free_now : 0;
    if (used > watch->last)
        result->creates += (used - watch->last) / PAGE;
    if (used > result->peak_held)
        result->peak_held = used;
    watch->last = used;
}

static double seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* All events; with a watch the device is queried after each block. */
static int play(const struct recording *t, const struct allocator *a,
                aclrtStream *streams, struct watch *watch, struct result *result)
{
    void **ptr = alloc_or_exit((t->n_blocks + 1) * sizeof *ptr);
    uint32_t *stream = alloc_or_exit((t->n_blocks + 1) * sizeof *stream);
    double start = seconds();
    aclError rc = ACL_SUCCESS;

    for (size_t i = 0; rc == ACL_SUCCESS && i < t->n_events; i++) {
        const struct event *e = &t->events[i];

        if (e->size != 0) {
            stream[e->block] = e->stream;
            rc = a->take(e->size, streams[e->stream], &ptr[e->block]);
            if (watch != NULL)
                watch_look(watch, result);
        } else {
            rc = a->give(ptr[e->block], streams[stream[e->block]]);
            ptr[e->block] = NULL;
        }
    }
    result->ns_per_op = (seconds() - start) * 1e9 / (double)t->n_events;
    if (rc == ACL_SUCCESS && a->stats != NULL)
        a->stats(result);
    for (uint32_t i = 0; i < t->n_blocks; i++) {
        if (ptr[i] != NULL)
            a->give(ptr[i], streams[stream[i]]);
    }
    free(ptr);
    free(stream);
    return rc == ACL_SUCCESS ? 0 : failed("a block of the trace was refused", rc);
}

static int play_twice(const struct recording *t, const struct allocator *a,
                      aclrtStream *streams, struct result *result)
{
    struct result timed = {0};
    struct watch watch = {0};
    size_t total = 0;
    int exit_code = 0;

    for (int i = 0; exit_code == 0 && i < 2; i++) {
        bool is_watched = i == 0 && a->stats == NULL;
        aclError rc = aclrtGetMemInfo(ACL_HBM_MEM, &watch.free_before, &total);

        if (rc == ACL_SUCCESS)
            rc = a->open(total);
        if (rc != ACL_SUCCESS)
            return failed(a->name, rc);
        exit_code =
            play(t, a, streams, is_watched ? &watch : NULL, i == 0 ? result : &timed);
        a->close();
    }
    result->ns_per_op = timed.ns_per_op;
    return exit_code;
}

static int replay_on_device(const struct recording *t, const struct allocator *a,
                            struct result *result)
{
    aclrtStream streams[MAX_STREAMS];
    aclError rc = aclrtSetDevice(0);
    int exit_code;

    for (uint32_t i = 0; rc == ACL_SUCCESS && i < t->n_streams; i++)
        rc = aclrtCreateStream(&streams[i]);
    if (rc != ACL_SUCCESS)
        return failed("device 0", rc);
    exit_code = play_twice(t, a, streams, result);
    for (uint32_t i = 0; i < t->n_streams; i++)
        aclrtDestroyStream(streams[i]);
    aclrtResetDevice(0);
    return exit_code;
}

static int result_print(const struct recording *t, const struct result *r)
{
    double ratio = (double)t->peak_live / (double)r->peak_held;
    char live[32], held[32];

    if (choice.json != NULL) {
        json_t *json =
            json_pack("{s:I, s:I, s:f, s:I, s:I, s:f}", "peak_live",
                      (json_int_t)t->peak_live, "peak_held", (json_int_t)r->peak_held,
                      "ratio", ratio, "creates", (json_int_t)r->creates, "remaps",
                      (json_int_t)r->remaps, "ns_per_op", r->ns_per_op);

        int rc = json_write("replay", choice.json, json, JSON_REAL_PRECISION(6));

        json_decref(json);
        return rc;
    }
    printf("%u blocks, %zu operations, streams: %u", t->n_blocks, t->n_events,
           t->n_streams);
    if (t->n_skipped > 0)
        printf(", frees of blocks that the trace does not have: %llu",
               (unsigned long long)t->n_skipped);
    printf("\npeak live   %s\npeak held   %s\nratio       %.4f\n",
           size_text((long long)t->peak_live, live, sizeof live),
           size_text((long long)r->peak_held, held, sizeof held), ratio);
    printf("pages       %llu created, %llu moved\ntime        %.0f ns an operation\n",
           (unsigned long long)r->creates, (unsigned long long)r->remaps, r->ns_per_op);
    return 0;
}

/* "512M", "8G": bytes; 0 if the text is no size. */
static uint64_t size_parse(const char *text)
{
    static const char units[] = "KMGT";
    char *end;
    uint64_t size = text[0] >= '0' && text[0] <= '9' ? strtoull(text, &end, 10) : 0;
    const char *unit;
    unsigned shift;

    if (size == 0)
        return 0;
    unit = *end != '\0' ? strchr(units, *end) : NULL;
    if (*end != '\0' && (unit == NULL || end[1] != '\0'))
        return 0;
    shift = unit != NULL ? 10 * (unsigned)(unit - units + 1) : 0;
    return size <= UINT64_MAX >> shift ? size << shift : 0;
}

/* A trace that has calls: all of them are made again. */
static int calls_replay(const char *path)
{
    struct play_choice how = {.backend = choice.backend, .json = choice.json};

    if (!trace_is(path))
        return usage_fail("replay", "as-is is for traces of aclmem run --trace");
    if (choice.host_memory != NULL) {
        how.host_memory = size_parse(choice.host_memory);
        if (how.host_memory == 0)
            return usage_fail("replay", "--host-memory takes a size, such as 8G");
    }
    how.is_recorded_speed = choice.speed != NULL && strcmp(choice.speed, "recorded") == 0;
    return play_calls(path, &how);
}

static int replay_run(int argc, char **argv)
{
    const char *name = choice.allocator != NULL ? choice.allocator : "pool";
    const struct allocator *a = allocator_find(name);
    struct recording trace = {0};
    struct result result = {0};
    char memory[32];
    int exit_code;
    aclError rc;

    if (argc != 1)
        return usage_fail("replay", "which trace?");
    argv[0] = (char *)input_path("replay", argv[0]);
    if (argv[0] == NULL)
        return 1;
    if (choice.backend != NULL)
        setenv("ACLMEM_BACKEND", choice.backend, 1);
    if (choice.allocator == NULL ? trace_is(argv[0])
                                 : strcmp(choice.allocator, "as-is") == 0)
        return calls_replay(argv[0]);
    exit_code = recording_read(&trace, argv[0]);
    if (exit_code == 0) {
        /* Emulated devices get the memory that the trace needs, and half as much again. */
        snprintf(memory, sizeof memory, "%lluM",
                 (unsigned long long)(trace.peak_live >> 20) * 3 / 2 + 256);
        setenv("ACLMEM_MEMORY", memory, 0);
        rc = aclInit(NULL);
        exit_code = rc == ACL_SUCCESS ? replay_on_device(&trace, a, &result)
                                      : failed("aclInit", rc);
        aclFinalize();
    }
    if (exit_code == 0)
        exit_code = result_print(&trace, &result);
    recording_free(&trace);
    return exit_code;
}

static const struct option options[] = {
    {"allocator", OPTION_WORD, &choice.allocator, "as-is|pool|aliases|mempool|malloc",
     "Choose what replays the trace: as-is (its own calls; the\n"
     "default for traces of aclmem run), pool (libaclmem_pool.so;\n"
     "the default for other traces), aliases (the pool with\n"
     "ACLMEM_POOL_ALIASES), mempool (aclrtMemPool*) or malloc\n"
     "(aclrtMalloc)",
     0},
    {"backend", OPTION_WORD, &choice.backend, "host|cuda",
     "Use this backend (ACLMEM_BACKEND)", 0},
    {"speed", OPTION_WORD, &choice.speed, "max|recorded",
     "Make the calls as fast as possible (max, the default), or\n"
     "at their recorded times (recorded)",
     0},
    {"host-memory", OPTION_TEXT, &choice.host_memory, "SIZE",
     "Leave out calls with which pinned memory, managed memory\n"
     "and the program's own memory would exceed SIZE, such as 8G\n"
     "(default: half of the memory of this machine)",
     0},
    {"json", OPTION_OUTPUT, &choice.json, "FILE", "Print JSON, or write it to FILE", 'j'},
    {0},
};

static const struct exit_code exits[] = {
    {"1", "failure, or a call returned another code than in the recording"},
    {0},
};

const struct command replay_command = {
    .name = "replay",
    .group = GROUP_TRACE,
    .operands = "TRACE",
    .help = "Make the calls of a trace again, or give its blocks to an allocator",
    .options = options,
    .examples =
        "  aclmem replay run.trace                    Make the recorded calls again\n"
        "  aclmem replay snapshot.pickle --allocator pool\n"
        "                                             Measure the pool on a trace of "
        "PyTorch\n",
    .exits = exits,
    .run = replay_run,
};
