/*
 * Loads and stores of the program: through views, and directly where memory is
 * addressable.
 *
 * Some views stay open for a while.  What they show must stay what the memory holds,
 * whoever writes it, and the memory must outlive its mappings and its handle until the
 * view ends.  Those views lie in one mapping, so that the model can name the memory they
 * hold.
 */
#include "run.h"

#include <stdlib.h>
#include <string.h>

#include "aclmem/aclmem.h"

/* Compares the bytes with the model's and leaves others there. */
static void use_byte(struct run *r, volatile uint8_t *byte, int16_t *model, uint8_t next,
                     bool can_write)
{
    uint8_t got = *byte;

    if (model == NULL)
        return;
    expect(r, *model == MODEL_UNKNOWN || got == *model,
           "the program sees 0x%02x where 0x%02x should be", got, (unsigned)*model);
    *model = got;
    if (!can_write)
        return;
    *byte = next;
    *model = next;
}

static void use_range(struct run *r, uintptr_t addr, volatile uint8_t *bytes,
                      size_t count, bool can_write)
{
    for (size_t i = 0; i < count; i++) {
        struct model_map *map = model_find_map(&r->m, addr + i);
        struct model_block *block = model_find_block(&r->m, addr + i);
        int16_t *model = block != NULL
                             ? model_block_byte(block, addr + i - block->start)
                             : model_phys_byte(map->phys, addr + i - map->start);

        use_byte(r, &bytes[i], model, (uint8_t)(r->step + i), can_write);
    }
}

static void end_view(struct run *r, void *host)
{
    struct verdict v = {0};

    run_log(r, "aclmem_host_view_end(%p)", host);
    settle_ok(r, aclmem_host_view_end(host));
    if (!r->opt.is_alone || !chance(r, 10))
        return;
    deny(&v, true, ACL_ERROR_RT_PARAM_INVALID);
    run_log(r, "aclmem_host_view_end(%p)", host);
    settle(r, aclmem_host_view_end(host), &v);
}

static struct run_view *find_slot(struct run *r)
{
    for (int i = 0; i < RUN_VIEWS; i++)
        if (r->view[i].phys == NULL)
            return &r->view[i];
    return NULL;
}

unsigned count_views(const struct run *r)
{
    unsigned n = 0;

    for (int i = 0; i < RUN_VIEWS; i++)
        n += r->view[i].phys != NULL;
    return n;
}

/* True when the view stays open. */
static bool keep_view(struct run *r, uintptr_t addr, void *host, size_t count)
{
    struct model_map *map = model_find_map(&r->m, addr);
    struct run_view *slot = find_slot(r);

    for (int i = 0; i < RUN_VIEWS; i++)
        expect(r, r->view[i].phys == NULL || r->view[i].host != host,
               "two views have the address %p", host);
    if (slot == NULL || map == NULL || !chance(r, 40) ||
        addr + count > map->start + map->size)
        return false;
    *slot = (struct run_view){map->phys, addr - map->start, host, count};
    model_open_view(map->phys);
    return true;
}

static struct verdict may_view(struct run *r, uintptr_t addr, size_t count,
                               bool has_output, bool *ret_can_write)
{
    struct verdict v = {0}, read = {0}, write = {0};

    model_check_span(&r->m, &read, addr, count, MODEL_READ);
    model_check_span(&r->m, &write, addr, count, MODEL_WRITE);
    *ret_can_write = !verdict_is_refusal(&write) && write.n_soft == 0;
    deny(&v, addr == 0 || count == 0 || !has_output, ACL_ERROR_INVALID_PARAM);
    deny(&v, verdict_is_refusal(&read), ACL_ERROR_RT_PARAM_INVALID);
    /* Memory that may only be read may be refused, or be given to be read. */
    doubt(&v, !*ret_can_write, ACL_ERROR_RT_PARAM_INVALID);
    doubt(&v, !r->m.has_current, ACL_ERROR_RT_CONTEXT_NULL);
    return v;
}

/* A GPU's memory has none. */
static bool has_views(void)
{
    const char *backend = getenv("ACLMEM_BACKEND");

    return backend == NULL || strcmp(backend, "cuda") != 0;
}

void op_view(struct run *r)
{
    size_t count = chance(r, 2) ? 0 : 1 + pick(r, 3 * MODEL_SITE_SIZE);
    uintptr_t addr = chance(r, 10) ? arg_address(r) : arg_span(r, count);
    void *host = NULL, **out = chance(r, 1) ? NULL : &host;
    bool can_write;
    struct verdict v = may_view(r, addr, count, out != NULL, &can_write);

    if (!is_ours(r, addr, count) || !has_views())
        return;
    /* Until the stream comes to it, a function in its turn before may still look. */
    if (is_leaving(r, addr) && model_find_block(&r->m, addr) == NULL)
        return;
    run_log(r, "aclmem_host_view(%#zx, %zu, %s)", addr, count, out ? "&p" : "NULL");
    if (!settle(r, aclmem_host_view((void *)addr, count, out), &v)) {
        expect(r, host == NULL, "the output was written: %p", host);
        return;
    }
    run_log(r, "    p = %p", host);
    use_range(r, addr, host, count, can_write);
    if (!can_write || !keep_view(r, addr, host, count))
        end_view(r, host);
}

void close_view(struct run *r, struct run_view *view)
{
    volatile uint8_t *bytes = view->host;

    run_log(r, "loads and stores at %p", view->host);
    for (size_t i = 0; i < view->size; i++)
        use_byte(r, &bytes[i], model_phys_byte(view->phys, view->offset + i),
                 (uint8_t)(r->step + i), true);
    end_view(r, view->host);
    model_end_view(&r->m, view->phys);
    view->phys = NULL;
}

void op_end_view(struct run *r)
{
    struct run_view *view = &r->view[pick(r, RUN_VIEWS)];

    if (view->phys != NULL)
        close_view(r, view);
}

/*
 * Host memory is the program's to touch, and device memory too where nothing is isolated.
 */
void op_touch(struct run *r)
{
    struct model_map *map = arg_map(r);
    uintptr_t addr;
    int right;

    if (map == NULL || (!model_is_on_host(map->phys) && !r->opt.is_addressable))
        return;
    right =
        model_is_on_host(map->phys) ? map->host : map->dev[map->phys->prop.location.id];
    if (right != ACL_RT_MEM_ACCESS_FLAGS_READWRITE)
        return;
    addr = map->start + pick(r, (uint32_t)(map->size / MODEL_CHUNK)) * MODEL_CHUNK +
           model_site_offset(pick(r, MODEL_SITES));
    run_log(r, "loads and stores at %#zx", addr);
    use_range(r, addr, (volatile uint8_t *)addr, MODEL_SITE_SIZE, true);
}
