/*
 * The host backend's copies and fills, over spans scattered in any way, against a model.
 */
#include "copy_model.h"

#include <string.h>

#include "acl/error_codes/rt_error_codes.h"
#include "base/error.h"
#include "base/options.h"

#define SPANS_MAX 16

/* An offset into n bytes, most often near the border of a chunk. */
static size_t random_offset(uint64_t *seed, size_t n)
{
    size_t border = random_below(seed, n / AM_CHUNK + 1) * AM_CHUNK;
    size_t near = random_below(seed, 200);

    switch (random_below(seed, 4)) {
    case 0:
        return random_below(seed, n);
    case 1:
        return border > near ? border - near - 1 : 0;
    default:
        return border + near < n ? border + near : border < n ? border : 0;
    }
}

/*
 * A list of spans of at least `size` bytes.  Sides are told apart by parity, so a copy
 * never reads what it writes; what then happens is not promised.
 */
static void random_spans(uint64_t *seed, size_t side, size_t size, struct am_span *list)
{
    size_t total = 0;

    if (side == 0 && random_below(seed, 4) == 0) {
        size_t at = random_below(seed, OWN_SIZE - size + 1);

        list[0] = (struct am_span){.addr = t.own + at, .size = OWN_SIZE - at};
        return;
    }
    for (size_t n = 0; total < size; n++) {
        struct am_mem *mem =
            &t.mem[random_below(seed, (N_MEMS + 1 - side) / 2) * 2 + side];
        bool is_last = n >= SPANS_MAX - 3; /* whole mems, so that the list ends in time */
        size_t offset = is_last ? 0 : random_offset(seed, mem->size);
        size_t left = mem->size - offset;

        if (!is_last && random_below(seed, 3) != 0)
            left = 1 + random_offset(seed, left);
        list[n] = (struct am_span){.size = left, .mem = mem, .offset = offset};
        total += list[n].size;
    }
}

static void random_copies_and_fills_leave_what_a_plain_copy_would(void **state)
{
    struct am_span to[SPANS_MAX];
    struct am_span from[SPANS_MAX];
    uint64_t seed = 7;

    for (size_t i = 0; i < OWN_SIZE; i++)
        t.own[i] = t.own_model[i] = (uint8_t)random_next(&seed);
    for (int step = 0; step < 120; step++) {
        size_t size = 1 + random_offset(&seed, 2 * AM_CHUNK);
        size_t side = random_below(&seed, 2);

        random_spans(&seed, side, size, to);
        if (random_below(&seed, 3) == 0) {
            fill_both(to, size,
                      random_below(&seed, 3) == 0 ? 0 : (int)random_below(&seed, 256));
        } else {
            random_spans(&seed, 1 - side, size, from);
            copy_both(to, from, size);
        }
        assert_as_modelled();
    }
}

/* One byte on the other side of the border between two frames that are no neighbours. */
static void a_single_byte_behind_a_border_is_not_forgotten(void **state)
{
    struct am_span two = {.size = 2, .mem = &t.mem[2], .offset = AM_CHUNK - 1};
    struct am_span list[2] = {{.size = AM_CHUNK + 1, .mem = &t.mem[4]}, whole(&t.mem[0])};
    struct am_span own = {.addr = t.own, .size = OWN_SIZE};

    assert_non_null(host_mem(&t.mem[2])->frames);
    fill_both(&two, 2, 0x44);
    assert_as_modelled();

    for (size_t i = 0; i < OWN_SIZE; i++)
        t.own[i] = t.own_model[i] = (uint8_t)(i % 251);
    copy_both(list, &own, AM_CHUNK + 100);
    assert_as_modelled();
    copy_both(&own, list, AM_CHUNK + 100);
    assert_as_modelled();
}

static void a_fill_takes_the_low_byte_of_its_value(void **state)
{
    struct am_span span = whole(&t.mem[0]);

    fill_both(&span, 10, 0x1ff);
    fill_both(&span, 5, -2);
    assert_int_equal(t.model[0][4], 0xfe);
    assert_int_equal(t.model[0][9], 0xff);
    assert_as_modelled();
}

