/*
 * An oracle for the order of work:
 *     oracle [FIRST [COUNT]] | --print SEED | --crowd THREADS FIRST COUNT
 *
 * A generator makes small random programs of streams, events (recorded again, reset,
 * destroyed, waited for before the record), notifies, values that streams wait for and that
 * streams and the host write again, host functions that hold a stream back, accesses
 * through two mappings of the same memory, accesses of the host, frees, mappings that end,
 * threads of the host, and synchronisation of every kind.  Brute force computes from the
 * text of a program which pairs of operations are ordered in every execution (oracle.c).
 * Then:
 *     a program whose conflicting accesses are all ordered has no finding;
 *     one synchronisation that matters is removed: a race, or a free of memory in use, is
 *     reported, and every reported pair is one that nothing orders.
 * With --crowd each of several threads runs COUNT correct programs at the same time.
 */
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "aclmem/aclmem.h"
#include "oracle.h"

#define CHUNK ((size_t)2 << 20)

/* What a program works with. */
struct world {
    aclrtStream stream[N_STREAMS]; /* STREAM_DEFAULT: NULL */
    aclrtEvent event[N_EVENTS];
    aclrtEvent early[N_EARLY];
    aclrtNotify notify[N_NOTIFIES];
    uint64_t *words;
    char *buffer[N_BUFFERS][2];
    aclrtDrvMemHandle handle; /* of the last buffer */
    char *scratch;
    size_t used;
    atomic_int is_open;
};

static struct world first_world;
static _Thread_local struct world *x = &first_world;

static void must(aclError rc, int line)
{
    if (rc == ACL_SUCCESS)
        return;
    fprintf(stderr, "oracle:%d: %d: %s\n", line, rc, aclGetRecentErrMsg());
    exit(3);
}
#define MUST(call_) must(call_, __LINE__)

static void gate(void *is_open)
{
    while (!atomic_load((atomic_int *)is_open))
        sched_yield();
}

/* ---- operations ---- */

static void access_run(const struct op *op)
{
    char *at = x->buffer[op->what][op->alias] + (op->part == 2 ? SIZE / 2 : 0);
    size_t size = op->part == 0 ? SIZE : SIZE / 2;
    aclrtStream stream = x->stream[op->stream];
    char host[SIZE];
    void *block;

    switch (op->type) {
    case WRITE:
        MUST(aclrtMemsetAsync(at, size, 1, size, stream));
        break;
    case READ:
        MUST(aclrtMemcpyAsync(x->scratch + x->used, SIZE, at, size,
                              ACL_MEMCPY_DEVICE_TO_DEVICE, stream));
        x->used += SIZE;
        break;
    case HOST_WRITE:
        MUST(aclrtMemset(at, size, 1, size));
        break;
    case HOST_READ:
        MUST(aclrtMemcpy(host, SIZE, at, size, ACL_MEMCPY_DEVICE_TO_HOST));
        break;
    case FREE:
        MUST(aclrtFree(at));
        MUST(aclrtMalloc(&block, SIZE, ACL_MEM_MALLOC_HUGE_FIRST));
        x->buffer[op->what][0] = x->buffer[op->what][1] = block;
        break;
    default: /* REMAP */
        MUST(aclrtUnmapMem(at));
        MUST(aclrtMapMem(at, CHUNK, 0, x->handle, 0));
    }
}

static void sync_run(const struct op *op)
{
    aclrtStream stream = x->stream[op->stream];
    aclrtStreamStatus stream_status = ACL_STREAM_STATUS_NOT_READY;
    aclrtEventRecordedStatus status = ACL_EVENT_RECORDED_STATUS_NOT_READY;
    bool polls = op->alias != 0;

    atomic_store(&x->is_open, 1);
    if (op->type == SYNC_DEVICE)
        MUST(polls ? aclrtSynchronizeDeviceWithTimeout(600000)
                   : aclrtSynchronizeDevice());
    else if (op->type == SYNC_STREAM && !polls)
        MUST(aclrtSynchronizeStream(stream));
    else if (op->type == SYNC_EVENT && !polls)
        MUST(aclrtSynchronizeEvent(x->event[op->what]));
    while (op->type == SYNC_STREAM && polls &&
           stream_status != ACL_STREAM_STATUS_COMPLETE) {
        MUST(aclrtStreamQuery(stream, &stream_status));
        sched_yield();
    }
    while (op->type == SYNC_EVENT && polls &&
           status != ACL_EVENT_RECORDED_STATUS_COMPLETE) {
        MUST(aclrtQueryEventStatus(x->event[op->what], &status));
        sched_yield();
    }
}

