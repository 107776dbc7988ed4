/*
 * Managed memory: aclrtMemAllocManaged.
 *
 * One address for the host and all devices: memory of the host's that the program may
 * touch itself, whatever ACLMEM_ISOLATE says.  It is taken page by page as it is written,
 * so that far more may be allocated than the machine has; the documents' limit is 3 TB a
 * process.
 *
 * Addresses are the documented ones, 3 TB from 0x90000000000 on.  Differs: where
 * something else lies there (a sanitizer's shadow memory), the address is another.
 *
 * Where a page would be is only remembered: each page of 2 MB knows what it was advised
 * to and where it was last prefetched to.
 */
#ifndef AM_CORE_MANAGED_H
#define AM_CORE_MANAGED_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "acl/acl_rt.h"
#include "core/stream/stream.h"

aclError am_managed_alloc(uint64_t size, void **ret_addr);
/* The library stops.  One block is freed by aclrtFree, by way of its owner. */
void am_managed_free_all(void);

/* How many blocks are live; *size grows by the bytes that were asked for in them. */
uint64_t am_managed_count(uint64_t *size);

/* Bytes in use; written under a lock, read without. */
extern _Atomic uint64_t am_managed_used;

/* size is a multiple of 2 MB, as in prefetches. */
aclError am_managed_advise(const void *addr, size_t size,
                           aclrtMemManagedAdviseType advice,
                           const aclrtMemManagedLocation *location);

/* Whether the attribute is stored in `size` bytes. */
aclError am_managed_check_attr(aclrtMemManagedRangeAttribute attr, size_t size);
/* Answers for all pages of the range; every attribute and its size have been checked. */
aclError am_managed_get_attrs(const aclrtMemManagedRangeAttribute *attrs, size_t n,
                              const void *addr, size_t size, void *const *data,
                              const size_t *data_sizes);

/* Prefetches n ranges; locations[k] is for those from indexes[k] on. */
struct am_prefetch {
    const void *const *addrs;
    const size_t *sizes;
    size_t n;
    const aclrtMemManagedLocation *locations;
    const size_t *indexes;
    size_t n_locations;
};

aclError am_managed_prefetch(const struct am_prefetch *prefetch,
                             struct am_stream *stream);

#endif
