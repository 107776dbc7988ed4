"""torch.npu: devices, initialisation, random state, amp."""
import subprocess
import sys

import pytest
import torch

import aclmem.npu  # noqa: F401


def python(text, **variables):
    """Runs a program; returns its output."""
    import os

    done = subprocess.run([sys.executable, "-c", text], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          universal_newlines=True, env=dict(os.environ, **variables))
    assert done.returncode == 0, done.stdout
    return done.stdout


def test_import_touches_no_device():
    assert python(
        "import torch, aclmem.npu\n"
        "assert torch.npu is aclmem.npu and torch.npu.is_available() and not torch.npu.is_initialized()\n"
        "assert torch.npu.memory_allocated() == 0 and torch.npu.memory_stats() == {} and torch.npu.default_generators == ()\n"
        "torch.npu.empty_cache()\n"
        "torch.npu.manual_seed_all(5)\n"
        "assert not torch.npu.is_initialized()\n"
        "a = torch.rand(4, device='npu')\n"
        "assert torch.npu.is_initialized() and len(torch.npu.default_generators) == torch.npu.device_count()\n"
        "torch.npu.manual_seed_all(5)\n"
        "assert torch.equal(a, torch.rand(4, device='npu'))\n"
        "print('good')") == "good\n"


def test_visible_devices_are_counted():
    count = "import torch, aclmem.npu; print(torch.npu.device_count(), torch.npu.is_available())"
    assert python(count, ACLMEM_DEVICES="4", ASCEND_RT_VISIBLE_DEVICES="1,2") == "2 True\n"


def test_a_device_is_named_in_many_ways(npu):
    for name in (0, "npu", "npu:0", torch.device("npu", 0), None, npu.device(0), npu.current_stream()):
        npu.synchronize(name)
    with pytest.raises(ValueError, match="Expected a npu device, but got: cpu"):
        npu.synchronize("cpu")
    with pytest.raises(RuntimeError, match="error code is 107001") as error:
        npu.set_device(99)
    assert "Invalid device ID" in str(error.value) and "Check whether the device ID is valid" in str(error.value)
    npu.set_device(-1)
    assert npu.current_device() == 0


def test_properties_are_read_only(npu):
    properties = npu.get_device_properties()
    assert repr(properties).startswith("_NPUDeviceProperties(name='Ascend")
    assert properties.total_memory == npu.mem_get_info()[1] and properties.major is None
    assert len(properties.uuid.bytes) == 16 and len(str(properties.uuid)) == 36
    with pytest.raises(AttributeError):
        properties.name = "other"
    with pytest.raises(AssertionError, match="Invalid device id"):
        npu.get_device_name(99)
    assert npu.get_soc_version() >= 100 and not npu.can_device_access_peer(0, 0)


def test_tensors_and_modules_have_the_methods_of_the_device(npu):
    tensor = torch.arange(6.0).npu()
    assert tensor.is_npu and tensor.device == torch.device("npu", 0) and tensor.untyped_storage().is_npu
    assert torch.nn.Linear(2, 2).npu().weight.is_npu
    assert tensor.type() == "torch.npu.FloatTensor" and isinstance(tensor, npu.FloatTensor)
    assert not isinstance(tensor, npu.HalfTensor)
    assert torch.load(save(tensor), weights_only=True).is_npu
    assert torch.load(save(tensor), map_location="cpu", weights_only=True).tolist() == [0, 1, 2, 3, 4, 5]


def save(tensor):
    import io

    buffer = io.BytesIO()
    torch.save(tensor, buffer)
    buffer.seek(0)
    return buffer


def test_random_state_is_a_seed_and_an_offset(npu):
    npu.manual_seed(7)
    state = npu.get_rng_state()
    assert state.dtype == torch.uint8 and state.numel() == 16 and npu.initial_seed() == 7
    first = torch.rand(100, device="npu")
    second = torch.rand(100, device="npu")
    npu.set_rng_state(state)
    assert torch.equal(first, torch.rand(100, device="npu")) and not torch.equal(first, second)
    with torch.random.fork_rng(devices=[0], device_type="npu"):
        torch.rand(1, device="npu")
    assert torch.equal(second, torch.rand(100, device="npu"))
    generator = torch.Generator(device="npu").manual_seed(7)
    assert torch.equal(first, torch.rand(100, device="npu", generator=generator))


def test_random_operators_are_fixed_when_they_are_queued(npu):
    """The state is changed while the operator waits behind a slow stream."""
    npu.manual_seed(1)
    expected = torch.rand(8, device="npu").cpu()
    npu.manual_seed(1)
    npu._sleep(20_000_000)
    drawn = torch.rand(8, device="npu")
    npu.manual_seed(2)
    assert torch.equal(drawn.cpu(), expected)


def test_autocast_lowers_matrix_products(npu):
    a = torch.randn(4, 4, device="npu")
    with torch.autocast("npu", dtype=torch.bfloat16):
        assert (a @ a).dtype == torch.bfloat16
        assert torch.nn.functional.layer_norm(a, (4,)).dtype == torch.float32
    with npu.amp.autocast():
        assert (a @ a).dtype == torch.float16
    assert not npu.is_autocast_enabled()


