"""torch.npu: statistics, snapshots, limits, pools, pinned memory.  Sizes are torch_npu's: +32 bytes, units of 512."""
import os
import pickle

import pytest
import torch

import aclmem.npu  # noqa: F401
from conftest import compile_library

MB = 1 << 20


@pytest.fixture
def clean(npu):
    npu.empty_cache()
    npu.reset_peak_memory_stats()
    return npu


def test_a_request_is_rounded_and_cut_from_a_segment(clean):
    before, reserved = clean.memory_allocated(), clean.memory_reserved()
    small = torch.empty(100, dtype=torch.uint8, device="npu")
    assert clean.memory_allocated() - before == 512
    large = torch.empty(2 * MB, dtype=torch.uint8, device="npu")
    assert clean.memory_allocated() - before == 512 + 2 * MB + 512
    huge = torch.empty(25 * MB, dtype=torch.uint8, device="npu")
    assert clean.memory_reserved() - reserved in ((20 + 26) * MB, (2 + 20 + 26) * MB)
    peak = clean.max_memory_allocated()
    del small, large, huge
    assert clean.memory_allocated() == before and clean.max_memory_allocated() == peak
    clean.empty_cache()
    assert clean.memory_reserved() <= reserved
    clean.reset_peak_memory_stats()
    assert clean.max_memory_allocated() == before


def test_statistics_have_all_keys_in_order(clean):
    stats = clean.memory_stats()
    assert list(stats) == sorted(stats)
    for metric in ("allocation segment active inactive_split allocated_bytes reserved_bytes active_bytes inactive_split_bytes "
                   "requested_bytes").split():
        for part in ("all", "small_pool", "large_pool"):
            for kind in ("current", "peak", "allocated", "freed"):
                assert "%s.%s.%s" % (metric, part, kind) in stats
    for key in ("oversize_allocations.current", "oversize_segments.peak", "num_alloc_retries", "num_ooms", "max_split_size"):
        assert key in stats
    assert clean.memory_stats_as_nested_dict()["allocation"]["all"]["current"] == stats["allocation.all.current"]
    with pytest.warns(DeprecationWarning):
        assert clean.memory_cached() == clean.memory_reserved()


def test_the_summary_is_75_columns_wide(clean):
    text = clean.memory_summary()
    assert all(len(line) == 77 for line in text.splitlines())
    head = text.splitlines()
    assert head[1].strip("|").strip() == "PyTorch NPU memory summary, device ID 0"
    assert "NPU OOMs: " in head[3] and "npuMalloc retries: " in head[3]
    assert len(clean.memory_summary(abbreviated=True)) < len(text)


def test_a_snapshot_lists_blocks_and_history(clean, tmp_path):
    clean.memory._record_memory_history()
    tensor = torch.empty(3000, dtype=torch.uint8, device="npu")
    segments = clean.memory_snapshot()
    found = [(s, b) for s in segments for b in s["blocks"] if b["address"] == tensor.data_ptr()]
    assert len(found) == 1
    segment, block = found[0]
    assert block["state"] == "active_allocated" and block["requested_size"] == 3000 and block["size"] == 3072
    for key in ("device address total_size allocated_size active_size requested_size stream segment_type segment_pool_id "
                "is_expandable frames blocks").split():
        assert key in segment
    assert segment["segment_type"] == "small" and segment["segment_pool_id"] == (0, 0)
    assert sum(b["size"] for b in segment["blocks"]) == segment["total_size"]
    assert any(f["filename"].endswith("test_memory.py") for f in block["frames"])
    del tensor
    path = tmp_path / "snapshot.pickle"
    clean.memory._dump_snapshot(str(path))
    clean.memory._record_memory_history(None)
    loaded = pickle.loads(path.read_bytes())
    actions = [entry["action"] for entry in loaded["device_traces"][0]]
    assert "alloc" in actions and "free_requested" in actions and "free_completed" in actions
    from torch.cuda import _memory_viz  # what pytorch.org/memory_viz uses

    assert "small" in _memory_viz.segsum(loaded) or _memory_viz.segsum(loaded)
    assert _memory_viz.trace_plot(loaded)
    for wrong, text in ((dict(enabled="some"), "expected state to be 'state', 'all', or None"),
                        (dict(stacks="c"), "expected stacks to be")):
        with pytest.raises(RuntimeError, match=text):
            clean.memory._record_memory_history(**wrong)


