/*
 * The layer check: what the program does wrong with memory, handles and streams.
 *
 * The layer records the program's calls in its own metadata:
 *
 *   object   what the program was given: a block, a handle, a mapping, a stream ...
 *            Known by its address or handle, with the call that made it.  What was freed
 *            stays known for a while, with the call that freed it.
 *   bytes    physical memory, whatever addresses show it; has a history of accesses
 *   agent    a stream, or the host: what does things one after the other
 *   clock    for each agent how much of its work is known to be done before
 *   work     what one call does to bytes, in its turn in a stream
 *
 * A call of the program goes through a hook before it is passed on and one afterwards
 * (hooks.h).  Frees are entered before, since the next thread may get the same address at
 * once; what is made is entered afterwards.  A hook has the metadata to itself
 * (am_check_lock()), or shares it with hooks of other streams and blocks (shared.h); no lock
 * is held while a call is passed on.  Where memory for the metadata runs out an object stays
 * unknown, and nothing is said of it.
 */
#ifndef AM_LAYER_METADATA_H
#define AM_LAYER_METADATA_H

#include <bsd/sys/tree.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "base/epoch.h"
#include "base/lock.h"
#include "layer/args.h"
#include "layer/finding.h"

enum am_object_kind {
    AM_OBJECT_BLOCK,       /* aclrtMalloc and relatives */
    AM_OBJECT_POOL_BLOCK,  /* aclrtMemPoolMallocAsync */
    AM_OBJECT_MANAGED,     /* aclrtMemAllocManaged */
    AM_OBJECT_HOST,        /* aclrtMallocHost */
    AM_OBJECT_REGISTERED,  /* aclrtHostRegister */
    AM_OBJECT_KEY,         /* aclrtIpcMemImportByKey */
    AM_OBJECT_MAPPING,     /* aclrtMapMem */
    AM_OBJECT_RESERVATION, /* aclrtReserveMemAddress */
    AM_OBJECT_PHYS,        /* aclrtMallocPhysical */
    AM_OBJECT_IMPORT,      /* aclrtMemImportFromShareableHandle */
    AM_OBJECT_STREAM,
    AM_OBJECT_EVENT,
    AM_OBJECT_NOTIFY,
    AM_OBJECT_POOL,
    AM_OBJECT_CONTEXT,
    AM_OBJECT_MODEL,
    AM_OBJECT_KINDS,
};

struct am_bytes;
struct am_agent;
struct am_signal;
struct am_work;
struct am_record;
struct am_wait;
struct am_uses;
struct am_model;

struct am_object {
    RB_ENTRY(am_object) node;          /* in one of the trees, by key */
    TAILQ_ENTRY(am_object) freed_link; /* once it is freed: the oldest are forgotten */
    uint64_t serial;                   /* counts what was made */
    uint64_t key;                      /* address or handle */
    uint64_t size;                     /* in bytes, as asked for */
    struct am_bytes *bytes;            /* of memory; NULL until it is needed */
    union {
        struct am_agent *agent;   /* of a stream */
        struct am_signal *signal; /* of an event or notify */
        struct am_model *model;   /* of a captured model */
        struct am_uses *uses;     /* of anything else; by streams: bytes.h */
    };
    struct am_site made;
    struct am_site freed; /* while it lives: of a handle, the last retain; of a pinned
                              block, where its guard was last whole */
    uint32_t era;         /* am_check.era when it was made */
    uint32_t freed_at;    /* am_check.n_frees when it was freed */
    int16_t device;       /* -1: none, or the host */
    uint8_t flag; /* a reservation's flags; of physical memory: it has huge pages */
    uint8_t kind; /* enum am_object_kind */
    bool is_freed;
    bool is_forgotten; /* forgotten; a call still has it */
    uint16_t n_refs;   /* calls that have it */
    uint16_t lead;     /* pinned: bytes that the library's block has before `key` */
    uint8_t ring;      /* of the quarantine, and the slot there */
    uint8_t slot;
    atomic_bool is_quarantined; /* freed by the program, not passed on yet */
    bool
        is_taken; /* freed by a call that entered the layer second and the library first */
    bool is_exported; /* bytes->exported counts */
    bool is_retained; /* the last retain is noted in `freed` */
    bool is_counted;  /* its size is in am_check.device_bytes, unless it is freed */
    bool is_guarded;  /* pinned: guard bytes lie before and behind it */
    bool is_fenced;   /* and a page without access behind those */
    bool is_captured; /* a model names it: models.c */
    bool is_reported; /* that it leaked, at the end of a test */
};

