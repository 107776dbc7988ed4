/*
 * Sharing between two processes: this one imports, another exports.
 *
 * The raw limit is what any design must do: ask, get a descriptor by SCM_RIGHTS, close it.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "apart.h"
#include "live.h"
#include "raw.h"
#include "report.h"
#include "sections.h"

#define N_MANY 10000
#define N_FEW 64
#define BATCH 100
#define LARGE (64 * MB)
#define HUGE_SIZE (256 * MB)
#define ROUNDS 31

static const aclrtPhysicalMemProp prop = {
    .memAttr = ACL_HBM_MEM_HUGE,
    .location = {.type = ACL_MEM_LOCATION_TYPE_DEVICE},
};

/* What the two processes have in common. */
struct board {
    double ns; /* that the exporter took for its part */
    uint64_t number[N_MANY];
};

static struct board *board;
static int channel; /* to the exporter: an order is answered with the same bytes */

struct order {
    enum { EXPORT, FREE } what;
    size_t n;
    size_t size;
};

static aclrtDrvMemHandle *handles_new(size_t n)
{
    aclrtDrvMemHandle *handles = calloc(n, sizeof *handles);

    MUST_HOLD(handles != NULL);
    return handles;
}

/* ---- the other processes ---- */

static void exporter_run(int fd)
{
    aclrtDrvMemHandle *handle = handles_new(N_MANY);
    struct order order;
    uint64_t start;

    library_start(true);
    while (recv(fd, &order, sizeof order, 0) == (ssize_t)sizeof order) {
        if (order.what == EXPORT) {
            for (size_t i = 0; i < order.n; i++)
                MUST(aclrtMallocPhysical(&handle[i], order.size, &prop, 0));
            start = now_ns();
            for (size_t i = 0; i < order.n; i++)
                MUST(aclrtMemExportToShareableHandle(
                    handle[i], ACL_MEM_HANDLE_TYPE_NONE,
                    ACL_RT_VMM_EXPORT_FLAG_DISABLE_PID_VALIDATION, &board->number[i]));
        } else {
            start = now_ns();
            for (size_t i = 0; i < order.n; i++)
                MUST(aclrtFreePhysical(handle[i]));
        }
        board->ns = (double)(now_ns() - start) / (double)order.n;
        MUST_HOLD(send(fd, &order, sizeof order, 0) == (ssize_t)sizeof order);
    }
    library_stop();
    _exit(0);
}

/* For each byte that comes, a descriptor goes. */
static void passer_run(int fd)
{
    int memory = memfd_create("raw", MFD_CLOEXEC);
    char byte = 0;
    struct iovec part = {&byte, 1};
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = {0};
    struct msghdr message = {
        .msg_iov = &part,
        .msg_iovlen = 1,
        .msg_control = &control,
        .msg_controllen = sizeof control.bytes,
    };

    control.header.cmsg_level = SOL_SOCKET;
    control.header.cmsg_type = SCM_RIGHTS;
    control.header.cmsg_len = CMSG_LEN(sizeof memory);
    memcpy(CMSG_DATA(&control.header), &memory, sizeof memory);
    while (recv(fd, &byte, 1, 0) == 1)
        MUST_HOLD(sendmsg(fd, &message, 0) == 1);
    _exit(0);
}

/* A process that runs it with one end of a socket; the other end. */
static int process_start(void (*run)(int fd))
{
    int pair[2];
    pid_t pid;

    MUST_HOLD(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0);
    pid = fork();
    MUST_HOLD(pid >= 0);
    if (pid == 0) {
        close(pair[0]);
        run(pair[1]);
    }
    close(pair[1]);
    return pair[0];
}

static void tell(int what, size_t n, size_t size)
{
    struct order order = {what, n, size};

    MUST_HOLD(send(channel, &order, sizeof order, 0) == (ssize_t)sizeof order);
    MUST_HOLD(recv(channel, &order, sizeof order, 0) == (ssize_t)sizeof order);
}

/* ---- what is measured ---- */

static void raw_run(void *arg, size_t n)
{
    int fd = *(int *)arg;
    char byte = 0;
    struct iovec part = {&byte, 1};
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control;
    int got;

    while (n-- > 0) {
        struct msghdr message = {
            .msg_iov = &part,
            .msg_iovlen = 1,
            .msg_control = &control,
            .msg_controllen = sizeof control.bytes,
        };

        MUST_HOLD(send(fd, &byte, 1, 0) == 1);
        MUST_HOLD(recvmsg(fd, &message, MSG_CMSG_CLOEXEC) == 1);
        memcpy(&got, CMSG_DATA(&control.header), sizeof got);
        close(got);
    }
}

static aclrtDrvMemHandle imported[N_MANY];
static size_t n_imported;

static void import_free(void *unused, size_t n)
{
    while (n_imported > 0)
        MUST(aclrtFreePhysical(imported[--n_imported]));
}

