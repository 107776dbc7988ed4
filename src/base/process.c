/* See process.h. */
#include "base/process.h"

#include <ctype.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/machine.h"
#include "base/sys.h"

#ifndef SO_PEERPIDFD /* Linux 6.5 */
#define SO_PEERPIDFD 77
#endif

#define LEVELS_MAX 32 /* namespaces that the kernel nests */

/* The numbers behind "name:" in a file of /proc, at most LEVELS_MAX: how many. */
static size_t proc_numbers(const char *path, const char *name, pid_t *numbers)
{
    char text[4096];
    size_t n = 0;
    char *at;

    if (!am_machine_read(path, text, sizeof text) || (at = strstr(text, name)) == NULL)
        return 0;
    at += strlen(name);
    for (at += strspn(at, " \t"); isdigit((unsigned char)*at) && n < LEVELS_MAX;
         at += strspn(at, " \t"))
        numbers[n++] = (pid_t)strtol(at, &at, 10);
    return n;
}

/* Its ids in the namespaces that it is in, the outermost one that /proc shows first. */
static size_t process_levels(const char *who, pid_t *levels)
{
    char path[48];

    snprintf(path, sizeof path, "/proc/%s/status", who);
    return proc_numbers(path, "\nNSpid:", levels);
}

pid_t am_process_own_id(void)
{
    pid_t levels[LEVELS_MAX];

    return process_levels("self", levels) > 0 ? levels[0] : getpid();
}

/* Whether the outermost id of an open process is this one. */
static bool process_has_outer_id(const struct am_process *process, pid_t outer_id)
{
    pid_t levels[LEVELS_MAX];
    char path[64];

    snprintf(path, sizeof path, "/proc/self/fdinfo/%d", process->pidfd);
    return proc_numbers(path, "\nPid:", levels) == 1 && levels[0] == outer_id;
}

int am_process_find(pid_t outer_id, struct am_process *ret_process)
{
    struct am_process process = {.pid = outer_id};
    pid_t levels[LEVELS_MAX];
    size_t own = process_levels("self", levels);
    char who[16];

    if (outer_id <= 0)
        return -ESRCH;
    if (own > 1) { /* /proc shows a namespace further out than ours */
        snprintf(who, sizeof who, "%d", (int)outer_id);
        if (process_levels(who, levels) < own)
            return -ESRCH;
        process.pid = levels[own - 1];
    }
    process.pidfd = am_sys_pidfd_open(process.pid, 0);
    if (process.pidfd < 0)
        return errno == EINVAL ? -ESRCH : -errno;
    /* A process that has ended has its id until its parent waits for it. */
    if (!am_process_is_alive(&process) ||
        (own > 1 && !process_has_outer_id(&process, outer_id))) {
        am_process_close(&process);
        return -ESRCH;
    }
    *ret_process = process;
    return 0;
}

int am_process_of_peer(int socket, struct am_process *ret_process, uid_t *ret_uid)
{
    struct ucred credentials;
    socklen_t size = sizeof credentials;

    if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0)
        return -errno;
    *ret_process = (struct am_process){.pid = credentials.pid, .pidfd = -1};
    *ret_uid = credentials.uid;
    if (credentials.pid == 0)
        return 0; /* of a namespace that ours does not show: not to be listed */
    size = sizeof ret_process->pidfd;
    if (getsockopt(socket, SOL_SOCKET, SO_PEERPIDFD, &ret_process->pidfd, &size) == 0)
        return 0;
    ret_process->pidfd = am_sys_pidfd_open(credentials.pid, 0);
    if (ret_process->pidfd < 0 && errno != ESRCH && errno != EINVAL)
        return -errno;
    return 0; /* also if it has already ended */
}

void am_process_close(struct am_process *process)
{
    if (process->pidfd >= 0)
        close(process->pidfd);
    process->pidfd = -1;
}

bool am_process_is_alive(const struct am_process *process)
{
    struct pollfd end = {.fd = process->pidfd, .events = POLLIN};

    return process->pidfd >= 0 && poll(&end, 1, 0) == 0;
}
