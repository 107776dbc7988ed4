/* Messages: their form, their order, who gets them, and that many of them fit. */
#include "unit.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "acl/acl_base.h"
#include "acl/error_codes/rt_error_codes.h"
#include "aclnn/acl_meta.h"
#include "base/error.h"
#include "base/log.h"
#include "base/util.h"
#include "support/process.h"

#define MESSAGES_SIZE 4096 /* of all that is kept */
#define MESSAGE_SIZE 1024  /* of one */

static int forget(void **state)
{
    am_error_share_messages(true);
    am_error_take_messages();
    am_error_share_messages(false);
    am_error_take_messages();
    am_error_last(true);
    am_error_function = NULL;
    return 0;
}

static const struct {
    int code;
    const char *name;
    const char *prefix;
} rows[] = {
#define AM_ERROR(name_, prefix_) {name_, #name_, prefix_},
#include "base/errors.def"
#undef AM_ERROR
};

static void every_code_has_its_name_once(void **state)
{
    for (size_t i = 0; i < AM_ARRAY_SIZE(rows); i++) {
        assert_string_equal(am_error_name(rows[i].code), rows[i].name);
        for (size_t k = 0; k < i; k++)
            assert_int_not_equal(rows[i].code, rows[k].code);
    }
    assert_null(am_error_name(0));
    assert_null(am_error_name(-1));
    assert_null(am_error_name(999999));
}

static void every_message_has_prefix_function_text_code_and_name(void **state)
{
    char expected[256];

    am_error_function = "aclrtMapMem";
    for (size_t i = 0; i < AM_ARRAY_SIZE(rows); i++) {
        assert_int_equal(am_fail(rows[i].code, "size is %d", 3), rows[i].code);
        snprintf(expected, sizeof expected, "%s: aclrtMapMem: size is 3 [%d %s]",
                 rows[i].prefix, rows[i].code, rows[i].name);
        assert_string_equal(am_error_take_messages(), expected);
    }
}

static void every_prefix_is_of_a_documented_family(void **state)
{
    for (size_t i = 0; i < AM_ARRAY_SIZE(rows); i++) {
        const char *p = rows[i].prefix;

        assert_int_equal(strlen(p), 6);
        assert_true(strncmp(p, "EH", 2) == 0 || strncmp(p, "EE", 2) == 0 ||
                    strncmp(p, "EL", 2) == 0);
        for (int k = 2; k < 6; k++)
            assert_true(isdigit((unsigned char)p[k]));
    }
}

/* Clients look for either of the two to tell that memory ran out. */
static void out_of_memory_is_el0004(void **state)
{
    am_error_report(ACL_ERROR_RT_MEMORY_ALLOCATION, "x");
    assert_int_equal(strncmp(am_error_take_messages(), "EL0004", 6), 0);
}

static void a_code_without_a_row_and_a_call_without_a_name_are_said_too(void **state)
{
    am_error_report(123, "x");
    assert_string_equal(am_error_take_messages(), "EE9999: x [123 unknown]");
}

static void the_newest_message_comes_first(void **state)
{
    am_error_report(ACL_ERROR_INVALID_PARAM, "first");
    am_error_report(ACL_ERROR_RT_PARAM_INVALID, "second");
    am_error_report(ACL_ERROR_RT_PARAM_INVALID, "third");
    assert_string_equal(am_error_take_messages(),
                        "EE1001: third [107000 ACL_ERROR_RT_PARAM_INVALID]\n"
                        "EE1001: second [107000 ACL_ERROR_RT_PARAM_INVALID]\n"
                        "EH0001: first [100000 ACL_ERROR_INVALID_PARAM]");
}

static void messages_are_taken_once(void **state)
{
    assert_null(am_error_take_messages());
    am_error_report(ACL_ERROR_INVALID_PARAM, "once");
    assert_non_null(am_error_take_messages());
    assert_null(am_error_take_messages());
}

static void what_was_taken_stays_while_new_failures_come(void **state)
{
    const char *taken;

    am_error_report(ACL_ERROR_INVALID_PARAM, "old");
    taken = am_error_take_messages();
    for (int i = 0; i < 100; i++)
        am_error_report(ACL_ERROR_INVALID_PARAM, "new %d", i);
    assert_string_equal(taken, "EH0001: old [100000 ACL_ERROR_INVALID_PARAM]");
}

