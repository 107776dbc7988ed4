/*
 * The arguments of aclnn operators: tensors, scalars, arrays, and lists of the first
 * two.
 *
 * The operators' library would read the objects by their addresses; here they hold the
 * values that the getters return.
 */
#include <inttypes.h>
#include <string.h>

#include "aclnn/aclnn_base.h"
#include "base/sys.h"
#include "toolkit/toolkit.h"

/* 161001 where a pointer is NULL. */
#define NN_NEED(pointer_) \
    TK_REQUIRE((pointer_) != NULL, ACLNN_ERR_PARAM_NULLPTR, "%s is NULL", #pointer_)

/* ---- tensors ---- */

struct aclTensor {
    aclDataType type;
    aclFormat format;
    int64_t offset;
    void *data;
    size_t n_view;
    size_t n_storage;
    int64_t values[]; /* dimensions and strides of the view, dimensions of the storage */
};

static int64_t *tensor_strides(const aclTensor *tensor)
{
    return (int64_t *)tensor->values + tensor->n_view;
}

static int64_t *tensor_storage(const aclTensor *tensor)
{
    return tensor_strides(tensor) + tensor->n_view;
}

/* Whether these are n values, none of them negative. */
static bool values_check(const char *what, const int64_t *values, uint64_t n)
{
    static const char function[] = "aclCreateTensor";

    if (n > TK_DIMS_MAX) {
        aclmem_toolkit_fail(ACLNN_ERR_PARAM_INVALID, function,
                            "the number of %s is %" PRIu64 "; it takes 0 to %d", what, n,
                            TK_DIMS_MAX);
        return false;
    }
    if (n > 0 && values == NULL) {
        aclmem_toolkit_fail(ACLNN_ERR_PARAM_NULLPTR, function,
                            "%s is NULL, and there should be %" PRIu64, what, n);
        return false;
    }
    for (uint64_t i = 0; i < n; i++) {
        if (values[i] < 0) {
            aclmem_toolkit_fail(ACLNN_ERR_PARAM_INVALID, function,
                                "%s[%" PRIu64 "] is %" PRId64
                                "; no value may be negative",
                                what, i, values[i]);
            return false;
        }
    }
    return true;
}

static void tensor_fill(aclTensor *tensor, const int64_t *dims, const int64_t *strides,
                        const int64_t *storage)
{
    int64_t *stride = tensor_strides(tensor);
    int64_t contiguous = 1;

    for (size_t i = tensor->n_view; i-- > 0;) {
        tensor->values[i] = dims[i];
        stride[i] = strides != NULL ? strides[i] : contiguous;
        if (__builtin_mul_overflow(contiguous, dims[i], &contiguous))
            contiguous = INT64_MAX;
    }
    if (tensor->n_storage > 0)
        memcpy(tensor_storage(tensor), storage, tensor->n_storage * sizeof *storage);
}

aclTensor *aclCreateTensor(const int64_t *viewDims, uint64_t viewDimsNum,
                           aclDataType dataType, const int64_t *stride, int64_t offset,
                           aclFormat format, const int64_t *storageDims,
                           uint64_t storageDimsNum, void *tensorData)
{
    aclTensor *tensor;

    if (!values_check("viewDims", viewDims, viewDimsNum) ||
        !values_check("stride", stride, stride != NULL ? viewDimsNum : 0) ||
        !values_check("storageDims", storageDims, storageDimsNum))
        return NULL;
    TK_REQUIRE_OR(NULL, offset >= 0, ACLNN_ERR_PARAM_INVALID,
                  "offset is %" PRId64 "; it may not be negative", offset);
    tensor = am_sys_malloc(sizeof *tensor +
                           (2 * viewDimsNum + storageDimsNum) * sizeof(int64_t));
    TK_REQUIRE_OR(NULL, tensor != NULL, ACL_ERROR_BAD_ALLOC, "no memory for the tensor");
    *tensor = (aclTensor){.type = dataType,
                          .format = format,
                          .offset = offset,
                          .data = tensorData,
                          .n_view = viewDimsNum,
                          .n_storage = storageDimsNum};
    tensor_fill(tensor, viewDims, stride, storageDims);
    return tensor;
}

aclnnStatus aclDestroyTensor(const aclTensor *tensor)
{
    NN_NEED(tensor);
    free((void *)tensor);
    return ACLNN_SUCCESS;
}

/* A copy, which the caller frees. */
static aclnnStatus values_copy(const char *function, const int64_t *values, size_t n,
                               int64_t **ret_values, uint64_t *ret_n)
{
    int64_t *copy = am_sys_malloc(n > 0 ? n * sizeof *copy : 1);

    if (copy == NULL)
        return aclmem_toolkit_fail(ACL_ERROR_BAD_ALLOC, function,
                                   "no memory for %zu values", n);
    if (n > 0)
        memcpy(copy, values, n * sizeof *copy);
    *ret_values = copy;
    *ret_n = n;
    return ACLNN_SUCCESS;
}

#define GET_VALUES(name_, values_, count_, from_, n_) \
    aclnnStatus name_(const aclTensor *tensor, int64_t **values_, uint64_t *count_) \
    { \
        NN_NEED(tensor); \
        NN_NEED(values_); \
        NN_NEED(count_); \
        return values_copy(__func__, from_, n_, values_, count_); \
    }

GET_VALUES(aclGetViewShape, viewDims, viewDimsNum, tensor->values, tensor->n_view)
GET_VALUES(aclGetStorageShape, storageDims, storageDimsNum, tensor_storage(tensor),
           tensor->n_storage)
GET_VALUES(aclGetViewStrides, stridesValue, stridesNum, tensor_strides(tensor),
           tensor->n_view)

#define GET_FIELD(name_, type_, result_, field_) \
    aclnnStatus name_(const aclTensor *tensor, type_ *result_) \
    { \
        NN_NEED(tensor); \
        NN_NEED(result_); \
        *result_ = tensor->field_; \
        return ACLNN_SUCCESS; \
    }

GET_FIELD(aclGetViewOffset, int64_t, offset, offset)
GET_FIELD(aclGetFormat, aclFormat, format, format)
GET_FIELD(aclGetDataType, aclDataType, dataType, type)

/* ---- scalars, and arrays of numbers ---- */

/* Bytes that were copied; all arrays and scalars are this. */
struct values {
    uint64_t n; /* how many */
    char bytes[];
};

static void *values_create(const char *function, const void *value, uint64_t n,
                           size_t size)
{
    struct values *values;

    if (n > 0 && value == NULL) {
        aclmem_toolkit_fail(ACLNN_ERR_PARAM_NULLPTR, function,
                            "value is NULL, and there should be %" PRIu64, n);
        return NULL;
    }
    values = n < PTRDIFF_MAX / size ? am_sys_malloc(sizeof *values + n * size) : NULL;
    if (values == NULL) {
        aclmem_toolkit_fail(ACL_ERROR_BAD_ALLOC, function,
                            "no memory for %" PRIu64 " values", n);
        return NULL;
    }
    values->n = n;
    if (n > 0)
        memcpy(values->bytes, value, n * size);
    return values;
}

aclScalar *aclCreateScalar(void *value, aclDataType dataType)
{
    size_t size;

    TK_REQUIRE_OR(NULL, value != NULL, ACLNN_ERR_PARAM_NULLPTR, "value is NULL");
    size = aclDataTypeSize(dataType);
    TK_REQUIRE_OR(NULL, size > 0, ACLNN_ERR_PARAM_INVALID,
                  "dataType is %d, which a scalar cannot have", (int)dataType);
    return values_create(__func__, value, 1, size);
}

aclnnStatus aclDestroyScalar(const aclScalar *scalar)
{
    NN_NEED(scalar);
    free((void *)scalar);
    return ACLNN_SUCCESS;
}

#define ARRAY(kind_, type_) \
    acl##kind_##Array *aclCreate##kind_##Array(const type_ *value, uint64_t size) \
    { \
        return values_create(__func__, value, size, sizeof *value); \
    } \
    aclnnStatus aclDestroy##kind_##Array(const acl##kind_##Array *array) \
    { \
        NN_NEED(array); \
        free((void *)array); \
        return ACLNN_SUCCESS; \
    } \
    aclnnStatus aclGet##kind_##ArraySize(const acl##kind_##Array *array, uint64_t *size) \
    { \
        NN_NEED(array); \
        NN_NEED(size); \
        *size = ((const struct values *)array)->n; \
        return ACLNN_SUCCESS; \
    }

ARRAY(Int, int64_t)
ARRAY(Float, float)
ARRAY(Bool, bool)

/* ---- lists ---- */

/* Tensors and scalars are one allocation each. */
static aclnnStatus list_destroy(const struct values *list)
{
    void **items = (void **)list->bytes;

    for (uint64_t i = 0; i < list->n; i++)
        free(items[i]);
    free((void *)list);
    return ACLNN_SUCCESS;
}

#define LIST(kind_, list_) \
    acl##kind_##List *aclCreate##kind_##List(const acl##kind_ *const *value, \
                                             uint64_t size) \
    { \
        return values_create(__func__, value, size, sizeof *value); \
    } \
    aclnnStatus aclDestroy##kind_##List(const acl##kind_##List *array) \
    { \
        NN_NEED(array); \
        return list_destroy((const struct values *)array); \
    } \
    aclnnStatus aclGet##kind_##ListSize(const acl##kind_##List *list_, uint64_t *size) \
    { \
        NN_NEED(list_); \
        NN_NEED(size); \
        *size = ((const struct values *)list_)->n; \
        return ACLNN_SUCCESS; \
    }

LIST(Tensor, tensorList)
LIST(Scalar, scalarList)

/* ---- the library of operators ---- */

aclnnStatus aclnnInit(const char *configPath)
{
    return ACLNN_SUCCESS;
}

aclnnStatus aclnnFinalize(void)
{
    return ACLNN_SUCCESS;
}
