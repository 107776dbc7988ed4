/*
 * The sums of the ledger, and their change when a process ends.
 */
#include "ledger_fixture.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "acl/error_codes/rt_error_codes.h"
#include "base/error.h"
#include "base/util.h"
#include "support/process.h"

/* ---- memory ---- */

static void sums_include_all_processes(void **state)
{
    struct am_ledger *a = open_shared();
    struct am_ledger *b = open_shared();

    assert_true(charge(a, 0, 30 * AM_MIB));
    assert_true(charge(b, 0, 20 * AM_MIB));
    assert_true(charge(b, 2, 10 * AM_MIB));
    assert_int_equal(am_ledger_in_use(a, 0), 50 * AM_MIB);
    assert_int_equal(am_ledger_in_use(b, 0), 50 * AM_MIB);
    assert_int_equal(am_ledger_in_use(a, 1), 0);
    assert_int_equal(am_ledger_in_use(a, 2), 10 * AM_MIB);
    am_ledger_uncharge(a, 0, am_shard(), 30 * AM_MIB);
    assert_int_equal(am_ledger_in_use(b, 0), 20 * AM_MIB);
    assert_int_equal(am_ledger_id(a), am_ledger_id(b));
    am_ledger_put(a);
    am_ledger_put(b);
}

static void a_device_is_full_whichever_process_filled_it(void **state)
{
    struct am_ledger *a = open_shared();
    struct am_ledger *b = open_shared();
    char who[AM_LEDGER_WHO];
    char name[32];

    am_ledger_who(b, 0, who);
    assert_string_equal(who, "");
    assert_true(charge(a, 0, CAPACITY - AM_MIB));
    assert_false(charge(b, 0, AM_MIB + 1));
    assert_true(charge(b, 0, AM_MIB));
    assert_false(charge(b, 0, 1));
    assert_false(charge(a, 0, 1));
    assert_false(charge(a, 0, SIZE_MAX));
    assert_int_equal(am_ledger_in_use(a, 0), CAPACITY);
    am_ledger_who(b, 0, who);
    snprintf(name, sizeof name, "by process %d (test_unit_ledge)", (int)getpid());
    assert_contains(who, "103809024 "); /* 99 MB */
    assert_contains(who, name);
    am_ledger_put(a);
    am_ledger_put(b);
}

/* The word of the account that this thread charges. */
static uint64_t account(const struct am_ledger *ledger, int32_t device)
{
    return ledger->shards[ledger->slot][am_shard() % LEDGER_SHARDS].account[device];
}

static void freed_bytes_are_free_for_all_processes(void **state)
{
    struct am_ledger *a = open_shared();
    struct am_ledger *b = open_shared();

    for (int i = 0; i < 3; i++) {
        assert_true(charge(a, 0, CAPACITY));
        am_ledger_uncharge(a, 0, am_shard(), CAPACITY);
        assert_int_equal(account(a, 0) >> 32, CAPACITY / 2048); /* a credit */
        assert_int_equal(am_ledger_in_use(b, 0), 0);
        assert_int_equal(am_ledger_held(a, 0), 0);
        assert_true(charge(b, 0, CAPACITY));
        assert_int_equal(account(a, 0), 0); /* which b took back */
        assert_false(charge(a, 0, 1));
        am_ledger_uncharge(b, 0, am_shard(), CAPACITY);
    }
    assert_int_equal(am_ledger_peak(a, 0), CAPACITY);
    am_ledger_put(a);
    am_ledger_put(b);
}

static void a_credit_is_charged_before_free_bytes(void **state)
{
    enum { CREDIT = CAPACITY / 2048 };
    struct am_ledger *a = open_shared();

    assert_true(charge(a, 0, AM_MIB));
    am_ledger_uncharge(a, 0, am_shard(), AM_MIB);
    assert_true(charge(a, 0, CREDIT));
    assert_int_equal(account(a, 0), (uint64_t)CREDIT << 32 | CREDIT);
    assert_true(charge(a, 0, 1));
    assert_int_equal(account(a, 0), (uint64_t)(CREDIT + 1) << 32 | (CREDIT + 1));
    assert_int_equal(am_ledger_held(a, 0), CREDIT + 1);
    assert_int_equal(am_ledger_peak(a, 0), AM_MIB);
    am_ledger_put(a);
}