static void the_last_code_is_kept_until_it_is_cleared(void **state)
{
    assert_int_equal(am_error_last(false), 0);
    am_error_report(ACL_ERROR_INVALID_PARAM, "x");
    am_error_report(ACL_ERROR_RT_PARAM_INVALID, "y");
    assert_int_equal(am_error_last(false), ACL_ERROR_RT_PARAM_INVALID);
    assert_int_equal(am_error_last(true), ACL_ERROR_RT_PARAM_INVALID);
    assert_int_equal(am_error_last(true), 0);
    assert_non_null(am_error_take_messages()); /* they are two things */
}

static void a_failure_leaves_errno_alone_and_can_say_it(void **state)
{
    int kept = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);

    assert_true(kept >= 0);
    close(STDERR_FILENO); /* so that the line of the log fails, and sets errno */
    am_log_set_level(AM_LOG_DEBUG);
    errno = ENOSPC;
    am_error_report(ACL_ERROR_INVALID_PARAM, "ftruncate: %m");
    assert_int_equal(errno, ENOSPC);
    am_log_set_level(AM_LOG_WARN);
    dup2(kept, STDERR_FILENO);
    close(kept);
    assert_contains(am_error_take_messages(), "ftruncate: No space left on device");
}

static void a_long_text_is_cut_and_the_code_is_still_there(void **state)
{
    static char text[100000];
    const char *message;

    memset(text, 'x', sizeof text - 1);
    am_error_function =
        "aclrtMemGetAllocationPropertiesFromHandle"; /* the longest name */
    am_error_report(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "%s", text);
    message = am_error_take_messages();
    assert_true(strlen(message) < MESSAGE_SIZE);
    assert_contains(message, "xxx [207000 ACL_ERROR_RT_FEATURE_NOT_SUPPORT]");
}

/* Every length, so that the room left for the oldest has every size. */
static void any_number_of_messages_fits(void **state)
{
    static char text[900];
    const char *messages;

    memset(text, 'x', sizeof text - 1);
    for (int n = 0; n < 900; n++) {
        am_error_report(ACL_ERROR_INVALID_PARAM, "%d %.*s", n, n, text);
        am_error_report(ACL_ERROR_INVALID_PARAM, "%d %.*s", n, 899 - n, text);
    }
    am_error_report(ACL_ERROR_INVALID_PARAM, "newest");
    messages = am_error_take_messages();
    assert_true(strlen(messages) < MESSAGES_SIZE);
    assert_true(strlen(messages) > MESSAGES_SIZE - 2 * MESSAGE_SIZE);
    assert_int_equal(messages[strlen(messages) - 1], ']'); /* the oldest fall off whole */
    assert_int_equal(strncmp(messages, "EH0001: newest [100000 ", 23), 0);
    assert_null(am_error_take_messages());
}

static const char *fail_alone(struct worker *self)
{
    worker_check(am_error_take_messages() == NULL);
    worker_check(am_error_last(false) == 0);
    am_error_report(ACL_ERROR_INVALID_PARAM, "theirs");
    worker_check(am_error_last(false) == ACL_ERROR_INVALID_PARAM);
    worker_check(strcmp(am_error_take_messages(),
                        "EH0001: theirs [100000 ACL_ERROR_INVALID_PARAM]") == 0);
    am_error_report(ACL_ERROR_INVALID_PARAM, "left behind");
    return NULL;
}

static void a_thread_has_its_own_messages_and_its_own_last_code(void **state)
{
    const char *failure;

    am_error_report(ACL_ERROR_RT_PARAM_INVALID, "mine");
    failure = run_thread(fail_alone, NULL);
    if (failure != NULL)
        fail_msg("%s", failure);
    assert_int_equal(am_error_last(false), ACL_ERROR_RT_PARAM_INVALID);
    assert_string_equal(am_error_take_messages(),
                        "EE1001: mine [107000 ACL_ERROR_RT_PARAM_INVALID]");
}

