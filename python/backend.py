"""How pip builds aclmem from its sources (pyproject.toml), and how `make sdist` packs them:  backend.py FOLDER"""
import glob
import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def version():
    with open(os.path.join(ROOT, "CMakeLists.txt"), encoding="utf-8") as file:
        return re.search(r"project\(aclmem VERSION (\S+)", file.read()).group(1)


def tracked():
    """The files that git tracks; None if this is not a repository, or git is missing or fails."""
    if not os.path.exists(os.path.join(ROOT, ".git")):
        return None
    try:  # safe.directory: the clone may belong to another user
        done = subprocess.run(["git", "-C", ROOT, "-c", "safe.directory=" + ROOT, "ls-files", "-z"],
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return [n for n in os.fsdecode(done.stdout).split("\0") if n and os.path.lexists(os.path.join(ROOT, n))]


def sources():
    """The files that are packed: the files that git tracks; without git all files except those in .gitignore."""
    found = tracked()
    if found is not None:
        return sorted(found)
    found = []
    for at, folders, names in os.walk(ROOT):
        left_out = {"__pycache__"} | ({"build", ".cache", ".git"} if at == ROOT else set())
        folders[:] = [f for f in folders if f not in left_out]
        found += [os.path.relpath(os.path.join(at, n), ROOT) for n in names]
    return sorted(n for n in found if n not in ("PKG-INFO", ".git"))


def build_sdist(sdist_directory, config_settings=None):
    base = "aclmem-%s" % version()
    name = base + ".tar.gz"
    with tarfile.open(os.path.join(sdist_directory, name), "w:gz") as archive:
        for source in sources():
            archive.add(os.path.join(ROOT, source), base + "/" + source, recursive=False)
        about = ("Metadata-Version: 2.1\nName: aclmem\nVersion: %s\n"
                 "Summary: The AscendCL memory runtime for any Linux machine\n" % version()).encode()
        entry = tarfile.TarInfo(base + "/PKG-INFO")
        entry.size = len(about)
        archive.addfile(entry, io.BytesIO(about))
    return name


def needed():
    """What a build of the sources needs of the machine, as one sentence; empty when all is there."""
    missing = [tool for tool in ("cmake", "ninja", "pkg-config", "cc", "patchelf") if shutil.which(tool) is None]
    return "%s: not found; scripts/setup.sh wheel names the packages" % ", ".join(missing) if missing else ""


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    if needed():
        raise SystemExit(needed())
    with tempfile.TemporaryDirectory() as build:
        for command in (
            ["cmake", "-S", ROOT, "-B", build, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release",
             "-DACLMEM_PYTHON=" + sys.executable],
            ["cmake", "--build", build],
            ["cmake", "--build", build, "--target", "wheel"],
        ):
            subprocess.run(command, check=True)
        path = glob.glob(os.path.join(build, "wheel", "*.whl"))[0]
        shutil.copy(path, wheel_directory)
        return os.path.basename(path)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    os.makedirs(sys.argv[1], exist_ok=True)
    print(os.path.join(sys.argv[1], build_sdist(sys.argv[1])))
