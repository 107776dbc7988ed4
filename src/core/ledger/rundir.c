/* See rundir.h. */
#include "core/ledger/rundir.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "acl/error_codes/rt_error_codes.h"
#include "base/descriptor.h"
#include "base/error.h"
#include "base/keep.h"
#include "base/options.h"
#include "base/sys.h"
#include "base/util.h"

#define PATH_SIZE 256
#define OPEN_FLAGS (O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)

static struct {
    struct am_lock lock;
    int fd;                     /* lock; -1: not open */
    _Atomic(const char *) path; /* from am_keep_text() */
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

/* Where it may be, best first. */
static size_t paths_list(char paths[2][PATH_SIZE])
{
    const char *named = am_option_text(AM_OPTION_runtime_dir);
    size_t n;

    if (named[0] == '\0') {
        snprintf(paths[0], PATH_SIZE, "/dev/shm/aclmem-%u", (unsigned)geteuid());
        snprintf(paths[1], PATH_SIZE, "/tmp/aclmem-%u", (unsigned)geteuid());
        return 2;
    }
    snprintf(paths[0], PATH_SIZE, "%s", named);
    /* With a slash at its end, a link would be followed. */
    for (n = strlen(paths[0]); n > 1 && paths[0][n - 1] == '/'; n--)
        paths[0][n - 1] = '\0';
    return 1;
}

/* Whether the parent is to blame, so that another place may do. */
static bool is_elsewhere(int error)
{
    return error == ENOENT || error == EACCES || error == EROFS || error == EPERM;
}

/* The directory at path, made if need be: a descriptor or -errno. */
static int path_open(const char *path, bool can_make)
{
    int error = 0;
    int fd;

    if (can_make && am_sys_mkdir(path, 0700) != 0 && errno != EEXIST)
        error = errno;
    fd = am_sys_open(path, OPEN_FLAGS);
    if (fd >= 0)
        return fd;
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

/* Opens the first path that can be; the index of it or of the last, in *ret_index. */
static int paths_open(char paths[2][PATH_SIZE], size_t n, bool can_make,
                      size_t *ret_index)
{
    int fd = -ENOENT;

    for (size_t i = 0; i < n; i++) {
        *ret_index = i;
        fd = path_open(paths[i], can_make);
        if (fd >= 0 || !is_elsewhere(-fd))
            return fd;
    }
    return fd;
}

/* Without memory for it, messages show the path before. */
static void path_set_locked(const char *path) AM_REQUIRES(rundir.lock)
{
    const char *kept = am_keep_text(path);

    if (kept != NULL)
        rundir.path = kept;
}

static aclError rundir_open_locked(void) AM_REQUIRES(rundir.lock)
{
    char paths[2][PATH_SIZE];
    size_t index;
    int fd = paths_open(paths, paths_list(paths), true, &index);
    const char *path = paths[index];
    const char *fault;
    struct stat st;

    path_set_locked(path);
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

/* A descriptor of the directory that is its caller's, or -errno. */
static int descriptor_copy_locked(void) AM_REQUIRES(rundir.lock)
{
    int fd;

    do
        fd = am_sys_fcntl(rundir.fd, F_DUPFD_CLOEXEC, 3);
    while (fd < 0 && am_fd_make_room());
    return fd >= 0 ? fd : -errno;
}

aclError am_rundir_share(int *ret_fd)
{
    bool is_open;
    int fd = -1;

    am_lock(&rundir.lock);
    is_open = rundir.fd >= 0;
    if (is_open)
        fd = descriptor_copy_locked();
    am_unlock(&rundir.lock);
    AM_REQUIRE(is_open, ACL_ERROR_UNINITIALIZE, "aclFinalize has been called");
    if (fd < 0)
        return open_fail(-fd, am_rundir_path());
    *ret_fd = fd;
    return ACL_SUCCESS;
}

int am_rundir_look(int *ret_fd)
{
    char paths[2][PATH_SIZE];
    size_t index;
    int fd = paths_open(paths, paths_list(paths), false, &index);
    struct stat st;

    am_lock(&rundir.lock);
    if (rundir.fd < 0)
        path_set_locked(paths[index]);
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
