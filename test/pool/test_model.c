/*
 * The whole pool on a fake device (fake_device.h): random operations, with a model of what is where.
 *
 *     test_pool_model [--seed N] [--operations N]
 *
 * A seed names a run of at most STEPS operations on a separate pool; runs follow each other
 * until the operations are used up.  --operations 100000000 takes some minutes.  Blocks come
 * and go on four streams, are used on a second one, exported, put to sleep and woken; streams end
 * and others take their handles; the limit changes; graphs are captured; in two of three
 * runs each nth call that creates, maps, unmaps, reserves, copies or records fails; and in every
 * second run pages may be mapped at several addresses.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "aclmem/pool.h"
#include "fake_device.h"

#define N_BLOCKS 96u
#define STEPS 20000u
#define N_TAGS 3u

struct block {
    void *ptr; /* NULL: none */
    size_t size;
    unsigned stream;
    uint32_t tag, stamp;
    bool is_own, is_asleep;
    bool is_lost; /* asleep without its contents */
};

struct run {
    aclmem_pool *pool;
    struct block blocks[N_BLOCKS];
    uint64_t seed;
    size_t limit; /* pages */
    size_t room;  /* pages of the device */
    unsigned fail_every;
    uint32_t last_stamp;
    bool is_frozen;
};

#define require fake_require

static uint64_t below(struct run *r, uint64_t n)
{
    r->seed ^= r->seed << 13;
    r->seed ^= r->seed >> 7;
    r->seed ^= r->seed << 17;
    return (r->seed >> 11) % n;
}

/* Few sizes come again and again, as in programs; each unit has some bytes. */
static size_t random_size(struct run *r)
{
    static const uint64_t largest[] = {4, 4, 40, 130, 400};
    uint64_t n = largest[below(r, 5)];
    uint64_t units = below(r, 4) > 0 ? 1 + n * below(r, 8) / 8 : 1 + below(r, n);

    return units * FAKE_UNIT - below(r, 3) * 100;
}

/* Fails only where a call of the device did, since the flag was last read. */
static void failure_explain(aclError rc, const char *what)
{
    if (fake_has_failed() || rc == ACL_SUCCESS)
        return;
    fprintf(stderr, "%s: %d %s\n", what, rc, aclmem_pool_message());
    require(false, "failed without a reason");
}

/* Whether `size` bytes may be refused: each block may be a run, with two pages at its ends. */
static bool is_short(struct run *r, size_t size)
{
    size_t held = size + 2 * FAKE_PAGE;

    for (unsigned i = 0; i < N_BLOCKS; i++)
        held += r->blocks[i].ptr != NULL ? r->blocks[i].size + 2 * FAKE_PAGE : 0;
    return r->is_frozen || held > r->limit * FAKE_PAGE || held > r->room * FAKE_PAGE;
}

/* After a failure the message names a size that does fit. */
static void largest_try(struct run *r, unsigned stream)
{
    const char *found = strstr(aclmem_pool_message(), "would fit now (");
    size_t size = found != NULL ? strtoull(strchr(found, '(') + 1, NULL, 10) : 0;
    void *ptr;

    if (size == 0)
        return;
    if (aclmem_pool_malloc(r->pool, size, fake_stream(stream), &ptr) != ACL_SUCCESS) {
        fprintf(stderr, "%zu bytes: %s\n", size, aclmem_pool_message());
        require(false, "what would fit does not");
    }
    require(aclmem_pool_free(r->pool, ptr) == ACL_SUCCESS, "a free was refused");
}

static void block_make(struct run *r, struct block *b)
{
    bool is_sound;
    aclError rc;

    *b = (struct block){
        .size = random_size(r),
        .stream = (unsigned)below(r, FAKE_STREAMS),
        .tag = (uint32_t)below(r, N_TAGS),
        .is_own = below(r, 64) == 0,
    };
    fake_has_failed();
    rc = aclmem_pool_malloc_tagged(r->pool, b->size, fake_stream(b->stream), b->tag,
                                   b->is_own ? ACLMEM_POOL_EXPORTABLE : 0, &b->ptr);
    if (rc != ACL_SUCCESS)
        b->ptr = NULL;
    is_sound = rc == ACL_ERROR_RT_MEMORY_ALLOCATION && is_short(r, b->size);
    failure_explain(is_sound ? ACL_SUCCESS : rc, "malloc");
    if (is_sound && r->fail_every == 0 && !r->is_frozen)
        largest_try(r, b->stream);
    if (b->ptr == NULL)
        return;
    b->stamp = ++r->last_stamp;
    fake_own(b->ptr, b->size, b->stamp);
    fake_write(b->stream, b->ptr, b->size, b->stamp);
}

