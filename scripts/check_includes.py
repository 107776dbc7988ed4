#!/usr/bin/env python3
"""Checks which file includes which: a folder may use only the folders below it.

RULES is the whole truth.  The first row whose pattern matches a file counts; the patterns at its
right say which files it may include with quotes, by their path from the root of the project.

The folders of src/core/ stand in an order, FOLDERS_OF_CORE; each may include those before it.  In all of
src/ no two units include each other, directly or through others.  A unit is x.c with x.h.
"""
import fnmatch
import os
import re
import sys

PUBLIC = ["include/*"]
BASE = ["src/base/*"]
FIT = ["src/fit/*"]
BACKEND = ["src/backend/backend.h"]
REMOTE = ["src/backend/remote/remote.h"]  # what core does with memory of other machines besides copies
ACL = ["include/acl/*"]
ANYTHING = ["*"]
PORT = ["src/fabric/port.h"]  # between a program and its fabric process

# src/core/ from the bottom up.
FOLDERS_OF_CORE = ["ledger", "exchange", "device", "vmm", "heap", "stream", "hostmem", "copy", "model", "pool", "managed", "ipc"]


def core_rules():
    """A row for each folder of src/core/: itself and those below it."""
    below = []
    for folder in FOLDERS_OF_CORE:
        below = below + ["src/core/%s/*" % folder]
        yield ("src/core/%s/*" % folder, below + BACKEND + BASE + ACL + (REMOTE if folder == "ipc" else []) +
               (FIT if folder == "pool" else []))


