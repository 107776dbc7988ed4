/*
 * aclrtMalloc and its relatives: what a block is, what is refused, and what memory there
 * is.
 */
#include "support/blocks.h"
#include "support/vmm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static size_t round_up(size_t size)
{
    return (size + 31) / 32 * 32;
}

/* ---- what a block is ---- */

static void a_block_is_device_memory_of_the_current_device(void **state)
{
    uint32_t is_device = 0;
    void *list[1];

    for (size_t i = 0; i < N_BLOCK_SIZES; i++) {
        char *p = device_malloc(block_sizes[i]);
        void *inside = p + block_sizes[i] - 1;

        assert_int_equal((uintptr_t)p % 64, 0);
        assert_int_equal(location_type(p), ACL_MEM_LOCATION_TYPE_DEVICE);
        assert_int_equal(location_type(inside), ACL_MEM_LOCATION_TYPE_DEVICE);
        assert_int_equal(location_id(p), 0);
        assert_ptr_equal(block_start(inside), p);
        assert_int_equal(stats().blocks, 1);
        list[0] = inside;
        assert_acl_ok(aclrtCheckMemType(list, 1, ACL_RT_MEM_TYPE_DEV, &is_device, 0));
        assert_int_equal(is_device, 1);
        assert_acl_ok(aclrtCheckMemType(list, 1, ACL_RT_MEM_TYPE_RSVD, &is_device, 0));
        assert_int_equal(is_device, 0);
        device_free(p);
        assert_int_equal(location_type(p), ACL_MEM_LOCATION_TYPE_UNREGISTERED);
        assert_int_equal(stats().blocks, 0);
    }
}

/* The next block starts at a multiple of its class; what lies between is nobody's. */
static void behind_a_block_is_nothing(void **state)
{
    size_t size = rules_are_strict() ? 1030 : 1056;
    void *p = NULL;
    void *list[1];
    uint32_t is_device = 1;

    assert_acl_ok(aclrtMallocAlign32(&p, 1030, ACL_MEM_MALLOC_HUGE_FIRST));
    assert_int_equal(location_type((char *)p + size - 1), ACL_MEM_LOCATION_TYPE_DEVICE);
    list[0] = (char *)p + size;
    assert_int_equal(location_type(list[0]), ACL_MEM_LOCATION_TYPE_UNREGISTERED);
    assert_acl_ok(aclrtCheckMemType(list, 1, ACL_RT_MEM_TYPE_DEV, &is_device, 0));
    assert_int_equal(is_device, 0);
    assert_acl(aclrtMemGetAddressRange(list[0], &p, NULL), ACL_ERROR_RT_PARAM_INVALID);
    device_free(p); /* a refused call leaves its result alone */
}

static void a_block_is_on_the_device_that_was_set(void **state)
{
    char *first = device_malloc(100);
    char *second;

    assert_acl_ok(aclrtSetDevice(1));
    second = device_malloc(100);
    assert_int_equal(location_id(first), 0);
    assert_int_equal(location_id(second), 1);
    device_free(first); /* of a device that is not the current one */
    device_free(second);
    assert_acl_ok(aclrtResetDevice(1));
    assert_acl_ok(aclrtSetDevice(0));
}

static void a_block_has_32_bytes_more_than_asked_for_rounded_up(void **state)
{
    for (size_t i = 0; i < N_BLOCK_SIZES; i++) {
        void *aligned = NULL;
        char *p = device_malloc(block_sizes[i]);

        assert_int_equal(block_size(p), round_up(block_sizes[i]) + 32);
        assert_acl_ok(
            aclrtMallocAlign32(&aligned, block_sizes[i], ACL_MEM_MALLOC_HUGE_FIRST));
        assert_int_equal((uintptr_t)aligned % 64, 0);
        assert_int_equal(block_size(aligned), round_up(block_sizes[i]));
        device_free(p);
        device_free(aligned);
    }
}

static void a_block_has_the_bytes_that_were_asked_for(void **state)
{
    for (size_t i = 0; i < N_BLOCK_SIZES; i++) {
        void *aligned = NULL;
        char *p = device_malloc(block_sizes[i]);

        assert_int_equal(block_size(p), block_sizes[i]);
        assert_acl_ok(
            aclrtMallocAlign32(&aligned, block_sizes[i], ACL_MEM_MALLOC_HUGE_FIRST));
        assert_int_equal(block_size(aligned), block_sizes[i]);
        device_free(p);
        device_free(aligned);
    }
}

