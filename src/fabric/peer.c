/* See helper.h. */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/futex.h>
#include <sodium.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "acl/acl_base.h"
#include "acl/error_codes/rt_error_codes.h"
#include "fabric/helper.h"

#define SHAKING_MAX 64 /* connections that have not proved the key */
#define BOOK_ROWS 256  /* peers that aclmem info shows */
#define IDLE_NS UINT64_C(5000000000)

struct move {
    struct am_ucx_move ucx;
    struct am_peer_import *import;
    uint32_t request;
    uint32_t bell; /* a number + 1; 0: none */
    uint32_t slot;
};

/* ---- the end of a peer ---- */

static void peer_fail(struct am_peer *peer, const char *why)
{
    if (peer->is_dying || peer->is_dead)
        return;
    peer->is_dying = true;
    peer->helper->has_dying = true;
    snprintf(peer->why, sizeof peer->why, "%s", why);
}

static void link_fail(struct am_peer *peer)
{
    struct am_link *link = &peer->link;
    char text[192];

    if (link->end == AM_LINK_VERSION)
        snprintf(text, sizeof text,
                 "it speaks version %u of the fabric's protocol, and this process %u; "
                 "install the same version of aclmem on both",
                 link->peer_version, AM_FRAME_VERSION);
    else
        snprintf(text, sizeof text, "%s", am_link_reason(link));
    peer_fail(peer, text);
}

/* "machine a (10.0.0.1), process 7", as far as it is known. */
static const char *peer_name(const struct am_peer *peer, char *text, size_t size)
{
    int32_t pid = peer->is_server ? peer->link.peer.pid : peer->place.pid;

    snprintf(text, size, "machine %s (%s), process %d",
             peer->link.peer.host[0] != '\0' ? peer->link.peer.host : "unknown",
             peer->address, pid);
    return text;
}

static void import_refuse(struct am_peer_import *import, int32_t status, const char *why)
{
    char name[192];

    am_helper_refuse(import->peer->helper, import->request, status, "%s: %s",
                     peer_name(import->peer, name, sizeof name), why);
}

static void import_free(struct am_peer_import *import)
{
    struct am_peer *peer = import->peer;

    if (import->has_rkey)
        ucp_rkey_destroy(import->rkey);
    LIST_REMOVE(import, next);
    if (--peer->n_imports == 0)
        peer->unused = am_helper_now();
    peer->helper->imports[import->number - 1] = NULL;
    free(import);
}

/* Called outside of all callbacks. */
static void peer_end(struct am_peer *peer)
{
    struct am_helper *helper = peer->helper;
    struct am_peer_import *import, *next;

    helper->n_shaking -= peer->is_unproved;
    close(peer->watch.fd);
    am_link_close(&peer->link);
    peer->is_dead = true;
    if (peer->is_server)
        am_desk_leave(&helper->desk, &peer->guest);
    if (peer->has_ep)
        am_ucx_disconnect(&helper->ucx, peer->ep); /* its moves end by this */
    for (import = LIST_FIRST(&peer->imports); import != NULL; import = next) {
        next = LIST_NEXT(import, next);
        if (import->is_replied)
            continue;
        import_refuse(import, ACL_ERROR_RT_IPC_ERROR, peer->why);
        import_free(import);
    }
}

void am_peer_sweep(struct am_helper *helper)
{
    struct am_peer *peer, *next;

    if (!helper->has_dying)
        return;
    helper->has_dying = false;
    for (peer = TAILQ_FIRST(&helper->peers); peer != NULL; peer = next) {
        next = TAILQ_NEXT(peer, next);
        if (peer->is_dying && !peer->is_dead)
            peer_end(peer);
        if (!peer->is_dead || peer->n_imports > 0)
            continue;
        TAILQ_REMOVE(&helper->peers, peer, next);
        am_link_destroy(&peer->link);
        free(peer);
    }
}

/* ---- bytes ---- */

static void peer_write(struct am_peer *peer)
{
    const uint8_t *bytes;
    size_t size;
    bool is_waiting = false;

    while (!peer->is_connecting && (size = am_link_output(&peer->link, &bytes)) > 0) {
        ssize_t n = send(peer->watch.fd, bytes, size, MSG_NOSIGNAL);

        if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
            is_waiting = true;
            break;
        }
        if (n < 0) {
            am_link_close(&peer->link);
            link_fail(peer);
            return;
        }
        am_link_took(&peer->link, (size_t)n);
    }
    if (is_waiting == peer->is_waiting)
        return;
    peer->is_waiting = is_waiting;
    am_helper_watch(peer->helper, &peer->watch, EPOLLIN | (is_waiting ? EPOLLOUT : 0),
                    false);
}

