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

static void check_block_attributes(struct run *r, const struct model_block *block,
                                   const aclrtPtrAttributes *got)
{
    int type = block->kind == MODEL_MANAGED ? ACL_MEM_LOCATION_TYPE_MANAGED
               : block->device < 0          ? ACL_MEM_LOCATION_TYPE_HOST
                                            : ACL_MEM_LOCATION_TYPE_DEVICE;

    expect(r, (int)got->location.type == type, "location type %d, not %d",
           (int)got->location.type, type);
    expect(r, block->device < 0 || (int)got->location.id == block->device,
           "device %u, not %d", got->location.id, block->device);
    expect(r, block->page == 0 ? got->pageSize >= 4096 : got->pageSize == block->page,
           "page size %u, not %u", got->pageSize, block->page);
}

static void check_map_attributes(struct run *r, const struct model_map *map,
                                 const aclrtPtrAttributes *got)
{
    int type = (int)map->phys->prop.location.type;

    if (type == ACL_MEM_LOCATION_TYPE_HOST_NUMA)
        type = ACL_MEM_LOCATION_TYPE_HOST;
    expect(r, (int)got->location.type == type, "location type %d, not %d",
           (int)got->location.type, type);
    if (type != ACL_MEM_LOCATION_TYPE_DEVICE)
        return;
    expect(r, got->location.id == map->phys->prop.location.id, "device %u, not %u",
           got->location.id, map->phys->prop.location.id);
    check_page_size(r, map->phys, got->pageSize);
}

void check_attributes(struct run *r, uintptr_t addr)
{
    struct model_map *map = model_find_map(&r->m, addr);
    struct model_block *block = model_find_block(&r->m, addr);
    bool is_registered = model_find_registered(&r->m, addr, 1) != NULL;
    aclrtPtrAttributes got = {.location = {77, (aclrtMemLocationType)77}, .pageSize = 77};
    int type =
        is_registered ? ACL_MEM_LOCATION_TYPE_HOST : ACL_MEM_LOCATION_TYPE_UNREGISTERED;
    struct verdict v = {0};

    doubt(&v, addr == 0, ACL_ERROR_INVALID_PARAM);
    run_log(r, "aclrtPointerGetAttributes(%#zx, &attr)", addr);
    if (!settle(r, aclrtPointerGetAttributes((void *)addr, &got), &v))
        return;
    if (block != NULL && addr - block->start < block->asked) {
        check_block_attributes(r, block, &got);
    } else if (map != NULL) {
        check_map_attributes(r, map, &got);
    } else if (block == NULL) {
        expect(r, (int)got.location.type == type, "location type %d, not %d",
               (int)got.location.type, type);
        expect(r, is_registered || got.pageSize == 0, "page size %u of unknown memory",
               got.pageSize);
    }
}

static void check_block_range(struct run *r, uintptr_t addr)
{
    struct model_block *block = model_find_block(&r->m, addr);
    void *base = NULL;
    size_t size = 0;
    struct verdict v = {0};

    deny_strict(&r->m, &v, addr - block->start >= block->asked,
                ACL_ERROR_RT_PARAM_INVALID);
    doubt(&v, addr - block->start >= block->asked, ACL_ERROR_RT_PARAM_INVALID);
    run_log(r, "aclrtMemGetAddressRange(%#zx, &base, &size)", addr);
    if (!settle(r, aclrtMemGetAddressRange((void *)addr, &base, &size), &v))
        return;
    expect(r, (uintptr_t)base == block->start, "base %p, not %#zx", base, block->start);
    expect(r,
           size >= block->asked && size <= (r->m.is_strict ? block->asked : block->size),
           "size %zu, not %zu to %zu", size, block->asked, block->size);
}

