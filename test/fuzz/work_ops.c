/* The steps of fuzz_work: each queues something, or does something to a stream. */
#include "fuzz/work.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

static const aclrtMemcpyKind inner = ACL_MEMCPY_INNER_DEVICE_TO_DEVICE;

/* A part of a block. */
struct part {
    size_t at;
    size_t size;
};

static struct part next_part(const struct block *b)
{
    size_t at = next_to(2) ? next_size(b->size) - 1 : 0;

    return (struct part){at, next_size(b->size - at)};
}

/* What the stream does not do is not noted, and the shadow stays what it was. */
static bool will_do(const struct block *b)
{
    return lane_works(lane_of(b));
}

static void fill_block(struct block *b)
{
    struct lane *l = lane_of(b);
    struct part p = next_part(b);
    int value = (int)next_to(256);

    OK(aclrtMemsetAsync(b->device + p.at, p.size, value, p.size, l->stream));
    if (!will_do(b))
        return;
    memset(b->shadow + p.at, value, p.size);
    lane_note(l, b, NULL);
}

static void fill_words(struct block *b)
{
    struct lane *l = lane_of(b);
    struct part p = next_part(b);
    uint32_t value = 0x01020304u * next_to(256);
    size_t n;

    p.at &= ~(size_t)3;
    n = (b->size - p.at) / 4;
    if (n == 0)
        return;
    n = next_size(n);
    OK(aclrtMemsetD32Async(b->device + p.at, b->size - p.at, value, n, l->stream));
    if (!will_do(b))
        return;
    for (size_t i = 0; i < n; i++)
        memcpy(b->shadow + p.at + 4 * i, &value, 4);
    lane_note(l, b, NULL);
}

/* Pinned, registered, or any memory, where the call waits for the copy. */
static const char *next_ink(const struct block *b)
{
    switch (next_to(3)) {
    case 0:
        return registered_ink;
    case 1:
        run_callbacks();
        return will_do(b) ? plain_ink : work.ink;
    default:
        return work.ink;
    }
}

static void upload(struct block *b)
{
    struct lane *l = lane_of(b);
    struct part p = next_part(b);
    size_t from = next_to(256);

    OK(aclrtMemcpyAsync(b->device + p.at, b->size - p.at, next_ink(b) + from, p.size,
                        ACL_MEMCPY_HOST_TO_DEVICE, l->stream));
    if (!will_do(b))
        return;
    memcpy(b->shadow + p.at, plain_ink + from, p.size);
    lane_note(l, b, NULL);
}

static void upload_rows(struct block *b)
{
    struct lane *l = lane_of(b);
    size_t width = next_size(200), pitch = width + next_to(50), height;
    size_t source_pitch = width + next_to(9);

    if (b->kind == MANAGED || b->size < width)
        return;
    height = 1 + (b->size - width) / pitch;
    height = next_size(height < 40 ? height : 40);
    OK(aclrtMemcpy2dAsync(b->device, pitch, work.ink, source_pitch, width, height,
                          ACL_MEMCPY_HOST_TO_DEVICE, l->stream));
    if (!will_do(b))
        return;
    for (size_t i = 0; i < height; i++)
        memcpy(b->shadow + i * pitch, plain_ink + i * source_pitch, width);
    lane_note(l, b, NULL);
}

/* Copies of a batch have no order, so each has a place of its own. */
static void upload_batch(struct block *b)
{
    struct lane *l = lane_of(b);
    aclrtMemcpyBatchAttr attr = {.dstLoc = {0, ACL_MEM_LOCATION_TYPE_DEVICE},
                                 .srcLoc = {0, ACL_MEM_LOCATION_TYPE_HOST}};
    void *dsts[3], *srcs[3];
    size_t sizes[3], from[3], first = 0, fail = 77;
    size_t third = b->size / 3;

    if (b->kind == MANAGED || third == 0)
        return;
    for (size_t i = 0; i < 3; i++) {
        sizes[i] = next_size(third);
        from[i] = next_to(256);
        dsts[i] = b->device + i * third;
        srcs[i] = work.ink + from[i];
    }
    OK(aclrtMemcpyBatchAsync(dsts, sizes, srcs, sizes, 3, &attr, &first, 1, &fail,
                             l->stream));
    if (!will_do(b))
        return;
    for (size_t i = 0; i < 3; i++)
        memcpy(b->shadow + i * third, plain_ink + from[i], sizes[i]);
    lane_note(l, b, NULL);
}

