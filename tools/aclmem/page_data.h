/* The data of the report page. */
#ifndef ACLMEM_PAGE_DATA_H
#define ACLMEM_PAGE_DATA_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "history.h"

struct bytes {
    uint8_t *data;
    size_t n, max;
};

/*
 * Makes the data of a trace, in gzip: length of the JSON, JSON, columns.  `before` is the
 * trace to compare it with, `findings` the list of aclmem run --json, `pool` a snapshot of a
 * pool; each may be NULL.  False after printing the reason.
 */
bool page_data_make(const char *path, const char *before, const json_t *findings,
                    json_t *pool, struct bytes *ret_packed);

/* page_findings.c */

/*
 * Adds "at" to each finding: when its first call began.  If several calls have the same
 * stack, it is the call during which the finding was reported; the first one otherwise, as
 * for leaks, which are reported at the end.
 */
void findings_place(struct history *history, struct trace *trace, json_t *findings);

#endif
