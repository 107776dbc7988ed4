/* aclrtMemcpyBatch, aclrtMemcpyBatchAsync, and their V2 forms. */
#include "support/process.h"
#include "support/streams.h"
#include "support/vmm.h"
#include "support/work.h"

#include <string.h>

enum { N = 20, SIZE = 3000 };

/*
 * Twenty copies between pieces of one block and pieces of host memory, in another order.
 */
struct batch {
    struct block b;
    uint8_t host[N][SIZE];
    void *dsts[N];
    void *srcs[N];
    size_t maxs[N];
    size_t sizes[N];
    aclrtMemcpyBatchAttr attrs[N];
    size_t indexes[N];
    size_t n_attrs;
    size_t fail;
};

static struct batch s;

static void *device_piece(size_t i)
{
    return s.b.va + CHUNK - SIZE * N / 2 +
           (N - 1 - i) * SIZE; /* over the border of two handles */
}

static aclrtMemcpyBatchAttr attr(bool to_device)
{
    aclrtMemcpyBatchAttr a;

    memset(&a, 0, sizeof(a));
    a.dstLoc.type = to_device ? ACL_MEM_LOCATION_TYPE_DEVICE : ACL_MEM_LOCATION_TYPE_HOST;
    a.srcLoc.type = to_device ? ACL_MEM_LOCATION_TYPE_HOST : ACL_MEM_LOCATION_TYPE_DEVICE;
    return a;
}

static void aim(bool to_device)
{
    for (size_t i = 0; i < N; i++) {
        s.dsts[i] = to_device ? device_piece(i) : s.host[i];
        s.srcs[i] = to_device ? s.host[i] : device_piece(i);
        s.sizes[i] = s.maxs[i] = SIZE;
    }
    s.attrs[0] = attr(to_device);
    s.indexes[0] = 0;
    s.n_attrs = 1;
    s.fail = 77;
}

static void begin(void)
{
    s.b = block_create(2 * CHUNK);
    for (size_t i = 0; i < N; i++)
        fill(s.host[i], SIZE, i);
    aim(true);
}

static aclError run(void)
{
    return aclrtMemcpyBatch(s.dsts, s.maxs, s.srcs, s.sizes, N, s.attrs, s.indexes,
                            s.n_attrs, &s.fail);
}

static aclError run_async(aclrtStream stream)
{
    return aclrtMemcpyBatchAsync(s.dsts, s.maxs, s.srcs, s.sizes, N, s.attrs, s.indexes,
                                 s.n_attrs, &s.fail, stream);
}

static void assert_copied(void)
{
    for (size_t i = 0; i < N; i++)
        assert_pattern(device_piece(i), SIZE, i);
    assert_int_equal(s.fail, SIZE_MAX);
}

static void assert_nothing_copied(size_t fail)
{
    assert_all_bytes(s.b.va, 2 * CHUNK, 0);
    assert_int_equal(s.fail, fail);
    s.fail = 77;
}

static void assert_came_back(void)
{
    for (size_t i = 0; i < N; i++)
        assert_true(is_filled(s.host[i], SIZE, i));
}

static void a_batch_goes_there_and_back(void **state)
{
    begin();
    assert_acl_ok(run());
    assert_copied();
    memset(s.host, 0, sizeof(s.host));
    aim(false);
    assert_acl_ok(run());
    assert_came_back();
    block_destroy(&s.b);
}

static void the_v2_forms_do_the_same(void **state)
{
    aclrtStream stream = make_stream();

    begin();
    assert_acl_ok(
        aclrtMemcpyBatchV2(s.dsts, s.maxs, s.srcs, s.sizes, N, s.attrs, s.indexes, 1));
    s.fail = SIZE_MAX;
    assert_copied();
    memset(s.host, 0, sizeof(s.host));
    aim(false);
    assert_acl_ok(aclrtMemcpyBatchAsyncV2(s.dsts, s.maxs, s.srcs, s.sizes, N, s.attrs,
                                          s.indexes, 1, stream));
    assert_acl_ok(aclrtSynchronizeStream(stream));
    assert_came_back();
    s.sizes[3] = 0;
    assert_bad_arg(
        aclrtMemcpyBatchV2(s.dsts, s.maxs, s.srcs, s.sizes, N, s.attrs, s.indexes, 1),
        "sizes[3]");
    assert_bad_arg(aclrtMemcpyBatchAsyncV2(s.dsts, s.maxs, s.srcs, s.sizes, N, s.attrs,
                                           s.indexes, 1, stream),
                   "sizes[3]");
    assert_acl_ok(aclrtDestroyStream(stream));
    block_destroy(&s.b);
}

