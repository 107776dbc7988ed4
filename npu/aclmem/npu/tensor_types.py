"""The old names of tensor types: torch.npu.FloatTensor and others."""
import torch

_TYPES = {"Float": torch.float32, "Double": torch.float64, "Half": torch.float16, "BFloat16": torch.bfloat16,
          "Byte": torch.uint8, "Char": torch.int8, "Short": torch.int16, "Int": torch.int32, "Long": torch.int64,
          "Bool": torch.bool}


class _Kind(type):
    def __instancecheck__(cls, instance):
        return isinstance(instance, torch.Tensor) and instance.device.type == "npu" and instance.dtype is cls.dtype


def _tensor_type(name, dtype):
    def new(cls, *args):
        if len(args) == 1 and not isinstance(args[0], int):
            return torch.tensor(args[0], dtype=dtype, device="npu")
        return torch.empty(args, dtype=dtype, device="npu")

    return _Kind(name, (), {"__new__": new, "dtype": dtype, "__module__": "torch.npu"})


class _Storage(torch.storage._LegacyStorage):
    @classmethod
    def from_buffer(cls, *args, **kwargs):
        raise RuntimeError("from_buffer: Not available for NPU storage")

    @classmethod
    def _new_shared_filename(cls, manager, obj, size):
        raise RuntimeError("_new_shared_filename: Not available for NPU storage")


def install(module):
    for name, dtype in _TYPES.items():
        setattr(module, name + "Tensor", _tensor_type(name + "Tensor", dtype))
        storage = type(name + "Storage", (_Storage,), {"dtype": property(lambda self, d=dtype: d), "_dtype": dtype})
        setattr(module, name + "Storage", storage)
