#!/usr/bin/env python3
"""Runs the console blocks of the documents and compares what they print.

    test_transcripts.py BUILD [--python PYTHON] [--update] [PAGE...]

In each page, blocks of C and Python whose file the text names just before are written to that file.  Then the commands
of the blocks marked "console", which begin with "$ ", run one after the other in one shell, in a folder that has build/,
include/, examples/, bench/ and npu/.  A block that has commands must be marked "console".

A comment in the line before a block changes how it is treated:

    <!-- varies -->               numbers and the width of columns are not compared
    <!-- not run: REASON -->      the block is not run; the reason is printed
    <!-- needs MODULE -->         the block runs where Python finds the module, such as aclmem.npu after `make torch`;
                                  <!-- needs MODULE, varies --> is both

A line "..." of a block stands for any lines.  Addresses, process ids and paths of the tree are never compared.
--update replaces the outputs that differ, for a person to read the difference.
"""
import argparse
import difflib
import functools
import glob
import os
import re
import subprocess
import sys
import tempfile

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
MARK = "---- command ----"
# What went to standard error comes last: the order in time varies.  The program's part is before the command's, which prints
# a finding while the program prints its error, even between two parts of a line.
STEP = "echo '%s'\n: >.program\n(exit ${status-0})\n{ %s} 2>.stderr\nstatus=$?\ncat .program .stderr\n"
PROGRAM_RUN = re.compile(r"^(aclmem run(?: --[\w-]+)*) (build/bin/[\w/]+)$", flags=re.M)
BLOCK = re.compile(r"(?P<note><!-- [^\n]* -->\n)?^```(?P<kind>\w*)\n(?P<text>.*?)^```", flags=re.M | re.S)
PROGRAM = re.compile(r"`(\w+\.(?:c|py))`[^`]*(?:`[^`]*`[^`]*)?[:：]\n\n```(?:c|python)\n(.*?)^```", flags=re.M | re.S)

TREE = r"(?:\.\./|%s/)+(examples|include|src|bench|npu)/" % re.escape(ROOT)

# Text that depends on the machine or on the run, and what it becomes for the comparison.
UNSTEADY = [
    (r"\d+ MB free", "N MB free"),
    (r"\b0x[0-9a-f]{8,16}\b", "0xN"),
    (r"hello\+0x[0-9a-f]+", "hello+0xN"),
    (r"(process|thread) \d+", r"\1 N"),
    (TREE, r"\1/"),
]


class Block:
    """A console block: its place in the page, and its commands with what each is said to print."""

    def __init__(self, match):
        note = match.group("note") or ""
        self.span = match.span("text")
        self.varies = re.match(r"<!-- (needs [\w.]+, )?varies -->", note) is not None
        reason = re.match(r"<!-- not run: (.+) -->", note)
        self.not_run = reason.group(1) if reason else None
        module = re.match(r"<!-- needs ([\w.]+)(, varies)? -->", note)
        self.needs = module.group(1) if module else None
        parts = re.split(r"^\$ ", match.group("text"), flags=re.M)
        self.commands = [re.match(r"((?:[^\n]*\\\n)*[^\n]*\n)(.*)", part, flags=re.S).groups() for part in parts[1:]]


def steady(text, varies):
    for pattern, replacement in UNSTEADY:
        text = re.sub(pattern, replacement, text)
    if varies:
        text = re.sub(r"\d+(\.\d+)?( [nu]s| ms| [KMG]?B)?", "N", text)
        text = re.sub(r"[ #]{2,}", " ", text)
    return text


def agrees(shown, printed, varies):
    parts = re.split(r"^\.\.\.\n", shown, flags=re.M)
    pattern = "(?:.*\n)*".join(re.escape(steady(part, varies)) for part in parts)
    return re.fullmatch(pattern, steady(printed, varies)) is not None


def environment(build, python):
    """The caller's environment without options of the library; the runtime directory is the test's own."""
    keep = "ACLMEM_RUNTIME_DIR"
    env = {k: v for k, v in os.environ.items() if k == keep or not k.startswith(("ACLMEM_", "ASCEND_"))}
    folders = [os.path.join(build, "bin")] + ([os.path.dirname(python)] if python else [])
    env["PATH"] = os.pathsep.join(folders + [env["PATH"]])
    return env


