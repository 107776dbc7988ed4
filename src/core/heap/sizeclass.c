/* See sizeclass.h. */
#include "core/heap/sizeclass.h"

#include "base/error.h"

/* The distance from this class to the next. */
static size_t class_step(size_t size, size_t page)
{
    size_t step = AM_BLOCK_ALIGN;

    if (size >= 1024)
        step = ((size_t)1 << (63 - __builtin_clzl(size))) / 8;
    return size >= page && step < page ? page : step;
}

static void class_add(struct am_classes *classes, size_t size)
{
    if (classes->n > 0 && size <= classes->size[classes->n - 1])
        return;
    am_assert(classes->n < AM_CLASSES_MAX);
    classes->size[classes->n++] = (uint32_t)size;
}

void am_classes_init(struct am_classes *classes, size_t page)
{
    unsigned c = 0;

    *classes = (struct am_classes){0};
    for (size_t size = AM_BLOCK_ALIGN; size <= 64 * AM_KIB;
         size += class_step(size, page))
        class_add(classes, size);
    for (size_t count = 31; count >= 2; count--)
        class_add(classes, AM_CHUNK / count & ~(page - 1));

    for (size_t i = 0; i < AM_ARRAY_SIZE(classes->by_64); i++) {
        while (classes->size[c] < (i + 1) * AM_BLOCK_ALIGN)
            c++;
        classes->by_64[i] = (uint8_t)c;
    }
}
