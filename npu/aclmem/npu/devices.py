"""Devices: torch.npu.device_count() to torch.npu.get_device_properties()."""
import os
import warnings

import torch

from . import _C
from .lazy import _lazy_init, is_initialized

# Families of products by number, as torch.npu.get_soc_version() reports them.  The longest prefix of the name decides.
_SOC_NUMBERS = {"Ascend910": 100, "Ascend310P": 200, "Ascend910B": 220, "Ascend310B": 240, "Ascend910_93": 250, "Ascend950": 260}


def _get_device_index(device, optional=True):
    """The index of a device argument; the current device for None and for objects that are not devices."""
    if isinstance(device, bool):
        raise TypeError("device must be an int, a string or a torch.device, not bool")
    if isinstance(device, int):
        return device
    if isinstance(device, str):
        device = torch.device(device)
    if isinstance(device, torch.device):
        if device.type != "npu":
            raise ValueError("Expected a npu device, but got: %s" % device)
        index = device.index
    elif hasattr(device, "idx"):
        index = device.idx
    else:
        index = None
    if index is None:
        if not optional:
            raise ValueError("Expected a npu device with an index, but got: %s" % (device,))
        return current_device()
    return index


def is_available():
    """Whether a device exists.  Does not initialise."""
    return device_count() > 0


def device_count():
    return _C.device_count()


def set_device(device):
    """A negative index has no effect."""
    index = _get_device_index(device)
    if index >= 0:
        _lazy_init()
        _C.set_device(index)


def current_device():
    _lazy_init()
    return _C.current_device()


class device:
    """Context manager that changes the current device.  A negative index or None has no effect."""

    def __init__(self, device):
        self.idx = -1 if device is None else _get_device_index(device)
        self.prev_idx = -1

    def __enter__(self):
        if self.idx >= 0:
            self.prev_idx = current_device()
            set_device(self.idx)
        return self

    def __exit__(self, *exception):
        if self.idx >= 0:
            set_device(self.prev_idx)
        return False


class device_of(device):
    """Context manager that makes the device of a tensor or storage current."""

    def __init__(self, obj):
        super().__init__(obj.get_device() if getattr(obj, "is_npu", False) else None)


def synchronize(device=None):
    """Waits for all streams of a device.  Raises the first error of its operators."""
    _lazy_init()
    _C.synchronize(_get_device_index(device))


def _checked_index(device, what="Invalid device id"):
    index = _get_device_index(device)
    assert 0 <= index < device_count(), what
    return index


def get_device_name(device=None):
    _checked_index(device)
    return _C.soc_name()


def mem_get_info(device=None):
    """(free, total) bytes of the device, of all processes."""
    _lazy_init()
    return tuple(_C.mem_get_info(_get_device_index(device)))


class _UUID:
    def __init__(self, index):
        self.bytes = [0xAC, 0x1E] + [0] * 13 + [index & 255]

    def __str__(self):
        text = bytes(self.bytes).hex()
        return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))

    __repr__ = __str__


class _NPUDeviceProperties:
    major = minor = is_multi_gpu_board = is_integrated = None
    max_threads_per_multi_processor = warp_size = regs_per_multiprocessor = gcnArchName = None

    def __init__(self, index):
        fields = vars(self)
        fields.update(name=_C.soc_name(), total_memory=mem_get_info(index)[1], cube_core_num=24, vector_core_num=48,
                      multi_processor_count=48, L2_cache_size=192 << 20, uuid=_UUID(index))

    def __setattr__(self, name, value):
        raise AttributeError("property %r of a device cannot be set" % name)

    def __repr__(self):
        return "_NPUDeviceProperties(name='%s', total_memory=%dMB, cube_core_num=%d, vector_core_num=%d, uuid=%s)" % (
            self.name, self.total_memory >> 20, self.cube_core_num, self.vector_core_num, self.uuid)


def get_device_properties(device=None):
    _lazy_init()
    return _NPUDeviceProperties(_checked_index(device))


