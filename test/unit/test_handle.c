/* The handle table: which object a handle finds, and when it finds none. */
#include "unit.h"

#include "base/handle.h"
#include "base/util.h"
#include "support/process.h"

struct thing {
    struct am_named named;
    void *name; /* its handle, once more */
};

#define N_MANY 3000 /* several segments */

static struct thing *make(void)
{
    struct thing *thing = am_named_alloc(AM_KIND_PHYS, sizeof *thing);

    assert_non_null(thing);
    thing->name = am_named_publish(&thing->named);
    assert_ptr_equal(thing->name, thing->named.handle);
    return thing;
}

static void *find(void *handle)
{
    return am_named_find(AM_KIND_PHYS, handle);
}

static void handles_find_their_objects_until_they_are_freed(void **state)
{
    static struct thing *things[N_MANY];
    static void *handles[N_MANY];

    for (int i = 0; i < N_MANY; i++) {
        things[i] = make();
        handles[i] = things[i]->name;
    }
    for (int i = 0; i < N_MANY; i++)
        assert_ptr_equal(find(handles[i]), things[i]);
    for (int i = 0; i < N_MANY; i++)
        am_named_free(&things[i]->named);
    for (int i = 0; i < N_MANY; i++)
        assert_null(find(handles[i]));
    am_epoch_synchronize();
    for (int i = 0; i < N_MANY; i++) /* the slots serve other objects */
        things[i] = make();
    for (int i = 0; i < N_MANY; i++) {
        assert_null(find(handles[i]));
        assert_ptr_equal(find(things[i]->name), things[i]);
        am_named_free(&things[i]->named);
    }
}

static void other_numbers_find_nothing(void **state)
{
    struct thing *thing = make();
    struct thing *unpublished = am_named_alloc(AM_KIND_PHYS, sizeof *unpublished);
    uintptr_t handle = (uintptr_t)thing->name;

    assert_null(find(NULL));
    assert_null(find(thing));
    assert_null(
        find((void *)((handle & ~(uintptr_t)AM_HANDLE_MAX) | unpublished->named.slot)));
    assert_null(find((void *)(handle + (1u << AM_HANDLE_BITS))));
    assert_null(find((void *)(handle | AM_HANDLE_MAX)));
    assert_null(find((void *)(handle ^ (uintptr_t)(AM_KIND_PHYS ^ AM_KIND_EVENT) << 56)));
    am_named_free(&thing->named);
    am_named_free(&unpublished->named);
}

static void each_published_object_of_a_kind_is_listed_once(void **state)
{
    static struct thing *things[N_MANY];
    struct am_named *other = am_named_alloc(AM_KIND_EVENT, sizeof *other);
    struct am_named *unpublished = am_named_alloc(AM_KIND_PHYS, sizeof *unpublished);
    struct thing *thing;
    uint32_t at = 0;
    int n = 0;

    am_named_publish(other);
    for (int i = 0; i < N_MANY; i++)
        things[i] = make();
    while ((thing = am_named_next(AM_KIND_PHYS, &at)) != NULL) {
        assert_ptr_equal(thing->name, thing->named.handle);
        thing->name = NULL;
        n++;
    }
    assert_int_equal(n, N_MANY);
    for (int i = 0; i < N_MANY; i++)
        am_named_free(&things[i]->named);
    at = 0;
    assert_null(am_named_next(AM_KIND_PHYS, &at));
    am_named_free(other);
    am_named_free(unpublished);
}

static const char *free_all(struct worker *self)
{
    struct thing **things = self->shared;

    for (int i = 0; i < N_MANY; i++)
        am_named_free(&things[i]->named);
    return NULL;
}

static void slots_that_another_thread_frees_are_used_again(void **state)
{
    static struct thing *things[N_MANY];
    struct worker worker = {.run = free_all, .shared = things};
    uint32_t highest[4] = {0};

    for (int round = 0; round < 4; round++) {
        for (int i = 0; i < N_MANY; i++) {
            things[i] = make();
            if (things[i]->named.slot > highest[round])
                highest[round] = things[i]->named.slot;
        }
        assert_null(run_workers(&worker, 1));
        am_epoch_synchronize();
    }
    assert_int_equal(highest[3], highest[0]);
}

/* Bits 62 to 56 hold the mark, so that no machine accepts a handle as an address. */
static void a_handle_is_not_an_address(void **state)
{
    struct thing *thing = make();

    assert_int_equal((uintptr_t)thing->name >> 56, 0x41);
    am_named_free(&thing->named);
}

