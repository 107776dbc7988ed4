/* Requests to the fabric process, exports and imports.  See remote.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "acl/error_codes/rt_error_codes.h"
#include "backend/remote/internal.h"
#include "base/epoch.h"
#include "base/error.h"
#include "base/sys.h"

struct am_remote am_remote = {
    .start = AM_LOCK_INIT(AM_RANK_FABRIC, "fabric's start"),
    .lock = AM_LOCK_INIT(AM_RANK_SHARE, "fabric"),
    .changed = PTHREAD_COND_INITIALIZER,
    .calls = LIST_HEAD_INITIALIZER(am_remote.calls),
};

const char am_remote_lost[] =
    "the fabric process of this program (aclmem-fabric) ended or does not answer; import "
    "memory of other machines again, or call aclFinalize where that fails too";

static int export_compare(const struct am_remote_export *a,
                          const struct am_remote_export *b)
{
    if (a->number != b->number)
        return a->number > b->number ? 1 : -1;
    return (a->order > b->order) - (a->order < b->order);
}

RB_GENERATE(am_remote_exports, am_remote_export, node, export_compare)

/* ---- requests ---- */

int am_remote_post_locked(const struct am_port_message *message, int fd)
{
    int rc = am_port_send(am_remote.socket, message, fd);

    if (rc == -ETIMEDOUT) {
        am_remote.is_given_up = true;
        shutdown(am_remote.socket, SHUT_RDWR); /* later sends fail at once */
    }
    return rc == -ECONNRESET || rc == -ETIMEDOUT ? -EPIPE : rc;
}

aclError am_remote_sent(int rc)
{
    AM_REQUIRE(rc != -EPIPE, ACL_ERROR_RT_IPC_ERROR, "%s", am_remote_lost);
    AM_REQUIRE(rc == 0, ACL_ERROR_RT_RESOURCE_ALLOC_FAIL,
               "the fabric process cannot be asked: %s", strerror(-rc));
    return ACL_SUCCESS;
}

uint32_t am_remote_id_locked(void)
{
    do
        am_remote.n_ids += AM_PORT_SLOTS;
    while (am_remote.n_ids == 0); /* no slot has a move yet: its number is 0 */
    return am_remote.n_ids;
}

static void call_end_locked(struct am_remote_call *call) AM_REQUIRES(am_remote.lock)
{
    LIST_REMOVE(call, next);
    am_remote.n_calls--;
    call->is_done = true;
    pthread_cond_broadcast(&am_remote.changed);
}

static void slot_fail_locked(unsigned slot, aclError error, const char *why)
    AM_REQUIRES(am_remote.lock)
{
    struct am_remote_slot *s = &am_remote.session->slots[slot];

    snprintf(s->why, sizeof s->why, "%s", why);
    s->error = error;
    am_remote_ring(am_remote.session, slot / AM_PORT_CHANNEL_SLOTS);
}

void am_remote_take_reply(const struct am_port_message *reply)
{
    unsigned slot = reply->id % AM_PORT_SLOTS;
    struct am_remote_call *call;

    am_lock(&am_remote.lock);
    LIST_FOREACH (call, &am_remote.calls, next) {
        if (call->id == reply->id)
            break;
    }
    if (call != NULL) {
        call->reply = *reply;
        call->reply.text[sizeof call->reply.text - 1] = '\0';
        call->generation = am_remote.generation;
        call_end_locked(call);
    } else if (am_remote.session->slots[slot].is_moving &&
               am_remote.session->slots[slot].id == reply->id &&
               reply->status != ACL_SUCCESS) {
        slot_fail_locked(slot, reply->status, reply->text);
    }
    am_unlock(&am_remote.lock);
}

void am_remote_fail_all(void)
{
    struct am_remote_call *call;

    am_lock(&am_remote.lock);
    while ((call = LIST_FIRST(&am_remote.calls)) != NULL) {
        call->is_lost = true;
        call_end_locked(call);
    }
    for (unsigned i = 0; i < AM_PORT_SLOTS; i++) {
        if (am_remote.session->slots[i].is_moving)
            slot_fail_locked(i, ACL_ERROR_RT_IPC_ERROR, am_remote_lost);
    }
    am_unlock(&am_remote.lock);
}

/* Sends the request to a process that is up, and waits for its reply or its end. */
static aclError call_locked(struct am_port_message *message, int fd,
                            struct am_remote_call *call) AM_REQUIRES(am_remote.lock)
{
    int rc;

    while (am_remote.state == AM_REMOTE_RESTARTING ||
           (am_remote.state == AM_REMOTE_UP && am_remote.n_calls >= AM_REMOTE_CALLS))
        pthread_cond_wait(&am_remote.changed, &am_remote.lock.mutex);
    AM_REQUIRE(am_remote.state == AM_REMOTE_UP, ACL_ERROR_RT_IPC_ERROR, "%s",
               am_remote_lost);
    *call = (struct am_remote_call){.id = am_remote_id_locked()};
    message->id = call->id;
    LIST_INSERT_HEAD(&am_remote.calls, call, next);
    am_remote.n_calls++;
    rc = am_remote_post_locked(message, fd);
    if (rc != 0 && rc != -EPIPE) {
        call_end_locked(call);
        return am_remote_sent(rc);
    }
    while (!call->is_done) /* -EPIPE: the thread notices the end of the process */
        pthread_cond_wait(&am_remote.changed, &am_remote.lock.mutex);
    return ACL_SUCCESS;
}

/*
 * Sends a request and waits for the reply, which replaces it.  If the process ended with
 * the request, the next process is asked, once.
 */
