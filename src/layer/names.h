/*
 * Names of functions, with files and lines, for findings that this process prints itself.
 *
 * libdw is loaded privately and only where findings are printed here, since the command
 * aclmem names the frames that it reads.  Without libdw the dynamic linker's names are all that
 * there is.  Inlined functions are not distinguished.
 */
#ifndef AM_LAYER_NAMES_H
#define AM_LAYER_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define AM_NAMES_STACK ((size_t)4 << 20) /* bytes; a handler with less has no names */

struct am_name {
    const char *function; /* NULL: not known */
    const char *file;     /* the same */
    int line;
};

/* Loads libdw; with no lock held.  May be called again. */
void am_names_open(void);
/*
 * Of the byte at `offset` of the module with this file; under the lock of findings.  The
 * function's name lasts until the next call.
 */
struct am_name am_name_find(const char *path, uint64_t offset);

#endif
