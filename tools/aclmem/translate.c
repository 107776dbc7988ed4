/* See translate.h. */
#include "translate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "acl/acl.h"
#include "ranges.h"

#define SCRATCH_SIZE ((size_t)1 << 20)     /* what the arguments of a call point to */
#define MEMORY_SIZE ((uint64_t)1 << 36)    /* stands for the program's own memory */
#define NO_ACCESS_SIZE ((uint64_t)2 << 20) /* larger than any alignment that is checked */

/* Addresses of a process: all its threads have the same. */
struct places {
    struct ranges ranges;
    /*
     * Shared: a call uses memory at addresses.  Exclusive: a call returns addresses to the system.
     * No call with a shared lock waits for another thread.
     */
    pthread_rwlock_t use;
    _Atomic uint64_t n_stops; /* of the library */
    void *no_access_map;
    char *no_access; /* aligned to NO_ACCESS_SIZE, twice its size, without access */
};

void translate_share(struct translate_shared *shared, uint64_t host_max)
{
    uint64_t size = host_max < MEMORY_SIZE ? host_max : MEMORY_SIZE;

    shared->host_max = host_max;
    shared->memory = mmap(NULL, size, PROT_READ | PROT_WRITE,
                          MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (shared->memory == MAP_FAILED)
        shared->memory = NULL;
}

struct translation *translate_begin(struct translate_shared *shared)
{
    struct translation *t = calloc(1, sizeof *t);
    struct places *places = calloc(1, sizeof *places);
    char *none = mmap(NULL, 4 * NO_ACCESS_SIZE, PROT_NONE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (t == NULL || places == NULL || none == MAP_FAILED) {
        fprintf(stderr, "aclmem: no memory for the replay\n");
        exit(1);
    }
    pthread_mutex_init(&places->ranges.lock, NULL);
    pthread_rwlock_init(&places->use, NULL);
    places->no_access_map = none;
    places->no_access = none + NO_ACCESS_SIZE - (uintptr_t)none % NO_ACCESS_SIZE;
    t->shared = shared;
    t->places = places;
    return t;
}

void translate_end(struct translation *t)
{
    free(t->scratch);
}

void translate_free(struct translation *t)
{
    translate_end(t);
    munmap(t->places->no_access_map, 4 * NO_ACCESS_SIZE);
    free(t->places->ranges.range);
    free(t->places);
    free(t);
}

/* ---- host memory ---- */

/* False, and the call is left out, if the limit does not allow this. */
static bool host_charge(struct translation *t, uint64_t size)
{
    struct translate_shared *shared = t->shared;
    bool is_within;

    pthread_mutex_lock(&shared->lock);
    is_within = size <= shared->host_max - shared->host_used;
    if (is_within)
        shared->host_used += size;
    else
        shared->is_over = true;
    pthread_mutex_unlock(&shared->lock);
    t->is_refused |= !is_within;
    return is_within;
}

static void host_uncharge(struct translation *t, uint64_t size)
{
    pthread_mutex_lock(&t->shared->lock);
    t->shared->host_used -= size;
    pthread_mutex_unlock(&t->shared->lock);
}

/* ---- names ---- */

static void name_set(struct translate_shared *shared, const void *recorded,
                     size_t recorded_size, const void *actual, size_t actual_size)
{
    pthread_mutex_lock(&shared->lock);
    if (shared->n < NAMES_MAX && recorded_size <= NAME_SIZE && actual_size <= NAME_SIZE) {
        memcpy(shared->name[shared->n].recorded, recorded, recorded_size);
        memcpy(shared->name[shared->n].actual, actual, actual_size);
        shared->name[shared->n].recorded_size = (uint32_t)recorded_size;
        shared->name[shared->n++].actual_size = (uint32_t)actual_size;
    }
    pthread_mutex_unlock(&shared->lock);
}

/* The newest of that name; false: none. */
static bool name_get(struct translate_shared *shared, const void *recorded, size_t size,
                     void *actual, size_t *ret_size)
{
    bool is_found = false;

    pthread_mutex_lock(&shared->lock);
    for (uint32_t i = shared->n; i > 0 && !is_found; i--) {
        if (shared->name[i - 1].recorded_size != size ||
            memcmp(shared->name[i - 1].recorded, recorded, size) != 0)
            continue;
        *ret_size = shared->name[i - 1].actual_size;
        memcpy(actual, shared->name[i - 1].actual, *ret_size);
        is_found = true;
    }
    pthread_mutex_unlock(&shared->lock);
    return is_found;
}

void translate_pid(struct translate_shared *shared, int recorded, int actual)
{
    char from[16] = "pid", to[16];

    memcpy(from + 4, &recorded, sizeof recorded);
    memcpy(to, &actual, sizeof actual);
    name_set(shared, from, 8, to, sizeof actual);
}

static int pid_of(struct translation *t, int recorded)
{
    char from[16] = "pid", to[NAME_SIZE];
    size_t n;

    memcpy(from + 4, &recorded, sizeof recorded);
    if (name_get(t->shared, from, 8, to, &n) && n == sizeof recorded)
        memcpy(&recorded, to, sizeof recorded);
    return recorded;
}

/* ---- arguments ---- */

/*
 * What an address argument may be used for.  A trace comes from strangers, so an address
 * that no call of this replay returned is never passed: POINTER_HANDLE passes an address
 * without access in its place, which every lookup refuses and every access faults on.
 */
enum pointer_use {
    POINTER_HANDLE,   /* a handle or device address: the library looks it up */
    POINTER_MEMORY,   /* the library reads or writes the program's memory */
    POINTER_VALUE,    /* the library reads or writes one value */
    POINTER_FUNCTION, /* the library calls it */
    POINTER_NULL,     /* the program's own, passed back to its functions */
    POINTER_NEVER,    /* it points to pointers that the trace does not have */
};

static const struct {
    const char *function; /* NULL: of all functions */
    const char *argument;
    enum pointer_use use;
} pointer_uses[] = {
    {"aclrtMemcpyAsyncWithOffset", "dst", POINTER_NEVER},
    {"aclrtMemcpyAsyncWithOffset", "src", POINTER_NEVER},
    {"aclrtMemManagedGetAttrs", "attributes", POINTER_NEVER},
    {NULL, "serverPids", POINTER_NEVER},
    {NULL, "dst", POINTER_MEMORY},
    {NULL, "src", POINTER_MEMORY},
    {NULL, "ptr", POINTER_MEMORY},
    {NULL, "srcAddr", POINTER_MEMORY},
    {NULL, "dstAddr", POINTER_MEMORY},
    {NULL, "desc", POINTER_MEMORY},
    {NULL, "cmoDesc", POINTER_MEMORY},
    {NULL, "value", POINTER_VALUE},
    {NULL, "data", POINTER_VALUE},
    {NULL, "list", POINTER_VALUE},
    {"aclmdlRIGetStreams", "streams", POINTER_NEVER},
    {"aclmdlRIGetTasksByStream", "tasks", POINTER_NEVER},
    {NULL, "fn", POINTER_FUNCTION},
    {NULL, "func", POINTER_FUNCTION},
    {NULL, "callback", POINTER_FUNCTION},
    {NULL, "userData", POINTER_NULL},
    {NULL, "args", POINTER_NULL},
    {NULL, "config", POINTER_NULL},
    {NULL, "reserve", POINTER_NULL},
    {NULL, "allocator", POINTER_NULL},
};

static enum pointer_use pointer_use_of(const char *function, const char *argument)
{
    for (size_t i = 0; i < sizeof pointer_uses / sizeof pointer_uses[0]; i++) {
        if (strcmp(pointer_uses[i].argument, argument) == 0 &&
            (pointer_uses[i].function == NULL ||
             strcmp(pointer_uses[i].function, function) == 0))
            return pointer_uses[i].use;
    }
    return POINTER_HANDLE;
}

/* Zeroed memory for an argument; NULL, and the call is not made, if there is no more. */
static void *scratch_alloc(struct translation *t, uint64_t size)
{
    void *at;

    size = (size + 15) & ~(uint64_t)15;
    if (size > SCRATCH_SIZE - t->n_scratch) {
        t->is_refused = true;
        return NULL;
    }
    at = t->scratch + t->n_scratch;
    t->n_scratch += size;
    memset(at, 0, size);
    return at;
}

/* Stands for functions of the program; of the type of host functions and callbacks. */
static void nothing(void *unused)
{
    (void)unused;
}

static uint64_t number_of_argument(const struct play_function *function,
                                   const struct trace_value *value, const char *name)
{
    for (uint32_t i = 0; i < function->n; i++) {
        if (strcmp(function->param[i].name, name) == 0)
            return value[i].number;
    }
    return 0;
}

/* Bytes of the program's memory that a call may access; above MEMORY_SIZE: too many. */
static uint64_t extent_of(const struct play_function *function,
                          const struct trace_value *value)
{
    static const char *const sizes[] = {"count", "size", "memSize"};
    uint64_t rows = number_of_argument(function, value, "height");
    uint64_t pitch = number_of_argument(function, value, "dpitch");
    uint64_t other = number_of_argument(function, value, "spitch");
    uint64_t size;

    pitch = pitch > other ? pitch : other;
    if (__builtin_mul_overflow(rows, pitch, &size))
        return UINT64_MAX;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        other = number_of_argument(function, value, sizes[i]);
        size = size > other ? size : other;
    }
    return size;
}

/* Memory that stands for the program's own, at least `size` bytes. */
static uint64_t memory_of(struct translation *t, uint64_t size)
{
    struct translate_shared *shared = t->shared;
    uint64_t more;

    if (size > MEMORY_SIZE || shared->memory == NULL) {
        t->is_refused = true;
        return 0;
    }
    pthread_mutex_lock(&shared->lock);
    more = size > shared->memory_used ? size - shared->memory_used : 0;
    if (more <= shared->host_max - shared->host_used) {
        shared->host_used += more;
        shared->memory_used += more;
    } else {
        shared->is_over = true;
        t->is_refused = true;
    }
    pthread_mutex_unlock(&shared->lock);
    return (uint64_t)(uintptr_t)shared->memory;
}

/* An address without access; its alignment is kept: the library may refuse it for that. */
static uint64_t no_access_of(const struct translation *t, uint64_t recorded)
{
    return (uint64_t)(uintptr_t)t->places->no_access + recorded % NO_ACCESS_SIZE;
}

/*
 * The address in this run.  At a freed address the program may have its own memory since; if
 * the recorded call failed, it used the freed object.
 */
static uint64_t address_of(struct translation *t, bool is_memory, uint64_t recorded,
                           uint64_t extent, uint64_t *ret_size)
{
    uint64_t actual;
    enum address found =
        range_get(&t->places->ranges, recorded, extent, &actual, ret_size);

    if (found == ADDRESS_LIVE)
        return actual;
    *ret_size = 0;
    if (is_memory && (found == ADDRESS_UNKNOWN || !t->has_failed))
        return memory_of(t, extent);
    return no_access_of(t, recorded);
}

static uint64_t pointer_of(struct translation *t, const struct play_function *function,
                           const struct trace_value *value,
                           const struct play_param *param, uint64_t recorded)
{
    enum pointer_use use = pointer_use_of(function->name, param->name);
    uint64_t extent = use == POINTER_MEMORY ? extent_of(function, value) : 0;
    uint64_t actual, size;

    if (use == POINTER_NEVER)
        t->is_refused = true;
    if (recorded == 0 || use == POINTER_NULL || use == POINTER_NEVER)
        return 0;
    if (use == POINTER_FUNCTION)
        return (uint64_t)(uintptr_t)nothing;
    if (use == POINTER_VALUE) {
        size = number_of_argument(function, value, "dataSize");
        return (uint64_t)(uintptr_t)scratch_alloc(t, size > 4096 ? size : 4096);
    }
    actual = address_of(t, use == POINTER_MEMORY, recorded, extent, &size);
    if (strstr(function->name, "Free") != NULL)
        t->freed = size;
    return actual;
}

static uint64_t array_make(struct translation *t, const struct play_param *param,
                           const struct trace_value *value)
{
    size_t width = strchr("pz", param->element) != NULL ? 8 : 4;
    uint8_t *array = scratch_alloc(t, value->n_items * width);

    for (size_t i = 0; array != NULL && i < value->n_items; i++) {
        uint64_t item = value->item[i];

        if (param->element == 'p')
            item = address_of(t, strcmp(param->name, "notifies") != 0, item, t->extent,
                              &(uint64_t){0});
        else if (strcmp(param->name, "pid") == 0)
            item = (uint64_t)pid_of(t, (int)item);
        memcpy(array + i * width, &item, width);
    }
    return (uint64_t)(uintptr_t)array;
}

/* A text, a struct, structs, a shareable handle; what the argument points to, or is. */
static uint64_t bytes_make(struct translation *t, const struct play_param *param,
                           const struct trace_value *value)
{
    bool is_config = strcmp(param->name, "cfg") == 0;
    size_t least = is_config || param->element == 't' ? 0
                   : param->element == 'H'            ? sizeof(aclrtMemFabricHandle)
                                                      : param->size;
    uint8_t actual[NAME_SIZE];
    const uint8_t *bytes = value->bytes;
    size_t size = value->size;
    uint64_t direct = 0;
    uint8_t *copy;

    if ((param->letter == 's' || param->letter == 'v' || param->element == 'H') &&
        name_get(t->shared, bytes, size, actual, &size))
        bytes = actual;
    if (param->letter == 'v' && param->size <= sizeof direct) {
        memcpy(&direct, bytes, size < param->size ? size : param->size);
        return direct;
    }
    copy = scratch_alloc(t, (size > least ? size : least) + 1);
    if (copy == NULL)
        return 0;
    memcpy(copy, bytes, size);
    if (is_config) {
        aclrtMallocConfig *config = scratch_alloc(t, sizeof *config);

        if (config == NULL)
            return 0;
        config->attrs = (aclrtMallocAttribute *)copy;
        config->numAttrs = size / sizeof *config->attrs;
        return (uint64_t)(uintptr_t)config;
    }
    return (uint64_t)(uintptr_t)copy;
}

/*
 * The parameters of a conditional task, with room for its models.  A loop runs once at most: what
 * ends it is in memory, and the trace does not have that.
 */
static uint64_t condition_make(struct translation *t, const struct trace_value *value)
{
    aclmdlRICondTaskParams *params = scratch_alloc(t, sizeof *params);
    uint64_t handle;

    if (params == NULL || value->size != sizeof *params) {
        t->is_refused = true;
        return 0;
    }
    memcpy(params, value->bytes, sizeof *params);
    if (params->type == ACL_MODEL_RI_COND_TYPE_WHILE)
        params->type = ACL_MODEL_RI_COND_TYPE_IF;
    if (params->handle != NULL) {
        handle = address_of(t, false, (uint64_t)(uintptr_t)params->handle, 0, &handle);
        params->handle = (aclmdlRICondHandle)(uintptr_t)handle;
    }
    if (!t->has_failed && params->size > value->n_items) {
        params->size = (uint32_t)value->n_items;
        t->is_shortened = true;
    }
    if (params->modelRIArray != NULL)
        params->modelRIArray =
            scratch_alloc(t, (uint64_t)params->size * sizeof(aclmdlRI));
    return (uint64_t)(uintptr_t)params;
}

/* Room for a result: a text, structs or numbers, as many as the call asks for. */
static uint64_t result_make(struct translation *t, const struct play_function *function,
                            const struct trace_value *all, const struct play_param *param)
{
    uint64_t n = param->count >= 0 ? all[param->count].number : 1;
    uint64_t size = param->size > 0 ? param->size : 8;
    void *place;

    if (param->letter == 'S')
        n = number_of_argument(function, all, "len");
    if (n > SCRATCH_SIZE / size) {
        t->is_refused = true;
        return 0;
    }
    place = scratch_alloc(t, n * size > 4096 ? n * size : 4096);
    /* The mode of a thread is an argument too, and the trace has the previous one. */
    if (place != NULL && strcmp(function->name, "aclmdlRICaptureThreadExchangeMode") == 0)
        *(int *)place = ACL_MODEL_RI_CAPTURE_MODE_RELAXED;
    return (uint64_t)(uintptr_t)place;
}

static uint64_t argument_make(struct translation *t, const struct play_function *function,
                              const struct trace_value *all, uint32_t i)
{
    const struct play_param *param = &function->param[i];
    const struct trace_value *value = &all[i];
    bool is_result = param->letter >= 'A' && param->letter <= 'Z';
    uint64_t actual;
    size_t n;

    /* A struct that is passed by value, and missing or unknown to traces. */
    t->is_refused |= param->letter == 'v' && (value->is_null || param->size == 0);
    if (value->is_null || t->is_refused)
        return 0;
    if (param->letter == 'v' && param->element != 0)
        return condition_make(t, value);
    if (value->item != NULL && !param->is_output)
        return array_make(t, param, value);
    if (param->element != 0 ? param->is_output : is_result)
        return result_make(t, function, all, param);
    if (strcmp(function->name, "aclmdlRIDebugJsonPrint") == 0) { /* it writes a file */
        t->is_refused = true;
        return 0;
    }
    if (strcmp(param->name, "configPath") == 0) { /* a file of this machine is not read */
        t->is_refused |= t->has_failed;
        return 0;
    }
    if (value->bytes != NULL)
        return bytes_make(t, param, value);
    if (param->element != 0) { /* the call failed: its arrays are not in the trace */
        if (param->letter == 'p' && value->number == 0)
            return 0;
        return result_make(t, function, all, param);
    }
    if (strchr("stv", param->letter) != NULL) {
        t->is_refused = true;
        return 0;
    }
    if (param->letter == 'p')
        return pointer_of(t, function, all, param, value->number);
    if (param->letter == 'x' && name_get(t->shared, &value->number, 8, &actual, &n) &&
        n == sizeof actual)
        return actual;
    if (strcmp(param->name, "threadId") == 0)
        return t->report_thread;
    return value->number;
}

/* An array has fewer elements in the trace than the call had: at most 1,024 are recorded. */
static void counts_shorten(struct translation *t, const struct play_function *function,
                           const struct trace_value *value, uint64_t *argument)
{
    for (uint32_t i = 0; i < function->n; i++) {
        const struct play_param *param = &function->param[i];
        uint64_t n =
            param->element == 't' ? value[i].size / param->size : value[i].n_items;

        if (param->element == 0 || param->is_output || param->count < 0 ||
            strchr("SH", param->element) != NULL || value[i].is_null ||
            !value[i].is_there)
            continue;
        if (argument[param->count] > n) {
            argument[param->count] = n;
            t->is_shortened = true;
        }
    }
}

/* Functions that free the memory or the addresses at their first argument. */
static bool is_free(const char *function)
{
    static const char *const list[] = {
        "aclrtFree",     "aclrtFreeWithDevSync",   "aclrtMemPoolFreeAsync",
        "aclrtFreeHost", "aclrtReleaseMemAddress", "aclrtFreeHostWithDevSync",
    };

    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++) {
        if (strcmp(list[i], function) == 0)
            return true;
    }
    return false;
}