static aclError ask_locked(struct am_port_message *message, int fd,
                           uint64_t *ret_generation) AM_REQUIRES(am_remote.lock)
{
    struct am_remote_call call;
    unsigned depth = am_epoch_suspend(); /* the network may take long */
    aclError rc = call_locked(message, fd, &call);

    if (rc == ACL_SUCCESS && call.is_lost)
        rc = call_locked(message, fd, &call);
    am_epoch_resume(depth);
    if (rc != ACL_SUCCESS)
        return rc;
    AM_REQUIRE(!call.is_lost, ACL_ERROR_RT_IPC_ERROR, "%s", am_remote_lost);
    AM_REQUIRE(call.reply.status == 0, call.reply.status, "%s", call.reply.text);
    *message = call.reply;
    *ret_generation = call.generation;
    return ACL_SUCCESS;
}

/* ---- exports ---- */

/*
 * Makes an export or its list known to the fabric process, and records the message for the
 * next process.  If the next process was started before that, it is asked as well.
 */
static aclError export_send(const struct am_port_message *message, uint64_t number,
                            int fd)
{
    struct am_remote_export *export = am_sys_calloc(1, sizeof *export);
    struct am_port_message copy;
    uint64_t generation;
    aclError rc;

    AM_REQUIRE(export != NULL, ACL_ERROR_BAD_ALLOC, "no host memory for an export");
    export->number = number;
    export->fd = fd;
    export->message = *message;
    am_lock(&am_remote.lock);
    do {
        copy = *message;
        rc = ask_locked(&copy, fd, &generation);
    } while (rc == ACL_SUCCESS && (am_remote.state == AM_REMOTE_RESTARTING ||
                                   am_remote.generation != generation));
    if (rc == ACL_SUCCESS) {
        export->order = ++am_remote.n_exports;
        RB_INSERT(am_remote_exports, &am_remote.exports, export);
    }
    am_unlock(&am_remote.lock);
    if (rc != ACL_SUCCESS)
        free(export);
    return rc;
}

aclError am_remote_export(int directory, const struct am_share_handle *ticket,
                          bool is_open, int fd, size_t size, const void *bytes,
                          size_t n_bytes)
{
    struct am_port_message message = {.kind = AM_PORT_EXPORT};

    AM_TRY(am_remote_start(directory, NULL));
    am_assert(n_bytes <= AM_PORT_DESC);
    message.export_.ticket = *ticket;
    message.export_.size = size;
    message.export_.is_open = is_open;
    message.export_.n_bytes = (uint32_t)n_bytes;
    memcpy(message.export_.bytes, bytes, n_bytes);
    return export_send(&message, ticket->number, fd);
}

aclError am_remote_trust(const struct am_share_handle *ticket, const int32_t *ids,
                         size_t n)
{
    for (size_t i = 0; i < n; i += AM_PORT_PIDS) {
        struct am_port_message message = {.kind = AM_PORT_TRUST};
        size_t n_now = n - i < AM_PORT_PIDS ? n - i : AM_PORT_PIDS;

        message.trust.ticket = *ticket;
        message.trust.n = (uint32_t)n_now;
        memcpy(message.trust.pids, ids + i, n_now * sizeof *ids);
        AM_TRY(export_send(&message, ticket->number, -1));
    }
    return ACL_SUCCESS;
}

void am_remote_withdraw(uint64_t number)
{
    struct am_port_message message = {.kind = AM_PORT_WITHDRAW};
    struct am_remote_export key = {.number = number};
    struct am_remote_export *export;
    bool is_known = false;

    message.trust.ticket.number = number;
    am_lock(&am_remote.lock);
    while ((export = RB_NFIND(am_remote_exports, &am_remote.exports, &key)) != NULL &&
           export->number == number) {
        RB_REMOVE(am_remote_exports, &am_remote.exports, export);
        free(export);
        is_known = true;
    }
    if (is_known && (am_remote.state == AM_REMOTE_UP || am_remote.is_replaying))
        (void)am_remote_post_locked(&message, -1);
    am_unlock(&am_remote.lock);
}

/* ---- imports ---- */

aclError am_remote_import(int directory, const struct am_port_place *place,
                          const struct am_share_handle *ticket, struct am_mem *ret_mem,
                          struct am_port_imported *ret_reply)
{
    static struct am_bank bank = {.ops = &am_backend_remote};
    struct am_port_message message = {.kind = AM_PORT_IMPORT};
    uint64_t generation;

    AM_TRY(am_remote_start(directory, NULL));
    message.import.place = *place;
    message.import.ticket = *ticket;
    AM_TRY(AM_LOCKED(&am_remote.lock, ask_locked(&message, -1, &generation)));
    *ret_reply = message.imported;
    *ret_mem = (struct am_mem){.bank = &bank, .size = ret_reply->size};
    ret_mem->impl[AM_REMOTE_NUMBER] = ret_reply->number;
    ret_mem->impl[AM_REMOTE_GENERATION] = generation;
    return ACL_SUCCESS;
}

void am_remote_mem_destroy(struct am_mem *mem)
{
    struct am_port_message message = {.kind = AM_PORT_RELEASE};

    message.move.number = mem->impl[AM_REMOTE_NUMBER];
    am_lock(&am_remote.lock);
    if (am_remote.state == AM_REMOTE_UP &&
        am_remote.generation == mem->impl[AM_REMOTE_GENERATION])
        (void)am_remote_post_locked(&message, -1);
    am_unlock(&am_remote.lock);
}
