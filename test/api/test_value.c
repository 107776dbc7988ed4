/* aclrtValueWrite and aclrtValueWait. */
#include "support/process.h"
#include "support/streams.h"
#include "support/vmm.h"
#include "support/work.h"

#include <stdatomic.h>

static uint64_t value_at(const void *at)
{
    uint64_t value = 0;

    assert_acl_ok(
        aclrtMemcpy(&value, sizeof(value), at, sizeof(value), ACL_MEMCPY_DEVICE_TO_HOST));
    return value;
}

static void put_value(void *at, uint64_t value)
{
    assert_acl_ok(
        aclrtMemcpy(at, sizeof(value), &value, sizeof(value), ACL_MEMCPY_HOST_TO_DEVICE));
}

static void a_write_comes_in_its_turn(void **state)
{
    struct block b = block_create(CHUNK);
    aclrtStream stream = make_stream();
    struct gate *gate = gate_close(stream);

    assert_acl_ok(aclrtValueWrite(b.va + 8, 0x0123456789abcdef, 0, stream));
    assert_acl_ok(aclrtValueWrite(b.va + CHUNK - 8, UINT64_MAX, 0, stream));
    assert_int_equal(value_at(b.va + 8), 0);
    gate_end(gate);
    assert_int_equal(value_at(b.va + 8), 0x0123456789abcdef);
    assert_int_equal(value_at(b.va + CHUNK - 8), UINT64_MAX);
    assert_all_bytes(b.va, 8, 0);
    assert_all_bytes(b.va + 16, 100, 0);
    assert_acl_ok(aclrtValueWrite(b.va, 5, 0, NULL));
    assert_acl_ok(aclrtSynchronizeStream(NULL));
    assert_int_equal(value_at(b.va), 5);
    assert_acl_ok(aclrtDestroyStream(stream));
    block_destroy(&b);
}

static aclrtStream wait_for(char *at, uint64_t now, uint64_t value, uint32_t flag)
{
    aclrtStream stream = make_stream();

    put_value(at, now);
    assert_acl_ok(aclrtValueWait(at, value, flag, stream));
    return stream;
}

/* A wait for `value` is over when the memory holds `now`. */
static void assert_over(char *at, uint64_t now, uint64_t value, uint32_t flag)
{
    aclrtStream stream = wait_for(at, now, value, flag);

    assert_acl_ok(aclrtSynchronizeStream(stream));
    assert_acl_ok(aclrtDestroyStream(stream));
}

