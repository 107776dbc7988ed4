/*
 * Copies and fills.  See copy.h.
 *
 * The caller runs a short copy inline if its stream is empty: handing the copy to a worker
 * costs more.  Host memory that is not pinned must be free for the program again when the call
 * returns, so the call waits for such a copy.
 */
#include "core/copy/copy.h"

#include <stdio.h>
#include <string.h>

#include "acl/error_codes/rt_error_codes.h"
#include "base/copy_kind.h"
#include "base/error.h"
#include "base/sys.h"
#include "base/lock.h"
#include "base/util.h"
#include "core/device/context.h"
#include "core/device/setup.h"
#include "core/stream/capture.h"
#include "core/stream/wait.h"

#define SHORT_SIZE (64 * AM_KIB) /* about as long as waking a worker takes */

/* ---- rules ---- */

/*
 * Between devices some device must reach both sides: the stream's, or one of the devices that
 * own them.
 */
static aclError peers_check(const struct am_transfer *transfer, uint64_t devices,
                            int32_t device)
{
    uint64_t left = devices | UINT64_C(1) << device;

    for (; left != 0; left &= left - 1) {
        int32_t d = __builtin_ctzll(left);

        if (am_spans_are_reachable(&transfer->to, AM_ACCESS_WRITE, d) &&
            am_spans_are_reachable(&transfer->from, AM_ACCESS_READ, d))
            return ACL_SUCCESS;
    }
    return am_fail(ACL_ERROR_RT_PARAM_INVALID,
                   "the copy is between devices %d and %d, and neither may access the "
                   "other; call aclrtDeviceEnablePeerAccess or aclrtMemSetAccess first",
                   __builtin_ctzll(devices), __builtin_ctzll(devices & (devices - 1)));
}

aclError am_transfer_check_async(const struct am_transfer *transfer, int32_t device)
{
    uint64_t devices = transfer->to.devices | transfer->from.devices;

    AM_REQUIRE(devices != 0 || am_transfer_has(transfer, AM_SPANS_MANAGED) ||
                   (am_setup.product->features & AM_PRODUCT_RC),
               ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
               "both sides are host memory, which only products in RC form copy on a "
               "stream; use aclrtMemcpy or memcpy");
    if (transfer->to.devices != 0 && transfer->from.devices != 0 &&
        (devices & (devices - 1)) != 0)
        return peers_check(transfer, devices, device);
    return ACL_SUCCESS;
}

/* A check of the strict rules only: the kind, which the newest edition ignores, must be true. */
static aclError kind_check(const struct am_transfer *transfer, aclrtMemcpyKind kind)
{
    bool to_device = transfer->to.devices != 0;
    bool from_device = transfer->from.devices != 0;
    unsigned real = am_copy_kind_of(to_device, from_device);

    if (am_transfer_has(transfer, AM_SPANS_MANAGED))
        return ACL_SUCCESS; /* managed memory counts as either side */
    AM_REQUIRE(am_copy_kind_is_portable(kind, to_device, from_device),
               ACL_ERROR_RT_PARAM_INVALID,
               "kind is %s (%d) but the addresses make it %s (%u); not every edition "
               "ignores kind (ACLMEM_RULES=strict)",
               am_copy_kind_name(kind), (int)kind, am_copy_kind_name(real), real);
    return ACL_SUCCESS;
}

static aclError sync_check(const struct am_transfer *transfer, aclrtMemcpyKind kind,
                           int32_t device)
{
    uint64_t devices = transfer->to.devices | transfer->from.devices;
    bool is_between = transfer->to.devices != 0 && transfer->from.devices != 0 &&
                      (devices & (devices - 1)) != 0;

    AM_REQUIRE(
        !is_between || !am_transfer_has(transfer, AM_SPANS_RESERVED),
        ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
        "the two sides are on different devices; between devices, memory behind reserved "
        "addresses is copied with aclrtMemcpyAsync only");
    if (is_between)
        AM_TRY(am_transfer_check_async(transfer, device)); /* as peers, there and here */
    return am_setup.is_strict ? kind_check(transfer, kind) : ACL_SUCCESS;
}

