/*
 * A thread's records.
 *
 * A call is written in two halves.  The first one, with the arguments, goes behind the
 * chunk's `used` bytes before the call is passed on, and is announced as `pending`: when
 * the process dies in the call, or never comes back from it, a reader still sees the call.
 * The second half follows it, and both become a record by advancing `used`.  When the
 * program's own function makes calls from within a call (aclrtProcessReport), the first
 * half becomes a record by itself, BEGIN, and the second one END.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <sys/syscall.h>

#include "base/clock.h"
#include "base/sys.h"
#include "core/watch.h"
#include "layer/modules.h"
#include "layer/python.h"
#include "layer/stacks.h"
#include "layer/trace.h"
#include "layer/trace_file.h"
#include "trace/codec.h"

#define PAYLOAD (AM_TRACE_SLOT_SIZE - (uint32_t)sizeof(struct am_trace_chunk))
#define CALL_MAX 6144u  /* bytes of a call without its arrays, and of a stack */
#define HALF_MAX 49152u /* bytes of its arrays */
#define STACKS_MAX AM_TRACE_PYTHON_STACKS
#define PATH_MAX_RECORDED 4096u

struct writer {
    struct am_trace_slot_map *slot;
    uint8_t *base; /* the chunk's bytes */
    uint32_t used;
    uint32_t pending; /* bytes of the first half of `owner` */
    const struct am_trace_call *owner;
    uint64_t last;         /* time of the record before */
    uint64_t last_pointer; /* addresses are written as differences */
    uint64_t next;         /* number of the next chunk */
    uint32_t generation;
    uint32_t thread;
    bool is_busy; /* a signal handler's call comes in the midst of a record */
};

static _Thread_local struct writer *own __attribute__((tls_model("initial-exec")));
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static bool has_key;
static atomic_bool has_stacks;
/* Which stacks, and how many modules, are in the file already. */
static _Atomic uint64_t stacks_written[STACKS_MAX / 64];
static _Atomic uint32_t modules_written;
static uint32_t definitions_generation;

void am_trace_stacks_set(bool wanted)
{
    has_stacks = wanted;
    if (definitions_generation != am_trace_generation) {
        uint32_t n = am_stacks_count();

        /* Another file: a child by fork has its parent's stacks and writes them anew. */
        for (uint32_t i = 0; i <= n / 64 && i < STACKS_MAX / 64; i++)
            stacks_written[i] = 0;
        modules_written = 0;
        definitions_generation = am_trace_generation;
    }
}

/* ---- a thread's chunk ---- */

static void writer_end(void *arg)
{
    struct writer *w = arg;

    own = NULL;
    if (w->slot != NULL && w->generation == am_trace_generation)
        am_trace_slot_give(w->slot);
    free(w);
}

static void key_make(void)
{
    has_key = pthread_key_create(&key, writer_end) == 0;
}

static struct writer *writer_make(void)
{
    struct writer *w;

    pthread_once(&once, key_make);
    w = has_key ? am_sys_calloc(1, sizeof *w) : NULL;
    if (w == NULL)
        return NULL;
    if (pthread_setspecific(key, w) != 0) {
        free(w);
        return NULL;
    }
    own = w;
    return w;
}

/* Another chunk; false if the file cannot grow. */
static bool writer_turn(struct writer *w)
{
    uint64_t now = am_clock();

    if (w->slot != NULL)
        am_trace_slot_give(w->slot);
    w->slot = am_trace_slot_take(w->thread, w->next, now);
    if (w->slot == NULL)
        return false;
    w->next++;
    w->base = (uint8_t *)(w->slot->chunk + 1);
    w->used = 0;
    w->pending = 0;
    w->last = now;
    w->last_pointer = 0;
    return true;
}

/* This thread's writer with so much room; NULL: the call is not recorded. */
static inline struct writer *writer_get(uint32_t room)
{
    struct writer *w = own;

    if (w == NULL)
        w = writer_make();
    if (w == NULL)
        return NULL;
    if (w->generation != am_trace_generation) {
        w->generation = am_trace_generation;
        w->thread = (uint32_t)syscall(SYS_gettid);
        w->next = 0;
        free(w->slot); /* of the process that this one was forked from */
        w->slot = NULL;
        w->pending = 0;
    }
    if (w->slot == NULL || w->used + w->pending + room > PAYLOAD)
        return writer_turn(w) ? w : NULL;
    return w;
}