static void block_check(struct block *b)
{
    if (!b->is_asleep && !b->is_lost)
        fake_check(b->ptr, b->size, b->stamp);
}

/* Work of a second stream, after the work of the first; after its last use a block is freed. */
static void block_use(struct run *r, struct block *b, bool is_last)
{
    unsigned other = (unsigned)below(r, FAKE_STREAMS);

    if (b->is_asleep)
        return;
    fake_stream_follow(other, b->stream);
    require(aclmem_pool_use(r->pool, b->ptr, fake_stream(other)) == ACL_SUCCESS,
            "a use was refused");
    fake_write(other, b->ptr, b->size, b->stamp);
    b->is_lost = false;
    /* The next work of the first stream comes after it, but after a free only the pool orders it. */
    if (!is_last)
        fake_stream_follow(b->stream, other);
}

static void block_end(struct run *r, struct block *b)
{
    block_check(b);
    if (below(r, 4) == 0)
        block_use(r, b, true);
    fake_own(b->ptr, b->size, 0);
    require(aclmem_pool_free(r->pool, b->ptr) == ACL_SUCCESS, "a free was refused");
    if (below(r, 64) == 0)
        require(aclmem_pool_free(r->pool, b->ptr) == ACL_ERROR_INVALID_PARAM,
                "a block was freed twice");
    b->ptr = NULL;
}

/* On failure some blocks are asleep, or awake; the pool says which in its snapshot. */
static void states_read(struct run *r, bool was_kept)
{
    char name[64];
    char *json, *found;

    require(aclmem_pool_snapshot(r->pool, &json) == ACL_SUCCESS, "no snapshot");
    for (unsigned i = 0; i < N_BLOCKS; i++) {
        struct block *b = &r->blocks[i];
        bool is_asleep;

        if (b->ptr == NULL || b->is_own)
            continue;
        snprintf(name, sizeof name, "{\"address\": %" PRIuPTR ",", (uintptr_t)b->ptr);
        found = strstr(json, name);
        require(found != NULL, "a block is missing");
        is_asleep = strncmp(strstr(found, "\"state\": "), "\"state\": \"asleep", 16) == 0;
        if (is_asleep && !b->is_asleep && !was_kept)
            b->is_lost = true;
        b->is_asleep = is_asleep;
    }
    free(json);
}

static void sleep_or_wake(struct run *r)
{
    uint32_t tag = below(r, 4) == 0 ? ACLMEM_POOL_ALL_TAGS : (uint32_t)below(r, N_TAGS);
    bool is_kept = below(r, 3) > 0;
    aclError rc;

    if (below(r, 2) == 0) {
        fake_has_failed();
        rc = aclmem_pool_sleep(r->pool, tag, is_kept);
        failure_explain(rc, "sleep");
        states_read(r, is_kept);
    } else {
        fake_has_failed();
        rc = aclmem_pool_wake(r->pool, tag);
        failure_explain(rc == ACL_ERROR_RT_MEMORY_ALLOCATION ? ACL_SUCCESS : rc, "wake");
        states_read(r, true);
    }
    for (unsigned i = 0; i < N_BLOCKS; i++) {
        struct block *b = &r->blocks[i];

        if (b->ptr != NULL && !b->is_asleep)
            block_check(b);
    }
}

static void limit_change(struct run *r)
{
    r->limit = 64 + below(r, 300);
    fake_set_limit(r->limit);
    require(aclmem_pool_set_limit(r->pool, r->limit * FAKE_PAGE) == ACL_SUCCESS,
            "a limit was refused");
}

static void stream_end(struct run *r)
{
    unsigned i = (unsigned)below(r, FAKE_STREAMS);

    require(aclmem_pool_forget_stream(r->pool, fake_stream(i)) == ACL_SUCCESS,
            "a stream was not forgotten");
    fake_stream_renew(i);
}

static void freeze(struct run *r, bool is_on)
{
    require(aclmem_pool_freeze(r->pool, is_on) == ACL_SUCCESS, "not frozen");
    fake_set_capturing(is_on);
    r->is_frozen = is_on;
}

