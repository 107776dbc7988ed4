/* ACLMEM_LOG=refusals: refused calls on standard error, by place and reason. */
#include "support/process.h"
#include "support/vmm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Each use is a place of its own, and one place: the loop must not be unrolled. */
#define refuse(address_) aclrtFree((void *)(uintptr_t)(address_))
#define repeat(i_, n_) for (volatile uintptr_t i_ = 0; i_ < (n_); i_++)

/* How often the words are in the text. */
static unsigned count(const char *text, const char *words)
{
    unsigned n = 0;

    for (; (text = strstr(text, words)) != NULL; text++)
        n++;
    return n;
}

static void a_refusal_is_printed_once_for_a_place_and_counted(void **state)
{
    const char *text;

    start("default", "ACLMEM_LOG=refusals");
    capture_stderr();
    repeat(i, 5) assert_int_equal(refuse((i + 1) * 4096), ACL_ERROR_RT_PARAM_INVALID);
    aclrtFree((void *)4096);
    assert_int_equal(aclFinalize(), ACL_SUCCESS);
    text = captured_stderr();
    assert_int_equal(count(text, "aclmem: refusal: test_api_refusals+0x"), 3);
    assert_int_equal(count(text, ": EE1001: aclrtFree: 0x1000 is not memory of "), 2);
    assert_int_equal(count(text, ": aclrtFree was refused 5 times in all [107000 "), 1);
    assert_int_equal(count(text, "\n"), 3);
}

static void a_place_has_a_line_for_each_reason(void **state)
{
    const char *text;

    start("default", "ACLMEM_LOG=refusals");
    capture_stderr();
    repeat(i, 4) assert_int_equal(refuse(i % 2 * 4096), ACL_ERROR_RT_PARAM_INVALID);
    assert_int_equal(aclFinalize(), ACL_SUCCESS);
    text = captured_stderr();
    assert_int_equal(count(text, "aclrtFree: devPtr is NULL"), 1);
    assert_int_equal(count(text, "aclrtFree: 0x1000 is not memory of"), 1);
    assert_int_equal(count(text, "refused 2 times"), 2);
    assert_int_equal(count(text, "\n"), 4);
}

static void other_levels_print_all_or_nothing(void **state)
{
    start("default", "ACLMEM_LOG=warn");
    capture_stderr();
    repeat(i, 2) refuse(4096);
    assert_int_equal(aclFinalize(), ACL_SUCCESS);
    assert_string_equal(captured_stderr(), "");

    capture_stderr();
    start("default", "ACLMEM_LOG=info");
    repeat(i, 2) refuse(4096);
    assert_int_equal(aclFinalize(), ACL_SUCCESS);
    assert_int_equal(count(captured_stderr(), "refused 2 times"), 1);

    capture_stderr();
    start("default", "ACLMEM_LOG=debug");
    repeat(i, 2) refuse(4096);
    assert_int_equal(aclFinalize(), ACL_SUCCESS);
    assert_int_equal(count(captured_stderr(), "aclrtFree: 0x1000 is not memory"), 2);
}

/* The calls of base/expected_codes.def: these codes do not indicate a mistake. */
static void an_ordinary_answer_is_no_refusal(void **state)
{
    aclrtContext context = NULL;
    aclrtEvent event = NULL;
    int32_t device = 0;
    int64_t value = 0;
    int here = 0;
    void *base;

    start("default", "ACLMEM_LOG=refusals");
    capture_stderr();
    assert_int_equal(aclrtGetCurrentContext(&context), ACL_ERROR_RT_CONTEXT_NULL);
    assert_int_equal(aclrtGetDevice(&device), ACL_ERROR_RT_CONTEXT_NULL);
    assert_int_equal(aclrtMemGetAddressRange(&here, &base, NULL),
                     ACL_ERROR_RT_PARAM_INVALID);
    assert_int_equal(aclrtSetDevice(0), ACL_SUCCESS);
    assert_int_equal(aclrtCtxGetSysParamOpt(ACL_OPT_DETERMINISTIC, &value),
                     ACL_ERROR_RT_SYSPARAMOPT_NOT_SET);
    assert_int_equal(aclrtCreateEvent(&event), ACL_SUCCESS);
    assert_int_equal(aclrtSynchronizeEventWithTimeout(event, 1),
                     ACL_ERROR_RT_EVENT_SYNC_TIMEOUT);
    assert_int_equal(aclrtDestroyEvent(event), ACL_SUCCESS);
    assert_int_equal(aclInit(NULL), ACL_ERROR_REPEAT_INITIALIZE);
    assert_int_equal(aclFinalize(), ACL_SUCCESS);
    assert_int_equal(aclFinalize(), ACL_ERROR_REPEAT_FINALIZE);
    assert_string_equal(captured_stderr(), "");
}

