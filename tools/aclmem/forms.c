/* Forms by blocks: folded, speedscope, pytorch, lines. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "convert.h"
#include "text.h"

/* ---- folded ---- */

/* A frame's name; what would split the line becomes a blank. */
static void frame_write(FILE *out, const json_t *frame)
{
    const char *name = text_of(frame, "function");

    for (; *name != '\0'; name++)
        fputc(*name == ';' || *name == '\n' ? ' ' : *name, out);
    if (text_of(frame, "file")[0] != '\0') {
        const char *base = strrchr(text_of(frame, "file"), '/');

        base = base != NULL ? base + 1 : text_of(frame, "file");
        fprintf(out, " (%s:%lld)", base, number_of(frame, "line"));
    }
}

void write_folded(FILE *out, struct history *history, enum of of)
{
    for (size_t i = 0; i < history->n_wheres; i++) {
        uint64_t value = where_value(&history->where[i], of);
        const json_t *frames;

        if (value == 0)
            continue;
        frames = history_frames(history, (uint32_t)i);
        for (size_t k = json_array_size(frames); k > 0; k--) {
            frame_write(out, json_array_get(frames, k - 1));
            fputc(k > 1 ? ';' : ' ', out);
        }
        fprintf(out, "%" PRIu64 "\n", value);
    }
}

/* ---- speedscope ---- */

/* The number of a frame, equal ones being one. */
static json_int_t frame_number(json_t *known, json_t *frames, const json_t *frame)
{
    char key[4096];
    json_t *number;
    json_int_t made;

    snprintf(key, sizeof key, "%s\n%s\n%lld", text_of(frame, "function"),
             text_of(frame, "file"), number_of(frame, "line"));
    number = json_object_get(known, key);
    if (number != NULL)
        return json_integer_value(number);
    made = (json_int_t)json_array_size(frames);
    json_object_set_new(known, key, json_integer(made));
    json_array_append_new(
        frames, text_of(frame, "file")[0] != '\0'
                    ? json_pack("{s:s, s:s, s:I}", "name", text_of(frame, "function"),
                                "file", text_of(frame, "file"), "line",
                                (json_int_t)number_of(frame, "line"))
                    : json_pack("{s:s}", "name", text_of(frame, "function")));
    return made;
}

static json_t *profile_make(struct history *history, enum of of, json_t *known,
                            json_t *frames)
{
    static const char *const names[] = {"bytes at the peak", "bytes allocated", "calls",
                                        "time in calls"};
    static const char *const units[] = {"bytes", "bytes", "none", "nanoseconds"};
    json_t *samples = json_array();
    json_t *weights = json_array();
    uint64_t sum = 0;

    for (size_t i = 0; i < history->n_wheres; i++) {
        uint64_t value = where_value(&history->where[i], of);
        const json_t *stack;
        json_t *sample;

        if (value == 0)
            continue;
        stack = history_frames(history, (uint32_t)i);
        sample = json_array();
        for (size_t k = json_array_size(stack); k > 0; k--)
            json_array_append_new(
                sample,
                json_integer(frame_number(known, frames, json_array_get(stack, k - 1))));
        json_array_append_new(samples, sample);
        json_array_append_new(weights, json_integer((json_int_t)value));
        sum += value;
    }
    return json_pack("{s:s, s:s, s:s, s:i, s:I, s:o, s:o}", "type", "sampled", "name",
                     names[of], "unit", units[of], "startValue", 0, "endValue",
                     (json_int_t)sum, "samples", samples, "weights", weights);
}

void write_speedscope(FILE *out, struct history *history)
{
    json_t *known = json_object();
    json_t *frames = json_array();
    json_t *profiles = json_array();
    json_t *all;

    for (enum of of = OF_PEAK; of < OF_COUNT; of++)
        json_array_append_new(profiles, profile_make(history, of, known, frames));
    all = json_pack("{s:s, s:s, s:{s:o}, s:o, s:s}", "$schema",
                    "https://www.speedscope.app/file-format-schema.json", "exporter",
                    "aclmem", "shared", "frames", frames, "profiles", profiles, "name",
                    "aclmem");
    json_dumpf(all, out, JSON_COMPACT);
    fputc('\n', out);
    json_decref(all);
    json_decref(known);
}

/* ---- PyTorch ---- */

/*
 * memory_viz requires that each block is inside a segment that exists at that time, so each
 * block has one segment.  Handles are not addresses, and JavaScript loses the low bits of
 * numbers above 2^53: such blocks get new addresses, from 2^44 up.
 */
struct torch_event {
    uint64_t time;
    uint32_t block;
    bool is_free;
};

static int torch_compare(const void *left, const void *right)
{
    const struct torch_event *a = left;
    const struct torch_event *b = right;

    if (a->time != b->time)
        return a->time < b->time ? -1 : 1;
    if (a->is_free != b->is_free)
        return b->is_free - a->is_free;
    return a->block < b->block ? -1 : a->block > b->block;
}

static json_t *torch_frames(struct history *history, const struct block *block)
{
    json_t *frames = json_array();
    const json_t *ours = history_frames(history, block->where);
    json_t *frame;
    size_t i;

    json_array_foreach (ours, i, frame)
        json_array_append_new(frames, json_pack("{s:s, s:s, s:I}", "name",
                                                text_of(frame, "function"), "filename",
                                                text_of(frame, "file"), "line",
                                                (json_int_t)number_of(frame, "line")));
    return frames;
}

