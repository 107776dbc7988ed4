/*
 * Faults in copies of rows, in batches and by descriptors, in values, and in user
 * allocators.
 */
#include "faulted.h"

#include <stdlib.h>
#include <string.h>

static const aclrtMemcpyKind inner = ACL_MEMCPY_INNER_DEVICE_TO_DEVICE;

enum { N = 10, PIECE = 4096 };

static aclrtStream stream;
static void *dsts[N];
static void *srcs[N];
static size_t sizes[N];

/* ---- prepared scenes ---- */

static void map_each_chunk(struct scene *s, size_t n)
{
    s->size = n * CHUNK;
    s->va = reserve(s->size);
    for (size_t i = 0; i < n; i++) {
        aclrtDrvMemHandle handle = alloc(CHUNK);

        map(s->va + i * CHUNK, CHUNK, handle);
        assert_acl_ok(aclrtFreePhysical(handle));
    }
}

/* More handles than a list of spans has room for without memory of its own. */
static void have_pieces(struct scene *s)
{
    map_each_chunk(s, N);
    s->bytes = malloc(N * PIECE);
    assert_non_null(s->bytes);
    fill(s->bytes, N * PIECE, 1);
    assert_acl_ok(aclrtCreateStream(&stream));
    for (size_t i = 0; i < N; i++) {
        dsts[i] = s->va + (N - 1 - i) * CHUNK + 100;
        srcs[i] = s->bytes + i * PIECE;
        sizes[i] = PIECE;
    }
}

static void drop_pieces(struct scene *s)
{
    assert_acl_ok(aclrtDestroyStream(stream));
    for (size_t i = 0; i < N; i++)
        assert_acl_ok(aclrtUnmapMem(s->va + i * CHUNK));
    assert_acl_ok(aclrtReleaseMemAddress(s->va));
    free(s->bytes);
}

/* Part of a call's work is done by the stream, and may fail there. */
static aclError and_wait(aclError rc)
{
    return rc == ACL_SUCCESS ? aclrtSynchronizeStream(stream) : rc;
}

/* ---- rows ---- */

/* A row in each handle. */
static aclError do_rows(struct scene *s)
{
    return aclrtMemcpy2d(s->va, CHUNK, s->bytes, PIECE, PIECE, N,
                         ACL_MEMCPY_HOST_TO_DEVICE);
}

static aclError do_rows_async(struct scene *s)
{
    return and_wait(aclrtMemcpy2dAsync(s->va, CHUNK, s->bytes, PIECE, PIECE, N,
                                       ACL_MEMCPY_HOST_TO_DEVICE, stream));
}

static aclError do_inner_rows(struct scene *s)
{
    return and_wait(aclrtMemcpy2dAsync(s->va, CHUNK, s->va + PIECE, CHUNK, PIECE, N,
                                       ACL_MEMCPY_DEVICE_TO_DEVICE, stream));
}

static void rows_are_there(struct scene *s)
{
    assert_acl_ok(aclrtSynchronizeStream(stream));
    for (size_t i = 0; i < N; i++) {
        uint8_t row[PIECE];

        assert_acl_ok(copy(row, s->va + i * CHUNK, PIECE, ACL_MEMCPY_DEVICE_TO_HOST));
        assert_memory_equal(row, s->bytes + i * PIECE, PIECE);
    }
}

static void no_row_was_copied(struct scene *s)
{
    for (size_t i = 0; i < N; i++)
        assert_all_bytes(s->va + i * CHUNK, PIECE, 0);
}

static void work_is_done(struct scene *s)
{
    assert_acl_ok(aclrtSynchronizeStream(stream));
}

/* ---- long copies, which threads help with ---- */

enum { LONG_CHUNKS = 17 };

static void have_long(struct scene *s)
{
    s->size = LONG_CHUNKS * CHUNK;
    s->va = reserve(s->size);
    s->handle = alloc(s->size);
    map(s->va, s->size, s->handle);
    s->bytes = malloc(s->size);
    assert_non_null(s->bytes);
    fill(s->bytes, s->size, 1);
    assert_acl_ok(aclrtMemset(s->va, s->size, 0, s->size));
}

static aclError do_long(struct scene *s)
{
    return copy(s->va, s->bytes, s->size, ACL_MEMCPY_HOST_TO_DEVICE);
}

