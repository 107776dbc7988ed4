/* Heaps: see heap.h. */
#include "core/heap/heap.h"

#include "acl/error_codes/rt_error_codes.h"
#include "base/error.h"
#include "base/util.h"
#include "core/device/setup.h"
#include "core/vmm/phys.h"

#define IDLE_PART 16 /* idle runs of all shards are at most this part of the domain; */
#define SHARD_IDLE (8 * AM_MIB) /* those of a shard at least; */
/* at most: */
static const size_t idle_max[AM_HEAP_KINDS] = {
    [AM_HEAP_DEVICE] = 32 * AM_MIB,
    [AM_HEAP_HOST] = 64 * AM_MIB,
};

struct am_heap am_heaps[AM_HEAPS];
static struct am_classes classes[AM_HEAP_KINDS];

static size_t block_room(const struct am_heap *heap, const struct am_block *block)
{
    return am_heap_room(heap->kind, block->asked, block->pad);
}

/* ---- modules: only blocks of other modules than the program are counted ---- */

static bool module_is_counted(const struct am_block *block)
{
    return block->module != AM_MODULE_APP && block->module != AM_MODULE_NONE;
}

static void module_add(struct am_heap *heap, const struct am_block *block)
{
    size_t room = block_room(heap, block);
    uint64_t peak, now;

    if (!module_is_counted(block))
        return;
    peak = heap->modules[block->module].peak;
    now = atomic_fetch_add(&heap->modules[block->module].now, room) + room;
    while (peak < now &&
           !atomic_compare_exchange_weak(&heap->modules[block->module].peak, &peak, now))
        ;
}

/*
 * The block is no longer the program's; false: it was not.  The caller has the lock of its shard.
 * *ret_is_free: the caller releases the block.
 */
static bool block_end(struct am_heap *heap, struct am_block *block, bool *ret_is_free)
{
    uint32_t state = atomic_fetch_and(&block->state, ~AM_BLOCK_LIVE);

    *ret_is_free = state == AM_BLOCK_LIVE;
    if ((state & AM_BLOCK_LIVE) && module_is_counted(block))
        atomic_fetch_sub(&heap->modules[block->module].now, block_room(heap, block));
    return (state & AM_BLOCK_LIVE) != 0;
}

/* ---- allocation ---- */

static struct am_heap_shard *shard_of_thread(struct am_heap *heap)
{
    return &heap->shards[am_shard() % heap->n_shards];
}

/* A free block of the run becomes a live one; there is one. */
static aclError block_begin_locked(struct am_run *run, const struct am_block *want,
                                   void **ret_addr)
{
    struct am_block *block;

    AM_TRY(am_run_take_locked(run, &block));
    block->asked = want->asked;
    block->module = want->module;
    block->pad = want->pad;
    block->page_shift = want->page_shift;
    module_add(run->shard->heap, block);
    atomic_store_explicit(&block->state, AM_BLOCK_LIVE, memory_order_release);
    *ret_addr = (void *)(run->start + (size_t)(block - run->blocks) * run->stride);
    return ACL_SUCCESS;
}

/* A block of a run of the shard; *ret_addr is NULL if no run has a free one. */
static aclError shard_malloc(struct am_heap_shard *shard, unsigned class,
                             const struct am_block *want, void **ret_addr)
{
    struct am_run *run;
    aclError rc = ACL_SUCCESS;

    *ret_addr = NULL;
    am_latch_take(&shard->lock);
    run = am_run_first_partial(shard, class);
    if (run != NULL)
        rc = block_begin_locked(run, want, ret_addr);
    am_latch_give(&shard->lock);
    return rc;
}

