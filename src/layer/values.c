/* Values in memory that streams wait for: order.h. */
#include "layer/order.h"

#include <string.h>

#include "acl/acl_rt.h"
#include "layer/hooks.h"
#include "layer/memory.h"

struct value_wait {
    struct value_wait *next;
    uint64_t value;
    uint32_t flag;
    struct am_record *record;
};

struct value_write {
    struct am_record *record; /* NULL: no memory */
    uint64_t value;
    bool is_known; /* the value */
    uint32_t agent;
    uint64_t step; /* of the record; 0: it did not run in the model at once */
};

#define WRITES_MAX 8

struct am_value {
    struct am_value *next; /* of the same bytes */
    uint64_t at;
    struct value_write writes[WRITES_MAX]; /* the last ones, the newest first */
    uint32_t n_writes;
    struct value_wait *waits; /* that no write satisfies yet */
};

static bool is_satisfied(uint64_t is, uint64_t value, uint32_t flag)
{
    switch (flag) {
    case ACL_VALUE_WAIT_GEQ:
        return (int64_t)(is - value) >= 0;
    case ACL_VALUE_WAIT_EQ:
        return is == value;
    case ACL_VALUE_WAIT_AND:
        return (is & value) != 0;
    default:
        return ~(is | value) != 0;
    }
}

static struct am_value *location_get(struct am_bytes *bytes, uint64_t at)
{
    struct am_value *location;

    for (location = bytes->values; location != NULL; location = location->next) {
        if (location->at == at)
            return location;
    }
    location = am_meta_alloc(sizeof *location);
    if (location == NULL)
        return NULL;
    location->at = at;
    location->next = bytes->values;
    bytes->values = location;
    return location;
}

static void record_add(struct am_call *call, struct am_agent *agent,
                       struct am_record *record)
{
    if (agent != NULL)
        am_agent_record(call, agent, record);
    else
        am_record_by_host(record);
}

/* The newest write, of which the caller sets the value; the oldest one is forgotten. */
static struct value_write *write_add(struct am_call *call, struct am_agent *agent,
                                     struct am_value *location)
{
    struct value_write *write = &location->writes[0];

    if (location->n_writes == WRITES_MAX)
        am_record_put(location->writes[--location->n_writes].record);
    memmove(write + 1, write, location->n_writes++ * sizeof *write);
    *write = (struct value_write){.record = am_record_make()};
    if (write->record == NULL)
        return write;
    record_add(call, agent, write->record);
    if (agent != NULL)
        write->agent = agent->number;
    if (write->record->is_complete)
        write->step = am_clock_get(&write->record->clock, write->agent);
    return write;
}

static void location_write(struct am_call *call, struct am_agent *agent,
                           struct am_value *location, bool is_known, uint64_t value)
{
    struct value_write *write = write_add(call, agent, location);
    struct value_wait **link = &location->waits;

    write->is_known = is_known;
    write->value = value;
    while (*link != NULL) {
        struct value_wait *wait = *link;

        if (is_known && !is_satisfied(value, wait->value, wait->flag)) {
            link = &wait->next;
            continue;
        }
        *link = wait->next;
        record_add(call, agent, wait->record);
        am_record_put(wait->record);
        free(wait);
    }
}

void am_value_write(struct am_call *call, struct am_agent *agent, struct am_bytes *bytes,
                    uint64_t at, uint64_t value)
{
    struct am_value *location = location_get(bytes, at);

    if (location != NULL)
        location_write(call, agent, location, true, value);
}

/* The eight bytes of the program's own or pinned memory, unless queued work writes them. */
static bool source_read(uint64_t addr, uint64_t *ret_value)
{
    const struct am_object *area = am_area_find(addr);
    struct am_access access;

    if (area == NULL && am_reservation_find(addr) != NULL)
        return false;
    if (area != NULL && area->kind != AM_OBJECT_HOST &&
        area->kind != AM_OBJECT_REGISTERED)
        return false;
    if (area != NULL && area->bytes != NULL &&
        am_bytes_in_flight_at(area->bytes, addr - area->key, false, &access))
        return false;
    memcpy(ret_value, (const void *)(uintptr_t)addr, sizeof *ret_value);
    return true;
}

