/* Memory of aclrtMalloc in two processes, by keys. */
#include "actor.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define OPEN ACL_RT_IPC_MEM_EXPORT_FLAG_DISABLE_PID_VALIDATION
#define PEER ACL_RT_IPC_MEM_IMPORT_FLAG_ENABLE_PEER_ACCESS
#define KEY ACL_IPC_HANDLE_SIZE
#define SIZE (3 * MIB) /* not a multiple of a chunk */

static struct actor other;

static int end_other(void **state)
{
    if (other.pid != 0)
        actor_kill(&other);
    return finish(state);
}

#define pair(f_) \
    { \
#f_, f_, start_default, end_other, NULL \
    }
#define pair_strict(f_) \
    { \
        "strict: " #f_, f_, start_strict, end_other, NULL \
    }
#define pair_alone(f_) \
    { \
#f_, f_, NULL, end_other, NULL \
    }

static void *block(size_t size)
{
    void *p = NULL;

    assert_acl_ok(aclrtMalloc(&p, size, ACL_MEM_MALLOC_HUGE_FIRST));
    return p;
}

static void export(void *p, size_t size, uint64_t flags, char *key)
{
    memset(key, 0x55, KEY);
    assert_acl_ok(aclrtIpcMemGetExportKey(p, size, key, KEY, flags));
    assert_non_null(memchr(key, '\0', KEY));
}

static void start_other(int device)
{
    actor_start(&other, ACTOR_PLAIN);
    done(&other, DO_INIT, (uint64_t)device, 0, 0);
}

static uint64_t other_imports(const char *key, uint64_t flags)
{
    return expect(order_key(&other, DO_KEY_IMPORT, key, flags), ACL_SUCCESS, "").value[0];
}

static void other_closes(const char *key)
{
    expect(order_key(&other, DO_KEY_CLOSE, key, 0), ACL_SUCCESS, "");
}

static void a_block_is_shared_by_its_key(void **state)
{
    char *p = block(SIZE);
    char key[KEY];
    uint64_t there;

    put_pattern(p, SIZE, 1);
    export(p, SIZE, OPEN, key);
    start_other(0);
    there = other_imports(key, 0);
    assert_int_equal(done(&other, DO_CHECK, there, SIZE, 1), 0);
    done(&other, DO_PUT, there, SIZE, 2);
    assert_pattern(p, SIZE, 2);
    other_closes(key);
    expect(order(&other, DO_CHECK, there, SIZE, 2), ACL_ERROR_RT_PARAM_INVALID, "");
    assert_acl_ok(aclrtIpcMemClose(key));
    assert_acl_ok(aclrtFree(p));
    actor_end(&other);
}

static void a_process_on_the_list_imports_the_key(void **state)
{
    char *p = block(SIZE);
    char key[KEY];
    int32_t pid;

    export(p, SIZE, 0, key);
    start_other(0);
    expect(order_key(&other, DO_KEY_IMPORT, key, 0), ACL_ERROR_RT_NO_PERMISSION,
           "aclrtIpcMemSetImportPid");
    pid = (int32_t)done(&other, DO_TGID, 0, 0, 0);
    assert_acl_ok(aclrtIpcMemSetImportPid(key, &pid, 1));
    other_imports(key, 0);
    actor_end(&other);
    assert_acl_ok(aclrtIpcMemClose(key));
    assert_acl_ok(aclrtFree(p));
}

static void only_the_bytes_that_were_exported_can_be_used(void **state)
{
    char *p = block(SIZE);
    char key[KEY];
    uint64_t there;

    export(p, MIB, OPEN, key);
    start_other(0);
    there = other_imports(key, 0);
    done(&other, DO_PUT, there, MIB, 3);
    expect(order(&other, DO_PUT, there, MIB + 1, 3), ACL_ERROR_RT_PARAM_INVALID,
           "end of the block");
    expect(order(&other, DO_MFREE, there, 0, 0), ACL_ERROR_RT_PARAM_INVALID,
           "aclrtIpcMemImportByKey");
    actor_end(&other);
    assert_acl_ok(aclrtFree(p));
}

