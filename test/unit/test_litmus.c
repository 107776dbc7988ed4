/*
 * Litmus tests of what is read without a lock: a few threads, many rounds, and a claim
 * that a wrong memory order would break on a machine that reorders loads and stores
 * (aarch64).  On x86-64, and in an emulator on it, the hardware hides most such mistakes.
 *
 * Rounds are counted: no test waits for another thread to do something.
 */
#include "unit.h"

#include <stdlib.h>
#include <string.h>

#include "acl/acl.h"
#include "base/address_index.h"
#include "base/handle.h"
#include "base/log.h"
#include "base/options.h"
#include "base/util.h"
#include "core/ledger/ledger_file.h"
#include "core/ledger/rundir.h"
#include "pool/internal.h"
#include "support/process.h"

#ifndef ROUNDS
#define ROUNDS 400000
#endif
#define PLACES 2
#define READERS 2

/* An object as a lookup finds it. */
struct thing {
    struct am_named named;
    uintptr_t place;
    uintptr_t again; /* the same once more: half of an object is never seen */
};

static void thing_free(struct am_deferred *deferred)
{
    struct thing *thing = (void *)AM_CONTAINER_OF(deferred, struct am_named, deferred);

    thing->place = 0;
    free(thing);
}

/* ---- addresses ---- */

static struct am_address_index *addresses;
static const uintptr_t places[PLACES] = {5 * AM_CHUNK, (UINT64_C(64) << 30) + AM_CHUNK};

static const char *addresses_write(struct worker *self)
{
    for (unsigned i = 0; i < ROUNDS; i++) {
        uintptr_t place = places[i % PLACES];
        struct thing *thing;

        am_epoch_enter();
        thing = calloc(1, sizeof *thing);
        worker_check(thing != NULL);
        thing->place = place;
        thing->again = ~place;
        am_address_set(addresses, place, AM_CHUNK, thing);
        am_address_set(addresses, place, AM_CHUNK, NULL);
        am_epoch_defer(&thing->named.deferred, thing_free);
        am_epoch_leave();
    }
    return NULL;
}

static const char *addresses_read(struct worker *self)
{
    for (unsigned i = 0; i < ROUNDS; i++) {
        uintptr_t place = places[i % PLACES];
        struct thing *thing;

        am_epoch_enter();
        thing = am_address_find(addresses, place);
        worker_check(thing == NULL ||
                     (thing->place == place && thing->again == ~thing->place));
        am_epoch_leave();
    }
    return NULL;
}

static void an_address_leads_to_its_own_object_and_all_of_it(void **state)
{
    struct worker workers[] = {
        {.run = addresses_write}, {.run = addresses_read}, {.run = addresses_read}};
    const char *failure;

    addresses = calloc(1, sizeof *addresses);
    assert_non_null(addresses);
    for (int i = 0; i < PLACES; i++)
        assert_int_equal(am_address_prepare(addresses, places[i], AM_CHUNK), 0);
    failure = run_workers(workers, 3);
    am_epoch_synchronize();
    if (failure != NULL)
        fail_msg("%s", failure);
}

/* ---- handles ---- */

static _Atomic(void *) shown; /* a handle that may be stale by now */

static const char *handles_write(struct worker *self)
{
    for (unsigned i = 0; i < ROUNDS; i++) {
        struct thing *thing;
        void *handle;

        am_epoch_enter();
        thing = am_named_alloc(AM_KIND_PHYS, sizeof *thing);
        worker_check(thing != NULL);
        thing->place = (uintptr_t)thing;
        thing->again = ~thing->place;
        handle = am_named_publish(&thing->named);
        atomic_store_explicit(&shown, handle, memory_order_relaxed);
        am_named_free(&thing->named);
        am_epoch_leave();
    }
    return NULL;
}

static const char *handles_read(struct worker *self)
{
    for (unsigned i = 0; i < ROUNDS; i++) {
        void *handle = atomic_load_explicit(&shown, memory_order_relaxed);
        struct thing *thing;

        am_epoch_enter();
        thing = am_named_find(AM_KIND_PHYS, handle);
        worker_check(thing == NULL ||
                     (thing->place == (uintptr_t)thing && thing->again == ~thing->place));
        am_epoch_leave();
    }
    return NULL;
}

static void a_handle_leads_to_its_own_object_and_all_of_it(void **state)
{
    struct worker workers[] = {
        {.run = handles_write}, {.run = handles_read}, {.run = handles_read}};
    const char *failure = run_workers(workers, 3);

    am_epoch_synchronize();
    if (failure != NULL)
        fail_msg("%s", failure);
}

