/* See heap_cache.h. */
#include "core/heap/heap_cache.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/sys.h"
#include "core/heap/heap_runs.h"

/* Bytes of blocks above AM_CACHED_MAX that threads keep: */
#define KEPT_ALL (128 * AM_MIB) /* all of them, */
#define KEPT_MAX (16 * AM_MIB)  /* one of them, */
#define KEPT_ALONE (8 * AM_MIB) /* the only one, */
#define KEPT_PART 256           /* and at most this part of the domain */

static pthread_once_t cache_once = PTHREAD_ONCE_INIT;
static pthread_key_t cache_key; /* for its destructor; am_cache is faster to reach */
_Thread_local struct am_cache *am_cache;

/* The oldest one goes back to its run. */
static void kept_drop(struct am_heap *heap, struct am_bins *bins)
{
    struct am_kept oldest = bins->kept[0];

    bins->n_kept--;
    bins->kept_size -= oldest.size;
    memmove(&bins->kept[0], &bins->kept[1], bins->n_kept * sizeof bins->kept[0]);
    am_heap_give(heap, &oldest.slot);
}

bool am_kept_find(struct am_bins *bins, size_t size, struct am_slot *ret_slot)
{
    for (unsigned i = bins->n_kept; i-- > 0;) {
        if (bins->kept[i].size != size)
            continue;
        *ret_slot = bins->kept[i].slot;
        bins->n_kept--;
        bins->kept_size -= size;
        memmove(&bins->kept[i], &bins->kept[i + 1],
                (bins->n_kept - i) * sizeof bins->kept[0]);
        return true;
    }
    return false;
}

bool am_kept_push(struct am_heap *heap, const struct am_slot *slot, size_t size)
{
    struct am_bins *bins = am_cache_find(heap);
    size_t max = heap->kept_max;

    if (bins == NULL || slot->run->is_dead)
        return false;
    while (bins->n_kept == AM_KEPT_MAX ||
           (bins->n_kept > 0 && bins->kept_size + size > max))
        kept_drop(heap, bins);
    bins->kept[bins->n_kept++] = (struct am_kept){*slot, size};
    bins->kept_size += size;
    return true;
}

/* Little where there is one thread: it does not wait for itself. */
void am_kept_limit(struct am_heap *heap)
{
    unsigned n = heap->n_lists;
    size_t part = heap->capacity / KEPT_PART;
    size_t max = n > 1 ? KEPT_ALL / n : KEPT_ALONE;

    if (max > KEPT_MAX)
        max = KEPT_MAX;
    heap->kept_max = max < part ? max : part;
}

/* Its thread ends. */
static void bins_empty(struct am_heap *heap, struct am_bins *bins)
{
    for (unsigned c = 0; c < AM_BINS_MAX; c++)
        am_heap_flush(heap, &bins->bin[c], 0);
    while (bins->n_kept > 0)
        kept_drop(heap, bins);
    heap->n_lists--;
    am_kept_limit(heap);
}

static void cache_destroy(void *arg)
{
    struct am_cache *cache = arg;
    bool is_ours = cache->pid == getpid();

    am_current.lists = NULL;
    am_cache = NULL; /* a later free in this thread makes a new one */
    for (unsigned i = 0; i < AM_HEAPS; i++) {
        struct am_bins *bins = cache->of[i];

        if (bins != NULL && is_ours)
            bins_empty(&am_heaps[i], bins);
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
static struct am_bins *bins_create(struct am_heap *heap)
{
    const struct am_classes *classes = heap->classes;
    struct am_bins *bins = am_sys_calloc(1, sizeof *bins);

    am_assert(classes->n_cached <= AM_BINS_MAX);
    if (bins == NULL)
        return NULL;
    heap->n_lists++;
    am_kept_limit(heap);
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
