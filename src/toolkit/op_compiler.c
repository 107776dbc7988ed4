/*
 * Settings of the compiler of operators.  There is no compiler, so a setting is checked and
 * not stored; no function returns it.
 */
#include "acl/acl_op_compiler.h"
#include "toolkit/toolkit.h"

aclError aclSetCompileopt(aclCompileOpt opt, const char *value)
{
    TK_REQUIRE(opt >= ACL_PRECISION_MODE && opt <= ACL_OP_DEBUG_OPTION,
               ACL_ERROR_INVALID_PARAM, "opt is %d; it takes 0 to %d", (int)opt,
               ACL_OP_DEBUG_OPTION);
    TK_NEED(value);
    return ACL_SUCCESS;
}

aclError aclopSetCompileFlag(aclOpCompileFlag flag)
{
    TK_REQUIRE(flag == ACL_OP_COMPILE_DEFAULT || flag == ACL_OP_COMPILE_FUZZ,
               ACL_ERROR_INVALID_PARAM, "flag is %d; it takes 0 and 1", (int)flag);
    return ACL_SUCCESS;
}
