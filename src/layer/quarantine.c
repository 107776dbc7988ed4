/* See quarantine.h. */
#include "layer/quarantine.h"

#include "base/error.h"
#include "layer/thread.h"

#define QUARANTINE_BYTES ((uint64_t)8 << 20)

/* The blocks, the oldest at `first`; a slot is NULL when its block was released early. */
static struct {
    struct am_object *object[AM_QUARANTINE_MAX];
    unsigned first;
    unsigned n;
    uint64_t bytes;
} quarantine;

void am_quarantine_remove(struct am_object *object)
{
    if (!object->is_quarantined)
        return;
    object->is_quarantined = false;
    quarantine.bytes -= object->size;
    for (unsigned i = 0; i < quarantine.n; i++) {
        struct am_object **slot =
            &quarantine.object[(quarantine.first + i) % AM_QUARANTINE_MAX];

        if (*slot == object)
            *slot = NULL;
    }
}

void am_quarantine_remove_device(int device)
{
    for (unsigned i = 0; i < quarantine.n; i++) {
        struct am_object *object =
            quarantine.object[(quarantine.first + i) % AM_QUARANTINE_MAX];

        if (object != NULL && (device < 0 || object->device == device))
            am_quarantine_remove(object);
    }
}

void am_quarantine_release(struct am_object *object)
{
    struct am_thread *thread = am_thread_get();

    if (!object->is_quarantined || thread == NULL)
        return;
    am_quarantine_remove(object);
    thread->released[thread->n_released].addr =
        (void *)(uintptr_t)(object->key - object->lead);
    thread->released[thread->n_released].n_resets = am_check.n_resets;
    thread->released[thread->n_released++].is_host = object->kind == AM_OBJECT_HOST;
}

static void oldest_release(void)
{
    struct am_object *object = quarantine.object[quarantine.first];

    if (object != NULL)
        am_quarantine_release(object);
    quarantine.first = (quarantine.first + 1) % AM_QUARANTINE_MAX;
    quarantine.n--;
}

void am_quarantine_release_all(void)
{
    while (quarantine.n > 0)
        oldest_release();
}

bool am_quarantine_add(struct am_object *object)
{
    /* During a stop or reset the library frees the block itself. */
    if (object->size > QUARANTINE_BYTES / 8 || am_check.n_stopping > 0 ||
        am_check.n_resetting > 0)
        return false;
    while (quarantine.n == AM_QUARANTINE_MAX ||
           quarantine.bytes + object->size > QUARANTINE_BYTES)
        oldest_release();
    quarantine.object[(quarantine.first + quarantine.n++) % AM_QUARANTINE_MAX] = object;
    quarantine.bytes += object->size;
    object->is_quarantined = true;
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
