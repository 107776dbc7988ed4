/* See work.h. */
#include "fuzz/work.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct work work;
char registered_ink[INK_SIZE] __attribute__((aligned(4096)));
char plain_ink[INK_SIZE];

static struct {
    const uint8_t *bytes;
    size_t n;
} input;

void input_set(const uint8_t *bytes, size_t n)
{
    input.bytes = bytes;
    input.n = n;
}

bool input_is_dry(void)
{
    return input.n == 0;
}

unsigned next_to(unsigned n)
{
    if (input.n == 0)
        return 0;
    input.n--;
    return *input.bytes++ % n;
}

size_t next_size(size_t most)
{
    return 1 + (next_to(256) << 8 | next_to(256)) % most;
}

void want(aclError got, aclError expected, const char *what)
{
    const char *message = aclGetRecentErrMsg();

    if (got != expected)
        wrong("%s: %d, not %d: %s", what, got, expected, message ? message : "");
}

void wrong(const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    vfprintf(stderr, fmt, args);
    va_end(args);
    fputc('\n', stderr);
    abort();
}

struct lane *lane_of(const struct block *b)
{
    return &work.lanes[(size_t)(b - work.blocks) % N_LANES];
}

/* Asking how far streams are moves chaos mode on, which does not hurry for callbacks. */
void run_callbacks(void)
{
    aclrtStreamStatus status;

    while (work.n_called < work.n_launched) {
        aclError rc;

        for (int i = 0; i < N_LANES; i++)
            OK(aclrtStreamQuery(work.lanes[i].stream, &status));
        rc = aclrtProcessReport(1);
        if (rc != ACL_ERROR_RT_REPORT_TIMEOUT)
            OK(rc);
    }
}

bool lane_works(const struct lane *l)
{
    return !l->is_stopped && !(l->has_failure && l->stops_on_failure);
}

/* Everything that was queued is done: what it held is what it holds. */
static void lane_commit(struct lane *l)
{
    for (size_t i = 0; i < l->n_entries; i++) {
        struct entry *e = &l->journal[i];

        if (e->call != NULL && !e->call->has_run)
            wrong("a stream was synchronised and a function of it has not run");
        free(e->after);
    }
    for (int i = 0; i < N_BLOCKS; i++) {
        struct block *b = &work.blocks[i];

        if (b->device == NULL || lane_of(b) != l)
            continue;
        if (b->base == NULL)
            b->base = malloc(b->size);
        memcpy(b->base, b->shadow, b->size);
    }
    l->n_entries = 0;
    l->is_stopped = l->has_failure = l->has_old_failure = false;
    l->n_slots = l->waiters = 0;
}

/* Failed work gives 107000; a wait for what was dropped, 107023. */
static void want_sync(aclError rc, bool has_failure, bool has_old_failure,
                      const char *what)
{
    bool is_failure = rc == ACL_ERROR_RT_PARAM_INVALID || rc == ACL_ERROR_RT_STREAM_ABORT;

    if (has_old_failure && is_failure)
        (void)aclGetRecentErrMsg();
    else
        want(rc, has_failure ? ACL_ERROR_RT_PARAM_INVALID : ACL_SUCCESS, what);
}

void lane_sync(struct lane *l)
{
    aclrtStreamStatus status;

    run_callbacks();
    want_sync(next_to(4) == 0 ? aclrtSynchronizeStreamWithTimeout(l->stream, -1)
                              : aclrtSynchronizeStream(l->stream),
              l->has_failure, l->has_old_failure, "synchronise a stream");
    lane_commit(l);
    OK(aclrtStreamQuery(l->stream, &status));
    if (status != ACL_STREAM_STATUS_COMPLETE)
        wrong("a stream that was synchronised says %d", (int)status);
}

void sync_all(void)
{
    bool has_failure = false, has_old = false;

    run_callbacks();
    for (int i = 0; i < N_LANES; i++) {
        has_failure |= work.lanes[i].has_failure;
        has_old |= work.lanes[i].has_old_failure;
    }
    want_sync(aclrtSynchronizeDevice(), has_failure, has_old, "synchronise the device");
    for (int i = 0; i < N_LANES; i++)
        lane_commit(&work.lanes[i]);
    OK(aclrtNotifyBatchReset(work.notifies, N_NOTIFIES));
    for (int i = 0; i < N_NOTIFIES; i++)
        work.recorders[i] = -1;
}

