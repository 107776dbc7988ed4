#!/usr/bin/env python3
"""Sees that scripts/check_docs.py notices: spoils a copy of the project in one way at a time."""
import contextlib
import importlib.util
import io
import os
import re
import shutil
import sys
import tempfile

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))

# (file, what is replaced, by what, words of the complaint)
SPOILS = [
    ("docs/API.md", r"\| `aclrtMapMem` .*\n", "", "aclrtMapMem is missing"),
    ("docs/API.md", r"(\| `aclInit` .*\n)", r"\1\1", "aclInit is there twice"),
    ("docs/API.md", r"(\| `aclrtUnmapMem` \|) works", r"\1 207000", "aclrtUnmapMem is said to be 207000"),
    ("src/api/api_unsupported.def", r"\Z", "AM_UNSUPPORTED(aclError, aclNew, (int n))\n", "aclNew is missing"),
    ("docs/API.md", r"\| `aclmem_version` .*\n", "", "aclmem_version is missing"),
    ("docs/API.md", r"Differs: how", "How", "aclsysGetVersionNum is not marked"),
    ("docs/TOOLKIT.md", r"`aclprofInit`, ", "", "aclprofInit is missing"),
    ("docs/TOOLKIT.md", r"`aclmdlCreateDesc`, ", "`aclmdlGetDesc`, ", "aclmdlGetDesc does not exist"),
    ("src/toolkit/runtime.def", r"\Z", "AM_RUNTIME(rtNew, (void))\n", "rtNew is missing"),
    ("docs/API.md", r"107017, 200000", "107917, 200000", "no code 107917"),
    ("docs/API.md", r"(\| `aclrtFree` .*107000) \|", r"\1 ; |", 'aclrtFree: the errors are "107000 ;"'),
    ("src/api/api_variadic.def", r"\Z", "AM_API_VARIADIC(void, aclNew, (int n, ...))\n", "aclNew is missing"),
    ("docs/API.md", r"Differs: the address", "The address", "aclrtMemAllocManaged is not marked"),
    ("src/core/vmm/reservation.c", r"\Z", "/* Differs: all of it. */\n", "no function of the API behind it"),
    ("docs/PYTHON.md", r"\| `ret = acl\.rt\.map_mem.*\n", "", "acl.rt.map_mem is missing"),
    ("docs/PYTHON.md", r"\| `aclrtUnmapMem` \|", "| `aclrtMapMem` |", "acl.rt.unmap_mem is `aclrtUnmapMem` in C"),
    ("python/wrappers.def", r"\Z", 'AM_PY(rt.new, aclrtNew, "", "New.")\n', "acl.rt.new is missing"),
    ("docs/PYTHON.md", r"`acl\.rt\.set_context`", "`acl.rt.set_current`", "no Python function acl.rt.set_current"),
    ("docs/GUIDE.md", r"\| `ACLMEM_COMMIT` .*\n", "", "ACLMEM_COMMIT is missing"),
    ("docs/GUIDE.md", r"(\| `ACLMEM_DEVICES` \|) `2`", r"\1 `4`", 'ACLMEM_DEVICES: the default is "2"'),
    ("docs/GUIDE.md", r"`strict` only", "only", "ACLMEM_RULES: nothing is said of strict"),
    ("docs/GUIDE.md", r"\| `310P` .*\n", "", "310P is missing"),
    ("docs/GUIDE.md", r"(\| `A2` .*)MEM, HBM", r"\1none", "A2: the row should be"),
    ("README.md", r"^make check$", "make chekc", "no make target chekc"),
    ("docs/GUIDE.md", r"TOOLKIT.md#the-installed-tree", "TOOLKIT.md#installed", "no heading #installed"),
    ("README.md", r"\Z", "\n" * 200, "lines; the first page has at most 200"),
    ("scripts/docs.py", r"docs/ABI.md", "docs/ABY.md", "docs/ABI.md: it is not in NAV"),
    ("README.md", r"\]\(LICENSE\)", "](LICENCE)", "the link to LICENCE leads nowhere"),
    ("docs/GUIDE.md", r"`examples/sleep_wake.c`", "`examples/asleep.c`", "no examples/asleep.c"),
    ("CONTRIBUTING.md", r"--preset asan", "--preset asam", "no preset asam"),
    ("CONTRIBUTING.md", r"size_t n = 77;", "size_t n = 78;", "does not have: static void questions_for_errors"),
    ("CONTRIBUTING.md", r"^ *```c$", "   ```", "steps 1 to 3 of the tutorial have no blocks of code"),
    ("docs/ARCHITECTURE.md", r"`aclrtMapMem`", "`aclrtMapMemory`", "no function aclrtMapMemory"),
    ("docs/CUDA.md", r"`aclrtMallocHost`", "`aclrtMallocPinned`", "no function aclrtMallocPinned"),
    ("docs/API.md", r"\| 207006 \| .*\n", "", "the table of codes lacks ACL_ERROR_RT_NO_PERMISSION"),
    ("docs/TROUBLESHOOTING.md", r"goes on without the ledger", "goes on alone", 'no source has the message "This process goes on alone"'),
    ("docs/CHECK.md", r"still whole here", "still intact here", 'no finding says "still intact here"'),
    ("docs/CHECK.md", r"unmap first, then free the handle", "unmap it first", 'no finding says "unmap it first"'),
    ("docs/CHECK.md", r"aclmem: race\.host:", "aclmem: race.program:", "no kind race.program"),
    ("docs/CHECK.md", r"`leak\.retain`", "retains", "nothing is said of the kind leak.retain"),
    ("docs/VERSIONS.md", r"(\| `aclrtMemSetAccess` \|) 8.5", r"\1 8.3", "the row of aclrtMemSetAccess should be 8.5"),
    ("docs/VERSIONS.md", r"\| `910` \| 2048", "| `910` | 1984", "there should be a row | `910` | 2048"),
    ("CMakeLists.txt", r"VERSION 0", "VERSION 1", "CHANGELOG.md: it names the version 0"),
    ("docs/CI.md", r"--branch v0", "--branch v1", "docs/CI.md: it names the version"),
    ("docs/POOL.md", r"^.*pictures/pool.png.*$", "", "docs/pictures/pool.png: no page shows it"),
    ("docs/ARCHITECTURE.md", r"\]\(architecture/FAILURES.md\)", "]", "docs/architecture/FAILURES.md: no other page has a link"),
    ("docs/CI.md", r"OWNER/aclmem.git", "somebody/aclmem.git", "it names the account somebody"),
    ("README.md", r"`OWNER` is the account", "`OWNER` holds the account", "README.md explains OWNER, once"),
    ("docs/architecture/HOST.md", r"ACLMEM_ISOLATE", "ACLMEM_ISOLATED", "no option ACLMEM_ISOLATED"),
]


