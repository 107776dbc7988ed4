/*
 * Functions of the API that are one function of the core: the row in api.def has all checks of
 * the arguments, and finds the objects.  The row declares the function of the core once more,
 * so the compiler compares the parameters.
 */
#ifndef AM_API_DIRECT_H
#define AM_API_DIRECT_H

#define am_aclmdlRICaptureEnd am_capture_end
#define am_aclmdlRICaptureTaskGrpBegin am_task_group_begin
#define am_aclmdlRICaptureTaskGrpEnd am_task_group_end
#define am_aclmdlRICaptureTaskUpdateBegin am_task_group_update
#define am_aclmdlRICaptureTaskUpdateEnd am_task_group_update_end
#define am_aclmdlRIDestroy am_model_destroy
#define am_aclmdlRIDestroyRegisterCallback am_model_add_callback
#define am_aclmdlRIDestroyUnregisterCallback am_model_remove_callback
#define am_aclmdlRIExecuteAsync am_model_execute
#define am_aclmdlRIGetTasksByStream am_model_tasks
#define am_aclmdlRIUpdate am_model_update
#define am_aclrtAllocatorDestroyDesc am_allocator_destroy
#define am_aclrtAllocatorRegister am_allocator_register
#define am_aclrtCtxGetCurrentDefaultStream am_stream_default
#define am_aclrtDestroyContext am_context_destroy
#define am_aclrtEventGetTimestamp am_event_time
#define am_aclrtFreePhysical am_phys_free
#define am_aclrtGetDevice am_context_device
#define am_aclrtIpcMemClose am_key_close
#define am_aclrtMemPoolDestroy am_pool_destroy
#define am_aclrtMemRetainAllocationHandle am_vspace_retain
#define am_aclrtProcessReport am_call_process
#define am_aclrtReleaseMemAddress am_vspace_release
#define am_aclrtResetEvent am_event_reset
#define am_aclrtStreamAbort am_stream_abort
#define am_aclrtStreamStop am_stream_stop
#define am_aclrtSynchronizeEventWithTimeout am_event_sync
#define am_aclrtSynchronizeStreamWithTimeout am_sync_stream
#define am_aclrtUnmapMem am_vspace_unmap
#define am_aclrtWaitAndResetNotify am_notify_wait

#endif
