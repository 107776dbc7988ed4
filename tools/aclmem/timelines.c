/* Forms by calls: csv, chrome, perfetto. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "convert.h"
#include "show.h"

/* The arguments as text; the caller frees it. */
static char *arguments_text(const struct trace_event *event)
{
    char *text = NULL;
    size_t n = 0;
    FILE *out = open_memstream(&text, &n);

    if (out == NULL)
        return NULL;
    show_arguments(out, event);
    fclose(out);
    return text;
}

/* ---- csv ---- */

static void csv_text(FILE *out, const char *text)
{
    fputc('"', out);
    for (; *text != '\0'; text++) {
        if (*text == '"')
            fputc('"', out);
        fputc(*text, out);
    }
    fputc('"', out);
}

void write_csv(FILE *out, struct history *history, struct trace *trace)
{
    uint64_t began = trace_about(trace)->began;
    struct trace_event event;

    fprintf(out, "begin_ns,end_ns,process,thread,function,result,arguments\n");
    while (trace_next(trace, &event)) {
        char *arguments;

        if (event.function == NULL || (event.kind == TRACE_BEGIN && !event.is_unfinished))
            continue;
        arguments = arguments_text(&event);
        fprintf(out, "%" PRIu64 ",", event.begin - began);
        if (event.is_unfinished)
            fprintf(out, ",");
        else
            fprintf(out, "%" PRIu64 ",", event.end - began);
        fprintf(out, "%d,%" PRIu32 ",%s,", event.process->pid, event.thread,
                event.function->name);
        if (!event.is_unfinished)
            fprintf(out, "%" PRId64, event.result);
        fputc(',', out);
        csv_text(out, arguments != NULL ? arguments : "");
        fputc('\n', out);
        free(arguments);
    }
}

/* ---- chrome ---- */

static void json_text(FILE *out, const char *text)
{
    fputc('"', out);
    for (; *text != '\0'; text++) {
        unsigned char c = (unsigned char)*text;

        if (c == '"' || c == '\\')
            fprintf(out, "\\%c", c);
        else if (c >= 0x20 && c < 0x7f)
            fputc(c, out);
        else
            fprintf(out, "\\u%04x", c);
    }
    fputc('"', out);
}

static void chrome_counters(FILE *out, struct history *history, uint64_t began)
{
    size_t n;
    struct step *step = steps_make(history, &n);

    for (size_t i = 0; i < n; i++)
        fprintf(out,
                ",\n{\"ph\":\"C\",\"pid\":0,\"name\":\"memory of %s %d\",\"ts\":%.3f,"
                "\"args\":{\"bytes\":%" PRIu64 "}}",
                step[i].device < 0 ? "host" : "device",
                step[i].device < 0 ? 0 : step[i].device,
                (double)(step[i].time - began) / 1e3, step[i].bytes);
    free(step);
}

void write_chrome(FILE *out, struct history *history, struct trace *trace)
{
    uint64_t began = trace_about(trace)->began;
    struct trace_event event;

    fprintf(out, "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n"
                 "{\"ph\":\"M\",\"pid\":0,\"name\":\"process_name\",\"args\":{\"name\":"
                 "\"memory\"}}");
    while (trace_next(trace, &event)) {
        char *arguments;

        if (event.function == NULL || event.kind == TRACE_BEGIN)
            continue;
        arguments = arguments_text(&event);
        fprintf(out,
                ",\n{\"ph\":\"X\",\"pid\":%d,\"tid\":%" PRIu32
                ",\"name\":\"%s\",\"ts\":%.3f,\"dur\":%.3f,\"args\":{\"result\":%" PRId64
                ",\"arguments\":",
                event.process->pid, event.thread, event.function->name,
                (double)(event.begin - began) / 1e3,
                (double)(event.end - event.begin) / 1e3, event.result);
        json_text(out, arguments != NULL ? arguments : "");
        fprintf(out, "}}");
        free(arguments);
    }
    chrome_counters(out, history, began);
    fprintf(out, "\n]}\n");
}

/* ---- perfetto: the messages of perfetto/trace, by their field numbers ---- */