/* What others may still have is never handed out again. */
static void memory_of_an_exported_block_is_not_used_again(void **state)
{
    char *p = block(SIZE);
    char *q;
    char key[KEY];
    uint64_t there;

    put_pattern(p, SIZE, 4);
    export(p, SIZE, OPEN, key);
    start_other(0);
    there = other_imports(key, 0);
    assert_acl_ok(aclrtIpcMemClose(key));
    assert_acl_ok(aclrtFree(p));
    q = block(SIZE);
    put_pattern(q, SIZE, 5);
    assert_int_equal(done(&other, DO_CHECK, there, SIZE, 4), 0);
    actor_end(&other);
    assert_acl_ok(aclrtFree(q));
}

static void a_shared_block_counts_once_for_as_long_as_anybody_has_it(void **state)
{
    char *p = block(SIZE);
    size_t less = free_memory();
    char key[KEY];

    export(p, SIZE, OPEN, key);
    start_other(0);
    other_imports(key, 0);
    assert_int_equal(free_memory(), less);
    assert_acl_ok(aclrtFree(p));
    assert_int_equal(free_memory(), less);
    other_closes(key);
    assert_int_equal(free_memory(), less + 2 * CHUNK);
    actor_end(&other);
}

static void a_key_dies_with_its_block(void **state)
{
    char *p = block(SIZE);
    char key[KEY];

    export(p, SIZE, OPEN, key);
    assert_acl_ok(aclrtFree(p));
    start_other(0);
    expect(order_key(&other, DO_KEY_IMPORT, key, 0), ACL_ERROR_RT_NO_PERMISSION, "freed");
    assert_refused(aclrtIpcMemClose(key), ACL_ERROR_RT_PARAM_INVALID, "closed already");
    actor_end(&other);
}

static void a_closed_key_is_dead_and_the_block_can_be_exported_again(void **state)
{
    char *p = block(SIZE);
    char first[KEY];
    char second[KEY];

    export(p, SIZE, OPEN, first);
    assert_refused(aclrtIpcMemGetExportKey(p, SIZE, second, KEY, OPEN),
                   ACL_ERROR_RT_PARAM_INVALID, "already exported");
    assert_acl_ok(aclrtIpcMemClose(first));
    export(p, SIZE, OPEN, second);
    assert_string_not_equal(first, second);
    start_other(0);
    expect(order_key(&other, DO_KEY_IMPORT, first, 0), ACL_ERROR_RT_NO_PERMISSION, "");
    other_imports(second, 0);
    actor_end(&other);
    assert_acl_ok(aclrtFree(p));
}

static void a_key_is_imported_once_at_a_time(void **state)
{
    char *p = block(SIZE);
    char key[KEY];

    export(p, SIZE, OPEN, key);
    start_other(0);
    other_imports(key, 0);
    expect(order_key(&other, DO_KEY_IMPORT, key, 0), ACL_ERROR_RT_PARAM_INVALID,
           "already");
    other_closes(key);
    expect(order_key(&other, DO_KEY_CLOSE, key, 0), ACL_ERROR_RT_PARAM_INVALID,
           "closed already");
    other_imports(key, 0);
    actor_end(&other);
    assert_acl_ok(aclrtFree(p));
}

static void the_exporting_process_may_import_its_key(void **state)
{
    char *p = block(SIZE);
    void *q = NULL;
    char key[KEY];

    put_pattern(p, SIZE, 6);
    export(p, SIZE, OPEN, key);
    assert_acl_ok(aclrtIpcMemImportByKey(&q, key, 0));
    assert_pattern(q, SIZE, 6);
    assert_acl_ok(aclrtIpcMemClose(key)); /* the import first */
    assert_acl_ok(aclrtIpcMemClose(key));
    assert_acl_ok(aclrtFree(p));
}

