/* See place.h. */
#include "core/device/place.h"
#include "core/device/setup.h"

#include <stdio.h>

#include "acl/error_codes/rt_error_codes.h"
#include "base/error.h"
#include "base/options.h"
#include "base/slab.h"
#include "base/util.h"

static struct am_slab place_slab = AM_SLAB_INIT(struct am_place, "place slab");
/* Set before the first place is made; NULL: nothing is kept for later. */
static const struct am_reclaim *reclaim;

void am_place_set_reclaim(const struct am_reclaim *hooks)
{
    reclaim = hooks;
}

size_t am_place_idle(struct am_place *place)
{
    return reclaim != NULL ? reclaim->idle(place) : 0;
}

bool am_place_trim(struct am_place *place)
{
    return reclaim != NULL && reclaim->trim(place);
}

aclError am_place_create(int32_t device, int32_t driver, size_t capacity,
                         struct am_place **ret_place)
{
    struct am_place *place = am_slab_take(&place_slab);

    if (place == NULL)
        return am_fail(ACL_ERROR_BAD_ALLOC, "no memory for the books of device %d",
                       device);
    place->device = device;
    place->driver = driver;
    place->capacity = capacity;
    place->ledger = NULL;
    place->used = 0;
    place->is_isolated = device >= 0 && am_option_number(AM_OPTION_isolate) != 0;
    place->commit_now = device >= 0 && am_option_number(AM_OPTION_commit) != 0;
    place->is_closed = false;
    place->peak = 0;
    for (int i = 0; i < AM_BANK_COUNT; i++)
        place->bank[i] = NULL;
    am_lock_init(&place->lock, AM_RANK_PLACE, "place");
    LIST_INIT(&place->all);
    atomic_store_explicit(&place->refs, 1, memory_order_release);
    *ret_place = place;
    return ACL_SUCCESS;
}

void am_place_enter(struct am_place *place, struct am_ledger *ledger)
{
    place->ledger = am_ledger_ref(ledger);
}

void am_place_put(struct am_place *place)
{
    if (place == NULL || !am_ref_drop(&place->refs))
        return;
    am_assert(place->used == 0 && LIST_EMPTY(&place->all));
    for (int i = 0; i < AM_BANK_COUNT; i++) {
        if (place->bank[i] != NULL)
            place->bank[i]->ops->bank_close(place->bank[i]);
    }
    am_ledger_put(place->ledger);
    am_lock_destroy(&place->lock);
    am_slab_give(&place_slab, place);
}

struct am_place *am_place_get(_Atomic(struct am_place *) *slot)
{
    for (;;) {
        struct am_place *place = atomic_load_explicit(slot, memory_order_acquire);

        if (place == NULL)
            return NULL;
        if (!am_ref_try(&place->refs))
            continue;
        if (atomic_load_explicit(slot, memory_order_acquire) == place)
            return place;
        am_place_put(place);
    }
}

size_t am_place_in_use(struct am_place *place)
{
    size_t idle = am_place_idle(place);
    size_t used = place->used;
    size_t shared =
        place->ledger != NULL ? am_ledger_shared(place->ledger, place->driver) : 0;

    return (used > idle ? used - idle : 0) + shared;
}

/* What the books leave: of a device, those of all processes. */
static size_t place_left(struct am_place *place)
{
    size_t idle = am_place_idle(place);
    size_t used = place->ledger != NULL ? am_ledger_in_use(place->ledger, place->driver)
                                        : (size_t)place->used;

    used = used > idle ? used - idle : 0;
    return used < place->capacity ? place->capacity - used : 0;
}

aclError am_place_use(struct am_place *place)
{
    if (place->ledger == NULL)
        return ACL_SUCCESS;
    return am_ledger_use(place->ledger, place->driver, am_setup.product->n_processes);
}

void am_place_unuse(struct am_place *place)
{
    if (place->ledger != NULL)
        am_ledger_unuse(place->ledger, place->driver);
}

