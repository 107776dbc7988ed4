#include "capture_rows.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "blocks.h"
#include "process.h"

#define SIZE ROW_SIZE

struct scene on;

/* ---- calls of several rows ---- */

aclError copy_device(aclrtStream stream)
{
    return aclrtMemcpyAsync(on.b, SIZE, on.a, SIZE, ACL_MEMCPY_DEVICE_TO_DEVICE, stream);
}

aclError copy_from(void *host, aclrtStream stream)
{
    return aclrtMemcpyAsync(on.a, SIZE, host, SIZE, ACL_MEMCPY_HOST_TO_DEVICE, stream);
}

aclError copy_to(void *host, aclrtStream stream)
{
    return aclrtMemcpyAsync(host, SIZE, on.a, SIZE, ACL_MEMCPY_DEVICE_TO_HOST, stream);
}

aclError copy_2d_from(void *host, aclrtStream stream)
{
    return aclrtMemcpy2dAsync(on.a, 64, host, 64, 32, 4, ACL_MEMCPY_HOST_TO_DEVICE,
                              stream);
}

aclError copy_batch_from(void *host, aclrtStream stream)
{
    aclrtMemcpyBatchAttr attr = {.dstLoc = {0, ACL_MEM_LOCATION_TYPE_DEVICE},
                                 .srcLoc = {0, ACL_MEM_LOCATION_TYPE_HOST}};
    size_t size = SIZE, at = 0, failed = 0;
    void *dst = on.a;

    return aclrtMemcpyBatchAsync(&dst, &size, &host, &size, 1, &attr, &at, 1, &failed,
                                 stream);
}

aclError copy_by_desc(aclrtStream stream)
{
    return aclrtMemcpyAsyncWithDesc(on.desc, ACL_MEMCPY_INNER_DEVICE_TO_DEVICE, stream);
}

aclError copy_by_addresses(aclrtStream stream)
{
    return aclrtMemcpyAsyncWithOffset(&on.addresses[0], SIZE, 0,
                                      (const void **)&on.addresses[1], SIZE, 0,
                                      ACL_MEMCPY_INNER_DEVICE_TO_DEVICE, stream);
}

void do_nothing(void *arg)
{
}

aclError join_side(void)
{
    aclError rc = aclrtRecordEvent(on.ex, on.stream);

    return rc != ACL_SUCCESS ? rc : aclrtStreamWaitEvent(on.side, on.ex);
}

/* ---- the scene ---- */

/* Copies from a to b whose arguments lie in device memory. */
static void make_indirect(void)
{
    void *addresses[] = {on.b, on.a};

    on.desc = device_malloc(SIZE);
    assert_acl_ok(aclrtSetMemcpyDesc(on.desc, ACL_MEMCPY_INNER_DEVICE_TO_DEVICE, on.a,
                                     on.b, SIZE, NULL));
    on.addresses = (void **)device_malloc(sizeof addresses);
    assert_acl_ok(aclrtMemcpy(on.addresses, sizeof addresses, addresses, sizeof addresses,
                              ACL_MEMCPY_HOST_TO_DEVICE));
}

void open_scene(void)
{
    memset(&on, 0, sizeof on);
    assert_acl_ok(aclrtGetCurrentContext(&on.context));
    on.stream = make_stream();
    on.other = make_stream();
    on.side = make_stream();
    on.inside = make_flagged(ACL_EVENT_SYNC);
    on.ex = make_ex(ACL_EVENT_SYNC);
    on.external = make_ex(ACL_EVENT_SYNC);
    on.ipc = make_ex(ACL_EVENT_IPC);
    on.outside = make_event();
    on.a = device_malloc(SIZE);
    on.b = device_malloc(SIZE);
    on.pinned = host_malloc(SIZE);
    on.pageable = aligned_alloc(SIZE, SIZE);
    assert_non_null(on.pageable);
    memset(on.pageable, 0, SIZE);
    on.value = (uint64_t *)device_malloc(64);
    assert_acl_ok(aclrtCreateNotify(&on.notify, 0));
    make_indirect();
    assert_acl_ok(aclrtRecordEvent(on.outside, on.other));
    assert_acl_ok(aclrtSynchronizeStream(on.other));
}

void close_scene(void)
{
    assert_acl_ok(aclrtDestroyNotify(on.notify));
    end_event(on.inside);
    end_event(on.outside);
    end_event(on.ex);
    end_event(on.ipc);
    end_event(on.external);
    end_stream(on.side);
    end_stream(on.stream);
    end_stream(on.other);
    device_free(on.a);
    device_free(on.b);
    device_free(on.value);
    device_free(on.desc);
    device_free(on.addresses);
    host_free(on.pinned);
    free(on.pageable);
}