static void long_is_there(struct scene *s)
{
    memset(s->bytes, 0, s->size);
    assert_acl_ok(copy(s->bytes, s->va, s->size, ACL_MEMCPY_DEVICE_TO_HOST));
    assert_true(is_filled(s->bytes, s->size, 1));
}

static void drop_long(struct scene *s)
{
    assert_acl_ok(aclrtUnmapMem(s->va));
    assert_acl_ok(aclrtFreePhysical(s->handle));
    assert_acl_ok(aclrtReleaseMemAddress(s->va));
    free(s->bytes);
}

/* ---- two sides that share memory ---- */

static void put_crossed(struct scene *s)
{
    put_pattern(s->va, PIECE, 1);
    put_pattern(s->va + CHUNK, PIECE, 2);
}

/* Handles a and b at one place, b and a at another. */
static void have_crossed(struct scene *s)
{
    s->size = 2 * CHUNK;
    s->va = reserve(4 * CHUNK);
    s->handle = alloc(CHUNK);
    s->more = alloc(CHUNK);
    map(s->va, CHUNK, s->handle);
    map(s->va + CHUNK, CHUNK, s->more);
    map(s->va + 2 * CHUNK, CHUNK, s->more);
    map(s->va + 3 * CHUNK, CHUNK, s->handle);
    put_crossed(s);
}

static aclError do_crossed(struct scene *s)
{
    return copy(s->va, s->va + 2 * CHUNK, s->size, ACL_MEMCPY_DEVICE_TO_DEVICE);
}

static void nothing_was_crossed(struct scene *s)
{
    assert_pattern(s->va, PIECE, 1);
    assert_pattern(s->va + CHUNK, PIECE, 2);
}

static void both_were_crossed(struct scene *s)
{
    assert_pattern(s->va, PIECE, 2);
    assert_pattern(s->va + CHUNK, PIECE, 1);
}

static void drop_crossed(struct scene *s)
{
    for (size_t i = 0; i < 4; i++)
        assert_acl_ok(aclrtUnmapMem(s->va + i * CHUNK));
    assert_acl_ok(aclrtFreePhysical(s->handle));
    assert_acl_ok(aclrtFreePhysical(s->more));
    assert_acl_ok(aclrtReleaseMemAddress(s->va));
}

/* ---- batches ---- */

static aclrtMemcpyBatchAttr to_device(void)
{
    aclrtMemcpyBatchAttr attr;

    memset(&attr, 0, sizeof(attr));
    attr.dstLoc.type = ACL_MEM_LOCATION_TYPE_DEVICE;
    return attr;
}

static aclError do_batch(struct scene *s)
{
    aclrtMemcpyBatchAttr attr = to_device();
    size_t index = 0, fail;

    return aclrtMemcpyBatch(dsts, sizes, srcs, sizes, N, &attr, &index, 1, &fail);
}

static aclError do_batch_async(struct scene *s)
{
    aclrtMemcpyBatchAttr attr = to_device();
    size_t index = 0, fail;

    return and_wait(aclrtMemcpyBatchAsync(dsts, sizes, srcs, sizes, N, &attr, &index, 1,
                                          &fail, stream));
}

static void nothing_was_copied(struct scene *s)
{
    for (size_t i = 0; i < N; i++)
        assert_all_bytes(dsts[i], PIECE, 0);
}

static void batch_is_there(struct scene *s)
{
    assert_acl_ok(aclrtSynchronizeStream(stream));
    for (size_t i = 0; i < N; i++) {
        uint8_t piece[PIECE];

        assert_acl_ok(copy(piece, dsts[i], PIECE, ACL_MEMCPY_DEVICE_TO_HOST));
        assert_memory_equal(piece, srcs[i], PIECE);
    }
}

/* ---- descriptors ---- */

static aclError do_set_desc(struct scene *s)
{
    return aclrtSetMemcpyDesc(s->va, inner, s->va + CHUNK, s->va + 2 * CHUNK, PIECE,
                              NULL);
}

static void have_desc(struct scene *s)
{
    have_pieces(s);
    assert_acl_ok(do_set_desc(s));
    put_pattern(s->va + CHUNK, PIECE, 1);
}

static aclError do_desc_copy(struct scene *s)
{
    return and_wait(aclrtMemcpyAsyncWithDesc(s->va, inner, stream));
}

