/* See domain.h. */
#include "core/device/domain.h"
#include "core/device/setup.h"

#include <stdio.h>

#include "acl/error_codes/rt_error_codes.h"
#include "base/error.h"
#include "base/options.h"
#include "base/sys.h"
#include "base/util.h"

#define CREDIT_MAX (8 * AM_MIB) /* of a shard, */
#define CREDIT_PART 2048        /* and at most this part of the domain */

/* Set before the first domain is created. */
static bool (*collect)(void);

void am_domain_set_collect(bool (*hook)(void))
{
    collect = hook;
}

size_t am_domain_idle(struct am_domain *domain)
{
    return domain->reclaim != NULL ? domain->reclaim->idle(domain) : 0;
}

/* ---- credits ---- */

/* Takes the bytes from the shard's credit; false where there is not enough. */
static bool credit_take(struct am_domain *domain, size_t size)
{
    atomic_size_t *credit = &domain->part[am_shard()].credit;
    size_t left = atomic_load_explicit(credit, memory_order_relaxed);

    while (left >= size) {
        if (atomic_compare_exchange_weak(credit, &left, left - size))
            return true;
    }
    return false;
}

/* Leaves the bytes to the shard; false where it keeps none, or has enough. */
static bool credit_retain(struct am_domain *domain, size_t size)
{
    union am_domain_part *part = &domain->part[am_shard()];
    size_t left = atomic_load_explicit(&part->credit, memory_order_relaxed);

    if (!atomic_load_explicit(&part->keeps, memory_order_relaxed))
        return false;
    while (size <= domain->credit_max && left <= domain->credit_max - size) {
        if (atomic_compare_exchange_weak(&part->credit, &left, left + size))
            return true;
    }
    return false;
}

/* From now on the shard keeps a credit. */
static void credit_open(struct am_domain *domain)
{
    domain->has_credits = true;
    domain->part[am_shard()].keeps = true;
}

static size_t credits_sum(struct am_domain *domain)
{
    size_t sum = 0;

    for (unsigned i = 0; domain->has_credits && i < AM_SHARDS; i++)
        sum += atomic_load_explicit(&domain->part[i].credit, memory_order_relaxed);
    return sum;
}

static void domain_uncharge(struct am_domain *domain, size_t size)
{
    if (domain->ledger != NULL)
        am_ledger_uncharge(domain->ledger, domain->driver, size);
    atomic_fetch_sub(&domain->used, size);
}

/* False: there were none. */
static bool credits_release(struct am_domain *domain)
{
    size_t sum = 0;

    for (unsigned i = 0; i < AM_SHARDS; i++)
        sum += atomic_exchange(&domain->part[i].credit, 0);
    if (sum > 0)
        domain_uncharge(domain, sum);
    return sum > 0;
}

/* Bytes that are charged and not in use are released; false: there were none. */
static bool charges_release(struct am_domain *domain)
{
    bool has_any = collect != NULL && collect();

    return credits_release(domain) || has_any;
}

bool am_domain_trim(struct am_domain *domain)
{
    bool has_any = charges_release(domain);

    return (domain->reclaim != NULL && domain->reclaim->trim(domain)) || has_any;
}

/* ---- life ---- */

static void part_init(union am_domain_part *part)
{
    am_lock_init(&part->lock, AM_RANK_DOMAIN, "domain's list");
    LIST_INIT(&part->physes);
}

aclError am_domain_create(int32_t device, int32_t driver, size_t capacity,
                          struct am_domain **ret_domain)
{
    struct am_domain *domain = am_sys_calloc(1, sizeof *domain);

    AM_REQUIRE(domain != NULL, ACL_ERROR_BAD_ALLOC,
               "no host memory for the records of device %d", device);
    domain->device = device;
    domain->driver = driver;
    domain->capacity = capacity;
    domain->is_isolated = device >= 0 && am_option_number(AM_OPTION_isolate) != 0;
    domain->commit_now = device >= 0 && am_option_number(AM_OPTION_commit) != 0;
    am_lock_init(&domain->lock, AM_RANK_DOMAIN, "domain");
    domain->credit_max = capacity / CREDIT_PART & ~(AM_CHUNK - 1);
    if (domain->credit_max > CREDIT_MAX)
        domain->credit_max = CREDIT_MAX;
    for (unsigned i = 0; i < AM_SHARDS; i++)
        part_init(&domain->part[i]);
    domain->refs = 1 + AM_SHARDS;
    *ret_domain = domain;
    return ACL_SUCCESS;
}

