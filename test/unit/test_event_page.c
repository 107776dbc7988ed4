/*
 * The page behind events and notifies that processes share.  Two that have joined one
 * page in this process are as separate as two processes: each has the file open by itself.
 */
#include "unit.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "core/stream/event_page.h"
#include "support/support.h"

static struct am_event_page *a; /* who made it */
static struct am_event_page *b; /* who joined */

static uint64_t record(struct am_event_page *page)
{
    uint64_t number;

    assert_acl_ok(am_event_page_record(page, &number));
    return number;
}

static enum am_event_page_state look(struct am_event_page *page, uint64_t number)
{
    aclError code;

    return am_event_page_query(page, number, &code);
}

/* Whether somebody is dead is looked at every so often only. */
static enum am_event_page_state look_until_told(struct am_event_page *page,
                                                uint64_t number)
{
    enum am_event_page_state state;

    do
        state = look(page, number);
    while (state == AM_EVENT_PAGE_TO_COME);
    return state;
}

static void records_are_numbered_over_all(void **state)
{
    assert_int_equal(am_event_page_latest(b), 0);
    assert_int_equal(record(a), 1);
    assert_int_equal(record(b), 2);
    assert_int_equal(record(a), 3);
    assert_int_equal(am_event_page_latest(b), 3);
}

static void a_record_is_to_come_until_it_has_run(void **state)
{
    uint64_t number = record(a);

    assert_int_equal(look(a, 0), AM_EVENT_PAGE_DONE);
    assert_int_equal(look(b, number), AM_EVENT_PAGE_TO_COME);
    am_event_page_recorded(a, number, ACL_SUCCESS);
    assert_int_equal(look(b, number), AM_EVENT_PAGE_DONE);
    assert_int_equal(look(a, number), AM_EVENT_PAGE_DONE);
}

static void a_later_record_of_another_does_not_stand_for_an_earlier_one(void **state)
{
    uint64_t first = record(a);
    uint64_t second = record(b);

    am_event_page_recorded(b, second, ACL_SUCCESS);
    assert_int_equal(look(b, second), AM_EVENT_PAGE_DONE);
    assert_int_equal(look(b, first), AM_EVENT_PAGE_TO_COME);
    am_event_page_recorded(a, first, ACL_SUCCESS);
    assert_int_equal(look(b, first), AM_EVENT_PAGE_DONE);
}

static void a_failure_is_told_with_its_code(void **state)
{
    uint64_t number = record(a);
    aclError code = ACL_SUCCESS;

    am_event_page_recorded(a, number, ACL_ERROR_RT_PARAM_INVALID);
    assert_int_equal(am_event_page_query(b, number, &code), AM_EVENT_PAGE_FAILED);
    assert_int_equal(code, ACL_ERROR_RT_PARAM_INVALID);
    number = record(a);
    am_event_page_recorded(a, number, ACL_SUCCESS);
    assert_int_equal(look(b, number), AM_EVENT_PAGE_DONE);
}

/* All that had been queued may fail at once, before anybody looks. */
static void each_of_many_failures_is_told(void **state)
{
    uint64_t first = record(a);
    aclError code = ACL_SUCCESS;

    for (int i = 1; i < AM_EVENT_PAGE_RECORDS; i++)
        record(a);
    for (int i = 0; i < AM_EVENT_PAGE_RECORDS; i++)
        am_event_page_recorded(a, first + (uint64_t)i, ACL_ERROR_RT_STREAM_ABORT);
    for (int i = 0; i < AM_EVENT_PAGE_RECORDS; i++) {
        assert_int_equal(am_event_page_query(b, first + (uint64_t)i, &code),
                         AM_EVENT_PAGE_FAILED);
        assert_int_equal(code, ACL_ERROR_RT_STREAM_ABORT);
    }
}

