/*
 * The CUDA backend beside the NVIDIA driver called directly, on the same GPU in the same
 * process.  Without a driver or a GPU the section says so and is left out.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "acl/acl.h"
#include "cuda.h"
#include "measure.h"
#include "report.h"
#include "sections.h"

#define GB ((size_t)1 << 30)
#define LIVE_MAX 64
#define MANY 50000
#define ROUNDS 41
#define SMALL 4096

struct whole_driver cu;

const char *driver_start(void)
{
    CUcontext context;
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    CUdevice device;
    void *symbol;

    if (library == NULL)
        return "there is no libcuda.so.1";
#define AM_CU(need_, since_, name_, params_, args_) \
    symbol = dlsym(library, #name_); \
    memcpy(&cu.name_, &symbol, sizeof symbol);
#include "fake/whole_driver.def"
#undef AM_CU
    if (cu.cuInit == NULL || cu.cuInit(0) != CUDA_SUCCESS)
        return "the NVIDIA driver does not start: there is no GPU";
    if (cu.cuDeviceGet(&device, 0) != CUDA_SUCCESS ||
        cu.cuDevicePrimaryCtxRetain(&context, device) != CUDA_SUCCESS ||
        cu.cuCtxSetCurrent(context) != CUDA_SUCCESS)
        return "the NVIDIA driver gives no context";
    return NULL;
}

/* ---- virtual memory, ours and the driver's ---- */

static const aclrtPhysicalMemProp our_prop = {
    .memAttr = ACL_HBM_MEM_HUGE, .location.type = ACL_MEM_LOCATION_TYPE_DEVICE};
