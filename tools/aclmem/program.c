/* See program.h. */
#include "program.h"

#include <dirent.h>
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "aclmem/aclmem.h"
#include "command.h"

/* ---- folders ---- */

char *folder_make(void)
{
    const char *where = getenv("TMPDIR");
    char *path;

    if (where == NULL || where[0] == '\0')
        where = "/tmp";
    if (asprintf(&path, "%s/aclmem-run-XXXXXX", where) < 0)
        return NULL;
    if (mkdtemp(path) == NULL) {
        fprintf(
            stderr,
            "aclmem: no folder for findings: %s: %s; TMPDIR names a folder that can be "
            "written to\n",
            path, strerror(errno));
        free(path);
        return NULL;
    }
    return path;
}

void folder_remove(char *folder)
{
    DIR *list = opendir(folder);
    struct dirent *entry;

    while (list != NULL && (entry = readdir(list)) != NULL) {
        if (entry->d_name[0] != '.')
            unlinkat(dirfd(list), entry->d_name, 0);
    }
    if (list != NULL)
        closedir(list);
    rmdir(folder);
    free(folder);
}

/* ---- the program ---- */

/* Finds `name` as execvp does; false: it does not exist. */
static bool path_find(const char *name, char *path)
{
    const char *list = getenv("PATH");
    struct stat status;

    if (strchr(name, '/') != NULL) {
        snprintf(path, PATH_MAX, "%s", name);
        return access(path, F_OK) == 0;
    }
    for (list = list != NULL ? list : "/bin:/usr/bin"; *list != '\0';) {
        size_t n = strcspn(list, ":");

        snprintf(path, PATH_MAX, "%.*s%s%s", (int)n, list, n > 0 ? "/" : "", name);
        if (access(path, X_OK) == 0 && stat(path, &status) == 0 &&
            !S_ISDIR(status.st_mode))
            return true;
        list += n + (list[n] == ':');
    }
    return false;
}

static int refuse(int code, const char *path, const char *why)
{
    fprintf(stderr, "aclmem run: %s: %s\n", path, why);
    return code;
}

/* Whether the first bytes are of a program that the system can start. */
static int head_check(const char *path)
{
    unsigned char head[4] = {0};
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n;

    if (fd < 0)
        return 0; /* it may be run and not read */
    n = read(fd, head, sizeof head);
    close(fd);
    if (n >= 2 && head[0] == '#' && head[1] == '!')
        return 0;
    if (n == 4 && memcmp(head, ELFMAG, SELFMAG) == 0)
        return 0;
    return refuse(EXIT_NOT_EXECUTABLE, path,
                  "neither a program nor a script with #! in its first line; name the "
                  "interpreter: aclmem run sh FILE");
}

/* Whether the system starts it as another user or group, without our variables. */
static bool is_set_id(const struct stat *status)
{
    mode_t gid_bits = S_ISGID | S_IXGRP;

    return ((status->st_mode & S_ISUID) && status->st_uid != geteuid()) ||
           ((status->st_mode & gid_bits) == gid_bits && status->st_gid != getegid());
}

int program_check(char **argv)
{
    char path[PATH_MAX];
    struct stat status;

    if (!path_find(argv[0], path))
        return refuse(EXIT_NOT_FOUND, argv[0], "there is no such program");
    if (stat(path, &status) != 0)
        return refuse(EXIT_NOT_FOUND, path, strerror(errno));
    if (S_ISDIR(status.st_mode))
        return refuse(EXIT_NOT_EXECUTABLE, path, "is a folder");
    if (access(path, X_OK) != 0)
        return refuse(EXIT_NOT_EXECUTABLE, path,
                      "may not be executed (chmod +x, or name its interpreter)");
    if (is_set_id(&status))
        return refuse(
            EXIT_NOT_EXECUTABLE, path,
            "is set-uid or set-gid: the system drops the variables that turn the checks "
            "on; check a copy without that bit");
    return head_check(path);
}

/* ---- its environment ---- */

static void prepend(const char *name, const char *folder)
{
    const char *old = getenv(name);
    char *value;

    if (asprintf(&value, "%s%s%s", folder, old != NULL && *old != '\0' ? ":" : "",
                 old != NULL ? old : "") < 0)
        return;
    setenv(name, value, 1);
    free(value);
}

/* The folder of the library that this command itself uses; `folder` has PATH_MAX bytes. */
static bool library_folder(char *folder)
{
    Dl_info info;

    if (dladdr((void *)aclmem_version, &info) == 0 ||
        realpath(info.dli_fname, folder) == NULL || strrchr(folder, '/') == NULL)
        return false;
    *strrchr(folder, '/') = '\0';
    return true;
}

