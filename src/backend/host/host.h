/*
 * The host backend: a memory-management unit in software.
 *
 * store   a memfd cut into 2 MB frames, with one mapping of all of it in this process
 *         (the view) and a state for each frame.  The copy engine reaches memory through
 *         the view and nowhere else, so nothing that the program unmaps can pull memory
 *         away under it.
 * bank    a device's bank has one store of the device's capacity, and hands out frames
 *         of it, any frames: a handle costs no descriptor and no kernel mapping.  Memory
 *         that the program must be able to touch (the host's, and a device's with
 *         ACLMEM_ISOLATE=0) has a separate store for each mem.  Pinned memory is a
 *         store without a memfd, whose view is where it is mapped (pin.c).
 * mem     a store and the numbers of the frames.  Memory that is exported moves to a
 *         separate store, and imported memory has one (share.c).
 *
 * The page table is the core's (address -> mapping -> mem); binding isolated memory to
 * addresses makes no system call.
 */
#ifndef AM_BACKEND_HOST_HOST_H
#define AM_BACKEND_HOST_HOST_H

#include "backend/backend.h"
#include "base/epoch.h"
#include "base/lock.h"
#include "base/util.h"

/* The state of a frame. */
enum {
    HOST_FRAME_HOLDS = 1u << 0, /* may hold bytes; otherwise it reads as zero */
    HOST_FRAME_READY = 1u << 1, /* its pages are there in our view */
    HOST_FRAME_OLD = 1u << 2,   /* its content is from before the allocation */
};

struct host_store {
    int fd; /* -1: pinned or imported memory */
    /* NULL: host_store_see() was not called yet; it stays the same from then on */
    _Atomic(uint8_t *) view;
    size_t n_frames;
    _Atomic uint8_t *state; /* of each frame */
    bool is_sealed;         /* against changes of its size */
    bool wants_huge;   /* transparent huge pages are asked for; the view is aligned */
    bool has_own_view; /* pinned: the view is not where the program reaches the memory */
};

#define HOST_SHARDS 16

/*
 * Free frames of a shard, all under lock.  spare[0 .. n_used) is a stack of frames that hold
 * bytes, and spare[n_frames - n_clean .. n_frames) one of frames that do not.
 */
struct host_shard {
    _Alignas(AM_SHARD_STRIDE) struct am_lock lock;
    uint32_t *spare; /* n_frames entries */
    size_t n_used;
    size_t n_clean;
};

/*
 * A thread takes frames from its shard; they go back to that shard.  Frames from `fresh` on
 * were never handed out.  The sums of n_used and n_clean + (n_frames - fresh) + frames in use
 * = n_frames.
 */
struct host_bank {
    struct am_bank base;
    struct host_store *store; /* NULL if each mem has a separate store */
    size_t n_used_max;        /* more than this many go back to the system */
    uint32_t *spare;          /* of all shards */
    atomic_size_t n_used;     /* the sum over the shards */
    atomic_size_t fresh;
    struct host_shard shard[HOST_SHARDS];
};

/*
 * The content of struct am_mem's impl.  May alias: the bytes are also copied as part of a
 * struct am_mem, and the compiler must keep both in order.
 */
struct __attribute__((may_alias)) host_mem {
    struct host_store *store; /* the bank's, or a separate one */
    uint32_t *frames;         /* NULL: consecutive frames from `first` on */
    uint32_t first;
    uint32_t shard;        /* of the bank, that the frames are from */
    _Atomic uint64_t gate; /* its users, which keep the four fields above as they are */
};

static inline struct host_mem *host_mem(struct am_mem *mem)
{
    _Static_assert(sizeof(struct host_mem) <= sizeof mem->impl, "impl is too small");
    return (struct host_mem *)mem->impl;
}

/* The frame in its store that holds the bytes at offset. */
static inline size_t host_mem_frame(struct am_mem *mem, size_t offset)
{
    struct host_mem *hm = host_mem(mem);
    size_t i = offset >> AM_CHUNK_SHIFT;

    return hm->frames != NULL ? hm->frames[i] : hm->first + i;
}

