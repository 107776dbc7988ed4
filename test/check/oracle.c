/*
 * An oracle for the order of work: oracle [FIRST [COUNT]] | --print SEED
 *
 * A generator makes small random programs of streams, events (recorded again, destroyed,
 * waited for before the record), host functions that hold a stream back, accesses through
 * two mappings of the same memory, accesses of the host, frees and synchronisation.  Brute
 * force computes from the text of a program which pairs of operations are ordered in every
 * execution.  Then:
 *     a program whose conflicting accesses are all ordered has no finding;
 *     one synchronisation that matters is removed: a race, or a free of memory in use, is
 *     reported, and every reported pair is one that nothing orders.
 *
 * The layer assumes that a function may notify the host (docs/CHECK.md), so a pair that is
 * ordered by this alone may be reported or not.
 */
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "acl/acl.h"
#include "aclmem/aclmem.h"

#define N_OPS 40
#define N_STREAMS 4 /* the last one never waits: it makes records that were waited for */
#define N_EVENTS 3
#define N_EARLY 2   /* events that are waited for before their record */
#define N_BUFFERS 3 /* the last one has two addresses */
#define SIZE 64
#define CHUNK ((size_t)2 << 20)

enum type {
    NOTHING,
    WRITE,        /* stream, buffer */
    READ,         /* stream, buffer */
    HOST_WRITE,   /* buffer */
    HOST_READ,    /* buffer */
    FREE,         /* buffer; a new one has its name from then on */
    RECORD,       /* stream, event */
    WAIT,         /* stream, event */
    WAIT_EARLY,   /* stream, early event */
    RECORD_EARLY, /* stream, early event */
    RENEW,        /* event: destroyed and made again */
    SYNC_STREAM,  /* stream */
    SYNC_EVENT,   /* event */
    SYNC_DEVICE,
    GATE, /* stream: a function that returns before the host next waits */
};

struct op {
    enum type type;
    int stream;
    int what;  /* the buffer or event */
    int alias; /* which address of the buffer */
};

struct program {
    struct op op[N_OPS];
    int n;
};

/* ---- text ---- */

static void op_print(int i, const struct op *op)
{
    static const char *const forms[] = {
        [NOTHING] = "",
        [WRITE] = "aclrtMemsetAsync(b%2$d[%3$d], 64, 1, 64, s%1$d);",
        [READ] = "aclrtMemcpyAsync(scratch(), 64, b%2$d[%3$d], 64, D2D, s%1$d);",
        [HOST_WRITE] = "aclrtMemset(b%2$d[%3$d], 64, 1, 64);",
        [HOST_READ] = "aclrtMemcpy(host, 64, b%2$d[%3$d], 64, D2H);",
        [FREE] = "aclrtFree(b%2$d); aclrtMalloc(&b%2$d, 64, 0);",
        [RECORD] = "aclrtRecordEvent(e%2$d, s%1$d);",
        [WAIT] = "aclrtStreamWaitEvent(s%1$d, e%2$d);",
        [WAIT_EARLY] = "aclrtStreamWaitEvent(s%1$d, early%2$d);",
        [RECORD_EARLY] = "aclrtRecordEvent(early%2$d, s%1$d);",
        [RENEW] = "aclrtDestroyEvent(e%2$d); aclrtCreateEventExWithFlag(&e%2$d, SYNC);",
        [SYNC_STREAM] = "aclrtSynchronizeStream(s%1$d);",
        [SYNC_EVENT] = "aclrtSynchronizeEvent(e%2$d);",
        [SYNC_DEVICE] = "aclrtSynchronizeDevice();",
        [GATE] = "aclrtLaunchHostFunc(s%1$d, gate, NULL);",
    };

    if (op->type == NOTHING)
        return;
    printf("    ");
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
#pragma GCC diagnostic ignored "-Wformat-security"
    printf(forms[op->type], op->stream, op->what, op->alias);
#pragma GCC diagnostic pop
    printf(" /* op_%d */\n", i);
}

static void program_print(const struct program *p)
{
    for (int i = 0; i < p->n; i++)
        op_print(i, &p->op[i]);
}

