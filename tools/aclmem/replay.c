/*
 * aclmem replay: the blocks of a recorded program, given to an allocator of ours.
 *
 * A trace has a line for each event, `a ID SIZE STREAM` or `f ID`, and may be compressed with
 * gzip; or it is one that `aclmem run --trace` recorded.  It is read once and played twice: for
 * the figures, which are asked for after each block, and for the time, with nothing in between.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <zlib.h>

#include "acl/acl.h"
#include "aclmem/aclmem.h"
#include "aclmem/pool.h"
#include "command.h"
#include "play.h"
#include "text.h"
#include "trace/reader.h"

#define MAX_STREAMS 64
#define MAX_SIZE ((uint64_t)1 << 44) /* more than a device has */
#define PAGE ((size_t)2 << 20)

static struct {
    bool is_json;
    const char *allocator;
    const char *backend;
    const char *speed;
} choice;

struct event {
    uint64_t size;  /* 0: a free */
    uint32_t block; /* blocks are numbered as they come */
    uint32_t stream;
};

struct recording {
    struct event *events;
    size_t n_events, room;
    uint32_t *blocks; /* a table from ids: the newest block of each, + 1 */
    uint64_t *ids;
    size_t n_slots, n_ids;
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
    void (*figures)(struct result *result); /* NULL: what the device has less counts */
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

static void *grown(void *old, size_t size)
{
    void *memory = realloc(old, size);

    if (memory == NULL) {
        fprintf(stderr, "aclmem: no memory for the trace\n");
        exit(1);
    }
    return memory;
}

static size_t slot_of(const struct recording *t, uint64_t id)
{
    size_t i = (size_t)(id * 0x9e3779b97f4a7c15 >> 20) & (t->n_slots - 1);

    while (t->blocks[i] != 0 && t->ids[i] != id)
        i = (i + 1) & (t->n_slots - 1);
    return i;
}

static void ids_grow(struct recording *t)
{
    struct recording old = *t;

    t->n_slots = old.n_slots == 0 ? 4096 : 2 * old.n_slots;
    t->blocks = grown(NULL, t->n_slots * sizeof *t->blocks);
    t->ids = grown(NULL, t->n_slots * sizeof *t->ids);
    memset(t->blocks, 0, t->n_slots * sizeof *t->blocks);
    for (size_t i = 0; i < old.n_slots; i++) {
        if (old.blocks[i] != 0) {
            size_t to = slot_of(t, old.ids[i]);

            t->ids[to] = old.ids[i];
            t->blocks[to] = old.blocks[i];
        }
    }
    free(old.blocks);
    free(old.ids);
}

static void recording_add(struct recording *t, struct event event)
{
    if (t->n_events == t->room) {
        t->room = t->room == 0 ? 4096 : 2 * t->room;
        t->events = grown(t->events, t->room * sizeof *t->events);
    }
    t->events[t->n_events++] = event;
}

/* One line: whether it is one of a trace. */
static bool line_read(struct recording *t, const char *line)
{
    unsigned long long id, size, stream = 0;
    size_t slot;
    char end;
    int n = sscanf(line, "a %llu %llu %llu %c", &id, &size, &stream, &end);
    bool is_take = n == 2 || n == 3;

    if (2 * t->n_ids >= t->n_slots)
        ids_grow(t);
    if (strchr(line, '-') != NULL) /* sscanf() takes it for a large number */
        return false;
    if (is_take && size > 0 && size <= MAX_SIZE && stream < MAX_STREAMS &&
        t->n_blocks < UINT32_MAX) {
        slot = slot_of(t, id);
        t->n_ids += t->blocks[slot] == 0;
        t->ids[slot] = id;
        t->blocks[slot] = ++t->n_blocks;
        if (stream >= t->n_streams)
            t->n_streams = (uint32_t)stream + 1;
        recording_add(t, (struct event){size, t->n_blocks - 1, (uint32_t)stream});
        return true;
    }
    if (is_take || sscanf(line, "f %llu %c", &id, &end) != 1)
        return false;
    slot = slot_of(t, id);
    if (t->blocks[slot] == 0)
        t->n_skipped++;
    else
        recording_add(t, (struct event){0, t->blocks[slot] - 1, 0});
    return true;
}

/* Frees of blocks that are free are dropped; the peak of what is live is counted. */
static void recording_finish(struct recording *t)
{
    uint64_t *live = grown(NULL, (t->n_blocks + 1) * sizeof *live);
    uint64_t now = 0;
    size_t n = 0;

    memset(live, 0, (t->n_blocks + 1) * sizeof *live);
    for (size_t i = 0; i < t->n_events; i++) {
        struct event *e = &t->events[i];

        if (e->size == 0 && live[e->block] == 0) {
            t->n_skipped++;
            continue;
        }
        now += e->size - (e->size == 0 ? live[e->block] : 0);
        live[e->block] = e->size;
        if (now > t->peak_live)
            t->peak_live = now;
        t->events[n++] = *e;
    }
    t->n_events = n;
    free(live);
}

/* ---- traces of `aclmem run --trace` ---- */

static bool is_one_of(const char *name, const char *const *names)
{
    for (; *names != NULL; names++) {
        if (strcmp(name, *names) == 0)
            return true;
    }
    return false;
}

/* A small number for a stream; those beyond the last share it. */
static unsigned stream_number(uint64_t *streams, unsigned *n, uint64_t stream)
{
    for (unsigned i = 0; i < *n; i++) {
        if (streams[i] == stream)
            return i;
    }
    if (*n == MAX_STREAMS)
        return MAX_STREAMS - 1;
    streams[*n] = stream;
    return (*n)++;
}

/* The blocks of all processes, as the lines that a plain trace would have. */
static int recording_read_calls(struct recording *t, const char *path)
{
    static const char *const takes[] = {
        "aclrtMalloc",        "aclrtMallocAlign32",      "aclrtMallocCached",
        "aclrtMallocWithCfg", "aclrtMemPoolMallocAsync", NULL};
    static const char *const gives[] = {"aclrtFree", "aclrtFreeWithDevSync",
                                        "aclrtMemPoolFreeAsync", NULL};
    uint64_t streams[MAX_STREAMS] = {0};
    unsigned n_streams = 1; /* the default one */
    char why[TRACE_WHY_SIZE];
    char line[128];
    struct trace *trace = trace_open(path, why);
    struct trace_event event;

    if (trace == NULL) {
        fprintf(stderr, "aclmem: %s\n", why);
        return 1;
    }
    while (trace_next(trace, &event)) {
        bool is_take, is_give;
        uint64_t id;

        if ((event.kind != TRACE_CALL && event.kind != TRACE_END) ||
            event.result != ACL_SUCCESS)
            continue;
        is_take = is_one_of(event.function->name, takes);
        is_give = is_one_of(event.function->name, gives);
        id = trace_number(&event, trace_arg(&event, "devPtr") != NULL ? "devPtr" : "ptr");
        id ^= (uint64_t)event.process->number << 52;
        if (is_take)
            snprintf(line, sizeof line, "a %" PRIu64 " %" PRIu64 " %u", id,
                     trace_number(&event, "size"),
                     stream_number(streams, &n_streams, trace_number(&event, "stream")));
        else if (is_give)
            snprintf(line, sizeof line, "f %" PRIu64, id);
        if (is_take || is_give)
            line_read(t, line);
    }
    trace_close(trace);
    return 0;
}

/* 0, or what to exit with. */
static int recording_read_lines(struct recording *t, const char *path)
{
    gzFile file = gzopen(path, "rb");
    unsigned long n_lines = 0;
    char line[256];
    int error = Z_OK;
    int rc = 0;

    if (file == NULL) {
        fprintf(stderr, "aclmem replay: %s: %m\n", path);
        return 1;
    }
    while (rc == 0 && gzgets(file, line, sizeof line) != NULL) {
        n_lines++;
        if (strspn(line, " \t\r\n") == strlen(line) || line[0] == '#')
            continue;
        if (!line_read(t, line)) {
            fprintf(stderr,
                    "aclmem replay: %s:%lu: neither \"a ID SIZE STREAM\" nor \"f ID\" "
                    "(sizes go "
                    "from 1 to %" PRIu64 ", streams from 0 to %d)\n",
                    path, n_lines, MAX_SIZE, MAX_STREAMS - 1);
            rc = 1;
        }
    }
    gzerror(file, &error);
    if (rc == 0 && error != Z_OK && error != Z_STREAM_END) {
        fprintf(stderr, "aclmem: %s%s%s\n", path,
                error == Z_ERRNO ? ": " : " is damaged, or cut off",
                error == Z_ERRNO ? strerror(errno) : "");
        rc = 1;
    }
    gzclose(file);
    return rc;
}

static int recording_read(struct recording *t, const char *path)
{
    int rc =
        trace_is(path) ? recording_read_calls(t, path) : recording_read_lines(t, path);

    if (rc == 0 && t->n_events == 0) {
        fprintf(stderr, "aclmem replay: %s: it has no blocks\n", path);
        rc = 1;
    }
    if (rc == 0)
        recording_finish(t);
    return rc;
}

static void recording_drop(struct recording *t)
{
    free(t->events);
    free(t->blocks);
    free(t->ids);
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

/* All events; with a watch the device is looked at after each block. */
static int play(const struct recording *t, const struct allocator *a,
                aclrtStream *streams, struct watch *watch, struct result *result)
{
    void **ptr = grown(NULL, t->n_blocks * sizeof *ptr);
    uint32_t *stream = grown(NULL, t->n_blocks * sizeof *stream);
    double start = seconds();
    aclError rc = ACL_SUCCESS;

    memset(ptr, 0, t->n_blocks * sizeof *ptr);
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
    if (rc == ACL_SUCCESS && a->figures != NULL)
        a->figures(result);
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
        bool is_watched = i == 0 && a->figures == NULL;
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

static void result_print(const struct recording *t, const struct result *r)
{
    double ratio = (double)t->peak_live / (double)r->peak_held;
    char live[32], held[32];

    if (choice.is_json) {
        printf("{\"peak_live\": %llu, \"peak_held\": %llu, \"ratio\": %.4f, \"creates\": "
               "%llu, "
               "\"remaps\": %llu, \"ns_per_op\": %.0f}\n",
               (unsigned long long)t->peak_live, (unsigned long long)r->peak_held, ratio,
               (unsigned long long)r->creates, (unsigned long long)r->remaps,
               r->ns_per_op);
        return;
    }
    printf("%u blocks, %zu operations on %u streams", t->n_blocks, t->n_events,
           t->n_streams);
    if (t->n_skipped > 0)
        printf(", %llu frees of blocks that the trace does not have",
               (unsigned long long)t->n_skipped);
    printf("\npeak live   %s\npeak held   %s\nratio       %.4f\n",
           size_text((long long)t->peak_live, live, sizeof live),
           size_text((long long)r->peak_held, held, sizeof held), ratio);
    printf("pages       %llu created, %llu moved\ntime        %.0f ns an operation\n",
           (unsigned long long)r->creates, (unsigned long long)r->remaps, r->ns_per_op);
}

/* A trace that has calls: all of them are made again. */
static int calls_replay(const char *path)
{
    struct play_choice how = {.backend = choice.backend, .is_json = choice.is_json};

    if (!trace_is(path))
        return usage_fail("replay", "as-is is for traces of aclmem run --trace");
    if (choice.speed != NULL && strcmp(choice.speed, "max") != 0 &&
        strcmp(choice.speed, "recorded") != 0)
        return usage_fail("replay", "--speed takes max or recorded");
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
    if (choice.backend != NULL && strcmp(choice.backend, "host") != 0 &&
        strcmp(choice.backend, "cuda") != 0)
        return usage_fail("replay", "--backend takes host or cuda, not \"%s\"",
                          choice.backend);
    if (choice.backend != NULL)
        setenv("ACLMEM_BACKEND", choice.backend, 1);
    if (choice.allocator == NULL ? trace_is(argv[0])
                                 : strcmp(choice.allocator, "as-is") == 0)
        return calls_replay(argv[0]);
    if (a == NULL)
        return usage_fail("replay", "there is no allocator \"%s\"", name);
    exit_code = recording_read(&trace, argv[0]);
    if (exit_code == 0) {
        /* Devices that are played may have what the trace needs, with room to be wasteful. */
        snprintf(memory, sizeof memory, "%lluM",
                 (unsigned long long)(trace.peak_live >> 20) * 3 / 2 + 256);
        setenv("ACLMEM_MEMORY", memory, 0);
        rc = aclInit(NULL);
        exit_code = rc == ACL_SUCCESS ? replay_on_device(&trace, a, &result)
                                      : failed("aclInit", rc);
        aclFinalize();
    }
    if (exit_code == 0)
        result_print(&trace, &result);
    recording_drop(&trace);
    return exit_code;
}

static const struct option options[] = {
    {"allocator", OPTION_TEXT, &choice.allocator, "NAME",
     "as-is (all calls of a trace of ours, the default for one),\n"
     "pool (libaclmem_pool.so; the default for blocks),\n"
     "aliases (the pool with ACLMEM_POOL_ALIASES),\n"
     "mempool (aclrtMemPool*) or malloc (aclrtMalloc)"},
    {"backend", OPTION_TEXT, &choice.backend, "NAME", "host or cuda (ACLMEM_BACKEND)"},
    {"speed", OPTION_TEXT, &choice.speed, "SPEED",
     "of as-is: max (the default), or recorded"},
    {"json", OPTION_FLAG, &choice.is_json, NULL, "print JSON"},
    {0},
};

const struct command replay_command = {
    .name = "replay",
    .operands = "TRACE",
    .help = "makes the calls of a trace again, or gives its blocks to an allocator",
    .options = options,
    .run = replay_run,
};
