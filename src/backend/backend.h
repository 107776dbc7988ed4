/*
 * The contract of a backend, which provides memory.
 *
 * A bank is the memory of one device, or the host's.  A mem is physical memory taken
 * from a bank.  A span is a piece of one side of a copy: part of a mem, or of the
 * program's own memory.
 *
 * The core has checked every argument before the call: sizes, offsets and addresses are
 * multiples of AM_CHUNK (spans excepted), a range lies in one reservation, and no two
 * calls map or unmap the same range at once.  The core accounts for capacity: it never
 * asks a bank for more than the bank has.  A backend has no list of objects, takes no
 * core lock, and writes a ret_ argument only when it succeeds.  Destroying and closing
 * cannot fail.  Foreign errors are translated where they enter.
 */
#ifndef AM_BACKEND_BACKEND_H
#define AM_BACKEND_BACKEND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "acl/acl_base.h"

enum {
    AM_CAP_HOST_VIEW = 1u << 0, /* view_open, view_close */
    AM_CAP_MAP_PART = 1u << 1,  /* map() takes less than a whole mem, from its start */
    AM_CAP_DEVICES = 1u << 2,   /* the devices are real: device_*, bank_free */
    AM_CAP_SHARE = 1u << 3,     /* mem_export, mem_import */
    AM_CAP_LANES = 1u << 4,     /* lane_*, mark_* */
    AM_CAP_STOCK = 1u << 5,     /* reserve() takes long: parts of a reservation serve */
    AM_CAP_FABRIC = 1u << 6,    /* mem_export's descriptor serves other machines, too */
    /* another machine's memory: copy() and fill() wait for the network, and the lists may
       have memory of the local backend, too; only copy, fill, map, mem_destroy exist */
    AM_CAP_REMOTE = 1u << 7,
};

enum {
    AM_ACCESS_NONE = 0,
    AM_ACCESS_READ = 1u << 0,
    AM_ACCESS_WRITE = 1u << 1,
    AM_ACCESS_ALL = AM_ACCESS_READ | AM_ACCESS_WRITE,
};

/*
 * Access rights of mapped memory: a bit for each device by the driver's id, and one for
 * the program itself.
 */
#define AM_HOST_BIT (UINT64_C(1) << 63)

struct am_rights {
    uint64_t read;
    uint64_t write;
};

/* Properties of a real device. */
struct am_device_info {
    char name[64];
    uint8_t uuid[16];
    char bus_id[13]; /* "0000:c1:00.0" */
    size_t capacity; /* bytes */
};

struct am_bank_spec {
    int32_t device;   /* -1: the host's memory */
    int32_t driver;   /* the same, by the driver's id */
    size_t capacity;  /* bytes */
    bool is_isolated; /* the program must not be able to touch it */
    bool commit_now;  /* take memory from the system when it is allocated */
    /* page-locked memory that is where it is mapped, and nowhere before */
    bool is_pinned;
};

/*
 * A backend's own bank begins with this.  ops is whose memory it is: a backend of devices
 * may leave the host's memory to the host backend.
 */
struct am_bank {
    const struct am_backend_ops *ops;
    struct am_bank_spec spec;
};

struct am_mem {
    struct am_bank *bank;
    size_t size;
    uint64_t impl[5]; /* the backend's */
};

struct am_span {
    void *addr; /* where the program sees it */
    size_t size;
    struct am_mem *mem; /* NULL: the program's own memory at addr */
    size_t offset;      /* into mem */
    void *owner;        /* the core's: the object that keeps it alive */
};

/* A place in a list of spans. */
struct am_cursor {
    const struct am_span *span;
    size_t at; /* bytes into it */
};

/* To the span that the byte `at` is in; the list has it. */
static inline void am_cursor_settle(struct am_cursor *cursor)
{
    while (cursor->at >= cursor->span->size)
        cursor->at -= cursor->span++->size;
}

/* At byte `at` of the list. */
static inline struct am_cursor am_cursor_at(const struct am_span *list, size_t at)
{
    struct am_cursor cursor = {list, at};

    am_cursor_settle(&cursor);
    return cursor;
}

struct am_lane;
struct am_mark;