/* ---- order, by brute force ---- */

/*
 * Bit j of before[i]: operation j ended before i began, in every execution.  A node of the
 * host is the return of its call; a node of a stream is the work.
 */
struct order {
    uint64_t work[N_OPS]; /* what is before the work of i; of a host's call: before it */
    uint64_t host[N_OPS]; /* what the host knows when call i returns */
};

static bool is_access(const struct op *op)
{
    return op->type >= WRITE && op->type <= FREE;
}

static bool is_on_stream(const struct op *op)
{
    return op->type == WRITE || op->type == READ || op->type == RECORD ||
           op->type == WAIT || op->type == WAIT_EARLY || op->type == RECORD_EARLY ||
           op->type == GATE;
}

/* The record that operation i waits for; -1: none. */
static int record_of(const struct program *p, int i)
{
    const struct op *op = &p->op[i];

    if (op->type == WAIT_EARLY) {
        for (int k = 0; k < p->n; k++) {
            if (p->op[k].type == RECORD_EARLY && p->op[k].what == op->what)
                return k;
        }
        return -1;
    }
    for (int k = i - 1; k >= 0; k--) {
        if (p->op[k].what != op->what)
            continue;
        if (p->op[k].type == RECORD)
            return k;
        if (p->op[k].type == RENEW)
            return -1;
    }
    return -1;
}

/* Repeats the rules until nothing changes.  Weak: a function tells the host. */
static void order_compute(const struct program *p, bool is_weak, struct order *o)
{
    bool is_changed = true;

    memset(o, 0, sizeof *o);
    while (is_changed) {
        is_changed = false;
        for (int i = 0; i < p->n; i++) {
            const struct op *op = &p->op[i];
            uint64_t known = i > 0 ? o->host[i - 1] : 0;
            uint64_t work = known;
            uint64_t host = known;

            if (is_on_stream(op)) {
                for (int k = 0; k < i; k++) {
                    if (is_on_stream(&p->op[k]) && p->op[k].stream == op->stream)
                        work |= o->work[k] | (uint64_t)1 << k;
                }
            } else {
                host |= (uint64_t)1 << i;
            }
            if ((op->type == WAIT || op->type == WAIT_EARLY || op->type == SYNC_EVENT) &&
                record_of(p, i) >= 0) {
                int k = record_of(p, i);
                uint64_t more = o->work[k] | (uint64_t)1 << k;

                if (op->type == SYNC_EVENT)
                    host |= more;
                else
                    work |= more;
            }
            for (int k = 0; k < i; k++) {
                const struct op *other = &p->op[k];

                if (is_on_stream(other) &&
                    (op->type == SYNC_DEVICE ||
                     (op->type == SYNC_STREAM && other->stream == op->stream) ||
                     (is_weak && other->type == GATE)))
                    host |= o->work[k] | (uint64_t)1 << k;
            }
            if (!is_on_stream(op) && !is_weak)
                work = known;
            is_changed |= work != o->work[i] || host != o->host[i];
            o->work[i] = work;
            o->host[i] = host;
        }
    }
}

static bool is_write(const struct op *op)
{
    return op->type == WRITE || op->type == HOST_WRITE || op->type == FREE;
}

/* Whether i and k, k before i in the text, are accesses that nothing orders. */
static bool is_race(const struct program *p, const struct order *o, int k, int i)
{
    const struct op *a = &p->op[k];
    const struct op *b = &p->op[i];

    if (!is_access(a) || !is_access(b) || a->what != b->what ||
        (!is_write(a) && !is_write(b)))
        return false;
    for (int n = k; n < i; n++) {
        if (p->op[n].type == FREE && p->op[n].what == a->what && n != k)
            return false; /* another buffer has the name since */
    }
    if (a->type == FREE)
        return false;
    return !(o->work[i] & (uint64_t)1 << k) && !(o->work[k] & (uint64_t)1 << i);
}