/* ---- blocks ---- */

#define PAD 32 /* bytes behind those asked for that belong to a block, by default rules */

static const size_t sizes[] = {3 * AM_MIB, 5 * AM_MIB};
static _Atomic(void *) block;

static const char *blocks_write(struct worker *self)
{
    worker_check(aclrtSetDevice(0) == ACL_SUCCESS);
    for (unsigned i = 0; i < ROUNDS / 20; i++) {
        void *p;

        worker_check(aclrtMalloc(&p, sizes[i % 2], ACL_MEM_MALLOC_HUGE_FIRST) ==
                     ACL_SUCCESS);
        atomic_store_explicit(&block, p, memory_order_relaxed);
        worker_check(aclrtFree(p) == ACL_SUCCESS);
    }
    return NULL;
}

/*
 * A block that is there is told with a size that was asked for.  By now its addresses may
 * be part of another block, which begins elsewhere.
 */
static const char *blocks_read(struct worker *self)
{
    worker_check(aclrtSetDevice(0) == ACL_SUCCESS);
    for (unsigned i = 0; i < ROUNDS / 20; i++) {
        void *p = atomic_load_explicit(&block, memory_order_relaxed);
        void *base = NULL;
        size_t size = 0;

        if (p == NULL || aclrtMemGetAddressRange(p, &base, &size) != ACL_SUCCESS)
            continue;
        worker_check(size == sizes[0] + PAD || size == sizes[1] + PAD);
    }
    return NULL;
}

static void a_block_is_told_with_its_own_size(void **state)
{
    struct worker workers[] = {
        {.run = blocks_write}, {.run = blocks_read}, {.run = blocks_read}};
    const char *failure;

    assert_int_equal(aclInit(NULL), ACL_SUCCESS);
    failure = run_workers(workers, 3);
    assert_int_equal(aclFinalize(), ACL_SUCCESS);
    if (failure != NULL)
        fail_msg("%s", failure);
}

/* ---- the ledger ---- */

#define CAPACITY (100 * AM_MIB)
#define MORE_THAN_HALF (60 * AM_MIB)

static atomic_int n_inside;

/* Each adds its bytes and then looks at the sum: two never both fit. */
static const char *ledger_use(struct worker *self)
{
    struct am_ledger *ledger = self->shared;

    for (unsigned i = 0; i < ROUNDS; i++) {
        int n;

        if (!ledger_try_charge(ledger, 0, MORE_THAN_HALF))
            continue;
        n = atomic_fetch_add(&n_inside, 1);
        atomic_fetch_sub(&n_inside, 1);
        am_ledger_uncharge(ledger, 0, am_shard(), MORE_THAN_HALF);
        worker_check(n == 0);
    }
    return NULL;
}

static void two_processes_never_hold_more_than_there_is(void **state)
{
    static const struct am_ledger_config config = {
        .backend = "host", .product = "A2", .n_devices = 1, .capacity = {CAPACITY}};
    struct am_ledger *ledgers[2];
    struct worker workers[2];
    char why[AM_WHY_SIZE];
    const char *folder = folder_make();
    const char *failure;

    am_options_reset();
    assert_int_equal(am_options_set("runtime_dir", folder, why), 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(am_ledger_open(&config, &ledgers[i]), ACL_SUCCESS);
        assert_false(am_ledger_is_private(ledgers[i]));
        workers[i] = (struct worker){.run = ledger_use, .shared = ledgers[i]};
    }
    failure = run_workers(workers, 2);
    for (int i = 0; i < 2; i++)
        am_ledger_put(ledgers[i]);
    am_rundir_close();
    folder_remove(folder);
    if (failure != NULL)
        fail_msg("%s", failure);
}

/* ---- streams of a pool ---- */

#define STREAMS 3 /* that come and go */

static aclrtStream streams[STREAMS];

/* Once, before the pool's lock is taken: the work of another thread at that moment. */
static void (*before_lock)(aclmem_pool *pool);
static aclmem_pool *watched;

int __real_pthread_mutex_lock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex);

int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex)
{
    void (*act)(aclmem_pool *) = before_lock;

    if (act != NULL && mutex == &watched->lock) {
        before_lock = NULL;
        act(watched);
    }
    return __real_pthread_mutex_lock(mutex);
}

static int no_event_create(void **event)
{
    *event = event; /* any address */
    return 0;
}

static int no_event_query(void *event, int *is_done)
{
    *is_done = 1;
    return 0;
}