aclError am_place_free(struct am_place *place, size_t *ret_size)
{
    size_t left = place_left(place);
    struct am_bank *bank;
    size_t real = 0;
    aclError rc;

    if (am_setup.backend->caps & AM_CAP_DEVICES) {
        rc = am_place_bank(place, AM_BANK_MAIN, &bank);
        if (rc == ACL_SUCCESS)
            rc = bank->ops->bank_free(bank, &real);
        if (rc != ACL_SUCCESS)
            return rc;
        real += am_place_idle(place); /* the device does not know that these are free */
        left = real < left ? real : left;
    }
    *ret_size = left;
    return ACL_SUCCESS;
}

static void place_note_peak(struct am_place *place, size_t used)
{
    size_t peak = place->peak;

    while (peak < used && !atomic_compare_exchange_weak(&place->peak, &peak, used))
        ;
}

static bool place_try_charge(struct am_place *place, size_t size)
{
    size_t used = place->used;

    do {
        if (size > place->capacity - used)
            return false;
    } while (!atomic_compare_exchange_weak(&place->used, &used, used + size));
    if (place->ledger != NULL &&
        !am_ledger_try_charge(place->ledger, place->driver, size) &&
        !am_ledger_charge(place->ledger, place->driver, size)) {
        atomic_fetch_sub(&place->used, size);
        return false;
    }
    place_note_peak(place, used + size);
    return true;
}

static aclError place_fail(struct am_place *place, size_t size, size_t asked)
{
    char who[AM_LEDGER_WHO];
    char takes[64] = "";

    if (size != asked)
        snprintf(takes, sizeof takes, ", which take %zu in whole pages", size);
    if (place->device < 0)
        return am_fail(
            ACL_ERROR_RT_MEMORY_ALLOCATION,
            "Failed to allocate %zu bytes of host memory%s: %zu of %zu (a quarter of "
            "the machine's memory) are in use",
            asked, takes, (size_t)place->used, place->capacity);
    am_ledger_who(place->ledger, place->driver, who);
    return am_fail(
        ACL_ERROR_RT_MEMORY_ALLOCATION,
        "Failed to allocate %zu bytes on device %d%s: %zu of %zu are in use%s; free "
        "some, or give the device more with ACLMEM_MEMORY",
        asked, place->device, takes, place->capacity - place_left(place), place->capacity,
        who);
}

aclError am_place_charge(struct am_place *place, size_t size, size_t asked)
{
    aclError rc = am_place_use(place);

    if (rc != ACL_SUCCESS)
        return rc;
    if (place_try_charge(place, size))
        return ACL_SUCCESS;
    if (size <= place->capacity && am_place_trim(place) && place_try_charge(place, size))
        return ACL_SUCCESS;
    return place_fail(place, size, asked);
}

void am_place_uncharge(struct am_place *place, size_t size)
{
    if (place->ledger != NULL)
        am_ledger_uncharge(place->ledger, place->driver, size);
    atomic_fetch_sub(&place->used, size);
}

aclError am_place_share(struct am_place *place, size_t size, uint64_t *ret_share)
{
    aclError rc = am_ledger_share_add(place->ledger, place->driver, size, ret_share);

    if (rc == ACL_SUCCESS)
        atomic_fetch_sub(&place->used, size);
    return rc;
}

void am_place_close(struct am_place *place)
{
    am_lock(&place->lock);
    place->is_closed = true;
    am_unlock(&place->lock);
}

/* What kind of bank the options of the start ask for. */
static struct am_bank_spec bank_spec(const struct am_place *place, enum am_bank_kind kind)
{
    bool is_main = kind == AM_BANK_MAIN;

    return (struct am_bank_spec){
        .device = place->device,
        .driver = place->driver,
        .capacity = place->capacity,
        .is_isolated = is_main && place->is_isolated,
        .commit_now = is_main && place->commit_now,
        .is_pinned = kind == AM_BANK_PINNED,
    };
}

aclError am_place_bank(struct am_place *place, enum am_bank_kind kind,
                       struct am_bank **ret_bank)
{
    struct am_bank_spec spec = bank_spec(place, kind);
    aclError rc = ACL_SUCCESS;

    am_lock(&place->lock);
    if (place->bank[kind] == NULL)
        rc = am_setup.backend->bank_open(&spec, &place->bank[kind]);
    if (rc == ACL_SUCCESS)
        *ret_bank = place->bank[kind];
    am_unlock(&place->lock);
    return rc;
}
