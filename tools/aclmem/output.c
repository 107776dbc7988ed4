/* See output.h. */
#include "output.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* ---- files ---- */

static struct {
    const char *command;
    const char *path; /* NULL: standard output */
    char part[4096];  /* the file until it is complete; "": none */
} output;

/* Ctrl-C and kill: the part goes, then the signal does what it always does. */
static void on_signal(int number)
{
    if (output.part[0] != '\0')
        unlink(output.part);
    signal(number, SIG_DFL);
    raise(number);
}

static FILE *fail(const char *path)
{
    fprintf(stderr, "aclmem %s: %s: %s\n", output.command, path, strerror(errno));
    return NULL;
}

FILE *output_open(const char *command, const char *path, bool may_replace)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    struct stat status;
    FILE *file;
    bool exists;

    output.command = command;
    output.path = NULL;
    output.part[0] = '\0';
    if (path == NULL || strcmp(path, "-") == 0)
        return stdout;
    exists = stat(path, &status) == 0;
    if (exists && !S_ISREG(status.st_mode)) {
        output.path = path;
        file = fopen(path, "we");
        return file != NULL ? file : fail(path);
    }
    if (exists && !may_replace) {
        fprintf(stderr, "aclmem %s: %s: it exists; --force replaces it\n", command, path);
        return NULL;
    }
    if (snprintf(output.part, sizeof output.part, "%s.part-%d", path, getpid()) >=
        (int)sizeof output.part) {
        output.part[0] = '\0';
        errno = ENAMETOOLONG;
        return fail(path);
    }
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++) {
        if (signal(signals[i], on_signal) == SIG_IGN)
            signal(signals[i], SIG_IGN); /* as nohup has it */
    }
    file = fopen(output.part, "we");
    if (file == NULL) {
        output.part[0] = '\0';
        return fail(path);
    }
    output.path = path;
    return file;
}

int output_close(FILE *file, int rc)
{
    const char *path = output.path != NULL ? output.path : "the output";
    bool is_written = fflush(file) == 0 && !ferror(file);

    if (file == stdout) /* main() reports what could not be written */
        return rc == 0 && !is_written ? 1 : rc;
    if (!is_written)
        fail(path);
    if (fclose(file) != 0 && is_written) {
        fail(path);
        is_written = false;
    }
    if (output.part[0] != '\0') {
        if (rc != 0 || !is_written)
            unlink(output.part);
        else if (rename(output.part, output.path) != 0) {
            fail(path);
            unlink(output.part);
            is_written = false;
        }
        output.part[0] = '\0';
    }
    return rc == 0 && !is_written ? 1 : rc;
}

int json_write(const char *command, const char *path, const json_t *json, size_t flags)
{
    FILE *file = output_open(command, path, true);

    if (file == NULL)
        return 1;
    json_dumpf(json, file, flags);
    fputc('\n', file);
    return output_close(file, 0);
}

static char input[32]; /* the path of what standard input had; "": not read */

const char *input_name(const char *path)
{
    return input[0] != '\0' && strcmp(path, input) == 0 ? "standard input" : path;
}

const char *input_path(const char *command, const char *path)
{
    char bytes[65536];
    ssize_t n;
    int fd;

    if (strcmp(path, "-") != 0)
        return path;
    fd = memfd_create("standard input", MFD_CLOEXEC);
    while (fd >= 0 && (n = read(STDIN_FILENO, bytes, sizeof bytes)) != 0) {
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 || write(fd, bytes, (size_t)n) != n) {
            close(fd);
            fd = -1;
        }
    }
    if (fd < 0) {
        fprintf(stderr, "aclmem %s: standard input: %s\n", command, strerror(errno));
        return NULL;
    }
    snprintf(input, sizeof input, "/proc/self/fd/%d", fd);
    return input;
}

/* ---- progress ---- */

#define BAR 24

static bool is_shown; /* the line of the terminal has a bar */

void progress_show(const char *what, uint64_t done, uint64_t all)
{
    static uint64_t last;
    struct timespec time;
    uint64_t ms;
    int filled = all > 0 ? (int)(BAR * (double)done / (double)all) : 0;

    if (!isatty(STDERR_FILENO))
        return;
    clock_gettime(CLOCK_MONOTONIC, &time);
    ms = (uint64_t)time.tv_sec * 1000 + (uint64_t)time.tv_nsec / 1000000;
    if (last == 0)
        last = ms; /* short work shows nothing */
    if (ms - last < 200)
        return;
    last = ms;
    filled = filled > BAR ? BAR : filled;
    fprintf(stderr, "\r%s [%.*s%.*s] %3.0f %%\033[K", what, filled,
            "########################", BAR - filled, "........................",
            all > 0 ? 100.0 * (double)done / (double)all : 0);
    is_shown = true;
}

void progress_line(const char *what, uint64_t done, uint64_t all)
{
    static time_t last;
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    if (last == 0)
        last = time.tv_sec;
    if (!isatty(STDERR_FILENO) || time.tv_sec - last < 2)
        return;
    last = time.tv_sec;
    fprintf(stderr, "aclmem: %s %" PRIu64 " of %" PRIu64 "\n", what, done, all);
}

void progress_end(void)
{
    if (is_shown)
        fprintf(stderr, "\r\033[K");
    is_shown = false;
}