enum {
    TRACE_PACKET = 1,
    PACKET_TIMESTAMP = 8,
    PACKET_SEQUENCE = 10,
    PACKET_TRACK_EVENT = 11,
    PACKET_INTERNED = 12,
    PACKET_FLAGS = 13,
    PACKET_DESCRIPTOR = 60,
    DESCRIPTOR_UUID = 1,
    DESCRIPTOR_NAME = 2,
    DESCRIPTOR_PROCESS = 3,
    DESCRIPTOR_THREAD = 4,
    DESCRIPTOR_COUNTER = 8,
    PROCESS_PID = 1,
    PROCESS_NAME = 6,
    THREAD_PID = 1,
    THREAD_TID = 2,
    COUNTER_UNIT = 3,
    COUNTER_UNIT_BYTES = 3,
    INTERNED_NAMES = 2,
    EVENT_ANNOTATION = 4,
    EVENT_TYPE = 9,
    EVENT_NAME_ID = 10,
    EVENT_TRACK = 11,
    EVENT_COUNTER = 30,
    ANNOTATION_INT = 4,
    ANNOTATION_TEXT = 6,
    ANNOTATION_NAME = 10,
    TYPE_BEGIN = 1,
    TYPE_END = 2,
    TYPE_COUNTER = 4,
    FLAG_CLEARED = 1,
    FLAG_NEEDS = 2,
};

struct message {
    uint8_t bytes[16384];
    size_t n;
};

static void put_varint(struct message *m, uint64_t value)
{
    while (value >= 0x80 && m->n < sizeof m->bytes) {
        m->bytes[m->n++] = (uint8_t)(value | 0x80);
        value >>= 7;
    }
    if (m->n < sizeof m->bytes)
        m->bytes[m->n++] = (uint8_t)value;
}

static void put_number(struct message *m, unsigned field, uint64_t value)
{
    put_varint(m, field << 3);
    put_varint(m, value);
}

static void put_bytes(struct message *m, unsigned field, const void *bytes, size_t n)
{
    if (m->n + n + 24 > sizeof m->bytes)
        return;
    put_varint(m, field << 3 | 2);
    put_varint(m, n);
    memcpy(m->bytes + m->n, bytes, n);
    m->n += n;
}

static void put_text(struct message *m, unsigned field, const char *text)
{
    size_t n = strlen(text);

    put_bytes(m, field, text, n < 8192 ? n : 8192);
}

static void put_message(struct message *m, unsigned field, const struct message *inner)
{
    put_bytes(m, field, inner->bytes, inner->n);
}

struct perfetto {
    FILE *out;
    struct {
        uint32_t process, thread;
        uint64_t uuid;
    } * track;
    size_t n_tracks;
    const struct trace_function **name; /* interned: its number is the place + 1 */
    size_t n_names;
    bool has_packet;
};

static void packet_write(struct perfetto *p, struct message *packet)
{
    struct message framed = {.n = 0};

    put_number(packet, PACKET_SEQUENCE, 1);
    put_number(packet, PACKET_FLAGS, p->has_packet ? FLAG_NEEDS : FLAG_CLEARED);
    p->has_packet = true;
    put_message(&framed, TRACE_PACKET, packet);
    fwrite(framed.bytes, 1, framed.n, p->out);
}

static void process_describe(struct perfetto *p, const struct trace_process *process)
{
    struct message packet = {.n = 0};
    struct message descriptor = {.n = 0};
    struct message inner = {.n = 0};
    char name[64];

    snprintf(name, sizeof name, "process %d", process->pid);
    put_number(&inner, PROCESS_PID, (uint64_t)process->pid);
    put_text(&inner, PROCESS_NAME, name);
    put_number(&descriptor, DESCRIPTOR_UUID, process->number);
    put_message(&descriptor, DESCRIPTOR_PROCESS, &inner);
    put_message(&packet, PACKET_DESCRIPTOR, &descriptor);
    packet_write(p, &packet);
}

/* The track of a thread, made when it is first met. */
static uint64_t track_find(struct perfetto *p, const struct trace_event *event)
{
    struct message packet = {.n = 0};
    struct message descriptor = {.n = 0};
    struct message inner = {.n = 0};
    void *larger;
    uint64_t uuid;

    for (size_t i = 0; i < p->n_tracks; i++) {
        if (p->track[i].process == event->process->number &&
            p->track[i].thread == event->thread)
            return p->track[i].uuid;
    }
    larger = realloc(p->track, (p->n_tracks + 1) * sizeof *p->track);
    if (larger == NULL)
        return 0;
    p->track = larger;
    uuid = (UINT64_C(1) << 32) + p->n_tracks;
    p->track[p->n_tracks].process = event->process->number;
    p->track[p->n_tracks].thread = event->thread;
    p->track[p->n_tracks++].uuid = uuid;
    put_number(&inner, THREAD_PID, (uint64_t)event->process->pid);
    put_number(&inner, THREAD_TID, event->thread);
    put_number(&descriptor, DESCRIPTOR_UUID, uuid);
    put_message(&descriptor, DESCRIPTOR_THREAD, &inner);
    put_message(&packet, PACKET_DESCRIPTOR, &descriptor);
    packet_write(p, &packet);
    return uuid;
}

