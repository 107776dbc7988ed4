/*
 * Blocks against a shadow: random sizes come and go, of the device and of the host, in
 * one thread and in many.  No two overlap, each is aligned, and each keeps what was
 * written into it until it is freed.
 */
#include "support/blocks.h"
#include "support/process.h"
#include "support/vmm.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LIVE_MAX = 300, EDGE = 512 };

struct live {
    char *addr;
    size_t size;
    uint64_t seed;
    bool is_host;
};

/* What one thread has. */
struct shadow {
    struct live live[LIVE_MAX];
    size_t n;
    uint64_t random;
    uint64_t next_seed;
};

/* Mostly small, sometimes large, often at an edge. */
static size_t random_size(uint64_t *random)
{
    static const size_t edges[] = {64, 1024, 4096, 32 * KIB, 64 * KIB, MIB, 2 * MIB};
    size_t shift =
        random_to(random, 100) < 97 ? random_to(random, 17) : random_to(random, 23);
    size_t size = 1 + random_to(random, (size_t)1 << shift);

    if (random_to(random, 8) == 0)
        size = edges[random_to(random, 7)] + random_to(random, 120) - 60;
    return size;
}

/* The first and the last bytes of a block are written, by the program or by a copy. */
static aclError edges_write(const struct live *l)
{
    uint8_t bytes[2 * EDGE];
    size_t n = l->size < 2 * EDGE ? l->size : EDGE;
    aclError rc;

    fill(bytes, sizeof(bytes), l->seed);
    if (l->is_host) {
        memcpy(l->addr, bytes, n);
        memcpy(l->addr + l->size - n, bytes + (n < l->size ? EDGE : 0), n);
        return ACL_SUCCESS;
    }
    rc = copy(l->addr, bytes, n, ACL_MEMCPY_HOST_TO_DEVICE);
    if (rc == ACL_SUCCESS && n < l->size)
        rc = copy(l->addr + l->size - n, bytes + EDGE, n, ACL_MEMCPY_HOST_TO_DEVICE);
    return rc;
}

static bool edges_are_right(const struct live *l)
{
    uint8_t bytes[2 * EDGE];
    uint8_t found[2 * EDGE];
    size_t n = l->size < 2 * EDGE ? l->size : EDGE;
    aclrtMemcpyKind kind =
        l->is_host ? ACL_MEMCPY_HOST_TO_HOST : ACL_MEMCPY_DEVICE_TO_HOST;

    fill(bytes, sizeof(bytes), l->seed);
    if (copy(found, l->addr, n, kind) != ACL_SUCCESS || memcmp(found, bytes, n) != 0)
        return false;
    if (n == l->size)
        return true;
    return copy(found, l->addr + l->size - n, n, kind) == ACL_SUCCESS &&
           memcmp(found, bytes + EDGE, n) == 0;
}

static bool overlaps(const struct shadow *s, const struct live *l)
{
    for (size_t i = 0; i < s->n; i++) {
        const struct live *other = &s->live[i];

        if (l->addr < other->addr + other->size && other->addr < l->addr + l->size)
            return true;
    }
    return false;
}

static const char *shadow_malloc(struct shadow *s)
{
    struct live l = {
        .size = random_size(&s->random),
        .seed = ++s->next_seed,
        .is_host = random_to(&s->random, 4) == 0,
    };
    aclError rc = l.is_host ? aclrtMallocHost((void **)&l.addr, l.size)
                            : aclrtMalloc((void **)&l.addr, l.size,
                                          (aclrtMemMallocPolicy)random_to(&s->random, 6));

    if (rc == ACL_ERROR_RT_MEMORY_ALLOCATION)
        return NULL;
    worker_check(rc == ACL_SUCCESS);
    worker_check((uintptr_t)l.addr % 64 == 0);
    worker_check(!overlaps(s, &l));
    worker_check(edges_write(&l) == ACL_SUCCESS);
    s->live[s->n++] = l;
    return NULL;
}

static const char *live_free(const struct live *l)
{
    worker_check(edges_are_right(l));
    worker_check((l->is_host ? aclrtFreeHost : aclrtFree)(l->addr) == ACL_SUCCESS);
    return NULL;
}