/* The 8.0 edition's rules for copies on streams. */
static aclError strict_check(const struct am_transfer *transfer, aclrtMemcpyKind kind)
{
    uintptr_t addresses =
        (uintptr_t)transfer->to.list[0].addr | (uintptr_t)transfer->from.list[0].addr;

    AM_REQUIRE(am_is_aligned(addresses, 64), ACL_ERROR_RT_ADDR_UNALIGNED,
               "dst %p and src %p must be multiples of 64 in the 8.0 edition "
               "(ACLMEM_RULES=strict)",
               transfer->to.list[0].addr, transfer->from.list[0].addr);
    AM_REQUIRE(!am_transfer_has(transfer, AM_SPANS_PAGEABLE), ACL_ERROR_RT_PARAM_INVALID,
               "host memory must come from aclrtMallocHost in the 8.0 edition "
               "(ACLMEM_RULES=strict)");
    return kind_check(transfer, kind);
}

/* ---- tasks ---- */

/* The result of a copy that another thread may have run. */
struct outcome {
    atomic_bool has_run; /* written last */
    aclError rc;
    char why[512]; /* its message, where rc is a failure */
};

/* A copy that waits for another machine has a thread, so that it occupies no worker. */
struct remote_run {
    struct am_waitlist waiting; /* the stream's queue */
    bool is_started;
    bool is_closed;   /* the thread has released the memory */
    atomic_uint refs; /* the queue and the thread */
    struct outcome outcome;
};

struct copy_task {
    struct am_task task;
    struct outcome *outcome; /* of the call; valid if it waits, or runs the task inline */
    struct remote_run *remote;   /* NULL: all memory is on this machine */
    int32_t device;              /* a captured task: of the stream */
    struct am_transfer transfer; /* a captured task: only the addresses */
    struct am_transfer
        launched[]; /* a captured task has one: on the device, its memory */
};

/*
 * A task of a model: finds the memory that is at its addresses now.  The transfer is empty, or
 * has the memory of another task.
 */
static aclError captured_open(const struct copy_task *ct, struct am_transfer *transfer)
{
    const struct am_transfer *ranges = &ct->transfer;
    aclError rc;

    memcpy(transfer, ranges, offsetof(struct am_transfer, to));
    rc = am_spans_reopen_next(&transfer->to, &ranges->to, AM_ACCESS_WRITE | AM_SPANS_TURN,
                              ct->device, "dst");
    if (rc == ACL_SUCCESS)
        rc = am_spans_reopen_next(&transfer->from, &ranges->from,
                                  AM_ACCESS_READ | AM_SPANS_TURN, ct->device, "src");
    if (rc != ACL_SUCCESS)
        am_transfer_close(transfer);
    return rc;
}

static aclError copy_do(struct copy_task *ct)
{
    struct outcome *outcome;

    if (ct->remote == NULL)
        return am_transfer_run(&ct->transfer);
    outcome = &ct->remote->outcome;
    AM_REQUIRE(outcome->rc == ACL_SUCCESS, outcome->rc, "%s",
               am_error_text(outcome->why));
    return ACL_SUCCESS;
}

/*
 * A failure is reported once: to the caller that waits, or to the next call that
 * synchronises.
 */
static aclError copy_run(struct am_task *task)
{
    struct copy_task *ct = (struct copy_task *)task;
    struct outcome *outcome = ct->outcome;

    if (!ct->transfer.must_wait && !task->is_inline)
        return copy_do(ct);
    outcome->why[0] = '\0';
    outcome->rc = AM_CAPTURED(outcome->why, sizeof outcome->why, copy_do(ct));
    outcome->has_run = true;
    return ACL_SUCCESS;
}

/* The caller executes work itself that it would wait for. */
AM_HOT static aclError copy_launch(struct am_task *task,
                                   const struct am_backend_ops *lanes,
                                   struct am_lane *lane)
{
    struct copy_task *ct = (struct copy_task *)task;

    if (ct->transfer.must_wait)
        return ACL_SUCCESS;
    return am_transfer_launch(&ct->transfer, lanes, lane, &task->number);
}

static void copy_free(struct am_task *task)
{
    struct copy_task *ct = (struct copy_task *)task;

    if (ct->remote != NULL && !am_ref_drop(&ct->remote->refs))
        return; /* its thread still uses the memory */
    if (ct->remote == NULL || !ct->remote->is_closed)
        am_transfer_close(&ct->transfer);
    free(ct->remote);
    free(ct);
}

static const struct am_task_ops copy_ops = {
    .launch = copy_launch, .run = copy_run, .free = copy_free};

static aclError captured_launch(struct am_task *task, const struct am_backend_ops *lanes,
                                struct am_lane *lane)
{
    struct copy_task *ct = (struct copy_task *)task;
    aclError rc = ACL_SUCCESS;

