/* See keep_alive.h. */
#include "core/copy/keep_alive.h"

#include <stdlib.h>

aclError am_keep_alive_submit(struct am_keep_alive *keep, const void *addr, size_t size,
                              unsigned access, const char *what, struct am_stream *stream)
{
    aclError rc;

    if (keep == NULL)
        return ACL_ERROR_BAD_ALLOC;
    rc = am_spans_open_device(&keep->spans, addr, size, access, stream->device, what);
    if (rc == ACL_SUCCESS)
        return am_stream_submit(stream, &keep->task);
    free(keep);
    return rc;
}

void am_keep_alive_free(struct am_task *task)
{
    am_spans_close(&((struct am_keep_alive *)task)->spans);
    free(task);
}

static const struct am_task_ops keep_ops = {.free = am_keep_alive_free};

aclError am_keep_alive_async(struct am_spans *spans, struct am_stream *stream)
{
    struct am_keep_alive *keep = am_task_make(&keep_ops, sizeof *keep);

    if (keep == NULL) {
        am_spans_close(spans);
        return ACL_ERROR_BAD_ALLOC;
    }
    am_spans_move(&keep->spans, spans);
    return am_stream_submit(stream, &keep->task);
}

aclError am_keep_alive_device_async(void *addr, size_t size, struct am_stream *stream)
{
    struct am_keep_alive *keep = am_task_make(&keep_ops, sizeof *keep);

    return am_keep_alive_submit(keep, addr, size, AM_ACCESS_READ, "src", stream);
}
