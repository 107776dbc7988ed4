/*
 * Whatever is sent to an exporter, good peers are served; whatever an exporter sends, an
 * importer gets an error and no more.
 */
#include "actor.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "support/process.h"

#define OPEN ACL_RT_VMM_EXPORT_FLAG_DISABLE_PID_VALIDATION
#define MAGIC 0x736d6361u
#define VERSION 2
#define FLOOD 400 /* more connections than an exporter keeps */
#define MOST_FLOODS 20000

/* The format of the wire, written down a second time. */
struct request {
    uint32_t magic;
    uint16_t version, kind;
    uint64_t number, secret[2];
};
struct reply {
    uint32_t magic;
    uint16_t version, status;
    uint32_t kind, size;
    uint8_t bytes[112];
};
struct export_desc {
    uint64_t size, asked;
    uint32_t handle_type, allocation_type, attr, location_type;
    int32_t location_id;
    char backend[12];
    uint64_t ledger, share;
};

static struct actor other;
static uint64_t number; /* that `other` exports */

static int end_other(void **state)
{
    if (other.pid != 0)
        actor_kill(&other);
    return finish(state);
}

#define pair(f_) \
    { \
#f_, f_, start_default, end_other, NULL \
    }

/* ---- towards the exporter ---- */

static void start_exporter(void)
{
    actor_start(&other, ACTOR_PLAIN);
    done(&other, DO_INIT, 0, 0, 0);
    number = done(&other, DO_EXPORT, done(&other, DO_ALLOC, CHUNK, 0, 0), OPEN, 0);
}

/* The one socket in the runtime directory. */
static struct sockaddr_un socket_address(void)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    const char *path = getenv("ACLMEM_RUNTIME_DIR");
    DIR *list = opendir(path);
    struct dirent *entry;

    assert_non_null(list);
    while ((entry = readdir(list)) != NULL) {
        if (strncmp(entry->d_name, "share-", 6) == 0)
            assert_true((size_t)snprintf(addr.sun_path, sizeof addr.sun_path, "%s/%.12s",
                                         path, entry->d_name) < sizeof addr.sun_path);
    }
    closedir(list);
    assert_true(addr.sun_path[0] != '\0');
    return addr;
}

static int connect_raw(void)
{
    struct sockaddr_un addr = socket_address();
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&addr, sizeof addr), 0);
    return fd;
}

/* The status of the reply, or -1 when the connection was closed without one. */
static int status_of_reply(int fd, uint16_t *ret_version)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    struct reply reply;
    ssize_t n;

    assert_int_equal(poll(&p, 1, 60000), 1);
    n = recv(fd, &reply, sizeof reply, 0);
    if (n <= 0)
        return -1;
    assert_int_equal(n, sizeof reply);
    assert_int_equal(reply.magic, MAGIC);
    if (ret_version != NULL)
        *ret_version = reply.version;
    return reply.status;
}

static void expect_good_import(void)
{
    aclrtDrvMemHandle handle;

    assert_acl_ok(aclrtMemImportFromShareableHandle(number, 0, &handle));
    assert_acl_ok(aclrtFreePhysical(handle));
}

static struct request good_request(void)
{
    return (struct request){MAGIC, VERSION, 1, number, {0}};
}

static void messages_that_make_no_sense_end_the_connection(void **state)
{
    struct request bad[4];
    char large[4096] = {0};

    start_exporter();
    for (int i = 0; i < 4; i++)
        bad[i] = good_request();
    bad[0].magic ^= 1;
    bad[1].kind = 0;
    bad[2].kind = 77;
    bad[3].version = VERSION + 1;
    for (int i = 0; i < 4; i++) {
        int fd = connect_raw();
        uint16_t version = 0;

        assert_int_equal(send(fd, &bad[i], sizeof bad[i], 0), sizeof bad[i]);
        assert_true(status_of_reply(fd, &version) > 0);
        assert_int_equal(version, VERSION); /* by which others can tell */
        assert_int_equal(status_of_reply(fd, NULL), -1);
        close(fd);
        expect_good_import();
    }
    for (size_t n = 1; n <= sizeof large; n *= 2) {
        int fd = connect_raw();

        if (n == sizeof(struct request))
            n++;
        memcpy(large, &bad[0], sizeof bad[0]);
        assert_int_equal(send(fd, large, n, 0), n);
        assert_true(status_of_reply(fd, NULL) != 0);
        close(fd);
        expect_good_import();
    }
}

