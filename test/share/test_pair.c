/* Physical memory in two processes: the documented sequences, and what is refused. */
#include "pair.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "aclmem/aclmem.h"

static void bytes_written_in_one_process_are_seen_in_the_other(void **state)
{
    struct block b = block_create(3 * CHUNK);
    uint64_t handle, va;

    put_pattern(b.va, b.size, 1);
    va = other_has(export_open(b.handle), b.size, &handle);
    assert_int_equal(done(&other, DO_CHECK, va, b.size, 1), 0);
    done(&other, DO_PUT, va, b.size, 2);
    assert_pattern(b.va, b.size, 2);
    put_pattern(b.va + CHUNK, CHUNK, 3);
    assert_int_equal(done(&other, DO_CHECK, va + CHUNK, CHUNK, 3), 0);
    done(&other, DO_UNMAP, va, 0, 0);
    done(&other, DO_RELEASE, va, 0, 0);
    done(&other, DO_FREE, handle, 0, 0);
    block_destroy(&b);
    actor_end(&other);
}

static void a_process_on_the_list_imports(void **state)
{
    aclrtDrvMemHandle handle = alloc(CHUNK);
    uint64_t number = 0;
    int32_t pid;

    assert_acl_ok(
        aclrtMemExportToShareableHandle(handle, ACL_MEM_HANDLE_TYPE_NONE, 0, &number));
    actor_start(&other, ACTOR_PLAIN);
    done(&other, DO_INIT, 0, 0, 0);
    expect(order(&other, DO_IMPORT, number, 0, 0), ACL_ERROR_RT_NO_PERMISSION,
           "aclrtMemSetPidToShareableHandle");
    pid = (int32_t)done(&other, DO_TGID, 0, 0, 0);
    assert_acl_ok(aclrtMemSetPidToShareableHandle(number, &pid, 1));
    done(&other, DO_IMPORT, number, 0, 0);
    actor_end(&other);
    assert_acl_ok(aclrtFreePhysical(handle));
}

static void memory_that_was_never_written_reads_as_zero_in_both(void **state)
{
    struct block b = block_create(2 * CHUNK);
    uint64_t handle, va = other_has(export_open(b.handle), b.size, &handle);

    assert_all_bytes(b.va, b.size, 0);
    done(&other, DO_PUT, va, CHUNK, 9);
    assert_pattern(b.va, CHUNK, 9);
    assert_all_bytes(b.va + CHUNK, CHUNK, 0);
    actor_end(&other);
    block_destroy(&b);
}

/* What this process left in frames that it gets again is not shown to others. */
static void what_was_left_in_memory_that_was_not_written_since_stays_here(void **state)
{
    struct block b = block_create(4 * CHUNK);
    uint64_t handle, va;

    put_pattern(b.va, b.size, 33);
    block_destroy(&b);
    b = block_create(4 * CHUNK); /* the same frames, as far as anybody can tell */
    put_pattern(b.va + CHUNK, CHUNK, 34);
    va = other_has(export_open(b.handle), b.size, &handle);
    done(&other, DO_PUT, va, CHUNK, 35);
    assert_int_equal(done(&other, DO_CHECK, va + CHUNK, CHUNK, 34), 0);
    assert_all_bytes(b.va + 2 * CHUNK, 2 * CHUNK, 0);
    actor_end(&other);
    block_destroy(&b);
}

static void every_mapping_from_before_the_export_follows(void **state)
{
    struct block b = block_create(2 * CHUNK);
    char *second = reserve(2 * CHUNK);
    uint64_t handle, va;

    map(second, b.size, b.handle);
    put_pattern(b.va, CHUNK, 4); /* the other half holds nothing */
    va = other_has(export_open(b.handle), b.size, &handle);
    assert_pattern(second, CHUNK, 4);
    done(&other, DO_PUT, va + CHUNK, CHUNK, 5);
    assert_pattern(b.va + CHUNK, CHUNK, 5);
    assert_pattern(second + CHUNK, CHUNK, 5);
    actor_end(&other);
    assert_acl_ok(aclrtUnmapMem(second));
    assert_acl_ok(aclrtReleaseMemAddress(second));
    block_destroy(&b);
}

