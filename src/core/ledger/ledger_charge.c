/* Charging, counting, and clearing the slots of dead processes.  See ledger.h. */
#include "core/ledger/ledger.h"

#include <stdio.h>
#include <string.h>

#include "acl/error_codes/rt_error_codes.h"
#include "base/error.h"
#include "base/util.h"
#include "core/ledger/ledger_file.h"

#define CREDIT_MAX (8 * AM_MIB) /* of a shard, */
#define CREDIT_PART 2048        /* and at most this part of the device */

/* ---- accounts ---- */

/* Units of 2^shift bytes, in which the capacity has 31 bits at most. */
static unsigned unit_shift(const struct am_ledger *ledger, int32_t device)
{
    uint64_t capacity = ledger->config.capacity[device];

    return capacity >> 31 == 0 ? 0 : 33 - (unsigned)__builtin_clzll(capacity);
}

static uint64_t units_of(const struct am_ledger *ledger, int32_t device, uint64_t size)
{
    unsigned shift = unit_shift(ledger, device);

    return (size + (UINT64_C(1) << shift) - 1) >> shift;
}

#define USED(word_) ((word_)&UINT32_MAX)
#define GRANTED(word_) ((word_) >> 32)
#define BOTH (UINT64_C(1) << 32 | 1) /* a unit in both halves */

/* Bytes of a slot.  Any process may have written any number: at most the capacity. */
static uint64_t slot_sum(const struct am_ledger *ledger, unsigned slot, int32_t device,
                         bool is_granted)
{
    uint64_t n = 0;

    for (unsigned i = 0; i < LEDGER_SHARDS; i++) {
        uint64_t word = ledger->shards[slot][i].account[device];

        n += is_granted && GRANTED(word) > USED(word) ? GRANTED(word) : USED(word);
    }
    return ledger_clamp(&ledger->config, device, n << unit_shift(ledger, device));
}

uint64_t ledger_used(const struct am_ledger *ledger, unsigned slot, int32_t device)
{
    return slot_sum(ledger, slot, device, false);
}

/*
 * The bytes of all processes: in use, or granted.  1024 times 64 TB and the shares do not
 * overflow.  Sequentially consistent: if a process adds to an account before it reads the sum,
 * every process that adds later and reads sees the addition.
 */
static uint64_t device_sum(const struct am_ledger *ledger, int32_t device,
                           bool is_granted)
{
    unsigned high = ledger_slots_high(ledger);
    uint64_t sum = ledger_clamp(&ledger->config, device, ledger->head->shared[device]);

    for (unsigned i = 0; i < high; i++)
        sum += slot_sum(ledger, i, device, is_granted);
    return sum;
}

/* No account has a credit any more. */
static void credits_take_back(struct am_ledger *ledger, int32_t device)
{
    unsigned high = ledger_slots_high(ledger);

    for (unsigned i = 0; i < high * LEDGER_SHARDS; i++) {
        _Atomic uint64_t *account =
            &ledger->shards[i / LEDGER_SHARDS][i % LEDGER_SHARDS].account[device];
        uint64_t word = *account;

        while (GRANTED(word) > USED(word) &&
               !atomic_compare_exchange_weak(account, &word, USED(word) * BOTH))
            continue;
    }
}

_Atomic(am_ledger_hook) am_ledger_changed;

void ledger_notify(const struct am_ledger *ledger, int32_t device)
{
    am_ledger_hook hook = atomic_load_explicit(&am_ledger_changed, memory_order_relaxed);
    uint64_t reported;

    if (__builtin_expect(hook == NULL, 1) || device >= ledger->config.n_devices)
        return;
    do { /* until the last report is the latest value, whichever thread reports it */
        reported = am_ledger_held(ledger, device) + ledger->exported[device];
        hook(device, reported);
    } while (am_ledger_held(ledger, device) + ledger->exported[device] != reported);
}

