/* See memory_op.h. */
#include "core/copy/memory_op.h"

#include <inttypes.h>
#include <stdio.h>

#include "acl/error_codes/rt_error_codes.h"
#include "base/error.h"
#include "core/copy/keep_alive.h"
#include "core/device/setup.h"

struct value_task {
    struct am_keep_alive keep;
    uint64_t value;
    uint32_t how;
    aclError rc;   /* of a wait: the result of reading the memory */
    char why[256]; /* its message */
};

/*
 * Eight aligned bytes: the backend copies them in one access.  The lookup is
 * done then, so memory with a queued value operation can be exported.
 */
static aclError write_run(struct am_task *task)
{
    struct value_task *vt = (struct value_task *)task;
    struct am_span ours = {.addr = &vt->value, .size = sizeof vt->value};

    return am_setup.backend->copy(vt->keep.spans.list, 0, &ours, 0, sizeof vt->value);
}

static aclError value_read(const struct value_task *vt, uint64_t *ret_value)
{
    struct am_span ours = {.addr = ret_value, .size = sizeof *ret_value};

    return am_setup.backend->copy(&ours, 0, vt->keep.spans.list, 0, sizeof *ret_value);
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
    struct value_task *vt = (struct value_task *)task;
    const char *function = am_error_function;
    struct am_capture before = am_error_capture(vt->why, sizeof vt->why);
    uint64_t now = 0;

    am_error_function = task->function;
    vt->rc = value_read(vt, &now);
    am_error_capture_end(before);
    am_error_function = function;
    return vt->rc != ACL_SUCCESS || value_matches(now, vt->value, vt->how)
               ? AM_POLL_READY
               : AM_POLL_AGAIN;
}

static aclError wait_run(struct am_task *task)
{
    struct value_task *vt = (struct value_task *)task;

    AM_REQUIRE(vt->rc == ACL_SUCCESS, vt->rc, "the value cannot be read: %s",
               am_error_text(vt->why));
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
    const struct value_task *vt = (const struct value_task *)task;

    snprintf(text, size, "the value at %p %s 0x%" PRIx64, vt->keep.spans.list[0].addr,
             tests[vt->how], vt->value);
}

static const struct am_task_ops write_ops = {.run = write_run,
                                             .free = am_keep_alive_free};
static const struct am_task_ops wait_ops = {.poll = wait_poll,
                                            .run = wait_run,
                                            .describe = wait_describe,
                                            .free = am_keep_alive_free};

static aclError value_submit(const struct am_task_ops *ops, void *addr, uint64_t value,
                             uint32_t how, struct am_stream *stream)
{
    struct value_task *vt = am_task_make(ops, sizeof *vt);

    if (vt == NULL)
        return ACL_ERROR_BAD_ALLOC;
    vt->value = value;
    vt->how = how;
    return am_keep_alive_submit(&vt->keep, addr, sizeof vt->value,
                                ops == &write_ops ? AM_ACCESS_WRITE : AM_ACCESS_READ,
                                "devAddr", stream);
}

aclError am_memory_op_write(void *addr, uint64_t value, struct am_stream *stream)
{
    return value_submit(&write_ops, addr, value, 0, stream);
}

aclError am_memory_op_wait(void *addr, uint64_t value, uint32_t how,
                           struct am_stream *stream)
{
    return value_submit(&wait_ops, addr, value, how, stream);
}
