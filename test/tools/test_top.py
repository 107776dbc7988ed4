#!/usr/bin/env python3
"""Runs `aclmem top` beside processes that use the devices: test_top.py <aclmem> <libascendcl.so> <1: it has a screen>"""
import ctypes
import errno
import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import unittest

MIB = 1 << 20


def hold(library):
    """In a separate process: does what each line of its input says, and prints the result."""
    acl = ctypes.CDLL(library)
    things = [ctypes.c_void_p() for _ in range(4)]
    block, stream, notify, other = [ctypes.byref(thing) for thing in things]
    if acl.aclInit(None) or acl.aclrtSetDevice(0):
        sys.exit(2)
    for line in sys.stdin:
        word, _, size = line.strip().partition(" ")
        if word == "take":
            ret = acl.aclrtMalloc(block, ctypes.c_size_t(int(size) - 4096), 0)  # with what is added, `size` bytes
        elif word == "free":
            ret = acl.aclrtFree(things[0])
        elif word == "wait":  # with a seed this thread runs the tasks, so the stream comes to its wait
            ret = acl.aclrtCreateStream(stream) or acl.aclrtCreateNotify(notify, ctypes.c_uint64(0))
            ret = ret or acl.aclrtWaitAndResetNotify(things[2], things[1], 0)
            ret = ret or acl.aclrtSynchronizeStreamWithTimeout(things[1], 1) != 507046
        elif word == "capture":
            ret = acl.aclrtCreateStream(stream) or acl.aclmdlRICaptureBegin(things[1], 0)
            ret = ret or acl.aclmdlRICaptureEnd(things[1], other)
        elif word == "go":
            ret = acl.aclrtCreateStream(other) or acl.aclrtRecordNotify(things[2], things[3])
            ret = ret or acl.aclrtSynchronizeStream(things[1])
        print(int(ret), flush=True)


class Terminal:
    """The command on a new terminal."""

    def __init__(self, env, rows, columns):
        self.read_so_far = ""
        go, tell = os.pipe()
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.read(go, 1)
            self.resize_fd(0, rows, columns)
            os.execve(COMMAND, [COMMAND, "top"], env)
        self.before = self.modes()  # of a terminal that the command has not touched
        os.write(tell, b"g")
        os.close(go)
        os.close(tell)

    @staticmethod
    def resize_fd(fd, rows, columns):
        fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def resize(self, rows, columns):
        self.resize_fd(self.fd, rows, columns)

    def more(self):
        """The next bytes; empty at the end, or when none come for long."""
        if not select.select([self.fd], [], [], 30)[0]:
            return ""
        try:
            return os.read(self.fd, 65536).decode(errors="replace")
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            return ""

    def expect(self, text):
        """Reads until the text was printed, not counting what moves the cursor."""
        for _ in range(50):
            if text in re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]|\x1b[()][0-9A-Z]", "", self.read_so_far):
                return True
            more = self.more()
            if not more:
                break
            self.read_so_far += more
        return False

    def end(self):
        """Its exit status; reads all that it still prints."""
        more = self.more()
        while more:
            self.read_so_far += more
            more = self.more()
        return os.waitpid(self.pid, 0)[1]

    def modes(self):
        return termios.tcgetattr(self.fd)

    def close(self):
        os.close(self.fd)