static void import_run(void *unused, size_t n)
{
    for (; n_imported < n; n_imported++)
        MUST(aclrtMemImportFromShareableHandle(board->number[n_imported], 0,
                                               &imported[n_imported]));
}

static void import_section(int passer)
{
    struct subject s[2] = {
        {.run = import_run, .prepare = import_free, .n = N_FEW, .has_threads = true},
        {.run = raw_run, .arg = &passer, .n = N_FEW, .has_threads = true},
    };

    tell(EXPORT, N_FEW, CHUNK);
    report_section("sharing; limit: asking for a descriptor, SCM_RIGHTS, close");
    measure(s, 2, ROUNDS);
    import_free(NULL, 0);
    tell(FREE, N_FEW, 0);
    report_row(&(struct row){"import of a handle of 2 MB", "ns", s[0].ns, s[1].ns,
                             BUDGET_AT_MOST, 3});
}

static aclrtDrvMemHandle exported[N_FEW]; /* NULL: none yet */

/* New handles, since memory is exported once. */
static void export_prepare(void *unused, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (exported[i] != NULL)
            MUST(aclrtFreePhysical(exported[i]));
        MUST(aclrtMallocPhysical(&exported[i], CHUNK, &prop, 0));
    }
}

static void export_run(void *unused, size_t n)
{
    uint64_t number;

    for (size_t i = 0; i < n; i++)
        MUST(aclrtMemExportToShareableHandle(
            exported[i], ACL_MEM_HANDLE_TYPE_NONE,
            ACL_RT_VMM_EXPORT_FLAG_DISABLE_PID_VALIDATION, &number));
}

static void export_section(void)
{
    struct subject s[2] = {
        {.run = export_run, .prepare = export_prepare, .n = N_FEW},
        raw_memfd(),
    };

    s[1].n = N_FEW;
    measure(s, 2, ROUNDS);
    for (size_t i = 0; i < N_FEW; i++)
        MUST(aclrtFreePhysical(exported[i]));
    report_section("sharing; limit: memfd_create, ftruncate, close");
    report_row(&(struct row){"export of a handle of 2 MB", "ns", s[0].ns, s[1].ns,
                             BUDGET_AT_MOST, 2});
}

/* Everything that two processes do with 10,000 handles, for each of them. */
static void many_section(int passer)
{
    double export, import = 0, raw = 0, map, unmap;
    uint64_t at;
    char *addr;

    tell(EXPORT, N_MANY, CHUNK);
    export = board->ns;
    for (size_t n = BATCH; n <= N_MANY; n += BATCH) { /* in turn, on a busy machine */
        at = now_ns();
        import_run(NULL, n);
        import += (double)(now_ns() - at) / N_MANY;
        at = now_ns();
        raw_run(&passer, BATCH);
        raw += (double)(now_ns() - at) / N_MANY;
    }
    MUST(aclrtReserveMemAddress((void **)&addr, N_MANY * CHUNK, 0, NULL, 1));
    at = now_ns();
    for (size_t i = 0; i < N_MANY; i++)
        MUST(aclrtMapMem(addr + i * CHUNK, CHUNK, 0, imported[i], 0));
    map = (double)(now_ns() - at) / N_MANY;
    at = now_ns();
    for (size_t i = 0; i < N_MANY; i++)
        MUST(aclrtUnmapMem(addr + i * CHUNK));
    import_free(NULL, 0);
    unmap = (double)(now_ns() - at) / N_MANY;
    MUST(aclrtReleaseMemAddress(addr));
    tell(FREE, N_MANY, 0);

    report_section("10,000 handles of 2 MB by two processes, each of them");
    report_row(&(struct row){"export", "ns", export, 0, BUDGET_NONE, 0});
    report_row(
        &(struct row){"import; limit: as above", "ns", import, raw, BUDGET_AT_MOST, 3});
    report_row(&(struct row){"map", "ns", map, 0, BUDGET_NONE, 0});
    report_row(
        &(struct row){"unmap and free in the importer", "ns", unmap, 0, BUDGET_NONE, 0});
    report_row(&(struct row){"free in the exporter", "ns", board->ns, 0, BUDGET_NONE, 0});
}

/* ---- bytes ---- */

struct side {
    char *addr;
    char *host;
    bool is_out;
};

static void copy_run(void *arg, size_t n)
{
    struct side *side = arg;

    while (n-- > 0) {
        if (side->is_out)
            MUST(aclrtMemcpy(side->host, LARGE, side->addr, LARGE,
                             ACL_MEMCPY_DEVICE_TO_HOST));
        else
            MUST(aclrtMemcpy(side->addr, LARGE, side->host, LARGE,
                             ACL_MEMCPY_HOST_TO_DEVICE));
    }
}

static char *map_new(aclrtDrvMemHandle handle, size_t size)
{
    void *addr;

    MUST(aclrtReserveMemAddress(&addr, size, 0, NULL, 1));
    MUST(aclrtMapMem(addr, size, 0, handle, 0));
    MUST(aclrtMemset(addr, size, 1, size));
    return addr;
}