size_t am_ledger_held(const struct am_ledger *ledger, int32_t device)
{
    return ledger_used(ledger, ledger->slot, device);
}

size_t am_ledger_peak(const struct am_ledger *ledger, int32_t device)
{
    return ledger->stats[ledger->slot].peak[device];
}

/* ---- charges ---- */

/* Credits are small: a use of one that follows another shard's charge can miss the peak. */
static void peak_note(struct am_ledger *ledger, int32_t device)
{
    _Atomic uint64_t *peak = &ledger->stats[ledger->slot].peak[device];
    uint64_t highest = *peak;
    uint64_t now = am_ledger_held(ledger, device);

    while (highest < now && !atomic_compare_exchange_weak(peak, &highest, now))
        continue;
}

/* From the account's credit. */
static bool charge_credit(_Atomic uint64_t *account, uint64_t n)
{
    uint64_t word = atomic_load_explicit(account, memory_order_relaxed);

    do {
        if (USED(word) + n > GRANTED(word))
            return false;
    } while (!atomic_compare_exchange_weak(account, &word, word + n));
    return true;
}

static bool has_room(const struct am_ledger *ledger, int32_t device, size_t size)
{
    uint64_t capacity = ledger->config.capacity[device];
    uint64_t sum = device_sum(ledger, device, true);

    return sum <= capacity && size <= capacity - sum;
}

/* From what no process was granted. */
static bool charge_more(struct am_ledger *ledger, int32_t device,
                        _Atomic uint64_t *account, size_t size)
{
    uint64_t capacity = ledger->config.capacity[device];
    uint64_t n = units_of(ledger, device, size);
    uint64_t n_max = units_of(ledger, device, capacity);
    uint64_t word = *account;

    /* Not added if it cannot fit: other processes would see it for a moment and fail. */
    if (!has_room(ledger, device, size)) {
        credits_take_back(ledger, device);
        if (!has_room(ledger, device, size))
            return false;
    }
    am_step();
    do {
        if (USED(word) + n > n_max || GRANTED(word) + n > n_max)
            return false;
    } while (!atomic_compare_exchange_weak(account, &word, word + n * BOTH));
    am_step();
    if (device_sum(ledger, device, true) <= capacity) {
        peak_note(ledger, device);
        return true;
    }
    atomic_fetch_sub(account, n * BOTH);
    return false;
}

bool ledger_try_charge(struct am_ledger *ledger, int32_t device, size_t size)
{
    struct ledger_shard *shard =
        &ledger->shards[ledger->slot][am_shard() % LEDGER_SHARDS];
    _Atomic uint64_t *account = &shard->account[device];
    uint64_t total;
    uint64_t n;

    if (size > ledger->config.capacity[device])
        return false;
    if (!charge_credit(account, units_of(ledger, device, size)) &&
        !charge_more(ledger, device, account, size))
        return false;
    total = atomic_load_explicit(&shard->total[device], memory_order_relaxed);
    n = atomic_load_explicit(&shard->n_total, memory_order_relaxed);
    atomic_store_explicit(&shard->total[device], total + size, memory_order_relaxed);
    atomic_store_explicit(&shard->n_total, n + 1, memory_order_relaxed);
    ledger_notify(ledger, device);
    return true;
}

bool am_ledger_charge(struct am_ledger *ledger, int32_t device, size_t size)
{
    bool is_charged = ledger_try_charge(ledger, device, size);

    if (is_charged || size > ledger->config.capacity[device] ||
        !ledger_lock(ledger, NULL))
        return is_charged;
    ledger_reap_locked(ledger);
    is_charged = ledger_try_charge(ledger, device, size);
    ledger_unlock(ledger);
    return is_charged;
}

