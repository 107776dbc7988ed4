/*
 * Runs and shards of a heap.  A run is memory of a heap, cut into blocks
 * of one size class, or one large block.
 *
 * A run has one physical allocation and one mapping.  The records of its blocks are an array
 * outside the memory they describe.  A block is in use while it is live (the program has it)
 * or pinned (queued work or a host view uses it).  A block can be pinned only while it is
 * live; a block that is freed while it is pinned stays in use until its last pin ends.
 * Pinning takes no lock: the thread that changes the state of a block to 0, by a free or by the
 * last unpin, is the one that releases the block, with the lock of the shard.
 *
 * A run is in one of these states:
 *
 *     owned    by the thread that creates it, reuses it or destroys it; in no list
 *     used     has blocks in use; in shard->all, and in shard->partial if it has free ones
 *     idle     has none; in shard->all and shard->idle, and not charged to the domain
 *     resting  has none; stays as if it was used (shard->resting)
 *
 * A lookup finds a run through its mapping, in a read section; a run that is destroyed is
 * freed after all sections that could have found it.
 */
#ifndef AM_CORE_HEAP_RUN_H
#define AM_CORE_HEAP_RUN_H

#include <bsd/sys/tree.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "acl/acl_base.h"
#include "base/epoch.h"
#include "base/lock.h"
#include "core/heap/sizeclass.h"

struct am_domain;
struct am_heap_shard;
struct am_mapping;
struct am_owner;

struct am_block {
    size_t asked;           /* bytes that the program asked for */
    _Atomic uint32_t state; /* AM_BLOCK_LIVE, and the number of pins; 0: free */
    uint8_t module;
    uint8_t pad;        /* bytes that aclrtMalloc added */
    uint8_t page_shift; /* of the pages that the program asked for */
};
#define AM_BLOCK_LIVE (1u << 31)

struct am_run {
    struct am_heap_shard *shard;
    struct am_mapping *mapping;
    size_t size;
    unsigned class; /* AM_CLASS_LARGE: one large block */
    uint32_t n_blocks;
    size_t stride; /* bytes from a block to the next */

    /* shard->lock, unless the run is owned */
    uintptr_t start; /* the mapping's */
    size_t locked;   /* bytes from the start on that are usable; pinned memory: locked */
    uint32_t n_used; /* blocks in use */
    uint32_t hint;   /* all blocks of words of `used` below this one are in use */
    bool is_dead;    /* its device was reset, or it is shared: it does not become idle */
    bool is_partial; /* in shard->partial */
    RB_ENTRY(am_run) node;
    LIST_ENTRY(am_run) all;
    TAILQ_ENTRY(am_run) idle;
    SLIST_ENTRY(am_run) next; /* of a list of the owner */
    struct am_deferred deferred;
    uint64_t *used; /* a bit for each block in use */
    struct am_block blocks[];
};

RB_HEAD(am_run_tree, am_run);
LIST_HEAD(am_run_list, am_run);
TAILQ_HEAD(am_run_queue, am_run);
SLIST_HEAD(am_run_stack, am_run);

enum am_heap_kind { AM_HEAP_DEVICE, AM_HEAP_HOST, AM_HEAP_KINDS };

#define AM_HEAP_SHARDS 16
#define AM_MODULES 128

struct am_heap_shard {
    _Alignas(128) struct am_latch lock;
    struct am_heap *heap;
    struct am_run_list all; /* lock, as all below: runs that were published */
    struct am_run_tree partial[AM_CLASSES_MAX]; /* with free blocks and others */
    struct am_run_queue idle;                   /* oldest first */
    struct am_run *resting;  /* of host memory: the last run to become empty, or NULL */
    atomic_size_t idle_size; /* of idle runs, until they are charged or destroyed */
};

struct am_heap {
    const struct am_classes *classes; /* NULL: was never opened */
    enum am_heap_kind kind;
    const struct am_owner *owner; /* of the kind */
    int32_t device;
    unsigned n_shards; /* in use */
    size_t idle_max;   /* bytes of idle runs of a shard */
    /* NULL: closed.  The devices hold the reference. */
    _Atomic(struct am_domain *) domain;
    /* Bytes of blocks that belong to other modules than the program, and the highest. */
    struct {
        _Atomic uint64_t now;
        _Atomic uint64_t peak;
    } modules[AM_MODULES];
    struct am_heap_shard shards[AM_HEAP_SHARDS];
};

/*
 * A run that the caller owns: an idle one of the shard, charged again, or a new one.
 * `asked` is for the message of a failure.
 */
aclError am_run_get(struct am_heap_shard *shard, unsigned class, size_t size,
                    size_t asked, struct am_run **ret_run);
/* Unmaps the runs, which the caller owns. */
void am_run_destroy_all(struct am_run_stack *runs);

/* The block that the byte at offset belongs to; n_blocks or more behind the last one. */
static inline uint32_t am_run_index(const struct am_run *run, size_t offset)
{
    return run->n_blocks == 1 ? 0 : (uint32_t)offset / (uint32_t)run->stride;
}

/* The first block from i on that is in use; n_blocks: none. */
uint32_t am_run_next_used(const struct am_run *run, uint32_t i);

/* The functions below need the lock of the run's shard. */

/* The run that a block of the class is taken from: the lowest one; NULL: none. */
struct am_run *am_run_first_partial(struct am_heap_shard *shard, unsigned class);
/* A run that the caller owns gets into the lists of its shard. */
void am_run_publish_locked(struct am_run *run);
/* The lowest free block is in use from now on; there is one. */
aclError am_run_take_locked(struct am_run *run, struct am_block **ret_block);
/* The block is no longer in use. */
void am_run_release_locked(struct am_run *run, uint32_t i);
/*
 * Blocks were released: the run changes its lists.  Runs that the heap does not keep are
 * appended to `doomed`, for the caller to destroy without the lock.
 */
void am_run_settle_locked(struct am_run *run, struct am_run_stack *doomed);
/* All idle runs of the shard go to `doomed`. */
void am_shard_trim_locked(struct am_heap_shard *shard, struct am_run_stack *doomed);

#endif