static void what_a_reset_finds_imported_it_closes(void **state)
{
    char *p = block(SIZE);
    char key[KEY];

    export(p, SIZE, OPEN, key);
    start_other(0);
    other_imports(key, 0);
    done(&other, DO_FINALIZE, 0, 0, 0);
    assert_int_equal(expect(order(&other, DO_DESCRIPTORS, 0, 0, 0), 0, "").value[1], 0);
    done(&other, DO_INIT, 0, 0, 0);
    other_imports(key, 0);
    actor_end(&other);
    assert_acl_ok(aclrtFree(p));
}

static void memory_of_a_peer_is_reached_with_the_flag_or_by_the_call(void **state)
{
    char *p = block(SIZE);
    char key[KEY];
    uint64_t there;

    put_pattern(p, SIZE, 7);
    export(p, SIZE, OPEN, key);
    start_other(1);
    there = other_imports(key, 0);
    expect(order(&other, DO_CHECK, there, SIZE, 7), ACL_ERROR_RT_PARAM_INVALID,
           "aclrtDeviceEnablePeerAccess");
    other_closes(key);
    there = other_imports(key, PEER);
    assert_int_equal(done(&other, DO_CHECK, there, SIZE, 7), 0);
    actor_end(&other);
    assert_acl_ok(aclrtFree(p));
}

/* The same bytes, which one address has on the one device and one on the other. */
static void copies_between_a_block_and_its_import_for_a_peer_may_overlap(void **state)
{
    const size_t by = 100, n = SIZE - by;
    char *p = block(SIZE);
    void *q = NULL;
    char key[KEY];

    export(p, SIZE, OPEN, key);
    assert_acl_ok(aclrtSetDevice(1));
    assert_acl_ok(aclrtIpcMemImportByKey(&q, key, PEER));
    put_pattern(p, n, 1);
    assert_acl_ok(copy((char *)q + by, p, n, ACL_MEMCPY_DEVICE_TO_DEVICE));
    assert_pattern(p + by, n, 1);
    put_pattern(p + by, n, 2);
    assert_acl_ok(copy(q, p + by, n, ACL_MEMCPY_DEVICE_TO_DEVICE));
    assert_pattern(p, n, 2);
    assert_acl_ok(aclrtIpcMemClose(key));
    assert_acl_ok(aclrtFree(p));
    assert_acl_ok(aclrtResetDevice(1));
    assert_acl_ok(aclrtSetDevice(0));
}

static void blocks_that_have_no_memory_of_their_own_are_refused(void **state)
{
    char *small = block(64 * KIB);
    char *large = block(SIZE);
    struct block mapped = block_create(CHUNK);
    char key[KEY];

    assert_refused(aclrtIpcMemGetExportKey(small, 64 * KIB, key, KEY, OPEN),
                   ACL_ERROR_RT_PARAM_INVALID, "shares its pages");
    assert_refused(aclrtIpcMemGetExportKey(large + 4096, 4096, key, KEY, OPEN),
                   ACL_ERROR_RT_PARAM_INVALID, "inside the block");
    assert_refused(aclrtIpcMemGetExportKey(large, SIZE + CHUNK, key, KEY, OPEN),
                   ACL_ERROR_RT_PARAM_INVALID, "size is");
    assert_refused(aclrtIpcMemGetExportKey(mapped.va, CHUNK, key, KEY, OPEN),
                   ACL_ERROR_RT_PARAM_INVALID, "not memory of aclrtMalloc");
    assert_refused(aclrtIpcMemGetExportKey(key, KEY, key, KEY, OPEN),
                   ACL_ERROR_RT_PARAM_INVALID, "not memory of aclrtMalloc");
    block_destroy(&mapped);
    assert_acl_ok(aclrtFree(large));
    assert_acl_ok(aclrtFree(small));
}

