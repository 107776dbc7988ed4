/*
 * A memory domain: the memory of one device, or of the host.
 *
 * A domain knows how much memory there is and how much of it this process was promised,
 * and has the backend's bank that holds the bytes, opened when the first memory is asked
 * for.  The memory of a device is counted over all processes, in the ledger; the host's in
 * a private ledger.  A domain is created when the library starts.  Memory that is in use when the
 * library stops keeps its domain, and the next start creates a new one: the library has a
 * reference, and after the stop each shard with a phys in the domain has one.
 */
#ifndef AM_CORE_DOMAIN_H
#define AM_CORE_DOMAIN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "acl/acl_base.h"
#include "backend/backend.h"
#include "base/epoch.h"
#include "base/lock.h"
#include "core/ledger/ledger.h"

/* Pinned memory is the program's own to touch, whatever the domain's other memory is. */
enum am_bank_kind { AM_BANK_MAIN, AM_BANK_PINNED, AM_BANK_COUNT };

/* Twice the number of physes that threads of a shard entered, and a bit: closed. */
struct am_domain_shard {
    _Alignas(AM_SHARD_STRIDE) atomic_uint entered;
};

struct am_domain {
    atomic_uint refs;
    int32_t device; /* logical id; -1: the host */
    int32_t driver; /* the driver's id of the same */
    size_t capacity;
    struct am_ledger *ledger; /* of the host: a private one */
    int32_t column;           /* in the ledger: the driver's id, or 0 for the host */
    bool is_isolated;         /* the options of the library's start, for the bank */
    bool commit_now;
    _Atomic(struct am_bank *) bank[AM_BANK_COUNT]; /* NULL until it is needed */
    struct am_lock lock;                           /* acquired to open a bank */
    struct am_deferred deferred;
    struct am_domain_shard shard[AM_SHARDS];
};

/* Usage is entered in the ledger; NULL: the memory is the host's. */
aclError am_domain_create(int32_t device, int32_t driver, size_t capacity,
                          struct am_ledger *ledger, struct am_domain **ret_domain);
void am_domain_put(struct am_domain *domain);

/*
 * Bytes that the program has allocated, with shared memory; memory that the heaps keep
 * for reuse is not counted.
 */
size_t am_domain_in_use(struct am_domain *domain);
/*
 * The process uses the device, if it does not already: 207005 when too many do.  It ends
 * with am_ledger_unuse().
 */
aclError am_domain_use(struct am_domain *domain);

/* Bytes that can still be allocated, if the device really has them. */
aclError am_domain_free(struct am_domain *domain, size_t *ret_size);

/*
 * Charges `size` bytes, or fails with 207001 and a message about the bytes that the
 * program asked for.  Uncharging needs am_shard() of the thread that charged.
 */
aclError am_domain_charge(struct am_domain *domain, size_t size, size_t asked);
void am_domain_uncharge(struct am_domain *domain, unsigned shard, size_t size);

/*
 * Memory that is not in use and not free: heaps keep some for reuse, without a charge, and work
 * that a device has done keeps what the program has freed until a thread asks the device.
 * Set before the first domain is created.
 */
struct am_reclaim {
    size_t (*idle)(struct am_domain *domain); /* bytes that heaps keep */
    bool (*trim)(struct am_domain *domain);   /* frees them; false: there were none */
    bool (*collect)(void); /* asks the devices; false: no work was done since */
};
extern struct am_reclaim am_reclaim;
/* Whether both devices are on one GPU (ACLMEM_DEVICES above the number of GPUs). */
bool am_domain_shares_gpu(const struct am_domain *domain, const struct am_domain *other);
/* What heaps keep, and freeing all of it, for all devices on the GPU of the domain. */
size_t am_domain_idle(struct am_domain *domain);
bool am_domain_trim(struct am_domain *domain);

/*
 * The domain exists until memory that was entered leaves; false: the library is stopping.
 * Memory leaves from the shard of the thread that entered.
 */
bool am_domain_enter(struct am_domain *domain);
void am_domain_leave(struct am_domain *domain, unsigned shard);
/* No memory is entered from now on. */
void am_domain_close(struct am_domain *domain);

/* The bank, opened if need be. */
aclError am_domain_bank(struct am_domain *domain, enum am_bank_kind kind,
                        struct am_bank **ret_bank);

#endif
