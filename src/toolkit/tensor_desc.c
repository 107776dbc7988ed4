/*
 * The type, layout and shape of a tensor.
 *
 * Values that no function returns - the layout in memory, ranges, where the tensor lies,
 * its bytes - would be read by operators only.  They are checked and not kept.
 */
#include <string.h>

#include "api/api.h"
#include "base/error.h"
#include "base/sys.h"
#include "toolkit/toolkit.h"

struct aclTensorDesc {
    aclDataType type;
    aclFormat format;
    char *name; /* NULL: it has none */
    size_t n_dims;
    int64_t dims[];
};

static aclError dims_check(const char *function, int n, const int64_t *dims)
{
    if (n < 0 || n > TK_DIMS_MAX)
        return aclmem_toolkit_fail(ACL_ERROR_INVALID_PARAM, function,
                                   "numDims is %d; it takes 0 to %d", n, TK_DIMS_MAX);
    if (n > 0 && dims == NULL)
        return aclmem_toolkit_fail(ACL_ERROR_INVALID_PARAM, function,
                                   "dims is NULL, and numDims is %d", n);
    return ACL_SUCCESS;
}

aclTensorDesc *aclCreateTensorDesc(aclDataType dataType, int numDims, const int64_t *dims,
                                   aclFormat format)
{
    aclTensorDesc *desc;
    size_t size;

    if (dims_check(__func__, numDims, dims) != ACL_SUCCESS)
        return NULL;
    size = (size_t)numDims * sizeof *dims;
    desc = am_sys_malloc(sizeof *desc + size);
    TK_REQUIRE_OR(NULL, desc != NULL, ACL_ERROR_BAD_ALLOC,
                  "no memory for the description");
    *desc =
        (aclTensorDesc){.type = dataType, .format = format, .n_dims = (size_t)numDims};
    if (size > 0)
        memcpy(desc->dims, dims, size);
    return desc;
}

void aclDestroyTensorDesc(const aclTensorDesc *desc)
{
    if (desc == NULL)
        return;
    free(desc->name);
    free((void *)desc);
}

TK_GETTER(aclDataType, aclGetTensorDescType, const aclTensorDesc, desc, ACL_DT_UNDEFINED,
          desc->type)
TK_GETTER(aclFormat, aclGetTensorDescFormat, const aclTensorDesc, desc,
          ACL_FORMAT_UNDEFINED, desc->format)
TK_GETTER(size_t, aclGetTensorDescNumDims, const aclTensorDesc, desc, 0, desc->n_dims)

aclError aclGetTensorDescDimV2(const aclTensorDesc *desc, size_t index, int64_t *dimSize)
{
    TK_NEED(desc);
    TK_NEED(dimSize);
    TK_REQUIRE(index < desc->n_dims, ACL_ERROR_INVALID_PARAM,
               "index is %zu, and the tensor has %zu dimensions", index, desc->n_dims);
    *dimSize = desc->dims[index];
    return ACL_SUCCESS;
}

/* The product of the dimensions and `factor`; 0 where one is open, or it is too large. */
static size_t desc_product(const aclTensorDesc *desc, size_t factor)
{
    size_t product = factor;

    for (size_t i = 0; i < desc->n_dims; i++) {
        if (desc->dims[i] < 0 ||
            __builtin_mul_overflow(product, (size_t)desc->dims[i], &product))
            return 0;
    }
    return product;
}

TK_GETTER(size_t, aclGetTensorDescElementCount, const aclTensorDesc, desc, 0,
          desc_product(desc, 1))

size_t aclGetTensorDescSize(const aclTensorDesc *desc)
{
    TK_NEED_OR(0, desc);
    am_error_function = __func__;
    return desc_product(desc, am_aclDataTypeSize(desc->type));
}

TK_GETTER(const char *, aclGetTensorDescName, aclTensorDesc, desc, "",
          desc->name != NULL ? desc->name : "")

void aclSetTensorDescName(aclTensorDesc *desc, const char *name)
{
    char *copy;

    TK_NEED_OR(, desc);
    TK_NEED_OR(, name);
    copy = am_sys_malloc(strlen(name) + 1);
    TK_REQUIRE_OR(, copy != NULL, ACL_ERROR_BAD_ALLOC, "no memory for the name");
    free(desc->name);
    desc->name = strcpy(copy, name);
}

aclError aclSetTensorFormat(aclTensorDesc *desc, aclFormat format)
{
    TK_NEED(desc);
    return ACL_SUCCESS;
}

aclError aclSetTensorShape(aclTensorDesc *desc, int numDims, const int64_t *dims)
{
    TK_NEED(desc);
    return dims_check(__func__, numDims, dims);
}

aclError aclSetTensorShapeRange(aclTensorDesc *desc, size_t dimsCount,
                                int64_t dimsRange[][ACL_TENSOR_SHAPE_RANGE_NUM])
{
    TK_NEED(desc);
    TK_REQUIRE(dimsCount <= TK_DIMS_MAX, ACL_ERROR_INVALID_PARAM,
               "dimsCount is %zu; it takes 0 to %d", dimsCount, TK_DIMS_MAX);
    TK_REQUIRE(dimsCount == 0 || dimsRange != NULL, ACL_ERROR_INVALID_PARAM,
               "dimsRange is NULL, and dimsCount is %zu", dimsCount);
    return ACL_SUCCESS;
}

aclError aclSetTensorPlaceMent(aclTensorDesc *desc, aclMemType memType)
{
    TK_NEED(desc);
    TK_REQUIRE(memType >= ACL_MEMTYPE_DEVICE &&
                   memType <= ACL_MEMTYPE_HOST_COMPILE_INDEPENDENT,
               ACL_ERROR_INVALID_PARAM, "memType is %d; it takes 0 to 2", (int)memType);
    return ACL_SUCCESS;
}

aclError aclSetTensorConst(aclTensorDesc *desc, void *dataBuffer, size_t length)
{
    TK_NEED(desc);
    TK_REQUIRE(length == 0 || dataBuffer != NULL, ACL_ERROR_INVALID_PARAM,
               "dataBuffer is NULL, and length is %zu", length);
    return ACL_SUCCESS;
}
