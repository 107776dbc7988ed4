/*
 * Objects with numbers: what a handle finds, in which order objects are used again, and what
 * threads see that look for an object while it goes.
 */
#include "unit.h"

#include <string.h>

#include "base/idslab.h"
#include "base/util.h"
#include "moments.h"
#include "support/process.h"

struct thing {
    struct am_named named;
    unsigned char body[100];
};

#define N_MANY 3000 /* several segments, of which the last is large */
#define N_KEPT 32   /* that the list of a thread holds */

#define NEW_SLAB(name_) \
    static struct am_idslab name_ = AM_IDSLAB_INIT(struct thing, AM_KIND_PHYS, "test")

static struct thing *take(struct am_idslab *slab)
{
    struct thing *thing = am_idslab_take(slab);

    assert_non_null(thing);
    assert_null(thing->named.handle);
    assert_int_equal(thing->named.refs, 0);
    return thing;
}

/* An object with a handle and one reference. */
static struct thing *make(struct am_idslab *slab)
{
    struct thing *thing = take(slab);

    am_idslab_name(slab, &thing->named);
    thing->named.refs = 1;
    return thing;
}

static void thing_end(struct am_idslab *slab, struct thing *thing)
{
    am_idslab_unname(&thing->named);
    am_idslab_give(slab, &thing->named);
}

static void put_never(struct am_named *named)
{
    fail();
}

static void *get(struct am_idslab *slab, void *handle)
{
    return am_idslab_get(slab, handle, put_never);
}

static void objects_are_born_zero_in_lines_of_their_own(void **state)
{
    static const unsigned char zero[sizeof((struct thing *)NULL)->body];
    NEW_SLAB(slab);

    for (uint32_t i = 0; i < N_MANY; i++) {
        struct thing *thing = take(&slab);

        assert_int_equal(thing->named.number, i + 1); /* one thread: in order */
        assert_int_equal((uintptr_t)thing % 64, 0);
        assert_memory_equal(thing->body, zero, sizeof zero);
        memset(thing->body, 0xff, sizeof thing->body);
    }
}

static void a_handle_finds_its_object(void **state)
{
    NEW_SLAB(slab);

    for (int i = 0; i < N_MANY; i++) {
        struct thing *thing = make(&slab);

        assert_ptr_equal(get(&slab, thing->named.handle), thing);
        assert_int_equal(thing->named.refs, 2);
    }
}

static void other_numbers_find_nothing(void **state)
{
    NEW_SLAB(slab);
    struct thing *thing = make(&slab);
    struct thing *nameless = take(&slab);
    uintptr_t handle = (uintptr_t)thing->named.handle;

    nameless->named.refs = 1;
    assert_null(get(&slab, NULL));
    assert_null(get(&slab, thing));
    assert_null(get(&slab, (void *)(handle + 1))); /* the nameless one's */
    assert_null(get(&slab, (void *)(handle + (1u << AM_ID_BITS))));
    assert_null(get(&slab, (void *)(handle | AM_ID_NUMBER_MAX)));
    assert_null(
        get(&slab, (void *)(handle ^ (uintptr_t)(AM_KIND_PHYS ^ AM_KIND_EVENT) << 56)));
    assert_int_equal(thing->named.refs, 1);
    assert_int_equal(nameless->named.refs, 1);
}

/* Bits 62 to 56 hold the mark, so no machine takes it for an address. */
static void a_handle_is_not_an_address(void **state)
{
    NEW_SLAB(slab);

    assert_int_equal((uintptr_t)make(&slab)->named.handle >> 56, 0x41);
}

static void a_message_says_why_a_handle_finds_nothing(void **state)
{
    NEW_SLAB(slab);
    struct thing *thing = make(&slab);
    uint64_t good = (uintptr_t)thing->named.handle;
    const uint64_t foreign[] = {
        0,
        4096,
        (uintptr_t)thing,
        UINT64_MAX,
        good & ~(UINT64_C(0xff) << 56), /* neither mark nor kind */
        good & ~(UINT64_C(0x40) << 56), /* no mark */
        good & ~(UINT64_C(0x01) << 56), /* no kind */
        good | UINT64_C(0x3f) << 56,    /* a kind that there is not */
        good | UINT64_C(1) << 63,
    };

    for (size_t i = 0; i < AM_ARRAY_SIZE(foreign); i++) {
        void *handle = (void *)(uintptr_t)foreign[i];

        assert_null(get(&slab, handle));
        assert_contains(am_id_why(AM_KIND_PHYS, handle), "never");
    }
    assert_contains(am_id_why(AM_KIND_PHYS, (void *)good), "is not alive");
    assert_contains(am_id_why(AM_KIND_CONTEXT, (void *)good), "physical memory");
    assert_int_equal(thing->named.refs, 1);
}

