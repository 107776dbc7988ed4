/*
 * Pools behind PyTorch's allocator interface; see aclmem/torch.h.
 *
 * While a graph is captured its blocks come from a pool of the graph's own, which is frozen:
 * replays write to those addresses, so no other block may have them before the graph is
 * released.  The device's pool is frozen during the capture: an event that it recorded on the
 * captured stream would belong to the graph.
 *
 * A model of AscendCL is added to the pool (aclmem_pool_add_model), which then lives until the model
 * is destroyed: a program may release the pool before.  A graph of CUDA has no such object;
 * its pool lives until PyTorch releases it, which it does with the last graph.
 */
#include "aclmem/torch.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/queue.h>

#include "acl/acl.h"
#include "torch/cuda.h"
#include "torch/why.h"

/* Older libraries do not have it. */
#pragma weak aclmdlRICaptureGetInfo

#define MAX_DEVICES 64

struct graph {
    uint64_t id[2];
    aclmem_pool *pool;
    aclmdlRI model;   /* the last one that was added to the pool */
    bool is_open;     /* being captured */
    bool is_released; /* goes with its last block */
    LIST_ENTRY(graph) link;
};

struct device {
    _Atomic(aclmem_pool *) pool; /* set once, under the lock, by pool_first() */
    atomic_int n_graphs;         /* there are any: the short way ends */
    LIST_HEAD(, graph) graphs;   /* lock */
    double fraction;             /* lock; of the device's memory; 0: all */
    size_t total;                /* lock; its memory, once it has a pool */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct device devices[MAX_DEVICES];
static unsigned n_open; /* lock; graphs of all devices that are being captured */
static bool is_cuda;    /* lock */
static bool is_started; /* lock */
static _Thread_local char why[512];

static bool is_device(int device)
{
    return device >= 0 && device < MAX_DEVICES;
}

const char *torch_why_no_pool(int device)
{
    if (is_device(device) && atomic_load(&devices[device].pool) != NULL)
        return NULL;
    if (!is_device(device))
        snprintf(why, sizeof why, "devices have numbers from 0 to %d", MAX_DEVICES - 1);
    return why;
}

/* Remembers which function failed, and its message. */
static aclmem_pool *pool_refuse(const char *function, aclError rc, const char *message)
{
    snprintf(why, sizeof why, "%s returned %d: %s", function, rc,
             message != NULL ? message : "");
    return NULL;
}

int aclmem_torch_use_cuda_streams(int is_wanted)
{
    bool is_set;

    pthread_mutex_lock(&lock);
    is_set = !is_started && (!is_wanted || torch_cuda_streams() != NULL);
    if (is_set)
        is_cuda = is_wanted != 0;
    pthread_mutex_unlock(&lock);
    return is_set;
}

static aclmem_pool *pool_make_locked(int device)
{
    aclmem_pool_options options = {
        .stream_ops = is_cuda ? torch_cuda_streams() : NULL,
        .flags = is_cuda ? ACLMEM_POOL_ALIASES : 0,
    };
    double fraction = devices[device].fraction;
    aclmem_pool *pool = NULL;
    size_t free_now;
    aclError rc;

    if (!is_started) {
        rc = aclInit(NULL);
        if (rc != ACL_SUCCESS && rc != ACL_ERROR_REPEAT_INITIALIZE)
            return pool_refuse("aclInit", rc, aclGetRecentErrMsg());
        is_started = true;
    }
    rc = aclrtSetDevice(device);
    if (rc != ACL_SUCCESS)
        return pool_refuse("aclrtSetDevice", rc, aclGetRecentErrMsg());
    rc = aclrtGetMemInfo(ACL_HBM_MEM, &free_now, &devices[device].total);
    if (rc != ACL_SUCCESS)
        return pool_refuse("aclrtGetMemInfo", rc, aclGetRecentErrMsg());
    if (fraction > 0)
        options.limit = (size_t)(fraction * (double)devices[device].total);
    rc = aclmem_pool_create(device, &options, &pool);
    return rc == ACL_SUCCESS
               ? pool
               : pool_refuse("aclmem_pool_create", rc, aclmem_pool_message());
}

/* The device's pool, which is made with its first block. */
static __attribute__((noinline, cold)) aclmem_pool *pool_first(int device)
{
    struct device *d = &devices[device];
    aclmem_pool *pool;

    pthread_mutex_lock(&lock);
    pool = atomic_load(&d->pool);
    if (pool == NULL) {
        pool = pool_make_locked(device);
        atomic_store_explicit(&d->pool, pool, memory_order_release);
    }
    pthread_mutex_unlock(&lock);
    return pool;
}

static inline aclmem_pool *pool_of(int device)
{
    /* The partner is the release above: the pool is whole. */
    aclmem_pool *pool = atomic_load_explicit(&devices[device].pool, memory_order_acquire);

    return pool != NULL ? pool : pool_first(device);
}

/* The stream is captured into a model: the pool lives as long as the model. */
static void graph_add_model_locked(struct graph *graph, void *stream)
{
    aclmdlRICaptureStatus status = ACL_MODEL_RI_CAPTURE_STATUS_NONE;
    aclmdlRI model = NULL;

    if (is_cuda || stream == NULL || aclmdlRICaptureGetInfo == NULL ||
        aclmdlRICaptureGetInfo(stream, &status, &model) != ACL_SUCCESS ||
        status != ACL_MODEL_RI_CAPTURE_STATUS_ACTIVE || model == graph->model)
        return;
    if (aclmem_pool_add_model(graph->pool, model) == ACL_SUCCESS)
        graph->model = model;
}

/*
 * A block of the graph that is being captured; false: there is no such graph.  The lock is held
 * throughout: another thread may release the graph, and its pool ends with it.
 */
static bool graph_malloc(int device, size_t size, void *stream, void **ret_ptr)
{
    struct graph *graph;

    pthread_mutex_lock(&lock);
    LIST_FOREACH (graph, &devices[device].graphs, link) {
        if (graph->is_open)
            break;
    }
    if (graph != NULL)
        graph_add_model_locked(graph, stream);
    if (graph != NULL && aclmem_pool_malloc(graph->pool, size, stream, ret_ptr) != 0)
        *ret_ptr = NULL;
    pthread_mutex_unlock(&lock);
    return graph != NULL;
}

static struct graph *graph_find_locked(int device, uint64_t id_0, uint64_t id_1)
{
    struct graph *graph;