static int no_stream(void *stream)
{
    return 0;
}

static int no_order(void *one, void *other)
{
    return 0;
}

static int no_device(void)
{
    return 0;
}

static const char *slots_get(struct worker *self)
{
    for (unsigned i = 0; i < 10 * ROUNDS; i++)
        pool_slot_get(self->shared, streams[i % STREAMS]);
    return NULL;
}

/* The pool's lock is held. */
static bool has_two_slots(const aclmem_pool *pool, aclrtStream stream)
{
    unsigned n = 0;

    for (unsigned i = 0; i < N_SLOTS; i++)
        n += atomic_load(&pool->slots[i].name) == (uintptr_t)stream + 1;
    return n > 1;
}

static const char *slots_forget(struct worker *self)
{
    aclmem_pool *pool = self->shared;

    worker_check(aclrtSetDevice(0) == ACL_SUCCESS);
    for (unsigned i = 0; i < ROUNDS / 20; i++) {
        aclrtStream stream = streams[i % STREAMS];
        bool is_twice;

        pthread_mutex_lock(&pool->lock);
        is_twice = has_two_slots(pool, stream);
        pthread_mutex_unlock(&pool->lock);
        worker_check(aclmem_pool_forget_stream(pool, stream) == ACL_SUCCESS);
        worker_check(!is_twice);
    }
    return NULL;
}

/* Streams that would all have the same slot, so that one's place depends on another's. */
static void streams_choose(aclmem_pool *pool)
{
    unsigned n = 0, first = 0;

    for (uintptr_t stream = 64; n < STREAMS; stream += 64) {
        unsigned slot = pool_slot_get(pool, (aclrtStream)stream);

        assert_int_equal(aclmem_pool_forget_stream(pool, (aclrtStream)stream), 0);
        if (n == 0)
            first = slot;
        if (slot == first)
            streams[n++] = (aclrtStream)stream;
    }
}

static aclmem_pool *slots_begin(void)
{
    static const aclmem_pool_stream_ops ops = {.event_create = no_event_create,
                                               .event_destroy = no_stream,
                                               .event_record = no_order,
                                               .event_query = no_event_query,
                                               .event_synchronize = no_stream,
                                               .stream_wait = no_order,
                                               .stream_synchronize = no_stream,
                                               .device_synchronize = no_device};
    const aclmem_pool_options options = {.stream_ops = &ops};
    aclmem_pool *pool;

    assert_int_equal(aclInit(NULL), ACL_SUCCESS);
    assert_int_equal(aclrtSetDevice(0), ACL_SUCCESS);
    assert_int_equal(aclmem_pool_create(0, &options, &pool), ACL_SUCCESS);
    streams_choose(pool);
    return pool;
}

static void slots_end(aclmem_pool *pool)
{
    assert_int_equal(aclmem_pool_destroy(pool), ACL_SUCCESS);
    assert_int_equal(aclFinalize(), ACL_SUCCESS);
}

static void a_stream_has_one_slot_of_a_pool(void **state)
{
    struct worker workers[] = {
        {.run = slots_forget}, {.run = slots_get}, {.run = slots_get}};
    aclmem_pool *pool = slots_begin();
    const char *failure;

    for (int i = 0; i < 3; i++)
        workers[i].shared = pool;
    failure = run_workers(workers, 3);
    slots_end(pool);
    if (failure != NULL)
        fail_msg("%s", failure);
}

static void second_comes_first(aclmem_pool *pool)
{
    assert_int_equal(aclmem_pool_forget_stream(pool, streams[0]), ACL_SUCCESS);
    pool_slot_get(pool, streams[1]);
}

/* A place becomes free before the one that this thread has found, and another takes it. */
static void a_slot_is_looked_for_again_under_the_lock(void **state)
{
    aclmem_pool *pool = slots_begin();

    pool_slot_get(pool, streams[0]);
    watched = pool;
    before_lock = second_comes_first;
    pool_slot_get(pool, streams[1]);
    assert_null(before_lock);
    assert_false(has_two_slots(pool, streams[1]));
    slots_end(pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_address_leads_to_its_own_object_and_all_of_it),
        cmocka_unit_test(a_handle_leads_to_its_own_object_and_all_of_it),
        cmocka_unit_test(a_block_is_told_with_its_own_size),
        cmocka_unit_test(two_processes_never_hold_more_than_there_is),
        cmocka_unit_test(a_stream_has_one_slot_of_a_pool),
        cmocka_unit_test(a_slot_is_looked_for_again_under_the_lock),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
