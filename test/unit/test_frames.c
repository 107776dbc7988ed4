/*
 * Banks of the host backend: frames are counted, reused in order, and given back above a
 * limit.
 */
#include "unit.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "acl/error_codes/rt_error_codes.h"
#include "backend/host/host.h"
#include "base/error.h"
#include "base/options.h"
#include "support/process.h"

#define N_FRAMES 512 /* 1 GB of addresses; memory only where it is written */
#define N_KEPT 32    /* what a bank of this size keeps of frames that hold bytes */

static struct host_bank *bank_open(bool is_isolated, bool commit_now)
{
    struct am_bank_spec spec = {.capacity = N_FRAMES * AM_CHUNK,
                                .is_isolated = is_isolated,
                                .commit_now = commit_now};
    struct am_bank *bank;

    assert_int_equal(host_start(), ACL_SUCCESS);
    assert_int_equal(host_bank_open(&spec, &bank), ACL_SUCCESS);
    return (struct host_bank *)bank;
}

static int bank_make(void **state)
{
    *state = bank_open(true, false);
    return 0;
}

static int bank_drop(void **state)
{
    host_bank_close(*state);
    return 0;
}

static struct am_mem take(struct host_bank *bank, size_t n)
{
    struct am_mem mem;

    assert_int_equal(host_mem_create(&bank->base, n * AM_CHUNK, -1, &mem), ACL_SUCCESS);
    return mem;
}

static size_t frame(struct am_mem *mem, size_t i)
{
    return host_mem_frame(mem, i * AM_CHUNK);
}

static void write_all(struct am_mem *mem)
{
    struct am_span span = {.size = mem->size, .mem = mem};

    assert_int_equal(host_fill(&span, mem->size, 0xaa, 1), ACL_SUCCESS);
}

static size_t bytes_held(struct host_store *store)
{
    struct stat st;

    assert_int_equal(fstat(store->fd, &st), 0);
    return (size_t)st.st_blocks * 512;
}

/* How many frames that hold bytes are free, or how many others, in all shards. */
static size_t n_free(const struct host_bank *bank, bool is_used)
{
    size_t n = 0;

    for (size_t i = 0; i < HOST_SHARDS; i++)
        n += is_used ? bank->shard[i].n_used : bank->shard[i].n_clean;
    return n;
}

/* The free frames of a shard are on the stack that they belong on. */
static void shard_check(struct host_bank *bank, const struct host_shard *shard,
                        unsigned char *seen)
{
    for (size_t i = 0; i < shard->n_used; i++) {
        assert_int_equal(seen[shard->spare[i]]++, 0);
        assert_true(bank->store->state[shard->spare[i]] & HOST_FRAME_HOLDS);
    }
    for (size_t i = N_FRAMES - shard->n_clean; i < N_FRAMES; i++) {
        assert_int_equal(seen[shard->spare[i]]++, 0);
        assert_int_equal(bank->store->state[shard->spare[i]], 0);
    }
}

/* Each frame is in one place: in one of the mems, free in a shard, or fresh. */
static void assert_counted(struct host_bank *bank, struct am_mem *mems, size_t n_mems)
{
    static unsigned char seen[N_FRAMES];
    size_t n_in_use = 0;

    memset(seen, 0, sizeof seen);
    for (size_t i = 0; i < n_mems; i++) {
        for (size_t k = 0; k < mems[i].size >> AM_CHUNK_SHIFT; k++, n_in_use++)
            assert_int_equal(seen[frame(&mems[i], k)]++, 0);
    }
    for (size_t i = 0; i < HOST_SHARDS; i++)
        shard_check(bank, &bank->shard[i], seen);
    for (size_t i = 0; i < N_FRAMES; i++)
        assert_int_equal(seen[i], i < bank->fresh);
    assert_int_equal(bank->n_used, n_free(bank, true));
    assert_int_equal(bank->n_used + n_free(bank, false) + (N_FRAMES - bank->fresh) +
                         n_in_use,
                     N_FRAMES);
}

