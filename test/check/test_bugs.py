#!/usr/bin/env python3
"""Runs each small program under `aclmem run`: test_bugs.py ACLMEM BUGS [CASE...]

The one with the mistake has its finding, and no other kind; the fixed one has none.  BUGS_WITHOUT names kinds that are left
out of `--check all`, as in ",no-race.host".
"""
import json
import os
import subprocess
import sys
import tempfile
import unittest

ACLMEM, BUGS = sys.argv[1:3]


def cases():
    text = subprocess.run([BUGS, "--list"], stdout=subprocess.PIPE, universal_newlines=True, check=True).stdout
    for line in text.splitlines():
        yield line.split("\t")


class Bugs(unittest.TestCase):
    def run_it(self, *arguments):
        with tempfile.NamedTemporaryFile("r", suffix=".json") as file:
            done = subprocess.run(
                [ACLMEM, "run", "--json=" + file.name] + list(arguments),
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                universal_newlines=True,
            )
            try:
                return done, json.load(file)
            except ValueError:
                self.fail("%s: %s" % (arguments, done.stderr))

    def told(self, found):
        return "\n".join("%s: %s" % (f["kind"], f["message"]) for f in found["findings"])

    def check(self, name, kind, words, function, options, code, product):
        if product:
            os.environ["ACLMEM_PRODUCT"] = product
            self.addCleanup(os.environ.pop, "ACLMEM_PRODUCT")
        options = options.replace("--check all", "--check all" + os.environ.get("BUGS_WITHOUT", "")).split()
        done, found = self.run_it(*options, BUGS, name)
        if not kind:
            self.assertEqual((self.told(found), done.returncode), ("", 0), done.stderr)
            return
        self.assertEqual({f["kind"] for f in found["findings"]}, {kind}, done.stderr)
        matching = [f for f in found["findings"] if words in f["message"]]
        self.assertTrue(matching, "%s is not in: %s" % (words, self.told(found)))
        functions = {frame["function"] for call in matching[0]["calls"] for frame in call["stack"]}
        self.assertIn(function, functions, done.stderr)
        self.assertEqual(done.returncode, code or 99, done.stderr)
        self.assertIn("aclmem: %s: %s" % (kind, matching[0]["message"]), done.stderr)

        done, found = self.run_it(*options, BUGS, name, "fixed")
        self.assertEqual((self.told(found), done.returncode), ("", 0), done.stderr)


def case(name, kind, words, function, options, code, product):
    def test(self):
        self.check(name, kind, words, function, options, int(code), product)

    return test


chosen = sys.argv[3:]
for row in cases():
    if not chosen or any(row[0].startswith(c) for c in chosen):
        setattr(Bugs, "test_" + row[0], case(*row))

if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
