/* aclrtMallocHost and its relatives: pinned memory of the program's own. */
#include "support/blocks.h"
#include "support/process.h"
#include "support/vmm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

static const size_t sizes[] = {
    1,        31,           32,          63,        64,        65,        100,
    512,      1000,         1024,        4095,      4096,      4097,      5000,
    32 * KIB, 32 * KIB + 1, 64 * KIB,    100 * KIB, 333 * KIB, 512 * KIB, MIB,
    MIB + 1,  2 * MIB,      2 * MIB + 1, 5 * MIB,   16 * MIB,
};
enum { N_SIZES = sizeof(sizes) / sizeof(sizes[0]) };

/* Bytes of this process that are locked, as the kernel counts them. */
static size_t locked_bytes(void)
{
    FILE *status = fopen("/proc/self/status", "re");
    size_t kib = 0;
    char line[256];

    assert_non_null(status);
    while (fgets(line, sizeof(line), status) != NULL)
        sscanf(line, "VmLck: %zu kB", &kib);
    fclose(status);
    return kib * KIB;
}

/* Whether `size` bytes can be locked here; sanitizers make locking do nothing. */
static bool can_lock(size_t size)
{
    size_t before = locked_bytes();
    void *p =
        mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    bool is_locked =
        p != MAP_FAILED && mlock(p, size) == 0 && locked_bytes() == before + size;

    if (p != MAP_FAILED)
        munmap(p, size);
    if (!is_locked)
        print_message("skipped: %zu bytes cannot be locked here\n", size);
    return is_locked;
}

static void a_block_is_host_memory_that_the_program_can_use(void **state)
{
    need_locked(64 * MIB);
    for (size_t i = 0; i < N_SIZES; i++) {
        char *p = host_malloc(sizes[i]);

        assert_int_equal((uintptr_t)p % 64, 0);
        fill((uint8_t *)p, sizes[i], i);
        assert_true(is_filled((uint8_t *)p, sizes[i], i));
        assert_int_equal(location_type(p), ACL_MEM_LOCATION_TYPE_HOST);
        assert_int_equal(location_type(p + sizes[i] - 1), ACL_MEM_LOCATION_TYPE_HOST);
        assert_int_equal(location_id(p), 0);
        assert_int_equal(page_size(p), 4096);
        assert_int_equal(block_size(p), sizes[i]);
        assert_ptr_equal(block_start(p + sizes[i] - 1), p);
        assert_int_equal(stats().host_blocks, 1);
        assert_int_equal(stats().blocks, 0);
        host_free(p);
        assert_int_equal(location_type(p), ACL_MEM_LOCATION_TYPE_UNREGISTERED);
        assert_int_equal(stats().host_blocks, 0);
    }
}

/* aclrtHostRegister wants pages, and clients register what they allocated. */
static void a_block_of_a_page_or_more_starts_on_a_page(void **state)
{
    need_locked(64 * MIB);
    for (size_t i = 0; i < N_SIZES; i++) {
        char *first = host_malloc(sizes[i]);
        char *second = host_malloc(sizes[i]);

        if (sizes[i] >= 4096) {
            assert_int_equal((uintptr_t)first % 4096, 0);
            assert_int_equal((uintptr_t)second % 4096, 0);
        }
        host_free(first);
        host_free(second);
    }
}

static void the_memory_is_locked(void **state)
{
    size_t before = locked_bytes();
    char *small;
    char *large;

    if (!can_lock(64 * MIB))
        skip();
    small = host_malloc(100);
    assert_true(locked_bytes() > before);
    large = host_malloc(16 * MIB);
    assert_true(locked_bytes() > before + 16 * MIB);
    host_free(small);
    host_free(large);
    assert_acl_ok(aclFinalize());
    assert_int_equal(locked_bytes(), before);
    assert_acl_ok(aclInit(NULL));
}

/* Every block is locked, whatever was locked before it. */
static void blocks_are_locked_as_they_are_handed_out(void **state)
{
    enum { N = 400 };
    char *p[N];
    size_t before = locked_bytes();

    if (!can_lock(64 * MIB))
        skip();
    for (size_t i = 0; i < N; i++) {
        p[i] = host_malloc(4096);
        assert_true(locked_bytes() >= before + (i + 1) * 4096);
    }
    for (size_t i = 0; i < N; i++)
        host_free(p[i]);
}

