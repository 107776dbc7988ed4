#!/usr/bin/env python3
"""An importer that has the key and attacks the exporter: test_attack.py <fabric_actor> <aclmem>"""
import os
import subprocess
import sys
import unittest

import machines

SIZE = 2 * machines.MIB


class Attack(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.net = machines.Net(ACTOR, 2, number=11)
        exporter, cls.importer = (machine.start() for machine in cls.net.machines)
        for actor in (exporter, cls.importer):
            actor.do("init")
        fabric = exporter.do("export", exporter.do("alloc", SIZE), machines.OPEN)
        cls.there = cls.importer.value("reserve", SIZE)
        cls.importer.do("map", cls.there, SIZE, cls.importer.do("import", fabric))
        cls.importer.do("put", cls.there, SIZE, 1)
        cls.port = int.from_bytes(bytes.fromhex(fabric)[50:52], "little")
        (cls.helper,) = cls.net.machines[0].helpers()

    @classmethod
    def tearDownClass(cls):
        cls.net.close()

    def attack(self, *words):
        """What the attacker prints.  The exporter's fabric process still runs, and the memory has not changed."""
        done = subprocess.run(
            self.net.machines[1].inside + [ATTACKER, self.net.machines[0].address, str(self.port), self.net.key] + list(words),
            env=dict(os.environ, UCX_LOG_LEVEL="fatal"), stdout=subprocess.PIPE, universal_newlines=True, timeout=120)
        self.assertEqual(self.importer.value("check", self.there, SIZE, 1), 0)
        self.assertEqual(self.net.machines[0].helpers(), [self.helper])
        return done.stdout.strip()

    def test_no_attack(self):
        self.assertEqual(self.attack("none"), "arrived")

    def test_messages_of_another_session_are_ignored(self):
        self.assertEqual(self.attack("token"), "arrived")

    def test_messages_without_the_key_of_the_session_are_ignored(self):
        self.assertEqual(self.attack("forge"), "arrived")

    def test_repeated_messages_are_ignored(self):
        self.assertEqual(self.attack("repeat"), "arrived")

    def test_access_outside_of_the_grant_closes_the_connection(self):
        for what in ("grant", "offset", "end", "get"):
            with self.subTest(what):
                self.assertEqual(self.attack(what), "closed")

    def test_ucx_gives_no_access_to_memory(self):
        with open("/proc/%d/maps" % self.helper) as maps:
            (start,) = (line.split("-")[0] for line in maps if "memfd:" in line and "aclmem-fabric" not in line)
        self.assertEqual(self.attack("rma", "0x" + start), "arrived")


if __name__ == "__main__":
    ACTOR = sys.argv.pop(1)
    ATTACKER = os.path.join(os.path.dirname(os.path.abspath(ACTOR)), "fabric_attacker")
    del sys.argv[1]  # the command
    machines.require()
    unittest.main()
