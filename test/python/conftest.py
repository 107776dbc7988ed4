"""What all tests share: a runtime that is up, and that nothing is left when it is down."""
import atexit
import os
import shutil
import tempfile

import pytest

try:
    import acl
except ModuleNotFoundError:
    pytest.exit("there is no module acl: make it, then PYTHONPATH=build/python python3 -m pytest test/python", 4)

if "ACLMEM_RUNTIME_DIR" not in os.environ:  # by hand: others must not change what is free
    os.environ["ACLMEM_RUNTIME_DIR"] = tempfile.mkdtemp(prefix="aclmem-")
    atexit.register(shutil.rmtree, os.environ["ACLMEM_RUNTIME_DIR"], True)


class World:
    """A runtime with device 0 set, and things to call functions with.  What it made goes with the runtime."""

    MB = 1 << 20
    PROP = {"memAttr": acl.ACL_HBM_MEM_HUGE, "location": {"id": 0, "type": acl.ACL_MEM_LOCATION_TYPE_DEVICE}}

    def must(self, given):
        """The outputs of a call that has to succeed: nothing, one, or a tuple."""
        values = given if isinstance(given, tuple) else (given,)
        assert values[-1] == 0, acl.get_recent_err_msg()
        return values[0] if len(values) == 2 else values[:-1] or None

    def device_memory(self, size=1 << 16):
        return self.must(acl.rt.malloc(size, acl.ACL_MEM_MALLOC_HUGE_FIRST))

    def host_memory(self, size=1 << 16):
        return self.must(acl.rt.malloc_host(size))

    def stream(self):
        return self.must(acl.rt.create_stream())

    def event(self):
        return self.must(acl.rt.create_event())

    def handle(self):
        return self.must(acl.rt.malloc_physical(2 * self.MB, self.PROP, 0))

    def reserved(self, size=2 << 20):
        return self.must(acl.rt.reserve_mem_address(size, 0, None, 1))

    def mapped(self):
        address = self.reserved()
        self.must(acl.rt.map_mem(address, 2 * self.MB, 0, self.handle(), 0))
        return address

    def copied(self, address, size):
        """The bytes of device memory."""
        room = bytearray(size)
        self.must(acl.rt.memcpy(acl.util.bytes_to_ptr(room), size, address, size, acl.ACL_MEMCPY_DEVICE_TO_HOST))
        return bytes(room)

    def filled(self, address, data):
        at = acl.util.bytes_to_ptr(data)
        self.must(acl.rt.memcpy(address, len(data), at, len(data), acl.ACL_MEMCPY_HOST_TO_DEVICE))
        return address


@pytest.fixture
def world():
    assert acl.init() == 0, acl.get_recent_err_msg()
    assert acl.rt.set_device(0) == 0, acl.get_recent_err_msg()
    yield World()
    assert acl.finalize() in (0, acl.ACL_ERROR_REPEAT_FINALIZE, acl.ACL_ERROR_UNINITIALIZE)
    acl.get_recent_err_msg()
