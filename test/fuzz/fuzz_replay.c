/*
 * Traces chosen by a fuzzer, replayed in this process.
 *
 * A trace comes from strangers, and a replay makes its calls.  An input is a program that
 * writes calls of functions of this library, with the signatures of the library: numbers that
 * other arguments count are right most of the time, addresses are those of earlier results,
 * near them, or unknown.  So most calls get through the checks of play_read.c, are translated
 * and made.  Calls that wait for other threads are not written: no other thread would end them.
 *
 * The work of an input is bounded by the number of calls, the memory by the sizes of the
 * devices and by the limit of host memory.
 */
#include "../../tools/aclmem/translate.h"
#include "../trace/build.h"
#include "acl/acl.h"

enum { CALLS_MAX = 64, HOST_MAX = 4 << 20 };

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes);

static const char *const names[] = {
#define AM_API(ret_, name_, ...) #name_,
#define AM_API_RET(...)
#include "api/api.def"
};

#define N_NAMES (sizeof names / sizeof names[0])

/* ---- writing ---- */

struct writer {
    const uint8_t *at, *end;
    uint8_t definitions[BUILD_PAYLOAD]; /* a chunk of thread 0 */
    size_t n_definitions;
    uint8_t chunk[BUILD_PAYLOAD]; /* the calls */
    size_t used;
    uint64_t last_pointer;
    uint32_t defined[N_NAMES]; /* number of the definition; 0: none yet */
    uint32_t n_defined;
};

static uint8_t next(struct writer *w)
{
    return w->at < w->end ? *w->at++ : 0;
}

/* Small numbers, sizes, and numbers around the limits of types. */
static uint64_t number(struct writer *w)
{
    uint8_t byte = next(w);

    if (byte < 128)
        return byte & 15;
    if (byte < 192)
        return (uint64_t)(byte & 15) << 12;
    if (byte < 240)
        return (UINT64_C(1) << (next(w) & 63)) - 1 + (byte & 3);
    return UINT64_MAX - (byte & 15);
}

/* An address of one of 16 objects of the recording, or one in it. */
static uint64_t address(struct writer *w)
{
    uint8_t byte = next(w);

    if (byte < 8)
        return 0;
    return (uint64_t)((byte & 15) + 1) << 40 | (byte >= 192 ? number(w) & 0xffffff : 0);
}

static uint8_t *pointer_put(struct writer *w, uint8_t *at)
{
    uint64_t pointer = address(w);
    uint64_t before = w->last_pointer;

    w->last_pointer = pointer;
    return am_put_varint(at, am_zigzag((int64_t)(pointer - before)));
}

static uint8_t *bytes_put(struct writer *w, uint8_t *at, size_t size)
{
    static const char *const texts[] = {"", "Ascend910B", "device", "0"};
    uint8_t bytes[512];
    uint8_t choice = next(w);

    if (size == 0) {
        const char *text = texts[choice & 3];

        return am_put_bytes(at, text, strlen(text));
    }
    size = size < sizeof bytes ? size : sizeof bytes;
    if (choice >= 240)
        size -= 1;
    memset(bytes, 0, sizeof bytes);
    for (size_t i = 0; i < size; i += 4) /* small numbers, as enumerations are */
        bytes[i] = next(w) & 3;
    return am_put_bytes(at, bytes, size);
}

static uint8_t *value_put(struct writer *w, uint8_t *at, const struct play_param *param,
                          char letter, uint64_t count)
{
    if (letter == 'p')
        return pointer_put(w, at);
    if (strchr("stv", letter) != NULL)
        return bytes_put(w, at, letter == 's' ? 0 : param->size);
    if (count == UINT64_MAX)
        count = number(w);
    return strchr("lie", letter) != NULL ? am_put_varint(at, am_zigzag((int64_t)count))
                                         : am_put_varint(at, count);
}

static uint8_t *array_put(struct writer *w, uint8_t *at, const struct play_param *param,
                          uint64_t count)
{
    uint64_t n = next(w) < 240 ? count : number(w) & 15;

    at = am_put_varint(at, 1);
    if (strchr("StH", param->element) != NULL)
        return bytes_put(w, at, param->element == 't' ? param->size * n : 0);
    at = am_put_varint(at, n);
    for (uint64_t i = 0; i < n; i++) {
        if (param->element == 'p')
            at = pointer_put(w, at);
        else if (strchr("zf", param->element) != NULL)
            at = am_put_varint(at, number(w));
        else
            at = am_put_varint(at, am_zigzag((int64_t)number(w)));
    }
    return at;
}

static void definition_write(struct writer *w, size_t row,
                             const struct play_function *function)
{
    char text[512];
    int used = 0;

    text[0] = '\0';
    for (uint32_t i = 0; i < function->n; i++) {
        const struct play_param *param = &function->param[i];

        used += snprintf(text + used, sizeof text - (size_t)used, "%s%s:%c",
                         i > 0 ? " " : "", param->name, param->letter);
        if (param->element != 0)
            used += snprintf(text + used, sizeof text - (size_t)used, "%c%c",
                             param->is_output ? '>' : '<', param->element);
    }
    w->defined[row] = ++w->n_defined;
    w->n_definitions =
        (size_t)(build_function(w->definitions + w->n_definitions, w->defined[row], 'r',
                                function->name, text) -
                 w->definitions);
}

/* Whether an argument says how many elements another one has. */
static bool is_count(const struct play_function *function, uint32_t i)
{
    for (uint32_t k = 0; k < function->n; k++) {
        if (function->param[k].element != 0 && function->param[k].count == (int)i)
            return true;
    }
    return false;
}

