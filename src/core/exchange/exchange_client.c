/*
 * The importer's side.  See exchange.h.
 *
 * Connections are kept: the next import from the same exporter finds one.  A thread has
 * its connection alone and returns it afterwards, so no lock is held while it waits for
 * the exporter; two imports at a time use two connections.  A dead connection, closed by
 * the exporter or left by a restarted one, is replaced.
 */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <sched.h>
#include <string.h>
#include <time.h>
#include <sys/socket.h>

#include "acl/error_codes/rt_error_codes.h"
#include "base/clock.h"
#include "base/descriptor.h"
#include "base/error.h"
#include "base/fdpass.h"
#include "base/lock.h"
#include "base/sys.h"
#include "base/util.h"
#include "core/exchange/exchange_table.h"
#include "core/exchange/sockname.h"
#include "core/ledger/rundir.h"

#define LINKS_MAX 16    /* connections that are kept */
#define TRIES_MAX 8     /* new connections for one fetch */
#define NAP_NS 1000000  /* between tries to connect to an exporter that has a queue */
#define SLICE_MS 100    /* the most that a look at the clock counts */
#define EXPECT_NS 50000 /* how long a reply is looked for before it is waited for */
#define NAME_SHIFT 40

/* A connection to an exporter. */
struct link {
    int fd; /* -1: none */
    uint32_t name;
    int32_t exporter;
};

static struct {
    struct am_lock lock;
    bool is_up; /* lock, as all below; after the stop nothing is kept */
    struct link links[LINKS_MAX];
    size_t n;
} kept = {.lock = AM_LOCK_INIT(AM_RANK_LEAF, "connections")};

/* The one that was used last, so that those in use are few. */
static bool link_take(uint32_t name, struct link *ret_link)
{
    bool is_found = false;

    am_lock(&kept.lock);
    for (size_t i = kept.n; i-- > 0 && !is_found;) {
        if (kept.links[i].name != name)
            continue;
        is_found = true;
        *ret_link = kept.links[i];
        memmove(&kept.links[i], &kept.links[i + 1],
                (--kept.n - i) * sizeof kept.links[0]);
    }
    am_unlock(&kept.lock);
    return is_found;
}

static void link_keep(struct link link)
{
    int old = -1;

    am_lock(&kept.lock);
    if (!kept.is_up) {
        old = link.fd;
    } else {
        if (kept.n == LINKS_MAX) {
            old = kept.links[0].fd;
            memmove(&kept.links[0], &kept.links[1], --kept.n * sizeof kept.links[0]);
        }
        kept.links[kept.n++] = link;
    }
    am_unlock(&kept.lock);
    if (old >= 0)
        close(old);
}

void am_import_client_start(void)
{
    am_lock(&kept.lock);
    kept.is_up = true;
    am_unlock(&kept.lock);
}

void am_import_client_stop(void)
{
    am_lock(&kept.lock);
    kept.is_up = false;
    while (kept.n > 0)
        close(kept.links[--kept.n].fd);
    am_unlock(&kept.lock);
}

/* Asked at least once in a slice. */
static bool is_patient(struct am_patience *patience)
{
    return am_patience_look(patience, am_clock(), SLICE_MS * AM_MILLISECOND);
}

/* Until the socket is ready: 0, -ETIMEDOUT, or -errno. */
static int ready_wait(int fd, short what, struct am_patience *patience)
{
    struct pollfd p = {.fd = fd, .events = what};
    int n;

    do
        n = poll(&p, 1, SLICE_MS);
    while ((n == 0 || (n < 0 && errno == EINTR)) && is_patient(patience));
    return n > 0 ? 0 : n == 0 || errno == EINTR ? -ETIMEDOUT : -errno;
}

static aclError fail_unknown(uint64_t number)
{
    return am_fail(
        ACL_ERROR_RT_NO_PERMISSION,
        "no process exports 0x%016" PRIx64
        ": the exporting process has ended or has freed it, or the number is wrong, or "
        "the process is on another machine, which fabric handles alone reach, or has "
        "another runtime directory than %s (ACLMEM_RUNTIME_DIR)",
        number, am_rundir_path());
}

static aclError fail_silent(uint64_t number, int32_t exporter)
{
    return am_fail(ACL_ERROR_RT_IPC_ERROR,
                   "process %d, which exports 0x%016" PRIx64
                   ", did not answer within %d ms; it may be stopped",
                   exporter, number, AM_EXCHANGE_WAIT_MS);
}

static aclError fail_system(uint64_t number, const char *what, int error)
{
    char why[AM_SHORTAGE_SIZE];

    if (error != EMFILE)
        return am_fail(ACL_ERROR_RT_IPC_ERROR, "0x%016" PRIx64 ": %s: %s%s", number, what,
                       strerror(error), am_sockname_advice(error));
    return am_fail(ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, "0x%016" PRIx64 ": %s", number,
                   am_shortage(error, why));
}

static aclError link_open(uint64_t number, struct am_patience *patience,
                          struct link *ret_link)
{
    uint32_t name = (uint32_t)(number >> NAME_SHIFT);
    struct ucred peer = {0};
    socklen_t size = sizeof peer;
    int directory;
    int fd;