def get_device_capability(device=None):
    """(major, minor) of TORCH_NPU_DEVICE_CAPABILITY="9.0"; None if it is not set."""
    warnings.warn("torch.npu.get_device_capability isn't implemented; set TORCH_NPU_DEVICE_CAPABILITY")
    text = os.environ.get("TORCH_NPU_DEVICE_CAPABILITY")
    return tuple(int(part) for part in text.split(".", 1)) if text else None


def get_soc_version():
    """The number of the product's family."""
    name = _C.soc_name()
    prefixes = [prefix for prefix in _SOC_NUMBERS if name.startswith(prefix)]
    return _SOC_NUMBERS[max(prefixes, key=len)] if prefixes else 220


def is_bf16_supported():
    return get_soc_version() >= 220


def is_support_inf_nan():
    return get_soc_version() >= 220


def can_device_access_peer(device, peer_device):
    index = _checked_index(device)
    peer = _checked_index(peer_device, "Invalid peer device id")
    return index != peer


def utilization(device=None):
    """Always 0: operators run on the processors of the host."""
    _checked_index(device)
    return 0


_options = {}
_limits = {}


def set_option(option):
    """Stores options of the vendor's compiler; none has an effect."""
    if not isinstance(option, dict):
        raise TypeError("npu option must be a dict.")
    _options.update(option)


def get_npu_option(name):
    return _options.get(name)


def set_compile_mode(jit_compile=False):
    if is_initialized():
        synchronize()
    _options["jitCompile"] = "enable" if jit_compile else "disable"


def is_jit_compile_false():
    return _options.get("jitCompile", "disable") == "disable"


def set_device_limit(device, cube_num=-1, vector_num=-1):
    index = _checked_index(device)
    if ("device", index) in _limits:
        raise RuntimeError("set_device_limit: the limits of device %d were set before" % index)
    _limits["device", index] = {"cube_core_num": cube_num, "vector_core_num": vector_num}


def _default_limits():
    return {"cube_core_num": 24, "vector_core_num": 48}


def get_device_limit(device):
    return _limits.get(("device", _checked_index(device)), _default_limits())


def set_stream_limit(stream, cube_num=-1, vector_num=-1):
    _limits["stream", stream] = {"cube_core_num": cube_num, "vector_core_num": vector_num}


def reset_stream_limit(stream):
    _limits.pop(("stream", stream), None)


def get_stream_limit(stream):
    return _limits.get(("stream", stream), _default_limits())


_sync_debug_mode = 0


def set_sync_debug_mode(debug_mode):
    """Stores the mode.  torch.npu.synchronous_operators() lists operators that synchronise."""
    global _sync_debug_mode
    modes = {"default": 0, "warn": 1, "error": 2, 0: 0, 1: 1, 2: 2}
    if debug_mode not in modes:
        raise RuntimeError("invalid value of debug_mode, expected one of `default`, `warn`, `error`")
    _sync_debug_mode = modes[debug_mode]


def get_sync_debug_mode():
    return _sync_debug_mode


class _Options:
    """An attribute holder for torch.npu.config, matmul and conv: setters without device work."""

    def __init__(self, **defaults):
        vars(self).update(defaults)


config = _Options(allow_internal_format=True)
matmul = _Options(allow_hf32=False, cube_math_type=1)
conv = _Options(allow_hf32=True)


class CubeMathType:
    KEEP_DTYPE, ALLOW_FP32_DOWN_PRECISION, USE_FP16, USE_HF32 = range(4)


def synchronous_operators():
    """{operator: reason} for the operators that ran synchronously in this process."""
    return _C.synchronous_operators()


def stop_device(device):
    synchronize(device)
    return 0


def restart_device(device, rebuild_all_resources=False):
    synchronize(device)
    return 0


def check_uce_in_memory(device):
    """0: no memory error."""
    _checked_index(device)
    return 0


def stress_detect(mode=0):
    return 0


def set_op_timeout_ms(timeout):
    _options["op_timeout_ms"] = timeout
