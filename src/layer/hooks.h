/*
 * The hooks of calls.def, and how they get at their arguments:
 *
 *     AM_BEFORE(unmap, aclrtUnmapMem)     defines the hook am_before_unmap; `a` are the call's
 *     {                                   arguments
 *         ... a->virPtr ...
 *     }
 *     AM_ARGS(aclrtUnmapMem);             in any other function: declares `a`
 *
 * Functions that differ only in what comes after the arguments that a hook reads share it.
 */
#ifndef AM_LAYER_HOOKS_H
#define AM_LAYER_HOOKS_H

#include "layer/metadata.h"

#define AM_ARGS(name_) const struct am_args_##name_ *a = call->args

#define AM_HOOK(linkage_, hook_, body_, function_) \
    static void body_(struct am_call *call, const struct am_args_##function_ *a); \
    linkage_ void hook_(struct am_call *call) \
    { \
        body_(call, call->args); \
    } \
    static void body_(struct am_call *call, const struct am_args_##function_ *a)
#define AM_BEFORE(hook_, function_) \
    AM_HOOK(, am_before_##hook_, before_##hook_, function_)
#define AM_AFTER(hook_, function_) AM_HOOK(, am_after_##hook_, after_##hook_, function_)
#define AM_LINT(rule_, function_) AM_HOOK(static, lint_##rule_, check_##rule_, function_)

typedef void (*am_hook)(struct am_call *call);

/* The hooks of all rows, each in the file of its subject. */
#define AM_CALL(name_, effect_, stream_, before_, after_, lint_) \
    void am_before_##before_(struct am_call *call); \
    void am_after_##after_(struct am_call *call);
#include "layer/calls.def"
#undef AM_CALL
#define am_before__ NULL
#define am_after__ NULL

/* check.c: resolves the stream of the call, and runs the hook. */
void am_call_before(struct am_call *call);

/* allocations.c: enters what the call gave at *out; NULL: it gave nothing, which is noted. */
struct am_object *am_call_made(struct am_call *call, enum am_object_kind kind,
                               void *const *out, uint64_t size);

/*
 * allocations.c: frees a live area that starts at addr, of one of two kinds; reports memory in
 * use and what was freed before.
 */
void am_area_end(struct am_call *call, uint64_t addr, enum am_object_kind kind,
                 enum am_object_kind or_kind, const char *argument);

/* shares.c */
/* The free of the object succeeded: imports of it are stale from now on. */
void am_share_freed(const struct am_object *object);
/* Whether this process has exported memory that lives by this number. */
bool am_share_is_own(uint64_t number);

/* copies.c: looks up `size` bytes at the address and adds the pieces to the call's work. */
void am_call_add_range(struct am_call *call, const void *at, uint64_t size, bool is_write,
                       const char *argument);

/* copies.c: whether a descriptor of a copy was ever set. */
bool am_descs_exist(void);

/* ends.c: the work of the stream is done, or dropped. */
void am_stream_end(struct am_call *call, struct am_object *object);

/* functions.c */
/*
 * Functions that were queued up to am_check.serial and have not begun will not run: host
 * functions and blocking callbacks of the stream, or (NULL) all.
 */
void am_functions_drop(const struct am_agent *agent, uint64_t serial);

struct am_captured_function;
/*
 * A function that a capture stores: the library gets another one, which runs the function
 * of the oldest replay.  NULL: no memory, and the library gets the program's.  is_declared:
 * a declaration names its memory (aclmem/access.h).  reporter: see struct am_agent.
 */
struct am_captured_function *am_captured_function_make(void (**run)(void *), void **arg,
                                                       uint64_t reporter,
                                                       bool is_waited_for,
                                                       bool is_declared);
/* NULL: no effect. */
void am_captured_function_free(struct am_captured_function *captured);
/* A replay will run it; the replay was refused. */
void am_captured_function_queue(struct am_call *call, struct am_agent *agent,
                                const struct am_captured_function *captured);
void am_captured_function_cancel(const struct am_captured_function *captured);

/* models.c */
/* Finds the capture that the call's work goes into; call->model is NULL otherwise. */
void am_capture_find(struct am_call *call);
/* call->model, with a reference; NULL: none. */
void am_call_ref_model(struct am_call *call, struct am_model *model);
/* Whether a stream may be captured; whether am_models_read() may find something. */
bool am_captures_exist(void);
bool am_models_are_waited(void);
bool am_models_exist(void);
/*
 * The hooks of a call whose work is captured; the hook of calls.def runs before the call
 * where `before` returns true.
 */
bool am_capture_before(struct am_call *call);
void am_capture_after(struct am_call *call);

/* A captured object was freed: its models remember where. */
void am_models_freed(const struct am_object *object);
/* The model's object ends: it was destroyed, or its device was reset. */
void am_model_end(struct am_model *model);
/* The stream ends, and with it a capture that it began. */
void am_capture_leave(struct am_call *call, struct am_agent *agent);
/*
 * Where the access of a replay was captured: `replay` is its site, and the access has a byte of
 * this range.  False: it is no replay.
 */
bool am_models_captured(struct am_site replay, uint64_t addr, uint64_t size,
                        bool is_write, struct am_site *ret_site);

/* The host waited for the stream: work that was captured on it may be missed. */
void am_models_waited(const struct am_agent *agent);
/* The call reads bytes: of work that was captured and never ran, it reports. */
void am_models_read(struct am_call *call, const struct am_work *work);

/* The call failed: reports captures that it made invalid. */
void am_models_refused(struct am_call *call);

#endif
