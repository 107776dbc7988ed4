/*
 * What well-known programs do, call for call, on the side of virtual memory: each is a
 * way of use that must keep working.  Only the order and shape of their calls is theirs.
 */
#include "support/process.h"
#include "support/vmm.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_SEGMENTS = 128 };

/* ---- torch_npu: one big reservation, mapped segment by segment ---- */

struct expandable {
    char *base;
    size_t segment;
    aclrtDrvMemHandle handles[MAX_SEGMENTS]; /* NULL where there is a hole */
};

static struct expandable expandable_create(size_t segment)
{
    struct expandable e = {.segment = segment};
    size_t total = total_memory(), n = (total + total / 8 + segment - 1) / segment;

    e.base = reserve(n * segment);
    return e;
}

/*
 * All the memory first, then all the mappings; gives back what it got when there is not
 * enough.
 */
static bool expandable_map(struct expandable *e, size_t first, size_t n)
{
    aclrtPhysicalMemProp prop = device_prop(0, ACL_HBM_MEM_HUGE);

    for (size_t i = first; i < first + n; i++) {
        aclError rc = aclrtMallocPhysical(&e->handles[i], e->segment, &prop, 0);

        if (rc == ACL_ERROR_RT_MEMORY_ALLOCATION) {
            while (i-- > first) {
                assert_acl_ok(aclrtFreePhysical(e->handles[i]));
                e->handles[i] = NULL;
            }
            return false;
        }
        assert_int_equal(rc, ACL_SUCCESS);
    }
    for (size_t i = first; i < first + n; i++)
        map(e->base + i * e->segment, e->segment, e->handles[i]);
    return true;
}

static aclrtDrvMemHandle expandable_take(struct expandable *e, size_t i)
{
    aclrtDrvMemHandle handle = e->handles[i];

    assert_acl_ok(aclrtUnmapMem(e->base + i * e->segment));
    e->handles[i] = NULL;
    return handle;
}

static void expandable_destroy(struct expandable *e)
{
    for (size_t i = 0; i < MAX_SEGMENTS; i++) {
        if (e->handles[i] != NULL)
            assert_acl_ok(aclrtFreePhysical(expandable_take(e, i)));
    }
    assert_acl_ok(aclrtReleaseMemAddress(e->base));
}

static void torch_probes_with_512_bytes(void **state)
{
    void *va = NULL;

    assert_acl_ok(aclrtReserveMemAddress(&va, 512, 0, NULL, 1));
    assert_non_null(va);
    assert_acl_ok(aclrtReleaseMemAddress(va));
}

static void torch_expands_a_segment_and_leaves_holes(void **state)
{
    struct expandable e = expandable_create(20 * MIB);
    const size_t segment = e.segment;

    assert_true(expandable_map(&e, 0, 6));
    put_pattern(e.base, 6 * segment, 1); /* one copy over all of them */
    assert_acl_ok(aclrtFreePhysical(expandable_take(&e, 2)));
    assert_acl_ok(aclrtFreePhysical(expandable_take(&e, 3)));
    assert_pattern(e.base, 2 * segment, 1);
    assert_true(expandable_map(&e, 3, 1));
    put_pattern(e.base + 3 * segment, 3 * segment, 2);
    assert_pattern(e.base + 3 * segment, 3 * segment, 2);
    expandable_destroy(&e);
}

static void torch_keeps_handles_and_maps_them_elsewhere(void **state)
{
    struct expandable e = expandable_create(2 * MIB);
    aclrtDrvMemHandle cached[4];
    size_t free_before;

    assert_true(expandable_map(&e, 0, 8));
    put_pattern(e.base, 8 * e.segment, 3);
    free_before = free_memory();
    for (size_t i = 0; i < 4; i++)
        cached[i] = expandable_take(&e, i);
    assert_int_equal(free_memory(), free_before); /* kept, so not free */
    for (size_t i = 0; i < 4; i++) {
        e.handles[20 + i] = cached[i];
        map(e.base + (20 + i) * e.segment, e.segment, cached[i]);
    }
    assert_pattern(e.base + 20 * e.segment, 4 * e.segment, 3);
    expandable_destroy(&e);
}