def run(script, folder, env):
    done = subprocess.run(["sh", "-c", script], cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT)
    return done.stdout.decode("utf-8", "replace")


@functools.lru_cache
def has_module(name, build, python):
    env = dict(os.environ, PYTHONPATH=os.path.join(build, "python"))
    return subprocess.run([python, "-c", "import " + name], env=env, stderr=subprocess.DEVNULL).returncode == 0


def blocks_of(page, text, build, python, wrong):
    """The console blocks that can run."""
    for match in BLOCK.finditer(text):
        if match.group("kind") != "console":
            if re.search(r"^\$ ", match.group("text"), flags=re.M):
                wrong.append("%s: a block with commands is not marked console: %s" % (page, match.group("text")[:60]))
            continue
        block = Block(match)
        if block.not_run:
            print("%s: not run: %s" % (page, block.not_run))
        elif not python and any("python3" in command for command, _ in block.commands):
            print("%s: not run: the module acl was not built: %s" % (page, block.commands[0][0].strip()))
        elif block.needs and not has_module(block.needs, build, python):
            print("%s: not run: Python finds no %s: %s" % (page, block.needs, block.commands[-1][0].strip()))
        else:
            yield block


def check_page(page, build, python, wrong):
    """The page with the outputs that were printed, and the number of commands that ran."""
    with open(os.path.join(ROOT, page), encoding="utf-8") as file:
        text = file.read()
    blocks = list(blocks_of(page, text, build, python, wrong))
    count = sum(len(block.commands) for block in blocks)
    if count == 0:
        return text, 0
    with tempfile.TemporaryDirectory() as folder:
        os.symlink(build, os.path.join(folder, "build"))
        for name in ("include", "examples", "bench", "npu"):
            os.symlink(os.path.join(ROOT, name), os.path.join(folder, name))
        for name, program in PROGRAM.findall(text):
            with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                file.write(program)
        commands = [PROGRAM_RUN.sub(r"\1 sh -c 'exec \2 2>.program'", c) for block in blocks for c, _ in block.commands]
        script = "".join(STEP % (MARK, command) for command in commands)
        printed = run(script, folder, environment(build, python)).replace(folder + "/", "").split(MARK + "\n")[1:]
    if len(printed) != count:
        wrong.append("%s: %d commands, %d of them ran" % (page, count, len(printed)))
        return text, count

    new = text
    for block in reversed(blocks):
        outputs = printed[-len(block.commands) :]
        del printed[-len(block.commands) :]
        lines = []
        for (command, shown), now in zip(block.commands, outputs):
            if not agrees(shown, now, block.varies):
                difference = difflib.unified_diff(shown.splitlines(True), now.splitlines(True), page, "now")
                wrong.append("%s: $ %s%s" % (page, command, "".join(difference)))
                shown = re.sub(TREE, r"\1/", now)
            lines += ["$ ", command, shown]
        new = new[: block.span[0]] + "".join(lines) + new[block.span[1] :]
    return new, count


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("--python", default="")
    parser.add_argument("--update", action="store_true")
    parser.add_argument("page", nargs="*")
    arguments = parser.parse_intermixed_args()
    pages = arguments.page or sorted(
        os.path.relpath(path, ROOT)
        for pattern in ("*.md", "docs/**/*.md")
        for path in glob.glob(os.path.join(ROOT, pattern), recursive=True)
        if not re.search(r"\bzh\b", os.path.relpath(path, ROOT))  # Chinese pages have the same blocks: docs.chinese
    )
    wrong, total = [], 0
    for page in pages:
        new, count = check_page(page, os.path.abspath(arguments.build), arguments.python, wrong)
        total += count
        if arguments.update:
            with open(os.path.join(ROOT, page), "w", encoding="utf-8") as file:
                file.write(new)
    print("\n".join(wrong + ["%d commands of %d pages ran, %d differ" % (total, len(pages), len(wrong))]))
    return 1 if wrong or total == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