static bool has_race(const struct program *p, const struct order *o)
{
    for (int i = 0; i < p->n; i++) {
        for (int k = 0; k < i; k++) {
            if (is_race(p, o, k, i))
                return true;
        }
    }
    return false;
}

/* ---- the generator ---- */

static uint64_t state;

static int below(int n)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (int)(state >> 11) & 0x7fffffff ? (int)((state >> 11) % (uint64_t)n) : 0;
}

static void add(struct program *p, struct op op)
{
    if (p->n < N_OPS)
        p->op[p->n++] = op;
}

/* Records that early waits are for, before the host waits for anything. */
static void early_end(struct program *p, bool *is_early)
{
    for (int e = 0; e < N_EARLY; e++) {
        if (is_early[e])
            add(p, (struct op){RECORD_EARLY, N_STREAMS - 1, e, 0});
        is_early[e] = false;
    }
}

/* Orders the last operation after k: by an event, or by the host. */
static void order_after(struct program *p, int k, bool *is_early)
{
    struct op last = p->op[--p->n];
    int from = p->op[k].stream;
    int e = below(N_EVENTS);

    if ((last.type == WRITE || last.type == READ) && last.stream != N_STREAMS - 1 &&
        below(3) > 0) {
        add(p, (struct op){RECORD, from, e, 0});
        add(p, (struct op){WAIT, last.stream, e, 0});
    } else {
        early_end(p, is_early);
        if (below(2) == 0) {
            add(p, (struct op){RECORD, from, e, 0});
            add(p, (struct op){SYNC_EVENT, 0, e, 0});
        } else if (below(4) > 0) {
            add(p, (struct op){SYNC_STREAM, from, 0, 0});
        } else {
            add(p, (struct op){SYNC_DEVICE, 0, 0, 0});
        }
    }
    add(p, last);
}

static void noise_add(struct program *p, bool *is_early, bool *was_early)
{
    int stream = below(N_STREAMS - 1);
    int e = below(N_EARLY);

    switch (below(6)) {
    case 0:
        add(p, (struct op){RECORD, stream, below(N_EVENTS), 0});
        break;
    case 1:
        add(p, (struct op){WAIT, stream, below(N_EVENTS), 0});
        break;
    case 2:
        add(p, (struct op){RENEW, 0, below(N_EVENTS), 0});
        break;
    case 3:
        add(p, (struct op){GATE, stream, 0, 0});
        break;
    default:
        if (!was_early[e]) {
            add(p, (struct op){WAIT_EARLY, stream, e, 0});
            is_early[e] = was_early[e] = true;
        }
    }
}

/* A program whose accesses are all ordered. */
static void generate(uint64_t seed, struct program *p)
{
    static const enum type types[] = {WRITE, WRITE,     READ,       READ,
                                      READ,  HOST_READ, HOST_WRITE, FREE};
    bool is_early[N_EARLY] = {false};
    bool was_early[N_EARLY] = {false};
    struct order o;

    state = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
    for (int i = 0; i < 10; i++)
        below(2);
    memset(p, 0, sizeof *p);
    while (p->n < N_OPS - 12) {
        struct op op = {types[below(8)], below(N_STREAMS), below(N_BUFFERS), below(2)};

        if (below(3) == 0) {
            noise_add(p, is_early, was_early);
            continue;
        }
        if (op.type == FREE && op.what == N_BUFFERS - 1)
            continue;
        add(p, op);
        for (int k = 0; k < p->n - 1;) {
            order_compute(p, false, &o);
            if (!is_race(p, &o, k, p->n - 1)) {
                k++;
            } else if (p->n > N_OPS - 6) {
                p->n--; /* no room to order it */
                break;
            } else {
                order_after(p, k, is_early);
                k = 0;
            }
        }
    }
    early_end(p, is_early);
    add(p, (struct op){SYNC_DEVICE, 0, 0, 0});
    order_compute(p, false, &o);
    if (has_race(p, &o)) /* the last access had no room */
        p->n = 0;
}