static const char *shadow_free(struct shadow *s, size_t i)
{
    struct live l = s->live[i];

    s->live[i] = s->live[--s->n];
    return live_free(&l);
}

static const char *shadow_step(struct shadow *s)
{
    size_t what = random_to(&s->random, 100);

    if (s->n == 0 || (what < 48 && s->n < LIVE_MAX))
        return shadow_malloc(s);
    if (what < 90)
        return shadow_free(s, random_to(&s->random, s->n));
    worker_check(edges_are_right(&s->live[random_to(&s->random, s->n)]));
    return NULL;
}

static const char *shadow_end(struct shadow *s)
{
    const char *failure = NULL;

    while (s->n > 0 && failure == NULL)
        failure = shadow_free(s, s->n - 1);
    return failure;
}

static void one_thread_against_the_shadow(void **state)
{
    static struct shadow s;
    const char *failure = NULL;

    need_locked(256 * MIB);
    for (uint64_t seed = 1; seed <= 10; seed++) {
        s = (struct shadow){.random = seed};
        for (int i = 0; i < 5000 && failure == NULL; i++)
            failure = shadow_step(&s);
        if (failure != NULL)
            fail_msg("seed %llu: %s", (unsigned long long)seed, failure);
        assert_int_equal(stats().blocks + stats().host_blocks, s.n);
        failure = shadow_end(&s);
        if (failure != NULL)
            fail_msg("seed %llu, at the end: %s", (unsigned long long)seed, failure);
        assert_int_equal(free_memory(), total_memory());
    }
}

static void little_memory_against_the_shadow(void **state)
{
    start("default", "ACLMEM_MEMORY=16M");
    assert_acl_ok(aclrtSetDevice(0));
    one_thread_against_the_shadow(state);
}

/* ---- threads ---- */

enum { THREADS = 6, MAILBOXES = 16, MOST = 100000 };

struct shared {
    /* blocks that any thread may take and free */
    _Atomic(struct live *) mailbox[MAILBOXES];
    atomic_uint n_freed; /* frees of the other thread that went well */
    atomic_bool is_over;
    atomic_uint n_resets;
    atomic_uint n_ready; /* threads at work */
};

/* One block goes to whoever comes by, and what lay there is freed by this thread. */
static const char *exchange(struct shadow *s, struct shared *shared)
{
    struct live *mine = NULL;
    struct live *found;
    const char *failure = NULL;

    if (s->n > 0) {
        mine = malloc(sizeof(*mine));
        worker_check(mine != NULL);
        *mine = s->live[--s->n];
    }
    found = atomic_exchange(&shared->mailbox[random_to(&s->random, MAILBOXES)], mine);
    if (found != NULL)
        failure = live_free(found);
    free(found);
    return failure;
}

static const char *trade(struct worker *self)
{
    struct shadow *s = calloc(1, sizeof(*s));
    const char *failure = NULL;

    worker_check(s != NULL && aclrtSetDevice(0) == ACL_SUCCESS);
    s->random = self->index;
    s->next_seed = (uint64_t)self->index << 32;
    for (int i = 0; i < 4000 && failure == NULL; i++)
        failure = i % 5 == 0 ? exchange(s, self->shared) : shadow_step(s);
    if (failure == NULL)
        failure = shadow_end(s);
    free(s);
    return failure;
}

/*
 * Takes all there is again and again, so that what others keep for later is taken from
 * them, until those are done or it has been often enough.
 */
static const char *press(struct worker *self)
{
    struct shared *shared = self->shared;

    worker_check(aclrtSetDevice(0) == ACL_SUCCESS);
    for (unsigned i = 0; i < MOST && !shared->is_over; i++) {
        aclrtPhysicalMemProp prop = device_prop(0, ACL_HBM_MEM_HUGE);
        aclrtDrvMemHandle handle = NULL;
        size_t free_now = 0, total = 0;
        aclError rc;

        worker_check(aclrtGetMemInfo(ACL_HBM_MEM, &free_now, &total) == ACL_SUCCESS);
        worker_check(free_now <= total);
        if (free_now > 0) {
            rc = aclrtMallocPhysical(&handle, free_now, &prop, 0);
            worker_check(rc == ACL_SUCCESS || rc == ACL_ERROR_RT_MEMORY_ALLOCATION);
            if (rc == ACL_SUCCESS)
                worker_check(aclrtFreePhysical(handle) == ACL_SUCCESS);
        }
        sched_yield();
    }
    return NULL;
}

