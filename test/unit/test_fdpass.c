/* Messages with descriptors: what is not expected is closed, and nothing waits. */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fdpass.h"

static int pair[2];

static int begin(void **state)
{
    return socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair);
}

static int end(void **state)
{
    close(pair[0]);
    close(pair[1]);
    return 0;
}

static int next_descriptor(void)
{
    int fd = dup(0);

    close(fd);
    return fd;
}

static void a_message_comes_with_its_descriptor_or_without(void **state)
{
    char got[4] = "";
    int fd = -7;

    assert_int_equal(am_fdpass_send(pair[0], "abc", 4, -1), 0);
    assert_int_equal(am_fdpass_receive(pair[1], got, 4, &fd), 0);
    assert_string_equal(got, "abc");
    assert_int_equal(fd, -1);
    assert_int_equal(am_fdpass_send(pair[0], "def", 4, 0), 0);
    assert_int_equal(am_fdpass_receive(pair[1], got, 4, &fd), 0);
    assert_string_equal(got, "def");
    assert_true(fd > 0);
    assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
    close(fd);
}

static void nothing_is_waited_for(void **state)
{
    char got[4];
    int fd;
    int rc;

    assert_int_equal(am_fdpass_receive(pair[1], got, 4, &fd), -EAGAIN);
    assert_int_equal(am_fdpass_receive_plain(pair[1], got, 4), -EAGAIN);
    while ((rc = am_fdpass_send(pair[0], "abc", 4, -1)) == 0)
        ;
    assert_int_equal(rc, -EAGAIN);
}

static void an_end_is_reported(void **state)
{
    char got[4];
    int fd;

    close(pair[0]);
    assert_int_equal(am_fdpass_receive(pair[1], got, 4, &fd), -EPIPE);
    assert_int_equal(am_fdpass_receive_plain(pair[1], got, 4), -EPIPE);
    assert_int_equal(am_fdpass_send(pair[1], "abc", 4, -1), -EPIPE);
    pair[0] = dup(0);
}

static void
messages_of_another_size_are_refused_and_their_descriptors_closed(void **state)
{
    int next = next_descriptor();
    char got[4];
    int fd = -7;

    assert_int_equal(am_fdpass_send(pair[0], "a", 1, 0), 0);
    assert_int_equal(am_fdpass_receive(pair[1], got, 4, &fd), -EPROTO);
    assert_int_equal(am_fdpass_send(pair[0], "abcdefgh", 8, 0), 0);
    assert_int_equal(am_fdpass_receive(pair[1], got, 4, &fd), -EPROTO);
    assert_int_equal(fd, -7);
    assert_int_equal(next_descriptor(), next);
}

static void a_receiver_that_expects_no_descriptor_gets_none(void **state)
{
    int next = next_descriptor();
    char got[4];

    assert_int_equal(am_fdpass_send(pair[0], "abc", 4, 0), 0);
    assert_int_equal(am_fdpass_receive_plain(pair[1], got, 4), 0);
    assert_string_equal(got, "abc");
    assert_int_equal(next_descriptor(), next);
}

static void too_many_descriptors_are_refused_and_closed(void **state)
{
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(5 * sizeof(int))];
    } control = {0};
    struct iovec part = {"abc", 4};
    struct msghdr message = {
        .msg_iov = &part,
        .msg_iovlen = 1,
        .msg_control = &control,
        .msg_controllen = sizeof control.bytes,
    };
    int next = next_descriptor();
    char got[4];
    int fd = -7;

    for (size_t n = 2; n <= 5; n++) {
        message.msg_controllen = CMSG_SPACE(n * sizeof(int));
        control.header.cmsg_level = SOL_SOCKET;
        control.header.cmsg_type = SCM_RIGHTS;
        control.header.cmsg_len = CMSG_LEN(n * sizeof(int)); /* all of them stdin */
        assert_int_equal(sendmsg(pair[0], &message, 0), 4);
        assert_int_equal(am_fdpass_receive(pair[1], got, 4, &fd), -EPROTO);
        assert_int_equal(fd, -7);
        assert_int_equal(next_descriptor(), next);
    }
}

static void a_descriptor_without_room_is_reported(void **state)
{
    struct rlimit limit;
    struct rlimit tight;
    char got[4];
    int fd = -7;

    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    tight = limit;
    tight.rlim_cur = (rlim_t)next_descriptor();
    assert_int_equal(am_fdpass_send(pair[0], "abc", 4, 0), 0);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &tight), 0);
    assert_int_equal(am_fdpass_receive(pair[1], got, 4, &fd), -EMFILE);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    assert_int_equal(fd, -7);
}

#define claim(f_) cmocka_unit_test_setup_teardown(f_, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        claim(a_message_comes_with_its_descriptor_or_without),
        claim(nothing_is_waited_for),
        claim(an_end_is_reported),
        claim(messages_of_another_size_are_refused_and_their_descriptors_closed),
        claim(a_receiver_that_expects_no_descriptor_gets_none),
        claim(too_many_descriptors_are_refused_and_closed),
        claim(a_descriptor_without_room_is_reported),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