    am_transfer_init(ct->launched);
    AM_TRY(captured_open(ct, ct->launched));
    if (!am_transfer_has(ct->launched, AM_SPANS_REMOTE))
        rc = am_transfer_launch(ct->launched, lanes, lane, &task->number);
    if (rc != ACL_SUCCESS || task->number == 0)
        am_transfer_close(ct->launched);
    return rc;
}

static aclError captured_completed(struct am_task *task,
                                   const struct am_backend_ops *device)
{
    am_transfer_close(((struct copy_task *)task)->launched);
    return ACL_SUCCESS;
}

static bool side_open(struct am_spans *side, const struct am_spans *previous,
                      const struct am_spans *ranges, unsigned access, int32_t device)
{
    return (previous != NULL &&
            am_spans_borrow(side, previous, ranges, access, device)) ||
           am_spans_reopen(side, ranges, access, device, "memory") == ACL_SUCCESS;
}

/* Without AM_SPANS_TURN: a block that is about to be freed is left to the worker. */
static bool captured_step_open(struct am_task *task, void *memory, const void *previous,
                               struct am_step *ret_step)
{
    const struct copy_task *ct = (struct copy_task *)task;
    const struct am_transfer *before = previous;
    struct am_transfer *transfer = memory;

    am_transfer_init(transfer);
    memcpy(transfer, &ct->transfer, offsetof(struct am_transfer, to));
    if (side_open(&transfer->to, before != NULL ? &before->to : NULL, &ct->transfer.to,
                  AM_ACCESS_WRITE, ct->device) &&
        side_open(&transfer->from, before != NULL ? &before->from : NULL,
                  &ct->transfer.from, AM_ACCESS_READ, ct->device) &&
        am_transfer_step(transfer, ret_step))
        return true;
    am_transfer_close(transfer);
    return false;
}

static aclError captured_run(struct am_task *task, void *memory, bool is_first)
{
    struct am_transfer *transfer = memory;

    if (is_first)
        am_transfer_init(transfer);
    AM_TRY(captured_open((struct copy_task *)task, transfer));
    return am_transfer_run(transfer);
}

static void captured_step_close(void *memory)
{
    am_transfer_close(memory);
}

_Static_assert(sizeof(struct am_transfer) <= AM_STEP_SIZE,
               "room for the memory of a step");

static const struct am_task_ops captured_ops = {
    .launch = captured_launch,
    .completed = captured_completed,
    .free = copy_free,
    .step_size = sizeof(struct am_transfer),
    .step_open = captured_step_open,
    .step_run = captured_run,
    .step_close = captured_step_close,
};

/* ---- with another machine's memory ---- */

static struct {
    struct am_lock lock;
    pthread_cond_t ended;
    unsigned n; /* lock; threads that run */
} threads = {.lock = AM_LOCK_INIT(AM_RANK_LEAF, "remote copies"),
             .ended = PTHREAD_COND_INITIALIZER};

static void *remote_thread(void *arg)
{
    struct copy_task *ct = arg;
    struct outcome *outcome = &ct->remote->outcome;

    am_error_function = ct->task.function;
    outcome->rc =
        AM_CAPTURED(outcome->why, sizeof outcome->why, am_transfer_run(&ct->transfer));
    am_epoch_enter();
    /* Before the stream goes on: memory that the program then frees is free at once. */
    am_transfer_close(&ct->transfer);
    ct->remote->is_closed = true;
    outcome->has_run = true;
    am_waitlist_wake(&ct->remote->waiting);
    copy_free(&ct->task);
    am_epoch_leave();
    am_lock(&threads.lock);
    threads.n--;
    pthread_cond_broadcast(&threads.ended);
    am_unlock(&threads.lock);
    return NULL;
}

static void remote_start(struct copy_task *ct)
{
    struct outcome *outcome = &ct->remote->outcome;
    pthread_t thread;
    int rc;

    ct->remote->is_started = true;
    am_ref_more(&ct->remote->refs);
    am_lock(&threads.lock);
    rc = am_thread_start(&thread, remote_thread, ct);
    threads.n += rc == 0;
    am_unlock(&threads.lock);
    if (rc == 0) {
        pthread_detach(thread);
        return;
    }
    am_ref_drop(&ct->remote->refs); /* not the last one */
    outcome->rc = ACL_ERROR_RT_RESOURCE_ALLOC_FAIL;
    outcome->has_run = true;
    snprintf(outcome->why, sizeof outcome->why,
             "no thread for a copy between machines: %s", strerror(rc));
}

