/*
 * Streams that are not AscendCL's, described by the stream_ops of the options: work that does not end,
 * calls that fail, and a device in between.
 */
#include <stdlib.h>
#include <string.h>

#include "aclmem/pool.h"
#include "support/support.h"

#define BROKEN 700 /* what the functions return then */
#define PAGES(n_) ((size_t)(n_)*CHUNK)

/* The device that the functions below are about; all streams have done all work, or none. */
static struct {
    bool is_broken;
    bool is_done;
    unsigned n_events;
    unsigned n_waits; /* of streams, for other streams */
    unsigned n_device_syncs;
    void (*meanwhile)(void); /* what another thread does when the device was waited for */
} now;

static int failure(void)
{
    return now.is_broken ? BROKEN : 0;
}

static int event_create(void **event)
{
    *event = &now;
    now.n_events += !now.is_broken;
    return failure();
}

static int event_destroy(void *event)
{
    now.n_events--;
    return 0;
}

static int event_record(void *event, void *stream)
{
    return failure();
}

static int event_query(void *event, int *is_done)
{
    *is_done = now.is_done;
    return failure();
}

static int event_synchronize(void *event)
{
    now.is_done |= !now.is_broken;
    return failure();
}

static int stream_wait(void *stream, void *event)
{
    now.n_waits++;
    return failure();
}

static int stream_synchronize(void *stream)
{
    return failure();
}

static int device_synchronize(void)
{
    void (*meanwhile)(void) = now.meanwhile;

    now.n_device_syncs++;
    now.is_done |= !now.is_broken;
    now.meanwhile = NULL;
    if (meanwhile != NULL)
        meanwhile();
    return failure();
}

static const aclmem_pool_stream_ops ops = {
    .event_create = event_create,
    .event_destroy = event_destroy,
    .event_record = event_record,
    .event_query = event_query,
    .event_synchronize = event_synchronize,
    .stream_wait = stream_wait,
    .stream_synchronize = stream_synchronize,
    .device_synchronize = device_synchronize,
};

static aclmem_pool *pool_make(size_t limit)
{
    aclmem_pool_options options = {.limit = limit, .stream_ops = &ops};
    aclmem_pool *pool;

    memset(&now, 0, sizeof now);
    assert_acl_ok(aclmem_pool_create(0, &options, &pool));
    return pool;
}

static aclrtStream stream(uintptr_t i)
{
    return (aclrtStream)i; /* the pool does not dereference it */
}

static void *take(aclmem_pool *pool, size_t size, uintptr_t i)
{
    void *ptr;

    assert_acl_ok(aclmem_pool_malloc(pool, size, stream(i), &ptr));
    return ptr;
}

static void give(aclmem_pool *pool, void *ptr)
{
    assert_acl_ok(aclmem_pool_free(pool, ptr));
}

static aclmem_pool_stats stats_of(aclmem_pool *pool)
{
    aclmem_pool_stats stats;

    assert_acl_ok(aclmem_pool_get_stats(pool, &stats));
    return stats;
}

static void end(aclmem_pool *pool)
{
    now.is_broken = false;
    assert_int_equal(stats_of(pool).n_live, 0);
    assert_acl_ok(aclmem_pool_destroy(pool));
    assert_int_equal(now.n_events, 0);
}

static void memory_whose_work_is_not_known_goes_to_no_other_stream(void **state)
{
    aclmem_pool *pool = pool_make(PAGES(4));
    void *ptr;

    give(pool, take(pool, PAGES(4), 1));
    now.is_broken = true;
    give(pool, take(pool, PAGES(3), 1)); /* in its own order */
    assert_int_equal(aclmem_pool_malloc(pool, PAGES(3), stream(2), &ptr), BROKEN);
    assert_non_null(strstr(aclmem_pool_message(), "wait"));
    assert_acl_ok(aclmem_pool_trim(pool, 0));
    assert_int_equal(stats_of(pool).held, PAGES(4));
    now.is_broken = false;
    give(pool, take(pool, PAGES(3), 2));
    assert_int_equal(now.n_waits, 1);
    end(pool);
}

static void a_block_that_a_second_stream_uses_comes_back_behind_that(void **state)
{
    aclmem_pool *pool = pool_make(PAGES(4));
    void *block = take(pool, PAGES(4), 1);

    give(pool, block);
    assert_ptr_equal(take(pool, PAGES(4), 1), block);
    assert_int_equal(now.n_waits, 0);
    assert_acl_ok(aclmem_pool_use(pool, block, stream(2)));
    give(pool, block);
    assert_ptr_equal(take(pool, PAGES(4), 1), block);
    assert_int_equal(now.n_waits, 1);
    give(pool, block);
    /* The use is over with that block. */
    assert_ptr_equal(take(pool, PAGES(4), 1), block);
    assert_int_equal(now.n_waits, 1);
    give(pool, block);
    end(pool);
}

/* Two idle pages, apart from each other, cannot move: the call has to end nevertheless. */
static void a_device_that_answers_no_more_is_an_error(void **state)
{
    aclmem_pool *pool = pool_make(PAGES(4));
    void *blocks[4], *ptr;

    for (int i = 0; i < 4; i++)
        blocks[i] = take(pool, PAGES(1), 1);
    give(pool, blocks[0]);
    give(pool, blocks[2]);
    now.is_broken = true;
    assert_int_equal(aclmem_pool_malloc(pool, PAGES(2), stream(2), &ptr), BROKEN);
    assert_int_equal(aclmem_pool_forget_stream(pool, stream(1)), BROKEN);
    assert_non_null(strstr(aclmem_pool_message(), "the stream's work"));
    assert_int_equal(aclmem_pool_sleep(pool, 0, 1), BROKEN);
    now.is_broken = false;
    give(pool, take(pool, PAGES(2), 2));
    give(pool, blocks[1]);
    give(pool, blocks[3]);
    end(pool);
}

