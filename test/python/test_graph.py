"""aclmem.graph: stream capture from Python."""
import json

import pytest

import acl
from aclmem import graph

SIZE = 256


@pytest.fixture
def stream(world):
    return world.stream()


@pytest.fixture
def block(world):
    address = world.device_memory(SIZE)
    assert acl.rt.memset(address, SIZE, 0, SIZE) == 0
    return address


def first_byte(block):
    data, ret = acl.rt.malloc_host(SIZE)
    assert ret == 0
    assert acl.rt.memcpy(data, SIZE, block, SIZE, 2) == 0
    value = acl.util.ptr_to_bytes(data, 1)[0]
    assert acl.rt.free_host(data) == 0
    return value


def test_work_runs_at_each_replay(stream, block):
    with graph.capture(stream) as captured:
        assert graph.status(stream)[0] == graph.ACTIVE
        assert acl.rt.memset_async(block, SIZE, 7, SIZE, stream) == 0
    assert graph.status(stream) == (graph.NONE, 0)
    assert acl.rt.synchronize_stream(stream) == 0
    assert first_byte(block) == 0
    for _ in range(2):
        assert acl.rt.memset(block, SIZE, 0, SIZE) == 0
        captured.replay(stream)
        assert acl.rt.synchronize_stream(stream) == 0
        assert first_byte(block) == 7
    assert acl.rt.memset(block, SIZE, 0, SIZE) == 0
    captured.run()
    assert first_byte(block) == 7
    assert captured.id() >= 0
    captured.destroy()


def test_a_function_runs_at_each_replay(stream):
    calls = []
    with graph.capture(stream) as captured:
        assert acl.rt.launch_host_func(stream, calls.append, 5) == 0
    assert calls == []
    for n in range(1, 4):
        captured.replay(stream)
        assert acl.rt.synchronize_stream(stream) == 0
        assert calls == [5] * n
    captured.destroy()


def test_a_failure_has_code_and_text(stream, block):
    with pytest.raises(graph.Error) as failure:
        with graph.capture(stream):
            graph.begin(stream)
    assert failure.value.code == 107027 and "aclmdlRICaptureBegin" in str(failure.value)
    with pytest.raises(ZeroDivisionError):
        with graph.capture(stream):
            1 / 0
    assert graph.status(stream)[0] == graph.NONE
    assert acl.rt.synchronize_stream(stream) == 0


def test_a_thread_lifts_the_rule_for_itself(stream, block):
    with graph.capture(stream) as captured:
        before = graph.exchange_mode(graph.RELAXED)
        assert acl.rt.memset(block, SIZE, 1, SIZE) == 0
        assert graph.exchange_mode(before) == graph.RELAXED
    captured.destroy()


def test_a_model_is_printed(stream, block, tmp_path):
    with graph.capture(stream) as captured:
        assert acl.rt.memset_async(block, SIZE, 7, SIZE, stream) == 0
    captured.print_json(tmp_path / "model.json")
    assert json.loads((tmp_path / "model.json").read_text())
    captured.destroy()
