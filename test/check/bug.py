"""A Python program with a leak and a double free, for test_python.py."""
import acl


def take_block():
    block, ret = acl.rt.malloc(1000, acl.ACL_MEM_MALLOC_HUGE_FIRST)
    assert ret == 0
    return block


def free_twice(block):
    acl.rt.free(block)
    acl.rt.free(block)


acl.init()
acl.rt.set_device(0)
free_twice(take_block())
take_block()
acl.rt.reset_device(0)
acl.finalize()
