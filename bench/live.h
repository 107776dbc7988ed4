/*
 * Many live objects, and what is done to some of them.
 *
 * A live set is n pieces of 2 MB, all mapped side by side or none of them.  What is
 * measured is done to members drawn at random, so that large sets show what their books
 * cost in caches: a pair undoes something and does it again, and the set stays as large
 * as it was.  The drawing is not timed.
 */
#ifndef BENCH_LIVE_H
#define BENCH_LIVE_H

#include <stdbool.h>

#include "acl/acl.h"
#include "measure.h"

#define PICKS 1024 /* drawn for each run */

struct pick {
    char *addr;
    aclrtDrvMemHandle handle;
    size_t index;
};

struct live {
    size_t n;
    aclrtPhysicalMemProp prop;
    aclrtDrvMemHandle *handle;
    char *addr; /* NULL: not mapped */
    struct pick pick[PICKS];
    size_t n_picks;
    uint64_t random;
};

/* The library with one device of 4 TB, of which only what is written costs memory. */
void library_start(bool is_isolated);
/* The same with another size, as ACLMEM_MEMORY takes it. */
void library_start_with(const char *memory, bool is_isolated);
void library_stop(void);

/* n pieces of device memory, or of host memory. */
void live_open(struct live *live, size_t n, aclrtMemLocationType where);
/* All side by side in one reservation, with 2 MB to spare at both ends. */
void live_map(struct live *live);
/* Needs library_stop() to free the pieces themselves. */
void live_close(struct live *live);

/* Unmap one and map it again; free one and allocate it again; ask what an address is. */
struct subject live_map_pair(struct live *live);
struct subject live_phys_pair(struct live *live);
struct subject live_lookup(struct live *live);
/* The same for n addresses that stay the same. */
struct subject live_lookup_among(struct live *live, size_t n);

#endif
