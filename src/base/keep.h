/*
 * Memory for books that are kept until the process ends.
 *
 * Programs use the books of a million objects at random.  On pages of 4 KB such a use also
 * misses the processor's table of addresses, which in a virtual machine takes longer than
 * the use itself.  So large pieces are aligned to 2 MB, and huge pages are asked for.
 */
#ifndef AM_BASE_KEEP_H
#define AM_BASE_KEEP_H

#include <stddef.h>

#include "base/util.h"

#define AM_KEEP_LARGE AM_CHUNK /* a piece of this size lies on huge pages */

/* Zeroed memory, or NULL.  A large piece is a multiple of AM_KEEP_LARGE. */
void *am_keep(size_t size);

/*
 * The copy of a text that is valid until the process ends, or NULL.  Equal texts have one
 * copy.  It is for texts that a start of the library sets: a call that outlives
 * aclFinalize may read them while the next aclInit sets others.
 */
const char *am_keep_text(const char *text);

#endif
