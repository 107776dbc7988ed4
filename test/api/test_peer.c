/* Peer access: who can reach whom, and how long. */
#include "support/process.h"
#include "support/vmm.h"

static int32_t can_access(int32_t device, int32_t peer)
{
    int32_t can = 7;

    assert_acl_ok(aclrtDeviceCanAccessPeer(&can, device, peer));
    return can;
}

static int32_t status_of(int32_t device, int32_t peer)
{
    int32_t status = 7;

    assert_acl_ok(aclrtDevicePeerAccessStatus(device, peer, &status));
    return status;
}

/* ---- who could ---- */

static void devices_of_most_products_can_reach_each_other(void **state)
{
    static const struct {
        const char *option;
        int32_t can;
    } rows[] = {
        {"ACLMEM_PRODUCT=950", 1},  {"ACLMEM_PRODUCT=A3", 1},
        {"ACLMEM_PRODUCT=A2", 1},   {"ACLMEM_PRODUCT=910", 1},
        {"ACLMEM_PRODUCT=310P", 1}, {"ACLMEM_PRODUCT=310B", 0},
        {"ACLMEM_PRODUCT=310", 0},  {"ACLMEM_PRODUCT=310B-EP", 0},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        start("default", rows[i].option);
        assert_int_equal(can_access(0, 1), rows[i].can);
        assert_int_equal(can_access(1, 0), rows[i].can);
        assert_acl_ok(aclFinalize());
    }
}

static void a_product_without_peers_refuses_them(void **state)
{
    start("default", "ACLMEM_PRODUCT=310B");
    assert_acl_ok(aclrtSetDevice(0));
    assert_refused(aclrtDeviceEnablePeerAccess(1, 0), ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                   "peer");
    assert_refused(aclrtDeviceDisablePeerAccess(1), ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                   "peer");
    assert_int_equal(status_of(0, 1), 0);
}

static void the_question_needs_two_devices(void **state)
{
    int32_t can = 7;

    assert_bad_arg(aclrtDeviceCanAccessPeer(&can, 0, 0), "differ");
    assert_refused(aclrtDeviceCanAccessPeer(&can, 0, 2), ACL_ERROR_RT_INVALID_DEVICEID,
                   "2");
    assert_refused(aclrtDeviceCanAccessPeer(&can, 2, 0), ACL_ERROR_RT_INVALID_DEVICEID,
                   "2");
    assert_refused(aclrtDeviceCanAccessPeer(&can, -1, -1), ACL_ERROR_RT_INVALID_DEVICEID,
                   "-1");
    assert_bad_arg(aclrtDeviceCanAccessPeer(NULL, 0, 1), "canAccessPeer");
    assert_int_equal(can, 7);
}

static void could_is_not_may(void **state)
{
    assert_int_equal(can_access(0, 1), 1);
    assert_int_equal(status_of(0, 1), 0);
    assert_int_equal(status_of(1, 0), 0);
}

/* ---- enabling ---- */

static void access_goes_one_way(void **state)
{
    assert_acl_ok(aclrtDeviceEnablePeerAccess(1, 0));
    assert_int_equal(status_of(0, 1), 1);
    assert_int_equal(status_of(1, 0), 0);
    assert_acl_ok(aclrtSetDevice(1));
    assert_acl_ok(aclrtDeviceEnablePeerAccess(0, 0));
    assert_int_equal(status_of(1, 0), 1);
    assert_acl_ok(aclrtDeviceDisablePeerAccess(0));
    assert_int_equal(status_of(1, 0), 0);
    assert_int_equal(status_of(0, 1), 1);
}

static void pairs_are_independent(void **state)
{
    start("default", "ACLMEM_DEVICES=63", "ACLMEM_MEMORY=16M");
    assert_acl_ok(aclrtSetDevice(5));
    assert_acl_ok(aclrtDeviceEnablePeerAccess(62, 0));
    assert_acl_ok(aclrtDeviceEnablePeerAccess(0, 0));
    for (int32_t from = 0; from < 63; from++) {
        for (int32_t to = 0; to < 63; to++)
            assert_int_equal(status_of(from, to), from == 5 && (to == 62 || to == 0));
    }
    assert_acl_ok(aclrtDeviceDisablePeerAccess(62));
    assert_int_equal(status_of(5, 62), 0);
    assert_int_equal(status_of(5, 0), 1);
}

static void a_second_time_changes_nothing(void **state)
{
    assert_acl_ok(aclrtDeviceDisablePeerAccess(1)); /* it is not enabled */
    assert_acl_ok(aclrtDeviceEnablePeerAccess(1, 0));
    assert_acl_ok(aclrtDeviceEnablePeerAccess(1, 0));
    assert_int_equal(status_of(0, 1), 1);
    assert_acl_ok(aclrtDeviceDisablePeerAccess(1));
    assert_int_equal(status_of(0, 1), 0);
    assert_acl_ok(aclrtDeviceDisablePeerAccess(1));
    assert_int_equal(status_of(0, 1), 0);
}

