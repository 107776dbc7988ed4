/*
 * The model's tables: address ranges, physical memory, mappings, access rights.
 *
 * Invariants, which model.h's callers may rely on:
 *     phys.is_used          <=>  phys.refs + phys.n_maps + phys.n_views > 0
 *     sum of phys.n_maps     =   number of used maps
 *     device.used            =   sum of phys.size of used DEVICE memory of that device
 *     every map lies in one range, and no two maps touch the same byte
 */
#include "model.h"

#include <stdlib.h>
#include <string.h>

/* A set: there are fewer codes than room. */
static void add_code(aclError *codes, unsigned *n_codes, aclError code)
{
    for (unsigned i = 0; i < *n_codes; i++)
        if (codes[i] == code)
            return;
    codes[(*n_codes)++] = code;
}

void deny(struct verdict *v, bool is_broken, aclError code)
{
    if (!is_broken)
        return;
    v->is_common = true;
    add_code(v->hard, &v->n_hard, code);
}

/* A rule that only the strict rule set has. */
void deny_strict(const struct model *m, struct verdict *v, bool is_broken, aclError code)
{
    if (m->is_strict && is_broken)
        add_code(v->hard, &v->n_hard, code);
}

void doubt(struct verdict *v, bool is_open, aclError code)
{
    if (is_open)
        add_code(v->soft, &v->n_soft, code);
}

bool verdict_is_refusal(const struct verdict *v)
{
    return v->n_hard > 0;
}

bool verdict_allows(const struct verdict *v, aclError rc)
{
    if (rc == ACL_SUCCESS)
        return v->n_hard == 0;
    for (unsigned i = 0; i < v->n_hard; i++)
        if (v->hard[i] == rc)
            return true;
    for (unsigned i = 0; i < v->n_soft; i++)
        if (v->soft[i] == rc)
            return true;
    return false;
}

void model_init(struct model *m, int n_devices, bool is_strict)
{
    memset(m, 0, sizeof(*m));
    m->n_devices = n_devices;
    m->is_strict = is_strict;
}

void model_clear(struct model *m)
{
    for (int i = 0; i < MODEL_PHYS; i++)
        free(m->phys[i].bytes);
    model_init(m, m->n_devices, m->is_strict);
}

size_t model_round_up(size_t size, size_t granule)
{
    return (size + granule - 1) / granule * granule;
}

bool model_is_device_id(const struct model *m, int64_t id)
{
    return id >= 0 && id < m->n_devices;
}

bool model_is_on_host(const struct model_phys *phys)
{
    return phys->prop.location.type != ACL_MEM_LOCATION_TYPE_DEVICE;
}

struct model_phys *model_find_phys(struct model *m, const void *handle)
{
    for (int i = 0; i < MODEL_PHYS; i++)
        if (m->phys[i].is_used && m->phys[i].refs > 0 && m->phys[i].handle == handle)
            return &m->phys[i];
    return NULL;
}

struct model_range *model_find_range(struct model *m, uintptr_t addr)
{
    for (int i = 0; i < MODEL_RANGES; i++)
        if (m->range[i].is_used && addr >= m->range[i].start &&
            addr - m->range[i].start < m->range[i].size)
            return &m->range[i];
    return NULL;
}

struct model_map *model_find_map(struct model *m, uintptr_t addr)
{
    for (int i = 0; i < MODEL_MAPS; i++)
        if (m->map[i].is_used && addr >= m->map[i].start &&
            addr - m->map[i].start < m->map[i].size)
            return &m->map[i];
    return NULL;
}

struct model_map *model_find_map_at(struct model *m, uintptr_t addr)
{
    struct model_map *map = model_find_map(m, addr);

    return map != NULL && map->start == addr ? map : NULL;
}

static bool is_apart(uintptr_t a, size_t a_size, uintptr_t b, size_t b_size)
{
    return a < b ? b - a >= a_size : a - b >= b_size;
}

bool model_is_range_free(const struct model *m, uintptr_t start, size_t size)
{
    for (int i = 0; i < MODEL_RANGES; i++)
        if (m->range[i].is_used &&
            !is_apart(start, size, m->range[i].start, m->range[i].size))
            return false;
    return true;
}

