/* See remote.h. */
#include "core/remote/remote.h"

#include <linux/futex.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "acl/error_codes/rt_error_codes.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fdpass.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/options.h"
#include "base/sys.h"
#include "base/thread.h"
#include "base/util.h"
#include "core/remote/remote_book.h"
#include "core/remote/remote_process.h"

/* As many as the sockets hold, so that neither side ever waits for the other. */
#define REQUESTS_MAX 96
#define PLACES 128    /* for requests; a power of two: numbers of requests wrap around */
#define LOOK_MS 500   /* how often the thread looks at the clock */
#define LEAVE_MS 5000 /* for copies that end by a failure, when the library stops */
#define ALL_SLOTS ((UINT64_C(1) << AM_PORT_SLOTS) - 1)
#define ALL_BELLS ((UINT64_C(1) << AM_PORT_BELLS) - 1)

struct request {
    /* Called without the lock, when the entry is free again.  NULL: the entry is free. */
    void (*reply)(void *arg, const struct am_port_message *reply);
    void *arg;
    uint32_t id;
    uint64_t begun;
};

static struct {
    struct am_lock start; /* one start at a time */
    bool can_start;       /* start; the library has not stopped */
    struct am_lock lock;
    bool is_up;          /* lock, as all below */
    bool is_gone;        /* it ended by itself */
    uint64_t generation; /* how often it was started */
    struct am_port_process process;
    struct am_port_place place;
    pthread_t thread;
    uint64_t limit; /* nanoseconds without an answer after which it is given up */
    uint64_t heard;
    struct request requests[PLACES]; /* at most REQUESTS_MAX are not free */
    uint32_t n_ever;
    unsigned n_requests;
    pthread_cond_t room; /* a request is over */
    uint64_t free_slots; /* a bit for each, as the next one */
    uint64_t free_bells;
    TAILQ_HEAD(, am_remote_waiter) waiters;
} remote = {
    .start = AM_LOCK_INIT(AM_RANK_FABRIC, "fabric's start"),
    .lock = AM_LOCK_INIT(AM_RANK_SHARE, "fabric"),
    .room = PTHREAD_COND_INITIALIZER,
    .waiters = TAILQ_HEAD_INITIALIZER(remote.waiters),
};

_Static_assert(AM_PORT_SLOTS < 64, "a bit for each");

static const char gone_text[] =
    "the fabric process of this program (aclmem-fabric) ended or does not answer; memory "
    "of other machines is out of reach until aclFinalize";

bool am_remote_is_wanted(void)
{
    return am_option_number(AM_OPTION_fabric) != 0;
}

/* ---- requests ---- */

static aclError send_locked(const struct am_port_message *message, int fd)
    AM_REQUIRES(remote.lock)
{
    int rc = remote.is_up && !remote.is_gone
                 ? am_port_send(remote.process.socket, message, fd)
                 : -EPIPE;

    AM_REQUIRE(rc != -EPIPE && rc != -ECONNRESET, ACL_ERROR_RT_IPC_ERROR, "%s",
               gone_text);
    AM_REQUIRE(rc == 0, ACL_ERROR_RT_RESOURCE_ALLOC_FAIL,
               "the fabric process cannot be asked: %s", strerror(-rc));
    return ACL_SUCCESS;
}

/* Sends a request whose answer goes to `reply`; id is set here. */
static aclError request_locked(struct am_port_message *message, int fd,
                               void (*reply)(void *, const struct am_port_message *),
                               void *arg) AM_REQUIRES(remote.lock)
{
    struct request *request = remote.requests;

    while (remote.n_requests == REQUESTS_MAX && !remote.is_gone)
        pthread_cond_wait(&remote.room, &remote.lock.mutex);
    AM_REQUIRE(remote.is_up && !remote.is_gone, ACL_ERROR_RT_IPC_ERROR, "%s", gone_text);
    while (request->reply != NULL)
        request++;
    /* The number has the place of its entry in it. */
    message->id = ++remote.n_ever * PLACES + (uint32_t)(request - remote.requests);
    AM_TRY(send_locked(message, fd));
    *request = (struct request){reply, arg, message->id, am_clock()};
    remote.n_requests++;
    return ACL_SUCCESS;
}

static void request_end_locked(struct request *request) AM_REQUIRES(remote.lock)
{
    request->reply = NULL;
    remote.n_requests--;
    pthread_cond_broadcast(&remote.room);
}

