#!/usr/bin/env python3
"""Builds aclmem.npu for the PyTorch of this Python:  build.py FOLDER VERSION [WHEELS]

    FOLDER/aclmem/npu/              the package, with its extension _C
    FOLDER/aclmem/npu/stand_in/     the stand-in for torch_npu, for PYTHONPATH of `aclmem run --torch-npu`: torch_npu/, and its
                                    version with the entry point by which `import torch` loads it
    WHEELS/aclmem_npu-*.whl         the package as a wheel, if WHEELS is given

PyTorch with its headers, Python's headers, a C++ compiler and pybind11 are needed, and nothing else.  What differs between
versions of PyTorch is found out by compiling small programs.  CXX, CXXFLAGS and LDFLAGS are used as by make; ACLMEM_LIB is
the folder of libascendcl.so for the link (default: FOLDER/../lib64).
"""
import concurrent.futures
import hashlib
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile

import torch

HERE = os.path.dirname(os.path.abspath(__file__))
TORCH = os.path.dirname(os.path.abspath(torch.__file__))
COMPILER = shlex.split(os.environ.get("CXX") or "c++")
# Beside a wheel's library, in build/, and in an installed tree.
RPATH = ":".join("$ORIGIN/" + up + "lib64" for up in ("../", "../../../", "../../../../"))

HOOKS = "#include <ATen/detail/PrivateUse1HooksInterface.h>\n"
GUARD = "#include <c10/core/impl/DeviceGuardImplInterface.h>\n"
ALLOCATOR = "#include <c10/core/CachingDeviceAllocator.h>\n"

# The macro is 1 where the program compiles.
PROBES = {
    "NPU_HAS_DEVICE_ALLOCATOR": ALLOCATOR + "static c10::DeviceAllocator *p;",
    "NPU_HAS_MEMORY_INFO": ALLOCATOR + "auto f(c10::DeviceAllocator &a) { return a.getMemoryInfo(0); }",
    "NPU_HAS_HOST_ALLOCATOR": "#include <ATen/core/CachingHostAllocator.h>\nstatic at::HostAllocator *p;",
    "NPU_HAS_GRAPH_IMPL": "#include <ATen/core/GraphImplInterface.h>\nauto f() { return at::GraphImplRegistry(); }",
    "NPU_HAS_IS_BUILT": HOOKS + "bool f(at::PrivateUse1HooksInterface &h) { return h.isBuilt(); }",
    "NPU_HAS_CAPABILITY": GUARD + "auto f(c10::impl::DeviceGuardImplInterface &g) { return g.getDeviceCapability("
                                  "c10::Device(c10::kCPU)); }",
    "NPU_HAS_STREAM_CAPTURING": GUARD + "bool f(c10::impl::DeviceGuardImplInterface &g, c10::Stream s)"
                                        " { return g.isStreamCapturing(s); }",
}


def includes():
    folders = [os.path.join(TORCH, "include"), os.path.join(TORCH, "include", "torch", "csrc", "api", "include"),
               sysconfig.get_paths()["include"]]
    return [word for folder in folders for word in ("-isystem", folder)]


def compiles(standard, program):
    """Whether the compiler accepts the program."""
    with tempfile.NamedTemporaryFile("w", suffix=".cpp") as source:
        source.write(program)
        source.flush()
        command = [*COMPILER, standard, "-w", "-fsyntax-only", *includes(), source.name]
        return subprocess.run(command, stderr=subprocess.DEVNULL, check=False).returncode == 0


def flags():
    """The options of the compiler: the language, and what this PyTorch has."""
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        is_17 = compiles("-std=c++17", HOOKS)
        standard = "-std=c++17" if is_17 else "-std=c++20"
        has = list(pool.map(lambda program: compiles(standard, program), PROBES.values()))
    if not is_17 and not compiles(standard, HOOKS):
        subprocess.run([*COMPILER, standard, "-fsyntax-only", *includes(), os.path.join(HERE, "csrc", "guard.cpp"),
                        "-I" + os.path.join(HERE, "..", "include")], check=False)
        sys.exit("aclmem.npu: the compiler does not accept the headers of PyTorch in %s" % TORCH)
    result = [standard, "-O2", "-g1", "-Wall", "-Wno-dangling-reference", "-fvisibility=hidden", "-fPIC",
              "-DTORCH_EXTENSION_NAME=_C", "-D_GLIBCXX_USE_CXX11_ABI=%d" % torch._C._GLIBCXX_USE_CXX11_ABI]
    for name in ("COMPILER_TYPE", "STDLIB", "BUILD_ABI"):  # PyTorch's own module says with which pybind11 it was built
        value = getattr(torch._C, "_PYBIND11_" + name, None)
        result += ['-DPYBIND11_%s="%s"' % (name, value)] if value else []
    result += ["-D%s=%d" % (macro, is_there) for macro, is_there in zip(PROBES, has)]
    return result + ["-I" + os.path.join(HERE, "..", "include"), *includes(), *shlex.split(os.environ.get("CXXFLAGS", ""))]


def is_current(target, depends):
    """Whether the object is newer than the files that its compilation read."""
    if not os.path.exists(target) or not os.path.exists(depends):
        return False
    with open(depends, encoding="utf-8") as file:
        names = file.read().replace("\\\n", " ").split()[1:]
    return all(os.path.exists(name) and os.path.getmtime(name) <= os.path.getmtime(target) for name in names)