RULES = [
    ("include/acl/*", ACL),
    ("include/aclnn/*", ["include/aclnn/*"] + ACL),
    ("include/hccl/*", ["include/hccl/*"] + ACL),
    ("include/*", PUBLIC),
    ("src/base/error.c", BASE + ACL + ["include/aclnn/*"]),  # the table of codes and their names
    ("src/base/refusal.c", BASE + ACL),  # the codes that programs expect
    ("src/base/*", BASE),
    ("src/fit/*", FIT + BASE),
    ("src/torch/cuda.c", ["src/torch/*", "src/backend/cuda/driver.h"] + PUBLIC),  # the driver's types
    ("src/torch/*", ["src/torch/*"] + PUBLIC),
    ("src/fabric/*", ["src/fabric/*"] + BASE + ACL),
    ("src/pool/*", ["src/pool/*"] + FIT + BASE + PUBLIC),
    ("src/backend/host/*", ["src/backend/host/*"] + BACKEND + BASE + ACL),
    ("src/backend/cuda/*", ["src/backend/cuda/*"] + BACKEND + BASE + ACL),
    ("src/backend/remote/*", ["src/backend/remote/*"] + BACKEND + BASE + ACL + PORT),
    ("src/backend/*", BACKEND + BASE + ACL),
    *core_rules(),
    ("src/core/*", ["src/core/*"] + BACKEND + REMOTE + BASE + ACL),  # start and end: knows all folders
    ("src/api/entry.c", ["src/api/*"] + BASE + PUBLIC),  # only the am_acl... names of core
    ("src/api/exports.map.in", ["src/api/*.def", "src/toolkit/*.def"]),
    ("src/api/stack.c", ["src/api/*", "src/layer/layers.h"] + BASE + PUBLIC),  # the list of layers
    ("src/api/acl_init.c", ["src/api/*", "src/core/*", "src/layer/layers.h"] + REMOTE + BASE + PUBLIC),
    ("src/api/aclmem.c", ["src/api/*", "src/core/*", "src/layer/layers.h"] + BASE + PUBLIC),
    ("src/api/aclmem_info.c", ["src/api/*", "src/core/*"] + REMOTE + BASE + PUBLIC),
    ("src/api/rt_device.c", ["src/api/*", "src/core/*", "src/layer/layers.h"] + BASE + PUBLIC),
    ("src/api/*", ["src/api/*", "src/core/*"] + BASE + PUBLIC),
    ("src/layer/trace*", ["src/layer/*", "src/core/watch.h", "src/trace/codec.h", "src/trace/format.h", "src/api/api.h", "src/api/*.def"] + BASE + PUBLIC),
    # Without a layer: what the core tells those who watch.
    ("src/layer/check.c", ["src/layer/*", "src/core/watch.h", "src/api/api.h", "src/api/*.def"] + BASE + PUBLIC),
    ("src/layer/explain.c", ["src/layer/*", "src/core/watch.h", "src/api/api.h"] + BASE + PUBLIC),
    ("src/layer/functions.c", ["src/layer/*", "src/core/watch.h", "src/api/api.h"] + BASE + PUBLIC),
    ("src/layer/touch.c", ["src/layer/*", "src/core/watch.h", "src/api/api.h"] + BASE + PUBLIC),
    ("src/layer/*", ["src/layer/*", "src/api/api.h", "src/api/*.def"] + BASE + PUBLIC),
    # What calls an implementation, am_acl..., and not the public name that layers see.
    ("src/toolkit/tensor_desc.c", ["src/toolkit/*", "src/api/api.h"] + BASE + PUBLIC),
    ("src/over/*", ["src/api/api.h", "src/api/*.def", "src/toolkit/ascendcl.def", "src/layer/layers.h", "src/core/watch.h"] + BASE + PUBLIC),
    ("src/toolkit/*", ["src/toolkit/*"] + BASE + PUBLIC),
    ("tools/aclmem/play_calls.c", ["tools/*", "src/trace/reader.h", "src/layer/args.h", "src/layer/trace_structs.h",
                                   "src/layer/trace_arrays.def", "src/api/*.def"]),  # all functions and their arguments
    ("tools/aclmem/names.c", ["tools/*", "src/layer/symbols.h"]),  # the symbolizer of the layer
    ("tools/aclmem/kinds.c", ["tools/*", "src/layer/kinds.def"]),  # the list of kinds
    ("tools/aclmem/fail.c", ["tools/*", "src/api/*.def"]),  # the names of functions
    ("src/trace/*", ["src/trace/*", "src/base/tree.h"]),  # by itself: the command reads traces of any version
    ("tools/*", ["tools/*", "src/trace/reader.h"] + PUBLIC),
    ("python/*", ["python/*"] + PUBLIC),
    ("examples/*", ["examples/*"] + PUBLIC),
    ("bench/fabric.c", PUBLIC),
    ("bench/fabric_sim*", ["bench/fabric_sim.h", "src/fabric/*"] + BASE),  # runs the fabric's own state machines
    ("bench/direct.c", ["bench/*", "src/api/*"] + BASE + PUBLIC),  # calls what lies behind the entries
    ("bench/cuda*", ["bench/*", "src/backend/cuda/driver.*", "test/fake/whole_driver.*"] + PUBLIC),  # calls the driver beside us
    ("bench/*", ["bench/*"] + PUBLIC),
    ("test/support/fault.c", BASE),  # behind each system call of the library
    ("test/support/fault_driver.c", ["src/backend/cuda/driver.*"] + BASE),
    ("test/support/*", ["test/support/*"] + PUBLIC),
    ("test/unit/*", ANYTHING),
    ("test/fuzz/*", ANYTHING),
    ("test/abi/*", ["test/abi/*", "test/support/*", "src/api/*.def"] + PUBLIC),
    ("test/check/*", ["test/check/*"] + PUBLIC),
    ("test/api/*", ["test/api/*", "test/support/*"] + PUBLIC),
    ("test/pool/test_torch_hit.cpp", ["test/pool/*", "bench/torch_hit.h"]),  # the benchmark's loops
    ("test/pool/*", ["test/pool/*", "test/support/*"] + PUBLIC),
    ("test/fault/*", ["test/fault/*", "test/share/actor.h", "test/support/*"] + PUBLIC),
    ("test/fake/*", ["test/fake/*", "test/support/*", "src/backend/cuda/driver.*"]),
    ("test/install/*", PUBLIC),
    ("test/tools/client/csrc/*", PUBLIC),
    ("test/examples/*", PUBLIC),
    ("test/toolkit/*", ["test/toolkit/*", "test/support/*", "test/unit/unit.h", "src/toolkit/*.def"] + PUBLIC),
    ("test/share/*", ["test/share/*", "test/support/*"] + PUBLIC),
    ("test/fabric/attacker.c", ["src/fabric/*"] + BASE),  # speaks as fabric processes do
    ("test/fabric/*", ["test/fabric/*", "test/support/*"] + PUBLIC),
    ("test/layer/*", ["test/layer/*", "test/support/*", "src/api/api.h", "src/base/epoch.h", "src/api/*.def", "src/layer/metadata.h", "src/layer/layers.h"] + PUBLIC),
    ("test/over/*", PUBLIC),
    ("test/trace/*", ["test/trace/*", "test/support/*", "src/trace/*.h"] + PUBLIC),
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


def unit(path):
    """x.c and x.h are one unit."""
    return os.path.splitext(path)[0]


def includes(source):
    """The files of src/ that the file includes."""
    with open(source, encoding="utf-8") as lines:
        found = [INCLUDE.match(line) for line in lines]
    paths = [resolve(source, match.group(1)) for match in found if match]
    return {path for path in paths if path is not None and path.startswith("src/")}


def unit_uses():
    """Which units of src/ each of them includes.

    A header without an x.c is a part of each file that includes it.
    """
    files = {source: includes(source) for source in sources() if source.startswith("src/")}
    units = {unit(source) for source in files if source.endswith((".c", ".cpp"))}

    def through(path, seen):
        for other in files.get(path, ()):
            if unit(other) in units:
                yield unit(other)
            elif other not in seen:
                seen.add(other)
                yield from through(other, seen)

    uses = {name: set() for name in units}
    for source in files:
        if unit(source) in units:
            uses[unit(source)] |= set(through(source, set())) - {unit(source)}
    return uses


def cycles():
    """A sentence for the first cycle that is found from each unit."""
    uses = unit_uses()
    done = set()

    def walk(name, path):
        if name in path:
            yield "these include each other: %s" % " -> ".join(path[path.index(name):] + [name])
            return
        if name in done:
            return
        for other in sorted(uses.get(name, ())):
            yield from walk(other, path + [name])
        done.add(name)

    for name in sorted(uses):
        yield from walk(name, [])


def sources():
    for folder in FOLDERS:
        for at, _, names in os.walk(folder):
            for name in sorted(names):
                if name.endswith(SOURCES):
                    yield os.path.join(at, name)


def main():
    os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
    wrong = [sentence for source in sources() for sentence in check(source)]
    wrong += cycles()
    for sentence in wrong:
        print(sentence)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
