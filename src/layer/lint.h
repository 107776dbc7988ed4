/* The rules of portability that a call breaks: lint.c. */
#ifndef AM_LAYER_LINT_H
#define AM_LAYER_LINT_H

#include "layer/check.h"

/* Before the call, under am_check.lock. */
void am_lint(struct am_call *call);
/* This process has exported memory by this number. */
void am_lint_exported(uint64_t number);

/* The name of the product with this number; NULL behind the last one. */
const char *am_lint_product(unsigned index);
/* The needs of a function that the program called; false: none, or it was not called. */
bool am_lint_function(unsigned api, struct am_reach *ret_reach);

#endif