static void shared_bytes_are_no_credit(void **state)
{
    struct am_ledger *a = open_shared();

    share(a, 0, CAPACITY);
    assert_int_equal(am_ledger_in_use(a, 0), CAPACITY);
    assert_false(charge(a, 0, 1));
    am_ledger_put(a);
}

static const char *charge_all(struct worker *self)
{
    self->index = am_shard();
    worker_check(am_ledger_charge(self->shared, 0, CAPACITY));
    return NULL;
}

static void a_thread_frees_bytes_that_another_charged(void **state)
{
    struct am_ledger *a = open_shared();

    for (int i = 0; i < 3; i++) {
        struct worker worker = {.run = charge_all, .shared = a};

        assert_null(run_workers(&worker, 1));
        assert_int_equal(am_ledger_in_use(a, 0), CAPACITY);
        assert_false(charge(a, 0, 1));
        am_ledger_uncharge(a, 0, worker.index, CAPACITY);
        assert_int_equal(am_ledger_in_use(a, 0), 0);
    }
    am_ledger_put(a);
}

static void the_largest_device_is_counted_to_its_last_chunk(void **state)
{
    const struct am_ledger_config one = {.capacity = {64 * AM_TIB}};
    struct am_ledger *a;

    assert_int_equal(am_ledger_open(&one, &a), ACL_SUCCESS);
    assert_true(charge(a, 0, 64 * AM_TIB - AM_CHUNK));
    assert_false(charge(a, 0, AM_CHUNK + 1));
    assert_true(charge(a, 0, AM_CHUNK));
    assert_false(charge(a, 0, 1));
    assert_int_equal(am_ledger_in_use(a, 0), 64 * AM_TIB);
    am_ledger_uncharge(a, 0, am_shard(), 64 * AM_TIB);
    assert_int_equal(am_ledger_in_use(a, 0), 0);
    am_ledger_put(a);
}

static void the_three_that_hold_most_are_named_in_order(void **state)
{
    static const size_t sizes[] = {3, 9, 1, 7, 5};
    struct am_ledger *others[5];
    struct am_ledger *mine = open_shared();
    char who[AM_LEDGER_WHO];

    for (int i = 0; i < 5; i++) {
        others[i] = open_shared();
        assert_true(charge(others[i], 1, sizes[i]));
    }
    am_ledger_who(mine, 1, who);
    assert_int_equal(strncmp(who, " (9 by process ", 15), 0);
    assert_true(strstr(who, ", 7 by") != NULL && strstr(who, ", 5 by") != NULL);
    assert_true(strstr(who, ", 7 by") < strstr(who, ", 5 by"));
    assert_null(strstr(who, ", 3 by"));
    assert_int_equal(who[strlen(who) - 1], ')');
    for (int i = 0; i < 5; i++)
        am_ledger_put(others[i]);
    am_ledger_put(mine);
}

static atomic_bool is_over;

static void *charge_and_uncharge(void *arg)
{
    struct am_ledger *ledger = arg;

    while (!is_over) {
        assert_true(charge(ledger, 1, 8));
        am_ledger_uncharge(ledger, 1, am_shard(), 8);
    }
    return NULL;
}

static void a_process_whose_memory_changes_is_named_once(void **state)
{
    struct am_ledger *a = open_shared();
    struct am_ledger *b = open_shared();
    char who[AM_LEDGER_WHO];
    pthread_t thread;
    unsigned n_twice = 0;

    assert_true(charge(b, 1, 1));
    is_over = false;
    assert_int_equal(pthread_create(&thread, NULL, charge_and_uncharge, b), 0);
    for (int i = 0; i < 100000; i++) {
        am_ledger_who(a, 1, who);
        n_twice += strchr(who, ',') != NULL;
    }
    is_over = true;
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(n_twice, 0);
    am_ledger_put(a);
    am_ledger_put(b);
}

