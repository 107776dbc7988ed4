#include "fake/fake.h"

#include <stdlib.h>

/* Never a small number: those are NULL and the streams that always exist. */
static uint64_t handle_of(const struct fake_table *table, uint32_t slot)
{
    return ((uint64_t)table->slots[slot].uses << 24 | slot) << 4;
}

static bool grow(struct fake_table *table)
{
    uint32_t n = table->n ? 2 * table->n : 64;
    struct fake_slot *slots = realloc(table->slots, n * sizeof(*slots));

    if (!slots)
        return false;
    for (uint32_t i = n; i-- > table->n;) {
        slots[i] = (struct fake_slot){.next_free = table->first_free};
        table->first_free = i + 1;
    }
    table->slots = slots;
    table->n = n;
    return true;
}

uint64_t fake_table_add_locked(struct fake_table *table, void *object)
{
    uint32_t slot;

    if (!table->first_free && !grow(table))
        return 0;
    slot = table->first_free - 1;
    table->first_free = table->slots[slot].next_free;
    table->slots[slot].object = object;
    table->slots[slot].uses++;
    return handle_of(table, slot);
}

void *fake_table_find_locked(const struct fake_table *table, uint64_t handle)
{
    uint32_t slot = (uint32_t)(handle >> 4) & 0xffffff;

    if (slot >= table->n || !table->slots[slot].object ||
        handle_of(table, slot) != handle)
        return NULL;
    return table->slots[slot].object;
}

void fake_table_remove_locked(struct fake_table *table, uint64_t handle)
{
    uint32_t slot = (uint32_t)(handle >> 4) & 0xffffff;

    table->slots[slot].object = NULL;
    table->slots[slot].next_free = table->first_free;
    table->first_free = slot + 1;
}
