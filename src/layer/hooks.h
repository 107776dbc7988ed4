/*
 * The hooks of calls.def, and how they get at their arguments:
 *
 *     AM_ARGS(aclrtUnmapMem);     declares `a`, the call's arguments
 *
 * Functions that differ only in what comes after the arguments that a hook reads share it.
 */
#ifndef AM_LAYER_HOOKS_H
#define AM_LAYER_HOOKS_H

#include "layer/check.h"

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
void am_before_export(struct am_call *call);
void am_before_close_key(struct am_call *call);
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
void am_after_export(struct am_call *call);
void am_after_export_key(struct am_call *call);
void am_after_import(struct am_call *call);
void am_after_import_v2(struct am_call *call);
void am_after_import_key(struct am_call *call);
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

/* copies.c */
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
void am_before_use_event(struct am_call *call);
void am_before_use_notify(struct am_call *call);
void am_before_destroy_event(struct am_call *call);
void am_before_destroy_notify(struct am_call *call);
void am_before_record(struct am_call *call);
void am_before_reset_event(struct am_call *call);
void am_before_wait_notify(struct am_call *call);
void am_before_record_notify(struct am_call *call);
void am_before_wait_event(struct am_call *call);
void am_before_sync_event(struct am_call *call);
void am_before_elapsed(struct am_call *call);
void am_before_reset_device(struct am_call *call);
void am_before_asks_error(struct am_call *call);
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
void am_after_destroy_context(struct am_call *call);
void am_after_reset_device(struct am_call *call);
void am_before_finalize(struct am_call *call);
void am_after_finalize(struct am_call *call);

/* functions.c */
void am_before_host_func(struct am_call *call);
void am_before_callback(struct am_call *call);
void am_after_function(struct am_call *call);

#endif
