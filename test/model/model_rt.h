/*
 * The runtime's contract: blocks, pools, host memory, streams, events, peers.
 *
 * Part of model.h, in the same manner: small tables, model_may_x() and model_x().  What
 * the library may choose by itself (which address, how many chunks of a device's memory
 * small blocks share) the model learns, and holds the library to it: a figure may change
 * only with a call that is about it, and only within its bounds.
 *
 * A run synchronises each stream that it puts work on, before it asks about contents.
 * Frees in a pool and records of events are left to take their time.
 */
#ifndef TEST_MODEL_MODEL_RT_H
#define TEST_MODEL_MODEL_RT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "acl/acl.h"

enum {
    MODEL_BLOCKS = 64,
    MODEL_EDGE = 256, /* bytes known at each end of a block */
    MODEL_POOLS = 3,
    MODEL_STREAMS = 10,
    MODEL_EVENTS = 10,
    MODEL_REGISTERED = 6,
    MODEL_PAGES = 4, /* of 2 MB, in a block of managed memory */
};

struct model;
struct verdict;

enum model_kind {
    MODEL_DEVICE = 1,
    MODEL_PINNED = 2,
    MODEL_POOLED = 4,
    MODEL_MANAGED = 8,
    MODEL_ANY = 15,
};

/* Where a page of managed memory was advised or prefetched to; type 0: nowhere. */
struct model_place {
    int type;
    int id;
};

struct model_page {
    bool is_read_mostly;
    struct model_place preferred;
    struct model_place prefetched;
};

struct model_block {
    bool is_used;
    enum model_kind kind;
    uintptr_t start;
    size_t asked;  /* bytes that are the program's for certain */
    size_t size;   /* with what the documents add; beyond it nothing is the block's */
    int device;    /* -1: the host's */
    uint32_t page; /* size of its pages; 0: nobody says */
    size_t charge; /* the most that it costs of the device's memory */
    struct model_pool *pool;
    int16_t head[MODEL_EDGE], tail[MODEL_EDGE];
    struct model_page pages[MODEL_PAGES]; /* of managed memory */
};

struct model_pool {
    bool is_used;
    void *value;
    int device;
    size_t max;
    uint64_t threshold;
    bool switches[3];
    size_t used;
    size_t used_high;
    size_t reserved;      /* learned */
    size_t reserved_high; /* the same */
    bool is_touched;      /* since then something was called that may change it */
    /* Frees that no synchronisation has come by: of one stream, or of several. */
    const void *pending[2];
};

struct model_stream {
    bool is_used;
    void *value;
    int device;
    const struct model_context *ctx; /* NULL: the device's default context */
    uint32_t priority;
    uint32_t flags;
    int32_t id; /* 0: not asked for yet */
    uint64_t failure_mode;
};

struct model_event {
    bool is_used;
    void *value;
    int device;
    bool is_ex;
    uint32_t flags;
    bool is_recorded;
    bool is_done;       /* the record's stream was synchronised since */
    int stream_device;  /* of the latest record */
    const void *stream; /* of the latest record, by model_stream_key() */
};

/*
 * A stream with a record that another stream waits for, as long as it is not known to have
 * come by.  The event may be recorded elsewhere since, or be destroyed: the wait stays.
 */
struct model_awaited {
    const void *stream; /* by model_stream_key() */
    int device;         /* of the stream */
};

/* Host memory that aclrtHostRegister knows. */
struct model_registered {
    bool is_used;
    uintptr_t start;
    size_t size;
    bool is_mapped;
};

/* Blocks. */
struct model_block *model_find_block(struct model *m, uintptr_t addr);
/* The block of one of the kinds that starts exactly there. */
struct model_block *model_find_block_at(struct model *m, uintptr_t addr, int kinds);
bool model_is_blockless(const struct model *m, uintptr_t start, size_t size);
unsigned model_count_blocks(const struct model *m, int kinds);
/* The byte at an offset; NULL where the model keeps none. */
int16_t *model_block_byte(struct model_block *block, size_t offset);
/* Nothing but address, size and kind are given; the rest is for the caller. */
struct model_block *model_add_block(struct model *m, enum model_kind kind,
                                    uintptr_t start, size_t asked, size_t size);
void model_drop_block(struct model *m, struct model_block *block);