/* The first block of a run of `size` bytes that the heap gets from its domain. */
static aclError run_malloc(struct am_heap_shard *shard, unsigned class, size_t size,
                           const struct am_block *want, void **ret_addr)
{
    struct am_heap *heap = shard->heap;
    struct am_run_stack failed = SLIST_HEAD_INITIALIZER(failed);
    struct am_run *run;
    aclError rc;

    AM_TRY(am_run_get(shard, class, size, want->asked, &run));
    am_latch_take(&shard->lock);
    if (heap->domain != run->mapping->phys->domain)
        rc = am_fail(ACL_ERROR_UNINITIALIZE, "aclFinalize has been called");
    else
        rc = block_begin_locked(run, want, ret_addr);
    if (rc == ACL_SUCCESS)
        am_run_publish_locked(run);
    else
        SLIST_INSERT_HEAD(&failed, run, next);
    am_latch_give(&shard->lock);
    am_run_destroy_all(&failed);
    return rc;
}

/* No run of the thread's shard has a free block. */
static __attribute__((noinline)) aclError grow_malloc(struct am_heap_shard *shard,
                                                      unsigned class,
                                                      const struct am_block *want,
                                                      void **ret_addr)
{
    char why[1024] = "";
    aclError rc =
        AM_CAPTURED(why, sizeof why, run_malloc(shard, class, AM_CHUNK, want, ret_addr));

    /* If the domain has no memory for a run, a free block of another shard will do. */
    for (unsigned i = 0; rc == ACL_ERROR_RT_MEMORY_ALLOCATION && *ret_addr == NULL &&
                         i < shard->heap->n_shards;
         i++)
        AM_TRY(shard_malloc(&shard->heap->shards[i], class, want, ret_addr));
    AM_REQUIRE(*ret_addr != NULL, rc, "%s", am_error_text(why));
    return ACL_SUCCESS;
}

static aclError small_malloc(struct am_heap *heap, size_t room,
                             const struct am_block *want, void **ret_addr)
{
    struct am_heap_shard *shard = shard_of_thread(heap);
    unsigned class = am_class_of(heap->classes, room);

    AM_TRY(shard_malloc(shard, class, want, ret_addr));
    return *ret_addr != NULL ? ACL_SUCCESS : grow_malloc(shard, class, want, ret_addr);
}

aclError am_heap_malloc(struct am_heap *heap, size_t asked, size_t pad, uint32_t page,
                        unsigned module, void **ret_addr)
{
    size_t room = am_heap_room(heap->kind, asked, pad);
    struct am_block want = {.asked = asked,
                            .module = (uint8_t)module,
                            .pad = (uint8_t)pad,
                            .page_shift = (uint8_t)__builtin_ctz(page)};
    size_t granularity = page > AM_CHUNK ? page : AM_CHUNK;
    void *addr;

    AM_REQUIRE(asked <= SIZE_MAX - 2 * AM_GIB, ACL_ERROR_RT_MEMORY_ALLOCATION,
               "Failed to allocate %zu bytes: no device has that much memory", asked);
    if (room <= AM_SMALL_MAX && page <= AM_CHUNK)
        AM_TRY(small_malloc(heap, room, &want, &addr));
    else
        AM_TRY(run_malloc(shard_of_thread(heap), AM_CLASS_LARGE,
                          am_align_up(room, granularity), &want, &addr));
    *ret_addr = addr;
    return ACL_SUCCESS;
}

/* ---- lookup ---- */

/* A block of a heap, as it was under the lock of its shard. */
struct found {
    struct am_run *run;
    uint32_t i;
    uintptr_t start;
    struct am_block block;
};

static bool found_is_live(const struct found *found)
{
    return (found->block.state & AM_BLOCK_LIVE) != 0;
}

/* The run and the block that addr lies in or behind; false: addr is no memory of a heap. */
static bool run_find(uintptr_t addr, struct found *ret_found)
{
    struct am_mapping *mapping = am_mapping_find(addr);
    struct am_run *run;
    uint32_t i;

    if (mapping == NULL || !am_heap_owns(mapping))
        return false;
    run = mapping->owner_data;
    i = am_run_index(run, addr - mapping->start);
    if (i >= run->n_blocks)
        return false;
    ret_found->run = run;
    ret_found->i = i;
    ret_found->start = mapping->start + i * run->stride;
    return true;
}

