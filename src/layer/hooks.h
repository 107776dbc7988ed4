/*
 * The hooks of calls.def, and how they get at their arguments:
 *
 *     AM_ARGS(aclrtUnmapMem);     declares `a`, the call's arguments
 *
 * Functions that differ only in what comes after the arguments that a hook reads share it.
 */
#ifndef AM_LAYER_HOOKS_H
#define AM_LAYER_HOOKS_H

#include "layer/metadata.h"

#define AM_ARGS(name_) const struct am_args_##name_ *a = call->args

typedef void (*am_hook)(struct am_call *call);

#define am_before__ NULL
#define am_after__ NULL

/* allocations.c */
void am_before_release(struct am_call *call);
void am_before_free_phys(struct am_call *call);
void am_before_map(struct am_call *call);
void am_before_unmap(struct am_call *call);
void am_before_use_address(struct am_call *call);
void am_before_use_phys(struct am_call *call);
void am_before_use_pool(struct am_call *call);
void am_before_free(struct am_call *call);
void am_before_free_sync(struct am_call *call);
void am_before_free_host(struct am_call *call);
void am_before_free_host_sync(struct am_call *call);
void am_before_unregister(struct am_call *call);
void am_before_destroy_pool(struct am_call *call);
void am_after_reserve(struct am_call *call);
void am_after_phys(struct am_call *call);
void am_after_free_phys(struct am_call *call);
void am_after_map(struct am_call *call);
void am_after_mirror(struct am_call *call);
void am_after_retain(struct am_call *call);
void am_after_malloc(struct am_call *call);
void am_after_managed(struct am_call *call);
void am_before_malloc_host(struct am_call *call);
void am_after_malloc_host(struct am_call *call);
void am_after_address_range(struct am_call *call);
void am_before_register(struct am_call *call);
void am_after_register(struct am_call *call);
void am_after_unregister(struct am_call *call);
void am_after_pool(struct am_call *call);
void am_after_freed(struct am_call *call); /* what was freed before, if it was refused */
void am_after_freed_sync(struct am_call *call);

/* Enters what the call gave at *out; NULL: it gave nothing, which is noted. */
struct am_object *am_call_made(struct am_call *call, enum am_object_kind kind,
                               void *const *out, uint64_t size);

/* shares.c */
void am_before_export(struct am_call *call);
void am_before_import(struct am_call *call);
void am_before_close_key(struct am_call *call);
void am_after_export(struct am_call *call);
void am_after_export_v2(struct am_call *call);
void am_after_export_key(struct am_call *call);
void am_after_import(struct am_call *call);
void am_after_import_v2(struct am_call *call);
void am_after_import_key(struct am_call *call);
/* The free of the object succeeded: imports of it are stale from now on. */
void am_share_freed(const struct am_object *object);

/* copies.c */
/* Looks up `size` bytes at the address and adds the pieces to the call's work. */
void am_call_add_range(struct am_call *call, const void *at, uint64_t size, bool is_write,
                       const char *argument);
void am_before_memcpy(struct am_call *call);
void am_before_memcpy_batch(struct am_call *call);
void am_before_memcpy_2d(struct am_call *call);
void am_before_set_desc(struct am_call *call);
void am_before_memcpy_desc(struct am_call *call);
void am_before_memcpy_offset(struct am_call *call);
void am_before_memset(struct am_call *call);
void am_before_memset32(struct am_call *call);
void am_before_value_write(struct am_call *call);
void am_before_value_wait(struct am_call *call);
void am_before_cmo_set_desc(struct am_call *call);
void am_before_cmo(struct am_call *call);
void am_before_pool_free(struct am_call *call);
void am_after_work(struct am_call *call);
void am_after_set_desc(struct am_call *call);
void am_after_value_wait(struct am_call *call);
void am_after_value_write(struct am_call *call);
void am_after_pool_malloc(struct am_call *call);
void am_after_pool_free(struct am_call *call);