static void memory_of_an_ended_process_is_free(void **state)
{
    struct am_ledger *a = open_shared();
    struct am_ledger *b = open_shared();
    struct am_ledger *c = open_shared();

    assert_true(charge(b, 0, CAPACITY));
    assert_true(charge(c, 1, CAPACITY));
    am_ledger_put(b);
    am_ledger_put(c);
    assert_int_equal(am_ledger_in_use(a, 0), 0); /* checks the slots */
    assert_true(charge(a, 1, CAPACITY));         /* by asking for it */
    assert_int_equal(a->head->slots_high, 1);
    am_ledger_put(a);
}

static void a_slot_is_used_again(void **state)
{
    struct am_ledger *a = open_shared();
    struct am_ledger *b = open_shared();
    struct am_ledger *c = open_shared();

    assert_true(charge(b, 0, AM_MIB));
    assert_int_equal(b->slot, 1);
    am_ledger_put(b);
    b = open_shared();
    assert_int_equal(b->slot, 1);
    assert_int_equal(am_ledger_in_use(c, 0), 0);
    am_ledger_put(c);
    am_ledger_put(b);
    am_ledger_put(a);
}

static void unlike_devices_are_counted_apart(void **state)
{
    struct am_ledger_config others[] = {config, config, config, config, config};
    struct am_ledger *a = open_shared();

    strcpy(others[0].backend, "cuda");
    strcpy(others[1].product, "A3");
    others[2].n_devices = 2;
    others[3].capacity[0] += AM_CHUNK;
    others[4].identity = 1;
    assert_true(charge(a, 0, CAPACITY));
    for (int i = 0; i < 5; i++) {
        struct am_ledger *b;

        assert_int_equal(am_ledger_open(&others[i], &b), ACL_SUCCESS);
        assert_false(am_ledger_is_private(b));
        assert_int_equal(am_ledger_in_use(b, 0), 0);
        assert_true(am_ledger_id(b) != am_ledger_id(a));
        am_ledger_put(b);
    }
    am_ledger_put(a);
}

static void no_more_processes_use_a_device_than_it_allows(void **state)
{
    struct am_ledger *a = open_shared();
    struct am_ledger *b = open_shared();
    struct am_ledger *c = open_shared();

    assert_int_equal(am_ledger_use(a, 0, 2), ACL_SUCCESS);
    assert_int_equal(am_ledger_use(a, 0, 2), ACL_SUCCESS);
    assert_int_equal(am_ledger_use(b, 0, 2), ACL_SUCCESS);
    assert_int_equal(am_ledger_use(c, 1, 2), ACL_SUCCESS);
    (void)am_error_take_messages();
    assert_int_equal(am_ledger_use(c, 0, 2), ACL_ERROR_RT_RESOURCE_ALLOC_FAIL);
    assert_contains(am_error_take_messages(), "device 0 is used by 2 processes");
    am_ledger_unuse(a, 0);
    assert_int_equal(am_ledger_use(c, 0, 2), ACL_SUCCESS);
    assert_int_equal(am_ledger_use(a, 0, 2), ACL_ERROR_RT_RESOURCE_ALLOC_FAIL);
    am_ledger_put(c); /* the dead use nothing */
    assert_int_equal(am_ledger_use(a, 0, 2), ACL_SUCCESS);
    am_ledger_put(b);
    am_ledger_put(a);
}

/* ---- shares ---- */

