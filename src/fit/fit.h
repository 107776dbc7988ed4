/*
 * Placement: where a block of device memory goes, so that hardly a byte of the physical
 * memory held is unused.
 *
 * Addresses cost nothing, pages do.  So the engine keeps far more addresses than memory
 * and counts only pages: a page is held while a live block touches it.  A block may begin
 * in the page in which its neighbour ends.  A block of k pages and r bytes that is placed
 * beside a neighbour needs k new pages if the neighbour's last page has r bytes free, and
 * k + 1 otherwise; the engine looks up the tightest such neighbour.  Blocks below a quarter of
 * a page take the tightest hole in pages of their own.
 *
 * A page that no live block touches is idle.  It stays mapped where it is, so that a block
 * placed there again needs no call.  A placement that needs memory elsewhere takes the page
 * that has been idle longest, and a new page is created only when none is idle.  Where pages may
 * be mapped in several places, the mapping that a page leaves behind stays, and the page comes
 * back to it without a call.  Blocks use a page in one place at a time, in stream order.
 *
 *     pages created - pages destroyed = used + idle + loose
 *     held = used * page <= live + 2 * page * runs, without what lies idle
 *
 * where a run is a maximal row of live blocks without a byte between them.
 *
 * Streams: memory that was freed on a stream may be used on it again at once, since the
 * stream's later work comes after, also through another mapping of the page.  For everything
 * else - other streams, unmapping - the engine asks how far the streams are.  A use is a set of
 * streams and a ticket: all work that these streams had queued when the ticket was current.
 *
 * The engine makes no system call: pages, addresses and streams are behind an
 * operations table.  It takes no lock, reads no clock, and gives the same addresses for the
 * same calls.
 */
#ifndef AM_FIT_FIT_H
#define AM_FIT_FIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct am_fit;

/* Queued work: everything that these streams had when the ticket was current. */
struct am_fit_use {
    uint64_t streams; /* a bit for each */
    uint64_t ticket;
};

enum am_fit_action {
    AM_FIT_UNMAP, /* the page is unmapped, and its memory goes elsewhere */
    AM_FIT_REUSE, /* a block of another stream is placed there */
};

#define AM_FIT_STREAMS 64u /* as the number of a stream: one that never freed a block */

/*
 * Each returns 0 or an error of the caller's, which am_fit_alloc() and the others hand on.
 * What destroys and releases cannot fail.
 */
struct am_fit_ops {
    /* Addresses for an area: a multiple of the page, aligned to the page. */
    int (*reserve)(void *ctx, uint64_t size, uint64_t *ret_base);
    void (*release)(void *ctx, uint64_t base, uint64_t size);

    /* One page of memory; it is never destroyed while it is mapped. */
    int (*create)(void *ctx, void **ret_frame);
    void (*destroy)(void *ctx, void *frame);
    int (*map)(void *ctx, uint64_t addr, void *frame);
    int (*unmap)(void *ctx, uint64_t addr, void *frame);

    /*
     * The streams of the use that prevent an action: those with work that is not done, and
     * with AM_FIT_REUSE also those whose memory other streams may not use.
     */
    uint64_t (*pending)(void *ctx, const struct am_fit_use *use,
                        enum am_fit_action action);
};

struct am_fit_config {
    uint64_t page; /* bytes, a power of two, at least 4096 */
    uint64_t
        unit; /* blocks begin at multiples of it: a power of two, page / 4096 or more */
    uint64_t span;      /* addresses of an area, a multiple of the page */
    uint64_t max_pages; /* held at most; 0: as many as can be created */
    size_t extra;       /* bytes of the caller's own beside each block */
    uint64_t slack;     /* idle pages with queued work that are not waited for */
    uint64_t ample;  /* while fewer pages are held, new ones come before idle ones move */
    bool is_apart;   /* no block where another stream has queued work: no waits */
    bool is_aliased; /* a page may be mapped in several places, and is used in one */
};

/* A live block, or the head of an area.  Callers read addr, size and use. */
struct am_fit_block;

