/* Names of sockets that are left behind, and of those who take them next. */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "core/exchange/sockname.h"

#define TYPE (SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC)

static const char *folder;
static int directory;
static char path[108];

static int begin(void **state)
{
    folder = folder_make();
    directory = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    return directory >= 0 ? 0 : -1;
}

static int end(void **state)
{
    close(directory);
    folder_remove(folder);
    return 0;
}

static struct sockaddr_un address(void)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};

    memcpy(addr.sun_path, path, sizeof path);
    return addr;
}

/* Another process: it listens at the path, if the name is free. */
static int listen_there(int backlog)
{
    struct sockaddr_un addr = address();
    int fd = socket(AF_UNIX, TYPE, 0);

    assert_true(fd >= 0);
    if (bind(fd, (struct sockaddr *)&addr, sizeof addr) != 0) {
        assert_int_equal(errno, EADDRINUSE);
        close(fd);
        return -1;
    }
    assert_int_equal(listen(fd, backlog), 0);
    return fd;
}

/* A name whose process is gone. */
static uint32_t name_left(void)
{
    uint32_t name;
    int fd = am_sockname_listen(directory, 1, &name);

    assert_true(fd >= 0);
    close(fd);
    snprintf(path, sizeof path, "%s/share-%06x", folder, name);
    return name;
}

/* What others do after the first connection that is tried, and after the second. */
static void (*after[2])(void);
static unsigned n_tried;

int __real_am_sys_connect(int fd, const struct sockaddr *addr, unsigned size);
int __wrap_am_sys_connect(int fd, const struct sockaddr *addr, unsigned size);

int __wrap_am_sys_connect(int fd, const struct sockaddr *addr, unsigned size)
{
    int rc = __real_am_sys_connect(fd, addr, size);
    int error = errno;

    if (n_tried < 2 && after[n_tried] != NULL)
        after[n_tried]();
    n_tried++;
    errno = error;
    return rc;
}

static int owner; /* who has the name */
static int other; /* who else got it; -1: nobody */

static void take_over(void)
{
    unlink(path);
    owner = listen_there(4);
    assert_true(owner >= 0);
}

/* The same, and so many want to connect that there is no room for one more. */
static void take_over_and_be_busy(void)
{
    struct sockaddr_un addr = address();
    int fd[8];
    size_t n = 0;

    unlink(path);
    owner = listen_there(0);
    assert_true(owner >= 0);
    do
        fd[n] = socket(AF_UNIX, TYPE, 0);
    while (connect(fd[n++], (struct sockaddr *)&addr, sizeof addr) == 0 && n < 8);
    assert_int_equal(errno, EAGAIN);
    while (n > 0)
        close(fd[--n]);
}

static void take_if_free(void)
{
    other = listen_there(4);
}

/* Somebody knocks where nobody was, and others come between. */
static void knock(void (*first)(void), void (*second)(void))
{
    uint32_t name = name_left();
    int fd;

    other = -1;
    after[0] = first;
    after[1] = second;
    n_tried = 0;
    fd = am_sockname_connect(directory, name);
    if (fd >= 0)
        close(fd);
    after[0] = after[1] = NULL;
}

static void assert_reached(int listener)
{
    struct sockaddr_un addr = address();
    int fd = socket(AF_UNIX, TYPE, 0);
    int peer;

    while ((peer = accept(listener, NULL, NULL)) >= 0)
        close(peer);
    assert_int_equal(connect(fd, (struct sockaddr *)&addr, sizeof addr), 0);
    peer = accept(listener, NULL, NULL);
    assert_true(peer >= 0);
    close(peer);
    close(fd);
    close(listener);
}

static void a_name_that_is_left_is_removed(void **state)
{
    knock(NULL, NULL);
    assert_int_equal(access(path, F_OK), -1);
}

static void who_takes_a_name_over_keeps_it(void **state)
{
    knock(take_over, NULL);
    assert_reached(owner);
}

static void who_takes_a_name_over_and_is_busy_keeps_it(void **state)
{
    knock(take_over_and_be_busy, NULL);
    assert_reached(owner);
}

/* It is not free while somebody looks whether it is left. */
static void a_name_is_not_given_to_two(void **state)
{
    knock(take_over, take_if_free);
    assert_int_equal(other, -1);
    assert_reached(owner);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define afresh(f_) cmocka_unit_test_setup_teardown(f_, begin, end)
        afresh(a_name_that_is_left_is_removed),
        afresh(who_takes_a_name_over_keeps_it),
        afresh(who_takes_a_name_over_and_is_busy_keeps_it),
        afresh(a_name_is_not_given_to_two),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
