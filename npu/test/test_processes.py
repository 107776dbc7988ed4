"""Fork, workers of DataLoader, threads of autograd, tensors in other processes, long runs."""
import os
import threading

import pytest
import torch
import torch.multiprocessing as mp

import aclmem.npu  # noqa: F401
from conftest import SCALE


def in_a_fork(function):
    """The exit code of a forked child that runs the function."""
    child = os.fork()
    if child == 0:
        try:
            function()
            os._exit(0)
        except BaseException as error:
            print("child: %s" % error, flush=True)
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_a_forked_child_cannot_use_the_device(npu):
    tensor = torch.ones(3, device="npu")

    def child():
        assert not npu.is_initialized() and npu._is_in_bad_fork()
        assert (torch.ones(3) + 1).sum() == 6  # the CPU works
        for use in (lambda: torch.ones(3, device="npu"), lambda: npu.synchronize(), lambda: npu.current_device()):
            with pytest.raises(RuntimeError, match="Cannot re-initialize NPU in forked subprocess"):
                use()

    assert in_a_fork(child) == 0
    assert tensor.sum().item() == 3


def test_a_child_forked_before_initialisation_uses_the_device():
    from test_devices import python

    assert python(
        "import os, torch, aclmem.npu\n"
        "child = os.fork()\n"
        "assert torch.ones(3, device='npu').sum().item() == 3\n"
        "if child == 0: os._exit(0)\n"
        "print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n") == "0\n"


class Numbers(torch.utils.data.Dataset):
    def __len__(self):
        return 32

    def __getitem__(self, i):
        return torch.full((8,), float(i))


def test_workers_of_a_loader_pin_memory(npu):
    torch.ones(1, device="npu")
    loader = torch.utils.data.DataLoader(Numbers(), batch_size=4, num_workers=2, pin_memory=True, pin_memory_device="npu")
    total = torch.zeros((), device="npu")
    for batch in loader:
        assert batch.is_pinned()
        total += batch.to("npu", non_blocking=True).sum()
    assert total.item() == 8 * sum(range(32))


def test_threads_of_autograd_give_one_result(npu):
    weight = torch.ones(16, 16, device="npu")
    results = {}

    def work(i):
        with npu.stream(npu.Stream()):
            npu.current_stream().wait_stream(npu.default_stream())
            w = weight.clone().requires_grad_()
            for _ in range(5):
                ((w * (i + 1)) @ w).sum().backward()
            results[i] = w.grad.sum().item()

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {i: 5 * (i + 1) * 2 * 16 * 256 for i in range(4)}


def test_backward_runs_on_the_stream_of_the_forward(npu):
    side = npu.Stream()
    x = torch.randn(8, 8, device="npu", requires_grad=True)
    expected = (2 * x.detach().cpu())
    side.wait_stream(npu.current_stream())
    with npu.stream(side):
        loss = x.square().sum()
    npu.current_stream().wait_stream(side)
    loss.backward()
    assert torch.allclose(x.grad.cpu(), expected)


def double_in_place(queue, done):
    tensor = queue.get()
    tensor.mul_(2)
    torch.npu.synchronize()
    done.put(("changed", float(tensor.sum()), str(tensor.device)))
    del tensor


def test_a_tensor_is_shared_with_another_process(npu):
    """The receiver changes the memory of the sender."""
    context = mp.get_context("spawn")
    queue, done = context.Queue(), context.Queue()
    tensor = torch.arange(1024.0, device="npu")[24:]
    npu._sleep(1_000_000)
    tensor += 1  # the receiver waits for it
    worker = context.Process(target=double_in_place, args=(queue, done))
    worker.start()
    queue.put(tensor)
    word, total, device = done.get(timeout=120)
    worker.join(60)
    assert (word, device) == ("changed", "npu:0") and total == 2 * sum(i + 1 for i in range(24, 1024))
    assert tensor.sum().item() == total
    assert npu.ipc_collect()


def test_the_forms_of_sharing_are_torch_npus(npu):
    from torch.multiprocessing.reductions import reduce_tensor

    function, arguments = reduce_tensor(torch.ones(4, device="npu"))
    assert function.__name__ == "rebuild_npu_tensor" and len(arguments) == 15 and arguments[6] == 0
    shared = torch.ones(4, device="npu").untyped_storage()._share_npu_()
    assert len(shared) == 8 and shared[1][:2] == b"\x01c" and len(shared[6]) == 64
    with pytest.raises(RuntimeError, match="Cannot pickle NPU storage"):
        mp.reductions.reduce_storage(torch.ones(4, device="npu").untyped_storage())
    with pytest.raises(RuntimeError, match="Cowardly refusing"):
        reduce_tensor(torch.ones(4, device="npu", requires_grad=True) * 2)
    assert reduce_tensor(torch.ones(2))[0].__name__ == "rebuild_tensor"


def resident():
    return int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGESIZE")


def test_a_million_operators_need_no_more_memory_than_a_tenth_of_them(npu):
    n = int(1_000_000 * SCALE)
    x = torch.zeros(64, device="npu")

    def work(count):
        for _ in range(count // 2):
            x.add_(1)
            x.mul(0.5)
        npu.synchronize()

    work(n // 10)
    before, allocated, segments = resident(), npu.memory_allocated(), len(npu.memory_snapshot())
    work(n - n // 10)
    assert npu.memory_allocated() == allocated and len(npu.memory_snapshot()) == segments
    assert resident() - before < 8 << 20
    assert x[0].item() == n // 2 if n // 2 < 1 << 24 else True


def test_a_growing_cache_of_inferences_is_bounded(npu):
    npu._C.set_inference_cache(64)
    try:
        for i in range(500):
            torch.ones(i + 1, device="npu").add_(1)
        npu.synchronize()
        before = resident()
        for i in range(500, 3000):
            torch.ones(i + 1, device="npu").add_(1)
        npu.synchronize()
        assert resident() - before < 16 << 20
    finally:
        npu._C.set_inference_cache(65536)


def test_a_deep_queue_blocks_and_ends(npu):
    x = torch.zeros(4, device="npu")
    npu._sleep(50_000_000)
    for _ in range(20000):
        x.add_(1)
    assert x.tolist() == [20000] * 4
