/* See shared.h. */
#include "layer/shared.h"

#include <sched.h>

#include "base/epoch.h"
#include "layer/bytes.h"
#include "layer/order.h"
#include "layer/pinned.h"
#include "layer/quarantine.h"
#include "layer/thread.h"

/* ---- one thread, or several ---- */

static struct {
    _Alignas(AM_SHARD_STRIDE) atomic_bool is_closed; /* for threads that share */
    struct {
        _Alignas(AM_SHARD_STRIDE) atomic_uint n; /* threads that share */
    } shard[AM_SHARDS];
} sharing;

#define POLLS 200u
#define POLLS_OF_HANDLER 1000000u

/* Waits until no thread shares; false: one does after n_polls polls (0: no limit). */
static bool all_left(unsigned n_polls)
{
    for (unsigned i = 0; i < AM_SHARDS; i++) {
        for (unsigned k = 1; sharing.shard[i].n > 0; k++) {
            if (k == n_polls)
                return false;
            if (k % POLLS == 0)
                sched_yield();
        }
    }
    return true;
}

void am_check_lock(void)
{
    am_lock(&am_check.lock);
    sharing.is_closed = true;
    all_left(0);
}

AM_NO_LOCK_ANALYSIS bool am_check_lock_try(void)
{
    if (am_thread_is_sharing() || !am_lock_try(&am_check.lock))
        return false;
    sharing.is_closed = true;
    if (all_left(POLLS_OF_HANDLER))
        return true;
    am_check_unlock();
    return false;
}

void am_check_unlock(void)
{
    sharing.is_closed = false;
    am_unlock(&am_check.lock);
}

void am_check_wait(pthread_cond_t *condition, const struct timespec *until)
{
    sharing.is_closed = false;
    if (until != NULL)
        pthread_cond_timedwait(condition, &am_check.lock.mutex, until);
    else
        pthread_cond_wait(condition, &am_check.lock.mutex);
    sharing.is_closed = true;
    all_left(0);
}

/* Both orders of the store and the load are seq_cst, as in am_check_lock(). */
static void share_begin(void)
{
    atomic_uint *n = &sharing.shard[am_shard()].n;

    am_held_push(&sharing, AM_RANK_RUNTIME, "check, shared");
    am_thread_get()->is_sharing = true;
    atomic_fetch_add(n, 1);
    if (!sharing.is_closed)
        return;
    atomic_fetch_sub(n, 1);
    pthread_mutex_lock(
        &am_check.lock.mutex); /* the metadata is open, or the owner waits */
    atomic_fetch_add(n, 1);
    pthread_mutex_unlock(&am_check.lock.mutex);
}

static void share_end(void)
{
    atomic_fetch_sub(&sharing.shard[am_shard()].n, 1);
    am_thread_get()->is_sharing = false;
    am_held_pop(&sharing);
}

/* ---- stripes ---- */

bool am_stripe_try(struct am_stripe *stripe)
{
    return !atomic_exchange_explicit(&stripe->is_taken, true, memory_order_acquire);
}

void am_stripe_give(struct am_stripe *stripe)
{
    atomic_store_explicit(&stripe->is_taken, false, memory_order_release);
}

static void stripe_take(struct am_stripe *stripe)
{
    while (!am_stripe_try(stripe)) {
        for (unsigned i = 0;
             atomic_load_explicit(&stripe->is_taken, memory_order_relaxed); i++) {
            if (i % POLLS == POLLS - 1)
                sched_yield();
        }
    }
}

#define STRIPES_MAX 8

/* The stripes that a hook needs, in the order of their addresses. */
struct stripes {
    unsigned n;
    struct am_stripe *of[STRIPES_MAX];
};

static void stripes_add(struct stripes *stripes, struct am_stripe *stripe)
{
    unsigned i = stripes->n;

    for (unsigned k = 0; k < stripes->n; k++) {
        if (stripes->of[k] == stripe)
            return;
    }
    for (; i > 0 && stripes->of[i - 1] > stripe; i--)
        stripes->of[i] = stripes->of[i - 1];
    stripes->of[i] = stripe;
    stripes->n++;
}

static void stripes_take(const struct stripes *stripes)
{
    for (unsigned i = 0; i < stripes->n; i++)
        stripe_take(stripes->of[i]);
}

