/*
 * libcuda.so.1 made of host memory, for tests without a GPU.
 *
 * It keeps the driver's rules, as facts.expected has them.  A device is a budget of
 * bytes and a thread, the engine, that runs what is queued on the device's streams.  Device
 * memory is plain memory at an address that the program is never told; the address it gets
 * is inaccessible, so that a stray dereference faults as on the real thing, and the engine
 * translates.
 *
 * One lock, fake.lock, guards all state.  The engine drops it while bytes move and while a
 * host function runs.  Functions whose name ends in _locked are called with the lock held.
 */
#ifndef AM_TEST_FAKE_FAKE_H
#define AM_TEST_FAKE_FAKE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <bsd/sys/tree.h>
#include <sys/queue.h>
#include <time.h>

#include "fake/whole_driver.h"

#define FAKE_CHUNK ((size_t)2 << 20)
#define FAKE_PAGE ((size_t)4096)

enum { FAKE_MAX_DEVICES = 8 };

/* ---- handles (fake_table.c) ---- */

/* A handle names a slot and how often the slot was used: a stale one is refused. */
struct fake_slot {
    void *object; /* NULL: free */
    uint32_t uses;
    uint32_t next_free; /* slot + 1 */
};

struct fake_table {
    struct fake_slot *slots;
    uint32_t n;
    uint32_t first_free; /* slot + 1 */
};

uint64_t fake_table_add_locked(struct fake_table *table, void *object); /* 0: no memory */
void *fake_table_find_locked(const struct fake_table *table, uint64_t handle);
void fake_table_remove_locked(struct fake_table *table, uint64_t handle);

/* ---- memory (fake_memory.c, fake_space.c, fake_host.c) ---- */

/* Physical memory.  It lives as long as handles, mappings or running copies need it. */
struct fake_phys {
    uint64_t handle;    /* valid while n_handles > 0 */
    unsigned n_handles; /* how often it has to be released */
    unsigned refs; /* one for having handles, one for each mapping and running copy */
    size_t size;
    CUmemAllocationProp prop;
    bool is_imported; /* the exporter is charged for it */
    int fd;           /* of its memory file; -1 until it is exported */
    unsigned char *bytes;
};

struct fake_mapping {
    RB_ENTRY(fake_mapping) entry;
    CUdeviceptr addr;
    size_t size;
    struct fake_phys *phys;
    uint16_t rights; /* two bits for each device, as CUmemAccess_flags has them */
};

struct fake_reservation {
    RB_ENTRY(fake_reservation) entry;
    CUdeviceptr addr;
    size_t size;
};

/* The program's memory that the driver knows. */
struct fake_host {
    RB_ENTRY(fake_host) entry;
    CUdeviceptr addr;
    size_t size;
    bool is_registered;
    struct fake_context *owner;
};

RB_HEAD(fake_mappings, fake_mapping);
RB_HEAD(fake_reservations, fake_reservation);
RB_HEAD(fake_hosts, fake_host);
RB_PROTOTYPE(fake_mappings, fake_mapping, entry, )
RB_PROTOTYPE(fake_reservations, fake_reservation, entry, )
RB_PROTOTYPE(fake_hosts, fake_host, entry, )

struct fake_phys *fake_phys_find_locked(CUmemGenericAllocationHandle handle);
void fake_phys_put_locked(struct fake_phys *phys);
CUresult fake_phys_retain_locked(struct fake_phys *phys,
                                 CUmemGenericAllocationHandle *ret_handle);

struct fake_reservation *fake_reservation_at_locked(CUdeviceptr addr);
struct fake_mapping *fake_mapping_at_locked(CUdeviceptr addr);
bool fake_may_locked(const struct fake_mapping *mapping, int device, unsigned rights);

struct fake_host *fake_host_at_locked(CUdeviceptr addr);
void fake_host_drop_context_locked(struct fake_context *context);

/* ---- contexts, streams, events (fake_context.c, fake_stream.c, fake_event.c) ---- */

/* One recording of an event; who waits for it keeps it. */
struct fake_record {
    unsigned refs;
    bool is_done;
    struct timespec at;
};

struct fake_event {
    uint64_t handle;
    unsigned flags;
    struct fake_context *context;
    struct fake_record *latest; /* NULL: never recorded */
    LIST_ENTRY(fake_event) entry;
};

/* A row of a copy or fill, or many of them. */
struct fake_rows {
    CUdeviceptr dst;
    CUdeviceptr src;
    size_t dst_pitch;
    size_t src_pitch;
    size_t width;
    size_t height;
    bool is_dst_known; /* to the driver: not the program's pageable memory */
    bool is_src_known;
    int dst_device; /* whose rights count */
    int src_device;
};

enum fake_kind {
    FAKE_COPY,
    FAKE_FILL,
    FAKE_WRITE,
    FAKE_WAIT_VALUE,
    FAKE_RECORD,
    FAKE_WAIT_EVENT,
    FAKE_FUNCTION,
};

