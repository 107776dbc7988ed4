/*
 * Kernels of operators that the fallback cannot serve: allocation, views, sizes, convolution, dropout, recurrent cells,
 * and the choice of attention.  copy.cpp has the copies.
 */
#include "npu.h"

#include <ATen/EmptyTensor.h>
#include <ATen/TensorOperators.h>
#include <ATen/native/DispatchStub.h>
#include <ATen/native/transformers/attention.h>
#include <ATen/native/transformers/sdp_utils_cpp.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/view_native.h>
#include <torch/library.h>

namespace npu
{

namespace
{

Device device_or_current(std::optional<Device> device)
{
    return device && device->has_index() ? *device : Device(kDevice, (DeviceIndex)current_device());
}

Tensor empty_memory_format(at::IntArrayRef sizes, std::optional<at::ScalarType> type, std::optional<at::Layout>,
                           std::optional<Device> device, std::optional<bool>, std::optional<at::MemoryFormat> format)
{
    c10::DeviceGuard guard(device_or_current(device));

    return at::detail::empty_generic(sizes, device_allocator(), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                     type.value_or(c10::get_default_dtype_as_scalartype()), format);
}

Tensor empty_strided_kernel(at::IntArrayRef sizes, at::IntArrayRef strides, std::optional<at::ScalarType> type,
                            std::optional<at::Layout>, std::optional<Device> device, std::optional<bool>)
{
    return empty_strided(sizes, strides, type.value_or(c10::get_default_dtype_as_scalartype()),
                         device_or_current(device));
}

const Tensor &resize_kernel(const Tensor &tensor, at::IntArrayRef sizes, std::optional<at::MemoryFormat> format)
{
    tensor_resize(tensor, sizes, c10::TensorType::contiguousStridesOf(sizes));
    if (format && *format != at::MemoryFormat::Contiguous && *format != at::MemoryFormat::Preserve)
        tensor.unsafeGetTensorImpl()->empty_tensor_restride(*format);
    return tensor;
}

Tensor &set_storage_offset(Tensor &tensor, at::Storage storage, int64_t offset, at::IntArrayRef sizes,
                           at::IntArrayRef strides)
{
    auto *impl = tensor.unsafeGetTensorImpl();

    impl->set_storage_keep_dtype(std::move(storage));
    impl->set_storage_offset(offset);
    tensor_resize(tensor, sizes,
                  strides.empty() && !sizes.empty() ? c10::TensorType::contiguousStridesOf(sizes) : strides.vec());
    return tensor;
}

Tensor &set_storage(Tensor &tensor, at::Storage storage)
{
    int64_t n = (int64_t)(storage.nbytes() / tensor.itemsize());

    return set_storage_offset(tensor, std::move(storage), 0, {n}, {});
}

Tensor &set_tensor(Tensor &tensor, const Tensor &source)
{
    return set_storage_offset(tensor, source.storage(), source.storage_offset(), source.sizes(), source.strides());
}

Tensor &set_empty(Tensor &tensor)
{
    c10::DeviceGuard guard(tensor.device());
    c10::Storage storage(c10::Storage::use_byte_size_t(), 0, device_allocator()->allocate(0), device_allocator(), true);

    return set_storage_offset(tensor, std::move(storage), 0, {0}, {});
}

Tensor reshape_alias(const Tensor &tensor, at::IntArrayRef sizes, at::IntArrayRef strides)
{
    return at::native::as_strided_tensorimpl(tensor, sizes, strides, tensor.storage_offset());
}

void record_stream_kernel(Tensor &tensor, c10::Stream stream)
{
    record_stream(tensor.storage().data_ptr(), stream_find(stream.device_index(), stream.id()));
}

/* ---- convolution: PyTorch calls the *_overrideable pair for this device ---- */

void convolution(const c10::OperatorHandle &, Stack *stack)
{
    static auto handle = c10::Dispatcher::singleton().findSchemaOrThrow("aten::convolution", "");

    run_operator(handle, stack);
}

/* convolution_backward has one more argument behind the weight: the size of the bias. */
void convolution_backward(const c10::OperatorHandle &, Stack *stack)
{
    static auto handle = c10::Dispatcher::singleton().findSchemaOrThrow("aten::convolution_backward", "");
    size_t base = stack->size() - 10;
    const Tensor weight = (*stack)[base + 2].toTensor();
    bool is_transposed = (*stack)[base + 6].toBool();
    int64_t groups = (*stack)[base + 8].toInt();
    int64_t channels = is_transposed ? weight.size(1) * groups : weight.size(0);

    stack->insert(stack->begin() + (ptrdiff_t)base + 3, IValue(std::vector<int64_t>{channels}));
    run_operator(handle, stack);
}

/* The CPU kernel uses the process's default generator; this one uses the device's. */
std::tuple<Tensor, Tensor> native_dropout(const Tensor &input, double p, std::optional<bool> train)
{
    if (train && !*train)
        return {input.clone(), at::ones_like(input, input.options().dtype(at::kBool))};
    Tensor mask = at::empty_like(input, input.options().dtype(at::kBool));

    mask.bernoulli_(1 - p);
    return {at::mul(at::mul(input, mask), at::Scalar(p == 1 ? 0.0 : 1 / (1 - p))), mask};
}

/* ---- cells of nn.LSTM and nn.GRU: PyTorch has these forms for devices only; the parts have gradients ---- */

std::vector<Tensor> gates_of(const Tensor &gates, const std::optional<Tensor> &bias, int64_t n)
{
    return (bias && bias->defined() ? gates + *bias : gates).chunk(n, 1);
}

std::tuple<Tensor, Tensor, Tensor> lstm_cell(const Tensor &input, const Tensor &hidden, const Tensor &cell,
                                             const std::optional<Tensor> &input_bias,
                                             const std::optional<Tensor> &hidden_bias)
{
    auto i = gates_of(input, input_bias, 4);
    auto h = gates_of(hidden, hidden_bias, 4);
    Tensor next = (i[1] + h[1]).sigmoid() * cell + (i[0] + h[0]).sigmoid() * (i[2] + h[2]).tanh();

    return {(i[3] + h[3]).sigmoid() * next.tanh(), next, Tensor()};
}

std::tuple<Tensor, Tensor> gru_cell(const Tensor &input, const Tensor &hidden, const Tensor &state,
                                    const std::optional<Tensor> &input_bias, const std::optional<Tensor> &hidden_bias)
{
    auto i = gates_of(input, input_bias, 3);
    auto h = gates_of(hidden, hidden_bias, 3);
    Tensor next = (i[2] + (i[0] + h[0]).sigmoid() * h[2]).tanh();

    return {(state - next) * (i[1] + h[1]).sigmoid() + next, Tensor()};
}

/* Composite kernels would win over the fallback: one task instead of many. */
void as_task(const c10::OperatorHandle &handle, Stack *stack)
{
    run_operator(handle, stack);
}

int64_t attention_choice(const Tensor &, const Tensor &, const Tensor &, const std::optional<Tensor> &, double, bool,
                         std::optional<double>, bool)
{
    return (int64_t)sdp::SDPBackend::math;
}

} // namespace

} // namespace npu

