"""Names of torch_npu._C that programs use."""
from aclmem.npu import _C as _extension
from aclmem.npu.graphs import _NPUTaskGroupHandle  # noqa: F401
from aclmem.npu.memory import _npu_attach_out_of_memory_observer  # noqa: F401

_weak_ref_tensor = _extension.weak_ref_tensor


def _npu_setStream(stream_id, device_index, device_type=20):
    _extension.set_stream(stream_id, device_index)


def _is_shared(storage):
    return storage.device.type == "npu" or storage.is_shared()