static const char *enable_in_another_thread(struct worker *self)
{
    worker_check(aclrtSetDevice(0) == ACL_SUCCESS);
    worker_check(aclrtDeviceEnablePeerAccess(1, 0) == ACL_SUCCESS);
    worker_check(aclrtResetDevice(0) == ACL_SUCCESS);
    return NULL;
}

static void access_belongs_to_the_device(void **state)
{
    aclrtContext context = NULL;

    assert_null(run_thread(enable_in_another_thread, NULL));
    assert_int_equal(status_of(0, 1), 1);
    assert_acl_ok(aclrtCreateContext(&context, 0));
    assert_acl_ok(aclrtDeviceDisablePeerAccess(1));
    assert_acl_ok(aclrtDestroyContext(context));
    assert_acl_ok(aclrtSetDevice(0));
    assert_int_equal(status_of(0, 1), 0);
}

static void the_peer_needs_not_be_set(void **state)
{
    int32_t active = 7;

    assert_acl_ok(aclrtDeviceEnablePeerAccess(1, 0));
    assert_acl_ok(aclrtGetPrimaryCtxState(1, NULL, &active));
    assert_int_equal(active, 0);
}

static void bad_arguments_are_refused(void **state)
{
    int32_t status = 7;

    assert_bad_arg(aclrtDeviceEnablePeerAccess(1, 1), "flags");
    assert_refused(aclrtDeviceEnablePeerAccess(0, 0), ACL_ERROR_RT_PARAM_INVALID,
                   "current device");
    assert_refused(aclrtDeviceDisablePeerAccess(0), ACL_ERROR_RT_PARAM_INVALID,
                   "current device");
    assert_refused(aclrtDeviceEnablePeerAccess(2, 0), ACL_ERROR_RT_INVALID_DEVICEID, "2");
    assert_refused(aclrtDeviceEnablePeerAccess(-1, 0), ACL_ERROR_RT_INVALID_DEVICEID,
                   "-1");
    assert_refused(aclrtDeviceDisablePeerAccess(64), ACL_ERROR_RT_INVALID_DEVICEID, "64");
    assert_bad_arg(aclrtDevicePeerAccessStatus(0, 1, NULL), "status");
    assert_int_equal(status_of(0, 1), 0);
    assert_int_equal(status, 7);
}

static void enabling_needs_a_current_device(void **state)
{
    start("default");
    assert_refused(aclrtDeviceEnablePeerAccess(1, 0), ACL_ERROR_RT_CONTEXT_NULL,
                   "aclrtSetDevice");
    assert_refused(aclrtDeviceDisablePeerAccess(1), ACL_ERROR_RT_CONTEXT_NULL,
                   "aclrtSetDevice");
    assert_int_equal(status_of(0, 1), 0);
    assert_int_equal(can_access(0, 1), 1);
}

/* The documents leave open what a device that does not exist gives: 0, or an error. */
static void the_status_of_no_device_is_off(void **state)
{
    static const int32_t ids[] = {-1, 2, 63, 64, INT32_MIN, INT32_MAX};

    for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
        assert_int_equal(status_of(ids[i], 0), 0);
        assert_int_equal(status_of(0, ids[i]), 0);
    }
    assert_int_equal(status_of(0, 0), 0);
}

static void strict_refuses_the_status_of_no_device(void **state)
{
    static const int32_t ids[] = {-1, 2, 64, INT32_MIN, INT32_MAX};
    int32_t status = 7;

    for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
        assert_refused(aclrtDevicePeerAccessStatus(ids[i], 0, &status),
                       ACL_ERROR_RT_PARAM_INVALID, "strict");
        assert_refused(aclrtDevicePeerAccessStatus(0, ids[i], &status),
                       ACL_ERROR_RT_PARAM_INVALID, "strict");
    }
    assert_int_equal(status, 7);
    assert_int_equal(status_of(0, 0), 0);
}

/* ---- how long ---- */

static void the_last_reset_ends_what_a_device_may_reach(void **state)
{
    assert_acl_ok(aclrtDeviceEnablePeerAccess(1, 0));
    assert_acl_ok(aclrtSetDevice(0));
    assert_acl_ok(aclrtResetDevice(0));
    assert_int_equal(status_of(0, 1), 1);
    assert_acl_ok(aclrtResetDevice(0));
    assert_int_equal(status_of(0, 1), 0);
    assert_acl_ok(aclrtSetDevice(0));
    assert_int_equal(status_of(0, 1), 0);
}

