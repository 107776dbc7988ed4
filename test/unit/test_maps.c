/* Whether memory is there: each of the ways to find out, with the same answers. */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/maps.h"

#define PAGE ((size_t)4096)
#define LONG_RANGE (256 * PAGE) /* more than is asked page by page */

static char *pages(size_t n)
{
    char *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    assert_ptr_not_equal(p, MAP_FAILED);
    return p;
}

static int check(const char *p, size_t size, unsigned access)
{
    return am_maps_check((uintptr_t)p, size, access);
}

/* A range of `size` bytes, of which the page at `at` is made bad in each way. */
static void range_is_judged(size_t size, size_t at)
{
    char *p = pages(size);
    const unsigned both = AM_MAPS_READ | AM_MAPS_WRITE;

    assert_int_equal(check(p, size, both), 0);
    assert_int_equal(check(p + 1, size - 1, AM_MAPS_READ), 0);
    for (size_t i = 0; i < size; i++)
        assert_int_equal(p[i], 0);
    memset(p, 0x7f, size);
    assert_int_equal(check(p + 3, size - 5, AM_MAPS_WRITE), 0);
    for (size_t i = 0; i < size; i++)
        assert_int_equal(p[i], 0x7f);

    mprotect(p + at, PAGE, PROT_READ);
    assert_int_equal(check(p, size, AM_MAPS_READ), 0);
    assert_int_equal(check(p, size, AM_MAPS_WRITE), -EACCES);
    assert_int_equal(check(p, size, both), -EACCES);
    mprotect(p + at, PAGE, PROT_NONE);
    assert_int_equal(check(p, size, AM_MAPS_READ), -EACCES);
    assert_int_equal(check(p, size, AM_MAPS_WRITE), -EACCES);
    if (at > 0)
        assert_int_equal(check(p, at, both), 0);
    munmap(p + at, PAGE);
    assert_int_equal(check(p, size, AM_MAPS_READ), -EFAULT);
    assert_int_equal(check(p, size, AM_MAPS_WRITE), -EFAULT);
    if (at > 0) {
        assert_int_equal(check(p, at, both), 0);
        assert_int_equal(check(p + at - 1, 2, AM_MAPS_READ), -EFAULT);
    }
    munmap(p, size);
}

static void ranges_are_judged(void)
{
    range_is_judged(PAGE, 0);
    range_is_judged(3 * PAGE, 0);
    range_is_judged(3 * PAGE, PAGE);
    range_is_judged(3 * PAGE, 2 * PAGE);
    range_is_judged(LONG_RANGE, 0);
    range_is_judged(LONG_RANGE, LONG_RANGE / 2);
    range_is_judged(LONG_RANGE, LONG_RANGE - PAGE);
    assert_int_equal(check((char *)16, 1, AM_MAPS_READ), -EFAULT);
    assert_int_equal(check((char *)(UINTPTR_MAX - 100), 101, AM_MAPS_READ), -EFAULT);
    assert_int_equal(check((char *)(UINTPTR_MAX - 100), 101, AM_MAPS_WRITE), -EFAULT);
}

static void the_kernel_answers(void **state)
{
    am_maps_open();
    ranges_are_judged();
    am_maps_close();
}

static void without_the_kernels_answer_pages_and_the_text_do(void **state)
{
    am_fault_arm(1, false);
    am_maps_open();
    am_fault_disarm();
    assert_true(am_fault_fired());
    ranges_are_judged();
    am_maps_close();
}

/* A program that closes what it did not open. */
static void a_descriptor_that_is_gone_is_not_trusted(void **state)
{
    am_maps_open();
    for (int fd = 3; fd < 2048; fd++)
        close(fd);
    ranges_are_judged();
    am_maps_close();
}

static void memory_behind_the_end_of_its_file_is_none(void **state)
{
    int fd = memfd_create("short", MFD_CLOEXEC);
    char *p;

    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, PAGE), 0);
    p = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_ptr_not_equal(p, MAP_FAILED);
    assert_int_equal(check(p, PAGE, AM_MAPS_READ), 0);
    assert_int_equal(check(p, 2 * PAGE, AM_MAPS_READ), -EFAULT);
    munmap(p, 2 * PAGE);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_kernel_answers),
        cmocka_unit_test(without_the_kernels_answer_pages_and_the_text_do),
        cmocka_unit_test(memory_behind_the_end_of_its_file_is_none),
        cmocka_unit_test(a_descriptor_that_is_gone_is_not_trusted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
