/* The addresses that calls of a recording returned, and their values in this run. */
#ifndef ACLMEM_RANGES_H
#define ACLMEM_RANGES_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct range {
    uint64_t recorded, size, actual;
    uint64_t charged; /* bytes of host memory that the limit counts */
    bool is_host;     /* memory of the process: the library does not know where it ends */
    bool is_freed;    /* the address may be used for other memory of this process now */
};

struct ranges {
    pthread_mutex_t lock;
    struct range *range; /* sorted */
    size_t n, max;
};

enum address { ADDRESS_UNKNOWN, ADDRESS_FREED, ADDRESS_LIVE };

/* Enters a range; it replaces one with the same recorded address. */
void range_set(struct ranges *ranges, struct range range);
/*
 * Whether a call returned the address, and its value in this run.  `extent` bytes that would
 * pass the end of host memory are at no known address.  *ret_size is the size of the object
 * if the address is its begin.
 */
enum address range_get(struct ranges *ranges, uint64_t recorded, uint64_t extent,
                       uint64_t *ret_actual, uint64_t *ret_size);
/*
 * The object that begins at an address is freed, and registered memory in it.  Returns the
 * bytes of host memory that the limit counted.
 */
uint64_t range_free(struct ranges *ranges, uint64_t recorded);
/* The same for all objects: the library has stopped. */
uint64_t ranges_free_all(struct ranges *ranges);

#endif