def checker_load():
    spec = importlib.util.spec_from_file_location("check_docs", os.path.join(ROOT, "scripts", "check_docs.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


sys.dont_write_bytecode = True
checker = checker_load()  # once: it caches what the sources say


def complaints(root):
    """The checker's exit status, and what it says."""
    checker.wrong.clear()
    with contextlib.redirect_stdout(io.StringIO()) as said:
        status = checker.main(["check_docs.py", root])
    return status, said.getvalue()


def spoil(root, name, old, new, words):
    """What is wrong with the checker's answer to this change, or None."""
    path = os.path.join(root, name)
    with open(path, encoding="utf-8") as file:
        text = file.read()
    spoilt, n = re.subn(old, new, text, count=1, flags=re.M)
    if n == 0:
        return "%s has no %s to spoil" % (name, old)
    with open(path, "w", encoding="utf-8") as file:
        file.write(spoilt)
    status, said = complaints(root)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    if status != 1 or words not in said:
        return '%s with %s changed: expected "%s", got %d and\n%s' % (name, old, words, status, said)
    return None


def main():
    with tempfile.TemporaryDirectory() as folder:
        root = os.path.join(folder, "project")
        shutil.copytree(ROOT, root, symlinks=True, ignore=shutil.ignore_patterns("build", ".git", "__pycache__"))
        status, said = complaints(root)
        if status != 0:
            print("the documents are wrong before anything is spoilt:\n%s" % said)
            return 1
        wrong = [what for what in (spoil(root, *s) for s in SPOILS) if what]
    for what in wrong:
        print(what)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