static void block_read(const struct am_block *block, struct am_block *ret_block)
{
    ret_block->state = atomic_load(&block->state);
    ret_block->asked = block->asked;
    ret_block->pad = block->pad;
    ret_block->page_shift = block->page_shift;
}

/* The same with the record of the block. */
static bool block_find(uintptr_t addr, struct found *ret_found)
{
    struct am_run *run;

    if (!run_find(addr, ret_found))
        return false;
    run = ret_found->run;
    am_latch_take(&run->shard->lock);
    block_read(&run->blocks[ret_found->i], &ret_found->block);
    am_latch_give(&run->shard->lock);
    return true;
}

/* Of a live block. */
static struct am_bounds block_bounds(const struct found *found)
{
    return am_bounds_of(found->start, found->block.asked,
                        block_room(found->run->shard->heap, &found->block),
                        am_setup.is_strict);
}

bool am_heap_find(const void *addr, struct am_block_info *ret_info)
{
    const struct am_heap *heap;
    struct found found;
    struct am_bounds bounds;

    if (!block_find((uintptr_t)addr, &found) || !found_is_live(&found))
        return false;
    bounds = block_bounds(&found);
    if ((uintptr_t)addr - bounds.start >= bounds.size)
        return false;
    heap = found.run->shard->heap;
    *ret_info = (struct am_block_info){
        .bounds = bounds,
        .kind = heap->kind,
        .device = heap->device,
        .page = 1u << found.block.page_shift,
    };
    return true;
}

/* ---- free ---- */

static const char *const kind_names[AM_HEAP_KINDS] = {"device", "host"};
static const char *const malloc_names[AM_HEAP_KINDS] = {"aclrtMalloc", "aclrtMallocHost"};
static const char *const free_names[AM_HEAP_KINDS] = {"aclrtFree", "aclrtFreeHost"};

/* An address that no live block has: its memory may be another owner's. */
static aclError free_foreign(enum am_heap_kind kind, void *addr)
{
    const struct am_mapping *mapping = am_mapping_find((uintptr_t)addr);
    const struct am_owner *owner = mapping != NULL ? mapping->owner : NULL;
    bool is_owners = false;
    aclError rc;

    AM_REQUIRE(mapping != NULL && !am_heap_owns(mapping), ACL_ERROR_RT_PARAM_INVALID,
               "%p is not memory of %s, or its block was already freed", addr,
               malloc_names[kind]);
    if (kind == AM_HEAP_DEVICE && owner != NULL && owner->free != NULL) {
        rc = owner->free(addr, &is_owners);
        if (is_owners)
            return rc;
    }
    return am_fail(ACL_ERROR_RT_PARAM_INVALID, "%p is memory of %s, not of %s", addr,
                   owner != NULL ? owner->name : "aclrtMapMem", malloc_names[kind]);
}

static aclError free_refuse(enum am_heap_kind kind, void *addr)
{
    enum am_heap_kind real;
    struct found found;

    if (!block_find((uintptr_t)addr, &found) || !found_is_live(&found))
        return free_foreign(kind, addr);
    real = found.run->shard->heap->kind;
    AM_REQUIRE(real == kind, ACL_ERROR_RT_PARAM_INVALID, "%p is %s memory; %s frees it",
               addr, kind_names[real], free_names[real]);
    return am_fail(ACL_ERROR_RT_PARAM_INVALID,
                   "%p lies inside the block of %zu bytes at %p; pass its start", addr,
                   found.block.asked, (void *)found.start);
}

static void block_release_locked(struct am_run *run, uint32_t i,
                                 struct am_run_stack *doomed)
{
    am_run_release_locked(run, i);
    am_run_settle_locked(run, doomed);
}