/* To the byte: the last one that may be used, and the first one that may not. */
static void the_bound_of_a_block_is_that_of_the_rules(void **state)
{
    char *bytes = calloc(1, 65 * MIB);

    for (size_t i = 0; i < N_BLOCK_SIZES; i++) {
        size_t asked = block_sizes[i];
        size_t most = rules_are_strict() ? asked : round_up(asked) + 32;
        char words[64];
        char *p = device_malloc(asked);

        assert_true(most < 65 * MIB);
        snprintf(words, sizeof words, "past the end of the block of %zu bytes", asked);
        assert_acl_ok(copy(p, bytes, most, ACL_MEMCPY_HOST_TO_DEVICE));
        assert_acl_ok(copy(p + most - 1, bytes, 1, ACL_MEMCPY_HOST_TO_DEVICE));
        assert_refused(copy(p, bytes, most + 1, ACL_MEMCPY_HOST_TO_DEVICE),
                       ACL_ERROR_RT_PARAM_INVALID, words);
        assert_true((strstr(kept_message(), "(ACLMEM_RULES=strict)") != NULL) ==
                    rules_are_strict());
        assert_refused(copy(p + most - 1, bytes, 2, ACL_MEMCPY_HOST_TO_DEVICE),
                       ACL_ERROR_RT_PARAM_INVALID, words);
        assert_refused(aclrtMemset(p, most + 1, 0, most + 1), ACL_ERROR_RT_PARAM_INVALID,
                       words);
        device_free(p);
    }
    free(bytes);
}

static void messages_name_the_size_that_was_asked_for(void **state)
{
    size_t total = total_memory();
    char words[64];
    char *p = device_malloc(1000);
    void *more = NULL;

    assert_refused(aclrtFree(p + 1001), ACL_ERROR_RT_PARAM_INVALID,
                   "inside the block of 1000 bytes");
    device_free(p);
    snprintf(words, sizeof words, "Failed to allocate %zu bytes on device 0, which take ",
             total - 1);
    assert_refused(aclrtMalloc(&more, total - 1, ACL_MEM_MALLOC_HUGE_FIRST),
                   ACL_ERROR_RT_MEMORY_ALLOCATION, words);
}

static void ascend_950_rounds_and_adds_nothing(void **state)
{
    char *p;

    start("default", "ACLMEM_PRODUCT=950");
    assert_acl_ok(aclrtSetDevice(0));
    p = device_malloc(100);
    assert_int_equal(block_size(p), 128);
    device_free(p);
}

static void two_megabytes_with_padding_take_two_chunks(void **state)
{
    size_t before = free_memory();
    void *aligned = NULL;
    char *p = device_malloc(2 * MIB);

    assert_int_equal(before - free_memory(), 2 * CHUNK);
    assert_acl_ok(aclrtMallocAlign32(&aligned, 2 * MIB, ACL_MEM_MALLOC_HUGE_FIRST));
    assert_int_equal(before - free_memory(), 3 * CHUNK);
    device_free(p);
    device_free(aligned);
    assert_int_equal(before, free_memory());
}

static void blocks_do_not_overlap(void **state)
{
    char *p[N_BLOCK_SIZES];

    for (size_t i = 0; i < N_BLOCK_SIZES; i++)
        p[i] = device_malloc(block_sizes[i]);
    for (size_t i = 0; i < N_BLOCK_SIZES; i++)
        put_pattern(p[i], block_sizes[i], i);
    for (size_t i = 0; i < N_BLOCK_SIZES; i++)
        assert_pattern(p[i], block_sizes[i], i);
    for (size_t i = 0; i < N_BLOCK_SIZES; i++)
        device_free(p[i]);
}

static void a_block_can_be_filled_and_copied_on_the_device(void **state)
{
    char *from = device_malloc(100 * KIB);
    char *to = device_malloc(3 * MIB);

    assert_acl_ok(aclrtMemset(to, 3 * MIB, 0x11, 3 * MIB));
    put_pattern(from, 100 * KIB, 5);
    assert_acl_ok(copy(to + 70001, from, 100 * KIB, ACL_MEMCPY_DEVICE_TO_DEVICE));
    assert_pattern(to + 70001, 100 * KIB, 5);
    assert_all_bytes(to, 70001, 0x11);
    assert_all_bytes(to + 70001 + 100 * KIB, 3 * MIB - 70001 - 100 * KIB, 0x11);
    device_free(from);
    device_free(to);
}

