/* Operations on registered memory, on managed memory's places, and on peers. */
#include "run.h"

#define CANARY ((void *)0x5aa5c33c)

/* A page of the run's own buffer, or something else that has an address. */
static uintptr_t arg_page(struct run *r)
{
    uintptr_t first = model_round_up((uintptr_t)r->host, 4096);
    struct model_block *block = arg_block(r, MODEL_ANY);

    if (chance(r, 70))
        return first + pick(r, 64) * 4096 + (chance(r, 3) ? 1 + pick(r, 4095) : 0);
    if (block == NULL)
        return 0;
    return chance(r, 70) ? block->start / 4096 * 4096 : block->start;
}

static bool is_program(const struct run *r, uintptr_t addr, size_t size)
{
    uintptr_t host = (uintptr_t)r->host;

    return addr >= host && size <= RUN_HOST_SIZE && addr - host <= RUN_HOST_SIZE - size;
}

/*
 * A page that starts before its block is of memory that the library keeps for itself, and
 * of a size that runs beyond it nobody knows who has it.
 */
static bool is_known(struct run *r, uintptr_t addr, size_t size)
{
    struct model_block *block = model_find_block(&r->m, addr);

    return addr == 0 || is_program(r, addr, size) ||
           (block != NULL && size <= block->asked - (addr - block->start) &&
            addr - block->start < block->asked);
}

static unsigned count_registered(const struct run *r)
{
    unsigned n = 0;

    for (int i = 0; i < MODEL_REGISTERED; i++)
        n += r->m.registered[i].is_used;
    return n;
}

