/* See fdpass.h. */
#include "base/fdpass.h"

#include <string.h>
#include <sys/socket.h>

#include "base/sys.h"

/* Room for one descriptor, aligned as the kernel wants it. */
union control {
    struct cmsghdr header;
    char bytes[CMSG_SPACE(sizeof(int))];
};

int am_fdpass_send(int socket, const void *data, size_t size, int fd)
{
    union control control = {0};
    struct iovec part = {(void *)(uintptr_t)data, size};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    ssize_t n;

    if (fd >= 0) {
        message.msg_control = &control;
        message.msg_controllen = sizeof control.bytes;
        control.header.cmsg_level = SOL_SOCKET;
        control.header.cmsg_type = SCM_RIGHTS;
        control.header.cmsg_len = CMSG_LEN(sizeof fd);
        memcpy(CMSG_DATA(&control.header), &fd, sizeof fd);
    }
    do
        n = am_sys_sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return -errno;
    return (size_t)n == size ? 0 : -EPROTO;
}

/* Closes all descriptors of a message but the first one, which it returns, or -1. */
static int descriptors_take(struct msghdr *message, size_t *ret_n)
{
    int first = -1;

    *ret_n = 0;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c != NULL;
         c = CMSG_NXTHDR(message, c)) {
        size_t n =
            c->cmsg_len > CMSG_LEN(0) ? (c->cmsg_len - CMSG_LEN(0)) / sizeof(int) : 0;

        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        for (size_t i = 0; i < n; i++) {
            int fd;

            memcpy(&fd, CMSG_DATA(c) + i * sizeof fd, sizeof fd);
            if ((*ret_n)++ == 0)
                first = fd;
            else
                close(fd);
        }
    }
    return first;
}

static int receive(int socket, struct msghdr *message, size_t size)
{
    ssize_t n;

    do
        n = am_sys_recvmsg(socket, message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return errno == ECONNRESET ? -EPIPE : -errno;
    if (n == 0)
        return -EPIPE;
    return (size_t)n == size && (message->msg_flags & MSG_TRUNC) == 0 ? 0 : -EPROTO;
}

int am_fdpass_receive(int socket, void *data, size_t size, int *ret_fd)
{
    union control control;
    struct iovec part = {data, size};
    struct msghdr message = {
        .msg_iov = &part,
        .msg_iovlen = 1,
        .msg_control = &control,
        .msg_controllen = sizeof control.bytes,
    };
    int rc = receive(socket, &message, size);
    size_t n = 0;
    int fd;

    if (rc != 0 && rc != -EPROTO)
        return rc;
    fd = descriptors_take(&message, &n);
    if (rc == 0 && n > 1)
        rc = -EPROTO;
    if (rc == 0 && (message.msg_flags & MSG_CTRUNC))
        rc = n == 0 ? -EMFILE : -EPROTO;
    if (rc == 0)
        *ret_fd = fd;
    else if (fd >= 0)
        close(fd);
    return rc;
}

int am_fdpass_receive_plain(int socket, void *data, size_t size)
{
    struct iovec part = {data, size};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};

    return receive(socket, &message, size);
}
