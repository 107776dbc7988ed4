/* See rundir.h. */
#include "core/ledger/rundir.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "acl/error_codes/rt_error_codes.h"
#include "base/descriptor.h"
#include "base/error.h"
#include "base/lock.h"
#include "base/options.h"
#include "base/sys.h"

#define PATH_SIZE 256
#define OPEN_FLAGS (O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)

static struct {
    struct am_lock lock;
    int fd; /* lock; -1: not open */
    /* lock; where the directory may be, best first: changes only when the options do */
    char paths[2][PATH_SIZE];
    _Atomic(const char *) path; /* one of these */
} rundir = {
    .lock = AM_LOCK_INIT(AM_RANK_RUNDIR, "runtime directory"), .fd = -1, .path = ""};

/* A directory that the user named is the user's: /tmp must not be removed. */
const char *am_rundir_advice(void)
{
    return am_option_number(AM_OPTION_runtime_dir) == 0
               ? "remove it, or name another directory with ACLMEM_RUNTIME_DIR"
               : "name another directory with ACLMEM_RUNTIME_DIR";
}

const char *am_rundir_errno_advice(int error)
{
    switch (error) {
    case ENOSPC:
    case EDQUOT:
        return "make room there, or name another directory with ACLMEM_RUNTIME_DIR";
    case EMFILE:
        return "raise the limit of open files with ulimit -n or LimitNOFILE=";
    case EFBIG:
        return "raise the limit of file sizes with ulimit -f unlimited";
    default:
        return "name another directory with ACLMEM_RUNTIME_DIR";
    }
}

/* Fills rundir.paths; the second one is empty if the user named the directory. */
static void paths_set_locked(void) AM_REQUIRES(rundir.lock)
{
    const char *named = am_option_text(AM_OPTION_runtime_dir);
    char paths[2][PATH_SIZE] = {"", ""};

    if (named[0] == '\0') {
        snprintf(paths[0], PATH_SIZE, "/dev/shm/aclmem-%u", (unsigned)geteuid());
        snprintf(paths[1], PATH_SIZE, "/tmp/aclmem-%u", (unsigned)geteuid());
    } else {
        snprintf(paths[0], PATH_SIZE, "%s", named);
        /* With a slash at its end, a link would be followed. */
        for (size_t n = strlen(paths[0]); n > 1 && paths[0][n - 1] == '/'; n--)
            paths[0][n - 1] = '\0';
    }
    if (memcmp(rundir.paths, paths, sizeof paths) != 0)
        memcpy(rundir.paths, paths, sizeof paths);
}

/* Whether the parent is to blame, so that another place may do. */
static bool is_elsewhere(int error)
{
    return error == ENOENT || error == EACCES || error == EROFS || error == EPERM;
}

/* -ENOENT if the missing directory at path could be created, otherwise the reason. */
static int parent_check(const char *path)
{
    char parent[PATH_SIZE];
    int n = (int)(strrchr(path, '/') - path);

    snprintf(parent, sizeof parent, "%.*s", n > 0 ? n : 1, path);
    if (faccessat(AT_FDCWD, parent, W_OK | X_OK, AT_EACCESS) == 0)
        return -ENOENT;
    return errno == ENOENT ? -EACCES : -errno;
}

/* The directory at path, made if need be: a descriptor or -errno. */
static int path_open(const char *path, bool can_make)
{
    int error = 0;
    int fd;

    if (can_make && am_sys_mkdir(path, 0700) != 0 && errno != EEXIST)
        error = errno;
    do
        fd = am_sys_open(path, OPEN_FLAGS);
    while (fd < 0 && am_fd_make_room());
    if (fd >= 0)
        return fd;
    if (errno == ENOENT && !can_make)
        return parent_check(path);
    return errno == ENOENT && error != 0 ? -error : -errno;
}

/* The fault of the directory that was found, in words; NULL when it is ours. */
static const char *find_fault(const struct stat *st)
{
    static _Thread_local char text[64];

    if (st->st_uid != geteuid()) {
        snprintf(text, sizeof text, "belongs to user %u, not to %u", (unsigned)st->st_uid,
                 (unsigned)geteuid());
        return text;
    }
    if (st->st_mode & (S_IWGRP | S_IWOTH)) {
        snprintf(text, sizeof text, "has mode %04o, so other users may write to it",
                 (unsigned)st->st_mode & 07777);
        return text;
    }
    return NULL;
}

static aclError open_fail(int error, const char *path)
{
    char why[AM_SHORTAGE_SIZE];

    switch (error) {
    case ENOTDIR:
    case ELOOP:
        return am_fail(
            ACL_ERROR_RT_NO_PERMISSION,
            "the runtime directory %s is a symbolic link or not a directory; %s", path,
            am_rundir_advice());
    case EMFILE:
        return am_fail(ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, "the runtime directory %s: %s",
                       path, am_shortage(error, why));
    default:
        return am_fail(ACL_ERROR_RT_RESOURCE_ALLOC_FAIL,
                       "the runtime directory %s cannot be created or opened: %s; %s",
                       path, strerror(error), am_rundir_errno_advice(error));
    }
}

/*
 * Opens the first path that can be opened; *ret_path is that path, or the last one.  Without
 * can_make, -ENOENT is a path at which the directory could be created.
 */
static int paths_open_locked(bool can_make, const char **ret_path)
    AM_REQUIRES(rundir.lock)
{
    int fd;

    paths_set_locked();
    *ret_path = rundir.paths[0];
    fd = path_open(rundir.paths[0], can_make);
    if (fd < 0 && is_elsewhere(-fd) && (can_make || fd != -ENOENT) &&
        rundir.paths[1][0] != '\0') {
        *ret_path = rundir.paths[1];
        fd = path_open(rundir.paths[1], can_make);
    }
    return fd;
}

static aclError rundir_open_locked(void) AM_REQUIRES(rundir.lock)
{
    const char *path;
    int fd = paths_open_locked(true, &path);
    const char *fault;
    struct stat st;

    rundir.path = path;
    if (fd < 0)
        return open_fail(-fd, path);
    fault = fstat(fd, &st) == 0 ? find_fault(&st) : "cannot be examined";
    if (fault != NULL) {
        close(fd);
        return am_fail(ACL_ERROR_RT_NO_PERMISSION, "the runtime directory %s %s; %s",
                       path, fault, am_rundir_advice());
    }
    rundir.fd = am_fd_move_up(fd);
    return ACL_SUCCESS;
}

aclError am_rundir_open(int *ret_fd)
{
    aclError rc = ACL_SUCCESS;

    am_lock(&rundir.lock);
    if (rundir.fd < 0)
        rc = rundir_open_locked();
    if (rc == ACL_SUCCESS)
        *ret_fd = rundir.fd;
    am_unlock(&rundir.lock);
    return rc;
}

int am_rundir_look(int *ret_fd)
{
    const char *path;
    struct stat st;
    int fd;

    am_lock(&rundir.lock);
    fd = paths_open_locked(false, &path);
    if (rundir.fd < 0)
        rundir.path = path;
    am_unlock(&rundir.lock);
    if (fd < 0)
        return fd == -ENOTDIR || fd == -ELOOP ? -EPERM : fd;
    if (fstat(fd, &st) != 0 || find_fault(&st) != NULL) {
        close(fd);
        return -EPERM;
    }
    *ret_fd = fd;
    return 0;
}

const char *am_rundir_path(void)
{
    return rundir.path;
}

void am_rundir_close(void)
{
    am_lock(&rundir.lock);
    if (rundir.fd >= 0)
        close(rundir.fd);
    rundir.fd = -1;
    am_unlock(&rundir.lock);
}
