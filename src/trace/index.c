/*
 * The index of a file's chunks, and its threads.
 *
 * One scan reads the header of each slot and the frames of packs.  Chunks are sorted by
 * process, thread, begin time and number.  The begin time separates two threads that had
 * the same id: the kernel reuses ids, and each thread numbers its chunks from 0.  If a chunk
 * is both in a slot and in a pack, the packed one counts.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include "trace/internal.h"

#define CHUNKS_MAX ((size_t)1 << 28)
#define N_SCANS 4 /* of a file that is being written; a gap of one that is not stays */

/* ---- reading ---- */

/*
 * Reads bytes of a file that another process may extend.  The fence orders this read before the next
 * one: the head of a chunk before its bytes, and the bytes before the re-check of the head.
 * Its partners are the releases of the writer (src/layer/trace_file.c, record_end() in
 * src/layer/trace_record.c).
 */
static bool bytes_read(const struct trace *trace, uint64_t at, void *into, size_t n)
{
    size_t got = 0;

    while (got < n) {
        ssize_t more = pread(trace->fd, (char *)into + got, n - got, (off_t)(at + got));

        if (more < 0 && errno == EINTR)
            continue;
        if (more <= 0)
            return false;
        got += (size_t)more;
    }
    atomic_thread_fence(memory_order_acquire);
    return true;
}

/* Slots that were claimed before the disk was full never existed: they are not counted. */
static uint64_t slots_cut(const struct am_trace_header *header, uint64_t size)
{
    uint64_t n =
        size > header->header_size ? (size - header->header_size) / header->slot_size : 0;

    return header->full_at == 0 && header->n_slots > n ? header->n_slots - n : 0;
}

static bool header_read(struct trace *trace, char *why)
{
    struct am_trace_header header;
    struct stat status;

    memset(&header, 0, sizeof header);
    if (fstat(trace->fd, &status) != 0 || !bytes_read(trace, 0, &header, sizeof header)) {
        snprintf(why, TRACE_WHY_SIZE, "it is too short for a trace");
        return false;
    }
    if (memcmp(header.magic, AM_TRACE_MAGIC, sizeof header.magic) != 0) {
        snprintf(why, TRACE_WHY_SIZE, "it is no trace of aclmem");
        return false;
    }
    if (header.version != AM_TRACE_VERSION || header.slot_size != AM_TRACE_SLOT_SIZE ||
        header.header_size != AM_TRACE_HEADER_SIZE) {
        snprintf(why, TRACE_WHY_SIZE, "it is a trace of version %u, and this is for %u",
                 header.version, AM_TRACE_VERSION);
        return false;
    }
    trace->slot_size = header.slot_size;
    trace->header_size = header.header_size;
    trace->about.version = header.version;
    trace->about.began = header.began;
    trace->about.began_real = header.began_real;
    trace->about.full_at = header.full_at;
    trace->about.n_lost = header.n_lost;
    trace->about.size = (uint64_t)status.st_size;
    trace->about.n_slots = header.n_slots;
    trace->about.n_cut = slots_cut(&header, (uint64_t)status.st_size);
    trace->about.n_bytes = trace->about.n_decoded = trace->about.n_loaded = 0;
    trace->about.memory_max = TRACE_MEMORY_BASE;
    return true;
}

bool trace_charge(struct trace *trace, uint64_t size)
{
    if (size > trace->about.memory_max ||
        trace->about.memory > trace->about.memory_max - size)
        return false;
    trace->about.memory += size;
    return true;
}

void trace_discharge(struct trace *trace, uint64_t size)
{
    trace->about.memory -= size;
}

static void chunk_add(struct trace *trace, const struct trace_chunk *chunk)
{
    /* A frame of 20 bytes may decompress to 64 KB: the sum is bounded by the file. */
    if (trace->about.n_decoded + chunk->used >
        TRACE_DECODED_BASE + TRACE_DECODED_RATIO * trace->about.n_bytes) {
        trace->about.n_damaged++;
        return;
    }
    trace->about.n_decoded += chunk->used;
    if (trace->n_chunks == trace->max_chunks) {
        size_t larger = trace->max_chunks > 0 ? 2 * trace->max_chunks : 64;
        void *made = larger <= CHUNKS_MAX
                         ? realloc(trace->chunk, larger * sizeof *trace->chunk)
                         : NULL;

        if (made == NULL) {
            trace->about.n_damaged++;
            return;
        }
        trace->chunk = made;
        trace->max_chunks = larger;
    }
    trace->chunk[trace->n_chunks++] = *chunk;
}

