#!/usr/bin/env python3
"""Breaks the code on purpose, one place at a time, and says which breaks no test notices.

    scripts/mutants.py            all mutants
    scripts/mutants.py NAME...    some of them
    scripts/mutants.py --list     their names

A mutant is a row of scripts/mutants.def: a file, a text in it, the text instead, and the tests
that should fail then.  The sources are copied to build/mutants, so the working tree stays as it
is; each mutant is built there and its tests are run.  A mutant survives when they all pass.  The
exit status is 1 when one survives, 2 when a row is out of date.
"""
import os
import re
import shutil
import subprocess
import sys

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
COPY = "build/mutants"
LEFT_OUT = ("build", ".git")


def rows():
    """The mutants: dicts with name, file, tests, old, new."""
    found, row, part = [], None, None
    with open("scripts/mutants.def", encoding="utf-8") as lines:
        for line in lines:
            head = re.match(r"^(mutant|file|tests): *(.*)\n", line)
            if line.startswith("#"):
                continue
            if head and head.group(1) == "mutant":
                row = {"name": head.group(2), "old": "", "new": ""}
                found.append(row)
                part = None
            elif head:
                row[head.group(1)] = head.group(2)
            elif line in ("old:\n", "new:\n"):
                part = line[:3]
            elif part is not None and line.startswith("    "):
                row[part] += line[4:]
            elif part is not None and line.strip() == "":
                part = None if part == "new" else part
    return found


def copy_sources():
    """Brings build/mutants up to date; what was built there before is kept."""
    os.makedirs(COPY, exist_ok=True)
    for name in os.listdir("."):
        if name in LEFT_OUT:
            continue
        if os.path.isdir(name):
            shutil.copytree(name, os.path.join(COPY, name), dirs_exist_ok=True)
        else:
            shutil.copy2(name, os.path.join(COPY, name))


def run(*command):
    return subprocess.run(command, cwd=COPY, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)


def build():
    return run("cmake", "--build", "build/dev", "--target", "all", "tests").returncode == 0


def judge(row):
    """What became of a mutant: killed, survived, does not build, or out of date."""
    path = os.path.join(COPY, row["file"])
    with open(path, encoding="utf-8") as source:
        text = source.read()
    if text.count(row["old"]) != 1:
        return "out of date: %d places match" % text.count(row["old"])
    try:
        with open(path, "w", encoding="utf-8") as source:
            source.write(text.replace(row["old"], row["new"]))
        if not build():
            return "does not build"
        status = run("ctest", "--test-dir", "build/dev", "--no-tests=error", "--timeout", "60", "-R", row["tests"]).returncode
        return "survived" if status == 0 else "killed"
    finally:
        with open(path, "w", encoding="utf-8") as source:
            source.write(text)


def main(arguments):
    os.chdir(ROOT)
    mutants = rows()
    if arguments == ["--list"]:
        print("\n".join(row["name"] for row in mutants))
        return 0
    unknown = set(arguments) - {row["name"] for row in mutants}
    if unknown:
        print("there is no mutant %s; --list names them" % ", ".join(sorted(unknown)), file=sys.stderr)
        return 2
    copy_sources()
    if run("cmake", "--preset", "dev").returncode != 0 or not build():
        print("the sources do not build as they are", file=sys.stderr)
        return 2
    verdicts = []
    for row in mutants:
        if not arguments or row["name"] in arguments:
            verdicts.append(judge(row))
            print("%-45s %s" % (row["name"], verdicts[-1]), flush=True)
    build()
    return 1 if "survived" in verdicts else 2 if any(v != "killed" for v in verdicts) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
