/* What each product says of itself and which of them have virtual memory. */
#include "support/capture.h"
#include "support/vmm.h"

#include <stdio.h>
#include <string.h>

static const struct product {
    const char *name;
    const char *soc_prefix;
    bool has_vmm;       /* by default */
    bool is_every_time; /* in every edition since 8.0, so in strict too */
    bool has_no_uc;
    bool has_captures, has_branches;
} products[] = {
    {"950", "Ascend", true, false, false, true, true},
    {"A3", "Ascend910", true, true, true, true, true},
    {"A2", "Ascend910B", true, true, false, true, true},
    {"910", "Ascend910", true, false, false, false, false},
    {"310P", "Ascend310P", true, false, false, true, false},
    {"310B", "Ascend310B", false, false, false, false, false},
    {"310B-EP", "Ascend310B", true, false, false, false, false},
    {"310", "Ascend310", false, false, false, false, false},
};
enum { N_PRODUCTS = sizeof(products) / sizeof(products[0]) };

static void start_product(const struct product *p, const char *rules)
{
    char option[64];

    snprintf(option, sizeof(option), "ACLMEM_PRODUCT=%s", p->name);
    start(rules, option);
    allow_warnings(); /* what is not supported may be said once */
    assert_acl_ok(aclrtSetDevice(0));
}

static void the_processor_has_the_products_name(void **state)
{
    for (size_t i = 0; i < N_PRODUCTS; i++) {
        start_product(&products[i], "default");
        assert_non_null(aclrtGetSocName());
        if (strncmp(aclrtGetSocName(), products[i].soc_prefix,
                    strlen(products[i].soc_prefix)) != 0)
            fail_msg("%s calls itself %s", products[i].name, aclrtGetSocName());
        assert_acl_ok(aclFinalize());
    }
}

static void a_chip_can_be_asked_for(void **state)
{
    static const char *const rows[][2] = {
        {"ACLMEM_PRODUCT=910B", "Ascend910B1"},
        {"ACLMEM_PRODUCT=910C", "Ascend910_9391"},
        {"ACLMEM_PRODUCT=Ascend910B3", "Ascend910B3"},
        {"ACLMEM_PRODUCT=910b4", "Ascend910B4"},
        {"ACLMEM_PRODUCT=Ascend310P1", "Ascend310P1"},
        {"ACLMEM_PRODUCT=Ascend950DT_9591", "Ascend950DT_9591"},
    };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        start("default", rows[i][0]);
        assert_string_equal(aclrtGetSocName(), rows[i][1]);
        assert_acl_ok(aclFinalize());
    }
}

static void a_wrong_name_gets_the_list_of_products_with_a_chip_each(void **state)
{
    set_options("default", "ACLMEM_PRODUCT=H100");
    assert_bad_arg(aclInit(NULL), "A2 (Ascend910B1)");
    assert_bad_arg(aclInit(NULL), "310P (Ascend310P3)");
}

static void seven_steps(void)
{
    struct block b = block_create(CHUNK);

    put_pattern(b.va, CHUNK, 1);
    assert_pattern(b.va, CHUNK, 1);
    block_destroy(&b);
}

