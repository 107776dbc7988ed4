/* See managed.h. */
#include "core/managed/managed.h"

#include <stdlib.h>

#include "acl/error_codes/rt_error_codes.h"
#include "base/error.h"
#include "base/log.h"
#include "base/machine.h"
#include "base/sys.h"
#include "base/util.h"
#include "core/copy/memory_op.h"
#include "core/device/context.h"
#include "core/device/setup.h"
#include "core/vmm/phys.h"
#include "core/vmm/vspace.h"

#define WINDOW_START UINT64_C(0x90000000000)
#define WINDOW_SIZE (3 * AM_TIB)
#define WINDOW_TRIES 8 /* then another mapping has the window */

/* The advice for a page of 2 MB; type 0: no advice. */
struct page {
    uint64_t accessed_by; /* a bit for each device, and AM_HOST_BIT */
    aclrtMemManagedLocation preferred;
    aclrtMemManagedLocation prefetched;
    bool is_read_mostly;
};

/* Each block has a reservation, by which it is found. */
struct block {
    LIST_ENTRY(block) all;
    uintptr_t start;
    size_t size;
    size_t asked; /* by the program, before it was rounded up to pages */
    struct page pages[];
};

static struct {
    struct am_lock lock;
    LIST_HEAD(, block) blocks; /* lock, as the next one */
    struct am_domain *domain;  /* where the memory is; NULL until there is some */
} managed = {.lock = AM_LOCK_INIT(AM_RANK_POOL, "managed memory")};

_Atomic uint64_t am_managed_used;

static const struct am_owner managed_owner;

/* The block that addr lies in, or NULL. */
static struct block *block_find_locked(uintptr_t addr) AM_REQUIRES(managed.lock)
{
    const struct am_reservation *r = am_reservation_find(addr);

    return r != NULL && r->owner == &managed_owner ? r->owner_data : NULL;
}

/* The functions for copies. */
static bool find_block(uintptr_t addr, struct am_bounds *ret_bounds)
{
    struct block *block;

    am_lock(&managed.lock);
    block = block_find_locked(addr);
    if (block != NULL)
        *ret_bounds =
            am_bounds_of(block->start, block->asked, block->size, am_setup.is_strict);
    am_unlock(&managed.lock);
    return block != NULL;
}

static aclError managed_free(void *addr, bool *ret_is_ours);

static const struct am_owner managed_owner = {
    .name = "managed memory",
    .is_managed = true,
    .find_block = find_block,
    .free = managed_free,
};

/* The first gap between reservations from `at` on that has room; 0: none in the window. */
static uintptr_t gap_find(uintptr_t at, size_t size)
{
    size_t align = size >= AM_GIB ? AM_GIB : AM_CHUNK; /* as all reservations */
    const struct am_reservation *r;

    at = am_align_up(at, align);
    while (at - WINDOW_START <= WINDOW_SIZE - size) {
        r = am_reservation_first(at, size);
        if (r == NULL)
            return at;
        at = am_align_up(r->start + r->size, align);
    }
    return 0;
}

/* Addresses in the window, or anywhere else when another mapping has it. */
static aclError addresses_take(struct block *block, size_t size, void **ret_addr)
{
    uintptr_t at = gap_find(WINDOW_START, size);
    aclError rc = ACL_ERROR_RT_PARAM_INVALID;

    for (int i = 0; i < WINDOW_TRIES && at != 0 && rc == ACL_ERROR_RT_PARAM_INVALID;
         i++) {
        rc = AM_HUSHED(
            am_vspace_reserve_owned(&managed_owner, block, size, (void *)at, ret_addr));
        if (rc != ACL_SUCCESS)
            at = gap_find(at + size, size);
    }
    if (rc == ACL_SUCCESS)
        return rc;
    am_log(AM_LOG_INFO,
           "managed memory lies outside its documented addresses, which are in use");
    return am_vspace_reserve_owned(&managed_owner, block, size, NULL, ret_addr);
}