/* ---- arguments ---- */

static void wrong_arguments_are_refused(void **state)
{
    void *p = (void *)0x77;

    assert_bad_arg(aclrtMalloc(NULL, 1, ACL_MEM_MALLOC_HUGE_FIRST), "devPtr is NULL");
    assert_bad_arg(aclrtMalloc(&p, 0, ACL_MEM_MALLOC_HUGE_FIRST), "size is 0");
    assert_bad_arg(aclrtMallocAlign32(NULL, 1, ACL_MEM_MALLOC_HUGE_FIRST),
                   "devPtr is NULL");
    assert_bad_arg(aclrtMallocAlign32(&p, 0, ACL_MEM_MALLOC_HUGE_FIRST), "size is 0");
    assert_bad_arg(aclrtMallocCached(NULL, 1, ACL_MEM_MALLOC_HUGE_FIRST),
                   "devPtr is NULL");
    assert_bad_arg(aclrtMallocCached(&p, 0, ACL_MEM_MALLOC_HUGE_FIRST), "size is 0");
    assert_bad_arg(aclrtMallocWithCfg(NULL, 1, ACL_MEM_MALLOC_HUGE_FIRST, NULL),
                   "devPtr is NULL");
    assert_bad_arg(aclrtMallocWithCfg(&p, 0, ACL_MEM_MALLOC_HUGE_FIRST, NULL),
                   "size is 0");
    assert_ptr_equal(p, (void *)0x77);
}

/* The same once the thread has lists of its own, where a shorter way is taken. */
static void the_same_is_refused_after_the_first_block(void **state)
{
    device_free(device_malloc(64));
    wrong_arguments_are_refused(state);
}

static void policies_decide_the_page_size(void **state)
{
    static const struct {
        aclrtMemMallocPolicy policy;
        size_t size;
        uint32_t page;
    } rows[] = {
        {ACL_MEM_MALLOC_HUGE_FIRST, 1000, 4096},
        {ACL_MEM_MALLOC_HUGE_FIRST, MIB, 4096},
        {ACL_MEM_MALLOC_HUGE_FIRST, MIB + 1, 2 * MIB},
        {ACL_MEM_MALLOC_HUGE_ONLY, 1000, 2 * MIB},
        {ACL_MEM_MALLOC_HUGE_ONLY, 5 * MIB, 2 * MIB},
        {ACL_MEM_MALLOC_NORMAL_ONLY, 1000, 4096},
        {ACL_MEM_MALLOC_NORMAL_ONLY, 5 * MIB, 4096},
        {ACL_MEM_MALLOC_HUGE_FIRST_P2P, MIB + 1, 2 * MIB},
        {ACL_MEM_MALLOC_HUGE_ONLY_P2P, 1000, 2 * MIB},
        {ACL_MEM_MALLOC_NORMAL_ONLY_P2P, 5 * MIB, 4096},
        {(aclrtMemMallocPolicy)8, 2 * MIB - 1, 4096}, /* out of range is not an error */
        {(aclrtMemMallocPolicy)8, 2 * MIB, 2 * MIB},
        {(aclrtMemMallocPolicy)0x7fffffff, 1000, 4096},
        {(aclrtMemMallocPolicy)-1, 1000, 4096},
        {ACL_MEM_TYPE_HIGH_BAND_WIDTH, 2 * MIB, 2 * MIB},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        for (int again = 0; again < 2;
             again++) { /* from the run, then from the thread's list */
            void *p = NULL;

            assert_acl_ok(aclrtMalloc(&p, rows[i].size, rows[i].policy));
            assert_int_equal(page_size(p), rows[i].page);
            device_free(p);
        }
    }
}

static void pages_of_1_gb_come_in_whole_gigabytes(void **state)
{
    void *p = NULL;
    size_t before;

    start("default", "ACLMEM_MEMORY=5G");
    assert_acl_ok(aclrtSetDevice(0));
    before = free_memory();
    assert_acl_ok(aclrtMalloc(&p, 100, ACL_MEM_MALLOC_HUGE1G_ONLY));
    assert_int_equal((uintptr_t)p % GIB, 0);
    assert_int_equal(page_size(p), GIB);
    assert_int_equal(block_size(p), 128); /* no padding */
    assert_int_equal(before - free_memory(), GIB);
    device_free(p);
    assert_acl_ok(aclrtMalloc(&p, GIB + 1, ACL_MEM_MALLOC_HUGE1G_ONLY_P2P));
    assert_int_equal((uintptr_t)p % GIB, 0);
    assert_int_equal(before - free_memory(), 2 * GIB);
    put_pattern((char *)p + GIB - 1000, 1001, 3);
    assert_pattern((char *)p + GIB - 1000, 1001, 3);
    device_free(p);
    assert_int_equal(before, free_memory());
}

