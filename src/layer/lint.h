/* The rules of portability that a call breaks: lint.c. */
#ifndef AM_LAYER_LINT_H
#define AM_LAYER_LINT_H

#include "layer/metadata.h"

/* Before the call, under am_check.lock. */
void am_lint(struct am_call *call);
/* This process has exported memory by this number. */
void am_lint_exported(uint64_t number);

#endif
