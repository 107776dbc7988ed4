"""Memory of devices: statistics, snapshots, limits, pools, pluggable allocators; pinned memory of the host."""
import collections
import contextlib
import ctypes
import pickle
import sys
import warnings

import torch

from . import _C
from .devices import _get_device_index, current_device, mem_get_info  # noqa: F401 (mem_get_info is part of torch.npu.memory)
from .lazy import _lazy_init, is_initialized
from .streams import current_stream

# ---- statistics ----


def _flatten(nested, prefix=""):
    for key, value in nested.items():
        if isinstance(value, dict):
            yield from _flatten(value, prefix + key + ".")
        else:
            yield prefix + key, value


def memory_stats_as_nested_dict(device=None):
    return _C.memory_stats(_get_device_index(device)) if is_initialized() else {}


def memory_stats(device=None):
    """All statistics, with dots between the levels of a key; empty before initialisation."""
    return collections.OrderedDict(sorted(_flatten(memory_stats_as_nested_dict(device))))


def _statistic(key):
    def function(device=None):
        return memory_stats(device).get(key, 0)

    return function


memory_allocated = _statistic("allocated_bytes.all.current")
max_memory_allocated = _statistic("allocated_bytes.all.peak")
memory_reserved = _statistic("reserved_bytes.all.current")
max_memory_reserved = _statistic("reserved_bytes.all.peak")


def reset_peak_memory_stats(device=None):
    _lazy_init()
    _C.reset_peak_memory_stats(_get_device_index(device))


def reset_accumulated_memory_stats(device=None):
    _lazy_init()
    _C.reset_accumulated_memory_stats(_get_device_index(device))


def _deprecated(name, function):
    def alias(device=None):
        warnings.warn("torch.npu.%s is deprecated; use torch.npu.%s" % (name, function.__name__), DeprecationWarning, 2)
        return function(device)

    alias.__name__ = name
    return alias


for _function, _name in ((memory_allocated, "memory_allocated"), (max_memory_allocated, "max_memory_allocated"),
                         (memory_reserved, "memory_reserved"), (max_memory_reserved, "max_memory_reserved")):
    _function.__name__ = _name
memory_cached = _deprecated("memory_cached", memory_reserved)
max_memory_cached = _deprecated("max_memory_cached", max_memory_reserved)
reset_max_memory_allocated = _deprecated("reset_max_memory_allocated", reset_peak_memory_stats)
reset_max_memory_cached = _deprecated("reset_max_memory_cached", reset_peak_memory_stats)

_ROWS = (
    ("Allocated memory", "allocated_bytes", True),
    ("Active memory", "active_bytes", True),
    ("Requested memory", "requested_bytes", True),
    ("NPU reserved memory", "reserved_bytes", True),
    ("Non-releasable memory", "inactive_split_bytes", True),
    ("Allocations", "allocation", False),
    ("Active allocs", "active", False),
    ("NPU reserved segments", "segment", False),
    ("Non-releasable allocs", "inactive_split", False),
)
_KINDS = ("current", "peak", "allocated", "freed")


def _amount(value, is_bytes):
    units = ["B  ", "KiB", "MiB", "GiB", "TiB", "PiB"] if is_bytes else ["   ", "K  ", "M  ", "G  "]
    while value >= 100000 and len(units) > 1:
        value //= 1024 if is_bytes else 1000
        units.pop(0)
    return "%7d %s" % (value, units[0])


