/*
 * Heaps: the blocks of aclrtMalloc, aclrtMallocHost and related functions.
 *
 * Each device has a heap; so has the host, whose memory is pinned.  (On products in RC
 * form pinned memory is the device's, so there each device has two.)  A heap takes memory
 * from its domain in runs (core/heap/heap_run.h): chunks of 2 MB cut into blocks of one size class
 * for up to 1 MB, whole chunks for more.
 *
 * The way of a small block is from the run to a list of the thread's own and to the
 * program, and back the same way: a lock is taken for every few blocks.  Large blocks,
 * and those above 32 KB, take it each time; but where several threads use the heap, each
 * keeps a few of those that it frees.
 *
 * The domain is charged for whole runs.  A run in which no block is live or pinned is
 * idle: it is kept for later, up to a limit, and does not count as used; when the domain
 * runs short, all idle runs go, also those whose free blocks are in lists of threads.
 *
 * Invariants, under heap->lock: every run that has memory is in `all`; it is in its
 * class's tree if some blocks are in, and among the empty ones if all are; empty_size is
 * the sum of their sizes.
 */
#ifndef AM_CORE_HEAP_H
#define AM_CORE_HEAP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "acl/acl_base.h"
#include "base/lock.h"
#include "core/device/device.h"
#include "core/heap/heap_run.h"
#include "core/heap/sizeclass.h"
#include "core/vmm/vspace.h"

enum am_heap_kind { AM_HEAP_DEVICE, AM_HEAP_HOST, AM_HEAP_KINDS };

/* The owner of the memory; work in flight pins blocks through it. */
extern const struct am_owner am_heap_owners[AM_HEAP_KINDS];

#define AM_HEAPS ((AM_DEVICES_MAX + 1) * AM_HEAP_KINDS)
#define AM_MODULES 128
#define AM_MODULE_APP 33 /* the program itself, where it says nothing */

struct am_heap {
    _Atomic(const struct am_classes *) classes; /* NULL: was never opened */
    enum am_heap_kind kind;
    int32_t device;
    uint32_t index;         /* in am_heaps */
    atomic_uint n_lists;    /* threads that have lists of it: core/heap/heap_cache.h */
    atomic_size_t capacity; /* of the domain, also of one that is gone */
    atomic_size_t kept_max; /* bytes of large blocks that each of these keeps */
    /* Written under lock; NULL: closed.  The devices hold the reference. */
    _Atomic(struct am_domain *) domain;
    _Atomic(struct am_run *) newest; /* every run that was ever made, by `older` */
    atomic_size_t n_made;            /* of these */
    atomic_size_t n_listed;          /* of these, in `all`; written under lock */

    /* In lines of its own: what is above is read by threads that need no lock. */
    _Alignas(64) struct am_lock lock;
    struct am_run_list all; /* lock, as all below */
    struct am_run_tree partial[AM_CLASSES_MAX];
    struct am_run_stack spare[AM_CLASSES_MAX + 1]; /* without memory; last: large ones */
    struct am_run_queue empty;                     /* oldest first */
    size_t empty_size;
    /*
     * Bytes of blocks that belong to other modules than the program, and the highest.  Less
     * than 0 for a moment where a reset takes a block that is not yet counted.
     */
    struct {
        _Atomic int64_t now;
        _Atomic int64_t peak;
    } modules[AM_MODULES];
};

/* Heaps exist for ever, so no pointer to one is stale; a closed one gives nothing. */
extern struct am_heap am_heaps[AM_HEAPS];

/* device -1: the host. */
static inline struct am_heap *am_heap_of(int32_t device, enum am_heap_kind kind)
{
    return &am_heaps[(device + 1) * AM_HEAP_KINDS + (int32_t)kind];
}

/* The heaps of a domain, at the start and the stop of the library and at a reset. */
void am_heap_open(struct am_domain *domain);
void am_heap_close(struct am_domain *domain);
void am_heap_kill(struct am_domain *domain);

/* The idle runs of a domain, for am_domain_set_reclaim(). */
extern const struct am_reclaim am_heap_reclaim;

#define AM_HEAP_PAD 32 /* bytes that aclrtMalloc adds on most products */

/*
 * The bytes that a block takes.  The default rules let the program use all of them, the
 * strict ones only those that it asked for.
 */
static inline size_t am_heap_room(enum am_heap_kind kind, size_t asked, size_t pad)
{
    return kind == AM_HEAP_DEVICE ? am_align_up(asked, 32) + pad : asked;
}

/*
 * A block of `asked` bytes, not 0, and pad (0 or AM_HEAP_PAD), with pages of 4096 bytes,
 * 2 MB, or 1 GB, which the memory is then a multiple of.
 */
aclError am_heap_malloc(struct am_heap *heap, size_t asked, size_t pad, uint32_t page,
                        unsigned module, void **ret_addr);
/* Refuses with 107000 what is not the start of a live block of a heap of this kind. */
aclError am_heap_free(enum am_heap_kind kind, void *addr);

/* Information about a live block for the program. */
struct am_block_info {
    struct am_bounds bounds;
    enum am_heap_kind kind;
    int32_t device; /* -1: the host */
    uint32_t page;
};
/* False when addr lies in no live block. */
bool am_heap_find(const void *addr, struct am_block_info *ret_info);

/*
 * The memory of the live block at addr, with one more reference, to be shared with other
 * processes: it is not allocated again after the block is freed.  Refuses with 107000 a
 * block that has no memory of its own, and more bytes than it has.
 */
aclError am_heap_share(void *addr, size_t size, struct am_phys **ret_phys);

/*
 * How many blocks of this kind are live; *size, if it is not NULL, grows by the bytes that
 * were asked for in them.
 */
uint64_t am_heap_count(enum am_heap_kind kind, uint64_t *size);

/*
 * A block of another module than the program, which has the rest: only these are counted
 * one by one.
 */
void am_heap_count_module(struct am_heap *heap, unsigned module, size_t size);
/*
 * A block with this word is no longer the program's: its module has as much less.  `large`
 * is the run's, read while it was the block's.
 */
void am_heap_uncount(struct am_run *run, uint64_t word, size_t large);

#endif
