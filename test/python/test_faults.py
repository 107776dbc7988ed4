"""Every path with each of Python's allocations failing in turn: a MemoryError or a result, and nothing left behind.

The failing allocator is CPython's own for such tests.  What the library itself allocates is failed in test/fault.
"""
import gc
import sys
import weakref

import pytest

import acl
import facts
from test_leaks import LOOPS, SLACK
from test_wrong import UNSAFE, good_arguments

_testcapi = pytest.importorskip("_testcapi", reason="this Python has no allocator that can be made to fail")

rt = acl.rt
MOST = 60  # more allocations than any call makes


def faulted(call, n):
    """What the call gives with its nth allocation failing; MemoryError where it raises that."""
    _testcapi.set_nomemory(n, n + 1)
    try:
        return call()
    except MemoryError:
        return MemoryError
    finally:
        _testcapi.remove_mem_hooks()


def survived(call):
    """Its first allocation fails, then its second, and so on: each time there is the right answer or none."""
    right = call()
    given = [faulted(call, n) for n in range(MOST)]
    assert [g for g in given if g is not MemoryError and g != right] == []
    assert given[-1] == right, "it makes more allocations than were failed"


def left_behind(function):
    survived(function)
    gc.collect()
    before = sys.getallocatedblocks()
    for _ in range(20):
        survived(function)
    gc.collect()
    return sys.getallocatedblocks() - before


# Those that raise on purpose, and the one that leaves a mapping when only its second half fails.
OTHERS = ("wrong_type", "unknown_key", "overflow", "lengths", "count", "map_and_unmap")


@pytest.mark.parametrize("name", [name for name in LOOPS if name not in OTHERS])
def test_calls_survive_and_leave_nothing_behind(world, name):
    world.address = world.device_memory()
    call = LOOPS[name]
    assert left_behind(lambda: call(world)) < SLACK


@pytest.mark.parametrize("path", [p for p in sorted(facts.C_FUNCTION) if p not in UNSAFE])
def test_every_function_survives(world, path):
    function, arguments = facts.resolve(path), good_arguments(path)
    for n in range(MOST):
        faulted(lambda: function(*arguments), n)


def refused(function, *arguments):
    try:
        function(*arguments)
    except (TypeError, OverflowError, ValueError) as e:
        return str(e)


@pytest.mark.parametrize("arguments", [
    (1, {"location": {"id": "x"}}, 0), (1, {"location": {"no": 1}}, 0), (1, {"location": {"id": 1 << 40}}, 0), (1,),
], ids=["type", "key", "range", "count"])
def test_messages_survive(world, arguments):
    assert left_behind(lambda: refused(rt.malloc_physical, *arguments)) < SLACK


class Token:
    def __call__(self, _):
        pass


@pytest.fixture
def held(world):
    """A stream that is held: a thread that Python does not know yet ends it when there is no memory for it."""
    gate, stream = world.filled(world.device_memory(), bytes(8)), world.stream()
    assert rt.value_wait(gate, 1, acl.ACL_STREAM_WAIT_VALUE_EQ, stream) == 0

    def let_go():
        assert rt.value_write(gate, 1, 0, 0) == 0
        assert rt.synchronize_stream(stream) == 0

    return stream, let_go


def test_a_function_that_cannot_be_kept_is_not_queued(held):
    """It runs as often as launch_host_func said that it was queued."""
    (stream, let_go), ran = held, []
    function, queued = ran.append, [None] * MOST

    def launch(n):
        queued[n] = rt.launch_host_func(stream, function, n)

    for n in range(MOST):
        faulted(lambda: launch(n), n)
    let_go()
    assert MOST // 2 < len(ran) < MOST
    assert ran == [n for n in range(MOST) if queued[n] == 0] and set(queued) == {0, None}


def test_references_of_functions_are_given_back(held):
    (stream, let_go), token = held, Token()
    alive = weakref.ref(token)
    for n in range(MOST):
        faulted(lambda: rt.launch_host_func(stream, token, token), n)
    let_go()
    del token
    gc.collect()
    assert alive() is None


def test_util_survives(world):
    data, room = b"bytes", bytearray(5)
    survived(lambda: acl.util.bytes_to_ptr(room))
    survived(lambda: acl.util.ptr_to_bytes(acl.util.bytes_to_ptr(data), 5))
    numpy = pytest.importorskip("numpy", reason="numpy is not installed")
    array = numpy.arange(5, dtype="int32")
    host = world.host_memory()
    world.must(rt.memcpy(host, array.nbytes, acl.util.numpy_to_ptr(array), array.nbytes, 0))
    # Not numpy_to_ptr: numpy's own __array_interface__ does not survive this.
    survived(lambda: acl.util.ptr_to_numpy(host, (5,), array.dtype.num).tolist())
