#!/usr/bin/env python3
"""docs/FOUND.md, and what README.md shows of it: each program is on the page, and aclmem run finds its mistake.
docs.transcripts compares what is printed.  found.py <aclmem> <folder of the programs> <root>"""
import os
import re
import subprocess
import sys


def main(command, folder, root):
    page = ""
    for name in ("README.md", "docs/FOUND.md"):
        with open(os.path.join(root, name), encoding="utf-8") as file:
            page += file.read()
    sources = {n[:-2] for n in os.listdir(os.path.join(root, "examples", "found")) if n.endswith(".c")}
    shown = re.findall(r"^\$ aclmem run( --strict)? build/bin/found/(\w+)$", page, flags=re.M)
    assert {name for _, name in shown} == sources, "a program is not on the page, or the other way round"
    wrong = 0
    for option, name in shown:
        done = subprocess.run([command, "run"] + option.split() + [os.path.join(folder, name)], capture_output=True)
        if done.returncode == 0:
            print("%s: the mistake is not found" % name)
            wrong += 1
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:4]))
