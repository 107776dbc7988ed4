/*
 * aclmem report: a trace as a page that opens from disk.
 *
 * The page is page/index.html with styles, scripts and data in it.  The data are a JSON
 * text and columns of numbers as varints of differences, compressed with gzip, which every
 * browser unpacks.
 */
#include "page.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <zlib.h>

#include "history.h"
#include "command.h"
#include "names.h"
#include "output.h"
#include "page_files.h"
#include "show.h"
#include "text.h"

/* More blocks than this make a page that is no pleasure: the largest are kept. */
#define BLOCKS_MAX 1000000u

static struct {
    const char *output;
    const char *findings;
    const char *pool;
    bool is_replacing;
} choice;

/* ---- bytes ---- */

struct bytes {
    uint8_t *data;
    size_t n, max;
};

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
    json_t *frames; /* texts */
    json_t *known;  /* text -> number */
};

static int64_t since(const struct making *m, uint64_t time)
{
    return time == 0 ? 0 : (int64_t)(time - m->history->began);
}

enum column {
    COLUMN_made,
    COLUMN_freed,
    COLUMN_released,
    COLUMN_exported,
    COLUMN_size,
    COLUMN_high,
    COLUMN_low,
    COLUMN_kind,
    COLUMN_device,
    COLUMN_where,
    COLUMN_process,
    COLUMN_attr,
    COLUMN_of,
    COLUMN_COUNT,
};

static const char *const column_names[COLUMN_COUNT] = {
    "made", "freed",  "released", "exported", "size", "high", "low",
    "kind", "device", "where",    "process",  "attr", "of",
};

static int64_t column_value(const struct making *m, const struct block *block,
                            enum column column)
{
    switch (column) {
    case COLUMN_made:
        return since(m, block->made);
    case COLUMN_freed:
        return since(m, block->freed);
    case COLUMN_released:
        return since(m, block->released);
    case COLUMN_exported:
        return since(m, block->exported);
    case COLUMN_size:
        return (int64_t)block->size;
    case COLUMN_high:
        return (int64_t)(block->addr >> 32);
    case COLUMN_low:
        return (int64_t)(block->addr & UINT32_MAX);
    case COLUMN_kind:
        return block->kind;
    case COLUMN_device:
        return block->device;
    case COLUMN_where:
        return block->where;
    case COLUMN_process:
        return block->process;
    case COLUMN_attr:
        return block->attr;
    default:
        return block->of == NO_BLOCK || m->place[block->of] == NO_BLOCK
                   ? -1
                   : (int64_t)m->place[block->of];
    }
}

static json_t *blocks_add(struct making *m)
{
    json_t *names = json_array();

    for (enum column c = 0; c < COLUMN_COUNT; c++) {
        int64_t last = 0;

        json_array_append_new(names, json_string(column_names[c]));
        for (size_t i = 0; i < m->n_blocks; i++)
            number_add(&m->columns, &last,
                       column_value(m, &m->history->block[m->block[i]], c));
    }
    return json_pack("{s:I, s:o}", "n", (json_int_t)m->n_blocks, "columns", names);
}

static json_t *copies_add(struct making *m)
{
    const struct history *history = m->history;
    json_int_t n = (json_int_t)history->n_copies;

    for (int c = 0; c < 5; c++) {
        int64_t last = 0;

        for (size_t i = 0; i < history->n_copies; i++) {
            const struct copy *copy = &history->copy[i];

            number_add(&m->columns, &last,
                       c == 0   ? since(m, copy->begin)
                       : c == 1 ? since(m, copy->end)
                       : c == 2 ? (int64_t)copy->bytes
                       : c == 3 ? (int64_t)copy->stream
                                : copy->kind);
        }
    }
    return json_pack("{s:I, s:[s,s,s,s,s]}", "n", n, "columns", "begin", "end", "bytes",
                     "stream", "kind");
}

static json_t *marks_add(struct making *m)
{
    const struct history *history = m->history;

    for (int c = 0; c < 4; c++) {
        int64_t last = 0;

        for (size_t i = 0; i < history->n_marks; i++) {
            const struct mark *mark = &history->mark[i];

            number_add(&m->columns, &last,
                       c == 0   ? since(m, mark->recorded)
                       : c == 1 ? since(m, mark->waited)
                       : c == 2 ? (int64_t)mark->from
                                : (int64_t)mark->to);
        }
    }
    return json_pack("{s:I, s:[s,s,s,s]}", "n", (json_int_t)history->n_marks, "columns",
                     "recorded", "waited", "from", "to");
}

