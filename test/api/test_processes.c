/* Devices are of all processes of a user: their memory, and how many may use them. */
#include "support/peer.h"
#include "support/process.h"
#include "support/vmm.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/*
 * Role "holder": takes as many bytes of its device 0 as it is told to, as physical memory
 * or, in role "blocks", with aclrtMalloc, and answers with the code; 0 frees all.
 */
static int play_holder(bool is_block)
{
    aclrtPhysicalMemProp prop = device_prop(0, ACL_HBM_MEM_HUGE);
    aclrtDrvMemHandle handle = NULL;
    void *block = NULL;
    uint64_t size;

    if (aclInit(NULL) != ACL_SUCCESS || (is_block && aclrtSetDevice(0) != ACL_SUCCESS))
        return 2;
    while (peer_next(&size)) {
        aclError rc;

        if (size == 0)
            rc = is_block ? aclrtFree(block) : aclrtFreePhysical(handle);
        else if (is_block)
            rc = aclrtMalloc(&block, size, ACL_MEM_MALLOC_HUGE_FIRST);
        else
            rc = aclrtMallocPhysical(&handle, size, &prop, 0);
        peer_answer((uint64_t)rc);
    }
    return aclFinalize() == ACL_SUCCESS ? 0 : 3;
}

static aclrtDrvMemHandle take(size_t size)
{
    aclrtPhysicalMemProp prop = device_prop(0, ACL_HBM_MEM_HUGE);
    aclrtDrvMemHandle handle = NULL;

    assert_acl_ok(aclrtMallocPhysical(&handle, size, &prop, 0));
    return handle;
}

static void free_memory_excludes_memory_of_all_processes(void **state)
{
    struct peer other = peer_start("holder");
    aclrtDrvMemHandle mine = take(128 * MIB);

    assert_int_equal(free_memory(), GIB - 128 * MIB);
    assert_int_equal(peer_ask(&other, 256 * MIB), ACL_SUCCESS);
    assert_int_equal(free_memory(), GIB - 384 * MIB);
    assert_int_equal(total_memory(), GIB);
    assert_acl_ok(aclrtSetDevice(1));
    assert_int_equal(free_memory(), GIB);
    assert_acl_ok(aclrtSetDevice(0));
    assert_int_equal(peer_ask(&other, 0), ACL_SUCCESS);
    assert_int_equal(free_memory(), GIB - 128 * MIB);
    assert_acl_ok(aclrtFreePhysical(mine));
    assert_int_equal(peer_end(&other), 0);
    assert_int_equal(free_memory(), GIB);
}

static void a_device_is_full_whichever_process_filled_it(void **state)
{
    struct peer other = peer_start("holder");
    aclrtPhysicalMemProp prop = device_prop(0, ACL_HBM_MEM_HUGE);
    aclrtDrvMemHandle handle = NULL;
    void *block = NULL;
    char name[32];

    assert_int_equal(peer_ask(&other, GIB - 64 * MIB), ACL_SUCCESS);
    snprintf(name, sizeof(name), "by process %d (test_api_proces)", (int)other.pid);
    assert_refused(aclrtMallocPhysical(&handle, 66 * MIB, &prop, 0),
                   ACL_ERROR_RT_MEMORY_ALLOCATION, "Failed to allocate");
    assert_message_has(name);
    assert_message_has("1006632960 of 1073741824 are in use");
    assert_refused(aclrtMalloc(&block, 66 * MIB, ACL_MEM_MALLOC_HUGE_FIRST),
                   ACL_ERROR_RT_MEMORY_ALLOCATION, name);
    assert_acl_ok(aclrtMallocPhysical(&handle, 64 * MIB, &prop, 0));
    assert_int_equal(free_memory(), 0);
    assert_acl_ok(aclrtFreePhysical(handle));
    assert_int_equal(peer_end(&other), 0);
}

static void memory_of_a_killed_process_is_free_again(void **state)
{
    static const char *const roles[] = {"holder", "blocks"};

    for (int i = 0; i < 4; i++) {
        struct peer other = peer_start(roles[i % 2]);
        aclrtDrvMemHandle handle;

        assert_int_equal(peer_ask(&other, 512 * MIB), ACL_SUCCESS);
        assert_true(free_memory() <= GIB - 512 * MIB);
        peer_kill(&other, SIGKILL);
        if (i >= 2) /* by looking; otherwise by asking for it */
            assert_int_equal(free_memory(), GIB);
        handle = take(GIB);
        assert_int_equal(free_memory(), 0);
        assert_acl_ok(aclrtFreePhysical(handle));
    }
}

