/*
 * One line per event on standard error: "aclmem: warn: ...".
 *
 * What the program did wrong is at most `warn`; `error` means that we are broken.  Failures of API calls
 * are logged at debug: the program has the code and the message already.
 */
#ifndef AM_BASE_LOG_H
#define AM_BASE_LOG_H

#include <stdint.h>

enum am_log_level { AM_LOG_ERROR, AM_LOG_WARN, AM_LOG_INFO, AM_LOG_DEBUG };

void am_log_set_level(enum am_log_level level);
void am_log(enum am_log_level level, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* How many lines of warn and error there were, printed or not. */
uint64_t am_log_warnings(void);

#endif
