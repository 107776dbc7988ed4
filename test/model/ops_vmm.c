/*
 * Operations on address ranges, physical memory, mappings and access rights.
 *
 * An operation draws its arguments, asks the model what is allowed, calls, compares, and
 * tells the model what happened.  Where arguments must fit each other to be accepted (a
 * handle, a range with room, a size), it draws several times and keeps the first that the
 * model would accept, except for a share of calls that stay as they came.
 */
#include "run.h"

#include <string.h>

#define CANARY ((void *)0x5aa5c33c)
#define MESSY 15 /* calls in a hundred whose arguments need not fit each other */

static size_t reserve_size(struct run *r)
{
    static const size_t odd[] = {
        512, 1, MODEL_CHUNK + 1, 3 * MODEL_MIB, (size_t)1 << 40, (size_t)32 << 40};

    if (chance(r, 3))
        return pick_of(r, odd);
    if (chance(r, 6))
        return (1 + pick(r, 3)) * MODEL_GIB - (chance(r, 20) ? 1 : 0);
    if (chance(r, 6))
        return arg_size(r, MODEL_CHUNK);
    return (4 + pick(r, 28)) * MODEL_CHUNK;
}

/* An address that was ours, is ours, or comes right after. */
static uintptr_t expected_address(struct run *r)
{
    struct model_range *range = arg_range(r);

    if (!chance(r, r->opt.is_strict ? 3 : 20))
        return 0;
    switch (pick(r, 5)) {
    case 0:
        return range != NULL ? range->start + range->size : 0;
    case 1:
        return range != NULL ? range->start + pick(r, 4) * MODEL_CHUNK : 0;
    case 2:
        return range != NULL ? range->start + range->size + 4096 : 0;
    default:
        return r->n_gone > 0 ? r->gone[pick(r, RUN_GONE)] : 0;
    }
}

/*
 * Nobody but the library maps anything in the addresses from 16 TB on, unless a sanitizer
 * sits there and the library has to take what the kernel gives; those addresses the
 * kernel gives to others too.
 */
static bool is_contested(const struct run *r, uintptr_t addr, size_t size)
{
    uintptr_t low = (uintptr_t)16 << 40, high = (uintptr_t)64 << 40;

    return !r->opt.is_alone || addr < low || size > high || addr > high - size;
}

static void check_reserved(struct run *r, uintptr_t start, size_t size,
                           uintptr_t expected)
{
    size_t rounded = model_round_up(size, MODEL_CHUNK);
    size_t alignment = rounded >= MODEL_GIB ? MODEL_GIB : MODEL_CHUNK;

    expect(r, start != 0 && start % alignment == 0,
           "address %#zx of %zu bytes is not aligned", start, size);
    expect(r, expected == 0 || start == expected, "got %#zx where %#zx was asked for",
           start, expected);
    expect(r, model_is_range_free(&r->m, start, rounded), "%#zx is reserved already",
           start);
}

void op_reserve(struct run *r)
{
    size_t size = reserve_size(r);
    uintptr_t expected = expected_address(r);
    size_t alignment = chance(r, 1) ? MODEL_CHUNK : 0;
    uint64_t flags = chance(r, 1) ? 2 + pick(r, 7) : chance(r, 25) ? 0 : 1;
    void *got = CANARY, **out = chance(r, 1) ? NULL : &got;
    struct verdict v;
    aclError rc;

    if (model_count_ranges(&r->m) == MODEL_RANGES)
        return;
    v = model_may_reserve(&r->m, out, size, alignment, expected, flags);
    doubt(&v, expected != 0 && is_contested(r, expected, size),
          ACL_ERROR_RT_PARAM_INVALID);
    doubt(&v, size > (size_t)64 << 30, ACL_ERROR_RT_MEMORY_ALLOCATION);

    run_log(r, "aclrtReserveMemAddress(%s, %zu, %zu, %#zx, %u)", out ? "&p" : "NULL",
            size, alignment, expected, (unsigned)flags);
    rc = aclrtReserveMemAddress(out, size, alignment, (void *)expected, flags);
    if (!settle(r, rc, &v)) {
        expect(r, got == CANARY, "the output was written: %p", got);
        return;
    }
    run_log(r, "    p = %p", got);
    check_reserved(r, (uintptr_t)got, size, expected);
    model_reserve(&r->m, (uintptr_t)got, size, flags);
}

