"""The PyTorch device `npu` on aclmem:  import aclmem.npu

Tensors of torch.device("npu") are in aclmem's device memory.  Operators are tasks on aclmem's streams, computed by PyTorch's
CPU kernels.  This module is torch.npu; the names are those of torch_npu.  It is a device for tests, not a fast one.
"""
import importlib
import sys

import torch


def _import_extension():
    """The extension has the C++ interface of one version of PyTorch, so the versions are compared before it is loaded."""
    try:
        built_for = importlib.import_module(__name__ + ".built_for")
    except ImportError:
        raise ImportError("aclmem.npu is not built in %s; docs/TORCH.md says how" % __path__[0]) from None
    versions = "PyTorch %s and Python %d.%d" % ((torch.__version__.split("+")[0],) + sys.version_info[:2])
    built = "PyTorch %s and Python %s" % (built_for.TORCH.split("+")[0], built_for.PYTHON)
    if built != versions:
        raise ImportError("aclmem.npu was built for %s, and this is %s: build it again" % (built, versions))
    return importlib.import_module(__name__ + "._C")


_C = _import_extension()

torch.utils.rename_privateuse1_backend("npu")
if getattr(torch, "npu", None) is None:
    torch._register_device_module("npu", sys.modules[__name__])

from . import (amp, devices, graphs, lazy, memory, operators, profiling, random, reductions, runtime, streams,  # noqa: E402
               tensor_types, utils)
from .devices import _get_device_index  # noqa: E402,F401
from .graph_handlers import NpuGraphOpHandler, register_npu_graph_handler  # noqa: E402,F401
from .lazy import _is_in_bad_fork, _lazy_call, _lazy_init  # noqa: E402,F401
from .random import _get_rng_state_offset, _set_rng_state_offset  # noqa: E402,F401
from .reductions import ipc_collect  # noqa: E402,F401
from .runtime import npurt  # noqa: E402,F401
from .streams import (_launch_host_func, _launch_host_func_pending, _sleep, _subscribe_report,  # noqa: E402,F401
                      _unsubscribe_report)

for _module in (amp, devices, graphs, lazy, memory, profiling, random, streams):
    globals().update({_name: _value for _name, _value in vars(_module).items()
                      if not _name.startswith("_") and getattr(_value, "__module__", None) == _module.__name__})

_generate = torch.utils.generate_methods_for_privateuse1_backend
if not hasattr(torch.Tensor, "is_npu"):
    _generate(for_tensor=True, for_module=True, for_storage=True, for_packed_sequence=True,
              unsupported_dtype=[torch.quint8, torch.quint4x2, torch.quint2x4, torch.qint32, torch.qint8])
tensor_types.install(sys.modules[__name__])
reductions.install()


def __getattr__(name):
    if name == "default_generators":
        return random._default_generators()
    raise AttributeError("module 'torch.npu' has no attribute %r" % name)


def _autoload():
    """The entry point of group torch.backends: the import above did all."""


# `from torch.npu.memory import ...` and `import torch.npu.amp` find the modules that are loaded already.
for _module in (amp, graphs, memory, random, reductions, streams, utils):
    sys.modules["torch.npu." + _module.__name__.rpartition(".")[2]] = _module