aclError am_heap_free(enum am_heap_kind kind, void *addr)
{
    struct am_run_stack doomed = SLIST_HEAD_INITIALIZER(doomed);
    struct found found;
    struct am_run *run;
    bool was_live;
    bool is_free;

    if (!run_find((uintptr_t)addr, &found) || found.start != (uintptr_t)addr ||
        found.run->shard->heap->kind != kind)
        return free_refuse(kind, addr);
    run = found.run;
    am_latch_take(&run->shard->lock);
    was_live = block_end(run->shard->heap, &run->blocks[found.i], &is_free);
    if (is_free)
        block_release_locked(run, found.i, &doomed);
    am_latch_give(&run->shard->lock);
    if (!SLIST_EMPTY(&doomed))
        am_run_destroy_all(&doomed);
    return was_live ? ACL_SUCCESS : free_refuse(kind, addr);
}

/* ---- pins ---- */

static aclError pin_refuse(uintptr_t addr, uintptr_t start, uint32_t state,
                           const char *what)
{
    AM_REQUIRE(state & AM_BLOCK_LIVE, ACL_ERROR_RT_PARAM_INVALID,
               "%s: there is no live block at %p; the block has been freed", what,
               (void *)addr);
    return am_fail(
        ACL_ERROR_RT_RESOURCE_ALLOC_FAIL,
        "%s: %u queued operations use the block at %p, which is the limit; wait "
        "for some with aclrtSynchronizeStream",
        what, AM_PINS_MAX, (void *)start);
}

static void heap_unpin(struct am_mapping *mapping, uintptr_t addr)
{
    struct am_run_stack doomed = SLIST_HEAD_INITIALIZER(doomed);
    struct am_run *run = mapping->owner_data;
    uint32_t i = am_run_index(run, addr - mapping->start);

    if (atomic_fetch_sub(&run->blocks[i].state, 1) != 1)
        return; /* the block is live, or another pin is left */
    am_latch_take(&run->shard->lock);
    block_release_locked(run, i, &doomed);
    am_latch_give(&run->shard->lock);
    am_run_destroy_all(&doomed);
}

AM_HOT static aclError heap_pin(uintptr_t addr, size_t size, const char *what)
{
    struct found found;
    struct am_block *block;
    struct am_bounds bounds;
    uint32_t state;

    /* The mapping was removed since the caller found it, or has no block there. */
    if (!run_find(addr, &found))
        return pin_refuse(addr, addr, 0, what);
    block = &found.run->blocks[found.i];
    state = atomic_load_explicit(&block->state, memory_order_relaxed);
    do {
        if (!(state & AM_BLOCK_LIVE) || state == (AM_BLOCK_LIVE | AM_PINS_MAX))
            return pin_refuse(addr, found.start, state, what);
    } while (!atomic_compare_exchange_weak(&block->state, &state, state + 1));
    if (am_is_within(block->asked, addr - found.start, size))
        return ACL_SUCCESS;
    block_read(block, &found.block); /* which stays as it is while it is pinned */
    bounds = block_bounds(&found);
    if (am_is_within(bounds.size, addr - found.start, size))
        return ACL_SUCCESS;
    heap_unpin(found.run->mapping, addr);
    return am_bounds_refuse(&bounds, addr, size, what);
}

static bool heap_is_pinned(const struct am_mapping *mapping, uintptr_t pinned,
                           uintptr_t addr, size_t size)
{
    const struct am_run *run = mapping->owner_data;
    uint32_t i = am_run_index(run, pinned - mapping->start);
    const struct am_block *block = &run->blocks[i];

    return (atomic_load_explicit(&block->state, memory_order_relaxed) & AM_BLOCK_LIVE) &&
           am_is_within(block->asked, addr - (mapping->start + i * run->stride), size);
}

static bool heap_find_block(uintptr_t addr, struct am_bounds *ret_bounds)
{
    struct am_block_info info;

    if (!am_heap_find((const void *)addr, &info))
        return false;
    *ret_bounds = info.bounds;
    return true;
}

const struct am_owner am_heap_owners[AM_HEAP_KINDS] = {
    [AM_HEAP_DEVICE] = {.name = "aclrtMalloc",
                        .find_block = heap_find_block,
                        .pin = heap_pin,
                        .unpin = heap_unpin,
                        .is_pinned = heap_is_pinned},
    [AM_HEAP_HOST] = {.name = "aclrtMallocHost",
                      .is_on_host = true,
                      .find_block = heap_find_block,
                      .pin = heap_pin,
                      .unpin = heap_unpin,
                      .is_pinned = heap_is_pinned},
};

