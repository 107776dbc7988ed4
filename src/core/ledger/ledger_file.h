/*
 * The layout of the ledger's file and segment; only for core/ledger/ and its tests.
 *
 * The file is a label: the devices that the ledger is for, and the number of its
 * segment.  The file is read and never mapped, so a process that has the segment is not
 * affected when the file is truncated or overwritten.  The segment is System V shared memory:
 *
 *     0        head: how far it is filled, bytes in shares
 *     4096     slots, one for each process
 *     69632    shares, one for each piece of exported memory
 *     10555392 statistics of the process of each slot
 *     18944000 accounts, LEDGER_SHARDS for each slot
 *
 * A segment cannot be truncated, so access to it raises no signal.  It exists as long as a
 * process has it mapped, and only the slots below slots_high and the shares below shares_high
 * take memory.  Any process of this user may have written any byte of it, so a number is read
 * once, and checked where it is used.
 *
 * Locks are on bytes of the file far behind its end, the same ones in every version of the
 * layout: the first is the ledger's own, then every second one is a slot's.  They belong to
 * the open file, so they are released with its last descriptor.
 */
#ifndef AM_CORE_LEDGER_FILE_H
#define AM_CORE_LEDGER_FILE_H

#include <stdatomic.h>
#include <sys/queue.h>
#include <sys/types.h>

#include "base/lock.h"
#include "base/sys.h"
#include "core/ledger/ledger.h"

#define LEDGER_MAGIC "aclmemLG"
#define LEDGER_VERSION 5
#define LEDGER_SLOTS 1024 /* processes; a product allows 64 on a device */
#define LEDGER_SHARDS \
    16 /* accounts of a process: threads of different ones do not contend */
#define LEDGER_SHARES 65536 /* pieces of exported memory; 16 bits of a share's number */
#define LEDGER_LOCKS ((off_t)1 << 40)
#define LEDGER_LOCKS_ALL 65536 /* bytes for those of slots, in any version */
#define LEDGER_OPENING (LEDGER_SLOTS + 1)

/* The content of the label. Written once; magic comes first in every version. */
struct ledger_kind {
    char magic[8];
    uint32_t version;
    uint32_t n_slots, n_shares;
    uint32_t slot_size, share_size;
    int32_t n_devices;
    uint64_t identity;
    uint64_t capacity[AM_LEDGER_DEVICES];
    char backend[AM_LEDGER_NAME];
    char product[AM_LEDGER_NAME];
};

/* The file. */
struct ledger_label {
    struct ledger_kind kind;
    uint64_t id;     /* the segment has the same id */
    int32_t segment; /* the segment's number */
    int32_t
        not_segment; /* its complement: damage differs from a segment that was removed */
};

struct ledger_head {
    uint64_t id;                                /* random */
    _Atomic uint32_t slots_high;                /* slots below may be in use */
    _Atomic uint32_t shares_high;               /* the ledger's lock, as all below */
    _Atomic uint32_t share_next;                /* no share below is free */
    _Atomic uint32_t holder;                    /* of the lock: its slot + 1; 0: none */
    _Atomic uint64_t generation;                /* of the next share */
    _Atomic uint64_t shared[AM_LEDGER_DEVICES]; /* bytes in shares */
};

/* Its process writes it; the slot of a dead process is cleared under the ledger's lock. */
struct ledger_slot {
    _Atomic uint32_t is_used; /* written last, cleared last */
    int32_t pid;
    char command[AM_LEDGER_NAME];
    _Atomic uint64_t uses; /* a bit for each device */
    uint64_t rsv[4];
};

/*
 * What some threads of a process have charged.  A word of `account` has two halves, in units
 * of the device (ledger_units()): the low half is in use, the high half is granted and no
 * process can have it.  in use <= granted.  The difference is the shard's credit: its threads
 * charge it without reading other accounts, and any process may take it back.
 *
 * Threads count `total` and n_total without atomic additions, so a few may be lost.
 */
struct ledger_shard {
    _Atomic uint64_t account[AM_LEDGER_DEVICES];
    _Atomic uint64_t n_total;                  /* allocations */
    _Atomic uint64_t total[AM_LEDGER_DEVICES]; /* bytes allocated since the start */
    uint64_t rsv;
};

/* The ledger's lock guards all of them. */
struct ledger_share {
    _Atomic uint64_t size; /* 0: free; written last, cleared last */
    _Atomic uint64_t generation;
    _Atomic int32_t device;
    _Atomic uint32_t exporter; /* its slot while it holds the share, then LEDGER_SLOTS */
    _Atomic uint64_t holders[LEDGER_SLOTS / 64];
    uint64_t rsv;
};

/* The process of the slot writes it, and only `aclmem top` reads it. */
struct ledger_stats {
    _Atomic uint64_t peak[AM_LEDGER_DEVICES];
    uint64_t rsv_total[AM_LEDGER_DEVICES + 1];
    _Atomic uint64_t n_streams;
    _Atomic uint64_t n_models;
    _Atomic uint64_t n_model_streams;
    uint64_t rsv[14];
    struct am_ledger_stream streams[AM_LEDGER_STREAMS];
};

#define LEDGER_SLOTS_AT 4096
#define LEDGER_SHARES_AT (LEDGER_SLOTS_AT + LEDGER_SLOTS * sizeof(struct ledger_slot))
#define LEDGER_STATS_AT (LEDGER_SHARES_AT + LEDGER_SHARES * sizeof(struct ledger_share))
#define LEDGER_SHARDS_AT (LEDGER_STATS_AT + LEDGER_SLOTS * sizeof(struct ledger_stats))
#define LEDGER_SIZE \
    (LEDGER_SHARDS_AT + LEDGER_SLOTS * LEDGER_SHARDS * sizeof(struct ledger_shard))