static void so_does_a_forced_one(void **state)
{
    assert_acl_ok(aclrtSetDevice(0));
    assert_acl_ok(aclrtDeviceEnablePeerAccess(1, 0));
    assert_acl_ok(aclrtResetDeviceForce(0));
    assert_int_equal(status_of(0, 1), 0);
}

static void a_reset_of_the_peer_leaves_it(void **state)
{
    assert_acl_ok(aclrtSetDevice(1));
    assert_acl_ok(aclrtDeviceEnablePeerAccess(0, 0));
    assert_acl_ok(aclrtSetDevice(0));
    assert_acl_ok(aclrtResetDeviceForce(0));
    assert_int_equal(status_of(1, 0), 1);
}

static void the_end_of_the_library_ends_it(void **state)
{
    assert_acl_ok(aclrtDeviceEnablePeerAccess(1, 0));
    assert_acl_ok(aclFinalize());
    start("default");
    assert_int_equal(status_of(0, 1), 0);
}

/* ---- memory ---- */

/* aclrtMemGetAccess tells what the mapping grants, which peer access does not change. */
static void peer_access_is_no_grant_of_a_mapping(void **state)
{
    aclrtDrvMemHandle handle = alloc_on(1, CHUNK);
    void *va = reserve(CHUNK);

    assert_acl_ok(aclrtDeviceEnablePeerAccess(1, 0));
    map(va, CHUNK, handle);
    assert_int_equal(get_access(va, ACL_MEM_LOCATION_TYPE_DEVICE, 0),
                     ACL_RT_MEM_ACCESS_FLAGS_NONE);
    assert_int_equal(get_access(va, ACL_MEM_LOCATION_TYPE_DEVICE, 1),
                     ACL_RT_MEM_ACCESS_FLAGS_READWRITE);
    put_pattern(va, CHUNK, 1);
    assert_pattern(va, CHUNK, 1);
    assert_acl_ok(aclrtUnmapMem(va));
    assert_acl_ok(aclrtFreePhysical(handle));
    assert_acl_ok(aclrtReleaseMemAddress(va));
}

static void a_peers_tables_are_built_in_advance(void **state)
{
    struct block b = block_create(CHUNK); /* on device 0 */
    char own[64];

    assert_bad_arg(aclrtMemP2PMap(NULL, 64, 1, 0), "devPtr is NULL");
    assert_bad_arg(aclrtMemP2PMap(b.va, 0, 1, 0), "size is 0");
    assert_bad_arg(aclrtMemP2PMap(b.va, 64, 1, 1), "flags");
    assert_refused(aclrtMemP2PMap(b.va, 64, 99, 0), ACL_ERROR_RT_INVALID_DEVICEID, "99");
    assert_refused(aclrtMemP2PMap(b.va, b.size, 1, 0), ACL_ERROR_RT_PARAM_INVALID,
                   "aclrtDeviceEnablePeerAccess");
    assert_acl_ok(aclrtDeviceEnablePeerAccess(1, 0));
    assert_acl_ok(aclrtMemP2PMap(b.va, b.size, 1, 0));
    assert_acl_ok(aclrtMemP2PMap(b.va + 100, 64, 1, 0));
    assert_refused(aclrtMemP2PMap(b.va, b.size + 1, 1, 0), ACL_ERROR_RT_PARAM_INVALID,
                   "mapped");
    assert_refused(aclrtMemP2PMap(b.va, b.size, 0, 0), ACL_ERROR_RT_PARAM_INVALID,
                   "itself");
    assert_refused(aclrtMemP2PMap(own, sizeof(own), 1, 0), ACL_ERROR_RT_PARAM_INVALID,
                   "not device memory");
    assert_acl_ok(aclrtDeviceDisablePeerAccess(1));
    block_destroy(&b);
}

int main(void)
{
    const struct CMUnitTest claims[] = {
        claim_both(a_peers_tables_are_built_in_advance),
        claim_alone(devices_of_most_products_can_reach_each_other),
        claim_alone(a_product_without_peers_refuses_them),
        claim_both(the_question_needs_two_devices),
        claim_both(could_is_not_may),
        claim_both(access_goes_one_way),
        claim_alone(pairs_are_independent),
        claim_both(a_second_time_changes_nothing),
        claim_both(access_belongs_to_the_device),
        claim_both(the_peer_needs_not_be_set),
        claim_both(bad_arguments_are_refused),
        claim_alone(enabling_needs_a_current_device),
        claim(the_status_of_no_device_is_off),
        claim_strict(strict_refuses_the_status_of_no_device),
        claim_both(the_last_reset_ends_what_a_device_may_reach),
        claim_both(so_does_a_forced_one),
        claim_both(a_reset_of_the_peer_leaves_it),
        claim(the_end_of_the_library_ends_it),
        claim_both(peer_access_is_no_grant_of_a_mapping),
    };

    return run_claims(claims);
}