static void every_frame_is_in_one_place_after_any_calls(void **state)
{
    struct host_bank *bank = *state;
    struct am_mem mems[64];
    size_t n_mems = 0;
    size_t n_in_use = 0;
    uint64_t seed = 1;

    for (int step = 0; step < 2000; step++) {
        size_t n = 1 + random_below(&seed, 12);

        if (n_mems < 64 && n_in_use + n <= N_FRAMES && random_below(&seed, 2) == 0) {
            mems[n_mems] = take(bank, n);
            n_in_use += n;
            if (random_below(&seed, 8) == 0)
                bank->store->state[frame(&mems[n_mems], 0)] |= HOST_FRAME_HOLDS;
            n_mems++;
        } else if (n_mems > 0) {
            size_t i = random_below(&seed, n_mems);

            n_in_use -= mems[i].size >> AM_CHUNK_SHIFT;
            host_mem_destroy(&mems[i]);
            mems[i] = mems[--n_mems];
        }
        assert_counted(bank, mems, n_mems);
    }
    while (n_mems > 0)
        host_mem_destroy(&mems[--n_mems]);
    assert_counted(bank, mems, 0);
}

static void all_of_the_capacity_can_be_had_at_once(void **state)
{
    struct host_bank *bank = *state;
    struct am_mem first = take(bank, 3);
    struct am_mem rest = take(bank, N_FRAMES - 3);
    struct am_mem all;

    host_mem_destroy(&first);
    host_mem_destroy(&rest);
    all = take(bank, N_FRAMES);
    assert_counted(bank, &all, 1);
    host_mem_destroy(&all);
}

static void frames_come_back_in_the_same_order(void **state)
{
    struct host_bank *bank = *state;
    struct am_mem before = take(bank, 2);
    struct am_mem mem = take(bank, 5);
    size_t first = frame(&mem, 0);

    for (int round = 0; round < 4; round++) {
        if (round % 2 == 1)
            write_all(&mem);
        host_mem_destroy(&mem);
        mem = take(bank, 5);
        assert_null(host_mem(&mem)->frames); /* neighbours need no list */
        for (size_t i = 0; i < 5; i++)
            assert_int_equal(frame(&mem, i), first + i);
    }
    host_mem_destroy(&mem);
    host_mem_destroy(&before);
}

static void memory_of_scattered_frames_is_as_good(void **state)
{
    struct host_bank *bank = *state;
    struct am_mem mems[6];
    struct am_mem mem;
    size_t frames[3];

    for (size_t i = 0; i < 6; i++)
        mems[i] = take(bank, 1);
    for (size_t i = 0; i < 6; i += 2)
        host_mem_destroy(&mems[i]);
    mem = take(bank, 3);
    assert_non_null(host_mem(&mem)->frames);
    assert_int_equal(bank->fresh, 6); /* the holes were enough */
    for (size_t i = 0; i < 3; i++)
        frames[i] = frame(&mem, i);
    host_mem_destroy(&mem);
    mem = take(bank, 3);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(frame(&mem, i), frames[i]);
    mems[0] = mem;
    mems[2] = mems[5];
    assert_counted(bank, (struct am_mem[]){mems[0], mems[1], mems[2], mems[3]}, 4);
    for (size_t i = 0; i < 4; i++)
        host_mem_destroy(&mems[i]);
    assert_counted(bank, NULL, 0);
}

static const char *take_all(struct worker *self)
{
    struct host_bank *bank = self->shared;
    struct am_mem mem;

    worker_check(host_mem_create(&bank->base, N_FRAMES * AM_CHUNK, -1, &mem) ==
                 ACL_SUCCESS);
    host_mem_destroy(&mem);
    return NULL;
}

static void a_thread_gets_the_free_frames_of_another(void **state)
{
    struct host_bank *bank = *state;
    struct am_mem mem = take(bank, N_FRAMES / 2);
    struct worker worker = {.run = take_all, .shared = bank};

    host_mem_destroy(&mem);
    assert_null(run_workers(&worker, 1));
    mem = take(bank, N_FRAMES);
    assert_counted(bank, &mem, 1);
    host_mem_destroy(&mem);
}