bool model_is_unmapped(const struct model *m, uintptr_t start, size_t size)
{
    for (int i = 0; i < MODEL_MAPS; i++)
        if (m->map[i].is_used && !is_apart(start, size, m->map[i].start, m->map[i].size))
            return false;
    return true;
}

#define COUNT_USED(table_, n_) \
    unsigned count = 0; \
    for (int i = 0; i < (n_); i++) \
        count += m->table_[i].is_used; \
    return count

unsigned model_count_ranges(const struct model *m)
{
    COUNT_USED(range, MODEL_RANGES);
}

unsigned model_count_phys(const struct model *m)
{
    COUNT_USED(phys, MODEL_PHYS);
}

unsigned model_count_maps(const struct model *m)
{
    COUNT_USED(map, MODEL_MAPS);
}

unsigned model_count_contexts(const struct model *m)
{
    COUNT_USED(ctx, MODEL_CONTEXTS);
}

struct verdict model_may_reserve(const struct model *m, const void *out, size_t size,
                                 size_t alignment, uintptr_t expect, uint64_t flags)
{
    struct verdict v = {0};
    bool is_endless = size > MODEL_ENDLESS;
    size_t rounded = is_endless ? size : model_round_up(size, MODEL_CHUNK);

    deny(&v, out == NULL, ACL_ERROR_INVALID_PARAM);
    deny(&v, size == 0, ACL_ERROR_INVALID_PARAM);
    deny(&v, alignment != 0, ACL_ERROR_INVALID_PARAM);
    deny(&v, flags > 1, ACL_ERROR_INVALID_PARAM);
    deny(&v, is_endless, ACL_ERROR_RT_MEMORY_ALLOCATION);
    if (expect == 0)
        return v;
    deny_strict(m, &v, true, ACL_ERROR_INVALID_PARAM);
    deny(&v, expect % (rounded >= MODEL_GIB ? MODEL_GIB : MODEL_CHUNK) != 0,
         ACL_ERROR_RT_ADDR_UNALIGNED);
    deny(&v, !is_endless && !model_is_range_free(m, expect, rounded),
         ACL_ERROR_RT_PARAM_INVALID);
    return v;
}

struct model_range *model_reserve(struct model *m, uintptr_t start, size_t size,
                                  uint64_t flags)
{
    struct model_range *range = m->range;

    while (range->is_used)
        range++;
    *range = (struct model_range){true, start, model_round_up(size, MODEL_CHUNK), flags};
    return range;
}

struct verdict model_may_release(struct model *m, uintptr_t start)
{
    struct verdict v = {0};
    struct model_range *range = model_find_range(m, start);

    deny(&v, start == 0, ACL_ERROR_INVALID_PARAM);
    deny(&v, start % MODEL_CHUNK != 0, ACL_ERROR_RT_ADDR_UNALIGNED);
    deny(&v, range == NULL || range->start != start, ACL_ERROR_RT_PARAM_INVALID);
    deny(&v, range != NULL && !model_is_unmapped(m, range->start, range->size),
         ACL_ERROR_RT_PARAM_INVALID);
    return v;
}

void model_release(struct model *m, uintptr_t start)
{
    model_find_range(m, start)->is_used = false;
}

static void check_capacity(const struct model *m, struct verdict *v, size_t rounded,
                           const aclrtMemLocation *location)
{
    size_t least, most;

    if (location->type != ACL_MEM_LOCATION_TYPE_DEVICE) {
        deny(v, rounded > MODEL_ENDLESS, ACL_ERROR_RT_MEMORY_ALLOCATION);
        doubt(v, rounded > 64 * MODEL_MIB, ACL_ERROR_RT_MEMORY_ALLOCATION);
        return;
    }
    model_left(m, (int)location->id, &least, &most);
    deny(v, rounded > most, ACL_ERROR_RT_MEMORY_ALLOCATION);
    doubt(v, rounded > least || m->is_shared, ACL_ERROR_RT_MEMORY_ALLOCATION);
}

