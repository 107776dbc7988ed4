"""Fused operators against formulas that are written another way, on the CPU."""
import math

import pytest
import torch
import torch.nn.functional as F

import aclmem.npu  # noqa: F401
from aclmem.npu import operators

ops = torch.ops.npu
DEVICE = "npu"


def normal(*shape, seed=0, dtype=torch.float32):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed + sum(shape))).to(dtype)


def on(*tensors):
    return [t.to(DEVICE) for t in tensors]


def equal(device_tensor, expected, tolerance=2e-5):
    torch.testing.assert_close(device_tensor.cpu(), expected, rtol=tolerance, atol=tolerance)


def test_rms_norm_equals_pytorch_and_has_a_gradient():
    x, gamma = normal(3, 5, 16), normal(16)
    y, rstd = ops.npu_rms_norm(*on(x, gamma), 1e-5)
    equal(y, F.rms_norm(x, (16,), gamma, 1e-5))
    equal(rstd, (x.square().mean(-1, keepdim=True) + 1e-5).rsqrt())
    expected, device = x.clone().requires_grad_(), x.to(DEVICE).requires_grad_()
    F.rms_norm(expected, (16,), gamma, 1e-5).square().sum().backward()
    ops.npu_rms_norm(device, gamma.to(DEVICE), 1e-5)[0].square().sum().backward()
    equal(device.grad, expected.grad, 1e-4)


def test_add_rms_norm_returns_the_sum():
    x, other, gamma = normal(3, 16), normal(3, 16, seed=1), normal(16)
    y, _, total = ops.npu_add_rms_norm(*on(x, other, gamma), 1e-6)
    equal(total, x + other)
    equal(y, F.rms_norm(x + other, (16,), gamma, 1e-6))


def test_swiglu_splits_in_halves():
    x = normal(4, 12)
    equal(ops.npu_swiglu(x.to(DEVICE)), F.silu(x[:, :6]) * x[:, 6:])
    equal(ops.npu_swiglu(x.to(DEVICE), 0), F.silu(x[:2]) * x[2:])


@pytest.mark.parametrize("mode", ["half", "interleave"])
def test_rotary_mul_rotates_pairs(mode):
    x, angle = normal(2, 3, 4, 8), normal(1, 3, 1, 4)
    pairs = torch.complex(x[..., :4], x[..., 4:]) if mode == "half" else torch.view_as_complex(x.unflatten(-1, (4, 2)))
    turned = pairs * torch.polar(torch.ones_like(angle), angle)
    expected = torch.cat((turned.real, turned.imag), -1) if mode == "half" else torch.view_as_real(turned).flatten(-2)
    both = torch.cat((angle, angle), -1) if mode == "half" else angle.repeat_interleave(2, -1)
    equal(ops.npu_rotary_mul(*on(x, both.cos(), both.sin()), mode), expected)


def test_dynamic_quant_has_a_scale_for_each_row():
    x = normal(6, 32)
    quantised, scale = ops.npu_dynamic_quant(x.to(DEVICE))
    assert quantised.dtype == torch.int8 and scale.shape == (6,)
    assert (quantised.cpu().float() * scale.cpu()[:, None] - x).abs().max() <= scale.cpu().max() * 0.51
    assert quantised.cpu().abs().amax(-1).tolist() == [127] * 6
    zero, scale = ops.npu_dynamic_quant(torch.zeros(1, 4, device=DEVICE))
    assert zero.cpu().tolist() == [[0, 0, 0, 0]] and scale.cpu().tolist() == [0]


@pytest.mark.parametrize("name, number", [("float8_e4m3fn", 292), ("float8_e5m2", 291)])
def test_dynamic_mx_quant_has_a_power_of_two_for_each_block(name, number):
    """80 values are two and a half blocks of 32; scales are pairs."""
    dtype = getattr(torch, name)
    x = normal(3, 80) * torch.logspace(-8, 8, 3)[:, None]
    x[1, :32] = 0
    x[2, 33] = 1.99 * 2.0**30  # above the largest value of the type
    values, scale = ops.npu_dynamic_mx_quant(x.to(DEVICE), dst_type=dtype)
    assert values.dtype == dtype and values.shape == x.shape and scale.shape == (3, 2, 2)
    exponents = scale.cpu().view(torch.uint8).long().flatten(1)
    assert exponents[1, 0] == 0 and (exponents[:, 3] == 0).all()
    blocks = F.pad(x, (0, 48)).double().unflatten(-1, (4, 32))
    largest = 2.0 ** math.floor(math.log2(torch.finfo(dtype).max))
    for row, i in ((0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 0), (2, 1), (2, 2)):
        assert exponents[row, i] == math.floor(math.log2(blocks[row, i].abs().max() / largest)) + 127
    factors = (2.0 ** (exponents - 127).double()).repeat_interleave(32, -1)[:, :80]
    # Of the last bit, also where a value above the largest of the type became the largest; of small values, denormal.
    error = torch.maximum(x.abs().double() * torch.finfo(dtype).eps, factors * torch.finfo(dtype).tiny)
    assert ((values.cpu().double() * factors - x).abs() <= error).all()
    other, pairs = ops.npu_dynamic_mx_quant(x.t().contiguous().to(DEVICE), axis=0, dst_type=number)
    assert torch.equal(pairs.cpu().view(torch.uint8), scale.cpu().view(torch.uint8).transpose(0, 1))
    assert torch.equal(other.cpu().float(), values.cpu().float().t())
    with pytest.raises(NotImplementedError, match="npu_dynamic_mx_quant: only float8"):
        ops.npu_dynamic_mx_quant(x.to(DEVICE))


