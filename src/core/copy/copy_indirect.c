/* See copy_indirect.h. */
#include "core/copy/copy_indirect.h"

#include <inttypes.h>
#include <stdlib.h>

#include "acl/error_codes/rt_error_codes.h"
#include "base/error.h"
#include "core/copy/copy.h"
#include "core/copy/keep_alive.h"
#include "core/device/context.h"
#include "core/device/setup.h"

/* The first bytes of a descriptor, which detect memory that is not a descriptor. */
#define MARK_COPY UINT64_C(0x61636c6d636f7079)
#define MARK_TOUCH UINT64_C(0x61636c6d746f7563)

struct desc {
    uint64_t mark;
    uint64_t src;
    uint64_t dst; /* copies only */
    uint64_t size;
    uint64_t rsv[4];
};

_Static_assert(sizeof(struct desc) == AM_DESC_SIZE, "the size that the program gets");

struct desc_task {
    struct am_keep_alive desc; /* where it lies */
    int32_t device;
};

struct indirect_task {
    struct am_task task;
    struct am_spans dst; /* where the addresses lie */
    struct am_spans src;
    struct am_indirect copy;
    int32_t device;
};

/* Bytes of device memory into memory of ours. */
static aclError spans_read(const struct am_spans *spans, void *to, size_t size)
{
    struct am_span ours = {.addr = to, .size = size};

    return am_setup.backend->copy(&ours, 0, spans->list, 0, size);
}

static aclError desc_write(void *at, const struct desc *desc)
{
    struct am_span ours = {.addr = (void *)(uintptr_t)desc, .size = sizeof *desc};
    struct am_spans to;
    int32_t device;
    aclError rc;

    AM_TRY(am_context_device(&device));
    AM_TRY(am_spans_open_device(&to, at, sizeof *desc, AM_ACCESS_WRITE, device, "desc"));
    rc = am_setup.backend->copy(to.list, 0, &ours, 0, sizeof *desc);
    am_spans_close(&to);
    return rc;
}

aclError am_copy_indirect_set(void *desc, void *src, void *dst, size_t size)
{
    return desc_write(desc, &(struct desc){
                                .mark = MARK_COPY,
                                .src = (uintptr_t)src,
                                .dst = (uintptr_t)dst,
                                .size = size,
                            });
}

aclError am_copy_indirect_keep_set(void *desc, void *addr, size_t size)
{
    return desc_write(
        desc, &(struct desc){.mark = MARK_TOUCH, .src = (uintptr_t)addr, .size = size});
}

/* The current content of the descriptor. */
static aclError desc_read(const struct desc_task *dt, uint64_t mark,
                          struct desc *ret_desc)
{
    AM_TRY(spans_read(&dt->desc.spans, ret_desc, sizeof *ret_desc));
    AM_REQUIRE(ret_desc->mark == mark, ACL_ERROR_RT_PARAM_INVALID,
               "the %zu bytes at %p are not a descriptor for this call; they begin with "
               "0x%" PRIx64,
               sizeof *ret_desc, dt->desc.spans.list[0].addr, ret_desc->mark);
    return ACL_SUCCESS;
}

/* A copy inside the stream's device, between addresses that were read from its memory. */
static aclError inner_copy(uint64_t dst, uint64_t src, size_t size, int32_t device)
{
    struct am_transfer transfer;
    aclError rc = ACL_SUCCESS;

    AM_TRY(am_transfer_open(&transfer, (void *)dst, (const void *)src, size,
                            AM_SPANS_TURN, device));
    if (!am_spans_fit(&transfer.to, true) || !am_spans_fit(&transfer.from, true) ||
        ((transfer.to.devices | transfer.from.devices) & ~(UINT64_C(1) << device)) != 0)
        rc = am_fail(ACL_ERROR_RT_PARAM_INVALID,
                     "dst %p and src %p are not both memory of device %d, as the kind "
                     "INNER_DEVICE_TO_DEVICE (6) says",
                     (void *)dst, (void *)src, device);
    else
        rc = am_transfer_run(&transfer);
    am_transfer_close(&transfer);
    return rc;
}