static void memory_that_was_never_written_reads_as_zero_and_stays_unfilled(void **state)
{
    struct am_span from = whole(&t.mem[2]);
    struct am_span to = {.addr = t.own, .size = OWN_SIZE};

    memset(t.own, 0x55, OWN_SIZE);
    copy_both(&to, &from, from.size);
    assert_zero(t.own, from.size);
    assert_int_equal(bytes_held(t.device), 0);
    assert_false(frame_holds(&t.mem[2], 0));
}

static void zeroing_memory_that_was_never_written_is_nothing(void **state)
{
    struct am_span span = whole(&t.mem[4]);

    am_fault_arm(1, true);
    fill_both(&span, span.size, 0);
    am_fault_disarm();
    assert_false(am_fault_fired());
    assert_int_equal(bytes_held(t.device), 0);
    assert_as_modelled();
}

static void zero_over_bytes_is_written(void **state)
{
    struct am_span to = whole(&t.mem[2]);
    struct am_span empty = whole(&t.mem[4]);

    fill_both(&to, to.size, 0x77);
    fill_both(&to, to.size / 2, 0);
    assert_as_modelled();
    fill_both(&to, to.size, 0x77);
    copy_both(&to, &empty, to.size - 1);
    assert_int_equal(t.model[2][to.size - 1], 0x77);
    assert_as_modelled();
}

static void neighbouring_frames_are_brought_in_together(void **state)
{
    struct am_bank *fresh = bank_open(true);
    struct am_mem mem;
    struct am_span span;

    assert_int_equal(host_mem_create(fresh, 8 * AM_CHUNK, -1, &mem), ACL_SUCCESS);
    span = whole(&mem);
    am_fault_arm(3, true); /* at most MADV_COLLAPSE and MADV_POPULATE_WRITE */
    assert_int_equal(host_fill(&span, span.size, 1, 1), ACL_SUCCESS);
    am_fault_disarm();
    assert_false(am_fault_fired());
    assert_int_equal(bytes_held(fresh), 8 * AM_CHUNK);
    host_mem_destroy(&mem);
    host_bank_close(fresh);
}

/* Neighbours in one run of frames, of which only one holds bytes. */
static void a_frame_that_holds_nothing_does_not_hide_its_neighbour(void **state)
{
    struct am_bank *fresh = bank_open(true);
    struct am_mem mem;
    struct am_span all;
    struct am_span middle;
    struct am_span own = {.addr = t.own, .size = OWN_SIZE};

    assert_int_equal(host_mem_create(fresh, 3 * AM_CHUNK, -1, &mem), ACL_SUCCESS);
    assert_null(host_mem(&mem)->frames);
    all = whole(&mem);
    middle = (struct am_span){.size = AM_CHUNK, .mem = &mem, .offset = AM_CHUNK};
    assert_int_equal(host_fill(&middle, AM_CHUNK, 0x33, 1), ACL_SUCCESS);
    memset(t.own, 0x55, OWN_SIZE);
    assert_int_equal(host_copy(&own, 0, &all, 0, all.size), ACL_SUCCESS);
    assert_zero(t.own, AM_CHUNK);
    assert_int_equal(t.own[AM_CHUNK], 0x33);
    assert_same(t.own + AM_CHUNK, t.own + AM_CHUNK + 1, AM_CHUNK - 1);
    assert_zero(t.own + 2 * AM_CHUNK, AM_CHUNK);

    assert_int_equal(host_fill(&all, all.size, 0, 1), ACL_SUCCESS);
    assert_int_equal(host_copy(&own, 0, &all, 0, all.size), ACL_SUCCESS);
    assert_zero(t.own, all.size);
    assert_int_equal(bytes_held(fresh), AM_CHUNK);
    host_mem_destroy(&mem);
    host_bank_close(fresh);
}

static void memory_that_is_there_is_copied_without_a_system_call(void **state)
{
    struct am_span a = whole(&t.mem[2]);
    struct am_span b = whole(&t.mem[4]);

    fill_both(&a, a.size, 3);
    fill_both(&b, b.size, 4);
    am_fault_arm(1, true);
    copy_both(&a, &b, a.size);
    fill_both(&b, b.size, 5);
    am_fault_disarm();
    assert_false(am_fault_fired());
    assert_as_modelled();
}

/*
 * The first span is there already and would be written first; the others have to be
 * brought in.
 */
