/*
 * Size classes: the sizes that blocks of up to 1 MB are rounded up to.
 *
 * Multiples of 64 to 1 KB, then eight to a doubling to 64 KB, so that at most an eighth
 * is lost.  Above, the sizes that 31, 30, ... 2 blocks of a 2 MB chunk can have: a chunk
 * is filled to its end, and 128 KB with the padding of aclrtMalloc loses 7 percent, not
 * 20.
 *
 * `page` is what sizes from a page on are multiples of: 64, or 4096 where such blocks
 * must start on pages.
 */
#ifndef AM_CORE_SIZECLASS_H
#define AM_CORE_SIZECLASS_H

#include <stddef.h>
#include <stdint.h>

#include "base/util.h"

#define AM_BLOCK_ALIGN 64
#define AM_SMALL_MAX AM_MIB /* larger blocks are whole chunks */
#define AM_CLASSES_MAX 112
#define AM_CLASS_LARGE AM_CLASSES_MAX /* blocks above AM_SMALL_MAX */

struct am_classes {
    unsigned n;
    uint32_t size[AM_CLASSES_MAX];
    /* the class for n * 64 + 1 to n * 64 + 64 bytes */
    uint8_t by_64[AM_SMALL_MAX / AM_BLOCK_ALIGN];
};

void am_classes_init(struct am_classes *classes, size_t page);

/* The smallest class that holds size bytes, 1 to AM_SMALL_MAX. */
static inline unsigned am_class_of(const struct am_classes *classes, size_t size)
{
    return classes->by_64[(size - 1) / AM_BLOCK_ALIGN];
}

#endif