static void strict_knows_the_policies_of_8_0_only(void **state)
{
    void *p = NULL;

    assert_bad_arg(aclrtMalloc(&p, 1, ACL_MEM_MALLOC_HUGE1G_ONLY), "strict");
}

static void products_lack_policies(void **state)
{
    void *p = NULL;

    start("default", "ACLMEM_PRODUCT=310B");
    assert_acl_ok(aclrtSetDevice(0));
    assert_refused(aclrtMalloc(&p, 1, ACL_MEM_MALLOC_HUGE_FIRST_P2P),
                   ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "P2P");
    assert_refused(aclrtMalloc(&p, 1, ACL_MEM_MALLOC_HUGE1G_ONLY),
                   ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "1 GB");
    assert_acl_ok(aclFinalize());
    start("default", "ACLMEM_PRODUCT=310P");
    assert_acl_ok(aclrtSetDevice(0));
    assert_acl_ok(aclrtMalloc(&p, 1, ACL_MEM_MALLOC_HUGE_FIRST_P2P));
    device_free(p);
    assert_refused(aclrtMalloc(&p, 1, ACL_MEM_MALLOC_HUGE1G_ONLY),
                   ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "1 GB");
}

static void cached_takes_four_policies(void **state)
{
    void *p = NULL;

    for (int policy = -1; policy <= 8; policy++) {
        bool is_taken = policy == 0 || policy == 1 || policy == 2;

        if (policy == ACL_MEM_MALLOC_HUGE1G_ONLY)
            continue; /* below */
        if (is_taken) {
            assert_acl_ok(aclrtMallocCached(&p, 100, (aclrtMemMallocPolicy)policy));
            assert_int_equal(block_size(p), rules_are_strict() ? 100 : 160);
            device_free(p);
        } else {
            assert_bad_arg(aclrtMallocCached(&p, 100, (aclrtMemMallocPolicy)policy),
                           "policy");
        }
    }
}

static void cached_takes_pages_of_1_gb(void **state)
{
    void *p = NULL;

    assert_acl_ok(aclrtMallocCached(&p, 100, ACL_MEM_MALLOC_HUGE1G_ONLY));
    assert_int_equal(page_size(p), GIB);
    device_free(p);
}

/* ---- configurations ---- */

static void a_configuration_may_join_three_groups(void **state)
{
    static const unsigned taken[] = {
        0, 0x100, 0x1000, 0x100000, 0x101002, 0x100101, 5 | 0x1000 | 0x100000,
    };
    static const unsigned refused[] = {
        8, 0x1100, 0x101100, 0x200, 0x10000000, 0x108, 0xffffffff,
    };
    void *p = NULL;

    for (size_t i = 0; i < sizeof(taken) / sizeof(taken[0]); i++) {
        assert_acl_ok(aclrtMallocWithCfg(&p, 100, (aclrtMemMallocPolicy)taken[i], NULL));
        assert_int_equal(block_size(p), rules_are_strict() ? 100 : 160);
        device_free(p);
        assert_acl_ok(
            aclrtMallocForTaskScheduler(&p, 100, (aclrtMemMallocPolicy)taken[i], NULL));
        device_free(p);
    }
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++)
        assert_bad_arg(
            aclrtMallocWithCfg(&p, 100, (aclrtMemMallocPolicy)refused[i], NULL),
            "policy");
}

static aclError malloc_with(aclrtMallocAttribute *attrs, size_t n, void **p)
{
    aclrtMallocConfig cfg = {.attrs = attrs, .numAttrs = n};

    return aclrtMallocWithCfg(p, 100, ACL_MEM_MALLOC_HUGE_FIRST, &cfg);
}

