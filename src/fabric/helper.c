/* See helper.h. */
#include "fabric/helper.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <sodium.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "acl/acl_base.h"
#include "acl/error_codes/rt_error_codes.h"
#include "base/clock.h"
#include "base/fdpass.h"
#include "fabric/confine.h"

#define TICKS 20 /* in a timeout */
#define TICK_MAX (500 * AM_MILLISECOND)
#define FILES_EACH 4    /* a connection's own and UCX's, in each of two roles */
#define OTHER_FILES 384 /* of the process, and of connections that begin or end */
#define UCX_PORTS 2     /* for exports and for imports */
#define UCX_START_S 30  /* UCX starts in milliseconds, or searches for a port for ever */

struct am_helper am_helper;

void am_helper_watch(struct am_watch *watch, uint32_t events, bool is_new)
{
    struct epoll_event event = {.events = events, .data.ptr = watch};

    epoll_ctl(am_helper.epoll, is_new ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, watch->fd, &event);
}

/* The program has ended. */
static __attribute__((noreturn)) void leave(void)
{
    _exit(0);
}

void am_helper_reply(const struct am_port_message *reply)
{
    while (send(am_helper.port.fd, reply, sizeof *reply, MSG_NOSIGNAL) < 0) {
        if (errno != EINTR)
            leave();
    }
}

void am_helper_refuse(uint32_t request, int32_t status, const char *fmt, ...)
{
    struct am_port_message reply = {
        .kind = AM_PORT_REPLY, .id = request, .status = status};
    va_list args;

    va_start(args, fmt);
    vsnprintf(reply.text, sizeof reply.text, fmt, args);
    va_end(args);
    am_helper_reply(&reply);
}

/* ---- exports ---- */

static void export_freed(struct am_registry_export *export)
{
    munmap(export->address, export->size);
}

/* Exports mapped memory; false: there is no memory for that, and it is unmapped. */
static bool export_add(void *address, size_t size, const struct am_port_export *spec)
{
    struct am_registry_export *export = calloc(1, sizeof *export);

    if (export != NULL && address != MAP_FAILED) {
        export->ticket = spec->ticket;
        export->is_open = spec->is_open != 0;
        export->address = address;
        export->size = size;
        export->n_bytes = spec->n_bytes < AM_PORT_DESC ? spec->n_bytes : AM_PORT_DESC;
        memcpy(export->bytes, spec->bytes, export->n_bytes);
        if (am_registry_add(&am_helper.registry, export))
            return true;
    }
    if (address != MAP_FAILED)
        munmap(address, size);
    free(export);
    return false;
}

