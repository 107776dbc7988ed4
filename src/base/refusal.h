/*
 * Refused calls on standard error, for ACLMEM_LOG=refusals: one line for each place and
 * reason, and at the end how often each occurred.
 *
 * The place is the call in the program, found by a walk up the stack.  The reason is the
 * message without its numbers, since addresses and sizes differ from call to call.
 * Codes that a correct program expects from a function (expected_codes.def) are not shown.
 */
#ifndef AM_BASE_REFUSAL_H
#define AM_BASE_REFUSAL_H

#include <stdbool.h>

/* Whether a correct program expects the code from the function. */
bool am_refusal_is_expected(int code, const char *function);

/* `name` is the code's name; it and the function are NULL if they are not known. */
void am_refusal_note(int code, const char *name, const char *function,
                     const char *message);

/*
 * Prints how often refusals occurred since the last call: when the library stops, and when the
 * process exits.
 */
void am_refusal_end(void);

#endif