_Static_assert(sizeof(struct ledger_head) <= LEDGER_SLOTS_AT, "the head is one page");
_Static_assert(sizeof(struct ledger_slot) == 64, "other processes have it");
_Static_assert(sizeof(struct ledger_share) == 160, "other processes have it");
_Static_assert(sizeof(struct ledger_stats) == 8192, "other processes have it");
_Static_assert(sizeof(struct ledger_shard) == 1024, "other processes have it");
_Static_assert(LEDGER_SHARES_AT % 4096 == 0, "whole pages");

#define LEDGER_WHY 256 /* bytes for a reason */

/* A share that this process holds n times. */
struct ledger_held {
    uint32_t n;
    int32_t device;
    uint64_t size;
    bool is_export; /* this process exported it */
};

struct am_ledger {
    atomic_uint refs;
    int fd;        /* -1: a private ledger */
    unsigned slot; /* this process's */
    struct am_ledger_config config;
    struct ledger_head *head; /* the segment; NULL: not attached */
    struct ledger_slot *slots;
    struct ledger_share *shares;
    struct ledger_stats *stats;                   /* for each slot */
    struct ledger_shard (*shards)[LEDGER_SHARDS]; /* of each slot */
    char why[LEDGER_WHY];                         /* fd is -1: why that is so */
    struct am_lock lock;      /* among threads, around the file's lock */
    bool must_sweep;          /* lock; this process could not leave a share in time */
    bool is_late;             /* lock; the file's lock was not released in time */
    struct ledger_held *held; /* lock; for each share; NULL: none was held yet */
    _Atomic uint64_t shared[AM_LEDGER_DEVICES];   /* bytes of these */
    _Atomic uint64_t exported[AM_LEDGER_DEVICES]; /* of these, its own exports */
    LIST_ENTRY(am_ledger) all;
};

/*
 * Takes the ledger's lock; false when it cannot be taken or its holder does not release
 * it in time, and then `why` (LEDGER_WHY bytes, or NULL) names the holder.
 */
bool ledger_lock(struct am_ledger *ledger, char *why) AM_TRY_ACQUIRE(true, ledger->lock);
void ledger_unlock(struct am_ledger *ledger) AM_RELEASE(ledger->lock);

/* Only the file's lock, and nothing repaired: while it is opened. */
bool ledger_lock_file(struct am_ledger *ledger, char *why);
void ledger_unlock_file(struct am_ledger *ledger);
/* A slot for the open file: 0 or -errno, -EAGAIN when another has it. */
int ledger_lock_slot(int fd, unsigned slot);
/* Whether any process has a slot. */
bool ledger_has_users(int fd);
/* Whether the file is locked for this slot by another open file: a process lives in it. */
bool ledger_is_locked(int fd, unsigned slot);
/*
 * Reads the file, which is open, and maps its segment with the flags of shmat(): 0 or -errno.
 * The configuration of the file is stored if n_devices is 0, and compared otherwise.
 * -ENOENT: the segment does not exist, so no process uses it, whatever is locked: an ending
 * process releases its memory before its files.  -EPROTO: the file or the segment is damaged,
 * of another version or configuration.
 */
int ledger_attach(struct am_ledger *ledger, int flags);
/* Unmaps the segment and closes the file, as far as they are open. */
void ledger_detach(struct am_ledger *ledger);
/* Slots and shares below may be in use. */
unsigned ledger_slots_high(const struct am_ledger *ledger);
unsigned ledger_shares_high(const struct am_ledger *ledger);

/* Clears the slots of the dead; the shares are counted again where that was cut short. */
void ledger_reap_locked(struct am_ledger *ledger) AM_REQUIRES(ledger->lock);
void ledger_reap_slot_locked(struct am_ledger *ledger, unsigned slot)
    AM_REQUIRES(ledger->lock);
void ledger_count_shares_locked(struct am_ledger *ledger) AM_REQUIRES(ledger->lock);

/* Removes the slot from the share, which is free when no slot holds it. */
void ledger_share_drop_locked(struct am_ledger *ledger, unsigned index, unsigned slot)
    AM_REQUIRES(ledger->lock);
/* Leaves shares that this process no longer holds. */
void ledger_sweep_locked(struct am_ledger *ledger) AM_REQUIRES(ledger->lock);

/* Charges without the lock; false: the device seems full. */
bool ledger_try_charge(struct am_ledger *ledger, int32_t device, size_t size);
/*
 * The bytes become credit, and are free above the limit of a credit.  With is_free false, they
 * stay in use as a share, and are no credit.
 */
void ledger_uncharge(struct am_ledger *ledger, int32_t device, unsigned shard,
                     size_t size, bool is_free);
/* Bytes that the process of a slot has in use. */
uint64_t ledger_used(const struct am_ledger *ledger, unsigned slot, int32_t device);

/* The bytes that this process holds of the device have changed. */
void ledger_notify(const struct am_ledger *ledger, int32_t device);

/* Bytes that any process may have written: at most the capacity. */
static inline uint64_t ledger_clamp(const struct am_ledger_config *config, int32_t device,
                                    uint64_t size)
{
    return size < config->capacity[device] ? size : config->capacity[device];
}

/* "77 (python3)", from any slot, in LEDGER_NAME_TEXT bytes. */
#define LEDGER_NAME_TEXT 64
void ledger_name(const struct ledger_slot *slot, char *ret_text);

#endif