/* Lines of /proc/self/maps. */
static size_t n_mappings(void)
{
    FILE *maps = fopen("/proc/self/maps", "re");
    size_t n = 0;

    assert_non_null(maps);
    for (int c; (c = fgetc(maps)) != EOF;)
        n += c == '\n';
    fclose(maps);
    return n;
}

/* Many small blocks are one piece of memory: the process has no more mappings for them. */
static void small_blocks_share_a_mapping(void **state)
{
    enum { N = 400 };
    char *p[N];
    size_t before;

    need_locked(64 * MIB);
    p[0] = host_malloc(4096);
    before = n_mappings();
    for (size_t i = 1; i < N; i++)
        p[i] = host_malloc(4096);
    assert_true(n_mappings() <= before + 1);
    for (size_t i = 0; i < N; i++)
        host_free(p[i]);
}

static void blocks_do_not_overlap(void **state)
{
    char *p[N_SIZES];

    need_locked(64 * MIB);
    for (size_t i = 0; i < N_SIZES; i++) {
        p[i] = host_malloc(sizes[i]);
        fill((uint8_t *)p[i], sizes[i], i);
    }
    for (size_t i = 0; i < N_SIZES; i++)
        assert_true(is_filled((uint8_t *)p[i], sizes[i], i));
    for (size_t i = 0; i < N_SIZES; i++)
        host_free(p[i]);
}

static void copies_go_both_ways(void **state)
{
    need_locked(64 * MIB);
    for (size_t i = 0; i < N_SIZES; i++) {
        char *host = host_malloc(sizes[i]);
        char *device = device_malloc(sizes[i]);
        char *back = host_malloc(sizes[i]);

        fill((uint8_t *)host, sizes[i], i);
        assert_acl_ok(copy(device, host, sizes[i], ACL_MEMCPY_HOST_TO_DEVICE));
        assert_acl_ok(copy(back, device, sizes[i], ACL_MEMCPY_DEVICE_TO_HOST));
        assert_true(is_filled((uint8_t *)back, sizes[i], i));
        assert_acl_ok(copy(back, host, sizes[i], ACL_MEMCPY_HOST_TO_HOST));
        assert_acl_ok(aclrtMemset(back, sizes[i], 0x5a, sizes[i]));
        assert_int_equal(back[sizes[i] - 1], 0x5a);
        host_free(host);
        host_free(back);
        device_free(device);
    }
}

static void a_copy_stays_inside_its_block(void **state)
{
    char *device;

    need_locked(64 * MIB);
    device = device_malloc(32 * MIB);
    for (size_t i = 0; i < N_SIZES; i++) {
        char *p = host_malloc(sizes[i]);

        assert_refused(copy(device, p, sizes[i] + 1, ACL_MEMCPY_HOST_TO_DEVICE),
                       ACL_ERROR_RT_PARAM_INVALID, "past the end of the block");
        assert_message_has_address(p);
        assert_refused(copy(p + 1, device, sizes[i], ACL_MEMCPY_DEVICE_TO_HOST),
                       ACL_ERROR_RT_PARAM_INVALID, "past the end of the block");
        assert_refused(aclrtMemset(p, sizes[i] + 1, 0, sizes[i] + 1),
                       ACL_ERROR_RT_PARAM_INVALID, "past the end of the block");
        host_free(p);
        assert_refused(copy(device, p, 1, ACL_MEMCPY_HOST_TO_DEVICE),
                       ACL_ERROR_RT_PARAM_INVALID, "freed");
    }
    device_free(device);
}

static void wrong_arguments_are_refused(void **state)
{
    void *p = (void *)0x77;

    assert_bad_arg(aclrtMallocHost(NULL, 1), "hostPtr is NULL");
    assert_bad_arg(aclrtMallocHost(&p, 0), "size is 0");
    assert_bad_arg(aclrtMallocHostWithCfg(NULL, 1, NULL), "ptr is NULL");
    assert_bad_arg(aclrtMallocHostWithCfg(&p, 0, NULL), "size is 0");
    assert_ptr_equal(p, (void *)0x77);
}