/* Only an Atlas A3 has this call; the default product is an A2. */
void op_reserve_no_uc(struct run *r)
{
    size_t size = (1 + pick(r, 2)) * MODEL_GIB;
    uintptr_t expected = ((uintptr_t)78 << 40) + pick(r, 4) * MODEL_GIB;
    struct verdict v = {0};
    void *got = CANARY;

    deny(&v, true, ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
    run_log(r, "aclrtReserveMemAddressNoUCMemory(&p, %zu, 0, %#zx, 0)", size, expected);
    settle(r, aclrtReserveMemAddressNoUCMemory(&got, size, 0, (void *)expected, 0), &v);
    expect(r, got == CANARY, "the output was written: %p", got);
}

void op_release(struct run *r)
{
    struct model_range *range = arg_range(r);
    uintptr_t start = range != NULL ? range->start : 0;
    struct verdict v;

    if (range != NULL && !chance(r, MESSY))
        for (int i = 0; i < MODEL_RANGES; i++)
            if (r->m.range[i].is_used &&
                model_is_unmapped(&r->m, r->m.range[i].start, r->m.range[i].size))
                start = r->m.range[i].start;
    if (chance(r, 8))
        start = arg_address(r);
    v = model_may_release(&r->m, start);

    run_log(r, "aclrtReleaseMemAddress(%#zx)", start);
    if (!settle(r, aclrtReleaseMemAddress((void *)start), &v))
        return;
    remember_gone(r, start);
    model_release(&r->m, start);
}

/*
 * What a client's destructor does: every mapping of a range goes, and the range with
 * them.
 */
void op_retire(struct run *r)
{
    struct model_range *range = arg_range(r);

    if (range == NULL)
        return;
    for (int i = 0; i < MODEL_MAPS; i++) {
        struct model_map *map = &r->m.map[i];

        if (!map->is_used || map->start - range->start >= range->size)
            continue;
        run_log(r, "aclrtUnmapMem(%#zx)", map->start);
        settle_ok(r, aclrtUnmapMem((void *)map->start));
        model_unmap(&r->m, map->start);
    }
    run_log(r, "aclrtReleaseMemAddress(%#zx)", range->start);
    settle_ok(r, aclrtReleaseMemAddress((void *)range->start));
    remember_gone(r, range->start);
    model_release(&r->m, range->start);
}

static size_t host_bytes(const struct model *m)
{
    size_t sum = 0;

    for (int i = 0; i < MODEL_PHYS; i++)
        if (m->phys[i].is_used && model_is_on_host(&m->phys[i]))
            sum += m->phys[i].size;
    return sum;
}

static void check_new_handle(struct run *r, void *handle)
{
    expect(r, handle != NULL, "the new handle is NULL");
    for (int i = 0; i < MODEL_PHYS; i++)
        expect(r, !r->m.phys[i].is_used || r->m.phys[i].handle != handle,
               "handle %p is alive already", handle);
    expect(r, !is_stale(r, handle),
           "handle %p died a moment ago; who keeps it is not told", handle);
}

void op_malloc(struct run *r)
{
    aclrtPhysicalMemProp prop = arg_prop(r);
    aclrtPhysicalMemProp *in = chance(r, 1) ? NULL : &prop;
    size_t size = arg_size(r, model_granule(&prop));
    uint64_t flags = chance(r, 1);
    void *got = CANARY, **out = chance(r, 1) ? NULL : &got;
    struct verdict v;

    if (model_count_phys(&r->m) == MODEL_PHYS ||
        (prop.location.type != ACL_MEM_LOCATION_TYPE_DEVICE &&
         host_bytes(&r->m) > 32 * MODEL_MIB))
        return;
    v = model_may_malloc(&r->m, out, size, in, flags);

    run_log(r,
            "aclrtMallocPhysical(%s, %zu, %s{%d, %d, attr %d, {id %d, type %d}, %d}, %d)",
            out ? "&h" : "NULL", size, in ? "" : "NULL ", (int)prop.handleType,
            (int)prop.allocationType, (int)prop.memAttr, (int)prop.location.id,
            (int)prop.location.type, (int)prop.reserve, (int)flags);
    if (!settle(r, aclrtMallocPhysical(out, size, in, flags), &v)) {
        expect(r, got == CANARY, "the output was written: %p", got);
        return;
    }
    run_log(r, "    h = %p", got);
    check_new_handle(r, got);
    model_malloc(&r->m, got, size, &prop);
}

void op_free(struct run *r)
{
    void *handle = arg_handle(r);
    struct model_phys *phys;
    struct verdict v;

    /*
     * Freed while mapped, a handle dies under the mapping's feet; often, but not most of
     * the time.
     */
    for (int i = 0; i < 3 && !chance(r, 40); i++) {
        phys = model_find_phys(&r->m, handle);
        if (phys != NULL && phys->n_maps > 0)
            handle = arg_handle(r);
    }
    v = model_may_free(&r->m, handle);
    phys = model_find_phys(&r->m, handle);

    run_log(r, "aclrtFreePhysical(%p)", handle);
    if (!settle(r, aclrtFreePhysical(handle), &v))
        return;
    if (phys->refs == 1)
        remember_stale(r, handle);
    model_free(&r->m, handle);
}

struct map_args {
    void *handle;
    uintptr_t addr;
    size_t size;
    size_t offset;
    uint64_t flags;
};

static size_t map_size(struct run *r, const struct model_phys *phys)
{
    if (phys == NULL)
        return arg_size(r, MODEL_CHUNK);
    if (chance(r, 4))
        return phys->size + phys->granule;
    if (chance(r, 3))
        return arg_size(r, phys->granule);
    if (!r->opt.is_strict && chance(r, 25))
        return phys->size -
               pick(r, (uint32_t)(phys->size / phys->granule)) * phys->granule;
    return chance(r, 80) ? phys->asked : phys->size;
}

static uintptr_t map_target(struct run *r, size_t granule)
{
    struct model_range *range = arg_range(r);
    size_t n_granules;

    if (range == NULL || chance(r, 3))
        return arg_address(r);
    n_granules = range->size / granule;
    n_granules = n_granules > 48 ? 48 : n_granules;
    if (chance(r, 2))
        return range->start + (chance(r, 50) ? 4096 : 1);
    /* The end is a fine wrong address, unless another thread's range starts there. */
    return range->start + pick(r, (uint32_t)n_granules + r->opt.is_alone) * granule;
}

static struct map_args draw_map(struct run *r)
{
    struct map_args a = {.handle = arg_handle(r)};
    struct model_phys *phys = model_find_phys(&r->m, a.handle);

    a.size = map_size(r, phys);
    a.addr = map_target(r, phys != NULL ? phys->granule : MODEL_CHUNK);
    a.offset = chance(r, 1) ? MODEL_CHUNK : 0;
    a.flags = chance(r, 1) ? 1 : 0;
    return a;
}

void op_map(struct run *r)
{
    bool has_access = chance(r, 85), may_miss = chance(r, MESSY);
    struct map_args a = draw_map(r);
    struct verdict v = model_may_map(&r->m, a.addr, a.size, a.offset, a.handle, a.flags);
    aclError rc;

    if (model_count_maps(&r->m) == MODEL_MAPS)
        return;
    for (int i = 0; i < 8 && !may_miss && verdict_is_refusal(&v); i++) {
        a = draw_map(r);
        v = model_may_map(&r->m, a.addr, a.size, a.offset, a.handle, a.flags);
    }

    run_log(r, "%s(%#zx, %zu, %zu, %p, %d)",
            has_access ? "aclrtMapMem" : "aclrtMemMapNoAccess", a.addr, a.size, a.offset,
            a.handle, (int)a.flags);
    rc = has_access
             ? aclrtMapMem((void *)a.addr, a.size, a.offset, a.handle, a.flags)
             : aclrtMemMapNoAccess((void *)a.addr, a.size, a.offset, a.handle, a.flags);
    if (settle(r, rc, &v))
        model_map(&r->m, a.addr, a.size, a.handle, has_access);
}

void op_unmap(struct run *r)
{
    uintptr_t addr = arg_map_start(r, 10);
    struct verdict v = model_may_unmap(&r->m, addr);

    run_log(r, "aclrtUnmapMem(%#zx)", addr);
    if (settle(r, aclrtUnmapMem((void *)addr), &v))
        model_unmap(&r->m, addr);
}

void op_retain(struct run *r)
{
    uintptr_t addr = arg_map_start(r, 25);
    void *got = CANARY, **out = chance(r, 1) ? NULL : &got;
    struct verdict v = model_may_retain(&r->m, addr, out);
    struct model_map *map = model_find_map(&r->m, addr);

    run_log(r, "aclrtMemRetainAllocationHandle(%#zx, %s)", addr, out ? "&h" : "NULL");
    if (!settle(r, aclrtMemRetainAllocationHandle((void *)addr, out), &v)) {
        expect(r, got == CANARY, "the output was written: %p", got);
        return;
    }
    expect(r, got == map->phys->handle, "got handle %p, mapped was %p", got,
           map->phys->handle);
    model_retain(&r->m, addr);
}

void op_properties(struct run *r)
{
    void *handle = arg_handle(r);
    aclrtPhysicalMemProp got, canary, *out = chance(r, 1) ? NULL : &got;
    struct verdict v = model_may_use_handle(&r->m, handle, out);
    const aclrtPhysicalMemProp *want;

    memset(&got, 0x5a, sizeof(got));
    canary = got;
    run_log(r, "aclrtMemGetAllocationPropertiesFromHandle(%p, %s)", handle,
            out ? "&prop" : "NULL");
    if (!settle(r, aclrtMemGetAllocationPropertiesFromHandle(handle, out), &v)) {
        expect(r, memcmp(&got, &canary, sizeof(got)) == 0, "the output was written");
        return;
    }
    want = &model_find_phys(&r->m, handle)->prop;
    expect(r,
           got.handleType == want->handleType &&
               got.allocationType == want->allocationType &&
               got.memAttr == want->memAttr && got.location.type == want->location.type &&
               got.reserve == 0,
           "attribute %d at location type %d, was %d at %d", (int)got.memAttr,
           (int)got.location.type, (int)want->memAttr, (int)want->location.type);
    expect(r, got.location.id == want->location.id, "location id %u, was %u",
           got.location.id, want->location.id);
}

void op_granularity(struct run *r)
{
    static const int wrong[] = {2, ACL_RT_MEM_ALLOC_GRANULARITY_UNDEF, -1};
    aclrtPhysicalMemProp prop = arg_prop(r);
    aclrtPhysicalMemProp *in = chance(r, 2) ? NULL : &prop;
    int option = chance(r, 5) ? pick_of(r, wrong) : (int)pick(r, 2);
    size_t got = 77, *out = chance(r, 2) ? NULL : &got;
    struct verdict v = model_may_use_prop(&r->m, in);

    deny(&v, out == NULL, ACL_ERROR_INVALID_PARAM);
    deny(&v, option < 0 || option > 1, ACL_ERROR_INVALID_PARAM);
    run_log(r, "aclrtMemGetAllocationGranularity(%sattr %d, {%d, %d}, %d, %s)",
            in ? "" : "NULL ", (int)prop.memAttr, (int)prop.location.id,
            (int)prop.location.type, option, out ? "&g" : "NULL");
    if (settle(
            r,
            aclrtMemGetAllocationGranularity(in, (aclrtMemGranularityOptions)option, out),
            &v))
        expect(r, got == model_granule(&prop), "granularity %zu", got);
    else
        expect(r, got == 77, "the output was written: %zu", got);
}

static aclrtMemAccessDesc arg_access(struct run *r)
{
    static const int flags[] = {ACL_RT_MEM_ACCESS_FLAGS_NONE,
                                ACL_RT_MEM_ACCESS_FLAGS_READ,
                                ACL_RT_MEM_ACCESS_FLAGS_READ, 2, 4};
    aclrtMemAccessDesc desc = {.flags = ACL_RT_MEM_ACCESS_FLAGS_READWRITE,
                               .location = arg_location(r)};

    if (chance(r, r->opt.is_strict ? 5 : 35))
        desc.flags = (aclrtMemAccessFlags)pick_of(r, flags);
    if (chance(r, 1))
        desc.rsv[pick(r, sizeof(desc.rsv))] = 1;
    return desc;
}

void op_set_access(struct run *r)
{
    uintptr_t addr = arg_map_start(r, 8);
    struct model_map *map = model_find_map_at(&r->m, addr);
    size_t size = map != NULL ? map->asked : MODEL_CHUNK;
    aclrtMemAccessDesc desc[2] = {arg_access(r), arg_access(r)};
    aclrtMemAccessDesc *in = chance(r, 1) ? NULL : desc;
    size_t count = chance(r, 1) ? 0 : 1 + pick(r, 2);
    struct verdict v;

    if (chance(r, 6))
        size += chance(r, 50) ? MODEL_CHUNK : (size_t) - (int64_t)MODEL_CHUNK;
    v = model_may_set_access(&r->m, addr, size, in, count);

    run_log(r, "aclrtMemSetAccess(%#zx, %zu, %s{%d {%d, %d}}, {%d {%d, %d}}, %zu)", addr,
            size, in ? "" : "NULL ", (int)desc[0].flags, (int)desc[0].location.id,
            (int)desc[0].location.type, (int)desc[1].flags, (int)desc[1].location.id,
            (int)desc[1].location.type, count);
    if (settle(r, aclrtMemSetAccess((void *)addr, size, in, count), &v))
        model_set_access(&r->m, addr, desc, count);
}

void op_get_access(struct run *r)
{
    uintptr_t addr = arg_map_start(r, 15);
    aclrtMemLocation location = arg_location(r), *in = chance(r, 1) ? NULL : &location;
    uint64_t got = 77, *out = chance(r, 1) ? NULL : &got;
    struct verdict v = model_may_get_access(&r->m, addr, in, out);

    if (!verdict_is_refusal(&v)) {
        check_access(r, model_find_map_at(&r->m, addr), &location);
        return;
    }
    run_log(r, "aclrtMemGetAccess(%#zx, {%d, %d}, %s)", addr, (int)location.id,
            (int)location.type, out ? "&flag" : "NULL");
    settle(r, aclrtMemGetAccess((void *)addr, in, out), &v);
    expect(r, got == 77, "the output was written: %d", (int)got);
}

void op_address_range(struct run *r)
{
    check_address_range(r, arg_address(r));
}

void op_attributes(struct run *r)
{
    check_attributes(r, arg_address(r));
}

/* Reserved addresses are of the reserved kind; of unreserved ones neither kind holds. */
void op_check_type(struct run *r)
{
    uintptr_t addr[2] = {arg_address(r), arg_address(r)};
    uint32_t n = chance(r, 2) ? 0 : 1 + pick(r, 2), type = 0x10, got = 77;
    uint32_t reserve = chance(r, 2), wrong = chance(r, 2);
    bool is_all = model_find_range(&r->m, addr[0]) != NULL &&
                  (n < 2 || model_find_range(&r->m, addr[1]) != NULL);
    struct verdict v = {0};

    deny(&v, n == 0 || reserve != 0 || wrong, ACL_ERROR_INVALID_PARAM);
    doubt(&v, addr[0] == 0 || (n == 2 && addr[1] == 0), ACL_ERROR_INVALID_PARAM);
    type = wrong ? 0x21 : type;
    run_log(r, "aclrtCheckMemType({%#zx, %#zx}, %u, %#x, &result, %u)", addr[0], addr[1],
            n, type, reserve);
    if (settle(r, aclrtCheckMemType((void **)addr, n, type, &got, reserve), &v))
        expect(r, got == is_all, "result %u", got);
    else
        expect(r, got == 77, "the output was written: %u", got);
}
