/* See remote.h: the fabric process begins, begins again, and ends. */
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "acl/error_codes/rt_error_codes.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/options.h"
#include "base/sys.h"
#include "base/thread.h"
#include "base/util.h"
#include "core/remote/remote_book.h"
#include "core/remote/remote_state.h"

#define LOOK_MS 500   /* how often the thread looks at the clock */
#define LEAVE_MS 5000 /* for copies that end by a failure, when the library stops */
/* A process that ends within a minute counts; after so many in a row it stays down. */
#define RESTARTS_MAX 8
#define LIFE_NS (60 * AM_SECOND)
#define ALL_SLOTS ((UINT64_C(1) << AM_PORT_SLOTS) - 1)
#define ALL_BELLS ((UINT64_C(1) << AM_PORT_BELLS) - 1)

/* ---- it begins again ---- */

/*
 * The first messages of a process: the options, the file that aclmem info reads, and the
 * key, whose answer replaces the message.  `place` is that of the process before, and ask()
 * the caller's way to ask.
 */
static aclError begin_tell(struct am_port_message *message, int key,
                           const struct am_port_place *place,
                           aclError (*ask)(struct am_port_message *message, int fd))
{
    int book;
    int rc;

    *message = am_port_begin(place);
    am_lock(&am_remote.lock);
    rc = am_port_send(am_remote.process.socket, message, am_remote.process.area_fd);
    am_unlock(&am_remote.lock);
    AM_TRY(am_remote_sent(rc));
    book = am_remote_book_make();
    if (book >= 0) {
        struct am_port_message about = {.kind = AM_PORT_BOOK};

        am_lock(&am_remote.lock);
        am_port_send(am_remote.process.socket, &about, book);
        am_unlock(&am_remote.lock);
        close(book);
    }
    *message = (struct am_port_message){.kind = AM_PORT_KEY};
    return ask(message, key);
}

/* The answer to the only request that is under way, which replaces it. */
static aclError answer_take(struct am_port_message *message)
{
    uint64_t n_looks = am_remote.limit / (LOOK_MS * AM_MILLISECOND);
    int rc;

    do
        rc = am_port_receive(am_remote.process.socket, message, LOOK_MS);
    while (rc == -EAGAIN && n_looks-- > 0);
    AM_REQUIRE(rc == 0, ACL_ERROR_RT_IPC_ERROR,
               "the fabric process (aclmem-fabric) ended as it began: %s", strerror(-rc));
    AM_REQUIRE(message->status == 0, message->status, "%.*s",
               (int)sizeof message->text - 1, message->text);
    return ACL_SUCCESS;
}

/* By the thread that takes all answers, while no other request is taken. */
static aclError again_ask(struct am_port_message *message, int fd)
{
    int rc;

    am_lock(&am_remote.lock);
    rc = am_port_send(am_remote.process.socket, message, fd);
    am_unlock(&am_remote.lock);
    AM_TRY(am_remote_sent(rc));
    return answer_take(message);
}

/* The processes that an export lists; it may be withdrawn at any time. */
static aclError again_trust(uint64_t number)
{
    struct am_port_message message;
    struct am_offer *offer;
    size_t at = 0;
    size_t n;

    do {
        int rc = 0;

        message = (struct am_port_message){.kind = AM_PORT_TRUST};
        n = 0;
        am_lock(&am_remote.lock);
        offer = am_offer_find(&am_remote.exports, number);
        if (offer != NULL && offer->n_pids > at) {
            n = offer->n_pids - at < AM_PORT_PIDS ? offer->n_pids - at : AM_PORT_PIDS;
            message.trust.ticket = offer->export.ticket;
            message.trust.n = (uint32_t)n;
            memcpy(message.trust.pids, offer->pids + at, n * sizeof *offer->pids);
            rc = am_port_send(am_remote.process.socket, &message, -1);
        }
        am_unlock(&am_remote.lock);
        AM_TRY(am_remote_sent(rc));
        if (n > 0)
            AM_TRY(answer_take(&message));
        at += n;
    } while (n > 0);
    return ACL_SUCCESS;
}

/* Its exports, with the numbers and secrets that they have; importers wait until then. */
static aclError again_export(void)
{
    struct am_port_message ready = {.kind = AM_PORT_READY};
    uint64_t number = 0;
    bool is_over = false;

    while (!is_over) {
        struct am_port_message message;
        struct am_offer *offer;
        int rc = 0;

        am_lock(&am_remote.lock);
        offer = am_offer_after(&am_remote.exports, number);
        is_over = offer == NULL;
        if (is_over) {
            rc = am_port_send(am_remote.process.socket, &ready, -1);
        } else {
            number = offer->export.ticket.number;
            message = am_offer_message(offer);
            rc = am_port_send(am_remote.process.socket, &message, offer->fd);
        }
        am_unlock(&am_remote.lock);
        AM_TRY(am_remote_sent(rc));
        if (!is_over) {
            AM_TRY(answer_take(&message));
            AM_TRY(again_trust(number));
        }
    }
    return ACL_SUCCESS;
}

