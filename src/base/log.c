/*
 * See log.h.  A line is written by one write(), so lines of several threads do not mix.
 */
#include "base/log.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/text.h"

static atomic_int log_level = AM_LOG_WARN;
static _Atomic uint64_t log_warnings;

void am_log_set_level(enum am_log_level level)
{
    log_level = (int)level;
}

bool am_log_shows(enum am_log_level level)
{
    return (int)level <= log_level;
}

uint64_t am_log_warnings(void)
{
    return log_warnings;
}

static const char *const level_names[] = {"error", "warn", "refusal", "info", "debug"};

/* The end of a line of `size` bytes, of which n are there or did not fit. */
static int line_end(char *line, size_t size, int n)
{
    int last = (int)size - 2;

    n = n < last ? n : last;
    line[n] = '\0';
    return n;
}

static void line_write(char *line, int n)
{
    line[n++] = '\n';
    if (write(STDERR_FILENO, line, (size_t)n) < 0)
        return; /* Nowhere is left to say so. */
}

static void line_say(enum am_log_level level, const char *fmt, va_list args)
{
    char line[1024];
    int n;

    if (!am_log_shows(level))
        return;
    n = snprintf(line, sizeof line, "aclmem: %s: ", level_names[level]);
    n += vsnprintf(line + n, sizeof line - (size_t)n, fmt, args);
    n = line_end(line, sizeof line, n);
    am_text_clean(line);
    line_write(line, n);
}

void am_log(enum am_log_level level, const char *fmt, ...)
{
    va_list args;

    if (level <= AM_LOG_WARN)
        log_warnings++;
    va_start(args, fmt);
    line_say(level, fmt, args);
    va_end(args);
}

void am_log_note(enum am_log_level level, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    line_say(level, fmt, args);
    va_end(args);
}

/* The program's own words, which it may have made as it likes. */
void am_log_app(enum am_log_level level, const char *where, const char *file,
                unsigned line, const char *fmt, va_list args)
{
    char text[1024]; /* the documented limit of a line */
    int n;

    if (!am_log_shows(level))
        return;
    n = snprintf(text, sizeof text, "app: %s: %s (%s:%u): ", level_names[level], where,
                 file, line);
    n = line_end(text, sizeof text, n);
    n += vsnprintf(text + n, sizeof text - (size_t)n, fmt, args);
    line_write(text, line_end(text, sizeof text, n));
}

void am_assert_failed(const char *what, const char *file, int line)
{
    am_log(AM_LOG_ERROR, "%s:%d: %s does not hold", file, line, what);
    abort();
}
