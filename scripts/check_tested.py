#!/usr/bin/env python3
"""Checks that every function that works is called by some contract test.

    check_tested.py SOURCE_DIR TEST_DIR...      (src; test/api, test/share, test/toolkit)
"""

import pathlib
import re
import sys


def main():
    if len(sys.argv) < 3:
        print(__doc__, file=sys.stderr)
        return 2
    source, *folders = map(pathlib.Path, sys.argv[1:])
    lists = [source / "api" / name for name in ("api.def", "api_variadic.def")]
    rows = "".join(path.read_text() for path in lists + sorted(source.glob("toolkit/*.def")))
    names = re.findall(r"^AM_(?:FUNCTION\w*|API\w*|DATA|RUNTIME)\((?:[\w *]+,\s*)?((?:acl|Hccl|rt)\w+)[,)]", rows, re.M)
    tests = "".join(path.read_text() for folder in folders for path in sorted(folder.glob("*.c")))
    called = set(re.findall(r"\b((?:acl|Hccl|rt)\w+)\(", tests))
    missing = [name for name in names if name not in called]
    for name in missing:
        print(f"{name}: no test calls it")
    print(f"{len(names)} functions, {len(missing)} without a test")
    return 1 if missing or not names else 0


sys.exit(main())