static void only_the_start_of_a_live_block_can_be_freed(void **state)
{
    int here = 0;

    need_locked(64 * MIB);
    for (size_t i = 0; i < N_SIZES; i++) {
        char *p = host_malloc(sizes[i]);

        if (sizes[i] > 1)
            assert_refused(aclrtFreeHost(p + sizes[i] - 1), ACL_ERROR_RT_PARAM_INVALID,
                           "inside the block");
        assert_refused(aclrtFreeHost(p + 1), ACL_ERROR_RT_PARAM_INVALID,
                       "inside the block");
        assert_refused(aclrtFree(p), ACL_ERROR_RT_PARAM_INVALID, "is host memory");
        host_free(p);
        assert_refused(aclrtFreeHost(p), ACL_ERROR_RT_PARAM_INVALID, "already freed");
        assert_refused(aclrtFreeHostWithDevSync(p), ACL_ERROR_RT_PARAM_INVALID,
                       "already freed");
    }
    assert_refused(aclrtFreeHost(&here), ACL_ERROR_RT_PARAM_INVALID, "not memory of");
    assert_refused(aclrtFreeHostWithDevSync(NULL), ACL_ERROR_RT_PARAM_INVALID,
                   "hostPtr is NULL");
}

static void default_rules_accept_freeing_null(void **state)
{
    assert_acl_ok(aclrtFreeHost(NULL));
}

static void strict_rules_refuse_freeing_null(void **state)
{
    assert_refused(aclrtFreeHost(NULL), ACL_ERROR_RT_PARAM_INVALID,
                   "no edition documents (ACLMEM_RULES=strict)");
}

static void free_with_device_synchronisation_frees(void **state)
{
    need_locked(64 * MIB);
    assert_acl_ok(aclrtFreeHostWithDevSync(host_malloc(100)));
    assert_acl_ok(aclrtFreeHostWithDevSync(host_malloc(3 * MIB)));
}

static void mapped_host_memory_is_not_freed(void **state)
{
    struct block b = block_create_host(CHUNK);

    assert_refused(aclrtFreeHost(b.va), ACL_ERROR_RT_PARAM_INVALID, "aclrtMapMem");
    block_destroy(&b);
}

static void attributes_are_looked_at(void **state)
{
    aclrtMallocAttribute attr = {ACL_RT_MEM_ATTR_VA_FLAG, {.vaFlag = 1}};
    aclrtMallocConfig cfg = {.attrs = &attr, .numAttrs = 1};
    void *p = NULL;
    void *dev = NULL;

    need_locked(64 * MIB);
    assert_acl_ok(aclrtMallocHostWithCfg(&p, 5000, NULL));
    host_free(p);
    assert_acl_ok(aclrtMallocHostWithCfg(&p, 5000, &cfg));
    assert_acl_ok(aclrtHostRegister(p, 5000, ACL_HOST_REGISTER_MAPPED, &dev));
    assert_ptr_equal(p, dev); /* what the flag asks for */
    assert_acl_ok(aclrtHostUnregister(p));
    host_free(p);
    attr.value.vaFlag = 2;
    assert_bad_arg(aclrtMallocHostWithCfg(&p, 1, &cfg), "VA_FLAG");
    attr.attr = ACL_RT_MEM_ATTR_DEVICE_ID;
    attr.value.deviceId = 0;
    assert_acl_ok(aclrtMallocHostWithCfg(&p, 1, &cfg));
    host_free(p);
    attr.value.deviceId = 1;
    assert_refused(aclrtMallocHostWithCfg(&p, 1, &cfg), ACL_ERROR_RT_PARAM_INVALID,
                   "DEVICE_ID");
    attr.attr = ACL_RT_MEM_ATTR_RSV;
    assert_bad_arg(aclrtMallocHostWithCfg(&p, 1, &cfg), "type 0");
    cfg.attrs = NULL;
    assert_bad_arg(aclrtMallocHostWithCfg(&p, 1, &cfg), "attrs is NULL");
}

static void products_lack_the_address_flag(void **state)
{
    aclrtMallocAttribute attr = {ACL_RT_MEM_ATTR_VA_FLAG, {.vaFlag = 1}};
    aclrtMallocConfig cfg = {.attrs = &attr, .numAttrs = 1};
    void *p = NULL;

    start("default", "ACLMEM_PRODUCT=950");
    assert_acl_ok(aclrtSetDevice(0));
    assert_refused(aclrtMallocHostWithCfg(&p, 1, &cfg), ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                   "VA_FLAG");
}

