/*
 * What the libraries beside libascendcl.so have that is data on the host: what aclnn
 * operators take, items of a data channel, settings of the compiler, names of codes.
 */
#include <stdlib.h>
#include <string.h>

#include "acl/acl_op_compiler.h"
#include "acl/acl_tdt.h"
#include "aclnn/aclnn_base.h"
#include "hccl/hccl.h"
#include "support/support.h"

/* The code and the message of a function that returned NULL. */
static void assert_said(aclError code, const char *words)
{
    const char *message = aclGetRecentErrMsg();

    assert_int_equal(aclrtGetLastError(ACL_RT_THREAD_LEVEL), code);
    assert_non_null(message);
    assert_non_null(strstr(message, words));
}

/* ---- aclnn: tensors ---- */

static const int64_t view[] = {2, 5, 20}, storage[] = {10, 20}, strides[] = {100, 20, 1};

static void assert_values(aclnnStatus (*get)(const aclTensor *, int64_t **, uint64_t *),
                          const aclTensor *tensor, const int64_t *expected, uint64_t n)
{
    int64_t *values = NULL;
    uint64_t n_values = 77;

    assert_int_equal(get(tensor, &values, &n_values), ACLNN_SUCCESS);
    assert_int_equal(n_values, n);
    assert_non_null(values);
    assert_memory_equal(values, expected, n * sizeof(*values));
    free(values);
}

static void a_tensor_gives_back_what_it_was_made_with(void **state)
{
    aclTensor *tensor = aclCreateTensor(view, 3, ACL_FLOAT16, strides, 7, ACL_FORMAT_ND,
                                        storage, 2, state);
    aclDataType type;
    aclFormat format;
    int64_t offset;

    assert_non_null(tensor);
    assert_values(aclGetViewShape, tensor, view, 3);
    assert_values(aclGetViewStrides, tensor, strides, 3);
    assert_values(aclGetStorageShape, tensor, storage, 2);
    assert_int_equal(aclGetViewOffset(tensor, &offset), ACLNN_SUCCESS);
    assert_int_equal(offset, 7);
    assert_int_equal(aclGetDataType(tensor, &type), ACLNN_SUCCESS);
    assert_int_equal(type, ACL_FLOAT16);
    assert_int_equal(aclGetFormat(tensor, &format), ACLNN_SUCCESS);
    assert_int_equal(format, ACL_FORMAT_ND);
    assert_int_equal(aclDestroyTensor(tensor), ACLNN_SUCCESS);
}

static void
a_tensor_without_strides_is_contiguous_and_one_without_dimensions_a_scalar(void **state)
{
    aclTensor *tensor =
        aclCreateTensor(view, 3, ACL_FLOAT, NULL, 0, ACL_FORMAT_ND, view, 3, NULL);

    assert_values(aclGetViewStrides, tensor, strides, 3);
    assert_int_equal(aclDestroyTensor(tensor), ACLNN_SUCCESS);
    tensor = aclCreateTensor(NULL, 0, ACL_FLOAT, NULL, 0, ACL_FORMAT_ND, NULL, 0, state);
    assert_values(aclGetViewShape, tensor, view, 0);
    assert_int_equal(aclDestroyTensor(tensor), ACLNN_SUCCESS);
}

