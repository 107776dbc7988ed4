#!/usr/bin/env python3
"""scripts/try_client.sh: its table, its words where it cannot go on, and a run with a checkout that is here already:
test_try_client.py <build folder> [<python3 that the module acl is for>]"""
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.abspath(os.path.join(HERE, "..", ".."))
SCRIPT = os.path.join(ROOT, "scripts", "try_client.sh")
CLIENTS = os.path.join(ROOT, "scripts", "clients")


def run(*arguments, **given):
    return subprocess.run([SCRIPT, *arguments], env={**os.environ, "BUILD": BUILD, **given}, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, universal_newlines=True)


class TryClient(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)

    def test_each_row_of_the_table_is_complete(self):
        with open(os.path.join(CLIENTS, "clients.txt")) as file:
            rows = [[cell.strip() for cell in line.split("|")] for line in file if not line.startswith("#")]
        self.assertTrue(rows)
        for row in rows:
            name, address, commit, licence, files, built, stubbed = row
            self.assertRegex(address, r"^https://\S+\.git$")
            self.assertRegex(commit, r"^[0-9a-f]{7,40}$")
            self.assertRegex(licence, r"^[A-Z][\w.-]+$")  # as SPDX names it
            self.assertTrue(files and built and stubbed)
            self.assertTrue(os.access(os.path.join(CLIENTS, name + ".sh"), os.X_OK), name)
        with open(os.path.join(ROOT, "docs", "FOUND.md")) as file:
            page = file.read()
        for row in rows:  # the commits that are said to have run
            self.assertIn("| %s %s |" % (row[0], row[2]), page)
        self.assertIn(rows[0][1], run("--list").stdout)

    def test_an_unknown_name_is_refused_with_those_that_exist(self):
        for arguments in ((), ("nobody",), (".*",), ("vllm-ascend", "a", "b")):
            done = run(*arguments)
            self.assertEqual(done.returncode, 2)
            self.assertIn("vllm-ascend llama.cpp", done.stdout)

    def test_headers_that_aclmem_does_not_have_are_named(self):
        folder = os.path.join(self.folder, "ggml", "src", "ggml-cann")
        os.makedirs(folder)
        with open(os.path.join(folder, "aclnn_ops.cpp"), "w") as file:
            file.write("#include <aclnnop/aclnn_sub.h>\n#include <aclnnop/aclnn_add.h>\n#include <vector>\n")
        done = run("llama.cpp", self.folder)
        self.assertEqual(done.returncode, 1)
        self.assertIn("2 headers of operators are missing, the first is aclnnop/aclnn_add.h", done.stdout)
        self.assertIn("OPERATOR_HEADERS=FOLDER", done.stdout)

    def test_without_a_network_it_says_so(self):
        with open(os.path.join(self.folder, "git"), "w") as file:
            file.write("#!/bin/sh\necho 'fatal: Could not resolve host: github.com' >&2\nexit 128\n")
        os.chmod(file.name, 0o755)
        done = run("llama.cpp", PATH=self.folder + ":" + os.environ["PATH"])
        self.assertEqual(done.returncode, 1)
        self.assertIn("could not be fetched from https://github.com/ggml-org/llama.cpp.git", done.stdout)
        self.assertIn("needs a network", done.stdout)
        self.assertFalse(os.path.exists(os.path.join(BUILD, "clients", "llama.cpp")))

    def test_a_missing_folder_or_build_is_named(self):
        self.assertIn("there is no folder /nowhere", run("vllm-ascend", "/nowhere").stdout)
        self.assertIn("run make first", run("vllm-ascend", BUILD=self.folder).stdout)

    def test_a_checkout_that_is_here_is_built_and_run(self):
        if PYTHON is None:
            self.skipTest("the Python module is not built")
        checkout = os.path.join(self.folder, "client")
        shutil.copytree(os.path.join(HERE, "client"), checkout)
        done = run("vllm-ascend", checkout, PYTHON=PYTHON)
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn("allocated, slept, woke at the same address, freed", done.stdout)
        self.assertTrue(re.search(r"^vllm-ascend ran: ", done.stdout, flags=re.M))


if __name__ == "__main__":
    BUILD = os.path.abspath(sys.argv[1])
    PYTHON = sys.argv[2] if len(sys.argv) > 2 else None
    unittest.main(argv=sys.argv[:1])