/* streams.c */
void am_before_use_stream(struct am_call *call);
void am_before_destroy_stream(struct am_call *call);
void am_before_sync_stream(struct am_call *call);
void am_before_sync_device(struct am_call *call);
void am_before_abort(struct am_call *call);
void am_before_use_event(struct am_call *call);
void am_before_use_notify(struct am_call *call);
void am_before_destroy_event(struct am_call *call);
void am_before_destroy_notify(struct am_call *call);
void am_before_record(struct am_call *call);
void am_before_reset_event(struct am_call *call);
void am_before_wait_notify(struct am_call *call);
void am_before_record_notify(struct am_call *call);
void am_before_wait_event(struct am_call *call);
void am_before_elapsed(struct am_call *call);
void am_before_reset_device(struct am_call *call);
void am_before_asks_error(struct am_call *call);
/* ends.c: the work of the stream is done, or dropped. */
void am_stream_end(struct am_object *object);
void am_after_stream(struct am_call *call);
void am_after_destroy_signal(struct am_call *call);
void am_after_destroy_stream(struct am_call *call);
void am_after_sync_stream(struct am_call *call);
void am_after_sync_device(struct am_call *call);
void am_after_query_stream(struct am_call *call);
void am_after_abort_stream(struct am_call *call);
void am_after_abort_device(struct am_call *call);
void am_after_event(struct am_call *call);
void am_after_event_ex(struct am_call *call);
void am_after_open_event(struct am_call *call);
void am_after_share_event(struct am_call *call);
void am_after_record(struct am_call *call);
void am_after_reset_event(struct am_call *call);
void am_after_wait(struct am_call *call);
void am_after_default_stream(struct am_call *call);
void am_before_query_event(struct am_call *call);
void am_after_query_wait_status(struct am_call *call);
void am_after_query_event(struct am_call *call);
void am_after_query_event_status(struct am_call *call);
void am_after_sync_event(struct am_call *call);
void am_after_elapsed(struct am_call *call);
void am_after_notify(struct am_call *call);
void am_after_import_notify(struct am_call *call);
void am_after_share_notify(struct am_call *call);
void am_after_reset_notifies(struct am_call *call);
void am_after_context(struct am_call *call);
void am_before_destroy_context(struct am_call *call);
void am_after_destroy_context(struct am_call *call);
void am_after_reset_device(struct am_call *call);
void am_before_finalize(struct am_call *call);
void am_after_finalize(struct am_call *call);

/* functions.c */
void am_before_host_func(struct am_call *call);
void am_before_callback(struct am_call *call);
void am_after_function(struct am_call *call);
/*
 * Functions that were queued up to am_check.serial and have not begun will not run: host
 * functions and blocking callbacks of the stream, or (NULL) all.
 */
void am_functions_drop(const struct am_agent *agent, uint64_t serial);

struct am_captured_function;
/*
 * A function that a capture stores: the library gets another one, which runs the function
 * of the oldest replay.  NULL: no memory, and the library gets the program's.
 */
struct am_captured_function *am_captured_function_make(void (**run)(void *), void **arg,
                                                       bool is_waited_for);
/* A replay will run it; the replay was refused. */
void am_captured_function_queue(struct am_call *call, struct am_agent *agent,
                                const struct am_captured_function *captured);
void am_captured_function_cancel(const struct am_captured_function *captured);

/* models.c */
/* Finds the capture that the call's work goes into; call->model is NULL otherwise. */
void am_capture_find(struct am_call *call);
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
void am_capture_leave(const struct am_agent *agent);
/*
 * Where the access of a replay was captured: `replay` is its site, addr a byte of it.
 * False: it is no replay.
 */
bool am_models_captured(struct am_site replay, uint64_t addr, bool is_write,
                        struct am_site *ret_site);

/* The host waited for the stream: work that was captured on it may be missed. */
void am_models_waited(const struct am_agent *agent);
/* The call reads bytes: of work that was captured and never ran, it reports. */
void am_models_read(struct am_call *call, const struct am_work *work);

/* The call failed: reports captures that it made invalid. */
void am_models_refused(struct am_call *call);
void am_after_capture_begin(struct am_call *call);
void am_after_capture_end(struct am_call *call);
void am_after_condition(struct am_call *call);
void am_after_build(struct am_call *call);
void am_after_bind(struct am_call *call);
void am_before_use_model(struct am_call *call);
void am_before_destroy_model(struct am_call *call);
void am_after_destroy_model(struct am_call *call);
void am_before_execute(struct am_call *call);
void am_after_execute(struct am_call *call);
void am_before_execute_sync(struct am_call *call);
void am_after_execute_sync(struct am_call *call);

#endif
