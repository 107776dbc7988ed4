/*
 * Copies and fills on streams.  See copy.h.
 *
 * The caller runs a short copy inline if its stream is empty: handing the copy to a worker
 * costs more.  Host memory that is not pinned must be free for the program again when the call
 * returns, so the call waits for such a copy.
 */
#include <stdio.h>
#include <string.h>

#include "acl/error_codes/rt_error_codes.h"
#include "base/error.h"
#include "base/sys.h"
#include "base/thread.h"
#include "base/util.h"
#include "core/copy/copy.h"
#include "core/device/setup.h"

#define SHORT_SIZE (64 * AM_KIB) /* about as long as waking a worker takes */

/* The result of a copy for the call that submits it, if the call waits for it or runs it. */
struct outcome {
    bool has_run;
    aclError rc;
    char why[512]; /* its message, where rc is a failure */
};

/* A copy that waits for another machine has a thread, so that it occupies no worker. */
struct remote_run {
    struct am_waitlist waiting; /* the stream's queue */
    bool is_started;
    bool is_closed;      /* the thread has released the memory */
    atomic_bool is_done; /* written last */
    aclError rc;
    char why[512];
};

struct copy_task {
    struct am_task task;
    bool must_wait;          /* the call waits for it */
    struct outcome *outcome; /* of the call; valid if it waits, or runs the task inline */
    struct remote_run *remote; /* NULL: all memory is on this machine */
    atomic_uint refs;          /* is_remote: the queue and the thread */
    struct am_transfer transfer;
};

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
    return am_transfer_check_kind(transfer, kind);
}

/* ---- on streams ---- */

static aclError copy_do(struct copy_task *ct)
{
    if (ct->remote == NULL)
        return am_transfer_run_long(&ct->transfer);
    AM_REQUIRE(ct->remote->rc == ACL_SUCCESS, ct->remote->rc, "%s",
               am_error_text(ct->remote->why));
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
    struct am_capture before;

    if (!ct->must_wait && !task->is_inline)
        return copy_do(ct);
    outcome->why[0] = '\0';
    before = am_error_capture(outcome->why, sizeof outcome->why);
    outcome->rc = copy_do(ct);
    am_error_capture_end(before);
    outcome->has_run = true;
    return ACL_SUCCESS;
}

/* The caller executes work itself that it would wait for. */
AM_HOT static aclError copy_launch(struct am_task *task,
                                   const struct am_backend_ops *lanes,
                                   struct am_lane *lane)
{
    struct copy_task *ct = (struct copy_task *)task;

    if (ct->must_wait)
        return ACL_SUCCESS;
    return am_transfer_launch(&ct->transfer, lanes, lane, &task->number);
}

static void copy_free(struct am_task *task)
{
    struct copy_task *ct = (struct copy_task *)task;

    if (ct->remote != NULL && !am_ref_drop(&ct->refs))
        return; /* its thread still uses the memory */
    if (ct->remote == NULL || !ct->remote->is_closed)
        am_transfer_close(&ct->transfer);
    free(ct->remote);
    free(ct);
}

static const struct am_task_ops copy_ops = {
    .launch = copy_launch, .run = copy_run, .free = copy_free};

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
    struct am_capture before;
    aclError rc;

    am_error_function = ct->task.function;
    before = am_error_capture(ct->remote->why, sizeof ct->remote->why);
    rc = am_transfer_run(&ct->transfer);
    am_error_capture_end(before);
    ct->remote->rc = rc;
    am_epoch_enter();
    /* Before the stream goes on: memory that the program then frees is free at once. */
    am_transfer_close(&ct->transfer);
    ct->remote->is_closed = true;
    ct->remote->is_done = true;
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
    pthread_t thread;
    int rc;

    ct->remote->is_started = true;
    am_ref_more(&ct->refs);
    am_lock(&threads.lock);
    rc = am_thread_start(&thread, remote_thread, ct);
    threads.n += rc == 0;
    am_unlock(&threads.lock);
    if (rc == 0) {
        pthread_detach(thread);
        return;
    }
    am_ref_drop(&ct->refs); /* not the last one */
    ct->remote->rc = ACL_ERROR_RT_RESOURCE_ALLOC_FAIL;
    ct->remote->is_done = true;
    snprintf(ct->remote->why, sizeof ct->remote->why,
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
    return ct->remote->is_done ? AM_POLL_READY : AM_POLL_WAIT;
}

