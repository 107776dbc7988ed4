#!/usr/bin/env python3
"""How fast the page of aclmem report is with a million events:  page.py ACLMEM [--strict]

A headless Chromium opens the page and drags the chart.  The limits are those of a browser: an empty page, and 60
frames a second.  A missed budget is reported; with --strict it fails the program.
"""
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "test", "trace"))
import browser  # noqa: E402
import large  # noqa: E402

ROUNDS = 5
FIRST_PAINT = 2000  # ms
FRAME = 1000 / 60


def opened(path, is_dragged):
    """Milliseconds until the page is complete, and those of large.drag()."""
    chrome = browser.Browser()
    try:
        chrome.size(1280, 860)
        chrome.open(path)
        ready = chrome.evaluate("performance.now()")
        return ready, large.drag(chrome) if is_dragged else None
    finally:
        chrome.close()


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    if browser.find() is None:
        print("the page: not measured, there is no Chromium (Debian's package chromium)")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        lines, empty = os.path.join(folder, "lines"), os.path.join(folder, "empty.html")
        large.trace_write(lines)
        subprocess.run([sys.argv[1], "report", lines], check=True, stdout=subprocess.DEVNULL)
        with open(empty, "w", encoding="ascii") as file:
            file.write("<html data-ready=yes>")
        limit = min(opened(empty, False)[0] for _ in range(ROUNDS))
        rounds = [opened(lines + ".html", True) for _ in range(ROUNDS)]
    first = min(ready for ready, _ in rounds)
    between, work = min((drag for _, drag in rounds), key=lambda drag: large.middle(drag[1]))
    rows = (("first paint, ms", first, limit, FIRST_PAINT), ("work of a frame, median, ms", large.middle(work), FRAME, FRAME),
            ("work of a frame, 95 of 100, ms", sorted(work)[len(work) * 95 // 100], FRAME, FRAME), ("between two frames, median, ms", large.middle(between), FRAME, 1.1 * FRAME))
    print("the page of %d events, %d rounds, the best one\n%-32s %10s %10s %10s" % (large.EVENTS, ROUNDS, "", "measured", "limit", "budget"))
    missed = 0
    for what, measured, bound, budget in rows:
        print("%-32s %10.1f %10.1f %10.1f%s" % (what, measured, bound, budget, "  MISSED" if measured > budget else ""))
        missed += measured > budget
    return 1 if missed and "--strict" in sys.argv else 0


if __name__ == "__main__":
    sys.exit(main())
