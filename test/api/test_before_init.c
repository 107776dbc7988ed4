/*
 * What a process may do before its first aclInit.  The state exists once in a process,
 * so each claim runs this program again with the claim's name as its argument, and the
 * exit status is the line that failed.
 */
#include "support/process.h"
#include "support/vmm.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define require(cond_) \
    do { \
        if (!(cond_)) { \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #cond_); \
            return 1; \
        } \
    } while (0)

/* A file that the kernel removes with this process. */
static const char *config_path(void)
{
    static const char text[] = "{\"aclmem\": {\"product\": \"A3\"}}";
    static char path[64];
    int fd = memfd_create("config", MFD_CLOEXEC);

    if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text))
        return "/nowhere";
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    return path;
}

static int seven_steps_work(void)
{
    aclrtPhysicalMemProp prop = device_prop(0, ACL_HBM_MEM_HUGE);
    aclrtDrvMemHandle handle = NULL;
    char in[64] = "a few bytes", out[64] = "";
    void *va = NULL;

    require(aclrtSetDevice(0) == ACL_SUCCESS);
    require(aclrtReserveMemAddress(&va, CHUNK, 0, NULL, 1) == ACL_SUCCESS);
    require(aclrtMallocPhysical(&handle, CHUNK, &prop, 0) == ACL_SUCCESS);
    require(aclrtMapMem(va, CHUNK, 0, handle, 0) == ACL_SUCCESS);
    require(copy(va, in, 64, ACL_MEMCPY_HOST_TO_DEVICE) == ACL_SUCCESS);
    require(copy(out, va, 64, ACL_MEMCPY_DEVICE_TO_HOST) == ACL_SUCCESS);
    require(strcmp(in, out) == 0);
    require(aclrtUnmapMem(va) == ACL_SUCCESS);
    require(aclrtFreePhysical(handle) == ACL_SUCCESS);
    require(aclrtReleaseMemAddress(va) == ACL_SUCCESS);
    return 0;
}

static int granularity_is_the_first_call(void)
{
    aclrtPhysicalMemProp prop = device_prop(0, ACL_HBM_MEM_HUGE);
    size_t granularity = 0;

    require(aclrtMemGetAllocationGranularity(&prop,
                                             ACL_RT_MEM_ALLOC_GRANULARITY_RECOMMENDED,
                                             &granularity) == ACL_SUCCESS);
    require(granularity == CHUNK);
    return 0;
}

static int options_hold_without_init(void)
{
    uint32_t count = 0;

    require(aclrtGetDeviceCount(&count) == ACL_SUCCESS);
    require(count == 3);
    return 0;
}

static int init_afterwards_is_harmless(void)
{
    aclError rc;

    require(aclrtSetDevice(0) == ACL_SUCCESS);
    rc = aclInit(NULL);
    require(rc == ACL_SUCCESS || rc == ACL_ERROR_REPEAT_INITIALIZE);
    require(aclrtSetDevice(0) == ACL_SUCCESS);
    require(aclFinalize() == ACL_SUCCESS);
    require(aclrtSetDevice(0) == ACL_ERROR_UNINITIALIZE);
    return 0;
}

/*
 * A file that comes late counts as long as nothing is in use, and is refused after
 * that.
 */
static int init_with_a_file_while_idle_counts(void)
{
    uint32_t count = 0;

    require(aclrtGetDeviceCount(&count) == ACL_SUCCESS && count == 3);
    require(aclInit(config_path()) == ACL_SUCCESS);
    require(strcmp(aclmem_option("ACLMEM_PRODUCT"), "A3") == 0);
    require(aclFinalize() == ACL_SUCCESS);
    return 0;
}

static int init_with_a_file_while_in_use_is_refused(void)
{
    const char *message;
    void *va = NULL;

    require(aclrtReserveMemAddress(&va, CHUNK, 0, NULL, 1) == ACL_SUCCESS);
    require(aclInit(config_path()) == ACL_ERROR_INVALID_PARAM);
    message = aclGetRecentErrMsg();
    require(message != NULL && strstr(message, "in use") != NULL);
    require(aclrtReleaseMemAddress(va) == ACL_SUCCESS); /* and it works on as it was */
    require(aclrtSetDevice(0) == ACL_SUCCESS);
    require(aclInit(config_path()) == ACL_ERROR_INVALID_PARAM);
    require(aclInit(NULL) == ACL_SUCCESS);
    require(aclFinalize() == ACL_SUCCESS);
    return 0;
}