/*
 * Ends the request of this number, if am_remote_landed() has not: the thread that ends a
 * request is the only one that tells its caller.
 */
static bool request_take_locked(uint32_t id, struct request *ret_request)
    AM_REQUIRES(remote.lock)
{
    struct request *request = &remote.requests[id % PLACES];

    if (request->reply == NULL || request->id != id)
        return false;
    *ret_request = *request;
    request_end_locked(request);
    return true;
}

/* An answer that came, to its request. */
static void reply_take(const struct am_port_message *reply)
{
    struct request request;
    bool is_found;

    am_lock(&remote.lock);
    remote.heard = am_clock();
    is_found = request_take_locked(reply->id, &request);
    am_unlock(&remote.lock);
    if (is_found)
        request.reply(request.arg, reply);
}

/* The fabric process is gone: every request ends. */
static void all_fail(void)
{
    struct am_port_message reply = {
        .kind = AM_PORT_REPLY,
        .status = ACL_ERROR_RT_IPC_ERROR,
    };
    TAILQ_HEAD(, am_remote_waiter) waiters = TAILQ_HEAD_INITIALIZER(waiters);
    struct am_remote_waiter *waiter;

    snprintf(reply.text, sizeof reply.text, "%s", gone_text);
    am_lock(&remote.lock);
    remote.is_gone = true;
    TAILQ_CONCAT(&waiters, &remote.waiters, next);
    pthread_cond_broadcast(&remote.room);
    am_unlock(&remote.lock);
    for (size_t i = 0; i < PLACES; i++) { /* no request comes any more */
        am_lock(&remote.lock);
        reply.id = remote.requests[i].id;
        am_unlock(&remote.lock);
        reply_take(&reply);
    }
    while ((waiter = TAILQ_FIRST(&waiters)) != NULL) {
        TAILQ_REMOVE(&waiters, waiter, next);
        waiter->wake(waiter);
    }
}

/* Whether an answer is so late that none will come. */
static bool is_silent(void)
{
    uint64_t now = am_clock();
    bool is_late = false;

    am_lock(&remote.lock);
    for (size_t i = 0; i < PLACES; i++) {
        const struct request *request = &remote.requests[i];

        is_late |= request->reply != NULL && now - request->begun > remote.limit &&
                   now - remote.heard > remote.limit;
    }
    am_unlock(&remote.lock);
    return is_late;
}

static void *remote_run(void *arg)
{
    int socket = (int)(intptr_t)arg;
    struct am_port_message message;
    int rc;

    do {
        rc = am_port_receive(socket, &message, LOOK_MS);
        if (rc == 0)
            reply_take(&message);
        else if (rc == -EAGAIN && is_silent())
            rc = -ETIMEDOUT;
    } while (rc == 0 || rc == -EAGAIN);
    all_fail();
    return NULL;
}

/* A request that its caller waits for. */
struct call {
    pthread_cond_t cond;
    bool is_done;
    struct am_port_message *reply;
};

static void call_reply(void *arg, const struct am_port_message *reply)
{
    struct call *call = arg;

    am_lock(&remote.lock);
    *call->reply = *reply;
    call->is_done = true;
    pthread_cond_signal(&call->cond);
    am_unlock(&remote.lock);
}

/*
 * Sends a request and waits for the answer, which replaces it.  *ret_generation, unless it
 * is NULL, is that of the process that answered.
 */
static aclError ask(struct am_port_message *message, int fd, uint64_t *ret_generation)
{
    struct call call = {.cond = PTHREAD_COND_INITIALIZER, .reply = message};
    aclError rc;

    am_lock(&remote.lock);
    rc = request_locked(message, fd, call_reply, &call);
    if (ret_generation != NULL)
        *ret_generation = remote.generation;
    while (rc == ACL_SUCCESS && !call.is_done)
        pthread_cond_wait(&call.cond, &remote.lock.mutex);
    am_unlock(&remote.lock);
    pthread_cond_destroy(&call.cond);
    if (rc != ACL_SUCCESS)
        return rc;
    AM_REQUIRE(message->status == 0, message->status, "%.*s",
               (int)sizeof message->text - 1, message->text);
    return ACL_SUCCESS;
}

/* ---- start and stop ---- */