/* Removes one synchronisation, so that a race is sure; false: none does. */
static bool remove_one(struct program *p)
{
    int first = below(p->n);

    for (int i = 0; i < p->n - 1; i++) {
        int at = (first + i) % (p->n - 1);
        struct op saved = p->op[at];
        struct order weak;

        if (saved.type != WAIT && saved.type != SYNC_STREAM && saved.type != SYNC_EVENT &&
            saved.type != SYNC_DEVICE)
            continue;
        p->op[at].type = NOTHING;
        order_compute(p, true, &weak);
        if (has_race(p, &weak))
            return true;
        p->op[at] = saved;
    }
    return false;
}

/* ---- running a program ---- */

static struct {
    aclrtStream stream[N_STREAMS];
    aclrtEvent event[N_EVENTS];
    aclrtEvent early[N_EARLY];
    void *buffer[N_BUFFERS][2];
    char *scratch;
    size_t used;
    atomic_int is_open;
} x;

static void must(aclError rc, int line)
{
    if (rc == ACL_SUCCESS)
        return;
    fprintf(stderr, "oracle:%d: %d: %s\n", line, rc, aclGetRecentErrMsg());
    exit(3);
}
#define MUST(call_) must(call_, __LINE__)

static void gate(void *arg)
{
    while (!atomic_load(&x.is_open))
        sched_yield();
}

__attribute__((noinline)) static void op_run(const struct op *op)
{
    void *at = x.buffer[op->what][op->alias];
    char host[SIZE];

    if (op->type == SYNC_STREAM || op->type == SYNC_EVENT || op->type == SYNC_DEVICE)
        atomic_store(&x.is_open, 1);
    switch (op->type) {
    case NOTHING:
        break;
    case WRITE:
        MUST(aclrtMemsetAsync(at, SIZE, 1, SIZE, x.stream[op->stream]));
        break;
    case READ:
        MUST(aclrtMemcpyAsync(x.scratch + x.used, SIZE, at, SIZE,
                              ACL_MEMCPY_DEVICE_TO_DEVICE, x.stream[op->stream]));
        x.used += SIZE;
        break;
    case HOST_WRITE:
        MUST(aclrtMemset(at, SIZE, 1, SIZE));
        break;
    case HOST_READ:
        MUST(aclrtMemcpy(host, SIZE, at, SIZE, ACL_MEMCPY_DEVICE_TO_HOST));
        break;
    case FREE:
        MUST(aclrtFree(at));
        MUST(aclrtMalloc(&at, SIZE, ACL_MEM_MALLOC_HUGE_FIRST));
        x.buffer[op->what][0] = x.buffer[op->what][1] = at;
        break;
    case RECORD:
        MUST(aclrtRecordEvent(x.event[op->what], x.stream[op->stream]));
        break;
    case WAIT:
        MUST(aclrtStreamWaitEvent(x.stream[op->stream], x.event[op->what]));
        break;
    case WAIT_EARLY:
        MUST(aclrtStreamWaitEvent(x.stream[op->stream], x.early[op->what]));
        break;
    case RECORD_EARLY:
        MUST(aclrtRecordEvent(x.early[op->what], x.stream[op->stream]));
        break;
    case RENEW:
        MUST(aclrtDestroyEvent(x.event[op->what]));
        MUST(aclrtCreateEventExWithFlag(&x.event[op->what], ACL_EVENT_SYNC));
        break;
    case SYNC_STREAM:
        MUST(aclrtSynchronizeStream(x.stream[op->stream]));
        break;
    case SYNC_EVENT:
        MUST(aclrtSynchronizeEvent(x.event[op->what]));
        break;
    case SYNC_DEVICE:
        MUST(aclrtSynchronizeDevice());
        break;
    case GATE:
        atomic_store(&x.is_open, 0);
        MUST(aclrtLaunchHostFunc(x.stream[op->stream], gate, NULL));
        break;
    }
}

