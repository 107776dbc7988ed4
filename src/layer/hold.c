/* See hold.h. */
#include "layer/hold.h"

#include "base/error.h"
#include "layer/thread.h"

#define HELD_MAX AM_HELD_MAX
#define HELD_BYTES ((uint64_t)8 << 20)

/* The blocks, the oldest at `first`; a place is NULL when its block was released early. */
static struct {
    struct am_object *object[HELD_MAX];
    unsigned first;
    unsigned n;
    uint64_t bytes;
} held;

void am_hold_forget(struct am_object *object)
{
    if (!object->is_held)
        return;
    object->is_held = false;
    held.bytes -= object->size;
    for (unsigned i = 0; i < held.n; i++) {
        struct am_object **place = &held.object[(held.first + i) % HELD_MAX];

        if (*place == object)
            *place = NULL;
    }
}

void am_hold_forget_device(int device)
{
    for (unsigned i = 0; i < held.n; i++) {
        struct am_object *object = held.object[(held.first + i) % HELD_MAX];

        if (object != NULL && (device < 0 || object->device == device))
            am_hold_forget(object);
    }
}

void am_hold_release(struct am_object *object)
{
    struct am_thread *thread = am_thread_get();

    if (!object->is_held || thread == NULL)
        return;
    am_hold_forget(object);
    thread->released[thread->n_released].addr = (void *)(uintptr_t)object->key;
    thread->released[thread->n_released++].is_host = object->kind == AM_OBJECT_HOST;
}

static void oldest_release(void)
{
    struct am_object *object = held.object[held.first];

    if (object != NULL)
        am_hold_release(object);
    held.first = (held.first + 1) % HELD_MAX;
    held.n--;
}

void am_hold_release_all(void)
{
    while (held.n > 0)
        oldest_release();
}

bool am_hold(struct am_object *object)
{
    if (object->size > HELD_BYTES / 8)
        return false;
    while (held.n == HELD_MAX || held.bytes + object->size > HELD_BYTES)
        oldest_release();
    held.object[(held.first + held.n++) % HELD_MAX] = object;
    held.bytes += object->size;
    object->is_held = true;
    return true;
}

bool am_hold_drain(void)
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

        if (thread->released[i].is_host)
            am_books.below->aclrtFreeHost(thread->released[i].addr);
        else
            am_books.below->aclrtFree(thread->released[i].addr);
    }
    am_error_capture_end(before);
    return is_any;
}
