/*
 * Names of functions, files and lines, from the debug information of modules (libdw).
 *
 * An answer is kept, by module and offset.  Debug information is taken from this machine
 * alone: no server is asked for it.
 */
#ifndef ACLMEM_NAMES_H
#define ACLMEM_NAMES_H

#include <jansson.h>
#include <stdint.h>

/*
 * Appends the frames at an offset of a module to `stack`, inlined ones first, as
 * {"function", "file", "line", "module"}.  Where nothing is known the function is
 * "module+0xoffset" and the line 0.
 */
void names_add(json_t *stack, const char *path, uint64_t offset);

void names_close(void);

#endif
