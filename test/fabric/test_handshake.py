#!/usr/bin/env python3
"""Every part of a pair is killed at every message between two fabric processes: test_handshake.py <actor> <aclmem>

A proxy (proxy.py) holds one message while the test kills a part, and passes it on then.  The parts are the exporting
program, its fabric process, the importing program, and its fabric process.  The parts that are left report a code and
the exporter's machine and process, or go on; they give back all that they held; and the next import works.
"""
import os
import select
import signal
import subprocess
import sys
import unittest

import machines
from machines import MIB, OPEN, Refused
from test_kill import Side

GONE = 507022
SIZE = 2 * MIB
# The messages of an import, in their order, by the importer's step that causes them.  The importer is allowed one
# connection: the import of other memory closes the connection, and the next copy makes it again.
MESSAGES = (
    ("import", "hello", 1),
    ("import", "proof", 1),
    ("import", "welcome", 1),
    ("import", "worker", 1),
    ("import", "import", 1),
    ("import", "grant", 1),
    ("import other", "park", 1),
    ("put", "hello", 1),
    ("put", "proof", 1),
    ("put", "welcome", 1),
    ("put", "worker", 1),
    ("put", "back", 1),  # the importer's question
    ("put", "back", 2),  # the answer
    ("free", "release", 1),
)
STEPS = ("import", "import other", "put", "free")
# An importer that is killed here has no connection for the exporter, which keeps the memory for 30 timeouts.
AWAY = (("import other", "park"), ("put", "hello"))
A_MINUTE = 60
SOCKETS = 4  # a connection and one of UCX, to two exporters


class Proxy:
    def __init__(self, machine):
        here = os.path.dirname(os.path.abspath(__file__))
        self.process = subprocess.Popen(
            machine.inside + [sys.executable, "-B", os.path.join(here, "proxy.py"), machine.address],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, universal_newlines=True)
        self.port = int(self.process.stdout.readline())

    def expect(self, what):
        ready, _, _ = select.select([self.process.stdout], [], [], A_MINUTE)
        told = self.process.stdout.readline().strip() if ready else "nothing"
        if told != what:
            raise AssertionError("the proxy told %s instead of %s" % (told or "nothing", what))

    def order(self, *words):
        self.process.stdin.write(" ".join(str(word) for word in words) + "\n")
        self.process.stdin.flush()
        self.expect("ok")

    def through(self, fabric):
        """The handle, with the proxy's port instead of the exporter's."""
        handle = bytearray.fromhex(fabric)
        self.order("target", int.from_bytes(handle[50:52], "little"))
        handle[50:52] = self.port.to_bytes(2, "little")
        return machines.repaired(handle).hex()

    def close(self):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


