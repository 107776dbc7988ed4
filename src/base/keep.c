/* See keep.h. */
#include "base/keep.h"

#include <stdint.h>
#include <string.h>

#include "base/error.h"
#include "base/lock.h"
#include "base/sys.h"

/* Leak checkers look for pointers in memory that they know; NULL: none is there. */
extern void __lsan_register_root_region(const void *start, size_t size)
    __attribute__((weak));

struct kept_text {
    struct kept_text *next;
    char text[];
};

static struct {
    struct am_lock lock;
    struct kept_text *first; /* lock */
} texts = {.lock = AM_LOCK_INIT(AM_RANK_LEAF, "kept texts")};

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

static struct kept_text *text_keep_locked(const char *text) AM_REQUIRES(texts.lock)
{
    size_t size = strlen(text) + 1;
    struct kept_text *kept = texts.first;

    while (kept != NULL && strcmp(kept->text, text) != 0)
        kept = kept->next;
    if (kept != NULL)
        return kept;
    kept = am_keep(sizeof *kept + size);
    if (kept == NULL)
        return NULL;
    memcpy(kept->text, text, size);
    kept->next = texts.first;
    texts.first = kept;
    return kept;
}

const char *am_keep_text(const char *text)
{
    struct kept_text *kept;

    am_lock(&texts.lock);
    kept = text_keep_locked(text);
    am_unlock(&texts.lock);
    return kept != NULL ? kept->text : NULL;
}
