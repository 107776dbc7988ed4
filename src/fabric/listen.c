/* See listen.h.  Linked into the program aclmem-fabric. */
#include "fabric/listen.h"

#include <errno.h>
#include <linux/filter.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

struct am_listen am_listen;

__attribute__((visibility("default"))) int listen(int fd, int backlog)
{
    struct sock_filter drop = BPF_STMT(BPF_RET | BPF_K, 0);
    struct sock_fprog program = {1, &drop};
    int rc;

    if (setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program) != 0)
        am_listen.error = errno;
    rc = (int)syscall(SYS_listen, fd, backlog);
    if (rc == 0 && am_listen.n < AM_LISTEN_MAX)
        am_listen.fds[am_listen.n++] = fd;
    return rc;
}
