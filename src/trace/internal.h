/* What the files of the reader share. */
#ifndef AM_TRACE_INTERNAL_H
#define AM_TRACE_INTERNAL_H

#include "trace/codec.h"
#include "trace/format.h"
#include "trace/reader.h"

#define TRACE_ITEMS_MAX (8 * AM_TRACE_ARRAY_MAX)
#define TRACE_DEPTH_MAX 64
#define TRACE_PAYLOAD (AM_TRACE_SLOT_SIZE - (uint32_t)sizeof(struct am_trace_chunk))

/* A chunk somewhere in the file. */
struct trace_chunk {
    uint32_t process;
    uint32_t thread;
    uint64_t number;
    uint64_t at;    /* of its slot, or of its frame's data */
    uint64_t began; /* time */
    uint32_t used;
    uint32_t pending;
    uint32_t packed; /* bytes of the frame; 0: it is in a slot */
    uint64_t ended;
};

/* A call whose end is not read yet; the bytes of its arguments are copies. */
struct trace_open {
    struct trace_event event;
    uint64_t size; /* counted against the memory bound */
};

/* The name of a code. */
struct trace_code {
    RB_ENTRY(trace_code) node; /* by code */
    int64_t code;
    char name[];
};

/* How far a thread is read. */
struct trace_cursor {
    RB_ENTRY(trace_cursor) node;  /* by process and thread */
    RB_ENTRY(trace_cursor) ready; /* has_event: by time */
    uint32_t process;
    uint32_t thread;
    uint64_t began; /* with `number`: the chunk that is being read */
    uint64_t number;
    bool has_chunk;
    uint8_t *data; /* used + pending bytes; NULL when all events are read */
    uint32_t used;
    uint32_t pending;
    uint32_t at;
    bool is_pending_read;
    uint64_t last;
    uint64_t last_pointer;
    bool has_event;
    struct trace_event event;
    struct trace_open *open[TRACE_DEPTH_MAX];
    uint32_t n_open;
    struct trace_open *closed; /* the last event's arguments may lie in it */
    uint64_t *item;            /* elements of the event's arrays */
    size_t n_items, max_items;
};

struct trace {
    int fd;
    uint32_t slot_size;
    uint32_t header_size;
    struct trace_about about;
    struct trace_chunk *chunk; /* sorted by process, thread, time, number */
    size_t n_chunks, max_chunks;
    struct trace_process **process; /* by number - 1 */
    uint32_t n_processes;
    RB_HEAD(trace_codes, trace_code) codes;
    RB_HEAD(trace_cursors, trace_cursor) cursors;
    RB_HEAD(trace_ready, trace_cursor) ready; /* with an event */
    struct trace_cursor *given;               /* whose event the caller has */
    uint8_t *buffer;                          /* a slot */
    uint8_t *payload; /* TRACE_PAYLOAD bytes: those of the chunk that was loaded last */
    uint32_t used;    /* of these, bytes of records */
    uint32_t pending; /* and of a call that has not returned */
};

/* index.c */
bool trace_chunk_next(struct trace *trace, struct trace_cursor *cursor);
void trace_cursor_data_free(struct trace *trace, struct trace_cursor *cursor);

/* reader.c */
/* Reads the next event of a cursor that has none. */
void trace_cursor_fill(struct trace *trace, struct trace_cursor *cursor);
/* The caller has used the event that it was given; the cursor whose event it was, or NULL. */
struct trace_cursor *trace_given_end(struct trace *trace);
void trace_cursor_close(struct trace *trace, struct trace_cursor *cursor);
/* Discards calls that were begun and not ended. */
void trace_cursor_reset(struct trace *trace, struct trace_cursor *cursor);

/* definitions.c */
struct trace_process *trace_process_get(struct trace *trace, uint32_t number);
/* Takes in a record that defines something; other kinds are left alone. */
void trace_define(struct trace *trace, struct trace_process *process, unsigned kind,
                  struct am_input *in);
void trace_processes_free(struct trace *trace);
/* Counts memory against the bound of the trace; false if it exceeds the bound. */
bool trace_charge(struct trace *trace, uint64_t size);
void trace_discharge(struct trace *trace, uint64_t size);

#endif
