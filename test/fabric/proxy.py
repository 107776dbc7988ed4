"""The control connections between importers and one exporter pass through here: proxy.py <address>

The proxy knows where a message ends and which message it is, and stops a connection at one of them.  It listens at a port
of its own, which it prints.  Orders come on standard input, one a line, and are answered with "ok":

    target PORT     the exporter's port at the same address
    hold NAME N     the Nth message of that name from now on is not passed on yet, and nothing else of its connection
    mute NAME       from the next message of that name on, nothing of its connection is passed on, and it stays open
    go              what was held is passed on
    gone            answered when every connection that was held or muted is closed by both sides

When a message is held or muted, "held" is printed.
"""
import selectors
import socket
import sys

FRAME_SIZE = 1024
FRAMES = {2: "worker", 3: "import", 4: "grant", 5: "release", 6: "echo", 7: "back", 8: "park"}
SHAKE = {"exporter": (("hello", 48), ("welcome", 136)), "importer": (("proof", 184),)}


class Side:
    """One end of a connection."""

    def __init__(self, connection, sock, name):
        self.connection, self.sock, self.name = connection, sock, name
        self.other = None
        self.n_messages = 0
        self.bytes = b""
        self.is_over = False

    def message(self):
        """The next whole message and its name, or None."""
        shake = SHAKE[self.name]
        name, size = shake[self.n_messages] if self.n_messages < len(shake) else (None, FRAME_SIZE)
        if len(self.bytes) < size:
            return None
        taken, self.bytes = self.bytes[:size], self.bytes[size:]
        self.n_messages += 1
        return name or FRAMES.get(int.from_bytes(taken[:4], "little"), "beat"), taken

    def send(self, taken):
        try:
            self.sock.sendall(taken)
        except OSError:  # the process has ended; its end is read, too
            pass

    def end(self):
        """This side has closed the connection, so the other one is told."""
        self.is_over = True
        try:
            self.other.sock.shutdown(socket.SHUT_WR)
        except OSError:
            pass


class Connection:
    def __init__(self, importer, exporter):
        self.sides = (Side(self, importer, "importer"), Side(self, exporter, "exporter"))
        self.sides[0].other, self.sides[1].other = self.sides[1], self.sides[0]
        self.is_muted = False


class Proxy:
    def __init__(self, address):
        self.address, self.port = address, 0
        self.listener = socket.create_server((address, 0))
        self.selector = selectors.DefaultSelector()
        self.selector.register(self.listener, selectors.EVENT_READ, self.accept)
        self.selector.register(sys.stdin, selectors.EVENT_READ, self.order)
        self.wanted, self.n_wanted, self.is_mute = None, 0, False
        self.held = None  # the side, and its message
        self.stopped = []  # connections that were held or muted, and are not closed
        self.is_asked = False  # whether they are
        self.report(self.listener.getsockname()[1])

    def report(self, what):
        print(what, flush=True)

    def accept(self):
        importer, _ = self.listener.accept()
        try:
            exporter = socket.create_connection((self.address, self.port))
        except OSError:
            importer.close()
            return
        connection = Connection(importer, exporter)
        for side in connection.sides:
            self.selector.register(side.sock, selectors.EVENT_READ, lambda side=side: self.read(side))

    def read(self, side):
        try:
            came = side.sock.recv(65536)
        except OSError:
            came = b""
        if not came:
            self.selector.unregister(side.sock)
            side.end()
            self.close(side.connection)
        elif not side.connection.is_muted:
            side.bytes += came
            self.pass_on(side)

    def pass_on(self, side):
        while not side.connection.is_muted and (found := side.message()) is not None:
            name, taken = found
            self.n_wanted -= name == self.wanted
            if name == self.wanted and self.n_wanted == 0:
                self.stop(side, taken)
                return
            side.other.send(taken)

    def stop(self, side, taken):
        self.wanted = None
        self.stopped.append(side.connection)
        if self.is_mute:
            side.connection.is_muted = True
        else:
            self.held = side, taken
            for end in side.connection.sides:
                if not end.is_over:
                    self.selector.unregister(end.sock)
        self.report("held")

    def go(self):
        side, taken = self.held
        self.held = None
        side.other.send(taken)
        for end in side.connection.sides:
            self.pass_on(end)
            if not end.is_over:
                self.selector.register(end.sock, selectors.EVENT_READ, lambda end=end: self.read(end))

    def close(self, connection):
        if not all(side.is_over for side in connection.sides):
            return
        for side in connection.sides:
            side.sock.close()
        if connection in self.stopped:
            self.stopped.remove(connection)
        self.answer_gone()

    def answer_gone(self):
        if self.is_asked and not self.stopped:
            self.is_asked = False
            self.report("ok")

    def order(self):
        words = sys.stdin.readline().split()
        if not words:
            sys.exit(0)
        if words[0] == "gone":
            self.is_asked = True
            self.answer_gone()
            return
        if words[0] == "target":
            self.port = int(words[1])
        elif words[0] == "go":
            self.go()
        else:
            self.wanted, self.n_wanted = words[1], int((words + ["1"])[2])
            self.is_mute = words[0] == "mute"
        self.report("ok")

    def run(self):
        while True:
            for key, _ in self.selector.select():
                if key.fileobj in self.selector.get_map():  # another one may have ended it
                    key.data()


if __name__ == "__main__":
    Proxy(sys.argv[1]).run()