static uint8_t *results_put(struct writer *w, uint8_t *at,
                            const struct play_function *function, uint64_t count)
{
    for (uint32_t i = 0; i < function->n; i++) {
        const struct play_param *param = &function->param[i];

        if (param->element != 0)
            at = array_put(w, at, param, count);
        else if (param->letter >= 'A' && param->letter <= 'Z')
            at = value_put(w, at, param, (char)(param->letter + 'a' - 'A'), UINT64_MAX);
    }
    return at;
}

static void call_write(struct writer *w, uint32_t id,
                       const struct play_function *function)
{
    uint8_t bytes[8192];
    uint8_t choice = next(w);
    uint64_t count = next(w) & 3;
    uint64_t result = choice & 7 ? 0 : 107000;
    uint8_t *at = am_put_varint(bytes, id);

    at = am_put_varint(at, 10); /* ns since the last event */
    at = am_put_varint(at, 0);  /* stack */
    at = am_put_varint(at, 0);  /* NULL pointers */
    for (uint32_t i = 0; i < function->n; i++) {
        const struct play_param *param = &function->param[i];

        if ((param->letter >= 'A' && param->letter <= 'Z') ||
            (param->letter == 't' && param->element != 0))
            continue;
        at = value_put(w, at, param, param->letter,
                       is_count(function, i) && choice < 240 ? count : UINT64_MAX);
    }
    at = am_put_varint(at, 5);
    at = am_put_varint(at, am_zigzag((int64_t)result));
    if (result == 0)
        at = results_put(w, at, function, count);
    w->used = (size_t)(build_record(w->chunk + w->used, AM_TRACE_CALL, bytes,
                                    (size_t)(at - bytes)) -
                       w->chunk);
}

/* Half of the calls allocate, use and free memory. */
static const char *name_choose(struct writer *w)
{
    static const char *const often[16] = {
        "aclrtMalloc",
        "aclrtMallocHost",
        "aclrtFreeHost",
        "aclrtFree",
        "aclrtMemcpy",
        "aclrtMemset",
        "aclrtMemcpyAsync",
        "aclrtMallocPhysical",
        "aclrtReserveMemAddress",
        "aclrtReleaseMemAddress",
        "aclrtMapMem",
        "aclrtCreateStream",
        "aclrtHostRegister",
        "aclrtMemAllocManaged",
        "aclFinalize",
        "aclInit",
    };
    uint8_t choice = next(w);

    return choice < 128 ? often[choice & 15]
                        : names[(size_t)(choice << 8 | next(w)) % N_NAMES];
}

/* Calls that wait for other threads, or make a stream wait for them. */
static bool may_wait(const char *name)
{
    static const char *const parts[] = {"Synchronize", "ProcessReport", "Notify",
                                        "ValueWait",   "Subscribe",     "LaunchCallback"};

    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        if (strstr(name, parts[i]) != NULL)
            return true;
    }
    return false;
}

static struct trace *trace_write(const uint8_t *bytes, size_t n)
{
    static struct writer w;
    struct build build;

    memset(&w, 0, sizeof w);
    w.at = bytes;
    w.end = bytes + n;
    build_begin(&build);
    for (int i = 0; i < CALLS_MAX && w.at < w.end && w.used < sizeof w.chunk / 2; i++) {
        const struct play_function *function = play_function_find(name_choose(&w));
        size_t row = 0;

        if (function == NULL || may_wait(function->name))
            continue;
        while (strcmp(names[row], function->name) != 0)
            row++;
        if (w.defined[row] == 0)
            definition_write(&w, row, function);
        call_write(&w, w.defined[row], function);
    }
    build_chunk(&build, 1, 0, 0, 1, w.definitions, w.n_definitions, 0);
    build_chunk(&build, 1, 7, 0, 1, w.chunk, w.used, 0);
    return build_open(&build);
}

/* ---- replaying ---- */

static struct translate_shared *shared;

static void calls_make(const struct play_trace *p)
{
    uint64_t argument[TRACE_ARGS_MAX] = {0};
    struct translation *t = translate_begin(shared);

    shared->n = 0;
    shared->host_used = shared->memory_used = 0;
    for (size_t i = 0; i < p->n_calls; i++) {
        const struct play_call *call = &p->call[i];
        int64_t rc;

        t->has_failed = call->result != 0;
        if (call->function == NULL ||
            !translate_arguments(t, call->function, call->value, argument))
            continue;
        rc = call->function->call(argument);
        translate_done(t, call->function, call->value, argument, rc);
        if (rc == 0)
            translate_results(t, call->function, call->value, argument);
        if (shared->host_used > shared->host_max)
            abort();
    }
    translate_free(t);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    setenv("ACLMEM_MEMORY", "16M", 1);
    setenv("ACLMEM_DEVICES", "2", 1);
    setenv("ACLMEM_LOG", "error", 1);
    unsetenv("ACLMEM_FABRIC");
    shared = calloc(1, sizeof *shared);
    if (shared == NULL)
        abort();
    pthread_mutex_init(&shared->lock, NULL);
    translate_share(shared, HOST_MAX);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes)
{
    char why[TRACE_WHY_SIZE];
    struct trace *trace = trace_write(bytes, n_bytes);
    struct play_trace calls;

    if (trace == NULL)
        return 0;
    if (play_read(&calls, trace, why) && aclInit(NULL) == ACL_SUCCESS) {
        aclrtSetDevice(0);
        calls_make(&calls);
        aclFinalize();
    }
    play_free(&calls);
    trace_close(trace);
    return 0;
}
