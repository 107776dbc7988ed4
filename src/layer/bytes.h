/*
 * Physical bytes: what was done to them, and which were written.
 *
 * Memory may be shown at several addresses, at one after the other, and be unmapped and
 * mapped again with its contents.  So accesses are noted with the bytes, not with
 * addresses.  The history is a list of segments, each with its last write and the reads
 * since that do not know of each other.
 */
#ifndef AM_LAYER_BYTES_H
#define AM_LAYER_BYTES_H

#include <bsd/sys/tree.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "layer/clock.h"
#include "layer/finding.h"

/* One step of an agent that touched bytes. */
struct am_access {
    uint64_t step;
    uint32_t agent;
    struct am_site site;
    bool is_write;
    bool is_order_unknown; /* an order that the layer cannot see may exist */
};

struct am_segment;
RB_HEAD(am_segments, am_segment);

struct am_bytes {
    uint32_t refs;      /* objects that show them, and queued work */
    uint32_t n_handles; /* of physical memory: allocated, and retained */
    uint32_t n_mapped;  /* live mappings that show them */
    uint64_t size;
    uint64_t key;            /* where or as what the program first had them */
    uint64_t share;          /* the number that they were exported as; 0: none */
    struct am_bytes *origin; /* imported: the exported bytes of this process, or NULL */
    struct am_site made;     /* the allocation */
    struct am_site exported; /* counts for objects with is_exported */
    struct am_segments segments;
    uint32_t n_segments;
    uint32_t prune_at;       /* segments; 0: AM_SEGMENTS_MIN */
    struct am_value *values; /* that streams wait for: values.c */
    uint64_t **written;      /* a page each: NULL, ALL, or a bit for each byte */
    uint8_t kind;            /* enum am_object_kind of what made them */
    bool is_shared;          /* another process, or a host view, may write them */
    bool is_exported;
    bool has_pages;    /* a pinned block that shares no page with another one */
    bool is_protected; /* some pages are, against the program */
    bool is_watched;   /* in the list of touch.c, with a reference */
    TAILQ_ENTRY(am_bytes) watched_link;
    bool
        is_counted; /* in am_check.device_bytes: the handle is freed, and mappings hold the bytes */
};

struct am_object;

/* Of an object, made at the first need; NULL without memory. */
struct am_bytes *am_bytes_of(struct am_object *object);
struct am_bytes *am_bytes_get(struct am_bytes *bytes);
/* The bytes that have the history: the exported bytes, if these are imported. */
static inline struct am_bytes *am_bytes_root(struct am_bytes *bytes)
{
    return bytes != NULL && bytes->origin != NULL ? bytes->origin : bytes;
}
void am_bytes_put(struct am_bytes *bytes);

/*
 * An access that no clock orders with this one: `clock` is what this one knows.  False:
 * no conflict exists.  Two reads do not conflict.
 */
bool am_bytes_conflict(struct am_bytes *bytes, uint64_t at, uint64_t size,
                       const struct am_access *access, const struct am_clock *clock,
                       struct am_access *ret_other, uint64_t *ret_at);

#define AM_SEGMENTS_MIN 64

/* Whether the history is long enough to be pruned. */
static inline bool am_bytes_are_long(const struct am_bytes *bytes)
{
    return bytes->n_segments >= (bytes->prune_at > 0 ? bytes->prune_at : AM_SEGMENTS_MIN);
}
/* Drops accesses that the clock knows; all later work must know them, too. */
void am_bytes_prune(struct am_bytes *bytes, const struct am_clock *clock);

/* Notes an access; what it knows to be over is dropped from the history. */
void am_bytes_note(struct am_bytes *bytes, uint64_t at, uint64_t size,
                   const struct am_access *access, const struct am_clock *clock);

/*
 * The ranges of the history that the clock does not know to be done, in order; `each` gets
 * the start, the end, and whether it was written there.
 */
typedef void (*am_range_fn)(uint64_t start, uint64_t end, bool is_write, void *arg);
void am_bytes_undone(struct am_bytes *bytes, const struct am_clock *clock,
                     am_range_fn each, void *arg);

/* The last step of the agent that is in the history; 0: none. */
uint64_t am_bytes_last_step(struct am_bytes *bytes, uint32_t agent);

/*
 * The last access of each stream through an area: a block, or one of several mappings of
 * the same bytes.  An access that `clock` knows to be done is dropped.
 */
void am_uses_note(struct am_object *area, const struct am_access *access,
                  const struct am_clock *clock);
/* An access that the clock does not know to be done; false: none. */
bool am_uses_find(const struct am_object *area, const struct am_clock *clock,
                  struct am_access *ret_access);

/* Which bytes were written, for uninit-read. */
void am_bytes_write(struct am_bytes *bytes, uint64_t at, uint64_t size);
/* True: the byte at *ret_at was never written. */
bool am_bytes_unwritten(const struct am_bytes *bytes, uint64_t at, uint64_t size,
                        uint64_t *ret_at);
/* What a copy inside the device carries along: written stays written, and the reverse. */
void am_bytes_carry(struct am_bytes *to, uint64_t to_at, const struct am_bytes *from,
                    uint64_t from_at, uint64_t size);

/* values.c: the bytes are freed, and waits for their values end. */
void am_values_free(struct am_bytes *bytes);

#endif