static void many_attributes_of_one_direction_are_taken(void **state)
{
    begin();
    for (size_t i = 0; i < N; i++) {
        s.attrs[i] = attr(true);
        s.attrs[i].srcLoc.id = 99; /* ignored for the host */
        s.indexes[i] = i;
    }
    s.n_attrs = N;
    assert_acl_ok(run());
    assert_copied();
    block_destroy(&s.b);
}

static void pieces_may_be_of_any_size(void **state)
{
    begin();
    for (size_t i = 0; i < N; i++) {
        s.sizes[i] = 1 + i * 131;
        s.maxs[i] = SIZE_MAX; /* bounds the size and nothing else */
    }
    assert_acl_ok(run());
    for (size_t i = 0; i < N; i++) {
        assert_pattern(device_piece(i), s.sizes[i], i);
        assert_all_bytes((char *)device_piece(i) + s.sizes[i], SIZE - s.sizes[i], 0);
    }
    block_destroy(&s.b);
}

/* ---- refusals ---- */

static void attributes_must_cover_the_batch_in_order(void **state)
{
    begin();
    s.attrs[1] = s.attrs[2] = s.attrs[0];
    s.indexes[0] = 1;
    assert_bad_arg(run(), "attrsIndexes[0]");
    assert_nothing_copied(SIZE_MAX);
    s.indexes[0] = 0;
    s.indexes[1] = s.indexes[2] = 4;
    s.n_attrs = 3;
    assert_bad_arg(run(), "attrsIndexes[2]");
    assert_nothing_copied(SIZE_MAX);
    s.indexes[2] = N;
    assert_bad_arg(run(), "attrsIndexes[2]");
    assert_nothing_copied(SIZE_MAX);
    s.n_attrs = 0;
    assert_bad_arg(run(), "numAttrs");
    s.n_attrs = N + 1;
    assert_bad_arg(run(), "numAttrs");
    assert_nothing_copied(SIZE_MAX);
    block_destroy(&s.b);
}

static void a_batch_has_one_direction(void **state)
{
    begin();
    s.attrs[1] = attr(false);
    s.indexes[1] = 5;
    s.n_attrs = 2;
    assert_bad_arg(run(), "direction");
    s.n_attrs = 1;
    s.attrs[0].srcLoc.type = ACL_MEM_LOCATION_TYPE_DEVICE;
    assert_bad_arg(run(), "dstLoc.type");
    s.attrs[0].dstLoc.type = s.attrs[0].srcLoc.type = ACL_MEM_LOCATION_TYPE_HOST;
    assert_bad_arg(run(), "dstLoc.type");
    s.attrs[0] = attr(true);
    s.attrs[0].srcLoc.type = ACL_MEM_LOCATION_TYPE_UNREGISTERED;
    assert_bad_arg(run(), "srcLoc.type");
    s.attrs[0] = attr(true);
    s.attrs[0].dstLoc.id = 2;
    assert_refused(run(), ACL_ERROR_RT_INVALID_DEVICEID, "device 2");
    s.attrs[0] = attr(true);
    s.attrs[0].rsv[15] = 1;
    assert_bad_arg(run(), "rsv");
    assert_nothing_copied(SIZE_MAX);
    block_destroy(&s.b);
}

