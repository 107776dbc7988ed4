/* See span.h. */
#include "core/copy/span.h"

#include <stdlib.h>
#include <string.h>

#include "acl/error_codes/rt_error_codes.h"
#include "base/error.h"
#include "base/maps.h"
#include "base/sys.h"
#include "base/util.h"
#include "core/device/peer.h"
#include "core/device/setup.h"
#include "core/hostmem/hostmem.h"
#include "core/vmm/phys.h"
#include "core/vmm/vspace.h"

static aclError spans_grow(struct am_spans *spans)
{
    size_t n_max = spans->n_max * 2;
    bool is_inline = spans->list == spans->inline_list;
    struct am_span *list =
        am_sys_realloc(is_inline ? NULL : spans->list, n_max * sizeof *list);

    AM_REQUIRE(list != NULL, ACL_ERROR_BAD_ALLOC,
               "no host memory for the parts of a copy");
    if (is_inline)
        memcpy(list, spans->inline_list, sizeof spans->inline_list);
    spans->list = list;
    spans->n_max = n_max;
    return ACL_SUCCESS;
}

/* Whether the mapping grants this to one of those in `bits`. */
static bool mapping_grants(const struct am_mapping *mapping, unsigned access,
                           uint64_t bits)
{
    return (!(access & AM_ACCESS_READ) || (mapping->can_read & bits) != 0) &&
           (!(access & AM_ACCESS_WRITE) || (mapping->can_write & bits) != 0);
}

/* Whether `device`, or else the memory's own, may do this. */
static bool mapping_allows(const struct am_mapping *mapping, unsigned access,
                           int32_t device)
{
    int32_t own = mapping->device;
    uint64_t bits = UINT64_C(1) << device | (own < 0 ? AM_HOST_BIT : UINT64_C(1) << own);

    return mapping_grants(mapping, access, bits);
}

/*
 * Whether `device` itself may: as the mapping says, or as a peer of the memory's own
 * device.
 */
static bool mapping_is_reachable(const struct am_mapping *mapping, unsigned access,
                                 int32_t device)
{
    int32_t own = mapping->device;
    uint64_t bits = UINT64_C(1) << device;

    if (own < 0)
        return true;
    if (am_peer_is_enabled(device, own))
        bits |= UINT64_C(1) << own;
    return mapping_grants(mapping, access, bits);
}

/* A block of ours ends where it ends, whatever lies behind it. */
static aclError block_check(const struct am_owner *owner, uintptr_t addr, size_t size,
                            unsigned access, const char *what)
{
    struct am_bounds block;
    size_t bound;

    if ((access & AM_SPANS_TURN) && owner->is_leaving != NULL &&
        owner->is_leaving(addr, size))
        return ACL_SUCCESS;
    AM_REQUIRE(
        owner->find_block(addr, &block), ACL_ERROR_RT_PARAM_INVALID,
        "%s: %p is not in a live block of %s; the block was freed, or never allocated",
        what, (void *)addr, owner->name);
    bound = access & AM_SPANS_PAGES ? block.whole : block.size;
    return am_is_within(bound, addr - block.start, size)
               ? ACL_SUCCESS
               : am_bounds_refuse(&block, addr, size, what);
}

/*
 * Memory that was imported for another device than its own is reached as a peer's.  A
 * device that this process does not see cannot be made a peer, and is not asked for.
 */
static bool home_is_reachable(const struct am_mapping *mapping)
{
    return mapping->home < 0 || mapping->device < 0 ||
           am_peer_is_enabled(mapping->device, mapping->home);
}

