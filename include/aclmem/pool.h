/*
 * A memory pool on the public AscendCL functions: libaclmem_pool.so.
 *
 * The pool keeps hardly any memory that is not in use: a block may begin in the 2 MB page
 * in which its neighbour ends, and pages that are free in one place are mapped where they
 * are needed.  It calls aclrt functions only, so it runs over aclmem and over the vendor's
 * library alike.  docs/POOL.md says when to use it and what it promises.
 *
 *     aclmem_pool *pool;
 *     void *ptr;
 *
 *     aclmem_pool_create(0, NULL, &pool);
 *     aclmem_pool_malloc(pool, size, stream, &ptr);
 *     ... work on the stream ...
 *     aclmem_pool_free(pool, ptr);
 *     aclmem_pool_destroy(pool);
 *
 * Memory is ordered by streams: a block may be used on the stream that it was asked for,
 * and is free as soon as that stream has done what was queued before the free.  The
 * program reports each other stream that uses a block with aclmem_pool_use().
 *
 * All functions may be called from any thread, whether it has a device set or not.  They
 * return ACL_SUCCESS, an error of the function that failed beneath them, or one of
 *
 *     ACL_ERROR_INVALID_PARAM           an argument is wrong
 *     ACL_ERROR_RT_MEMORY_ALLOCATION    no memory, of the device or of the host
 *
 * and aclmem_pool_message() then says more.
 */
#ifndef ACLMEM_POOL_H
#define ACLMEM_POOL_H

#include <stddef.h>
#include <stdint.h>

#include "acl/acl_rt.h"

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(default)

typedef struct aclmem_pool aclmem_pool;

#define ACLMEM_POOL_KEEP_ALL ((size_t)-1)

/*
 * Streams that are not AscendCL's, such as those of a framework on another runtime: how to
 * order them.  Each function returns 0 or an error.  `aclrtStream` then stands for such a
 * stream in all functions of the pool.
 */
typedef struct aclmem_pool_stream_ops {
    int (*event_create)(void **event);
    int (*event_destroy)(void *event);
    int (*event_record)(void *event, void *stream);
    int (*event_query)(void *event, int *is_done);
    int (*event_synchronize)(void *event);
    int (*stream_wait)(void *stream, void *event);
    int (*stream_synchronize)(void *stream);
    int (*device_synchronize)(void);
} aclmem_pool_stream_ops;

/*
 * A page may stay mapped where it was when it moves to another place, and come back without a call.
 * Blocks use it in one place at a time: work in another place comes later in stream order, or begins
 * when the work in the first is over.  For devices on which memory may be used through one mapping
 * after another: NVIDIA's documents allow it, AscendCL's do not say.
 */
#define ACLMEM_POOL_ALIASES 0x1U

/* Zero means the default, everywhere. */
typedef struct aclmem_pool_options {
    /* Bytes of device memory held at most, up to a whole page; default: what the device has. */
    size_t limit;
    /*
     * Bytes that stay mapped although no block is there, for the next one; default:
     * ACLMEM_POOL_KEEP_ALL.  1 keeps none.
     */
    size_t keep;
    /*
     * Bytes that are idle but still have queued work, up to which the pool rather takes new
     * memory than waits for that work; default: 1/256 of what is held.
     */
    size_t slack;
    size_t span; /* bytes of addresses reserved at a time; default: twice the limit */
    const aclmem_pool_stream_ops *stream_ops; /* copied; default: aclrt functions */
    uint64_t flags;                           /* ACLMEM_POOL_ALIASES, or none */
    uint64_t rsv[6];                          /* 0 */
} aclmem_pool_options;

/*
 * In the thread's current context, which is one of the device; options may be NULL.  Stream NULL is
 * that context's default stream in all functions of the pool, whichever context a caller has.
 */
aclError aclmem_pool_create(int32_t device, const aclmem_pool_options *options,
                            aclmem_pool **pool);
/*
 * Refused while blocks are live; waits for queued work on freed ones.  Comes before the device is
 * reset and before aclFinalize: afterwards it fails.  When it fails the pool is whole.
 */
aclError aclmem_pool_destroy(aclmem_pool *pool);

/* A block at a multiple of 512 bytes; size 0 is refused. */
aclError aclmem_pool_malloc(aclmem_pool *pool, size_t size, aclrtStream stream,
                            void **ptr);

/* The block has whole pages in one handle, which may be exported. */
#define ACLMEM_POOL_EXPORTABLE 0x1U

/* The same, with flags, and a tag of the caller's for aclmem_pool_sleep(). */
aclError aclmem_pool_malloc_tagged(aclmem_pool *pool, size_t size, aclrtStream stream,
                                   uint32_t tag, uint32_t flags, void **ptr);

/* Another limit; what is held already stays. */
aclError aclmem_pool_set_limit(aclmem_pool *pool, size_t limit);

/* How many bytes a live block was asked for with; a pointer inside one is refused. */
aclError aclmem_pool_size(aclmem_pool *pool, const void *ptr, size_t *size);

