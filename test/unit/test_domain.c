/* Charges of a memory domain. */
#include "unit.h"

#include "acl/error_codes/rt_error_codes.h"
#include "base/util.h"
#include "core/device/domain.h"
#include "support/process.h"

#define CAPACITY (64 * AM_GIB)

static int open_one(void **state)
{
    struct am_domain *domain;

    if (am_domain_create(-1, -1, CAPACITY, NULL, &domain) != ACL_SUCCESS)
        return -1;
    *state = domain;
    return 0;
}

static int close_one(void **state)
{
    am_domain_close(*state);
    am_domain_put(*state); /* which looks that nothing is charged any more */
    return 0;
}

static aclError charge(struct am_domain *domain, size_t size)
{
    return am_domain_charge(domain, size, size);
}

static void a_charge_counts_until_it_is_dropped(void **state)
{
    struct am_domain *domain = *state;

    for (int i = 0; i < 100; i++) {
        assert_int_equal(charge(domain, AM_CHUNK), ACL_SUCCESS);
        assert_int_equal(am_domain_in_use(domain), AM_CHUNK);
        am_domain_uncharge(domain, am_shard(), AM_CHUNK);
        assert_int_equal(am_domain_in_use(domain), 0);
    }
    assert_int_equal(am_ledger_peak(domain->ledger, domain->column), AM_CHUNK);
}

#define N_PAIRS 20000

/* Never more than there is, whichever thread has it. */
static atomic_size_t held;

static const char *charge_and_uncharge(struct worker *self)
{
    struct am_domain *domain = self->shared;

    for (unsigned i = 0; i < N_PAIRS; i++) {
        size_t size = (1 + (i + self->index) % 3) * (CAPACITY / 16);

        if (charge(domain, size) != ACL_SUCCESS)
            continue;
        worker_check(atomic_fetch_add(&held, size) + size <= CAPACITY);
        atomic_fetch_sub(&held, size);
        am_domain_uncharge(domain, am_shard(), size);
    }
    return NULL;
}

static const char *charge_little(struct worker *self)
{
    struct am_domain *domain = self->shared;

    for (unsigned i = 0; i < N_PAIRS; i++) {
        if (charge(domain, AM_CHUNK) != ACL_SUCCESS)
            continue;
        worker_check(atomic_fetch_add(&held, AM_CHUNK) + AM_CHUNK <= CAPACITY);
        atomic_fetch_sub(&held, AM_CHUNK);
        am_domain_uncharge(domain, am_shard(), AM_CHUNK);
    }
    return NULL;
}

static void threads_never_have_more_than_there_is(void **state)
{
    struct worker workers[12];

    for (unsigned i = 0; i < 12; i++)
        workers[i] = (struct worker){.run = i < 6 ? charge_and_uncharge : charge_little,
                                     .shared = *state};
    held = 0;
    assert_null(run_workers(workers, 12));
    assert_int_equal(am_domain_in_use(*state), 0);
}

static void memory_keeps_the_domain_after_the_stop(void **state)
{
    struct am_domain *domain;

    assert_int_equal(am_domain_create(-1, -1, CAPACITY, NULL, &domain), ACL_SUCCESS);
    assert_true(am_domain_enter(domain));
    assert_true(am_domain_enter(domain));
    am_domain_leave(domain, am_shard());
    am_domain_close(domain);
    assert_false(am_domain_enter(domain));
    am_domain_put(domain);
    assert_int_equal(domain->refs, 1);
    am_domain_leave(domain, am_shard()); /* frees the domain */
    am_epoch_synchronize();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define on_a_domain(f_) cmocka_unit_test_setup_teardown(f_, open_one, close_one)
        on_a_domain(a_charge_counts_until_it_is_dropped),
        on_a_domain(threads_never_have_more_than_there_is),
        cmocka_unit_test(memory_keeps_the_domain_after_the_stop),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