/* ---- without a device, and after one ---- */

static void no_device_is_needed(void **state)
{
    start("default");
    host_free(host_malloc(100));
    host_free(host_malloc(5 * MIB));
}

static void strict_asks_for_a_device(void **state)
{
    void *p = NULL;

    start("strict");
    assert_refused(aclrtMallocHost(&p, 1), ACL_ERROR_RT_CONTEXT_NULL, "strict");
    assert_acl_ok(aclrtSetDevice(0));
    host_free(host_malloc(100));
}

static void host_memory_outlives_the_reset_of_a_device(void **state)
{
    char *p = host_malloc(100);

    fill((uint8_t *)p, 100, 1);
    assert_acl_ok(aclrtResetDevice(0));
    assert_true(is_filled((uint8_t *)p, 100, 1));
    host_free(p);
    assert_acl_ok(aclrtSetDevice(0));
}

static void in_rc_form_it_is_memory_of_the_device(void **state)
{
    size_t before;
    char *p;
    void *none = NULL;

    start("default", "ACLMEM_PRODUCT=310B");
    assert_acl(aclrtMallocHost(&none, 1), ACL_ERROR_RT_CONTEXT_NULL);
    assert_acl_ok(aclrtSetDevice(1));
    before = free_memory();
    p = host_malloc(100);
    assert_int_equal((uintptr_t)p % 64, 0);
    assert_int_equal(before - free_memory(), CHUNK);
    assert_int_equal(location_type(p), ACL_MEM_LOCATION_TYPE_DEVICE);
    assert_int_equal(location_id(p), 1);
    assert_int_equal(page_size(p), 4096);
    fill((uint8_t *)p, 100, 1); /* host and device are one */
    assert_true(is_filled((uint8_t *)p, 100, 1));
    assert_int_equal(stats().host_blocks, 1);
    assert_refused(aclrtFree(p), ACL_ERROR_RT_PARAM_INVALID, "is host memory");
    assert_acl_ok(aclrtResetDevice(1)); /* and it goes with the device */
    assert_int_equal(stats().host_blocks, 0);
    assert_refused(aclrtFreeHost(p), ACL_ERROR_RT_PARAM_INVALID, "already freed");
    assert_acl_ok(aclrtSetDevice(1));
    assert_int_equal(free_memory(), before);
    host_free(host_malloc(5 * MIB));
}

/* ---- shortage ---- */

static void more_than_there_is_fails(void **state)
{
    static const size_t all[] = {(size_t)1 << 46, SIZE_MAX / 2, SIZE_MAX - 100, SIZE_MAX};
    void *p = NULL;

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        assert_refused(aclrtMallocHost(&p, all[i]), ACL_ERROR_RT_MEMORY_ALLOCATION,
                       "Failed to allocate");
}

/* In a process of its own, since what was locked once and said once stays so. */
static void limit_locking(size_t size)
{
    struct rlimit limit = {.rlim_cur = size, .rlim_max = size};

    assert_int_equal(setrlimit(RLIMIT_MEMLOCK, &limit), 0);
    /* The limit binds nobody who has this capability. */
    if (geteuid() == 0 && seteuid(65534) != 0)
        _exit(77);
}

static int unlocked_by_default(void)
{
    uint64_t warnings;
    void *p[8] = {NULL};

    setenv("ACLMEM_RULES", "default", 1);
    setenv("ACLMEM_MEMORY", "64M", 1);
    if (aclInit(NULL) != ACL_SUCCESS)
        return 2;
    limit_locking(3 * MIB);
    warnings = stats().warnings;
    for (size_t i = 0; i < 8; i++) {
        if (aclrtMallocHost(&p[i], 2 * MIB) != ACL_SUCCESS)
            return 3;
        memset(p[i], 1, 2 * MIB);
    }
    if (stats().warnings != warnings + 1)
        return 4;
    for (size_t i = 0; i < 8; i++) {
        if (aclrtFreeHost(p[i]) != ACL_SUCCESS)
            return 5;
    }
    return aclFinalize() == ACL_SUCCESS ? 0 : 6;
}

