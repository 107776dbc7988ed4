/*
 * The importer's side.  See exchange.h.
 *
 * The connection of the last import is kept for the next one.  A thread that imports takes
 * the connection and uses it alone, so no lock is held while the thread waits for the
 * exporter.  If another thread has it, or it leads to another exporter, the import opens one.
 */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <sys/socket.h>

#include "acl/error_codes/rt_error_codes.h"
#include "base/clock.h"
#include "base/descriptor.h"
#include "base/epoch.h"
#include "base/error.h"
#include "base/fdpass.h"
#include "base/lock.h"
#include "base/sys.h"
#include "base/tree.h"
#include "core/exchange/exchange_table.h"
#include "core/exchange/sockname.h"
#include "core/ledger/rundir.h"

#define ATTEMPTS_MAX 8   /* new connections for one import */
#define RETRY_NS 1000000 /* before the next attempt if the listen backlog is full */
#define SLICE_MS 100     /* a single wait; longer stops of this process do not count */
#define NAME_SHIFT 40

/* A connection to an exporter. */
struct link {
    int fd; /* -1: none */
    uint32_t name;
    int32_t exporter; /* process id */
};

static struct {
    struct am_lock lock;
    bool is_up; /* lock, as the next one; false: no connection is kept */
    struct link link;
} idle = {.lock = AM_LOCK_INIT(AM_RANK_LEAF, "connection"), .link = {.fd = -1}};

static struct link link_take(uint32_t name)
{
    struct link link = {.fd = -1};

    am_lock(&idle.lock);
    if (idle.link.fd >= 0 && idle.link.name == name) {
        link = idle.link;
        idle.link.fd = -1;
    }
    am_unlock(&idle.lock);
    return link;
}

static void link_keep(struct link link)
{
    struct link other = link;

    am_lock(&idle.lock);
    if (idle.is_up) {
        other = idle.link;
        idle.link = link;
    }
    am_unlock(&idle.lock);
    if (other.fd >= 0)
        close(other.fd);
}

void am_import_client_set(bool is_up)
{
    am_lock(&idle.lock);
    idle.is_up = is_up;
    if (!is_up && idle.link.fd >= 0) {
        close(idle.link.fd);
        idle.link.fd = -1;
    }
    am_unlock(&idle.lock);
}

/* ---- claims ---- */

/* A number that this process has imported, or is importing. */
struct imported {
    RB_ENTRY(imported) node;
    uint64_t number;
};

RB_HEAD(imported_tree, imported);
AM_TREE(imported_tree, imported, node, number)

static struct {
    struct am_lock lock;
    struct imported_tree tree; /* lock */
} imports = {.lock = AM_LOCK_INIT(AM_RANK_LEAF, "imports")};

aclError am_import_claim(uint64_t number)
{
    struct imported *imported = am_sys_malloc(sizeof *imported);
    bool is_claimed;

    AM_REQUIRE(imported != NULL, ACL_ERROR_BAD_ALLOC,
               "no host memory for the records of an import");
    imported->number = number;
    is_claimed = AM_LOCKED(&imports.lock,
                           RB_INSERT(imported_tree, &imports.tree, imported) != NULL);
    if (!is_claimed)
        return ACL_SUCCESS;
    free(imported);
    return am_fail(ACL_ERROR_RT_PARAM_INVALID,
                   "0x%016" PRIx64 " is already imported in this process, and its memory "
                   "is in use; release that import first",
                   number);
}

void am_import_release(uint64_t number)
{
    struct imported key = {.number = number};
    struct imported *imported;

    am_lock(&imports.lock);
    imported = RB_FIND(imported_tree, &imports.tree, &key);
    if (imported != NULL)
        RB_REMOVE(imported_tree, &imports.tree, imported);
    am_unlock(&imports.lock);
    free(imported);
}

/* ---- messages ---- */

struct am_wire_request am_wire_request(enum am_share_kind kind,
                                       const struct am_share_handle *share)
{
    return (struct am_wire_request){
        .magic = AM_WIRE_MAGIC,
        .version = AM_WIRE_VERSION,
        .kind = (uint16_t)kind,
        .handle = *share,
    };
}

struct am_wire_reply am_wire_reply(enum am_wire_status status, enum am_share_kind kind,
                                   const void *bytes, size_t size)
{
    struct am_wire_reply reply = {
        .magic = AM_WIRE_MAGIC,
        .version = AM_WIRE_VERSION,
        .status = (uint16_t)status,
        .kind = kind,
        .size = (uint32_t)size,
    };

    am_assert(size <= sizeof reply.bytes);
    if (size > 0)
        memcpy(reply.bytes, bytes, size);
    return reply;
}

