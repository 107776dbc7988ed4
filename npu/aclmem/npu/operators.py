"""Fused operators of torch_npu, composed of PyTorch's operators: torch.ops.npu.NAME and torch_npu.NAME.

The results have the shapes and types of the fused kernels.  Rounding differs, since the kernels accumulate in another order.
Operators in NOT_PROVIDED raise NotImplementedError, which names the operator.
"""
import torch
import torch.nn.functional as F

from .graphs import call_noted

_library = torch.library.Library("npu", "DEF")
_implementations = torch.library.Library("npu", "IMPL", "CompositeImplicitAutograd")
PROVIDED = []

# Dtypes that torch_npu numbers by itself: the ACL number plus 256.
INT4_PACKED = 8  # values of four bits in an int32


def operator(schema):
    """Defines torch.ops.npu.NAME by a schema; the decorated function implements it."""
    name = schema.partition("(")[0]
    _library.define(schema)

    def overload():
        packet, _, overload_name = name.partition(".")
        return getattr(getattr(torch.ops.npu, packet), overload_name or "default")

    def decorate(function):
        _implementations.impl(name, lambda *args, **kwargs: call_noted(overload, function, args, kwargs))
        PROVIDED.append(name)
        return function

    return decorate


# ---- normalisation, activation, rotation ----


def _normalize(x, gamma, epsilon):
    wide = x.float()
    rstd = torch.rsqrt(wide.square().mean(dim=tuple(range(-gamma.dim(), 0)), keepdim=True) + epsilon)
    return (wide * rstd * gamma.float()).to(x.dtype), rstd


@operator("npu_rms_norm(Tensor self, Tensor gamma, float epsilon=1e-06) -> (Tensor, Tensor)")
def npu_rms_norm(x, gamma, epsilon=1e-6):
    return _normalize(x, gamma, epsilon)


@operator("npu_gemma_rms_norm(Tensor self, Tensor gamma, float epsilon=1e-06) -> (Tensor, Tensor)")
def npu_gemma_rms_norm(x, gamma, epsilon=1e-6):
    return _normalize(x, 1 + gamma.float(), epsilon)


@operator("npu_add_rms_norm(Tensor x1, Tensor x2, Tensor gamma, float epsilon=1e-06) -> (Tensor, Tensor, Tensor)")
def npu_add_rms_norm(x1, x2, gamma, epsilon=1e-6):
    x = x1 + x2
    return _normalize(x, gamma, epsilon) + (x,)


@operator("npu_swiglu(Tensor self, int dim=-1) -> Tensor")
def npu_swiglu(x, dim=-1):
    gate, value = x.chunk(2, dim=dim)
    return F.silu(gate) * value


@operator("npu_fast_gelu(Tensor self) -> Tensor")
def npu_fast_gelu(x):
    return x * torch.sigmoid(1.702 * x)


def _rotated(x, mode):
    if mode == "half":
        first, second = x.chunk(2, dim=-1)
        return torch.cat((-second, first), dim=-1)
    if mode != "interleave":
        raise RuntimeError("npu_rotary_mul: rotary_mode must be half or interleave, but got %s" % mode)
    return torch.stack((-x[..., 1::2], x[..., ::2]), dim=-1).flatten(-2)


@operator("npu_rotary_mul(Tensor self, Tensor r1, Tensor r2, str rotary_mode='half') -> Tensor")
def npu_rotary_mul(x, r1, r2, rotary_mode="half"):
    return x * r1 + _rotated(x, rotary_mode) * r2


# ---- quantisation ----

_MAXIMA = {torch.int8: 127.0}
for _name, _maximum in (("float8_e4m3fn", 448.0), ("float8_e5m2", 57344.0)):
    if hasattr(torch, _name):
        _MAXIMA[getattr(torch, _name)] = _maximum


@operator("npu_dynamic_quant(Tensor input, *, Tensor? smooth_scales=None, Tensor? group_index=None, "
          "ScalarType? dst_type=None) -> (Tensor, Tensor)")