static void missing_arrays_are_refused(void **state)
{
    begin();
    assert_bad_arg(aclrtMemcpyBatch(NULL, s.maxs, s.srcs, s.sizes, N, s.attrs, s.indexes,
                                    1, &s.fail),
                   "dsts");
    assert_bad_arg(aclrtMemcpyBatch(s.dsts, NULL, s.srcs, s.sizes, N, s.attrs, s.indexes,
                                    1, &s.fail),
                   "destMaxs");
    assert_bad_arg(aclrtMemcpyBatch(s.dsts, s.maxs, NULL, s.sizes, N, s.attrs, s.indexes,
                                    1, &s.fail),
                   "srcs");
    assert_bad_arg(
        aclrtMemcpyBatch(s.dsts, s.maxs, s.srcs, NULL, N, s.attrs, s.indexes, 1, &s.fail),
        "sizes");
    assert_bad_arg(aclrtMemcpyBatch(s.dsts, s.maxs, s.srcs, s.sizes, 0, s.attrs,
                                    s.indexes, 1, &s.fail),
                   "numBatches");
    assert_bad_arg(
        aclrtMemcpyBatch(s.dsts, s.maxs, s.srcs, s.sizes, N, NULL, s.indexes, 1, &s.fail),
        "attrs");
    assert_bad_arg(
        aclrtMemcpyBatch(s.dsts, s.maxs, s.srcs, s.sizes, N, s.attrs, NULL, 1, &s.fail),
        "attrsIndexes");
    assert_nothing_copied(SIZE_MAX);
    assert_bad_arg(
        aclrtMemcpyBatch(s.dsts, s.maxs, s.srcs, s.sizes, N, s.attrs, s.indexes, 1, NULL),
        "failIndex");
    assert_bad_arg(aclrtMemcpyBatchAsync(s.dsts, s.maxs, s.srcs, s.sizes, N, s.attrs,
                                         s.indexes, 1, NULL, NULL),
                   "failIndex");
    assert_nothing_copied(77);
    block_destroy(&s.b);
}

/* The last copy is the wrong one: none of those before it has moved. */
static void one_wrong_copy_stops_all_of_them(void **state)
{
    const size_t last = N - 1;

    begin();
    s.dsts[last] = NULL;
    assert_bad_arg(run(), "dsts[19]");
    assert_nothing_copied(last);
    aim(true);
    s.srcs[last] = NULL;
    assert_bad_arg(run(), "srcs[19]");
    assert_nothing_copied(last);
    aim(true);
    s.maxs[last] = SIZE - 1;
    assert_bad_arg(run(), "destMaxs[19]");
    assert_nothing_copied(last);
    aim(true);
    s.dsts[last] = s.b.va + 2 * CHUNK - SIZE + 1;
    assert_refused(run(), ACL_ERROR_RT_PARAM_INVALID, "mapped");
    assert_nothing_copied(last);
    aim(true);
    s.dsts[last] = s.host[0];
    assert_refused(run(), ACL_ERROR_RT_PARAM_INVALID, "not device memory");
    assert_nothing_copied(last);
    aim(true);
    s.srcs[last] = s.b.va;
    assert_refused(run(), ACL_ERROR_RT_PARAM_INVALID, "not host memory");
    assert_nothing_copied(last);
    assert_acl(run_async(NULL), ACL_ERROR_RT_PARAM_INVALID);
    assert_nothing_copied(last);
    block_destroy(&s.b);
}

static void a_stream_that_is_none_is_about_no_copy(void **state)
{
    begin();
    assert_refused(run_async(&s), ACL_ERROR_RT_INVALID_HANDLE, "stream");
    assert_nothing_copied(SIZE_MAX);
    block_destroy(&s.b);
}

/* Documents do not say that the number is looked at; strict wants it true. */
static void strict_wants_the_device_named_truly(void **state)
{
    begin();
    s.attrs[0].dstLoc.id = 1;
    assert_refused(run(), ACL_ERROR_RT_PARAM_INVALID, "strict");
    assert_nothing_copied(0);
    s.attrs[0].dstLoc.id = 0;
    s.attrs[1] = attr(true);
    s.attrs[1].dstLoc.id = 1;
    s.indexes[1] = 5; /* the first that the second attribute is about */
    s.n_attrs = 2;
    assert_refused(run(), ACL_ERROR_RT_PARAM_INVALID, "strict");
    assert_nothing_copied(5);
    block_destroy(&s.b);
}

static void default_goes_by_the_addresses(void **state)
{
    begin();
    s.attrs[0].dstLoc.id = 1;
    assert_acl_ok(run());
    assert_copied();
    block_destroy(&s.b);
}

static void older_products_have_no_batches(void **state)
{
    start("default", "ACLMEM_PRODUCT=910");
    assert_acl_ok(aclrtSetDevice(0));
    begin();
    assert_refused(run(), ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "batches");
    assert_refused(run_async(NULL), ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "batches");
    assert_nothing_copied(SIZE_MAX);
    block_destroy(&s.b);
}

