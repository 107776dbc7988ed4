/* Heaps as a whole, and the memory of their runs.  See heap.h. */
#include "acl/error_codes/rt_error_codes.h"
#include "base/error.h"
#include "core/device/setup.h"
#include "core/heap/heap_runs.h"
#include "core/vmm/phys.h"
#include "core/vmm/vspace.h"

struct am_heap am_heaps[AM_HEAPS];

static struct am_classes classes[AM_HEAP_KINDS];

#define IDLE_SPARE 256 /* runs without memory that heap_idle() does not mind */

/* Bytes of empty runs that are kept: pinned memory is the most expensive to get. */
static const size_t keep[AM_HEAP_KINDS] = {
    [AM_HEAP_DEVICE] = 32 * AM_MIB,
    [AM_HEAP_HOST] = 64 * AM_MIB,
};

static int run_compare(struct am_run *a, struct am_run *b)
{
    return (a->start > b->start) - (a->start < b->start);
}

RB_GENERATE_INTERNAL(am_run_tree, am_run, node, run_compare,
                     __attribute__((unused)) static)

struct am_run *am_run_tree_first(struct am_run_tree *tree)
{
    return RB_MIN(am_run_tree, tree);
}

void am_heap_relist_locked(struct am_heap *heap, struct am_run *run)
{
    bool is_empty = !run->is_dead && run->n_in == run->n_slots;
    bool is_partial = !run->is_dead && run->n_in > 0 && run->stride != 0;

    if (is_partial && !run->is_partial)
        RB_INSERT(am_run_tree, &heap->partial[run->class], run);
    else if (!is_partial && run->is_partial)
        RB_REMOVE(am_run_tree, &heap->partial[run->class], run);
    if (is_empty && !run->is_empty) {
        TAILQ_INSERT_TAIL(&heap->empty, run, empty);
        heap->empty_size += run->size;
    } else if (!is_empty && run->is_empty) {
        TAILQ_REMOVE(&heap->empty, run, empty);
        heap->empty_size -= run->size;
    }
    run->is_partial = is_partial;
    run->is_empty = is_empty;
    atomic_store_explicit(&run->counted, run->is_dead ? 0 : (size_t)run->size,
                          memory_order_relaxed);
}

static void n_listed_add_locked(struct am_heap *heap, int n) AM_REQUIRES(heap->lock)
{
    size_t now = atomic_load_explicit(&heap->n_listed, memory_order_relaxed);

    atomic_store_explicit(&heap->n_listed, now + (size_t)n, memory_order_relaxed);
}

/* Removes the run from the heap, if none of its blocks is in use after all. */
static void run_doom_locked(struct am_heap *heap, struct am_run *run,
                            struct am_run_stack *doomed) AM_REQUIRES(heap->lock)
{
    bool is_retired = am_run_retire(run);

    if (is_retired) /* dead runs are in no list but `all` */
        atomic_store_explicit(&run->is_dead, true, memory_order_relaxed);
    am_heap_relist_locked(heap, run);
    if (!is_retired)
        return;
    atomic_store_explicit(&run->is_dead, false, memory_order_relaxed);
    LIST_REMOVE(run, all);
    n_listed_add_locked(heap, -1);
    SLIST_INSERT_HEAD(doomed, run, next);
}

static void heap_shrink_locked(struct am_heap *heap, size_t limit,
                               struct am_run_stack *doomed) AM_REQUIRES(heap->lock)
{
    while (heap->empty_size > limit)
        run_doom_locked(heap, TAILQ_FIRST(&heap->empty), doomed);
}

void am_heap_settle_locked(struct am_heap *heap, struct am_run *run,
                           struct am_run_stack *doomed)
{
    if (run->is_dead && run->n_in == run->n_slots) {
        run_doom_locked(heap, run, doomed);
        return;
    }
    am_heap_relist_locked(heap, run);
    heap_shrink_locked(heap, keep[heap->kind], doomed);
}

static void run_spare(struct am_heap *heap, struct am_run *run)
{
    am_lock(&heap->lock);
    SLIST_INSERT_HEAD(&heap->spare[run->class], run, next);
    am_unlock(&heap->lock);
}

void am_heap_close_runs(struct am_heap *heap, struct am_run_stack *doomed)
{
    struct am_run *run;

    while ((run = SLIST_FIRST(doomed)) != NULL) {
        SLIST_REMOVE_HEAD(doomed, next);
        /* Before the addresses can be another run's: two never start at the same one. */
        atomic_store_explicit(&run->start, 0, memory_order_release);
        am_vspace_unmap_run(run->mapping);
        run_spare(heap, run);
    }
}

static struct am_run *run_make(struct am_heap *heap, unsigned class)
{
    struct am_run *run = am_run_create(
        heap, class, class < heap->classes->n ? heap->classes->size[class] : 0);

    if (run == NULL)
        return NULL;
    run->older = atomic_load_explicit(&heap->newest, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(
        &heap->newest, &run->older, run, memory_order_release, memory_order_relaxed))
        ;
    heap->n_made++;
    return run;
}