/* And here it is not. */
static void assert_not_over(char *at, uint64_t now, uint64_t value, uint32_t flag)
{
    aclrtStream stream = wait_for(at, now, value, flag);

    assert_acl(aclrtSynchronizeStreamWithTimeout(stream, 30),
               ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
    assert_acl_ok(aclrtDestroyStreamForce(stream));
}

static void the_four_conditions_are_as_documented(void **state)
{
    const uint32_t geq = ACL_STREAM_WAIT_VALUE_GEQ, eq = ACL_STREAM_WAIT_VALUE_EQ;
    const uint32_t and = ACL_STREAM_WAIT_VALUE_AND, nor = ACL_STREAM_WAIT_VALUE_NOR;
    struct block b = block_create(CHUNK);

    assert_over(b.va, 5, 5, geq);
    assert_over(b.va, 6, 5, geq);
    assert_not_over(b.va, 4, 5, geq);
    assert_over(b.va, 2, UINT64_MAX, geq); /* the signed difference counts */
    assert_not_over(b.va, UINT64_MAX, 2, geq);
    assert_over(b.va, 5, 5, eq);
    assert_not_over(b.va, 6, 5, eq);
    assert_over(b.va, 6, 2, and);
    assert_not_over(b.va, 6, 9, and);
    assert_over(b.va, 6, 9, nor);
    assert_not_over(b.va, UINT64_MAX - 6, 6, nor);
    block_destroy(&b);
}

static void a_stream_waits_for_what_another_writes(void **state)
{
    struct block b = block_create(CHUNK), data = block_create(CHUNK);
    aclrtStream writer = make_stream(), reader = make_stream();
    struct gate *gate = gate_close(writer);

    assert_acl_ok(aclrtValueWait(b.va, 1, ACL_STREAM_WAIT_VALUE_EQ, reader));
    assert_acl_ok(aclrtMemcpyAsync(data.va + CHUNK / 2, CHUNK, data.va, 1000,
                                   ACL_MEMCPY_DEVICE_TO_DEVICE, reader));
    assert_acl_ok(aclrtMemsetAsync(data.va, CHUNK, 7, 1000, writer));
    assert_acl_ok(aclrtValueWrite(b.va, 1, 0, writer));
    assert_acl(aclrtSynchronizeStreamWithTimeout(reader, 20),
               ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
    assert_message_has("aclrtValueWait");
    gate_end(gate);
    assert_acl_ok(aclrtSynchronizeStream(reader));
    assert_all_bytes(data.va + CHUNK / 2, 1000, 7);
    assert_acl_ok(aclrtDestroyStream(writer));
    assert_acl_ok(aclrtDestroyStream(reader));
    block_destroy(&b);
    block_destroy(&data);
}

/* Fifty rounds of two streams that take turns, by one value. */
static void two_streams_take_turns(void **state)
{
    struct block b = block_create(CHUNK);
    aclrtStream streams[2] = {make_stream(), make_stream()};

    for (uint64_t i = 0; i < 100; i++) {
        assert_acl_ok(aclrtValueWait(b.va, i, ACL_STREAM_WAIT_VALUE_GEQ, streams[i % 2]));
        assert_acl_ok(aclrtMemsetAsync(b.va + 64 + 8 * i, 8, (int)i, 8, streams[i % 2]));
        assert_acl_ok(aclrtValueWrite(b.va, i + 1, 0, streams[i % 2]));
    }
    assert_acl_ok(aclrtSynchronizeDevice());
    assert_int_equal(value_at(b.va), 100);
    for (size_t i = 0; i < 100; i++)
        assert_all_bytes(b.va + 64 + 8 * i, 8, (uint8_t)i);
    assert_acl_ok(aclrtDestroyStream(streams[0]));
    assert_acl_ok(aclrtDestroyStream(streams[1]));
    block_destroy(&b);
}

static void many_waiting_streams_need_no_threads_each(void **state)
{
    enum { MANY = 500 };
    struct block b = block_create(CHUNK);
    static aclrtStream streams[MANY];
    void *view = NULL;

    for (size_t i = 0; i < MANY; i++) {
        streams[i] = make_stream();
        assert_acl_ok(aclrtValueWait(b.va, 1, ACL_STREAM_WAIT_VALUE_EQ, streams[i]));
        assert_acl_ok(aclrtValueWrite(b.va + 64 + 8 * i, i, 0, streams[i]));
    }
    /* The program plays the part of a kernel. */
    assert_acl_ok(aclmem_host_view(b.va, 8, &view));
    atomic_store((_Atomic uint64_t *)view, 1);
    assert_acl_ok(aclmem_host_view_end(view));
    for (size_t i = 0; i < MANY; i++) {
        assert_acl_ok(aclrtSynchronizeStream(streams[i]));
        assert_acl_ok(aclrtDestroyStream(streams[i]));
        assert_int_equal(value_at(b.va + 64 + 8 * i), i);
    }
    block_destroy(&b);
}

static void wrong_calls_are_refused(void **state)
{
    struct block b = block_create(CHUNK);
    aclrtStream stream = make_stream();
    _Alignas(8) char host[8] = {0};

    assert_bad_arg(aclrtValueWrite(NULL, 1, 0, stream), "devAddr");
    assert_bad_arg(aclrtValueWrite(b.va, 1, 1, stream), "flag");
    assert_refused(aclrtValueWrite(b.va + 4, 1, 0, stream), ACL_ERROR_RT_ADDR_UNALIGNED,
                   "8");
    assert_refused(aclrtValueWrite(b.va + CHUNK, 1, 0, stream),
                   ACL_ERROR_RT_PARAM_INVALID, "devAddr");
    assert_refused(aclrtValueWrite(host, 1, 0, stream), ACL_ERROR_RT_PARAM_INVALID,
                   "not device memory");
    assert_refused(aclrtValueWrite(b.va, 1, 0, b.va), ACL_ERROR_RT_INVALID_HANDLE,
                   "stream");
    assert_bad_arg(aclrtValueWait(NULL, 1, 0, stream), "devAddr");
    assert_bad_arg(aclrtValueWait(b.va, 1, 4, stream), "flag");
    assert_refused(aclrtValueWait(b.va + 4, 1, 0, stream), ACL_ERROR_RT_ADDR_UNALIGNED,
                   "8");
    assert_refused(aclrtValueWait(host, 1, 0, stream), ACL_ERROR_RT_PARAM_INVALID,
                   "not device memory");
    assert_acl_ok(aclrtSynchronizeStream(stream));
    assert_all_bytes(b.va, CHUNK, 0);
    assert_acl_ok(aclrtDestroyStream(stream));
    block_destroy(&b);
}

static void values_in_blocks_of_malloc_work_too(void **state)
{
    char *ptr = NULL;

    assert_acl_ok(aclrtMalloc((void **)&ptr, 64, ACL_MEM_MALLOC_HUGE_FIRST));
    assert_acl_ok(aclrtValueWrite(ptr + 8, 9, 0, NULL));
    assert_acl_ok(aclrtValueWait(ptr + 8, 9, ACL_STREAM_WAIT_VALUE_EQ, NULL));
    assert_acl_ok(aclrtSynchronizeStream(NULL));
    assert_int_equal(value_at(ptr + 8), 9);
    assert_acl_ok(aclrtFree(ptr));
    assert_refused(aclrtValueWrite(ptr + 8, 9, 0, NULL), ACL_ERROR_RT_PARAM_INVALID,
                   "devAddr");
}

static void rights_count_for_values_too(void **state)
{
    struct block b = {.size = CHUNK, .va = reserve(CHUNK), .handle = alloc(CHUNK)};
    aclrtStream stream = make_stream();

    assert_acl_ok(aclrtMemMapNoAccess(b.va, CHUNK, 0, b.handle, 0));
    assert_refused(aclrtValueWrite(b.va, 1, 0, stream), ACL_ERROR_RT_PARAM_INVALID,
                   "aclrtMemSetAccess");
    assert_refused(aclrtValueWait(b.va, 1, 0, stream), ACL_ERROR_RT_PARAM_INVALID,
                   "aclrtMemSetAccess");
    assert_acl_ok(aclrtDestroyStream(stream));
    block_destroy(&b);
}

static void a_wait_keeps_its_memory(void **state)
{
    struct block b = block_create(CHUNK);
    aclrtStream stream = make_stream();
    void *view = NULL;

    assert_acl_ok(aclrtValueWait(b.va, 1, ACL_STREAM_WAIT_VALUE_EQ, stream));
    assert_acl_ok(aclmem_host_view(b.va, 8, &view));
    block_destroy(&b);
    assert_int_equal(stats().handles, 1);
    atomic_store((_Atomic uint64_t *)view, 1);
    assert_acl_ok(aclrtSynchronizeStream(stream));
    assert_acl_ok(aclmem_host_view_end(view));
    assert_int_equal(stats().handles, 0);
    assert_acl_ok(aclrtDestroyStream(stream));
}

static void a_stream_that_waits_can_be_aborted(void **state)
{
    struct block b = block_create(CHUNK);
    aclrtStream stream = make_stream();

    assert_acl_ok(aclrtValueWait(b.va, 1, ACL_STREAM_WAIT_VALUE_EQ, stream));
    assert_acl_ok(aclrtValueWrite(b.va + 8, 1, 0, stream));
    assert_acl_ok(aclrtStreamAbort(stream));
    assert_acl_ok(aclrtSynchronizeStream(stream));
    assert_int_equal(value_at(b.va + 8), 0);
    assert_acl_ok(aclrtValueWait(b.va, 1, ACL_STREAM_WAIT_VALUE_EQ, stream));
    assert_acl_ok(aclrtDestroyStreamForce(stream));
    block_destroy(&b);
}

static void older_products_have_no_values(void **state)
{
    _Alignas(8) char host[8];

    start("default", "ACLMEM_PRODUCT=910");
    assert_acl_ok(aclrtSetDevice(0));
    assert_refused(aclrtValueWrite(host, 1, 0, NULL), ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                   "values");
    assert_refused(aclrtValueWait(host, 1, 0, NULL), ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                   "values");
}

static void values_work_as_late_as_can_be(void **state)
{
    start("default", "ACLMEM_CHAOS=7");
    assert_acl_ok(aclrtSetDevice(0));
    two_streams_take_turns(state);
}

int main(void)
{
    const struct CMUnitTest claims[] = {
        claim_both(a_write_comes_in_its_turn),
        claim_both(the_four_conditions_are_as_documented),
        claim_both(a_stream_waits_for_what_another_writes),
        claim_both(two_streams_take_turns),
        claim(many_waiting_streams_need_no_threads_each),
        claim_both(wrong_calls_are_refused),
        claim_both(values_in_blocks_of_malloc_work_too),
        claim(rights_count_for_values_too),
        claim_both(a_wait_keeps_its_memory),
        claim_both(a_stream_that_waits_can_be_aborted),
        claim_alone(older_products_have_no_values),
        claim_alone(values_work_as_late_as_can_be),
    };

    return run_claims(claims);
}
