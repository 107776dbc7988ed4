/*
 * What libascendcl.so has for operators and models and is data on the host: it works, in
 * every state of the library, and says what is wrong.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "acl/acl_prof.h"
#include "support/support.h"

/* The message of a function that has no code to return. */
static void assert_said(const char *words)
{
    const char *message = aclGetRecentErrMsg();

    assert_int_equal(aclrtGetLastError(ACL_RT_THREAD_LEVEL), ACL_ERROR_INVALID_PARAM);
    assert_non_null(message);
    assert_non_null(strstr(message, words));
}

/* ---- data buffers ---- */

static void a_buffer_keeps_an_address_and_a_size(void **state)
{
    char bytes[8];
    aclDataBuffer *buffer = aclCreateDataBuffer(bytes, sizeof(bytes));

    assert_non_null(buffer);
    assert_ptr_equal(aclGetDataBufferAddr(buffer), bytes);
    assert_int_equal(aclGetDataBufferSizeV2(buffer), 8);
    assert_int_equal(aclGetDataBufferSize(buffer), 8);
    assert_acl_ok(aclUpdateDataBuffer(buffer, bytes + 4, 4));
    assert_ptr_equal(aclGetDataBufferAddr(buffer), bytes + 4);
    assert_int_equal(aclGetDataBufferSizeV2(buffer), 4);
    assert_acl_ok(aclDestroyDataBuffer(buffer));
}

/* As an input that an operator does not use. */
static void a_buffer_may_be_empty(void **state)
{
    aclDataBuffer *buffer = aclCreateDataBuffer(NULL, 0);

    assert_non_null(buffer);
    assert_null(aclGetDataBufferAddr(buffer));
    assert_int_equal(aclGetDataBufferSizeV2(buffer), 0);
    assert_acl_ok(aclDestroyDataBuffer(buffer));
}

static void a_size_beyond_32_bits_needs_the_newer_function(void **state)
{
    aclDataBuffer *buffer = aclCreateDataBuffer(state, 4 * GIB);

    assert_int_equal(aclGetDataBufferSizeV2(buffer), 4 * GIB);
    assert_int_equal(aclGetDataBufferSize(buffer), 0);
    assert_said("use aclGetDataBufferSizeV2");
    assert_acl_ok(aclDestroyDataBuffer(buffer));
}

static void no_buffer_is_refused(void **state)
{
    assert_acl(aclDestroyDataBuffer(NULL), ACL_ERROR_INVALID_PARAM);
    assert_message_has("aclDestroyDataBuffer: dataBuffer is NULL");
    assert_acl(aclUpdateDataBuffer(NULL, state, 8), ACL_ERROR_INVALID_PARAM);
    assert_null(aclGetDataBufferAddr(NULL));
    assert_said("dataBuffer is NULL");
    assert_int_equal(aclGetDataBufferSize(NULL), 0);
    assert_said("dataBuffer is NULL");
    assert_int_equal(aclGetDataBufferSizeV2(NULL), 0);
    assert_said("dataBuffer is NULL");
}

/* ---- tensor descriptions ---- */

static void a_description_gives_back_what_it_was_made_with(void **state)
{
    int64_t dims[] = {2, 3, 4}, dim = 0;
    aclTensorDesc *desc = aclCreateTensorDesc(ACL_FLOAT16, 3, dims, ACL_FORMAT_ND);

    assert_non_null(desc);
    dims[1] = 77; /* it has a copy */
    assert_int_equal(aclGetTensorDescType(desc), ACL_FLOAT16);
    assert_int_equal(aclGetTensorDescFormat(desc), ACL_FORMAT_ND);
    assert_int_equal(aclGetTensorDescNumDims(desc), 3);
    assert_acl_ok(aclGetTensorDescDimV2(desc, 1, &dim));
    assert_int_equal(dim, 3);
    assert_int_equal(aclGetTensorDescElementCount(desc), 24);
    assert_int_equal(aclGetTensorDescSize(desc), 48);
    /* The layout in memory is another one, and does not change what is given back. */
    assert_acl_ok(aclSetTensorFormat(desc, ACL_FORMAT_FRACTAL_NZ));
    assert_acl_ok(aclSetTensorShape(desc, 1, (int64_t[]){24}));
    assert_int_equal(aclGetTensorDescFormat(desc), ACL_FORMAT_ND);
    assert_int_equal(aclGetTensorDescNumDims(desc), 3);
    aclDestroyTensorDesc(desc);
}

