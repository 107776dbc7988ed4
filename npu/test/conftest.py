"""Tests of the device npu.  They need PyTorch, the extension and the command aclmem (NPU_TEST_COMMAND, or in PATH)."""
import json
import os
import shutil
import subprocess
import sys
import tempfile

import pytest

# Some virtual machines report AMX and do not allow it: bfloat16 products of the CPU then end with an illegal instruction.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX2")
# Debian's PyTorch loads UCX, whose handler of SIGSEGV would replace that of race.host.
os.environ.setdefault("UCX_HANDLE_ERRORS", "none")
torch = pytest.importorskip("torch", reason="PyTorch is not installed")

HERE = os.path.dirname(os.path.abspath(__file__))
# The size of each long test: 1 is what make check-torch runs, more is for a machine with time.
SCALE = float(os.environ.get("NPU_TEST_SCALE", "1"))


def pytest_configure(config):
    torch.set_num_threads(1)


@pytest.fixture
def npu():
    """torch.npu, with nothing queued before and after."""
    import aclmem.npu

    torch.npu.synchronize()
    yield aclmem.npu
    torch.npu.synchronize()


def command():
    found = os.environ.get("NPU_TEST_COMMAND") or shutil.which("aclmem")
    if not found:
        pytest.fail("the command aclmem is neither NPU_TEST_COMMAND nor in PATH")
    return found


def compile_library(source, library):
    """A shared library of a C file that uses libascendcl.so."""
    import aclmem.npu  # noqa: F401

    with open("/proc/self/maps", encoding="utf-8") as maps:
        lib64 = next(os.path.dirname(line.split()[-1]) for line in maps if "/libascendcl.so" in line)
    include = os.path.join(HERE, "..", "..", "include")
    subprocess.check_call(["cc", "-w", "-shared", "-fPIC", "-I", include, "-o", str(library), str(source), "-L", lib64,
                           "-lascendcl"])


class Run:
    """A program under `aclmem run`: its output, exit code and findings."""

    def __init__(self, program, *arguments, options=(), variables=None, timeout=600):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "findings.json")
            words = [command(), "run", "--json=" + path, "--exit-code", "0", *options, sys.executable, program, *arguments]
            done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True,
                                  timeout=timeout, env=dict(os.environ, **(variables or {})))
            self.output, self.errors, self.code = done.stdout, done.stderr, done.returncode
            self.report = {}
            if os.path.exists(path):
                with open(path, encoding="utf-8") as file:
                    self.report = json.load(file)

    @property
    def findings(self):
        return self.report.get("findings", [])


@pytest.fixture
def run_program():
    def run(name, *arguments, **more):
        return Run(os.path.join(HERE, name), *arguments, **more)

    return run