/* A copy or fill that is launched, alone or together with others. */
struct am_step {
    struct am_cursor dst;
    struct am_cursor src; /* no span: a fill */
    size_t size;
    uint32_t value; /* as of fill() */
    unsigned width;
    /* Follows the steps before it; otherwise it is a copy, and no byte that one of the steps
       since the last such one writes is in another one of them. */
    bool is_ordered;
    bool
        may_alias; /* its memory has, or had, other addresses: it has an order with all steps */
};

struct am_backend_ops {
    const char *name;
    unsigned caps; /* AM_CAP_*: which optional groups below are filled in */

    /* NULL, or what must succeed before anything else: it says what is missing. */
    aclError (*start)(void);

    /*
     * AM_CAP_DEVICES. The number of devices; their properties; whether one can access
     * another's memory.  A driver's id above their number names one of them again, which
     * is then shared.  device_choose: the program uses this device, so work that needs
     * any device takes it.  bank_free: bytes that the device of the bank has free,
     * shared with all its users.
     */
    int32_t (*device_count)(void);
    aclError (*device_info)(int32_t driver, struct am_device_info *ret_info);
    bool (*device_can_reach)(int32_t driver, int32_t other);
    void (*device_choose)(int32_t driver);
    aclError (*bank_free)(struct am_bank *bank, size_t *ret_size);

    aclError (*bank_open)(const struct am_bank_spec *spec, struct am_bank **ret_bank);
    void (*bank_close)(struct am_bank *bank);

    /* node: the NUMA node to place it on, -1 for any. */
    aclError (*mem_create)(struct am_bank *bank, size_t size, int node,
                           struct am_mem *mem);
    void (*mem_destroy)(struct am_mem *mem);

    /* want: exactly there or not at all; NULL: anywhere that is a multiple of align. */
    aclError (*reserve)(size_t size, size_t align, void *want, void **ret_addr);
    /*
     * The same for our own use, anywhere but where programs like to ask for addresses.  Pinned
     * memory of every backend is mapped at addresses of the host's.
     */
    aclError (*reserve_own)(size_t size, size_t align, void **ret_addr);
    aclError (*release)(void *addr, size_t size);

    /*
     * true: copies reach pinned memory that is mapped from now on at other addresses than
     * the program, so that a watcher may protect those of the program.  NULL: they cannot.
     */
    void (*watch_pinned)(bool is_watched);

    /*
     * The core itself refuses copies that the rights forbid.  The backend's rights are
     * for accesses that bypass the core: by the program, where it can touch the memory,
     * and by work on the device that is not ours.
     */
    aclError (*map)(void *addr, size_t size, struct am_mem *mem,
                    const struct am_rights *rights);
    /* For mappings in a row, of memory of one bank, of which mem is the first's. */
    aclError (*protect)(void *addr, size_t size, struct am_mem *mem,
                        const struct am_rights *rights);
    /* Waits for running copies.  Later copies still find the memory. */
    aclError (*unmap)(void *addr, size_t size, struct am_mem *mem);

    /*
     * Lock the program's own memory into RAM.  Where the limit of locked memory is
     * reached it fails when must_lock, and otherwise leaves the memory as it is and warns
     * once. The range is mapped.
     */
    aclError (*pin)(void *addr, size_t size, bool must_lock);
    void (*unpin)(void *addr, size_t size);
    /*
     * Of a pinned bank: NULL when its memory is locked whole as it is mapped.  Otherwise
     * mapping locks nothing, and the core pins memory when it allocates a block, at
     * least this number of bytes at a time; unmapping unlocks.
     */
    size_t (*pin_step)(void);

    /*
     * `size` bytes from `src_at` on in one list to `dst_at` on in the other.  Memory is
     * made ready before the first byte moves.  The sides share no bytes.  Eight aligned bytes
     * are one access, which acquires what it reads and releases what it writes.  A fill
     * repeats the lowest `width` (1 or 4) bytes of value.
     */
    aclError (*copy)(const struct am_span *dst, size_t dst_at, const struct am_span *src,
                     size_t src_at, size_t size);
    aclError (*fill)(const struct am_span *dst, size_t size, uint32_t value,
                     unsigned width);
    /*
     * Makes memory ready for a copy and does no more, so that one of many pieces fails
     * before the first moves; NULL: there is nothing to make ready.
     */
    aclError (*prepare)(const struct am_span *dst, size_t dst_at,
                        const struct am_span *src, size_t src_at, size_t size);