/* Functions that allocate memory of this machine, whatever the backend is. */
static bool allocates_host(const char *function)
{
    return strncmp(function, "aclrtMallocHost", 15) == 0 ||
           strcmp(function, "aclrtMemAllocManaged") == 0;
}

/* Whether the call may return addresses to the system. */
static bool is_release(const char *function)
{
    return strcmp(function, "aclrtReleaseMemAddress") == 0 ||
           strncmp(function, "aclFinalize", 11) == 0;
}

/* Whether the library accesses memory at an argument. */
static bool uses_memory(const struct play_function *function)
{
    for (uint32_t i = 0; i < function->n; i++) {
        const struct play_param *param = &function->param[i];

        if (param->element == 'p' ||
            (param->letter == 'p' &&
             pointer_use_of(function->name, param->name) == POINTER_MEMORY))
            return true;
    }
    return false;
}

static void call_lock(struct translation *t, const struct play_function *function)
{
    t->is_locked = true;
    if (is_release(function->name))
        pthread_rwlock_wrlock(&t->places->use);
    else if (uses_memory(function))
        pthread_rwlock_rdlock(&t->places->use);
    else
        t->is_locked = false;
    t->n_stops = t->places->n_stops;
}

static void call_unlock(struct translation *t)
{
    if (t->is_locked)
        pthread_rwlock_unlock(&t->places->use);
}

