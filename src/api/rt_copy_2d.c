/* Copies of rows. */
#include "api/api.h"
#include "api/held.h"
#include "base/error.h"
#include "core/copy/copy.h"
#include "core/device/setup.h"

/* The documents' limits. */
#define WIDTH_MAX 5000000
#define HEIGHT_MAX 5242880

static aclError rows_check(const struct am_copy_2d *rows)
{
    size_t pitch = rows->dpitch > rows->spitch ? rows->dpitch : rows->spitch;

    AM_REQUIRE(rows->dst != NULL, ACL_ERROR_INVALID_PARAM, "dst is NULL");
    AM_REQUIRE(rows->src != NULL, ACL_ERROR_INVALID_PARAM, "src is NULL");
    AM_REQUIRE(rows->width > 0 && rows->width <= WIDTH_MAX, ACL_ERROR_INVALID_PARAM,
               "width is %zu; it takes 1 to %d", rows->width, WIDTH_MAX);
    AM_REQUIRE(rows->height > 0 && rows->height <= HEIGHT_MAX, ACL_ERROR_INVALID_PARAM,
               "height is %zu; it takes 1 to %d", rows->height, HEIGHT_MAX);
    AM_REQUIRE(rows->width <= rows->dpitch, ACL_ERROR_INVALID_PARAM,
               "width %zu is more than dpitch %zu", rows->width, rows->dpitch);
    AM_REQUIRE(rows->width <= rows->spitch, ACL_ERROR_INVALID_PARAM,
               "width %zu is more than spitch %zu", rows->width, rows->spitch);
    AM_REQUIRE(pitch <= SIZE_MAX / HEIGHT_MAX, ACL_ERROR_INVALID_PARAM,
               "%zu rows with a pitch of %zu do not fit in the address space",
               rows->height, pitch);
    return ACL_SUCCESS;
}

aclError am_aclrtMemcpy2d(void *dst, size_t dpitch, const void *src, size_t spitch,
                          size_t width, size_t height, aclrtMemcpyKind kind)
{
    struct am_copy_2d rows = {dst, dpitch, src, spitch, width, height, kind};

    AM_TRY(rows_check(&rows));
    AM_REQUIRE(kind == ACL_MEMCPY_HOST_TO_DEVICE || kind == ACL_MEMCPY_DEVICE_TO_HOST,
               ACL_ERROR_INVALID_PARAM,
               "kind is %d; it takes HOST_TO_DEVICE (1) or DEVICE_TO_HOST (2)",
               (int)kind);
    return am_copy_2d_run(&rows);
}

aclError am_aclrtMemcpy2dAsync(void *dst, size_t dpitch, const void *src, size_t spitch,
                               size_t width, size_t height, aclrtMemcpyKind kind,
                               aclrtStream handle)
{
    struct am_copy_2d rows = {dst, dpitch, src, spitch, width, height, kind};
    bool has_inner = am_setup.product->features & AM_PRODUCT_STREAM_OPS;

    AM_TRY(rows_check(&rows));
    AM_REQUIRE(
        kind == ACL_MEMCPY_HOST_TO_DEVICE || kind == ACL_MEMCPY_DEVICE_TO_HOST ||
            (kind == ACL_MEMCPY_DEVICE_TO_DEVICE && has_inner),
        ACL_ERROR_INVALID_PARAM,
        "kind is %d; it takes HOST_TO_DEVICE (1), DEVICE_TO_HOST (2) and, on Ascend 950, "
        "Atlas A3 and A2, DEVICE_TO_DEVICE (3)",
        (int)kind);
    AM_GET(stream, handle);
    return am_copy_2d_async(&rows, stream);
}