static void copy_is_there(struct scene *s)
{
    assert_acl_ok(aclrtSynchronizeStream(stream));
    assert_pattern(s->va + 2 * CHUNK, PIECE, 1);
}

static void set_desc_works(struct scene *s)
{
    put_pattern(s->va + CHUNK, PIECE, 1);
    assert_acl_ok(do_desc_copy(s));
    copy_is_there(s);
}

static void have_addresses(struct scene *s)
{
    void *addresses[2];

    have_pieces(s);
    addresses[0] = s->va + 2 * CHUNK;
    addresses[1] = s->va + CHUNK;
    assert_acl_ok(copy(s->va, addresses, sizeof(addresses), ACL_MEMCPY_HOST_TO_DEVICE));
    put_pattern(s->va + CHUNK, PIECE, 1);
}

static aclError do_offset_copy(struct scene *s)
{
    void **at = (void **)(void *)s->va;

    return and_wait(aclrtMemcpyAsyncWithOffset(at, PIECE, 0, (const void **)(at + 1),
                                               PIECE, 0, inner, stream));
}

/* ---- values and cache operations ---- */

static aclError do_write(struct scene *s)
{
    return and_wait(aclrtValueWrite(s->va, 5, 0, stream));
}

static aclError do_wait(struct scene *s)
{
    return and_wait(aclrtValueWait(s->va, 0, ACL_STREAM_WAIT_VALUE_EQ, stream));
}

static aclError do_prefetch(struct scene *s)
{
    return and_wait(aclrtCmoAsync(s->va, s->size, ACL_RT_CMO_TYPE_PREFETCH, stream));
}

static void value_is_there(struct scene *s)
{
    uint64_t value = 0;

    assert_acl_ok(aclrtSynchronizeStream(stream));
    assert_acl_ok(copy(&value, s->va, sizeof(value), ACL_MEMCPY_DEVICE_TO_HOST));
    assert_int_equal(value, 5);
}

/* ---- allocators ---- */

static aclrtAllocatorDesc desc;

static aclError do_create(struct scene *s)
{
    desc = aclrtAllocatorCreateDesc();
    return desc != NULL ? ACL_SUCCESS : aclrtPeekAtLastError(ACL_RT_THREAD_LEVEL);
}

static void destroy(struct scene *s)
{
    assert_acl_ok(aclrtAllocatorDestroyDesc(desc));
}

static const struct step steps[] = {
    {"a copy of rows", NULL, have_pieces, do_rows, no_row_was_copied, rows_are_there,
     drop_pieces, .put_back = work_is_done},
    {"a copy of rows on a stream", NULL, have_pieces, do_rows_async, no_row_was_copied,
     rows_are_there, drop_pieces, .put_back = work_is_done},
    {"a copy of rows inside a device", NULL, have_pieces, do_inner_rows, NULL,
     work_is_done, drop_pieces},
    {"a long copy", NULL, have_long, do_long, NULL, long_is_there, drop_long},
    {"a crossed copy", NULL, have_crossed, do_crossed, nothing_was_crossed,
     both_were_crossed, drop_crossed, .put_back = put_crossed},
    {"a batch", NULL, have_pieces, do_batch, nothing_was_copied, batch_is_there,
     drop_pieces, .put_back = work_is_done},
    {"a batch on a stream", NULL, have_pieces, do_batch_async, nothing_was_copied,
     batch_is_there, drop_pieces, .put_back = work_is_done},
    {"making a descriptor", NULL, have_pieces, do_set_desc, NULL, set_desc_works,
     drop_pieces},
    {"a copy by a descriptor", NULL, have_desc, do_desc_copy, NULL, copy_is_there,
     drop_pieces},
    {"a copy by addresses in memory", NULL, have_addresses, do_offset_copy, NULL,
     copy_is_there, drop_pieces},
    {"writing a value", NULL, have_pieces, do_write, NULL, value_is_there, drop_pieces},
    {"waiting for a value", NULL, have_pieces, do_wait, NULL, work_is_done, drop_pieces},
    {"a prefetch", NULL, have_pieces, do_prefetch, NULL, work_is_done, drop_pieces},
    {"making an allocator", NULL, NULL, do_create, NULL, NULL, destroy},
};

int main(int argc, char **argv)
{
    return run_faulted(steps, argc, argv);
}
