/*
 * The runtime directory: where the processes of one user find each other.
 *
 * It is /dev/shm/aclmem-UID; /tmp/aclmem-UID where /dev/shm is missing or cannot be
 * written; or the directory that ACLMEM_RUNTIME_DIR names.  It is created with mode 0700
 * if it is missing.  A link, a directory of another user, or one that other users may
 * write to is refused, so every file that openat() finds in it was put there by this
 * user.
 */
#ifndef AM_CORE_RUNDIR_H
#define AM_CORE_RUNDIR_H

#include "acl/acl_base.h"

/*
 * The directory, for openat() and its relatives; opened by the first call and kept until
 * am_rundir_close(), so the caller must not close it.  The caller is the start of the
 * library, or a part that is stopped before am_rundir_close().  It is an O_PATH
 * descriptor: to list it, openat(fd, ".").  Fails with 207006 where it is not to be
 * trusted, with 207005 where it cannot be made or opened.
 */
aclError am_rundir_open(int *ret_fd);

/*
 * The same, but nothing is made: 0 or -errno, and 207006's reasons are -EPERM.  *ret_fd is
 * the caller's to close: for calls that may outlive the library's stop.
 */
int am_rundir_look(int *ret_fd);

/* Its path, for messages; valid until the process ends. */
const char *am_rundir_path(void);

/* Advice about a directory that cannot be trusted. */
const char *am_rundir_advice(void);

/* Advice when a system call in it fails with this errno. */
const char *am_rundir_errno_advice(int error);

/* At the stop of the library. */
void am_rundir_close(void);

#endif
