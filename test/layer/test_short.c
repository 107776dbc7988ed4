/*
 * Each allocation of the layer check fails in turn.
 *
 * A process runs a small program with mistakes, with the nth allocation of the layer's
 * metadata failing.  Every call of the program has the result that it has without a
 * failure, and the report says that findings are incomplete.  The loop ends with the turn
 * in which no allocation was left to fail.
 */
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/support.h"

#define TURNS_MAX 2000
#define TRIES 8 /* more than two calls allocate */
#define LIMIT_S 120
#define SIZE 4096
#define MUST(call_) must((call_), __LINE__)

void am_fault_arm_metadata(uint64_t nth); /* only in test builds of the library */

static void must(aclError rc, int line)
{
    if (rc == ACL_SUCCESS)
        return;
    fprintf(stderr, "test_short:%d: %d: %s\n", line, rc, aclGetRecentErrMsg());
    _exit(3);
}

static void nothing(void *arg)
{
}

static void *thread_main(void *arg)
{
    void *block;

    MUST(aclrtSetDevice(0));
    MUST(aclrtMalloc(&block, SIZE, ACL_MEM_MALLOC_HUGE_FIRST));
    MUST(aclrtFree(block));
    return NULL;
}

static void memory_use(void)
{
    aclrtPhysicalMemProp prop = {
        .memAttr = ACL_HBM_MEM_HUGE,
        .location = {.id = 0, .type = ACL_MEM_LOCATION_TYPE_DEVICE}};
    aclrtDrvMemHandle handle;
    aclrtContext first;
    aclrtContext context;
    pthread_t thread;
    void *va;

    MUST(aclrtReserveMemAddress(&va, CHUNK, 0, NULL, 1));
    MUST(aclrtMallocPhysical(&handle, CHUNK, &prop, 0));
    MUST(aclrtMapMem(va, CHUNK, 0, handle, 0));
    MUST(aclrtMemset(va, CHUNK, 1, CHUNK));
    MUST(aclrtUnmapMem(va));
    MUST(aclrtFreePhysical(handle));
    MUST(aclrtReleaseMemAddress(va));
    MUST(aclrtGetCurrentContext(&first));
    MUST(aclrtCreateContext(&context, 0));
    MUST(aclrtSynchronizeStream(NULL));
    MUST(aclrtDestroyContext(context));
    MUST(aclrtSetCurrentContext(first));
    if (pthread_create(&thread, NULL, thread_main, NULL) != 0)
        _exit(4);
    pthread_join(thread, NULL);
}

static void stream_use(void)
{
    aclrtStream s[2];
    aclrtEvent early;
    aclrtEvent event;
    aclrtNotify notify;
    char own[64];
    void *block;
    void *host;

    for (int i = 0; i < 2; i++)
        MUST(aclrtCreateStream(&s[i]));
    MUST(aclrtCreateEvent(&early));
    MUST(aclrtCreateEvent(&event));
    MUST(aclrtCreateNotify(&notify, 0));
    MUST(aclrtMalloc(&block, SIZE, ACL_MEM_MALLOC_HUGE_FIRST));
    MUST(aclrtMallocHost(&host, SIZE));
    MUST(aclrtStreamWaitEvent(s[0], early)); /* what follows is pending in the model */
    MUST(aclrtMemcpyAsync(block, SIZE, host, SIZE, ACL_MEMCPY_HOST_TO_DEVICE, s[0]));
    MUST(aclrtLaunchHostFunc(s[0], nothing, NULL));
    MUST(aclrtRecordEvent(event, s[0]));
    MUST(aclrtRecordNotify(notify, s[0]));
    MUST(aclrtStreamWaitEvent(s[1], event));
    MUST(aclrtWaitAndResetNotify(notify, s[1], 0));
    MUST(aclrtMemsetAsync(block, SIZE, 1, 64, s[1]));
    MUST(aclrtRecordEvent(early, NULL));
    MUST(aclrtSynchronizeStream(s[0]));
    MUST(aclrtSynchronizeDevice());
    MUST(aclrtValueWait(block, 7, ACL_VALUE_WAIT_EQ, s[1]));
    MUST(aclrtValueWrite(block, 7, 0, s[0]));
    MUST(aclrtSynchronizeDevice());
    MUST(aclrtMemsetAsync(block, SIZE, 1, 128, s[0]));
    MUST(aclrtMemcpyAsync((char *)block + 2048, 64, (char *)block + 64, 64,
                          ACL_MEMCPY_DEVICE_TO_DEVICE, s[1]));        /* a race */
    MUST(aclrtMemcpy(own, 64, block, 64, ACL_MEMCPY_DEVICE_TO_HOST)); /* another one */
    MUST(aclrtSynchronizeDevice());
    MUST(aclrtDestroyEvent(early));
    MUST(aclrtDestroyEvent(event));
    MUST(aclrtDestroyNotify(notify));
    MUST(aclrtFreeHost(host));
    MUST(aclrtFree(block));
    if (aclrtFree(block) == ACL_SUCCESS) /* a double free */
        _exit(5);
    for (int i = 0; i < 2; i++)
        MUST(aclrtDestroyStream(s[i]));
}

