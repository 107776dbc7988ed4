/* See idslab.h. */
#include "base/idslab.h"

#include <string.h>

#include "base/error.h"
#include "base/keep.h"
#include "base/sys.h"
#include "base/util.h"

#define BATCH (AM_IDSLAB_PART / 2) /* objects between a shard and the list for all */
#define AHEAD 256 /* bytes that a lookup fetches: all of physical memory's record */

/* NULL where no segment has that number yet. */
AM_HOT static inline struct am_named *object_at(struct am_idslab *slab, uint32_t number)
{
    return (struct am_named *)am_idslab_place(slab, number);
}

/* The segment that begins with this number. */
AM_COLD static int segment_add_locked(struct am_idslab *slab, uint32_t number)
    AM_REQUIRES(slab->lock)
{
    uint32_t segment = am_id_segment(number);
    size_t size = slab->size * am_id_count(segment);
    char *objects;

    /* Processors fetch lines in pairs; large memory is aligned to more than that. */
    size += size < AM_KEEP_LARGE ? AM_SHARD_STRIDE : 0;
    if (size >= AM_KEEP_LARGE)
        size = am_align_up(size, AM_KEEP_LARGE);
    objects = am_keep(size);
    if (objects == NULL)
        return -ENOMEM;
    atomic_store_explicit(&slab->segments[segment],
                          (char *)am_align_up((uintptr_t)objects, AM_SHARD_STRIDE),
                          memory_order_release);
    return 0;
}

/* An object that was never used, or NULL. */
static struct am_named *object_new_locked(struct am_idslab *slab) AM_REQUIRES(slab->lock)
{
    uint32_t number = slab->end == 0 ? 1 : slab->end;
    struct am_named *named;

    if (number > AM_ID_NUMBER_MAX)
        return NULL;
    if (object_at(slab, number) == NULL && segment_add_locked(slab, number) != 0)
        return NULL;
    named = object_at(slab, number);
    named->number = number;
    named->generation = 1;
    slab->end = number + 1;
    return named;
}

/* Into the list for all; the first of them is used first. */
static void spare_push(struct am_idslab *slab, struct am_named *const *named, unsigned n)
{
    am_latch_take(&slab->lock);
    while (n-- > 0) {
        named[n]->next = slab->spare;
        slab->spare = named[n]->number;
    }
    am_latch_give(&slab->lock);
}

/* As many as there is room for; how many that were. */
static unsigned part_push(union am_idslab_part *part, struct am_named *const *named,
                          unsigned n)
{
    unsigned i;

    am_latch_take(&part->lock);
    for (i = 0; i < n && part->n < AM_IDSLAB_PART; i++)
        part->spare[(part->first + part->n++) % AM_IDSLAB_PART] = named[i];
    am_latch_give(&part->lock);
    return i;
}

/* An object from the list for all, or a new one, and more for the shard. */
static __attribute__((noinline)) struct am_named *slab_refill(struct am_idslab *slab,
                                                              union am_idslab_part *part)
{
    struct am_named *more[BATCH];
    unsigned n = 0;
    unsigned pushed;

    am_latch_take(&slab->lock);
    while (n < BATCH && slab->spare != 0) {
        more[n] = object_at(slab, slab->spare);
        slab->spare = more[n++]->next;
    }
    while (n < BATCH && (more[n] = object_new_locked(slab)) != NULL)
        n++;
    am_latch_give(&slab->lock);
    if (n == 0)
        return NULL;
    pushed = part_push(part, more + 1, n - 1);
    if (pushed < n - 1) /* another thread of this shard was faster */
        spare_push(slab, more + 1 + pushed, n - 1 - pushed);
    return more[0];
}

AM_HOT void *am_idslab_take(struct am_idslab *slab)
{
    union am_idslab_part *part = &slab->part[am_shard()];
    struct am_named *named = NULL;

    am_latch_take(&part->lock);
    if (part->n > 0) {
        named = part->spare[part->first];
        part->first = (part->first + 1) % AM_IDSLAB_PART;
        part->n--;
    }
    am_latch_give(&part->lock);
    return __builtin_expect(named != NULL, 1) ? named : slab_refill(slab, part);
}