/*
 * Role "spender": allocates blocks of many sizes until the device is full, and frees them,
 * as often as it is told to.
 */
static int play_spender(void)
{
    enum { N = 4096 };
    static void *blocks[N];
    uint64_t n_rounds;

    if (aclInit(NULL) != ACL_SUCCESS || aclrtSetDevice(0) != ACL_SUCCESS)
        return 2;
    while (peer_next(&n_rounds)) {
        for (uint64_t round = 0; round < n_rounds; round++) {
            size_t size = 1000 + 77777 * round;
            int n = 0;

            while (n < N && aclrtMalloc(&blocks[n], size, ACL_MEM_MALLOC_HUGE_FIRST) ==
                                ACL_SUCCESS) {
                size = size < 3 * MIB ? size * 3 / 2 : 1000 + size % 5000;
                n++;
            }
            while (n > 0) {
                if (aclrtFree(blocks[--n]) != ACL_SUCCESS)
                    return 4;
            }
        }
        peer_answer(free_memory());
    }
    return aclFinalize() == ACL_SUCCESS ? 0 : 3;
}

static void memory_that_a_process_freed_is_free_for_all(void **state)
{
    static const char *const memory[] = {"ACLMEM_MEMORY=16M",  "ACLMEM_MEMORY=64M",
                                         "ACLMEM_MEMORY=256M", "ACLMEM_MEMORY=1G",
                                         "ACLMEM_MEMORY=4G",   "ACLMEM_MEMORY=16G"};

    for (int i = 0; i < 6; i++) {
        size_t capacity = (size_t)16 * MIB << 2 * i;
        struct peer other;
        void *all = NULL;

        start("default", memory[i]);
        assert_acl_ok(aclrtSetDevice(0));
        other = peer_start("spender");
        assert_int_equal(peer_ask(&other, 6), capacity);
        assert_int_equal(free_memory(), capacity);
        assert_acl_ok(aclrtMalloc(&all, capacity - 64, ACL_MEM_MALLOC_HUGE_FIRST));
        assert_int_equal(peer_ask(&other, 1), 0);
        assert_acl_ok(aclrtFree(all));
        assert_int_equal(peer_ask(&other, 1), capacity);
        assert_int_equal(peer_end(&other), 0);
        assert_acl_ok(aclFinalize());
    }
}

static void hidden_devices_are_the_same_ones(void **state)
{
    struct peer other;

    setenv("ASCEND_RT_VISIBLE_DEVICES", "1", 1);
    other = peer_start("holder");
    unsetenv("ASCEND_RT_VISIBLE_DEVICES");
    assert_int_equal(peer_ask(&other, 256 * MIB), ACL_SUCCESS); /* of its device 0 */
    assert_int_equal(free_memory(), GIB);
    assert_acl_ok(aclrtSetDevice(1));
    assert_int_equal(free_memory(), GIB - 256 * MIB);
    assert_int_equal(peer_end(&other), 0);
}

static void unlike_processes_have_devices_of_their_own(void **state)
{
    struct peer other;

    setenv("ACLMEM_MEMORY", "2G", 1);
    other = peer_start("holder");
    assert_int_equal(peer_ask(&other, 256 * MIB), ACL_SUCCESS);
    assert_int_equal(free_memory(), GIB);
    assert_int_equal(peer_end(&other), 0);
}

static void figures_of_one_process_are_its_own(void **state)
{
    struct peer other = peer_start("holder");
    aclrtDrvMemHandle mine = take(4 * MIB);
    aclrtMemUsageInfo usage;
    size_t n = 0;

    assert_int_equal(peer_ask(&other, 256 * MIB), ACL_SUCCESS);
    assert_acl_ok(aclrtGetMemUsageInfo(0, &usage, 1, &n));
    assert_int_equal(usage.curMemSize, 4 * MIB);
    assert_acl_ok(aclrtFreePhysical(mine));
    assert_int_equal(peer_end(&other), 0);
}

/* ---- how many ---- */

/* Role "user": sets device 0 when it is told 1, resets it when it is told 2. */
static int play_user(void)
{
    uint64_t what;

    if (aclInit(NULL) != ACL_SUCCESS)
        return 2;
    while (peer_next(&what))
        peer_answer((uint64_t)(what == 1 ? aclrtSetDevice(0) : aclrtResetDevice(0)));
    return aclFinalize() == ACL_SUCCESS ? 0 : 3;
}