RB_HEAD(am_objects, am_object);
TAILQ_HEAD(am_freed, am_object);

/* One call of the program. */
struct am_call {
    enum am_api_id id;
    const void *args; /* struct am_args_ + the name; the hook before may change them */
    struct am_site site;
    int16_t device;     /* of the calling thread; -1: none */
    const void *stream; /* what a stream argument names: a default one by its handle */
    bool is_default_stream;
    uint64_t context;  /* of the calling thread, where it makes something */
    aclError rc;       /* in the hook after the call */
    bool is_after;     /* which hook */
    bool stream_reads; /* the stream reads its addresses when it runs */
    bool is_free;      /* it frees or destroys something */
    bool is_waited;    /* it returns when its work on the stream is done */
    bool is_unseen;    /* it does not change the metadata */
    bool is_answered;  /* the call is not passed on now: it succeeded */
    bool is_declared;  /* of a host function: it said what it uses (aclmem/access.h) */
    uint64_t era;      /* when it began: am_check.era */
    /* From the hook before to the one after. */
    struct am_object *object;
    struct am_agent *agent;
    uint64_t value;
    struct am_work *work;
    struct am_model *model; /* of the capture that its work goes into; NULL: none */
    const struct am_site *captured; /* of a task of a replay, else NULL */
    struct am_record *record;       /* that the call waits for; with a reference */
    struct am_wait *wait;           /* waits.c: while the call waits */
    struct am_finding *finding;     /* is reported when the result is known */
};

/* Objects that one latch protects, in hooks that share the metadata: shared.h. */
struct am_stripe {
    _Alignas(AM_SHARD_STRIDE) atomic_bool is_taken;
    struct am_objects areas;       /* live memory that addresses show */
    struct am_objects freed_areas; /* memory that was freed; none overlaps a live one */
    struct am_freed freed;         /* the oldest first */
    uint32_t n_frees;              /* so far */
};

#define AM_STRIPES 256

/* The metadata of the layer. */
struct am_check {
    struct am_lock lock;
    const struct am_api *_Atomic below;
    /*
     * Blocks of aclrtMalloc inside 2 MB of addresses, by these 2 MB; all other objects are
     * in `rest`.
     */
    struct am_stripe stripe[AM_STRIPES];
    struct am_stripe rest;
    struct am_objects reservations; /* live ones */
    struct am_objects released;     /* reservations that were released */
    struct am_objects handles;      /* of other objects, live and freed */
    _Alignas(AM_SHARD_STRIDE) _Atomic uint32_t
        n_frees;                    /* so far; a multiple of AM_FREES_BATCH */
    _Atomic uint64_t serial;        /* at least the number of the newest object */
    _Atomic uint64_t n_serials;     /* how often am_serial_last() was called */
    struct am_counter n_live;       /* objects */
    struct am_counter device_bytes; /* that the program allocated and did not free */
    struct am_counter n_calls;
    _Atomic uint64_t
        n_refused; /* of these, without expected codes (expected_codes.def) */
    /*
     * Counts starts and stops of the library.  What a call was given in another era is
     * freed: the call is not recorded.
     */
    _Atomic uint64_t era;
    /*
     * Calls in progress that stop the library, or reset a device.  Recording goes
     * on, but memory that such a call may end is not touched.
     */
    unsigned n_stopping;
    _Atomic uint64_t n_resets; /* calls that stop the library or reset a device, so far */
    unsigned n_resetting;
};

extern struct am_check am_check;

#define AM_FREED_MAX 65536 /* how many freed objects are remembered, at least */
#define AM_FREES_BATCH 64

/* ---- shared.c ---- */

/* The metadata for this thread alone. */
void am_check_lock(void) AM_ACQUIRE(am_check.lock);
void am_check_unlock(void) AM_RELEASE(am_check.lock);
/* False: another thread uses the metadata.  For handlers of signals. */
bool am_check_lock_try(void) AM_TRY_ACQUIRE(true, am_check.lock);
/* Waits for the condition, without the lock; `until` NULL: without a limit. */
void am_check_wait(pthread_cond_t *condition, const struct timespec *until);

/* ---- objects.c ---- */

void am_objects_open(void);

extern const struct am_object_row {
    const char *name;             /* "block" */
    enum am_kind_of_finding leak; /* of an object that is left */
    const char *advice;           /* how to free it */
} am_object_rows[AM_OBJECT_KINDS];

/* A number that is larger than all before. */
uint64_t am_serial_next(void);
/* Not below the numbers so far, and below all later ones. */
uint64_t am_serial_last(void);

