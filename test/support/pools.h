/* Short words for stream-ordered memory pools. */
#ifndef TEST_SUPPORT_POOLS_H
#define TEST_SUPPORT_POOLS_H

#include "support.h"

/* Of a pool on device 0. */
aclrtMemPoolProps pool_props(size_t max);

/* Each has to succeed. */
aclrtMemPool pool_create(size_t max);
void *take(aclrtMemPool pool, size_t size, aclrtStream stream);

/* An attribute of 64 bits; bytes of memory that the pool has; bytes in blocks. */
uint64_t figure(aclrtMemPool pool, aclrtMemPoolAttr attr);
uint64_t reserved(aclrtMemPool pool);
uint64_t used(aclrtMemPool pool);

/* The ways in which memory comes to another stream than the one that freed it. */
void set_switch(aclrtMemPool pool, aclrtMemPoolAttr attr, uint32_t value);
void set_switches(aclrtMemPool pool, uint32_t follow, uint32_t opportunistic,
                  uint32_t internal);
/* Synchronising gives nothing back. */
void keep_memory(aclrtMemPool pool);

#endif
