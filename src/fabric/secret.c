/* See secret.h. */
#include "fabric/secret.h"

#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SECRET_MIN 32
#define SECRET_MAX 4096

static const char *file_fault(const struct stat *file)
{
    if (!S_ISREG(file->st_mode))
        return "is not a regular file";
    if (file->st_uid != geteuid())
        return "belongs to another user";
    if ((file->st_mode & 077) != 0)
        return "can be read or written by other users; use chmod 600";
    if (file->st_size < SECRET_MIN)
        return "is shorter than 32 bytes; make one with aclmem fabric keygen";
    if (file->st_size > SECRET_MAX)
        return "is longer than 4096 bytes";
    return NULL;
}

int am_secret_read(int fd, struct am_link_keys *ret_keys, char *why)
{
    uint8_t secret[SECRET_MAX];
    struct stat file;
    const char *fault = NULL;
    ssize_t n = -1;

    if (fstat(fd, &file) != 0)
        fault = strerror(errno);
    else
        fault = file_fault(&file);
    if (fault == NULL) {
        n = pread(fd, secret, sizeof secret, 0);
        if (n < 0)
            fault = strerror(errno);
        else if (n < SECRET_MIN)
            fault = "is shorter than 32 bytes";
    }
    if (fault != NULL) {
        snprintf(why, AM_SECRET_WHY, "the file of ACLMEM_FABRIC_KEY %s", fault);
        return -1;
    }
    am_link_keys_make(ret_keys, secret, (size_t)n);
    sodium_memzero(secret, sizeof secret);
    return 0;
}
