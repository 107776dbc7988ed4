/*
 * Text that comes from outside: another process, a file, the environment, an argument.
 * Whatever it holds, what we say of it can be shown on a terminal and is valid UTF-8.
 */
#ifndef AM_BASE_TEXT_H
#define AM_BASE_TEXT_H

#include <stddef.h>

/*
 * Puts a question mark in the place of every byte that is a control character's, or of no
 * character in UTF-8.  Messages, lines of the log and names in the ledger pass through it.
 */
void am_text_clean(char *text);

/* A copy of at most size - 1 bytes of `from`, up to its zero or n bytes, cleaned. */
const char *am_text_copy(char *to, size_t size, const char *from, size_t n);

#endif
