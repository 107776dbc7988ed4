"""Tensors and events in other processes, by torch.multiprocessing.

The sender exports the segment of a tensor by an IPC key, keeps the tensor alive, and takes a slot of a counter file.  The
receiver maps the segment; when its storage is freed, it clears the slot.  ipc_collect() of the sender releases tensors
whose slot is cleared.
"""
import ctypes
import mmap
import os
import tempfile
import threading
import weakref
from multiprocessing.reduction import ForkingPickler

import torch
from torch.multiprocessing import reductions as _torch

from . import _C, acl
from .devices import _get_device_index, device as _device
from .lazy import _lazy_init
from .streams import Event, current_stream

SLOTS = 10000
MAX_EVENTS = 1000

_lock = threading.RLock()
_exported = {}  # base address of a segment -> its key
_imported = {}  # (device, key) -> _Import
_sent = {}  # slot -> (storage, event, base address of the segment)
_counter = None
_opened = {}  # name of a counter file of another process -> its map


def _map(path):
    with open(path, "r+b") as file:
        return mmap.mmap(file.fileno(), SLOTS * 8)


def _counter_file():
    """This process's counter file: (name, map)."""
    global _counter
    if _counter is None or _counter[2] != os.getpid():
        folder = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        fd, path = tempfile.mkstemp(prefix="aclmem_npu_%d_" % os.getpid(), dir=folder)
        os.ftruncate(fd, SLOTS * 8)
        os.close(fd)
        _counter = (path, _map(path), os.getpid())
        weakref.finalize(_counter_file, _remove, path, os.getpid())
    return _counter


def _remove(path, pid):
    if os.getpid() == pid and os.path.exists(path):
        os.unlink(path)


def ipc_collect():
    """Releases sent tensors that their receivers no longer use.  Returns whether there were any."""
    with _lock:
        if _counter is None or _counter[2] != os.getpid():
            return False
        done = [slot for slot in _sent if _counter[1][slot * 8] == 0]
        for slot in done:
            del _sent[slot]
        for base in set(_exported) - {base for _, _, base in _sent.values()}:
            acl.code("aclrtIpcMemClose", _exported.pop(base))  # the segment may be freed now
    return bool(done)


def _slot_take():
    ipc_collect()
    for slot in range(SLOTS):
        if slot not in _sent:
            return slot
    raise RuntimeError("%d tensors are shared with other processes already" % SLOTS)


def _export(base):
    """The key of a segment."""
    if base not in _exported:
        _exported[base] = _C.export_segment(base)
    return _exported[base]


def _share_npu_(self):
    """The tuple of 8 that _new_shared_npu() takes in another process."""
    _lazy_init()
    index, size = self.device.index, self.nbytes()
    if size == 0:
        return (index, None, 0, 0, None, 0, None, False)
    with _lock:
        address = self.data_ptr()
        base, _ = _C.base_allocation(address)
        if any(imported.base <= address < imported.base + imported.size for imported in _imported.values()):
            raise RuntimeError("Supported to send only tensors of this process: this one was received from another "
                               "process. Consider cloning before sending.")
        with _device(index):
            slot = _slot_take()
            key = _export(base)
            name, counters, _ = _counter_file()
            counters[slot * 8] = 1
            event = None
            if len(_sent) < MAX_EVENTS:
                event = Event(interprocess=True)
                event.record()
            else:
                current_stream().synchronize()
            _sent[slot] = (self, event, base)
            handle = b"\x01c" + key
            return (index, handle, size, address - base, name.encode(), slot,
                    event.ipc_handle() if event else None, event is not None)


class _Import:
    """A segment of another process.  Its storages keep it."""

    def __init__(self, index, key):
        address = ctypes.c_void_p()
        acl.call("aclrtIpcMemImportByKey", ctypes.byref(address), key, 1)
        self.index, self.key, self.base = index, key, address.value
        self.users = 0
        self.size = 0


class _Owner:
    """Is kept by a received storage; clears the sender's slot at its end."""

    def __init__(self, imported, counter, slot):
        self.imported, self.counter, self.slot = imported, counter, slot
        imported.users += 1

    def __del__(self):
        self.imported.users -= 1
        try:
            _release_ipc_counter_npu(self.counter, self.slot)
        except (OSError, ValueError):
            pass  # the sender ended


def _close_unused():
    for at, imported in list(_imported.items()):
        if imported.users == 0:
            _C.synchronize(imported.index)
            acl.code("aclrtIpcMemClose", imported.key)
            del _imported[at]


