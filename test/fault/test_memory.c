/*
 * Faults in reserving and releasing, in allocating and freeing, for every place memory
 * may lie.
 */
#include "faulted.h"

/* ---- reserve, release ---- */

static aclError do_reserve(struct scene *s)
{
    void *va = NULL;
    aclError rc = aclrtReserveMemAddress(&va, 8 * CHUNK, 0, NULL, 1);

    s->va = va;
    return rc;
}

static void release(struct scene *s)
{
    assert_non_null(s->va);
    assert_true(is_taken(s->va));
    assert_acl_ok(aclrtReleaseMemAddress(s->va));
}

static aclError do_reserve_gibibytes(struct scene *s)
{
    void *va = NULL;
    aclError rc = aclrtReserveMemAddress(&va, 3 * GIB, 0, NULL, 0);

    s->va = va;
    return rc;
}

/* An address that is free for sure: it was just given back. */
static void find_wish(struct scene *s)
{
    s->bytes = reserve(8 * CHUNK);
    assert_acl_ok(aclrtReleaseMemAddress(s->bytes));
}

static aclError do_reserve_wish(struct scene *s)
{
    void *va = NULL;
    aclError rc = aclrtReserveMemAddress(&va, 8 * CHUNK, 0, s->bytes, 1);

    s->va = va;
    return rc;
}

static void got_wish(struct scene *s)
{
    assert_ptr_equal(s->va, s->bytes);
}

static void reserve_first(struct scene *s)
{
    s->va = reserve(8 * CHUNK);
}

static aclError do_release(struct scene *s)
{
    return aclrtReleaseMemAddress(s->va);
}

/* ---- allocate, free ---- */

static aclError allocate(struct scene *s, aclrtPhysicalMemProp prop)
{
    return aclrtMallocPhysical(&s->handle, 4 * CHUNK, &prop, 0);
}

static aclError do_alloc(struct scene *s)
{
    return allocate(s, device_prop(0, ACL_HBM_MEM_HUGE));
}

static aclError do_alloc_host(struct scene *s)
{
    return allocate(s, located_prop(ACL_MEM_LOCATION_TYPE_HOST, 0, ACL_MEM_HUGE));
}

static aclError do_alloc_numa(struct scene *s)
{
    return allocate(s, located_prop(ACL_MEM_LOCATION_TYPE_HOST_NUMA, 0, ACL_MEM_HUGE));
}

/* A failure loses no memory: all of it can be had. */
static void nothing_is_lost(struct scene *s)
{
    assert_acl_ok(aclrtFreePhysical(alloc(64 * MIB)));
}

/* What was allocated can be mapped and used. */
static void handle_works(struct scene *s)
{
    void *va = reserve(4 * CHUNK);

    assert_non_null(s->handle);
    map(va, 4 * CHUNK, s->handle);
    put_pattern(va, 4 * CHUNK, 1);
    assert_pattern(va, 4 * CHUNK, 1);
    assert_acl_ok(aclrtUnmapMem(va));
    assert_acl_ok(aclrtReleaseMemAddress(va));
}

static void free_handle(struct scene *s)
{
    assert_acl_ok(aclrtFreePhysical(s->handle));
}

/* Memory in pieces: every second chunk is taken, so four chunks are four pieces. */
static void scatter(struct scene *s)
{
    static aclrtDrvMemHandle gaps[16];

    for (size_t i = 0; i < 16; i++) {
        gaps[i] = alloc(CHUNK);
        (void)alloc(CHUNK); /* the reset takes it */
    }
    for (size_t i = 0; i < 16; i++)
        assert_acl_ok(aclrtFreePhysical(gaps[i]));
}

static void free_handle_and_reset(struct scene *s)
{
    free_handle(s);
    assert_acl_ok(aclrtResetDevice(0));
}

/*
 * Objects that have handles need a new table now and then.  Contexts cost little else, so
 * they are made until one cannot be had without new memory; then one with new memory, and on
 * to the next such place, `arg` times.
 */
enum { MAX_CONTEXTS = 1 << 18 };
static aclrtContext contexts[MAX_CONTEXTS];
static size_t n_contexts;

static void fill_up_to_growth(void)
{
    am_fault_arm(1, true);
    while (n_contexts < MAX_CONTEXTS &&
           aclrtCreateContext(&contexts[n_contexts], 0) == ACL_SUCCESS)
        n_contexts++;
    am_fault_disarm();
    assert_in_range(n_contexts, 0, MAX_CONTEXTS - 1);
}

static void have_full_tables(struct scene *s)
{
    fill_up_to_growth();
    for (unsigned i = 0; i < s->arg; i++) {
        assert_acl_ok(aclrtCreateContext(&contexts[n_contexts], 0));
        n_contexts++;
        fill_up_to_growth();
    }
}

static aclError do_context(struct scene *s)
{
    return aclrtCreateContext(&contexts[n_contexts], 0);
}

static void context_works(struct scene *s)
{
    assert_acl_ok(aclrtSetCurrentContext(contexts[n_contexts++]));
}

static void end_contexts(struct scene *s)
{
    while (n_contexts > 0)
        assert_acl_ok(aclrtDestroyContext(contexts[--n_contexts]));
    assert_acl_ok(aclrtSetDevice(0));
}

/* Freed after use: there is something to give back to the system. */
static void use_handle(struct scene *s)
{
    s->handle = alloc(4 * CHUNK);
    handle_works(s);
}

static void use_host_handle(struct scene *s)
{
    s->handle = alloc_host(4 * CHUNK);
    handle_works(s);
}

static aclError do_free(struct scene *s)
{
    return aclrtFreePhysical(s->handle);
}

static void is_freed(struct scene *s)
{
    assert_int_equal(free_memory(), 64 * MIB);
    assert_int_equal(stats().handles, 0);
}

static const struct step steps[] = {
    {"reserving", NULL, NULL, do_reserve, NULL, NULL, release},
    {"reserving gibibytes", NULL, NULL, do_reserve_gibibytes, NULL, NULL, release},
    {"reserving with a wish", NULL, find_wish, do_reserve_wish, NULL, got_wish, release},
    {"releasing", NULL, reserve_first, do_release},
    {"a device's memory", NULL, NULL, do_alloc, nothing_is_lost, handle_works,
     free_handle},
    {"the host's memory", NULL, NULL, do_alloc_host, nothing_is_lost, handle_works,
     free_handle},
    {"memory of a NUMA node", NULL, NULL, do_alloc_numa, nothing_is_lost, handle_works,
     free_handle},
    {"memory that can be touched", TOUCHABLE, NULL, do_alloc, nothing_is_lost,
     handle_works, free_handle},
    {"a device's memory taken at once", "ACLMEM_COMMIT=now", NULL, do_alloc,
     nothing_is_lost, handle_works, free_handle},
    {"the host's memory taken at once", "ACLMEM_COMMIT=now", NULL, do_alloc_host,
     nothing_is_lost, handle_works, free_handle},
    {"scattered memory", NULL, scatter, do_alloc, NULL, handle_works,
     free_handle_and_reset},
    {"a context beside a full table", NULL, have_full_tables, do_context, NULL,
     context_works, end_contexts},
    {"a context beside tables that are full", NULL, have_full_tables, do_context, NULL,
     context_works, end_contexts, .arg = 3},
    {"freeing", NULL, use_handle, do_free, NULL, is_freed},
    {"freeing the host's memory", NULL, use_host_handle, do_free, NULL, is_freed},
};

int main(int argc, char **argv)
{
    return run_faulted(steps, argc, argv);
}
