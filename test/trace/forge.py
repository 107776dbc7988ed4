"""Builds trace files that no layer writes, for tests of the commands that read them."""
import struct

HEADER, SLOT, HEAD = 4096, 65536, 64


def varint(value):
    out = b""
    while value >= 0x80:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def signed(value):
    return varint(((value << 1) ^ (value >> 63)) & (1 << 64) - 1)


def text(value):
    return varint(len(value)) + value


def record(kind, content):
    return struct.pack("<BH", kind, len(content)) + content


def function(number, name, signature):
    return record(2, varint(number) + b"r" + text(name) + text(signature))


def call(number, arguments=b"", outputs=b"", gap=1000, duration=100, empty=0, result=0):
    """A call without a stack; `empty` has a bit for each argument that is NULL."""
    return record(7, varint(number) + varint(gap) + varint(0) + varint(empty) + arguments
                  + varint(duration) + signed(result) + (outputs if result == 0 else b""))


def chunk(process, thread, number, began, content):
    """A slot with the records of one thread; thread 0 has the definitions of the process."""
    assert len(content) <= SLOT - HEAD
    head = struct.pack("<IIIIQQQQQQ", 0x6B636D61, 1, process, thread, number, began, len(content), 0, 0, 0)
    return (head + content).ljust(SLOT, b"\0")


def trace(chunks, began=1):
    header = b"aclmem trace\r\n\x1a\0" + struct.pack("<IIIIQQQQQ", 1, HEADER, SLOT, 1, len(chunks), began, 0, 0, 0)
    return header.ljust(HEADER, b"\0") + b"".join(chunks)
