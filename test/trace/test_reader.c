/* Traces that no layer writes: hostile files have a bound on memory and work. */
#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "build.h"

#define CALL 1

static uint8_t bytes[BUILD_PAYLOAD];

static void functions_add(struct build *b)
{
    uint8_t *end = build_function(bytes, CALL, 'r', "aclrtSynchronizeDevice", "");

    build_chunk(b, 1, 0, 0, 1, bytes, (size_t)(end - bytes), 0);
}

/* Events of the whole file; fails above `most`: the reader does not come to an end. */
static uint64_t events_count(struct trace *trace, uint64_t most)
{
    struct trace_event event;
    uint64_t last = 0;
    uint64_t n = 0;

    assert_non_null(trace);
    while (trace_next(trace, &event)) {
        assert_true(event.time >= last);
        last = event.time;
        assert_true(++n <= most);
    }
    return n;
}

static void memory_is_bounded(const struct trace *trace)
{
    const struct trace_about *about = trace_about(trace);

    assert_true(about->memory <= about->memory_max);
    assert_int_equal(about->memory_max,
                     TRACE_MEMORY_BASE + TRACE_MEMORY_RATIO * about->n_bytes);
}

static void a_reused_thread_id_drops_no_call(void **state)
{
    struct build b;
    struct trace *trace;
    uint8_t *end = build_call(build_call(bytes, CALL, 5, 0), CALL, 5, 0);

    build_begin(&b);
    functions_add(&b);
    bytes[0] = 0;
    end = build_call(build_call(bytes, CALL, 5, 0), CALL, 5, 0);
    build_chunk(&b, 1, 7, 0, 100, bytes, (size_t)(end - bytes), 0);
    build_chunk(&b, 1, 7, 1, 200, bytes, (size_t)(end - bytes), 0);
    build_chunk(&b, 1, 7, 0, 300, bytes, (size_t)(end - bytes),
                0); /* a second thread 7 */
    build_slot(&b, AM_TRACE_PACK);
    assert_true(build_frame(&b, 1, 7, 1, 200, bytes, (size_t)(end - bytes))); /* a copy */
    assert_true(build_frame(&b, 1, 7, 1, 400, bytes, (size_t)(end - bytes)));
    trace = build_open(&b);
    assert_int_equal(events_count(trace, 8), 8);
    assert_int_equal(trace_about(trace)->n_damaged, 0);
    trace_close(trace);
}

static void the_largest_chunk_number_ends_the_thread(void **state)
{
    struct build b;
    struct trace *trace;
    uint8_t *end;

    build_begin(&b);
    functions_add(&b);
    end = build_call(bytes, CALL, 5, 0);
    build_chunk(&b, 1, 7, 0, 100, bytes, (size_t)(end - bytes), 0);
    build_chunk(&b, 1, 7, UINT64_MAX, 200, bytes, (size_t)(end - bytes), 0);
    build_chunk(&b, 1, 8, UINT64_MAX, UINT64_MAX, bytes, (size_t)(end - bytes), 0);
    trace = build_open(&b);
    assert_int_equal(events_count(trace, 3), 3);
    trace_close(trace);
}

/* Two records of a few bytes: the table of stacks grows with records, not with numbers. */
static void sparse_stack_numbers_take_little_memory(void **state)
{
    struct build b;
    struct trace *trace;
    uint8_t record[64];
    uint8_t *end;
    uint8_t *at = bytes;
    const uint32_t numbers[] = {3, AM_TRACE_PYTHON_STACKS - 1};

    build_begin(&b);
    functions_add(&b);
    for (size_t i = 0; i < 2; i++) {
        end = am_put_varint(record, numbers[i]);
        end = am_put_varint(end, 0);
        end = am_put_varint(end, 1);
        end = am_put_varint(end, am_zigzag(0x1000 + (int64_t)i));
        at = build_record(at, AM_TRACE_STACK, record, (size_t)(end - record));
    }
    end = am_put_varint(record, AM_TRACE_PYTHON_STACKS - 1);
    end = am_put_bytes(end, "[]", 2);
    at = build_record(at, AM_TRACE_PYTHON, record, (size_t)(end - record));
    build_chunk(&b, 1, 0, 1, 2, bytes, (size_t)(at - bytes), 0);
    trace = build_open(&b);
    assert_int_equal(events_count(trace, 0), 0);
    assert_int_equal(trace_stack_find(trace_process_at(trace, 0), numbers[1])->frame[0],
                     0x1001);
    assert_non_null(
        trace_stack_find(trace_process_at(trace, 0), 2 * AM_TRACE_PYTHON_STACKS - 1)
            ->python);
    assert_null(trace_stack_find(trace_process_at(trace, 0), 4));
    assert_true(trace_about(trace)->memory < 1 << 20);
    trace_close(trace);
}

