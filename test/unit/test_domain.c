/* Charges of a memory domain, and the credits of threads that meet there. */
#include "unit.h"

#include "acl/error_codes/rt_error_codes.h"
#include "base/util.h"
#include "core/device/domain.h"
#include "support/process.h"

#define CAPACITY (64 * AM_GIB)

static int open_one(void **state)
{
    struct am_domain *domain;

    if (am_domain_create(-1, -1, CAPACITY, &domain) != ACL_SUCCESS)
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

static size_t room(struct am_domain *domain)
{
    return CAPACITY - am_domain_in_use(domain);
}

static void one_thread_keeps_no_credit(void **state)
{
    struct am_domain *domain = *state;

    for (int i = 0; i < 100; i++) {
        assert_int_equal(charge(domain, AM_CHUNK), ACL_SUCCESS);
        assert_int_equal(domain->used, AM_CHUNK);
        am_domain_uncharge(domain, AM_CHUNK);
        assert_int_equal(domain->used, 0);
    }
    assert_int_equal(domain->peak, AM_CHUNK);
}

/* As if another thread had been at the figures at the same time. */
static void keep_credit(struct am_domain *domain)
{
    domain->has_credits = true;
    domain->part[am_shard()].keeps = true;
}

static void a_credit_is_free_memory(void **state)
{
    struct am_domain *domain = *state;

    keep_credit(domain);
    assert_int_equal(charge(domain, 4 * AM_MIB), ACL_SUCCESS);
    assert_int_equal(room(domain), CAPACITY - 4 * AM_MIB);
    am_domain_uncharge(domain, 4 * AM_MIB);
    assert_int_equal(domain->used, 4 * AM_MIB); /* kept, */
    assert_int_equal(room(domain), CAPACITY);   /* and free all the same */
    assert_int_equal(charge(domain, 2 * AM_MIB), ACL_SUCCESS);
    assert_int_equal(domain->used, 4 * AM_MIB);
    assert_int_equal(room(domain), CAPACITY - 2 * AM_MIB);
    am_domain_uncharge(domain, 2 * AM_MIB);
}

static void a_credit_has_a_limit(void **state)
{
    struct am_domain *domain = *state;

    keep_credit(domain);
    assert_int_equal(charge(domain, 100 * AM_MIB), ACL_SUCCESS);
    for (int i = 0; i < 50; i++)
        am_domain_uncharge(domain, 2 * AM_MIB);
    assert_true(domain->used > 0 && domain->used <= 8 * AM_MIB);
    assert_int_equal(charge(domain, 100 * AM_MIB), ACL_SUCCESS);
    am_domain_uncharge(domain, 100 * AM_MIB); /* more than a credit holds */
    assert_true(domain->used <= 8 * AM_MIB);
}

static void a_small_domain_has_no_credit(void **state)
{
    struct am_domain *domain;

    assert_int_equal(am_domain_create(-1, -1, AM_GIB, &domain), ACL_SUCCESS);
    keep_credit(domain);
    assert_int_equal(charge(domain, AM_CHUNK), ACL_SUCCESS);
    am_domain_uncharge(domain, AM_CHUNK);
    assert_int_equal(domain->used, 0);
    am_domain_close(domain);
    am_domain_put(domain);
}

/* Leaves a credit behind in the shard of this thread. */
static const char *leave_credit(struct worker *self)
{
    struct am_domain *domain = self->shared;

    keep_credit(domain);
    worker_check(charge(domain, 4 * AM_MIB) == ACL_SUCCESS);
    am_domain_uncharge(domain, 4 * AM_MIB);
    return NULL;
}

static void credits_serve_whoever_needs_the_memory(void **state)
{
    struct am_domain *domain = *state;
    struct worker workers[8];

    for (unsigned i = 0; i < 8; i++)
        workers[i] = (struct worker){.run = leave_credit, .shared = domain};
    assert_null(run_workers(workers, 8));
    assert_true(domain->used >= 8 * 4 * AM_MIB);
    assert_int_equal(room(domain), CAPACITY);
    assert_int_equal(charge(domain, CAPACITY), ACL_SUCCESS);
    assert_int_equal(charge(domain, AM_CHUNK), ACL_ERROR_RT_MEMORY_ALLOCATION);
    assert_int_equal(room(domain), 0);
    am_domain_uncharge(domain, CAPACITY);
}

static void credits_go_when_the_device_is_no_longer_used(void **state)
{
    struct am_domain *domain = *state;

    assert_null(run_thread(leave_credit, domain));
    assert_int_equal(domain->used, 4 * AM_MIB);
    am_domain_unuse(domain);
    assert_int_equal(domain->used, 0);
}

#define N_PAIRS 20000

/* Never more than there is, whoever has it, with credits or without. */
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
        am_domain_uncharge(domain, size);
    }
    return NULL;
}

static const char *charge_little(struct worker *self)
{
    struct am_domain *domain = self->shared;

    keep_credit(domain);
    for (unsigned i = 0; i < N_PAIRS; i++) {
        if (charge(domain, AM_CHUNK) != ACL_SUCCESS)
            continue;
        worker_check(atomic_fetch_add(&held, AM_CHUNK) + AM_CHUNK <= CAPACITY);
        atomic_fetch_sub(&held, AM_CHUNK);
        am_domain_uncharge(domain, AM_CHUNK);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
#define on_a_domain(f_) cmocka_unit_test_setup_teardown(f_, open_one, close_one)
        on_a_domain(one_thread_keeps_no_credit),
        on_a_domain(a_credit_is_free_memory),
        on_a_domain(a_credit_has_a_limit),
        cmocka_unit_test(a_small_domain_has_no_credit),
        on_a_domain(credits_serve_whoever_needs_the_memory),
        on_a_domain(credits_go_when_the_device_is_no_longer_used),
        on_a_domain(threads_never_have_more_than_there_is),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
