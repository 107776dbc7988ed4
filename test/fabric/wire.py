"""A bad wire between two machines: tun devices, and this process between them.  Started by test_link.py: wire.py <seed>

Orders come on standard input, one a line, and are answered with "ok" or a reason:

    plug NAMESPACE            makes eth0 in the namespace; two namespaces can be plugged
    set DROP DOUBLE FLIP MS   packets of a thousand that are lost, doubled, or have one bit changed; every packet waits a
                              random time of at most MS milliseconds, so packets overtake each other
    mute INDEX                the first (0) or the second (1) machine is not heard any more; -1: both are heard

All choices come from the seed.
"""
import ctypes
import fcntl
import heapq
import os
import random
import select
import struct
import sys
import time

CLONE_NEWNET, TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x40000000, 0x400454CA, 0x0001, 0x1000
PACKET_MAX, N_QUEUED = 65536, 4096


def tun_make(namespace):
    libc = ctypes.CDLL(None, use_errno=True)
    with open("/run/netns/" + namespace) as file:
        if libc.setns(file.fileno(), CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), "setns")
    fd = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(fd, TUNSETIFF, struct.pack("16sH22x", b"eth0", IFF_TUN | IFF_NO_PI))
    return fd


class Wire:
    def __init__(self, seed):
        self.dice = random.Random(seed)
        self.ends = []
        self.queue = []  # (time, number, end, packet)
        self.n = 0
        self.drop = self.double = self.flip = self.ms = 0
        self.muted = -1

    def order(self, words):
        if words[0] == "plug":
            self.ends.append(tun_make(words[1]))
        elif words[0] == "set":
            self.drop, self.double, self.flip, self.ms = (int(word) for word in words[1:])
        elif words[0] == "mute":
            self.muted = int(words[1])

    def take(self, index):
        """A packet of one end."""
        packet = os.read(self.ends[index], PACKET_MAX)
        chance = self.dice.randrange
        if len(self.ends) < 2 or index == self.muted or chance(1000) < self.drop or len(self.queue) > N_QUEUED:
            return
        if chance(1000) < self.flip:
            changed = bytearray(packet)
            changed[chance(len(packet))] ^= 1 << chance(8)
            packet = bytes(changed)
        for _ in range(2 if chance(1000) < self.double else 1):
            self.n += 1
            due = time.monotonic() + self.dice.random() * self.ms / 1000
            heapq.heappush(self.queue, (due, self.n, self.ends[1 - index], packet))

    def pass_on(self):
        while self.queue and self.queue[0][0] <= time.monotonic():
            _, _, end, packet = heapq.heappop(self.queue)
            try:
                os.write(end, packet)
            except OSError:  # a changed header is no packet, or the device is down: it is lost
                pass

    def run(self):
        while True:
            wait = max(0, self.queue[0][0] - time.monotonic()) if self.queue else None
            ready, _, _ = select.select(self.ends + [0], [], [], wait)
            for index, end in enumerate(self.ends):
                if end in ready:
                    try:
                        self.take(index)
                    except OSError:  # the device is not up yet
                        pass
            if 0 in ready:
                line = sys.stdin.readline()
                if not line:
                    return
                try:
                    self.order(line.split())
                    print("ok", flush=True)
                except OSError as error:
                    print(error, flush=True)
            self.pass_on()


if __name__ == "__main__":
    Wire(int(sys.argv[1])).run()
