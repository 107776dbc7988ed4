/*
 * Trace files chosen by a fuzzer.
 *
 * A trace may come from anybody, so nothing in it is believed.  An input is a program that
 * builds a file: it begins slots and frames, defines functions, stacks, structs and modules,
 * and writes calls that follow the functions defined so far.  So most inputs get through the
 * outer layers of the format, and single bytes are wrong inside.  When the first byte is
 * odd, the input is a whole file.
 *
 * The memory and the work of each input are bounded: by the counters of the reader, by the
 * number of events, and by libFuzzer's limit of allocations.
 */
#include <stdbool.h>
#include <stdint.h>

#include "../trace/build.h"

/* The reads are not optimised away. */
static volatile uint64_t read_sum;

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes);

/* ---- the program of an input ---- */

struct program {
    const uint8_t *at, *end;
    struct build build;
    uint32_t process, thread;
    uint64_t number, began;
    uint8_t chunk[BUILD_PAYLOAD];
    size_t used;
    char signature[8][64]; /* of the functions that the program defined */
};

static uint8_t next(struct program *p)
{
    return p->at < p->end ? *p->at++ : 0;
}

/* Small numbers, and those around the limits of types. */
static uint64_t number(struct program *p)
{
    uint8_t byte = next(p);

    if (byte < 128)
        return byte;
    if (byte < 192)
        return (UINT64_C(1) << (byte & 63)) - 1 + (next(p) & 3);
    if (byte < 224)
        return (uint64_t)next(p) << 8 | next(p);
    return UINT64_MAX - (byte & 31);
}

static void record_add(struct program *p, unsigned kind, const uint8_t *bytes, size_t n)
{
    if (p->used + n + 3 > sizeof p->chunk)
        return;
    p->used +=
        (size_t)(build_record(p->chunk + p->used, kind, bytes, n) - (p->chunk + p->used));
}

static void function_add(struct program *p)
{
    static const char letters[] = "pzxluiefhstvPZXLUIEST";
    uint64_t id = next(p) % 8;
    char *text = p->signature[id];
    unsigned n = next(p) % 5;
    int used = 0;

    text[0] = '\0';
    for (unsigned i = 0; i < n; i++) {
        uint8_t choice = next(p);

        used += snprintf(text + used, sizeof p->signature[0] - (size_t)used, "%sa:%c",
                         i > 0 ? " " : "", letters[choice % (sizeof letters - 1)]);
        if (choice >= 192)
            used += snprintf(text + used, sizeof p->signature[0] - (size_t)used, "%c%c",
                             choice & 32 ? '<' : '>', "pzfiStH"[choice % 7]);
    }
    if (p->used + 200 < sizeof p->chunk)
        p->used +=
            (size_t)(build_function(p->chunk + p->used, next(p) & 1 ? number(p) : id,
                                    next(p) & 7 ? 'r' : 's', "f", text) -
                     (p->chunk + p->used));
}

static void stack_add(struct program *p)
{
    uint8_t bytes[256];
    uint8_t *end = am_put_varint(bytes, number(p));
    unsigned n = next(p) % 16;

    end = am_put_varint(end, number(p));
    end = am_put_varint(end, next(p) & 7 ? n : number(p));
    for (unsigned i = 0; i < n; i++)
        end = am_put_varint(end, number(p));
    record_add(p, AM_TRACE_STACK, bytes, (size_t)(end - bytes));
}

static void text_record_add(struct program *p, unsigned kind)
{
    uint8_t bytes[256];
    uint8_t *end = am_put_varint(bytes, number(p));

    if (kind == AM_TRACE_STRUCT)
        end = am_put_varint(end, number(p));
    for (unsigned i = 0; kind == AM_TRACE_MODULE && i < 3; i++)
        end = am_put_varint(end, number(p));
    end = am_put_bytes(end, "name", next(p) % 5);
    end = am_put_bytes(end, "x:i@0+4 y:l@8+8", next(p) % 16);
    record_add(p, kind, bytes, (size_t)(end - bytes));
}

