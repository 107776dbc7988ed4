"""Programs with one mistake each, and the same programs without it:  mistakes.py wrong|right [NAME...]

Each function has a flag.  Where it is false, the function makes the mistake of its name.
"""
import sys

import torch

import aclmem.npu
from aclmem.npu import _C

npu = torch.npu
N = 4096
MISTAKES = {}


def mistake(kind, group):
    """`kind` is what the layer check reports."""
    def decorate(function):
        MISTAKES[function.__name__] = (kind, group, function)
        return function

    return decorate


def ones(value=1.0):
    return torch.full((64, 64), float(value), device="npu")


# ---- synchronisation ----


@mistake("race", "synchronisation")
def result_of_a_side_stream_is_read_without_wait(is_right):
    side, x = npu.Stream(), ones()
    side.wait_stream(npu.current_stream())
    with npu.stream(side):
        x.mul_(2)
    if is_right:
        npu.current_stream().wait_stream(side)
    x.sum()


@mistake("race", "synchronisation")
def side_stream_reads_before_the_main_stream_wrote(is_right):
    side, x = npu.Stream(), ones()
    x.add_(1)
    if is_right:
        side.wait_stream(npu.current_stream())
    with npu.stream(side):
        y = x + 1
    y.record_stream(npu.current_stream())
    x.record_stream(side)


@mistake("race", "synchronisation")
def event_is_recorded_before_the_work(is_right):
    side, event, x = npu.Stream(), npu.Event(), ones()
    side.wait_stream(npu.current_stream())
    with npu.stream(side):
        if not is_right:
            event.record()
        x.mul_(2)
        if is_right:
            event.record()
    npu.current_stream().wait_event(event)
    x.sum()


@mistake("race", "synchronisation")
def wait_for_an_event_that_was_never_recorded(is_right):
    side, event, x = npu.Stream(), npu.Event(), ones()
    side.wait_stream(npu.current_stream())
    with npu.stream(side):
        x.mul_(2)
        if is_right:
            event.record()
    event.wait()
    x.sum()


@mistake("race", "synchronisation")
def input_is_changed_while_a_side_stream_reads_it(is_right):
    side, x = npu.Stream(), ones()
    side.wait_stream(npu.current_stream())
    with npu.stream(side):
        y = x + 1
    if is_right:
        npu.current_stream().wait_stream(side)
    x.zero_()
    y.record_stream(side)


@mistake("race", "synchronisation")
def two_streams_write_one_tensor(is_right):
    side, x = npu.Stream(), ones()
    side.wait_stream(npu.current_stream())
    with npu.stream(side):
        x.fill_(3)
    if is_right:
        npu.current_stream().wait_stream(side)
    x.fill_(4)


@mistake("race", "synchronisation")
def another_stream_waits(is_right):
    side, third, x = npu.Stream(), npu.Stream(), ones()
    side.wait_stream(npu.current_stream())
    with npu.stream(side):
        x.mul_(2)
        event = side.record_event()
    (npu.current_stream() if is_right else third).wait_event(event)
    x.sum()


@mistake("race", "synchronisation")
def halves_of_a_tensor_overlap_by_a_row(is_right):
    """The right program has halves of columns, whose extents overlap and whose elements do not."""
    side, x = npu.Stream(), ones()
    side.wait_stream(npu.current_stream())
    left, right = (x[:, :32], x[:, 32:]) if is_right else (x[:33], x[32:])
    with npu.stream(side):
        left.mul_(2)
    right.mul_(3)
    npu.current_stream().wait_stream(side)


@mistake("race", "synchronisation")
def every_other_element_is_written_twice(is_right):
    """The right program interleaves the elements of one tensor."""
    side, x = npu.Stream(), torch.zeros(N, device="npu")
    side.wait_stream(npu.current_stream())
    with npu.stream(side):
        x[::2].fill_(1)
    x[1::2].fill_(2) if is_right else x[::4].fill_(2)
    npu.current_stream().wait_stream(side)


