"""Every function with right arguments.

CALLS has a call for each; what it returns is what the function gave.  A function that the library
declares and does not implement gives 207000 with the same arguments.
"""
import ctypes
import os

import pytest

import acl
import facts

rt = acl.rt
MB = 1 << 20
H2D, D2H = acl.ACL_MEMCPY_HOST_TO_DEVICE, acl.ACL_MEMCPY_DEVICE_TO_HOST
INNER = acl.ACL_MEMCPY_INNER_DEVICE_TO_DEVICE
DEVICE = {"id": 0, "type": acl.ACL_MEM_LOCATION_TYPE_DEVICE}
HOST = {"id": 0, "type": acl.ACL_MEM_LOCATION_TYPE_HOST}
MANAGED = {"type": acl.ACL_MEM_LOCATIONTYPE_DEVICE, "id": 0}
NO_EXCEPTION = 0xFFFFFFFF
BATCH = {"dstLoc": DEVICE, "srcLoc": HOST}


def batch(world, function, *more):
    devices = [world.device_memory() for _ in range(3)]
    hosts = [world.host_memory() for _ in range(3)]
    for i, host in enumerate(hosts):
        ctypes.memset(host, 65 + i, 100)
    given = function(devices, [100] * 3, hosts, [100] * 3, [BATCH], [0], *more)
    world.must(rt.synchronize_device())
    assert [world.copied(d, 100) for d in devices] == [b"A" * 100, b"B" * 100, b"C" * 100]
    return given


def copied(world, function, *more):
    device, host = world.device_memory(), world.host_memory()
    ctypes.memset(host, 88, 100)
    given = function(device, 100, host, 100, H2D, *more)
    world.must(rt.synchronize_device())
    assert world.copied(device, 100) == b"X" * 100
    return given


def rows(world, function, *more):
    device, host = world.device_memory(), world.host_memory()
    ctypes.memset(host, 0, 100)
    ctypes.memset(host, 88, 10)
    ctypes.memset(host + 50, 89, 10)
    given = function(device, 10, host, 50, 10, 2, H2D, *more)
    world.must(rt.synchronize_device())
    assert world.copied(device, 20) == b"X" * 10 + b"Y" * 10
    return given


def filled(world, function, value, byte, *more):
    device = world.device_memory()
    given = function(device, 100, value, 25 if byte != value else 100, *more)
    world.must(rt.synchronize_device())
    assert world.copied(device, 100) == bytes([byte]) * 100
    return given


def described(world, give):
    """A descriptor in device memory of a copy from one block to another: what set and copy gave."""
    desc, source, target = (world.device_memory() for _ in range(3))
    world.filled(source, b"described")
    was_set = rt.set_memcpy_desc(desc, INNER, source, target, 9, None)
    was_copied = rt.memcpy_async_with_desc(desc, INNER, 0)
    world.must(rt.synchronize_device())
    assert world.copied(target, 9) == b"described"
    return {"set": was_set, "copy": was_copied}[give]


def by_offset(world):
    table, source, target = (world.device_memory() for _ in range(3))
    world.filled(source, b"...by offset")
    world.filled(table, target.to_bytes(8, "little") + source.to_bytes(8, "little"))
    given = rt.memcpy_async_with_offset(table, 9, 0, table + 8, 9, 3, INNER, 0)
    world.must(rt.synchronize_device())
    assert world.copied(target, 9) == b"by offset"
    return given


def described_prefetch(world, give):
    desc, memory = world.device_memory(), world.device_memory()
    was_set = rt.cmo_set_desc(desc, memory, 1024)
    was_done = rt.cmo_async_with_desc(desc, acl.ACL_RT_CMO_TYPE_PREFETCH, 0, None)
    return {"set": was_set, "do": was_done}[give]


def barrier(world, give):
    memory = world.device_memory()
    begun = rt.cmo_async_with_barrier(memory, 1024, acl.ACL_RT_CMO_TYPE_INVALID, 7, 0)
    info = {"barrierNum": 1, "cmoInfo": [{"cmoType": acl.ACL_RT_CMO_TYPE_INVALID, "barrierId": 7}]}
    waited = rt.cmo_wait_barrier(info, 0, 0)
    return {"begin": begun, "wait": waited}[give]


def registered(world):
    size = 1 << 16
    memory = world.must(rt.malloc_host(2 * size))
    return (memory + size - 1) // size * size, size


def own_memory(world):
    """Pages of the program's own, kept by the world."""
    import mmap

    world.pages = mmap.mmap(-1, 1 << 16)
    return ctypes.addressof(ctypes.c_char.from_buffer(world.pages)), 1 << 16


def register_v2(world, then=None):
    address, size = own_memory(world)
    given = rt.host_register_v2(address, size, acl.ACL_HOST_REG_MAPPED | acl.ACL_HOST_REG_PINNED)
    return then(address) if then else given


def managed(world):
    return world.must(rt.mem_alloc_managed(2 * MB, acl.ACL_RT_MEM_ATTACH_GLOBAL))


def advised(world):
    address = managed(world)
    world.must(rt.mem_managed_advise(address, 2 * MB, acl.ACL_MEM_ADVISE_SET_READ_MOSTLY, MANAGED))
    return address


def pool(world):
    return world.must(rt.mem_pool_create({"location": DEVICE, "maxSize": 64 * MB}))


def pooled(world):
    return world.must(rt.mem_pool_malloc_async(1 << 16, pool(world), 0))