def npu_dynamic_quant(x, *, smooth_scales=None, group_index=None, dst_type=None):
    if group_index is not None:
        raise NotImplementedError("npu_dynamic_quant: group_index")
    dtype = torch.int8 if dst_type is None else dst_type
    is_packed = dtype is torch.quint4x2
    if not is_packed and dtype not in _MAXIMA:
        raise NotImplementedError("npu_dynamic_quant: dst_type %s" % dtype)
    wide = x.float() if smooth_scales is None else x.float() * smooth_scales.float()
    scale = wide.abs().amax(dim=-1) / (7.0 if is_packed else _MAXIMA[dtype])
    values = wide / torch.where(scale == 0, torch.ones_like(scale), scale).unsqueeze(-1)
    if is_packed:
        return _pack_int4(values.round().clamp(-8, 7).to(torch.int32)), scale
    return (values.round().clamp(-128, 127) if dtype is torch.int8 else values).to(dtype), scale


# Types of npu_dynamic_mx_quant by PyTorch's number and by torch_npu's, with the exponent of their largest value.
_MX_TYPES = {number: (name, exponent) for numbers, name, exponent in (
    ((23, 291), "float8_e5m2", 15), ((24, 292), "float8_e4m3fn", 8)) for number in numbers}


@operator("npu_dynamic_mx_quant(Tensor input, *, int axis=-1, str round_mode='rint', int? dst_type=296, int block_size=32, "
          "int scale_alg=0) -> (Tensor, Tensor)")
def npu_dynamic_mx_quant(x, *, axis=-1, round_mode="rint", dst_type=296, block_size=32, scale_alg=0):
    """The values of a block share a power of two, by the rule of OCP's microscaling formats: its exponent is that of the
    largest value, minus that of the type's largest.  The scales are these exponents plus 127, in pairs of blocks."""
    if dst_type not in _MX_TYPES or round_mode != "rint" or scale_alg != 0:
        raise NotImplementedError("npu_dynamic_mx_quant: only float8, rint and scale_alg 0 (dst_type %s, round_mode %s, scale_alg "
                                  "%s)" % (dst_type, round_mode, scale_alg))
    name, exponent = _MX_TYPES[dst_type]
    dtype, axis = getattr(torch, name), axis % x.dim()
    length, limit = x.shape[axis], torch.finfo(dtype).max
    rows = F.pad(x.float().movedim(axis, -1), (0, -length % (2 * block_size))).unflatten(-1, (-1, 2, block_size))
    scale = ((rows.abs().amax(-1).view(torch.int32) >> 23) - exponent).clamp(min=0)
    # A float32 of this exponent; of exponent 0, a denormal.
    factor = torch.where(scale == 0, 1 << 22, scale << 23).view(torch.float32)
    values = (rows / factor.unsqueeze(-1)).clamp(-limit, limit).flatten(-3)[..., :length]
    scale = scale.to(torch.uint8).movedim(-2, axis).contiguous()
    return (values.movedim(-1, axis).to(dtype).contiguous(),
            scale.view(torch.float8_e8m0fnu) if hasattr(torch, "float8_e8m0fnu") else scale)


def _pack_int4(values):
    """Eight values of four bits in each int32, the first in the lowest bits."""
    if values.shape[-1] % INT4_PACKED:
        raise RuntimeError("npu_convert_weight_to_int4pack: the last dimension must be a multiple of 8")
    parts = (values & 15).unflatten(-1, (-1, INT4_PACKED))
    packed = parts[..., 0]
    for i in range(1, INT4_PACKED):
        packed = packed | (parts[..., i] << (4 * i))
    return packed


@operator("npu_convert_weight_to_int4pack(Tensor weight, int inner_k_tiles=0) -> Tensor")
def npu_convert_weight_to_int4pack(weight, inner_k_tiles=0):
    return _pack_int4(weight.to(torch.int32))


def _scaled(product, scale, pertoken_scale, bias, dtype):
    if bias is not None and bias.dtype == torch.int32:
        product = product + bias
    result = product.float()
    if scale is not None:
        result = result * scale.float()
    if pertoken_scale is not None:
        result = result * pertoken_scale.float().unsqueeze(-1)
    if bias is not None and bias.dtype != torch.int32:
        result = result + bias.float()
    return result.to(dtype)


@operator("npu_quant_matmul(Tensor x1, Tensor x2, Tensor scale, *, Tensor? offset=None, Tensor? pertoken_scale=None, "
          "Tensor? bias=None, ScalarType? output_dtype=None, int[]? group_sizes=None) -> Tensor")
