/* See helper.h. */
#include "fabric/helper.h"

#include <errno.h>
#include <sched.h>
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
#include "fabric/secret.h"

#define TICKS 20 /* in a timeout */
#define TICK_MAX (500 * AM_MILLISECOND)
#define FILES_EACH 4    /* a connection's own and UCX's, in each of two roles */
#define OTHER_FILES 384 /* of the process, and of connections that come and go */
#define UCX_PORTS 2     /* for exports and for imports */
#define UCX_START_S 30  /* UCX starts in milliseconds, or looks for a port for ever */

uint64_t am_helper_now(void)
{
    return am_clock();
}

void am_helper_watch(struct am_helper *helper, struct am_watch *watch, uint32_t events,
                     bool is_new)
{
    struct epoll_event event = {.events = events, .data.ptr = watch};

    epoll_ctl(helper->epoll, is_new ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, watch->fd, &event);
}

/* The program is gone, and with it all that this process is for. */
static __attribute__((noreturn)) void leave(void)
{
    _exit(0);
}

void am_helper_reply(struct am_helper *helper, const struct am_port_message *reply)
{
    while (send(helper->port.fd, reply, sizeof *reply, MSG_NOSIGNAL) < 0) {
        if (errno != EINTR)
            leave();
    }
}

void am_helper_refuse(struct am_helper *helper, uint32_t request, int32_t status,
                      const char *fmt, ...)
{
    struct am_port_message reply = {
        .kind = AM_PORT_REPLY, .id = request, .status = status};
    va_list args;

    va_start(args, fmt);
    vsnprintf(reply.text, sizeof reply.text, fmt, args);
    va_end(args);
    am_helper_reply(helper, &reply);
}

/* ---- exports ---- */

struct memory {
    void *addr;
    size_t size;
    struct am_ucx_memory ucx;
};

static void memory_gone(void *arg, struct am_registry_export *export)
{
    struct am_helper *helper = arg;
    struct memory *memory = export->memory;

    am_ucx_unregister(&helper->ucx, &memory->ucx);
    munmap(memory->addr, memory->size);
    free(memory);
}

/* Registers mapped memory; NULL with the reason, and nothing is mapped any more. */
static struct memory *memory_make(struct am_helper *helper, void *addr, size_t size,
                                  char *why)
{
    struct memory *memory = malloc(sizeof *memory);

    snprintf(why, AM_UCX_WHY, "the memory cannot be mapped: %s", strerror(errno));
    if (addr != MAP_FAILED && memory != NULL) {
        *memory = (struct memory){.addr = addr, .size = size};
        if (am_ucx_register(&helper->ucx, addr, size, &memory->ucx, why) == 0 &&
            memory->ucx.rkey_size <= AM_FRAME_RKEY_MAX)
            return memory;
    }
    if (addr != MAP_FAILED)
        munmap(addr, size);
    free(memory);
    return NULL;
}

/* Maps and registers the memory of the descriptor: NULL with the reason. */
static struct memory *memory_open(struct am_helper *helper, int fd, uint64_t size,
                                  char *why)
{
    struct stat file;

    if (fd < 0 || fstat(fd, &file) != 0 || file.st_size < 0 ||
        (uint64_t)file.st_size != size) {
        snprintf(why, AM_UCX_WHY, "the memory cannot be mapped: %s", strerror(EINVAL));
        return NULL;
    }
    return memory_make(
        helper, mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), size, why);
}

/* Takes over the memory; false: there is no memory for it, and it is gone. */
static bool export_add(struct am_helper *helper, struct memory *memory,
                       const struct am_port_ticket *ticket, bool is_open,
                       const void *bytes, uint32_t n_bytes)
{
    struct am_registry_export *export = calloc(1, sizeof *export);

    if (export != NULL) {
        export->ticket = *ticket;
        export->is_open = is_open;
        export->size = memory->size;
        export->address = (uintptr_t)memory->addr;
        export->n_bytes = n_bytes < AM_PORT_DESC ? n_bytes : AM_PORT_DESC;
        memcpy(export->bytes, bytes, export->n_bytes);
        export->n_rkey = (uint32_t)memory->ucx.rkey_size;
        memcpy(export->rkey, memory->ucx.rkey, memory->ucx.rkey_size);
        export->memory = memory;
        if (am_registry_add(&helper->registry, export))
            return true;
    }
    memory_gone(helper, &(struct am_registry_export){.memory = memory});
    free(export);
    return false;
}

