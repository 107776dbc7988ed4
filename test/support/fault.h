/*
 * Failing the Nth system call or allocation of the library, on purpose.
 *
 * The library under build/test/lib64 is built from the same sources with every system call
 * and allocation going through a table that counts; these functions exist only there.
 *
 *     for_each_fault(n) {
 *         rc = aclrtMapMem(...);
 *         assert_int_equal(rc == ACL_SUCCESS, !am_fault_fired());
 *     }
 *
 * runs the body with the first call failing, then the second, ..., and ends after the
 * run in which none was left to fail.
 */
#ifndef TEST_SUPPORT_FAULT_H
#define TEST_SUPPORT_FAULT_H

#include <stdbool.h>
#include <stdint.h>

/*
 * From now on the nth call (1 is the next one) fails; with `persistent` all later ones
 * fail too.
 */
void am_fault_arm(uint64_t nth, bool persistent);
/* The same, with this errno instead of the call's usual one. */
void am_fault_arm_with(uint64_t nth, bool persistent, int error);
/*
 * Just calls of a driver: they say that an argument is wrong, whatever it is.  None where
 * there is no driver.
 */
void am_fault_arm_refusal(uint64_t nth);
void am_fault_disarm(void);
/* Whether a call failed since am_fault_arm(); stays readable after am_fault_disarm(). */
bool am_fault_fired(void);
/* Whether that one was to move bytes of a device: some may have been moved before it. */
bool am_fault_was_work(void);
/*
 * At the nth of the same places, and of those between two writes that other processes can
 * see, the process sends itself this signal: for tests of what a killed one leaves behind.
 */
void am_fault_arm_signal(uint64_t nth, int signal);

static inline bool fault_next(uint64_t *n, bool persistent)
{
    if (*n > 0) {
        am_fault_disarm();
        if (!am_fault_fired())
            return false;
    }
    am_fault_arm(++*n, persistent);
    return true;
}

#define for_each_fault(n_) for (uint64_t n_ = 0; fault_next(&n_, false);)
#define for_each_lasting_fault(n_) for (uint64_t n_ = 0; fault_next(&n_, true);)

#endif