static void peer_send(struct am_peer *peer, struct am_frame *frame)
{
    am_link_send(&peer->link, frame, am_helper_now());
    peer_write(peer);
}

static void worker_send(struct am_peer *peer)
{
    struct am_ucx *ucx = &peer->helper->ucx;
    struct am_frame frame = {.kind = AM_FRAME_WORKER};

    frame.worker.size = (uint32_t)ucx->address_size;
    memcpy(frame.worker.address, ucx->address, ucx->address_size);
    peer_send(peer, &frame);
}

static void import_ask(struct am_peer_import *import)
{
    struct am_frame frame = {.kind = AM_FRAME_IMPORT};

    frame.import.id = import->number;
    frame.import.ticket = import->ticket;
    peer_send(import->peer, &frame);
}

/* The handshake is over. */
static void peer_up(struct am_peer *peer)
{
    struct am_peer_import *import;

    if (peer->is_server) {
        peer->helper->n_shaking--;
        peer->is_unproved = false;
        worker_send(peer);
        return;
    }
    if (memcmp(peer->link.peer.instance, peer->place.instance,
               sizeof peer->place.instance) != 0) {
        peer_fail(peer, "the exporting process is gone, and another one has its port");
        return;
    }
    LIST_FOREACH (import, &peer->imports, next)
        import_ask(import);
}

static void peer_read(struct am_peer *peer)
{
    uint8_t bytes[16 * AM_FRAME_SIZE];

    for (int i = 0; i < 8 && !peer->is_dying; i++) {
        enum am_link_state before = peer->link.state;
        ssize_t n = recv(peer->watch.fd, bytes, sizeof bytes, 0);

        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (n <= 0)
            am_link_close(&peer->link);
        else
            am_link_input(&peer->link, bytes, (size_t)n, am_helper_now());
        if (peer->link.state == AM_LINK_DEAD) {
            link_fail(peer);
            return;
        }
        if (before == AM_LINK_SHAKING && peer->link.state == AM_LINK_UP)
            peer_up(peer);
        peer_write(peer);
        if ((size_t)n < sizeof bytes)
            return;
    }
}

static void peer_connected(struct am_peer *peer)
{
    socklen_t size = sizeof(int);
    int error = 0;
    char text[192];

    getsockopt(peer->watch.fd, SOL_SOCKET, SO_ERROR, &error, &size);
    if (error != 0) {
        snprintf(text, sizeof text, "it cannot be reached: %s%s", strerror(error),
                 error == ECONNREFUSED ? "; the exporting process has ended" : "");
        peer_fail(peer, text);
        return;
    }
    peer->is_connecting = false;
    am_helper_watch(peer->helper, &peer->watch, EPOLLIN, false);
}

static void peer_ready(struct am_watch *watch, uint32_t events)
{
    struct am_peer *peer = (struct am_peer *)watch;

    if (peer->is_dying || peer->is_dead)
        return;
    if (peer->is_connecting) {
        peer_connected(peer);
        return;
    }
    if (events & EPOLLOUT)
        peer_write(peer);
    if (events & (EPOLLIN | EPOLLERR | EPOLLHUP))
        peer_read(peer);
}

/* ---- what peers say ---- */

/* An importer's frame. */
static void guest_frame(struct am_peer *peer, const struct am_frame *frame)
{
    struct am_helper *helper = peer->helper;
    struct am_frame answer = {0};

    switch (frame->kind) {
    case AM_FRAME_IMPORT:
        am_desk_answer(&helper->desk, &peer->guest, peer->link.peer.pid, frame, &answer);
        peer_send(peer, &answer);
        return;
    case AM_FRAME_RELEASE:
        am_desk_release(&helper->desk, &peer->guest, frame->release.number);
        return;
    case AM_FRAME_ECHO:
        answer = *frame;
        peer_send(peer, &answer);
        return;
    default:
        peer_fail(peer, "it sent what only an exporter may send");
    }
}