/* Streams beyond the limit of the pool have no order, and no event stands for them. */
static void a_stream_without_a_slot_never_gets_memory_under_queued_work(void **state)
{
    aclmem_pool *pool = pool_make(PAGES(100));
    void *known[80], *block, *ptr;
    unsigned n_syncs;

    for (int i = 0; i < 80; i++)
        known[i] = take(pool, PAGES(1), (uintptr_t)i + 1);
    block = take(pool, PAGES(20), 90);
    now.is_broken = true;
    give(pool, block);
    assert_int_equal(aclmem_pool_malloc(pool, PAGES(20), stream(91), &ptr), BROKEN);
    assert_acl_ok(aclmem_pool_trim(pool, 0));
    assert_int_equal(stats_of(pool).held, PAGES(100));
    now.is_broken = false;
    n_syncs = now.n_device_syncs;
    give(pool, take(pool, PAGES(20), 91));
    assert_true(now.n_device_syncs > n_syncs);
    for (int i = 0; i < 80; i++)
        give(pool, known[i]);
    end(pool);
}

static aclmem_pool *sleeper;
static void *neighbour;

static void free_under_queued_work(void)
{
    now.is_done = false;
    give(sleeper, neighbour);
}

static void place_under_queued_work(void)
{
    now.is_done = false;
    give(sleeper, neighbour);
    neighbour = take(sleeper, PAGES(2), 1); /* stream 1 has work there: its own */
}

static unsigned unmapped_too_early;

/* Whether the page could be written to until its work was done. */
static int event_synchronize_and_look(void *event)
{
    unmapped_too_early += aclrtMemset(neighbour, 1, 1, 1) != ACL_SUCCESS;
    return event_synchronize(event);
}

static void sleep_beside(void (*meanwhile)(void), size_t size, uintptr_t i)
{
    aclmem_pool_stream_ops looking = ops;
    aclmem_pool_options options = {.limit = PAGES(8), .stream_ops = &looking};
    void *block;

    memset(&now, 0, sizeof now);
    looking.event_synchronize = event_synchronize_and_look;
    unmapped_too_early = 0;
    assert_acl_ok(aclmem_pool_create(0, &options, &sleeper));
    block = take(sleeper, 3 * MIB, 1);
    neighbour = take(sleeper, size, i);
    now.meanwhile = meanwhile;
    assert_acl_ok(aclmem_pool_sleep(sleeper, ACLMEM_POOL_ALL_TAGS, 0));
    assert_true(now.is_done); /* it was waited for */
    assert_int_equal(unmapped_too_early, 0);
    assert_int_equal(stats_of(sleeper).held, 0);
    assert_acl_ok(aclmem_pool_wake(sleeper, ACLMEM_POOL_ALL_TAGS));
    assert_int_equal(stats_of(sleeper).asleep, 0);
    give(sleeper, block);
}

static void a_page_does_not_sleep_under_queued_work_of_a_freed_block(void **state)
{
    sleep_beside(free_under_queued_work, MIB, 2);
    end(sleeper);
}

static void a_page_does_not_sleep_under_queued_work_of_its_stream(void **state)
{
    sleep_beside(place_under_queued_work, PAGES(2), 1);
    give(sleeper, neighbour);
    end(sleeper);
}

static void a_wake_that_does_not_fit_holds_nothing(void **state)
{
    aclmem_pool *pool = pool_make(PAGES(8));
    void *block = take(pool, PAGES(8), 1);
    char byte = 7;

    assert_acl_ok(aclrtMemset(block, 1, byte, 1));
    assert_acl_ok(aclmem_pool_sleep(pool, 0, 1));
    assert_acl_ok(aclmem_pool_set_limit(pool, PAGES(6)));
    assert_int_equal(aclmem_pool_wake(pool, 0), ACL_ERROR_RT_MEMORY_ALLOCATION);
    assert_int_equal(stats_of(pool).held, 0);
    assert_int_equal(stats_of(pool).asleep, PAGES(8));
    assert_acl_ok(aclmem_pool_set_limit(pool, PAGES(8)));
    assert_acl_ok(aclmem_pool_wake(pool, 0));
    byte = 0;
    assert_acl_ok(aclrtMemcpy(&byte, 1, block, 1, ACL_MEMCPY_DEVICE_TO_HOST));
    assert_int_equal(byte, 7);
    give(pool, block);
    end(pool);
}

int main(void)
{
    const struct CMUnitTest claims[] = {
        claim(memory_whose_work_is_not_known_goes_to_no_other_stream),
        claim(a_block_that_a_second_stream_uses_comes_back_behind_that),
        claim(a_device_that_answers_no_more_is_an_error),
        claim(a_stream_without_a_slot_never_gets_memory_under_queued_work),
        claim(a_page_does_not_sleep_under_queued_work_of_a_freed_block),
        claim(a_page_does_not_sleep_under_queued_work_of_its_stream),
        claim(a_wake_that_does_not_fit_holds_nothing),
    };

    return run_claims(claims);
}
