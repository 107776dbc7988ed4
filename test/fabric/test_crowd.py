#!/usr/bin/env python3
"""Many machines with many processes, all exporting and importing: test_crowd.py <actor> <aclmem>

Each process has one piece of memory for each other process, in which that one writes.  The orders come from a seed, and
a model of the bytes says what every process must see.
"""
import random
import sys
import unittest

import machines
from machines import MIB, OPEN

SIZE = 2 * MIB
N_MACHINES, N_PROCESSES, N_ORDERS = 8, 4, 200


class Crowd(unittest.TestCase):
    def test_every_process_sees_what_the_model_says(self):
        dice = random.Random(1)
        net = machines.Net(ACTOR, N_MACHINES, number=4)
        everybody = [machine.start() for machine in net.machines for _ in range(N_PROCESSES)]
        own, views, model = [], {}, []
        for actor in everybody:
            actor.do("init")
            handle = actor.do("alloc", SIZE)
            at = actor.value("reserve", SIZE)
            actor.do("map", at, SIZE, handle)
            actor.do("set", at, SIZE, 0)
            own.append((at, actor.do("export", handle, OPEN)))
            model.append(bytearray(SIZE))
        for i, actor in enumerate(everybody):
            for k, (_, fabric) in enumerate(own):
                if i == k:
                    views[i, k] = own[i][0]
                    continue
                views[i, k] = actor.value("reserve", SIZE)
                actor.do("map", views[i, k], SIZE, actor.do("import", fabric))
        for _ in range(N_ORDERS):
            i, k, m = (dice.randrange(len(everybody)) for _ in range(3))
            size = dice.choice((1, 100, 4096, 70000, MIB + 1))
            to, source = dice.randrange(SIZE - size), dice.randrange(SIZE - size)
            if dice.randrange(2):
                value = dice.randrange(256)
                everybody[i].do("set", views[i, k] + to, size, value)
                model[k][to : to + size] = bytes([value]) * size
            else:
                everybody[i].do("copy", views[i, k] + to, views[i, m] + source, size, 3)
                model[k][to : to + size] = bytes(model[m][source : source + size])
            seen = dice.randrange(len(everybody))
            start = dice.randrange(SIZE - 64)
            output = everybody[seen].do("peek", views[seen, k] + start, 64)
            self.assertEqual(output, model[k][start : start + 64].hex())
        for actor in everybody:
            self.assertEqual(actor.end(), 0)
        net.close()


if __name__ == "__main__":
    ACTOR = sys.argv.pop(1)
    del sys.argv[1]  # the command
    machines.require()
    unittest.main()