/* A value by its letter, as the layer would write it. */
static uint8_t *value_put(struct program *p, uint8_t *at, char letter)
{
    if (strchr("stvST", letter) != NULL)
        return am_put_bytes(at, "0123456789abcdef", next(p) % 17);
    return am_put_varint(at, number(p));
}

static uint8_t *outputs_put(struct program *p, uint8_t *at, const char *signature)
{
    for (const char *word = signature; (word = strchr(word, ':')) != NULL;) {
        char letter = *++word;
        bool is_array = word[1] == '<' || word[1] == '>';

        if (is_array) {
            unsigned n = next(p) % 8;

            at = am_put_varint(at, n > 0);
            if (n > 0 && strchr("StH", word[2]) != NULL) {
                at = am_put_bytes(at, "0123456", n);
            } else if (n > 0) {
                at = am_put_varint(at, next(p) & 7 ? n : number(p));
                for (unsigned i = 0; i < n; i++)
                    at = am_put_varint(at, number(p));
            }
        } else if (letter >= 'A' && letter <= 'Z') {
            at = value_put(p, at, letter);
        }
    }
    return at;
}

static void call_add(struct program *p, unsigned kind)
{
    uint8_t bytes[1024];
    uint64_t id = next(p) % 8;
    const char *signature = p->signature[id];
    uint8_t *end = bytes;

    if (kind != AM_TRACE_END) {
        end = am_put_varint(end, id);
        end = am_put_varint(end, number(p));
        end = am_put_varint(end, number(p));
        end = am_put_varint(end, next(p) & 3 ? 0 : number(p));
        for (const char *word = signature; (word = strchr(word, ':')) != NULL;) {
            char letter = *++word;

            if (!(letter >= 'A' && letter <= 'Z') &&
                !(letter == 't' && (word[1] == '<' || word[1] == '>')))
                end = value_put(p, end, letter);
        }
    }
    if (kind != AM_TRACE_BEGIN) {
        end = am_put_varint(end, number(p));
        end = am_put_varint(end, next(p) & 3 ? 0 : number(p));
        end = outputs_put(p, end, signature);
    }
    record_add(p, kind, bytes, (size_t)(end - bytes));
}

#define NUMBERS_MAX 7

static void numbers_add(struct program *p, unsigned kind, unsigned n)
{
    uint8_t bytes[NUMBERS_MAX * AM_VARINT_MAX];
    uint8_t *end = bytes;

    for (unsigned i = 0; i < n; i++)
        end = am_put_varint(end, number(p));
    record_add(p, kind, bytes, (size_t)(end - bytes));
}

/* The records so far become a chunk in a slot, or a frame in a pack. */
static void chunk_end(struct program *p)
{
    uint8_t choice = next(p);
    size_t pending = choice & 4 ? next(p) % (p->used + 1) : 0;

    if (p->build.n_slots >= 8)
        return;
    if (choice & 1) {
        if (p->build.n_slots == 0 || choice & 2)
            build_slot(&p->build, AM_TRACE_PACK);
        if (((struct am_trace_chunk *)(p->build.file + build_size(&p->build) -
                                       AM_TRACE_SLOT_SIZE))
                ->kind == AM_TRACE_PACK)
            build_frame(&p->build, p->process, p->thread, p->number, p->began, p->chunk,
                        p->used);
    } else {
        build_chunk(&p->build, p->process, p->thread, p->number, p->began, p->chunk,
                    p->used, pending);
    }
    p->used = 0;
    p->number++;
}