static void a_wrong_tensor_is_refused(void **state)
{
    const int64_t negative[] = {2, -5, 20};

#define CREATE(view_, n_view_, strides_, offset_, storage_, n_storage_) \
    aclCreateTensor(view_, n_view_, ACL_FLOAT, strides_, offset_, ACL_FORMAT_ND, \
                    storage_, n_storage_, NULL)
    assert_null(CREATE(NULL, 3, strides, 0, storage, 2));
    assert_said(ACLNN_ERR_PARAM_NULLPTR, "viewDims is NULL");
    assert_null(CREATE(view, 3, strides, 0, NULL, 2));
    assert_said(ACLNN_ERR_PARAM_NULLPTR, "storageDims is NULL");
    assert_null(CREATE(negative, 3, strides, 0, storage, 2));
    assert_said(ACLNN_ERR_PARAM_INVALID, "viewDims[1] is -5; no value may be negative");
    assert_null(CREATE(view, 3, negative, 0, storage, 2));
    assert_said(ACLNN_ERR_PARAM_INVALID, "stride[1] is -5");
    assert_null(CREATE(view, 3, strides, 0, negative, 3));
    assert_said(ACLNN_ERR_PARAM_INVALID, "storageDims[1] is -5");
    assert_null(CREATE(view, 3, strides, -1, storage, 2));
    assert_said(ACLNN_ERR_PARAM_INVALID, "offset is -1");
    assert_null(CREATE(view, UINT64_MAX, strides, 0, storage, 2));
    assert_said(ACLNN_ERR_PARAM_INVALID, "it takes 0 to 128");
#undef CREATE
}

static void no_tensor_is_refused(void **state)
{
    aclTensor *tensor =
        aclCreateTensor(view, 3, ACL_FLOAT, NULL, 0, ACL_FORMAT_ND, view, 3, NULL);
    int64_t *values = NULL;
    uint64_t n = 77;
    aclDataType type;
    aclFormat format;
    int64_t offset;

    assert_acl(aclDestroyTensor(NULL), ACLNN_ERR_PARAM_NULLPTR);
    assert_message_has("aclDestroyTensor: tensor is NULL");
    assert_message_has("ACLNN_ERR_PARAM_NULLPTR");
    assert_acl(aclGetViewShape(NULL, &values, &n), ACLNN_ERR_PARAM_NULLPTR);
    assert_acl(aclGetViewShape(tensor, NULL, &n), ACLNN_ERR_PARAM_NULLPTR);
    assert_acl(aclGetViewShape(tensor, &values, NULL), ACLNN_ERR_PARAM_NULLPTR);
    assert_acl(aclGetViewStrides(NULL, &values, &n), ACLNN_ERR_PARAM_NULLPTR);
    assert_acl(aclGetStorageShape(NULL, &values, &n), ACLNN_ERR_PARAM_NULLPTR);
    assert_acl(aclGetViewOffset(NULL, &offset), ACLNN_ERR_PARAM_NULLPTR);
    assert_acl(aclGetViewOffset(tensor, NULL), ACLNN_ERR_PARAM_NULLPTR);
    assert_acl(aclGetFormat(NULL, &format), ACLNN_ERR_PARAM_NULLPTR);
    assert_acl(aclGetDataType(NULL, &type), ACLNN_ERR_PARAM_NULLPTR);
    assert_null(values);
    assert_int_equal(n, 77);
    assert_int_equal(aclDestroyTensor(tensor), ACLNN_SUCCESS);
}

/* ---- aclnn: the rest ---- */

static void a_scalar_is_made_of_any_type_that_has_a_size(void **state)
{
    double value = 1.5;
    aclScalar *scalar = aclCreateScalar(&value, ACL_DOUBLE);

    assert_non_null(scalar);
    assert_int_equal(aclDestroyScalar(scalar), ACLNN_SUCCESS);
    assert_null(aclCreateScalar(NULL, ACL_DOUBLE));
    assert_said(ACLNN_ERR_PARAM_NULLPTR, "value is NULL");
    assert_null(aclCreateScalar(&value, ACL_STRING));
    assert_said(ACLNN_ERR_PARAM_INVALID, "dataType is 13, which a scalar");
    assert_null(aclCreateScalar(&value, (aclDataType)99));
    assert_said(ACLNN_ERR_PARAM_INVALID, "dataType is 99");
    assert_acl(aclDestroyScalar(NULL), ACLNN_ERR_PARAM_NULLPTR);
}