static void torch_event_write(FILE *out, const char *action, const struct block *block,
                              uint64_t addr, uint64_t time, const json_t *frames,
                              bool *is_first)
{
    fprintf(out,
            "%s{\"action\":\"%s\",\"addr\":%" PRIu64 ",\"size\":%" PRIu64
            ",\"stream\":%" PRIu32 ",\"time_us\":%" PRIu64
            ",\"user_metadata\":\"%s, process %" PRIu32 "\",\"frames\":",
            *is_first ? "" : ",\n", action, addr, block->size, block->stream, time / 1000,
            kind_names[block->kind], block->process);
    json_dumpf(frames, out, JSON_COMPACT);
    fputc('}', out);
    *is_first = false;
}

static void torch_device_write(FILE *out, struct history *history,
                               const struct torch_event *event, size_t n, int32_t device,
                               const uint64_t *addr)
{
    bool is_first = true;

    fputc('[', out);
    for (size_t i = 0; i < n; i++) {
        const struct block *block = &history->block[event[i].block];
        uint64_t at = addr[event[i].block];
        json_t *frames;

        if (block->device != device)
            continue;
        frames = torch_frames(history, block);
        if (event[i].is_free) {
            torch_event_write(out, "free_requested", block, at, event[i].time, frames,
                              &is_first);
            torch_event_write(out, "free_completed", block, at, event[i].time, frames,
                              &is_first);
            torch_event_write(out, "segment_free", block, at, event[i].time, frames,
                              &is_first);
        } else {
            torch_event_write(out, "segment_alloc", block, at, event[i].time, frames,
                              &is_first);
            torch_event_write(out, "alloc", block, at, event[i].time, frames, &is_first);
        }
        json_decref(frames);
    }
    fputc(']', out);
}

static void torch_segments_write(FILE *out, struct history *history, const uint64_t *addr,
                                 int32_t host)
{
    bool is_first = true;

    fprintf(out, "\"segments\":[");
    for (size_t i = 0; i < history->n_blocks; i++) {
        const struct block *block = &history->block[i];
        json_t *frames;

        if (!kind_is_memory(block->kind) || block->freed != 0)
            continue;
        frames = torch_frames(history, block);
        fprintf(
            out,
            "%s{\"device\":%" PRId32 ",\"address\":%" PRIu64 ",\"total_size\":%" PRIu64
            ",\"allocated_size\":%" PRIu64 ",\"active_size\":%" PRIu64
            ",\"stream\":%" PRIu32
            ",\"segment_type\":\"large\",\"segment_pool_id\":[0,0],\"frames\":[],"
            "\"blocks\":[{\"address\":%" PRIu64 ",\"size\":%" PRIu64
            ",\"requested_size\":%" PRIu64 ",\"state\":\"active_allocated\",\"frames\":",
            is_first ? "" : ",\n", block->device == DEVICE_HOST ? host : block->device,
            addr[i], block->size, block->size, block->size, block->stream, addr[i],
            block->size, block->size);
        json_dumpf(frames, out, JSON_COMPACT);
        fprintf(out, "}]}");
        json_decref(frames);
        is_first = false;
    }
    fprintf(out, "]");
}

void write_pytorch(FILE *out, struct history *history)
{
    struct torch_event *event = calloc(2 * history->n_blocks + 1, sizeof *event);
    uint64_t *addr = calloc(history->n_blocks + 1, sizeof *addr);
    uint64_t next = UINT64_C(1) << 44;
    int32_t n_devices = 0;
    bool has_host = false;
    size_t n = 0;

    for (size_t i = 0; event != NULL && addr != NULL && i < history->n_blocks; i++) {
        const struct block *block = &history->block[i];

        if (!kind_is_memory(block->kind))
            continue;
        addr[i] = next;
        next += (block->size + 0x1fffff) & ~UINT64_C(0x1fffff);
        n_devices = block->device >= n_devices ? block->device + 1 : n_devices;
        has_host |= block->device == DEVICE_HOST;
        event[n++] = (struct torch_event){block->made, (uint32_t)i, false};
        if (block->freed != 0)
            event[n++] = (struct torch_event){block->freed, (uint32_t)i, true};
    }
    qsort(event, n, sizeof *event, torch_compare);
    fputc('{', out);
    torch_segments_write(out, history, addr, n_devices);
    fprintf(out, ",\n\"device_traces\":[");
    for (int32_t device = 0; device < n_devices; device++) {
        fprintf(out, device > 0 ? ",\n" : "");
        torch_device_write(out, history, event, n, device, addr);
    }
    if (has_host) { /* the host comes last */
        fprintf(out, n_devices > 0 ? ",\n" : "");
        torch_device_write(out, history, event, n, DEVICE_HOST, addr);
    }
    fprintf(out, "],\n\"allocator_settings\":{}}\n");
    free(event);
    free(addr);
}

/* ---- lines ---- */

void write_lines(FILE *out, struct history *history)
{
    struct torch_event *event = calloc(2 * history->n_blocks + 1, sizeof *event);
    size_t n = 0;

    for (size_t i = 0; event != NULL && i < history->n_blocks; i++) {
        const struct block *block = &history->block[i];

        if (!kind_is_memory(block->kind))
            continue;
        event[n++] = (struct torch_event){block->made, (uint32_t)i, false};
        if (block->freed != 0)
            event[n++] = (struct torch_event){block->freed, (uint32_t)i, true};
    }
    qsort(event, n, sizeof *event, torch_compare);
    for (size_t i = 0; i < n; i++) {
        const struct block *block = &history->block[event[i].block];

        if (event[i].is_free)
            fprintf(out, "f %" PRIu32 "\n", event[i].block);
        else
            fprintf(out, "a %" PRIu32 " %" PRIu64 " %" PRIu32 "\n", event[i].block,
                    block->size, block->stream);
    }
    free(event);
}