def _new_shared_npu(cls, *arguments):
    if len(arguments) != 8:
        raise TypeError("_new_shared_npu takes exactly 8 arguments (%d given)" % len(arguments))
    device, handle, size, offset, counter, slot, event, is_event_needed = arguments
    _lazy_init()
    index = _get_device_index(device)
    with _device(index):
        if handle is None:
            return torch.empty(0, dtype=torch.uint8, device=torch.device("npu", index)).untyped_storage()
        with _lock:
            at = (index, handle)
            if at not in _imported:
                _close_unused()
                _imported[at] = _Import(index, handle[2:])
            imported = _imported[at]
            imported.size = max(imported.size, offset + size)
            owner = _Owner(imported, counter, slot)
        if is_event_needed and event:
            sent = Event.from_ipc_handle(index, event)
            sent.wait()
            owner.event = sent
        return _C.tensor_from_address(imported.base + offset, [size], [1], torch.uint8, index, owner).untyped_storage()


def _release_ipc_counter_npu(counter, slot, device=None):
    """Reports to the sender that this process no longer uses a storage."""
    with _lock:
        name = counter.decode()
        if name not in _opened:
            _opened[name] = _map(name)
        _opened[name][slot * 8] = 0


def rebuild_npu_event(device, handle):
    return Event.from_ipc_handle(device, handle)


def reduce_event(event):
    return rebuild_npu_event, (event.device.index if event.device else 0, event.ipc_handle())


def rebuild_npu_tensor(tensor_cls, tensor_size, tensor_stride, tensor_offset, storage_cls, dtype, storage_device,
                       storage_handle, storage_size_bytes, storage_offset_bytes, requires_grad, ref_counter_handle,
                       ref_counter_offset, event_handle, event_sync_required):
    storage = _new_shared_npu(torch.UntypedStorage, storage_device, storage_handle, storage_size_bytes,
                              storage_offset_bytes, ref_counter_handle, ref_counter_offset, event_handle,
                              event_sync_required)
    typed = torch.storage.TypedStorage(wrap_storage=storage, dtype=dtype, _internal=True)
    tensor = torch._utils._rebuild_tensor(typed, tensor_offset, tensor_size, tensor_stride)
    if tensor_cls is torch.nn.Parameter:
        return torch.nn.Parameter(tensor, requires_grad=requires_grad)
    tensor.requires_grad = requires_grad
    return tensor


_torch_reduce_tensor, _torch_reduce_storage = _torch.reduce_tensor, _torch.reduce_storage


def reduce_tensor(tensor):
    """What torch.multiprocessing pickles for a tensor."""
    if tensor.device.type != "npu":
        return _torch_reduce_tensor(tensor)
    if tensor.requires_grad and not tensor.is_leaf:
        raise RuntimeError(
            "Cowardly refusing to serialize non-leaf tensor which requires_grad, since autograd does not support crossing "
            "process boundaries.  If you just want to transfer the data, call detach() on the tensor before serializing "
            "(e.g., putting it on the queue).")
    storage = tensor.untyped_storage()
    device, handle, size, offset, counter, slot, event, is_event_needed = _share_npu_(storage)
    return rebuild_npu_tensor, (
        type(tensor), tensor.size(), tensor.stride(), tensor.storage_offset(), type(storage), tensor.dtype, device, handle,
        size, offset, tensor.requires_grad, counter, slot, event, is_event_needed)


def reduce_storage(storage):
    if storage.device.type == "npu":
        raise RuntimeError("Cannot pickle NPU storage; try pickling a NPU tensor instead")
    return _torch_reduce_storage(storage)


def install():
    """Replaces the functions by which torch.multiprocessing pickles tensors, storages and events."""
    _torch.reduce_tensor, _torch.reduce_storage = reduce_tensor, reduce_storage
    for kind in list(torch._tensor_classes) + [torch.Tensor, torch.nn.Parameter]:
        ForkingPickler.register(kind, reduce_tensor)
    for kind in torch._storage_classes:
        if kind is not torch.storage.TypedStorage and kind.__name__ == "UntypedStorage":
            ForkingPickler.register(kind, reduce_storage)
    for kind in [Event] + Event.__subclasses__():
        ForkingPickler.register(kind, reduce_event)
    for kind in (torch.UntypedStorage, torch.TypedStorage):
        kind._share_npu_ = lambda self, *a: _share_npu_(getattr(self, "_untyped_storage", self))
        kind._new_shared_npu = classmethod(_new_shared_npu)
        kind._release_ipc_counter_npu = staticmethod(_release_ipc_counter_npu)
