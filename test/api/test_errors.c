/* Recent messages, last errors, and what the library says of itself. */
#include "support/process.h"
#include "support/vmm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void no_failure_leaves_no_message(void **state)
{
    uint32_t count;

    (void)aclGetRecentErrMsg();
    assert_int_equal(aclrtGetDeviceCount(&count), ACL_SUCCESS);
    assert_null(aclGetRecentErrMsg());
}

static void a_message_is_read_once(void **state)
{
    assert_int_equal(aclrtSetDevice(77), ACL_ERROR_RT_INVALID_DEVICEID);
    assert_non_null(aclGetRecentErrMsg());
    assert_null(aclGetRecentErrMsg());
}

static void the_newest_message_is_on_top(void **state)
{
    const char *text, *newer, *older;

    (void)aclGetRecentErrMsg();
    assert_int_equal(aclrtSetDevice(7777), ACL_ERROR_RT_INVALID_DEVICEID);
    assert_int_equal(aclrtSetDevice(8888), ACL_ERROR_RT_INVALID_DEVICEID);
    text = aclGetRecentErrMsg();
    assert_non_null(text);
    newer = strstr(text, "8888");
    older = strstr(text, "7777");
    assert_non_null(newer);
    assert_non_null(older);
    assert_true(newer < older);
}

/* However many failures go unread, the newest is kept. */
static void unread_messages_do_not_grow_without_end(void **state)
{
    const char *text;

    (void)aclGetRecentErrMsg();
    for (int32_t i = 0; i < 100000; i++)
        assert_int_equal(aclrtSetDevice(1000 + i), ACL_ERROR_RT_INVALID_DEVICEID);
    text = aclGetRecentErrMsg();
    assert_non_null(text);
    assert_non_null(strstr(text, "100999"));
    assert_true(strlen(text) < MIB);
    assert_null(aclGetRecentErrMsg());
}

static void a_refusal_names_the_values(void **state)
{
    void *va = reserve(2 * CHUNK);
    aclrtDrvMemHandle handle = alloc(CHUNK);

    assert_acl(aclrtSetDevice(1234567), ACL_ERROR_RT_INVALID_DEVICEID);
    assert_message_has("1234567");
    assert_acl(aclrtMapMem((char *)va + 4096, CHUNK, 0, handle, 0),
               ACL_ERROR_RT_ADDR_UNALIGNED);
    assert_message_has_address((char *)va + 4096);
    assert_acl(aclrtUnmapMem(va), ACL_ERROR_RT_PARAM_INVALID);
    assert_message_has_address(va);
    assert_acl(aclrtMapMem(va, CHUNK, 0, handle, 48879), ACL_ERROR_INVALID_PARAM);
    assert_message_has("beef|48879");
    assert_acl_ok(aclrtFreePhysical(handle));
    assert_acl_ok(aclrtReleaseMemAddress(va));
}

static void last_error_is_read_and_cleared(void **state)
{
    (void)aclrtGetLastError(ACL_RT_THREAD_LEVEL);
    assert_int_equal(aclrtGetLastError(ACL_RT_THREAD_LEVEL), ACL_SUCCESS);
    assert_int_equal(aclrtSetDevice(77), ACL_ERROR_RT_INVALID_DEVICEID);
    assert_int_equal(aclrtPeekAtLastError(ACL_RT_THREAD_LEVEL),
                     ACL_ERROR_RT_INVALID_DEVICEID);
    assert_int_equal(aclrtPeekAtLastError(ACL_RT_THREAD_LEVEL),
                     ACL_ERROR_RT_INVALID_DEVICEID);
    assert_int_equal(aclrtGetLastError(ACL_RT_THREAD_LEVEL),
                     ACL_ERROR_RT_INVALID_DEVICEID);
    assert_int_equal(aclrtGetLastError(ACL_RT_THREAD_LEVEL), ACL_SUCCESS);
    assert_int_equal(aclrtPeekAtLastError(ACL_RT_THREAD_LEVEL), ACL_SUCCESS);
}

static void last_error_outlives_a_success(void **state)
{
    uint32_t count;

    assert_int_equal(aclrtSetDevice(77), ACL_ERROR_RT_INVALID_DEVICEID);
    assert_int_equal(aclrtUnmapMem((void *)(16 * TIB)), ACL_ERROR_RT_PARAM_INVALID);
    assert_int_equal(aclrtGetDeviceCount(&count), ACL_SUCCESS);
    assert_int_equal(aclrtGetLastError(ACL_RT_THREAD_LEVEL), ACL_ERROR_RT_PARAM_INVALID);
}