static void copy_section(void)
{
    aclrtDrvMemHandle own;
    char *host = raw_memory(LARGE);
    char *addr[2];

    raw_populate(host, LARGE);
    MUST(aclrtMallocPhysical(&own, LARGE, &prop, 0));
    tell(EXPORT, 1, LARGE);
    import_run(NULL, 1);
    addr[0] = map_new(imported[0], LARGE);
    addr[1] = map_new(own, LARGE);
    report_section("copies of 64 MB; limit: the same with own memory");
    for (int is_out = 0; is_out < 2; is_out++) {
        struct side sides[2] = {{addr[0], host, is_out}, {addr[1], host, is_out}};
        struct subject s[2] = {
            {.run = copy_run, .arg = &sides[0], .n = 1, .has_threads = true},
            {.run = copy_run, .arg = &sides[1], .n = 1, .has_threads = true},
        };

        measure(s, 2, ROUNDS);
        report_row(&(struct row){is_out ? "from imported memory" : "to imported memory",
                                 "GB/s", LARGE / s[0].ns, LARGE / s[1].ns,
                                 BUDGET_AT_LEAST, 0.95});
    }
    for (int i = 0; i < 2; i++) {
        MUST(aclrtUnmapMem(addr[i]));
        MUST(aclrtReleaseMemAddress(addr[i]));
    }
    MUST(aclrtFreePhysical(own));
    import_free(NULL, 0);
    tell(FREE, 1, 0);
    munmap(host, LARGE);
}

/* ---- export of memory that holds bytes, and of memory that does not ---- */

struct large {
    bool is_written;
    aclrtDrvMemHandle handle; /* NULL: none yet */
    char *addr;
    char *from;
};

static void large_end(struct large *large)
{
    if (large->handle == NULL)
        return;
    MUST(aclrtUnmapMem(large->addr));
    MUST(aclrtReleaseMemAddress(large->addr));
    MUST(aclrtFreePhysical(large->handle));
    large->handle = NULL;
}

static void large_prepare(void *arg, size_t n)
{
    struct large *large = arg;

    large_end(large);
    MUST(aclrtMallocPhysical(&large->handle, HUGE_SIZE, &prop, 0));
    MUST(aclrtReserveMemAddress((void **)&large->addr, HUGE_SIZE, 0, NULL, 1));
    MUST(aclrtMapMem(large->addr, HUGE_SIZE, 0, large->handle, 0));
    if (large->is_written)
        MUST(aclrtMemset(large->addr, HUGE_SIZE, 1, HUGE_SIZE));
}

static void large_run(void *arg, size_t n)
{
    struct large *large = arg;
    uint64_t number;

    MUST(aclrtMemExportToShareableHandle(large->handle, ACL_MEM_HANDLE_TYPE_NONE, 1,
                                         &number));
}

/* By hand: new memory, with its pages, and the bytes. */
static void move_run(void *arg, size_t n)
{
    struct large *large = arg;
    char *to = raw_memory(HUGE_SIZE);

    raw_populate(to, HUGE_SIZE);
    raw_stream(to, large->from, HUGE_SIZE);
    munmap(to, HUGE_SIZE);
}

static void file_run(void *unused, size_t n)
{
    munmap(raw_memory(HUGE_SIZE), HUGE_SIZE);
}

static void large_section(void)
{
    struct large written = {.is_written = true};
    struct large fresh = {0};
    struct large raw = {.from = raw_memory(HUGE_SIZE)};
    struct subject s[4] = {
        {.run = large_run, .prepare = large_prepare, .arg = &written, .n = 1},
        {.run = move_run, .arg = &raw, .n = 1},
        {.run = large_run, .prepare = large_prepare, .arg = &fresh, .n = 1},
        {.run = file_run, .n = 1},
    };

    raw_populate(raw.from, HUGE_SIZE);
    measure(s, 4, 9);
    large_end(&written);
    large_end(&fresh);
    munmap(raw.from, HUGE_SIZE);
    report_section("export of 256 MB");
    report_row(&(struct row){"written; limit: populating and copying by hand", "GB/s",
                             HUGE_SIZE / s[0].ns, HUGE_SIZE / s[1].ns, BUDGET_AT_LEAST,
                             0.8});
    report_row(&(struct row){"never written; limit: a new memfd, mapped and unmapped",
                             "ns", s[2].ns, s[3].ns, BUDGET_NONE, 0});
}

void bench_share(void *unused)
{
    int passer;

    board = apart_memory(sizeof *board);
    channel = process_start(exporter_run);
    passer = process_start(passer_run);
    library_start(true);
    export_section();
    import_section(passer);
    many_section(passer);
    copy_section();
    large_section();
    library_stop();
    close(channel);
    close(passer);
}
