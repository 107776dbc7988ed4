/*
 * Bringing in the pages of a store, huge ones where the system has them.
 *
 * Pages are brought in by MADV_POPULATE_WRITE, which is several times faster than page
 * faults and, unlike a fault, can fail with an error.  Kernels before 5.14 do not know
 * it; there the file is allocated, which fails as well, and the faults map the pages.
 *
 * Most systems give memory files ordinary pages (shmem_enabled is never): 2 MB of them
 * take 1,200 us to bring in and 400 us to give back.  MADV_COLLAPSE (Linux 6.1) makes a
 * huge page of 2 MB of a file whatever that setting is, if at least one page of them is
 * there.  So the first page of each frame is brought in, and the frames are collapsed: 200
 * us for 2 MB, and 8 us to give them back, as with private memory of huge pages.  Ordinary
 * pages are populated wherever the system has no huge page at hand, so a failed collapse
 * costs time and changes nothing else.
 *
 * MADV_COLLAPSE first makes all processors empty their lists of new pages, which takes
 * 1 us on an idle machine and many milliseconds where other programs keep the
 * processors busy.  That does not matter for a long run of frames.  A short run that took
 * longer than ordinary pages would have taken makes the short runs of the next second
 * do without.
 */
#include "backend/host/host.h"

#include "acl/error_codes/rt_error_codes.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/machine.h"
#include "base/options.h"
#include "base/sys.h"

#define LONG_RUN (8 * AM_CHUNK)
#define FRAME_TIME AM_MILLISECOND /* about what 2 MB of ordinary pages take */
#define SHORT_RUN_PAUSE AM_SECOND

static atomic_bool populate_is_unknown; /* the kernel does not know MADV_POPULATE_WRITE */
static atomic_bool may_be_huge = true;
static atomic_bool can_collapse;
static _Atomic uint64_t short_runs_from; /* the time from which on short runs collapse */

aclError host_start(void)
{
    int64_t option = am_option_number(AM_OPTION_huge_pages);

    may_be_huge = option != AM_HUGE_PAGES_NEVER;
    can_collapse = option == AM_HUGE_PAGES_AUTO
                       ? am_machine_can_collapse(am_machine_knows_collapse())
                   : option == AM_HUGE_PAGES_ALWAYS ? am_machine_knows_collapse()
                                                    : false;
    short_runs_from = 0;
    return ACL_SUCCESS;
}

bool host_pages_may_be_huge(void)
{
    return may_be_huge;
}

bool host_pages_can_collapse(void)
{
    return can_collapse;
}

/* The first page of each frame that has none; returns the number of such frames. */
static size_t frames_begin(uint8_t *at, size_t size)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    unsigned char is_there;
    size_t n = 0;

    for (uint8_t *end = at + size; at < end; at += AM_CHUNK) {
        /* Frames that the program or another process has begun keep their pages. */
        if (mincore(at, page, &is_there) != 0 || (is_there & 1) ||
            madvise(at, page, MADV_POPULATE_WRITE) != 0)
            continue;
        n++;
    }
    return n;
}

/* A wish: the frames that get no huge page are populated afterwards. */
static void frames_collapse(uint8_t *at, size_t size)
{
    bool is_short = size < LONG_RUN;
    uint64_t start = am_clock();
    bool is_done;

    if (is_short && start < short_runs_from)
        return;
    if (frames_begin(at, size) == 0)
        return;
    is_done = am_sys_madvise(at, size, MADV_COLLAPSE) == 0;
    if (is_short &&
        (!is_done || am_clock() - start > (size >> AM_CHUNK_SHIFT) * FRAME_TIME))
        short_runs_from = start + SHORT_RUN_PAUSE;
}

int host_pages_bring(struct host_store *store, size_t at, size_t size)
{
    int rc;

    if (store->wants_huge && !populate_is_unknown)
        frames_collapse(store->view + at, size);
    while (!populate_is_unknown) {
        if (am_sys_madvise(store->view + at, size, MADV_POPULATE_WRITE) == 0)
            return 0;
        if (errno == EINVAL)
            populate_is_unknown = true;
        else if (errno != EINTR && errno != EAGAIN)
            return errno;
    }
    if (store->fd < 0)
        return 0; /* imported: nothing but touching it brings the pages in */
    do
        rc = am_sys_posix_fallocate(store->fd, (off_t)at, (off_t)size);
    while (rc == EINTR);
    return rc;
}

/* ---- room ---- */

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