static void run_trade(unsigned n_rounds, unsigned n_set)
{
    static struct shared shared;
    struct worker presser = {.run = press, .shared = &shared, .index = THREADS};
    struct worker workers[THREADS];

    memset(&shared, 0, sizeof(shared));
    assert_int_equal(worker_start(&presser), 0);
    for (unsigned round = 0; round < n_rounds;
         round++) { /* threads end, and others begin */
        for (unsigned i = 0; i < THREADS; i++)
            workers[i] = (struct worker){.run = trade, .shared = &shared};
        assert_null(run_workers(workers, THREADS));
    }
    shared.is_over = true;
    assert_null(worker_join(&presser));
    for (unsigned i = 0; i < MAILBOXES; i++) {
        if (shared.mailbox[i] != NULL)
            assert_null(live_free(shared.mailbox[i]));
        free(shared.mailbox[i]);
    }
    assert_int_equal(free_memory(), total_memory());
    for (unsigned i = 0; i < n_set; i++)
        assert_acl_ok(aclrtResetDevice(0));
}

static void threads_trade_blocks(void **state)
{
    run_trade(2, 2 * THREADS + 1);
}

static void threads_trade_blocks_where_memory_is_short(void **state)
{
    start("default", "ACLMEM_MEMORY=32M");
    assert_acl_ok(aclrtSetDevice(0));
    run_trade(2, 2 * THREADS + 1);
}

/*
 * Large blocks of many sizes, of which only a few find room: the memory of one serves
 * another, of another size, all the time.  Some of the threads belong to a module.
 */
static const char *crowd(struct worker *self)
{
    aclrtMallocAttribute module = {.attr = ACL_RT_MEM_ATTR_MODULE_ID,
                                   .value.moduleId = 5};
    aclrtMallocConfig config = {.attrs = &module, .numAttrs = 1};
    uint64_t random = self->index;

    worker_check(aclrtSetDevice(0) == ACL_SUCCESS);
    for (int i = 0; i < 10000; i++) {
        size_t size = (1 + random_to(&random, 6)) * CHUNK + 64;
        size_t found = 0;
        void *p = NULL;
        void *start = NULL;
        aclError rc =
            self->index % 4 != 0
                ? aclrtMalloc(&p, size, ACL_MEM_MALLOC_HUGE_FIRST)
                : aclrtMallocWithCfg(&p, size, ACL_MEM_MALLOC_HUGE_FIRST, &config);

        worker_check(rc == ACL_SUCCESS || rc == ACL_ERROR_RT_MEMORY_ALLOCATION);
        if (rc != ACL_SUCCESS)
            continue;
        sched_yield();
        worker_check(aclrtMemGetAddressRange(p, &start, &found) == ACL_SUCCESS);
        worker_check(start == p && found >= size && found < size + CHUNK);
        worker_check(aclrtFree(p) == ACL_SUCCESS);
    }
    return NULL;
}

static void large_blocks_keep_their_sizes_where_memory_is_short(void **state)
{
    enum { MANY = 12 };
    struct worker workers[MANY];
    aclrtMemUsageInfo usage[MAX_MODULE_NUM];
    size_t n = 0;

    start("default", "ACLMEM_MEMORY=48M");
    assert_acl_ok(aclrtSetDevice(0));
    for (unsigned i = 0; i < MANY; i++)
        workers[i] = (struct worker){.run = crowd};
    assert_null(run_workers(workers, MANY));
    assert_acl_ok(aclrtGetMemUsageInfo(0, usage, MAX_MODULE_NUM, &n));
    for (size_t i = 0; i < n; i++)
        assert_int_equal(usage[i].curMemSize, 0);
    assert_int_equal(free_memory(), total_memory());
    assert_acl_ok(aclrtResetDeviceForce(0));
}