/* Makes the process known; its thread takes answers from now on. */
static aclError process_enter(const struct am_port_process *process)
{
    uint64_t timeout = (uint64_t)am_option_number(AM_OPTION_fabric_timeout) * AM_SECOND;
    int rc;

    am_lock(&remote.lock);
    remote.process = *process;
    remote.is_gone = false;
    remote.limit = 2 * timeout + 5 * AM_SECOND;
    remote.heard = am_clock();
    remote.free_slots = ALL_SLOTS;
    remote.free_bells = ALL_BELLS;
    rc = am_thread_start(&remote.thread, remote_run, (void *)(intptr_t)process->socket);
    if (rc == 0) {
        remote.is_up = true;
        remote.generation++;
    }
    am_unlock(&remote.lock);
    AM_REQUIRE(rc == 0, ACL_ERROR_RT_RESOURCE_ALLOC_FAIL,
               "no thread for the fabric can be started: %s", strerror(rc));
    return ACL_SUCCESS;
}

/* Waits until no copy has a slot or a bell, for a while. */
static bool quiet_wait_locked(void) AM_REQUIRES(remote.lock)
{
    struct timespec until;
    int rc = 0;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += LEAVE_MS / 1000;
    while ((remote.free_slots != ALL_SLOTS || remote.free_bells != ALL_BELLS) && rc == 0)
        rc = pthread_cond_timedwait(&remote.room, &remote.lock.mutex, &until);
    return rc == 0;
}

/* Ends the process and the thread.  Requests that are under way fail. */
static void process_leave(void)
{
    struct am_port_process process;
    bool was_up;
    bool is_quiet;

    am_lock(&remote.lock);
    was_up = remote.is_up;
    process = remote.process;
    am_unlock(&remote.lock);
    if (!was_up)
        return;
    shutdown(process.socket, SHUT_RDWR);
    pthread_join(remote.thread, NULL);
    am_remote_book_remove();
    am_lock(&remote.lock);
    is_quiet = quiet_wait_locked();
    remote.is_up = false;
    am_unlock(&remote.lock);
    if (is_quiet)
        am_port_close(&process);
    else
        close(process.socket); /* a copy that hangs still has a slot */
}

/* Gives it the file that aclmem info reads. */
static void book_pass(void)
{
    struct am_port_message message = {.kind = AM_PORT_BOOK};
    int fd = am_remote_book_make();

    if (fd < 0)
        return;
    am_lock(&remote.lock);
    am_port_send(remote.process.socket, &message, fd);
    am_unlock(&remote.lock);
    close(fd);
}

static aclError start_locked(void) AM_REQUIRES(remote.start)
{
    struct am_port_message message;
    struct am_port_process process;
    int key;
    aclError rc;

    if (remote.is_up)
        return ACL_SUCCESS;
    AM_REQUIRE(remote.can_start, ACL_ERROR_UNINITIALIZE, "aclFinalize has been called");
    AM_TRY(am_port_key_open(&key));
    rc = am_port_open(&process);
    if (rc != ACL_SUCCESS) {
        close(key);
        return rc;
    }
    rc = process_enter(&process);
    if (rc != ACL_SUCCESS) {
        close(key);
        am_port_close(&process);
        return rc;
    }
    message = am_port_begin();
    am_lock(&remote.lock);
    rc = send_locked(&message, process.area_fd);
    am_unlock(&remote.lock);
    if (rc == ACL_SUCCESS)
        book_pass();
    message = (struct am_port_message){.kind = AM_PORT_KEY};
    if (rc == ACL_SUCCESS)
        rc = ask(&message, key, NULL);
    close(key);
    if (rc != ACL_SUCCESS) {
        process_leave();
        return rc;
    }
    remote.place = message.up.place;
    am_log(AM_LOG_INFO, "the fabric is up: %s, port %u", am_option_text(AM_OPTION_fabric),
           remote.place.port);
    am_log(message.up.is_open ? AM_LOG_WARN : AM_LOG_INFO, "the fabric: %.*s",
           (int)sizeof message.text - 1, message.text);
    return ACL_SUCCESS;
}

/* *ret_place, unless it is NULL, is where exports are served. */
static aclError start(struct am_port_place *ret_place)
{
    aclError rc;

    am_lock(&remote.start);
    rc = start_locked();
    if (rc == ACL_SUCCESS && ret_place != NULL)
        *ret_place = remote.place;
    am_unlock(&remote.start);
    return rc;
}

void am_remote_allow(void)
{
    am_lock(&remote.start);
    remote.can_start = true;
    am_unlock(&remote.start);
}

