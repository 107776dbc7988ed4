/*
 * The pool beside a shadow: random blocks on random streams, each filled with a number of its
 * own in stream order.  A block whose bytes are another's when it is freed was shared, lost its
 * memory, or was given while the work of its last owner was queued.
 */
#include <stdlib.h>
#include <string.h>

#include "aclmem/pool.h"
#include "support/support.h"

#define N_STREAMS 5
#define N_BLOCKS 120
#define STEPS 2000

struct block {
    char *ptr;
    size_t size;
    unsigned stream;
    unsigned char byte;
    uint32_t tag;
};

static uint64_t seed;

static size_t below(size_t n)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (size_t)(seed >> 11) % n;
}

static size_t random_size(void)
{
    static const size_t largest[] = {4 * KIB, 200 * KIB, 3 * MIB, 12 * MIB};

    return 1 + below(largest[below(4)]);
}

static void block_check(const struct block *b, aclrtStream stream)
{
    size_t n = b->size < 4096 ? b->size : 4096;
    unsigned char first[4096], last[4096];

    assert_acl_ok(aclrtSynchronizeStream(stream));
    assert_acl_ok(aclrtMemcpy(first, n, b->ptr, n, ACL_MEMCPY_DEVICE_TO_HOST));
    assert_acl_ok(
        aclrtMemcpy(last, n, b->ptr + b->size - n, n, ACL_MEMCPY_DEVICE_TO_HOST));
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(first[i], b->byte);
        assert_int_equal(last[i], b->byte);
    }
}

static void block_make(aclmem_pool *pool, struct block *b, aclrtStream *streams)
{
    void *ptr;
    aclError rc;

    b->size = random_size();
    b->stream = (unsigned)below(N_STREAMS);
    b->byte = (unsigned char)below(256);
    b->tag = (uint32_t)below(3);
    rc = aclmem_pool_malloc_tagged(pool, b->size, streams[b->stream], b->tag,
                                   below(20) == 0 ? ACLMEM_POOL_EXPORTABLE : 0, &ptr);
    if (rc == ACL_ERROR_RT_MEMORY_ALLOCATION)
        return;
    assert_int_equal(rc, ACL_SUCCESS);
    b->ptr = ptr;
    assert_acl_ok(aclrtMemsetAsync(ptr, b->size, b->byte, b->size, streams[b->stream]));
}

/* Two in three are freed with their work queued. */
static void block_end(aclmem_pool *pool, struct block *b, aclrtStream *streams)
{
    if (below(3) == 0)
        block_check(b, streams[b->stream]);
    if (below(4) == 0) {
        aclrtStream other = streams[below(N_STREAMS)];
        aclrtEvent event;

        /* Work of another stream, after the work of the first. */
        assert_acl_ok(aclrtCreateEventExWithFlag(&event, ACL_EVENT_SYNC));
        assert_acl_ok(aclrtRecordEvent(event, streams[b->stream]));
        assert_acl_ok(aclrtStreamWaitEvent(other, event));
        assert_acl_ok(aclrtMemsetAsync(b->ptr, b->size, b->byte, b->size, other));
        assert_acl_ok(aclmem_pool_use(pool, b->ptr, other));
        assert_acl_ok(aclrtDestroyEvent(event));
    }
    assert_acl_ok(aclmem_pool_free(pool, b->ptr));
    b->ptr = NULL;
}

static void run(uint64_t first_seed, uint64_t flags)
{
    aclmem_pool_options options = {.limit = 300 * MIB, .flags = flags};
    struct block blocks[N_BLOCKS] = {{0}};
    aclrtStream streams[N_STREAMS];
    aclmem_pool_stats stats;
    aclmem_pool *pool;

    seed = first_seed;
    assert_acl_ok(aclmem_pool_create(0, &options, &pool));
    for (unsigned i = 0; i < N_STREAMS; i++)
        assert_acl_ok(aclrtCreateStream(&streams[i]));
    for (unsigned step = 0; step < STEPS; step++) {
        struct block *b = &blocks[below(N_BLOCKS)];
        uint32_t tag = (uint32_t)below(3);

        if (b->ptr == NULL)
            block_make(pool, b, streams);
        else
            block_end(pool, b, streams);
        if (step % 500 == 499) {
            assert_acl_ok(aclmem_pool_sleep(pool, tag, 1));
            assert_acl_ok(aclmem_pool_wake(pool, tag));
        }
        if (step % 300 == 299)
            assert_acl_ok(aclmem_pool_trim(pool, below(100 * MIB)));
    }
    assert_acl_ok(aclmem_pool_get_stats(pool, &stats));
    assert_true(stats.peak_held <= options.limit);
    for (unsigned i = 0; i < N_BLOCKS; i++) {
        if (blocks[i].ptr != NULL) {
            block_check(&blocks[i], streams[blocks[i].stream]);
            assert_acl_ok(aclmem_pool_free(pool, blocks[i].ptr));
        }
    }
    assert_acl_ok(aclmem_pool_destroy(pool));
    for (unsigned i = 0; i < N_STREAMS; i++)
        assert_acl_ok(aclrtDestroyStream(streams[i]));
}

static void no_block_has_the_bytes_of_another(void **state)
{
    run(12345, 0);
    run(67890, ACLMEM_POOL_ALIASES);
}

int main(void)
{
    const struct CMUnitTest claims[] = {
        claim_both(no_block_has_the_bytes_of_another),
    };

    return run_claims(claims);
}
