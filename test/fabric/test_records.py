#!/usr/bin/env python3
"""aclmem info with more importers than it has rows for: test_records.py <actor> <aclmem>"""
import json
import os
import subprocess
import sys
import unittest

import machines
from machines import MIB, OPEN

N, ROWS = 300, 256
IMPORTER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "importer.py")


class Records(unittest.TestCase):
    def setUp(self):
        self.net = machines.Net(ACTOR, 2, number=10)

    def tearDown(self):
        self.net.close()

    def info(self, *options):
        env = dict(os.environ, ACLMEM_RUNTIME_DIR=self.net.machines[0].folder)
        return subprocess.run([COMMAND, "info"] + list(options), env=env, stdout=subprocess.PIPE, check=True,
                              universal_newlines=True).stdout

    def test_the_pieces_of_all_importers_are_there(self):
        here, there = self.net.machines
        a = here.start(FABRIC_TIMEOUT=120)
        a.do("init")
        fabric = a.do("export", a.do("alloc", 2 * MIB), OPEN)
        rows = []

        def has_all():
            rows[:] = json.loads(self.info("--json"))["fabric"]
            return sum(row["pieces"] for row in rows) == N

        records = machines.file_messages(here.folder)
        with subprocess.Popen(there.inside + [sys.executable, IMPORTER, self.net.key, fabric, str(N)],
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE, universal_newlines=True) as importers:
            self.assertEqual(importers.stdout.readline(), "imported %d\n" % (N * 2 * MIB))
            machines.wait_for(records, has_all, "%d imports in the records" % N)
            printed = self.info()
        os.close(records)
        self.assertEqual(len(rows), ROWS + 1)
        self.assertEqual({row["peer"] for row in rows[:-1]}, set(range(1, ROWS + 1)))
        self.assertEqual((rows[-1]["pieces"], rows[-1]["bytes"]), (N - ROWS, (N - ROWS) * 2 * MIB))
        self.assertIn("%d others" % (N - ROWS), printed)


if __name__ == "__main__":
    ACTOR = sys.argv.pop(1)
    COMMAND = sys.argv.pop(1)
    machines.require()
    unittest.main()
