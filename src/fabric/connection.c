/* See connection.h. */
#include "fabric/connection.h"

#include "base/util.h"

/* ---- slots ---- */

void am_conn_slots_init(struct am_conn_slots *slots, size_t limit)
{
    *slots = (struct am_conn_slots){.limit = limit > 0 ? limit : 1};
    TAILQ_INIT(&slots->order);
}

struct am_conn_slot *am_conn_slots_lru(const struct am_conn_slots *slots)
{
    return TAILQ_FIRST(&slots->order);
}

void am_conn_slot_acquire(struct am_conn_slot *slot, struct am_conn_slots *slots,
                          uint64_t now)
{
    *slot = (struct am_conn_slot){.list = slots, .used = now};
    TAILQ_INSERT_TAIL(&slots->order, slot, next);
    slots->n++;
}

void am_conn_slot_release(struct am_conn_slot *slot)
{
    struct am_conn_slots *slots = slot->list;

    if (slots == NULL)
        return;
    if (slot->is_draining)
        slots->n_draining--;
    else
        TAILQ_REMOVE(&slots->order, slot, next);
    slots->n--;
    *slot = (struct am_conn_slot){0};
}

void am_conn_slot_touch(struct am_conn_slot *slot, uint64_t now)
{
    slot->used = now;
    if (slot->list == NULL || slot->is_draining)
        return;
    TAILQ_REMOVE(&slot->list->order, slot, next);
    TAILQ_INSERT_TAIL(&slot->list->order, slot, next);
}

void am_conn_slot_drain(struct am_conn_slot *slot)
{
    if (slot->list == NULL || slot->is_draining)
        return;
    TAILQ_REMOVE(&slot->list->order, slot, next);
    slot->is_draining = true;
    slot->list->n_draining++;
}

/*
 * A stranger delays others for AM_HANDSHAKE_MIN_NS only, and many honest processes that
 * connect at the same time do not evict each other.
 */
enum am_admission am_conn_admission(const struct am_conn_slots *handshakes,
                                    const struct am_conn_slots *importers, uint64_t now)
{
    if (importers->n >= importers->limit + AM_DRAINING_MAX)
        return AM_ADMISSION_PAUSED;
    if (handshakes->n - handshakes->n_draining < AM_HANDSHAKES_MAX)
        return AM_ADMISSION_OPEN;
    return now - am_conn_slots_lru(handshakes)->used >= AM_HANDSHAKE_MIN_NS
               ? AM_ADMISSION_EVICT
               : AM_ADMISSION_PAUSED;
}

/* ---- importer connections ---- */

static int conn_compare(const struct am_conn *a, const struct am_conn *b)
{
    if (a->due != b->due)
        return a->due < b->due ? -1 : 1;
    return (a->number > b->number) - (a->number < b->number);
}

RB_GENERATE_INTERNAL(am_conn_tree, am_conn, node, conn_compare,
                     __attribute__((unused)) static)

void am_conns_init(struct am_conns *conns, size_t limit, uint64_t idle_ns, uint64_t seed)
{
    *conns = (struct am_conns){.idle_ns = idle_ns, .random = seed | 1};
    am_conn_slots_init(&conns->slots, limit);
    TAILQ_INIT(&conns->waiting);
    TAILQ_INIT(&conns->draining);
    RB_INIT(&conns->closed);
}

static void conn_close(struct am_conn *conn, uint64_t due)
{
    am_conn_slot_release(&conn->slot);
    conn->state = AM_CONN_CLOSED;
    conn->due = due;
    RB_INSERT(am_conn_tree, &conn->set->closed, conn);
}

void am_conns_add(struct am_conns *conns, struct am_conn *conn)
{
    *conn = (struct am_conn){.set = conns, .number = conns->n_ever++};
    conn_close(conn, AM_CONN_NEVER);
}

static void conn_wait(struct am_conn *conn)
{
    RB_REMOVE(am_conn_tree, &conn->set->closed, conn);
    conn->state = AM_CONN_WAITING;
    TAILQ_INSERT_TAIL(&conn->set->waiting, conn, next);
    conn->set->n_waiting++;
}

static void waiting_remove(struct am_conn *conn)
{
    TAILQ_REMOVE(&conn->set->waiting, conn, next);
    conn->set->n_waiting--;
}

void am_conn_drain(struct am_conn *conn)
{
    if (conn->slot.list == NULL || conn->slot.is_draining)
        return;
    am_conn_slot_drain(&conn->slot);
    if (conn->state == AM_CONN_OPEN)
        TAILQ_INSERT_TAIL(&conn->set->draining, conn, next);
}

void am_conn_request(struct am_conn *conn, uint64_t now)
{
    if (conn->state == AM_CONN_FAILED || conn->is_requested || am_conn_is_open(conn))
        return;
    conn->is_requested = true;
    conn->since = now;
    if (conn->state == AM_CONN_CLOSED)
        conn_wait(conn);
}

bool am_conn_is_open(const struct am_conn *conn)
{
    return conn->state == AM_CONN_OPEN && !conn->slot.is_draining;
}

