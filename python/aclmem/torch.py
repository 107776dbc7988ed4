"""The memory pool of aclmem as PyTorch's allocator.

    import aclmem.torch
    aclmem.torch.install()

before the first tensor on the device.  On an NVIDIA GPU the pool runs through aclmem's CUDA backend; with torch_npu on
an NPU, through the vendor's library or aclmem's; install("npu") after `import aclmem.npu` is for the device npu of
aclmem.  Importing this module touches nothing of CUDA.

Replaced at install(), with PyTorch's names and keys, since PyTorch itself has no figures of a pluggable allocator:
memory_allocated, max_memory_allocated, memory_reserved, max_memory_reserved, memory_stats, memory_snapshot,
memory_summary, reset_peak_memory_stats.  Not available with any pluggable allocator: sending tensors to other processes,
cudnn.benchmark, torch.compile(mode="reduce-overhead").
"""
import ctypes
import importlib
import json
import os
import sys

SIZES = 48  # ACLMEM_POOL_SIZES
LIBRARY = "libaclmem_torch.so"


class Stats(ctypes.Structure):
    """aclmem_pool_stats of aclmem/pool.h"""

    _fields_ = [
        (name, ctypes.c_uint64)
        for name in (
            "live n_live peak_live held peak_held cached idle lost exportable asleep runs mallocs hits creates remaps waits"
        ).split()
    ] + [("by_size", ctypes.c_uint64 * SIZES), ("returns", ctypes.c_uint64), ("models", ctypes.c_uint64), ("rsv", ctypes.c_uint64 * 6)]


# PyTorch's name of a hook's setter -> our function.  Older versions lack some of the setters.
HOOKS = {
    "set_init_fn": "aclmem_torch_init",
    "set_reset_fn": "aclmem_torch_reset",
    "set_memory_fraction_fn": "aclmem_torch_memory_fraction",
    "set_base_alloc_fn": "aclmem_torch_base_alloc",
    "set_record_stream_fn": "aclmem_torch_record_stream",
    "set_begin_allocate_to_pool": "aclmem_torch_begin_allocate_to_pool",
    "set_end_allocate_to_pool_fn": "aclmem_torch_end_allocate_to_pool",
    "set_release_pool": "aclmem_torch_release_pool",
}
# torch_npu, but not aclmem.npu, gives these a C++ object, which a function in C cannot use.
NOT_FOR_NPU = ("set_record_stream_fn", "set_base_alloc_fn")

# PyTorch's keys: each of these has a number for each part of its pools and each kind; a number that a pool does not have is 0.
METRICS = (
    "allocation segment active inactive_split allocated_bytes reserved_bytes active_bytes inactive_split_bytes requested_bytes"
).split()
KEYS = ["%s.%s.%s" % (metric, part, kind) for metric in METRICS for part in ("all", "large_pool", "small_pool")
        for kind in ("current", "peak", "allocated", "freed")] + [
    "oversize_allocations.%s" % kind for kind in ("current", "peak", "allocated", "freed")] + [
    "oversize_segments.%s" % kind for kind in ("current", "peak", "allocated", "freed")] + [
    "num_alloc_retries", "num_ooms", "num_sync_all_streams", "num_device_alloc", "num_device_free", "max_split_size"]

_installed = None


def library_path():
    """Where libaclmem_torch.so is: ACLMEM_TORCH_LIBRARY, a wheel, a build tree, or an installed tree."""
    here = os.path.dirname(os.path.abspath(__file__))
    given = os.environ.get("ACLMEM_TORCH_LIBRARY")
    places = [given] if given else [
        os.path.join(here, "lib64", LIBRARY),
        os.path.join(here, "..", "..", "lib64", LIBRARY),
        os.path.join(here, "..", "..", "..", "lib64", LIBRARY),
    ]
    for place in places:
        if os.path.exists(place):
            return os.path.realpath(place)
    raise OSError("%s is in none of: %s" % (LIBRARY, ", ".join(places)))