static void stripes_give(const struct stripes *stripes)
{
    for (unsigned i = 0; i < stripes->n; i++)
        am_stripe_give(stripes->of[i]);
}

/* Runs the hook under the latches, if the condition holds then; NULL: without a condition. */
static bool hook_run(struct am_call *call, am_hook hook, const struct stripes *stripes,
                     bool (*can)(const struct am_call *call))
{
    bool is_done;

    stripes_take(stripes);
    is_done = can == NULL || can(call);
    if (is_done) {
        hook(call);
        if (call->is_after)
            am_call_unref(call);
    }
    stripes_give(stripes);
    return is_done;
}

static struct am_stripe *handle_stripe(uint64_t handle)
{
    return &am_check.stripe[handle * UINT64_C(0x9e3779b97f4a7c15) >> 56];
}

/* The key and kind of bytes never change. */
static struct am_stripe *bytes_stripe(uint64_t key, enum am_object_kind kind)
{
    return kind <= AM_OBJECT_MAPPING ? am_stripe_of(key) : handle_stripe(key);
}

/* Whether the bytes have no part in something that other hooks may change. */
static bool is_plain(const struct am_bytes *bytes)
{
    return bytes == NULL ||
           (bytes->values == NULL && !bytes->is_watched && bytes->origin == NULL);
}

bool am_can_forget(const struct am_object *object)
{
    return !am_thread_is_sharing() || is_plain(object->bytes);
}

/* ---- aclrtMalloc, aclrtFree ---- */

/*
 * Whether the addresses of a small block have only a past that may be forgotten; the latch of
 * the block is held.
 */
static bool past_is_plain(uint64_t addr, uint64_t size)
{
    struct am_stripe *stripe = am_stripe_of(addr);
    uint64_t end = addr + size;
    const struct am_object *freed;

    for (; end > addr; end = freed->key) {
        freed = am_overlap_find(&stripe->freed_areas, addr, end - addr);
        if (freed == NULL)
            break;
        if (freed->is_quarantined || !is_plain(freed->bytes))
            return false;
    }
    return am_overlap_find(&am_check.rest.freed_areas, addr, size) == NULL;
}

static bool can_make_block(const struct am_call *call)
{
    AM_ARGS(aclrtMalloc);
    uint64_t addr = (uintptr_t)*a->devPtr;

    return call->era == am_check.era && !am_session_has_limit() &&
           past_is_plain(addr, a->size) &&
           am_overlap_find(&am_check.rest.areas, addr, a->size) == NULL &&
           am_overlap_find(&am_stripe_of(addr)->areas, addr, a->size) == NULL;
}

static bool block_make(struct am_call *call, am_hook after)
{
    AM_ARGS(aclrtMalloc);
    uint64_t addr = (uintptr_t)*a->devPtr;

    return am_area_is_small(addr, a->size) &&
           hook_run(call, after, &(struct stripes){1, {am_stripe_of(addr)}},
                    can_make_block);
}

static bool can_free_block(const struct am_call *call)
{
    AM_ARGS(aclrtFree);
    uint64_t addr = (uintptr_t)a->devPtr;
    const struct am_object *object = am_area_find(addr);
    struct am_access access;

    return object != NULL && object->key == addr && object->kind == AM_OBJECT_BLOCK &&
           am_area_is_small(addr, object->size) && !object->is_captured &&
           !object->is_exported && is_plain(object->bytes) && am_order_is_settled() &&
           !am_area_is_in_use(object, &access) && past_is_plain(addr, object->size);
}

static bool block_free(struct am_call *call, am_hook before)
{
    AM_ARGS(aclrtFree);
    struct stripes stripes = {1, {am_stripe_of((uintptr_t)a->devPtr)}};

    if (!am_quarantine_is_open() &&
        (am_kind_is_on(AM_KIND_use_after_free) || am_kind_is_on(AM_KIND_double_free)))
        return false;
    return hook_run(call, before, &stripes, can_free_block);
}

static bool is_plain_block(const struct am_call *call)
{
    return !call->object->is_exported && is_plain(call->object->bytes);
}

/* The block was freed before the call. */
static bool block_freed(struct am_call *call, am_hook after)
{
    const struct am_object *object = call->object;

    return object != NULL && object->kind == AM_OBJECT_BLOCK &&
           am_area_is_small(object->key, object->size) &&
           hook_run(call, after, &(struct stripes){1, {am_stripe_of(object->key)}},
                    is_plain_block);
}

