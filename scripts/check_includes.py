#!/usr/bin/env python3
"""Checks who includes whom: a folder may use only the folders below it.

RULES is the whole truth.  The first row whose pattern matches a file counts; the patterns at its
right say which files it may include with quotes, by their path from the root of the project.
"""
import fnmatch
import os
import re
import sys

PUBLIC = ["include/*"]
BASE = ["src/base/*"]
FIT = ["src/fit/*"]
BACKEND = ["src/backend/backend.h"]
ACL = ["include/acl/*"]
ANYTHING = ["*"]

RULES = [
    ("include/acl/*", ACL),
    ("include/aclnn/*", ["include/aclnn/*"] + ACL),
    ("include/hccl/*", ["include/hccl/*"] + ACL),
    ("include/*", PUBLIC),
    ("src/base/error.c", BASE + ACL + ["include/aclnn/*"]),  # the table of codes and their names
    ("src/base/refusal.c", BASE + ACL),  # the codes that are ordinary answers
    ("src/base/*", BASE),
    ("src/fit/*", FIT + BASE),
    ("src/pool/*", ["src/pool/*"] + FIT + BASE + PUBLIC),
    ("src/backend/host/*", ["src/backend/host/*"] + BACKEND + BASE + ACL),
    ("src/backend/cuda/*", ["src/backend/cuda/*"] + BACKEND + BASE + ACL),
    ("src/backend/*", BACKEND + BASE + ACL),
    ("src/core/*", ["src/core/*"] + BACKEND + BASE + ACL),
    ("src/api/entry.c", ["src/api/*"] + BASE + PUBLIC),  # only the am_acl... names of core
    ("src/api/exports.map.in", ["src/api/*.def", "src/toolkit/*.def"]),
    ("src/api/stack.c", ["src/api/*", "src/layer/layers.h"] + BASE + PUBLIC),  # the list of layers
    ("src/api/aclmem.c", ["src/api/*", "src/core/*", "src/layer/layers.h"] + BASE + PUBLIC),
    ("src/api/*", ["src/api/*", "src/core/*"] + BASE + PUBLIC),
    ("src/layer/*", ["src/layer/*", "src/api/api.h", "src/api/*.def"] + BASE + PUBLIC),
    # What calls an implementation, am_acl..., and not the public name that layers see.
    ("src/toolkit/tensor_desc.c", ["src/toolkit/*", "src/api/api.h"] + BASE + PUBLIC),
    ("src/toolkit/*", ["src/toolkit/*"] + BASE + PUBLIC),
    ("tools/aclmem/kinds.c", ["tools/*", "src/layer/kinds.def"]),  # the list of kinds
    ("tools/*", ["tools/*"] + PUBLIC),
    ("python/*", ["python/*"] + PUBLIC),
    ("examples/*", ["examples/*"] + PUBLIC),
    ("bench/direct.c", ["bench/*", "src/api/*"] + BASE + PUBLIC),  # calls what lies behind the entries
    ("bench/cuda*", ["bench/*", "src/backend/cuda/driver.*"] + PUBLIC),  # calls the driver beside us
    ("bench/*", ["bench/*"] + PUBLIC),
    ("test/support/*", ["test/support/*"] + PUBLIC),
    ("test/unit/*", ANYTHING),
    ("test/fuzz/*", ANYTHING),
    ("test/abi/*", ["test/abi/*", "test/support/*", "src/api/*.def"] + PUBLIC),
    ("test/check/*", ["test/check/*"] + PUBLIC),
    ("test/api/*", ["test/api/*", "test/support/*"] + PUBLIC),
    ("test/pool/*", ["test/support/*"] + PUBLIC),
    ("test/fault/*", ["test/fault/*", "test/share/actor.h", "test/support/*"] + PUBLIC),
    ("test/fake/*", ["test/fake/*", "test/support/*", "src/backend/cuda/driver.*"]),
    ("test/install/*", PUBLIC),
    ("test/examples/*", PUBLIC),
    ("test/toolkit/*", ["test/toolkit/*", "test/support/*", "test/unit/unit.h", "src/toolkit/*.def"] + PUBLIC),
    ("test/share/*", ["test/share/*", "test/support/*"] + PUBLIC),
    ("test/layer/*", ["test/layer/*", "test/support/*", "src/api/api.h", "src/api/*.def"] + PUBLIC),
    ("test/model/*", ["test/model/*", "test/support/*"] + PUBLIC),
]

FOLDERS = ["include", "src", "tools", "python", "examples", "bench", "test"]
SEARCHED = ["src", "include", "test"]  # as the compiler does, after the file's own folder
SOURCES = (".c", ".h", ".cpp", ".def", ".in")
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"')


def matches(path, patterns):
    return any(fnmatch.fnmatchcase(path, pattern) for pattern in patterns)


def resolve(source, name):
    """The included file, from the root; None where there is none."""
    for folder in [os.path.dirname(source)] + SEARCHED:
        path = os.path.normpath(os.path.join(folder, name))
        if os.path.isfile(path):
            return path
    return None


def check(source):
    """What is wrong with the file's includes, a sentence each."""
    allowed = next((may for pattern, may in RULES if matches(source, [pattern])), None)
    if allowed is None:
        yield "%s: no rule for this folder in scripts/check_includes.py" % source
        return
    with open(source, encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            found = INCLUDE.match(line)
            if not found:
                continue
            path = resolve(source, found.group(1))
            if path is None:
                yield '%s:%d: there is no "%s"' % (source, number, found.group(1))
            elif not matches(path, allowed):
                yield "%s:%d: may not include %s" % (source, number, path)


def sources():
    for folder in FOLDERS:
        for at, _, names in os.walk(folder):
            for name in sorted(names):
                if name.endswith(SOURCES):
                    yield os.path.join(at, name)


def main():
    os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
    wrong = [sentence for source in sources() for sentence in check(source)]
    for sentence in wrong:
        print(sentence)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