/* Memory behind the addresses. */
static aclError memory_map_locked(void *addr, size_t size) AM_REQUIRES(managed.lock)
{
    const aclrtPhysicalMemProp prop = {
        .memAttr = ACL_MEM_HUGE,
        .location = {.type = ACL_MEM_LOCATION_TYPE_HOST},
    };
    struct am_phys *phys;
    aclError rc;

    if (managed.domain == NULL)
        AM_TRY(am_domain_create(-1, -1, WINDOW_SIZE, NULL, &managed.domain));
    AM_TRY(am_phys_create_owned(size, &prop, managed.domain, &phys));
    rc = am_vspace_map_owned(addr, phys, true);
    am_phys_put(phys); /* the mapping holds a reference */
    return rc;
}

static aclError alloc_locked(size_t asked, void **ret_addr) AM_REQUIRES(managed.lock)
{
    size_t size = am_align_up(asked, AM_CHUNK);
    struct block *block;
    aclError rc;

    AM_REQUIRE(
        size <= WINDOW_SIZE - am_managed_used, ACL_ERROR_RT_MEMORY_ALLOCATION,
        "Failed to allocate %zu bytes: %llu of the 3 TB of managed memory that a process "
        "can have are in use",
        asked, (unsigned long long)am_managed_used);
    block =
        am_sys_calloc(1, sizeof *block + (size >> AM_CHUNK_SHIFT) * sizeof *block->pages);
    AM_REQUIRE(block != NULL, ACL_ERROR_BAD_ALLOC,
               "no host memory for the records of managed memory");
    block->size = size;
    block->asked = asked;
    rc = addresses_take(block, size, ret_addr);
    if (rc != ACL_SUCCESS)
        goto err_block;
    rc = memory_map_locked(*ret_addr, size);
    if (rc != ACL_SUCCESS)
        goto err_addresses;
    block->start = (uintptr_t)*ret_addr;
    LIST_INSERT_HEAD(&managed.blocks, block, all);
    am_managed_used += size;
    return ACL_SUCCESS;

err_addresses:
    am_vspace_release_owned(*ret_addr);
err_block:
    free(block);
    return rc;
}

aclError am_managed_alloc(uint64_t size, void **ret_addr)
{
    void *addr;
    int32_t device;
    aclError rc;

    AM_TRY(am_context_device(&device));
    AM_REQUIRE(size <= WINDOW_SIZE, ACL_ERROR_RT_MEMORY_ALLOCATION,
               "Failed to allocate %llu bytes: a process can have 3 TB of managed memory",
               (unsigned long long)size);
    rc = AM_LOCKED(&managed.lock, alloc_locked(size, &addr));
    if (rc == ACL_SUCCESS)
        *ret_addr = addr;
    return rc;
}

static aclError free_locked(struct block *block, bool is_last) AM_REQUIRES(managed.lock)
{
    AM_TRY(am_vspace_unmap_owned((void *)block->start, is_last));
    am_vspace_release_owned((void *)block->start);
    LIST_REMOVE(block, all);
    am_managed_used -= block->size;
    free(block);
    return ACL_SUCCESS;
}

static aclError managed_free(void *addr, bool *ret_is_ours)
{
    aclError rc = ACL_SUCCESS;
    struct block *block;

    am_lock(&managed.lock);
    block = block_find_locked((uintptr_t)addr);
    *ret_is_ours = block != NULL;
    if (block != NULL && block->start != (uintptr_t)addr)
        rc = am_fail(
            ACL_ERROR_RT_PARAM_INVALID,
            "%p lies inside the managed memory of %zu bytes at %p; pass its start", addr,
            block->asked, (void *)block->start);
    else if (block != NULL)
        rc = free_locked(block, false);
    am_unlock(&managed.lock);
    return rc;
}

void am_managed_free_all(void)
{
    struct am_domain *domain;
    struct block *block;

    am_lock(&managed.lock);
    while ((block = LIST_FIRST(&managed.blocks)) != NULL)
        free_locked(block, true);
    domain = managed.domain;
    managed.domain = NULL;
    am_unlock(&managed.lock);
    if (domain != NULL)
        am_domain_close(domain);
    am_domain_put(domain);
}

uint64_t am_managed_count(uint64_t *size)
{
    struct block *block;
    uint64_t n = 0;

    am_lock(&managed.lock);
    LIST_FOREACH (block, &managed.blocks, all) {
        *size += block->asked;
        n++;
    }
    am_unlock(&managed.lock);
    return n;
}

