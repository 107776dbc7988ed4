"""torch.npu: graphs.  Skipped where the library cannot capture streams."""
import threading

import pytest
import torch

import aclmem.npu


def can_capture():
    graph, x = aclmem.npu.NPUGraph(), torch.ones(1, device="npu")
    try:
        with aclmem.npu.graph(graph):
            x + 1
        return ""
    except (RuntimeError, AttributeError) as error:
        return str(error).splitlines()[0]


REASON = can_capture()
needs_capture = pytest.mark.skipif(bool(REASON), reason="the library cannot capture a stream: " + REASON)


@needs_capture
def test_a_graph_computes_its_operators_again(npu):
    x = torch.ones(4, device="npu")
    graph = npu.NPUGraph()
    with npu.graph(graph):
        assert npu.is_current_stream_capturing()
        y = (x * 2).relu() + 1
    assert not npu.is_current_stream_capturing() and len(graph.pool()) == 2
    x.fill_(5)
    graph.replay()
    assert y.tolist() == [11] * 4
    x.copy_(torch.tensor([1.0, 2, 3, 4]))
    graph.replay()
    graph.replay()
    assert y.tolist() == [3, 5, 7, 9]


@needs_capture
def test_memory_of_a_graph_is_kept_until_reset(npu):
    x = torch.ones(1 << 16, device="npu")
    graph = npu.NPUGraph()
    with npu.graph(graph):
        y = x + 1
        z = y * 2
    del y
    for _ in range(3):
        other = torch.full((1 << 16,), -7.0, device="npu")
        graph.replay()
        assert z[0].item() == 4 and other[0].item() == -7
    pool = graph.pool()
    assert any(s["segment_pool_id"] == pool for s in npu.memory_snapshot())
    del z
    graph.reset()
    npu.empty_cache()
    assert not any(s["segment_pool_id"] == pool for s in npu.memory_snapshot())


@needs_capture
def test_two_graphs_share_a_pool(npu):
    pool, x = npu.graph_pool_handle(), torch.ones(8, device="npu")
    first, second = npu.NPUGraph(), npu.NPUGraph()
    with npu.graph(first, pool=pool):
        y = x + 1
    with npu.graph(second, pool=pool):
        z = y * 3
    assert first.pool() == second.pool() == pool
    first.replay()
    second.replay()
    assert z.tolist() == [6] * 8


@needs_capture
def test_replays_draw_the_numbers_of_operators_without_a_graph(npu):
    generator = torch.Generator(device="npu").manual_seed(3)

    def draw():
        return torch.rand(64, device="npu"), torch.randn(8, device="npu", generator=generator), torch.rand(2, device="npu")

    graph = npu.NPUGraph()
    with npu.graph(graph):
        drawn = draw()
    results = []
    for is_replay in (True, False):
        npu.manual_seed(5)
        generator.manual_seed(3)
        for _ in range(3):
            if is_replay:
                graph.replay()
            results.append([t.clone() for t in (drawn if is_replay else draw())])
    for a, b in zip(results[:3], results[3:]):
        assert all(torch.equal(x, y) for x, y in zip(a, b))
    assert not torch.equal(results[0][0], results[1][0])


