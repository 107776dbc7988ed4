/*
 * A device that is played: the functions of AscendCL that the pool calls, over books instead of
 * memory, with all that a device would not forgive.
 *
 * Streams are clocks.  Work has a number on its stream; an event is what its stream had, and had
 * waited for, when it was recorded.  Each unit of each page remembers the last work of each
 * stream on it.  The program is stopped when work touches bytes that another stream may
 * still be using, through whichever address, when a page is unmapped under queued work, when it is
 * behind blocks at two addresses, when bytes are not what was written, when addresses or handles
 * are given back twice, and when a call is made that a graph's capture does not allow.
 */
#ifndef TEST_POOL_PLAYED_H
#define TEST_POOL_PLAYED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "acl/acl_rt.h"

#define PLAYED_PAGE 32768u
#define PLAYED_UNIT 512u
#define PLAYED_STREAMS 4u

/* The device has so many pages, and nothing is there. */
void played_begin(size_t n_pages);
/* All memory, addresses and events were given back. */
void played_end(void);
/* No more pages are held than this. */
void played_set_limit(size_t n_pages);
size_t played_held(void);
/* Each nth call that can fail does, from now on; 0: none. */
void played_fail_every(unsigned n);
bool played_has_failed(void); /* since this was asked last */
/* A page may be mapped at several addresses, and is used through one at a time. */
void played_set_aliased(bool is_aliased);
/* Events and waits are not allowed. */
void played_set_capturing(bool is_capturing);

aclrtStream played_stream(unsigned i);
/* The stream goes, its work is done, and there is another one; handles come back in time. */
void played_stream_renew(unsigned i);
/* The stream does so much of its work. */
void played_stream_run(unsigned i, uint32_t n);
/* Later work of stream i comes after all work of `other` so far. */
void played_stream_follow(unsigned i, unsigned other);

/* Queues work that writes the stamp to each unit of the bytes. */
void played_write(unsigned stream, const void *ptr, size_t size, uint32_t stamp);
/* The bytes are what was written. */
void played_check(const void *ptr, size_t size, uint32_t stamp);
/* They are a block's from now on, or nobody's. */
void played_own(const void *ptr, size_t size, uint32_t owner);

void played_require(bool is_true, const char *what);

#endif
