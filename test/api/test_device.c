/*
 * Devices: the current one, counting of set and reset, which are visible, how much
 * memory they have.
 */
#include "support/process.h"
#include "support/vmm.h"

#include <stdio.h>
#include <string.h>

static void no_device_is_current_until_one_is_set(void **state)
{
    size_t free = 7, total = 7;
    int32_t device = 7;

    start("default");
    assert_refused(aclrtGetDevice(&device), ACL_ERROR_RT_CONTEXT_NULL, "aclrtSetDevice");
    assert_refused(aclrtGetMemInfo(ACL_HBM_MEM, &free, &total), ACL_ERROR_RT_CONTEXT_NULL,
                   "aclrtSetDevice");
    assert_int_equal(device, 7);
    assert_int_equal(free, 7);
    assert_int_equal(total, 7);
}

static void the_device_set_last_is_current(void **state)
{
    int32_t device = 7;

    assert_acl_ok(aclrtGetDevice(&device));
    assert_int_equal(device, 0);
    assert_acl_ok(aclrtSetDevice(1));
    assert_acl_ok(aclrtGetDevice(&device));
    assert_int_equal(device, 1);
    assert_acl_ok(aclrtSetDevice(0));
    assert_acl_ok(aclrtGetDevice(&device));
    assert_int_equal(device, 0);
}

static void ids_out_of_range_are_refused(void **state)
{
    static const int32_t ids[] = {-1, 2, 3, 1000000, INT32_MIN, INT32_MAX};
    int32_t device = 7, active = 7;

    for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
        char text[32];

        snprintf(text, sizeof(text), "%d", ids[i]);
        assert_refused(aclrtSetDevice(ids[i]), ACL_ERROR_RT_INVALID_DEVICEID, text);
        assert_refused(aclrtResetDevice(ids[i]), ACL_ERROR_RT_INVALID_DEVICEID, text);
        assert_refused(aclrtResetDeviceForce(ids[i]), ACL_ERROR_RT_INVALID_DEVICEID,
                       text);
        assert_refused(aclrtGetPrimaryCtxState(ids[i], NULL, &active),
                       ACL_ERROR_RT_INVALID_DEVICEID, text);
    }
    assert_acl_ok(aclrtGetDevice(&device));
    assert_int_equal(device, 0);
    assert_int_equal(active, 7);
}

static void null_outputs_are_refused(void **state)
{
    size_t size = 7;

    assert_bad_arg(aclrtGetDevice(NULL), "deviceId|null");
    assert_bad_arg(aclrtGetDeviceCount(NULL), "count|null");
    assert_bad_arg(aclrtGetRunMode(NULL), "runMode|null");
    assert_bad_arg(aclrtGetMemInfo(ACL_HBM_MEM, NULL, &size), "free");
    assert_bad_arg(aclrtGetMemInfo(ACL_HBM_MEM, &size, NULL), "total");
    assert_bad_arg(aclrtGetPrimaryCtxState(0, NULL, NULL), "active");
    assert_int_equal(size, 7);
}

static void programs_run_on_the_host(void **state)
{
    aclrtRunMode mode = ACL_DEVICE;

    assert_acl_ok(aclrtGetRunMode(&mode));
    assert_int_equal(mode, ACL_HOST);
}

static void device_count_needs_no_device(void **state)
{
    uint32_t count = 0;

    start("default", "ACLMEM_DEVICES=1");
    assert_acl_ok(aclrtGetDeviceCount(&count));
    assert_int_equal(count, 1);
}

/* ---- counting ---- */

static bool is_active(int32_t device)
{
    int32_t active = 7;

    assert_acl_ok(aclrtGetPrimaryCtxState(device, NULL, &active));
    return active == 1;
}

static void as_many_resets_as_sets_end_a_device(void **state)
{
    int32_t device = 7;

    start("default");
    assert_false(is_active(0));
    for (int i = 0; i < 3; i++)
        assert_acl_ok(aclrtSetDevice(0));
    for (int i = 0; i < 2; i++) {
        assert_acl_ok(aclrtResetDevice(0));
        assert_true(is_active(0));
        assert_acl_ok(aclrtGetDevice(&device));
        assert_int_equal(device, 0);
    }
    assert_acl_ok(aclrtResetDevice(0));
    assert_false(is_active(0));
    assert_acl(aclrtGetDevice(&device), ACL_ERROR_RT_CONTEXT_NULL);
}

