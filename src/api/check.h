/*
 * Checks of arguments that many functions share.  They stand in the functions, not in the
 * rows of api.def: which mistake of several is reported depends on their order among the
 * checks of products, sizes and flags.
 */
#ifndef AM_API_CHECK_H
#define AM_API_CHECK_H

#include "acl/acl.h"
#include "base/error.h"
#include "core/device/setup.h"

/* Refuse an argument, by its name, that is 0. */
#define AM_REQUIRE_NONZERO(x_) AM_REQUIRE((x_) > 0, ACL_ERROR_INVALID_PARAM, #x_ " is 0")

/* Refuse an argument, by its name, that is NULL; takes one to three of them. */
#define AM_REQUIRE_NONNULL(...) \
    AM_NONNULL_N(__VA_ARGS__, AM_NONNULL_3, AM_NONNULL_2, AM_NONNULL_1)(__VA_ARGS__)

#define AM_NONNULL_N(a_, b_, c_, name_, ...) name_
#define AM_NONNULL_1(a_) AM_REQUIRE((a_) != NULL, ACL_ERROR_INVALID_PARAM, #a_ " is NULL")
#define AM_NONNULL_2(a_, b_) \
    do { \
        AM_NONNULL_1(a_); \
        AM_NONNULL_1(b_); \
    } while (0)
#define AM_NONNULL_3(a_, b_, c_) \
    do { \
        AM_NONNULL_1(a_); \
        AM_NONNULL_2(b_, c_); \
    } while (0)

/* Refuse a range without an address or a size. */
#define AM_REQUIRE_RANGE(ptr_, size_) \
    do { \
        AM_REQUIRE_NONNULL(ptr_); \
        AM_REQUIRE_NONZERO(size_); \
    } while (0)

/* Refuse a reserved argument that is not 0. */
#define AM_REQUIRE_ZERO(x_) \
    AM_REQUIRE((x_) == 0, ACL_ERROR_INVALID_PARAM, #x_ " is 0x%llx; it takes 0", \
               (unsigned long long)(x_))

/* Refuse a call that only Atlas A3 has. */
#define AM_REQUIRE_A3(feature_) \
    AM_REQUIRE(am_setup.product->features &(feature_), ACL_ERROR_RT_FEATURE_NOT_SUPPORT, \
               "only Atlas A3 products have this call, not %s (ACLMEM_PRODUCT=%s)", \
               am_setup.product->title, am_setup.product->name)

/* Refuse a call that the product does not have; %s in the text is the product's name. */
#define AM_REQUIRE_FEATURE(feature_, text_) \
    AM_REQUIRE(am_setup.product->features &(feature_), ACL_ERROR_RT_FEATURE_NOT_SUPPORT, \
               text_, am_setup.product->title)

/* Refuse a timeout in milliseconds that is neither -1, which is for ever, nor above 0. */
#define AM_REQUIRE_TIMEOUT(ms_) \
    AM_REQUIRE((ms_) == -1 || (ms_) > 0, ACL_ERROR_INVALID_PARAM, \
               "the timeout is %d ms; it takes -1 (for ever) or more than 0", (ms_))

#endif
