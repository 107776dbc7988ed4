/*
 * Arguments.
 *
 * Most must be right, or a run would never get far: nothing alive, nothing to be wrong
 * about.  The wrong ones are wrong by little, since that is where programs and libraries
 * err: one byte, one granule, the end instead of the start, a handle that has just died,
 * a handle of another kind.
 */
#include "run.h"

int32_t arg_device(struct run *r)
{
    static const int32_t wrong[] = {-1, 0, 1, 64, INT32_MAX, INT32_MIN};

    if (chance(r, 96))
        return (int32_t)pick(r, (uint32_t)r->m.n_devices);
    return chance(r, 30) ? r->m.n_devices : pick_of(r, wrong);
}

#define PICK_USED(table_, size_) \
    uint32_t first = pick(r, size_); \
    for (uint32_t i = 0; i < (size_); i++) \
        if (r->m.table_[(first + i) % (size_)].is_used) \
            return &r->m.table_[(first + i) % (size_)]; \
    return NULL

struct model_phys *arg_phys(struct run *r)
{
    PICK_USED(phys, MODEL_PHYS);
}

struct model_range *arg_range(struct run *r)
{
    PICK_USED(range, MODEL_RANGES);
}

struct model_map *arg_map(struct run *r)
{
    PICK_USED(map, MODEL_MAPS);
}

/* Values that other threads might own are tried only when there are none. */
static void *wrong_handle(struct run *r)
{
    struct model_phys *phys = arg_phys(r);
    struct model_range *range = arg_range(r);

    switch (pick(r, r->opt.is_alone ? 8 : 4)) {
    case 0:
    case 1:
        return r->n_stale > 0 ? r->stale[pick(r, RUN_STALE)] : NULL;
    case 2:
        return range != NULL ? (void *)range->start : NULL;
    case 3:
        return r->m.has_current ? model_current_value(&r->m) : NULL;
    case 4:
        return phys != NULL ? (void *)((uintptr_t)phys->handle + 1) : (void *)1;
    case 5:
        return phys != NULL ? (void *)((uintptr_t)phys->handle ^ (1ull << pick(r, 64)))
                            : NULL;
    case 6:
        return r->host;
    default:
        return (void *)UINTPTR_MAX;
    }
}

void *arg_handle(struct run *r)
{
    struct model_phys *phys = arg_phys(r);

    if (phys == NULL || chance(r, 5))
        return wrong_handle(r);
    if (phys->refs == 0 && chance(r, 75))
        phys = arg_phys(r);
    return phys->handle;
}

static uintptr_t range_address(struct run *r)
{
    struct model_range *range = arg_range(r);
    uint32_t n_chunks;

    if (range == NULL)
        return 0;
    n_chunks =
        range->size / MODEL_CHUNK > 64 ? 64 : (uint32_t)(range->size / MODEL_CHUNK);
    switch (pick(r, r->opt.is_alone ? 6 : 4)) {
    case 0:
        return range->start;
    case 1:
        return range->start + 1;
    case 2:
        return range->start + range->size - 1;
    case 3:
        return range->start + pick(r, n_chunks) * MODEL_CHUNK;
    case 4:
        return range->start + range->size;
    default:
        return range->start - MODEL_CHUNK;
    }
}

static uintptr_t map_address(struct run *r)
{
    struct model_map *map = arg_map(r);

    if (map == NULL)
        return range_address(r);
    switch (pick(r, 6)) {
    case 0:
    case 1:
        return map->start;
    case 2:
        return map->start + map->size - 1;
    case 3:
        return map->start + pick(r, (uint32_t)(map->size / MODEL_CHUNK)) * MODEL_CHUNK;
    case 4:
        return map->start + pick(r, 1 << 20);
    default:
        return r->opt.is_alone ? map->start + map->size : map->start + 1;
    }
}

/* Any address at all; never to be read or written, only asked about. */
uintptr_t arg_address(struct run *r)
{
    struct model_block *block = arg_block(r, MODEL_ANY);

    if (block != NULL && chance(r, 25))
        return block->start + (chance(r, 50) ? 0 : pick(r, (uint32_t)block->asked));
    switch (pick(r, r->opt.is_alone ? 12 : 10)) {
    case 0:
        return 0;
    case 1:
        return (uintptr_t)r->host + pick(r, 4096);
    case 2:
    case 3:
    case 4:
        return range_address(r);
    case 10:
        return r->n_gone > 0 ? r->gone[pick(r, RUN_GONE)] : MODEL_CHUNK;
    case 11:
        return chance(r, 50) ? UINTPTR_MAX : (uintptr_t)arg_handle(r);
    default:
        return map_address(r);
    }
}

