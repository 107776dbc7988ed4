/* See handle.h. */
#include "base/handle.h"

#include <stdlib.h>

#include "base/lock.h"
#include "base/sys.h"
#include "base/util.h"

/*
 * Slots lie in segments of 64, 64, 128, 256, ... slots that are never freed, so lookups need
 * no lock.
 */
#define FIRST_SEGMENT 64u
#define SEGMENTS 23

struct slot {
    _Atomic(struct am_named *) object; /* NULL: not published */
    uint32_t generation
        : AM_HANDLE_BITS; /* of the next handle; its object's owner writes it */
    uint32_t shard : 4;   /* that it belongs to */
    uint32_t next;        /* the shard's lock; in the free list: the next + 1 */
};

/*
 * Threads of a shard reserve slots of the shard, so threads do not contend.  A shard gets slots
 * in batches, and keeps them.
 */
#define BATCH FIRST_SEGMENT
#define SHARDS 16 /* slot.shard has 4 bits */

struct slot_shard {
    _Alignas(AM_SHARD_STRIDE) struct am_latch lock;
    uint32_t free_list; /* lock; the first free slot + 1; 0: none */
    uint32_t next;      /* lock; next .. end - 1 were never used */
    uint32_t end;       /* lock */
};

static struct {
    _Atomic uint32_t end; /* batches from here on belong to no shard */
    _Atomic(struct slot *) segments[SEGMENTS];
    struct slot_shard shard[SHARDS];
} table = {.shard = {[0 ... SHARDS -
                      1] = {.lock = AM_LATCH_INIT(AM_RANK_LEAF, "handle table")}}};

static unsigned segment_of(uint32_t number)
{
    return number < FIRST_SEGMENT ? 0 : 26 - (unsigned)__builtin_clz(number);
}

static uint32_t segment_first(unsigned segment)
{
    return segment == 0 ? 0 : FIRST_SEGMENT << (segment - 1);
}

/* NULL: no segment has that slot yet. */
static struct slot *slot_find(uint32_t number)
{
    unsigned segment = segment_of(number);
    struct slot *slots =
        atomic_load_explicit(&table.segments[segment], memory_order_acquire);

    return slots != NULL ? &slots[number - segment_first(segment)] : NULL;
}

/* The segment exists from now on: 0 or -ENOMEM. */
static int segment_prepare(unsigned segment)
{
    uint32_t n = segment == 0 ? FIRST_SEGMENT : segment_first(segment);
    struct slot *none = NULL;
    struct slot *slots;

    if (atomic_load_explicit(&table.segments[segment], memory_order_acquire) != NULL)
        return 0;
    slots = am_sys_calloc(n, sizeof *slots);
    if (slots != NULL &&
        !atomic_compare_exchange_strong(&table.segments[segment], &none, slots))
        free(slots); /* another thread was faster */
    return slots != NULL ? 0 : -ENOMEM;
}

static int batch_take_locked(struct slot_shard *shard) AM_REQUIRES(shard->lock)
{
    uint32_t first = table.end;

    do {
        if (first > AM_HANDLE_MAX || segment_prepare(segment_of(first)) != 0)
            return -ENOMEM;
    } while (!atomic_compare_exchange_weak(&table.end, &first, first + BATCH));
    shard->next = first;
    shard->end = first + BATCH;
    return 0;
}

/* Reserves a slot for an object: 0 or -ENOMEM. */
static int slot_alloc(uint32_t *ret_number)
{
    unsigned i = am_shard() % SHARDS;
    struct slot_shard *shard = &table.shard[i];
    int rc = 0;

    am_latch_take(&shard->lock);
    if (shard->free_list != 0) {
        *ret_number = shard->free_list - 1;
        shard->free_list = slot_find(*ret_number)->next;
    } else {
        if (shard->next == shard->end)
            rc = batch_take_locked(shard);
        if (rc == 0) {
            *ret_number = shard->next++;
            slot_find(*ret_number)->shard = i & (SHARDS - 1);
        }
    }
    am_latch_give(&shard->lock);
    return rc;
}

