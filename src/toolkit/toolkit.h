/*
 * The rest of the toolkit: libraries that programs for Ascend link with besides memory.
 *
 * A list (.def) has the exports of a library.  Functions for plain data on the host
 * work, and are written in a file of this folder under their public names.  Functions
 * that would run an operator, a model, a profiler or a collective refuse: refused.c,
 * compiled once for each list.
 *
 * ascendcl.def and runtime.def are part of libascendcl.so.  The other libraries are small
 * ones of their own, as the vendor's are, so a program that does not name them when it is
 * linked fails here as it would there.  They report through libascendcl.so.
 */
#ifndef AM_TOOLKIT_TOOLKIT_H
#define AM_TOOLKIT_TOOLKIT_H

#include <stddef.h>

#include "acl/acl_base.h"
#include "base/sys.h"

/*
 * Leaves the code for aclrtGetLastError and the message for aclGetRecentErrMsg; its value
 * is the code.  In libascendcl.so, for all libraries of the toolkit.
 */
ACL_FUNC_VISIBILITY int aclmem_toolkit_fail(int code, const char *function,
                                            const char *fmt, ...)
    __attribute__((format(printf, 3, 4), cold));

/* Only before the first thing that the function acquires. */
#define TK_REQUIRE(condition_, code_, ...) \
    do { \
        if (__builtin_expect(!(condition_), 0)) \
            return aclmem_toolkit_fail(code_, __func__, __VA_ARGS__); \
    } while (0)

/* The same in a function that returns something else than a code. */
#define TK_REQUIRE_OR(value_, condition_, code_, ...) \
    do { \
        if (__builtin_expect(!(condition_), 0)) { \
            aclmem_toolkit_fail(code_, __func__, __VA_ARGS__); \
            return value_; \
        } \
    } while (0)

/* 100000 where a pointer is NULL. */
#define TK_NEED(pointer_) \
    TK_REQUIRE((pointer_) != NULL, ACL_ERROR_INVALID_PARAM, "%s is NULL", #pointer_)
#define TK_NEED_OR(value_, pointer_) \
    TK_REQUIRE_OR(value_, (pointer_) != NULL, ACL_ERROR_INVALID_PARAM, "%s is NULL", \
                  #pointer_)

/* A function that returns a value of an object; `otherwise` where the object is NULL. */
#define TK_GETTER(type_, name_, object_type_, object_, otherwise_, value_) \
    type_ name_(object_type_ *object_) \
    { \
        TK_NEED_OR(otherwise_, object_); \
        return value_; \
    }

/* Functions that make an empty object, and end one. */
#define TK_CREATE(type_, name_) \
    type_ *name_(void) \
    { \
        type_ *made = am_sys_calloc(1, sizeof *made); \
        TK_REQUIRE_OR(NULL, made != NULL, ACL_ERROR_BAD_ALLOC, \
                      "no memory for an " #type_); \
        return made; \
    }
#define TK_DESTROY(name_, object_type_, object_) \
    aclError name_(object_type_ *object_) \
    { \
        TK_NEED(object_); \
        free((void *)object_); \
        return ACL_SUCCESS; \
    }

/* As many as a shape may have (ACL_MAX_DIM_CNT): a larger number is no number of them. */
#define TK_DIMS_MAX 128

#endif
