/*
 * An oracle for lifetimes: oracle_life [FIRST [COUNT]]
 *
 * A generator makes random programs of two processes that make, use and free objects of all
 * kinds; the second process imports memory and events of the first one.  A correct program
 * frees each object once, after its last use, and has no finding.  Then one mistake is made,
 * a free that is left out, a second free, or a use after the free: it is reported, by kind
 * and with calls of that object alone, in the process that made it.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "aclmem/aclmem.h"
#include "oracle.h"

#define N_OBJECTS 14
#define CHUNK ((size_t)2 << 20)
#define BLOCK 4096

enum verb { VERB_NOTHING, VERB_MAKE, VERB_USE, VERB_FREE };

/* Handles, numbers and keys of an object; an importer gets those of the exporter. */
struct name {
    void *handle;
    void *
        other; /* of a mapping: its reservation is the same address; of a key: the block */
    uint64_t number;
    char key[ACL_IPC_HANDLE_SIZE];
    aclrtIpcEventHandle event;
    aclrtMemFabricHandle fabric;
};

/* op.stream is the verb, op.what the object, op.alias 1: the call may fail. */
struct message {
    int number; /* of the operation; -1: a program begins, -2: it ends */
    struct op op;
    int kind;
    struct name name;
    size_t n; /* bytes of text behind it */
};

static aclrtStream stream;
static aclrtMemPool pool;
static char own[N_OBJECTS][BLOCK] __attribute__((aligned(BLOCK)));
static struct name names[N_OBJECTS];
static int kinds[N_OBJECTS];
static int peer = -1; /* the other process */

static void must(aclError rc, int line)
{
    if (rc == ACL_SUCCESS)
        return;
    fprintf(stderr, "oracle_life:%d: %d: %s\n", line, rc, aclGetRecentErrMsg());
    exit(3);
}
#define MUST(call_) must(call_, __LINE__)

static const aclrtPhysicalMemProp prop = {
    .memAttr = ACL_HBM_MEM_HUGE,
    .location = {.id = 0, .type = ACL_MEM_LOCATION_TYPE_DEVICE}};

/* ---- the kinds of objects ---- */

static void block_make(struct name *x)
{
    MUST(aclrtMalloc(&x->handle, BLOCK, ACL_MEM_MALLOC_HUGE_FIRST));
}

static aclError memory_use(struct name *x)
{
    return aclrtMemset(x->handle, BLOCK, 0, BLOCK);
}

static aclError block_free(struct name *x)
{
    return aclrtFree(x->handle);
}

static void host_make(struct name *x)
{
    MUST(aclrtMallocHost(&x->handle, BLOCK));
}

static aclError host_free(struct name *x)
{
    return aclrtFreeHost(x->handle);
}

static void registered_make(struct name *x)
{
    MUST(aclrtHostRegister(x->handle = own[x - names], BLOCK, ACL_HOST_REGISTER_MAPPED,
                           &x->other));
}

static aclError registered_free(struct name *x)
{
    return aclrtHostUnregister(x->handle);
}

static void phys_make(struct name *x)
{
    aclrtPhysicalMemProp copy = prop;

    MUST(aclrtMallocPhysical(&x->handle, CHUNK, &copy, 0));
}

static aclError phys_use(struct name *x)
{
    aclrtPhysicalMemProp copy;

    return aclrtMemGetAllocationPropertiesFromHandle(x->handle, &copy);
}

static aclError phys_free(struct name *x)
{
    return aclrtFreePhysical(x->handle);
}

static void reservation_make(struct name *x)
{
    MUST(aclrtReserveMemAddress(&x->handle, CHUNK, 0, NULL, 1));
}

static aclError reservation_free(struct name *x)
{
    return aclrtReleaseMemAddress(x->handle);
}

static void mapping_make(struct name *x)
{
    struct name handle;

    reservation_make(x);
    phys_make(&handle);
    MUST(aclrtMapMem(x->handle, CHUNK, 0, handle.handle, 0));
    MUST(phys_free(&handle));
}

static aclError mapping_free(struct name *x)
{
    aclError rc = aclrtUnmapMem(x->handle);

    return rc == ACL_SUCCESS ? reservation_free(x) : rc;
}

static void stream_make(struct name *x)
{
    MUST(aclrtCreateStream(&x->handle));
}

static aclError stream_use(struct name *x)
{
    aclrtStreamStatus status;

    return aclrtStreamQuery(x->handle, &status);
}

static aclError stream_free(struct name *x)
{
    return aclrtDestroyStream(x->handle);
}