def pool_attribute(world):
    made = pool(world)
    world.must(rt.mem_pool_set_attr(made, acl.ACL_RT_MEM_POOL_ATTR_RELEASE_THRESHOLD, 1 << 40))
    world.must(rt.mem_pool_set_attr(made, acl.ACL_RT_MEM_POOL_REUSE_ALLOW_OPPORTUNISTIC, 0))
    assert rt.mem_pool_get_attr(made, acl.ACL_RT_MEM_POOL_REUSE_ALLOW_OPPORTUNISTIC) == (0, 0)
    with pytest.raises(OverflowError, match="value"):
        rt.mem_pool_set_attr(made, acl.ACL_RT_MEM_POOL_REUSE_ALLOW_OPPORTUNISTIC, 1 << 32)
    given = rt.mem_pool_get_attr(made, acl.ACL_RT_MEM_POOL_ATTR_RELEASE_THRESHOLD)
    assert given == (1 << 40, 0)
    return given


def allocator(world):
    """A description that is filled in."""
    desc = rt.allocator_create_desc()
    assert desc != 0
    world.must(rt.allocator_set_obj_to_desc(desc, 1))
    world.must(rt.allocator_set_alloc_func_to_desc(desc, 2))
    world.must(rt.allocator_set_free_func_to_desc(desc, 3))
    world.must(rt.allocator_set_alloc_advise_func_to_desc(desc, 4))
    world.must(rt.allocator_set_get_addr_from_block_func_to_desc(desc, 5))
    return desc


def allocator_of_a_stream(world):
    stream, desc = world.stream(), allocator(world)
    world.must(rt.allocator_register(stream, desc))
    given = rt.allocator_get_by_stream(stream)
    assert given == (desc, 1, 2, 3, 4, 5, 0)
    return given


def recorded(world, event=None):
    event = event or world.event()
    world.must(rt.record_event(event, 0))
    world.must(rt.synchronize_device())
    return event


def elapsed(world):
    return rt.event_elapsed_time(recorded(world), recorded(world))


def waited_value(world):
    address = world.filled(world.device_memory(), (42).to_bytes(8, "little"))
    return rt.value_wait(address, 42, acl.ACL_STREAM_WAIT_VALUE_EQ, 0)


def written_value(world):
    address = world.device_memory()
    given = rt.value_write(address, 0xFEDCBA9876543210, 0, 0)
    world.must(rt.synchronize_device())
    assert world.copied(address, 8) == (0xFEDCBA9876543210).to_bytes(8, "little")
    return given


def attributed_stream(world):
    stream = world.stream()
    world.must(rt.set_stream_attribute(stream, acl.ACL_STREAM_ATTR_USER_CUSTOM_TAG, {"userCustomTag": 7}))
    given = rt.get_stream_attribute(stream, acl.ACL_STREAM_ATTR_USER_CUSTOM_TAG)
    assert given[0]["userCustomTag"] == 7
    return given


def subscribed(world):
    stream = world.stream()
    world.must(rt.subscribe_report(acl_thread(), stream))
    return stream


def acl_thread():
    import threading

    return threading.get_ident()


def launched(world, give):
    stream, ran = subscribed(world), []
    queued = rt.launch_callback(ran.append, [1], acl.ACL_CALLBACK_BLOCK, stream)
    processed = rt.process_report(-1)
    assert ran == [[1]]
    return {"launch": queued, "process": processed}[give]


def launched_on_host(world):
    stream, ran = world.stream(), []
    given = rt.launch_host_func(stream, ran.append, "argument")
    world.must(rt.synchronize_stream(stream))
    assert ran == ["argument"]
    return given


def exported(world):
    return rt.mem_export_to_shareable_handle(world.handle(), 0, acl.ACL_RT_VMM_EXPORT_FLAG_DISABLE_PID_VALIDATION)


def exported_v2(world):
    return rt.mem_export_to_shareable_handle_v2(world.handle(), acl.ACL_RT_VMM_EXPORT_FLAG_DISABLE_PID_VALIDATION,
                                                acl.ACL_MEM_SHARE_HANDLE_TYPE_DEFAULT)


def exported_block(world):
    block = world.device_memory(2 * MB)
    return rt.ipc_mem_get_export_key(block, 2 * MB, acl.ACL_IPC_HANDLE_SIZE,
                                     acl.ACL_RT_IPC_MEM_EXPORT_FLAG_DISABLE_PID_VALIDATION)


def imported_block(world, function):
    key, _ = exported_block(world)
    return function(key, 0)


def ipc_event(world):
    event = world.must(rt.create_event_ex_with_flag(acl.ACL_EVENT_IPC))
    return rt.ipc_get_event_handle(event)


def opened_event(world):
    handle, ret = ipc_event(world)
    return rt.ipc_open_event_handle(handle or {"reserved": bytes(64)})


def notify(world):
    return world.must(rt.create_notify(0))


def notify_key(world):
    return rt.notify_get_export_key(notify(world), acl.ACL_IPC_HANDLE_SIZE,
                                    acl.ACL_RT_NOTIFY_EXPORT_FLAG_DISABLE_PID_VALIDATION)


def listed_notify(world):
    made = notify(world)
    rt.notify_get_export_key(made, acl.ACL_IPC_HANDLE_SIZE, acl.ACL_RT_NOTIFY_EXPORT_FLAG_DEFAULT)
    return rt.notify_set_import_pid(made, [os.getpid()])


