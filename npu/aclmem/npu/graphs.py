"""Graphs: operators of a stream are captured and run again with replay().  Names and rules are those of torch_npu."""
import gc
import threading

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from . import _C
from .graph_handlers import _NPU_GRAPH_OP_HANDLERS, Record
from .lazy import _lazy_init, is_initialized
from .streams import ExternalEvent, Stream, StreamContext, current_stream


def is_current_stream_capturing():
    return is_initialized() and _C.is_current_stream_capturing()


def graph_pool_handle():
    """A pool for several graphs."""
    _lazy_init()
    return tuple(_C.graph_pool_handle())


class NPUGraph:
    """A captured graph.  It keeps the memory of its pool until reset()."""

    def __init__(self):
        _lazy_init()
        self._graph = _C.NPUGraph()
        self._update_stream = None
        self.graph_dispatch_mode = _DispatchMode()
        self.auto_dispatch_capture = False

    def capture_begin(self, pool=None, capture_error_mode="global"):
        self._graph.capture_begin(pool, capture_error_mode)

    def capture_end(self):
        self._graph.capture_end()

    def replay(self):
        self._graph.replay()

    def reset(self):
        self._graph.reset()
        self.graph_dispatch_mode.records.clear()

    def pool(self):
        return tuple(self._graph.pool())

    def debug_dump(self, debug_path):
        self._graph.debug_dump(debug_path)

    def enable_debug_mode(self):
        """debug_dump() needs no preparation."""

    def register_generator_state(self, generator):
        """No effect: a replay advances each generator that the capture used."""

    def update(self, cpu_update_input):
        """Calls the noted operators with new arguments: a dict for each, or one for all.  graph_handlers.py has the rules."""
        if not self.auto_dispatch_capture:
            raise RuntimeError("The current graph configuration does not support update")
        records = self.graph_dispatch_mode.records
        if len(cpu_update_input) not in (1, len(records)):
            raise RuntimeError("NPUGraph.update: %d sets of arguments for %d operators" % (
                len(cpu_update_input), len(records)))
        if self._update_stream is None:
            self._update_stream = Stream()
        stream = self._update_stream
        with StreamContext(stream):
            for i, record in enumerate(records):
                graph_task_update_begin(stream, record.handle)
                try:
                    record.update(cpu_update_input[i % len(cpu_update_input)])
                finally:
                    graph_task_update_end(stream)
                record.event.record(stream)

    def super_kernel_optimize(self, *args, **kwargs):
        """No effect: operators run one by one."""


class _DispatchMode(TorchDispatchMode):
    """Notes the operators of a capture with auto_dispatch_capture that have a handler."""

    threads = threading.local()  # mode: the innermost one of the thread

    def __init__(self):
        super().__init__()
        self.records = []
        self._is_noting = False

    def __enter__(self):
        self._outer = getattr(self.threads, "mode", None)
        self.threads.mode = self
        return super().__enter__()

    def __exit__(self, *exception):
        self.threads.mode = self._outer
        return super().__exit__(*exception)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if self.wants(func.__name__):
            return self.note(func, args, kwargs or {})
        return func(*args, **(kwargs or {}))

    def wants(self, name):
        return name in _NPU_GRAPH_OP_HANDLERS and not self._is_noting and is_current_stream_capturing()

    def note(self, function, args, kwargs):
        """Captures an operator whose arguments update() may replace.  A replay waits for the update."""
        handler, stream, event = _NPU_GRAPH_OP_HANDLERS[function.__name__], current_stream(), ExternalEvent()
        self._is_noting = True
        try:
            function, args, kwargs = handler.prepare_capture(function, args, kwargs)
            event.wait(stream)
            event.reset(stream)
            graph_task_group_begin(stream)
            try:
                result = function(*args, **kwargs)
            finally:
                handle = graph_task_group_end(stream)
        finally:
            self._is_noting = False
        self.records.append(Record(function, args, kwargs, handler, handle, event))
        return handler.postprocess_result(result, kwargs)


def call_noted(operator, function, args, kwargs):
    """Calls an operator that is a composition: PyTorch shows only its parts to a dispatch mode."""
    mode = getattr(_DispatchMode.threads, "mode", None)
    if mode and mode.wants(operator().__name__):
        return mode.note(operator(), args, kwargs)
    return function(*args, **kwargs)