static void a_reset_too_many_is_refused(void **state)
{
    start("default");
    assert_acl_either(aclrtResetDevice(0), ACL_ERROR_RT_PARAM_INVALID,
                      ACL_ERROR_RT_CONTEXT_NULL);
    assert_acl_ok(aclrtSetDevice(0));
    assert_acl_ok(aclrtResetDevice(0));
    assert_acl_either(aclrtResetDevice(0), ACL_ERROR_RT_PARAM_INVALID,
                      ACL_ERROR_RT_CONTEXT_NULL);
    assert_message_has("aclrtSetDevice|reset");
    assert_acl_ok(aclrtSetDevice(0));
    assert_true(is_active(0));
}

static void force_ends_a_device_whatever_the_count(void **state)
{
    start("default");
    for (int i = 0; i < 3; i++)
        assert_acl_ok(aclrtSetDevice(0));
    assert_acl_ok(aclrtResetDeviceForce(0));
    assert_false(is_active(0));
    assert_acl_either(aclrtResetDeviceForce(0), ACL_ERROR_RT_PARAM_INVALID,
                      ACL_ERROR_RT_CONTEXT_NULL);
    assert_acl_either(aclrtResetDevice(0), ACL_ERROR_RT_PARAM_INVALID,
                      ACL_ERROR_RT_CONTEXT_NULL);
    assert_acl_ok(aclrtSetDevice(0));
    assert_acl_ok(aclrtResetDevice(0)); /* the count began anew */
    assert_false(is_active(0));
}

static void devices_are_counted_apart(void **state)
{
    int32_t device = 7;

    start("default");
    assert_acl_ok(aclrtSetDevice(1));
    assert_acl_ok(aclrtSetDevice(0));
    assert_true(is_active(0) && is_active(1));
    assert_acl_ok(aclrtResetDevice(1)); /* not the current one */
    assert_true(is_active(0));
    assert_false(is_active(1));
    assert_acl_ok(aclrtGetDevice(&device));
    assert_int_equal(device, 0);
}

static const char *use_device_1(struct worker *self)
{
    aclrtContext mine = NULL;
    int32_t device = 7;

    worker_check(aclrtGetDevice(&device) == ACL_ERROR_RT_CONTEXT_NULL);
    worker_check(aclrtGetCurrentContext(&mine) == ACL_ERROR_RT_CONTEXT_NULL);
    worker_check(aclrtSetDevice(0) == ACL_SUCCESS);
    worker_check(aclrtGetCurrentContext(&mine) == ACL_SUCCESS);
    worker_check(mine == self->shared);
    worker_check(aclrtSetDevice(1) == ACL_SUCCESS);
    worker_check(aclrtGetDevice(&device) == ACL_SUCCESS && device == 1);
    worker_check(aclrtResetDevice(0) == ACL_SUCCESS);
    worker_check(aclrtResetDevice(1) == ACL_SUCCESS);
    return NULL;
}

static void threads_have_their_own_device_and_share_its_default_context(void **state)
{
    aclrtContext context = NULL;
    int32_t device = 7;

    assert_acl_ok(aclrtGetCurrentContext(&context));
    assert_null(run_thread(use_device_1, context));
    assert_acl_ok(aclrtGetDevice(&device));
    assert_int_equal(device, 0);
    assert_true(is_active(0));
    assert_false(is_active(1));
}

/* ---- visible devices ---- */

