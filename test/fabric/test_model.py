#!/usr/bin/env python3
"""Random orders on memory here and on other machines, beside a model of the bytes: test_model.py <actor> <aclmem> [seed]

Each process has a window of several places, device memory and host memory.  A place shows memory of the process itself, of
another process of the same machine, or of another machine; a range of the window may be of all three kinds.  The processes
work at the same time, on bytes that do not meet.  All orders come from a seed, and the number of rounds is fixed.
"""
import os
import random
import sys
import unittest
import zlib

import machines
from machines import MIB, OPEN

SIZE = 2 * MIB
N_PLACES, N_ROUNDS, N_OWN = 4, 150, 2
SIZES = (1, 63, 4096, 70001, MIB + 1, 2 * MIB + 4097)
HOST_TO_DEVICE, DEVICE_TO_HOST, DEVICE_TO_DEVICE = 1, 2, 3


class Noise:
    """A file of random bytes, so that a byte at a wrong place is a wrong byte."""

    def __init__(self, folder, dice):
        self.path = os.path.join(folder, "noise")
        self.bytes = dice.getrandbits(32 * MIB).to_bytes(4 * MIB, "little")
        with open(self.path, "wb") as file:
            file.write(self.bytes)


class Piece:
    """Exported memory."""

    def __init__(self, owner, fabric, data):
        self.owner = owner
        self.fabric = fabric
        self.bytes = bytearray(data)
        self.is_exported = True


class Range:
    """Addresses of one process, and the bytes of the model that are there."""

    def __init__(self, address, parts, is_host=False):
        self.address = address
        self.parts = parts  # (bytes, first, end)
        self.is_host = is_host
        self.size = sum(end - first for _, first, end in parts)

    def cut(self, start, size):
        parts = []
        at = 0
        for memory, first, end in self.parts:
            low, high = max(start, at), min(start + size, at + end - first)
            if low < high:
                parts.append((memory, first + low - at, first + high - at))
            at += end - first
        return Range(self.address + start, parts, self.is_host)

    def rows(self, pitch, width, height):
        parts = []
        for i in range(height):
            parts += self.cut(i * pitch, width).parts
        return Range(self.address, parts, self.is_host)

    def read(self):
        return b"".join(bytes(memory[first:end]) for memory, first, end in self.parts)

    def write(self, data):
        at = 0
        for memory, first, end in self.parts:
            memory[first:end] = data[at : at + end - first]
            at += end - first

    def meets(self, other):
        return any(
            a is b and first < other_end and other_first < end
            for a, first, end in self.parts
            for b, other_first, other_end in other.parts
        )