/* The bytes up to `end` are a record of this kind: they count from now on. */
static inline void record_end(struct writer *w, enum am_trace_kind kind, uint8_t *end)
{
    uint8_t *at = w->base + w->used;
    uint32_t n = (uint32_t)(end - at) - 3;

    at[0] = (uint8_t)kind;
    at[1] = (uint8_t)n;
    at[2] = (uint8_t)(n >> 8);
    w->used += n + 3;
    w->pending = 0;
    /* The partner is the fence in the reader's bytes_read(). */
    atomic_store_explicit(&w->slot->chunk->fill, w->used, memory_order_release);
}

/* The call around this one, if its first half waits for the second. */
static inline void owner_split(struct writer *w)
{
    if (w->pending > 0)
        record_end(w, AM_TRACE_BEGIN, w->base + w->used + w->pending);
    w->owner = NULL;
}

static inline uint8_t *time_put(struct writer *w, uint8_t *at, uint64_t now)
{
    uint64_t gap = now > w->last ? now - w->last : 0;

    w->last += gap;
    return am_put_varint(at, gap);
}

static inline uint8_t *pointer_put(struct writer *w, uint8_t *at, uint64_t value)
{
    at = am_put_varint(at, am_zigzag((int64_t)(value - w->last_pointer)));
    w->last_pointer = value;
    return at;
}

/* ---- stacks ---- */

static void module_define(struct writer *w, uint32_t number)
{
    const struct am_module *module = am_module_get((int)number);
    size_t n = strnlen(module->path, PATH_MAX_RECORDED);
    uint8_t *at = w->base + w->used + 3;

    at = am_put_varint(at, number);
    at = am_put_varint(at, module->base);
    at = am_put_varint(at, module->start);
    at = am_put_varint(at, module->end);
    at = am_put_bytes(at, module->path, n);
    at = am_put_bytes(at, module->build_id, strlen(module->build_id));
    record_end(w, AM_TRACE_MODULE, at);
}

static void modules_define(uint32_t era)
{
    uint32_t n = modules_written;

    while (n < era) {
        if (atomic_compare_exchange_weak(&modules_written, &n, n + 1)) {
            struct writer *w = writer_get(CALL_MAX);

            if (w == NULL)
                return;
            module_define(w, n);
        }
    }
}

__attribute__((noinline, cold)) static void stack_define(uint32_t stack)
{
    struct writer *w;
    const uintptr_t *frame;
    uintptr_t before = 0;
    uint32_t era;
    uint8_t *at;
    size_t n;

    frame = am_stack_frames(stack, &n, &era);
    modules_define(era);
    w = writer_get(CALL_MAX);
    if (w == NULL)
        return;
    at = am_put_varint(w->base + w->used + 3, stack);
    at = am_put_varint(at, era);
    at = am_put_varint(at, n);
    for (size_t i = 0; i < n; i++) {
        at = am_put_varint(at, am_zigzag((int64_t)(frame[i] - before)));
        before = frame[i];
    }
    record_end(w, AM_TRACE_STACK, at);
}

__attribute__((noinline, cold)) static void python_define(uint32_t stack)
{
    const char *text = am_stack_text(stack);
    size_t n = strnlen(text, HALF_MAX);
    struct writer *w = writer_get((uint32_t)n + 64);
    uint8_t *at;

    if (w == NULL)
        return;
    at = am_put_varint(w->base + w->used + 3, stack);
    at = am_put_bytes(at, text, n);
    record_end(w, AM_TRACE_PYTHON, at);
}

/* Whether this thread is the first to write the stack. */
static inline bool bit_claim(uint32_t number)
{
    uint64_t bit = UINT64_C(1) << (number % 64);
    _Atomic uint64_t *word = &stacks_written[number / 64];

    return (atomic_load_explicit(word, memory_order_relaxed) & bit) == 0 &&
           (atomic_fetch_or(word, bit) & bit) == 0;
}

/*
 * The number of this call's stack, which the file has then.  Where the binding of another
 * language said where the call comes from, that is the stack: the interpreter's own frames
 * say nothing.
 */