static void shared_memory_is_counted_once_until_all_have_left_it(void **state)
{
    struct am_ledger *a = open_shared();
    struct am_ledger *b = open_shared();
    struct am_ledger *c = open_shared();
    char who[AM_LEDGER_WHO];
    uint64_t number = share(a, 1, 60 * AM_MIB);

    assert_int_equal(am_ledger_in_use(c, 1), 60 * AM_MIB);
    assert_int_equal(am_ledger_share_join(b, number, 1, 60 * AM_MIB), ACL_SUCCESS);
    assert_int_equal(am_ledger_in_use(c, 1), 60 * AM_MIB);
    assert_int_equal(am_ledger_shared(a, 1), 60 * AM_MIB);
    assert_int_equal(am_ledger_shared(b, 1), 60 * AM_MIB);
    assert_int_equal(am_ledger_shared(c, 1), 0);
    assert_false(charge(c, 1, 41 * AM_MIB));
    am_ledger_who(c, 1, who);
    assert_string_equal(who, " (62914560 shared)");

    am_ledger_share_leave(a, number);
    assert_int_equal(am_ledger_in_use(c, 1), 60 * AM_MIB);
    assert_int_equal(am_ledger_shared(a, 1), 0);
    am_ledger_share_leave(b, number);
    assert_int_equal(am_ledger_in_use(c, 1), 0);
    assert_true(charge(c, 1, CAPACITY));
    am_ledger_put(a);
    am_ledger_put(b);
    am_ledger_put(c);
}

static void a_process_may_hold_a_share_more_than_once(void **state)
{
    struct am_ledger *a = open_shared();
    uint64_t number = share(a, 0, AM_MIB);

    assert_int_equal(am_ledger_share_join(a, number, 0, AM_MIB), ACL_SUCCESS);
    assert_int_equal(am_ledger_shared(a, 0), AM_MIB);
    am_ledger_share_leave(a, number);
    assert_int_equal(am_ledger_in_use(a, 0), AM_MIB);
    am_ledger_share_leave(a, number);
    assert_int_equal(am_ledger_in_use(a, 0), 0);
    am_ledger_share_leave(a, number); /* nothing is held, so nothing is left */
    assert_int_equal(am_ledger_in_use(a, 0), 0);
    assert_int_equal(am_ledger_shared(a, 0), 0);
    am_ledger_put(a);
}

static void the_dead_leave_their_shares(void **state)
{
    struct am_ledger *a = open_shared();
    struct am_ledger *b = open_shared();
    struct am_ledger *c = open_shared();
    uint64_t mine = share(a, 0, AM_MIB);
    uint64_t theirs = share(b, 0, 2 * AM_MIB);

    assert_int_equal(am_ledger_share_join(b, mine, 0, AM_MIB), ACL_SUCCESS);
    assert_int_equal(am_ledger_share_join(a, theirs, 0, 2 * AM_MIB), ACL_SUCCESS);
    share(b, 0, 4 * AM_MIB);
    am_ledger_put(b);
    assert_int_equal(am_ledger_in_use(c, 0), 3 * AM_MIB);
    am_ledger_share_leave(a, theirs);
    assert_int_equal(am_ledger_in_use(c, 0), AM_MIB);
    am_ledger_put(a);
    assert_int_equal(am_ledger_in_use(c, 0), 0);
    am_ledger_put(c);
}

static void a_number_that_names_no_share_is_refused(void **state)
{
    struct am_ledger *a = open_shared();
    struct am_ledger *b = open_shared();
    uint64_t number = share(a, 1, AM_MIB);
    const uint64_t wrong[] = {0, number + 1, number ^ 1 << 16, number ^ UINT64_C(1) << 63,
                              UINT64_MAX};

    for (size_t i = 0; i < AM_ARRAY_SIZE(wrong); i++)
        assert_int_equal(am_ledger_share_join(b, wrong[i], 1, AM_MIB),
                         ACL_ERROR_RT_NO_PERMISSION);
    assert_int_equal(am_ledger_share_join(b, number, 0, AM_MIB),
                     ACL_ERROR_RT_NO_PERMISSION);
    assert_int_equal(am_ledger_share_join(b, number, 1, 2 * AM_MIB),
                     ACL_ERROR_RT_NO_PERMISSION);
    assert_int_equal(am_ledger_shared(b, 1), 0);
    am_ledger_share_leave(a, number);
    assert_int_equal(am_ledger_share_join(b, number, 1, AM_MIB),
                     ACL_ERROR_RT_NO_PERMISSION);
    share(a, 1, AM_MIB); /* in the same place */
    assert_int_equal(am_ledger_share_join(b, number, 1, AM_MIB),
                     ACL_ERROR_RT_NO_PERMISSION);
    am_ledger_put(a);
    am_ledger_put(b);
}

