/* The placement engine over memory that is only counted, and streams that are done up to a ticket. */
#ifndef TEST_UNIT_FIT_FIXTURE_H
#define TEST_UNIT_FIT_FIXTURE_H

#include "unit.h"

#include "fit/fit.h"
#include "fit_check.h"

#define PAGE ((uint64_t)2 << 20)
#define UNIT ((uint64_t)512)
#define N_NUMBERS 2048u /* of addresses, whose work is looked after */

struct fixture {
    struct am_fit *fit;
    uint64_t next_base;
    uint64_t n_frames;
    uint64_t n_calls; /* maps and unmaps */
    uint64_t n_mapped;
    uint64_t n_asked; /* how far streams are */
    uint64_t done[64];
    uint64_t used[N_NUMBERS]; /* the ticket of the last work on stream 0 */
    uint64_t fail_at;         /* of all calls that can fail; 0: none */
    uint64_t n_fallible;
};

extern const struct am_fit_ops fixture_ops;

/* max_pages is 0: there is no limit. */
struct fixture *fixture_make(uint64_t max_pages, bool is_aliased);
struct fixture *fixture_new(uint64_t max_pages);
void fixture_end(struct fixture *f);

/* On stream 0, without a wait. */
struct am_fit_block *take(struct fixture *f, uint64_t size);
/* On stream 0, which has got there. */
void give(struct fixture *f, struct am_fit_block *block);
/* On stream 0, which may not have got there. */
void give_queued(struct fixture *f, struct am_fit_block *block, uint64_t ticket);
struct am_fit_stats stats_of(struct fixture *f);

#endif