static void step(struct program *p)
{
    uint8_t opcode = next(p);

    switch (opcode % 16) {
    case 0:
        function_add(p);
        break;
    case 1:
        stack_add(p);
        break;
    case 2:
        text_record_add(p, AM_TRACE_STRUCT);
        break;
    case 3:
        text_record_add(p, AM_TRACE_MODULE);
        break;
    case 4:
        text_record_add(p, AM_TRACE_PYTHON);
        break;
    case 5:
        text_record_add(p, AM_TRACE_CODE);
        break;
    case 6:
        call_add(p, AM_TRACE_BEGIN);
        break;
    case 7:
        call_add(p, AM_TRACE_END);
        break;
    case 8:
        numbers_add(p, AM_TRACE_TASK, 6);
        numbers_add(p, AM_TRACE_NODE, NUMBERS_MAX);
        break;
    case 9:
        numbers_add(p, AM_TRACE_HELD, 3);
        break;
    case 10: /* the same bytes again: what compresses well */
        for (size_t n = p->used; n > 0 && p->used + n <= sizeof p->chunk;) {
            memcpy(p->chunk + p->used, p->chunk, n);
            p->used += n;
        }
        break;
    case 11:
        p->process = (uint32_t)number(p);
        break;
    case 12:
        p->thread = (uint32_t)number(p);
        p->number = number(p);
        p->began = number(p);
        break;
    case 13: /* one wrong byte */
        if (p->used > 0)
            p->chunk[number(p) % p->used] = next(p);
        break;
    case 14:
        chunk_end(p);
        break;
    default:
        call_add(p, AM_TRACE_CALL);
        break;
    }
}

static void file_build(struct build *b, const uint8_t *bytes, size_t n)
{
    static struct program p;
    size_t size;

    memset(&p, 0, sizeof p);
    p.at = bytes + 1;
    p.end = bytes + n;
    p.process = 1;
    build_begin(&p.build);
    if (bytes[0] & 1) {
        size = n - 1 < AM_TRACE_SLOT_SIZE ? n - 1 : AM_TRACE_SLOT_SIZE;
        memcpy(build_slot(&p.build, AM_TRACE_RAW), bytes + 1, size);
    } else {
        while (p.at < p.end)
            step(&p);
        chunk_end(&p);
    }
    *b = p.build;
}

/* ---- reading ---- */

/* Touches all that an event points to. */
static uint64_t event_read(const struct trace_event *event)
{
    const struct trace_stack *stack = trace_stack_find(event->process, event->stack);
    uint64_t sum = event->time + event->thread;

    for (uint32_t i = 0; event->function != NULL && i < event->function->n; i++) {
        const struct trace_value *value = &event->value[i];

        sum += strlen(event->function->param[i].name) + value->number;
        for (size_t k = 0; k < value->size; k++)
            sum += value->bytes[k];
        for (size_t k = 0; k < value->n_items; k++)
            sum += value->item[k];
    }
    for (size_t k = 0; k < event->text_size; k++)
        sum += event->text[k];
    for (uint32_t k = 0; stack != NULL && k < stack->n && k < 4; k++)
        sum += trace_module_find(event->process, stack->frame[k], stack->era) != NULL;
    if (stack != NULL && stack->python != NULL)
        sum += strlen(stack->python);
    return sum;
}

/* All events; aborts if the reader exceeds its bounds. */
static void events_read(struct trace *trace)
{
    const struct trace_about *about = trace_about(trace);
    struct trace_event event;
    uint64_t n = 0;

    while (trace_next(trace, &event)) {
        read_sum += event_read(&event);
        if (++n > about->n_decoded / 3 + about->n_bytes ||
            about->memory > about->memory_max)
            abort();
    }
    if (about->n_decoded > TRACE_DECODED_BASE + TRACE_DECODED_RATIO * about->n_bytes)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes)
{
    char why[TRACE_WHY_SIZE];
    struct build build;
    struct trace *trace;

    if (n_bytes < 4 || n_bytes > AM_TRACE_SLOT_SIZE / 2)
        return 0;
    file_build(&build, bytes, n_bytes);
    trace = build_open(&build);
    if (trace == NULL)
        return 0;
    events_read(trace);
    if (trace_refresh(trace, why))
        events_read(trace);
    if (trace_rewind(trace, why))
        events_read(trace);
    trace_close(trace);
    return 0;
}
