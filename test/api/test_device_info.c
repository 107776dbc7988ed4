/* What devices say of themselves: figures, features, state, names, links, ids. */
#include "support/process.h"
#include "support/vmm.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LACKS INT64_C(-1) /* 207000 */

static void start_product(const char *name, const char *more)
{
    char option[64];

    snprintf(option, sizeof(option), "ACLMEM_PRODUCT=%s", name);
    start("default", option, "ACLMEM_DEVICES=4", more);
}

/* ---- figures ---- */

static int64_t info(uint32_t device, aclrtDevAttr attr)
{
    int64_t value = -7;
    aclError rc = aclrtGetDeviceInfo(device, attr, &value);

    if (rc == ACL_SUCCESS)
        return value;
    assert_int_equal(rc, ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
    assert_int_equal(value, -7);
    return LACKS;
}

static void each_product_has_its_figures(void **state)
{
    static const struct {
        const char *product;
        int64_t ai_cores, cube_cores, vector_cores, l2_mib, arch, warp, threads, blocks;
    } rows[] = {
        {"950", LACKS, LACKS, LACKS, LACKS, 3510, 32, 2048, 65535},
        {"A3", 24, 24, 48, 192, 2201, LACKS, LACKS, 0},
        {"A2", 24, 24, 48, 192, 2201, LACKS, LACKS, 0},
        {"910", 32, LACKS, 0, 32, LACKS, LACKS, LACKS, 0},
        {"310P", 8, LACKS, LACKS, LACKS, 2002, LACKS, LACKS, 0},
        {"310B", LACKS, LACKS, LACKS, LACKS, LACKS, LACKS, LACKS, 0},
        {"310B-EP", LACKS, LACKS, LACKS, LACKS, LACKS, LACKS, LACKS, 0},
        {"310", 2, LACKS, 0, 8, LACKS, LACKS, LACKS, 0},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        start_product(rows[i].product, "ACLMEM_MEMORY=512M");
        for (uint32_t device = 0; device < 4; device += 3) {
            int64_t l2 = info(device, ACL_DEV_ATTR_L2_CACHE_SIZE);

            assert_int_equal(info(device, ACL_DEV_ATTR_AICORE_CORE_NUM),
                             rows[i].ai_cores);
            assert_int_equal(info(device, ACL_DEV_ATTR_CUBE_CORE_NUM),
                             rows[i].cube_cores);
            assert_int_equal(info(device, ACL_DEV_ATTR_VECTOR_CORE_NUM),
                             rows[i].vector_cores);
            assert_int_equal(l2 == LACKS ? LACKS : l2 / (int64_t)MIB, rows[i].l2_mib);
            assert_int_equal(info(device, ACL_DEV_ATTR_NPU_ARCH), rows[i].arch);
            assert_int_equal(info(device, ACL_DEV_ATTR_WARP_SIZE), rows[i].warp);
            assert_int_equal(info(device, ACL_DEV_ATTR_MAX_THREAD_PER_VECTOR_CORE),
                             rows[i].threads);
            assert_int_equal(info(device, ACL_DEV_ATTR_MAX_BLOCK_PER_GRID),
                             rows[i].blocks);
            assert_int_equal(info(device, ACL_DEV_ATTR_TOTAL_GLOBAL_MEM_SIZE), 512 * MIB);
        }
        assert_acl_ok(aclFinalize());
    }
}

static void grids_have_no_size_where_there_are_none(void **state)
{
    for (int attr = ACL_DEV_ATTR_MAX_GRID_DIM_X; attr <= ACL_DEV_ATTR_MAX_BLOCK_DIM_Z;
         attr++)
        assert_int_equal(info(0, (aclrtDevAttr)attr), 0);
    assert_acl_ok(aclFinalize());
    start_product("950", "ACLMEM_MEMORY=512M");
    for (int attr = ACL_DEV_ATTR_MAX_GRID_DIM_X; attr <= ACL_DEV_ATTR_MAX_BLOCK_DIM_Z;
         attr++)
        assert_in_range(info(0, (aclrtDevAttr)attr), 2048, 65535);
}

static void the_memory_is_what_free_memory_counts_from(void **state)
{
    assert_int_equal(info(0, ACL_DEV_ATTR_TOTAL_GLOBAL_MEM_SIZE), total_memory());
    assert_int_equal(info(1, ACL_DEV_ATTR_TOTAL_GLOBAL_MEM_SIZE), GIB);
}

static void a_device_is_whole_and_one_of_the_machine(void **state)
{
    start("default", "ACLMEM_DEVICES=4", "ASCEND_RT_VISIBLE_DEVICES=1,3");
    for (uint32_t device = 0; device < 2; device++) {
        assert_int_equal(info(device, ACL_DEV_ATTR_SMP_ID), 0);
        assert_int_equal(info(device, ACL_DEV_ATTR_IS_VIRTUAL), 0);
        assert_int_equal(info(device, ACL_DEV_ATTR_PHY_CHIP_ID), 2 * device + 1);
    }
}

static void only_supernodes_have_a_place_in_one(void **state)
{
    assert_int_equal(info(0, ACL_DEV_ATTR_SUPER_POD_ID), LACKS);
    assert_int_equal(info(0, ACL_DEV_ATTR_SUPER_POD_SERVER_ID), LACKS);
    assert_int_equal(info(0, ACL_DEV_ATTR_SUPER_POD_DEVICE_ID), LACKS);
    assert_acl_ok(aclFinalize());
    start_product("A3", "ASCEND_RT_VISIBLE_DEVICES=1,3");
    assert_int_equal(info(1, ACL_DEV_ATTR_SUPER_POD_ID), 0);
    assert_int_equal(info(1, ACL_DEV_ATTR_SUPER_POD_SERVER_ID), 0);
    assert_int_equal(info(1, ACL_DEV_ATTR_SUPER_POD_DEVICE_ID), 3);
}

static void figures_that_are_not_published_are_refused(void **state)
{
    static const aclrtDevAttr attrs[] = {
        ACL_DEV_ATTR_AICPU_CORE_NUM,       ACL_DEV_ATTR_WARP_SIZE,
        ACL_DEV_ATTR_UBUF_PER_VECTOR_CORE, ACL_DEV_ATTR_CUST_OP_PRIVILEGE,
        ACL_DEV_ATTR_MAINBOARD_ID,         ACL_DEV_ATTR_HD_CONNECT_TYPE,
        ACL_DEV_ATTR_DEVICE_FORM_FACTOR,
    };
    int64_t value = 7;

    for (size_t i = 0; i < sizeof(attrs) / sizeof(attrs[0]); i++)
        assert_refused(aclrtGetDeviceInfo(0, attrs[i], &value),
                       ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "published|have no");
    assert_int_equal(value, 7);
}

static void an_unknown_attribute_is_refused(void **state)
{
    static const int attrs[] = {-1,  0,   2,   100, 103, 200, 213,
                                300, 303, 400, 410, 500, 602};
    int64_t value = 7;

    for (size_t i = 0; i < sizeof(attrs) / sizeof(attrs[0]); i++)
        assert_bad_arg(aclrtGetDeviceInfo(0, (aclrtDevAttr)attrs[i], &value), "attr");
    assert_bad_arg(aclGetDeviceCapability(0, ACL_DEVICE_INFO_UNDEFINED, &value),
                   "deviceInfo");
    assert_bad_arg(aclGetDeviceCapability(0, (aclDeviceInfo)3, &value), "deviceInfo");
    assert_int_equal(value, 7);
}

static void the_older_question_has_the_same_answer(void **state)
{
    int64_t value = 7;

    assert_acl_ok(aclGetDeviceCapability(1, ACL_DEVICE_INFO_AI_CORE_NUM, &value));
    assert_int_equal(value, 24);
    assert_acl_ok(aclGetDeviceCapability(1, ACL_DEVICE_INFO_VECTOR_CORE_NUM, &value));
    assert_int_equal(value, 48);
    assert_acl_ok(aclGetDeviceCapability(1, ACL_DEVICE_INFO_L2_SIZE, &value));
    assert_int_equal(value, 192 * MIB);
}

/* ---- features and state ---- */

static void no_feature_of_compute_tasks_is_there(void **state)
{
    static const int features[] = {ACL_FEATURE_TSCPU_TASK_UPDATE_SUPPORT_AIC_AIV,
                                   ACL_FEATURE_SYSTEM_MEMQ_EVENT_CROSS_DEV, 0, 2, 1000};

    for (size_t i = 0; i < sizeof(features) / sizeof(features[0]); i++) {
        int32_t value = 7;

        assert_acl_ok(
            aclrtGetDeviceCapability(0, (aclrtDevFeatureType)features[i], &value));
        assert_int_equal(value, ACL_DEV_FEATURE_NOT_SUPPORT);
    }
}

static int32_t has_attribute(aclCannAttr attr)
{
    int32_t value = 7;

    assert_acl_ok(aclGetCannAttribute(attr, &value));
    return value;
}

static void newer_products_have_bf16(void **state)
{
    static const char *const products[] = {"950",  "A3",   "A2", "910",
                                           "310P", "310B", "310"};

    for (size_t i = 0; i < sizeof(products) / sizeof(products[0]); i++) {
        const aclCannAttr *list = NULL;
        size_t n = 7;
        bool is_new = i < 3;

        start_product(products[i], "ACLMEM_MEMORY=512M");
        assert_acl_ok(aclGetCannAttributeList(&list, &n));
        assert_non_null(list);
        assert_int_equal(n, is_new ? 2 : 0);
        for (size_t k = 0; k < n; k++)
            assert_int_equal(has_attribute(list[k]), 1);
        assert_int_equal(has_attribute(ACL_CANN_ATTR_BF16), is_new);
        assert_int_equal(has_attribute(ACL_CANN_ATTR_INF_NAN), is_new);
        assert_int_equal(has_attribute(ACL_CANN_ATTR_JIT_COMPILE), 0);
        assert_acl_ok(aclFinalize());
    }
}

static void bad_questions_about_the_platform_are_refused(void **state)
{
    const aclCannAttr *list = NULL;
    size_t n = 7;
    int32_t value = 7;

    assert_bad_arg(aclGetCannAttributeList(NULL, &n), "list");
    assert_bad_arg(aclGetCannAttributeList(&list, NULL), "num");
    assert_bad_arg(aclGetCannAttribute(ACL_CANN_ATTR_BF16, NULL), "value");
    assert_bad_arg(aclGetCannAttribute(ACL_CANN_ATTR_UNDEFINED, &value), "-1");
    assert_bad_arg(aclGetCannAttribute((aclCannAttr)3, &value), "3");
    assert_int_equal(n, 7);
    assert_int_equal(value, 7);
    assert_null(list);
}

static void devices_are_well_and_idle(void **state)
{
    aclrtDeviceStatus status = ACL_RT_DEVICE_STATUS_END;
    aclrtUtilizationInfo use = {.cubeUtilization = 7,
                                .vectorUtilization = 7,
                                .aicpuUtilization = 7,
                                .memoryUtilization = 7};

    assert_acl_ok(aclrtQueryDeviceStatus(1, &status));
    assert_int_equal(status, ACL_RT_DEVICE_STATUS_NORMAL);
    assert_acl_ok(aclrtGetDeviceUtilizationRate(1, &use));
    assert_int_equal(use.cubeUtilization, 0);
    assert_int_equal(use.vectorUtilization, 0);
    assert_int_equal(use.aicpuUtilization, 0);
    assert_int_equal(use.memoryUtilization, -1);
    assert_null(use.utilizationExtend);
}

static void a_product_without_vector_cores_measures_none(void **state)
{
    aclrtUtilizationInfo use = {.utilizationExtend = NULL};

    start_product("910", "ACLMEM_MEMORY=512M");
    assert_acl_ok(aclrtGetDeviceUtilizationRate(0, &use));
    assert_int_equal(use.cubeUtilization, 0);
    assert_int_equal(use.vectorUtilization, -1);
}

static void the_reserved_field_of_utilisation_is_null(void **state)
{
    aclrtUtilizationInfo use = {.cubeUtilization = 7};

    use.utilizationExtend = (aclrtUtilizationExtendInfo *)&use;
    assert_bad_arg(aclrtGetDeviceUtilizationRate(0, &use), "utilizationExtend");
    assert_int_equal(use.cubeUtilization, 7);
    assert_ptr_equal(use.utilizationExtend, &use);
}

/* ---- names ---- */

static aclrtUuid uuid_of(int32_t device)
{
    aclrtUuid uuid;

    memset(&uuid, 0, sizeof(uuid));
    assert_acl_ok(aclrtDeviceGetUuid(device, &uuid));
    return uuid;
}

/* RFC 9562: version 8, in the variant of that document. */
static void a_uuid_looks_like_one(void **state)
{
    for (int32_t device = 0; device < 2; device++) {
        aclrtUuid uuid = uuid_of(device);

        assert_int_equal((uuid.bytes[6] & 0xf0), 0x80);
        assert_int_equal((uuid.bytes[8] & 0xc0), 0x80);
    }
}

static void devices_of_a_machine_have_different_uuids(void **state)
{
    aclrtUuid all[63];

    start("default", "ACLMEM_DEVICES=63", "ACLMEM_MEMORY=16M");
    for (int32_t i = 0; i < 63; i++) {
        all[i] = uuid_of(i);
        for (int32_t k = 0; k < i; k++)
            assert_memory_not_equal(&all[i], &all[k], sizeof(all[i]));
    }
}

static void a_uuid_goes_with_the_device_not_with_its_number(void **state)
{
    aclrtUuid all[4];

    start("default", "ACLMEM_DEVICES=4");
    for (int32_t i = 0; i < 4; i++)
        all[i] = uuid_of(i);
    assert_acl_ok(aclFinalize());
    start("default", "ACLMEM_DEVICES=4", "ASCEND_RT_VISIBLE_DEVICES=1,3");
    for (int32_t i = 0; i < 2; i++) {
        aclrtUuid uuid = uuid_of(i);

        assert_memory_equal(&uuid, &all[2 * i + 1], sizeof(uuid));
    }
}

static void uuid_text(int32_t device, char text[33])
{
    aclrtUuid uuid = uuid_of(device);

    for (size_t i = 0; i < sizeof(uuid.bytes); i++)
        snprintf(text + 2 * i, 3, "%02x", (unsigned char)uuid.bytes[i]);
}

static int compare_uuid(void)
{
    char text[33];

    uuid_text(1, text);
    return strcmp(text, getenv("TEST_UUID")) == 0 ? 0 : 1;
}

static void every_process_sees_the_same_uuid(void **state)
{
    char text[33];

    uuid_text(1, text);
    assert_int_equal(setenv("TEST_UUID", text, 1), 0);
    assert_int_equal(run_self("compare_uuid"), 0);
}

static void a_bus_id_leads_back_to_its_device(void **state)
{
    char first[13] = "", text[32];

    start("default", "ACLMEM_DEVICES=63", "ACLMEM_MEMORY=16M");
    for (int32_t i = 0; i < 63; i++) {
        int32_t device = -1;

        memset(text, 'x', sizeof(text));
        assert_acl_ok(aclrtDeviceGetPCIBusId(i, text, sizeof(text)));
        assert_int_equal(strlen(text), 12);
        assert_int_equal(text[13], 'x');
        assert_acl_ok(aclrtDeviceGetByPCIBusId(text, &device));
        assert_int_equal(device, i);
        for (char *p = text; *p != '\0'; p++)
            *p = (char)toupper((unsigned char)*p);
        assert_acl_ok(aclrtDeviceGetByPCIBusId(text, &device));
        assert_int_equal(device, i);
    }
    assert_acl_ok(aclrtDeviceGetPCIBusId(0, first, sizeof(first)));
    assert_string_equal(first, "0000:c1:00.0");
}

static void a_bus_id_goes_with_the_device_not_with_its_number(void **state)
{
    char text[13] = "";
    int32_t device = 7;

    start("default", "ACLMEM_DEVICES=4", "ASCEND_RT_VISIBLE_DEVICES=1,3");
    assert_acl_ok(aclrtDeviceGetPCIBusId(1, text, sizeof(text)));
    assert_string_equal(text, "0000:c4:00.0");
    assert_acl_ok(aclrtDeviceGetByPCIBusId("0000:c2:00.0", &device));
    assert_int_equal(device, 0);
    assert_refused(aclrtDeviceGetByPCIBusId("0000:c1:00.0", &device),
                   ACL_ERROR_RT_PARAM_INVALID, "c1");
    assert_int_equal(device, 0);
}

static void wrong_bus_ids_are_refused(void **state)
{
    static const char *const wrong[] = {"",        "0000:c1:00",    "0000:c1:00.1",
                                        "c1:00.0", "0000:c1:00.0 ", "0001:c1:00.0"};
    char text[13] = "unchanged";
    int32_t device = 7;

    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        assert_refused(aclrtDeviceGetByPCIBusId(wrong[i], &device),
                       ACL_ERROR_RT_PARAM_INVALID, "bus id");
    assert_bad_arg(aclrtDeviceGetByPCIBusId(NULL, &device), "pciBusId");
    assert_bad_arg(aclrtDeviceGetByPCIBusId("0000:c1:00.0", NULL), "deviceId");
    assert_bad_arg(aclrtDeviceGetPCIBusId(0, NULL, 13), "pciBusId");
    assert_bad_arg(aclrtDeviceGetPCIBusId(0, text, 12), "12");
    assert_bad_arg(aclrtDeviceGetPCIBusId(0, text, -1), "len");
    assert_string_equal(text, "unchanged");
    assert_int_equal(device, 7);
}

/* ---- links ---- */

static uint64_t topology(uint32_t a, uint32_t b)
{
    uint64_t value = 7;

    assert_acl_ok(aclrtGetDevicesTopo(a, b, &value));
    return value;
}

static void links_are_those_of_the_product(void **state)
{
    static const struct {
        const char *product;
        uint64_t near, far; /* of device 0, to 1 and to 2 */
    } rows[] = {
        {"950", ACL_RT_DEVS_TOPOLOGY_PHB, ACL_RT_DEVS_TOPOLOGY_PHB},
        {"A3", ACL_RT_DEVS_TOPOLOGY_SIO, ACL_RT_DEVS_TOPOLOGY_HCCS_SW},
        {"A2", ACL_RT_DEVS_TOPOLOGY_HCCS, ACL_RT_DEVS_TOPOLOGY_HCCS},
        {"910", ACL_RT_DEVS_TOPOLOGY_HCCS, ACL_RT_DEVS_TOPOLOGY_HCCS},
        {"310P", ACL_RT_DEVS_TOPOLOGY_PHB, ACL_RT_DEVS_TOPOLOGY_PHB},
        {"310B-EP", ACL_RT_DEVS_TOPOLOGY_PHB, ACL_RT_DEVS_TOPOLOGY_PHB},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        start_product(rows[i].product, "ACLMEM_MEMORY=512M");
        assert_int_equal(topology(0, 1), rows[i].near);
        assert_int_equal(topology(1, 0), rows[i].near);
        assert_int_equal(topology(0, 2), rows[i].far);
        assert_int_equal(topology(3, 1), rows[i].far);
        assert_int_equal(topology(3, 3), 0);
        assert_acl_ok(aclFinalize());
    }
}

/*
 * The dies of a chip are neighbours by the driver's ids, whatever the program calls them.
 */
static void hidden_devices_do_not_move_the_chips(void **state)
{
    start_product("A3", "ASCEND_RT_VISIBLE_DEVICES=1,2,3");
    assert_int_equal(topology(0, 1), ACL_RT_DEVS_TOPOLOGY_HCCS_SW);
    assert_int_equal(topology(1, 2), ACL_RT_DEVS_TOPOLOGY_SIO);
}

static void a_root_complex_is_on_no_bus(void **state)
{
    char text[13] = "unchanged";
    int32_t device = 7;
    uint64_t value = 7;

    start_product("310B", "ACLMEM_MEMORY=512M");
    assert_refused(aclrtDeviceGetPCIBusId(0, text, 13), ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                   "root");
    assert_refused(aclrtDeviceGetByPCIBusId("0000:c1:00.0", &device),
                   ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "root");
    assert_refused(aclrtGetDevicesTopo(0, 1, &value), ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                   "root");
    assert_string_equal(text, "unchanged");
    assert_int_equal(device, 7);
    assert_int_equal(value, 7);
}

static void older_products_have_no_uuid(void **state)
{
    static const char *const products[] = {"910", "310P", "310B", "310B-EP", "310"};

    for (size_t i = 0; i < sizeof(products) / sizeof(products[0]); i++) {
        aclrtUuid uuid = {.bytes = "unchanged"};

        start_product(products[i], "ACLMEM_MEMORY=512M");
        assert_refused(aclrtDeviceGetUuid(0, &uuid), ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                       "UUID");
        assert_string_equal(uuid.bytes, "unchanged");
        assert_acl_ok(aclFinalize());
    }
}

/* ---- ids ---- */

static void ids_are_converted_between_their_spaces(void **state)
{
    int32_t id = 7;

    start("default", "ACLMEM_DEVICES=4", "ASCEND_RT_VISIBLE_DEVICES=2,3");
    for (int32_t i = 0; i < 2; i++) {
        assert_acl_ok(aclrtGetLogicDevIdByUserDevId(i, &id));
        assert_int_equal(id, i + 2);
        assert_acl_ok(aclrtGetPhyDevIdByUserDevId(i, &id));
        assert_int_equal(id, i + 2);
        assert_acl_ok(aclrtGetPhyDevIdByLogicDevId(i, &id));
        assert_int_equal(id, i + 2);
        assert_acl_ok(aclrtGetUserDevIdByLogicDevId(i + 2, &id));
        assert_int_equal(id, i);
    }
    for (int32_t i = 0; i < 4; i++) {
        assert_acl_ok(aclrtGetLogicDevIdByPhyDevId(i, &id));
        assert_int_equal(id, i);
    }
    assert_refused(aclrtGetUserDevIdByLogicDevId(1, &id), ACL_ERROR_RT_INVALID_DEVICEID,
                   "1");
    assert_refused(aclrtGetLogicDevIdByUserDevId(2, &id), ACL_ERROR_RT_INVALID_DEVICEID,
                   "2");
    assert_refused(aclrtGetPhyDevIdByUserDevId(2, &id), ACL_ERROR_RT_INVALID_DEVICEID,
                   "2");
    assert_refused(aclrtGetPhyDevIdByLogicDevId(2, &id), ACL_ERROR_RT_INVALID_DEVICEID,
                   "2");
    assert_refused(aclrtGetLogicDevIdByPhyDevId(4, &id), ACL_ERROR_RT_INVALID_DEVICEID,
                   "4");
    assert_int_equal(id, 3);
}

/* What Mooncake and hixl do: the id that aclrtMemSetAccess wants is the converted one. */
static void access_is_granted_by_the_logical_id(void **state)
{
    struct block b;
    int32_t id = 7;

    start("default", "ACLMEM_DEVICES=4", "ASCEND_RT_VISIBLE_DEVICES=2,3");
    assert_acl_ok(aclrtSetDevice(0));
    b = block_create(CHUNK);
    assert_acl_ok(aclrtGetLogicDevIdByUserDevId(0, &id));
    assert_acl_ok(set_access(b.va, b.size, ACL_MEM_LOCATION_TYPE_DEVICE, (uint32_t)id,
                             ACL_RT_MEM_ACCESS_FLAGS_READWRITE));
    assert_refused(set_access(b.va, b.size, ACL_MEM_LOCATION_TYPE_DEVICE, 0,
                              ACL_RT_MEM_ACCESS_FLAGS_READWRITE),
                   ACL_ERROR_RT_DRV_INTERNAL_ERROR, "0");
    put_pattern(b.va, b.size, 1);
    assert_pattern(b.va, b.size, 1);
    block_destroy(&b);
}

static void without_a_list_all_ids_are_the_same(void **state)
{
    for (int32_t i = 0; i < 2; i++) {
        int32_t id = 7;

        assert_acl_ok(aclrtGetLogicDevIdByUserDevId(i, &id));
        assert_int_equal(id, i);
        assert_acl_ok(aclrtGetUserDevIdByLogicDevId(i, &id));
        assert_int_equal(id, i);
        assert_acl_ok(aclrtGetPhyDevIdByLogicDevId(i, &id));
        assert_int_equal(id, i);
    }
}

static void devices_that_do_not_exist_are_refused(void **state)
{
    static const int32_t ids[] = {-1, 2, 63, 64, INT32_MIN, INT32_MAX};
    const aclError code = ACL_ERROR_RT_INVALID_DEVICEID;
    aclrtUtilizationInfo use = {.cubeUtilization = 7};
    aclrtDeviceStatus status = ACL_RT_DEVICE_STATUS_END;
    aclrtUuid uuid;
    int64_t value = 7;
    uint64_t links = 7;
    int32_t out = 7;
    char text[13] = "unchanged";

    for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
        uint32_t id = (uint32_t)ids[i];
        char said[32];

        snprintf(said, sizeof(said), "%d", ids[i]);
        assert_refused(aclrtGetDeviceInfo(id, ACL_DEV_ATTR_L2_CACHE_SIZE, &value), code,
                       said);
        assert_refused(aclGetDeviceCapability(id, ACL_DEVICE_INFO_L2_SIZE, &value), code,
                       said);
        assert_refused(aclrtGetDeviceCapability(ids[i], (aclrtDevFeatureType)1, &out),
                       code, said);
        assert_refused(aclrtQueryDeviceStatus(ids[i], &status), code, said);
        assert_refused(aclrtGetDeviceUtilizationRate(ids[i], &use), code, said);
        assert_refused(aclrtDeviceGetUuid(ids[i], &uuid), code, said);
        assert_refused(aclrtDeviceGetPCIBusId(ids[i], text, 13), code, said);
        assert_refused(aclrtGetDevicesTopo(id, 0, &links), code, said);
        assert_refused(aclrtGetDevicesTopo(0, id, &links), code, said);
        assert_refused(aclrtGetLogicDevIdByUserDevId(ids[i], &out), code, said);
        assert_refused(aclrtGetUserDevIdByLogicDevId(ids[i], &out), code, said);
        assert_refused(aclrtGetLogicDevIdByPhyDevId(ids[i], &out), code, said);
        assert_refused(aclrtGetPhyDevIdByUserDevId(ids[i], &out), code, said);
        assert_refused(aclrtGetPhyDevIdByLogicDevId(ids[i], &out), code, said);
    }
    assert_int_equal(value, 7);
    assert_int_equal(links, 7);
    assert_int_equal(out, 7);
    assert_int_equal(use.cubeUtilization, 7);
    assert_int_equal(status, ACL_RT_DEVICE_STATUS_END);
    assert_string_equal(text, "unchanged");
}