static void torch_rolls_back_when_memory_runs_out(void **state)
{
    struct expandable e;
    struct snapshot before;

    start("default", "ACLMEM_MEMORY=100M");
    assert_acl_ok(aclrtSetDevice(0));
    e = expandable_create(20 * MIB);
    assert_true(expandable_map(&e, 0, 2));
    before = take_snapshot();
    assert_false(expandable_map(&e, 2, 4));
    assert_unchanged(before);
    assert_true(expandable_map(&e, 2, 3));
    assert_int_equal(free_memory(), 0);
    expandable_destroy(&e);
}

static void torch_uses_segments_of_a_gibibyte(void **state)
{
    aclrtPhysicalMemProp prop = device_prop(0, ACL_HBM_MEM_HUGE1G);
    aclrtDrvMemHandle handles[2] = {NULL};
    char *base;

    start("default", "ACLMEM_MEMORY=4G");
    assert_acl_ok(aclrtSetDevice(0));
    base = reserve(5 * GIB);
    for (size_t i = 0; i < 2; i++)
        assert_acl_ok(aclrtMallocPhysical(&handles[i], GIB, &prop, 0));
    for (size_t i = 0; i < 2; i++)
        map(base + i * GIB, GIB, handles[i]);
    put_pattern(base + GIB - MIB, 2 * MIB, 4);
    assert_pattern(base + GIB - MIB, 2 * MIB, 4);
    for (size_t i = 0; i < 2; i++) {
        assert_acl_ok(aclrtUnmapMem(base + i * GIB));
        assert_acl_ok(aclrtFreePhysical(handles[i]));
    }
    assert_acl_ok(aclrtReleaseMemAddress(base));
}

static void torch_expands_host_memory_with_a_device_attribute(void **state)
{
    aclrtPhysicalMemProp prop =
        located_prop(ACL_MEM_LOCATION_TYPE_HOST, 0, ACL_HBM_MEM_HUGE);
    struct block h = {.size = 20 * MIB};

    h.va = reserve(GIB);
    assert_acl_ok(aclrtMallocPhysical(&h.handle, h.size, &prop, 0));
    map(h.va, h.size, h.handle);
    fill((uint8_t *)h.va, h.size, 5);
    assert_pattern(h.va, h.size, 5);
    block_destroy(&h);
}

/* ---- vLLM-Ascend: sleep and wake at the same addresses ---- */

static void vllm_makes_a_context_where_there_is_none(void **state)
{
    aclrtContext context =
        (aclrtContext)state; /* uninitialised there, and the code ignored */
    int32_t device = 7;

    start("default");
    (void)aclrtGetCurrentContext(&context);
    assert_null(context);
    assert_acl_ok(aclrtCreateContext(&context, 0));
    assert_acl_ok(aclrtSetCurrentContext(context));
    assert_acl_ok(aclrtGetDevice(&device));
    assert_int_equal(device, 0);
    assert_acl_ok(aclrtDestroyContext(context));
}

static void vllm_sleeps_and_wakes_at_the_same_address(void **state)
{
    aclrtPhysicalMemProp prop = device_prop(0, ACL_HBM_MEM_HUGE);
    struct block b = {.size = 5 * MIB};
    size_t granularity = 0, before = free_memory();
    uint8_t *kept;
    void *va = NULL;

    assert_acl_ok(aclrtMemGetAllocationGranularity(
        &prop, ACL_RT_MEM_ALLOC_GRANULARITY_MINIMUM, &granularity));
    b.size = (b.size + granularity - 1) / granularity * granularity;
    assert_acl_ok(
        aclrtReserveMemAddress(&va, b.size, 0, NULL, 0)); /* flag 0 with huge pages */
    b.va = va;
    b.handle = alloc(b.size);
    map(b.va, b.size, b.handle);
    put_pattern(b.va, b.size, 6);
    kept = malloc(b.size);
    assert_non_null(kept);

    for (int i = 0; i < 3; i++) {
        size_t bogus = (uintptr_t)kept + 2 * b.size;

        assert_acl_ok(aclrtMemcpy(kept, bogus, b.va, b.size, ACL_MEMCPY_DEVICE_TO_HOST));
        assert_acl_ok(aclrtUnmapMem(b.va));
        assert_acl_ok(aclrtFreePhysical(b.handle));
        assert_int_equal(free_memory(), before); /* asleep: addresses cost nothing */
        b.handle = alloc(b.size);
        map(b.va, b.size, b.handle);
        assert_int_equal(free_memory(), before - b.size);
        bogus = (uintptr_t)b.va + 2 * b.size;
        assert_acl_ok(aclrtMemcpy(b.va, bogus, kept, b.size, ACL_MEMCPY_HOST_TO_DEVICE));
        assert_pattern(b.va, b.size, 6);
    }
    free(kept);
    block_destroy(&b);
}