/* The pages that the range touches, all of one block. */
static aclError pages_find_locked(const void *addr, size_t size, struct page **ret_pages,
                                  size_t *ret_n) AM_REQUIRES(managed.lock)
{
    struct block *block = block_find_locked((uintptr_t)addr);
    size_t at;

    AM_REQUIRE(block != NULL, ACL_ERROR_RT_PARAM_INVALID, "%p is not managed memory",
               addr);
    at = (uintptr_t)addr - block->start;
    AM_REQUIRE(
        size <= block->size - at, ACL_ERROR_RT_PARAM_INVALID,
        "%zu bytes at %p extend past the end of the managed memory of %zu bytes at %p",
        size, addr, block->asked, (void *)block->start);
    *ret_pages = &block->pages[at >> AM_CHUNK_SHIFT];
    *ret_n = ((at + size - 1) >> AM_CHUNK_SHIFT) - (at >> AM_CHUNK_SHIFT) + 1;
    return ACL_SUCCESS;
}

/*
 * Whether a page can be there; *ret_location is the same, with the current NUMA node by
 * its number.
 */
static aclError location_check(const aclrtMemManagedLocation *location,
                               aclrtMemManagedLocation *ret_location)
{
    aclrtMemManagedLocation found = {.type = location->type, .id = location->id};

    switch (location->type) {
    case ACL_MEM_LOCATIONTYPE_DEVICE:
        AM_TRY(am_device_find(location->id, NULL));
        break;
    case ACL_MEM_LOCATIONTYPE_HOST:
        found.id = -1;
        break;
    case ACL_MEM_LOCATIONTYPE_HOST_NUMA:
        AM_REQUIRE(am_machine_has_node(location->id), ACL_ERROR_RT_PARAM_INVALID,
                   "location.id is %d: the machine has no such NUMA node", location->id);
        break;
    case ACL_MEM_LOCATIONTYPE_HOST_NUMA_CURRENT:
        found.type = ACL_MEM_LOCATIONTYPE_HOST_NUMA;
        found.id = am_machine_current_node();
        break;
    default:
        return am_fail(
            ACL_ERROR_INVALID_PARAM,
            "location.type is %d; it takes DEVICE (1), HOST (2), HOST_NUMA (3) or "
            "HOST_NUMA_CURRENT (4)",
            (int)location->type);
    }
    *ret_location = found;
    return ACL_SUCCESS;
}

/* The bit of a location in accessed_by. */
static aclError accessor_bit(const aclrtMemManagedLocation *location, uint64_t *ret_bit)
{
    AM_REQUIRE(location->type == ACL_MEM_LOCATIONTYPE_DEVICE ||
                   location->type == ACL_MEM_LOCATIONTYPE_HOST,
               ACL_ERROR_INVALID_PARAM,
               "location.type is %d; memory is accessed by a DEVICE (1) or the HOST (2)",
               (int)location->type);
    *ret_bit = location->type == ACL_MEM_LOCATIONTYPE_HOST ? AM_HOST_BIT
                                                           : UINT64_C(1) << location->id;
    return ACL_SUCCESS;
}

/* The effect of an advice on a page, as a page: its location, or its bit. */
struct advice {
    aclrtMemManagedAdviseType type;
    aclrtMemManagedLocation location;
    uint64_t bit;
};

static aclError advice_check(struct advice *advice,
                             const aclrtMemManagedLocation *location)
{
    aclError rc;

    switch (advice->type) {
    case ACL_MEM_ADVISE_SET_READ_MOSTLY:
    case ACL_MEM_ADVISE_UNSET_READ_MOSTLY:
    case ACL_MEM_ADVISE_UNSET_PREFERRED_LOCATION:
        return ACL_SUCCESS; /* the location is ignored */
    case ACL_MEM_ADVISE_SET_PREFERRED_LOCATION:
        return location_check(location, &advice->location);
    case ACL_MEM_ADVISE_SET_ACCESSED_BY:
    case ACL_MEM_ADVISE_UNSET_ACCESSED_BY:
        rc = location_check(location, &advice->location);
        return rc == ACL_SUCCESS ? accessor_bit(&advice->location, &advice->bit) : rc;
    default:
        return am_fail(ACL_ERROR_INVALID_PARAM, "advise is %d; it takes 0 to 5",
                       (int)advice->type);
    }
}