def compile_one(source, objects, options):
    name = hashlib.sha256(" ".join([*COMPILER, *options]).encode()).hexdigest()[:12] + "." + os.path.basename(source)
    target, depends = (os.path.join(objects, name + suffix) for suffix in (".o", ".d"))
    if not is_current(target, depends):
        subprocess.run([*COMPILER, *options, "-MMD", "-MF", depends, "-c", source, "-o", target], check=True)
    return target


def standard_library():
    """The C++ library that PyTorch uses, in a list.  A compiler that links a copy into each library must not do so here: the
    copies find each other's tables by the names of symbols, and printing a number then ends the process."""
    with open("/proc/self/maps", encoding="utf-8") as maps:
        return sorted({line.split(None, 5)[5].strip() for line in maps if "/libstdc++.so" in line})


def link(target, objects, lib64):
    # A new file: the old one may be in use.
    subprocess.run([*COMPILER, "-shared", "-o", target + ".new", *objects, *standard_library(), "-L" + lib64,
                    "-L" + os.path.join(TORCH, "lib"), "-lascendcl", "-ltorch_python", "-ltorch", "-ltorch_cpu", "-lc10",
                    "-Wl,-rpath," + RPATH, *shlex.split(os.environ.get("LDFLAGS", ""))], check=True)
    os.replace(target + ".new", target)


def build_extension(package, lib64):
    """Compiles csrc/ in parallel and links package/_C.*.so."""
    options, csrc = flags(), os.path.join(HERE, "csrc")
    objects = os.path.join(package, "..", "..", "..", "npu.objects")
    os.makedirs(objects, exist_ok=True)
    sources = sorted(os.path.join(csrc, name) for name in os.listdir(csrc) if name.endswith(".cpp"))
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        compiled = list(pool.map(lambda source: compile_one(source, objects, options), sources))
    link(os.path.join(package, "_C" + sysconfig.get_config_var("EXT_SUFFIX")), compiled, lib64)


def text_write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def copy_package(package, version):
    """The Python files, and the stand-in with the information of a distribution."""
    stand_in = os.path.join(package, "stand_in")
    shutil.rmtree(stand_in, ignore_errors=True)
    ignored = shutil.ignore_patterns("__pycache__", "*.pyc")
    shutil.copytree(os.path.join(HERE, "aclmem", "npu"), package, ignore=ignored, dirs_exist_ok=True)
    shutil.copytree(os.path.join(HERE, "torch_npu"), os.path.join(stand_in, "torch_npu"), ignore=ignored)
    information = os.path.join(stand_in, "torch_npu-%s.dist-info" % version)
    text_write(os.path.join(information, "METADATA"), "Metadata-Version: 2.1\nName: torch_npu\nVersion: %s\n"
               "Summary: aclmem's stand-in for torch_npu\n" % version)
    text_write(os.path.join(information, "entry_points.txt"), "[torch.backends]\ntorch_npu = torch_npu:_autoload\n")
    text_write(os.path.join(package, "built_for.py"), '"""What the extension was built for."""\nTORCH = "%s"\nPYTHON = "%d.%d"\n' %
               ((torch.__version__,) + sys.version_info[:2]))


def pack_wheel(package, version, folder):
    """A wheel for this version of PyTorch and of Python."""
    sys.path.insert(0, os.path.join(HERE, "..", "python"))  # before a distribution of this name
    import wheel

    release = torch.__version__.split("+")[0]
    version += "+torch" + release
    tag = "cp{0}{1}-cp{0}{1}-linux_{2}".format(*sys.version_info[:2], os.uname().machine)
    os.makedirs(folder, exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary:
        stage = wheel.Stage(temporary, temporary)
        shutil.copytree(package, os.path.join(temporary, "aclmem", "npu"), ignore=shutil.ignore_patterns("__pycache__"))
        information = stage.path("aclmem_npu-%s.dist-info/METADATA" % version)
        text_write(information, "Metadata-Version: 2.1\nName: aclmem-npu\nVersion: %s\nLicense: Apache-2.0\n"
                   "Summary: The PyTorch device npu on aclmem, for tests without an NPU\nRequires-Python: ==%d.%d.*\n"
                   "Requires-Dist: torch==%s.*\n" % ((version,) + sys.version_info[:2] + (release,)))
        text_write(information.replace("METADATA", "WHEEL"), "Wheel-Version: 1.0\nGenerator: aclmem\nRoot-Is-Purelib: false\n"
                   "Tag: %s\n" % tag)
        path = os.path.join(folder, "aclmem_npu-%s-%s.whl" % (version, tag))
        wheel.write(stage, path)
    print(path)


def main(folder, version, wheels=None):
    package = os.path.join(os.path.abspath(folder), "aclmem", "npu")
    lib64 = os.environ.get("ACLMEM_LIB") or os.path.join(os.path.abspath(folder), "..", "lib64")
    copy_package(package, version)
    build_extension(package, lib64)
    if wheels:
        pack_wheel(package, version, wheels)


if __name__ == "__main__":
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    try:
        main(*sys.argv[1:])
    except subprocess.CalledProcessError as error:
        sys.exit("aclmem.npu: the compiler ended with exit status %d" % error.returncode)