static void order_run(const struct op *op)
{
    aclrtStream stream = x->stream[op->stream];
    uint64_t value = (uint64_t)op->part;

    switch (op->type) {
    case RECORD:
        MUST(aclrtRecordEvent(x->event[op->what], stream));
        break;
    case WAIT:
        MUST(aclrtStreamWaitEvent(stream, x->event[op->what]));
        break;
    case WAIT_EARLY:
        MUST(aclrtStreamWaitEvent(stream, x->early[op->what]));
        break;
    case RECORD_EARLY:
        MUST(aclrtRecordEvent(x->early[op->what], stream));
        break;
    case RESET_EARLY:
        MUST(aclrtResetEvent(x->early[op->what], stream));
        break;
    case RECORD_NOTIFY:
        MUST(aclrtRecordNotify(x->notify[op->what], stream));
        break;
    case WAIT_NOTIFY:
        MUST(aclrtWaitAndResetNotify(x->notify[op->what], stream, 0));
        break;
    case WRITE_VALUE:
        MUST(aclrtValueWrite(&x->words[op->what], value, 0, stream));
        break;
    case WAIT_VALUE:
        MUST(aclrtValueWait(&x->words[op->what], value, (uint32_t)op->alias, stream));
        break;
    case HOST_VALUE:
        MUST(aclrtMemcpy(&x->words[op->what], sizeof value, &value, sizeof value,
                         ACL_MEMCPY_HOST_TO_DEVICE));
        break;
    case RENEW:
        MUST(aclrtDestroyEvent(x->event[op->what]));
        MUST(aclrtCreateEventExWithFlag(&x->event[op->what], ACL_EVENT_SYNC));
        break;
    case RENEW_STREAM:
        atomic_store(&x->is_open, 1);
        MUST(aclrtDestroyStream(stream));
        MUST(aclrtCreateStream(&x->stream[op->stream]));
        break;
    default: /* GATE */
        atomic_store(&x->is_open, 0);
        MUST(aclrtLaunchHostFunc(stream, gate, &x->is_open));
    }
}

__attribute__((noinline)) static void op_run(const struct op *op)
{
    if (op->type == NOTHING)
        return;
    if (op->type <= REMAP)
        access_run(op);
    else if (op->type >= SYNC_STREAM && op->type <= SYNC_DEVICE)
        sync_run(op);
    else
        order_run(op);
}

OP_FUNCTIONS(run)

/* ---- threads: one after the other, in the order of the text ---- */

static struct {
    sem_t begin[N_THREADS];
    sem_t end;
    const struct op *op;
    struct world *world;
    int number;
} turn;

/*
 * A thread that queued a function and makes no call for 100 ms seems to wait for the
 * function, so a thread makes calls until its next operation.
 */
static void turn_await(sem_t *begin, aclrtEvent event)
{
    struct timespec until;
    uint32_t id;

    do {
        MUST(aclrtGetEventId(event, &id));
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += 1000000;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
    } while (sem_timedwait(begin, &until) != 0);
}

static void *thread_main(void *arg)
{
    sem_t *begin = arg;
    aclrtEvent event;

    MUST(aclrtSetDevice(0));
    MUST(aclrtCreateEvent(&event));
    for (;;) {
        turn_await(begin, event);
        x = turn.world;
        run[turn.number](turn.op);
        sem_post(&turn.end);
    }
    return NULL;
}

static void threads_start(void)
{
    sem_init(&turn.end, 0, 0);
    for (int i = 0; i < N_THREADS; i++) {
        pthread_t thread;

        sem_init(&turn.begin[i], 0, 0);
        if (pthread_create(&thread, NULL, thread_main, &turn.begin[i]) != 0)
            abort();
        pthread_detach(thread);
    }
}

