/* See remote.h. */
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "acl/error_codes/rt_error_codes.h"
#include "base/error.h"
#include "base/options.h"
#include "base/sys.h"
#include "core/remote/remote_state.h"

struct am_remote am_remote = {
    .start = AM_LOCK_INIT(AM_RANK_FABRIC, "fabric's start"),
    .lock = AM_LOCK_INIT(AM_RANK_SHARE, "fabric"),
    .room = PTHREAD_COND_INITIALIZER,
    .waiters = TAILQ_HEAD_INITIALIZER(am_remote.waiters),
};

bool am_remote_is_wanted(void)
{
    return am_option_number(AM_OPTION_fabric) != 0;
}

const char am_remote_gone[] =
    "the fabric process of this program (aclmem-fabric) ended or does not answer; import "
    "memory of other machines again, or call aclFinalize where that fails too";

/* ---- requests ---- */

aclError am_remote_sent(int rc)
{
    AM_REQUIRE(rc != -EPIPE && rc != -ECONNRESET && rc != -ETIMEDOUT,
               ACL_ERROR_RT_IPC_ERROR, "%s", am_remote_gone);
    AM_REQUIRE(rc == 0, ACL_ERROR_RT_RESOURCE_ALLOC_FAIL,
               "the fabric process cannot be asked: %s", strerror(-rc));
    return ACL_SUCCESS;
}

/* Sends to a process that may stand still: then it is given up, and later sends fail at once. */
static int post_locked(const struct am_port_message *message, int fd)
    AM_REQUIRES(am_remote.lock)
{
    int rc = am_port_send(am_remote.process.socket, message, fd);

    if (rc == -ETIMEDOUT) {
        am_remote.may_restart = false;
        shutdown(am_remote.process.socket, SHUT_RDWR);
    }
    return rc;
}

static aclError send_locked(const struct am_port_message *message, int fd)
    AM_REQUIRES(am_remote.lock)
{
    return am_remote_sent(am_remote.is_up && !am_remote.is_gone ? post_locked(message, fd)
                                                                : -EPIPE);
}

/* Sends a request whose answer goes to `reply`; id is set here. */
aclError am_remote_request_locked(struct am_port_message *message, int fd,
                                  void (*reply)(void *, const struct am_port_message *),
                                  void *arg) AM_REQUIRES(am_remote.lock)
{
    struct am_remote_request *request = am_remote.requests;

    while (am_remote.n_requests == AM_REMOTE_REQUESTS && !am_remote.is_gone)
        pthread_cond_wait(&am_remote.room, &am_remote.lock.mutex);
    AM_REQUIRE(am_remote.is_up && !am_remote.is_gone, ACL_ERROR_RT_IPC_ERROR, "%s",
               am_remote_gone);
    while (request->reply != NULL)
        request++;
    /* The number has the place of its entry in it. */
    message->id =
        ++am_remote.n_ever * AM_REMOTE_PLACES + (uint32_t)(request - am_remote.requests);
    AM_TRY(send_locked(message, fd));
    *request = (struct am_remote_request){reply, arg, message->id};
    am_remote.n_requests++;
    return ACL_SUCCESS;
}

bool am_remote_request_take_locked(uint32_t id, struct am_remote_request *ret_request)
{
    struct am_remote_request *request = &am_remote.requests[id % AM_REMOTE_PLACES];

    if (request->reply == NULL || request->id != id)
        return false;
    *ret_request = *request;
    request->reply = NULL;
    am_remote.n_requests--;
    pthread_cond_broadcast(&am_remote.room);
    return true;
}

void am_remote_take_reply(const struct am_port_message *reply)
{
    struct am_remote_request request;
    bool is_found;

    am_lock(&am_remote.lock);
    is_found = am_remote_request_take_locked(reply->id, &request);
    am_unlock(&am_remote.lock);
    if (is_found)
        request.reply(request.arg, reply);
}

/* The fabric process is gone: every request ends. */
void am_remote_fail_all(void)
{
    struct am_port_message reply = {
        .kind = AM_PORT_LOST,
        .status = ACL_ERROR_RT_IPC_ERROR,
    };
    TAILQ_HEAD(, am_remote_waiter) waiters = TAILQ_HEAD_INITIALIZER(waiters);
    struct am_remote_waiter *waiter;

    snprintf(reply.text, sizeof reply.text, "%s", am_remote_gone);
    am_lock(&am_remote.lock);
    TAILQ_CONCAT(&waiters, &am_remote.waiters, next);
    am_unlock(&am_remote.lock);
    for (size_t i = 0; i < AM_REMOTE_PLACES; i++) { /* no request comes any more */
        am_lock(&am_remote.lock);
        reply.id = am_remote.requests[i].id;
        am_unlock(&am_remote.lock);
        am_remote_take_reply(&reply);
    }
    while ((waiter = TAILQ_FIRST(&waiters)) != NULL) {
        TAILQ_REMOVE(&waiters, waiter, next);
        waiter->wake(waiter);
    }
}

