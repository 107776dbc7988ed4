/* The layers of this build, for src/api/stack.c, and what their options must be. */
#ifndef AM_LAYER_LAYERS_H
#define AM_LAYER_LAYERS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "api/api.h"

/* A function of aclmem.h or access.h that a layer defines. */
#define AM_LAYER_EXPORT __attribute__((visibility("default")))

extern const struct am_layer am_check_layer;
extern const struct am_layer am_fail_layer;
extern const struct am_layer am_trace_layer;

/* Fails with 100000 where an option of a layer has a wrong value. */
aclError am_layers_configure(void);
/* explain.c: explains faults and reports leaks, without any layer. */
void am_explain_open(void);
void am_explain_close(void);
void am_explain_left(const char *when);
/* After a reset of a device: what it has freed, given what there was before. */
struct am_watch_left;
void am_explain_reset(const struct am_watch_left *before);
#define AM_NULL_MAX 65536 /* a fault below is the dereference of a NULL */

/* Whether faults of the program come to our handler. */
bool am_explain_handles(void);
/*
 * The layer check, in the handler: makes pages that it protected accessible again, so that the
 * program goes on; reports more about a touch of device memory.  False: it did not.
 */
bool am_touch_let(uintptr_t addr, uintptr_t instruction, bool is_write);
bool am_touch_report(uintptr_t addr, uintptr_t instruction);

/* Whether a call that this thread makes is a query of the layer check: thread.c. */
bool am_thread_is_querying(void);
/* Whether the layer check is active in this process, or did until aclFinalize. */
bool am_check_is_on(void);
/* Passes quarantined frees on, so that the next query shows the memory that is free. */
void am_check_settle(void);
/* Of the library that the layers are in: whether a test may begin a session now. */
aclError am_check_state(const char *function);
/* python.c: frames of another language, and whether a layer wants them. */
extern _Atomic bool am_callers_are_wanted;
void am_callers_set(const char *json);
/* The program may write the range through a host view from now on. */
void am_check_view(const void *addr, size_t size);
/* Whether ACLMEM_LAYERS_PID leaves this process its layers. */
bool am_layers_are_for_us(void);

#endif
