/*
 * Addresses of the program's own memory behind which there is none, or none that it may
 * use so: every copy and fill refuses them before a byte moves.
 */
#include "support/streams.h"
#include "support/vmm.h"

#include <string.h>
#include <sys/mman.h>

#define BAD ACL_ERROR_RT_PARAM_INVALID
#define SIZE ((size_t)(4 * 4096)) /* of each copy */
#define LONG ((size_t)8 * MIB)    /* more than is asked page by page */

/* What a wild address is like; each is one page behind good memory, or all of it. */
enum wild { NOTHING, FAR, HOLE, LOCKED, READ_ONLY, N_WILD };

static const char *const words[N_WILD] = {"not mapped", "not mapped", "not mapped",
                                          "no right", "no right"};

/* `size` bytes whose last page but one is wild. */
static char *wild_make(enum wild wild, size_t size)
{
    char *p;

    if (wild == NOTHING)
        return (char *)0x1000;
    if (wild == FAR)
        return (char *)(UINTPTR_MAX / 2 + 4096); /* no program's */
    p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(p, MAP_FAILED);
    memset(p, 0x11, size);
    if (wild == HOLE)
        munmap(p + size - 8192, 4096);
    else
        mprotect(p + size - 8192, 4096, wild == LOCKED ? PROT_NONE : PROT_READ);
    return p;
}

static void wild_drop(enum wild wild, char *p, size_t size)
{
    if (wild == NOTHING || wild == FAR)
        return;
    for (size_t i = 0; i < size - 8192; i++)
        assert_int_equal(p[i], 0x11);
    munmap(p, size);
}

static bool is_bad_source(enum wild wild)
{
    return wild != READ_ONLY;
}

static void copies_are_refused(size_t size)
{
    struct block b = block_create(LONG);

    assert_acl_ok(aclrtMemset(b.va, b.size, 0x22, b.size));
    for (enum wild wild = 0; wild < N_WILD; wild++) {
        char *p = wild_make(wild, size);

        assert_refused(copy(p, b.va, size, ACL_MEMCPY_DEVICE_TO_HOST), BAD, words[wild]);
        assert_message_has("dst");
        if (is_bad_source(wild)) {
            assert_refused(copy(b.va, p, size, ACL_MEMCPY_HOST_TO_DEVICE), BAD,
                           words[wild]);
            assert_message_has("src");
        }
        wild_drop(wild, p, size);
    }
    assert_all_bytes(b.va, b.size, 0x22);
    block_destroy(&b);
}

static void a_copy_refuses_wild_memory(void **state)
{
    copies_are_refused(SIZE);
    copies_are_refused(LONG);
}

static void memory_that_may_only_be_read_is_a_source(void **state)
{
    struct block b = block_create(CHUNK);
    char *p = wild_make(READ_ONLY, SIZE);

    assert_acl_ok(copy(b.va, p, SIZE, ACL_MEMCPY_HOST_TO_DEVICE));
    assert_all_bytes(b.va, SIZE, 0x11);
    wild_drop(READ_ONLY, p, SIZE);
    block_destroy(&b);
}

static void good_memory_in_several_mappings_is_taken(void **state)
{
    struct block b = block_create(LONG);

    for (size_t size = SIZE; size <= LONG; size = size == SIZE ? LONG : LONG + 1) {
        char *p = wild_make(READ_ONLY, size);

        mprotect(p, 4096, PROT_READ | PROT_WRITE | PROT_EXEC); /* a mapping of its own */
        assert_acl_ok(copy(b.va, p, size, ACL_MEMCPY_HOST_TO_DEVICE));
        mprotect(p, size, PROT_READ | PROT_WRITE);
        mprotect(p, 4096, PROT_READ | PROT_WRITE | PROT_EXEC);
        assert_acl_ok(aclrtMemset(b.va, b.size, 0x33, b.size));
        assert_acl_ok(copy(p, b.va, size, ACL_MEMCPY_DEVICE_TO_HOST));
        assert_int_equal(p[0], 0x33);
        assert_int_equal(p[size - 1], 0x33);
        munmap(p, size);
    }
    block_destroy(&b);
}