static aclError mapping_check(const struct am_spans *spans,
                              const struct am_mapping *mapping, uintptr_t addr,
                              size_t size, unsigned access, int32_t device,
                              const char *what)
{
    const struct am_mapping *before =
        spans->n > 0 ? spans->list[spans->n - 1].owner : mapping;

    AM_REQUIRE(before->owner == mapping->owner, ACL_ERROR_RT_PARAM_INVALID,
               "%s: the range continues into memory of another kind at %p", what,
               (void *)addr);
    AM_REQUIRE(
        mapping_allows(mapping, access, device), ACL_ERROR_RT_PARAM_INVALID,
        "%s: no right to %s the memory mapped at %p; grant it with aclrtMemSetAccess",
        what, access & AM_ACCESS_WRITE ? "write" : "read", (void *)mapping->start);
    AM_REQUIRE(mapping->home == mapping->device || home_is_reachable(mapping),
               ACL_ERROR_RT_PARAM_INVALID,
               "%s: %p is memory of device %d, imported for device %d, which may not "
               "access it; call aclrtDeviceEnablePeerAccess(%d, 0) with device %d set",
               what, (void *)addr, mapping->home, mapping->device, mapping->home,
               mapping->device);
    if (mapping->owner == NULL)
        return ACL_SUCCESS;
    if (mapping->owner->pin != NULL)
        return mapping->owner->pin(addr, size, what);
    return block_check(mapping->owner, addr, size, access, what);
}

/* The other side of mapping_check(): nothing is done with it any more. */
static void mapping_done(struct am_mapping *mapping, const void *addr)
{
    if (mapping->owner != NULL && mapping->owner->unpin != NULL)
        mapping->owner->unpin(mapping, (uintptr_t)addr);
    am_mapping_put(mapping);
}

/* Adds the mapping's n bytes of the `size` that are left; takes over the reference. */
static aclError spans_add_mapping(struct am_spans *spans, struct am_mapping *mapping,
                                  uintptr_t addr, size_t n, size_t size, unsigned access,
                                  int32_t device, const char *what)
{
    int32_t own = mapping->device;
    aclError rc = spans->n == spans->n_max ? spans_grow(spans) : ACL_SUCCESS;

    if (rc == ACL_SUCCESS)
        rc = mapping_check(spans, mapping, addr, size, access, device, what);
    if (rc != ACL_SUCCESS) {
        am_mapping_put(mapping);
        return rc;
    }
    spans->list[spans->n++] = (struct am_span){
        .addr = (void *)addr,
        .size = n,
        .mem = &mapping->phys->mem,
        .offset = addr - mapping->start,
        .owner = mapping,
    };
    if (own >= 0) {
        spans->devices |= UINT64_C(1) << own;
        /* A device that this process does not see has the last bit. */
        spans->homes |= UINT64_C(1) << (mapping->home & 63);
        spans->has |= mapping->owner == NULL ? AM_SPANS_RESERVED : 0;
    } else {
        spans->has |= AM_SPANS_HOST;
    }
    if (mapping->owner != NULL && mapping->owner->is_managed)
        spans->has |= AM_SPANS_MANAGED;
    spans->has |= mapping->may_alias ? AM_SPANS_ALIAS : 0;
    spans->has |= mapping->is_remote ? AM_SPANS_REMOTE : 0;
    return ACL_SUCCESS;
}

_Static_assert((int)AM_ACCESS_READ == (int)AM_MAPS_READ, "one set of bits");
_Static_assert((int)AM_ACCESS_WRITE == (int)AM_MAPS_WRITE, "one set of bits");

/* Memory of the program's own that we know nothing of: the system is asked. */
static aclError host_check(uintptr_t addr, size_t size, unsigned access, const char *what)
{
    int rc;

    access &= AM_ACCESS_ALL;
    rc = access != AM_ACCESS_NONE ? am_maps_check(addr, size, access) : 0;

    AM_REQUIRE(rc != -EFAULT, ACL_ERROR_RT_PARAM_INVALID,
               "%s: some of the %zu bytes at %p are not mapped in this process; the "
               "memory was freed, or the address or the size is wrong",
               what, size, (void *)addr);
    AM_REQUIRE(rc != -EACCES, ACL_ERROR_RT_PARAM_INVALID,
               "%s: the program has no right to %s some of the %zu bytes at %p", what,
               access & AM_ACCESS_WRITE ? "write" : "read", size, (void *)addr);
    return ACL_SUCCESS;
}