static void ops_run(const struct program *p)
{
    for (int i = 0; i < p->n; i++) {
        if (!p->has_threads) {
            run[i](&p->op[i]);
            continue;
        }
        turn.op = &p->op[i];
        turn.world = x;
        turn.number = i;
        sem_post(&turn.begin[p->op[i].thread]);
        while (sem_wait(&turn.end) != 0)
            ;
    }
}

/* ---- running a program ---- */

static void program_open(void)
{
    x->used = 0;
    for (int i = 0; i < N_BUFFERS - 1; i++) {
        MUST(aclrtMalloc((void **)&x->buffer[i][0], SIZE, ACL_MEM_MALLOC_HUGE_FIRST));
        x->buffer[i][1] = x->buffer[i][0];
    }
    for (int i = 0; i < N_EVENTS; i++)
        MUST(aclrtCreateEventExWithFlag(&x->event[i], ACL_EVENT_SYNC));
    for (int i = 0; i < N_EARLY; i++)
        MUST(aclrtCreateEvent(&x->early[i]));
    for (int i = 0; i < N_NOTIFIES; i++)
        MUST(aclrtCreateNotify(&x->notify[i], 0));
    MUST(aclrtMemset(x->words, SIZE, 0, SIZE));
}

static void program_close(void)
{
    atomic_store(&x->is_open, 1);
    MUST(aclrtSynchronizeDevice());
    for (int i = 0; i < N_EVENTS; i++)
        MUST(aclrtDestroyEvent(x->event[i]));
    for (int i = 0; i < N_EARLY; i++)
        MUST(aclrtDestroyEvent(x->early[i]));
    for (int i = 0; i < N_NOTIFIES; i++)
        MUST(aclrtDestroyNotify(x->notify[i]));
    for (int i = 0; i < N_BUFFERS - 1; i++)
        MUST(aclrtFree(x->buffer[i][0]));
}

static char *program_run(const struct program *p)
{
    char *found;

    program_open();
    MUST(aclmem_check_begin(0));
    ops_run(p);
    MUST(aclmem_check_end(0, &found));
    program_close();
    return found;
}

/* ---- the comparison ---- */

static bool is_bad(const char *what, uint64_t seed, const struct program *p,
                   const char *found)
{
    printf("seed %llu: %s\n", (unsigned long long)seed, what);
    program_print(p);
    races_print(p);
    printf("%s\n", found);
    return false;
}

/* Every finding is about two operations that nothing orders. */
static bool findings_are_right(uint64_t seed, const struct program *p, const char *found)
{
    struct order o;
    int n = 0;

    order_compute(p, &o);
    for (const char *at = strstr(found, "\"kind\":"); at != NULL;) {
        const char *next = strstr(at + 7, "\"kind\":");
        int op[2] = {-1, -1};
        int n_ops = 0;

        for (const char *f = strstr(at, "\"op_");
             f != NULL && n_ops < 2 && (next == NULL || f < next);
             f = strstr(f + 4, "\"op_"))
            op[n_ops++] = atoi(f + 4);
        if (strncmp(at + 7, "\"race\"", 6) != 0 &&
            strncmp(at + 7, "\"free-in-use\"", 13) != 0)
            return is_bad("another kind of finding", seed, p, found);
        if (n_ops < 2 || op[0] == op[1] ||
            !is_race(p, &o, op[0] < op[1] ? op[0] : op[1], op[0] < op[1] ? op[1] : op[0]))
            return is_bad("a finding about operations that are ordered", seed, p, found);
        n++;
        at = next;
    }
    if (n == 0 && has_race(p, &o))
        return is_bad("a race is not reported", seed, p, found);
    return true;
}

static bool is_right(uint64_t seed, const struct program *p)
{
    char *found = program_run(p);
    bool is_it = findings_are_right(seed, p, found);

    free(found);
    return is_it;
}

