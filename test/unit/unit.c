/* See unit.h. */
#include "unit.h"

#include <fcntl.h>
#include <ftw.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

void check_contains(const char *text, const char *words, const char *file, int line)
{
    if (text != NULL && strstr(text, words) != NULL)
        return;
    print_error("\"%s\" is not in \"%s\"\n", words, text ? text : "(null)");
    _fail(file, line);
}

static pid_t child_start(const char *role, int output)
{
    char path[4096];
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
    char *argv[] = {path, (char *)(uintptr_t)role, NULL};
    posix_spawn_file_actions_t actions;
    pid_t pid;

    assert_true(n > 0);
    path[n] = '\0';
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, output, STDERR_FILENO);
    assert_int_equal(posix_spawn(&pid, path, &actions, NULL, argv, environ), 0);
    posix_spawn_file_actions_destroy(&actions);
    return pid;
}

int child_run(const char *role, const char **ret_text)
{
    static char text[16384];
    size_t size = 0;
    ssize_t n;
    int status;
    int pipe_fd[2];
    pid_t pid;

    assert_int_equal(pipe2(pipe_fd, O_CLOEXEC), 0);
    pid = child_start(role, pipe_fd[1]);
    close(pipe_fd[1]);
    while ((n = read(pipe_fd[0], text + size, sizeof text - 1 - size)) > 0)
        size += (size_t)n;
    text[size] = '\0';
    close(pipe_fd[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    *ret_text = text;
    return status;
}

const char *folder_make(void)
{
    static char path[64];

    strcpy(path, "/tmp/aclmem-unit-XXXXXX");
    assert_non_null(mkdtemp(path));
    return path;
}

static int entry_remove(const char *path, const struct stat *st, int type, struct FTW *at)
{
    return remove(path);
}

void folder_remove(const char *folder)
{
    nftw(folder, entry_remove, 16, FTW_DEPTH | FTW_PHYS);
}

const char *file_make(const char *folder, const char *path, const void *bytes,
                      size_t size)
{
    static char full[4096];
    FILE *file;

    snprintf(full, sizeof full, "%s/%s", folder, path);
    for (char *slash = full + strlen(folder) + 1; (slash = strchr(slash, '/')) != NULL;
         slash++) {
        *slash = '\0';
        mkdir(full, 0700);
        *slash = '/';
    }
    file = fopen(full, "we");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    fclose(file);
    return full;
}

const char *file_make_text(const char *folder, const char *path, const char *text)
{
    return file_make(folder, path, text, strlen(text));
}

uint64_t random_next(uint64_t *seed)
{
    uint64_t z = (*seed += UINT64_C(0x9e3779b97f4a7c15));

    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

size_t random_below(uint64_t *seed, size_t n)
{
    return (size_t)(random_next(seed) % n);
}
