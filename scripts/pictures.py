#!/usr/bin/env python3
"""Makes the pictures of the documents from examples and a trace of PyTorch: scripts/pictures.py [BIN]

It records examples with BIN/aclmem (default: build/bin), opens the pages in Chromium and writes docs/pictures/.
"""
import os
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "test", "trace"))
import browser  # noqa: E402

BIN = os.path.abspath(sys.argv[1]) if len(sys.argv) > 1 else os.path.join(ROOT, "build", "bin")
PICTURES = os.path.join(ROOT, "docs", "pictures")

# Page, view, picture, its height, what is done before.
SHOTS = (
    ("lora", "memory", "memory", 800, "stateSet({by: 'size'}); show('memory')"),
    ("lora", "memory", "blocks", 800, "stateSet({areas: 'blocks'}); show('memory')"),
    ("kv", "addresses", "addresses", 700, "stateSet({block: data.blocks.kind.findIndex((k) => data.kinds[k].name === 'mapped')}); redraw()"),
    ("kv", "pool", "pool", 800, ""),
    ("graph", "models", "models", 620, ""),
    ("race", "findings", "findings", 320, ""),
)


def aclmem(*arguments, codes=(0,)):
    done = subprocess.run([os.path.join(BIN, "aclmem")] + list(arguments), stdout=subprocess.DEVNULL)
    if done.returncode not in codes:
        sys.exit("aclmem %s: exit code %d" % (" ".join(arguments), done.returncode))


def pages_make(folder):
    """The page of each name; programs run in the folder, so that no path of this machine is in a picture."""
    os.chdir(folder)
    for name in ("kv_cache", "missing_sync", "graph_replay"):
        os.symlink(os.path.join(BIN, name), name)
    aclmem("run", "--quiet", "--check", "none", "--trace", "kv_cache.trace", "./kv_cache", "pool.json")
    aclmem("report", "kv_cache.trace", "--pool", "pool.json", "-o", "kv.html")
    aclmem("run", "--quiet", "--check", "none", "--trace", "graph_replay.trace", "--report", "graph.html", "./graph_replay")
    aclmem("run", "--quiet", "--trace", "missing_sync.trace", "--report", "race.html", "./missing_sync", codes=(99,))
    os.symlink(os.path.join(ROOT, "bench", "traces", "lora.trace.gz"), "lora.trace.gz")
    aclmem("report", "lora.trace.gz", "-o", "lora.html")


def main():
    os.environ.pop("ACLMEM_LAYERS", None)
    with tempfile.TemporaryDirectory() as folder:
        pages_make(folder)
        chrome = browser.Browser()
        try:
            for page, view, name, height, before in SHOTS:
                chrome.size(1280, height)
                chrome.open(os.path.join(folder, page + ".html"))
                chrome.evaluate("show('%s'); %s" % (view, before))
                chrome.picture(os.path.join(PICTURES, name + ".png"))
            if chrome.complaints():
                sys.exit("\n".join(chrome.complaints()))
        finally:
            chrome.close()


if __name__ == "__main__":
    if browser.find() is None:
        sys.exit("there is no Chromium here (Debian's package chromium)")
    main()
