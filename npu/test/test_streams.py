"""torch.npu: streams and events."""
import ctypes

import pytest
import torch

import aclmem.npu  # noqa: F401


def test_the_33rd_stream_is_the_first(npu):
    streams = [npu.Stream() for _ in range(33)]
    assert streams[32] == streams[0] and len({hash(s) for s in streams[:32]}) == 32
    assert isinstance(streams[0], torch.Stream) and streams[0].stream_id >> 5 == 3
    assert npu.Stream(priority=-1).stream_id >> 5 == 4 and npu.default_stream().stream_id >> 5 == 0
    assert repr(streams[0]).startswith("<torch_npu.npu.Stream device=npu:0 npu_stream=0x")
    assert streams[0]._as_parameter_.value == streams[0].npu_stream != 0
    with pytest.raises(RuntimeError):
        npu.Stream(stream_id=12345, device_index=0, device_type=20)
    again = npu.Stream(stream_id=streams[3].stream_id, device_index=0, device_type=20)
    assert again == streams[3]


def test_priorities_are_refused_as_in_torch_npu(npu):
    with pytest.raises(RuntimeError, match="not support"):
        npu.Stream().priority
    with pytest.raises(RuntimeError, match="not support"):
        npu.Stream.priority_range()


def test_the_current_stream_is_of_the_thread(npu):
    import threading

    side, seen = npu.Stream(), []
    with npu.stream(side):
        assert npu.current_stream() == side
        thread = threading.Thread(target=lambda: seen.append(npu.current_stream()))
        thread.start()
        thread.join()
        with npu.stream(None):
            assert npu.current_stream() == side
        context = npu.stream(npu.default_stream())
        with context, context:
            assert npu.current_stream() == npu.default_stream()
        assert npu.current_stream() == side
    assert npu.current_stream() == npu.default_stream() == seen[0]


def test_streams_run_at_the_same_time_and_wait_for_events(npu):
    side, main = npu.Stream(), npu.current_stream()
    gate = npu.ExternalEvent()
    gate.wait(side)
    with npu.stream(side):
        value = torch.ones(4, device="npu") * 3
    assert not side.query() and main.query()
    event = side.record_event()
    assert isinstance(event, npu.Event) and not event.query() and event.device == torch.device("npu", 0)
    main.wait_event(event)
    value.record_stream(main)
    result = value + 1
    assert not main.query()
    gate.record(npu.Stream())
    assert result.tolist() == [4] * 4 and event.query()


def test_an_external_event_is_armed_again(npu):
    event, side = npu.ExternalEvent(), npu.Stream()
    for _ in range(3):
        event.wait(side)
        event.reset(side)
        assert not side.query()
        event.record(npu.current_stream())
        side.synchronize()


def test_an_event_that_was_never_recorded_is_complete(npu):
    event = npu.Event()
    assert event.query() and event.npu_event == 0 and event.device is None
    event.wait()
    event.synchronize()
    assert repr(event) == "<torch_npu.npu.Event uninitialized>" and isinstance(event, torch.Event)
    with pytest.raises(RuntimeError, match="Both events must be recorded before calculating elapsed time."):
        event.elapsed_time(npu.Event(enable_timing=True))
    with pytest.raises(RuntimeError, match="Event must be recorded before getting recorded timestamp."):
        event.recorded_time()


def test_elapsed_time_covers_the_work_between(npu):
    start, end = npu.Event(enable_timing=True), npu.Event(enable_timing=True)
    start.record()
    npu._sleep(30_000_000)
    end.record()
    assert start.elapsed_time(end) >= 25
    assert end.recorded_time() > start.recorded_time()
    with pytest.raises(RuntimeError, match="enable_timing"):
        plain = npu.Event()
        plain.record()
        start.elapsed_time(plain)


def test_a_timed_event_cannot_be_shared(npu):
    with pytest.raises(RuntimeError, match="Parameter interprocess cannot be specified together with other parameters."):
        npu.Event(enable_timing=True, interprocess=True)
    with pytest.raises(RuntimeError, match="aclrtIpcEventHandle.*64.*3"):
        npu.Event.from_ipc_handle(0, b"abc")
    assert len(npu.Event(interprocess=True).ipc_handle()) == 64


def test_an_external_stream_runs_operators_and_refuses_synchronisation(npu):
    library = ctypes.CDLL("libascendcl.so")
    handle = ctypes.c_void_p()
    assert library.aclrtCreateStream(ctypes.byref(handle)) == 0
    stream = npu.ExternalStream(handle.value)
    with npu.stream(stream):
        value = torch.full((4,), 2.0, device="npu")
    for call in (stream.synchronize, stream.query, stream.record_event):
        with pytest.raises(RuntimeError, match="ExternalStream"):
            call()
    assert library.aclrtSynchronizeStream(handle) == 0
    assert value.tolist() == [2] * 4 and stream.npu_stream == handle.value


def test_a_host_function_runs_in_stream_order(npu):
    stream, seen = npu.current_stream(), []
    npu._subscribe_report(stream)
    npu._sleep(5_000_000)
    npu._launch_host_func(stream, seen.append, "called")
    stream.synchronize()
    assert seen == ["called"]
    npu._unsubscribe_report(stream)


def test_the_accelerator_interface_is_served(npu):
    assert torch.accelerator.current_accelerator().type == "npu"
    assert torch.accelerator.device_count() == npu.device_count()
    side = npu.Stream()
    before = torch.accelerator.current_stream()
    torch.accelerator.set_stream(side)
    assert npu.current_stream() == side
    torch.accelerator.set_stream(before)
    torch.accelerator.synchronize()


@pytest.mark.skipif(not hasattr(torch.accelerator, "get_memory_info"), reason="this PyTorch has no torch.accelerator.memory")
def test_the_accelerator_interface_has_memory_and_graphs(npu):
    assert torch.accelerator.get_memory_info() == npu.mem_get_info()
    tensor = torch.ones(1000, device="npu")
    assert torch.accelerator.memory_allocated() == npu.memory_allocated() >= 4096
    assert torch.accelerator.memory_stats()["allocated_bytes.all.current"] == npu.memory_allocated()
    torch.accelerator.reset_peak_memory_stats()
    assert torch.accelerator.max_memory_reserved() == npu.max_memory_reserved()
    if hasattr(torch.accelerator, "empty_host_cache"):
        torch.accelerator.empty_host_cache()
    torch.accelerator.empty_cache()
    if hasattr(torch.accelerator, "get_device_capability"):
        assert torch.float32 in torch.accelerator.get_device_capability()["supported_dtypes"]
    if hasattr(torch.accelerator, "Graph"):
        graph = torch.accelerator.Graph()
        with npu.stream(npu.Stream()):
            with graph:
                result = tensor * 3
        tensor.fill_(2)
        graph.replay()
        npu.synchronize()
        assert result[0].item() == 6 and len(graph.pool()) == 2
        graph.reset()
