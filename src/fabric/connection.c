/* See connection.h. */
#include "fabric/connection.h"

#include <stddef.h>

static int connection_compare(const struct am_connection *a,
                              const struct am_connection *b)
{
    if (a->due != b->due)
        return a->due < b->due ? -1 : 1;
    return (a->number > b->number) - (a->number < b->number);
}

RB_GENERATE_INTERNAL(am_connection_tree, am_connection, node, connection_compare,
                     __attribute__((unused)) static)

static struct am_connection *connection_of(struct am_conn_slot *slot)
{
    return (struct am_connection *)((char *)slot - offsetof(struct am_connection, slot));
}

void am_connections_init(struct am_connections *connections, size_t limit,
                         uint64_t idle_ns, uint64_t seed)
{
    *connections = (struct am_connections){.idle_ns = idle_ns, .dice = seed | 1};
    am_conn_slots_init(&connections->slots, limit);
    TAILQ_INIT(&connections->waiting);
    TAILQ_INIT(&connections->leaving);
    RB_INIT(&connections->away);
}

static void connection_closed(struct am_connections *connections,
                              struct am_connection *connection, uint64_t due)
{
    connection->state = AM_CONNECTION_CLOSED;
    connection->due = due;
    RB_INSERT(am_connection_tree, &connections->away, connection);
}

void am_connections_add(struct am_connections *connections,
                        struct am_connection *connection)
{
    *connection = (struct am_connection){.number = connections->n_ever++};
    connection_closed(connections, connection, AM_CONNECTION_NEVER);
}

static void connection_wait(struct am_connections *connections,
                            struct am_connection *connection)
{
    RB_REMOVE(am_connection_tree, &connections->away, connection);
    connection->state = AM_CONNECTION_WAITING;
    TAILQ_INSERT_TAIL(&connections->waiting, connection, next);
    connections->n_waiting++;
}

/* It takes up no new work, and goes in a later step. */
static void connection_drain(struct am_connections *connections,
                             struct am_connection *connection)
{
    if (!connection->slot.is_used || connection->slot.is_draining)
        return;
    am_conn_slots_drain(&connections->slots, &connection->slot);
    if (connection->state == AM_CONNECTION_OPEN)
        TAILQ_INSERT_TAIL(&connections->leaving, connection, next);
}

void am_connection_request(struct am_connections *connections,
                           struct am_connection *connection, uint64_t now)
{
    if (connection->state == AM_CONNECTION_FAILED || connection->is_wanted ||
        am_connection_is_open(connection))
        return;
    connection->is_wanted = true;
    connection->since = now;
    if (connection->state == AM_CONNECTION_CLOSED)
        connection_wait(connections, connection);
}

bool am_connection_is_open(const struct am_connection *connection)
{
    return connection->state == AM_CONNECTION_OPEN && !connection->slot.is_draining;
}

void am_connection_work_begin(struct am_connections *connections,
                              struct am_connection *connection, uint64_t now)
{
    connection->n_busy++;
    am_conn_slots_touch(&connections->slots, &connection->slot, now);
}

void am_connection_work_end(struct am_connections *connections,
                            struct am_connection *connection, uint64_t now)
{
    connection->n_busy--;
    am_conn_slots_touch(&connections->slots, &connection->slot, now);
}

void am_connection_opened(struct am_connections *connections,
                          struct am_connection *connection, uint64_t lease_ns,
                          uint64_t now)
{
    connection->state = AM_CONNECTION_OPEN;
    connection->lease_ns = lease_ns;
    am_conn_slots_touch(&connections->slots, &connection->slot, now);
    if (connection->slot.is_draining)
        TAILQ_INSERT_TAIL(&connections->leaving, connection, next);
    else if (!connection->is_wanted) /* it only had to show itself */
        connection_drain(connections, connection);
    connection->is_wanted = false;
    connection->is_retried = false;
}

void am_connection_drain(struct am_connections *connections,
                         struct am_connection *connection)
{
    connection_drain(connections, connection);
}

/*
 * Between a third and two thirds of the lease from now: importers that went at one time do
 * not come back at one time, and one that cannot come has time to try again.
 */
static uint64_t due_choose(struct am_connections *connections,
                           const struct am_connection *connection, uint64_t now)
{
    uint64_t third = connection->lease_ns / 3;

    connections->dice ^= connections->dice << 13;
    connections->dice ^= connections->dice >> 7;
    connections->dice ^= connections->dice << 17;
    return third > 0 ? now + third + connections->dice % third : AM_CONNECTION_NEVER;
}