static void export_take(const struct am_port_message *message, int fd)
{
    struct am_port_message reply = {.kind = AM_PORT_REPLY, .id = message->id};
    const struct am_port_export *spec = &message->export_;
    struct stat file;
    void *address = MAP_FAILED;

    errno = EINVAL;
    if (fd >= 0 && fstat(fd, &file) == 0 && file.st_size > 0 &&
        (uint64_t)file.st_size == spec->size)
        address = mmap(NULL, spec->size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (address == MAP_FAILED)
        am_helper_refuse(message->id, ACL_ERROR_RT_RESOURCE_ALLOC_FAIL,
                         "the memory cannot be mapped: %s", strerror(errno));
    else if (export_add(address, spec->size, spec))
        am_helper_reply(&reply);
    else
        am_helper_refuse(message->id, ACL_ERROR_BAD_ALLOC,
                         "the fabric process has no memory for an export");
}

/* The memory that aclmem fabric ping measures with. */
static void scratch_add(void)
{
    static const struct am_port_export spec = {.ticket.number = AM_FRAME_SCRATCH,
                                               .is_open = 1};

    export_add(mmap(NULL, AM_FRAME_SCRATCH_SIZE, PROT_READ | PROT_WRITE,
                    MAP_SHARED | MAP_ANONYMOUS, -1, 0),
               AM_FRAME_SCRATCH_SIZE, &spec);
}

static void trust_take(const struct am_port_message *message)
{
    struct am_port_message reply = {.kind = AM_PORT_REPLY, .id = message->id};
    size_t n = message->trust.n < AM_PORT_PIDS ? message->trust.n : AM_PORT_PIDS;

    if (am_registry_trust(&am_helper.registry, &message->trust.ticket,
                          message->trust.pids, n) == 0)
        am_helper_reply(&reply);
    else
        am_helper_refuse(message->id, ACL_ERROR_RT_PARAM_INVALID,
                         "the fabric process does not export this memory");
}

/* ---- start ---- */

static void listener_ready(struct am_watch *watch, uint32_t events)
{
    am_peer_accept();
}

/* The loop progresses a worker that is not idle. */
static void worker_ready(struct am_watch *watch, uint32_t events)
{
    am_helper.ucx.is_idle = false;
}

static void out_ready(struct am_watch *watch, uint32_t events)
{
    am_helper.ucx.is_out_idle = false;
}

static void program_ready(struct am_watch *watch, uint32_t events)
{
    leave();
}

void am_helper_check_program(void)
{
    struct pollfd program = {.fd = am_helper.program.fd, .events = POLLIN};

    if (poll(&program, 1, 0) == 1)
        leave();
}

/* Raises the limit of descriptors, and limits the connections to it. */
static void descriptors_raise(void)
{
    struct rlimit limit;
    size_t most;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return;
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    most = limit.rlim_cur > OTHER_FILES ? (limit.rlim_cur - OTHER_FILES) / FILES_EACH : 1;
    if (am_helper.options.n_connections > most)
        am_helper.options.n_connections = (uint32_t)most;
}

static void begin_take(const struct am_port_message *message, int fd)
{
    struct am_port_begin *options = &am_helper.options;
    struct am_frame_who *who = &am_helper.who;

    if (am_helper.area != NULL || message->begin.version != AM_PORT_VERSION || fd < 0)
        leave();
    am_helper.area =
        mmap(NULL, AM_PORT_AREA_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (am_helper.area == MAP_FAILED)
        leave();
    *options = message->begin;
    am_helper.timeout_ns = options->timeout_ms * AM_MILLISECOND;
    memcpy(who->machine, options->machine, sizeof who->machine);
    who->pid = options->public_pid;
    gethostname(who->host, sizeof who->host - 1);
    randombytes_buf(who->instance, sizeof who->instance);
    am_helper.is_replaying = options->place.family != 0;
    if (am_helper.is_replaying)
        memcpy(who->instance, options->place.instance, sizeof who->instance);
    am_helper.program =
        (struct am_watch){(int)syscall(SYS_pidfd_open, options->pid, 0), program_ready};
    if (am_helper.program.fd >= 0)
        am_helper_watch(&am_helper.program, EPOLLIN, true);
}

/*
 * The range of ports for UCX: 0, or -1 with the reason.  UCX 1.13 searches for a free port
 * for ever, so this function checks that some are free.  If other processes take them at
 * the same time, an alarm ends this process.
 */
static int ucx_ports_choose(const struct am_net_place *place, char *why)
{
    unsigned port = ntohs(place->address.sin_port);
    unsigned first = port + AM_NET_PORTS;
    unsigned last = first + AM_NET_PORTS - 1;
    char range[32];

    if (port == 0 || getenv("UCX_TCP_PORT_RANGE") != NULL)
        return 0;
    if (!am_net_has_free(place, (uint16_t)first, UCX_PORTS)) {
        snprintf(why, AM_NET_WHY,
                 "UCX needs %d of the ports %u to %u of %s, and they are in use; give "
                 "ACLMEM_FABRIC another port",
                 UCX_PORTS, first, last, place->device);
        return -1;
    }
    snprintf(range, sizeof range, "%u-%u", first, last);
    setenv("UCX_TCP_PORT_RANGE", range, 1);
    return 0;
}

/* Opens UCX, whose sockets drop every packet (listen.h): 0, or -1 with the reason. */
static int ucx_open(char *why)
{
    struct am_ucx *ucx = &am_helper.ucx;
    const struct am_listen *listening = am_helper.listening;
    struct sockaddr_in address = {0};
    socklen_t size = sizeof address;
    int n;

    ucx->receive = am_peer_receive;
    alarm(UCX_START_S);
    if (am_ucx_open(ucx, am_helper.place.device, why) != 0)
        return -1;
    n = listening->n;
    if (ucx->address_size > AM_FRAME_WORKER_MAX) {
        snprintf(why, AM_NET_WHY, "UCX uses too many devices; set UCX_NET_DEVICES");
        return -1;
    }
    if (am_ucx_open_out(ucx, why) != 0)
        return -1;
    alarm(0);
    if (n > 0 && getsockname(listening->fds[0], (struct sockaddr *)&address, &size) == 0)
        am_helper.ucx_port = ntohs(address.sin_port);
    am_helper.export_filter.fds = listening->fds;
    am_helper.export_filter.n_fds = n;
    am_helper.import_filter.fds = listening->fds + n;
    am_helper.import_filter.n_fds = listening->n - n;
    am_helper.worker = (struct am_watch){ucx->fd, worker_ready};
    am_helper.out = (struct am_watch){ucx->out_fd, out_ready};
    am_helper_watch(&am_helper.worker, EPOLLIN, true);
    am_helper_watch(&am_helper.out, EPOLLIN, true);
    return 0;
}

static int control_open(char *why)
{
    struct sockaddr_in *address = &am_helper.place.address;
    bool is_exact = am_helper.is_replaying; /* handles name the port */

    if (is_exact)
        address->sin_port = htons(am_helper.options.place.port);
    am_helper.listener =
        (struct am_watch){am_net_listen(&am_helper.place, is_exact, why), listener_ready};
    if (am_helper.listener.fd < 0)
        return -1;
    am_helper.is_listening = !am_helper.is_replaying;
    am_helper_watch(&am_helper.listener, am_helper.is_listening ? EPOLLIN : 0, true);
    return 0;
}

/* Opens the network and gives up rights: 0, or -1 with the reason. */
static int network_open(int key, bool *ret_has_landlock, char *why)
{
    if (am_secret_read(key, &am_helper.keys, why) != 0 ||
        am_net_find(am_helper.options.where, &am_helper.place, why) != 0)
        return -1;
    descriptors_raise();
    am_peer_start();
    if (ucx_ports_choose(&am_helper.place, why) != 0)
        return -1;
    *ret_has_landlock = am_confine_files();
    if (ucx_open(why) != 0 || control_open(why) != 0)
        return -1;
    if (am_confine_calls() != 0) {
        snprintf(why, AM_NET_WHY,
                 "the fabric process cannot give up its rights, which needs seccomp: %s",
                 strerror(errno));
        return -1;
    }
    return 0;
}

/* Where UCX listens, and what protects the process: the text for the program's log. */
static void protection_describe(bool has_landlock, char *text, size_t size)
{
    const struct am_listen *listening = am_helper.listening;
    int n_shown = listening->error == 0 ? 1 : listening->n;
    FILE *out = fmemopen(text, size, "w");

    if (out == NULL)
        return;
    fprintf(out, "UCX listens at");
    for (int i = 0; i < n_shown; i++) {
        struct sockaddr_in address = {0};
        socklen_t length = sizeof address;
        char number[INET_ADDRSTRLEN] = "";

        getsockname(listening->fds[i], (struct sockaddr *)&address, &length);
        inet_ntop(AF_INET, &address.sin_addr, number, sizeof number);
        fprintf(out, " %s:%u", number, ntohs(address.sin_port));
    }
    if (listening->error != 0)
        fprintf(out,
                ", open to every address: the kernel takes no filter (%s); "
                "close these ports to strangers",
                strerror(listening->error));
    else
        fprintf(out, ", for peers that proved the key");
    if (!has_landlock)
        fprintf(out,
                "; the kernel has no Landlock: a peer that takes over the fabric process "
                "can read the files of this user");
    fclose(out);
}

static void key_take(const struct am_port_message *message, int fd)
{
    struct am_port_message reply = {.kind = AM_PORT_REPLY, .id = message->id};
    struct am_port_place *place = &reply.up.place;
    struct sockaddr_in *address = &am_helper.place.address;
    char why[AM_NET_WHY];
    bool has_landlock;

    if (am_helper.area == NULL || am_helper.is_up)
        leave();
    if (network_open(fd, &has_landlock, why) != 0) {
        am_helper_refuse(message->id, ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "%s", why);
        return;
    }
    am_helper.is_up = true;
    place->family = 4;
    place->port = ntohs(address->sin_port);
    place->pid = am_helper.who.pid;
    memcpy(place->address, &address->sin_addr, sizeof address->sin_addr);
    memcpy(place->instance, am_helper.who.instance, sizeof place->instance);
    reply.up.is_exposed = am_helper.listening->error != 0 || !has_landlock;
    protection_describe(has_landlock, reply.text, sizeof reply.text);
    am_helper_reply(&reply);
}

/* ---- the rows of aclmem info ---- */

#define ROWS_MAX 256 /* peers with a row; all further peers of a role share one */

struct records {
    struct am_port_row rows[ROWS_MAX + 2];
    size_t n;
    unsigned n_peers[2]; /* exporters, and importers */
};

static void row_add(struct records *records, const struct am_frame_who *who,
                    const char *address, bool is_importer, uint32_t n, uint64_t n_bytes)
{
    struct am_port_row *row = &records->rows[records->n];
    unsigned n_others;

    if (n == 0)
        return;
    if (records->n < ROWS_MAX) {
        *row = (struct am_port_row){.is_importer = is_importer, .pid = who->pid};
        memcpy(row->host, who->host, sizeof row->host);
        snprintf(row->address, sizeof row->address, "%s", address);
        records->n++;
    } else {
        row = &records->rows[ROWS_MAX + is_importer];
        row->is_importer = is_importer;
        n_others = ++records->n_peers[is_importer];
        snprintf(row->address, sizeof row->address, "%u others", n_others);
    }
    row->n += n;
    row->n_bytes += n_bytes;
}

static void records_make(struct records *records)
{
    const struct am_importer *i;
    const struct am_peer_import *import;
    const struct am_peer *peer;

    memset(records, 0, sizeof *records);
    TAILQ_FOREACH (peer, &am_helper.peers, next) {
        uint64_t n_bytes = 0;
        uint32_t n = 0;

        i = peer->importer;
        if (i != NULL)
            row_add(records, &i->who, i->address, true, i->n_grants, i->n_bytes);
        if (peer->is_server || peer->is_dead)
            continue;
        LIST_FOREACH (import, &peer->imports, next) {
            n += import->is_granted;
            n_bytes += import->grant.size;
        }
        row_add(records, &peer->who, peer->address, false, n, n_bytes);
    }
    TAILQ_FOREACH (i, &am_helper.registry.leases, next)
        row_add(records, &i->who, i->address, true, i->n_grants, i->n_bytes);
    for (unsigned role = 0; role < 2; role++) {
        if (records->n_peers[role] > 0)
            records->rows[records->n++] = records->rows[ROWS_MAX + role];
    }
}

/* Writes the records, if they changed. */
static void records_write(void)
{
    static struct records records, before;
    size_t size;

    if (am_helper.records < 0)
        return;
    records_make(&records);
    size = records.n * sizeof records.rows[0];
    if (records.n == before.n && memcmp(records.rows, before.rows, size) == 0)
        return;
    if (pwrite(am_helper.records, records.rows, size, 0) < 0 ||
        ftruncate(am_helper.records, (off_t)size) != 0)
        return; /* aclmem info shows less */
    before = records;
}

/* ---- the loop ---- */

static void message_take(const struct am_port_message *message, int fd)
{
    if (!am_helper.is_up && message->kind != AM_PORT_BEGIN &&
        message->kind != AM_PORT_RECORDS && message->kind != AM_PORT_KEY)
        leave();
    switch (message->kind) {
    case AM_PORT_BEGIN:
        begin_take(message, fd);
        break;
    case AM_PORT_RECORDS:
        am_helper.records = dup(fd);
        break;
    case AM_PORT_KEY:
        key_take(message, fd);
        break;
    case AM_PORT_READY:
        am_helper.is_replaying = false;
        am_peer_listen();
        break;
    case AM_PORT_EXPORT:
        export_take(message, fd);
        break;
    case AM_PORT_TRUST:
        trust_take(message);
        break;
    case AM_PORT_WITHDRAW:
        am_registry_withdraw(&am_helper.registry, message->trust.ticket.number);
        break;
    case AM_PORT_IMPORT:
        am_peer_import(message);
        break;
    case AM_PORT_RELEASE:
        am_peer_release(message->move.number);
        break;
    case AM_PORT_PUT:
    case AM_PORT_GET:
        am_peer_move(message);
        break;
    default:
        leave();
    }
}

static void port_ready(struct am_watch *watch, uint32_t events)
{
    struct am_port_message message;
    int fd;

    for (int i = 0; i < AM_PORT_SLOTS; i++) {
        int rc = am_fdpass_receive(watch->fd, &message, sizeof message, &fd);

        if (rc == -EAGAIN)
            return;
        if (rc != 0 && rc != -EMFILE)
            leave();
        message_take(&message, rc == 0 ? fd : -1);
        if (rc == 0 && fd >= 0)
            close(fd);
    }
}

__attribute__((visibility("default"))) void
aclmem_fabric_serve(int socket, const struct am_listen *listening)
{
    struct epoll_event events[64];

    if (sodium_init() < 0)
        leave();
    am_helper.listening = listening;
    am_helper.epoll = epoll_create1(EPOLL_CLOEXEC);
    am_helper.port = (struct am_watch){socket, port_ready};
    am_helper.program.fd = -1;
    am_helper.records = -1;
    am_registry_init(&am_helper.registry, 0, export_freed);
    scratch_add();
    TAILQ_INIT(&am_helper.peers);
    TAILQ_INIT(&am_helper.ending);
    am_helper_watch(&am_helper.port, EPOLLIN, true);
    for (;;) {
        bool may_sleep = !am_helper.is_up || am_ucx_progress(&am_helper.ucx);
        uint64_t step = am_helper.timeout_ns / TICKS;
        uint64_t now = am_clock();
        uint64_t left;
        int n;

        if (now >= am_helper.next_tick) {
            am_peer_tick(now);
            records_write();
            am_helper.next_tick = now + (step < TICK_MAX && step > 0 ? step : TICK_MAX);
        }
        am_peer_sweep();
        left = am_helper.next_tick > now ? am_helper.next_tick - now : 0;
        n = epoll_wait(am_helper.epoll, events, 64,
                       may_sleep ? (int)(left / AM_MILLISECOND) + 1 : 0);
        for (int i = 0; i < n; i++) {
            struct am_watch *watch = events[i].data.ptr;

            watch->ready(watch, events[i].events);
        }
    }
}