/* Gives a block back, in the order of the stream that it was asked for. */
aclError aclmem_pool_free(aclmem_pool *pool, void *ptr);
/* Another stream has work on the block: the free waits for that too. */
aclError aclmem_pool_use(aclmem_pool *pool, void *ptr, aclrtStream stream);

/*
 * The stream will be destroyed: waits for its work, and forgets it.  A program that destroys a stream
 * without this has waited for the stream's work itself.  A pool knows 62 streams at a time; for
 * the work of others it waits for the whole device.
 */
aclError aclmem_pool_forget_stream(aclmem_pool *pool, aclrtStream stream);

/*
 * While a graph is captured on its streams, a pool may neither record events nor ask for
 * any.  A frozen one takes new memory instead.
 */
aclError aclmem_pool_freeze(aclmem_pool *pool, int is_frozen);

/*
 * A captured model uses the pool's memory, also of blocks that are freed before it runs.  Until
 * aclmdlRIDestroy the pool is frozen and keeps its pages, and it cannot be destroyed.  A private
 * pool for several models takes each of them.  keep is the default, and libascendcl.so has
 * aclmdlRIDestroyRegisterCallback (CANN 9.1), else 207000.
 */
aclError aclmem_pool_add_model(aclmem_pool *pool, aclmdlRI model);

/*
 * Gives idle memory back to the device until at most `keep` idle bytes are left.  What has
 * queued work stays.
 */
aclError aclmem_pool_trim(aclmem_pool *pool, size_t keep);

#define ACLMEM_POOL_ALL_TAGS 0xFFFFFFFFU

/*
 * Takes the memory from behind the blocks with the tag and gives it to the device; their
 * addresses stay.  Waits for all work of the device.  With keep_contents their bytes are
 * saved in host memory.  Exportable blocks stay awake.
 */
aclError aclmem_pool_sleep(aclmem_pool *pool, uint32_t tag, int keep_contents);
/*
 * Puts memory behind them again, and their bytes, if they were kept.  When it fails some
 * are awake, and the next call goes on with the rest.
 */
aclError aclmem_pool_wake(aclmem_pool *pool, uint32_t tag);

/*
 * The handle of an exportable block, for aclrtMemExportToShareableHandle and its second
 * version.  It belongs to the pool.  An importer maps it as one range.
 */
aclError aclmem_pool_handle(aclmem_pool *pool, void *ptr, aclrtDrvMemHandle *handle);

/*
 * Called without a lock when memory runs out, before the allocation fails, in the order of
 * registration; there may be 16.  A function that freed something returns other than 0, and the
 * allocation is tried again, up to 8 times.  It may use the pool, but not destroy it; where it
 * asks a pool for memory itself, no function is called for that.
 */
typedef int (*aclmem_pool_oom_fn)(void *arg, size_t wanted);
aclError aclmem_pool_on_oom(aclmem_pool *pool, aclmem_pool_oom_fn fn, void *arg);

#define ACLMEM_POOL_SIZES 48

typedef struct aclmem_pool_stats {
    uint64_t live;      /* bytes in blocks, as asked for; they take multiples of 512 */
    uint64_t n_live;    /* blocks */
    uint64_t peak_live; /* exact while one stream at a time is at work, else sampled */
    uint64_t held;      /* bytes of device memory */
    uint64_t peak_held;
    uint64_t cached; /* in freed blocks that wait for one of the same size and stream */
    uint64_t idle;   /* in pages without a block */
    uint64_t lost;   /* in pages with blocks, but in none, at borders */
    uint64_t exportable; /* bytes of blocks in handles of their own */
    uint64_t asleep;     /* bytes of blocks without memory */
    uint64_t runs;       /* rows of blocks without a gap; the bound is 2 pages for each */
    uint64_t mallocs;    /* calls, as the next ones */
    uint64_t hits;       /* that took a freed block of the same size and stream */
    uint64_t creates;    /* pages made */
    uint64_t remaps;     /* pages moved by calls */
    uint64_t waits;      /* times that a call waited for queued work */
    uint64_t by_size[ACLMEM_POOL_SIZES]; /* live blocks of 2^i to 2^(i+1) - 1 bytes */
    uint64_t returns; /* pages moved without a call, to a place that mapped them still */
    uint64_t models;  /* captured models that use the memory */
    uint64_t rsv[6];  /* 0 */
} aclmem_pool_stats;

aclError aclmem_pool_get_stats(aclmem_pool *pool, aclmem_pool_stats *stats);
/* The peaks become what is there now. */
aclError aclmem_pool_reset_peaks(aclmem_pool *pool);

/*
 * All blocks and figures as JSON: {"device", "page", "limit", "stats": {...}, "blocks": [{"address",
 * "size", "tag", "stream", "state"}]}.  A state is "live", "asleep", "exportable", or "cached": freed
 * and kept for the next block of its size.  The text is the caller's to free().
 */
aclError aclmem_pool_snapshot(aclmem_pool *pool, char **json);

/* The message of the thread's last failed call of any pool; "" when none failed. */
const char *aclmem_pool_message(void);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif
