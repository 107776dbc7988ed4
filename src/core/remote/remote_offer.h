/*
 * The exports of this process as the fabric process was told of them, for a fabric process
 * that is started again.  The caller has the lock of remote_state.h.
 */
#ifndef AM_CORE_REMOTE_OFFER_H
#define AM_CORE_REMOTE_OFFER_H

#include <bsd/sys/tree.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fabric/port.h"

struct am_offer {
    RB_ENTRY(am_offer) node;
    struct am_port_export export;
    int fd;        /* the memory's own, which is open until the export is withdrawn */
    int32_t *pids; /* n_pids */
    size_t n_pids;
};

RB_HEAD(am_offer_tree, am_offer);

/* Of the message of an export; NULL: there is no memory.  It is not in a tree yet. */
struct am_offer *am_offer_make(const struct am_port_message *message, int fd);
void am_offer_free(struct am_offer *offer);
/* That message again. */
struct am_port_message am_offer_message(const struct am_offer *offer);

void am_offer_add(struct am_offer_tree *tree, struct am_offer *offer);
/* NULL: there is none of the number. */
struct am_offer *am_offer_find(struct am_offer_tree *tree, uint64_t number);
/* The first one with a larger number; NULL: there is none. */
struct am_offer *am_offer_after(struct am_offer_tree *tree, uint64_t number);
/* False: there is no memory for the list. */
bool am_offer_trust(struct am_offer *offer, const int32_t *pids, size_t n);
void am_offer_remove(struct am_offer_tree *tree, uint64_t number);
void am_offer_clear(struct am_offer_tree *tree);

#endif