/* A request that its caller waits for. */
struct call {
    pthread_cond_t cond;
    bool is_done;
    uint64_t generation; /* of the process that was asked */
    struct am_port_message reply;
};

static void call_reply(void *arg, const struct am_port_message *reply)
{
    struct call *call = arg;

    am_lock(&am_remote.lock);
    call->reply = *reply;
    call->is_done = true;
    pthread_cond_signal(&call->cond);
    am_unlock(&am_remote.lock);
}

/*
 * Waits for a process that is being started again; false: no request is taken any more.  A
 * send that failed with a process that this module holds for alive waits for the thread
 * to notice.
 */
static bool up_wait_locked(bool has_failed) AM_REQUIRES(am_remote.lock)
{
    uint64_t generation = am_remote.generation;

    while (am_remote.is_restarting ||
           (has_failed && am_remote.is_up && !am_remote.is_gone &&
            am_remote.generation == generation))
        pthread_cond_wait(&am_remote.room, &am_remote.lock.mutex);
    return am_remote.is_up && !am_remote.is_gone;
}

/* Sends the request to a process that is up, and waits for the answer. */
static aclError ask_locked(struct am_port_message *message, int fd, struct call *call)
    AM_REQUIRES(am_remote.lock)
{
    bool has_failed = false;
    aclError rc;

    do {
        bool is_up = up_wait_locked(has_failed);

        rc = am_remote_request_locked(message, fd, call_reply, call);
        has_failed = is_up && rc == ACL_ERROR_RT_IPC_ERROR && am_remote.may_restart;
    } while (has_failed); /* at most once more than it is started again */
    call->generation = am_remote.generation;
    call->is_done = rc != ACL_SUCCESS;
    while (!call->is_done)
        pthread_cond_wait(&call->cond, &am_remote.lock.mutex);
    return rc;
}

aclError am_remote_ask(struct am_port_message *message, int fd, uint64_t *ret_generation)
{
    struct call call = {.cond = PTHREAD_COND_INITIALIZER};
    const struct am_port_message *reply = &call.reply;
    aclError rc;

    am_lock(&am_remote.lock);
    rc = ask_locked(message, fd, &call);
    /* The process ended with the request, and all that it did: another one is asked, once. */
    if (rc == ACL_SUCCESS && reply->kind == AM_PORT_LOST && am_remote.may_restart)
        rc = ask_locked(message, fd, &call);
    *ret_generation = call.generation;
    am_unlock(&am_remote.lock);
    pthread_cond_destroy(&call.cond);
    if (rc != ACL_SUCCESS)
        return rc;
    AM_REQUIRE(reply->status == 0, reply->status, "%.*s", (int)sizeof reply->text - 1,
               reply->text);
    *message = *reply;
    return ACL_SUCCESS;
}

/* ---- exports and imports ---- */

/*
 * Keeps an export that the process of the generation has; false: another process is there
 * meanwhile, which was not told of it.
 */
static bool keep(struct am_offer *offer, uint64_t generation)
{
    bool is_same;

    am_lock(&am_remote.lock);
    is_same = am_remote.generation == generation;
    if (is_same)
        am_offer_add(&am_remote.exports, offer);
    am_unlock(&am_remote.lock);
    return is_same;
}

aclError am_remote_export(const struct am_port_ticket *ticket, bool is_open, int fd,
                          size_t size, const void *bytes, size_t n_bytes)
{
    struct am_port_message message = {.kind = AM_PORT_EXPORT};
    struct am_offer *offer;
    uint64_t generation;
    bool is_kept;
    aclError rc;

    AM_TRY(am_remote_start(NULL));
    am_assert(n_bytes <= AM_PORT_DESC);
    message.export_.ticket = *ticket;
    message.export_.size = size;
    message.export_.is_open = is_open;
    message.export_.n_bytes = (uint32_t)n_bytes;
    memcpy(message.export_.bytes, bytes, n_bytes);
    offer = am_offer_make(&message, fd);
    AM_REQUIRE(offer != NULL, ACL_ERROR_BAD_ALLOC, "no memory for an export");
    do {
        rc = am_remote_ask(&message, fd, &generation);
        is_kept = rc == ACL_SUCCESS && keep(offer, generation);
        message = am_offer_message(offer);
    } while (rc == ACL_SUCCESS && !is_kept);
    if (rc != ACL_SUCCESS)
        am_offer_free(offer);
    return rc;
}

