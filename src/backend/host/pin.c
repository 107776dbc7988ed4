/*
 * Page-locked memory of the program.
 *
 * A pinned mem is nothing until it is mapped: then it is anonymous memory at that
 * address, and its view is the mapping itself.  So copies reach it where the program
 * does, it costs no descriptor, and it is gone when it is unmapped; the core unmaps it
 * only when it is no longer in use.  For a watcher that protects the program's addresses
 * the memory is mapped a second time, and the view is that mapping.
 *
 * Locking is what RLIMIT_MEMLOCK limits.  The soft limit is raised to the hard one when
 * it is reached.  Where that is small, 8 MB on many machines, memory is locked as blocks
 * are allocated, a little at a time; elsewhere in chunks, which huge pages can serve.
 */
#include "backend/host/host.h"

#include <stdlib.h>

#include "acl/error_codes/rt_error_codes.h"
#include "base/descriptor.h"
#include "base/error.h"
#include "base/log.h"
#include "base/options.h"
#include "base/sys.h"

#define LIMIT_PLENTY (512 * AM_MIB) /* a chunk for every class of blocks, twice */
#define STEP (64 * AM_KIB)

#define SPACE_FLAGS (MAP_ANONYMOUS | MAP_FIXED)

static atomic_bool is_watched;

void host_watch_pinned(bool wants_view)
{
    is_watched = wants_view;
}

aclError host_pinned_create(struct am_mem *mem)
{
    struct host_mem *hm = host_mem(mem);

    /* The program writes behind our back, and locking brings the pages in. */
    *hm = (struct host_mem){
        .store = host_store_make(mem->size, HOST_FRAME_HOLDS | HOST_FRAME_READY)};
    AM_REQUIRE(hm->store != NULL, ACL_ERROR_BAD_ALLOC,
               "no host memory for the records of pinned memory");
    return ACL_SUCCESS;
}

static void own_view_close(struct host_store *store)
{
    if (store->has_own_view)
        munmap(store->view, store->n_frames << AM_CHUNK_SHIFT);
    store->has_own_view = false;
}

void host_pinned_destroy(struct am_mem *mem)
{
    own_view_close(host_mem(mem)->store);
    free(host_mem(mem)->store);
}

/* The pages cannot be locked: an error, or a warning. */
static aclError lock_refused(size_t size, bool must_lock)
{
    static atomic_bool was_said;
    struct rlimit limit = {0};

    getrlimit(RLIMIT_MEMLOCK, &limit);
    if (must_lock)
        return am_fail(
            ACL_ERROR_RT_RESOURCE_ALLOC_FAIL,
            "%zu bytes of host memory cannot be locked (%m): RLIMIT_MEMLOCK is %llu "
            "bytes; raise it with ulimit -l or LimitMEMLOCK=, or give the process "
            "CAP_IPC_LOCK",
            size, (unsigned long long)limit.rlim_cur);
    if (am_option_number(AM_OPTION_lock_warning) && !atomic_exchange(&was_said, true))
        am_log(AM_LOG_WARN,
               "host memory is not locked from here on: RLIMIT_MEMLOCK is %llu bytes "
               "(%m); raise "
               "it with ulimit -l or LimitMEMLOCK=, or give the process CAP_IPC_LOCK",
               (unsigned long long)limit.rlim_cur);
    return ACL_SUCCESS;
}

aclError host_pin(void *addr, size_t size, bool must_lock)
{
    uint8_t *at = addr;
    uint8_t *end = at + size;
    aclError rc = ACL_SUCCESS;

    while (at < end) {
        size_t part;

        rc = host_room_check(at, (size_t)(end - at), &part);
        if (rc != ACL_SUCCESS)
            break;
        if (am_sys_mlock(at, part) != 0 &&
            !(am_limit_raise(RLIMIT_MEMLOCK) && am_sys_mlock(at, part) == 0)) {
            rc = lock_refused((size_t)(end - at), must_lock);
            break;
        }
        at += part;
    }
    if (rc != ACL_SUCCESS && at > (uint8_t *)addr)
        munlock(addr, (size_t)(at - (uint8_t *)addr));
    return rc;
}

void host_unpin(void *addr, size_t size)
{
    munlock(addr, size);
}

size_t host_pin_step(void)
{
    struct rlimit limit;
    bool is_plenty =
        getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_max >= LIMIT_PLENTY;

    return is_plenty ? AM_CHUNK : STEP;
}

aclError host_pinned_map(void *addr, size_t size, struct am_mem *mem)
{
    struct host_store *store = host_mem(mem)->store;
    int sharing = is_watched ? MAP_SHARED : MAP_PRIVATE;
    size_t part;
    aclError rc;

    AM_TRY(host_room_check(NULL, size, &part));
    own_view_close(store);
    if (am_sys_mmap(addr, size, PROT_READ | PROT_WRITE, SPACE_FLAGS | sharing, -1, 0) ==
        MAP_FAILED)
        return host_error(errno, "host memory", size);
    madvise(addr, size, MADV_HUGEPAGE); /* a wish: fewer pages to lock */
    store->view = addr;
    if (sharing == MAP_PRIVATE)
        return ACL_SUCCESS;
    store->view = am_sys_mremap(addr, 0, size, MREMAP_MAYMOVE, NULL);
    if (store->view == MAP_FAILED) {
        rc = host_error(errno, "a view of host memory", size);
        store->view = addr;
        host_map_undo(addr, size, mem);
        return rc;
    }
    store->has_own_view = true;
    return ACL_SUCCESS;
}
