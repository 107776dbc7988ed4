/*
 * A model with conditional tasks: an if, and a switch in its second branch, whose last case is
 * empty.  Prints the handles of the branches.  With an argument also a loop, which ends by a value
 * that the program writes.  For test_page.py and test_replay.py.
 */
#include <stdio.h>
#include <stdlib.h>

#include "acl/acl.h"

#define SIZE 4096

#define OK(call_) \
    do { \
        aclError rc_ = (call_); \
        if (rc_ != ACL_SUCCESS) { \
            fprintf(stderr, "%s: %d: %s\n", #call_, rc_, aclGetRecentErrMsg()); \
            exit(1); \
        } \
    } while (0)

static char *block;

static uint64_t *condition_add(aclmdlRICondTaskType type, aclrtStream stream,
                               uint32_t value, aclmdlRI *branches, uint32_t n)
{
    aclmdlRICondTaskParams params = {.type = type, .size = n, .modelRIArray = branches};
    aclmdlRICaptureStatus status;
    uint64_t *place;
    aclmdlRI model;

    OK(aclmdlRICaptureGetInfo(stream, &status, &model));
    OK(aclmdlRICondHandleCreate(model, value, ACL_MODEL_RI_COND_HANDLE_ASSIGN_DEFAULT,
                                &params.handle));
    OK(aclmdlRIAddCondTask(params, stream, 0));
    for (uint32_t i = 0; i < n; i++)
        printf("%p\n", branches[i]);
    OK(aclmdlRICondHandleGetCondPtr(params.handle, &place));
    return place;
}

static aclrtStream branch_begin(aclmdlRI branch)
{
    aclrtStream stream;

    OK(aclrtCreateStream(&stream));
    OK(aclmdlRICaptureToModelRIBegin(stream, branch, ACL_MODEL_RI_CAPTURE_MODE_RELAXED));
    return stream;
}

static void branch_end(aclrtStream stream)
{
    aclmdlRI model;

    OK(aclmdlRICaptureEnd(stream, &model));
    OK(aclrtDestroyStream(stream));
}

static void copies(aclrtStream stream, int n)
{
    for (int i = 0; i < n; i++)
        OK(aclrtMemcpyAsync(block, SIZE, block + SIZE, SIZE, ACL_MEMCPY_DEVICE_TO_DEVICE,
                            stream));
}

static void second_branch(aclmdlRI branch)
{
    aclrtStream stream = branch_begin(branch), inner;
    aclmdlRI cases[3];

    copies(stream, 1);
    condition_add(ACL_MODEL_RI_COND_TYPE_SWITCH, stream, 1, cases, 3);
    for (int i = 0; i < 2; i++) {
        inner = branch_begin(cases[i]);
        copies(inner, i + 1);
        branch_end(inner);
    }
    branch_end(stream);
}

/* Its body copies the next value of the condition from pinned memory. */
static uint64_t *loop_add(aclrtStream stream)
{
    uint64_t *next, *condition;
    aclrtStream body;
    aclmdlRI child;

    OK(aclrtMallocHost((void **)&next, sizeof *next));
    condition = condition_add(ACL_MODEL_RI_COND_TYPE_WHILE, stream, 1, &child, 1);
    body = branch_begin(child);
    OK(aclrtMemcpyAsync(condition, 8, next, 8, ACL_MEMCPY_HOST_TO_DEVICE, body));
    branch_end(body);
    return next;
}

int main(int argc, char **argv)
{
    aclrtStream stream, inner;
    aclmdlRI branches[2], model;
    uint64_t *next = NULL;

    (void)argv;
    OK(aclInit(NULL));
    OK(aclrtSetDevice(0));
    OK(aclrtMalloc((void **)&block, 2 * SIZE, ACL_MEM_MALLOC_HUGE_FIRST));
    OK(aclrtCreateStream(&stream));
    OK(aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_RELAXED));
    copies(stream, 1);
    condition_add(ACL_MODEL_RI_COND_TYPE_IF, stream, 0, branches, 2);
    inner = branch_begin(branches[0]);
    copies(inner, 3);
    branch_end(inner);
    second_branch(branches[1]);
    copies(stream, 2);
    if (argc > 1)
        next = loop_add(stream);
    OK(aclmdlRICaptureEnd(stream, &model));
    if (next != NULL)
        *next = 0;
    OK(aclmdlRIExecuteAsync(model, stream));
    OK(aclrtSynchronizeStream(stream));
    OK(aclmdlRIDestroy(model));
    OK(aclrtFree(block));
    OK(aclFinalize());
    return 0;
}