static const CUmemAllocationProp their_prop = {
    .type = CU_MEM_ALLOCATION_TYPE_PINNED,
    .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
    .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
static const CUmemAccessDesc their_access = {{CU_MEM_LOCATION_TYPE_DEVICE, 0},
                                             CU_MEM_ACCESS_FLAGS_PROT_READWRITE};

/* As many pieces of one size: each has addresses, memory, or both bound. */
struct set {
    bool is_ours;
    size_t size;
    void *addr[LIVE_MAX]; /* NULL: none */
    CUmemGenericAllocationHandle handle[LIVE_MAX];
    bool is_mapped[LIVE_MAX];
};

static void reserve_one(struct set *set, size_t i)
{
    size_t align = set->size >= GB ? GB : CHUNK;

    if (set->is_ours)
        MUST(aclrtReserveMemAddress(&set->addr[i], set->size, 0, NULL, 1));
    else
        MUST((int)cu.cuMemAddressReserve((CUdeviceptr *)&set->addr[i], set->size, align,
                                         0, 0));
}

static void release_one(struct set *set, size_t i)
{
    if (set->is_ours)
        MUST(aclrtReleaseMemAddress(set->addr[i]));
    else
        MUST((int)cu.cuMemAddressFree((CUdeviceptr)set->addr[i], set->size));
    set->addr[i] = NULL;
}

static void create_one(struct set *set, size_t i)
{
    if (set->is_ours)
        MUST(aclrtMallocPhysical((aclrtDrvMemHandle *)&set->handle[i], set->size,
                                 &our_prop, 0));
    else
        MUST((int)cu.cuMemCreate(&set->handle[i], set->size, &their_prop, 0));
}

static void free_one(struct set *set, size_t i)
{
    if (set->is_ours)
        MUST(aclrtFreePhysical((aclrtDrvMemHandle)set->handle[i]));
    else
        MUST((int)cu.cuMemRelease(set->handle[i]));
    set->handle[i] = 0;
}

static void map_one(struct set *set, size_t i)
{
    if (set->is_ours) {
        MUST(aclrtMapMem(set->addr[i], set->size, 0, (aclrtDrvMemHandle)set->handle[i],
                         0));
    } else {
        MUST(
            (int)cu.cuMemMap((CUdeviceptr)set->addr[i], set->size, 0, set->handle[i], 0));
        MUST((int)cu.cuMemSetAccess((CUdeviceptr)set->addr[i], set->size, &their_access,
                                    1));
    }
    set->is_mapped[i] = true;
}

static void unmap_one(struct set *set, size_t i)
{
    if (set->is_ours)
        MUST(aclrtUnmapMem(set->addr[i]));
    else
        MUST((int)cu.cuMemUnmap((CUdeviceptr)set->addr[i], set->size));
    set->is_mapped[i] = false;
}

/* What a piece has before and after a step. */
enum has { NOTHING, ADDRESSES, MEMORY, BOTH, BOUND };

static void bring_to(struct set *set, size_t i, enum has has)
{
    bool wants_addr = has == ADDRESSES || has == BOTH || has == BOUND;
    bool wants_memory = has == MEMORY || has == BOTH || has == BOUND;

    if (set->is_mapped[i] && has != BOUND)
        unmap_one(set, i);
    if (set->addr[i] != NULL && !wants_addr)
        release_one(set, i);
    if (set->handle[i] != 0 && !wants_memory)
        free_one(set, i);
    if (set->addr[i] == NULL && wants_addr)
        reserve_one(set, i);
    if (set->handle[i] == 0 && wants_memory)
        create_one(set, i);
    if (!set->is_mapped[i] && has == BOUND)
        map_one(set, i);
}

static const struct step {
    const char *what;
    void (*run)(struct set *set, size_t i);
    enum has before;
    bool is_cheap; /* takes no memory, so that there can be as many of any size */
} steps[] = {
    {"reserve", reserve_one, NOTHING, true},   {"create", create_one, NOTHING, false},
    {"map with access", map_one, BOTH, false}, {"unmap", unmap_one, BOUND, false},
    {"free", free_one, MEMORY, false},
};

struct step_of_set {
    const struct step *step;
    struct set *set;
};

static void step_prepare(void *arg, size_t n)
{
    struct step_of_set *s = arg;

    for (size_t i = 0; i < LIVE_MAX; i++)
        bring_to(s->set, i, i < n ? s->step->before : NOTHING);
}

static void step_run(void *arg, size_t n)
{
    struct step_of_set *s = arg;

    for (size_t i = 0; i < n; i++)
        s->step->run(s->set, i);
}

static void sizes_measure(size_t size, size_t n, const char *name)
{
    static struct set ours;
    static struct set theirs;
    char what[64];

    ours = (struct set){.is_ours = true, .size = size};
    theirs = (struct set){.size = size};
    for (size_t k = 0; k < sizeof steps / sizeof steps[0]; k++) {
        size_t times = steps[k].is_cheap ? LIVE_MAX : n;
        struct step_of_set arg[2] = {{&steps[k], &ours}, {&steps[k], &theirs}};
        struct subject s[2] = {
            {.run = step_run, .prepare = step_prepare, .arg = &arg[0], .n = times},
            {.run = step_run, .prepare = step_prepare, .arg = &arg[1], .n = times}};

        measure(s, 2, ROUNDS);
        snprintf(what, sizeof what, "%s, %s", steps[k].what, name);
        report_row(&(struct row){what, "ns", s[0].ns, s[1].ns, BUDGET_AT_MOST, 1.05});
    }
    for (size_t i = 0; i < LIVE_MAX; i++) {
        bring_to(&ours, i, NOTHING);
        bring_to(&theirs, i, NOTHING);
    }
}

/* ---- a pool that grows ---- */

enum { POOL_CHUNKS = 32 };

/* The same memory in pieces of 2 MB, by a pool or by hand. */
struct growth {
    aclrtMemPool pool;
    void *block;
    CUdeviceptr addr;
    CUmemGenericAllocationHandle handle[POOL_CHUNKS];
};

static void pool_prepare(void *arg, size_t n)
{
    const aclrtMemPoolProps props = {
        .allocType = ACL_MEM_ALLOCATION_TYPE_PINNED,
        .location.type = ACL_MEM_LOCATION_TYPE_DEVICE,
        .maxSize = POOL_CHUNKS * CHUNK,
    };
    struct growth *g = arg;

    if (g->pool != NULL) {
        MUST(aclrtMemPoolFreeAsync(g->block, NULL));
        MUST(aclrtSynchronizeStream(NULL));
        MUST(aclrtMemPoolDestroy(g->pool));
    }
    MUST(aclrtMemPoolCreate(&g->pool, &props));
}

static void pool_run(void *arg, size_t n)
{
    struct growth *g = arg;

    MUST(aclrtMemPoolMallocAsync(&g->block, POOL_CHUNKS * CHUNK, g->pool, NULL));
}

static void by_hand_prepare(void *arg, size_t n)
{
    struct growth *g = arg;

    if (g->addr != 0) {
        MUST((int)cu.cuMemUnmap(g->addr, POOL_CHUNKS * CHUNK));
        MUST((int)cu.cuMemAddressFree(g->addr, POOL_CHUNKS * CHUNK));
        for (size_t i = 0; i < POOL_CHUNKS; i++)
            MUST((int)cu.cuMemRelease(g->handle[i]));
    }
    MUST((int)cu.cuMemAddressReserve(&g->addr, POOL_CHUNKS * CHUNK, CHUNK, 0, 0));
}

static void by_hand_run(void *arg, size_t n)
{
    struct growth *g = arg;

    for (size_t i = 0; i < POOL_CHUNKS; i++) {
        MUST((int)cu.cuMemCreate(&g->handle[i], CHUNK, &their_prop, 0));
        MUST((int)cu.cuMemMap(g->addr + i * CHUNK, CHUNK, 0, g->handle[i], 0));
    }
    MUST((int)cu.cuMemSetAccess(g->addr, POOL_CHUNKS * CHUNK, &their_access, 1));
}

static void growth_measure(void)
{
    static struct growth growth;
    struct subject s[2] = {
        {.run = pool_run, .prepare = pool_prepare, .arg = &growth, .n = 1},
        {.run = by_hand_run, .prepare = by_hand_prepare, .arg = &growth, .n = 1}};

    measure(s, 2, ROUNDS);
    report_row(&(struct row){"a pool grows by 32 pieces of 2 MB", "ns", s[0].ns, s[1].ns,
                             BUDGET_NONE, 0});
    pool_prepare(&growth, 1);
    by_hand_prepare(&growth, 1);
    MUST(aclrtMemPoolDestroy(growth.pool));
    MUST((int)cu.cuMemAddressFree(growth.addr, POOL_CHUNKS * CHUNK));
}

/* ---- pinned memory ---- */

static void our_pinned(void *unused, size_t n)
{
    void *p;

    while (n-- > 0) {
        MUST(aclrtMallocHost(&p, SMALL));
        MUST(aclrtFreeHost(p));
    }
}

static void their_pinned(void *unused, size_t n)
{
    void *p;

    while (n-- > 0) {
        MUST((int)cu.cuMemHostAlloc(&p, SMALL, CU_MEMHOSTALLOC_PORTABLE));
        MUST((int)cu.cuMemFreeHost(p));
    }
}

static void pinned_measure(void)
{
    struct subject s[2] = {{.run = our_pinned, .n = 4096},
                           {.run = their_pinned, .n = 16}};

    measure(s, 2, ROUNDS);
    report_row(&(struct row){"MallocHost + FreeHost of 4 KB", "ns", s[0].ns, s[1].ns,
                             BUDGET_AT_MOST, 0.01});
}

/* ---- copies ---- */

/* Two pieces of device memory and two of pinned memory, and where to copy. */
struct copies {
    bool is_ours;
    void *stream;
    char *device[2];
    char *host;
    size_t size;
    char *dst;
    const char *src;
};

/* Device memory behind addresses in a row, in so many handles. */
static char *row_open(bool is_ours, size_t size, size_t n)
{
    struct set range = {.is_ours = is_ours, .size = size};

    reserve_one(&range, 0);
    for (size_t i = 0; i < n; i++) {
        struct set piece = {.is_ours = is_ours, .size = size / n};

        piece.addr[0] = (char *)range.addr[0] + i * piece.size;
        bring_to(&piece, 0, BOUND);
    }
    return range.addr[0];
}

static void copies_open(struct copies *c, bool is_ours, size_t size, size_t n_handles)
{
    *c = (struct copies){.is_ours = is_ours, .size = size};
    for (int i = 0; i < 2; i++)
        c->device[i] = row_open(is_ours, size, n_handles);
    if (is_ours) {
        MUST(aclrtMallocHost((void **)&c->host, size));
        MUST(aclrtCreateStream(&c->stream));
    } else {
        MUST((int)cu.cuMemHostAlloc((void **)&c->host, size, CU_MEMHOSTALLOC_PORTABLE));
        MUST((int)cu.cuStreamCreateWithPriority((CUstream *)&c->stream,
                                                CU_STREAM_NON_BLOCKING, 0));
    }
    memset(c->host, 1, size);
}

static void copies_run(void *arg, size_t n)
{
    struct copies *c = arg;

    while (n-- > 0) {
        if (c->is_ours) {
            MUST(aclrtMemcpy(c->dst, c->size, c->src, c->size, ACL_MEMCPY_DEFAULT));
        } else {
            MUST((int)cu.cuMemcpyAsync((CUdeviceptr)c->dst, (CUdeviceptr)c->src, c->size,
                                       c->stream));
            MUST((int)cu.cuStreamSynchronize(c->stream));
        }
    }
}

static void copies_measure(struct copies both[2], const char *what, enum budget budget,
                           double least)
{
    struct subject s[2] = {{.run = copies_run, .arg = &both[0], .n = 2},
                           {.run = copies_run, .arg = &both[1], .n = 2}};
    double size = (double)both[0].size;

    measure(s, 2, ROUNDS);
    report_row(
        &(struct row){what, "GB/s", size / s[0].ns, size / s[1].ns, budget, least});
}

/* ---- launching ---- */

static void launch_prepare(void *arg, size_t n)
{
    struct copies *c = arg;

    if (c->is_ours)
        MUST(aclrtSynchronizeStream(c->stream));
    else
        MUST((int)cu.cuStreamSynchronize(c->stream));
}

static void launch_run(void *arg, size_t n)
{
    struct copies *c = arg;

    while (n-- > 0) {
        if (c->is_ours)
            MUST(aclrtMemcpyAsync(c->dst, SMALL, c->src, SMALL, ACL_MEMCPY_HOST_TO_DEVICE,
                                  c->stream));
        else
            MUST((int)cu.cuMemcpyAsync((CUdeviceptr)c->dst, (CUdeviceptr)c->src, SMALL,
                                       c->stream));
    }
}

static void launch_and_wait(void *arg, size_t n)
{
    while (n-- > 0) {
        launch_run(arg, 1);
        launch_prepare(arg, 1);
    }
}

static void launch_measure(struct copies both[2])
{
    struct subject s[2] = {
        {.run = launch_run, .prepare = launch_prepare, .arg = &both[0], .n = 64},
        {.run = launch_run, .prepare = launch_prepare, .arg = &both[1], .n = 64}};
    struct subject w[2] = {{.run = launch_and_wait, .arg = &both[0], .n = 64},
                           {.run = launch_and_wait, .arg = &both[1], .n = 64}};

    measure(s, 2, ROUNDS);
    report_row(&(struct row){"MemcpyAsync of 4 KB, 64 in a row, each", "ns", s[0].ns,
                             s[1].ns, BUDGET_AT_MOST, 1.2});
    launch_prepare(&both[0], 0);
    launch_prepare(&both[1], 0);
    measure(w, 2, ROUNDS);
    report_row(&(struct row){"MemcpyAsync of 4 KB, then SynchronizeStream", "ns", w[0].ns,
                             w[1].ns, BUDGET_NONE, 0});
}

static void handles_measure(void)
{
    static struct copies both[2];

    for (int i = 0; i < 2; i++) {
        copies_open(&both[i], i == 0, 256 * MB, 128);
        both[i].dst = both[i].device[0];
        both[i].src = both[i].device[1];
    }
    /*
     * Each handle is looked up and held, which the driver is not asked to do; but the driver
     * is given a short piece first, and prepares the rest while the GPU copies.
     */
    copies_measure(both, "device to device, 256 MB in 128 handles", BUDGET_AT_LEAST,
                   0.97);
}

static void copy_sections(void)
{
    static struct copies both[2];
    static const struct {
        const char *what;
        bool to_host;
        bool from_host;
    } ways[] = {{"host to device, 256 MB pinned", false, true},
                {"device to host, 256 MB pinned", true, false},
                {"device to device, 256 MB", false, false}};

    for (int i = 0; i < 2; i++)
        copies_open(&both[i], i == 0, 256 * MB, 1);
    report_section("copies; limit: cuMemcpyAsync + cuStreamSynchronize");
    for (size_t k = 0; k < sizeof ways / sizeof ways[0]; k++) {
        for (int i = 0; i < 2; i++) {
            both[i].dst = ways[k].to_host ? both[i].host : both[i].device[0];
            both[i].src = ways[k].from_host ? both[i].host : both[i].device[1];
        }
        copies_measure(both, ways[k].what, BUDGET_AT_LEAST, 0.99);
    }
    handles_measure();
    report_section("launching; limit: cuMemcpyAsync on a stream of the driver");
    for (int i = 0; i < 2; i++) {
        both[i].dst = both[i].device[0];
        both[i].src = both[i].host;
    }
    launch_measure(both);
}

/* ---- many ---- */

/*
 * Half of the pieces are ours, half the driver's own, in turn.  What the driver takes for a
 * piece drifts by as much as a half within one run of seconds, with the pieces that are there
 * and with what else the machine does; in turn it drifts for both alike.
 */
enum { TURN = 50 };

struct many {
    struct set space; /* the addresses of all */
    CUmemGenericAllocationHandle *handle;
    uint64_t ns;
};

static void many_open(struct many *many, bool is_ours, size_t n)
{
    *many = (struct many){.space = {.is_ours = is_ours, .size = n * CHUNK},
                          .handle = calloc(n, sizeof *many->handle)};
    MUST_HOLD(many->handle != NULL);
    reserve_one(&many->space, 0);
}

static struct set many_piece(const struct many *many, size_t i)
{
    return (struct set){.is_ours = many->space.is_ours,
                        .size = CHUNK,
                        .addr = {(char *)many->space.addr[0] + i * CHUNK},
                        .handle = {many->handle[i]}};
}

static void many_grow(struct many *many, size_t from, size_t n)
{
    uint64_t start = now_ns();

    for (size_t i = from; i < from + n; i++) {
        struct set piece = many_piece(many, i);

        create_one(&piece, 0);
        map_one(&piece, 0);
        many->handle[i] = piece.handle[0];
    }
    many->ns += now_ns() - start;
}

static void many_close(struct many *many, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct set piece = many_piece(many, i);

        unmap_one(&piece, 0);
        free_one(&piece, 0);
    }
    release_one(&many->space, 0);
    free(many->handle);
}

