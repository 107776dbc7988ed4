/*
 * The data of the report page: a JSON text and columns of numbers as varints of differences,
 * compressed with gzip, which every browser unpacks.
 */
#include "page_data.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "history.h"
#include "names.h"
#include "output.h"
#include "show.h"
#include "text.h"

/* Above this number of blocks the page has the largest ones only. */
#define BLOCKS_MAX 1000000u

/* ---- bytes ---- */

static void bytes_add(struct bytes *bytes, const void *data, size_t n)
{
    if (bytes->n + n > bytes->max) {
        bytes->max = 2 * (bytes->n + n) + 4096;
        bytes->data = realloc(bytes->data, bytes->max);
        if (bytes->data == NULL) {
            fprintf(stderr, "aclmem: no memory for the page\n");
            exit(1);
        }
    }
    memcpy(bytes->data + bytes->n, data, n);
    bytes->n += n;
}

/* A number of a column: the difference to the one before, zigzag. */
static void number_add(struct bytes *bytes, int64_t *last, int64_t value)
{
    int64_t difference = value - *last;
    uint64_t rest = ((uint64_t)difference << 1) ^ (uint64_t)(difference >> 63);
    uint8_t out[10];
    size_t n = 0;

    for (; rest >= 0x80; rest >>= 7)
        out[n++] = (uint8_t)(rest | 0x80);
    out[n++] = (uint8_t)rest;
    bytes_add(bytes, out, n);
    *last = value;
}

/* ---- columns ---- */

struct making {
    struct history *history;
    struct bytes columns;
    uint32_t *block; /* those of the page */
    uint32_t *place; /* of a block on the page; NO_BLOCK: left out */
    size_t n_blocks;
    json_t *frames;      /* texts */
    json_t *owners;      /* of each frame: enum owner */
    json_t *known;       /* text -> number */
    json_t *names;       /* of functions that queue work */
    json_t *known_names; /* name -> number */
};

static int64_t since(const struct making *m, uint64_t time)
{
    return time == 0 ? 0 : (int64_t)(time - m->history->began);
}

/* A number of an element; each of the tables below has one such function. */
typedef int64_t (*value_of)(struct making *m, size_t element, unsigned column);

/* Whether all elements have the same number. */
static bool is_constant(struct making *m, size_t n, value_of value, unsigned column)
{
    for (size_t i = 1; i < n; i++) {
        if (value(m, i, column) != value(m, 0, column))
            return false;
    }
    return true;
}

/*
 * Writes columns, and their names: a text with a space between two.  A column with one number
 * in all rows is [name, number], and has no bytes.
 */
static json_t *table_add(struct making *m, size_t n, value_of value, const char *titles)
{
    json_t *names = json_array();
    size_t length;

    for (unsigned c = 0; *titles != '\0'; c++, titles += length) {
        int64_t last = 0;

        titles += *titles == ' ';
        length = strcspn(titles, " ");
        if (is_constant(m, n, value, c)) {
            json_array_append_new(
                names, json_pack("[s#, I]", titles, (int)length,
                                 n > 0 ? (json_int_t)value(m, 0, c) : (json_int_t)0));
            continue;
        }
        json_array_append_new(names, json_stringn(titles, length));
        for (size_t i = 0; i < n; i++)
            number_add(&m->columns, &last, value(m, i, c));
    }
    return json_pack("{s:I, s:o}", "n", (json_int_t)n, "columns", names);
}

/* The number of a function's name in m->names. */
static int64_t name_number(struct making *m, const char *name)
{
    json_t *number = json_object_get(m->known_names, name);

    if (number == NULL) {
        number = json_integer((json_int_t)json_array_size(m->names));
        json_object_set_new(m->known_names, name, number);
        json_array_append_new(m->names, text_json(name));
    }
    return json_integer_value(number);
}

#define BLOCK_COLUMNS \
    "made freed released exported size high low kind device where process attr thread " \
    "stream gone of"