/* A process may end after it has entered a record, and before it has counted it. */
static void a_record_that_was_not_counted_is_counted_by_the_next(void **state)
{
    uint64_t *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED,
                          am_event_page_descriptor(b), 0);

    assert_ptr_not_equal(page, MAP_FAILED);
    assert_int_equal(record(b), 1);
    page[1] = 0;
    assert_int_equal(record(a), 2);
    assert_int_equal(am_event_page_latest(b), 2);
    memset(page + 1, 0xff, 4088); /* what another process writes ends no caller */
    assert_acl(am_event_page_record(a, &(uint64_t){0}), ACL_ERROR_RT_RESOURCE_ALLOC_FAIL);
    munmap(page, 4096);
}

static void what_one_leaves_behind_is_lost(void **state)
{
    uint64_t ran = record(a);
    uint64_t left = record(a);

    am_event_page_recorded(a, ran, ACL_SUCCESS);
    am_event_page_leave(a);
    a = NULL;
    assert_int_equal(look_until_told(b, left), AM_EVENT_PAGE_LOST);
    assert_int_equal(look(b, ran), AM_EVENT_PAGE_DONE);
}

/* The role of a process that is killed with a record in the list. */
static int die_with_a_record(int fd)
{
    struct am_event_page *page;
    uint64_t number;

    if (am_event_page_join(fd, &page) != ACL_SUCCESS ||
        am_event_page_record(page, &number) != ACL_SUCCESS)
        return 1;
    kill(getpid(), SIGKILL);
    return 1;
}

/* A process that dies with record 1. */
static void kill_one(void)
{
    const char *text;
    char role[16];
    int status;

    fcntl(am_event_page_descriptor(a), F_SETFD, 0);
    snprintf(role, sizeof role, "%d", am_event_page_descriptor(a));
    status = child_run(role, &text);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    fcntl(am_event_page_descriptor(a), F_SETFD, FD_CLOEXEC);
    assert_int_equal(am_event_page_latest(b), 1);
}

static void what_a_killed_process_had_queued_is_lost(void **state)
{
    kill_one();
    assert_int_equal(look_until_told(b, 1), AM_EVENT_PAGE_LOST);
}

/* A process that gets the place of a dead one in the page does not own its leftovers. */
static void an_heir_does_not_own_what_is_left(void **state)
{
    struct am_event_page *heir;

    kill_one();
    assert_acl_ok(am_event_page_join(am_event_page_descriptor(a), &heir));
    assert_int_equal(look(heir, 1), AM_EVENT_PAGE_LOST);
    assert_int_equal(look(a, 1), AM_EVENT_PAGE_LOST);
    am_event_page_leave(heir);
}

static void too_many_records_are_refused_until_one_has_run(void **state)
{
    uint64_t numbers[AM_EVENT_PAGE_RECORDS];
    uint64_t more;

    for (int i = 0; i < AM_EVENT_PAGE_RECORDS; i++)
        numbers[i] = record(i % 2 ? b : a);
    assert_acl(am_event_page_record(a, &more), ACL_ERROR_RT_RESOURCE_ALLOC_FAIL);
    am_event_page_recorded(a, numbers[0], ACL_SUCCESS);
    assert_int_equal(record(b), AM_EVENT_PAGE_RECORDS + 1);
}

static void records_of_the_dead_make_room(void **state)
{
    for (int i = 0; i < AM_EVENT_PAGE_RECORDS; i++)
        record(b);
    am_event_page_leave(b);
    b = NULL;
    assert_int_equal(record(a), AM_EVENT_PAGE_RECORDS + 1);
    am_event_page_recorded(a, AM_EVENT_PAGE_RECORDS + 1, ACL_SUCCESS);
    for (uint64_t i = 2; i <= AM_EVENT_PAGE_RECORDS; i++) /* which did not run for that */
        assert_int_equal(look_until_told(a, i), AM_EVENT_PAGE_LOST);
    assert_int_equal(look(a, AM_EVENT_PAGE_RECORDS + 1), AM_EVENT_PAGE_DONE);
}