/* Every digit counts, those behind the number too. */
static void an_altered_key_is_refused(void **state)
{
    char *p = block(SIZE);
    char key[KEY];
    int32_t pid = getpid();
    size_t n;

    assert_acl_ok(aclrtIpcMemGetExportKey(p, SIZE, key, KEY, OPEN));
    n = strlen(key);
    actor_start(&other, ACTOR_PLAIN);
    done(&other, DO_INIT, 0, 0, 0);
    for (size_t i = n - 48; i < n; i++) {
        char digit = key[i];

        key[i] = digit == '0' ? '1' : '0';
        expect(order_key(&other, DO_KEY_IMPORT, key, 0), ACL_ERROR_RT_NO_PERMISSION, "");
        assert_refused(aclrtIpcMemSetImportPid(key, &pid, 1), ACL_ERROR_RT_PARAM_INVALID,
                       "does not export");
        assert_refused(aclrtIpcMemClose(key), ACL_ERROR_RT_PARAM_INVALID, "neither");
        key[i] = digit;
    }
    expect(order_key(&other, DO_KEY_IMPORT, key, 0), ACL_SUCCESS, "");
    actor_end(&other);
    assert_acl_ok(aclrtFree(p));
}

static void wrong_arguments_are_refused(void **state)
{
    char *p = block(SIZE);
    char key[KEY] = "";
    char number[KEY] = "aclmem-memory-000000000000000100000000000000020000000000000003";
    int32_t pid = getpid();
    void *q = NULL;

#define GET aclrtIpcMemGetExportKey
    assert_bad_arg(GET(NULL, SIZE, key, KEY, 0), "devPtr");
    assert_bad_arg(GET(p, 0, key, KEY, 0), "size");
    assert_bad_arg(GET(p, SIZE, NULL, KEY, 0), "key");
    assert_bad_arg(GET(p, SIZE, key, 64, 0), "len");
    assert_bad_arg(GET(p, SIZE, key, KEY, 2), "flags");
    assert_bad_arg(aclrtIpcMemSetImportPid(NULL, &pid, 1), "key");
    assert_bad_arg(aclrtIpcMemSetImportPid(number, NULL, 1), "pid");
    assert_bad_arg(aclrtIpcMemSetImportPid(number, &pid, 0), "num");
    assert_refused(aclrtIpcMemSetImportPid(number, &pid, 1), ACL_ERROR_RT_PARAM_INVALID,
                   "does not export");
    assert_refused(aclrtIpcMemSetImportPid("nonsense", &pid, 1),
                   ACL_ERROR_RT_PARAM_INVALID, "not a key");
    assert_bad_arg(aclrtIpcMemImportByKey(NULL, number, 0), "devPtr");
    assert_bad_arg(aclrtIpcMemImportByKey(&q, NULL, 0), "key");
    assert_bad_arg(aclrtIpcMemImportByKey(&q, number, 2), "flags");
    assert_refused(aclrtIpcMemImportByKey(&q, number, 0), ACL_ERROR_RT_NO_PERMISSION,
                   "no process exports");
    assert_bad_arg(aclrtIpcMemClose(NULL), "key");
    assert_refused(
        aclrtIpcMemClose("aclmem-event-000000000000000100000000000000020000000000000003"),
        ACL_ERROR_RT_PARAM_INVALID, "not a key");
    assert_refused(aclrtIpcMemClose(number), ACL_ERROR_RT_PARAM_INVALID, "neither");
    assert_refused(aclrtIpcMemSetAttr(number, 0, 0), ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                   "A3");
    assert_refused(aclrtIpcMemImportPidInterServer(number, NULL, 1),
                   ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "A3");
    assert_null(q);
    assert_acl_ok(aclrtFree(p));
}

