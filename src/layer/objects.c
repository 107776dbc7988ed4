/* Objects: check.h. */
#include <string.h>

#include "base/error.h"
#include "base/tree.h"
#include "base/util.h"
#include "layer/bytes.h"
#include "layer/metadata.h"
#include "layer/hooks.h"
#include "layer/memory.h"
#include "layer/quarantine.h"
#include "layer/order.h"
#include "layer/pinned.h"
#include "layer/session.h"

struct am_check am_check = {
    .lock = AM_LOCK_INIT(AM_RANK_RUNTIME, "check"),
    .freed = TAILQ_HEAD_INITIALIZER(am_check.freed),
};

AM_TREE(am_objects, am_object, node, key)

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
    [AM_OBJECT_CONTEXT] = "context",
    [AM_OBJECT_MODEL] = "captured model",
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
        return object->is_freed ? &am_check.freed_areas : &am_check.areas;
    if (object->kind == AM_OBJECT_RESERVATION)
        return object->is_freed ? &am_check.released : &am_check.reservations;
    return &am_check.handles;
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
    return find_in(&am_check.areas, addr);
}

struct am_object *am_freed_area_find(uint64_t addr)
{
    return find_in(&am_check.freed_areas, addr);
}

struct am_object *am_reservation_find(uint64_t addr)
{
    return find_in(&am_check.reservations, addr);
}

struct am_object *am_released_find(uint64_t addr)
{
    return find_in(&am_check.released, addr);
}

struct am_object *am_area_before(uint64_t addr)
{
    return find_below(&am_check.areas, addr);
}

struct am_object *am_area_next(uint64_t addr)
{
    struct am_object key = {.key = addr};

    return RB_NFIND(am_objects, &am_check.areas, &key);
}

struct am_object *am_handle_find(enum am_object_kind kind, const void *handle)
{
    struct am_object key = {.key = (uintptr_t)handle};
    struct am_object *found = RB_FIND(am_objects, &am_check.handles, &key);

    if (found == NULL || found->kind == kind)
        return found;
    if (kind == AM_OBJECT_PHYS && found->kind == AM_OBJECT_IMPORT)
        return found;
    return NULL;
}

static void object_delete(struct am_object *object)
{
    object->is_forgotten = true;
    if (object->n_refs > 0)
        return;
    am_touch_forget(object->bytes);
    am_bytes_put(object->bytes);
    free(object->uses);
    if (object->kind == AM_OBJECT_STREAM)
        am_agent_put(object->agent);
    am_model_end(object->model);
    if (object->kind == AM_OBJECT_EVENT || object->kind == AM_OBJECT_NOTIFY)
        am_signal_put(object->signal);
    free(object);
}

/*
 * Out of the list and the tree of what was freed.  Where the library has given the address
 * to another object the free of this one was not its business any more: a reset was.
 */
static void freed_forget(struct am_object *object)
{
    am_quarantine_remove(object);
    TAILQ_REMOVE(&am_check.freed, object, freed_link);
    am_check.n_freed--;
    RB_REMOVE(am_objects, tree_of(object), object);
    object_delete(object);
}

/* Addresses that are live again have no past: whatever lay there is forgotten. */
static void range_renew(struct am_objects *tree, uint64_t addr, uint64_t size)
{
    struct am_object key = {.key = addr};
    struct am_object *at = find_in(tree, addr);

    if (at != NULL)
        freed_forget(at);
    while ((at = RB_NFIND(am_objects, tree, &key)) != NULL && at->key - addr < size)
        freed_forget(at);
}

/* The same for live ones: the layer missed their end. */
static void live_renew(uint64_t addr, uint64_t size)
{
    struct am_object key = {.key = addr};
    struct am_object *at = am_area_find(addr);

    if (at != NULL)
        am_object_drop(at);
    while ((at = RB_NFIND(am_objects, &am_check.areas, &key)) != NULL &&
           at->key - addr < size)
        am_object_drop(at);
}

struct am_object *am_object_make(struct am_call *call, enum am_object_kind kind,
                                 uint64_t key, uint64_t size)
{
    struct am_object *object;
    struct am_object *other;

    if (call->era != am_check.era)
        return NULL;
    object = am_meta_alloc(sizeof *object);
    if (object == NULL)
        return NULL;
    object->kind = (uint8_t)kind;
    object->serial = ++am_check.serial;
    object->key = key;
    object->size = size;
    object->made = call->site;
    object->era = (uint32_t)am_check.era;
    object->device = -1;
    if (is_area(kind)) {
        range_renew(&am_check.freed_areas, key, size);
        live_renew(key, size);
    }
    if (kind == AM_OBJECT_RESERVATION)
        range_renew(&am_check.released, key, size);
    other = RB_INSERT(am_objects, tree_of(object), object);
    if (other != NULL) { /* the layer missed a free; the new object counts */
        if (other->is_freed)
            freed_forget(other);
        else
            am_object_drop(other);
        RB_INSERT(am_objects, tree_of(object), object);
    }
    am_check.n_live++;
    return object;
}