/* ---- llama.cpp: a pool that grows ---- */

static void llama_asks_for_the_granularity_of_every_device_first(void **state)
{
    uint32_t count = 0;

    start("default", "ACLMEM_DEVICES=4");
    (void)aclInit(NULL); /* a second time, and it does not look */
    assert_acl_ok(aclrtGetDeviceCount(&count));
    for (uint32_t device = 0; device < count; device++) {
        aclrtPhysicalMemProp prop = device_prop(device, ACL_HBM_MEM_HUGE);
        size_t granularity = 0;

        assert_acl_ok(aclrtMemGetAllocationGranularity(
            &prop, ACL_RT_MEM_ALLOC_GRANULARITY_RECOMMENDED, &granularity));
        assert_int_equal(granularity, CHUNK);
    }
}

static void llama_grows_a_pool_over_handle_boundaries(void **state)
{
    static const size_t chunks[] = {1, 3, 2, 5, 1};
    enum { N = sizeof(chunks) / sizeof(chunks[0]) };
    aclrtDrvMemHandle handles[N];
    size_t at[N], used = 0, odd = free_memory() - 12345;
    char *base = reserve(odd); /* exactly the free bytes, no multiple of anything */

    for (size_t i = 0; i < N; i++) {
        handles[i] = alloc(chunks[i] * CHUNK);
        at[i] = used;
        map(base + used, chunks[i] * CHUNK, handles[i]);
        used += chunks[i] * CHUNK;
        put_pattern(base, used, i);
        assert_pattern(base, used, i);
    }
    assert_acl_ok(copy(base + 7 * CHUNK + 11, base + CHUNK - 9, 4 * CHUNK,
                       ACL_MEMCPY_DEVICE_TO_DEVICE));
    for (size_t i = 0; i < N; i++)
        assert_acl_ok(aclrtUnmapMem(base + at[i]));
    for (size_t i = 0; i < N; i++)
        assert_acl_ok(aclrtFreePhysical(handles[i]));
    assert_acl_ok(aclrtReleaseMemAddress(base));
    assert_acl_ok(aclrtResetDevice(0));
}

/* ---- Mooncake ---- */

/*
 * Big pages on the nearest node, then anywhere, then small pages: any failure moves on.
 */
static void mooncake_climbs_down_until_host_memory_is_given(void **state)
{
    static const struct {
        aclrtMemLocationType type;
        uint32_t id;
        aclrtMemAttr attr;
    } steps[] = {
        {ACL_MEM_LOCATION_TYPE_HOST_NUMA, 6, ACL_MEM_P2P_HUGE1G},
        {ACL_MEM_LOCATION_TYPE_HOST, 0, ACL_MEM_P2P_HUGE1G},
        {ACL_MEM_LOCATION_TYPE_HOST_NUMA, 0, ACL_MEM_P2P_HUGE},
    };
    struct block h = {.size = 4 * CHUNK};
    aclError rc = ACL_ERROR_FAILURE;

    allow_warnings();
    for (size_t i = 0; i < 3 && rc != ACL_SUCCESS; i++) {
        aclrtPhysicalMemProp prop =
            located_prop(steps[i].type, steps[i].id, steps[i].attr);

        rc = aclrtMallocPhysical(&h.handle, h.size, &prop, 0);
    }
    assert_int_equal(rc, ACL_SUCCESS);
    h.va = reserve(h.size);
    map(h.va, h.size, h.handle);
    fill((uint8_t *)h.va, h.size, 1);
    assert_acl_ok(aclrtUnmapMem(h.va));
    assert_acl_ok(aclrtReleaseMemAddress(h.va)); /* its order: addresses before memory */
    assert_acl_ok(aclrtFreePhysical(h.handle));
}

