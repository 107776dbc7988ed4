#!/usr/bin/env python3
"""Memory of another machine beside a bare pair of UCX programs: fabric.py <aclmem_bench_fabric>

Two network namespaces, joined by a bridge; both pairs use the same UCX settings, and both targets sleep while no bytes
come.  The pairs take turns of a few milliseconds.  A figure is the median of its turns, and a ratio that of the ratios
of neighbouring turns, which a machine with other work disturbs least.  Needs root.
"""
import os
import shutil
import statistics
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "test", "fabric"))
import machines  # noqa: E402

SETTINGS = {
    "UCX_TLS": "tcp",
    "UCX_NET_DEVICES": "eth0",
    "UCX_TCP_TX_SEG_SIZE": "64k",
    "UCX_TCP_RX_SEG_SIZE": "132k",
    "UCX_WARN_UNUSED_ENV_VARS": "n",
}
ROWS = ((8, 60), (4096, 60), (32768, 40), (1 << 20, 12), (64 << 20, 1))  # bytes, moves in a turn
N_TURNS = 25
PERFTEST = (("ucp_put_lat", 4096, 300), ("ucp_get", 4096, 300), ("ucp_put_bw", 1 << 20, 100), ("ucp_get", 1 << 20, 100))
PERFTEST_PORT = "13337"
BUDGETS = {4096: ("at most", 1.3), 1 << 20: ("at least", 0.9), 64 << 20: ("at least", 0.9)}


def environment(net, machine):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("ACLMEM_", "UCX_"))}
    env.update(SETTINGS, ACLMEM_PRODUCT="A3", ACLMEM_MEMORY="1G", ACLMEM_RUNTIME_DIR=machine.folder, ACLMEM_EXPLAIN="0")
    env.update(ACLMEM_FABRIC="eth0", ACLMEM_FABRIC_KEY=net.key)
    return env


class Pair:
    """A serving program on one machine, and a measuring one on the other."""

    def __init__(self, net, serve, measure):
        a, b = net.machines
        self.server = self.start(net, a, serve)
        self.measurer = self.start(net, b, measure, *self.server.stdout.readline().split())

    def start(self, net, machine, *words):
        return subprocess.Popen(machine.inside + [PROGRAM] + list(words), env=environment(net, machine),
                                stdin=subprocess.PIPE, stdout=subprocess.PIPE, universal_newlines=True)

    def turn(self, way, size, n):
        """Microseconds of a move."""
        self.measurer.stdin.write("%s %d %d\n" % (way, size, n))
        self.measurer.stdin.flush()
        return float(self.measurer.stdout.readline())

    def close(self):
        for program in (self.measurer, self.server):
            program.kill()
            program.wait()


def row(bare, ours, way, size, n):
    """Microseconds of both, and how many times as fast ours is."""
    turns = [(bare.turn(way, size, n), ours.turn(way, size, n)) for _ in range(N_TURNS)]
    return (statistics.median(t[0] for t in turns), statistics.median(t[1] for t in turns),
            statistics.median(a / b for a, b in turns))


def figures(size, bare, ours):
    if size < 1 << 20:
        return "%.1f %.1f" % (bare, ours)
    return "%.2f %.2f GB/s" % (size / bare / 1e3, size / ours / 1e3)


def speed(net):
    bare, ours = Pair(net, "bare-serve", "bare-measure"), Pair(net, "serve", "measure")
    print("memory of another machine, beside UCX alone (microseconds, GB/s from 1 MB on)")
    print("%10s  %20s  %20s  %7s  %7s  %s" % ("bytes", "put + flush: UCX us", "get", "put x", "get x", "budget"))
    for size, n in ROWS:
        put, get = (row(bare, ours, way, size, n) for way in ("put", "get"))
        ratios = [ratio if size >= 1 << 20 else 1 / ratio for _, _, ratio in (put, get)]
        budget = "%s %.1f" % BUDGETS[size] if size in BUDGETS else ""
        print("%10d  %20s  %20s  %7.2f  %7.2f  %s" % (
            size, figures(size, *put[:2]), figures(size, *get[:2]), ratios[0], ratios[1], budget))
    bare.close()
    ours.close()