static void places_of_shares_are_used_again(void **state)
{
    enum { N = 300 };
    struct am_ledger *a = open_shared();
    uint64_t numbers[N];
    uint32_t high;

    for (int i = 0; i < N; i++)
        numbers[i] = share(a, 0, AM_KIB);
    high = a->head->shares_high;
    assert_int_equal(am_ledger_in_use(a, 0), N * AM_KIB);
    for (int round = 0; round < 3; round++) {
        for (int i = round; i < N; i += 2)
            am_ledger_share_leave(a, numbers[i]);
        for (int i = round; i < N; i += 2)
            numbers[i] = share(a, 0, AM_KIB);
    }
    assert_int_equal(a->head->shares_high, high);
    for (int i = 0; i < N; i++)
        am_ledger_share_leave(a, numbers[i]);
    assert_int_equal(am_ledger_in_use(a, 0), 0);
    am_ledger_put(a);
}

static void a_full_table_is_refused(void **state)
{
    struct am_ledger *a = open_shared();
    uint64_t number = 0;

    for (int i = 0; i < LEDGER_SHARES; i++)
        share(a, 0, 1);
    assert_true(charge(a, 0, 5));
    (void)am_error_take_messages();
    assert_int_equal(am_ledger_share_add(a, 0, am_shard(), 5, &number),
                     ACL_ERROR_RT_RESOURCE_ALLOC_FAIL);
    assert_contains(am_error_take_messages(), "65536 allocations are shared");
    assert_int_equal(am_ledger_in_use(a, 0), LEDGER_SHARES + 5);
    am_ledger_uncharge(a, 0, am_shard(), 5);
    am_ledger_put(a);
}

/* ---- when calls fail ---- */

static void sharing_survives_every_fault(void **state)
{
    struct am_ledger *b = open_shared();

    for_each_fault (n) {
        struct am_ledger *a;
        uint64_t number = 7;
        uint64_t failed;
        int rc;

        am_fault_disarm();
        a = open_shared();
        assert_true(charge(a, 0, AM_MIB));
        am_fault_arm(n, false);
        rc = am_ledger_share_add(a, 0, am_shard(), AM_MIB, &number);
        failed = am_fault_fired();
        am_fault_disarm();
        assert_int_equal(rc != ACL_SUCCESS, failed);
        assert_int_equal(am_ledger_in_use(b, 0), AM_MIB);
        if (rc != ACL_SUCCESS)
            assert_int_equal(am_ledger_share_add(a, 0, am_shard(), AM_MIB, &number),
                             ACL_SUCCESS);
        assert_int_equal(am_ledger_share_join(b, number, 0, AM_MIB), ACL_SUCCESS);
        am_ledger_put(a);
        am_ledger_share_leave(b, number);
        assert_int_equal(am_ledger_in_use(b, 0), 0);
        if (!failed)
            break;
    }
    am_ledger_put(b);
}

static void a_share_that_could_not_be_left_is_left_with_the_next_lock(void **state)
{
    struct am_ledger *a = open_shared();
    struct am_ledger *b = open_shared();
    uint64_t number = share(a, 0, AM_MIB);

    am_fault_arm(1, true); /* no lock can be had */
    am_ledger_share_leave(a, number);
    am_fault_disarm();
    assert_int_equal(am_ledger_in_use(b, 0), AM_MIB);
    assert_int_equal(am_ledger_shared(a, 0), 0);
    assert_int_equal(am_ledger_use(a, 0, 10), ACL_SUCCESS);
    assert_int_equal(am_ledger_in_use(b, 0), 0);
    am_ledger_put(a);
    am_ledger_put(b);
}

/* ---- from outside ---- */