static void a_copy_that_finds_no_memory_moves_no_byte(void **state)
{
    struct am_span ready = whole(&t.mem[0]);
    struct am_span to[3] = {whole(&t.mem[0]), whole(&t.mem[2]), whole(&t.mem[4])};
    struct am_span from[3] = {{.addr = t.own, .size = OWN_SIZE},
                              {.addr = t.own, .size = OWN_SIZE},
                              {.addr = t.own, .size = OWN_SIZE}};
    size_t size = to[0].size + to[1].size + to[2].size;
    size_t n_failed = 0;

    memset(t.own, 0x55, OWN_SIZE);
    memset(t.own_model, 0x55, OWN_SIZE);
    fill_both(&ready, ready.size, 0x11);
    for_each_fault (n) {
        aclError rc = host_copy(to, 0, from, 0, size);

        assert_int_equal(rc == ACL_SUCCESS, !am_fault_fired());
        if (rc == ACL_SUCCESS)
            break;
        assert_int_equal(rc, ACL_ERROR_RT_MEMORY_ALLOCATION);
        assert_contains(am_error_take_messages(), "Failed to allocate");
        assert_as_modelled();
        n_failed++;
    }
    am_fault_disarm();
    assert_true(n_failed > 1);
    copy_both(to, from, size);
    assert_as_modelled();
}

/* Memory that the program may touch: reading and zeroing bring pages in as well. */
static void addressable_memory_is_brought_in_before_it_is_read_or_zeroed(void **state)
{
    struct am_span host = whole(&t.mem[N_MEMS - 1]);
    struct am_span own = {.addr = t.own, .size = OWN_SIZE};

    memset(t.own, 0x55, OWN_SIZE);
    memset(t.own_model, 0x55, OWN_SIZE);
    am_fault_arm(1, true);
    assert_int_equal(host_copy(&own, 0, &host, 0, host.size),
                     ACL_ERROR_RT_MEMORY_ALLOCATION);
    am_fault_arm(1, true);
    assert_int_equal(host_fill(&host, host.size, 0, 1), ACL_ERROR_RT_MEMORY_ALLOCATION);
    am_fault_disarm();
    assert_as_modelled();
}

static void a_fill_that_finds_no_memory_writes_no_byte(void **state)
{
    struct am_span ready = whole(&t.mem[0]);
    struct am_span to[2] = {whole(&t.mem[0]), whole(&t.mem[2])};
    aclError rc;

    fill_both(&ready, ready.size, 0x11);
    am_fault_arm(1, false);
    rc = host_fill(to, to[0].size + to[1].size, 0x22, 1);
    am_fault_disarm();
    assert_int_equal(rc, ACL_ERROR_RT_MEMORY_ALLOCATION);
    assert_as_modelled();
}

/* A call for huge pages that fails would be made good by the next call. */
static int model_begin_ordinary(void **state)
{
    char why[AM_WHY_SIZE];

    assert_int_equal(am_options_set("huge_pages", "never", why), 0);
    return model_begin(state);
}

static int model_end_ordinary(void **state)
{
    am_options_reset();
    return model_end(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define on_scattered_frames(f_) \
    cmocka_unit_test_setup_teardown(f_, model_begin, model_end)
#define on_ordinary_pages(f_) \
    cmocka_unit_test_setup_teardown(f_, model_begin_ordinary, model_end_ordinary)
        on_scattered_frames(random_copies_and_fills_leave_what_a_plain_copy_would),
        on_scattered_frames(a_single_byte_behind_a_border_is_not_forgotten),
        on_scattered_frames(a_fill_takes_the_low_byte_of_its_value),
        on_scattered_frames(
            memory_that_was_never_written_reads_as_zero_and_stays_unfilled),
        on_scattered_frames(zeroing_memory_that_was_never_written_is_nothing),
        on_scattered_frames(zero_over_bytes_is_written),
        on_scattered_frames(neighbouring_frames_are_brought_in_together),
        on_scattered_frames(a_frame_that_holds_nothing_does_not_hide_its_neighbour),
        on_scattered_frames(memory_that_is_there_is_copied_without_a_system_call),
        on_ordinary_pages(a_copy_that_finds_no_memory_moves_no_byte),
        on_scattered_frames(addressable_memory_is_brought_in_before_it_is_read_or_zeroed),
        on_ordinary_pages(a_fill_that_finds_no_memory_writes_no_byte),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
