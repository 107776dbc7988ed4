/*
 * Copies and fills on streams.  See copy.h.
 *
 * A short one that would be its stream's only task is done by the caller: handing it to a
 * worker and waiting for it costs more than the copy.  Host memory that is not pinned
 * must be free for the program again when the call returns, so such a copy is waited for.
 */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include "acl/error_codes/rt_error_codes.h"
#include "base/error.h"
#include "base/slab.h"
#include "base/sys.h"
#include "base/util.h"
#include "core/copy/copy.h"
#include "core/copy/copy_overlap.h"
#include "core/copy/copy_remote.h"
#include "core/device/setup.h"
#include "core/stream/sched.h"
#include "core/stream/sched_bypass.h"

#define SHORT_SIZE (64 * AM_KIB) /* about as long as waking a worker takes */

/* The result of a task that its caller waits for; written by the thread that runs it. */
struct outcome {
    bool has_run;
    aclError rc;
};

/* The beginning of a task that copies or fills. */
struct work {
    struct am_task task;
    struct outcome *outcome; /* NULL: no caller waits, and the stream keeps a failure */
    struct am_remote_job *remote; /* NULL: all memory is on this machine */
};

struct copy_task {
    struct work work;
    struct am_transfer transfer;
};

/* Many are under way at a time, more than a thread's share of free memory. */
static struct am_slab copy_slab = AM_SLAB_INIT(struct copy_task, "copy slab");

static struct copy_task *copy_of(struct am_transfer *transfer)
{
    return (struct copy_task *)((char *)transfer - offsetof(struct copy_task, transfer));
}

struct fill_task {
    struct work work;
    struct am_spans to;
    size_t size;
    uint32_t value;
    unsigned width;
};

/*
 * Between devices some device must reach both sides: the stream's, or one of those that
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

/*
 * A failure is reported once: to the caller that waits, or to the next call that
 * synchronises.
 */
static aclError work_report(struct work *work, aclError rc)
{
    if (work->outcome == NULL)
        return rc;
    *work->outcome = (struct outcome){true, rc};
    return ACL_SUCCESS;
}

/* Whether the caller should do it, if it would be the stream's only task. */
static bool is_for_caller(const struct am_stream *stream, size_t size, bool must_wait,
                          bool is_remote)
{
    return must_wait || (size <= SHORT_SIZE && stream->lane.ops == NULL && !is_remote);
}

/* True: the caller has done it, and it is gone. */
static bool work_at_once(struct work *work, struct am_stream *stream, size_t size,
                         bool must_wait, bool is_remote, aclError *ret_rc)
{
    if (!is_for_caller(stream, size, must_wait, is_remote) ||
        !am_lane_try_begin(&stream->lane, size <= SHORT_SIZE))
        return false;
    work->outcome = NULL;
    *ret_rc = work->task.ops->run(&work->task);
    am_sched_end(&am_sched, &stream->queue);
    work->task.ops->drop(&work->task);
    return true;
}

/* Queues it; with must_wait, until it is over: done, failed or dropped. */
AM_HOT static aclError work_queue(struct work *work, struct am_stream *stream,
                                  bool must_wait)
{
    struct outcome outcome = {0};

    work->outcome = must_wait ? &outcome : NULL;
    if (!must_wait)
        return am_stream_submit(stream, &work->task);
    AM_TRY(am_stream_submit_and_wait(stream, &work->task));
    AM_REQUIRE(outcome.has_run, ACL_ERROR_RT_STREAM_ABORT,
               "stream %d was stopped or aborted before it reached this copy; nothing "
               "was copied",
               stream->id);
    AM_REQUIRE(outcome.rc == ACL_SUCCESS, outcome.rc,
               "the copy failed when stream %d executed it", stream->id);
    return ACL_SUCCESS;
}

static aclError copy_run(struct am_task *task)
{
    struct copy_task *ct = (struct copy_task *)task;

    return work_report(&ct->work, am_transfer_run_long(&ct->transfer));
}

/* The caller executes work itself that it would wait for. */
AM_HOT static aclError copy_launch(struct am_task *task,
                                   const struct am_backend_ops *lanes,
                                   struct am_lane *lane)
{
    struct copy_task *ct = (struct copy_task *)task;

    if (ct->work.outcome != NULL)
        return ACL_SUCCESS;
    return am_transfer_launch(&ct->transfer, lanes, lane, &task->number);
}