def memory_summary(device=None, abbreviated=False):
    """A table of the statistics, 75 columns wide."""
    index = _get_device_index(device)
    stats = memory_stats(index)
    bar, line = "=" * 75, "-" * 75
    rows = [
        bar,
        " {0:16} PyTorch NPU memory summary, device ID {1:<18d} ".format("", index),
        line,
        "  {0:9} NPU OOMs: {1:<13d} | {0:6} npuMalloc retries: {2:<9d}  ".format(
            "", stats.get("num_ooms", 0), stats.get("num_alloc_retries", 0)),
        bar,
        "        Metric         | Cur Usage  | Peak Usage | Tot Alloc  | Tot Freed  ",
    ]
    parts = [("all", None)] if abbreviated else [("all", None), ("large_pool", "from large pool"),
                                                 ("small_pool", "from small pool")]
    for title, metric, is_bytes in _ROWS:
        rows.append(line)
        for part, name in parts:
            values = [_amount(stats.get("%s.%s.%s" % (metric, part, kind), 0), is_bytes) for kind in _KINDS]
            rows.append(" %-21s | %s " % (title if name is None else "      " + name, " | ".join(v[:10].rjust(10) for v in values)))
    for title, metric in (("Oversize allocations", "oversize_allocations"), ("Oversize NPU segments", "oversize_segments")):
        rows.append(line)
        values = [_amount(stats.get("%s.%s" % (metric, kind), 0), False) for kind in _KINDS]
        rows.append(" %-21s | %s " % (title, " | ".join(v[:10].rjust(10) for v in values)))
    rows.append(bar)
    return "".join("|%s|\n" % row.ljust(75)[:75] for row in rows)


# ---- snapshots ----


def memory_snapshot(mempool_id=None):
    """The segments of all devices with their blocks."""
    return _C.memory_snapshot(mempool_id) if is_initialized() else []


def _snapshot(device=None):
    return {"segments": memory_snapshot(), "device_traces": _C.device_traces() if is_initialized() else []}


def _dump_snapshot(filename="dump_snapshot.pickle"):
    """Writes a pickle that pytorch.org/memory_viz opens."""
    with open(filename, "wb") as file:
        pickle.dump(_snapshot(), file)


def _save_usage(function, filename, snapshot):
    from torch.cuda import _memory_viz

    with open(filename, "w", encoding="utf-8") as file:
        file.write(getattr(_memory_viz, function)(_snapshot() if snapshot is None else snapshot))


def _save_segment_usage(filename="output.svg", snapshot=None):
    """Writes a picture of the segments, by PyTorch's _memory_viz, which fetches flamegraph.pl."""
    _save_usage("segments", filename, snapshot)


def _save_memory_usage(filename="output.svg", snapshot=None):
    """As _save_segment_usage(), of the memory by the place of its allocation."""
    _save_usage("memory", filename, snapshot)


def _record_memory_history(enabled="all", context="all", stacks="all", max_entries=sys.maxsize, device=None):
    """Records allocations and frees for _snapshot().  Frames are of Python, whatever `stacks` is."""
    if isinstance(enabled, bool):
        enabled = "all" if enabled else None
    if enabled not in (None, "state", "all"):
        raise RuntimeError("expected state to be 'state', 'all', or None")
    if context not in (None, "state", "alloc", "all"):
        raise RuntimeError("expected context to be 'state', 'alloc', 'all', or None")
    if stacks not in ("python", "all"):
        raise RuntimeError("expected stacks to be 'python', or 'all'")
    _lazy_init()
    _C.record_memory_history(enabled is not None, min(max_entries, 2**62))


def _npu_attach_out_of_memory_observer(observer):
    """observer(device, size, total, free) runs before out of memory is raised."""
    _lazy_init()
    _C.attach_oom_observer(observer)


# ---- the cache and its limits ----


def empty_cache():
    """Synchronises, and frees segments without blocks.  No effect before initialisation."""
    if is_initialized():
        _C.empty_cache()


def empty_virt_addr_cache():
    empty_cache()


def set_per_process_memory_fraction(fraction, device=None):
    """Limits this process to a part of the device's memory."""
    if not isinstance(fraction, float):
        raise TypeError("Invalid type for fraction argument, must be `float`")
    if not 0 <= fraction <= 1:
        raise ValueError("Invalid fraction value: %s. Allowed range: 0~1" % fraction)
    _lazy_init()
    _C.set_memory_fraction(fraction, _get_device_index(device))


