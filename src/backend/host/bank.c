/*
 * Banks: frames for isolated device memory, stores for everything else.
 *
 * Free frames are kept on two stacks in one array (host.h), so taking and giving back are
 * constant time for each frame and nothing is ever searched.  Frames that hold bytes are
 * handed out first: their pages are there already, and what this process left in them it
 * may see again.  A mem's frames go back in reverse, so that the next mem of the same
 * size gets neighbours in the same order and copies join them. Above a limit, frames that
 * hold bytes are given back to the system.
 */
#include "backend/host/host.h"

#include <numaif.h>
#include <stdlib.h>

#include "acl/error_codes/rt_error_codes.h"
#include "base/error.h"
#include "base/log.h"
#include "base/sys.h"

aclError host_bank_open(const struct am_bank_spec *spec, struct am_bank **ret_bank)
{
    struct host_bank *bank = am_sys_calloc(1, sizeof *bank);
    size_t n_frames = spec->capacity >> AM_CHUNK_SHIFT;
    aclError rc = ACL_SUCCESS;

    AM_REQUIRE(bank != NULL, ACL_ERROR_BAD_ALLOC, "no memory for a bank");
    bank->base.ops = &am_backend_host;
    bank->base.spec = *spec;
    bank->store.fd = -1;

    if (spec->is_isolated) {
        bank->spare =
            am_sys_mmap(NULL, n_frames * sizeof *bank->spare, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (bank->spare == MAP_FAILED) {
            rc = am_fail(ACL_ERROR_BAD_ALLOC, "no memory for the list of %zu frames",
                         n_frames);
            goto err_free;
        }
        rc = host_store_open(&bank->store, spec->capacity, host_pages_may_be_huge());
        if (rc != ACL_SUCCESS)
            goto err_spare;
        bank->n_used_max = n_frames / 16 > 32 ? n_frames / 16 : 32;
        if (bank->store.is_hugetlb)
            bank->n_used_max =
                n_frames; /* a page that is given back is no longer reserved */
        am_log(AM_LOG_INFO, "device %d: %zu frames of 2 MB%s", spec->device, n_frames,
               bank->store.is_hugetlb   ? ", from the system's huge pages"
               : bank->store.wants_huge ? ", made huge pages by MADV_COLLAPSE"
                                        : "");
    }
    am_lock_init(&bank->lock, AM_RANK_BANK, "bank");
    *ret_bank = &bank->base;
    return ACL_SUCCESS;

err_spare:
    munmap(bank->spare, n_frames * sizeof *bank->spare);
err_free:
    free(bank);
    return rc;
}

void host_bank_close(struct am_bank *base)
{
    struct host_bank *bank = (struct host_bank *)base;

    if (base->spec.is_isolated) {
        munmap(bank->spare, bank->store.n_frames * sizeof *bank->spare);
        host_store_close(&bank->store);
    }
    am_lock_destroy(&bank->lock);
    free(bank);
}

/* Puts a frame on the stack that it belongs on. */
static void frame_push_locked(struct host_bank *bank, size_t frame)
    AM_REQUIRES(bank->lock)
{
    if (atomic_load_explicit(&bank->store.state[frame], memory_order_relaxed) &
        HOST_FRAME_HOLDS)
        bank->spare[bank->n_used++] = (uint32_t)frame;
    else
        bank->spare[bank->store.n_frames - ++bank->n_clean] = (uint32_t)frame;
}

/* n frames, written ones first; the core has counted that many free ones. */
static void frames_take_locked(struct host_bank *bank, uint32_t *frames, size_t n)
    AM_REQUIRES(bank->lock)
{
    for (size_t i = 0; i < n; i++) {
        if (bank->n_used > 0)
            frames[i] = bank->spare[--bank->n_used];
        else if (bank->n_clean > 0)
            frames[i] = bank->spare[bank->store.n_frames - bank->n_clean--];
        else
            frames[i] = (uint32_t)bank->fresh++;
    }
    am_assert(bank->fresh <= bank->store.n_frames);
}

static bool frames_hold(struct host_bank *bank, size_t first, size_t n)
{
    for (size_t i = first; i < first + n; i++) {
        if (bank->store.state[i] & HOST_FRAME_HOLDS)
            return true;
    }
    return false;
}

/*
 * Frames first .. first + n - 1, highest first, so that they are taken in ascending order
 * again.
 */
static void frames_give_locked(struct host_bank *bank, size_t first, size_t n)
    AM_REQUIRES(bank->lock)
{
    size_t room = bank->n_used < bank->n_used_max ? bank->n_used_max - bank->n_used : 0;

    if (n > room && frames_hold(bank, first + room, n - room)) {
        /*
         * Where the system does not take them back they are kept, and used again first.
         * It takes its time, so other threads are not kept waiting.
         */
        am_unlock(&bank->lock);
        host_store_discard(&bank->store, first + room, n - room);
        am_lock(&bank->lock);
    }
    for (size_t frame = first + n; frame-- > first;)
        frame_push_locked(bank, frame);
}

void host_mem_give_frames(struct am_mem *mem)
{
    struct host_bank *bank = (struct host_bank *)mem->bank;
    struct host_mem *hm = host_mem(mem);
    size_t n = mem->size >> AM_CHUNK_SHIFT;

    am_lock(&bank->lock);
    if (hm->frames == NULL) {
        frames_give_locked(bank, hm->first, n);
    } else {
        for (size_t i = n; i-- > 0;)
            frames_give_locked(bank, hm->frames[i], 1);
    }
    am_unlock(&bank->lock);
}

/* It has not been written since it was allocated. */
static void frame_renew(struct host_bank *bank, size_t frame)
{
    _Atomic uint8_t *state = &bank->store.state[frame];
    uint8_t seen = atomic_load_explicit(state, memory_order_relaxed);

    if ((seen & (HOST_FRAME_HOLDS | HOST_FRAME_OLD)) == HOST_FRAME_HOLDS)
        atomic_fetch_or(state, HOST_FRAME_OLD);
}

static aclError mem_ready(struct am_mem *mem)
{
    aclError rc = ACL_SUCCESS;

    for (size_t at = 0; at < mem->size && rc == ACL_SUCCESS;) {
        size_t first = host_mem_frame(mem, at);
        size_t n = 0;

        for (; at < mem->size && host_mem_frame(mem, at) == first + n; at += AM_CHUNK)
            n++;
        rc = host_store_ready(host_mem(mem)->store, first, n);
    }
    return rc;
}

/* n frames: one, or a list, which is freed where the frames are neighbours. */
static aclError mem_create_frames(struct am_mem *mem)
{
    struct host_bank *bank = (struct host_bank *)mem->bank;
    struct host_mem *hm = host_mem(mem);
    size_t n = mem->size >> AM_CHUNK_SHIFT;
    uint32_t one;
    uint32_t *frames = n == 1 ? &one : am_sys_malloc(n * sizeof *frames);
    bool is_one_run = true;

    AM_REQUIRE(frames != NULL, ACL_ERROR_BAD_ALLOC, "no memory for a list of %zu frames",
               n);
    am_lock(&bank->lock);
    frames_take_locked(bank, frames, n);
    am_unlock(&bank->lock);
    for (size_t i = 0; i < n; i++) {
        frame_renew(bank, frames[i]);
        is_one_run = is_one_run && frames[i] == frames[0] + i;
    }
    hm->store = &bank->store;
    hm->first = frames[0];
    hm->frames = is_one_run ? NULL : frames;
    if (is_one_run && n > 1)
        free(frames);
    return ACL_SUCCESS;
}

/* Placement is a hint: a container may forbid it, and the memory can be used anyway. */
static void store_place(struct host_store *store, int node)
{
    unsigned long mask[16] = {0};
    static atomic_bool was_said;

    if (node < 0 || (size_t)node >= 8 * sizeof mask)
        return;
    mask[(size_t)node / 64] = 1ul << (node % 64);
    if (am_sys_mbind(store->view, store->n_frames << AM_CHUNK_SHIFT, MPOL_BIND, mask,
                     8 * sizeof mask, 0) != 0 &&
        !atomic_exchange(&was_said, true))
        am_log(AM_LOG_INFO, "memory is not placed on NUMA node %d: %m", node);
}

static aclError mem_create_store(struct am_mem *mem, int node)
{
    struct host_mem *hm = host_mem(mem);
    aclError rc;

    hm->frames = NULL;
    hm->first = 0;
    AM_TRY(host_store_create(mem->size, -1, &hm->store));
    rc = host_store_see(hm->store);
    if (rc == ACL_SUCCESS)
        store_place(hm->store, node);
    else
        host_store_destroy(hm->store);
    return rc;
}

aclError host_mem_create(struct am_bank *bank, size_t size, int node, struct am_mem *mem)
{
    aclError rc;

    mem->bank = bank;
    mem->size = size;
    host_mem(mem)->gate = 0;
    rc = bank->spec.is_isolated ? mem_create_frames(mem)
         : bank->spec.is_pinned ? host_pinned_create(mem)
                                : mem_create_store(mem, node);
    if (rc != ACL_SUCCESS || !bank->spec.commit_now)
        return rc;

    rc = mem_ready(mem);
    if (rc != ACL_SUCCESS)
        host_mem_destroy(mem);
    return rc;
}

void host_mem_destroy(struct am_mem *mem)
{
    struct host_mem *hm = host_mem(mem);

    if (mem->bank->spec.is_pinned) {
        host_pinned_destroy(mem);
    } else if (hm->store == &((struct host_bank *)mem->bank)->store) {
        host_mem_give_frames(mem);
        free(hm->frames);
    } else {
        host_store_destroy(hm->store);
    }
}
