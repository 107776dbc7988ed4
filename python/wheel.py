#!/usr/bin/env python3
"""Packs an installed tree as a wheel:  wheel.py VERSION TREE ROOT FOLDER

The wheel needs nothing of the machine but the C library: the other libraries that ours are linked with are carried in
aclmem.libs/, under names with a digest, where every file finds them; their licences are in
dist-info/licenses/, a file for each package.  That is what auditwheel does; Debian 12
has no auditwheel, so patchelf is called from here.  The wheel's tag is computed from the files: the newest version of
glibc that any of them asks for.

A wheel has no links.  Of the names under which programs load the library (libruntime.so and others) it has small
libraries instead, which contain nothing and need libascendcl.so.
"""
import base64
import glob
import hashlib
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import zipfile

# Of the compiler and the C library, which every machine with Python has.
OF_THE_SYSTEM = re.compile(r"(libc|libm|libdl|libpthread|librt|libgcc_s|libstdc\+\+)\.so\.\d+$|ld-linux")
# What needs UCX, which loads plug-ins and is the system's.
FABRIC = ("libaclmem_fabric.so", "aclmem-fabric")
# What is packed of the tree, beside bin/ and lib64/.
FOLDERS = ("include", "lib64/pkgconfig", "share/cmake", "share/aclmem/examples", "compiler", "driver", "facts")
FILES = ("set_env.sh", "version.cfg", "share/aclmem/manifest")


def said_by(*command):
    try:
        return subprocess.run(command, stdout=subprocess.PIPE, check=True, universal_newlines=True,
                              env=dict(os.environ, LC_ALL="C")).stdout
    except FileNotFoundError:
        sys.exit("%s is needed to pack a wheel (Debian's packages: patchelf, binutils, libc-bin)" % command[0])


def read(path):
    with open(path, "rb") as file:
        return file.read()


def is_elf(path):
    with open(path, "rb") as file:
        return file.read(4) == b"\x7fELF"


def needed_by(path):
    return re.findall(r"\(NEEDED\).*\[(.*)\]", said_by("readelf", "-dW", path))


def where_is(path, name):
    """The file that the dynamic linker takes for a needed library."""
    found = re.search(r"%s => (/\S+)" % re.escape(name), said_by("ldd", path))
    if not found:
        sys.exit("%s needs %s, which is not on this machine" % (path, name))
    return found.group(1)


def glibc_of(path):
    """The newest version of glibc that the file asks for, as in (2, 34)."""
    versions = re.findall(r"\bGLIBC_(\d+)\.(\d+)", said_by("readelf", "-VW", path))
    return max(((int(a), int(b)) for a, b in versions), default=(2, 17))


def licence_of(path):
    """The file with the licence of a library of the system: (name of its package, path; None: not found)."""
    real = os.path.realpath(path)
    for name in (path, real, "/usr" + real, re.sub("^/usr", "", real)):  # dpkg may list it in /lib or in /usr/lib
        for command in (["dpkg-query", "-S", name], ["rpm", "-qf", "--qf", "%{NAME}:", name]):
            try:
                done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, universal_newlines=True)
            except FileNotFoundError:
                continue
            package = done.stdout.partition(":")[0]
            if done.returncode != 0:
                continue
            found = sorted(glob.glob("/usr/share/licenses/%s/*" % package)) + ["/usr/share/doc/%s/copyright" % package]
            if os.path.exists(found[0]):
                return package, found[0]
    print("warning: %s is packed without its licence, which was not found; a wheel that is given to others needs it" % path,
          file=sys.stderr)
    return os.path.basename(path), None


