#include "pair.h"

#include <unistd.h>

struct actor other;

uint64_t export_open(aclrtDrvMemHandle handle)
{
    uint64_t number = 0;

    assert_acl_ok(
        aclrtMemExportToShareableHandle(handle, ACL_MEM_HANDLE_TYPE_NONE, OPEN, &number));
    assert_int_not_equal(number, 0);
    return number;
}

aclrtDrvMemHandle import(uint64_t number)
{
    aclrtDrvMemHandle handle = NULL;

    assert_acl_ok(aclrtMemImportFromShareableHandle(number, 0, &handle));
    return handle;
}

uint64_t other_has(uint64_t number, size_t size, uint64_t *ret_handle)
{
    uint64_t va;

    actor_start(&other, ACTOR_PLAIN);
    done(&other, DO_INIT, 0, 0, 0);
    *ret_handle = done(&other, DO_IMPORT, number, 0, 0);
    va = done(&other, DO_RESERVE, size, 0, 0);
    done(&other, DO_MAP, va, size, *ret_handle);
    return va;
}

int end_other(void **state)
{
    if (other.pid != 0)
        actor_kill(&other);
    return finish(state);
}

uint64_t number_of_other(uint64_t flags)
{
    uint64_t number;

    actor_start(&other, ACTOR_PLAIN);
    done(&other, DO_INIT, 0, 0, 0);
    number = done(&other, DO_EXPORT, done(&other, DO_ALLOC, CHUNK, 0, 0), flags, 0);
    if (flags == 0)
        done(&other, DO_TRUST, number, (uint64_t)getpid(), 0);
    return number;
}
