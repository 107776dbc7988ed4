#!/usr/bin/env python3
"""What is said without any layer: test_explain.py BUGS"""
import subprocess
import os
import signal
import sys
import unittest

BUGS = sys.argv[1]


class Explain(unittest.TestCase):
    def run_it(self, *arguments, **env):
        return subprocess.run(
            [BUGS] + list(arguments),
            env=dict(os.environ, **env),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            universal_newlines=True,
        )

    def test_a_touch_of_device_memory_dies_as_before_and_says_why(self):
        for case, words in (("read", "byte 10 of the block of 1000 bytes"), ("libc", " of the mapping of 2097152")):
            done = self.run_it("device-touch/" + case)
            self.assertEqual(done.returncode, -signal.SIGSEGV)
            self.assertIn("the program touched device memory: 0x", done.stderr)
            self.assertIn(words, done.stderr)
            self.assertEqual(done.stderr.count("\n"), 1)

    def test_it_can_be_turned_off(self):
        done = self.run_it("device-touch/read", ACLMEM_EXPLAIN="0")
        self.assertEqual((done.returncode, done.stderr), (-signal.SIGSEGV, ""))
        done = self.run_it("leak.block/loop", ACLMEM_EXPLAIN="0")
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_what_is_left_is_told_at_the_end(self):
        self.assertIn("warn: 2 pinned blocks, 200 bytes, still there at aclFinalize", self.run_it("leak.host/loop").stderr)
        done = self.run_it("leak.block/exit")
        self.assertIn("warn: 1 block, 4.0 KB, still there at the end of the process; aclmem run shows", done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1)
        # A reset of the device does not free managed memory.
        self.assertIn("warn: 1 managed block, 1000 bytes, still there at aclFinalize", self.run_it("leak.block/managed").stderr)

    def test_what_a_reset_frees_is_reported(self):
        done = self.run_it("leak.block/forgotten")
        self.assertIn("warn: 1 block, 1.0 MB, still there at the last aclrtResetDevice; aclmem run shows", done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1)
        self.assertIn("warn: 1 physical allocation, ", self.run_it("leak.phys/reset").stderr)

    def test_a_tidy_program_is_told_nothing(self):
        self.assertEqual(self.run_it("leak.host/loop", "fixed").stderr, "")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