static void frames_that_hold_bytes_are_handed_out_first(void **state)
{
    struct host_bank *bank = *state;
    struct am_mem clean = take(bank, 1);
    struct am_mem written = take(bank, 1);
    size_t warm = frame(&written, 0);
    struct am_mem mem;

    write_all(&written);
    host_mem_destroy(&written);
    host_mem_destroy(&clean);
    mem = take(bank, 1);
    assert_int_equal(frame(&mem, 0), warm);
    host_mem_destroy(&mem);
}

static void memory_that_was_never_written_costs_no_system_call(void **state)
{
    struct host_bank *bank = *state;
    struct am_mem one;
    struct am_mem many;

    am_fault_arm(1, true);
    one = take(bank, 1); /* nor an allocation: a single frame needs no list */
    assert_false(am_fault_fired());
    am_fault_disarm();
    many = take(bank, 2 * N_KEPT);
    am_fault_arm(1, true);
    host_mem_destroy(&many);
    host_mem_destroy(&one);
    am_fault_disarm();
    assert_false(am_fault_fired());
    assert_int_equal(bytes_held(bank->store), 0);
}

static void frames_that_hold_bytes_go_back_to_the_system_above_a_limit(void **state)
{
    struct host_bank *bank = *state;
    struct am_mem mem = take(bank, N_KEPT + 8);

    assert_int_equal(bank->n_used_max, N_KEPT);
    write_all(&mem);
    assert_int_equal(bytes_held(bank->store), (N_KEPT + 8) * AM_CHUNK);
    host_mem_destroy(&mem);
    assert_int_equal(bytes_held(bank->store), N_KEPT * AM_CHUNK);
    assert_int_equal(bank->n_used, N_KEPT);
    assert_int_equal(n_free(bank, false), 8);
    assert_counted(bank, NULL, 0);
}

static void what_came_from_the_system_again_reads_as_zero(void **state)
{
    struct host_bank *bank = *state;
    struct am_mem mem = take(bank, N_KEPT + 8);
    unsigned char *bytes = malloc(AM_CHUNK);
    size_t n_zero = 0;

    assert_non_null(bytes);
    write_all(&mem);
    host_mem_destroy(&mem);
    mem = take(bank, N_KEPT + 8);
    for (size_t i = 0; i < N_KEPT + 8; i++) {
        struct am_span from = {.size = AM_CHUNK, .mem = &mem, .offset = i * AM_CHUNK};
        struct am_span to = {.addr = bytes, .size = AM_CHUNK};

        assert_int_equal(host_copy(&to, 0, &from, 0, AM_CHUNK), ACL_SUCCESS);
        assert_true(bytes[0] == 0 || bytes[0] == 0xaa);
        assert_memory_equal(bytes, bytes + 1, AM_CHUNK - 1);
        n_zero += bytes[0] == 0;
    }
    assert_int_equal(n_zero, 8);
    free(bytes);
    host_mem_destroy(&mem);
}

static void neighbours_go_back_in_one_call(void **state)
{
    struct host_bank *bank = *state;
    struct am_mem mem = take(bank, N_KEPT + 8);

    write_all(&mem);
    am_fault_arm(2, false);
    host_mem_destroy(&mem);
    am_fault_disarm();
    assert_false(am_fault_fired());
    assert_int_equal(n_free(bank, false), 8);
}

static void what_the_system_does_not_take_back_is_kept_and_used_again(void **state)
{
    struct host_bank *bank = *state;
    struct am_mem mem = take(bank, N_KEPT + 8);

    write_all(&mem);
    am_fault_arm(1, false);
    host_mem_destroy(&mem);
    am_fault_disarm();
    assert_true(am_fault_fired());
    assert_int_equal(bank->n_used, N_KEPT + 8);
    assert_int_equal(n_free(bank, false), 0);
    assert_counted(bank, NULL, 0);
    mem = take(bank, N_KEPT + 8);
    assert_int_equal(bank->fresh, N_KEPT + 8);
    host_mem_destroy(&mem);
}

static atomic_uchar is_out[N_FRAMES];