static aclError desc_copy_run(struct am_task *task)
{
    struct desc_task *dt = (struct desc_task *)task;
    struct desc desc;

    AM_TRY(desc_read(dt, MARK_COPY, &desc));
    return inner_copy(desc.dst, desc.src, desc.size, dt->device);
}

static aclError desc_touch_run(struct am_task *task)
{
    struct desc_task *dt = (struct desc_task *)task;
    struct am_spans spans;
    struct desc desc;

    AM_TRY(desc_read(dt, MARK_TOUCH, &desc));
    AM_TRY(am_spans_open_device(&spans, (void *)desc.src, desc.size,
                                AM_ACCESS_READ | AM_SPANS_TURN, dt->device, "src"));
    am_spans_close(&spans);
    return ACL_SUCCESS;
}

static const struct am_task_ops desc_copy_ops = {.run = desc_copy_run,
                                                 .free = am_keep_alive_free};
static const struct am_task_ops desc_touch_ops = {.run = desc_touch_run,
                                                  .free = am_keep_alive_free};

static aclError desc_submit(void *desc, const struct am_task_ops *ops,
                            struct am_stream *stream)
{
    struct desc_task *dt = am_task_make(ops, sizeof *dt);

    if (dt == NULL)
        return ACL_ERROR_BAD_ALLOC;
    dt->device = stream->device;
    return am_keep_alive_submit(&dt->desc, desc, sizeof(struct desc), AM_ACCESS_READ,
                                "desc", stream);
}

aclError am_copy_indirect_async(void *desc, struct am_stream *stream)
{
    return desc_submit(desc, &desc_copy_ops, stream);
}

aclError am_copy_indirect_keep_async(void *desc, struct am_stream *stream)
{
    return desc_submit(desc, &desc_touch_ops, stream);
}

static aclError indirect_run(struct am_task *task)
{
    struct indirect_task *it = (struct indirect_task *)task;
    uint64_t dst;
    uint64_t src;

    AM_TRY(spans_read(&it->dst, &dst, sizeof dst));
    AM_TRY(spans_read(&it->src, &src, sizeof src));
    AM_REQUIRE(
        it->copy.dst_offset <= UINT64_MAX - dst &&
            it->copy.src_offset <= UINT64_MAX - src,
        ACL_ERROR_RT_PARAM_INVALID,
        "the offsets %zu and %zu lead from dst %p and src %p out of the address space",
        it->copy.dst_offset, it->copy.src_offset, (void *)dst, (void *)src);
    return inner_copy(dst + it->copy.dst_offset, src + it->copy.src_offset, it->copy.size,
                      it->device);
}

static void indirect_free(struct am_task *task)
{
    struct indirect_task *it = (struct indirect_task *)task;

    am_spans_close(&it->dst);
    am_spans_close(&it->src);
    free(it);
}

static const struct am_task_ops indirect_ops = {.run = indirect_run,
                                                .free = indirect_free};

static aclError indirect_open(struct indirect_task *it)
{
    aclError rc;

    AM_TRY(am_spans_open_device(&it->dst, it->copy.dst, sizeof(uint64_t), AM_ACCESS_READ,
                                it->device, "dst"));
    rc = am_spans_open_device(&it->src, it->copy.src, sizeof(uint64_t), AM_ACCESS_READ,
                              it->device, "src");
    if (rc != ACL_SUCCESS)
        am_spans_close(&it->dst);
    return rc;
}

aclError am_indirect_copy_async(const struct am_indirect *copy, struct am_stream *stream)
{
    struct indirect_task *it = am_task_make(&indirect_ops, sizeof *it);
    aclError rc;

    if (it == NULL)
        return ACL_ERROR_BAD_ALLOC;
    it->copy = *copy;
    it->device = stream->device;
    rc = indirect_open(it);
    if (rc != ACL_SUCCESS) {
        free(it);
        return rc;
    }
    return am_stream_submit(stream, &it->task);
}