class Top(unittest.TestCase):
    def setUp(self):
        self.env = {k: v for k, v in os.environ.items() if not k.startswith(("ACLMEM_", "ASCEND_"))}
        self.env["ACLMEM_RUNTIME_DIR"] = os.environ["ACLMEM_RUNTIME_DIR"]
        self.env["ACLMEM_MEMORY"] = "1G"
        self.env["TERM"] = "xterm"
        self.holders = []

    def tearDown(self):
        for holder in self.holders:
            holder.kill()
            holder.communicate()

    def run_it(self, *arguments, **more):
        return subprocess.run([COMMAND, "top"] + list(arguments), env=dict(self.env, **more), stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True)

    def once(self):
        done = self.run_it("--once")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout

    def holder(self):
        self.holders.append(subprocess.Popen(
            [sys.executable, os.path.abspath(__file__), "hold", LIBRARY], env=dict(self.env, ACLMEM_CHAOS="1"),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, universal_newlines=True))
        return self.holders[-1]

    def ask(self, holder, words):
        holder.stdin.write(words + "\n")
        holder.stdin.flush()
        self.assertEqual(holder.stdout.readline(), "0\n")

    def terminal(self, rows=24, columns=80, **more):
        terminal = Terminal(dict(self.env, **more), rows, columns)
        self.addCleanup(terminal.close)
        return terminal

    def test_without_processes_the_devices_are_shown(self):
        self.assertEqual(self.once(), "A2 (Ascend910B1), 2 devices, host backend\n"
                                      "      0 [....................]      0 B of   1.0 GB, 0 processes\n"
                                      "      1 [....................]      0 B of   1.0 GB, 0 processes\n"
                                      "        no process uses them\n")

    def test_each_process_has_a_line_and_a_dead_one_none(self):
        small, large = self.holder(), self.holder()
        self.ask(small, "take %d" % (64 * MIB))
        self.ask(large, "take %d" % (256 * MIB))
        self.ask(large, "free")
        self.ask(large, "take %d" % (128 * MIB))
        lines = self.once().splitlines()
        self.assertIn("[####................]   192 MB of   1.0 GB, 2 processes", lines[1])
        self.assertTrue(all(len(line) <= 80 for line in lines), lines)
        self.assertEqual(lines[3].split(), ["PROCESS", "COMMAND", "DEV", "LIVE", "PEAK", "RATE/S", "EXPORTED", "IMPORTED", "STRM"])
        self.assertEqual([line.split()[0] for line in lines[4:]], [str(large.pid), str(small.pid)])  # the largest first
        self.assertEqual(lines[4].split()[2:], "0 128 MB 256 MB - 0 B 0 B 0".split())
        large.kill()
        large.wait()
        lines = self.once().splitlines()
        self.assertEqual([line.split()[0] for line in lines[4:]], [str(small.pid)])

    def test_a_stream_that_waits_is_shown_with_what_it_waits_for(self):
        holder = self.holder()
        self.ask(holder, "wait")
        self.assertRegex(self.once(), r"        stream \d+, 1 queued: until notify \d+ is recorded \(aclrtWaitAndResetNotify\)\n")
        self.ask(holder, "go")
        self.assertNotIn("until", self.once())

    def test_captured_models_are_shown_with_their_streams(self):
        holder = self.holder()
        self.assertNotIn("models", self.once())
        self.ask(holder, "capture")
        self.assertIn("        captured models: 1, their streams: 1\n", self.once())

    def test_json_has_rates_from_the_second_sample_on(self):
        holder = self.holder()
        self.ask(holder, "take %d" % MIB)
        top = subprocess.Popen([COMMAND, "top", "--json"], env=self.env, stdout=subprocess.PIPE, universal_newlines=True)

        def device():
            sample = json.loads(top.stdout.readline())
            self.assertIsNone(sample["problem"])
            return sample["configurations"][0]["processes"][0]["devices"][0]

        first = device()
        self.assertIsNone(first["rate"])
        self.ask(holder, "take %d" % (64 * MIB))
        rates = [device()["rate"], device()["rate"]]  # one of the two samples has it
        self.assertGreater(max(rates), MIB)
        top.kill()
        top.communicate()
        last = json.loads(self.run_it("--json", "--once").stdout)["configurations"][0]["processes"][0]
        self.assertEqual((last["pid"], last["command"]), (holder.pid, os.path.basename(sys.executable)[:15]))
        self.assertEqual(last["devices"][0]["live"], last["devices"][0]["allocated"])
        self.assertGreaterEqual(last["devices"][0]["taken"], 65 * MIB)

    def test_processes_are_sorted_by_the_chosen_key(self):
        holders = [self.holder(), self.holder()]
        sizes = {holders[0].pid: 64, holders[1].pid: 128}
        for holder in holders:
            self.ask(holder, "take %d" % (sizes[holder.pid] * MIB))
        self.ask(holders[1], "free")
        self.ask(holders[1], "take %d" % (32 * MIB))
        pids = sorted(sizes)
        for key, expected in (("live", [holders[0].pid, holders[1].pid]), ("peak", [holders[1].pid, holders[0].pid]),
                              ("pid", pids), ("command", pids)):
            text = self.run_it("--once", "--sort", key).stdout
            self.assertEqual([int(pid) for pid in re.findall(r"^ *(\d+) [a-z]\S+ +0 ", text, flags=re.M)], expected, key)
        self.assertEqual(self.run_it("--once", "--sort", "size").returncode, 2)

    def test_metrics_for_prometheus_equal_the_json(self):
        holder = self.holder()
        self.ask(holder, "take %d" % (64 * MIB))
        text = self.run_it("--prometheus").stdout
        sample = json.loads(self.run_it("--json", "--once").stdout)["configurations"][0]
        metrics = dict(re.findall(r"^(\w+\{.*\}) (\d+)$", text, flags=re.M))
        labels = 'product="%s",backend="%s",device="0"' % (sample["product"], sample["backend"])
        device, process = sample["devices"][0], sample["processes"][0]
        whose = labels + ',pid="%d",command="%s"' % (process["pid"], process["command"])
        self.assertEqual(int(metrics["aclmem_device_capacity_bytes{%s}" % labels]), device["capacity"])
        self.assertEqual(int(metrics["aclmem_device_used_bytes{%s}" % labels]), device["used"])
        self.assertEqual(int(metrics["aclmem_device_processes{%s}" % labels]), 1)
        for metric, key in (("live_bytes", "live"), ("peak_bytes", "peak"), ("allocated_bytes_total", "taken"), ("exported_bytes", "exported")):
            self.assertEqual(int(metrics["aclmem_process_%s{%s}" % (metric, whose)]), process["devices"][0][key], metric)
        for name in {line.split("{")[0] for line in metrics}:
            self.assertIn("# TYPE %s %s\n" % (name, "counter" if name.endswith("_total") else "gauge"), text)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "aclmem.prom")
            self.assertEqual(self.run_it("--prometheus=" + path).stdout, "")
            with open(path) as file:
                self.assertEqual(file.read(), self.run_it("--prometheus").stdout)
            self.assertEqual(os.listdir(folder), ["aclmem.prom"])

    def test_keys_sort_and_open_the_details_of_a_process(self):
        holder = self.holder()
        self.ask(holder, "take %d" % (64 * MIB))
        terminal = self.terminal(24, 120)
        self.assertTrue(terminal.expect("by live"))
        os.write(terminal.fd, b"p")
        self.assertTrue(terminal.expect("peak"))
        os.write(terminal.fd, b"\x1bOB\n")  # the next process, Enter
        self.assertTrue(terminal.expect("streams, 0 of them wait"))
        self.assertTrue(terminal.expect("exported"))
        self.assertIn("\x1b[36m", terminal.read_so_far)  # colours
        os.write(terminal.fd, b"q")
        self.assertEqual(terminal.end(), 0)

    def test_what_it_cannot_do_is_said(self):
        done = self.run_it()
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("there is no terminal; --once", done.stderr)
        self.assertEqual(self.run_it("--interval", "soon").returncode, 2)
        done = self.run_it("--once", ACLMEM_DEVICES="99")
        self.assertEqual(done.returncode, 1)
        self.assertIn("ACLMEM_DEVICES", done.stderr)

    def test_the_screen_shows_it_and_a_key_ends_it(self):
        holder = self.holder()
        self.ask(holder, "take %d" % (64 * MIB))
        terminal = self.terminal()
        self.assertTrue(terminal.expect("q quits"))
        self.assertTrue(terminal.expect(str(holder.pid)))
        self.assertNotEqual(terminal.modes(), terminal.before)
        os.write(terminal.fd, b"q")
        self.assertEqual(terminal.end(), 0)
        self.assertEqual(terminal.modes(), terminal.before)

    def test_ctrl_c_leaves_the_terminal_as_it_was(self):
        terminal = self.terminal()
        self.assertTrue(terminal.expect("q quits"))
        os.write(terminal.fd, b"\x03")
        status = terminal.end()
        self.assertEqual((os.WIFSIGNALED(status), os.WTERMSIG(status)), (True, signal.SIGINT))
        self.assertEqual(terminal.modes(), terminal.before)
        self.assertIn("\x1b[?1049l", terminal.read_so_far)  # the screen before is back
        self.assertIn("\x1b[?12l\x1b[?25h", terminal.read_so_far)  # and the cursor

    def test_a_new_size_is_drawn_at_once(self):
        terminal = self.terminal()
        self.assertTrue(terminal.expect("arrows choose"))
        terminal.read_so_far = ""
        terminal.resize(10, 20)
        self.assertTrue(terminal.expect("aclmem top"))
        os.write(terminal.fd, b"q")
        self.assertEqual(terminal.end(), 0)

    def test_a_narrow_terminal_is_enough(self):
        for rows, columns in ((4, 20), (1, 5), (2, 200)):
            terminal = self.terminal(rows, columns)
            self.assertTrue(terminal.expect("aclm"))
            os.write(terminal.fd, b"\x1b[B\x1b[6~\x1b[A\x1b[5~xq")  # arrows, pages, a key without a meaning
            self.assertEqual(terminal.end(), 0)
            self.assertEqual("q quits" in terminal.read_so_far, columns > 40)

    def test_an_unknown_terminal_is_refused(self):
        terminal = self.terminal(TERM="no-such-terminal")
        self.assertTrue(terminal.expect('nothing is known of the terminal "no-such-terminal"'))
        self.assertEqual(os.WEXITSTATUS(terminal.end()), 1)


if __name__ == "__main__":
    if sys.argv[1] == "hold":
        hold(sys.argv[2])
    else:
        COMMAND, LIBRARY = sys.argv[1:3]
        if sys.argv[3] != "1":
            print("the build has no ncurses: what needs a terminal is not tried")
            for name in [n for n in dir(Top) if re.search("screen|ctrl|size|narrow|unknown", n)]:
                delattr(Top, name)
        unittest.main(argv=sys.argv[:1])