/* A callback that nobody sends: the report waits for its time. */
static void a_report_that_has_nothing_to_do_is_no_refusal(void **state)
{
    aclrtStream stream = NULL;

    start("default", "ACLMEM_LOG=refusals");
    assert_acl_ok(aclrtSetDevice(0));
    assert_acl_ok(aclrtCreateStream(&stream));
    assert_acl_ok(aclrtSubscribeReport((uint64_t)pthread_self(), stream));
    capture_stderr();
    for (int i = 0; i < 3; i++)
        assert_int_equal(aclrtProcessReport(1), ACL_ERROR_RT_REPORT_TIMEOUT);
    assert_string_equal(captured_stderr(), "");
    assert_acl_ok(aclrtUnSubscribeReport((uint64_t)pthread_self(), stream));
    assert_acl_ok(aclrtDestroyStream(stream));
}

static void a_call_before_the_start_is_printed(void **state)
{
    set_options("strict", "ACLMEM_LOG=refusals");
    capture_stderr();
    assert_int_equal(run_self("begins"), 0);
    assert_int_equal(count(captured_stderr(), "aclrtFree: aclInit has not been called"),
                     1);
    start("default");
}

static void a_wrong_option_is_printed(void **state)
{
    set_options("strikt", "ACLMEM_LOG=refusals");
    capture_stderr();
    assert_int_equal(aclInit(NULL), ACL_ERROR_INVALID_PARAM);
    assert_int_equal(count(captured_stderr(), "aclInit: ACLMEM_RULES is \"strikt\""), 1);
    start("default");
}

/* A program may ignore the code, and then every call of it is refused. */
static void a_start_that_fails_says_why_at_every_level(void **state)
{
    const char *text;

    set_options("default", "ACLMEM_MEMORY=plenty");
    capture_stderr();
    assert_int_equal(aclInit(NULL), ACL_ERROR_INVALID_PARAM);
    assert_int_equal(aclrtSetDevice(0), ACL_ERROR_UNINITIALIZE);
    text = captured_stderr();
    assert_int_equal(count(text, "aclmem: warn: EH0001: aclInit: ACLMEM_MEMORY is "), 1);
    assert_int_equal(count(text, "\n"), 1);

    set_options("default", "ACLMEM_LOG=refusal"); /* the name of the level is refusals */
    capture_stderr();
    assert_int_equal(aclInit(NULL), ACL_ERROR_INVALID_PARAM);
    text = captured_stderr();
    assert_int_equal(count(text, "ACLMEM_LOG is \"refusal\"; it takes error|warn"), 1);

    set_options("default", "ACLMEM_LAYERS=chek");
    capture_stderr();
    assert_int_equal(aclInit(NULL), ACL_ERROR_INVALID_PARAM);
    text = captured_stderr();
    assert_int_equal(count(text, "there is no layer \"chek\"; it takes check, fail"), 1);
    assert_non_null(strstr(aclGetRecentErrMsg(), "chek")); /* as without the line */
}

static void a_process_that_just_exits_counts_too(void **state)
{
    const char *text;

    set_options("default", "ACLMEM_LOG=refusals");
    capture_stderr();
    assert_int_equal(run_self("exits"), 0);
    text = captured_stderr();
    assert_int_equal(count(text, "aclrtFree was refused 3 times in all"), 1);
    assert_int_equal(count(text, "\n"), 2);
    start("default");
}

static void a_child_counts_its_own(void **state)
{
    const char *text;

    set_options("default", "ACLMEM_LOG=refusals");
    capture_stderr();
    assert_int_equal(run_self("forks"), 0);
    text = captured_stderr();
    assert_int_equal(count(text, "aclrtFree was refused 3 times in all"), 1);
    assert_int_equal(count(text, "aclrtFree was refused 2 times in all"), 1);
    assert_int_equal(count(text, "\n"), 4);
    start("default");
}

/* In a process of its own. */
static int play(const char *role)
{
    int status = 0;
    pid_t child;

    if (strcmp(role, "begins") == 0)
        return refuse(4096) == ACL_ERROR_UNINITIALIZE ? 0 : 1;
    if (aclrtSetDevice(0) != ACL_SUCCESS)
        return 1;
    repeat(i, 3) refuse((i + 1) * 4096);
    if (strcmp(role, "forks") != 0)
        return 0;
    child = fork();
    if (child == 0) {
        repeat(i, 2) refuse(4096);
        exit(0);
    }
    return waitpid(child, &status, 0) == child && status == 0 ? 0 : 1;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest claims[] = {
        claim_alone(a_refusal_is_printed_once_for_a_place_and_counted),
        claim_alone(a_place_has_a_line_for_each_reason),
        claim_alone(other_levels_print_all_or_nothing),
        claim_alone(an_ordinary_answer_is_no_refusal),
        claim_alone(a_report_that_has_nothing_to_do_is_no_refusal),
        claim_alone(a_call_before_the_start_is_printed),
        claim_alone(a_wrong_option_is_printed),
        claim_alone(a_start_that_fails_says_why_at_every_level),
        claim_alone(a_process_that_just_exits_counts_too),
        claim_alone(a_child_counts_its_own),
    };

    return argc > 1 ? play(argv[1]) : run_claims(claims);
}