static void descriptors_that_are_sent_along_are_not_kept(void **state)
{
    struct request request = good_request();
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(16 * sizeof(int))];
    } control = {0};
    struct iovec part = {&request, sizeof request};
    struct msghdr message = {
        .msg_iov = &part,
        .msg_iovlen = 1,
        .msg_control = &control,
        .msg_controllen = sizeof control.bytes,
    };
    uint64_t before;
    int fd;

    start_exporter();
    request.number = number;
    fd = connect_raw();
    /* Answered once, the connection is there with all that it takes. */
    assert_int_equal(send(fd, &request, sizeof request, 0), sizeof request);
    assert_int_equal(status_of_reply(fd, NULL), 0);
    before = done(&other, DO_DESCRIPTORS, 0, 0, 0);
    control.header.cmsg_level = SOL_SOCKET;
    control.header.cmsg_type = SCM_RIGHTS;
    control.header.cmsg_len = CMSG_LEN(16 * sizeof(int));
    for (int i = 0; i < 16; i++)
        memcpy(CMSG_DATA(&control.header) + i * (int)sizeof(int), &fd, sizeof fd);
    for (int i = 0; i < 20; i++) {
        assert_int_equal(sendmsg(fd, &message, 0), sizeof request);
        assert_int_equal(status_of_reply(fd, NULL), 0); /* a good request all the same */
    }
    assert_int_equal(done(&other, DO_DESCRIPTORS, 0, 0, 0), before);
    close(fd);
}

/* Descriptors on their way are the exporter's, and it may have only so many. */
static void who_asks_again_without_reading_is_not_answered(void **state)
{
    struct request request;
    struct pollfd end = {.events = POLLRDHUP};

    start_exporter();
    request = good_request();
    end.fd = connect_raw();
    for (int i = 0; i < 2; i++)
        assert_int_equal(send(end.fd, &request, sizeof request, 0), sizeof request);
    assert_int_equal(poll(&end, 1, 30000), 1);
    assert_int_equal(status_of_reply(end.fd, NULL), 0);
    assert_int_equal(status_of_reply(end.fd, NULL), -1);
    close(end.fd);
    expect_good_import();
}

static void silent_connections_do_not_keep_others_out(void **state)
{
    int fds[FLOOD];

    start_exporter();
    expect_good_import(); /* by a connection that is kept */
    for (int i = 0; i < FLOOD; i++) {
        fds[i] = connect_raw();
        if (i % 50 == 0)
            expect_good_import();
    }
    expect_good_import();
    for (int i = 0; i < FLOOD; i++)
        close(fds[i]);
    expect_good_import();
}

static void askers_do_not_keep_others_out(void **state)
{
    int fds[FLOOD];
    struct request request;

    start_exporter();
    expect_good_import();
    request = good_request();
    request.number ^= 1; /* sensible, and not there */
    for (int i = 0; i < FLOOD; i++) {
        fds[i] = connect_raw();
        assert_int_equal(send(fds[i], &request, sizeof request, 0), sizeof request);
        assert_int_equal(status_of_reply(fds[i], NULL), 1);
        if (i % 50 == 0)
            expect_good_import();
    }
    expect_good_import(); /* by a new one, where the old one had to go */
    for (int i = 0; i < FLOOD; i++)
        close(fds[i]);
}

/* Sends as fast as it can and never reads, until it is told to stop or has done enough. */
static const char *flood(struct worker *w)
{
    atomic_bool *must_stop = w->shared;
    struct sockaddr_un addr = socket_address();
    struct request request = {MAGIC, VERSION, 1, 1, {0}};

    for (unsigned n = 0; n < MOST_FLOODS && !*must_stop; n++) {
        int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

        if (connect(fd, (struct sockaddr *)&addr, sizeof addr) == 0) {
            for (int i = 0; i < 1000 && !*must_stop; i++)
                if (send(fd, &request, sizeof request, MSG_NOSIGNAL) < 0)
                    break;
        }
        close(fd);
    }
    return NULL;
}

