/* Addresses that the library keeps in stock: what the driver is asked for, and what not. */
#include <stdlib.h>

#include "fake/whole_driver.h"
#include "fake/control.h"
#include "support/process.h"
#include "support/support.h"
#include "support/vmm.h"

#define AM_CU(need_, since_, name_, params_, args_) CUresult name_ params_;
#include "fake/whole_driver.def"
#undef AM_CU

static uint64_t reservations(void)
{
    struct fake_cuda_counts counts;

    fake_cuda_count(&counts);
    return counts.reservations;
}

static int end(void **state)
{
    (void)aclFinalize();
    assert_int_equal(reservations(), 0);
    return 0;
}

static void many_reservations_are_one_of_the_drivers(void **state)
{
    void *va[200];

    fake_cuda_fail("cuMemAddressReserve", 0, 0, false);
    for (size_t i = 0; i < 200; i++)
        va[i] = reserve(i % 10 == 9 ? GIB : (i % 10 + 1) * CHUNK);
    assert_int_equal(fake_cuda_calls(), 1);
    fake_cuda_fail("cuMemAddressFree", 0, 0, false);
    for (size_t i = 0; i < 200; i++)
        assert_acl_ok(aclrtReleaseMemAddress(va[i]));
    assert_int_equal(fake_cuda_calls(), 0);
}

/* What is released is used again, so that the stock lasts and the page tables stay few. */
static void a_program_that_releases_gets_the_same_again(void **state)
{
    void *first[2] = {NULL, NULL};

    for (size_t i = 0; i < 1000; i++) {
        void *one = reserve(16 * GIB);
        void *other = reserve(CHUNK);

        if (i == 0) {
            first[0] = one;
            first[1] = other;
        }
        assert_ptr_equal(one, first[0]);
        assert_ptr_equal(other, first[1]);
        assert_acl_ok(aclrtReleaseMemAddress(one));
        assert_acl_ok(aclrtReleaseMemAddress(other));
    }
}

/* Holes that are too small for what is asked for are not where the search ends. */
static void a_stock_with_holes_serves_on(void **state)
{
    enum { N = 64 };
    void *va[N];

    for (size_t i = 0; i < N; i++)
        va[i] = reserve(CHUNK);
    fake_cuda_fail("cuMemAddressReserve", 0, 0, false);
    for (size_t i = 0; i < N; i += 2)
        assert_acl_ok(aclrtReleaseMemAddress(va[i]));
    for (size_t i = 0; i < N; i += 2)
        va[i] = reserve(2 * CHUNK);
    assert_int_equal(fake_cuda_calls(), 0);
    for (size_t i = 0; i < N; i++)
        assert_acl_ok(aclrtReleaseMemAddress(va[i]));
}

/* More than the stock has, and more than is cut from it, comes from the driver. */
static void addresses_beyond_the_stock_come_from_the_driver(void **state)
{
    enum { N = 20 };
    void *va[N];
    void *large;

    va[0] = reserve(16 * GIB);
    fake_cuda_fail("cuMemAddressReserve", 0, 0, false);
    large = reserve(17 * GIB);
    assert_int_equal(fake_cuda_calls(), 1);
    for (size_t i = 1; i < N; i++)
        va[i] = reserve(16 * GIB);
    assert_true(fake_cuda_calls() > 1 && fake_cuda_calls() < N);
    for (size_t i = 0; i < N; i++)
        assert_acl_ok(aclrtReleaseMemAddress(va[i]));
    assert_acl_ok(aclrtReleaseMemAddress(large));
    assert_int_equal(reservations(), 1);
}

static void without_a_stock_each_comes_from_the_driver(void **state)
{
    void *va[2];

    fake_cuda_fail("cuMemAddressReserve", 1, CUDA_ERROR_OUT_OF_MEMORY, false);
    va[0] = reserve(CHUNK);
    va[1] = reserve(CHUNK);
    assert_int_equal(fake_cuda_calls(), 3);
    assert_int_equal(reservations(), 2);
    assert_acl_ok(aclrtReleaseMemAddress(va[0]));
    assert_acl_ok(aclrtReleaseMemAddress(va[1]));
    assert_int_equal(reservations(), 0);
}

/* What was passed over because it was too small serves when there is nothing else. */
static void a_full_stock_has_its_holes_left(void **state)
{
    enum { N = 15, SMALL = 200 };
    void *large[N];
    void *small[SMALL];
    void *first = reserve(CHUNK); /* behind which a GB is not full */
    void *last;

    for (size_t i = 0; i < N; i++)
        large[i] = reserve(16 * GIB);
    last = reserve(15 * GIB);
    fake_cuda_fail("cuMemAddressReserve", 0, 0, false);
    for (size_t i = 0; i < SMALL; i++)
        small[i] = reserve(CHUNK);
    assert_true(fake_cuda_calls() <= 1);
    for (size_t i = 0; i < SMALL; i++)
        assert_acl_ok(aclrtReleaseMemAddress(small[i]));
    for (size_t i = 0; i < N; i++)
        assert_acl_ok(aclrtReleaseMemAddress(large[i]));
    assert_acl_ok(aclrtReleaseMemAddress(first));
    assert_acl_ok(aclrtReleaseMemAddress(last));
}

/* A program that begins with addresses of its own choice finds no stock in the way. */
static void wishes_and_large_ones_alone_make_no_stock(void **state)
{
    char *edge = reserve(CHUNK);

    assert_acl_ok(aclFinalize());
    start_default(state);
    fake_cuda_fail("cuMemAddressReserve", 0, 0, false);
    assert_acl_ok(aclrtReleaseMemAddress(reserve_at(edge - CHUNK, 2 * CHUNK)));
    assert_int_equal(fake_cuda_calls(), 1);
    assert_acl_ok(aclrtReleaseMemAddress(reserve(17 * GIB)));
    assert_int_equal(fake_cuda_calls(), 2);
}

