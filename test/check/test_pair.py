#!/usr/bin/env python3
"""Findings of two processes that share memory: test_pair.py ACLMEM PAIR"""
import json
import subprocess
import sys
import tempfile
import unittest

ACLMEM, PAIR = sys.argv[1:3]


class Pair(unittest.TestCase):
    def found(self, *arguments):
        with tempfile.NamedTemporaryFile("r", suffix=".json") as file:
            done = subprocess.run(
                [ACLMEM, "run", "--json=" + file.name, PAIR] + list(arguments),
                stderr=subprocess.PIPE,
                universal_newlines=True,
            )
            return done, json.load(file)

    def check(self, name, kind, words, function, is_importer):
        done, found = self.found(name)
        self.assertEqual([f["kind"] for f in found["findings"]], [kind], done.stderr)
        finding = found["findings"][0]
        self.assertIn(words, finding["message"])
        self.assertIn(function, [frame["function"] for frame in finding["calls"][0]["stack"]])
        # The importer's frames begin with its own, so the process is told by them as well as by its id.
        functions = {frame["function"] for call in finding["calls"] for frame in call["stack"]}
        self.assertEqual("importer" in functions, is_importer, functions)
        self.assertEqual(len({call["pid"] for call in finding["calls"]}), 2 if name == "stale" else 1)
        self.assertEqual((found["processes"], done.returncode), (2, 99), done.stderr)

        done, found = self.found(name, "fixed")
        self.assertEqual((found["findings"], done.returncode), ([], 0), done.stderr)

    def test_an_import_that_is_forgotten_is_a_leak_of_the_importer(self):
        self.check("leak", "leak.import", "1 imported handle", "take_import", True)

    def test_a_second_export_is_found_in_the_exporter(self):
        self.check("twice", "export-twice", "was exported before", "export_it", False)

    def test_an_importer_that_is_killed_has_told_its_findings(self):
        self.check("killed", "double-free", "physical allocation of 2.0 MB", "give_back", True)

    def test_an_import_of_freed_memory_has_the_stacks_of_both_processes(self):
        self.check("stale", "stale-handle", "physical allocation of 2.0 MB, handle", "import_stale", True)
        done, found = self.found("stale")
        functions = {frame["function"] for call in found["findings"][0]["calls"] for frame in call["stack"]}
        self.assertLess({"import_stale", "free_early", "export_it"}, functions, done.stderr)

    def test_a_refused_import_before_the_free_is_no_finding(self):
        done, found = self.found("refused")
        self.assertEqual((found["findings"], done.returncode), ([], 0), done.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