def peers(world):
    world.must(rt.device_enable_peer_access(1, 0))


def prefetched(world):
    address = world.must(rt.mem_alloc_managed(4 * MB, 1))
    return rt.mem_managed_prefetch_batch_async([address, address + 2 * MB], [2 * MB] * 2, [MANAGED], [0], 0, 0)


def twice_initialised(world):
    assert acl.init() == acl.ACL_ERROR_REPEAT_INITIALIZE
    return acl.finalize_reference()


def said(world):
    assert rt.free(0) != 0
    return acl.get_recent_err_msg() and 0


def last_error(world, function):
    """It is kept by the one and cleared by the other."""
    rt.get_last_error(0)
    assert rt.free(0) == rt.peek_at_last_error(0) == rt.peek_at_last_error(0) == rt.get_last_error(0) != 0
    return function(acl.ACL_RT_THREAD_LEVEL)


ANY = "a code"  # what the product that is played does not have, or what needs a broken device

def data_buffer():
    return acl.create_data_buffer(4096, 64)


def tensor_desc():
    return acl.create_tensor_desc(acl.ACL_FLOAT16, [2, 3, 4], acl.ACL_FORMAT_ND)


def dataset():
    """A list with one data buffer."""
    made = acl.mdl.create_dataset()
    assert acl.mdl.add_dataset_buffer(made, data_buffer()) == (made, 0)
    return made