/* Arguments that would be good elsewhere; the addresses and handles stand for any. */
static void every_call_is_refused(const char *words)
{
    aclrtPhysicalMemProp prop = device_prop(0, ACL_HBM_MEM_HUGE);
    aclrtMemLocation location = {.id = 0, .type = ACL_MEM_LOCATION_TYPE_DEVICE};
    const aclError code = ACL_ERROR_RT_FEATURE_NOT_SUPPORT;
    void *va = (void *)(16 * TIB), *out = NULL;
    aclrtDrvMemHandle any = (aclrtDrvMemHandle)(17 * TIB), handle = NULL;
    uint64_t flag = 7;
    size_t size = 7;

    assert_refused(aclrtReserveMemAddress(&out, CHUNK, 0, NULL, 1), code, words);
    assert_refused(aclrtReleaseMemAddress(va), code, words);
    assert_refused(aclrtMallocPhysical(&handle, CHUNK, &prop, 0), code, words);
    assert_refused(aclrtFreePhysical(any), code, words);
    assert_refused(aclrtMapMem(va, CHUNK, 0, any, 0), code, words);
    assert_refused(aclrtMemMapNoAccess(va, CHUNK, 0, any, 0), code, words);
    assert_refused(aclrtUnmapMem(va), code, words);
    assert_refused(set_access(va, CHUNK, ACL_MEM_LOCATION_TYPE_DEVICE, 0,
                              ACL_RT_MEM_ACCESS_FLAGS_READWRITE),
                   code, words);
    assert_refused(aclrtMemGetAccess(va, &location, &flag), code, words);
    assert_refused(aclrtMemRetainAllocationHandle(va, &handle), code, words);
    assert_refused(aclrtMemGetAllocationPropertiesFromHandle(any, &prop), code, words);
    assert_refused(aclrtMemGetAllocationGranularity(
                       &prop, ACL_RT_MEM_ALLOC_GRANULARITY_MINIMUM, &size),
                   code, words);
    assert_null(out);
    assert_null(handle);
    assert_int_equal(flag, 7);
    assert_int_equal(size, 7);
}

static void virtual_memory_is_where_the_documents_have_it(void **state)
{
    for (size_t i = 0; i < N_PRODUCTS; i++) {
        start_product(&products[i], "default");
        if (products[i].has_vmm)
            seven_steps();
        else
            every_call_is_refused("support");
        assert_acl_ok(aclFinalize());
    }
}

static void strict_knows_atlas_a2_and_a3(void **state)
{
    for (size_t i = 0; i < N_PRODUCTS; i++) {
        start_product(&products[i], "strict");
        if (products[i].is_every_time)
            seven_steps();
        else
            every_call_is_refused(products[i].has_vmm ? "strict" : "support");
        assert_acl_ok(aclFinalize());
    }
}

static void only_a3_reserves_without_uncached_memory(void **state)
{
    for (size_t i = 0; i < N_PRODUCTS; i++) {
        void *va = NULL, *wish = (void *)(78 * TIB);

        if (products[i].has_no_uc)
            continue; /* test_reserve.c */
        start_product(&products[i], "default");
        assert_refused(aclrtReserveMemAddressNoUCMemory(&va, GIB, 0, wish, 0),
                       ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                       "aclrtReserveMemAddressNoUCMemory");
        assert_null(va);
        assert_acl_ok(aclFinalize());
    }
}

static void a_root_complex_still_has_devices_and_contexts(void **state)
{
    aclrtContext context = NULL;
    uint32_t count = 0;

    start("default", "ACLMEM_PRODUCT=310B");
    assert_acl_ok(aclrtGetDeviceCount(&count));
    assert_int_equal(count, 2);
    assert_acl_ok(aclrtSetDevice(0));
    assert_acl_ok(aclrtCreateContext(&context, 0));
    assert_int_equal(total_memory(), GIB);
    assert_acl_ok(aclrtDestroyContext(context));
}

static void no_stream_is_captured(aclrtStream stream)
{
    const aclError code = ACL_ERROR_RT_FEATURE_NOT_SUPPORT;
    aclmdlRICaptureMode mode = RELAXED;
    aclrtTaskGrp group = NULL;
    aclmdlRI model = NULL;

    assert_refused(aclmdlRICaptureBegin(stream, GLOBAL), code, "capture streams");
    assert_refused(aclmdlRICaptureEnd(stream, &model), code, "capture streams");
    assert_refused(aclmdlRICaptureTaskGrpBegin(stream), code, "capture streams");
    assert_refused(aclmdlRICaptureTaskGrpEnd(stream, &group), code, "capture streams");
    assert_refused(aclmdlRICaptureTaskUpdateBegin(stream, group), code, "capture");
    assert_refused(aclmdlRICaptureTaskUpdateEnd(stream), code, "capture streams");
    assert_int_equal(capture_status(stream), NOT_CAPTURING);
    assert_acl_ok(aclmdlRICaptureThreadExchangeMode(&mode));
    assert_int_equal(mode, GLOBAL);
    assert_acl_ok(aclmdlRICaptureThreadExchangeMode(&mode));
}