struct verdict model_may_malloc(const struct model *m, const void *out, size_t size,
                                const aclrtPhysicalMemProp *prop, uint64_t flags)
{
    struct verdict v = model_may_use_prop(m, prop);
    size_t granule;

    deny(&v, out == NULL, ACL_ERROR_INVALID_PARAM);
    deny(&v, size == 0, ACL_ERROR_INVALID_PARAM);
    deny(&v, flags != 0, ACL_ERROR_INVALID_PARAM);
    if (verdict_is_refusal(&v))
        return v;

    granule = model_granule(prop);
    deny_strict(m, &v, size % granule != 0, ACL_ERROR_INVALID_PARAM);
    if (size > SIZE_MAX - granule)
        deny(&v, true, ACL_ERROR_RT_MEMORY_ALLOCATION);
    else
        check_capacity(m, &v, model_round_up(size, granule), &prop->location);
    return v;
}

struct model_phys *model_malloc(struct model *m, void *handle, size_t size,
                                const aclrtPhysicalMemProp *prop)
{
    struct model_phys *phys = m->phys;
    size_t n_bytes;

    while (phys->is_used)
        phys++;
    *phys = (struct model_phys){.is_used = true,
                                .handle = handle,
                                .asked = size,
                                .size = model_round_up(size, model_granule(prop)),
                                .granule = model_granule(prop),
                                .prop = *prop,
                                .refs = 1};
    n_bytes = phys->size / MODEL_CHUNK * MODEL_CHUNK_BYTES;
    phys->bytes = malloc(n_bytes * sizeof(phys->bytes[0]));
    if (phys->bytes == NULL)
        abort();
    for (size_t i = 0; i < n_bytes; i++)
        phys->bytes[i] = MODEL_UNKNOWN;
    if (!model_is_on_host(phys))
        m->dev[prop->location.id].used += phys->size;
    return phys;
}

/* The memory goes when neither a handle nor a mapping nor a view holds it. */
static void drop_if_unheld(struct model *m, struct model_phys *phys)
{
    if (phys->refs + phys->n_maps + phys->n_views > 0)
        return;
    if (!model_is_on_host(phys))
        m->dev[phys->prop.location.id].used -= phys->size;
    free(phys->bytes);
    phys->bytes = NULL;
    phys->is_used = false;
}

struct verdict model_may_use_handle(struct model *m, const void *handle, const void *out)
{
    struct verdict v = {0};

    deny(&v, out == NULL, ACL_ERROR_INVALID_PARAM);
    deny(&v, handle == NULL, ACL_ERROR_INVALID_PARAM);
    deny(&v, model_find_phys(m, handle) == NULL, ACL_ERROR_RT_INVALID_HANDLE);
    return v;
}

struct verdict model_may_free(struct model *m, const void *handle)
{
    struct verdict v = model_may_use_handle(m, handle, m);
    struct model_phys *phys = model_find_phys(m, handle);
    bool is_mapped = phys != NULL && phys->n_maps > 0;

    deny_strict(m, &v, is_mapped && phys->refs == 1, ACL_ERROR_RT_PARAM_INVALID);
    doubt(&v, m->is_strict && is_mapped, ACL_ERROR_RT_PARAM_INVALID);
    return v;
}

void model_free(struct model *m, const void *handle)
{
    struct model_phys *phys = model_find_phys(m, handle);

    phys->refs--;
    drop_if_unheld(m, phys);
}

/* In strict, one reservation holds memory of one device at a time. */
static bool has_other_device(const struct model *m, const struct model_range *range,
                             const struct model_phys *phys)
{
    for (int i = 0; i < MODEL_MAPS; i++) {
        const struct model_map *map = &m->map[i];

        if (map->is_used && map->start - range->start < range->size &&
            map->phys->prop.location.id != phys->prop.location.id)
            return true;
    }
    return false;
}

static void check_map_range(struct model *m, struct verdict *v, uintptr_t addr,
                            size_t size)
{
    struct model_range *range = model_find_range(m, addr);
    bool is_inside =
        range != NULL && size <= range->size && addr - range->start <= range->size - size;

    deny(v, !is_inside, ACL_ERROR_RT_PARAM_INVALID);
    deny(v, is_inside && !model_is_unmapped(m, addr, size), ACL_ERROR_RT_PARAM_INVALID);
}

