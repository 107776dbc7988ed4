/*
 * Two processes that share memory: pair CASE [fixed].  The exporter starts itself again as
 * the importer, and the two talk over a socketpair.
 *
 *     leak     the importer forgets what it imported
 *     twice    the exporter exports for each importer anew
 *     killed   the importer frees twice, and is killed while it has the memory
 *     stale    the exporter frees the memory before the importer has it
 *     refused  the importer tries an import that it may not do, before the exporter frees
 */
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "acl/acl.h"

#define CHUNK ((size_t)2 << 20)
#define MISTAKE static __attribute__((noinline))
#define MUST(call_) must((call_), #call_)

static void must(aclError rc, const char *call)
{
    if (rc == ACL_SUCCESS)
        return;
    fprintf(stderr, "pair: %s gives %d: %s\n", call, rc, aclGetRecentErrMsg());
    _exit(3);
}

static void say(int fd, uint64_t value)
{
    if (write(fd, &value, sizeof value) != sizeof value)
        _exit(4);
}

static uint64_t hear(int fd)
{
    uint64_t value;

    if (read(fd, &value, sizeof value) != sizeof value)
        _exit(5);
    return value;
}

/* ---- the importer ---- */

MISTAKE aclrtDrvMemHandle take_import(uint64_t number)
{
    aclrtDrvMemHandle handle;

    MUST(aclrtMemImportFromShareableHandle(number, 0, &handle));
    return handle;
}

MISTAKE void give_back(aclrtDrvMemHandle handle)
{
    aclrtFreePhysical(handle);
}

/* The importer may not have it yet, and handles that; the free comes later. */
static void import_refused(int fd)
{
    aclrtDrvMemHandle handle;

    if (aclrtMemImportFromShareableHandle(hear(fd), 0, &handle) == ACL_SUCCESS)
        _exit(9);
    aclGetRecentErrMsg();
    say(fd, 1);
    hear(fd); /* the exporter has freed it */
}

/* The exporter has freed it, if there is a mistake. */
MISTAKE void import_stale(uint64_t number)
{
    aclrtDrvMemHandle handle;

    if (aclrtMemImportFromShareableHandle(number, 0, &handle) == ACL_SUCCESS)
        MUST(aclrtFreePhysical(handle));
}

static void import_kept(const char *name, bool is_fixed, aclrtDrvMemHandle handle, int fd)
{
    if (strcmp(name, "killed") == 0) {
        aclrtPhysicalMemProp prop = {
            .memAttr = ACL_HBM_MEM_HUGE,
            .location = {.id = 0, .type = ACL_MEM_LOCATION_TYPE_DEVICE}};
        aclrtDrvMemHandle own;

        MUST(aclrtMallocPhysical(&own, CHUNK, &prop, 0));
        MUST(aclrtFreePhysical(own));
        if (!is_fixed)
            give_back(own);
        say(fd, 1);
        for (;;)
            pause();
    }
    if (strcmp(name, "leak") != 0 || is_fixed)
        give_back(handle);
    say(fd, 1);
}

static void import(const char *name, bool is_fixed, int fd)
{
    if (strcmp(name, "stale") == 0) {
        import_stale(hear(fd));
        say(fd, 1);
        return;
    }
    if (strcmp(name, "refused") == 0) {
        import_refused(fd);
        return;
    }
    import_kept(name, is_fixed, take_import(hear(fd)), fd);
}

static int importer(const char *name, bool is_fixed, int fd)
{
    int32_t pid;

    MUST(aclInit(NULL));
    MUST(aclrtSetDevice(0));
    MUST(aclrtDeviceGetBareTgid(&pid));
    say(fd, (uint64_t)pid);
    import(name, is_fixed, fd);
    MUST(aclrtResetDevice(0));
    MUST(aclFinalize());
    return 0;
}

/* ---- the exporter ---- */

static pid_t importer_start(const char *name, bool is_fixed, int *ret_fd)
{
    int fds[2];
    char text[16];
    pid_t pid;

    if (socketpair(AF_UNIX, SOCK_STREAM, 0, fds) != 0)
        _exit(6);
    snprintf(text, sizeof text, "%d", fds[1]);
    pid = fork();
    if (pid == 0) {
        close(fds[0]);
        execl("/proc/self/exe", "pair", name, is_fixed ? "fixed" : "bug", text, NULL);
        _exit(7);
    }
    close(fds[1]);
    *ret_fd = fds[0];
    return pid;
}

MISTAKE uint64_t export_it(aclrtDrvMemHandle handle)
{
    uint64_t number = 0;

    aclrtMemExportToShareableHandle(handle, ACL_MEM_HANDLE_TYPE_NONE, 0, &number);
    return number;
}

MISTAKE void free_early(aclrtDrvMemHandle handle)
{
    MUST(aclrtFreePhysical(handle));
}

/* One importer, from its start to its end. */
static void serve(const char *name, bool is_fixed, uint64_t number,
                  aclrtDrvMemHandle handle)
{
    int status;
    int fd;
    pid_t pid = importer_start(name, is_fixed, &fd);
    int32_t bare = (int32_t)hear(fd);

    if (strcmp(name, "refused") != 0)
        MUST(aclrtMemSetPidToShareableHandle(number, &bare, 1));
    if (strcmp(name, "stale") == 0 && !is_fixed)
        free_early(handle);
    say(fd, number);
    hear(fd);
    if (strcmp(name, "refused") == 0) {
        free_early(handle);
        say(fd, 1);
    }
    if (strcmp(name, "killed") == 0)
        kill(pid, SIGKILL);
    if (waitpid(pid, &status, 0) != pid)
        _exit(8);
    close(fd);
}

static int exporter(const char *name, bool is_fixed)
{
    aclrtPhysicalMemProp prop = {
        .memAttr = ACL_HBM_MEM_HUGE,
        .location = {.id = 0, .type = ACL_MEM_LOCATION_TYPE_DEVICE}};
    aclrtDrvMemHandle handle;
    uint64_t number;

    MUST(aclInit(NULL));
    MUST(aclrtSetDevice(0));
    MUST(aclrtMallocPhysical(&handle, CHUNK, &prop, 0));
    number = export_it(handle);
    serve(name, is_fixed, number, handle);
    if (strcmp(name, "twice") == 0 && !is_fixed)
        export_it(handle);
    if (strcmp(name, "refused") != 0 && (strcmp(name, "stale") != 0 || is_fixed))
        MUST(aclrtFreePhysical(handle));
    MUST(aclrtResetDevice(0));
    MUST(aclFinalize());
    return 0;
}

int main(int argc, char **argv)
{
    bool is_fixed = argc > 2 && strcmp(argv[2], "fixed") == 0;

    if (argc < 2)
        return 2;
    return argc > 3 ? importer(argv[1], is_fixed, atoi(argv[3]))
                    : exporter(argv[1], is_fixed);
}
