/* A hash table of numbers, and arrays that grow: what reading a trace needs. */
#ifndef ACLMEM_MAP_H
#define ACLMEM_MAP_H

#include <stddef.h>
#include <stdint.h>

/* Pairs of numbers -> numbers below UINT64_MAX.  All zero is an empty map. */
struct map {
    struct {
        uint64_t key[2];
        uint64_t value; /* + 1; 0: the slot is empty */
    } * slot;
    size_t n, max;
};

void map_set(struct map *map, uint64_t a, uint64_t b, uint64_t value);
/* The value, or `none`. */
uint64_t map_get(const struct map *map, uint64_t a, uint64_t b, uint64_t none);
void map_free(struct map *map);

/* The array with room for one more element; ends the program without memory. */
void *array_grow(void *array, size_t n, size_t *max, size_t size);

#endif
