/* Copies and cache operations whose arguments lie in device memory. */
#include "support/streams.h"
#include "support/vmm.h"
#include "support/work.h"

#include <string.h>

static const aclrtMemcpyKind inner = ACL_MEMCPY_INNER_DEVICE_TO_DEVICE;

/*
 * The first chunk holds descriptors and addresses, the second the source, the third the
 * destination.
 */
struct scene {
    struct block b;
    char *src;
    char *dst;
    aclrtStream stream;
    size_t desc_size;
};

static struct scene begin(void)
{
    struct scene s = {.b = block_create(3 * CHUNK), .stream = make_stream()};

    s.src = s.b.va + CHUNK;
    s.dst = s.b.va + 2 * CHUNK;
    put_pattern(s.src, CHUNK, 1);
    assert_acl_ok(aclrtGetMemcpyDescSize(inner, &s.desc_size));
    assert_true(s.desc_size > 0 && s.desc_size <= 4096);
    return s;
}

static void end(struct scene *s)
{
    assert_acl_ok(aclrtDestroyStream(s->stream));
    block_destroy(&s->b);
}

static void a_descriptor_is_a_copy(void **state)
{
    struct scene s = begin();

    assert_acl_ok(aclrtSetMemcpyDesc(s.b.va, inner, s.src, s.dst + 9, 100000, NULL));
    assert_all_bytes(s.dst, CHUNK, 0);
    assert_all_bytes(s.b.va + s.desc_size, 4096, 0);
    assert_acl_ok(aclrtMemcpyAsyncWithDesc(s.b.va, inner, s.stream));
    assert_acl_ok(aclrtSynchronizeStream(s.stream));
    assert_all_bytes(s.dst, 9, 0);
    assert_pattern(s.dst + 9, 100000, 1);
    assert_all_bytes(s.dst + 9 + 100000, 100, 0);
    assert_pattern(s.src, CHUNK, 1);
    end(&s);
}

static void a_descriptor_is_read_when_the_stream_gets_there(void **state)
{
    struct scene s = begin();
    struct gate *gate = gate_close(s.stream);

    assert_acl_ok(aclrtSetMemcpyDesc(s.b.va, inner, s.src, s.dst, 100, NULL));
    assert_acl_ok(aclrtMemcpyAsyncWithDesc(s.b.va, inner, s.stream));
    assert_acl_ok(aclrtSetMemcpyDesc(s.b.va, inner, s.src, s.dst + 1000, 200, NULL));
    assert_all_bytes(s.dst, CHUNK, 0);
    gate_end(gate);
    assert_all_bytes(s.dst, 1000, 0);
    assert_pattern(s.dst + 1000, 200, 1);
    end(&s);
}

static void the_same_descriptor_serves_again(void **state)
{
    struct scene s = begin();

    assert_acl_ok(aclrtSetMemcpyDesc(s.b.va, inner, s.src, s.dst, 100, NULL));
    for (int i = 0; i < 3; i++) {
        assert_acl_ok(aclrtMemset(s.dst, CHUNK, 0, CHUNK));
        assert_acl_ok(aclrtMemcpyAsyncWithDesc(s.b.va, inner, NULL));
        assert_acl_ok(aclrtSynchronizeStream(NULL));
        assert_pattern(s.dst, 100, 1);
    }
    end(&s);
}

