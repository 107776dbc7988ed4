"""Streams and events: subclasses of torch.Stream and torch.Event, on aclrtStream and aclrtEvent."""
import ctypes

import torch

from . import _C, acl
from .devices import _get_device_index, current_device
from .lazy import _lazy_init

_DEVICE_TYPE = 20  # c10::DeviceType::PrivateUse1


class Stream(torch.Stream):
    """A stream of a ring of 32 for each device and priority: the 33rd stream equals the first."""

    def __new__(cls, device=None, priority=0, is_sync_launch=False, **rebuild):
        _lazy_init()
        if "stream_id" not in rebuild:
            index = _get_device_index(device)
            rebuild = {"stream_id": _C.stream_from_pool(index, priority), "device_index": index}
        index = rebuild.get("device_index", 0)
        _C.stream_handle(rebuild["stream_id"], index)  # raises RuntimeError for an unknown id
        return super().__new__(cls, stream_id=rebuild["stream_id"], device_index=index, device_type=_DEVICE_TYPE)

    def __init__(self, *args, **kwargs):
        pass

    @property
    def npu_stream(self):
        return _C.stream_handle(self.stream_id, self.device_index)

    @property
    def _as_parameter_(self):
        return ctypes.c_void_p(self.npu_stream)

    @property
    def priority(self):
        raise RuntimeError("torch.npu.Stream.priority: not support priority currently.")

    @staticmethod
    def priority_range():
        raise RuntimeError("torch.npu.Stream.priority_range: not support priority_range currently.")

    def query(self):
        return _C.stream_query(self.stream_id, self.device_index)

    def synchronize(self):
        """Waits for the work of the stream.  Raises the first error of its operators."""
        _C.stream_synchronize(self.stream_id, self.device_index)

    def record_event(self, event=None):
        if event is None:
            event = Event()
        event.record(self)
        return event

    def wait_event(self, event):
        event.wait(self)

    def wait_stream(self, stream):
        self.wait_event(stream.record_event())

    def set_data_preprocess_stream(self, is_data_preprocess_stream=False):
        self.is_data_preprocess_stream = bool(is_data_preprocess_stream)

    def __eq__(self, other):
        return isinstance(other, torch.Stream) and (self.stream_id, self.device) == (other.stream_id, other.device)

    def __hash__(self):
        return hash((self.npu_stream, self.device))

    def __repr__(self):
        return "<torch_npu.npu.Stream device=%s npu_stream=%#x>" % (self.device, self.npu_stream)

    def __reduce__(self):
        raise TypeError("a stream cannot be sent to another process")


class SyncLaunchStream(Stream):
    """A stream that bypasses the launch queue of the vendor; here a stream like others."""


class ExternalStream(Stream):
    """Wraps a raw aclrtStream.  It may be current; its owner synchronises it."""

    def __new__(cls, stream_ptr, device=None, **kwargs):
        _lazy_init()
        index = _get_device_index(device)
        return super().__new__(cls, stream_id=_C.external_stream(stream_ptr, index), device_index=index)

    def _refuse(self, *args, **kwargs):
        raise RuntimeError("This operation is not supported on an ExternalStream; use the runtime that owns the stream.")

    synchronize = query = record_event = wait_event = wait_stream = _refuse


def _stream(stream_id, index):
    return Stream(stream_id=stream_id, device_index=index)


class Event(torch.Event):
    """An event is created when it is recorded for the first time.  Before, query() is True and waiting has no effect."""

    def __new__(cls, enable_timing=False, blocking=False, interprocess=False):
        if interprocess and enable_timing:
            raise RuntimeError("Parameter interprocess cannot be specified together with other parameters.")
        self = super().__new__(cls, device="npu", enable_timing=enable_timing)
        self._timing, self._index = enable_timing, None
        return _InterprocessEvent() if interprocess and cls is Event else self

    def __init__(self, *args, **kwargs):
        pass

    @classmethod
    def from_ipc_handle(cls, device, handle):
        """An event of another process.  The importer may wait for it, synchronise with it and record it."""
        _lazy_init()
        if len(handle) != 64:
            raise RuntimeError("aclrtIpcEventHandle expected byte array of size %d, but got %d" % (64, len(handle)))
        event = _InterprocessEvent()
        event._index = _get_device_index(device)
        event._handle = ctypes.c_void_p()
        acl.call("aclrtIpcOpenEventHandle", acl.IpcEventHandle.from_buffer_copy(handle), ctypes.byref(event._handle))
        return event

    @property
    def npu_event(self):
        return _C.event_handle(self.event_id) if self.event_id else 0

    @property
    def device(self):
        return None if self._index is None else torch.device("npu", self._index)

    def record(self, stream=None):
        stream = current_stream() if stream is None else stream
        if self._index is not None and stream.device_index != self._index:
            raise RuntimeError("Event device %d does not match recording stream's device %d." % (
                self._index, stream.device_index))
        if isinstance(stream, ExternalStream):
            stream._refuse()
        self._index = stream.device_index
        self._record(stream)

    def wait(self, stream=None):
        if self._index is not None:
            self._wait(current_stream() if stream is None else stream)

    def query(self):
        return True if self._index is None else self._query()

    def synchronize(self):
        if self._index is not None:
            self._synchronize()

    _record, _wait, _query, _synchronize = torch.Event.record, torch.Event.wait, torch.Event.query, torch.Event.synchronize

    def elapsed_time(self, end_event):
        """Milliseconds between two recorded events that measure time."""
        if self._index is None or end_event._index is None:
            raise RuntimeError("Both events must be recorded before calculating elapsed time.")
        if not (self._timing and end_event._timing):
            raise RuntimeError("Both events must be created with argument 'enable_timing=True'.")
        self.synchronize()
        end_event.synchronize()
        return _C.event_elapsed_time(self.event_id, end_event.event_id)

    def recorded_time(self):
        if self._index is None:
            raise RuntimeError("Event must be recorded before getting recorded timestamp.")
        self.synchronize()
        return _C.event_recorded_time(self.event_id)

    def ipc_handle(self):
        raise RuntimeError("An event of torch.npu.Event(interprocess=True) has a handle for other processes.")

    def __repr__(self):
        if not self.npu_event:
            return "<torch_npu.npu.Event uninitialized>"
        return "<torch_npu.npu.Event %#x>" % self.npu_event