static void attributes_are_looked_at(void **state)
{
    aclrtMallocAttribute device = {ACL_RT_MEM_ATTR_DEVICE_ID, {.deviceId = 0}};
    aclrtMallocAttribute module = {ACL_RT_MEM_ATTR_MODULE_ID, {.moduleId = 33}};
    aclrtMallocAttribute flag = {ACL_RT_MEM_ATTR_VA_FLAG, {.vaFlag = 1}};
    aclrtMallocAttribute none = {ACL_RT_MEM_ATTR_RSV, {.moduleId = 0}};
    aclrtMallocAttribute both[2] = {module, device};
    void *p = NULL;

    assert_acl_ok(malloc_with(NULL, 0, &p));
    device_free(p);
    assert_acl_ok(malloc_with(both, 2, &p));
    device_free(p);
    assert_bad_arg(malloc_with(NULL, 1, &p), "attrs is NULL");
    assert_bad_arg(malloc_with(&none, 1, &p), "type 0");
    assert_bad_arg(malloc_with(&flag, 1, &p), "VA_FLAG");
    device.value.deviceId = 1;
    assert_refused(malloc_with(&device, 1, &p), ACL_ERROR_RT_PARAM_INVALID, "DEVICE_ID");
    module.value.moduleId = 128;
    assert_bad_arg(malloc_with(&module, 1, &p), "MODULE_ID");
}

/* As many attributes as a page holds, with a page behind them that cannot be read. */
static void more_attributes_than_there_are_types_are_not_read(void **state)
{
    enum { PAGE = 4096, N = PAGE / sizeof(aclrtMallocAttribute) };
    aclrtMallocAttribute *attrs =
        mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    aclrtMallocConfig cfg = {.attrs = attrs, .numAttrs = SIZE_MAX};
    void *p = NULL;

    assert_true(attrs != MAP_FAILED);
    for (size_t i = 0; i < N; i++)
        attrs[i] = (aclrtMallocAttribute){ACL_RT_MEM_ATTR_DEVICE_ID, {.deviceId = 0}};
    assert_int_equal(mprotect((char *)attrs + PAGE, PAGE, PROT_NONE), 0);
    assert_bad_arg(malloc_with(attrs, SIZE_MAX, &p), "numAttrs");
    assert_bad_arg(malloc_with(attrs, 4, &p), "numAttrs is 4; there are 3 types");
    assert_bad_arg(aclrtMallocForTaskScheduler(&p, 100, ACL_MEM_MALLOC_HUGE_FIRST, &cfg),
                   "numAttrs");
    assert_bad_arg(aclrtMallocHostWithCfg(&p, 100, &cfg), "numAttrs");
    assert_acl_ok(malloc_with(attrs, 3, &p));
    device_free(p);
    munmap(attrs, 2 * PAGE);
}

/* ---- no device ---- */

static void without_a_device_there_is_no_memory(void **state)
{
    void *p = NULL;

    start("default");
    assert_acl(aclrtMalloc(&p, 1, ACL_MEM_MALLOC_HUGE_FIRST), ACL_ERROR_RT_CONTEXT_NULL);
    assert_acl(aclrtMallocAlign32(&p, 1, ACL_MEM_MALLOC_HUGE_FIRST),
               ACL_ERROR_RT_CONTEXT_NULL);
    assert_acl(aclrtMallocCached(&p, 1, ACL_MEM_MALLOC_HUGE_FIRST),
               ACL_ERROR_RT_CONTEXT_NULL);
    assert_acl(aclrtMallocWithCfg(&p, 1, ACL_MEM_MALLOC_HUGE_FIRST, NULL),
               ACL_ERROR_RT_CONTEXT_NULL);
    assert_acl_ok(aclrtSetDevice(0));
    device_free(device_malloc(1));
    assert_acl_ok(aclrtResetDevice(0));
    assert_acl(aclrtMalloc(&p, 1, ACL_MEM_MALLOC_HUGE_FIRST), ACL_ERROR_RT_CONTEXT_NULL);
}

static void without_a_context_there_is_no_memory(void **state)
{
    aclrtContext context = NULL;
    void *p = NULL;

    assert_acl_ok(aclrtCreateContext(&context, 0));
    device_free(device_malloc(100));
    device_free(device_malloc(100)); /* from the thread's list */
    assert_acl_ok(aclrtDestroyContext(context));
    assert_acl(aclrtMalloc(&p, 100, ACL_MEM_MALLOC_HUGE_FIRST),
               ACL_ERROR_RT_CONTEXT_NULL);
    assert_acl_ok(aclrtSetDevice(0));
    device_free(device_malloc(100));
    assert_acl_ok(aclrtResetDevice(0));
}

/* ---- freeing what cannot be freed ---- */

