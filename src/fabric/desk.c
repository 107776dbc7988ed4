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

static int grant_compare(const struct am_desk_grant *a, const struct am_desk_grant *b)
{
    return (a->number > b->number) - (a->number < b->number);
}

static int guest_compare(const struct am_desk_guest *a, const struct am_desk_guest *b)
{
    return memcmp(a->who.instance, b->who.instance, sizeof a->who.instance);
}

static int pass_compare(const struct am_desk_guest *a, const struct am_desk_guest *b)
{
    return memcmp(a->pass, b->pass, sizeof a->pass);
}

RB_GENERATE_INTERNAL(am_desk_tree, am_desk_export, node, export_compare,
                     __attribute__((unused)) static)
RB_GENERATE_INTERNAL(am_desk_grants, am_desk_grant, node, grant_compare,
                     __attribute__((unused)) static)
RB_GENERATE_INTERNAL(am_desk_guests, am_desk_guest, node, guest_compare,
                     __attribute__((unused)) static)
RB_GENERATE_INTERNAL(am_desk_passes, am_desk_guest, node, pass_compare,
                     __attribute__((unused)) static)

void am_desk_init(struct am_desk *desk, uint64_t lease_ns,
                  void (*gone)(void *arg, struct am_desk_export *export), void *arg)
{
    *desk = (struct am_desk){.lease_ns = lease_ns, .gone = gone, .arg = arg};
    TAILQ_INIT(&desk->leases);
}

/* ---- exports ---- */

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

/* ---- grants ---- */

static void grant_end(struct am_desk *desk, struct am_desk_guest *guest,
                      struct am_desk_grant *grant)
{
    struct am_desk_export *export = grant->export;

    RB_REMOVE(am_desk_grants, &guest->grants, grant);
    guest->n_grants--;
    guest->n_bytes -= export->size;
    free(grant);
    export->n_grants--;
    export_settle(desk, export);
}

static void grants_end(struct am_desk *desk, struct am_desk_guest *guest)
{
    struct am_desk_grant *grant;

    while ((grant = RB_MIN(am_desk_grants, &guest->grants)) != NULL)
        grant_end(desk, guest, grant);
}

void am_desk_answer(struct am_desk *desk, struct am_desk_guest *guest,
                    const struct am_frame *import, struct am_frame *ret_grant)
{
    struct am_desk_export *export;
    struct am_desk_grant *grant;

    if (guest->is_returning)
        grants_end(desk, guest);
    guest->is_returning = false;
    export = export_find(desk, &import->import.ticket);
    memset(ret_grant, 0, sizeof *ret_grant);
    ret_grant->kind = AM_FRAME_GRANT;
    ret_grant->grant.id = import->import.id;
    ret_grant->grant.status = ACL_ERROR_RT_NO_PERMISSION;
    if (export == NULL || !export_admits(export, guest->who.pid))
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
    RB_INSERT(am_desk_grants, &guest->grants, grant);
    ret_grant->grant.status = ACL_SUCCESS;
    ret_grant->grant.number = grant->number;
    ret_grant->grant.size = export->size;
    ret_grant->grant.address = export->address;
    ret_grant->grant.n_bytes = export->n_bytes;
    ret_grant->grant.n_rkey = export->n_rkey;
    memcpy(ret_grant->grant.bytes, export->bytes, export->n_bytes);
    memcpy(ret_grant->grant.rkey, export->rkey, export->n_rkey);
}

void am_desk_release(struct am_desk *desk, struct am_desk_guest *guest, uint64_t number)
{
    struct am_desk_grant key = {.number = number};
    struct am_desk_grant *grant = RB_FIND(am_desk_grants, &guest->grants, &key);

    if (grant != NULL)
        grant_end(desk, guest, grant);
}

/* ---- parcels ---- */

/* Where the bytes of a parcel belong; NULL: the guest may not write there. */
static uint8_t *parcel_place(struct am_desk_guest *guest, const struct am_parcel *parcel,
                             size_t size)
{
    struct am_desk_grant key = {.number = parcel->grant};
    struct am_desk_grant *grant = RB_FIND(am_desk_grants, &guest->grants, &key);

    if (grant == NULL || guest->is_returning || size > grant->export->size ||
        parcel->offset > grant->export->size - size)
        return NULL;
    return (uint8_t *)(uintptr_t)grant->export->address + parcel->offset;
}