void am_domain_enter(struct am_domain *domain, struct am_ledger *ledger)
{
    domain->ledger = am_ledger_ref(ledger);
}

static void domain_free(struct am_deferred *deferred)
{
    free(AM_CONTAINER_OF(deferred, struct am_domain, deferred));
}

void am_domain_put(struct am_domain *domain)
{
    if (domain == NULL || !am_ref_drop(&domain->refs))
        return;
    credits_release(domain);
    am_assert(domain->used == 0);
    for (int i = 0; i < AM_BANK_COUNT; i++) {
        if (domain->bank[i] != NULL)
            domain->bank[i]->ops->bank_close(domain->bank[i]);
    }
    am_ledger_put(domain->ledger);
    am_lock_destroy(&domain->lock);
    am_epoch_defer(&domain->deferred, domain_free);
}

struct am_domain *am_domain_get(_Atomic(struct am_domain *) *slot)
{
    struct am_domain *domain = atomic_load_explicit(slot, memory_order_acquire);

    return domain != NULL && am_ref_try(&domain->refs) ? domain : NULL;
}

/*
 * The part of the credits that was there before the charges were read, and still is.  Memory that another
 * thread releases between the two reads is not charged any more, and must not be subtracted.
 */
static size_t credits_still(struct am_domain *domain, size_t before)
{
    size_t now = before != 0 ? credits_sum(domain) : 0;

    return now < before ? now : before;
}

size_t am_domain_in_use(struct am_domain *domain)
{
    size_t before = credits_sum(domain);
    size_t used = domain->used;
    size_t idle = credits_still(domain, before);
    size_t shared =
        domain->ledger != NULL ? am_ledger_shared(domain->ledger, domain->driver) : 0;

    return (used > idle ? used - idle : 0) + shared;
}

/* The bytes that are left; of a device, the ledger counts all processes. */
static size_t domain_left(struct am_domain *domain)
{
    size_t before = credits_sum(domain);
    size_t used = domain->ledger != NULL
                      ? am_ledger_in_use(domain->ledger, domain->driver)
                      : (size_t)domain->used;
    size_t idle = credits_still(domain, before);

    used = used > idle ? used - idle : 0;
    return used < domain->capacity ? domain->capacity - used : 0;
}

aclError am_domain_use(struct am_domain *domain)
{
    if (domain->ledger == NULL)
        return ACL_SUCCESS;
    return am_ledger_use(domain->ledger, domain->driver, am_setup.product->n_processes);
}

void am_domain_unuse(struct am_domain *domain)
{
    credits_release(domain);
    if (domain->ledger != NULL)
        am_ledger_unuse(domain->ledger, domain->driver);
}

aclError am_domain_free(struct am_domain *domain, size_t *ret_size)
{
    size_t left = domain_left(domain);
    struct am_bank *bank;
    size_t real = 0;

    if (am_setup.backend->caps & AM_CAP_DEVICES) {
        AM_TRY(am_domain_bank(domain, AM_BANK_MAIN, &bank));
        AM_TRY(bank->ops->bank_free(bank, &real));
        real += am_domain_idle(domain); /* the device does not know that these are free */
        left = real < left ? real : left;
    }
    *ret_size = left;
    return ACL_SUCCESS;
}

static void domain_note_peak(struct am_domain *domain, size_t used)
{
    size_t peak = domain->peak;

    while (peak < used && !atomic_compare_exchange_weak(&domain->peak, &peak, used))
        ;
}

