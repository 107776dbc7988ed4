/* See internal.h. */
#include "backend/remote/internal.h"

#include <dirent.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "base/sys.h"
#include "base/text.h"

#define PREFIX "fabric-"
#define ROWS_MAX 1024
#define NAME_SIZE 40
#define TRIES 4

/* Containers that share the directory may have the same process ids. */
static void name_make(char *name, size_t size)
{
    struct stat space = {0};

    stat("/proc/self/ns/pid", &space);
    snprintf(name, size, PREFIX "%x-%d", (unsigned)space.st_ino, (int)getpid());
}

/*
 * A new file with a lock, which this process passes on with the descriptor: the lock ends
 * with the fabric process.  -1 on failure, or if a reader has removed it before the lock.
 */
static int file_make(int directory, const char *name)
{
    struct stat status;
    int fd;

    unlinkat(directory, name, 0);
    fd = am_sys_openat(directory, name, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600);
    if (fd < 0)
        return -1;
    if (flock(fd, LOCK_EX) == 0 && fstat(fd, &status) == 0 && status.st_nlink > 0)
        return fd;
    close(fd);
    return -1;
}

int am_remote_records_make(int directory)
{
    char name[NAME_SIZE];
    int fd = -1;

    name_make(name, sizeof name);
    for (int i = 0; i < TRIES && fd < 0 && directory >= 0; i++)
        fd = file_make(directory, name);
    return fd;
}

void am_remote_records_remove(int directory)
{
    char name[NAME_SIZE];

    name_make(name, sizeof name);
    unlinkat(directory, name, 0);
}

static void text_clean(char *text, size_t size)
{
    text[size - 1] = '\0';
    am_text_clean(text);
}

static void rows_read(int fd, int32_t pid,
                      void (*f)(void *arg, int32_t pid, const struct am_port_row *row),
                      void *arg)
{
    struct am_port_row row;

    for (int i = 0;
         i < ROWS_MAX && am_sys_read(fd, &row, sizeof row) == (ssize_t)sizeof row; i++) {
        text_clean(row.host, sizeof row.host);
        text_clean(row.address, sizeof row.address);
        f(arg, pid, &row);
    }
}

static void file_read(int directory, const char *name, int32_t pid,
                      void (*f)(void *arg, int32_t pid, const struct am_port_row *row),
                      void *arg)
{
    int fd = am_sys_openat(directory, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW, 0);

    if (fd < 0)
        return;
    if (flock(fd, LOCK_SH | LOCK_NB) == 0) /* its fabric process has ended */
        unlinkat(directory, name, 0);
    else
        rows_read(fd, pid, f, arg);
    close(fd);
}

void am_remote_records_each(int directory,
                            void (*f)(void *arg, int32_t pid,
                                      const struct am_port_row *row),
                            void *arg)
{
    int fd = am_sys_openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    DIR *list = fd >= 0 ? fdopendir(fd) : NULL;
    struct dirent *entry;

    if (list == NULL && fd >= 0)
        close(fd);
    while (list != NULL && (entry = readdir(list)) != NULL) {
        unsigned space;
        int pid;

        if (sscanf(entry->d_name, PREFIX "%x-%d", &space, &pid) == 2 && pid > 0)
            file_read(directory, entry->d_name, pid, f, arg);
    }
    if (list != NULL)
        closedir(list);
}