def test_a_fraction_limits_the_process_and_out_of_memory_is_recovered_from(clean):
    total = clean.mem_get_info()[1]
    seen = []
    clean.memory._npu_attach_out_of_memory_observer(lambda *a: seen.append(a))
    clean.set_per_process_memory_fraction((clean.memory_reserved() + 64 * MB) / total)
    try:
        kept = torch.full((32 * MB,), 7, dtype=torch.uint8, device="npu")
        with pytest.raises(torch.OutOfMemoryError) as error:
            torch.empty(60 * MB, dtype=torch.uint8, device="npu")
        text = str(error.value)
        for part in ("NPU out of memory. Tried to allocate 60.00 MiB (NPU 0; ", "total capacity; ", "already allocated; ",
                     "reserved in total by PyTorch)", "max_split_size_mb"):
            assert part in text
        assert clean.memory_stats()["num_ooms"] >= 1 and seen and seen[-1][:2] == (0, 60 * MB)
        cached = torch.empty(20 * MB, dtype=torch.uint8, device="npu")
        del cached
        retry = torch.empty(24 * MB, dtype=torch.uint8, device="npu")  # the cache is freed for it
        assert kept.sum().item() == 7 * 32 * MB
        del kept, retry
        assert torch.empty(60 * MB, dtype=torch.uint8, device="npu").numel() == 60 * MB
    finally:
        clean.set_per_process_memory_fraction(1.0)
    assert clean.get_per_process_memory_fraction() == 1.0
    with pytest.raises(TypeError, match="Invalid type for fraction argument"):
        clean.set_per_process_memory_fraction(1)
    with pytest.raises(ValueError, match="Invalid fraction value: 2.0"):
        clean.set_per_process_memory_fraction(2.0)
    with pytest.raises(torch.OutOfMemoryError, match="Tried to allocate more than 1EB memory"):
        torch.empty(1 << 61, dtype=torch.uint8, device="npu")


def test_raw_blocks_are_counted(clean):
    before = clean.memory_allocated()
    address = clean.caching_allocator_alloc(1000)
    other = clean.caching_allocator_alloc(1000, stream=clean.Stream())
    assert address and other and clean.memory_allocated() - before == 2 * 1536
    clean.caching_allocator_delete(address)
    clean.caching_allocator_delete(other)
    assert clean.memory_allocated() == before
    with pytest.raises(TypeError, match="Invalid type for stream argument"):
        clean.caching_allocator_alloc(1000, stream="main")
    with pytest.raises(RuntimeError, match="invalid device pointer"):
        clean.caching_allocator_delete(12345)


def test_memory_is_reused_in_stream_order(clean):
    """A freed block returns to its stream at once, and to others not at all; record_stream() defers the return."""
    side = clean.Stream()
    first = torch.empty(3 * MB, dtype=torch.uint8, device="npu")
    address = first.data_ptr()
    del first
    with clean.stream(side):
        assert torch.empty(3 * MB, dtype=torch.uint8, device="npu").data_ptr() != address
    again = torch.empty(3 * MB, dtype=torch.uint8, device="npu")
    assert again.data_ptr() == address
    gate = clean.ExternalEvent()
    gate.wait(side)
    again.record_stream(side)
    other = clean.Stream()
    again.record_stream(other)
    clean._C.erase_stream(again, other.stream_id)
    gate_of_other = clean.ExternalEvent()
    gate_of_other.wait(other)
    del again
    assert torch.empty(3 * MB, dtype=torch.uint8, device="npu").data_ptr() != address
    gate.record(clean.Stream())
    side.synchronize()
    assert torch.empty(3 * MB, dtype=torch.uint8, device="npu").data_ptr() == address
    gate_of_other.record(clean.Stream())


def test_a_pool_has_segments_of_its_own(clean):
    pool = clean.MemPool()
    assert pool.id[0] == 0 and pool.use_count() == 1
    outer = torch.empty(3 * MB, dtype=torch.uint8, device="npu")
    with clean.use_mem_pool(pool):
        assert pool.use_count() == 2
        inner = torch.empty(3 * MB, dtype=torch.uint8, device="npu")
        with clean.use_mem_pool(clean.MemPool()):
            nested = torch.empty(3 * MB, dtype=torch.uint8, device="npu")
    blocks = {b["address"] for s in pool.snapshot() for b in s["blocks"]}
    assert inner.data_ptr() in blocks and not {outer.data_ptr(), nested.data_ptr()} & blocks
    assert clean.memory_reserved() > 0
    del inner, nested


