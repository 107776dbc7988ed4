/*
 * AscendCL, the whole: starting and stopping, the recent error, versions, and the
 * headers that hold the rest.
 */
#ifndef ACL_ACL_H
#define ACL_ACL_H

#include "acl_base.h"
#include "acl_mdl.h"
#include "acl_op.h"
#include "acl_rt.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Starts the runtime.  configPath is NULL or names a JSON file, which may hold just {}.
 * A repeated call counts one more reference and returns ACL_ERROR_REPEAT_INITIALIZE.
 */
ACL_FUNC_VISIBILITY aclError aclInit(const char *configPath);

/* Stops the runtime at once, however many references there are. */
ACL_FUNC_VISIBILITY aclError aclFinalize(void);

/* Drops one reference, stops the runtime with the last one; refCount may be NULL. */
ACL_FUNC_VISIBILITY aclError aclFinalizeReference(uint64_t *refCount);

/* A figure about a device by the older enumeration; aclrtGetDeviceInfo knows more. */
ACL_FUNC_VISIBILITY aclError aclGetDeviceCapability(uint32_t deviceId,
                                                    aclDeviceInfo deviceInfo,
                                                    int64_t *value);

/*
 * Takes the calling thread's error messages, the newest on top; NULL when there are none.
 * The text lives until the next call of this function.
 */
ACL_FUNC_VISIBILITY const char *aclGetRecentErrMsg(void);

/* The version of an installed package; a package that is absent is an error. */
ACL_FUNC_VISIBILITY aclError aclsysGetCANNVersion(aclCANNPackageName name,
                                                  aclCANNPackageVersion *version);

/* The version by package name; versionStr has room for ACL_PKG_VERSION_MAX_SIZE bytes. */
ACL_FUNC_VISIBILITY aclError aclsysGetVersionStr(char *pkgName, char *versionStr);

/* The version by package name, as a number. */
ACL_FUNC_VISIBILITY aclError aclsysGetVersionNum(char *pkgName, int32_t *num);

/* The features that there are; the list belongs to the library. */
ACL_FUNC_VISIBILITY aclError aclGetCannAttributeList(const aclCannAttr **list,
                                                     size_t *num);

/* 1 when there is the feature, else 0. */
ACL_FUNC_VISIBILITY aclError aclGetCannAttribute(aclCannAttr attr, int32_t *value);

#ifdef __cplusplus
}
#endif

#endif