/* ---- running a row ---- */

static const char *run_attempt(struct worker *self)
{
    struct attempt *t = self->shared;
    aclmdlRICaptureMode mode = (aclmdlRICaptureMode)t->mode;
    const char *message;

    worker_check(aclrtSetCurrentContext(on.context) == ACL_SUCCESS);
    if (t->mode >= 0)
        worker_check(aclmdlRICaptureThreadExchangeMode(&mode) == ACL_SUCCESS);
    (void)aclGetRecentErrMsg();
    t->code = t->call();
    message = aclGetRecentErrMsg();
    snprintf(t->message, sizeof t->message, "%s", message != NULL ? message : "");
    if (t->mode >= 0)
        worker_check(aclmdlRICaptureThreadExchangeMode(&mode) == ACL_SUCCESS);
    return NULL;
}

aclmdlRICaptureStatus try_in_capture(aclmdlRICaptureMode mode, struct attempt *t)
{
    struct worker here = {.shared = t};
    aclmdlRICaptureStatus status;

    begin_capture(on.stream, mode);
    assert_acl_ok(aclrtRecordEvent(on.inside, on.stream));
    if (t->by_another)
        assert_ptr_equal(run_thread(run_attempt, t), NULL);
    else
        assert_ptr_equal(run_attempt(&here), NULL);
    status = capture_status(on.stream);
    return status;
}

void end_attempt(bool is_valid)
{
    aclmdlRI model = NULL;

    if (is_valid) {
        model = end_capture(on.stream);
        end_model(model);
    } else {
        assert_acl(aclmdlRICaptureEnd(on.stream, &model),
                   ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED);
        assert_null(model);
    }
    assert_int_equal(capture_status(on.stream), NOT_CAPTURING);
    assert_acl_ok(aclrtSynchronizeStream(on.other));
    assert_acl_ok(aclrtSynchronizeStream(on.stream));
    assert_acl_ok(aclrtSynchronizeDevice());
}

void check_attempt(const char *name, const struct attempt *t, aclError code,
                   const char *words, aclmdlRICaptureStatus status)
{
    aclmdlRICaptureStatus wanted = code == ACL_SUCCESS ? CAPTURING : INVALIDATED;
    char id[32];
    int32_t number = -1;

    if (t->code != code)
        fail_msg("%s: %d, not %d: %s", name, t->code, code, t->message);
    if (status != wanted)
        fail_msg("%s: the capture is %d, not %d", name, (int)status, (int)wanted);
    if (code == ACL_SUCCESS)
        return;
    assert_acl_ok(aclrtStreamGetId(on.stream, &number));
    snprintf(id, sizeof id, "stream %d", number);
    if (strstr(t->message, words) == NULL || strstr(t->message, id) == NULL)
        fail_msg("%s: neither \"%s\" nor \"%s\" may be missing: %s", name, words, id,
                 t->message);
}

static bool is_refused(enum rule rule, aclmdlRICaptureMode mode, bool by_another)
{
    if (rule != UNSAFE)
        return rule == ILLEGAL;
    return mode == GLOBAL || (mode == THREAD_LOCAL && !by_another);
}

static void run_row(const struct row *row, aclmdlRICaptureMode mode, bool by_another)
{
    struct attempt t = {.call = row->call, .mode = -1, .by_another = by_another};
    bool refused = is_refused(row->rule, mode, by_another);
    aclmdlRICaptureStatus status;
    char name[160];

    snprintf(name, sizeof name, "%s, mode %d, by %s", row->name, (int)mode,
             by_another ? "another thread" : "the capturing thread");
    status = try_in_capture(mode, &t);
    check_attempt(name, &t, refused ? row->code : ACL_SUCCESS, row->words, status);
    end_attempt(!refused);
}

/* Strict rules refuse pageable memory on each stream, with another code. */
static bool is_pageable(const struct row *row)
{
    return strstr(row->name, "pageable") != NULL;
}

void run_rows(const struct row *rows, size_t n)
{
    open_scene();
    for (size_t i = 0; i < n; i++) {
        if (rules_are_strict() && is_pageable(&rows[i]))
            continue;
        for (int mode = GLOBAL; mode <= RELAXED; mode++)
            for (int by_another = 0; by_another < 2; by_another++)
                run_row(&rows[i], (aclmdlRICaptureMode)mode, by_another);
    }
    close_scene();
}
