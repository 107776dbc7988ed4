/*
 * The host backend's copies and fills, over spans scattered in any way, against a model: for each
 * mem an array of what its bytes should be, which knows nothing of frames.
 */
#include "unit.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "acl/error_codes/rt_error_codes.h"
#include "backend/host/host.h"
#include "base/error.h"

#define N_MEMS 7
#define SPANS_MAX 16
#define OWN_SIZE (3 * AM_CHUNK)

static struct {
    struct am_bank *device;
    struct am_bank *host;
    struct am_mem mem[N_MEMS]; /* the last one is the host's */
    uint8_t *model[N_MEMS];
    uint8_t *own; /* the program's own memory, and what it should hold */
    uint8_t *own_model;
} t;

static struct am_bank *bank_open(bool is_isolated)
{
    struct am_bank_spec spec = {.capacity = 64 * AM_CHUNK, .is_isolated = is_isolated};
    struct am_bank *bank;

    assert_int_equal(host_bank_open(&spec, &bank), ACL_SUCCESS);
    return bank;
}

/* Every second frame goes back before the mems are made, so theirs are no neighbours at first. */
static int begin(void **state)
{
    static const size_t chunks[N_MEMS] = {1, 2, 3, 1, 3, 2, 2};
    struct am_mem single[12];

    t.device = bank_open(true);
    t.host = bank_open(false);
    for (size_t i = 0; i < 12; i++)
        assert_int_equal(host_mem_create(t.device, AM_CHUNK, -1, &single[i]),
                         ACL_SUCCESS);
    for (size_t i = 0; i < 12; i += 2)
        host_mem_destroy(&single[i]);
    for (size_t i = 0; i < N_MEMS; i++) {
        struct am_bank *bank = i == N_MEMS - 1 ? t.host : t.device;

        assert_int_equal(host_mem_create(bank, chunks[i] * AM_CHUNK, -1, &t.mem[i]),
                         ACL_SUCCESS);
        t.model[i] = calloc(1, t.mem[i].size);
        assert_non_null(t.model[i]);
    }
    for (size_t i = 1; i < 12; i += 2)
        host_mem_destroy(&single[i]);
    t.own = calloc(1, OWN_SIZE);
    t.own_model = calloc(1, OWN_SIZE);
    assert_true(t.own != NULL && t.own_model != NULL);
    return 0;
}

static int end(void **state)
{
    for (size_t i = 0; i < N_MEMS; i++) {
        host_mem_destroy(&t.mem[i]);
        free(t.model[i]);
    }
    free(t.own);
    free(t.own_model);
    host_bank_close(t.device);
    host_bank_close(t.host);
    am_error_take_messages();
    return 0;
}

static bool frame_holds(struct am_mem *mem, size_t at)
{
    return host_mem(mem)->store->state[host_mem_frame(mem, at)] & HOST_FRAME_HOLDS;
}

/* cmocka's own compares byte by byte, for which there are too many here. */
static void assert_same(const uint8_t *a, const uint8_t *b, size_t size)
{
    if (memcmp(a, b, size) != 0)
        assert_memory_equal(a, b, size);
}

static void assert_zero(const uint8_t *bytes, size_t size)
{
    assert_int_equal(bytes[0], 0);
    assert_same(bytes, bytes + 1, size - 1);
}

/* Looks at the frames behind the mems; those that hold nothing are not touched. */
static void assert_as_modelled(void)
{
    for (size_t i = 0; i < N_MEMS; i++) {
        for (size_t at = 0; at < t.mem[i].size; at += AM_CHUNK) {
            uint8_t *frame = host_mem(&t.mem[i])->store->view +
                             (host_mem_frame(&t.mem[i], at) << AM_CHUNK_SHIFT);

            if (frame_holds(&t.mem[i], at))
                assert_same(frame, t.model[i] + at, AM_CHUNK);
            else
                assert_zero(t.model[i] + at, AM_CHUNK);
        }
    }
    assert_same(t.own, t.own_model, OWN_SIZE);
}