/*
 * The rest of the range is not mapped: the program's own memory, if that is all there is.
 */
static aclError spans_add_host(struct am_spans *spans, uintptr_t addr, size_t size,
                               unsigned access, const char *what)
{
    const struct am_owner *owner;
    struct am_registered *registered;
    bool is_reserved;

    AM_REQUIRE(size - 1 <= UINTPTR_MAX - addr, ACL_ERROR_RT_PARAM_INVALID,
               "%s: %zu bytes at %p extend past the end of the address space", what, size,
               (void *)addr);
    is_reserved = am_vspace_is_reserved(addr, size, &owner);
    AM_REQUIRE(
        !is_reserved || owner == NULL, ACL_ERROR_RT_PARAM_INVALID,
        "%s: %p is not in a live block of %s; the block was freed, or never allocated",
        what, (void *)addr, owner->name);
    AM_REQUIRE(
        !is_reserved, ACL_ERROR_RT_PARAM_INVALID,
        "%s: %p is reserved, but nothing is mapped there; map the whole range first",
        what, (void *)addr);
    AM_REQUIRE(spans->n == 0, ACL_ERROR_RT_PARAM_INVALID,
               "%s: the mapped memory ends at %p, inside the range", what, (void *)addr);
    registered = am_registered_get((void *)addr, size);
    if (registered == NULL)
        AM_TRY(host_check(addr, size, access, what));
    spans->list[spans->n++] =
        (struct am_span){.addr = (void *)addr, .size = size, .owner = registered};
    spans->has |= AM_SPANS_HOST | (registered == NULL ? AM_SPANS_PAGEABLE : 0);
    return ACL_SUCCESS;
}

void am_spans_init(struct am_spans *spans)
{
    spans->list = spans->inline_list;
    spans->n = 0;
    spans->n_max = AM_SPANS_INLINE;
    spans->devices = 0;
    spans->homes = 0;
    spans->has = 0;
}

AM_HOT aclError am_spans_open(struct am_spans *spans, const void *addr, size_t size,
                              unsigned access, int32_t device, const char *what)
{
    uintptr_t at = (uintptr_t)addr;
    aclError rc = ACL_SUCCESS;

    am_spans_init(spans);
    while (size > 0) {
        struct am_mapping *mapping = am_mapping_get(at);
        size_t n = size;

        if (mapping == NULL) {
            rc = spans_add_host(spans, at, size, access, what);
        } else {
            n = mapping->size - (at - mapping->start);
            n = n < size ? n : size;
            rc = spans_add_mapping(spans, mapping, at, n, size, access, device, what);
        }
        if (rc != ACL_SUCCESS) {
            am_spans_close(spans);
            return rc;
        }
        at += n;
        size -= n;
    }
    return ACL_SUCCESS;
}

aclError am_spans_open_device(struct am_spans *spans, const void *addr, size_t size,
                              unsigned access, int32_t device, const char *what)
{
    aclError rc = ACL_SUCCESS;

    AM_TRY(am_spans_open(spans, addr, size, access, device, what));
    if (spans->list[0].mem == NULL || !am_spans_fit(spans, true))
        rc = am_fail(ACL_ERROR_RT_PARAM_INVALID, "%s: %p is not device memory", what,
                     addr);
    else if ((spans->has & AM_SPANS_REMOTE) && (access & AM_ACCESS_ALL) != 0)
        rc = am_fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                     "%s: %p is memory of another machine, which only copies and fills "
                     "reach",
                     what, addr);
    if (rc != ACL_SUCCESS)
        am_spans_close(spans);
    return rc;
}

static void span_close(const struct am_span *span)
{
    if (span->mem != NULL)
        mapping_done(span->owner, span->addr);
    else if (span->owner != NULL)
        am_registered_put(span->owner);
}

void am_spans_close(struct am_spans *spans)
{
    for (size_t i = 0; i < spans->n; i++)
        span_close(&spans->list[i]);
    if (spans->list != spans->inline_list)
        free(spans->list);
    am_spans_init(spans);
}

