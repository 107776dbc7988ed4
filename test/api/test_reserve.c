/* aclrtReserveMemAddress, its sibling, and aclrtReleaseMemAddress. */
#include "support/process.h"
#include "support/vmm.h"

#include <string.h>
#include <sys/mman.h>

static void a_reservation_is_aligned_and_untouchable(void **state)
{
    void *va = reserve(CHUNK);

    assert_int_equal((uintptr_t)va % CHUNK, 0);
    assert_false(can_read(va));
    assert_acl_ok(aclrtReleaseMemAddress(va));
}

static void from_one_gibibyte_on_it_is_aligned_to_that(void **state)
{
    void *odd =
        reserve(CHUNK); /* so that the next free address is not a multiple by chance */
    void *va = reserve(GIB), *more = reserve(3 * GIB + CHUNK);

    assert_int_equal((uintptr_t)va % GIB, 0);
    assert_int_equal((uintptr_t)more % GIB, 0);
    assert_acl_ok(aclrtReleaseMemAddress(va));
    assert_acl_ok(aclrtReleaseMemAddress(more));
    assert_acl_ok(aclrtReleaseMemAddress(odd));
}

static void no_device_is_needed(void **state)
{
    start("default");
    assert_acl_ok(aclrtReleaseMemAddress(reserve(CHUNK)));
}

/* torch_npu asks for 512 bytes to see whether the calls work. */
static void any_size_is_rounded_up(void **state)
{
    static const size_t sizes[] = {1,         512,           4096,   CHUNK - 1,
                                   CHUNK + 1, 3 * CHUNK - 7, GIB + 1};

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        char *va = reserve(sizes[i]);
        aclrtDrvMemHandle handle = alloc(CHUNK);
        size_t rounded = (sizes[i] + CHUNK - 1) / CHUNK * CHUNK;

        assert_int_equal((uintptr_t)va % CHUNK, 0);
        map(va + rounded - CHUNK, CHUNK, handle); /* the last chunk belongs to it */
        assert_acl_ok(aclrtUnmapMem(va + rounded - CHUNK));
        assert_acl_ok(aclrtFreePhysical(handle));
        assert_acl_ok(aclrtReleaseMemAddress(va));
    }
}

static void both_page_flags_are_taken(void **state)
{
    void *normal = NULL, *huge = NULL;

    assert_acl_ok(aclrtReserveMemAddress(&normal, CHUNK, 0, NULL, 0));
    assert_acl_ok(aclrtReserveMemAddress(&huge, CHUNK, 0, NULL, 1));
    assert_acl_ok(aclrtReleaseMemAddress(normal));
    assert_acl_ok(aclrtReleaseMemAddress(huge));
}

static void reservations_do_not_overlap(void **state)
{
    enum { N = 500 };
    char *va[N];

    for (size_t i = 0; i < N; i++)
        va[i] = reserve(CHUNK * (1 + i % 7));
    for (size_t i = 0; i < N; i++) {
        for (size_t j = 0; j < i; j++) {
            assert_true(va[i] + CHUNK * (1 + i % 7) <= va[j] ||
                        va[j] + CHUNK * (1 + j % 7) <= va[i]);
        }
    }
    assert_int_equal(stats().reservations, N);
    for (size_t i = 0; i < N; i++)
        assert_acl_ok(aclrtReleaseMemAddress(va[i]));
}

static void thirty_two_tebibytes_come_in_one_call(void **state)
{
    aclrtDrvMemHandle handle;
    char *va, *end;

    if (!is_free_range(40 * TIB, 32 * TIB))
        return;
    handle = alloc(CHUNK);
    va = reserve(32 * TIB);
    end = va + 32 * TIB - CHUNK;
    map(end, CHUNK, handle);
    put_pattern(end, CHUNK, 1);
    assert_pattern(end, CHUNK, 1);
    assert_acl_ok(aclrtUnmapMem(end));
    assert_acl_ok(aclrtFreePhysical(handle));
    assert_acl_ok(aclrtReleaseMemAddress(va));
}