static void event_make(struct name *x)
{
    MUST(aclrtCreateEventExWithFlag(&x->handle, ACL_EVENT_SYNC));
}

static aclError event_use(struct name *x)
{
    aclrtEventRecordedStatus status;

    return aclrtQueryEventStatus(x->handle, &status);
}

static aclError event_free(struct name *x)
{
    return aclrtDestroyEvent(x->handle);
}

static void notify_make(struct name *x)
{
    MUST(aclrtCreateNotify(&x->handle, 0));
}

static aclError notify_use(struct name *x)
{
    return aclrtRecordNotify(x->handle, stream);
}

static aclError notify_free(struct name *x)
{
    return aclrtDestroyNotify(x->handle);
}

static void pool_make(struct name *x)
{
    aclrtMemPoolProps props = {.maxSize = 16 << 20,
                               .allocType = ACL_MEM_ALLOCATION_TYPE_PINNED,
                               .handleType = ACL_MEM_HANDLE_TYPE_NONE,
                               .location = prop.location};

    MUST(aclrtMemPoolCreate(&x->handle, &props));
}

static aclError pool_use(struct name *x)
{
    return aclrtMemPoolTrimTo(x->handle, 0);
}

static aclError pool_free(struct name *x)
{
    return aclrtMemPoolDestroy(x->handle);
}

static void pool_block_make(struct name *x)
{
    MUST(aclrtMemPoolMallocAsync(&x->handle, BLOCK, pool, stream));
}

static aclError pool_block_use(struct name *x)
{
    return aclrtMemsetAsync(x->handle, BLOCK, 0, BLOCK, stream);
}

static aclError pool_block_free(struct name *x)
{
    return aclrtMemPoolFreeAsync(x->handle, stream);
}

static void context_make(struct name *x)
{
    aclrtContext before;

    MUST(aclrtGetCurrentContext(&before));
    MUST(aclrtCreateContext(&x->handle, 0));
    MUST(aclrtSetCurrentContext(before));
}

static aclError context_free(struct name *x)
{
    return aclrtDestroyContext(x->handle);
}