def perftest(net):
    """UCX's own program.  Its passive side polls once a millisecond, so these rows are no limit."""
    if shutil.which("ucx_perftest") is None:
        print("ucx_perftest: skipped, it is not installed (package ucx-utils)")
        return
    a, b = net.machines
    for test, size, n in PERFTEST:
        server = subprocess.Popen(a.inside + ["ucx_perftest", "-p", PERFTEST_PORT], env=environment(net, a),
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            machines.wait_until(lambda: int(PERFTEST_PORT) in listening(server.pid), "ucx_perftest's port")
            done = subprocess.run(
                b.inside + ["ucx_perftest", a.address, "-p", PERFTEST_PORT, "-t", test, "-s", str(size), "-n", str(n),
                            "-w", "10", "-f", "-v"],
                env=environment(net, b), stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True,
                timeout=60)
            _, median, _, overall = done.stdout.splitlines()[-1].split(",")[:4]
            print("ucx_perftest %-11s %8d bytes: median %s us, overall %s us" % (test, size, median, overall))
        except (subprocess.TimeoutExpired, IndexError, ValueError):
            print("ucx_perftest %-11s %8d bytes: skipped, it gave no figures" % (test, size))
        finally:
            server.kill()
            server.wait()


def listening(pid):
    """The ports at which the namespace of a process listens."""
    try:
        with open("/proc/%d/net/tcp" % pid) as file:
            rows = [line.split() for line in file.readlines()[1:]]
    except OSError:
        return set()
    return {int(row[1].split(":")[1], 16) for row in rows if row[3] == "0A"}


def footprint(machine):
    """Descriptors and memory, in MB, of the fabric processes there, all together."""
    n_files, n_kb = 0, 0
    for pid in machine.helpers():
        n_files += len(os.listdir("/proc/%d/fd" % pid))
        with open("/proc/%d/status" % pid) as status:
            n_kb += next(int(line.split()[1]) for line in status if line.startswith("RssAnon:"))
    return n_files, n_kb / 1024


def start(net, machine, *words):
    return subprocess.Popen(
        machine.inside + [PROGRAM] + list(words), env=dict(environment(net, machine), ACLMEM_MEMORY="64G"),
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, universal_newlines=True)


def take(importer, handles):
    importer.stdin.write("".join(handle + "\n" for handle in handles) + "\n")
    importer.stdin.flush()
    return float(importer.stdout.readline())


def crowd(net, n_handles, n_importers):
    """Memory and descriptors that exports, imports and importers cost the fabric processes."""
    a, b = net.machines
    programs = [start(net, a, "export", "1")]
    programs[0].stdout.readline()
    programs[0].stdout.readline()
    empty = footprint(a)
    programs.append(start(net, a, "export", str(n_handles)))
    handles = [programs[1].stdout.readline().strip() for _ in range(n_handles)]
    seconds = float(programs[1].stdout.readline())
    full = footprint(a)
    print("%d exports: %.0f a second; the exporter's fabric process has %d descriptors and %.2f KB more for each" % (
        n_handles, n_handles / seconds, full[0] - empty[0], (full[1] - 2 * empty[1]) * 1024 / n_handles))
    programs.append(start(net, b, "import"))
    seconds = take(programs[2], handles)
    done, importer = footprint(a), footprint(b)
    print("%d imports by one process: %.0f a second; its fabric process has %d descriptors and %.1f MB, "
          "the exporter's %d descriptors and %.2f KB more for each" % (
              n_handles, n_handles / seconds, importer[0], importer[1], done[0] - full[0],
              (done[1] - full[1]) * 1024 / n_handles))
    for _ in range(n_importers):
        programs.append(start(net, b, "import"))
        take(programs[-1], handles[:1])
    many = footprint(a)
    print("%d further importers: %.1f descriptors and %.1f KB of the exporter's fabric process for each" % (
        n_importers, (many[0] - done[0]) / n_importers, (many[1] - done[1]) * 1024 / n_importers))
    for program in programs:
        program.kill()
        program.wait()


def main():
    net = machines.Net(PROGRAM, 2, number=3)
    speed(net)
    perftest(net)
    crowd(net, 10000, 32)
    net.close()


if __name__ == "__main__":
    PROGRAM = os.path.abspath(sys.argv[1])
    machines.require()
    main()