static void one_of_two_takes_the_bit(void **state)
{
    assert_false(am_event_page_take(a));
    am_event_page_set(a, true);
    assert_true(am_event_page_take(b));
    assert_false(am_event_page_take(a));
    assert_false(am_event_page_take(b));
}

static void sixty_four_have_it_at_most(void **state)
{
    struct am_event_page *more[62];
    struct am_event_page *last;

    for (int i = 0; i < 62; i++)
        assert_acl_ok(am_event_page_join(am_event_page_descriptor(a), &more[i]));
    assert_acl(am_event_page_join(am_event_page_descriptor(a), &last),
               ACL_ERROR_RT_RESOURCE_ALLOC_FAIL);
    am_event_page_leave(more[30]);
    assert_acl_ok(am_event_page_join(am_event_page_descriptor(a), &more[30]));
    for (int i = 0; i < 62; i++)
        am_event_page_leave(more[i]);
}

/* A descriptor comes from another process, and may show anything. */
static void another_file_is_refused(void **state)
{
    struct am_event_page *page;
    int open_ended = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    int other = open("/dev/zero", O_RDWR | O_CLOEXEC);

    assert_acl(am_event_page_join(other, &page), ACL_ERROR_RT_IPC_ERROR);
    assert_int_equal(ftruncate(open_ended, 4096), 0);
    assert_acl(am_event_page_join(open_ended, &page), ACL_ERROR_RT_IPC_ERROR);
    assert_int_equal(fcntl(open_ended, F_ADD_SEALS, F_SEAL_SHRINK), 0);
    assert_acl(am_event_page_join(open_ended, &page),
               ACL_ERROR_RT_IPC_ERROR); /* no magic */
    close(open_ended);
    close(other);
}

static void no_failure_leaves_a_descriptor(void **state)
{
    struct am_event_page *page;
    size_t before = open_descriptors();

    /* A failure would raise it otherwise, and the call would succeed. */
    am_limit_raise(RLIMIT_NOFILE);
    for_each_fault (n) {
        aclError rc = am_event_page_join(am_event_page_descriptor(a), &page);

        assert_int_equal(rc == ACL_SUCCESS, !am_fault_fired());
        if (rc == ACL_SUCCESS)
            am_event_page_leave(page);
        assert_int_equal(open_descriptors(), before);
    }
    for_each_fault (n) {
        aclError rc = am_event_page_make(&page);

        assert_int_equal(rc == ACL_SUCCESS, !am_fault_fired());
        if (rc == ACL_SUCCESS)
            am_event_page_leave(page);
        assert_int_equal(open_descriptors(), before);
    }
}

static int begin(void **state)
{
    assert_acl_ok(am_event_page_make(&a));
    assert_acl_ok(am_event_page_join(am_event_page_descriptor(a), &b));
    return 0;
}

static int end(void **state)
{
    if (a != NULL)
        am_event_page_leave(a);
    if (b != NULL)
        am_event_page_leave(b);
    return 0;
}

#define one(f_) cmocka_unit_test_setup_teardown(f_, begin, end)

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        one(records_are_numbered_over_all),
        one(a_record_is_to_come_until_it_has_run),
        one(a_later_record_of_another_does_not_stand_for_an_earlier_one),
        one(a_failure_is_told_with_its_code),
        one(each_of_many_failures_is_told),
        one(a_record_that_was_not_counted_is_counted_by_the_next),
        one(what_one_leaves_behind_is_lost),
        one(what_a_killed_process_had_queued_is_lost),
        one(an_heir_does_not_own_what_is_left),
        one(too_many_records_are_refused_until_one_has_run),
        one(records_of_the_dead_make_room),
        one(one_of_two_takes_the_bit),
        one(sixty_four_have_it_at_most),
        one(another_file_is_refused),
        one(no_failure_leaves_a_descriptor),
    };

    if (argc == 2)
        return die_with_a_record(atoi(argv[1]));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