/* A run without memory, and the domain to allocate it from. */
static aclError run_get(struct am_heap *heap, unsigned class, struct am_run **ret_run,
                        struct am_domain **ret_domain)
{
    struct am_domain *domain;
    struct am_run *run = NULL;

    am_lock(&heap->lock);
    domain = heap->domain;
    if (domain != NULL) {
        run = SLIST_FIRST(&heap->spare[class]);
        if (run != NULL)
            SLIST_REMOVE_HEAD(&heap->spare[class], next);
    }
    am_unlock(&heap->lock);
    AM_REQUIRE(domain != NULL, ACL_ERROR_UNINITIALIZE, "aclFinalize has been called");
    if (run == NULL)
        run = run_make(heap, class);
    AM_REQUIRE(run != NULL, ACL_ERROR_BAD_ALLOC,
               "no host memory for the records of a heap");
    *ret_run = run;
    *ret_domain = domain;
    return ACL_SUCCESS;
}

/*
 * A little at a time where little may be locked: each class of blocks has a run of its
 * own, and most of it is never handed out.
 */
aclError am_run_lock(struct am_run *run, size_t end)
{
    const struct am_backend_ops *ops = run->mapping->phys->mem.bank->ops;
    size_t left = run->size - run->locked;
    size_t size;

    if (end <= run->locked)
        return ACL_SUCCESS;
    if (run->kind != AM_HEAP_HOST || ops->pin_step == NULL) {
        run->locked = run->size;
        return ACL_SUCCESS;
    }
    size = am_align_up(end - run->locked, ops->pin_step());
    if (size > left)
        size = left;
    AM_TRY(
        ops->pin((void *)(run->mapping->start + run->locked), size, am_setup.is_strict));
    run->locked += size;
    return ACL_SUCCESS;
}

/* Gives the run memory; takes over the reference to the domain. */
static aclError run_open(struct am_run *run, struct am_domain *domain, size_t size,
                         size_t asked)
{
    enum am_bank_kind kind =
        run->heap->kind == AM_HEAP_HOST ? AM_BANK_PINNED : AM_BANK_MAIN;
    struct am_phys *phys;
    aclError rc;

    AM_TRY(am_phys_create_bare(domain, kind, size, asked, &phys));
    AM_TRY(am_vspace_map_run(&am_heap_owners[run->kind], phys, run, &run->mapping));
    atomic_store_explicit(&run->size, size, memory_order_relaxed);
    run->locked = 0;
    rc = am_run_lock(run, run->stride != 0 ? run->stride : size);
    if (rc != ACL_SUCCESS) {
        am_vspace_unmap_run(run->mapping);
        return rc;
    }
    atomic_store_explicit(&run->start, run->mapping->start, memory_order_release);
    return ACL_SUCCESS;
}

aclError am_heap_grow(struct am_heap *heap, unsigned class, size_t size, size_t asked,
                      struct am_slot *ret_slot)
{
    struct am_run_stack doomed = SLIST_HEAD_INITIALIZER(doomed);
    struct am_domain *domain;
    struct am_run *run;
    bool is_open;
    aclError rc;

    AM_TRY(run_get(heap, class, &run, &domain));
    rc = run_open(run, domain, size, asked);
    if (rc != ACL_SUCCESS) {
        run_spare(heap, run);
        return rc;
    }
    am_lock(&heap->lock);
    is_open =
        heap->domain == domain; /* no other thread has stopped the library meanwhile */
    if (is_open) {
        LIST_INSERT_HEAD(&heap->all, run, all);
        n_listed_add_locked(heap, 1);
        if (ret_slot != NULL)
            am_run_take(run, ret_slot);
        am_heap_relist_locked(heap, run);
    } else {
        SLIST_INSERT_HEAD(&doomed, run, next);
    }
    am_unlock(&heap->lock);
    am_heap_close_runs(heap, &doomed);
    AM_REQUIRE(is_open, ACL_ERROR_UNINITIALIZE, "aclFinalize has been called");
    return ACL_SUCCESS;
}

/* Calls f for each heap that takes its memory from the domain. */
static size_t heaps_visit(struct am_domain *domain,
                          size_t (*f)(struct am_heap *, struct am_domain *))
{
    size_t sum = 0;

    for (int kind = 0; kind < AM_HEAP_KINDS; kind++) {
        struct am_heap *heap = am_heap_of(domain->device, (enum am_heap_kind)kind);

        if (heap->classes != NULL)
            sum += f(heap, domain);
    }
    return sum;
}

static void heap_init(struct am_heap *heap, int32_t device, enum am_heap_kind kind)
{
    if (classes[kind].n == 0)
        am_classes_init(&classes[kind], kind == AM_HEAP_HOST ? 4096 : AM_BLOCK_ALIGN);
    am_lock_init(&heap->lock, AM_RANK_HEAP, kind == AM_HEAP_HOST ? "host heap" : "heap");
    heap->kind = kind;
    heap->device = device;
    heap->index = (uint32_t)(heap - am_heaps);
    LIST_INIT(&heap->all);
    TAILQ_INIT(&heap->empty);
    atomic_store_explicit(&heap->classes, &classes[kind], memory_order_release);
}