/* Frames of 60 bytes that decompress to 64 KB each, in as many threads. */
static void compressed_chunks_have_a_bound_on_memory_and_work(void **state)
{
    struct build b;
    struct trace *trace;
    uint64_t n = 0;
    size_t used = 0;

    build_begin(&b);
    functions_add(&b);
    memset(bytes, 0, sizeof bytes); /* records of kind 0 with no content: skipped */
    used = (size_t)(build_call(bytes + sizeof bytes - 63, CALL, 5, 0) - bytes);
    build_slot(&b, AM_TRACE_PACK);
    for (uint32_t i = 0; n < 20000; i++) {
        if (build_frame(&b, 1, 7 + i, 0, 100, bytes, used / 3 * 3))
            n++;
        else
            build_slot(&b, AM_TRACE_PACK);
    }
    trace = build_open(&b);
    memory_is_bounded(trace);
    events_count(trace, 20000);
    memory_is_bounded(trace);
    assert_true(trace_about(trace)->n_decoded <=
                TRACE_DECODED_BASE + TRACE_DECODED_RATIO * trace_about(trace)->n_bytes);
    assert_true(trace_about(trace)->n_damaged > 0);
    trace_close(trace);
}

/* A definition of 10 bytes may ask for a table of 65,536 entries, in each process. */
static void definitions_have_a_bound_on_memory(void **state)
{
    struct build b;
    struct trace *trace;

    build_begin(&b);
    build_slot(&b, AM_TRACE_PACK);
    for (uint32_t process = 1; process <= 600; process++) {
        uint8_t *end = build_function(bytes, 65535, 'r', "f", "");

        if (!build_frame(&b, process, 0, 0, 1, bytes, (size_t)(end - bytes))) {
            build_slot(&b, AM_TRACE_PACK);
            process--;
        }
    }
    trace = build_open(&b);
    memory_is_bounded(trace);
    trace_close(trace);
}

/* A hole of 1 TB has no slots. */
static void holes_of_a_file_are_not_read(void **state)
{
    char path[] = "/tmp/aclmem-test-sparse-XXXXXX";
    char why[TRACE_WHY_SIZE];
    struct build b;
    struct trace *trace;
    uint8_t *end;
    int fd = mkstemp(path);

    assert_true(fd >= 0);
    build_begin(&b);
    functions_add(&b);
    end = build_call(bytes, CALL, 5, 0);
    build_chunk(&b, 1, 7, 0, 100, bytes, (size_t)(end - bytes), 0);
    assert_int_equal(write(fd, b.file, build_size(&b)), build_size(&b));
    free(b.file);
    assert_int_equal(ftruncate(fd, (off_t)1 << 40), 0);
    trace = trace_open(path, why);
    unlink(path);
    close(fd);
    assert_int_equal(events_count(trace, 1), 1);
    assert_true(trace_about(trace)->n_bytes <= 2 * AM_TRACE_SLOT_SIZE);
    trace_close(trace);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_reused_thread_id_drops_no_call),
        cmocka_unit_test(the_largest_chunk_number_ends_the_thread),
        cmocka_unit_test(sparse_stack_numbers_take_little_memory),
        cmocka_unit_test(compressed_chunks_have_a_bound_on_memory_and_work),
        cmocka_unit_test(definitions_have_a_bound_on_memory),
        cmocka_unit_test(holes_of_a_file_are_not_read),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
