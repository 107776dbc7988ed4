/* See moments.h. */
#include "moments.h"

#include "base/epoch.h"
#include "base/lock.h"

static _Thread_local struct {
    unsigned n_held;
    unsigned left;   /* moments until run(arg); 0: none is armed */
    bool is_outside; /* only where no read section is active */
    bool has_come;
    void (*run)(void *arg);
    void *arg;
    void (*each)(void *arg); /* NULL: none */
    void *each_arg;
} moment;

void moment_arm(unsigned nth, void (*run)(void *arg), void *arg)
{
    moment.left = nth;
    moment.is_outside = false;
    moment.has_come = false;
    moment.run = run;
    moment.arg = arg;
}

void moment_arm_outside(unsigned nth, void (*run)(void *arg), void *arg)
{
    moment_arm(nth, run, arg);
    moment.is_outside = true;
}

bool moment_disarm(void)
{
    moment.left = 0;
    return moment.has_come;
}

void moment_each(void (*run)(void *arg), void *arg)
{
    moment.each = run;
    moment.each_arg = arg;
}

/* What the linker makes of am_lock() and its kin. */
void __real_am_lock(struct am_lock *lock);
bool __real_am_lock_try(struct am_lock *lock);
void __real_am_unlock(struct am_lock *lock);
void __wrap_am_lock(struct am_lock *lock);
bool __wrap_am_lock_try(struct am_lock *lock);
void __wrap_am_unlock(struct am_lock *lock);

static void moment_pass(void)
{
    if (moment.is_outside && am_epoch_thread.depth > 0)
        return;
    if (moment.n_held == 0 && moment.left > 0 && --moment.left == 0) {
        moment.has_come = true;
        moment.run(moment.arg);
    }
}

void __wrap_am_lock(struct am_lock *lock)
{
    moment_pass();
    if (moment.each != NULL)
        moment.each(moment.each_arg);
    __real_am_lock(lock);
    moment.n_held++;
}

bool __wrap_am_lock_try(struct am_lock *lock)
{
    bool is_ours = __real_am_lock_try(lock);

    moment.n_held += is_ours;
    return is_ours;
}

void __wrap_am_unlock(struct am_lock *lock)
{
    __real_am_unlock(lock);
    moment.n_held--;
}