static int64_t block_value(struct making *m, size_t i, unsigned column)
{
    const struct block *block = &m->history->block[m->block[i]];
    const int64_t values[] = {since(m, block->made),
                              since(m, block->freed),
                              since(m, block->released),
                              since(m, block->exported),
                              (int64_t)block->size,
                              (int64_t)(block->addr >> 32),
                              (int64_t)(block->addr & UINT32_MAX),
                              block->kind,
                              block->device,
                              block->where,
                              block->process,
                              block->attr,
                              block->thread,
                              block->stream,
                              block->gone,
                              block->of == NO_BLOCK || m->place[block->of] == NO_BLOCK
                                  ? -1
                                  : (int64_t)m->place[block->of]};

    return values[column];
}

static int64_t copy_value(struct making *m, size_t i, unsigned column)
{
    const struct copy *copy = &m->history->copy[i];
    const int64_t values[] = {since(m, copy->begin),
                              since(m, copy->end),
                              (int64_t)copy->bytes,
                              copy->stream,
                              copy->kind,
                              copy->where,
                              copy->model == NO_MODEL ? -1 : (int64_t)copy->model};

    return column == 7 ? name_number(m, copy->name) : values[column];
}

static int64_t task_value(struct making *m, size_t i, unsigned column)
{
    const struct task *task = &m->history->task[i];
    const int64_t values[] = {since(m, task->begin), since(m, task->end), task->stream};

    return column == 3 ? name_number(m, task->name) : values[column];
}

static int64_t node_value(struct making *m, size_t i, unsigned column)
{
    const struct node *node = &m->history->node[i];
    const int64_t values[] = {since(m, node->time),
                              (int64_t)node->bytes,
                              node->model,
                              node->stream,
                              node->where,
                              node->from == NO_NODE ? -1 : (int64_t)node->from,
                              node->kind};

    return column == 7 ? name_number(m, node->name) : values[column];
}

static int64_t run_value(struct making *m, size_t i, unsigned column)
{
    const struct run *run = &m->history->run[i];
    const int64_t values[] = {since(m, run->begin), since(m, run->end), run->node,
                              run->copy == NO_COPY ? -1 : (int64_t)run->copy};

    return values[column];
}

static int64_t mark_value(struct making *m, size_t i, unsigned column)
{
    const struct mark *mark = &m->history->mark[i];
    const int64_t values[] = {since(m, mark->recorded), since(m, mark->waited),
                              mark->from, mark->to};

    return values[column];
}

static int64_t held_value(struct making *m, size_t i, unsigned column)
{
    const struct held *held = &m->history->held[i];
    const int64_t values[] = {since(m, held->time), (int64_t)held->bytes, held->device};

    return values[column];
}

/* In the order in which data.js reads them. */
static void tables_add(struct making *m, json_t *meta)
{
    const struct history *h = m->history;

    json_object_set_new(meta, "blocks",
                        table_add(m, m->n_blocks, block_value, BLOCK_COLUMNS));
    json_object_set_new(meta, "copies",
                        table_add(m, h->n_copies, copy_value,
                                  "begin end bytes stream kind where model name"));
    json_object_set_new(meta, "marks",
                        table_add(m, h->n_marks, mark_value, "recorded waited from to"));
    json_object_set_new(meta, "held",
                        table_add(m, h->n_held, held_value, "time bytes device"));
    json_object_set_new(meta, "tasks",
                        table_add(m, h->n_tasks, task_value, "begin end stream name"));
    json_object_set_new(meta, "nodes",
                        table_add(m, h->n_nodes, node_value,
                                  "time bytes model stream where from kind name"));
    json_object_set_new(meta, "runs",
                        table_add(m, h->n_runs, run_value, "begin end node replay"));
}

/* ---- which blocks ---- */

static int size_compare(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left;
    uint64_t b = *(const uint64_t *)right;

    return a < b ? 1 : a > b ? -1 : 0;
}

/* The size from which blocks are on the page; 0: all of them. */
static uint64_t threshold_find(const struct history *history)
{
    uint64_t *size;
    uint64_t threshold = 0;

    if (history->n_blocks <= BLOCKS_MAX)
        return 0;
    size = calloc(history->n_blocks, sizeof *size);
    if (size == NULL)
        return 0;
    for (size_t i = 0; i < history->n_blocks; i++)
        size[i] = history->block[i].size;
    qsort(size, history->n_blocks, sizeof *size, size_compare);
    threshold = size[BLOCKS_MAX] + 1;
    free(size);
    return threshold;
}