static void a_description_has_a_name(void **state)
{
    aclTensorDesc *desc = aclCreateTensorDesc(ACL_INT8, 0, NULL, ACL_FORMAT_NCHW);

    assert_string_equal(aclGetTensorDescName(desc), "");
    aclSetTensorDescName(desc, "x");
    aclSetTensorDescName(desc, "another");
    assert_string_equal(aclGetTensorDescName(desc), "another");
    aclSetTensorDescName(desc, NULL);
    assert_said("name is NULL");
    assert_string_equal(aclGetTensorDescName(desc), "another");
    aclDestroyTensorDesc(desc);
}

static void a_scalar_has_one_element_and_an_open_shape_none(void **state)
{
    aclTensorDesc *desc = aclCreateTensorDesc(ACL_FLOAT, 0, NULL, ACL_FORMAT_ND);
    const int64_t open[] = {16, -1}, large[] = {INT64_MAX, 4, 4};

    assert_int_equal(aclGetTensorDescElementCount(desc), 1);
    assert_int_equal(aclGetTensorDescSize(desc), 4);
    aclDestroyTensorDesc(desc);
    desc = aclCreateTensorDesc(ACL_FLOAT, 2, open, ACL_FORMAT_ND);
    assert_int_equal(aclGetTensorDescElementCount(desc), 0);
    assert_int_equal(aclGetTensorDescSize(desc), 0);
    aclDestroyTensorDesc(desc);
    desc = aclCreateTensorDesc(ACL_FLOAT, 3, large, ACL_FORMAT_ND);
    assert_int_equal(aclGetTensorDescElementCount(desc), 0);
    aclDestroyTensorDesc(desc);
    /* An input that an operator does not use. */
    desc = aclCreateTensorDesc(ACL_DT_UNDEFINED, 0, NULL, ACL_FORMAT_UNDEFINED);
    assert_non_null(desc);
    assert_int_equal(aclGetTensorDescSize(desc), 0);
    aclDestroyTensorDesc(desc);
}

static void settings_of_a_description_are_checked(void **state)
{
    int64_t dims[] = {-1}, range[1][ACL_TENSOR_SHAPE_RANGE_NUM] = {{1, 128}};
    aclTensorDesc *desc = aclCreateTensorDesc(ACL_INT64, 1, dims, ACL_FORMAT_ND);

    assert_acl_ok(aclSetTensorShapeRange(desc, 1, range));
    assert_acl(aclSetTensorShapeRange(desc, 1, NULL), ACL_ERROR_INVALID_PARAM);
    assert_acl(aclSetTensorShapeRange(desc, SIZE_MAX, range), ACL_ERROR_INVALID_PARAM);
    assert_acl_ok(aclSetTensorPlaceMent(desc, ACL_MEMTYPE_HOST));
    assert_acl(aclSetTensorPlaceMent(desc, (aclMemType)3), ACL_ERROR_INVALID_PARAM);
    assert_message_has("memType is 3");
    assert_acl(aclSetTensorPlaceMent(desc, (aclMemType)-1), ACL_ERROR_INVALID_PARAM);
    assert_acl_ok(aclSetTensorConst(desc, dims, sizeof(dims)));
    assert_acl_ok(aclSetTensorConst(desc, NULL, 0));
    assert_acl(aclSetTensorConst(desc, NULL, 8), ACL_ERROR_INVALID_PARAM);
    assert_acl(aclSetTensorShape(desc, -1, dims), ACL_ERROR_INVALID_PARAM);
    assert_acl(aclSetTensorShape(desc, 1, NULL), ACL_ERROR_INVALID_PARAM);
    aclDestroyTensorDesc(desc);
}

