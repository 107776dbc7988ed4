"""What client.c does, in Python: a block, and a copy to it and back."""
import acl

assert acl.init() == 0 and acl.rt.set_device(0) == 0
block, ret = acl.rt.malloc(4096, 0)
assert ret == 0, acl.get_recent_err_msg()
sent, back = b"written", bytearray(7)
assert acl.rt.memcpy(block, 4096, acl.util.bytes_to_ptr(sent), 7, acl.ACL_MEMCPY_HOST_TO_DEVICE) == 0
assert acl.rt.memcpy(acl.util.bytes_to_ptr(back), 7, block, 7, acl.ACL_MEMCPY_DEVICE_TO_HOST) == 0
assert acl.rt.free(block) == 0 and acl.rt.reset_device(0) == 0 and acl.finalize() == 0
print(back.decode())
