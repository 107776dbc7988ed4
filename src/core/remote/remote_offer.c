/* See remote_offer.h. */
#include "core/remote/remote_offer.h"

#include <stdlib.h>
#include <string.h>

#include "base/sys.h"

static int offer_compare(const struct am_offer *a, const struct am_offer *b)
{
    uint64_t x = a->export.ticket.number;
    uint64_t y = b->export.ticket.number;

    return (x > y) - (x < y);
}

RB_GENERATE_INTERNAL(am_offer_tree, am_offer, node, offer_compare,
                     __attribute__((unused)) static)

struct am_offer *am_offer_make(const struct am_port_message *message, int fd)
{
    struct am_offer *offer = am_sys_calloc(1, sizeof *offer);

    if (offer == NULL)
        return NULL;
    offer->export = message->export_;
    offer->fd = fd;
    return offer;
}

void am_offer_free(struct am_offer *offer)
{
    if (offer == NULL)
        return;
    free(offer->pids);
    free(offer);
}

struct am_port_message am_offer_message(const struct am_offer *offer)
{
    return (struct am_port_message){.kind = AM_PORT_EXPORT, .export_ = offer->export};
}

void am_offer_add(struct am_offer_tree *tree, struct am_offer *offer)
{
    RB_INSERT(am_offer_tree, tree, offer);
}

struct am_offer *am_offer_find(struct am_offer_tree *tree, uint64_t number)
{
    struct am_offer key = {.export.ticket.number = number};

    return RB_FIND(am_offer_tree, tree, &key);
}

struct am_offer *am_offer_after(struct am_offer_tree *tree, uint64_t number)
{
    struct am_offer key = {.export.ticket.number = number + 1};

    return number == UINT64_MAX ? NULL : RB_NFIND(am_offer_tree, tree, &key);
}

bool am_offer_trust(struct am_offer *offer, const int32_t *pids, size_t n)
{
    int32_t *list = am_sys_realloc(offer->pids, (offer->n_pids + n) * sizeof *list);

    if (list == NULL)
        return false;
    memcpy(list + offer->n_pids, pids, n * sizeof *list);
    offer->pids = list;
    offer->n_pids += n;
    return true;
}

void am_offer_remove(struct am_offer_tree *tree, uint64_t number)
{
    struct am_offer *offer = am_offer_find(tree, number);

    if (offer == NULL)
        return;
    RB_REMOVE(am_offer_tree, tree, offer);
    am_offer_free(offer);
}

void am_offer_clear(struct am_offer_tree *tree)
{
    while (!RB_EMPTY(tree))
        am_offer_remove(tree, RB_ROOT(tree)->export.ticket.number);
}
