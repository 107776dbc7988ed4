/*
 * Where physical memory lives: one device's memory, or the host's.
 *
 * A place knows how much there is and how much of it this process was promised, and has the
 * backend's bank that holds the bytes, opened when the first memory is asked for.  What a
 * device has is counted over all processes, in the ledger; what the host has, in each.  A
 * place is made when the library starts; the library and every piece of memory hold a reference, so memory
 * that is still in use when the library stops keeps its place, and the next start makes a
 * new one.
 */
#ifndef AM_CORE_PLACE_H
#define AM_CORE_PLACE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "acl/acl_base.h"
#include "backend/backend.h"
#include "base/lock.h"
#include "core/ledger/ledger.h"

struct am_phys;

/* Pinned memory is the program's own to touch, whatever the place's other memory is. */
enum am_bank_kind { AM_BANK_MAIN, AM_BANK_PINNED, AM_BANK_COUNT };

struct am_place {
    atomic_uint refs;
    int32_t device; /* logical id; -1: the host */
    int32_t driver; /* the driver's id of the same */
    size_t capacity;
    struct am_ledger *ledger; /* NULL: what is used is counted here alone */
    atomic_size_t used; /* promised to physical memory and heaps here; <= capacity */
    atomic_size_t peak; /* the most that used ever was */
    bool is_isolated;   /* the options of the library's start, for the bank */
    bool commit_now;
    struct am_lock lock;
    bool is_closed; /* lock; the library stops: nothing comes any more */
    struct am_bank *bank[AM_BANK_COUNT]; /* lock; NULL until it is needed */
    LIST_HEAD(am_physes, am_phys) all;   /* lock; the physical memory of this place */
};

aclError am_place_create(int32_t device, int32_t driver, size_t capacity,
                         struct am_place **ret_place);
/* From now on, and before anything else, what is used is entered in the ledger. */
void am_place_enter(struct am_place *place, struct am_ledger *ledger);
void am_place_put(struct am_place *place);

/*
 * One more reference to the place that *slot points to; NULL when the library just
 * stopped.
 */
struct am_place *am_place_get(_Atomic(struct am_place *) *slot);

/*
 * Bytes that the program has, with those it shares with others: what the heaps keep for
 * later is not counted.
 */
size_t am_place_in_use(struct am_place *place);
/*
 * The process uses the device, if it does not already: 207005 when too many do.  It ends
 * with am_place_unuse().
 */
aclError am_place_use(struct am_place *place);
void am_place_unuse(struct am_place *place);

/*
 * Bytes that can still be had: what nobody has, and what the heaps here keep for later, if
 * the device really has it.
 */
aclError am_place_free(struct am_place *place, size_t *ret_size);

/*
 * Promise `size` bytes, or fail with 207001 and a message about the bytes that were asked
 * for.  What the heaps keep for later is given up first.
 */
aclError am_place_charge(struct am_place *place, size_t size, size_t asked);
void am_place_uncharge(struct am_place *place, size_t size);

/*
 * `size` bytes that were charged become a share of the ledger, which is left with
 * am_ledger_share_leave() instead of am_place_uncharge().
 */
aclError am_place_share(struct am_place *place, size_t size, uint64_t *ret_share);

/*
 * Memory that is charged to a place but idle: the heaps keep empty runs for later.  The
 * heaps register how to count it and how to get it back, so that a place needs to know
 * nothing of them.
 */
struct am_reclaim {
    size_t (*idle)(struct am_place *place); /* bytes */
    bool (*trim)(struct am_place *place);   /* gives them up; false: there were none */
};
void am_place_set_reclaim(const struct am_reclaim *reclaim);
/* The same two, by whatever is registered. */
size_t am_place_idle(struct am_place *place);
bool am_place_trim(struct am_place *place);

/* No memory enters the place from now on. */
void am_place_close(struct am_place *place);

/* The bank, opened if need be. */
aclError am_place_bank(struct am_place *place, enum am_bank_kind kind,
                       struct am_bank **ret_bank);

#endif
