/*
 * Copies whose two sides share memory: they end as if the source had been read whole
 * before a byte was written.
 */
#include "support/streams.h"
#include "support/vmm.h"

#include <stdlib.h>
#include <string.h>

enum { ROW = 4 };
#define SIZE (ROW * CHUNK)

/* Four handles in a row whose memory is scattered, with a known pattern in it. */
struct row {
    char *va;
    aclrtDrvMemHandle handles[ROW];
    uint8_t *model;
};

static struct row row_create(void)
{
    struct row r = {.va = reserve(SIZE), .model = malloc(SIZE)};

    assert_non_null(r.model);
    for (size_t i = 0; i < ROW; i++)
        r.handles[ROW - 1 - i] = alloc(CHUNK);
    for (size_t i = 0; i < ROW; i++)
        map(r.va + i * CHUNK, CHUNK, r.handles[i]);
    put_pattern(r.va, SIZE, 1);
    fill(r.model, SIZE, 1);
    return r;
}

static void row_destroy(struct row *r)
{
    for (size_t i = 0; i < ROW; i++) {
        assert_acl_ok(aclrtUnmapMem(r->va + i * CHUNK));
        assert_acl_ok(aclrtFreePhysical(r->handles[i]));
    }
    assert_acl_ok(aclrtReleaseMemAddress(r->va));
    free(r->model);
}

static void row_check(const struct row *r)
{
    uint8_t *bytes = malloc(SIZE);

    assert_non_null(bytes);
    assert_acl_ok(copy(bytes, r->va, SIZE, ACL_MEMCPY_DEVICE_TO_HOST));
    assert_memory_equal(bytes, r->model, SIZE);
    free(bytes);
}

static const size_t shifts[] = {1, 64, 4096 + 1, CHUNK - 1, CHUNK, CHUNK + 5, 2 * CHUNK};

static void neighbouring_addresses_may_overlap(void **state)
{
    struct row r = row_create();
    aclrtStream stream = make_stream();

    for (size_t i = 0; i < sizeof(shifts) / sizeof(shifts[0]); i++) {
        size_t by = shifts[i], n = SIZE - by;

        assert_acl_ok(copy(r.va + by, r.va, n, ACL_MEMCPY_DEVICE_TO_DEVICE));
        memmove(r.model + by, r.model, n);
        row_check(&r);
        assert_acl_ok(copy(r.va, r.va + by, n, ACL_MEMCPY_DEVICE_TO_DEVICE));
        memmove(r.model, r.model + by, n);
        row_check(&r);
        put_pattern(r.va, SIZE, i);
        fill(r.model, SIZE, i);
        assert_acl_ok(
            aclrtMemcpyAsync(r.va + by, n, r.va, n, ACL_MEMCPY_DEVICE_TO_DEVICE, stream));
        assert_acl_ok(aclrtSynchronizeStream(stream));
        memmove(r.model + by, r.model, n);
        row_check(&r);
    }
    assert_acl_ok(copy(r.va, r.va, SIZE, ACL_MEMCPY_DEVICE_TO_DEVICE));
    row_check(&r);
    assert_acl_ok(aclrtDestroyStream(stream));
    row_destroy(&r);
}

/* The same handles at other addresses, in the order that `order` gives. */
static char *map_again(const struct row *r, const size_t *order)
{
    char *va = reserve(SIZE);

    for (size_t i = 0; i < ROW; i++)
        map(va + i * CHUNK, CHUNK, r->handles[order[i]]);
    return va;
}

static void unmap_again(char *va)
{
    for (size_t i = 0; i < ROW; i++)
        assert_acl_ok(aclrtUnmapMem(va + i * CHUNK));
    assert_acl_ok(aclrtReleaseMemAddress(va));
}

/* No order of the bytes is right: each handle is read and written in turn. */
static void memory_that_is_mapped_twice_may_be_permuted(void **state)
{
    static const size_t orders[][ROW] = {
        {3, 2, 1, 0}, {1, 0, 3, 2}, {1, 2, 3, 0}, {3, 0, 1, 2}, {0, 1, 2, 3}};

    for (size_t i = 0; i < sizeof(orders) / sizeof(orders[0]); i++) {
        struct row r = row_create();
        uint8_t *old = malloc(SIZE);
        char *other = map_again(&r, orders[i]);

        assert_non_null(old);
        memcpy(old, r.model, SIZE);
        for (size_t k = 0; k < ROW; k++)
            memcpy(r.model + k * CHUNK, old + orders[i][k] * CHUNK, CHUNK);
        assert_acl_ok(copy(r.va, other, SIZE, ACL_MEMCPY_DEVICE_TO_DEVICE));
        row_check(&r);
        unmap_again(other);
        row_destroy(&r);
        free(old);
    }
}

/* What rows would be if all were read first. */
static void model_rows(uint8_t *base, size_t to, size_t dpitch, size_t from,
                       size_t spitch, size_t width, size_t height)
{
    uint8_t *kept = malloc(width * height);

    assert_non_null(kept);
    for (size_t i = 0; i < height; i++)
        memcpy(kept + i * width, base + from + i * spitch, width);
    for (size_t i = 0; i < height; i++)
        memcpy(base + to + i * dpitch, kept + i * width, width);
    free(kept);
}