def get_per_process_memory_fraction(device=None):
    _lazy_init()
    return _C.get_memory_fraction(_get_device_index(device))


def caching_allocator_alloc(size, device=None, stream=None):
    """The address of a new block.  `stream` is a Stream or an aclrtStream as int (default: the current stream)."""
    _lazy_init()
    index = _get_device_index(device)
    if stream is None:
        stream = current_stream(index)
    if isinstance(stream, torch.Stream):
        stream = stream.stream_id
    elif isinstance(stream, int):
        stream = _C.external_stream(stream, index)
    else:
        raise TypeError("Invalid type for stream argument, must be `torch.npu.Stream` or `int` representing a pointer "
                        "to a existing stream")
    return _C.caching_allocator_alloc(size, index, stream)


def caching_allocator_delete(mem_ptr):
    _C.caching_allocator_delete(mem_ptr)


def get_allocator_backend():
    return _C.get_allocator_backend()


def _set_allocator_settings(env):
    _C.set_allocator_settings(env)


# ---- pinned memory of the host ----


def host_empty_cache():
    if is_initialized():
        _C.host_empty_cache()


def host_memory_stats_as_nested_dict():
    return _C.host_memory_stats() if is_initialized() else {}


def host_memory_stats():
    return collections.OrderedDict(sorted(_flatten(host_memory_stats_as_nested_dict())))


def reset_peak_host_memory_stats():
    _C.reset_peak_host_memory_stats()


def reset_accumulated_host_memory_stats():
    _C.reset_accumulated_host_memory_stats()


# ---- pluggable allocators and pools ----


class _NPUAllocator:
    """Wraps the allocator of _C, as torch_npu does."""

    def __init__(self, allocator):
        self._allocator = allocator

    def allocator(self):
        return self._allocator


class NPUPluggableAllocator(_NPUAllocator):
    """Two functions of a library: void *alloc(size_t, int device, stream), void free(void *, size_t, int device, stream)."""

    def __init__(self, path_to_so_file, alloc_fn_name, free_fn_name):
        library = ctypes.CDLL(path_to_so_file)
        addresses = [ctypes.cast(getattr(library, name), ctypes.c_void_p).value for name in (alloc_fn_name, free_fn_name)]
        super().__init__(_C.PluggableAllocator(*addresses))
        self._library = library


def change_current_allocator(allocator):
    """Replaces the caching allocator; only before the first allocation."""
    _C.change_current_allocator(allocator.allocator())


def _get_current_allocator():
    return _NPUAllocator(None)


class MemPool:
    """Segments that only the blocks of this pool use; with `allocator`, the segments come from its functions."""

    def __init__(self, allocator=None, use_on_oom=False, no_split=False):
        _lazy_init()
        if isinstance(allocator, _NPUAllocator):
            allocator = allocator.allocator()
        self._pool = _C.MemPool(allocator)
        self.allocator = allocator

    @property
    def id(self):
        return tuple(self._pool.id)

    def use_count(self):
        return self._pool.use_count()

    def snapshot(self):
        return memory_snapshot(self.id)


_active_pools = []


@contextlib.contextmanager
def use_mem_pool(pool, device=None):
    """Allocations of this thread go to the pool.  Nests: the innermost pool receives them."""
    index = _get_device_index(device)
    _C.begin_allocate_to_pool(index, pool.id)
    _active_pools.append(pool)
    try:
        yield
    finally:
        _active_pools.remove(pool)
        _C.end_allocate_to_pool(index, pool.id)
        _C.release_pool(index, pool.id)


@contextlib.contextmanager
def MemPoolContext(pool):
    _active_pools.append(pool)
    try:
        yield pool
    finally:
        _active_pools.remove(pool)


def active_pool():
    return _active_pools[-1] if _active_pools else None