static void check_map_handle(struct model *m, struct verdict *v, uintptr_t addr,
                             size_t size, struct model_phys *phys)
{
    struct model_range *range = model_find_range(m, addr);
    bool is_huge = phys->prop.memAttr == ACL_HBM_MEM_HUGE;

    deny(v, size > phys->size, ACL_ERROR_RT_PARAM_INVALID);
    deny(v, size % phys->granule != 0 && size != phys->asked, ACL_ERROR_RT_PARAM_INVALID);
    deny(v, addr % phys->granule != 0, ACL_ERROR_RT_ADDR_UNALIGNED);
    deny_strict(m, v, size != phys->asked, ACL_ERROR_RT_PARAM_INVALID);
    if (range == NULL)
        return;
    deny_strict(m, v, has_other_device(m, range, phys), ACL_ERROR_RT_PARAM_INVALID);
    deny_strict(m, v, range->flags != (is_huge ? 1 : 0), ACL_ERROR_RT_PARAM_INVALID);
}

struct verdict model_may_map(struct model *m, uintptr_t addr, size_t size, size_t offset,
                             const void *handle, uint64_t flags)
{
    struct verdict v = model_may_use_handle(m, handle, m);
    struct model_phys *phys = model_find_phys(m, handle);
    size_t rounded = size;

    deny(&v, addr == 0, ACL_ERROR_INVALID_PARAM);
    deny(&v, size == 0, ACL_ERROR_INVALID_PARAM);
    deny(&v, offset != 0, ACL_ERROR_INVALID_PARAM);
    deny(&v, flags != 0, ACL_ERROR_INVALID_PARAM);
    deny(&v, addr % MODEL_CHUNK != 0, ACL_ERROR_RT_ADDR_UNALIGNED);
    if (phys != NULL && size == phys->asked)
        rounded = phys->size;
    check_map_range(m, &v, addr, rounded);
    if (phys != NULL)
        check_map_handle(m, &v, addr, size, phys);
    return v;
}

struct model_map *model_map(struct model *m, uintptr_t addr, size_t size,
                            const void *handle, bool has_access)
{
    struct model_phys *phys = model_find_phys(m, handle);
    struct model_map *map = m->map;

    while (map->is_used)
        map++;
    *map = (struct model_map){.is_used = true,
                              .start = addr,
                              .asked = size,
                              .size = model_round_up(size, phys->granule),
                              .phys = phys};
    phys->n_maps++;
    if (!has_access)
        return map;
    if (model_is_on_host(phys)) {
        map->host = ACL_RT_MEM_ACCESS_FLAGS_READWRITE;
        for (int i = 0; i < m->n_devices; i++)
            map->dev[i] = MODEL_UNKNOWN;
    } else {
        map->dev[phys->prop.location.id] = ACL_RT_MEM_ACCESS_FLAGS_READWRITE;
    }
    return map;
}

struct verdict model_may_unmap(struct model *m, uintptr_t addr)
{
    struct verdict v = {0};

    deny(&v, addr == 0, ACL_ERROR_INVALID_PARAM);
    deny(&v, addr % MODEL_CHUNK != 0, ACL_ERROR_RT_ADDR_UNALIGNED);
    deny(&v, model_find_map_at(m, addr) == NULL, ACL_ERROR_RT_PARAM_INVALID);
    return v;
}

void model_unmap(struct model *m, uintptr_t addr)
{
    struct model_map *map = model_find_map_at(m, addr);

    map->is_used = false;
    map->phys->n_maps--;
    drop_if_unheld(m, map->phys);
}

void model_open_view(struct model_phys *phys)
{
    phys->n_views++;
}

void model_end_view(struct model *m, struct model_phys *phys)
{
    phys->n_views--;
    drop_if_unheld(m, phys);
}

struct verdict model_may_retain(struct model *m, uintptr_t addr, const void *out)
{
    struct verdict v = {0};
    struct model_map *map = model_find_map(m, addr);

    deny(&v, addr == 0, ACL_ERROR_INVALID_PARAM);
    deny(&v, out == NULL, ACL_ERROR_INVALID_PARAM);
    deny(&v, map == NULL, ACL_ERROR_RT_PARAM_INVALID);
    deny_strict(m, &v, map != NULL && map->start != addr, ACL_ERROR_RT_PARAM_INVALID);
    return v;
}

void model_retain(struct model *m, uintptr_t addr)
{
    model_find_map(m, addr)->phys->refs++;
}