void am_conn_work_begin(struct am_conn *conn, uint64_t now)
{
    conn->n_busy++;
    am_conn_slot_touch(&conn->slot, now);
}

void am_conn_work_end(struct am_conn *conn, uint64_t now)
{
    conn->n_busy--;
    am_conn_slot_touch(&conn->slot, now);
}

void am_conn_opened(struct am_conn *conn, uint64_t lease_ns, uint64_t now)
{
    conn->state = AM_CONN_OPEN;
    conn->lease_ns = lease_ns;
    am_conn_slot_touch(&conn->slot, now);
    if (conn->slot.is_draining)
        TAILQ_INSERT_TAIL(&conn->set->draining, conn, next);
    else if (!conn->is_requested) /* it was opened to renew the lease */
        am_conn_drain(conn);
    conn->is_requested = false;
    conn->is_retried = false;
}

/*
 * Between a third and two thirds of the lease from now: importers that were closed at the
 * same time do not reconnect at the same time, and there is time for another try.
 */
static uint64_t due_choose(const struct am_conn *conn, uint64_t now)
{
    uint64_t third = conn->lease_ns / 3;
    uint64_t *random = &conn->set->random;

    *random ^= *random << 13;
    *random ^= *random >> 7;
    *random ^= *random << 17;
    return third > 0 ? now + third + *random % third : AM_CONN_NEVER;
}

bool am_conn_closed(struct am_conn *conn, uint64_t now)
{
    if (conn->state != AM_CONN_CLOSING)
        return false;
    conn_close(conn, due_choose(conn, now));
    if (conn->is_requested)
        conn_wait(conn);
    return true;
}

void am_conn_retry(struct am_conn *conn, uint64_t at)
{
    conn_close(conn, at);
    conn->is_retried = true;
}

void am_conn_fail(struct am_conn *conn)
{
    if (conn->state == AM_CONN_CLOSED)
        RB_REMOVE(am_conn_tree, &conn->set->closed, conn);
    else if (conn->state == AM_CONN_WAITING)
        waiting_remove(conn);
    else if (conn->state == AM_CONN_OPEN && conn->slot.is_draining)
        TAILQ_REMOVE(&conn->set->draining, conn, next);
    am_conn_slot_release(&conn->slot);
    conn->state = AM_CONN_FAILED;
}

bool am_conn_is_late(const struct am_conn *conn, uint64_t now, uint64_t limit_ns)
{
    bool is_opening =
        conn->state == AM_CONN_WAITING || conn->state == AM_CONN_OPENING ||
        (conn->state == AM_CONN_CLOSED && (conn->is_requested || conn->is_retried));

    return is_opening && now - conn->since >= limit_ns;
}

/* ---- steps ---- */

static void due_wait(struct am_conns *conns, uint64_t now)
{
    struct am_conn *conn;

    while ((conn = RB_MIN(am_conn_tree, &conns->closed)) != NULL && conn->due <= now) {
        if (!conn->is_requested && !conn->is_retried)
            conn->since = now;
        conn_wait(conn);
    }
}

/* Drains idle connections, and the least recently used ones if others wait for slots. */
static void slots_make(struct am_conns *conns, uint64_t now)
{
    struct am_conn_slots *slots = &conns->slots;
    struct am_conn_slot *slot;

    while ((slot = am_conn_slots_lru(slots)) != NULL &&
           now - slot->used >= conns->idle_ns) {
        struct am_conn *conn = AM_CONTAINER_OF(slot, struct am_conn, slot);

        if (conn->state == AM_CONN_OPEN && conn->n_busy == 0)
            am_conn_drain(conn);
        else
            am_conn_slot_touch(slot, now);
    }
    while (conns->n_waiting + slots->n > slots->limit + slots->n_draining &&
           (slot = am_conn_slots_lru(slots)) != NULL)
        am_conn_drain(AM_CONTAINER_OF(slot, struct am_conn, slot));
}

static void drained_close(struct am_conns *conns)
{
    struct am_conn *conn, *next;

    for (conn = TAILQ_FIRST(&conns->draining); conn != NULL; conn = next) {
        next = TAILQ_NEXT(conn, next);
        if (conn->n_busy > 0)
            continue;
        TAILQ_REMOVE(&conns->draining, conn, next);
        conn->state = AM_CONN_CLOSING;
        conns->close(conn);
    }
}

static void waiting_open(struct am_conns *conns, uint64_t now)
{
    struct am_conn *conn;

    while ((conn = TAILQ_FIRST(&conns->waiting)) != NULL &&
           conns->slots.n < conns->slots.limit) {
        waiting_remove(conn);
        am_conn_slot_acquire(&conn->slot, &conns->slots, now);
        conn->state = AM_CONN_OPENING;
        conns->open(conn);
    }
}

void am_conns_step(struct am_conns *conns, uint64_t now)
{
    due_wait(conns, now);
    slots_make(conns, now);
    drained_close(conns);
    waiting_open(conns, now);
}