class Process:
    """A program, and what the model knows of it."""

    def __init__(self, actor, dice, noise):
        self.actor = actor
        self.dice = dice
        self.noise = noise
        actor.do("init")
        self.window = actor.value("reserve", N_PLACES * SIZE)
        self.places = [None] * N_PLACES
        self.handles = {}  # of pieces, own and imported
        self.device = Range(actor.value("malloc", SIZE), [(bytearray(SIZE), 0, SIZE)])
        self.host = Range(actor.value("malloc_host", SIZE), [(bytearray(SIZE), 0, SIZE)], True)
        actor.do("set", self.device.address, SIZE, 0)
        actor.do("set", self.host.address, SIZE, 0)

    # ---- handles and places ----

    def at(self, place):
        return self.window + place * SIZE

    def free_places(self):
        return [i for i, piece in enumerate(self.places) if piece is None]

    def offer(self):
        """New memory, at a free place."""
        place = self.dice.choice(self.free_places())
        handle = self.actor.do("alloc", SIZE)
        self.actor.do("map", self.at(place), SIZE, handle)
        first = self.dice.randrange(len(self.noise.bytes) - SIZE)
        self.actor.do("load", self.at(place), SIZE, self.noise.path, first)
        piece = Piece(self, self.actor.do("export", handle, OPEN), self.noise.bytes[first : first + SIZE])
        self.places[place] = piece
        self.handles[piece] = handle
        return piece

    def withdraw(self, piece):
        """The exporter lets go; importers that have the memory keep it."""
        piece.is_exported = False
        if piece in self.places:
            self.unmap(piece)
        self.free(piece)

    def unmap(self, piece):
        place = self.places.index(piece)
        self.actor.do("unmap", self.at(place))
        self.places[place] = None

    def free(self, piece):
        self.actor.do("free", self.handles.pop(piece))

    def arrange(self, pieces):
        """One change of handles or places; the list of pieces is everyone's."""
        mapped = [piece for piece in self.places if piece is not None]
        own = [piece for piece in pieces if piece.owner is self and piece.is_exported]
        choices = []
        if self.free_places():
            choices += [("map", p) for p in self.handles if p not in mapped]
            choices += [("import", p) for p in pieces if p.is_exported and p not in self.handles and p not in mapped]
            if len(own) < N_OWN:
                choices += [("offer", None)]
        choices += [("unmap", p) for p in mapped]
        choices += [("withdraw", p) for p in own]
        choices += [("free", p) for p in self.handles if p.owner is not self]
        choices += [("retain", p) for p in mapped]
        what, piece = self.dice.choice(choices)
        if what == "map":
            place = self.dice.choice(self.free_places())
            self.actor.do("map", self.at(place), SIZE, self.handles[piece])
            self.places[place] = piece
        elif what == "import":
            self.handles[piece] = self.actor.do("import", piece.fabric)
        elif what == "offer":
            pieces.append(self.offer())
        elif what == "retain":
            handle = self.actor.do("retain", self.at(self.places.index(piece)))
            if piece in self.handles:
                assert handle == self.handles[piece]
                self.actor.do("free", handle)
            elif piece.owner is not self:
                self.handles[piece] = handle
            else:
                self.actor.do("free", handle)
        else:
            getattr(self, what)(piece)

    # ---- bytes ----

    def runs(self):
        """Everything that can be copied: ranges of mapped places, and the two blocks."""
        found = [self.device, self.host]
        first = 0
        while first < N_PLACES:
            end = first
            while end < N_PLACES and self.places[end] is not None:
                end += 1
            if end > first:
                parts = [(piece.bytes, 0, SIZE) for piece in self.places[first:end]]
                found += 3 * [Range(self.at(first), parts)]
            first = end + 1
        return found

    def any(self, size, is_host=None):
        run = self.dice.choice([r for r in self.runs() if is_host is None or r.is_host == is_host])
        size = min(size, run.size)
        return run.cut(self.dice.randrange(run.size - size + 1), size)

    def copy(self, tail):
        to = self.any(self.dice.choice(SIZES))
        source = self.any(to.size, False if to.is_host else None)
        to = to.cut(0, source.size)
        kind = DEVICE_TO_HOST if to.is_host else HOST_TO_DEVICE if source.is_host else DEVICE_TO_DEVICE
        if to.meets(source) and (tail or to.parts[0][0] is self.device.parts[0][0]):
            return None
        return ("copy" + tail, to.address, source.address, to.size, kind), [source], to, source.read

    def fill(self, tail):
        to = self.any(self.dice.choice(SIZES))
        value = self.dice.randrange(256)
        return ("set" + tail, to.address, to.size, value), [], to, lambda: bytes([value]) * to.size

    def load(self, tail):
        to = self.any(self.dice.choice(SIZES), False)
        first = self.dice.randrange(len(self.noise.bytes) - to.size)
        data = self.noise.bytes[first : first + to.size]
        return ("load", to.address, to.size, self.noise.path, first), [], to, lambda: data

    def sides(self, size):
        """Two ranges, one of the host, in one of the two directions."""
        host = self.any(size, True)
        device = self.any(host.size, False)
        host = host.cut(0, device.size)
        is_back = self.dice.randrange(2)
        return (host, device, DEVICE_TO_HOST) if is_back else (device, host, HOST_TO_DEVICE)

    def rows(self, tail):
        to, source, kind = self.sides(MIB)
        height = self.dice.randrange(1, 9)
        pitch = max(to.size // height, 1)
        if pitch * height > to.size:
            return None
        width = self.dice.randrange(1, pitch + 1)
        wide = self.dice.randrange(width, pitch + 1)
        whole = to.cut(0, pitch * height)
        rows, from_rows = whole.rows(pitch, width, height), source.cut(0, wide * height).rows(wide, width, height)
        order = ("copy_2d" + tail, to.address, pitch, source.address, wide, width, height, kind)
        return order, [from_rows], rows, from_rows.read

    def batch(self, tail):
        to, source, kind = self.sides(MIB)
        n = self.dice.randrange(1, 6)
        size = to.size // n
        if size == 0:
            return None
        order = ["batch" + tail, kind, size]
        places = list(range(n))
        self.dice.shuffle(places)
        for i, k in enumerate(places):
            order += [to.address + i * size, source.address + k * size]
        parts = [source.cut(k * size, size) for k in places]
        return order, parts, to.cut(0, n * size), lambda: b"".join(part.read() for part in parts)

    def work(self):
        """Orders with the bytes that they read and write: one, or several on a stream."""
        is_async = self.dice.randrange(2)
        made = []
        for _ in range(self.dice.randrange(1, 5) if is_async else 1):
            kinds = (self.copy, self.copy, self.fill, self.rows, self.batch) + (() if is_async else (self.load,))
            order = self.dice.choice(kinds)("_async" * is_async)
            if order is not None:
                made.append(order)
        if is_async and made:
            made.append((("sync",), [], Range(0, []), bytes))
        return made


def is_apart(work, others):
    """Whether no byte that one side writes is read or written by the other."""
    for _, reads, to, _ in work:
        for _, other_reads, other_to, _ in others:
            if to.meets(other_to) or any(to.meets(r) for r in other_reads) or any(other_to.meets(r) for r in reads):
                return False
    return True


class Model(unittest.TestCase):
    def test_bytes_are_as_in_the_model(self):
        dice = random.Random(int(SEED, 0))
        net = machines.Net(ACTOR, 3, number=5)
        noise = Noise(net.folder, dice)
        processes = [Process(net.machines[i].start(), dice, noise) for i in (0, 0, 1, 2)]
        pieces = [process.offer() for process in processes for _ in range(N_OWN)]
        for number in range(N_ROUNDS):
            for process in processes:
                if dice.randrange(2):
                    process.arrange(pieces)
            pieces = [p for p in pieces if p.is_exported]
            under_way, chosen = [], []
            for process in processes:
                work = process.work()
                if is_apart(work, under_way):
                    under_way += work
                    chosen.append((process, work))
            for process, work in chosen:
                for order, _, _, _ in work:
                    process.actor.send(*order)
            for process, work in chosen:
                for order, _, to, bytes_of in work:
                    process.actor.receive()
                    to.write(bytes_of())
            for process in processes:
                seen = process.any(64, False)
                self.assertEqual(process.actor.do("peek", seen.address, seen.size), seen.read().hex(), number)
        for process in processes:
            for run in {run.address: run for run in process.runs()}.values():
                output = process.actor.value("sum", run.address, run.size, int(run.is_host))
                self.assertEqual(output, zlib.adler32(run.read()))
        for process in processes:
            self.assertEqual(process.actor.end(), 0)
        net.close()


if __name__ == "__main__":
    ACTOR = sys.argv.pop(1)
    del sys.argv[1]  # the command
    SEED = sys.argv.pop(1) if len(sys.argv) > 1 else "1"
    machines.require()
    unittest.main()