static void a_wrong_description_is_refused(void **state)
{
    int64_t dims[] = {1, 2}, dim = 5;
    aclTensorDesc *desc;

    assert_null(aclCreateTensorDesc(ACL_INT8, -1, dims, ACL_FORMAT_ND));
    assert_said("numDims is -1");
    assert_null(aclCreateTensorDesc(ACL_INT8, 129, dims, ACL_FORMAT_ND));
    assert_said("numDims is 129; it takes 0 to 128");
    assert_null(aclCreateTensorDesc(ACL_INT8, 2, NULL, ACL_FORMAT_ND));
    assert_said("dims is NULL");

    desc = aclCreateTensorDesc(ACL_INT8, 2, dims, ACL_FORMAT_ND);
    assert_acl(aclGetTensorDescDimV2(desc, 2, &dim), ACL_ERROR_INVALID_PARAM);
    assert_message_has("index is 2, and the tensor has 2 dimensions");
    assert_int_equal(dim, 5);
    assert_acl(aclGetTensorDescDimV2(desc, 0, NULL), ACL_ERROR_INVALID_PARAM);
    aclDestroyTensorDesc(desc);
    desc = aclCreateTensorDesc((aclDataType)5, 2, dims, ACL_FORMAT_ND);
    assert_int_equal(aclGetTensorDescSize(desc), 0);
    assert_said("aclGetTensorDescSize: dataType is 5");
    aclDestroyTensorDesc(desc);
}

static void no_description_is_refused(void **state)
{
    int64_t dim;

    aclDestroyTensorDesc(NULL);
    assert_int_equal(aclGetTensorDescType(NULL), ACL_DT_UNDEFINED);
    assert_said("desc is NULL");
    assert_int_equal(aclGetTensorDescFormat(NULL), ACL_FORMAT_UNDEFINED);
    assert_said("desc is NULL");
    assert_int_equal(aclGetTensorDescNumDims(NULL), 0);
    assert_said("desc is NULL");
    assert_int_equal(aclGetTensorDescElementCount(NULL), 0);
    assert_said("desc is NULL");
    assert_int_equal(aclGetTensorDescSize(NULL), 0);
    assert_said("desc is NULL");
    assert_string_equal(aclGetTensorDescName(NULL), "");
    assert_said("desc is NULL");
    aclSetTensorDescName(NULL, "x");
    assert_said("desc is NULL");
    assert_acl(aclGetTensorDescDimV2(NULL, 0, &dim), ACL_ERROR_INVALID_PARAM);
    assert_acl(aclSetTensorFormat(NULL, ACL_FORMAT_ND), ACL_ERROR_INVALID_PARAM);
    assert_acl(aclSetTensorShape(NULL, 0, NULL), ACL_ERROR_INVALID_PARAM);
    assert_acl(aclSetTensorShapeRange(NULL, 0, NULL), ACL_ERROR_INVALID_PARAM);
    assert_acl(aclSetTensorPlaceMent(NULL, ACL_MEMTYPE_HOST), ACL_ERROR_INVALID_PARAM);
    assert_acl(aclSetTensorConst(NULL, NULL, 0), ACL_ERROR_INVALID_PARAM);
}

/* ---- attributes ---- */

static void attributes_of_every_kind_are_taken(void **state)
{
    aclopAttr *attr = aclopCreateAttr();
    const int64_t ints[] = {1, 2}, *lists[] = {ints, ints};
    const char *texts[] = {"a", "b"};

    assert_non_null(attr);
    assert_acl_ok(aclopSetAttrBool(attr, "b", 1));
    assert_acl_ok(aclopSetAttrInt(attr, "i", -1));
    assert_acl_ok(aclopSetAttrFloat(attr, "f", 0.5f));
    assert_acl_ok(aclopSetAttrString(attr, "s", "text"));
    assert_acl_ok(aclopSetAttrDataType(attr, "d", ACL_BF16));
    assert_acl_ok(aclopSetAttrListBool(attr, "lb", 2, (uint8_t[]){0, 1}));
    assert_acl_ok(aclopSetAttrListInt(attr, "li", 2, ints));
    assert_acl_ok(aclopSetAttrListFloat(attr, "lf", 1, (float[]){1}));
    assert_acl_ok(aclopSetAttrListString(attr, "ls", 2, texts));
    assert_acl_ok(aclopSetAttrListDataType(attr, "ld", 1, (aclDataType[]){ACL_INT8}));
    assert_acl_ok(aclopSetAttrListListInt(attr, "ll", 2, (int[]){2, 1}, lists));
    assert_acl_ok(aclopSetAttrListInt(attr, "empty", 0, NULL));
    assert_acl_ok(aclopSetAttrListListInt(attr, "empty", 0, NULL, NULL));
    aclopDestroyAttr(attr);
    aclopDestroyAttr(NULL);
}

