/* The books of objects: check.h. */
#include <string.h>

#include "base/error.h"
#include "base/sys.h"
#include "base/util.h"
#include "layer/bytes.h"
#include "layer/check.h"
#include "layer/hold.h"
#include "layer/order.h"
#include "layer/pinned.h"
#include "layer/session.h"

struct am_books am_books = {
    .lock = AM_LOCK_INIT(AM_RANK_RUNTIME, "check"),
    .freed = TAILQ_HEAD_INITIALIZER(am_books.freed),
};

static int object_compare(const struct am_object *a, const struct am_object *b)
{
    return a->key < b->key ? -1 : a->key > b->key;
}

RB_GENERATE_INTERNAL(am_objects, am_object, node, object_compare,
                     __attribute__((unused)) static)

static const char *const names[] = {
    [AM_OBJECT_BLOCK] = "block",
    [AM_OBJECT_POOL_BLOCK] = "block of a pool",
    [AM_OBJECT_MANAGED] = "managed block",
    [AM_OBJECT_HOST] = "pinned block",
    [AM_OBJECT_REGISTERED] = "registered range",
    [AM_OBJECT_KEY] = "imported block",
    [AM_OBJECT_MAPPING] = "mapping",
    [AM_OBJECT_RESERVATION] = "reservation",
    [AM_OBJECT_PHYS] = "physical allocation",
    [AM_OBJECT_IMPORT] = "imported handle",
    [AM_OBJECT_STREAM] = "stream",
    [AM_OBJECT_EVENT] = "event",
    [AM_OBJECT_NOTIFY] = "notify",
    [AM_OBJECT_POOL] = "pool",
};

const char *am_object_name(enum am_object_kind kind)
{
    return names[kind];
}

static bool is_area(enum am_object_kind kind)
{
    return kind <= AM_OBJECT_MAPPING;
}

static struct am_objects *tree_of(const struct am_object *object)
{
    if (is_area(object->kind))
        return object->is_freed ? &am_books.gone : &am_books.areas;
    if (object->kind == AM_OBJECT_RESERVATION)
        return object->is_freed ? &am_books.released : &am_books.reservations;
    return &am_books.handles;
}

/* The object in the tree with the last start at addr or below. */
static struct am_object *find_below(struct am_objects *tree, uint64_t addr)
{
    struct am_object *at = RB_ROOT(tree);
    struct am_object *below = NULL;

    while (at != NULL) {
        if (at->key <= addr) {
            below = at;
            at = RB_RIGHT(at, node);
        } else {
            at = RB_LEFT(at, node);
        }
    }
    return below;
}

/* The object in the tree that addr lies in. */
static struct am_object *find_in(struct am_objects *tree, uint64_t addr)
{
    struct am_object *below = find_below(tree, addr);

    return below != NULL && addr - below->key < below->size ? below : NULL;
}

struct am_object *am_area_find(uint64_t addr)
{
    return find_in(&am_books.areas, addr);
}

struct am_object *am_gone_find(uint64_t addr)
{
    return find_in(&am_books.gone, addr);
}

struct am_object *am_reservation_find(uint64_t addr)
{
    return find_in(&am_books.reservations, addr);
}

struct am_object *am_released_find(uint64_t addr)
{
    return find_in(&am_books.released, addr);
}

struct am_object *am_area_before(uint64_t addr)
{
    return find_below(&am_books.areas, addr);
}

struct am_object *am_area_next(uint64_t addr)
{
    struct am_object key = {.key = addr};

    return RB_NFIND(am_objects, &am_books.areas, &key);
}

struct am_object *am_handle_find(enum am_object_kind kind, const void *handle)
{
    struct am_object key = {.key = (uintptr_t)handle};
    struct am_object *found = RB_FIND(am_objects, &am_books.handles, &key);

    if (found == NULL || found->kind == kind)
        return found;
    if (kind == AM_OBJECT_PHYS && found->kind == AM_OBJECT_IMPORT)
        return found;
    return NULL;
}

static void object_delete(struct am_object *object)
{
    object->is_dead = true;
    if (object->n_kept > 0)
        return;
    am_touch_forget(object->bytes);
    am_bytes_put(object->bytes);
    if (object->kind == AM_OBJECT_STREAM)
        am_actor_put(object->actor);
    if (object->kind == AM_OBJECT_EVENT || object->kind == AM_OBJECT_NOTIFY)
        am_signal_put(object->signal);
    free(object);
}

/*
 * Out of the list and the tree of what was freed.  Where the library has given the address
 * to another object the free of this one was not its business any more: a reset was.
 */
static void gone_forget(struct am_object *object)
{
    am_hold_forget(object);
    TAILQ_REMOVE(&am_books.freed, object, freed_link);
    am_books.n_freed--;
    RB_REMOVE(am_objects, tree_of(object), object);
    object_delete(object);
}

/* Addresses that are live again have no past: whatever lay there is forgotten. */
static void range_renew(struct am_objects *tree, uint64_t addr, uint64_t size)
{
    struct am_object key = {.key = addr};
    struct am_object *at = find_in(tree, addr);

    if (at != NULL)
        gone_forget(at);
    while ((at = RB_NFIND(am_objects, tree, &key)) != NULL && at->key - addr < size)
        gone_forget(at);
}

/* The same for live ones: the books missed how they ended. */
static void live_renew(uint64_t addr, uint64_t size)
{
    struct am_object key = {.key = addr};
    struct am_object *at = am_area_find(addr);

    if (at != NULL)
        am_object_drop(at);
    while ((at = RB_NFIND(am_objects, &am_books.areas, &key)) != NULL &&
           at->key - addr < size)
        am_object_drop(at);
}

