/* Sizes, rounding and reference counts, for every folder. */
#ifndef AM_BASE_UTIL_H
#define AM_BASE_UTIL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define AM_KIB ((size_t)1 << 10)
#define AM_MIB ((size_t)1 << 20)
#define AM_GIB ((size_t)1 << 30)
#define AM_TIB ((size_t)1 << 40)

/*
 * The unit in which addresses are bound to memory, and the size of a frame of device
 * memory.
 */
#define AM_CHUNK_SHIFT 21
#define AM_CHUNK ((size_t)1 << AM_CHUNK_SHIFT)

/* A hash (FNV-1a) of the bytes so far, and of n more. */
#define AM_HASH_START UINT64_C(0xcbf29ce484222325)
static inline uint64_t am_hash_add(uint64_t hash, const void *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        hash = (hash ^ ((const uint8_t *)bytes)[i]) * UINT64_C(0x100000001b3);
    return hash;
}

/* The object of type type_ whose member member_ is at pointer_. */
#define AM_CONTAINER_OF(pointer_, type_, member_) \
    ((type_ *)((char *)(pointer_)-offsetof(type_, member_)))

#define AM_ARRAY_SIZE(array_) (sizeof(array_) / sizeof((array_)[0]))

/* align is a power of two.  The caller has made sure that x + align does not overflow. */
static inline size_t am_align_up(size_t x, size_t align)
{
    return (x + align - 1) & ~(align - 1);
}

static inline bool am_is_aligned(size_t x, size_t align)
{
    return (x & (align - 1)) == 0;
}

/*
 * For all functions between aclrtMemcpyAsync and the call of a GPU's driver: they lie
 * together in memory.  The driver's own code is what the processor's caches hold when one
 * is called, so the fewer lines and pages of ours have to be fetched the better.
 */
#define AM_HOT __attribute__((hot))
/* Cold path: kept out of line so that the hot functions stay contiguous. */
#define AM_COLD __attribute__((noinline, cold))

/*
 * Reference counts.  am_ref_try() is for objects that a read section (base/epoch.h) found: it
 * fails once the count has reached zero, since the object is then being destroyed.
 */
static inline bool am_ref_try(atomic_uint *refs)
{
    unsigned n = atomic_load_explicit(refs, memory_order_relaxed);

    while (n != 0) {
        if (atomic_compare_exchange_weak_explicit(refs, &n, n + 1, memory_order_relaxed,
                                                  memory_order_relaxed))
            return true;
    }
    return false;
}

static inline void am_ref_more(atomic_uint *refs)
{
    atomic_fetch_add_explicit(refs, 1, memory_order_relaxed);
}

/* True when this was the last one: the caller destroys the object. */
static inline bool am_ref_drop(atomic_uint *refs)
{
    return atomic_fetch_sub_explicit(refs, 1, memory_order_acq_rel) == 1;
}

/* Whether `size` bytes from `at` on, counted from the start of a block, end within it. */
static inline bool am_is_within(size_t bound, size_t at, size_t size)
{
    return at <= bound && size <= bound - at;
}

#endif