/* Another block of the same lane, or NULL. */
static struct block *neighbour(const struct block *b)
{
    size_t index = (size_t)(b - work.blocks);
    struct block *other = &work.blocks[(index + N_LANES) % N_BLOCKS];

    return other->device != NULL && other->kind != MANAGED && b->kind != MANAGED ? other
                                                                                 : NULL;
}

/* The first 8 bytes are the lane's value, slots of 128 bytes come after. */
static char *next_slot(struct lane *l)
{
    if (l->n_slots == N_SLOTS)
        lane_sync(l);
    return l->table + 128 * ++l->n_slots;
}

static void put(char *cell, const void *address)
{
    OK(aclrtMemcpy(cell, 8, &address, 8, ACL_MEMCPY_HOST_TO_DEVICE));
}

/* From the neighbour, in one of four ways. */
static void copy_inside(struct block *b)
{
    struct block *from = neighbour(b);
    struct lane *l = lane_of(b);
    unsigned how = next_to(4);
    char *slot;
    size_t n;

    if (from == NULL)
        return;
    n = next_size(b->size < from->size ? b->size : from->size);
    slot = next_slot(l);
    switch (how) {
    case 0:
        OK(aclrtMemcpyAsync(b->device, b->size, from->device, n,
                            ACL_MEMCPY_DEVICE_TO_DEVICE, l->stream));
        break;
    case 1:
        OK(aclrtSetMemcpyDesc(slot, inner, from->device, b->device, n, NULL));
        OK(aclrtMemcpyAsyncWithDesc(slot, inner, l->stream));
        break;
    case 2:
        put(slot, b->device);
        put(slot + 8, from->device);
        OK(aclrtMemcpyAsyncWithOffset((void **)slot, b->size, 0,
                                      (const void **)(slot + 8), n, 0, inner, l->stream));
        break;
    default:
        OK(aclrtMemcpy2dAsync(b->device, n, from->device, n, n, 1,
                              ACL_MEMCPY_DEVICE_TO_DEVICE, l->stream));
    }
    if (!will_do(b))
        return;
    memcpy(b->shadow, from->shadow, n);
    lane_note(l, b, NULL);
}

/*
 * One lane waits for what another has queued so far: by event, notify or value.  A record
 * that is dropped makes the one that waits fail, so that must be one that goes on then.
 */
static void join_by_event(struct lane *from, struct lane *to)
{
    if (to->stops_on_failure)
        return;
    from->waiters |= 1u << (to - work.lanes);
    OK(aclrtRecordEvent(work.event, from->stream));
    OK(aclrtStreamWaitEvent(to->stream, work.event));
    if (next_to(4) == 0) {
        run_callbacks();
        OK(aclrtSynchronizeEvent(work.event));
    }
}

static void join_by_notify(struct lane *from, struct lane *to)
{
    for (int i = 0; i < N_NOTIFIES; i++) {
        if (work.recorders[i] >= 0)
            continue;
        OK(aclrtRecordNotify(work.notifies[i], from->stream));
        OK(aclrtWaitAndResetNotify(work.notifies[i], to->stream, 0));
        work.recorders[i] = (int)(from - work.lanes);
        return;
    }
    sync_all();
}

static void join_by_value(struct lane *from, struct lane *to)
{
    from->value++;
    OK(aclrtValueWrite(from->table, from->value, 0, from->stream));
    OK(aclrtValueWait(from->table, from->value, ACL_STREAM_WAIT_VALUE_GEQ, to->stream));
}

static void join(struct lane *from, struct lane *to)
{
    switch (next_to(3)) {
    case 0:
        join_by_event(from, to);
        break;
    case 1:
        join_by_notify(from, to);
        break;
    default:
        join_by_value(from, to);
    }
}

