/*
 * Traces of other programs, as blocks: PyTorch's memory snapshots (JSON or pickle), RMM's
 * CSV, and lines `a ID SIZE STREAM` and `f ID`; each plain or compressed with gzip.  And the
 * snapshot of a pool, which is one moment.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "history.h"
#include "map.h"
#include "output.h"
#include "pickle.h"
#include "show.h"
#include "text.h"

#define FILE_MAX ((size_t)8 << 30)
#define SIZE_MAX_OF_BLOCK ((uint64_t)1 << 44) /* more than a device has */
/*
 * Above EXPANDED_BASE bytes a compressed file may expand EXPANDED_RATIO-fold at most.  A file
 * from strangers may expand 1,000-fold; a snapshot whose events have the same stacks expands
 * 150-fold.
 */
#define EXPANDED_BASE ((size_t)256 << 20)
#define EXPANDED_RATIO 50u
/* Values that are read of a snapshot: events, and their frames, which events share. */
#define VALUES_BASE 100000u
#define VALUES_RATIO 16u

/* The block that an id names now, or NULL. */
static struct block *id_find(const struct map *ids, struct history *history, uint64_t id)
{
    uint64_t block = map_get(ids, id, 0, NO_BLOCK);

    if (block == NO_BLOCK || history->block[block].freed != 0)
        return NULL;
    return &history->block[block];
}

static struct block *block_make(struct history *history, struct map *ids, uint64_t id,
                                uint64_t size, uint64_t time)
{
    struct block *block = history_add(history);

    block->addr = id;
    block->size = size;
    block->made = time;
    block->kind = KIND_BLOCK;
    map_set(ids, id, 0, (uint32_t)(block - history->block));
    return block;
}

static void block_end(struct history *history, struct map *ids, uint64_t id,
                      uint64_t time)
{
    struct block *block = id_find(ids, history, id);

    if (block != NULL) /* clocks of microseconds show both at one time */
        block->freed = time > block->made ? time : block->made + 1;
    else
        history->n_unknown_frees++;
}

/* ---- the file ---- */

static uint8_t *file_load(const char *path, size_t *ret_n, const char **ret_why)
{
    gzFile file = gzopen(path, "rb"); /* reads plain files as they are */
    uint8_t *bytes = NULL;
    size_t n = 0;
    size_t max = 0;
    int error = Z_OK;
    int got = 0;

    *ret_why = strerror(errno); /* of gzopen */
    if (file == NULL)
        return NULL;
    gzbuffer(file, 1 << 20);
    do {
        if (n + (1 << 20) > max) {
            uint8_t *larger;

            max = max > 0 ? 2 * max : (size_t)4 << 20;
            larger = max <= FILE_MAX ? realloc(bytes, max + 1) : NULL;
            if (larger == NULL) {
                *ret_why = "it is too large";
                goto failed;
            }
            bytes = larger;
        }
        got = gzread(file, bytes + n, 1 << 20);
        n += got > 0 ? (size_t)got : 0;
        if (n > EXPANDED_BASE && n / EXPANDED_RATIO > (size_t)gzoffset(file)) {
            *ret_why = "it expands more than 50-fold, to more than 256 MB; if you "
                       "trust it, unpack it with gunzip";
            goto failed;
        }
    } while (got > 0);
    gzerror(file, &error);
    *ret_why = error == Z_ERRNO ? strerror(errno) : "it is damaged, or cut off";
    if (got < 0 || (error != Z_OK && error != Z_STREAM_END))
        goto failed;
    *ret_why = "it is empty";
    if (n == 0)
        goto failed;
    if (gzclose(file) != Z_OK) {
        free(bytes);
        return NULL;
    }
    bytes[n] = '\0';
    *ret_n = n;
    return bytes;
failed:
    gzclose(file);
    free(bytes);
    return NULL;
}

/* ---- lines ---- */

/* One line; false if it is neither an allocation nor a free. */
static bool line_read(struct history *history, struct map *ids, const char *line,
                      uint64_t time)
{
    uint64_t id, size, stream = 0;
    char end;
    int n = sscanf(line, "a %" SCNu64 " %" SCNu64 " %" SCNu64 " %c", &id, &size, &stream,
                   &end);

    if (strchr(line, '-') != NULL) /* sscanf() reads it as a large number */
        return false;
    if (n == 2 || n == 3) {
        if (size == 0 || size > SIZE_MAX_OF_BLOCK || stream > UINT32_MAX)
            return false;
        block_make(history, ids, id, size, time)->stream = (uint32_t)stream;
        return true;
    }
    if (sscanf(line, "f %" SCNu64 " %c", &id, &end) != 1)
        return false;
    block_end(history, ids, id, time);
    return true;
}