class Stage:
    """A folder with what goes into the wheel."""

    def __init__(self, tree, folder):
        self.tree = tree
        self.folder = folder
        self.carried = {}  # name of a library of the system -> its name in aclmem.libs
        self.licences = {}  # name of a package of the system -> the file with its licence

    def path(self, name):
        path = os.path.join(self.folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        return path

    def copy(self, source, name):
        shutil.copyfile(os.path.join(self.tree, source), self.path(name))

    def elves(self):
        for at, _, names in os.walk(self.folder):
            yield from (os.path.join(at, n) for n in sorted(names) if is_elf(os.path.join(at, n)))

    def fill(self, root):
        package = os.path.join(self.tree, "python", "site-packages", "acl")
        for name in sorted(os.listdir(package)):
            if name.endswith((".pyi", ".so", "py.typed")):
                self.copy(os.path.join(package, name), "acl/" + name)
        package = os.path.join(root, "python", "aclmem")
        for name in sorted(n for n in os.listdir(package) if n.endswith(".py")):
            self.copy(os.path.join(package, name), "aclmem/" + name)
        for name in FILES:
            self.copy(name, "aclmem/" + name)
        for folder in FOLDERS:
            for at, _, names in os.walk(os.path.join(self.tree, folder)):
                for name in sorted(n for n in names if not os.path.islink(os.path.join(at, n))):
                    source = os.path.relpath(os.path.join(at, name), self.tree)
                    self.copy(source, "aclmem/" + source)
        for folder in ("bin", "lib64"):
            for name in sorted(os.listdir(os.path.join(self.tree, folder))):
                path = os.path.join(self.tree, folder, name)
                if name in FABRIC:
                    continue
                if os.path.isfile(path) and not os.path.islink(path) and is_elf(path):
                    self.copy(path, "aclmem/%s/%s" % (folder, name))
                    os.chmod(self.path("aclmem/%s/%s" % (folder, name)), 0o755)

    def link(self):
        """For each link of lib64, a library that contains nothing and needs what the link leads to."""
        lib64 = os.path.join(self.tree, "lib64")
        for name in sorted(n for n in os.listdir(lib64) if os.path.islink(os.path.join(lib64, n))):
            target = os.path.basename(os.path.realpath(os.path.join(lib64, name)))
            said_by("cc", "-shared", "-nostdlib", "-Wl,--no-as-needed,--build-id=none,-z,noexecstack,-soname," + name, "-o",
                    self.path("aclmem/lib64/" + name), os.path.join(lib64, target))

    def carry(self, path):
        """Takes along what `path` needs of the system, and what that needs."""
        for name in needed_by(path):
            if OF_THE_SYSTEM.match(name) or os.path.exists(os.path.join(self.tree, "lib64", name)):
                continue
            if name not in self.carried:
                source = where_is(path, name)
                digest = hashlib.sha256(read(source)).hexdigest()[:8]
                self.carried[name] = re.sub(r"\.so", "-%s.so" % digest, name, count=1)
                copy = self.path("aclmem.libs/" + self.carried[name])
                shutil.copyfile(source, copy)
                os.chmod(copy, 0o755)
                self.licences.update([licence_of(source)])
                said_by("patchelf", "--set-soname", self.carried[name], copy)
                self.carry(copy)
            said_by("patchelf", "--replace-needed", name, self.carried[name], path)

    def mend(self):
        """Makes every file find its libraries inside the wheel, and drops debug information."""
        for path in list(self.elves()):
            said_by("strip", "--strip-debug", path)
            self.carry(path)
        for path in self.elves():
            folder = os.path.relpath(os.path.dirname(path), self.folder)
            places = [os.path.relpath(p, folder) for p in ("aclmem/lib64", "aclmem.libs")]
            said_by("patchelf", "--set-rpath", ":".join("$ORIGIN/" + p for p in places), path)

    def tag(self):
        """cp39-abi3-manylinux_2_34_x86_64"""
        module = next(n for n in os.listdir(os.path.join(self.folder, "acl")) if n.endswith(".so"))
        python = "cp39-abi3"
        if not module.endswith(".abi3.so"):
            version = "cp%d%d" % sys.version_info[:2]
            python = version + "-" + version + ("t" if sysconfig.get_config_var("Py_GIL_DISABLED") else "")
        newest = max(glibc_of(path) for path in self.elves())
        return "%s-manylinux_%d_%d_%s" % ((python,) + newest + (os.uname().machine,))


def metadata(version, readme):
    return (
        "Metadata-Version: 2.1\nName: aclmem\nVersion: %s\n"
        "Summary: The AscendCL memory runtime for any Linux machine\n"
        "License: Apache-2.0\nLicense-File: LICENSE\nRequires-Python: >=3.9\nDescription-Content-Type: text/markdown\n\n%s"
    ) % (version, readme)


def information(stage, version, root):
    """The files of dist-info but RECORD: name -> text."""
    return {
        "LICENSE": read(os.path.join(root, "LICENSE")).decode(),
        "METADATA": metadata(version, read(os.path.join(root, "README.md")).decode()),
        "WHEEL": "Wheel-Version: 1.0\nGenerator: aclmem\nRoot-Is-Purelib: false\nTag: %s\n" % stage.tag(),
        "entry_points.txt": read(os.path.join(root, "python", "entry_points.txt")).decode(),
    }


def write(stage, path):
    """The staged files, with RECORD, and with fixed dates, so that the same input gives the same wheel."""
    names = sorted(os.path.relpath(os.path.join(at, n), stage.folder) for at, _, ns in os.walk(stage.folder) for n in ns)
    record = ""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
        for name in names:
            data = read(stage.path(name))
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            record += "%s,sha256=%s,%d\n" % (name, digest, len(data))
            mode = 0o100755 if is_elf(stage.path(name)) else 0o100644
            add(wheel, name, data, mode)
        info = next(n for n in names if n.endswith(".dist-info/WHEEL"))[: -len("WHEEL")]
        add(wheel, info + "RECORD", (record + info + "RECORD,,\n").encode(), 0o100644)


def add(wheel, name, data, mode):
    entry = zipfile.ZipInfo(name)
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.external_attr = mode << 16
    wheel.writestr(entry, data)


def main(version, tree, root, folder):
    root = os.path.abspath(root)
    os.makedirs(folder, exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary:
        stage = Stage(os.path.abspath(tree), temporary)
        stage.fill(root)
        stage.link()
        stage.mend()
        info = "aclmem-%s.dist-info/" % version
        for name, text in information(stage, version, root).items():
            with open(stage.path(info + name), "w", encoding="utf-8") as file:
                file.write(text)
        shutil.copyfile(os.path.join(root, "page", "vendor", "LICENSES"), stage.path(info + "licenses/report-page"))
        for package, licence in stage.licences.items():
            if licence:
                shutil.copyfile(licence, stage.path(info + "licenses/" + package))
        path = os.path.join(folder, "aclmem-%s-%s.whl" % (version, stage.tag()))
        write(stage, path)
    print(path)


if __name__ == "__main__":
    if len(sys.argv) != 5:
        sys.exit(__doc__)
    main(*sys.argv[1:])
