#!/usr/bin/env python3
"""Memory of another machine beside a bare pair of UCX programs: fabric.py <aclmem_bench_fabric>

Two network namespaces, joined by a bridge; both pairs use the same UCX settings, and both targets sleep while nothing
comes.  The pairs take turns, and each figure is the median of its turns.  Needs root.
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
    "UCX_TCP_RX_SEG_SIZE": "128k",
    "UCX_WARN_UNUSED_ENV_VARS": "n",
}
N_TURNS = 5
PERFTEST = (("ucp_put_lat", 4096, 300), ("ucp_get", 4096, 300), ("ucp_put_bw", 1 << 20, 100), ("ucp_get", 1 << 20, 100))
PERFTEST_PORT = "13337"
BUDGETS = {4096: ("at most", 1.3), 1 << 20: ("at least", 0.9), 64 << 20: ("at least", 0.9)}


def environment(net, machine):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("ACLMEM_", "UCX_"))}
    env.update(SETTINGS, ACLMEM_PRODUCT="A3", ACLMEM_MEMORY="1G", ACLMEM_RUNTIME_DIR=machine.folder, ACLMEM_EXPLAIN="0")
    env.update(ACLMEM_FABRIC="eth0", ACLMEM_FABRIC_KEY=net.key)
    return env


def run(net, serve, measure):
    """The rows of one pair: size, microseconds of a put, of a get."""
    a, b = net.machines
    server = subprocess.Popen(
        a.inside + [PROGRAM, serve], env=environment(net, a), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        universal_newlines=True)
    try:
        where = server.stdout.readline().split()
        done = subprocess.run(
            b.inside + [PROGRAM, measure] + where, env=environment(net, b), stdout=subprocess.PIPE, check=True,
            universal_newlines=True)
    finally:
        server.kill()
        server.wait()
    return [[float(word) for word in line.split()] for line in done.stdout.splitlines()]


def medians(turns):
    """Rows of several turns, as one."""
    return [[statistics.median(cells) for cells in zip(*rows)] for rows in zip(*turns)]


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
    turns = [(run(net, "bare-serve", "bare-measure"), run(net, "serve", "measure")) for _ in range(N_TURNS)]
    bare, ours = (medians([turn[i] for turn in turns]) for i in (0, 1))
    print("memory of another machine, beside UCX alone (microseconds, GB/s from 1 MB on)")
    print("%10s  %20s  %20s  %7s  %7s  %s" % ("bytes", "put + flush: UCX us", "get", "put x", "get x", "budget"))
    for (size, put, get), (_, our_put, our_get) in zip(bare, ours):
        is_rate = size >= 1 << 20
        ratio = [put / our_put, get / our_get] if is_rate else [our_put / put, our_get / get]
        words = ["%.1f %.1f" % pair for pair in ((put, our_put), (get, our_get))]
        if is_rate:
            words = ["%.2f %.2f GB/s" % (size / a / 1e3, size / b / 1e3) for a, b in ((put, our_put), (get, our_get))]
        budget = "%s %.1f" % BUDGETS[size] if size in BUDGETS else ""
        print("%10d  %20s  %20s  %7.2f  %7.2f  %s" % (size, words[0], words[1], ratio[0], ratio[1], budget))
    perftest(net)
    crowd(net, 10000, 32)
    net.close()


if __name__ == "__main__":
    PROGRAM = os.path.abspath(sys.argv[1])
    machines.require()
    main()