static void too_much_address_space_is_out_of_memory(void **state)
{
    static const size_t sizes[] = {(size_t)1 << 47, (size_t)1 << 57, SIZE_MAX - CHUNK,
                                   SIZE_MAX};
    void *va = NULL;

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        assert_refused(aclrtReserveMemAddress(&va, sizes[i], 0, NULL, 1),
                       ACL_ERROR_RT_MEMORY_ALLOCATION, "Failed to allocate");
        assert_int_equal(strncmp(kept_message(), "EL0004", 6), 0);
    }
    assert_null(va);
}

static void bad_arguments_are_refused(void **state)
{
    void *va = NULL;

    assert_bad_arg(aclrtReserveMemAddress(NULL, CHUNK, 0, NULL, 1), "virPtr");
    assert_bad_arg(aclrtReserveMemAddress(&va, 0, 0, NULL, 1), "size");
    assert_bad_arg(aclrtReserveMemAddress(&va, CHUNK, CHUNK, NULL, 1), "alignment");
    assert_bad_arg(aclrtReserveMemAddress(&va, CHUNK, 0, NULL, 2), "flags");
    assert_bad_arg(aclrtReserveMemAddress(&va, CHUNK, 0, NULL, UINT64_MAX), "flags");
    assert_null(va);
}

/* ---- an address of the caller's choice ---- */

static void free_addresses_may_be_asked_for(void **state)
{
    static const size_t wishes[] = {16 * TIB, 24 * TIB - GIB, 40 * TIB, 78 * TIB};

    for (size_t i = 0; i < sizeof(wishes) / sizeof(wishes[0]); i++) {
        void *wish = (void *)wishes[i];

        if (!is_free_range(wishes[i], 64 * MIB))
            continue;
        assert_ptr_equal(reserve_at(wish, 64 * MIB), wish);
        assert_acl_ok(aclrtReleaseMemAddress(wish));
    }
}

static void a_wish_may_be_granted_again_after_release(void **state)
{
    void *va = reserve(4 * CHUNK);

    assert_acl_ok(aclrtReleaseMemAddress(va));
    assert_ptr_equal(reserve_at(va, 4 * CHUNK), va);
    assert_acl_ok(aclrtReleaseMemAddress(va));
}

/* As shmem does: learn a base, give it back, take it piece by piece. */
static void a_released_range_may_be_taken_in_pieces(void **state)
{
    char *base = reserve(8 * CHUNK);

    assert_acl_ok(aclrtReleaseMemAddress(base));
    for (size_t i = 0; i < 8; i++)
        assert_ptr_equal(reserve_at(base + i * CHUNK, CHUNK), base + i * CHUNK);
    assert_int_equal(stats().reservations, 8);
    for (size_t i = 0; i < 8; i++)
        assert_acl_ok(aclrtReleaseMemAddress(base + i * CHUNK));
}

static void a_taken_wish_is_refused(void **state)
{
    char *taken = reserve(4 * CHUNK);
    void *va = NULL;

    assert_refused(aclrtReserveMemAddress(&va, CHUNK, 0, taken, 1),
                   ACL_ERROR_RT_PARAM_INVALID, "expectPtr");
    assert_message_has_address(taken);
    assert_refused(aclrtReserveMemAddress(&va, CHUNK, 0, taken + 2 * CHUNK, 1),
                   ACL_ERROR_RT_PARAM_INVALID, "expectPtr");
    assert_refused(aclrtReserveMemAddress(&va, 2 * CHUNK, 0, taken - CHUNK, 1),
                   ACL_ERROR_RT_PARAM_INVALID, "expectPtr");
    assert_null(va);
    assert_acl_ok(aclrtReleaseMemAddress(taken));
}

/* So many that they are in nobody's stock when they are released. */
static void memory_of_the_program_is_never_replaced(void **state)
{
    void *probe = reserve(32 * GIB);
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE;
    char *theirs;
    void *va = NULL;

    assert_acl_ok(aclrtReleaseMemAddress(probe));
    theirs = mmap((char *)probe + CHUNK, 4096, PROT_READ | PROT_WRITE, flags, -1, 0);
    assert_ptr_equal(theirs, (char *)probe + CHUNK);
    theirs[0] = 42;
    assert_refused(aclrtReserveMemAddress(&va, 32 * GIB, 0, probe, 1),
                   ACL_ERROR_RT_PARAM_INVALID, "expectPtr");
    assert_int_equal(theirs[0], 42);
    va = reserve(GIB); /* and one that the library places goes elsewhere */
    assert_true((char *)va + GIB <= theirs || theirs + 4096 <= (char *)va);
    assert_acl_ok(aclrtReleaseMemAddress(va));
    munmap(theirs, 4096);
}