static void a_handle_can_be_mapped_after_its_export(void **state)
{
    aclrtDrvMemHandle handle = alloc(CHUNK);
    uint64_t there, va = other_has(export_open(handle), CHUNK, &there);
    char *here = reserve(CHUNK);

    done(&other, DO_PUT, va, CHUNK, 6);
    map(here, CHUNK, handle);
    assert_pattern(here, CHUNK, 6);
    actor_end(&other);
    assert_acl_ok(aclrtUnmapMem(here));
    assert_acl_ok(aclrtReleaseMemAddress(here));
    assert_acl_ok(aclrtFreePhysical(handle));
}

static void a_handle_is_exported_once(void **state)
{
    aclrtDrvMemHandle handle = alloc(CHUNK);
    uint64_t number = export_open(handle);
    uint64_t again = 77;

    assert_refused(
        aclrtMemExportToShareableHandle(handle, ACL_MEM_HANDLE_TYPE_NONE, OPEN, &again),
        ACL_ERROR_RT_PARAM_INVALID, "already exported");
    assert_int_equal(again, 77);
    actor_start(&other, ACTOR_PLAIN);
    done(&other, DO_INIT, 0, 0, 0);
    done(&other, DO_IMPORT, number, 0, 0);
    actor_end(&other);
    assert_acl_ok(aclrtFreePhysical(handle));
}

static void an_imported_handle_is_not_exported(void **state)
{
    aclrtDrvMemHandle handle = alloc(CHUNK);
    uint64_t there;

    actor_start(&other, ACTOR_PLAIN);
    done(&other, DO_INIT, 0, 0, 0);
    there = done(&other, DO_IMPORT, export_open(handle), 0, 0);
    expect(order(&other, DO_EXPORT, there, OPEN, 0), ACL_ERROR_RT_PARAM_INVALID,
           "imported");
    actor_end(&other);
    assert_acl_ok(aclrtFreePhysical(handle));
}

static void a_number_is_imported_once_at_a_time(void **state)
{
    aclrtDrvMemHandle handle = alloc(CHUNK);
    uint64_t number = export_open(handle);
    uint64_t there, va = other_has(number, CHUNK, &there);

    expect(order(&other, DO_IMPORT, number, 0, 0), ACL_ERROR_RT_PARAM_INVALID,
           "already imported in this process");
    done(&other, DO_FREE, there, 0, 0);
    expect(order(&other, DO_IMPORT, number, 0, 0), ACL_ERROR_RT_PARAM_INVALID,
           "already imported in this process");
    done(&other, DO_UNMAP, va, 0, 0);
    done(&other, DO_IMPORT, number, 0, 0);
    actor_end(&other);
    assert_acl_ok(aclrtFreePhysical(handle));
}

static void the_exporting_process_may_import(void **state)
{
    struct block b = block_create(CHUNK);
    char *here = reserve(CHUNK);
    aclrtDrvMemHandle mine;

    put_pattern(b.va, CHUNK, 11);
    mine = import(export_open(b.handle));
    assert_ptr_not_equal(mine, b.handle);
    map(here, CHUNK, mine);
    assert_pattern(here, CHUNK, 11);
    put_pattern(here, CHUNK, 12);
    assert_pattern(b.va, CHUNK, 12);
    assert_acl_ok(aclrtUnmapMem(here));
    assert_acl_ok(aclrtReleaseMemAddress(here));
    assert_acl_ok(aclrtFreePhysical(mine));
    block_destroy(&b);
}

