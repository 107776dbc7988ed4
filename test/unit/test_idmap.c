/*
 * Handles: stale ones, other kinds, numbers never given, growth, and what a failed add
 * leaves.
 */
#include "unit.h"

#include <stdlib.h>
#include <string.h>

#include "base/idmap.h"
#include "base/keep.h"
#include "base/slab.h"
#include "base/sys.h"
#include "base/util.h"
#include "moments.h"
#include "support/process.h"

#define SLOT_BITS 28
#define SLOTS_FIRST 256 /* what a new map grows to */

static int map_make(void **state)
{
    struct am_idmap fresh = AM_IDMAP_INIT("test");
    struct am_idmap *map = malloc(sizeof *map);

    if (map == NULL)
        return -1;
    *map = fresh;
    *state = map;
    return 0;
}

static int map_drop(void **state)
{
    struct am_idmap *map = *state;
    size_t size = SLOTS_FIRST * sizeof(struct am_idslot);

    free(map->segments[0]);
    for (int i = 1; size < AM_KEEP_LARGE; i++, size *= 2) /* large ones stay: keep.h */
        free(map->segments[i]);
    free(map);
    return 0;
}

static uint64_t value(void *handle)
{
    return (uint64_t)(uintptr_t)handle;
}

static uint32_t slot_of(void *handle)
{
    return (uint32_t)value(handle) & ((1u << SLOT_BITS) - 1);
}

/* No object of these tests is freed while another thread gets it. */
static void put_never(struct am_object *object)
{
    fail();
}

static struct am_object *get(struct am_idmap *map, enum am_kind kind, void *handle)
{
    return am_idmap_get(map, kind, handle, put_never);
}

static void *add(struct am_idmap *map, enum am_kind kind, struct am_object *object)
{
    void *handle = NULL;

    assert_int_equal(am_idmap_add(map, kind, object, &handle), 0);
    assert_non_null(handle);
    return handle;
}

static void a_handle_gives_its_object_with_one_more_reference(void **state)
{
    struct am_idmap *map = *state;
    struct am_object object = {1};
    void *handle = add(map, AM_KIND_PHYS, &object);

    assert_int_equal(object.refs, 1);
    assert_ptr_equal(get(map, AM_KIND_PHYS, handle), &object);
    assert_int_equal(object.refs, 2);
}

/* Bits 62 to 56 hold the mark, so no machine takes it for an address. */
static void a_handle_is_not_an_address(void **state)
{
    struct am_idmap *map = *state;
    struct am_object object = {1};

    assert_int_equal(value(add(map, AM_KIND_PHYS, &object)) >> 56, 0x41);
    assert_int_equal(value(add(map, AM_KIND_CONTEXT, &object)) >> 56, 0x42);
}

static void a_removed_handle_names_nothing(void **state)
{
    struct am_idmap *map = *state;
    struct am_object object = {1};
    void *handle = add(map, AM_KIND_PHYS, &object);

    am_idmap_remove(map, handle);
    assert_null(get(map, AM_KIND_PHYS, handle));
    assert_int_equal(object.refs, 1);
    assert_contains(am_idmap_why(AM_KIND_PHYS, handle), "is not alive");
}

static void a_stale_handle_does_not_name_the_next_object_of_its_slot(void **state)
{
    struct am_idmap *map = *state;
    struct am_object object = {1};
    void *stale = add(map, AM_KIND_PHYS, &object);
    void *handle = NULL;

    am_idmap_remove(map, stale);
    for (int i = 0; i < SLOTS_FIRST; i++)
        handle = add(map, AM_KIND_PHYS, &object);
    assert_int_equal(slot_of(handle), slot_of(stale));
    assert_ptr_not_equal(handle, stale);
    assert_null(get(map, AM_KIND_PHYS, stale));
    assert_ptr_equal(get(map, AM_KIND_PHYS, handle), &object);
}

