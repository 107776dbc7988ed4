"""An importer of its own, which speaks the fabric's protocol (src/fabric/frame.h) and has no UCX.

Started in a namespace: importer.py <key file> <handle> <count>.  So many importers connect to the exporter and import the
memory.  Then it says "imported", and waits for the end of its input.
"""
import hashlib
import hmac
import secrets
import socket
import struct
import sys

MAGIC, FRAME, MAC = b"aclmemL\0", 1024, 32
WORKER, IMPORT, GRANT = 2, 3, 4
CLIENT, SERVER, SESSION = (
    b"aclmem fabric: proof of the importer\0",
    b"aclmem fabric: proof of the exporter\0",
    b"aclmem fabric: session\0",
)


def code(key, text):
    return hmac.new(key, text, hashlib.sha256).digest()


def received(connection, size):
    message = connection.recv(size, socket.MSG_WAITALL)
    if len(message) != size:
        raise EOFError("the exporter closed the connection")
    return message


class Importer:
    def __init__(self, key, handle, pid):
        address, port = socket.inet_ntoa(handle[56:60]), int.from_bytes(handle[50:52], "little")
        self.connection = socket.create_connection((address, port))
        hello = received(self.connection, 48)
        nonce = secrets.token_bytes(32)
        who = bytes(16) + secrets.token_bytes(16) + b"python".ljust(64, b"\0") + struct.pack("<iI", pid, 0)
        proof = MAGIC + hello[8:16] + nonce + who  # of the same version
        proof += code(code(key, CLIENT), hello + proof)
        self.connection.sendall(proof)
        welcome = received(self.connection, 136)
        if code(code(key, SERVER), hello + proof + welcome[:-MAC]) != welcome[-MAC:]:
            raise ValueError("the exporter does not have the key")
        self.keys = [code(code(key, SESSION), bytes([server]) + hello[16:] + nonce) for server in (0, 1)]
        self.n_sent = self.n_received = 0

    def send(self, kind, content):
        frame = (struct.pack("<IIQ", kind, 0, self.n_sent) + content).ljust(FRAME - MAC, b"\0")
        self.connection.sendall(frame + code(self.keys[0], frame))
        self.n_sent += 1

    def receive(self, kind):
        """The content of the next frame of the kind."""
        while True:
            frame = received(self.connection, FRAME)
            if code(self.keys[1], frame[:-MAC]) != frame[-MAC:] or frame[8:16] != struct.pack("<Q", self.n_received):
                raise ValueError("a frame that the exporter did not send")
            self.n_received += 1
            if frame[:4] == struct.pack("<I", kind):
                return frame[16:-MAC]

    def take(self, handle):
        """Imports the memory: its size."""
        self.send(IMPORT, struct.pack("<Q", 1) + handle[24:48] + bytes(4))
        grant = self.receive(GRANT)
        status, size = struct.unpack("<i", grant[8:12])[0], struct.unpack("<Q", grant[24:32])[0]
        if status != 0:
            raise PermissionError("the exporter answers %d" % status)
        return size


if __name__ == "__main__":
    with open(sys.argv[1], "rb") as file:
        cluster_key = file.read()
    fabric = bytes.fromhex(sys.argv[2])
    importers = [Importer(cluster_key, fabric, i + 1) for i in range(int(sys.argv[3]))]
    print("imported", sum(importer.take(fabric) for importer in importers), flush=True)
    sys.stdin.read()