/* The same bytes by two handles: as with memory that is mapped twice. */
static void copies_between_memory_and_its_import_may_overlap(void **state)
{
    static const size_t shifts[] = {100, 4096 + 1, CHUNK - 1, CHUNK};
    struct block b = block_create(2 * CHUNK);
    uint64_t number = export_open(b.handle);
    char *again = reserve(b.size);
    aclrtDrvMemHandle mine;

    assert_acl_ok(aclrtMemImportFromShareableHandle(number, 0, &mine));
    map(again, b.size, mine);
    for (size_t i = 0; i < sizeof(shifts) / sizeof(shifts[0]); i++) {
        size_t by = shifts[i], n = b.size - by;

        put_pattern(b.va, n, 1);
        assert_acl_ok(copy(again + by, b.va, n, ACL_MEMCPY_DEVICE_TO_DEVICE));
        assert_pattern(b.va + by, n, 1);
        put_pattern(b.va, n, 2);
        assert_acl_ok(copy(b.va + by, again, n, ACL_MEMCPY_DEVICE_TO_DEVICE));
        assert_pattern(b.va + by, n, 2);
        put_pattern(b.va + by, n, 3);
        assert_acl_ok(copy(again, b.va + by, n, ACL_MEMCPY_DEVICE_TO_DEVICE));
        assert_pattern(b.va, n, 3);
    }
    assert_acl_ok(aclrtUnmapMem(again));
    assert_acl_ok(aclrtFreePhysical(mine));
    assert_acl_ok(aclrtReleaseMemAddress(again));
    block_destroy(&b);
}

static void strict_rules_do_not_let_the_exporting_process_import(void **state)
{
    aclrtDrvMemHandle handle = alloc(CHUNK);
    aclrtDrvMemHandle mine = NULL;
    uint64_t number;

    assert_acl_ok(
        aclrtMemExportToShareableHandle(handle, ACL_MEM_HANDLE_TYPE_NONE, 0, &number));
    assert_refused(aclrtMemImportFromShareableHandle(number, 0, &mine),
                   ACL_ERROR_RT_PARAM_INVALID, "strict");
    assert_acl_ok(aclrtFreePhysical(handle));
}

static void strict_rules_want_the_list(void **state)
{
    aclrtDrvMemHandle handle = alloc(CHUNK);
    uint64_t number;

    assert_bad_arg(
        aclrtMemExportToShareableHandle(handle, ACL_MEM_HANDLE_TYPE_NONE, OPEN, &number),
        "strict");
    assert_acl_ok(aclrtFreePhysical(handle));
}

/* A reservation with own memory in its first chunk, and imported memory behind it. */
static void map_beside_own(uint64_t number, aclError code)
{
    char *va = reserve(2 * CHUNK);
    aclrtDrvMemHandle own = alloc(CHUNK);
    aclrtDrvMemHandle mine = import(number);

    map(va, CHUNK, own);
    assert_acl(aclrtMapMem(va + CHUNK, CHUNK, 0, mine, 0), code);
    if (code == ACL_SUCCESS)
        assert_acl_ok(aclrtUnmapMem(va + CHUNK));
    assert_acl_ok(aclrtUnmapMem(va));
    assert_acl_ok(aclrtFreePhysical(own));
    assert_acl_ok(aclrtFreePhysical(mine));
    assert_acl_ok(aclrtReleaseMemAddress(va));
}

static void own_and_imported_memory_share_a_reservation(void **state)
{
    map_beside_own(number_of_other(OPEN), ACL_SUCCESS);
}

static void strict_rules_keep_own_and_imported_memory_apart(void **state)
{
    map_beside_own(number_of_other(0), ACL_ERROR_RT_PARAM_INVALID);
}

static void memory_of_another_device_needs_peer_access_when_it_is_used(void **state)
{
    struct block b = block_create(CHUNK);
    uint64_t there, va;

    put_pattern(b.va, CHUNK, 13);
    actor_start(&other, ACTOR_PLAIN);
    done(&other, DO_INIT, 1, 0, 0);
    there = done(&other, DO_IMPORT, export_open(b.handle), 1, 0);
    va = done(&other, DO_RESERVE, CHUNK, 0, 0);
    done(&other, DO_MAP, va, CHUNK, there);
    expect(order(&other, DO_CHECK, va, CHUNK, 13), ACL_ERROR_RT_PARAM_INVALID,
           "aclrtDeviceEnablePeerAccess");
    done(&other, DO_PEER, 0, 0, 0);
    assert_int_equal(done(&other, DO_CHECK, va, CHUNK, 13), 0);
    actor_end(&other);
    block_destroy(&b);
}