static void a_handle_of_another_kind_is_told_apart(void **state)
{
    struct am_idmap *map = *state;
    struct am_object object = {1};
    void *phys = add(map, AM_KIND_PHYS, &object);
    void *context = add(map, AM_KIND_CONTEXT, &object);

    assert_null(get(map, AM_KIND_CONTEXT, phys));
    assert_null(get(map, AM_KIND_PHYS, context));
    assert_null(get(map, AM_KIND_NONE, phys));
    assert_int_equal(object.refs, 1);
    assert_contains(am_idmap_why(AM_KIND_CONTEXT, phys), "physical memory");
    assert_contains(am_idmap_why(AM_KIND_PHYS, context), "is a context");
}

/*
 * The kind is also in the map: a number made up from a handle's with another kind is
 * none.
 */
static void a_forged_kind_is_no_handle(void **state)
{
    struct am_idmap *map = *state;
    struct am_object object = {1};
    uintptr_t phys = (uintptr_t)add(map, AM_KIND_PHYS, &object);
    uintptr_t kinds = (uintptr_t)(AM_KIND_PHYS ^ AM_KIND_CONTEXT) << 56;

    assert_null(get(map, AM_KIND_CONTEXT, (void *)(phys ^ kinds)));
    assert_int_equal(object.refs, 1);
}

static void a_number_that_was_never_given_is_no_handle(void **state)
{
    struct am_idmap *map = *state;
    struct am_object object = {1};
    uint64_t good = value(add(map, AM_KIND_PHYS, &object));
    const uint64_t foreign[] = {
        0,
        1,
        4096,
        (uint64_t)(uintptr_t)&object,
        UINT64_MAX,
        UINT64_C(1) << 63,
        good & ~(UINT64_C(0xff) << 56), /* neither mark nor kind */
        good & ~(UINT64_C(0x40) << 56), /* no mark */
        good & ~(UINT64_C(0x01) << 56), /* no kind */
        good | UINT64_C(0x3f) << 56,    /* a kind that there is not */
        good | UINT64_C(1) << 63,
    };
    const uint64_t unborn[] = {
        good + SLOTS_FIRST,                /* behind the last slot */
        good | ((1u << SLOT_BITS) - 1),    /* the highest slot */
        good + 1,                          /* a slot that nobody has had */
        good + (UINT64_C(1) << SLOT_BITS), /* the next generation */
    };

    for (size_t i = 0; i < AM_ARRAY_SIZE(foreign); i++) {
        void *handle = (void *)(uintptr_t)foreign[i];

        assert_null(get(map, AM_KIND_PHYS, handle));
        assert_null(get(map, AM_KIND_NONE, handle));
        assert_contains(am_idmap_why(AM_KIND_PHYS, handle), "never");
    }
    for (size_t i = 0; i < AM_ARRAY_SIZE(unborn); i++)
        assert_null(get(map, AM_KIND_PHYS, (void *)(uintptr_t)unborn[i]));
    assert_int_equal(object.refs, 1);
}

static void an_object_without_references_is_not_found(void **state)
{
    struct am_idmap *map = *state;
    struct am_object object = {0};
    void *handle = add(map, AM_KIND_PHYS, &object);

    assert_null(get(map, AM_KIND_PHYS, handle));
    assert_int_equal(object.refs, 0);
}

static void freed_slots_are_used_again_in_the_order_they_were_freed(void **state)
{
    struct am_idmap *map = *state;
    struct am_object object = {1};
    void *handles[SLOTS_FIRST];
    static const size_t freed[] = {200, 3, 77, 0, 255};

    for (size_t i = 0; i < SLOTS_FIRST; i++)
        handles[i] = add(map, AM_KIND_PHYS, &object);
    for (size_t i = 0; i < AM_ARRAY_SIZE(freed); i++)
        am_idmap_remove(map, handles[freed[i]]);
    for (size_t i = 0; i < AM_ARRAY_SIZE(freed); i++) {
        void *handle = add(map, AM_KIND_PHYS, &object);

        assert_int_equal(slot_of(handle), slot_of(handles[freed[i]]));
        assert_int_equal(value(handle) - value(handles[freed[i]]), 1u << SLOT_BITS);
    }
    assert_int_equal(map->n_segments, 1);
}

