/* See memory_op.h. */
#include "core/copy/memory_op.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "acl/error_codes/rt_error_codes.h"
#include "base/error.h"
#include "core/copy/copy.h"
#include "core/device/context.h"
#include "core/device/setup.h"

struct op {
    struct am_task task;
    struct am_spans spans;  /* the argument in device memory */
    struct am_spans second; /* of an indirect copy: where the source's address stands */
    int32_t device;
    union {
        struct {
            uint64_t value;
            uint32_t how;
            aclError rc;   /* of a wait: the result of reading the memory */
            char why[256]; /* its message */
        };
        enum am_desc_kind kind;
        struct am_indirect indirect;
    };
};

static void op_free(struct am_task *task)
{
    struct op *op = (struct op *)task;

    am_spans_close(&op->spans);
    am_spans_close(&op->second);
    free(op);
}

/* Reads or writes the device's memory. */
static aclError spans_access(const struct am_spans *theirs, const struct am_span *ours,
                             unsigned access)
{
    return access & AM_ACCESS_WRITE
               ? am_setup.backend->copy(theirs->list, 0, ours, 0, ours->size)
               : am_setup.backend->copy(ours, 0, theirs->list, 0, ours->size);
}

aclError am_memory_access(void *addr, void *ours, size_t size, unsigned access,
                          int32_t device, const char *what)
{
    struct am_span our_span = {.addr = ours, .size = size};
    struct am_spans spans;
    aclError rc;

    AM_TRY(am_spans_open_device(&spans, addr, size, access, device, what));
    rc = spans_access(&spans, &our_span, access);
    am_spans_close(&spans);
    return rc;
}

/* The memory for one access: the task's, or what is at the addresses of a captured task now. */
static aclError op_access(const struct op *op, const struct am_spans *spans,
                          struct am_span *ours, unsigned access)
{
    struct am_spans now;
    aclError rc;

    if (!op->task.is_captured)
        return spans_access(spans, ours, access);
    AM_TRY(
        am_spans_reopen(&now, spans, access | AM_SPANS_TURN, op->device, "the address"));
    rc = spans_access(&now, ours, access);
    am_spans_close(&now);
    return rc;
}

/*
 * Bytes of device memory into memory of ours.  The backend copies eight aligned bytes in one
 * access, and does the lookup then, so the memory can be exported while the task is queued.
 */
static aclError op_read(const struct op *op, const struct am_spans *spans, void *to,
                        size_t size)
{
    struct am_span ours = {.addr = to, .size = size};

    return op_access(op, spans, &ours, AM_ACCESS_READ);
}

static struct op *op_make(const struct am_task_ops *ops, const struct am_stream *stream)
{
    struct op *op = am_task_make(ops, sizeof *op);

    if (op == NULL)
        return NULL;
    op->device = stream->device;
    am_spans_init(&op->spans);
    am_spans_init(&op->second);
    return op;
}

/* Queues the task, whose memory was found if rc is 0. */
static aclError op_finish(struct op *op, aclError rc, struct am_stream *stream)
{
    if (rc != ACL_SUCCESS) {
        op_free(&op->task);
        return rc;
    }
    op->task.is_captured = am_stream_is_captured(stream);
    if (op->task.is_captured) {
        am_spans_drop(&op->spans);
        am_spans_drop(&op->second);
    }
    return am_stream_submit(stream, &op->task);
}

/* The same for one range of device memory. */
static aclError op_submit(struct op *op, const void *addr, size_t size, unsigned access,
                          const char *what, struct am_stream *stream)
{
    return op_finish(
        op, am_spans_open_device(&op->spans, addr, size, access, op->device, what),
        stream);
}

/* ---- no effect ---- */

static const struct am_task_ops keep_ops = {.free = op_free};

aclError am_memory_op_touch(void *addr, size_t size, struct am_stream *stream)
{
    struct op *op = op_make(&keep_ops, stream);

    if (op == NULL)
        return ACL_ERROR_BAD_ALLOC;
    return op_submit(op, addr, size, AM_ACCESS_READ, "src", stream);
}

