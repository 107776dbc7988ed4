/*
 * AscendCL: functions that every header of an aclnn operator needs.  The functions are
 * in libnnopbase.so, and succeed: they start nothing here.  The operators themselves are
 * not declared; aclmem emulates memory, not operators.
 */
#ifndef ACLNN_ACLNN_BASE_H
#define ACLNN_ACLNN_BASE_H

#include "acl_meta.h"
#include "../acl/acl_rt.h"

#ifdef __cplusplus
extern "C" {
#endif

ACL_FUNC_VISIBILITY aclnnStatus aclnnInit(const char *configPath);
ACL_FUNC_VISIBILITY aclnnStatus aclnnFinalize(void);

#ifdef __cplusplus
}
#endif

#endif