static void the_generation_starts_over_without_touching_the_mark(void **state)
{
    struct am_idmap *map = *state;
    struct am_object object = {1};
    void *first = add(map, AM_KIND_PHYS, &object);
    void *last;
    void *handle = NULL;

    am_idmap_remove(map, first);
    map->segments[0][slot_of(first)].generation = (1u << SLOT_BITS) - 1;
    for (int i = 0; i < SLOTS_FIRST; i++)
        last = add(map, AM_KIND_PHYS, &object);
    assert_int_equal(slot_of(last), slot_of(first));
    am_idmap_remove(map, last);
    handle = add(map, AM_KIND_PHYS, &object);
    assert_int_equal(value(handle) >> 56, 0x41);
    assert_int_equal(value(handle) >> SLOT_BITS & ((1u << SLOT_BITS) - 1), 0);
    assert_null(get(map, AM_KIND_PHYS, last));
    assert_ptr_equal(get(map, AM_KIND_PHYS, handle), &object);
}

#define N_MANY 100000

static void a_hundred_thousand_handles_are_all_different_and_all_found(void **state)
{
    struct am_idmap *map = *state;
    struct am_object *objects = calloc(N_MANY, sizeof *objects);
    void **handles = calloc(N_MANY, sizeof *handles);

    assert_true(objects != NULL && handles != NULL);
    for (size_t i = 0; i < N_MANY; i++) {
        objects[i].refs = 1;
        handles[i] = add(map, i % 2 ? AM_KIND_PHYS : AM_KIND_CONTEXT, &objects[i]);
    }
    for (size_t i = 0; i < N_MANY; i += 2)
        am_idmap_remove(map, handles[i]);
    for (size_t i = 0; i < N_MANY; i++) {
        enum am_kind kind = i % 2 ? AM_KIND_PHYS : AM_KIND_CONTEXT;

        assert_ptr_equal(get(map, kind, handles[i]), i % 2 ? &objects[i] : NULL);
        assert_int_equal(objects[i].refs, i % 2 ? 2 : 1);
    }
    free(handles);
    free(objects);
}

static void failed_add_changes_nothing(void **state)
{
    struct am_idmap *map = *state;
    struct am_object object = {1};
    void *const untouched = &object;
    void *handles[SLOTS_FIRST];
    void *handle = untouched;

    am_fault_arm(1, true);
    assert_int_equal(am_idmap_add(map, AM_KIND_PHYS, &object, &handle), -ENOMEM);
    am_fault_disarm();
    assert_ptr_equal(handle, untouched);
    assert_int_equal(map->n_segments, 0);

    for (size_t i = 0; i < SLOTS_FIRST; i++)
        handles[i] = add(map, AM_KIND_PHYS, &object);
    am_fault_arm(1, true);
    assert_int_equal(am_idmap_add(map, AM_KIND_PHYS, &object, &handle), -ENOMEM);
    am_fault_disarm();
    assert_ptr_equal(handle, untouched);
    assert_int_equal(map->n_segments, 1);
    for (size_t i = 0; i < SLOTS_FIRST; i++)
        assert_ptr_equal(get(map, AM_KIND_PHYS, handles[i]), &object);
    assert_int_equal(slot_of(add(map, AM_KIND_PHYS, &object)), SLOTS_FIRST);
}

static void a_map_does_not_grow_beyond_what_a_handle_can_name(void **state)
{
    struct am_idmap *map = *state;
    struct am_object object = {1};
    void *handle;

    map->n_segments = AM_IDMAP_SEGMENTS; /* and no slot of them is free */
    am_fault_arm(1, true);
    assert_int_equal(am_idmap_add(map, AM_KIND_PHYS, &object, &handle), -ENOMEM);
    am_fault_disarm();
    assert_false(am_fault_fired()); /* nobody was asked for memory */
    map->n_segments = 0;
}