static void a_wrong_descriptor_is_an_error_of_the_stream(void **state)
{
    struct scene s = begin();
    struct block far = {.size = CHUNK};

    /* Bytes that are no descriptor. */
    assert_acl_ok(aclrtMemcpyAsyncWithDesc(s.b.va + 4096, inner, s.stream));
    assert_refused(aclrtSynchronizeStream(s.stream), ACL_ERROR_RT_PARAM_INVALID,
                   "aclrtMemcpyAsyncWithDesc");
    assert_message_has("not a descriptor");
    /* The end of the memory. */
    assert_acl_ok(aclrtSetMemcpyDesc(s.b.va, inner, s.src, s.dst, CHUNK + 1, NULL));
    assert_acl_ok(aclrtMemcpyAsyncWithDesc(s.b.va, inner, s.stream));
    assert_acl(aclrtSynchronizeStream(s.stream), ACL_ERROR_RT_PARAM_INVALID);
    assert_message_has("dst");
    /* The host's memory. */
    assert_acl_ok(aclrtSetMemcpyDesc(s.b.va, inner, &s, s.dst, 1, NULL));
    assert_acl_ok(aclrtMemcpyAsyncWithDesc(s.b.va, inner, s.stream));
    assert_acl(aclrtSynchronizeStream(s.stream), ACL_ERROR_RT_PARAM_INVALID);
    assert_message_has("INNER_DEVICE_TO_DEVICE");
    /* Another device's memory. */
    far.va = reserve(CHUNK);
    far.handle = alloc_on(1, CHUNK);
    map(far.va, CHUNK, far.handle);
    assert_acl_ok(aclrtSetMemcpyDesc(s.b.va, inner, far.va, s.dst, 1, NULL));
    assert_acl_ok(aclrtMemcpyAsyncWithDesc(s.b.va, inner, s.stream));
    assert_acl(aclrtSynchronizeStream(s.stream), ACL_ERROR_RT_PARAM_INVALID);
    assert_message_has("INNER_DEVICE_TO_DEVICE");
    block_destroy(&far);
    /* One of the other kind. */
    assert_acl_ok(aclrtCmoSetDesc(s.b.va, s.src, 100));
    assert_acl_ok(aclrtMemcpyAsyncWithDesc(s.b.va, inner, s.stream));
    assert_acl(aclrtSynchronizeStream(s.stream), ACL_ERROR_RT_PARAM_INVALID);
    assert_all_bytes(s.dst, CHUNK, 0);
    assert_acl_ok(aclrtSynchronizeStream(s.stream)); /* it is told once */
    end(&s);
}

static void wrong_arguments_are_refused_at_once(void **state)
{
    struct scene s = begin();
    char host[256];
    size_t size = 1;

    assert_bad_arg(aclrtGetMemcpyDescSize(ACL_MEMCPY_DEVICE_TO_DEVICE, &size), "kind");
    assert_int_equal(size, 1);
    assert_bad_arg(aclrtGetMemcpyDescSize(inner, NULL), "descSize");
    assert_bad_arg(aclrtSetMemcpyDesc(s.b.va, ACL_MEMCPY_DEFAULT, s.src, s.dst, 1, NULL),
                   "kind");
    assert_bad_arg(aclrtSetMemcpyDesc(NULL, inner, s.src, s.dst, 1, NULL),
                   "desc is NULL");
    assert_bad_arg(aclrtSetMemcpyDesc(s.b.va, inner, NULL, s.dst, 1, NULL), "srcAddr");
    assert_bad_arg(aclrtSetMemcpyDesc(s.b.va, inner, s.src, NULL, 1, NULL), "dstAddr");
    assert_bad_arg(aclrtSetMemcpyDesc(s.b.va, inner, s.src, s.dst, 0, NULL), "count");
    assert_bad_arg(aclrtSetMemcpyDesc(s.b.va, inner, s.src, s.dst, 1, host), "config");
    assert_refused(aclrtSetMemcpyDesc(host, inner, s.src, s.dst, 1, NULL),
                   ACL_ERROR_RT_PARAM_INVALID, "not device memory");
    assert_refused(
        aclrtSetMemcpyDesc(s.dst + CHUNK - s.desc_size + 1, inner, s.src, s.dst, 1, NULL),
        ACL_ERROR_RT_PARAM_INVALID, "desc");
    assert_bad_arg(aclrtMemcpyAsyncWithDesc(NULL, inner, s.stream), "desc");
    assert_bad_arg(aclrtMemcpyAsyncWithDesc(s.b.va, ACL_MEMCPY_DEFAULT, s.stream),
                   "kind");
    assert_refused(aclrtMemcpyAsyncWithDesc(host, inner, s.stream),
                   ACL_ERROR_RT_PARAM_INVALID, "not device memory");
    assert_refused(aclrtMemcpyAsyncWithDesc(s.b.va, inner, s.b.va),
                   ACL_ERROR_RT_INVALID_HANDLE, "stream");
    assert_all_bytes(s.b.va, CHUNK, 0);
    end(&s);
}

