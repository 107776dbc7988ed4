/*
 * The attributes of an operator.  No function gives one back, and only an operator would
 * read it: names and values are checked and not kept.
 */
#include "acl/acl_op.h"
#include "base/sys.h"
#include "toolkit/toolkit.h"

struct aclopAttr {
    char nothing;
};

TK_CREATE(aclopAttr, aclopCreateAttr)

void aclopDestroyAttr(const aclopAttr *attr)
{
    free((void *)attr);
}

static aclError attr_check(const char *function, const aclopAttr *attr, const char *name)
{
    if (attr == NULL || name == NULL)
        return aclmem_toolkit_fail(ACL_ERROR_INVALID_PARAM, function, "%s is NULL",
                                   attr == NULL ? "attr" : "attrName");
    return ACL_SUCCESS;
}

static aclError list_check(const char *function, const aclopAttr *attr, const char *name,
                           int n, const void *values)
{
    aclError rc = attr_check(function, attr, name);

    if (rc != ACL_SUCCESS)
        return rc;
    if (n < 0)
        return aclmem_toolkit_fail(ACL_ERROR_INVALID_PARAM, function,
                                   "the number of values is %d", n);
    if (n > 0 && values == NULL)
        return aclmem_toolkit_fail(ACL_ERROR_INVALID_PARAM, function,
                                   "values is NULL, and there should be %d", n);
    return ACL_SUCCESS;
}

#define SET_ONE(name_, type_) \
    aclError name_(aclopAttr *attr, const char *attrName, type_ attrValue) \
    { \
        return attr_check(#name_, attr, attrName); \
    }
#define SET_LIST(name_, ...) \
    aclError name_(aclopAttr *attr, const char *attrName, int numValues, __VA_ARGS__) \
    { \
        return list_check(#name_, attr, attrName, numValues, values); \
    }

SET_ONE(aclopSetAttrBool, uint8_t)
SET_ONE(aclopSetAttrInt, int64_t)
SET_ONE(aclopSetAttrFloat, float)
SET_ONE(aclopSetAttrDataType, aclDataType)
SET_LIST(aclopSetAttrListBool, const uint8_t *values)
SET_LIST(aclopSetAttrListInt, const int64_t *values)
SET_LIST(aclopSetAttrListFloat, const float *values)
SET_LIST(aclopSetAttrListString, const char **values)
SET_LIST(aclopSetAttrListDataType, const aclDataType values[])

aclError aclopSetAttrString(aclopAttr *attr, const char *attrName, const char *attrValue)
{
    TK_NEED(attrValue);
    return attr_check(__func__, attr, attrName);
}

aclError aclopSetAttrListListInt(aclopAttr *attr, const char *attrName, int numLists,
                                 const int *numValues, const int64_t *const values[])
{
    aclError rc = list_check(__func__, attr, attrName, numLists, values);

    if (rc != ACL_SUCCESS)
        return rc;
    TK_REQUIRE(numLists == 0 || numValues != NULL, ACL_ERROR_INVALID_PARAM,
               "numValues is NULL, and numLists is %d", numLists);
    for (int i = 0; i < numLists && rc == ACL_SUCCESS; i++)
        rc = list_check(__func__, attr, attrName, numValues[i], values[i]);
    return rc;
}