/* ---- work on a stream ---- */

struct range {
    uint64_t addr;
    uint64_t size;
};

/*
 * The stripes of the address, and of the bytes that it shows.  Only a mapping or an import
 * shows bytes with another key, and has them from the start.
 */
static void address_add(struct stripes *stripes, uint64_t addr)
{
    const struct am_object *area = am_rest_area_find(addr);
    const struct am_bytes *bytes = NULL;

    stripes_add(stripes, am_stripe_of(addr));
    if (area == NULL)
        return;
    if (area->kind == AM_OBJECT_MAPPING || area->kind == AM_OBJECT_KEY)
        bytes = am_bytes_root(area->bytes);
    if (bytes != NULL)
        stripes_add(stripes, bytes_stripe(bytes->key, bytes->kind));
    else
        stripes_add(stripes, bytes_stripe(area->key, area->kind));
}

/* Whether the range lies in one area that the stream's device may use. */
static bool can_use(const struct am_agent *agent, const struct range *range)
{
    const struct am_object *area = am_area_find(range->addr);

    if (area == NULL || range->addr + range->size < range->addr ||
        range->addr + range->size > area->key + area->size)
        return false;
    if (area->kind != AM_OBJECT_BLOCK && area->kind != AM_OBJECT_HOST &&
        area->kind != AM_OBJECT_MAPPING)
        return false;
    if (area->device >= 0 && area->device != agent->device)
        return false;
    return area->kind != AM_OBJECT_MAPPING || area->bytes != NULL;
}

static bool work_begin(struct am_call *call, am_hook before, const struct range *ranges,
                       size_t n)
{
    const struct am_agent *agent = am_agent_peek(call);
    struct stripes stripes = {0};
    bool can = true;

    if (agent == NULL || agent->capture != NULL)
        return false;
    stripes_add(&stripes, handle_stripe(agent->handle));
    for (size_t i = 0; i < n; i++)
        address_add(&stripes, ranges[i].addr);
    stripes_take(&stripes);
    for (size_t i = 0; i < n; i++)
        can &= can_use(agent, &ranges[i]);
    if (can)
        before(call);
    stripes_give(&stripes);
    return can;
}

static bool fill_begin(struct am_call *call, am_hook before)
{
    AM_ARGS(aclrtMemset);
    struct range range = {(uintptr_t)a->devPtr, a->count};

    return work_begin(call, before, &range, 1);
}

static bool copy_begin(struct am_call *call, am_hook before)
{
    AM_ARGS(aclrtMemcpy);
    struct range ranges[] = {{(uintptr_t)a->dst, a->count},
                             {(uintptr_t)a->src, a->count}};

    return a->kind != ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE &&
           work_begin(call, before, ranges, 2);
}

/* Whether the work runs in the model at once, and conflicts with nothing. */
static bool can_run(const struct am_call *call)
{
    const struct am_agent *agent = call->agent;

    if (agent->handle == 0 || agent->refs < 2 || agent->capture != NULL ||
        !TAILQ_EMPTY(&agent->works) || am_work_conflicts(call->work))
        return false;
    for (size_t i = 0; i < call->work->n_pieces; i++) {
        if (!is_plain(call->work->pieces[i].bytes))
            return false;
    }
    return true;
}

static bool work_end(struct am_call *call, am_hook after)
{
    const struct am_work *work = call->work;
    struct stripes stripes = {0};

    if (work == NULL || work->n_pieces > 2 || work->type != AM_WORK_ACCESS ||
        call->agent == NULL || call->agent->handle == 0 || call->object != NULL ||
        call->record != NULL || call->is_waited || am_thread_get()->wait != NULL ||
        am_models_are_waited() || am_descs_exist() || am_kind_is_on(AM_KIND_uninit_read))
        return false;
    stripes_add(&stripes, handle_stripe(call->agent->handle));
    for (size_t i = 0; i < work->n_pieces; i++) {
        const struct am_bytes *bytes = work->pieces[i].bytes;

        stripes_add(&stripes, bytes_stripe(bytes->key, bytes->kind));
        address_add(&stripes, work->pieces[i].addr);
    }
    return hook_run(call, after, &stripes, can_run);
}

/* ---- records of events, and waits for them ---- */