static void a_queued_descriptor_outlives_its_mapping(void **state)
{
    struct scene s = begin();
    struct block d = block_create(CHUNK);
    struct gate *gate;

    assert_acl_ok(aclrtSetMemcpyDesc(d.va, inner, s.src, s.dst, 100, NULL));
    gate = gate_close(s.stream);
    assert_acl_ok(aclrtMemcpyAsyncWithDesc(d.va, inner, s.stream));
    block_destroy(&d);
    assert_int_equal(stats().handles, 2);
    gate_end(gate);
    assert_int_equal(stats().handles, 1);
    assert_pattern(s.dst, 100, 1);
    end(&s);
}

static void memory_that_is_gone_when_the_copy_runs_is_an_error(void **state)
{
    struct scene s = begin();
    struct block d = block_create(CHUNK);
    struct gate *gate;

    assert_acl_ok(aclrtSetMemcpyDesc(s.b.va, inner, s.src, d.va, 100, NULL));
    gate = gate_close(s.stream);
    assert_acl_ok(aclrtMemcpyAsyncWithDesc(s.b.va, inner, s.stream));
    block_destroy(&d);
    gate_end_to(gate, ACL_ERROR_RT_PARAM_INVALID);
    end(&s);
}

/* ---- offsets ---- */

/* Device memory where an address stands. */
static void **cell(struct scene *s, size_t i, const void *address)
{
    void **at = (void **)(void *)(s->b.va + 8 * i);

    assert_acl_ok(copy(at, &address, sizeof(address), ACL_MEMCPY_HOST_TO_DEVICE));
    return at;
}

static void addresses_and_offsets_are_added(void **state)
{
    struct scene s = begin();
    void **dst = cell(&s, 0, s.dst), **src = cell(&s, 1, s.src - 800);

    assert_acl_ok(aclrtMemcpyAsyncWithOffset(dst, 1000, 50, (const void **)src, 1000, 800,
                                             inner, s.stream));
    assert_acl_ok(aclrtSynchronizeStream(s.stream));
    assert_all_bytes(s.dst, 50, 0);
    assert_pattern(s.dst + 50, 1000, 1);
    assert_all_bytes(s.dst + 1050, 100, 0);
    end(&s);
}

static void addresses_are_read_when_the_stream_gets_there(void **state)
{
    struct scene s = begin();
    void **dst = cell(&s, 0, NULL), **src = cell(&s, 1, s.src);
    struct gate *gate = gate_close(s.stream);

    assert_acl_ok(aclrtMemcpyAsyncWithOffset(dst, 100, 0, (const void **)src, 100, 0,
                                             inner, s.stream));
    cell(&s, 0, s.dst + 300);
    gate_end(gate);
    assert_all_bytes(s.dst, 300, 0);
    assert_pattern(s.dst + 300, 100, 1);
    end(&s);
}

static void wrong_addresses_are_errors_of_the_stream(void **state)
{
    struct scene s = begin();
    void **dst = cell(&s, 0, NULL), **src = cell(&s, 1, s.src);

    assert_acl_ok(aclrtMemcpyAsyncWithOffset(dst, 100, 0, (const void **)src, 100, 0,
                                             inner, s.stream));
    assert_acl(aclrtSynchronizeStream(s.stream), ACL_ERROR_RT_PARAM_INVALID);
    assert_message_has("aclrtMemcpyAsyncWithOffset");
    cell(&s, 0, s.dst);
    assert_acl_ok(aclrtMemcpyAsyncWithOffset(dst, 100, SIZE_MAX, (const void **)src, 100,
                                             0, inner, s.stream));
    assert_acl(aclrtSynchronizeStream(s.stream), ACL_ERROR_RT_PARAM_INVALID);
    assert_message_has("offset");
    assert_acl_ok(aclrtMemcpyAsyncWithOffset(dst, 100, CHUNK - 99, (const void **)src,
                                             100, 0, inner, s.stream));
    assert_acl(aclrtSynchronizeStream(s.stream), ACL_ERROR_RT_PARAM_INVALID);
    assert_acl_ok(aclrtMemcpyAsyncWithOffset(dst, 100, CHUNK - 100, (const void **)src,
                                             100, 0, inner, s.stream));
    assert_acl_ok(aclrtSynchronizeStream(s.stream));
    assert_pattern(s.dst + CHUNK - 100, 100, 1);
    end(&s);
}

