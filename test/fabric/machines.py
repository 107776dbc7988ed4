"""Machines for tests: network namespaces, each with a runtime directory of its own.

A machine is a namespace with one interface; all are connected by a bridge in a namespace of its
own.  Programs that run on a machine take orders (test/fabric/actor.c).
"""
import atexit
import ctypes
import errno
import os
import secrets
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

PREFIX = "aclmem-"
MIB = 1 << 20
OPEN = 1  # any process may import
# Of the kernel's headers.
CLONE_NEWNET, RTMGRP_LINK, IN_MODIFY, IN_CREATE = 0x40000000, 1, 0x002, 0x100
N_ENDS = 100  # fabric processes that end one after the other


def ip(*words):
    subprocess.run(["ip"] + list(words), check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def wait_for(fd, is_true, what, seconds=60):
    """Waits for a change that is told by a message to the descriptor, which was open before."""
    while not is_true():
        if not select.select([fd], [], [], seconds)[0]:
            raise AssertionError("it did not come: " + what)
        try:
            os.read(fd, 65536)
        except OSError as error:
            if error.errno != errno.ENOBUFS:  # some messages were lost; one of them may be the one
                raise


def wait_until(is_true, what, seconds=60):
    """Waits for a change of which no message tells: another process's memory, sockets or state."""
    for _ in range(seconds * 50):
        if is_true():
            return
        time.sleep(0.02)
    raise AssertionError("it did not come: " + what)


def is_alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def sweep():
    """Removes namespaces of tests that were killed."""
    listed = subprocess.run(["ip", "netns", "list"], stdout=subprocess.PIPE, universal_newlines=True).stdout
    for line in listed.splitlines():
        name = line.split()[0] if line.split() else ""
        if name.startswith(PREFIX) and not is_alive(int(name.split("-")[1])):
            subprocess.run(["ip", "netns", "del", name], stderr=subprocess.DEVNULL)


def require():
    """Ends the test with a reason where machines cannot be made."""
    if shutil.which("ip") is None:
        print("skipped: there is no command ip (package iproute2)")
        sys.exit(77)
    if os.geteuid() != 0:
        print("skipped: only root makes network namespaces")
        sys.exit(77)
    sweep()
    name = "%s%d-probe" % (PREFIX, os.getpid())
    try:
        ip("netns", "add", name)
        ip("-n", name, "link", "add", "probe0", "type", "veth", "peer", "name", "probe1")
    except subprocess.CalledProcessError as error:
        print("skipped: no network namespaces here: %s" % error.stderr.decode().strip())
        sys.exit(77)
    finally:
        subprocess.run(["ip", "netns", "del", name], stderr=subprocess.DEVNULL)


class Refused(Exception):
    def __init__(self, code, text):
        super().__init__("%d %s" % (code, text))
        self.code = code
        self.text = text


class Actor:
    """A program on a machine."""

    def __init__(self, machine, program, env, log):
        self.machine = machine
        self.process = subprocess.Popen(
            machine.inside + [program],
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            universal_newlines=True,
        )

    def send(self, *words):
        self.process.stdin.write(" ".join(str(word) for word in words) + "\n")
        self.process.stdin.flush()

    def receive(self):
        line = self.process.stdout.readline()
        if not line:
            raise EOFError("the program ended, with %s" % self.process.wait())
        status, _, rest = line.rstrip("\n").partition(" ")
        if status != "ok":
            raise Refused(int(status), rest)
        return rest

    def do(self, *words):
        self.send(*words)
        return self.receive()

    def value(self, *words):
        return int(self.do(*words), 0)

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.close()

    def close(self):
        self.process.stdin.close()
        self.process.stdout.close()

    def end(self):
        """Ends it as programs do; returns its status."""
        self.process.stdin.close()
        status = self.process.wait()
        self.process.stdout.close()
        return status


def name_of(pid):
    try:
        with open("/proc/%d/comm" % pid) as file:
            return file.read().strip()
    except OSError:
        return ""


def state_of(pid):
    """The letter of the kernel for a process: "T" stands still, "Z" has ended; "" is not there."""
    try:
        with open("/proc/%d/stat" % pid) as file:
            return file.read().rpartition(")")[2].split()[0]
    except OSError:
        return ""


def is_running(pid):
    return state_of(pid) not in ("", "Z", "X")


class End:
    """The end of a process that may not be a child: the kernel tells of it."""

    def __init__(self, pid):
        try:
            self.fd = os.pidfd_open(pid)
        except ProcessLookupError:  # it has ended
            self.fd = -1

    def wait(self, seconds=60):
        if self.fd < 0:
            return
        ready, _, _ = select.select([self.fd], [], [], seconds)
        os.close(self.fd)
        self.fd = -1
        if not ready:
            raise AssertionError("the process did not end")


def repaired(fabric):
    """A handle that was altered, with the right check at its end."""
    value = 0xCBF29CE484222325
    for byte in fabric[:120]:
        value = ((value ^ byte) * 0x100000001B3) & (2**64 - 1)
    return fabric[:120] + value.to_bytes(8, "little")


LIBC = ctypes.CDLL(None, use_errno=True)


def checked(value, what):
    if value < 0:
        raise OSError(ctypes.get_errno(), what)
    return value


def link_messages(namespace):
    """A socket that gets a message for each change of a link in the namespace."""
    with open("/proc/self/ns/net") as own, open("/run/netns/" + namespace) as other:
        checked(LIBC.setns(other.fileno(), CLONE_NEWNET), "setns")
        try:
            messages = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)
        finally:
            checked(LIBC.setns(own.fileno(), CLONE_NEWNET), "setns")
    messages.bind((0, RTMGRP_LINK))
    return messages