static void host_memory_is_shared_and_touched_by_both(void **state)
{
    struct block b = block_create_host(2 * CHUNK);
    uint64_t there, va;

    fill((uint8_t *)b.va, b.size, 14);
    va = other_has(export_open(b.handle), b.size, &there);
    assert_int_equal(done(&other, DO_CHECK, va, b.size, 14), 0);
    done(&other, DO_PUT, va, b.size, 15);
    assert_true(is_filled((uint8_t *)b.va, b.size, 15));
    actor_end(&other);
    block_destroy(&b);
}

static void memory_that_programs_can_touch_is_shared(void **state)
{
    struct block b;
    uint64_t there, va;

    start("default", "ACLMEM_ISOLATE=0");
    assert_acl_ok(aclrtSetDevice(0));
    b = block_create(2 * CHUNK);
    fill((uint8_t *)b.va, b.size, 16);
    va = other_has(export_open(b.handle), b.size, &there);
    assert_int_equal(done(&other, DO_CHECK, va, b.size, 16), 0);
    done(&other, DO_PUT, va, b.size, 17);
    assert_true(is_filled((uint8_t *)b.va, b.size, 17));
    actor_end(&other);
    block_destroy(&b);
}

static void an_importer_may_touch_what_the_exporter_may_not(void **state)
{
    struct block b = block_create(2 * CHUNK);
    uint64_t there, va;

    put_pattern(b.va, b.size, 36);
    setenv("ACLMEM_ISOLATE", "0", 1);
    va = other_has(export_open(b.handle), b.size, &there);
    assert_int_equal(done(&other, DO_CHECK, va, b.size, 36), 0);
    done(&other, DO_PUT, va, b.size, 37);
    assert_pattern(b.va, b.size, 37);
    done(&other, DO_UNMAP, va, 0, 0);
    done(&other, DO_MAP, va, CHUNK, there);
    assert_int_equal(done(&other, DO_CHECK, va, CHUNK, 37), 0);
    actor_end(&other);
    block_destroy(&b);
}

static void memory_that_is_taken_at_once_is_exported(void **state)
{
    struct block b;
    uint64_t there, va;

    start("default", "ACLMEM_COMMIT=now");
    assert_acl_ok(aclrtSetDevice(0));
    b = block_create(2 * CHUNK);
    put_pattern(b.va, CHUNK, 38);
    va = other_has(export_open(b.handle), b.size, &there);
    assert_int_equal(done(&other, DO_CHECK, va, CHUNK, 38), 0);
    assert_all_bytes(b.va + CHUNK, CHUNK, 0);
    actor_end(&other);
    block_destroy(&b);
}

static void an_imported_handle_is_described_as_the_exporters(void **state)
{
    aclrtPhysicalMemProp prop;
    aclrtDrvMemHandle mine = import(number_of_other(OPEN));
    aclrtDrvMemHandle again;
    char *va = reserve(CHUNK);

    memset(&prop, 0x5a, sizeof prop);
    assert_acl_ok(aclrtMemGetAllocationPropertiesFromHandle(mine, &prop));
    assert_int_equal(prop.memAttr, ACL_HBM_MEM_HUGE);
    assert_int_equal(prop.location.type, ACL_MEM_LOCATION_TYPE_DEVICE);
    assert_int_equal(prop.location.id, 0);
    assert_int_equal(prop.reserve, 0);
    map(va, CHUNK, mine);
    assert_acl_ok(aclrtMemRetainAllocationHandle(va, &again));
    assert_ptr_equal(again, mine);
    assert_acl_ok(aclrtFreePhysical(mine));
    assert_acl_ok(aclrtUnmapMem(va));
    assert_acl_ok(aclrtFreePhysical(again));
    assert_acl_ok(aclrtReleaseMemAddress(va));
}