void *am_idslab_take_zeroed(struct am_idslab *slab)
{
    struct am_named *named = am_idslab_take(slab);

    if (named != NULL)
        memset(named + 1, 0, slab->size - sizeof *named);
    return named;
}

void am_idslab_give(struct am_idslab *slab, struct am_named *named)
{
    union am_idslab_part *part = &slab->part[am_shard()];
    struct am_named *surplus[BATCH];
    unsigned n = 0;

    am_latch_take(&part->lock);
    if (__builtin_expect(part->n == AM_IDSLAB_PART, 0)) {
        for (; n < BATCH; n++)
            surplus[n] = part->spare[(part->first + n) % AM_IDSLAB_PART];
        part->first = (part->first + n) % AM_IDSLAB_PART;
        part->n -= n;
    }
    part->spare[(part->first + part->n++) % AM_IDSLAB_PART] = named;
    am_latch_give(&part->lock);
    if (__builtin_expect(n > 0, 0))
        spare_push(slab, surplus, n);
}

void *am_idslab_name(struct am_idslab *slab, struct am_named *named)
{
    void *handle = am_id_handle(slab->kind, named->generation, named->number);

    atomic_store_explicit(&named->handle, handle, memory_order_release);
    return handle;
}

void am_idslab_unname(struct am_named *named)
{
    atomic_store_explicit(&named->handle, NULL, memory_order_release);
    named->generation = (named->generation + 1) & AM_ID_NUMBER_MAX;
}

AM_HOT void *am_idslab_find(struct am_idslab *slab, void *handle)
{
    struct am_named *named;

    if (am_id_kind(handle) != slab->kind)
        return NULL;
    named = object_at(slab, am_id_number(handle));
    if (named == NULL ||
        atomic_load_explicit(&named->handle, memory_order_acquire) != handle)
        return NULL;
    return named;
}

AM_HOT void *am_idslab_get(struct am_idslab *slab, void *handle,
                           void (*put)(struct am_named *named))
{
    struct am_named *named;

    if (am_id_kind(handle) != slab->kind)
        return NULL;
    named = object_at(slab, am_id_number(handle));
    if (named == NULL)
        return NULL;
    am_prefetch(named, AHEAD);
    if (atomic_load_explicit(&named->handle, memory_order_acquire) != handle)
        return NULL; /* also a number that was made up from another handle's */
    am_moment();
    /*
     * The handle is removed before the memory has its next life, whose first reference is
     * stored with release order.  So the acquire of am_ref_try() shows the handle's end to a
     * reader whose reference is one of a later life: the same handle again is the same life.
     */
    if (!am_ref_try(&named->refs))
        return NULL;
    if (atomic_load_explicit(&named->handle, memory_order_acquire) == handle)
        return named;
    put(named); /* the next object in the same memory */
    return NULL;
}

void am_idslab_each(struct am_idslab *slab, void (*visit)(void *object, void *arg),
                    void *arg)
{
    uint32_t end;

    am_latch_take(&slab->lock);
    end = slab->end;
    am_latch_give(&slab->lock);
    for (uint32_t number = 1; number < end; number++)
        visit(object_at(slab, number), arg);
}

const char *am_id_why(enum am_kind kind, void *handle)
{
    static const char *const is_another[AM_KIND_COUNT] = {
        [AM_KIND_NONE] = "was never created by this process",
        [AM_KIND_PHYS] =
            "is a handle of physical memory, which is another kind of handle",
        [AM_KIND_CONTEXT] = "is a context, which is another kind of handle",
        [AM_KIND_STREAM] = "is a stream, which is another kind of handle",
        [AM_KIND_EVENT] = "is an event, which is another kind of handle",
        [AM_KIND_NOTIFY] = "is a notify, which is another kind of handle",
        [AM_KIND_POOL] = "is a memory pool, which is another kind of handle",
        [AM_KIND_ALLOCATOR] = "is an allocator, which is another kind of handle",
    };
    enum am_kind given = am_id_kind(handle);

    return given == kind
               ? "is not alive: it was freed, or ended with its device, or never existed"
               : is_another[given];
}