class Allocator:
    """The pool of all devices, as it was installed."""

    def __init__(self, library, torch_device, plugged):
        self.library = library
        self.torch_device = torch_device  # torch.cuda or torch.npu
        self.plugged = plugged  # kept: PyTorch holds only its inside

    def index(self, device=None):
        if device is None:
            return self.torch_device.current_device()
        if isinstance(device, int):
            return device
        if isinstance(device, str):
            index = int(device.rsplit(":", 1)[1]) if ":" in device else None
        else:
            index = device.index
        return self.torch_device.current_device() if index is None else index

    def stats(self, device=None):
        """All figures; zeros before the first block."""
        stats = Stats()
        self.library.aclmem_torch_get_stats(ctypes.c_int(self.index(device)), ctypes.byref(stats))
        return stats

    def memory_allocated(self, device=None):
        return self.stats(device).live

    def max_memory_allocated(self, device=None):
        return self.stats(device).peak_live

    def memory_reserved(self, device=None):
        return self.stats(device).held

    def max_memory_reserved(self, device=None):
        return self.stats(device).peak_held

    def reset_peak_memory_stats(self, device=None):
        self.library.aclmem_torch_reset_peaks(ctypes.c_int(self.index(device)))

    def memory_stats(self, device=None):
        s = self.stats(device)
        stats = dict.fromkeys(KEYS, 0)
        stats.update({
            "allocated_bytes.all.current": s.live,
            "allocated_bytes.all.peak": s.peak_live,
            "requested_bytes.all.current": s.live,
            "requested_bytes.all.peak": s.peak_live,
            "active_bytes.all.current": s.live,
            "active_bytes.all.peak": s.peak_live,
            "reserved_bytes.all.current": s.held,
            "reserved_bytes.all.peak": s.peak_held,
            "inactive_split_bytes.all.current": s.held - min(s.held, s.live),
            "allocation.all.current": s.n_live,
            "allocation.all.allocated": s.mallocs,
            "allocation.all.freed": s.mallocs - s.n_live,
            "active.all.current": s.n_live,
            "num_alloc_retries": s.waits,
            "num_ooms": 0,
            "aclmem.idle_bytes": s.idle,
            "aclmem.lost_bytes": s.lost,
            "aclmem.runs": s.runs,
            "aclmem.pages_created": s.creates,
            "aclmem.pages_moved": s.remaps,
            "aclmem.pages_returned": s.returns,
        })
        return stats

    def memory_snapshot(self, device=None):
        """The pool's blocks, as aclmem_pool_snapshot() lists them."""
        text = ctypes.c_void_p()
        rc = self.library.aclmem_torch_snapshot(ctypes.c_int(self.index(device)), ctypes.byref(text))
        if rc != 0:
            return []
        try:
            return json.loads(ctypes.string_at(text).decode())["blocks"]
        finally:
            ctypes.CDLL(None).free(text)

    def memory_summary(self, device=None, abbreviated=False):
        s = self.stats(device)
        return (
            "aclmem pool: %d blocks, %.1f MB live (peak %.1f), %.1f MB held (peak %.1f), %.1f MB idle, %.1f MB lost at "
            "borders; %d pages created, %d moved" % (
                s.n_live, s.live / 2**20, s.peak_live / 2**20, s.held / 2**20, s.peak_held / 2**20, s.idle / 2**20,
                s.lost / 2**20, s.creates, s.remaps)
        )


REPLACED = (
    "memory_allocated max_memory_allocated memory_reserved max_memory_reserved memory_stats memory_snapshot "
    "memory_summary reset_peak_memory_stats"
).split()


def _plug(kind, path, without=()):
    """PyTorch's object for our two functions, with all hooks that it knows."""
    library = ctypes.CDLL(path)
    plugged = kind(path, "aclmem_torch_malloc", "aclmem_torch_free")
    inside = getattr(plugged, "_allocator", None)
    inside = inside() if callable(inside) else inside
    for setter, function in HOOKS.items():
        if hasattr(inside, setter) and setter not in without:
            getattr(inside, setter)(ctypes.cast(getattr(library, function), ctypes.c_void_p).value)
    return library, plugged


def _framework(name):
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ImportError("aclmem.torch.install() needs %s: %s" % (name, error)) from error


def install(backend=None):
    """Makes the pool the allocator of torch.cuda, or, with backend="npu", of torch_npu or aclmem.npu.  Returns the Allocator."""
    global _installed
    if _installed is not None:
        return _installed
    if backend is None:
        backend = "cuda"
    ours = backend == "npu" and sys.modules.get("aclmem.npu")
    if backend == "cuda":
        module = _framework("torch").cuda
        memory = module.memory
        kind, change = memory.CUDAPluggableAllocator, memory.change_current_allocator
        if os.environ.get("ACLMEM_BACKEND", "auto") == "auto":
            os.environ["ACLMEM_BACKEND"] = "cuda"
        if os.environ["ACLMEM_BACKEND"] != "cuda":
            raise RuntimeError('aclmem.torch: ACLMEM_BACKEND is "%s", whose memory a GPU cannot use; unset it, or set it to '
                               '"cuda"' % os.environ["ACLMEM_BACKEND"])
    elif backend == "npu":
        module = ours or _framework("torch_npu").npu
        memory = getattr(module, "memory", module)
        kind, change = module.NPUPluggableAllocator, module.change_current_allocator
    else:
        raise ValueError('backend is "cuda" or "npu", not %r' % (backend,))
    library, plugged = _plug(kind, library_path(), NOT_FOR_NPU if backend == "npu" and not ours else ())
    if not library.aclmem_torch_use_cuda_streams(ctypes.c_int(backend == "cuda")):
        raise RuntimeError("aclmem.torch: there is no NVIDIA driver, or the pool is in use already")
    try:
        change(plugged)
    except RuntimeError as error:
        raise RuntimeError(
            "aclmem.torch.install() comes too late: something made a tensor on the device before (%s)" % error
        ) from error
    _installed = Allocator(library, module, plugged)
    for name in REPLACED:
        for place in {id(module): module, id(memory): memory}.values():
            # Other functions of aclmem.npu use its snapshots, which are lists of segments.
            if hasattr(place, name) and not (ours and name == "memory_snapshot"):
                setattr(place, name, getattr(_installed, name))
    return _installed