static bool is_same(const struct trace_chunk *a, const struct trace_chunk *b)
{
    return a->process == b->process && a->thread == b->thread && a->began == b->began &&
           a->number == b->number;
}

/*
 * Reads the frames of the pack in trace->buffer: adds all of them, or with `wanted` replaces
 * that chunk by its packed copy.
 */
static void pack_read(struct trace *trace, uint64_t at, uint32_t used,
                      struct trace_chunk *wanted)
{
    const uint8_t *bytes = trace->buffer + sizeof(struct am_trace_chunk);
    uint32_t place = 0;

    while (place + sizeof(struct am_trace_frame) <= used) {
        struct am_trace_frame frame;
        struct trace_chunk chunk;
        uint64_t next;

        memcpy(&frame, bytes + place, sizeof frame);
        next = place + sizeof frame + (((uint64_t)frame.size + 7) & ~(uint64_t)7);
        if (frame.magic != AM_TRACE_FRAME_MAGIC || next > used ||
            frame.used > TRACE_PAYLOAD) {
            trace->about.n_damaged += wanted == NULL;
            return;
        }
        chunk = (struct trace_chunk){
            .process = frame.process,
            .thread = frame.thread,
            .number = frame.number,
            .began = frame.began,
            .used = frame.used,
            .packed = frame.size,
            .at = at + sizeof(struct am_trace_chunk) + place + sizeof frame,
        };
        if (wanted == NULL)
            chunk_add(trace, &chunk);
        else if (is_same(&chunk, wanted))
            *wanted = chunk;
        place = (uint32_t)next;
    }
}

static bool is_fill_valid(uint64_t fill)
{
    return am_trace_used(fill) <= TRACE_PAYLOAD &&
           am_trace_pending(fill) <= TRACE_PAYLOAD - am_trace_used(fill);
}

/* False for a slot that was never used. */
static bool slot_read(struct trace *trace, uint64_t at)
{
    struct am_trace_chunk head;

    if (!bytes_read(trace, at, &head, sizeof head) || head.magic == 0)
        return false;
    trace->about.n_bytes += trace->slot_size < trace->about.size - at
                                ? trace->slot_size
                                : trace->about.size - at;
    trace->about.memory_max =
        TRACE_MEMORY_BASE + TRACE_MEMORY_RATIO * trace->about.n_bytes;
    if (head.magic != AM_TRACE_CHUNK_MAGIC || !is_fill_valid(head.fill)) {
        trace->about.n_damaged++;
    } else if (head.kind == AM_TRACE_PACK) {
        if (bytes_read(trace, at, trace->buffer, sizeof head + am_trace_used(head.fill)))
            pack_read(trace, at, am_trace_used(head.fill), NULL);
    } else if (head.kind == AM_TRACE_RAW) {
        chunk_add(trace, &(struct trace_chunk){.process = head.process,
                                               .thread = head.thread,
                                               .number = head.number,
                                               .began = head.began,
                                               .used = am_trace_used(head.fill),
                                               .pending = am_trace_pending(head.fill),
                                               .ended = head.ended,
                                               .at = at});
    }
    return true;
}

/* The first slot from `at` on that is not in a hole of the file: a file may be sparse. */
static uint64_t slot_next(const struct trace *trace, uint64_t at)
{
    off_t data = lseek(trace->fd, (off_t)at, SEEK_DATA);

    if (data < 0)
        return errno == ENXIO ? trace->about.size : at;
    return at + ((uint64_t)data - at) / trace->slot_size * trace->slot_size;
}

static void slots_read(struct trace *trace)
{
    for (uint64_t at = trace->header_size; at < trace->about.size;
         at += trace->slot_size) {
        if (slot_read(trace, at))
            continue;
        at = slot_next(trace, at);
        if (at < trace->about.size)
            slot_read(trace, at);
    }
}

