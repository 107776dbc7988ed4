/*
 * The table of all functions, and what is made of it.
 *
 * Every exported function jumps through am_api_top, a pointer to the table in force.  A
 * state of the library is a table, not a question in each function:
 *
 *   boot     before the first call: starts the library, then goes on with the call
 *   down     refuses; after aclFinalize, and before aclInit under strict rules
 *   forked   refuses; in a child made by fork
 *   core     the implementations, am_ + the public name, in rt_*.c and acl_*.c
 *   stack    core with layers over it, merged slot by slot (stack.c)
 */
#ifndef AM_API_API_H
#define AM_API_API_H

#include <stdatomic.h>

#include "acl/acl.h"
#include "api/direct.h"

struct am_context;
struct am_device;
struct am_event;
struct am_model;
struct am_pool;
struct am_stream;

struct am_api {
#define AM_API(ret_, name_, params_, args_, sig_) ret_(*name_) params_;
#include "api/api.def"
};

enum am_api_id {
#define AM_API(ret_, name_, ...) AM_API_##name_,
#include "api/api.def"
    AM_API_COUNT,
};

/* The implementations; a row without one does not link. */
#define AM_API(ret_, name_, params_, args_, sig_) ret_ am_##name_ params_;
#define AM_API_CHECKED(name_, params_, object_params_, ...) \
    aclError am_##name_ object_params_;
#include "api/api.def"

/* An implementation with the parameters and the effect of another one in the same file. */
#define AM_SAME_AS(name_, other_) \
    __typeof__(am_##name_) am_##name_ __attribute__((alias("am_" #other_)))

extern _Atomic(const struct am_api *) am_api_top;
extern const struct am_api am_api_boot;
extern const struct am_api am_api_core;
extern const struct am_api am_api_down;
extern const struct am_api am_api_forked;

/*
 * For functions that do something in every state: ACL_SUCCESS where the core may be
 * called, after starting the library if need be; otherwise the refusal of the state that
 * it is in.
 */
aclError am_state_check(const char *function);

/* acl_init.c: functions of the boot, down and forked tables. */
aclError am_boot(const char *function);
aclError am_refuse_down(const char *function);
aclError am_refuse_forked(const char *function);

/* For a call that could not have am_rt.lock. */
extern const char am_why_stopping[];

/*
 * A layer sees the program's calls: it has functions for some slots and NULL in the
 * rest; attach() gives it the table to which it passes calls on.
 */
struct am_layer {
    const char *name;
    const struct am_api *api;
    void (*attach)(const struct am_api *below);
    aclError (*prepare)(void); /* before any is attached, and may fail; NULL: nothing */
};

/* Builds the stack for "outer,inner" over `below`, the core: *ret_top is its table. */
aclError am_stack_build(const char *names, const struct am_api *below,
                        const struct am_api **ret_top);
/* One layer over `below`. */
const struct am_api *am_stack_push(const struct am_layer *layer,
                                   const struct am_api *below);

#endif
