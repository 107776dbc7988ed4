/* See heap_run.h. */
#include "core/heap/heap_run.h"

#include <stdlib.h>

#include "base/error.h"
#include "base/sys.h"
#include "base/tree.h"
#include "core/device/setup.h"
#include "core/vmm/phys.h"

AM_TREE(am_run_tree, am_run, node, start)

/* A record for `size` bytes, without memory. */
static struct am_run *run_alloc(struct am_heap_shard *shard, unsigned class, size_t size)
{
    size_t stride = class == AM_CLASS_LARGE ? size : shard->heap->classes->size[class];
    uint32_t n_blocks = (uint32_t)(size / stride);
    size_t blocks_size = n_blocks * sizeof(struct am_block);
    size_t used_size = (n_blocks + 63) / 64 * sizeof(uint64_t);
    struct am_run *run = am_sys_calloc(1, sizeof *run + blocks_size + used_size);

    if (run == NULL)
        return NULL;
    run->shard = shard;
    run->class = class;
    run->size = size;
    run->stride = stride;
    run->n_blocks = n_blocks;
    run->used = (uint64_t *)((char *)run->blocks + blocks_size);
    return run;
}

/*
 * Pinned memory is locked in steps: each class has its own run, most of which is
 * never allocated, and the system limits locked memory.
 */
static aclError run_lock_pages(struct am_run *run, size_t end)
{
    const struct am_backend_ops *ops = run->mapping->phys->mem.bank->ops;
    size_t left = run->size - run->locked;
    size_t size;

    if (end <= run->locked)
        return ACL_SUCCESS;
    if (run->shard->heap->kind != AM_HEAP_HOST || ops->pin_step == NULL) {
        run->locked = run->size;
        return ACL_SUCCESS;
    }
    size = am_align_up(end - run->locked, ops->pin_step());
    if (size > left)
        size = left;
    AM_TRY(ops->pin((void *)(run->start + run->locked), size, am_setup.is_strict));
    run->locked += size;
    return ACL_SUCCESS;
}

static void run_free(struct am_deferred *deferred)
{
    free(AM_CONTAINER_OF(deferred, struct am_run, deferred));
}

static aclError run_create(struct am_heap_shard *shard, struct am_domain *domain,
                           unsigned class, size_t size, size_t asked,
                           struct am_run **ret_run)
{
    enum am_heap_kind kind = shard->heap->kind;
    struct am_run *run = run_alloc(shard, class, size);
    struct am_phys *phys;
    void *addr;
    aclError rc;

    AM_REQUIRE(run != NULL, ACL_ERROR_BAD_ALLOC,
               "no host memory for the records of a heap");
    rc = am_phys_create_bare(domain, kind == AM_HEAP_HOST ? AM_BANK_PINNED : AM_BANK_MAIN,
                             size, asked, &phys);
    if (rc != ACL_SUCCESS)
        goto err_run;
    rc = am_vspace_reserve_owned(shard->heap->owner, run, size, NULL, &addr);
    if (rc != ACL_SUCCESS)
        goto err_phys;
    rc = am_vspace_map_owned(addr, phys, true);
    if (rc != ACL_SUCCESS)
        goto err_addresses;
    am_phys_put(phys); /* the mapping holds a reference */
    run->start = (uintptr_t)addr;
    run->mapping = am_mapping_find(run->start);
    rc = run_lock_pages(run, run->stride);
    if (rc != ACL_SUCCESS) {
        struct am_run_stack failed = {run};

        am_run_destroy_all(&failed);
        return rc;
    }
    *ret_run = run;
    return ACL_SUCCESS;

err_addresses:
    am_vspace_release_owned(addr);
err_phys:
    am_phys_put(phys);
err_run:
    free(run);
    return rc;
}

/* From now on the caller owns the run, which counts in idle_size until it is charged. */
static void idle_remove_locked(struct am_run *run)
{
    TAILQ_REMOVE(&run->shard->idle, run, idle);
    LIST_REMOVE(run, all);
}

static void idle_insert_locked(struct am_run *run)
{
    TAILQ_INSERT_TAIL(&run->shard->idle, run, idle);
    LIST_INSERT_HEAD(&run->shard->all, run, all);
}

/* An idle run of exactly this size; the most recent one.  NULL: none. */
static struct am_run *idle_take(struct am_heap_shard *shard, unsigned class, size_t size)
{
    struct am_run *run;

    am_latch_take(&shard->lock);
    TAILQ_FOREACH_REVERSE(run, &shard->idle, am_run_queue, idle)
    {
        if (run->class == class && run->size == size) {
            idle_remove_locked(run);
            break;
        }
    }
    am_latch_give(&shard->lock);
    return run;
}

aclError am_run_get(struct am_heap_shard *shard, unsigned class, size_t size,
                    size_t asked, struct am_run **ret_run)
{
    struct am_run *run = idle_take(shard, class, size);
    struct am_domain *domain;
    aclError rc;

    if (run == NULL) {
        domain = shard->heap->domain;
        AM_REQUIRE(domain != NULL, ACL_ERROR_UNINITIALIZE, "aclFinalize has been called");
        return run_create(shard, domain, class, size, asked, ret_run);
    }
    rc = am_phys_charge(run->mapping->phys, asked);
    if (rc != ACL_SUCCESS) {
        am_latch_take(&shard->lock);
        idle_insert_locked(run);
        am_latch_give(&shard->lock);
        return rc;
    }
    shard->idle_size -= size;
    *ret_run = run;
    return ACL_SUCCESS;
}