def npu_quant_matmul(x1, x2, scale, *, offset=None, pertoken_scale=None, bias=None, output_dtype=None, group_sizes=None):
    if x1.dtype != torch.int8 or x2.dtype != torch.int8 or offset is not None or group_sizes:
        raise NotImplementedError("npu_quant_matmul: only int8 without offset and group_sizes (x1 %s, x2 %s)" % (
            x1.dtype, x2.dtype))
    product = torch.matmul(x1.to(torch.int32), x2.to(torch.int32))
    dtype = torch.float16 if output_dtype is None else output_dtype
    return product if dtype == torch.int32 else _scaled(product, scale, pertoken_scale, bias, dtype)


@operator("npu_grouped_matmul(Tensor[] x, Tensor[] weight, *, Tensor[]? bias=None, Tensor[]? scale=None, "
          "Tensor[]? per_token_scale=None, Tensor[]? antiquant_scale=None, Tensor[]? antiquant_offset=None, "
          "Tensor? group_list=None, int? split_item=0, int? group_type=None, int? group_list_type=0, "
          "ScalarType? output_dtype=None) -> Tensor[]")
def npu_grouped_matmul(x, weight, *, bias=None, scale=None, per_token_scale=None, antiquant_scale=None,
                       antiquant_offset=None, group_list=None, split_item=0, group_type=None, group_list_type=0,
                       output_dtype=None):
    if antiquant_scale or antiquant_offset:
        raise NotImplementedError("npu_grouped_matmul: antiquant_scale")
    if group_list is None:
        return [_group(a, w, i, bias, scale, per_token_scale, None, output_dtype) for i, (a, w) in enumerate(zip(x, weight))]
    if len(x) != 1 or group_type not in (0, 2):
        raise NotImplementedError("npu_grouped_matmul: group_list with %d tensors, group_type %s" % (len(x), group_type))
    ends = group_list if group_list_type == 0 else torch.cumsum(group_list, 0)
    ends = ends.tolist()
    weights = weight[0].unbind(0) if len(weight) == 1 and weight[0].dim() == 3 else weight
    results = []
    for i, (start, end) in enumerate(zip([0] + ends[:-1], ends)):
        if group_type == 2:  # the inner dimension is split
            results.append(x[0][:, start:end] @ weight[0][start:end])
        else:
            tokens = None if not per_token_scale else per_token_scale[0][start:end]
            results.append(_group(x[0][start:end], weights[i], i, bias, scale, None, tokens, output_dtype))
    if group_type == 2:
        return [torch.stack(results)]
    rest = x[0].shape[0] - (ends[-1] if ends else 0)
    if rest:
        results.append(results[0].new_zeros(rest, results[0].shape[-1]))
    return [torch.cat(results)]


def _of_group(tensors, i):
    """The part of group i: one tensor for all groups, or one for each."""
    if not tensors:
        return None
    return tensors[0][i] if len(tensors) == 1 and tensors[0].dim() > 1 else tensors[i] if len(tensors) > 1 else tensors[0]


def _group(x, weight, i, bias, scale, per_token_scale, tokens, dtype):
    tokens = per_token_scale[i] if per_token_scale else tokens
    if x.dtype == torch.int8:
        product = torch.matmul(x.to(torch.int32), weight.to(torch.int32))
        return _scaled(product, _of_group(scale, i), tokens, _of_group(bias, i), dtype or torch.float16)
    result = x @ weight
    part = _of_group(bias, i)
    return (result if part is None else result + part).to(dtype or x.dtype)


# ---- formats ----

ND = 2


@operator("npu_format_cast(Tensor self, int acl_format, *, int? customize_dtype=None, int? input_dtype=None) -> Tensor")
def npu_format_cast(tensor, acl_format, *, customize_dtype=None, input_dtype=None):
    """Formats have no effect on the data; the number is remembered for get_npu_format()."""
    if get_npu_format(tensor) == acl_format:
        return tensor
    result = tensor.clone()
    result._npu_format = acl_format
    return result


@operator("npu_format_cast_(Tensor(a!) self, int acl_format) -> Tensor(a!)")
def npu_format_cast_(tensor, acl_format):
    tensor._npu_format = acl_format
    return tensor


def get_npu_format(tensor):
    return getattr(tensor, "_npu_format", ND)


# ---- caches of keys and values ----


