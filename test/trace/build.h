/* Builds trace files in memory, right or wrong ones, for tests of the reader. */
#ifndef ACLMEM_TEST_TRACE_BUILD_H
#define ACLMEM_TEST_TRACE_BUILD_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zstd.h>

#include "trace/codec.h"
#include "trace/format.h"
#include "trace/reader.h"

#define BUILD_PAYLOAD (AM_TRACE_SLOT_SIZE - (uint32_t)sizeof(struct am_trace_chunk))

struct build {
    uint8_t *file;
    size_t n_slots;
    uint8_t *pack; /* the slot that frames are added to; NULL: none */
};

static inline void build_begin(struct build *b)
{
    struct am_trace_header *header;

    memset(b, 0, sizeof *b);
    b->file = calloc(1, AM_TRACE_HEADER_SIZE);
    header = (struct am_trace_header *)b->file;
    memcpy(header->magic, AM_TRACE_MAGIC, sizeof header->magic);
    am_trace_header_fill(header, 0, 0);
}

static inline size_t build_size(const struct build *b)
{
    return AM_TRACE_HEADER_SIZE + b->n_slots * AM_TRACE_SLOT_SIZE;
}

static inline struct am_trace_chunk *build_slot(struct build *b, enum am_trace_slot kind)
{
    struct am_trace_chunk *chunk;

    b->file = realloc(b->file, build_size(b) + AM_TRACE_SLOT_SIZE);
    chunk = (struct am_trace_chunk *)(b->file + build_size(b));
    memset(chunk, 0, AM_TRACE_SLOT_SIZE);
    chunk->magic = AM_TRACE_CHUNK_MAGIC;
    chunk->kind = kind;
    b->n_slots++;
    ((struct am_trace_header *)b->file)->n_slots = b->n_slots;
    return chunk;
}

/* A chunk in a slot; the last `pending` bytes are of a call that has not returned. */
static inline void build_chunk(struct build *b, uint32_t process, uint32_t thread,
                               uint64_t number, uint64_t began, const void *bytes,
                               size_t n, size_t pending)
{
    struct am_trace_chunk *chunk = build_slot(b, AM_TRACE_RAW);

    chunk->process = process;
    chunk->thread = thread;
    chunk->number = number;
    chunk->began = began;
    chunk->fill = (n - pending) | (uint64_t)pending << 32;
    memcpy(chunk + 1, bytes, n);
}

/* A chunk in a pack, compressed; false if the pack is full: build_slot() a new one. */
static inline bool build_frame(struct build *b, uint32_t process, uint32_t thread,
                               uint64_t number, uint64_t began, const void *bytes,
                               size_t n)
{
    struct am_trace_chunk *pack =
        (struct am_trace_chunk *)(b->file + build_size(b) - AM_TRACE_SLOT_SIZE);
    uint8_t *at = (uint8_t *)(pack + 1) + pack->fill;
    struct am_trace_frame frame = {.magic = AM_TRACE_FRAME_MAGIC,
                                   .process = process,
                                   .thread = thread,
                                   .number = number,
                                   .began = began,
                                   .used = (uint32_t)n};
    size_t room = BUILD_PAYLOAD - pack->fill;
    size_t size;

    if (room < sizeof frame + ZSTD_compressBound(n) && room < 4096)
        return false;
    size = ZSTD_compress(at + sizeof frame, room - sizeof frame, bytes, n, 1);
    if (ZSTD_isError(size))
        return false;
    frame.size = (uint32_t)size;
    memcpy(at, &frame, sizeof frame);
    pack->fill += sizeof frame + ((size + 7) & ~(size_t)7);
    return true;
}

/* A record: kind, length, content; returns the end. */
static inline uint8_t *build_record(uint8_t *at, unsigned kind, const void *bytes,
                                    size_t n)
{
    at[0] = (uint8_t)kind;
    at[1] = (uint8_t)n;
    at[2] = (uint8_t)(n >> 8);
    memcpy(at + 3, bytes, n);
    return at + 3 + n;
}

static inline uint8_t *build_function(uint8_t *at, uint64_t id, char result,
                                      const char *name, const char *signature)
{
    uint8_t bytes[1024];
    uint8_t *end = am_put_varint(bytes, id);

    *end++ = (uint8_t)result;
    end = am_put_bytes(end, name, strlen(name));
    end = am_put_bytes(end, signature, strlen(signature));
    return build_record(at, AM_TRACE_FUNCTION, bytes, (size_t)(end - bytes));
}

/* A call of a function without arguments that returns 0, `gap` ns after the last event. */
static inline uint8_t *build_call(uint8_t *at, uint64_t id, uint64_t gap, uint64_t stack)
{
    uint8_t bytes[64];
    uint8_t *end = am_put_varint(bytes, id);

    end = am_put_varint(end, gap);
    end = am_put_varint(end, stack);
    end = am_put_varint(end, 0); /* NULL pointers */
    end = am_put_varint(end, 1); /* ns until the end */
    end = am_put_varint(end, 0); /* result */
    return build_record(at, AM_TRACE_CALL, bytes, (size_t)(end - bytes));
}

/* Opens the file; the caller closes it with trace_close(). */
static inline struct trace *build_open(struct build *b)
{
    char path[64];
    char why[TRACE_WHY_SIZE];
    struct trace *trace;
    int fd = memfd_create("trace", 0);

    if (fd < 0 || write(fd, b->file, build_size(b)) != (ssize_t)build_size(b))
        abort();
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    trace = trace_open(path, why);
    close(fd);
    free(b->file);
    return trace;
}

#endif