/* What a reset cannot unmap is in nobody's way: its addresses are not cut again. */
static void addresses_that_a_reset_could_not_empty_rest(void **state)
{
    char *va = reserve(4 * CHUNK);
    char *again;
    void *refused;

    map(va + CHUNK, 2 * CHUNK, alloc(2 * CHUNK));
    fake_cuda_fail("cuMemUnmap", 1, CUDA_ERROR_UNKNOWN, true);
    expect_warnings(1);
    assert_acl_ok(aclrtResetDevice(0));
    fake_cuda_fail(NULL, 0, 0, false);
    assert_acl_ok(aclrtSetDevice(0));
    assert_acl_ok(aclrtReleaseMemAddress(va));
    assert_int_equal(stats().reservations, 0);
    assert_refused(aclrtReleaseMemAddress(va), ACL_ERROR_RT_PARAM_INVALID, "belongs to");
    assert_refused(aclrtReserveMemAddress(&refused, CHUNK, 0, va, 1),
                   ACL_ERROR_RT_PARAM_INVALID, "not available");
    again = block_create(4 * CHUNK).va;
    assert_true(again < va || again >= va + 4 * CHUNK);
    put_pattern(again, 4 * CHUNK, 1);
    assert_pattern(again, 4 * CHUNK, 1);
    assert_int_equal(cuMemUnmap((CUdeviceptr)(va + CHUNK), 2 * CHUNK), CUDA_SUCCESS);
}

/* Addresses that were the host's memory for a while are a device's as if never used. */
static void host_memory_leaves_nothing_in_the_stock(void **state)
{
    struct block host = block_create_host(4 * CHUNK);
    char *first = host.va;
    struct block device;

    fill((uint8_t *)host.va, host.size, 1);
    assert_true(can_read(first));
    block_destroy(&host);
    assert_ptr_equal(reserve(4 * CHUNK), first);
    assert_false(can_read(first));
    assert_acl_ok(aclrtReleaseMemAddress(first));
    device = block_create(4 * CHUNK);
    assert_ptr_equal(device.va, first);
    assert_false(can_read(first));
    put_pattern(device.va, device.size, 2);
    assert_pattern(device.va, device.size, 2);
    block_destroy(&device);
}

/* ---- any order of calls, beside a list ---- */

enum { LIVE_MAX = 60, STEPS = 30000, WINDOW = 256 };

static struct range {
    char *start;
    size_t size;
} live[LIVE_MAX];
static size_t n_live;

static bool is_taken_by_us(const char *start, size_t size)
{
    for (size_t i = 0; i < n_live; i++) {
        if (start < live[i].start + live[i].size && live[i].start < start + size)
            return true;
    }
    return false;
}

static void check_and_keep(char *start, size_t size)
{
    assert_false(is_taken_by_us(start, size));
    assert_int_equal((uintptr_t)start % (size >= GIB ? GIB : CHUNK), 0);
    live[n_live++] = (struct range){start, size};
}

/* Somewhere in the first pieces of the stock, where most of them are. */
static void wish_for(char *base, size_t size, size_t at)
{
    char *want = base + at;
    void *va = NULL;
    bool is_free = !is_taken_by_us(want, size);
    aclError rc = aclrtReserveMemAddress(&va, size, 0, want, 1);

    if (is_free) {
        assert_acl_ok(rc);
        assert_ptr_equal(va, want);
        check_and_keep(want, size);
    } else {
        assert_int_equal(rc, ACL_ERROR_RT_PARAM_INVALID);
    }
}

static void any_order_of_calls_gives_each_its_own(void **state)
{
    uint64_t random = 88172645463325252u;
    char *base = reserve(CHUNK); /* the lowest there is */

    n_live = 0;
    check_and_keep(base, CHUNK);
    for (size_t i = 0; i < STEPS; i++) {
        size_t size;

        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        size = (random >> 8) % 50 == 0 ? (1 + (random >> 16) % 12) * GIB
                                       : (1 + (random >> 16) % 24) * CHUNK;
        if (n_live == LIVE_MAX || (random % 5 < 2 && n_live > 1)) {
            size_t k = 1 + (random >> 20) % (n_live - 1);

            assert_acl_ok(aclrtReleaseMemAddress(live[k].start));
            live[k] = live[--n_live];
        } else if (random % 5 < 4) {
            check_and_keep(reserve(size), size);
        } else if (size < GIB) {
            wish_for(base, size, (random >> 24) % WINDOW * CHUNK);
        }
    }
    while (n_live > 0)
        assert_acl_ok(aclrtReleaseMemAddress(live[--n_live].start));
}

#define stock_claim(f_) cmocka_unit_test_setup_teardown(f_, start_default, end)

int main(void)
{
    const struct CMUnitTest claims[] = {
        stock_claim(many_reservations_are_one_of_the_drivers),
        stock_claim(a_program_that_releases_gets_the_same_again),
        stock_claim(a_stock_with_holes_serves_on),
        stock_claim(addresses_beyond_the_stock_come_from_the_driver),
        stock_claim(without_a_stock_each_comes_from_the_driver),
        stock_claim(a_full_stock_has_its_holes_left),
        stock_claim(wishes_and_large_ones_alone_make_no_stock),
        stock_claim(addresses_that_a_reset_could_not_empty_rest),
        stock_claim(host_memory_leaves_nothing_in_the_stock),
        stock_claim(any_order_of_calls_gives_each_its_own),
    };

    return cmocka_run_group_tests(claims, NULL, NULL);
}
