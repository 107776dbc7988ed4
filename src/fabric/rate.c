/* See rate.h. */
#include "fabric/rate.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

#define PIECES 4 /* in progress at a time */
#define PIECE_SIZE ((uint64_t)1 << 18)
#define MOVES_MAX 256 /* of one direction */
#define TIME_MAX (AM_SECOND / 2)
#define POLL_MS 10

struct run {
    struct am_ucx ucx;
    struct am_ucx_endpoint endpoint;
    uint64_t grant;
    uint8_t *bytes;
    struct am_ucx_move moves[PIECES];
    struct am_message heads[PIECES][PIECE_SIZE / AM_MESSAGE_MAX + 1];
    bool is_busy[PIECES];
    bool has_failed;
    unsigned n_done;
};

static struct run run; /* callbacks of UCX find it here */

static void move_done(struct am_ucx_move *move)
{
    run.is_busy[move - run.moves] = false;
    run.has_failed |= move->has_failed;
    run.n_done++;
}

static void broken(void *arg)
{
    run.has_failed = true;
}

static void move_begin(unsigned i, bool is_put)
{
    struct am_ucx_range range = {
        .grant = run.grant,
        .offset = i * PIECE_SIZE,
        .bytes = run.bytes + i * PIECE_SIZE,
        .size = PIECE_SIZE,
    };

    run.is_busy[i] = true;
    run.moves[i].done = move_done;
    if (is_put)
        am_ucx_put(&run.ucx, &run.endpoint, &range, run.heads[i], &run.moves[i]);
    else
        am_ucx_get(&run.ucx, &run.endpoint, &range, run.heads[i], &run.moves[i]);
}

static void progress(void)
{
    struct pollfd p[] = {{.fd = run.ucx.fd, .events = POLLIN},
                         {.fd = run.ucx.out_fd, .events = POLLIN}};

    unsigned before = run.n_done;

    run.ucx.is_idle = run.ucx.is_out_idle = false;
    /* A move that ended makes room for the next one, so there is no reason to sleep. */
    if (am_ucx_progress(&run.ucx) && run.n_done == before)
        poll(p, 2, POLL_MS);
}

/* At most n moves of one direction, for a while: how many bytes a second; 0: it failed. */
static double direction_run(const struct am_rate_spec *spec, bool is_put, unsigned n)
{
    uint64_t begun = am_clock();
    unsigned n_begun = 0;

    run.n_done = 0;
    do {
        uint64_t passed = am_clock() - begun;

        for (unsigned i = 0; i < PIECES; i++) {
            if (!run.is_busy[i] && n_begun < n && passed < TIME_MAX) {
                n_begun++;
                move_begin(i, is_put);
            }
        }
        progress();
        if (run.has_failed || passed > TIME_MAX + spec->timeout_ns ||
            !spec->keep(spec->arg))
            return 0;
    } while (run.n_done < n_begun);
    return (double)n_begun * (double)PIECE_SIZE * 1e9 / (double)(am_clock() - begun);
}

int am_rate_measure(const struct am_rate_spec *spec, struct am_rate *ret_rate, char *why)
{
    run.bytes = calloc(PIECES, PIECE_SIZE);
    if (run.bytes == NULL || spec->grant->grant.size < PIECES * PIECE_SIZE) {
        snprintf(why, AM_UCX_WHY, "there is no memory to measure with");
        return -1;
    }
    run.grant = spec->grant->grant.number;
    if (am_ucx_open(&run.ucx, spec->device, why) != 0 ||
        am_ucx_open_out(&run.ucx, why) != 0 ||
        am_ucx_connect(&run.ucx, &run.endpoint, spec->worker->worker.address,
                       spec->session, broken, NULL, why) != 0)
        return -1;
    snprintf(why, AM_UCX_WHY, "its data port cannot be reached, or it ended");
    if (direction_run(spec, false, 1) == 0) /* UCX connects */
        return -1;
    ret_rate->put = direction_run(spec, true, MOVES_MAX);
    ret_rate->get = direction_run(spec, false, MOVES_MAX);
    return ret_rate->put > 0 && ret_rate->get > 0 ? 0 : -1;
}