static void floods_do_not_keep_others_out(void **state)
{
    atomic_bool must_stop = false;
    struct worker w[3] = {
        {.run = flood, .shared = &must_stop},
        {.run = flood, .shared = &must_stop},
        {.run = flood, .shared = &must_stop},
    };

    start_exporter();
    for (int i = 0; i < 3; i++)
        assert_int_equal(worker_start(&w[i]), 0);
    for (int i = 0; i < 50; i++)
        expect_good_import();
    must_stop = true;
    for (int i = 0; i < 3; i++)
        assert_null(worker_join(&w[i]));
    expect_good_import();
}

static void an_exporter_without_descriptors_says_so_and_recovers(void **state)
{
    uint64_t handle, more;
    struct answer answer;

    start_exporter();
    handle = done(&other, DO_ALLOC, CHUNK, 0, 0);
    answer = order(&other, DO_DESCRIPTORS, 0, 0, 0);
    /* As many as are open, counting from 1024, and none below. */
    done(&other, DO_SET_LIMIT, 4, 2048, 0);
    assert_true(answer.value[0] > 4);
    done(&other, DO_SET_LIMIT, 4, 4, 0);
    expect(order(&other, DO_EXPORT, handle, OPEN, 0), ACL_ERROR_RT_RESOURCE_ALLOC_FAIL,
           "ulimit -n is 4");
    done(&other, DO_FREE, handle, 0, 0);
    more = done(&other, DO_ALLOC, CHUNK, 0, 0); /* needs none */
    done(&other, DO_FREE, more, 0, 0);
}

static void an_exporter_raises_its_soft_limit(void **state)
{
    enum { N = 40 };
    uint64_t handles[N];

    start_exporter();
    done(&other, DO_SET_LIMIT, 32, 4096, 0);
    for (int i = 0; i < N; i++) {
        handles[i] = done(&other, DO_ALLOC, CHUNK, 0, 0);
        number = done(&other, DO_EXPORT, handles[i], OPEN, 0);
    }
    expect_good_import();
    for (int i = 0; i < N; i++)
        done(&other, DO_FREE, handles[i], 0, 0);
}

/* ---- towards the importer ---- */

/* An exporter of the test's own, in the place of one that is gone. */
struct impostor {
    struct reply reply;
    size_t size;
    int fds[2];
    int n_fds;
    bool is_silent;
};

/* What the test has chosen, and what is in force. */
static struct impostor impostor, in_force;
static pthread_mutex_t in_force_lock = PTHREAD_MUTEX_INITIALIZER;
static int listener;
static struct worker impostor_worker;

/* Answers one request as is in force now. */
static void impostor_answer(int fd)
{
    struct impostor im;
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(2 * sizeof(int))];
    } control = {0};
    struct iovec part = {&im.reply, 0};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    size_t n_bytes;
    char byte;

    pthread_mutex_lock(&in_force_lock);
    im = in_force;
    pthread_mutex_unlock(&in_force_lock);
    part.iov_len = im.size;
    n_bytes = (size_t)im.n_fds * sizeof(int);
    if (im.n_fds > 0) {
        message.msg_control = &control;
        message.msg_controllen = CMSG_SPACE(n_bytes);
        control.header.cmsg_level = SOL_SOCKET;
        control.header.cmsg_type = SCM_RIGHTS;
        control.header.cmsg_len = CMSG_LEN(n_bytes);
        memcpy(CMSG_DATA(&control.header), im.fds, n_bytes);
    }
    if (im.is_silent)
        recv(fd, &byte, 1, 0); /* until the importer gives up */
    else if (im.size > 0)
        sendmsg(fd, &message, MSG_NOSIGNAL);
}

static const char *impostor_run(struct worker *w)
{
    struct request request;
    int fd;

    while ((fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC)) >= 0) {
        if (recv(fd, &request, sizeof request, 0) == (ssize_t)sizeof request)
            impostor_answer(fd);
        close(fd);
    }
    return NULL;
}

