#!/usr/bin/env python3
"""The seven steps: reserve addresses, allocate physical memory, map, use, unmap, free, release.

examples/seven_steps.c in Python; it prints the same.
"""
import sys

import acl

MB = 1 << 20
SIZE = 4 * MB  # two granules of 2 MB


def check(given):
    """The outputs of a call, without its code, which has to be 0."""
    *outputs, ret = given if isinstance(given, tuple) else (given,)
    if ret != 0:
        sys.exit("%d: %s" % (ret, acl.get_recent_err_msg()))
    return outputs[0] if len(outputs) == 1 else outputs


def free_memory():
    free, _ = check(acl.rt.get_mem_info(acl.ACL_HBM_MEM))
    return free


def main():
    # Memory of device 0 in pages of 2 MB; what is left out is 0.
    prop = {
        "memAttr": acl.ACL_HBM_MEM_HUGE,
        "location": {"id": 0, "type": acl.ACL_MEM_LOCATION_TYPE_DEVICE},
    }
    text = b"written through the device's address"
    back = bytearray(len(text))

    check(acl.init())
    check(acl.rt.set_device(0))
    granularity = check(acl.rt.mem_get_allocation_granularity(prop, acl.ACL_RT_MEM_ALLOC_GRANULARITY_MINIMUM))
    before = free_memory()
    print("%s, %d MB free, memory comes in multiples of %d MB"
          % (acl.get_soc_name(), before // MB, granularity // MB))

    addr = check(acl.rt.reserve_mem_address(SIZE, 0, 0, 1))
    print("1 reserve   %d MB of addresses at %#x, nothing behind them" % (SIZE // MB, addr))

    handle = check(acl.rt.malloc_physical(SIZE, prop, 0))
    print("2 allocate  %d MB of physical memory; the device has %d MB less"
          % (SIZE // MB, (before - free_memory()) // MB))

    check(acl.rt.map_mem(addr, SIZE, 0, handle, 0))
    print("3 map       the memory is behind the addresses")

    check(acl.rt.memcpy(addr, SIZE, acl.util.bytes_to_ptr(text), len(text), acl.ACL_MEMCPY_HOST_TO_DEVICE))
    check(acl.rt.memcpy(acl.util.bytes_to_ptr(back), len(back), addr, len(text), acl.ACL_MEMCPY_DEVICE_TO_HOST))
    print('4 use       "%s"' % back.decode())

    check(acl.rt.unmap_mem(addr))
    is_empty = acl.rt.memcpy(acl.util.bytes_to_ptr(back), 1, addr, 1, acl.ACL_MEMCPY_DEVICE_TO_HOST) != 0
    print("5 unmap     the addresses are empty again; a copy from them is refused:")
    print("            %s" % (acl.get_recent_err_msg() if is_empty else "(it was not)"))

    check(acl.rt.free_physical(handle))
    is_back = free_memory() == before
    print("6 free      the device has all its memory back: %s" % ("yes" if is_back else "no"))

    check(acl.rt.release_mem_address(addr))
    print("7 release   the addresses are gone too")

    check(acl.rt.reset_device(0))
    check(acl.finalize())
    return 0 if back == text and is_empty and is_back else 1


if __name__ == "__main__":
    sys.exit(main())