static inline uint32_t stack_take(void)
{
    uint32_t python = am_python_take();
    uint32_t stack = python != 0 ? python : am_stack_take();

    if (stack == 0 || stack >= STACKS_MAX)
        return 0;
    if (bit_claim(stack)) {
        if (python != 0)
            python_define(stack);
        else
            stack_define(stack);
    }
    return python != 0 ? AM_TRACE_PYTHON_STACKS + stack : stack;
}

/* ---- arguments ---- */

static inline uint64_t load8(const void *at)
{
    return *(const uint64_t *)at;
}

static inline uint32_t load4(const void *at)
{
    return *(const uint32_t *)at;
}

static uint8_t *text_put(uint8_t *at, const char *text)
{
    return am_put_bytes(at, text, strnlen(text, AM_TRACE_TEXT_MAX));
}

static uint8_t *config_put(uint8_t *at, const aclrtMallocConfig *config)
{
    size_t n = config->attrs != NULL ? config->numAttrs : 0;

    if (n > 16)
        n = 16;
    return am_put_bytes(at, config->attrs, n * sizeof *config->attrs);
}

static inline bool is_result(char letter)
{
    return letter >= 'A' && letter <= 'Z';
}

/* A number, an argument or a result, by its letter in lower case; others are left out. */
static inline uint8_t *number_put(struct writer *w, uint8_t *at, char letter,
                                  const void *place)
{
    switch (letter) {
    case 'p':
        return pointer_put(w, at, load8(place));
    case 'z':
    case 'x':
        return am_put_varint(at, load8(place));
    case 'l':
        return am_put_varint(at, am_zigzag((int64_t)load8(place)));
    case 'i':
    case 'e':
        return am_put_varint(at, am_zigzag((int32_t)load4(place)));
    case 'u':
    case 'f':
        return am_put_varint(at, load4(place));
    case 'h':
        return am_put_varint(at, *(const uint16_t *)place);
    default:
        return at;
    }
}

/* An argument as it is passed; pointers to results only leave a bit in *empty. */
static inline uint8_t *argument_put(struct writer *w, uint8_t *at,
                                    const struct am_trace_param *param, const void *arg)
{
    switch (param->letter) {
    case 'v':
        return am_put_bytes(at, arg, param->size);
    case 's':
        return load8(arg) != 0 ? text_put(at, *(const char *const *)arg) : at;
    case 't':
        if (load8(arg) == 0 || param->element != 0)
            return at;
        if (param->structure == AM_TRACE_STRUCT_aclrtMallocConfig)
            return config_put(at, *(const aclrtMallocConfig *const *)arg);
        return am_put_bytes(at, *(const void *const *)arg, param->size);
    default:
        return number_put(w, at, param->letter, arg);
    }
}

/* Bit i: argument i is a pointer to a text, a struct or a result, and NULL. */
static inline uint32_t empty_find(const struct am_trace_function *function,
                                  const void *const *args)
{
    uint32_t empty = 0;

    for (unsigned i = 0; i < function->n; i++) {
        char letter = function->param[i].letter;

        if ((is_result(letter) || letter == 's' || letter == 't') && load8(args[i]) == 0)
            empty |= 1u << i;
    }
    return empty;
}

/* ---- results ---- */

static inline uint8_t *result_put(struct writer *w, uint8_t *at,
                                  const struct am_trace_param *param, const void *place)
{
    if (param->letter == 'S')
        return text_put(at, place);
    if (param->letter == 'T')
        return am_put_bytes(at, place, param->size);
    return number_put(w, at, (char)(param->letter + 'a' - 'A'), place);
}

/* How many elements an argument counts. */
static uint64_t count_of(const struct am_trace_function *function, int8_t count,
                         const void *const *args)
{
    if (count < 0)
        return 1;
    switch (function->param[count].letter) {
    case 'u':
    case 'e':
        return load4(args[count]);
    default:
        return load8(args[count]);
    }
}

static uint32_t element_max(const struct am_trace_param *param)
{
    return param->element == 't' ? param->size : AM_VARINT_MAX;
}

/* The struct with an array that is passed by value; NULL for other arguments. */
static const aclmdlRICondTaskParams *
condition_of(const struct am_trace_function *function, const struct am_trace_param *param,
             const void *const *args)
{
    return param->letter == 'v' ? args[param - function->param] : NULL;
}