/* Between lanes: each waits for what the other has queued, and both are waited for. */
static void copy_across(struct block *b)
{
    struct block *from = &work.blocks[next_to(N_BLOCKS)];
    struct lane *l = lane_of(b), *other = lane_of(from);
    size_t n;

    if (from->device == NULL || l == other || b->kind == MANAGED ||
        from->kind == MANAGED || !lane_works(l) || !lane_works(other) ||
        l->stops_on_failure || other->stops_on_failure)
        return;
    lane_prepare(l);
    n = next_size(b->size < from->size ? b->size : from->size);
    join(other, l);
    OK(aclrtMemcpyAsync(b->device, b->size, from->device, n, ACL_MEMCPY_DEVICE_TO_DEVICE,
                        l->stream));
    memcpy(b->shadow, from->shadow, n);
    lane_note(l, b, NULL);
    join(l, other);
    lane_prepare(other);
    fill_block(from); /* only after the copy */
    lane_sync(l);
    lane_sync(other);
}

/*
 * What one lane frees in the pool with its work still to come, another lane gets, perhaps
 * the same memory: that work is not seen in it, however late it is.
 */
static void hand_over(struct block *b)
{
    struct block *next = &work.blocks[next_to(N_BLOCKS)];
    struct lane *l = lane_of(b);
    size_t size = b->size;

    if (b->kind != POOLED || next->device != NULL || lane_of(next) == l || l->n_slots > 0)
        return;
    fill_block(b);
    block_free(b);
    block_open(next, POOLED, size - next_size(size) / 8);
    if (next->device == NULL)
        return;
    lane_prepare(lane_of(next));
    fill_block(next);
    block_check(next);
    lane_sync(l);
    block_check(next);
}

static void prefetch(struct block *b)
{
    aclrtMemManagedLocation there = {
        next_to(2) ? ACL_MEM_LOCATIONTYPE_DEVICE : ACL_MEM_LOCATIONTYPE_HOST, 0};

    if (b->kind == MANAGED)
        OK(aclrtMemManagedPrefetchAsync(b->device, 2 << 20, there, 0,
                                        lane_of(b)->stream));
    else
        OK(aclrtCmoAsync(b->device, b->size, ACL_RT_CMO_TYPE_PREFETCH,
                         lane_of(b)->stream));
}

/* Calls that are wrong change nothing. */
static void overrun(struct block *b)
{
    aclrtStream stream = lane_of(b)->stream;
    const size_t much = (size_t)1 << 30;

    REFUSED(aclrtMemset(b->device, much, 1, much), ACL_ERROR_RT_PARAM_INVALID);
    REFUSED(aclrtMemcpyAsync(b->device, b->size - 1, work.ink, b->size,
                             ACL_MEMCPY_HOST_TO_DEVICE, stream),
            ACL_ERROR_INVALID_PARAM);
    REFUSED(aclrtMemsetD32Async(b->device, 3, 1, 1, stream), ACL_ERROR_INVALID_PARAM);
    REFUSED(
        aclrtMemcpyAsync(work.hole, 8, work.ink, 8, ACL_MEMCPY_HOST_TO_DEVICE, stream),
        ACL_ERROR_RT_PARAM_INVALID);
}

/* What a lane drops that does not work, nobody may wait for. */
static void join_lanes(void)
{
    struct lane *from = &work.lanes[next_to(N_LANES)];
    struct lane *to = &work.lanes[next_to(N_LANES)];

    if (lane_works(from))
        join(from, to);
}

static void call_run(void *data)
{
    struct call *call = data;

    if (call->has_run)
        wrong("a function has run twice");
    call->has_run = true;
}

static void callback_run(void *data)
{
    call_run(data);
    work.n_called++;
}