void am_remote_stop(void)
{
    am_lock(&remote.start);
    remote.can_start = false;
    process_leave();
    am_unlock(&remote.start);
}

/* The socket of the parent stays open here, but its fabric process watches the parent. */
AM_NO_LOCK_ANALYSIS void am_remote_forget(void)
{
    remote.is_up = false;
}

aclError am_remote_place(struct am_port_place *ret_place)
{
    return start(ret_place);
}

/* ---- exports and imports ---- */

aclError am_remote_export(const struct am_port_ticket *ticket, bool is_open, int fd,
                          size_t size, const void *bytes, size_t n_bytes)
{
    struct am_port_message message = {.kind = AM_PORT_EXPORT};

    AM_TRY(start(NULL));
    am_assert(n_bytes <= AM_PORT_DESC);
    message.export_.ticket = *ticket;
    message.export_.size = size;
    message.export_.is_open = is_open;
    message.export_.n_bytes = (uint32_t)n_bytes;
    memcpy(message.export_.bytes, bytes, n_bytes);
    return ask(&message, fd, NULL);
}

aclError am_remote_trust(const struct am_port_ticket *ticket, const int32_t *ids,
                         size_t n)
{
    aclError rc = ACL_SUCCESS;

    for (size_t i = 0; i < n && rc == ACL_SUCCESS; i += AM_PORT_PIDS) {
        struct am_port_message message = {.kind = AM_PORT_TRUST};

        message.trust.ticket = *ticket;
        message.trust.n = (uint32_t)(n - i < AM_PORT_PIDS ? n - i : AM_PORT_PIDS);
        memcpy(message.trust.pids, ids + i, message.trust.n * sizeof *ids);
        rc = ask(&message, -1, NULL);
    }
    return rc;
}

/* Tells the fabric process; where that fails it is gone, and all is released. */
static void tell(const struct am_port_message *message, uint64_t generation)
{
    am_lock(&remote.lock);
    if (remote.is_up && !remote.is_gone &&
        (generation == 0 || generation == remote.generation))
        am_port_send(remote.process.socket, message, -1);
    am_unlock(&remote.lock);
}

void am_remote_withdraw(uint64_t number)
{
    struct am_port_message message = {.kind = AM_PORT_WITHDRAW};

    message.trust.ticket.number = number;
    tell(&message, 0);
}

/* ---- remote memory as a backend's ---- */

/* In mem->impl: */
enum { MEM_NUMBER, MEM_GENERATION };

static void remote_mem_destroy(struct am_mem *mem)
{
    struct am_port_message message = {.kind = AM_PORT_RELEASE};

    message.move.number = mem->impl[MEM_NUMBER];
    tell(&message, mem->impl[MEM_GENERATION]);
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

    AM_TRY(start(NULL));
    message.import.place = *place;
    message.import.ticket = *ticket;
    AM_TRY(ask(&message, -1, &generation));
    ret_import->mem =
        (struct am_mem){.bank = &remote_bank, .size = message.imported.size};
    ret_import->mem.impl[MEM_NUMBER] = message.imported.number;
    ret_import->mem.impl[MEM_GENERATION] = generation;
    ret_import->pid = message.imported.pid;
    ret_import->n_bytes = message.imported.n_bytes;
    memcpy(ret_import->bytes, message.imported.bytes, sizeof ret_import->bytes);
    return ACL_SUCCESS;
}

/* ---- moves ---- */

bool am_remote_slot_take(struct am_remote_waiter *waiter, unsigned *ret_slot)
{
    bool has_one;

    am_lock(&remote.lock);
    has_one = remote.free_slots != 0 || !remote.is_up || remote.is_gone;
    if (remote.free_slots != 0) {
        *ret_slot = (unsigned)__builtin_ctzll(remote.free_slots);
        remote.free_slots &= remote.free_slots - 1;
    } else if (has_one) {
        *ret_slot = AM_PORT_SLOTS; /* none, for a move that will fail */
    } else if (waiter != NULL) {
        TAILQ_INSERT_TAIL(&remote.waiters, waiter, next);
    }
    am_unlock(&remote.lock);
    return has_one;
}

