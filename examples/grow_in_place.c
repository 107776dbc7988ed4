/*
 * An array that grows in place.
 *
 * Addresses cost nothing, so one reservation holds all that the array may ever become.
 * Memory is put behind it as it grows, a granule at a time: nothing is copied, no
 * pointer into it goes stale, and the device gives no more than what is used.  A copy
 * does not see where one piece ends.
 */
#include <stdint.h>

#include "acl/acl.h"
#include "example.h"

#define MOST (1024 * MB) /* what the array may grow to: addresses, not memory */
#define STEP (2 * MB)
#define N_APPENDS 12
#define N_EACH (3 * MB / sizeof(uint32_t)) /* numbers in one append */

struct array {
    uint32_t *data; /* on the device; never changes */
    size_t size;    /* bytes in use */
    size_t n_steps; /* of memory behind data */
    aclrtDrvMemHandle handle[MOST / STEP];
};

/* Has memory behind the first `size` bytes. */
static void array_reach(struct array *array, size_t size)
{
    for (; array->n_steps * STEP < size; array->n_steps++) {
        aclrtDrvMemHandle *handle = &array->handle[array->n_steps];

        CHECK(aclrtMallocPhysical(handle, STEP, &device_memory, 0));
        CHECK(aclrtMapMem((char *)array->data + array->n_steps * STEP, STEP, 0, *handle,
                          0));
    }
}

static void array_append(struct array *array, const uint32_t *numbers, size_t n)
{
    size_t more = n * sizeof *numbers;

    array_reach(array, array->size + more);
    CHECK(aclrtMemcpy((char *)array->data + array->size, more, numbers, more,
                      ACL_MEMCPY_HOST_TO_DEVICE));
    array->size += more;
}

static void array_destroy(struct array *array)
{
    while (array->n_steps-- > 0) {
        CHECK(aclrtUnmapMem((char *)array->data + array->n_steps * STEP));
        CHECK(aclrtFreePhysical(array->handle[array->n_steps]));
    }
    CHECK(aclrtReleaseMemAddress(array->data));
}

int main(void)
{
    static uint32_t numbers[N_EACH];
    static uint32_t back[N_APPENDS * N_EACH];
    static struct array array;
    size_t n_wrong = 0;

    CHECK(aclInit(NULL));
    CHECK(aclrtSetDevice(0));
    CHECK(aclrtReserveMemAddress((void **)&array.data, MOST, 0, NULL, 1));
    printf("%zu MB of addresses at %p, no memory yet\n", MOST / MB, (void *)array.data);

    for (uint32_t round = 0; round < N_APPENDS; round++) {
        for (uint32_t i = 0; i < N_EACH; i++)
            numbers[i] = round * (uint32_t)N_EACH + i;
        array_append(&array, numbers, N_EACH);
        if ((round & (round + 1)) == 0 || round == N_APPENDS - 1)
            printf("%2zu MB in the array, %2zu pieces of memory, still at %p\n",
                   array.size / MB, array.n_steps, (void *)array.data);
    }

    /* One call, across all pieces. */
    CHECK(aclrtMemcpy(back, sizeof back, array.data, array.size,
                      ACL_MEMCPY_DEVICE_TO_HOST));
    for (uint32_t i = 0; i < N_APPENDS * N_EACH; i++)
        n_wrong += back[i] != i;
    printf("one copy of %zu MB back: %u numbers, %zu of them wrong\n", array.size / MB,
           (unsigned)(N_APPENDS * N_EACH), n_wrong);

    array_destroy(&array);
    CHECK(aclrtResetDevice(0));
    CHECK(aclFinalize());
    return n_wrong != 0;
}
