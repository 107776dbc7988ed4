/* What tests of physical memory in two processes have in common. */
#ifndef TEST_SHARE_PAIR_H
#define TEST_SHARE_PAIR_H

#include "actor.h"

#define OPEN ACL_RT_VMM_EXPORT_FLAG_DISABLE_PID_VALIDATION

extern struct actor other; /* of the test that runs; pid 0: none */

/* Each has to succeed. */
uint64_t export_open(aclrtDrvMemHandle handle);
aclrtDrvMemHandle import(uint64_t number);
/* The other process, started, with the memory of the number mapped at what it returns. */
uint64_t other_has(uint64_t number, size_t size, uint64_t *ret_handle);
/* The other process, started, exports a chunk; this one is on its list if there is one. */
uint64_t number_of_other(uint64_t flags);

/* The other process goes, if the test left it. */
int end_other(void **state);

/* clang-format off */
#define pair(f_) {#f_, f_, start_default, end_other, NULL}
#define pair_alone(f_) {#f_, f_, NULL, end_other, NULL}
#define pair_strict(f_) {"strict: " #f_, f_, start_strict, end_other, NULL}
/* clang-format on */

#endif