void am_spans_drop(struct am_spans *spans)
{
    for (size_t i = 0; i < spans->n; i++) {
        struct am_span *span = &spans->list[i];

        span_close(span);
        *span = (struct am_span){.addr = span->addr, .size = span->size};
    }
}

aclError am_spans_reopen(struct am_spans *spans, const struct am_spans *ranges,
                         unsigned access, int32_t device, const char *what)
{
    if (ranges->n == 1)
        return am_spans_open(spans, ranges->list[0].addr, ranges->list[0].size, access,
                             device, what);
    am_spans_init(spans);
    for (size_t i = 0; i < ranges->n; i++) {
        const struct am_span *range = &ranges->list[i];
        struct am_spans more;
        aclError rc =
            am_spans_open(&more, range->addr, range->size, access, device, what);

        if (rc == ACL_SUCCESS)
            rc = am_spans_join(spans, &more);
        if (rc != ACL_SUCCESS) {
            am_spans_close(spans);
            return rc;
        }
    }
    return ACL_SUCCESS;
}

/* Whether the range is in the memory that the span keeps alive, and may be used. */
static bool span_covers(const struct am_span *span, uintptr_t addr, size_t size,
                        unsigned access, int32_t device)
{
    const struct am_mapping *mapping = span->owner;
    const struct am_owner *owner;

    if (span->mem == NULL || !am_is_within(mapping->size, addr - mapping->start, size) ||
        !mapping_allows(mapping, access, device))
        return false;
    owner = mapping->owner;
    return owner == NULL ||
           (owner->is_pinned != NULL &&
            owner->is_pinned(mapping, (uintptr_t)span->addr, addr, size));
}

aclError am_spans_reopen_next(struct am_spans *spans, const struct am_spans *ranges,
                              unsigned access, int32_t device, const char *what)
{
    const struct am_span *range = &ranges->list[0];
    struct am_span *span = &spans->list[0];

    if (spans->n != 1 || ranges->n != 1 ||
        !span_covers(span, (uintptr_t)range->addr, range->size, access, device)) {
        am_spans_close(spans);
        return am_spans_reopen(spans, ranges, access, device, what);
    }
    span->offset += (uintptr_t)range->addr - (uintptr_t)span->addr;
    span->addr = range->addr;
    span->size = range->size;
    return ACL_SUCCESS;
}

void am_spans_move(struct am_spans *to, struct am_spans *from)
{
    bool is_inline = from->list == from->inline_list;

    /* Copies only the used part: most lists have one span. */
    memcpy(to, from, offsetof(struct am_spans, inline_list));
    if (is_inline) {
        memcpy(to->inline_list, from->inline_list, from->n * sizeof *from->list);
        to->list = to->inline_list;
    }
}

aclError am_spans_join(struct am_spans *spans, struct am_spans *more)
{
    aclError rc = ACL_SUCCESS;

    while (rc == ACL_SUCCESS && more->n > spans->n_max - spans->n)
        rc = spans_grow(spans);
    if (rc == ACL_SUCCESS) {
        memcpy(&spans->list[spans->n], more->list, more->n * sizeof *more->list);
        spans->n += more->n;
        spans->devices |= more->devices;
        spans->homes |= more->homes;
        spans->has |= more->has | AM_SPANS_ALIAS;
        more->n = 0; /* the references have a new list */
    }
    am_spans_close(more);
    return rc;
}

bool am_spans_fit(const struct am_spans *spans, bool is_device)
{
    /*
     * Managed memory is both; so is the memory of products whose processor is the host.
     */
    return (spans->devices != 0) == is_device || (spans->has & AM_SPANS_MANAGED) ||
           (am_setup.product->features & AM_PRODUCT_RC);
}

bool am_spans_are_reachable(const struct am_spans *spans, unsigned access, int32_t device)
{
    for (size_t i = 0; i < spans->n; i++) {
        const struct am_span *span = &spans->list[i];

        if (span->mem != NULL && !mapping_is_reachable(span->owner, access, device))
            return false;
    }
    return true;
}
