"""A stand-in for torch_npu on aclmem.npu, for programs under `aclmem run --torch-npu`.

A machine with the real torch_npu does not need it, and refuses it.
"""
import importlib.machinery
import os
import sys

import torch


def _refuse_beside_real():
    here = os.path.realpath(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    others = [path for path in sys.path if os.path.realpath(path or os.getcwd()) != here]
    real = importlib.machinery.PathFinder.find_spec("torch_npu", others)
    if real is not None and real.origin is not None:
        raise RuntimeError(
            "aclmem: the real torch_npu is installed (%s); aclmem's stand-in does not replace it. Run the program without "
            "--torch-npu, or in an environment without torch_npu." % os.path.dirname(real.origin))


_refuse_beside_real()

import aclmem.npu as npu  # noqa: E402
from aclmem.npu import _C as _extension, graph_handlers as _graph_handlers, operators as _operators  # noqa: E402
from aclmem.npu.operators import get_npu_format  # noqa: E402,F401

__version__ = torch.__version__.split("+")[0] + "+aclmem"

# The modules of torch.npu are those of torch_npu.npu.
sys.modules["torch_npu.npu"] = npu
for _name in ("amp", "graphs", "memory", "random", "reductions", "streams"):
    sys.modules["torch_npu.npu." + _name] = getattr(npu, _name)
for _name in ("_npugraph_handlers", "_npugraph_handlers.npugraph_handler"):
    sys.modules["torch_npu.npu." + _name] = _graph_handlers

globals().update(_operators.functions())

from . import _C, contrib, multiprocessing, profiler, utils  # noqa: E402,F401

# Numbers of types that PyTorch lacks, or that clients read as numbers: ACL's number + 256.
hifloat8, float8_e8m0fnu, float4_e2m1fn_x2, int4 = 290, 293, 296, 285
float8_e5m2, float8_e4m3fn = 291, 292


class Format:
    """Numbers of memory formats.  They have no effect here."""

    UNDEFINED, NCHW, NHWC, ND, NC1HWC0, FRACTAL_Z, FRACTAL_NZ = -1, 0, 1, 2, 3, 4, 29


def empty_with_format(size, *, dtype=None, layout=None, device="npu", pin_memory=False, acl_format=2):
    result = torch.empty(size, dtype=dtype, device=device)
    result._npu_format = int(acl_format)
    return result


def empty_with_swapped_memory(size, *, dtype=None, device="npu"):
    return torch.empty(size, dtype=dtype, device=device)


def get_storage_size(tensor):
    """Elements of the storage."""
    return tensor.untyped_storage().nbytes() // tensor.element_size()


def copy_memory_(dst, src, non_blocking=False):
    return dst.copy_(src, non_blocking=non_blocking)


def erase_stream(tensor, stream):
    """Undoes Tensor.record_stream() before the stream passes."""
    _extension.erase_stream(tensor, stream.stream_id)


def npu_change_data_ptr(dst, src, offset):
    dst.set_(src.untyped_storage(), offset, dst.size(), dst.stride())
    return 0


def _apply_patches(patches=None):
    """torch_npu replaces functions of PyTorch; the stand-in has nothing to replace."""


_apply_all_patches = _apply_patches


def _autoload():
    """The entry point of group torch.backends."""


# Versions and backends that programs ask for.
if getattr(torch.version, "cann", None) is None:
    torch.version.cann = utils.get_cann_version()
if torch.distributed.is_available() and not hasattr(torch.distributed, "is_hccl_available"):
    torch.distributed.is_hccl_available = lambda: False
