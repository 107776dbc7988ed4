/*
 * Trace files chosen by a fuzzer.
 *
 * A trace may come from anybody, so nothing in it is believed.  An input is the content of
 * one chunk of definitions and one of records, or, when its first byte is odd, a file as a
 * whole; the chunks are put into a file that is right around them.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "trace/format.h"
#include "trace/reader.h"

/* Kept, so that the reads are not optimised away. */
static volatile uint64_t read_sum;

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes);

static uint8_t file[AM_TRACE_HEADER_SIZE + 2 * AM_TRACE_SLOT_SIZE];

static void chunk_put(size_t slot, uint32_t thread, const uint8_t *bytes, size_t n,
                      size_t pending)
{
    struct am_trace_chunk *chunk = (struct am_trace_chunk *)(file + AM_TRACE_HEADER_SIZE +
                                                             slot * AM_TRACE_SLOT_SIZE);

    memset(chunk, 0, AM_TRACE_SLOT_SIZE);
    chunk->magic = AM_TRACE_CHUNK_MAGIC;
    chunk->kind = AM_TRACE_RAW;
    chunk->process = 1;
    chunk->thread = thread;
    chunk->fill = (n - pending) | (uint64_t)pending << 32;
    memcpy(chunk + 1, bytes, n);
}

/* The length of the input's file. */
static size_t file_make(const uint8_t *bytes, size_t n)
{
    struct am_trace_header *header = (struct am_trace_header *)file;
    size_t first = bytes[1] | (size_t)bytes[2] << 8;

    if (bytes[0] & 1) {
        n = n < sizeof file ? n : sizeof file;
        memcpy(file, bytes + 1, n - 1);
        memcpy(header->magic, AM_TRACE_MAGIC, sizeof header->magic);
        am_trace_header_fill(header, 0, 0);
        return n > sizeof *header ? n : sizeof *header;
    }
    memset(file, 0, AM_TRACE_HEADER_SIZE);
    memcpy(header->magic, AM_TRACE_MAGIC, sizeof header->magic);
    am_trace_header_fill(header, 0, 0);
    bytes += 3;
    n -= 3;
    if (first > n)
        first = n;
    chunk_put(0, 0, bytes, first, 0);
    chunk_put(1, 7, bytes + first, n - first, (n - first) / 8);
    return sizeof file;
}

/* Touches all that an event points to. */
static uint64_t event_read(const struct trace_event *event)
{
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
    if (event->stack < event->process->n_stacks) {
        const struct trace_stack *stack = &event->process->stack[event->stack];

        for (uint32_t k = 0; k < stack->n; k++)
            sum += trace_module_find(event->process, stack->frame[k], stack->era) != NULL;
    }
    return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes)
{
    char path[64];
    char why[TRACE_WHY_SIZE];
    struct trace_event event;
    struct trace *trace;
    uint64_t sum = 0;
    size_t size;
    int fd;

    if (n_bytes < 4 || n_bytes > AM_TRACE_SLOT_SIZE / 2)
        return 0;
    size = file_make(bytes, n_bytes);
    fd = memfd_create("trace", 0);
    if (fd < 0 || write(fd, file, size) != (ssize_t)size)
        abort();
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    trace = trace_open(path, why);
    while (trace != NULL && trace_next(trace, &event))
        sum += event_read(&event);
    if (trace != NULL && trace_refresh(trace, why)) {
        while (trace_next(trace, &event))
            sum += event_read(&event);
    }
    trace_close(trace);
    close(fd);
    read_sum = sum;
    return 0;
}
