/*
 * Stream-ordered memory pools: aclrtMemPool*.
 *
 * A pool places its blocks with the engine of src/fit, in chunks of 2 MB of its device, never
 * more than its limit.  A block is allocated at once, for later work of the stream; it is freed
 * when the stream executes its free.  Until then only that stream may use the memory again,
 * since its later work runs after the free.  Another stream may use it after the free is done,
 * if the pool's switches allow it, or is made to wait for the free.
 *
 * The engine distinguishes 64 streams.  A pool gives a number to each stream that frees blocks,
 * and reuses numbers of streams without frees.  If more than 63 streams have frees that are not
 * done, the others share the last number and do not get back memory before the free is done.
 *
 * Chunks without blocks are kept up to the release threshold when a stream is synchronised.
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

struct am_pool;

aclError am_pool_create(int32_t device, size_t max_size, void **ret_handle);
/* The pool of a handle, with one more reference. */
aclError am_pool_get(void *handle, struct am_pool **ret_pool);
void am_pool_put(struct am_pool *pool);
/* Refused while blocks are handed out. */
aclError am_pool_destroy(struct am_pool *pool);
/* All pools of a device, with their blocks; its streams are gone. */
void am_pool_kill_all(int32_t device);

uint64_t am_pool_get_attr(struct am_pool *pool, aclrtMemPoolAttr attr);
/* attr and value have been checked; a high-water mark becomes what it is the mark of. */
void am_pool_set_attr(struct am_pool *pool, aclrtMemPoolAttr attr, uint64_t value);

aclError am_pool_malloc_async(struct am_pool *pool, size_t size, struct am_stream *stream,
                              void **ret_addr);
aclError am_pool_free_async(void *addr, struct am_stream *stream);
void am_pool_trim(struct am_pool *pool, size_t keep);

/*
 * The program has synchronised a stream of the device (-1: all), or ended it: memory above the
 * thresholds of the device's pools goes.
 */
void am_pool_synced(int32_t device, int32_t stream);

#endif
