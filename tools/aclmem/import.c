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

#include "books.h"
#include "pickle.h"
#include "text.h"

#define FILE_MAX ((size_t)8 << 30)

/* The live block of each id, with the newest first; addresses are few enough to hash. */
struct ids {
    struct {
        uint64_t id;
        uint32_t block; /* + 1; 0: empty */
    } * slot;
    size_t n, max;
};

static size_t id_place(const struct ids *ids, uint64_t id)
{
    size_t at = (id * UINT64_C(0x9e3779b97f4a7c15) >> 20) & (ids->max - 1);

    while (ids->slot[at].block != 0 && ids->slot[at].id != id)
        at = (at + 1) & (ids->max - 1);
    return at;
}

static void id_set(struct ids *ids, uint64_t id, uint32_t block)
{
    size_t at;

    if (2 * (ids->n + 1) > ids->max) {
        struct ids larger = {.max = ids->max > 0 ? 2 * ids->max : 4096};

        larger.slot = calloc(larger.max, sizeof *larger.slot);
        if (larger.slot == NULL) {
            fprintf(stderr, "aclmem: no memory for the trace\n");
            exit(1);
        }
        for (size_t i = 0; i < ids->max; i++) {
            if (ids->slot[i].block == 0)
                continue;
            larger.slot[id_place(&larger, ids->slot[i].id)] = ids->slot[i];
            larger.n++;
        }
        free(ids->slot);
        *ids = larger;
    }
    at = id_place(ids, id);
    ids->n += ids->slot[at].block == 0;
    ids->slot[at].id = id;
    ids->slot[at].block = block + 1;
}

static struct block *id_find(const struct ids *ids, struct books *books, uint64_t id)
{
    uint32_t block = ids->max > 0 ? ids->slot[id_place(ids, id)].block : 0;

    if (block == 0 || books->block[block - 1].freed != 0)
        return NULL;
    return &books->block[block - 1];
}

static struct block *block_make(struct books *books, struct ids *ids, uint64_t id,
                                uint64_t size, uint64_t time)
{
    struct block *block = books_add(books);

    block->addr = id;
    block->size = size;
    block->made = time;
    block->kind = KIND_BLOCK;
    id_set(ids, id, (uint32_t)(block - books->block));
    return block;
}

static void block_end(struct books *books, struct ids *ids, uint64_t id, uint64_t time)
{
    struct block *block = id_find(ids, books, id);

    if (block != NULL) /* clocks of microseconds show both at one time */
        block->freed = time > block->made ? time : block->made + 1;
    else
        books->n_unknown_frees++;
}

/* ---- the file ---- */

static uint8_t *file_load(const char *path, size_t *ret_n, const char **ret_why)
{
    gzFile file = gzopen(path, "rb"); /* reads plain files as they are */
    uint8_t *bytes = NULL;
    size_t n = 0;
    size_t max = 0;
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
    } while (got > 0);
    *ret_why = "it is damaged, or cut off";
    if (got < 0)
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

/* Each line is a microsecond after the one before. */
static const char *lines_read(struct books *books, char *text)
{
    struct ids ids = {0};
    uint64_t time = 0;
    const char *why = NULL;
    char *rest;

    for (char *line = strtok_r(text, "\n", &rest); line != NULL && why == NULL;
         line = strtok_r(NULL, "\n", &rest)) {
        uint64_t id, size, stream = 0;

        time += 1000;
        if (line[0] == '#' || line[0] == '\r' || line[0] == '\0')
            continue;
        if (sscanf(line, "a %" SCNu64 " %" SCNu64 " %" SCNu64, &id, &size, &stream) >= 2)
            block_make(books, &ids, id, size, time)->stream = (uint32_t)stream;
        else if (sscanf(line, "f %" SCNu64, &id) == 1)
            block_end(books, &ids, id, time);
        else
            why = "it is no trace of a kind that is known";
    }
    free(ids.slot);
    books->ended = time;
    return why;
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

static const char *rmm_read(struct books *books, char *text)
{
    static const char *const names[] = {"Time", "Action", "Pointer", "Size", "Stream"};
    struct ids ids = {0};
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
            block_make(books, &ids, id, strtoull(field[column[3]], NULL, 10), time)
                ->stream = (uint32_t)strtoull(field[column[4]], NULL, 0);
        else if (strcmp(field[column[1]], "free") == 0)
            block_end(books, &ids, id, time);
        if (books->began == 0)
            books->began = time;
        books->ended = time;
    }
    free(ids.slot);
    return NULL;
}

/* ---- PyTorch ---- */

/* Frames as ours: name -> function. */
static uint32_t torch_where(struct books *books, const json_t *frames)
{
    json_t *ours = json_array();
    json_t *frame;
    size_t i;

    if (json_array_size(frames) == 0) {
        json_decref(ours);
        return 0;
    }
    json_array_foreach (frames, i, frame)
        json_array_append_new(ours, json_pack("{s:s, s:s, s:I}", "function",
                                              text_of(frame, "name"), "file",
                                              text_of(frame, "filename"), "line",
                                              (json_int_t)number_of(frame, "line")));
    return books_where_add(books, ours);
}

