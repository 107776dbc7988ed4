/* See exchange_table.h. */
#include "core/exchange/exchange_table.h"

#include <bsd/sys/tree.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "acl/error_codes/rt_error_codes.h"
#include "base/clock.h"
#include "base/descriptor.h"
#include "base/error.h"
#include "base/fdpass.h"
#include "base/lock.h"
#include "base/random.h"
#include "base/sys.h"

#define RANDOM_BITS 40

/* A process that some offer lists. */
struct trusted {
    LIST_ENTRY(trusted) all;
    struct am_process process;
    size_t refs; /* offers that list it, and calls under way */
};

struct offer {
    RB_ENTRY(offer) node;
    struct am_ticket ticket;
    enum am_share_kind kind;
    bool is_open;
    int fd;
    struct trusted **list; /* n_list */
    size_t n_list;
    uint32_t size;
    uint8_t bytes[AM_WIRE_BYTES];
};

static int offer_compare(const struct offer *a, const struct offer *b)
{
    return (a->ticket.number > b->ticket.number) - (a->ticket.number < b->ticket.number);
}

RB_HEAD(offer_tree, offer);
RB_GENERATE_INTERNAL(offer_tree, offer, node, offer_compare,
                     __attribute__((unused)) static)

static struct {
    struct am_lock lock;
    struct offer_tree tree; /* lock, as the next one */
    LIST_HEAD(, trusted) trusted;
} offers = {.lock = AM_LOCK_INIT(AM_RANK_SHARE, "offers")};

static struct offer *offer_find_locked(enum am_share_kind kind, uint64_t number)
    AM_REQUIRES(offers.lock)
{
    struct offer key = {.ticket.number = number};
    struct offer *offer = RB_FIND(offer_tree, &offers.tree, &key);

    return offer != NULL && offer->kind == kind ? offer : NULL;
}

/* The offer of a ticket that somebody shows.  How long it takes tells nothing of a secret. */
static struct offer *offer_show_locked(enum am_share_kind kind,
                                       const struct am_ticket *ticket)
    AM_REQUIRES(offers.lock)
{
    struct offer *offer = offer_find_locked(kind, ticket->number);
    uint64_t differs;

    if (offer == NULL)
        return NULL;
    differs = (offer->ticket.secret[0] ^ ticket->secret[0]) |
              (offer->ticket.secret[1] ^ ticket->secret[1]);
    return differs == 0 ? offer : NULL;
}

/* ---- listed processes ---- */

static void trusted_put_locked(struct trusted *trusted) AM_REQUIRES(offers.lock)
{
    if (--trusted->refs > 0)
        return;
    LIST_REMOVE(trusted, all);
    am_process_close(&trusted->process);
    free(trusted);
}

/* The entry of the process that has the id now: 0 or -errno. */
static int trusted_get_locked(int32_t id, struct trusted **ret_trusted)
    AM_REQUIRES(offers.lock)
{
    struct am_process process;
    struct trusted *trusted;
    int rc = am_process_find(id, &process);

    if (rc == -EMFILE && am_descriptor_raise_limit())
        rc = am_process_find(id, &process);
    if (rc != 0)
        return rc;
    LIST_FOREACH (trusted, &offers.trusted, all) {
        if (trusted->process.pid == process.pid &&
            am_process_is_alive(&trusted->process)) {
            am_process_close(&process);
            trusted->refs++;
            *ret_trusted = trusted;
            return 0;
        }
    }
    trusted = am_sys_calloc(1, sizeof *trusted);
    if (trusted == NULL) {
        am_process_close(&process);
        return -ENOMEM;
    }
    if (process.pidfd >= 0)
        process.pidfd = am_fd_move_up(process.pidfd);
    trusted->process = process;
    trusted->refs = 1;
    LIST_INSERT_HEAD(&offers.trusted, trusted, all);
    *ret_trusted = trusted;
    return 0;
}

static bool offer_lists(const struct offer *offer, const struct trusted *trusted)
{
    for (size_t i = 0; i < offer->n_list; i++) {
        if (offer->list[i] == trusted)
            return true;
    }
    return false;
}