static void slot_free(uint32_t number)
{
    struct slot *slot = slot_find(number);
    struct slot_shard *shard = &table.shard[slot->shard];

    am_latch_take(&shard->lock);
    slot->next = shard->free_list;
    shard->free_list = number + 1;
    am_latch_give(&shard->lock);
}

void *am_named_alloc(enum am_kind kind, size_t size)
{
    struct am_named *object = am_sys_calloc(1, size);
    uint32_t number;

    if (object == NULL)
        return NULL;
    if (slot_alloc(&number) != 0) {
        free(object);
        return NULL;
    }
    atomic_init(&object->refs, 1);
    object->slot = number & AM_HANDLE_MAX;
    object->kind = kind;
    return object;
}

void *am_named_publish(struct am_named *object)
{
    struct slot *slot = slot_find(object->slot);
    uint64_t value = (uint64_t)(AM_HANDLE_MARK | object->kind) << 56 |
                     (uint64_t)slot->generation << AM_HANDLE_BITS | object->slot;

    atomic_store_explicit(&object->handle, (void *)(uintptr_t)value,
                          memory_order_relaxed);
    atomic_store_explicit(&slot->object, object, memory_order_release);
    return (void *)(uintptr_t)value;
}

void am_named_unpublish(struct am_named *object)
{
    struct slot *slot = slot_find(object->slot);

    if (object->handle == NULL)
        return;
    atomic_store_explicit(&slot->object, NULL, memory_order_release);
    atomic_store_explicit(&object->handle, NULL, memory_order_release);
    slot->generation = (slot->generation + 1) & AM_HANDLE_MAX;
}

static void object_free(struct am_deferred *deferred)
{
    struct am_named *object = AM_CONTAINER_OF(deferred, struct am_named, deferred);

    slot_free(object->slot);
    free(object);
}

void am_named_free(struct am_named *object)
{
    am_named_unpublish(object);
    am_epoch_defer(&object->deferred, object_free);
}

void am_named_put(struct am_named *object)
{
    if (object != NULL && am_ref_drop(&object->refs))
        am_named_free(object);
}

AM_HOT void *am_named_find(enum am_kind kind, void *handle)
{
    uint32_t number = (uint32_t)(uintptr_t)handle & AM_HANDLE_MAX;
    struct am_named *object;
    struct slot *slot;

    if (am_handle_kind(handle) != kind)
        return NULL;
    slot = slot_find(number);
    if (slot == NULL)
        return NULL;
    object = atomic_load_explicit(&slot->object, memory_order_acquire);
    if (object == NULL ||
        atomic_load_explicit(&object->handle, memory_order_relaxed) != handle)
        return NULL;
    return object;
}

AM_HOT void *am_named_get(enum am_kind kind, void *handle)
{
    struct am_named *object = am_named_find(kind, handle);

    return object != NULL && am_ref_try(&object->refs) ? object : NULL;
}

void *am_named_next(enum am_kind kind, uint32_t *at)
{
    struct am_named *object = NULL;

    while (object == NULL && *at < table.end) {
        object = atomic_load_explicit(&slot_find((*at)++)->object, memory_order_acquire);
        if (object != NULL && object->kind != kind)
            object = NULL;
    }
    return object;
}

const char *am_handle_why(enum am_kind kind, void *handle)
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
        [AM_KIND_MODEL] = "is a model, which is another kind of handle",
        [AM_KIND_LANE] = "is a stream of a model, which is another kind of handle",
        [AM_KIND_TASK_GROUP] = "is a task group, which is another kind of handle",
        [AM_KIND_CONDITION] = "is a condition, which is another kind of handle",
    };
    enum am_kind given = am_handle_kind(handle);

    return given == kind
               ? "is not alive: it was freed, or ended with its device, or never existed"
               : is_another[given];
}
