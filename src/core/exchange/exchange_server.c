/*
 * The exporter's side: a thread that answers on a socket.  See exchange.h.
 *
 * A request is one message and is answered at once, so the only state of a connection is
 * the process at its other end; in each round every connection gets at most one answer.
 * Sending and receiving never wait.  If the table is full or no descriptor is left, the
 * least recently used connection is closed; its peer connects again.
 *
 * The socket gets its name when it is ready to be connected to, so a name that refuses
 * connections belongs to a process that has ended.
 */
#include "core/exchange/exchange.h"

#include <linux/sockios.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "acl/error_codes/rt_error_codes.h"
#include "base/descriptor.h"
#include "base/epoch.h"
#include "base/error.h"
#include "base/fdpass.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/options.h"
#include "base/sys.h"
#include "core/exchange/exchange_table.h"
#include "core/exchange/sockname.h"
#include "core/ledger/rundir.h"

#define CONNECTIONS_MAX 256 /* more than processes that may use the devices */
#define ACCEPT_MAX 16       /* in one round */
#define EVENTS_MAX 64

/* Event data other than the index of a connection. */
#define EVENT_LISTEN UINT32_C(0xffffffff)
#define EVENT_STOP UINT32_C(0xfffffffe)

struct connection {
    _Atomic int fd; /* -1: free */
    struct am_process peer;
    uint64_t used; /* the round of the last request */
};

static struct {
    struct am_lock lock;
    bool is_up;      /* lock; the library is */
    bool is_running; /* lock; the thread exists, and all below are set */
    pthread_t thread;
    uint32_t name; /* the first bits of its numbers */
    pid_t owner;   /* the process that made it; a child of a fork did not */
    int directory; /* of rundir.h */
    _Atomic int listener;
    _Atomic int epoll;
    _Atomic int stop; /* readable: the thread returns */

    /* Used by the thread only. */
    uint64_t round;
    struct connection connections[CONNECTIONS_MAX];
} server = {.lock = AM_LOCK_INIT(AM_RANK_SHARE, "exchange")};

/* ---- the thread ---- */

static void connection_close(struct connection *c)
{
    int fd = c->fd;

    c->fd = -1; /* first: a child of a fork must not close the number's next descriptor */
    close(fd);
    am_process_close(&c->peer);
}

/* A free slot; or the slot of the least recently used connection, which is closed. */
static struct connection *connection_slot(bool must_close)
{
    struct connection *oldest = NULL;

    for (size_t i = 0; i < CONNECTIONS_MAX; i++) {
        struct connection *c = &server.connections[i];

        if (c->fd < 0 && !must_close)
            return c;
        if (c->fd >= 0 && (oldest == NULL || c->used < oldest->used))
            oldest = c;
    }
    if (oldest != NULL)
        connection_close(oldest);
    return oldest;
}

