/* See quarantine.h. */
#include "layer/quarantine.h"

#include "base/error.h"
#include "layer/thread.h"

#define QUARANTINE_BYTES ((uint64_t)8 << 20)

/*
 * The blocks that threads of one shard freed, the oldest at `first`; a slot is NULL when its
 * block was released early.  The rings in use share the limits evenly.
 */
static struct ring {
    _Alignas(AM_SHARD_STRIDE) struct am_latch latch;
    struct am_object *object[AM_QUARANTINE_MAX];
    unsigned first;
    unsigned n;
    uint64_t bytes;
    bool is_used; /* like n_rings and am_quarantine_remove(): am_check_lock() */
} rings[AM_SHARDS] = {
    [0 ... AM_SHARDS - 1] = {.latch = AM_LATCH_INIT(AM_RANK_LEAF, "quarantine")}};
static unsigned n_rings;

void am_quarantine_remove(struct am_object *object)
{
    struct ring *ring = &rings[object->ring];

    if (!object->is_quarantined)
        return;
    ring->object[object->slot] = NULL;
    ring->bytes -= object->size;
    object->is_quarantined = false;
}

void am_quarantine_remove_device(int device)
{
    for (unsigned i = 0; i < AM_SHARDS * AM_QUARANTINE_MAX; i++) {
        struct am_object *object =
            rings[i / AM_QUARANTINE_MAX].object[i % AM_QUARANTINE_MAX];

        if (object != NULL && (device < 0 || object->device == device))
            am_quarantine_remove(object);
    }
}

static void released_add(struct am_thread *thread, const struct am_object *object)
{
    thread->released[thread->n_released].addr =
        (void *)(uintptr_t)(object->key - object->lead);
    thread->released[thread->n_released].n_resets = am_check.n_resets;
    thread->released[thread->n_released++].is_host = object->kind == AM_OBJECT_HOST;
}

void am_quarantine_release(struct am_object *object)
{
    struct am_thread *thread = am_thread_get();

    if (!object->is_quarantined || thread == NULL)
        return;
    released_add(thread, object);
    am_quarantine_remove(object);
}

static void oldest_release(struct ring *ring, struct am_thread *thread)
{
    struct am_object *object = ring->object[ring->first];

    if (object != NULL) {
        ring->object[ring->first] = NULL;
        ring->bytes -= object->size;
        released_add(thread, object);
        object->is_quarantined = false; /* another thread may forget the object now */
    }
    ring->first = (ring->first + 1) % AM_QUARANTINE_MAX;
    ring->n--;
}

/* Makes room for a block of this size. */
static void ring_shrink(struct ring *ring, struct am_thread *thread, uint64_t size)
{
    while (ring->n > 0 && (ring->n >= AM_QUARANTINE_MAX / n_rings ||
                           ring->bytes + size > QUARANTINE_BYTES / n_rings))
        oldest_release(ring, thread);
}

void am_quarantine_release_all(void)
{
    struct am_thread *thread = am_thread_get();

    for (unsigned i = 0; thread != NULL && n_rings > 0 && i < AM_SHARDS; i++) {
        while (rings[i].n > 0)
            oldest_release(&rings[i], thread);
        rings[i].is_used = false;
    }
    if (thread != NULL)
        n_rings = 0;
}

bool am_quarantine_is_open(void)
{
    return rings[am_shard()].is_used;
}

/* One ring more: the others get smaller. */
static void ring_open(struct ring *ring, struct am_thread *thread)
{
    ring->is_used = true;
    n_rings++;
    for (unsigned i = 0; i < AM_SHARDS; i++)
        ring_shrink(&rings[i], thread, 0);
}

bool am_quarantine_add(struct am_object *object)
{
    unsigned number = am_shard();
    struct ring *ring = &rings[number];
    struct am_thread *thread = am_thread_get();

    /* During a stop or reset the library frees the block itself. */
    if (thread == NULL || am_check.n_stopping > 0 || am_check.n_resetting > 0)
        return false;
    if (!ring->is_used)
        ring_open(ring, thread);
    if (object->size > QUARANTINE_BYTES / 8 || object->size > QUARANTINE_BYTES / n_rings)
        return false;
    am_latch_take(&ring->latch); /* two threads may have one shard */
    ring_shrink(ring, thread, object->size);
    object->ring = (uint8_t)number;
    object->slot = (uint8_t)((ring->first + ring->n++) % AM_QUARANTINE_MAX);
    ring->object[object->slot] = object;
    ring->bytes += object->size;
    object->is_quarantined = true;
    am_latch_give(&ring->latch);
    return true;
}

bool am_quarantine_drain(void)
{
    struct am_thread *thread = am_thread_get();
    bool is_any = thread != NULL && thread->n_released > 0;
    struct am_capture before;
    char message[256];

    if (!is_any)
        return false;
    before = am_error_capture(message, sizeof message);
    while (thread->n_released > 0) {
        unsigned i = --thread->n_released;

        /* A stop or reset since may have freed it, and the address may be in use again. */
        if (thread->released[i].n_resets != am_check.n_resets)
            continue;
        if (thread->released[i].is_host)
            am_check.below->aclrtFreeHost(thread->released[i].addr);
        else
            am_check.below->aclrtFree(thread->released[i].addr);
    }
    am_error_capture_end(before);
    return is_any;
}