static int chunk_compare(const void *left, const void *right)
{
    const struct trace_chunk *a = left;
    const struct trace_chunk *b = right;

    if (a->process != b->process)
        return a->process < b->process ? -1 : 1;
    if (a->thread != b->thread)
        return a->thread < b->thread ? -1 : 1;
    if (a->began != b->began)
        return a->began < b->began ? -1 : 1;
    if (a->number != b->number)
        return a->number < b->number ? -1 : 1;
    return (a->packed == 0) - (b->packed == 0);
}

/*
 * Whether the scan missed a chunk: one that was packed after the scan read the pack.  A
 * thread that reuses an id begins with chunk 0 again.
 */
static bool has_gap(const struct trace *trace)
{
    for (size_t i = 0; i < trace->n_chunks; i++) {
        const struct trace_chunk *chunk = &trace->chunk[i];
        bool is_first = i == 0 || chunk[-1].process != chunk->process ||
                        chunk[-1].thread != chunk->thread || chunk->number == 0;

        if (chunk->number != (is_first ? 0 : chunk[-1].number + 1))
            return true;
    }
    return false;
}

static void chunks_sort(struct trace *trace)
{
    size_t n = 0;

    if (trace->n_chunks > 0)
        qsort(trace->chunk, trace->n_chunks, sizeof *trace->chunk, chunk_compare);
    for (size_t i = 0; i < trace->n_chunks; i++) {
        if (n == 0 || !is_same(&trace->chunk[n - 1], &trace->chunk[i]))
            trace->chunk[n++] = trace->chunk[i];
    }
    trace->n_chunks = n;
}

/* ---- chunks ---- */

static bool packed_load(struct trace *trace, const struct trace_chunk *chunk)
{
    if (chunk->packed > trace->slot_size ||
        !bytes_read(trace, chunk->at, trace->buffer, chunk->packed) ||
        ZSTD_decompress(trace->payload, TRACE_PAYLOAD, trace->buffer, chunk->packed) !=
            chunk->used)
        return false;
    trace->used = chunk->used;
    trace->pending = 0;
    return true;
}

/* False if the process has reused the slot: the chunk is in a pack by now. */
static bool raw_load(struct trace *trace, const struct trace_chunk *chunk)
{
    struct am_trace_chunk head;
    struct am_trace_chunk again;

    if (!bytes_read(trace, chunk->at, &head, sizeof head) || !is_fill_valid(head.fill))
        return false;
    trace->used = am_trace_used(head.fill);
    trace->pending = am_trace_pending(head.fill);
    return bytes_read(trace, chunk->at + sizeof head, trace->payload,
                      trace->used + trace->pending) &&
           bytes_read(trace, chunk->at, &again, sizeof again) &&
           again.kind == AM_TRACE_RAW && again.process == chunk->process &&
           again.thread == chunk->thread && again.began == chunk->began &&
           again.number == chunk->number;
}

/* Replaces a raw chunk by its packed copy. */
static bool packed_find(struct trace *trace, struct trace_chunk *chunk)
{
    struct stat status;

    if (fstat(trace->fd, &status) != 0)
        return false;
    for (uint64_t at = trace->header_size;
         chunk->packed == 0 && at < (uint64_t)status.st_size; at += trace->slot_size) {
        struct am_trace_chunk head;

        if (bytes_read(trace, at, &head, sizeof head) &&
            head.magic == AM_TRACE_CHUNK_MAGIC && head.kind == AM_TRACE_PACK &&
            am_trace_used(head.fill) <= TRACE_PAYLOAD &&
            bytes_read(trace, at, trace->buffer, sizeof head + am_trace_used(head.fill)))
            pack_read(trace, at, am_trace_used(head.fill), chunk);
    }
    return chunk->packed > 0;
}

/* Reads the bytes of a chunk, as many as it has now, into trace->payload. */
static bool chunk_load(struct trace *trace, const struct trace_chunk *chunk)
{
    struct trace_chunk found = *chunk;

    if (chunk->packed == 0 && raw_load(trace, chunk))
        return true;
    return (chunk->packed > 0 || packed_find(trace, &found)) &&
           packed_load(trace, &found);
}

/*
 * The chunk that the cursor reads (is_next false) or the one behind it; NULL: none.  Chunks
 * of a thread are in a strict order, so a cursor ends whatever their numbers are.
 */
