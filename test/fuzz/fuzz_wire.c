/*
 * What crosses the boundary between processes, in both directions.
 *
 * The first byte chooses.  Even: the rest are messages, each with its length in front,
 * that a real exporter gets on its socket; it answers each with a reply or closes, grants
 * nothing, and serves the next one.  Odd: the rest is a reply, which an importer looks at
 * as if it had come with a memory file; it is refused with a code, or imported and freed.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "acl/acl.h"
#include "core/device/device.h"
#include "core/exchange/exchange.h"
#include "core/ipc/share.h"
#include "core/vmm/phys.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes);

static char folder[] = "/tmp/fuzz_wire_XXXXXX";
static struct sockaddr_un address = {.sun_family = AF_UNIX};
static uint64_t number;
static int memory;

static void require(int is_true, const char *what, int rc)
{
    if (is_true)
        return;
    fprintf(stderr, "%s: %d\n", what, rc);
    abort();
}

static void leave(void)
{
    char command[64];

    aclFinalize();
    snprintf(command, sizeof command, "rm -rf %s", folder);
    if (system(command) != 0)
        fprintf(stderr, "%s is left\n", folder);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    aclrtPhysicalMemProp prop = {
        .memAttr = ACL_HBM_MEM_HUGE,
        .location = {.type = ACL_MEM_LOCATION_TYPE_DEVICE},
    };
    aclrtDrvMemHandle handle;
    struct dirent *entry;
    DIR *list;

    require(mkdtemp(folder) != NULL, "mkdtemp", 0);
    setenv("ACLMEM_RUNTIME_DIR", folder, 1);
    setenv("ACLMEM_MEMORY", "64M", 1);
    require(aclInit(NULL) == 0 && aclrtSetDevice(0) == 0, "aclInit", 0);
    require(aclrtMallocPhysical(&handle, 2 << 20, &prop, 0) == 0, "malloc", 0);
    require(aclrtMemExportToShareableHandle(handle, 0, 0, &number) == 0, "export", 0);
    list = opendir(folder);
    while ((entry = readdir(list)) != NULL) {
        if (strncmp(entry->d_name, "share-", 6) == 0)
            snprintf(address.sun_path, sizeof address.sun_path, "%s/%.12s", folder,
                     entry->d_name);
    }
    closedir(list);
    memory = memfd_create("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    require(ftruncate(memory, 2 << 20) == 0, "ftruncate", 0);
    require(fcntl(memory, F_ADD_SEALS, F_SEAL_SHRINK) == 0, "seals", 0);
    atexit(leave);
    return 0;
}

/* ---- towards the exporter ---- */

static int connect_raw(void)
{
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

    require(connect(fd, (struct sockaddr *)&address, sizeof address) == 0, "connect", 0);
    return fd;
}

/* The list of process ids is empty, so every request is refused. */
static void replies_check(int fd)
{
    struct am_wire_reply reply;
    ssize_t n;

    while ((n = recv(fd, &reply, sizeof reply, 0)) > 0) {
        require(n == (ssize_t)sizeof reply && reply.magic == AM_WIRE_MAGIC &&
                    reply.version == AM_WIRE_VERSION,
                "a reply that is none", (int)n);
        require(reply.status == AM_WIRE_REFUSED || reply.status == AM_WIRE_BAD_VERSION ||
                    reply.status == AM_WIRE_BAD_REQUEST,
                "the status of a refusal", reply.status);
    }
}

static void requests_send(const uint8_t *bytes, size_t n_bytes)
{
    struct am_share_handle share = {.number = number};
    struct am_wire_request good = am_wire_request(AM_SHARE_MEMORY, &share);
    struct am_wire_reply reply;
    int fd = connect_raw();

    while (n_bytes > 1) {
        size_t n = bytes[0] < n_bytes - 1 ? bytes[0] : n_bytes - 1;

        if (n > 0 && send(fd, bytes + 1, n, MSG_NOSIGNAL) < 0)
            break;
        bytes += n + 1;
        n_bytes -= n + 1;
    }
    shutdown(fd, SHUT_WR);
    replies_check(fd);
    close(fd);

    fd = connect_raw();
    require(send(fd, &good, sizeof good, 0) == (ssize_t)sizeof good, "send", 0);
    require(recv(fd, &reply, sizeof reply, 0) == (ssize_t)sizeof reply &&
                reply.status == AM_WIRE_REFUSED,
            "a good request", reply.status);
    close(fd);
}

/* ---- towards the importer ---- */

static void reply_take(const uint8_t *bytes, size_t n_bytes)
{
    struct am_share_handle share = {.number = 1};
    struct am_wire_request request = am_wire_request(AM_SHARE_MEMORY, &share);
    struct am_wire_reply reply = {0};
    struct am_import_reply import_reply = {.fd = memory, .exporter = 1};
    struct am_import import = {.number = 1};
    void *handle;
    aclError rc;

    memcpy(&reply, bytes, n_bytes < sizeof reply ? n_bytes : sizeof reply);
    rc = am_wire_check_reply(&reply, &request, true, 1);
    if (rc == ACL_SUCCESS) {
        require(reply.size <= sizeof import_reply.bytes, "more bytes than there are", 0);
        import_reply.size = reply.size;
        memcpy(import_reply.bytes, reply.bytes, reply.size);
        rc = am_share_read_desc(&import_reply, &am_devices.device[0], &import);
    }
    if (rc == ACL_SUCCESS)
        rc = am_phys_import(&import, &handle);
    if (rc == ACL_SUCCESS)
        require(aclrtFreePhysical(handle) == ACL_SUCCESS, "free", 0);
    else
        require(aclGetRecentErrMsg() != NULL, "no message", rc);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes)
{
    if (n_bytes == 0)
        return 0;
    if (bytes[0] % 2 == 0)
        requests_send(bytes + 1, n_bytes - 1);
    else
        reply_take(bytes + 1, n_bytes - 1);
    return 0;
}