static uint64_t array_count(const struct am_trace_function *function,
                            const struct am_trace_param *param, const void *const *args)
{
    const aclmdlRICondTaskParams *condition = condition_of(function, param, args);
    uint64_t n =
        condition != NULL ? condition->size : count_of(function, param->count, args);
    uint64_t most = AM_TRACE_ARRAY_MAX;

    if (most > 10240 / element_max(param))
        most = 10240 / element_max(param);
    return n < most ? n : most;
}

/* Bytes that the arrays may take. */
static uint32_t arrays_room(const struct am_trace_function *function,
                            const void *const *args)
{
    uint64_t room = 0;

    for (unsigned i = 0; i < function->n; i++) {
        const struct am_trace_param *param = &function->param[i];

        if (param->element == 'S' || param->element == 'H')
            room += AM_TRACE_TEXT_MAX;
        else if (param->element != 0)
            room += array_count(function, param, args) * element_max(param) + 8;
    }
    return room < HALF_MAX ? (uint32_t)room : HALF_MAX;
}

static uint8_t *array_put(struct writer *w, uint8_t *at,
                          const struct am_trace_function *function,
                          const struct am_trace_param *param, const void *const *args,
                          const uint8_t *data)
{
    uint64_t n = array_count(function, param, args);

    switch (param->element) {
    case 'S':
        return am_put_bytes(at, data, strnlen((const char *)data, n));
    case 'H':
        n = count_of(function, param->count, args) == ACL_MEM_SHARE_HANDLE_TYPE_FABRIC
                ? sizeof(aclrtMemFabricHandle)
                : sizeof(uint64_t);
        return am_put_bytes(at, data, n);
    case 't':
        return am_put_bytes(at, data, n * param->size);
    default:
        break;
    }
    at = am_put_varint(at, n);
    for (uint64_t i = 0; i < n; i++) {
        at = number_put(w, at, param->element, data);
        data += param->element == 'p' || param->element == 'z' ? 8 : 4;
    }
    return at;
}

/* Results of a call that succeeded, in the order of its arguments; arrays both ways. */
static uint8_t *results_put(struct writer *w, uint8_t *at,
                            const struct am_trace_function *function,
                            const void *const *args)
{
    for (unsigned i = 0; i < function->n; i++) {
        const struct am_trace_param *param = &function->param[i];
        const void *place;

        if (!is_result(param->letter) && param->element == 0)
            continue;
        place = condition_of(function, param, args) != NULL
                    ? condition_of(function, param, args)->modelRIArray
                    : *(const void *const *)args[i];
        if (param->element != 0) {
            *at++ = place != NULL;
            if (place != NULL)
                at = array_put(w, at, function, param, args, place);
        } else if (place != NULL) {
            at = result_put(w, at, param, place);
        }
    }
    return at;
}

/* ---- what the core says ---- */

#define DEVICES_MAX 64u
static _Atomic uint64_t held_now[DEVICES_MAX];
static _Atomic uint64_t held_changed; /* a bit for each device */

void am_trace_held(int device, uint64_t held)
{
    if (device < 0 || (unsigned)device >= DEVICES_MAX)
        return;
    held_now[device] = held;
    atomic_fetch_or(&held_changed, UINT64_C(1) << device);
}

/* The next call that ends in any thread writes what has changed, as of its end. */
__attribute__((noinline, cold)) static void held_write(void)
{
    uint64_t changed = atomic_exchange(&held_changed, 0);

    for (; changed != 0; changed &= changed - 1) {
        unsigned device = (unsigned)__builtin_ctzll(changed);
        struct writer *w = writer_get(CALL_MAX);
        uint8_t *at;

        if (w == NULL)
            return;
        at = time_put(w, w->base + w->used + 3, w->last);
        at = am_put_varint(at, device);
        at = am_put_varint(at, held_now[device]);
        record_end(w, AM_TRACE_HELD, at);
    }
}

/* The number of a function by its name; AM_API_COUNT: none. */
static unsigned function_find(const char *name)
{
    static _Thread_local unsigned last; /* mostly the same again */

    if (strcmp(am_trace_functions[last].name, name) == 0)
        return last;
    for (unsigned i = 0; i < AM_API_COUNT; i++) {
        if (strcmp(am_trace_functions[i].name, name) == 0)
            return last = i;
    }
    return AM_API_COUNT;
}