static uint8_t *model_of(const struct am_span *span)
{
    for (size_t i = 0; i < N_MEMS; i++) {
        if (span->mem == &t.mem[i])
            return t.model[i] + span->offset;
    }
    return t.own_model + ((uint8_t *)span->addr - t.own);
}

/* `size` bytes of the model behind the list, out of it or into it. */
static void model_move(const struct am_span *span, size_t size, uint8_t *bytes,
                       bool is_out)
{
    for (; size > 0; span++) {
        size_t n = span->size < size ? span->size : size;

        if (is_out)
            memcpy(bytes, model_of(span), n);
        else
            memcpy(model_of(span), bytes, n);
        bytes += n;
        size -= n;
    }
}

static void copy_both(const struct am_span *to, const struct am_span *from, size_t size)
{
    uint8_t *bytes = malloc(size);

    assert_non_null(bytes);
    assert_int_equal(host_copy(to, from, size), ACL_SUCCESS);
    model_move(from, size, bytes, true);
    model_move(to, size, bytes, false);
    free(bytes);
}

static void fill_both(const struct am_span *to, size_t size, int value)
{
    uint8_t *bytes = malloc(size);

    assert_non_null(bytes);
    assert_int_equal(host_fill(to, size, value), ACL_SUCCESS);
    memset(bytes, value, size);
    model_move(to, size, bytes, false);
    free(bytes);
}

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
 * A list of spans of at least `size` bytes.  Sides are told apart by parity, so a copy never reads
 * what it writes; what then happens is not promised.
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
        size_t offset = n < SPANS_MAX - 3 ? random_offset(seed, mem->size) : 0;

        list[n] =
            (struct am_span){.size = mem->size - offset, .mem = mem, .offset = offset};
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

static struct am_span whole(struct am_mem *mem)
{
    return (struct am_span){.size = mem->size, .mem = mem};
}

static size_t bytes_held(struct am_bank *bank)
{
    struct stat st;

    assert_int_equal(fstat(((struct host_bank *)bank)->store.fd, &st), 0);
    return (size_t)st.st_blocks * 512;
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

static void neighbouring_frames_are_brought_in_by_one_call(void **state)
{
    struct am_bank *fresh = bank_open(true);
    struct am_mem mem;
    struct am_span span;

    assert_int_equal(host_mem_create(fresh, 8 * AM_CHUNK, -1, &mem), ACL_SUCCESS);
    span = whole(&mem);
    am_fault_arm(2, true);
    assert_int_equal(host_fill(&span, span.size, 1), ACL_SUCCESS);
    am_fault_disarm();
    assert_false(am_fault_fired());
    assert_int_equal(bytes_held(fresh), 8 * AM_CHUNK);
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

/* The first span is there already and would be written first; the others have to be brought in. */
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
        aclError rc = host_copy(to, from, size);

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

static void a_fill_that_finds_no_memory_writes_no_byte(void **state)
{
    struct am_span ready = whole(&t.mem[0]);
    struct am_span to[2] = {whole(&t.mem[0]), whole(&t.mem[2])};
    aclError rc;

    fill_both(&ready, ready.size, 0x11);
    am_fault_arm(1, false);
    rc = host_fill(to, to[0].size + to[1].size, 0x22);
    am_fault_disarm();
    assert_int_equal(rc, ACL_ERROR_RT_MEMORY_ALLOCATION);
    assert_as_modelled();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define on_scattered_frames(f_) cmocka_unit_test_setup_teardown(f_, begin, end)
        on_scattered_frames(random_copies_and_fills_leave_what_a_plain_copy_would),
        on_scattered_frames(a_fill_takes_the_low_byte_of_its_value),
        on_scattered_frames(
            memory_that_was_never_written_reads_as_zero_and_stays_unfilled),
        on_scattered_frames(zeroing_memory_that_was_never_written_is_nothing),
        on_scattered_frames(zero_over_bytes_is_written),
        on_scattered_frames(neighbouring_frames_are_brought_in_by_one_call),
        on_scattered_frames(memory_that_is_there_is_copied_without_a_system_call),
        on_scattered_frames(a_copy_that_finds_no_memory_moves_no_byte),
        on_scattered_frames(a_fill_that_finds_no_memory_writes_no_byte),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
