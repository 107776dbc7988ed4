/* The fabric process: start, restart, end, and the thread that receives its replies. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "acl/error_codes/rt_error_codes.h"
#include "backend/remote/internal.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/options.h"
#include "base/sys.h"
#include "base/lock.h"

#define SLICE_MS 500 /* a single wait for a message */
/* Limit of processes in a row that end within a minute; then the process stays down. */
#define RESTARTS_MAX 8
#define LIFE_NS (60 * AM_SECOND)

/* ---- one process begins; no other request is in progress ---- */

static aclError send_first(const struct am_port_message *message, int fd)
{
    return am_remote_sent(AM_LOCKED(&am_remote.lock, am_remote_post_locked(message, fd)));
}

/* The reply replaces the message. */
static aclError receive_first(struct am_port_message *message)
{
    uint64_t n_slices = am_remote.limit / (SLICE_MS * AM_MILLISECOND);
    int rc;

    do
        rc = am_port_receive(am_remote.socket, message, SLICE_MS);
    while (rc == -EAGAIN && n_slices-- > 0);
    AM_REQUIRE(rc == 0, ACL_ERROR_RT_IPC_ERROR,
               "the fabric process (aclmem-fabric) ended as it began: %s", strerror(-rc));
    AM_REQUIRE(message->status == 0, message->status, "%.*s",
               (int)sizeof message->text - 1, message->text);
    return ACL_SUCCESS;
}

/* Sends the options, the file for aclmem info and the key; the reply is in *ret_reply. */
static aclError process_begin(int key, struct am_port_message *ret_reply)
{
    struct am_port_message message = am_port_begin(&am_remote.place);
    int records;

    AM_TRY(send_first(&message, am_remote.session->area_fd));
    records = am_remote_records_make(am_remote.directory);
    if (records >= 0) {
        aclError rc;

        message = (struct am_port_message){.kind = AM_PORT_RECORDS};
        rc = send_first(&message, records);
        close(records);
        if (rc != ACL_SUCCESS)
            return rc;
    }
    *ret_reply = (struct am_port_message){.kind = AM_PORT_KEY};
    AM_TRY(send_first(ret_reply, key));
    return receive_first(ret_reply);
}

/* ---- restart, by the thread ---- */

/* Another process gets the area and a new socket. */
static aclError socket_replace(void)
{
    int socket;
    int old;

    AM_TRY(am_port_spawn(&socket));
    am_lock(&am_remote.lock);
    old = am_remote.socket;
    am_remote.socket = socket;
    am_remote.generation++;
    if (am_remote.is_stopping)
        shutdown(socket, SHUT_RDWR);
    am_unlock(&am_remote.lock);
    close(old);
    return ACL_SUCCESS;
}

/* The exports, with the same numbers and secrets; importers wait until AM_PORT_READY. */
static aclError exports_replay(void)
{
    struct am_port_message message = {.kind = AM_PORT_READY};
    struct am_remote_export key = {0};
    struct am_remote_export *export;

    do {
        int rc;

        am_lock(&am_remote.lock);
        am_remote.is_replaying = true;
        key.order++;
        export = RB_NFIND(am_remote_exports, &am_remote.exports, &key);
        if (export != NULL) {
            message = export->message;
            key.number = export->number;
            key.order = export->order;
        } else {
            message = (struct am_port_message){.kind = AM_PORT_READY};
        }
        rc = am_remote_post_locked(&message, export != NULL ? export->fd : -1);
        am_unlock(&am_remote.lock);
        AM_TRY(am_remote_sent(rc));
        if (export != NULL)
            AM_TRY(receive_first(&message));
    } while (export != NULL);
    return ACL_SUCCESS;
}

static aclError process_restart(void)
{
    struct am_port_message reply;
    int key;
    aclError rc;

    AM_TRY(am_port_key_open(&key));
    rc = socket_replace();
    if (rc == ACL_SUCCESS)
        rc = process_begin(key, &reply);
    close(key);
    if (rc != ACL_SUCCESS)
        return rc;
    AM_REQUIRE(memcmp(&reply.up.place, &am_remote.place, sizeof am_remote.place) == 0,
               ACL_ERROR_RT_IPC_ERROR,
               "its address or its port is not there any more; exported handles name "
               "them");
    return exports_replay();
}