static void a3_products_have_two_calls_more(void **state)
{
    char key[KEY];
    int32_t pid = getpid(), none = INT32_MAX;
    aclrtServerPid server = {.sdid = 1, .pid = &pid, .num = 1};
    aclrtServerPid both[] = {server, {.sdid = 1, .pid = &none, .num = 1}};
    char *p;

    start("default", "ACLMEM_PRODUCT=A3");
    assert_acl_ok(aclrtSetDevice(0));
    p = block(SIZE);
    export(p, SIZE, 0, key);
    assert_acl_ok(aclrtIpcMemSetAttr(key, ACL_RT_IPC_MEM_ATTR_ACCESS_LINK,
                                     ACL_RT_IPC_MEM_ATTR_ACCESS_LINK_HCCS));
    assert_bad_arg(aclrtIpcMemSetAttr(key, 1, 0), "type");
    assert_bad_arg(aclrtIpcMemSetAttr(key, 0, 2), "attr");
    assert_bad_arg(aclrtIpcMemImportPidInterServer(key, &server, 0), "num");
    server.sdid = 9;
    assert_refused(aclrtIpcMemImportPidInterServer(key, &server, 1),
                   ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "sdid");
    server.sdid = 1;
    start_other(0);
    pid = (int32_t)done(&other, DO_TGID, 0, 0, 0);
    assert_refused(aclrtIpcMemImportPidInterServer(key, both, 2),
                   ACL_ERROR_RT_PARAM_INVALID, "not a running process");
    expect(order_key(&other, DO_KEY_IMPORT, key, 0), ACL_ERROR_RT_NO_PERMISSION, "");
    assert_acl_ok(aclrtIpcMemImportPidInterServer(key, &server, 1));
    other_imports(key, 0);
    actor_end(&other);
    assert_acl_ok(aclrtIpcMemClose(key));
    assert_refused(aclrtIpcMemSetAttr(key, 0, 0), ACL_ERROR_RT_PARAM_INVALID,
                   "does not export");
    assert_acl_ok(aclrtFree(p));
}

static void strict_rules_take_no_flag_at_import(void **state)
{
    void *q = NULL;

    assert_bad_arg(aclrtIpcMemImportByKey(&q, "aclmem-memory-0000000000000001", PEER),
                   "strict");
}

static void small_products_have_no_keys(void **state)
{
    char key[KEY];
    char *p;

    start("default", "ACLMEM_PRODUCT=310B-EP");
    assert_acl_ok(aclrtSetDevice(0));
    p = block(SIZE);
    assert_refused(aclrtIpcMemGetExportKey(p, SIZE, key, KEY, 0),
                   ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "310B");
    assert_acl_ok(aclrtFree(p));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        pair(a_block_is_shared_by_its_key),
        pair(a_process_on_the_list_imports_the_key),
        pair_strict(a_process_on_the_list_imports_the_key),
        pair(only_the_bytes_that_were_exported_can_be_used),
        pair(memory_of_an_exported_block_is_not_used_again),
        pair(a_shared_block_counts_once_for_as_long_as_anybody_has_it),
        pair(a_key_dies_with_its_block),
        pair(a_closed_key_is_dead_and_the_block_can_be_exported_again),
        pair(a_key_is_imported_once_at_a_time),
        pair(the_exporting_process_may_import_its_key),
        pair(what_a_reset_finds_imported_it_closes),
        pair(memory_of_a_peer_is_reached_with_the_flag_or_by_the_call),
        pair(copies_between_a_block_and_its_import_for_a_peer_may_overlap),
        pair(blocks_that_have_no_memory_of_their_own_are_refused),
        pair(an_altered_key_is_refused),
        pair(wrong_arguments_are_refused),
        pair_alone(a3_products_have_two_calls_more),
        pair_strict(strict_rules_take_no_flag_at_import),
        pair_alone(small_products_have_no_keys),
    };

    actor_main(argc, argv);
    return run_claims(tests);
}
