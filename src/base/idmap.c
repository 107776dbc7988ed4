/* See idmap.h. */
#include "base/idmap.h"

#include "base/error.h"
#include "base/keep.h"
#include "base/sys.h"
#include "base/util.h"

#define NO_SLOT UINT32_MAX
#define BATCH 256u /* slots that go between a shard's list and the one for all */
#define PART_MAX (2 * BATCH) /* slots that a shard's list keeps */

/* NULL where no segment has that slot yet. */
AM_HOT static struct am_idslot *slot_at(struct am_idmap *map, uint32_t slot)
{
    uint32_t segment = am_id_segment(slot);
    struct am_idslot *slots =
        atomic_load_explicit(&map->segments[segment], memory_order_acquire);

    return slots != NULL ? &slots[slot - am_id_first(segment)] : NULL;
}

/*
 * ---- lists of free slots; the caller has the list's latch, or the list is its own ----
 */

static void list_append(struct am_idmap *map, struct am_idlist *list, uint32_t slot)
{
    slot_at(map, slot)->next = NO_SLOT;
    if (list->n++ == 0)
        list->first = slot;
    else
        slot_at(map, list->last)->next = slot;
    list->last = slot;
}

static uint32_t list_pop(struct am_idmap *map, struct am_idlist *list)
{
    uint32_t slot = list->first;

    list->first = slot_at(map, slot)->next;
    list->n--;
    return slot;
}

/* The oldest n, or all where there are fewer. */
static struct am_idlist list_split(struct am_idmap *map, struct am_idlist *list,
                                   uint32_t n)
{
    struct am_idlist oldest = {.n = 0};

    while (oldest.n < n && list->n > 0)
        list_append(map, &oldest, list_pop(map, list));
    return oldest;
}

static void list_join(struct am_idmap *map, struct am_idlist *list,
                      const struct am_idlist *more)
{
    if (list->n == 0)
        list->first = more->first;
    else
        slot_at(map, list->last)->next = more->first;
    list->last = more->last;
    list->n += more->n;
}

static int idmap_grow_locked(struct am_idmap *map) AM_REQUIRES(map->lock)
{
    uint32_t segment = map->n_segments;
    uint32_t first = am_id_first(segment);
    uint32_t n;
    struct am_idslot *slots;

    if (segment == AM_IDMAP_SEGMENTS)
        return -ENOMEM;
    n = am_id_count(segment);
    slots = am_keep(n * sizeof *slots);
    if (slots == NULL)
        return -ENOMEM;
    for (uint32_t i = 0; i < n; i++)
        slots[i].generation = 1;
    atomic_store_explicit(&map->segments[segment], slots, memory_order_release);
    map->n_segments++;
    for (uint32_t i = 0; i < n; i++)
        list_append(map, &map->free, first + i);
    return 0;
}

/* Slots from the list for all into the shard's. */
static __attribute__((noinline)) int part_refill(struct am_idmap *map,
                                                 union am_idpart *part)
{
    struct am_idlist more = {.n = 0};
    int rc = 0;

    am_latch_take(&map->lock);
    if (map->free.n == 0)
        rc = idmap_grow_locked(map);
    if (rc == 0)
        more = list_split(map, &map->free, BATCH);
    am_latch_give(&map->lock);
    if (rc != 0)
        return rc;
    am_latch_take(&part->lock);
    list_join(map, &part->free, &more);
    am_latch_give(&part->lock);
    return 0;
}

int am_idmap_add(struct am_idmap *map, enum am_kind kind, struct am_object *object,
                 void **ret_handle)
{
    union am_idpart *part = &map->part[am_shard()];
    uint32_t slot = NO_SLOT;
    struct am_idslot *s;

    for (;;) {
        int rc;

        am_latch_take(&part->lock);
        if (part->free.n > 0)
            slot = list_pop(map, &part->free);
        am_latch_give(&part->lock);
        if (slot != NO_SLOT)
            break;
        rc = part_refill(map, part);
        if (rc != 0)
            return rc;
    }
    s = slot_at(map, slot);
    *ret_handle = am_id_handle(kind, s->generation, slot);
    /* A reader that loads this object has also loaded that the slot was emptied. */
    atomic_store_explicit(&s->object, object, memory_order_release);
    atomic_store_explicit(&s->handle, *ret_handle, memory_order_release);
    return 0;
}

void am_idmap_remove(struct am_idmap *map, void *handle)
{
    union am_idpart *part = &map->part[am_shard()];
    struct am_idlist surplus = {.n = 0};
    uint32_t slot = am_id_number(handle);
    struct am_idslot *s = slot_at(map, slot);

    am_assert(s != NULL && s->handle == handle);
    if (s == NULL || s->handle != handle)
        return;
    atomic_store_explicit(&s->handle, NULL, memory_order_release);
    s->generation = (s->generation + 1) & AM_ID_NUMBER_MAX;
    am_latch_take(&part->lock);
    list_append(map, &part->free, slot);
    if (part->free.n > PART_MAX)
        surplus = list_split(map, &part->free, BATCH);
    am_latch_give(&part->lock);
    if (surplus.n > 0) {
        am_latch_take(&map->lock);
        list_join(map, &map->free, &surplus);
        am_latch_give(&map->lock);
    }
}

AM_HOT struct am_object *am_idmap_get(struct am_idmap *map, enum am_kind kind,
                                      void *handle, void (*put)(struct am_object *object))
{
    struct am_object *object;
    struct am_idslot *s;

    if (kind == AM_KIND_NONE || am_id_kind(handle) != kind)
        return NULL;
    s = slot_at(map, am_id_number(handle));
    if (s == NULL || atomic_load_explicit(&s->handle, memory_order_acquire) != handle)
        return NULL; /* also a number that was made up from another handle's */
    object = atomic_load_explicit(&s->object, memory_order_acquire);
    am_prefetch(object, 256);
    /* The object is this handle's, or it was at least of this kind. */
    if (atomic_load_explicit(&s->handle, memory_order_acquire) != handle)
        return NULL;
    am_moment();
    if (!am_ref_try(&object->refs))
        return NULL;
    if (atomic_load_explicit(&s->handle, memory_order_acquire) == handle)
        return object;
    put(object); /* which may be the next object in the same memory by now */
    return NULL;
}

const char *am_idmap_why(enum am_kind kind, void *handle)
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
