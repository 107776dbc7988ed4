/* See domain.h. */
#include "core/device/domain.h"
#include "core/device/setup.h"

#include <stdio.h>

#include "acl/error_codes/rt_error_codes.h"
#include "base/error.h"
#include "base/options.h"
#include "base/slab.h"
#include "base/util.h"

static struct am_slab domain_slab = AM_SLAB_INIT(struct am_domain, "domain slab");
/* Set before the first domain is made; NULL: nothing is kept for later. */
static const struct am_reclaim *reclaim;

void am_domain_set_reclaim(const struct am_reclaim *hooks)
{
    reclaim = hooks;
}

size_t am_domain_idle(struct am_domain *domain)
{
    return reclaim != NULL ? reclaim->idle(domain) : 0;
}

bool am_domain_trim(struct am_domain *domain)
{
    return reclaim != NULL && reclaim->trim(domain);
}

aclError am_domain_create(int32_t device, int32_t driver, size_t capacity,
                          struct am_domain **ret_domain)
{
    struct am_domain *domain = am_slab_take(&domain_slab);

    if (domain == NULL)
        return am_fail(ACL_ERROR_BAD_ALLOC, "no host memory for the records of device %d",
                       device);
    domain->device = device;
    domain->driver = driver;
    domain->capacity = capacity;
    domain->ledger = NULL;
    domain->used = 0;
    domain->is_isolated = device >= 0 && am_option_number(AM_OPTION_isolate) != 0;
    domain->commit_now = device >= 0 && am_option_number(AM_OPTION_commit) != 0;
    domain->is_closed = false;
    domain->peak = 0;
    for (int i = 0; i < AM_BANK_COUNT; i++)
        domain->bank[i] = NULL;
    am_lock_init(&domain->lock, AM_RANK_DOMAIN, "domain");
    LIST_INIT(&domain->all);
    atomic_store_explicit(&domain->refs, 1, memory_order_release);
    *ret_domain = domain;
    return ACL_SUCCESS;
}

void am_domain_enter(struct am_domain *domain, struct am_ledger *ledger)
{
    domain->ledger = am_ledger_ref(ledger);
}

void am_domain_put(struct am_domain *domain)
{
    if (domain == NULL || !am_ref_drop(&domain->refs))
        return;
    am_assert(domain->used == 0 && LIST_EMPTY(&domain->all));
    for (int i = 0; i < AM_BANK_COUNT; i++) {
        if (domain->bank[i] != NULL)
            domain->bank[i]->ops->bank_close(domain->bank[i]);
    }
    am_ledger_put(domain->ledger);
    am_lock_destroy(&domain->lock);
    am_slab_give(&domain_slab, domain);
}

struct am_domain *am_domain_get(_Atomic(struct am_domain *) *slot)
{
    for (;;) {
        struct am_domain *domain = atomic_load_explicit(slot, memory_order_acquire);

        if (domain == NULL)
            return NULL;
        if (!am_ref_try(&domain->refs))
            continue;
        if (atomic_load_explicit(slot, memory_order_acquire) == domain)
            return domain;
        am_domain_put(domain);
    }
}

size_t am_domain_in_use(struct am_domain *domain)
{
    size_t idle = am_domain_idle(domain);
    size_t used = domain->used;
    size_t shared =
        domain->ledger != NULL ? am_ledger_shared(domain->ledger, domain->driver) : 0;

    return (used > idle ? used - idle : 0) + shared;
}

/* The bytes that the ledger has left; for a device, that of all processes. */
static size_t domain_left(struct am_domain *domain)
{
    size_t idle = am_domain_idle(domain);
    size_t used = domain->ledger != NULL
                      ? am_ledger_in_use(domain->ledger, domain->driver)
                      : (size_t)domain->used;

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
    if (domain->ledger != NULL)
        am_ledger_unuse(domain->ledger, domain->driver);
}

aclError am_domain_free(struct am_domain *domain, size_t *ret_size)
{
    size_t left = domain_left(domain);
    struct am_bank *bank;
    size_t real = 0;
    aclError rc;

    if (am_setup.backend->caps & AM_CAP_DEVICES) {
        rc = am_domain_bank(domain, AM_BANK_MAIN, &bank);
        if (rc == ACL_SUCCESS)
            rc = bank->ops->bank_free(bank, &real);
        if (rc != ACL_SUCCESS)
            return rc;
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
    size_t used = domain->used;

    do {
        if (size > domain->capacity - used)
            return false;
    } while (!atomic_compare_exchange_weak(&domain->used, &used, used + size));
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
    aclError rc = am_domain_use(domain);

    if (rc != ACL_SUCCESS)
        return rc;
    if (domain_try_charge(domain, size))
        return ACL_SUCCESS;
    if (size <= domain->capacity && am_domain_trim(domain) &&
        domain_try_charge(domain, size))
        return ACL_SUCCESS;
    return domain_fail(domain, size, asked);
}

void am_domain_uncharge(struct am_domain *domain, size_t size)
{
    if (domain->ledger != NULL)
        am_ledger_uncharge(domain->ledger, domain->driver, size);
    atomic_fetch_sub(&domain->used, size);
}

aclError am_domain_share(struct am_domain *domain, size_t size, uint64_t *ret_share)
{
    aclError rc = am_ledger_share_add(domain->ledger, domain->driver, size, ret_share);

    if (rc == ACL_SUCCESS)
        atomic_fetch_sub(&domain->used, size);
    return rc;
}

void am_domain_close(struct am_domain *domain)
{
    am_lock(&domain->lock);
    domain->is_closed = true;
    am_unlock(&domain->lock);
}

/* The kind of bank that the options ask for. */
static struct am_bank_spec bank_spec(const struct am_domain *domain,
                                     enum am_bank_kind kind)
{
    bool is_main = kind == AM_BANK_MAIN;

    return (struct am_bank_spec){
        .device = domain->device,
        .driver = domain->driver,
        .capacity = domain->capacity,
        .is_isolated = is_main && domain->is_isolated,
        .commit_now = is_main && domain->commit_now,
        .is_pinned = kind == AM_BANK_PINNED,
    };
}

aclError am_domain_bank(struct am_domain *domain, enum am_bank_kind kind,
                        struct am_bank **ret_bank)
{
    struct am_bank_spec spec = bank_spec(domain, kind);
    aclError rc = ACL_SUCCESS;

    am_lock(&domain->lock);
    if (domain->bank[kind] == NULL)
        rc = am_setup.backend->bank_open(&spec, &domain->bank[kind]);
    if (rc == ACL_SUCCESS)
        *ret_bank = domain->bank[kind];
    am_unlock(&domain->lock);
    return rc;
}