static bool domain_try_charge(struct am_domain *domain, size_t size)
{
    size_t used;

    if (credit_take(domain, size))
        return true;
    used = domain->used; /* a line that other threads may be writing to */
    for (;;) {
        if (size > domain->capacity - used)
            return false;
        if (atomic_compare_exchange_strong(&domain->used, &used, used + size))
            break;
        credit_open(domain); /* another thread is at it, too */
    }
    if (domain->ledger != NULL &&
        !am_ledger_try_charge(domain->ledger, domain->driver, size) &&
        !am_ledger_charge(domain->ledger, domain->driver, size)) {
        atomic_fetch_sub(&domain->used, size);
        return false;
    }
    domain_note_peak(domain, used + size);
    return true;
}

static aclError domain_fail(struct am_domain *domain, size_t size, size_t asked)
{
    char who[AM_LEDGER_WHO];
    char takes[64] = "";

    if (size != asked)
        snprintf(takes, sizeof takes, ", which take %zu in whole pages", size);
    if (domain->device < 0)
        return am_fail(
            ACL_ERROR_RT_MEMORY_ALLOCATION,
            "Failed to allocate %zu bytes of host memory%s: %zu of %zu (a quarter of "
            "the machine's memory) are in use",
            asked, takes, (size_t)domain->used, domain->capacity);
    am_ledger_who(domain->ledger, domain->driver, who);
    return am_fail(
        ACL_ERROR_RT_MEMORY_ALLOCATION,
        "Failed to allocate %zu bytes on device %d%s: %zu of %zu are in use%s; free "
        "some, or give the device more with ACLMEM_MEMORY",
        asked, domain->device, takes, domain->capacity - domain_left(domain),
        domain->capacity, who);
}

aclError am_domain_charge(struct am_domain *domain, size_t size, size_t asked)
{
    AM_TRY(am_domain_use(domain));
    if (domain_try_charge(domain, size))
        return ACL_SUCCESS;
    if (size <= domain->capacity && charges_release(domain) &&
        domain_try_charge(domain, size))
        return ACL_SUCCESS;
    return domain_fail(domain, size, asked);
}

void am_domain_uncharge(struct am_domain *domain, size_t size)
{
    if (!credit_retain(domain, size))
        domain_uncharge(domain, size);
}

aclError am_domain_share(struct am_domain *domain, size_t size, uint64_t *ret_share)
{
    AM_TRY(am_ledger_share_add(domain->ledger, domain->driver, size, ret_share));
    atomic_fetch_sub(&domain->used, size);
    return ACL_SUCCESS;
}

void am_domain_close(struct am_domain *domain)
{
    for (unsigned i = 0; i < AM_SHARDS; i++) {
        bool is_empty;

        am_lock(&domain->part[i].lock);
        domain->part[i].is_closed = true;
        is_empty = domain->part[i].n_physes == 0;
        am_unlock(&domain->part[i].lock);
        if (is_empty)
            am_domain_put(domain); /* not the last one: the caller has a reference */
    }
}

/* The kind of bank that the options ask for. */
static struct am_bank_spec bank_spec(const struct am_domain *domain,
                                     enum am_bank_kind kind)
{
    bool is_main = kind == AM_BANK_MAIN;

    return (struct am_bank_spec){
        .device = domain->device,
        .driver = domain->driver,
        /* And what heaps keep without a charge: a sixteenth, and as much while it is freed. */
        .capacity = domain->capacity + am_align_up(domain->capacity / 8, AM_CHUNK),
        .is_isolated = is_main && domain->is_isolated,
        .commit_now = is_main && domain->commit_now,
        .is_pinned = kind == AM_BANK_PINNED,
    };
}

aclError am_domain_bank(struct am_domain *domain, enum am_bank_kind kind,
                        struct am_bank **ret_bank)
{
    struct am_bank_spec spec;
    struct am_bank *bank =
        atomic_load_explicit(&domain->bank[kind], memory_order_acquire);
    aclError rc = ACL_SUCCESS;

    if (bank == NULL) {
        spec = bank_spec(domain, kind);
        am_lock(&domain->lock);
        bank = domain->bank[kind];
        if (bank == NULL)
            rc = am_setup.backend->bank_open(&spec, &bank);
        if (rc == ACL_SUCCESS)
            atomic_store_explicit(&domain->bank[kind], bank, memory_order_release);
        am_unlock(&domain->lock);
    }
    if (rc == ACL_SUCCESS)
        *ret_bank = bank;
    return rc;
}