struct am_fit_stats {
    uint64_t live;   /* bytes in blocks, rounded to the unit */
    uint64_t n_live; /* blocks */
    uint64_t used;   /* pages that a live block touches and that have memory */
    uint64_t idle;   /* pages mapped with no live block */
    uint64_t loose;  /* pages mapped nowhere */
    uint64_t runs;
    uint64_t creates;
    uint64_t remaps;  /* pages that moved to another place, by calls */
    uint64_t returns; /* pages that moved back to a place that mapped them still */
    uint64_t aliases; /* places that map a page which is behind another place */
};

/* NULL: no memory.  `ops` and `ctx` must stay. */
struct am_fit *am_fit_create(const struct am_fit_config *config,
                             const struct am_fit_ops *ops, void *ctx);
/*
 * Unmaps and destroys all pages, live blocks or not: no stream has work on them.  A page
 * that cannot be unmapped is destroyed nevertheless.
 */
void am_fit_destroy(struct am_fit *fit);

/* Errors of the engine's own. */
enum {
    AM_FIT_NO_MEMORY = -1, /* of the host, for records */
    AM_FIT_LIMIT = -2,     /* max_pages are held */
    AM_FIT_BUSY = -3, /* idle pages have queued work: wait for *ret_wait and try again */
    AM_FIT_GROWS = -4,
};

/*
 * A block for a stream (its number, 0 to 63, or AM_FIT_STREAMS).  ret_wait: on success the streams that this one
 * has to wait for before it touches the block, an empty use mostly; with AM_FIT_BUSY what the
 * caller waits for before it tries again.  On failure nothing has changed but where idle
 * pages lie.
 */
int am_fit_alloc(struct am_fit *fit, uint64_t size, unsigned stream,
                 struct am_fit_block **ret_block, struct am_fit_use *ret_wait);
/*
 * The same for a small block in a page in which others live, where nothing has to be waited for: no
 * operation is called.  NULL, and no change: there is no such place.
 */
struct am_fit_block *am_fit_alloc_small(struct am_fit *fit, uint64_t size,
                                        unsigned stream);
/*
 * The same without a page that is moved or made, or AM_FIT_GROWS and no change at all.  Idle pages
 * are taken only while there are many.
 */
int am_fit_alloc_ready(struct am_fit *fit, uint64_t size, unsigned stream,
                       struct am_fit_block **ret_block, struct am_fit_use *ret_wait);
/* `use`: the work that may still touch the block.  Cannot fail. */
void am_fit_free(struct am_fit *fit, struct am_fit_block *block, struct am_fit_use use);

uint64_t am_fit_addr(const struct am_fit_block *block);
uint64_t am_fit_size(const struct am_fit_block *block);
/* The caller's own bytes: what the last user of the record left, zero at first. */
void *am_fit_extra(struct am_fit_block *block);
/* The blocks in the order of their areas and addresses; NULL: the first.  NULL: no more. */
struct am_fit_block *am_fit_next(struct am_fit *fit, struct am_fit_block *block);

/*
 * Destroys idle pages, those idle longest first, until at most `keep` are left.  Pages with
 * queued work stay; *ret_wait is then what the first of them waits for.  0 or an unmap's error.
 */
int am_fit_trim(struct am_fit *fit, uint64_t keep, struct am_fit_use *ret_wait);

/*
 * Takes the memory from behind a block; its address stays.  Pages that an awake block
 * touches too keep theirs.  The caller has made sure that no stream uses the block.  AM_FIT_BUSY:
 * pages in which freed blocks have queued work keep theirs too, until a call after *ret_wait.
 */
int am_fit_sleep(struct am_fit *fit, struct am_fit_block *block,
                 struct am_fit_use *ret_wait);
/* On failure the block is asleep, and a later call goes on. */
int am_fit_wake(struct am_fit *fit, struct am_fit_block *block,
                struct am_fit_use *ret_wait);
bool am_fit_is_asleep(const struct am_fit_block *block);

/* The largest block that fits for certain if n_pages more can be created. */
uint64_t am_fit_largest(struct am_fit *fit, uint64_t n_pages);

/* Of the config. */
void am_fit_set_limits(struct am_fit *fit, uint64_t max_pages, uint64_t slack,
                       uint64_t ample);
void am_fit_set_apart(struct am_fit *fit, bool is_apart);
void am_fit_get_stats(const struct am_fit *fit, struct am_fit_stats *ret_stats);
/* Pages: used, idle and loose. */
uint64_t am_fit_held(const struct am_fit *fit);
#endif
