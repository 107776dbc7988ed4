/* See keep.h. */
#include "base/keep.h"

#include <stdint.h>

#include "base/error.h"
#include "base/sys.h"

/* Leak checkers look for pointers in memory that they know; NULL: none is there. */
extern void __lsan_register_root_region(const void *start, size_t size)
    __attribute__((weak));

static void *keep_large(size_t size)
{
    char *wide = am_sys_mmap(NULL, size + AM_KEEP_LARGE, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    char *start;
    size_t before;

    if (wide == MAP_FAILED)
        return NULL;
    start = (char *)am_align_up((uintptr_t)wide, AM_KEEP_LARGE);
    before = (size_t)(start - wide);
    if (before > 0)
        munmap(wide, before);
    munmap(start + size, AM_KEEP_LARGE - before);
    madvise(start, size, MADV_HUGEPAGE); /* a wish */
    if (__lsan_register_root_region != NULL)
        __lsan_register_root_region(start, size);
    return start;
}

void *am_keep(size_t size)
{
    am_assert(size < AM_KEEP_LARGE || am_is_aligned(size, AM_KEEP_LARGE));
    return size < AM_KEEP_LARGE ? am_sys_calloc(1, size) : keep_large(size);
}