void am_run_destroy_all(struct am_run_stack *runs)
{
    struct am_run *run;

    while ((run = SLIST_FIRST(runs)) != NULL) {
        bool is_idle = !run->mapping->phys->is_charged;

        SLIST_REMOVE_HEAD(runs, next);
        am_vspace_unmap_owned((void *)run->start, true);
        am_vspace_release_owned((void *)run->start);
        if (is_idle)
            run->shard->idle_size -= run->size;
        am_epoch_defer(&run->deferred, run_free);
    }
}

uint32_t am_run_next_used(const struct am_run *run, uint32_t i)
{
    while (i < run->n_blocks) {
        uint64_t used = run->used[i / 64] >> (i % 64);

        if (used != 0)
            return i + (uint32_t)__builtin_ctzl(used);
        i = (i / 64 + 1) * 64;
    }
    return run->n_blocks;
}

struct am_run *am_run_first_partial(struct am_heap_shard *shard, unsigned class)
{
    return RB_MIN(am_run_tree, &shard->partial[class]);
}

/* Enters or leaves the tree of the runs that blocks are taken from. */
static void run_relist_locked(struct am_run *run, bool is_partial)
{
    struct am_run_tree *tree = &run->shard->partial[run->class];

    is_partial = is_partial && !run->is_dead;
    if (is_partial && !run->is_partial)
        RB_INSERT(am_run_tree, tree, run);
    else if (!is_partial && run->is_partial)
        RB_REMOVE(am_run_tree, tree, run);
    run->is_partial = is_partial;
}

void am_run_publish_locked(struct am_run *run)
{
    LIST_INSERT_HEAD(&run->shard->all, run, all);
    run_relist_locked(run, run->n_used < run->n_blocks);
}

aclError am_run_take_locked(struct am_run *run, struct am_block **ret_block)
{
    uint32_t word = run->hint;
    uint32_t i;

    while (run->used[word] == UINT64_MAX)
        word++;
    i = word * 64 + (uint32_t)__builtin_ctzl(~run->used[word]);
    am_assert(i < run->n_blocks);
    AM_TRY(run_lock_pages(run, (i + 1) * run->stride));
    run->hint = word;
    run->used[word] |= UINT64_C(1) << (i % 64);
    run->n_used++;
    if (run->n_used == run->n_blocks)
        run_relist_locked(run, false);
    *ret_block = &run->blocks[i];
    return ACL_SUCCESS;
}

void am_run_release_locked(struct am_run *run, uint32_t i)
{
    run->used[i / 64] &= ~(UINT64_C(1) << (i % 64));
    run->n_used--;
    if (i / 64 < run->hint)
        run->hint = i / 64;
}

/* The run has no block in use: it becomes idle, or the caller destroys it. */
static void run_retire_locked(struct am_run *run, struct am_run_stack *doomed)
{
    struct am_heap_shard *shard = run->shard;
    struct am_run *oldest = TAILQ_FIRST(&shard->idle);
    bool is_kept = !run->is_dead && run->size <= shard->heap->idle_max;

    if (shard->resting == run)
        shard->resting = NULL;
    run_relist_locked(run, false);
    LIST_REMOVE(run, all);
    if (is_kept && shard->idle_size <= shard->heap->idle_max - run->size) {
        shard->idle_size += run->size;
        am_phys_uncharge(run->mapping->phys);
        idle_insert_locked(run);
        return;
    }
    SLIST_INSERT_HEAD(doomed, run, next);
    if (is_kept && oldest != NULL) { /* the next run of this size is kept instead of it */
        idle_remove_locked(oldest);
        SLIST_INSERT_HEAD(doomed, oldest, next);
    }
}

/*
 * No other process can use pinned memory of this one, so the last empty run of a shard stays
 * as it is: a program that allocates and frees one block does not change lists and charges.
 */
void am_run_settle_locked(struct am_run *run, struct am_run_stack *doomed)
{
    struct am_run *before = run->shard->resting;
    bool may_rest =
        !run->is_dead && run->n_blocks > 1 && run->mapping->phys->domain->device < 0;

    if (run->n_used > 0) {
        run_relist_locked(run, run->n_used < run->n_blocks);
    } else if (!may_rest) {
        run_retire_locked(run, doomed);
    } else if (before != run) {
        run->shard->resting = run;
        run_relist_locked(run, true);
        if (before != NULL && before->n_used == 0)
            run_retire_locked(before, doomed);
    }
}

void am_shard_trim_locked(struct am_heap_shard *shard, struct am_run_stack *doomed)
{
    struct am_run *run = shard->resting;

    if (run != NULL && run->n_used == 0)
        run_retire_locked(run, doomed);
    while ((run = TAILQ_FIRST(&shard->idle)) != NULL) {
        idle_remove_locked(run);
        SLIST_INSERT_HEAD(doomed, run, next);
    }
}