def file_messages(folder):
    """A descriptor that gets a message when a file in the folder is made or written to."""
    fd = checked(LIBC.inotify_init1(os.O_CLOEXEC), "inotify_init1")
    checked(LIBC.inotify_add_watch(fd, folder.encode(), IN_MODIFY | IN_CREATE), "inotify_add_watch")
    return fd


class Machine:
    def __init__(self, net, index):
        self.net = net
        self.name = "%s%d-m%d" % (PREFIX, os.getpid(), index)
        self.address = "10.99.%d.%d" % (net.number, index + 1)
        self.folder = tempfile.mkdtemp(prefix="aclmem-m%d-" % index)
        self.inside = ["ip", "netns", "exec", self.name]
        ip("netns", "add", self.name)
        self.port = net.plug(self, index)
        ip("-n", self.name, "addr", "add", self.address + "/24", "dev", "eth0")
        ip("-n", self.name, "link", "set", "eth0", "up")
        ip("-n", self.name, "link", "set", "lo", "up")
        if self.port is not None:
            self.wait_for_link()

    def start(self, log=None, **options):
        """Starts a program; options are those of ACLMEM_..., and its standard error goes to the file `log`."""
        env = {k: v for k, v in os.environ.items() if not k.startswith(("ACLMEM_", "ASCEND_"))}
        env.update(
            ACLMEM_PRODUCT="A3",
            ACLMEM_MEMORY="1G",
            ACLMEM_RUNTIME_DIR=self.folder,
            ACLMEM_FABRIC=self.address,
            ACLMEM_FABRIC_KEY=self.net.key,
            ACLMEM_FABRIC_TIMEOUT="30",
            ACLMEM_EXPLAIN="0",
        )
        for name, value in options.items():
            if value is None:
                env.pop("ACLMEM_" + name, None)
            else:
                env["ACLMEM_" + name] = str(value)
        actor = Actor(self, self.net.program, env, log)
        self.net.actors.append(actor)
        return actor

    def helpers(self):
        """The ids of the fabric processes on this machine."""
        found = subprocess.run(
            ["ip", "netns", "pids", self.name], stdout=subprocess.PIPE, universal_newlines=True
        ).stdout.split()
        return [int(pid) for pid in found if name_of(int(pid)) == "aclmem-fabric"]

    def wait_for_no_helper(self):
        """Fabric processes end with their programs."""
        for _ in range(N_ENDS):
            helpers = self.helpers()
            if not helpers:
                return
            for helper in helpers:
                End(helper).wait()
        raise AssertionError("fabric processes begin again and again")

    def link(self, state):
        ip("-n", self.net.switch, "link", "set", self.port, state)
        if state == "up":
            self.wait_for_link()

    def wait_for_link(self):
        """The kernel tells programs, and the bridge, of a link that is up a second later at most."""
        for namespace, device in (self.name, "eth0"), (self.net.switch, self.port):
            show = ["ip", "-n", namespace, "link", "show", device]
            with link_messages(namespace) as messages:
                wait_for(messages.fileno(),
                         lambda: b"state UP" in subprocess.run(show, stdout=subprocess.PIPE).stdout, "the link")
        # A search for a neighbour that began while the link was down would still end as "no route to host".
        for machine in self.net.machines:
            ip("-n", machine.name, "neigh", "flush", "all")


class Net:
    def __init__(self, program, n, number=1):
        self.program = program
        self.number = number
        self.actors = []
        self.machines = []
        self.switch = "%s%d-switch" % (PREFIX, os.getpid())
        self.folder = tempfile.mkdtemp(prefix="aclmem-net-")
        self.key = self.make_key("key")
        atexit.register(self.close)
        ip("netns", "add", self.switch)
        ip("-n", self.switch, "link", "add", "br0", "type", "bridge")
        ip("-n", self.switch, "link", "set", "br0", "up")
        for i in range(n):
            self.machines.append(Machine(self, i))

    def plug(self, machine, index):
        """Gives a machine its eth0; returns the name of the other end, at the bridge."""
        port = "p%d" % index
        ip("-n", self.switch, "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", machine.name)
        ip("-n", self.switch, "link", "set", port, "master", "br0", "up")
        return port

    def make_key(self, name, mode=0o600, size=32):
        path = os.path.join(self.folder, name)
        with open(path, "wb") as file:
            file.write(secrets.token_bytes(size))
        os.chmod(path, mode)
        return path

    def end_actors(self):
        for actor in self.actors:
            if actor.process.poll() is None:
                actor.kill()
            elif not actor.process.stdout.closed:
                actor.close()
        self.actors = []
        for machine in self.machines:
            machine.wait_for_no_helper()

    def close(self):
        self.end_actors()
        for machine in self.machines:
            subprocess.run(["ip", "netns", "del", machine.name], stderr=subprocess.DEVNULL)
            shutil.rmtree(machine.folder, ignore_errors=True)
        self.machines = []
        subprocess.run(["ip", "netns", "del", self.switch], stderr=subprocess.DEVNULL)
        shutil.rmtree(self.folder, ignore_errors=True)
