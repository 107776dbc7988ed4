/* A forked child is refused in clear words, and its parent does not notice. */
#include "support/vmm.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* In the child: the status says which check failed; nothing of cmocka is called. */
static int refused_by_fork(aclError rc)
{
    const char *message = aclGetRecentErrMsg();

    if (rc != ACL_ERROR_RT_FEATURE_NOT_SUPPORT) {
        fprintf(stderr, "in the child: %d, not %d\n", rc,
                ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
        return 1;
    }
    if (message == NULL || strstr(message, "fork") == NULL) {
        fprintf(stderr, "in the child: \"%s\" does not say fork\n", message);
        return 1;
    }
    return 0;
}

static int play_child(struct block *b)
{
    aclrtPhysicalMemProp prop = device_prop(0, ACL_HBM_MEM_HUGE);
    aclrtDrvMemHandle handle = NULL;
    aclrtContext context = NULL;
    size_t free = 0, total = 0;
    int32_t device = 0;
    void *va = NULL;
    char byte = 9;
    int bad = 0;

    bad |= refused_by_fork(aclInit(NULL));
    bad |= refused_by_fork(aclrtSetDevice(0));
    bad |= refused_by_fork(aclrtGetDevice(&device));
    bad |= refused_by_fork(aclrtCreateContext(&context, 0));
    bad |= refused_by_fork(aclrtGetMemInfo(ACL_HBM_MEM, &free, &total));
    bad |= refused_by_fork(aclrtReserveMemAddress(&va, CHUNK, 0, NULL, 1));
    bad |= refused_by_fork(aclrtMallocPhysical(&handle, CHUNK, &prop, 0));
    bad |= refused_by_fork(aclrtMapMem(b->va, CHUNK, 0, b->handle, 0));
    bad |= refused_by_fork(copy(b->va, &byte, 1, ACL_MEMCPY_HOST_TO_DEVICE));
    bad |= refused_by_fork(aclrtMemset(b->va, 1, 0, 1));
    bad |= refused_by_fork(aclrtUnmapMem(b->va));
    bad |= refused_by_fork(aclrtFreePhysical(b->handle));
    bad |= refused_by_fork(aclrtReleaseMemAddress(b->va));
    bad |= refused_by_fork(aclrtResetDevice(0));
    bad |= refused_by_fork(aclmem_host_view(b->va, 1, &va));
    bad |= refused_by_fork(aclFinalize());
    return bad;
}

static int status_of_child(struct block *b)
{
    int status = -1;
    pid_t pid;

    fflush(NULL);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        _exit(play_child(b));
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

static void a_forked_child_is_refused_and_the_parent_goes_on(void **state)
{
    struct block b = block_create(2 * CHUNK), after;
    struct snapshot before = take_snapshot();

    put_pattern(b.va, b.size, 1);
    assert_int_equal(status_of_child(&b), 0);
    assert_unchanged(before);
    assert_pattern(b.va, b.size, 1);
    after = block_create(CHUNK);
    put_pattern(after.va, after.size, 2);
    assert_pattern(after.va, after.size, 2);
    block_destroy(&after);
    block_destroy(&b);
}

static void a_child_of_program_addressable_memory_is_refused_too(void **state)
{
    struct block b;

    start("default", "ACLMEM_ISOLATE=0");
    assert_acl_ok(aclrtSetDevice(0));
    b = block_create(CHUNK);
    fill((uint8_t *)b.va, b.size, 1);
    assert_int_equal(status_of_child(&b), 0);
    assert_true(is_filled((uint8_t *)b.va, b.size, 1));
    put_pattern(b.va, b.size, 2);
    block_destroy(&b);
}

static void a_grandchild_is_refused_as_well(void **state)
{
    struct block b = block_create(CHUNK);
    int status = -1;
    pid_t pid;

    fflush(NULL);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        pid_t grandchild = fork();

        if (grandchild == 0)
            _exit(play_child(&b));
        _exit(waitpid(grandchild, &status, 0) == grandchild && status == 0 ? 0 : 1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    block_destroy(&b);
}

/* Forks while aclFinalize, in another thread, waits for the function that does. */
static void fork_late(void *arg)
{
    struct block *b = arg;
    uint32_t n;

    while (aclrtGetDeviceCount(&n) != ACL_ERROR_UNINITIALIZE)
        ;
    b->size = (size_t)status_of_child(b);
}

static void a_function_may_fork_while_the_library_stops(void **state)
{
    struct block b = {.size = 1};
    aclrtStream stream;

    start("default");
    assert_acl_ok(aclrtSetDevice(0));
    assert_acl_ok(aclrtCreateStream(&stream));
    assert_acl_ok(aclrtLaunchHostFunc(stream, fork_late, &b));
    assert_acl_ok(aclFinalize());
    assert_int_equal(b.size, 0);
    assert_acl_ok(aclInit(NULL)); /* here it starts again */
    assert_acl_ok(aclrtSetDevice(0));
}

int main(void)
{
    const struct CMUnitTest claims[] = {
        claim_both(a_forked_child_is_refused_and_the_parent_goes_on),
        claim_alone(a_child_of_program_addressable_memory_is_refused_too),
        claim(a_grandchild_is_refused_as_well),
        claim_alone(a_function_may_fork_while_the_library_stops),
    };

    return run_claims(claims);
}