static void remote_describe(const struct am_task *task, char *text, size_t size)
{
    snprintf(text, size, "a copy from or to another machine ends");
}

static const struct am_task_ops remote_ops = {
    .poll = remote_poll,
    .run = copy_run,
    .completes_by_itself = true, /* the fabric process ends every request in time */
    .describe = remote_describe,
    .free = copy_free,
};

/* ---- submitting ---- */

/* Takes over the transfer, also on failure. */
AM_HOT static aclError copy_make(struct am_transfer *transfer,
                                 struct copy_task **ret_task)
{
    struct copy_task *ct = am_sys_malloc(sizeof *ct);

    if (ct == NULL) {
        am_transfer_close(transfer);
        return am_fail(ACL_ERROR_BAD_ALLOC, "no memory for a task");
    }
    am_task_init(&ct->task, &copy_ops);
    ct->remote = NULL;
    ct->outcome = NULL;
    memcpy(&ct->transfer, transfer, offsetof(struct am_transfer, to));
    am_spans_move(&ct->transfer.to, &transfer->to);
    am_spans_move(&ct->transfer.from, &transfer->from);
    *ret_task = ct;
    if (!am_transfer_has(transfer, AM_SPANS_REMOTE))
        return ACL_SUCCESS;
    ct->task.ops = &remote_ops;
    ct->refs = 1;
    ct->remote = am_sys_calloc(1, sizeof *ct->remote);
    if (ct->remote == NULL) {
        copy_free(&ct->task);
        return am_fail(ACL_ERROR_BAD_ALLOC, "no memory for a copy between machines");
    }
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

AM_HOT aclError am_transfer_submit(struct am_transfer *transfer, struct am_stream *stream,
                                   bool must_wait)
{
    bool is_remote = am_transfer_has(transfer, AM_SPANS_REMOTE);
    bool is_short = transfer->size * transfer->n_rows <= SHORT_SIZE;
    struct outcome outcome;
    struct copy_task *ct;

    must_wait |= am_transfer_has(transfer, AM_SPANS_PAGEABLE);
    AM_TRY(copy_make(transfer, &ct));
    outcome.has_run = false;
    ct->outcome = &outcome;
    ct->must_wait = must_wait;
    /* A device executes a short copy itself. */
    ct->task.is_short =
        !is_remote && (must_wait || (is_short && stream->queue.device == NULL));
    if (!must_wait) {
        AM_TRY(am_stream_submit(stream, &ct->task));
        return outcome.has_run ? outcome_check(&outcome, stream) : ACL_SUCCESS;
    }
    (void)am_queue_wait_launched(&stream->queue, AM_FOREVER); /* then it runs inline */
    AM_TRY(am_stream_submit_and_wait(stream, &ct->task));
    return outcome_check(&outcome, stream);
}

AM_HOT aclError am_copy_async(void *dst, const void *src, size_t size,
                              aclrtMemcpyKind kind, struct am_stream *stream)
{
    struct am_transfer transfer;
    aclError rc = ACL_SUCCESS;

    AM_TRY(am_transfer_open(&transfer, dst, src, size, 0, stream->device));
    if (!am_transfer_is_across(&transfer))
        rc = am_transfer_check_async(&transfer, stream->device);
    if (rc == ACL_SUCCESS && am_setup.is_strict)
        rc = strict_check(&transfer, kind);
    if (rc != ACL_SUCCESS) {
        am_transfer_close(&transfer);
        return rc;
    }
    return am_transfer_submit(&transfer, stream,
                              kind == ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE);
}

aclError am_fill_async(void *dst, size_t size, uint32_t value, unsigned width,
                       struct am_stream *stream)
{
    struct am_transfer transfer;
    aclError rc;

    AM_TRY(am_transfer_open_fill(&transfer, dst, size, value, width, stream->device));
    /* Documented: host memory is filled at once.  Managed memory is every device's, too. */
    if (width == 1 || transfer.to.devices != 0 || (transfer.to.has & AM_SPANS_MANAGED))
        return am_transfer_submit(&transfer, stream, false);
    rc = am_transfer_run(&transfer);
    am_transfer_close(&transfer);
    return rc;
}