static void blocks_choose(struct making *m, char *notice, size_t notice_n)
{
    const struct history *history = m->history;
    uint64_t threshold = threshold_find(history);

    m->block = calloc(history->n_blocks + 1, sizeof *m->block);
    m->place = calloc(history->n_blocks + 1, sizeof *m->place);
    for (size_t i = 0; m->block != NULL && m->place != NULL && i < history->n_blocks;
         i++) {
        m->place[i] = NO_BLOCK;
        if (history->block[i].size < threshold && kind_is_memory(history->block[i].kind))
            continue;
        m->place[i] = (uint32_t)m->n_blocks;
        m->block[m->n_blocks++] = (uint32_t)i;
    }
    if (m->n_blocks < history->n_blocks)
        snprintf(notice, notice_n,
                 "%zu of %zu blocks are left out, those smaller than %" PRIu64
                 " bytes; totals and flame graphs have them all.",
                 history->n_blocks - m->n_blocks, history->n_blocks, threshold);
}

/* ---- the JSON part ---- */

/* Whose code a frame is: blame goes to the program's own frames. */
enum owner {
    OWNER_PROGRAM,
    OWNER_LIBRARY,     /* aclmem's own libraries */
    OWNER_INTERPRETER, /* Python's C code */
    OWNER_START,       /* below main() and the functions of threads */
};

static enum owner owner_of(const json_t *frame)
{
    static const struct {
        const char *prefix; /* of the module's file name, or of the function */
        bool is_function;
        enum owner owner;
    } rules[] = {
        {"libascendcl", false, OWNER_LIBRARY},
        {"libaclmem", false, OWNER_LIBRARY},
        {"libpython", false, OWNER_INTERPRETER},
        {"python3", false, OWNER_INTERPRETER},
        {"acl.cpython", false, OWNER_LIBRARY},
        {"acl.abi3", false, OWNER_LIBRARY},
        {"libc.so", false,
         OWNER_START}, /* its functions have no names without debug symbols */
        {"_start", true, OWNER_START},
        {"__libc_start_", true, OWNER_START},
        {"clone", true, OWNER_START},
        {"__clone", true, OWNER_START},
        {"start_thread", true, OWNER_START},
        {"call_init", true, OWNER_START},
    };
    const char *module = text_of(frame, "module");
    const char *base = strrchr(module, '/');

    base = base != NULL ? base + 1 : module;
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        const char *text = rules[i].is_function ? text_of(frame, "function") : base;

        if (strncmp(text, rules[i].prefix, strlen(rules[i].prefix)) == 0)
            return rules[i].owner;
    }
    return OWNER_PROGRAM;
}

static json_int_t frame_number(struct making *m, const json_t *frame)
{
    char text[4096];
    json_t *number;
    json_int_t made;

    if (text_of(frame, "file")[0] != '\0')
        snprintf(text, sizeof text, "%s (%s:%lld)", text_of(frame, "function"),
                 text_of(frame, "file"), number_of(frame, "line"));
    else
        snprintf(text, sizeof text, "%s", text_of(frame, "function"));
    number = json_object_get(m->known, text);
    if (number != NULL)
        return json_integer_value(number);
    made = (json_int_t)json_array_size(m->frames);
    json_array_append_new(m->frames, json_string(text));
    json_array_append_new(m->owners, json_integer(owner_of(frame)));
    json_object_set_new(m->known, text, json_integer(made));
    return made;
}

static json_t *wheres_make(struct making *m)
{
    json_t *wheres = json_array();

    for (size_t i = 0; i < m->history->n_wheres; i++) {
        const json_t *frames = history_frames(m->history, (uint32_t)i);
        const struct where *where = &m->history->where[i];
        json_t *numbers = json_array();
        json_t *frame;
        size_t k;

        json_array_foreach (frames, k, frame)
            json_array_append_new(numbers, json_integer(frame_number(m, frame)));
        json_array_append_new(
            wheres,
            json_pack(
                "{s:o, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "frames", numbers, "name",
                (json_int_t)(where->name != NULL ? name_number(m, where->name) : -1),
                "thread", (json_int_t)where->thread, "peak", (json_int_t)where->at_peak,
                "leaked", (json_int_t)where->leaked, "allocated",
                (json_int_t)where->allocated, "calls", (json_int_t)where->n_calls, "ns",
                (json_int_t)where->ns));
    }
    return wheres;
}