/* A function of the program: a callback where the lane is subscribed. */
static void launch(struct lane *l)
{
    struct call *call = &work.calls[work.n_calls];

    if (work.n_calls == N_CALLS)
        return;
    if (!l->is_subscribed) {
        REFUSED(aclrtLaunchCallback(callback_run, call, ACL_CALLBACK_BLOCK, l->stream),
                ACL_ERROR_RT_STREAM_NO_CB_REG);
        work.n_calls++;
        OK(aclrtLaunchHostFunc(l->stream, call_run, call));
        if (lane_works(l))
            lane_note(l, NULL, call);
        return;
    }
    REFUSED(aclrtLaunchHostFunc(l->stream, call_run, call), ACL_ERROR_RT_PARAM_INVALID);
    if (!lane_works(l))
        return;
    work.n_calls++;
    work.n_launched++;
    OK(aclrtLaunchCallback(callback_run, call,
                           next_to(2) ? ACL_CALLBACK_BLOCK : ACL_CALLBACK_NO_BLOCK,
                           l->stream));
    lane_note(l, NULL, call);
}

static void subscribe(struct lane *l)
{
    uint64_t self = (uint64_t)pthread_self();

    run_callbacks();
    if (l->is_subscribed) {
        REFUSED(aclrtSubscribeReport(self, l->stream), ACL_ERROR_RT_STREAM_SUBSCRIBE);
        OK(aclrtUnSubscribeReport(self, l->stream));
    } else {
        REFUSED(aclrtUnSubscribeReport(self, l->stream), ACL_ERROR_RT_STREAM_SUBSCRIBE);
        OK(aclrtSubscribeReport(self, l->stream));
    }
    l->is_subscribed = !l->is_subscribed;
}

/* Work that fails when the stream comes to it. */
static void fail(struct lane *l)
{
    char *slot;

    if (l->is_subscribed)
        return;
    slot = next_slot(l);
    OK(aclrtSetMemcpyDesc(slot, inner, work.hole, work.hole + 64, 64, NULL));
    OK(aclrtMemcpyAsyncWithDesc(slot, inner, l->stream));
    l->has_failure |= lane_works(l);
}

/* Only while nothing is queued that it would count for. */
static void choose_failure_mode(struct lane *l)
{
    uint64_t mode = next_to(2);

    lane_sync(l);
    OK(aclrtSetStreamFailureMode(l->stream, mode));
    l->stops_on_failure = mode == 1;
}

/* Callbacks are for those who are not stopped: who drops one is not told. */
static void interrupt(struct lane *l)
{
    bool is_stop = next_to(2);

    if (l->is_subscribed)
        return;
    OK(is_stop ? aclrtStreamStop(l->stream) : aclrtStreamAbort(l->stream));
    lane_rescue(l);
    lane_settle(l);
    l->is_stopped |= is_stop;
    /* Whether a failure came before it, and stops what follows, only a wait tells. */
    if (l->has_old_failure)
        lane_sync(l);
}

typedef void (*block_step)(struct block *b);
typedef void (*lane_step)(struct lane *l);

static void step_block(struct block *b)
{
    static const block_step steps[] = {
        fill_block,  fill_words, upload,    upload_rows, upload_batch,
        copy_inside, hand_over,  prefetch,  copy_across, overrun,
        copy_inside, upload,     hand_over,
    };
    unsigned i = next_to(sizeof(steps) / sizeof(steps[0]));

    if (b->device == NULL) {
        enum kind kind = (enum kind)next_to(3);

        block_open(b, kind, next_size(BLOCK_MOST));
        return;
    }
    lane_prepare(lane_of(b));
    steps[i](b);
}

static void step_lane(struct lane *l)
{
    static const lane_step steps[] = {launch,    launch,    launch,
                                      subscribe, fail,      choose_failure_mode,
                                      interrupt, interrupt, lane_sync};
    unsigned i = next_to(sizeof(steps) / sizeof(steps[0]));

    lane_prepare(l);
    steps[i](l);
}

void work_step(void)
{
    unsigned what = next_to(16);
    struct block *b = &work.blocks[next_to(N_BLOCKS)];
    struct lane *l = lane_of(b);

    switch (what) {
    case 0:
        block_close(b);
        break;
    case 1:
        block_check(b);
        break;
    case 2:
    case 3:
    case 4:
        join_lanes();
        break;
    case 5:
    case 6:
    case 7:
        step_lane(l);
        break;
    case 8:
        lane_renew(l, next_to(2) && !l->is_subscribed);
        break;
    case 9:
        sync_all();
        break;
    default:
        step_block(b);
    }
}