    AM_TRY(am_rundir_share(&directory));
    while ((fd = am_sockname_connect(directory, name)) == -EAGAIN && is_patient(patience))
        nanosleep(&(struct timespec){.tv_nsec = NAP_NS}, NULL);
    close(directory);
    if (fd == -EAGAIN)
        return fail_silent(number, 0);
    if (fd == -ENOENT)
        return fail_unknown(number);
    if (fd == -EACCES || fd == -EPERM)
        return am_fail(ACL_ERROR_RT_NO_PERMISSION,
                       "no process exports 0x%016" PRIx64
                       " to this user: the number is wrong, or the exporter belongs to "
                       "another user and does not share across users; start the exporter "
                       "with ACLMEM_SHARE_ACROSS_USERS=1 to allow it",
                       number);
    if (fd < 0)
        return fail_system(number, "connecting to the exporting process", -fd);
    getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size);
    *ret_link = (struct link){.fd = fd, .name = name, .exporter = (int32_t)peer.pid};
    return ACL_SUCCESS;
}

/*
 * An exporter that is at work answers sooner than the system would wake us, so we look for
 * a moment before we sleep: 0 or -errno, -EAGAIN when there is no reply yet.
 */
static int reply_expect(int fd, struct am_wire_reply *ret_reply, int *ret_fd)
{
    uint64_t end = 0;
    int rc;

    while ((rc = am_fdpass_receive(fd, ret_reply, sizeof *ret_reply, ret_fd)) ==
           -EAGAIN) {
        uint64_t now = am_clock();

        if (end == 0)
            end = now + EXPECT_NS;
        if (now >= end)
            break;
        sched_yield();
    }
    return rc;
}

/* Sends the request and waits for the reply: 0 or -errno. */
static int link_ask(const struct link *link, const struct am_wire_request *request,
                    struct am_patience *patience, struct am_wire_reply *ret_reply,
                    int *ret_fd)
{
    int rc;

    while ((rc = am_fdpass_send(link->fd, request, sizeof *request, -1)) == -EAGAIN) {
        rc = ready_wait(link->fd, POLLOUT, patience);
        if (rc != 0)
            return rc;
    }
    if (rc != 0)
        return rc == -ECONNRESET || rc == -ENOTCONN ? -EPIPE : rc;
    rc = reply_expect(link->fd, ret_reply, ret_fd);
    while (rc == -EAGAIN) {
        rc = ready_wait(link->fd, POLLIN, patience);
        if (rc == 0)
            rc = am_fdpass_receive(link->fd, ret_reply, sizeof *ret_reply, ret_fd);
    }
    return rc;
}

/* The failure of a request without a reply. */
static aclError ask_error(const struct link *link, uint64_t number, int error)
{
    switch (error) {
    case ETIMEDOUT:
        return fail_silent(number, link->exporter);
    case EPIPE:
        return am_fail(
            ACL_ERROR_RT_IPC_ERROR,
            "process %d, which exports 0x%016" PRIx64
            ", closes connections without an answer; it may have no file descriptor left",
            link->exporter, number);
    case EPROTO:
        return am_fail(ACL_ERROR_RT_IPC_ERROR,
                       "process %d answered the request for 0x%016" PRIx64
                       " with an invalid reply",
                       link->exporter, number);
    default:
        return fail_system(number, "asking the exporting process", error);
    }
}

/* A reply, by a connection that is kept or a new one. */
static aclError fetch_reply(const struct am_wire_request *request, struct link *ret_link,
                            struct am_wire_reply *ret_reply, int *ret_fd)
{
    struct am_patience patience = {.left = AM_EXCHANGE_WAIT_MS * AM_MILLISECOND,
                                   .looked = am_clock()};
    uint64_t number = request->ticket.number;
    int n_new = 0;

    for (;;) {
        struct link link = {.fd = -1};
        int error;

        if (!link_take((uint32_t)(number >> NAME_SHIFT), &link)) {
            AM_TRY(link_open(number, &patience, &link));
            n_new++;
        }
        error = -link_ask(&link, request, &patience, ret_reply, ret_fd);
        if (error == 0) {
            *ret_link = link;
            return ACL_SUCCESS;
        }
        close(link.fd);
        if (error == EMFILE && n_new < TRIES_MAX && am_limit_raise(RLIMIT_NOFILE))
            continue;
        if (error != EPIPE || n_new >= TRIES_MAX || !is_patient(&patience))
            return ask_error(&link, number, error);
    }
}

aclError am_import_fetch(enum am_share_kind kind, const struct am_ticket *ticket,
                         struct am_import_reply *ret_reply)
{
    struct am_wire_request request = am_wire_request(kind, ticket);
    uint64_t number = ticket->number;
    struct am_wire_reply reply;
    struct link link = {.fd = -1};
    int fd = -1;
    int error = -am_export_table_take(kind, ticket, ret_reply);
    aclError rc;

    if (error == EMFILE && am_limit_raise(RLIMIT_NOFILE))
        error = -am_export_table_take(kind, ticket, ret_reply);
    if (error == 0)
        return ACL_SUCCESS;
    if (error != ENOENT)
        return fail_system(number, "copying its descriptor", error);
    if (am_exchange_is_own_name((uint32_t)(number >> NAME_SHIFT)))
        return fail_unknown(number);
    AM_TRY(fetch_reply(&request, &link, &reply, &fd));
    rc = am_wire_check_reply(&reply, &request, fd >= 0, link.exporter);
    if (rc == ACL_ERROR_RT_IPC_ERROR)
        close(link.fd); /* its next messages cannot be trusted */
    else
        link_keep(link);
    if (rc != ACL_SUCCESS) {
        if (fd >= 0)
            close(fd);
        return rc;
    }
    *ret_reply =
        (struct am_import_reply){.fd = fd, .size = reply.size, .exporter = link.exporter};
    memcpy(ret_reply->bytes, reply.bytes, reply.size);
    return ACL_SUCCESS;
}