static void ep_broken(void *arg)
{
    peer_fail(arg, "its data connection broke; it may have ended");
}

static void worker_take(struct am_peer *peer, const struct am_frame *frame)
{
    char why[AM_UCX_WHY] = "its worker's address is wrong";

    if (peer->has_ep || frame->worker.size == 0 ||
        frame->worker.size > AM_FRAME_WORKER_MAX ||
        am_ucx_connect(&peer->helper->ucx, frame->worker.address, ep_broken, peer,
                       &peer->ep, why) != 0)
        peer_fail(peer, why);
    else
        peer->has_ep = true;
}

static void import_release(struct am_peer_import *import)
{
    struct am_frame frame = {.kind = AM_FRAME_RELEASE};

    if (import->is_granted && !import->peer->is_dead) {
        frame.release.number = import->grant;
        peer_send(import->peer, &frame);
    }
    if (import->peer->is_dead)
        import->peer->helper->has_dying = true; /* the last one frees the peer */
    import_free(import);
}

static void import_reply(struct am_peer_import *import)
{
    struct am_port_message reply = {.kind = AM_PORT_REPLY, .id = import->request};

    import->is_replied = true;
    reply.imported.number = import->number;
    reply.imported.size = import->size;
    reply.imported.n_bytes = import->n_bytes;
    memcpy(reply.imported.bytes, import->bytes, import->n_bytes);
    memcpy(reply.imported.host, import->peer->link.peer.host, sizeof reply.imported.host);
    reply.imported.pid = import->peer->link.peer.pid;
    am_helper_reply(import->peer->helper, &reply);
}

static struct am_peer *peer_of_probe(struct am_ucx_move *move)
{
    return (struct am_peer *)((char *)move - offsetof(struct am_peer, probe_move));
}

static void probe_done(struct am_ucx_move *move)
{
    struct am_peer *peer = peer_of_probe(move);
    struct am_peer_import *import;

    peer->is_probing = false;
    peer->n_moves--;
    peer->moved = am_helper_now();
    if (move->has_failed) {
        peer_fail(peer, "its data port cannot be reached, or it ended");
        return;
    }
    peer->is_probed = true;
    LIST_FOREACH (import, &peer->imports, next) {
        if (import->is_granted && !import->is_replied)
            import_reply(import);
    }
}

/*
 * A first byte shows that the peer's data port is open, before the program is told that it
 * has the memory.  It also completes UCX's own handshake: UCX 1.13 aborts an exporter
 * whose importer ends in the middle of that.
 */
static void import_probe(struct am_peer_import *import)
{
    struct am_peer *peer = import->peer;

    if (peer->is_probed) {
        import_reply(import);
        return;
    }
    if (peer->is_probing)
        return;
    peer->is_probing = true;
    peer->probe_move.done = probe_done;
    if (peer->n_moves++ == 0)
        peer->moved = am_helper_now();
    am_ucx_get(peer->ep, import->rkey, import->address, &peer->probe, sizeof peer->probe,
               &peer->probe_move);
}

static struct am_peer_import *import_find(struct am_helper *helper, uint64_t number)
{
    return number - 1 < helper->n_imports ? helper->imports[number - 1] : NULL;
}

static void grant_take(struct am_peer *peer, const struct am_frame *frame)
{
    struct am_peer_import *import = import_find(peer->helper, frame->grant.id);

    if (import == NULL || import->peer != peer || import->is_granted || !peer->has_ep ||
        frame->grant.n_bytes > AM_PORT_DESC || frame->grant.n_rkey > AM_FRAME_RKEY_MAX) {
        peer_fail(peer, "it answered what was not asked");
        return;
    }
    if (frame->grant.status != ACL_SUCCESS) {
        import_refuse(import, frame->grant.status,
                      frame->grant.status == ACL_ERROR_RT_NO_PERMISSION
                          ? "it does not export this memory to this process: the memory "
                            "was freed, or this process is not on the list; the exporter "
                            "calls aclrtMemSetPidToShareableHandleV2 with the id that "
                            "aclrtDeviceGetBareTgid returns here"
                          : "it has no memory for another import");
        import_free(import);
        return;
    }
    import->is_granted = true;
    import->grant = frame->grant.number;
    import->size = frame->grant.size;
    import->address = frame->grant.address;
    if (ucp_ep_rkey_unpack(peer->ep, frame->grant.rkey, &import->rkey) != UCS_OK) {
        import_refuse(import, ACL_ERROR_RT_IPC_ERROR,
                      "UCX does not understand the key of its memory");
        import_release(import);
        return;
    }
    import->has_rkey = true;
    import->n_bytes = frame->grant.n_bytes;
    memcpy(import->bytes, frame->grant.bytes, frame->grant.n_bytes);
    import_probe(import);
}