struct am_object *am_object_make(struct am_call *call, enum am_object_kind kind,
                                 uint64_t key, uint64_t size)
{
    struct am_object *object;
    struct am_object *other;

    if (call->era != am_books.era)
        return NULL;
    object = am_sys_calloc(1, sizeof *object);
    if (object == NULL)
        return NULL;
    object->kind = (uint8_t)kind;
    object->serial = ++am_books.serial;
    object->key = key;
    object->size = size;
    object->made = am_here(call);
    object->device = -1;
    if (is_area(kind)) {
        range_renew(&am_books.gone, key, size);
        live_renew(key, size);
    }
    if (kind == AM_OBJECT_RESERVATION)
        range_renew(&am_books.released, key, size);
    other = RB_INSERT(am_objects, tree_of(object), object);
    if (other != NULL) { /* books that missed a free; the new one counts */
        if (other->is_freed)
            gone_forget(other);
        else
            am_object_drop(other);
        RB_INSERT(am_objects, tree_of(object), object);
    }
    am_books.n_live++;
    return object;
}

void am_object_count(const struct am_call *call, struct am_object *object)
{
    object->is_counted = true;
    am_books.held += object->size;
    am_session_grown(call);
}

/* The object goes; memory that mappings still hold stays counted. */
static void count_leave(struct am_object *object)
{
    struct am_bytes *bytes = object->bytes;

    if (object->kind == AM_OBJECT_PHYS && bytes != NULL && bytes->n_mapped > 0)
        bytes->is_counted = object->is_counted;
    else if (object->is_counted)
        am_books.held -= object->size;
}

static void count_return(const struct am_object *object)
{
    struct am_bytes *bytes = object->bytes;

    if (!object->is_counted)
        return;
    if (object->kind == AM_OBJECT_PHYS && bytes != NULL && bytes->is_counted)
        bytes->is_counted = false;
    else
        am_books.held += object->size;
}

/* One mapping less; with the last one, memory without a handle goes. */
static void mapping_leave(struct am_bytes *bytes)
{
    if (--bytes->n_mapped > 0 || !bytes->is_counted)
        return;
    bytes->is_counted = false;
    am_books.held -= bytes->size;
}

void am_object_free(struct am_call *call, struct am_object *object)
{
    struct am_object *other;

    RB_REMOVE(am_objects, tree_of(object), object);
    if (is_area(object->kind))
        range_renew(&am_books.gone, object->key, object->size);
    object->is_freed = true;
    object->freed = am_here(call);
    if (object->kind == AM_OBJECT_MAPPING && object->bytes != NULL)
        mapping_leave(object->bytes);
    else
        count_leave(object);
    other = RB_INSERT(am_objects, tree_of(object), object);
    if (other != NULL) { /* books that missed what came between */
        gone_forget(other);
        RB_INSERT(am_objects, tree_of(object), object);
    }
    TAILQ_INSERT_TAIL(&am_books.freed, object, freed_link);
    am_books.n_live--;
    am_books.n_freed++;
    if (am_books.n_freed > AM_FREED_MAX && !TAILQ_FIRST(&am_books.freed)->is_held)
        gone_forget(TAILQ_FIRST(&am_books.freed));
}

void am_object_revive(const struct am_call *call, struct am_object *object)
{
    if (call->era != am_books.era)
        return;
    TAILQ_REMOVE(&am_books.freed, object, freed_link);
    am_books.n_freed--;
    RB_REMOVE(am_objects, tree_of(object), object);
    object->is_freed = false;
    if (object->kind == AM_OBJECT_MAPPING && object->bytes != NULL)
        object->bytes->n_mapped++;
    count_return(object);
    am_books.n_live++;
    if (RB_INSERT(am_objects, tree_of(object), object) != NULL) {
        am_books.n_live--; /* another thread was given the place meanwhile */
        count_leave(object);
        object_delete(object);
    }
}

void am_object_drop(struct am_object *object)
{
    if (object->is_freed) {
        gone_forget(object);
        return;
    }
    RB_REMOVE(am_objects, tree_of(object), object);
    count_leave(object);
    am_books.n_live--;
    object_delete(object);
}

void am_objects_walk(bool (*is_meant)(const struct am_object *, const void *arg),
                     void (*each)(struct am_object *, void *arg), void *arg)
{
    struct am_objects *trees[] = {&am_books.areas, &am_books.handles,
                                  &am_books.reservations};

    for (size_t i = 0; i < AM_ARRAY_SIZE(trees); i++) {
        struct am_object *next;

        for (struct am_object *o = RB_MIN(am_objects, trees[i]); o != NULL; o = next) {
            next = RB_NEXT(am_objects, trees[i], o);
            if (!o->is_freed && is_meant(o, arg))
                each(o, arg);
        }
    }
}

void am_call_keep(struct am_call *call, struct am_object *object)
{
    if (object != NULL)
        object->n_kept++;
    if (call->object != NULL && --call->object->n_kept == 0 && call->object->is_dead)
        object_delete(call->object);
    call->object = object;
}

void am_call_keep_actor(struct am_call *call, struct am_actor *actor)
{
    if (actor != NULL)
        actor->refs++;
    am_actor_put(call->actor);
    call->actor = actor;
}

void am_call_let_go(struct am_call *call)
{
    am_call_keep(call, NULL);
    am_call_keep_actor(call, NULL);
}