/*
 * Access rights name a device by the driver's id, not by the program's.  One that is out
 * of range gets the code of every such id, or the one that a driver was seen to give for
 * an id it does not know.
 */
static void check_driver_id(const struct model *m, struct verdict *v,
                            const aclrtMemLocation *location)
{
    bool is_wrong = location->type == ACL_MEM_LOCATION_TYPE_DEVICE &&
                    !model_is_device_id(m, location->id);

    deny(v, is_wrong, ACL_ERROR_RT_INVALID_DEVICEID);
    deny(v, is_wrong, ACL_ERROR_RT_DRV_INTERNAL_ERROR);
}

static void check_access_desc(const struct model *m, struct verdict *v,
                              const aclrtMemAccessDesc *desc)
{
    int flags = (int)desc->flags;
    bool is_device = desc->location.type == ACL_MEM_LOCATION_TYPE_DEVICE;
    bool is_known = flags == ACL_RT_MEM_ACCESS_FLAGS_NONE ||
                    flags == ACL_RT_MEM_ACCESS_FLAGS_READ ||
                    flags == ACL_RT_MEM_ACCESS_FLAGS_READWRITE;
    static const uint8_t zeros[sizeof(desc->rsv)];

    deny(v, !is_known, ACL_ERROR_INVALID_PARAM);
    deny_strict(m, v, is_known && flags != ACL_RT_MEM_ACCESS_FLAGS_READWRITE,
                ACL_ERROR_INVALID_PARAM);
    deny(v, !is_device && desc->location.type != ACL_MEM_LOCATION_TYPE_HOST,
         ACL_ERROR_INVALID_PARAM);
    check_driver_id(m, v, &desc->location);
    deny(v, memcmp(desc->rsv, zeros, sizeof(zeros)) != 0, ACL_ERROR_INVALID_PARAM);
}

struct verdict model_may_set_access(struct model *m, uintptr_t addr, size_t size,
                                    const aclrtMemAccessDesc *desc, size_t count)
{
    struct verdict v = {0};
    struct model_map *map = model_find_map_at(m, addr);
    bool is_size = map != NULL && (size == map->asked || size == map->size);

    deny(&v, addr == 0, ACL_ERROR_INVALID_PARAM);
    deny(&v, size == 0, ACL_ERROR_INVALID_PARAM);
    deny(&v, desc == NULL || count == 0, ACL_ERROR_INVALID_PARAM);
    deny(&v, addr % MODEL_CHUNK != 0, ACL_ERROR_RT_ADDR_UNALIGNED);
    deny(&v, !is_size, ACL_ERROR_RT_PARAM_INVALID);
    doubt(&v, is_size && size != map->asked, ACL_ERROR_RT_PARAM_INVALID);
    for (size_t i = 0; desc != NULL && i < count && i < 2; i++)
        check_access_desc(m, &v, &desc[i]);
    return v;
}

void model_set_access(struct model *m, uintptr_t addr, const aclrtMemAccessDesc *desc,
                      size_t count)
{
    struct model_map *map = model_find_map_at(m, addr);

    for (size_t i = 0; i < count; i++)
        *model_access(map, &desc[i].location) = (int)desc[i].flags;
}

struct verdict model_may_get_access(struct model *m, uintptr_t addr,
                                    const aclrtMemLocation *location, const void *out)
{
    struct verdict v = {0};

    deny(&v, addr == 0 || out == NULL || location == NULL, ACL_ERROR_INVALID_PARAM);
    deny(&v, addr % MODEL_CHUNK != 0, ACL_ERROR_RT_ADDR_UNALIGNED);
    deny(&v, model_find_map_at(m, addr) == NULL, ACL_ERROR_RT_PARAM_INVALID);
    if (location == NULL)
        return v;
    deny(&v,
         location->type != ACL_MEM_LOCATION_TYPE_DEVICE &&
             location->type != ACL_MEM_LOCATION_TYPE_HOST,
         ACL_ERROR_INVALID_PARAM);
    check_driver_id(m, &v, location);
    return v;
}

int *model_access(struct model_map *map, const aclrtMemLocation *location)
{
    return location->type == ACL_MEM_LOCATION_TYPE_HOST ? &map->host
                                                        : &map->dev[location->id];
}
