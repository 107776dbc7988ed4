"""Calls of each kind leave nothing behind: no memory blocks, no references.  400,000 of them, 100,000 of the first."""
import gc
import sys
import threading

import pytest

import acl
from test_wrong import UNSAFE, good_arguments
import facts

N = 100000
# More than what a run of this many calls can leave in free lists, and far less than one object a call.
SLACK = 100

rt = acl.rt


@pytest.fixture(scope="module", autouse=True)
def only_our_objects():
    """What pytest has made is not looked through in each collection, which is most of the time otherwise."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


def blocks_left(function, n):
    """How many memory blocks of Python's allocator n calls leave behind.

    The interpreter itself allocates while it warms up (specialised code, free lists), so a round that leaves blocks
    behind is repeated.  A call that leaks does so in every round."""
    for _ in range(4):
        gc.collect()
        before = sys.getallocatedblocks()
        for _ in range(n):
            function()
        gc.collect()
        left = sys.getallocatedblocks() - before
        if left < SLACK:
            break
    return left


PROP = {"memAttr": acl.ACL_HBM_MEM_HUGE, "location": {"id": 0, "type": acl.ACL_MEM_LOCATION_TYPE_DEVICE}}
CFG = {"attrs": [{"attr": acl.ACL_RT_MEM_ATTR_MODULE_ID, "value": {"moduleId": 33}}]}


def raises(function):
    try:
        function()
    except (TypeError, OverflowError, ValueError):
        return
    assert False


LOOPS = {
    "scalar_outputs": lambda w: rt.get_mem_info(acl.ACL_HBM_MEM),
    "dict_in": lambda w: rt.mem_get_allocation_granularity(PROP, 0),
    "dict_out": lambda w: rt.pointer_get_attributes(w.address),
    "nested_dicts": lambda w: rt.free(rt.malloc_with_cfg(64, 0, CFG)[0]),
    "list_of_dicts_out": lambda w: rt.get_mem_usage_info(0, 8),
    "array_in": lambda w: rt.check_mem_type([w.address] * 4, acl.ACL_RT_MEM_TYPE_DEV, 0),
    "text_in_and_out": lambda w: acl.sys.get_version_str("runtime"),
    "message": lambda w: (rt.free(0), acl.get_recent_err_msg()),
    "failed_dict": lambda w: (rt.mem_get_allocation_properties_from_handle(1), acl.get_recent_err_msg()),
    "map_and_unmap": lambda w: (rt.map_mem(w.reserved_at, 2 << 20, 0, w.phys, 0), rt.unmap_mem(w.reserved_at)),
    "copy": lambda w: rt.memcpy(w.address, 5, acl.util.bytes_to_ptr(b"bytes"), 5, 1),
    "wrong_type": lambda w: raises(lambda: rt.malloc_physical(1, {"location": {"id": "x"}}, 0)),
    "unknown_key": lambda w: raises(lambda: rt.malloc_physical(1, {"x": 1}, 0)),
    "overflow": lambda w: raises(lambda: rt.check_mem_type([1, 1 << 64], 0, 0)),
    "lengths": lambda w: raises(lambda: rt.memcpy_batch([1], [1], [1], [1, 2], None, None)),
    "count": lambda w: raises(lambda: rt.map_mem(1)),
    "bytes": lambda w: acl.util.ptr_to_bytes(acl.util.bytes_to_ptr(b"bytes"), 5),
}


@pytest.mark.parametrize("name", LOOPS)
def test_calls_leave_nothing_behind(world, name):
    world.address, world.reserved_at, world.phys = world.device_memory(), world.reserved(), world.handle()
    call = LOOPS[name]
    assert blocks_left(lambda: call(world), N if name == "scalar_outputs" else N // 5) < SLACK


@pytest.mark.parametrize("path", [p for p in sorted(facts.C_FUNCTION) if p not in UNSAFE])
def test_every_function_leaves_nothing_behind(world, path):
    """With values that mean nothing; whatever it makes is the library's, not Python's."""
    function, arguments = facts.resolve(path), good_arguments(path)

    def call():
        function(*arguments)

    assert blocks_left(call, 500) < SLACK
    acl.get_recent_err_msg()


def test_functions_that_ran_leave_nothing_behind(world):
    stream, count, launched = world.stream(), [0], [0]

    def note(value):
        count[0] += 1

    def launch():
        launched[0] += 100
        for _ in range(100):
            rt.launch_host_func(stream, note, (1, 2))
        assert rt.synchronize_stream(stream) == 0

    data = (1, 2)
    references = sys.getrefcount(note), sys.getrefcount(data)
    assert blocks_left(launch, N // 1000) < SLACK
    assert (sys.getrefcount(note), sys.getrefcount(data)) == references
    assert count == launched


def test_references_to_arguments_are_given_back(world):
    key, location = "location", {"id": 0, "type": 1}
    prop = {"memAttr": acl.ACL_HBM_MEM_HUGE, key: location}
    text, numbers = "runtime-" + str(id(world)), [1 << 40, 1 << 41]
    watched = [prop, location, text, numbers, numbers[0], None]
    before = [sys.getrefcount(o) for o in watched[:-1]]
    for _ in range(N):
        rt.mem_get_allocation_granularity(prop, 0)
        acl.sys.get_version_num(text)
        rt.check_mem_type(numbers, acl.ACL_RT_MEM_TYPE_DEV, 0)
    assert [sys.getrefcount(o) for o in watched[:-1]] == before


def test_none_keeps_its_references(world):
    before = sys.getrefcount(None)
    for _ in range(N):
        rt.free(None)
        acl.get_recent_err_msg()
        acl.get_recent_err_msg()  # None
        acl.app_log(acl.ACL_DEBUG, None, None, 0, "message")
    assert abs(sys.getrefcount(None) - before) < SLACK


def test_threads_leave_nothing_behind():
    def start():
        thread, ret = acl.util.start_thread(lambda _: None, [])
        assert ret == 0 and acl.util.stop_thread(thread) == 0

    assert blocks_left(start, 300) < SLACK
    assert threading.active_count() == 1
