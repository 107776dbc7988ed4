#include "vmm.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

aclrtPhysicalMemProp located_prop(aclrtMemLocationType type, uint32_t id,
                                  aclrtMemAttr attr)
{
    aclrtPhysicalMemProp prop;

    memset(&prop, 0, sizeof(prop));
    prop.handleType = ACL_MEM_HANDLE_TYPE_NONE;
    prop.allocationType = ACL_MEM_ALLOCATION_TYPE_PINNED;
    prop.memAttr = attr;
    prop.location.id = id;
    prop.location.type = type;
    return prop;
}

aclrtPhysicalMemProp device_prop(uint32_t device, aclrtMemAttr attr)
{
    return located_prop(ACL_MEM_LOCATION_TYPE_DEVICE, device, attr);
}

void *reserve_at(void *expect, size_t size)
{
    void *va = NULL;

    assert_acl_ok(aclrtReserveMemAddress(&va, size, 0, expect, 1));
    assert_non_null(va);
    return va;
}

void *reserve(size_t size)
{
    return reserve_at(NULL, size);
}

static aclrtDrvMemHandle alloc_with(size_t size, aclrtPhysicalMemProp prop)
{
    aclrtDrvMemHandle handle = NULL;

    assert_acl_ok(aclrtMallocPhysical(&handle, size, &prop, 0));
    assert_non_null(handle);
    return handle;
}

aclrtDrvMemHandle alloc_on(uint32_t device, size_t size)
{
    return alloc_with(size, device_prop(device, ACL_HBM_MEM_HUGE));
}

aclrtDrvMemHandle alloc(size_t size)
{
    return alloc_on(0, size);
}

aclrtDrvMemHandle alloc_host(size_t size)
{
    return alloc_with(size, located_prop(ACL_MEM_LOCATION_TYPE_HOST, 0, ACL_MEM_HUGE));
}

void map(void *va, size_t size, aclrtDrvMemHandle handle)
{
    assert_acl_ok(aclrtMapMem(va, size, 0, handle, 0));
}

static struct block block_of(aclrtDrvMemHandle handle, size_t size)
{
    struct block b = {.size = size, .handle = handle};

    b.va = reserve(size);
    map(b.va, size, handle);
    return b;
}

struct block block_create(size_t size)
{
    return block_of(alloc(size), size);
}

struct block block_create_host(size_t size)
{
    return block_of(alloc_host(size), size);
}

void block_destroy(struct block *b)
{
    assert_acl_ok(aclrtUnmapMem(b->va));
    assert_acl_ok(aclrtFreePhysical(b->handle));
    assert_acl_ok(aclrtReleaseMemAddress(b->va));
    memset(b, 0, sizeof(*b));
}

/* ---- bytes ---- */

/* Eight bytes of the sequence at once, the first of them in the lowest bits. */
static uint64_t pattern_word(uint64_t seed, size_t word)
{
    uint64_t x = (word + 1) * 0x9e3779b97f4a7c15u + seed * 0xbf58476d1ce4e5b9u;

    return x ^ x >> 29;
}

uint8_t pattern(uint64_t seed, size_t at)
{
    return (uint8_t)(pattern_word(seed, at / 8) >> (at % 8 * 8));
}

/*
 * The sequence is made piece by piece, since sanitizers take their time for every copy and
 * comparison.
 */
enum { PIECE_WORDS = 64, PIECE = 8 * PIECE_WORDS };

/* The piece that byte `at` begins, and how much of it lies before `size`. */
static size_t piece_make(uint64_t piece[PIECE_WORDS], uint64_t seed, size_t at,
                         size_t size)
{
    for (size_t i = 0; i < PIECE_WORDS; i++)
        piece[i] = htole64(pattern_word(seed, at / 8 + i));
    return size - at < PIECE ? size - at : PIECE;
}

void fill(uint8_t *dst, size_t size, uint64_t seed)
{
    uint64_t piece[PIECE_WORDS];

    for (size_t at = 0; at < size; at += PIECE) {
        size_t n = piece_make(piece, seed, at, size);

        memcpy(dst + at, piece, n);
    }
}

/* The first byte that does not belong to the sequence; size where all do. */
static size_t first_wrong(const uint8_t *src, size_t size, uint64_t seed)
{
    uint64_t piece[PIECE_WORDS];

    for (size_t at = 0; at < size; at += PIECE) {
        size_t n = piece_make(piece, seed, at, size);

        if (memcmp(src + at, piece, n) == 0)
            continue;
        while (src[at] == pattern(seed, at))
            at++;
        return at;
    }
    return size;
}