static bool arguments_make(struct translation *t, const struct play_function *function,
                           const struct trace_value *value, uint64_t *ret_argument)
{
    if (t->scratch == NULL)
        t->scratch = malloc(SCRATCH_SIZE);
    t->n_scratch = 0;
    t->freed = 0;
    t->charged = 0;
    t->uncharged = 0;
    t->is_refused = t->scratch == NULL;
    t->is_shortened = false;
    t->extent = 0;
    for (uint32_t i = 0; i < function->n; i++) { /* elements of batches have sizes */
        for (size_t k = 0; k < value[i].n_items && function->param[i].element == 'z'; k++)
            t->extent = t->extent > value[i].item[k] ? t->extent : value[i].item[k];
    }
    for (uint32_t i = 0; i < function->n && !t->is_refused; i++)
        ret_argument[i] = argument_make(t, function, value, i);
    if (t->is_refused)
        return false;
    counts_shorten(t, function, value, ret_argument);
    /*
     * Before the call: another thread may be given the address as soon as it is free, and
     * enters it after this (results_wait() in play.c).
     */
    if (is_free(function->name) && !t->has_failed)
        t->uncharged = range_free(&t->places->ranges, value[0].number);
    if (allocates_host(function->name)) {
        t->charged = number_of_argument(function, value, "size");
        if (!host_charge(t, t->charged))
            return false;
    }
    return true;
}