static void heap_open(struct am_domain *domain, enum am_heap_kind kind)
{
    struct am_heap *heap = am_heap_of(domain->device, kind);

    if (heap->classes == NULL)
        heap_init(heap, domain->device, kind);
    am_lock(&heap->lock);
    heap->domain = domain;
    heap->capacity = domain->capacity;
    am_kept_limit(heap);
    for (int i = 0; i < AM_MODULES; i++)
        heap->modules[i].peak = heap->modules[i].now;
    am_unlock(&heap->lock);
}

void am_heap_open(struct am_domain *domain)
{
    bool is_rc = (am_setup.product->features & AM_PRODUCT_RC) != 0;

    if (domain->device >= 0)
        heap_open(domain, AM_HEAP_DEVICE);
    if (domain->device < 0 || is_rc)
        heap_open(domain, AM_HEAP_HOST);
}

static void heap_kill_locked(struct am_heap *heap, struct am_run_stack *doomed)
    AM_REQUIRES(heap->lock)
{
    struct am_run *run;
    struct am_run *next;

    for (run = LIST_FIRST(&heap->all); run != NULL; run = next) {
        next = LIST_NEXT(run, all);
        am_run_kill(run);
        run->is_dead = true;
        if (run->n_in == run->n_slots)
            run_doom_locked(heap, run, doomed);
        else
            am_heap_relist_locked(heap, run);
    }
}

/* All blocks of the heap, if the domain is still its own; with is_last it has none then. */
static size_t heap_end(struct am_heap *heap, struct am_domain *domain, bool is_last)
{
    struct am_run_stack doomed = SLIST_HEAD_INITIALIZER(doomed);

    am_lock(&heap->lock);
    if (heap->domain == domain) {
        heap_kill_locked(heap, &doomed);
        if (is_last)
            heap->domain = NULL;
    }
    am_unlock(&heap->lock);
    am_heap_close_runs(heap, &doomed);
    return 0;
}

static size_t heap_kill(struct am_heap *heap, struct am_domain *domain)
{
    return heap_end(heap, domain, false);
}

static size_t heap_close(struct am_heap *heap, struct am_domain *domain)
{
    return heap_end(heap, domain, true);
}

void am_heap_kill(struct am_domain *domain)
{
    heaps_visit(domain, heap_kill);
}

void am_heap_close(struct am_domain *domain)
{
    heaps_visit(domain, heap_close);
}

static size_t run_idle(struct am_run *run)
{
    size_t counted = atomic_load_explicit(&run->counted, memory_order_relaxed);

    return counted != 0 && am_run_is_idle(run) ? counted : 0;
}

/*
 * Takes no lock, so that threads that only ask do not meet; but where most of the runs that
 * were ever made have no memory now, the list of those that have is much shorter.
 */
static size_t heap_idle(struct am_heap *heap, struct am_domain *domain)
{
    struct am_run *run;
    size_t size = 0;

    if (atomic_load_explicit(&heap->domain, memory_order_relaxed) != domain)
        return 0;
    if (heap->n_made > IDLE_SPARE + 2 * heap->n_listed) {
        am_lock(&heap->lock);
        LIST_FOREACH (run, &heap->all, all)
            size += run_idle(run);
        am_unlock(&heap->lock);
        return size;
    }
    run = atomic_load_explicit(&heap->newest, memory_order_acquire);
    for (; run != NULL; run = run->older)
        size += run_idle(run);
    return size;
}

static size_t domain_idle(struct am_domain *domain)
{
    return heaps_visit(domain, heap_idle);
}

static size_t heap_trim(struct am_heap *heap, struct am_domain *domain)
{
    struct am_run_stack doomed = SLIST_HEAD_INITIALIZER(doomed);
    struct am_run *run;
    bool has_any;

    am_lock(&heap->lock);
    if (heap->domain == domain) {
        LIST_FOREACH (run, &heap->all, all) {
            if (!run->is_dead && am_run_is_idle(run)) {
                am_run_steal(run);
                am_heap_relist_locked(heap, run);
            }
        }
        heap_shrink_locked(heap, 0, &doomed);
    }
    am_unlock(&heap->lock);
    has_any = !SLIST_EMPTY(&doomed);
    am_heap_close_runs(heap, &doomed);
    return has_any;
}

static bool domain_trim(struct am_domain *domain)
{
    return heaps_visit(domain, heap_trim) != 0;
}

const struct am_reclaim am_heap_reclaim = {.idle = domain_idle, .trim = domain_trim};

uint64_t am_heap_count(enum am_heap_kind kind, uint64_t *size)
{
    uint64_t bytes = 0;
    uint64_t n = 0;

    for (int32_t device = -1; device < AM_DEVICES_MAX; device++) {
        struct am_heap *heap = am_heap_of(device, kind);
        struct am_run *run;

        if (heap->classes == NULL)
            continue;
        am_lock(&heap->lock);
        LIST_FOREACH (run, &heap->all, all)
            n += am_run_count_live(run, &bytes);
        am_unlock(&heap->lock);
    }
    if (size != NULL)
        *size += bytes;
    return n;
}
