/*
 * Banks: frames for isolated device memory, stores for everything else.
 *
 * Free frames are kept on two stacks in one array of a shard (host.h), so taking and giving
 * back are constant time for each frame, nothing is ever searched, and threads of different
 * shards do not contend.  Frames that hold bytes are handed out first: their pages are there
 * already, and what this process left in them it may see again.  Fresh frames are next, then
 * those of other shards.  A mem's frames go back in reverse, so that the next mem of the same
 * size gets neighbours in the same order and copies join them. Above a limit, frames that
 * hold bytes are given back to the system.
 */
#include "backend/host/host.h"

#include <numaif.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "base/sys.h"

static size_t spare_size(const struct host_bank *bank)
{
    return HOST_SHARDS * (bank->base.spec.capacity >> AM_CHUNK_SHIFT) *
           sizeof *bank->spare;
}

aclError host_bank_open(const struct am_bank_spec *spec, struct am_bank **ret_bank)
{
    struct host_bank *bank = am_sys_aligned_alloc(AM_SHARD_STRIDE, sizeof *bank);
    size_t n_frames = spec->capacity >> AM_CHUNK_SHIFT;
    aclError rc = ACL_SUCCESS;

    AM_REQUIRE(bank != NULL, ACL_ERROR_BAD_ALLOC, "no memory for a bank");
    memset(bank, 0, sizeof *bank);
    bank->base.ops = &am_backend_host;
    bank->base.spec = *spec;

    if (spec->is_isolated) {
        bank->spare = am_sys_mmap(NULL, spare_size(bank), PROT_READ | PROT_WRITE,
                                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (bank->spare == MAP_FAILED) {
            rc = am_fail(ACL_ERROR_BAD_ALLOC, "no memory for the list of %zu frames",
                         n_frames);
            goto err_free;
        }
        rc = host_store_create(spec->capacity, -1, 0, &bank->store);
        if (rc != ACL_SUCCESS)
            goto err_spare;
        rc = host_store_see(bank->store);
        if (rc != ACL_SUCCESS)
            goto err_store;
        bank->n_used_max = n_frames / 16 > 32 ? n_frames / 16 : 32;
        am_log(AM_LOG_INFO, "device %d: %zu frames of 2 MB%s", spec->device, n_frames,
               bank->store->wants_huge ? ", made huge pages by MADV_COLLAPSE" : "");
    }
    for (size_t i = 0; i < HOST_SHARDS; i++) {
        am_lock_init(&bank->shard[i].lock, AM_RANK_BANK, "bank");
        if (spec->is_isolated)
            bank->shard[i].spare = bank->spare + i * n_frames;
    }
    *ret_bank = &bank->base;
    return ACL_SUCCESS;

err_store:
    host_store_destroy(bank->store);
err_spare:
    munmap(bank->spare, spare_size(bank));
err_free:
    free(bank);
    return rc;
}

void host_bank_close(struct am_bank *base)
{
    struct host_bank *bank = (struct host_bank *)base;

    if (base->spec.is_isolated) {
        munmap(bank->spare, spare_size(bank));
        host_store_destroy(bank->store);
    }
    for (size_t i = 0; i < HOST_SHARDS; i++)
        am_lock_destroy(&bank->shard[i].lock);
    free(bank);
}

/* Puts a frame on the stack that it belongs on. */
static void frame_push_locked(struct host_bank *bank, struct host_shard *shard,
                              size_t frame) AM_REQUIRES(shard->lock)
{
    if (atomic_load_explicit(&bank->store->state[frame], memory_order_relaxed) &
        HOST_FRAME_HOLDS) {
        shard->spare[shard->n_used++] = (uint32_t)frame;
        bank->n_used++;
    } else {
        shard->spare[bank->store->n_frames - ++shard->n_clean] = (uint32_t)frame;
    }
}

/* At most n free frames of a shard, written ones first; returns how many. */
static size_t shard_take(struct host_bank *bank, struct host_shard *shard,
                         uint32_t *frames, size_t n)
{
    size_t n_used;
    size_t i;

    am_lock(&shard->lock);
    n_used = shard->n_used < n ? shard->n_used : n;
    for (i = 0; i < n_used; i++)
        frames[i] = shard->spare[--shard->n_used];
    for (; i < n && shard->n_clean > 0; i++)
        frames[i] = shard->spare[bank->store->n_frames - shard->n_clean--];
    am_unlock(&shard->lock);
    if (n_used > 0)
        bank->n_used -= n_used;
    return i;
}

/* At most n frames that were never handed out. */
static size_t fresh_take(struct host_bank *bank, uint32_t *frames, size_t n)
{
    size_t first = bank->fresh;
    size_t left;

    do {
        left = bank->store->n_frames - first;
        n = n < left ? n : left;
    } while (n > 0 && !atomic_compare_exchange_weak(&bank->fresh, &first, first + n));
    for (size_t i = 0; i < n; i++)
        frames[i] = (uint32_t)(first + i);
    return n;
}

/*
 * The core has counted n free frames for this thread.  Other threads may move frames between
 * shards at the same time, so one pass over the shards may miss some.
 */
static void frames_take(struct host_bank *bank, size_t own, uint32_t *frames, size_t n)
{
    size_t got = shard_take(bank, &bank->shard[own], frames, n);

    if (got < n)
        got += fresh_take(bank, frames + got, n - got);
    for (size_t i = own + 1; got < n; i++)
        got += shard_take(bank, &bank->shard[i % HOST_SHARDS], frames + got, n - got);
}

static bool frames_hold(struct host_bank *bank, size_t first, size_t n)
{
    for (size_t i = first; i < first + n; i++) {
        if (bank->store->state[i] & HOST_FRAME_HOLDS)
            return true;
    }
    return false;
}

/*
 * Frames first .. first + n - 1, highest first, so that they are taken in ascending order
 * again.
 */
static void frames_give_locked(struct host_bank *bank, struct host_shard *shard,
                               size_t first, size_t n) AM_REQUIRES(shard->lock)
{
    size_t n_used = bank->n_used;
    size_t room = n_used < bank->n_used_max ? bank->n_used_max - n_used : 0;

    if (n > room && frames_hold(bank, first + room, n - room)) {
        /*
         * Where the system does not take them back they are kept, and used again first.
         * It takes its time, so other threads are not kept waiting.
         */
        am_unlock(&shard->lock);
        host_store_discard(bank->store, first + room, n - room);
        am_lock(&shard->lock);
    }
    for (size_t frame = first + n; frame-- > first;)
        frame_push_locked(bank, shard, frame);
}

void host_mem_give_frames(struct am_mem *mem)
{
    struct host_bank *bank = (struct host_bank *)mem->bank;
    struct host_mem *hm = host_mem(mem);
    struct host_shard *shard = &bank->shard[hm->shard];
    size_t n = mem->size >> AM_CHUNK_SHIFT;

    am_lock(&shard->lock);
    if (hm->frames == NULL) {
        frames_give_locked(bank, shard, hm->first, n);
    } else {
        for (size_t i = n; i-- > 0;)
            frames_give_locked(bank, shard, hm->frames[i], 1);
    }
    am_unlock(&shard->lock);
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
    hm->shard = am_shard() % HOST_SHARDS;
    frames_take(bank, hm->shard, frames, n);
    for (size_t i = 0; i < n; i++) {
        _Atomic uint8_t *state = &bank->store->state[frames[i]];
        uint8_t seen = atomic_load_explicit(state, memory_order_relaxed);

        /* It has not been written since it was allocated. */
        if ((seen & (HOST_FRAME_HOLDS | HOST_FRAME_OLD)) == HOST_FRAME_HOLDS)
            atomic_fetch_or(state, HOST_FRAME_OLD);
        is_one_run = is_one_run && frames[i] == frames[0] + i;
    }
    hm->store = bank->store;
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
    AM_TRY(host_store_create(mem->size, -1, HOST_FRAME_HOLDS, &hm->store));
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
    atomic_init(&host_mem(mem)->gate, 0);
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
    } else if (hm->store == ((struct host_bank *)mem->bank)->store) {
        host_mem_give_frames(mem);
        free(hm->frames);
    } else {
        host_store_destroy(hm->store);
    }
}
