/*
 * The page behind events and notifies that processes share.  Two that have joined one
 * page in this process are as separate as two processes: each has the file open by itself.
 */
#include "unit.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/stream/cell.h"
#include "support/support.h"

static struct am_cell *a; /* who made it */
static struct am_cell *b; /* who joined */

static uint64_t record(struct am_cell *cell)
{
    int place;

    assert_acl_ok(am_cell_claim(cell, &place));
    return am_cell_record(cell, place);
}

static enum am_cell_state look(struct am_cell *cell, uint64_t number)
{
    aclError code;

    return am_cell_look(cell, number, &code);
}

/* Whether somebody is dead is looked at every so often only. */
static enum am_cell_state look_until_told(struct am_cell *cell, uint64_t number)
{
    enum am_cell_state state;

    do
        state = look(cell, number);
    while (state == AM_CELL_TO_COME);
    return state;
}

static void records_are_numbered_over_all(void **state)
{
    assert_int_equal(am_cell_latest(b), 0);
    assert_int_equal(record(a), 1);
    assert_int_equal(record(b), 2);
    assert_int_equal(record(a), 3);
    assert_int_equal(am_cell_latest(b), 3);
}

static void a_record_is_to_come_until_it_has_run(void **state)
{
    uint64_t number = record(a);

    assert_int_equal(look(a, 0), AM_CELL_DONE);
    assert_int_equal(look(b, number), AM_CELL_TO_COME);
    am_cell_recorded(a, number, ACL_SUCCESS);
    assert_int_equal(look(b, number), AM_CELL_DONE);
    assert_int_equal(look(a, number), AM_CELL_DONE);
}

static void a_later_record_of_another_does_not_stand_for_an_earlier_one(void **state)
{
    uint64_t first = record(a);
    uint64_t second = record(b);

    am_cell_recorded(b, second, ACL_SUCCESS);
    assert_int_equal(look(b, second), AM_CELL_DONE);
    assert_int_equal(look(b, first), AM_CELL_TO_COME);
    am_cell_recorded(a, first, ACL_SUCCESS);
    assert_int_equal(look(b, first), AM_CELL_DONE);
}

static void a_failure_is_told_with_its_code(void **state)
{
    uint64_t number = record(a);
    aclError code = ACL_SUCCESS;

    am_cell_recorded(a, number, ACL_ERROR_RT_PARAM_INVALID);
    assert_int_equal(am_cell_look(b, number, &code), AM_CELL_FAILED);
    assert_int_equal(code, ACL_ERROR_RT_PARAM_INVALID);
    number = record(a);
    am_cell_recorded(a, number, ACL_SUCCESS);
    assert_int_equal(look(b, number), AM_CELL_DONE);
}

/* All that had been queued may fail at once, before anybody looks. */
static void each_of_many_failures_is_told(void **state)
{
    uint64_t first = record(a);
    aclError code = ACL_SUCCESS;

    for (int i = 1; i < AM_CELL_RECORDS; i++)
        record(a);
    for (int i = 0; i < AM_CELL_RECORDS; i++)
        am_cell_recorded(a, first + (uint64_t)i, ACL_ERROR_RT_STREAM_ABORT);
    for (int i = 0; i < AM_CELL_RECORDS; i++) {
        assert_int_equal(am_cell_look(b, first + (uint64_t)i, &code), AM_CELL_FAILED);
        assert_int_equal(code, ACL_ERROR_RT_STREAM_ABORT);
    }
}

/*
 * Writes into the page what it holds while the other one begins a record that has no
 * number yet: the entry of a record of its own, without the number.
 */
static void begin_a_record(void)
{
    uint64_t number = record(b);
    uint64_t *page =
        mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, am_cell_descriptor(b), 0);
    size_t i = 5; /* behind what counts records */

    assert_ptr_not_equal(page, MAP_FAILED);
    while (i < 4096 / sizeof *page && page[i] >> 8 != number)
        i++;
    assert_true(i < 4096 / sizeof *page);
    page[i] &= 0xff;
    munmap(page, 4096);
}

/* Who was told that it is over asks how it ended, and is not told to wait again. */
static void what_is_over_stays_so_while_another_record_begins(void **state)
{
    uint64_t done = record(a);
    uint64_t failed = record(a);
    aclError code = ACL_SUCCESS;

    am_cell_recorded(a, done, ACL_SUCCESS);
    am_cell_recorded(a, failed, ACL_ERROR_RT_PARAM_INVALID);
    assert_int_equal(look(a, done), AM_CELL_DONE);
    assert_int_equal(look(b, failed), AM_CELL_FAILED);
    begin_a_record();
    assert_int_equal(look(a, done), AM_CELL_DONE);
    assert_int_equal(am_cell_look(b, failed, &code), AM_CELL_FAILED);
    assert_int_equal(code, ACL_ERROR_RT_PARAM_INVALID);
    assert_int_equal(look(a, failed), AM_CELL_TO_COME); /* which nobody had seen there */
}

static void what_one_leaves_behind_is_lost(void **state)
{
    uint64_t ran = record(a);
    uint64_t left = record(a);

    am_cell_recorded(a, ran, ACL_SUCCESS);
    am_cell_leave(a);
    a = NULL;
    assert_int_equal(look_until_told(b, left), AM_CELL_LOST);
    assert_int_equal(look(b, ran), AM_CELL_DONE);
}