bool translate_arguments(struct translation *t, const struct play_function *function,
                         const struct trace_value *value, uint64_t *ret_argument)
{
    bool is_made;

    call_lock(t, function);
    is_made = arguments_make(t, function, value, ret_argument);
    if (!is_made)
        call_unlock(t);
    return is_made;
}

/* ---- results ---- */

/* Whether a call has stopped the library. */
static bool has_stopped(const struct play_function *function, const uint64_t *argument)
{
    const uint64_t *references;

    if (strcmp(function->name, "aclFinalizeReference") != 0)
        return strcmp(function->name, "aclFinalize") == 0;
    references = (const uint64_t *)(uintptr_t)argument[0];
    return references == NULL || *references == 0;
}

/* Addresses that the call has freed are not passed again. */
static void frees_note(struct translation *t, const struct play_function *function,
                       const struct trace_value *value, const uint64_t *argument)
{
    if (is_free(function->name) && t->has_failed) /* it did not in the recording */
        t->uncharged = range_free(&t->places->ranges, value[0].number);
    if (has_stopped(function, argument)) {
        t->places->n_stops++;
        t->uncharged = ranges_free_all(&t->places->ranges);
    }
    host_uncharge(t, t->uncharged);
}

void translate_done(struct translation *t, const struct play_function *function,
                    const struct trace_value *value, const uint64_t *argument, int64_t rc)
{
    if (rc == 0)
        frees_note(t, function, value, argument);
    else
        host_uncharge(t, t->charged);
    call_unlock(t);
}

