#!/usr/bin/env python3
"""aclmem trace and aclmem convert on a recorded run: test_convert.py ACLMEM PLAYER [CALLS]"""
import base64
import collections
import csv
import gzip
import io
import json
import os
import pickle
import pty
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest
import zlib

ACLMEM, PLAYER = sys.argv[1:3]
CALLS = sys.argv[3] if len(sys.argv) > 3 else "6000"


def call(*arguments, code=0):
    done = subprocess.run([ACLMEM] + list(arguments), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if done.returncode != code:
        raise AssertionError("%s: %d\n%s" % (arguments, done.returncode, done.stderr.decode()))
    return done.stdout.decode("latin-1"), done.stderr.decode()


def play(lines):
    """Peak and number of blocks of lines `a ID SIZE STREAM`, `f ID`."""
    live, now, peak, n = {}, 0, 0, 0
    for line in lines.splitlines():
        word = line.split()
        if word[0] == "a":
            live[word[1]] = int(word[2])
            now += int(word[2])
            n += 1
        else:
            now -= live.pop(word[1])
        peak = max(peak, now)
    return peak, n, now


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at


def fields(data):
    """(number, value) of a protobuf message."""
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        if key & 7 == 0:
            value, at = varint(data, at)
        else:
            assert key & 7 == 2, key
            n, at = varint(data, at)
            value, at = data[at : at + n], at + n
        yield key >> 3, value


class Convert(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.trace = os.path.join(cls.folder.name, "run.trace")
        call("run", "--check", "none", "--quiet", "--trace", cls.trace, PLAYER, CALLS, "2")
        cls.printed = call("trace", cls.trace)[0].splitlines()

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def write(self, name, data):
        path = os.path.join(self.folder.name, name)
        with open(path, "wb") as file:
            file.write(data)
        return path

    def convert(self, form, path=None, *more):
        return call("convert", path or self.trace, "--to", form, *more)[0]

    def test_a_line_for_each_call(self):
        counted = collections.Counter(re.match(r"\S+ \d+ (\w+)\(", line).group(1) for line in self.printed)
        self.assertEqual(counted["aclrtMalloc"], counted["aclrtFree"])
        self.assertGreaterEqual(counted["aclrtMalloc"], int(CALLS) // 2)
        self.assertEqual(counted["aclrtMapMem"], 2)
        self.assertIn("107000 ACL_ERROR_RT_PARAM_INVALID", "\n".join(self.printed))

    def test_lines_are_chosen(self):
        mapped = call("trace", self.trace, "--grep", "aclrtMapMem.*= 0", "--stacks")[0]
        self.assertEqual(mapped.count("aclrtMapMem("), 2)
        self.assertIn("mappings_play (", mapped)
        self.assertEqual(call("trace", self.trace, "--process", "1")[0], "")
        self.assertEqual(call("trace", self.trace, "--from", "1e6")[0], "")
        half = float(self.printed[len(self.printed) // 2].split()[0])
        before = call("trace", self.trace, "--to", "%.6f" % half)[0].splitlines()
        after = call("trace", self.trace, "--from", "%.6f" % half)[0].splitlines()
        self.assertLess(abs(len(before) + len(after) - len(self.printed)), 100)

    def test_wrong_arguments_are_named(self):
        self.assertIn("which file", call("trace", code=2)[1])
        self.assertIn("regular expression", call("trace", self.trace, "--grep", "(", code=2)[1])
        self.assertIn("seconds", call("trace", self.trace, "--from", "x", code=2)[1])
        self.assertIn("--to", call("convert", self.trace, code=2)[1])
        self.assertIn("no trace", call("trace", ACLMEM, code=1)[1])

    def test_csv_has_every_call(self):
        rows = list(csv.DictReader(io.StringIO(self.convert("csv"))))
        self.assertEqual(len(rows), len(self.printed))
        self.assertTrue(all(int(row["end_ns"]) >= int(row["begin_ns"]) for row in rows))

    def test_chrome_and_perfetto_have_every_call(self):
        events = json.loads(self.convert("chrome"))["traceEvents"]
        self.assertEqual(sum(e["ph"] == "X" for e in events), len(self.printed))
        path = os.path.join(self.folder.name, "perfetto")
        self.convert("perfetto", None, "--output", path)
        kinds = collections.Counter()
        with open(path, "rb") as file:
            for number, packet in fields(file.read()):
                self.assertEqual(number, 1)
                for key, value in fields(packet):
                    if key == 11:  # a track event
                        kinds[dict(fields(value))[9]] += 1
        self.assertEqual((kinds[1], kinds[2]), (len(self.printed), len(self.printed)))
        self.assertEqual(kinds[4], sum(e["ph"] == "C" for e in events))

    def test_flame_graphs_sum_up_to_the_peak(self):
        peak, blocks, live = play(self.convert("lines"))
        self.assertEqual(live, 0)
        folded = self.convert("folded")
        self.assertEqual(sum(int(line.rsplit(" ", 1)[1]) for line in folded.splitlines()), peak)
        calls = self.convert("folded", None, "--of", "calls")
        self.assertEqual(sum(int(line.rsplit(" ", 1)[1]) for line in calls.splitlines()), len(self.printed))
        scope = json.loads(self.convert("speedscope"))
        self.assertEqual([p["endValue"] for p in scope["profiles"]][:1], [peak])
        for profile in scope["profiles"]:
            self.assertEqual(sum(profile["weights"]), profile["endValue"])
        self.assertIn("blocks_play", self.convert("folded", None, "--of", "allocated"))

    def test_pytorch_goes_out_and_comes_back(self):
        peak, blocks, live = play(self.convert("lines"))
        text = self.convert("pytorch")
        snapshot = json.loads(text)
        self.viz(snapshot)
        for name, data in (
            ("s.json", text.encode()),
            ("s.json.gz", gzip.compress(text.encode())),
            ("s2.pickle", pickle.dumps(snapshot, 2)),
            ("s4.pickle", pickle.dumps(snapshot, 4)),
            ("s5.pickle.gz", gzip.compress(pickle.dumps(snapshot, 5))),
        ):
            again = play(self.convert("lines", self.write(name, data)))
            self.assertEqual(again[1:], (blocks, live), name)

    def viz(self, snapshot):
        """What memory_viz throws at: a block outside of every segment, a free of an unknown one."""
        for trace in snapshot["device_traces"]:
            segments, blocks = {}, {}
            for event in trace:
                at, action = event["addr"], event["action"]
                self.assertLess(at, 1 << 53)
                if action == "segment_alloc":
                    segments[at] = event["size"]
                elif action == "alloc":
                    self.assertEqual(segments[at], event["size"])
                    blocks[at] = event["size"]
                elif action == "free_completed":
                    del blocks[at]
                elif action == "segment_free":
                    self.assertNotIn(at, blocks)
                    del segments[at]

    def test_what_is_shown_is_refused_where_it_has_no_effect(self):
        for form in ("csv", "speedscope", "lines", "perfetto"):
            self.assertIn("--of is for --to folded", call("convert", self.trace, "--of", "peak", "--to", form, code=2)[1])
        self.assertIn("takes peak|allocated|calls|time", call("convert", self.trace, "--of", "x", "--to", "folded", code=2)[1])

    def test_existing_files_are_replaced_with_force(self):
        out, page = os.path.join(self.folder.name, "existing"), os.path.join(self.folder.name, "existing.html")
        for arguments, path in ((["convert", self.trace, "--to", "lines"], out), (["report", self.trace], page),
                                (["run", "--quiet", "--check", "none", "--force", "--trace", out + ".trace", "--report", page, "true"], page)):
            option = ["-o", path] if arguments[0] != "run" else []
            with open(path, "w") as file:
                file.write("old")
            if arguments[0] == "run":
                without = [word for word in arguments if word != "--force"]
                self.assertIn("--force replaces it", call(*without, code=2)[1])
            else:
                self.assertIn("--force replaces it", call(*arguments, *option, code=1)[1])
            with open(path) as file:
                self.assertEqual(file.read(), "old")
            call(*(arguments if arguments[0] == "run" else arguments + option + ["--force"]))
            with open(path, encoding="latin-1") as file:
                self.assertNotEqual(file.read(), "old")
        self.assertFalse([name for name in os.listdir(self.folder.name) if ".part" in name])

    def test_standard_input_and_output(self):
        with open(self.trace, "rb") as file:
            whole = file.read()
        def given(*arguments, code=0):
            done = subprocess.run([ACLMEM] + list(arguments), input=whole if code == 0 else b"x\n", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            self.assertEqual((done.returncode, done.stderr == b""), (code, code == 0), arguments)
            return done.stdout or done.stderr
        self.assertEqual(given("convert", "-", "--to", "lines").decode(), self.convert("lines"))
        self.assertEqual(given("trace", "-").decode("latin-1").splitlines(), self.printed)
        mine = os.path.basename(self.trace)
        for arguments, names in ((["-"], ["standard input"]), (["-o", "-", "-"], ["standard input"]), (["-", self.trace, "-o", "-"], ["standard input", mine]),
                                 ([self.trace, "-"], [mine, "standard input"])):
            page = given("report", *arguments)
            self.assertTrue(page.startswith(b"<!doctype html>"))
            about = self.page_about(page)
            self.assertEqual([run["program"] for run in (about.get("other"), about) if run], names)
        for arguments in (["convert", "-", "--to", "lines"], ["trace", "-"], ["report", "-"], ["replay", "-"]):
            self.assertIn(b": standard input: ", given(*arguments, code=1), arguments)

    @staticmethod
    def page_about(page):
        """What a page says of its run."""
        data = gzip.decompress(base64.b64decode(re.search(rb'id="data"[^>]*>([^<]*)<', page).group(1)))
        return json.loads(data[4:4 + int.from_bytes(data[:4], "little")])

    def test_a_page_of_a_file_with_an_odd_name(self):
        odd = os.fsencode(self.folder.name) + b"/odd\xff"
        shutil.copy(self.trace, odd)
        done = subprocess.run([ACLMEM, "report", odd, "-o", "-"], stdout=subprocess.PIPE, check=True)
        self.assertEqual(self.page_about(done.stdout)["program"], "odd?")

    def test_an_interrupted_command_ends_and_leaves_no_file(self):
        folder = os.path.join(self.folder.name, "interrupted")
        os.mkdir(folder)
        out = os.path.join(folder, "out")
        default = lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)
        for arguments in (["convert", "-", "--to", "csv", "-o", out], ["report", "-", "-o", out], ["replay", "-"], ["trace", "-"]):
            with subprocess.Popen([ACLMEM] + arguments, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, preexec_fn=default) as process:
                process.stdin.write(bytes(1 << 20))  # more than the pipe holds: the command reads
                process.stdin.flush()
                self.assertEqual(os.listdir(folder), ["out.part-%d" % process.pid] if arguments[0] == "convert" else [])
                process.send_signal(signal.SIGINT)
                self.assertEqual(process.wait(), -signal.SIGINT, arguments)
            self.assertEqual(os.listdir(folder), [], arguments)
        with subprocess.Popen([ACLMEM, "trace", "--follow", self.trace], stdout=subprocess.PIPE, preexec_fn=default) as process:
            for _ in self.printed:
                process.stdout.readline()
            process.send_signal(signal.SIGINT)
            self.assertEqual(process.wait(), -signal.SIGINT)

    def test_progress_is_shown_on_terminals_only(self):
        self.assertEqual(call("convert", self.trace, "--to", "lines")[1], "")
        large = os.path.join(self.folder.name, "large")
        call("run", "--check", "none", "--quiet", "--stacks", "none", "--trace", large, PLAYER, "1000000", "2")
        for arguments in (["convert", large, "--to", "folded", "-o", large + ".folded"], ["report", large]):
            ours, theirs = pty.openpty()
            before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
            done = subprocess.run([ACLMEM] + arguments, stdout=subprocess.DEVNULL, stderr=theirs)
            used = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
            os.close(theirs)
            self.assertEqual(done.returncode, 0)
            shown = ""
            try:
                while True:
                    shown += os.read(ours, 65536).decode()
            except OSError:  # the other end is closed, and all is read
                os.close(ours)
            if used < 0.3:
                print("not checked: the trace was read in %.2f s" % used)
                continue
            self.assertRegex(shown, r"\rreading the trace \[#*\.*\] +\d+ %")
            self.assertTrue(shown.endswith("\r\x1b[K"), repr(shown))  # the line is empty again

    def test_traces_of_rmm_and_lines_are_read(self):
        rmm = b"Thread,Time,Action,Pointer,Size,Stream\n1,10:00:00:000001,allocate,0x100,64,0\n"
        rmm += b"1,10:00:00:000002,allocate,0x200,32,0x7\n1,10:00:00:000003,free,0x100,64,0\n"
        self.assertEqual(play(self.convert("lines", self.write("r.csv", rmm))), (96, 2, 32))
        lines = b"a 1 64 0\na 2 32 1\nf 1\n"
        self.assertEqual(play(self.convert("lines", self.write("l.gz", gzip.compress(lines)))), (96, 2, 32))

    def limited(self, *arguments):
        """The command with at most 600 MB of address space for data; returns its message."""
        done = subprocess.run([ACLMEM] + list(arguments), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, (600 << 20, 600 << 20)))
        self.assertEqual(done.returncode, 1, done.stderr)
        return done.stderr.decode()

    def test_a_compressed_file_has_a_bound(self):
        packer = zlib.compressobj(9, wbits=31)
        zeros = bytes(1 << 24)
        bomb = b"".join(packer.compress(zeros) for _ in range(160)) + packer.flush()
        self.assertLess(len(bomb), 4 << 20)  # it would be 2.7 GB
        self.assertIn("expands more than 50-fold", self.limited("convert", self.write("bomb.gz", bomb), "--to", "lines"))

    def test_a_trace_with_much_repetition_is_read(self):
        lines = b"a 1 64 0\nf 1\n" * 100 + b"# the same comment in many lines\n" * (1 << 21) + b"a 2 32 0\n"
        packed = gzip.compress(lines, 6)
        self.assertGreater(len(lines), max(64 << 20, 100 * len(packed)))
        self.assertEqual(play(self.convert("lines", self.write("same.gz", packed))), (64, 101, 32))

    def test_a_pickle_has_bounds(self):
        self.assertIn("too deep", self.limited("convert", self.write("marks", b"\x80\x04" + b"(" * ((1 << 20) + 1) + b"."), "--to", "lines"))
        # A list that has a list 4,000 times, which has an event 4,000 times, of 4,000 frames.
        def many(n):
            return b"](" + b"h\x01" * n + b"eq\x01"
        frames = b"](" + b"h\x00" * 4000 + b"eq\x01"
        event = b"}(X\x06\0\0\0actionX\x05\0\0\0allocX\x06\0\0\0framesh\x01uq\x01"
        data = b"\x80\x02}q\x000" + frames + b"0" + event + b"0" + many(4000) + b"0}X\x0d\0\0\0device_traces" + many(4000) + b"s."
        self.assertIn("more events than", self.limited("convert", self.write("laughs", data), "--to", "lines"))

    def test_a_pickle_executes_nothing(self):
        mark = os.path.join(self.folder.name, "executed")

        class Evil:
            def __reduce__(self):
                return os.system, ("touch " + mark,)

        for protocol in range(2, 6):
            path = self.write("evil", pickle.dumps({"device_traces": [Evil()]}, protocol))
            self.assertIn("not", call("convert", path, "--to", "lines", code=1)[1])
        self.assertFalse(os.path.exists(mark))

    def test_a_trace_that_is_cut_off_says_so(self):
        with open(self.trace, "rb") as file:
            whole = file.read()
        n = (len(whole) - 4096) // 65536
        self.assertEqual(call("trace", self.trace)[1], "")
        for size, missing in ((100, n), (4096, n), (5000, n), (4096 + 65536, n - 1), (len(whole) - 1, 1)):
            path = self.write("cut.trace", whole[:size])
            words = "the file is cut off: %d of its %d parts %s missing" % (missing, n, "is" if missing == 1 else "are")
            self.assertIn(words, call("trace", path)[1])
            self.assertIn(words, call("report", "--force", path)[1])
            self.assertIn(words, call("convert", "--to", "csv", path)[1])

    def test_damaged_files_are_refused(self):
        good = pickle.dumps({"device_traces": [[{"action": "alloc", "addr": 1, "size": 2}]]}, 4)
        for n in range(1, len(good)):
            path = self.write("cut", good[:n])
            done = subprocess.run([ACLMEM, "convert", path, "--to", "lines"], capture_output=True)
            self.assertEqual(done.returncode, 1, good[:n])
        for i in range(0, len(good), 3):
            path = self.write("flip", good[:i] + bytes([good[i] ^ 0xFF]) + good[i + 1 :])
            done = subprocess.run([ACLMEM, "convert", path, "--to", "lines"], capture_output=True)
            self.assertIn(done.returncode, (0, 1), good[:i])
        for data in (b"", b"{", b"[]", b"{}", b"Thread,x\n", b"hello\n", gzip.compress(b"a 1 2 3\n")[:-6]):
            path = self.write("bad", data)
            done = subprocess.run([ACLMEM, "convert", path, "--to", "lines"], capture_output=True)
            self.assertIn(done.returncode, (1,), data)
        rmm = b"Thread,Time,Action,Pointer,Size,Stream\n1,10:00:00:000001,allocate,0x100,99999999999999999999,0\n"
        for data in (rmm, pickle.dumps({"device_traces": [[{"action": "alloc", "addr": 1, "size": -1}]]}, 4)):
            self.assertIn("more than 16 TB", call("convert", self.write("huge", data), "--to", "lines", code=1)[1])
        deep = self.write("deep", b"\x80\x02" + b"N" + b"\x85" * 1000000 + b".")
        call("convert", deep, "--to", "lines", code=1)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
