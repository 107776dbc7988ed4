/* Limits of the process, which numbers our descriptors have, and locks on bytes. */
#ifndef AM_BASE_DESCRIPTOR_H
#define AM_BASE_DESCRIPTOR_H

#include <fcntl.h>
#include <stdbool.h>
#include <sys/resource.h>
#include <unistd.h>

/*
 * Raises the soft limit of descriptors (RLIMIT_NOFILE) or locked memory (RLIMIT_MEMLOCK) to
 * the hard one; false when it is there already.
 */
bool am_limit_raise(int resource);

/*
 * After a call that failed for want of a descriptor (EMFILE in errno): true when there may be
 * one now, and the call is to be made again.  Otherwise errno stays as it is.
 */
bool am_fd_make_room(void);
/* The words of an error number, and of a limit (EMFILE, EFBIG) how high it is and what to do. */
#define AM_SHORTAGE_SIZE 160
const char *am_shortage(int error, char text[AM_SHORTAGE_SIZE]);
/* False, and EFBIG in errno: a file so large would end the process with a signal. */
bool am_file_may_have(size_t size);

/*
 * The descriptor under another number, which is out of the program's way: above 1023,
 * which select() cannot use.  If the soft limit is no higher, as it usually is, a few
 * descriptors stay below, and only a program with many gets the limit raised, since
 * every process that it starts inherits the limit.  Never 0, 1 or 2: the program would
 * print into shared memory.
 */
int am_fd_move_up(int fd);

/* Seals of a file that other processes map: its end stays where it is, so no access faults. */
#define AM_SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)
/* A memory file of this size, sealed unless seals is 0, moved up: a descriptor or -errno. */
int am_memfd_make(const char *name, size_t size, int seals);

/* The argument of fcntl() about a lock on n bytes of a file; type is F_WRLCK or F_UNLCK. */
static inline struct flock am_byte_lock(short type, off_t at, off_t n)
{
    return (struct flock){
        .l_type = type, .l_whence = SEEK_SET, .l_start = at, .l_len = n};
}

#endif