@needs_capture
def test_two_threads_capture_at_once(npu):
    """The tasks of a graph are its own, whichever capture ends first."""
    both, results = threading.Barrier(2), {}

    def capture(i):
        graph, stream, x = npu.NPUGraph(), npu.Stream(), torch.full((4,), float(i), device="npu")
        stream.wait_stream(npu.current_stream())
        with npu.stream(stream):
            both.wait()
            graph.capture_begin(capture_error_mode="thread_local")
            y = x + 1
            both.wait()
            z = y * 2
            graph.capture_end()
        both.wait()
        if i == 0:
            graph.reset()
        both.wait()
        if i == 1:
            graph.replay()
            results[i] = z.tolist()

    threads = [threading.Thread(target=capture, args=(i,)) for i in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {1: [4] * 4}


@needs_capture
def test_a_task_group_is_updated_in_the_order_of_the_stream(npu):
    x, out, event = torch.ones(4, device="npu"), torch.zeros(4, device="npu"), npu.ExternalEvent()
    graph, update = npu.NPUGraph(), npu.Stream()
    with npu.graph(graph):
        stream = npu.current_stream()
        y = x + 1
        event.wait(stream)
        event.reset(stream)
        npu.graph_task_group_begin(stream)
        torch.mul(y + 0, 3, out=out)
        handle = npu.graph_task_group_end(stream)
        z = out + 1
    for factor in (3, 5, 7):
        graph.replay()  # waits for the update
        with npu.stream(update):
            npu.graph_task_update_begin(update, handle)
            torch.mul(y - 1, factor, out=out)
            npu.graph_task_update_end(update)
            event.record(update)
        assert z.tolist() == [factor + 1] * 4
    with pytest.raises(RuntimeError, match="not captured"):
        npu.graph_task_group_begin(npu.current_stream())
    with pytest.raises(RuntimeError, match="no update of a task group"):
        npu.graph_task_update_end(update)


@needs_capture
def test_update_changes_the_lengths_of_attention(npu):
    generator = torch.Generator().manual_seed(0)
    query, keys, values = (torch.randn(*s, generator=generator).npu() for s in ((2, 1, 4, 8), (2, 6, 4, 8), (2, 6, 4, 8)))

    def attend(lengths, out=None):
        options = dict(num_heads=4, input_layout="BSND", scale=0.5, actual_seq_lengths_kv=lengths)
        operator = torch.ops.npu.npu_fused_infer_attention_score
        if out is not None:
            operator.out(query, keys, values, workspace=None, out=[out, torch.empty(1, device="npu")], **options)
            return out
        return operator(query, keys, values, **options)[0]

    for has_out in (True, False):
        graph = npu.NPUGraph()
        with npu.graph(graph, auto_dispatch_capture=True):
            out = attend([1, 1], torch.zeros_like(query) if has_out else None)
        for lengths in ([2, 5], [6, 1]):
            graph.replay()
            graph.update(cpu_update_input=[{"actual_seq_lengths_kv": lengths}])
            assert torch.equal(out.cpu(), attend(lengths).cpu())


@needs_capture
def test_update_changes_the_lengths_of_paged_attention(npu):
    """They have a place and no name."""
    generator = torch.Generator().manual_seed(0)
    query, keys, values = (torch.randn(*s, generator=generator).npu() for s in ((2, 4, 8), (3, 4, 4, 8), (3, 4, 4, 8)))
    table, out, graph = torch.tensor([[0, 1], [2, 1]]).npu(), torch.zeros_like(query), npu.NPUGraph()

    def attend(lengths, out):
        torch.ops.npu._npu_paged_attention(query, keys, values, 4, 4, 0.5, table, torch.tensor(lengths), out)
        return out

    with npu.graph(graph, auto_dispatch_capture=True):
        attend([1, 1], out)
    for lengths in ([2, 5], [8, 3]):
        graph.replay()
        graph.update(cpu_update_input=[{"context_lens": torch.tensor(lengths)}])
        assert torch.equal(out.cpu(), attend(lengths, torch.zeros_like(query)).cpu())


@needs_capture
def test_handlers_of_a_program_are_called(npu):
    from aclmem.npu import graph_handlers

    before, calls = dict(graph_handlers._NPU_GRAPH_OP_HANDLERS), []

    @npu.register_npu_graph_handler(["mul.Tensor", "mul.out"])
    class Multiply(npu.NpuGraphOpHandler):
        @classmethod
        def prepare_capture(cls, func, args, kwargs):
            calls.append(func.__name__)
            return torch.ops.aten.mul.out, args, dict(kwargs, out=torch.empty_like(args[0]))

        @classmethod
        def postprocess_result(cls, result, kwargs):
            calls.append("result")
            return kwargs["out"].view(2, 2)

        @classmethod
        def record_wrap_kwarg(cls, key, value, tensor_param_names):
            calls.append((key, tensor_param_names))
            return super().record_wrap_kwarg(key, value, tensor_param_names)

        @classmethod
        def update_args(cls, dispatch_record, update_input):
            dispatch_record.args[1] = update_input["factor"]

    try:
        x, factor, graph = torch.full((4,), 3.0, device="npu"), torch.ones(4, device="npu"), npu.NPUGraph()
        with npu.graph(graph, auto_dispatch_capture=True):
            y = x + 1
            address = y.data_ptr()
            z = torch.mul(y, factor)
            del y  # the noted call does not own its memory
            w = z + 1
            assert w.data_ptr() == address
        assert calls == ["mul.Tensor", ("out", ["self", "other", "out"]), "result"]
        for number in (5.0, 7.0):
            new = torch.full((4,), number, device="npu")
            graph.replay()
            graph.update(cpu_update_input=[{"factor": new}])
            assert w.tolist() == [[4 * number + 1] * 2] * 2
        assert torch.mul(x, x).shape == (4,)  # outside of a capture
        with pytest.raises(RuntimeError, match="2 sets of arguments for 1 operators"):
            graph.update([{}, {}])
        del graph_handlers._NPU_GRAPH_OP_HANDLERS["mul.out"]
        with pytest.raises(RuntimeError, match="No handler for recorded op: mul.out"):
            graph.update([{}])
    finally:
        graph_handlers._NPU_GRAPH_OP_HANDLERS.clear()
        graph_handlers._NPU_GRAPH_OP_HANDLERS.update(before)


def test_a_handler_that_is_replaced_is_named(npu, caplog):
    from aclmem.npu.graph_handlers import _NPU_GRAPH_OP_HANDLERS

    class First(npu.NpuGraphOpHandler):
        pass

    class Second(npu.NpuGraphOpHandler):
        pass

    try:
        assert npu.register_npu_graph_handler("my_op.default")(First) is First
        npu.register_npu_graph_handler(["my_op.default"])(Second)
        assert "NpuGraphOpHandler for 'my_op.default' is being overridden: First -> Second" in caplog.text
        assert _NPU_GRAPH_OP_HANDLERS["my_op.default"] is Second
    finally:
        del _NPU_GRAPH_OP_HANDLERS["my_op.default"]


@needs_capture
def test_a_side_stream_joins_the_capture(npu):
    graph, side, x = npu.NPUGraph(), npu.Stream(), torch.ones(4, device="npu")
    with npu.graph(graph):
        y = x + 1
        side.wait_stream(npu.current_stream())
        with npu.stream(side):
            z = y * 2
        npu.current_stream().wait_stream(side)
        w = z + y
    x.fill_(2)
    graph.replay()
    assert w.tolist() == [9] * 4


@needs_capture
def test_a_graphed_module_trains_as_the_module(npu):
    def losses(is_graphed):
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1)).npu()
        data = torch.randn(4, 8, generator=torch.Generator().manual_seed(1)).npu()
        if is_graphed:
            model = npu.make_graphed_callables(model, (torch.randn(4, 8).npu(),))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        result = []
        for _ in range(4):
            optimizer.zero_grad(set_to_none=True)
            loss = model(data).square().mean()
            loss.backward()
            optimizer.step()
            result.append(loss.item())
        return result

    assert losses(True) == pytest.approx(losses(False), rel=1e-5)


