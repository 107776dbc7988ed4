/* The host's own touches of pinned memory, which no call tells. */
#include "bugs.h"

#include <sys/wait.h>
#include <unistd.h>

#define SIZE ((size_t)16384)

/* ---- race.host: pages are protected while queued work uses them ---- */

MISTAKE int look_at(const char *host)
{
    return *(const volatile char *)host;
}

MISTAKE void change(char *host)
{
    *(volatile char *)host = 1;
}

static void read_destination(bool is_fixed)
{
    aclrtStream stream = stream_open();
    void *block = block_open(SIZE);
    char *host = host_open(SIZE);

    MUST(aclrtMemset(block, SIZE, 1, SIZE));
    MUST(aclrtMemcpyAsync(host, SIZE, block, SIZE, ACL_MEMCPY_DEVICE_TO_HOST, stream));
    if (is_fixed)
        MUST(aclrtSynchronizeStream(stream));
    look_at(host + 5000);
    MUST(aclrtSynchronizeStream(stream));
    if (look_at(host + 5000) != 1)
        _exit(4);
    MUST(aclrtFree(block));
    MUST(aclrtFreeHost(host));
    MUST(aclrtDestroyStream(stream));
}

static void write_source(bool is_fixed)
{
    aclrtStream stream = stream_open();
    void *block = block_open(100);
    char *host = host_open(100);
    aclrtEvent event;

    MUST(aclrtCreateEvent(&event));
    MUST(aclrtMemcpyAsync(block, 100, host, 100, ACL_MEMCPY_HOST_TO_DEVICE, stream));
    MUST(aclrtRecordEvent(event, stream));
    look_at(host); /* which is right: the stream reads, too */
    if (is_fixed)
        MUST(aclrtSynchronizeEvent(event));
    change(host);
    MUST(aclrtSynchronizeStream(stream));
    MUST(aclrtDestroyEvent(event));
    MUST(aclrtFree(block));
    MUST(aclrtFreeHost(host));
    MUST(aclrtDestroyStream(stream));
}

MISTAKE void fill_by_libc(char *host, size_t size)
{
    memset(host, 0, size);
}

/* The work waits in the stream, and libc touches more than one page. */
static void libc_on_a_source(bool is_fixed)
{
    aclrtStream stream = stream_open();
    void *block = block_open(SIZE);
    char *host = host_open(SIZE);
    struct gate gate;

    gate_hold(&gate, stream);
    MUST(aclrtMemcpyAsync(block, SIZE, host, SIZE, ACL_MEMCPY_HOST_TO_DEVICE, stream));
    if (!is_fixed)
        fill_by_libc(host, SIZE);
    gate_let(&gate);
    MUST(aclrtSynchronizeStream(stream));
    fill_by_libc(host, SIZE);
    MUST(aclrtFree(block));
    MUST(aclrtFreeHost(host));
    MUST(aclrtDestroyStream(stream));
}

/* ---- no mistakes ---- */

/* The halves of a block that meet inside a page, and a neighbour of it. */
static void other_bytes(bool is_fixed)
{
    aclrtStream stream = stream_open();
    void *block = block_open(SIZE);
    char *host = host_open(SIZE);
    char *neighbour = host_open(64);
    int pipes[2];

    MUST(aclrtMemcpyAsync(block, 6000, host, 6000, ACL_MEMCPY_HOST_TO_DEVICE, stream));
    change(host + 6000);
    change(neighbour);
    /* A system call on the rest of the page does not fail. */
    if (pipe(pipes) != 0 || write(pipes[1], host + 6000, 64) != 64 ||
        read(pipes[0], host + 6064, 64) != 64)
        _exit(4);
    MUST(aclrtSynchronizeStream(stream));
    change(host);
    MUST(aclrtFree(block));
    MUST(aclrtFreeHost(host));
    MUST(aclrtFreeHost(neighbour));
    MUST(aclrtDestroyStream(stream));
}

static void look_in_a_function(void *host)
{
    change(host);
}

/* A function of the program behind the copy may touch what the copy used. */
static void function_behind(bool is_fixed)
{
    aclrtStream stream = stream_open();
    void *block = block_open(SIZE);
    char *host = host_open(SIZE);

    MUST(aclrtMemset(block, SIZE, 1, SIZE));
    MUST(aclrtMemcpyAsync(host, SIZE, block, SIZE, ACL_MEMCPY_DEVICE_TO_HOST, stream));
    MUST(aclrtLaunchHostFunc(stream, look_in_a_function, host));
    MUST(aclrtSynchronizeStream(stream));
    MUST(aclrtFree(block));
    MUST(aclrtFreeHost(host));
    MUST(aclrtDestroyStream(stream));
}

