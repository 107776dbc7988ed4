/*
 * The addresses of a stream-ordered pool: which are handed out, and who may have the
 * others.
 *
 * The pool is cut into ranges without gaps.  A range is live, or idle.  An idle one is
 * anybody's, or, when it was freed on a stream that may not have got there yet, that
 * stream's only: what the stream does next comes after the free anyway.  Idle neighbours
 * for the same users are one range.
 *
 * A range that a stream borrowed, and had to wait for another's free for, remembers that
 * free until it is done (`after`), and is meanwhile for nobody who does not wait, too.
 *
 * Nothing here knows of memory or takes a lock: the pool's lock covers all of it.
 */
#ifndef AM_CORE_RANGE_H
#define AM_CORE_RANGE_H

#include <bsd/sys/tree.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "core/stream/sched.h"

struct am_pool;

/*
 * One aclrtMemPoolFreeAsync: its task, the tasks that wait for it and the ranges it is
 * about refer to it.
 */
struct am_freeing {
    struct am_task task;  /* of the free in its stream; the pool's, as the next one */
    struct am_pool *pool; /* holds a reference while the task is queued */
    atomic_uint refs;
    int32_t stream;                 /* number of the stream it is queued on */
    struct am_queue *queue;         /* of that stream, while it is not done */
    uint64_t ticket;                /* grows with each free of the pool */
    atomic_bool is_done;            /* the stream has got there */
    LIST_ENTRY(am_freeing) leaving; /* the pool's list, until then */
    size_t start;                   /* of what is freed, as in a range */
    size_t size;
    struct am_waitlist waiting; /* sched.lock; other streams that were given the memory */
};

struct am_range {
    size_t start; /* bytes from the start of the pool */
    size_t size;
    size_t asked; /* live: by the program, before it was rounded up; the pool sets it */
    bool is_live;
    /* idle: only for its stream, and with a reference; or NULL */
    struct am_freeing *freeing;
    /*
     * Live or idle: besides, a free on another stream that the last user's stream was
     * made to wait for, with a reference.  An abort takes that wait away, and not the
     * work before the free.
     */
    struct am_freeing *after;
    RB_ENTRY(am_range) by_start;
    RB_ENTRY(am_range) by_size;      /* idle only */
    LIST_ENTRY(am_range) of_streams; /* idle and with freeing */
};

RB_HEAD(am_ranges_by_start, am_range);
RB_HEAD(am_ranges_by_size, am_range);

struct am_ranges {
    struct am_ranges_by_start all;
    struct am_ranges_by_size idle;
    LIST_HEAD(, am_range) of_streams; /* idle ranges that are not for all */
    size_t n_live;
    size_t live; /* bytes */
};

/* One idle range of `size` bytes: 0 or -ENOMEM. */
int am_ranges_init(struct am_ranges *ranges, size_t size);
/* Whatever is in them. */
void am_ranges_destroy(struct am_ranges *ranges);

/* The range that `at` lies in; NULL beyond the end. */
struct am_range *am_ranges_find(struct am_ranges *ranges, size_t at);

/*
 * The smallest idle range of at least `size` bytes, and the next larger one; NULL: none.
 */
struct am_range *am_ranges_fit(struct am_ranges *ranges, size_t size);
struct am_range *am_ranges_next(struct am_range *idle);
/* The range behind another; NULL: none. */
struct am_range *am_ranges_behind(struct am_range *range);

/* Whether a stream may have it, now. */
bool am_range_is_for(const struct am_range *range, int32_t stream);
/* Whether it may when it waits for the lender. */
bool am_range_is_lent_to(const struct am_range *range, int32_t stream);
/* The free to wait for, of one that was idle by `freeing` and is taken. */
struct am_freeing *am_range_lender(const struct am_range *live,
                                   struct am_freeing *freeing);
/* The stream waits for that one: it is remembered. */
void am_range_borrow(struct am_range *live, struct am_freeing *lender);
/* Work that was queued before a free may still use it. */
bool am_range_is_busy(const struct am_range *range);

/* The rest of an idle range behind its first bytes, for the same users; NULL: no memory. */
struct am_range *am_ranges_skip(struct am_ranges *ranges, struct am_range *idle,
                                size_t skip);
/* The first `size` bytes of an idle range become live: 0 or -ENOMEM. */
int am_ranges_take(struct am_ranges *ranges, struct am_range *idle, size_t size);
/* A live range becomes idle, for the stream of `freeing` (which it keeps), or for all. */
void am_ranges_give(struct am_ranges *ranges, struct am_range *live,
                    struct am_freeing *freeing);

/* What was freed on the stream, and where the stream has got there, is for all. */
void am_ranges_open(struct am_ranges *ranges, int32_t stream);
/*
 * Neighbours that one stream may have, though not all of them anybody: the first `size`
 * bytes of them become one range, for that stream.  NULL: there are none, or no memory
 * for it.
 */
struct am_range *am_ranges_gather(struct am_ranges *ranges, int32_t stream, size_t size);

struct am_freeing *am_freeing_ref(struct am_freeing *freeing);
void am_freeing_put(struct am_freeing *freeing);

#endif