static void the_second_form_shares_the_same_way(void **state)
{
    struct block b = block_create(CHUNK);
    aclrtMemSharedHandleType type = ACL_MEM_SHARE_HANDLE_TYPE_DEFAULT;
    uint64_t number = 0;
    aclrtDrvMemHandle mine;
    int32_t pid;

    assert_acl_ok(aclrtMemExportToShareableHandleV2(b.handle, 0, type, &number));
    put_pattern(b.va, CHUNK, 18);
    actor_start(&other, ACTOR_PLAIN);
    done(&other, DO_INIT, 0, 0, 0);
    pid = (int32_t)done(&other, DO_TGID, 0, 0, 0);
    assert_acl_ok(aclrtMemSetPidToShareableHandleV2(&number, type, &pid, 1));
    done(&other, DO_IMPORT, number, 0, 0);
    assert_acl_ok(aclrtMemImportFromShareableHandleV2(&number, type, 0, &mine));
    assert_acl_ok(aclrtFreePhysical(mine));
    actor_end(&other);
    block_destroy(&b);
}

static void wrong_arguments_are_refused(void **state)
{
    aclrtDrvMemHandle handle = alloc(CHUNK);
    aclrtDrvMemHandle out = NULL;
    aclrtMemSharedHandleType type = ACL_MEM_SHARE_HANDLE_TYPE_DEFAULT;
    uint64_t number = 0;
    int32_t pid = getpid();

#define EXPORT aclrtMemExportToShareableHandle
    assert_bad_arg(EXPORT(NULL, 0, 0, &number), "handle");
    assert_bad_arg(EXPORT(handle, 0, 0, NULL), "shareableHandle");
    assert_bad_arg(EXPORT(handle, ACL_MEM_HANDLE_TYPE_POSIX, 0, &number), "handleType");
    assert_bad_arg(EXPORT(handle, 0, 2, &number), "flags");
    assert_refused(EXPORT(&pid, 0, 0, &number), ACL_ERROR_RT_INVALID_HANDLE, "handle");
    assert_bad_arg(aclrtMemExportToShareableHandleV2(handle, 0, type, NULL),
                   "shareableHandle");
    assert_bad_arg(aclrtMemExportToShareableHandleV2(handle, 0, 7, &number), "shareType");
    assert_bad_arg(aclrtMemSetPidToShareableHandle(1, NULL, 1), "pid");
    assert_bad_arg(aclrtMemSetPidToShareableHandle(1, &pid, 0), "pidNum");
    assert_refused(aclrtMemSetPidToShareableHandle(1, &pid, 1),
                   ACL_ERROR_RT_PARAM_INVALID, "does not export");
    assert_bad_arg(aclrtMemSetPidToShareableHandleV2(NULL, type, &pid, 1),
                   "shareableHandle");
    assert_bad_arg(aclrtMemImportFromShareableHandle(1, 0, NULL), "handle");
    assert_refused(aclrtMemImportFromShareableHandle(1, 2, &out),
                   ACL_ERROR_RT_INVALID_DEVICEID, "device 2");
    assert_refused(aclrtMemImportFromShareableHandle(1, 0, &out),
                   ACL_ERROR_RT_NO_PERMISSION, "no process exports");
    assert_bad_arg(aclrtMemImportFromShareableHandleV2(&number, type, 1, &out), "flags");
    assert_bad_arg(aclrtMemImportFromShareableHandleV2(NULL, type, 0, &out),
                   "shareableHandle");
    assert_bad_arg(aclrtDeviceGetBareTgid(NULL), "pid");
    assert_null(out);
    assert_acl_ok(aclrtFreePhysical(handle));
}