    LIST_FOREACH (graph, &devices[device].graphs, link) {
        if (graph->id[0] == id_0 && graph->id[1] == id_1)
            return graph;
    }
    return NULL;
}

/*
 * Destroys the pools of released graphs without blocks and models.  A pool that is destroyed waits
 * for the device, which would end a capture: the end of the last capture comes here, too.
 */
static void graphs_reap_locked(void)
{
    for (int i = 0; i < MAX_DEVICES && n_open == 0; i++) {
        struct graph *graph, *next;

        for (graph = LIST_FIRST(&devices[i].graphs); graph != NULL; graph = next) {
            aclmem_pool_stats stats;

            next = LIST_NEXT(graph, link);
            if (!graph->is_released)
                continue;
            aclmem_pool_freeze(graph->pool, 0);
            if (aclmem_pool_get_stats(graph->pool, &stats) != ACL_SUCCESS ||
                stats.n_live > 0 || aclmem_pool_destroy(graph->pool) != ACL_SUCCESS)
                continue;
            LIST_REMOVE(graph, link);
            atomic_fetch_sub(&devices[i].n_graphs, 1);
            free(graph);
        }
    }
}

void *aclmem_torch_try_malloc(ssize_t size, int device, void *stream)
{
    aclmem_pool *pool;
    void *ptr = NULL;

    if (size <= 0 || !is_device(device))
        return NULL;
    pool = pool_of(device);
    if (pool == NULL)
        return NULL;
    /* No order is needed: the list is read under the lock, and the capturing thread counted. */
    if (atomic_load_explicit(&devices[device].n_graphs, memory_order_relaxed) > 0 &&
        graph_malloc(device, (size_t)size, stream, &ptr))
        return ptr;
    if (aclmem_pool_malloc(pool, (size_t)size, stream, &ptr) != ACL_SUCCESS)
        return NULL;
    return ptr;
}

static void graph_free(int device, void *ptr)
{
    struct graph *graph;

    pthread_mutex_lock(&lock);
    LIST_FOREACH (graph, &devices[device].graphs, link) {
        if (aclmem_pool_free(graph->pool, ptr) == ACL_SUCCESS)
            break;
    }
    graphs_reap_locked();
    pthread_mutex_unlock(&lock);
}

void aclmem_torch_free(void *ptr, ssize_t size, int device, void *stream)
{
    aclmem_pool *pool;

    if (ptr == NULL || !is_device(device))
        return;
    pool = atomic_load_explicit(&devices[device].pool, memory_order_acquire);
    if (pool != NULL && aclmem_pool_free(pool, ptr) != ACL_SUCCESS &&
        atomic_load(&devices[device].n_graphs) > 0)
        graph_free(device, ptr);
}

void aclmem_torch_init(int n_devices)
{
}

void aclmem_torch_reset(void)
{
    /* Models may have been destroyed since their graphs were released. */
    pthread_mutex_lock(&lock);
    graphs_reap_locked();
    pthread_mutex_unlock(&lock);
    for (int i = 0; i < MAX_DEVICES; i++) {
        aclmem_pool *pool = atomic_load(&devices[i].pool);

        if (pool != NULL)
            aclmem_pool_trim(pool, 0);
    }
}

void aclmem_torch_memory_fraction(double fraction, int device)
{
    aclmem_pool *pool;

    if (!is_device(device) || !(fraction > 0) || fraction > 1)
        return;
    pthread_mutex_lock(&lock);
    devices[device].fraction = fraction;
    pool = atomic_load(&devices[device].pool);
    if (pool != NULL)
        aclmem_pool_set_limit(pool, (size_t)(fraction * (double)devices[device].total));
    pthread_mutex_unlock(&lock);
}

/* The pool of a live block, of a device or of a graph; NULL: it is in none. */
static aclmem_pool *pool_with_locked(const void *ptr, size_t *ret_size)
{
    for (int i = 0; i < MAX_DEVICES; i++) {
        aclmem_pool *pool = atomic_load(&devices[i].pool);
        struct graph *graph;

        if (pool == NULL)
            continue;
        if (aclmem_pool_size(pool, ptr, ret_size) == ACL_SUCCESS)
            return pool;
        LIST_FOREACH (graph, &devices[i].graphs, link) {
            if (aclmem_pool_size(graph->pool, ptr, ret_size) == ACL_SUCCESS)
                return graph->pool;
        }
    }
    return NULL;
}

void *aclmem_torch_base_alloc(void *ptr, size_t *size)
{
    size_t asked = 0;

    pthread_mutex_lock(&lock);
    pool_with_locked(ptr, &asked);
    pthread_mutex_unlock(&lock);
    if (size != NULL)
        *size = asked;
    return ptr;
}

void aclmem_torch_record_stream(void *ptr, void *stream)
{
    aclmem_pool *pool;
    size_t size;

    pthread_mutex_lock(&lock);
    pool = pool_with_locked(ptr, &size);
    if (pool != NULL)
        aclmem_pool_use(pool, ptr, stream);
    pthread_mutex_unlock(&lock);
}

/* The device's pool is frozen while any graph is captured there. */
static void freeze_update_locked(int device)
{
    aclmem_pool *pool = atomic_load(&devices[device].pool);
    struct graph *graph;

    LIST_FOREACH (graph, &devices[device].graphs, link) {
        if (graph->is_open)
            break;
    }
    if (pool != NULL)
        aclmem_pool_freeze(pool, graph != NULL);
}

void aclmem_torch_begin_allocate_to_pool(int device, uint64_t id_0, uint64_t id_1,
                                         void *filter)
{
    struct graph *graph;

    if (!is_device(device) || pool_of(device) == NULL)
        return;
    pthread_mutex_lock(&lock);
    graph = graph_find_locked(device, id_0, id_1);
    if (graph != NULL)
        graph->is_released = false;
    graphs_reap_locked();
    if (graph == NULL) {
        graph = calloc(1, sizeof *graph);
        if (graph != NULL)
            graph->pool = pool_make_locked(device);
        if (graph == NULL || graph->pool == NULL) {
            free(graph);
            graph = NULL;
        } else {
            graph->id[0] = id_0;
            graph->id[1] = id_1;
            LIST_INSERT_HEAD(&devices[device].graphs, graph, link);
            atomic_fetch_add(&devices[device].n_graphs, 1);
        }
    }
    if (graph != NULL) {
        aclmem_pool_freeze(graph->pool, 1);
        n_open += !graph->is_open;
        graph->is_open = true;
        freeze_update_locked(device);
    }
    pthread_mutex_unlock(&lock);
}

/* The capture of the graph is over; is_released: and the graph is gone. */
static void graph_close(int device, uint64_t id_0, uint64_t id_1, bool is_released)
{
    struct graph *graph;

    if (!is_device(device))
        return;
    pthread_mutex_lock(&lock);
    graph = graph_find_locked(device, id_0, id_1);
    if (graph != NULL) {
        n_open -= graph->is_open;
        graph->is_open = false;
        graph->is_released |= is_released;
    }
    freeze_update_locked(device);
    graphs_reap_locked();
    pthread_mutex_unlock(&lock);
}

void aclmem_torch_end_allocate_to_pool(int device, uint64_t id_0, uint64_t id_1)
{
    graph_close(device, id_0, id_1, false);
}

void aclmem_torch_release_pool(int device, uint64_t id_0, uint64_t id_1)
{
    graph_close(device, id_0, id_1, true);
}

/* The device's own pool and those of its graphs. */
int aclmem_torch_get_stats(int device, aclmem_pool_stats *stats)
{
    aclmem_pool *pool = is_device(device) ? atomic_load(&devices[device].pool) : NULL;
    aclmem_pool_stats more;
    struct graph *graph;
    int rc;

    if (pool == NULL)
        return ACL_ERROR_INVALID_PARAM;
    rc = aclmem_pool_get_stats(pool, stats);
    if (rc != ACL_SUCCESS || atomic_load(&devices[device].n_graphs) == 0)
        return rc;
    pthread_mutex_lock(&lock);
    LIST_FOREACH (graph, &devices[device].graphs, link) {
        if (aclmem_pool_get_stats(graph->pool, &more) != ACL_SUCCESS)
            continue;
        stats->live += more.live;
        stats->n_live += more.n_live;
        stats->peak_live += more.peak_live;
        stats->held += more.held;
        stats->peak_held += more.peak_held;
        stats->cached += more.cached;
        stats->idle += more.idle;
        stats->lost += more.lost;
        stats->runs += more.runs;
        stats->mallocs += more.mallocs;
        stats->hits += more.hits;
        stats->creates += more.creates;
        stats->remaps += more.remaps;
        stats->waits += more.waits;
        stats->returns += more.returns;
        for (unsigned i = 0; i < ACLMEM_POOL_SIZES; i++)
            stats->by_size[i] += more.by_size[i];
    }
    pthread_mutex_unlock(&lock);
    return ACL_SUCCESS;
}

int aclmem_torch_reset_peaks(int device)
{
    aclmem_pool *pool = is_device(device) ? atomic_load(&devices[device].pool) : NULL;
    struct graph *graph;

    if (pool == NULL)
        return ACL_ERROR_INVALID_PARAM;
    pthread_mutex_lock(&lock);
    LIST_FOREACH (graph, &devices[device].graphs, link)
        aclmem_pool_reset_peaks(graph->pool);
    pthread_mutex_unlock(&lock);
    return aclmem_pool_reset_peaks(pool);
}

int aclmem_torch_snapshot(int device, char **json)
{
    aclmem_pool *pool = is_device(device) ? atomic_load(&devices[device].pool) : NULL;

    return pool != NULL ? aclmem_pool_snapshot(pool, json) : ACL_ERROR_INVALID_PARAM;
}