static void a_message_says_why_a_handle_finds_nothing(void **state)
{
    struct thing *thing = make();
    uint64_t good = (uintptr_t)thing->name;
    const uint64_t foreign[] = {
        0,
        4096,
        (uintptr_t)thing,
        UINT64_MAX,
        good & ~(UINT64_C(0xff) << 56), /* neither mark nor kind */
        good & ~(UINT64_C(0x40) << 56), /* no mark */
        good & ~(UINT64_C(0x01) << 56), /* no kind */
        good | UINT64_C(0x3f) << 56,    /* a kind that does not exist */
        good | UINT64_C(1) << 63,
    };

    for (size_t i = 0; i < AM_ARRAY_SIZE(foreign); i++) {
        void *handle = (void *)(uintptr_t)foreign[i];

        assert_null(find(handle));
        assert_contains(am_handle_why(AM_KIND_PHYS, handle), "never");
    }
    assert_contains(am_handle_why(AM_KIND_PHYS, (void *)good), "is not alive");
    assert_contains(am_handle_why(AM_KIND_CONTEXT, (void *)good), "physical memory");
    am_named_free(&thing->named);
}

/* Publishing a second time gives another handle. */
static void each_handle_of_an_object_has_its_own_generation(void **state)
{
    struct thing *thing = make();
    void *first = thing->name;
    void *second;

    am_named_unpublish(&thing->named);
    am_named_unpublish(&thing->named); /* no effect */
    assert_null(find(first));
    second = am_named_publish(&thing->named);
    assert_int_equal((uintptr_t)second - (uintptr_t)first, 1u << AM_HANDLE_BITS);
    assert_ptr_equal(find(second), thing);
    am_named_free(&thing->named);
}

static void a_reference_is_refused_after_the_last_one_is_dropped(void **state)
{
    struct thing *thing = make();

    assert_ptr_equal(am_named_get(AM_KIND_PHYS, thing->name), thing);
    assert_false(am_ref_drop(&thing->named.refs));
    assert_true(am_ref_drop(&thing->named.refs));
    assert_null(am_named_get(AM_KIND_PHYS, thing->name));
    am_named_free(&thing->named);
}

/* The object, and a segment of slots where there is none. */
static void no_memory_gives_null(void **state)
{
    for (int n = 1; n <= 2; n++) {
        struct thing *things[1000];
        int made = 0;

        am_fault_arm(n, true);
        while (made < 1000 &&
               (things[made] = am_named_alloc(AM_KIND_PHYS, sizeof *things[0])) != NULL)
            made++;
        am_fault_disarm();
        while (made > 0)
            am_named_free(&things[--made]->named);
        am_epoch_synchronize();
    }
    am_named_free(&make()->named);
}

#define ROUNDS 20000

static _Atomic(void *) shown; /* a handle of an object that may be freed by now */

static const char *make_and_free(struct worker *self)
{
    for (int i = 0; i < ROUNDS; i++) {
        struct thing *thing;

        am_epoch_enter();
        thing = am_named_alloc(AM_KIND_PHYS, sizeof *thing);
        worker_check(thing != NULL);
        thing->name = thing;
        shown = am_named_publish(&thing->named);
        am_named_unpublish(&thing->named);
        if (am_ref_drop(&thing->named.refs))
            am_named_free(&thing->named);
        am_epoch_leave();
    }
    return NULL;
}

static const char *get_and_put(struct worker *self)
{
    for (int i = 0; i < ROUNDS; i++) {
        struct thing *thing;

        am_epoch_enter();
        thing = am_named_get(AM_KIND_PHYS, shown);
        worker_check(thing == NULL || thing->name == thing);
        am_epoch_leave();
        if (thing == NULL)
            continue;
        worker_check(thing->name == thing); /* the reference outlives the section */
        if (am_ref_drop(&thing->named.refs))
            am_named_free(&thing->named);
    }
    return NULL;
}

static void threads_find_objects_that_others_free(void **state)
{
    struct worker workers[4];

    for (unsigned i = 0; i < 4; i++)
        workers[i] = (struct worker){.run = i < 2 ? make_and_free : get_and_put};
    assert_null(run_workers(workers, 4));
    am_epoch_synchronize();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(handles_find_their_objects_until_they_are_freed),
        cmocka_unit_test(other_numbers_find_nothing),
        cmocka_unit_test(each_published_object_of_a_kind_is_listed_once),
        cmocka_unit_test(slots_that_another_thread_frees_are_used_again),
        cmocka_unit_test(a_handle_is_not_an_address),
        cmocka_unit_test(a_message_says_why_a_handle_finds_nothing),
        cmocka_unit_test(each_handle_of_an_object_has_its_own_generation),
        cmocka_unit_test(a_reference_is_refused_after_the_last_one_is_dropped),
        cmocka_unit_test(no_memory_gives_null),
        cmocka_unit_test(threads_find_objects_that_others_free),
    };
    int rc = cmocka_run_group_tests(tests, NULL, NULL);

    am_epoch_synchronize();
    return rc;
}