/* What a thread that has ended kept for later is there for others. */
static const char *use_and_leave(struct worker *self)
{
    static char *p[1000];

    worker_check(aclrtSetDevice(0) == ACL_SUCCESS);
    for (size_t i = 0; i < 1000; i++)
        worker_check(aclrtMalloc((void **)&p[i], 1 + i * 30, ACL_MEM_MALLOC_HUGE_FIRST) ==
                     0);
    for (size_t i = 0; i < 1000; i++)
        worker_check(aclrtFree(p[i]) == ACL_SUCCESS);
    return NULL;
}

static void a_thread_leaves_nothing_behind(void **state)
{
    aclrtDrvMemHandle handle;

    for (int i = 0; i < 20; i++) {
        assert_null(run_thread(use_and_leave, NULL));
        assert_int_equal(free_memory(), total_memory());
        assert_acl_ok(aclrtResetDevice(0));
    }
    assert_acl_ok(aclrtSetDevice(0));
    handle = alloc(total_memory());
    assert_acl_ok(aclrtFreePhysical(handle));
}

/* One after the other they use the same few chunks: an ended thread keeps none. */
static const char *use_some(struct worker *self)
{
    void *p[30];

    worker_check(aclrtSetDevice(0) == ACL_SUCCESS);
    for (size_t i = 0; i < 30; i++)
        worker_check(aclrtMalloc(&p[i], 20000, ACL_MEM_MALLOC_HUGE_FIRST) == 0);
    for (size_t i = 0; i < 30; i++)
        worker_check(aclrtFree(p[i]) == ACL_SUCCESS);
    return NULL;
}

static void threads_one_after_the_other_share_chunks(void **state)
{
    size_t before;

    start("default", "ACLMEM_ISOLATE=0");
    assert_acl_ok(aclrtSetDevice(0));
    for (int i = 0; i < 32; i++)
        assert_null(run_thread(use_some, NULL));
    before = library_mappings();
    for (int i = 0; i < 200; i++)
        assert_null(run_thread(use_some, NULL));
    assert_int_equal(library_mappings(), before);
}

/* A thread that sleeps keeps nothing from others either. */
static const char *use_and_wait(struct worker *self)
{
    struct shared *shared = self->shared;
    const char *failure = use_and_leave(self);

    atomic_fetch_add(&shared->n_resets, 1);
    while (!shared->is_over)
        sched_yield();
    worker_check(use_and_leave(self) ==
                 NULL); /* its lists were emptied behind its back */
    return failure;
}

static void a_sleeping_thread_keeps_no_memory(void **state)
{
    static struct shared shared;
    struct worker w = {.run = use_and_wait, .shared = &shared};
    aclrtDrvMemHandle handle;

    memset(&shared, 0, sizeof(shared));
    assert_int_equal(worker_start(&w), 0);
    while (shared.n_resets == 0)
        sched_yield();
    assert_int_equal(free_memory(), total_memory());
    handle = alloc(total_memory());
    assert_int_equal(free_memory(), 0);
    assert_acl_ok(aclrtFreePhysical(handle));
    shared.is_over = true;
    assert_null(worker_join(&w));
    assert_acl_ok(aclrtResetDevice(0));
    assert_acl_ok(aclrtResetDevice(0));
    assert_acl_ok(aclrtSetDevice(0));
}

/* ---- resets ---- */

