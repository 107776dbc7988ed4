/*
 * The ledger: the bytes of each device that each process of a user holds.
 *
 * It is shared memory that a small file in the runtime directory names, one for each
 * configuration (backend, product, number of devices, memory of each, and which they are
 * if they are real): processes with the same configuration have the same devices.
 *
 * A process has a slot in it, with the bytes it holds of each device.  A device's bytes
 * in use are the sum over the slots and the shares; no total is stored.  The slot belongs to
 * the process as long as the kernel holds a lock on its byte, which ends with the process
 * however the process ends; the next process that checks the slots clears it.
 *
 * A process charges by adding to its own count and reading the sum, without a lock.  Each
 * thread adds to one of some accounts of the process; an account keeps a few of the bytes that
 * were freed as its credit, which needs no sum.  Credits are free for all processes: a
 * process that finds no other room takes them back.
 * Only if the device seems full, the process acquires the ledger's lock, clears the slots
 * of dead processes, and reads the sum again.  Two processes that charge at the same time
 * may both have to do so, but never both get memory that exists once.
 *
 * Exported memory is a share, with the set of the slots that hold it.  The last process
 * to leave ends it; dead processes leave when their slots are cleared.
 *
 * A kill may interrupt any change under the lock: the ledger records the lock's holder, and a
 * process that finds a dead holder counts the shares again.
 *
 * If the file cannot be used (core/ledger/rundir.h), a process has a private ledger of the same
 * format, and logs a warning.
 */
#ifndef AM_CORE_LEDGER_H
#define AM_CORE_LEDGER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "acl/acl_base.h"
#include "base/epoch.h"
#include "base/lock.h"

struct am_ledger;

#define AM_LEDGER_DEVICES 63
#define AM_LEDGER_NAME 16 /* bytes for a name in it, with the zero */

/* Processes that agree in all of it have the same devices. */
struct am_ledger_config {
    char backend[AM_LEDGER_NAME];
    char product[AM_LEDGER_NAME];
    int32_t n_devices; /* that the machine has */
    uint64_t identity; /* of real devices: which ones; 0: they are emulated */
    uint64_t capacity[AM_LEDGER_DEVICES]; /* bytes of each, at most 64 TB */
};

/*
 * A ledger with a reference for the caller.  Fails only when there is no host memory for
 * it (200000). Devices are numbered as the driver does.  With no devices it is a private one,
 * for the memory of the host, whose capacity is the first.
 */
aclError am_ledger_open(const struct am_ledger_config *config,
                        struct am_ledger **ret_ledger);
struct am_ledger *am_ledger_ref(struct am_ledger *ledger);
void am_ledger_put(struct am_ledger *ledger);

/* Whether this is a private ledger. */
bool am_ledger_is_private(const struct am_ledger *ledger);

extern struct am_lock am_ledgers_lock; /* held around fork */
/* In a child of fork: the parent's slot is not kept alive, and later writes have no effect. */
void am_ledger_forget_locked(void) AM_REQUIRES(am_ledgers_lock);

/* ---- memory ---- */

/*
 * `size` more bytes of the device for this process, charged to the shard of this thread;
 * false if the device is full.  Uncharging needs the shard of the thread that charged.
 */
bool am_ledger_charge(struct am_ledger *ledger, int32_t device, size_t size);
void am_ledger_uncharge(struct am_ledger *ledger, int32_t device, unsigned shard,
                        size_t size);
/* Bytes that are charged to this process, and the most that ever were. */
size_t am_ledger_held(const struct am_ledger *ledger, int32_t device);
size_t am_ledger_peak(const struct am_ledger *ledger, int32_t device);

/*
 * If not NULL, called whenever the bytes of a device that this process holds, with the bytes
 * that it has exported, have changed.  May be called with locks held, by several threads at once.
 */
typedef void (*am_ledger_hook)(int32_t device, uint64_t held);
extern _Atomic(am_ledger_hook) am_ledger_changed;

/* Bytes of the device that live processes use. */
size_t am_ledger_in_use(struct am_ledger *ledger, int32_t device);

/*
 * The memory that other processes hold of the device, for a message: " (of these 512 MB
 * by process 77 (python3), 2 MB shared)"; empty if no other process holds any.
 */
#define AM_LEDGER_WHO 256
void am_ledger_who(struct am_ledger *ledger, int32_t device, char *ret_text);