/*
 * The layer may lose the record of the event and, behind it, the record of a notify: then
 * waits that are over are pending in the model when the host queries them.
 */
static void waits_query(uint64_t nth, uint64_t nth_behind)
{
    aclrtEventWaitStatus status = ACL_EVENT_WAIT_STATUS_NOT_READY;
    aclrtNotify first, second, gate;
    aclrtStream s[4];
    aclrtEvent event;

    for (int i = 0; i < 4; i++)
        MUST(aclrtCreateStream(&s[i]));
    MUST(aclrtCreateEvent(&event));
    MUST(aclrtCreateNotify(&first, 0));
    MUST(aclrtCreateNotify(&second, 0));
    MUST(aclrtCreateNotify(&gate, 0));
    MUST(aclrtWaitAndResetNotify(first, s[0], 0));
    am_fault_arm_metadata(nth);
    MUST(aclrtRecordEvent(event, s[0]));
    am_fault_arm_metadata(0);
    MUST(aclrtWaitAndResetNotify(second, s[1], 0));
    MUST(aclrtStreamWaitEvent(s[1], event));
    for (int i = 0; i < 3; i++)
        MUST(aclrtStreamWaitEvent(s[2], event));
    MUST(aclrtWaitAndResetNotify(gate, s[3], 0));
    am_fault_arm_metadata(nth_behind);
    MUST(aclrtRecordNotify(second, s[3]));
    MUST(aclrtRecordNotify(first, s[3]));
    am_fault_arm_metadata(0);
    MUST(aclrtRecordNotify(gate, NULL));
    while (status != ACL_EVENT_WAIT_STATUS_COMPLETE)
        MUST(aclrtQueryEventWaitStatus(event, &status));
    MUST(aclrtSynchronizeDevice());
    for (int i = 0; i < 4; i++)
        MUST(aclrtDestroyStream(s[i]));
    MUST(aclrtDestroyEvent(event));
    MUST(aclrtDestroyNotify(first));
    MUST(aclrtDestroyNotify(second));
    MUST(aclrtDestroyNotify(gate));
}

static void query_run(uint64_t nth, uint64_t nth_behind)
{
    setenv("ACLMEM_LAYERS", "check", 1);
    alarm(LIMIT_S);
    MUST(aclInit(NULL));
    MUST(aclrtSetDevice(0));
    waits_query(nth, nth_behind);
    MUST(aclrtResetDevice(0));
    MUST(aclFinalize());
    exit(0);
}

static void child_run(uint64_t nth, const char *folder)
{
    void *left;

    setenv("ACLMEM_LAYERS", "check", 1);
    setenv("ACLMEM_CHECK", "all", 1);
    setenv("ACLMEM_FINDINGS", folder, 1);
    am_fault_arm_metadata(nth);
    MUST(aclInit(NULL));
    MUST(aclrtSetDevice(0));
    memory_use();
    stream_use();
    MUST(aclrtMalloc(&left, 64, ACL_MEM_MALLOC_HUGE_FIRST)); /* a leak */
    MUST(aclrtResetDevice(0));
    MUST(aclFinalize());
    exit(0);
}

/* Reads the one file of the folder, removes it, and returns whether it has the text. */
static bool report_has(const char *folder, const char *text)
{
    static char report[1 << 20];
    DIR *dir = opendir(folder);
    struct dirent *entry;
    bool is_there = false;

    assert_non_null(dir);
    while ((entry = readdir(dir)) != NULL) {
        int fd =
            entry->d_name[0] != '.' ? openat(dirfd(dir), entry->d_name, O_RDONLY) : -1;
        ssize_t n = fd >= 0 ? read(fd, report, sizeof report - 1) : -1;

        if (n >= 0) {
            report[n] = '\0';
            is_there |= strstr(report, text) != NULL;
            unlinkat(dirfd(dir), entry->d_name, 0);
        }
        if (fd >= 0)
            close(fd);
    }
    closedir(dir);
    return is_there;
}

static void every_allocation_may_fail(void **state)
{
    char folder[] = "/tmp/aclmem-short-XXXXXX";
    bool is_incomplete = true;
    uint64_t n = 0;
    int status;

    assert_non_null(mkdtemp(folder));
    while (is_incomplete && n < TURNS_MAX) {
        pid_t pid = fork();

        n++;
        if (pid == 0)
            child_run(n, folder);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        if (status != 0)
            fail_msg("allocation %d: status 0x%x", (int)n, status);
        is_incomplete = report_has(folder, "\"incomplete\":true");
    }
    rmdir(folder);
    assert_true(n > 100 && n < TURNS_MAX);
}

static void a_query_ends_if_records_were_lost(void **state)
{
    int status;

    for (uint64_t nth = 0; nth <= TRIES; nth++) {
        for (uint64_t behind = 0; behind <= TRIES; behind++) {
            pid_t pid = fork();

            if (pid == 0)
                query_run(nth, behind);
            assert_int_equal(waitpid(pid, &status, 0), pid);
            if (status != 0)
                fail_msg("allocations %d and %d: status 0x%x", (int)nth, (int)behind,
                         status);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(a_query_ends_if_records_were_lost),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