    /*
     * AM_CAP_LANES. A lane is a queue of the device: work launched on it is executed
     * later, in order, and the caller keeps the memory alive until then.  Each launch
     * has a number, ascending on a lane; *ret_number is 0 if this work cannot be
     * launched and must be done another way; then no part of it was launched.  The two
     * sides of a copy share no bytes.  All but lane_sync() and mark_sync() is short.
     * Threads may use different lanes at the same time.  One lane is used by one thread
     * at a time; other threads may call lane_sync() at any time.
     *
     * A mark is a position in the work of a lane that other lanes can wait for; a wait
     * for NULL ends at once.  lane_poll: the number up to which all is done; a failure
     * applies to all launched work.  lane_sync: until all is done.  mark_time: when it
     * was reached, in nanoseconds of the monotonic clock; only of one that was made with
     * is_timed, and was reached.  mark_sync: until it is reached.  mark_ref, mark_put:
     * one reference more and less; lane_mark() returns the first.  A mark may outlive its
     * lane.
     *
     * block: waits until no work uses the memory, which may take long, and lets no work
     * begin to use it before unblock(). In between unmap(), which otherwise blocks the
     * memory itself, does not have to wait.  Several threads may block the same memory.
     */
    aclError (*lane_open)(int32_t driver, unsigned priority, struct am_lane **ret_lane);
    void (*lane_close)(struct am_lane *lane);
    /*
     * All of the steps, in one launch.  On a failure *ret_failed is the step that failed, and
     * nothing is under way any more.
     */
    aclError (*lane_steps)(struct am_lane *lane, const struct am_step *steps, size_t n,
                           size_t *ret_failed, uint64_t *ret_number);
    aclError (*lane_mark)(struct am_lane *lane, bool is_timed, struct am_mark **ret_mark,
                          uint64_t *ret_number);
    aclError (*lane_wait)(struct am_lane *lane, struct am_mark *mark,
                          uint64_t *ret_number);
    aclError (*lane_poll)(struct am_lane *lane, uint64_t *ret_done);
    aclError (*lane_sync)(struct am_lane *lane);
    uint64_t (*mark_time)(struct am_mark *mark);
    aclError (*mark_sync)(struct am_mark *mark);
    void (*mark_ref)(struct am_mark *mark);
    void (*mark_put)(struct am_mark *mark);
    void (*block)(struct am_mem *mem);
    void (*unblock)(struct am_mem *mem);

    /*
     * AM_CAP_HOST_VIEW. One contiguous address for n spans, where the program may read
     * and write, until view_close(). *ret_is_private: it is a separate mapping;
     * otherwise it exists as long as the memory does, and other views may have the same
     * address.
     */
    aclError (*view_open)(const struct am_span *spans, size_t n, bool must_be_private,
                          void **ret_addr, bool *ret_is_private);
    void (*view_close)(const struct am_span *spans, size_t n, void *addr,
                       bool is_private);

    /*
     * AM_CAP_SHARE.  A descriptor that shows this memory and nothing else, by which
     * another process has the same bytes.  It is mem's own and is closed with it.  Running
     * copies are waited for, and what is open for longer (a view) makes it fail; all that
     * is bounded.
     */
    aclError (*mem_export)(struct am_mem *mem, int *ret_fd);
    /*
     * Memory of another process.  fd stays the caller's and is not trusted: memory that
     * is not exactly `size` bytes, or that could shrink, is refused.
     */
    aclError (*mem_import)(struct am_bank *bank, int fd, size_t size, struct am_mem *mem);
};

/* Declares a backend's function for one of the pointers: cuda_map for map. */
#define AM_BACKEND_OP(prefix_, op_) \
    __typeof__(*((struct am_backend_ops *)NULL)->op_) prefix_##op_;

/* The backend called name; NULL if it does not exist. */
const struct am_backend_ops *am_backend_find(const char *name);

/* The backend of memory of other machines; it is not in the list. */
extern const struct am_backend_ops am_backend_remote;

#endif
