"""import torch_npu.contrib.transfer_to_npu: programs for CUDA use the device npu.

Device names "cuda" become "npu", and torch.cuda has the functions of torch.npu.
"""
import functools

import torch
import torch_npu  # noqa: F401

_FACTORIES = ("tensor empty zeros ones full rand randn randint randperm arange linspace logspace eye empty_like zeros_like "
              "ones_like full_like rand_like randn_like randint_like as_tensor empty_strided scalar_tensor load "
              "Generator").split()
_TENSOR_METHODS = "to new_tensor new_empty new_zeros new_ones new_full pin_memory".split()


def _device(value):
    """"cuda:1" -> "npu:1"; other values stay."""
    if isinstance(value, str) and value.partition(":")[0] == "cuda":
        return value.replace("cuda", "npu", 1)
    if isinstance(value, torch.device) and value.type == "cuda":
        return _torch_device("npu") if value.index is None else _torch_device("npu", value.index)
    return value


def _renamed(function):
    @functools.wraps(function)
    def call(*args, **kwargs):
        args = [_device(a) for a in args]
        for name in ("device", "map_location", "device_type"):
            if name in kwargs:
                kwargs[name] = _device(kwargs[name])
        return function(*args, **kwargs)

    return call


_torch_device = torch.device


class _Device(type):
    """torch.device that takes "cuda" for "npu"; isinstance() and types stay PyTorch's."""

    def __instancecheck__(cls, instance):
        return isinstance(instance, _torch_device)

    def __call__(cls, *args, **kwargs):
        kwargs = {"type" if k == "device" else k: _device(v) for k, v in kwargs.items()}
        return _torch_device(*[_device(a) for a in args], **kwargs)


def _install():
    torch.device = _Device("device", (), {})
    for name in _FACTORIES:
        if isinstance(getattr(torch, name), type):
            continue
        setattr(torch, name, _renamed(getattr(torch, name)))
    for name in _TENSOR_METHODS:
        setattr(torch.Tensor, name, _renamed(getattr(torch.Tensor, name)))
    torch.nn.Module.to = _renamed(torch.nn.Module.to)
    torch.autocast.__init__ = _renamed(torch.autocast.__init__)
    torch.Tensor.cuda, torch.nn.Module.cuda = torch.Tensor.npu, torch.nn.Module.npu
    torch.Tensor.is_cuda = torch.Tensor.is_npu
    for name in dir(torch.npu):
        if not name.startswith("_") and not isinstance(getattr(torch.npu, name), type(torch)):
            setattr(torch.cuda, name, getattr(torch.npu, name))
    torch.cuda.CUDAGraph = torch.npu.NPUGraph
    torch.cuda.CUDAPluggableAllocator = torch.npu.NPUPluggableAllocator
    torch.cuda.amp.autocast, torch.cuda.amp.GradScaler = torch.npu.amp.autocast, torch.npu.amp.GradScaler
    for name in ("memory_allocated", "memory_stats", "empty_cache", "MemPool", "use_mem_pool", "_snapshot",
                 "_record_memory_history", "_dump_snapshot"):
        setattr(torch.cuda.memory, name, getattr(torch.npu.memory, name))


_install()