/* Bytes of memory that the process can write, in large pieces. */
static size_t writable_bytes(void)
{
    FILE *maps = fopen("/proc/self/maps", "re");
    size_t sum = 0;
    char line[512];

    while (maps != NULL && fgets(line, sizeof(line), maps) != NULL) {
        unsigned long low = 0, high = 0;
        char rights[5] = "";

        if (sscanf(line, "%lx-%lx %4s", &low, &high, rights) == 3 && rights[1] == 'w' &&
            high - low >= 2 * MIB)
            sum += high - low;
    }
    if (maps != NULL)
        fclose(maps);
    return sum;
}

static int refused_in_strict(void)
{
    size_t writable;
    void *small = NULL;
    void *p = NULL;
    const char *message;
    aclError rc;

    setenv("ACLMEM_RULES", "strict", 1);
    setenv("ACLMEM_MEMORY", "64M", 1);
    if (aclInit(NULL) != ACL_SUCCESS || aclrtSetDevice(0) != ACL_SUCCESS)
        return 2;
    limit_locking(3 * MIB);
    if (aclrtMallocHost(&small, 100) != ACL_SUCCESS)
        return 3;
    writable = writable_bytes();
    rc = aclrtMallocHost(&p, 5 * MIB);
    if (writable_bytes() != writable)
        return 9;
    message = aclGetRecentErrMsg();
    if (rc != ACL_ERROR_RT_RESOURCE_ALLOC_FAIL || message == NULL)
        return 4;
    if (strstr(message, "RLIMIT_MEMLOCK is 3145728") == NULL ||
        strstr(message, "ulimit -l") == NULL)
        return 5;
    if (p != NULL || stats().host_blocks != 1 || stats().warnings != 0)
        return 6;
    if (aclrtMallocHost(&p, 100) != ACL_SUCCESS) /* there is room in what is locked */
        return 7;
    return aclFinalize() == ACL_SUCCESS ? 0 : 8;
}

/* The usual limit, 8 MB, serves a block of each of many sizes. */
static int many_sizes_in_strict(void)
{
    enum { N = 60 };
    size_t before = locked_bytes();
    size_t sum = 0;
    void *p[N];

    setenv("ACLMEM_RULES", "strict", 1);
    setenv("ACLMEM_MEMORY", "64M", 1);
    limit_locking(8 * MIB);
    if (aclInit(NULL) != ACL_SUCCESS || aclrtSetDevice(0) != ACL_SUCCESS)
        return 2;
    for (size_t i = 0; i < N; i++) {
        size_t size = i < 30 ? 64 * (i + 1) : 4096 * (i - 29);

        if (aclrtMallocHost(&p[i], size) != ACL_SUCCESS)
            return 3;
        memset(p[i], 1, size);
        sum += size;
    }
    if (locked_bytes() < before + sum)
        return 4;
    for (size_t i = 0; i < N; i++) {
        if (aclrtFreeHost(p[i]) != ACL_SUCCESS)
            return 5;
    }
    return aclFinalize() == ACL_SUCCESS ? 0 : 6;
}

/* A run of small blocks that can be locked no further. */
static int half_a_run_in_strict(void)
{
    enum { N = 512 };
    static void *p[N];
    size_t n = 0;
    void *more = NULL;

    setenv("ACLMEM_RULES", "strict", 1);
    setenv("ACLMEM_MEMORY", "64M", 1);
    limit_locking(MIB);
    if (aclInit(NULL) != ACL_SUCCESS || aclrtSetDevice(0) != ACL_SUCCESS)
        return 2;
    while (n < N && aclrtMallocHost(&p[n], 4096) == ACL_SUCCESS)
        n++;
    if (n < 100 || n > 256 || stats().host_blocks != n)
        return 3;
    if (aclrtMallocHost(&more, 4096) != ACL_ERROR_RT_RESOURCE_ALLOC_FAIL || more != NULL)
        return 4;
    if (aclrtFreeHost(p[--n]) != ACL_SUCCESS) /* what is locked is used again */
        return 5;
    if (aclrtMallocHost(&p[n++], 4096) != ACL_SUCCESS || stats().host_blocks != n)
        return 6;
    while (n-- > 0) {
        if (aclrtFreeHost(p[n]) != ACL_SUCCESS)
            return 7;
    }
    return aclFinalize() == ACL_SUCCESS ? 0 : 8;
}