aclError am_memory_op_keep(struct am_spans *spans, struct am_stream *stream)
{
    struct op *op = op_make(&keep_ops, stream);

    if (op == NULL) {
        am_spans_close(spans);
        return ACL_ERROR_BAD_ALLOC;
    }
    am_spans_move(&op->spans, spans);
    return op_finish(op, ACL_SUCCESS, stream);
}

/* ---- values ---- */

static aclError write_run(struct am_task *task)
{
    struct op *op = (struct op *)task;
    struct am_span ours = {.addr = &op->value, .size = sizeof op->value};

    return op_access(op, &op->spans, &ours, AM_ACCESS_WRITE);
}

static bool value_matches(uint64_t now, uint64_t value, uint32_t how)
{
    switch (how) {
    case ACL_STREAM_WAIT_VALUE_GEQ:
        return (int64_t)(now - value) >= 0;
    case ACL_STREAM_WAIT_VALUE_EQ:
        return now == value;
    case ACL_STREAM_WAIT_VALUE_AND:
        return (now & value) != 0;
    default: /* ACL_STREAM_WAIT_VALUE_NOR */
        return ~(now | value) != 0;
    }
}

static enum am_poll wait_poll(struct am_task *task)
{
    struct op *op = (struct op *)task;
    const char *function = am_error_function;
    struct am_capture before = am_error_capture(op->why, sizeof op->why);
    uint64_t now = 0;

    am_error_function = task->function;
    op->rc = op_read(op, &op->spans, &now, sizeof now);
    am_error_capture_end(before);
    am_error_function = function;
    return op->rc != ACL_SUCCESS || value_matches(now, op->value, op->how)
               ? AM_POLL_READY
               : AM_POLL_AGAIN;
}

static aclError wait_run(struct am_task *task)
{
    struct op *op = (struct op *)task;

    AM_REQUIRE(op->rc == ACL_SUCCESS, op->rc, "the value cannot be read: %s",
               am_error_text(op->why));
    return ACL_SUCCESS;
}

static void wait_describe(const struct am_task *task, char *text, size_t size)
{
    static const char *const tests[] = {
        [ACL_STREAM_WAIT_VALUE_GEQ] = "is at least",
        [ACL_STREAM_WAIT_VALUE_EQ] = "is",
        [ACL_STREAM_WAIT_VALUE_AND] = "has a bit of",
        [ACL_STREAM_WAIT_VALUE_NOR] = "lacks a bit that is not in",
    };
    const struct op *op = (const struct op *)task;

    snprintf(text, size, "the value at %p %s 0x%" PRIx64, op->spans.list[0].addr,
             tests[op->how], op->value);
}

static const struct am_task_ops write_ops = {
    .run = write_run, .free = op_free, .type = ACL_MODEL_RI_TASK_VALUE_WRITE};
static const struct am_task_ops wait_ops = {
    .poll = wait_poll,
    .run = wait_run,
    .describe = wait_describe,
    .free = op_free,
    .type = ACL_MODEL_RI_TASK_VALUE_WAIT,
};

aclError am_memory_op_value(void *addr, bool is_write, uint64_t value, uint32_t how,
                            struct am_stream *stream)
{
    struct op *op = op_make(is_write ? &write_ops : &wait_ops, stream);

    if (op == NULL)
        return ACL_ERROR_BAD_ALLOC;
    op->value = value;
    op->how = how;
    return op_submit(op, addr, sizeof value, is_write ? AM_ACCESS_WRITE : AM_ACCESS_READ,
                     "devAddr", stream);
}

/* ---- descriptors ---- */

/* The first bytes of a descriptor, which detect memory that is not a descriptor. */
static const uint64_t marks[] = {
    [AM_DESC_COPY] = UINT64_C(0x61636c6d636f7079),
    [AM_DESC_TOUCH] = UINT64_C(0x61636c6d746f7563),
};

struct desc {
    uint64_t mark;
    uint64_t src;
    uint64_t dst; /* copies only */
    uint64_t size;
    uint64_t rsv[4];
};

_Static_assert(sizeof(struct desc) == AM_DESC_SIZE, "the size that the program gets");

