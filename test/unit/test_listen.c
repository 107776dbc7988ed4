/*
 * UCX's listening sockets drop every connection from the moment they listen: connections
 * that exist before the fabric process has given up its rights would keep no filter.
 */
#include "unit.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fabric/listen.h"
#include "fabric/ucx.h"

/* Loopback delivers in connect() itself, so there is nothing to wait for. */
static bool is_reachable(int listener)
{
    struct sockaddr_in address = {0};
    socklen_t size = sizeof address;
    struct pollfd p = {.events = POLLOUT};
    bool is_connected;

    assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &size), 0);
    p.fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    assert_true(p.fd >= 0);
    is_connected = connect(p.fd, (struct sockaddr *)&address, sizeof address) == 0 ||
                   (errno == EINPROGRESS && poll(&p, 1, 0) == 1);
    close(p.fd);
    return is_connected;
}

static int socket_make(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    return fd;
}

static void a_socket_that_listens_drops_connections(void **state)
{
    int none = 0;
    int fd = socket_make();

    assert_int_equal(listen(fd, 8), 0);
    if (am_listen.error != 0) {
        print_message("skipped: the kernel takes no filter for a socket\n");
        skip();
    }
    assert_int_equal(am_listen.fds[am_listen.n - 1], fd);
    assert_false(is_reachable(fd));
    /* Without the filter the same test reaches it. */
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_DETACH_FILTER, &none, sizeof none), 0);
    assert_true(is_reachable(fd));
    close(fd);
}

/* UCX's calls of listen() are resolved to the one of this program. */
static void the_sockets_of_ucx_drop_connections(void **state)
{
    struct am_ucx ucx = {0};
    char why[AM_UCX_WHY];
    int before = am_listen.n;

    if (am_listen.error != 0)
        skip();
    if (am_ucx_open(&ucx, "lo", why) != 0 || am_ucx_open_out(&ucx, why) != 0)
        fail_msg("%s", why);
    assert_int_equal(am_listen.n, before + 2);
    for (int i = before; i < am_listen.n; i++)
        assert_false(is_reachable(am_listen.fds[i]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_socket_that_listens_drops_connections),
        cmocka_unit_test(the_sockets_of_ucx_drop_connections),
    };
    int n_failed = cmocka_run_group_tests(tests, NULL, NULL);

    _exit(n_failed != 0); /* as fabric processes end: without UCX's destructors */
}
