"""The wheel: what is in it, and that pip installs it without a network into an environment of its own."""
import os
import re
import shutil
import subprocess
import sys
import zipfile

import pytest

import acl
import facts


def run(*command, **environment):
    env = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "LD_LIBRARY_PATH")}
    env.update(environment)
    done = subprocess.run(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True,
                          timeout=250)
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """A wheel of the module that is tested."""
    folder = tmp_path_factory.mktemp("wheel")
    library = os.path.join(facts.PACKAGE, "..", "..", "lib64", "libascendcl.so")
    said = run(sys.executable, "-B", os.path.join(facts.ROOT, "python", "wheel.py"), acl.__version__, facts.PACKAGE,
               library, facts.ROOT, str(folder))
    return said.strip()


def test_the_wheel_has_the_module_the_library_and_the_stubs(wheel):
    with zipfile.ZipFile(wheel) as packed:
        names = packed.namelist()
        record = packed.read("aclmem-%s.dist-info/RECORD" % acl.__version__).decode()
    for name in ("acl/__init__.pyi", "acl/rt.pyi", "acl/util.pyi", "acl/sys.pyi", "acl/py.typed", "acl/libascendcl.so"):
        assert name in names
    assert [n for n in names if n.startswith("acl/__init__.c") and n.endswith(".so")]
    assert sorted(line.split(",")[0] for line in record.splitlines()) == sorted(names)


def test_the_wheel_names_the_packages_that_its_library_needs(wheel, tmp_path):
    with zipfile.ZipFile(wheel) as packed:
        metadata = packed.read("aclmem-%s.dist-info/METADATA" % acl.__version__).decode()
        library = packed.extract("acl/libascendcl.so", str(tmp_path))
    needed = re.findall(r"\(NEEDED\).*\[(\w+)\.so\.(\d+)\]", run("readelf", "-dW", library, LC_ALL="C"))
    packages = {name + number for name, number in needed if name != "libc"}
    assert packages == set(re.findall(r"^Requires-External: (.*)$", metadata, flags=re.M))
    with open(os.path.join(facts.ROOT, "README.md"), encoding="utf-8") as readme:
        row = next(line for line in readme if "make wheel" in line)
    assert packages and all(name in row for name in packages)


def test_a_module_for_another_python_is_not_packed(tmp_path):
    package = shutil.copytree(facts.PACKAGE, tmp_path / "acl")
    (package / "__init__.cpython-399-somewhere.so").touch()
    library = os.path.join(facts.PACKAGE, "..", "..", "lib64", "libascendcl.so")
    packed = run(sys.executable, "-B", os.path.join(facts.ROOT, "python", "wheel.py"), acl.__version__, str(package),
                 library, facts.ROOT, str(tmp_path)).strip()
    with zipfile.ZipFile(packed) as wheel:
        modules = [n for n in wheel.namelist() if n.startswith("acl/__init__.") and n.endswith(".so")]
    assert modules == ["acl/" + os.path.basename(acl.__file__)]


def test_the_same_input_gives_the_same_wheel(wheel, tmp_path):
    library = os.path.join(facts.PACKAGE, "..", "..", "lib64", "libascendcl.so")
    again = run(sys.executable, "-B", os.path.join(facts.ROOT, "python", "wheel.py"), acl.__version__, facts.PACKAGE,
                library, facts.ROOT, str(tmp_path)).strip()
    with open(wheel, "rb") as one, open(again, "rb") as two:
        assert one.read() == two.read()


def test_pip_installs_it_without_a_network(wheel, tmp_path):
    venv = tmp_path / "venv"
    without = {"LD_PRELOAD": ""}  # a sanitizer would only slow pip down
    run(sys.executable, "-m", "venv", str(venv), **without)
    python = str(venv / "bin" / "python")
    run(python, "-m", "pip", "install", "-q", "--no-index", "--disable-pip-version-check", wheel, **without)
    said = run(python, os.path.join(facts.ROOT, "examples", "seven_steps.py"))
    assert "7 release" in said
    where = run(python, "-c", "import acl; print(acl.__file__); print([l.split()[-1] for l in open('/proc/self/maps') "
                              "if 'libascendcl' in l][0])").split()
    assert all(path.startswith(str(venv)) for path in where)
    run(python, "-m", "pip", "uninstall", "-q", "-y", "aclmem", **without)
    assert not list(venv.rglob("acl/*.so"))