/* What can be free of a device, at least and at most. */
void model_left(const struct model *m, int device, size_t *ret_least, size_t *ret_most);

enum model_malloc { MALLOC_PLAIN, MALLOC_ALIGN32, MALLOC_CACHED, MALLOC_CFG };

struct verdict model_may_malloc_block(const struct model *m, const void *out, size_t size,
                                      unsigned policy, enum model_malloc how);
struct model_block *model_malloc_block(struct model *m, uintptr_t start, size_t size,
                                       unsigned policy, enum model_malloc how);
struct verdict model_may_free_block(struct model *m, uintptr_t addr, int kinds);
void model_free_block(struct model *m, uintptr_t addr);
struct verdict model_may_malloc_host(const struct model *m, const void *out, size_t size);
struct verdict model_may_malloc_managed(const struct model *m, const void *out,
                                        size_t size, uint32_t flag);

/* Registered memory. */
struct model_registered *model_find_registered(struct model *m, uintptr_t addr,
                                               size_t size);
/* is_program: all of it is the program's own memory. */
struct verdict model_may_register(struct model *m, uintptr_t addr, size_t size,
                                  bool is_program, bool is_pinning);
void model_register(struct model *m, uintptr_t addr, size_t size, bool is_mapped);
struct verdict model_may_unregister(struct model *m, uintptr_t addr);

/* Managed memory. */
struct verdict model_may_advise(struct model *m, uintptr_t addr, size_t size);
void model_check_place(const struct model *m, struct verdict *v,
                       const aclrtMemManagedLocation *location);
void model_advise(struct model *m, uintptr_t addr, size_t size, int advice,
                  const aclrtMemManagedLocation *location);
void model_prefetch(struct model *m, uintptr_t addr, size_t size,
                    const aclrtMemManagedLocation *location);
/* What an attribute of the pages is, where they agree; -2 where they do not. */
int model_managed_attr(struct model *m, uintptr_t addr, size_t size, int attr);

/* Streams and events. */
struct model_stream *model_find_stream(struct model *m, const void *value);
/* For every call that takes a stream; NULL is the default one. */
struct verdict model_may_use_stream(struct model *m, const void *value);
/* Whose default stream it is, as far as it was asked for; -1: no default stream. */
int model_default_stream(const struct model *m, const void *value);
void **model_current_default(struct model *m);
/* The same for a stream by whatever name, and for no other. */
const void *model_stream_key(struct model *m, const void *value);
/* The device that work on it runs for. */
int model_stream_device(struct model *m, const void *value);
struct verdict model_may_destroy_stream(struct model *m, const void *value);
void model_synced(struct model *m, const void *stream);
/* A stream waits for the event's latest record. */
void model_await(struct model *m, const struct model_event *event, const void *stream);
/*
 * Records that are not known to be done, on a device or on one stream of it (by its key):
 * the latest of an event, and those that a stream waits for.  Who drops them makes those
 * fail who wait for them; a run does not.
 */
bool model_has_records(const struct model *m, int device, const void *key);
/* Perhaps something was synchronised, perhaps nothing. */
void model_perhaps_synced(struct model *m);
void model_synced_device(struct model *m, int device);
void model_end_stream(struct model *m, struct model_stream *stream);
void model_kill_streams(struct model *m, int device, const struct model_context *ctx);

struct model_event *model_find_event(struct model *m, const void *value);
struct verdict model_may_use_event(struct model *m, const void *value);

/* Pools. */
struct model_pool *model_find_pool(struct model *m, const void *value);
struct verdict model_may_use_pool(struct model *m, const void *value);
struct verdict model_may_malloc_async(struct model *m, const void *out, size_t size,
                                      const void *pool, const void *stream);
struct model_block *model_malloc_async(struct model *m, uintptr_t start, size_t size,
                                       struct model_pool *pool);
struct verdict model_may_free_async(struct model *m, uintptr_t addr, const void *stream);
void model_free_async(struct model *m, uintptr_t addr, const void *stream);
/* The most that may lie in a pool after idle memory above `keep` was given back. */
size_t model_pool_most(const struct model *m, const struct model_pool *pool, size_t keep);

/* Everything on a device dies. */
void model_empty_runtime(struct model *m, int device);

/* Peers. */
bool model_reaches(const struct model *m, int from, int to);

#endif
