/*
 * A session: what the layer check finds between two moments, for a program that runs tests
 * (aclmem_check_begin and aclmem_check_end of aclmem.h).
 *
 * Inside a session findings are collected and returned as JSON instead of being printed.
 * A finding that an earlier session had is reported again, and device memory may have a limit.
 */
#ifndef AM_LAYER_SESSION_H
#define AM_LAYER_SESSION_H

#include <stdbool.h>

struct am_call;

/* Whether the session that is on has a limit, which was not passed yet. */
bool am_session_has_limit(void);
/* The program holds more device memory than before: reports the first time that the limit
 * is passed.  The am_check.lock is held. */
void am_session_grown(const struct am_call *call);

#endif
