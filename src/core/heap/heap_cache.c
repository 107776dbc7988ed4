/* See heap_cache.h. */
#include "core/heap/heap_cache.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/error.h"
#include "base/sys.h"

static pthread_once_t cache_once = PTHREAD_ONCE_INIT;
static pthread_key_t cache_key; /* for its destructor; am_cache is faster to reach */
_Thread_local struct am_cache *am_cache;

static void cache_destroy(void *arg)
{
    struct am_cache *cache = arg;
    bool is_ours = cache->pid == getpid();

    am_current.lists = NULL;
    am_cache = NULL; /* a later free in this thread makes a new one */
    for (unsigned i = 0; i < AM_HEAPS; i++) {
        struct am_bins *bins = cache->of[i];

        for (unsigned c = 0; bins != NULL && is_ours && c < AM_BINS_MAX; c++)
            am_heap_flush(&am_heaps[i], &bins->bin[c], 0);
        free(bins);
    }
    free(cache);
}

static void cache_make_key(void)
{
    pthread_key_create(&cache_key, cache_destroy);
}

static struct am_cache *cache_create(void)
{
    struct am_cache *cache = am_sys_calloc(1, sizeof *cache);

    if (cache == NULL)
        return NULL;
    pthread_once(&cache_once, cache_make_key);
    cache->pid = getpid();
    if (pthread_setspecific(cache_key, cache) != 0) {
        free(cache);
        return NULL;
    }
    am_cache = cache;
    return cache;
}

/* About 64 KB of each class, two blocks at least: one to take and one to give. */
static struct am_bins *bins_create(const struct am_heap *heap)
{
    const struct am_classes *classes = heap->classes;
    struct am_bins *bins = am_sys_calloc(1, sizeof *bins);

    am_assert(classes->n_cached <= AM_BINS_MAX);
    if (bins == NULL)
        return NULL;
    bins->heap = heap;
    bins->class_of = classes->by_64;
    for (unsigned c = 0; c <= AM_BINS_MAX; c++) {
        size_t n = c < classes->n_cached ? 64 * AM_KIB / classes->size[c] : 0;
        struct am_bin *bin = &bins->bin[c];

        if (c < classes->n_cached && n < 2)
            n = 2;
        bin->top = bin->entry;
        bin->limit = bin->entry + (n < AM_BIN_MAX ? n : AM_BIN_MAX);
    }
    return bins;
}

struct am_bins *am_cache_make(struct am_heap *heap)
{
    struct am_cache *cache = am_cache != NULL ? am_cache : cache_create();

    if (cache == NULL)
        return NULL;
    if (cache->of[heap->index] == NULL)
        cache->of[heap->index] = bins_create(heap);
    return cache->of[heap->index];
}

void *am_entry_moved(const struct am_entry *entry)
{
    return (void *)(entry->run->start + (entry->addr - entry->start));
}