@needs_capture
def test_synchronisation_inside_a_capture_is_refused(npu):
    graph, x = npu.NPUGraph(), torch.ones(4, device="npu")
    with pytest.raises(RuntimeError):
        with npu.graph(graph):
            x.sum().item()
    assert torch.ones(2, device="npu").sum().item() == 2


def test_wrong_calls_have_torch_npus_texts(npu):
    graph = npu.NPUGraph()
    with pytest.raises(RuntimeError, match="NPU graphs must be captured on a non-default stream."):
        graph.capture_begin()
    with pytest.raises(RuntimeError, match=r"capture_end\(\) called before capture_begin\(\)."):
        graph.capture_end()
    with pytest.raises(RuntimeError, match="Unknown capture error mode. Expected"):
        graph.capture_begin(capture_error_mode="loose")
    with pytest.raises(RuntimeError, match="The current graph configuration does not support update"):
        graph.update([])
    assert not npu.is_current_stream_capturing() and npu.graph_pool_handle()[0] == 0


@needs_capture
def test_a_graph_is_captured_once_and_on_one_stream(npu):
    graph, side = npu.NPUGraph(), npu.Stream()
    with npu.stream(side):
        graph.capture_begin()
        with npu.stream(npu.Stream()):
            with pytest.raises(RuntimeError, match="Capture must end on the same stream it began on."):
                graph.capture_end()
        graph.capture_end()
        with pytest.raises(RuntimeError, match="This NPUGraph instance already owns a captured graph."):
            graph.capture_begin()


@needs_capture
def test_a_graph_that_ends_during_a_capture_is_freed_behind_it(npu):
    """As Python's garbage collection does."""
    x, first, second = torch.ones(4, device="npu"), npu.NPUGraph(), npu.NPUGraph()
    with npu.graph(first):
        y = x * 2
    pool = first.pool()
    with npu.graph(second):
        z = x + 1
        del first, y
        w = z + 1
    second.replay()
    assert w.tolist() == [3] * 4
    npu.empty_cache()
    assert not any(s["segment_pool_id"] == pool for s in npu.memory_snapshot())


@needs_capture
def test_pinned_memory_that_ends_during_a_capture_is_reused_behind_it(npu):
    x, pinned, graph = torch.zeros(4, device="npu"), torch.ones(4).pin_memory(), npu.NPUGraph()
    active = npu.host_memory_stats()["active_requests.current"]
    with npu.graph(graph):
        x.copy_(pinned, non_blocking=True)
        del pinned
    npu.synchronize()
    torch.ones(4).pin_memory()
    assert npu.host_memory_stats()["active_requests.current"] < active


@needs_capture
def test_a_graph_of_a_program_that_ends_is_not_reported(run_program, tmp_path):
    (tmp_path / "program.py").write_text(
        "import torch, aclmem.npu\n"
        "x, graph = torch.ones(4, device='npu'), torch.npu.NPUGraph()\n"
        "with torch.npu.graph(graph): y = x + 1\n"
        "cycle = [graph]\n"
        "cycle.append(cycle)\n"
        "graph.replay()\n"
        "print(y.tolist())\n")
    done = run_program(tmp_path / "program.py")
    assert done.output == "[2.0, 2.0, 2.0, 2.0]\n" and done.findings == [], done.errors
