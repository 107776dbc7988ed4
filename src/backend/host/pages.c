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

#include "base/clock.h"
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
    can_collapse = option == AM_HUGE_PAGES_AUTO     ? am_machine_can_collapse()
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
