/* The invariants of the placement engine: every one of them, slowly. */
#ifndef TEST_UNIT_FIT_CHECK_H
#define TEST_UNIT_FIT_CHECK_H

#include "fit/fit.h"

/* NULL, or the invariant that does not hold. */
const char *am_fit_check(struct am_fit *fit);

#endif