static void the_generation_starts_over_without_touching_the_mark(void **state)
{
    NEW_SLAB(slab);
    struct thing *thing = take(&slab);
    void *last;
    void *handle;

    thing->named.generation = AM_ID_NUMBER_MAX;
    last = am_idslab_name(&slab, &thing->named);
    thing->named.refs = 1;
    am_idslab_unname(&thing->named);
    handle = am_idslab_name(&slab, &thing->named);
    assert_int_equal((uintptr_t)handle >> 56, 0x41);
    assert_int_equal((uintptr_t)handle >> AM_ID_BITS & AM_ID_NUMBER_MAX, 0);
    assert_null(get(&slab, last));
    assert_ptr_equal(get(&slab, handle), thing);
}

static void no_object_has_a_number_that_a_handle_cannot_hold(void **state)
{
    NEW_SLAB(slab);

    slab.end = AM_ID_NUMBER_MAX + 1;
    am_fault_arm(1, true);
    assert_null(am_idslab_take(&slab));
    am_fault_disarm();
    assert_false(am_fault_fired()); /* no memory was asked for */
}

static void a_handle_ends_before_the_last_reference(void **state)
{
    NEW_SLAB(slab);
    struct thing *thing = make(&slab);
    void *handle = thing->named.handle;

    am_idslab_unname(&thing->named);
    assert_null(get(&slab, handle));
    assert_int_equal(thing->named.refs, 1);
}

static void a_zeroed_object_keeps_its_number(void **state)
{
    static const unsigned char zero[sizeof((struct thing *)NULL)->body];
    NEW_SLAB(slab);
    struct thing *thing = take(&slab);
    struct am_named named = thing->named;
    struct thing *next;

    memset(thing->body, 0xff, sizeof thing->body);
    am_idslab_give(&slab, &thing->named);
    do {
        next = am_idslab_take_zeroed(&slab);
    } while (next != thing);
    assert_memory_equal(next->body, zero, sizeof zero);
    assert_int_equal(next->named.number, named.number);
    assert_int_equal(next->named.generation, named.generation);
}

static void a_handle_ends_with_its_object(void **state)
{
    NEW_SLAB(slab);
    struct thing *thing = make(&slab);
    void *stale = thing->named.handle;
    struct thing *next;

    thing->named.refs = 0;
    assert_null(get(&slab, stale)); /* its last reference is just gone */
    thing_end(&slab, thing);
    assert_null(get(&slab, stale));
    do {
        next = make(&slab);
    } while (next != thing);
    assert_null(get(&slab, stale));
    assert_ptr_equal(get(&slab, next->named.handle), next);
}

/* A generation lasts longer that way. */
static void the_oldest_is_used_again_first(void **state)
{
    enum { N = 20 };
    NEW_SLAB(slab);
    struct thing *things[N_KEPT];

    for (int i = 0; i < N_KEPT; i++)
        things[i] = make(&slab);
    for (int i = 0; i < N; i++) {
        things[i]->named.refs = 0;
        thing_end(&slab, things[i]);
    }
    for (int i = 0; i < N; i++)
        assert_ptr_equal(take(&slab), things[i]);
}

static void memory_is_asked_for_only_when_none_is_spare(void **state)
{
    static struct thing *things[N_MANY];
    NEW_SLAB(slab);

    for (int i = 0; i < N_MANY; i++)
        things[i] = make(&slab);
    for (int i = 0; i < N_MANY; i++) {
        things[i]->named.refs = 0;
        thing_end(&slab, things[i]);
    }
    am_fault_arm(1, true);
    for (int i = 0; i < N_MANY; i++)
        take(&slab);
    am_fault_disarm();
    assert_false(am_fault_fired());
}

static void failed_growth_gives_null_and_loses_nothing(void **state)
{
    NEW_SLAB(slab);
    struct thing *thing;
    int n = 0;

    am_fault_arm(1, true);
    assert_null(am_idslab_take(&slab));
    am_fault_disarm();
    thing = take(&slab);
    am_fault_arm(1, true);
    while (am_idslab_take(&slab) != NULL)
        n++;
    assert_true(am_fault_fired());
    am_idslab_give(&slab, &thing->named);
    assert_ptr_equal(am_idslab_take(&slab), thing);
    am_fault_disarm();
    assert_int_equal(n,
                     254); /* all others of the first segment, whose first has no use */
    take(&slab);
}

static struct am_idslab *shared_slab;

static const char *take_many(struct worker *self)
{
    struct thing **things = self->shared;

    for (int i = 0; i < N_MANY; i++) {
        things[i] = am_idslab_take(shared_slab);
        worker_check(things[i] != NULL);
    }
    return NULL;
}

static void memory_freed_by_one_thread_serves_another(void **state)
{
    static struct thing *things[N_MANY];
    static struct thing *again[N_MANY];
    NEW_SLAB(slab);
    size_t kept = 0;

    shared_slab = &slab;
    assert_null(run_thread(take_many, things));
    for (int i = 0; i < N_MANY; i++)
        am_idslab_give(&slab, &things[i]->named);
    assert_null(run_thread(take_many, again));
    for (int i = 0; i < N_MANY; i++)
        kept += again[i]->named.number > N_MANY + N_KEPT;
    assert_in_range(kept, 0, N_KEPT); /* in this thread's list */
}

