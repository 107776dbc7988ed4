/* One process that starts the library with one backend after the other. */
#include <stdlib.h>
#include <string.h>

#include "support/blocks.h"
#include "support/events.h"
#include "support/pools.h"
#include "support/vmm.h"
#include "support/work.h"

static char *registered; /* memory of the program's own */

static void begin(const char *backend)
{
    setenv("ACLMEM_BACKEND", backend, 1);
    start("default");
    assert_acl_ok(aclrtSetDevice(0));
    assert_int_equal(free_memory(), total_memory());
}

/* Some of each kind, all of it used; is_unreleased: nothing is given back. */
static void use_all(uint64_t seed, bool is_unreleased)
{
    struct block b = block_create(3 * CHUNK), h = block_create_host(CHUNK);
    aclrtStream stream = make_stream();
    aclrtEvent event = make_event();
    aclrtMemPool pool = pool_create(8 * CHUNK);
    char *small = device_malloc(1000), *large = device_malloc(5 * CHUNK);
    char *pinned = host_malloc(100000);
    char *pooled = take(pool, 3 * CHUNK, stream);
    void *managed = NULL;

    assert_acl_ok(aclrtMemAllocManaged(&managed, CHUNK, ACL_RT_MEM_ATTACH_GLOBAL));
    assert_acl_ok(aclrtHostRegisterV2(registered, CHUNK, ACL_HOST_REG_PINNED));
    fill((uint8_t *)registered, CHUNK, seed);
    put_pattern(b.va, 3 * CHUNK, seed);
    put_pattern(h.va, CHUNK, seed + 1);
    put_pattern(small, 1000, seed + 2);
    put_pattern(large, 5 * CHUNK, seed + 3);
    put_pattern(managed, CHUNK, seed + 4);
    assert_acl_ok(aclrtMemcpyAsync(pooled, CHUNK, registered, CHUNK,
                                   ACL_MEMCPY_HOST_TO_DEVICE, stream));
    assert_acl_ok(
        aclrtMemcpyAsync(pinned, 1000, small, 1000, ACL_MEMCPY_DEVICE_TO_HOST, stream));
    assert_acl_ok(aclrtRecordEvent(event, stream));
    assert_acl_ok(aclrtSynchronizeEvent(event));
    assert_true(is_filled((uint8_t *)pinned, 1000, seed + 2));
    assert_pattern(pooled, CHUNK, seed);
    assert_pattern(b.va, 3 * CHUNK, seed);
    assert_pattern(h.va, CHUNK, seed + 1);
    assert_pattern(large, 5 * CHUNK, seed + 3);
    assert_pattern(managed, CHUNK, seed + 4);
    if (is_unreleased)
        return;
    assert_acl_ok(aclrtMemPoolFreeAsync(pooled, stream));
    end_stream(stream);
    assert_acl_ok(aclrtMemPoolDestroy(pool));
    assert_acl_ok(aclrtDestroyEvent(event));
    assert_acl_ok(aclrtHostUnregister(registered));
    assert_acl_ok(aclrtFree(managed));
    host_free(pinned);
    device_free(large);
    device_free(small);
    block_destroy(&h);
    block_destroy(&b);
}

static void backends_come_after_each_other(void **state)
{
    static const char *const order[] = {"host", "cuda", "host", "cuda", "cuda", "host"};

    registered = aligned_alloc(CHUNK, CHUNK);
    for (size_t i = 0; i < sizeof order / sizeof order[0]; i++) {
        begin(order[i]);
        use_all(10 * i, false);
        assert_acl_ok(aclFinalize());
        begin(order[i]);
        use_all(10 * i + 1, true);
        assert_acl_ok(aclFinalize());
    }
    start("default");
    free(registered);
}

/* A view lives until it is ended, with the backend that it was opened by. */
static void a_view_outlives_its_backend(void **state)
{
    char *large, *small;
    void *view[3];
    struct block b;

    begin("host");
    large = device_malloc(5 * CHUNK);
    small = device_malloc(1000);
    b = block_create(CHUNK);
    assert_acl_ok(aclmem_host_view(large, 5 * CHUNK, &view[0]));
    assert_acl_ok(aclmem_host_view(small, 1000, &view[1]));
    assert_acl_ok(aclmem_host_view(b.va, CHUNK, &view[2]));
    assert_acl_ok(aclFinalize());
    begin("cuda");
    registered = aligned_alloc(CHUNK, CHUNK);
    use_all(1, false);
    memset(view[0], 1, 5 * CHUNK);
    memset(view[1], 2, 1000);
    memset(view[2], 3, CHUNK);
    for (size_t i = 0; i < 3; i++)
        assert_acl_ok(aclmem_host_view_end(view[i]));
    use_all(2, false);
    assert_acl_ok(aclFinalize());
    begin("host");
    use_all(3, false);
    free(registered);
}

int main(void)
{
    const struct CMUnitTest claims[] = {
        claim_alone(backends_come_after_each_other),
        claim_alone(a_view_outlives_its_backend),
    };

    return run_claims(claims);
}