static const char *fail_once(struct worker *self)
{
    am_error_report(ACL_ERROR_INVALID_PARAM, "thread %u", self->index);
    return NULL;
}

static void in_shared_mode_one_thread_takes_the_messages_of_all(void **state)
{
    struct worker workers[4] = {
        {.run = fail_once}, {.run = fail_once}, {.run = fail_once}, {.run = fail_once}};
    const char *messages;
    char words[32];

    am_error_share_messages(true);
    assert_null(run_workers(workers, 4));
    messages = am_error_take_messages();
    for (int i = 0; i < 4; i++) {
        snprintf(words, sizeof words, "EH0001: thread %d [100000", i);
        assert_contains(messages, words);
    }
    assert_null(am_error_take_messages());
    assert_int_equal(am_error_last(false), 0); /* the last code stays the thread's */
}

/*
 * Four threads fail and take at once; every line that comes out is whole and comes out
 * once.
 */
static atomic_int n_taken;

static const char *fail_and_take(struct worker *self)
{
    static const char head[] = "EH0001: thread ";
    static const char tail[] = " [100000 ACL_ERROR_INVALID_PARAM]";

    for (int i = 0; i < 500; i++) {
        char copy[MESSAGES_SIZE];
        const char *text;
        char *rest = copy;
        char *line;

        am_error_report(ACL_ERROR_INVALID_PARAM, "thread %u", self->index);
        text = am_error_take_messages();
        if (text == NULL)
            continue;
        snprintf(copy, sizeof copy, "%s", text);
        while ((line = strsep(&rest, "\n")) != NULL) {
            size_t n = strlen(line);

            worker_check(n == strlen(head) + 1 + strlen(tail));
            worker_check(strncmp(line, head, strlen(head)) == 0);
            worker_check(strcmp(line + n - strlen(tail), tail) == 0);
            n_taken++;
        }
    }
    return NULL;
}

static void shared_messages_are_neither_torn_nor_lost_nor_doubled(void **state)
{
    struct worker workers[4] = {{.run = fail_and_take},
                                {.run = fail_and_take},
                                {.run = fail_and_take},
                                {.run = fail_and_take}};
    const char *failure;

    n_taken = 0;
    am_error_share_messages(true);
    failure = run_workers(workers, 4);
    if (failure != NULL)
        fail_msg("%s", failure);
    assert_null(am_error_take_messages());
    assert_int_equal(n_taken, 4 * 500);
}

static const char *fail_without_memory(struct worker *self)
{
    const char *message;
    int code;

    am_fault_arm(1, true); /* this thread has no buffer yet */
    code = am_fail(ACL_ERROR_RT_PARAM_INVALID, "lost");
    am_fault_disarm();
    worker_check(am_fault_fired());
    worker_check(code == ACL_ERROR_RT_PARAM_INVALID);
    worker_check(am_error_last(false) == ACL_ERROR_RT_PARAM_INVALID);
    message = am_error_take_messages();
    worker_check(message != NULL && strncmp(message, "EH0010: ", 8) == 0);
    worker_check(strstr(message, "no host memory") != NULL);
    worker_check(am_error_take_messages() == NULL);

    am_error_report(ACL_ERROR_INVALID_PARAM, "kept");
    message = am_error_take_messages();
    worker_check(message != NULL && strstr(message, "kept") != NULL);
    return NULL;
}

static void without_memory_the_code_is_right_and_the_loss_is_said_once(void **state)
{
    const char *failure = run_thread(fail_without_memory, NULL);

    if (failure != NULL)
        fail_msg("%s", failure);
}

/*
 * A child's role: the program has used up all keys, and has something of its own under
 * each.
 */
static int fail_without_keys(void)
{
    static char theirs[2 * MESSAGES_SIZE] = "theirs";
    pthread_key_t key;
    const char *message;

    while (pthread_key_create(&key, NULL) == 0)
        pthread_setspecific(key, theirs);
    am_error_report(ACL_ERROR_RT_PARAM_INVALID, "lost");
    message = am_error_take_messages();
    printf("%d %s\n", am_error_last(false), message ? message : "(none)");
    printf("%s\n", theirs);
    return 0;
}

