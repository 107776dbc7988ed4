/* See translate.h. */
#include "translate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "acl/acl.h"

#define ARGUMENT_SIZE 65536 /* of an argument that is pointed to */

struct range {
    uint64_t recorded, size, actual;
};

struct ranges {
    pthread_mutex_t lock;
    struct range *range; /* sorted */
    size_t n, max;
};

struct translation *translate_begin(struct translate_shared *shared)
{
    struct translation *t = calloc(1, sizeof *t);
    struct ranges *ranges = calloc(1, sizeof *ranges);

    if (t == NULL || ranges == NULL) {
        fprintf(stderr, "aclmem: no memory for the replay\n");
        exit(1);
    }
    pthread_mutex_init(&ranges->lock, NULL);
    t->shared = shared;
    t->ranges = ranges;
    return t;
}

void translate_end(struct translation *t)
{
    free(t->scratch);
    free(t->memory);
}

/* ---- ranges and handles ---- */

/* The place of the first range that begins behind addr. */
static size_t range_place(const struct ranges *ranges, uint64_t addr)
{
    size_t low = 0;
    size_t high = ranges->n;

    while (low < high) {
        size_t middle = (low + high) / 2;

        if (ranges->range[middle].recorded <= addr)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void range_set(struct ranges *ranges, uint64_t recorded, uint64_t size,
                      uint64_t actual)
{
    size_t at;

    pthread_mutex_lock(&ranges->lock);
    at = range_place(ranges, recorded);
    if (at > 0 && ranges->range[at - 1].recorded == recorded) {
        ranges->range[at - 1] = (struct range){recorded, size, actual};
    } else {
        if (ranges->n == ranges->max) {
            ranges->max = ranges->max > 0 ? 2 * ranges->max : 1024;
            ranges->range = realloc(ranges->range, ranges->max * sizeof *ranges->range);
            if (ranges->range == NULL)
                exit(1);
        }
        memmove(&ranges->range[at + 1], &ranges->range[at],
                (ranges->n - at) * sizeof *ranges->range);
        ranges->range[at] = (struct range){recorded, size, actual};
        ranges->n++;
    }
    pthread_mutex_unlock(&ranges->lock);
}

/* The value here; false when it is not known. */
static bool range_get(struct ranges *ranges, uint64_t recorded, uint64_t *ret_actual,
                      uint64_t *ret_size)
{
    bool is_found = false;
    size_t at;

    pthread_mutex_lock(&ranges->lock);
    at = range_place(ranges, recorded);
    if (at > 0) {
        const struct range *range = &ranges->range[at - 1];
        uint64_t offset = recorded - range->recorded;

        is_found = offset < range->size || offset == 0;
        if (is_found) {
            *ret_actual = range->actual + offset;
            *ret_size = offset == 0 ? range->size : 0;
        }
    }
    pthread_mutex_unlock(&ranges->lock);
    return is_found;
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

static void *scratch_take(struct translation *t, size_t size)
{
    void *at;

    size = (size + 15) & ~(size_t)15;
    if (t->n_scratch + size > t->max_scratch)
        return NULL;
    at = t->scratch + t->n_scratch;
    t->n_scratch += size;
    memset(at, 0, size);
    return at;
}

/* Memory that stands for the program's own. */
static uint64_t memory_of(struct translation *t, uint64_t size)
{
    if (size > t->memory_size) {
        free(t->memory);
        t->memory = calloc(1, size);
        t->memory_size = t->memory != NULL ? size : 0;
    }
    return (uint64_t)(uintptr_t)t->memory;
}

static void nothing_void(void *arg)
{
}

static uint64_t number_of_argument(const struct trace_function *function,
                                   const struct trace_value *value, const char *name)
{
    for (uint32_t i = 0; i < function->n; i++) {
        if (strcmp(function->param[i].name, name) == 0)
            return value[i].number;
    }
    return 0;
}

/* How many bytes an address that is not known may be used for. */
static uint64_t extent_of(const struct trace_function *function,
                          const struct trace_value *value)
{
    uint64_t size = number_of_argument(function, value, "destMax");
    uint64_t other = number_of_argument(function, value, "count");
    uint64_t rows = number_of_argument(function, value, "height");
    uint64_t pitch = number_of_argument(function, value, "dpitch");
    uint64_t other_pitch = number_of_argument(function, value, "spitch");

    size = size > other ? size : other;
    other = number_of_argument(function, value, "size");
    size = size > other ? size : other;
    pitch = pitch > other_pitch ? pitch : other_pitch;
    size = size > rows * pitch ? size : rows * pitch;
    return size < ((uint64_t)1 << 36) ? size : 0;
}

static uint64_t pointer_of(struct translation *t, const struct trace_function *function,
                           const struct trace_value *value,
                           const struct trace_param *param, uint64_t recorded)
{
    uint64_t actual, size;
    const char *name = param->name;

    if (recorded == 0 || strcmp(name, "userData") == 0 || strcmp(name, "args") == 0)
        return 0;
    if (strcmp(name, "fn") == 0 || strcmp(name, "callback") == 0)
        return (uint64_t)(uintptr_t)nothing_void;
    if (range_get(t->ranges, recorded, &actual, &size)) {
        if (strstr(function->name, "Free") != NULL)
            t->freed = size;
        return actual;
    }
    if (strcmp(name, "dst") == 0 || strcmp(name, "src") == 0 ||
        strcmp(name, "ptr") == 0 || strcmp(name, "desc") == 0)
        return memory_of(t, extent_of(function, value) + 4096);
    return recorded; /* a wrong one stays wrong */
}

static uint64_t array_make(struct translation *t, const struct trace_function *function,
                           const struct trace_value *all, const struct trace_param *param,
                           const struct trace_value *value)
{
    size_t width = strchr("pz", param->element) != NULL ? 8 : 4;
    uint8_t *array = scratch_take(t, value->n_items * width + 64);

    for (size_t i = 0; array != NULL && i < value->n_items; i++) {
        uint64_t item = value->item[i];

        if (param->element == 'p')
            item = range_get(t->ranges, item, &item, &(uint64_t){0})
                       ? item
                       : memory_of(t, 1 << 20);
        else if (strcmp(param->name, "pid") == 0)
            item = (uint64_t)pid_of(t, (int)item);
        memcpy(array + i * width, &item, width);
    }
    return (uint64_t)(uintptr_t)array;
}

/* Bytes: a text, a struct, structs, a shareable handle. */
static uint64_t bytes_make(struct translation *t, const struct trace_param *param,
                           const struct trace_value *value, const char *structure)
{
    uint8_t actual[NAME_SIZE];
    const uint8_t *bytes = value->bytes;
    size_t size = value->size;
    uint8_t *copy;

    if ((param->letter == 's' || param->element == 'H') &&
        name_get(t->shared, bytes, size, actual, &size))
        bytes = actual;
    copy = scratch_take(t, size + 64);
    if (copy != NULL)
        memcpy(copy, bytes, size);
    if (copy != NULL && strcmp(structure, "cfg") == 0) {
        aclrtMallocConfig *config = scratch_take(t, sizeof *config);

        if (config == NULL)
            return 0;
        config->attrs = (aclrtMallocAttribute *)copy;
        config->numAttrs = size / sizeof *config->attrs;
        return (uint64_t)(uintptr_t)config;
    }
    return (uint64_t)(uintptr_t)copy;
}

static uint64_t argument_make(struct translation *t,
                              const struct trace_function *function,
                              const struct trace_value *all, uint32_t i)
{
    const struct trace_param *param = &function->param[i];
    const struct trace_value *value = &all[i];
    bool is_result = param->letter >= 'A' && param->letter <= 'Z';
    uint64_t actual;
    size_t n;

    if (value->is_null)
        return 0;
    if (value->item != NULL && !param->is_output)
        return array_make(t, function, all, param, value);
    if (is_result || param->is_output)
        return (uint64_t)(uintptr_t)scratch_take(t, 4096);
    if (value->bytes != NULL)
        return bytes_make(t, param, value, param->name);
    if (param->letter == 'p')
        return pointer_of(t, function, all, param, value->number);
    if (param->letter == 'x' && name_get(t->shared, &value->number, 8, &actual, &n))
        return actual;
    if (strcmp(param->name, "threadId") == 0)
        return t->report_thread;
    return value->number;
}

void translate_arguments(struct translation *t, const struct trace_function *function,
                         const struct trace_value *value, uint64_t *ret_argument)
{
    if (t->scratch == NULL) {
        t->max_scratch = 16 * ARGUMENT_SIZE;
        t->scratch = malloc(t->max_scratch);
    }
    t->n_scratch = 0;
    t->freed = 0;
    for (uint32_t i = 0; i < function->n; i++)
        ret_argument[i] = argument_make(t, function, value, i);
}

/* ---- results ---- */

/* Bytes that an address which a call gave is good for. */
static uint64_t result_size(const struct trace_function *function,
                            const struct trace_value *value, const char *name)
{
    if (strcmp(name, "handle") == 0 || strcmp(name, "stream") == 0 ||
        strcmp(name, "event") == 0)
        return strcmp(name, "handle") == 0 ? number_of_argument(function, value, "size")
                                           : 0;
    return number_of_argument(function, value, "size");
}

void translate_results(struct translation *t, const struct trace_function *function,
                       const struct trace_value *value, const uint64_t *argument)
{
    for (uint32_t i = 0; i < function->n; i++) {
        const struct trace_param *param = &function->param[i];
        const void *place = (const void *)(uintptr_t)argument[i];

        if (!value[i].is_there || place == NULL)
            continue;
        if (param->letter == 'P' && param->element == 0) {
            uint64_t actual = *(const uint64_t *)place;

            range_set(t->ranges, value[i].number,
                      result_size(function, value, param->name), actual);
        } else if (param->letter == 'X') {
            name_set(t->shared, &value[i].number, 8, place, 8);
        } else if (param->is_output && param->element == 'S') {
            name_set(t->shared, value[i].bytes, value[i].size, place,
                     strnlen(place, NAME_SIZE));
        } else if (param->is_output && param->element == 'H') {
            name_set(t->shared, value[i].bytes, value[i].size, place, value[i].size);
        }
    }
}