enum am_wire_status am_wire_check_request(const struct am_wire_request *request)
{
    if (request->magic != AM_WIRE_MAGIC)
        return AM_WIRE_BAD_REQUEST;
    if (request->version != AM_WIRE_VERSION)
        return AM_WIRE_BAD_VERSION;
    if (request->kind == 0 || request->kind >= AM_SHARE_KINDS)
        return AM_WIRE_BAD_REQUEST;
    return AM_WIRE_GRANTED;
}

/* The call that lets a process import. */
static const char *list_call(enum am_share_kind kind)
{
    switch (kind) {
    case AM_SHARE_BLOCK:
        return "aclrtIpcMemSetImportPid";
    case AM_SHARE_NOTIFY:
        return "aclrtNotifySetImportPid";
    case AM_SHARE_FABRIC:
        return "aclrtMemSetPidToShareableHandleV2";
    default:
        return "aclrtMemSetPidToShareableHandle";
    }
}

aclError am_wire_check_reply(const struct am_wire_reply *reply,
                             const struct am_wire_request *request, bool has_fd,
                             int32_t exporter)
{
    AM_REQUIRE(reply->magic == AM_WIRE_MAGIC, ACL_ERROR_RT_IPC_ERROR,
               "process %d answered with an invalid reply", exporter);
    AM_REQUIRE(reply->version == AM_WIRE_VERSION && reply->status != AM_WIRE_BAD_VERSION,
               ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
               "process %d uses version %u of the sharing protocol, and this process "
               "version %d; both must load the same aclmem",
               exporter, reply->version, AM_WIRE_VERSION);
    AM_REQUIRE(
        reply->status != AM_WIRE_REFUSED, ACL_ERROR_RT_NO_PERMISSION,
        "process %d does not let process %d import 0x%016" PRIx64
        ": the memory was freed there, or the number is wrong, or this process is not "
        "listed; call %s there with the id that aclrtDeviceGetBareTgid returns here, or "
        "export without validation of process ids",
        exporter, (int)getpid(), request->handle.number, list_call(request->kind));
    AM_REQUIRE(reply->status == AM_WIRE_GRANTED, ACL_ERROR_RT_IPC_ERROR,
               "process %d did not understand the request for 0x%016" PRIx64
               " (answer %u)",
               exporter, request->handle.number, reply->status);
    AM_REQUIRE(
        has_fd && reply->kind == request->kind && reply->size <= sizeof reply->bytes,
        ACL_ERROR_RT_IPC_ERROR,
        "process %d sent an invalid answer: kind %u for %u, %u bytes, %s descriptor",
        exporter, reply->kind, request->kind, reply->size, has_fd ? "a" : "no");
    return ACL_SUCCESS;
}

/* ---- requests ---- */

/* Called at least once in SLICE_MS. */
static bool has_time(struct am_timeout *timeout)
{
    return am_timeout_check(timeout, am_clock(), SLICE_MS * AM_MILLISECOND);
}

/* Waits until the socket is ready: 0, -ETIMEDOUT, or another -errno. */
static int ready_wait(int fd, short events, struct am_timeout *timeout)
{
    struct pollfd p = {.fd = fd, .events = events};
    int n;

    do
        n = poll(&p, 1, SLICE_MS);
    while ((n == 0 || (n < 0 && errno == EINTR)) && has_time(timeout));
    return n > 0 ? 0 : n == 0 || errno == EINTR ? -ETIMEDOUT : -errno;
}

/* The failure of an import without a reply; exporter: its process id, 0 if unknown. */
static aclError fail_import(uint64_t number, int32_t exporter, const char *action,
                            int error)
{
    char why[AM_SHORTAGE_SIZE];

    switch (error) {
    case ENOENT:
    case EACCES:
    case EPERM:
        return am_fail(
            ACL_ERROR_RT_NO_PERMISSION,
            "no process exports 0x%016" PRIx64
            ": the exporting process has ended or has freed it, or the number is wrong, "
            "or the process belongs to another user, or is on another machine, which "
            "fabric handles alone reach, or has another runtime directory than %s "
            "(ACLMEM_RUNTIME_DIR)",
            number, am_rundir_path());
    case EAGAIN:
    case ETIMEDOUT:
        return am_fail(ACL_ERROR_RT_IPC_ERROR,
                       "process %d, which exports 0x%016" PRIx64
                       ", did not answer within %d ms; it may be stopped",
                       exporter, number, AM_EXCHANGE_WAIT_MS);
    case EPIPE:
        return am_fail(
            ACL_ERROR_RT_IPC_ERROR,
            "process %d, which exports 0x%016" PRIx64
            ", closes connections without an answer; it may have no file descriptor left",
            exporter, number);
    case EPROTO:
        return am_fail(ACL_ERROR_RT_IPC_ERROR,
                       "process %d answered the request for 0x%016" PRIx64
                       " with an invalid reply",
                       exporter, number);
    case EMFILE:
        return am_fail(ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, "0x%016" PRIx64 ": %s", number,
                       am_shortage(error, why));
    case ENOMEM:
        return am_fail(ACL_ERROR_BAD_ALLOC,
                       "no host memory for a connection to another process");
    default:
        return am_fail(ACL_ERROR_RT_IPC_ERROR, "0x%016" PRIx64 ": %s: %s%s", number,
                       action, strerror(error), am_sockname_advice(error));
    }
}

