/* Operations on devices and contexts, and the calls that report on them. */
#include "run.h"

#include "aclmem/aclmem.h"

#define CANARY ((void *)0x5aa5c33c)

void op_set_device(struct run *r)
{
    int32_t id = arg_device(r);
    struct verdict v = model_may_set_device(&r->m, id);

    run_log(r, "aclrtSetDevice(%d)", id);
    if (settle(r, aclrtSetDevice(id), &v))
        model_set_device(&r->m, id);
}

/* Everything on the device is about to die; its handles become wrong arguments. */
static void remember_device(struct run *r, int32_t id)
{
    for (int i = 0; i < MODEL_PHYS; i++) {
        struct model_phys *phys = &r->m.phys[i];

        if (phys->is_used && phys->refs > 0 && !model_is_on_host(phys) &&
            (int32_t)phys->prop.location.id == id)
            remember_stale(r, phys->handle);
    }
    for (int i = 0; i < MODEL_CONTEXTS; i++)
        if (r->m.ctx[i].is_used && r->m.ctx[i].device == id)
            remember_stale(r, r->m.ctx[i].value);
    for (int i = 0; i < MODEL_STREAMS; i++)
        if (r->m.stream[i].is_used && r->m.stream[i].device == id)
            remember_stale(r, r->m.stream[i].value);
    for (int i = 0; i < MODEL_EVENTS; i++)
        if (r->m.event[i].is_used && r->m.event[i].device == id)
            remember_stale(r, r->m.event[i].value);
    for (int i = 0; i < MODEL_BLOCKS; i++)
        if (r->m.block[i].is_used && r->m.block[i].device == id)
            remember_gone(r, r->m.block[i].start);
}

static bool has_view(const struct run *r, int32_t id)
{
    for (int i = 0; i < RUN_VIEWS; i++)
        if (r->view[i].phys != NULL && !model_is_on_host(r->view[i].phys) &&
            (int32_t)r->view[i].phys->prop.location.id == id)
            return true;
    return false;
}

/*
 * With company the last reference is somebody else's, and so are the memory and its
 * fate.  What becomes of memory that is looked at while its device goes away, nobody
 * promises.
 */
static bool may_reset(struct run *r, int32_t id, bool is_forced)
{
    if (!model_is_device_id(&r->m, id))
        return true;
    if (!r->opt.is_alone)
        return !is_forced && r->m.dev[id].n_sets > 1;
    if (is_forced && model_has_records(&r->m, id, NULL))
        return false;
    if (has_view(r, id) && (is_forced || r->m.dev[id].n_sets == 1))
        return false;
    return r->m.dev[id].n_sets != 1 || chance(r, 30);
}

void op_reset_device(struct run *r)
{
    int32_t id = arg_device(r);
    bool is_forced = chance(r, 10);
    struct verdict v = model_may_reset_device(&r->m, id);

    if (!may_reset(r, id, is_forced))
        return;
    run_log(r, "aclrtResetDevice%s(%d)", is_forced ? "Force" : "", id);
    if (!settle(r, is_forced ? aclrtResetDeviceForce(id) : aclrtResetDevice(id), &v))
        return;
    if (is_forced || r->m.dev[id].n_sets == 1)
        remember_device(r, id);
    model_reset_device(&r->m, id, is_forced);
}

void op_get_device(struct run *r)
{
    int32_t id = 77, *out = chance(r, 5) ? NULL : &id;
    uint32_t count = 0;
    struct verdict v = model_may_query(&r->m, out != NULL);

    run_log(r, "aclrtGetDevice(%s)", out ? "&id" : "NULL");
    if (settle(r, aclrtGetDevice(out), &v))
        expect(r, id == r->m.current, "device %d, current is %d", id, r->m.current);
    else
        expect(r, id == 77, "the output was written: %d", id);

    run_log(r, "aclrtGetDeviceCount(&n)");
    settle_ok(r, aclrtGetDeviceCount(&count));
    expect(r, (int)count == r->m.n_devices, "%u devices", count);
}

static void *arg_context(struct run *r)
{
    struct model_context *ctx = &r->m.ctx[pick(r, MODEL_CONTEXTS)];

    if (chance(r, 40) && ctx->is_used)
        return ctx->value;
    if (chance(r, 75))
        return r->m.dev[pick(r, (uint32_t)r->m.n_devices)].default_ctx;
    return arg_handle(r);
}