/* No more threads than frames, as the core sees to. */
static const char *take_and_give(struct worker *self)
{
    struct host_bank *bank = self->shared;

    for (int i = 0; i < 3000; i++) {
        struct am_mem mem;

        worker_check(host_mem_create(&bank->base, AM_CHUNK, -1, &mem) == ACL_SUCCESS);
        worker_check(atomic_fetch_add(&is_out[host_mem(&mem)->first], 1) == 0);
        atomic_fetch_sub(&is_out[host_mem(&mem)->first], 1);
        host_mem_destroy(&mem);
    }
    return NULL;
}

static void no_two_threads_have_one_frame(void **state)
{
    struct host_bank *bank = *state;
    struct am_mem most = take(bank, N_FRAMES - 8);
    struct worker workers[8];

    for (unsigned i = 0; i < 8; i++)
        workers[i] = (struct worker){.run = take_and_give, .shared = bank};
    assert_null(run_workers(workers, 8));
    assert_counted(bank, &most, 1);
    host_mem_destroy(&most);
}

static void no_memory_for_the_list_takes_no_frame(void **state)
{
    struct host_bank *bank = *state;
    struct am_mem mem;

    am_fault_arm(1, true);
    assert_int_equal(host_mem_create(&bank->base, 2 * AM_CHUNK, -1, &mem),
                     ACL_ERROR_BAD_ALLOC);
    am_fault_disarm();
    assert_int_equal(bank->fresh, 0);
    assert_counted(bank, NULL, 0);
}

static void committed_memory_is_there_when_it_is_allocated(void **state)
{
    struct host_bank *bank = bank_open(true, true);
    struct am_mem mem = take(bank, 4);

    assert_int_equal(bytes_held(bank->store), 4 * AM_CHUNK);
    host_mem_destroy(&mem);
    host_bank_close(&bank->base);
}

static void failed_commitment_gives_every_frame_back(void **state)
{
    char why[AM_WHY_SIZE];
    struct host_bank *bank;
    size_t n_failed = 0;

    /* A call for huge pages that fails would be made good by the next call. */
    assert_int_equal(am_options_set("huge_pages", "never", why), 0);
    bank = bank_open(true, true);

    for_each_fault (n) {
        struct am_mem mem;
        aclError rc = host_mem_create(&bank->base, 3 * AM_CHUNK, -1, &mem);

        assert_int_equal(rc == ACL_SUCCESS, !am_fault_fired());
        if (rc == ACL_SUCCESS) {
            host_mem_destroy(&mem);
        } else {
            assert_true(rc == ACL_ERROR_BAD_ALLOC ||
                        rc == ACL_ERROR_RT_MEMORY_ALLOCATION);
            n_failed += rc == ACL_ERROR_RT_MEMORY_ALLOCATION;
        }
        assert_counted(bank, NULL, 0);
    }
    assert_true(n_failed > 0);
    host_bank_close(&bank->base);
    am_options_reset();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define on_a_bank(f_) cmocka_unit_test_setup_teardown(f_, bank_make, bank_drop)
        on_a_bank(every_frame_is_in_one_place_after_any_calls),
        on_a_bank(all_of_the_capacity_can_be_had_at_once),
        on_a_bank(frames_come_back_in_the_same_order),
        on_a_bank(memory_of_scattered_frames_is_as_good),
        on_a_bank(a_thread_gets_the_free_frames_of_another),
        on_a_bank(frames_that_hold_bytes_are_handed_out_first),
        on_a_bank(memory_that_was_never_written_costs_no_system_call),
        on_a_bank(frames_that_hold_bytes_go_back_to_the_system_above_a_limit),
        on_a_bank(what_came_from_the_system_again_reads_as_zero),
        on_a_bank(neighbours_go_back_in_one_call),
        on_a_bank(what_the_system_does_not_take_back_is_kept_and_used_again),
        on_a_bank(no_two_threads_have_one_frame),
        on_a_bank(no_memory_for_the_list_takes_no_frame),
        cmocka_unit_test(committed_memory_is_there_when_it_is_allocated),
        cmocka_unit_test(failed_commitment_gives_every_frame_back),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