static void visible_devices_are_a_list_read_up_to_the_first_bad_item(void **state)
{
    static const struct {
        const char *list;
        uint32_t count;
    } lists[] = {
        {"2,3", 2},   {"0,1,2,3", 4}, {"3", 1},
        {"0", 1},     {"0,2", 2},     {"1,0", 1},
        {"0,0", 1},   {"2,1,3", 1},   {"0,9", 1},
        {"1,x,3", 1}, {"0, 1", 1},    {"0,,1", 1},
        {"0,1,", 2},  {"0,-1", 1},    {"0,1x", 1},
        {"0;1", 0},   {"0,4", 1},     {"0,99999999999999", 1},
    };

    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
        char entry[64];
        uint32_t count = 99;

        snprintf(entry, sizeof(entry), "ASCEND_RT_VISIBLE_DEVICES=%s", lists[i].list);
        start("default", "ACLMEM_DEVICES=4", entry);
        allow_warnings();
        if (aclrtGetDeviceCount(&count) == ACL_ERROR_RT_NO_DEVICE)
            count = 0;
        if (count != lists[i].count)
            fail_msg("\"%s\" shows %u devices, not %u", lists[i].list, count,
                     lists[i].count);
        assert_acl(aclrtSetDevice((int32_t)count), ACL_ERROR_RT_INVALID_DEVICEID);
        if (count > 0)
            assert_acl_ok(aclrtSetDevice((int32_t)count - 1));
        assert_acl_ok(aclFinalize());
    }
}

/*
 * As measured on hardware: the allocation takes the program's number, the access the
 * driver's.
 */
static void access_takes_the_drivers_number_and_allocation_the_programs(void **state)
{
    aclrtPhysicalMemProp prop = device_prop(2, ACL_HBM_MEM_HUGE);
    aclrtDrvMemHandle handle = NULL;
    aclrtPtrAttributes attributes;
    struct block b;

    start("default", "ACLMEM_PRODUCT=A3", "ACLMEM_DEVICES=4",
          "ASCEND_RT_VISIBLE_DEVICES=2,3");
    assert_acl_ok(aclrtSetDevice(0));
    assert_refused(aclrtMallocPhysical(&handle, CHUNK, &prop, 0),
                   ACL_ERROR_RT_INVALID_DEVICEID, "2");
    b = block_create(CHUNK);
    assert_refused(set_access(b.va, CHUNK, ACL_MEM_LOCATION_TYPE_DEVICE, 0,
                              ACL_RT_MEM_ACCESS_FLAGS_READWRITE),
                   ACL_ERROR_RT_DRV_INTERNAL_ERROR, "location.id");
    assert_acl_ok(set_access(b.va, CHUNK, ACL_MEM_LOCATION_TYPE_DEVICE, 2,
                             ACL_RT_MEM_ACCESS_FLAGS_READWRITE));
    assert_int_equal(get_access(b.va, ACL_MEM_LOCATION_TYPE_DEVICE, 2),
                     ACL_RT_MEM_ACCESS_FLAGS_READWRITE);
    put_pattern(b.va, CHUNK, 5);
    assert_pattern(b.va, CHUNK, 5);
    assert_acl_ok(aclrtPointerGetAttributes(b.va, &attributes));
    assert_int_equal(attributes.location.id, 0);
    block_destroy(&b);
}

static void granularity_is_refused_like_the_allocation(void **state)
{
    aclrtPhysicalMemProp prop = device_prop(2, ACL_HBM_MEM_HUGE);
    size_t granularity = 7;

    start("default", "ACLMEM_DEVICES=4", "ASCEND_RT_VISIBLE_DEVICES=2,3");
    assert_refused(aclrtMemGetAllocationGranularity(
                       &prop, ACL_RT_MEM_ALLOC_GRANULARITY_MINIMUM, &granularity),
                   ACL_ERROR_RT_INVALID_DEVICEID, "2");
    prop.location.id = 1;
    assert_acl_ok(aclrtMemGetAllocationGranularity(
        &prop, ACL_RT_MEM_ALLOC_GRANULARITY_MINIMUM, &granularity));
    assert_int_equal(granularity, CHUNK);
}

/* ---- memory figures ---- */

