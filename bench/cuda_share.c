/*
 * Importing memory of another process: by its number, and by hand: asking for a
 * descriptor, getting it by SCM_RIGHTS, and the driver's own import.
 */
#include "cuda.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "acl/acl.h"
#include "measure.h"
#include "report.h"

#define N 64
#define ROUNDS 21

static int channel = -1;
static pid_t exporter;
static uint64_t number[N];
static aclrtDrvMemHandle imported[N];
static CUmemGenericAllocationHandle raw[N];

union control {
    struct cmsghdr header;
    char bytes[CMSG_SPACE(sizeof(int))];
};

/* For each index that comes, the descriptor of that memory goes. */
static void descriptors_pass(int fd, const int *memory)
{
    unsigned char index = 0;
    struct iovec part = {&index, 1};

    while (recv(fd, &index, 1, 0) == 1) {
        union control control = {0};
        struct msghdr message = {
            .msg_iov = &part,
            .msg_iovlen = 1,
            .msg_control = &control,
            .msg_controllen = sizeof control.bytes,
        };

        control.header.cmsg_level = SOL_SOCKET;
        control.header.cmsg_type = SCM_RIGHTS;
        control.header.cmsg_len = CMSG_LEN(sizeof *memory);
        memcpy(CMSG_DATA(&control.header), &memory[index], sizeof *memory);
        MUST_HOLD(sendmsg(fd, &message, 0) == 1);
    }
}

static void exporter_run(int fd)
{
    static const aclrtPhysicalMemProp prop = {
        .memAttr = ACL_HBM_MEM_HUGE, .location.type = ACL_MEM_LOCATION_TYPE_DEVICE};
    static const CUmemAllocationProp raw_prop = {
        .type = CU_MEM_ALLOCATION_TYPE_PINNED,
        .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
        .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    int memory[N];

    if (driver_start() != NULL)
        _exit(0);
    cuda_library_start();
    for (size_t i = 0; i < N; i++) {
        MUST(aclrtMallocPhysical(&imported[i], CHUNK, &prop, 0));
        MUST(aclrtMemExportToShareableHandle(
            imported[i], ACL_MEM_HANDLE_TYPE_NONE,
            ACL_RT_VMM_EXPORT_FLAG_DISABLE_PID_VALIDATION, &number[i]));
        MUST((int)cu.cuMemCreate(&raw[i], CHUNK, &raw_prop, 0));
        MUST((int)cu.cuMemExportToShareableHandle(
            &memory[i], raw[i], CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    }
    MUST_HOLD(send(fd, number, sizeof number, 0) == (ssize_t)sizeof number);
    descriptors_pass(fd, memory);
    _exit(0);
}

void cuda_share_start(void)
{
    int pair[2];

    MUST_HOLD(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0);
    exporter = fork();
    MUST_HOLD(exporter >= 0);
    if (exporter == 0) {
        close(pair[0]);
        exporter_run(pair[1]);
    }
    close(pair[1]);
    channel = pair[0];
}

void cuda_share_end(void)
{
    close(channel);
    waitpid(exporter, NULL, 0);
}

static void our_free(void *unused, size_t n)
{
    for (size_t i = 0; i < N; i++) {
        if (imported[i] != NULL)
            MUST(aclrtFreePhysical(imported[i]));
        imported[i] = NULL;
    }
}

static void our_import(void *unused, size_t n)
{
    for (size_t i = 0; i < n; i++)
        MUST(aclrtMemImportFromShareableHandle(number[i], 0, &imported[i]));
}

static void raw_free(void *unused, size_t n)
{
    for (size_t i = 0; i < N; i++) {
        if (raw[i] != 0)
            MUST((int)cu.cuMemRelease(raw[i]));
        raw[i] = 0;
    }
}

static void raw_import(void *unused, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        unsigned char index = (unsigned char)i;
        struct iovec part = {&index, 1};
        union control control;
        struct msghdr message = {
            .msg_iov = &part,
            .msg_iovlen = 1,
            .msg_control = &control,
            .msg_controllen = sizeof control.bytes,
        };
        int fd;

        MUST_HOLD(send(channel, &index, 1, 0) == 1);
        MUST_HOLD(recvmsg(channel, &message, MSG_CMSG_CLOEXEC) == 1);
        memcpy(&fd, CMSG_DATA(&control.header), sizeof fd);
        MUST((int)cu.cuMemImportFromShareableHandle(
            &raw[i], (void *)(intptr_t)fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
        close(fd);
    }
}

void cuda_share_measure(void)
{
    struct subject s[2] = {
        {.run = our_import, .prepare = our_free, .n = N, .has_threads = true},
        {.run = raw_import, .prepare = raw_free, .n = N, .has_threads = true},
    };

    report_section("sharing; limit: SCM_RIGHTS and the driver's own import");
    MUST_HOLD(recv(channel, number, sizeof number, 0) == (ssize_t)sizeof number);
    measure(s, 2, ROUNDS);
    our_free(NULL, 0);
    raw_free(NULL, 0);
    report_row(&(struct row){"import of a handle of 2 MB", "ns", s[0].ns, s[1].ns,
                             BUDGET_AT_MOST, 1.5});
}
