#!/usr/bin/env python3
"""The ports of fabric processes, seen by peers and by strangers: test_ports.py <actor> <aclmem>"""
import socket
import subprocess
import sys
import tempfile
import unittest

import machines
from machines import MIB, OPEN, Refused

LISTENS = "0A"  # the kernel's number of the state

# In a namespace: whether a connection is made, or nothing answers.
KNOCK = """
import socket, sys
try:
    socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=1).close()
    print("open")
except socket.timeout:
    print("silent")
"""


# In a namespace: listens at the ports from one to another, until it is told to end.
HOLD = """
import socket, sys
address, first, end = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
held = [socket.create_server((address, port)) for port in range(first, end)]
print("held", flush=True)
sys.stdin.read()
"""


def listening(pid):
    """The addresses and ports at which a namespace listens."""
    with open("/proc/%d/net/tcp" % pid) as file:
        rows = [line.split() for line in file.readlines()[1:]]
    places = [row[1].split(":") for row in rows if row[3] == LISTENS]
    return {(socket.inet_ntoa(bytes.fromhex(address)[::-1]), int(port, 16)) for address, port in places}


def control_port(fabric):
    return int.from_bytes(bytes.fromhex(fabric)[50:52], "little")


class Ports(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.net = machines.Net(ACTOR, 3, number=9)

    @classmethod
    def tearDownClass(cls):
        cls.net.close()

    def tearDown(self):
        self.net.end_actors()

    def knock(self, index, place):
        return subprocess.run(
            self.net.machines[index].inside + [sys.executable, "-c", KNOCK, place[0], str(place[1])],
            stdout=subprocess.PIPE, universal_newlines=True, check=True).stdout.strip()

    def begin(self, index, **options):
        machine = self.net.machines[index]
        actor = machine.start(**options)
        actor.do("init")
        fabric = actor.do("export", actor.do("alloc", 2 * MIB), OPEN)
        (helper,) = machine.helpers()
        return actor, fabric, helper

    def data_places(self, index, fabric, helper):
        """Where UCX listens on a machine: at ports of the machine's address, and the fabric itself at another port."""
        places = listening(helper)
        self.assertEqual({address for address, _ in places}, {self.net.machines[index].address})
        return places - {(self.net.machines[index].address, control_port(fabric))}

    def logged(self):
        """A program that exports, and its log."""
        with tempfile.TemporaryFile("w+") as log:
            begun = self.begin(0, log=log, LOG="info")
            log.seek(0)
            return begun, log.read()

    def test_strangers_do_not_reach_the_data_ports(self):
        (a, fabric, helper), log = self.logged()
        places = self.data_places(0, fabric, helper)
        (place,) = (place for place in places if "UCX listens at %s:%d," % place in log)
        if "takes no filter" in log:
            self.skipTest("the kernel takes no filter for a socket, and the log says so")
        b, b_fabric, b_helper = self.begin(1)
        self.assertEqual(self.knock(1, place), "silent")  # it has not proved the key yet
        b.do("import", fabric)
        self.assertEqual(self.knock(1, place), "open")
        for other in places - {place}:  # no connection comes there
            self.assertEqual(self.knock(0, other), "silent")
        # An exporter reaches the port of imports, and no other machine does.
        knocks = [self.knock(0, other) for other in self.data_places(1, b_fabric, b_helper)]
        self.assertEqual(sorted(knocks), ["open", "silent"])
        for other in self.data_places(1, b_fabric, b_helper):
            self.assertEqual(self.knock(2, other), "silent")
        self.assertEqual(self.knock(2, place), "silent")
        self.assertEqual(self.knock(2, (place[0], control_port(fabric))), "open")
        b.kill()
        machines.wait_until(lambda: self.knock(1, place) == "silent", "the end of a peer's way", 20)

    def test_the_process_at_the_ports_has_few_rights(self):
        """See test/unit/test_confine.c for which."""
        _, _, helper = self.begin(0)
        with open("/proc/%d/status" % helper) as file:
            status = dict(line.split(":\t", 1) for line in file.read().splitlines() if ":\t" in line)
        self.assertEqual((status["Seccomp"], status["NoNewPrivs"]), ("2", "1"))

    def test_a_kernel_without_packet_filters_and_landlock(self):
        """The log says, at its default level, which ports are open and which files are exposed.  The fabric works."""
        size = 2 * MIB
        with tempfile.TemporaryFile("w+") as log:
            a, b = (machine.start(log=log) for machine in self.net.machines[:2])
            a.do("refuse_protection")
            a.do("init")
            handle, here = a.do("alloc", size), a.value("reserve", size)
            a.do("map", here, size, handle)
            fabric = a.do("export", handle, OPEN)
            log.seek(0)
            output = log.read()
        self.assertIn("warn: the fabric: UCX listens at ", output)
        self.assertIn("open to every address: the kernel takes no filter (Operation not permitted)", output)
        self.assertIn("close these ports to strangers", output)
        self.assertIn("the kernel has no Landlock: a peer that takes over the fabric process can read", output)
        (helper,) = self.net.machines[0].helpers()
        for place in self.data_places(0, fabric, helper):
            self.assertIn("%s:%d" % place, output)
            self.assertEqual(self.knock(2, place), "open")
        b.do("init")
        there = b.value("reserve", size)
        b.do("map", there, size, b.do("import", fabric))
        b.do("put", there, size, 5)
        self.assertEqual(a.value("check", here, size, 5), 0)
        self.assertEqual(b.value("check", there, size, 5), 0)

    def test_a_second_address_of_the_importer(self):
        """UCX connects from the interface's first address, and the fabric from the one of ACLMEM_FABRIC."""
        machine = self.net.machines[1]
        second = "10.99.9.102"
        machines.ip("-n", machine.name, "addr", "add", second + "/24", "dev", "eth0")
        a, fabric, _ = self.begin(0)
        b, _, _ = self.begin(1, FABRIC=second)
        b.do("import", fabric)
        b.kill()
        machines.ip("-n", machine.name, "addr", "del", second + "/24", "dev", "eth0")

    def test_ports_that_were_asked_for(self):
        first = 7000
        _, fabric, helper = self.begin(0, FABRIC="%s:%d" % (self.net.machines[0].address, first))
        self.assertEqual(control_port(fabric), first)
        for _, port in self.data_places(0, fabric, helper):
            self.assertIn(port, range(first + 256, first + 512))

    def test_ports_that_are_in_use(self):
        """The fabric's own, and those of UCX, which needs two and would look for them for ever."""
        machine = self.net.machines[0]
        for first, end, words in (
            (8000, 8256, "from 8000 to 8255"),
            (8256, 8512, "ports 8256 to 8511"),
            (8256, 8511, "ports 8256 to 8511"),
        ):
            with subprocess.Popen(
                machine.inside + [sys.executable, "-c", HOLD, machine.address, str(first), str(end)],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, universal_newlines=True) as holder:
                self.assertEqual(holder.stdout.readline(), "held\n")
                actor = machine.start(FABRIC=machine.address + ":8000")
                actor.do("init")
                with self.assertRaises(Refused) as caught:
                    actor.do("export", actor.do("alloc", 2 * MIB), OPEN)
            self.assertEqual(caught.exception.code, 207000, caught.exception)
            self.assertIn(words, caught.exception.text)
            self.assertEqual(actor.end(), 0)
            machine.wait_for_no_helper()


if __name__ == "__main__":
    ACTOR = sys.argv.pop(1)
    del sys.argv[1]  # the command
    machines.require()
    unittest.main()
