/* The functions that a library exports and that refuse, made from its list, TK_LIST. */
#include "acl/acl.h"
#include "acl/acl_op_compiler.h"
#include "acl/acl_prof.h"
#include "acl/acl_tdt.h"
#include "hccl/hccl.h"
#include "toolkit/toolkit.h"

static void refuse(const char *function)
{
    aclmem_toolkit_fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, function,
                        "aclmem emulates memory, not operators, models, profilers or "
                        "collectives; this function does nothing");
}

/*
 * A program may find a function by dlsym() and call it with the arguments of the real one, which a
 * list of names does not have.  No argument is used, so every call is fine.
 */
#ifdef __clang__
#define ANY_ARGUMENTS __attribute__((no_sanitize("function")))
#else
#define ANY_ARGUMENTS
#endif

#define AM_DATA(ret_, name_, params_)
#define AM_REFUSED(ret_, name_, params_, value_) \
    ANY_ARGUMENTS ret_ name_ params_ \
    { \
        refuse(#name_); \
        return value_; \
    }
#define AM_REFUSED_NAME(name_) \
    ACL_FUNC_VISIBILITY aclError name_(void); \
    ANY_ARGUMENTS aclError name_(void) \
    { \
        refuse(#name_); \
        return ACL_ERROR_RT_FEATURE_NOT_SUPPORT; \
    }
#include TK_LIST