class graph:
    """Context manager that captures its body on a side stream."""

    default_capture_stream = None

    def __init__(self, npu_graph, pool=None, stream=None, auto_dispatch_capture=False, capture_error_mode="global"):
        if graph.default_capture_stream is None:
            graph.default_capture_stream = Stream()
        self.npu_graph = npu_graph
        self.pool = pool
        self.capture_stream = stream if stream is not None else graph.default_capture_stream
        self.capture_error_mode = capture_error_mode
        npu_graph.auto_dispatch_capture = auto_dispatch_capture
        self._context = StreamContext(self.capture_stream)

    def __enter__(self):
        torch.npu.synchronize()
        gc.collect()
        torch.npu.empty_cache()  # by the module's attribute: programs replace it during a capture
        torch.npu.host_empty_cache()
        self._context.__enter__()
        try:
            self.npu_graph.capture_begin(self.pool, self.capture_error_mode)
        except BaseException:
            self._context.__exit__(None, None, None)
            raise
        if self.npu_graph.auto_dispatch_capture:
            self.npu_graph.graph_dispatch_mode.__enter__()

    def __exit__(self, *exception):
        if self.npu_graph.auto_dispatch_capture:
            self.npu_graph.graph_dispatch_mode.__exit__(*exception)
        try:
            self.npu_graph.capture_end()
        finally:
            self._context.__exit__(*exception)


def make_graphed_callables(callables, sample_args, num_warmup_iters=3, allow_unused_input=False, pool=None):
    """Callables whose forward and backward are graphs, for inputs of the shapes of `sample_args`."""
    if torch.is_autocast_enabled("npu") and torch.is_autocast_cache_enabled():
        raise RuntimeError("make_graphed_callables does not support the autocast caching. Please set "
                           "`cache_enabled=False`.")
    is_one = not isinstance(callables, tuple)
    callables, sample_args = ((callables,), (sample_args,)) if is_one else (callables, sample_args)
    pool = graph_pool_handle() if pool is None else pool
    graphed = tuple(_graph_one(c, a, num_warmup_iters, allow_unused_input, pool) for c, a in zip(callables, sample_args))
    return graphed[0] if is_one else graphed


def _parameters(function):
    return tuple(function.parameters()) if isinstance(function, torch.nn.Module) else ()


def _gradients(outputs, inputs, grad_outputs, allow_unused):
    return torch.autograd.grad(outputs, inputs, grad_outputs, only_inputs=True, allow_unused=allow_unused)


def _graph_one(function, arguments, warmups, allow_unused, pool):
    inputs = tuple(arguments) + _parameters(function)
    needing = tuple(t for t in inputs if t.requires_grad)

    def outputs_of():
        result = function(*arguments)
        return (result,) if isinstance(result, torch.Tensor) else tuple(result)

    side = Stream()
    side.wait_stream(current_stream())
    with StreamContext(side):
        for _ in range(warmups):
            outputs = outputs_of()
            if needing:
                _gradients(outputs, needing, tuple(torch.empty_like(o) for o in outputs), allow_unused)
    current_stream().wait_stream(side)

    forward, backward = NPUGraph(), NPUGraph()
    with graph(forward, pool=pool):
        static = outputs_of()
    grad_outputs = tuple(torch.empty_like(o) for o in static)
    grads = ()
    if needing:
        with graph(backward, pool=pool):
            grads = _gradients(static, needing, grad_outputs, allow_unused)
    found = iter(grads)
    static_grads = tuple(next(found) if t.requires_grad else None for t in inputs)

    class Graphed(torch.autograd.Function):
        @staticmethod
        def forward(ctx, *given):
            for kept, new in zip(arguments, given):
                if kept.data_ptr() != new.data_ptr():
                    kept.data.copy_(new)
            forward.replay()
            return tuple(o.detach() for o in static)

        @staticmethod
        @torch.autograd.function.once_differentiable
        def backward(ctx, *given):
            for kept, new in zip(grad_outputs, given):
                if new is not None:
                    kept.copy_(new)
            backward.replay()
            return tuple(None if g is None else g.detach() for g in static_grads)

    def call(*given):
        result = Graphed.apply(*(tuple(given) + inputs[len(arguments):]))
        return result[0] if len(result) == 1 else result

    if not isinstance(function, torch.nn.Module):
        return call
    is_training, original = function.training, function.forward
    function.forward = lambda *given: call(*given) if function.training == is_training else original(*given)
    return function


class _NPUTaskGroupHandle:
    """What graph_task_group_end() returns."""

    def __init__(self, task_group=None):
        self.task_group = task_group


def graph_task_group_begin(stream):
    """Operators on the captured stream are a group until graph_task_group_end()."""
    _C.graph_task_group_begin(stream.stream_id, stream.device_index)


def graph_task_group_end(stream):
    return _NPUTaskGroupHandle(_C.graph_task_group_end(stream.stream_id, stream.device_index))


def graph_task_update_begin(stream, handle):
    """Operators on the stream replace those of the group until graph_task_update_end(), when the stream gets there."""
    _C.graph_task_update_begin(stream.stream_id, stream.device_index, handle.task_group)


def graph_task_update_end(stream):
    _C.graph_task_update_end(stream.stream_id, stream.device_index)


def super_kernel_scope_begin(name=None):
    """No effect: operators run one by one."""


def super_kernel_scope_end(name=None):
    """No effect: operators run one by one."""
