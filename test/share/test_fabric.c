/* Physical memory in two processes by fabric handles, which Atlas A3 products have. */
#include "pair.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FABRIC ACL_MEM_SHARE_HANDLE_TYPE_FABRIC

_Static_assert(ACTOR_TEXT == sizeof(aclrtMemFabricHandle), "an order has room for one");

static int start_a3(void **state)
{
    start("default", "ACLMEM_PRODUCT=A3");
    assert_acl_ok(aclrtSetDevice(0));
    return 0;
}

static int start_a3_strict(void **state)
{
    start("strict", "ACLMEM_PRODUCT=A3");
    assert_acl_ok(aclrtSetDevice(0));
    return 0;
}

/* With a network, and without its key. */
static int start_network(void **state)
{
    start("default", "ACLMEM_PRODUCT=A3", "ACLMEM_FABRIC=lo");
    assert_acl_ok(aclrtSetDevice(0));
    return 0;
}

/* clang-format off */
#define on_network(f_) {#f_, f_, start_network, end_other, NULL}
#define on_a3(f_) {#f_, f_, start_a3, end_other, NULL}
#define on_a3_strict(f_) {"strict: " #f_, f_, start_a3_strict, end_other, NULL}
/* clang-format on */

static aclrtMemFabricHandle export_fabric(aclrtDrvMemHandle handle, uint64_t flags)
{
    aclrtMemFabricHandle fabric;

    assert_acl_ok(aclrtMemExportToShareableHandleV2(handle, flags, FABRIC, &fabric));
    return fabric;
}

static void begin_other(void)
{
    actor_start(&other, ACTOR_PLAIN);
    done(&other, DO_INIT, 0, 0, 0);
}

static void expect_refusal(const aclrtMemFabricHandle *fabric, aclError code,
                           const char *words)
{
    expect(order_bytes(&other, DO_FABRIC_IMPORT, fabric, 0), code, words);
}

static uint64_t other_imports(const aclrtMemFabricHandle *fabric)
{
    return expect(order_bytes(&other, DO_FABRIC_IMPORT, fabric, 0), ACL_SUCCESS, "")
        .value[0];
}

static void a_listed_process_has_the_memory_too(void **state)
{
    struct block b = block_create(2 * CHUNK);
    aclrtMemFabricHandle fabric = export_fabric(b.handle, 0);
    uint64_t handle, va;
    int32_t pid;

    put_pattern(b.va, b.size, 1);
    begin_other();
    expect_refusal(&fabric, ACL_ERROR_RT_NO_PERMISSION,
                   "aclrtMemSetPidToShareableHandleV2");
    pid = (int32_t)done(&other, DO_TGID, 0, 0, 0);
    assert_acl_ok(aclrtMemSetPidToShareableHandleV2(&fabric, FABRIC, &pid, 1));
    handle = other_imports(&fabric);
    va = done(&other, DO_RESERVE, b.size, 0, 0);
    done(&other, DO_MAP, va, b.size, handle);
    assert_int_equal(done(&other, DO_CHECK, va, b.size, 1), 0);
    done(&other, DO_PUT, va, b.size, 2);
    assert_pattern(b.va, b.size, 2);
    actor_end(&other);
    block_destroy(&b);
}

static void without_a_list_any_process_imports(void **state)
{
    aclrtDrvMemHandle handle = alloc(CHUNK);
    aclrtMemFabricHandle fabric = export_fabric(handle, OPEN);

    begin_other();
    done(&other, DO_FREE, other_imports(&fabric), 0, 0);
    other_imports(&fabric);
    actor_end(&other);
    assert_acl_ok(aclrtFreePhysical(handle));
}

static void the_exporting_process_imports_and_maps(void **state)
{
    struct block b = block_create(CHUNK);
    aclrtMemFabricHandle fabric = export_fabric(b.handle, OPEN);
    char *here = reserve(CHUNK);
    aclrtDrvMemHandle mine;

    assert_acl_ok(aclrtMemImportFromShareableHandleV2(&fabric, FABRIC, 0, &mine));
    map(here, CHUNK, mine);
    put_pattern(here, CHUNK, 3);
    assert_pattern(b.va, CHUNK, 3);
    assert_acl_ok(aclrtUnmapMem(here));
    assert_acl_ok(aclrtReleaseMemAddress(here));
    assert_acl_ok(aclrtFreePhysical(mine));
    block_destroy(&b);
}

static void strict_rules_do_not_let_the_exporting_process_import(void **state)
{
    aclrtDrvMemHandle handle = alloc(CHUNK), mine = NULL;
    aclrtMemFabricHandle fabric = export_fabric(handle, 0);

    assert_refused(aclrtMemImportFromShareableHandleV2(&fabric, FABRIC, 0, &mine),
                   ACL_ERROR_RT_PARAM_INVALID, "strict");
    assert_acl_ok(aclrtFreePhysical(handle));
}