static uint64_t torch_time(const json_t *event, uint64_t number)
{
    const json_t *time = json_object_get(event, "time_us");

    return json_is_integer(time) ? (uint64_t)json_integer_value(time) * 1000
                                 : (number + 1) * 1000;
}

static void torch_trace(struct books *books, const json_t *trace, int32_t device)
{
    struct ids blocks = {0};
    struct ids segments = {0};
    uint64_t last = 0;
    json_t *event;
    size_t i;

    json_array_foreach (trace, i, event) {
        const char *action = text_of(event, "action");
        uint64_t addr = (uint64_t)number_of(event, "addr");
        uint64_t size = (uint64_t)number_of(event, "size");
        uint64_t time = torch_time(event, i);
        struct block *block = NULL;

        last = time = time > last ? time : last + 1; /* the order is that of the list */
        if (strcmp(action, "alloc") == 0) {
            block = block_make(books, &blocks, addr, size, time);
        } else if (strcmp(action, "free_completed") == 0) {
            block_end(books, &blocks, addr, time);
        } else if (strcmp(action, "segment_alloc") == 0 ||
                   strcmp(action, "segment_map") == 0) {
            block = block_make(books, &segments, addr, size, time);
            block->kind = KIND_RESERVATION;
        } else if (strcmp(action, "segment_free") == 0 ||
                   strcmp(action, "segment_unmap") == 0) {
            block_end(books, &segments, addr, time);
        }
        if (block != NULL) {
            size_t number = (size_t)(block - books->block);
            uint32_t where = torch_where(books, json_object_get(event, "frames"));

            books->block[number].device = device;
            books->block[number].stream = (uint32_t)number_of(event, "stream");
            books->block[number].where = where;
        }
        if (books->began == 0 || time < books->began)
            books->began = time;
        if (time > books->ended)
            books->ended = time;
    }
    free(blocks.slot);
    free(segments.slot);
}

static const char *torch_read(struct books *books, const json_t *snapshot)
{
    const json_t *traces = json_object_get(snapshot, "device_traces");
    json_t *trace;
    size_t i;

    if (!json_is_array(traces))
        return "it has no device_traces: record it with _record_memory_history";
    json_array_foreach (traces, i, trace)
        torch_trace(books, trace, (int32_t)i);
    return NULL;
}

/* ---- the pool ---- */

bool is_pool_snapshot(const json_t *json)
{
    return json_is_integer(json_object_get(json, "page")) &&
           json_is_object(json_object_get(json, "stats")) &&
           json_is_array(json_object_get(json, "blocks"));
}

/* Blocks with memory, all made at the moment of the snapshot; tags as attributes. */
static const char *pool_read(struct books *books, const json_t *snapshot)
{
    json_t *entry;
    size_t i;

    json_array_foreach (json_object_get(snapshot, "blocks"), i, entry) {
        const char *state = text_of(entry, "state");
        struct block *block;

        if (strcmp(state, "live") != 0 && strcmp(state, "exportable") != 0)
            continue;
        block = books_add(books);
        block->addr = (uint64_t)number_of(entry, "address");
        block->size = (uint64_t)number_of(entry, "size");
        block->attr = (uint32_t)number_of(entry, "tag");
        block->device = (int32_t)number_of(snapshot, "device");
        block->made = 1;
        block->kind = KIND_BLOCK;
    }
    books->began = 1;
    books->ended = 2;
    return NULL;
}

const char *books_import(struct books *books, const char *path)
{
    const char *why = NULL;
    json_t *snapshot = NULL;
    uint8_t *bytes;
    size_t n;

    memset(books, 0, sizeof *books);
    bytes = file_load(path, &n, &why);
    if (bytes == NULL)
        return why;
    books_where_add(books, NULL);
    if (n > 0 && bytes[0] == 0x80) {
        snapshot = pickle_read(bytes, n, &why);
    } else if (n > 0 && (bytes[0] == '{' || bytes[0] == '[')) {
        snapshot = json_loadb((const char *)bytes, n, 0, NULL);
        why = "it is no JSON";
    } else if (strncmp((const char *)bytes, "Thread,", 7) == 0) {
        why = rmm_read(books, (char *)bytes);
    } else {
        why = lines_read(books, (char *)bytes);
    }
    if (snapshot != NULL)
        why = is_pool_snapshot(snapshot) ? pool_read(books, snapshot)
                                         : torch_read(books, snapshot);
    if (n > 0 &&
        bytes[0] != 0x80) /* a pickle may contain itself: it is left to the end */
        json_decref(snapshot);
    free(bytes);
    if (why == NULL)
        books_sum(books);
    return why;
}