static int stats_compare(const void *left, const void *right)
{
    const struct function_stats *a = left;
    const struct function_stats *b = right;

    return a->ns < b->ns ? 1 : a->ns > b->ns ? -1 : 0;
}

static json_t *functions_make(struct history *history)
{
    json_t *functions = json_array();

    if (history->n_functions > 0)
        qsort(history->function, history->n_functions, sizeof *history->function,
              stats_compare);
    for (size_t i = 0; i < history->n_functions; i++) {
        const struct function_stats *f = &history->function[i];

        json_array_append_new(functions,
                              json_pack("{s:s, s:I, s:I, s:I, s:I}", "name", f->name,
                                        "calls", (json_int_t)f->n_calls, "errors",
                                        (json_int_t)f->n_errors, "ns", (json_int_t)f->ns,
                                        "longest", (json_int_t)f->longest));
    }
    return functions;
}

enum { DIRECTION_OTHER = 4, DIRECTION_REPLAYED, N_DIRECTIONS };

static json_t *directions_make(const struct history *history)
{
    static const char *const names[N_DIRECTIONS] = {
        "host to host",     "host to device", "device to host",
        "device to device", "other",          "in replays of models"};
    json_int_t sum[N_DIRECTIONS][3] = {{0}}; /* copies, bytes, ns */
    json_t *directions = json_array();

    for (size_t i = 0; i < history->n_copies; i++) {
        const struct copy *copy = &history->copy[i];
        bool is_replay = copy->model != NO_MODEL;
        unsigned k = is_replay                      ? DIRECTION_REPLAYED
                     : copy->kind < DIRECTION_OTHER ? copy->kind
                                                    : DIRECTION_OTHER;

        sum[k][0] += is_replay ? (json_int_t)history->model[copy->model].n_copies : 1;
        sum[k][1] += (json_int_t)copy->bytes;
        sum[k][2] += (json_int_t)(copy->end - copy->begin);
    }
    for (unsigned k = 0; k < N_DIRECTIONS; k++) {
        if (sum[k][0] > 0)
            json_array_append_new(directions, json_pack("{s:s, s:I, s:I, s:I}", "name",
                                                        names[k], "n", sum[k][0], "bytes",
                                                        sum[k][1], "ns", sum[k][2]));
    }
    return directions;
}

static json_t *models_make(const struct making *m)
{
    json_t *models = json_array();

    for (size_t i = 0; i < m->history->n_models; i++) {
        const struct model *model = &m->history->model[i];

        json_array_append_new(
            models,
            json_pack("{s:o, s:I, s:I, s:I, s:i, s:b, s:i, s:i, s:i}", "handle",
                      json_sprintf("0x%" PRIx64, model->handle), "began",
                      (json_int_t)since(m, model->began), "captured",
                      (json_int_t)since(m, model->captured), "destroyed",
                      (json_int_t)since(m, model->destroyed), "where", (int)model->where,
                      "failed", (int)model->has_failed, "parent",
                      model->parent == NO_NODE ? -1 : (int)model->parent, "branch",
                      (int)model->branch, "condition", (int)model->condition));
    }
    return models;
}

static json_t *streams_make(const struct history *history)
{
    json_t *streams = json_array();
    char name[64];

    for (size_t i = 0; i < history->n_streams; i++) {
        if (i == 0)
            snprintf(name, sizeof name, "no stream");
        else
            snprintf(name, sizeof name, "0x%" PRIx64, history->stream[i].handle);
        json_array_append_new(streams, json_pack("{s:s}", "name", name));
    }
    return streams;
}

/* The command line of a process, from its JSON. */
static json_t *command_make(const json_t *about)
{
    const json_t *words = json_object_get(about, "command");
    json_t *line = json_string(json_string_value(words));
    json_t *word;
    size_t i;

    json_array_foreach (words, i, word) {
        json_t *longer =
            json_sprintf("%s%s%s", line != NULL ? json_string_value(line) : "",
                         line != NULL ? " " : "", json_string_value(word));

        json_decref(line);
        line = longer;
    }
    return line != NULL ? line : json_string("");
}