static void export_take(struct am_helper *helper, const struct am_port_message *message,
                        int fd)
{
    char why[AM_UCX_WHY];
    struct am_port_message reply = {.kind = AM_PORT_REPLY, .id = message->id};
    struct memory *memory = memory_open(helper, fd, message->export_.size, why);

    if (memory == NULL)
        am_helper_refuse(helper, message->id, ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, "%s",
                         why);
    else if (export_add(helper, memory, &message->export_.ticket,
                        message->export_.is_open != 0, message->export_.bytes,
                        message->export_.n_bytes))
        am_helper_reply(helper, &reply);
    else
        am_helper_refuse(helper, message->id, ACL_ERROR_BAD_ALLOC,
                         "the fabric process has no memory for an export");
}

void am_helper_scratch(struct am_helper *helper)
{
    static const struct am_port_ticket ticket = {.number = AM_FRAME_SCRATCH};
    char why[AM_UCX_WHY];
    struct memory *memory;

    if (helper->has_scratch)
        return;
    memory = memory_make(helper,
                         mmap(NULL, AM_FRAME_SCRATCH_SIZE, PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_ANONYMOUS, -1, 0),
                         AM_FRAME_SCRATCH_SIZE, why);
    helper->has_scratch =
        memory != NULL && export_add(helper, memory, &ticket, true, why, 0);
}

static void trust_take(struct am_helper *helper, const struct am_port_message *message)
{
    struct am_port_message reply = {.kind = AM_PORT_REPLY, .id = message->id};
    size_t n = message->trust.n < AM_PORT_PIDS ? message->trust.n : AM_PORT_PIDS;

    if (am_registry_trust(&helper->registry, &message->trust.ticket, message->trust.pids,
                          n) == 0)
        am_helper_reply(helper, &reply);
    else
        am_helper_refuse(helper, message->id, ACL_ERROR_RT_PARAM_INVALID,
                         "the fabric process does not export this memory");
}

/* ---- the start ---- */

static void listener_ready(struct am_watch *watch, uint32_t events)
{
    am_peer_accept(
        (struct am_helper *)((char *)watch - offsetof(struct am_helper, listener)));
}

/* The loop progresses a worker that is not idle. */
static void worker_ready(struct am_watch *watch, uint32_t events)
{
    struct am_helper *helper =
        (struct am_helper *)((char *)watch - offsetof(struct am_helper, worker));

    helper->ucx.is_idle = false;
}

static void out_ready(struct am_watch *watch, uint32_t events)
{
    struct am_helper *helper =
        (struct am_helper *)((char *)watch - offsetof(struct am_helper, out));

    helper->ucx.is_out_idle = false;
}

static void program_ready(struct am_watch *watch, uint32_t events)
{
    leave();
}

/* As many descriptors as may be, and no more connections than they are for. */
static void descriptors_raise(struct am_helper *helper)
{
    struct rlimit limit;
    size_t most;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return;
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    most = limit.rlim_cur > OTHER_FILES ? (limit.rlim_cur - OTHER_FILES) / FILES_EACH : 1;
    if (helper->n_connections > most)
        helper->n_connections = most;
}