/* Another process has the place, the memory of the slots, and a new socket. */
static aclError again_open(void)
{
    int socket;
    int old;

    AM_TRY(am_port_spawn(&socket));
    am_lock(&am_remote.lock);
    old = am_remote.process.socket;
    am_remote.process.socket = socket;
    am_remote.generation++;
    if (!am_remote.may_restart)
        shutdown(socket, SHUT_RDWR); /* am_remote_stop() has shut the old one */
    am_unlock(&am_remote.lock);
    close(old);
    return ACL_SUCCESS;
}

static aclError again_start(void)
{
    struct am_port_message message;
    int key;
    aclError rc;

    AM_TRY(am_port_key_open(&key));
    rc = again_open();
    if (rc == ACL_SUCCESS)
        rc = begin_tell(&message, key, &am_remote.place, again_ask);
    close(key);
    if (rc != ACL_SUCCESS)
        return rc;
    AM_REQUIRE(memcmp(&message.up.place, &am_remote.place, sizeof am_remote.place) == 0,
               ACL_ERROR_RT_IPC_ERROR,
               "its address or its port is not there any more; exported handles name "
               "them");
    /* An export that is withdrawn from now on may be known there already. */
    am_lock(&am_remote.lock);
    am_remote.is_heard = true;
    am_unlock(&am_remote.lock);
    return again_export();
}

/* Whether the process that has ended is up again, for old handles and new requests. */
static bool again(void)
{
    char why[AM_PORT_TEXT] = "";
    struct am_capture before = am_error_capture(why, sizeof why);
    aclError rc = again_start();

    am_error_capture_end(before);
    am_lock(&am_remote.lock);
    am_remote.is_restarting = am_remote.is_heard = false;
    am_remote.is_gone = rc != ACL_SUCCESS;
    am_remote.begun = am_clock();
    if (rc != ACL_SUCCESS) {
        am_remote.may_restart = false;
        shutdown(am_remote.process.socket, SHUT_RDWR);
    }
    pthread_cond_broadcast(&am_remote.room);
    am_unlock(&am_remote.lock);
    if (rc == ACL_SUCCESS)
        am_log(AM_LOG_WARN, "the fabric process (aclmem-fabric) ended; it was started "
                            "again, with the same exports and without imports");
    else
        am_log(AM_LOG_WARN,
               "the fabric process (aclmem-fabric) ended and cannot be started again: %s",
               why);
    return rc == ACL_SUCCESS;
}

/* ---- the thread ---- */

static bool is_asked(void)
{
    bool is_it;

    am_lock(&am_remote.lock);
    is_it = am_remote.n_requests > 0;
    am_unlock(&am_remote.lock);
    return is_it;
}

/* Takes answers until there are none: -errno. */
static int answers_take(void)
{
    struct am_patience patience = {am_remote.limit, am_clock()};
    struct am_port_message message;
    int rc;

    do {
        /* This thread alone replaces the socket. */
        rc = am_port_receive(am_remote.process.socket, &message, LOOK_MS);
        if (rc == 0)
            am_remote_take_reply(&message);
        if (rc == 0 || !is_asked())
            patience = (struct am_patience){am_remote.limit, am_clock()};
        else if (rc == -EAGAIN &&
                 !am_patience_look(&patience, am_clock(), LOOK_MS * AM_MILLISECOND))
            rc = -ETIMEDOUT;
    } while (rc == 0 || rc == -EAGAIN);
    return rc;
}

/*
 * The process has ended, or is given up.  It is started again if it has ended: one that
 * only stands still could still write to the slots.
 */
static bool ended(int error)
{
    bool is_over = error == -EPIPE || error == -ECONNRESET;

    am_lock(&am_remote.lock);
    if (am_clock() - am_remote.begun > LIFE_NS)
        am_remote.n_restarts = 0;
    am_remote.is_gone = true;
    am_remote.may_restart &= is_over && am_remote.n_restarts < RESTARTS_MAX;
    am_remote.is_restarting = am_remote.may_restart;
    am_remote.n_restarts++;
    is_over = am_remote.is_restarting;
    pthread_cond_broadcast(&am_remote.room);
    am_unlock(&am_remote.lock);
    am_remote_fail_all();
    return is_over;
}

/*
 * The thread stays until process_leave() waits for its end, also where no process is left.
 * A program that ends without aclFinalize would be told of a leaked thread by
 * ThreadSanitizer otherwise.
 */
static void *remote_run(void *arg)
{
    while (ended(answers_take()) && again())
        ;
    am_lock(&am_remote.lock);
    while (!am_remote.is_leaving)
        pthread_cond_wait(&am_remote.room, &am_remote.lock.mutex);
    am_unlock(&am_remote.lock);
    return NULL;
}

