/*
 * The comparison of everything, and the end of a run.
 *
 * After each step a few figures are compared (check_figures); they notice that something
 * was created or lost.  Here every object is asked for everything, which notices that
 * something was changed: a range that belongs to another mapping now, a right that was
 * not taken back, bytes that moved.
 */
#include "run.h"

/*
 * Ordinary pages may be called by the size of their granule or by that of the system's
 * pages.
 */
static void check_page_size(struct run *r, const struct model_phys *phys, uint32_t got)
{
    bool is_ordinary =
        phys->prop.memAttr == ACL_MEM_NORMAL || phys->prop.memAttr == ACL_MEM_P2P_NORMAL;

    expect(r, got == phys->granule || (is_ordinary && got == 4096),
           "page size %u, not %zu", got, phys->granule);
}

void check_attributes(struct run *r, uintptr_t addr)
{
    struct model_map *map = model_find_map(&r->m, addr);
    aclrtPtrAttributes got = {.location = {77, (aclrtMemLocationType)77}, .pageSize = 77};
    int type = ACL_MEM_LOCATION_TYPE_UNREGISTERED;
    struct verdict v = {0};

    doubt(&v, addr == 0, ACL_ERROR_INVALID_PARAM);
    run_log(r, "aclrtPointerGetAttributes(%#zx, &attr)", addr);
    if (!settle(r, aclrtPointerGetAttributes((void *)addr, &got), &v))
        return;
    if (map != NULL)
        type = (int)map->phys->prop.location.type;
    if (type == ACL_MEM_LOCATION_TYPE_HOST_NUMA)
        type = ACL_MEM_LOCATION_TYPE_HOST;
    expect(r, (int)got.location.type == type, "location type %d, not %d",
           (int)got.location.type, type);
    if (map == NULL)
        expect(r, got.pageSize == 0, "page size %u of unknown memory", got.pageSize);
    if (type != ACL_MEM_LOCATION_TYPE_DEVICE)
        return;
    expect(r, got.location.id == map->phys->prop.location.id, "device %u, not %u",
           got.location.id, map->phys->prop.location.id);
    check_page_size(r, map->phys, got.pageSize);
}

void check_address_range(struct run *r, uintptr_t addr)
{
    struct model_map *map = model_find_map(&r->m, addr);
    void *base = NULL;
    size_t size = 0;
    bool has_base = chance(r, 95), has_size = chance(r, 95);
    struct verdict v = {0};

    deny(&v, addr == 0 || (!has_base && !has_size), ACL_ERROR_INVALID_PARAM);
    deny(&v, map == NULL, ACL_ERROR_RT_PARAM_INVALID);
    run_log(r, "aclrtMemGetAddressRange(%#zx, %s, %s)", addr, has_base ? "&base" : "NULL",
            has_size ? "&size" : "NULL");
    if (!settle(r,
                aclrtMemGetAddressRange((void *)addr, has_base ? &base : NULL,
                                        has_size ? &size : NULL),
                &v)) {
        expect(r, base == NULL && size == 0, "the output was written");
        return;
    }
    expect(r, !has_base || (uintptr_t)base == map->start, "base %p, not %#zx", base,
           map->start);
    expect(r, !has_size || size == map->size || size == map->asked, "size %zu, not %zu",
           size, map->size);
}

void check_access(struct run *r, struct model_map *map, const aclrtMemLocation *location)
{
    int *want = model_access(map, location);
    aclrtMemLocation in = *location;
    uint64_t got = 77;

    run_log(r, "aclrtMemGetAccess(%#zx, {%d, %d}, &flag)", map->start, (int)in.id,
            (int)in.type);
    settle_ok(r, aclrtMemGetAccess((void *)map->start, &in, &got));
    expect(r, got == 0 || got == 1 || got == 3, "access %d", (int)got);
    if (*want == MODEL_UNKNOWN)
        *want = (int)got;
    expect(r, (int)got == *want, "access %d, not %d", (int)got, *want);
}

void check_site(struct run *r, uintptr_t addr)
{
    uint8_t bytes[MODEL_SITE_SIZE] = {0};
    struct model_side dst = {(uintptr_t)bytes, bytes}, src = {addr, NULL};
    struct verdict v = model_may_copy(&r->m, &dst, sizeof(bytes), &src, sizeof(bytes),
                                      ACL_MEMCPY_DEVICE_TO_HOST);
    uintptr_t wrong;

    if (verdict_is_refusal(&v))
        return;
    run_log(r, "aclrtMemcpy(host, %zu, %#zx, %zu, 2)", sizeof(bytes), addr,
            sizeof(bytes));
    if (!settle(r,
                aclrtMemcpy(bytes, sizeof(bytes), (void *)addr, sizeof(bytes),
                            ACL_MEMCPY_DEVICE_TO_HOST),
                &v))
        return;
    wrong = model_copy(&r->m, &dst, &src, sizeof(bytes));
    expect(r, wrong == 0, "the byte at %#zx is 0x%02x, not 0x%02x", wrong,
           (unsigned)bytes[wrong - addr], (unsigned)model_peek(&r->m, wrong));
}

