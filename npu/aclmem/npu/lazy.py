"""Initialisation on first use.

Importing aclmem.npu touches no device.  The first device call runs _lazy_init(), which also runs the calls that were
queued before: seeds and random states.  A forked child of an initialised process cannot use the device.
"""
import threading

from . import _C

_lock = threading.RLock()
_thread = threading.local()
_queued = []
_is_initialized = False


def is_initialized():
    return _is_initialized and not _is_in_bad_fork()


def _is_in_bad_fork():
    return _C.is_in_bad_fork()


def init():
    _lazy_init()


def _lazy_init():
    global _is_initialized
    if is_initialized() or getattr(_thread, "is_initializing", False):
        return
    with _lock:
        if is_initialized():
            return
        if _is_in_bad_fork():
            raise RuntimeError(
                "Cannot re-initialize NPU in forked subprocess. To use NPU with multiprocessing, you must use the "
                "'spawn' start method")
        _C.init()
        _thread.is_initializing = True
        try:
            while _queued:
                _queued.pop(0)()
        finally:
            _thread.is_initializing = False
        _is_initialized = True


def _lazy_call(call):
    """Runs `call` now, or at initialisation."""
    if is_initialized():
        call()
    else:
        _queued.append(call)
