#!/usr/bin/env python3
"""Many importing processes on one exporter: fabric_crowd.py <fabric_actor> [importers] [--here]

Each importer is a program with a fabric process of its own, so N importers are 2 N processes.  All import the same memory
at once, read it at once, and are killed at once.  The exporter is on one machine (a network namespace), and the importers
are containers of another one: each has a runtime directory of its own.  With --here all are on this machine, over the
loopback interface.  Needs root, and 2 MB for each importer.
"""
import os
import resource
import shutil
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "test", "fabric"))
import machines  # noqa: E402
from machines import MIB, OPEN  # noqa: E402

SIZE = 2 * MIB
READ = 65536
SEED = 7
N_AT_ONCE = 64  # programs that begin at the same time


class Here(machines.Machine):
    """This machine, by its loopback interface."""

    def __init__(self, net):
        self.net, self.inside, self.address = net, [], "lo"
        self.folder = tempfile.mkdtemp(prefix="aclmem-here-")


class HereNet(machines.Net):
    def __init__(self, program):
        self.program, self.actors = program, []
        self.folder = tempfile.mkdtemp(prefix="aclmem-net-")
        self.key = self.make_key("key")
        self.machines = [Here(self), Here(self)]

    def close(self):
        for actor in self.actors:
            if actor.process.poll() is None:
                actor.kill()
        for folder in [self.folder] + [machine.folder for machine in self.machines]:
            shutil.rmtree(folder, ignore_errors=True)


def helper_of(pid):
    """The fabric process of a program: both map the memory that they share."""
    areas = {os.stat("/proc/%d/map_files/%s" % (pid, name)).st_ino
             for name in os.listdir("/proc/%d/map_files" % pid)
             if "aclmem-fabric" in os.readlink("/proc/%d/map_files/%s" % (pid, name))}
    for other in (int(name) for name in os.listdir("/proc") if name.isdigit()):
        if machines.name_of(other) != "aclmem-fabric":
            continue
        with open("/proc/%d/maps" % other) as maps:
            if any("aclmem-fabric" in line and int(line.split()[4]) in areas for line in maps):
                return other
    raise AssertionError("process %d has no fabric process" % pid)


def footprint(pid):
    """Descriptors, and KB of memory that is the process's own."""
    with open("/proc/%d/status" % pid) as status:
        kb = next(int(line.split()[1]) for line in status if line.startswith("RssAnon:"))
    return len(os.listdir("/proc/%d/fd" % pid)), kb


def shares(helper):
    with open("/proc/%d/maps" % helper) as maps:
        return sum("memfd:" in line and "aclmem-fabric" not in line for line in maps)


def all_do(actors, *order):
    """All at once: their answers, and the seconds until the last one."""
    begun = time.monotonic()
    for actor in actors:
        actor.send(*order)
    answers = [actor.receive() for actor in actors]
    return answers, time.monotonic() - begun


def begin(machine, n):
    """N programs whose fabric processes are up."""
    actors = []
    while len(actors) < n:
        some = [machine.start(MEMORY="64M", RUNTIME_DIR=tempfile.mkdtemp(dir=machine.folder))
                for _ in range(min(N_AT_ONCE, n - len(actors)))]
        all_do(some, "init")
        handles, _ = all_do(some, "alloc", 2 * MIB)
        for actor, handle in zip(some, handles):
            actor.send("export", handle, OPEN)
        for actor in some:
            actor.receive()
        actors += some
    return actors


def crowd(net, n):
    exporter = net.machines[0].start()
    exporter.do("init")
    handle, here = exporter.do("alloc", SIZE), exporter.value("reserve", SIZE)
    exporter.do("map", here, SIZE, handle)
    exporter.do("put", here, SIZE, SEED)
    fabric = exporter.do("export", handle, OPEN)
    helper = helper_of(exporter.process.pid)
    program_before, before = footprint(exporter.process.pid), footprint(helper)

    begun = time.monotonic()
    importers = begin(net.machines[1], n)
    print("%d importing programs with their fabric processes began in %.1f s" % (n, time.monotonic() - begun))
    imported, seconds = all_do(importers, "import", fabric)
    print("%d imports at once: %.2f s, %.0f a second" % (n, seconds, n / seconds))
    program, now = footprint(exporter.process.pid), footprint(helper)
    print("each costs the exporter's fabric process %.2f descriptors and %.2f KB, and its program %.2f and %.2f KB" % (
        (now[0] - before[0]) / n, (now[1] - before[1]) / n,
        (program[0] - program_before[0]) / n, (program[1] - program_before[1]) / n))
    own = footprint(helper_of(importers[0].process.pid)), footprint(importers[0].process.pid)
    print("an importer: %d descriptors and %d KB of its fabric process, %d and %d KB of its program" % (own[0] + own[1]))

    places, _ = all_do(importers, "reserve", SIZE)
    for actor, there, memory in zip(importers, places, imported):
        actor.send("map", there, SIZE, memory)
    for actor in importers:
        actor.receive()
    begun = time.monotonic()
    for actor, there in zip(importers, places):
        actor.send("check", there, READ, SEED)
    wrong = [actor.receive() for actor in importers]
    seconds = time.monotonic() - begun
    print("%d reads of %d KB at once: %.2f s; importers that read a wrong byte: %d" % (
        n, READ >> 10, seconds, sum(answer != "0" for answer in wrong)))

    exporter.do("unmap", here)
    exporter.do("free", handle)
    if shares(helper) != 1:
        raise AssertionError("the importers do not hold the memory")
    begun = time.monotonic()
    for actor in importers:
        actor.process.kill()
    for actor in importers:
        actor.kill()
    machines.wait_until(lambda: shares(helper) == 0, "the share of the last importer", 600)
    # UCX has made a timer meanwhile, which it keeps.
    machines.wait_until(lambda: footprint(helper)[0] <= before[0] + 1, "the descriptors of the importers", 600)
    print("all importers killed: memory and descriptors given back in %.2f s; %d KB more than before" % (
        time.monotonic() - begun, footprint(helper)[1] - before[1]))
    if exporter.end() != 0 or any(answer != "0" for answer in wrong):
        raise AssertionError("the exporter failed, or a byte was wrong")


def main():
    words = [word for word in sys.argv[1:] if word != "--here"]
    program, n = os.path.abspath(words[0]), int(words[1]) if len(words) > 1 else 1000
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # two pipes for each program
    if "--here" in sys.argv:
        net = HereNet(program)
    else:
        machines.require()
        net = machines.Net(program, 2, number=11)
    try:
        crowd(net, n)
    finally:
        net.close()


if __name__ == "__main__":
    main()
