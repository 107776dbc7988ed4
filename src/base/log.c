/* See log.h.  A line is written by one write(), so lines of several threads do not mix. */
#include "base/log.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

static atomic_int log_level = AM_LOG_WARN;
static _Atomic uint64_t log_warnings;

void am_log_set_level(enum am_log_level level)
{
    log_level = (int)level;
}

uint64_t am_log_warnings(void)
{
    return log_warnings;
}

void am_log(enum am_log_level level, const char *fmt, ...)
{
    static const char *const names[] = {"error", "warn", "info", "debug"};
    char line[1024];
    va_list args;
    int n;

    if (level <= AM_LOG_WARN)
        log_warnings++;
    if ((int)level > log_level)
        return;

    n = snprintf(line, sizeof line, "aclmem: %s: ", names[level]);
    va_start(args, fmt);
    n += vsnprintf(line + n, sizeof line - (size_t)n, fmt, args);
    va_end(args);
    if (n > (int)sizeof line - 2)
        n = (int)sizeof line - 2;
    line[n++] = '\n';
    if (write(STDERR_FILENO, line, (size_t)n) < 0)
        return; /* Nowhere is left to say so. */
}
