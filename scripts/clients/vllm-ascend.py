"""Allocate, sleep, wake and free with vllm-ascend's allocator: vllm-ascend.py <vllm_ascend_C.so>

The allocator tells two callbacks of its allocations; they stand in for vllm-ascend's own Python side."""
import ctypes
import sys

import acl
import vllm_ascend_C

SIZE = 64 << 20
records = {}


def on_malloc(record):
    records[record[2]] = record


def on_free(address):
    return records.pop(address)


def free_bytes():
    free, _, ret = acl.rt.get_mem_info(acl.ACL_HBM_MEM)
    assert ret == 0, acl.get_recent_err_msg()
    return free


def main(library):
    assert acl.init() == 0 and acl.rt.set_device(0) == 0
    allocator = ctypes.PyDLL(library)  # its functions call Python
    allocator.my_malloc.restype = ctypes.c_void_p
    allocator.my_malloc.argtypes = [ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p]
    allocator.my_free.argtypes = [ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p]
    vllm_ascend_C.init_module(on_malloc, on_free)

    before = free_bytes()
    address = allocator.my_malloc(SIZE, 0, None)
    assert address in records and free_bytes() == before - SIZE
    vllm_ascend_C.python_unmap_and_release(*records[address])
    assert free_bytes() == before, "the memory is back while it sleeps"
    vllm_ascend_C.python_create_and_map(*records[address])
    ret = acl.rt.memset(address, SIZE, 0, SIZE)
    assert ret == 0, "the memory is at the same address: %s" % acl.get_recent_err_msg()
    allocator.my_free(address, SIZE, 0, None)
    assert not records and free_bytes() == before
    print("vllm-ascend: allocated, slept, woke at the same address, freed")


if __name__ == "__main__":
    main(sys.argv[1])