static void begin_take(struct am_helper *helper, const struct am_port_message *message,
                       int fd)
{
    if (helper->area != NULL || message->begin.version != AM_PORT_VERSION || fd < 0)
        leave();
    helper->area =
        mmap(NULL, AM_PORT_AREA_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (helper->area == MAP_FAILED)
        leave();
    helper->timeout_ns = message->begin.timeout_ms * AM_MILLISECOND;
    helper->n_connections = message->begin.n_connections;
    memcpy(helper->where, message->begin.where, sizeof helper->where - 1);
    memcpy(helper->who.machine, message->begin.machine, sizeof helper->who.machine);
    helper->who.pid = message->begin.public_pid;
    gethostname(helper->who.host, sizeof helper->who.host - 1);
    randombytes_buf(helper->who.instance, sizeof helper->who.instance);
    if (message->begin.place.family != 0) {
        helper->again = message->begin.place.port;
        helper->is_shut = true;
        memcpy(helper->who.instance, message->begin.place.instance,
               sizeof helper->who.instance);
    }
    helper->program = (struct am_watch){
        (int)syscall(SYS_pidfd_open, message->begin.pid, 0), program_ready};
    if (helper->program.fd >= 0)
        am_helper_watch(helper, &helper->program, EPOLLIN, true);
}

/*
 * The range of ports for UCX: 0, or -1 with the reason.  UCX 1.13 looks for a free port for
 * ever, so there have to be some; where other processes take them at this moment, an alarm
 * ends this process.
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

/* All that the network needs: 0, or -1 with the reason. */
static int network_open(struct am_helper *helper, int key, char *gate, char *why)
{
    if (am_secret_read(key, &helper->keys, why) != 0 ||
        am_net_find(helper->where, &helper->place, why) != 0)
        return -1;
    descriptors_raise(helper);
    am_peer_start(helper);
    if (ucx_ports_choose(&helper->place, why) != 0)
        return -1;
    am_confine_files();
    helper->ucx.parcel = am_peer_put_message;
    helper->ucx.arg = helper;
    alarm(UCX_START_S);
    if (am_ucx_open(&helper->ucx, helper->place.device, why) != 0)
        return -1;
    if (helper->ucx.address_size > AM_FRAME_WORKER_MAX) {
        snprintf(why, AM_NET_WHY, "UCX uses too many devices; set UCX_NET_DEVICES");
        return -1;
    }
    helper->ucx_port = am_net_listening(); /* the only one yet */
    am_gate_find(&helper->gate);
    if (am_ucx_open_out(&helper->ucx, why) != 0)
        return -1;
    alarm(0);
    am_gate_shut(&helper->gate, &helper->back,
                 gate); /* before this process listens itself */
    if (helper->again != 0)
        helper->place.address.sin_port = htons(helper->again);
    helper->listener = (struct am_watch){
        am_net_listen(&helper->place, helper->again != 0, why), listener_ready};
    if (helper->listener.fd < 0)
        return -1;
    helper->worker = (struct am_watch){helper->ucx.fd, worker_ready};
    helper->out = (struct am_watch){helper->ucx.out_fd, out_ready};
    am_helper_watch(helper, &helper->worker, EPOLLIN, true);
    am_helper_watch(helper, &helper->out, EPOLLIN, true);
    am_helper_watch(helper, &helper->listener, helper->is_shut ? 0 : EPOLLIN, true);
    helper->is_listening = !helper->is_shut;
    if (am_confine_calls() != 0) {
        snprintf(why, AM_NET_WHY,
                 "the fabric process cannot give up its rights, which needs seccomp: %s",
                 strerror(errno));
        return -1;
    }
    return 0;
}

static void key_take(struct am_helper *helper, const struct am_port_message *message,
                     int fd)
{
    struct am_port_message reply = {.kind = AM_PORT_REPLY, .id = message->id};
    struct am_port_place *place = &reply.up.place;
    char why[AM_NET_WHY];

    if (helper->area == NULL || helper->is_up)
        leave();
    if (network_open(helper, fd, reply.text, why) != 0) {
        am_helper_refuse(helper, message->id, ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "%s",
                         why);
        return;
    }
    helper->is_up = true;
    place->family = 4;
    place->port = ntohs(helper->place.address.sin_port);
    place->pid = helper->who.pid;
    memcpy(place->address, &helper->place.address.sin_addr,
           sizeof helper->place.address.sin_addr);
    memcpy(place->instance, helper->who.instance, sizeof place->instance);
    reply.up.is_open = !helper->gate.is_shut;
    am_helper_reply(helper, &reply);
}

/* ---- the loop ---- */

static void message_take(struct am_helper *helper, const struct am_port_message *message,
                         int fd)
{
    if (!helper->is_up && message->kind != AM_PORT_BEGIN &&
        message->kind != AM_PORT_RECORDS && message->kind != AM_PORT_KEY)
        leave();
    switch (message->kind) {
    case AM_PORT_BEGIN:
        begin_take(helper, message, fd);
        break;
    case AM_PORT_RECORDS:
        helper->records = dup(fd);
        break;
    case AM_PORT_KEY:
        key_take(helper, message, fd);
        break;
    case AM_PORT_READY:
        helper->is_shut = false;
        am_peer_listen(helper);
        break;
    case AM_PORT_EXPORT:
        export_take(helper, message, fd);
        break;
    case AM_PORT_TRUST:
        trust_take(helper, message);
        break;
    case AM_PORT_WITHDRAW:
        am_registry_withdraw(&helper->registry, message->trust.ticket.number);
        break;
    case AM_PORT_IMPORT:
        am_peer_import(helper, message);
        break;
    case AM_PORT_RELEASE:
        am_peer_release(helper, message->move.number);
        break;
    case AM_PORT_PUT:
    case AM_PORT_GET:
        if (message->move.size <= AM_PORT_SHORT && message->move.has_more == 0)
            helper->awake_until = am_helper_now() + AM_PORT_AWAKE;
        am_peer_move(helper, message);
        break;
    default:
        leave();
    }
}

static void port_ready(struct am_watch *watch, uint32_t events)
{
    struct am_helper *helper =
        (struct am_helper *)((char *)watch - offsetof(struct am_helper, port));
    struct am_port_message message;
    int fd;

    for (int i = 0; i < AM_PORT_SLOTS; i++) {
        int rc = am_fdpass_receive(watch->fd, &message, sizeof message, &fd);

        if (rc == -EAGAIN)
            return;
        if (rc != 0 && rc != -EMFILE)
            leave();
        message_take(helper, &message, rc == 0 ? fd : -1);
        if (rc == 0 && fd >= 0)
            close(fd);
    }
}

static void tick(struct am_helper *helper, uint64_t now)
{
    uint64_t step = helper->timeout_ns / TICKS;

    am_peer_tick(helper, now);
    am_peer_records_write(helper);
    helper->next_tick = now + (step < TICK_MAX && step > 0 ? step : TICK_MAX);
}

void am_helper_run(int socket)
{
    static struct am_helper helper;
    struct epoll_event events[64];

    if (sodium_init() < 0)
        leave();
    helper.epoll = epoll_create1(EPOLL_CLOEXEC);
    helper.port = (struct am_watch){socket, port_ready};
    helper.program.fd = -1;
    helper.records = -1;
    am_registry_init(&helper.registry, 0, memory_gone, &helper);
    TAILQ_INIT(&helper.peers);
    TAILQ_INIT(&helper.ending);
    am_helper_watch(&helper, &helper.port, EPOLLIN, true);
    for (;;) {
        bool may_sleep = !helper.is_up || am_ucx_progress(&helper.ucx);
        uint64_t now = am_helper_now();
        uint64_t left;
        int n;

        if (now >= helper.next_tick)
            tick(&helper, now);
        am_peer_sweep(&helper);
        left = helper.next_tick > now ? helper.next_tick - now : 0;
        if (may_sleep && now < helper.awake_until) {
            may_sleep = false;
            sched_yield();
        }
        n = epoll_wait(helper.epoll, events, 64,
                       may_sleep ? (int)(left / AM_MILLISECOND) + 1 : 0);
        for (int i = 0; i < n; i++) {
            struct am_watch *watch = events[i].data.ptr;

            watch->ready(watch, events[i].events);
        }
    }
}
