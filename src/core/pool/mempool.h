/*
 * Stream-ordered memory pools: aclrtMemPool*.
 *
 * A pool has addresses of its own, and physical memory behind those that are or were in
 * use, taken from its device in chunks of 2 MB, never more than its limit.  A block is
 * handed out at once, for work that comes later in the stream; it is given back when the
 * stream gets to its free.  Until then the stream itself may have it again, since what it
 * does next comes after the free anyway (range.h); another stream may where the free is
 * done, if the pool's switches allow it, or waits for that.
 *
 * Chunks that nothing lives in are kept up to the release threshold when a stream is
 * synchronised.
 *
 * The placement here (range.h, backing.h) is not the engine of libaclmem_pool (src/fit/),
 * for three reasons:
 *
 * - The engine knows queued work by page, and this pool by byte.  Two streams that each
 *   freed a block in one page would have to wait for each other there.  With the switches
 *   off that wait is not allowed, so a stream would be refused the memory that it freed
 *   itself.
 * - The engine tells 64 streams apart.  libaclmem_pool waits for the device when there are
 *   more; a call that is ordered by streams must not wait.
 * - A wait that an abort takes away must not free the memory (am_range's `after`).  The
 *   engine has no such order of one stream's work behind another's.
 *
 * Both placements reach the same share of memory in the recorded traces (bench/traces):
 * this one 99.5 to 99.8 %, the engine 99.2 to 99.9 %.
 */
#ifndef AM_CORE_MEMPOOL_H
#define AM_CORE_MEMPOOL_H

#include <stddef.h>
#include <stdint.h>

#include "acl/acl_rt.h"
#include "core/stream/stream.h"

/*
 * How memory that was freed on one stream comes to another: a bit for each
 * aclrtMemPoolAttr.
 */
enum {
    AM_REUSE_FOLLOW = 1u << 0, /* an event orders the two: taken for the next one */
    AM_REUSE_OPPORTUNISTIC = 1u << 1, /* the free is done */
    AM_REUSE_INTERNAL =
        1u << 2, /* the free is queued, and the other stream waits for it */
    AM_REUSE_ALL = AM_REUSE_FOLLOW | AM_REUSE_OPPORTUNISTIC | AM_REUSE_INTERNAL,
};

aclError am_pool_create(int32_t device, size_t max_size, void **ret_handle);
/* Refused while blocks are handed out. */
aclError am_pool_destroy(void *handle);
/* All pools of a device, with their blocks; its streams are gone. */
void am_pool_kill_all(int32_t device);

aclError am_pool_get_attr(void *handle, aclrtMemPoolAttr attr, uint64_t *ret_value);
/* attr and value have been checked; a high-water mark becomes what it is the mark of. */
aclError am_pool_set_attr(void *handle, aclrtMemPoolAttr attr, uint64_t value);

aclError am_pool_malloc_async(void *handle, size_t size, struct am_stream *stream,
                              void **ret_addr);
aclError am_pool_free_async(void *addr, struct am_stream *stream);
aclError am_pool_trim(void *handle, size_t keep);

/* The stream was synchronised: memory above the thresholds of its device's pools goes. */
void am_pool_synced(int32_t device, int32_t stream);

#endif