static json_t *processes_make(const struct history *history)
{
    json_t *processes = json_array();

    for (size_t i = 0; i < history->n_processes; i++) {
        const struct trace_process *process = history->process[i];
        json_t *about = process != NULL && process->about != NULL
                            ? json_loads(process->about, 0, NULL)
                            : NULL;

        json_array_append_new(processes,
                              json_pack("{s:i, s:o, s:s, s:s}", "pid",
                                        process != NULL ? process->pid : 0, "command",
                                        command_make(about), "soc", text_of(about, "soc"),
                                        "version", text_of(about, "version")));
        json_decref(about);
    }
    if (history->n_processes == 0)
        json_array_append_new(processes,
                              json_pack("{s:i, s:s, s:s, s:s}", "pid", 0, "command", "",
                                        "soc", "", "version", ""));
    return processes;
}

static json_t *kinds_make(void)
{
    json_t *kinds = json_array();

    for (int i = 0; i < KIND_COUNT; i++)
        json_array_append_new(kinds,
                              json_pack("{s:s, s:b}", "name", kind_names[i], "memory",
                                        (int)kind_is_memory((enum block_kind)i)));
    return kinds;
}

/* The devices that have memory, and the one that has most at the peak. */
static json_t *devices_make(const struct history *history, json_int_t *ret_peak_device)
{
    uint64_t at_peak[256] = {0};
    bool is_there[256] = {false};
    json_t *devices = json_array();
    int best = 0;

    for (size_t i = 0; i < history->n_blocks; i++) {
        const struct block *block = &history->block[i];

        if (!kind_is_memory(block->kind) || block->device < -1 || block->device > 254)
            continue;
        is_there[block->device + 1] = true;
        if (block->made <= history->peak_at &&
            (block->freed == 0 || block->freed > history->peak_at))
            at_peak[block->device + 1] += block->size;
    }
    for (int i = 0; i < 256; i++) {
        if (is_there[i])
            json_array_append_new(devices, json_integer(i - 1));
        if (at_peak[i] > at_peak[best])
            best = i;
    }
    if (json_array_size(devices) == 0)
        json_array_append_new(devices, json_integer(0));
    *ret_peak_device = best - 1;
    return devices;
}

/* ---- the page ---- */

/*
 * At the moment when the devices' live bytes are the most: those, and the bytes held.  A
 * call writes what is held when it ends, so a block counts from then on.
 */
static void held_sum(const struct history *history, json_t *totals)
{
    uint64_t now[256] = {0};
    uint64_t held = 0;
    uint64_t live = 0;

    for (size_t i = 0; i < history->n_held; i++) {
        const struct held *change = &history->held[i];

        now[change->device & 0xff] = change->bytes;
        if (i + 1 == history->n_held || history->held[i + 1].time > history->peak_at)
            break;
    }
    for (size_t i = 0; i < 256; i++)
        held += now[i];
    for (size_t i = 0; i < history->n_blocks; i++) {
        const struct block *block = &history->block[i];

        if (kind_is_memory(block->kind) && block->device >= 0 &&
            block->made <= history->peak_at &&
            (block->freed == 0 || block->freed > history->peak_at))
            live += block->size;
    }
    if (held >= live && held > 0) {
        json_object_set_new(totals, "held", json_integer((json_int_t)held));
        json_object_set_new(totals, "heldLive", json_integer((json_int_t)live));
    }
}

static json_t *meta_make(struct making *m, const char *path, const json_t *findings,
                         const char *notice)
{
    struct history *history = m->history;
    const char *name = input_name(path);
    const char *base = strrchr(name, '/');
    json_int_t peak_device;
    json_t *devices = devices_make(history, &peak_device);
    json_t *meta =
        json_pack("{s:o, s:I, s:I, s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:s, s:b}",
                  "program", text_json(base != NULL ? base + 1 : name), "duration",
                  (json_int_t)(history->ended - history->began), "peakAt",
                  since(m, history->peak_at), "peakDevice", peak_device, "devices",
                  devices, "kinds", kinds_make(), "wheres", wheres_make(m), "functions",
                  functions_make(history), "directions", directions_make(history),
                  "streams", streams_make(history), "processes", processes_make(history),
                  "notice", notice, "isChecked", findings != NULL);

    json_object_set_new(meta, "frames", json_incref(m->frames));
    json_object_set_new(meta, "findings",
                        findings != NULL ? json_deep_copy(findings) : json_array());
    json_object_set_new(
        meta, "totals",
        json_pack("{s:I, s:I, s:I, s:I, s:I, s:I}", "peak", (json_int_t)history->peak,
                  "live", (json_int_t)history->live, "allocated",
                  (json_int_t)history->allocated, "allocations",
                  (json_int_t)history->n_allocations, "calls",
                  (json_int_t)history->n_calls, "errors", (json_int_t)history->n_errors));
    held_sum(history, json_object_get(meta, "totals"));
    json_object_set_new(meta, "models", models_make(m));
    json_object_set_new(meta, "isCounted", json_boolean(history->is_counted));
    json_object_set_new(meta, "owners", json_incref(m->owners));
    json_object_set_new(meta, "hasTasks", json_boolean(history->n_measured > 0));
    json_object_set_new(meta, "first", json_integer(since(m, history->first)));
    return meta;
}

