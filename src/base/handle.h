/*
 * Handles for the program, and the objects that they name.
 *
 * A handle is a number, not an address.  It contains a mark, the kind of the object, the
 * number of a slot in the handle table, and the slot's generation:
 *
 *     0x40 + kind (8 bits) | generation (28) | slot (28)
 *
 * So a stale handle, a handle of another kind and an arbitrary number are distinguished, and
 * none is ever dereferenced (the mark makes it an address that no machine accepts).
 *
 * An object is a heap allocation that begins with struct am_named.  am_named_alloc()
 * reserves the slot, so that publishing the handle cannot fail.  Lookups take no lock: they
 * run in a read section (base/epoch.h), and am_named_free() defers the free until the
 * sections that may have found the object have ended.
 */
#ifndef AM_BASE_HANDLE_H
#define AM_BASE_HANDLE_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "base/epoch.h"

enum am_kind {
    AM_KIND_NONE,
    AM_KIND_PHYS,
    AM_KIND_CONTEXT,
    AM_KIND_STREAM,
    AM_KIND_EVENT,
    AM_KIND_NOTIFY,
    AM_KIND_POOL,
    AM_KIND_ALLOCATOR,
    AM_KIND_MODEL,
    AM_KIND_LANE,
    AM_KIND_TASK_GROUP,
    AM_KIND_CONDITION,
    AM_KIND_COUNT,
};

#define AM_HANDLE_BITS 28 /* of a slot number and of a generation */
#define AM_HANDLE_MAX ((1u << AM_HANDLE_BITS) - 1)
#define AM_HANDLE_MARK 0x40u

/* AM_KIND_NONE for a value that cannot be a handle of this library. */
static inline enum am_kind am_handle_kind(const void *handle)
{
    unsigned mark = (unsigned)((uintptr_t)handle >> 56);
    unsigned kind = mark & ~AM_HANDLE_MARK;

    if ((mark & AM_HANDLE_MARK) == 0 || kind >= AM_KIND_COUNT)
        return AM_KIND_NONE;
    return (enum am_kind)kind;
}

/* The first member of every object. */
struct am_named {
    struct am_deferred deferred;
    /* The object's fields that are used most come next, in the same cache lines. */
    _Atomic(void *) handle; /* NULL: not published, or removed */
    atomic_uint refs;
    uint32_t slot : AM_HANDLE_BITS;
    uint32_t kind : 4; /* enum am_kind */
};
_Static_assert(AM_KIND_COUNT <= 16, "am_named.kind has 4 bits");

/*
 * A zeroed object of `size` bytes with one reference and no handle yet; NULL if there is no
 * memory.
 */
void *am_named_alloc(enum am_kind kind, size_t size);
/* Lookups find the object from now on; the caller has initialised it.  The handle. */
void *am_named_publish(struct am_named *object);
/* Lookups do not find the object any more; no effect if it has no handle. */
void am_named_unpublish(struct am_named *object);
/* Unpublishes the object and frees its memory after all current read sections. */
void am_named_free(struct am_named *object);
/* One reference less, and the last one frees the object; NULL has no effect. */
void am_named_put(struct am_named *object);

/* The object of this handle, or NULL; valid until the caller's read section ends. */
void *am_named_find(enum am_kind kind, void *handle);
/* The same with one more reference; NULL also if the last reference has been dropped. */
void *am_named_get(enum am_kind kind, void *handle);

/*
 * The first published object of this kind in slots from *at on, which moves behind it; NULL:
 * none.  Valid until the caller's read section ends.
 */
void *am_named_next(enum am_kind kind, uint32_t *at);

/* Why am_named_find() found nothing: "is a context, ...": for a message. */
const char *am_handle_why(enum am_kind kind, void *handle);

#endif