static void check_map(struct run *r, struct model_map *map)
{
    aclrtMemLocation location = {0, ACL_MEM_LOCATION_TYPE_HOST};
    size_t stride = map->size > 64 * MODEL_CHUNK ? 37 * MODEL_CHUNK : MODEL_CHUNK;

    check_attributes(r, map->start);
    check_attributes(r, map->start + map->size - 1);
    check_address_range(r, map->start + map->size - 1);
    check_access(r, map, &location);
    location.type = ACL_MEM_LOCATION_TYPE_DEVICE;
    for (int i = 0; i < r->m.n_devices; i++) {
        location.id = (uint32_t)i;
        check_access(r, map, &location);
    }
    for (size_t at = 0; at < map->size; at += stride)
        for (unsigned i = 0; i < MODEL_SITES; i++)
            check_site(r, map->start + at + model_site_offset(i));
}

static void check_range(struct run *r, const struct model_range *range)
{
    uintptr_t ends[] = {range->start, range->start + range->size - 1};

    for (int i = 0; i < 2; i++) {
        check_attributes(r, ends[i]);
        check_address_range(r, ends[i]);
    }
}

void run_check_all(struct run *r)
{
    for (int i = 0; i < MODEL_RANGES; i++)
        if (r->m.range[i].is_used)
            check_range(r, &r->m.range[i]);
    for (int i = 0; i < MODEL_MAPS; i++)
        if (r->m.map[i].is_used)
            check_map(r, &r->m.map[i]);
    check_figures(r);
}

static void unmap_all(struct run *r)
{
    for (int i = 0; i < MODEL_MAPS; i++) {
        if (!r->m.map[i].is_used)
            continue;
        run_log(r, "aclrtUnmapMem(%#zx)", r->m.map[i].start);
        settle_ok(r, aclrtUnmapMem((void *)r->m.map[i].start));
        model_unmap(&r->m, r->m.map[i].start);
    }
}

static void free_all(struct run *r)
{
    for (int i = 0; i < MODEL_PHYS; i++) {
        struct model_phys *phys = &r->m.phys[i];

        while (phys->is_used && phys->refs > 0) {
            run_log(r, "aclrtFreePhysical(%p)", phys->handle);
            settle_ok(r, aclrtFreePhysical(phys->handle));
            if (phys->refs == 1)
                remember_stale(r, phys->handle);
            model_free(&r->m, phys->handle);
        }
    }
}

static void release_all(struct run *r)
{
    for (int i = 0; i < MODEL_RANGES; i++) {
        if (!r->m.range[i].is_used)
            continue;
        run_log(r, "aclrtReleaseMemAddress(%#zx)", r->m.range[i].start);
        settle_ok(r, aclrtReleaseMemAddress((void *)r->m.range[i].start));
        remember_gone(r, r->m.range[i].start);
        model_release(&r->m, r->m.range[i].start);
    }
}

/* Device memory goes with its device, whatever holds it. */
static void reset_all(struct run *r)
{
    for (int i = 0; i < r->m.n_devices; i++) {
        if (r->m.dev[i].n_sets == 0) {
            run_log(r, "aclrtSetDevice(%d)", i);
            settle_ok(r, aclrtSetDevice(i));
            model_set_device(&r->m, i);
        }
        run_log(r, "aclrtResetDeviceForce(%d)", i);
        settle_ok(r, aclrtResetDeviceForce(i));
        model_reset_device(&r->m, i, true);
        check_figures(r);
    }
}

static void destroy_contexts(struct run *r)
{
    for (int i = 0; i < MODEL_CONTEXTS; i++) {
        void *value = r->m.ctx[i].value;

        if (!r->m.ctx[i].is_used)
            continue;
        run_log(r, "aclrtDestroyContext(%p)", value);
        settle_ok(r, aclrtDestroyContext(value));
        remember_stale(r, value);
        model_destroy_context(&r->m, value);
    }
}

/* The references this run took on devices; with company one of each is not this run's. */
static void put_devices(struct run *r)
{
    unsigned n_kept = r->opt.is_alone ? 0 : 1;

    for (int i = 0; i < r->m.n_devices; i++)
        while (r->m.dev[i].n_sets > n_kept) {
            run_log(r, "aclrtResetDevice(%d)", i);
            settle_ok(r, aclrtResetDevice(i));
            model_reset_device(&r->m, i, false);
        }
}

static void put_inits(struct run *r)
{
    for (; r->n_inits > 1; r->n_inits--) {
        run_log(r, "aclFinalizeReference(NULL)");
        settle_ok(r, aclFinalizeReference(NULL));
    }
}

/* All memory is free again, seen from each device. */
static void check_empty(struct run *r)
{
    for (int i = 0; i < r->m.n_devices; i++) {
        run_log(r, "aclrtSetDevice(%d)", i);
        settle_ok(r, aclrtSetDevice(i));
        model_set_device(&r->m, i);
        check_figures(r);
    }
}

/* Views, if they were opened, are the last to hold their memory. */
static void end_views(struct run *r)
{
    for (int i = 0; i < RUN_VIEWS; i++)
        if (r->view[i].phys != NULL)
            close_view(r, &r->view[i]);
}

void run_tear_down(struct run *r)
{
    uint32_t order = r->opt.is_alone ? pick(r, 3) : 0;

    if (order == 1 && !r->opt.is_strict)
        free_all(r);
    if (order == 2) {
        end_views(r);
        reset_all(r);
    }
    unmap_all(r);
    free_all(r);
    release_all(r);
    check_figures(r);
    end_views(r);
    destroy_contexts(r);
    check_empty(r);
    put_devices(r);
    put_inits(r);
    check_figures(r);
}
