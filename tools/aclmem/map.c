/* See map.h.  Open addressing. */
#include "map.h"

#include <stdio.h>
#include <stdlib.h>

void *array_grow(void *array, size_t n, size_t *max, size_t size)
{
    void *larger = array;

    if (n == *max) {
        *max = *max > 0 ? 2 * *max : 256;
        larger = realloc(array, *max * size);
        if (larger == NULL) {
            fprintf(stderr, "aclmem: no memory for the trace\n");
            exit(1);
        }
    }
    return larger;
}

static size_t map_place(const struct map *map, uint64_t a, uint64_t b)
{
    uint64_t hash = (a ^ b * UINT64_C(0x9e3779b97f4a7c15)) * UINT64_C(0xff51afd7ed558ccd);
    size_t at = (hash ^ hash >> 32) & (map->max - 1);

    while (map->slot[at].value != 0 &&
           (map->slot[at].key[0] != a || map->slot[at].key[1] != b))
        at = (at + 1) & (map->max - 1);
    return at;
}

void map_set(struct map *map, uint64_t a, uint64_t b, uint64_t value)
{
    size_t at;

    if (2 * (map->n + 1) > map->max) {
        struct map larger = {.max = map->max > 0 ? 2 * map->max : 1024};

        larger.slot = calloc(larger.max, sizeof *larger.slot);
        if (larger.slot == NULL) {
            fprintf(stderr, "aclmem: no memory for the trace\n");
            exit(1);
        }
        for (size_t i = 0; i < map->max; i++) {
            if (map->slot[i].value == 0)
                continue;
            at = map_place(&larger, map->slot[i].key[0], map->slot[i].key[1]);
            larger.slot[at] = map->slot[i];
            larger.n++;
        }
        free(map->slot);
        *map = larger;
    }
    at = map_place(map, a, b);
    map->n += map->slot[at].value == 0;
    map->slot[at].key[0] = a;
    map->slot[at].key[1] = b;
    map->slot[at].value = value + 1;
}

uint64_t map_get(const struct map *map, uint64_t a, uint64_t b, uint64_t none)
{
    size_t at;

    if (map->max == 0)
        return none;
    at = map_place(map, a, b);
    return map->slot[at].value != 0 ? map->slot[at].value - 1 : none;
}

void map_free(struct map *map)
{
    free(map->slot);
    *map = (struct map){0};
}