/* Enters a new object.  NULL without memory, and where a stop has freed it since. */
struct am_object *am_object_make(struct am_call *call, enum am_object_kind kind,
                                 uint64_t key, uint64_t size);
/* Counts the bytes of a new object as device memory that the program holds. */
void am_object_count(const struct am_call *call, struct am_object *object);
/* The live area, or freed one, or reservation, that addr lies in; NULL: none. */
struct am_object *am_area_find(uint64_t addr);
struct am_object *am_freed_area_find(uint64_t addr);
/* The live area of am_check.rest that addr lies in. */
struct am_object *am_rest_area_find(uint64_t addr);
struct am_object *am_reservation_find(uint64_t addr);
struct am_object *am_released_find(uint64_t addr);
/* The last area of the host whose start is at addr or below. */
struct am_object *am_area_before(uint64_t addr);
/* The first area of the host whose start is at addr or above. */
struct am_object *am_area_next(uint64_t addr);
/* The freed object that matches; NULL: none. */
struct am_object *am_freed_find(bool (*matches)(const struct am_object *,
                                                const void *arg),
                                const void *arg);

/* Whether the area is one of am_check.stripe, and which. */
bool am_area_is_small(uint64_t addr, uint64_t size);
struct am_stripe *am_stripe_of(uint64_t addr);
/* The last object in the tree that overlaps the range; NULL: none. */
struct am_object *am_overlap_find(struct am_objects *tree, uint64_t addr, uint64_t size);
/* A handle's object, live or freed; NULL where it is unknown or of another kind. */
struct am_object *am_handle_find(enum am_object_kind kind, const void *handle);
/* From live to freed; the call is where. */
void am_object_free(struct am_call *call, struct am_object *object);
/* The call's free was refused: it is live again, unless a stop has freed it since. */
void am_object_revive(const struct am_call *call, struct am_object *object);
/* Forgets it without a trace: what was made did not come about, or all is over. */
void am_object_drop(struct am_object *object);
/* The next live object of a walk that begins with {0}; any object may be freed during it. */
struct am_walk {
    unsigned tree;
    uint64_t key; /* objects of the tree from here on are to come */
};
struct am_object *am_object_next(struct am_walk *walk);

/*
 * For the hook after the call: what was found stays in memory until then, though another
 * thread may free and forget it.
 */
void am_call_ref_object(struct am_call *call, struct am_object *object);
void am_call_ref_agent(struct am_call *call, struct am_agent *agent);
void am_call_unref(struct am_call *call);

/* ---- allocations.c ---- */

/* "16 bytes into the block of 64 bytes at 0x.."; for messages. */
const char *am_object_text(const struct am_object *object, uint64_t addr, char *text,
                           size_t n);

/*
 * Where a call's finding is written; reported by am_call_report(), in the hook before the call
 * when its result is known.
 */
struct am_finding *am_call_finding(struct am_call *call);
void am_call_report(struct am_call *call, struct am_finding *finding);

/* About an object that was freed: made, freed, used. */
void am_report_freed(struct am_call *call, enum am_kind_of_finding kind,
                     struct am_object *object, uint64_t addr, const char *argument);

/*
 * The live stream, event ... that a handle names; reports a stale handle.  NULL otherwise.
 */
struct am_object *am_handle_use(struct am_call *call, enum am_object_kind kind,
                                const void *handle, const char *argument);
/* The same for a call that ends it, and becomes the call's; reports a second free. */
struct am_object *am_handle_end(struct am_call *call, enum am_object_kind kind,
                                const void *handle, const char *argument);
/* The call uses the area at an address; reports freed memory.  False: the address has none. */
bool am_address_use(struct am_call *call, const void *at, const char *argument);

/* ---- leaks.c ---- */

/*
 * Reports what is left at the end of a device (-1: of everything), of the objects that were
 * made after the one with this serial number.
 */
void am_leaks_report(int device, uint64_t since, const char *when);

/* ---- lint.c: the rules of portability ---- */

/* Before the call, under am_check.lock: reports the rules that it breaks. */
void am_lint(struct am_call *call);

/* ---- ignored.c ---- */

/* A call that should have given something failed; *out is what the program has instead. */
void am_ignored_note(struct am_call *call, void *const *out);
/* The program asked for the message or the code. */
void am_ignored_forget(void);
/* The program dereferenced NULL: whether a failed call left it, which is reported then. */
bool am_ignored_null(uint64_t addr, struct am_site site);
/* The call was given a value that no object has. */
void am_ignored_check(struct am_call *call, uint64_t value, const char *argument);

#endif