void lane_prepare(struct lane *l)
{
    if (l->n_entries == N_JOURNAL || (!lane_works(l) && next_to(4) == 0))
        lane_sync(l);
}

void lane_note(struct lane *l, struct block *b, struct call *call)
{
    struct entry *e = &l->journal[l->n_entries];

    *e = (struct entry){.block = b, .call = call};
    if (b != NULL) {
        e->birth = b->birth;
        e->after = malloc(b->size);
        memcpy(e->after, b->shadow, b->size);
    }
    l->n_entries++;
}

/* What b held after the first n entries; NULL: anything. */
static const char *state_after(const struct lane *l, const struct block *b, size_t n)
{
    for (size_t i = n; i-- > 0;)
        if (l->journal[i].block == b && l->journal[i].birth == b->birth)
            return l->journal[i].after;
    return b->base;
}

/* Functions of the first n have run; the last one may be running still. */
static bool calls_fit(const struct lane *l, size_t n)
{
    for (size_t i = 0; i < l->n_entries; i++) {
        const struct call *call = l->journal[i].call;

        if (call != NULL && i + 1 != n && call->has_run != (i < n))
            return false;
    }
    return true;
}

static bool prefix_fits(const struct lane *l, char *const *held, size_t n)
{
    for (int i = 0; i < N_BLOCKS; i++) {
        const struct block *b = &work.blocks[i];
        const char *state;

        if (held[i] == NULL)
            continue;
        state = state_after(l, b, n);
        if (state != NULL && memcmp(state, held[i], b->size) != 0)
            return false;
    }
    return calls_fit(l, n);
}

/* What the blocks of a lane hold now; NULL for others. */
static void blocks_read(const struct lane *l, char **ret_held)
{
    for (int i = 0; i < N_BLOCKS; i++) {
        struct block *b = &work.blocks[i];

        ret_held[i] = NULL;
        if (b->device == NULL || lane_of(b) != l)
            continue;
        ret_held[i] = malloc(b->size);
        OK(aclrtMemcpy(ret_held[i], b->size, b->device, b->size,
                       ACL_MEMCPY_DEVICE_TO_HOST));
    }
}

void lane_settle(struct lane *l)
{
    char *held[N_BLOCKS];
    bool is_explained = false;

    blocks_read(l, held);
    for (size_t n = 0; n <= l->n_entries && !is_explained; n++)
        is_explained = prefix_fits(l, held, n);
    if (!is_explained)
        wrong("no first part of %zu pieces of work explains what the blocks hold",
              l->n_entries);
    for (int i = 0; i < N_BLOCKS; i++) {
        struct block *b = &work.blocks[i];

        if (held[i] == NULL)
            continue;
        memcpy(b->shadow, held[i], b->size);
        free(b->base);
        b->base = held[i];
    }
    for (size_t i = 0; i < l->n_entries; i++)
        free(l->journal[i].after);
    l->n_entries = 0;
    l->has_old_failure |= l->has_failure;
    l->has_failure = false;
}

void lane_rescue(struct lane *l)
{
    int index = (int)(l - work.lanes);
    char *cell = l->table;

    OK(aclrtMemcpy(cell, sizeof(l->value), &l->value, sizeof(l->value),
                   ACL_MEMCPY_HOST_TO_DEVICE));
    for (int i = 0; i < N_NOTIFIES; i++)
        if (work.recorders[i] == index)
            OK(aclrtRecordNotify(work.notifies[i], work.rescue));
    for (int i = 0; i < N_LANES; i++)
        work.lanes[i].has_old_failure |= l->waiters >> i & 1;
    l->waiters = 0;
}

void lane_renew(struct lane *l, bool is_forced)
{
    aclrtStream old = l->stream;

    run_callbacks();
    if (is_forced) {
        OK(aclrtDestroyStreamForce(old));
        lane_rescue(l);
        lane_settle(l);
    } else {
        OK(aclrtDestroyStream(old));
    }
    REFUSED(aclrtSynchronizeStream(old), ACL_ERROR_RT_INVALID_HANDLE);
    lane_commit(l);
    l->is_subscribed = l->stops_on_failure = false;
    OK(aclrtCreateStreamWithConfig(&l->stream, next_to(8), next_to(2)));
}