/* Accepts a connection; false if none is pending. */
static bool connection_open(void)
{
    struct epoll_event event = {.events = EPOLLIN};
    int fd = am_sys_accept4(server.listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    struct am_process peer;
    struct connection *c;
    uid_t uid;

    if (fd < 0) {
        if ((errno == EMFILE || errno == ENFILE) && !am_limit_raise(RLIMIT_NOFILE) &&
            connection_slot(true) == NULL)
            nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        return false;
    }
    fd = am_fd_move_up(fd);
    if (am_process_of_peer(fd, &peer, &uid) != 0) {
        close(fd);
        return true;
    }
    if (uid != geteuid()) {
        am_process_close(&peer);
        close(fd);
        return true;
    }
    if (peer.pidfd >= 0)
        peer.pidfd = am_fd_move_up(peer.pidfd);
    c = connection_slot(false);
    c->peer = peer;
    c->used = server.round;
    c->fd = fd;
    event.data.u32 = (uint32_t)(c - server.connections);
    if (am_sys_epoll_ctl(server.epoll, EPOLL_CTL_ADD, fd, &event) != 0)
        connection_close(c);
    return true;
}

/* Answers one request; false if the connection is to be closed. */
static bool connection_serve(struct connection *c)
{
    struct am_wire_request request;
    struct am_wire_reply reply;
    enum am_wire_status status = AM_WIRE_BAD_REQUEST;
    int n_unread = 0;
    int rc = am_fdpass_receive_plain(c->fd, &request, sizeof request);
    AM_READ_SECTION;

    if (rc == -EAGAIN)
        return true;
    if (rc != 0 && rc != -EPROTO)
        return false;
    if (rc == 0)
        status = am_wire_check_request(&request);
    if (status != AM_WIRE_GRANTED) {
        reply = am_wire_reply(status, 0, NULL, 0);
        am_fdpass_send(c->fd, &reply, sizeof reply, -1);
        return false;
    }
    /*
     * A peer that sends requests without reading the answers would accumulate descriptors
     * in flight, whose number is limited for each user.
     */
    if (ioctl(c->fd, SIOCOUTQ, &n_unread) == 0 && n_unread > 0)
        return false;
    c->used = server.round;
    return am_export_table_answer(&request, &c->peer, c->fd) == 0;
}

static void *server_run(void *arg)
{
    struct epoll_event events[EVENTS_MAX];

    pthread_setname_np(pthread_self(), "aclmem-share");
    for (;;) {
        int n = epoll_wait(server.epoll, events, EVENTS_MAX, -1);

        server.round++;
        for (int i = 0; i < n; i++) {
            uint32_t what = events[i].data.u32;

            if (what == EVENT_STOP)
                return NULL;
            if (what == EVENT_LISTEN) {
                for (int k = 0; k < ACCEPT_MAX && connection_open(); k++)
                    ;
            } else if (server.connections[what].fd >= 0 &&
                       !connection_serve(&server.connections[what])) {
                connection_close(&server.connections[what]);
            }
        }
    }
}

/* ---- start and stop ---- */

/* The descriptor that a call returned, moved above 1023, or -errno. */
static int descriptor_new(int fd)
{
    return fd < 0 ? -errno : am_fd_move_up(fd);
}

static int watch(int fd, uint32_t what)
{
    struct epoll_event event = {.events = EPOLLIN, .data.u32 = what};

    return am_sys_epoll_ctl(server.epoll, EPOLL_CTL_ADD, fd, &event) != 0 ? -errno : 0;
}

/* The socket and what the thread waits with, as far as they exist. */
static void server_close_locked(void) AM_REQUIRES(server.lock)
{
    if (server.listener >= 0) {
        am_sockname_remove(server.directory, server.name);
        close(server.listener);
    }
    if (server.stop >= 0)
        close(server.stop);
    if (server.epoll >= 0)
        close(server.epoll);
}

/* Everything but the runtime directory: 0 or -errno, and nothing is left then. */
static int server_open_locked(int directory, uint32_t random) AM_REQUIRES(server.lock)
{
    int rc;

    server.directory = directory;
    server.owner = getpid();
    for (size_t i = 0; i < CONNECTIONS_MAX; i++)
        server.connections[i].fd = -1;
    server.stop = server.listener = -1;
    server.epoll = rc = descriptor_new(am_sys_epoll_create1(EPOLL_CLOEXEC));
    if (rc >= 0)
        server.stop = rc = descriptor_new(am_sys_eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (rc >= 0)
        server.listener = rc = am_sockname_listen(directory, random, &server.name);
    if (rc >= 0)
        rc = watch(server.stop, EVENT_STOP);
    if (rc >= 0)
        rc = watch(server.listener, EVENT_LISTEN);
    if (rc >= 0)
        rc = -am_thread_start(&server.thread, server_run, NULL);
    if (rc < 0)
        server_close_locked();
    return rc;
}

static aclError server_start_locked(void) AM_REQUIRES(server.lock)
{
    uint32_t random;
    int directory;
    int error;

    if (server.is_running)
        return ACL_SUCCESS;
    AM_REQUIRE(server.is_up, ACL_ERROR_UNINITIALIZE, "aclFinalize has been called");
    AM_TRY(am_rundir_open(&directory));
    error = am_random(&random, sizeof random);
    AM_REQUIRE(error == 0, ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, AM_RANDOM_MISSING,
               strerror(-error));
    error = server_open_locked(directory, random);
    if (error == -EMFILE && am_limit_raise(RLIMIT_NOFILE))
        error = server_open_locked(directory, random);
    AM_REQUIRE(error == 0, ACL_ERROR_RT_RESOURCE_ALLOC_FAIL,
               "memory cannot be shared: no socket in %s, or no thread to serve it: %s%s",
               am_rundir_path(), strerror(-error), am_sockname_advice(-error));
    server.is_running = true;
    am_log(AM_LOG_INFO, "exports are served on the socket %06x in %s", server.name,
           am_rundir_path());
    return ACL_SUCCESS;
}

aclError am_export_add(const struct am_export *what, struct am_share_handle *ret_share)
{
    uint32_t name;
    aclError rc;

    /* Serialised: an export made while the library stops would never end. */
    am_lock(&server.lock);
    rc = server_start_locked();
    name = server.name;
    am_unlock(&server.lock);
    if (rc != ACL_SUCCESS)
        return rc;
    return am_export_table_add(name, what, ret_share);
}

void am_exchange_start(void)
{
    am_lock(&server.lock);
    server.is_up = true;
    am_unlock(&server.lock);
    am_import_client_set(true);
    if (am_option_number(AM_OPTION_share_across_users) != 0)
        am_log(
            AM_LOG_WARN,
            "ACLMEM_SHARE_ACROSS_USERS=1 is no longer supported: processes import only "
            "from processes of their own user");
}

void am_exchange_stop(void)
{
    am_lock(&server.lock);
    server.is_up = false;
    if (server.is_running) {
        eventfd_write(server.stop, 1);
        pthread_join(server.thread, NULL);
        for (size_t i = 0; i < CONNECTIONS_MAX; i++) {
            if (server.connections[i].fd >= 0)
                connection_close(&server.connections[i]);
        }
        server_close_locked();
        server.is_running = false;
    }
    am_unlock(&server.lock);
    am_export_table_clear();
    am_import_client_set(false);
}

/*
 * The parent goes on answering; the child closes the descriptors that would keep peers
 * waiting if the parent died.  No lock: there is no other thread here, and one may have
 * held it.
 */
void am_exchange_forget(void)
{
    if (!server.is_running)
        return;
    for (size_t i = 0; i < CONNECTIONS_MAX; i++) {
        if (server.connections[i].fd >= 0)
            close(server.connections[i].fd);
    }
    close(server.listener);
    server.is_running = false;
}

/* A program that ends without aclFinalize leaves no socket behind. */
__attribute__((destructor)) static void server_exit(void)
{
    if (server.is_running && server.owner == getpid())
        am_sockname_remove(server.directory, server.name);
}
