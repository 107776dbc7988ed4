"""Reads pinned memory that a queued copy writes, and goes on."""
import acl
import ctypes

acl.init()
acl.rt.set_device(0)
stream, _ = acl.rt.create_stream()
device, _ = acl.rt.malloc(8192, 0)
host, _ = acl.rt.malloc_host(8192)
acl.rt.memset(device, 8192, 1, 8192)
acl.rt.memcpy_async(host, 8192, device, 8192, 2, stream)
ctypes.string_at(host, 16)
acl.rt.synchronize_stream(stream)
assert ctypes.string_at(host, 16) == b"\1" * 16
acl.rt.free_host(host)
acl.rt.free(device)
acl.rt.destroy_stream(stream)
acl.rt.reset_device(0)
acl.finalize()