static void a_misaligned_wish_is_refused(void **state)
{
    char *base = reserve(2 * GIB);
    void *va = NULL;

    assert_acl_ok(aclrtReleaseMemAddress(base));
    assert_refused(aclrtReserveMemAddress(&va, CHUNK, 0, base + 4096, 1),
                   ACL_ERROR_RT_ADDR_UNALIGNED, "expectPtr");
    assert_refused(aclrtReserveMemAddress(&va, CHUNK, 0, base + MIB, 1),
                   ACL_ERROR_RT_ADDR_UNALIGNED, "expectPtr");
    assert_refused(aclrtReserveMemAddress(&va, GIB + CHUNK, 0, base + CHUNK, 1),
                   ACL_ERROR_RT_ADDR_UNALIGNED, "expectPtr");
    assert_null(va);
}

static void a_wish_that_no_process_can_have_is_refused(void **state)
{
    void *va = NULL;

    assert_refused_either(
        aclrtReserveMemAddress(&va, CHUNK, 0, (void *)(UINTPTR_MAX - CHUNK + 1), 1),
        ACL_ERROR_RT_PARAM_INVALID, ACL_ERROR_RT_MEMORY_ALLOCATION, "");
    assert_refused_either(
        aclrtReserveMemAddress(&va, 64 * TIB, 0, (void *)(127 * TIB), 1),
        ACL_ERROR_RT_PARAM_INVALID, ACL_ERROR_RT_MEMORY_ALLOCATION, "");
    assert_refused_either(aclrtReserveMemAddress(&va, SIZE_MAX, 0, (void *)(16 * TIB), 1),
                          ACL_ERROR_RT_PARAM_INVALID, ACL_ERROR_RT_MEMORY_ALLOCATION, "");
    assert_null(va);
}

/* ---- release ---- */

static void release_wants_a_start_address(void **state)
{
    char *va = reserve(4 * CHUNK);

    assert_refused(aclrtReleaseMemAddress(va + CHUNK), ACL_ERROR_RT_PARAM_INVALID,
                   "inside");
    assert_message_has_address(va + CHUNK);
    assert_refused(aclrtReleaseMemAddress(va + 4 * CHUNK), ACL_ERROR_RT_PARAM_INVALID,
                   "reserv");
    assert_bad_arg(aclrtReleaseMemAddress(NULL), "virPtr");
    assert_refused_either(aclrtReleaseMemAddress(&va), ACL_ERROR_RT_PARAM_INVALID,
                          ACL_ERROR_RT_ADDR_UNALIGNED, "reserv");
    assert_refused_either(aclrtReleaseMemAddress((void *)UINTPTR_MAX),
                          ACL_ERROR_RT_PARAM_INVALID, ACL_ERROR_RT_ADDR_UNALIGNED, "");
    assert_acl_ok(aclrtReleaseMemAddress(va));
    assert_refused(aclrtReleaseMemAddress(va), ACL_ERROR_RT_PARAM_INVALID, "reserv");
}

static void release_wants_nothing_mapped(void **state)
{
    struct block b = block_create(CHUNK);

    put_pattern(b.va, b.size, 1);
    assert_refused(aclrtReleaseMemAddress(b.va), ACL_ERROR_RT_PARAM_INVALID, "mapping");
    assert_message_has("aclrtUnmapMem");
    assert_pattern(b.va, b.size, 1);
    block_destroy(&b);
}