/* All or none: 0, or -errno and in *ret_bad which one it is about. */
static int trust_locked(struct offer *offer, const int32_t *ids, size_t n,
                        size_t *ret_bad) AM_REQUIRES(offers.lock)
{
    struct trusted **list;
    size_t n_list = offer->n_list;
    int rc = 0;

    *ret_bad = 0;
    if (n > SIZE_MAX / sizeof *list - n_list)
        return -ENOMEM;
    list = am_sys_realloc(offer->list, (n_list + n) * sizeof *list);
    if (list == NULL)
        return -ENOMEM;
    offer->list = list;
    for (size_t i = 0; i < n; i++) {
        struct trusted *trusted;

        rc = trusted_get_locked(ids[i], &trusted);
        if (rc != 0) {
            *ret_bad = i;
            break;
        }
        if (offer_lists(offer, trusted))
            trusted_put_locked(trusted);
        else
            list[offer->n_list++] = trusted;
    }
    while (rc != 0 && offer->n_list > n_list)
        trusted_put_locked(list[--offer->n_list]);
    return rc;
}

aclError am_exchange_trust(enum am_share_kind kind, const struct am_ticket *ticket,
                           const int32_t *ids, size_t n)
{
    struct offer *offer;
    size_t bad = 0;
    int rc = -ENOENT;

    am_lock(&offers.lock);
    offer = offer_show_locked(kind, ticket);
    if (offer != NULL)
        rc = trust_locked(offer, ids, n, &bad);
    am_unlock(&offers.lock);

    AM_REQUIRE(offer != NULL, ACL_ERROR_RT_PARAM_INVALID,
               "this process does not export 0x%016" PRIx64
               "; only the exporting one says who may import",
               ticket->number);
    AM_REQUIRE(rc != -ESRCH, ACL_ERROR_RT_PARAM_INVALID,
               "pid[%zu] is %d, and there is no such process; pass what "
               "aclrtDeviceGetBareTgid gives in the importing process, while it lives",
               bad, ids[bad]);
    AM_REQUIRE(rc != -ENOMEM, ACL_ERROR_BAD_ALLOC,
               "no memory for a list of %zu processes", n);
    AM_REQUIRE(rc == 0, ACL_ERROR_RT_RESOURCE_ALLOC_FAIL,
               "pid[%zu] is %d, which cannot be looked at: %s%s", bad, ids[bad],
               strerror(-rc),
               rc == -EMFILE ? "; raise the limit with ulimit -n or LimitNOFILE=" : "");
    return ACL_SUCCESS;
}

/* ---- offers ---- */

/* A number that no offer has, and a secret where there is room for one: 0 or -errno. */
static int ticket_draw_locked(uint32_t name, bool has_secret,
                              struct am_ticket *ret_ticket) AM_REQUIRES(offers.lock)
{
    struct offer key;

    do {
        struct am_ticket random;
        int rc = am_random(&random, sizeof random);

        if (rc != 0)
            return rc;
        key.ticket = (struct am_ticket){
            (uint64_t)name << RANDOM_BITS | random.number >> (64 - RANDOM_BITS), {0}};
        if (has_secret)
            memcpy(key.ticket.secret, random.secret, sizeof random.secret);
    } while (key.ticket.number == 0 || RB_FIND(offer_tree, &offers.tree, &key) != NULL);
    *ret_ticket = key.ticket;
    return 0;
}

aclError am_offers_add(uint32_t name, enum am_share_kind kind, bool is_open, int fd,
                       const void *bytes, size_t size, struct am_ticket *ret_ticket)
{
    struct offer *offer = am_sys_calloc(1, sizeof *offer);
    int rc;

    am_assert(size <= sizeof offer->bytes);
    if (offer == NULL)
        return am_fail(ACL_ERROR_BAD_ALLOC, "no memory for the books of an export");
    offer->kind = kind;
    offer->is_open = is_open;
    offer->fd = fd;
    offer->size = (uint32_t)size;
    if (size > 0) /* an offer may be its descriptor alone, with NULL for bytes */
        memcpy(offer->bytes, bytes, size);
    am_lock(&offers.lock);
    rc = ticket_draw_locked(name, kind != AM_SHARE_MEMORY, &offer->ticket);
    if (rc == 0) {
        *ret_ticket = offer->ticket;
        RB_INSERT(offer_tree, &offers.tree, offer);
    }
    am_unlock(&offers.lock);
    if (rc != 0) {
        free(offer);
        return am_fail(ACL_ERROR_RT_RESOURCE_ALLOC_FAIL,
                       "nothing can be shared: the system gives no random numbers: %s",
                       strerror(-rc));
    }
    return ACL_SUCCESS;
}

static void offer_destroy_locked(struct offer *offer) AM_REQUIRES(offers.lock)
{
    RB_REMOVE(offer_tree, &offers.tree, offer);
    for (size_t i = 0; i < offer->n_list; i++)
        trusted_put_locked(offer->list[i]);
    free(offer->list);
    free(offer);
}