/* ---- start and stop ---- */

/* Makes the process known; its thread takes answers from now on. */
static aclError process_enter(const struct am_port_process *process)
{
    uint64_t timeout = (uint64_t)am_option_number(AM_OPTION_fabric_timeout) * AM_SECOND;
    int rc;

    am_lock(&am_remote.lock);
    am_remote.process = *process;
    am_remote.is_gone = am_remote.may_restart = am_remote.is_restarting = false;
    am_remote.is_leaving = false;
    am_remote.n_restarts = 0;
    am_remote.limit = 2 * timeout + 5 * AM_SECOND;
    am_remote.begun = am_clock();
    am_remote.free_slots = ALL_SLOTS;
    am_remote.free_bells = ALL_BELLS;
    rc = am_thread_start(&am_remote.thread, remote_run, NULL);
    if (rc == 0) {
        am_remote.is_up = true;
        am_remote.generation++;
    }
    am_unlock(&am_remote.lock);
    AM_REQUIRE(rc == 0, ACL_ERROR_RT_RESOURCE_ALLOC_FAIL,
               "no thread for the fabric can be started: %s", strerror(rc));
    return ACL_SUCCESS;
}

/* Waits until no copy has a slot or a bell, for a while. */
static bool quiet_wait_locked(void) AM_REQUIRES(am_remote.lock)
{
    struct timespec until;
    int rc = 0;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += LEAVE_MS / 1000;
    while ((am_remote.free_slots != ALL_SLOTS || am_remote.free_bells != ALL_BELLS) &&
           rc == 0)
        rc = pthread_cond_timedwait(&am_remote.room, &am_remote.lock.mutex, &until);
    return rc == 0;
}

/* Ends the process and the thread.  Requests that are under way fail. */
static void process_leave(void)
{
    bool was_up;
    bool is_quiet;

    am_lock(&am_remote.lock);
    was_up = am_remote.is_up;
    am_remote.may_restart = false;
    am_remote.is_leaving = true;
    pthread_cond_broadcast(&am_remote.room);
    if (was_up)
        shutdown(am_remote.process.socket, SHUT_RDWR);
    am_unlock(&am_remote.lock);
    if (!was_up)
        return;
    pthread_join(am_remote.thread, NULL);
    am_remote_book_remove();
    am_lock(&am_remote.lock);
    is_quiet = quiet_wait_locked();
    am_remote.is_up = false;
    am_offer_clear(&am_remote.exports);
    am_unlock(&am_remote.lock);
    if (is_quiet)
        am_port_close(&am_remote.process);
    else
        close(am_remote.process.socket); /* a copy that hangs still has a slot */
}

static aclError first_ask(struct am_port_message *message, int fd)
{
    uint64_t generation;

    return am_remote_ask(message, fd, &generation);
}

static aclError start_locked(void) AM_REQUIRES(am_remote.start)
{
    static const struct am_port_place none;
    struct am_port_message message;
    struct am_port_process process;
    int key;
    aclError rc;

    if (am_remote.is_up)
        return ACL_SUCCESS;
    AM_REQUIRE(am_remote.can_start, ACL_ERROR_UNINITIALIZE,
               "aclFinalize has been called");
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
    rc = begin_tell(&message, key, &none, first_ask);
    close(key);
    if (rc != ACL_SUCCESS) {
        process_leave();
        return rc;
    }
    am_lock(&am_remote.lock);
    am_remote.place = message.up.place;
    am_remote.may_restart = !am_remote.is_gone;
    am_unlock(&am_remote.lock);
    am_log(AM_LOG_INFO, "the fabric is up: %s, port %u", am_option_text(AM_OPTION_fabric),
           am_remote.place.port);
    am_log(message.up.is_open ? AM_LOG_WARN : AM_LOG_INFO, "the fabric: %.*s",
           (int)sizeof message.text - 1, message.text);
    return ACL_SUCCESS;
}

aclError am_remote_start(struct am_port_place *ret_place)
{
    aclError rc;

    am_lock(&am_remote.start);
    rc = start_locked();
    if (rc == ACL_SUCCESS && ret_place != NULL)
        *ret_place = am_remote.place;
    am_unlock(&am_remote.start);
    return rc;
}

void am_remote_allow(void)
{
    am_lock(&am_remote.start);
    am_remote.can_start = true;
    am_unlock(&am_remote.start);
}

void am_remote_stop(void)
{
    am_lock(&am_remote.start);
    am_remote.can_start = false;
    process_leave();
    am_unlock(&am_remote.start);
}

/* The socket of the parent stays open here, but its fabric process watches the parent. */
AM_NO_LOCK_ANALYSIS void am_remote_forget(void)
{
    am_remote.is_up = am_remote.is_restarting = false;
}