static void memory_of_the_host_is_shared_too(void **state)
{
    struct block b = block_create_host(CHUNK);
    aclrtMemFabricHandle fabric = export_fabric(b.handle, OPEN);
    uint64_t handle, va;

    fill((uint8_t *)b.va, CHUNK, 4);
    begin_other();
    handle = other_imports(&fabric);
    va = done(&other, DO_RESERVE, CHUNK, 0, 0);
    done(&other, DO_MAP, va, CHUNK, handle);
    assert_int_equal(done(&other, DO_CHECK, va, CHUNK, 4), 0);
    actor_end(&other);
    block_destroy(&b);
}

static void another_process_exports(void **state)
{
    aclrtMemFabricHandle fabric;
    aclrtDrvMemHandle mine;
    struct answer answer;

    begin_other();
    answer = order(&other, DO_FABRIC, done(&other, DO_ALLOC, CHUNK, 0, 0), OPEN, 0);
    expect(answer, ACL_SUCCESS, "");
    memcpy(&fabric, answer.text, sizeof fabric);
    assert_acl_ok(aclrtMemImportFromShareableHandleV2(&fabric, FABRIC, 0, &mine));
    assert_acl_ok(aclrtFreePhysical(mine));
    actor_end(&other);
}

static void every_bit_of_the_handle_counts(void **state)
{
    aclrtDrvMemHandle handle = alloc(CHUNK);
    aclrtMemFabricHandle fabric = export_fabric(handle, OPEN);

    begin_other();
    for (size_t bit = 0; bit < 8 * sizeof fabric; bit++) {
        aclrtMemFabricHandle altered = fabric;

        altered.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_int_not_equal(order_bytes(&other, DO_FABRIC_IMPORT, &altered, 0).rc,
                             ACL_SUCCESS);
    }
    other_imports(&fabric);
    actor_end(&other);
    assert_acl_ok(aclrtFreePhysical(handle));
}

/* Each of 168 bits is seen both ways: 64 draws miss one once in 2^55 runs. */
static void handles_have_more_random_bits_than_a_number(void **state)
{
    enum { N = 64 };
    aclrtDrvMemHandle handles[N];
    uint8_t ones[128] = {0}, zeros[128] = {0};
    int n = 0;

    for (int i = 0; i < N; i++) {
        aclrtMemFabricHandle fabric;

        handles[i] = alloc(CHUNK);
        fabric = export_fabric(handles[i], OPEN);
        for (size_t k = 0; k < sizeof fabric; k++) {
            ones[k] |= fabric.data[k];
            zeros[k] |= (uint8_t)~fabric.data[k];
        }
    }
    for (size_t k = 0; k < sizeof ones; k++)
        n += __builtin_popcount(ones[k] & zeros[k]);
    assert_int_equal(n, 40 + 128);
    for (int i = 0; i < N; i++)
        assert_acl_ok(aclrtFreePhysical(handles[i]));
}

static void the_number_in_it_is_not_enough(void **state)
{
    aclrtDrvMemHandle handle = alloc(CHUNK), second = alloc(CHUNK), mine = NULL;
    aclrtMemFabricHandle fabric = export_fabric(handle, OPEN);
    uint64_t number = export_open(second);
    uint64_t inside;

    memcpy(&inside, &fabric.data[24],
           sizeof inside); /* begins as all of this process's */
    assert_int_equal(inside >> 40, number >> 40);
    assert_refused(aclrtMemImportFromShareableHandle(inside, 0, &mine),
                   ACL_ERROR_RT_NO_PERMISSION, "no process exports");
    begin_other();
    expect(order(&other, DO_IMPORT, inside, 0, 0), ACL_ERROR_RT_NO_PERMISSION,
           "does not let process");
    actor_end(&other);
    assert_acl_ok(aclrtFreePhysical(handle));
    assert_acl_ok(aclrtFreePhysical(second));
}

static void a_handle_of_another_machine_is_told(void **state)
{
    aclrtDrvMemHandle handle = alloc(CHUNK), mine = NULL;
    aclrtMemFabricHandle fabric = export_fabric(handle, OPEN), zero = {{0}};

    fabric.data[8] ^= 1;
    assert_refused(aclrtMemImportFromShareableHandleV2(&fabric, FABRIC, 0, &mine),
                   ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "another machine");
    assert_refused(aclrtMemImportFromShareableHandleV2(&zero, FABRIC, 0, &mine),
                   ACL_ERROR_RT_PARAM_INVALID, "not a fabric handle");
    assert_null(mine);
    assert_acl_ok(aclrtFreePhysical(handle));
}