def test_gradient_scaler_skips_a_step_with_infinity(npu):
    weight = torch.ones(2, device="npu", requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=1.0)
    scaler = npu.amp.GradScaler(init_scale=4.0)
    scaler.scale((weight * float("inf")).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    assert weight.tolist() == [1, 1] and scaler.get_scale() == 2.0
    optimizer.zero_grad()
    scaler.scale(weight.sum()).backward()
    scaler.step(optimizer)
    assert weight.tolist() == [0, 0]


def test_options_are_stored(npu):
    npu.set_option({"ACL_PRECISION_MODE": "must_keep_origin_dtype"})
    npu.config.allow_internal_format = False
    npu.set_compile_mode(jit_compile=False)
    assert npu.is_jit_compile_false()
    npu.set_sync_debug_mode("warn")
    assert npu.get_sync_debug_mode() == 1
    npu.set_sync_debug_mode(0)


def test_operators_that_synchronise_are_listed(npu):
    torch.nonzero(torch.ones(3, device="npu"))
    assert any("nonzero" in name for name in npu.synchronous_operators())


def test_the_error_of_an_operator_arrives_with_its_name_and_line(npu):
    table, index = torch.zeros(4, device="npu"), torch.tensor([9], device="npu")
    table.index_select(0, index)  # the line of the error
    with pytest.raises((IndexError, RuntimeError)) as error:
        npu.synchronize()
    assert "index_select" in str(error.value) and "test_devices.py" in str(error.value)
    npu.synchronize()


def test_an_exception_survives_the_end_of_a_tensor(run_program, tmp_path):
    """The layers get Python's frames when a tensor ends, also one that ends because of an exception."""
    (tmp_path / "program.py").write_text(
        "import torch, aclmem.npu\n"
        "try:\n"
        "    torch.ones(2, device='npu').numpy()\n"
        "except TypeError as error:\n"
        "    print(error)\n")
    assert "can't convert npu:0 device type tensor to numpy" in run_program(tmp_path / "program.py").output


NAMES = """
is_available device_count init is_initialized set_device current_device device device_of synchronize get_device_name
get_device_properties mem_get_info get_device_capability get_soc_version can_device_access_peer utilization
is_bf16_supported is_support_inf_nan ipc_collect set_sync_debug_mode get_sync_debug_mode set_compile_mode set_option
is_jit_compile_false config matmul conv CubeMathType set_device_limit get_device_limit set_stream_limit reset_stream_limit
get_stream_limit stop_device restart_device check_uce_in_memory stress_detect set_op_timeout_ms npurt utils.get_cann_version
Stream SyncLaunchStream ExternalStream current_stream default_stream stream StreamContext set_stream _launch_host_func
_launch_host_func_pending _subscribe_report _unsubscribe_report _sleep Event ExternalEvent memory_allocated
max_memory_allocated memory_reserved max_memory_reserved memory_cached max_memory_cached reset_max_memory_allocated
reset_max_memory_cached memory_stats memory_stats_as_nested_dict reset_peak_memory_stats reset_accumulated_memory_stats
memory_summary memory_snapshot memory._snapshot memory._record_memory_history memory._dump_snapshot
memory._save_segment_usage memory._save_memory_usage empty_cache empty_virt_addr_cache host_empty_cache host_memory_stats
host_memory_stats_as_nested_dict reset_peak_host_memory_stats reset_accumulated_host_memory_stats
set_per_process_memory_fraction get_per_process_memory_fraction caching_allocator_alloc caching_allocator_delete
get_allocator_backend memory._set_allocator_settings NPUPluggableAllocator change_current_allocator MemPool use_mem_pool
memory.NPUPluggableAllocator memory.MemPool memory.MemPoolContext MemPoolContext NPUGraph graph graph_pool_handle
make_graphed_callables is_current_stream_capturing graph_task_group_begin graph_task_group_end graph_task_update_begin
graph_task_update_end NpuGraphOpHandler register_npu_graph_handler super_kernel_scope_begin super_kernel_scope_end
default_generators get_rng_state set_rng_state get_rng_state_all set_rng_state_all manual_seed manual_seed_all seed seed_all
initial_seed _get_rng_state_offset _set_rng_state_offset amp.autocast amp.GradScaler amp.custom_fwd amp.custom_bwd
get_amp_supported_dtype is_autocast_enabled set_autocast_enabled get_autocast_dtype set_autocast_dtype FloatTensor
BFloat16Tensor HalfTensor FloatStorage BFloat16Storage mstx.mark mstx.range_start mstx.range_end mstx.range_push
mstx.range_pop mstx.mstx_range
""".split()


@pytest.mark.parametrize("name", NAMES)
def test_the_module_has_the_names_of_torch_npu(npu, name):
    value = npu
    for part in name.split("."):
        value = getattr(value, part)
