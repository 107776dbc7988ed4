#!/usr/bin/env python3
"""A limit of connections: test_limit.py <actor> <aclmem>

With one connection allowed, every change of the peer closes a connection and makes another one.  Memory that was
imported goes on to work.
"""
import os
import random
import sys
import unittest

import machines
from machines import MIB, OPEN, Refused

SIZE = 2 * MIB
GONE = 507022
ESTABLISHED = "01"


def files(pid):
    return len(os.listdir("/proc/%d/fd" % pid))


def connections(machine):
    """How many TCP connections the machine has."""
    with open("/proc/%d/net/tcp" % machine.helpers()[0]) as table:
        return sum(line.split()[3] == ESTABLISHED for line in table)


class Limit(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.net = machines.Net(ACTOR, 3, number=5)

    @classmethod
    def tearDownClass(cls):
        cls.net.close()

    def tearDown(self):
        self.net.end_actors()

    def exporter(self, index, **options):
        actor = self.net.machines[index].start(**options)
        actor.do("init")
        actor.handle = actor.do("alloc", SIZE)
        actor.at = actor.value("reserve", SIZE)
        actor.do("map", actor.at, SIZE, actor.handle)
        actor.fabric = actor.do("export", actor.handle, OPEN)
        return actor

    def importer(self, index, **options):
        actor = self.net.machines[index].start(**options)
        actor.do("init")
        return actor

    def mapped(self, actor, exporter):
        actor.imported = actor.do("import", exporter.fabric)
        there = actor.value("reserve", SIZE)
        actor.do("map", there, SIZE, actor.imported)
        return there

    def let_go(self, actor, there):
        actor.do("unmap", there)
        actor.do("free", actor.imported)

    def shares(self, index):
        """How many pieces of memory the fabric process there has mapped."""
        (helper,) = self.net.machines[index].helpers()
        with open("/proc/%d/maps" % helper) as maps:
            return sum("memfd:" in line and "aclmem-fabric" not in line for line in maps)

    def test_an_importer_of_three_exporters(self):
        exporters = [self.exporter(1), self.exporter(1), self.exporter(2)]
        importer = self.importer(0, FABRIC_CONNECTIONS=1)
        there = [self.mapped(importer, exporter) for exporter in exporters]
        for i in range(30):
            importer.do("put", there[i % 3], 70000, i)
            self.assertEqual(importer.value("check", there[(i + 1) % 3], 70000, i - 2) if i >= 2 else 0, 0)
            self.assertEqual(exporters[i % 3].value("check", exporters[i % 3].at, 70000, i), 0)
        # A control connection and one of UCX.
        machines.wait_until(lambda: connections(self.net.machines[0]) <= 2, "the limit")
        importer.do("copy", there[0], there[2], MIB + 7, 3)  # between two of them
        self.assertEqual(exporters[0].value("check", exporters[0].at, 70000, 29), 0)

    def test_an_exporter_of_three_importers(self):
        exporter = self.exporter(0, FABRIC_CONNECTIONS=1)
        (helper,) = self.net.machines[0].helpers()
        n_files = files(helper)
        importers = [self.importer(1), self.importer(1), self.importer(2)]
        there = [self.mapped(importer, exporter) for importer in importers]
        for i in range(48):
            importers[i % 3].do("put", there[i % 3], 5000, i)
            self.assertEqual(importers[(i + 1) % 3].value("check", there[(i + 1) % 3], 5000, i), 0)
        machines.wait_until(lambda: connections(self.net.machines[0]) <= 2, "the limit")
        # Of 48 connections that were closed none leaves a descriptor behind; UCX has a timer of its own.
        machines.wait_until(lambda: files(helper) <= n_files + 4, "the end of closed connections")

    def test_long_puts_at_the_same_time(self):
        """The connection changes hands in the middle of a put of many pieces."""
        exporter = self.exporter(0, FABRIC_CONNECTIONS=1)
        importers = [self.importer(1), self.importer(2)]
        there = [self.mapped(importer, exporter) + k * MIB for k, importer in enumerate(importers)]
        for i in range(8):
            for k, importer in enumerate(importers):
                importer.send("put", there[k], MIB, 2 * i + k)
            for importer in importers:
                importer.receive()
            for k in range(2):
                self.assertEqual(exporter.value("check", exporter.at + k * MIB, MIB, 2 * i + k), 0)

    def test_all_import_from_all(self):
        dice = random.Random(3)
        actors = [self.exporter(i % 3, FABRIC_CONNECTIONS=1) for i in range(4)]
        there = [[self.mapped(a, b) if a is not b else a.at for b in actors] for a in actors]
        for i in range(60):
            writer, reader, place = (dice.randrange(4) for _ in range(3))
            actors[writer].do("put", there[writer][place], 9000, i)
            self.assertEqual(actors[reader].value("check", there[reader][place], 9000, i), 0)

    def test_memory_is_kept_for_an_importer_without_a_connection(self):
        exporter = self.exporter(0, FABRIC_CONNECTIONS=1)
        first, second = self.importer(1), self.importer(2)
        there = self.mapped(first, exporter)
        first.do("put", there, SIZE, 4)
        also_there = self.mapped(second, exporter)
        machines.wait_until(lambda: connections(self.net.machines[1]) == 0, "the first one's connection is closed")
        exporter.do("unmap", exporter.at)
        exporter.do("free", exporter.handle)
        self.let_go(second, also_there)
        self.assertEqual(first.value("check", there, SIZE, 4), 0)
        self.assertEqual(self.shares(0), 1)
        third = self.importer(2)
        with self.assertRaises(Refused):
            third.do("import", exporter.fabric)  # it takes the connection, and gets nothing
        self.let_go(first, there)
        machines.wait_until(lambda: self.shares(0) == 0, "the import that was released without a connection")

    def test_the_exporter_ends_while_there_is_no_connection(self):
        exporter = self.exporter(0, FABRIC_CONNECTIONS=1)
        first, second = self.importer(1), self.importer(2)
        there = self.mapped(first, exporter)
        self.mapped(second, exporter)
        machines.wait_until(lambda: connections(self.net.machines[1]) == 0, "the first one's connection is closed")
        exporter.kill()
        with self.assertRaises(Refused) as refusal:
            first.do("check", there, SIZE, 4)
        self.assertEqual(refusal.exception.code, GONE)
        self.assertIn(self.net.machines[0].address, refusal.exception.text)
        self.let_go(first, there)
        self.assertEqual(first.end(), 0)


if __name__ == "__main__":
    ACTOR = sys.argv.pop(1)
    del sys.argv[1]  # the command
    machines.require()
    unittest.main()