static void many_measure(void)
{
    size_t n_free;
    size_t total;
    size_t n = MANY / 2; /* of each */
    struct many both[2];
    char what[64];

    MUST((int)cu.cuMemGetInfo_v2(&n_free, &total));
    if (n > n_free / CHUNK * 9 / 20)
        n = n_free / CHUNK * 9 / 20;
    n -= n % TURN;
    for (int i = 0; i < 2; i++)
        many_open(&both[i], i == 0, n);
    for (size_t at = 0; at < n; at += TURN) {
        many_grow(&both[at / TURN % 2], at, TURN);
        many_grow(&both[(at / TURN + 1) % 2], at, TURN);
    }
    for (int i = 0; i < 2; i++)
        many_close(&both[i], n);
    snprintf(what, sizeof what, "create and map each of %zu pieces of 2 MB", 2 * n);
    report_row(&(struct row){what, "ns", (double)both[0].ns / (double)n,
                             (double)both[1].ns / (double)n, BUDGET_AT_MOST, 1.05});
}

void cuda_library_start(void)
{
    setenv("ACLMEM_BACKEND", "cuda", 1);
    setenv("ACLMEM_DEVICES", "1", 1);
    setenv("ACLMEM_RULES", "default", 1);
    unsetenv("ACLMEM_MEMORY");
    unsetenv("ACLMEM_ISOLATE");
    MUST(aclInit(NULL));
    MUST(aclrtSetDevice(0));
}

void bench_cuda(void *unused)
{
    const char *why;

    cuda_share_start(); /* a process that has used the driver cannot fork */
    why = driver_start();

    report_section("cuda: memory of a GPU; limit: the NVIDIA driver called directly");
    if (why != NULL) {
        char note[96];

        snprintf(note, sizeof note, "left out: %s", why);
        report_note(note);
        cuda_share_end();
        return;
    }
    cuda_library_start();
    sizes_measure(CHUNK, 64, "2 MB");
    sizes_measure(64 * MB, 64, "64 MB");
    sizes_measure(GB, 16, "1 GB");
    growth_measure();
    pinned_measure();
    many_measure();
    copy_sections();
    cuda_share_measure();
    cuda_share_end();
    MUST(aclrtResetDevice(0));
    MUST(aclFinalize());
}
