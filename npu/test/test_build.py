"""The build: wheels, and versions that do not fit."""
import os
import subprocess
import sys
import zipfile

from conftest import HERE

sys.path.insert(0, os.path.join(HERE, ".."))
import build  # noqa: E402

sys.path.pop(0)

IMPORT = "import aclmem.npu, torch; print(torch.ones(3, device='npu').sum().item())"


def package():
    import aclmem.npu

    return os.path.dirname(aclmem.npu.__file__)


def run(text, folder=None):
    done = subprocess.run([sys.executable, "-c", text], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          universal_newlines=True, env=dict(os.environ, **({"PYTHONPATH": str(folder)} if folder else {})))
    return done.returncode, done.stdout


def library_folder():
    with open("/proc/self/maps", encoding="utf-8") as maps:
        return next(os.path.dirname(line.split()[-1]) for line in maps if "/libascendcl.so" in line)


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
    build.pack_wheel(package(), "9.9.9", str(tmp_path))
    wheel, = tmp_path.glob("aclmem_npu-9.9.9+torch*.whl")
    site = tmp_path / "site"
    with zipfile.ZipFile(wheel) as file:
        names = set(file.namelist())
        file.extractall(site)
    assert {"aclmem/npu/__init__.py", "aclmem/npu/stand_in/torch_npu/__init__.py"} <= names
    record = (site / next(n for n in names if n.endswith("RECORD"))).read_text()
    assert {line.split(",")[0] for line in record.splitlines()} == names
    lib64 = library_folder()
    (site / "aclmem" / "lib64").symlink_to(lib64)
    (site / "aclmem.libs").symlink_to(os.path.join(lib64, "..", "..", "aclmem.libs"))  # of a wheel
    assert run(IMPORT, site) == (0, "3.0\n")


def test_a_compiler_that_links_the_cxx_library_statically_does_no_harm(npu, tmp_path, monkeypatch):
    source, target = tmp_path / "print.cpp", str(tmp_path / "print.so")
    source.write_text("""
        #include <c10/util/Exception.h>
        #include <cstring>
        extern "C" __attribute__((visibility("default"))) int is_right(int number)
        {
            try {
                TORCH_CHECK(false, "the number ", number);
            } catch (const std::exception &error) {
                return strstr(error.what(), "the number 42") != nullptr;
            }
        }
        """)
    monkeypatch.setenv("LDFLAGS", "-static-libstdc++")
    build.link(target, [build.compile_one(str(source), str(tmp_path), build.flags())], library_folder())
    assert run("import aclmem.npu, ctypes; print(ctypes.CDLL(%r).is_right(42))" % target) == (0, "1\n")