#define ARRAY_CLAIM(kind_, type_) \
    static void arrays_of_##kind_##_know_their_length(void **state) \
    { \
        const type_ values[] = {1, 0, 1}; \
        acl##kind_##Array *array = aclCreate##kind_##Array(values, 3); \
        uint64_t size = 77; \
\
        assert_non_null(array); \
        assert_int_equal(aclGet##kind_##ArraySize(array, &size), ACLNN_SUCCESS); \
        assert_int_equal(size, 3); \
        assert_acl(aclGet##kind_##ArraySize(array, NULL), ACLNN_ERR_PARAM_NULLPTR); \
        assert_int_equal(aclDestroy##kind_##Array(array), ACLNN_SUCCESS); \
        array = aclCreate##kind_##Array(NULL, 0); \
        assert_int_equal(aclGet##kind_##ArraySize(array, &size), ACLNN_SUCCESS); \
        assert_int_equal(size, 0); \
        assert_int_equal(aclDestroy##kind_##Array(array), ACLNN_SUCCESS); \
        assert_null(aclCreate##kind_##Array(NULL, 3)); \
        assert_said(ACLNN_ERR_PARAM_NULLPTR, "value is NULL, and there should be 3"); \
        assert_null(aclCreate##kind_##Array(values, UINT64_MAX)); \
        assert_said(ACL_ERROR_BAD_ALLOC, "no memory for 18446744073709551615 values"); \
    }

ARRAY_CLAIM(Int, int64_t)
ARRAY_CLAIM(Float, float)
ARRAY_CLAIM(Bool, bool)

static void no_array_is_refused(void **state)
{
    uint64_t size;

    assert_acl(aclGetIntArraySize(NULL, &size), ACLNN_ERR_PARAM_NULLPTR);
    assert_acl(aclGetFloatArraySize(NULL, &size), ACLNN_ERR_PARAM_NULLPTR);
    assert_acl(aclGetBoolArraySize(NULL, &size), ACLNN_ERR_PARAM_NULLPTR);
    assert_acl(aclDestroyIntArray(NULL), ACLNN_ERR_PARAM_NULLPTR);
    assert_acl(aclDestroyFloatArray(NULL), ACLNN_ERR_PARAM_NULLPTR);
    assert_acl(aclDestroyBoolArray(NULL), ACLNN_ERR_PARAM_NULLPTR);
}

/* What is left over, the sanitizer of memory reports. */
static void lists_own_what_is_in_them(void **state)
{
    int64_t one = 1;
    const aclTensor *tensors[] = {
        aclCreateTensor(view, 3, ACL_FLOAT, NULL, 0, ACL_FORMAT_ND, view, 3, NULL),
        aclCreateTensor(view, 2, ACL_FLOAT, NULL, 0, ACL_FORMAT_ND, view, 2, NULL),
    };
    const aclScalar *scalars[] = {aclCreateScalar(&one, ACL_INT64)};
    aclTensorList *tensor_list = aclCreateTensorList(tensors, 2);
    aclScalarList *scalar_list = aclCreateScalarList(scalars, 1);
    uint64_t size = 77;

    assert_int_equal(aclGetTensorListSize(tensor_list, &size), ACLNN_SUCCESS);
    assert_int_equal(size, 2);
    assert_int_equal(aclGetScalarListSize(scalar_list, &size), ACLNN_SUCCESS);
    assert_int_equal(size, 1);
    assert_int_equal(aclDestroyTensorList(tensor_list), ACLNN_SUCCESS);
    assert_int_equal(aclDestroyScalarList(scalar_list), ACLNN_SUCCESS);
}

static void no_list_is_refused(void **state)
{
    uint64_t size;

    assert_null(aclCreateTensorList(NULL, 1));
    assert_said(ACLNN_ERR_PARAM_NULLPTR, "value is NULL");
    assert_null(aclCreateScalarList(NULL, 1));
    assert_said(ACLNN_ERR_PARAM_NULLPTR, "value is NULL");
    assert_acl(aclGetTensorListSize(NULL, &size), ACLNN_ERR_PARAM_NULLPTR);
    assert_acl(aclGetScalarListSize(NULL, &size), ACLNN_ERR_PARAM_NULLPTR);
    assert_acl(aclDestroyTensorList(NULL), ACLNN_ERR_PARAM_NULLPTR);
    assert_acl(aclDestroyScalarList(NULL), ACLNN_ERR_PARAM_NULLPTR);
}

static void operators_may_be_started_and_ended(void **state)
{
    assert_acl_ok(aclnnInit(NULL));
    assert_acl_ok(aclnnFinalize());
}

/* ---- data channels ---- */

static void an_item_gives_back_what_it_was_made_with(void **state)
{
    acltdtDataItem *item =
        acltdtCreateDataItem(ACL_TENSOR_DATA_TENSOR, view, 3, ACL_INT32, state, 800);
    int64_t dims[4] = {0};

    assert_non_null(item);
    assert_int_equal(acltdtGetTensorTypeFromItem(item), ACL_TENSOR_DATA_TENSOR);
    assert_int_equal(acltdtGetDataTypeFromItem(item), ACL_INT32);
    assert_ptr_equal(acltdtGetDataAddrFromItem(item), state);
    assert_int_equal(acltdtGetDataSizeFromItem(item), 800);
    assert_int_equal(acltdtGetDimNumFromItem(item), 3);
    assert_acl_ok(acltdtGetDimsFromItem(item, dims, 4));
    assert_memory_equal(dims, view, sizeof(view));
    assert_int_equal(dims[3], 0);
    assert_acl(acltdtGetDimsFromItem(item, dims, 2), ACL_ERROR_INVALID_PARAM);
    assert_message_has("dimNum is 2, and the item has 3 dimensions");
    assert_acl(acltdtGetDimsFromItem(item, NULL, 3), ACL_ERROR_INVALID_PARAM);
    assert_acl_ok(acltdtDestroyDataItem(item));
}

static void a_wrong_item_is_refused(void **state)
{
    assert_null(acltdtCreateDataItem(ACL_TENSOR_DATA_TENSOR, NULL, 3, ACL_INT8, NULL, 0));
    assert_said(ACL_ERROR_INVALID_PARAM, "dims is NULL, and dimNum is 3");
    assert_null(
        acltdtCreateDataItem(ACL_TENSOR_DATA_TENSOR, view, 129, ACL_INT8, NULL, 0));
    assert_said(ACL_ERROR_INVALID_PARAM, "dimNum is 129");
    assert_acl(acltdtDestroyDataItem(NULL), ACL_ERROR_INVALID_PARAM);
    assert_int_equal(acltdtGetTensorTypeFromItem(NULL), ACL_TENSOR_DATA_UNDEFINED);
    assert_int_equal(acltdtGetDataTypeFromItem(NULL), ACL_DT_UNDEFINED);
    assert_null(acltdtGetDataAddrFromItem(NULL));
    assert_int_equal(acltdtGetDataSizeFromItem(NULL), 0);
    assert_int_equal(acltdtGetDimNumFromItem(NULL), 0);
    assert_acl(acltdtGetDimsFromItem(NULL, NULL, 0), ACL_ERROR_INVALID_PARAM);
}

static void a_dataset_keeps_items_in_order(void **state)
{
    acltdtDataset *dataset = acltdtCreateDataset();
    acltdtDataItem *items[9];

    for (size_t i = 0; i < 9; i++) {
        items[i] = acltdtCreateDataItem(ACL_TENSOR_DATA_END_OF_SEQUENCE, NULL, 0,
                                        ACL_INT8, NULL, i);
        assert_acl_ok(acltdtAddDataItem(dataset, items[i]));
    }
    assert_int_equal(acltdtGetDatasetSize(dataset), 9);
    for (size_t i = 0; i < 9; i++)
        assert_ptr_equal(acltdtGetDataItem(dataset, i), items[i]);
    assert_null(acltdtGetDataItem(dataset, 9));
    assert_said(ACL_ERROR_INVALID_PARAM, "index is 9, and the list has 9 items");
    assert_string_equal(acltdtGetDatasetName(dataset), "");
    assert_acl(acltdtAddDataItem(dataset, NULL), ACL_ERROR_INVALID_PARAM);
    assert_acl_ok(acltdtDestroyDataset(dataset));
    for (size_t i = 0; i < 9; i++)
        assert_acl_ok(acltdtDestroyDataItem(items[i]));
}

static void no_channel_dataset_is_refused(void **state)
{
    assert_acl(acltdtDestroyDataset(NULL), ACL_ERROR_INVALID_PARAM);
    assert_acl(acltdtAddDataItem(NULL, NULL), ACL_ERROR_INVALID_PARAM);
    assert_null(acltdtGetDataItem(NULL, 0));
    assert_int_equal(acltdtGetDatasetSize(NULL), 0);
    assert_null(acltdtGetDatasetName(NULL));
    assert_null(acltdtCreateChannel(0, "name"));
    assert_null(acltdtCreateChannelWithCapacity(0, "name", 2));
}

/* ---- settings and names ---- */

static void settings_of_the_compiler_are_checked(void **state)
{
    assert_acl_ok(aclSetCompileopt(ACL_OP_JIT_COMPILE, "disable"));
    assert_acl_ok(aclSetCompileopt(ACL_OP_DEBUG_OPTION, "oom"));
    assert_acl(aclSetCompileopt((aclCompileOpt)17, "x"), ACL_ERROR_INVALID_PARAM);
    assert_message_has("aclSetCompileopt: opt is 17; it takes 0 to 16");
    assert_acl(aclSetCompileopt((aclCompileOpt)-1, "x"), ACL_ERROR_INVALID_PARAM);
    assert_acl(aclSetCompileopt(ACL_PRECISION_MODE, NULL), ACL_ERROR_INVALID_PARAM);
    assert_acl_ok(aclopSetCompileFlag(ACL_OP_COMPILE_FUZZ));
    assert_acl_ok(aclopSetCompileFlag(ACL_OP_COMPILE_DEFAULT));
    assert_acl(aclopSetCompileFlag((aclOpCompileFlag)2), ACL_ERROR_INVALID_PARAM);
}

static void codes_of_collectives_have_names(void **state)
{
    for (int code = HCCL_SUCCESS; code <= HCCL_E_SUSPENDING; code++)
        assert_memory_equal(HcclGetErrorString((HcclResult)code), "HCCL_", 5);
    assert_string_equal(HcclGetErrorString(HCCL_E_NOT_SUPPORT), "HCCL_E_NOT_SUPPORT");
    assert_string_equal(HcclGetErrorString((HcclResult)23), "unknown error");
    assert_string_equal(HcclGetErrorString((HcclResult)-1), "unknown error");
}

int main(void)
{
    const struct CMUnitTest claims[] = {
        claim_alone(a_tensor_gives_back_what_it_was_made_with),
        claim_alone(
            a_tensor_without_strides_is_contiguous_and_one_without_dimensions_a_scalar),
        claim_alone(a_wrong_tensor_is_refused),
        claim_alone(no_tensor_is_refused),
        claim_alone(a_scalar_is_made_of_any_type_that_has_a_size),
        claim_alone(arrays_of_Int_know_their_length),
        claim_alone(arrays_of_Float_know_their_length),
        claim_alone(arrays_of_Bool_know_their_length),
        claim_alone(no_array_is_refused),
        claim_alone(lists_own_what_is_in_them),
        claim_alone(no_list_is_refused),
        claim_alone(operators_may_be_started_and_ended),
        claim_alone(an_item_gives_back_what_it_was_made_with),
        claim_alone(a_wrong_item_is_refused),
        claim_alone(a_dataset_keeps_items_in_order),
        claim_alone(no_channel_dataset_is_refused),
        claim_alone(settings_of_the_compiler_are_checked),
        claim_alone(codes_of_collectives_have_names),
    };

    return run_claims(claims);
}
