/* Which operations there are, how often each is made, and one step of a run. */
#include "run.h"

#include <stdlib.h>
#include <string.h>

struct choice {
    op_fn op;
    uint32_t weight;
};

/*
 * Each table's sum stays at 256 or below, so that the choice is one byte of a fuzzer's
 * input; what is not a choice of virtual memory's is one of the runtime's.
 */
static const struct choice vmm_ops[] = {
    {op_reserve, 15},        {op_release, 6},       {op_retire, 4},
    {op_malloc, 27},         {op_free, 27},         {op_map, 32},
    {op_unmap, 20},          {op_retain, 6},        {op_set_access, 8},
    {op_get_access, 4},      {op_properties, 4},    {op_granularity, 3},
    {op_address_range, 5},   {op_attributes, 5},    {op_check_type, 2},
    {op_copy, 31},           {op_fill, 8},          {op_view, 5},
    {op_end_view, 3},        {op_touch, 3},         {op_set_device, 8},
    {op_reset_device, 4},    {op_get_device, 2},    {op_create_context, 4},
    {op_destroy_context, 4}, {op_set_context, 4},   {op_get_context, 3},
    {op_primary_state, 2},   {op_mem_info, 3},      {op_init_again, 1},
    {op_last_error, 2},      {op_reserve_no_uc, 1},
};

static const struct choice runtime_ops[] = {
    {op_block_malloc, 30},  {op_block_free, 22},    {op_host_malloc, 14},
    {op_host_free, 11},     {op_managed_malloc, 4}, {op_host_touch, 10},
    {op_mem_flush, 2},      {op_register, 7},       {op_unregister, 5},
    {op_device_pointer, 3}, {op_advise, 4},         {op_prefetch, 4},
    {op_managed_attr, 5},   {op_peer, 4},           {op_ask_peer, 3},
    {op_create_stream, 7},  {op_destroy_stream, 5}, {op_sync_stream, 6},
    {op_sync_device, 2},    {op_ask_stream, 6},     {op_failure_mode, 2},
    {op_default_stream, 3}, {op_create_event, 7},   {op_destroy_event, 5},
    {op_record_event, 8},   {op_wait_event, 4},     {op_query_event, 4},
    {op_event_time, 2},     {op_create_pool, 4},    {op_destroy_pool, 2},
    {op_malloc_async, 16},  {op_free_async, 12},    {op_trim_pool, 3},
    {op_set_pool_attr, 4},  {op_get_pool_attr, 2},  {op_copy_async, 16},
    {op_fill_async, 6},     {op_set_device, 2},
};

static op_fn pick_from(struct run *r, const struct choice *choices, size_t n)
{
    uint32_t sum = 0, choice;

    for (size_t i = 0; i < n; i++)
        sum += choices[i].weight;
    choice = pick(r, sum);
    for (size_t i = 0; i < n; i++) {
        if (choice < choices[i].weight)
            return choices[i].op;
        choice -= choices[i].weight;
    }
    return op_get_device;
}

static op_fn pick_op(struct run *r)
{
    if (chance(r, 50))
        return pick_from(r, vmm_ops, sizeof(vmm_ops) / sizeof(vmm_ops[0]));
    return pick_from(r, runtime_ops, sizeof(runtime_ops) / sizeof(runtime_ops[0]));
}

/*
 * Random bytes, again and again; the period is prime, so no two chunks or sites look
 * alike.
 */
static uint8_t *make_host_buffer(void)
{
    const size_t period = 65521;
    uint8_t *bytes = malloc(RUN_HOST_SIZE);
    uint32_t state = 1;

    if (bytes == NULL)
        abort();
    for (size_t i = 0; i < period; i++) {
        state = state * 1664525 + 1013904223;
        bytes[i] = (uint8_t)(state >> 24);
    }
    for (size_t at = period; at < RUN_HOST_SIZE; at += period)
        memcpy(bytes + at, bytes,
               at + period <= RUN_HOST_SIZE ? period : RUN_HOST_SIZE - at);
    return bytes;
}

/* A run struct that was closed may be opened again, and keeps its host buffer. */
void run_open(struct run *r, const struct run_options *opt, struct source *src,
              const char *label, void (*give_up)(void))
{
    uint8_t *host = r->host != NULL ? r->host : make_host_buffer();

    memset(r, 0, sizeof(*r));
    r->host = host;
    r->opt = *opt;
    r->src = src;
    r->label = label;
    r->give_up = give_up;
    r->n_inits = 1;
    aclrtGetLastError(ACL_RT_THREAD_LEVEL);
    model_init(&r->m, opt->n_devices, opt->is_strict);
    r->m.is_shared = !opt->is_alone;
    for (int i = 0; i < opt->n_devices; i++) {
        r->m.dev[i].total = opt->memory;
        r->m.dev[i].n_sets = opt->is_alone ? 0 : 1;
    }
    check_figures(r);
}

void run_close(struct run *r)
{
    model_clear(&r->m);
}

void run_step(struct run *r)
{
    pick_op(r)(r);
    check_figures(r);
    r->step++;
}
