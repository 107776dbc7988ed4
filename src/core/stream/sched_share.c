/*
 * Work in pieces, which idle workers join.  See sched.h.
 *
 * The thread that has the work executes pieces until none is left, and waits for the pieces
 * that workers execute.  A worker checks for ready queues between two pieces.
 */
#include <stdio.h>

#include "base/error.h"
#include "core/stream/cond.h"
#include "core/stream/sched.h"

static bool has_pieces(const struct am_share *share)
{
    return share->n_begun < share->n_pieces && share->rc == ACL_SUCCESS;
}

/* One piece, without the lock; why: filled with the message of a failure, or NULL. */
static void piece_run_locked(struct am_sched *sched, struct am_share *share,
                             const char *why) AM_REQUIRES(sched->lock)
{
    size_t piece = share->n_begun++;
    aclError rc;

    share->n_running++;
    am_unlock(&sched->lock);
    rc = share->run(share, piece);
    am_lock(&sched->lock);
    share->n_running--;
    if (rc == ACL_SUCCESS || share->rc != ACL_SUCCESS)
        return;
    share->rc = rc;
    if (why != NULL)
        snprintf(share->why, sizeof share->why, "%s", why);
}

struct am_share *am_sched_share_find_locked(struct am_sched *sched)
{
    struct am_share *share;

    TAILQ_FOREACH (share, &sched->shares, next) {
        if (has_pieces(share))
            break;
    }
    return share;
}

bool am_sched_join(struct am_sched *sched)
{
    const char *function = am_error_function;
    char why[sizeof((struct am_share *)NULL)->why] = "";
    struct am_capture before;
    struct am_share *share;

    am_lock(&sched->lock);
    share = am_sched_share_find_locked(sched);
    if (share != NULL) {
        am_error_function = share->function;
        before = am_error_capture(why, sizeof why);
        piece_run_locked(sched, share, why);
        am_error_capture_end(before);
        am_error_function = function;
        if (share->n_running == 0)
            pthread_cond_signal(&share->ended);
    }
    am_unlock(&sched->lock);
    return share != NULL;
}

aclError am_sched_share(struct am_sched *sched, struct am_share *share)
{
    am_cond_init(&share->ended);
    am_lock(&sched->lock);
    if (!sched->setup.is_chaotic) {
        TAILQ_INSERT_TAIL(&sched->shares, share, next);
        for (size_t i = 1; i < share->n_pieces && i <= sched->n_threads; i++)
            am_sched_call_worker_locked(sched);
    }
    while (has_pieces(share))
        piece_run_locked(sched, share, NULL);
    if (!sched->setup.is_chaotic)
        TAILQ_REMOVE(&sched->shares, share, next);
    while (share->n_running > 0)
        am_cond_wait_locked(&sched->lock, &share->ended, AM_FOREVER);
    am_unlock(&sched->lock);
    pthread_cond_destroy(&share->ended);
    if (share->rc != ACL_SUCCESS && share->why[0] != '\0')
        return am_fail(share->rc, "%s", share->why);
    return share->rc;
}