void am_copy_stop(void)
{
    am_lock(&threads.lock);
    while (threads.n > 0)
        pthread_cond_wait(&threads.ended, &threads.lock.mutex);
    am_unlock(&threads.lock);
}

static enum am_poll remote_poll(struct am_task *task)
{
    struct copy_task *ct = (struct copy_task *)task;

    if (!ct->remote->is_started)
        remote_start(ct);
    am_waitlist_join(&ct->remote->waiting, task);
    return ct->remote->outcome.has_run ? AM_POLL_READY : AM_POLL_WAIT;
}

static const struct am_task_ops remote_ops = {
    .poll = remote_poll,
    .run = copy_run,
    .completes_by_itself = true, /* the fabric process ends every request in time */
    .awaits = "a copy from or to another machine ends",
    .free = copy_free,
};

/* ---- submitting ---- */

/* Takes over the transfer, also on failure. */
AM_HOT static aclError copy_make(struct am_transfer *transfer, bool is_captured,
                                 struct copy_task **ret_task)
{
    struct copy_task *ct =
        am_sys_malloc(sizeof *ct + (is_captured ? sizeof ct->launched[0] : 0));

    if (ct == NULL) {
        am_transfer_close(transfer);
        return am_fail(ACL_ERROR_BAD_ALLOC, "no memory for a task");
    }
    am_task_init(&ct->task, is_captured ? &captured_ops : &copy_ops);
    ct->remote = NULL;
    ct->outcome = NULL;
    memcpy(&ct->transfer, transfer, offsetof(struct am_transfer, to));
    am_spans_move(&ct->transfer.to, &transfer->to);
    am_spans_move(&ct->transfer.from, &transfer->from);
    ct->task.is_captured = is_captured;
    *ret_task = ct;
    if (!am_transfer_has(transfer, AM_SPANS_REMOTE) || is_captured)
        return ACL_SUCCESS;
    ct->task.ops = &remote_ops;
    ct->remote = am_sys_calloc(1, sizeof *ct->remote);
    if (ct->remote == NULL) {
        copy_free(&ct->task);
        return am_fail(ACL_ERROR_BAD_ALLOC, "no memory for a copy between machines");
    }
    ct->remote->refs = 1;
    am_waitlist_init(&ct->remote->waiting);
    return ACL_SUCCESS;
}

static aclError outcome_check(struct outcome *outcome, const struct am_stream *stream)
{
    AM_REQUIRE(outcome->has_run, ACL_ERROR_RT_STREAM_ABORT,
               "stream %d was stopped or aborted before it reached this copy; nothing "
               "was copied",
               stream->id);
    AM_REQUIRE(outcome->rc == ACL_SUCCESS, outcome->rc,
               "the copy failed when stream %d executed it: %s", stream->id,
               am_error_text(outcome->why));
    return ACL_SUCCESS;
}

/* The two functions take over the transfer, also on failure. */

/* Records the transfer in a model. */
static aclError copy_record(struct am_transfer *transfer, struct am_stream *stream)
{
    struct copy_task *ct;

    if (transfer->must_wait) {
        am_transfer_close(transfer);
        return am_stream_refuse(stream, ACL_ERROR_RT_CAPTURE_MODE_NOT_SUPPORT,
                                "a captured copy takes pinned host memory: allocate it "
                                "with aclrtMallocHost or register it");
    }
    am_spans_drop(&transfer->to);
    am_spans_drop(&transfer->from);
    AM_TRY(copy_make(transfer, true, &ct));
    ct->device = stream->device;
    ct->task.is_short = transfer->size * transfer->n_rows <= SHORT_SIZE &&
                        stream->queue.device == NULL &&
                        !am_transfer_has(transfer, AM_SPANS_REMOTE);
    return am_stream_submit(stream, &ct->task);
}