static void free_memory_drops_at_allocation_not_at_mapping(void **state)
{
    size_t before = free_memory();
    aclrtDrvMemHandle handle;
    void *va;

    va = reserve(GIB);
    assert_int_equal(free_memory(), before);
    handle = alloc(4 * CHUNK);
    assert_int_equal(free_memory(), before - 4 * CHUNK);
    map(va, 4 * CHUNK, handle);
    assert_int_equal(free_memory(), before - 4 * CHUNK);
    assert_acl_ok(aclrtUnmapMem(va));
    assert_int_equal(free_memory(), before - 4 * CHUNK);
    assert_acl_ok(aclrtFreePhysical(handle));
    assert_int_equal(free_memory(), before);
    assert_acl_ok(aclrtReleaseMemAddress(va));
    assert_int_equal(total_memory(), GIB);
}

static void each_device_has_memory_of_its_own(void **state)
{
    aclrtDrvMemHandle handle = alloc_on(1, 8 * CHUNK);

    assert_int_equal(free_memory(), GIB);
    assert_acl_ok(aclrtSetDevice(1));
    assert_int_equal(free_memory(), GIB - 8 * CHUNK);
    assert_acl_ok(aclrtFreePhysical(handle));
    assert_int_equal(free_memory(), GIB);
}

static void host_memory_is_not_the_devices(void **state)
{
    aclrtDrvMemHandle handle = alloc_host(8 * CHUNK);

    assert_int_equal(free_memory(), GIB);
    assert_int_equal(stats().handles, 1);
    assert_acl_ok(aclrtFreePhysical(handle));
}

static void memory_is_reported_for_every_attribute_the_part_has(void **state)
{
    static const aclrtMemAttr has[] = {ACL_HBM_MEM, ACL_HBM_MEM_HUGE, ACL_HBM_MEM_NORMAL};
    static const aclrtMemAttr lacks[] = {ACL_DDR_MEM, ACL_DDR_MEM_HUGE,
                                         ACL_DDR_MEM_NORMAL};
    size_t free = 7, total = 7;

    for (size_t i = 0; i < 3; i++) {
        assert_acl_ok(aclrtGetMemInfo(has[i], &free, &total));
        assert_true(total > 0 && free > 0 && free <= total);
        assert_acl_ok(aclrtGetMemInfo(lacks[i], &free, &total));
        assert_int_equal(free, 0);
        assert_int_equal(total, 0);
    }
    free = total = 7;
    assert_bad_arg(aclrtGetMemInfo((aclrtMemAttr)99, &free, &total), "99");
    assert_int_equal(total, 7);
}

static void parts_without_hbm_answer_with_ddr(void **state)
{
    size_t free = 0, total = 0, ddr_free = 0, ddr_total = 0;

    start("default", "ACLMEM_PRODUCT=310P");
    assert_acl_ok(aclrtSetDevice(0));
    assert_acl_ok(aclrtGetMemInfo(ACL_HBM_MEM, &free, &total));
    assert_acl_ok(aclrtGetMemInfo(ACL_DDR_MEM, &ddr_free, &ddr_total));
    assert_int_equal(total, GIB);
    assert_int_equal(ddr_total, total);
    assert_int_equal(ddr_free, free);
}

int main(void)
{
    const struct CMUnitTest claims[] = {
        claim_alone(no_device_is_current_until_one_is_set),
        claim_both(the_device_set_last_is_current),
        claim_both(ids_out_of_range_are_refused),
        claim_both(null_outputs_are_refused),
        claim_both(programs_run_on_the_host),
        claim_alone(device_count_needs_no_device),
        claim_alone(as_many_resets_as_sets_end_a_device),
        claim_alone(a_reset_too_many_is_refused),
        claim_alone(force_ends_a_device_whatever_the_count),
        claim_alone(devices_are_counted_apart),
        claim_both(threads_have_their_own_device_and_share_its_default_context),
        claim_alone(visible_devices_are_a_list_read_up_to_the_first_bad_item),
        claim_alone(access_takes_the_drivers_number_and_allocation_the_programs),
        claim_alone(granularity_is_refused_like_the_allocation),
        claim_both(free_memory_drops_at_allocation_not_at_mapping),
        claim_both(each_device_has_memory_of_its_own),
        claim(host_memory_is_not_the_devices),
        claim_both(memory_is_reported_for_every_attribute_the_part_has),
        claim_alone(parts_without_hbm_answer_with_ddr),
    };

    return run_claims(claims);
}