static int finalize_is_refused(void)
{
    require(aclFinalize() == ACL_ERROR_UNINITIALIZE);
    require(aclFinalizeReference(NULL) == ACL_ERROR_UNINITIALIZE);
    require(aclInit(NULL) == ACL_SUCCESS);
    require(aclFinalize() == ACL_SUCCESS);
    return 0;
}

static int bad_option_fails_the_call(void)
{
    const char *message;

    require(aclrtSetDevice(0) == ACL_ERROR_INVALID_PARAM);
    message = aclGetRecentErrMsg();
    require(message != NULL && strstr(message, "ACLMEM_MEMORY") != NULL);
    return 0;
}

static int strict_wants_init_first(void)
{
    aclrtPhysicalMemProp prop = device_prop(0, ACL_HBM_MEM_HUGE);
    const char *message;
    size_t granularity = 7;
    void *va = NULL;

    require(aclrtSetDevice(0) == ACL_ERROR_UNINITIALIZE);
    message = aclGetRecentErrMsg();
    require(message != NULL && strstr(message, "aclInit") != NULL);
    require(aclrtReserveMemAddress(&va, CHUNK, 0, NULL, 1) == ACL_ERROR_UNINITIALIZE);
    require(va == NULL);
    require(aclrtMemGetAllocationGranularity(&prop, ACL_RT_MEM_ALLOC_GRANULARITY_MINIMUM,
                                             &granularity) == ACL_ERROR_UNINITIALIZE);
    require(granularity == 7);
    require(aclInit(NULL) == ACL_SUCCESS);
    require(aclrtSetDevice(0) == ACL_SUCCESS);
    require(aclFinalize() == ACL_SUCCESS);
    return 0;
}

static int statistics_version_and_message_work(void)
{
    aclmem_stats s;

    require(aclmem_get_stats(&s) == ACL_SUCCESS);
    require(s.handles == 0 && s.reservations == 0);
    require(aclmem_version() != NULL);
    require(aclGetRecentErrMsg() == NULL);
    require(aclInit(NULL) == ACL_SUCCESS); /* and none of them initialised the library */
    require(aclFinalize() == ACL_SUCCESS);
    return 0;
}

#define ROLES(X) \
    X(seven_steps_work) \
    X(granularity_is_the_first_call) \
    X(options_hold_without_init) \
    X(init_afterwards_is_harmless) \
    X(init_with_a_file_while_idle_counts) \
    X(init_with_a_file_while_in_use_is_refused) \
    X(finalize_is_refused) \
    X(bad_option_fails_the_call) \
    X(strict_wants_init_first) \
    X(statistics_version_and_message_work)

static int play(const char *role)
{
#define X(role_) \
    if (strcmp(role, #role_) == 0) \
        return role_();
    ROLES(X)
#undef X
    return 2;
}

static void before_init_in_default(void **state)
{
    set_options("default", "ACLMEM_DEVICES=3");
    assert_int_equal(run_self("seven_steps_work"), 0);
    assert_int_equal(run_self("granularity_is_the_first_call"), 0);
    assert_int_equal(run_self("options_hold_without_init"), 0);
    assert_int_equal(run_self("init_afterwards_is_harmless"), 0);
    assert_int_equal(run_self("init_with_a_file_while_idle_counts"), 0);
    assert_int_equal(run_self("init_with_a_file_while_in_use_is_refused"), 0);
    assert_int_equal(run_self("finalize_is_refused"), 0);
    assert_int_equal(run_self("statistics_version_and_message_work"), 0);
}

static void before_init_in_strict(void **state)
{
    set_options("strict");
    assert_int_equal(run_self("strict_wants_init_first"), 0);
    assert_int_equal(run_self("finalize_is_refused"), 0);
    assert_int_equal(run_self("statistics_version_and_message_work"), 0);
}

static void before_init_with_a_bad_option(void **state)
{
    set_options("default", "ACLMEM_MEMORY=plenty");
    assert_int_equal(run_self("bad_option_fails_the_call"), 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest claims[] = {
        claim_alone(before_init_in_default),
        claim_alone(before_init_in_strict),
        claim_alone(before_init_with_a_bad_option),
    };

    if (argc == 2)
        return play(argv[1]);
    return run_claims(claims);
}
