#!/usr/bin/env python3
"""Draws the pictures of the architecture: draw.py [--check] reads docs/pictures/*.txt and writes the SVG of each next to it.

A line of the text is one of

    box NAME COLUMN ROW WIDTH TITLE | SUBTITLE      columns and rows are counted from 0; WIDTH is in columns
    arrow FROM TO [LABEL]                           from the border of one box to the border of the other

With --check nothing is written; the exit status is 1 if a picture is not up to date.
"""
import glob
import html
import os
import sys

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
COLUMN, ROW, GAP_X, GAP_Y, HEIGHT = 190, 100, 24, 46, 54

HEAD = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="14">
<style>
rect { fill: #f4f6f8; stroke: #57606a } text { fill: #1f2328; text-anchor: middle } .small { font-size: 11px; fill: #57606a }
line { stroke: #57606a; stroke-width: 1.5; marker-end: url(#tip) } path { fill: #57606a }
@media (prefers-color-scheme: dark) { rect { fill: #161b22; stroke: #8b949e } text { fill: #e6edf3 } .small { fill: #8b949e }
line { stroke: #8b949e } path { fill: #8b949e } }
</style>
<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto"><path d="M0 0 8 4 0 8z"/></marker></defs>
"""


def parse(text):
    """({name: (x, y, width, title, subtitle)}, [(from, to, label)])"""
    boxes, arrows = {}, []
    for line in text.splitlines():
        words = line.split()
        if line.startswith("box "):
            column, row, width = (int(word) for word in words[2:5])
            title, _, subtitle = line.split(None, 5)[5].partition(" | ")
            boxes[words[1]] = (column * COLUMN + GAP_X // 2, row * ROW + 8, width * COLUMN - GAP_X, title, subtitle)
        elif line.startswith("arrow "):
            arrows.append((words[1], words[2], " ".join(words[3:])))
    return boxes, arrows


def ends(first, second):
    """Where an arrow between two boxes begins and ends."""
    (ax, ay, aw, *_), (bx, by, bw, *_) = first, second
    if ay == by:  # side by side
        left = ax < bx
        return (ax + aw if left else ax, ay + HEIGHT // 2), (bx if left else bx + bw, by + HEIGHT // 2)
    low, high = max(ax, bx), min(ax + aw, bx + bw)
    x = (low + high) // 2 if low < high else None
    down = ay < by
    start = (x or ax + aw // 2, ay + HEIGHT if down else ay)
    return start, (x or bx + bw // 2, by if down else by + HEIGHT)


def draw(text):
    boxes, arrows = parse(text)
    width = max(x + w for x, _, w, _, _ in boxes.values()) + GAP_X // 2
    height = max(y for _, y, *_ in boxes.values()) + HEIGHT + 8
    parts = [HEAD % (width, height)]
    for x, y, w, title, subtitle in boxes.values():
        parts.append('<rect x="%d" y="%d" width="%d" height="%d" rx="6"/>\n' % (x, y, w, HEIGHT))
        parts.append('<text x="%d" y="%d">%s</text>\n' % (x + w // 2, y + (24 if subtitle else 32), html.escape(title)))
        if subtitle:
            parts.append('<text class="small" x="%d" y="%d">%s</text>\n' % (x + w // 2, y + 42, html.escape(subtitle)))
    for first, second, label in arrows:
        (x1, y1), (x2, y2) = ends(boxes[first], boxes[second])
        parts.append('<line x1="%d" y1="%d" x2="%d" y2="%d"/>\n' % (x1, y1, x2, y2))
        if label:
            x = (x1 + x2) // 2 + (0 if y1 == y2 else 6 + 3 * len(label))
            parts.append('<text class="small" x="%d" y="%d">%s</text>\n' % (x, (y1 + y2) // 2 - (4 if y1 == y2 else -4), html.escape(label)))
    return "".join(parts) + "</svg>\n"


def main(argv):
    stale = []
    for source in sorted(glob.glob(os.path.join(ROOT, "docs", "pictures", "*.txt"))):
        with open(source, encoding="utf-8") as file:
            picture = draw(file.read())
        path = source[: -len("txt")] + "svg"
        if "--check" not in argv:
            with open(path, "w", encoding="utf-8") as file:
                file.write(picture)
        elif not os.path.exists(path) or open(path, encoding="utf-8").read() != picture:
            stale.append(path)
    for path in stale:
        print("%s is not up to date: run scripts/draw.py" % os.path.relpath(path, ROOT))
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