static void mooncake_retains_by_address_and_frees_what_it_got(void **state)
{
    struct block b = block_create(CHUNK);
    aclrtDrvMemHandle found = NULL;

    assert_acl_ok(aclrtMemRetainAllocationHandle(b.va, &found));
    assert_acl_ok(aclrtFreePhysical(found));
    put_pattern(b.va, CHUNK, 1);
    assert_pattern(b.va, CHUNK, 1);
    block_destroy(&b);
}

static const char *copy_by_the_pointers_device(struct worker *self)
{
    aclrtPtrAttributes attributes;
    uint8_t bytes[1000];

    worker_check(aclrtPointerGetAttributes(self->shared, &attributes) == ACL_SUCCESS);
    worker_check(attributes.location.type == ACL_MEM_LOCATION_TYPE_DEVICE);
    worker_check(aclrtSetDevice((int32_t)attributes.location.id) == ACL_SUCCESS);
    fill(bytes, sizeof(bytes), 8);
    worker_check(copy(self->shared, bytes, sizeof(bytes), ACL_MEMCPY_DEFAULT) ==
                 ACL_SUCCESS);
    memset(bytes, 0, sizeof(bytes));
    worker_check(copy(bytes, self->shared, sizeof(bytes), ACL_MEMCPY_DEFAULT) ==
                 ACL_SUCCESS);
    worker_check(is_filled(bytes, sizeof(bytes), 8));
    worker_check(aclrtResetDevice((int32_t)attributes.location.id) == ACL_SUCCESS);
    return NULL;
}

static void mooncake_learns_the_device_from_the_pointer(void **state)
{
    struct block b = block_create(CHUNK);

    assert_null(run_thread(copy_by_the_pointers_device, b.va));
    assert_pattern(b.va, 1000, 8);
    block_destroy(&b);
}

/* The special reservation where the processor has it, else a plain one. */
static void *mooncake_reserve(size_t size)
{
    void *va = NULL;
    aclError rc = aclrtReserveMemAddressNoUCMemory(&va, size, 0, (void *)(78 * TIB), 0);

    if (rc == ACL_ERROR_RT_FEATURE_NOT_SUPPORT)
        return reserve(size);
    assert_int_equal(rc, ACL_SUCCESS);
    return va;
}

static void mooncake_shares_a_segment_on_any_product(void **state)
{
    static const char *const products[] = {"ACLMEM_PRODUCT=A2", "ACLMEM_PRODUCT=A3"};

    if (!is_free_range(78 * TIB, GIB))
        return;
    for (size_t i = 0; i < 2; i++) {
        struct block b = {.size = 8 * CHUNK};

        start("default", products[i], "ACLMEM_DEVICES=4",
              "ASCEND_RT_VISIBLE_DEVICES=2,3");
        allow_warnings();
        assert_acl_ok(aclrtSetDevice(0));
        b.va = mooncake_reserve(GIB);
        b.handle = alloc(b.size);
        map(b.va, b.size, b.handle);
        assert_acl_ok(set_access(b.va, b.size, ACL_MEM_LOCATION_TYPE_DEVICE, 2,
                                 ACL_RT_MEM_ACCESS_FLAGS_READWRITE));
        put_pattern(b.va, b.size, i);
        assert_pattern(b.va, b.size, i);
        block_destroy(&b);
        assert_acl_ok(aclFinalize());
    }
}

/* ---- hixl, shmem, simpler ---- */

static void hixl_maps_slots_of_one_enormous_reservation(void **state)
{
    static const size_t slots[] = {0, 1, 7000, 32767};
    aclrtDrvMemHandle handles[4];
    char *base;

    if (!is_free_range(40 * TIB, 32 * TIB))
        return;
    base = reserve_at((void *)(40 * TIB), 32 * TIB);
    assert_ptr_equal(base, (void *)(40 * TIB));
    for (size_t i = 0; i < 4; i++) {
        char *slot = base + slots[i] * GIB;
        void *start_of = NULL;
        size_t size = 0;

        handles[i] = i % 2 == 0 ? alloc(4 * CHUNK) : alloc_host(4 * CHUNK);
        map(slot, 4 * CHUNK, handles[i]);
        assert_acl_ok(set_access(slot, 4 * CHUNK,
                                 i % 2 == 0 ? ACL_MEM_LOCATION_TYPE_DEVICE
                                            : ACL_MEM_LOCATION_TYPE_HOST,
                                 0, ACL_RT_MEM_ACCESS_FLAGS_READWRITE));
        put_pattern(slot, 4 * CHUNK, i);
        assert_acl_ok(aclrtMemGetAddressRange(slot + 3 * CHUNK + 1, &start_of, &size));
        assert_ptr_equal(start_of, slot);
        assert_int_equal(size, 4 * CHUNK);
    }
    for (size_t i = 0; i < 4; i++) {
        assert_pattern(base + slots[i] * GIB, 4 * CHUNK, i);
        assert_acl_ok(aclrtUnmapMem(base + slots[i] * GIB));
        assert_acl_ok(aclrtFreePhysical(handles[i]));
    }
    assert_acl_ok(aclrtReleaseMemAddress(base));
}

