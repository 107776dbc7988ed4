/* An empty trace, for a command that runs several processes into one file. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "trace/internal.h"

static uint64_t clock_read(clockid_t clock)
{
    struct timespec now;

    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* After a write that was cut short, the next one says why. */
static bool write_whole(int fd, const char *data, size_t size)
{
    size_t done = 0;

    while (done < size) {
        ssize_t n = pwrite(fd, data + done, size - done, (off_t)done);

        if (n <= 0)
            return false;
        done += (size_t)n;
    }
    return true;
}

int trace_create(const char *path, bool may_replace, char *why)
{
    union {
        struct am_trace_header header;
        char page[AM_TRACE_HEADER_SIZE];
    } head = {0};
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1};
    bool is_new = access(path, F_OK) != 0;
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOCTTY, 0666);
    off_t size = fd >= 0 ? lseek(fd, 0, SEEK_END) : 0;

    snprintf(why, TRACE_WHY_SIZE, "%s", strerror(errno));
    if (fd < 0)
        return -1;
    if (size > 0 && !may_replace) {
        snprintf(why, TRACE_WHY_SIZE, "it exists; --force replaces it");
        goto failed;
    }
    if (fcntl(fd, F_OFD_SETLK, &lock) != 0) {
        snprintf(why, TRACE_WHY_SIZE, "another program records into it");
        goto failed;
    }
    memcpy(head.header.magic, AM_TRACE_MAGIC, sizeof head.header.magic);
    am_trace_header_fill(&head.header, clock_read(CLOCK_MONOTONIC),
                         clock_read(CLOCK_REALTIME));
    if (ftruncate(fd, 0) != 0 || !write_whole(fd, head.page, sizeof head.page)) {
        snprintf(why, TRACE_WHY_SIZE, "%s", strerror(errno));
        goto failed;
    }
    lock.l_type = F_RDLCK; /* processes that come join, and begin no file of their own */
    if (fcntl(fd, F_OFD_SETLK, &lock) == 0)
        return fd;
    snprintf(why, TRACE_WHY_SIZE, "%s", strerror(errno));
failed:
    if (is_new)
        unlink(path);
    close(fd);
    return -1;
}
