/* Short words for blocks of aclrtMalloc and aclrtMallocHost. */
#ifndef TEST_SUPPORT_BLOCKS_H
#define TEST_SUPPORT_BLOCKS_H

#include "support.h"

/* As claim() and its siblings; at the end no block may be left. */
#define claim_blocks(f_) \
    { \
#f_, f_, start_default, finish_blocks, NULL \
    }
#define claim_blocks_strict(f_) \
    { \
        "strict: " #f_, f_, start_strict, finish_blocks, NULL \
    }
#define claim_blocks_both(f_) claim_blocks(f_), claim_blocks_strict(f_)
#define claim_blocks_alone(f_) \
    { \
#f_, f_, NULL, finish_blocks, NULL \
    }
int finish_blocks(void **state);

/* Sizes around every step: classes, chunks, the border of small and large. */
enum { N_BLOCK_SIZES = 33 };
extern const size_t block_sizes[N_BLOCK_SIZES];

/* Each has to succeed. */
char *device_malloc(size_t size);
char *host_malloc(size_t size);
void device_free(void *p);
void host_free(void *p);

/* Where the address lies, and its page size. */
aclrtMemLocationType location_type(const void *p);
uint32_t location_id(const void *p);
uint32_t page_size(const void *p);

/* The block that an address lies in. */
size_t block_size(void *p);
void *block_start(void *p);

/* A number below n; the same numbers for the same seed. */
size_t random_to(uint64_t *seed, size_t n);

#endif
