/*
 * Memory for the metadata of the layer check.  NULL: memory ran out.  Then something stays
 * unknown to the layer, and the summary says that findings are incomplete.
 */
#ifndef AM_LAYER_MEMORY_H
#define AM_LAYER_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

void *am_meta_alloc(size_t size); /* zeros; for free() */
void *am_meta_realloc(void *old, size_t size);
/* Room for one more element of an array that has n; false: no memory. */
bool am_meta_grow(void **array, size_t n, size_t size);
/* Whether memory ran out so far. */
bool am_meta_ran_out(void);

#if AM_TEST
/* From now on the nth allocation fails, once. */
__attribute__((visibility("default"))) void am_fault_arm_metadata(uint64_t nth);
#endif

#endif