void op_create_context(struct run *r)
{
    int32_t id = arg_device(r);
    void *got = CANARY, **out = chance(r, 3) ? NULL : &got;
    struct verdict v = model_may_create_context(&r->m, out, id);

    if (model_count_contexts(&r->m) == MODEL_CONTEXTS)
        return;
    run_log(r, "aclrtCreateContext(%s, %d)", out ? "&c" : "NULL", id);
    if (!settle(r, aclrtCreateContext(out, id), &v)) {
        expect(r, got == CANARY, "the output was written: %p", got);
        return;
    }
    run_log(r, "    c = %p", got);
    expect(r, got != NULL && got != CANARY, "the new context is %p", got);
    expect(r, model_find_context(&r->m, got) == NULL, "context %p is alive already", got);
    expect(r, !is_stale(r, got), "context %p died a moment ago; who keeps it is not told",
           got);
    model_create_context(&r->m, got, id);
}

void op_destroy_context(struct run *r)
{
    void *value = arg_context(r);
    struct verdict v = model_may_destroy_context(&r->m, value);

    run_log(r, "aclrtDestroyContext(%p)", value);
    if (!settle(r, aclrtDestroyContext(value), &v))
        return;
    remember_stale(r, value);
    model_destroy_context(&r->m, value);
}

void op_set_context(struct run *r)
{
    void *value = arg_context(r);
    struct verdict v = model_may_set_context(&r->m, value);

    run_log(r, "aclrtSetCurrentContext(%p)", value);
    if (settle(r, aclrtSetCurrentContext(value), &v))
        model_set_context(&r->m, value);
}

/*
 * A default context's value is not known before it was asked for; after that it must not
 * change.
 */
void op_get_context(struct run *r)
{
    void *got = CANARY, **out = chance(r, 5) ? NULL : &got;
    struct verdict v = model_may_query(&r->m, out != NULL);
    void *want = r->m.has_current ? model_current_value(&r->m) : NULL;

    run_log(r, "aclrtGetCurrentContext(%s)", out ? "&c" : "NULL");
    if (!settle(r, aclrtGetCurrentContext(out), &v)) {
        expect(r, out == NULL || got == NULL, "no context, but %p was written", got);
        return;
    }
    run_log(r, "    c = %p", got);
    if (want != NULL) {
        expect(r, got == want, "context %p, current is %p", got, want);
        return;
    }
    expect(r, got != NULL && model_find_context(&r->m, got) == NULL,
           "%p for a default context", got);
    r->m.dev[r->m.current].default_ctx = got;
}

void op_primary_state(struct run *r)
{
    int32_t id = arg_device(r), active = 77, *out = chance(r, 3) ? NULL : &active;
    struct verdict v = {0};

    deny(&v, out == NULL, ACL_ERROR_INVALID_PARAM);
    deny(&v, !model_is_device_id(&r->m, id), ACL_ERROR_RT_INVALID_DEVICEID);
    run_log(r, "aclrtGetPrimaryCtxState(%d, NULL, %s)", id, out ? "&active" : "NULL");
    if (settle(r, aclrtGetPrimaryCtxState(id, NULL, out), &v))
        expect(r, active == (r->m.dev[id].n_sets > 0), "active %d", active);
    else
        expect(r, active == 77, "the output was written: %d", active);
}

/* What blocks cost is learned: whole chunks, as much as blocks can cost. */
static void learn_charge(struct run *r, size_t free_size, size_t least, size_t most)
{
    struct model_device *dev = &r->m.dev[r->m.current];

    expect(r, free_size >= least && free_size <= most,
           "free %zu, where blocks leave %zu to %zu", free_size, least, most);
    dev->charge = 0;
    dev->is_learned = true;
    model_left(&r->m, r->m.current, &least, &most);
    dev->charge = most - free_size;
    expect(r, dev->charge % MODEL_CHUNK == 0, "blocks cost %zu", dev->charge);
}

static void check_mem_info(struct run *r, size_t free_size, size_t total)
{
    struct model_device *dev = &r->m.dev[r->m.current];
    size_t least, most;

    expect(r, total == dev->total, "total %zu, not %zu", total, dev->total);
    model_left(&r->m, r->m.current, &least, &most);
    if (!r->opt.is_alone)
        expect(r, free_size <= most, "free %zu, more than %zu", free_size, most);
    else if (!dev->is_learned)
        learn_charge(r, free_size, least, most);
    else
        expect(r, free_size == least, "free %zu, not %zu", free_size, least);
}