static const char *use_beside_resets(struct worker *self)
{
    struct shared *shared = self->shared;
    uint64_t random = self->index;
    char bytes[64] = {0};

    atomic_fetch_add(&shared->n_ready, 1);
    for (unsigned i = 0; i < 200; i++) {
        char *p[16];
        size_t n = 0;

        (void)aclrtSetDevice(0);
        while (n < 16) {
            size_t size = random_size(&random);
            aclError rc = aclrtMalloc((void **)&p[n], size, ACL_MEM_MALLOC_HUGE_FIRST);

            worker_check(rc == ACL_SUCCESS || rc == ACL_ERROR_RT_CONTEXT_NULL ||
                         rc == ACL_ERROR_RT_MEMORY_ALLOCATION);
            if (rc != ACL_SUCCESS)
                break;
            worker_check((uintptr_t)p[n] > CHUNK); /* where it was, if it is gone now */
            rc = copy(p[n++], bytes, size < 64 ? size : 64, ACL_MEMCPY_HOST_TO_DEVICE);
            worker_check(rc == ACL_SUCCESS || rc == ACL_ERROR_RT_CONTEXT_NULL ||
                         rc == ACL_ERROR_RT_PARAM_INVALID);
        }
        while (n > 0) {
            aclError rc = aclrtFree(p[--n]);

            worker_check(rc == ACL_SUCCESS || rc == ACL_ERROR_RT_PARAM_INVALID);
        }
    }
    return NULL;
}

static void resets_while_threads_allocate(void **state)
{
    static struct shared shared;
    struct worker workers[3];

    memset(&shared, 0, sizeof(shared));
    for (unsigned i = 0; i < 3; i++) {
        workers[i] =
            (struct worker){.run = use_beside_resets, .shared = &shared, .index = i};
        assert_int_equal(worker_start(&workers[i]), 0);
    }
    while (shared.n_ready < 3)
        sched_yield();
    for (int i = 0; i < 500; i++) {
        (void)aclrtResetDeviceForce(0);
        sched_yield();
    }
    for (unsigned i = 0; i < 3; i++)
        assert_null(worker_join(&workers[i]));
    assert_acl_ok(aclrtSetDevice(0));
    assert_acl_ok(aclrtResetDeviceForce(0));
    assert_acl_ok(aclrtSetDevice(0));
    assert_int_equal(free_memory(), total_memory());
}

/* Two threads free the same block: one is told that it is gone. */
static const char *free_it_too(struct worker *self)
{
    struct shared *shared = self->shared;

    for (unsigned i = 1; i <= 2000; i++) {
        while (shared->n_resets < i && !shared->is_over)
            sched_yield();
        aclError rc = aclrtFree(atomic_load(&shared->mailbox[0]));

        worker_check(rc == ACL_SUCCESS || rc == ACL_ERROR_RT_PARAM_INVALID);
        shared->n_freed += rc == ACL_SUCCESS;
        atomic_store(&shared->mailbox[2], (struct live *)(uintptr_t)i);
    }
    return NULL;
}

static void one_of_two_frees_is_refused(void **state)
{
    static struct shared shared;
    struct worker w = {.run = free_it_too, .shared = &shared};
    unsigned n_mine = 0;

    memset(&shared, 0, sizeof(shared));
    assert_int_equal(worker_start(&w), 0);
    for (unsigned i = 1; i <= 2000; i++) {
        char *p = device_malloc(200);

        atomic_store(&shared.mailbox[0], (struct live *)p);
        shared.n_resets = i;
        n_mine += aclrtFree(p) == ACL_SUCCESS;
        while ((uintptr_t)atomic_load(&shared.mailbox[2]) != i)
            sched_yield();
        assert_int_equal(n_mine + shared.n_freed, i);
    }
    shared.is_over = true;
    assert_null(worker_join(&w));
}

int main(void)
{
    const struct CMUnitTest claims[] = {
        claim_blocks_both(one_thread_against_the_shadow),
        claim_blocks_alone(little_memory_against_the_shadow),
        claim_blocks(threads_trade_blocks),
        claim_blocks_alone(threads_trade_blocks_where_memory_is_short),
        claim_blocks_alone(large_blocks_keep_their_sizes_where_memory_is_short),
        claim_blocks(a_thread_leaves_nothing_behind),
        claim_blocks_alone(threads_one_after_the_other_share_chunks),
        claim_blocks(a_sleeping_thread_keeps_no_memory),
        claim_blocks(resets_while_threads_allocate),
        claim_blocks(one_of_two_frees_is_refused),
    };

    return run_claims(claims);
}
