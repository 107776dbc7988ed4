/*
 * How far the streams are.
 *
 * Events are recorded only when they may be needed: when memory is wanted that a stream
 * has queued work on and no event covers, and whenever a stream has freed 64 MB, or a quarter
 * of the held memory if that is more.  So pages that lie idle for a while are known to be
 * free when they are wanted.  Memory that one stream frees and uses again needs no event.
 */
#include "base/sys.h"
#include "pool/internal.h"

#define MARK_BYTES ((uint64_t)64 << 20)
#define MARK_PART 4

static int acl_create(void **event)
{
    return aclrtCreateEventExWithFlag(event,
                                      ACL_EVENT_SYNC | ACL_EVENT_CAPTURE_STREAM_PROGRESS);
}

static int acl_query(void *event, int *is_done)
{
    aclrtEventRecordedStatus status = ACL_EVENT_RECORDED_STATUS_NOT_READY;
    aclError rc = aclrtQueryEventStatus(event, &status);

    *is_done = status == ACL_EVENT_RECORDED_STATUS_COMPLETE;
    return rc;
}

const aclmem_pool_stream_ops pool_acl_streams = {
    .event_create = acl_create,
    .event_destroy = aclrtDestroyEvent,
    .event_record = aclrtRecordEvent,
    .event_query = acl_query,
    .event_synchronize = aclrtSynchronizeEvent,
    .stream_wait = aclrtStreamWaitEvent,
    .stream_synchronize = aclrtSynchronizeStream,
    .device_synchronize = aclrtSynchronizeDevice,
};

/* A slot whose stream was forgotten: lists of slots go on behind it. */
#define FORGOTTEN UINTPTR_MAX

/* The slot with this name; otherwise *ret_free is one that could have it, or OTHERS. */
static bool slot_find(aclmem_pool *pool, uintptr_t name, unsigned *ret_slot)
{
    unsigned first = pool_slot_first(name);
    unsigned free = OTHERS;

    for (unsigned i = 0; i < N_SLOTS; i++) {
        unsigned slot = (first + i) % N_SLOTS;
        uintptr_t found;

        if (slot == OTHERS || slot == OTHERS_WORK)
            continue;
        /* The partner is the release in pool_slot_search(). */
        found = atomic_load_explicit(&pool->slots[slot].name, memory_order_acquire);
        if (found == name) {
            *ret_slot = slot;
            return true;
        }
        if (free == OTHERS && (found == 0 || found == FORGOTTEN))
            free = slot;
        if (found == 0)
            break;
    }
    *ret_slot = free;
    return false;
}

unsigned pool_slot_search(aclmem_pool *pool, aclrtStream stream)
{
    uintptr_t name = (uintptr_t)stream + 1;
    unsigned slot;

    if (slot_find(pool, name, &slot) || slot == OTHERS)
        return slot;
    /*
     * Names change under the lock alone.  Two threads that come with the same new stream
     * while a third forgets another one would otherwise find two places for it, and only
     * one of them would be forgotten with the stream.
     */
    pthread_mutex_lock(&pool->lock);
    if (!slot_find(pool, name, &slot) && slot != OTHERS)
        atomic_store_explicit(&pool->slots[slot].name, name, memory_order_release);
    pthread_mutex_unlock(&pool->lock);
    return slot;
}

static aclrtStream slot_stream(struct pool_slot *slot)
{
    return (aclrtStream)(atomic_load(&slot->name) - 1);
}

static struct pool_mark *mark_get(aclmem_pool *pool)
{
    struct pool_mark *mark = STAILQ_FIRST(&pool->spare_marks);

    if (mark != NULL) {
        STAILQ_REMOVE_HEAD(&pool->spare_marks, link);
        return mark;
    }
    mark = am_sys_calloc(1, sizeof *mark);
    if (mark != NULL && pool->streams.event_create(&mark->event) != 0) {
        free(mark);
        mark = NULL;
    }
    return mark;
}

/*
 * An event behind all that the stream has now.  Where none can be had the device is waited for:
 * it then has done all of it, and *ret_mark is NULL.  A stream that was forgotten has nothing to
 * do, and its handle must not be used any more.  Streams that are not known have no event.  An
 * error: nothing is known of the work.
 */
static aclError slot_mark(aclmem_pool *pool, struct pool_slot *slot,
                          struct pool_mark **ret_mark)
{
    uintptr_t name = atomic_load(&slot->name);
    struct pool_mark *mark = NULL;
    aclError rc = ACL_SUCCESS;

    *ret_mark = NULL;
    slot->unmarked = 0;
    slot->marked = pool->ticket++;
    if (name != FORGOTTEN && name != 0)
        mark = mark_get(pool);
    if (mark != NULL && pool->streams.event_record(mark->event, slot_stream(slot)) == 0) {
        mark->ticket = slot->marked;
        STAILQ_INSERT_TAIL(&slot->marks, mark, link);
        *ret_mark = mark;
        return ACL_SUCCESS;
    }
    if (mark != NULL)
        STAILQ_INSERT_HEAD(&pool->spare_marks, mark, link);
    if (name != FORGOTTEN)
        rc = pool->streams.device_synchronize();
    if (rc == ACL_SUCCESS)
        slot->done = slot->marked;
    else
        slot->marked = slot->done; /* tried again by the next one that asks */
    return rc;
}

/* Looks at the oldest events only: later ones of the stream complete later. */
static void slot_poll(aclmem_pool *pool, struct pool_slot *slot)
{
    struct pool_mark *mark;

    while ((mark = STAILQ_FIRST(&slot->marks)) != NULL) {
        int is_done = 0;

        if (pool->streams.event_query(mark->event, &is_done) != 0 || !is_done)
            return;
        if (slot->done < mark->ticket)
            slot->done = mark->ticket;
        STAILQ_REMOVE_HEAD(&slot->marks, link);
        STAILQ_INSERT_HEAD(&pool->spare_marks, mark, link);
    }
}

