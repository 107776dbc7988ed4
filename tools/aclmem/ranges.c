/* See ranges.h. */
#include "ranges.h"

#include <stdlib.h>
#include <string.h>

/* The index of the first range that begins behind addr. */
static size_t range_index(const struct ranges *ranges, uint64_t addr)
{
    size_t low = 0;
    size_t high = ranges->n;

    while (low < high) {
        size_t middle = (low + high) / 2;

        if (ranges->range[middle].recorded <= addr)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

void range_set(struct ranges *ranges, struct range range)
{
    size_t at;

    pthread_mutex_lock(&ranges->lock);
    at = range_index(ranges, range.recorded);
    if (at > 0 && ranges->range[at - 1].recorded == range.recorded) {
        ranges->range[at - 1] = range;
    } else {
        if (ranges->n == ranges->max) {
            ranges->max = ranges->max > 0 ? 2 * ranges->max : 1024;
            ranges->range = realloc(ranges->range, ranges->max * sizeof *ranges->range);
            if (ranges->range == NULL)
                exit(1);
        }
        memmove(&ranges->range[at + 1], &ranges->range[at],
                (ranges->n - at) * sizeof *ranges->range);
        ranges->range[at] = range;
        ranges->n++;
    }
    pthread_mutex_unlock(&ranges->lock);
}

enum address range_get(struct ranges *ranges, uint64_t recorded, uint64_t extent,
                       uint64_t *ret_actual, uint64_t *ret_size)
{
    enum address found = ADDRESS_UNKNOWN;
    size_t at;

    pthread_mutex_lock(&ranges->lock);
    at = range_index(ranges, recorded);
    if (at > 0) {
        const struct range *range = &ranges->range[at - 1];
        uint64_t offset = recorded - range->recorded;

        if ((offset < range->size || offset == 0) &&
            (!range->is_host || extent <= range->size - offset))
            found = range->is_freed ? ADDRESS_FREED : ADDRESS_LIVE;
        *ret_actual = range->actual + offset;
        *ret_size = offset == 0 ? range->size : 0;
    }
    pthread_mutex_unlock(&ranges->lock);
    return found;
}

uint64_t range_free(struct ranges *ranges, uint64_t recorded)
{
    uint64_t charged = 0;
    struct range freed = {0};
    size_t at;

    pthread_mutex_lock(&ranges->lock);
    at = range_index(ranges, recorded);
    if (at > 0 && ranges->range[at - 1].recorded == recorded) {
        ranges->range[at - 1].is_freed = true;
        freed = ranges->range[at - 1];
        charged = freed.charged;
        ranges->range[at - 1].charged = 0;
    }
    for (size_t i = 0; freed.is_host && i < ranges->n; i++) {
        struct range *range = &ranges->range[i];

        range->is_freed |= range->is_host && range->actual - freed.actual < freed.size;
    }
    pthread_mutex_unlock(&ranges->lock);
    return charged;
}

uint64_t ranges_free_all(struct ranges *ranges)
{
    uint64_t charged = 0;

    pthread_mutex_lock(&ranges->lock);
    for (size_t i = 0; i < ranges->n; i++) {
        ranges->range[i].is_freed = true;
        charged += ranges->range[i].charged;
        ranges->range[i].charged = 0;
    }
    pthread_mutex_unlock(&ranges->lock);
    return charged;
}