/* The size of the object at an address that a call returned. */
static uint64_t result_size(const struct play_function *function,
                            const struct trace_value *value, const char *name)
{
    if (strcmp(name, "handle") == 0 || strcmp(name, "stream") == 0 ||
        strcmp(name, "event") == 0)
        return strcmp(name, "handle") == 0 ? number_of_argument(function, value, "size")
                                           : 0;
    if (strcmp(name, "condPtr") == 0)
        return sizeof(uint64_t);
    return number_of_argument(function, value, "size");
}

/* The models of a conditional task. */
static void condition_results(struct translation *t, const struct trace_value *value,
                              const aclmdlRICondTaskParams *params)
{
    for (uint32_t i = 0; i < params->size && i < value->n_items; i++)
        range_set(&t->places->ranges,
                  (struct range){
                      .recorded = value->item[i],
                      .actual = (uint64_t)(uintptr_t)params->modelRIArray[i],
                      .is_freed = t->n_stops != t->places->n_stops,
                  });
}

void translate_results(struct translation *t, const struct play_function *function,
                       const struct trace_value *value, const uint64_t *argument)
{
    for (uint32_t i = 0; i < function->n; i++) {
        const struct play_param *param = &function->param[i];
        const void *place = (const void *)(uintptr_t)argument[i];

        if (!value[i].is_there || value[i].is_null || place == NULL)
            continue;
        if (param->letter == 'v' && param->element != 0) {
            condition_results(t, &value[i], place);
        } else if (param->letter == 'P' && param->element == 0 &&
                   strcmp(param->name, "pbase") !=
                       0) { /* the address of a known object */
            range_set(&t->places->ranges,
                      (struct range){
                          .recorded = value[i].number,
                          .size = result_size(function, value, param->name),
                          .actual = *(const uint64_t *)place,
                          .charged = t->charged,
                          .is_host = strstr(function->name, "Host") != NULL ||
                                     strstr(function->name, "Managed") != NULL,
                          .is_freed = t->n_stops != t->places->n_stops,
                      });
        } else if (param->letter == 'X') {
            name_set(t->shared, &value[i].number, 8, place, 8);
        } else if (param->is_output && param->element == 'S' && value[i].bytes != NULL) {
            name_set(t->shared, value[i].bytes, value[i].size, place,
                     strnlen(place, NAME_SIZE));
        } else if (value[i].bytes != NULL && value[i].size <= NAME_SIZE &&
                   ((param->is_output && param->element == 'H') ||
                    strcmp(function->name, "aclrtIpcGetEventHandle") == 0)) {
            name_set(t->shared, value[i].bytes, value[i].size, place, value[i].size);
        }
    }
}