static void copy_drop(struct am_task *task)
{
    struct copy_task *ct = (struct copy_task *)task;

    if (ct->work.remote != NULL)
        am_remote_job_drop(ct->work.remote);
    am_transfer_close(&ct->transfer);
    am_slab_give(&copy_slab, ct);
}

static const struct am_task_ops copy_ops = {
    .launch = copy_launch, .run = copy_run, .drop = copy_drop};

AM_HOT aclError am_transfer_make(struct am_transfer **ret_transfer)
{
    struct copy_task *ct = am_slab_take(&copy_slab);

    AM_REQUIRE(ct != NULL, ACL_ERROR_BAD_ALLOC, "no memory for a task");
    am_task_init(&ct->work.task, &copy_ops);
    ct->work.remote = NULL;
    *ret_transfer = &ct->transfer;
    return ACL_SUCCESS;
}

void am_transfer_unmake(struct am_transfer *transfer)
{
    am_slab_give(&copy_slab, copy_of(transfer));
}

/* ---- with another machine's memory: the stream is parked while bytes travel ---- */

static bool remote_poll(struct am_task *task, struct am_sched *sched,
                        struct am_waitlist **ret_list)
{
    return am_remote_job_poll(((struct work *)task)->remote, sched, ret_list);
}

static aclError remote_run(struct am_task *task)
{
    struct work *work = (struct work *)task;

    return work_report(work, am_remote_job_result(work->remote));
}

/* The fabric process ends every move in time. */
static bool remote_can_come(struct am_task *task, struct am_sched *sched)
{
    return true;
}

static void remote_describe(const struct am_task *task, char *text, size_t size)
{
    snprintf(text, size, "bytes have come from, or got to, another machine");
}

/* The job does the work from now on; NULL: it could not be made, and the work is gone. */
static aclError work_leave_to(struct work *work, struct am_remote_job *job,
                              const struct am_task_ops *ops)
{
    if (job == NULL) {
        work->task.ops->drop(&work->task);
        return am_fail(ACL_ERROR_BAD_ALLOC, "no memory for a copy between machines");
    }
    work->remote = job;
    work->task.ops = ops;
    return ACL_SUCCESS;
}

static const struct am_task_ops remote_copy_ops = {
    .poll = remote_poll,
    .run = remote_run,
    .can_come = remote_can_come,
    .describe = remote_describe,
    .drop = copy_drop,
};

AM_HOT aclError am_transfer_submit(struct am_transfer *transfer, struct am_stream *stream,
                                   bool must_wait)
{
    struct work *work = &copy_of(transfer)->work;
    bool is_remote = am_transfer_has(transfer, AM_SPANS_REMOTE);
    aclError rc;

    must_wait |= am_transfer_has(transfer, AM_SPANS_PAGEABLE);
    if (work_at_once(work, stream, transfer->size * transfer->n_rows, must_wait,
                     is_remote, &rc))
        return rc;
    /* Sides that overlap in both directions are rare, and a worker waits for them. */
    if (is_remote && am_overlap_order(transfer) <= AM_ORDER_FORWARD)
        AM_TRY(work_leave_to(work, am_remote_job_copy(transfer), &remote_copy_ops));
    return work_queue(work, stream, must_wait);
}

/* Opens the transfer, if the rules in force allow it on the stream. */
static aclError async_open(struct am_transfer *transfer, void *dst, const void *src,
                           size_t size, aclrtMemcpyKind kind,
                           const struct am_stream *stream)
{
    aclError rc = ACL_SUCCESS;

    AM_TRY(am_transfer_open(transfer, dst, src, size, 0, stream->device));
    if (!am_transfer_is_across(transfer))
        rc = am_transfer_check_async(transfer, stream->device);
    if (rc == ACL_SUCCESS && am_setup.is_strict)
        rc = strict_check(transfer, kind);
    if (rc != ACL_SUCCESS)
        am_transfer_close(transfer);
    return rc;
}

/*
 * A short copy on a quiet stream needs no task, so threads with streams of their own share
 * nothing.  False: it has to be queued.
 */
static bool copy_at_once(void *dst, const void *src, size_t size, aclrtMemcpyKind kind,
                         struct am_stream *stream, aclError *ret_rc)
{
    struct am_transfer transfer;
    bool is_ours;