static void null_outputs_are_refused(void **state)
{
    const aclError code = ACL_ERROR_INVALID_PARAM;
    int32_t out = 7;

    assert_refused(aclrtGetDeviceInfo(0, ACL_DEV_ATTR_L2_CACHE_SIZE, NULL), code,
                   "value");
    assert_refused(aclGetDeviceCapability(0, ACL_DEVICE_INFO_L2_SIZE, NULL), code,
                   "value");
    assert_refused(aclrtGetDeviceCapability(0, (aclrtDevFeatureType)1, NULL), code,
                   "value");
    assert_refused(aclrtQueryDeviceStatus(0, NULL), code, "deviceStatus");
    assert_refused(aclrtGetDeviceUtilizationRate(0, NULL), code, "utilizationInfo");
    assert_refused(aclrtDeviceGetUuid(0, NULL), code, "uuid");
    assert_refused(aclrtGetDevicesTopo(0, 1, NULL), code, "value");
    assert_refused(aclrtGetLogicDevIdByUserDevId(0, NULL), code, "null");
    assert_refused(aclrtGetUserDevIdByLogicDevId(0, NULL), code, "null");
    assert_refused(aclrtGetLogicDevIdByPhyDevId(0, NULL), code, "null");
    assert_refused(aclrtGetPhyDevIdByUserDevId(0, NULL), code, "null");
    assert_refused(aclrtGetPhyDevIdByLogicDevId(0, NULL), code, "null");
    assert_refused(aclrtDeviceGetStreamPriorityRange(NULL, &out), code, "least");
    assert_refused(aclrtDeviceGetStreamPriorityRange(&out, NULL), code, "greatest");
    assert_int_equal(out, 7);
}

