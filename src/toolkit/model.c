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
    struct tk_list buffers;
};

/* Of a model that was loaded, and none can be. */
struct aclmdlDesc {
    char nothing;
};

aclmdlDataset *aclmdlCreateDataset(void)
{
    aclmdlDataset *dataset = am_sys_calloc(1, sizeof *dataset);

    TK_REQUIRE_OR(NULL, dataset != NULL, ACL_ERROR_BAD_ALLOC, "no memory for the list");
    return dataset;
}

aclError aclmdlDestroyDataset(const aclmdlDataset *dataset)
{
    TK_NEED(dataset);
    free(dataset->buffers.items);
    free((void *)dataset);
    return ACL_SUCCESS;
}

aclError aclmdlAddDatasetBuffer(aclmdlDataset *dataset, aclDataBuffer *dataBuffer)
{
    TK_NEED(dataset);
    TK_NEED(dataBuffer);
    TK_REQUIRE(tk_list_add(&dataset->buffers, dataBuffer), ACL_ERROR_BAD_ALLOC,
               "no host memory to extend the list of %zu buffers", dataset->buffers.n);
    return ACL_SUCCESS;
}

TK_GETTER(size_t, aclmdlGetDatasetNumBuffers, const aclmdlDataset, dataset, 0,
          dataset->buffers.n)

aclDataBuffer *aclmdlGetDatasetBuffer(const aclmdlDataset *dataset, size_t index)
{
    TK_NEED_OR(NULL, dataset);
    TK_REQUIRE_OR(NULL, index < dataset->buffers.n, ACL_ERROR_INVALID_PARAM,
                  "index is %zu, and the list has %zu buffers", index,
                  dataset->buffers.n);
    return dataset->buffers.items[index];
}

aclmdlDesc *aclmdlCreateDesc(void)
{
    aclmdlDesc *desc = am_sys_calloc(1, sizeof *desc);

    TK_REQUIRE_OR(NULL, desc != NULL, ACL_ERROR_BAD_ALLOC,
                  "no memory for the description");
    return desc;
}

aclError aclmdlDestroyDesc(aclmdlDesc *modelDesc)
{
    TK_NEED(modelDesc);
    free(modelDesc);
    return ACL_SUCCESS;
}

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
