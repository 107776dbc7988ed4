#!/usr/bin/env python3
"""A long trace: recorded, converted to every format, back where a format can be read, and replayed.

    round_trip.py ACLMEM PLAYER CALLS

prints how long each step takes.  `make check` does it with few calls; a million take some minutes.
"""
import json
import os
import re
import subprocess
import sys
import tempfile
import time

ACLMEM, PLAYER, CALLS = sys.argv[1], sys.argv[2], int(sys.argv[3])
BLOCKS = 1 << 20
SNAPSHOT_MAX = 100000  # PyTorch's form repeats the stack with each block: 1.2 GB for a million calls


def step(name, *command, output=None):
    """Runs the command, prints its time and the size of its file; returns what it printed."""
    began = time.monotonic()
    done = subprocess.run([ACLMEM] + list(command), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if done.returncode != 0:
        sys.exit("%s: %d\n%s" % (command, done.returncode, (done.stdout + done.stderr)[-2000:].decode("latin-1")))
    size = ", %.1f MB" % (os.path.getsize(output) / 1e6) if output else ""
    print("%-24s %7.2f s%s" % (name, time.monotonic() - began, size), flush=True)
    return done.stdout


def count(path, pattern):
    """How often the pattern, which is shorter than 64 bytes, is in the file."""
    n, rest = 0, b""
    with open(path, "rb") as file:
        for data in iter(lambda: file.read(BLOCKS), b""):
            data = rest + data
            n += len(re.findall(pattern, data)) - len(re.findall(pattern, rest))
            rest = data[-64:]
    return n


def lines_played(path):
    """Blocks, peak and what is left of a file of `a ID SIZE STREAM` and `f ID`."""
    live, now, peak, blocks = {}, 0, 0, 0
    with open(path) as file:
        for line in file:
            word = line.split()
            if word[0] == "a":
                blocks += 1
                live[word[1]] = int(word[2])
                now += int(word[2])
                peak = max(peak, now)
            else:
                now -= live.pop(word[1])
    return blocks, peak, now


def pytorch_trip(trace, path, blocks):
    """To PyTorch's form and back: the same number of blocks, None for as many as `lines` has; nothing is left."""
    if blocks is None:
        step("its lines", "convert", trace, "--to", "lines", "--output", path("short"))
        blocks = lines_played(path("short"))[0]
    step("pytorch", "convert", trace, "--to", "pytorch", "--output", path("pytorch"), output=path("pytorch"))
    step("pytorch, back", "convert", path("pytorch"), "--to", "lines", "--output", path("back"), output=path("back"))
    assert lines_played(path("back"))[::2] == (blocks, 0)


def main(folder):
    path = lambda name: os.path.join(folder, name)  # noqa: E731
    trace = path("run.trace")
    step("record", "run", "--check", "none", "--quiet", "--trace", trace, PLAYER, str(CALLS), "2", output=trace)
    step("csv", "convert", trace, "--to", "csv", "--output", path("csv"), output=path("csv"))
    calls = count(path("csv"), rb"\n") - 1
    assert calls >= CALLS, calls
    step("chrome", "convert", trace, "--to", "chrome", "--output", path("chrome"), output=path("chrome"))
    assert count(path("chrome"), rb'"ph": ?"X"') == calls
    step("perfetto", "convert", trace, "--to", "perfetto", "--output", path("perfetto"), output=path("perfetto"))
    step("speedscope", "convert", trace, "--to", "speedscope", "--output", path("speedscope"), output=path("speedscope"))
    step("lines", "convert", trace, "--to", "lines", "--output", path("lines"), output=path("lines"))
    blocks, peak, left = lines_played(path("lines"))
    assert left == 0
    with open(path("speedscope")) as file:
        assert json.load(file)["profiles"][0]["endValue"] == peak
    folded = step("folded", "convert", trace, "--to", "folded", "--of", "calls").decode("latin-1")
    assert sum(int(line.rsplit(" ", 1)[1]) for line in folded.splitlines()) == calls

    # Out and back: PyTorch's form has the same blocks, and lines of lines are the same.
    step("lines, back", "convert", path("lines"), "--to", "lines", "--output", path("again"), output=path("again"))
    assert lines_played(path("again")) == (blocks, peak, 0)
    step("page", "report", trace, "--output", path("page"), output=path("page"))

    if CALLS <= SNAPSHOT_MAX:
        pytorch_trip(trace, path, blocks)
    else:
        short = path("short.trace")
        step("record a shorter one", "run", "--check", "none", "--quiet", "--trace", short, PLAYER, str(SNAPSHOT_MAX), "2")
        pytorch_trip(short, path, None)

    played = json.loads(step("replay", "replay", trace, "--json"))
    assert (played["differences"], played["skipped"]) == (0, 0), played
    print("%d calls, %d blocks, peak %d bytes; replayed %d with equal results" % (calls, blocks, peak, played["calls"]))


with tempfile.TemporaryDirectory() as temporary:
    main(temporary)
