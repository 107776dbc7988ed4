"""Copies, views and storages of the device."""
import copy

import pytest
import torch

import aclmem.npu  # noqa: F401

DTYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16, torch.int8,
          torch.uint8, torch.bool, torch.complex64]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_each_type_goes_to_the_device_and_back(npu, dtype):
    host = torch.arange(24).reshape(2, 3, 4).to(dtype)
    for view in (lambda t: t, lambda t: t.transpose(0, 2), lambda t: t[:, ::2], lambda t: t[:, 1:2].expand(2, 5, 4)):
        assert torch.equal(view(host).to("npu").cpu(), view(host))
        assert torch.equal(view(host.to("npu")).cpu(), view(host))
    target = torch.zeros(4, 3, 2, dtype=dtype, device="npu")
    target.copy_(host.transpose(0, 2))
    assert torch.equal(target.cpu(), host.transpose(0, 2))
    assert torch.equal(host.to("npu").to(torch.float64 if not dtype.is_complex else torch.complex128).cpu(),
                       host.to(torch.float64 if not dtype.is_complex else torch.complex128))


def test_a_conjugated_tensor_is_copied(npu):
    host = torch.tensor([1 + 2j, 3 - 4j])
    assert torch.equal(host.to("npu").conj().cpu(), host.conj())
    assert torch.equal(host.conj().to("npu").cpu().resolve_conj(), host.conj().resolve_conj())
    assert torch.equal(host.to("npu").conj().imag.cpu(), host.conj().imag)


def test_a_storage_is_resized_and_keeps_its_bytes(npu):
    tensor = torch.arange(4.0, device="npu")
    storage = tensor.untyped_storage()
    storage.resize_(64)
    assert storage.nbytes() == 64 and tensor.tolist() == [0, 1, 2, 3]
    tensor.resize_(2, 8)
    assert tensor.shape == (2, 8) and tensor.flatten()[:4].tolist() == [0, 1, 2, 3]
    storage.resize_(0)
    assert storage.nbytes() == 0


def test_out_arguments_are_resized(npu):
    out = torch.empty(0, device="npu")
    torch.add(torch.ones(3, device="npu"), 1, out=out)
    assert out.tolist() == [2, 2, 2]


def test_tensors_of_two_devices_do_not_mix(npu):
    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
        torch.ones(3, device="npu") + torch.ones(3)
    assert (torch.ones(3, device="npu") + torch.tensor(2.0)).tolist() == [3, 3, 3]
    assert torch.arange(4, device="npu")[torch.tensor([1, 3])].tolist() == [1, 3]


@pytest.mark.skipif(torch.npu.device_count() < 2, reason="there is one device; ACLMEM_DEVICES=2")
def test_copies_between_devices(npu):
    a = torch.arange(5.0, device="npu:0")
    b = a.to("npu:1")
    assert b.device.index == 1 and b.tolist() == a.tolist()
    with npu.device(1):
        assert torch.ones(1, device="npu").device.index == 1
    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
        a + b


def test_a_tensor_is_deep_copied_and_printed(npu):
    tensor = torch.arange(3.0, device="npu")
    assert torch.equal(copy.deepcopy(tensor), tensor)
    assert repr(tensor) == "tensor([0., 1., 2.], device='npu:0')"


def test_errors_of_shapes_read_as_on_the_cpu(npu):
    def text(device):
        with pytest.raises(RuntimeError) as error:
            torch.ones(2, 3, device=device) @ torch.ones(2, 3, device=device)
        return str(error.value).splitlines()[0]

    assert text("npu") == text("cpu")