static void wrong_calls_with_offsets_are_refused(void **state)
{
    struct scene s = begin();
    void **dst = cell(&s, 0, s.dst);
    const void **src = (const void **)cell(&s, 1, s.src);
    void *host[1] = {s.dst};

    assert_bad_arg(aclrtMemcpyAsyncWithOffset(NULL, 1, 0, src, 1, 0, inner, s.stream),
                   "dst");
    assert_bad_arg(aclrtMemcpyAsyncWithOffset(dst, 1, 0, NULL, 1, 0, inner, s.stream),
                   "src");
    assert_bad_arg(aclrtMemcpyAsyncWithOffset(dst, 1, 0, src, 0, 0, inner, s.stream),
                   "count");
    assert_bad_arg(aclrtMemcpyAsyncWithOffset(dst, 1, 0, src, 2, 0, inner, s.stream),
                   "destMax");
    assert_bad_arg(
        aclrtMemcpyAsyncWithOffset(dst, 1, 0, src, 1, 0, ACL_MEMCPY_DEFAULT, s.stream),
        "kind");
    assert_refused(aclrtMemcpyAsyncWithOffset(host, 1, 0, src, 1, 0, inner, s.stream),
                   ACL_ERROR_RT_PARAM_INVALID, "not device memory");
    assert_refused(aclrtMemcpyAsyncWithOffset((void **)(void *)(s.b.va + 4), 1, 0, src, 1,
                                              0, inner, s.stream),
                   ACL_ERROR_RT_ADDR_UNALIGNED, "8");
    assert_refused(aclrtMemcpyAsyncWithOffset(dst, 1, 0,
                                              (const void **)(void *)(s.dst + CHUNK), 1,
                                              0, inner, s.stream),
                   ACL_ERROR_RT_PARAM_INVALID, "src");
    assert_acl_ok(aclrtSynchronizeStream(s.stream));
    assert_all_bytes(s.dst, CHUNK, 0);
    end(&s);
}

/* ---- cache operations ---- */

static void cache_operations_change_nothing(void **state)
{
    struct scene s = begin();
    aclrtBarrierTaskInfo info;
    size_t size = 0;

    memset(&info, 0, sizeof(info));
    info.barrierNum = 2;
    assert_acl_ok(aclrtCmoAsync(s.src, CHUNK, ACL_RT_CMO_TYPE_PREFETCH, s.stream));
    assert_acl_ok(
        aclrtCmoAsyncWithBarrier(s.src, CHUNK, ACL_RT_CMO_TYPE_INVALID, 3, s.stream));
    assert_acl_ok(aclrtCmoWaitBarrier(&info, s.stream, 0));
    assert_acl_ok(aclrtCmoGetDescSize(&size));
    assert_true(size > 0 && size <= 4096);
    assert_acl_ok(aclrtCmoSetDesc(s.b.va, s.src, CHUNK));
    assert_acl_ok(
        aclrtCmoAsyncWithDesc(s.b.va, ACL_RT_CMO_TYPE_PREFETCH, s.stream, NULL));
    assert_acl_ok(aclrtSynchronizeStream(s.stream));
    assert_pattern(s.src, CHUNK, 1);
    end(&s);
}