static void wrong_attributes_are_refused(void **state)
{
    aclopAttr *attr = aclopCreateAttr();
    const int64_t ints[] = {1}, *lists[] = {ints, NULL};

    assert_acl(aclopSetAttrBool(NULL, "b", 1), ACL_ERROR_INVALID_PARAM);
    assert_message_has("aclopSetAttrBool: attr is NULL");
    assert_acl(aclopSetAttrInt(attr, NULL, 1), ACL_ERROR_INVALID_PARAM);
    assert_message_has("attrName is NULL");
    assert_acl(aclopSetAttrString(attr, "s", NULL), ACL_ERROR_INVALID_PARAM);
    assert_acl(aclopSetAttrString(NULL, "s", "t"), ACL_ERROR_INVALID_PARAM);
    assert_acl(aclopSetAttrListInt(attr, "l", -1, ints), ACL_ERROR_INVALID_PARAM);
    assert_acl(aclopSetAttrListInt(attr, "l", 2, NULL), ACL_ERROR_INVALID_PARAM);
    assert_message_has("values is NULL, and there should be 2");
    assert_acl(aclopSetAttrListInt(NULL, "l", 1, ints), ACL_ERROR_INVALID_PARAM);
    assert_acl(aclopSetAttrListListInt(attr, "l", 2, (int[]){1, 1}, lists),
               ACL_ERROR_INVALID_PARAM);
    assert_acl(aclopSetAttrListListInt(attr, "l", 1, NULL, lists),
               ACL_ERROR_INVALID_PARAM);
    assert_acl(aclopSetAttrListListInt(attr, "l", 1, (int[]){1}, NULL),
               ACL_ERROR_INVALID_PARAM);
    aclopDestroyAttr(attr);
}

/* ---- models ---- */

static void a_dataset_keeps_buffers_in_order(void **state)
{
    aclmdlDataset *dataset = aclmdlCreateDataset();
    aclDataBuffer *buffers[20];

    assert_non_null(dataset);
    assert_int_equal(aclmdlGetDatasetNumBuffers(dataset), 0);
    for (size_t i = 0; i < 20; i++) {
        buffers[i] = aclCreateDataBuffer(NULL, i);
        assert_acl_ok(aclmdlAddDatasetBuffer(dataset, buffers[i]));
    }
    assert_int_equal(aclmdlGetDatasetNumBuffers(dataset), 20);
    for (size_t i = 0; i < 20; i++)
        assert_ptr_equal(aclmdlGetDatasetBuffer(dataset, i), buffers[i]);
    assert_null(aclmdlGetDatasetBuffer(dataset, 20));
    assert_said("index is 20, and the list has 20 buffers");
    assert_acl_ok(aclmdlDestroyDataset(dataset));
    for (size_t i = 0; i < 20; i++) { /* they are the caller's still */
        assert_int_equal(aclGetDataBufferSizeV2(buffers[i]), i);
        assert_acl_ok(aclDestroyDataBuffer(buffers[i]));
    }
}

static void no_dataset_is_refused(void **state)
{
    aclmdlDataset *dataset = aclmdlCreateDataset();
    aclDataBuffer *buffer = aclCreateDataBuffer(NULL, 0);

    assert_acl(aclmdlDestroyDataset(NULL), ACL_ERROR_INVALID_PARAM);
    assert_acl(aclmdlAddDatasetBuffer(NULL, buffer), ACL_ERROR_INVALID_PARAM);
    assert_acl(aclmdlAddDatasetBuffer(dataset, NULL), ACL_ERROR_INVALID_PARAM);
    assert_int_equal(aclmdlGetDatasetNumBuffers(NULL), 0);
    assert_said("dataset is NULL");
    assert_null(aclmdlGetDatasetBuffer(NULL, 0));
    assert_said("dataset is NULL");
    assert_int_equal(aclmdlGetDatasetNumBuffers(dataset), 0);
    assert_acl_ok(aclDestroyDataBuffer(buffer));
    assert_acl_ok(aclmdlDestroyDataset(dataset));
}

