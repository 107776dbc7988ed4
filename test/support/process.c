#include "process.h"
#include "support.h"

#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/* TEST_SKIP: a pattern of names (test/CMakeLists.txt). */
__attribute__((constructor)) static void tests_skip(void)
{
    const char *pattern = getenv("TEST_SKIP");

    if (pattern != NULL)
        cmocka_set_skip_filter(pattern);
}

extern char **environ;

/* ---- touching ---- */

static sigjmp_buf touch_failed;

static void on_fault(int signal)
{
    siglongjmp(touch_failed, 1);
}

static bool touch(volatile char *p, bool write)
{
    struct sigaction action = {.sa_handler = on_fault}, segv, bus;
    volatile bool ok = false;

    sigaction(SIGSEGV, &action, &segv);
    sigaction(SIGBUS, &action, &bus);
    if (sigsetjmp(touch_failed, 1) == 0) {
        char byte = *p;

        if (write)
            *p = byte;
        ok = true;
    }
    sigaction(SIGSEGV, &segv, NULL);
    sigaction(SIGBUS, &bus, NULL);
    return ok;
}

bool can_read(const void *p)
{
    return touch((volatile char *)(uintptr_t)p, false);
}

bool can_write(void *p)
{
    return touch(p, true);
}

/* ---- threads ---- */

static void *worker_main(void *arg)
{
    struct worker *w = arg;

    w->failure = w->run(w);
    return NULL;
}

int worker_start(struct worker *w)
{
    w->failure = NULL;
    return pthread_create(&w->thread, NULL, worker_main, w);
}

const char *worker_join(struct worker *w)
{
    pthread_join(w->thread, NULL);
    if (w->failure != NULL)
        print_error("thread %u: %s\n", w->index, w->failure);
    return w->failure;
}

const char *run_workers(struct worker *workers, unsigned n)
{
    const char *failure = NULL;

    for (unsigned i = 0; i < n; i++) {
        workers[i].index = i;
        assert_int_equal(worker_start(&workers[i]), 0);
    }
    for (unsigned i = 0; i < n; i++) {
        const char *text = worker_join(&workers[i]);

        if (failure == NULL)
            failure = text;
    }
    return failure;
}

const char *run_thread(const char *(*run)(struct worker *self), void *shared)
{
    struct worker w = {.run = run, .shared = shared};

    return run_workers(&w, 1);
}

/* ---- what the process takes ---- */

size_t heap_bytes(void)
{
    return mallinfo2().uordblks;
}

size_t space_bytes(void)
{
    unsigned long pages = 0;
    FILE *file = fopen("/proc/self/statm", "re");

    assert_non_null(file);
    assert_int_equal(fscanf(file, "%lu", &pages), 1);
    fclose(file);
    return pages * (size_t)sysconf(_SC_PAGESIZE);
}

/* ---- this program again ---- */

static int spawn_self(const char *role, const posix_spawn_file_actions_t *actions)
{
    char path[4096];
    char *argv[] = {path, (char *)(uintptr_t)role, NULL};
    ssize_t len = readlink("/proc/self/exe", path, sizeof(path) - 1);
    int status = -1;
    pid_t pid;

    assert_true(len > 0);
    path[len] = '\0';
    assert_int_equal(posix_spawn(&pid, path, actions, NULL, argv, environ), 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (WIFSIGNALED(status))
        fail_msg("%s died of signal %d", role, WTERMSIG(status));
    return WEXITSTATUS(status);
}

int run_self(const char *role)
{
    return spawn_self(role, NULL);
}

int run_self_silently(const char *role)
{
    posix_spawn_file_actions_t actions;
    int status;

    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    status = spawn_self(role, &actions);
    posix_spawn_file_actions_destroy(&actions);
    return status;
}

/* ---- stderr ---- */

static int kept_stderr = -1;
static int capture_fd = -1;
static char captured[16384];

void capture_stderr(void)
{
    fflush(stderr);
    capture_fd = memfd_create("captured", MFD_CLOEXEC);
    kept_stderr = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
    assert_true(capture_fd >= 0 && kept_stderr >= 0);
    /*
     * A memory file has no position of its own: lines of several threads would overwrite
     * each other.
     */
    assert_int_equal(fcntl(capture_fd, F_SETFL, O_APPEND), 0);
    dup2(capture_fd, STDERR_FILENO);
}

const char *captured_stderr(void)
{
    ssize_t len;

    fflush(stderr);
    dup2(kept_stderr, STDERR_FILENO);
    close(kept_stderr);
    len = pread(capture_fd, captured, sizeof(captured) - 1, 0);
    close(capture_fd);
    captured[len > 0 ? len : 0] = '\0';
    return captured;
}