/* Something queued on a stream. */
struct fake_op {
    TAILQ_ENTRY(fake_op) entry;
    enum fake_kind kind;
    uint64_t number; /* counts what is queued in the context, for the legacy stream */
    struct fake_rows rows;
    unsigned char *staged; /* FAKE_COPY: the source's bytes, taken at the call */
    uint32_t value;
    unsigned width; /* of value, FAKE_FILL */
    unsigned flags; /* FAKE_WAIT_VALUE */
    struct fake_record *record;
    CUhostFn fn;
    void *arg;
    bool is_handed_over; /* FAKE_FUNCTION: to the thread that runs it */
    bool is_returned;
    bool *ret_done; /* who waits for it; set and announced at the end */
};

TAILQ_HEAD(fake_ops, fake_op);

/* A stream from which a graph is made, which has copies alone. */
struct fake_capture {
    bool is_on;
    bool is_broken;
    CUgraph graph; /* NULL: no copy yet */
    CUstreamCaptureMode mode;
    pthread_t thread; /* that began it */
};

struct fake_stream {
    uint64_t handle; /* 0: destroyed, or the legacy stream */
    unsigned flags;
    struct fake_context *context;
    struct fake_ops ops; /* the first one may be running */
    bool is_running;
    bool is_held; /* as all are while fake.is_held is set */
    struct fake_capture capture;
    TAILQ_ENTRY(fake_stream) entry; /* in the context */
};

TAILQ_HEAD(fake_streams, fake_stream);

/* A device's primary context; there are no others. */
struct fake_context {
    int device;
    unsigned retained;
    bool is_active;
    CUresult error; /* for the process's life, once something went wrong on the device */
    uint64_t n_queued;
    struct fake_stream legacy;
    struct fake_streams streams; /* the legacy one too */
    LIST_HEAD(, fake_event) events;
    pthread_cond_t work; /* for the engine and the function's thread */
    bool has_threads;
};

/* The context that is current; an error when none is, or when it is broken. */
CUresult fake_context_current_locked(struct fake_context **ret_context);
/* By the name that the program has for it; NULL when there is none. */
struct fake_context *fake_context_find(CUcontext name);
void fake_context_break_locked(struct fake_context *context, CUresult error);

CUresult fake_stream_find_locked(CUstream handle, struct fake_stream **ret_stream);
CUresult fake_stream_queue_locked(struct fake_stream *stream, const struct fake_op *op);
void fake_stream_wait_all_locked(struct fake_context *context);
void fake_stream_drop_context_locked(struct fake_context *context);
void fake_stream_break_locked(struct fake_context *context);

/* A call that could wait for work: breaks the captures that forbid it to this thread. */
CUresult fake_capture_break(void);
/* Adds a copy to the graph; false: no memory. */
bool fake_graph_add_locked(struct fake_capture *capture, CUdeviceptr dst, CUdeviceptr src,
                           size_t size);

void fake_event_drop_context_locked(struct fake_context *context);
void fake_record_put_locked(struct fake_record *record);

/* What the engine does with an op's bytes; called without the lock. */
CUresult fake_move(const struct fake_op *op);
bool fake_value_holds_locked(const struct fake_op *op);

/* ---- all of it ---- */

struct fake_driver {
    pthread_mutex_t lock;
    pthread_cond_t changed; /* an op ended, a context broke */
    pthread_rwlock_t bytes; /* held to move bytes; alone, to move a phys's own */
    bool is_initialised;
    int version;
    int n_devices;
    bool has_peers;
    bool is_held;       /* engines take nothing from streams */
    int last_priority;  /* of the stream that was made last */
    unsigned n_waiting; /* threads, for a stream */
    size_t capacity;
    size_t used[FAKE_MAX_DEVICES];
    struct fake_context contexts[FAKE_MAX_DEVICES];
    struct fake_table physes;
    struct fake_table streams;
    struct fake_table events;
    struct fake_mappings mappings;
    struct fake_reservations reservations;
    struct fake_hosts hosts;
};

extern struct fake_driver fake;
extern _Thread_local bool fake_in_function; /* this thread runs a host function */

void fake_lock(void);
CUresult fake_unlock(CUresult rc); /* returns what it is given */

/* For what crashes the real driver. */
_Noreturn void fake_die(const char *what, const void *handle);

/* What the driver itself takes of a device. */
#define FAKE_OWN_MEMORY ((size_t)64 << 20)

/* fake_control.c: reads the environment; whether this call is to fail. */
void fake_control_read(void);
CUresult fake_control_fault(const char *name);
void fake_control_forget(void); /* in a child */

#define AM_CU(need_, since_, name_, params_, args_) CUresult fake_##name_ params_;
#include "fake/whole_driver.def"
#undef AM_CU

#endif
