/* Objects: check.h. */

#include "base/tree.h"
#include "layer/bytes.h"
#include "layer/metadata.h"
#include "layer/hooks.h"
#include "layer/memory.h"
#include "layer/quarantine.h"
#include "layer/order.h"
#include "layer/pinned.h"
#include "layer/shared.h"
#include "layer/thread.h"

struct am_check am_check = {
    .lock = AM_LOCK_INIT(AM_RANK_RUNTIME, "check"),
};

AM_TREE(am_objects, am_object, node, key)

void am_objects_open(void)
{
    TAILQ_INIT(&am_check.rest.freed);
    for (unsigned i = 0; i < AM_STRIPES; i++)
        TAILQ_INIT(&am_check.stripe[i].freed);
}

const struct am_object_row am_object_rows[] = {
    [AM_OBJECT_BLOCK] = {"block", AM_KIND_leak_block, "aclrtFree"},
    [AM_OBJECT_POOL_BLOCK] = {"block of a pool", AM_KIND_leak_block,
                              "aclrtMemPoolFreeAsync"},
    [AM_OBJECT_MANAGED] = {"managed block", AM_KIND_leak_block, "aclrtFree"},
    [AM_OBJECT_HOST] = {"pinned block", AM_KIND_leak_host, "aclrtFreeHost"},
    [AM_OBJECT_REGISTERED] = {"registered range", AM_KIND_leak_host,
                              "aclrtHostUnregister"},
    [AM_OBJECT_KEY] = {"imported block", AM_KIND_leak_import, "aclrtIpcMemClose"},
    [AM_OBJECT_MAPPING] = {"mapping", AM_KIND_leak_mapping,
                           "aclrtUnmapMem: the handle was freed, and the mapping alone "
                           "holds the memory"},
    [AM_OBJECT_RESERVATION] = {"reservation", AM_KIND_leak_reservation,
                               "aclrtReleaseMemAddress"},
    [AM_OBJECT_PHYS] = {"physical allocation", AM_KIND_leak_phys, "aclrtFreePhysical"},
    [AM_OBJECT_IMPORT] = {"imported handle", AM_KIND_leak_import, "aclrtFreePhysical"},
    [AM_OBJECT_STREAM] = {"stream", AM_KIND_leak_stream, "aclrtDestroyStream"},
    [AM_OBJECT_EVENT] = {"event", AM_KIND_leak_event, "aclrtDestroyEvent"},
    [AM_OBJECT_NOTIFY] = {"notify", AM_KIND_leak_event, "aclrtDestroyNotify"},
    [AM_OBJECT_POOL] = {"pool", AM_KIND_leak_pool, "aclrtMemPoolDestroy"},
    [AM_OBJECT_CONTEXT] = {"context", AM_KIND_leak_context, "aclrtDestroyContext"},
    [AM_OBJECT_MODEL] = {"captured model", AM_KIND_leak_model, "aclmdlRIDestroy"},
};

/* ---- serial numbers ---- */

#define SERIALS_BATCH 256

/* A thread takes numbers in batches; am_serial_last() ends the batches. */
uint64_t am_serial_next(void)
{
    struct am_thread *thread = am_thread_get();

    if (thread == NULL)
        return ++am_check.serial;
    if (thread->n_serials == 0 || thread->serials_era != am_check.n_serials) {
        thread->serials_era = am_check.n_serials;
        thread->serial = atomic_fetch_add(&am_check.serial, SERIALS_BATCH);
        thread->n_serials = SERIALS_BATCH;
    }
    thread->n_serials--;
    return ++thread->serial;
}

uint64_t am_serial_last(void)
{
    am_check.n_serials++;
    return am_check.serial;
}

/* ---- where an object is ---- */

static bool is_area(enum am_object_kind kind)
{
    return kind <= AM_OBJECT_MAPPING;
}

#define REGION_BITS 21

bool am_area_is_small(uint64_t addr, uint64_t size)
{
    return size > 0 && addr >> REGION_BITS == (addr + size - 1) >> REGION_BITS;
}

struct am_stripe *am_stripe_of(uint64_t addr)
{
    return &am_check.stripe[(addr >> REGION_BITS) * UINT64_C(0x9e3779b97f4a7c15) >> 56];
}

static struct am_stripe *stripe_of(const struct am_object *object)
{
    return object->kind == AM_OBJECT_BLOCK && am_area_is_small(object->key, object->size)
               ? am_stripe_of(object->key)
               : &am_check.rest;
}

static struct am_objects *tree_of(const struct am_object *object)
{
    if (is_area(object->kind))
        return object->is_freed ? &stripe_of(object)->freed_areas
                                : &stripe_of(object)->areas;
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

/* First `rest`: then a hook that shares the metadata needs no latch for what is there. */
struct am_object *am_area_find(uint64_t addr)
{
    struct am_object *object = find_in(&am_check.rest.areas, addr);

