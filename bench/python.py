#!/usr/bin/env python3
"""What a call costs from Python, beside ctypes on the same function:  python.py LIBRARY NATIVE [--strict]

The module, ctypes and the same calls from C (bench/python_native.c) are measured in turn, round after round in
one process, in this thread's own time; of each one's rounds the first quartile counts, since others only ever
add.  The cost is what remains when the calls from C are taken off.  ctypes is used as it should be: with
argtypes, and with outputs that are made once.  A missed budget is reported; with --strict it fails the program.
"""
import ctypes
import sys
import time

import acl

ROUNDS = 41
CALLS = 20000
BUDGET = 1 / 5  # of what it costs through ctypes
MB = 1 << 20

if len(sys.argv) < 3:
    sys.exit(__doc__)
library = ctypes.CDLL(sys.argv[1])
native = ctypes.PyDLL(sys.argv[2])
address, size, i32 = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int32
library.aclrtGetDevice.argtypes = [ctypes.POINTER(i32)]
library.aclrtSetCurrentContext.argtypes = [address]
library.aclrtMapMem.argtypes = [address, size, size, address, ctypes.c_uint64]
library.aclrtUnmapMem.argtypes = [address]
library.aclrtMalloc.argtypes = [ctypes.POINTER(address), size, i32]
library.aclrtFree.argtypes = [address]


def must(given):
    """The output of a call that has to succeed."""
    *outputs, ret = given if isinstance(given, tuple) else (given,)
    if ret != 0:
        sys.exit(acl.get_recent_err_msg())
    return outputs[0] if outputs else None


def subjects():
    """(what, through the module, through ctypes, from C): functions that do it n times."""
    context = must(acl.rt.get_context())
    prop = {"memAttr": acl.ACL_HBM_MEM_HUGE, "location": {"id": 0, "type": acl.ACL_MEM_LOCATION_TYPE_DEVICE}}
    handle = must(acl.rt.malloc_physical(2 * MB, prop, 0))
    range_ = must(acl.rt.reserve_mem_address(2 * MB, 0, 0, 1))

    def device_module(n, get_device=acl.rt.get_device):
        for _ in range(n):
            device, ret = get_device()

    def device_ctypes(n, get_device=library.aclrtGetDevice):
        device = i32()
        at = ctypes.byref(device)
        for _ in range(n):
            ret = get_device(at)
            device.value

    def context_module(n, set_context=acl.rt.set_context):
        for _ in range(n):
            ret = set_context(context)

    def context_ctypes(n, set_context=library.aclrtSetCurrentContext):
        for _ in range(n):
            ret = set_context(context)

    def map_module(n, map_mem=acl.rt.map_mem, unmap_mem=acl.rt.unmap_mem):
        for _ in range(n):
            map_mem(range_, 2 * MB, 0, handle, 0)
            unmap_mem(range_)

    def map_ctypes(n, map_mem=library.aclrtMapMem, unmap_mem=library.aclrtUnmapMem):
        for _ in range(n):
            map_mem(range_, 2 * MB, 0, handle, 0)
            unmap_mem(range_)

    def malloc_module(n, malloc=acl.rt.malloc, free=acl.rt.free):
        for _ in range(n):
            block, ret = malloc(4096, 0)
            free(block)

    def malloc_ctypes(n, malloc=library.aclrtMalloc, free=library.aclrtFree):
        block = address()
        at = ctypes.byref(block)
        for _ in range(n):
            ret = malloc(at, 4096, 0)
            free(block)

    yield ("get_device", device_module, device_ctypes, lambda n: native.native_get_device(size(n)))
    yield ("set_context", context_module, context_ctypes,
           lambda n: native.native_set_context(size(n), address(context)))
    yield ("map_mem and unmap_mem", map_module, map_ctypes,
           lambda n: native.native_map(size(n), address(range_), size(2 * MB), address(handle)))
    yield ("malloc and free", malloc_module, malloc_ctypes, lambda n: native.native_malloc(size(n)))


def empty(n):
    for _ in range(n):
        pass


def measure(functions):
    """ns of one time of each."""
    times = [[] for _ in functions]
    for number in range(ROUNDS):
        order = range(len(functions)) if number % 2 else reversed(range(len(functions)))
        for i in order:
            begin = time.thread_time_ns()
            functions[i](CALLS)
            times[i].append((time.thread_time_ns() - begin) / CALLS)
    return [sorted(t)[ROUNDS // 4] for t in times]


def main(arguments):
    must(acl.init())
    must(acl.rt.set_device(0))
    print("\na call from Python; limit: ctypes; both without the call itself, and without Python's loop")
    n_missed = 0
    for what, through_module, through_ctypes, from_c in subjects():
        ours, limit, call, loop = measure([through_module, through_ctypes, from_c, empty])
        ours, limit = ours - call - loop, limit - call - loop
        is_kept = ours <= BUDGET * limit
        n_missed += not is_kept
        print("  %-56s %8.1f ns %8.1f ns %7.2f  <= %.2f  %s" % (what, ours, limit, ours / limit, BUDGET,
                                                              "ok" if is_kept else "MISS"))
    must(acl.finalize())
    return 1 if n_missed and "--strict" in arguments else 0


sys.exit(main(sys.argv[3:]))