void ledger_uncharge(struct am_ledger *ledger, int32_t device, unsigned shard,
                     size_t size, bool is_free)
{
    uint64_t part = ledger->config.capacity[device] / CREDIT_PART;
    uint64_t credit =
        (part < CREDIT_MAX ? part : CREDIT_MAX) >> unit_shift(ledger, device);
    _Atomic uint64_t *account =
        &ledger->shards[ledger->slot][shard % LEDGER_SHARDS].account[device];
    uint64_t n = units_of(ledger, device, size);
    uint64_t word = atomic_load_explicit(account, memory_order_relaxed);
    uint64_t used;
    uint64_t granted;

    do {
        used = USED(word) > n ? USED(word) - n : 0;
        granted = GRANTED(word);
        if (!is_free)
            granted = granted > n ? granted - n : 0;
        else if (granted > used + credit)
            granted = used + credit;
    } while (!atomic_compare_exchange_weak(account, &word, granted << 32 | used));
    ledger_notify(ledger, device);
}

void am_ledger_uncharge(struct am_ledger *ledger, int32_t device, unsigned shard,
                        size_t size)
{
    ledger_uncharge(ledger, device, shard, size, true);
}

/* ---- streams and models ---- */

/* One writer, under the scheduler's lock, so no atomic additions. */
static void streams_count(struct ledger_stats *f, uint64_t more)
{
    uint64_t n = atomic_load_explicit(&f->n_streams, memory_order_relaxed);

    atomic_store_explicit(&f->n_streams, n + more, memory_order_relaxed);
}

void am_ledger_models_set(struct am_ledger *ledger, uint64_t n_models, uint64_t n_streams)
{
    struct ledger_stats *f = &ledger->stats[ledger->slot];

    atomic_store_explicit(&f->n_models, n_models, memory_order_relaxed);
    atomic_store_explicit(&f->n_model_streams, n_streams, memory_order_relaxed);
}

struct am_ledger_stream *am_ledger_stream_add(struct am_ledger *ledger, int32_t id,
                                              int32_t device)
{
    struct ledger_stats *f = &ledger->stats[ledger->slot];

    streams_count(f, 1);
    for (size_t i = 0; i < AM_LEDGER_STREAMS; i++) {
        struct am_ledger_stream *stream = &f->streams[i];

        if (atomic_load_explicit(&stream->id, memory_order_relaxed) != 0)
            continue;
        stream->device = device;
        atomic_store_explicit(&stream->is_waiting, 0, memory_order_relaxed);
        atomic_store_explicit(&stream->id, id, memory_order_release);
        return stream;
    }
    return NULL;
}

void am_ledger_stream_remove(struct am_ledger *ledger, struct am_ledger_stream *stream)
{
    streams_count(&ledger->stats[ledger->slot], UINT64_MAX);
    if (stream != NULL)
        atomic_store_explicit(&stream->id, 0, memory_order_relaxed);
}

/* Whether a process had this slot, and died. */
static bool is_dead(const struct am_ledger *ledger, unsigned slot)
{
    return slot != ledger->slot && ledger->slots[slot].is_used != 0 &&
           !ledger_is_locked(ledger->fd, slot);
}

size_t am_ledger_in_use(struct am_ledger *ledger, int32_t device)
{
    unsigned high = ledger_slots_high(ledger);
    unsigned i = 0;

    while (i < high && !is_dead(ledger, i))
        i++;
    if (i < high && ledger_lock(ledger, NULL)) {
        ledger_reap_locked(ledger);
        ledger_unlock(ledger);
    }
    return ledger_clamp(&ledger->config, device, device_sum(ledger, device, false));
}

/* ---- the other processes ---- */

#define NAMED_MAX 3 /* processes that a message names */

/* A process, or none if the size is 0. */
struct holder {
    unsigned slot;
    uint64_t size;
};

/* The process that holds most, except this one and the n that are named already. */
static struct holder holder_next(const struct am_ledger *ledger, int32_t device,
                                 const struct holder *named, unsigned n)
{
    unsigned high = ledger_slots_high(ledger);
    struct holder most = {0};

    for (unsigned i = 0; i < high; i++) {
        uint64_t size = ledger_used(ledger, i, device);
        bool is_named = i == ledger->slot;

        for (unsigned k = 0; k < n; k++)
            is_named |= named[k].slot == i; /* sizes may have changed */
        if (!is_named && size > most.size)
            most = (struct holder){i, size};
    }
    return most;
}