/* The same for processes that an export lists: 1, 0, or -1 without memory. */
static int keep_trust(uint64_t number, const int32_t *ids, size_t n, uint64_t generation)
{
    struct am_offer *offer;
    int is_same;

    am_lock(&am_remote.lock);
    is_same = am_remote.generation == generation;
    offer = is_same ? am_offer_find(&am_remote.exports, number) : NULL;
    if (offer != NULL && !am_offer_trust(offer, ids, n))
        is_same = -1;
    am_unlock(&am_remote.lock);
    return is_same;
}

aclError am_remote_trust(const struct am_port_ticket *ticket, const int32_t *ids,
                         size_t n)
{
    size_t i = 0;

    while (i < n) {
        struct am_port_message message = {.kind = AM_PORT_TRUST};
        size_t n_now = n - i < AM_PORT_PIDS ? n - i : AM_PORT_PIDS;
        uint64_t generation;
        int is_kept;

        message.trust.ticket = *ticket;
        message.trust.n = (uint32_t)n_now;
        memcpy(message.trust.pids, ids + i, n_now * sizeof *ids);
        AM_TRY(am_remote_ask(&message, -1, &generation));
        is_kept = keep_trust(ticket->number, ids + i, n_now, generation);
        AM_REQUIRE(is_kept >= 0, ACL_ERROR_BAD_ALLOC,
                   "no memory for a list of %zu processes", n);
        if (is_kept > 0) /* otherwise the next process is told the same */
            i += n_now;
    }
    return ACL_SUCCESS;
}

/* Tells the fabric process; where that fails it is gone, and all is released. */
static void tell_locked(const struct am_port_message *message, uint64_t generation)
    AM_REQUIRES(am_remote.lock)
{
    if (am_remote.is_up && (!am_remote.is_gone || am_remote.is_heard) &&
        (generation == 0 || generation == am_remote.generation))
        post_locked(message, -1);
}

static void tell(const struct am_port_message *message, uint64_t generation)
{
    am_lock(&am_remote.lock);
    tell_locked(message, generation);
    am_unlock(&am_remote.lock);
}

void am_remote_withdraw(uint64_t number)
{
    struct am_port_message message = {.kind = AM_PORT_WITHDRAW};

    message.trust.ticket.number = number;
    am_lock(&am_remote.lock);
    am_offer_remove(&am_remote.exports, number);
    tell_locked(&message, 0);
    am_unlock(&am_remote.lock);
}

/* ---- remote memory as a backend's ---- */

static void remote_mem_destroy(struct am_mem *mem)
{
    struct am_port_message message = {.kind = AM_PORT_RELEASE};

    message.move.number = mem->impl[AM_REMOTE_NUMBER];
    tell(&message, mem->impl[AM_REMOTE_GENERATION]);
}

/* Nothing is at the addresses: the program's own accesses fault. */
static aclError remote_map(void *addr, size_t size, struct am_mem *mem,
                           const struct am_rights *rights)
{
    return ACL_SUCCESS;
}

static aclError remote_unmap(void *addr, size_t size, struct am_mem *mem)
{
    return ACL_SUCCESS;
}

static const struct am_backend_ops remote_ops = {
    .name = "fabric",
    .caps = AM_CAP_REMOTE | AM_CAP_MAP_PART,
    .mem_destroy = remote_mem_destroy,
    .map = remote_map,
    .protect = remote_map,
    .unmap = remote_unmap,
};

static struct am_bank remote_bank = {.ops = &remote_ops};

aclError am_remote_import(const struct am_port_place *place,
                          const struct am_port_ticket *ticket,
                          struct am_remote_import *ret_import)
{
    struct am_port_message message = {.kind = AM_PORT_IMPORT};
    uint64_t generation;

    AM_TRY(am_remote_start(NULL));
    message.import.place = *place;
    message.import.ticket = *ticket;
    AM_TRY(am_remote_ask(&message, -1, &generation));
    ret_import->mem =
        (struct am_mem){.bank = &remote_bank, .size = message.imported.size};
    ret_import->mem.impl[AM_REMOTE_NUMBER] = message.imported.number;
    ret_import->mem.impl[AM_REMOTE_GENERATION] = generation;
    ret_import->pid = message.imported.pid;
    ret_import->n_bytes = message.imported.n_bytes;
    memcpy(ret_import->bytes, message.imported.bytes, sizeof ret_import->bytes);
    return ACL_SUCCESS;
}
