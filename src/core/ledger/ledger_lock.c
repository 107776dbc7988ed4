/*
 * The locks of the ledger's file: its own, and one for each slot.
 *
 * They are locks of the open file (F_OFD_SETLK), so the kernel gives them back when the last
 * descriptor and mapping of it are gone, however a process ends.  The ledger's own is tried
 * for again and again, not waited for: a wait could not be ended in time.
 */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/descriptor.h"
#include "base/text.h"
#include "core/ledger/ledger_file.h"
#include "core/ledger/rundir.h"

/*
 * How long to wait for the lock.  It is held for microseconds; a process that holds it
 * longer was stopped.  Later calls do not wait for the same holder as long again:
 * freeing a thousand handles would take a thousand waits.
 */
#define LOCK_WAIT (5 * AM_SECOND)
#define LATE_WAIT (10 * AM_MILLISECOND)
#define STEP_MAX (50 * AM_MILLISECOND) /* the most that one attempt counts */

/* Locks of one file that touch would be one lock, so every second byte is left out. */
#define SLOT_BYTE(slot_) (2 + 2 * (slot_))

/* A lock on a byte: 0 or -errno, -EAGAIN when another has it. */
static int byte_lock(int fd, unsigned byte)
{
    struct flock lock = am_byte_lock(F_WRLCK, LEDGER_LOCKS + byte, 1);

    if (am_sys_lock_file(fd, &lock) == 0)
        return 0;
    return errno == EACCES ? -EAGAIN : -errno;
}

/* Whether another process has a lock on one of n bytes. */
static bool bytes_are_locked(int fd, unsigned byte, unsigned n)
{
    struct flock lock = am_byte_lock(F_WRLCK, LEDGER_LOCKS + byte, n);

    /* When in doubt, the process counts as alive. */
    return fcntl(fd, F_OFD_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
}

bool ledger_is_locked(int fd, unsigned slot)
{
    return bytes_are_locked(fd, SLOT_BYTE(slot), 1);
}

bool ledger_has_users(int fd)
{
    return bytes_are_locked(fd, SLOT_BYTE(0), LEDGER_LOCKS_ALL);
}

int ledger_lock_slot(int fd, unsigned slot)
{
    return byte_lock(fd, SLOT_BYTE(slot));
}

void ledger_name(const struct ledger_slot *slot, char *ret_text)
{
    char command[AM_LEDGER_NAME];

    am_text_copy(command, sizeof command, slot->command, sizeof slot->command);
    snprintf(ret_text, LEDGER_NAME_TEXT, "%d (%s)", (int)slot->pid, command);
}

/* Names the process that did not release the lock. */
static void lock_describe(const struct am_ledger *ledger, char *why)
{
    uint32_t holder = ledger->head != NULL ? ledger->head->holder : 0;
    char name[LEDGER_NAME_TEXT] = "that is just starting";

    if (holder > 0 && holder <= ledger_slots_high(ledger))
        ledger_name(&ledger->slots[holder - 1], name);
    snprintf(why, LEDGER_WHY,
             "the ledger in %s has been locked by process %s for more than %d seconds; "
             "that process is stopped: continue it or end it",
             am_rundir_path(), name, (int)(LOCK_WAIT / AM_SECOND));
}

/* Takes the lock of the file: 0 or -errno, -EAGAIN when it was not given back in time. */
static int file_lock(int fd, uint64_t wait)
{
    struct timespec pause = {.tv_nsec = 20000};
    struct am_timeout timeout = {.left = wait, .checked = am_clock()};
    bool is_patient = true;

    for (;;) {
        int rc = byte_lock(fd, 0);

        if (rc != -EAGAIN || !is_patient)
            return rc;
        is_patient = am_timeout_check(&timeout, am_clock(), STEP_MAX);
        nanosleep(&pause, NULL);
        if (pause.tv_nsec < 2000000)
            pause.tv_nsec *= 2;
    }
}

bool ledger_lock_file(struct am_ledger *ledger, char *why)
{
    int rc = file_lock(ledger->fd, ledger->is_late ? LATE_WAIT : LOCK_WAIT);

    ledger->is_late = rc == -EAGAIN;
    if (why != NULL && rc == -EAGAIN)
        lock_describe(ledger, why);
    else if (why != NULL && rc != 0)
        snprintf(why, LEDGER_WHY,
                 "the ledger in %s cannot be locked: %s; set ACLMEM_RUNTIME_DIR to a "
                 "directory whose file system has locks",
                 am_rundir_path(), strerror(-rc));
    return rc == 0;
}

bool ledger_lock(struct am_ledger *ledger, char *why)
{
    am_lock(&ledger->lock);
    if (ledger->fd < 0)
        return true;
    if (!ledger_lock_file(ledger, why)) {
        am_unlock(&ledger->lock);
        return false;
    }
    am_step();
    if (ledger->head->holder != 0) { /* its holder died */
        ledger_reap_locked(ledger);
        ledger_count_shares_locked(ledger);
    }
    ledger->head->holder = ledger->slot + 1;
    am_step();
    if (ledger->must_sweep)
        ledger_sweep_locked(ledger);
    return true;
}

/* Giving back a lock that has no neighbour cannot fail. */
void ledger_unlock_file(struct am_ledger *ledger)
{
    struct flock lock = am_byte_lock(F_UNLCK, LEDGER_LOCKS, 1);

    am_step();
    ledger->head->holder = 0;
    am_step();
    (void)fcntl(ledger->fd, F_OFD_SETLK, &lock);
}

void ledger_unlock(struct am_ledger *ledger)
{
    if (ledger->fd >= 0)
        ledger_unlock_file(ledger);
    am_unlock(&ledger->lock);
}
