/* See values.h. */
#include "layer/order.h"

#include "acl/acl_rt.h"
#include "layer/memory.h"

struct value_wait {
    struct value_wait *next;
    uint64_t value;
    uint32_t flag;
    struct am_record *record;
};

struct am_value {
    struct am_value *next; /* of the same bytes */
    uint64_t at;
    uint64_t last;            /* value */
    bool is_known;            /* `last` is what was written */
    struct am_record *record; /* of the last write; NULL: none */
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

static void location_write(struct am_call *call, struct am_agent *agent,
                           struct am_value *location)
{
    struct value_wait **link = &location->waits;

    am_record_put(location->record);
    location->record = am_record_make();
    if (location->record != NULL)
        record_add(call, agent, location->record);
    while (*link != NULL) {
        struct value_wait *wait = *link;

        if (location->is_known &&
            !is_satisfied(location->last, wait->value, wait->flag)) {
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

    if (location == NULL)
        return;
    location->last = value;
    location->is_known = true;
    location_write(call, agent, location);
}

void am_values_overwrite(struct am_call *call, struct am_agent *agent,
                         struct am_bytes *bytes, uint64_t at, uint64_t size)
{
    struct am_value *location;

    for (location = bytes->values; location != NULL; location = location->next) {
        if (location->at + 8 <= at || location->at >= at + size)
            continue;
        location->is_known = false;
        location_write(call, agent, location);
    }
}

void am_value_wait(struct am_call *call, struct am_agent *agent, struct am_bytes *bytes,
                   uint64_t at, uint64_t value, uint32_t flag)
{
    struct am_value *location = location_get(bytes, at);
    struct value_wait *wait;

    if (location == NULL)
        return;
    if (location->record != NULL &&
        (!location->is_known || is_satisfied(location->last, value, flag))) {
        am_agent_wait(call, agent, location->record);
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
        am_record_put(location->record);
        free(location);
    }
}