static void no_more_processes_use_a_device_than_the_product_allows(void **state)
{
    enum { LIMIT = 63 }; /* of an A2 */
    aclrtPhysicalMemProp prop = device_prop(0, ACL_HBM_MEM_HUGE);
    aclrtDrvMemHandle handle = NULL;
    aclrtContext context = NULL;
    struct peer users[LIMIT];

    start("default");
    for (int i = 0; i < LIMIT; i++) {
        users[i] = peer_start("user");
        assert_int_equal(peer_ask(&users[i], 1), ACL_SUCCESS);
    }
    assert_acl(aclrtSetDevice(0), ACL_ERROR_RT_RESOURCE_ALLOC_FAIL);
    assert_message_has("device 0 is used by 63 processes");
    assert_acl(aclrtCreateContext(&context, 0), ACL_ERROR_RT_RESOURCE_ALLOC_FAIL);
    assert_acl(aclrtMallocPhysical(&handle, CHUNK, &prop, 0),
               ACL_ERROR_RT_RESOURCE_ALLOC_FAIL);
    assert_true(context == NULL && handle == NULL);
    assert_acl_ok(aclrtSetDevice(1));

    assert_int_equal(peer_ask(&users[0], 2), ACL_SUCCESS);
    assert_acl_ok(aclrtSetDevice(0));
    assert_int_equal(peer_ask(&users[0], 1), ACL_ERROR_RT_RESOURCE_ALLOC_FAIL);
    peer_kill(&users[1], SIGKILL);
    assert_int_equal(peer_ask(&users[0], 1), ACL_SUCCESS);
    assert_acl_ok(aclrtResetDevice(0));
    for (int i = 0; i < LIMIT; i++) {
        if (i != 1)
            assert_int_equal(peer_end(&users[i]), 0);
    }
}

/* ---- without a ledger ---- */

static void a_process_without_a_ledger_works_and_warns(void **state)
{
    char folder[] = "/tmp/aclmem-test-XXXXXX";
    char option[64];
    aclrtDrvMemHandle handle;

    assert_non_null(mkdtemp(folder));
    assert_int_equal(chmod(folder, 0777), 0);
    snprintf(option, sizeof(option), "ACLMEM_RUNTIME_DIR=%s", folder);
    capture_stderr();
    start("default", option);
    expect_warnings(1);
    assert_non_null(strstr(captured_stderr(), "has mode 0777"));
    assert_acl_ok(aclrtSetDevice(0));
    handle = take(GIB);
    assert_int_equal(free_memory(), 0);
    assert_acl_ok(aclrtFreePhysical(handle));
    assert_int_equal(free_memory(), GIB);
    assert_int_equal(rmdir(folder), 0);
}

/* Whatever is in the directory is cut off: how many files that were. */
static int truncate_all(const char *folder)
{
    DIR *list = opendir(folder);
    struct dirent *entry;
    int n = 0;

    assert_non_null(list);
    while ((entry = readdir(list)) != NULL) {
        char path[512];

        snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
        n += truncate(path, 0) == 0;
    }
    closedir(list);
    return n;
}

static void a_ledger_that_is_cut_off_ends_no_process(void **state)
{
    struct peer other = peer_start("holder");
    aclrtDrvMemHandle mine;

    assert_int_equal(peer_ask(&other, 256 * MIB), ACL_SUCCESS);
    assert_true(truncate_all(getenv("ACLMEM_RUNTIME_DIR")) > 0);
    mine = take(128 * MIB);
    assert_int_equal(free_memory(), GIB - 384 * MIB);
    assert_int_equal(peer_ask(&other, 0), ACL_SUCCESS);
    assert_int_equal(free_memory(), GIB - 128 * MIB);
    assert_int_equal(peer_ask(&other, GIB), ACL_ERROR_RT_MEMORY_ALLOCATION);
    assert_acl_ok(aclrtFreePhysical(mine));
    assert_int_equal(peer_end(&other), 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        claim_both(free_memory_excludes_memory_of_all_processes),
        claim_both(a_device_is_full_whichever_process_filled_it),
        claim(memory_of_a_killed_process_is_free_again),
        claim_alone(memory_that_a_process_freed_is_free_for_all),
        claim(hidden_devices_are_the_same_ones),
        claim(unlike_processes_have_devices_of_their_own),
        claim(figures_of_one_process_are_its_own),
        claim_alone(no_more_processes_use_a_device_than_the_product_allows),
        claim_alone(a_process_without_a_ledger_works_and_warns),
        claim(a_ledger_that_is_cut_off_ends_no_process),
    };

    if (argc == 2 && strcmp(argv[1], "user") == 0)
        return play_user();
    if (argc == 2 && strcmp(argv[1], "spender") == 0)
        return play_spender();
    if (argc == 2)
        return play_holder(strcmp(argv[1], "blocks") == 0);
    return run_claims(tests);
}