bool am_connection_closed(struct am_connections *connections,
                          struct am_connection *connection, uint64_t now)
{
    if (connection->state != AM_CONNECTION_CLOSING)
        return false;
    am_conn_slots_release(&connections->slots, &connection->slot);
    connection_closed(connections, connection, due_choose(connections, connection, now));
    if (connection->is_wanted)
        connection_wait(connections, connection);
    return true;
}

void am_connection_retry(struct am_connections *connections,
                         struct am_connection *connection, uint64_t at)
{
    am_conn_slots_release(&connections->slots, &connection->slot);
    connection_closed(connections, connection, at);
    connection->is_retried = true;
}

void am_connection_fail(struct am_connections *connections,
                        struct am_connection *connection)
{
    switch (connection->state) {
    case AM_CONNECTION_CLOSED:
        RB_REMOVE(am_connection_tree, &connections->away, connection);
        break;
    case AM_CONNECTION_WAITING:
        TAILQ_REMOVE(&connections->waiting, connection, next);
        connections->n_waiting--;
        break;
    case AM_CONNECTION_OPEN:
        if (connection->slot.is_draining)
            TAILQ_REMOVE(&connections->leaving, connection, next);
        break;
    default:
        break;
    }
    am_conn_slots_release(&connections->slots, &connection->slot);
    connection->state = AM_CONNECTION_FAILED;
}

bool am_connection_is_late(const struct am_connection *connection, uint64_t now,
                           uint64_t limit_ns)
{
    bool wants_to_come = connection->state == AM_CONNECTION_WAITING ||
                         connection->state == AM_CONNECTION_OPENING ||
                         (connection->state == AM_CONNECTION_CLOSED &&
                          (connection->is_wanted || connection->is_retried));

    return wants_to_come && now - connection->since >= limit_ns;
}

/* ---- steps ---- */

static void due_come(struct am_connections *connections, uint64_t now)
{
    struct am_connection *connection;

    while ((connection = RB_MIN(am_connection_tree, &connections->away)) != NULL &&
           connection->due <= now) {
        if (!connection->is_wanted && !connection->is_retried)
            connection->since = now;
        connection_wait(connections, connection);
    }
}

/* The least used ones leave: those that are idle, and as many as others wait. */
static void room_make(struct am_connections *connections, uint64_t now)
{
    struct am_conn_slots *slots = &connections->slots;
    struct am_conn_slot *slot;

    while ((slot = am_conn_slots_lru(slots)) != NULL &&
           now - slot->used >= connections->idle_ns) {
        struct am_connection *connection = connection_of(slot);

        if (connection->state == AM_CONNECTION_OPEN && connection->n_busy == 0)
            connection_drain(connections, connection);
        else
            am_conn_slots_touch(slots, slot, now);
    }
    while (connections->n_waiting + slots->n > slots->limit + slots->n_draining &&
           (slot = am_conn_slots_lru(slots)) != NULL)
        connection_drain(connections, connection_of(slot));
}

static void leaving_go(struct am_connections *connections)
{
    struct am_connection *connection, *next;

    for (connection = TAILQ_FIRST(&connections->leaving); connection != NULL;
         connection = next) {
        next = TAILQ_NEXT(connection, next);
        if (connection->n_busy > 0)
            continue;
        TAILQ_REMOVE(&connections->leaving, connection, next);
        connection->state = AM_CONNECTION_CLOSING;
        connections->go(connection);
    }
}

static void waiting_come(struct am_connections *connections, uint64_t now)
{
    struct am_connection *connection;

    while ((connection = TAILQ_FIRST(&connections->waiting)) != NULL &&
           connections->slots.n < connections->slots.limit) {
        TAILQ_REMOVE(&connections->waiting, connection, next);
        connections->n_waiting--;
        am_conn_slots_acquire(&connections->slots, &connection->slot, now);
        connection->state = AM_CONNECTION_OPENING;
        connections->come(connection);
    }
}

void am_connections_step(struct am_connections *connections, uint64_t now)
{
    due_come(connections, now);
    room_make(connections, now);
    leaving_go(connections);
    waiting_come(connections, now);
}

uint64_t am_connections_next(const struct am_connections *connections)
{
    const struct am_conn_slot *slot = am_conn_slots_lru(&connections->slots);
    struct am_connection *connection =
        RB_MIN(am_connection_tree, (struct am_connection_tree *)&connections->away);
    uint64_t next = connection != NULL ? connection->due : AM_CONNECTION_NEVER;

    if (slot != NULL && slot->used + connections->idle_ns < next)
        next = slot->used + connections->idle_ns;
    return next;
}
