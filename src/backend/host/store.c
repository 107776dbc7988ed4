/*
 * A store: a memfd and its view.
 *
 * The memfd is sparse, so a store of any size costs nothing until frames are written.  A
 * frame's pages are brought in at its first write (pages.c).
 *
 * Transparent huge pages are asked for.  They take a view that begins at a multiple of 2 MB.  Small stores, of which a program may have many, do without: finding
 * such an address takes as long as making the file.
 */
#include "backend/host/host.h"

#include <string.h>

#include "acl/error_codes/rt_error_codes.h"
#include "base/descriptor.h"
#include "base/error.h"
#include "base/sys.h"

#define ALIGNED_SIZE \
    (16 * AM_MIB) /* views from this size on begin at a multiple of 2 MB */

/* The view of all of fd: 0 or -errno. */
static int store_view(struct host_store *store, int fd)
{
    int flags = MAP_SHARED | MAP_NORESERVE;
    size_t size = store->n_frames << AM_CHUNK_SHIFT;
    uint8_t *none = NULL;
    void *want = NULL;
    void *view;
    int rc = 0;

    store->wants_huge = host_pages_can_collapse() && size >= ALIGNED_SIZE;
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
    madvise(view, size, host_pages_may_be_huge() ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
    /* Of two threads that use the memory for the first time, the other may be done. */
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

aclError host_store_open(struct host_store *store, size_t size)
{
    size_t n_frames = size >> AM_CHUNK_SHIFT;
    void *state;
    int rc;

    /* Mapped, not allocated: of a large store's states only the used pages exist. */
    state = am_sys_mmap(NULL, n_frames, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    AM_REQUIRE(state != MAP_FAILED, ACL_ERROR_BAD_ALLOC,
               "no memory for the states of %zu frames", n_frames);

    *store = (struct host_store){.fd = -1, .n_frames = n_frames, .state = state};
    rc = store_open(store);
    if (rc == 0)
        rc = store_view(store, store->fd);
    if (rc != 0) {
        if (store->fd >= 0)
            close(store->fd);
        munmap(state, n_frames);
        return host_error(-rc, "a memory file", size);
    }
    return ACL_SUCCESS;
}

void host_store_close(struct host_store *store)
{
    munmap(store->view, store->n_frames << AM_CHUNK_SHIFT);
    munmap((void *)store->state, store->n_frames);
    close(store->fd);
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
    memset((void *)store->state, state, n_frames);
    return store;
}

aclError host_store_create(size_t size, int fd, struct host_store **ret_store)
{
    struct host_store *store = host_store_make(size, HOST_FRAME_HOLDS);
    int rc;

    AM_REQUIRE(store != NULL, ACL_ERROR_BAD_ALLOC, "no memory for a store");
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

/* Populates at least one of the n frames; *ret_n is how many. */
static aclError store_populate(struct host_store *store, size_t first, size_t n,
                               size_t *ret_n)
{
    size_t size = n << AM_CHUNK_SHIFT;
    int error;

    AM_TRY(host_store_see(store));
    AM_TRY(host_room_check(store->view + (first << AM_CHUNK_SHIFT), size, &size));
    *ret_n = size >> AM_CHUNK_SHIFT;
    error = host_pages_bring(store, first << AM_CHUNK_SHIFT, size);
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