@mistake("race", "synchronisation")
def copy_to_the_device_is_used_too_early(is_right):
    side, host = npu.Stream(), torch.ones(N).pin_memory()
    side.wait_stream(npu.current_stream())
    x = torch.zeros(N, device="npu")
    side.wait_stream(npu.current_stream())
    with npu.stream(side):
        x.copy_(host, non_blocking=True)
    if is_right:
        npu.current_stream().wait_stream(side)
    x.sum()
    npu.synchronize()


@mistake("race", "synchronisation")
def gradient_is_read_on_another_stream(is_right):
    side, w = npu.Stream(), ones().requires_grad_()
    (w * 3).sum().backward()
    if is_right:
        side.wait_stream(npu.current_stream())
    with npu.stream(side):
        norm = w.grad.square()
    norm.record_stream(side)
    w.grad.record_stream(side)
    npu.synchronize()


@mistake("race", "synchronisation")
def update_of_a_weight_meets_the_next_forward(is_right):
    side, weight, x = npu.Stream(), ones(), ones(2)
    side.wait_stream(npu.current_stream())
    y = x @ weight
    if is_right:
        side.wait_stream(npu.current_stream())
    with npu.stream(side):
        weight.sub_(0.1)
    npu.synchronize()
    del y


@mistake("race", "synchronisation")
def chain_of_waits_lacks_a_link(is_right):
    one, two, x = npu.Stream(), npu.Stream(), ones()
    one.wait_stream(npu.current_stream())
    with npu.stream(one):
        x.mul_(2)
    two.wait_stream(one if is_right else npu.current_stream())
    with npu.stream(two):
        npu.current_stream()
    npu.current_stream().wait_stream(two)
    x.sum()


# ---- lifetime ----


@mistake("race", "lifetime")
def block_is_reused_while_a_side_stream_reads_it(is_right):
    side, x = npu.Stream(), torch.ones(3 << 18, device="npu")
    side.wait_stream(npu.current_stream())
    with npu.stream(side):
        y = x + 1
    if is_right:
        x.record_stream(side)
    del x
    z = torch.zeros(3 << 18, device="npu")
    npu.synchronize()
    del y, z


@mistake("race", "lifetime")
def temporary_of_a_side_stream_is_used_by_the_main_stream(is_right):
    side = npu.Stream()
    with npu.stream(side):
        x = torch.ones(3 << 18, device="npu")
    npu.current_stream().wait_stream(side)
    y = x + 1
    if is_right:
        x.record_stream(npu.current_stream())
    del x
    with npu.stream(side):
        z = torch.zeros(3 << 18, device="npu")
    npu.synchronize()
    del y, z


@mistake("race", "lifetime")
def raw_block_is_freed_under_queued_work(is_right):
    side = npu.Stream()
    address = npu.caching_allocator_alloc(3 << 20)
    x = _C.tensor_from_address(address, [3 << 18], [1], torch.float32, 0, None)
    side.wait_stream(npu.current_stream())
    with npu.stream(side):
        x.zero_()
    if is_right:
        npu.current_stream().wait_stream(side)
    npu.caching_allocator_delete(address)
    y = torch.ones(3 << 18, device="npu")
    npu.synchronize()
    del y


@mistake("race", "lifetime")
def weak_reference_is_used_after_the_tensor(is_right):
    """The memory of the tensor has another owner, on another stream."""
    side = npu.Stream()
    x = torch.ones(3 << 18, device="npu")
    weak = _C.weak_ref_tensor(x)
    side.wait_stream(npu.current_stream())
    if not is_right:
        del x
        other = torch.zeros(3 << 18, device="npu")
    with npu.stream(side):
        y = weak + 1
    npu.synchronize()
    del y
    other = x = None