static const struct trace_chunk *
chunk_find(const struct trace *trace, const struct trace_cursor *cursor, bool is_next)
{
    struct trace_chunk wanted = {.process = cursor->process,
                                 .thread = cursor->thread,
                                 .began = cursor->began,
                                 .number = cursor->number,
                                 .packed = 1};
    size_t low = 0;
    size_t high = trace->n_chunks;

    while (low < high) {
        size_t middle = (low + high) / 2;

        if (chunk_compare(&trace->chunk[middle], &wanted) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    if (is_next && low < trace->n_chunks && cursor->has_chunk &&
        is_same(&trace->chunk[low], &wanted))
        low++;
    if (low == trace->n_chunks || trace->chunk[low].process != cursor->process ||
        trace->chunk[low].thread != cursor->thread)
        return NULL;
    return &trace->chunk[low];
}

/* Moves trace->payload to the cursor; false if that exceeds the memory bound. */
static bool cursor_data_set(struct trace *trace, struct trace_cursor *cursor)
{
    uint32_t n = trace->used + trace->pending;
    uint8_t *data;

    trace_cursor_data_free(trace, cursor);
    data = trace_charge(trace, n) ? malloc(n + 1) : NULL;
    if (data == NULL)
        return false;
    cursor->data = memcpy(data, trace->payload, n);
    cursor->used = trace->used;
    cursor->pending = trace->pending;
    return true;
}

void trace_cursor_data_free(struct trace *trace, struct trace_cursor *cursor)
{
    if (cursor->data == NULL)
        return;
    trace_discharge(trace, cursor->used + cursor->pending);
    free(cursor->data);
    cursor->data = NULL;
}

bool trace_chunk_next(struct trace *trace, struct trace_cursor *cursor)
{
    const struct trace_chunk *chunk;

    while ((chunk = chunk_find(trace, cursor, true)) != NULL) {
        cursor->began = chunk->began;
        cursor->number = chunk->number;
        cursor->has_chunk = true;
        if (chunk->number == 0) /* a thread that reuses the id */
            trace_cursor_reset(trace, cursor);
        if (chunk_load(trace, chunk) && cursor_data_set(trace, cursor)) {
            trace->about.n_loaded += trace->used;
            cursor->at = 0;
            cursor->last = chunk->began;
            cursor->last_pointer = 0;
            cursor->is_pending_read = false;
            return true;
        }
        cursor->used = cursor->pending = cursor->at = 0;
        trace->about.n_damaged++;
    }
    return false;
}

/* ---- the threads ---- */

static int cursor_compare(const struct trace_cursor *a, const struct trace_cursor *b)
{
    if (a->process != b->process)
        return a->process < b->process ? -1 : 1;
    return (a->thread > b->thread) - (a->thread < b->thread);
}

RB_GENERATE_INTERNAL(trace_cursors, trace_cursor, node, cursor_compare,
                     __attribute__((unused)) static)

/* Reads the definitions of all processes, before their calls. */
static void definitions_read(struct trace *trace)
{
    const uint8_t *data = trace->payload;

    for (size_t i = 0; i < trace->n_chunks; i++) {
        const struct trace_chunk *chunk = &trace->chunk[i];
        struct trace_process *process;

        if (chunk->thread != 0)
            continue;
        process = trace_process_get(trace, chunk->process);
        if (process == NULL || !chunk_load(trace, chunk)) {
            trace->about.n_damaged++;
            continue;
        }
        if (chunk->ended != 0)
            process->ended = chunk->ended;
        if (process->began == 0 || chunk->began < process->began)
            process->began = chunk->began;
        for (uint32_t at = 0; at + 3 <= trace->used;) {
            uint32_t n = data[at + 1] | (uint32_t)data[at + 2] << 8;
            struct am_input in = {data + at + 3, data + at + 3 + n, false};

            if (at + 3 + n > trace->used)
                break;
            trace_define(trace, process, data[at], &in);
            at += 3 + n;
        }
    }
}

/* Adds a cursor for each thread without one; chunks are sorted by process and thread. */
static void cursors_add(struct trace *trace)
{
    for (size_t i = 0; i < trace->n_chunks; i++) {
        const struct trace_chunk *chunk = &trace->chunk[i];
        struct trace_cursor *cursor;

        if (chunk->thread == 0 || (i > 0 && chunk[-1].process == chunk->process &&
                                   chunk[-1].thread == chunk->thread))
            continue;
        cursor = trace_charge(trace, sizeof *cursor) ? calloc(1, sizeof *cursor) : NULL;
        if (cursor == NULL) {
            trace->about.n_damaged++;
            continue;
        }
        cursor->process = chunk->process;
        cursor->thread = chunk->thread;
        if (RB_INSERT(trace_cursors, &trace->cursors, cursor) != NULL) {
            trace_discharge(trace, sizeof *cursor);
            free(cursor);
        }
    }
}

static void cursors_fill(struct trace *trace)
{
    struct trace_cursor *cursor;

    cursors_add(trace);
    RB_FOREACH (cursor, trace_cursors, &trace->cursors)
        trace_cursor_fill(trace, cursor);
}

/* More of a chunk that was read before its thread had filled it. */
static void cursors_reload(struct trace *trace)
{
    struct trace_cursor *cursor;

    RB_FOREACH (cursor, trace_cursors, &trace->cursors) {
        const struct trace_chunk *chunk;

        if (!cursor->has_chunk || cursor->has_event)
            continue;
        chunk = chunk_find(trace, cursor, false);
        if (chunk == NULL || chunk->number != cursor->number ||
            chunk->began != cursor->began || !chunk_load(trace, chunk) ||
            trace->used < cursor->used)
            continue;
        cursor->is_pending_read = cursor->is_pending_read && trace->used == cursor->used;
        cursor_data_set(trace, cursor);
    }
}

static bool index_make(struct trace *trace, char *why)
{
    uint64_t n_damaged = trace->about.n_damaged;

    for (int i = 0; i < N_SCANS; i++) {
        if (!header_read(trace, why))
            return false;
        trace->n_chunks = 0;
        trace->about.n_damaged = n_damaged;
        slots_read(trace);
        chunks_sort(trace);
        if (!has_gap(trace))
            break;
    }
    definitions_read(trace);
    return true;
}

struct trace *trace_open(const char *path, char *why)
{
    struct trace *trace = calloc(1, sizeof *trace);

    snprintf(why, TRACE_WHY_SIZE, "there is no memory");
    if (trace == NULL)
        return NULL;
    trace->fd = -1;
    trace->buffer = malloc(AM_TRACE_SLOT_SIZE);
    trace->payload = malloc(TRACE_PAYLOAD);
    if (trace->buffer == NULL || trace->payload == NULL)
        goto failed;
    trace->fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (trace->fd < 0) {
        snprintf(why, TRACE_WHY_SIZE, "%s", strerror(errno));
        goto failed;
    }
    if (!index_make(trace, why))
        goto failed;
    cursors_fill(trace);
    return trace;

failed:
    trace_close(trace);
    return NULL;
}

static void cursors_close(struct trace *trace)
{
    struct trace_cursor *cursor;

    while ((cursor = RB_ROOT(&trace->cursors)) != NULL) {
        RB_REMOVE(trace_cursors, &trace->cursors, cursor);
        trace_cursor_close(trace, cursor);
    }
    RB_INIT(&trace->ready);
    trace->given = NULL;
}

void trace_close(struct trace *trace)
{
    if (trace == NULL)
        return;
    cursors_close(trace);
    trace_processes_free(trace);
    free(trace->chunk);
    free(trace->buffer);
    free(trace->payload);
    if (trace->fd >= 0)
        close(trace->fd);
    free(trace);
}

bool trace_rewind(struct trace *trace, char *why)
{
    cursors_close(trace);
    if (!index_make(trace, why))
        return false;
    cursors_fill(trace);
    return true;
}

bool trace_refresh(struct trace *trace, char *why)
{
    trace_given_end(trace);
    if (!index_make(trace, why))
        return false;
    cursors_reload(trace);
    cursors_fill(trace);
    return true;
}

bool trace_is(const char *path)
{
    char magic[sizeof(((struct am_trace_header *)0)->magic)];
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    bool is_trace = fd >= 0 && read(fd, magic, sizeof magic) == (ssize_t)sizeof magic &&
                    memcmp(magic, AM_TRACE_MAGIC, sizeof magic) == 0;

    if (fd >= 0)
        close(fd);
    return is_trace;
}

const struct trace_about *trace_about(const struct trace *trace)
{
    return &trace->about;
}

size_t trace_n_processes(const struct trace *trace)
{
    return trace->n_processes;
}

const struct trace_process *trace_process_at(const struct trace *trace, size_t i)
{
    return trace->process[i];
}