uintptr_t arg_map_start(struct run *r, uint32_t odds)
{
    struct model_map *map = arg_map(r);

    if (map == NULL || chance(r, odds))
        return arg_address(r);
    return map->start;
}

aclrtMemLocation arg_location(struct run *r)
{
    static const int types[] = {ACL_MEM_LOCATION_TYPE_HOST,
                                ACL_MEM_LOCATION_TYPE_UNREGISTERED,
                                ACL_MEM_LOCATION_TYPE_HOST_NUMA,
                                3,
                                5,
                                -1};
    aclrtMemLocation location = {(uint32_t)arg_device(r), ACL_MEM_LOCATION_TYPE_DEVICE};

    if (chance(r, 10))
        location.type = ACL_MEM_LOCATION_TYPE_HOST;
    else if (chance(r, 4))
        location.type = (aclrtMemLocationType)pick_of(r, types);
    return location;
}

static const aclrtMemAttr host_attrs[] = {
    ACL_HBM_MEM_HUGE,     ACL_HBM_MEM_NORMAL,     ACL_DDR_MEM_HUGE, ACL_DDR_MEM_NORMAL,
    ACL_DDR_MEM_P2P_HUGE, ACL_DDR_MEM_P2P_NORMAL, ACL_MEM_NORMAL,   ACL_MEM_HUGE,
    ACL_MEM_P2P_NORMAL,   ACL_MEM_P2P_HUGE};
static const aclrtMemAttr device_attrs[] = {
    ACL_HBM_MEM_HUGE, ACL_HBM_MEM_HUGE, ACL_HBM_MEM_HUGE,   ACL_HBM_MEM_NORMAL,
    ACL_MEM_NORMAL,   ACL_MEM_HUGE,     ACL_MEM_P2P_NORMAL, ACL_MEM_P2P_HUGE};

static void spoil_prop(struct run *r, aclrtPhysicalMemProp *prop)
{
    switch (pick(r, 6)) {
    case 0:
        prop->handleType = (aclrtMemHandleType)(1 + pick(r, 3));
        break;
    case 1:
        prop->allocationType = (aclrtMemAllocationType)1;
        break;
    case 2:
        prop->reserve = 1;
        break;
    case 3:
        prop->location = arg_location(r);
        break;
    case 4:
        prop->location.id = (uint32_t)arg_device(r) + 1024;
        break;
    default:
        prop->memAttr = (aclrtMemAttr)((int)pick(r, 20) - 1);
        break;
    }
}

/*
 * Under the strict rules most of what is listed above is refused, so it is asked for
 * seldom.
 */
aclrtPhysicalMemProp arg_prop(struct run *r)
{
    aclrtPhysicalMemProp prop = {.handleType = ACL_MEM_HANDLE_TYPE_NONE,
                                 .allocationType = ACL_MEM_ALLOCATION_TYPE_PINNED,
                                 .memAttr = ACL_HBM_MEM_HUGE,
                                 .location = {0, ACL_MEM_LOCATION_TYPE_DEVICE}};
    uint32_t odds = r->opt.is_strict ? 3 : 30;

    prop.location.id = pick(r, (uint32_t)r->m.n_devices);
    if (chance(r, 20))
        prop.memAttr = ACL_HBM_MEM_NORMAL;
    if (chance(r, odds))
        prop.memAttr = pick_of(r, device_attrs);
    if (chance(r, odds / 3)) {
        prop.location.type =
            chance(r, 80) ? ACL_MEM_LOCATION_TYPE_HOST : ACL_MEM_LOCATION_TYPE_HOST_NUMA;
        prop.location.id = 0;
        prop.memAttr = pick_of(r, host_attrs);
    }
    if (chance(r, 2))
        prop.memAttr = chance(r, 50) ? ACL_HBM_MEM_HUGE1G : ACL_MEM_HUGE1G;
    if (chance(r, 3))
        spoil_prop(r, &prop);
    return prop;
}

size_t arg_size(struct run *r, size_t granule)
{
    static const size_t wrong[] = {
        0, 1, 4096, MODEL_MIB, SIZE_MAX, SIZE_MAX - MODEL_CHUNK, (size_t)1 << 62};
    size_t size = (1 + pick(r, granule == MODEL_CHUNK ? 8 : 2)) * granule;

    if (chance(r, 3))
        return pick_of(r, wrong);
    if (chance(r, r->opt.is_strict ? 2 : 8))
        return size - pick(r, (uint32_t)granule);
    if (chance(r, 2))
        return size + 1;
    return size;
}