static void a_copy_on_a_stream_refuses_wild_memory(void **state)
{
    struct block b = block_create(LONG);
    aclrtStream stream = make_stream();

    assert_acl_ok(aclrtMemset(b.va, b.size, 0x22, b.size));
    for (size_t size = SIZE; size <= LONG; size = size == SIZE ? LONG : LONG + 1) {
        for (enum wild wild = 0; wild < N_WILD; wild++) {
            char *p = wild_make(wild, size);

            assert_refused(
                aclrtMemcpyAsync(p, size, b.va, size, ACL_MEMCPY_DEVICE_TO_HOST, stream),
                BAD, words[wild]);
            if (is_bad_source(wild))
                assert_refused(aclrtMemcpyAsync(b.va, size, p, size,
                                                ACL_MEMCPY_HOST_TO_DEVICE, stream),
                               BAD, words[wild]);
            wild_drop(wild, p, size);
        }
    }
    assert_acl_ok(aclrtSynchronizeStream(stream));
    assert_all_bytes(b.va, b.size, 0x22);
    assert_acl_ok(aclrtDestroyStream(stream));
    block_destroy(&b);
}

static void a_fill_refuses_wild_memory(void **state)
{
    aclrtStream stream = make_stream();

    for (enum wild wild = 0; wild < N_WILD; wild++) {
        char *p = wild_make(wild, SIZE);

        assert_refused(aclrtMemset(p, SIZE, 0x33, SIZE), BAD, words[wild]);
        assert_refused(aclrtMemsetAsync(p, SIZE, 0x33, SIZE, stream), BAD, words[wild]);
        wild_drop(wild, p, SIZE);
    }
    assert_acl_ok(aclrtSynchronizeStream(stream));
    assert_acl_ok(aclrtDestroyStream(stream));
}

/* Rows of a page each, every other page: the last row is wild. */
static void rows_refuse_wild_memory(void **state)
{
    struct block b = block_create(CHUNK);
    aclrtStream stream = make_stream();
    size_t size = 3 * 4096 + SIZE;

    assert_acl_ok(aclrtMemset(b.va, b.size, 0x22, b.size));
    for (enum wild wild = 0; wild < N_WILD; wild++) {
        char *p = wild_make(wild, size);

        assert_refused(
            aclrtMemcpy2d(p + 4096, 8192, b.va, 4096, 4096, 3, ACL_MEMCPY_DEVICE_TO_HOST),
            BAD, words[wild]);
        assert_refused(aclrtMemcpy2dAsync(p + 4096, 8192, b.va, 4096, 4096, 3,
                                          ACL_MEMCPY_DEVICE_TO_HOST, stream),
                       BAD, words[wild]);
        if (is_bad_source(wild))
            assert_refused(aclrtMemcpy2d(b.va, 4096, p + 4096, 8192, 4096, 3,
                                         ACL_MEMCPY_HOST_TO_DEVICE),
                           BAD, words[wild]);
        wild_drop(wild, p, size);
    }
    assert_all_bytes(b.va, b.size, 0x22);
    assert_acl_ok(aclrtDestroyStream(stream));
    block_destroy(&b);
}

/* The second of two copies is wild. */
static void a_batch_refuses_wild_memory(void **state)
{
    struct block b = block_create(CHUNK);
    uint8_t good[64];
    aclrtMemcpyBatchAttr attr;
    size_t sizes[2] = {sizeof(good), SIZE};
    size_t first = 0;

    assert_acl_ok(aclrtMemset(b.va, b.size, 0x22, b.size));
    memset(&attr, 0, sizeof(attr));
    attr.dstLoc.type = ACL_MEM_LOCATION_TYPE_DEVICE;
    attr.srcLoc.type = ACL_MEM_LOCATION_TYPE_HOST;
    memset(good, 0x44, sizeof(good));
    for (enum wild wild = 0; wild < N_WILD; wild++) {
        char *p = wild_make(wild, SIZE);
        void *dsts[2] = {b.va, b.va + SIZE};
        void *srcs[2] = {good, p};
        size_t fail = 77;

        if (is_bad_source(wild)) {
            assert_refused(
                aclrtMemcpyBatch(dsts, sizes, srcs, sizes, 2, &attr, &first, 1, &fail),
                BAD, words[wild]);
            assert_int_equal(fail, 1);
        }
        wild_drop(wild, p, SIZE);
    }
    assert_all_bytes(b.va, b.size, 0x22);
    block_destroy(&b);
}

int main(void)
{
    const struct CMUnitTest claims[] = {
        claim_both(a_copy_refuses_wild_memory),
        claim_both(memory_that_may_only_be_read_is_a_source),
        claim_both(good_memory_in_several_mappings_is_taken),
        claim(a_copy_on_a_stream_refuses_wild_memory),
        claim(a_fill_refuses_wild_memory),
        claim_both(rows_refuse_wild_memory),
        claim_both(a_batch_refuses_wild_memory),
    };

    return run_claims(claims);
}