/* The calling thread's world. */
static void world_open(void)
{
    aclrtPhysicalMemProp prop = {
        .memAttr = ACL_HBM_MEM_HUGE,
        .location = {.id = 0, .type = ACL_MEM_LOCATION_TYPE_DEVICE}};

    for (int i = 0; i < N_STREAMS; i++) {
        if (i != STREAM_DEFAULT)
            MUST(aclrtCreateStream(&x->stream[i]));
    }
    MUST(aclrtMalloc((void **)&x->scratch, (size_t)N_OPS * SIZE,
                     ACL_MEM_MALLOC_HUGE_FIRST));
    MUST(aclrtMalloc((void **)&x->words, SIZE, ACL_MEM_MALLOC_HUGE_FIRST));
    MUST(aclrtMallocPhysical(&x->handle, CHUNK, &prop, 0));
    for (int i = 0; i < 2; i++) {
        MUST(aclrtReserveMemAddress((void **)&x->buffer[N_BUFFERS - 1][i], CHUNK, 0, NULL,
                                    1));
        MUST(aclrtMapMem(x->buffer[N_BUFFERS - 1][i], CHUNK, 0, x->handle, 0));
    }
}

static void setup(void)
{
    MUST(aclInit(NULL));
    MUST(aclrtSetDevice(0));
    world_open();
    threads_start();
}

/* ---- correct programs in several threads at once ---- */

struct member {
    pthread_t thread;
    struct world world;
    uint64_t first;
    uint64_t count;
};

static void *member_main(void *arg)
{
    struct member *member = arg;
    aclrtContext context;
    struct program p;

    x = &member->world;
    MUST(aclrtCreateContext(&context, 0)); /* with another default stream */
    world_open();
    for (uint64_t i = 0; i < member->count; i++) {
        program_generate(member->first + i, &p);
        p.has_threads = false;
        program_open();
        ops_run(&p);
        program_close();
    }
    return NULL;
}

/* Whether none of the programs has a finding. */
static bool crowd_is_right(unsigned n_threads, uint64_t first, uint64_t count)
{
    struct member *members = calloc(n_threads, sizeof *members);
    bool is_right;
    char *found;

    if (members == NULL)
        abort();
    MUST(aclmem_check_begin(0));
    for (unsigned i = 0; i < n_threads; i++) {
        members[i].first = first + i * count;
        members[i].count = count;
        if (pthread_create(&members[i].thread, NULL, member_main, &members[i]) != 0)
            abort();
    }
    for (unsigned i = 0; i < n_threads; i++)
        pthread_join(members[i].thread, NULL);
    MUST(aclmem_check_end(0, &found));
    is_right = strcmp(found, "[]") == 0;
    printf("%u threads, seeds %llu to %llu: %s\n", n_threads, (unsigned long long)first,
           (unsigned long long)(first + n_threads * count - 1),
           is_right ? "right" : found);
    fflush(stdout);
    return is_right;
}

int main(int argc, char **argv)
{
    bool is_crowd = argc > 4 && strcmp(argv[1], "--crowd") == 0;
    bool is_printing = argc > 2 && strcmp(argv[1], "--print") == 0;
    uint64_t first =
        argc > 1 ? strtoull(argv[argc > 2 && is_printing ? 2 : 1], NULL, 0) : 1;
    uint64_t count = argc > 2 && !is_printing ? strtoull(argv[2], NULL, 0) : 1;
    uint64_t n_broken = 0;
    uint64_t n_wrong = 0;
    uint64_t n = 0;
    struct program p;

    if (!is_printing)
        setup();
    if (is_crowd)
        _Exit(!crowd_is_right((unsigned)atoi(argv[2]), strtoull(argv[3], NULL, 0),
                              strtoull(argv[4], NULL, 0)));
    for (uint64_t seed = first; seed < first + count; seed++) {
        program_generate(seed, &p);
        if (p.n == 0)
            continue;
        if (is_printing) {
            program_print(&p);
            continue;
        }
        n++;
        n_wrong += !is_right(seed, &p);
        if (!program_break(&p))
            continue;
        n_broken++;
        n_wrong += !is_right(seed, &p);
    }
    if (!is_printing)
        printf(
            "seeds %llu to %llu: %llu correct programs, %llu broken ones, %llu wrong\n",
            (unsigned long long)first, (unsigned long long)(first + count - 1),
            (unsigned long long)n, (unsigned long long)n_broken,
            (unsigned long long)n_wrong);
    fflush(stdout);
    _Exit(n_wrong > 0);
}