static void the_view_shows_what_each_process_has(void **state)
{
    struct am_ledger *a = open_shared();
    struct am_ledger *b = open_shared();
    struct am_ledger *gone = open_shared();
    struct am_ledger_view view;
    char name[AM_LEDGER_FILE];
    uint64_t number = share(a, 1, 7 * AM_MIB);
    int dir = open(folder, O_PATH);

    assert_true(charge(a, 0, AM_MIB));
    assert_true(charge(b, 2, 3 * AM_MIB));
    assert_true(charge(gone, 2, 30 * AM_MIB));
    assert_int_equal(am_ledger_use(b, 2, 9), ACL_SUCCESS);
    assert_int_equal(am_ledger_share_join(b, number, 1, 7 * AM_MIB), ACL_SUCCESS);
    am_ledger_put(gone);
    am_ledger_file_name(&config, name);
    strcpy(b->slots[b->slot].command, "\33[2J\n"); /* a program may be called so */
    assert_int_equal(am_ledger_read(dir, name, &view), 0);
    assert_memory_equal(&view.config, &config, sizeof config);
    assert_int_equal(view.n_processes, 2);
    assert_int_equal(view.processes[0].pid, getpid());
    assert_string_equal(view.processes[0].command, "test_unit_ledge");
    assert_string_equal(view.processes[1].command, "?[2J?");
    assert_int_equal(view.processes[0].allocated[0], AM_MIB);
    assert_int_equal(view.processes[0].exported[1], 7 * AM_MIB);
    assert_int_equal(view.processes[0].total[1], 7 * AM_MIB);
    assert_int_equal(view.processes[0].peak[1], 7 * AM_MIB);
    assert_int_equal(view.processes[0].n_total, 2);
    assert_int_equal(view.processes[0].imported[1], 0);
    assert_int_equal(view.processes[1].imported[1], 7 * AM_MIB);
    assert_int_equal(view.processes[1].exported[1], 0);
    assert_int_equal(view.processes[1].uses, 4);
    assert_int_equal(view.used[0], AM_MIB);
    assert_int_equal(view.used[1], 7 * AM_MIB);
    assert_int_equal(view.used[2], 3 * AM_MIB);
    am_ledger_view_free(&view);
    am_ledger_put(a);
    assert_int_equal(am_ledger_read(dir, name, &view), 0);
    assert_int_equal(view.n_processes, 1);
    assert_int_equal(view.processes[0].imported[1], 7 * AM_MIB);
    am_ledger_view_free(&view);
    am_ledger_put(b);
    assert_int_equal(am_ledger_read(dir, name, &view), 0); /* the segment was removed */
    assert_memory_equal(&view.config, &config, sizeof config);
    assert_int_equal(view.n_processes, 0);
    am_ledger_view_free(&view);
    close(dir);
}

#define claim(f_) cmocka_unit_test_setup_teardown(f_, ledger_begin, ledger_end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        claim(sums_include_all_processes),
        claim(a_device_is_full_whichever_process_filled_it),
        claim(freed_bytes_are_free_for_all_processes),
        claim(a_credit_is_charged_before_free_bytes),
        claim(shared_bytes_are_no_credit),
        claim(a_thread_frees_bytes_that_another_charged),
        claim(the_largest_device_is_counted_to_its_last_chunk),
        claim(the_three_that_hold_most_are_named_in_order),
        claim(a_process_whose_memory_changes_is_named_once),
        claim(memory_of_an_ended_process_is_free),
        claim(a_slot_is_used_again),
        claim(unlike_devices_are_counted_apart),
        claim(no_more_processes_use_a_device_than_it_allows),
        claim(shared_memory_is_counted_once_until_all_have_left_it),
        claim(a_process_may_hold_a_share_more_than_once),
        claim(the_dead_leave_their_shares),
        claim(a_number_that_names_no_share_is_refused),
        claim(places_of_shares_are_used_again),
        claim(a_full_table_is_refused),
        claim(sharing_survives_every_fault),
        claim(a_share_that_could_not_be_left_is_left_with_the_next_lock),
        claim(the_view_shows_what_each_process_has),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