/* Takes the name of an exporter that is killed. */
static void impostor_start(void)
{
    struct sockaddr_un addr;
    struct export_desc desc = {
        .size = CHUNK, .asked = CHUNK, .attr = ACL_HBM_MEM_HUGE, .location_type = 1};

    start_exporter();
    addr = socket_address();
    actor_kill(&other);
    assert_int_equal(unlink(addr.sun_path), 0);
    memset(&impostor, 0, sizeof impostor);
    listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&addr, sizeof addr), 0);
    assert_int_equal(listen(listener, 16), 0);
    strcpy(desc.backend, "host");
    impostor.reply = (struct reply){MAGIC, VERSION, 0, 1, sizeof desc, {0}};
    memcpy(impostor.reply.bytes, &desc, sizeof desc);
    impostor.size = sizeof impostor.reply;
    impostor_worker = (struct worker){.run = impostor_run};
    assert_int_equal(worker_start(&impostor_worker), 0);
}

static void impostor_end(void)
{
    struct sockaddr_un addr = socket_address();

    shutdown(listener, SHUT_RDWR);
    assert_null(worker_join(&impostor_worker));
    close(listener);
    unlink(addr.sun_path);
}

static int memory_file(size_t size, unsigned flags, int seals)
{
    int fd = memfd_create("impostor", MFD_CLOEXEC | MFD_ALLOW_SEALING | flags);

    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, (off_t)size), 0);
    if (seals != 0)
        assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
    return fd;
}

static void impostor_show(void)
{
    pthread_mutex_lock(&in_force_lock);
    in_force = impostor;
    pthread_mutex_unlock(&in_force_lock);
}

static void expect_refused_import(aclError code, const char *words)
{
    aclrtDrvMemHandle handle = NULL;

    impostor_show();
    assert_refused(aclrtMemImportFromShareableHandle(number, 0, &handle), code, words);
    assert_null(handle);
}

static void give(int fd)
{
    if (impostor.n_fds > 0)
        close(impostor.fds[0]);
    impostor.fds[0] = fd;
    impostor.n_fds = fd >= 0;
}

static void an_impostor_can_serve_what_is_really_memory(void **state)
{
    aclrtDrvMemHandle handle;

    impostor_start();
    give(memory_file(CHUNK, 0, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL));
    impostor_show();
    assert_acl_ok(aclrtMemImportFromShareableHandle(number, 0, &handle));
    assert_acl_ok(aclrtFreePhysical(handle));
    impostor_end();
    give(-1);
}

static void descriptors_that_are_no_memory_are_refused(void **state)
{
    int pipes[2];

    impostor_start();
    expect_refused_import(ACL_ERROR_RT_IPC_ERROR, "no descriptor");
    give(memory_file(CHUNK, 0, 0)); /* could shrink under us */
    expect_refused_import(ACL_ERROR_RT_IPC_ERROR, "sealed");
    give(memory_file(CHUNK - 4096, 0, F_SEAL_SHRINK));
    expect_refused_import(ACL_ERROR_RT_IPC_ERROR, "bytes of memory instead of");
    give(memory_file(2 * CHUNK, 0, F_SEAL_SHRINK));
    expect_refused_import(ACL_ERROR_RT_IPC_ERROR, "bytes of memory instead of");
    give(open("/dev/zero", O_RDWR | O_CLOEXEC));
    expect_refused_import(ACL_ERROR_RT_IPC_ERROR, "sealed");
    give(open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
    expect_refused_import(ACL_ERROR_RT_IPC_ERROR, "sealed");
    assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
    give(pipes[0]);
    expect_refused_import(ACL_ERROR_RT_IPC_ERROR, "sealed");
    close(pipes[1]);
    give(memory_file(CHUNK, 0, F_SEAL_SHRINK | F_SEAL_WRITE)); /* cannot be mapped */
    expect_refused_import(ACL_ERROR_RT_INTERNAL_ERROR, "imported memory");
    impostor_end();
    give(-1);
}

static void huge_pages_that_may_be_missing_are_refused(void **state)
{
    int fd = memfd_create("huge", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_HUGETLB);

    if (fd < 0 || ftruncate(fd, CHUNK) != 0 ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK) != 0) {
        print_message("skipped: no memory file of huge pages: %s\n", strerror(errno));
        if (fd >= 0)
            close(fd);
        skip();
    }
    impostor_start();
    give(fd);
    expect_refused_import(ACL_ERROR_RT_IPC_ERROR, "not lie in shared memory");
    impostor_end();
    give(-1);
}

