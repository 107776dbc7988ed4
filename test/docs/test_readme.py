#!/usr/bin/env python3
"""Does what README.md and docs/GUIDE.md show, and compares what is printed:
test_readme.py <build folder> <python3 or nothing>

The programs, blocks of C and of Python, are written to the files that the page names above them. The
commands of the blocks marked "console", which begin with "$ ", run one after the other in one shell, in a
folder where build/ and include/ are. What follows "make run" is what build/bin/seven_steps prints.
"""
import difflib
import os
import re
import subprocess
import sys
import tempfile

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
MARK = "---- command ----"

# The pages, and the programs that each of them has.
PAGES = {"README.md": ["first.py"], "docs/GUIDE.md": ["hello.c", "hello.py"]}


def blocks_of(text):
    """(kind, text) of each block between fences."""
    return re.findall(r"^```(\w*)\n(.*?)^```", text, flags=re.M | re.S)


def environment(python):
    """Ours, without what would change the library's answers, and with the Python that the module is for."""
    own = "ACLMEM_RUNTIME_DIR"  # the test's, so that other processes do not change what is free
    env = {k: v for k, v in os.environ.items() if k == own or not k.startswith(("ACLMEM_", "ASCEND_"))}
    if python:
        env["PATH"] = os.path.dirname(python) + os.pathsep + env["PATH"]
    return env


def run(command, folder, python):
    done = subprocess.run(
        ["sh", "-c", command],
        cwd=folder,
        env=environment(python),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        universal_newlines=True,
    )
    return done.stdout


def commands_of(blocks):
    """(command, what it is said to print) of all console blocks."""
    for kind, text in blocks:
        for part in re.split(r"^\$ ", text, flags=re.M)[1:] if kind == "console" else []:
            command, _, shown = part.partition("\n")
            yield command, shown


def steady(text):
    """Without what depends on the machine."""
    text = re.sub(r"\d+ MB free", "N MB free", text)
    text = re.sub(r"\b0x7[0-9a-f]{11}\b", "0xN", text)  # blocks lie where the kernel has room
    return re.sub(r"hello\+0x[0-9a-f]+", "hello+0xN", text)


def differs(page, what, shown, printed):
    if steady(shown) == steady(printed):
        return False
    print("%s: %s and what is printed differ" % (what, page))
    sys.stdout.writelines(difflib.unified_diff(shown.splitlines(True), printed.splitlines(True), page, "now"))
    return True


def programs_of(text):
    """(file name, program): each block of C or Python whose file was named just before."""
    return re.findall(r"`(\w+\.(?:c|py))`[^`]*(?:`[^`]*`[^`]*)?:\n\n```(?:c|python)\n(.*?)^```", text, flags=re.M | re.S)


def is_page_wrong(page, build, python):
    with open(os.path.join(ROOT, page), encoding="utf-8") as file:
        text = file.read()
    blocks = blocks_of(text)
    programs = programs_of(text)
    commands = [(command, shown) for command, shown in commands_of(blocks) if python or "python3" not in command]

    with tempfile.TemporaryDirectory() as folder:
        os.symlink(os.path.abspath(build), os.path.join(folder, "build"))
        os.symlink(os.path.join(ROOT, "include"), os.path.join(folder, "include"))
        for name, program in programs:
            with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                file.write(program)
        is_wrong = False
        for (_, block), (_, after) in zip(blocks, blocks[1:]):
            if block == "make run\n":
                is_wrong |= differs(page, "make run", after, run("build/bin/seven_steps", folder, python))
        script = "\n".join("echo '%s'\n%s" % (MARK, command) for command, _ in commands)
        printed = run(script, folder, python).split(MARK + "\n")[1:]
        for (command, shown), now in zip(commands, printed):
            is_wrong |= differs(page, command, shown, now)
    if [name for name, _ in programs] != PAGES[page] or len(printed) != len(commands):
        print("%s: %s; %d commands, %d of them run" % (page, dict(programs).keys(), len(commands), len(printed)))
        is_wrong = True
    return is_wrong


def main(build, python=None):
    wrong = [page for page in PAGES if is_page_wrong(page, build, python)]
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
