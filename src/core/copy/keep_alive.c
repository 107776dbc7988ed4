/* See keep_alive.h. */
#include "core/copy/keep_alive.h"

#include <stdlib.h>

#include "base/error.h"
#include "base/sys.h"

struct touch_task {
    struct am_task task;
    struct am_spans spans;
};

static void touch_drop(struct am_task *task)
{
    am_spans_close(&((struct touch_task *)task)->spans);
    free(task);
}

static const struct am_task_ops touch_ops = {.drop = touch_drop};

aclError am_keep_alive_async(struct am_spans *spans, struct am_stream *stream)
{
    struct touch_task *tt = am_sys_malloc(sizeof *tt);

    if (tt == NULL) {
        am_spans_close(spans);
        return am_fail(ACL_ERROR_BAD_ALLOC, "no memory for a task");
    }
    am_task_init(&tt->task, &touch_ops);
    am_spans_move(&tt->spans, spans);
    return am_stream_submit(stream, &tt->task);
}

aclError am_keep_alive_device_async(void *addr, size_t size, struct am_stream *stream)
{
    struct am_spans spans;
    aclError rc =
        am_spans_open_device(&spans, addr, size, AM_ACCESS_READ, stream->device, "src");

    return rc == ACL_SUCCESS ? am_keep_alive_async(&spans, stream) : rc;
}