static void thing_count(void *object, void *n)
{
    struct thing *thing = object;

    thing->body[0]++;
    ++*(unsigned *)n;
}

static void every_object_is_visited_once(void **state)
{
    static struct thing *things[N_MANY];
    NEW_SLAB(slab);
    unsigned n = 0;

    am_idslab_each(&slab, thing_count, &n);
    assert_int_equal(n, 0);
    for (int i = 0; i < N_MANY; i++)
        things[i] = take(&slab);
    am_idslab_each(&slab, thing_count, &n);
    assert_in_range(n, N_MANY, N_MANY + N_KEPT);
    for (int i = 0; i < N_MANY; i++)
        assert_int_equal(things[i]->body[0], 1);
}

/* ---- threads ---- */

#define ROUNDS 3000

static struct race {
    struct am_idslab slab;
    _Atomic(void *) handle; /* of an object that is there, or was a moment ago */
} race;

/* An object whose first byte says which handle it is of. */
static void race_end(struct thing *thing)
{
    if (!am_ref_drop(&thing->named.refs))
        return;
    thing_end(&race.slab, thing);
}

static void race_put(struct am_named *named)
{
    race_end((struct thing *)named);
}

static const char *make_and_end(struct worker *self)
{
    for (int i = 0; i < ROUNDS; i++) {
        struct thing *thing = am_idslab_take(&race.slab);
        void *handle;

        worker_check(thing != NULL);
        handle = am_idslab_name(&race.slab, &thing->named);
        memcpy(thing->body, &handle, sizeof handle);
        atomic_store_explicit(&thing->named.refs, 1, memory_order_release);
        race.handle = handle;
        worker_check(thing->named.handle == handle);
        race_end(thing);
    }
    return NULL;
}

/* A handle leads to its own object, for as long as the reference is kept. */
static const char *find(struct worker *self)
{
    for (int i = 0; i < ROUNDS; i++) {
        void *handle = race.handle;
        struct thing *thing = am_idslab_get(&race.slab, handle, race_put);
        void *seen;

        if (thing == NULL)
            continue;
        memcpy(&seen, thing->body, sizeof seen);
        worker_check(seen == handle);
        worker_check(thing->named.handle == handle);
        race_end(thing);
    }
    return NULL;
}

static void a_handle_never_finds_another_object(void **state)
{
    struct worker workers[4];
    const char *failure;

    race.slab = (struct am_idslab)AM_IDSLAB_INIT(struct thing, AM_KIND_PHYS, "test");
    for (unsigned i = 0; i < 4; i++)
        workers[i] = (struct worker){.run = i < 2 ? make_and_end : find};
    failure = run_workers(workers, 4);
    if (failure != NULL)
        fail_msg("%s", failure);
}

/* The object dies, and the next one is made in the same memory. */
static void succeed(void *arg)
{
    struct thing *thing = arg;

    am_idslab_unname(&thing->named);
    thing->named.refs = 0;
    am_idslab_name(shared_slab, &thing->named);
    thing->named.refs = 1;
}

static void shared_put(struct am_named *named)
{
    assert_false(am_ref_drop(&named->refs));
}

static void a_handle_never_gives_the_object_that_came_after_its_own(void **state)
{
    NEW_SLAB(slab);
    struct thing *thing = make(&slab);
    void *handle = thing->named.handle;

    shared_slab = &slab;
    moment_arm(1, succeed, thing);
    assert_null(am_idslab_get(&slab, handle, shared_put));
    assert_true(moment_disarm());
    assert_int_equal(thing->named.refs, 1);
    assert_ptr_equal(get(&slab, thing->named.handle), thing);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(objects_are_born_zero_in_lines_of_their_own),
        cmocka_unit_test(a_handle_finds_its_object),
        cmocka_unit_test(other_numbers_find_nothing),
        cmocka_unit_test(a_handle_is_not_an_address),
        cmocka_unit_test(a_message_says_why_a_handle_finds_nothing),
        cmocka_unit_test(the_generation_starts_over_without_touching_the_mark),
        cmocka_unit_test(no_object_has_a_number_that_a_handle_cannot_hold),
        cmocka_unit_test(a_handle_ends_before_the_last_reference),
        cmocka_unit_test(a_zeroed_object_keeps_its_number),
        cmocka_unit_test(a_handle_ends_with_its_object),
        cmocka_unit_test(the_oldest_is_used_again_first),
        cmocka_unit_test(memory_is_asked_for_only_when_none_is_spare),
        cmocka_unit_test(failed_growth_gives_null_and_loses_nothing),
        cmocka_unit_test(memory_freed_by_one_thread_serves_another),
        cmocka_unit_test(every_object_is_visited_once),
        cmocka_unit_test(a_handle_never_finds_another_object),
        cmocka_unit_test(a_handle_never_gives_the_object_that_came_after_its_own),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