/* Whether the program can touch it: it then has a separate store, with real mappings. */
static inline bool host_mem_is_addressable(struct am_mem *mem)
{
    return !mem->bank->spec.is_isolated;
}

/* The functions of backend.h that this backend has, in the files below. */
/* clang-format off */
#define HOST_OPS(op_) \
    op_(start) op_(bank_open) op_(bank_close) op_(mem_create) op_(mem_destroy) \
    op_(reserve) op_(reserve_own) op_(release) op_(map) op_(protect) op_(unmap) \
    op_(watch_pinned) op_(pin) op_(unpin) op_(pin_step) op_(copy) op_(fill) \
    op_(prepare) op_(view_open) op_(view_close) op_(mem_export) op_(mem_import)
/* clang-format on */
#define HOST_OP_DECLARE(name_) AM_BACKEND_OP(host_, name_)
HOST_OPS(HOST_OP_DECLARE)

extern const struct am_backend_ops am_backend_host; /* host.c */

/*
 * host.c: an errno of a call that took memory, descriptors or mappings, as a code and a
 * message.
 */
aclError host_error(int error, const char *what, size_t size);

/* bank.c */
/* The frames of isolated memory that is in its bank's store go back to the bank. */
void host_mem_give_frames(struct am_mem *mem);

/*
 * copy.c: memory does not move while it is in use.  A copy passes the gates of all its
 * spans at once and leaves them when it is done; a view pins its spans for longer.
 */
void host_gate_enter(const struct am_span *dst, size_t dst_at, const struct am_span *src,
                     size_t src_at, size_t size);
void host_gate_leave(const struct am_span *dst, size_t dst_at, const struct am_span *src,
                     size_t src_at, size_t size);
void host_gate_pin(const struct am_span *spans, size_t n);
void host_gate_unpin(const struct am_span *spans, size_t n);
/*
 * Waits for the users and keeps new ones out until the gate is opened again; fails when
 * a user does not leave.
 */
aclError host_gate_shut(struct am_mem *mem);
void host_gate_open(struct am_mem *mem);

/*
 * store.c: `state` is the first one of each frame.  Frames of a store that other processes may
 * write are never known to be zero.  fd is the memory of another process and stays the caller's,
 * or -1 for a new one, which has no view yet: an exporter that never touches the memory needs
 * none.
 */
aclError host_store_create(size_t size, int fd, uint8_t state,
                           struct host_store **ret_store);
/* One without a file or a view, whose frames have this state; NULL: there is no memory. */
struct host_store *host_store_make(size_t size, uint8_t state);
/* The view is there from now on; host_store_ready() sees to that, too. */
aclError host_store_see(struct host_store *store);
void host_store_destroy(struct host_store *store);
/* Have the pages of n frames there; a few calls for any n.  The frames that are there stay where it fails. */
aclError host_store_ready(struct host_store *store, size_t first, size_t n);
/* Give the pages of n frames back to the system; false when it would not take them. */
bool host_store_discard(struct host_store *store, size_t first, size_t n);

/*
 * Whether the machine has `size` bytes to populate, 207001 where it has not.
 * `view` is where they are to be; pages that are there already take nothing.  NULL: none
 * are there.  *ret_part is how many of the bytes to populate before the next check.
 */
aclError host_room_check(const void *view, size_t size, size_t *ret_part);

/* space.c */
int host_reserve_aligned(size_t size, size_t align, void **ret_addr); /* 0 or -errno */
/* host_unmap() after a failure, whose message stays the newest. */
void host_map_undo(void *addr, size_t size, struct am_mem *mem);
/*
 * Part of a view once more, at reserved addresses.  On failure (MAP_FAILED and errno)
 * the addresses stay reserved: some kernels unmap them before they know whether the
 * mapping succeeds.
 */
void *host_remap(void *view, size_t size, void *addr);

/* copy.c: memmove, faster for long stretches that do not overlap */
void host_move(void *dst, const void *src, size_t size);
/* pin.c */
aclError host_pinned_create(struct am_mem *mem);
void host_pinned_destroy(struct am_mem *mem);
aclError host_pinned_map(void *addr, size_t size, struct am_mem *mem);

#endif