/* True: the next process is up. */
static bool restart(void)
{
    char why[AM_PORT_TEXT] = "";
    aclError rc = AM_CAPTURED(why, sizeof why, process_restart());

    am_lock(&am_remote.lock);
    am_remote.is_replaying = false;
    am_remote.started = am_clock();
    am_remote.state = rc == ACL_SUCCESS ? AM_REMOTE_UP : AM_REMOTE_LOST;
    if (rc != ACL_SUCCESS)
        shutdown(am_remote.socket, SHUT_RDWR);
    pthread_cond_broadcast(&am_remote.changed);
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

/* Whether a request waits for the process. */
static bool has_requests(void)
{
    bool has_any;

    am_lock(&am_remote.lock);
    has_any = am_remote.n_calls > 0;
    for (unsigned i = 0; i < AM_PORT_SLOTS && !has_any; i++)
        has_any = am_remote.session->slots[i].is_moving;
    am_unlock(&am_remote.lock);
    return has_any;
}

/* Receives replies until the process ends or makes no progress: -errno. */
static int replies_receive(void)
{
    struct am_timeout timeout = {am_remote.limit, am_clock()};
    unsigned n_moved = 0;
    struct am_port_message message;
    int rc;

    do {
        rc = am_port_receive(am_remote.socket, &message, SLICE_MS);
        if (rc == 0)
            am_remote_take_reply(&message);
        if (rc == 0 || n_moved != am_remote.n_moved || !has_requests()) {
            timeout = (struct am_timeout){am_remote.limit, am_clock()};
            n_moved = am_remote.n_moved;
        } else if (rc == -EAGAIN &&
                   !am_timeout_check(&timeout, am_clock(), SLICE_MS * AM_MILLISECOND)) {
            rc = -ETIMEDOUT;
        }
    } while (rc == 0 || rc == -EAGAIN);
    return rc;
}

/*
 * The process has ended, or is given up.  True: it is restarted.  A process that does not
 * answer is not restarted: it could still write to the slots.
 */
static bool process_ended(int error)
{
    bool is_restarted;

    am_lock(&am_remote.lock);
    if (am_clock() - am_remote.started > LIFE_NS)
        am_remote.n_restarts = 0;
    is_restarted = (error == -EPIPE || error == -ECONNRESET) && !am_remote.is_given_up &&
                   !am_remote.is_stopping && am_remote.n_restarts++ < RESTARTS_MAX;
    am_remote.state = is_restarted ? AM_REMOTE_RESTARTING : AM_REMOTE_LOST;
    pthread_cond_broadcast(&am_remote.changed);
    am_unlock(&am_remote.lock);
    am_remote_fail_all();
    return is_restarted;
}

/*
 * The thread exists until it is joined, also if no process is left: ThreadSanitizer reports
 * a thread that ended and was not joined by a program without aclFinalize.
 */
static void *thread_run(void *arg)
{
    while (process_ended(replies_receive()) && restart())
        ;
    am_lock(&am_remote.lock);
    while (!am_remote.is_stopping)
        pthread_cond_wait(&am_remote.changed, &am_remote.lock.mutex);
    am_unlock(&am_remote.lock);
    return NULL;
}

/* ---- start and stop ---- */

/* The process has begun; its thread receives replies from now on. */
static aclError thread_start(const struct am_port_place *place)
{
    int rc;

    am_lock(&am_remote.lock);
    am_remote.place = *place;
    am_remote.n_restarts = 0;
    am_remote.started = am_clock();
    rc = am_thread_start(&am_remote.thread, thread_run, NULL);
    if (rc == 0)
        am_remote.state = AM_REMOTE_UP;
    am_unlock(&am_remote.lock);
    AM_REQUIRE(rc == 0, ACL_ERROR_RT_RESOURCE_ALLOC_FAIL,
               "no thread for the fabric can be started: %s", strerror(rc));
    return ACL_SUCCESS;
}

static aclError process_start(int key, struct am_port_message *ret_reply)
{
    struct am_remote_session *session = am_sys_calloc(1, sizeof *session);
    aclError rc;

    AM_REQUIRE(session != NULL, ACL_ERROR_BAD_ALLOC, "no host memory for the fabric");
    rc = am_port_area_open(&session->area_fd, &session->area);
    if (rc != ACL_SUCCESS) {
        free(session);
        return rc;
    }
    session->free_channels = AM_REMOTE_ALL_CHANNELS;
    am_remote.session = session;
    rc = am_port_spawn(&am_remote.socket);
    if (rc != ACL_SUCCESS)
        goto err_session;
    rc = process_begin(key, ret_reply);
    if (rc == ACL_SUCCESS)
        rc = thread_start(&ret_reply->up.place);
    if (rc == ACL_SUCCESS)
        return rc;
    close(am_remote.socket);
    am_remote_records_remove(am_remote.directory);
err_session:
    am_remote_session_end(session);
    return rc;
}

static aclError start_locked(int directory) AM_REQUIRES(am_remote.start)
{
    uint64_t timeout = (uint64_t)am_option_number(AM_OPTION_fabric_timeout) * AM_SECOND;
    struct am_port_message reply;
    int key;
    aclError rc;

    if (AM_LOCKED(&am_remote.lock, am_remote.state) != AM_REMOTE_DOWN)
        return ACL_SUCCESS;
    AM_REQUIRE(am_remote.is_allowed, ACL_ERROR_UNINITIALIZE,
               "aclFinalize has been called");
    AM_TRY(am_port_key_open(&key));
    am_lock(&am_remote.lock);
    am_remote.is_stopping = am_remote.is_given_up = false;
    am_remote.generation++; /* imports of an earlier process are invalid */
    am_remote.directory = directory;
    am_remote.place = (struct am_port_place){0};
    am_remote.limit = 2 * timeout + 5 * AM_SECOND;
    am_unlock(&am_remote.lock);
    rc = process_start(key, &reply);
    close(key);
    if (rc != ACL_SUCCESS)
        return rc;
    am_log(AM_LOG_INFO, "the fabric is up: %s, port %u", am_option_text(AM_OPTION_fabric),
           reply.up.place.port);
    am_log(reply.up.is_exposed ? AM_LOG_WARN : AM_LOG_INFO, "the fabric: %.*s",
           (int)sizeof reply.text - 1, reply.text);
    return ACL_SUCCESS;
}

aclError am_remote_start(int directory, struct am_port_place *ret_place)
{
    aclError rc;

    am_lock(&am_remote.start);
    rc = start_locked(directory);
    if (rc == ACL_SUCCESS && ret_place != NULL)
        *ret_place = am_remote.place;
    am_unlock(&am_remote.start);
    return rc;
}

void am_remote_init(const struct am_backend_ops *local)
{
    char why[AM_PORT_TEXT];
    aclError rc;

    am_lock(&am_remote.start);
    am_remote.is_allowed = true;
    am_remote.local = local;
    am_unlock(&am_remote.start);
    rc = AM_CAPTURED(why, sizeof why, am_remote_check());
    if (rc != ACL_SUCCESS)
        am_log(AM_LOG_WARN, "memory cannot be shared with other machines: %s",
               am_error_text(why));
}

/* Ends the process and the thread.  Requests in progress fail. */
static void process_stop(void)
{
    struct am_remote_export *export;
    bool is_running;

    am_lock(&am_remote.lock);
    is_running = am_remote.state != AM_REMOTE_DOWN;
    am_remote.is_stopping = true;
    pthread_cond_broadcast(&am_remote.changed);
    if (is_running)
        shutdown(am_remote.socket, SHUT_RDWR);
    am_unlock(&am_remote.lock);
    if (!is_running)
        return;
    pthread_join(am_remote.thread, NULL);
    am_remote_records_remove(am_remote.directory);
    am_lock(&am_remote.lock);
    am_remote.state = AM_REMOTE_DOWN;
    while ((export = RB_MIN(am_remote_exports, &am_remote.exports)) != NULL) {
        RB_REMOVE(am_remote_exports, &am_remote.exports, export);
        free(export);
    }
    close(am_remote.socket);
    am_unlock(&am_remote.lock);
    am_remote_session_end(am_remote.session); /* or by the last copy */
}

void am_remote_stop(void)
{
    am_lock(&am_remote.start);
    am_remote.is_allowed = false;
    process_stop();
    am_unlock(&am_remote.start);
}

/* The socket of the parent stays open here, but its fabric process watches the parent. */
void am_remote_forget(void)
{
    am_remote.state = AM_REMOTE_DOWN;
    am_remote.is_allowed = false;
}
