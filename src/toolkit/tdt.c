/* Items for a data channel, and lists of them.  The data is the caller's. */
#include <string.h>

#include "acl/acl_tdt.h"
#include "toolkit/list.h"
#include "toolkit/toolkit.h"

struct acltdtDataItem {
    acltdtTensorType kind;
    aclDataType type;
    void *data;
    size_t size;
    size_t n_dims;
    int64_t dims[];
};

struct acltdtDataset {
    struct tk_list list;
};

acltdtDataItem *acltdtCreateDataItem(acltdtTensorType tdtType, const int64_t *dims,
                                     size_t dimNum, aclDataType dataType, void *data,
                                     size_t size)
{
    acltdtDataItem *item;

    TK_REQUIRE_OR(NULL, dimNum <= TK_DIMS_MAX, ACL_ERROR_INVALID_PARAM,
                  "dimNum is %zu; it takes 0 to %d", dimNum, TK_DIMS_MAX);
    TK_REQUIRE_OR(NULL, dimNum == 0 || dims != NULL, ACL_ERROR_INVALID_PARAM,
                  "dims is NULL, and dimNum is %zu", dimNum);
    item = am_sys_malloc(sizeof *item + dimNum * sizeof *dims);
    TK_REQUIRE_OR(NULL, item != NULL, ACL_ERROR_BAD_ALLOC, "no memory for the item");
    *item = (acltdtDataItem){
        .kind = tdtType, .type = dataType, .data = data, .size = size, .n_dims = dimNum};
    if (dimNum > 0)
        memcpy(item->dims, dims, dimNum * sizeof *dims);
    return item;
}

TK_DESTROY(acltdtDestroyDataItem, acltdtDataItem, dataItem)

TK_GETTER(acltdtTensorType, acltdtGetTensorTypeFromItem, const acltdtDataItem, dataItem,
          ACL_TENSOR_DATA_UNDEFINED, dataItem->kind)
TK_GETTER(aclDataType, acltdtGetDataTypeFromItem, const acltdtDataItem, dataItem,
          ACL_DT_UNDEFINED, dataItem->type)
TK_GETTER(void *, acltdtGetDataAddrFromItem, const acltdtDataItem, dataItem, NULL,
          dataItem->data)
TK_GETTER(size_t, acltdtGetDataSizeFromItem, const acltdtDataItem, dataItem, 0,
          dataItem->size)
TK_GETTER(size_t, acltdtGetDimNumFromItem, const acltdtDataItem, dataItem, 0,
          dataItem->n_dims)

aclError acltdtGetDimsFromItem(const acltdtDataItem *dataItem, int64_t *dims,
                               size_t dimNum)
{
    TK_NEED(dataItem);
    TK_REQUIRE(dims != NULL || dimNum == 0, ACL_ERROR_INVALID_PARAM,
               "dims is NULL, and dimNum is %zu", dimNum);
    TK_REQUIRE(dimNum >= dataItem->n_dims, ACL_ERROR_INVALID_PARAM,
               "dimNum is %zu, and the item has %zu dimensions", dimNum,
               dataItem->n_dims);
    if (dataItem->n_dims > 0)
        memcpy(dims, dataItem->dims, dataItem->n_dims * sizeof *dims);
    return ACL_SUCCESS;
}

TK_DATASET(acltdtDataset, acltdtDataItem, dataItem, acltdtCreateDataset,
           acltdtDestroyDataset, , acltdtAddDataItem, acltdtGetDataItem, "items")

TK_GETTER(size_t, acltdtGetDatasetSize, const acltdtDataset, dataset, 0, dataset->list.n)
TK_GETTER(const char *, acltdtGetDatasetName, const acltdtDataset, dataset, NULL, "")
