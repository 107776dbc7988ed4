/* The page of `aclmem report`. */
#ifndef ACLMEM_PAGE_H
#define ACLMEM_PAGE_H

#include <jansson.h>
#include <stdbool.h>

/*
 * Writes a page about the trace at `path`, ours or another program's; `findings` is the
 * list of `aclmem run --json`, NULL where the program was not checked.  An existing page
 * is replaced with may_replace.  0, or 1 after printing the reason.
 */
int page_write(const char *path, const char *output, bool may_replace,
               const json_t *findings);

#endif