def test_int4_values_are_packed_from_the_lowest_bits():
    packed = ops.npu_convert_weight_to_int4pack(torch.tensor([[1, 2, 3, 4, 5, 6, 7, -1]], dtype=torch.int32, device=DEVICE))
    assert packed.cpu().tolist() == [[0xF7654321 - 2**32]]


def test_quant_matmul_of_int8_is_exact():
    a, b = (torch.randint(-128, 128, s, dtype=torch.int8, generator=torch.Generator().manual_seed(s[0])) for s in ((5, 64), (64, 7)))
    scale, token = normal(7).abs(), normal(5).abs()
    result = ops.npu_quant_matmul(*on(a, b, scale), pertoken_scale=token.to(DEVICE), output_dtype=torch.bfloat16)
    expected = (a.double() @ b.double()).float() * scale * token[:, None]
    assert torch.equal(result.cpu(), expected.to(torch.bfloat16))


@pytest.mark.parametrize("kind", [0, 1])
def test_grouped_matmul_uses_one_weight_for_each_group(kind):
    x, weight, counts = normal(10, 8), normal(3, 8, 4), [2, 0, 6]
    groups = torch.tensor(counts if kind else [2, 2, 8])
    result, = ops.npu_grouped_matmul([x.to(DEVICE)], [weight.to(DEVICE)], group_list=groups.to(DEVICE), split_item=2,
                                     group_type=0, group_list_type=kind)
    expected = torch.cat((x[:2] @ weight[0], x[2:8] @ weight[2], torch.zeros(2, 4)))
    equal(result, expected)


def test_a_format_is_remembered_and_changes_no_data():
    x = normal(4, 4).to(DEVICE)
    cast = ops.npu_format_cast(x, 29)
    assert operators.get_npu_format(x) == 2 and operators.get_npu_format(cast) == 29
    equal(cast, x.cpu())
    assert ops.npu_format_cast(cast, 29) is cast


def test_padding_slots_leave_the_cache_alone():
    cache = normal(2, 3, 4, 2, 8)
    key, value = normal(5, 2, 8), normal(5, 2, 8, seed=1)
    for slots in ([3, -1, 0, 11, -1], [-1] * 5):
        device_cache = cache.to(DEVICE)
        ops._npu_reshape_and_cache(*on(key, value), device_cache[0], device_cache[1],
                                   torch.tensor(slots, dtype=torch.int32, device=DEVICE))
        expected = cache.clone().view(2, 12, 2, 8)
        for i, slot in enumerate(slots):
            if slot >= 0:
                expected[0, slot], expected[1, slot] = key[i], value[i]
        assert torch.equal(device_cache.cpu(), expected.view_as(cache))


def test_gather_collects_the_pages_of_each_sequence():
    keys, values = normal(6, 4, 2, 8), normal(6, 4, 2, 8, seed=1)
    table, lengths = torch.tensor([[5, 1], [2, 0]]), [6, 3]
    out = [torch.zeros(9, 2, 8, device=DEVICE) for _ in range(2)]
    ops.npu_gather_pa_kv_cache(*on(keys, values, table, torch.tensor(lengths)), *out)
    for cache, result in zip((keys, values), out):
        expected = torch.cat([cache[table[i]].flatten(0, 1)[:n] for i, n in enumerate(lengths)])
        assert torch.equal(result.cpu(), expected)


def test_scatter_nd_update_is_in_place():
    x = torch.zeros(4, 3, device=DEVICE)
    assert ops.npu_scatter_nd_update_(x, torch.tensor([[2], [0]], device=DEVICE), torch.ones(2, 3, device=DEVICE)) is x
    assert x.cpu().sum(1).tolist() == [3, 0, 3, 0]