static void released_addresses_are_the_programs_again(void **state)
{
    void *va = reserve(CHUNK), *mine;

    assert_acl_ok(aclrtReleaseMemAddress(va));
    mine = mmap(va, CHUNK, PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    assert_ptr_equal(mine, va);
    munmap(mine, CHUNK);
}

/* ---- aclrtReserveMemAddressNoUCMemory ---- */

static void the_sibling_is_for_atlas_a3(void **state)
{
    void *va = NULL, *wish = (void *)(78 * TIB);

    allow_warnings();
    assert_refused(aclrtReserveMemAddressNoUCMemory(&va, GIB, 0, wish, 0),
                   ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "A3");
    assert_null(va);
}

/* A client reserves its shared segment with flags 1, in multiples of 2 MB. */
static void the_sibling_reserves_multiples_of_two_megabytes(void **state)
{
    static const size_t sizes[] = {4 * GIB, GIB + CHUNK, 3 * CHUNK};
    void *va = NULL, *wish = (void *)(78 * TIB);

    start("default", "ACLMEM_PRODUCT=A3");
    if (!is_free_range(78 * TIB, 4 * GIB))
        return;
    for (size_t i = 0; i < 3; i++) {
        for (uint64_t flags = 0; flags < 2; flags++) {
            assert_acl_ok(
                aclrtReserveMemAddressNoUCMemory(&va, sizes[i], 0, wish, flags));
            assert_ptr_equal(va, wish);
            assert_int_equal(stats().reservations, 1);
            assert_acl_ok(aclrtReleaseMemAddress(va));
        }
    }
}

static void strict_rules_want_gibibytes_and_flags_0(void **state)
{
    void *va = NULL, *wish = (void *)(78 * TIB);

    start("strict", "ACLMEM_PRODUCT=A3");
    assert_bad_arg(aclrtReserveMemAddressNoUCMemory(&va, GIB + CHUNK, 0, wish, 0),
                   "multiples of 1 GB (ACLMEM_RULES=strict)");
    assert_bad_arg(aclrtReserveMemAddressNoUCMemory(&va, GIB, 0, wish, 1),
                   "takes 0 (ACLMEM_RULES=strict)");
}

static void the_sibling_wants_an_address(void **state)
{
    void *va = NULL, *wish = (void *)(78 * TIB);

    start("default", "ACLMEM_PRODUCT=A3");
    assert_bad_arg(aclrtReserveMemAddressNoUCMemory(&va, GIB, 0, NULL, 0), "expectPtr");
    assert_bad_arg(aclrtReserveMemAddressNoUCMemory(&va, GIB + 4096, 0, wish, 0), "size");
    assert_bad_arg(aclrtReserveMemAddressNoUCMemory(&va, 0, 0, wish, 0), "size");
    assert_bad_arg(aclrtReserveMemAddressNoUCMemory(&va, GIB, GIB, wish, 0), "alignment");
    assert_bad_arg(aclrtReserveMemAddressNoUCMemory(&va, GIB, 0, wish, 2), "flags");
    assert_bad_arg(aclrtReserveMemAddressNoUCMemory(NULL, GIB, 0, wish, 0), "virPtr");
    assert_refused(aclrtReserveMemAddressNoUCMemory(&va, GIB, 0, (char *)wish + CHUNK, 0),
                   ACL_ERROR_RT_ADDR_UNALIGNED, "expectPtr");
    assert_null(va);
}

int main(void)
{
    const struct CMUnitTest claims[] = {
        claim_both(a_reservation_is_aligned_and_untouchable),
        claim_both(from_one_gibibyte_on_it_is_aligned_to_that),
        claim_alone(no_device_is_needed),
        claim_both(any_size_is_rounded_up),
        claim_both(both_page_flags_are_taken),
        claim_both(reservations_do_not_overlap),
        claim_both(thirty_two_tebibytes_come_in_one_call),
        claim_both(too_much_address_space_is_out_of_memory),
        claim_both(bad_arguments_are_refused),
        claim(free_addresses_may_be_asked_for),
        claim(a_wish_may_be_granted_again_after_release),
        claim(a_released_range_may_be_taken_in_pieces),
        claim(a_taken_wish_is_refused),
        claim(memory_of_the_program_is_never_replaced),
        claim(a_misaligned_wish_is_refused),
        claim(a_wish_that_no_process_can_have_is_refused),
        claim_both(release_wants_a_start_address),
        claim_both(release_wants_nothing_mapped),
        claim(released_addresses_are_the_programs_again),
        claim(the_sibling_is_for_atlas_a3),
        claim_alone(the_sibling_reserves_multiples_of_two_megabytes),
        claim_alone(strict_rules_want_gibibytes_and_flags_0),
        claim_alone(the_sibling_wants_an_address),
    };

    return run_claims(claims);
}