/* Each line is a microsecond after the one before. */
static const char *lines_read(struct history *history, char *text)
{
    static char why[160];
    struct map ids = {0};
    uint64_t number = 0; /* of the line */
    uint64_t n = 0;      /* events */
    char *line;

    why[0] = '\0';
    while ((line = strsep(&text, "\n")) != NULL && why[0] == '\0') {
        number++;
        if (line[0] == '#' || strspn(line, " \t\r") == strlen(line))
            continue;
        if (!line_read(history, &ids, line, 1000 * ++n))
            snprintf(why, sizeof why,
                     "line %" PRIu64 ": neither \"a ID SIZE STREAM\" nor \"f ID\" (sizes "
                     "go from 1 to %" PRIu64 ")",
                     number, SIZE_MAX_OF_BLOCK);
    }
    map_free(&ids);
    history->ended = 1000 * n;
    history->is_counted = true;
    return why[0] != '\0' ? why : NULL;
}

/* ---- RMM ---- */

/* "17:01:33:123456" or "17:01:33.123456", in nanoseconds. */
static uint64_t clock_parse(const char *text)
{
    unsigned hours, minutes, seconds, micro = 0;

    if (sscanf(text, "%u:%u:%u%*1[:.]%u", &hours, &minutes, &seconds, &micro) < 3)
        return 0;
    return ((hours * UINT64_C(60) + minutes) * 60 + seconds) * 1000000000 +
           micro * UINT64_C(1000);
}

/* Splits a line at its commas; how many fields there are. */
static int fields_split(char *line, char **field, int max)
{
    int n = 0;

    line[strcspn(line, "\r")] = '\0';
    while (line != NULL && n < max)
        field[n++] = strsep(&line, ",");
    return n;
}

static const char *rmm_read(struct history *history, char *text)
{
    static const char *const names[] = {"Time", "Action", "Pointer", "Size", "Stream"};
    struct map ids = {0};
    char *field[16];
    int column[5];
    char *line = strsep(&text, "\n");
    int n = fields_split(line, field, 16);

    for (int i = 0; i < 5; i++) {
        column[i] = -1;
        for (int k = 0; k < n; k++)
            column[i] = strcmp(field[k], names[i]) == 0 ? k : column[i];
        if (column[i] < 0)
            return "its columns are not those of RMM";
    }
    while ((line = strsep(&text, "\n")) != NULL) {
        uint64_t time, id;

        if (fields_split(line, field, 16) < n)
            continue;
        time = clock_parse(field[column[0]]);
        id = strtoull(field[column[2]], NULL, 0);
        if (strcmp(field[column[1]], "allocate") == 0)
            block_make(history, &ids, id, strtoull(field[column[3]], NULL, 10), time)
                ->stream = (uint32_t)strtoull(field[column[4]], NULL, 0);
        else if (strcmp(field[column[1]], "free") == 0)
            block_end(history, &ids, id, time);
        if (history->began == 0)
            history->began = time;
        history->ended = time;
    }
    map_free(&ids);
    return NULL;
}

/* ---- PyTorch ---- */

/* Frames as ours: name -> function. */
static uint32_t torch_where(struct history *history, const json_t *frames)
{
    json_t *ours;
    json_t *frame;
    size_t i;

    if (json_array_size(frames) == 0)
        return 0;
    ours = json_array();
    json_array_foreach (frames, i, frame)
        json_array_append_new(ours, json_pack("{s:s, s:s, s:I}", "function",
                                              text_of(frame, "name"), "file",
                                              text_of(frame, "filename"), "line",
                                              (json_int_t)number_of(frame, "line")));
    return history_where_add(history, ours);
}

static uint64_t torch_time(const json_t *event, uint64_t number)
{
    const json_t *time = json_object_get(event, "time_us");

    return json_is_integer(time) ? (uint64_t)json_integer_value(time) * 1000
                                 : (number + 1) * 1000;
}

/* Values left to read.  A pickle may refer to one list many times, at each depth. */
static uint64_t n_left;

static bool value_count(uint64_t n)
{
    n_left -= n < n_left ? n : n_left;
    return n_left > 0;
}

