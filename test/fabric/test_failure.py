#!/usr/bin/env python3
"""Machines, links and processes that fail, and strangers: test_failure.py <actor> <aclmem>"""
import os
import signal
import subprocess
import sys
import time
import unittest

import machines
from machines import MIB, OPEN, Refused

DEVICE_TO_HOST, DEVICE_TO_DEVICE = 2, 3
GONE = 507022

# In a namespace: connects to an address and does what a stranger may.
STRANGER = """
import os, random, socket, sys
host, port, what, seed = sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
random.seed(seed)
kept = []
for i in range(300 if what == "silence" else 40):
    s = socket.create_connection((host, port), timeout=10)
    if what == "silence":
        kept.append(s)
        continue
    hello = s.recv(48, socket.MSG_WAITALL)
    bytes_ = bytes(random.randrange(256) for _ in range(random.randrange(1, 600)))
    if what == "proof":  # as an importer begins, with a code of nothing
        bytes_ = hello[:16] + bytes_[:168].ljust(168, b"x")
    elif what == "version":
        bytes_ = hello[:8] + (7).to_bytes(4, "little") + bytes(172)
    s.sendall(bytes_)
    try:
        s.shutdown(socket.SHUT_WR)
        while s.recv(65536):
            assert what == "half", "an answer"
    except OSError:
        pass
    s.close()
print("done", flush=True)
sys.stdin.read()
"""


# The same for an exporter of another version; the port may be in use for a while.
LISTENER = """
import socket, sys, time
for _ in range(600):
    try:
        s = socket.create_server(("", int(sys.argv[1])))
        break
    except OSError:
        time.sleep(0.1)
print("up", flush=True)
c, _ = s.accept()
c.sendall(b"aclmemL\\0" + (9).to_bytes(4, "little") + bytes(36))
c.recv(1)
"""