static void a_description_of_a_model_is_of_none(void **state)
{
    aclmdlDesc *desc = aclmdlCreateDesc();
    aclmdlIODims dims = {.dimCount = 9};

    assert_non_null(desc);
    assert_acl(aclmdlGetDesc(desc, 1), ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
    assert_int_equal(aclmdlGetNumInputs(desc), 0);
    assert_acl(aclmdlGetInputDims(desc, 0, &dims), ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
    assert_int_equal(dims.dimCount, 9);
    assert_acl_ok(aclmdlDestroyDesc(desc));
    assert_acl(aclmdlDestroyDesc(NULL), ACL_ERROR_INVALID_PARAM);
}

/* Frameworks do this when their user asks for a dump, and throw where it fails. */
static void a_dump_begins_and_ends(void **state)
{
    char path[] = "/tmp/aclmem_dump_XXXXXX";
    int fd = mkstemp(path);

    assert_true(fd >= 0);
    for (int i = 0; i < 2; i++) {
        assert_acl(aclmdlSetDump(path), ACL_ERROR_DUMP_NOT_RUN);
        assert_acl(aclmdlFinalizeDump(), ACL_ERROR_DUMP_NOT_RUN);
        assert_acl_ok(aclmdlInitDump());
        assert_acl(aclmdlInitDump(), ACL_ERROR_DUMP_ALREADY_RUN);
        assert_acl_ok(aclmdlSetDump(path));
        assert_acl(aclmdlSetDump(NULL), ACL_ERROR_INVALID_PARAM);
        assert_acl(aclmdlSetDump("/no/such/file"), ACL_ERROR_INVALID_FILE);
        assert_message_has("\"/no/such/file\" cannot be read");
        assert_acl_ok(aclmdlFinalizeDump());
    }
    close(fd);
    unlink(path);
}

/* ---- all of them ---- */

static void a_pointer_of_the_profiler_is_null(void **state)
{
    assert_null(aclprofCreateConfig(NULL, 0, ACL_AICORE_NONE, NULL, 0));
    assert_null(aclprofCreateStepInfo());
    aclprofDestroyStepInfo(NULL);
}

static void data_outlives_the_runtime(void **state)
{
    aclDataBuffer *buffer = aclCreateDataBuffer(state, 3);

    start("strict");
    assert_int_equal(aclGetDataBufferSizeV2(buffer), 3);
    assert_acl_ok(aclFinalize());
    assert_acl(aclrtSetDevice(0), ACL_ERROR_UNINITIALIZE);
    assert_int_equal(aclGetDataBufferSizeV2(buffer), 3);
    assert_acl_ok(aclDestroyDataBuffer(buffer));
}

int main(void)
{
    const struct CMUnitTest claims[] = {
        claim_alone(a_buffer_keeps_an_address_and_a_size),
        claim_alone(a_buffer_may_be_empty),
        claim_alone(a_size_beyond_32_bits_needs_the_newer_function),
        claim_alone(no_buffer_is_refused),
        claim_alone(a_description_gives_back_what_it_was_made_with),
        claim_alone(a_description_has_a_name),
        claim_alone(a_scalar_has_one_element_and_an_open_shape_none),
        claim_alone(settings_of_a_description_are_checked),
        claim_alone(a_wrong_description_is_refused),
        claim_alone(no_description_is_refused),
        claim_alone(attributes_of_every_kind_are_taken),
        claim_alone(wrong_attributes_are_refused),
        claim_alone(a_dataset_keeps_buffers_in_order),
        claim_alone(no_dataset_is_refused),
        claim_alone(a_description_of_a_model_is_of_none),
        claim_alone(a_dump_begins_and_ends),
        claim_alone(a_pointer_of_the_profiler_is_null),
        claim_alone(data_outlives_the_runtime),
    };

    return run_claims(claims);
}