static void torch_trace(struct history *history, const json_t *trace, int32_t device)
{
    struct map blocks = {0};
    struct map segments = {0};
    uint64_t last = 0;
    json_t *event;
    size_t i;

    json_array_foreach (trace, i, event) {
        const char *action = text_of(event, "action");
        uint64_t addr = (uint64_t)number_of(event, "addr");
        uint64_t size = (uint64_t)number_of(event, "size");
        uint64_t time = torch_time(event, i);
        struct block *block = NULL;

        if (!value_count(1 + json_array_size(json_object_get(event, "frames"))))
            break;
        history->is_counted |= json_object_get(event, "time_us") == NULL;
        last = time = time > last ? time : last + 1; /* the list is in order */
        if (strcmp(action, "alloc") == 0) {
            block = block_make(history, &blocks, addr, size, time);
        } else if (strcmp(action, "free_completed") == 0) {
            block_end(history, &blocks, addr, time);
        } else if (strcmp(action, "segment_alloc") == 0 ||
                   strcmp(action, "segment_map") == 0) {
            block = block_make(history, &segments, addr, size, time);
            block->kind = KIND_RESERVATION;
        } else if (strcmp(action, "segment_free") == 0 ||
                   strcmp(action, "segment_unmap") == 0) {
            block_end(history, &segments, addr, time);
        }
        if (block != NULL) {
            size_t number = (size_t)(block - history->block);
            uint32_t where = torch_where(history, json_object_get(event, "frames"));

            history->block[number].device = device;
            history->block[number].stream = (uint32_t)number_of(event, "stream");
            history->block[number].where = where;
        }
        if (history->began == 0 || time < history->began)
            history->began = time;
        if (time > history->ended)
            history->ended = time;
    }
    map_free(&blocks);
    map_free(&segments);
}

static const char *torch_read(struct history *history, const json_t *snapshot)
{
    const json_t *traces = json_object_get(snapshot, "device_traces");
    json_t *trace;
    size_t i;

    if (!json_is_array(traces))
        return "it has no device_traces: record it with _record_memory_history";
    json_array_foreach (traces, i, trace) {
        if (!value_count(1))
            break;
        torch_trace(history, trace, (int32_t)i);
    }
    return n_left > 0 ? NULL : "it has more events than its size allows";
}

/* ---- the pool ---- */

bool is_pool_snapshot(const json_t *json)
{
    return json_is_integer(json_object_get(json, "page")) &&
           json_is_object(json_object_get(json, "stats")) &&
           json_is_array(json_object_get(json, "blocks"));
}

/* Blocks with memory, all made at the moment of the snapshot; tags as attributes. */
static const char *pool_read(struct history *history, const json_t *snapshot)
{
    json_t *entry;
    size_t i;

    json_array_foreach (json_object_get(snapshot, "blocks"), i, entry) {
        const char *state = text_of(entry, "state");
        struct block *block;

        if (strcmp(state, "live") != 0 && strcmp(state, "exportable") != 0)
            continue;
        block = history_add(history);
        block->addr = (uint64_t)number_of(entry, "address");
        block->size = (uint64_t)number_of(entry, "size");
        block->attr = (uint32_t)number_of(entry, "tag");
        block->device = (int32_t)number_of(snapshot, "device");
        block->made = 1;
        block->kind = KIND_BLOCK;
    }
    history->began = 1;
    history->ended = 2;
    return NULL;
}

const char *history_import(struct history *history, const char *path)
{
    const char *why = NULL;
    json_t *snapshot = NULL;
    uint8_t *bytes;
    size_t n;

    memset(history, 0, sizeof *history);
    bytes = file_load(path, &n, &why);
    if (bytes == NULL)
        return why;
    history_where_add(history, NULL);
    n_left = VALUES_BASE + VALUES_RATIO * n;
    if (n > 0 && bytes[0] == 0x80) {
        snapshot = pickle_read(bytes, n, &why);
    } else if (n > 0 && (bytes[0] == '{' || bytes[0] == '[')) {
        snapshot = json_loadb((const char *)bytes, n, 0, NULL);
        why = "it is no JSON";
    } else if (strncmp((const char *)bytes, "Thread,", 7) == 0) {
        why = rmm_read(history, (char *)bytes);
    } else {
        why = lines_read(history, (char *)bytes);
    }
    if (snapshot != NULL)
        why = is_pool_snapshot(snapshot) ? pool_read(history, snapshot)
                                         : torch_read(history, snapshot);
    if (n > 0 &&
        bytes[0] != 0x80) /* a pickle may contain itself: it is left to the end */
        json_decref(snapshot);
    free(bytes);
    for (size_t i = 0; i < history->n_blocks && why == NULL; i++) {
        if (history->block[i].size > SIZE_MAX_OF_BLOCK)
            why = "it has a block of more than 16 TB: it is damaged";
    }
    if (why == NULL)
        history_sum(history);
    return why;
}

bool history_load(const char *command, const char *path, struct history *history,
                  struct trace **ret_trace)
{
    const char *why;

    *ret_trace = NULL;
    if (trace_is(path)) {
        *ret_trace = trace_open_or_report(command, path);
        if (*ret_trace == NULL)
            return false;
        history_read(history, *ret_trace);
        trace_losses_report(*ret_trace);
        return true;
    }
    why = history_import(history, path);
    if (why == NULL)
        return true;
    fprintf(stderr, "aclmem %s: %s: %s\n", command, input_name(path), why);
    history_free(history);
    return false;
}