/*
 * False if the pool has no room: when nothing is on its way any more, only because of
 * other blocks.
 */
static bool pool_take(struct block *b, aclrtStream stream)
{
    uint64_t used = 0;
    aclError rc =
        aclrtMemPoolMallocAsync((void **)&b->device, b->size, work.pool, stream);

    if (rc == ACL_ERROR_RT_MEMORY_ALLOCATION) {
        sync_all();
        rc = aclrtMemPoolMallocAsync((void **)&b->device, b->size, work.pool, stream);
    }
    OK(aclrtMemPoolGetAttr(work.pool, ACL_RT_MEM_POOL_ATTR_USED_MEM_CURRENT, &used));
    if (rc == ACL_ERROR_RT_MEMORY_ALLOCATION && used > (2 << 20) - POOL_LEFT)
        return false;
    want(rc, ACL_SUCCESS, "aclrtMemPoolMallocAsync");
    return true;
}

void block_open(struct block *b, enum kind kind, size_t size)
{
    struct lane *l = lane_of(b);

    if (b->device != NULL)
        return;
    lane_prepare(l);
    if (!lane_works(l))
        lane_sync(l);
    b->kind = kind;
    b->size = size;
    switch (b->kind) {
    case PLAIN:
        OK(aclrtMalloc((void **)&b->device, b->size, ACL_MEM_MALLOC_HUGE_FIRST));
        break;
    case POOLED:
        if (!pool_take(b, l->stream))
            return;
        break;
    default:
        OK(aclrtMemAllocManaged((void **)&b->device, b->size, ACL_RT_MEM_ATTACH_GLOBAL));
    }
    b->birth = ++work.n_births;
    b->shadow = calloc(1, b->size);
    OK(aclrtMemsetAsync(b->device, b->size, 0, b->size, l->stream));
    lane_note(l, b, NULL);
}

static void pooled_free(struct block *b)
{
    aclrtStream stream = lane_of(b)->stream;

    REFUSED(aclrtMemPoolFreeAsync(b->device + 1, stream), ACL_ERROR_RT_PARAM_INVALID);
    REFUSED(aclrtFree(b->device), ACL_ERROR_RT_PARAM_INVALID);
    OK(aclrtMemPoolFreeAsync(b->device, stream));
    REFUSED(aclrtMemPoolFreeAsync(b->device, stream), ACL_ERROR_RT_PARAM_INVALID);
}

/*
 * Perhaps while work on it is queued: that is done first, or never seen again.  What a
 * descriptor names is looked up when the stream comes to it, and must be there then.
 */
void block_close(struct block *b)
{
    if (b->device == NULL)
        return;
    if (lane_of(b)->n_slots > 0 || next_to(2))
        lane_sync(lane_of(b));
    block_free(b);
}

void block_free(struct block *b)
{
    if (b->kind == POOLED) {
        pooled_free(b);
    } else {
        REFUSED(aclrtFree(b->device + 1), ACL_ERROR_RT_PARAM_INVALID);
        OK(aclrtFree(b->device));
        REFUSED(aclrtFree(b->device), ACL_ERROR_RT_PARAM_INVALID);
    }
    free(b->shadow);
    free(b->base);
    *b = (struct block){0};
}

/* As a kernel would see it. */
static void block_view(const struct block *b)
{
    void *view;

    OK(aclmem_host_view(b->device, b->size, &view));
    if (memcmp(view, b->shadow, b->size) != 0)
        wrong("a view of %zu bytes does not show what was put there", b->size);
    OK(aclmem_host_view_end(view));
}

void block_check(struct block *b)
{
    char *found;

    if (b->device == NULL)
        return;
    lane_sync(lane_of(b));
    if (b->kind != MANAGED && next_to(4) == 0) {
        block_view(b);
        return;
    }
    found = malloc(b->size);
    OK(aclrtMemcpyAsync(found, b->size, b->device, b->size, ACL_MEMCPY_DEVICE_TO_HOST,
                        lane_of(b)->stream));
    OK(aclrtSynchronizeStream(lane_of(b)->stream));
    if (memcmp(found, b->shadow, b->size) != 0 ||
        (b->kind == MANAGED && memcmp(b->device, b->shadow, b->size) != 0))
        wrong("a block of %zu bytes does not hold what was put there", b->size);
    free(found);
}