static void cache_operations_check_their_arguments(void **state)
{
    struct scene s = begin();
    aclrtBarrierTaskInfo info;
    char host[64];

    memset(&info, 0, sizeof(info));
    for (int type = 1; type <= 3; type++)
        assert_bad_arg(aclrtCmoAsync(s.src, 64, (aclrtCmoType)type, s.stream),
                       "PREFETCH");
    assert_bad_arg(aclrtCmoAsync(NULL, 64, 0, s.stream), "src");
    assert_bad_arg(aclrtCmoAsync(s.src, 0, 0, s.stream), "size");
    assert_refused(aclrtCmoAsync(s.src, 2 * CHUNK + 1, 0, s.stream),
                   ACL_ERROR_RT_PARAM_INVALID, "src");
    assert_refused(aclrtCmoAsync(host, 64, 0, s.stream), ACL_ERROR_RT_PARAM_INVALID,
                   "not device memory");
    assert_refused(aclrtCmoAsync(s.src, 64, 0, host), ACL_ERROR_RT_INVALID_HANDLE,
                   "stream");
    assert_bad_arg(aclrtCmoAsyncWithBarrier(s.src, 64, (aclrtCmoType)4, 0, s.stream),
                   "cmoType");
    assert_bad_arg(aclrtCmoWaitBarrier(NULL, s.stream, 0), "taskInfo");
    assert_bad_arg(aclrtCmoWaitBarrier(&info, s.stream, 0), "barrierNum");
    info.barrierNum = 7;
    assert_bad_arg(aclrtCmoWaitBarrier(&info, s.stream, 0), "barrierNum");
    info.barrierNum = 6;
    assert_bad_arg(aclrtCmoWaitBarrier(&info, s.stream, 1), "flag");
    info.cmoInfo[5].cmoType = (aclrtCmoType)9;
    assert_bad_arg(aclrtCmoWaitBarrier(&info, s.stream, 0), "cmoType");
    assert_bad_arg(aclrtCmoGetDescSize(NULL), "size");
    assert_bad_arg(aclrtCmoSetDesc(NULL, s.src, 1), "cmoDesc");
    assert_bad_arg(aclrtCmoSetDesc(s.b.va, NULL, 1), "src");
    assert_bad_arg(aclrtCmoSetDesc(s.b.va, s.src, 0), "size");
    assert_bad_arg(aclrtCmoAsyncWithDesc(NULL, 0, s.stream, NULL), "cmoDesc");
    assert_bad_arg(aclrtCmoAsyncWithDesc(s.b.va, 0, s.stream, host), "reserve");
    assert_bad_arg(aclrtCmoAsyncWithDesc(s.b.va, (aclrtCmoType)4, s.stream, NULL),
                   "cmoType");
    end(&s);
}

static void a_cache_operation_by_descriptor_checks_when_it_runs(void **state)
{
    struct scene s = begin();

    assert_acl_ok(aclrtCmoSetDesc(s.b.va, s.src, 2 * CHUNK + 1));
    assert_acl_ok(aclrtCmoAsyncWithDesc(s.b.va, 0, s.stream, NULL));
    assert_acl(aclrtSynchronizeStream(s.stream), ACL_ERROR_RT_PARAM_INVALID);
    assert_message_has("aclrtCmoAsyncWithDesc");
    end(&s);
}

static void older_products_have_no_cache_operations(void **state)
{
    size_t size;
    char byte;

    start("default", "ACLMEM_PRODUCT=310P");
    assert_acl_ok(aclrtSetDevice(0));
    assert_refused(aclrtCmoAsync(&byte, 1, 0, NULL), ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                   "cache");
    assert_refused(aclrtCmoGetDescSize(&size), ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "cache");
    assert_refused(aclrtCmoWaitBarrier(NULL, NULL, 0), ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                   "cache");
}

int main(void)
{
    const struct CMUnitTest claims[] = {
        claim_both(a_descriptor_is_a_copy),
        claim_both(a_descriptor_is_read_when_the_stream_gets_there),
        claim_both(the_same_descriptor_serves_again),
        claim_both(a_wrong_descriptor_is_an_error_of_the_stream),
        claim_both(wrong_arguments_are_refused_at_once),
        claim_both(a_queued_descriptor_outlives_its_mapping),
        claim_both(memory_that_is_gone_when_the_copy_runs_is_an_error),
        claim_both(addresses_and_offsets_are_added),
        claim_both(addresses_are_read_when_the_stream_gets_there),
        claim_both(wrong_addresses_are_errors_of_the_stream),
        claim_both(wrong_calls_with_offsets_are_refused),
        claim_both(cache_operations_change_nothing),
        claim_both(cache_operations_check_their_arguments),
        claim_both(a_cache_operation_by_descriptor_checks_when_it_runs),
        claim_alone(older_products_have_no_cache_operations),
    };

    return run_claims(claims);
}
