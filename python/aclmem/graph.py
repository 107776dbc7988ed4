"""Stream capture (aclmdlRI*) for programs that use the module acl.

    with aclmem.graph.capture(stream) as graph:
        acl.rt.memcpy_async(...)        # is stored, and does not run
    graph.replay(stream)
    graph.destroy()

Streams and models are the integers of acl.  The calls go to the libascendcl.so that acl uses.  A failure raises Error,
with the code and the message of the runtime.  A Python function that acl.rt.launch_host_func puts on a captured stream
runs at each replay, and is kept until the runtime ends.
"""
import contextlib
import ctypes

import acl

GLOBAL, THREAD_LOCAL, RELAXED = 0, 1, 2  # aclmdlRICaptureMode
NONE, ACTIVE, INVALIDATED = 0, 1, 2  # aclmdlRICaptureStatus

_library = ctypes.CDLL("libascendcl.so")  # the one that acl has loaded


class Error(RuntimeError):
    """A call that failed: code, and the text of the runtime."""

    def __init__(self, function, code):
        self.code = code
        super().__init__("%s: %d: %s" % (function, code, acl.get_recent_err_msg() or ""))


def _call(name, *arguments):
    code = getattr(_library, name)(*arguments)
    if code != 0:
        raise Error(name, code)


def status(stream):
    """(NONE, ACTIVE or INVALIDATED; the model that the stream is captured into, or 0)."""
    state, model = ctypes.c_int(), ctypes.c_void_p()
    _call("aclmdlRICaptureGetInfo", ctypes.c_void_p(stream), ctypes.byref(state), ctypes.byref(model))
    return state.value, model.value or 0


def exchange_mode(mode):
    """Sets the mode of the calling thread for unsafe calls, and returns the previous one."""
    value = ctypes.c_int(mode)
    _call("aclmdlRICaptureThreadExchangeMode", ctypes.byref(value))
    return value.value


class Graph:
    """A captured model; `model` is its aclmdlRI."""

    def __init__(self, model):
        self.model = model

    def replay(self, stream=0):
        """Puts a run of the model on a stream (default: the default stream)."""
        _call("aclmdlRIExecuteAsync", ctypes.c_void_p(self.model), ctypes.c_void_p(stream))

    def run(self, timeout=-1):
        """Runs the model and waits, for `timeout` milliseconds at most (default: -1, no limit)."""
        _call("aclmdlRIExecute", ctypes.c_void_p(self.model), ctypes.c_int32(timeout))

    def id(self):
        """A number that no other live model has."""
        value = ctypes.c_uint32()
        _call("aclmdlRIGetId", ctypes.c_void_p(self.model), ctypes.byref(value))
        return value.value

    def print_json(self, path):
        """Writes streams and tasks to a file, for a viewer of Chrome traces."""
        _call("aclmdlRIDebugJsonPrint", ctypes.c_void_p(self.model), str(path).encode(), ctypes.c_uint32(0))

    def destroy(self):
        """Waits for runs of the model, and frees it and its streams."""
        model, self.model = self.model, None
        if model:
            _call("aclmdlRIDestroy", ctypes.c_void_p(model))


def begin(stream, mode=GLOBAL):
    """Begins a capture on a stream, which is not the default stream."""
    _call("aclmdlRICaptureBegin", ctypes.c_void_p(stream), ctypes.c_int(mode))


def end(stream):
    """Ends the capture that begin() began on the stream; the Graph."""
    model = ctypes.c_void_p()
    _call("aclmdlRICaptureEnd", ctypes.c_void_p(stream), ctypes.byref(model))
    return Graph(model.value)


@contextlib.contextmanager
def capture(stream, mode=GLOBAL):
    """The work of the block on the stream, as a Graph that is complete after the block."""
    graph = Graph(None)
    begin(stream, mode)
    try:
        yield graph
    except BaseException:
        with contextlib.suppress(Error):  # the capture is over in each case
            end(stream).destroy()
        raise
    graph.model = end(stream).model
