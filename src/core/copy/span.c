/* See span.h. */
#include "core/copy/span.h"

#include <stdlib.h>
#include <string.h>

#include "acl/error_codes/rt_error_codes.h"
#include "base/error.h"
#include "base/maps.h"
#include "base/sys.h"
#include "base/util.h"
#include "core/device/device.h"
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
    spans->is_borrowed = false;
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
    struct am_mapping *mapping = span->owner;

    if (span->mem == NULL) {
        if (span->owner != NULL)
            am_registered_put(span->owner);
        return;
    }
    if (mapping->owner != NULL && mapping->owner->unpin != NULL)
        mapping->owner->unpin(mapping, (uintptr_t)span->addr);
    am_mapping_put(mapping);
}

void am_spans_close(struct am_spans *spans)
{
    for (size_t i = 0; i < spans->n && !spans->is_borrowed; i++)
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

/* The span is at this range of its mapping from now on. */
static void span_shift(struct am_span *span, const struct am_span *range)
{
    span->offset += (uintptr_t)range->addr - (uintptr_t)span->addr;
    span->addr = range->addr;
    span->size = range->size;
}

static bool spans_cover(const struct am_spans *spans, const struct am_spans *ranges,
                        unsigned access, int32_t device)
{
    const struct am_span *range = &ranges->list[0];

    return spans->n == 1 && ranges->n == 1 &&
           span_covers(&spans->list[0], (uintptr_t)range->addr, range->size, access,
                       device);
}

aclError am_spans_reopen_next(struct am_spans *spans, const struct am_spans *ranges,
                              unsigned access, int32_t device, const char *what)
{
    if (!spans_cover(spans, ranges, access, device)) {
        am_spans_close(spans);
        return am_spans_reopen(spans, ranges, access, device, what);
    }
    span_shift(&spans->list[0], &ranges->list[0]);
    return ACL_SUCCESS;
}

bool am_spans_borrow(struct am_spans *spans, const struct am_spans *from,
                     const struct am_spans *ranges, unsigned access, int32_t device)
{
    if (!spans_cover(from, ranges, access, device))
        return false;
    am_spans_init(spans);
    spans->list[0] = from->list[0];
    span_shift(&spans->list[0], &ranges->list[0]);
    spans->n = 1;
    spans->devices = from->devices;
    spans->homes = from->homes;
    spans->has = from->has;
    spans->is_borrowed = true;
    return true;
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

/* ---- transfers ---- */

void am_transfer_init(struct am_transfer *transfer)
{
    memset(transfer, 0, offsetof(struct am_transfer, to));
    transfer->n_rows = 1;
    am_spans_init(&transfer->to);
    am_spans_init(&transfer->from);
}

AM_HOT aclError am_transfer_open(struct am_transfer *transfer, void *dst, size_t dst_size,
                                 const void *src, size_t src_size, unsigned turn,
                                 int32_t device)
{
    aclError rc;

    memset(transfer, 0, offsetof(struct am_transfer, to));
    transfer->n_rows = 1;
    transfer->size = dst_size;
    AM_TRY(am_spans_open(&transfer->to, dst, dst_size, AM_ACCESS_WRITE | turn, device,
                         "dst"));
    rc = am_spans_open(&transfer->from, src, src_size, AM_ACCESS_READ | turn, device,
                       "src");
    if (rc != ACL_SUCCESS)
        am_spans_close(&transfer->to);
    return rc;
}

void am_transfer_close(struct am_transfer *transfer)
{
    am_spans_close(&transfer->from);
    am_spans_close(&transfer->to);
}

/* The backend whose copy() and fill() move the bytes. */
static const struct am_backend_ops *transfer_backend(const struct am_transfer *transfer)
{
    return am_transfer_has(transfer, AM_SPANS_REMOTE) ? &am_backend_remote
                                                      : am_setup.backend;
}

/* ---- overlap ---- */

/*
 * Whether some byte is on both sides: by addresses that overlap, because a handle is mapped
 * twice, or because the handle's process imported it.  The two lists are compared only if that
 * is possible: a copy of gigabytes has many spans.
 */

/* Where a span's bytes are: from here on in its mem, or in the program's memory. */
static size_t span_at(const struct am_span *span)
{
    return span->mem != NULL ? span->offset : (size_t)span->addr;
}

static uint64_t span_common(const struct am_span *span)
{
    return span->mem != NULL ? ((struct am_mapping *)span->owner)->phys->share_number : 0;
}

static bool spans_share(const struct am_span *a, const struct am_span *b)
{
    size_t at_a = span_at(a);
    size_t at_b = span_at(b);

    /* By one handle, or by two: this process has imported what it exported. */
    if (a->mem != b->mem && (span_common(a) == 0 || span_common(a) != span_common(b)))
        return false;
    return at_a < at_b ? at_b - at_a < a->size : at_a - at_b < b->size;
}

/* Of one stretch each. */
static bool addresses_overlap(const struct am_spans *a, const struct am_spans *b)
{
    const struct am_span *a_last = &a->list[a->n - 1];
    const struct am_span *b_last = &b->list[b->n - 1];

    return (char *)a->list[0].addr < (char *)b_last->addr + b_last->size &&
           (char *)b->list[0].addr < (char *)a_last->addr + a_last->size;
}

/*
 * Not if one side is the host's alone and the other one a device's, nor for memory that has
 * only these addresses.
 */
static bool may_share(const struct am_transfer *transfer)
{
    const struct am_spans *to = &transfer->to;
    const struct am_spans *from = &transfer->from;

    if ((to->homes & from->homes) == 0 && !(to->has & from->has & AM_SPANS_HOST))
        return false;
    return am_transfer_has(transfer, AM_SPANS_ALIAS) || addresses_overlap(to, from);
}

static bool sides_share(const struct am_transfer *transfer)
{
    const struct am_spans *to = &transfer->to;
    const struct am_spans *from = &transfer->from;

    for (size_t i = 0; may_share(transfer) && i < to->n; i++) {
        for (size_t k = 0; k < from->n; k++) {
            if (spans_share(&to->list[i], &from->list[k]))
                return true;
        }
    }
    return false;
}

/*
 * By way of a buffer, as large as the copy: the result is the one of memmove().  No document
 * asks for overlapping copies.
 */
static aclError run_staged(const struct am_transfer *transfer)
{
    size_t size = transfer->size * transfer->n_rows;
    struct am_span buffer = {.addr = am_sys_malloc(size), .size = size};
    size_t width = transfer->size;
    const struct am_backend_ops *backend = transfer_backend(transfer);
    aclError rc = ACL_SUCCESS;

    AM_REQUIRE(buffer.addr != NULL, ACL_ERROR_BAD_ALLOC,
               "no host memory to buffer %zu bytes: source and destination overlap",
               size);
    for (size_t i = 0; i < transfer->n_rows && rc == ACL_SUCCESS; i++)
        rc = backend->copy(&buffer, i * width, transfer->from.list,
                           i * transfer->from_pitch, width);
    for (size_t i = 0; i < transfer->n_rows && rc == ACL_SUCCESS; i++)
        rc = backend->copy(transfer->to.list, i * transfer->to_pitch, &buffer, i * width,
                           width);
    free(buffer.addr);
    return rc;
}

/* ---- execution ---- */

/* From a row to the next one. */
static void row_next(const struct am_transfer *transfer, struct am_cursor *to,
                     struct am_cursor *from)
{
    to->at += transfer->to_pitch;
    from->at += transfer->from_pitch;
    am_cursor_settle(to);
    am_cursor_settle(from);
}

typedef aclError (*row_f)(const struct am_span *dst, size_t dst_at,
                          const struct am_span *src, size_t src_at, size_t size);

/* Calls f for each row, first to last, until one fails. */
static aclError rows_each(const struct am_transfer *transfer, row_f f)
{
    struct am_cursor to = {transfer->to.list, 0};
    struct am_cursor from = {transfer->from.list, 0};
    aclError rc = f(to.span, to.at, from.span, from.at, transfer->size);

    for (size_t i = 1; i < transfer->n_rows && rc == ACL_SUCCESS; i++) {
        row_next(transfer, &to, &from);
        rc = f(to.span, to.at, from.span, from.at, transfer->size);
    }
    return rc;
}

aclError am_transfer_run(const struct am_transfer *transfer)
{
    const struct am_backend_ops *backend = transfer_backend(transfer);

    if (transfer->width != 0)
        return backend->fill(transfer->to.list, transfer->size, transfer->value,
                             transfer->width);
    if (transfer->n_rows > 1 && backend->prepare != NULL)
        AM_TRY(rows_each(transfer, backend->prepare));
    return sides_share(transfer) ? run_staged(transfer)
                                 : rows_each(transfer, backend->copy);
}

/* The first row, or the fill. */
static inline struct am_step step_first(const struct am_transfer *transfer)
{
    return (struct am_step){
        .dst = {transfer->to.list, 0},
        .src = {transfer->width == 0 ? transfer->from.list : NULL, 0},
        .size = transfer->size,
        .value = transfer->value,
        .width = transfer->width,
    };
}

static inline bool is_overlapping(const struct am_transfer *transfer)
{
    return transfer->width == 0 && !am_transfer_is_across(transfer) &&
           sides_share(transfer);
}

AM_HOT aclError am_transfer_launch(const struct am_transfer *transfer,
                                   const struct am_backend_ops *lanes,
                                   struct am_lane *lane, uint64_t *ret_number)
{
    struct am_step step = step_first(transfer);
    size_t failed;

    *ret_number = 0;
    /*
     * A partly launched copy is repeated in full, so it must be idempotent: overlapping
     * copies are never launched.
     */
    if (is_overlapping(transfer))
        return ACL_SUCCESS;
    for (size_t i = 0; i < transfer->n_rows; i++) {
        if (i > 0)
            row_next(transfer, &step.dst, &step.src);
        AM_TRY(lanes->lane_steps(lane, &step, 1, &failed, ret_number));
        /* The device cannot: all of it is done another way, after what was launched. */
        if (*ret_number == 0)
            return i > 0 ? lanes->lane_sync(lane) : ACL_SUCCESS;
    }
    return ACL_SUCCESS;
}

bool am_transfer_step(const struct am_transfer *transfer, struct am_step *ret_step)
{
    if (transfer->n_rows != 1 || am_transfer_has(transfer, AM_SPANS_REMOTE) ||
        is_overlapping(transfer))
        return false;
    *ret_step = step_first(transfer);
    ret_step->may_alias = am_transfer_has(transfer, AM_SPANS_ALIAS);
    return true;
}