static void no_task_has_a_condition(aclmdlRI model, aclrtStream stream)
{
    const aclError code = ACL_ERROR_RT_FEATURE_NOT_SUPPORT;
    aclmdlRICondTaskParams params = {.type = ACL_MODEL_RI_COND_TYPE_IF, .size = 1};
    aclmdlRITaskParams of_task = {0};
    aclmdlRITaskType type = 0;
    uint64_t *value = NULL;
    uint32_t n = 0;

    params.modelRIArray = &model;
    assert_refused(aclmdlRICondHandleCreate(model, 0, 0, &params.handle), code,
                   "conditional tasks");
    assert_refused(aclmdlRICondHandleGetCondPtr(model, &value), code, "conditional");
    assert_refused(aclmdlRIAddCondTask(params, stream, 0), code, "conditional tasks");
    assert_refused(aclmdlRICaptureToModelRIBegin(stream, model, GLOBAL), code, "cond");
    assert_refused(aclmdlRIGetStreams(model, NULL, &n), code, "look into models");
    assert_refused(aclmdlRIGetTasksByStream(stream, NULL, &n), code, "look into");
    assert_refused(aclmdlRITaskGetSeqId(model, &n), code, "look into models");
    assert_refused(aclmdlRITaskGetType(model, &type), code, "look into models");
    assert_refused(aclmdlRITaskGetParams(model, &of_task), code, "look into models");
    assert_refused(aclmdlRITaskSetParams(model, &of_task), code, "look into models");
    assert_refused(aclmdlRITaskDisable(model), code, "look into models");
    assert_refused(aclmdlRIUpdate(model), code, "look into models");
}

/* Every product builds models. */
static aclmdlRI model_build(void)
{
    aclrtStream bound = NULL;
    aclmdlRI model = NULL;

    assert_acl_ok(aclrtCreateStreamWithConfig(&bound, 0, ACL_STREAM_PERSISTENT));
    assert_acl_ok(aclmdlRIBuildBegin(&model, 0));
    assert_acl_ok(aclmdlRIBindStream(model, bound, ACL_MODEL_STREAM_FLAG_HEAD));
    assert_acl_ok(aclmdlRIEndTask(model, bound));
    assert_acl_ok(aclmdlRIBuildEnd(model, NULL));
    return model;
}

static void captures_are_where_the_documents_have_them(void **state)
{
    for (size_t i = 0; i < N_PRODUCTS; i++) {
        aclrtStream stream;
        aclmdlRI model;

        start_product(&products[i], "default");
        stream = make_stream();
        model = model_build();
        replay(model, stream);
        if (!products[i].has_branches)
            no_task_has_a_condition(model, stream);
        end_model(model);
        if (products[i].has_captures) {
            begin_capture(stream, GLOBAL);
            end_model(end_capture(stream));
        } else {
            no_stream_is_captured(stream);
        }
        end_stream(stream);
        assert_acl_ok(aclFinalize());
    }
}

int main(void)
{
    const struct CMUnitTest claims[] = {
        claim_alone(the_processor_has_the_products_name),
        claim_alone(a_chip_can_be_asked_for),
        claim_alone(a_wrong_name_gets_the_list_of_products_with_a_chip_each),
        claim_alone(virtual_memory_is_where_the_documents_have_it),
        claim_alone(strict_knows_atlas_a2_and_a3),
        claim_alone(only_a3_reserves_without_uncached_memory),
        claim_alone(a_root_complex_still_has_devices_and_contexts),
        claim_alone(captures_are_where_the_documents_have_them),
    };

    return run_claims(claims);
}