/* The library that this command itself uses, and the Python module beside it. */
static void library_set(void)
{
    static const char *const places[] = {"../python", "../python/site-packages"};
    char folder[PATH_MAX];
    char path[PATH_MAX + 64];

    if (!library_folder(folder))
        return;
    prepend("LD_LIBRARY_PATH", folder);
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        snprintf(path, sizeof path, "%s/%s/acl", folder, places[i]);
        if (access(path, F_OK) != 0)
            continue;
        *strrchr(path, '/') = '\0';
        prepend("PYTHONPATH", path);
    }
}

/* Prepends FOLDER + PLACE/npu/stand_in to PYTHONPATH if it exists. */
static bool stand_in_set(const char *folder, int folder_n, const char *place)
{
    char path[2 * PATH_MAX];

    snprintf(path, sizeof path, "%.*s%s/npu/stand_in", folder_n, folder, place);
    if (access(path, F_OK) != 0)
        return false;
    prepend("PYTHONPATH", path);
    return true;
}

bool program_use_torch_npu(void)
{
    /* a build, an installed tree, a wheel */
    static const char *const places[] = {"/../python/aclmem",
                                         "/../python/site-packages/aclmem", "/.."};
    const char *list = getenv("PYTHONPATH");
    char folder[PATH_MAX] = "";

    for (size_t n; list != NULL && *list != '\0'; list += n + (list[n] == ':')) {
        n = strcspn(list, ":");
        if (n > 0 && stand_in_set(list, (int)n, "/aclmem"))
            return true;
    }
    if (library_folder(folder)) {
        for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
            if (stand_in_set(folder, (int)strlen(folder), places[i]))
                return true;
        }
    }
    fprintf(
        stderr,
        "aclmem run: --torch-npu: the package aclmem.npu is neither in PYTHONPATH nor "
        "beside %s; docs/TORCH.md says how to build it\n",
        folder);
    return false;
}

static void variable_set(const char *name, const char *value)
{
    if (value != NULL && value[0] != '\0')
        setenv(name, value, 1);
}

/* Layers that the user asked for stay outside of ours. */
static void layers_set(const char *layers)
{
    const char *old = getenv("ACLMEM_LAYERS");
    char *value;

    if (asprintf(&value, "%s%s%s", old != NULL ? old : "",
                 old != NULL && *old != '\0' ? "," : "", layers) < 0)
        return;
    setenv("ACLMEM_LAYERS", value, 1);
    free(value);
}

/* `path` has LAYERS_MAX bytes. */
#define LAYERS_MAX (PATH_MAX + 32)
static bool layers_library(char *path)
{
    char folder[PATH_MAX];

    if (!library_folder(folder))
        return false;
    snprintf(path, LAYERS_MAX, "%s/libaclmem_layers.so", folder);
    return true;
}

bool program_can_run_over(void)
{
    char path[LAYERS_MAX] = "libaclmem_layers.so";

    if (layers_library(path) && access(path, R_OK) == 0)
        return true;
    fprintf(stderr, "aclmem run: --over: %s, which has the layers: %s\n", path,
            strerror(errno));
    return false;
}

/* The layers are preloaded, and the other library behind them. */
static void over_set(const char *over)
{
    char layers[LAYERS_MAX];
    char path[LAYERS_MAX + PATH_MAX];

    if (!layers_library(layers))
        return;
    snprintf(path, sizeof path, "%s:%s", layers, over);
    prepend("LD_PRELOAD", path);
    setenv("ACLMEM_OVER", over, 1);
}

static void environment_set(const struct program_setup *setup, const char *folder)
{
    char pid[24];

    if (setup->over != NULL)
        over_set(setup->over);
    else
        library_set();
    layers_set(setup->layers);
    variable_set("ACLMEM_FINDINGS", folder);
    variable_set("ACLMEM_CHECK", setup->check);
    variable_set("ACLMEM_RULES", setup->rules);
    variable_set("ACLMEM_STALL_TIMEOUT", setup->stall_timeout);
    variable_set("ACLMEM_FUNCTIONS_WAIT", setup->functions_wait);
    variable_set("ACLMEM_CHAOS", setup->chaos);
    variable_set("ACLMEM_FAIL", setup->fail);
    variable_set("ACLMEM_TRACE", setup->trace);
    variable_set("ACLMEM_STACKS", setup->stacks);
    if (!setup->follows) {
        snprintf(pid, sizeof pid, "%d", getpid()); /* exec does not change it */
        setenv("ACLMEM_LAYERS_PID", pid, 1);
    }
}

/* ---- running ---- */

static double now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

/*
 * While the program runs, a signal that ends commands is the program's: the handler notes
 * it, and passes it on where the terminal or the sender has not given it to the program.
 */
static volatile sig_atomic_t stop_signal;
static volatile sig_atomic_t stop_child; /* 0: none yet */
static volatile sig_atomic_t
    stop_has_group; /* the child is out of the terminal's group */