/* Rare events. */
static void step_seldom(struct run *r)
{
    aclError rc;

    switch (below(r, 16)) {
    case 0 ... 2:
        fake_has_failed();
        rc = aclmem_pool_trim(r->pool, below(r, 4) * below(r, 100) * FAKE_PAGE);
        failure_explain(rc, "trim");
        break;
    case 3:
        if (!r->is_frozen)
            sleep_or_wake(r);
        break;
    case 4:
        limit_change(r);
        break;
    case 5:
        if (!r->is_frozen)
            stream_end(r);
        break;
    case 6:
        freeze(r, true);
        break;
    case 7 ... 10:
        freeze(r, false);
        break;
    default:
        break;
    }
}

static void step(struct run *r)
{
    struct block *b = &r->blocks[below(r, N_BLOCKS)];

    switch (below(r, 64)) {
    case 0 ... 51:
        if (b->ptr == NULL)
            block_make(r, b);
        else
            block_end(r, b);
        break;
    case 52 ... 55:
        if (b->ptr != NULL)
            block_use(r, b, false);
        break;
    case 56 ... 62:
        fake_stream_run((unsigned)below(r, FAKE_STREAMS), (uint32_t)below(r, 40));
        break;
    default:
        step_seldom(r);
        break;
    }
}

static void run_end(struct run *r)
{
    aclmem_pool_stats stats;

    freeze(r, false);
    fake_fail_every(0);
    for (unsigned i = 0; i < N_BLOCKS; i++) {
        if (r->blocks[i].ptr != NULL)
            block_end(r, &r->blocks[i]);
    }
    for (unsigned i = 0; i < FAKE_STREAMS; i++)
        fake_stream_run(i, UINT32_MAX);
    /* A pool that could not be destroyed is whole. */
    fake_fail_every(r->last_stamp % 2 == 0 ? 2 : 0);
    if (r->last_stamp % 2 == 0 && aclmem_pool_destroy(r->pool) == ACL_SUCCESS) {
        fake_end();
        return;
    }
    fake_fail_every(0);
    require(aclmem_pool_trim(r->pool, 0) == ACL_SUCCESS, "the last trim failed");
    require(aclmem_pool_get_stats(r->pool, &stats) == ACL_SUCCESS, "no figures");
    require(stats.live == 0 && stats.n_live == 0, "a block is counted that is not there");
    require(stats.held == 0 && fake_held() == 0, "memory is left");
    require(aclmem_pool_destroy(r->pool) == ACL_SUCCESS, "the pool is not destroyed");
    fake_end();
}

static void run(uint64_t seed, uint64_t n_steps)
{
    struct run r = {.seed = seed * 0x9e3779b97f4a7c15 | 1};
    aclmem_pool_options options = {0};

    for (unsigned i = 0; i < 8; i++)
        below(&r, 2);
    r.limit = 64 + below(&r, 300);
    r.room = below(&r, 4) == 0 ? 120 : 600; /* may be less than the limit */
    fake_begin(r.room);
    fake_set_limit(r.limit);
    options.limit = r.limit * FAKE_PAGE;
    if (below(&r, 4) == 0)
        options.keep = 1 + below(&r, 60) * FAKE_PAGE;
    if (below(&r, 2) == 0)
        options.slack = below(&r, 30) * FAKE_PAGE;
    if (seed % 2 == 0)
        options.flags = ACLMEM_POOL_ALIASES;
    fake_set_aliased(options.flags != 0);
    require(aclmem_pool_create(0, &options, &r.pool) == ACL_SUCCESS, "no pool");
    if (seed % 3 != 0)
        r.fail_every = 2 + (unsigned)below(&r, 60);
    fake_fail_every(r.fail_every);
    while (n_steps-- > 0)
        step(&r);
    run_end(&r);
}

int main(int argc, char **argv)
{
    uint64_t seed = 1, n = 300000;

    for (int i = 1; i + 1 < argc; i += 2) {
        uint64_t *option = strcmp(argv[i], "--seed") == 0         ? &seed
                           : strcmp(argv[i], "--operations") == 0 ? &n
                                                                  : NULL;

        if (option == NULL) {
            fprintf(stderr, "usage: %s [--seed N] [--operations N]\n", argv[0]);
            return 2;
        }
        *option = strtoull(argv[i + 1], NULL, 0);
    }
    for (uint64_t last = 0; n > 0; seed++) {
        uint64_t steps = n < STEPS ? n : STEPS;

        run(seed, steps);
        n -= steps;
        if (seed / 100 != last) {
            last = seed / 100;
            printf("seed %" PRIu64 ", %" PRIu64 " operations to go\n", seed, n);
            fflush(stdout);
        }
    }
    return 0;
}