void am_exchange_withdraw(uint64_t number)
{
    struct offer key = {.ticket.number = number};
    struct offer *offer;

    am_lock(&offers.lock);
    offer = RB_FIND(offer_tree, &offers.tree, &key);
    if (offer != NULL)
        offer_destroy_locked(offer);
    am_unlock(&offers.lock);
}

void am_offers_clear(void)
{
    struct offer *offer;

    am_lock(&offers.lock);
    while ((offer = RB_ROOT(&offers.tree)) != NULL)
        offer_destroy_locked(offer);
    am_unlock(&offers.lock);
}

bool am_exchange_find(enum am_share_kind kind, uint64_t number,
                      struct am_ticket *ret_ticket)
{
    struct offer *offer;

    am_lock(&offers.lock);
    offer = offer_find_locked(kind, number);
    if (offer != NULL)
        *ret_ticket = offer->ticket;
    am_unlock(&offers.lock);
    return offer != NULL;
}

bool am_exchange_is_own(enum am_share_kind kind, const struct am_ticket *ticket)
{
    bool is_own;

    am_lock(&offers.lock);
    is_own = offer_show_locked(kind, ticket) != NULL;
    am_unlock(&offers.lock);
    return is_own;
}

int am_offers_take(enum am_share_kind kind, const struct am_ticket *ticket,
                   struct am_parcel *ret_parcel)
{
    struct offer *offer;
    int rc = -ENOENT;

    am_lock(&offers.lock);
    offer = offer_show_locked(kind, ticket);
    if (offer != NULL) {
        int fd = am_sys_fcntl(offer->fd, F_DUPFD_CLOEXEC, 0);

        rc = fd < 0 ? -errno : 0;
        if (rc == 0) {
            *ret_parcel = (struct am_parcel){
                .fd = fd,
                .size = offer->size,
                .exporter = (int32_t)getpid(),
            };
            memcpy(ret_parcel->bytes, offer->bytes, offer->size);
        }
    }
    am_unlock(&offers.lock);
    return rc;
}

/*
 * Whether the asker is on the list.  Both processes live and have one id, the asker at a
 * moment when the listed one did: so they are the same.
 */
static bool offer_admits_locked(const struct offer *offer, const struct am_asker *asker)
    AM_REQUIRES(offers.lock)
{
    if (offer->is_open)
        return true;
    for (size_t i = 0; i < offer->n_list; i++) {
        const struct am_process *listed = &offer->list[i]->process;

        if (listed->pid == asker->process.pid && am_process_is_alive(&asker->process) &&
            am_process_is_alive(listed))
            return true;
    }
    return false;
}

/* Says no, and closes the connection if it has to be. */
static int refuse(int socket, enum am_wire_status status, enum am_share_kind kind)
{
    struct am_wire_reply reply = am_wire_reply(status, kind, NULL, 0);
    int rc = am_fdpass_send(socket, &reply, sizeof reply, -1);

    return status == AM_WIRE_TOO_MANY ? -EACCES : rc;
}

int am_offers_answer(const struct am_wire_request *request, const struct am_asker *asker,
                     struct am_guesses *guesses, int socket)
{
    bool is_other = asker->uid != geteuid();
    enum am_share_kind kind = request->kind;
    struct am_wire_reply reply;
    struct offer *offer;
    int rc = 0;

    if (is_other && guesses == NULL)
        return refuse(socket, AM_WIRE_OTHER_USER, kind);
    if (is_other && !am_guess_may(guesses, asker->uid, am_clock()))
        return refuse(socket, AM_WIRE_TOO_MANY, kind);
    /* Under the lock, so that the descriptor is not closed meanwhile; it never waits. */
    am_lock(&offers.lock);
    offer = offer_show_locked(kind, &request->ticket);
    if (offer != NULL && !offer_admits_locked(offer, asker))
        offer = NULL; /* which looks as if there were none */
    if (offer != NULL) {
        reply = am_wire_reply(AM_WIRE_GRANTED, kind, offer->bytes, offer->size);
        rc = am_fdpass_send(socket, &reply, sizeof reply, offer->fd);
    }
    am_unlock(&offers.lock);
    if (offer != NULL)
        return rc;
    if (is_other)
        am_guess_was_wrong(guesses, asker->uid, am_clock());
    return refuse(socket, AM_WIRE_REFUSED, kind);
}