ALLOCATOR = r"""
#include <stddef.h>
#include <stdio.h>
typedef void *aclrtStream;
int aclrtMalloc(void **, size_t, int);
int aclrtFree(void *);
int aclrtSynchronizeStream(aclrtStream);
int n_allocs, n_frees, n_bases;
size_t last_size;
void *recorded, *erased;
void *my_malloc(ptrdiff_t size, int device, aclrtStream stream)
{
    void *address = NULL;
    n_allocs++;
    last_size = (size_t)size;
    return aclrtMalloc(&address, (size_t)size, 0) == 0 ? address : NULL;
}
void my_free(void *address, ptrdiff_t size, int device, aclrtStream stream)
{
    n_frees++;
    aclrtSynchronizeStream(stream);
    aclrtFree(address);
}
void my_record(void *address, aclrtStream stream)
{
    recorded = address;
}
void my_erase(void *address, aclrtStream stream)
{
    erased = address;
}
void *my_base(void *address, size_t *size)
{
    n_bases++;
    *size = last_size;
    return address;
}
"""


@pytest.fixture(scope="session")
def allocator_library(tmp_path_factory):
    folder = tmp_path_factory.mktemp("allocator")
    source, library = folder / "a.c", folder / "a.so"
    source.write_text(ALLOCATOR)
    compile_library(source, library)
    return str(library)


def test_a_pluggable_allocator_in_a_pool_receives_segments(clean, allocator_library):
    import ctypes

    counters = ctypes.CDLL(allocator_library)
    pool = clean.MemPool(clean.memory.NPUPluggableAllocator(allocator_library, "my_malloc", "my_free")._allocator)
    with clean.use_mem_pool(pool):
        tensors = [torch.full((1000,), float(i), device="npu") for i in range(8)]
    assert [int(t.sum()) for t in tensors] == [1000 * i for i in range(8)]
    assert ctypes.c_int.in_dll(counters, "n_allocs").value == 1
    assert ctypes.c_size_t.in_dll(counters, "last_size").value == 2 * MB
    assert clean.get_allocator_backend() == "native"
    del tensors, pool
    clean.empty_cache()
    assert ctypes.c_int.in_dll(counters, "n_frees").value == 1
    with pytest.raises(RuntimeError, match="Can't swap an already initialized allocator"):
        clean.change_current_allocator(clean.NPUPluggableAllocator(allocator_library, "my_malloc", "my_free"))


def test_a_pluggable_allocator_as_current_receives_tensors(allocator_library):
    from test_devices import python

    assert python(
        "import ctypes, torch, aclmem.npu\n"
        "path = %r\n"
        "a = torch.npu.NPUPluggableAllocator(path, 'my_malloc', 'my_free')\n"
        "torch.npu.change_current_allocator(a)\n"
        "library = ctypes.CDLL(path)\n"
        "x = torch.ones(250, device='npu')\n"
        "y = (x + 1).sum().item()\n"
        "del x\n"
        "torch.npu.synchronize()\n"
        "n = [ctypes.c_int.in_dll(library, name).value for name in ('n_allocs', 'n_frees')]\n"
        "assert n[0] == n[1] and n[0] >= 2 and torch.npu.get_allocator_backend() == 'pluggable', n\n"
        "print(y)\n" % allocator_library) == "500.0\n"


def test_hooks_of_a_pluggable_allocator_are_called(allocator_library):
    from test_devices import python

    # The storage is kept until a receiver has ended with it.
    output = python(
        "import ctypes, torch, aclmem.npu\n"
        "path = %r\n"
        "a = torch.npu.NPUPluggableAllocator(path, 'my_malloc', 'my_free')\n"
        "library = ctypes.CDLL(path)\n"
        "for setter, name in (('record_stream', 'record'), ('erase_stream', 'erase'), ('base_alloc', 'base')):\n"
        "    function = ctypes.cast(getattr(library, 'my_' + name), ctypes.c_void_p).value\n"
        "    getattr(a.allocator(), 'set_%%s_fn' %% setter)(function)\n"
        "torch.npu.change_current_allocator(a)\n"
        "x, side = torch.empty(4 << 20, dtype=torch.uint8, device='npu'), torch.npu.Stream()\n"
        "x.record_stream(side)\n"
        "torch.npu._C.erase_stream(x, side.stream_id)\n"
        "shared = x.untyped_storage()._share_npu_()\n"
        "assert shared[1][:2] == b'\\x01c' and shared[3] == 0\n"
        "addresses = [ctypes.c_void_p.in_dll(library, name).value for name in ('recorded', 'erased')]\n"
        "print(addresses == [x.data_ptr()] * 2, ctypes.c_int.in_dll(library, 'n_bases').value > 0)\n"
        % allocator_library)
    assert output.startswith("True True\n"), output