void am_ledger_who(struct am_ledger *ledger, int32_t device, char *ret_text)
{
    uint64_t shared = ledger_clamp(&ledger->config, device, ledger->head->shared[device]);
    struct holder named[NAMED_MAX];
    const char *comma = " (";
    size_t used = 0;

    ret_text[0] = '\0';
    for (unsigned n = 0; n < NAMED_MAX; n++) {
        struct holder holder = holder_next(ledger, device, named, n);
        char name[LEDGER_NAME_TEXT];

        if (holder.size == 0)
            break;
        named[n] = holder;
        ledger_name(&ledger->slots[holder.slot], name);
        used += (size_t)snprintf(ret_text + used, AM_LEDGER_WHO - used,
                                 "%s%llu by process %s", comma,
                                 (unsigned long long)holder.size, name);
        comma = ", ";
    }
    if (shared > 0)
        used += (size_t)snprintf(ret_text + used, AM_LEDGER_WHO - used, "%s%llu shared",
                                 comma, (unsigned long long)shared);
    if (used > 0)
        snprintf(ret_text + used, AM_LEDGER_WHO - used, ")");
}

/* ---- processes of a device ---- */

aclError am_ledger_use(struct am_ledger *ledger, int32_t device, unsigned limit)
{
    _Atomic uint64_t *mine = &ledger->slots[ledger->slot].uses;
    char why[LEDGER_WHY];
    unsigned n = 0;

    if (*mine >> device & 1)
        return ACL_SUCCESS;
    if (!ledger_lock(ledger, why))
        return am_fail(ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, "%s", why);
    ledger_reap_locked(ledger);
    for (unsigned i = 0; i < ledger_slots_high(ledger); i++)
        n += (ledger->slots[i].uses >> device & 1) != 0;
    if (n < limit)
        atomic_fetch_or(mine, UINT64_C(1) << device);
    ledger_unlock(ledger);
    AM_REQUIRE(n < limit, ACL_ERROR_RT_RESOURCE_ALLOC_FAIL,
               "device %d is used by %u processes, which is the limit of this product; "
               "end one, or let it reset the device (aclmem info lists them)",
               device, n);
    return ACL_SUCCESS;
}

void am_ledger_unuse(struct am_ledger *ledger, int32_t device)
{
    atomic_fetch_and(&ledger->slots[ledger->slot].uses, ~(UINT64_C(1) << device));
}

/* ---- dead processes ---- */

/* Its shares first: the slot may be reused only when no share names it. */
void ledger_reap_slot_locked(struct am_ledger *ledger, unsigned slot)
{
    unsigned high = ledger_shares_high(ledger);
    struct ledger_slot *dead = &ledger->slots[slot];

    if (dead->is_used != 0) {
        for (unsigned i = 0; i < high; i++)
            ledger_share_drop_locked(ledger, i, slot);
    }
    am_step();
    for (unsigned i = 0; i < LEDGER_SHARDS; i++) {
        for (int d = 0; d < AM_LEDGER_DEVICES; d++)
            ledger->shards[slot][i].account[d] = 0;
    }
    am_step();
    dead->uses = 0;
    am_step();
    dead->is_used = 0;
}

void ledger_reap_locked(struct am_ledger *ledger)
{
    unsigned high = ledger_slots_high(ledger);

    for (unsigned i = 0; i < high; i++) {
        if (is_dead(ledger, i))
            ledger_reap_slot_locked(ledger, i);
    }
    /* Sums need not include free slots at the end. */
    while (high > ledger->slot + 1 && ledger->slots[high - 1].is_used == 0)
        high--;
    ledger->head->slots_high = high;
}