void am_remote_slot_give(unsigned slot)
{
    struct am_remote_waiter *waiter;

    if (slot == AM_PORT_SLOTS)
        return;
    am_lock(&remote.lock);
    remote.free_slots |= UINT64_C(1) << slot;
    pthread_cond_broadcast(&remote.room);
    waiter = TAILQ_FIRST(&remote.waiters);
    if (waiter != NULL)
        TAILQ_REMOVE(&remote.waiters, waiter, next);
    am_unlock(&remote.lock);
    if (waiter != NULL)
        waiter->wake(waiter);
}

bool am_remote_unwait(struct am_remote_waiter *waiter)
{
    struct am_remote_waiter *other;

    am_lock(&remote.lock);
    TAILQ_FOREACH (other, &remote.waiters, next) {
        if (other == waiter) {
            TAILQ_REMOVE(&remote.waiters, waiter, next);
            break;
        }
    }
    am_unlock(&remote.lock);
    return other != NULL;
}

void *am_remote_slot(unsigned slot)
{
    return remote.process.area + slot * AM_PORT_SLOT_SIZE;
}

static struct am_port_bells *bells(void)
{
    return (struct am_port_bells *)(void *)(remote.process.area + AM_PORT_BELLS_AT);
}

unsigned am_remote_bell_take(void)
{
    unsigned bell = 0;

    am_lock(&remote.lock);
    if (remote.is_up && !remote.is_gone && remote.free_bells != 0) {
        bell = (unsigned)__builtin_ctzll(remote.free_bells) + 1;
        remote.free_bells &= remote.free_bells - 1;
    }
    am_unlock(&remote.lock);
    return bell;
}

void am_remote_bell_give(unsigned bell)
{
    if (bell == 0)
        return;
    am_lock(&remote.lock);
    remote.free_bells |= UINT64_C(1) << (bell - 1);
    pthread_cond_broadcast(&remote.room);
    am_unlock(&remote.lock);
}

uint32_t am_remote_bell_count(unsigned bell)
{
    return atomic_load(&bells()->bell[bell - 1]);
}

void am_remote_bell_ring(unsigned bell)
{
    _Atomic uint32_t *word = &bells()->bell[bell - 1];

    atomic_fetch_add(word, 1);
    syscall(SYS_futex, word, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

void am_remote_bell_wait(unsigned bell, uint32_t count, bool is_short)
{
    _Atomic uint32_t *word = &bells()->bell[bell - 1];
    uint64_t until = is_short ? am_clock() + AM_PORT_AWAKE : 0;

    while (is_short && atomic_load(word) == count && am_clock() < until)
        sched_yield();
    while (atomic_load(word) == count)
        syscall(SYS_futex, word, FUTEX_WAIT, count, NULL, NULL, 0);
}

bool am_remote_landed(struct am_remote_move *move)
{
    struct request request;
    bool is_first;

    if (move->bell == 0 || move->slot == AM_PORT_SLOTS ||
        atomic_load(&bells()->landed[move->slot]) == 0)
        return false;
    atomic_store(&bells()->landed[move->slot], 0);
    am_lock(&remote.lock);
    is_first = request_take_locked(move->id, &request);
    am_unlock(&remote.lock);
    return is_first; /* otherwise done() tells: the fabric process is gone */
}

static void move_reply(void *arg, const struct am_port_message *reply)
{
    struct am_remote_move *move = arg;

    move->done(move, reply->status, reply->text);
}

void am_remote_begin(struct am_remote_move *move)
{
    struct am_port_message message = {.kind = move->is_put ? AM_PORT_PUT : AM_PORT_GET};
    char why[AM_PORT_TEXT] = "";
    struct am_capture before;
    aclError rc;

    message.move.number = move->mem->impl[MEM_NUMBER];
    message.move.offset = move->offset;
    message.move.at = move->slot * AM_PORT_SLOT_SIZE;
    message.move.size = move->size;
    message.move.bell = move->bell;
    if (move->slot < AM_PORT_SLOTS)
        atomic_store(&bells()->landed[move->slot], 0);
    before = am_error_capture(why, sizeof why);
    am_lock(&remote.lock);
    if (move->mem->impl[MEM_GENERATION] != remote.generation ||
        move->slot == AM_PORT_SLOTS)
        rc = am_fail(ACL_ERROR_RT_IPC_ERROR, "%s", gone_text);
    else
        rc = request_locked(&message, -1, move_reply, move);
    move->id = message.id;
    am_unlock(&remote.lock);
    am_error_capture_end(before);
    if (rc != ACL_SUCCESS)
        move->done(move, rc, gone_text);
}
