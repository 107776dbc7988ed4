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

    def run_it(self, *arguments, code=0):
        env = dict(os.environ, LD_LIBRARY_PATH=os.path.dirname(HALF))
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
        self.assertIn("1 finding,", err)

    def test_a_library_that_is_not_there_is_refused(self):
        self.assertIn("--over", self.run_it("--over", "/nowhere/lib.so", "true", code=2)[1])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