/* The role of a process that is killed with a record in the list. */
static int die_with_a_record(int fd)
{
    struct am_cell *cell;
    int place;

    if (am_cell_join(fd, &cell) != ACL_SUCCESS ||
        am_cell_claim(cell, &place) != ACL_SUCCESS)
        return 1;
    am_cell_record(cell, place);
    kill(getpid(), SIGKILL);
    return 1;
}

/* A process that dies with record 1. */
static void kill_one(void)
{
    const char *text;
    char role[16];
    int status;

    fcntl(am_cell_descriptor(a), F_SETFD, 0);
    snprintf(role, sizeof role, "%d", am_cell_descriptor(a));
    status = child_run(role, &text);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    fcntl(am_cell_descriptor(a), F_SETFD, FD_CLOEXEC);
    assert_int_equal(am_cell_latest(b), 1);
}

static void what_a_killed_process_had_queued_is_lost(void **state)
{
    kill_one();
    assert_int_equal(look_until_told(b, 1), AM_CELL_LOST);
}

/* Who gets a dead one's place in the page does not own what that one left. */
static void an_heir_does_not_own_what_is_left(void **state)
{
    struct am_cell *heir;

    kill_one();
    assert_acl_ok(am_cell_join(am_cell_descriptor(a), &heir));
    assert_int_equal(look(heir, 1), AM_CELL_LOST);
    assert_int_equal(look(a, 1), AM_CELL_LOST);
    am_cell_leave(heir);
}

static void too_many_records_are_refused_until_one_has_run(void **state)
{
    uint64_t numbers[AM_CELL_RECORDS];
    int place;

    assert_acl_ok(am_cell_claim(a, &place));
    am_cell_unclaim(a, place); /* was not queued, and takes no room and no number */
    for (int i = 0; i < AM_CELL_RECORDS; i++)
        numbers[i] = record(i % 2 ? a : b);
    assert_acl(am_cell_claim(a, &place), ACL_ERROR_RT_RESOURCE_ALLOC_FAIL);
    am_cell_recorded(a, numbers[1], ACL_SUCCESS);
    assert_int_equal(record(b), AM_CELL_RECORDS + 1);
}

static void records_of_the_dead_make_room(void **state)
{
    for (int i = 0; i < AM_CELL_RECORDS; i++)
        record(b);
    am_cell_leave(b);
    b = NULL;
    assert_int_equal(record(a), AM_CELL_RECORDS + 1);
    am_cell_recorded(a, AM_CELL_RECORDS + 1, ACL_SUCCESS);
    for (uint64_t i = 1; i <= AM_CELL_RECORDS; i++) /* which did not run for that */
        assert_int_equal(look(a, i), AM_CELL_LOST);
    assert_int_equal(look(a, AM_CELL_RECORDS + 1), AM_CELL_DONE);
}

static void one_of_two_takes_the_bit(void **state)
{
    assert_false(am_cell_take(a));
    am_cell_set(a, true);
    assert_true(am_cell_take(b));
    assert_false(am_cell_take(a));
    assert_false(am_cell_take(b));
}

static void sixty_four_have_it_at_most(void **state)
{
    struct am_cell *more[62];
    struct am_cell *last;

    for (int i = 0; i < 62; i++)
        assert_acl_ok(am_cell_join(am_cell_descriptor(a), &more[i]));
    assert_acl(am_cell_join(am_cell_descriptor(a), &last),
               ACL_ERROR_RT_RESOURCE_ALLOC_FAIL);
    am_cell_leave(more[30]);
    assert_acl_ok(am_cell_join(am_cell_descriptor(a), &more[30]));
    for (int i = 0; i < 62; i++)
        am_cell_leave(more[i]);
}

/* A descriptor comes from another process, and may show anything. */
static void another_file_is_refused(void **state)
{
    struct am_cell *cell;
    int open_ended = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    int other = open("/dev/zero", O_RDWR | O_CLOEXEC);

    assert_acl(am_cell_join(other, &cell), ACL_ERROR_RT_IPC_ERROR);
    assert_int_equal(ftruncate(open_ended, 4096), 0);
    assert_acl(am_cell_join(open_ended, &cell), ACL_ERROR_RT_IPC_ERROR);
    assert_int_equal(fcntl(open_ended, F_ADD_SEALS, F_SEAL_SHRINK), 0);
    assert_acl(am_cell_join(open_ended, &cell), ACL_ERROR_RT_IPC_ERROR); /* no magic */
    close(open_ended);
    close(other);
}

static void no_failure_leaves_a_descriptor(void **state)
{
    struct am_cell *cell;
    size_t before = open_descriptors();

    for_each_fault (n) {
        aclError rc = am_cell_join(am_cell_descriptor(a), &cell);

        assert_int_equal(rc == ACL_SUCCESS, !am_fault_fired());
        if (rc == ACL_SUCCESS)
            am_cell_leave(cell);
        assert_int_equal(open_descriptors(), before);
    }
    for_each_fault (n) {
        aclError rc = am_cell_make(&cell);

        assert_int_equal(rc == ACL_SUCCESS, !am_fault_fired());
        if (rc == ACL_SUCCESS)
            am_cell_leave(cell);
        assert_int_equal(open_descriptors(), before);
    }
}

static int begin(void **state)
{
    assert_acl_ok(am_cell_make(&a));
    assert_acl_ok(am_cell_join(am_cell_descriptor(a), &b));
    return 0;
}

static int end(void **state)
{
    if (a != NULL)
        am_cell_leave(a);
    if (b != NULL)
        am_cell_leave(b);
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
        one(what_is_over_stays_so_while_another_record_begins),
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