static void shmem_learns_a_base_and_takes_it_piece_by_piece(void **state)
{
    enum { RANKS = 4 };
    const size_t piece = GIB;
    aclrtPhysicalMemProp prop = located_prop(ACL_MEM_LOCATION_TYPE_HOST_NUMA, UINT32_MAX,
                                             ACL_MEM_P2P_HUGE); /* node -1: any */
    char *base = reserve(RANKS * piece);
    aclrtDrvMemHandle handles[RANKS];

    assert_acl_ok(aclrtReleaseMemAddress(base));
    /* With the thread sanitizer the kernel gives them to the next mapping of any kind. */
    if (!is_free_range((uintptr_t)base, RANKS * piece))
        return;
    for (size_t i = 0; i < RANKS; i++) {
        assert_ptr_equal(reserve_at(base + i * piece, piece), base + i * piece);
        if (i == 0)
            assert_acl_ok(aclrtMallocPhysical(&handles[i], 2 * CHUNK, &prop, 0));
        else
            handles[i] = alloc(2 * CHUNK);
        map(base + i * piece, 2 * CHUNK, handles[i]);
        put_pattern(base + i * piece, 2 * CHUNK, i);
    }
    for (size_t i = 0; i < RANKS; i++) {
        assert_pattern(base + i * piece, 2 * CHUNK, i);
        assert_acl_ok(aclrtUnmapMem(base + i * piece));
        assert_acl_ok(aclrtFreePhysical(handles[i]));
        assert_acl_ok(aclrtReleaseMemAddress(base + i * piece));
    }
}

static void simpler_leaves_the_rest_to_the_reset(void **state)
{
    aclrtPhysicalMemProp prop = device_prop(0, ACL_HBM_MEM_NORMAL);
    aclrtDrvMemHandle handle = NULL;
    void *va = NULL;

    allow_warnings();
    assert_acl_ok(aclrtReserveMemAddress(&va, CHUNK, 0, NULL, 0));
    assert_acl_ok(aclrtMallocPhysical(&handle, CHUNK, &prop, 0));
    map(va, CHUNK, handle);
    put_pattern(va, CHUNK, 1);
    (void)alloc(CHUNK);
    assert_acl_ok(aclrtResetDevice(0));
    assert_int_equal(stats().handles, 0);
    assert_acl_ok(aclrtReleaseMemAddress(va));
    assert_acl_ok(aclrtSetDevice(0));
    assert_int_equal(free_memory(), total_memory());
}

/* ---- xLLM, MindSpore, torch_memory_saver ---- */

static void xllm_shows_every_handle_in_every_space(void **state)
{
    enum { SPACES = 4, PAGES = 8 };
    aclrtDrvMemHandle pages[PAGES];
    char *space[SPACES];

    for (size_t p = 0; p < PAGES; p++)
        pages[p] = alloc(CHUNK);
    for (size_t s = 0; s < SPACES; s++) {
        void *va = NULL;

        assert_acl_ok(aclrtReserveMemAddress(&va, GIB + GIB / 8, 0, NULL, 0));
        space[s] = va;
        for (size_t p = 0; p < PAGES; p++) /* each space in an order of its own */
            map(space[s] + (p + s) % PAGES * CHUNK, CHUNK, pages[p]);
    }
    for (size_t p = 0; p < PAGES; p++)
        put_pattern(space[0] + p * CHUNK, CHUNK, p);
    for (size_t s = 0; s < SPACES; s++) {
        for (size_t p = 0; p < PAGES; p++)
            assert_pattern(space[s] + (p + s) % PAGES * CHUNK, CHUNK, p);
    }
    assert_int_equal(free_memory(), GIB - PAGES * CHUNK);
    for (size_t s = 0; s < SPACES; s++) {
        for (size_t p = 0; p < PAGES; p++)
            assert_acl_ok(aclrtUnmapMem(space[s] + p * CHUNK));
        assert_acl_ok(aclrtReleaseMemAddress(space[s]));
    }
    for (size_t p = 0; p < PAGES; p++)
        assert_acl_ok(aclrtFreePhysical(pages[p]));
}