/* Whether the call is about a live event of this process alone, and a stream that runs. */
static bool can_order(const struct am_object *event, const struct am_agent *agent)
{
    return event != NULL && event->kind == AM_OBJECT_EVENT && !event->is_freed &&
           event->signal != NULL && !event->signal->is_shared && agent != NULL &&
           agent->handle != 0 && agent->capture == NULL && am_order_is_settled();
}

static bool order_run(struct am_call *call, am_hook hook, const struct am_object *event,
                      const struct am_agent *agent,
                      bool (*can)(const struct am_call *call))
{
    struct stripes stripes = {0};

    if (!can_order(event, agent))
        return false;
    stripes_add(&stripes, handle_stripe(event->key));
    stripes_add(&stripes, handle_stripe(agent->handle));
    return hook_run(call, hook, &stripes, can);
}

static bool record_begin(struct am_call *call, am_hook before)
{
    AM_ARGS(aclrtRecordEvent);

    return order_run(call, before, am_handle_find(AM_OBJECT_EVENT, a->event),
                     am_agent_peek(call), NULL);
}

static bool wait_begin(struct am_call *call, am_hook before)
{
    AM_ARGS(aclrtStreamWaitEvent);

    return order_run(call, before, am_handle_find(AM_OBJECT_EVENT, a->event),
                     am_agent_peek(call), NULL);
}

/* Another reference to the agent exists: the hook does not delete it. */
static bool has_agent(const struct am_call *call)
{
    return call->agent->refs > 1;
}

static bool record_end(struct am_call *call, am_hook after)
{
    return order_run(call, after, call->object, call->agent, has_agent);
}

/* Whether the wait for the event ends at once. */
static bool can_wait(const struct am_call *call)
{
    const struct am_signal *signal = call->object->signal;

    return has_agent(call) &&
           (signal->record != NULL ? signal->record->is_complete : signal->is_repeated);
}

static bool wait_end(struct am_call *call, am_hook after)
{
    return order_run(call, after, call->object, call->agent, can_wait);
}

/* ---- the host waits for a stream ---- */

static bool can_sync(const struct am_agent *agent)
{
    return agent != NULL && agent->handle != 0 && agent->capture == NULL &&
           am_order_is_settled() && !am_models_exist() && am_function_agent() == NULL &&
           am_thread_get()->wait == NULL;
}

static bool sync_begin(struct am_call *call, am_hook before)
{
    const struct am_agent *agent = am_agent_peek(call);

    return can_sync(agent) &&
           hook_run(call, before, &(struct stripes){1, {handle_stripe(agent->handle)}},
                    NULL);
}

static bool can_join(const struct am_call *call)
{
    return has_agent(call) && am_host_can_join(call->record);
}

static bool sync_end(struct am_call *call, am_hook after)
{
    return can_sync(call->agent) &&
           hook_run(call, after,
                    &(struct stripes){1, {handle_stripe(call->agent->handle)}}, can_join);
}

/* ---- the calls ---- */

typedef bool (*try_fn)(struct am_call *call, am_hook hook);

static bool hook_try(struct am_call *call, am_hook hook, try_fn try)
{
    bool is_done;

    if (try == NULL || am_touch_is_on())
        return false;
    share_begin();
    is_done = !am_captures_exist() && try(call, hook);
    share_end();
    return is_done;
}

bool am_shared_before(struct am_call *call, am_hook before)
{
    try_fn try = before == am_before_free                             ? block_free
                 : before == am_before_memset && call->stream != NULL ? fill_begin
                 : before == am_before_memcpy && call->stream != NULL ? copy_begin
                 : before == am_before_record                         ? record_begin
                 : before == am_before_wait_event                     ? wait_begin
                 : before == am_before_sync_stream                    ? sync_begin
                                                                      : NULL;

    return hook_try(call, am_call_before, try);
}

bool am_shared_after(struct am_call *call, am_hook after)
{
    try_fn try = after == am_after_malloc         ? block_make
                 : after == am_after_freed        ? block_freed
                 : after == am_after_work         ? work_end
                 : after == am_after_record       ? record_end
                 : after == am_after_wait         ? wait_end
                 : after == am_after_sync_stream  ? sync_end
                 : after == am_after_query_stream ? sync_end
                                                  : NULL;

    if (call->rc != ACL_SUCCESS || call->finding != NULL || call->model != NULL)
        return false;
    return hook_try(call, after, try);
}
