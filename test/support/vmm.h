/* Short words for the steps that nearly every test of the virtual-memory calls takes. */
#ifndef TEST_SUPPORT_VMM_H
#define TEST_SUPPORT_VMM_H

#include "support.h"

aclrtPhysicalMemProp device_prop(uint32_t device, aclrtMemAttr attr);
aclrtPhysicalMemProp located_prop(aclrtMemLocationType type, uint32_t id,
                                  aclrtMemAttr attr);

/* Each call has to succeed; reserve() uses the huge-page flag. */
void *reserve(size_t size);
void *reserve_at(void *expect, size_t size);
aclrtDrvMemHandle alloc(size_t size);
aclrtDrvMemHandle alloc_on(uint32_t device, size_t size);
aclrtDrvMemHandle alloc_host(size_t size);
void map(void *va, size_t size, aclrtDrvMemHandle handle);

/* A reservation of `size` with one handle of the same size mapped over it. */
struct block {
    char *va;
    size_t size;
    aclrtDrvMemHandle handle;
};
struct block block_create(size_t size);
struct block block_create_host(size_t size);
/* Unmaps, frees, releases; each has to succeed. */
void block_destroy(struct block *b);

/* Bytes that tell where they belong: position `at` of the sequence that `seed` names. */
uint8_t pattern(uint64_t seed, size_t at);
/*
 * Copies size bytes of the sequence to device (or mapped) memory, and compares what is
 * there.
 */
void put_pattern(void *dst, size_t size, uint64_t seed);
#define assert_pattern(src_, size_, seed_) \
    check_pattern(src_, size_, seed_, __FILE__, __LINE__)
void check_pattern(const void *src, size_t size, uint64_t seed, const char *file,
                   int line);
#define assert_all_bytes(src_, size_, byte_) \
    check_all_bytes(src_, size_, byte_, __FILE__, __LINE__)
void check_all_bytes(const void *src, size_t size, uint8_t byte, const char *file,
                     int line);

/* The same by hand, for memory that the program may touch. */
void fill(uint8_t *dst, size_t size, uint64_t seed);
bool is_filled(const uint8_t *src, size_t size, uint64_t seed);

aclError copy(void *dst, const void *src, size_t size, aclrtMemcpyKind kind);
aclError set_access(void *va, size_t size, aclrtMemLocationType type, uint32_t id,
                    aclrtMemAccessFlags flags);
uint64_t get_access(void *va, aclrtMemLocationType type, uint32_t id);

/* What a process takes of the system is not for tests to count then; says so. */
bool is_sanitized(void);
/* The kernel gives these addresses to whoever asks.  Under a sanitizer some are taken. */
bool is_free_range(uintptr_t start, size_t size);
/* The kernel has the page in use, whoever may touch it. */
bool is_taken(const void *page);

#endif
