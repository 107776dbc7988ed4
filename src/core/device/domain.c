/* See domain.h. */
#include "core/device/domain.h"
#include "core/device/setup.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "acl/error_codes/rt_error_codes.h"
#include "base/error.h"
#include "base/options.h"
#include "base/sys.h"
#include "base/util.h"

struct am_reclaim am_reclaim;

bool am_domain_shares_gpu(const struct am_domain *domain, const struct am_domain *other)
{
    int32_t n_gpus;

    if (domain == other || domain->device < 0 || other->device < 0 ||
        !(am_setup.backend->caps & AM_CAP_DEVICES))
        return domain == other;
    n_gpus = am_setup.backend->device_count();
    return domain->driver % n_gpus == other->driver % n_gpus;
}

size_t am_domain_idle(struct am_domain *domain)
{
    return am_reclaim.idle != NULL ? am_reclaim.idle(domain) : 0;
}

bool am_domain_trim(struct am_domain *domain)
{
    bool has_any = am_reclaim.collect != NULL && am_reclaim.collect();

    return (am_reclaim.trim != NULL && am_reclaim.trim(domain)) || has_any;
}

#define CLOSED 1u /* in `entered` */

aclError am_domain_create(int32_t device, int32_t driver, size_t capacity,
                          struct am_ledger *ledger, struct am_domain **ret_domain)
{
    struct am_domain *domain = am_sys_aligned_alloc(AM_SHARD_STRIDE, sizeof *domain);
    aclError rc = ACL_SUCCESS;

    AM_REQUIRE(domain != NULL, ACL_ERROR_BAD_ALLOC,
               "no host memory for the records of device %d", device);
    memset(domain, 0, sizeof *domain);
    if (ledger != NULL)
        domain->ledger = am_ledger_ref(ledger);
    else
        rc = am_ledger_open(&(struct am_ledger_config){.capacity = {capacity}},
                            &domain->ledger);
    if (rc != ACL_SUCCESS) {
        free(domain);
        return rc;
    }
    domain->device = device;
    domain->driver = driver;
    domain->column = device < 0 ? 0 : driver;
    domain->capacity = capacity;
    domain->is_isolated = device >= 0 && am_option_number(AM_OPTION_isolate) != 0;
    domain->commit_now = device >= 0 && am_option_number(AM_OPTION_commit) != 0;
    am_lock_init(&domain->lock, AM_RANK_DOMAIN, "domain");
    domain->refs = 1;
    *ret_domain = domain;
    return ACL_SUCCESS;
}

static void domain_free(struct am_deferred *deferred)
{
    free(AM_CONTAINER_OF(deferred, struct am_domain, deferred));
}

void am_domain_put(struct am_domain *domain)
{
    if (domain == NULL || !am_ref_drop(&domain->refs))
        return;
    am_assert(am_ledger_held(domain->ledger, domain->column) == 0);
    for (int i = 0; i < AM_BANK_COUNT; i++) {
        if (domain->bank[i] != NULL)
            domain->bank[i]->ops->bank_close(domain->bank[i]);
    }
    am_ledger_put(domain->ledger);
    am_lock_destroy(&domain->lock);
    am_epoch_defer(&domain->deferred, domain_free);
}

bool am_domain_enter(struct am_domain *domain)
{
    atomic_uint *entered = &domain->shard[am_shard()].entered;
    unsigned n = atomic_load_explicit(entered, memory_order_relaxed);

    do {
        if (n & CLOSED)
            return false;
    } while (!atomic_compare_exchange_weak(entered, &n, n + 2));
    return true;
}

void am_domain_leave(struct am_domain *domain, unsigned shard)
{
    if (atomic_fetch_sub(&domain->shard[shard].entered, 2) == (2 | CLOSED))
        am_domain_put(domain);
}

/* From now on each shard with a phys has a reference. */
void am_domain_close(struct am_domain *domain)
{
    for (unsigned i = 0; i < AM_SHARDS; i++) {
        am_ref_more(&domain->refs);
        if (atomic_fetch_or(&domain->shard[i].entered, CLOSED) == 0)
            am_domain_put(domain);
    }
}

size_t am_domain_in_use(struct am_domain *domain)
{
    return am_ledger_held(domain->ledger, domain->column) +
           am_ledger_shared(domain->ledger, domain->column);
}

/* The bytes that are left; of a device, the ledger counts all processes. */
static size_t domain_left(struct am_domain *domain)
{
    size_t used = am_ledger_in_use(domain->ledger, domain->column);

    return used < domain->capacity ? domain->capacity - used : 0;
}

aclError am_domain_use(struct am_domain *domain)
{
    if (domain->device < 0)
        return ACL_SUCCESS;
    return am_ledger_use(domain->ledger, domain->driver, am_setup.product->n_processes);
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
            asked, takes, domain->capacity - domain_left(domain), domain->capacity);
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
    if (am_ledger_charge(domain->ledger, domain->column, size) ||
        (size <= domain->capacity && am_reclaim.collect != NULL && am_reclaim.collect() &&
         am_ledger_charge(domain->ledger, domain->column, size)))
        return ACL_SUCCESS;
    return domain_fail(domain, size, asked);
}

void am_domain_uncharge(struct am_domain *domain, unsigned shard, size_t size)
{
    am_ledger_uncharge(domain->ledger, domain->column, shard, size);
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
