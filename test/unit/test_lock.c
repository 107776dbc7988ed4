/*
 * Ranked locks.  What ends the process is looked at from outside: this program again,
 * with a role.
 */
#include "unit.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "base/lock.h"
#include "base/util.h"
#include "support/process.h"

static struct am_lock low = AM_LOCK_INIT(AM_RANK_DEVICE, "low");
static struct am_lock middle = AM_LOCK_INIT(AM_RANK_VSPACE, "middle");
static struct am_lock also_middle = AM_LOCK_INIT(AM_RANK_VSPACE, "also middle");
static struct am_lock high = AM_LOCK_INIT(AM_RANK_LEAF, "high");

static struct am_latch leaf = AM_LATCH_INIT(AM_RANK_LEAF, "leaf");
static struct am_latch middle_latch = AM_LATCH_INIT(AM_RANK_VSPACE, "middle latch");

/* The analysis at compile time would find these first. */
/* Locks that are never released: the roles abort. */
AM_NO_LOCK_ANALYSIS static void acquire(struct am_lock *lock)
{
    am_lock(lock);
}

AM_NO_LOCK_ANALYSIS static void acquire_latch(struct am_latch *latch)
{
    am_latch_take(latch);
}

static void role_reversal(void)
{
    acquire(&high);
    acquire(&low);
}

static void role_below_any_that_is_held(void)
{
    acquire(&low);
    acquire(&high);
    acquire(&middle);
}

static void role_same_rank(void)
{
    acquire(&middle);
    acquire(&also_middle);
}

static void role_twice(void)
{
    acquire(&middle);
    acquire(&middle);
}

static void role_below_a_latch(void)
{
    acquire_latch(&leaf);
    acquire(&middle);
}

static void role_latch_of_the_same_rank(void)
{
    acquire(&middle);
    acquire_latch(&middle_latch);
}

static const struct {
    const char *name;
    void (*run)(void);
    const char *taken;
    const char *held;
} roles[] = {
    {"reversal", role_reversal, "lock low (rank ", "while high (rank "},
    {"below any that is held", role_below_any_that_is_held, "lock middle (rank ",
     "while high (rank "},
    {"same rank", role_same_rank, "lock also middle (rank ", "while middle (rank "},
    {"twice", role_twice, "lock middle (rank ", "while middle (rank "},
    {"below a latch", role_below_a_latch, "lock middle (rank ", "while leaf (rank "},
    {"latch of the same rank", role_latch_of_the_same_rank, "lock middle latch (rank ",
     "while middle (rank "},
};

static int role_run(const char *name)
{
    const struct rlimit no_core = {0, 0};

    setrlimit(RLIMIT_CORE, &no_core);
    for (size_t i = 0; i < AM_ARRAY_SIZE(roles); i++) {
        if (strcmp(roles[i].name, name) == 0) {
            roles[i].run();
            puts("not noticed");
            return 0;
        }
    }
    return 2;
}

static void a_wrong_order_ends_the_process_and_names_both(void **state)
{
#ifdef AM_NDEBUG
    print_message("skipped: this build checks no ranks\n");
    skip();
#endif
    for (size_t i = 0; i < AM_ARRAY_SIZE(roles); i++) {
        const char *text;
        int status = child_run(roles[i].name, &text);

        if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGABRT)
            fail_msg("%s: status 0x%x, \"%s\"", roles[i].name, status, text);
        assert_contains(text, roles[i].taken);
        assert_contains(text, roles[i].held);
    }
}

static void locks_are_taken_in_the_order_of_ranks_and_given_back_in_any(void **state)
{
    for (int i = 0; i < 3; i++) {
        am_lock(&low);
        am_lock(&middle);
        am_lock(&high);
        am_unlock(&middle);
        am_unlock(&low);
        am_unlock(&high);
    }
    am_lock(&middle);
    am_unlock(&middle);
    am_lock(&low); /* nothing is held any more */
    am_unlock(&low);
}

/* The analysis does not know that the second loop undoes the first. */
AM_NO_LOCK_ANALYSIS static void one_of_every_rank_can_be_held_at_once(void **state)
{
    struct am_lock locks[AM_RANK_LEAF];

    for (int i = 0; i < AM_RANK_LEAF; i++)
        am_lock_init(&locks[i], (enum am_rank)(i + 1), "one of all");
    for (int i = 0; i < AM_RANK_LEAF; i++)
        am_lock(&locks[i]);
    for (int i = 0; i < AM_RANK_LEAF; i++)
        am_unlock(&locks[i]);
    for (int i = 0; i < AM_RANK_LEAF; i++)
        am_lock_destroy(&locks[i]);
}

static const char *take_low(struct worker *self)
{
    am_lock(&low);
    am_unlock(&low);
    return NULL;
}

static void locks_of_one_thread_do_not_bind_another(void **state)
{
    am_lock(&high);
    assert_null(run_thread(take_low, NULL));
    am_unlock(&high);
}

static const char *count(struct worker *self)
{
    uint64_t *n = self->shared;

    for (int i = 0; i < 20000; i++) {
        am_lock(&middle);
        ++*n;
        am_unlock(&middle);
    }
    return NULL;
}

static const char *count_by_latch(struct worker *self)
{
    uint64_t *n = self->shared;

    for (int i = 0; i < 20000; i++) {
        am_latch_take(&leaf);
        ++*n;
        am_latch_give(&leaf);
    }
    return NULL;
}

static void a_lock_keeps_other_threads_out(void **state)
{
    const char *(*const ways[])(struct worker *) = {count, count_by_latch};

    for (size_t k = 0; k < AM_ARRAY_SIZE(ways); k++) {
        uint64_t n = 0;
        struct worker workers[4];

        for (unsigned i = 0; i < 4; i++)
            workers[i] = (struct worker){.run = ways[k], .shared = &n};
        assert_null(run_workers(workers, 4));
        assert_int_equal(n, 4 * 20000);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_wrong_order_ends_the_process_and_names_both),
        cmocka_unit_test(locks_are_taken_in_the_order_of_ranks_and_given_back_in_any),
        cmocka_unit_test(one_of_every_rank_can_be_held_at_once),
        cmocka_unit_test(locks_of_one_thread_do_not_bind_another),
        cmocka_unit_test(a_lock_keeps_other_threads_out),
    };

    return argc > 1 ? role_run(argv[1]) : cmocka_run_group_tests(tests, NULL, NULL);
}