/* Runs the transfer inline or queues it. */
AM_HOT static aclError copy_submit(struct am_transfer *transfer, struct am_stream *stream)
{
    bool is_remote = am_transfer_has(transfer, AM_SPANS_REMOTE);
    bool is_short = transfer->size * transfer->n_rows <= SHORT_SIZE;
    struct outcome outcome;
    struct copy_task *ct;
    aclError rc = ACL_SUCCESS;
    bool must_wait = transfer->must_wait |= am_transfer_has(transfer, AM_SPANS_PAGEABLE);

    if (am_stream_is_captured(stream))
        return copy_record(transfer, stream);
    if (am_transfer_has(transfer, AM_SPANS_PAGEABLE) && am_capture_is_under_way())
        rc = am_capture_check_unsafe(AM_CAPTURE_PAGEABLE);
    if (rc != ACL_SUCCESS) {
        am_transfer_close(transfer);
        return rc;
    }
    AM_TRY(copy_make(transfer, false, &ct));
    atomic_init(&outcome.has_run, false);
    ct->outcome = &outcome;
    /* A device executes a short copy itself. */
    ct->task.is_short =
        !is_remote && (must_wait || (is_short && stream->queue.device == NULL));
    if (!must_wait) {
        AM_TRY(am_stream_submit(stream, &ct->task));
        return outcome.has_run ? outcome_check(&outcome, stream) : ACL_SUCCESS;
    }
    (void)am_stall_wait_launched(&stream->queue, AM_FOREVER); /* then it runs inline */
    AM_TRY(am_stream_submit_and_wait(stream, &ct->task));
    return outcome_check(&outcome, stream);
}

AM_HOT aclError am_transfer_finish(struct am_transfer *transfer, aclError rc,
                                   struct am_stream *stream)
{
    if (rc == ACL_SUCCESS && stream != NULL)
        return copy_submit(transfer, stream);
    if (rc == ACL_SUCCESS)
        rc = am_transfer_run(transfer);
    am_transfer_close(transfer);
    return rc;
}

aclError am_transfer_device(const struct am_stream *stream, int32_t *ret_device)
{
    if (stream == NULL && am_capture_is_under_way())
        AM_TRY(am_capture_check_unsafe("copy asynchronously, or let this thread call "
                                       "aclmdlRICaptureThreadExchangeMode with RELAXED"));
    if (stream == NULL)
        return am_context_device(ret_device);
    *ret_device = stream->device;
    return ACL_SUCCESS;
}

/* ---- copies and fills ---- */

aclError am_copy(void *dst, const void *src, size_t size, aclrtMemcpyKind kind)
{
    struct am_transfer transfer;
    int32_t device;

    AM_TRY(am_transfer_device(NULL, &device));
    AM_TRY(am_transfer_open(&transfer, dst, size, src, size, 0, device));
    return am_transfer_finish(&transfer, sync_check(&transfer, kind, device), NULL);
}

AM_HOT aclError am_copy_async(void *dst, const void *src, size_t size,
                              aclrtMemcpyKind kind, struct am_stream *stream)
{
    struct am_transfer transfer;
    aclError rc = ACL_SUCCESS;

    AM_TRY(am_transfer_open(&transfer, dst, size, src, size, 0, stream->device));
    transfer.must_wait = kind == ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE;
    if (!am_transfer_is_across(&transfer))
        rc = am_transfer_check_async(&transfer, stream->device);
    if (rc == ACL_SUCCESS && am_setup.is_strict)
        rc = strict_check(&transfer, kind);
    return am_transfer_finish(&transfer, rc, stream);
}

static aclError fill_check(const struct am_spans *to, unsigned width)
{
    AM_REQUIRE(width != 4 || to->list[0].mem != NULL, ACL_ERROR_RT_PARAM_INVALID,
               "%p is the program's own memory: words can be filled only in memory that "
               "AscendCL allocated, with aclrtMalloc or aclrtMallocHost",
               to->list[0].addr);
    AM_REQUIRE(
        !am_setup.is_strict || to->list[0].mem != NULL, ACL_ERROR_RT_PARAM_INVALID,
        "%p is host memory that was not allocated through ACL: all editions leave that "
        "undefined (ACLMEM_RULES=strict)",
        to->list[0].addr);
    return ACL_SUCCESS;
}

aclError am_fill(void *dst, size_t size, uint32_t value, unsigned width,
                 struct am_stream *stream)
{
    struct am_transfer transfer;
    int32_t device;

    AM_TRY(am_transfer_device(stream, &device));
    am_transfer_init(&transfer);
    AM_TRY(am_spans_open(&transfer.to, dst, size, AM_ACCESS_WRITE, device, "devPtr"));
    transfer.size = size;
    transfer.value = value;
    transfer.width = width;
    /* Documented: host memory is filled at once.  Managed memory is every device's, too. */
    if (stream != NULL && width == 4 && transfer.to.devices == 0 &&
        !(transfer.to.has & AM_SPANS_MANAGED) && !am_stream_is_captured(stream))
        stream = NULL;
    return am_transfer_finish(&transfer, fill_check(&transfer.to, width), stream);
}