static int run_role(const char *role)
{
    static const struct {
        const char *name;
        int (*run)(void);
    } roles[] = {{"default", unlocked_by_default},
                 {"strict", refused_in_strict},
                 {"sizes", many_sizes_in_strict},
                 {"half", half_a_run_in_strict}};

    for (size_t i = 0; i < sizeof(roles) / sizeof(roles[0]); i++) {
        if (strcmp(role, roles[i].name) == 0)
            return roles[i].run();
    }
    return 1;
}

static void check_role(const char *role)
{
    int status = can_lock(MIB) ? run_self(role) : 77;

    if (status == 77)
        skip();
    assert_int_equal(status, 0);
}

static void beyond_the_lock_limit_memory_is_not_locked_and_that_is_said_once(void **state)
{
    check_role("default");
}

static void beyond_the_lock_limit_strict_refuses_and_names_the_limit(void **state)
{
    check_role("strict");
}

static void the_usual_lock_limit_serves_many_sizes(void **state)
{
    check_role("sizes");
}

static void a_run_that_is_locked_in_part_serves_that_part(void **state)
{
    check_role("half");
}

/* ---- views ---- */

static void a_view_of_host_memory_is_its_address(void **state)
{
    char *p = host_malloc(100);
    void *view = NULL;
    void *second = NULL;

    assert_acl_ok(aclmem_host_view(p, 100, &view));
    assert_ptr_equal(view, p);
    assert_refused(aclmem_host_view(p, 100, &second), ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                   "view");
    assert_acl_ok(aclmem_host_view_end(view));
    host_free(p);
}

static void freed_memory_in_use_is_not_allocated_again(void **state)
{
    static const size_t all[] = {100, 300 * KIB, 5 * MIB};
    enum { MORE = 20 };

    need_locked(256 * MIB);
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        char *p = host_malloc(all[i]);
        char *more[MORE];
        void *view = NULL;

        fill((uint8_t *)p, all[i], i);
        assert_acl_ok(aclmem_host_view(p, all[i], &view));
        host_free(p);
        for (size_t k = 0; k < MORE; k++) {
            more[k] = host_malloc(all[i]);
            assert_ptr_not_equal(more[k], p);
            memset(more[k], 0xff, all[i]);
        }
        assert_true(is_filled(view, all[i], i));
        for (size_t k = 0; k < MORE; k++)
            host_free(more[k]);
        assert_acl_ok(aclmem_host_view_end(view));
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest claims[] = {
        claim_blocks_both(a_block_is_host_memory_that_the_program_can_use),
        claim_blocks_both(a_block_of_a_page_or_more_starts_on_a_page),
        claim_blocks(the_memory_is_locked),
        claim_blocks(blocks_are_locked_as_they_are_handed_out),
        claim_blocks_both(small_blocks_share_a_mapping),
        claim_blocks_both(blocks_do_not_overlap),
        claim_blocks_both(copies_go_both_ways),
        claim_blocks_both(a_copy_stays_inside_its_block),
        claim_blocks_both(wrong_arguments_are_refused),
        claim_blocks_both(only_the_start_of_a_live_block_can_be_freed),
        claim(default_rules_accept_freeing_null),
        claim_strict(strict_rules_refuse_freeing_null),
        claim_blocks_both(free_with_device_synchronisation_frees),
        claim_blocks(mapped_host_memory_is_not_freed),
        claim_blocks_both(attributes_are_looked_at),
        claim_blocks_alone(products_lack_the_address_flag),
        claim_blocks_alone(no_device_is_needed),
        claim_blocks_alone(strict_asks_for_a_device),
        claim_blocks_both(host_memory_outlives_the_reset_of_a_device),
        claim_blocks_alone(in_rc_form_it_is_memory_of_the_device),
        claim_blocks_both(more_than_there_is_fails),
        claim_blocks(beyond_the_lock_limit_memory_is_not_locked_and_that_is_said_once),
        claim_blocks(beyond_the_lock_limit_strict_refuses_and_names_the_limit),
        claim_blocks(the_usual_lock_limit_serves_many_sizes),
        claim_blocks(a_run_that_is_locked_in_part_serves_that_part),
        claim_blocks_both(a_view_of_host_memory_is_its_address),
        claim_blocks_both(freed_memory_in_use_is_not_allocated_again),
    };

    if (argc == 2)
        return run_role(argv[1]);
    return run_claims(claims);
}