aclError am_desc_set(void *desc, enum am_desc_kind kind, void *src, void *dst,
                     size_t size)
{
    struct desc content = {
        .mark = marks[kind], .src = (uintptr_t)src, .dst = (uintptr_t)dst, .size = size};
    int32_t device;

    AM_TRY(am_context_device(&device));
    return am_memory_access(desc, &content, sizeof content, AM_ACCESS_WRITE, device,
                            "desc");
}

/* A copy inside the stream's device, between addresses that were read from its memory. */
static aclError inner_copy(uint64_t dst, uint64_t src, size_t size, int32_t device)
{
    struct am_transfer transfer;
    aclError rc = ACL_SUCCESS;

    AM_TRY(am_transfer_open(&transfer, (void *)dst, size, (const void *)src, size,
                            AM_SPANS_TURN, device));
    if (!am_spans_fit(&transfer.to, true) || !am_spans_fit(&transfer.from, true) ||
        ((transfer.to.devices | transfer.from.devices) & ~(UINT64_C(1) << device)) != 0)
        rc = am_fail(ACL_ERROR_RT_PARAM_INVALID,
                     "dst %p and src %p are not both memory of device %d, as the kind "
                     "INNER_DEVICE_TO_DEVICE (6) says",
                     (void *)dst, (void *)src, device);
    return am_transfer_finish(&transfer, rc, NULL);
}

static aclError desc_run(struct am_task *task)
{
    struct op *op = (struct op *)task;
    struct am_spans touched;
    struct desc desc;

    AM_TRY(op_read(op, &op->spans, &desc, sizeof desc));
    AM_REQUIRE(desc.mark == marks[op->kind], ACL_ERROR_RT_PARAM_INVALID,
               "the %zu bytes at %p are not a descriptor for this call; they begin with "
               "0x%" PRIx64,
               sizeof desc, op->spans.list[0].addr, desc.mark);
    if (op->kind == AM_DESC_COPY)
        return inner_copy(desc.dst, desc.src, desc.size, op->device);
    AM_TRY(am_spans_open_device(&touched, (void *)desc.src, desc.size,
                                AM_ACCESS_READ | AM_SPANS_TURN, op->device, "src"));
    am_spans_close(&touched);
    return ACL_SUCCESS;
}

static const struct am_task_ops desc_ops = {.run = desc_run, .free = op_free};

aclError am_desc_submit(void *desc, enum am_desc_kind kind, struct am_stream *stream)
{
    struct op *op = op_make(&desc_ops, stream);

    if (op == NULL)
        return ACL_ERROR_BAD_ALLOC;
    op->kind = kind;
    return op_submit(op, desc, sizeof(struct desc), AM_ACCESS_READ, "desc", stream);
}

/* ---- indirect copies ---- */

static aclError indirect_run(struct am_task *task)
{
    struct op *op = (struct op *)task;
    const struct am_indirect *copy = &op->indirect;
    uint64_t dst;
    uint64_t src;

    AM_TRY(op_read(op, &op->spans, &dst, sizeof dst));
    AM_TRY(op_read(op, &op->second, &src, sizeof src));
    AM_REQUIRE(
        copy->dst_offset <= UINT64_MAX - dst && copy->src_offset <= UINT64_MAX - src,
        ACL_ERROR_RT_PARAM_INVALID,
        "the offsets %zu and %zu lead from dst %p and src %p out of the address space",
        copy->dst_offset, copy->src_offset, (void *)dst, (void *)src);
    return inner_copy(dst + copy->dst_offset, src + copy->src_offset, copy->size,
                      op->device);
}

static const struct am_task_ops indirect_ops = {.run = indirect_run, .free = op_free};

aclError am_indirect_submit(const struct am_indirect *copy, struct am_stream *stream)
{
    struct op *op = op_make(&indirect_ops, stream);
    aclError rc;

    if (op == NULL)
        return ACL_ERROR_BAD_ALLOC;
    op->indirect = *copy;
    rc = am_spans_open_device(&op->spans, copy->dst, sizeof(uint64_t), AM_ACCESS_READ,
                              op->device, "dst");
    if (rc == ACL_SUCCESS)
        rc = am_spans_open_device(&op->second, copy->src, sizeof(uint64_t),
                                  AM_ACCESS_READ, op->device, "src");
    return op_finish(op, rc, stream);
}