/* ---- sharing ---- */

static aclError share_check(const struct found *found, uintptr_t addr, size_t size)
{
    AM_REQUIRE(found_is_live(found) && found->run->shard->heap->kind == AM_HEAP_DEVICE,
               ACL_ERROR_RT_PARAM_INVALID, "%p is not memory of aclrtMalloc",
               (void *)addr);
    AM_REQUIRE(found->start == addr, ACL_ERROR_RT_PARAM_INVALID,
               "%p lies inside the block of %zu bytes at %p; pass its start",
               (void *)addr, found->block.asked, (void *)found->start);
    AM_REQUIRE(found->run->class == AM_CLASS_LARGE, ACL_ERROR_RT_PARAM_INVALID,
               "the block of %zu bytes at %p shares its pages with other blocks; only "
               "blocks of more than %zu bytes can be shared",
               found->block.asked, (void *)addr, (size_t)AM_SMALL_MAX);
    AM_REQUIRE(size <= block_bounds(found).size, ACL_ERROR_RT_PARAM_INVALID,
               "size is %zu but the block at %p has %zu bytes", size, (void *)addr,
               found->block.asked);
    return ACL_SUCCESS;
}

aclError am_heap_share(void *addr, size_t size, struct am_phys **ret_phys)
{
    struct found found;
    struct am_run *run;
    aclError rc;

    AM_REQUIRE(run_find((uintptr_t)addr, &found), ACL_ERROR_RT_PARAM_INVALID,
               "%p is not memory of aclrtMalloc", addr);
    run = found.run;
    am_latch_take(&run->shard->lock);
    block_read(&run->blocks[found.i], &found.block);
    rc = share_check(&found, (uintptr_t)addr, size);
    if (rc == ACL_SUCCESS) {
        run->is_dead = true;
        *ret_phys = am_phys_ref(run->mapping->phys);
    }
    am_latch_give(&run->shard->lock);
    return rc;
}

/* ---- whole heaps ---- */

static void heap_open(struct am_domain *domain, enum am_heap_kind kind)
{
    struct am_heap *heap = am_heap_of(domain->device, kind);
    size_t part = domain->capacity / IDLE_PART;

    if (heap->classes == NULL) {
        heap->kind = kind;
        heap->owner = &am_heap_owners[kind];
        heap->device = domain->device;
        for (unsigned i = 0; i < AM_HEAP_SHARDS; i++) {
            struct am_heap_shard *shard = &heap->shards[i];

            shard->lock = (struct am_latch)AM_LATCH_INIT(AM_RANK_HEAP, "heap");
            shard->heap = heap;
            LIST_INIT(&shard->all);
            TAILQ_INIT(&shard->idle);
        }
    }
    if (classes[kind].n == 0)
        am_classes_init(&classes[kind], kind == AM_HEAP_HOST ? 4096 : AM_BLOCK_ALIGN);
    heap->classes = &classes[kind];
    heap->n_shards = (unsigned)(part / SHARD_IDLE);
    heap->n_shards = heap->n_shards < 1                ? 1
                     : heap->n_shards > AM_HEAP_SHARDS ? AM_HEAP_SHARDS
                                                       : heap->n_shards;
    part /= heap->n_shards;
    heap->idle_max = part < idle_max[kind] ? part : idle_max[kind];
    for (int i = 0; i < AM_MODULES; i++)
        heap->modules[i].peak = heap->modules[i].now;
    heap->domain = domain;
}

void am_heap_open(struct am_domain *domain)
{
    bool is_rc = (am_setup.product->features & AM_PRODUCT_RC) != 0;

    if (domain->device >= 0)
        heap_open(domain, AM_HEAP_DEVICE);
    if (domain->device < 0 || is_rc)
        heap_open(domain, AM_HEAP_HOST);
}

