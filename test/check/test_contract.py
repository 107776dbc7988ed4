#!/usr/bin/env python3
"""Runs a program of the contract tests under the layer check: test_contract.py ACLMEM PROGRAM [OPTION...]

It passes as without, and nothing is found but what its tests plant: calls that the library refuses, and what
planted.supp names.
"""
import json
import os
import subprocess
import sys
import tempfile

ACLMEM, PROGRAM = sys.argv[1:3]
PLANTED = os.path.join(os.path.dirname(os.path.abspath(__file__)), "planted.supp")


def main():
    with tempfile.NamedTemporaryFile("r", suffix=".json") as file:
        done = subprocess.run(
            [ACLMEM, "run", "--json=" + file.name, "--suppress", PLANTED] + sys.argv[3:] + ["--", PROGRAM],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            universal_newlines=True,
        )
        found = json.load(file)
    wrong = [f for f in found["findings"] if not f["refused"]]
    for finding in wrong:
        print("not planted: %(kind)s: %(message)s" % finding)
        for call in finding["calls"]:
            print("    %s: %s" % (call["what"], " < ".join(f["function"] for f in call["stack"][:6])))
    if found["exit_code"] not in (0, 77):
        print(done.stdout)
        print("exit code %d" % found["exit_code"])
    return 1 if wrong or found["exit_code"] not in (0, 77) else 0


if __name__ == "__main__":
    sys.exit(main())
