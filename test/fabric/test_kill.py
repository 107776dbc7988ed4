#!/usr/bin/env python3
"""Every part of a pair is killed at every step: test_kill.py <actor> <aclmem>

The parts are the exporting program, its fabric process, the importing program, and its fabric process.  A part is killed
before a step, or while the step is under way: then the exporter's fabric process stands still, so that the step cannot end.
The parts that are left see a code and a message, or go on, and are used again for the next case.  A fabric process that is
killed is started again by its program: later steps pass, unless they use an import of before.
"""
import os
import signal
import sys
import unittest

import machines
from machines import MIB, OPEN, Refused

GONE = 507022
SIZE = 4 * MIB
DEVICE_TO_DEVICE = 3
# The first is the exporter's, the others are the importer's.
STEPS = ("export", "import", "map", "put", "get", "queue", "unmap", "free")
WITH_NETWORK = ("export", "import", "put", "get")
NEED_ALL = ("import", "put", "get", "queue")  # they need all parts
EXPORTER, IMPORTER = 0, 1


def descriptors(pid):
    found = []
    for fd in os.listdir("/proc/%d/fd" % pid):
        try:
            found.append(os.readlink("/proc/%d/fd/%s" % (pid, fd)))
        except FileNotFoundError:  # it has been closed
            pass
    return found


class Side:
    """A program with its fabric process, which is started by an export that no step needs."""

    def __init__(self, machine, **options):
        self.machine = machine
        self.actor = machine.start(**options)
        self.begin()

    def begin(self):
        self.machine.wait_for_no_helper()  # of the program before
        self.actor.do("init")
        self.actor.do("export", self.actor.do("alloc", 2 * MIB), OPEN)
        self.block = self.actor.value("malloc", SIZE)
        self.actor.do("set_async", self.block, SIZE, 1)
        self.actor.do("sync")
        (self.helper,) = self.machine.helpers()
        self.before = self.held()

    def held(self):
        """The program's descriptors, the sockets of the fabric process, and the memory that it maps."""
        with open("/proc/%d/maps" % self.helper) as maps:
            n_maps = sum("memfd:" in line and "aclmem-fabric" not in line for line in maps)
        return len(descriptors(self.actor.process.pid)), sum("socket:" in d for d in descriptors(self.helper)), n_maps

    def stop_helper(self):
        os.kill(self.helper, signal.SIGSTOP)
        machines.wait_until(lambda: machines.state_of(self.helper) == "T", "a process that stands still")