static const char *add_get_remove(struct worker *self)
{
    struct am_idmap *map = self->shared;
    struct am_object object = {1};
    void *handles[64];

    for (int round = 0; round < 200; round++) {
        for (size_t i = 0; i < AM_ARRAY_SIZE(handles); i++)
            worker_check(am_idmap_add(map, AM_KIND_PHYS, &object, &handles[i]) == 0);
        for (size_t i = 0; i < AM_ARRAY_SIZE(handles); i++) {
            worker_check(get(map, AM_KIND_PHYS, handles[i]) == &object);
            am_idmap_remove(map, handles[i]);
            worker_check(get(map, AM_KIND_PHYS, handles[i]) == NULL);
        }
    }
    worker_check(object.refs == 1 + 200 * AM_ARRAY_SIZE(handles));
    return NULL;
}

static void threads_find_their_own_objects(void **state)
{
    struct worker workers[4];
    const char *failure;

    for (unsigned i = 0; i < 4; i++)
        workers[i] = (struct worker){.run = add_get_remove, .shared = *state};
    failure = run_workers(workers, 4);
    if (failure != NULL)
        fail_msg("%s", failure);
}

/* An object that knows its handle, in memory that is only used for such. */
struct named {
    struct am_object object;
    _Atomic(void *) handle;
};

static struct am_slab named_slab = AM_SLAB_INIT(struct named, "named");

static void named_put(struct am_object *object)
{
    if (am_ref_drop(&object->refs))
        am_slab_give(&named_slab, object);
}

/* The object dies and the next one is made in the same memory, in the same slot or not. */
struct successor {
    struct am_idmap *map;
    struct named *named;
    enum am_kind kind; /* of the next one */
};

static void succeed(void *arg)
{
    struct successor *s = arg;
    struct named *next;

    am_idmap_remove(s->map, s->named->handle);
    named_put(&s->named->object);
    next = am_slab_take(&named_slab);
    assert_ptr_equal(next, s->named);
    next->object.refs = 1;
    next->handle = add(s->map, s->kind, &next->object);
}

static void a_handle_never_gives_the_object_that_came_after_its_own(void **state)
{
    struct successor s = {.map = *state, .kind = AM_KIND_PHYS};
    void *handle;

    s.named = am_slab_take(&named_slab);
    s.named->object.refs = 1;
    s.named->handle = handle = add(s.map, AM_KIND_PHYS, &s.named->object);
    moment_arm(1, succeed, &s);
    assert_null(am_idmap_get(s.map, AM_KIND_PHYS, handle, named_put));
    assert_true(moment_disarm());
    assert_int_equal(s.named->object.refs, 1);
    assert_ptr_equal(am_idmap_get(s.map, AM_KIND_PHYS, s.named->handle, named_put),
                     &s.named->object);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define on_a_new_map(f_) cmocka_unit_test_setup_teardown(f_, map_make, map_drop)
        on_a_new_map(a_handle_gives_its_object_with_one_more_reference),
        on_a_new_map(a_handle_is_not_an_address),
        on_a_new_map(a_removed_handle_names_nothing),
        on_a_new_map(a_stale_handle_does_not_name_the_next_object_of_its_slot),
        on_a_new_map(a_handle_of_another_kind_is_told_apart),
        on_a_new_map(a_forged_kind_is_no_handle),
        on_a_new_map(a_number_that_was_never_given_is_no_handle),
        on_a_new_map(an_object_without_references_is_not_found),
        on_a_new_map(freed_slots_are_used_again_in_the_order_they_were_freed),
        on_a_new_map(the_generation_starts_over_without_touching_the_mark),
        on_a_new_map(a_hundred_thousand_handles_are_all_different_and_all_found),
        on_a_new_map(failed_add_changes_nothing),
        on_a_new_map(a_map_does_not_grow_beyond_what_a_handle_can_name),
        on_a_new_map(threads_find_their_own_objects),
        on_a_new_map(a_handle_never_gives_the_object_that_came_after_its_own),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
