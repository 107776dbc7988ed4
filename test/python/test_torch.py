"""aclmem.torch with a stand-in for PyTorch, which does what PyTorch does with a pluggable allocator."""
import os
import subprocess
import sys
import textwrap

import pytest

aclmem_torch = pytest.importorskip("aclmem.torch")

STAND_IN = '''
import ctypes

class Inside:
    """torch._C's object: the two functions, and the hooks by their addresses."""
    def __init__(self, path, malloc, free):
        library = ctypes.CDLL(path)
        self.hooks = {}
        self.malloc = getattr(library, malloc)
        self.malloc.restype = ctypes.c_void_p
        self.malloc.argtypes = [ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p]
        self.free = getattr(library, free)
        self.free.argtypes = [ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p]

    def set_init_fn(self, address): self.hooks["init"] = address
    def set_reset_fn(self, address): self.hooks["reset"] = address
    def set_record_stream_fn(self, address): self.hooks["record_stream"] = address

class PluggableAllocator:
    def __init__(self, path, malloc, free):
        self._allocator = Inside(path, malloc, free)

current = None
is_initialized = False

def change_current_allocator(allocator):
    global current
    if is_initialized:
        raise RuntimeError("Can't swap an already initialized allocator")
    current = allocator

def current_device(): return 0
def memory_allocated(device=None): raise RuntimeError("not supported by pluggable allocators")
max_memory_allocated = memory_reserved = memory_stats = memory_allocated
memory_summary = memory_snapshot = reset_peak_memory_stats = memory_allocated
'''

NPU = """
import torch_npu, aclmem.torch
allocator = aclmem.torch.install("npu")
assert aclmem.torch.install("npu") is allocator
assert torch_npu.npu.memory_allocated() == 0
inside = torch_npu.npu.current._allocator
assert sorted(inside.hooks) == ["init", "reset"], inside.hooks  # a C++ stream is no argument for C
ptr = inside.malloc(5 << 20, 0, None)
assert torch_npu.npu.memory_allocated() == 5 << 20
assert torch_npu.npu.memory_reserved() == 6 << 20
stats = torch_npu.npu.memory_stats()
assert stats["allocated_bytes.all.current"] == 5 << 20 and stats["allocation.all.current"] == 1
assert stats["active.all.current"] == 1 and stats["segment.small_pool.peak"] == 0 and stats["num_device_alloc"] == 0
assert [b["size"] for b in torch_npu.npu.memory_snapshot()] == [5 << 20]
assert "1 blocks, 5.0 MB live" in torch_npu.npu.memory_summary()
inside.free(ptr, 5 << 20, 0, None)
assert torch_npu.npu.memory_allocated() == 0
assert torch_npu.npu.max_memory_allocated() == 5 << 20
torch_npu.npu.reset_peak_memory_stats("npu:0")
assert torch_npu.npu.max_memory_allocated("npu:0") == 0
print("good")
"""


def run(tmp_path, program, **env):
    """In a process of its own, with stand-ins for torch and torch_npu."""
    for name in ("torch/cuda", "torch_npu"):
        (tmp_path / name).mkdir(parents=True, exist_ok=True)
    (tmp_path / "torch/__init__.py").write_text("from . import cuda\n")
    (tmp_path / "torch/cuda/__init__.py").write_text(
        "from . import memory\nfrom .memory import *\n")
    (tmp_path / "torch/cuda/memory.py").write_text(STAND_IN + "CUDAPluggableAllocator = PluggableAllocator\n")
    (tmp_path / "torch_npu/__init__.py").write_text("from . import npu\n")
    (tmp_path / "torch_npu/npu.py").write_text(STAND_IN + "NPUPluggableAllocator = PluggableAllocator\n")
    env = dict(os.environ, PYTHONPATH="%s:%s" % (tmp_path, os.environ.get("PYTHONPATH", "")), **env)
    env.setdefault("ACLMEM_MEMORY", "1G")
    return subprocess.run([sys.executable, "-B", "-c", textwrap.dedent(program)], env=env, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, universal_newlines=True)


def test_importing_it_touches_nothing():
    done = subprocess.run([sys.executable, "-B", "-c", "import sys, aclmem.torch; print('torch' in sys.modules)"],
                          stdout=subprocess.PIPE, universal_newlines=True)
    assert done.stdout == "False\n"


def test_the_pool_serves_torch_npu_and_tells_figures(tmp_path):
    done = run(tmp_path, NPU)
    assert (done.returncode, done.stdout) == (0, "good\n"), done.stderr


def test_installing_late_says_why(tmp_path):
    done = run(tmp_path, "import torch_npu.npu as n, aclmem.torch; n.is_initialized = True; aclmem.torch.install('npu')")
    assert done.returncode == 1
    assert "comes too late" in done.stderr


def test_without_a_driver_cuda_is_refused(tmp_path):
    done = run(tmp_path, "import aclmem.torch; aclmem.torch.install()", LD_LIBRARY_PATH="")
    if done.returncode == 0:
        pytest.skip("this machine has an NVIDIA driver")
    assert "there is no NVIDIA driver" in done.stderr


def test_memory_that_a_gpu_cannot_use_is_refused(tmp_path):
    done = run(tmp_path, "import aclmem.torch; aclmem.torch.install()", ACLMEM_BACKEND="host")
    assert done.returncode == 1
    assert 'ACLMEM_BACKEND is "host"' in done.stderr


def test_a_framework_that_is_not_there_is_named(monkeypatch):
    for backend, name in (("cuda", "torch"), ("npu", "torch_npu")):
        monkeypatch.setitem(sys.modules, name, None)
        with pytest.raises(ImportError, match="install\\(\\) needs %s" % name):
            aclmem_torch.install(backend)


def test_a_wrong_backend_is_refused():
    with pytest.raises(ValueError):
        aclmem_torch.install("tpu")


def test_a_missing_library_is_named(monkeypatch):
    monkeypatch.setenv("ACLMEM_TORCH_LIBRARY", "/nowhere/lib.so")
    with pytest.raises(OSError, match="/nowhere/lib.so"):
        aclmem_torch.library_path()