/* An exporter's frame. */
static void host_frame(struct am_peer *peer, const struct am_frame *frame)
{
    switch (frame->kind) {
    case AM_FRAME_WORKER:
        worker_take(peer, frame);
        return;
    case AM_FRAME_GRANT:
        grant_take(peer, frame);
        return;
    case AM_FRAME_ECHO:
        return;
    default:
        peer_fail(peer, "it sent what only an importer may send");
    }
}

static void frame_take(void *arg, const struct am_frame *frame)
{
    struct am_peer *peer = arg;

    if (peer->is_dying)
        return;
    if (peer->is_server)
        guest_frame(peer, frame);
    else
        host_frame(peer, frame);
}

/* ---- new peers ---- */

static struct am_peer *peer_make(struct am_helper *helper, int fd, bool is_server,
                                 const struct sockaddr_in *address)
{
    struct am_peer *peer = calloc(1, sizeof *peer);
    struct am_link_spec spec = {
        .keys = &helper->keys,
        .is_server = is_server,
        .who = helper->who,
        .timeout_ns = helper->timeout_ns,
        .now = am_helper_now(),
        .frame = frame_take,
        .arg = peer,
    };
    char number[INET_ADDRSTRLEN] = "";

    if (peer == NULL)
        return NULL;
    randombytes_buf(spec.nonce, sizeof spec.nonce);
    am_link_init(&peer->link, &spec);
    peer->watch = (struct am_watch){fd, peer_ready};
    peer->helper = helper;
    peer->is_server = is_server;
    peer->unused = spec.now;
    inet_ntop(AF_INET, &address->sin_addr, number, sizeof number);
    snprintf(peer->address, sizeof peer->address, "%s:%u", number,
             ntohs(address->sin_port));
    LIST_INIT(&peer->guest.grants);
    LIST_INIT(&peer->imports);
    TAILQ_INSERT_TAIL(&helper->peers, peer, next);
    am_net_tune(fd, helper->timeout_ns);
    return peer;
}

/* A stranger cannot keep others out: the connection that tries longest goes. */
static void shaking_limit(struct am_helper *helper)
{
    struct am_peer *peer;

    if (helper->n_shaking < SHAKING_MAX)
        return;
    TAILQ_FOREACH (peer, &helper->peers, next) {
        if (peer->is_server && !peer->is_dying && peer->link.state == AM_LINK_SHAKING) {
            peer_fail(peer, "too many connections are waiting for their handshake");
            return;
        }
    }
}

void am_peer_accept(struct am_helper *helper)
{
    for (int i = 0; i < SHAKING_MAX; i++) {
        struct sockaddr_in address = {0};
        socklen_t size = sizeof address;
        int fd = accept4(helper->listener.fd, (struct sockaddr *)&address, &size,
                         SOCK_NONBLOCK | SOCK_CLOEXEC);
        struct am_peer *peer;

        if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOMEM)) {
            /* The connection stays in the kernel's queue until the next tick. */
            am_helper_watch(helper, &helper->listener, 0, false);
            helper->is_listening = false;
        }
        if (fd < 0)
            return;
        shaking_limit(helper);
        peer = peer_make(helper, fd, true, &address);
        if (peer == NULL) {
            close(fd);
            return;
        }
        helper->n_shaking++;
        peer->is_unproved = true;
        am_helper_watch(helper, &peer->watch, EPOLLIN, true);
        peer_write(peer);
    }
}

static struct am_peer *peer_find(struct am_helper *helper,
                                 const struct am_port_place *place)
{
    struct am_peer *peer;

    TAILQ_FOREACH (peer, &helper->peers, next) {
        if (!peer->is_server && !peer->is_dying && !peer->is_dead &&
            memcmp(&peer->place, place, sizeof *place) == 0)
            return peer;
    }
    return NULL;
}

