/*
 * Versions, and what the platform has.
 *
 * The reported version is CANN 8.5, the first with all calls of virtual memory
 * management; clients turn features on by these numbers.
 */
#include <stdio.h>
#include <strings.h>

#include "api/api.h"
#include "api/check.h"
#include "base/error.h"
#include "base/util.h"
#include "core/device/setup.h"

static const struct package {
    aclCANNPackageName id;
    const char *name;
    int32_t part[3];
} packages[] = {
    {ACL_PKG_NAME_CANN, "cann", {8, 5, 0}},
    {ACL_PKG_NAME_RUNTIME, "runtime", {8, 5, 0}},
    {ACL_PKG_NAME_TOOLKIT, "toolkit", {8, 5, 0}},
    {ACL_PKG_NAME_DRIVER, "driver", {25, 5, 0}},
};

aclError am_aclrtGetVersion(int32_t *majorVersion, int32_t *minorVersion,
                            int32_t *patchVersion)
{
    AM_REQUIRE_NONNULL(majorVersion, minorVersion, patchVersion);
    *majorVersion = ACL_MAJOR_VERSION;
    *minorVersion = ACL_MINOR_VERSION;
    *patchVersion = ACL_PATCH_VERSION;
    return ACL_SUCCESS;
}

aclError am_aclsysGetCANNVersion(aclCANNPackageName name, aclCANNPackageVersion *version)
{
    AM_REQUIRE_NONNULL(version);
    for (size_t i = 0; i < AM_ARRAY_SIZE(packages); i++) {
        const int32_t *part = packages[i].part;

        if (packages[i].id != name)
            continue;
        *version = (aclCANNPackageVersion){0};
        snprintf(version->version, sizeof version->version, "%d.%d.%d", part[0], part[1],
                 part[2]);
        snprintf(version->majorVersion, sizeof version->majorVersion, "%d", part[0]);
        snprintf(version->minorVersion, sizeof version->minorVersion, "%d", part[1]);
        snprintf(version->releaseVersion, sizeof version->releaseVersion, "%d", part[2]);
        return ACL_SUCCESS;
    }
    return am_fail(ACL_ERROR_INVALID_FILE,
                   "package %d is not installed; there are CANN (0), RUNTIME (1), "
                   "TOOLKIT (4) and DRIVER (7)",
                   (int)name);
}

static aclError package_find(const char *name, const struct package **ret_package)
{
    AM_REQUIRE(name != NULL, ACL_ERROR_INVALID_PARAM, "pkgName is NULL");
    for (size_t i = 0; i < AM_ARRAY_SIZE(packages); i++) {
        if (strcasecmp(packages[i].name, name) == 0) {
            *ret_package = &packages[i];
            return ACL_SUCCESS;
        }
    }
    return am_fail(
        ACL_ERROR_INVALID_FILE,
        "package \"%.64s\" is not installed; there are cann, runtime, toolkit, driver",
        name);
}

aclError am_aclsysGetVersionStr(char *pkgName, char *versionStr)
{
    const struct package *package;

    AM_REQUIRE_NONNULL(versionStr);
    AM_TRY(package_find(pkgName, &package));
    snprintf(versionStr, ACL_PKG_VERSION_MAX_SIZE, "%d.%d.%d", package->part[0],
             package->part[1], package->part[2]);
    return ACL_SUCCESS;
}

/*
 * Differs: the documents do not say how the parts make one number; 8.5.0 is 80500000
 * here.
 */
aclError am_aclsysGetVersionNum(char *pkgName, int32_t *versionNum)
{
    const struct package *package;

    AM_REQUIRE_NONNULL(versionNum);
    AM_TRY(package_find(pkgName, &package));
    *versionNum =
        package->part[0] * 10000000 + package->part[1] * 100000 + package->part[2] * 1000;
    return ACL_SUCCESS;
}

/* Of the documented features, operators as binaries are none of this library. */
static const aclCannAttr features[] = {ACL_CANN_ATTR_INF_NAN, ACL_CANN_ATTR_BF16};

static size_t feature_count(void)
{
    return am_setup.product->features & AM_PRODUCT_BF16 ? AM_ARRAY_SIZE(features) : 0;
}

aclError am_aclGetCannAttributeList(const aclCannAttr **list, size_t *num)
{
    AM_REQUIRE(list != NULL && num != NULL, ACL_ERROR_INVALID_PARAM, "%s is NULL",
               list == NULL ? "list" : "num");
    *list = features;
    *num = feature_count();
    return ACL_SUCCESS;
}

aclError am_aclGetCannAttribute(aclCannAttr attr, int32_t *value)
{
    int32_t found = 0;

    AM_REQUIRE_NONNULL(value);
    AM_REQUIRE(attr >= ACL_CANN_ATTR_INF_NAN && attr <= ACL_CANN_ATTR_JIT_COMPILE,
               ACL_ERROR_INVALID_PARAM, "attr is %d; it takes 0 to 2", (int)attr);
    for (size_t i = 0; i < feature_count(); i++)
        found |= features[i] == attr;
    *value = found;
    return ACL_SUCCESS;
}