/* What the call writes at this address; false: unknown. */
static bool written_value(const struct am_call *call, uint64_t addr, uint64_t *ret_value)
{
    if (call->args == NULL) /* a replay */
        return false;
    switch (call->id) {
    case AM_API_aclrtMemset:
    case AM_API_aclrtMemsetAsync: {
        AM_ARGS(aclrtMemset);

        memset(ret_value, a->value, sizeof *ret_value);
        return true;
    }
    case AM_API_aclrtMemcpy:
    case AM_API_aclrtMemcpyAsync: {
        AM_ARGS(aclrtMemcpy);

        return source_read((uintptr_t)a->src + (addr - (uintptr_t)a->dst), ret_value);
    }
    default:
        return false;
    }
}

void am_values_overwrite(struct am_call *call, struct am_agent *agent,
                         const struct am_piece *piece)
{
    struct am_value *location = piece->bytes->values;

    for (; location != NULL; location = location->next) {
        uint64_t value = 0;
        bool is_known;

        if (location->at + 8 <= piece->at || location->at >= piece->at + piece->size)
            continue;
        is_known = location->at >= piece->at &&
                   location->at + 8 <= piece->at + piece->size &&
                   written_value(call, piece->addr + (location->at - piece->at), &value);
        location_write(call, agent, location, is_known, value);
    }
}

static bool is_before(const struct value_write *write, const struct am_clock *clock)
{
    return write->step > 0 && am_clock_get(clock, write->agent) >= write->step;
}

/* Whether the agent can see the value: no later write is known to be done. */
static bool is_visible(const struct am_value *location, uint32_t i,
                       const struct am_agent *agent)
{
    for (uint32_t k = 0; k < i; k++) {
        const struct value_write *later = &location->writes[k];

        if (later->record == NULL || later->step == 0 ||
            (is_before(&location->writes[i], &later->record->clock) &&
             is_before(later, &agent->clock)))
            return false;
    }
    return location->writes[i].step > 0;
}

/*
 * What ends a wait that the last write satisfies: that write, or an earlier one that the
 * agent may still see.  Then only what the records of all of them know is sure.
 */
static void written_wait(struct am_call *call, struct am_agent *agent,
                         const struct am_value *location, uint64_t value, uint32_t flag)
{
    const struct value_write *last = &location->writes[0];
    struct am_record *record =
        last->step > 0 && TAILQ_EMPTY(&agent->works) ? am_record_make() : NULL;

    if (record == NULL) {
        am_agent_wait(call, agent, last->record);
        return;
    }
    am_agent_joins_host(agent);
    am_clock_join(&record->clock, &last->record->clock);
    record->is_order_unknown = last->record->is_order_unknown;
    record->is_complete = true;
    for (uint32_t i = 1; i < location->n_writes; i++) {
        const struct value_write *write = &location->writes[i];

        if (write->is_known && is_satisfied(write->value, value, flag) &&
            is_visible(location, i, agent))
            am_clock_meet(&record->clock, &write->record->clock);
    }
    am_agent_wait(call, agent, record);
    am_record_put(record);
}

bool am_value_is_noted(const struct am_bytes *bytes, uint64_t at)
{
    const struct am_value *location = bytes->values;

    while (location != NULL && location->at != at)
        location = location->next;
    return location != NULL;
}

void am_value_wait(struct am_call *call, struct am_agent *agent, struct am_bytes *bytes,
                   uint64_t at, uint64_t value, uint32_t flag)
{
    struct am_value *location = location_get(bytes, at);
    struct value_write *last;
    struct value_wait *wait;

    if (location == NULL)
        return;
    last = location->n_writes > 0 ? &location->writes[0] : NULL;
    if (last != NULL && last->record != NULL &&
        (!last->is_known || is_satisfied(last->value, value, flag))) {
        written_wait(call, agent, location, value, flag);
        return;
    }
    wait = am_meta_alloc(sizeof *wait);
    if (wait == NULL || (wait->record = am_record_make()) == NULL) {
        free(wait);
        return;
    }
    wait->value = value;
    wait->flag = flag;
    wait->next = location->waits;
    location->waits = wait;
    am_agent_wait(call, agent, wait->record);
}

void am_values_free(struct am_bytes *bytes)
{
    struct am_value *location;

    while ((location = bytes->values) != NULL) {
        struct value_wait *wait;

        while ((wait = location->waits) != NULL) {
            location->waits = wait->next;
            am_record_complete(wait->record, true);
            am_record_put(wait->record);
            free(wait);
        }
        bytes->values = location->next;
        while (location->n_writes > 0)
            am_record_put(location->writes[--location->n_writes].record);
        free(location);
    }
}
