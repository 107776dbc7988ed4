/*
 * Shares: memory that several processes hold.  See ledger.h.
 *
 * A share's number is its index in the table and a generation, so that the number of a freed
 * share is not valid.
 */
#include <string.h>

#include "acl/error_codes/rt_error_codes.h"
#include "base/error.h"
#include "core/ledger/ledger_file.h"

#define INDEX_BITS 16 /* LEDGER_SHARES is as many */
#define GROW 64       /* entries that are added at once */

uint64_t am_ledger_id(const struct am_ledger *ledger)
{
    return ledger->head->id;
}

/* ---- the table ---- */

unsigned ledger_shares_high(const struct am_ledger *ledger)
{
    unsigned high = ledger->head->shares_high;

    return high < LEDGER_SHARES ? high : LEDGER_SHARES;
}

static bool is_held(const struct ledger_share *share)
{
    for (unsigned i = 0; i < LEDGER_SLOTS / 64; i++) {
        if (share->holders[i] != 0)
            return true;
    }
    return false;
}

/* Reads an entry of a share once: its size, or 0 when it is not a valid one. */
static uint64_t share_read(const struct am_ledger *ledger,
                           const struct ledger_share *share, int32_t *ret_device)
{
    int32_t device = share->device;
    uint64_t size = share->size;

    *ret_device = device;
    return device >= 0 && device < ledger->config.n_devices &&
                   size <= ledger->config.capacity[device]
               ? size
               : 0;
}

/* The bytes are freed before the entry, so that nothing is counted twice. */
static void share_free_locked(struct am_ledger *ledger, unsigned index)
    AM_REQUIRES(ledger->lock)
{
    struct ledger_share *share = &ledger->shares[index];
    int32_t device;
    uint64_t size = share_read(ledger, share, &device);

    if (size != 0)
        atomic_fetch_sub(&ledger->head->shared[device], size);
    am_step();
    share->size = 0;
    if (ledger->head->share_next > index)
        ledger->head->share_next = index;
}

void ledger_share_drop_locked(struct am_ledger *ledger, unsigned index, unsigned slot)
{
    struct ledger_share *share = &ledger->shares[index];
    uint64_t bit = UINT64_C(1) << slot % 64;

    if (share->size == 0 || (share->holders[slot / 64] & bit) == 0)
        return;
    if (share->exporter == slot) /* the next process in the slot did not export it */
        share->exporter = LEDGER_SLOTS;
    am_step();
    atomic_fetch_and(&share->holders[slot / 64], ~bit);
    am_step();
    if (!is_held(share))
        share_free_locked(ledger, index);
}

/* A free slot holds nothing. */
static void share_forget_free_slots(struct am_ledger *ledger, struct ledger_share *share)
{
    unsigned high = ledger_slots_high(ledger);

    for (unsigned i = 0; i < LEDGER_SLOTS; i++) {
        if (i >= high || ledger->slots[i].is_used == 0)
            atomic_fetch_and(&share->holders[i / 64], ~(UINT64_C(1) << i % 64));
    }
}

void ledger_count_shares_locked(struct am_ledger *ledger)
{
    unsigned high = ledger_shares_high(ledger);
    uint64_t sums[AM_LEDGER_DEVICES] = {0};

    for (unsigned i = 0; i < high; i++) {
        struct ledger_share *share = &ledger->shares[i];
        int32_t device;
        uint64_t size;

        if (share->size == 0)
            continue;
        share_forget_free_slots(ledger, share);
        size = share_read(ledger, share, &device);
        if (size != 0 && is_held(share))
            sums[device] += size;
        else
            share->size = 0;
    }
    am_step();
    for (int i = 0; i < AM_LEDGER_DEVICES; i++)
        ledger->head->shared[i] = sums[i];
    am_step();
    ledger->head->share_next = 0;
}

/* A free entry of the table, which grows if needed. */
static aclError index_find_locked(struct am_ledger *ledger, unsigned *ret_index)
    AM_REQUIRES(ledger->lock)
{
    unsigned high = ledger_shares_high(ledger);
    unsigned index = ledger->head->share_next;
    unsigned more = LEDGER_SHARES - high < GROW ? LEDGER_SHARES - high : GROW;

    while (index < high && ledger->shares[index].size != 0)
        index++;
    if (index >= high) {
        AM_REQUIRE(high < LEDGER_SHARES, ACL_ERROR_RT_RESOURCE_ALLOC_FAIL,
                   "%d allocations are shared, which is the limit of the ledger",
                   LEDGER_SHARES);
        memset(&ledger->shares[high], 0, more * sizeof(struct ledger_share));
        am_step();
        ledger->head->shares_high = high + more;
        index = high;
    }
    ledger->head->share_next = index;
    *ret_index = index;
    return ACL_SUCCESS;
}

/* ---- this process's part ---- */