bool is_filled(const uint8_t *src, size_t size, uint64_t seed)
{
    return first_wrong(src, size, seed) == size;
}

static void *buffer(size_t size)
{
    void *p = malloc(size);

    assert_non_null(p);
    return p;
}

aclError copy(void *dst, const void *src, size_t size, aclrtMemcpyKind kind)
{
    return aclrtMemcpy(dst, size, src, size, kind);
}

void put_pattern(void *dst, size_t size, uint64_t seed)
{
    uint8_t *bytes = buffer(size);
    aclError rc;

    fill(bytes, size, seed);
    rc = copy(dst, bytes, size, ACL_MEMCPY_HOST_TO_DEVICE);
    free(bytes);
    if (rc != ACL_SUCCESS)
        fail_msg("copy to %p: %d %s", dst, rc, aclGetRecentErrMsg());
}

/* A copy of what is there; the caller frees it. */
static uint8_t *fetch(const void *src, size_t size, const char *file, int line)
{
    uint8_t *bytes = buffer(size);
    aclError rc;

    memset(bytes, 0xee, size);
    rc = copy(bytes, src, size, ACL_MEMCPY_DEVICE_TO_HOST);
    if (rc == ACL_SUCCESS)
        return bytes;
    free(bytes);
    print_error("copy from %p: %d %s\n", src, rc, aclGetRecentErrMsg());
    _fail(file, line);
    return NULL;
}

static void differ_at(const void *src, size_t at, uint8_t got, uint8_t expected,
                      const char *file, int line)
{
    print_error("byte %zu at %p is 0x%02x and should be 0x%02x\n", at, src, got,
                expected);
    _fail(file, line);
}

void check_pattern(const void *src, size_t size, uint64_t seed, const char *file,
                   int line)
{
    uint8_t *bytes = fetch(src, size, file, line);
    size_t at = first_wrong(bytes, size, seed);
    uint8_t got = 0;

    if (at < size)
        got = bytes[at];
    free(bytes);
    if (at < size)
        differ_at(src, at, got, pattern(seed, at), file, line);
}

void check_all_bytes(const void *src, size_t size, uint8_t byte, const char *file,
                     int line)
{
    uint8_t *bytes = fetch(src, size, file, line);
    size_t at = 0;
    uint8_t got = 0;

    while (at < size && bytes[at] == byte)
        at++;
    if (at < size)
        got = bytes[at];
    free(bytes);
    if (at < size)
        differ_at(src, at, got, byte, file, line);
}

/* ---- access ---- */

aclError set_access(void *va, size_t size, aclrtMemLocationType type, uint32_t id,
                    aclrtMemAccessFlags flags)
{
    aclrtMemAccessDesc desc;

    memset(&desc, 0, sizeof(desc));
    desc.flags = flags;
    desc.location.id = id;
    desc.location.type = type;
    return aclrtMemSetAccess(va, size, &desc, 1);
}

uint64_t get_access(void *va, aclrtMemLocationType type, uint32_t id)
{
    aclrtMemLocation location = {.id = id, .type = type};
    uint64_t flag = 99;

    assert_acl_ok(aclrtMemGetAccess(va, &location, &flag));
    return flag;
}

/* gcc defines a macro for each sanitizer, clang answers a question. */
#ifndef __has_feature
#define __has_feature(x_) 0
#endif
#if defined(__SANITIZE_THREAD__) || __has_feature(thread_sanitizer)
enum { WITH_THREAD_SANITIZER = 1 };
#else
enum { WITH_THREAD_SANITIZER = 0 };
#endif
#if defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)
enum { WITH_ADDRESS_SANITIZER = 1 };
#else
enum { WITH_ADDRESS_SANITIZER = 0 };
#endif

bool is_sanitized(void)
{
    if (!WITH_ADDRESS_SANITIZER && !WITH_THREAD_SANITIZER)
        return false;
    print_message("skipped: a sanitizer takes mappings and memory of its own\n");
    return true;
}

bool is_taken(const void *page)
{
    unsigned char resident;

    return mincore((void *)(uintptr_t)page, 4096, &resident) == 0;
}

static bool can_map_at(void *start, size_t size)
{
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE;
    void *got = mmap(start, size, PROT_NONE, flags, -1, 0);

    if (got != MAP_FAILED)
        munmap(got, size);
    return got == start;
}

bool is_free_range(uintptr_t start, size_t size)
{
    /*
     * The thread sanitizer has most addresses for itself, and ends a process that asks.
     */
    if (!WITH_THREAD_SANITIZER && can_map_at((void *)start, size))
        return true;
    print_message("skipped: this process cannot have the addresses from %p on\n",
                  (void *)start);
    return false;
}