static void only_the_start_of_a_live_block_can_be_freed(void **state)
{
    int here = 0;

    for (size_t i = 0; i < N_BLOCK_SIZES; i++) {
        char *p = device_malloc(block_sizes[i]);

        assert_refused(aclrtFree(p + 1), ACL_ERROR_RT_PARAM_INVALID, "inside the block");
        assert_message_has_address(p);
        assert_refused(aclrtFree(p + block_sizes[i] - 1 + (block_sizes[i] == 1)),
                       ACL_ERROR_RT_PARAM_INVALID, "inside the block");
        assert_refused(aclrtFreeHost(p), ACL_ERROR_RT_PARAM_INVALID, "is device memory");
        device_free(p);
        assert_refused(aclrtFree(p), ACL_ERROR_RT_PARAM_INVALID, "already freed");
        assert_refused(aclrtFree(p), ACL_ERROR_RT_PARAM_INVALID, "already freed");
    }
    assert_refused(aclrtFree(NULL), ACL_ERROR_RT_PARAM_INVALID, "devPtr is NULL");
    assert_refused(aclrtFree(&here), ACL_ERROR_RT_PARAM_INVALID,
                   "not memory of aclrtMalloc");
    assert_refused(aclrtFree((void *)UINTPTR_MAX), ACL_ERROR_RT_PARAM_INVALID,
                   "not memory");
    assert_refused(aclrtFree((void *)1), ACL_ERROR_RT_PARAM_INVALID, "not memory");
}

static void mapped_memory_is_not_freed(void **state)
{
    struct block b = block_create(2 * CHUNK);

    assert_refused(aclrtFree(b.va), ACL_ERROR_RT_PARAM_INVALID, "aclrtMapMem");
    assert_refused(aclrtFree(b.va + CHUNK), ACL_ERROR_RT_PARAM_INVALID, "aclrtMapMem");
    assert_refused(aclrtFreeWithDevSync(b.va), ACL_ERROR_RT_PARAM_INVALID, "aclrtMapMem");
    block_destroy(&b);
}

static void a_block_is_no_virtual_memory(void **state)
{
    aclrtDrvMemHandle handle = alloc(CHUNK);
    size_t all[] = {512, 5 * MIB};

    for (size_t i = 0; i < 2; i++) {
        char *p = device_malloc(all[i]);
        char *chunk = (char *)((uintptr_t)p / CHUNK * CHUNK);
        aclrtDrvMemHandle got = NULL;

        assert_refused(aclrtReleaseMemAddress(p), ACL_ERROR_RT_PARAM_INVALID,
                       "aclrtMalloc");
        assert_refused(aclrtReleaseMemAddress(chunk), ACL_ERROR_RT_PARAM_INVALID,
                       "aclrtMalloc");
        assert_refused(aclrtUnmapMem(p), ACL_ERROR_RT_PARAM_INVALID, "aclrtMalloc");
        assert_refused(aclrtUnmapMem(chunk), ACL_ERROR_RT_PARAM_INVALID, "aclrtMalloc");
        assert_refused(aclrtMapMem(chunk, CHUNK, 0, handle, 0),
                       ACL_ERROR_RT_PARAM_INVALID, "aclrtMalloc|already mapped");
        assert_refused(aclrtMemRetainAllocationHandle(p, &got),
                       ACL_ERROR_RT_PARAM_INVALID, "aclrtMalloc");
        assert_refused(set_access(chunk, CHUNK, ACL_MEM_LOCATION_TYPE_DEVICE, 0,
                                  ACL_RT_MEM_ACCESS_FLAGS_READWRITE),
                       ACL_ERROR_RT_PARAM_INVALID, "aclrtMalloc");
        device_free(p);
        assert_refused(aclrtReleaseMemAddress(chunk), ACL_ERROR_RT_PARAM_INVALID,
                       "aclrtMalloc");
        assert_refused(aclrtMapMem(chunk, CHUNK, 0, handle, 0),
                       ACL_ERROR_RT_PARAM_INVALID, "aclrtMalloc|already mapped");
    }
    assert_acl_ok(aclrtFreePhysical(handle));
    assert_int_equal(stats().reservations, 0);
    assert_int_equal(stats().mappings, 0);
    assert_int_equal(stats().handles, 0);
}

static void free_with_device_synchronisation_frees(void **state)
{
    char *p = device_malloc(100);
    char *q = device_malloc(3 * MIB);

    assert_acl_ok(aclrtFreeWithDevSync(p));
    assert_acl_ok(aclrtFreeWithDevSync(q));
    assert_refused(aclrtFreeWithDevSync(p), ACL_ERROR_RT_PARAM_INVALID, "already freed");
    assert_refused(aclrtFreeWithDevSync(q), ACL_ERROR_RT_PARAM_INVALID, "already freed");
    assert_refused(aclrtFreeWithDevSync(NULL), ACL_ERROR_RT_PARAM_INVALID,
                   "devPtr is NULL");
}

