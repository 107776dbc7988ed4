/* The functions that a library exports and that refuse, made from its list, TK_LIST. */
#include <stdint.h>

#include "acl/acl.h"
#include "acl/acl_prof.h"
#include "hccl/hccl_types.h"
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

#define AM_DATA(name_)
#define AM_REFUSED(ret_, name_, params_, value_) \
    ANY_ARGUMENTS ret_ name_ params_ \
    { \
        refuse(#name_); \
        return value_; \
    }
/* A code, a size or a pointer: all of them are returned in one register. */
#define AM_REFUSED_NAME(name_, value_) \
    ACL_FUNC_VISIBILITY intptr_t name_(void); \
    AM_REFUSED(intptr_t, name_, (void), (intptr_t)(value_))
#include TK_LIST