static void only_the_threads_level_exists(void **state)
{
    assert_acl(aclrtGetLastError((aclrtLastErrLevel)1), ACL_ERROR_INVALID_PARAM);
    assert_message_has("level");
    assert_acl(aclrtPeekAtLastError((aclrtLastErrLevel)-1), ACL_ERROR_INVALID_PARAM);
    assert_message_has("level");
}

static const char *fail_here(struct worker *self)
{
    worker_check(aclrtPeekAtLastError(ACL_RT_THREAD_LEVEL) == ACL_SUCCESS);
    worker_check(aclGetRecentErrMsg() == NULL);
    worker_check(aclrtSetDevice(-5) == ACL_ERROR_RT_INVALID_DEVICEID);
    worker_check(aclrtPeekAtLastError(ACL_RT_THREAD_LEVEL) ==
                 ACL_ERROR_RT_INVALID_DEVICEID);
    worker_check(aclGetRecentErrMsg() != NULL);
    return NULL;
}

static void errors_stay_in_their_thread(void **state)
{
    assert_int_equal(aclrtUnmapMem((void *)(16 * TIB)), ACL_ERROR_RT_PARAM_INVALID);
    assert_null(run_thread(fail_here, NULL));
    assert_int_equal(aclrtGetLastError(ACL_RT_THREAD_LEVEL), ACL_ERROR_RT_PARAM_INVALID);
    assert_non_null(aclGetRecentErrMsg());
}

/* ---- errors of the memory itself, of which there are none ---- */

static void memory_has_no_errors(void **state)
{
    aclrtMemUceInfo infos[4];
    aclrtErrorInfo error;
    size_t n = 77;

    memset(infos, 0, sizeof(infos));
    memset(&error, 0xff, sizeof(error));
    assert_acl_ok(aclrtGetMemUceInfo(0, infos, 4, &n));
    assert_int_equal(n, 0);
    assert_acl_ok(aclrtGetErrorVerbose(1, &error));
    assert_int_equal(error.tryRepair, 0);
    assert_int_equal(error.hasDetail, 0);
    assert_int_equal(error.errorType, 0);
    assert_acl_ok(aclrtRepairError(1, &error));
    error.errorType = 3;
    assert_refused(aclrtRepairError(1, &error), ACL_ERROR_RT_PARAM_INVALID, "type 3");
    infos[0] = (aclrtMemUceInfo){.addr = (void *)0x1234000, .len = 4096};
    assert_refused(aclrtMemUceRepair(0, infos, 1), ACL_ERROR_RT_PARAM_INVALID,
                   "0x1234000");
}

static void questions_for_errors_are_checked(void **state)
{
    const aclError bad = ACL_ERROR_INVALID_PARAM;
    aclrtMemUceInfo info;
    aclrtErrorInfo error;
    size_t n = 77;

    memset(&info, 0, sizeof(info));
    memset(&error, 0, sizeof(error));
    assert_refused(aclrtGetMemUceInfo(0, NULL, 1, &n), bad, "arr is NULL");
    assert_refused(aclrtGetMemUceInfo(0, &info, 0, &n), bad, "arraySize is 0");
    assert_refused(aclrtGetMemUceInfo(0, &info, 1, NULL), bad, "retSize is NULL");
    assert_refused(aclrtGetMemUceInfo(9, &info, 1, &n), ACL_ERROR_RT_INVALID_DEVICEID,
                   "device");
    assert_refused(aclrtMemUceRepair(0, NULL, 1), bad, "arr is NULL");
    assert_refused(aclrtMemUceRepair(0, &info, 0), bad, "arraySize is 0");
    assert_refused(aclrtMemUceRepair(-1, &info, 1), ACL_ERROR_RT_INVALID_DEVICEID,
                   "device");
    assert_refused(aclrtGetErrorVerbose(0, NULL), bad, "errorInfo is NULL");
    assert_refused(aclrtGetErrorVerbose(2, &error), ACL_ERROR_RT_INVALID_DEVICEID,
                   "device");
    assert_refused(aclrtRepairError(0, NULL), bad, "errorInfo is NULL");
    assert_refused(aclrtRepairError(2, &error), ACL_ERROR_RT_INVALID_DEVICEID, "device");
    assert_int_equal(n, 77);
}

/* ---- versions and names ---- */