def sdpa(q, k, v, scale, is_causal=False):
    """[n, heads, d] with fewer heads of k and v."""
    k, v = (t.repeat_interleave(q.shape[1] // t.shape[1], 1) for t in (k, v))
    mask = torch.ones(q.shape[0], k.shape[0], dtype=torch.bool).tril(k.shape[0] - q.shape[0]) if is_causal else None
    out = F.scaled_dot_product_attention(*(t.transpose(0, 1)[None] for t in (q, k, v)), attn_mask=mask, scale=scale)
    return out[0].transpose(0, 1)


def test_infer_attention_of_packed_sequences_is_causal():
    q, k, v = normal(7, 4, 16), normal(9, 2, 16), normal(9, 2, 16, seed=1)
    out, lse = ops.npu_fused_infer_attention_score(
        *on(q, k, v), input_layout="TND", num_heads=4, num_key_value_heads=2, scale=0.25, sparse_mode=3,
        actual_seq_lengths=[3, 7], actual_seq_lengths_kv=[4, 9], softmax_lse_flag=True)
    expected = torch.cat((sdpa(q[:3], k[:4], v[:4], 0.25, True), sdpa(q[3:], k[4:], v[4:], 0.25, True)))
    equal(out, expected)
    assert lse.shape == (7, 4, 1)


@pytest.mark.parametrize("layout", ["BSND", "BNSD", "BSH"])
def test_infer_attention_of_a_paged_cache(layout):
    q, cache_k, cache_v = normal(2, 1, 4, 16), normal(6, 8, 2, 16), normal(6, 8, 2, 16, seed=1)
    table, lengths = torch.tensor([[4, 0], [1, 2]]), [11, 16]
    given = {"BSND": q, "BNSD": q.transpose(1, 2), "BSH": q.flatten(-2)}[layout]
    options = dict(input_layout=layout, num_query_heads=4, num_key_value_heads=2, softmax_scale=0.25, block_size=8,
                   actual_seq_kvlen=lengths, block_table=table.to(DEVICE))
    out, _ = ops.npu_fused_infer_attention_score_v2(*on(given, cache_k, cache_v), **options)
    expected = torch.stack([sdpa(q[i], cache_k[table[i]].flatten(0, 1)[:n], cache_v[table[i]].flatten(0, 1)[:n], 0.25)
                            for i, n in enumerate(lengths)])
    expected = {"BSND": expected, "BNSD": expected.transpose(1, 2), "BSH": expected.flatten(-2)}[layout]
    equal(out, expected)
    kept = [torch.zeros_like(out), torch.zeros(1, device=DEVICE)]
    ops.npu_fused_infer_attention_score_v2.out(*on(given, cache_k, cache_v), workspace=None, out=kept, **options)
    equal(kept[0], expected)


def test_paged_attention_reads_lengths_on_the_device():
    q, cache_k, cache_v = normal(2, 4, 16), normal(6, 8, 2, 16), normal(6, 8, 2, 16, seed=1)
    table, lengths = torch.tensor([[4, 0], [1, 2]]), torch.tensor([11, 3])
    out = torch.zeros(2, 4, 16, device=DEVICE)
    ops._npu_paged_attention(*on(q, cache_k, cache_v), 2, 4, 0.25, *on(table, lengths), out)
    expected = torch.cat([sdpa(q[i:i + 1], cache_k[table[i]].flatten(0, 1)[:n], cache_v[table[i]].flatten(0, 1)[:n], 0.25)
                          for i, n in enumerate(lengths)])
    equal(out, expected)


def test_fusion_attention_has_a_gradient():
    given = [normal(2, 4, 5, 8, seed=i) for i in range(3)]
    expected = [t.clone().requires_grad_() for t in given]
    device = [t.to(DEVICE).requires_grad_() for t in given]
    want = F.scaled_dot_product_attention(*expected, is_causal=True, scale=0.3)
    mask = torch.ones(5, 5, dtype=torch.bool).triu(1).to(DEVICE)
    got = ops.npu_fusion_attention(*device, 4, "BNSD", atten_mask=mask, scale=0.3)
    assert len(got) == 7
    equal(got[0].detach(), want.detach())
    want.square().sum().backward()
    got[0].square().sum().backward()
    for a, b in zip(device, expected):
        equal(a.grad, b.grad, 1e-4)


def test_lightning_indexer_finds_the_largest_scores():
    q, k, w = normal(1, 3, 2, 8), normal(1, 6, 1, 8), normal(1, 3, 2).abs()
    indices, _ = ops.npu_lightning_indexer(*on(q, k, w), sparse_count=4, sparse_mode=3)
    for row in range(3):
        scores = [sum(float(w[0, row, h]) * max(0.0, float(q[0, row, h] @ k[0, j, 0])) for h in range(2)) for j in range(4 + row)]
        best = sorted(range(len(scores)), key=lambda j: -scores[j])[:4]
        got = [scores[j] for j in indices[0, row, 0].cpu().tolist()]
        assert got == pytest.approx([scores[j] for j in best])


def test_an_operator_that_is_missing_names_itself():
    found = operators.functions()
    with pytest.raises(NotImplementedError, match="npu_moe_gating_top_k: "):
        found["npu_moe_gating_top_k"](None)
    assert not set(operators.NOT_PROVIDED) & set(operators.PROVIDED)
