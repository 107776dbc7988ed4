/* Lists of buffers for models, descriptions of models, dumps and steps of a profile. */
#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "acl/acl_mdl.h"
#include "acl/acl_prof.h"
#include "base/sys.h"
#include "toolkit/list.h"
#include "toolkit/toolkit.h"

struct aclmdlDataset {
    struct tk_list list;
};

/* Of a model that was loaded, and none can be. */
struct aclmdlDesc {
    char nothing;
};

TK_DATASET(aclmdlDataset, aclDataBuffer, dataBuffer, aclmdlCreateDataset,
           aclmdlDestroyDataset, const, aclmdlAddDatasetBuffer, aclmdlGetDatasetBuffer,
           "buffers")

TK_GETTER(size_t, aclmdlGetDatasetNumBuffers, const aclmdlDataset, dataset, 0,
          dataset->list.n)

TK_CREATE(aclmdlDesc, aclmdlCreateDesc)

TK_DESTROY(aclmdlDestroyDesc, aclmdlDesc, modelDesc)

/*
 * Frameworks start a dump when their user asks for one, and throw where that fails.  No
 * operator runs here, so a dump that holds nothing is the right one.
 */
static atomic_bool has_dump;

aclError aclmdlInitDump(void)
{
    TK_REQUIRE(!atomic_exchange(&has_dump, true), ACL_ERROR_DUMP_ALREADY_RUN,
               "a dump is already active; call aclmdlFinalizeDump first");
    return ACL_SUCCESS;
}

aclError aclmdlSetDump(const char *dumpCfgPath)
{
    int fd;

    TK_NEED(dumpCfgPath);
    TK_REQUIRE(atomic_load(&has_dump), ACL_ERROR_DUMP_NOT_RUN,
               "no dump is active; call aclmdlInitDump first");
    fd = am_sys_open(dumpCfgPath, O_RDONLY | O_CLOEXEC);
    TK_REQUIRE(fd >= 0, ACL_ERROR_INVALID_FILE, "\"%.128s\" cannot be read: %s",
               dumpCfgPath, strerror(errno));
    close(fd);
    return ACL_SUCCESS;
}

aclError aclmdlFinalizeDump(void)
{
    TK_REQUIRE(atomic_exchange(&has_dump, false), ACL_ERROR_DUMP_NOT_RUN,
               "no dump is active; call aclmdlInitDump first");
    return ACL_SUCCESS;
}

/* aclprofCreateStepInfo gives NULL, so there is nothing to destroy. */
void aclprofDestroyStepInfo(aclprofStepInfo *stepinfo)
{
}
