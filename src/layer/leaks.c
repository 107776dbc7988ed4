/*
 * Leaks: what is left at the end, by the place where it was made.
 *
 * Everything that is live is sorted by kind and place; each group is one finding with its
 * number and bytes.  Memory that only a mapping holds is reported with the mapping.
 */
#include <stdio.h>
#include <stdlib.h>

#include "layer/bytes.h"
#include "layer/metadata.h"
#include "layer/memory.h"

/* A mapping is a leak if the handle of its memory was freed; else the handle is. */
static bool is_leak(const struct am_object *object, int device, uint64_t since)
{
    return (device < 0 || object->device == device) && object->serial > since &&
           !object->is_reported &&
           (object->kind != AM_OBJECT_MAPPING || object->bytes == NULL ||
            object->bytes->n_handles == 0);
}

static bool is_retain(const struct am_object *object)
{
    return object->kind == AM_OBJECT_PHYS && object->is_retained &&
           object->bytes->n_handles > 0;
}

static int by_site(const void *a, const void *b)
{
    const struct am_object *x = *(struct am_object *const *)a;
    const struct am_object *y = *(struct am_object *const *)b;

    if (x->kind != y->kind)
        return x->kind < y->kind ? -1 : 1;
    if (x->made.stack != y->made.stack)
        return x->made.stack < y->made.stack ? -1 : 1;
    if (x->made.python != y->made.python)
        return x->made.python < y->made.python ? -1 : 1;
    if (is_retain(x) != is_retain(y))
        return is_retain(x) ? -1 : 1;
    return x->key < y->key ? -1 : x->key > y->key;
}

static bool is_same_site(const struct am_object *a, const struct am_object *b)
{
    return a->kind == b->kind && a->made.stack == b->made.stack &&
           a->made.python == b->made.python && is_retain(a) == is_retain(b);
}

static void group_report(struct am_object **list, size_t n, const char *when)
{
    static struct am_finding f; /* under am_check.lock */
    const struct am_object *first = list[0];
    const struct am_object_row *row = &am_object_rows[first->kind];
    bool is_retained = is_retain(first);
    bool is_notify = first->kind == AM_OBJECT_NOTIFY;
    uint64_t size = 0;
    char text[32];
    char bytes[48] = "";

    for (size_t i = 0; i < n; i++) {
        size += list[i]->bytes != NULL ? list[i]->bytes->size : list[i]->size;
        list[i]->is_reported = true;
    }
    if (size > 0 && first->kind != AM_OBJECT_IMPORT)
        snprintf(bytes, sizeof bytes, n > 1 ? ", %s," : " of %s",
                 am_size_text(size, text, sizeof text));
    am_finding_begin(&f, is_retained ? AM_KIND_leak_retain : row->leak,
                     "%zu %s%s%s %s still there at %s", n,
                     n > 1 && is_notify ? "notifies" : row->name,
                     n > 1 && !is_notify ? "s" : "", bytes, n > 1 ? "are" : "is", when);
    f.advice = is_retained ? "aclrtFreePhysical once for each "
                             "aclrtMemRetainAllocationHandle, and once more"
                           : row->advice;
    am_finding_at(&f, "made here", first->made);
    if (is_retained)
        am_finding_at(&f, "retained here", first->freed);
    am_finding_report(&f);
}

void am_leaks_report(int device, uint64_t since, const char *when)
{
    struct am_object **left = NULL;
    struct am_walk walk = {0};
    size_t n = 0;
    struct am_object *object;

    while ((object = am_object_next(&walk)) != NULL) {
        if (is_leak(object, device, since) &&
            am_meta_grow((void **)&left, n, sizeof left[0]))
            left[n++] = object;
    }
    if (n > 0)
        qsort(left, n, sizeof left[0], by_site);
    for (size_t i = 0, end; i < n; i = end) {
        for (end = i + 1; end < n && is_same_site(left[i], left[end]);)
            end++;
        group_report(left + i, end - i, when);
    }
    free(left);
}
