"""PyTorch's operator database against the CPU, forward and backward.

DIFFERENT lists every entry that does not give the CPU's result, with the reason.  An entry that is listed and equal fails
the test as well, so that the list stays exact.  NPU_TEST_SAMPLES is the number of samples of each entry (default: 2).
"""
import copy
import os
import warnings

import pytest
import torch

pytest.importorskip("expecttest", reason="torch.testing._internal needs expecttest")
from torch.testing._internal.common_methods_invocations import op_db  # noqa: E402

import aclmem.npu  # noqa: F401, E402

SAMPLES = int(os.environ.get("NPU_TEST_SAMPLES", "2"))

# Entries whose results are undefined memory, or which take neither strided tensors nor float32 on a CPU.
LEFT_OUT = ("empty", "new_empty", "sparse", "masked.", "_segment_reduce", "jiterator", "nn.functional._flash", "to_sparse",
            "_scaled_mm", "nn.functional.scaled_mm")

DIFFERENT = {
    "as_strided.partial_views": "this test copies the view, not the rest of its storage",
    "native_batch_norm": "in eval mode the CPU returns empty statistics; a device returns zeros",
    "_native_batch_norm_legit": "in eval mode the CPU returns empty statistics; a device returns zeros",
    "tensor_split": "its tensor argument has to be on the CPU on every device",
}


def to_device(value):
    if isinstance(value, torch.Tensor):
        moved = value.detach().to("npu")
        return moved.requires_grad_(value.requires_grad)
    if isinstance(value, (list, tuple)):
        items = [to_device(v) for v in value]
        return type(value)(items) if not hasattr(value, "_fields") else type(value)(*items)
    if isinstance(value, dict):
        return {k: to_device(v) for k, v in value.items()}
    if isinstance(value, torch.device) or value == "cpu":
        return "npu"
    return value


def tensors(value):
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, (list, tuple)):
        return [t for v in value for t in tensors(v)]
    if isinstance(value, dict):
        return [t for v in value.values() for t in tensors(v)]
    return []


def is_close(device, host):
    """Equal within rounding; a host result in another memory layout is equal."""
    got, want = device.detach().cpu(), host.detach()
    if got.dtype != want.dtype or got.shape != want.shape:
        return False
    if not (got.is_floating_point() or got.is_complex()):
        return torch.equal(got, want)
    return torch.allclose(got.to(torch.complex128), want.to(torch.complex128), rtol=1e-3, atol=1e-4, equal_nan=True)


def compare(entry, sample):
    """"forward" or "backward" where the device differs from the CPU; None: equal."""
    host = copy.copy(sample)
    device_args = to_device([sample.input, sample.args, sample.kwargs])
    torch.manual_seed(3)
    want = entry(host.input, *host.args, **host.kwargs)
    torch.manual_seed(3)
    got = entry(device_args[0], *device_args[1], **device_args[2])
    if not tensors(want):
        return None if got == want else "forward"
    pairs = list(zip(tensors(got), tensors(want)))
    if len(tensors(got)) != len(tensors(want)):
        return "forward"
    for a, b in pairs:
        if a.device.type == "npu" and not is_close(a, b):
            return "forward"
    return compare_gradients(entry, host, device_args, pairs)


def compare_gradients(entry, host, device_args, pairs):
    pairs = [(a, b) for a, b in pairs if b.requires_grad and b.is_floating_point()]
    if not entry.supports_autograd or not pairs:
        return None
    host_inputs = [t for t in tensors([host.input, host.args, host.kwargs]) if t.requires_grad]
    inputs = [t for t in tensors(device_args) if t.requires_grad]
    want = torch.autograd.grad([b.sum() for _, b in pairs], host_inputs, allow_unused=True)
    got = torch.autograd.grad([a.sum() for a, _ in pairs], inputs, allow_unused=True)
    for a, b in zip(got, want):
        if (a is None) != (b is None) or (a is not None and not is_close(a, b)):
            return "backward"
    return None


def check(entry):
    """None: equal; otherwise where and how the device differs."""
    try:
        samples = list(entry.sample_inputs("cpu", torch.float32, requires_grad=entry.supports_autograd))[:SAMPLES]
    except Exception as error:  # the database itself cannot make the sample on this machine
        return "no sample: %s" % error
    for sample in samples:
        try:
            where = compare(entry, sample)
        except Exception as error:
            try:
                entry(sample.input, *sample.args, **sample.kwargs)
            except Exception:
                continue  # the CPU refuses it, too
            where = "%s: %s" % (type(error).__name__, str(error).splitlines()[0][:150])
        if where:
            return where
    return None


def entries():
    return [e for e in op_db if torch.float32 in e.supported_dtypes("cpu") and not e.name.startswith(LEFT_OUT)]


def is_random(entry):
    """The CPU and the device have different generators."""
    return any(word in entry.name for word in (
        "rand", "bernoulli", "multinomial", "normal", "uniform", "dropout", "exponential", "geometric", "cauchy", "rrelu",
        "poisson", "scaled_dot_product_attention", "gumbel", "alpha_dropout", "svd_lowrank", "pca_lowrank",
        "fractional_max_pool", "multi_head_attention_forward")) and \
        "layer_norm" not in entry.name and "batch_norm" not in entry.name and "normalize" not in entry.name and \
        entry.name not in ("nn.functional.local_response_norm",)


def test_results_are_the_cpus():
    ran, wrong = 0, {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for entry in entries():
            name = entry.name + ("." + entry.variant_test_name if entry.variant_test_name else "")
            ran += 1
            where = check_random(entry) if is_random(entry) else check(entry)
            if where:
                wrong[name] = where
    torch.npu.synchronize()
    unexplained = {name: where for name, where in wrong.items() if name not in DIFFERENT}
    now_equal = sorted(name for name in DIFFERENT if name not in wrong)
    print("%d entries, %d different" % (ran, len(wrong)))
    assert not unexplained, unexplained
    assert not now_equal, now_equal
    assert ran >= 500 and len(wrong) <= ran // 100, wrong


def check_random(entry):
    """A random operator gives the CPU's shapes, and the same numbers again after the same seed."""
    for sample in list(entry.sample_inputs("cpu", torch.float32, requires_grad=False))[:SAMPLES]:
        results = []
        for _ in range(2):
            arguments = to_device([sample.input, sample.args, sample.kwargs])
            torch.manual_seed(3)
            results.append(tensors(entry(arguments[0], *arguments[1], **arguments[2])))
        want = tensors(entry(sample.input, *sample.args, **sample.kwargs))
        for a, b, c in zip(results[0], results[1], want):
            if a.shape != c.shape or a.dtype != c.dtype or not torch.equal(a.nan_to_num(), b.nan_to_num()):
                return "random"
    return None
