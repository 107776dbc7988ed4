/* The names of HCCL's codes. */
#include "base/util.h"
#include "hccl/hccl.h"
#include "toolkit/toolkit.h"

#define NAME(code_) [code_] = #code_
static const char *const names[] = {
    NAME(HCCL_SUCCESS),         NAME(HCCL_E_PARA),         NAME(HCCL_E_PTR),
    NAME(HCCL_E_MEMORY),        NAME(HCCL_E_INTERNAL),     NAME(HCCL_E_NOT_SUPPORT),
    NAME(HCCL_E_NOT_FOUND),     NAME(HCCL_E_UNAVAIL),      NAME(HCCL_E_SYSCALL),
    NAME(HCCL_E_TIMEOUT),       NAME(HCCL_E_TCP_CONNECT),  NAME(HCCL_E_OPEN_FILE_FAILURE),
    NAME(HCCL_E_ROCE_CONNECT),  NAME(HCCL_E_TCP_TRANSFER), NAME(HCCL_E_RUNTIME),
    NAME(HCCL_E_ROCE_TRANSFER), NAME(HCCL_E_DRV),          NAME(HCCL_E_PROFILING),
    NAME(HCCL_E_CCE),           NAME(HCCL_E_NETWORK),      NAME(HCCL_E_AGAIN),
    NAME(HCCL_E_REMOTE),        NAME(HCCL_E_SUSPENDING),
};

const char *HcclGetErrorString(HcclResult code)
{
    return (size_t)code < AM_ARRAY_SIZE(names) ? names[code] : "unknown error";
}
