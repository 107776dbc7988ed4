"""The other process of test_share.py: does what it is told, a line of JSON at a time, and answers with one.

A line is [name, arguments]: a function of this file, or one of acl.  The answer is what it gave.
"""
import json
import os
import sys

import acl


def start(device):
    return [acl.init(), acl.rt.set_device(device), os.getpid(), acl.rt.device_get_bare_tgid()]


def mapped(handle, size):
    """The address at which a handle's memory is, and the code."""
    address, ret = acl.rt.reserve_mem_address(size, 0, 0, 1)
    return [address, ret or acl.rt.map_mem(address, size, 0, handle, 0)]


def read(address, size):
    room = bytearray(size)
    ret = acl.rt.memcpy(acl.util.bytes_to_ptr(room), size, address, size, acl.ACL_MEMCPY_DEVICE_TO_HOST)
    return [room.decode("latin-1"), ret]


def write(address, text):
    data = text.encode("latin-1")
    return acl.rt.memcpy(address, len(data), acl.util.bytes_to_ptr(data), len(data), acl.ACL_MEMCPY_HOST_TO_DEVICE)


def opened_event(text):
    """An event by its handle, whose bytes JSON does not know."""
    return acl.rt.ipc_open_event_handle({"reserved": text.encode("latin-1")})


def function(name):
    if name in globals():
        return globals()[name]
    found = acl
    for part in name.split("."):
        found = getattr(found, part)
    return found


if __name__ == "__main__":
    for line in sys.stdin:
        name, arguments = json.loads(line)
        print(json.dumps(function(name)(*arguments)), flush=True)
