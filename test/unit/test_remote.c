/* The remote backend with a fabric process that the test emulates: slots and doorbells. */
#include "unit.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "acl/error_codes/rt_error_codes.h"
#include "backend/remote/internal.h"
#include "base/error.h"

#define SIZE 100000

static int process; /* the other end of the socket */
static struct am_bank bank = {.ops = &am_backend_remote};
static struct am_mem mem = {.bank = &bank, .size = SIZE};
static uint8_t local[SIZE];
static uint8_t reserved[SIZE]; /* the addresses of the remote memory; never accessed */
static const struct am_span remote_span = {.addr = reserved, .size = SIZE, .mem = &mem};
static const struct am_span local_span = {.addr = local, .size = SIZE};

static struct am_remote_session *session_new(void)
{
    struct am_remote_session *session = calloc(1, sizeof *session);

    assert_non_null(session);
    session->area_fd = memfd_create("area", MFD_CLOEXEC);
    assert_int_equal(ftruncate(session->area_fd, AM_PORT_AREA_SIZE), 0);
    session->area = mmap(NULL, AM_PORT_AREA_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED,
                         session->area_fd, 0);
    assert_true(session->area != MAP_FAILED);
    session->free_channels = AM_REMOTE_ALL_CHANNELS;
    return session;
}

static int begin(void **state)
{
    int sockets[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets), 0);
    am_remote.socket = sockets[0];
    process = sockets[1];
    am_remote.local = am_backend_find("host");
    am_remote.session = session_new();
    am_remote.state = AM_REMOTE_UP;
    am_remote.generation++;
    am_remote.n_ids = 10 * AM_PORT_SLOTS; /* earlier requests */
    mem.impl[AM_REMOTE_GENERATION] = am_remote.generation;
    return 0;
}

static int end(void **state)
{
    am_remote_session_end(am_remote.session);
    am_remote.state = AM_REMOTE_DOWN;
    close(am_remote.socket);
    close(process);
    return 0;
}

/* A copy whose thread was stalled while the library was stopped and started again. */
static void a_copy_of_an_earlier_session_frees_no_channel_of_this_one(void **state)
{
    struct am_remote_session *old, *session;
    unsigned stalled, channel;

    assert_int_equal(am_remote_channel_acquire(&old, &stalled), ACL_SUCCESS);
    am_remote_session_end(old);
    am_remote.session = session_new();
    for (unsigned i = 0; i < AM_PORT_CHANNELS; i++) {
        assert_int_equal(am_remote_channel_acquire(&session, &channel), ACL_SUCCESS);
        assert_ptr_equal(session, am_remote.session);
    }
    am_remote_channel_release(old, stalled);
    assert_int_equal(am_remote.session->free_channels, 0);
    for (unsigned i = 0; i < AM_PORT_CHANNELS; i++)
        am_remote_channel_release(session, i);
    assert_int_equal(session->free_channels, AM_REMOTE_ALL_CHANNELS);
}

static void ring(uint32_t slot, uint32_t id)
{
    struct am_port_doorbells *doorbells =
        (void *)(am_remote.session->area + AM_PORT_DOORBELLS_AT);

    atomic_store(&doorbells->done[slot], id);
    am_remote_ring(am_remote.session, slot / AM_PORT_CHANNEL_SLOTS);
}

/* Reports the end of an earlier move first, which must not be taken for the end of this one. */
static void *serve_get(void *arg)
{
    struct am_port_message message;
    unsigned n = 0;

    for (size_t left = SIZE; left > 0; left -= message.move.size) {
        uint8_t *slot;

        if (recv(process, &message, sizeof message, 0) != (ssize_t)sizeof message)
            return "no request";
        if (message.kind != AM_PORT_GET ||
            message.id % AM_PORT_SLOTS != message.move.slot)
            return "not a get";
        slot = am_remote.session->area + message.move.slot * AM_PORT_SLOT_SIZE;
        memset(slot, 0xee, message.move.size);
        for (int i = 0; i < 1000; i++) {
            ring(message.move.slot, message.id - AM_PORT_SLOTS);
            sched_yield();
            if (!am_remote.session->slots[message.move.slot].is_moving)
                return "an earlier doorbell has ended the move";
        }
        memset(slot, (int)++n, message.move.size);
        ring(message.move.slot, message.id);
    }
    return NULL;
}

static void an_earlier_doorbell_does_not_end_a_move(void **state)
{
    pthread_t thread;
    void *failure;

    assert_int_equal(pthread_create(&thread, NULL, serve_get, NULL), 0);
    assert_int_equal(am_backend_remote.copy(&local_span, 0, &remote_span, 0, SIZE),
                     ACL_SUCCESS);
    pthread_join(thread, &failure);
    if (failure != NULL)
        fail_msg("%s", (const char *)failure);
    for (size_t i = 0; i < SIZE; i++)
        assert_int_not_equal(local[i], 0xee);
    assert_int_equal(local[0], 1);
    assert_int_equal(am_remote.session->free_channels, AM_REMOTE_ALL_CHANNELS);
}

/* A reply to an earlier request, and then the failure of this one. */
static void *serve_failure(void *arg)
{
    struct am_port_message message, reply = {.kind = AM_PORT_REPLY};

    if (recv(process, &message, sizeof message, 0) != (ssize_t)sizeof message)
        return "no request";
    reply.status = ACL_ERROR_RT_INTERNAL_ERROR;
    strcpy(reply.text, "an earlier request");
    reply.id = message.id - AM_PORT_SLOTS;
    am_remote_take_reply(&reply);
    reply.status = ACL_ERROR_RT_IPC_ERROR;
    strcpy(reply.text, "the peer has ended");
    reply.id = message.id;
    am_remote_take_reply(&reply);
    return NULL;
}

static void a_failure_ends_the_request_that_it_names(void **state)
{
    pthread_t thread;
    void *failure;

    (void)am_error_take_messages();
    assert_int_equal(pthread_create(&thread, NULL, serve_failure, NULL), 0);
    assert_int_equal(am_backend_remote.fill(&remote_span, 1000, 7, 1),
                     ACL_ERROR_RT_IPC_ERROR);
    pthread_join(thread, &failure);
    assert_null(failure);
    assert_contains(am_error_take_messages(), "the peer has ended");
}

/* Memory of an earlier fabric process: no request is sent. */
static void memory_of_an_earlier_process_is_lost(void **state)
{
    mem.impl[AM_REMOTE_GENERATION]--;
    (void)am_error_take_messages();
    assert_int_equal(am_backend_remote.copy(&remote_span, 0, &local_span, 0, SIZE),
                     ACL_ERROR_RT_IPC_ERROR);
    assert_contains(am_error_take_messages(), "import memory of other machines again");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define afresh(f_) cmocka_unit_test_setup_teardown(f_, begin, end)
        afresh(a_copy_of_an_earlier_session_frees_no_channel_of_this_one),
        afresh(an_earlier_doorbell_does_not_end_a_move),
        afresh(a_failure_ends_the_request_that_it_names),
        afresh(memory_of_an_earlier_process_is_lost),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