uint64_t pool_use_pending(void *ctx, const struct am_fit_use *use,
                          enum am_fit_action action)
{
    aclmem_pool *pool = ctx;
    uint64_t pending = 0;

    for (uint64_t rest = use->streams; rest != 0; rest &= rest - 1) {
        unsigned i = (unsigned)__builtin_ctzll(rest);
        struct pool_slot *slot = &pool->slots[i];
        struct pool_mark *mark;

        if (slot->done >= use->ticket)
            continue;
        if (pool->is_frozen) {
            pending |= 1ull << i;
            continue;
        }
        if (slot->marked < use->ticket)
            slot_mark(pool, slot, &mark);
        slot_poll(pool, slot);
        if (slot->done < use->ticket)
            pending |= 1ull << i;
    }
    return pending;
}

bool pool_slot_is_due_locked(aclmem_pool *pool, unsigned i, size_t size)
{
    uint64_t unmarked = pool->slots[i].unmarked + size;

    return unmarked >= MARK_BYTES && unmarked >= pool_held_locked(pool) / MARK_PART &&
           !pool->is_frozen;
}

void pool_slots_freed_locked(aclmem_pool *pool, uint64_t slots, size_t size)
{
    for (; slots != 0; slots &= slots - 1) {
        struct pool_slot *slot = &pool->slots[__builtin_ctzll(slots)];
        struct pool_mark *mark;

        if (pool_slot_is_due_locked(pool, (unsigned)__builtin_ctzll(slots), size)) {
            slot_mark(pool, slot, &mark);
            slot_poll(pool, slot);
        } else {
            slot->unmarked += size;
        }
    }
}

/*
 * The oldest event of the slot that covers the ticket.  Another thread may be waiting for the one
 * that did: then there is a new one.  *ret_mark is NULL: the stream has passed the mark.
 */
static aclError slot_mark_of(aclmem_pool *pool, struct pool_slot *slot, uint64_t ticket,
                             struct pool_mark **ret_mark)
{
    STAILQ_FOREACH(*ret_mark, &slot->marks, link)
    {
        if ((*ret_mark)->ticket >= ticket)
            return ACL_SUCCESS;
    }
    return slot_mark(pool, slot, ret_mark);
}

aclError pool_wait_locked(aclmem_pool *pool, const struct am_fit_use *use)
{
    uint64_t pending = pool_use_pending(pool, use, AM_FIT_REUSE);
    aclError rc = ACL_SUCCESS;

    pool->waits += pending != 0;
    for (; rc == ACL_SUCCESS && pending != 0; pending &= pending - 1) {
        struct pool_slot *slot = &pool->slots[__builtin_ctzll(pending)];
        struct pool_mark *mark;

        rc = slot_mark_of(pool, slot, use->ticket, &mark);
        if (rc != ACL_SUCCESS || mark == NULL)
            continue;
        /* The mark is not reused: it is in a list of this call alone. */
        STAILQ_REMOVE(&slot->marks, mark, pool_mark, link);
        pthread_mutex_unlock(&pool->lock);
        rc = pool->streams.event_synchronize(mark->event);
        pthread_mutex_lock(&pool->lock);
        if (rc == ACL_SUCCESS && slot->done < mark->ticket)
            slot->done = mark->ticket;
        STAILQ_INSERT_HEAD(&pool->spare_marks, mark, link);
        slot_poll(pool, slot);
    }
    return rc;
}

aclError pool_order_locked(aclmem_pool *pool, aclrtStream stream,
                           const struct am_fit_use *use)
{
    uint64_t pending = pool_use_pending(pool, use, AM_FIT_REUSE);
    aclError rc = ACL_SUCCESS;

    for (; rc == ACL_SUCCESS && pending != 0; pending &= pending - 1) {
        struct pool_slot *slot = &pool->slots[__builtin_ctzll(pending)];
        struct pool_mark *mark;

        rc = slot_mark_of(pool, slot, use->ticket, &mark);
        if (rc == ACL_SUCCESS && mark != NULL)
            rc = pool->streams.stream_wait(stream, mark->event);
    }
    return rc;
}

aclError aclmem_pool_forget_stream(aclmem_pool *pool, aclrtStream stream)
{
    uintptr_t name = (uintptr_t)stream + 1;
    struct pool_visit visit;
    unsigned i;
    aclError rc;

    AM_TRY(pool_enter(pool, &visit));
    rc = pool->streams.stream_synchronize(stream);
    if (rc == ACL_SUCCESS) {
        pthread_mutex_lock(&pool->lock);
        if (slot_find(pool, name, &i)) {
            /* What is cached for the stream would never be asked for again. */
            pool_flush_locked(pool, true);
            slot_poll(pool, &pool->slots[i]);
            pool->slots[i].done = pool->slots[i].marked = pool->ticket++;
            atomic_store(&pool->slots[i].name, FORGOTTEN);
        }
        pthread_mutex_unlock(&pool->lock);
    } else {
        pool_fail(rc, "the stream's work did not end well, or there is no such stream");
    }
    pool_leave(&visit);
    return rc;
}

void pool_slots_destroy(aclmem_pool *pool)
{
    struct pool_mark *mark;

    for (unsigned i = 0; i < N_SLOTS; i++)
        STAILQ_CONCAT(&pool->spare_marks, &pool->slots[i].marks);
    while ((mark = STAILQ_FIRST(&pool->spare_marks)) != NULL) {
        STAILQ_REMOVE_HEAD(&pool->spare_marks, link);
        pool->streams.event_destroy(mark->event);
        free(mark);
    }
}