static void rows_may_overlap(void **state)
{
    static const struct {
        size_t to, dpitch, from, spitch, width, height;
    } cases[] = {
        {8192, 8192, 0, 8192, 8000, 900},     /* a row down */
        {0, 8192, 8192, 8192, 8000, 900},     /* a row up */
        {100, 8192, 0, 8192, 8000, 900},      /* aside */
        {0, 8192, 100, 8192, 8000, 900},      /* and back */
        {0, 4096, 4096, 8192, 4000, 900},     /* closer together */
        {4096, 8192, 0, 4096, 4000, 900},     /* and apart */
        {0, 8192, 0, 4096, 4000, 900},        /* the same, the first row where it is */
        {CHUNK / 2, 4096, 0, 8192, 4096, 900} /* some up and some down */
    };
    aclrtStream stream = make_stream();

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct row r = row_create();

        model_rows(r.model, cases[i].to, cases[i].dpitch, cases[i].from, cases[i].spitch,
                   cases[i].width, cases[i].height);
        assert_acl_ok(aclrtMemcpy2dAsync(
            r.va + cases[i].to, cases[i].dpitch, r.va + cases[i].from, cases[i].spitch,
            cases[i].width, cases[i].height, ACL_MEMCPY_DEVICE_TO_DEVICE, stream));
        assert_acl_ok(aclrtSynchronizeStream(stream));
        row_check(&r);
        row_destroy(&r);
    }
    assert_acl_ok(aclrtDestroyStream(stream));
}

static void host_memory_may_overlap(void **state)
{
    uint8_t *bytes = malloc(MIB);
    uint8_t *model = malloc(MIB);

    assert_non_null(bytes);
    assert_non_null(model);
    fill(bytes, MIB, 1);
    fill(model, MIB, 1);
    assert_acl_ok(copy(bytes + 100, bytes, MIB - 100, ACL_MEMCPY_HOST_TO_HOST));
    memmove(model + 100, model, MIB - 100);
    assert_memory_equal(bytes, model, MIB);
    assert_acl_ok(copy(bytes, bytes + 7, MIB - 7, ACL_MEMCPY_HOST_TO_HOST));
    memmove(model, model + 7, MIB - 7);
    assert_memory_equal(bytes, model, MIB);
    free(bytes);
    free(model);
}

/* ---- memory of the host and of a device in one range ---- */

enum { MIXED = 21 }; /* long enough for several processors */

/* All the host's, but one handle at either end, which is a device's. */
static char *mixed_create(aclrtDrvMemHandle *handles, bool is_device_last)
{
    char *va = reserve(MIXED * CHUNK);

    for (size_t i = 0; i < MIXED; i++) {
        handles[i] =
            i == (is_device_last ? MIXED - 1 : 0) ? alloc(CHUNK) : alloc_host(CHUNK);
        map(va + i * CHUNK, CHUNK, handles[i]);
    }
    return va;
}

static void mixed_destroy(char *va, const aclrtDrvMemHandle *handles)
{
    for (size_t i = 0; i < MIXED; i++) {
        assert_acl_ok(aclrtUnmapMem(va + i * CHUNK));
        assert_acl_ok(aclrtFreePhysical(handles[i]));
    }
    assert_acl_ok(aclrtReleaseMemAddress(va));
}

/* One side is the host's alone, and the other has some of that, too. */
static void mixed_check(bool is_device_last, aclrtStream stream)
{
    const size_t n = (MIXED - 1) * CHUNK;
    aclrtDrvMemHandle handles[MIXED];
    char *va = mixed_create(handles, is_device_last);
    char *dst = is_device_last ? va + CHUNK : va;
    char *src = is_device_last ? va : va + CHUNK;

    put_pattern(src, n, 1);
    if (stream == NULL) {
        assert_acl_ok(copy(dst, src, n, ACL_MEMCPY_DEFAULT));
    } else {
        assert_acl_ok(aclrtMemcpyAsync(dst, n, src, n, ACL_MEMCPY_DEFAULT, stream));
        assert_acl_ok(aclrtSynchronizeStream(stream));
    }
    assert_pattern(dst, n, 1);
    mixed_destroy(va, handles);
}

static void ranges_of_host_and_device_may_overlap(void **state)
{
    aclrtStream stream = make_stream();

    mixed_check(true, NULL);
    mixed_check(false, NULL);
    mixed_check(true, stream);
    mixed_check(false, stream);
    assert_acl_ok(aclrtDestroyStream(stream));
}

int main(void)
{
    const struct CMUnitTest claims[] = {
        claim(neighbouring_addresses_may_overlap),
        claim(memory_that_is_mapped_twice_may_be_permuted),
        claim(rows_may_overlap),
        claim_both(host_memory_may_overlap),
        claim(ranges_of_host_and_device_may_overlap),
    };

    return run_claims(claims);
}
