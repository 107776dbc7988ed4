/* See idmap.h. */
#include "base/idmap.h"

#include "base/error.h"
#include "base/sys.h"
#include "base/util.h"

#define SLOT_BITS 28
#define SLOT_MASK ((1u << SLOT_BITS) - 1)
#define MARK 0x40u
#define NO_SLOT UINT32_MAX

static void *handle_make(enum am_kind kind, uint32_t generation, uint32_t slot)
{
    uint64_t value =
        (uint64_t)(MARK | kind) << 56 | (uint64_t)generation << SLOT_BITS | slot;

    return (void *)(uintptr_t)value;
}

/* AM_KIND_NONE for a value that cannot be a handle of ours. */
static enum am_kind handle_kind(void *handle)
{
    unsigned mark = (unsigned)((uintptr_t)handle >> 56);
    unsigned kind = mark & ~MARK;

    if ((mark & MARK) == 0 || kind >= AM_KIND_COUNT)
        return AM_KIND_NONE;
    return (enum am_kind)kind;
}

static uint32_t handle_slot(void *handle)
{
    return (uint32_t)(uintptr_t)handle & SLOT_MASK;
}

static uint32_t handle_generation(void *handle)
{
    return (uint32_t)((uintptr_t)handle >> SLOT_BITS) & SLOT_MASK;
}

static void idmap_free_slot_locked(struct am_idmap *map, uint32_t slot)
    AM_REQUIRES(map->lock)
{
    map->slots[slot].next = NO_SLOT;
    if (map->first_free == NO_SLOT)
        map->first_free = slot;
    else
        map->slots[map->last_free].next = slot;
    map->last_free = slot;
}

static int idmap_grow_locked(struct am_idmap *map) AM_REQUIRES(map->lock)
{
    uint32_t n = map->n_slots == 0 ? 256 : map->n_slots * 2;
    struct am_idslot *slots;

    if (n > SLOT_MASK)
        return -ENOMEM;
    slots = am_sys_realloc(map->slots, n * sizeof *slots);
    if (slots == NULL)
        return -ENOMEM;
    map->slots = slots;
    for (uint32_t i = map->n_slots; i < n; i++) {
        slots[i] = (struct am_idslot){.generation = 1};
        idmap_free_slot_locked(map, i);
    }
    map->n_slots = n;
    return 0;
}

int am_idmap_add(struct am_idmap *map, enum am_kind kind, struct am_object *object,
                 void **ret_handle)
{
    int rc = 0;

    am_latch_take(&map->lock);
    if (map->first_free == NO_SLOT)
        rc = idmap_grow_locked(map);
    if (rc == 0) {
        uint32_t slot = map->first_free;
        struct am_idslot *s = &map->slots[slot];

        map->first_free = s->next;
        s->object = object;
        s->kind = kind;
        *ret_handle = handle_make(kind, s->generation, slot);
    }
    am_latch_give(&map->lock);
    return rc;
}

/* The slot that handle names, if it is in use; kind is compared too. */
AM_HOT static struct am_idslot *idmap_find_locked(struct am_idmap *map, enum am_kind kind,
                                                  void *handle) AM_REQUIRES(map->lock)
{
    uint32_t slot = handle_slot(handle);
    struct am_idslot *s;

    if (kind == AM_KIND_NONE || handle_kind(handle) != kind || slot >= map->n_slots)
        return NULL;
    s = &map->slots[slot];
    if (s->object == NULL || s->kind != kind ||
        s->generation != handle_generation(handle))
        return NULL; /* also a number that was made up from another handle's */
    return s;
}

void am_idmap_remove(struct am_idmap *map, void *handle)
{
    struct am_idslot *s;

    am_latch_take(&map->lock);
    s = idmap_find_locked(map, handle_kind(handle), handle);
    am_assert(s != NULL);
    if (s != NULL) {
        s->object = NULL;
        s->generation = (s->generation + 1) & SLOT_MASK;
        idmap_free_slot_locked(map, handle_slot(handle));
    }
    am_latch_give(&map->lock);
}

AM_HOT struct am_object *am_idmap_get(struct am_idmap *map, enum am_kind kind,
                                      void *handle)
{
    struct am_object *object = NULL;
    struct am_idslot *s;

    am_latch_take(&map->lock);
    s = idmap_find_locked(map, kind, handle);
    if (s != NULL && am_ref_try(&s->object->refs))
        object = s->object;
    am_latch_give(&map->lock);
    return object;
}

const char *am_idmap_why(enum am_kind kind, void *handle)
{
    static const char *const is_another[AM_KIND_COUNT] = {
        [AM_KIND_NONE] = "was never handed out by this process",
        [AM_KIND_PHYS] = "is a handle of physical memory, another kind",
        [AM_KIND_CONTEXT] = "is a context, another kind of handle",
        [AM_KIND_STREAM] = "is a stream, another kind of handle",
        [AM_KIND_EVENT] = "is an event, another kind of handle",
        [AM_KIND_NOTIFY] = "is a notify, another kind of handle",
        [AM_KIND_POOL] = "is a memory pool, another kind of handle",
        [AM_KIND_ALLOCATOR] = "is an allocator, another kind of handle",
    };
    enum am_kind given = handle_kind(handle);

    return given == kind
               ? "is not alive: it was freed, or went with its device, or was never made"
               : is_another[given];
}
