/* The model's registered host memory and managed memory. */
#include "model.h"

struct model_registered *model_find_registered(struct model *m, uintptr_t addr,
                                               size_t size)
{
    for (int i = 0; i < MODEL_REGISTERED; i++) {
        struct model_registered *reg = &m->registered[i];

        if (reg->is_used && addr < reg->start + reg->size && reg->start < addr + size)
            return reg;
    }
    return NULL;
}

struct verdict model_may_register(struct model *m, uintptr_t addr, size_t size,
                                  bool is_program, bool is_pinning)
{
    struct verdict v = {0};
    struct model_block *block = model_find_block(m, addr);
    bool is_pinned = block != NULL && (block->kind & (MODEL_PINNED | MODEL_MANAGED)) &&
                     size <= block->size - (addr - block->start);
    bool is_start = block != NULL && block->kind == MODEL_PINNED && block->start == addr;

    deny(&v, addr == 0 || size == 0, ACL_ERROR_INVALID_PARAM);
    deny(&v, !m->has_current, ACL_ERROR_RT_CONTEXT_NULL);
    deny(&v, addr % 4096 != 0 && !is_start, ACL_ERROR_RT_ADDR_UNALIGNED);
    deny(&v, !is_program && !is_pinned, ACL_ERROR_RT_PARAM_INVALID);
    deny(&v, is_pinned && is_pinning && block->kind == MODEL_PINNED,
         ACL_ERROR_RT_PARAM_INVALID);
    doubt(&v, block != NULL && block->kind == MODEL_MANAGED, ACL_ERROR_RT_PARAM_INVALID);
    doubt(&v,
          is_pinned && size > block->asked - (addr - block->start) &&
              addr - block->start <= block->asked,
          ACL_ERROR_RT_PARAM_INVALID);
    deny(&v, model_find_registered(m, addr, size) != NULL,
         ACL_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
    doubt(&v, m->is_strict && is_pinning, ACL_ERROR_RT_RESOURCE_ALLOC_FAIL);
    return v;
}

void model_register(struct model *m, uintptr_t addr, size_t size, bool is_mapped)
{
    struct model_registered *reg = m->registered;

    while (reg->is_used)
        reg++;
    *reg = (struct model_registered){true, addr, size, is_mapped};
}

struct verdict model_may_unregister(struct model *m, uintptr_t addr)
{
    struct verdict v = {0};
    struct model_registered *reg = model_find_registered(m, addr, 1);

    deny(&v, addr == 0, ACL_ERROR_INVALID_PARAM);
    deny(&v, reg == NULL, ACL_ERROR_HOST_MEMORY_NOT_REGISTERED);
    deny(&v, reg != NULL && reg->start != addr, ACL_ERROR_RT_PARAM_INVALID);
    return v;
}

struct verdict model_may_advise(struct model *m, uintptr_t addr, size_t size)
{
    struct verdict v = {0};
    struct model_block *block = model_find_block(m, addr);
    bool is_inside = block != NULL && block->kind == MODEL_MANAGED &&
                     size <= block->size - (addr - block->start);

    deny(&v, addr == 0, ACL_ERROR_INVALID_PARAM);
    deny(&v, size == 0 || size % MODEL_CHUNK != 0, ACL_ERROR_INVALID_PARAM);
    deny(&v, addr % MODEL_CHUNK != 0, ACL_ERROR_RT_ADDR_UNALIGNED);
    deny(&v, !is_inside, ACL_ERROR_RT_PARAM_INVALID);
    return v;
}

void model_check_place(const struct model *m, struct verdict *v,
                       const aclrtMemManagedLocation *location)
{
    bool is_device = location->type == ACL_MEM_LOCATIONTYPE_DEVICE;

    deny(v, !is_device && location->type != ACL_MEM_LOCATIONTYPE_HOST,
         ACL_ERROR_INVALID_PARAM);
    deny(v, is_device && !model_is_device_id(m, location->id),
         ACL_ERROR_RT_INVALID_DEVICEID);
}

static void advise_page(struct model_page *page, int advice,
                        const aclrtMemManagedLocation *location)
{
    bool is_set = advice % 2 == 0;

    switch (advice) {
    case ACL_MEM_ADVISE_SET_READ_MOSTLY:
    case ACL_MEM_ADVISE_UNSET_READ_MOSTLY:
        page->is_read_mostly = is_set;
        break;
    case ACL_MEM_ADVISE_SET_PREFERRED_LOCATION:
        page->preferred = (struct model_place){(int)location->type, location->id};
        break;
    case ACL_MEM_ADVISE_UNSET_PREFERRED_LOCATION:
        page->preferred = (struct model_place){0, 0};
        break;
    default: /* who accesses it: a list, which is not asked for here */
        break;
    }
}

void model_advise(struct model *m, uintptr_t addr, size_t size, int advice,
                  const aclrtMemManagedLocation *location)
{
    struct model_block *block = model_find_block(m, addr);

    for (size_t at = addr - block->start; size > 0; size -= MODEL_CHUNK) {
        advise_page(&block->pages[at / MODEL_CHUNK], advice, location);
        at += MODEL_CHUNK;
    }
}

void model_prefetch(struct model *m, uintptr_t addr, size_t size,
                    const aclrtMemManagedLocation *location)
{
    struct model_block *block = model_find_block(m, addr);

    for (size_t at = addr - block->start; size > 0; size -= MODEL_CHUNK) {
        block->pages[at / MODEL_CHUNK].prefetched =
            (struct model_place){(int)location->type, location->id};
        at += MODEL_CHUNK;
    }
}

static int page_attr(const struct model_page *page, int attr)
{
    struct model_place place = attr == ACL_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION
                                   ? page->prefetched
                                   : page->preferred;

    if (attr == ACL_MEM_RANGE_ATTRIBUTE_READ_MOSTLY)
        return page->is_read_mostly;
    if (place.type == 0)
        return -2;
    return place.type == ACL_MEM_LOCATIONTYPE_DEVICE ? place.id : -1;
}

int model_managed_attr(struct model *m, uintptr_t addr, size_t size, int attr)
{
    struct model_block *block = model_find_block(m, addr);
    size_t first = (addr - block->start) / MODEL_CHUNK;
    size_t last = (addr - block->start + size - 1) / MODEL_CHUNK;
    int value = page_attr(&block->pages[first], attr);
    int none = attr == ACL_MEM_RANGE_ATTRIBUTE_READ_MOSTLY ? 0 : -2;

    for (size_t i = first + 1; i <= last; i++)
        if (page_attr(&block->pages[i], attr) != value)
            return none;
    return value;
}