/* Length, JSON, columns; in gzip. */
static void data_make(struct making *m, const char *path, const json_t *findings,
                      json_t *pool, json_t *other, struct bytes *ret_packed)
{
    char notice[512] = "";
    struct bytes all = {0};
    z_stream stream = {0};
    json_t *meta;
    uint32_t length;
    char *text;

    blocks_choose(m, notice, sizeof notice);
    meta = meta_make(m, path, findings, notice);
    tables_add(m, meta);
    json_object_set(meta, "names", m->names);
    if (pool != NULL)
        json_object_set(meta, "pool", pool);
    if (other != NULL)
        json_object_set(meta, "other", other);
    text = json_dumps(meta, JSON_COMPACT);
    length = text != NULL ? (uint32_t)strlen(text) : 0;
    bytes_add(&all, &length, sizeof length);
    bytes_add(&all, text != NULL ? text : "", length);
    bytes_add(&all, m->columns.data != NULL ? (const void *)m->columns.data : "",
              m->columns.n);
    deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 9, Z_DEFAULT_STRATEGY);
    ret_packed->max = deflateBound(&stream, all.n);
    ret_packed->data = malloc(ret_packed->max);
    stream.next_in = all.data;
    stream.avail_in = (uInt)all.n;
    stream.next_out = ret_packed->data;
    stream.avail_out = (uInt)ret_packed->max;
    if (ret_packed->data != NULL)
        deflate(&stream, Z_FINISH);
    ret_packed->n = stream.total_out;
    deflateEnd(&stream);
    free(all.data);
    free(text);
    json_decref(meta);
}

/* Reads a run and places its findings; false after printing the reason. */
static bool run_load(struct making *m, struct history *history, const char *path,
                     json_t *findings, struct trace **ret_trace)
{
    if (!history_load("report", path, history, ret_trace))
        return false;
    if (*ret_trace != NULL)
        findings_place(history, *ret_trace, findings);
    *m = (struct making){.history = history,
                         .frames = json_array(),
                         .owners = json_array(),
                         .known = json_object(),
                         .names = json_array(),
                         .known_names = json_object()};
    return true;
}

static void run_free(struct making *m, struct trace *trace)
{
    json_decref(m->frames);
    json_decref(m->owners);
    json_decref(m->known);
    json_decref(m->names);
    json_decref(m->known_names);
    free(m->block);
    free(m->place);
    free(m->columns.data);
    history_free(m->history);
    trace_close(trace);
}

/* The run that another one is compared with: totals, stacks, functions. */
static json_t *other_make(const char *path)
{
    struct history history;
    struct making m;
    struct trace *trace;
    json_t *other;

    if (!run_load(&m, &history, path, NULL, &trace))
        return NULL;
    other = meta_make(&m, path, NULL, "");
    run_free(&m, trace);
    return other;
}

bool page_data_make(const char *path, const char *before, const json_t *given,
                    json_t *pool, struct bytes *ret_packed)
{
    json_t *findings = given != NULL ? json_deep_copy(given) : NULL;
    json_t *other = before != NULL ? other_make(before) : NULL;
    bool is_good = before == NULL || other != NULL;
    struct history history;
    struct making m;
    struct trace *trace;

    is_good = is_good && run_load(&m, &history, path, findings, &trace);
    if (is_good) {
        data_make(&m, path, findings, pool, other, ret_packed);
        run_free(&m, trace);
    }
    json_decref(other);
    json_decref(findings);
    names_close();
    return is_good;
}
