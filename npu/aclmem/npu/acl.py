"""Calls of libascendcl.so for what _C does not wrap: events and memory of other processes, events that wait first."""
import ctypes

import torch

_library = None

EVENT_SYNC, EVENT_EXTERNAL, EVENT_IPC = 0x1, 0x20, 0x40


class IpcEventHandle(ctypes.Structure):
    _fields_ = [("reserved", ctypes.c_char * 64)]


def _message():
    _library.aclGetRecentErrMsg.restype = ctypes.c_char_p
    text = _library.aclGetRecentErrMsg()
    return text.decode(errors="replace") if text else ""


def code(name, *arguments):
    """Calls a function and returns its result code.  Integers are passed as 64 bits."""
    global _library
    if _library is None:
        _library = ctypes.CDLL("libascendcl.so")  # loaded before: _C is linked with it
    converted = [ctypes.c_uint64(a) if isinstance(a, int) else a for a in arguments]
    return getattr(_library, name)(*converted)


def call(name, *arguments):
    """Calls a function; a failure raises the text that torch_npu gives."""
    result = code(name, *arguments)
    if result != 0:
        message = _message()
        kind = torch.OutOfMemoryError if result == 207001 else RuntimeError
        raise kind("NPU function error: %s, error code is %d\n[Error]: %s" % (name, result, message))


def create(name, *arguments):
    """Calls a function whose first argument receives a handle, and returns the handle."""
    handle = ctypes.c_void_p()
    call(name, ctypes.byref(handle), *arguments)
    return handle.value
