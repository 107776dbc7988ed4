/* Threads with streams of their own, and blocks that one takes and another frees. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "aclmem/pool.h"
#include "support/support.h"

#define N_THREADS 8
#define N_STEPS 600
#define N_SHARED 64

static aclmem_pool *pool;
static _Atomic(void *) shared[N_SHARED];
static atomic_int n_failed;

static void must(aclError rc)
{
    if (rc != ACL_SUCCESS)
        atomic_fetch_add(&n_failed, 1);
}

static void *worker(void *arg)
{
    uint64_t seed = 88172645463325252 + (uintptr_t)arg * 7919;
    aclrtStream stream;

    must(aclrtSetDevice(0));
    must(aclrtCreateStream(&stream));
    for (unsigned i = 0; i < N_STEPS; i++) {
        size_t size, slot;
        void *ptr;

        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        size = 1 + (seed >> 20) % (seed % 5 == 0 ? 6 * MIB : 64 * KIB);
        slot = (seed >> 8) % N_SHARED;
        if (i % 3 == 0)
            size = 4096 * (1 + seed % 4); /* mostly hits */
        must(
            aclmem_pool_malloc_tagged(pool, size, stream, (uint32_t)(seed % 3), 0, &ptr));
        must(aclrtMemsetAsync(ptr, size, 1, size, stream));
        if (i % 7 == 0) {
            ptr = atomic_exchange(&shared[slot], ptr);
            /* Another thread's, with work of its stream queued. */
            if (ptr != NULL)
                must(aclmem_pool_use(pool, ptr, stream));
        }
        if (ptr != NULL)
            must(aclmem_pool_free(pool, ptr));
        if (i % 200 == 199)
            must(aclmem_pool_trim(pool, 0));
        if (i % 250 == 249) {
            aclmem_pool_stats stats;
            char *json;

            must(aclmem_pool_get_stats(pool, &stats));
            must(aclmem_pool_snapshot(pool, &json));
            free(json);
        }
    }
    must(aclmem_pool_forget_stream(pool, stream));
    must(aclrtDestroyStream(stream));
    must(aclrtResetDevice(0));
    return NULL;
}

static void threads_share_a_pool(void **state)
{
    aclmem_pool_options options = {.flags = ACLMEM_POOL_ALIASES};
    pthread_t threads[N_THREADS];
    aclmem_pool_stats stats;

    assert_acl_ok(aclmem_pool_create(0, &options, &pool));
    for (uintptr_t i = 0; i < N_THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, worker, (void *)i), 0);
    for (unsigned i = 0; i < N_THREADS; i++)
        pthread_join(threads[i], NULL);
    for (unsigned i = 0; i < N_SHARED; i++) {
        void *ptr = atomic_exchange(&shared[i], NULL);

        if (ptr != NULL)
            assert_acl_ok(aclmem_pool_free(pool, ptr));
    }
    assert_int_equal(n_failed, 0);
    assert_acl_ok(aclmem_pool_get_stats(pool, &stats));
    assert_int_equal(stats.live, 0);
    assert_int_equal(stats.n_live, 0);
    assert_int_equal(stats.mallocs, N_THREADS * N_STEPS);
    assert_acl_ok(aclmem_pool_destroy(pool));
}

enum { TAG_SLEEPER = 1, TAG_AWAKE, TAG_KEPT, SLEEPS = 400, REUSES = 4000 };
static pthread_barrier_t start;

/* The same block is one of either tag in turn. */
static void *reuser(void *arg)
{
    aclrtStream stream;

    must(aclrtSetDevice(0));
    must(aclrtCreateStream(&stream));
    pthread_barrier_wait(&start);
    for (unsigned i = 0; i < REUSES; i++) {
        void *ptr;

        must(aclmem_pool_malloc_tagged(pool, 4096, stream, TAG_SLEEPER, 0, &ptr));
        must(aclmem_pool_free(pool, ptr));
        must(aclmem_pool_malloc_tagged(pool, 4000 + i % 96, stream, TAG_AWAKE, 0, &ptr));
        /* Either fails where there is no memory. */
        must(i % 2 == 0 ? aclrtMemset(ptr, 4000, 1, 4000)
                        : aclrtMemsetAsync(ptr, 4000, 1, 4000, stream));
        must(aclmem_pool_free(pool, ptr));
    }
    must(aclmem_pool_forget_stream(pool, stream));
    must(aclrtDestroyStream(stream));
    must(aclrtResetDevice(0));
    return NULL;
}

/* Blocks with a separate tag keep their contents, whatever other threads put to sleep. */
static void *keeper(void *arg)
{
    void *ptr;

    must(aclrtSetDevice(0));
    must(aclmem_pool_malloc_tagged(pool, 5000, NULL, TAG_KEPT, 0, &ptr));
    pthread_barrier_wait(&start);
    for (unsigned i = 0; i < SLEEPS; i++) {
        unsigned char byte = 0;

        must(aclrtMemset(ptr, 5000, (int)i % 256, 5000));
        must(aclmem_pool_sleep(pool, TAG_KEPT, 1));
        must(aclmem_pool_wake(pool, TAG_KEPT));
        must(aclrtMemcpy(&byte, 1, ptr, 1, ACL_MEMCPY_DEVICE_TO_HOST));
        must(byte == i % 256 ? ACL_SUCCESS : ACL_ERROR_FAILURE);
    }
    must(aclmem_pool_free(pool, ptr));
    must(aclrtResetDevice(0));
    return NULL;
}

static void a_sleep_leaves_blocks_of_another_tag_alone(void **state)
{
    aclmem_pool_stats stats;
    pthread_t threads[3];

    assert_acl_ok(aclmem_pool_create(0, NULL, &pool));
    assert_int_equal(pthread_barrier_init(&start, NULL, 4), 0);
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(
            pthread_create(&threads[i], NULL, i == 0 ? keeper : reuser, NULL), 0);
    pthread_barrier_wait(&start);
    for (unsigned i = 0; i < SLEEPS; i++) {
        must(aclmem_pool_sleep(pool, TAG_SLEEPER, i % 2 == 0));
        must(aclmem_pool_wake(pool, TAG_SLEEPER));
    }
    for (unsigned i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&start);
    assert_int_equal(n_failed, 0);
    assert_acl_ok(aclmem_pool_get_stats(pool, &stats));
    assert_int_equal(stats.n_live, 0);
    assert_int_equal(stats.asleep, 0);
    assert_acl_ok(aclmem_pool_destroy(pool));
}

int main(void)
{
    const struct CMUnitTest claims[] = {
        claim_both(threads_share_a_pool),
        claim_both(a_sleep_leaves_blocks_of_another_tag_alone),
    };

    return run_claims(claims);
}
