#!/usr/bin/env python3
"""Layers over other libraries: test_over.py ACLMEM HALF USER OURS PLAYER RACE

HALF is a library with half of the functions, OURS our own, which is copied under another name.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ACLMEM, HALF, USER, OURS, PLAYER, RACE = sys.argv[1:7]


class Over(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.trace = os.path.join(self.folder.name, "trace")

    def tearDown(self):
        self.folder.cleanup()

    def run_it(self, *arguments, code=0, **variables):
        env = dict(os.environ, LD_LIBRARY_PATH=os.path.dirname(HALF), **variables)
        done = subprocess.run([ACLMEM, "run"] + list(arguments), stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env)
        if done.returncode != code:
            raise AssertionError("%s: %d\n%s%s" % (arguments, done.returncode, done.stdout.decode(), done.stderr.decode()))
        return done.stdout.decode(), done.stderr.decode()

    def record(self, library, *program):
        return self.run_it("--over", library, "--check", "none", "--force", "--quiet", "--trace", self.trace, *program)

    def recorded(self):
        text = subprocess.run([ACLMEM, "trace", self.trace], stdout=subprocess.PIPE, check=True).stdout.decode()
        return [re.sub(r"^[\d.]+ (\[\d+\] )?\d+ | <[\d.]+ \w+>$", "", line) for line in text.splitlines()]

    def test_half_a_library_is_recorded_and_the_rest_passed_on(self):
        out, err = self.record(HALF, USER, "linked")
        self.assertEqual(out, "HalfAscend 2\nmissing 207000\n")
        self.assertIn("aclrtGetDeviceCount is called, and", err)
        names = [line.split("(")[0] for line in self.recorded()]
        self.assertEqual(names, ["aclInit", "aclrtSetDevice", "aclrtMalloc", "aclrtFree", "aclrtMallocCached", "aclrtFree",
                                 "aclrtGetSocName", "aclrtGetDeviceCount", "aclFinalize"])

    def test_programs_that_dlopen_are_seen(self):
        self.record(HALF, USER, "dlopen")
        self.assertEqual([line.split("(")[0] for line in self.recorded()], ["aclInit", "aclrtMalloc"])

    def test_python_is_seen(self):
        script = "import ctypes; a = ctypes.CDLL('libascendcl.so'); a.aclInit(None); a.aclrtSetDevice(5)"
        self.record(HALF, "/usr/bin/python3", "-c", script)
        self.assertEqual(self.recorded()[-1], "aclrtSetDevice(deviceId=5) = 107001 ACL_ERROR_RT_INVALID_DEVICEID")

    def test_leaks_over_another_library_are_found(self):
        out, err = self.run_it("--over", HALF, USER, "dlopen", code=99)
        self.assertIn("leak.block", err)

    def test_stale_addresses_and_the_default_stream_are_checked(self):
        out, err = self.run_it("--over", HALF, USER, "wrong", code=99)
        self.assertIn("aclmem: use-after-free: src is the block of 100 bytes", err)
        self.assertIn("aclmem: race: the host reads byte 0 of the block", err)
        self.assertNotIn("is called, and", err)

    def test_sessions_of_test_runners_work(self):
        """As the plugin of pytest does it; the findings of the session are also those of the run."""
        script = (
            "import ctypes\n"
            "a = ctypes.CDLL('libascendcl.so')\n"
            "block, text = ctypes.c_void_p(), ctypes.c_char_p()\n"
            "assert a.aclInit(None) == 0 and a.aclrtSetDevice(0) == 0\n"
            "assert a.aclmem_check_begin(ctypes.c_uint64(0)) == 0\n"
            "assert a.aclrtMalloc(ctypes.byref(block), ctypes.c_size_t(3000), 0) == 0\n"
            "assert a.aclmem_check_findings(ctypes.byref(text)) == 0 and text.value == b'[]'\n"
            "assert a.aclmem_check_end(1, ctypes.byref(text)) == 0\n"
            "print(text.value.decode())\n"
        )
        out, err = self.run_it("--over", HALF, "/usr/bin/python3", "-c", script, code=99)
        self.assertIn("1 block of 2.9 KB is still there at the end of the test", out)
        self.assertEqual(err.count("aclmem: leak.block: 1 block"), 1)

    def test_the_plugin_of_pytest_works(self):
        modules = os.path.join(os.path.dirname(os.path.dirname(OURS)), "python")
        if not os.path.exists(os.path.join(modules, "aclmem", "pytest_plugin.py")):
            self.skipTest("the Python module is not built")
        path = os.path.join(self.folder.name, "test_it.py")
        with open(path, "w") as file:
            file.write("import ctypes, pytest\n"
                       "a = ctypes.CDLL('libascendcl.so')\n"
                       "def take():\n"
                       "    block = ctypes.c_void_p()\n"
                       "    assert a.aclrtMalloc(ctypes.byref(block), ctypes.c_size_t(3000), 0) == 0\n"
                       "    return block\n"
                       "def test_begin(): a.aclInit(None)\n"
                       "@pytest.mark.aclmem_no_leaks\n"
                       "def test_leak(): take()\n"
                       "@pytest.mark.aclmem_no_leaks\n"
                       "def test_good(): a.aclrtFree(take())\n")
        out, err = self.run_it("--quiet", "--over", HALF, "env", "PYTHONPATH=" + modules, "/usr/bin/python3", "-B", "-m", "pytest",
                               "-q", "-p", "no:cacheprovider", "-p", "aclmem.pytest_plugin", "--aclmem-check", path, code=1)
        self.assertIn("3 passed, 1 error", out)
        self.assertIn("still there at the end of the test", out)

    def test_our_own_library_under_another_name(self):
        other = os.path.join(self.folder.name, "libother.so")
        shutil.copy(OURS, other)
        self.record(other, PLAYER, "500", "1")
        over = [line.split("(")[0] for line in self.recorded()]
        self.run_it("--check", "none", "--force", "--quiet", "--trace", self.trace, PLAYER, "500", "1")
        direct = [line.split("(")[0] for line in self.recorded()]
        self.assertEqual(over, ["aclInit"] + direct)
        err = self.run_it("--over", other, RACE, code=99)[1]
        self.assertIn("aclmem: race:", err)
        self.assertIn("aclmem: 1 finding;", err)

    def test_a_library_that_is_not_there_is_refused(self):
        self.assertIn("--over", self.run_it("--over", "/nowhere/lib.so", "true", code=2)[1])

    def test_missing_layers_are_refused(self):
        alone = os.path.join(self.folder.name, "libascendcl.so")
        shutil.copy(OURS, alone)  # which the command uses, without libaclmem_layers.so beside it
        err = self.run_it("--over", HALF, USER, "dlopen", code=2, LD_PRELOAD=alone)[1]
        self.assertRegex(err, "--over: .*/libaclmem_layers.so, .*No such file")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