static void without_a_key_the_code_is_right_and_the_program_keeps_its_own(void **state)
{
    const char *text;
    int status = child_run("no keys", &text);

    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        fail_msg("status 0x%x: %s", status, text);
    assert_contains(text, "107000 EH0010: ");
    assert_contains(text, "\ntheirs\n");
}

static int n_evaluated;

static int require_positive(int x)
{
    AM_REQUIRE(x > 0, ACL_ERROR_INVALID_PARAM, "x is %d", x);
    n_evaluated++;
    return 0;
}

static void what_is_required_returns_when_it_does_not_hold(void **state)
{
    assert_int_equal(require_positive(1), 0);
    assert_int_equal(n_evaluated, 1);
    assert_null(am_error_take_messages());
    assert_int_equal(require_positive(-1), ACL_ERROR_INVALID_PARAM);
    assert_int_equal(n_evaluated, 1);
    assert_contains(am_error_take_messages(), "x is -1");
}

/* A pool looks for a block, and the scheduler looks after a lane meanwhile. */
static void a_capture_within_a_capture_gives_back_to_it(void **state)
{
    char inner[128] = "";
    char outer[128] = "";
    struct am_capture before = am_error_capture(outer, sizeof outer);
    struct am_capture between = am_error_capture(inner, sizeof inner);

    am_error_report(ACL_ERROR_INVALID_PARAM, "first");
    am_error_capture_end(between);
    am_error_report(ACL_ERROR_INVALID_PARAM, "second");
    am_error_capture_end(before);
    assert_contains(inner, "first");
    assert_contains(outer, "second");
    assert_null(am_error_take_messages());
    assert_int_equal(am_error_last(false), 0);

    am_error_report(ACL_ERROR_INVALID_PARAM, "third");
    assert_contains(am_error_take_messages(), "third");
    assert_contains(outer, "second");
}

static void the_words_of_a_captured_message_are_those_of_the_failure(void **state)
{
    char text[128] = "";
    char cut[40] = "";
    struct am_capture before = am_error_capture(text, sizeof text);

    am_error_report(ACL_ERROR_INVALID_PARAM, "size [2] is 0: not a size");
    assert_string_equal(am_error_text(text), "size [2] is 0: not a size");
    am_error_function = "aclrtMapMem";
    am_error_report(ACL_ERROR_INVALID_PARAM, "size is 0");
    assert_string_equal(am_error_text(text), "size is 0");
    am_error_capture(cut, sizeof cut);
    am_error_report(ACL_ERROR_INVALID_PARAM, "a text that is longer than its place");
    assert_string_equal(am_error_text(cut), "a text that is lon");
    am_error_capture_end(before);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
#define afresh(f_) cmocka_unit_test_setup_teardown(f_, forget, forget)
        afresh(every_code_has_its_name_once),
        afresh(every_message_has_prefix_function_text_code_and_name),
        afresh(every_prefix_is_of_a_documented_family),
        afresh(out_of_memory_is_el0004),
        afresh(a_code_without_a_row_and_a_call_without_a_name_are_said_too),
        afresh(the_newest_message_comes_first),
        afresh(messages_are_taken_once),
        afresh(what_was_taken_stays_while_new_failures_come),
        afresh(the_last_code_is_kept_until_it_is_cleared),
        afresh(a_failure_leaves_errno_alone_and_can_say_it),
        afresh(a_long_text_is_cut_and_the_code_is_still_there),
        afresh(any_number_of_messages_fits),
        afresh(a_thread_has_its_own_messages_and_its_own_last_code),
        afresh(in_shared_mode_one_thread_takes_the_messages_of_all),
        afresh(shared_messages_are_neither_torn_nor_lost_nor_doubled),
        afresh(without_memory_the_code_is_right_and_the_loss_is_said_once),
        afresh(without_a_key_the_code_is_right_and_the_program_keeps_its_own),
        afresh(what_is_required_returns_when_it_does_not_hold),
        afresh(a_capture_within_a_capture_gives_back_to_it),
        afresh(the_words_of_a_captured_message_are_those_of_the_failure),
    };

    if (argc > 1)
        return fail_without_keys();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