/*
 * The process uses the device from now on: fails with 207005 when `limit` other
 * processes use it, or when the ledger's lock cannot be taken.  Returns at once if the
 * process already uses it.
 */
aclError am_ledger_use(struct am_ledger *ledger, int32_t device, unsigned limit);
void am_ledger_unuse(struct am_ledger *ledger, int32_t device);

/* ---- shares ---- */

/* A random number that names the ledger: processes that have the same one share it. */
uint64_t am_ledger_id(const struct am_ledger *ledger);

/*
 * `size` bytes that this process had charged become a share, which it holds.  Fails with
 * 207005 if the ledger is private or full, or its lock is not available in time; the bytes
 * are then charged as before.
 */
aclError am_ledger_share_add(struct am_ledger *ledger, int32_t device, unsigned shard,
                             size_t size, uint64_t *ret_share);
/*
 * One more use of the share in this process.  Another process sent the number: fails with
 * 207006 if there is no such share of this size and device.
 */
aclError am_ledger_share_join(struct am_ledger *ledger, uint64_t share, int32_t device,
                              size_t size);
/* One use less; the bytes are free after the last use in all processes. */
void am_ledger_share_leave(struct am_ledger *ledger, uint64_t share);
/* Bytes of the device in shares that this process holds. */
size_t am_ledger_shared(struct am_ledger *ledger, int32_t device);

/* ---- statistics of the process, for `aclmem top` ---- */

/*
 * The entry of a stream.  The owner of the ledger writes it under the scheduler's lock, and
 * other processes read it without one: is_waiting is written last and cleared first.
 */
struct am_ledger_stream {
    _Atomic int32_t id; /* 0: the entry is free */
    int32_t device;     /* the driver's number */
    _Atomic uint32_t is_waiting;
    uint32_t n_queued; /* tasks from the one that waits on */
    char function[40]; /* the call that made it wait */
    char until[72];    /* "event 7 is recorded" */
};

/* An entry for a stream; NULL if all are in use, and the stream is only counted. */
struct am_ledger_stream *am_ledger_stream_add(struct am_ledger *ledger, int32_t id,
                                              int32_t device);
void am_ledger_stream_remove(struct am_ledger *ledger, struct am_ledger_stream *stream);
/* How many models the process has, and how many streams they hold.  One thread at a time. */
void am_ledger_models_set(struct am_ledger *ledger, uint64_t n_models,
                          uint64_t n_streams);

/* ---- reading it from outside ---- */

#define AM_LEDGER_STREAMS 55 /* that have an entry */

struct am_ledger_process {
    int32_t pid;
    char command[AM_LEDGER_NAME];
    uint64_t uses; /* a bit for each device */
    uint64_t allocated[AM_LEDGER_DEVICES];
    uint64_t exported[AM_LEDGER_DEVICES];
    uint64_t imported[AM_LEDGER_DEVICES];
    uint64_t peak[AM_LEDGER_DEVICES];  /* the most that was allocated */
    uint64_t total[AM_LEDGER_DEVICES]; /* bytes allocated since the start */
    uint64_t n_total;                  /* allocations */
    uint64_t n_streams;
    uint64_t n_models;
    uint64_t n_model_streams; /* that they hold, in addition to n_streams */
    size_t n_waiting;
    struct am_ledger_stream waiting[AM_LEDGER_STREAMS];
};

struct am_ledger_view {
    struct am_ledger_config config;
    uint64_t used[AM_LEDGER_DEVICES];
    size_t n_processes;
    struct am_ledger_process *processes; /* live ones */
};

/*
 * Reads the ledger `name` of the directory without taking part in it: 0 or -errno, -EPROTO
 * if it is damaged or of another version.
 */
int am_ledger_read(int dir, const char *name, struct am_ledger_view *ret_view);
/* Whether a process takes part in it, even if the file is damaged. */
bool am_ledger_has_users(int dir, const char *name);
void am_ledger_view_free(struct am_ledger_view *view);

/* The file's name, in AM_LEDGER_FILE bytes; all of them begin with AM_LEDGER_PREFIX. */
#define AM_LEDGER_FILE 96
#define AM_LEDGER_PREFIX "ledger-"
void am_ledger_file_name(const struct am_ledger_config *config, char *ret_name);

#endif