static void page_advise(struct page *page, const struct advice *advice)
{
    switch (advice->type) {
    case ACL_MEM_ADVISE_SET_READ_MOSTLY:
    case ACL_MEM_ADVISE_UNSET_READ_MOSTLY:
        page->is_read_mostly = advice->type == ACL_MEM_ADVISE_SET_READ_MOSTLY;
        break;
    case ACL_MEM_ADVISE_SET_PREFERRED_LOCATION:
    case ACL_MEM_ADVISE_UNSET_PREFERRED_LOCATION:
        page->preferred = advice->location; /* unset: INVALID */
        break;
    case ACL_MEM_ADVISE_SET_ACCESSED_BY:
        page->accessed_by |= advice->bit;
        break;
    case ACL_MEM_ADVISE_UNSET_ACCESSED_BY:
        page->accessed_by &= ~advice->bit;
        break;
    }
}

aclError am_managed_advise(const void *addr, size_t size, aclrtMemManagedAdviseType type,
                           const aclrtMemManagedLocation *location)
{
    struct advice advice = {.type = type};
    struct page *pages;
    size_t n;
    aclError rc;

    AM_TRY(advice_check(&advice, location));
    am_lock(&managed.lock);
    rc = pages_find_locked(addr, size, &pages, &n);
    for (size_t i = 0; rc == ACL_SUCCESS && i < n; i++)
        page_advise(&pages[i], &advice);
    am_unlock(&managed.lock);
    return rc;
}

aclError am_managed_check_attr(aclrtMemManagedRangeAttribute attr, size_t size)
{
    AM_REQUIRE(attr >= ACL_MEM_RANGE_ATTRIBUTE_READ_MOSTLY &&
                   attr <= ACL_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID,
               ACL_ERROR_INVALID_PARAM, "attribute is %d; it takes 1 to 8", (int)attr);
    if (attr == ACL_MEM_RANGE_ATTRIBUTE_ACCESSED_BY)
        AM_REQUIRE(size > 0 && size % sizeof(int32_t) == 0, ACL_ERROR_INVALID_PARAM,
                   "dataSize is %zu; ACCESSED_BY takes a multiple of 4", size);
    else
        AM_REQUIRE(size == sizeof(int32_t), ACL_ERROR_INVALID_PARAM,
                   "dataSize is %zu; attribute %d takes 4", size, (int)attr);
    return ACL_SUCCESS;
}

/* Results: a device's number, or one of these. */
enum { RESULT_HOST = -1, RESULT_NONE = -2 };

/*
 * Where all pages prefer to be, or were prefetched to; INVALID where that differs, or
 * nowhere.
 */
static aclrtMemManagedLocation pages_location(const struct page *pages, size_t n,
                                              bool is_prefetched)
{
    static const aclrtMemManagedLocation none = {ACL_MEM_LOCATIONTYPE_INVALID,
                                                 RESULT_NONE};
    aclrtMemManagedLocation all = none;

    for (size_t i = 0; i < n; i++) {
        aclrtMemManagedLocation at =
            is_prefetched ? pages[i].prefetched : pages[i].preferred;

        if (at.type == 0 || (i > 0 && (at.type != all.type || at.id != all.id)))
            return none;
        all = at;
    }
    return all;
}

/*
 * The accessors of all pages: devices, then the host, then none, as far as there is
 * room.
 */
static void accessors_put(const struct page *pages, size_t n, int32_t *list,
                          size_t n_list)
{
    uint64_t all = UINT64_MAX;
    size_t at = 0;

    for (size_t i = 0; i < n; i++)
        all &= pages[i].accessed_by;
    for (int32_t device = 0; device < AM_DEVICES_MAX && at < n_list; device++) {
        if (all & UINT64_C(1) << device)
            list[at++] = device;
    }
    if ((all & AM_HOST_BIT) && at < n_list)
        list[at++] = RESULT_HOST;
    while (at < n_list)
        list[at++] = RESULT_NONE;
}

