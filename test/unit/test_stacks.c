/*
 * Stacks as numbers.  This program has the library's objects in it, so that its own frames
 * are "the library's": the way into it is a function of libc that calls back.
 */
#include "unit.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "layer/modules.h"
#include "layer/stacks.h"

static uint32_t taken;

static int take(const void *a, const void *b)
{
    taken = am_stack_take();
    return 0;
}

/* An aarch64 function that signs its return address. */
#ifdef __aarch64__
#define SIGNED_RETURN __attribute__((target("branch-protection=pac-ret")))
#else
#define SIGNED_RETURN
#endif

/* Not inlined and not a tail call: the frame is there. */
static __attribute__((noinline)) uint32_t by_bsearch(void)
{
    int key = 1;

    bsearch(&key, &key, 1, sizeof key, take);
    return taken;
}

static __attribute__((noinline)) SIGNED_RETURN uint32_t by_qsort(void)
{
    int keys[2] = {1, 2};

    qsort(keys, 2, sizeof keys[0], take);
    return taken;
}

static void equal_stacks_have_equal_numbers(void **state)
{
    /* One place that calls: a loop may be unrolled, which makes several. */
    uint32_t (*volatile by[3])(void) = {by_qsort, by_qsort, by_bsearch};
    uint32_t number[3];

#pragma GCC unroll 1
    for (int i = 0; i < 3; i++)
        number[i] = by[i]();
    assert_int_not_equal(number[0], 0);
    assert_int_equal(number[0], number[1]);
    assert_int_not_equal(number[0], number[2]);
}

static void a_stack_is_addresses_in_modules_that_have_names(void **state)
{
    uint32_t era;
    size_t n;
    const uintptr_t *frames = am_stack_frames(by_qsort(), &n, &era);
    int number = am_module_find(frames[0] - 1, era);

    assert_in_range(n, 3,
                    AM_STACK_FRAMES_MAX); /* qsort, by_qsort, the test, cmocka ... */
    assert_int_not_equal(number, -1);
    assert_non_null(strstr(am_module_get(number)->path, "libc"));
    assert_int_equal(strlen(am_module_get(number)->build_id), 40);
}

static void the_library_itself_is_a_module_and_left_out(void **state)
{
    const struct am_module *own = am_module_own();
    uint32_t era;
    size_t n;
    const uintptr_t *frames = am_stack_frames(by_qsort(), &n, &era);

    assert_non_null(own);
    assert_in_range((uintptr_t)am_stack_take, own->start, own->end);
    assert_true(frames[0] < own->start || frames[0] >= own->end);
}

static void there_is_no_stack_0(void **state)
{
    uint32_t era;
    size_t n = 1;

    assert_null(am_stack_frames(0, &n, &era));
    assert_int_equal(n, 0);
    assert_null(am_stack_frames(UINT32_MAX, &n, &era));
}

static void *in_a_thread(void *ret)
{
    *(uint32_t *)ret = by_qsort();
    return NULL;
}

static void threads_share_the_numbers(void **state)
{
    uint32_t number[2] = {0, 0};

    for (int i = 0; i < 2; i++) {
        pthread_t thread;

        assert_int_equal(pthread_create(&thread, NULL, in_a_thread, &number[i]), 0);
        pthread_join(thread, NULL);
    }
    assert_int_not_equal(number[0], 0);
    assert_int_equal(number[0], number[1]);
    assert_in_range(am_stacks_count(), number[0], 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_stacks_have_equal_numbers),
        cmocka_unit_test(a_stack_is_addresses_in_modules_that_have_names),
        cmocka_unit_test(the_library_itself_is_a_module_and_left_out),
        cmocka_unit_test(there_is_no_stack_0),
        cmocka_unit_test(threads_share_the_numbers),
    };

    am_stacks_open();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