@operator("npu_scatter_nd_update_(Tensor(a!) self, Tensor indices, Tensor updates) -> Tensor(a!)")
def npu_scatter_nd_update_(tensor, indices, updates):
    tensor[tuple(indices.long().unbind(-1))] = updates.to(tensor.dtype)
    return tensor


@operator("npu_scatter_nd_update(Tensor self, Tensor indices, Tensor updates) -> Tensor")
def npu_scatter_nd_update(tensor, indices, updates):
    return npu_scatter_nd_update_(tensor.clone(), indices, updates)


def _write_slots(cache, values, slots):
    """Writes rows into the slots of a paged cache.  A negative slot is padding and is skipped, without reading the slots on the host:
    such a row repeats the first row that has a slot."""
    if values.shape[0] == 0:
        return
    rows = cache.view(-1, *cache.shape[2:])
    slots = slots.long().flatten()
    values = values.reshape(slots.shape[0], *rows.shape[1:]).to(rows.dtype)
    is_used = slots >= 0
    first = is_used.to(torch.int64).argmax().view(1)
    at = slots.index_select(0, first).clamp(min=0)
    shape = (-1,) + (1,) * (rows.dim() - 1)
    row = torch.where(is_used.any().view(shape), values.index_select(0, first), rows.index_select(0, at))
    rows.index_copy_(0, torch.where(is_used, slots, at), torch.where(is_used.view(shape), values, row))


@operator("_npu_reshape_and_cache(Tensor key, Tensor value, Tensor(a!) key_cache, Tensor(b!) value_cache, "
          "Tensor slot_indices) -> ()")
def _npu_reshape_and_cache(key, value, key_cache, value_cache, slot_indices):
    _write_slots(key_cache, key, slot_indices)
    _write_slots(value_cache, value, slot_indices)


@operator("npu_scatter_pa_kv_cache(Tensor key, Tensor value, Tensor(a!) key_cache, Tensor(b!) value_cache, "
          "Tensor slot_mapping, *, str cache_mode='Norm') -> ()")
def npu_scatter_pa_kv_cache(key, value, key_cache, value_cache, slot_mapping, *, cache_mode="Norm"):
    if cache_mode != "Norm":
        raise NotImplementedError("npu_scatter_pa_kv_cache: cache_mode %s" % cache_mode)
    _npu_reshape_and_cache(key, value, key_cache, value_cache, slot_mapping)


@operator("npu_gather_pa_kv_cache(Tensor key_cache, Tensor value_cache, Tensor block_tables, Tensor seq_lens, "
          "Tensor(a!) key, Tensor(b!) value, *, Tensor? seq_offset=None) -> ()")
