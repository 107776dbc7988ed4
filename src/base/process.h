/*
 * Processes, distinguished even if one has the id of another that has ended.
 *
 * A process is its id and a descriptor of it (pidfd).  Two that are alive at one moment
 * and have the same id are the same one, so nothing else has to be compared.
 *
 * An id means something only in its PID namespace.  Ids that programs hand around are
 * those of the outermost namespace that /proc shows; those of the kernel's answers are of
 * our own.
 */
#ifndef AM_BASE_PROCESS_H
#define AM_BASE_PROCESS_H

#include <stdbool.h>
#include <sys/types.h>

struct am_process {
    pid_t pid; /* in our namespace */
    int pidfd; /* -1: it has ended, or our namespace does not show it */
};

/* Our own id as the outermost namespace that /proc shows has it. */
pid_t am_process_own_id(void);

/* The process that lives and has this id there: 0, -ESRCH for none, or -errno. */
int am_process_find(pid_t outer_id, struct am_process *ret_process);

/*
 * The process at the other end of a connected socket, as the kernel reports it: 0 or
 * -errno.
 */
int am_process_of_peer(int socket, struct am_process *ret_process, uid_t *ret_uid);

void am_process_close(struct am_process *process);

bool am_process_is_alive(const struct am_process *process);

#endif