/* The number of a function's name; it is said in the packet when it is new. */
static uint64_t name_find(struct perfetto *p, const struct trace_function *function,
                          struct message *packet)
{
    struct message name = {.n = 0};
    struct message interned = {.n = 0};
    void *larger;

    for (size_t i = 0; i < p->n_names; i++) {
        if (strcmp(p->name[i]->name, function->name) == 0)
            return i + 1;
    }
    larger = realloc(p->name, (p->n_names + 1) * sizeof *p->name);
    if (larger == NULL)
        return 0;
    p->name = larger;
    p->name[p->n_names++] = function;
    put_number(&name, 1, p->n_names);
    put_text(&name, 2, function->name);
    put_message(&interned, INTERNED_NAMES, &name);
    put_message(packet, PACKET_INTERNED, &interned);
    return p->n_names;
}

static void annotation_put(struct message *event, const char *name, const char *text,
                           int64_t number)
{
    struct message annotation = {.n = 0};

    put_text(&annotation, ANNOTATION_NAME, name);
    if (text != NULL)
        put_text(&annotation, ANNOTATION_TEXT, text);
    else
        put_number(&annotation, ANNOTATION_INT, (uint64_t)number);
    put_message(event, EVENT_ANNOTATION, &annotation);
}

static void edge_write(struct perfetto *p, const struct trace_event *event, uint64_t time,
                       unsigned type)
{
    struct message packet = {.n = 0};
    struct message edge = {.n = 0};

    put_number(&edge, EVENT_TYPE, type);
    put_number(&edge, EVENT_TRACK, track_find(p, event));
    if (type == TYPE_BEGIN) {
        char *arguments = arguments_text(event);

        put_number(&edge, EVENT_NAME_ID, name_find(p, event->function, &packet));
        annotation_put(&edge, "arguments", arguments != NULL ? arguments : "", 0);
        free(arguments);
    } else {
        annotation_put(&edge, "result", NULL, event->result);
    }
    put_number(&packet, PACKET_TIMESTAMP, time);
    put_message(&packet, PACKET_TRACK_EVENT, &edge);
    packet_write(p, &packet);
}

static void counters_write(struct perfetto *p, struct history *history)
{
    bool is_described[256] = {false};
    size_t n;
    struct step *step = steps_make(history, &n);

    for (size_t i = 0; i < n; i++) {
        uint64_t uuid = (UINT64_C(2) << 32) + (uint64_t)(step[i].device + 1);
        struct message packet = {.n = 0};
        struct message event = {.n = 0};

        if (!is_described[step[i].device + 1]) {
            struct message descriptor = {.n = 0};
            struct message counter = {.n = 0};
            struct message about = {.n = 0};
            char name[64];

            is_described[step[i].device + 1] = true;
            snprintf(name, sizeof name, step[i].device < 0 ? "host memory" : "device %d",
                     step[i].device);
            put_number(&counter, COUNTER_UNIT, COUNTER_UNIT_BYTES);
            put_number(&descriptor, DESCRIPTOR_UUID, uuid);
            put_text(&descriptor, DESCRIPTOR_NAME, name);
            put_message(&descriptor, DESCRIPTOR_COUNTER, &counter);
            put_message(&about, PACKET_DESCRIPTOR, &descriptor);
            packet_write(p, &about);
        }
        put_number(&event, EVENT_TYPE, TYPE_COUNTER);
        put_number(&event, EVENT_TRACK, uuid);
        put_number(&event, EVENT_COUNTER, step[i].bytes);
        put_number(&packet, PACKET_TIMESTAMP, step[i].time);
        put_message(&packet, PACKET_TRACK_EVENT, &event);
        packet_write(p, &packet);
    }
    free(step);
}

void write_perfetto(FILE *out, struct history *history, struct trace *trace)
{
    struct perfetto p = {.out = out};
    struct trace_event event;

    for (size_t i = 0; i < trace_n_processes(trace); i++) {
        if (trace_process_at(trace, i) != NULL)
            process_describe(&p, trace_process_at(trace, i));
    }
    while (trace_next(trace, &event)) {
        if (event.function == NULL)
            continue;
        if (event.kind == TRACE_CALL || event.kind == TRACE_BEGIN)
            edge_write(&p, &event, event.begin, TYPE_BEGIN);
        if (event.kind == TRACE_CALL || event.kind == TRACE_END)
            edge_write(&p, &event, event.end, TYPE_END);
    }
    counters_write(&p, history);
    free(p.track);
    free(p.name);
}
