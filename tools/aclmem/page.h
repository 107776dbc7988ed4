/* The page of `aclmem report`. */
#ifndef ACLMEM_PAGE_H
#define ACLMEM_PAGE_H

#include <jansson.h>

/*
 * Writes a page about the trace at `path`, ours or another program's; `findings` is the
 * list of `aclmem run --json`, NULL where the program was not checked.  0, or 1 after
 * saying why not.
 */
int page_write(const char *path, const char *output, const json_t *findings);

#endif
