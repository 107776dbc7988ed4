/*
 * One contiguous range over scattered memory.
 *
 * A device is filled with small pieces, and every other one is freed: half of its memory
 * is free, but no two free pieces are neighbours.  Physical memory needs no neighbours.
 * The free pieces are mapped side by side, and to everybody who uses the range it is
 * one.
 */
#include <stdint.h>
#include <string.h>

#include "acl/acl.h"
#include "example.h"

#define PIECE (2 * MB)
#define MOST 128 /* pieces: no more than 256 MB are used, however much the device has */

static aclrtDrvMemHandle handle[MOST];

static void piece_make(size_t i, char *addr)
{
    CHECK(aclrtMallocPhysical(&handle[i], PIECE, &device_memory, 0));
    CHECK(aclrtMapMem(addr, PIECE, 0, handle[i], 0));
}

static void piece_drop(size_t i, char *addr)
{
    CHECK(aclrtUnmapMem(addr));
    CHECK(aclrtFreePhysical(handle[i]));
}

/* Whether all the bytes at addr are `value`. */
static int holds(const char *addr, int value, size_t size)
{
    char *back = malloc(size);
    int is_same = 0;

    if (back != NULL) {
        CHECK(aclrtMemcpy(back, size, addr, size, ACL_MEMCPY_DEVICE_TO_HOST));
        is_same = back[0] == value && memcmp(back, back + 1, size - 1) == 0;
    }
    free(back);
    return is_same;
}

int main(void)
{
    int is_right;
    size_t half;
    char *small;
    char *large;

    /* A small device is soon full; what the user has set counts more. */
    setenv("ACLMEM_MEMORY", "256M", 0);
    CHECK(aclInit(NULL));
    CHECK(aclrtSetDevice(0));
    half = free_memory() / PIECE < MOST ? free_memory() / PIECE / 2 : MOST / 2;
    printf("the device                     %4zu MB free\n", free_memory() / MB);

    CHECK(aclrtReserveMemAddress((void **)&small, 2 * half * PIECE, 0, NULL, 1));
    for (size_t i = 0; i < 2 * half; i++) {
        piece_make(i, small + i * PIECE);
        CHECK(aclrtMemset(small + i * PIECE, PIECE, (int)i & 1, PIECE));
    }
    printf("%3zu pieces of %zu MB allocated   %4zu MB free\n", 2 * half, PIECE / MB,
           free_memory() / MB);
    for (size_t i = 0; i < 2 * half; i += 2)
        piece_drop(i, small + i * PIECE);
    printf("every other one freed          %4zu MB free, in holes of %zu MB\n",
           free_memory() / MB, PIECE / MB);

    CHECK(aclrtReserveMemAddress((void **)&large, half * PIECE, 0, NULL, 1));
    for (size_t i = 0; i < half; i++)
        piece_make(2 * i, large + i * PIECE);
    CHECK(aclrtMemset(large, half * PIECE, 'x', half * PIECE));
    is_right = holds(large, 'x', half * PIECE);
    printf("one range of %3zu MB over them  %4zu MB free\n", half * PIECE / MB,
           free_memory() / MB);

    for (size_t i = 1; i < 2 * half; i += 2)
        is_right = is_right && holds(small + i * PIECE, 1, PIECE);
    printf("written and read as one, and the pieces between are as they were: %s\n",
           is_right ? "yes" : "no");

    for (size_t i = 0; i < half; i++) {
        piece_drop(2 * i, large + i * PIECE);
        piece_drop(2 * i + 1, small + (2 * i + 1) * PIECE);
    }
    CHECK(aclrtReleaseMemAddress(large));
    CHECK(aclrtReleaseMemAddress(small));
    CHECK(aclrtResetDevice(0));
    CHECK(aclFinalize());
    return !is_right;
}