CALLS = {
    # Functions without a code: the difference from the right value.
    "create_data_buffer": lambda w: 0 if data_buffer() else 1,
    "destroy_data_buffer": lambda w: acl.destroy_data_buffer(data_buffer()),
    "update_data_buffer": lambda w: acl.update_data_buffer(data_buffer(), 8192, 128),
    "get_data_buffer_addr": lambda w: acl.get_data_buffer_addr(data_buffer()) - 4096,
    "get_data_buffer_size": lambda w: acl.get_data_buffer_size(data_buffer()) - 64,
    "get_data_buffer_size_v2": lambda w: acl.get_data_buffer_size_v2(data_buffer()) - 64,
    "create_tensor_desc": lambda w: 0 if tensor_desc() else 1,
    "destroy_tensor_desc": lambda w: acl.destroy_tensor_desc(tensor_desc()) or 0,
    "get_tensor_desc_type": lambda w: acl.get_tensor_desc_type(tensor_desc()) - acl.ACL_FLOAT16,
    "get_tensor_desc_format": lambda w: acl.get_tensor_desc_format(tensor_desc()) - acl.ACL_FORMAT_ND,
    "get_tensor_desc_size": lambda w: acl.get_tensor_desc_size(tensor_desc()) - 48,
    "get_tensor_desc_element_count": lambda w: acl.get_tensor_desc_element_count(tensor_desc()) - 24,
    "get_tensor_desc_num_dims": lambda w: acl.get_tensor_desc_num_dims(tensor_desc()) - 3,
    "get_tensor_desc_dim_v2": lambda w: acl.get_tensor_desc_dim_v2(tensor_desc(), 2),
    "get_tensor_desc_name": lambda w: len(acl.get_tensor_desc_name(tensor_desc())),
    "set_tensor_desc_name": lambda w: acl.set_tensor_desc_name(tensor_desc(), "x") or 0,
    "set_tensor_format": lambda w: acl.set_tensor_format(tensor_desc(), acl.ACL_FORMAT_NCHW),
    "set_tensor_shape": lambda w: acl.set_tensor_shape(tensor_desc(), [5, 6]),
    "set_tensor_const": lambda w: acl.set_tensor_const(tensor_desc(), acl.util.bytes_to_ptr(b"12"), 2),
    "mdl.create_dataset": lambda w: 0 if acl.mdl.create_dataset() else 1,
    "mdl.destroy_dataset": lambda w: acl.mdl.destroy_dataset(dataset()),
    "mdl.add_dataset_buffer": lambda w: acl.mdl.add_dataset_buffer(dataset(), data_buffer()),
    "mdl.get_dataset_num_buffers": lambda w: acl.mdl.get_dataset_num_buffers(dataset()) - 1,
    "mdl.get_dataset_buffer": lambda w: acl.get_data_buffer_size(acl.mdl.get_dataset_buffer(dataset(), 0)) - 64,
    "init": lambda w: acl.finalize() or acl.init(),
    "finalize": lambda w: acl.finalize(),
    "finalize_reference": twice_initialised,
    "get_recent_err_msg": said,
    "rt.get_last_error": lambda w: last_error(w, rt.get_last_error),
    "rt.peek_at_last_error": lambda w: last_error(w, rt.peek_at_last_error),
    "app_log": lambda w: acl.app_log(acl.ACL_DEBUG, "function", "file", 1, "100% a message: %s %n") or 0,
    "get_soc_name": lambda w: acl.get_soc_name() == "Ascend910B1" and 0,
    "get_version": lambda w: acl.get_version(),
    "sys.get_cann_version": lambda w: acl.sys.get_cann_version(acl.ACL_PKG_NAME_RUNTIME),
    "sys.get_version_str": lambda w: acl.sys.get_version_str("runtime"),
    "sys.get_version_num": lambda w: acl.sys.get_version_num("runtime"),
    "get_cann_attribute_list": lambda w: acl.get_cann_attribute_list(),
    "get_cann_attribute": lambda w: acl.get_cann_attribute(acl.ACL_CANN_ATTR_BF16),
    "get_device_capability": lambda w: acl.get_device_capability(0, acl.ACL_DEVICE_INFO_AI_CORE_NUM),
    "data_type_size": lambda w: acl.data_type_size(acl.ACL_FLOAT) - 4,
    "float16_to_float": lambda w: acl.float16_to_float(0x3E00) - 1.5,
    "float_to_float16": lambda w: acl.float_to_float16(1.5) - 0x3E00,
    "rt.reserve_mem_address": lambda w: rt.reserve_mem_address(2 * MB, 0, None, 0),
    "rt.reserve_mem_address_no_uc_memory": lambda w: rt.reserve_mem_address_no_uc_memory(1 << 30, 0, 40 << 40, 0),
    "rt.release_mem_address": lambda w: rt.release_mem_address(w.reserved()),
    "rt.malloc_physical": lambda w: rt.malloc_physical(2 * MB, w.PROP, 0),
    "rt.free_physical": lambda w: rt.free_physical(w.handle()),
    "rt.map_mem": lambda w: rt.map_mem(w.reserved(), 2 * MB, 0, w.handle(), 0),
    "rt.mem_map_no_access": lambda w: rt.mem_map_no_access(w.reserved(), 2 * MB, 0, w.handle(), 0),
    "rt.unmap_mem": lambda w: rt.unmap_mem(w.mapped()),
    "rt.mem_set_access": lambda w: rt.mem_set_access(w.mapped(), 2 * MB, [{"flags": 3, "location": DEVICE}]),
    "rt.mem_get_access": lambda w: rt.mem_get_access(w.mapped(), DEVICE),
    "rt.mem_retain_allocation_handle": lambda w: rt.mem_retain_allocation_handle(w.mapped()),
    "rt.mem_get_allocation_properties_from_handle": lambda w: rt.mem_get_allocation_properties_from_handle(w.handle()),
    "rt.mem_get_allocation_granularity": lambda w: rt.mem_get_allocation_granularity(w.PROP, 1),
    "rt.mem_get_address_range": lambda w: rt.mem_get_address_range(w.mapped() + 5),
    "rt.check_mem_type": lambda w: rt.check_mem_type([w.device_memory()] * 2, acl.ACL_RT_MEM_TYPE_DEV, 0),
    "rt.mem_map_selected_link": (lambda w: rt.mem_map_selected_link(w.reserved(), 2 * MB, w.mapped(), 0), ANY),
    "rt.mem_export_to_shareable_handle": exported,
    "rt.mem_export_to_shareable_handle_v2": exported_v2,
    "rt.mem_set_pid_to_shareable_handle":
        lambda w: rt.mem_set_pid_to_shareable_handle(exported(w)[0], [os.getpid()]),
    "rt.mem_set_pid_to_shareable_handle_v2":
        lambda w: rt.mem_set_pid_to_shareable_handle_v2(exported_v2(w)[0], 1, (os.getpid(),)),
    "rt.mem_import_from_shareable_handle": lambda w: rt.mem_import_from_shareable_handle(exported(w)[0], 0),
    "rt.mem_import_from_shareable_handle_v2": lambda w: rt.mem_import_from_shareable_handle_v2(exported_v2(w)[0], 1, 0),
    "rt.device_get_bare_tgid": lambda w: rt.device_get_bare_tgid(),
    "rt.ipc_mem_get_export_key": exported_block,
    "rt.ipc_mem_set_import_pid": lambda w: rt.ipc_mem_set_import_pid(exported_block(w)[0], [os.getpid()]),
    "rt.ipc_mem_import_pid_inter_server":
        (lambda w: rt.ipc_mem_import_pid_inter_server(exported_block(w)[0], [{"sdid": 0, "pid": [1, 2]}]), ANY),
    "rt.ipc_mem_import_by_key": lambda w: imported_block(w, rt.ipc_mem_import_by_key),
    "rt.ipc_mem_import_byKey": lambda w: imported_block(w, rt.ipc_mem_import_byKey),
    "rt.ipc_mem_set_attr": (lambda w: rt.ipc_mem_set_attr(exported_block(w)[0], 0, 0), ANY),
    "rt.ipc_mem_close": lambda w: rt.ipc_mem_close(exported_block(w)[0]),
    "rt.mem_p2p_map": lambda w: peers(w) or rt.mem_p2p_map(w.device_memory(2 * MB), 2 * MB, 1, 0),
    "rt.ipc_get_event_handle": ipc_event,
    "rt.ipc_open_event_handle": opened_event,
    "rt.notify_get_export_key": notify_key,
    "rt.notify_set_import_pid": listed_notify,
    "rt.notify_import_by_key": lambda w: rt.notify_import_by_key(notify_key(w)[0], 0),
    "rt.malloc_host": lambda w: rt.malloc_host(100),
    "rt.free_host": lambda w: rt.free_host(w.host_memory()),
    "rt.malloc_host_with_cfg": lambda w: rt.malloc_host_with_cfg(100, {}),
    "rt.free_host_with_dev_sync": lambda w: rt.free_host_with_dev_sync(w.host_memory()),
    "rt.host_register": lambda w: rt.host_register(*own_memory(w), acl.ACL_HOST_REGISTER_MAPPED),
    "rt.host_register_v2": register_v2,
    "rt.host_get_device_pointer": lambda w: register_v2(w, lambda p: rt.host_get_device_pointer(p, 0)),
    "rt.host_unregister": lambda w: register_v2(w, rt.host_unregister),
    "rt.host_mem_map_capabilities": lambda w: rt.host_mem_map_capabilities(0, acl.ACL_RT_HAC_TYPE_AIC),
    "rt.pointer_get_attributes": lambda w: rt.pointer_get_attributes(w.device_memory()),
    "rt.malloc": lambda w: rt.malloc(100, acl.ACL_MEM_MALLOC_HUGE_FIRST),
    "rt.malloc_align32": lambda w: rt.malloc_align32(100, 0),
    "rt.malloc_cached": lambda w: rt.malloc_cached(100, 0),
    "rt.malloc_with_cfg": lambda w: rt.malloc_with_cfg(100, 0, {}),
    "rt.malloc_for_task_scheduler": lambda w: rt.malloc_for_task_scheduler(100, 0, None),
    "rt.free": lambda w: rt.free(w.device_memory()),
    "rt.free_with_dev_sync": lambda w: rt.free_with_dev_sync(w.device_memory()),
    "rt.mem_flush": lambda w: rt.mem_flush(w.device_memory(), 100),
    "rt.mem_invalidate": lambda w: rt.mem_invalidate(w.device_memory(), 100),
    "rt.get_mem_info": lambda w: rt.get_mem_info(acl.ACL_HBM_MEM),
    "rt.get_mem_usage_info": lambda w: rt.get_mem_usage_info(0, 128),
    "rt.memcpy": lambda w: copied(w, rt.memcpy),
    "rt.memcpy_async": lambda w: copied(w, rt.memcpy_async, 0),
    "rt.memcpy_async_with_condition": lambda w: copied(w, rt.memcpy_async_with_condition, w.stream()),
    "rt.memcpy_batch": lambda w: batch(w, rt.memcpy_batch),
    "rt.memcpy_batch_async": lambda w: batch(w, rt.memcpy_batch_async, w.stream()),
    "rt.memcpy_batch_v2": lambda w: batch(w, rt.memcpy_batch_v2),
    "rt.memcpy_batch_async_v2": lambda w: batch(w, rt.memcpy_batch_async_v2, w.stream()),
    "rt.memcpy2d": lambda w: rows(w, rt.memcpy2d),
    "rt.memcpy2d_async": lambda w: rows(w, rt.memcpy2d_async, 0),
    "rt.get_memcpy_desc_size": lambda w: rt.get_memcpy_desc_size(INNER),
    "rt.set_memcpy_desc": lambda w: described(w, "set"),
    "rt.memcpy_async_with_desc": lambda w: described(w, "copy"),
    "rt.memcpy_async_with_offset": by_offset,
    "rt.memset": lambda w: filled(w, rt.memset, 88, 88),
    "rt.memset_async": lambda w: filled(w, rt.memset_async, 88, 88, 0),
    "rt.memset_d32": lambda w: filled(w, rt.memset_d32, 0xFEFEFEFE, 0xFE),
    "rt.memset_d32_async": lambda w: filled(w, rt.memset_d32_async, 0xFEFEFEFE, 0xFE, 0),
    "rt.mem_alloc_managed": lambda w: rt.mem_alloc_managed(MB, acl.ACL_RT_MEM_ATTACH_GLOBAL),
    "rt.mem_managed_advise": lambda w: rt.mem_managed_advise(managed(w), 2 * MB, 0, MANAGED),
    "rt.mem_managed_get_attr": lambda w: rt.mem_managed_get_attr(1, advised(w), 2 * MB, 4),
    "rt.mem_managed_get_attrs": lambda w: rt.mem_managed_get_attrs([1, 3], advised(w), 2 * MB, [4, 8]),
    "rt.mem_managed_prefetch_async": lambda w: rt.mem_managed_prefetch_async(managed(w), 2 * MB, MANAGED, 0, 0),
    "rt.mem_managed_prefetch_batch_async": prefetched,
    "rt.mem_pool_create": lambda w: rt.mem_pool_create({"location": DEVICE, "maxSize": 64 * MB}),
    "rt.mem_pool_destroy": lambda w: rt.mem_pool_destroy(pool(w)),
    "rt.mem_pool_set_attr": lambda w: rt.mem_pool_set_attr(pool(w), acl.ACL_RT_MEM_POOL_ATTR_RELEASE_THRESHOLD, 1),
    "rt.mem_pool_get_attr": pool_attribute,
    "rt.mem_pool_malloc_async": lambda w: rt.mem_pool_malloc_async(100, pool(w), 0),
    "rt.mem_pool_free_async": lambda w: rt.mem_pool_free_async(pooled(w), 0),
    "rt.mem_pool_trim_to": lambda w: rt.mem_pool_trim_to(pool(w), 0),
    "rt.allocator_create_desc": lambda w: 0 if rt.allocator_create_desc() else 1,
    "rt.allocator_destroy_desc": lambda w: rt.allocator_destroy_desc(allocator(w)),
    "rt.allocator_set_obj_to_desc": lambda w: rt.allocator_set_obj_to_desc(allocator(w), 1),
    "rt.allocator_set_alloc_func_to_desc": lambda w: rt.allocator_set_alloc_func_to_desc(allocator(w), 1),
    "rt.allocator_set_free_func_to_desc": lambda w: rt.allocator_set_free_func_to_desc(allocator(w), 1),
    "rt.allocator_set_alloc_advise_func_to_desc":
        lambda w: rt.allocator_set_alloc_advise_func_to_desc(allocator(w), 1),
    "rt.allocator_set_get_addr_from_block_func_to_desc":
        lambda w: rt.allocator_set_get_addr_from_block_func_to_desc(allocator(w), 1),
    "rt.allocator_register": lambda w: rt.allocator_register(w.stream(), allocator(w)),
    "rt.allocator_get_by_stream": allocator_of_a_stream,
    "rt.allocator_unregister": lambda w: rt.allocator_unregister(w.stream()),
    "rt.cmo_async": lambda w: rt.cmo_async(w.device_memory(), 100, acl.ACL_RT_CMO_TYPE_PREFETCH, 0),
    "rt.cmo_async_with_barrier": lambda w: barrier(w, "begin"),
    "rt.cmo_wait_barrier": lambda w: barrier(w, "wait"),
    "rt.cmo_get_desc_size": lambda w: rt.cmo_get_desc_size(),
    "rt.cmo_set_desc": lambda w: described_prefetch(w, "set"),
    "rt.cmo_async_with_desc": lambda w: described_prefetch(w, "do"),
    "rt.value_write": written_value,
    "rt.value_wait": waited_value,
    "rt.get_mem_uce_info": lambda w: rt.get_mem_uce_info(0, 20),
    "rt.mem_uce_repair": (lambda w: rt.mem_uce_repair(0, [{"addr": w.device_memory(), "len": 64}]), ANY),
    "rt.get_error_verbose": lambda w: rt.get_error_verbose(0),
    "rt.repair_error": (lambda w: rt.repair_error(0, {"detail": {"uceInfo": {"arraySize": 0}}}), ANY),
    "rt.set_device": lambda w: rt.set_device(1),
    "rt.reset_device": lambda w: rt.reset_device(0),
    "rt.reset_device_force": lambda w: rt.reset_device_force(0),
    "rt.get_device": lambda w: rt.get_device(),
    "rt.get_device_count": lambda w: rt.get_device_count(),
    "rt.get_run_mode": lambda w: rt.get_run_mode(),
    "rt.get_device_info": lambda w: rt.get_device_info(0, acl.ACL_DEV_ATTR_TOTAL_GLOBAL_MEM_SIZE),
    "rt.get_device_capability":
        lambda w: rt.get_device_capability(0, acl.ACL_FEATURE_SYSTEM_MEMQ_EVENT_CROSS_DEV),
    "rt.query_device_status": lambda w: rt.query_device_status(0),
    "rt.get_device_utilization_rate": lambda w: rt.get_device_utilization_rate(0),
    "rt.device_get_uuid": lambda w: rt.device_get_uuid(0),
    "rt.device_get_pci_bus_id": lambda w: rt.device_get_pci_bus_id(0, 13),
    "rt.device_get_by_pci_bus_id": lambda w: rt.device_get_by_pci_bus_id(rt.device_get_pci_bus_id(1, 64)[0]),
    "rt.get_devices_topo": lambda w: rt.get_devices_topo(0, 1),
    "rt.get_logic_dev_id_by_user_dev_id": lambda w: rt.get_logic_dev_id_by_user_dev_id(1),
    "rt.get_user_dev_id_by_logic_dev_id": lambda w: rt.get_user_dev_id_by_logic_dev_id(1),
    "rt.get_logic_dev_id_by_phy_dev_id": lambda w: rt.get_logic_dev_id_by_phy_dev_id(1),
    "rt.get_phy_dev_id_by_user_dev_id": lambda w: rt.get_phy_dev_id_by_user_dev_id(1),
    "rt.get_phy_dev_id_by_logic_dev_id": lambda w: rt.get_phy_dev_id_by_logic_dev_id(1),
    "rt.device_get_stream_priority_range": lambda w: rt.device_get_stream_priority_range(),
    "rt.device_can_access_peer": lambda w: rt.device_can_access_peer(0, 1),
    "rt.device_enable_peer_access": lambda w: rt.device_enable_peer_access(1, 0),
    "rt.device_disable_peer_access": lambda w: peers(w) or rt.device_disable_peer_access(1),
    "rt.device_peer_access_status": lambda w: rt.device_peer_access_status(0, 1),
    "rt.create_context": lambda w: rt.create_context(1),
    "rt.destroy_context": lambda w: rt.destroy_context(w.must(rt.create_context(0))),
    "rt.set_context": lambda w: rt.set_context(w.must(rt.create_context(1))),
    "rt.get_context": lambda w: rt.get_context(),
    "rt.ctx_get_current_default_stream": lambda w: rt.ctx_get_current_default_stream(),
    "rt.get_primary_ctx_state": lambda w: rt.get_primary_ctx_state(0),
    "rt.ctx_set_sys_param_opt": lambda w: rt.ctx_set_sys_param_opt(acl.ACL_OPT_DETERMINISTIC, 1),
    "rt.ctx_get_sys_param_opt": lambda w: rt.ctx_set_sys_param_opt(0, 1) or rt.ctx_get_sys_param_opt(0),
    "rt.set_sys_param_opt": lambda w: rt.set_sys_param_opt(acl.ACL_OPT_DETERMINISTIC, 1),
    "rt.get_sys_param_opt": lambda w: rt.get_sys_param_opt(acl.ACL_OPT_DETERMINISTIC),
    "rt.create_stream": lambda w: rt.create_stream(),
    "rt.create_stream_with_config": lambda w: rt.create_stream_with_config(0, acl.ACL_STREAM_FAST_LAUNCH),
    "rt.destroy_stream": lambda w: rt.destroy_stream(w.stream()),
    "rt.destroy_stream_force": lambda w: rt.destroy_stream_force(w.stream()),
    "rt.synchronize_stream": lambda w: rt.synchronize_stream(w.stream()),
    "rt.synchronize_stream_with_timeout": lambda w: rt.synchronize_stream_with_timeout(w.stream(), 1000),
    "rt.stream_query": lambda w: rt.stream_query(w.stream()),
    "rt.stream_abort": lambda w: rt.stream_abort(w.stream()),
    "rt.stream_stop": lambda w: rt.stream_stop(w.stream()),
    "rt.stream_get_id": lambda w: rt.stream_get_id(w.stream()),
    "rt.stream_get_priority": lambda w: rt.stream_get_priority(w.stream()),
    "rt.stream_get_flags": lambda w: rt.stream_get_flags(w.stream()),
    "rt.get_stream_available_num": lambda w: rt.get_stream_available_num(),
    "rt.set_stream_failure_mode": lambda w: rt.set_stream_failure_mode(w.stream(), acl.ACL_STOP_ON_FAILURE),
    "rt.set_stream_attribute":
        lambda w: rt.set_stream_attribute(w.stream(), acl.ACL_STREAM_ATTR_FAILURE_MODE, {"failureMode": 1}),
    "rt.get_stream_attribute": attributed_stream,
    "rt.create_event": lambda w: rt.create_event(),
    "rt.create_event_with_flag": lambda w: rt.create_event_with_flag(acl.ACL_EVENT_SYNC),
    "rt.create_event_ex_with_flag": lambda w: rt.create_event_ex_with_flag(acl.ACL_EVENT_SYNC),
    "rt.destroy_event": lambda w: rt.destroy_event(w.event()),
    "rt.record_event": lambda w: rt.record_event(w.event(), w.stream()),
    "rt.record_event_with_flag": lambda w: rt.record_event_with_flag(w.event(), w.stream(), 0),
    "rt.reset_event": lambda w: rt.reset_event(w.must(rt.create_event_with_flag(acl.ACL_EVENT_SYNC)), w.stream()),
    "rt.stream_wait_event": lambda w: rt.stream_wait_event(w.stream(), recorded(w)),
    "rt.stream_wait_event_with_timeout": lambda w: rt.stream_wait_event_with_timeout(w.stream(), recorded(w), 1),
    "rt.stream_wait_event_with_flag": lambda w: rt.stream_wait_event_with_flag(w.stream(), recorded(w), 1, 0),
    "rt.set_op_wait_timeout": lambda w: rt.set_op_wait_timeout(3),
    "rt.set_op_execute_time_out": lambda w: rt.set_op_execute_time_out(3),
    "rt.set_op_execute_time_out_v2": lambda w: rt.set_op_execute_time_out_v2(3000000),
    "rt.set_op_execute_time_out_with_ms": lambda w: rt.set_op_execute_time_out_with_ms(3000),
    "rt.set_device_sat_mode": lambda w: rt.set_device_sat_mode(acl.ACL_RT_OVERFLOW_MODE_INFNAN),
    "rt.get_device_sat_mode": lambda w: rt.get_device_sat_mode(),
    "rt.set_stream_overflow_switch": lambda w: rt.set_stream_overflow_switch(w.stream(), 1),
    "rt.get_stream_overflow_switch": lambda w: rt.get_stream_overflow_switch(w.stream()),
    "rt.set_device_res_limit": lambda w: rt.set_device_res_limit(0, acl.ACL_RT_DEV_RES_CUBE_CORE, 7),
    "rt.get_device_res_limit": lambda w: rt.get_device_res_limit(0, acl.ACL_RT_DEV_RES_CUBE_CORE),
    "rt.reset_device_res_limit": lambda w: rt.reset_device_res_limit(0),
    "rt.set_stream_res_limit": lambda w: rt.set_stream_res_limit(w.stream(), acl.ACL_RT_DEV_RES_VECTOR_CORE, 7),
    "rt.get_stream_res_limit": lambda w: rt.get_stream_res_limit(w.stream(), acl.ACL_RT_DEV_RES_VECTOR_CORE),
    "rt.reset_stream_res_limit": lambda w: rt.reset_stream_res_limit(w.stream()),
    "rt.use_stream_res_in_current_thread": lambda w: rt.use_stream_res_in_current_thread(w.stream()),
    "rt.unuse_stream_res_in_current_thread": lambda w: rt.unuse_stream_res_in_current_thread(w.stream()),
    "rt.get_res_in_current_thread": lambda w: rt.get_res_in_current_thread(acl.ACL_RT_DEV_RES_VECTOR_CORE),
    "rt.set_exception_info_callback": lambda w: rt.set_exception_info_callback(print),
    "rt.get_task_id_from_exception_info": (lambda w: rt.get_task_id_from_exception_info(0), NO_EXCEPTION),
    "rt.get_stream_id_from_exception_info": (lambda w: rt.get_stream_id_from_exception_info(0), NO_EXCEPTION),
    "rt.get_thread_id_from_exception_info": (lambda w: rt.get_thread_id_from_exception_info(0), NO_EXCEPTION),
    "rt.get_device_id_from_exception_info": (lambda w: rt.get_device_id_from_exception_info(0), NO_EXCEPTION),
    "rt.get_error_code_from_exception_info": (lambda w: rt.get_error_code_from_exception_info(0), NO_EXCEPTION),
    "rt.query_event": lambda w: rt.query_event(recorded(w)),
    "rt.query_event_status": lambda w: rt.query_event_status(recorded(w)),
    "rt.query_event_wait_status": lambda w: rt.query_event_wait_status(recorded(w)),
    "rt.synchronize_event": lambda w: rt.synchronize_event(recorded(w)),
    "rt.synchronize_event_with_timeout": lambda w: rt.synchronize_event_with_timeout(recorded(w), 1000),
    "rt.event_elapsed_time": elapsed,
    "rt.event_get_timestamp": lambda w: rt.event_get_timestamp(recorded(w)),
    "rt.get_event_id": lambda w: rt.get_event_id(w.must(rt.create_event_with_flag(acl.ACL_EVENT_SYNC))),
    "rt.get_event_avail_num": lambda w: rt.get_event_avail_num(),
    "rt.create_notify": lambda w: rt.create_notify(0),
    "rt.destroy_notify": lambda w: rt.destroy_notify(notify(w)),
    "rt.record_notify": lambda w: rt.record_notify(notify(w), 0),
    "rt.wait_and_reset_notify":
        lambda w: (lambda n: rt.record_notify(n, 0) or rt.wait_and_reset_notify(n, 0, 0))(notify(w)),
    "rt.get_notify_id": lambda w: rt.get_notify_id(notify(w)),
    "rt.notify_batch_reset": lambda w: rt.notify_batch_reset([notify(w), notify(w)]),
    "rt.synchronize_device": lambda w: rt.synchronize_device(),
    "rt.synchronize_device_with_timeout": lambda w: rt.synchronize_device_with_timeout(1000),
    "rt.device_task_abort": lambda w: rt.device_task_abort(0, 1000),
    "rt.launch_callback": lambda w: launched(w, "launch"),
    "rt.launch_host_func": launched_on_host,
    "rt.subscribe_report": lambda w: rt.subscribe_report(acl_thread(), w.stream()),
    "rt.process_report": lambda w: launched(w, "process"),
    "rt.unsubscribe_report": lambda w: rt.unsubscribe_report(acl_thread(), subscribed(w)),
}

