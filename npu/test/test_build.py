"""The build: wheels, and versions that do not fit."""
import os
import subprocess
import sys
import zipfile

from conftest import HERE

IMPORT = "import aclmem.npu, torch; print(torch.ones(3, device='npu').sum().item())"


def package():
    import aclmem.npu

    return os.path.dirname(aclmem.npu.__file__)


def run(text, folder=None):
    done = subprocess.run([sys.executable, "-c", text], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          universal_newlines=True, env=dict(os.environ, **({"PYTHONPATH": str(folder)} if folder else {})))
    return done.returncode, done.stdout


def test_another_version_of_pytorch_is_named():
    code, output = run("import torch; torch.__version__ = '1.2.3'\n" + IMPORT)
    assert code != 0 and "and this is PyTorch 1.2.3 and Python" in output and "aclmem.npu was built for PyTorch" in output, output


def test_another_version_of_python_is_named():
    code, output = run("import sys, torch; sys.version_info = (3, 4, 0)\n" + IMPORT)
    assert code != 0 and "and Python 3.4: build it again" in output, output


def test_a_package_that_is_not_built_says_so():
    code, output = run(IMPORT, os.path.join(HERE, ".."))
    assert code != 0 and "aclmem.npu is not built" in output and "docs/TORCH.md" in output, output


def test_a_wheel_has_all_files_and_works_beside_the_library(npu, tmp_path):
    sys.path.insert(0, os.path.join(HERE, ".."))
    try:
        import build
    finally:
        sys.path.pop(0)
    build.pack_wheel(package(), "9.9.9", str(tmp_path))
    wheel, = tmp_path.glob("aclmem_npu-9.9.9+torch*.whl")
    site = tmp_path / "site"
    with zipfile.ZipFile(wheel) as file:
        names = set(file.namelist())
        file.extractall(site)
    assert {"aclmem/npu/__init__.py", "aclmem/npu/stand_in/torch_npu/__init__.py"} <= names
    record = (site / next(n for n in names if n.endswith("RECORD"))).read_text()
    assert {line.split(",")[0] for line in record.splitlines()} == names
    with open("/proc/self/maps", encoding="utf-8") as maps:
        library = next(line.split()[-1] for line in maps if "/libascendcl.so" in line)
    lib64 = os.path.dirname(library)
    (site / "aclmem" / "lib64").symlink_to(lib64)
    (site / "aclmem.libs").symlink_to(os.path.join(lib64, "..", "..", "aclmem.libs"))  # of a wheel
    assert run(IMPORT, site) == (0, "3.0\n")
