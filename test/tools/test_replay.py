#!/usr/bin/env python3
"""Replays traces: test_replay.py <aclmem> <folder of the traces> <a program with blocks>"""
import glob
import gzip
import json
import os
import subprocess
import sys
import tempfile
import unittest

KEYS = ["peak_live", "peak_held", "ratio", "creates", "remaps", "ns_per_op"]


class Replay(unittest.TestCase):
    def replay(self, *arguments):
        return subprocess.run(
            [COMMAND, "replay"] + list(arguments),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            universal_newlines=True,
        )

    def result(self, *arguments):
        done = self.replay("--json", *arguments)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        result = json.loads(done.stdout)
        self.assertEqual(list(result), KEYS)
        self.assertAlmostEqual(result["ratio"], result["peak_live"] / result["peak_held"], places=3)
        return result

    def trace(self, text, compressed=False):
        file = tempfile.NamedTemporaryFile(suffix=".trace")
        file.write(gzip.compress(text.encode()) if compressed else text.encode())
        file.flush()
        self.addCleanup(file.close)
        return file.name

    def test_the_pool_holds_hardly_more_than_is_live(self):
        traces = sorted(glob.glob(os.path.join(TRACES, "*.trace.gz")))
        self.assertEqual(len(traces), 5)
        for trace in traces:
            self.assertGreaterEqual(self.result(trace)["ratio"], 0.99, trace)
            result = self.result(trace, "--allocator", "mempool")
            self.assertGreaterEqual(result["ratio"], 0.98, trace)

    def test_other_allocators_are_measured_too(self):
        trace = os.path.join(TRACES, "lora.trace.gz")
        for allocator in ("mempool", "malloc", "aliases"):
            result = self.result(trace, "--allocator", allocator)
            self.assertTrue(0.5 < result["ratio"] <= 1, allocator)
            self.assertGreater(result["creates"], 0)

    def test_a_trace_may_be_plain_or_compressed(self):
        text = "# a comment\na 1 3000000 0\na 2 5000000 3\nf 1\nf 7\na 1 512\nf 2\n"
        for compressed in (False, True):
            self.assertEqual(self.result(self.trace(text, compressed))["peak_live"], 8000000)
        done = self.replay(self.trace(text))
        self.assertIn("3 blocks, 5 operations, streams: 4, frees of blocks that the trace does not have: 1", done.stdout)

    def test_streams_may_have_any_number(self):
        done = self.replay(self.trace("a 1 512 70000\na 2 512 0\nf 1\n"))
        self.assertIn("2 blocks, 3 operations, streams: 2", done.stdout)

    def test_replay_reads_what_convert_reads(self):
        events = [{"action": "alloc", "addr": 64, "size": 4096, "stream": 0}, {"action": "free_completed", "addr": 64, "size": 4096}]
        snapshot = self.trace(json.dumps({"segments": [], "device_traces": [events]}))
        self.assertEqual(self.result(snapshot)["peak_live"], 4096)

    def test_a_recorded_program_is_a_trace_too(self):
        with tempfile.TemporaryDirectory() as folder:
            recorded = os.path.join(folder, "recorded")
            done = subprocess.run(
                [COMMAND, "run", "--check", "none", "--trace", recorded, "--", PROGRAM], stdout=subprocess.PIPE, stderr=subprocess.PIPE
            )
            self.assertEqual(done.returncode, 0, done.stderr)
            result = self.result(recorded, "--allocator", "pool")
        self.assertGreater(result["peak_live"], 0)

    def test_what_is_no_trace_is_refused_with_its_line(self):
        for text, words in (
            ("a 1 512 0\nb 2\n", 'line 2: neither "a ID SIZE STREAM" nor "f ID"'),
            ("a 1 0 0\n", "line 1: neither"),
            ("a 1 512 99999999999\n", "line 1: neither"),
            ("a 1 -512 0\n", "line 1: neither"),
            ("a 1 99999999999999999999999 0\n", "sizes go from 1 to 17592186044416"),
            ("", "it is empty"),
            ("# nothing\n", "has no blocks"),
        ):
            done = self.replay(self.trace(text))
            self.assertEqual((done.returncode, done.stdout), (1, ""))
            self.assertIn(words, done.stderr)
        damaged = self.trace("x")
        with open(damaged, "wb") as file:
            file.write(gzip.compress(b"a 1 512 0\n" * 1000)[:40])
        self.assertEqual(self.replay(damaged).returncode, 1)
        self.assertIn("damaged", self.replay(damaged).stderr)
        self.assertEqual(self.replay("/nowhere/at.all").returncode, 1)
        self.assertIn("Is a directory", self.replay("/").stderr)

    def test_a_full_disk_is_a_failure(self):
        with open("/dev/full", "w") as full:
            done = subprocess.run([COMMAND, "replay", "--json", self.trace("a 1 512 0\n")], stdout=full, stderr=subprocess.PIPE)
        self.assertEqual((done.returncode, done.stderr), (1, b"aclmem: the output could not be written: No space left on device\n"))

    def test_wrong_arguments_are_refused(self):
        self.assertEqual(self.replay().returncode, 2)
        self.assertEqual(self.replay("x", "--allocator", "none").returncode, 2)


if __name__ == "__main__":
    COMMAND, TRACES, PROGRAM = sys.argv[1:4]
    unittest.main(argv=sys.argv[:1])
