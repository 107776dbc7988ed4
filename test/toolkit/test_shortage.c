/*
 * The toolkit's data with no memory for it: NULL or 200000 with a message, and nothing is
 * changed or left behind.
 */
#include <stdlib.h>
#include <string.h>

#include "acl/acl.h"
#include "acl/acl_tdt.h"
#include "aclnn/aclnn_base.h"
#include "unit/unit.h"

static const int64_t dims[] = {2, 3};

/* Runs `create_` with each allocation failing in turn: NULL where one failed; one must. */
#define assert_created_or_null(create_, destroy_) \
    for_each_fault (n_) { \
        void *made_ = create_; \
        bool has_failed_ = am_fault_fired(); \
\
        am_fault_disarm(); \
        assert_int_equal(made_ == NULL, has_failed_); \
        assert_true(has_failed_ || n_ > 1); \
        if (made_ != NULL) \
            destroy_(made_); \
        else \
            assert_int_equal(last_code(), ACL_ERROR_BAD_ALLOC); \
    }

static int last_code(void)
{
    return aclrtGetLastError(ACL_RT_THREAD_LEVEL);
}

static void create_functions_return_null_without_memory(void **state)
{
    int64_t one = 1;

    aclGetRecentErrMsg(); /* the thread's place for messages is not what is tried */
    assert_created_or_null(aclCreateDataBuffer(NULL, 0), aclDestroyDataBuffer);
    assert_created_or_null(aclCreateTensorDesc(ACL_INT8, 2, dims, ACL_FORMAT_ND),
                           aclDestroyTensorDesc);
    assert_created_or_null(aclopCreateAttr(), aclopDestroyAttr);
    assert_created_or_null(aclmdlCreateDesc(), aclmdlDestroyDesc);
    assert_created_or_null(aclmdlCreateDataset(), aclmdlDestroyDataset);
    assert_created_or_null(acltdtCreateDataset(), acltdtDestroyDataset);
    assert_created_or_null(
        acltdtCreateDataItem(ACL_TENSOR_DATA_TENSOR, dims, 2, ACL_INT8, NULL, 0),
        acltdtDestroyDataItem);
    assert_created_or_null(
        aclCreateTensor(dims, 2, ACL_INT8, NULL, 0, ACL_FORMAT_ND, dims, 2, NULL),
        aclDestroyTensor);
    assert_created_or_null(aclCreateScalar(&one, ACL_INT64), aclDestroyScalar);
    assert_created_or_null(aclCreateIntArray(dims, 2), aclDestroyIntArray);
    assert_created_or_null(aclCreateFloatArray(NULL, 0), aclDestroyFloatArray);
    assert_created_or_null(aclCreateBoolArray(NULL, 0), aclDestroyBoolArray);
    assert_created_or_null(aclCreateTensorList(NULL, 0), aclDestroyTensorList);
    assert_created_or_null(aclCreateScalarList(NULL, 0), aclDestroyScalarList);
}

static void a_list_that_cannot_grow_stays_as_it_was(void **state)
{
    aclmdlDataset *dataset = aclmdlCreateDataset();
    aclDataBuffer *buffer = aclCreateDataBuffer(NULL, 0);
    size_t n = 0;

    for (int i = 0; i < 20; i++) {
        for_each_fault (fault) {
            aclError rc = aclmdlAddDatasetBuffer(dataset, buffer);

            assert_int_equal(rc, am_fault_fired() ? ACL_ERROR_BAD_ALLOC : ACL_SUCCESS);
            n += rc == ACL_SUCCESS;
            assert_int_equal(aclmdlGetDatasetNumBuffers(dataset), n);
        }
    }
    assert_int_equal(n, 20);
    aclmdlDestroyDataset(dataset);
    aclDestroyDataBuffer(buffer);
}

static void a_name_that_cannot_be_kept_leaves_the_old_one(void **state)
{
    aclTensorDesc *desc = aclCreateTensorDesc(ACL_INT8, 2, dims, ACL_FORMAT_ND);

    aclSetTensorDescName(desc, "old");
    for_each_fault (n) {
        aclSetTensorDescName(desc, "new");
        assert_string_equal(aclGetTensorDescName(desc), am_fault_fired() ? "old" : "new");
    }
    aclDestroyTensorDesc(desc);
}

static void a_shape_that_cannot_be_copied_changes_nothing(void **state)
{
    aclTensor *tensor =
        aclCreateTensor(dims, 2, ACL_INT8, NULL, 0, ACL_FORMAT_ND, dims, 2, NULL);

    for_each_fault (n) {
        int64_t *values = NULL;
        uint64_t n_values = 77;
        aclnnStatus rc = aclGetViewShape(tensor, &values, &n_values);

        assert_int_equal(rc, am_fault_fired() ? ACL_ERROR_BAD_ALLOC : ACLNN_SUCCESS);
        assert_int_equal(values == NULL, am_fault_fired());
        assert_int_equal(n_values, am_fault_fired() ? 77 : 2);
        free(values);
    }
    aclDestroyTensor(tensor);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(create_functions_return_null_without_memory),
        cmocka_unit_test(a_list_that_cannot_grow_stays_as_it_was),
        cmocka_unit_test(a_name_that_cannot_be_kept_leaves_the_old_one),
        cmocka_unit_test(a_shape_that_cannot_be_copied_changes_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