class Kill(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.net = machines.Net(ACTOR, 2, number=6)

    @classmethod
    def tearDownClass(cls):
        cls.net.close()

    # ---- the steps ----

    def order(self, step):
        """The orders of a step, with the side that gets them."""
        return {
            "export": lambda: (self.a, [("export", self.handle, OPEN)]),
            "import": lambda: (self.b, [("import", self.fabric)]),
            "map": lambda: (self.b, [("map", self.there, SIZE, self.there_handle)]),
            "put": lambda: (self.b, [("put", self.there, SIZE, 2)]),
            "get": lambda: (self.b, [("check", self.there, SIZE, 2)]),
            "queue": lambda: (self.b, [("copy_async", self.there, self.b.block, SIZE, DEVICE_TO_DEVICE)] * 4 + [("sync",)]),
            "unmap": lambda: (self.b, [("unmap", self.there)]),
            "free": lambda: (self.b, [("free", self.there_handle)]),
        }[step]()

    def take(self, step, answer):
        if step == "export":
            self.fabric = answer
        elif step == "import":
            self.there_handle = answer
        elif step == "get":
            self.assertEqual(answer, "0")

    def prepare(self):
        a, b = self.a.actor, self.b.actor
        self.fabric = self.there_handle = None
        self.handle = a.do("alloc", SIZE)
        self.here = a.value("reserve", SIZE)
        a.do("map", self.here, SIZE, self.handle)
        self.there = b.value("reserve", SIZE)

    def send(self, step):
        side, orders = self.order(step)
        for order in orders:
            side.actor.send(*order)

    def receive(self, step):
        """The code of the step; its answer is kept."""
        side, orders = self.order(step)
        failed = None
        for _ in orders:
            try:
                self.take(step, side.actor.receive())
            except Refused as error:
                failed = error
        return failed

    def check_failed(self, failed, part, step):
        """A message names the fabric process of the program itself, or the machine and the process of the exporter."""
        self.assertEqual(failed.code, GONE, (part, step, failed.text))
        if part in ("exporter", "exporter's fabric process") and step != "export":
            self.assertIn(self.net.machines[0].address, failed.text)
            self.assertIn("process %d" % self.a.actor.process.pid, failed.text)
        else:
            self.assertIn("aclmem-fabric", failed.text)

    # ---- a case ----

    def kill(self, part):
        side = self.a if part.startswith("exporter") else self.b
        if part.endswith("process"):
            os.kill(side.helper, signal.SIGKILL)
            machines.End(side.helper).wait()
        else:
            side.actor.process.send_signal(signal.SIGKILL)
            side.actor.process.wait()

    def can_be(self, step, part):
        """Whether the side of the step is left, and has what the step needs."""
        if part == ("exporter" if step == "export" else "importer"):
            return False
        return step == "export" or (self.fabric if step == "import" else self.there_handle) is not None

    def rest(self, part, steps, killed_in):
        """The steps that are left, on the sides that are left."""
        for step in steps:
            if not self.can_be(step, part):
                continue
            if step != killed_in:
                self.send(step)
            failed = self.receive(step)
            if failed is not None:
                self.check_failed(failed, part, step)
            elif step != killed_in and step in NEED_ALL and (self.was_imported or not part.endswith("process")):
                self.fail("%s passed without the %s" % (step, part))

    def settle(self, part):
        """The sides that are left hold nothing any more; the other ones are made anew, and first: that ends connections."""
        for side in (self.a, self.b) if part.startswith("exporter") else (self.b, self.a):
            name = "exporter" if side is self.a else "importer"
            if part == name:
                side.actor.close()
                machines.End(side.helper).wait()
                self.net.actors.remove(side.actor)
                side.actor = side.machine.start()
                side.begin()
                continue
            if side is self.a:
                side.actor.do("unmap", self.here)
                side.actor.do("free", self.handle)
                side.actor.do("release", self.here)
            else:
                side.actor.do("release", self.there)
            if part == name + "'s fabric process":
                side.actor.do("finalize")
                side.begin()
            elif not self.is_settled(side):
                self.assertTrue(self.may_abort, "the fabric process of the %s ended" % name)
                print("UCX aborted the %s's fabric process, whose importer was killed in the middle of a move" % name)
                side.actor.do("finalize")
                side.begin()

    def is_settled(self, side):
        """Waits until a side that is left has given all back; false: its fabric process has ended."""
        try:
            machines.wait_until(lambda: not machines.is_running(side.helper) or side.held() == side.before,
                                "%s and no more" % (side.before,))
            if not machines.is_running(side.helper):
                return False
            handle = side.actor.do("alloc", 2 * MIB)
            side.actor.do("export", handle, OPEN)  # a round of the fabric process's loop
            side.actor.do("free", handle)
            return machines.is_running(side.helper)
        except OSError:  # it ended while the test looked at it
            return False
        except Refused as error:
            self.assertEqual(error.code, GONE)
            self.assertIn("aclmem-fabric", error.text)
            return False

    def case(self, part, number, is_under_way):
        self.prepare()
        for step in STEPS[:number]:
            self.send(step)
            self.assertIsNone(self.receive(step))
        helper = self.a.helper
        self.was_imported = self.there_handle is not None
        # UCX 1.13 calls abort() where it cannot send its answer to a put or a get.
        self.may_abort = is_under_way and part.startswith("importer") and STEPS[number] in NEED_ALL
        if is_under_way:
            self.a.stop_helper()
            self.send(STEPS[number])
        self.kill(part)
        if is_under_way and part != "exporter's fabric process":
            os.kill(helper, signal.SIGCONT)
        if part in ("exporter", "importer"):  # until then its fabric process may serve
            of_part = (self.a if part == "exporter" else self.b).helper
            machines.End(of_part).wait()
        self.rest(part, STEPS[number:], STEPS[number] if is_under_way else None)
        self.settle(part)

    def every_step(self, part):
        self.a, self.b = Side(self.net.machines[EXPORTER]), Side(self.net.machines[IMPORTER])
        for number, step in enumerate(STEPS):
            for is_under_way in (False, True) if step in WITH_NETWORK else (False,):
                with self.subTest(step=step, is_under_way=is_under_way):
                    self.case(part, number, is_under_way)
        self.assertEqual([side.actor.end() for side in (self.a, self.b)], [0, 0])
        self.net.end_actors()

    def test_the_exporter(self):
        self.every_step("exporter")

    def test_the_exporters_fabric_process(self):
        self.every_step("exporter's fabric process")

    def test_the_importer(self):
        self.every_step("importer")

    def test_the_importers_fabric_process(self):
        self.every_step("importer's fabric process")

    def test_a_fabric_process_that_has_just_begun(self):
        machine = self.net.machines[EXPORTER]
        actor = machine.start()
        actor.do("init")
        handle = actor.do("alloc", 2 * MIB)
        for _ in range(4):
            actor.send("export", handle, OPEN)
            machines.wait_until(machine.helpers, "a fabric process")
            for helper in machine.helpers():
                os.kill(helper, signal.SIGKILL)
            try:  # the export may have been served before
                actor.receive()
            except Refused as error:
                self.assertEqual(error.code, GONE)
                self.assertIn("aclmem-fabric", error.text)
            actor.do("finalize")
            actor.do("init")
            handle = actor.do("alloc", 2 * MIB)
        actor.do("export", handle, OPEN)
        self.assertEqual(actor.end(), 0)


if __name__ == "__main__":
    ACTOR = sys.argv.pop(1)
    del sys.argv[1]  # the command
    machines.require()
    unittest.main()