@mistake("free-in-use", "lifetime")
def memory_is_freed_while_an_operator_uses_it(is_right):
    from aclmem.npu import acl

    address = acl.create("aclrtMalloc", 4 << 20, __import__("ctypes").c_int(0))
    x = _C.tensor_from_address(address, [1 << 20], [1], torch.float32, 0, None)
    side, gate = npu.Stream(), npu.ExternalEvent()
    gate.wait(side)
    with npu.stream(side):
        x.zero_()
    if is_right:
        gate.record(npu.current_stream())
        side.synchronize()
    acl.code("aclrtFree", __import__("ctypes").c_void_p(address))
    if not is_right:
        gate.record(npu.current_stream())
        side.query()


# ---- pinned memory ----


@mistake("race.host", "pinned memory")
def result_is_read_from_pinned_memory_too_early(is_right):
    x, host = torch.ones(N, device="npu"), torch.zeros(N).pin_memory()
    host.copy_(x, non_blocking=True)
    if is_right:
        npu.synchronize()
    host[3].item()
    npu.synchronize()


@mistake("race.host", "pinned memory")
def source_is_changed_before_its_copy_ran(is_right):
    host, x = torch.ones(N).pin_memory(), torch.zeros(N, device="npu")
    npu.synchronize()
    x.copy_(host, non_blocking=True)
    if is_right:
        npu.synchronize()
    host.zero_()
    npu.synchronize()


@mistake("race.host", "pinned memory")
def numpy_reads_pinned_memory_too_early(is_right):
    x, host = torch.ones(N, device="npu"), torch.zeros(N).pin_memory()
    array = host.numpy()
    event = npu.Event()
    if not is_right:
        event.record()
    host.copy_(x, non_blocking=True)
    if is_right:
        event.record()
    event.synchronize()
    array.sum()
    npu.synchronize()


@mistake("race", "pinned memory")
def two_streams_copy_into_one_pinned_buffer(is_right):
    side, host = npu.Stream(), torch.zeros(N).pin_memory()
    x, y = torch.ones(N, device="npu"), torch.zeros(N, device="npu")
    side.wait_stream(npu.current_stream())
    with npu.stream(side):
        host.copy_(x, non_blocking=True)
    if is_right:
        npu.current_stream().wait_stream(side)
    host.copy_(y, non_blocking=True)
    npu.synchronize()


# ---- graph memory ----


def captured(x, pool=None):
    """A graph that writes 2 * x + 1, with its output."""
    graph = npu.NPUGraph()
    npu.synchronize()
    with npu.graph(graph, pool=pool):
        y = x * 2 + 1
    return graph, y


@mistake("race", "graph memory")
def output_of_a_graph_is_read_on_another_stream(is_right):
    side, (graph, y) = npu.Stream(), captured(ones())
    side.wait_stream(npu.current_stream())
    with npu.stream(side):
        graph.replay()
    if is_right:
        npu.current_stream().wait_stream(side)
    y.sum()
    npu.synchronize()
    graph.reset()


@mistake("race", "graph memory")
def input_of_a_graph_is_changed_during_a_replay(is_right):
    x = ones()
    side, (graph, y) = npu.Stream(), captured(x)
    side.wait_stream(npu.current_stream())
    with npu.stream(side):
        graph.replay()
    if is_right:
        npu.current_stream().wait_stream(side)
    x.zero_()
    npu.synchronize()
    graph.reset()
    del y


@mistake("race", "graph memory")
def two_graphs_of_a_pool_overlap(is_right):
    """The intermediate results of both graphs have one address."""
    one, two, pool = npu.Stream(), npu.Stream(), npu.graph_pool_handle()
    (first, y), (second, z) = captured(ones(), pool), captured(ones(2), pool)
    for stream in (one, two):
        stream.wait_stream(npu.current_stream())
    with npu.stream(one):
        first.replay()
    if is_right:
        two.wait_stream(one)
    with npu.stream(two):
        second.replay()
    npu.synchronize()
    first.reset()
    second.reset()
    del y, z


def main(which, names):
    for name, (_, group, function) in MISTAKES.items():
        if names and name not in names:
            continue
        try:
            function(which == "right")
            npu.synchronize()
        except (RuntimeError, NotImplementedError, AttributeError) as error:
            print("%s: %s" % (name, str(error).splitlines()[0]))
    print("done")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
