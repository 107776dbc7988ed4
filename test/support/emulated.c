/*
 * For tests of another processor, which run in qemu-user: a library, preloaded into the
 * emulated program, that starts programs in the emulator too.  The kernel of this
 * machine cannot execute them (that would need binfmt_misc, a setting of the machine).
 *
 * The library also refuses to map terabytes, as a kernel with few addresses does.  The
 * emulator has a record for each page: it would take all memory, and then stop for good.
 *
 * The emulator takes its own settings from the environment (QEMU_LD_PREFIX,
 * QEMU_SET_ENV), so started programs inherit them.  LD_PRELOAD is meant for the emulated
 * program: it is handed to the emulator as an argument, and is not in its environment.
 */
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ARGUMENTS_MAX 64
#define ENVIRONMENT_MAX 512
#define PRELOAD "LD_PRELOAD="
#define MAPPING_MAX ((size_t)256 << 30)

/* A program as it is executed in place of the one that was asked for. */
struct start {
    const char *path;
    char *argv[ARGUMENTS_MAX];
    char *envp[ENVIRONMENT_MAX];
};

extern char **environ;

static bool is_emulated(const char *path)
{
    Elf64_Ehdr head;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    bool is_whole = fd >= 0 && read(fd, &head, sizeof head) == (ssize_t)sizeof head;

    if (fd >= 0)
        close(fd);
    return is_whole && memcmp(head.e_ident, ELFMAG, SELFMAG) == 0 &&
           head.e_machine == EM_AARCH64;
}

/* The first file of this name in PATH; qemu-aarch64 itself where there is none. */
static const char *emulator(void)
{
    static char found[4096];
    const char *at = getenv("PATH");

    for (; at != NULL; at = *at != '\0' ? at + 1 : NULL) {
        size_t length = strcspn(at, ":");

        if (length + sizeof "/qemu-aarch64" <= sizeof found) {
            memcpy(found, at, length);
            memcpy(found + length, "/qemu-aarch64", sizeof "/qemu-aarch64");
            if (access(found, X_OK) == 0)
                return found;
        }
        at += length;
    }
    return "qemu-aarch64";
}

/* What `start` is filled with; too long lists are cut, which the program then notices. */
static void plan(struct start *start, const char *path, char *const argv[],
                 char *const envp[])
{
    static char itself[4096];
    char *preload = NULL;
    size_t n = 0;

    for (size_t i = 0; envp != NULL && envp[i] != NULL && n < ENVIRONMENT_MAX - 1; i++) {
        if (strncmp(envp[i], PRELOAD, sizeof PRELOAD - 1) == 0)
            preload = envp[i];
        else
            start->envp[n++] = envp[i];
    }
    start->envp[n] = NULL;

    n = 0;
    /* The emulator gives the program its own file under this name, and itself has another. */
    if (strcmp(path, "/proc/self/exe") == 0 && realpath(path, itself) != NULL)
        path = itself;
    start->path = path;
    if (is_emulated(path)) {
        start->path = emulator();
        start->argv[n++] = "qemu-aarch64";
        if (preload != NULL) {
            start->argv[n++] = "-E";
            start->argv[n++] = preload;
        }
        start->argv[n++] = "-0";
        start->argv[n++] = argv[0];
        start->argv[n++] = (char *)path;
        argv++;
    }
    for (size_t i = 0; argv[i] != NULL && n < ARGUMENTS_MAX - 1; i++)
        start->argv[n++] = argv[i];
    start->argv[n] = NULL;
}

__attribute__((visibility("default"))) int execve(const char *path, char *const argv[],
                                                  char *const envp[])
{
    int (*next)(const char *, char *const[], char *const[]) = dlsym(RTLD_NEXT, "execve");
    struct start start;

    plan(&start, path, argv, envp);
    return next(start.path, start.argv, start.envp);
}

__attribute__((visibility("default"))) int execv(const char *path, char *const argv[])
{
    return execve(path, argv, environ);
}

__attribute__((visibility("default"))) int
posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
            const posix_spawnattr_t *attributes, char *const argv[], char *const envp[])
{
    int (*next)(pid_t *, const char *, const posix_spawn_file_actions_t *,
                const posix_spawnattr_t *, char *const[], char *const[]) =
        dlsym(RTLD_NEXT, "posix_spawn");
    struct start start;

    plan(&start, path, argv, envp);
    return next(pid, start.path, actions, attributes, start.argv, start.envp);
}

__attribute__((visibility("default"))) void *mmap(void *addr, size_t size, int rights,
                                                  int flags, int fd, off_t offset)
{
    if (size > MAPPING_MAX) {
        errno = ENOMEM;
        return MAP_FAILED;
    }
    return (void *)syscall(SYS_mmap, addr, size, rights, flags, fd, offset);
}