/* Callers compare with a plain 0: clang's analysis of locks reads literals only. */
static aclError share_lock(struct am_ledger *ledger) AM_TRY_ACQUIRE(0, ledger->lock)
{
    char why[LEDGER_WHY];

    AM_REQUIRE(ledger->fd >= 0, ACL_ERROR_RT_RESOURCE_ALLOC_FAIL,
               "this process has no ledger, which sharing memory needs: %s", ledger->why);
    AM_REQUIRE(ledger_lock(ledger, why), ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, "%s", why);
    if (ledger->held == NULL) /* the counts of uses in this process */
        ledger->held = am_sys_calloc(LEDGER_SHARES, sizeof *ledger->held);
    if (ledger->held != NULL)
        return ACL_SUCCESS;
    ledger_unlock(ledger);
    return am_fail(ACL_ERROR_BAD_ALLOC, "no host memory for the records of shares");
}

/* Writes a share that this process holds; the size makes it one. */
static uint64_t share_write_locked(struct am_ledger *ledger, unsigned index,
                                   int32_t device, unsigned shard, uint64_t size)
    AM_REQUIRES(ledger->lock)
{
    struct ledger_share *share = &ledger->shares[index];
    uint64_t generation = ledger->head->generation++ & (UINT64_MAX >> INDEX_BITS);

    share->generation = generation;
    share->device = device;
    share->exporter = ledger->slot;
    for (unsigned i = 0; i < LEDGER_SLOTS / 64; i++)
        share->holders[i] = 0;
    share->holders[ledger->slot / 64] = UINT64_C(1) << ledger->slot % 64;
    am_step();
    share->size = size;
    am_step();
    atomic_fetch_add(&ledger->head->shared[device], size);
    am_step();
    ledger_uncharge(ledger, device, shard, size, false);
    return generation << INDEX_BITS | index;
}

aclError am_ledger_share_add(struct am_ledger *ledger, int32_t device, unsigned shard,
                             size_t size, uint64_t *ret_share)
{
    unsigned index;
    aclError rc = share_lock(ledger);

    if (rc != 0)
        return rc;
    rc = index_find_locked(ledger, &index);
    if (rc == ACL_SUCCESS) {
        *ret_share = share_write_locked(ledger, index, device, shard, size);
        ledger->held[index] = (struct ledger_held){1, device, size, true};
        ledger->shared[device] += size;
        ledger->exported[device] += size;
        ledger_notify(ledger, device);
    }
    ledger_unlock(ledger);
    return rc;
}

aclError am_ledger_share_join(struct am_ledger *ledger, uint64_t number, int32_t device,
                              size_t size)
{
    unsigned index = number & (LEDGER_SHARES - 1);
    struct ledger_share *share = &ledger->shares[index];
    int32_t of_device;
    aclError rc = share_lock(ledger);

    if (rc != 0)
        return rc;
    if (index < ledger_shares_high(ledger) && size != 0 &&
        share_read(ledger, share, &of_device) == size && of_device == device &&
        share->generation == number >> INDEX_BITS) {
        if (ledger->held[index].n == 0) {
            atomic_fetch_or(&share->holders[ledger->slot / 64], UINT64_C(1)
                                                                    << ledger->slot % 64);
            ledger->held[index] = (struct ledger_held){0, device, size, false};
            ledger->shared[device] += size;
        }
        ledger->held[index].n++;
    } else {
        rc = am_fail(ACL_ERROR_RT_NO_PERMISSION,
                     "the memory is not shared: its export ended, or never existed");
    }
    ledger_unlock(ledger);
    return rc;
}

/* One use less; true: it was the last use in this process. */
static bool held_drop_locked(struct am_ledger *ledger, unsigned index)
    AM_REQUIRES(ledger->lock)
{
    struct ledger_held *held = ledger->held != NULL ? &ledger->held[index] : NULL;

    if (held == NULL || held->n == 0 || --held->n > 0)
        return false;
    ledger->shared[held->device] -= held->size;
    if (held->is_export)
        ledger->exported[held->device] -= held->size;
    ledger_notify(ledger, held->device);
    return true;
}

/*
 * If the file's lock cannot be acquired, the next holder of the lock leaves the share, in
 * ledger_sweep_locked(): shares that are still entered but no longer held here.
 */
void am_ledger_share_leave(struct am_ledger *ledger, uint64_t number)
{
    unsigned index = number & (LEDGER_SHARES - 1);

    if (!ledger_lock(ledger, NULL)) {
        am_lock(&ledger->lock);
        if (held_drop_locked(ledger, index))
            ledger->must_sweep = true;
        am_unlock(&ledger->lock);
        return;
    }
    if (held_drop_locked(ledger, index) && ledger->fd >= 0)
        ledger_share_drop_locked(ledger, index, ledger->slot);
    ledger_unlock(ledger);
}

void ledger_sweep_locked(struct am_ledger *ledger)
{
    unsigned high = ledger_shares_high(ledger);

    for (unsigned i = 0; i < high; i++) {
        if (ledger->held[i].n == 0)
            ledger_share_drop_locked(ledger, i, ledger->slot);
    }
    ledger->must_sweep = false;
}

size_t am_ledger_shared(struct am_ledger *ledger, int32_t device)
{
    return ledger->shared[device];
}