namespace at::native
{
REGISTER_PRIVATEUSE1_DISPATCH(_fused_sdp_choice_stub, &npu::attention_choice)
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m)
{
    m.impl("empty.memory_format", npu::empty_memory_format);
    m.impl("empty_strided", npu::empty_strided_kernel);
    m.impl("resize_", npu::resize_kernel);
    m.impl("as_strided", at::native::as_strided_tensorimpl);
    m.impl("view", at::native::view);
    m.impl("_reshape_alias", npu::reshape_alias);
    m.impl("set_.source_Storage_storage_offset", npu::set_storage_offset);
    m.impl("set_.source_Storage", npu::set_storage);
    m.impl("set_.source_Tensor", npu::set_tensor);
    m.impl("set_", npu::set_empty);
    m.impl("record_stream", npu::record_stream_kernel);
    m.impl("convolution_overrideable", torch::CppFunction::makeFromBoxedFunction<&npu::convolution>());
    m.impl("convolution_backward_overrideable",
           torch::CppFunction::makeFromBoxedFunction<&npu::convolution_backward>());
    m.impl("native_dropout", npu::native_dropout);
    m.impl("_thnn_fused_lstm_cell", npu::lstm_cell);
    m.impl("_thnn_fused_gru_cell", npu::gru_cell);
    for (const char *name : {"native_layer_norm", "native_group_norm", "mse_loss", "smooth_l1_loss"})
        m.impl(name, torch::CppFunction::makeFromBoxedFunction<&npu::as_task>());
}

TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, m)
{
    m.impl("_thnn_fused_lstm_cell", npu::lstm_cell);
    m.impl("_thnn_fused_gru_cell", npu::gru_cell);
}
