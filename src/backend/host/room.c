/*
 * Whether the machine has the memory that is about to be populated.
 *
 * The devices of all processes together have more memory than the machine as soon as
 * there are two configurations, a large ACLMEM_MEMORY, or managed memory.  The kernel
 * kills a process for which it finds no page, and a container's limit is such a case.
 * So every caller that populates pages asks here first, and fails instead.
 *
 * Several processes may find the same free memory at the same moment.  So each of them
 * populates a small part of it and then asks again; the parts of all of them together
 * hardly use up the free memory.
 *
 * Checking the machine means reading some files of the kernel, which takes as long as
 * populating a megabyte.  So a check also grants a credit: such a part, which may be
 * populated for a short time without another check.
 */
#include "backend/host/host.h"

#include "acl/error_codes/rt_error_codes.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/machine.h"
#include "base/sys.h"

#define RESERVE (64 * AM_MIB) /* left to the rest of the machine */
#define PART_OF_LEFT 64
#define CREDIT_TIME (100 * AM_MILLISECOND)

static atomic_size_t credit;          /* bytes */
static _Atomic uint64_t credit_until; /* when it ends */

static bool credit_use(size_t size)
{
    size_t left = credit;

    if (am_clock() >= credit_until)
        return false;
    do {
        if (left < size)
            return false;
    } while (!atomic_compare_exchange_weak(&credit, &left, left - size));
    return true;
}

/* Bytes of the range that are not there yet; all of them where the kernel does not say. */
static size_t bytes_missing(const uint8_t *view, size_t size)
{
    unsigned char is_there[4096]; /* a byte for each page */
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t missing = 0;

    for (size_t at = 0; at < size;) {
        size_t left = size - at;
        size_t n = left < page * sizeof is_there ? left : page * sizeof is_there;

        if (mincore((void *)(uintptr_t)(view + at), n, is_there) != 0)
            return missing + left;
        for (size_t i = 0; i < n / page; i++)
            missing += is_there[i] & 1 ? 0 : page;
        at += n;
    }
    return missing;
}

aclError host_room_check(const void *view, size_t size, size_t *ret_part)
{
    size_t available;
    size_t left;
    size_t needed = size;
    size_t part;

    *ret_part = size;
    if (credit_use(size))
        return ACL_SUCCESS;
    available = am_machine_available();
    left = available > RESERVE ? available - RESERVE : 0;
    if (size > left && view != NULL)
        needed = bytes_missing(view, size);
    AM_REQUIRE(
        needed <= left, ACL_ERROR_RT_MEMORY_ALLOCATION,
        "Failed to allocate: this takes %zu more bytes of the machine's memory, "
        "and %zu are left, besides %zu MB for other programs; free some memory, end "
        "other processes, or lower ACLMEM_MEMORY to what the machine has",
        needed, left, RESERVE / AM_MIB);
    /* By the size where most of it is there: counting what is missing takes time. */
    part = ((size > left ? size : left) / PART_OF_LEFT) & ~(AM_CHUNK - 1);
    part = part > AM_CHUNK ? part : AM_CHUNK;
    *ret_part = size < part ? size : part;
    credit = *ret_part == size ? (left - needed) / PART_OF_LEFT : 0;
    credit_until = am_clock() + CREDIT_TIME;
    return ACL_SUCCESS;
}
