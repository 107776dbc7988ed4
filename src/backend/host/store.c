/*
 * A store: a memfd, its view, and the pages of its frames, huge ones where the system has them.
 *
 * The memfd is sparse, so a store of any size costs nothing until frames are written.  A
 * frame's pages are brought in at its first write.
 *
 * Transparent huge pages are asked for.  They take a view that begins at a multiple of 2 MB.
 * Small stores, of which a program may have many, do without: finding such an address takes as
 * long as making the file.
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

#include <string.h>

#include "acl/error_codes/rt_error_codes.h"
#include "base/clock.h"
#include "base/descriptor.h"
#include "base/error.h"
#include "base/machine.h"
#include "base/options.h"
#include "base/sys.h"

#define ALIGNED_SIZE \
    (16 * AM_MIB) /* views from this size on begin at a multiple of 2 MB */
#define LONG_RUN (8 * AM_CHUNK)
#define FRAME_TIME AM_MILLISECOND /* about what 2 MB of ordinary pages take */
#define SHORT_RUN_PAUSE AM_SECOND

static atomic_bool populate_is_unknown; /* the kernel does not know MADV_POPULATE_WRITE */
static atomic_bool may_be_huge = true;
static atomic_bool can_collapse;
static _Atomic uint64_t short_runs_from; /* the time from which on short runs collapse */

/* Chosen here, since calls that outlive a stop must not read options. */
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

static bool wants_huge(size_t size)
{
    return can_collapse && size >= ALIGNED_SIZE;
}

/* The view of all of fd: 0 or -errno.  Several threads may make the first one. */
static int store_view(struct host_store *store, int fd)
{
    int flags = MAP_SHARED | MAP_NORESERVE;
    size_t size = store->n_frames << AM_CHUNK_SHIFT;
    uint8_t *none = NULL;
    void *want = NULL;
    void *view;
    int rc = 0;

    if (store->wants_huge)
        rc = host_reserve_aligned(size, AM_CHUNK, &want);
    if (rc != 0)
        return rc;
    if (want != NULL)
        flags |= MAP_FIXED;
    view = am_sys_mmap(want, size, PROT_READ | PROT_WRITE, flags, fd, 0);
    if (view == MAP_FAILED) {
        rc = -errno;
        if (want != NULL)
            munmap(want, size);
        return rc;
    }
    /* A wish, which decides where shmem_enabled is advise. */
    madvise(view, size, may_be_huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
    if (!atomic_compare_exchange_strong(&store->view, &none, view))
        munmap(view, size);
    return 0;
}

/* A memfd of the store's size: 0 or -errno. */
static int store_open(struct host_store *store)
{
    store->fd = am_memfd_make("aclmem", store->n_frames << AM_CHUNK_SHIFT, 0);
    return store->fd < 0 ? store->fd : 0;
}

aclError host_store_see(struct host_store *store)
{
    int rc = store->view == NULL ? store_view(store, store->fd) : 0;

    return rc == 0 ? ACL_SUCCESS
                   : host_error(-rc, "a view of a memory file",
                                store->n_frames << AM_CHUNK_SHIFT);
}

struct host_store *host_store_make(size_t size, uint8_t state)
{
    size_t n_frames = size >> AM_CHUNK_SHIFT;
    struct host_store *store = am_sys_calloc(1, sizeof *store + n_frames);

    if (store == NULL)
        return NULL;
    store->fd = -1;
    store->n_frames = n_frames;
    store->state = (_Atomic uint8_t *)(store + 1);
    if (state != 0) /* of a large store's states only the used pages exist */
        memset((void *)store->state, state, n_frames);
    return store;
}

aclError host_store_create(size_t size, int fd, uint8_t state,
                           struct host_store **ret_store)
{
    struct host_store *store = host_store_make(size, state);
    int rc;

    AM_REQUIRE(store != NULL, ACL_ERROR_BAD_ALLOC, "no memory for a store");
    store->wants_huge = wants_huge(size);
    rc = fd < 0 ? store_open(store) : store_view(store, fd);
    if (rc != 0) {
        free(store);
        return host_error(-rc, fd < 0 ? "a memory file" : "imported memory", size);
    }
    *ret_store = store;
    return ACL_SUCCESS;
}

void host_store_destroy(struct host_store *store)
{
    if (store->view != NULL)
        munmap(store->view, store->n_frames << AM_CHUNK_SHIFT);
    if (store->fd >= 0)
        close(store->fd);
    free(store);
}

/* ---- pages ---- */

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

/* Brings in `size` bytes of whole frames from `at` on: 0 or an errno. */
static int pages_bring(struct host_store *store, size_t at, size_t size)
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

/* ---- frames ---- */

/* Populates at least one of the n frames; *ret_n is how many. */
static aclError store_populate(struct host_store *store, size_t first, size_t n,
                               size_t *ret_n)
{
    size_t size = n << AM_CHUNK_SHIFT;
    int error;

    AM_TRY(host_store_see(store));
    AM_TRY(host_room_check(store->view + (first << AM_CHUNK_SHIFT), size, &size));
    *ret_n = size >> AM_CHUNK_SHIFT;
    error = pages_bring(store, first << AM_CHUNK_SHIFT, size);
    AM_REQUIRE(error == 0, ACL_ERROR_RT_MEMORY_ALLOCATION,
               "Failed to allocate: the machine has no %zu bytes left to back the "
               "device's memory (%s); lower ACLMEM_MEMORY to what the machine has",
               size, strerror(error));
    return ACL_SUCCESS;
}

aclError host_store_ready(struct host_store *store, size_t first, size_t n)
{
    size_t end = first + n;

    while (first < end) {
        size_t run = first;
        size_t n_ready;

        while (run < end && (store->state[run] & HOST_FRAME_READY) == 0)
            run++;
        if (run == first) {
            first++;
            continue;
        }
        AM_TRY(store_populate(store, first, run - first, &n_ready));
        for (; n_ready > 0; n_ready--)
            atomic_fetch_or(&store->state[first++], HOST_FRAME_READY | HOST_FRAME_HOLDS);
    }
    return ACL_SUCCESS;
}

bool host_store_discard(struct host_store *store, size_t first, size_t n)
{
    if (am_sys_fallocate(store->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                         (off_t)(first << AM_CHUNK_SHIFT),
                         (off_t)(n << AM_CHUNK_SHIFT)) != 0)
        return false;
    for (size_t i = first; i < first + n; i++)
        store->state[i] = 0;
    return true;
}
