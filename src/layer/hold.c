/* See hold.h. */
#include "layer/hold.h"

#include "base/error.h"

#define HELD_MAX 256
#define HELD_BYTES ((uint64_t)8 << 20)

/* The blocks, the oldest at `first`; a place is NULL when its block was released early. */
static struct {
    struct am_object *object[HELD_MAX];
    unsigned first;
    unsigned n;
    uint64_t bytes;
} held;

/* What this thread has to pass on. */
static _Thread_local struct {
    void *addr[HELD_MAX + 1];
    bool is_host[HELD_MAX + 1];
    unsigned n;
} released;

void am_hold_release(struct am_object *object)
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
    released.addr[released.n] = (void *)(uintptr_t)object->key;
    released.is_host[released.n++] = object->kind == AM_OBJECT_HOST;
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
    bool is_any = released.n > 0;
    char message[256];

    if (!is_any)
        return false;
    am_error_capture(message, sizeof message);
    while (released.n > 0) {
        unsigned i = --released.n;

        if (released.is_host[i])
            am_books.below->aclrtFreeHost(released.addr[i]);
        else
            am_books.below->aclrtFree(released.addr[i]);
    }
    am_error_capture(NULL, 0);
    return is_any;
}