class Failure(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.net = machines.Net(ACTOR, 2, number=2)

    @classmethod
    def tearDownClass(cls):
        cls.net.close()

    def setUp(self):
        self.still = []

    def tearDown(self):
        for helper in self.still:
            self.go_on(helper)
        for machine in self.net.machines:
            machine.link("up")
        self.net.end_actors()

    def begin(self, index, **options):
        actor = self.net.machines[index].start(**options)
        actor.do("init")
        return actor

    def pair(self, size=2 * MIB, **options):
        self.a = self.begin(0, **options)
        self.b = self.begin(1, **options)
        self.size = size
        self.handle = self.a.do("alloc", size)
        self.here = self.a.value("reserve", size)
        self.a.do("map", self.here, size, self.handle)
        self.fabric = self.a.do("export", self.handle, OPEN)
        self.there_handle = self.b.do("import", self.fabric)
        self.there = self.b.value("reserve", size)
        self.b.do("map", self.there, size, self.there_handle)
        self.b.do("put", self.there, size, 1)

    def refused(self, code, words, actor, *order):
        with self.assertRaises(Refused) as caught:
            actor.do(*order)
        self.assertEqual(caught.exception.code, code, caught.exception)
        self.assertIn(words, caught.exception.text)
        return caught.exception.text

    def named(self, text):
        """A message about the exporter names its machine and its process."""
        self.assertIn(self.net.machines[0].address, text)
        self.assertIn("process %d" % self.a.process.pid, text)

    def lets_go(self):
        """The addresses and the handle are the program's after all."""
        self.b.do("unmap", self.there)
        self.b.do("free", self.there_handle)
        self.b.do("release", self.there)

    def stand_still(self, index):
        """Stops the fabric process of a machine, until it is to go on."""
        (helper,) = self.net.machines[index].helpers()
        os.kill(helper, signal.SIGSTOP)
        self.still.append(helper)
        return helper

    def go_on(self, helper):
        if machines.is_alive(helper):
            os.kill(helper, signal.SIGCONT)

    # ---- the exporter ----

    def test_an_exporter_that_is_killed(self):
        self.pair()
        self.a.kill()
        self.named(self.refused(GONE, "process", self.b, "check", self.there, self.size, 1))
        self.named(self.refused(GONE, "process", self.b, "put", self.there, 8, 1))
        self.lets_go()
        self.named(self.refused(GONE, "ended", self.b, "import", self.fabric))
        self.assertEqual(self.b.end(), 0)

    def helper_killed(self, index):
        """Kills the fabric process of a machine; the program starts another one."""
        (helper,) = self.net.machines[index].helpers()
        os.kill(helper, signal.SIGKILL)
        machines.End(helper).wait()

    def test_its_fabric_process_is_killed(self):
        self.pair()
        listed = self.a.do("export", self.a.do("alloc", 2 * MIB), 0)
        self.a.do("trust", listed, self.b.value("tgid"))
        withdrawn = self.a.do("alloc", 2 * MIB)
        freed = self.a.do("export", withdrawn, OPEN)
        self.a.do("free", withdrawn)
        self.helper_killed(0)
        self.named(self.refused(GONE, "process", self.b, "check", self.there, self.size, 1))
        self.assertEqual(self.a.value("check", self.here, self.size, 1), 0)  # the program goes on
        self.a.do("export", self.a.do("alloc", 2 * MIB), OPEN)  # when the other one has all exports
        self.lets_go()
        self.there_handle = self.b.do("import", self.fabric)  # by the same handle
        self.there = self.b.value("reserve", self.size)
        self.b.do("map", self.there, self.size, self.there_handle)
        self.assertEqual(self.b.value("check", self.there, self.size, 1), 0)
        self.b.do("put", self.there, self.size, 2)
        self.assertEqual(self.a.value("check", self.here, self.size, 2), 0)
        self.b.do("import", listed)
        self.refused(207006, "freed", self.b, "import", freed)
        self.assertEqual([self.a.end(), self.b.end()], [0, 0])

    def test_a_fabric_process_that_ends_again_and_again(self):
        self.a = self.begin(0)
        fabric = self.a.do("export", self.a.do("alloc", 2 * MIB), OPEN)
        for _ in range(8):
            self.helper_killed(0)
            self.a.do("free", self.a.do("alloc", 2 * MIB))
            self.a.do("export", self.a.do("alloc", 2 * MIB), OPEN)
        self.begin(1).do("import", fabric)
        self.helper_killed(0)
        self.refused(GONE, "aclmem-fabric", self.a, "export", self.a.do("alloc", 2 * MIB), OPEN)
        self.a.do("finalize")
        self.a.do("init")
        self.a.do("export", self.a.do("alloc", 2 * MIB), OPEN)
        self.assertEqual(self.a.end(), 0)

    def test_work_that_is_queued_fails_too(self):
        self.pair(64 * MIB)
        block = self.b.value("malloc", self.size)
        for _ in range(20):
            self.b.do("copy_async", self.there, block, self.size, DEVICE_TO_DEVICE)
        self.a.kill()
        self.named(self.refused(GONE, "process", self.b, "sync"))
        self.b.do("put", block, self.size, 3)
        self.assertEqual(self.b.value("check", block, self.size, 3), 0)

    def test_a_killed_exporter_at_any_moment(self):
        for n in range(4):
            self.pair(16 * MIB)
            self.b.send("put", self.there, self.size, 2)
            time.sleep(0.003 * n)
            self.a.kill()
            try:
                self.b.receive()
                self.refused(GONE, "process", self.b, "check", self.there, 8, 2)
            except Refused as error:
                self.assertEqual(error.code, GONE)
            self.lets_go()
            self.assertEqual(self.b.end(), 0)

    def test_an_exporter_that_stands_still(self):
        self.pair(FABRIC_TIMEOUT=2)
        helper = self.stand_still(0)
        begun = time.monotonic()
        self.named(self.refused(GONE, "ACLMEM_FABRIC_TIMEOUT", self.b, "check", self.there, self.size, 1))
        self.assertGreater(time.monotonic() - begun, 1)
        self.go_on(helper)
        self.lets_go()

    def test_streams_that_wait_for_the_network_keep_no_thread(self):
        """Work on this machine goes on beside more of them than there are threads, and slots."""
        self.pair()
        block = self.b.value("malloc", 2 * self.size)
        self.b.do("put", block, self.size, 5)
        helper = self.stand_still(0)
        self.b.do("copy_streams", block + self.size, self.there, self.size, DEVICE_TO_DEVICE, 100)
        self.b.do("copy_async", block + self.size // 2, block, self.size // 2, DEVICE_TO_DEVICE)
        self.b.do("sync")
        self.assertEqual(self.b.value("check", block + self.size // 2, self.size // 2, 5), 0)
        self.go_on(helper)
        self.b.do("sync_streams")  # they have waited: after ACLMEM_FABRIC_TIMEOUT they would have failed
        self.assertEqual(self.b.value("check", block + self.size, self.size, 1), 0)

    # ---- the importer ----

    def exported(self):
        """How often the exporter's fabric process, or the one that follows it, has memory of the program mapped."""
        n = 0
        for helper in self.net.machines[0].helpers():
            try:
                with open("/proc/%d/maps" % helper) as maps:
                    n += sum("memfd:" in line and "aclmem-fabric" not in line for line in maps)
            except OSError:  # it has ended
                pass
        return n

    def test_an_importer_that_is_killed(self):
        self.pair()
        self.a.do("unmap", self.here)
        self.a.do("free", self.handle)
        self.assertEqual(self.exported(), 1)  # the importer has it
        self.b.kill()
        machines.wait_until(lambda: self.exported() == 0, "the share of a killed importer")

    def test_an_importer_whose_machine_is_gone(self):
        self.pair(FABRIC_TIMEOUT=2)
        self.a.do("unmap", self.here)
        self.a.do("free", self.handle)
        self.net.machines[1].link("down")
        machines.wait_until(lambda: self.exported() == 0, "the share of a lost importer")

    def test_an_importer_that_stands_still(self):
        self.pair(FABRIC_TIMEOUT=2)
        self.a.do("unmap", self.here)
        self.a.do("free", self.handle)
        helper = self.stand_still(1)
        machines.wait_until(lambda: self.exported() == 0, "the share of an importer that stands still")
        self.go_on(helper)
        self.named(self.refused(GONE, "process", self.b, "check", self.there, self.size, 1))
        self.lets_go()
        self.b.do("import", self.a.do("export", self.a.do("alloc", 2 * MIB), OPEN))

    def test_an_importer_lets_go(self):
        self.pair()
        self.a.do("unmap", self.here)
        self.a.do("free", self.handle)
        self.lets_go()
        machines.wait_until(lambda: self.exported() == 0, "the share of an importer that released it")

    def test_its_own_fabric_process_is_killed(self):
        self.pair()
        self.helper_killed(1)
        self.refused(GONE, "aclmem-fabric", self.b, "check", self.there, self.size, 1)
        self.lets_go()
        self.there_handle = self.b.do("import", self.fabric)
        self.there = self.b.value("reserve", self.size)
        self.b.do("map", self.there, self.size, self.there_handle)
        self.assertEqual(self.b.value("check", self.there, self.size, 1), 0)
        self.assertEqual(self.b.end(), 0)

    def test_its_own_fabric_process_stands_still(self):
        self.pair(FABRIC_TIMEOUT=2)
        self.stand_still(1)
        self.refused(GONE, "does not answer", self.b, "check", self.there, self.size, 1)
        self.assertEqual(self.b.end(), 0)

    def test_memory_is_freed_while_its_own_fabric_process_stands_still(self):
        """One free may wait for room in the socket, and not every one."""
        n = 400  # more than the socket holds
        self.a = self.begin(0)
        handles = [self.a.do("alloc", 2 * MIB) for _ in range(n)]
        for handle in handles:
            self.a.do("export", handle, OPEN)
        self.stand_still(0)
        times = []
        for handle in handles:
            begun = time.monotonic()
            self.a.do("free", handle)
            times.append(time.monotonic() - begun)
            self.assertLess(sum(times), 60, "frees that wait, one after the other")
        self.refused(GONE, "does not answer", self.a, "export", self.a.do("alloc", 2 * MIB), OPEN)
        self.assertEqual(self.a.end(), 0)

    # ---- the link ----

    def test_a_link_that_is_cut(self):
        self.pair(64 * MIB, FABRIC_TIMEOUT=6)  # a busy machine takes seconds for so much
        self.b.send("put", self.there, self.size, 2)
        self.net.machines[0].link("down")
        begun = time.monotonic()
        try:  # all of it may have gone before
            self.b.receive()
        except Refused as error:
            self.assertEqual(error.code, GONE)
        self.named(self.refused(GONE, "ACLMEM_FABRIC_TIMEOUT", self.b, "put", self.there, self.size, 3))
        self.net.machines[0].link("up")
        self.refused(GONE, "process", self.b, "put", self.there, 8, 3)  # it does not come back to life
        self.lets_go()
        self.b.do("import", self.fabric)  # anew
        self.assertLess(time.monotonic() - begun, 60)

    def test_a_link_that_comes_back_in_time(self):
        self.pair(64 * MIB, FABRIC_TIMEOUT=30)
        self.b.send("put", self.there, self.size, 2)
        self.net.machines[0].link("down")
        time.sleep(1)
        self.net.machines[0].link("up")
        self.b.receive()
        self.assertEqual(self.a.value("check", self.here, self.size, 2), 0)

    # ---- keys ----

    def test_a_wrong_key(self):
        self.a = self.begin(0)
        b = self.begin(1, FABRIC_KEY=self.net.make_key("other"))
        fabric = self.a.do("export", self.a.do("alloc", 2 * MIB), OPEN)
        self.named(self.refused(GONE, "another key", b, "import", fabric))

    def test_keys_that_are_none(self):
        make = self.net.make_key
        for key, code, words in (
            (None, 100000, "ACLMEM_FABRIC_KEY is not"),
            ("/nonexistent", 100000, "cannot be opened"),
            (self.net.folder, 207000, "not a regular file"),
            (make("open", 0o644), 207000, "chmod 600"),
            (make("short", 0o600, 31), 207000, "shorter than 32"),
            (make("long", 0o600, 4097), 207000, "longer than 4096"),
        ):
            a = self.begin(0, FABRIC_KEY=key)
            handle = a.do("alloc", 2 * MIB)
            self.refused(code, words, a, "export", handle, OPEN)
            a.do("free", handle)
            self.assertEqual(a.end(), 0)
        key = make("foreign")
        os.chown(key, 1, 1)
        a = self.begin(0, FABRIC_KEY=key)
        self.refused(207000, "another user", a, "export", a.do("alloc", 2 * MIB), OPEN)

    def test_addresses_that_are_none(self):
        for where in "eth7", "10.0.0.1", "10.99.2.1:0", "10.99.2.1:65535", ":1", "fe80::1":
            a = self.begin(0, FABRIC=where)
            self.refused(207000, "ACLMEM_FABRIC is", a, "export", a.do("alloc", 2 * MIB), OPEN)
        a, b = self.begin(0, FABRIC="eth0"), self.begin(1, FABRIC=self.net.machines[1].address + ":7000")
        fabric = a.do("export", a.do("alloc", 2 * MIB), OPEN)
        b.do("import", fabric)
        fabric = b.do("export", b.do("alloc", 2 * MIB), OPEN)
        self.assertEqual(int.from_bytes(bytes.fromhex(fabric)[50:52], "little"), 7000)
        a.do("import", fabric)

    # ---- strangers ----

    def strangers(self, what):
        self.pair()
        port = int.from_bytes(bytes.fromhex(self.fabric)[50:52], "little")
        with subprocess.Popen(
            self.net.machines[1].inside
            + [sys.executable, "-c", STRANGER, self.net.machines[0].address, str(port), what, "7"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            universal_newlines=True,
        ) as stranger:
            self.assertEqual(stranger.stdout.readline(), "done\n")
            self.begin(1).do("import", self.fabric)  # beside connections that are still there
        self.assertEqual(stranger.returncode, 0)
        self.assertEqual(self.b.value("check", self.there, self.size, 1), 0)
        self.lets_go()
        self.b.do("import", self.fabric)

    def test_garbage_on_the_port(self):
        self.strangers("garbage")

    def test_a_proof_of_nothing(self):
        self.strangers("proof")

    def test_another_version(self):
        self.strangers("version")

    def test_connections_that_say_nothing(self):
        self.strangers("silence")

    def test_an_exporter_of_another_version(self):
        """A process that listens where the exporter did, and speaks another version."""
        self.pair()
        port = int.from_bytes(bytes.fromhex(self.fabric)[50:52], "little")
        self.lets_go()
        self.a.kill()
        self.net.machines[0].wait_for_no_helper()
        listener = subprocess.Popen(
            self.net.machines[0].inside
            + [
                sys.executable,
                "-c",
                LISTENER,
                str(port),
            ],
            stdout=subprocess.PIPE,
        )
        listener.stdout.readline()
        self.refused(GONE, "version 9", self.b, "import", self.fabric)
        listener.kill()
        listener.wait()
        listener.stdout.close()


if __name__ == "__main__":
    ACTOR = sys.argv.pop(1)
    del sys.argv[1]  # the command
    machines.require()
    unittest.main()
