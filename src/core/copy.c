/* See copy.h. */
#include "core/copy.h"

#include "acl/error_codes/rt_error_codes.h"
#include "base/error.h"
#include "core/context.h"
#include "core/runtime.h"
#include "core/span.h"

/* What only the strict rules ask: the kind, which the newest edition ignores, must be true. */
static aclError kind_check(const struct am_spans *dst, const struct am_spans *src,
                           aclrtMemcpyKind kind)
{
    aclrtMemcpyKind real =
        dst->devices != 0
            ? (src->devices != 0 ? ACL_MEMCPY_DEVICE_TO_DEVICE
                                 : ACL_MEMCPY_HOST_TO_DEVICE)
            : (src->devices != 0 ? ACL_MEMCPY_DEVICE_TO_HOST : ACL_MEMCPY_HOST_TO_HOST);

    AM_REQUIRE(
        kind == real, ACL_ERROR_RT_PARAM_INVALID,
        "kind is %d but the addresses make it %d; editions before the newest go by kind "
        "(ACLMEM_RULES=strict)",
        (int)kind, (int)real);
    return ACL_SUCCESS;
}

static aclError sides_check(const struct am_spans *dst, const struct am_spans *src,
                            aclrtMemcpyKind kind)
{
    uint64_t devices = dst->devices | src->devices;

    AM_REQUIRE(
        dst->devices == 0 || src->devices == 0 || (devices & (devices - 1)) == 0,
        ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
        "the two sides are on different devices; between devices, memory behind reserved "
        "addresses is copied with aclrtMemcpyAsync only");
    return am_rt.is_strict ? kind_check(dst, src, kind) : ACL_SUCCESS;
}

aclError am_copy(void *dst, const void *src, size_t size, aclrtMemcpyKind kind)
{
    struct am_spans to;
    struct am_spans from;
    int32_t device;
    aclError rc = am_context_device(&device);

    if (rc != ACL_SUCCESS)
        return rc;
    rc = am_spans_open(&to, dst, size, AM_ACCESS_WRITE, device, "dst");
    if (rc != ACL_SUCCESS)
        return rc;
    rc = am_spans_open(&from, src, size, AM_ACCESS_READ, device, "src");
    if (rc != ACL_SUCCESS)
        goto out;
    rc = sides_check(&to, &from, kind);
    if (rc == ACL_SUCCESS)
        rc = am_rt.backend->copy(to.list, from.list, size);
    am_spans_close(&from);
out:
    am_spans_close(&to);
    return rc;
}

aclError am_fill(void *dst, int value, size_t size)
{
    struct am_spans to;
    int32_t device;
    aclError rc = am_context_device(&device);

    if (rc != ACL_SUCCESS)
        return rc;
    rc = am_spans_open(&to, dst, size, AM_ACCESS_WRITE, device, "devPtr");
    if (rc != ACL_SUCCESS)
        return rc;
    if (am_rt.is_strict && to.list[0].mem == NULL)
        rc = am_fail(
            ACL_ERROR_RT_PARAM_INVALID,
            "%p is host memory that was not allocated through ACL: all editions leave "
            "that undefined (ACLMEM_RULES=strict)",
            dst);
    else
        rc = am_rt.backend->fill(to.list, size, value);
    am_spans_close(&to);
    return rc;
}
