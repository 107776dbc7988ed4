/* Values in memory that streams wait for: order.h. */
#include "layer/order.h"

#include <string.h>

#include "acl/acl_rt.h"
#include "layer/hooks.h"
#include "layer/memory.h"

struct value_write {
    struct am_record *record;
    uint64_t value;
    bool is_known; /* the value */
    uint32_t agent;
};

#define WRITES_MAX 8

struct writes {
    uint32_t n;
    struct value_write of[WRITES_MAX]; /* the last ones, the newest first */
};

struct am_value_wait {
    uint32_t refs;
    struct am_value_wait *next; /* of the same location */
    uint64_t value;
    uint32_t flag;
    struct writes writes; /* before the wait */
    struct am_record
        *later;      /* of the first later write that satisfies it; NULL: none yet */
    bool is_settled; /* it is over, though some writes are pending */
    bool is_freed;   /* the memory is */
};

struct am_value {
    struct am_value *next; /* of the same bytes */
    uint64_t at;
    struct writes writes;
    struct am_value_wait *waits; /* that a later write may end */
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

void am_value_wait_put(struct am_value_wait *wait)
{
    if (wait == NULL || --wait->refs > 0)
        return;
    am_record_put(wait->later);
    while (wait->writes.n > 0)
        am_record_put(wait->writes.of[--wait->writes.n].record);
    free(wait);
}

/* The newest write, with its record; the oldest one is forgotten.  NULL: no memory. */
static struct value_write *write_add(struct am_agent *agent, struct writes *writes)
{
    struct am_record *record = am_record_make();

    if (record == NULL)
        return NULL;
    if (writes->n == WRITES_MAX)
        am_record_put(writes->of[--writes->n].record);
    memmove(&writes->of[1], &writes->of[0], writes->n++ * sizeof writes->of[0]);
    writes->of[0] = (struct value_write){
        .record = record,
        .agent = agent != NULL ? agent->number : 0,
    };
    return &writes->of[0];
}

/* Waits that the write may end are for its record, too. */
static void waits_end(struct am_value *location, const struct value_write *write)
{
    struct am_value_wait **link = &location->waits;

    while (*link != NULL) {
        struct am_value_wait *wait = *link;
        bool ends =
            !write->is_known || is_satisfied(write->value, wait->value, wait->flag);

        if (!ends && wait->refs > 1) {
            link = &wait->next;
            continue;
        }
        *link = wait->next;
        wait->later = am_record_get(write->record);
        am_value_wait_put(wait);
    }
}

static struct am_record *location_write(struct am_call *call, struct am_agent *agent,
                                        struct am_value *location, bool is_known,
                                        uint64_t value)
{
    struct value_write *write = write_add(agent, &location->writes);

    if (write == NULL)
        return NULL;
    write->is_known = is_known;
    write->value = value;
    waits_end(location, write);
    if (agent != NULL)
        am_agent_record(call, agent, write->record);
    else
        am_record_by_host(write->record);
    return write->record;
}

struct am_record *am_value_write(struct am_call *call, struct am_agent *agent,
                                 struct am_bytes *bytes, uint64_t at, uint64_t value)
{
    struct am_value *location = location_get(bytes, at);

    return location != NULL ? location_write(call, agent, location, true, value) : NULL;
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

/* ---- which writes end a wait ---- */

/* Whether something that has this clock begins after the write. */
static bool is_before(const struct value_write *write, const struct am_clock *clock)
{
    uint64_t step = am_clock_get(&write->record->clock, write->agent);

    return write->record->is_complete && am_clock_get(clock, write->agent) >= step;
}

/* Whether write i may end the wait, if no other value stands there. */
static bool is_candidate(const struct am_value_wait *wait, uint32_t i)
{
    const struct value_write *write = &wait->writes.of[i];

    return write->is_known ? is_satisfied(write->value, wait->value, wait->flag) : i == 0;
}

/* Whether the stream can see what write i wrote: it knows no write after that one. */
static bool is_visible(const struct am_value_wait *wait, uint32_t i,
                       const struct am_clock *begin, const struct am_clock *host)
{
    const struct writes *writes = &wait->writes;

    for (uint32_t k = 0; k < writes->n; k++) {
        const struct value_write *after = &writes->of[k];

        if (k != i && is_before(&writes->of[i], &after->record->clock) &&
            (is_before(after, begin) || is_before(after, host)))
            return false;
    }
    return writes->of[i].record->is_complete;
}

/* Whether what write i wrote is sure to end the wait: other values are written before. */
static bool is_sure(const struct am_value_wait *wait, uint32_t i)
{
    const struct writes *writes = &wait->writes;

    for (uint32_t k = 0; k < writes->n; k++) {
        if (writes->of[k].record->is_complete && !is_candidate(wait, k) &&
            !is_before(&writes->of[k], &writes->of[i].record->clock))
            return false;
    }
    return true;
}

struct candidates {
    uint32_t n; /* that ran in the model */
    bool are_pending;
    bool is_sure; /* one of them is sure to end the wait */
    bool is_order_unknown;
};

/* What all records that may end the wait know is joined to `clock`; NULL: nothing is. */
static struct candidates candidates_join(const struct am_value_wait *wait,
                                         const struct am_clock *begin,
                                         const struct am_clock *host,
                                         struct am_clock *clock)
{
    struct candidates found = {0};
    struct am_clock known = {0};
    const struct am_record *ends[WRITES_MAX + 1];