def test_the_pool_of_aclmem_is_an_allocator():
    """libaclmem_pool holds little more than the blocks.  A graph keeps its memory, and may end during a later capture."""
    from test_devices import python

    output = python("""
import torch, aclmem.npu, aclmem.torch
npu, MB = torch.npu, 1 << 20
aclmem.torch.install("npu")
blocks = [torch.full((n * MB,), n, dtype=torch.uint8, device="npu") for n in (1, 3, 25)]
assert [int(b.long().sum()) // (n * MB) for b, n in zip(blocks, (1, 3, 25))] == [1, 3, 25]
assert npu.memory_allocated() == npu.memory.memory_allocated() == 29 * MB and npu.get_allocator_backend() == "pluggable"
npu.synchronize()
npu.empty_cache()
assert npu.memory_reserved() == 30 * MB, npu.memory_reserved()
x, graphs, results = torch.ones(1000, device="npu"), [], []
for i in range(3):
    graph = npu.NPUGraph()
    with npu.graph(graph):
        if i == 1:
            del graphs[0], results[0]
        y = x + i
        z = y * 2
        del y
        w = z + 1
    graphs.append(graph), results.append(w)
x.fill_(5)
for graph in graphs: graph.replay()
print([r[0].item() for r in results])
try:
    torch.empty(1 << 45, dtype=torch.uint8, device="npu")
except torch.OutOfMemoryError as error:
    print("bytes (33554432.0 MB) asked for" in str(error))
""")
    assert output.startswith("[13.0, 15.0]\nTrue\n"), output


def test_settings_are_checked(clean):
    with pytest.raises(Exception, match="[Uu]nsupported setting|[Uu]nrecognized"):
        clean.memory._set_allocator_settings("colour:blue")
    clean.memory._set_allocator_settings("expandable_segments:False")


def test_pinned_memory_is_cached_and_asynchronous(clean):
    host = torch.arange(1000.0).pin_memory()
    assert host.is_pinned() and not torch.arange(3).is_pinned()
    # With a GPU, PyTorch pins this memory for the GPU.
    assert torch.empty(3, pin_memory=True).is_pinned() or torch.cuda.is_available()
    device = host.to("npu", non_blocking=True)
    assert not device.is_pinned()
    with pytest.raises(RuntimeError, match="cannot pin '.*' only dense CPU tensors can be pinned"):
        device.pin_memory()
    back = torch.empty(1000).pin_memory()
    gate, side = clean.ExternalEvent(), clean.Stream()
    back.fill_(-1)
    gate.wait(side)
    with clean.stream(side):
        back.copy_(device, non_blocking=True)
    assert back[5] == -1
    gate.record(clean.Stream())
    side.synchronize()
    assert back[5] == 5
    stats = clean.host_memory_stats()
    assert stats["allocations.current"] >= 2 and "num_host_alloc" in stats
    del host, back
    clean.host_empty_cache()
    assert clean.host_memory_stats()["allocated_bytes.current"] <= stats["allocated_bytes.current"]


def test_a_pinned_block_is_not_reused_before_the_copy_ran(clean):
    gate, side = clean.ExternalEvent(), clean.Stream()
    target = torch.zeros(4096, device="npu")
    clean.synchronize()
    gate.wait(side)
    source = torch.full((4096,), 3.0).pin_memory()
    with clean.stream(side):
        target.copy_(source, non_blocking=True)
    address = source.data_ptr()
    del source
    other = torch.full((4096,), 9.0).pin_memory()
    assert other.data_ptr() != address
    gate.record(clean.Stream())
    side.synchronize()
    assert target.sum().item() == 3 * 4096


def test_pageable_memory_may_change_after_the_call(clean):
    gate, side = clean.ExternalEvent(), clean.Stream()
    source, target = torch.ones(100), torch.zeros(100, device="npu")
    clean.synchronize()
    side.wait_stream(clean.current_stream())
    gate.wait(side)
    gate.record(clean.Stream())
    with clean.stream(side):
        target.copy_(source, non_blocking=True)
    source.fill_(5)
    side.synchronize()
    assert target.sum().item() == 100


def test_memory_that_is_not_touched_costs_nothing(clean):
    """Large allocations are normal in tests of torch_npu."""
    size = min(8 << 30, clean.mem_get_info()[0] // 2)
    before = int(open("/proc/self/statm").read().split()[1])
    tensor = torch.empty(size, dtype=torch.uint8, device="npu")
    assert tensor.numel() == size
    after = int(open("/proc/self/statm").read().split()[1])
    assert (after - before) * os.sysconf("SC_PAGESIZE") < 256 * MB