static const int stop_signals[] = {SIGINT, SIGQUIT, SIGTERM, SIGHUP};

#define N_STOP_SIGNALS (sizeof stop_signals / sizeof stop_signals[0])

static void stop_note(int signal)
{
    int error = errno;

    stop_signal = signal;
    if (stop_child != 0 && stop_has_group)
        kill(-stop_child, signal);
    else if (stop_child != 0 && (signal == SIGTERM || signal == SIGHUP))
        kill(stop_child, signal);
    errno = error;
}

/* A signal that is ignored stays so: nohup, or a shell's background job. */
static void stop_begin(struct sigaction *old)
{
    struct sigaction action = {.sa_handler = stop_note, .sa_flags = SA_RESTART};

    stop_signal = 0;
    stop_child = 0;
    for (size_t i = 0; i < N_STOP_SIGNALS; i++) {
        sigaction(stop_signals[i], NULL, &old[i]);
        if (old[i].sa_handler != SIG_IGN)
            sigaction(stop_signals[i], &action, NULL);
    }
}

static void stop_end(const struct sigaction *old)
{
    for (size_t i = 0; i < N_STOP_SIGNALS; i++)
        sigaction(stop_signals[i], &old[i], NULL);
}

/* In the child: becomes the program, or says why not through the pipe. */
static void child_run(char **argv, const struct program_setup *setup, const char *folder,
                      int report)
{
    int error;

    environment_set(setup, folder);
    if (setup->output != NULL) {
        int fd = open(setup->output, O_WRONLY | O_CREAT | O_TRUNC, 0600);

        if (fd < 0 || dup2(fd, STDOUT_FILENO) < 0)
            goto failed;
    }
    if (setup->limit > 0)
        setpgid(0, 0); /* what hangs is ended with all that it started */
    execvp(argv[0], argv);
failed:
    error = errno;
    if (write(report, &error, sizeof error) < 0)
        _exit(EXIT_NOT_FOUND);
    _exit(EXIT_NOT_FOUND);
}

/* Reads findings until the child has ended; its status. */
static int child_wait(pid_t child, const struct program_setup *setup,
                      struct findings *findings, double start, bool *ret_is_hung)
{
    int ended = (int)syscall(SYS_pidfd_open, child, 0);
    int changed = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    int status = 0;

    *ret_is_hung = false;
    if (changed >= 0)
        inotify_add_watch(changed, findings->folder, IN_MODIFY | IN_CREATE);
    for (;;) {
        struct pollfd fds[] = {{ended, POLLIN, 0}, {changed, POLLIN, 0}};
        char buffer[4096];

        if (waitpid(child, &status, WNOHANG) == child)
            break;
        /* Without a descriptor of the process the process is polled. */
        poll(fds, 2, ended < 0 || setup->limit > 0 ? 50 : -1);
        while (changed >= 0 && read(changed, buffer, sizeof buffer) > 0)
            ;
        findings_read(findings);
        if (setup->limit > 0 && !*ret_is_hung && now() - start > setup->limit) {
            *ret_is_hung = true;
            kill(-child, SIGKILL);
        }
    }
    if (ended >= 0)
        close(ended);
    if (changed >= 0)
        close(changed);
    findings_read(findings);
    return status;
}

int program_run(char **argv, const struct program_setup *setup, struct findings *findings,
                struct program_end *ret_end)
{
    struct sigaction old[N_STOP_SIGNALS];
    double start = now();
    int report[2];
    int error = 0;
    int status;
    pid_t child;

    fflush(NULL);
    stop_begin(old);
    if (pipe2(report, O_CLOEXEC) != 0 || (child = fork()) < 0) {
        stop_end(old);
        return refuse(1, argv[0], strerror(errno));
    }
    if (child == 0)
        child_run(argv, setup, findings->folder, report[1]);
    if (setup->limit > 0)
        setpgid(child, child);
    stop_has_group = setup->limit > 0;
    stop_child = child;
    close(report[1]);
    if (read(report[0], &error, sizeof error) != sizeof error)
        error = 0;
    close(report[0]);
    unsetenv("DEBUGINFOD_URLS"); /* in this process: no server is asked for names */
    status = child_wait(child, setup, findings, start, &ret_end->is_hung);
    stop_end(old);
    if (error != 0)
        return refuse(error == ENOENT ? EXIT_NOT_FOUND : EXIT_NOT_EXECUTABLE, argv[0],
                      strerror(error));
    ret_end->signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    ret_end->code = ret_end->signal != 0 ? 128 + ret_end->signal : WEXITSTATUS(status);
    ret_end->seconds = now() - start;
    ret_end->stop = stop_signal;
    return 0;
}
