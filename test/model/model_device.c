/*
 * The model's devices and contexts.
 *
 * The current context belongs to the calling thread, so a model that has one is the model
 * of one thread.  A default context lives from the first SetDevice to the ResetDevice
 * that undoes the last one; with it goes everything that was on the device: memory,
 * mappings, handles, blocks and the contexts made on it.  Reservations stay: addresses,
 * not device memory.
 */
#include "model.h"

struct model_context *model_find_context(struct model *m, const void *value)
{
    for (int i = 0; i < MODEL_CONTEXTS; i++)
        if (m->ctx[i].is_used && m->ctx[i].value == value)
            return &m->ctx[i];
    return NULL;
}

static int find_default(const struct model *m, const void *value)
{
    for (int i = 0; i < m->n_devices; i++)
        if (m->dev[i].n_sets > 0 && m->dev[i].default_ctx == value)
            return i;
    return -1;
}

static void use(struct model *m, int device, struct model_context *ctx)
{
    m->has_current = true;
    m->current = device;
    m->own_ctx = ctx;
}

struct verdict model_may_set_device(const struct model *m, int32_t id)
{
    struct verdict v = {0};

    deny(&v, !model_is_device_id(m, id), ACL_ERROR_RT_INVALID_DEVICEID);
    return v;
}

void model_set_device(struct model *m, int32_t id)
{
    m->dev[id].n_sets++;
    use(m, id, NULL);
}

struct verdict model_may_reset_device(const struct model *m, int32_t id)
{
    struct verdict v = {0};

    deny(&v, !model_is_device_id(m, id), ACL_ERROR_RT_INVALID_DEVICEID);
    deny(&v, model_is_device_id(m, id) && m->dev[id].n_sets == 0,
         ACL_ERROR_RT_PARAM_INVALID);
    return v;
}

static bool is_on_device(const struct model_phys *phys, int32_t id)
{
    return !model_is_on_host(phys) && (int32_t)phys->prop.location.id == id;
}

static void empty_device(struct model *m, int32_t id)
{
    for (int i = 0; i < MODEL_MAPS; i++)
        if (m->map[i].is_used && is_on_device(m->map[i].phys, id))
            model_unmap(m, m->map[i].start);
    for (int i = 0; i < MODEL_PHYS; i++)
        while (m->phys[i].refs > 0 && m->phys[i].is_used && is_on_device(&m->phys[i], id))
            model_free(m, m->phys[i].handle);
    model_empty_runtime(m, id);
    for (int i = 0; i < MODEL_CONTEXTS; i++)
        if (m->ctx[i].is_used && m->ctx[i].device == id)
            m->ctx[i].is_used = false;
}

void model_reset_device(struct model *m, int32_t id, bool is_forced)
{
    struct model_device *dev = &m->dev[id];

    dev->n_sets = is_forced ? 0 : dev->n_sets - 1;
    if (dev->n_sets > 0)
        return;
    empty_device(m, id);
    dev->default_ctx = NULL;
    if (m->has_current && m->current == id)
        m->has_current = false;
}

struct verdict model_may_create_context(const struct model *m, const void *out,
                                        int32_t id)
{
    struct verdict v = {0};

    deny(&v, out == NULL, ACL_ERROR_INVALID_PARAM);
    deny(&v, !model_is_device_id(m, id), ACL_ERROR_RT_INVALID_DEVICEID);
    return v;
}

struct model_context *model_create_context(struct model *m, void *value, int32_t id)
{
    struct model_context *ctx = m->ctx;

    while (ctx->is_used)
        ctx++;
    *ctx = (struct model_context){.is_used = true, .value = value, .device = id};
    use(m, id, ctx);
    return ctx;
}

struct verdict model_may_destroy_context(struct model *m, const void *value)
{
    struct verdict v = {0};

    deny(&v, value == NULL, ACL_ERROR_INVALID_PARAM);
    deny(&v, model_find_context(m, value) == NULL, ACL_ERROR_RT_INVALID_HANDLE);
    doubt(&v, value != NULL && find_default(m, value) >= 0, ACL_ERROR_RT_PARAM_INVALID);
    return v;
}

void model_destroy_context(struct model *m, const void *value)
{
    struct model_context *ctx = model_find_context(m, value);

    model_kill_streams(m, ctx->device, ctx);
    ctx->is_used = false;
    if (m->has_current && m->own_ctx == ctx)
        m->has_current = false;
}

struct verdict model_may_set_context(struct model *m, const void *value)
{
    struct verdict v = {0};

    deny(&v, value == NULL, ACL_ERROR_INVALID_PARAM);
    deny(&v,
         value == NULL ||
             (model_find_context(m, value) == NULL && find_default(m, value) < 0),
         ACL_ERROR_RT_INVALID_HANDLE);
    return v;
}

void model_set_context(struct model *m, const void *value)
{
    struct model_context *ctx = model_find_context(m, value);

    use(m, ctx != NULL ? ctx->device : find_default(m, value), ctx);
}

struct verdict model_may_query(const struct model *m, bool has_outputs)
{
    struct verdict v = {0};

    deny(&v, !has_outputs, ACL_ERROR_INVALID_PARAM);
    deny(&v, !m->has_current, ACL_ERROR_RT_CONTEXT_NULL);
    return v;
}

void *model_current_value(const struct model *m)
{
    return m->own_ctx != NULL ? m->own_ctx->value : m->dev[m->current].default_ctx;
}