static void replies_that_make_no_sense_are_refused(void **state)
{
    struct reply good;
    struct export_desc *desc = (struct export_desc *)impostor.reply.bytes;

    impostor_start();
    give(memory_file(CHUNK, 0, F_SEAL_SHRINK));
    good = impostor.reply;

    impostor.size = 16;
    expect_refused_import(ACL_ERROR_RT_IPC_ERROR, "invalid reply");
    impostor.size = 0; /* closed without a word */
    expect_refused_import(ACL_ERROR_RT_IPC_ERROR, "closes connections");
    impostor.size = sizeof impostor.reply;
    impostor.reply.magic++;
    expect_refused_import(ACL_ERROR_RT_IPC_ERROR, "invalid reply");
    impostor.reply = good;
    impostor.reply.version = 9;
    expect_refused_import(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "version 9");
    impostor.reply = good;
    impostor.reply.status = 99;
    expect_refused_import(ACL_ERROR_RT_IPC_ERROR, "answer 99");
    impostor.reply = good;
    impostor.reply.kind = 2;
    expect_refused_import(ACL_ERROR_RT_IPC_ERROR, "invalid answer");
    impostor.reply = good;
    impostor.reply.size = 113;
    expect_refused_import(ACL_ERROR_RT_IPC_ERROR, "invalid answer");
    impostor.reply = good;
    impostor.reply.size = 4;
    expect_refused_import(ACL_ERROR_RT_IPC_ERROR, "of 4 bytes");
    impostor.reply = good;
    strcpy(desc->backend, "abacus");
    expect_refused_import(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "abacus backend");
    impostor.reply = good;
    memcpy(desc->backend, "\33[2J\7\n\x9b\xff\xc3\xa9!", 12); /* no zero at its end */
    expect_refused_import(ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                          "the ?[2J????\xc3\xa9! backend");
    impostor.reply = good;
    desc->size = 0;
    expect_refused_import(ACL_ERROR_RT_IPC_ERROR, "impossible memory");
    desc->size = UINT64_MAX;
    expect_refused_import(ACL_ERROR_RT_IPC_ERROR, "impossible memory");
    desc->size = CHUNK + 1;
    expect_refused_import(ACL_ERROR_RT_IPC_ERROR, "impossible memory");
    impostor.reply = good;
    desc->asked = CHUNK + 1;
    expect_refused_import(ACL_ERROR_RT_IPC_ERROR, "impossible memory");
    impostor.reply = good;
    desc->attr = 12345;
    expect_refused_import(ACL_ERROR_RT_IPC_ERROR, "impossible memory");
    impostor.reply = good;
    desc->location_type = 77;
    expect_refused_import(ACL_ERROR_RT_IPC_ERROR, "impossible memory");
    impostor.reply = good;
    impostor.fds[1] = impostor.fds[0]; /* one too many, which is not kept */
    impostor.n_fds = 2;
    expect_refused_import(ACL_ERROR_RT_IPC_ERROR, "invalid reply");
    impostor_end();
    impostor.n_fds = 1;
    give(-1);
}

static void an_exporter_that_says_nothing_is_given_up(void **state)
{
    impostor_start();
    impostor.is_silent = true;
    expect_refused_import(ACL_ERROR_RT_IPC_ERROR, "did not answer");
    impostor_end();
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        pair(messages_that_make_no_sense_end_the_connection),
        pair(descriptors_that_are_sent_along_are_not_kept),
        pair(who_asks_again_without_reading_is_not_answered),
        pair(silent_connections_do_not_keep_others_out),
        pair(askers_do_not_keep_others_out),
        pair(floods_do_not_keep_others_out),
        pair(an_exporter_without_descriptors_says_so_and_recovers),
        pair(an_exporter_raises_its_soft_limit),
        pair(an_impostor_can_serve_what_is_really_memory),
        pair(descriptors_that_are_no_memory_are_refused),
        pair(huge_pages_that_may_be_missing_are_refused),
        pair(replies_that_make_no_sense_are_refused),
        pair(an_exporter_that_says_nothing_is_given_up),
    };

    actor_main(argc, argv);
    return run_claims(tests);
}
