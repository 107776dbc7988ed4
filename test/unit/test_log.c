/* The log: one line for an event, levels, and the count of warnings. */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/util.h"
#include "support/process.h"

static int quiet(void **state)
{
    am_log_set_level(AM_LOG_WARN);
    return 0;
}

static void a_line_has_the_level_and_the_text(void **state)
{
    am_log_set_level(AM_LOG_DEBUG);
    capture_stderr();
    am_log(AM_LOG_ERROR, "a %d", 1);
    am_log(AM_LOG_WARN, "b");
    am_log(AM_LOG_INFO, "c");
    am_log(AM_LOG_DEBUG, "%s", "100%");
    assert_string_equal(captured_stderr(), "aclmem: error: a 1\n"
                                           "aclmem: warn: b\n"
                                           "aclmem: info: c\n"
                                           "aclmem: debug: 100%\n");
}

/* A path, or the name of another process. */
static void a_text_from_outside_does_not_play_with_the_terminal(void **state)
{
    capture_stderr();
    am_log(AM_LOG_WARN, "%s is wrong", "\33[31m\nx");
    assert_string_equal(captured_stderr(), "aclmem: warn: ?[31m?x is wrong\n");
}

static void a_level_shows_itself_and_what_is_graver(void **state)
{
    for (int level = AM_LOG_ERROR; level <= AM_LOG_DEBUG; level++) {
        const char *text;
        int n_lines = 0;

        am_log_set_level((enum am_log_level)level);
        capture_stderr();
        for (int event = AM_LOG_ERROR; event <= AM_LOG_DEBUG; event++)
            am_log((enum am_log_level)event, "x");
        for (text = captured_stderr(); *text != '\0'; text++)
            n_lines += *text == '\n';
        assert_int_equal(n_lines, level + 1);
    }
}

static void warnings_are_counted_whether_they_are_shown_or_not(void **state)
{
    uint64_t before = am_log_warnings();

    am_log_set_level(AM_LOG_ERROR);
    capture_stderr();
    am_log(AM_LOG_DEBUG, "x");
    am_log(AM_LOG_INFO, "x");
    assert_int_equal(am_log_warnings() - before, 0);
    am_log(AM_LOG_WARN, "x");
    assert_int_equal(am_log_warnings() - before, 1);
    am_log(AM_LOG_ERROR, "x");
    assert_int_equal(am_log_warnings() - before, 2);
    assert_string_equal(captured_stderr(), "aclmem: error: x\n");
}

/* Around the length at which a line is cut, every length ends in one newline. */
static void a_long_text_is_one_line_of_at_most_a_kilobyte(void **state)
{
    static char text[3000];

    memset(text, 'x', sizeof text - 1);
    for (int n = 990; n < 1050; n++) {
        const char *line;

        capture_stderr();
        am_log(AM_LOG_WARN, "%.*s", n, text);
        line = captured_stderr();
        assert_true(strlen(line) <= 1024);
        assert_ptr_equal(strchr(line, '\n'), line + strlen(line) - 1);
        assert_int_equal(strspn(line + strlen("aclmem: warn: "), "x"),
                         strlen(line) - strlen("aclmem: warn: ") - 1);
    }
}

static void a_line_can_say_errno(void **state)
{
    capture_stderr();
    errno = EPERM;
    am_log(AM_LOG_WARN, "mbind: %m");
    assert_string_equal(captured_stderr(),
                        "aclmem: warn: mbind: Operation not permitted\n");
}

static void without_standard_error_nothing_is_said_and_nothing_breaks(void **state)
{
    int kept = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);

    assert_true(kept >= 0);
    close(STDERR_FILENO);
    am_log(AM_LOG_WARN, "to nobody");
    dup2(kept, STDERR_FILENO);
    close(kept);
}

#define N_LINES 50

static const char *write_lines(struct worker *self)
{
    for (int i = 0; i < N_LINES; i++)
        am_log(AM_LOG_WARN, "%c%c%c%c%c%c%c%c", 'a' + (int)self->index,
               'a' + (int)self->index, 'a' + (int)self->index, 'a' + (int)self->index,
               'a' + (int)self->index, 'a' + (int)self->index, 'a' + (int)self->index,
               'a' + (int)self->index);
    return NULL;
}

static void lines_of_several_threads_do_not_mix(void **state)
{
    static const char head[] = "aclmem: warn: ";
    struct worker workers[4];
    const char *line;
    int n_lines = 0;

    for (unsigned i = 0; i < 4; i++)
        workers[i] = (struct worker){.run = write_lines};
    capture_stderr();
    fcntl(STDERR_FILENO, F_SETFL, O_APPEND); /* a memfd's position knows no lock */
    assert_null(run_workers(workers, 4));
    for (line = captured_stderr(); *line != '\0'; line += strlen(head) + 9) {
        const char *text = line + strlen(head);
        char one[2] = {text[0], '\0'};

        assert_int_equal(strncmp(line, head, strlen(head)), 0);
        assert_int_equal(strspn(text, one), 8);
        assert_int_equal(text[8], '\n');
        n_lines++;
    }
    assert_int_equal(n_lines, 4 * N_LINES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define claim_here(f_) cmocka_unit_test_setup_teardown(f_, quiet, quiet)
        claim_here(a_line_has_the_level_and_the_text),
        claim_here(a_text_from_outside_does_not_play_with_the_terminal),
        claim_here(a_level_shows_itself_and_what_is_graver),
        claim_here(warnings_are_counted_whether_they_are_shown_or_not),
        claim_here(a_long_text_is_one_line_of_at_most_a_kilobyte),
        claim_here(a_line_can_say_errno),
        claim_here(without_standard_error_nothing_is_said_and_nothing_breaks),
        claim_here(lines_of_several_threads_do_not_mix),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
