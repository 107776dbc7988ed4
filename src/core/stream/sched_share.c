/*
 * Work in pieces, which workers that have nothing else to do may join.  See sched.h.
 *
 * The thread that has the work does pieces itself until none is left, and waits for the
 * pieces that workers are at.  A worker looks for ready queues between two pieces.
 */
#include <stdio.h>

#include "base/error.h"
#include "core/stream/sched.h"

static bool has_pieces(const struct am_share *share)
{
    return share->n_taken < share->n_pieces && share->rc == ACL_SUCCESS;
}

/* One piece, without the lock; why: of its failure, filled in meanwhile, or NULL. */
static void piece_do_locked(struct am_sched *sched, struct am_share *share,
                            const char *why) AM_REQUIRES(sched->lock)
{
    size_t piece = share->n_taken++;
    aclError rc;

    share->n_inside++;
    am_unlock(&sched->lock);
    rc = share->run(share, piece);
    am_lock(&sched->lock);
    share->n_inside--;
    if (rc == ACL_SUCCESS || share->rc != ACL_SUCCESS)
        return;
    share->rc = rc;
    if (why != NULL)
        snprintf(share->why, sizeof share->why, "%s", why);
}

bool am_sched_join_locked(struct am_sched *sched)
{
    const char *function = am_error_function;
    char why[sizeof((struct am_share *)NULL)->why] = "";
    struct am_capture before;
    struct am_share *share;

    TAILQ_FOREACH (share, &sched->shares, next) {
        if (has_pieces(share))
            break;
    }
    if (share == NULL)
        return false;
    am_error_function = share->function;
    before = am_error_capture(why, sizeof why);
    piece_do_locked(sched, share, why);
    am_error_capture_end(before);
    am_error_function = function;
    if (share->n_inside == 0)
        pthread_cond_signal(&share->left);
    return true;
}

aclError am_sched_share(struct am_sched *sched, struct am_share *share)
{
    am_cond_init(&share->left);
    am_lock(&sched->lock);
    if (!sched->setup.is_chaotic) {
        TAILQ_INSERT_TAIL(&sched->shares, share, next);
        for (size_t i = 1; i < share->n_pieces && i <= sched->n_threads; i++)
            am_sched_call_worker_locked(sched);
    }
    while (has_pieces(share))
        piece_do_locked(sched, share, NULL);
    if (!sched->setup.is_chaotic)
        TAILQ_REMOVE(&sched->shares, share, next);
    while (share->n_inside > 0)
        am_cond_wait_locked(&sched->lock, &share->left, AM_FOREVER);
    am_unlock(&sched->lock);
    pthread_cond_destroy(&share->left);
    if (share->rc != ACL_SUCCESS && share->why[0] != '\0')
        return am_fail(share->rc, "%s", share->why);
    return share->rc;
}