/* ---- bounds ---- */

static void a_copy_stays_inside_its_block(void **state)
{
    static char bytes[40 * MIB];

    for (size_t i = 0; i < N_BLOCK_SIZES; i++) {
        char *p = device_malloc(block_sizes[i]);
        size_t size = block_size(p);

        assert_acl_ok(copy(p, bytes, size, ACL_MEMCPY_HOST_TO_DEVICE));
        assert_refused(copy(p, bytes, size + 1, ACL_MEMCPY_HOST_TO_DEVICE),
                       ACL_ERROR_RT_PARAM_INVALID, "past the end of the block");
        assert_message_has_address(p);
        assert_refused(copy(bytes, p + 1, size, ACL_MEMCPY_DEVICE_TO_HOST),
                       ACL_ERROR_RT_PARAM_INVALID, "past the end of the block");
        assert_refused(copy(bytes, p + size - 1, 2, ACL_MEMCPY_DEVICE_TO_HOST),
                       ACL_ERROR_RT_PARAM_INVALID, "past the end of the block");
        assert_refused(aclrtMemset(p, size + 1, 0, size + 1), ACL_ERROR_RT_PARAM_INVALID,
                       "past the end of the block");
        assert_acl_ok(aclrtMemset(p + size - 1, 1, 0, 1));
        device_free(p);
    }
}

static void a_freed_block_cannot_be_copied(void **state)
{
    char bytes[64] = {0};

    for (size_t i = 0; i < N_BLOCK_SIZES; i++) {
        char *p = device_malloc(block_sizes[i]);

        device_free(p);
        assert_refused(copy(p, bytes, 1, ACL_MEMCPY_HOST_TO_DEVICE),
                       ACL_ERROR_RT_PARAM_INVALID, "freed");
        assert_refused(copy(bytes, p, 1, ACL_MEMCPY_DEVICE_TO_HOST),
                       ACL_ERROR_RT_PARAM_INVALID, "freed");
        assert_refused(aclrtMemset(p, 1, 0, 1), ACL_ERROR_RT_PARAM_INVALID, "freed");
        assert_acl(aclrtMemGetAddressRange(p, (void **)bytes, NULL),
                   ACL_ERROR_RT_PARAM_INVALID);
    }
}

static void a_copy_from_the_programs_memory_does_not_run_into_a_block(void **state)
{
    char *p = device_malloc(5 * MIB);
    char *before = (char *)((uintptr_t)p / CHUNK * CHUNK) - 8;
    char bytes[64];

    /* Whatever lies before the first chunk of the block is not part of it. */
    assert_acl(copy(bytes, before, 16, ACL_MEMCPY_DEVICE_TO_HOST),
               ACL_ERROR_RT_PARAM_INVALID);
    device_free(p);
}

/* Which addresses a GPU's driver gives is its own choice. */
static bool before_is_given(char *p, void **ret_va)
{
    const char *backend = getenv("ACLMEM_BACKEND");
    aclError rc = aclrtReserveMemAddress(ret_va, CHUNK, 0, p - CHUNK, 1);

    if (backend == NULL || strcasecmp(backend, "cuda") != 0)
        assert_acl_ok(rc);
    return rc == ACL_SUCCESS;
}

/* Mapped memory may lie right before a block, but one copy does not take both. */
static void a_copy_does_not_run_from_mapped_memory_into_a_block(void **state)
{
    char *p = device_malloc(5 * MIB);
    aclrtDrvMemHandle handle = alloc(CHUNK);
    char bytes[32] = {0};
    void *va = NULL;

    if (!is_free_range((uintptr_t)p - CHUNK, CHUNK) || !before_is_given(p, &va)) {
        print_message("skipped: the addresses before the block are not to be had\n");
        device_free(p);
        assert_acl_ok(aclrtFreePhysical(handle));
        skip();
    }
    map(va, CHUNK, handle);
    assert_acl_ok(copy(p - 16, bytes, 16, ACL_MEMCPY_HOST_TO_DEVICE));
    assert_acl_ok(copy(p, bytes, 16, ACL_MEMCPY_HOST_TO_DEVICE));
    assert_refused(copy(p - 16, bytes, 32, ACL_MEMCPY_HOST_TO_DEVICE),
                   ACL_ERROR_RT_PARAM_INVALID, "memory of another kind");
    assert_acl_ok(aclrtUnmapMem(va));
    assert_acl_ok(aclrtFreePhysical(handle));
    assert_acl_ok(aclrtReleaseMemAddress(va));
    device_free(p);
}

