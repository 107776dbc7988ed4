/*
 * The layout of a trace file; docs/TRACE.md describes it for readers of other projects.
 *
 * A file is a header of 4 KB and slots of 64 KB.  A slot is claimed by one process with one
 * atomic addition to the header, allocated on disk before it is touched, and then holds a
 * chunk: the records of one thread, in order.  `used` is advanced after the bytes of a
 * record are written, so whatever ends the process, the bytes up to `used` are whole.
 *
 * Full chunks are compressed into packs, which are slots with frames in them.  A chunk is
 * identified by process, thread, begin time and sequence number: the kernel reuses thread
 * ids.  If a process dies between writing a frame and freeing the chunk's slot, the reader
 * finds the same chunk twice and uses one.
 *
 * All numbers are little endian.
 */
#ifndef AM_TRACE_FORMAT_H
#define AM_TRACE_FORMAT_H

#include <stdatomic.h>
#include <stdint.h>

#define AM_TRACE_MAGIC "aclmem trace\r\n\x1a" /* 15 bytes and the 0 behind them */
#define AM_TRACE_VERSION 1u
#define AM_TRACE_HEADER_SIZE 4096u
#define AM_TRACE_SLOT_SIZE 65536u
#define AM_TRACE_CHUNK_MAGIC 0x6b636d61u /* "amck" */
#define AM_TRACE_FRAME_MAGIC 0x72666d61u /* "amfr" */
/* Numbers of stacks from here on are those of Python stacks, which count from 0 again. */
#define AM_TRACE_PYTHON_STACKS (1u << 22)
/* The longest text that is recorded, and the most elements of an array. */
#define AM_TRACE_TEXT_MAX 1024u
#define AM_TRACE_ARRAY_MAX 1024u

struct am_trace_header {
    char magic[16];
    uint32_t version;
    uint32_t header_size;
    uint32_t slot_size;
    _Atomic uint32_t n_processes; /* numbers of processes begin at 1 */
    _Atomic uint64_t n_slots;     /* claimed so far */
    uint64_t began;               /* monotonic clock, nanoseconds */
    uint64_t began_real;          /* nanoseconds since 1970 */
    _Atomic uint64_t full_at;     /* when a slot could not be had; 0: never */
    _Atomic uint64_t n_lost;      /* calls that were made and not recorded */
};

/* A header, but for its magic, which is written when all else is there. */
static inline void am_trace_header_fill(struct am_trace_header *header, uint64_t now,
                                        uint64_t real)
{
    header->version = AM_TRACE_VERSION;
    header->header_size = AM_TRACE_HEADER_SIZE;
    header->slot_size = AM_TRACE_SLOT_SIZE;
    header->began = now;
    header->began_real = real;
}

enum am_trace_slot {
    AM_TRACE_FREE = 0, /* claimed, and empty */
    AM_TRACE_RAW = 1,  /* a chunk */
    AM_TRACE_PACK = 2, /* frames */
};

/* At the start of each slot; `used` bytes follow. */
struct am_trace_chunk {
    uint32_t magic;
    _Atomic uint32_t kind; /* enum am_trace_slot; written last when a slot begins */
    uint32_t process;
    uint32_t thread; /* the kernel's id; 0: what the process says of itself */
    uint64_t number; /* of this thread's chunks, from 0 */
    uint64_t began;  /* the time that the first record counts from */
    /*
     * The low half is `used`, the high half `pending`: bytes behind it, of a call that has
     * not returned.  One store changes both.
     */
    _Atomic uint64_t fill;
    _Atomic uint64_t ended; /* in chunk 0 of thread 0: when the process ended by itself */
    uint64_t rsv[2];
};

static inline uint32_t am_trace_used(uint64_t fill)
{
    return (uint32_t)fill;
}

static inline uint32_t am_trace_pending(uint64_t fill)
{
    return (uint32_t)(fill >> 32);
}

/* A compressed chunk in a pack; the data follow, and zeros up to a multiple of 8. */
struct am_trace_frame {
    uint32_t magic;
    uint32_t process;
    uint32_t thread;
    uint32_t size; /* of the data */
    uint64_t number;
    uint64_t began;
    uint32_t used; /* bytes when it is decompressed */
    uint32_t rsv;
};

_Static_assert(sizeof(struct am_trace_header) <= AM_TRACE_HEADER_SIZE,
               "the header's page");
_Static_assert(sizeof(struct am_trace_chunk) == 64, "part of the format");
_Static_assert(sizeof(struct am_trace_frame) == 40, "part of the format");

/*
 * A record is a byte of kind, two bytes of length, and the content.  A reader skips unknown
 * kinds, and unknown bytes at the end of a known kind.  Numbers are varints (codec.h).
 */
enum am_trace_kind {
    AM_TRACE_PROCESS = 1,  /* JSON: what the process is */
    AM_TRACE_FUNCTION = 2, /* id, letter of the result, name, signature */
    AM_TRACE_CODE = 3,     /* an error's code, signed, and its name */
    AM_TRACE_STRUCT = 4,   /* number, size, name, fields */
    AM_TRACE_MODULE = 5,   /* number, base, start, end, path, build id */
    AM_TRACE_STACK = 6,    /* number, modules known then, frames: differences, signed */
    AM_TRACE_CALL = 7,     /* a call: the parts of BEGIN and END in one */
    AM_TRACE_BEGIN = 8,    /* function, gap, stack, empty pointers, arguments */
    AM_TRACE_END = 9,      /* the latest BEGIN returned: gap, result, outputs, arrays */
    AM_TRACE_TASK =
        10, /* work of a stream: stream, function, gap, time it ran, waited; late */
    AM_TRACE_HELD = 11,   /* gap, device, bytes of the device that the process holds */
    AM_TRACE_PYTHON = 12, /* number of a Python stack, JSON */
    AM_TRACE_NODE = 13,   /* work of a replay: model, number in it, the rest as in TASK */
};

#endif
