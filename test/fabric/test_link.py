#!/usr/bin/env python3
"""Memory of another machine over a bad wire: test_link.py <actor> <aclmem> [seed]

A copy brings the right bytes, or fails with a code within ACLMEM_FABRIC_TIMEOUT: it never hangs, and never brings a wrong
byte.  The wire (wire.py) loses, doubles, changes, delays and reorders packets.
"""
import os
import subprocess
import sys
import unittest

import machines
from machines import MIB, OPEN, Refused

GONE = 507022
SIZE = 2 * MIB
TIMEOUT = 2  # of the copies that may fail
N_TRIES = 5


class BadNet(machines.Net):
    """Two machines with a wire instead of the bridge."""

    def __init__(self, program, number):
        here = os.path.dirname(os.path.abspath(__file__))
        self.wire = subprocess.Popen(
            [sys.executable, os.path.join(here, "wire.py"), SEED],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, universal_newlines=True)
        super().__init__(program, 2, number)

    def order(self, *words):
        self.wire.stdin.write(" ".join(str(word) for word in words) + "\n")
        self.wire.stdin.flush()
        output = self.wire.stdout.readline().strip()
        if output != "ok":
            raise OSError(output)

    def plug(self, machine, index):
        try:
            self.order("plug", machine.name)
        except OSError as error:
            print("skipped: no tun device here: %s" % error)
            sys.exit(77)

    def close(self):
        super().close()
        if self.wire.poll() is None:
            self.wire.stdin.close()
            self.wire.wait()
            self.wire.stdout.close()


class Link(unittest.TestCase):
    def setUp(self):
        NET.order("set", 0, 0, 0, 0)
        NET.order("mute", -1)

    def tearDown(self):
        NET.order("set", 0, 0, 0, 0)
        NET.order("mute", -1)
        NET.end_actors()

    def pair(self, **options):
        self.a, self.b = (machine.start(**options) for machine in NET.machines)
        self.a.do("init")
        self.b.do("init")
        handle = self.a.do("alloc", SIZE)
        self.here = self.a.value("reserve", SIZE)
        self.a.do("map", self.here, SIZE, handle)
        self.fabric = self.a.do("export", handle, OPEN)
        self.there = self.b.value("reserve", SIZE)
        self.get_at_last()

    def get(self):
        self.handle = self.b.do("import", self.fabric)
        self.b.do("map", self.there, SIZE, self.handle)

    def get_at_last(self):
        """A wire may keep both sides from proving the key in time; the import is tried again."""
        for _ in range(N_TRIES):
            if not self.fails(self.get):
                return
        self.fail("%d imports failed" % N_TRIES)

    def let_go(self):
        self.b.do("unmap", self.there)
        self.b.do("free", self.handle)

    def copy(self, number):
        """One copy there and back, of a size that depends on the number."""
        size = (1, 4097, 300001, MIB + 7)[number % 4]
        self.b.do("put", self.there + number, size, number)
        self.assertEqual(self.a.value("check", self.here + number, size, number), 0)
        self.a.do("put", self.here + number, size, number + 1)
        self.assertEqual(self.b.value("check", self.there + number, size, number + 1), 0)

    def fails(self, do):
        """Whether it failed with the code, and named the exporter."""
        try:
            do()
        except Refused as error:
            self.assertEqual(error.code, GONE, error)
            self.assertIn(NET.machines[0].address, error.text)
            self.assertIn("process %d" % self.a.process.pid, error.text)
            return True
        return False

    def test_a_wire_that_loses_doubles_changes_and_reorders(self):
        self.pair()
        NET.order("set", 10, 10, 5, 2)
        for number in range(8):
            self.copy(number)

    def test_an_import_over_it(self):
        self.pair()
        self.let_go()
        NET.order("set", 20, 20, 10, 5)
        for _ in range(4):
            self.get_at_last()
            self.copy(1)
            self.let_go()

    def test_a_wire_that_loses_most(self):
        self.pair(FABRIC_TIMEOUT=TIMEOUT)
        NET.order("set", 500, 50, 50, 20)
        for number in range(3):
            if not self.fails(lambda: self.copy(number)):
                continue
            self.let_go()
            if self.fails(self.get):
                NET.order("set", 0, 0, 0, 0)
                self.get_at_last()
        NET.order("set", 0, 0, 0, 0)
        for _ in range(N_TRIES):  # the kernel may wait seconds before it sends a lost packet again
            self.let_go()
            self.get_at_last()
            if not self.fails(lambda: self.copy(3)):
                return
        self.fail("%d copies failed over a good wire" % N_TRIES)

    def test_one_direction_is_dead(self):
        for index in 0, 1:
            self.pair(FABRIC_TIMEOUT=TIMEOUT)
            NET.order("mute", index)
            self.assertTrue(self.fails(lambda: self.copy(3)))
            NET.order("mute", -1)
            self.let_go()
            self.get_at_last()
            self.copy(3)
            NET.end_actors()


if __name__ == "__main__":
    ACTOR = sys.argv.pop(1)
    del sys.argv[1]  # the command
    SEED = sys.argv.pop(1) if len(sys.argv) > 1 and sys.argv[1].isdigit() else "1"
    machines.require()
    NET = BadNet(ACTOR, number=8)
    unittest.main()
