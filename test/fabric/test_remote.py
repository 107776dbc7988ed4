#!/usr/bin/env python3
"""The contract of memory of another machine: test_remote.py <actor> <aclmem>"""
import json
import os
import subprocess
import sys
import unittest

import machines
from machines import MIB, OPEN, Refused

HOST_TO_DEVICE, DEVICE_TO_HOST, DEVICE_TO_DEVICE = 1, 2, 3


class Remote(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.net = machines.Net(ACTOR, 3)

    @classmethod
    def tearDownClass(cls):
        cls.net.close()

    def tearDown(self):
        self.net.end_actors()

    def begin(self, index, **options):
        actor = self.net.machines[index].start(**options)
        actor.do("init")
        return actor

    def own(self, actor, size, is_host=0):
        """Memory of the actor: its handle, and its address."""
        handle = actor.do("alloc", size, is_host)
        address = actor.value("reserve", size)
        actor.do("map", address, size, handle)
        return handle, address

    def mapped(self, actor, fabric, size):
        """Imports, and maps: the handle, and its address."""
        handle = actor.do("import", fabric)
        address = actor.value("reserve", size)
        actor.do("map", address, size, handle)
        return handle, address

    def pair(self, size, **options):
        """An exporter's address, and that of the same memory at an importer."""
        self.a = self.begin(0, **options)
        self.b = self.begin(1, **options)
        self.handle, here = self.own(self.a, size)
        self.fabric = self.a.do("export", self.handle, OPEN)
        self.there_handle, there = self.mapped(self.b, self.fabric, size)
        return here, there

    def refused(self, code, words, actor, *order):
        with self.assertRaises(Refused) as caught:
            actor.do(*order)
        self.assertEqual(caught.exception.code, code, caught.exception)
        self.assertIn(words, caught.exception.text)

    # ---- bytes ----

    def test_bytes_go_both_ways(self):
        size = 6 * MIB
        here, there = self.pair(size)
        self.a.do("put", here, size, 1)
        self.assertEqual(self.b.value("check", there, size, 1), 0)
        self.b.do("put", there, size, 2)
        self.assertEqual(self.a.value("check", here, size, 2), 0)

    def test_any_start_and_any_length(self):
        size = 4 * MIB
        here, there = self.pair(size)
        for start, length in (0, 1), (1, 1), (MIB - 1, 2), (3, 2 * MIB + 5), (4 * MIB - 7, 7), (2 * MIB - 1, 4097):
            self.a.do("set", here, size, 0)
            self.b.do("put", there + start, length, start)
            self.assertEqual(self.a.value("check", here + start, length, start), 0)
            self.assertEqual(self.a.value("check_value", here, start, 0) if start else 0, 0)
            after = size - start - length
            self.assertEqual(self.a.value("check_value", here + start + length, after, 0) if after else 0, 0)
            self.assertEqual(self.b.value("check", there + start, length, start), 0)

    def test_memory_of_the_host_is_shared_too(self):
        a, b = self.begin(0), self.begin(1)
        handle, here = self.own(a, 2 * MIB, 1)
        _, there = self.mapped(b, a.do("export", handle, OPEN), 2 * MIB)
        b.do("put", there, 2 * MIB, 4)
        self.assertEqual(a.value("check", here, 2 * MIB, 4), 0)

    def test_device_memory_here_and_there(self):
        here, there = self.pair(4 * MIB)
        block = self.b.value("malloc", 4 * MIB)
        self.b.do("put", block, 4 * MIB, 5)
        self.b.do("copy", there, block, 4 * MIB, DEVICE_TO_DEVICE)
        self.assertEqual(self.a.value("check", here, 4 * MIB, 5), 0)
        self.a.do("put", here, 4 * MIB, 6)
        self.b.do("copy", block, there, 4 * MIB, DEVICE_TO_DEVICE)
        self.assertEqual(self.b.value("check", block, 4 * MIB, 6), 0)

    def test_between_two_other_machines(self):
        a, b, c = self.begin(0), self.begin(1), self.begin(2)
        size = 2 * MIB
        handle_a, at_a = self.own(a, size)
        handle_b, at_b = self.own(b, size)
        _, from_a = self.mapped(c, a.do("export", handle_a, OPEN), size)
        _, from_b = self.mapped(c, b.do("export", handle_b, OPEN), size)
        a.do("put", at_a, size, 7)
        c.do("copy", from_b, from_a, size, DEVICE_TO_DEVICE)
        self.assertEqual(b.value("check", at_b, size, 7), 0)

    def test_one_range_of_own_and_remote_memory(self):
        a, b = self.begin(0), self.begin(1)
        handle_a, at_a = self.own(a, 2 * MIB)
        mine = b.do("alloc", 2 * MIB)
        theirs = b.do("import", a.do("export", handle_a, OPEN))
        both = b.value("reserve", 4 * MIB)
        b.do("map", both, 2 * MIB, mine)
        b.do("map", both + 2 * MIB, 2 * MIB, theirs)
        b.do("put", both, 4 * MIB, 8)
        self.assertEqual(b.value("check", both, 4 * MIB, 8), 0)
        self.assertNotEqual(a.value("check", at_a, 2 * MIB, 8), 0)
        b.do("set", both + MIB, 2 * MIB, 9)
        self.assertEqual(a.value("check_value", at_a, MIB, 9), 0)

    def test_sides_that_overlap_end_as_with_memmove(self):
        here, there = self.pair(4 * MIB)
        self.b.do("put", there, 2 * MIB, 1)
        self.b.do("copy", there + 4096, there, 2 * MIB, DEVICE_TO_DEVICE)
        self.assertEqual(self.a.value("check", here + 4096, 2 * MIB, 1), 0)
        self.b.do("copy", there, there + 4096, 2 * MIB, DEVICE_TO_DEVICE)
        self.assertEqual(self.a.value("check", here, 2 * MIB, 1), 0)

    def test_fills(self):
        here, there = self.pair(4 * MIB)
        self.b.do("set", there + 5, 3 * MIB, 77)
        self.assertEqual(self.a.value("check_value", here + 5, 3 * MIB, 77), 0)
        self.b.do("set_async", there, 4 * MIB, 78)
        self.b.do("sync")
        self.assertEqual(self.a.value("check_value", here, 4 * MIB, 78), 0)

    def test_copies_on_a_stream(self):
        size = 4 * MIB
        here, there = self.pair(size)
        pinned = self.b.value("malloc_host", size)
        block = self.b.value("malloc", size)
        self.a.do("put", here, size, 3)
        self.b.do("copy_async", pinned, there, size, DEVICE_TO_HOST)
        self.b.do("copy_async", block, pinned, size, HOST_TO_DEVICE)
        self.b.do("set_async", there, size, 0)
        self.b.do("copy_async", there, block, size, DEVICE_TO_DEVICE)
        self.b.do("copy_async", pinned, there, 100, DEVICE_TO_HOST)
        self.b.do("sync")
        self.assertEqual(self.b.value("check", block, size, 3), 0)
        self.assertEqual(self.a.value("check", here, size, 3), 0)

    def test_an_aborted_stream_lets_go(self):
        size = 64 * MIB
        here, there = self.pair(size)
        block = self.b.value("malloc", size)
        for _ in range(8):
            self.b.do("copy_async", there, block, size, DEVICE_TO_DEVICE)
        self.b.do("abort")
        self.b.do("put", there, size, 2)
        self.assertEqual(self.a.value("check", here, size, 2), 0)

    def test_rows_and_batches(self):
        here, there = self.pair(4 * MIB)
        block = self.b.value("malloc", 4 * MIB)
        pinned = self.b.value("malloc_host", 2 * MIB)
        self.b.do("put", block, MIB, 6)
        self.b.do("copy", pinned, block, MIB, DEVICE_TO_HOST)
        self.b.do("copy_2d", there, 8192, pinned, 4096, 4096, 256, HOST_TO_DEVICE)
        self.b.do("copy_2d", pinned + MIB, 4096, there, 8192, 4096, 256, DEVICE_TO_HOST)
        self.b.do("copy", block + 2 * MIB, pinned + MIB, MIB, HOST_TO_DEVICE)
        self.assertEqual(self.b.value("check", block + 2 * MIB, MIB, 6), 0)
        pairs = [there, pinned, there + 2 * MIB, pinned, block + 3 * MIB, pinned]
        self.b.do("batch", HOST_TO_DEVICE, MIB, *pairs)
        self.assertEqual(self.a.value("check", here, MIB, 6), 0)
        self.assertEqual(self.a.value("check", here + 2 * MIB, MIB, 6), 0)
        self.assertEqual(self.b.value("check", block + 3 * MIB, MIB, 6), 0)

    # ---- handles and addresses ----

    def test_ranges_rights_and_references(self):
        here, there = self.pair(2 * MIB)
        base, size = self.b.do("range", there + 100).split()
        self.assertEqual((int(base, 0), int(size)), (there, 2 * MIB))
        self.b.do("access", there, 2 * MIB, 1)
        self.refused(107000, "no right to write", self.b, "put", there, 8, 1)
        self.b.do("access", there, 2 * MIB, 3)
        again = self.b.do("retain", there)
        self.assertEqual(again, self.there_handle)
        self.b.do("free", again)
        self.b.do("free", self.there_handle)
        self.b.do("put", there, 2 * MIB, 4)  # the mapping keeps the memory
        self.assertEqual(self.a.value("check", here, 2 * MIB, 4), 0)
        self.b.do("unmap", there)
        self.refused(107000, "nothing is mapped", self.b, "put", there, 8, 1)
        self.b.do("release", there)

    def test_no_address_of_the_host_shows_it(self):
        _, there = self.pair(2 * MIB)
        self.refused(207000, "another machine", self.b, "view", there, 4096)
        self.refused(207000, "another machine", self.b, "value", there, 1)

    def test_a_handle_is_imported_once_at_a_time(self):
        _, there = self.pair(2 * MIB)
        self.refused(107000, "already imported", self.b, "import", self.fabric)
        self.b.do("unmap", there)
        self.b.do("free", self.there_handle)
        self.b.do("import", self.fabric)

    def test_memory_lives_until_its_importers_let_go(self):
        here, there = self.pair(2 * MIB)
        self.a.do("put", here, 2 * MIB, 1)
        self.a.do("unmap", here)
        self.a.do("free", self.handle)
        self.assertEqual(self.b.value("check", there, 2 * MIB, 1), 0)
        self.b.do("put", there, 2 * MIB, 2)
        self.assertEqual(self.b.value("check", there, 2 * MIB, 2), 0)
        c = self.begin(2)
        self.refused(207006, "freed", c, "import", self.fabric)

    def test_a_key_stays_within_its_machine(self):
        a, b, beside = self.begin(0), self.begin(1), self.begin(0)
        key = a.do("key", a.do("malloc", 2 * MIB), 2 * MIB)
        beside.do("open_key", key)
        self.refused(207006, "on another machine, which fabric handles alone reach", b, "open_key", key)

    # ---- which process ----

    def test_the_list_of_processes_decides(self):
        a, b, c = self.begin(0), self.begin(1), self.begin(2)
        handle, _ = self.own(a, 2 * MIB)
        fabric = a.do("export", handle, 0)
        self.refused(207006, "aclrtMemSetPidToShareableHandleV2", b, "import", fabric)
        a.do("trust", fabric, b.do("tgid"))
        b.do("import", fabric)
        self.refused(207006, "not on the list", c, "import", fabric)

    def test_a_guessed_ticket_opens_nothing(self):
        a, b = self.begin(0), self.begin(1)
        handle, _ = self.own(a, 2 * MIB)
        fabric = bytearray.fromhex(a.do("export", handle, OPEN))
        fabric[32] ^= 1  # of the secret
        fabric = machines.repaired(fabric)
        self.refused(207006, "does not export", b, "import", fabric.hex())
        fabric[50] ^= 1
        self.refused(107000, "not a fabric handle", b, "import", fabric.hex())

    def test_one_machine_needs_no_network(self):
        a, b = self.begin(0), self.begin(0)
        handle, here = self.own(a, 2 * MIB)
        _, there = self.mapped(b, a.do("export", handle, OPEN), 2 * MIB)
        self.assertEqual(len(self.net.machines[0].helpers()), 1)  # the exporter's alone
        b.do("put", there, 2 * MIB, 3)
        b.do("view", there, 4096)
        self.assertEqual(a.value("check", here, 2 * MIB, 3), 0)

    def test_another_runtime_directory_is_another_machine(self):
        a, b = self.begin(0), self.begin(0, RUNTIME_DIR=self.net.folder)
        handle, here = self.own(a, 2 * MIB)
        _, there = self.mapped(b, a.do("export", handle, OPEN), 2 * MIB)
        b.do("put", there, 2 * MIB, 3)
        self.assertEqual(a.value("check", here, 2 * MIB, 3), 0)
        self.refused(207000, "another machine", b, "view", there, 4096)

    def test_both_export_and_import(self):
        a, b = self.begin(0), self.begin(1)
        handle_a, at_a = self.own(a, 2 * MIB)
        handle_b, at_b = self.own(b, 2 * MIB)
        fabric_a, fabric_b = a.do("export", handle_a, OPEN), b.do("export", handle_b, OPEN)
        _, seen_b = self.mapped(a, fabric_b, 2 * MIB)
        _, seen_a = self.mapped(b, fabric_a, 2 * MIB)
        a.do("put", seen_b, 2 * MIB, 1)
        b.do("put", seen_a, 2 * MIB, 2)
        self.assertEqual(b.value("check", at_b, 2 * MIB, 1), 0)
        self.assertEqual(a.value("check", at_a, 2 * MIB, 2), 0)

    def test_aclmem_info_shows_both_sides(self):
        self.pair(4 * MIB)
        seen = []
        for index, direction in (0, "exports to"), (1, "imports from"):
            machine = self.net.machines[index]

            def rows():
                env = dict(os.environ, ACLMEM_RUNTIME_DIR=machine.folder)
                output = subprocess.run([COMMAND, "info", "--json"], env=env, stdout=subprocess.PIPE, check=True).stdout
                seen[:] = json.loads(output)["fabric"]
                return seen

            records = machines.file_messages(machine.folder)
            machines.wait_for(records, rows, "a row of the records")
            os.close(records)
            self.assertEqual([row["direction"] for row in seen], [direction])
            self.assertEqual((seen[0]["pieces"], seen[0]["bytes"]), (1, 4 * MIB))
            self.assertEqual(seen[0]["peer"], (self.b if index == 0 else self.a).process.pid)
        printed = subprocess.run([COMMAND, "info"], env=dict(os.environ, ACLMEM_RUNTIME_DIR=machine.folder),
                                 stdout=subprocess.PIPE, universal_newlines=True).stdout
        self.assertIn("memory of other machines", printed)
        self.assertIn(self.net.machines[0].address, printed)
        self.b.do("finalize")
        self.assertEqual([name for name in os.listdir(machine.folder) if name.startswith("fabric-")], [])

    def test_aclmem_info_beside_containers_that_share_a_directory(self):
        """Their process ids are the same; a process that was killed has no row."""
        machine = self.net.machines[0]
        inside = machine.inside
        machine.inside = inside + ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
        exporters = [self.begin(0) for _ in range(3)]
        machine.inside = inside
        b = self.begin(1)
        for a in exporters:
            b.do("import", a.do("export", a.do("alloc", 2 * MIB), OPEN))

        def processes():
            env = dict(os.environ, ACLMEM_RUNTIME_DIR=machine.folder)
            output = subprocess.run([COMMAND, "info", "--json"], env=env, stdout=subprocess.PIPE, check=True).stdout
            return [row["process"] for row in json.loads(output)["fabric"]]

        records = machines.file_messages(machine.folder)
        machines.wait_for(records, lambda: processes() == [1, 1, 1], "three rows")
        os.close(records)
        ends = [machines.End(helper) for helper in machine.helpers()]
        for a in exporters[:2]:
            a.kill()
        exporters[2].do("finalize")
        for end in ends:
            end.wait()
        self.assertEqual(processes(), [])
        self.assertEqual([name for name in os.listdir(machine.folder) if name.startswith("fabric-")], [])

    def ping(self, key, where):
        env = dict(os.environ, ACLMEM_FABRIC_KEY=key)
        return subprocess.run(self.net.machines[1].inside + [COMMAND, "fabric", "ping", where], env=env,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True)

    def test_ping_says_what_is_wrong(self):
        a = self.begin(0)
        fabric = bytes.fromhex(a.do("export", a.do("alloc", 2 * MIB), OPEN))
        where = "%s:%d" % (self.net.machines[0].address, int.from_bytes(fabric[50:52], "little"))
        done = self.ping(self.net.key, where)
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn("process %d, has the same key" % a.process.pid, done.stdout)
        self.assertIn("round trip", done.stdout)
        self.assertRegex(done.stdout, r"put \d+ MB/s, get \d+ MB/s")
        for key, to, words in (
            (self.net.make_key("stranger"), where, "another key"),
            (self.net.key, self.net.machines[0].address, "HOST:PORT"),
            (self.net.key, self.net.machines[0].address + ":65537", "HOST:PORT"),
            (self.net.key, self.net.machines[0].address + ":port", "HOST:PORT"),
            (self.net.key, self.net.machines[0].address + ":1", "refused"),
            (self.net.make_key("loose", 0o644), where, "chmod 600"),
        ):
            done = self.ping(key, to)
            self.assertEqual(done.returncode, 1)
            self.assertIn(words, done.stdout)

    # ---- without ----

    def test_it_is_off_unless_asked_for(self):
        a, b = self.begin(0, FABRIC=None), self.begin(1)
        handle, _ = self.own(a, 2 * MIB)
        fabric = bytearray.fromhex(a.do("export", handle, OPEN))
        self.refused(207006, "another runtime directory", b, "import", fabric.hex())
        fabric[8] ^= 1  # of the machine
        self.refused(207000, "without ACLMEM_FABRIC", b, "import", fabric.hex())
        self.assertEqual(self.net.machines[0].helpers(), [])
        handle, _ = self.own(b, 2 * MIB)
        fabric = bytearray.fromhex(b.do("export", handle, OPEN))
        self.refused(207006, "aclrtMemImportFromShareableHandleV2: no process exports", a, "import", fabric.hex())
        self.refused(207006, "set ACLMEM_FABRIC", a, "import", fabric.hex())
        fabric[8] ^= 1
        fabric = machines.repaired(fabric)
        self.refused(207000, "set ACLMEM_FABRIC", a, "import", fabric.hex())

    def test_the_boot_of_the_machine_decides_too(self):
        a, b = self.begin(0), self.begin(0)
        handle, here = self.own(a, 2 * MIB)
        fabric = bytearray.fromhex(a.do("export", handle, OPEN))
        fabric[8] ^= 1  # as if from another machine
        fabric = machines.repaired(fabric)
        _, there = self.mapped(b, fabric.hex(), 2 * MIB)
        self.refused(207000, "another machine", b, "view", there, 4096)
        b.do("put", there, 2 * MIB, 3)
        self.assertEqual(a.value("check", here, 2 * MIB, 3), 0)

    def test_the_end_of_the_library_in_any_order(self):
        for first in 0, 1:
            here, there = self.pair(16 * MIB)
            block = self.b.value("malloc", 16 * MIB)
            for _ in range(6):  # which are queued when it ends
                self.b.do("copy_async", there, block, 16 * MIB, DEVICE_TO_DEVICE)
            ends = (self.a, self.b) if first else (self.b, self.a)
            for actor in ends:
                actor.do("finalize")
            for actor in ends:
                actor.do("init")
            handle, here = self.own(self.a, 2 * MIB)
            _, there = self.mapped(self.b, self.a.do("export", handle, OPEN), 2 * MIB)
            self.b.do("put", there, 2 * MIB, 3)
            self.assertEqual(self.a.value("check", here, 2 * MIB, 3), 0)
            self.assertEqual([actor.end() for actor in ends], [0, 0])


if __name__ == "__main__":
    ACTOR = sys.argv.pop(1)
    COMMAND = sys.argv.pop(1)
    machines.require()
    unittest.main()