enum am_desk_parcel am_desk_put(struct am_desk *desk, const void *head, size_t head_size,
                                const void *bytes, size_t size,
                                struct am_desk_guest **ret_guest,
                                struct am_parcel_word *ret_word)
{
    struct am_desk_guest key, *guest = NULL;
    struct am_parcel parcel;
    uint8_t *to;

    if (head_size == sizeof parcel) {
        memcpy(&parcel, head, sizeof parcel);
        memcpy(key.pass, parcel.pass, sizeof key.pass);
        guest = RB_FIND(am_desk_passes, &desk->here, &key);
    }
    *ret_guest = guest;
    if (guest == NULL)
        return AM_DESK_STRANGE;
    to = parcel_place(guest, &parcel, size);
    if (to == NULL)
        return AM_DESK_WRONG;
    if (size > 0)
        memcpy(to, bytes, size);
    guest->n_parcels++;
    if (parcel.asks != 0 && parcel.number > guest->asked)
        guest->asked = parcel.number;
    if (guest->asked == 0 || guest->n_parcels < guest->asked)
        return AM_DESK_TAKEN;
    guest->asked = 0;
    memcpy(ret_word->pass, guest->pass, sizeof ret_word->pass);
    ret_word->number = guest->n_parcels;
    return AM_DESK_ASKED;
}

/* ---- guests ---- */

static void away_remove(struct am_desk *desk, struct am_desk_guest *guest)
{
    RB_REMOVE(am_desk_guests, &desk->away, guest);
    TAILQ_REMOVE(&desk->leases, guest, next);
    desk->n_away--;
}

static struct am_desk_guest *away_find(struct am_desk *desk,
                                       const struct am_frame_who *who)
{
    struct am_desk_guest key = {.who = *who};

    return RB_FIND(am_desk_guests, &desk->away, &key);
}

struct am_desk_guest *am_desk_enter(struct am_desk *desk, const struct am_frame_who *who,
                                    const uint8_t *pass)
{
    struct am_desk_guest *guest = away_find(desk, who);

    if (guest != NULL) {
        away_remove(desk, guest);
        guest->is_returning = true;
    } else {
        guest = calloc(1, sizeof *guest);
        if (guest == NULL)
            return NULL;
        guest->who = *who;
    }
    memcpy(guest->pass, pass, sizeof guest->pass);
    guest->n_parcels = guest->asked = 0;
    RB_INSERT(am_desk_passes, &desk->here, guest);
    return guest;
}

static void guest_end(struct am_desk *desk, struct am_desk_guest *guest)
{
    grants_end(desk, guest);
    free(guest);
}

void am_desk_leave(struct am_desk *desk, struct am_desk_guest *guest)
{
    RB_REMOVE(am_desk_passes, &desk->here, guest);
    guest_end(desk, guest);
}

void am_desk_park(struct am_desk *desk, struct am_desk_guest *guest, uint64_t now)
{
    struct am_desk_guest *other = away_find(desk, &guest->who);

    if (guest->n_grants == 0) {
        am_desk_leave(desk, guest);
        return;
    }
    RB_REMOVE(am_desk_passes, &desk->here, guest);
    /* No honest process has two connections: the older one is not known to it any more. */
    if (other != NULL) {
        away_remove(desk, other);
        guest_end(desk, other);
    }
    guest->until = now + desk->lease_ns;
    RB_INSERT(am_desk_guests, &desk->away, guest);
    TAILQ_INSERT_TAIL(&desk->leases, guest, next);
    desk->n_away++;
}

size_t am_desk_expire(struct am_desk *desk, uint64_t now)
{
    struct am_desk_guest *guest;
    size_t n = 0;

    for (; (guest = TAILQ_FIRST(&desk->leases)) != NULL && guest->until <= now; n++) {
        away_remove(desk, guest);
        guest_end(desk, guest);
    }
    return n;
}

void am_desk_return(struct am_desk_guest *guest, const struct am_frame *back,
                    struct am_frame *ret_answer)
{
    guest->is_returning = false;
    memset(ret_answer, 0, sizeof *ret_answer);
    ret_answer->kind = AM_FRAME_BACK;
    ret_answer->back.n_grants = guest->n_grants;
    ret_answer->back.is_known = guest->n_grants == back->back.n_grants;
}