/* A function for each operation, so that a stack tells which one it was. */
/* clang-format off */
#define TEN(X, n_) \
    X(n_##0) X(n_##1) X(n_##2) X(n_##3) X(n_##4) X(n_##5) X(n_##6) X(n_##7) X(n_##8) X(n_##9)
#define OPS(X) TEN(X, 0) TEN(X, 1) TEN(X, 2) TEN(X, 3)
/* clang-format on */
#define OP(n_) \
    void op_##n_(const struct op *op); \
    __attribute__((noinline, visibility("default"))) void op_##n_(const struct op *op) \
    { \
        op_run(op); \
        __asm__ volatile(""); /* no tail call */ \
    }
OPS(OP)
#define ENTRY(n_) op_##n_,
static void (*const run[])(const struct op *) = {OPS(ENTRY)};

static char *program_run(const struct program *p)
{
    char *found;

    x.used = 0;
    for (int i = 0; i < N_BUFFERS - 1; i++) {
        MUST(aclrtMalloc(&x.buffer[i][0], SIZE, ACL_MEM_MALLOC_HUGE_FIRST));
        x.buffer[i][1] = x.buffer[i][0];
    }
    for (int i = 0; i < N_EVENTS; i++)
        MUST(aclrtCreateEventExWithFlag(&x.event[i], ACL_EVENT_SYNC));
    for (int i = 0; i < N_EARLY; i++)
        MUST(aclrtCreateEvent(&x.early[i]));
    MUST(aclmem_check_begin(0));
    for (int i = 0; i < p->n; i++)
        run[i](&p->op[i]);
    MUST(aclmem_check_end(0, &found));
    atomic_store(&x.is_open, 1);
    MUST(aclrtSynchronizeDevice());
    for (int i = 0; i < N_EVENTS; i++)
        MUST(aclrtDestroyEvent(x.event[i]));
    for (int i = 0; i < N_EARLY; i++)
        MUST(aclrtDestroyEvent(x.early[i]));
    for (int i = 0; i < N_BUFFERS - 1; i++)
        MUST(aclrtFree(x.buffer[i][0]));
    return found;
}

/* ---- the comparison ---- */

static bool is_bad(const char *what, uint64_t seed, const struct program *p,
                   const char *found)
{
    printf("seed %llu: %s\n", (unsigned long long)seed, what);
    program_print(p);
    printf("%s\n", found);
    return false;
}

/* Every finding is about two operations that nothing orders. */
static bool findings_are_right(uint64_t seed, const struct program *p, const char *found)
{
    struct order o;
    int n = 0;

    order_compute(p, false, &o);
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
    order_compute(p, true, &o);
    if (n == 0 && has_race(p, &o))
        return is_bad("a race is not reported", seed, p, found);
    return true;
}

static void setup(void)
{
    aclrtPhysicalMemProp prop = {
        .memAttr = ACL_HBM_MEM_HUGE,
        .location = {.id = 0, .type = ACL_MEM_LOCATION_TYPE_DEVICE}};
    aclrtDrvMemHandle handle;

    MUST(aclInit(NULL));
    MUST(aclrtSetDevice(0));
    for (int i = 0; i < N_STREAMS; i++)
        MUST(aclrtCreateStream(&x.stream[i]));
    MUST(aclrtMalloc((void **)&x.scratch, (size_t)N_OPS * SIZE,
                     ACL_MEM_MALLOC_HUGE_FIRST));
    MUST(aclrtMallocPhysical(&handle, CHUNK, &prop, 0));
    for (int i = 0; i < 2; i++) {
        MUST(aclrtReserveMemAddress(&x.buffer[N_BUFFERS - 1][i], CHUNK, 0, NULL, 1));
        MUST(aclrtMapMem(x.buffer[N_BUFFERS - 1][i], CHUNK, 0, handle, 0));
    }
}

int main(int argc, char **argv)
{
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
    for (uint64_t seed = first; seed < first + count; seed++) {
        char *found;

        generate(seed, &p);
        if (p.n == 0)
            continue;
        if (is_printing) {
            program_print(&p);
            continue;
        }
        n++;
        found = program_run(&p);
        n_wrong += !findings_are_right(seed, &p, found);
        free(found);
        if (!remove_one(&p))
            continue;
        n_broken++;
        found = program_run(&p);
        n_wrong += !findings_are_right(seed, &p, found);
        free(found);
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