    if (!is_for_caller(stream, size, false, false) || !am_bypass_is_quiet(&stream->queue))
        return false;
    *ret_rc = async_open(&transfer, dst, src, size, kind, stream);
    if (*ret_rc != ACL_SUCCESS)
        return true;
    is_ours = !am_transfer_has(&transfer, AM_SPANS_REMOTE) &&
              am_lane_try_begin(&stream->lane, true);
    if (is_ours) {
        *ret_rc = am_transfer_run_long(&transfer);
        am_sched_end(&am_sched, &stream->queue);
    }
    am_transfer_close(&transfer);
    return is_ours;
}

AM_HOT aclError am_copy_async(void *dst, const void *src, size_t size,
                              aclrtMemcpyKind kind, struct am_stream *stream)
{
    struct am_transfer *transfer;
    aclError rc;

    if (copy_at_once(dst, src, size, kind, stream, &rc))
        return rc;
    AM_TRY(am_transfer_make(&transfer));
    rc = async_open(transfer, dst, src, size, kind, stream);
    if (rc != ACL_SUCCESS) {
        am_transfer_unmake(transfer);
        return rc;
    }
    return am_transfer_submit(transfer, stream, kind == ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE);
}

static aclError fill_run(struct am_task *task)
{
    struct fill_task *ft = (struct fill_task *)task;

    return work_report(&ft->work, am_spans_fill(&ft->to, ft->size, ft->value, ft->width));
}

static aclError fill_launch(struct am_task *task, const struct am_backend_ops *lanes,
                            struct am_lane *lane)
{
    struct fill_task *ft = (struct fill_task *)task;

    if (ft->work.outcome != NULL)
        return ACL_SUCCESS;
    return lanes->lane_fill(lane, ft->to.list, ft->size, ft->value, ft->width,
                            &task->number);
}

static void fill_drop(struct am_task *task)
{
    struct fill_task *ft = (struct fill_task *)task;

    if (ft->work.remote != NULL)
        am_remote_job_drop(ft->work.remote);
    am_spans_close(&ft->to);
    free(ft);
}

static const struct am_task_ops fill_ops = {
    .launch = fill_launch, .run = fill_run, .drop = fill_drop};
static const struct am_task_ops remote_fill_ops = {
    .poll = remote_poll,
    .run = remote_run,
    .can_come = remote_can_come,
    .describe = remote_describe,
    .drop = fill_drop,
};

/* Hands it to the stream, or does it here when it is short and would be alone. */
static aclError fill_submit(struct fill_task *ft, struct am_stream *stream)
{
    bool must_wait = (ft->to.has & AM_SPANS_PAGEABLE) != 0;
    bool is_remote = (ft->to.has & AM_SPANS_REMOTE) != 0;
    aclError rc;

    if (work_at_once(&ft->work, stream, ft->size, must_wait, is_remote, &rc))
        return rc;
    if (is_remote)
        AM_TRY(work_leave_to(&ft->work,
                             am_remote_job_fill(&ft->to, ft->size, ft->value, ft->width),
                             &remote_fill_ops));
    return work_queue(&ft->work, stream, must_wait);
}

aclError am_fill_async(void *dst, size_t size, uint32_t value, unsigned width,
                       struct am_stream *stream)
{
    struct fill_task *ft = am_task_make(&fill_ops, sizeof *ft);
    bool is_at_once;
    aclError rc;

    if (ft == NULL)
        return ACL_ERROR_BAD_ALLOC;
    ft->work.outcome = NULL;
    ft->work.remote = NULL;
    ft->size = size;
    ft->value = value;
    ft->width = width;
    rc = am_spans_open(&ft->to, dst, size, AM_ACCESS_WRITE, stream->device, "devPtr");
    if (rc != ACL_SUCCESS) {
        free(ft);
        return rc;
    }
    rc = am_fill_check(&ft->to, dst, width);
    /* Documented: host memory is filled at once.  Managed memory is every device's, too. */
    is_at_once = width == 4 && ft->to.devices == 0 && !(ft->to.has & AM_SPANS_MANAGED);
    if (rc == ACL_SUCCESS && !is_at_once)
        return fill_submit(ft, stream);
    if (rc == ACL_SUCCESS)
        rc = fill_run(&ft->work.task);
    fill_drop(&ft->work.task);
    return rc;
}