class _InterprocessEvent(Event):
    """An event that other processes open by its handle of 64 bytes."""

    _handle = None

    def _create(self, index):
        if self._handle is None:
            self._index = index
            self._handle = ctypes.c_void_p(acl.create("aclrtCreateEventExWithFlag", ctypes.c_uint32(acl.EVENT_IPC)))

    @property
    def npu_event(self):
        return 0 if self._handle is None else self._handle.value

    def _record(self, stream):
        self._create(stream.device_index)
        acl.call("aclrtRecordEvent", self._handle, stream.npu_stream)

    def _wait(self, stream):
        acl.call("aclrtStreamWaitEvent", stream.npu_stream, self._handle)

    def _query(self):
        status = ctypes.c_int()
        acl.call("aclrtQueryEventStatus", self._handle, ctypes.byref(status))
        return status.value == 1

    def _synchronize(self):
        acl.call("aclrtSynchronizeEvent", self._handle)

    def ipc_handle(self):
        _lazy_init()
        self._create(current_device())
        handle = acl.IpcEventHandle()
        acl.call("aclrtIpcGetEventHandle", self._handle, ctypes.byref(handle))
        return bytes(handle)

    def __del__(self):
        if self._handle is not None:
            acl.code("aclrtDestroyEvent", self._handle)


class ExternalEvent:
    """An event for which a stream may wait before it is recorded.  reset() re-arms it."""

    def __init__(self):
        _lazy_init()
        self._handle = ctypes.c_void_p(acl.create("aclrtCreateEventWithFlag", ctypes.c_uint32(acl.EVENT_EXTERNAL)))

    @staticmethod
    def _flag():
        """In a capture, the event belongs to streams outside."""
        return ctypes.c_uint32(1 if _C.is_current_stream_capturing() else 0)

    def record(self, stream=None):
        stream = current_stream() if stream is None else stream
        acl.call("aclrtRecordEventWithFlag", self._handle, stream.npu_stream, self._flag())

    def wait(self, stream=None):
        stream = current_stream() if stream is None else stream
        acl.call("aclrtStreamWaitEventWithFlag", stream.npu_stream, self._handle, ctypes.c_uint32(0), self._flag())

    def reset(self, stream=None):
        stream = current_stream() if stream is None else stream
        acl.call("aclrtResetEvent", self._handle, stream.npu_stream)

    def __del__(self):
        if getattr(self, "_handle", None):
            acl.code("aclrtDestroyEvent", self._handle)


def current_stream(device=None):
    """The current stream of this thread on a device."""
    _lazy_init()
    index = _get_device_index(device)
    return _stream(_C.current_stream(index), index)


def default_stream(device=None):
    _lazy_init()
    index = _get_device_index(device)
    return _stream(_C.default_stream(index), index)


def set_stream(stream):
    """Makes a stream current, and its device."""
    if stream is None:
        return
    _lazy_init()
    _C.set_stream(stream.stream_id, stream.device_index)
    _C.set_device(stream.device_index)


class StreamContext:
    """Context manager: a stream is current inside, and its device.  None has no effect."""

    def __init__(self, stream):
        self.stream = stream
        self._previous = []

    def __enter__(self):
        if self.stream is None:
            return
        self._previous.append((current_stream(), current_stream(self.stream.device_index)))
        set_stream(self.stream)

    def __exit__(self, *exception):
        if self.stream is None:
            return
        current, other = self._previous.pop()
        set_stream(other)
        set_stream(current)


def stream(stream):
    return StreamContext(stream)


def _subscribe_report(stream):
    """The vendor needs a thread for host functions of a stream; here each stream has one."""


def _unsubscribe_report(stream):
    """See _subscribe_report()."""


def _launch_host_func(stream, fn, args):
    """Calls fn(args) on the stream, which waits for it."""
    _C.launch_host_func(stream.stream_id, stream.device_index, lambda: fn(args))


def _launch_host_func_pending(stream, fn, args):
    """As _launch_host_func(), with copies of the tensors that `args` has now."""
    _launch_host_func(stream, fn, torch.utils._pytree.tree_map(lambda v: v.clone() if isinstance(v, torch.Tensor) else v, args))


def _sleep(cycles):
    """Occupies the current stream; a cycle is a nanosecond."""
    _lazy_init()
    _C.sleep(max(1, cycles // 1000000))
