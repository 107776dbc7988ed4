#!/usr/bin/env python3
"""An importer that has the key and writes where it may not: test_put.py <fabric_actor> <aclmem>"""
import os
import subprocess
import sys
import unittest

import machines


class Parcel(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.net = machines.Net(ACTOR, 2, number=11)

    @classmethod
    def tearDownClass(cls):
        cls.net.close()

    def test_the_exporter_takes_what_was_granted(self):
        size = 2 * machines.MIB
        exporter, importer = (machine.start() for machine in self.net.machines)
        for actor in (exporter, importer):
            actor.do("init")
        fabric = exporter.do("export", exporter.do("alloc", size), machines.OPEN)
        there = importer.value("reserve", size)
        importer.do("map", there, size, importer.do("import", fabric))
        importer.do("put", there, size, 1)
        port = int.from_bytes(bytes.fromhex(fabric)[50:52], "little")
        for what, outcome in (("none", "arrived"), ("pass", "arrived"), ("grant", "closed"), ("offset", "closed"),
                              ("end", "closed")):
            with self.subTest(what):
                done = subprocess.run(
                    self.net.machines[1].inside + [CHEAT, self.net.machines[0].address, str(port), self.net.key, what],
                    env=dict(os.environ, UCX_LOG_LEVEL="fatal"), stdout=subprocess.PIPE, universal_newlines=True, timeout=120)
                self.assertEqual(done.stdout, outcome + "\n")
                self.assertEqual(done.returncode, 0)
        # The same fabric process serves on, and the memory of others was not touched.
        self.assertEqual(importer.value("check", there, size, 1), 0)
        self.assertEqual(len(self.net.machines[0].helpers()), 1)


if __name__ == "__main__":
    ACTOR = sys.argv.pop(1)
    CHEAT = os.path.join(os.path.dirname(os.path.abspath(ACTOR)), "fabric_cheat")
    del sys.argv[1]  # the command
    machines.require()
    unittest.main()
