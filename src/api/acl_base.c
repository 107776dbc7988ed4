/* Data types, half-precision numbers, the program's own lines in the log, errors, versions. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "api/api.h"
#include "base/error.h"
#include "base/log.h"
#include "base/util.h"
#include "core/device/setup.h"

/*
 * Bytes of an element; 0 for text and for what is smaller than a byte, of which several
 * share one.
 */
static const struct {
    bool is_known;
    uint8_t size;
} types[] = {
    [ACL_FLOAT] = {true, 4},       [ACL_FLOAT16] = {true, 2},
    [ACL_INT8] = {true, 1},        [ACL_INT32] = {true, 4},
    [ACL_UINT8] = {true, 1},       [ACL_INT16] = {true, 2},
    [ACL_UINT16] = {true, 2},      [ACL_UINT32] = {true, 4},
    [ACL_INT64] = {true, 8},       [ACL_UINT64] = {true, 8},
    [ACL_DOUBLE] = {true, 8},      [ACL_BOOL] = {true, 1},
    [ACL_STRING] = {true, 0},      [ACL_COMPLEX64] = {true, 8},
    [ACL_COMPLEX128] = {true, 16}, [ACL_BF16] = {true, 2},
    [ACL_INT4] = {true, 0},        [ACL_UINT1] = {true, 0},
    [ACL_COMPLEX32] = {true, 4},   [ACL_HIFLOAT8] = {true, 1},
    [ACL_FLOAT8_E5M2] = {true, 1}, [ACL_FLOAT8_E4M3FN] = {true, 1},
    [ACL_FLOAT8_E8M0] = {true, 1}, [ACL_FLOAT6_E3M2] = {true, 0},
    [ACL_FLOAT6_E2M3] = {true, 0}, [ACL_FLOAT4_E2M1] = {true, 0},
    [ACL_FLOAT4_E1M2] = {true, 0},
};

size_t am_aclDataTypeSize(aclDataType dataType)
{
    if (dataType != ACL_DT_UNDEFINED &&
        ((size_t)dataType >= AM_ARRAY_SIZE(types) || !types[dataType].is_known)) {
        am_error_report(ACL_ERROR_INVALID_PARAM,
                        "dataType is %d, which is not a data type", (int)dataType);
        return 0;
    }
    return dataType == ACL_DT_UNDEFINED ? 0 : types[dataType].size;
}

/*
 * binary16 is 1 sign, 5 exponent (bias 15) and 10 fraction bits, binary32 is 1, 8 (bias
 * 127) and 23. Every binary16 is a binary32.  NaNs become quiet and keep what fits of
 * their payload.
 */
float am_aclFloat16ToFloat(aclFloat16 value)
{
    uint32_t sign = (uint32_t)(value >> 15) << 31;
    uint32_t exponent = value >> 10 & 0x1f;
    uint32_t fraction = value & 0x3ff;
    uint32_t bits;
    float result;

    if (exponent == 0) /* a multiple of 2^-24 */
        return (sign ? -0x1p-24f : 0x1p-24f) * (float)fraction;
    if (exponent == 0x1f)
        bits = 0x7f800000 | fraction << 13 | (fraction ? 0x400000 : 0);
    else
        bits = (exponent + 112) << 23 | fraction << 13;
    bits |= sign;
    memcpy(&result, &bits, sizeof result);
    return result;
}

/* Without the sign: rounds to the nearest, and halfway to the even one. */
static uint32_t half_of(uint32_t bits)
{
    uint32_t shift = 13;
    uint32_t fraction = bits;
    uint32_t half;
    uint32_t rest;

    if (bits > 0x7f800000)
        return 0x7e00 | (bits >> 13 & 0x1ff);
    if (bits >= 0x47800000) /* 2^16; a value that rounds up to it comes out right below */
        return 0x7c00;
    if (bits < 0x33000000) /* below 2^-25 */
        return 0;
    if (bits < 0x38800000) { /* below 2^-14, the smallest normal one: fixed point */
        shift = 126 - (bits >> 23);
        fraction = (bits & 0x7fffff) | 0x800000;
    } else {
        fraction -= 112u << 23;
    }
    half = fraction >> shift;
    rest = fraction & ((1u << shift) - 1);
    if (rest > 1u << (shift - 1) || (rest == 1u << (shift - 1) && (half & 1)))
        half++;
    return half;
}

aclFloat16 am_aclFloatToFloat16(float value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof bits);
    return (aclFloat16)((bits >> 16 & 0x8000) | half_of(bits & 0x7fffffff));
}

/*
 * An ellipsis cannot be passed on, so this has no slot in the tables and works in every
 * state.
 */
ACL_FUNC_VISIBILITY void aclAppLog(aclLogLevel logLevel, const char *func,
                                   const char *file, uint32_t line, const char *fmt, ...)
{
    static const enum am_log_level levels[] = {
        [ACL_DEBUG] = AM_LOG_DEBUG,
        [ACL_INFO] = AM_LOG_INFO,
        [ACL_WARNING] = AM_LOG_WARN,
        [ACL_ERROR] = AM_LOG_ERROR,
    };
    enum am_log_level level =
        (size_t)logLevel < AM_ARRAY_SIZE(levels) ? levels[logLevel] : AM_LOG_ERROR;
    va_list args;

    if (fmt == NULL)
        return;
    va_start(args, fmt);
    am_log_app(level, func ? func : "?", file ? file : "?", line, fmt, args);
    va_end(args);
}

/* ---- the thread's last error code and its messages ---- */

const char *am_aclGetRecentErrMsg(void)
{
    return am_error_take_messages();
}

aclError am_aclrtGetLastError(aclrtLastErrLevel level)
{
    return am_error_last(true);
}

aclError am_aclrtPeekAtLastError(aclrtLastErrLevel level)
{
    return am_error_last(false);
}

/*
 * ---- versions, and features of the platform ----
 *
 * The reported version is CANN 8.5, the first with all calls of virtual memory
 * management; clients turn features on by these numbers.
 */

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
    *majorVersion = ACL_MAJOR_VERSION;
    *minorVersion = ACL_MINOR_VERSION;
    *patchVersion = ACL_PATCH_VERSION;
    return ACL_SUCCESS;
}

aclError am_aclsysGetCANNVersion(aclCANNPackageName name, aclCANNPackageVersion *version)
{
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
    *list = features;
    *num = feature_count();
    return ACL_SUCCESS;
}

aclError am_aclGetCannAttribute(aclCannAttr attr, int32_t *value)
{
    int32_t found = 0;

    for (size_t i = 0; i < feature_count(); i++)
        found |= features[i] == attr;
    *value = found;
    return ACL_SUCCESS;
}