static json_t *held_add(struct making *m)
{
    const struct history *history = m->history;

    for (int c = 0; c < 3; c++) {
        int64_t last = 0;

        for (size_t i = 0; i < history->n_held; i++) {
            const struct held *held = &history->held[i];

            number_add(&m->columns, &last,
                       c == 0   ? since(m, held->time)
                       : c == 1 ? (int64_t)held->bytes
                                : held->device);
        }
    }
    return json_pack("{s:I, s:[s,s,s]}", "n", (json_int_t)history->n_held, "columns",
                     "time", "bytes", "device");
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
            wheres, json_pack("{s:o, s:I, s:I, s:I, s:I}", "frames", numbers, "peak",
                              (json_int_t)where->at_peak, "allocated",
                              (json_int_t)where->allocated, "calls",
                              (json_int_t)where->n_calls, "ns", (json_int_t)where->ns));
    }
    return wheres;
}

static int figures_compare(const void *left, const void *right)
{
    const struct function_figures *a = left;
    const struct function_figures *b = right;

    return a->ns < b->ns ? 1 : a->ns > b->ns ? -1 : 0;
}

static json_t *functions_make(struct history *history)
{
    json_t *functions = json_array();

    if (history->n_functions > 0)
        qsort(history->function, history->n_functions, sizeof *history->function,
              figures_compare);
    for (size_t i = 0; i < history->n_functions; i++) {
        const struct function_figures *f = &history->function[i];

        json_array_append_new(functions,
                              json_pack("{s:s, s:I, s:I, s:I, s:I}", "name", f->name,
                                        "calls", (json_int_t)f->n_calls, "errors",
                                        (json_int_t)f->n_errors, "ns", (json_int_t)f->ns,
                                        "longest", (json_int_t)f->longest));
    }
    return functions;
}

