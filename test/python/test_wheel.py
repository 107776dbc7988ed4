"""The wheel: what is in it, and that pip installs it without a network into an environment of its own."""
import os
import re
import subprocess
import sys
import tarfile
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


BUILD = os.path.abspath(os.path.join(facts.PACKAGE, "..", ".."))
PACKER = os.path.join(facts.ROOT, "python", "wheel.py")


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    """What a wheel is made of: an installed tree."""
    folder = str(tmp_path_factory.mktemp("tree"))
    run("cmake", "--install", BUILD, "--prefix", folder)
    return folder


@pytest.fixture(scope="module")
def wheel(tree, tmp_path_factory):
    """A wheel of the build that is tested."""
    return run(sys.executable, "-B", PACKER, acl.__version__, tree, facts.ROOT, str(tmp_path_factory.mktemp("wheel"))).strip()


@pytest.fixture(scope="module")
def unpacked(wheel, tmp_path_factory):
    folder = tmp_path_factory.mktemp("unpacked")
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(folder)
    return folder


def elves(folder):
    return [p for p in sorted(folder.rglob("*")) if p.is_file() and p.read_bytes()[:4] == b"\x7fELF"]


def needed_by(path):
    return re.findall(r"\(NEEDED\).*\[(.*)\]", run("readelf", "-dW", str(path), LC_ALL="C"))


def test_the_wheel_has_the_module_the_library_the_command_and_the_stubs(wheel):
    with zipfile.ZipFile(wheel) as packed:
        names = packed.namelist()
        record = packed.read("aclmem-%s.dist-info/RECORD" % acl.__version__).decode()
    for name in ("acl/__init__.pyi", "acl/mdl.pyi", "acl/rt.pyi", "acl/util.pyi", "acl/sys.pyi", "acl/py.typed", "aclmem/bin/aclmem",
                 "aclmem/lib64/libascendcl.so", "aclmem/include/acl/acl.h"):
        assert name in names
    assert "acl/" + os.path.basename(acl.__file__) in names
    assert sorted(line.split(",")[0] for line in record.splitlines()) == sorted(names)


def test_the_wheel_carries_all_libraries_but_the_compilers_and_the_c_library(unpacked):
    files = elves(unpacked)
    carried = {p.name for p in files}
    of_the_system = {"libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "libgcc_s.so.1", "libstdc++.so.6"}
    for path in files:
        assert set(needed_by(path)) - {n for n in needed_by(path) if n.startswith("ld-linux")} <= carried | of_the_system
    assert any(name.startswith("libjansson-") for name in carried)
    assert any(name.startswith("libnuma-") for name in carried)


def test_no_file_asks_for_a_stack_that_can_be_executed(unpacked):
    """Since version 2.41 the C library does not load one that does; a file that does not say asks for it."""
    for path in elves(unpacked):
        assert re.search(r"GNU_STACK .* RW  ", run("readelf", "-lW", str(path), LC_ALL="C")), path


def test_the_tag_names_the_newest_glibc_that_a_file_asks_for(wheel, unpacked):
    versions = re.findall(r"GLIBC_2\.(\d+)", "".join(run("readelf", "-VW", str(p)) for p in elves(unpacked)))
    assert "-manylinux_2_%d_%s.whl" % (max(map(int, versions)), os.uname().machine) in wheel


def test_one_wheel_is_for_all_pythons(wheel):
    if sys.version_info < (3, 11):
        pytest.skip("the headers of this Python do not have all of the limited API that the module uses")
    assert "-cp39-abi3-" in wheel


def test_the_module_uses_only_what_python_3_9_has(unpacked):
    """test/python/abi3.txt has the names that were looked up in a Python 3.9."""
    if sys.version_info < (3, 11):
        pytest.skip("the module is for this Python alone")
    known = set(facts.read("test/python/abi3.txt").split())
    said = run("nm", "-D", "--undefined-only", str(unpacked / "acl" / "__init__.abi3.so"))
    used = set(re.findall(r"\bU (_?Py\w+)", said))
    assert used <= known, "see that Python 3.9 exports these, then add them to the list: %s" % (used - known)


def test_the_same_input_gives_the_same_wheel(tree, wheel, tmp_path):
    again = run(sys.executable, "-B", PACKER, acl.__version__, tree, facts.ROOT, str(tmp_path)).strip()
    with open(wheel, "rb") as one, open(again, "rb") as two:
        assert one.read() == two.read()


def test_every_library_that_is_carried_has_its_licence(unpacked):
    carried = {re.sub(r"-[0-9a-f]{8}\.so.*", "", path.name) for path in unpacked.glob("aclmem.libs/*")}
    licences = {path.name: path.read_text(encoding="utf-8") for path in unpacked.glob("aclmem-*.dist-info/licenses/*")}
    for library, words in (("libjansson", "Petri Lehtinen"), ("libz", "Jean-loup Gailly"), ("libdw", "GPL")):
        assert library in carried
        assert [name for name, text in licences.items() if words in text], (library, sorted(licences))
    assert len(licences) >= 5 and all(licences.values()), sorted(licences)


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
    plugins = "import importlib.metadata as m; print([e.value for e in m.distribution('aclmem').entry_points if e.group == 'pytest11'])"
    assert run(python, "-c", plugins).strip() == "['aclmem.pytest_plugin']"
    command = str(venv / "bin" / "aclmem")
    said = run(command, "run", python, os.path.join(facts.ROOT, "test", "install", "client.py"))
    assert said.splitlines()[0] == "written"
    client = str(tmp_path / "client")
    root = run(python, "-c", "import aclmem; print(aclmem.root())").strip()
    run("cc", "-I%s/include" % root, os.path.join(facts.ROOT, "test", "install", "client.c"), "-o", client,
        "-L%s/lib64" % root, "-lascendcl", "-ldl")
    for name in ("libascendcl.so", "libascendcl.so.1", "libruntime.so"):
        run(command, "run", client, name)
    run(python, "-m", "pip", "uninstall", "-q", "-y", "aclmem", **without)
    assert not list(venv.rglob("acl/*.so")) and not list(venv.rglob("*aclmem*"))


def test_the_sources_are_packed_with_all_that_a_build_needs(tmp_path):
    packed = run(sys.executable, "-B", os.path.join(facts.ROOT, "python", "backend.py"), str(tmp_path)).strip()
    with tarfile.open(packed) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"PKG-INFO", "pyproject.toml", "CMakeLists.txt", "python/backend.py", "src/api/api.def", "LICENSE"} <= names
    assert not [name for name in names if name.startswith("build/")]
