#!/usr/bin/env python3
"""A Python program under `aclmem run`: test_python.py ACLMEM PYTHON"""
import json
import os
import subprocess
import sys
import tempfile

ACLMEM, PYTHON = sys.argv[1:3]
BUG = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bug.py")

with tempfile.NamedTemporaryFile("r", suffix=".json") as file:
    done = subprocess.run(
        [ACLMEM, "run", "--json=" + file.name, PYTHON, BUG], stderr=subprocess.PIPE, universal_newlines=True
    )
    findings = json.load(file)["findings"]

told = {f["kind"]: f for f in findings}
assert sorted(told) == ["double-free", "leak.block"], done.stderr
assert done.returncode == 99
made = told["leak.block"]["calls"][0]["stack"]
assert [(f["function"], f["file"], f["line"]) for f in made] == [("take_block", BUG, 6), ("<module>", BUG, 19)], made
again = told["double-free"]["calls"]
assert [c["stack"][0]["line"] for c in again] == [13, 12, 6], again
assert "#0 free_twice  %s:13" % BUG in done.stderr, done.stderr

# A touch of pinned memory, by the command and without it: then the interpreter's frames are named in its handler.
TOUCH = os.path.join(os.path.dirname(BUG), "touch.py")
TREE = os.path.dirname(os.path.dirname(os.path.abspath(ACLMEM)))
done = subprocess.run([ACLMEM, "run", "--check", "all", PYTHON, TOUCH], stderr=subprocess.PIPE, universal_newlines=True)
assert done.returncode == 99 and "aclmem: race.host: the program reads byte 0" in done.stderr, done.stderr
assert "<module>  %s:11" % TOUCH in done.stderr, done.stderr
done = subprocess.run(
    [PYTHON, TOUCH],
    env=dict(
        os.environ,
        ACLMEM_LAYERS="check",
        ACLMEM_CHECK="race",
        PYTHONPATH=os.path.join(TREE, "python"),
        LD_LIBRARY_PATH=os.path.join(TREE, "lib64"),
    ),
    stderr=subprocess.PIPE,
    universal_newlines=True,
)
assert done.returncode == 0 and "aclmem: race.host: the program reads byte 0" in done.stderr, done

# The same program recorded: where each call was made is Python's, too.
with tempfile.TemporaryDirectory() as folder:
    trace = os.path.join(folder, "bug.trace")
    subprocess.run([ACLMEM, "run", "--quiet", "--check", "none", "--trace", trace, PYTHON, BUG], check=True)
    lines = subprocess.run([ACLMEM, "trace", "--stacks", trace], stdout=subprocess.PIPE, check=True,
                           universal_newlines=True).stdout.splitlines()
    at = next(i for i, line in enumerate(lines) if "aclrtMalloc(" in line)
    assert lines[at + 1:at + 3] == ["    take_block (%s:6)" % BUG, "    <module> (%s:18)" % BUG], lines
    folded = subprocess.run([ACLMEM, "convert", trace, "--to", "folded", "--of", "calls"], stdout=subprocess.PIPE,
                            check=True, universal_newlines=True).stdout
    assert "<module> (bug.py:19);take_block (bug.py:6) 1\n" in folded, folded
    assert subprocess.run([ACLMEM, "run", "--stacks", "deep", "--trace", trace, PYTHON, BUG],
                          stderr=subprocess.DEVNULL).returncode == 2

# Correct programs.
LEGAL = os.path.join(os.path.dirname(BUG), "legal", "programs.py")
names = subprocess.run(
    [ACLMEM, "run", "--quiet", PYTHON, LEGAL, "--list"], stdout=subprocess.PIPE, universal_newlines=True, check=True
).stdout.split()
assert len(names) == 4, names
for name in names:
    for chaos in ("", "3"):
        done = subprocess.run(
            [ACLMEM, "run", "--check", "all", PYTHON, LEGAL, name],
            env=dict(os.environ, ACLMEM_CHAOS=chaos),
            stderr=subprocess.PIPE,
            universal_newlines=True,
        )
        assert done.returncode == 0 and "no findings" in done.stderr, (name, chaos, done.stderr)