static json_t *directions_make(const struct history *history)
{
    static const char *const names[] = {"host to host", "host to device",
                                        "device to host", "device to device", "other"};
    json_t *directions = json_array();

    for (unsigned k = 0; k < 5; k++) {
        json_int_t n = 0, bytes = 0, ns = 0;

        for (size_t i = 0; i < history->n_copies; i++) {
            const struct copy *copy = &history->copy[i];

            if (copy->kind != k && (k < 4 || copy->kind < 4))
                continue;
            n++;
            bytes += (json_int_t)copy->bytes;
            ns += (json_int_t)(copy->end - copy->begin);
        }
        if (n > 0)
            json_array_append_new(directions,
                                  json_pack("{s:s, s:I, s:I, s:I}", "name", names[k], "n",
                                            n, "bytes", bytes, "ns", ns));
    }
    return directions;
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

static json_t *processes_make(const struct history *history)
{
    json_t *processes = json_array();

    for (size_t i = 0; i < history->n_processes; i++)
        json_array_append_new(
            processes,
            json_pack("{s:i}", "pid",
                      history->process[i] != NULL ? history->process[i]->pid : 0));
    if (history->n_processes == 0)
        json_array_append_new(processes, json_pack("{s:i}", "pid", 0));
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

/* ---- findings and their calls ---- */

/* Whether two stacks are equal, up to the depth of the shorter one. */
static bool is_same_stack(const json_t *left, const json_t *right)
{
    json_t *frame;
    size_t i;

    json_array_foreach (left, i, frame) {
        const json_t *other = json_array_get(right, i);

        if (other == NULL)
            break;
        if (number_of(frame, "line") != number_of(other, "line") ||
            strcmp(text_of(frame, "function"), text_of(other, "function")) != 0)
            return false;
    }
    return true;
}

/*
 * Whether an event of the trace may be the first call of a finding.  `known` remembers the
 * result for each stack: naming the frames of a stack is slow.
 */
static bool is_call_of(const struct trace_event *event, const json_t *call, size_t number,
                       json_t *known)
{
    char key[64];
    json_t *frames;

    if (event->function == NULL || event->process->pid != number_of(call, "pid") ||
        event->thread != number_of(call, "thread") ||
        strcmp(event->function->name, text_of(call, "function")) != 0)
        return false;
    snprintf(key, sizeof key, "%zu %" PRIu32 " %" PRIu32, number, event->process->number,
             event->stack);
    if (json_object_get(known, key) == NULL) {
        frames = show_frames(event->process, event->stack);
        json_object_set_new(
            known, key,
            json_boolean(is_same_stack(json_object_get(call, "stack"), frames)));
        json_decref(frames);
    }
    return json_is_true(json_object_get(known, key));
}

/*
 * Adds "at" to each finding: when its first call began.  If several calls have the same
 * stack, it is the call during which the finding was reported; the first one otherwise, as
 * for leaks, which are reported at the end.
 */
static void findings_place(struct history *history, struct trace *trace, json_t *findings)
{
    char why[TRACE_WHY_SIZE];
    struct trace_event event;
    json_t *known;
    json_t *finding;
    size_t i;

    if (json_array_size(findings) == 0 || !trace_rewind(trace, why))
        return;
    known = json_object();
    while (trace_next(trace, &event)) {
        json_array_foreach (findings, i, finding) {
            const json_t *call = json_array_get(json_object_get(finding, "calls"), 0);
            uint64_t reported = (uint64_t)number_of(finding, "time");
            bool is_during = event.begin <= reported && reported <= event.end;

            if ((json_object_get(finding, "at") == NULL || is_during) &&
                (event.kind != TRACE_BEGIN || event.is_unfinished) &&
                is_call_of(&event, call, i, known))
                json_object_set_new(
                    finding, "at",
                    json_integer((json_int_t)(event.begin - history->began)));
        }
    }
    json_decref(known);
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
    const char *base = strrchr(path, '/');
    json_int_t peak_device;
    json_t *devices = devices_make(history, &peak_device);
    json_t *meta =
        json_pack("{s:s, s:I, s:I, s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:s, s:b}",
                  "program", base != NULL ? base + 1 : path, "duration",
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
    json_object_set_new(meta, "hasTasks", json_boolean(history->n_tasks > 0));
    json_object_set_new(meta, "first", json_integer(since(m, history->first)));
    return meta;
}

/* Length, JSON, columns; in gzip. */
static void data_make(struct making *m, const char *path, const json_t *findings,
                      json_t *pool, struct bytes *ret_packed)
{
    char notice[512] = "";
    struct bytes all = {0};
    z_stream stream = {0};
    json_t *meta;
    uint32_t length;
    char *text;

    blocks_choose(m, notice, sizeof notice);
    meta = meta_make(m, path, findings, notice);
    json_object_set_new(meta, "blocks", blocks_add(m)); /* in the order of the columns */
    json_object_set_new(meta, "copies", copies_add(m));
    json_object_set_new(meta, "marks", marks_add(m));
    json_object_set_new(meta, "held", held_add(m));
    if (pool != NULL)
        json_object_set(meta, "pool", pool);
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

static void base64_write(FILE *out, const struct bytes *bytes)
{
    static const char digits[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

    for (size_t i = 0; i < bytes->n; i += 3) {
        size_t left = bytes->n - i;
        uint32_t three = (uint32_t)bytes->data[i] << 16 |
                         (left > 1 ? (uint32_t)bytes->data[i + 1] << 8 : 0) |
                         (left > 2 ? bytes->data[i + 2] : 0);

        fputc(digits[three >> 18], out);
        fputc(digits[three >> 12 & 63], out);
        fputc(left > 1 ? digits[three >> 6 & 63] : '=', out);
        fputc(left > 2 ? digits[three & 63] : '=', out);
    }
}

#define PUT(out_, name_) fwrite(name_, 1, (size_t)(name_##_end - name_), out_)

static void template_write(FILE *out, const struct bytes *packed)
{
    for (const char *at = page_index; *at != '\0';) {
        const char *mark = strchr(at, '@');
        const char *end = mark != NULL ? strchr(mark + 1, '@') : NULL;

        if (end == NULL ||
            strspn(mark + 1, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_") != (size_t)(end - mark) - 1) {
            size_t n = mark != NULL ? (size_t)(mark - at) + 1 : strlen(at);

            fwrite(at, 1, n, out);
            at += n;
            continue;
        }
        fwrite(at, 1, (size_t)(mark - at), out);
        if (strncmp(mark, "@VENDOR_CSS@", 12) == 0)
            PUT(out, page_vendor_style);
        else if (strncmp(mark, "@STYLE@", 7) == 0)
            PUT(out, page_style);
        else if (strncmp(mark, "@VENDOR_JS@", 11) == 0)
            PUT(out, page_vendor);
        else if (strncmp(mark, "@SCRIPT@", 8) == 0)
            PUT(out, page_data), PUT(out, page_script);
        else
            base64_write(out, packed);
        at = end + 1;
    }
}

static int failed(const char *path, const char *why)
{
    fprintf(stderr, "aclmem report: %s: %s\n", path, why);
    return 1;
}

/* Handles of streams as text: numbers of a page have 53 bits. */
static void pool_streams_name(json_t *pool)
{
    json_t *block;
    size_t i;

    json_array_foreach (json_object_get(pool, "blocks"), i, block) {
        char name[32];

        snprintf(name, sizeof name, "0x%llx",
                 (unsigned long long)number_of(block, "stream"));
        json_object_set_new(block, "stream", json_string(name));
    }
}

/* The snapshot that was named, or the file itself if it is one; NULL: none. */
static int pool_load(const char *path, bool is_trace, json_t **ret_pool)
{
    *ret_pool = NULL;
    if (choice.pool != NULL) {
        *ret_pool = json_load_file(choice.pool, 0, NULL);
        if (!is_pool_snapshot(*ret_pool)) {
            json_decref(*ret_pool);
            return failed(choice.pool, "it is no output of aclmem_pool_snapshot()");
        }
    } else if (!is_trace) {
        *ret_pool = json_load_file(path, 0, NULL);
        if (!is_pool_snapshot(*ret_pool)) {
            json_decref(*ret_pool);
            *ret_pool = NULL;
        }
    }
    pool_streams_name(*ret_pool);
    return 0;
}

static int file_write(const char *output, const struct bytes *packed, bool may_replace)
{
    FILE *out = output_open("report", output, may_replace);

    if (out == NULL)
        return 1;
    template_write(out, packed);
    return output_close(out, 0);
}

int page_write(const char *path, const char *output, bool may_replace,
               const json_t *given)
{
    json_t *findings = given != NULL ? json_deep_copy(given) : NULL;
    struct history history;
    struct making m = {.history = &history};
    struct bytes packed = {0};
    struct trace *trace;
    json_t *pool;
    int rc;

    if (pool_load(path, trace_is(path), &pool) != 0) {
        json_decref(findings);
        return 1;
    }
    if (!history_load("report", path, &history, &trace)) {
        json_decref(findings);
        json_decref(pool);
        return 1;
    }
    if (trace != NULL)
        findings_place(&history, trace, findings);
    m.frames = json_array();
    m.known = json_object();
    data_make(&m, path, findings, pool, &packed);
    rc = file_write(output, &packed, may_replace);
    json_decref(m.frames);
    json_decref(m.known);
    json_decref(findings);
    json_decref(pool);
    free(m.block);
    free(m.place);
    free(m.columns.data);
    free(packed.data);
    history_free(&history);
    trace_close(trace);
    names_close();
    return rc;
}

static int report_run(int argc, char **argv)
{
    json_t *given = NULL;
    json_t *findings = NULL;
    char output[4096];
    const char *path;
    int rc;

    if (argc != 1)
        return usage_fail("report", "which file?");
    if (choice.findings != NULL) {
        given = json_load_file(choice.findings, 0, NULL);
        findings = json_object_get(given, "findings");
        if (!json_is_array(findings)) {
            json_decref(given);
            return failed(choice.findings, "it is no output of aclmem run --json");
        }
    }
    if (choice.output == NULL && strcmp(argv[0], "-") == 0)
        choice.output = "-";
    if (choice.output == NULL) {
        snprintf(output, sizeof output, "%.4000s.html", argv[0]);
        choice.output = output;
    }
    path = input_path("report", argv[0]);
    rc =
        path != NULL ? page_write(path, choice.output, choice.is_replacing, findings) : 1;
    if (rc == 0 && strcmp(choice.output, "-") != 0)
        printf("%s\n", choice.output);
    json_decref(given);
    return rc;
}

static const struct option options[] = {
    {"output", OPTION_TEXT, &choice.output, "PAGE",
     "Write PAGE (default: FILE.html); - is standard output", 'o'},
    {"force", OPTION_FLAG, &choice.is_replacing, NULL, "Replace an existing PAGE", 0},
    {"findings", OPTION_TEXT, &choice.findings, "JSON",
     "Show the findings in this output of aclmem run --json", 0},
    {"pool", OPTION_TEXT, &choice.pool, "JSON",
     "Show the blocks in this output of aclmem_pool_snapshot()", 0},
    {0},
};

const struct command report_command = {
    .name = "report",
    .group = GROUP_TRACE,
    .operands = "FILE",
    .help = "Write a page about a trace: memory, addresses, streams, flames",
    .options = options,
    .examples = "  aclmem report run.trace            Write run.trace.html\n"
                "  aclmem report -o - - < run.trace > page.html\n"
                "                                     Read and write standard streams\n",
    .run = report_run,
};
