/* See remote.h: slots, bells and moves. */
#include <linux/futex.h>
#include <sched.h>
#include <stdatomic.h>

#include "acl/error_codes/rt_error_codes.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/sys.h"
#include "core/remote/remote_state.h"

_Static_assert(AM_PORT_SLOTS < 64, "a bit for each");

bool am_remote_slot_take(struct am_remote_waiter *waiter, unsigned *ret_slot)
{
    bool has_one;

    am_lock(&am_remote.lock);
    has_one = am_remote.free_slots != 0 || !am_remote.is_up || am_remote.is_gone;
    if (am_remote.free_slots != 0) {
        *ret_slot = (unsigned)__builtin_ctzll(am_remote.free_slots);
        am_remote.free_slots &= am_remote.free_slots - 1;
    } else if (has_one) {
        *ret_slot = AM_PORT_SLOTS; /* none, for a move that will fail */
    } else if (waiter != NULL) {
        TAILQ_INSERT_TAIL(&am_remote.waiters, waiter, next);
    }
    am_unlock(&am_remote.lock);
    return has_one;
}

void am_remote_slot_give(unsigned slot)
{
    struct am_remote_waiter *waiter;

    if (slot == AM_PORT_SLOTS)
        return;
    am_lock(&am_remote.lock);
    am_remote.free_slots |= UINT64_C(1) << slot;
    pthread_cond_broadcast(&am_remote.room);
    waiter = TAILQ_FIRST(&am_remote.waiters);
    if (waiter != NULL)
        TAILQ_REMOVE(&am_remote.waiters, waiter, next);
    am_unlock(&am_remote.lock);
    if (waiter != NULL)
        waiter->wake(waiter);
}

bool am_remote_unwait(struct am_remote_waiter *waiter)
{
    struct am_remote_waiter *other;

    am_lock(&am_remote.lock);
    TAILQ_FOREACH (other, &am_remote.waiters, next) {
        if (other == waiter) {
            TAILQ_REMOVE(&am_remote.waiters, waiter, next);
            break;
        }
    }
    am_unlock(&am_remote.lock);
    return other != NULL;
}

void *am_remote_slot(unsigned slot)
{
    return am_remote.process.area + slot * AM_PORT_SLOT_SIZE;
}

static struct am_port_bells *bells(void)
{
    return (struct am_port_bells *)(void *)(am_remote.process.area + AM_PORT_BELLS_AT);
}

unsigned am_remote_bell_take(void)
{
    unsigned bell = 0;

    am_lock(&am_remote.lock);
    if (am_remote.is_up && !am_remote.is_gone && am_remote.free_bells != 0) {
        bell = (unsigned)__builtin_ctzll(am_remote.free_bells) + 1;
        am_remote.free_bells &= am_remote.free_bells - 1;
    }
    am_unlock(&am_remote.lock);
    return bell;
}

void am_remote_bell_give(unsigned bell)
{
    if (bell == 0)
        return;
    am_lock(&am_remote.lock);
    am_remote.free_bells |= UINT64_C(1) << (bell - 1);
    pthread_cond_broadcast(&am_remote.room);
    am_unlock(&am_remote.lock);
}

uint32_t am_remote_bell_count(unsigned bell)
{
    return atomic_load(&bells()->bell[bell - 1]);
}

void am_remote_bell_quiet(unsigned bell, bool is_quiet)
{
    atomic_store(&bells()->is_quiet[bell - 1], is_quiet);
}

void am_remote_bell_ring(unsigned bell)
{
    _Atomic uint32_t *word = &bells()->bell[bell - 1];

    atomic_fetch_add(word, 1);
    syscall(SYS_futex, word, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

void am_remote_bell_wait(unsigned bell, uint32_t count, bool is_short)
{
    _Atomic uint32_t *word = &bells()->bell[bell - 1];
    uint64_t until = is_short ? am_clock() + AM_PORT_AWAKE : 0;

    while (is_short && atomic_load(word) == count && am_clock() < until)
        sched_yield();
    while (atomic_load(word) == count)
        syscall(SYS_futex, word, FUTEX_WAIT, count, NULL, NULL, 0);
}

bool am_remote_landed(struct am_remote_move *move)
{
    struct am_remote_request request;
    bool is_first;

    if (move->bell == 0 || move->slot == AM_PORT_SLOTS ||
        atomic_load(&bells()->landed[move->slot]) == 0)
        return false;
    atomic_store(&bells()->landed[move->slot], 0);
    am_lock(&am_remote.lock);
    is_first = am_remote_request_take_locked(move->id, &request);
    am_unlock(&am_remote.lock);
    return is_first; /* otherwise done() tells: the fabric process is gone */
}

static void move_reply(void *arg, const struct am_port_message *reply)
{
    struct am_remote_move *move = arg;

    move->done(move, reply->status, reply->text);
}

void am_remote_begin(struct am_remote_move *move)
{
    struct am_port_message message = {.kind = move->is_put ? AM_PORT_PUT : AM_PORT_GET};
    char why[AM_PORT_TEXT] = "";
    struct am_capture before;
    aclError rc;

    message.move.number = move->mem->impl[AM_REMOTE_NUMBER];
    message.move.offset = move->offset;
    message.move.at = move->slot * AM_PORT_SLOT_SIZE;
    message.move.size = move->size;
    message.move.bell = move->bell;
    message.move.has_more = move->has_more;
    if (move->slot < AM_PORT_SLOTS)
        atomic_store(&bells()->landed[move->slot], 0);
    before = am_error_capture(why, sizeof why);
    am_lock(&am_remote.lock);
    if (move->mem->impl[AM_REMOTE_GENERATION] != am_remote.generation ||
        move->slot == AM_PORT_SLOTS)
        rc = am_fail(ACL_ERROR_RT_IPC_ERROR, "%s", am_remote_gone);
    else
        rc = am_remote_request_locked(&message, -1, move_reply, move);
    move->id = message.id;
    am_unlock(&am_remote.lock);
    am_error_capture_end(before);
    if (rc != ACL_SUCCESS)
        move->done(move, rc, am_remote_gone);
}
