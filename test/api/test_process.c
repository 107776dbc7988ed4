/*
 * The library beside the rest of a process: other threads that start, stop and fail while
 * it is forked, limits that would kill by a signal, and the state of things
 * that a program looks at whatever a call returned.
 */
#include "support/process.h"
#include "support/vmm.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/*
 * What a thread does beside the rest of a test it does so often, or until the rest is
 * over.
 */
enum { MOST_FAILURES = 1000000, MOST_STARTS = 20000 };
static atomic_bool is_over;

/* ---- fork beside busy threads ---- */

static const char *fail_all_the_time(struct worker *self)
{
    for (unsigned i = 0; i < MOST_FAILURES && !is_over; i++)
        worker_check(aclrtReleaseMemAddress(self) != ACL_SUCCESS);
    return NULL;
}

static const char *start_and_stop(struct worker *self)
{
    for (unsigned i = 0; i < MOST_STARTS && !is_over; i++) {
        (void)aclFinalize();
        (void)aclInit(NULL);
    }
    return NULL;
}

/* A child that hangs is ended by the alarm, which its status shows. */
static int status_of_child_that_calls_in(void)
{
    int status = -1;
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0) {
        aclrtContext context = (aclrtContext)&status;

        alarm(200);
        (void)aclrtGetCurrentContext(&context);
        (void)aclrtReleaseMemAddress(&status);
        (void)aclGetRecentErrMsg();
        _exit(context != NULL);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

static void fork_beside(const char *(*run)(struct worker *self))
{
    struct worker workers[2] = {{.run = run}, {.run = run, .index = 1}};

    is_over = false;
    for (int i = 0; i < 2; i++)
        assert_int_equal(worker_start(&workers[i]), 0);
    for (int i = 0; i < 100; i++)
        assert_int_equal(status_of_child_that_calls_in(), 0);
    is_over = true;
    for (int i = 0; i < 2; i++)
        assert_null(worker_join(&workers[i]));
}

static void a_child_does_not_hang_when_other_threads_failed_during_fork(void **state)
{
    char path[] = "/tmp/aclmem_test_XXXXXX";
    int fd;

    set_options("default");
    fd = mkstemp(path);
    assert_true(fd >= 0 && dprintf(fd, "{\"err_msg_mode\": \"1\"}") > 0);
    assert_acl_ok(aclInit(path));
    unlink(path);
    close(fd);
    fork_beside(fail_all_the_time);
}

static void a_child_does_not_hang_when_other_threads_started_during_fork(void **state)
{
    start("default");
    fork_beside(start_and_stop);
    (void)aclInit(NULL);
}

/* ---- what a program looks at ---- */

static void the_current_context_is_null_in_every_state(void **state)
{
    aclrtContext context = (aclrtContext)state;

    start("default");
    assert_acl_ok(aclFinalize());
    assert_acl(aclrtGetCurrentContext(&context), ACL_ERROR_UNINITIALIZE);
    assert_null(context);

    context = (aclrtContext)state;
    start("default");
    assert_acl(aclrtGetCurrentContext(&context), ACL_ERROR_RT_CONTEXT_NULL);
    assert_null(context);
}

/* ---- signals ---- */

static void do_nothing(void *data)
{
}

/* The signals that every thread but this one has blocked. */
static uint64_t blocked_in_others(void)
{
    DIR *threads = opendir("/proc/self/task");
    uint64_t all = UINT64_MAX;
    struct dirent *entry;
    char line[300];

    assert_non_null(threads);
    while ((entry = readdir(threads)) != NULL) {
        unsigned long long blocked;
        FILE *status;

        if (atoi(entry->d_name) == 0 || atoi(entry->d_name) == getpid())
            continue;
        snprintf(line, sizeof(line), "/proc/self/task/%s/status", entry->d_name);
        status = fopen(line, "r");
        while (status != NULL && fgets(line, sizeof(line), status) != NULL) {
            if (sscanf(line, "SigBlk: %llx", &blocked) == 1)
                all &= blocked;
        }
        if (status != NULL)
            fclose(status);
    }
    closedir(threads);
    return all;
}

/* A program that waits for one has blocked it in all its threads, not in ours. */
static void threads_of_the_library_take_no_signals_of_the_program(void **state)
{
    static const char *const chaos[] = {"ACLMEM_LOG=warn", "ACLMEM_CHAOS=1"};

    for (size_t i = 0; i < 2; i++) {
        aclrtStream stream = NULL;
        aclrtDrvMemHandle handle;
        uint64_t number = 0, blocked;

        start("default", chaos[i]);
        assert_acl_ok(aclrtSetDevice(0));
        assert_acl_ok(aclrtCreateStream(&stream));
        assert_acl_ok(aclrtLaunchHostFunc(stream, do_nothing, NULL));
        assert_acl_ok(aclrtSynchronizeStream(stream));
        handle = alloc(CHUNK);
        assert_acl_ok(aclrtMemExportToShareableHandle(
            handle, ACL_MEM_HANDLE_TYPE_NONE,
            ACL_RT_VMM_EXPORT_FLAG_DISABLE_PID_VALIDATION, &number));
        blocked = blocked_in_others();
        assert_int_not_equal(blocked, UINT64_MAX); /* there are some */
        assert_true(blocked >> (SIGTERM - 1) & 1);
        assert_true(blocked >> (SIGINT - 1) & 1);
        assert_true(blocked >> (SIGCHLD - 1) & 1);
        assert_true(blocked >> (SIGALRM - 1) & 1);
        assert_true(is_sanitized() || (blocked >> (SIGSEGV - 1) & 1) == 0);
        assert_acl_ok(aclrtFreePhysical(handle));
        assert_acl_ok(aclrtDestroyStream(stream));
        assert_acl_ok(aclFinalize());
    }
}

/* ---- limits ---- */

static void a_limit_of_file_sizes_is_no_signal(void **state)
{
    struct rlimit small = {.rlim_cur = MIB, .rlim_max = RLIM_INFINITY};
    struct rlimit old;
    aclrtPhysicalMemProp prop = device_prop(0, ACL_HBM_MEM_HUGE);
    aclrtPhysicalMemProp host = located_prop(ACL_MEM_LOCATION_TYPE_HOST, 0, ACL_MEM_HUGE);
    aclrtDrvMemHandle handle = NULL;

    start("default");
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    small.rlim_max = old.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    assert_refused(aclrtMallocPhysical(&handle, CHUNK, &prop, 0),
                   ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, "ulimit -f");
    assert_refused(aclrtMallocPhysical(&handle, CHUNK, &host, 0),
                   ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, "ulimit -f");
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    assert_acl_ok(aclrtMallocPhysical(&handle, CHUNK, &prop, 0));
    assert_acl_ok(aclrtFreePhysical(handle));
}

/*
 * Role "daemon": has closed what programs print to, and uses all that takes descriptors.
 * How many of the three are taken then, or more when something failed.
 */
static int play_daemon(void)
{
    aclrtPhysicalMemProp prop = located_prop(ACL_MEM_LOCATION_TYPE_HOST, 0, ACL_MEM_HUGE);
    aclrtDrvMemHandle handle;
    aclrtEvent event;
    aclrtIpcEventHandle exported;
    uint64_t number;
    int n_taken = 0;

    for (int fd = 0; fd <= 2; fd++)
        close(fd);
    if (aclInit(NULL) != ACL_SUCCESS || aclrtSetDevice(0) != ACL_SUCCESS ||
        aclrtMallocPhysical(&handle, CHUNK, &prop, 0) != ACL_SUCCESS ||
        aclrtMemExportToShareableHandle(handle, ACL_MEM_HANDLE_TYPE_NONE,
                                        ACL_RT_VMM_EXPORT_FLAG_DISABLE_PID_VALIDATION,
                                        &number) != ACL_SUCCESS ||
        aclrtCreateEventExWithFlag(&event, ACL_EVENT_IPC) != ACL_SUCCESS ||
        aclrtIpcGetEventHandle(event, &exported) != ACL_SUCCESS)
        return 9;
    for (int fd = 0; fd <= 2; fd++)
        n_taken += fcntl(fd, F_GETFD) >= 0;
    return n_taken;
}

/* What is printed there would be written into memory that processes share. */
static void closed_standard_descriptors_are_not_taken(void **state)
{
    struct rlimit old, small;

    set_options("default");
    assert_int_equal(run_self("daemon"), 0);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
    small = old;
    small.rlim_cur = 512; /* no number above 1023, as in a shell */
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &small), 0);
    assert_int_equal(run_self("daemon"), 0);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
}

static void a_product_that_chooses_addresses_itself_takes_none(void **state)
{
    void *va = NULL;

    start("default", "ACLMEM_PRODUCT=950");
    assert_refused(aclrtReserveMemAddress(&va, CHUNK, 0, (void *)(40 * TIB), 1),
                   ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "ACLMEM_PRODUCT=950");
    assert_acl_ok(aclrtReserveMemAddress(&va, CHUNK, 0, NULL, 1));
    assert_acl_ok(aclrtReleaseMemAddress(va));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest claims[] = {
        claim_alone(a_child_does_not_hang_when_other_threads_failed_during_fork),
        claim_alone(a_child_does_not_hang_when_other_threads_started_during_fork),
        claim_alone(the_current_context_is_null_in_every_state),
        claim_alone(threads_of_the_library_take_no_signals_of_the_program),
        claim_alone(a_limit_of_file_sizes_is_no_signal),
        claim_alone(closed_standard_descriptors_are_not_taken),
        claim_alone(a_product_that_chooses_addresses_itself_takes_none),
    };

    if (argc == 2 && strcmp(argv[1], "daemon") == 0)
        return play_daemon();
    return run_claims(claims);
}