# What some of them must give besides the code 0.
EXPECTED = {
    "get_tensor_desc_dim_v2": (4, 0),
    "get_version": (acl.ACL_MAJOR_VERSION, acl.ACL_MINOR_VERSION, acl.ACL_PATCH_VERSION, 0),
    "finalize_reference": (1, 0),
    "get_cann_attribute": (1, 0),
    "rt.mem_get_access": (acl.ACL_RT_MEM_ACCESS_FLAGS_READWRITE, 0),
    "rt.mem_get_allocation_granularity": (2 * MB, 0),
    "rt.check_mem_type": (1, 0),
    "rt.mem_managed_get_attr": ([1], 0),
    "rt.get_run_mode": (acl.ACL_HOST, 0),
    "rt.get_device": (0, 0),
    "rt.get_device_count": (2, 0),
    "rt.device_get_by_pci_bus_id": (1, 0),
    "rt.device_can_access_peer": (1, 0),
    "rt.device_peer_access_status": (0, 0),
    "rt.get_primary_ctx_state": (1, 0),
    "rt.ctx_get_sys_param_opt": (1, 0),
    "rt.get_sys_param_opt": (0, 0),
    "rt.set_op_execute_time_out_v2": (3000000, 0),
    "rt.get_device_sat_mode": (acl.ACL_RT_OVERFLOW_MODE_INFNAN, 0),
    "rt.get_stream_overflow_switch": (0, 0),
    "rt.get_device_res_limit": (24, 0),
    "rt.get_stream_res_limit": (48, 0),
    "rt.get_res_in_current_thread": (48, 0),
    "rt.query_event_status": (acl.ACL_EVENT_RECORDED_STATUS_COMPLETE, 0),
    "rt.query_event": (acl.ACL_EVENT_STATUS_COMPLETE, 0),
    "rt.stream_query": (acl.ACL_STREAM_STATUS_COMPLETE, 0),
    "rt.memcpy_batch": ((1 << 64) - 1, 0),
    "rt.memcpy_batch_async": ((1 << 64) - 1, 0),
    "rt.reserve_mem_address_no_uc_memory": (40 << 40, 0),
}
PRODUCTS = {"rt.reserve_mem_address_no_uc_memory": "A3"}


def test_there_is_a_call_for_every_function():
    assert set(CALLS) == set(facts.C_FUNCTION)


@pytest.fixture
def product(request, monkeypatch):
    """The product that has the function, before the runtime starts."""
    path = request.getfixturevalue("path")
    if path in PRODUCTS:
        monkeypatch.setenv("ACLMEM_PRODUCT", PRODUCTS[path])


@pytest.mark.parametrize("path", sorted(CALLS))
def test_right_arguments_give_the_right_answer(product, world, path):
    call = CALLS[path]
    call, code = call if isinstance(call, tuple) else (call, 0)
    if facts.C_FUNCTION[path] in facts.UNSUPPORTED:
        code = acl.ACL_ERROR_RT_FEATURE_NOT_SUPPORT
    given = call(world)
    ret = given[-1] if isinstance(given, tuple) else given
    if code == ANY:
        assert isinstance(ret, int)
        return
    assert ret == code, acl.get_recent_err_msg()
    if code == 0 and path in EXPECTED:
        assert given == EXPECTED[path]