static aclError link_open(uint64_t number, struct am_timeout *timeout,
                          struct link *ret_link)
{
    uint32_t name = (uint32_t)(number >> NAME_SHIFT);
    struct ucred peer = {0};
    socklen_t size = sizeof peer;
    int directory;
    int fd = am_rundir_look(&directory);

    if (fd < 0)
        return fail_import(number, 0, "opening the runtime directory", -fd);
    while ((fd = am_sockname_connect(directory, name)) == -EAGAIN && has_time(timeout))
        nanosleep(&(struct timespec){.tv_nsec = RETRY_NS}, NULL);
    close(directory);
    if (fd < 0)
        return fail_import(number, 0, "connecting to the exporting process", -fd);
    getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size);
    *ret_link = (struct link){.fd = fd, .name = name, .exporter = (int32_t)peer.pid};
    return ACL_SUCCESS;
}

/* Sends the request and waits for the reply: 0 or -errno. */
static int reply_request(int socket, const struct am_wire_request *request,
                         struct am_timeout *timeout, struct am_wire_reply *ret_reply,
                         int *ret_fd)
{
    int rc;

    while ((rc = am_fdpass_send(socket, request, sizeof *request, -1)) == -EAGAIN) {
        rc = ready_wait(socket, POLLOUT, timeout);
        if (rc != 0)
            return rc;
    }
    if (rc != 0)
        return rc == -ECONNRESET || rc == -ENOTCONN ? -EPIPE : rc;
    do {
        rc = ready_wait(socket, POLLIN, timeout);
        if (rc == 0)
            rc = am_fdpass_receive(socket, ret_reply, sizeof *ret_reply, ret_fd);
    } while (rc == -EAGAIN);
    return rc;
}

/*
 * Gets a reply over the kept connection or a new one.  A connection that the exporter has
 * closed, or that belongs to an ended exporter of the same name, is replaced.
 */
static aclError reply_fetch(const struct am_wire_request *request, struct link *ret_link,
                            struct am_wire_reply *ret_reply, int *ret_fd)
{
    struct am_timeout timeout = {.left = AM_EXCHANGE_WAIT_MS * AM_MILLISECOND,
                                 .checked = am_clock()};
    uint64_t number = request->handle.number;
    int n_new = 0;

    for (;;) {
        struct link link = link_take((uint32_t)(number >> NAME_SHIFT));
        int error;

        if (link.fd < 0) {
            AM_TRY(link_open(number, &timeout, &link));
            n_new++;
        }
        error = -reply_request(link.fd, request, &timeout, ret_reply, ret_fd);
        if (error == 0) {
            *ret_link = link;
            return ACL_SUCCESS;
        }
        close(link.fd);
        if (error == EMFILE && n_new < ATTEMPTS_MAX && am_limit_raise(RLIMIT_NOFILE))
            continue;
        if (error != EPIPE || n_new >= ATTEMPTS_MAX || !has_time(&timeout))
            return fail_import(number, link.exporter, "asking the exporting process",
                               error);
    }
}

aclError am_import_fetch(enum am_share_kind kind, const struct am_share_handle *share,
                         struct am_import_reply *ret_reply)
{
    struct am_wire_request request = am_wire_request(kind, share);
    uint64_t number = share->number;
    struct am_wire_reply reply;
    struct link link = {.fd = -1};
    int fd = -1;
    int error = -am_export_table_take(kind, share, ret_reply);
    unsigned depth;
    aclError rc;

    if (error == 0)
        return ACL_SUCCESS;
    if (error != ENOENT)
        return fail_import(number, (int32_t)getpid(), "copying its descriptor", error);
    depth = am_epoch_suspend();
    rc = reply_fetch(&request, &link, &reply, &fd);
    am_epoch_resume(depth);
    if (rc != ACL_SUCCESS)
        return rc;
    rc = am_wire_check_reply(&reply, &request, fd >= 0, link.exporter);
    if (rc == ACL_SUCCESS) {
        *ret_reply = (struct am_import_reply){
            .fd = fd, .size = reply.size, .exporter = link.exporter};
        memcpy(ret_reply->bytes, reply.bytes, reply.size);
    } else if (fd >= 0) {
        close(fd);
    }
    if (rc == ACL_ERROR_RT_IPC_ERROR)
        close(link.fd); /* its later messages may be invalid, too */
    else
        link_keep(link);
    return rc;
}