    for (uint32_t i = 0; i < wait->writes.n; i++) {
        const struct am_record *record = wait->writes.of[i].record;

        if (!is_candidate(wait, i))
            continue;
        found.are_pending |= !record->is_complete;
        if (!is_visible(wait, i, begin, host))
            continue;
        found.is_sure |= is_sure(wait, i);
        ends[found.n++] = record;
    }
    if (!found.is_sure && wait->later != NULL) {
        found.are_pending |= !wait->later->is_complete;
        found.is_sure = wait->later->is_complete;
        if (wait->later->is_complete)
            ends[found.n++] = wait->later;
    }
    for (uint32_t i = 0; i < found.n && clock != NULL; i++) {
        if (i == 0)
            am_clock_join(&known, &ends[i]->clock);
        else
            am_clock_meet(&known, &ends[i]->clock);
        found.is_order_unknown |= ends[i]->is_order_unknown;
    }
    if (clock != NULL)
        am_clock_join(clock, &known);
    am_clock_free(&known);
    return found;
}

bool am_value_has_ended(const struct am_value_wait *wait, const struct am_clock *begin,
                        const struct am_clock *host)
{
    struct candidates found = candidates_join(wait, begin, host, NULL);

    return wait->is_freed ||
           (found.n > 0 && (wait->is_settled || (found.is_sure && !found.are_pending)));
}

bool am_value_is_sure(const struct am_value_wait *wait, const struct am_clock *begin,
                      const struct am_clock *host)
{
    return candidates_join(wait, begin, host, NULL).is_sure;
}

bool am_value_join(const struct am_value_wait *wait, struct am_clock *clock,
                   const struct am_clock *host)
{
    struct candidates found = candidates_join(wait, clock, host, clock);

    return !wait->is_freed && !found.is_order_unknown;
}

void am_value_settle(struct am_value_wait *wait)
{
    wait->is_settled = true;
}

struct am_record *am_value_pending(const struct am_value_wait *wait, unsigned n)
{
    for (uint32_t i = 0; i < wait->writes.n; i++) {
        struct am_record *record = wait->writes.of[i].record;

        if (is_candidate(wait, i) && !record->is_complete && n-- == 0)
            return record;
    }
    return wait->later != NULL && !wait->later->is_complete && n == 0 ? wait->later
                                                                      : NULL;
}

/* The host knows what all writes know that may have given it the value. */
static void value_seen(const struct am_value *location, uint64_t value)
{
    struct am_value_wait seen = {
        .value = value, .flag = ACL_VALUE_WAIT_EQ, .writes = location->writes};
    struct am_record *pending = am_value_pending(&seen, 0);
    struct am_record *record = am_record_make();
    struct candidates found = {0};

    if (record != NULL)
        found = candidates_join(&seen, am_host_clock(), am_host_clock(), &record->clock);
    if (found.n > 0)
        am_host_joins_record(record);
    else if (pending != NULL && am_value_pending(&seen, 1) == NULL)
        am_host_joins_record(pending);
    am_record_put(record);
}

void am_values_seen(const struct am_bytes *bytes, uint64_t at, uint64_t size,
                    uint64_t addr)
{
    const struct am_value *location = bytes->values;
    uint64_t value;

    for (; location != NULL; location = location->next) {
        if (location->at >= at && location->at + 8 <= at + size &&
            source_read(addr + (location->at - at), &value))
            value_seen(location, value);
    }
}

bool am_value_is_noted(const struct am_bytes *bytes, uint64_t at)
{
    const struct am_value *location = bytes->values;

    while (location != NULL && location->at != at)
        location = location->next;
    return location != NULL;
}

/* Waits that are over need no later write. */
static void waits_forget(struct am_value *location, bool is_freed)
{
    struct am_value_wait **link = &location->waits;

    while (*link != NULL) {
        struct am_value_wait *wait = *link;

        if (!is_freed && wait->refs > 1) {
            link = &wait->next;
            continue;
        }
        wait->is_freed = is_freed;
        *link = wait->next;
        am_value_wait_put(wait);
    }
}

void am_value_wait(struct am_call *call, struct am_agent *agent, struct am_bytes *bytes,
                   uint64_t at, uint64_t value, uint32_t flag)
{
    struct am_value *location = location_get(bytes, at);
    struct am_value_wait *wait = location != NULL ? am_meta_alloc(sizeof *wait) : NULL;

    if (wait == NULL)
        return;
    wait->refs = 2;
    wait->value = value;
    wait->flag = flag;
    wait->writes = location->writes;
    for (uint32_t i = 0; i < wait->writes.n; i++)
        am_record_get(wait->writes.of[i].record);
    waits_forget(location, false);
    wait->next = location->waits;
    location->waits = wait;
    am_agent_wait_value(call, agent, wait);
}

void am_values_free(struct am_bytes *bytes)
{
    struct am_value *location;

    while ((location = bytes->values) != NULL) {
        bytes->values = location->next;
        waits_forget(location, true);
        while (location->writes.n > 0)
            am_record_put(location->writes.of[--location->writes.n].record);
        free(location);
    }
    am_order_progress();
}