static struct am_peer *peer_connect(struct am_helper *helper,
                                    const struct am_port_place *place, uint32_t request)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(place->port)};
    struct am_peer *peer;
    char number[INET_ADDRSTRLEN];
    int fd;

    memcpy(&address.sin_addr, place->address, sizeof address.sin_addr);
    inet_ntop(AF_INET, &address.sin_addr, number, sizeof number);
    fd = am_net_connect(&helper->place.address, &address);
    if (fd < 0) {
        am_helper_refuse(helper, request, ACL_ERROR_RT_IPC_ERROR,
                         "the exporter at %s:%u, process %d, cannot be reached: %s",
                         number, place->port, place->pid, strerror(-fd));
        return NULL;
    }
    peer = peer_make(helper, fd, false, &address);
    if (peer == NULL) {
        close(fd);
        am_helper_refuse(helper, request, ACL_ERROR_BAD_ALLOC,
                         "the fabric process has no memory");
        return NULL;
    }
    peer->place = *place;
    peer->is_connecting = true;
    am_helper_watch(helper, &peer->watch, EPOLLOUT, true);
    return peer;
}

/* ---- what the program asks for ---- */

static struct am_peer_import *import_make(struct am_helper *helper)
{
    struct am_peer_import *import = calloc(1, sizeof *import);
    size_t at = 0;

    if (import == NULL)
        return NULL;
    while (at < helper->n_imports && helper->imports[at] != NULL)
        at++;
    if (at == helper->n_imports) {
        size_t n = 2 * helper->n_imports + 16;
        struct am_peer_import **imports =
            realloc(helper->imports, n * sizeof(struct am_peer_import *));

        if (imports == NULL) {
            free(import);
            return NULL;
        }
        memset(imports + at, 0, (n - at) * sizeof(struct am_peer_import *));
        helper->imports = imports;
        helper->n_imports = n;
    }
    helper->imports[at] = import;
    import->number = at + 1;
    return import;
}

void am_peer_import(struct am_helper *helper, const struct am_port_message *message)
{
    const struct am_port_place *place = &message->import.place;
    struct am_peer *peer = peer_find(helper, place);
    struct am_peer_import *import;

    if (peer == NULL)
        peer = peer_connect(helper, place, message->id);
    if (peer == NULL)
        return;
    import = import_make(helper);
    if (import == NULL) {
        am_helper_refuse(helper, message->id, ACL_ERROR_BAD_ALLOC,
                         "the fabric process has no memory for an import");
        return;
    }
    import->peer = peer;
    import->request = message->id;
    import->ticket = message->import.ticket;
    LIST_INSERT_HEAD(&peer->imports, import, next);
    peer->n_imports++;
    if (peer->link.state == AM_LINK_UP)
        import_ask(import);
}

void am_peer_release(struct am_helper *helper, uint64_t number)
{
    struct am_peer_import *import = import_find(helper, number);

    if (import == NULL)
        return;
    import->is_released = true;
    if (import->n_moves == 0)
        import_release(import);
}