/*
 * Of an attribute other than the plain HBM ones little is said: nothing at all, or the
 * device's memory, of which no more may be free than there is.
 */
void op_mem_info(struct run *r)
{
    static const int usual[] = {ACL_HBM_MEM, ACL_HBM_MEM_HUGE, ACL_HBM_MEM_NORMAL};
    int attr = chance(r, 70) ? pick_of(r, usual) : (int)pick(r, 20) - 1;
    bool is_usual =
        attr == ACL_HBM_MEM || attr == ACL_HBM_MEM_HUGE || attr == ACL_HBM_MEM_NORMAL;
    size_t left = 77, total = 77, *out = chance(r, 3) ? NULL : &left;
    struct verdict v = model_may_query(&r->m, out != NULL);

    deny(&v, attr < 0 || attr > ACL_MEM_P2P_HUGE1G, ACL_ERROR_INVALID_PARAM);
    run_log(r, "aclrtGetMemInfo(%d, %s, &total)", attr, out ? "&free" : "NULL");
    if (!settle(r, aclrtGetMemInfo((aclrtMemAttr)attr, out, &total), &v))
        expect(r, left == 77 && total == 77, "the output was written: %zu %zu", left,
               total);
    else if (is_usual)
        check_mem_info(r, left, total);
    else
        expect(r, left <= total && total <= r->m.dev[r->m.current].total,
               "free %zu of %zu by another attribute", left, total);
}

/* What aclmem_get_stats() and aclrtGetMemInfo() say after every step. */
void check_figures(struct run *r)
{
    static const char *const names[] = {"reservations", "handles",       "mappings",
                                        "contexts",     "device blocks", "host blocks"};
    uint64_t want[] = {model_count_ranges(&r->m),
                       model_count_phys(&r->m),
                       model_count_maps(&r->m),
                       model_count_contexts(&r->m),
                       model_count_blocks(&r->m, MODEL_DEVICE),
                       model_count_blocks(&r->m, MODEL_PINNED)};
    aclmem_stats stats = {0};
    size_t left = 0, total = 0;

    expect(r, aclmem_get_stats(&stats) == ACL_SUCCESS, "aclmem_get_stats failed");
    for (int i = 0; i < 6; i++) {
        uint64_t got = i < 4 ? (&stats.reservations)[i] : (&stats.blocks)[i - 4];

        expect(r, got == want[i] || (!r->opt.is_alone && got > want[i]),
               "the library counts %llu %s, the model %llu", (unsigned long long)got,
               names[i], (unsigned long long)want[i]);
    }
    expect(r, stats.views == count_views(r) || !r->opt.is_alone,
           "the library counts %llu views, not %u", (unsigned long long)stats.views,
           count_views(r));
    check_pools(r);
    if (!r->m.has_current)
        return;
    expect(r, aclrtGetMemInfo(ACL_HBM_MEM, &left, &total) == ACL_SUCCESS,
           "aclrtGetMemInfo failed");
    check_mem_info(r, left, total);
}

/* One more reference on the runtime, or one less; the last one stays. */
void op_init_again(struct run *r)
{
    struct verdict v = {0};
    uint64_t left = 77;

    if (!r->opt.is_alone)
        return;
    if (r->n_inits > 1 && chance(r, 60)) {
        run_log(r, "aclFinalizeReference(&n)");
        settle_ok(r, aclFinalizeReference(&left));
        expect(r, left == --r->n_inits, "%u references, not %u", (unsigned)left,
               r->n_inits);
        return;
    }
    deny(&v, true, ACL_ERROR_REPEAT_INITIALIZE);
    run_log(r, "aclInit(NULL)");
    settle(r, aclInit(NULL), &v);
    r->n_inits++;
}

void op_last_error(struct run *r)
{
    bool is_taken = chance(r, 50);
    aclError got;

    run_log(r, "aclrt%sLastError(0)", is_taken ? "Get" : "PeekAt");
    got = is_taken ? aclrtGetLastError(ACL_RT_THREAD_LEVEL)
                   : aclrtPeekAtLastError(ACL_RT_THREAD_LEVEL);
    expect(r, got == r->last_error, "the last error is %d, not %d", got, r->last_error);
    if (is_taken)
        r->last_error = ACL_SUCCESS;
}