def npu_gather_pa_kv_cache(key_cache, value_cache, block_tables, seq_lens, key, value, *, seq_offset=None):
    block_size, n = key_cache.shape[1], key.shape[0]
    lengths = seq_lens.long()
    ends = torch.cumsum(lengths, 0)
    tokens = torch.arange(n, device=key.device)
    sequence = torch.searchsorted(ends, tokens, right=True).clamp(max=lengths.shape[0] - 1)
    position = tokens - (ends - lengths)[sequence]
    if seq_offset is not None:
        position = position + seq_offset.long()[sequence]
    block = block_tables.long()[sequence, (position // block_size).clamp(max=block_tables.shape[1] - 1)]
    row = block * block_size + position % block_size
    key.copy_(key_cache.flatten(0, 1).index_select(0, row).view_as(key))
    value.copy_(value_cache.flatten(0, 1).index_select(0, row).view_as(value))


@operator("npu_prefetch(Tensor self, Tensor? dependency, int max_size, int offset=0) -> ()")
def npu_prefetch(tensor, dependency, max_size, offset=0):
    """No effect."""


# ---- attention ----


def _attend(query, key, value, scale, allowed, sink=None, extra=None):
    """Attention of [n, heads, d] to [m, kv heads, d], in float32; `allowed` is [n, m] or None.  Returns the result and the
    logarithm of the sum of exponentials [n, heads]."""
    groups = query.shape[1] // key.shape[1]
    scores = torch.einsum("nhd,mhd->hnm", query.float(), key.float().repeat_interleave(groups, 1))
    if extra is not None:  # the rotary parts of query and key
        scores = scores + torch.einsum("nhd,mhd->hnm", extra[0].float(), extra[1].float().repeat_interleave(groups, 1))
    scores = scores * scale
    if allowed is not None:
        scores = scores.masked_fill(~allowed, float("-inf"))
    lse = torch.logsumexp(scores, -1)
    if sink is not None:
        lse = torch.logaddexp(lse, sink.float().view(-1, 1))
    weights = torch.exp(scores - torch.where(torch.isinf(lse), torch.zeros_like(lse), lse).unsqueeze(-1))
    result = torch.einsum("hnm,mhd->nhd", weights, value.float().repeat_interleave(groups, 1))
    return result.to(query.dtype), lse.transpose(0, 1)


def _allowed(n, m, mask, sparse_mode, pre_tokens, next_tokens, device):
    """Which keys a query sees; queries are the last n of m positions (mode 3, 4) or begin at position 0."""
    rows = torch.arange(n, device=device).view(-1, 1)
    columns = torch.arange(m, device=device).view(1, -1)
    if sparse_mode == 3:
        return columns <= rows + (m - n)
    if sparse_mode == 4:
        at = rows + (m - n)
        return (columns <= at + next_tokens) & (columns >= at - pre_tokens)
    if sparse_mode == 2:
        return columns <= rows
    if mask is None:
        return None
    return ~mask.bool().reshape(mask.shape[-2:])[:n, :m]


def _rows(tensor, layout, heads):
    """A list of [length, heads, d], one for each sequence; TND: one for all."""
    if layout == "TND":
        return [tensor]
    if layout == "BSH":
        tensor = tensor.unflatten(-1, (heads, -1))
    elif layout in ("BNSD", "BNSD_BSND"):
        tensor = tensor.transpose(1, 2)
    elif layout != "BSND":
        raise NotImplementedError("attention: input_layout %s" % layout)
    return list(tensor.unbind(0))


def _joined(results, layout):
    """The inverse of _rows()."""
    if layout == "TND":
        return torch.cat(results)
    tensor = torch.stack(results)
    if layout == "BSH":
        return tensor.flatten(-2)
    return tensor.transpose(1, 2) if layout == "BNSD" else tensor


def _split(tensor, ends):
    return [tensor[start:end] for start, end in zip([0] + list(ends[:-1]), ends)]


def _pages(cache, table, length, kv_heads):
    """The keys or values of a sequence in a paged cache: [blocks, block size, heads, d] or [blocks, block size, heads * d]."""
    rows = cache.index_select(0, table.long().clamp(min=0)).flatten(0, 1)[:length]
    return rows if rows.dim() == 3 else rows.unflatten(-1, (kv_heads, -1))


def _attention(query, key, value, *, heads, kv_heads, layout, scale, mask, lengths, kv_lengths, block_table, sparse_mode,
               pre_tokens, next_tokens, query_rope=None, key_rope=None, sink=None):
    kv_heads = kv_heads or heads
    queries = _rows(query, layout, heads)
    ropes = None if query_rope is None else _rows(query_rope, layout, heads)
    if layout == "TND":
        queries = _split(query, lengths)
        ropes = None if query_rope is None else _split(query_rope, lengths)

    def sequences(tensor):
        if block_table is not None:
            return [_pages(tensor, block_table[i], kv_lengths[i], kv_heads) for i in range(len(queries))]
        if layout == "TND":
            return _split(tensor, kv_lengths or lengths)
        rows = _rows(tensor, layout, kv_heads)
        return [r[:n] for r, n in zip(rows, kv_lengths)] if kv_lengths else rows

    keys, values = sequences(key), sequences(value)
    key_ropes = None if key_rope is None else sequences(key_rope)
    results, sums = [], []
    for i, q in enumerate(queries):
        allowed = _allowed(q.shape[0], keys[i].shape[0], mask, sparse_mode, pre_tokens, next_tokens, q.device)
        extra = None if ropes is None else (ropes[i], key_ropes[i])
        result, lse = _attend(q, keys[i], values[i], scale, allowed, sink, extra)
        results.append(result)
        sums.append(lse)
    return _joined(results, layout), (torch.cat(sums) if layout == "TND" else torch.stack(sums).transpose(1, 2)).unsqueeze(-1)


_INFER_1 = ("Tensor query, Tensor key, Tensor value, *, Tensor? pse_shift=None, Tensor? atten_mask=None, "
            "SymInt[]? actual_seq_lengths=None, SymInt[]? actual_seq_lengths_kv=None, Tensor? block_table=None, "
            "Tensor? query_rope=None, Tensor? key_rope=None, Tensor? antiquant_scale=None, "
            "Tensor? key_antiquant_scale=None, Tensor? value_antiquant_scale=None, int num_heads=1, float scale=1.0, "
            "int pre_tokens=2147483647, int next_tokens=2147483647, str input_layout='BSH', int num_key_value_heads=0, "
            "int sparse_mode=0, int inner_precise=0, int block_size=0, int antiquant_mode=0, "
            "bool softmax_lse_flag=False")


def _infer(query, key, value, atten_mask=None, actual_seq_lengths=None, actual_seq_lengths_kv=None, block_table=None,
           query_rope=None, key_rope=None, num_heads=1, scale=1.0, pre_tokens=2**31 - 1, next_tokens=2**31 - 1,
           input_layout="BSH", num_key_value_heads=0, sparse_mode=0, inner_precise=0, block_size=0, softmax_lse_flag=False,
           antiquant_mode=0, learnable_sink=None, **refused):
    for name, given in refused.items():
        if given is not None:
            raise NotImplementedError("npu_fused_infer_attention_score: %s" % name)
    result, lse = _attention(
        query, key, value, heads=num_heads, kv_heads=num_key_value_heads, layout=input_layout, scale=scale, mask=atten_mask,
        lengths=actual_seq_lengths, kv_lengths=actual_seq_lengths_kv, block_table=block_table, sparse_mode=sparse_mode,
        pre_tokens=pre_tokens, next_tokens=next_tokens, query_rope=query_rope, key_rope=key_rope, sink=learnable_sink)
    return result, lse if softmax_lse_flag else lse.new_zeros(1)


@operator("npu_fused_infer_attention_score(%s) -> (Tensor, Tensor)" % _INFER_1)
def npu_fused_infer_attention_score(query, key, value, **options):
    return _infer(query, key, value, **options)


def _into(results, out):
    """Copies the result and, where it was asked for, the logarithms of sums."""
    for result, kept in zip(results, out):
        if kept.numel() == result.numel():
            kept.copy_(result.view_as(kept))
    return out


@operator("npu_fused_infer_attention_score.out(%s, Tensor? workspace=None, Tensor(a!)[] out) -> Tensor[]" % _INFER_1)
def npu_fused_infer_attention_score_out(query, key, value, *, workspace=None, out, **options):
    return _into(_infer(query, key, value, **options), out)


_INFER_2 = ("Tensor query, Tensor key, Tensor value, *, Tensor? query_rope=None, Tensor? key_rope=None, "
            "Tensor? pse_shift=None, Tensor? atten_mask=None, SymInt[]? actual_seq_qlen=None, "
            "SymInt[]? actual_seq_kvlen=None, Tensor? block_table=None, Tensor? learnable_sink=None, "
            "int num_query_heads=1, int num_key_value_heads=0, float softmax_scale=1.0, int pre_tokens=2147483647, "
            "int next_tokens=2147483647, str input_layout='BSH', int sparse_mode=0, int block_size=0, "
            "int inner_precise=0, bool return_softmax_lse=False")


def _infer_2(query, key, value, actual_seq_qlen=None, actual_seq_kvlen=None, num_query_heads=1, softmax_scale=1.0,
             return_softmax_lse=False, **options):
    return _infer(query, key, value, actual_seq_lengths=actual_seq_qlen, actual_seq_lengths_kv=actual_seq_kvlen,
                  num_heads=num_query_heads, scale=softmax_scale, softmax_lse_flag=return_softmax_lse, **options)


@operator("npu_fused_infer_attention_score_v2(%s) -> (Tensor, Tensor)" % _INFER_2)
def npu_fused_infer_attention_score_v2(query, key, value, **options):
    return _infer_2(query, key, value, **options)


@operator("npu_fused_infer_attention_score_v2.out(%s, Tensor? workspace=None, Tensor(a!)[] out) -> Tensor[]" % _INFER_2)
def npu_fused_infer_attention_score_v2_out(query, key, value, *, workspace=None, out, **options):
    return _into(_infer_2(query, key, value, **options), out)


def _workspace(query, *args, **options):
    return query.new_empty(1, dtype=torch.uint8)


operator("_npu_fused_infer_attention_score_get_max_workspace(%s) -> Tensor" % _INFER_1)(_workspace)
operator("_npu_fused_infer_attention_score_v2_get_max_workspace(%s) -> Tensor" % _INFER_2)(_workspace)


@operator("npu_fusion_attention(Tensor query, Tensor key, Tensor value, int head_num, str input_layout, Tensor? pse=None, "
          "Tensor? padding_mask=None, Tensor? atten_mask=None, float scale=1., float keep_prob=1., "
          "int pre_tockens=2147483647, int next_tockens=2147483647, int inner_precise=0, int[]? prefix=None, "
          "SymInt[]? actual_seq_qlen=None, SymInt[]? actual_seq_kvlen=None, int sparse_mode=0, "
          "bool gen_mask_parallel=True, bool sync=False) -> (Tensor, Tensor, Tensor, Tensor, int, int, int)")
def npu_fusion_attention(query, key, value, head_num, input_layout, pse=None, padding_mask=None, atten_mask=None, scale=1.0,
                         keep_prob=1.0, pre_tockens=2**31 - 1, next_tockens=2**31 - 1, inner_precise=0, prefix=None,
                         actual_seq_qlen=None, actual_seq_kvlen=None, sparse_mode=0, gen_mask_parallel=True, sync=False):
    if pse is not None or keep_prob != 1.0 or prefix:
        raise NotImplementedError("npu_fusion_attention: pse, prefix, and keep_prob other than 1")
    heads = {"TND": 1, "BSND": 2, "BNSD": 1}.get(input_layout)
    kv_heads = key.shape[heads] if heads else key.shape[-1] // (query.shape[-1] // head_num)
    result, lse = _attention(
        query, key, value, heads=head_num, kv_heads=kv_heads, layout=input_layout, scale=scale, mask=atten_mask,
        lengths=actual_seq_qlen, kv_lengths=actual_seq_kvlen, block_table=None, sparse_mode=sparse_mode,
        pre_tokens=pre_tockens, next_tokens=next_tockens)
    statistics = lse.expand(*lse.shape[:-1], 8)
    return result, statistics, torch.ones_like(statistics), result.new_empty(0), 0, 0, 0


@operator("_npu_paged_attention(Tensor query, Tensor key_cache, Tensor value_cache, int num_kv_heads, int num_heads, "
          "float scale_value, Tensor block_table, Tensor context_lens, Tensor(a!) out, Tensor? workspace=None) -> ()")
def _npu_paged_attention(query, key_cache, value_cache, num_kv_heads, num_heads, scale_value, block_table, context_lens, out,
                         workspace=None):
    """One query for each sequence.  Lengths on the device stay there; lengths on the host are constants, also in a capture."""
    length = block_table.shape[1] * key_cache.shape[1]
    positions = torch.arange(length, device=query.device).view(1, -1)
    lengths = context_lens.tolist() if context_lens.device.type == "cpu" else context_lens.view(-1, 1, 1)
    for i in range(query.shape[0]):
        keys = _pages(key_cache, block_table[i], length, num_kv_heads)
        values = _pages(value_cache, block_table[i], length, num_kv_heads)
        result, _ = _attend(query[i:i + 1], keys, values, scale_value, positions < lengths[i])
        out[i].copy_(result[0].view_as(out[i]))


@operator("_npu_paged_attention_get_workspace(Tensor query, Tensor key_cache, Tensor value_cache, int num_kv_heads, "
          "int num_heads, float scale_value, Tensor block_table, Tensor context_lens, Tensor out) -> Tensor")
def _npu_paged_attention_get_workspace(query, *args):
    return query.new_empty(1, dtype=torch.uint8)


@operator("npu_lightning_indexer(Tensor query, Tensor key, Tensor weights, *, Tensor? actual_seq_lengths_query=None, "
          "Tensor? actual_seq_lengths_key=None, Tensor? block_table=None, str layout_query='BSND', "
          "str layout_key='BSND', int sparse_count=2048, int sparse_mode=3, bool return_value=False) -> (Tensor, Tensor)")
def npu_lightning_indexer(query, key, weights, *, actual_seq_lengths_query=None, actual_seq_lengths_key=None,
                          block_table=None, layout_query="BSND", layout_key="BSND", sparse_count=2048, sparse_mode=3,
                          return_value=False):
    """For each query the keys with the largest sum over heads of weight * relu(query . key); -1 where there are fewer."""
    is_flat = layout_query == "TND"
    lengths = None if actual_seq_lengths_query is None else actual_seq_lengths_query.tolist()
    kv_lengths = None if actual_seq_lengths_key is None else actual_seq_lengths_key.tolist()
    queries = _split(query, lengths) if is_flat else list(query.unbind(0))
    factors = _split(weights, lengths) if is_flat else list(weights.unbind(0))
    indices, values = [], []
    for i, (q, factor) in enumerate(zip(queries, factors)):
        if block_table is not None:
            k = _pages(key, block_table[i], kv_lengths[i], 1)
        else:
            k = _split(key, kv_lengths)[i] if layout_key == "TND" else key[i][:kv_lengths[i] if kv_lengths else None]
        scores = torch.einsum("nhm,nh->nm", F.relu(torch.einsum("nhd,md->nhm", q.float(), k[:, 0].float())), factor.float())
        allowed = _allowed(q.shape[0], k.shape[0], None, sparse_mode, 0, 0, q.device)
        if allowed is not None:
            scores = scores.masked_fill(~allowed, float("-inf"))
        if k.shape[0] < sparse_count:
            scores = F.pad(scores, (0, sparse_count - k.shape[0]), value=float("-inf"))
        best, at = scores.topk(sparse_count, dim=-1)
        indices.append(at.masked_fill(torch.isinf(best), -1).to(torch.int32).unsqueeze(1))
        values.append(best.to(query.dtype).unsqueeze(1))
    join = torch.cat if is_flat else torch.stack
    return join(indices), join(values) if return_value else query.new_empty(0)


# ---- operators without a composition ----

NOT_PROVIDED = (
    "npu_kv_rmsnorm_rope_cache npu_moe_token_permute npu_moe_token_unpermute npu_interleave_rope "
    "npu_moe_init_routing npu_moe_init_routing_v2 npu_moe_gating_top_k npu_moe_gating_top_k_softmax "
    "npu_moe_compute_expert_tokens npu_moe_finalize_routing npu_top_k_top_p npu_transpose_batchmatmul npu_add_rms_norm_bias "
    "npu_mrope npu_apply_rotary_pos_emb _npu_rotary_embedding npu_clipped_swiglu npu_geglu npu_quantize npu_dtype_cast "
    "npu_weight_quant_batchmatmul npu_dequant_swiglu_quant npu_cross_entropy_loss npu_apply_adam_w npu_scatter_pa_cache "
    "npu_attention_update _npu_matmul_add_fp32 npu_groupmatmul_add_fp32 npu_prompt_flash_attention _npu_flash_attention "
    "_npu_flash_attention_unpad _npu_flash_attention_unpad_v2 _npu_flash_attention_v3 _npu_flash_attention_qlens "
    "_npu_paged_attention_splitfuse _npu_paged_attention_splitfuse_v2 _npu_paged_attention_mla npu_fusion_attention_v2 "
    "npu_swiglu_backward npu_rms_norm_backward npu_fusion_attention_grad npu_causal_conv1d_custom npu_sparse_flash_attention "
    "npu_mla_prolog_v2 npu_mla_prolog_v3 npu_grouped_matmul_swiglu_quant_v2 npu_dynamic_dual_level_mx_quant "
    "npu_dual_level_quant_matmul npu_dynamic_block_quant npu_kronecker_quant npu_matmul_compress_dequant "
    "npu_quant_grouped_matmul_dequant npu_quant_lightning_indexer npu_kv_quant_sparse_flash_attention "
    "npu_chunk_gated_delta_rule npu_recurrent_gated_delta_rule npu_moe_distribute_dispatch npu_moe_distribute_combine "
    "npu_moe_distribute_dispatch_v2 npu_moe_distribute_combine_v2 npu_mm_reduce_scatter_base npu_all_gather_base_mm"
).split()


def not_provided(name):
    """A function in the place of a fused operator that this device does not have."""
    def raising(*args, **kwargs):
        raise NotImplementedError("%s: aclmem.npu has no such operator; docs/TORCH.md lists the operators that it has" % name)

    raising.__name__ = name
    return raising


def functions():
    """{name: function} of all fused operators, as attributes of torch_npu."""
    found = {name: not_provided(name) for name in NOT_PROVIDED}
    found.update({name: getattr(torch.ops.npu, name) for name in {n.partition(".")[0] for n in PROVIDED}})
    return found