static void attr_put(aclrtMemManagedRangeAttribute attr, const struct page *pages,
                     size_t n, int32_t *data, size_t n_data)
{
    bool is_prefetched = attr >= ACL_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION;
    aclrtMemManagedLocation at = pages_location(pages, n, is_prefetched);

    switch (attr) {
    case ACL_MEM_RANGE_ATTRIBUTE_READ_MOSTLY:
        *data = 1;
        for (size_t i = 0; i < n; i++)
            *data &= pages[i].is_read_mostly;
        break;
    case ACL_MEM_RANGE_ATTRIBUTE_ACCESSED_BY:
        accessors_put(pages, n, data, n_data);
        break;
    case ACL_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE:
    case ACL_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE:
        *data = (int32_t)at.type;
        break;
    case ACL_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION:
    case ACL_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION:
        *data = at.type == ACL_MEM_LOCATIONTYPE_HOST_NUMA ? RESULT_HOST : at.id;
        break;
    default: /* the two ids */
        *data = at.id;
    }
}

aclError am_managed_get_attrs(const aclrtMemManagedRangeAttribute *attrs, size_t n,
                              const void *addr, size_t size, void *const *data,
                              const size_t *data_sizes)
{
    struct page *pages;
    size_t n_pages;
    aclError rc;

    am_lock(&managed.lock);
    rc = pages_find_locked(addr, size, &pages, &n_pages);
    for (size_t i = 0; rc == ACL_SUCCESS && i < n; i++)
        attr_put(attrs[i], pages, n_pages, data[i], data_sizes[i] / sizeof(int32_t));
    am_unlock(&managed.lock);
    return rc;
}

/* The ranges, kept alive, and all of them managed memory. */
static aclError prefetch_open(const struct am_prefetch *prefetch, int32_t device,
                              struct am_spans *spans)
{
    aclError rc = ACL_SUCCESS;

    am_spans_init(spans);
    for (size_t i = 0; i < prefetch->n && rc == ACL_SUCCESS; i++) {
        struct am_spans range;

        rc = am_spans_open(&range, prefetch->addrs[i], prefetch->sizes[i],
                           AM_ACCESS_READ | AM_SPANS_PAGES, device, "ptr");
        if (rc != ACL_SUCCESS)
            break;
        if (!(range.has & AM_SPANS_MANAGED)) {
            am_spans_close(&range);
            rc = am_fail(ACL_ERROR_RT_PARAM_INVALID, "%p is not managed memory",
                         prefetch->addrs[i]);
        } else {
            rc = am_spans_join(spans, &range);
        }
    }
    if (rc != ACL_SUCCESS)
        am_spans_close(spans);
    return rc;
}

/* Memory that was freed since its lookup is skipped. */
static void prefetch_note(const struct am_prefetch *prefetch,
                          const aclrtMemManagedLocation *locations)
{
    struct am_capture before = am_error_hush();
    struct page *pages;
    size_t n;
    size_t k = 0;

    am_lock(&managed.lock);
    for (size_t i = 0; i < prefetch->n; i++) {
        if (k + 1 < prefetch->n_locations && prefetch->indexes[k + 1] == i)
            k++;
        if (pages_find_locked(prefetch->addrs[i], prefetch->sizes[i], &pages, &n) !=
            ACL_SUCCESS)
            continue;
        for (size_t j = 0; j < n; j++)
            pages[j].prefetched = locations[k];
    }
    am_unlock(&managed.lock);
    am_error_capture_end(before);
}

aclError am_managed_prefetch(const struct am_prefetch *prefetch, struct am_stream *stream)
{
    aclrtMemManagedLocation *locations =
        am_sys_malloc(prefetch->n_locations * sizeof *locations);
    struct am_spans spans;
    aclError rc = ACL_SUCCESS;

    AM_REQUIRE(locations != NULL, ACL_ERROR_BAD_ALLOC,
               "no memory for the locations of a prefetch");
    for (size_t k = 0; k < prefetch->n_locations && rc == ACL_SUCCESS; k++)
        rc = location_check(&prefetch->locations[k], &locations[k]);
    if (rc == ACL_SUCCESS)
        rc = prefetch_open(prefetch, stream->device, &spans);
    if (rc == ACL_SUCCESS)
        rc = am_memory_op_keep(&spans, stream);
    if (rc == ACL_SUCCESS)
        prefetch_note(prefetch, locations);
    free(locations);
    return rc;
}