static void model_make(struct name *x)
{
    MUST(aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
    MUST(aclmdlRICaptureEnd(stream, (aclmdlRI *)&x->handle));
}

static aclError model_use(struct name *x)
{
    uint32_t id;

    return aclmdlRIGetId(x->handle, &id);
}

static aclError model_free(struct name *x)
{
    return aclmdlRIDestroy(x->handle);
}

/* ---- and of two processes ---- */

static void exported_make(struct name *x)
{
    phys_make(x);
    MUST(aclrtMemExportToShareableHandle(x->handle, ACL_MEM_HANDLE_TYPE_NONE, 1,
                                         &x->number));
}

static void import_make(struct name *x)
{
    MUST(aclrtMemImportFromShareableHandle(x->number, 0, &x->handle));
}

static void fabric_make(struct name *x)
{
    phys_make(x);
    MUST(aclrtMemExportToShareableHandleV2(x->handle, 1, ACL_MEM_SHARE_HANDLE_TYPE_FABRIC,
                                           &x->fabric));
}

static void fabric_open(struct name *x)
{
    MUST(aclrtMemImportFromShareableHandleV2(&x->fabric, ACL_MEM_SHARE_HANDLE_TYPE_FABRIC,
                                             0, &x->handle));
}

static void key_make(struct name *x)
{
    MUST(aclrtMalloc(&x->handle, CHUNK, ACL_MEM_MALLOC_HUGE_FIRST));
    MUST(aclrtIpcMemGetExportKey(x->handle, CHUNK, x->key, sizeof x->key, 1));
}

static void key_open(struct name *x)
{
    MUST(aclrtIpcMemImportByKey(&x->handle, x->key, 0));
}

static aclError key_close(struct name *x)
{
    return aclrtIpcMemClose(x->key);
}

static void ipc_event_make(struct name *x)
{
    MUST(aclrtCreateEventExWithFlag(&x->handle, ACL_EVENT_IPC));
    MUST(aclrtIpcGetEventHandle(x->handle, &x->event));
}

static void ipc_event_open(struct name *x)
{
    MUST(aclrtIpcOpenEventHandle(x->event, &x->handle));
}

#define FREE_TWICE "double-free"
#define STALE "stale-handle"
#define STALE_MEMORY "use-after-free"

/*
 * The kinds of findings: a free that is left out, a second free, a use after it; NULL: that
 * is no mistake, or the program may die of it.
 */
static const struct kind {
    void (*make)(struct name *);
    aclError (*use)(struct name *);
    aclError (*free)(struct name *);
    const char *leak;
    const char *twice;
    const char *stale;
    bool is_import; /* of an object of the row before it */
} rows[] = {
    {block_make, memory_use, block_free, "leak.block", FREE_TWICE, STALE_MEMORY, false},
    {host_make, memory_use, host_free, "leak.host", FREE_TWICE, NULL, false},
    {registered_make, NULL, registered_free, "leak.host", NULL, NULL, false},
    {phys_make, phys_use, phys_free, "leak.phys", FREE_TWICE, STALE, false},
    {reservation_make, NULL, reservation_free, "leak.reservation", FREE_TWICE, NULL,
     false},
    {mapping_make, memory_use, mapping_free, "leak.mapping leak.reservation", FREE_TWICE,
     STALE_MEMORY, false},
    {stream_make, stream_use, stream_free, "leak.stream", FREE_TWICE, STALE, false},
    {event_make, event_use, event_free, "leak.event", FREE_TWICE, STALE, false},
    {notify_make, notify_use, notify_free, "leak.event", FREE_TWICE, STALE, false},
    {pool_make, pool_use, pool_free, "leak.pool", FREE_TWICE, STALE, false},
    {pool_block_make, pool_block_use, pool_block_free, "leak.block", FREE_TWICE,
     STALE_MEMORY, false},
    {context_make, NULL, context_free, "leak.context", NULL, NULL, false},
    {model_make, model_use, model_free, "leak.model", NULL, STALE, false},
    {exported_make, phys_use, phys_free, "leak.phys", FREE_TWICE, STALE, false},
    {import_make, phys_use, phys_free, "leak.import", FREE_TWICE, STALE, true},
    {fabric_make, phys_use, phys_free, "leak.phys", FREE_TWICE, STALE, false},
    {fabric_open, phys_use, phys_free, "leak.import", FREE_TWICE, STALE, true},
    {key_make, memory_use, block_free, "leak.block", FREE_TWICE, STALE_MEMORY, false},
    {key_open, memory_use, key_close, "leak.import", NULL, NULL, true},
    {ipc_event_make, event_use, event_free, "leak.event", FREE_TWICE, STALE, false},
    {ipc_event_open, event_use, event_free, "leak.event", FREE_TWICE, STALE, true},
};
#define N_KINDS ((int)(sizeof rows / sizeof rows[0]))

/* The A3 has fabric handles, and no pools; other products have it the other way round. */
static bool has_fabric(void)
{
    const char *product = getenv("ACLMEM_PRODUCT");

    return product != NULL && strcmp(product, "A3") == 0;
}

static bool is_there(int kind)
{
    const struct kind *row = &rows[kind];

    if (row->make == pool_make || row->make == pool_block_make)
        return !has_fabric();
    return (row->make != fabric_make && row->make != fabric_open) || has_fabric();
}

/* ---- operations ---- */

__attribute__((noinline)) static void op_run(const struct op *op)
{
    const struct kind *row = &rows[kinds[op->what]];
    struct name *x = &names[op->what];
    aclError rc = ACL_SUCCESS;

    if (op->stream == VERB_MAKE)
        row->make(x);
    else if (op->stream == VERB_USE)
        rc = row->use(x);
    else if (op->stream == VERB_FREE)
        rc = row->free(x);
    if (!op->alias)
        MUST(rc);
}

OP_FUNCTIONS(run)

static void all(ssize_t (*io)(int, void *, size_t), void *at, size_t n)
{
    for (size_t done = 0; done < n;) {
        ssize_t now = io(peer, (char *)at + done, n - done);

        if (now <= 0)
            _exit(now == 0 ? 0 : 4);
        done += (size_t)now;
    }
}

static ssize_t put(int fd, void *at, size_t n)
{
    return write(fd, at, n);
}

/* The other process runs the operations that it receives, until the socket is closed. */
static void peer_main(void)
{
    struct message m;

    for (;;) {
        char *found = NULL;

        all(read, &m, sizeof m);
        if (m.number == -1) {
            MUST(aclmem_check_begin(0));
        } else if (m.number == -2) {
            MUST(aclmem_check_end(1, &found));
        } else {
            kinds[m.op.what] = m.kind;
            if (m.op.stream == VERB_MAKE)
                names[m.op.what] = m.name;
            run[m.number](&m.op);
        }
        m.n = found != NULL ? strlen(found) : 0;
        all(put, &m, sizeof m);
        all(put, found, m.n);
        free(found);
    }
}

/* Lets the other process do it; returns its findings at the end of a program. */
static char *peer_run(int number, const struct op *op)
{
    struct message m = {.number = number};
    char *found;

    if (op != NULL) {
        m.op = *op;
        m.kind = kinds[op->what];
        if (op->stream == VERB_MAKE) /* of what the program made last before it */
            m.name = names[op->part];
    }
    all(put, &m, sizeof m);
    all(read, &m, sizeof m);
    found = calloc(m.n + 1, 1);
    all(read, found, m.n);
    return found;
}

/* ---- the generator ---- */

struct object {
    int kind;
    int source; /* of an import: the exported object */
    int made;   /* operations; -1: not yet */
    int freed;
    bool is_exported; /* and imported already */
};

static struct program p;
static struct object objects[N_OBJECTS];
static int n_objects;
static uint64_t state;

static void add(enum verb verb, int what)
{
    const struct object *o = &objects[what];

    if (verb == VERB_MAKE)
        objects[what].made = p.n;
    if (verb == VERB_FREE)
        objects[what].freed = p.n;
    p.op[p.n++] = (struct op){.stream = (int)verb, .what = what, .part = o->source};
}

static bool is_live(int what)
{
    return objects[what].freed < 0;
}

/* An object that a random kind can be an import of; -1: none. */
static int source_find(int kind)
{
    for (int i = 0; i < n_objects; i++) {
        if (objects[i].kind == kind - 1 && is_live(i) && !objects[i].is_exported)
            return i;
    }
    return -1;
}

static void object_make(void)
{
    int kind = random_below(&state, N_KINDS);
    int source = rows[kind].is_import ? source_find(kind) : 0;

    if (source < 0 || !is_there(kind))
        return;
    if (rows[kind].is_import)
        objects[source].is_exported = true;
    objects[n_objects] = (struct object){kind, source, -1, -1, false};
    kinds[n_objects] = kind;
    add(VERB_MAKE, n_objects++);
}

static void generate(uint64_t seed)
{
    state = random_seed(seed);
    memset(&p, 0, sizeof p);
    n_objects = 0;
    while (p.n < N_OPS - N_OBJECTS - 1) {
        int what = n_objects > 0 ? random_below(&state, n_objects) : 0;
        int which = random_below(&state, 3);

        if ((n_objects == 0 || which == 0) && n_objects < N_OBJECTS)
            object_make();
        else if (n_objects > 0 && which == 1 && is_live(what) &&
                 rows[objects[what].kind].use != NULL)
            add(VERB_USE, what);
        else if (n_objects > 0 && which == 2 && is_live(what) &&
                 random_below(&state, 2) == 0)
            add(VERB_FREE, what);
        else if (n_objects == N_OBJECTS && random_below(&state, 8) == 0)
            break;
    }
    for (int i = n_objects - 1; i >= 0; i--) {
        if (is_live(i))
            add(VERB_FREE, i);
    }
}

/* The first operation behind which another object may have the address; p.n: none. */
static int address_end(const struct object *o)
{
    const struct kind *row = &rows[o->kind];
    bool is_address = row->use == memory_use || row->use == pool_block_use ||
                      row->make == reservation_make;
    int end = o->freed + 1;

    while (end < p.n && !(is_address && p.op[end].stream == VERB_MAKE))
        end++;
    return end;
}

/* Makes a mistake with one object; the kind of the finding. */
static const char *mistake_make(int *ret_what)
{
    int what = *ret_what = random_below(&state, n_objects);
    const struct object *o = &objects[what];
    const struct kind *row = &rows[o->kind];
    enum verb verb;
    int at;

    switch (random_below(&state, 3)) {
    case 0:
        p.op[o->freed].stream = VERB_NOTHING;
        return row->leak;
    case 1:
        verb = VERB_FREE;
        break;
    default:
        verb = VERB_USE;
    }
    if ((verb == VERB_FREE ? row->twice : row->stale) == NULL) {
        p.op[o->freed].stream = VERB_NOTHING;
        return row->leak;
    }
    at = o->freed + 1 + random_below(&state, address_end(o) - o->freed);
    memmove(&p.op[at + 1], &p.op[at], (size_t)(p.n - at) * sizeof p.op[0]);
    p.op[at] =
        (struct op){.stream = (int)verb, .what = what, .part = o->source, .alias = 1};
    p.n++;
    return verb == VERB_FREE ? row->twice : row->stale;
}

/* ---- running and comparing ---- */

static char *program_run(void)
{
    char *found;
    char *of_peer;
    char *both;
    size_t n;

    MUST(aclmem_check_begin(0));
    free(peer_run(-1, NULL));
    for (int i = 0; i < p.n; i++) {
        if (rows[kinds[p.op[i].what]].is_import)
            free(peer_run(i, &p.op[i]));
        else
            run[i](&p.op[i]);
    }
    of_peer = peer_run(-2, NULL);
    MUST(aclrtSynchronizeStream(stream));
    MUST(aclmem_check_end(1, &found));
    n = strlen(found) + strlen(of_peer) + 1;
    both = malloc(n);
    if (both == NULL)
        abort();
    snprintf(both, n, "%s%s", found, of_peer);
    free(found);
    free(of_peer);
    return both;
}

/* What was left out, so that the next programs have the memory. */
static void leaks_free(int what)
{
    struct op op = {.stream = VERB_FREE, .what = what};

    if (rows[kinds[what]].is_import)
        free(peer_run(0, &op));
    else
        op_run(&op);
}

static bool is_bad(const char *why, uint64_t seed, const char *kind, int what,
                   const char *found)
{
    static const char *const verbs[] = {"nothing", "make", "use", "free"};

    printf("seed %llu: %s, of kind %s with object %d\n", (unsigned long long)seed, why,
           kind, what);
    for (int i = 0; i < p.n; i++)
        printf("    %s object %d of row %d /* op_%d */\n", verbs[p.op[i].stream],
               p.op[i].what, kinds[p.op[i].what], i);
    printf("%s\n", found);
    return false;
}

/* Findings are of one of the kinds, and name operations of the object only. */
static bool is_right(uint64_t seed, const char *wanted, int what)
{
    char *found = program_run();
    bool is_it = true;
    int n = 0;

    for (const char *at = strstr(found, "\"kind\":\""); at != NULL && is_it;
         at = strstr(at + 8, "\"kind\":\"")) {
        char kind[32];

        sscanf(at + 8, "%31[^\"]", kind);
        n++;
        if (strstr(wanted, kind) == NULL)
            is_it = is_bad("another finding", seed, wanted, what, found);
    }
    for (const char *f = strstr(found, "\"op_"); f != NULL && is_it;
         f = strstr(f + 4, "\"op_")) {
        if (p.op[atoi(f + 4)].what != what)
            is_it = is_bad("a finding about another object", seed, wanted, what, found);
    }
    if (n == 0 && wanted[0] != '\0' && is_it)
        is_it = is_bad("no finding", seed, wanted, what, found);
    free(found);
    return is_it;
}

static void setup(void)
{
    struct name x;

    MUST(aclInit(NULL));
    MUST(aclrtSetDevice(0));
    stream_make(&x);
    stream = x.handle;
    if (!has_fabric()) {
        pool_make(&x);
        pool = x.handle;
    }
}

static void peer_start(void)
{
    int fds[2];
    char text[16];

    if (socketpair(AF_UNIX, SOCK_STREAM, 0, fds) != 0)
        abort();
    snprintf(text, sizeof text, "%d", fds[1]);
    if (fork() == 0) {
        close(fds[0]);
        execl("/proc/self/exe", "oracle_life", "--peer", text, NULL);
        _exit(7);
    }
    close(fds[1]);
    peer = fds[0];
}

int main(int argc, char **argv)
{
    uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 0) : 1;
    uint64_t count = argc > 2 ? strtoull(argv[2], NULL, 0) : 1;
    uint64_t n_wrong = 0;
    uint64_t n = 0;

    if (argc == 3 && strcmp(argv[1], "--peer") == 0) {
        peer = atoi(argv[2]);
        setup();
        peer_main();
    }
    peer_start();
    setup();
    for (uint64_t seed = first; seed < first + count; seed++) {
        const char *wanted;
        int what;

        generate(seed);
        n++;
        n_wrong += !is_right(seed, "", -1);
        wanted = mistake_make(&what);
        n_wrong += !is_right(seed, wanted, what);
        if (wanted == rows[kinds[what]].leak)
            leaks_free(what);
    }
    printf("seeds %llu to %llu: %llu correct programs, %llu with a mistake, %llu wrong\n",
           (unsigned long long)first, (unsigned long long)(first + count - 1),
           (unsigned long long)n, (unsigned long long)n, (unsigned long long)n_wrong);
    fflush(stdout);
    _Exit(n_wrong > 0);
}
