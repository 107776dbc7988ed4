/* Data types, half-precision numbers, and the program's own lines in the log. */
#include <stdarg.h>
#include <string.h>

#include "api/api.h"
#include "base/error.h"
#include "base/log.h"
#include "base/util.h"

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