class Handshake(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.net = machines.Net(ACTOR, 3, number=10)
        cls.proxy = Proxy(cls.net.machines[0])

    @classmethod
    def tearDownClass(cls):
        cls.proxy.close()
        cls.net.close()

    def tearDown(self):
        self.net.end_actors()

    def answer(self, actor):
        """The answer of a program, which comes in time: None, or the refusal."""
        ready, _, _ = select.select([actor.process.stdout], [], [], A_MINUTE)
        self.assertTrue(ready, "a call hangs")
        try:
            self.last = actor.receive()
            return None
        except Refused as error:
            return error

    def named(self, refusal):
        self.assertEqual(refusal.code, GONE, refusal)
        self.assertIn(self.net.machines[0].address, refusal.text)
        self.assertIn("process %d" % self.a.actor.process.pid, refusal.text)

    # ---- the exporter, and the steps of the importer ----

    def offer(self):
        a = self.a.actor
        self.handle = a.do("alloc", SIZE)
        self.here = a.value("reserve", SIZE)
        a.do("map", self.here, SIZE, self.handle)
        self.fabric = self.proxy.through(a.do("export", self.handle, OPEN))

    def take_back(self):
        a = self.a.actor
        a.do("unmap", self.here)
        a.do("free", self.handle)
        a.do("release", self.here)

    def begin(self, step):
        """Sends the order of a step."""
        b = self.b.actor
        if step == "free":
            b.do("unmap", self.there)
        order = {
            "import": ("import", self.fabric),
            "import other": ("import", self.other),
            "put": ("put", self.there, SIZE, 1) if step == "put" else (),
            "free": ("free", self.imported),
        }[step]
        b.send(*order)

    def end(self, step):
        """Takes the answer: None, or the refusal."""
        refusal = self.answer(self.b.actor)
        if refusal is not None:
            return refusal
        if step == "import":
            self.imported = self.last
            self.there = self.b.actor.value("reserve", SIZE)
            self.b.actor.do("map", self.there, SIZE, self.imported)
        elif step == "import other":
            self.imported_other = self.last
        elif step == "free":
            self.imported = None
            self.b.actor.do("release", self.there)
        return None

    def do(self, step):
        self.begin(step)
        self.assertIsNone(self.end(step))

    def let_go(self):
        if self.imported is not None:
            self.do("free")
        if self.imported_other is not None:
            self.b.actor.do("free", self.imported_other)

    # ---- a case ----

    def kill(self, part):
        side = self.a if part.startswith("exporter") else self.b
        end = machines.End(side.helper)
        if part.endswith("process"):
            os.kill(side.helper, signal.SIGKILL)
        else:
            side.actor.process.send_signal(signal.SIGKILL)
            side.actor.process.wait()
        end.wait()  # the fabric process ends with its program

    def told(self, part, step, refusal):
        """The parts that are left are told what they have to know."""
        if part == "importer's fabric process" and step == "put":
            self.assertEqual(refusal.code, GONE, refusal)
            self.assertIn("aclmem-fabric", refusal.text)
        elif part.startswith("exporter") and step in ("import", "put"):
            if refusal is not None or part == "exporter" or step == "put":
                self.named(refusal)
        else:  # another fabric process imports, and a release needs no exporter
            self.assertIsNone(refusal)

    def renew(self, part):
        """Makes a part that was killed anew; with a fabric process, the program is told to wait for the next one."""
        is_a = part.startswith("exporter")
        side = self.a if is_a else self.b
        if part.endswith("process"):
            side.actor.do("export", side.actor.do("alloc", 2 * MIB), OPEN)
            return
        side.actor.close()
        self.net.actors.remove(side.actor)
        if is_a:
            self.a = Side(side.machine)
        else:
            self.b = Side(side.machine, FABRIC_CONNECTIONS=1)

    def works(self):
        self.imported = self.imported_other = None
        self.do("import")
        self.do("put")
        self.assertEqual(self.a.actor.value("check", self.here, SIZE, 1), 0)
        self.do("free")

    def settled(self, part):
        """The side that is left has the descriptors and the memory of its begin, and the sockets of its connections now."""
        side = self.b if part.startswith("exporter") else self.a
        n_files, n_sockets, n_maps = side.before

        def is_settled():
            files, sockets, maps = side.held()
            return (files, maps) == (n_files, n_maps + self.n_kept) and sockets <= n_sockets + SOCKETS

        machines.wait_until(is_settled, "what a side held at its begin")

    def case(self, part, step, message, n):
        self.offer()
        self.b.actor.do("free", self.b.actor.do("import", self.other))  # which ends the connection to the exporter
        self.imported = self.imported_other = None
        for earlier in STEPS[:STEPS.index(step)]:
            self.do(earlier)
        self.proxy.order("hold", message, n)
        self.begin(step)
        self.proxy.expect("held")
        self.kill(part)
        self.proxy.order("go")
        if part != "importer":
            self.told(part, step, self.end(step))
        self.proxy.order("gone")
        if part != "importer":
            self.let_go()
        self.renew(part)
        if part == "exporter":
            self.offer()
        self.works()
        self.take_back()
        self.n_kept += part == "importer" and (step, message) in AWAY
        self.settled(part)
        if part.endswith("process"):
            side = self.a if part.startswith("exporter") else self.b
            side.actor.do("finalize")
            side.begin()

    def pair(self):
        """An exporter, an importer, and an exporter of other memory."""
        self.a = Side(self.net.machines[0])
        self.b = Side(self.net.machines[1], FABRIC_CONNECTIONS=1)
        c = Side(self.net.machines[2]).actor
        self.other = c.do("export", c.do("alloc", SIZE), OPEN)

    def every_message(self, part):
        self.pair()
        self.n_kept = 0
        for step, message, n in MESSAGES:
            try:
                self.case(part, step, message, n)
            except (AssertionError, Refused) as error:
                raise AssertionError("at %s of %s: %s" % (message, step, error)) from error
        self.assertEqual([side.actor.end() for side in (self.a, self.b)], [0, 0])

    def test_the_exporter(self):
        self.every_message("exporter")

    def test_the_exporters_fabric_process(self):
        self.every_message("exporter's fabric process")

    def test_the_importer(self):
        self.every_message("importer")

    def test_the_importers_fabric_process(self):
        self.every_message("importer's fabric process")

    def test_an_import_beside_the_release_of_memory_that_the_exporter_has_lost(self):
        self.pair()
        self.offer()
        self.imported = self.imported_other = None
        self.do("import")
        self.do("import other")
        self.kill("exporter's fabric process")  # the importer has no connection
        self.renew("exporter's fabric process")
        self.proxy.order("hold", "back", 2)
        self.do("free")
        self.proxy.expect("held")  # "not known": it answers the importer that comes for the release
        self.begin("import")
        self.proxy.order("go")
        self.assertIsNone(self.end("import"))
        self.do("put")
        self.assertEqual(self.a.actor.value("check", self.here, SIZE, 1), 0)

    def test_a_connection_that_falls_silent_at_any_message(self):
        """It stays open, as with a machine that is gone: both sides give it up."""
        self.a = Side(self.net.machines[0], FABRIC_TIMEOUT=2)
        self.offer()
        importers = []
        for step, message, _ in MESSAGES:
            if step != "import":
                continue
            importers.append(self.net.machines[1].start(FABRIC_TIMEOUT=2))
            importers[-1].do("init")
            self.proxy.order("mute", message)
            importers[-1].send("import", self.fabric)
            self.proxy.expect("held")
        for importer in importers:
            self.named(self.answer(importer))
        self.proxy.order("gone")
        self.assertEqual(self.a.actor.value("check", self.here, SIZE, 1) > 0, True)
        importers[0].do("import", self.fabric)
        self.assertEqual([importer.end() for importer in importers], [0] * len(importers))
        self.take_back()
        machines.wait_until(lambda: self.a.held() == self.a.before, "%s" % (self.a.before,))


if __name__ == "__main__":
    ACTOR = sys.argv.pop(1)
    del sys.argv[1]  # the command
    machines.require()
    unittest.main()
