/*
 * Checks of arguments that many functions share.  They stand in the functions, not in the
 * rows of api.def: which mistake of several is reported depends on their order among the
 * checks of products, sizes and flags.
 */
#ifndef AM_API_CHECK_H
#define AM_API_CHECK_H

#include "acl/acl.h"
#include "base/error.h"

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

#endif
