#!/usr/bin/env python3
"""Recorded traces played again: test_replay.py ACLMEM PLAYER SHARE.SH SHARE_A SHARE_B"""
import json
import os
import subprocess
import sys
import tempfile
import unittest

ACLMEM, PLAYER = sys.argv[1:3]
SHARE = sys.argv[3:6]


def call(*arguments, code=0):
    done = subprocess.run([ACLMEM] + list(arguments), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if done.returncode != code:
        raise AssertionError("%s: %d\n%s%s" % (arguments, done.returncode, done.stdout.decode(), done.stderr.decode()))
    return done.stdout.decode("latin-1"), done.stderr.decode()


class Replay(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.trace = os.path.join(self.folder.name, "run.trace")

    def tearDown(self):
        self.folder.cleanup()

    def record(self, *program):
        call("run", "--check", "none", "--quiet", "--trace", self.trace, *program)

    def replay(self, *options):
        return json.loads(call("replay", self.trace, "--json", *options)[0])

    def calls(self):
        lines = call("trace", self.trace)[0].splitlines()
        return sum("aclGetRecentErrMsg(" not in line and "aclrtGetSocName(" not in line for line in lines)

    def test_all_calls_return_what_they_returned(self):
        self.record(PLAYER, "4000", "3")
        played = self.replay()
        self.assertEqual((played["differences"], played["skipped"]), (0, 0))
        self.assertEqual(played["calls"], self.calls())
        self.assertEqual(played["functions"]["aclrtMapMem"]["calls"], 2)
        self.assertGreater(played["peak_live"], 2 << 20)
        self.assertGreaterEqual(played["peak_held"], 2 << 20)
        again = self.replay("--speed", "recorded", "--backend", "host")
        self.assertEqual((again["calls"], again["differences"]), (played["calls"], 0))

    def test_processes_share_memory_again(self):
        self.record(*SHARE)
        played = self.replay()
        self.assertEqual((played["differences"], played["skipped"]), (0, 0))
        self.assertEqual(played["calls"], self.calls())
        self.assertGreaterEqual(played["functions"]["aclrtMemImportFromShareableHandle"]["calls"], 3)

    def test_other_results_are_told(self):
        self.record(PLAYER, "100", "1")
        done = subprocess.run([ACLMEM, "replay", self.trace], capture_output=True, env=dict(os.environ, ACLMEM_PRODUCT="310"))
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"differs: ", done.stdout)

    def test_blocks_go_to_an_allocator(self):
        self.record(PLAYER, "1000", "1")
        for allocator in ("pool", "mempool", "malloc"):
            self.assertGreater(self.replay("--allocator", allocator)["peak_held"], 0)

    def test_a_trace_may_have_no_calls(self):
        self.record(PLAYER, "10", "1")
        os.truncate(self.trace, 4096)  # the process has no more than its name
        self.assertEqual(self.replay()["calls"], 0)

    def test_wrong_arguments_are_named(self):
        self.record(PLAYER, "10", "1")
        self.assertIn("max or recorded", call("replay", self.trace, "--speed", "x", code=2)[1])
        self.assertIn("as-is", call("replay", ACLMEM, "--allocator", "as-is", code=2)[1])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
