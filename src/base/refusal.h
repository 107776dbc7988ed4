/*
 * Refused calls on standard error, for ACLMEM_LOG=refusals: one line for each place and
 * reason, and at the end how often each came.
 *
 * The place is the call in the program, found by a walk up the stack.  The reason is the
 * message without its numbers, since addresses and sizes differ from call to call.
 * Codes that are an ordinary answer of their function (answers.def) are not shown.
 */
#ifndef AM_BASE_REFUSAL_H
#define AM_BASE_REFUSAL_H

#include <stdbool.h>

/* Whether the code is an ordinary answer of the function. */
bool am_refusal_is_answer(int code, const char *function);

/* The function is NULL where none is known. */
void am_refusal_note(int code, const char *function, const char *message);

/*
 * How often refusals came since the last end: when the library stops, and when the process
 * exits.
 */
void am_refusal_end(void);

#endif
