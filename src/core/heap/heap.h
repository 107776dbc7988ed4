/*
 * Heaps: the blocks of aclrtMalloc, aclrtMallocHost and related functions.
 *
 * Each device has a heap; so has the host, whose memory is pinned.  (On products in RC
 * form pinned memory is the device's, so there each device has two.)  A heap takes memory
 * from its domain in runs (core/heap/heap_run.h): chunks of 2 MB cut into blocks of one
 * size class for up to 1 MB, whole chunks for one larger block.
 *
 * A heap has up to AM_HEAP_SHARDS shards (fewer on a small device), each with a lock and runs.  A
 * thread allocates from the shard of its number, and frees to the shard of the block's run.
 * If the domain has no memory for a new run, the thread takes a free block of another shard.
 *
 * The domain is charged for runs with a live or pinned block.  A run without one is idle.
 * The heap keeps idle runs for reuse, up to a sixteenth of the device.  Idle runs are not
 * charged, so every process can allocate these bytes.
 */
#ifndef AM_CORE_HEAP_H
#define AM_CORE_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "acl/acl_base.h"
#include "core/device/device.h"
#include "core/heap/heap_run.h"
#include "core/vmm/vspace.h"

/* The owner of the memory; work in flight pins blocks through it. */
extern const struct am_owner am_heap_owners[AM_HEAP_KINDS];

#define AM_HEAPS ((AM_DEVICES_MAX + 1) * AM_HEAP_KINDS)
#define AM_MODULE_APP 33     /* the program itself, where it says nothing */
#define AM_MODULE_NONE 255   /* the library: the block is not one of the program's */
#define AM_PINS_MAX 0xfffffu /* queued operations on one block */

/* Heaps are permanent, so no pointer to one is stale; a closed heap has no blocks. */
extern struct am_heap am_heaps[AM_HEAPS];

/* device -1: the host. */
static inline struct am_heap *am_heap_of(int32_t device, enum am_heap_kind kind)
{
    return &am_heaps[(device + 1) * AM_HEAP_KINDS + (int32_t)kind];
}

/* Whether the memory of the mapping is a heap's. */
static inline bool am_heap_owns(const struct am_mapping *mapping)
{
    return mapping->owner == &am_heap_owners[AM_HEAP_DEVICE] ||
           mapping->owner == &am_heap_owners[AM_HEAP_HOST];
}

/* The heaps of a domain, at the start and the stop of the library and at a reset. */
void am_heap_open(struct am_domain *domain);
/* Frees all of the heaps, which are closed with is_closed. */
void am_heap_kill(struct am_domain *domain, bool is_closed);

/* For am_reclaim: the idle runs of the heaps on the device of a domain. */
size_t am_heap_idle(struct am_domain *domain);
bool am_heap_trim(struct am_domain *domain);

#define AM_HEAP_PAD 32 /* bytes that aclrtMalloc adds on most products */

/*
 * The bytes that a block takes.  The default rules let the program use all of them, the
 * strict ones only the bytes that it asked for.
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
 * block that shares its chunks with other blocks, and more bytes than it has.
 */
aclError am_heap_share(void *addr, size_t size, struct am_phys **ret_phys);

/*
 * How many blocks of this kind are live; *size, if it is not NULL, grows by the bytes that
 * were asked for in them.
 */
uint64_t am_heap_count(enum am_heap_kind kind, uint64_t *size);

#endif