void check_address_range(struct run *r, uintptr_t addr)
{
    struct model_map *map = model_find_map(&r->m, addr);
    void *base = NULL;
    size_t size = 0;
    bool has_base = chance(r, 95), has_size = chance(r, 95);
    struct verdict v = {0};

    if (model_find_block(&r->m, addr) != NULL) {
        check_block_range(r, addr);
        return;
    }
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

static void check_block(struct run *r, const struct model_block *block)
{
    uintptr_t last = block->start + block->asked - 1;

    check_attributes(r, block->start);
    check_attributes(r, last);
    check_address_range(r, last);
    for (size_t at = 0; at < MODEL_EDGE && at + MODEL_SITE_SIZE <= block->asked;
         at += MODEL_SITE_SIZE) {
        check_site(r, block->start + at);
        check_site(r, last + 1 - at - MODEL_SITE_SIZE);
    }
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
    for (int i = 0; i < MODEL_BLOCKS; i++)
        if (r->m.block[i].is_used)
            check_block(r, &r->m.block[i]);
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

static void unregister_all(struct run *r)
{
    for (int i = 0; i < MODEL_REGISTERED; i++) {
        struct model_registered *reg = &r->m.registered[i];

        if (!reg->is_used)
            continue;
        run_log(r, "aclrtHostUnregister(%#zx)", reg->start);
        settle_ok(r, aclrtHostUnregister((void *)reg->start));
        reg->is_used = false;
    }
}

static aclError free_any(const struct model_block *block)
{
    void *start = (void *)block->start;

    return block->kind == MODEL_PINNED ? aclrtFreeHost(start) : aclrtFree(start);
}

/* Pools need a stream to free on; their device's default one will do. */
static void free_pooled(struct run *r, struct model_block *block)
{
    int device = block->device;

    run_log(r, "aclrtSetDevice(%d)", device);
    settle_ok(r, aclrtSetDevice(device));
    model_set_device(&r->m, device);
    run_log(r, "aclrtMemPoolFreeAsync(%#zx, NULL)", block->start);
    settle_ok(r, aclrtMemPoolFreeAsync((void *)block->start, NULL));
    model_free_async(&r->m, block->start, NULL);
}

static void free_blocks(struct run *r)
{
    for (int i = 0; i < MODEL_BLOCKS; i++) {
        struct model_block *block = &r->m.block[i];

        if (!block->is_used)
            continue;
        if (block->kind == MODEL_POOLED) {
            free_pooled(r, block);
            continue;
        }
        run_log(r, "free %#zx", block->start);
        settle_ok(r, free_any(block));
        model_free_block(&r->m, block->start);
    }
}

static void destroy_pools(struct run *r)
{
    for (int i = 0; i < MODEL_POOLS; i++) {
        struct model_pool *pool = &r->m.pool[i];

        if (!pool->is_used)
            continue;
        run_log(r, "aclrtMemPoolDestroy(%p)", pool->value);
        settle_ok(r, aclrtMemPoolDestroy(pool->value));
        remember_stale(r, pool->value);
        pool->is_used = false;
    }
}

/* Streams die in the context they were made in. */
static void destroy_streams(struct run *r)
{
    for (int i = 0; i < MODEL_STREAMS; i++) {
        struct model_stream *stream = &r->m.stream[i];

        if (!stream->is_used)
            continue;
        if (stream->ctx != NULL) {
            settle_ok(r, aclrtSetCurrentContext(stream->ctx->value));
            model_set_context(&r->m, stream->ctx->value);
        } else {
            settle_ok(r, aclrtSetDevice(stream->device));
            model_set_device(&r->m, stream->device);
        }
        run_log(r, "aclrtDestroyStream(%p)", stream->value);
        settle_ok(r, aclrtDestroyStream(stream->value));
        remember_stale(r, stream->value);
        stream->is_used = false;
    }
}

static void destroy_events(struct run *r)
{
    for (int i = 0; i < MODEL_EVENTS; i++) {
        if (!r->m.event[i].is_used)
            continue;
        run_log(r, "aclrtDestroyEvent(%p)", r->m.event[i].value);
        settle_ok(r, aclrtDestroyEvent(r->m.event[i].value));
        remember_stale(r, r->m.event[i].value);
        r->m.event[i].is_used = false;
    }
}

/* The switches of a device that others keep alive outlive the run otherwise. */
static void sync_all(struct run *r)
{
    for (int i = 0; i < r->m.n_devices; i++) {
        settle_ok(r, aclrtSetDevice(i));
        model_set_device(&r->m, i);
        run_log(r, "aclrtSynchronizeDevice()");
        settle_ok(r, aclrtSynchronizeDevice());
        model_synced_device(&r->m, i);
        check_figures(r);
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
        sync_all(r);
        reset_all(r);
    }
    unregister_all(r);
    free_blocks(r);
    sync_all(r);
    destroy_pools(r);
    destroy_streams(r);
    destroy_events(r);
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