static void lower_numbers_go_first(void **state)
{
    int32_t least = -1, greatest = -1;

    assert_acl_ok(aclrtDeviceGetStreamPriorityRange(&least, &greatest));
    assert_int_equal(least, 7);
    assert_int_equal(greatest, 0);
}

static void no_device_needs_to_be_set_for_questions(void **state)
{
    aclrtDeviceStatus status = ACL_RT_DEVICE_STATUS_END;
    int32_t least = -1, greatest = -1;

    start("default");
    assert_int_equal(info(1, ACL_DEV_ATTR_AICORE_CORE_NUM), 24);
    assert_acl_ok(aclrtQueryDeviceStatus(1, &status));
    assert_acl_ok(aclrtDeviceGetStreamPriorityRange(&least, &greatest));
    assert_int_equal(topology(0, 1), ACL_RT_DEVS_TOPOLOGY_HCCS);
    uuid_of(1);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest claims[] = {
        claim_alone(each_product_has_its_figures),
        claim(grids_have_no_size_where_there_are_none),
        claim_both(the_memory_is_what_free_memory_counts_from),
        claim_alone(a_device_is_whole_and_one_of_the_machine),
        claim(only_supernodes_have_a_place_in_one),
        claim_both(figures_that_are_not_published_are_refused),
        claim_both(an_unknown_attribute_is_refused),
        claim_both(the_older_question_has_the_same_answer),
        claim_both(no_feature_of_compute_tasks_is_there),
        claim_alone(newer_products_have_bf16),
        claim_both(bad_questions_about_the_platform_are_refused),
        claim_both(devices_are_well_and_idle),
        claim_alone(a_product_without_vector_cores_measures_none),
        claim_both(the_reserved_field_of_utilisation_is_null),
        claim_both(a_uuid_looks_like_one),
        claim_alone(devices_of_a_machine_have_different_uuids),
        claim_alone(a_uuid_goes_with_the_device_not_with_its_number),
        claim(every_process_sees_the_same_uuid),
        claim_alone(a_bus_id_leads_back_to_its_device),
        claim_alone(a_bus_id_goes_with_the_device_not_with_its_number),
        claim_both(wrong_bus_ids_are_refused),
        claim_alone(links_are_those_of_the_product),
        claim_alone(hidden_devices_do_not_move_the_chips),
        claim_alone(a_root_complex_is_on_no_bus),
        claim_alone(older_products_have_no_uuid),
        claim_alone(ids_are_converted_between_their_spaces),
        claim_alone(access_is_granted_by_the_logical_id),
        claim_both(without_a_list_all_ids_are_the_same),
        claim_both(devices_that_do_not_exist_are_refused),
        claim_both(null_outputs_are_refused),
        claim_both(lower_numbers_go_first),
        claim_alone(no_device_needs_to_be_set_for_questions),
    };

    if (argc == 2 && strcmp(argv[1], "compare_uuid") == 0)
        return compare_uuid();
    return run_claims(claims);
}