/* Blocks that are pinned stay in use until their last pin ends. */
static void run_kill_locked(struct am_run *run, struct am_run_stack *doomed)
{
    bool is_free;

    run->is_dead = true;
    for (uint32_t i = am_run_next_used(run, 0); i < run->n_blocks;
         i = am_run_next_used(run, i + 1)) {
        (void)block_end(run->shard->heap, &run->blocks[i], &is_free);
        if (is_free)
            am_run_release_locked(run, i);
    }
    am_run_settle_locked(run, doomed);
}

/* Frees the idle runs, and with is_killed all blocks; false: there were no idle runs. */
static bool heap_release(struct am_heap *heap, bool is_killed)
{
    struct am_run_stack doomed = SLIST_HEAD_INITIALIZER(doomed);
    bool has_any = false;

    for (unsigned i = 0; i < AM_HEAP_SHARDS; i++) {
        struct am_heap_shard *shard = &heap->shards[i];
        struct am_run *run;
        struct am_run *next;

        am_latch_take(&shard->lock);
        am_shard_trim_locked(shard, &doomed);
        for (run = LIST_FIRST(&shard->all); is_killed && run != NULL; run = next) {
            next = LIST_NEXT(run, all);
            run_kill_locked(run, &doomed);
        }
        am_latch_give(&shard->lock);
        has_any |= !SLIST_EMPTY(&doomed);
        am_run_destroy_all(&doomed);
    }
    return has_any;
}

void am_heap_kill(struct am_domain *domain, bool is_closed)
{
    for (int kind = 0; kind < AM_HEAP_KINDS; kind++) {
        struct am_heap *heap = am_heap_of(domain->device, (enum am_heap_kind)kind);

        if (heap->domain != domain)
            continue;
        if (is_closed)
            heap->domain = NULL;
        heap_release(heap, true);
    }
}

/* Whether the heap has memory of the domain, or of another device on the same GPU. */
static bool heap_is_on(const struct am_heap *heap, const struct am_domain *domain)
{
    const struct am_domain *own = heap->domain;

    return own != NULL && am_domain_shares_gpu(own, domain);
}

bool am_heap_trim(struct am_domain *domain)
{
    bool has_any = false;

    for (size_t i = 0; i < AM_HEAPS; i++)
        has_any |= heap_is_on(&am_heaps[i], domain) && heap_release(&am_heaps[i], false);
    return has_any;
}

size_t am_heap_idle(struct am_domain *domain)
{
    size_t size = 0;

    for (size_t i = 0; i < AM_HEAPS; i++)
        for (unsigned j = 0; heap_is_on(&am_heaps[i], domain) && j < AM_HEAP_SHARDS; j++)
            size += am_heaps[i].shards[j].idle_size;
    return size;
}

static uint64_t shard_count(struct am_heap_shard *shard, uint64_t *size)
{
    struct am_run *run;
    uint64_t n = 0;

    am_latch_take(&shard->lock);
    LIST_FOREACH (run, &shard->all, all) {
        for (uint32_t i = am_run_next_used(run, 0); i < run->n_blocks;
             i = am_run_next_used(run, i + 1)) {
            bool is_live = (run->blocks[i].state & AM_BLOCK_LIVE) &&
                           run->blocks[i].module != AM_MODULE_NONE;

            n += is_live;
            *size += is_live ? run->blocks[i].asked : 0;
        }
    }
    am_latch_give(&shard->lock);
    return n;
}

uint64_t am_heap_count(enum am_heap_kind kind, uint64_t *size)
{
    uint64_t bytes = 0;
    uint64_t n = 0;

    for (int32_t device = -1; device < AM_DEVICES_MAX; device++) {
        struct am_heap *heap = am_heap_of(device, kind);

        for (unsigned i = 0; heap->classes != NULL && i < AM_HEAP_SHARDS; i++)
            n += shard_count(&heap->shards[i], &bytes);
    }
    if (size != NULL)
        *size += bytes;
    return n;
}