/* A child made by fork has the pages as they are protected. */
static void child_of_fork(bool is_fixed)
{
    aclrtStream stream = stream_open();
    void *block = block_open(SIZE);
    char *host = host_open(SIZE);
    int status;
    pid_t pid;

    MUST(aclrtMemset(block, SIZE, 1, SIZE));
    MUST(aclrtMemcpyAsync(host, SIZE, block, SIZE, ACL_MEMCPY_DEVICE_TO_HOST, stream));
    pid = fork();
    if (pid == 0) {
        look_at(host);
        _exit(0);
    }
    if (waitpid(pid, &status, 0) != pid || status != 0)
        _exit(4);
    MUST(aclrtSynchronizeStream(stream));
    MUST(aclrtFree(block));
    MUST(aclrtFreeHost(host));
    MUST(aclrtDestroyStream(stream));
}

/* ---- out-of-bounds: guard bytes behind pinned blocks ---- */

MISTAKE void write_behind(char *host, size_t size, size_t n)
{
    memset(host + size, 'x', n);
}

static void freed_with_a_guard_written(bool is_fixed)
{
    char *host = host_open(1000);

    write_behind(host, is_fixed ? 999 : 1000, 1);
    MUST(aclrtFreeHost(host));
}

/* Far behind the end, where no guard byte is: the page there cannot be accessed. */
static void far_behind(bool is_fixed)
{
    char *host = host_open(SIZE);

    write_behind(host, is_fixed ? SIZE - 1 : SIZE + 5000, 1);
    MUST(aclrtFreeHost(host));
    host = host_open(SIZE); /* the addresses are good again */
    memset(host, 0, SIZE);
    MUST(aclrtFreeHost(host));
}

MISTAKE void send(void *device, const char *host)
{
    MUST(aclrtMemcpy(device, 4096, host, 4096, ACL_MEMCPY_HOST_TO_DEVICE));
}

static void copied_with_a_guard_written(bool is_fixed)
{
    void *block = block_open(4096);
    char *host = host_open(4096);

    send(block, host);
    write_behind(host, is_fixed ? 4092 : 4095, 4);
    send(block, host);
    MUST(aclrtFree(block));
    MUST(aclrtFreeHost(host));
}

static char *kept;

/* It is never freed, so the end of the process tells. */
static void left_with_a_guard_written(bool is_fixed)
{
    kept = host_open(64);
    write_behind(kept, is_fixed ? 60 : 64, 4);
    if (is_fixed)
        MUST(aclrtFreeHost(kept));
    MUST(aclrtResetDevice(0));
    MUST(aclFinalize());
}

/* The sizes that the program sees are those that it asked for. */
static void sizes_are_as_asked(bool is_fixed)
{
    char *host = host_open(100);
    void *block = block_open(200);
    void *base;
    size_t size;

    MUST(aclrtMemGetAddressRange(host, &base, &size));
    if (base != host || size != 100)
        _exit(4);
    MUST(aclrtMemcpy(block, 100, host, 100, ACL_MEMCPY_HOST_TO_DEVICE));
    MUST(aclrtFree(block));
    MUST(aclrtFreeHost(host));
}

#define ALL .options = "--check all,no-uninit-read"

const struct bug touch_bugs[] = {
    BUG("race.host/read", read_destination, "race.host",
        "reads byte 5000 of the pinned block of 16384 bytes", "look_at", ALL),
    BUG("race.host/write", write_source, "race.host",
        "writes byte 0 of the pinned block of 100 bytes", "change", ALL),
    BUG("race.host/libc", libc_on_a_source, "race.host", "which queued work on stream",
        "fill_by_libc", ALL),
    BUG("none/other-bytes", other_bytes, "", "", "", ALL),
    BUG("none/function-behind", function_behind, "", "", "", ALL),
    BUG("none/child", child_of_fork, "", "", "", ALL),
    BUG("none/sizes", sizes_are_as_asked, "", "", ""),
    BUG("out-of-bounds/guard-free", freed_with_a_guard_written, "out-of-bounds",
        "wrote behind the pinned block of 1000 bytes", "freed_with_a_guard_written"),
    BUG("race.host/fence", far_behind, "out-of-bounds",
        "writes 5000 bytes behind the end of the pinned block of 16384 bytes",
        "write_behind", ALL),
    BUG("out-of-bounds/guard-copy", copied_with_a_guard_written, "out-of-bounds",
        "byte 4096 is 0x78, and 3 bytes", "send"),
    BUG("out-of-bounds/guard-end", left_with_a_guard_written, "out-of-bounds",
        "wrote behind the pinned block of 64 bytes", "left_with_a_guard_written",
        .options = "--check out-of-bounds", .ends_by_itself = true),
    {.name = NULL},
};