/* The first form, which gives the address back. */
static bool register_old(struct run *r, uintptr_t addr, size_t size)
{
    int type = chance(r, 4) ? (int)pick(r, 16) : ACL_HOST_REGISTER_MAPPED;
    void *got = CANARY, **out = chance(r, 2) ? NULL : &got;
    struct verdict v =
        model_may_register(&r->m, addr, size, is_program(r, addr, size), false);

    deny(&v, out == NULL, ACL_ERROR_INVALID_PARAM);
    deny(&v, type == ACL_HOST_REGISTER_IOMEMORY || type == ACL_HOST_REGISTER_READONLY,
         ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
    deny(&v, type != 0 && type != 4 && type != 8, ACL_ERROR_INVALID_PARAM);
    run_log(r, "aclrtHostRegister(%#zx, %zu, %d, %s)", addr, size, type,
            out ? "&p" : "NULL");
    if (!settle(r,
                aclrtHostRegister((void *)addr, size, (aclrtHostRegisterType)type, out),
                &v)) {
        expect(r, got == CANARY, "the output was written: %p", got);
        return false;
    }
    expect(r, (uintptr_t)got == addr, "%p for %#zx", got, addr);
    model_register(&r->m, addr, size, true);
    return true;
}

void op_register(struct run *r)
{
    uintptr_t addr = arg_page(r);
    size_t size = chance(r, 3) ? 0 : 1 + pick(r, 5) * 4096 + pick(r, 4096);
    uint32_t flag = ACL_HOST_REG_MAPPED | (chance(r, 10) ? ACL_HOST_REG_PINNED : 0);
    const uint32_t known = ACL_HOST_REG_MAPPED | ACL_HOST_REG_PINNED;
    struct verdict v;

    if (count_registered(r) == MODEL_REGISTERED || !is_known(r, addr, size))
        return;
    if (chance(r, 40)) {
        register_old(r, addr, size);
        return;
    }
    if (chance(r, 5))
        flag = pick(r, 16);
    if (chance(r, 20))
        flag = ACL_HOST_REG_PINNED;
    v = model_may_register(&r->m, addr, size, is_program(r, addr, size),
                           (flag & ACL_HOST_REG_PINNED) != 0);
    deny(&v, (flag & 0xc) != 0, ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
    deny(&v, flag == 0 || (flag & ~known & ~0xcu) != 0, ACL_ERROR_INVALID_PARAM);
    run_log(r, "aclrtHostRegisterV2(%#zx, %zu, %#x)", addr, size, flag);
    if (settle(r, aclrtHostRegisterV2((void *)addr, size, flag), &v))
        model_register(&r->m, addr, size, (flag & ACL_HOST_REG_MAPPED) != 0);
}

/* Of a page that starts before its block another thread may have registered the start. */
static uintptr_t arg_registered(struct run *r)
{
    struct model_registered *reg = &r->m.registered[pick(r, MODEL_REGISTERED)];

    if (!reg->is_used) {
        uintptr_t addr = arg_page(r);

        return is_known(r, addr, 1) ? addr : 0;
    }
    return reg->start + (chance(r, 10) ? pick(r, (uint32_t)reg->size) : 0);
}

void op_unregister(struct run *r)
{
    uintptr_t addr = arg_registered(r);
    struct verdict v = model_may_unregister(&r->m, addr);

    run_log(r, "aclrtHostUnregister(%#zx)", addr);
    if (settle(r, aclrtHostUnregister((void *)addr), &v))
        model_find_registered(&r->m, addr, 1)->is_used = false;
}

void op_device_pointer(struct run *r)
{
    uintptr_t addr = arg_registered(r);
    struct model_registered *reg = model_find_registered(&r->m, addr, 1);
    uint32_t flag = chance(r, 3);
    void *got = CANARY, **out = chance(r, 2) ? NULL : &got;
    struct verdict v = {0};

    deny(&v, addr == 0 || out == NULL || flag != 0, ACL_ERROR_INVALID_PARAM);
    deny(&v, !r->m.has_current, ACL_ERROR_RT_CONTEXT_NULL);
    deny(&v, reg == NULL || !reg->is_mapped, ACL_ERROR_HOST_MEMORY_NOT_REGISTERED);
    run_log(r, "aclrtHostGetDevicePointer(%#zx, %s, %u)", addr, out ? "&p" : "NULL",
            flag);
    if (settle(r, aclrtHostGetDevicePointer((void *)addr, out, flag), &v))
        expect(r, (uintptr_t)got == addr, "%p for %#zx", got, addr);
    else
        expect(r, got == CANARY, "the output was written: %p", got);
}

/* Whole pages of managed memory, mostly. */
static uintptr_t arg_pages(struct run *r, size_t *ret_size)
{
    struct model_block *block = arg_block(r, chance(r, 95) ? MODEL_MANAGED : MODEL_ANY);
    size_t n, at;

    *ret_size = MODEL_CHUNK;
    if (block == NULL || chance(r, 2))
        return block == NULL ? 0 : (uintptr_t)r->host;
    n = block->size / MODEL_CHUNK;
    at = n > 0 ? pick(r, (uint32_t)n) : 0;
    *ret_size = n > at ? (1 + pick(r, (uint32_t)(n - at))) * MODEL_CHUNK : MODEL_CHUNK;
    if (chance(r, 3))
        *ret_size += chance(r, 50) ? MODEL_CHUNK * MODEL_PAGES : 4096;
    return block->start + at * MODEL_CHUNK + (chance(r, 3) ? 4096 : 0);
}

static aclrtMemManagedLocation arg_place(struct run *r)
{
    aclrtMemManagedLocation location = {ACL_MEM_LOCATIONTYPE_DEVICE, arg_device(r)};

    if (chance(r, 30))
        location = (aclrtMemManagedLocation){ACL_MEM_LOCATIONTYPE_HOST, 0};
    if (chance(r, 2))
        location.type = (aclrtMemManagedLocationType)(chance(r, 50) ? 0 : 7);
    return location;
}

/* A location counts only where one is set, or where it is who accesses the memory. */
void op_advise(struct run *r)
{
    size_t size;
    uintptr_t addr = arg_pages(r, &size);
    int advice = chance(r, 3) ? 6 + (int)pick(r, 9) : (int)pick(r, 6);
    aclrtMemManagedLocation location = arg_place(r);
    struct verdict v = model_may_advise(&r->m, addr, size), place = {0};
    bool is_used = advice == ACL_MEM_ADVISE_SET_PREFERRED_LOCATION ||
                   advice == ACL_MEM_ADVISE_SET_ACCESSED_BY ||
                   advice == ACL_MEM_ADVISE_UNSET_ACCESSED_BY;

    model_check_place(&r->m, &place, &location);
    for (unsigned i = 0; i < place.n_hard; i++)
        if (is_used)
            deny(&v, true, place.hard[i]);
    deny(&v, advice > 5, ACL_ERROR_INVALID_PARAM);
    run_log(r, "aclrtMemManagedAdvise(%#zx, %zu, %d, {%d, %d})", addr, size, advice,
            (int)location.type, location.id);
    if (settle(r,
               aclrtMemManagedAdvise((void *)addr, size,
                                     (aclrtMemManagedAdviseType)advice, location),
               &v))
        model_advise(&r->m, addr, size, advice, &location);
}

void op_prefetch(struct run *r)
{
    size_t size;
    uintptr_t addr = arg_pages(r, &size);
    aclrtMemManagedLocation location = arg_place(r);
    void *stream = arg_stream(r);
    uint32_t flags = chance(r, 2);
    struct verdict v = model_may_advise(&r->m, addr, size);
    struct verdict use = model_may_use_stream(&r->m, stream);

    for (unsigned i = 0; i < use.n_hard; i++)
        deny(&v, true, use.hard[i]);
    model_check_place(&r->m, &v, &location);
    deny(&v, flags != 0, ACL_ERROR_INVALID_PARAM);
    run_log(r, "aclrtMemManagedPrefetchAsync(%#zx, %zu, {%d, %d}, %u, %p)", addr, size,
            (int)location.type, location.id, flags, stream);
    if (settle(r,
               aclrtMemManagedPrefetchAsync((void *)addr, size, location, flags, stream),
               &v))
        model_prefetch(&r->m, addr, size, &location);
}

void op_managed_attr(struct run *r)
{
    static const int attrs[] = {ACL_MEM_RANGE_ATTRIBUTE_READ_MOSTLY,
                                ACL_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION,
                                ACL_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION};
    size_t size;
    uintptr_t addr = arg_pages(r, &size);
    int attr = chance(r, 3) ? 9 + (int)pick(r, 9) : pick_of(r, attrs);
    size_t data_size = chance(r, 3) ? pick(r, 16) : 4;
    int32_t got = 77;
    struct verdict v = model_may_advise(&r->m, addr, size);

    if (size % MODEL_CHUNK != 0 || addr % MODEL_CHUNK != 0)
        return; /* attributes are for any bytes, advice for whole pages */
    deny(&v, attr > 8 || data_size != 4, ACL_ERROR_INVALID_PARAM);
    run_log(r, "aclrtMemManagedGetAttr(%d, %#zx, %zu, &n, %zu)", attr, addr, size,
            data_size);
    if (!settle(r,
                aclrtMemManagedGetAttr((aclrtMemManagedRangeAttribute)attr, (void *)addr,
                                       size, &got, data_size),
                &v)) {
        expect(r, got == 77, "the output was written: %d", got);
        return;
    }
    expect(r, got == model_managed_attr(&r->m, addr, size, attr),
           "attribute %d is %d, not %d", attr, got,
           model_managed_attr(&r->m, addr, size, attr));
}

/* With company, the switches are everybody's. */
void op_peer(struct run *r)
{
    int32_t peer = arg_device(r), n = r->m.n_devices;
    bool is_on = chance(r, 60), is_id = model_is_device_id(&r->m, peer);
    uint32_t flags = is_on && chance(r, 3);
    struct verdict v = {0};

    if (!r->opt.is_alone)
        return;
    deny(&v, flags != 0, ACL_ERROR_INVALID_PARAM);
    deny(&v, !r->m.has_current, ACL_ERROR_RT_CONTEXT_NULL);
    deny(&v, !is_id, ACL_ERROR_RT_INVALID_DEVICEID);
    deny(&v, is_id && r->m.has_current && peer == r->m.current,
         ACL_ERROR_RT_PARAM_INVALID);
    run_log(r, "aclrtDevice%sPeerAccess(%d, %u) of %d", is_on ? "Enable" : "Disable",
            peer, flags, n);
    if (settle(r,
               is_on ? aclrtDeviceEnablePeerAccess(peer, flags)
                     : aclrtDeviceDisablePeerAccess(peer),
               &v))
        r->m.dev[r->m.current].peers[peer] = is_on;
}

void op_ask_peer(struct run *r)
{
    int32_t from = arg_device(r), to = arg_device(r), got = 77;
    bool are_ids = model_is_device_id(&r->m, from) && model_is_device_id(&r->m, to);
    struct verdict v = {0};

    if (chance(r, 40)) {
        deny(&v, !are_ids, ACL_ERROR_RT_INVALID_DEVICEID);
        deny(&v, from == to, ACL_ERROR_INVALID_PARAM);
        run_log(r, "aclrtDeviceCanAccessPeer(&n, %d, %d)", from, to);
        if (settle(r, aclrtDeviceCanAccessPeer(&got, from, to), &v))
            expect(r, got == 1, "%d", got);
        return;
    }
    deny_strict(&r->m, &v, !are_ids, ACL_ERROR_RT_PARAM_INVALID);
    doubt(&v, from == to, ACL_ERROR_INVALID_PARAM);
    run_log(r, "aclrtDevicePeerAccessStatus(%d, %d, &n)", from, to);
    if (!settle(r, aclrtDevicePeerAccessStatus(from, to, &got), &v) || !r->opt.is_alone)
        return;
    expect(r, got == (are_ids && from != to && r->m.dev[from].peers[to]), "status %d",
           got);
}