/* ---- on a stream ---- */

/* Opens the gate when the fill and the batch stand behind it. */
static const char *open_when_all_are_queued(struct worker *self)
{
    struct gate *gate = self->shared;
    const char *message;

    do {
        worker_check(aclrtSynchronizeStreamWithTimeout(gate->stream, 1) ==
                     ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
        message = aclGetRecentErrMsg();
        worker_check(message != NULL);
    } while (strstr(message, "has 3 tasks") == NULL);
    gate_open(gate);
    return NULL;
}

static void a_batch_on_a_stream_comes_in_order(void **state)
{
    aclrtStream stream = make_stream();
    struct worker opener = {.run = open_when_all_are_queued};
    struct gate *gate;

    begin();
    gate = gate_close(stream);
    opener.shared = gate;
    assert_acl_ok(aclrtMemsetAsync(s.b.va, 2 * CHUNK, 9, 2 * CHUNK, stream));
    assert_int_equal(worker_start(&opener), 0);
    assert_acl_ok(run_async(stream));
    memset(s.host, 0, sizeof(s.host)); /* it is not pinned, so it is ours again */
    assert_null(worker_join(&opener));
    gate_end(gate);
    assert_copied();
    assert_all_bytes(s.b.va, 100, 9);
    assert_acl_ok(aclrtDestroyStream(stream));
    block_destroy(&s.b);
}

static void a_batch_of_pinned_memory_does_not_wait(void **state)
{
    aclrtStream stream = make_stream();
    struct gate *gate = gate_close(stream);
    uint8_t *pinned = NULL;

    begin();
    assert_acl_ok(aclrtMallocHost((void **)&pinned, sizeof(s.host)));
    memcpy(pinned, s.host, sizeof(s.host));
    for (size_t i = 0; i < N; i++)
        s.srcs[i] = pinned + i * SIZE;
    assert_acl_ok(run_async(stream));
    assert_nothing_copied(SIZE_MAX);
    s.fail = SIZE_MAX;
    gate_end(gate);
    assert_copied();
    assert_acl_ok(aclrtFreeHost(pinned));
    assert_acl_ok(aclrtDestroyStream(stream));
    block_destroy(&s.b);
}

static void a_thousand_small_copies_are_one_task(void **state)
{
    enum { MANY = 1000 };
    static uint8_t bytes[MANY][64];
    static void *dsts[MANY], *srcs[MANY];
    static size_t sizes[MANY];
    aclrtMemcpyBatchAttr a = attr(true);
    size_t index = 0, fail = 0;

    begin();
    for (size_t i = 0; i < MANY; i++) {
        fill(bytes[i], 64, i);
        dsts[i] = s.b.va + i * 128;
        srcs[i] = bytes[i];
        sizes[i] = 64;
    }
    assert_acl_ok(aclrtMemcpyBatchAsync(dsts, sizes, srcs, sizes, MANY, &a, &index, 1,
                                        &fail, NULL));
    assert_acl_ok(aclrtSynchronizeStream(NULL));
    for (size_t i = 0; i < MANY; i += 37) {
        assert_pattern(s.b.va + i * 128, 64, i);
        assert_all_bytes(s.b.va + i * 128 + 64, 64, 0);
    }
    block_destroy(&s.b);
}

int main(void)
{
    const struct CMUnitTest claims[] = {
        claim_both(a_batch_goes_there_and_back),
        claim_both(the_v2_forms_do_the_same),
        claim_both(many_attributes_of_one_direction_are_taken),
        claim_both(pieces_may_be_of_any_size),
        claim_both(attributes_must_cover_the_batch_in_order),
        claim_both(a_batch_has_one_direction),
        claim_both(missing_arrays_are_refused),
        claim_both(one_wrong_copy_stops_all_of_them),
        claim_both(a_stream_that_is_none_is_about_no_copy),
        claim_strict(strict_wants_the_device_named_truly),
        claim(default_goes_by_the_addresses),
        claim_alone(older_products_have_no_batches),
        claim_both(a_batch_on_a_stream_comes_in_order),
        claim_both(a_batch_of_pinned_memory_does_not_wait),
        claim_both(a_thousand_small_copies_are_one_task),
    };

    return run_claims(claims);
}