static void bell_ring(struct am_helper *helper, const struct move *move)
{
    struct am_port_bells *bells = (void *)(helper->area + AM_PORT_BELLS_AT);
    _Atomic uint32_t *bell = &bells->bell[move->bell - 1];

    /*
     * The partners are am_remote_landed(), which reads the slot's bytes behind its load, and
     * am_remote_bell_wait(), which counted the bell before it looked.
     */
    atomic_store(&bells->landed[move->slot], 1);
    atomic_fetch_add(bell, 1);
    syscall(SYS_futex, bell, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

static void move_done(struct am_ucx_move *ucx)
{
    struct move *move = (struct move *)ucx;
    struct am_peer_import *import = move->import;
    struct am_peer *peer = import->peer;
    struct am_port_message reply = {.kind = AM_PORT_REPLY, .id = move->request};
    char name[192];

    if (ucx->has_failed) {
        peer_fail(peer, "its data connection broke; it may have ended");
        am_helper_refuse(peer->helper, move->request, ACL_ERROR_RT_IPC_ERROR, "%s: %s",
                         peer_name(peer, name, sizeof name), peer->why);
    } else if (move->bell != 0) {
        bell_ring(peer->helper, move);
    } else {
        am_helper_reply(peer->helper, &reply);
    }
    peer->moved = am_helper_now();
    peer->n_moves--;
    free(move);
    if (--import->n_moves == 0 && import->is_released)
        import_release(import);
}

void am_peer_move(struct am_helper *helper, const struct am_port_message *message)
{
    struct am_peer_import *import = import_find(helper, message->move.number);
    uint64_t offset = message->move.offset;
    uint64_t at = message->move.at;
    uint64_t size = message->move.size;
    struct am_peer *peer = import != NULL ? import->peer : NULL;
    struct move *move;
    char name[192];

    if (import == NULL || !import->is_granted || import->is_released ||
        size > import->size || offset > import->size - size || size > AM_PORT_SLOT_SIZE ||
        at > AM_PORT_BELLS_AT - size || message->move.bell > AM_PORT_BELLS) {
        am_helper_refuse(helper, message->id, ACL_ERROR_RT_PARAM_INVALID,
                         "the fabric process has no such memory");
        return;
    }
    if (peer->is_dying || peer->is_dead) {
        am_helper_refuse(helper, message->id, ACL_ERROR_RT_IPC_ERROR, "%s: %s",
                         peer_name(peer, name, sizeof name), peer->why);
        return;
    }
    move = malloc(sizeof *move);
    if (move == NULL) {
        am_helper_refuse(helper, message->id, ACL_ERROR_BAD_ALLOC,
                         "the fabric process has no memory for a copy");
        return;
    }
    *move = (struct move){
        .ucx.done = move_done,
        .import = import,
        .request = message->id,
        .bell = message->move.bell,
        .slot = (uint32_t)(at / AM_PORT_SLOT_SIZE),
    };
    if (peer->n_moves++ == 0)
        peer->moved = am_helper_now();
    import->n_moves++;
    if (message->kind == AM_PORT_PUT)
        am_ucx_put(peer->ep, import->rkey, import->address + offset, helper->area + at,
                   size, &move->ucx);
    else
        am_ucx_get(peer->ep, import->rkey, import->address + offset, helper->area + at,
                   size, &move->ucx);
}

static bool peer_row(const struct am_peer *peer, struct am_port_row *row)
{
    const struct am_peer_import *import;

    memset(row, 0, sizeof *row);
    if (peer->link.state != AM_LINK_UP)
        return false;
    row->is_importer = peer->is_server;
    row->n = peer->is_server ? peer->guest.n_grants : peer->n_imports;
    row->n_bytes = peer->guest.n_bytes;
    LIST_FOREACH (import, &peer->imports, next)
        row->n_bytes += import->size;
    row->pid = peer->link.peer.pid;
    memcpy(row->host, peer->link.peer.host, sizeof row->host);
    memcpy(row->address, peer->address, sizeof row->address);
    return row->n > 0;
}

void am_peer_book(struct am_helper *helper)
{
    static struct am_port_row rows[BOOK_ROWS], before[BOOK_ROWS];
    static size_t n_before;
    struct am_peer *peer;
    size_t n = 0;

    if (helper->book < 0)
        return;
    TAILQ_FOREACH (peer, &helper->peers, next) {
        if (n < BOOK_ROWS && peer_row(peer, &rows[n]))
            n++;
    }
    if (n == n_before && memcmp(rows, before, n * sizeof rows[0]) == 0)
        return;
    if (pwrite(helper->book, rows, n * sizeof rows[0], 0) < 0 ||
        ftruncate(helper->book, (off_t)(n * sizeof rows[0])) != 0)
        return; /* aclmem info shows less */
    memcpy(before, rows, n * sizeof rows[0]);
    n_before = n;
}

/* ---- time ---- */

void am_peer_tick(struct am_helper *helper, uint64_t now)
{
    struct am_peer *peer;

    TAILQ_FOREACH (peer, &helper->peers, next) {
        if (peer->is_dead || peer->is_dying)
            continue;
        am_link_tick(&peer->link, now);
        if (peer->link.state == AM_LINK_DEAD)
            link_fail(peer);
        else if (peer->n_moves > 0 && now - peer->moved >= helper->timeout_ns)
            peer_fail(peer, "no byte was moved for ACLMEM_FABRIC_TIMEOUT");
        else if (!peer->is_server && peer->n_imports == 0 && now - peer->unused > IDLE_NS)
            peer_fail(peer, "it is not used");
        else
            peer_write(peer);
    }
}