void am_object_count(const struct am_call *call, struct am_object *object)
{
    object->is_counted = true;
    am_check.device_bytes += object->size;
    am_session_grown(call);
}

/* The object goes; memory that mappings still hold stays counted. */
static void count_remove(struct am_object *object)
{
    struct am_bytes *bytes = object->bytes;

    if (object->kind == AM_OBJECT_PHYS && bytes != NULL && bytes->n_mapped > 0)
        bytes->is_counted = object->is_counted;
    else if (object->is_counted)
        am_check.device_bytes -= object->size;
}

static void count_add(const struct am_object *object)
{
    struct am_bytes *bytes = object->bytes;

    if (!object->is_counted)
        return;
    if (object->kind == AM_OBJECT_PHYS && bytes != NULL && bytes->is_counted)
        bytes->is_counted = false;
    else
        am_check.device_bytes += object->size;
}

/* One mapping less; with the last one, memory without a handle goes. */
static void mapping_count_remove(struct am_bytes *bytes)
{
    if (--bytes->n_mapped > 0 || !bytes->is_counted)
        return;
    bytes->is_counted = false;
    am_check.device_bytes -= bytes->size;
}

void am_object_free(struct am_call *call, struct am_object *object)
{
    struct am_object *other;

    RB_REMOVE(am_objects, tree_of(object), object);
    if (is_area(object->kind))
        range_renew(&am_check.freed_areas, object->key, object->size);
    object->is_freed = true;
    object->freed = call->site;
    if (object->is_captured)
        am_models_freed(object);
    if (object->kind == AM_OBJECT_MAPPING && object->bytes != NULL)
        mapping_count_remove(object->bytes);
    else
        count_remove(object);
    other = RB_INSERT(am_objects, tree_of(object), object);
    if (other != NULL) { /* the layer missed a call in between */
        freed_forget(other);
        RB_INSERT(am_objects, tree_of(object), object);
    }
    TAILQ_INSERT_TAIL(&am_check.freed, object, freed_link);
    am_check.n_live--;
    am_check.n_freed++;
    if (am_check.n_freed > AM_FREED_MAX && !TAILQ_FIRST(&am_check.freed)->is_quarantined)
        freed_forget(TAILQ_FIRST(&am_check.freed));
}

void am_object_revive(const struct am_call *call, struct am_object *object)
{
    if (call->era != am_check.era)
        return;
    TAILQ_REMOVE(&am_check.freed, object, freed_link);
    am_check.n_freed--;
    RB_REMOVE(am_objects, tree_of(object), object);
    object->is_freed = false;
    if (object->kind == AM_OBJECT_MAPPING && object->bytes != NULL)
        object->bytes->n_mapped++;
    count_add(object);
    am_check.n_live++;
    if (RB_INSERT(am_objects, tree_of(object), object) != NULL) {
        am_check.n_live--; /* another thread was given the address since */
        count_remove(object);
        object_delete(object);
    }
}

void am_object_drop(struct am_object *object)
{
    if (object->is_freed) {
        freed_forget(object);
        return;
    }
    RB_REMOVE(am_objects, tree_of(object), object);
    count_remove(object);
    am_check.n_live--;
    object_delete(object);
}

void am_objects_walk(bool (*matches)(const struct am_object *, const void *arg),
                     void (*each)(struct am_object *, void *arg), void *arg)
{
    struct am_objects *trees[] = {&am_check.areas, &am_check.handles,
                                  &am_check.reservations};

    for (size_t i = 0; i < AM_ARRAY_SIZE(trees); i++) {
        struct am_object key = {.key = 0};
        struct am_object *o;

        /* By key: `each` may forget any object, also the next one. */
        while ((o = RB_NFIND(am_objects, trees[i], &key)) != NULL) {
            key.key = o->key + 1;
            if (!o->is_freed && matches(o, arg))
                each(o, arg);
            if (key.key == 0)
                break;
        }
    }
}

void am_call_ref_object(struct am_call *call, struct am_object *object)
{
    if (object != NULL)
        object->n_refs++;
    if (call->object != NULL && --call->object->n_refs == 0 && call->object->is_forgotten)
        object_delete(call->object);
    call->object = object;
}

void am_call_ref_agent(struct am_call *call, struct am_agent *agent)
{
    if (agent != NULL)
        agent->refs++;
    am_agent_put(call->agent);
    call->agent = agent;
}

void am_call_unref(struct am_call *call)
{
    am_call_ref_object(call, NULL);
    am_call_ref_agent(call, NULL);
    am_record_put(call->record);
    call->record = NULL;
}