    return object != NULL ? object : find_in(&am_stripe_of(addr)->areas, addr);
}

struct am_object *am_rest_area_find(uint64_t addr)
{
    return find_in(&am_check.rest.areas, addr);
}

struct am_object *am_freed_area_find(uint64_t addr)
{
    struct am_object *object = find_in(&am_check.rest.freed_areas, addr);

    return object != NULL ? object : find_in(&am_stripe_of(addr)->freed_areas, addr);
}

struct am_object *am_overlap_find(struct am_objects *tree, uint64_t addr, uint64_t size)
{
    struct am_object *last = find_below(tree, addr + (size > 0 ? size - 1 : 0));

    return last != NULL && (last->key >= addr || addr - last->key < last->size) ? last
                                                                                : NULL;
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
    return find_below(&am_check.rest.areas, addr);
}

struct am_object *am_area_next(uint64_t addr)
{
    struct am_object key = {.key = addr};

    return RB_NFIND(am_objects, &am_check.rest.areas, &key);
}

struct am_object *
am_freed_find(bool (*matches)(const struct am_object *, const void *arg), const void *arg)
{
    for (unsigned i = 0; i <= AM_STRIPES; i++) {
        struct am_stripe *stripe = i == AM_STRIPES ? &am_check.rest : &am_check.stripe[i];
        struct am_object *object;

        TAILQ_FOREACH (object, &stripe->freed, freed_link) {
            if (matches(object, arg))
                return object;
        }
    }
    return NULL;
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
    if (object->kind == AM_OBJECT_STREAM)
        am_agent_put(object->agent);
    else if (object->kind == AM_OBJECT_EVENT || object->kind == AM_OBJECT_NOTIFY)
        am_signal_put(object->signal);
    else if (object->kind == AM_OBJECT_MODEL)
        am_model_end(object->model);
    else
        free(object->uses);
    free(object);
}

/*
 * Out of the list and the tree of what was freed.  Where the library has given the address
 * to another object the free of this one was not its business any more: a reset was.
 */
static void freed_forget(struct am_object *object)
{
    am_quarantine_remove(object);
    TAILQ_REMOVE(&stripe_of(object)->freed, object, freed_link);
    RB_REMOVE(am_objects, tree_of(object), object);
    object_delete(object);
}

/* Addresses that are live again have no past: whatever lay there is forgotten. */
static void range_renew(struct am_objects *tree, uint64_t addr, uint64_t size)
{
    struct am_object *at;

    while ((at = am_overlap_find(tree, addr, size)) != NULL)
        am_object_drop(at);
}

static void stripe_renew(struct am_stripe *stripe, uint64_t addr, uint64_t size,
                         bool is_live)
{
    range_renew(&stripe->freed_areas, addr, size);
    if (is_live) /* the layer missed their end */
        range_renew(&stripe->areas, addr, size);
}

static void areas_renew(uint64_t addr, uint64_t size, bool is_live)
{
    uint64_t first = addr >> REGION_BITS;
    uint64_t n = size > 0 ? ((addr + size - 1) >> REGION_BITS) - first + 1 : 1;

    if (am_thread_is_sharing()) { /* nothing else overlaps, or the thread would be alone */
        range_renew(&am_stripe_of(addr)->freed_areas, addr, size);
        return;
    }
    stripe_renew(&am_check.rest, addr, size, is_live);
    for (uint64_t i = 0; i < n && i < AM_STRIPES; i++)
        stripe_renew(n < AM_STRIPES ? am_stripe_of((first + i) << REGION_BITS)
                                    : &am_check.stripe[i],
                     addr, size, is_live);
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
    object->serial = am_serial_next();
    object->key = key;
    object->size = size;
    object->made = call->site;
    object->era = (uint32_t)am_check.era;
    object->device = -1;
    if (is_area(kind))
        areas_renew(key, size, true);
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
    am_counter_add(&am_check.n_live, 1);
    return object;
}

void am_object_count(const struct am_call *call, struct am_object *object)
{
    object->is_counted = true;
    am_counter_add(&am_check.device_bytes, object->size);
    am_session_grown(call);
}

/* The object goes; memory that mappings still hold stays counted. */
static void count_remove(struct am_object *object)
{
    struct am_bytes *bytes = object->bytes;

    if (object->kind == AM_OBJECT_PHYS && bytes != NULL && bytes->n_mapped > 0)
        bytes->is_counted = object->is_counted;
    else if (object->is_counted)
        am_counter_add(&am_check.device_bytes, -object->size);
}

static void count_add(const struct am_object *object)
{
    struct am_bytes *bytes = object->bytes;

    if (!object->is_counted)
        return;
    if (object->kind == AM_OBJECT_PHYS && bytes != NULL && bytes->is_counted)
        bytes->is_counted = false;
    else
        am_counter_add(&am_check.device_bytes, object->size);
}

/* One mapping less; with the last one, memory without a handle goes. */
static void mapping_count_remove(struct am_bytes *bytes)
{
    if (--bytes->n_mapped > 0 || !bytes->is_counted)
        return;
    bytes->is_counted = false;
    am_counter_add(&am_check.device_bytes, -bytes->size);
}

/*
 * Forgets objects of the stripe that were freed more than AM_FREED_MAX frees ago.  One that
 * cannot be forgotten yet counts as freed now: others do not stay because of it.
 */
static void stripe_age(struct am_stripe *stripe)
{
    uint32_t now = am_check.n_frees;
    struct am_object *object;

    while ((object = TAILQ_FIRST(&stripe->freed)) != NULL &&
           now - object->freed_at > AM_FREED_MAX + AM_FREES_BATCH * AM_STRIPES) {
        if (!object->is_quarantined && am_can_forget(object)) {
            freed_forget(object);
            continue;
        }
        TAILQ_REMOVE(&stripe->freed, object, freed_link);
        object->freed_at = now;
        TAILQ_INSERT_TAIL(&stripe->freed, object, freed_link);
    }
}

/*
 * The count goes on once for AM_FREES_BATCH frees of a stripe.  Each time another stripe is
 * aged too, so that what was freed there does not stay.
 */
static void free_count(struct am_stripe *stripe, struct am_object *object)
{
    struct am_stripe *other;
    uint32_t now = am_check.n_frees;

    object->freed_at = now;
    TAILQ_INSERT_TAIL(&stripe->freed, object, freed_link);
    if (++stripe->n_frees % AM_FREES_BATCH != 0)
        return;
    atomic_fetch_add(&am_check.n_frees, AM_FREES_BATCH);
    stripe_age(stripe);
    other = &am_check.stripe[now / AM_FREES_BATCH % AM_STRIPES];
    if (other == stripe || !am_stripe_try(other))
        return;
    stripe_age(other);
    am_stripe_give(other);
}

void am_object_free(struct am_call *call, struct am_object *object)
{
    struct am_object *other;

    RB_REMOVE(am_objects, tree_of(object), object);
    if (is_area(object->kind))
        areas_renew(object->key, object->size, false);
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
    am_counter_add(&am_check.n_live, (uint64_t)-1);
    free_count(stripe_of(object), object);
}

void am_object_revive(const struct am_call *call, struct am_object *object)
{
    if (call->era != am_check.era)
        return;
    TAILQ_REMOVE(&stripe_of(object)->freed, object, freed_link);
    RB_REMOVE(am_objects, tree_of(object), object);
    object->is_freed = false;
    if (object->kind == AM_OBJECT_MAPPING && object->bytes != NULL)
        object->bytes->n_mapped++;
    count_add(object);
    if (RB_INSERT(am_objects, tree_of(object), object) != NULL) {
        count_remove(object); /* another thread was given the address since */
        object_delete(object);
        return;
    }
    am_counter_add(&am_check.n_live, 1);
}

void am_object_drop(struct am_object *object)
{
    if (object->is_freed) {
        freed_forget(object);
        return;
    }
    RB_REMOVE(am_objects, tree_of(object), object);
    count_remove(object);
    am_counter_add(&am_check.n_live, (uint64_t)-1);
    object_delete(object);
}

/* The trees that have live objects; NULL: there are no more. */
static struct am_objects *live_tree(unsigned i)
{
    if (i < AM_STRIPES)
        return &am_check.stripe[i].areas;
    switch (i - AM_STRIPES) {
    case 0:
        return &am_check.rest.areas;
    case 1:
        return &am_check.handles;
    case 2:
        return &am_check.reservations;
    default:
        return NULL;
    }
}

/* By key, since the object that was returned last may be gone.  No key is UINT64_MAX. */
struct am_object *am_object_next(struct am_walk *walk)
{
    struct am_objects *tree;

    for (; (tree = live_tree(walk->tree)) != NULL; walk->tree++) {
        struct am_object key = {.key = walk->key};
        struct am_object *object = RB_NFIND(am_objects, tree, &key);

        while (object != NULL && object->is_freed)
            object = RB_NEXT(am_objects, tree, object);
        walk->key = object != NULL ? object->key + 1 : 0;
        if (object != NULL)
            return object;
    }
    return NULL;
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
    am_call_ref_model(call, NULL);
    am_record_put(call->record);
    call->record = NULL;
}