/*
 * Splits the call around this record: a thread that waits runs tasks during the wait, and a
 * function of the program makes calls.  False: another record of this thread is being written.
 */
static inline bool can_write(void)
{
    struct writer *w = own;

    if (w == NULL || w->generation != am_trace_generation)
        return true;
    if (w->is_busy)
        return false;
    owner_split(w);
    return true;
}

void am_trace_task(const struct am_watch_task *task)
{
    struct writer *w = can_write() ? writer_get(CALL_MAX) : NULL;
    uint8_t *at;

    if (w == NULL) {
        am_trace_lose(1);
        return;
    }
    w->is_busy = true;
    at = am_put_varint(w->base + w->used + 3,
                       task->model != 0 ? task->model : task->stream);
    if (task->model != 0)
        at = am_put_varint(at, task->number);
    at = am_put_varint(at, function_find(task->function));
    at = time_put(w, at, task->ended);
    at = am_put_varint(at, task->ended - task->began);
    at = am_put_varint(at, task->began - task->queued);
    /* A chunk that was begun for this record begins later than the task ended. */
    at = am_put_varint(at, w->last > task->ended ? w->last - task->ended : 0);
    record_end(w, task->model != 0 ? AM_TRACE_NODE : AM_TRACE_TASK, at);
    w->is_busy = false;
}

/* ---- calls ---- */

void am_trace_begin(struct am_trace_call *call, enum am_api_id id, const void *const *at)
{
    const struct am_trace_function *function = &am_trace_functions[id];
    uint32_t room = CALL_MAX;
    uint32_t stack = 0;
    struct writer *w;
    uint8_t *p;

    call->function = id;
    call->at = at;
    call->is_recorded = false;
    if (function->has_arrays)
        room += arrays_room(function, at);
    w = can_write() ? writer_get(room) : NULL;
    if (w != NULL && has_stacks) {
        w->is_busy = true;
        stack = stack_take();
        w->is_busy = false;
        w = writer_get(room);
    }
    if (w == NULL) {
        am_trace_lose(1);
        return;
    }
    w->is_busy = true;
    p = am_put_varint(w->base + w->used + 3, id);
    call->began = am_clock();
    p = time_put(w, p, call->began);
    p = am_put_varint(p, stack);
    p = am_put_varint(p, empty_find(function, at));
    for (unsigned i = 0; i < function->n; i++)
        p = argument_put(w, p, &function->param[i], at[i]);
    w->pending = (uint32_t)(p - (w->base + w->used));
    w->owner = call;
    call->is_recorded = true;
    atomic_store_explicit(&w->slot->chunk->fill, w->used | (uint64_t)w->pending << 32,
                          memory_order_release);
    w->is_busy = false;
}

void am_trace_end(struct am_trace_call *call, uint64_t result)
{
    const struct am_trace_function *function = &am_trace_functions[call->function];
    enum am_trace_kind kind = AM_TRACE_CALL;
    struct writer *w = own;
    uint8_t *p;

    if (!call->is_recorded || w == NULL || w->generation != am_trace_generation)
        return;
    if (w->owner != call || w->pending == 0) { /* the first half is a record already */
        kind = AM_TRACE_END;
        owner_split(w);
        w = writer_get(CALL_MAX + HALF_MAX);
        if (w == NULL)
            return;
    }
    w->is_busy = true;
    p = w->base + w->used + (kind == AM_TRACE_CALL ? w->pending : 3);
    p = time_put(w, p, am_clock());
    if (function->result == 'r')
        p = am_put_varint(p, am_zigzag((int64_t)result));
    else if (function->result == 's')
        p = result != 0 ? text_put(p, (const char *)(uintptr_t)result)
                        : am_put_varint(p, 0);
    else
        p = am_put_varint(p, result);
    if (function->result != 'r' || result == ACL_SUCCESS)
        p = results_put(w, p, function, call->at);
    record_end(w, kind, p);
    w->owner = NULL;
    if (atomic_load_explicit(&held_changed, memory_order_relaxed) != 0)
        held_write();
    w->is_busy = false;
}
