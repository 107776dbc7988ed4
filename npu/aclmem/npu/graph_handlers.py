"""Handlers: how NPUGraph.update() treats an operator that a capture with auto_dispatch_capture notes.

A capture notes each call of an operator that has a handler, as a Record: the call becomes a task group, which a replay runs
after update().  update() replaces the named arguments that it is given, calls update_args(), and calls the operator again.
Handlers are classes; their methods are class methods, and they have no instances.
"""
import copy
import logging

import torch

from . import _C

_NPU_GRAPH_OP_HANDLERS = {}  # torch_npu's name.  The name of an operator, as OpOverload.__name__ has it: its handler


class Record:
    """A call that a capture noted.  It does not own the memory of tensors on the device: the graph does."""

    def __init__(self, function, args, kwargs, handler, handle, event):
        names = [argument.name for argument in function._schema.arguments if "Tensor" in str(argument.type)]
        self.function = function
        self.args = [without_memory(value) for value in args]
        self.kwargs = {name: handler.record_wrap_kwarg(name, value, names) for name, value in kwargs.items()}
        self.handle = handle  # of the task group
        self.event = event  # a replay waits for it

    def update(self, given):
        self.kwargs.update((name, value) for name, value in given.items() if name in self.kwargs)
        name = self.function.__name__
        handler = _NPU_GRAPH_OP_HANDLERS.get(name)
        if not handler:
            raise RuntimeError("No handler for recorded op: %s. It was removed between the capture and update()." % name)
        handler.update_args(self, given)
        self.function(*self.args, **self.kwargs)


def without_memory(value):
    """Tensors on the device become tensors of the same address that do not own it; other values are copied."""
    if isinstance(value, torch.Tensor) and value.device.type == "npu":
        return _C.weak_ref_tensor(value)
    if isinstance(value, (list, tuple)):
        return type(value)(without_memory(item) for item in value)
    return copy.deepcopy(value) if isinstance(value, torch.Tensor) else value


class NpuGraphOpHandler:
    """The base class.  Its methods change nothing."""

    @classmethod
    def prepare_capture(cls, func, args, kwargs):
        """The operator and the arguments that are captured in place of these."""
        return func, args, kwargs

    @classmethod
    def postprocess_result(cls, result, kwargs):
        """What the caller of the captured operator gets."""
        return result

    @classmethod
    def update_args(cls, dispatch_record, update_input):
        """Changes dispatch_record.args, a list, before the operator is called again."""

    @classmethod
    def record_wrap_kwarg(cls, key, value, tensor_param_names):
        """What the record keeps of a named argument."""
        return without_memory(value)


def register_npu_graph_handler(op_names):
    """Decorates the handler of the operators: a name such as my_op.default, or a list of names."""
    def decorate(handler):
        for name in [op_names] if isinstance(op_names, str) else op_names:
            if name in _NPU_GRAPH_OP_HANDLERS:
                logging.getLogger(__name__).warning("NpuGraphOpHandler for '%s' is being overridden: %s -> %s", name,
                                                    _NPU_GRAPH_OP_HANDLERS[name].__name__, handler.__name__)
            _NPU_GRAPH_OP_HANDLERS[name] = handler
        return handler

    return decorate


@register_npu_graph_handler("_npu_paged_attention.default")
class _PagedAttention(NpuGraphOpHandler):
    @classmethod
    def update_args(cls, dispatch_record, update_input):
        if "context_lens" in update_input and len(dispatch_record.args) > 7:
            dispatch_record.args[7] = update_input["context_lens"]


@register_npu_graph_handler(["npu_fused_infer_attention_score" + form for form in (".default", ".out", "_v2.default", "_v2.out")])
class _InferAttention(NpuGraphOpHandler):
    """The form that returns new tensors is captured as the one with `out`: an update writes to the same results."""

    @classmethod
    def prepare_capture(cls, func, args, kwargs):
        if "out" in kwargs:
            return func, args, kwargs
        shapes = func(*map(_shape_of, args), **{name: _shape_of(value) for name, value in kwargs.items()})
        return func.overloadpacket.out, args, dict(kwargs, out=[torch.empty_like(s, device=args[0].device) for s in shapes])

    @classmethod
    def postprocess_result(cls, result, kwargs):
        return tuple(kwargs["out"])


def _shape_of(value):
    return value.to("meta") if isinstance(value, torch.Tensor) else value
