/*
 * The structs among arguments, and their fields: S(type, F(type, field, letter) ...).
 *
 * The letters are those of api.def; c is text in an array, b are bytes.  A configuration of
 * aclrtMallocWithCfg is recorded as the attributes that it points to.
 */
#ifndef AM_LAYER_TRACE_STRUCTS_H
#define AM_LAYER_TRACE_STRUCTS_H

/* clang-format off */
#define AM_TRACE_STRUCTS(S, F) \
    S(aclrtPhysicalMemProp, F(aclrtPhysicalMemProp, handleType, e) F(aclrtPhysicalMemProp, allocationType, e) F(aclrtPhysicalMemProp, memAttr, e) F(aclrtPhysicalMemProp, location.id, u) F(aclrtPhysicalMemProp, location.type, e) F(aclrtPhysicalMemProp, reserve, x)) \
    S(aclrtMemAccessDesc, F(aclrtMemAccessDesc, flags, e) F(aclrtMemAccessDesc, location.id, u) F(aclrtMemAccessDesc, location.type, e)) \
    S(aclrtMemLocation, F(aclrtMemLocation, id, u) F(aclrtMemLocation, type, e)) \
    S(aclrtMemUsageInfo, F(aclrtMemUsageInfo, name, c) F(aclrtMemUsageInfo, curMemSize, l) F(aclrtMemUsageInfo, memPeakSize, l)) \
    S(aclrtUtilizationInfo, F(aclrtUtilizationInfo, cubeUtilization, i) F(aclrtUtilizationInfo, vectorUtilization, i) F(aclrtUtilizationInfo, aicpuUtilization, i) F(aclrtUtilizationInfo, memoryUtilization, i)) \
    S(aclrtUuid, F(aclrtUuid, bytes, b)) \
    S(aclrtMemUceInfo, F(aclrtMemUceInfo, addr, p) F(aclrtMemUceInfo, len, z)) \
    S(aclrtErrorInfo, F(aclrtErrorInfo, tryRepair, b) F(aclrtErrorInfo, hasDetail, b) F(aclrtErrorInfo, errorType, e)) \
    S(aclrtPtrAttributes, F(aclrtPtrAttributes, location.id, u) F(aclrtPtrAttributes, location.type, e) F(aclrtPtrAttributes, pageSize, u)) \
    S(aclCANNPackageVersion, F(aclCANNPackageVersion, version, c)) \
    S(aclrtStreamAttrValue, F(aclrtStreamAttrValue, failureMode, l)) \
    S(aclrtIpcEventHandle, F(aclrtIpcEventHandle, reserved, b)) \
    S(aclrtBarrierTaskInfo, F(aclrtBarrierTaskInfo, barrierNum, z)) \
    S(aclrtMemPoolProps, F(aclrtMemPoolProps, allocType, e) F(aclrtMemPoolProps, handleType, e) F(aclrtMemPoolProps, location.id, u) F(aclrtMemPoolProps, location.type, e) F(aclrtMemPoolProps, maxSize, z)) \
    S(aclrtMemManagedLocation, F(aclrtMemManagedLocation, type, e) F(aclrtMemManagedLocation, id, i)) \
    S(aclrtMemcpyBatchAttr, F(aclrtMemcpyBatchAttr, dstLoc.id, u) F(aclrtMemcpyBatchAttr, dstLoc.type, e) F(aclrtMemcpyBatchAttr, srcLoc.id, u) F(aclrtMemcpyBatchAttr, srcLoc.type, e)) \
    S(aclrtServerPid, F(aclrtServerPid, num, z)) \
    S(aclmdlRICondTaskParams, F(aclmdlRICondTaskParams, handle, p) F(aclmdlRICondTaskParams, type, e) F(aclmdlRICondTaskParams, size, u)) \
    S(aclrtMallocConfig, F(aclrtMallocAttribute, attr, e) F(aclrtMallocAttribute, value, l))
/* clang-format on */

#endif
