#!/usr/bin/env python3
"""Packs the module as a wheel, with no tools but Python's own:  wheel.py VERSION PACKAGE LIBRARY ROOT FOLDER [NAME=FILE...]

The wheel carries the library beside the module, so that it needs nothing else of aclmem's; each FILE goes in under its NAME.
"""
import base64
import hashlib
import os
import sys
import sysconfig
import zipfile

# Of the system, by the names of Debian's packages: what the library is linked with besides the C library.
NEEDS = ("libjansson4", "libnuma1")


def tag():
    """cp311-cp311-linux_x86_64"""
    version = "cp%d%d" % sys.version_info[:2]
    abi = version + ("t" if sysconfig.get_config_var("Py_GIL_DISABLED") else "")
    return "%s-%s-%s" % (version, abi, sysconfig.get_platform().replace("-", "_").replace(".", "_"))


def metadata(version, readme):
    return (
        "Metadata-Version: 2.1\nName: aclmem\nVersion: %s\n"
        "Summary: The AscendCL memory runtime for any Linux machine\n"
        "License: Apache-2.0\nRequires-Python: >=3.9\n%sDescription-Content-Type: text/markdown\n\n%s"
    ) % (version, "".join("Requires-External: %s\n" % name for name in NEEDS), readme)


def read(path):
    with open(path, "rb") as file:
        return file.read()


def contents(version, package, library, root, more):
    """name in the wheel -> bytes"""
    info = "aclmem-%s.dist-info/" % version
    files = {}
    module = "__init__" + sysconfig.get_config_var("EXT_SUFFIX")  # a build for another Python may lie beside it
    for name in sorted(os.listdir(package)):
        if name.endswith(".pyi") or name in (module, "py.typed"):
            files["acl/" + name] = read(os.path.join(package, name))
    files["acl/libascendcl.so"] = read(library)
    for pair in more:
        name, path = pair.split("=", 1)
        files[name] = read(path)
    files[info + "LICENSE"] = read(os.path.join(root, "LICENSE"))
    readme = read(os.path.join(root, "README.md")).decode()
    files[info + "METADATA"] = metadata(version, readme).encode()
    files[info + "WHEEL"] = (
        "Wheel-Version: 1.0\nGenerator: aclmem\nRoot-Is-Purelib: false\nTag: %s\n" % tag()
    ).encode()
    record = ""
    for name, data in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        record += "%s,sha256=%s,%d\n" % (name, digest, len(data))
    files[info + "RECORD"] = (record + info + "RECORD,,\n").encode()
    return files


def main(version, package, library, root, folder, *more):
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, "aclmem-%s-%s.whl" % (version, tag()))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
        for name, data in contents(version, package, library, root, more).items():
            entry = zipfile.ZipInfo(name)  # with a fixed date, so that the same input gives the same wheel
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = (0o755 if name.endswith(".so") else 0o644) << 16
            wheel.writestr(entry, data)
    print(path)


if __name__ == "__main__":
    if len(sys.argv) < 6:
        sys.exit(__doc__)
    main(*sys.argv[1:])
