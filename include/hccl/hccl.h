/*
 * HCCL, collectives over devices.  The functions are in libhccl.so.
 *
 * aclmem emulates memory, not collectives: all but HcclGetErrorString give HCCL_E_NOT_SUPPORT,
 * leave ACL_ERROR_RT_FEATURE_NOT_SUPPORT for aclrtGetLastError, and say so in
 * aclGetRecentErrMsg.
 */
#ifndef HCCL_HCCL_H
#define HCCL_HCCL_H

#include <stddef.h>

#include "hccl_types.h"
#include "../acl/acl_rt.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The name of a code. */
ACL_FUNC_VISIBILITY const char *HcclGetErrorString(HcclResult code);

/* ---- Communicators ---- */

/* The documented defaults; no function here reads the settings. */
static inline void HcclCommConfigInit(HcclCommConfig *config)
{
    static const HcclCommConfig initial = {{0}, 200, 0, {0}, {0}, 0, 0, 0};

    if (config != NULL)
        *config = initial;
}

ACL_FUNC_VISIBILITY HcclResult HcclGetRootInfo(HcclRootInfo *rootInfo);
ACL_FUNC_VISIBILITY HcclResult HcclCommInitRootInfo(uint32_t nRanks,
                                                    const HcclRootInfo *rootInfo,
                                                    uint32_t rank, HcclComm *comm);
ACL_FUNC_VISIBILITY HcclResult HcclCommInitRootInfoConfig(uint32_t nRanks,
                                                          const HcclRootInfo *rootInfo,
                                                          uint32_t rank,
                                                          const HcclCommConfig *config,
                                                          HcclComm *comm);
ACL_FUNC_VISIBILITY HcclResult HcclCommInitClusterInfo(const char *clusterInfo,
                                                       uint32_t rank, HcclComm *comm);
ACL_FUNC_VISIBILITY HcclResult HcclCommInitAll(uint32_t ndev, int32_t *devices,
                                               HcclComm *comms);
ACL_FUNC_VISIBILITY HcclResult HcclCommDestroy(HcclComm comm);
ACL_FUNC_VISIBILITY HcclResult HcclGetCommAsyncError(HcclComm comm,
                                                     HcclResult *asyncError);
ACL_FUNC_VISIBILITY HcclResult HcclGetRankId(HcclComm comm, uint32_t *rank);
ACL_FUNC_VISIBILITY HcclResult HcclGetRankSize(HcclComm comm, uint32_t *rankSize);

/* ---- Collectives, queued on the stream; counts are of elements ---- */

ACL_FUNC_VISIBILITY HcclResult HcclAllReduce(void *sendBuf, void *recvBuf, uint64_t count,
                                             HcclDataType dataType, HcclReduceOp op,
                                             HcclComm comm, aclrtStream stream);
ACL_FUNC_VISIBILITY HcclResult HcclReduce(void *sendBuf, void *recvBuf, uint64_t count,
                                          HcclDataType dataType, HcclReduceOp op,
                                          uint32_t root, HcclComm comm,
                                          aclrtStream stream);
ACL_FUNC_VISIBILITY HcclResult HcclBroadcast(void *buf, uint64_t count,
                                             HcclDataType dataType, uint32_t root,
                                             HcclComm comm, aclrtStream stream);
ACL_FUNC_VISIBILITY HcclResult HcclScatter(void *sendBuf, void *recvBuf,
                                           uint64_t recvCount, HcclDataType dataType,
                                           uint32_t root, HcclComm comm,
                                           aclrtStream stream);
ACL_FUNC_VISIBILITY HcclResult HcclReduceScatter(void *sendBuf, void *recvBuf,
                                                 uint64_t recvCount,
                                                 HcclDataType dataType, HcclReduceOp op,
                                                 HcclComm comm, aclrtStream stream);
ACL_FUNC_VISIBILITY HcclResult HcclAllGather(void *sendBuf, void *recvBuf,
                                             uint64_t sendCount, HcclDataType dataType,
                                             HcclComm comm, aclrtStream stream);
ACL_FUNC_VISIBILITY HcclResult HcclAlltoAll(const void *sendBuf, uint64_t sendCount,
                                            HcclDataType sendType, const void *recvBuf,
                                            uint64_t recvCount, HcclDataType recvType,
                                            HcclComm comm, aclrtStream stream);
ACL_FUNC_VISIBILITY HcclResult HcclAlltoAllV(const void *sendBuf, const void *sendCounts,
                                             const void *sdispls, HcclDataType sendType,
                                             const void *recvBuf, const void *recvCounts,
                                             const void *rdispls, HcclDataType recvType,
                                             HcclComm comm, aclrtStream stream);

/* ---- Between two ranks ---- */

ACL_FUNC_VISIBILITY HcclResult HcclSend(void *sendBuf, uint64_t count,
                                        HcclDataType dataType, uint32_t destRank,
                                        HcclComm comm, aclrtStream stream);
ACL_FUNC_VISIBILITY HcclResult HcclRecv(void *recvBuf, uint64_t count,
                                        HcclDataType dataType, uint32_t srcRank,
                                        HcclComm comm, aclrtStream stream);
ACL_FUNC_VISIBILITY HcclResult HcclBatchSendRecv(HcclSendRecvItem *sendRecvInfo,
                                                 uint32_t itemNum, HcclComm comm,
                                                 aclrtStream stream);

#ifdef __cplusplus
}
#endif

#endif
