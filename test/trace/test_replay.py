#!/usr/bin/env python3
"""Replay of recorded traces: test_replay.py ACLMEM PLAYER CALLER SHARE.SH SHARE_A SHARE_B BRANCHES"""
import json
import os
import pty
import signal
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import forge  # noqa: E402

ACLMEM, PLAYER, CALLER = sys.argv[1:4]
SHARE = sys.argv[4:7]
BRANCHES = sys.argv[7]


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

    def test_arrays_above_1024_elements_and_pointers_to_values_replay(self):
        self.record(CALLER)
        played = self.replay()
        self.assertEqual((played["differences"], played["skipped"]), (0, 0))
        self.assertEqual(played["shortened"], 1)  # 3,000 copies, of which the trace has 1,024
        self.assertEqual(played["functions"]["aclrtMemcpyBatch"]["calls"], 1)
        self.assertEqual(played["functions"]["aclrtLaunchHostFunc"]["calls"], 1)

    def test_conditional_tasks_replay(self):
        self.record(BRANCHES, "loop")
        played = self.replay()
        self.assertEqual((played["differences"], played["skipped"]), (0, 0))
        self.assertEqual(played["calls"], self.calls())
        self.assertEqual(played["functions"]["aclmdlRIAddCondTask"]["calls"], 3)
        self.assertEqual(played["functions"]["aclmdlRICaptureToModelRIBegin"]["calls"], 5)

    def replace_bytes(self, right, wrong):
        with open(self.trace, "r+b") as file:
            content = file.read()
            self.assertEqual((content.count(right), len(right)), (1, len(wrong)))
            file.seek(0)
            file.write(content.replace(right, wrong))

    def test_a_trace_with_other_signatures_is_refused(self):
        """A function pointer as a number would be an address of the file that is called."""
        for right, wrong in ((b"stream:p fn:p args:p", b"stream:x fn:x args:x"),
                             (b"stream:p fn:p args:p", b"args:p stream:p fn:p"),
                             (b"dsts:p<p destMaxs:p<z", b"dsts:p<z destMaxs:p<p")):
            self.record(CALLER)
            with open(self.trace, "rb") as file:
                n = file.read().count(right)
            if n > 1:  # the batch functions have the same arguments: forge the first
                with open(self.trace, "r+b") as file:
                    content = file.read()
                    file.seek(content.index(right))
                    file.write(wrong)
            else:
                self.replace_bytes(right, wrong)
            self.assertIn("other arguments of aclrt", call("replay", self.trace, code=1)[1])
            os.unlink(self.trace)

    def test_an_array_of_another_length_is_refused(self):
        self.record(CALLER)
        # numBatches, 3000, becomes 300 where the call is recorded: varint b8 17 -> ac 02.
        with open(self.trace, "r+b") as file:
            content = file.read()
            at = content.index(b"\xb8\x17")
            file.seek(at)
            file.write(b"\xac\x02")
        self.assertIn("another length", call("replay", self.trace, code=1)[1])

    BEGIN = (forge.function(1, b"aclrtSetDevice", b"deviceId:i") + forge.function(2, b"aclrtMallocHost", b"hostPtr:P size:z")
             + forge.function(3, b"aclrtMemcpy", b"dst:p destMax:z src:p count:z kind:e")
             + forge.function(4, b"aclrtIpcOpenEventHandle", b"handle:v event:P")
             + forge.function(6, b"aclrtMalloc", b"devPtr:P size:z policy:e")
             + forge.function(5, b"aclrtSynchronizeDevice", b"") + forge.function(7, b"aclrtFreeHost", b"hostPtr:p")
             + forge.function(8, b"aclFinalize", b"") + forge.function(9, b"aclInit", b"configPath:s")
             + forge.function(10, b"aclrtReserveMemAddress", b"virPtr:P size:z alignment:z expectPtr:p flags:x")
             + forge.function(11, b"aclrtReleaseMemAddress", b"virPtr:p"))
    SET_DEVICE = forge.call(1, forge.signed(0))

    def forged(self, *chunks, options=()):
        """The result of replaying a trace of one process with these chunks; it ends within a minute."""
        with open(self.trace, "wb") as file:
            file.write(forge.trace([forge.chunk(1, 0, 0, 1, self.BEGIN)] + list(chunks)))
        done = subprocess.run([ACLMEM, "replay", self.trace, "--json", *options], capture_output=True, timeout=60)
        return done.returncode, json.loads(done.stdout or b"{}"), done.stderr.decode()

    def test_host_memory_is_not_written_behind_its_end(self):
        """The copy would overwrite 64 MB behind a block of 4 KB."""
        device, host, size = 1 << 40, 1 << 41, 1 << 26
        calls = (self.SET_DEVICE + forge.call(6, forge.varint(size) + forge.signed(0), forge.signed(device))
                 + forge.call(2, forge.varint(4096), forge.signed(host - device)))
        for at in (0, 64):  # pointers are differences to the one before
            copy = forge.call(3, forge.signed(at) + forge.varint(size) + forge.signed(device - host - at) + forge.varint(size) + forge.signed(2))
            code, played, said = self.forged(forge.chunk(1, 7, 0, 100, calls + copy + self.SET_DEVICE))
            self.assertEqual((code, played["calls"], played["differences"]), (0, 5, 0), said)

    DEVICE, HOST, SIZE = 1 << 40, 1 << 41, 4096
    ALLOCATE = (SET_DEVICE + forge.call(6, forge.varint(SIZE) + forge.signed(0), forge.signed(DEVICE))
                + forge.call(2, forge.varint(SIZE), forge.signed(HOST - DEVICE)))

    def copy_to(self, host, before, result=0):
        """A copy from the device to the host address; `before` is the last pointer of the trace."""
        return forge.call(3, forge.signed(host - before) + forge.varint(self.SIZE) + forge.signed(self.DEVICE - host)
                          + forge.varint(self.SIZE) + forge.signed(2), result=result)

    def test_a_freed_host_address_is_refused(self):
        """A copy that failed in the recording fails with the same code; so does a second free."""
        freed = (forge.call(7, forge.signed(0)) + self.copy_to(self.HOST, self.HOST, result=107000)
                 + forge.call(7, forge.signed(self.HOST - self.DEVICE), result=107000))
        code, played, said = self.forged(forge.chunk(1, 7, 0, 100, self.ALLOCATE + freed))
        self.assertEqual((code, played["calls"], played["differences"]), (0, 6, 0), said)

    def test_at_a_freed_host_address_the_program_may_have_its_own_memory(self):
        calls = self.ALLOCATE + forge.call(7, forge.signed(0)) + self.copy_to(self.HOST, self.HOST)
        code, played, said = self.forged(forge.chunk(1, 7, 0, 100, calls))
        self.assertEqual((code, played["calls"], played["differences"]), (0, 5, 0), said)

    def test_no_address_is_used_again_after_the_library_has_stopped(self):
        again = (forge.call(8) + forge.call(9, empty=1) + self.SET_DEVICE
                 + forge.call(6, forge.varint(self.SIZE) + forge.signed(0), forge.signed(self.DEVICE - self.HOST))
                 + self.copy_to(self.HOST, self.DEVICE, result=107000) + forge.call(7, forge.signed(self.HOST - self.DEVICE), result=107000))
        code, played, said = self.forged(forge.chunk(1, 7, 0, 100, self.ALLOCATE + again))
        self.assertEqual((code, played["calls"], played["differences"]), (0, 9, 0), said)

    def test_a_released_address_is_refused(self):
        """The kernel may give the address to anything of the replay."""
        at, size = 1 << 42, 1 << 30
        reserve = forge.call(10, forge.varint(size) + forge.varint(0) + forge.signed(-self.HOST) + forge.varint(1), forge.signed(at))
        calls = (self.ALLOCATE + reserve
                 + forge.call(11, forge.signed(0)) + self.copy_to(at, at, result=107000))
        code, played, said = self.forged(forge.chunk(1, 7, 0, 100, calls))
        self.assertEqual((code, played["calls"], played["differences"]), (0, 6, 0), said)

    def test_host_memory_has_a_limit(self):
        """Of three blocks of 4 MB two are allocated, and one more after a free; a copy may not exceed the limit either."""
        block = lambda at, before: forge.call(2, forge.varint(4 << 20), forge.signed(at - before))  # noqa: E731
        first, second, third = 1 << 41, 2 << 41, 3 << 41
        calls = (self.SET_DEVICE + block(first, 0) + block(second, first) + block(third, second)
                 + forge.call(7, forge.signed(first - third)) + block(third, first) + self.copy_to(1 << 30, third))
        code, played, said = self.forged(forge.chunk(1, 7, 0, 100, calls), options=("--host-memory", "8M"))
        self.assertEqual((code, played["calls"], played["skipped"], played["differences"]), (0, 5, 2, 0), said)
        self.assertIn("more than 8.0 MB of host memory were left out; --host-memory SIZE", said)
        code, played, said = self.forged(forge.chunk(1, 7, 0, 100, calls))
        self.assertEqual((played["calls"], played["skipped"]), (7, 0), said)
        self.assertNotIn("host memory", said)

    def test_a_missing_struct_is_not_passed_by_value(self):
        opened = forge.call(4, b"", forge.signed(4096), empty=1)
        code, played, said = self.forged(forge.chunk(1, 7, 0, 100, self.SET_DEVICE + opened))
        self.assertEqual((code, played["calls"], played["skipped"]), (0, 1, 1), said)

    def test_calls_at_the_same_time_end(self):
        same = forge.call(5, gap=0, duration=0)
        back = forge.call(5, gap=5, duration=(1 << 64) - 10)  # it ends before it begins
        chunks = [forge.chunk(1, thread, 0, 1000, forge.call(1, forge.signed(0), gap=0, duration=0) + 3 * same + back + same)
                  for thread in (7, 8, 9)]
        code, played, said = self.forged(*chunks)
        self.assertEqual(played["calls"], 18, said)

    def test_a_trace_of_many_processes_is_refused(self):
        chunks = [forge.chunk(process, 0, 0, 1, self.BEGIN) for process in range(2, 300)]
        self.assertIn("more than 256 processes", self.forged(*chunks)[2])

    def test_progress_is_shown_on_a_terminal(self):
        """The two calls are a second apart, and are made at their recorded times."""
        calls = self.SET_DEVICE + forge.call(5, gap=1000000000)
        with open(self.trace, "wb") as file:
            file.write(forge.trace([forge.chunk(1, 0, 0, 1, self.BEGIN), forge.chunk(1, 7, 0, 100, calls)]))
        arguments = [ACLMEM, "replay", self.trace, "--speed", "recorded"]
        self.assertEqual(subprocess.run(arguments, capture_output=True).stderr, b"")
        ours, theirs = pty.openpty()
        done = subprocess.run(arguments, stdout=subprocess.DEVNULL, stderr=theirs)
        os.close(theirs)
        self.assertEqual(done.returncode, 0)
        shown = ""
        try:
            while True:
                shown += os.read(ours, 65536).decode()
        except OSError:  # the other end is closed, and all is read
            os.close(ours)
        self.assertRegex(shown, r"\rreplaying \[#*\.*\] +\d+ %")
        self.assertTrue(shown.endswith("\r\x1b[K"), repr(shown))  # the line is empty again

    def test_an_interrupted_replay_ends(self):
        """The second call is 1,000 s later."""
        calls = self.SET_DEVICE + forge.call(5, gap=1000000000000)
        with open(self.trace, "wb") as file:
            file.write(forge.trace([forge.chunk(1, 0, 0, 1, self.BEGIN), forge.chunk(1, 7, 0, 100, calls)]))
        ours, theirs = pty.openpty()
        with subprocess.Popen([ACLMEM, "replay", self.trace, "--speed", "recorded"], stdout=subprocess.PIPE, stderr=theirs,
                              preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)) as process:
            os.close(theirs)
            shown = b""
            while b"replaying" not in shown:
                shown += os.read(ours, 65536)
            process.send_signal(signal.SIGINT)
            self.assertEqual((process.wait(), process.stdout.read()), (-signal.SIGINT, b""))  # its processes have ended, too
        os.close(ours)

    def test_wrong_arguments_are_named(self):
        self.record(PLAYER, "10", "1")
        self.assertIn("takes max|recorded", call("replay", self.trace, "--speed", "x", code=2)[1])
        self.assertIn("takes a size", call("replay", self.trace, "--host-memory", "8X", code=2)[1])
        self.assertIn("as-is", call("replay", ACLMEM, "--allocator", "as-is", code=2)[1])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
