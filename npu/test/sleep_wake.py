"""Sleep and wake: weights are in memory of sleep_allocator.c, which is returned to the device and comes back at the same
addresses.

    sleep_wake.py LIBRARY pool|current
"""
import ctypes
import sys

import torch

import aclmem.npu
from aclmem.npu import acl

H2D, D2H = 1, 2


class Sleeper:
    def __init__(self, library):
        self.library, self.saved = library, {}

    def blocks(self):
        for i in range(4096):
            address = ctypes.c_void_p()
            self.library.block_at.restype = ctypes.c_size_t
            size = self.library.block_at(i, ctypes.byref(address))
            if size:
                yield address.value, size

    def sleep(self):
        torch.npu.synchronize()
        for address, size in list(self.blocks()):
            self.saved[address] = host = torch.empty(size, dtype=torch.uint8).pin_memory()
            acl.call("aclrtMemcpy", ctypes.c_void_p(host.data_ptr()), size, ctypes.c_void_p(address), size, ctypes.c_int(D2H))
            assert self.library.unmap_and_release(ctypes.c_void_p(address)) == 0

    def wake(self):
        for address, host in self.saved.items():
            assert self.library.create_and_map(ctypes.c_void_p(address)) == 0
            acl.call("aclrtMemcpy", ctypes.c_void_p(address), host.numel(), ctypes.c_void_p(host.data_ptr()), host.numel(),
                     ctypes.c_int(H2D))
        self.saved.clear()


def main(path, mode):
    library = ctypes.CDLL(path)
    allocator = torch.npu.memory.NPUPluggableAllocator(path, "my_malloc", "my_free")
    sleeper = Sleeper(library)
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(512, 2048), torch.nn.ReLU(), torch.nn.Linear(2048, 512))
    x = torch.randn(4, 512)
    if mode == "pool":
        pool = torch.npu.MemPool(allocator._allocator)
        with torch.npu.use_mem_pool(pool):
            model = model.to("npu")
    else:
        torch.npu.change_current_allocator(allocator)
        model = model.to("npu")
    x = x.to("npu")
    before = model(x).cpu()
    addresses = [p.data_ptr() for p in model.parameters()]
    for _ in range(3):
        awake = torch.npu.mem_get_info()[0]
        sleeper.sleep()
        asleep = torch.npu.mem_get_info()[0]
        assert asleep - awake >= 8 << 20, (awake, asleep)
        sleeper.wake()
        assert torch.equal(model(x).cpu(), before)
    assert addresses == [p.data_ptr() for p in model.parameters()]
    n = ctypes.c_int.in_dll(library, "n_allocs").value
    assert (n < 6) if mode == "pool" else (n > 6), n
    del model, before  # the result holds the graph of autograd
    pool = None
    torch.npu.empty_cache()
    print("good")


if __name__ == "__main__":
    main(*sys.argv[1:])