/* "Eager free" is only an unmap; handles wait on a stack and the last is used first. */
static void mindspore_keeps_a_stack_of_handles(void **state)
{
    enum { N = 16 };
    aclrtDrvMemHandle stack[N];
    char *base = reserve(4 * N * CHUNK);
    size_t top = 0;

    for (size_t i = 0; i < N; i++)
        stack[top++] = alloc(CHUNK);
    for (size_t round = 0; round < 4; round++) {
        aclrtDrvMemHandle mapped[N];

        for (size_t i = 0; i < N; i++) {
            mapped[i] = stack[--top];
            map(base + (round * N + i) * CHUNK, CHUNK, mapped[i]);
        }
        put_pattern(base + round * N * CHUNK, N * CHUNK, round);
        assert_pattern(base + round * N * CHUNK, N * CHUNK, round);
        for (size_t i = 0; i < N; i++) {
            assert_acl_ok(aclrtUnmapMem(base + (round * N + i) * CHUNK));
            stack[top++] = mapped[i];
        }
    }
    while (top > 0)
        assert_acl_ok(aclrtFreePhysical(stack[--top]));
    assert_acl_ok(aclrtReleaseMemAddress(base));
}

static void memory_saver_uses_raw_sizes_and_the_same_address(void **state)
{
    const size_t raw = 3 * MIB + 777;
    struct block b = {.size = raw};
    uint8_t *kept = malloc(raw);

    assert_non_null(kept);
    b.handle = alloc(raw);
    b.va = reserve(raw);
    map(b.va, raw, b.handle);
    put_pattern(b.va, raw, 9);
    assert_acl_ok(copy(kept, b.va, raw, ACL_MEMCPY_DEVICE_TO_HOST));
    assert_acl_ok(aclrtUnmapMem(b.va));
    assert_acl_ok(aclrtFreePhysical(b.handle));
    b.handle = alloc(raw);
    map(b.va, raw, b.handle);
    assert_acl_ok(copy(b.va, kept, raw, ACL_MEMCPY_HOST_TO_DEVICE));
    assert_pattern(b.va, raw, 9);
    free(kept);
    block_destroy(&b);
}

int main(void)
{
    const struct CMUnitTest claims[] = {
        claim(torch_probes_with_512_bytes),
        claim(torch_expands_a_segment_and_leaves_holes),
        claim(torch_keeps_handles_and_maps_them_elsewhere),
        claim_alone(torch_rolls_back_when_memory_runs_out),
        claim_alone(torch_uses_segments_of_a_gibibyte),
        claim(torch_expands_host_memory_with_a_device_attribute),
        claim_alone(vllm_makes_a_context_where_there_is_none),
        claim(vllm_sleeps_and_wakes_at_the_same_address),
        claim_alone(llama_asks_for_the_granularity_of_every_device_first),
        claim(llama_grows_a_pool_over_handle_boundaries),
        claim(mooncake_climbs_down_until_host_memory_is_given),
        claim(mooncake_retains_by_address_and_frees_what_it_got),
        claim(mooncake_learns_the_device_from_the_pointer),
        claim_alone(mooncake_shares_a_segment_on_any_product),
        claim(hixl_maps_slots_of_one_enormous_reservation),
        claim(shmem_learns_a_base_and_takes_it_piece_by_piece),
        claim(simpler_leaves_the_rest_to_the_reset),
        claim(xllm_shows_every_handle_in_every_space),
        claim(mindspore_keeps_a_stack_of_handles),
        claim(memory_saver_uses_raw_sizes_and_the_same_address),
    };

    return run_claims(claims);
}
