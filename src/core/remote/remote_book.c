/* See remote_book.h. */
#include "core/remote/remote_book.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/sys.h"
#include "base/text.h"
#include "core/ledger/rundir.h"

#define PREFIX "fabric-"
#define ROWS_MAX 1024

static void name_make(char *name, size_t size, pid_t pid)
{
    snprintf(name, size, PREFIX "%d", (int)pid);
}

int am_remote_book_make(void)
{
    char why[512];
    struct am_capture before = am_error_capture(why, sizeof why);
    char name[32];
    int directory;
    int fd = -1;

    name_make(name, sizeof name, getpid());
    if (am_rundir_open(&directory) == 0)
        fd = am_sys_openat(directory, name, O_CREAT | O_TRUNC | O_RDWR | O_CLOEXEC, 0600);
    am_error_capture_end(before);
    return fd;
}

void am_remote_book_remove(void)
{
    char name[32];
    int directory;

    name_make(name, sizeof name, getpid());
    if (am_rundir_look(&directory) != 0)
        return;
    unlinkat(directory, name, 0);
    close(directory);
}

static void text_clean(char *text, size_t size)
{
    text[size - 1] = '\0';
    am_text_clean(text);
}

static void book_read(int directory, const char *name, int32_t pid,
                      void (*f)(void *arg, int32_t pid, const struct am_port_row *row),
                      void *arg)
{
    int fd = am_sys_openat(directory, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW, 0);
    struct am_port_row row;

    if (fd < 0)
        return;
    for (int i = 0;
         i < ROWS_MAX && am_sys_read(fd, &row, sizeof row) == (ssize_t)sizeof row; i++) {
        text_clean(row.host, sizeof row.host);
        text_clean(row.address, sizeof row.address);
        f(arg, pid, &row);
    }
    close(fd);
}

void am_remote_book_visit(int directory,
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
        int pid;

        if (sscanf(entry->d_name, PREFIX "%d", &pid) != 1 || pid <= 0)
            continue;
        if (kill(pid, 0) == 0 || errno == EPERM)
            book_read(directory, entry->d_name, pid, f, arg);
        else
            unlinkat(directory, entry->d_name, 0); /* its process was killed */
    }
    if (list != NULL)
        closedir(list);
}
