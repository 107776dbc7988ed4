#!/usr/bin/env python3
"""docs/FOUND.md, and what README.md shows of it: each program has its mistake, and aclmem run prints for it what the page shows:
found.py <aclmem> <folder of the programs> <root>"""
import os
import re
import subprocess
import sys


def plain(line):
    """Without addresses, handles, numbers of processes, folders and what stands before a message."""
    line = re.sub(r" \S*(examples/found/)", r" \1", line)  # how a build names its sources is its own affair
    line = re.sub(r"0x[0-9a-f]+", "0x", re.sub(r"^.*?: (EE\d)", r"\1", line))
    return re.sub(r"(process|thread) \d+", r"\1", line).strip()


def main(command, folder, root):
    page = ""
    for name in ("README.md", "docs/FOUND.md"):
        with open(os.path.join(root, name), encoding="utf-8") as file:
            page += file.read()
    sources = {n[:-2] for n in os.listdir(os.path.join(root, "examples", "found")) if n.endswith(".c")}
    shown = re.findall(r"^\$ aclmem run( --strict)? build/bin/found/(\w+)\n(.*?)^```", page, flags=re.M | re.S)
    assert {name for _, name, _ in shown} == sources, "a program is not on the page, or the other way round"
    wrong = 0
    for option, name, lines in shown:
        done = subprocess.run([command, "run"] + option.split() + [os.path.join(folder, name)], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, universal_newlines=True)
        told = [plain(line) for line in done.stdout.splitlines()]
        for line in lines.splitlines():
            if plain(line) not in told:
                print("%s does not print: %s" % (name, line))
                print(done.stdout)
                wrong += 1
                break
        if done.returncode == 0:
            print("%s: the mistake is not found" % name)
            wrong += 1
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:4]))
