/* See desk.h. */
#include "fabric/desk.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "acl/acl_base.h"
#include "acl/error_codes/rt_error_codes.h"

static int export_compare(const struct am_desk_export *a, const struct am_desk_export *b)
{
    return (a->ticket.number > b->ticket.number) - (a->ticket.number < b->ticket.number);
}

RB_GENERATE_INTERNAL(am_desk_tree, am_desk_export, node, export_compare,
                     __attribute__((unused)) static)

/* In a time that reveals nothing about the secret. */
static struct am_desk_export *export_find(struct am_desk *desk,
                                          const struct am_port_ticket *ticket)
{
    struct am_desk_export key = {.ticket.number = ticket->number};
    struct am_desk_export *export = RB_FIND(am_desk_tree, &desk->exports, &key);
    uint64_t differs;

    if (export == NULL)
        return NULL;
    differs = (export->ticket.secret[0] ^ ticket->secret[0]) |
              (export->ticket.secret[1] ^ ticket->secret[1]);
    return differs == 0 ? export : NULL;
}

static void export_settle(struct am_desk *desk, struct am_desk_export *export)
{
    if (!export->is_withdrawn || export->n_grants > 0)
        return;
    RB_REMOVE(am_desk_tree, &desk->exports, export);
    desk->gone(desk->arg, export);
    free(export->pids);
    free(export);
}

bool am_desk_add(struct am_desk *desk, struct am_desk_export *export)
{
    return RB_INSERT(am_desk_tree, &desk->exports, export) == NULL;
}

int am_desk_trust(struct am_desk *desk, const struct am_port_ticket *ticket,
                  const int32_t *pids, size_t n)
{
    struct am_desk_export *export = export_find(desk, ticket);
    int32_t *list;

    if (export == NULL)
        return -ENOENT;
    list = realloc(export->pids, (export->n_pids + n) * sizeof *list);
    if (list == NULL)
        return -ENOMEM;
    memcpy(list + export->n_pids, pids, n * sizeof *list);
    export->pids = list;
    export->n_pids += n;
    return 0;
}

void am_desk_withdraw(struct am_desk *desk, uint64_t number)
{
    struct am_desk_export key = {.ticket.number = number};
    struct am_desk_export *export = RB_FIND(am_desk_tree, &desk->exports, &key);

    if (export == NULL)
        return;
    export->is_withdrawn = true;
    export_settle(desk, export);
}

static bool export_admits(const struct am_desk_export *export, int32_t pid)
{
    if (export->is_withdrawn)
        return false;
    if (export->is_open)
        return true;
    for (size_t i = 0; i < export->n_pids; i++) {
        if (export->pids[i] == pid)
            return true;
    }
    return false;
}

void am_desk_answer(struct am_desk *desk, struct am_desk_guest *guest, int32_t pid,
                    const struct am_frame *import, struct am_frame *ret_grant)
{
    struct am_desk_export *export = export_find(desk, &import->import.ticket);
    struct am_desk_grant *grant;

    memset(ret_grant, 0, sizeof *ret_grant);
    ret_grant->kind = AM_FRAME_GRANT;
    ret_grant->grant.id = import->import.id;
    ret_grant->grant.status = ACL_ERROR_RT_NO_PERMISSION;
    if (export == NULL || !export_admits(export, pid))
        return;
    grant = malloc(sizeof *grant);
    if (grant == NULL) {
        ret_grant->grant.status = ACL_ERROR_BAD_ALLOC;
        return;
    }
    export->n_grants++;
    guest->n_grants++;
    guest->n_bytes += export->size;
    *grant = (struct am_desk_grant){.export = export, .number = ++guest->n_ever};
    LIST_INSERT_HEAD(&guest->grants, grant, next);
    ret_grant->grant.status = ACL_SUCCESS;
    ret_grant->grant.number = grant->number;
    ret_grant->grant.size = export->size;
    ret_grant->grant.address = export->address;
    ret_grant->grant.n_bytes = export->n_bytes;
    ret_grant->grant.n_rkey = export->n_rkey;
    memcpy(ret_grant->grant.bytes, export->bytes, export->n_bytes);
    memcpy(ret_grant->grant.rkey, export->rkey, export->n_rkey);
}

static void grant_end(struct am_desk *desk, struct am_desk_guest *guest,
                      struct am_desk_grant *grant)
{
    struct am_desk_export *export = grant->export;

    LIST_REMOVE(grant, next);
    guest->n_grants--;
    guest->n_bytes -= export->size;
    free(grant);
    export->n_grants--;
    export_settle(desk, export);
}

void am_desk_release(struct am_desk *desk, struct am_desk_guest *guest, uint64_t number)
{
    struct am_desk_grant *grant;

    LIST_FOREACH (grant, &guest->grants, next) {
        if (grant->number == number) {
            grant_end(desk, guest, grant);
            return;
        }
    }
}

void am_desk_leave(struct am_desk *desk, struct am_desk_guest *guest)
{
    while (!LIST_EMPTY(&guest->grants))
        grant_end(desk, guest, LIST_FIRST(&guest->grants));
}
