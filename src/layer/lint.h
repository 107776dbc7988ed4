/* What is not portable about a call: lint.c. */
#ifndef AM_LAYER_LINT_H
#define AM_LAYER_LINT_H

#include "layer/check.h"

/* Before the call, under the books' lock. */
void am_lint(struct am_call *call);

#endif