static void flush_and_invalidate_look_at_the_range(void **state)
{
    size_t most = rules_are_strict() ? 100 : 160;
    char *p = device_malloc(100);
    char *host = host_malloc(100);
    char here[16];

    assert_acl_ok(aclrtMemFlush(p, most));
    assert_acl_ok(aclrtMemInvalidate(p + 1, most - 1));
    assert_bad_arg(aclrtMemFlush(NULL, 1), "devPtr is NULL");
    assert_bad_arg(aclrtMemFlush(p, 0), "size is 0");
    assert_bad_arg(aclrtMemInvalidate(NULL, 1), "devPtr is NULL");
    assert_bad_arg(aclrtMemInvalidate(p, 0), "size is 0");
    assert_refused(aclrtMemFlush(p, most + 1), ACL_ERROR_RT_PARAM_INVALID,
                   "past the end");
    assert_refused(aclrtMemInvalidate(p, most + 1), ACL_ERROR_RT_PARAM_INVALID,
                   "past the end");
    assert_refused(aclrtMemFlush(here, 1), ACL_ERROR_RT_PARAM_INVALID,
                   "not device memory");
    assert_refused(aclrtMemFlush(host, 1), ACL_ERROR_RT_PARAM_INVALID,
                   "not device memory");
    device_free(p);
    host_free(host);
}

static void blocks_work_where_memory_is_taken_at_once(void **state)
{
    start("default", "ACLMEM_COMMIT=now");
    assert_acl_ok(aclrtSetDevice(0));
    blocks_do_not_overlap(state);
}

int main(void)
{
    const struct CMUnitTest claims[] = {
        claim_blocks_both(a_block_is_device_memory_of_the_current_device),
        claim_blocks_both(behind_a_block_is_nothing),
        claim_blocks_both(a_block_is_on_the_device_that_was_set),
        claim_blocks(a_block_has_32_bytes_more_than_asked_for_rounded_up),
        claim_blocks_strict(a_block_has_the_bytes_that_were_asked_for),
        claim_blocks_both(the_bound_of_a_block_is_that_of_the_rules),
        claim_blocks_both(messages_name_the_size_that_was_asked_for),
        claim_blocks_alone(ascend_950_rounds_and_adds_nothing),
        claim_blocks_both(two_megabytes_with_padding_take_two_chunks),
        claim_blocks_both(blocks_do_not_overlap),
        claim_blocks_alone(blocks_work_where_memory_is_taken_at_once),
        claim_blocks_both(a_block_can_be_filled_and_copied_on_the_device),
        claim_blocks_both(wrong_arguments_are_refused),
        claim_blocks_both(the_same_is_refused_after_the_first_block),
        claim_blocks_both(policies_decide_the_page_size),
        claim_blocks_alone(pages_of_1_gb_come_in_whole_gigabytes),
        claim_blocks_strict(strict_knows_the_policies_of_8_0_only),
        claim_blocks_alone(products_lack_policies),
        claim_blocks_both(cached_takes_four_policies),
        claim_blocks(cached_takes_pages_of_1_gb),
        claim_blocks_both(a_configuration_may_join_three_groups),
        claim_blocks_both(attributes_are_looked_at),
        claim_blocks_both(more_attributes_than_there_are_types_are_not_read),
        claim_blocks_alone(without_a_device_there_is_no_memory),
        claim_blocks_both(without_a_context_there_is_no_memory),
        claim_blocks_both(only_the_start_of_a_live_block_can_be_freed),
        claim_blocks_both(mapped_memory_is_not_freed),
        claim_blocks_both(a_block_is_no_virtual_memory),
        claim_blocks_both(free_with_device_synchronisation_frees),
        claim_blocks_both(a_copy_stays_inside_its_block),
        claim_blocks_both(a_freed_block_cannot_be_copied),
        claim_blocks(a_copy_from_the_programs_memory_does_not_run_into_a_block),
        claim_blocks(a_copy_does_not_run_from_mapped_memory_into_a_block),
        claim_blocks_both(flush_and_invalidate_look_at_the_range),
    };

    return run_claims(claims);
}