static void memory_with_an_open_view_is_not_moved(void **state)
{
    struct block b = block_create(CHUNK);
    uint64_t number;
    void *view;

    assert_acl_ok(aclmem_host_view(b.va, CHUNK, &view));
    assert_refused(aclrtMemExportToShareableHandle(b.handle, ACL_MEM_HANDLE_TYPE_NONE,
                                                   OPEN, &number),
                   ACL_ERROR_RT_PARAM_INVALID, "host view");
    fill(view, CHUNK, 19);
    assert_acl_ok(aclmem_host_view_end(view));
    number = export_open(b.handle);
    assert_pattern(b.va, CHUNK, 19);
    assert_acl_ok(aclmem_host_view(b.va, CHUNK, &view));
    assert_true(is_filled(view, CHUNK, 19));
    fill(view, CHUNK, 20);
    assert_acl_ok(aclmem_host_view_end(view));
    assert_pattern(b.va, CHUNK, 20);
    block_destroy(&b);
}

/* Where the value is to come is looked up at each look at it. */
static void a_stream_may_wait_for_a_value_that_the_importer_writes(void **state)
{
    struct block b = block_create(CHUNK);
    aclrtStream stream;
    uint8_t first[8];
    uint64_t handle, va, value;

    fill(first, sizeof first, 41);
    memcpy(&value, first, sizeof value);
    assert_acl_ok(aclrtCreateStream(&stream));
    assert_acl_ok(aclrtValueWait(b.va, value, ACL_STREAM_WAIT_VALUE_EQ, stream));
    va = other_has(export_open(b.handle), b.size, &handle);
    done(&other, DO_PUT, va, sizeof first, 41);
    assert_acl_ok(aclrtSynchronizeStream(stream));
    assert_acl_ok(aclrtDestroyStream(stream));
    actor_end(&other);
    block_destroy(&b);
}

/* Two views of imported memory have two addresses, as those of own memory have. */
static void imported_memory_can_be_viewed(void **state)
{
    aclrtDrvMemHandle mine = import(number_of_other(OPEN));
    char *va = reserve(CHUNK);
    void *one, *two;

    map(va, CHUNK, mine);
    assert_acl_ok(aclmem_host_view(va, CHUNK, &one));
    assert_acl_ok(aclmem_host_view(va, CHUNK, &two));
    assert_ptr_not_equal(one, two);
    fill(one, CHUNK, 21);
    assert_true(is_filled(two, CHUNK, 21));
    assert_acl_ok(aclmem_host_view_end(two));
    assert_acl_ok(aclmem_host_view_end(one));
    assert_pattern(va, CHUNK, 21);
    assert_acl_ok(aclrtUnmapMem(va));
    assert_acl_ok(aclrtFreePhysical(mine));
    assert_acl_ok(aclrtReleaseMemAddress(va));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        pair(bytes_written_in_one_process_are_seen_in_the_other),
        pair(a_process_on_the_list_imports),
        pair_strict(a_process_on_the_list_imports),
        pair(memory_that_was_never_written_reads_as_zero_in_both),
        pair(what_was_left_in_memory_that_was_not_written_since_stays_here),
        pair(every_mapping_from_before_the_export_follows),
        pair(a_handle_can_be_mapped_after_its_export),
        pair(a_handle_is_exported_once),
        pair(an_imported_handle_is_not_exported),
        pair(a_number_is_imported_once_at_a_time),
        pair(the_exporting_process_may_import),
        pair(copies_between_memory_and_its_import_may_overlap),
        pair_strict(strict_rules_do_not_let_the_exporting_process_import),
        pair_strict(strict_rules_want_the_list),
        pair(own_and_imported_memory_share_a_reservation),
        pair_strict(strict_rules_keep_own_and_imported_memory_apart),
        pair(memory_of_another_device_needs_peer_access_when_it_is_used),
        pair(host_memory_is_shared_and_touched_by_both),
        pair_alone(memory_that_programs_can_touch_is_shared),
        pair(an_importer_may_touch_what_the_exporter_may_not),
        pair_alone(memory_that_is_taken_at_once_is_exported),
        pair(an_imported_handle_is_described_as_the_exporters),
        pair(the_second_form_shares_the_same_way),
        pair(wrong_arguments_are_refused),
        pair(memory_with_an_open_view_is_not_moved),
        pair(a_stream_may_wait_for_a_value_that_the_importer_writes),
        pair(imported_memory_can_be_viewed),
    };

    actor_main(argc, argv);
    return run_claims(tests);
}