static void a_handle_is_exported_once_and_dies_with_its_memory(void **state)
{
    aclrtDrvMemHandle handle = alloc(CHUNK);
    aclrtMemFabricHandle fabric = export_fabric(handle, OPEN), again;
    uint64_t number = 7;

    assert_refused(aclrtMemExportToShareableHandleV2(handle, OPEN, FABRIC, &again),
                   ACL_ERROR_RT_PARAM_INVALID, "already exported");
    assert_refused(
        aclrtMemExportToShareableHandle(handle, ACL_MEM_HANDLE_TYPE_NONE, OPEN, &number),
        ACL_ERROR_RT_PARAM_INVALID, "already exported");
    begin_other();
    done(&other, DO_FREE, other_imports(&fabric), 0, 0);
    assert_acl_ok(aclrtFreePhysical(handle));
    expect_refusal(&fabric, ACL_ERROR_RT_NO_PERMISSION, "freed");
    actor_end(&other);
}

static void other_products_have_none(void **state)
{
    aclrtMemFabricHandle fabric = {{0}};
    aclrtDrvMemHandle handle = alloc(CHUNK);
    int32_t pid = getpid();

    assert_refused(aclrtMemExportToShareableHandleV2(handle, 0, FABRIC, &fabric),
                   ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "or ACLMEM_PRODUCT=A3");
    assert_refused(aclrtMemSetPidToShareableHandleV2(&fabric, FABRIC, &pid, 1),
                   ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "FABRIC");
    assert_refused(aclrtMemImportFromShareableHandleV2(&fabric, FABRIC, 0, &handle),
                   ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "FABRIC");
    assert_acl_ok(aclrtFreePhysical(handle));
}

/* Memory of GPUs stays within the machine: that is told before the network is looked for. */
static void the_backend_says_whether_other_machines_reach_its_memory(void **state)
{
    const char *backend = getenv("ACLMEM_BACKEND");
    bool is_cuda = backend != NULL && strcmp(backend, "cuda") == 0;
    aclrtDrvMemHandle handle = alloc(CHUNK);
    aclrtMemFabricHandle fabric;
    uint64_t key;

    expect_warnings(1);
    assert_refused(aclrtMemExportToShareableHandleV2(handle, 0, FABRIC, &fabric),
                   is_cuda ? ACL_ERROR_RT_FEATURE_NOT_SUPPORT : ACL_ERROR_INVALID_PARAM,
                   is_cuda
                       ? "memory of the cuda backend cannot be reached over the network"
                       : "ACLMEM_FABRIC_KEY is not");
    assert_acl_ok(
        aclrtMemExportToShareableHandle(handle, ACL_MEM_HANDLE_TYPE_NONE, 0, &key));
    assert_acl_ok(aclrtFreePhysical(handle));
}

/* Also in a program that exports nothing. */
static void a_wrong_option_is_reported_at_the_start(void **state)
{
    static const char *const wrong[] = {"ACLMEM_FABRIC=nosuch0",
                                        "ACLMEM_FABRIC=203.0.113.7",
                                        "ACLMEM_FABRIC=203.0.113.7:7000"};
    char key[300];
    FILE *file;

    snprintf(key, sizeof key, "ACLMEM_FABRIC_KEY=%s.key", getenv("ACLMEM_RUNTIME_DIR"));
    umask(077);
    file = fopen(strchr(key, '=') + 1, "w");
    assert_non_null(file);
    fprintf(file, "%064d", 7);
    fclose(file);
    for (size_t i = 0; i <= sizeof wrong / sizeof wrong[0]; i++) {
        uint64_t before = stats().warnings;

        if (i < sizeof wrong / sizeof wrong[0])
            start("default", "ACLMEM_PRODUCT=A3", wrong[i], key);
        else
            start("default", "ACLMEM_PRODUCT=A3", "ACLMEM_FABRIC=127.0.0.1",
                  "ACLMEM_FABRIC_KEY=/nosuch");
        assert_int_equal(stats().warnings, before + 1);
        assert_acl_ok(aclFinalize());
    }
    expect_warnings(1); /* of the last start */
    unlink(strchr(key, '=') + 1);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        on_a3(a_listed_process_has_the_memory_too),
        on_a3(without_a_list_any_process_imports),
        on_a3(the_exporting_process_imports_and_maps),
        on_a3_strict(strict_rules_do_not_let_the_exporting_process_import),
        on_a3(memory_of_the_host_is_shared_too),
        on_a3(another_process_exports),
        on_a3(every_bit_of_the_handle_counts),
        on_a3(handles_have_more_random_bits_than_a_number),
        on_a3(the_number_in_it_is_not_enough),
        on_a3(a_handle_of_another_machine_is_told),
        on_a3(a_handle_is_exported_once_and_dies_with_its_memory),
        pair(other_products_have_none),
        on_network(the_backend_says_whether_other_machines_reach_its_memory),
        {"a_wrong_option_is_reported_at_the_start",
         a_wrong_option_is_reported_at_the_start, NULL, finish, NULL},
    };

    actor_main(argc, argv);
    return run_claims(tests);
}