static void interface_version_agrees_with_the_header(void **state)
{
    int32_t major = -1, minor = -1, patch = -1;

    assert_acl_ok(aclrtGetVersion(&major, &minor, &patch));
    assert_int_equal(major, ACL_MAJOR_VERSION);
    assert_int_equal(minor, ACL_MINOR_VERSION);
    assert_int_equal(patch, ACL_PATCH_VERSION);
    assert_bad_arg(aclrtGetVersion(NULL, &minor, &patch), "null");
    assert_bad_arg(aclrtGetVersion(&major, NULL, &patch), "null");
    assert_bad_arg(aclrtGetVersion(&major, &minor, NULL), "null");
}

/* "8.5.0" and the like as a number that compares. */
static long version_rank(const char *text)
{
    long part[3] = {0};

    assert_true(sscanf(text, "%ld.%ld.%ld", &part[0], &part[1], &part[2]) >= 2);
    return (part[0] * 1000 + part[1]) * 1000 + part[2];
}

/* torch_npu turns features on by these; see "Version strings gate features". */
static void package_versions_allow_every_feature(void **state)
{
    enum { CANN = 0, RUNTIME = 1, DRIVER = 7 };
    aclCANNPackageVersion v;

    memset(&v, 0, sizeof(v));
    assert_acl_ok(aclsysGetCANNVersion((aclCANNPackageName)CANN, &v));
    assert_true(version_rank(v.version) >= 8005000);
    assert_acl_ok(aclsysGetCANNVersion((aclCANNPackageName)RUNTIME, &v));
    assert_true(version_rank(v.version) >= 8005000);
    assert_int_equal(atol(v.majorVersion), version_rank(v.version) / 1000000);
    assert_int_equal(atol(v.minorVersion), version_rank(v.version) / 1000 % 1000);
    assert_acl_ok(aclsysGetCANNVersion((aclCANNPackageName)DRIVER, &v));
    assert_true(version_rank(v.version) >= 25005000);
}

static void unknown_packages_are_refused(void **state)
{
    aclCANNPackageVersion v;

    assert_refused_either(aclsysGetCANNVersion((aclCANNPackageName)99, &v),
                          ACL_ERROR_INVALID_PARAM, ACL_ERROR_INVALID_FILE, "99");
    assert_bad_arg(aclsysGetCANNVersion((aclCANNPackageName)0, NULL), "version");
}

static void versions_by_package_name(void **state)
{
    char text[ACL_PKG_VERSION_MAX_SIZE] = "", name[32] = "runtime", driver[32] = "driver";
    char unknown[32] = "no_such_package";
    int32_t num = -1, driver_num = -1;

    assert_acl_ok(aclsysGetVersionStr(name, text));
    assert_true(version_rank(text) >= 8005000);
    assert_acl_ok(aclsysGetVersionStr(driver, text));
    assert_true(version_rank(text) >= 25005000);
    assert_acl_ok(aclsysGetVersionNum(name, &num));
    assert_acl_ok(aclsysGetVersionNum(driver, &driver_num));
    assert_true(num > 0 && driver_num > num);

    strcpy(text, "untouched");
    assert_refused_either(aclsysGetVersionStr(unknown, text), ACL_ERROR_INVALID_PARAM,
                          ACL_ERROR_INVALID_FILE, "no_such_package");
    assert_string_equal(text, "untouched");
    assert_bad_arg(aclsysGetVersionStr(NULL, text), "null");
    assert_bad_arg(aclsysGetVersionStr(name, NULL), "null");
    assert_bad_arg(aclsysGetVersionNum(name, NULL), "null");
}

static void our_own_version_has_three_parts(void **state)
{
    int a = -1, b = -1, c = -1;

    assert_int_equal(sscanf(aclmem_version(), "%d.%d.%d", &a, &b, &c), 3);
    assert_true(a >= 0 && b >= 0 && c >= 0);
}

int main(void)
{
    const struct CMUnitTest claims[] = {
        claim(no_failure_leaves_no_message),
        claim(a_message_is_read_once),
        claim(the_newest_message_is_on_top),
        claim(unread_messages_do_not_grow_without_end),
        claim(a_refusal_names_the_values),
        claim(last_error_is_read_and_cleared),
        claim(last_error_outlives_a_success),
        claim(only_the_threads_level_exists),
        claim(errors_stay_in_their_thread),
        claim_both(memory_has_no_errors),
        claim_both(questions_for_errors_are_checked),
        claim(interface_version_agrees_with_the_header),
        claim(package_versions_allow_every_feature),
        claim(unknown_packages_are_refused),
        claim(versions_by_package_name),
        claim(our_own_version_has_three_parts),
    };

    return run_claims(claims);
}
