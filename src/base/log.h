/*
 * One line per event on standard error: "aclmem: warn: ...".
 *
 * A mistake of the program is at most `warn`; `error` means that aclmem is broken.
 * Failures of API calls are logged at debug, each one, and at refusal (refusal.h), once
 * for each place and reason: the program has the code and the message already.  Lines of
 * the program's own, from aclAppLog, begin with "app: " and are not counted.
 */
#ifndef AM_BASE_LOG_H
#define AM_BASE_LOG_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>

/* In the order of the option's choices. */
enum am_log_level {
    AM_LOG_ERROR,
    AM_LOG_WARN,
    AM_LOG_REFUSAL,
    AM_LOG_INFO,
    AM_LOG_DEBUG,
};

void am_log_set_level(enum am_log_level level);
/* Whether a line of this level is printed. */
bool am_log_shows(enum am_log_level level);
void am_log(enum am_log_level level, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* The same for what is no failure of a call: it is not counted. */
void am_log_note(enum am_log_level level, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* A line of the program: "app: warn: where (file:line): ...". */
void am_log_app(enum am_log_level level, const char *where, const char *file,
                unsigned line, const char *fmt, va_list args)
    __attribute__((format(printf, 5, 0)));

/* How many lines of warn and error of ours there were, printed or not. */
uint64_t am_log_warnings(void);

/* Assertions about our own state, in builds without AM_NDEBUG. */
void am_assert_failed(const char *what, const char *file, int line)
    __attribute__((noreturn, cold));

#ifndef AM_NDEBUG
#define am_assert(condition_) \
    ((condition_) ? (void)0 : am_assert_failed(#condition_, __FILE__, __LINE__))
#else
#define am_assert(condition_) ((void)(0 && (condition_)))
#endif

#endif
