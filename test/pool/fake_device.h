/*
 * A fake device: the functions of AscendCL that the pool calls, with records in place of memory,
 * and checks of what a device does not allow.
 *
 * Streams are clocks.  Work has a number on its stream; an event is what its stream had, and had
 * waited for, when it was recorded.  Each unit of each page remembers the last work of each
 * stream on it.  The program is stopped when work touches bytes that another stream may
 * still be using, through whichever address, when a page is unmapped under queued work, when it is
 * behind blocks at two addresses, when bytes are not what was written, when addresses or handles
 * are given back twice, and when a call is made that a graph's capture does not allow.
 */
#ifndef TEST_POOL_FAKE_DEVICE_H
#define TEST_POOL_FAKE_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "acl/acl_rt.h"

#define FAKE_PAGE 32768u
#define FAKE_UNIT 512u
#define FAKE_STREAMS 4u

/* The device has n_pages, and nothing is allocated. */
void fake_begin(size_t n_pages);
/* All memory, addresses and events were given back. */
void fake_end(void);
/* No more pages are held than this. */
void fake_set_limit(size_t n_pages);
size_t fake_held(void);
/* Each nth call that can fail does, from now on; 0: none. */
void fake_fail_every(unsigned n);
bool fake_has_failed(void); /* since this was asked last */
/* A page may be mapped at several addresses, and is used through one at a time. */
void fake_set_aliased(bool is_aliased);
/* Events and waits are not allowed. */
void fake_set_capturing(bool is_capturing);

aclrtStream fake_stream(unsigned i);
/* The stream goes, its work is done, and there is another one; handles come back in time. */
void fake_stream_renew(unsigned i);
/* The stream does so much of its work. */
void fake_stream_run(unsigned i, uint32_t n);
/* Later work of stream i comes after all work of `other` so far. */
void fake_stream_follow(unsigned i, unsigned other);

/* Queues work that writes the stamp to each unit of the bytes. */
void fake_write(unsigned stream, const void *ptr, size_t size, uint32_t stamp);
/* The bytes are what was written. */
void fake_check(const void *ptr, size_t size, uint32_t stamp);
/* The bytes belong to a block from now on, or to none (owner 0). */
void fake_own(const void *ptr, size_t size, uint32_t owner);

void fake_require(bool is_true, const char *what);

#endif
